//! Decoder-only transformers as GPT-2, dense or with experts.

use super::transformer::{Experts, FeedForward, Heads, Stream, operator};
use crate::fields::Fields;
use crate::graph::OperatorGraph;
use crate::operator::{AttentionKernel, Mask, OperatorKind, Split};
use crate::spec::{Family, ModelError, ModelSpec};

const FIELDS: [&str; 7] = ["layers", "hidden", "heads", "ffn", "vocab", "seq_len", "attention"];
const EXPERT_FIELDS: [&str; 6] =
    ["experts", "experts_per_token", "expert_interval", "capacity_factor", "expert_group", "tied_head"];

/// A decoder-only transformer as GPT-2: learned positions, pre-normalisation, GELU, head tied to the token table.
///
/// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpt {
    /// Catalog id or the user's name.
    pub name: String,
    /// Blocks.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Attention heads.
    pub heads: u64,
    /// Width inside the feed-forward part.
    pub ffn: u64,
    /// Entries of the token table.
    pub vocab: u64,
    /// Tokens of a sample, and entries of the position table.
    pub seq_len: u64,
    /// How attention is computed.
    pub attention: AttentionKernel,
}

/// The same with experts in place of the feed-forward part of every n-th block: two products with a ReLU between them
/// and no biases.
///
/// Source: Lepikhin et al., "GShard", arXiv:2006.16668, section 2.
#[derive(Clone, Debug, PartialEq)]
pub struct GptMoe {
    /// What it shares with a dense decoder; `ffn` is that of experts, too.
    pub dense: Gpt,
    /// The experts.
    pub experts: Experts,
    /// Whether the head's weight is the token table.
    pub tied_head: bool,
}

impl Gpt {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        Self::read(&Fields::new(spec, &[&FIELDS])?)
    }

    fn read(fields: &Fields) -> Result<Self, ModelError> {
        let spec = fields.spec();
        let hidden = fields.hidden()?;
        Ok(Self {
            name: spec.name.clone(),
            layers: fields.layers()?,
            hidden,
            heads: fields.dividing_heads(hidden)?,
            ffn: fields.ffn(hidden)?,
            vocab: fields.vocab()?,
            seq_len: fields.seq_len()?,
            attention: fields.attention(),
        })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        ModelSpec {
            layers: Some(self.layers),
            hidden: Some(self.hidden),
            heads: Some(self.heads),
            ffn: Some(self.ffn),
            vocab: Some(self.vocab),
            seq_len: Some(self.seq_len),
            attention: Some(self.attention),
            ..ModelSpec::new(&self.name, Family::Gpt)
        }
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
        let stream = self.stream();
        let block = stream.block(self.heads(), stream.feed_forward(self.ffn), 0);
        let head = self.head(true);
        OperatorGraph::of_equal_blocks(self.embedding(), block, self.layers, head, self.vocab * self.hidden)
    }

    fn stream(&self) -> Stream {
        Stream::gelu(self.seq_len, self.hidden, true)
    }

    fn heads(&self) -> Heads {
        Heads::equal(self.heads, self.hidden / self.heads, self.attention, Mask::Causal)
    }

    fn embedding(&self) -> crate::Layer {
        let kind = OperatorKind::Embedding {
            rows: self.seq_len,
            vocab: self.vocab,
            positions: self.seq_len,
            segments: 0,
            width: self.hidden,
            dropout: true,
        };
        self.stream().input(vec![operator(kind, Split::Width)])
    }

    fn head(&self, tied: bool) -> crate::Layer {
        let mut operators = vec![self.stream().norm()];
        operators.extend(self.stream().logits(self.vocab, tied, false));
        Stream::head(self.seq_len, operators)
    }
}

impl GptMoe {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&FIELDS, &EXPERT_FIELDS])?;
        let dense = Gpt::read(&fields)?;
        let experts = fields.experts(dense.hidden, dense.ffn, 2)?;
        Ok(Self { dense, experts, tied_head: spec.tied_head.unwrap_or(true) })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        let dense = ModelSpec { family: Family::GptMoe, tied_head: Some(self.tied_head), ..self.dense.spec() };
        dense.with_experts(&self.experts)
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
        let Self { dense, experts, tied_head } = self;
        let stream = dense.stream();
        let block = stream.block(dense.heads(), stream.feed_forward(dense.ffn), 0);
        let routed = Stream { feed_forward: FeedForward::Relu, ..stream };
        let expert_block =
            stream.block(dense.heads(), routed.expert_feed_forward(*experts, dense.ffn), stream.exchanged(*experts));
        let mut order = vec![0];
        order.extend((0..dense.layers).map(|index| if experts.are_in(index) { 2 } else { 1 }));
        order.push(3);
        let shared = if *tied_head { dense.vocab * dense.hidden } else { 0 };
        let layers = vec![dense.embedding(), block, expert_block, dense.head(*tied_head)];
        OperatorGraph::new(layers, order, shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::{Pass, Sharing};

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
        let graph = model.graph();
        let (s, b, h, a) = (1024, 3, 768, 12);
        assert_eq!(graph.distinct()[1].stored(b, Sharing::WHOLE).bytes(2).0, s * b * h * 34 + 5 * a * s * s * b);
    }

    #[test]
    fn sequence_parallelism_divides_all_of_a_blocks_activations() {
        // Korthikanti et al., equation 2 without and equation 4 with sequence parallelism, in half precision.
        let model = gpt(1, 768, 12);
        let graph = model.graph();
        let (s, b, h, a, t) = (1024, 3, 768, 12, 4);
        let stored = |sharing| graph.distinct()[1].stored(b, sharing).bytes(2).0;
        let tensor = Sharing::tensor(t);
        assert_eq!(stored(tensor), s * b * h * (10 + 24 / t) + 5 * a * s * s * b / t);
        assert_eq!(stored(Sharing { sequence: true, ..tensor }), (s * b * h * 34 + 5 * a * s * s * b) / t);
    }

    #[test]
    fn parameters_depend_on_neither_context_nor_sequence() {
        let graph = gpt(1, 768, 12).graph();
        for layer in graph.distinct() {
            let tensor = Sharing::tensor(4);
            let shared = Sharing { sequence: true, context: 8, ..tensor };
            assert_eq!(layer.parameters(shared), layer.parameters(tensor));
        }
    }

    #[test]
    fn a_block_sums_to_the_documented_traffic_and_kernels() {
        let model = gpt(1, 768, 12);
        let graph = model.graph();
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
