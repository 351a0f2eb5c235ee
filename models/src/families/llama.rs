//! Decoders as Llama, dense or with experts.

use super::transformer::{Experts, FeedForward, Heads, Norm, Stream, operator};
use crate::fields::{Fields, SEQUENCE_MAX};
use crate::graph::{Layer, OperatorGraph};
use crate::operator::{AttentionKernel, Mask, OperatorKind, Split};
use crate::spec::{Family, ModelError, ModelSpec};

const FIELDS: [&str; 18] = [
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_width",
    "ffn",
    "vocab",
    "seq_len",
    "attention",
    "window",
    "rotary_base",
    "norm_epsilon",
    "tied_head",
    "experts",
    "experts_per_token",
    "expert_interval",
    "capacity_factor",
    "expert_group",
];

/// The base of rotary positions where nothing is said (Su et al., arXiv:2104.09864, section 3.4.3).
const ROTARY_BASE: f64 = 10_000.0;

/// The epsilon of normalisations where nothing is said, that of Llama 2 and 3 and of Mistral.
const NORM_EPSILON: f64 = 1e-5;

const ROTARY_BASE_MAX: u64 = 1 << 40;

/// A decoder-only transformer as Llama 2 and 3, Mistral and Mixtral: root-mean-square pre-normalisation, rotary
/// positions, grouped-query attention, gated feed-forward parts, no biases, no dropout, a head of its own.
///
/// Source: Touvron et al., arXiv:2307.09288, section 2.2; Jiang et al., arXiv:2310.06825 (window) and
/// arXiv:2401.04088 (experts).
#[derive(Clone, Debug, PartialEq)]
pub struct Llama {
    /// Catalog id or the user's name.
    pub name: String,
    /// Blocks.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Features of a head.
    pub head_width: u64,
    /// Width inside the feed-forward part, or inside an expert.
    pub ffn: u64,
    /// Entries of the token table.
    pub vocab: u64,
    /// Tokens of a sample.
    pub seq_len: u64,
    /// How attention is computed.
    pub attention: AttentionKernel,
    /// Tokens that a query sees at most.
    pub window: Option<u64>,
    /// Base of the frequencies by which positions turn queries and keys.
    pub rotary_base: f64,
    /// What is added to mean squares before their root.
    pub norm_epsilon: f64,
    /// Whether the head's weight is the token table.
    pub tied_head: bool,
    /// Experts, if feed-forward parts have any.
    pub experts: Option<Experts>,
}

impl Llama {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&FIELDS])?;
        let hidden = fields.hidden()?;
        let (heads, head_width) = fields.heads(hidden)?;
        let ffn = fields.ffn(hidden)?;
        Ok(Self {
            name: spec.name.clone(),
            layers: fields.layers()?,
            hidden,
            heads,
            kv_heads: fields.kv_heads(heads)?,
            head_width,
            ffn,
            vocab: fields.vocab()?,
            seq_len: fields.seq_len()?,
            attention: fields.attention(),
            window: spec.window.map(|window| fields.range("window", window, SEQUENCE_MAX)).transpose()?,
            rotary_base: fields.positive("rotary_base", spec.rotary_base, ROTARY_BASE, ROTARY_BASE_MAX)?,
            norm_epsilon: fields.positive("norm_epsilon", spec.norm_epsilon, NORM_EPSILON, 1)?,
            tied_head: spec.tied_head.unwrap_or(false),
            experts: if spec.has_experts() { Some(fields.experts(hidden, ffn, 1)?) } else { None },
        })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        let dense = ModelSpec {
            layers: Some(self.layers),
            hidden: Some(self.hidden),
            heads: Some(self.heads),
            kv_heads: Some(self.kv_heads),
            head_width: Some(self.head_width),
            ffn: Some(self.ffn),
            vocab: Some(self.vocab),
            seq_len: Some(self.seq_len),
            attention: Some(self.attention),
            window: self.window,
            rotary_base: unless(self.rotary_base, ROTARY_BASE),
            norm_epsilon: unless(self.norm_epsilon, NORM_EPSILON),
            tied_head: Some(self.tied_head),
            ..ModelSpec::new(&self.name, Family::Llama)
        };
        match &self.experts {
            Some(experts) => dense.with_experts(experts),
            None => dense,
        }
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
        let stream = self.stream();
        let (dense, routed) = (1, 2);
        let mut layers = vec![self.embedding(), stream.block(self.heads(), stream.feed_forward(self.ffn), 0)];
        let mut order = vec![0];
        match self.experts {
            None => order.extend(std::iter::repeat_n(dense, self.layers as usize)),
            Some(experts) => {
                let feed_forward = stream.expert_feed_forward(experts, self.ffn);
                layers.push(stream.block(self.heads(), feed_forward, stream.exchanged(experts)));
                order.extend((0..self.layers).map(|index| if experts.are_in(index) { routed } else { dense }));
            }
        }
        order.push(layers.len());
        layers.push(self.head());
        OperatorGraph::new(layers, order, if self.tied_head { self.vocab * self.hidden } else { 0 })
    }

    fn stream(&self) -> Stream {
        Stream {
            tokens: self.seq_len,
            hidden: self.hidden,
            norm: Norm::Rms,
            feed_forward: FeedForward::Gated,
            dropout: false,
            bias: false,
        }
    }

    fn heads(&self) -> Heads {
        Heads {
            queries: self.heads,
            keys: self.kv_heads,
            width: self.head_width,
            kernel: self.attention,
            mask: self.window.map_or(Mask::Causal, Mask::Window),
            biased: false,
            rotary: true,
        }
    }

    fn embedding(&self) -> Layer {
        let kind = OperatorKind::Embedding {
            rows: self.seq_len,
            vocab: self.vocab,
            positions: 0,
            segments: 0,
            width: self.hidden,
            dropout: false,
        };
        self.stream().input(vec![operator(kind, Split::Width)])
    }

    fn head(&self) -> Layer {
        let mut operators = vec![self.stream().norm()];
        operators.extend(self.stream().logits(self.vocab, self.tied_head, false));
        Stream::head(self.seq_len, operators)
    }
}

/// A value that is not what would be assumed without it.
fn unless(value: f64, assumed: f64) -> Option<f64> {
    ((value - assumed).abs() > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Sharing;

    #[test]
    fn a_block_keeps_the_inputs_of_what_it_computes() {
        let spec = crate::find("llama-3-8b").expect("in the catalog").model.spec();
        let spec = ModelSpec { attention: Some(AttentionKernel::Flash), ..spec };
        let block = Llama::from_spec(&spec).expect("valid").graph().layer(1).clone();
        // Per token: both normalisations and first products h each, queries, attention's output and its product's input
        // h each, keys and values 1024 each, both halves of the gate and their product f each.
        let (s, h, f, kv) = (8192, 4096, 14336, 1024);
        let stored = block.stored(1, Sharing::WHOLE);
        assert_eq!(stored.elements, s * (7 * h + 2 * kv + 3 * f));
        assert_eq!((stored.single, stored.masks), (s * 32, 0));
        assert_eq!(block.context_elements, 2 * s * kv);
    }
}
