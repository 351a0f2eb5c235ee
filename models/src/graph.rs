//! Operator graphs: layers in the order in which a sample goes through them.

use crate::model::{Gpt, Mlp};
use crate::operator::{Attention, Mask, Operator, OperatorKind, Pass, Sharing, Split, Storage};
use trainyard_units::Flops;

/// What a layer is to the cutting of a model into stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerRole {
    /// Turns input into activations; always in the first stage.
    Input,
    /// One of the repeated layers.
    Block,
    /// Turns activations into the loss; always in the last stage.
    Output,
}

/// A layer: the unit that is assigned to pipeline stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// `embedding`, `block`, `head`, …
    pub name: &'static str,
    /// Where it may stand.
    pub role: LayerRole,
    /// What it computes for one sample, in order.
    pub operators: Vec<Operator>,
    /// Elements per sample handed to the next layer.
    pub output_elements: u64,
    /// Elements per sample of the residual stream: what one reduction sums, and what recomputation starts from.
    pub stream_elements: u64,
    /// Under tensor parallelism: all-reduces of `stream_elements` in each direction.
    pub tensor_reductions: u32,
    /// Elements per sample that one all-to-all among the ranks that share experts moves from each rank. There are two
    /// in each direction, to the experts and back; nothing in a layer without experts.
    pub exchanged_elements: u64,
    /// Elements per sample, keys and values, that go round the ring of context-parallel ranks forward; nothing in a
    /// layer without self-attention.
    pub context_elements: u64,
}

impl Layer {
    /// Trainable values on one of the ranks that share the layer.
    pub fn parameters(&self, sharing: Sharing) -> u64 {
        self.operators.iter().map(|operator| operator.on_rank(1, sharing).parameters()).sum()
    }

    /// Those of [`Self::parameters`] that belong to experts: ranks that share experts do not hold the same ones, so
    /// fewer ranks sum their gradients.
    pub fn expert_parameters(&self, sharing: Sharing) -> u64 {
        let experts = self.operators.iter().filter(|operator| operator.kind.is_expert());
        experts.map(|operator| operator.on_rank(1, sharing).parameters()).sum()
    }

    /// Trainable tensors.
    pub fn parameter_tensors(&self) -> u32 {
        self.operators.iter().map(|operator| operator.kind.parameter_tensors()).sum()
    }

    /// Arithmetic of one pass over one sample, unsplit.
    pub fn flops(&self, pass: Pass) -> Flops {
        self.operators.iter().map(|operator| operator.kind.flops(pass)).sum()
    }

    /// Activations that one of the ranks that share the layer keeps of `samples` samples from forward to backward.
    pub fn stored(&self, samples: u64, sharing: Sharing) -> Storage {
        self.operators
            .iter()
            .map(|operator| operator.stored(samples, sharing))
            .fold(Storage::default(), std::ops::Add::add)
    }

    /// The same if the scores and weights of attention are computed again in backward (Korthikanti et al.,
    /// arXiv:2205.05198, section 5).
    pub fn stored_without_core(&self, samples: u64, sharing: Sharing) -> Storage {
        let without = |operator: &Operator| match operator.on_rank(samples, sharing) {
            OperatorKind::Attention(attention) => attention.stored_without_core(),
            _ => operator.stored(samples, sharing),
        };
        self.operators.iter().map(without).fold(Storage::default(), std::ops::Add::add)
    }

    /// Elements of the residual stream of `samples` samples that one of those ranks holds.
    pub fn stream_on_rank(&self, samples: u64, sharing: Sharing) -> u64 {
        self.stream_elements.div_ceil(sharing.context).div_ceil(sharing.token_parts()) * samples
    }
}

/// All layers of a model. Equal layers are held once: `order` refers to `distinct`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorGraph {
    distinct: Vec<Layer>,
    order: Vec<usize>,
    /// Parameters of the first layer that the last layer also uses; their gradients are summed over both.
    shared_parameters: u64,
}

impl OperatorGraph {
    /// The layers in order.
    pub fn layers(&self) -> impl ExactSizeIterator<Item = &Layer> + Clone {
        self.order.iter().map(|index| &self.distinct[*index])
    }

    /// The layer at an index.
    ///
    /// # Panics
    ///
    /// When there is no such layer.
    pub fn layer(&self, index: usize) -> &Layer {
        &self.distinct[self.order[index]]
    }

    /// How many layers there are, input and output layers included.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Never true: a model has layers.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The layers that differ from one another.
    pub fn distinct(&self) -> &[Layer] {
        &self.distinct
    }

    /// Per layer, which of [`Self::distinct`] it is.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Trainable values of the whole model.
    pub fn parameters(&self) -> u64 {
        self.layers().map(|layer| layer.parameters(Sharing::WHOLE)).sum()
    }

    /// Parameters that the first and the last layer share (a tied embedding), counted once in [`Self::parameters`].
    pub fn shared_parameters(&self) -> u64 {
        self.shared_parameters
    }

    /// Experts of each layer that has any; nothing in a dense model.
    pub fn experts(&self) -> u64 {
        self.distinct
            .iter()
            .flat_map(|layer| &layer.operators)
            .map(|operator| operator.kind.experts())
            .max()
            .unwrap_or(0)
    }

    /// Tokens of a sample that ranks may share (context parallelism): those of its self-attention, if it has any.
    pub fn tokens_shared_by_context(&self) -> Option<u64> {
        let operators = self.distinct.iter().flat_map(|layer| &layer.operators);
        operators
            .filter_map(|operator| match operator.kind {
                OperatorKind::Attention(attention) => Some(attention.queries),
                _ => None,
            })
            .max()
    }

    /// Arithmetic of one pass over one sample.
    pub fn flops(&self, pass: Pass) -> Flops {
        self.layers().map(|layer| layer.flops(pass)).sum()
    }

    /// Arithmetic that a training step needs per sample, without recomputation: the numerator of MFU.
    pub fn training_flops(&self) -> Flops {
        self.flops(Pass::Forward) + self.flops(Pass::Backward)
    }

    pub(crate) fn of_gpt(gpt: &Gpt) -> Self {
        let block = gpt_block(gpt);
        let mut order = vec![0];
        order.extend(std::iter::repeat_n(1, gpt.layers as usize));
        order.push(2);
        Self {
            distinct: vec![gpt_embedding(gpt), block, gpt_head(gpt)],
            order,
            shared_parameters: gpt.vocab * gpt.hidden,
        }
    }

    pub(crate) fn of_mlp(mlp: &Mlp) -> Self {
        let first = mlp_layer("input", LayerRole::Input, mlp.inputs, mlp.hidden);
        let block = mlp_layer("hidden", LayerRole::Block, mlp.hidden, mlp.hidden);
        let mut last = mlp_layer("output", LayerRole::Output, mlp.hidden, mlp.outputs);
        last.operators[1] = replicated(OperatorKind::CrossEntropy { rows: 1, vocab: mlp.outputs });
        let mut order = vec![0];
        order.extend(std::iter::repeat_n(1, mlp.layers as usize - 1));
        order.push(2);
        Self { distinct: vec![first, block, last], order, shared_parameters: 0 }
    }
}

fn replicated(kind: OperatorKind) -> Operator {
    Operator { kind, split: Split::Replicated }
}

fn gpt_embedding(gpt: &Gpt) -> Layer {
    let kind =
        OperatorKind::Embedding { rows: gpt.seq_len, vocab: gpt.vocab, positions: gpt.seq_len, width: gpt.hidden };
    Layer {
        name: "embedding",
        role: LayerRole::Input,
        operators: vec![Operator { kind, split: Split::Width }],
        output_elements: gpt.seq_len * gpt.hidden,
        stream_elements: gpt.seq_len * gpt.hidden,
        tensor_reductions: 1,
        exchanged_elements: 0,
        context_elements: 0,
    }
}

/// Pre-normalisation block: attention, then the feed-forward part, each ending in a row-split product that tensor
/// parallelism reduces (Shoeybi et al., arXiv:1909.08053, section 3).
fn gpt_block(gpt: &Gpt) -> Layer {
    let (rows, hidden, ffn) = (gpt.seq_len, gpt.hidden, gpt.ffn);
    let linear =
        |inputs, outputs, split| Operator { kind: OperatorKind::Linear { rows, inputs, outputs, bias: true }, split };
    let tokens = |kind| Operator { kind, split: Split::Tokens };
    let norm = tokens(OperatorKind::LayerNorm { rows, width: hidden });
    let residual = tokens(OperatorKind::Residual { rows, width: hidden });
    let attention = OperatorKind::Attention(Attention {
        samples: 1,
        heads: gpt.heads,
        kv_heads: gpt.heads,
        queries: rows,
        keys: rows,
        own_keys: rows,
        head_width: hidden / gpt.heads,
        kernel: gpt.attention,
        mask: Mask::Causal,
        dropout: true,
        biased: false,
    });
    Layer {
        name: "block",
        role: LayerRole::Block,
        operators: vec![
            norm,
            linear(hidden, 3 * hidden, Split::Columns),
            Operator { kind: attention, split: Split::Width },
            linear(hidden, hidden, Split::Rows),
            residual,
            norm,
            linear(hidden, ffn, Split::Columns),
            Operator { kind: OperatorKind::Activation { rows, width: ffn }, split: Split::Width },
            linear(ffn, hidden, Split::Rows),
            residual,
        ],
        output_elements: rows * hidden,
        stream_elements: rows * hidden,
        tensor_reductions: 2,
        exchanged_elements: 0,
        context_elements: 2 * rows * hidden,
    }
}

fn gpt_head(gpt: &Gpt) -> Layer {
    let (rows, width, vocab) = (gpt.seq_len, gpt.hidden, gpt.vocab);
    Layer {
        name: "head",
        role: LayerRole::Output,
        operators: vec![
            Operator { kind: OperatorKind::LayerNorm { rows, width }, split: Split::Tokens },
            Operator { kind: OperatorKind::TiedHead { rows, width, vocab }, split: Split::Columns },
            Operator { kind: OperatorKind::CrossEntropy { rows, vocab }, split: Split::Width },
        ],
        output_elements: rows,
        stream_elements: rows,
        tensor_reductions: 1,
        exchanged_elements: 0,
        context_elements: 0,
    }
}

fn mlp_layer(name: &'static str, role: LayerRole, inputs: u64, outputs: u64) -> Layer {
    Layer {
        name,
        role,
        operators: vec![
            replicated(OperatorKind::Linear { rows: 1, inputs, outputs, bias: true }),
            replicated(OperatorKind::Activation { rows: 1, width: outputs }),
        ],
        output_elements: outputs,
        stream_elements: outputs,
        tensor_reductions: 0,
        exchanged_elements: 0,
        context_elements: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::AttentionKernel;

    fn gpt(layers: u32, hidden: u64, heads: u64) -> Gpt {
        Gpt {
            name: "test".into(),
            layers,
            hidden,
            heads,
            ffn: 4 * hidden,
            vocab: 50257,
            seq_len: 1024,
            attention: AttentionKernel::Unfused,
        }
    }

    #[test]
    fn a_block_sums_to_the_published_activation_bytes() {
        // Korthikanti et al., equation 1: s·b·h·(34 + 5·a·s/h) bytes in half precision.
        let model = gpt(1, 768, 12);
        let graph = OperatorGraph::of_gpt(&model);
        let (s, b, h, a) = (1024, 3, 768, 12);
        assert_eq!(graph.distinct()[1].stored(b, Sharing::WHOLE).bytes(2).0, s * b * h * 34 + 5 * a * s * s * b);
    }

    #[test]
    fn sequence_parallelism_divides_all_of_a_blocks_activations() {
        // Korthikanti et al., equation 2 without and equation 4 with sequence parallelism, in half precision.
        let model = gpt(1, 768, 12);
        let graph = OperatorGraph::of_gpt(&model);
        let (s, b, h, a, t) = (1024, 3, 768, 12, 4);
        let stored = |sharing| graph.distinct()[1].stored(b, sharing).bytes(2).0;
        let tensor = Sharing::tensor(t);
        assert_eq!(stored(tensor), s * b * h * (10 + 24 / t) + 5 * a * s * s * b / t);
        assert_eq!(stored(Sharing { sequence: true, ..tensor }), (s * b * h * 34 + 5 * a * s * s * b) / t);
    }

    #[test]
    fn parameters_depend_on_neither_context_nor_sequence() {
        let graph = OperatorGraph::of_gpt(&gpt(1, 768, 12));
        for layer in graph.distinct() {
            let tensor = Sharing::tensor(4);
            let shared = Sharing { sequence: true, context: 8, ..tensor };
            assert_eq!(layer.parameters(shared), layer.parameters(tensor));
        }
    }

    #[test]
    fn a_block_sums_to_the_documented_traffic_and_kernels() {
        let model = gpt(1, 768, 12);
        let graph = OperatorGraph::of_gpt(&model);
        let sum = |pass| -> (u64, u32) {
            graph.distinct()[1].operators.iter().fold((0, 0), |(bytes, kernels), operator| {
                (bytes + operator.kind.traffic(pass).bytes(2).0, kernels + operator.kind.kernels(pass))
            })
        };
        let (t, h, f, scores) = (1024, 768, 3072, 12 * 1024 * 1024);
        assert_eq!(sum(Pass::Forward), (30 * t * h + 4 * t * f + 9 * scores, 24));
        assert_eq!(sum(Pass::Backward), (44 * t * h + 8 * t * f + 11 * scores, 40));
    }
}
