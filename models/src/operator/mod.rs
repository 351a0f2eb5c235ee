//! Operators: what one layer computes, with shapes; their FLOPs, traffic, kernels, parameters and stored activations.
//!
//! The counts of traffic and kernels are those of eager mixed-precision training with fused bias-dropout-add and
//! fused scale-mask-softmax, written out per operator so that a block sums to
//! 22·T·h + 8·T·h + 4·T·f + 9·b·a·s² bytes forward and 34·T·h + 10·T·h + 8·T·f + 11·b·a·s² backward at two bytes an
//! element, and its stored activations to s·b·h·(34 + 5·a·s/h) bytes.
//!
//! # Source
//!
//! Stored activations: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
//! arXiv:2205.05198, equation 1. FLOPs: Narayanan et al., arXiv:2104.04473, appendix.

mod attention;
mod gemm;
mod generic;
mod image;
mod recommendation;
mod recurrent;
mod relative;
mod routing;
mod sharing;
mod state_space;
mod tuned;
mod variants;

pub use attention::{Attention, AttentionKernel, Mask};
pub use gemm::Gemm;
pub use generic::Generic;
pub use image::{Convolution, Extent, Image, Pool};
pub(crate) use image::{pixels, replicated, squeeze_excite};
pub use recommendation::Recommendation;
pub use recurrent::{AdditiveAttention, Cell, Recurrent, Sequential};
pub use relative::RelativePositions;
pub use routing::{Places, Routing};
pub use sharing::{Divisible, Sharing, Split};
pub use state_space::{Scan, StateSpace};
pub use tuned::{FrozenWeights, Quantization, Tuned, Weights, nf4_bytes};

use trainyard_units::{Bytes, Flops};

/// A direction through the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// Inputs to loss.
    Forward,
    /// Loss to gradients, of inputs and of weights.
    Backward,
}

/// One operator at the shape it has for one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operator {
    /// What is computed.
    pub kind: OperatorKind,
    /// How it divides under tensor parallelism.
    pub split: Split,
    /// `true` if its input is one that another operator keeps anyway, so that it keeps nothing.
    pub kept_elsewhere: bool,
    /// `true` if its weights are those of an operator before it in the layer, so that it has no parameters of its own.
    pub shares_weights: bool,
    /// What becomes of its weights.
    pub weights: Weights,
}

/// What is computed and at which shape. `rows` are tokens: samples × sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperatorKind {
    /// (rows, inputs) · (inputs, outputs) + bias.
    Linear {
        /// Tokens.
        rows: u64,
        /// Input features.
        inputs: u64,
        /// Output features.
        outputs: u64,
        /// `true` if a bias is added.
        bias: bool,
    },
    /// As many products (rows / experts, inputs) · (inputs, outputs) + bias as there are experts, each with weights of
    /// its own.
    ExpertLinear {
        experts: u64,
        /// Places for tokens, over all experts.
        rows: u64,
        /// Input features.
        inputs: u64,
        /// Output features.
        outputs: u64,
        /// `true` if biases are added.
        bias: bool,
    },
    /// Scaled dot-product attention.
    Attention(Attention),
    /// Layer normalisation of (rows, width) with scale and shift.
    LayerNorm {
        /// Tokens.
        rows: u64,
        /// Normalised features.
        width: u64,
    },
    /// Division by the root mean square of (rows, width), with scale (Zhang and Sennrich, arXiv:1910.07467).
    RmsNorm {
        /// Tokens.
        rows: u64,
        /// Normalised features.
        width: u64,
    },
    /// Layer normalisation of (rows, width) without shift.
    CentredNorm {
        /// Tokens.
        rows: u64,
        /// Normalised features.
        width: u64,
        /// `true` if there is a scale.
        scale: bool,
    },
    /// A smooth pointwise non-linearity over (rows, width), with the bias of the product before it.
    Activation {
        /// Tokens.
        rows: u64,
        /// Features.
        width: u64,
    },
    /// The positive part of (rows, width).
    Relu {
        /// Tokens or pixels.
        rows: u64,
        /// Features.
        width: u64,
    },
    /// An activated half of (rows, 2 · width) times the other half, as SwiGLU (Shazeer, arXiv:2002.05202), in one
    /// kernel.
    GatedActivation {
        /// Tokens.
        rows: u64,
        /// Features of the result.
        width: u64,
    },
    /// Rotation of queries and keys, (rows, width) together, by their positions (Su et al., arXiv:2104.09864).
    Rotary {
        /// Tokens.
        rows: u64,
        /// Features of the query heads and the key heads.
        width: u64,
    },
    /// Addition to the residual stream, over (rows, width), after dropout if there is any.
    Residual {
        /// Tokens.
        rows: u64,
        /// Features.
        width: u64,
        /// `true` if what is added is dropped out.
        dropout: bool,
    },
    /// Rows of a (vocab, width) table looked up by token, plus learned positions of (positions, width) and kinds of
    /// segments of (segments, width), if there are any.
    Embedding {
        /// Tokens.
        rows: u64,
        /// Entries of the token table.
        vocab: u64,
        /// Entries of the position table.
        positions: u64,
        /// Entries of the segment table.
        segments: u64,
        /// Features.
        width: u64,
        /// `true` if the sum is dropped out.
        dropout: bool,
    },
    /// Rows of a token table that another layer owns.
    TiedEmbedding {
        /// Tokens.
        rows: u64,
        /// Features.
        width: u64,
    },
    /// Learned tokens, of the class first, put before (rows − learned, width) patches, and learned positions added to all.
    ClassToken {
        /// Tokens, learned ones among them.
        rows: u64,
        /// Learned tokens.
        learned: u64,
        /// Entries of the position table; none if positions are not learned.
        positions: u64,
        /// Features.
        width: u64,
    },
    /// A bias for each head and distance, looked up for all pairs of queries and keys (Raffel et al.,
    /// arXiv:1910.10683, section 2.1). All samples share it.
    RelativeBias {
        heads: u64,
        /// Ranges of distances.
        buckets: u64,
        /// Tokens that attend.
        queries: u64,
        /// Tokens that are attended to.
        keys: u64,
    },
    /// (rows, width) · (width, vocab) with the token table as its weight: it has no parameters of its own, unless there
    /// is a bias.
    TiedHead {
        /// Tokens.
        rows: u64,
        /// Features.
        width: u64,
        /// Entries of the token table.
        vocab: u64,
        /// `true` if a bias is added.
        bias: bool,
    },
    /// An operator over images.
    Image(Image),
    /// An operator that brings tokens to experts or back.
    Routing(Routing),
    /// A recurrent layer.
    Recurrent(Recurrent),
    /// Attention by a small network.
    AdditiveAttention(AdditiveAttention),
    /// The part of attention scores that depends on distances.
    RelativePositions(RelativePositions),
    /// An operator of a recommendation model.
    Recommendation(Recommendation),
    /// An operator of a layer whose state goes along the sequence.
    StateSpace(StateSpace),
    /// An operator of fine-tuning.
    Tuned(Tuned),
    /// An operator of which only sizes are known.
    Generic(Generic),
    /// Softmax cross-entropy of (rows, vocab) logits, in single precision.
    CrossEntropy {
        /// Tokens.
        rows: u64,
        /// Classes.
        vocab: u64,
    },
}

/// An amount of data in elements of the compute precision, in single-precision elements, and in plain bytes (masks). Sums
/// beyond counting are the most that can be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Elements in the compute precision (two bytes each in half precision).
    pub elements: u64,
    /// Elements that stay in single precision whatever the compute precision is.
    pub single: u64,
    /// Bytes of masks and indices.
    pub masks: u64,
}

impl Storage {
    /// Returns the size at `element` bytes for an element of the compute precision.
    pub fn bytes(self, element: u64) -> Bytes {
        Bytes(element) * self.elements + Bytes(4) * self.single + Bytes(self.masks)
    }
}

impl std::ops::Add for Storage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            elements: self.elements.saturating_add(other.elements),
            single: self.single.saturating_add(other.single),
            masks: self.masks.saturating_add(other.masks),
        }
    }
}

fn elements(elements: u64) -> Storage {
    Storage { elements, ..Storage::default() }
}

/// Tables of an embedding.
fn tables(positions: u64, segments: u64) -> u64 {
    1 + u64::from(positions > 0) + u64::from(segments > 0)
}

impl Operator {
    /// Returns an operator that keeps what it needs backward.
    pub fn new(kind: OperatorKind, split: Split) -> Self {
        Self { kind, split, kept_elsewhere: false, shares_weights: false, weights: Weights::Trained }
    }

    /// Returns the part of the operator that one of the ranks that share a stage computes for `samples` samples.
    ///
    /// Widths and tokens that do not divide are rounded up: the slowest rank decides.
    pub fn on_rank(&self, samples: u64, sharing: Sharing) -> OperatorKind {
        self.part(sharing).for_samples(samples)
    }

    /// Returns the number of trainable values of its own on one of those ranks.
    pub fn parameters(&self, sharing: Sharing) -> u64 {
        if self.has_weights() { self.on_rank(1, sharing).parameters() } else { 0 }
    }

    /// Returns `true` if weights of its own are trained.
    pub fn has_weights(&self) -> bool {
        !self.shares_weights && self.weights == Weights::Trained
    }

    /// Returns the number of trainable tensors of its own.
    pub fn parameter_tensors(&self) -> u32 {
        if self.has_weights() { self.kind.parameter_tensors() } else { 0 }
    }

    /// What that rank keeps of `samples` samples from forward until backward.
    pub fn stored(&self, samples: u64, sharing: Sharing) -> Storage {
        if self.kept_elsewhere {
            return Storage::default();
        }
        let part = self.part(sharing);
        // What is gathered for a product, or scattered after a lookup, is kept in parts under sequence parallelism.
        let scattered = self.split == Split::Columns || matches!(self.kind, OperatorKind::Embedding { .. });
        let whole = sharing.folded_experts && matches!(part, OperatorKind::ExpertLinear { .. });
        let parts = if scattered && !whole { sharing.token_parts() } else { 1 };
        part.share_tokens(parts).for_samples(samples).stored()
    }

    fn part(&self, sharing: Sharing) -> OperatorKind {
        let part = self.kind.share_tokens(sharing.context).share_experts(sharing.expert_ranks());
        match self.split {
            _ if sharing.folded_experts && matches!(part, OperatorKind::ExpertLinear { .. }) => {
                part.share_tokens(sharing.token_parts())
            }
            Split::Replicated => part,
            Split::Tokens => part.share_tokens(sharing.token_parts()),
            Split::Columns | Split::Rows | Split::Width => part.split(self.split, sharing.tensor),
        }
    }
}

impl OperatorKind {
    /// Returns the same operator over `samples` samples.
    #[must_use]
    pub fn for_samples(self, samples: u64) -> Self {
        let mut scaled = self;
        match &mut scaled {
            Self::Attention(attention) => attention.samples *= samples,
            Self::Image(image) => *image = image.for_samples(samples),
            Self::Routing(routing) => *routing.places_mut() = routing.places_mut().for_samples(samples),
            Self::Recurrent(recurrent) => *recurrent = recurrent.for_samples(samples),
            Self::AdditiveAttention(attention) => *attention = attention.for_samples(samples),
            Self::RelativePositions(relative) => *relative = relative.for_samples(samples),
            Self::Recommendation(recommendation) => *recommendation = recommendation.for_samples(samples),
            Self::StateSpace(state_space) => *state_space = state_space.for_samples(samples),
            Self::Generic(generic) => *generic = generic.for_samples(samples),
            Self::Tuned(tuned) => *tuned.rows_mut() *= samples,
            Self::RelativeBias { .. } => {}
            tokenwise => *tokenwise.rows_mut() *= samples,
        }
        scaled
    }

    /// Returns the same operator over one of `parts` equal parts of the tokens. What has no tokens, or needs them one
    /// after another, is not divided.
    fn share_tokens(self, parts: u64) -> Self {
        let mut part = self;
        match &mut part {
            Self::Attention(attention) => *attention = attention.share_tokens(parts),
            Self::Image(_)
            | Self::Recurrent(_)
            | Self::AdditiveAttention(_)
            | Self::Recommendation(_)
            | Self::StateSpace(_)
            | Self::Generic(_) => {}
            Self::Routing(routing) => *routing.places_mut() = routing.places_mut().share_tokens(parts),
            Self::RelativePositions(relative) => *relative = relative.share_tokens(parts),
            Self::RelativeBias { queries, .. } => *queries = queries.div_ceil(parts),
            Self::Tuned(tuned) => *tuned.rows_mut() = tuned.rows_mut().div_ceil(parts),
            tokenwise => *tokenwise.rows_mut() = tokenwise.rows_mut().div_ceil(parts),
        }
        part
    }

    /// Returns the rows of an operator that treats each of them alike.
    fn rows_mut(&mut self) -> &mut u64 {
        match self {
            Self::Linear { rows, .. }
            | Self::ExpertLinear { rows, .. }
            | Self::LayerNorm { rows, .. }
            | Self::RmsNorm { rows, .. }
            | Self::CentredNorm { rows, .. }
            | Self::Activation { rows, .. }
            | Self::Relu { rows, .. }
            | Self::GatedActivation { rows, .. }
            | Self::Rotary { rows, .. }
            | Self::Residual { rows, .. }
            | Self::Embedding { rows, .. }
            | Self::TiedEmbedding { rows, .. }
            | Self::ClassToken { rows, .. }
            | Self::TiedHead { rows, .. }
            | Self::CrossEntropy { rows, .. } => rows,
            Self::Attention(_)
            | Self::Image(_)
            | Self::Routing(_)
            | Self::RelativeBias { .. }
            | Self::Recurrent(_)
            | Self::AdditiveAttention(_)
            | Self::RelativePositions(_)
            | Self::Recommendation(_)
            | Self::StateSpace(_)
            | Self::Tuned(_)
            | Self::Generic(_) => unreachable!("operators without rows are handled before"),
        }
    }

    /// Returns the same operator over one of `parts` equal parts of the experts, or of the tables. Each rank sends as
    /// many tokens as it receives, so that fewer experts see no fewer of them.
    fn share_experts(self, parts: u64) -> Self {
        match self {
            Self::ExpertLinear { experts, rows, inputs, outputs, bias } => {
                Self::ExpertLinear { experts: experts.div_ceil(parts), rows, inputs, outputs, bias }
            }
            Self::Recommendation(recommendation) => Self::Recommendation(recommendation.share_tables(parts)),
            Self::Routing(mut routing) => {
                *routing.places_mut() = routing.places_mut().share_experts(parts);
                Self::Routing(routing)
            }
            shared => shared,
        }
    }

    fn split(self, split: Split, tensor: u64) -> Self {
        let mut part = self;
        match &mut part {
            Self::Linear { inputs, .. } | Self::ExpertLinear { inputs, .. } if split == Split::Rows => {
                *inputs = inputs.div_ceil(tensor);
            }
            Self::Linear { outputs, .. } | Self::ExpertLinear { outputs, .. } => *outputs = outputs.div_ceil(tensor),
            Self::LayerNorm { rows, .. } | Self::RmsNorm { rows, .. } | Self::CentredNorm { rows, .. }
                if split == Split::Rows =>
            {
                *rows = rows.div_ceil(tensor);
            }
            Self::Attention(attention) => *attention = attention.share_heads(tensor),
            Self::RelativeBias { heads, .. } => *heads = heads.div_ceil(tensor),
            Self::Tuned(tuned) => *tuned = tuned.split(split, tensor),
            Self::RelativePositions(relative) => *relative = relative.share_heads(tensor),
            Self::LayerNorm { width, .. }
            | Self::RmsNorm { width, .. }
            | Self::CentredNorm { width, .. }
            | Self::Activation { width, .. }
            | Self::Relu { width, .. }
            | Self::GatedActivation { width, .. }
            | Self::Rotary { width, .. }
            | Self::Residual { width, .. }
            | Self::TiedEmbedding { width, .. }
            | Self::ClassToken { width, .. } => *width = width.div_ceil(tensor),
            Self::Embedding { vocab, .. } | Self::TiedHead { vocab, .. } | Self::CrossEntropy { vocab, .. } => {
                *vocab = vocab.div_ceil(tensor);
            }
            Self::Image(_)
            | Self::Routing(_)
            | Self::Recurrent(_)
            | Self::AdditiveAttention(_)
            | Self::Recommendation(_)
            | Self::StateSpace(_)
            | Self::Generic(_) => unreachable!("these are the same on every rank of a tensor group"),
        }
        part
    }

    /// What it is called in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear { .. } => "linear",
            Self::ExpertLinear { .. } => "linear of experts",
            Self::Attention(_) => "attention",
            Self::LayerNorm { .. } => "layer normalisation",
            Self::RmsNorm { .. } => "root-mean-square normalisation",
            Self::CentredNorm { .. } => "layer normalisation without shift",
            Self::Activation { .. } => "activation",
            Self::Relu { .. } => "ReLU",
            Self::GatedActivation { .. } => "gated activation",
            Self::Rotary { .. } => "rotary embedding",
            Self::Residual { .. } => "residual",
            Self::Embedding { .. } => "embedding",
            Self::TiedEmbedding { .. } => "tied embedding",
            Self::ClassToken { .. } => "class token",
            Self::RelativeBias { .. } => "relative bias",
            Self::TiedHead { .. } => "tied head",
            Self::CrossEntropy { .. } => "cross-entropy",
            Self::Image(image) => image.name(),
            Self::Routing(routing) => routing.name(),
            Self::Recurrent(_) => "recurrent layer",
            Self::AdditiveAttention(_) => "additive attention",
            Self::RelativePositions(_) => "relative positions",
            Self::Recommendation(recommendation) => recommendation.name(),
            Self::StateSpace(state_space) => state_space.name(),
            Self::Tuned(tuned) => tuned.name(),
            Self::Generic(generic) => generic.name(),
        }
    }

    /// Returns `true` if an expert-parallel group divides its weights: those of experts, or tables.
    pub(crate) fn is_divided(self) -> bool {
        self.divisible().is_some()
    }

    /// What an expert-parallel group divides of it.
    pub(crate) fn divisible(self) -> Option<Divisible> {
        match self {
            Self::ExpertLinear { experts, .. } => Some(Divisible::Experts(experts)),
            Self::Recommendation(Recommendation::Tables { tables, width, .. }) => {
                Some(Divisible::TableColumns(tables * width))
            }
            _ => None,
        }
    }

    /// Returns `true` if an all-to-all among an expert-parallel group comes before or after it, in each direction.
    pub(crate) fn exchanges(self) -> bool {
        matches!(
            self,
            Self::Routing(Routing::Dispatch(_) | Routing::Combine(_))
                | Self::Recommendation(Recommendation::Tables { .. })
        )
    }

    /// Returns the values of the rows of tables that it looks up: only they have gradients.
    pub(crate) fn looked_up(self) -> u64 {
        match self {
            Self::Recommendation(recommendation) => recommendation.looked_up(),
            _ => 0,
        }
    }

    /// Returns the number of trainable values.
    pub fn parameters(self) -> u64 {
        match self {
            Self::Linear { inputs, outputs, bias, .. } => inputs * outputs + if bias { outputs } else { 0 },
            Self::ExpertLinear { experts, inputs, outputs, bias, .. } => {
                experts * (inputs * outputs + if bias { outputs } else { 0 })
            }
            Self::LayerNorm { width, .. } => 2 * width,
            Self::RmsNorm { width, .. } | Self::CentredNorm { width, scale: true, .. } => width,
            Self::Embedding { vocab, positions, segments, width, .. } => (vocab + positions + segments) * width,
            Self::ClassToken { learned, positions, width, .. } => (learned + positions) * width,
            Self::RelativeBias { heads, buckets, .. } => heads * buckets,
            Self::TiedHead { vocab, bias, .. } => {
                if bias {
                    vocab
                } else {
                    0
                }
            }
            Self::Image(image) => image.parameters(),
            Self::Routing(routing) => routing.parameters(),
            Self::Recurrent(recurrent) => recurrent.parameters(),
            Self::AdditiveAttention(attention) => attention.parameters(),
            Self::RelativePositions(relative) => relative.parameters(),
            Self::Recommendation(recommendation) => recommendation.parameters(),
            Self::StateSpace(state_space) => state_space.parameters(),
            Self::Tuned(tuned) => tuned.parameters(),
            Self::Generic(generic) => generic.parameters(),
            Self::Attention(attention) => attention.parameters(),
            Self::CentredNorm { scale: false, .. }
            | Self::Activation { .. }
            | Self::Relu { .. }
            | Self::GatedActivation { .. }
            | Self::Rotary { .. }
            | Self::Residual { .. }
            | Self::TiedEmbedding { .. }
            | Self::CrossEntropy { .. } => 0,
        }
    }

    /// Returns `true` if its matrix products have a trainable matrix on one side.
    pub fn multiplies_weights(self) -> bool {
        match self {
            Self::TiedHead { .. } => true,
            Self::Attention(_) | Self::AdditiveAttention(_) | Self::StateSpace(_) | Self::Generic(_) => false,
            _ => self.parameters() > 0,
        }
    }

    /// Returns the number of trainable tensors, each of which an optimizer or a collective may handle on its own.
    pub fn parameter_tensors(self) -> u32 {
        match self {
            Self::Linear { bias, .. } | Self::ExpertLinear { bias, .. } => 1 + u32::from(bias),
            Self::LayerNorm { .. } => 2,
            Self::ClassToken { positions, .. } => 1 + u32::from(positions > 0),
            Self::Embedding { positions, segments, .. } => tables(positions, segments) as u32,
            Self::TiedHead { bias, .. } => u32::from(bias),
            Self::Image(image) => image.parameter_tensors(),
            Self::Recurrent(recurrent) => recurrent.parameter_tensors(),
            Self::AdditiveAttention(_) => 3,
            Self::RelativePositions(relative) => relative.parameter_tensors(),
            Self::Recommendation(recommendation) => recommendation.parameter_tensors(),
            Self::StateSpace(state_space) => state_space.parameter_tensors(),
            Self::Tuned(tuned) => tuned.parameter_tensors(),
            Self::Generic(generic) => generic.parameter_tensors(),
            Self::Attention(attention) => u32::from(attention.sinks),
            Self::Routing(routing) => routing.parameter_tensors(),
            Self::RmsNorm { .. } | Self::CentredNorm { scale: true, .. } | Self::RelativeBias { .. } => 1,
            _ => 0,
        }
    }

    /// Returns the matrix products of a pass that need not wait for one another. Backward has two for each of
    /// forward's: gradients of inputs and of weights.
    pub fn gemms(self, pass: Pass) -> Vec<Gemm> {
        let forward = match self {
            Self::Linear { rows, inputs, outputs, .. } => vec![Gemm { batch: 1, m: rows, n: outputs, k: inputs }],
            Self::ExpertLinear { experts, rows, inputs, outputs, .. } => {
                vec![Gemm { batch: experts, m: rows.div_ceil(experts), n: outputs, k: inputs }]
            }
            Self::TiedHead { rows, width, vocab, .. } => vec![Gemm { batch: 1, m: rows, n: vocab, k: width }],
            Self::Attention(attention) => attention.gemms(),
            Self::Image(image) => image.gemms(),
            Self::Routing(routing) => routing.gemms(),
            Self::Recurrent(recurrent) => return recurrent.gemms(pass),
            Self::Tuned(tuned) => return tuned.gemms(pass),
            Self::AdditiveAttention(attention) => attention.gemms(),
            Self::RelativePositions(relative) => relative.gemms(),
            Self::StateSpace(state_space) => state_space.gemms(),
            Self::Generic(generic) => generic.gemms(),
            _ => Vec::new(),
        };
        match pass {
            Pass::Forward => forward,
            Pass::Backward => forward
                .into_iter()
                .flat_map(|Gemm { batch, m, n, k }| [Gemm { batch, m, n: k, k: n }, Gemm { batch, m: k, n, k: m }])
                .collect(),
        }
    }

    /// Returns the number of its weights, trained or not.
    fn weights(self) -> u64 {
        if let Self::Tuned(tuned) = self { tuned.weights() } else { self.parameters() }
    }

    /// Returns its quantised weights, which uses of it bring to the compute precision.
    pub fn dequantised(self) -> u64 {
        if let Self::Tuned(tuned) = self { tuned.dequantised() } else { 0 }
    }

    /// Returns the format in which its weights are kept, if it is not the compute precision.
    pub fn quantization(self) -> Option<Quantization> {
        if let Self::Tuned(tuned) = self { tuned.quantization() } else { None }
    }

    /// Returns the matrix products of a pass that are done one after another.
    pub fn sequential(self, pass: Pass) -> Option<Sequential> {
        match self {
            Self::Recurrent(recurrent) => Some(recurrent.sequential(pass)),
            _ => None,
        }
    }

    /// Returns the arithmetic of a pass that is done in matrix products, the fused attention kernel's included. The causal
    /// half of attention that a kernel may skip is counted, as the field's formulas do.
    pub fn flops(self, pass: Pass) -> Flops {
        let fused = match self {
            Self::Attention(attention) => attention.fused_flops(pass),
            Self::Recommendation(recommendation) => recommendation.fused_flops(pass),
            Self::StateSpace(state_space) => state_space.fused_flops(pass),
            _ => Flops(0.0),
        };
        let sequential = self.sequential(pass).map(|Sequential { steps, product }| product.flops() * steps as f64);
        fused + sequential.unwrap_or(Flops(0.0)) + self.gemms(pass).into_iter().map(Gemm::flops).sum()
    }

    /// Returns the data that the kernels other than matrix products read and write in a pass.
    pub fn traffic(self, pass: Pass) -> Storage {
        let forward = pass == Pass::Forward;
        match self {
            // Bias gradients are counted with the activation and attention that stand next to the product.
            Self::Linear { .. } | Self::ExpertLinear { .. } | Self::TiedHead { .. } => Storage::default(),
            Self::LayerNorm { rows, width } => elements(rows * width * if forward { 2 } else { 5 }),
            Self::RmsNorm { rows, width } | Self::Activation { rows, width } => {
                elements(rows * width * if forward { 2 } else { 4 })
            }
            // Without weights there is no second pass backward for their gradients.
            Self::CentredNorm { rows, width, scale } => {
                elements(rows * width * if forward { 2 } else { 3 + 2 * u64::from(scale) })
            }
            Self::Relu { rows, width } => elements(rows * width * if forward { 2 } else { 3 }),
            Self::GatedActivation { rows, width } => elements(rows * width * if forward { 3 } else { 5 }),
            Self::Residual { rows, width, dropout } => {
                Storage { elements: rows * width * 3, single: 0, masks: if dropout { rows * width } else { 0 } }
            }
            Self::Attention(attention) => attention.traffic(pass),
            // Forward reads a row of each table and writes their sum; backward adds to a row of each.
            Self::Embedding { rows, positions, segments, width, .. } => {
                let tables = tables(positions, segments);
                elements(rows * width * if forward { tables + 1 } else { 2 * tables })
            }
            Self::Rotary { rows, width } | Self::TiedEmbedding { rows, width } => elements(rows * width * 2),
            Self::ClassToken { rows, width, .. } => elements(rows * width * if forward { 3 } else { 2 }),
            Self::RelativeBias { heads, queries, keys, .. } => elements(attention::pairs(2 * heads, queries, keys)),
            Self::Image(image) => image.traffic(pass),
            Self::Routing(routing) => routing.traffic(pass),
            Self::Recurrent(recurrent) => recurrent.traffic(pass),
            Self::AdditiveAttention(attention) => attention.traffic(pass),
            Self::RelativePositions(relative) => relative.traffic(pass),
            Self::Recommendation(recommendation) => recommendation.traffic(pass),
            Self::StateSpace(state_space) => state_space.traffic(pass),
            Self::Tuned(tuned) => tuned.traffic(pass),
            Self::Generic(generic) => generic.traffic(pass),
            // Logits are cast to single precision, reduced twice and exponentiated; backward writes their gradient.
            Self::CrossEntropy { rows, vocab } => {
                Storage { elements: rows * vocab, single: rows * vocab * 4, masks: 0 }
            }
        }
    }

    /// Returns the number of kernels that a framework launches for a pass when it fuses nothing beyond bias, dropout
    /// and softmax. A block has 24 forward and 40 backward.
    pub fn kernels(self, pass: Pass) -> u32 {
        let (forward, backward) = match self {
            Self::Linear { .. } | Self::ExpertLinear { .. } | Self::LayerNorm { .. } => (1, 3),
            Self::TiedHead { bias, .. } => (1, 2 + u32::from(bias)),
            // A recurrent layer is one call of the library; backward one for inputs and one for weights. The launches of
            // its steps are counted with them.
            Self::RmsNorm { .. }
            | Self::CentredNorm { .. }
            | Self::TiedEmbedding { .. }
            | Self::RelativeBias { .. }
            | Self::Recurrent(_) => (1, 2),
            Self::Activation { .. } | Self::Rotary { .. } | Self::ClassToken { .. } => (2, 2),
            Self::Residual { dropout: true, .. } => (3, 2),
            Self::Relu { .. } | Self::GatedActivation { .. } | Self::Residual { .. } => (1, 1),
            Self::Attention(attention) => return attention.kernels(pass),
            Self::Image(image) => return image.kernels(pass),
            Self::Routing(routing) => return routing.kernels(pass),
            Self::Embedding { positions, segments, .. } => {
                let tables = tables(positions, segments) as u32;
                (2 * tables, tables + 1)
            }
            Self::CrossEntropy { .. } => (8, 6),
            // Sum, bias, tangent, product with v, softmax, sum of keys.
            Self::AdditiveAttention(_) => (6, 9),
            // Sinusoids projected, two biases, product, shift.
            Self::RelativePositions(_) => (5, 8),
            Self::Recommendation(recommendation) => return recommendation.kernels(pass),
            Self::StateSpace(state_space) => return state_space.kernels(pass),
            Self::Tuned(tuned) => return tuned.kernels(pass),
            Self::Generic(generic) => return generic.kernels(pass),
        };
        if pass == Pass::Forward { forward } else { backward }
    }

    /// What must be kept from forward until backward.
    pub fn stored(self) -> Storage {
        match self {
            Self::Linear { rows, inputs, .. } | Self::ExpertLinear { rows, inputs, .. } => elements(rows * inputs),
            Self::TiedHead { rows, width, .. }
            | Self::LayerNorm { rows, width }
            | Self::RmsNorm { rows, width }
            | Self::CentredNorm { rows, width, .. }
            | Self::Activation { rows, width } => elements(rows * width),
            Self::GatedActivation { rows, width } => elements(rows * width * 2),
            Self::Residual { rows, width, dropout: true } | Self::Embedding { rows, width, dropout: true, .. } => {
                Storage { masks: rows * width, ..Storage::default() }
            }
            // What is positive of a ReLU is seen in its output, which the product after it keeps. A rotation is undone
            // from the position alone.
            Self::Residual { .. }
            | Self::Embedding { .. }
            | Self::TiedEmbedding { .. }
            | Self::ClassToken { .. }
            | Self::RelativeBias { .. }
            | Self::Relu { .. }
            | Self::Rotary { .. } => Storage::default(),
            Self::Image(image) => image.stored(),
            Self::Routing(routing) => routing.stored(),
            Self::Recurrent(recurrent) => recurrent.stored(),
            Self::AdditiveAttention(attention) => attention.stored(),
            Self::RelativePositions(relative) => relative.stored(),
            Self::Recommendation(recommendation) => recommendation.stored(),
            Self::StateSpace(state_space) => state_space.stored(),
            Self::Tuned(tuned) => tuned.stored(),
            Self::Generic(generic) => generic.stored(),
            Self::Attention(attention) => attention.stored(),
            Self::CrossEntropy { rows, vocab } => Storage { single: rows * vocab, ..Storage::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backward_has_twice_the_arithmetic_of_forward() {
        for kernel in [AttentionKernel::Unfused, AttentionKernel::Flash] {
            let attention = OperatorKind::Attention(attention(kernel));
            assert_eq!(attention.flops(Pass::Backward), attention.flops(Pass::Forward) * 2.0);
        }
        let linear = OperatorKind::Linear { rows: 6, inputs: 10, outputs: 14, bias: true };
        assert_eq!(linear.flops(Pass::Backward), linear.flops(Pass::Forward) * 2.0);
    }

    fn attention(kernel: AttentionKernel) -> Attention {
        Attention {
            samples: 2,
            heads: 4,
            kv_heads: 4,
            queries: 8,
            keys: 8,
            own_keys: 8,
            head_width: 16,
            value_width: 16,
            kernel,
            mask: Mask::Causal,
            dropout: true,
            biased: false,
            soft_cap: false,
            sinks: false,
        }
    }

    #[test]
    fn tensor_parallel_parts_add_up_to_the_whole() {
        for (split, parts) in [(Split::Columns, 4), (Split::Rows, 2)] {
            let kind = OperatorKind::Linear { rows: 6, inputs: 16, outputs: 64, bias: false };
            let part = Operator::new(kind, split).on_rank(1, Sharing::tensor(parts));
            assert_eq!(part.parameters() * parts, kind.parameters());
            assert_eq!(part.flops(Pass::Forward) * parts as f64, kind.flops(Pass::Forward));
        }
    }

    #[test]
    fn ranks_that_share_experts_do_the_work_of_all_of_them_between_them() {
        let kind = OperatorKind::ExpertLinear { experts: 8, rows: 64, inputs: 16, outputs: 32, bias: true };
        let part = Operator::new(kind, Split::Columns).on_rank(1, Sharing { expert: 4, ..Sharing::tensor(2) });
        assert_eq!(part.parameters() * 4 * 2, kind.parameters());
        // Four ranks with a sample each: each computes as many tokens as it has, over its own experts.
        assert_eq!(part.flops(Pass::Forward) * 2.0, kind.flops(Pass::Forward));
    }

    #[test]
    fn context_parallel_parts_of_attention_see_all_keys_and_keep_their_own() {
        let context = Sharing { context: 4, ..Sharing::WHOLE };
        for kernel in [AttentionKernel::Unfused, AttentionKernel::Flash] {
            let kind = OperatorKind::Attention(attention(kernel));
            let part = Operator::new(kind, Split::Width).on_rank(1, context);
            assert_eq!(part.flops(Pass::Forward) * 4.0, kind.flops(Pass::Forward));
            assert_eq!(part.stored().bytes(2).0 * 4, kind.stored().bytes(2).0);
        }
    }
}
