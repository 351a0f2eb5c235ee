//! Decoders with a memory of the segment before, as Transformer-XL.

use super::parts::{FeedForward, Heads, Norm, Stream, operator};
use crate::families::fields::{
    Field, LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, dimensions, kernel, needed, or,
};
use crate::families::model::{Architecture, Sample};
use crate::graph::{Layer, OperatorGraph};
use crate::operator::{AttentionKernel, Mask, Operator, OperatorKind, RelativePositions, Split};
use trainyard_units::Invalid;

dimensions! {
    /// A decoder-only transformer whose segments attend to themselves and to what the layer below made of the segment
    /// before: relative positions, post-normalisation, ReLU, an adaptive vocabulary whose tables are those of the head too.
    /// A sample is a segment.
    ///
    /// Source: Dai et al., arXiv:1901.02860, sections 3.2 and 3.3; Grave et al., arXiv:1609.04309, and Baevski and Auli,
    /// arXiv:1809.10853, section 3, for the vocabulary.
    pub struct TransformerXl {
        name,
        hidden: u64 = needed(WIDTH_MAX),
        heads: u64 = attention_heads(hidden),
        head_width: u64 = or(hidden / heads, WIDTH_MAX),
        vocab: u64 = needed(VOCABULARY_MAX),
        /// Tokens of a segment.
        seq_len: u64 = needed(SEQUENCE_MAX),
        /// The first tokens of the clusters of the vocabulary but the first, which begins at 0.
        cutoffs: Vec<u64> = ascending(vocab) unless Vec::new(),
        layers: u32 = needed(LAYERS_MAX),
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        attention: AttentionKernel = kernel(),
        memory: u64 = or(seq_len, SEQUENCE_MAX),
        cluster_divisor: u64 = or(1, WIDTH_MAX),
    }
}

/// Tokens of similar frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cluster {
    /// Tokens that are told apart.
    vocab: u64,
    /// Features of their embeddings.
    width: u64,
    /// Tokens of a segment that belong to it.
    tokens: u64,
}

/// Reads the first tokens of clusters, each before the next.
fn ascending(at: Field, written: Option<Vec<u64>>, vocab: u64) -> Result<Vec<u64>, Invalid> {
    let cutoffs = written.unwrap_or_default();
    let ends = cutoffs.iter().copied().chain([vocab]);
    match cutoffs.iter().copied().zip(ends.skip(1)).find(|(from, to)| from >= to) {
        Some((cutoff, end)) => Err(Invalid::breaks(at.name, cutoff, format!("its cluster ends at {end}"))
            .with_hint("write cutoffs in ascending order, below vocab")),
        None => cutoffs.into_iter().map(|cutoff| at.range(cutoff, VOCABULARY_MAX)).collect(),
    }
}

impl Architecture for TransformerXl {
    fn sample(&self) -> Sample {
        Sample::Tokens(self.seq_len)
    }

    fn tensor_heads(&self) -> Option<u64> {
        Some(self.heads)
    }

    fn graph(&self) -> OperatorGraph {
        let shared = self.clusters().iter().map(|cluster| cluster.vocab * cluster.width).sum();
        let blocks = [(self.block(true), 1), (self.block(false), self.layers - 1)];
        let runs = [(self.embedding(), 1)].into_iter().chain(blocks).chain([(self.head(), 1)]);
        OperatorGraph::of_runs(runs, shared)
    }
}

impl TransformerXl {
    fn stream(&self) -> Stream {
        Stream {
            tokens: self.seq_len,
            hidden: self.hidden,
            norm: Norm::Layer,
            feed_forward: FeedForward::Relu,
            dropout: true.into(),
            bias: true,
        }
    }

    /// Queries, keys and values are projected of memory and segment together, as the published code does, which then
    /// drops the queries of the memory. Only feed-forward parts have biases.
    fn block(&self, owns_biases: bool) -> Layer {
        let (stream, keys) = (self.stream(), self.memory + self.seq_len);
        let plain = Stream { bias: false, ..stream };
        let equal = Heads::equal(self.heads, self.head_width, self.attention, Mask::Causal);
        let heads = Heads { biased: true, ..equal };
        let width = self.heads * self.head_width;
        let relative = RelativePositions {
            samples: 1,
            heads: self.heads,
            queries: self.seq_len,
            keys,
            head_width: self.head_width,
            width: self.hidden,
            owns_biases,
        };
        let part = vec![
            Stream { tokens: keys, ..plain }.linear(self.hidden, 3 * width, Split::Columns),
            operator(OperatorKind::RelativePositions(relative), Split::Width),
            plain.core(heads, keys),
            plain.linear(width, self.hidden, Split::Rows),
        ];
        let block = stream.block_of(part, stream.feed_forward(self.ffn));
        Layer { context_elements: keys * heads.kv_width(), ..block }
    }

    /// Returns the vocabulary in parts; how often each is seen follows from Zipf's law.
    fn clusters(&self) -> Vec<Cluster> {
        let mut start = 0;
        let ends = self.cutoffs.iter().copied().chain([self.vocab]);
        ends.zip(0..)
            .map(|(end, index)| {
                let share = zipf_share(start, end, self.vocab);
                let cluster = Cluster {
                    vocab: end - start,
                    width: (self.hidden / self.cluster_divisor.saturating_pow(index)).max(1),
                    tokens: (self.seq_len as f64 * share).ceil() as u64,
                };
                start = end;
                cluster
            })
            .collect()
    }

    /// Returns `true` where embeddings are brought to the width of the stream.
    fn projects(&self) -> bool {
        self.cluster_divisor > 1
    }

    fn embedding(&self) -> Layer {
        let looked_up = |rows, vocab, width| {
            let kind = OperatorKind::Embedding { rows, vocab, positions: 0, segments: 0, width, dropout: true };
            operator(kind, Split::Width)
        };
        let mut operators = Vec::new();
        if self.projects() {
            for Cluster { vocab, width, tokens } in self.clusters() {
                operators.extend([looked_up(tokens, vocab, width), product(tokens, width, self.hidden, false)]);
            }
        } else {
            operators.push(looked_up(self.seq_len, self.vocab, self.hidden));
        }
        self.stream().input(operators)
    }

    /// The most frequent tokens and the other clusters are scored for all tokens, the members of a cluster for
    /// those tokens that belong to it. Projections of the other clusters are those of their embeddings.
    fn head(&self) -> Layer {
        let clusters = self.clusters();
        let others = clusters.len() as u64 - 1;
        let mut operators = Vec::new();
        if others > 0 {
            operators.push(product(self.seq_len, self.hidden, others, true));
        }
        for (index, cluster) in clusters.into_iter().enumerate() {
            let rows = if index == 0 { self.seq_len } else { cluster.tokens };
            let projected = OperatorKind::TiedHead { rows, width: self.hidden, vocab: cluster.width, bias: false };
            match (self.projects(), index) {
                (false, _) => {}
                (true, 0) => operators.push(product(rows, self.hidden, cluster.width, false)),
                (true, _) => operators.push(operator(projected, Split::Tokens)),
            }
            let scored = Stream { tokens: rows, hidden: cluster.width, ..self.stream() };
            operators.extend(scored.logits(cluster.vocab, true, true));
        }
        Stream::head(self.seq_len, operators)
    }
}

fn product(rows: u64, inputs: u64, outputs: u64, bias: bool) -> Operator {
    operator(OperatorKind::Linear { rows, inputs, outputs, bias }, Split::Tokens)
}

/// Returns the share of a text that tokens of these ranks have, of so many by frequency: the n-th is seen 1/n as often
/// as the first (Zipf, "Human Behavior and the Principle of Least Effort", 1949).
fn zipf_share(from: u64, to: u64, vocab: u64) -> f64 {
    (harmonic(to) - harmonic(from)) / harmonic(vocab)
}

/// Returns the sum of 1/n up to a number, by Euler's approximation: off by less than 1/(120 n⁴).
fn harmonic(number: u64) -> f64 {
    const EULER: f64 = 0.577_215_664_901_532_9;
    if number == 0 {
        return 0.0;
    }
    let n = number as f64;
    n.ln() + EULER + 1.0 / (2.0 * n) - 1.0 / (12.0 * n * n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, ModelSpec};

    #[test]
    fn shares_of_a_vocabulary_follow_from_the_sum_one_by_one() {
        let sum = |from: u64, to: u64| (from + 1..=to).map(|rank| 1.0 / rank as f64).sum::<f64>();
        for (from, to) in [(0, 100), (100, 1_000), (1_000, 5_000)] {
            let share = zipf_share(from, to, 5_000);
            assert!((share - sum(from, to) / sum(0, 5_000)).abs() < 1e-3, "{share}");
        }
    }

    #[test]
    fn a_memory_is_attended_to_and_projected_but_makes_no_queries() {
        let spec = crate::find("transformer-xl-base").expect("in the catalog").model.spec();
        let flops = |memory| {
            let spec = ModelSpec { memory: Some(memory), ..spec.clone() };
            Model::try_from(spec).expect("valid").graph().layer(2).flops(crate::Pass::Forward).0
        };
        // For each token of memory three projections of 512 by 512 and that of its distance, and for each of 192
        // queries two scores and a value of 512 features.
        let added = 2.0 * 100.0 * (4.0 * 512.0 * 512.0 + 192.0 * 3.0 * 512.0);
        assert!((flops(292) - flops(192) - added).abs() < 1.0);
    }
}
