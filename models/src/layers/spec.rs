//! Layers as written: words and tables of operators.

use crate::operator::AttentionKernel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares the tables of files: the fields of each that are needed and, behind `+`, those that may be left out.
macro_rules! tables {
    ($(
        $(#[$meta:meta])*
        $table:ident { $($(#[$needed_meta:meta])* $needed:ident: $type:ty,)* }
        $(+ { $($(#[$doc:meta])* $field:ident: $of:ty,)* })?
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            pub struct $table {
                $($(#[$needed_meta])* pub $needed: $type,)*
                $($(
                    $(#[$doc])*
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    pub $field: Option<$of>,
                )*)?
            }
        )*
    };
}

tables! {
    /// What one sample is: an image (`channels`, `height`, `width`), a volume (`depth` besides), tokens to be looked up
    /// (`tokens`), a sequence of vectors (`tokens` and `features`), or one vector (`features`).
    #[derive(Copy, Default)]
    InputSpec {} + {
        /// Channels of an image or a volume.
        channels: u64,
        /// Pixels from front to back of a volume.
        depth: u64,
        /// Pixels from top to bottom.
        height: u64,
        /// Pixels from left to right.
        width: u64,
        /// Tokens, or steps of a sequence of vectors.
        tokens: u64,
        /// Elements of a vector.
        features: u64,
    }

    /// `{ conv = 64, kernel = 3 }`: a convolution.
    Conv {
        /// Channels of the output.
        conv: u64,
    } + {
        /// Extent of the kernel; 1 if left out.
        kernel: Sizes,
        /// Distance of windows; 1 if left out.
        stride: Sizes,
        /// What is put around the input; `same` if left out.
        padding: Padding,
        /// Distance of the pixels of a window; 1 if left out.
        dilation: Sizes,
        /// Groups of channels that are convolved apart; 1 if left out.
        groups: u64,
        /// Whether a bias is added; `true` unless a normalisation follows.
        bias: bool,
        /// The normalisation that follows; none if left out.
        norm: Norm,
        /// The function that follows; none if left out.
        activation: Activation,
    }

    /// `{ depthwise = 3 }`: a convolution of each channel by itself.
    Depthwise {
        /// Extent of the kernel.
        depthwise: Sizes,
    } + {
        /// Distance of windows; 1 if left out.
        stride: Sizes,
        /// What is put around the input; `same` if left out.
        padding: Padding,
        /// Distance of the pixels of a window; 1 if left out.
        dilation: Sizes,
        /// Whether a bias is added; `true` unless a normalisation follows.
        bias: bool,
        /// The normalisation that follows; none if left out.
        norm: Norm,
        /// The function that follows; none if left out.
        activation: Activation,
    }

    /// `{ transposed_conv = 64, kernel = 2, stride = 2 }`: the transpose of a convolution.
    TransposedConv {
        /// Channels of the output.
        transposed_conv: u64,
        /// Extent of the kernel.
        kernel: Sizes,
    } + {
        /// How many times larger the map becomes; 1 if left out.
        stride: Sizes,
        /// What is cut off around the output; with `same`, if left out, the stride alone makes it larger.
        padding: Padding,
        /// Whether a bias is added; `true` unless a normalisation follows.
        bias: bool,
        /// The normalisation that follows; none if left out.
        norm: Norm,
        /// The function that follows; none if left out.
        activation: Activation,
    }

    /// `{ group_norm = 32 }`: normalisation over groups of channels.
    GroupNorm {
        /// Groups, which share the channels evenly.
        group_norm: u64,
    }

    /// `{ max_pool = 3, stride = 2 }`: the largest value of each window.
    MaxPool {
        /// Extent of a window.
        max_pool: Sizes,
    } + {
        /// Distance of windows; their extent if left out.
        stride: Sizes,
        /// What is put around the input; `same` if left out.
        padding: Padding,
    }

    /// `{ mean_pool = 2 }`: the mean of each window.
    MeanPool {
        /// Extent of a window.
        mean_pool: Sizes,
    } + {
        /// Distance of windows; their extent if left out.
        stride: Sizes,
        /// What is put around the input; `same` if left out.
        padding: Padding,
    }

    /// `{ adaptive_pool = 7 }`: means of windows that divide the map.
    AdaptivePool {
        /// Extent of the output.
        adaptive_pool: Sizes,
    }

    /// `{ upsample = 2 }` or `{ upsample = "c4" }`: repetition of pixels.
    Upsample {
        /// How many times, or to the extent of what.
        upsample: UpsampleTo,
    }

    /// `{ linear = 4096, activation = "relu" }`: a product with the features of each pixel or token.
    Linear {
        /// Features of the output.
        linear: u64,
    } + {
        /// Whether a bias is added; `true` if left out.
        bias: bool,
        /// The function that follows; none if left out.
        activation: Activation,
    }

    /// `{ attention = 12 }`: projections, self-attention over the tokens or pixels, and the output's projection.
    AttentionSpec {
        /// Heads, which share the features evenly.
        attention: u64,
    } + {
        /// Whether tokens attend to earlier ones only; `false` if left out.
        causal: bool,
        /// How it is computed; as the model's `attention` says, or `unfused`, if left out.
        kernel: AttentionKernel,
        /// Whether weights are dropped out; `false` if left out.
        dropout: bool,
        /// Whether biases are added to the projections; `true` if left out.
        bias: bool,
        /// Whether that of keys has one; as `bias` if left out.
        key_bias: bool,
        /// Side of the windows, in pixels, among which alone pixels attend to each other; all attend to all if left out.
        window: u64,
        /// Distances for each of which every head has a trained bias of scores; none if left out.
        relative_bias: u64,
    }

    /// `{ class_tokens = 1 }`: pixels as a sequence, behind so many trained tokens.
    ClassTokens {
        /// Trained tokens.
        class_tokens: u64,
    } + {
        /// Whether a trained vector is added to each token; `true` if left out.
        positions: bool,
    }

    /// `{ space_to_depth = 2 }`: the pixels of each 2 × 2 window side by side as the channels of one.
    SpaceToDepth {
        /// Extent of a window.
        space_to_depth: Sizes,
    }

    /// `{ embedding = 30522, width = 768 }`: a look-up of tokens.
    Embedding {
        /// Entries of the table.
        embedding: u64,
        /// Features of an entry.
        width: u64,
    } + {
        /// Entries of a table of learned positions; none if left out.
        positions: u64,
        /// Whether the sum is dropped out; `false` if left out.
        dropout: bool,
    }

    /// `{ lstm = 1024, bidirectional = true }`: long short-term memory over the steps of a sequence.
    Lstm {
        /// Features of a state, and of the output in each direction.
        lstm: u64,
    } + {
        /// Whether another one reads from the end; `false` if left out.
        bidirectional: bool,
    }

    /// `{ gru = 1024 }`: gated recurrent units over the steps of a sequence.
    Gru {
        /// Features of a state, and of the output in each direction.
        gru: u64,
    } + {
        /// Whether another one reads from the end; `false` if left out.
        bidirectional: bool,
    }

    /// `{ tables = [1000, 50] }`: a row of each of some embedding tables, as wide as the vector that flows, in a sequence
    /// behind it.
    Tables {
        /// Rows of each table.
        tables: Vec<u64>,
    }

    /// `{ squeeze_excite = 16 }`: gates for channels from their means.
    SqueezeExcite {
        /// Features between the two products.
        squeeze_excite: u64,
    } + {
        /// The function between them; `relu` if left out.
        activation: Activation,
    }

    /// `{ roi_align = 7, regions = 512, of = ["p2", "p3"] }`: regions cut out of maps.
    RoiAlign {
        /// Extent of a region's result.
        roi_align: Sizes,
        /// Regions of one sample.
        regions: u64,
        /// The saved maps out of which they are cut; what came before if left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        of: Vec<String>,
    }

    /// `{ add = [[…], []] }`, the sum of what branches make of the same input, of which `[]` hands it on; or
    /// `{ add = "c3" }`, the sum with something saved.
    Add {
        /// What is added.
        add: Joined,
    } + {
        /// Whether what is added is dropped out before; `false` if left out.
        dropout: bool,
    }

    /// `{ concat = [[…], […]] }`, channels of what branches make of the same input side by side; or `{ concat = "x" }`, with
    /// something saved.
    Concat {
        /// What is put side by side.
        concat: Joined,
    } + {
        /// Whether the middle of something saved is cut out where it is larger; `false` if left out.
        crop: bool,
    }

    /// `{ save = "c3" }`: a name for what the operator before made.
    Save {
        save: String,
    }

    /// `{ load = "c3" }`: goes on with something saved.
    Load {
        load: String,
    }

    /// `{ side = […], of = ["p3", "p4"] }`: operators that end in a loss of their own, with the same weights for each of the
    /// saved maps.
    Side {
        /// What they compute.
        side: Vec<OperatorSpec>,
        /// The saved maps that they compute it of; what came before if left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        of: Vec<String>,
    }

    /// `{ cross_entropy = 81 }`: softmax cross-entropy over classes of which each pixel may have several sets, or, of one
    /// class, a loss of each value by itself.
    CrossEntropy {
        /// Classes.
        cross_entropy: u64,
    }
}

impl fmt::Display for InputSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides: Vec<_> = [self.depth, self.height, self.width].iter().flatten().map(u64::to_string).collect();
        let parts = [
            self.channels.map(|channels| format!("{channels} channels of {}", sides.join(" × "))),
            self.tokens.map(|tokens| format!("{tokens} tokens")),
            self.features.map(|features| format!("{features} features")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" of "))
    }
}

/// A layer as written: the unit that is assigned to pipeline stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerSpec {
    /// What it is called in messages and reports.
    pub name: String,
    /// How many of it follow one another; shapes are inferred again for each. 1 if left out.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeat: u64,
    /// Whether its weights stay as they are: it has no backward pass, and neither have the layers before it, which must
    /// be frozen too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    /// What it computes, in order.
    pub operators: Vec<OperatorSpec>,
}

fn once() -> u64 {
    1
}

fn is_once(repeat: &u64) -> bool {
    *repeat == 1
}

/// An operator as written: a word, or a table with the operator's word and its options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OperatorSpec {
    /// A function of each element.
    Activation(Activation),
    /// An operator without options.
    Word(Word),
    /// A convolution.
    Conv(Conv),
    /// A convolution of each channel by itself.
    Depthwise(Depthwise),
    /// The transpose of a convolution, which makes maps larger.
    TransposedConv(TransposedConv),
    /// Normalisation over groups of channels.
    GroupNorm(GroupNorm),
    /// The largest value of each window.
    MaxPool(MaxPool),
    /// The mean of each window.
    MeanPool(MeanPool),
    /// Means of as many windows as are asked for.
    AdaptivePool(AdaptivePool),
    /// Repetition of pixels.
    Upsample(Upsample),
    /// A product with the features of each pixel or token.
    Linear(Linear),
    /// Self-attention with its projections.
    Attention(AttentionSpec),
    /// Pixels as a sequence, behind trained tokens.
    ClassTokens(ClassTokens),
    /// The pixels of each window as the channels of one.
    SpaceToDepth(SpaceToDepth),
    /// A look-up of tokens.
    Embedding(Embedding),
    /// Long short-term memory over the steps of a sequence.
    Lstm(Lstm),
    /// Gated recurrent units over the steps of a sequence.
    Gru(Gru),
    /// Rows of embedding tables beside what flows.
    Tables(Tables),
    /// Gates for channels from their means.
    SqueezeExcite(SqueezeExcite),
    /// Regions cut out of maps.
    RoiAlign(RoiAlign),
    /// The sum of branches, or with something saved.
    Add(Add),
    /// Channels of branches side by side, or with something saved.
    Concat(Concat),
    /// A name for what the operator before made.
    Save(Save),
    /// Goes on with something saved.
    Load(Load),
    /// Operators beside the main path that end in a loss of their own.
    Side(Side),
    /// Softmax cross-entropy over a number of classes.
    CrossEntropy(CrossEntropy),
}

/// A function of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// The positive part, capped or not.
    Relu,
    /// x · sigmoid(x).
    Swish,
    /// x · Φ(x).
    Gelu,
    /// 1 / (1 + e⁻ˣ).
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// Swish of straight lines.
    HardSwish,
    /// Sigmoid of straight lines.
    HardSigmoid,
}

/// An operator without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Normalisation of each channel over the pixels of all samples.
    BatchNorm,
    /// Normalisation of each channel over the pixels of its own sample.
    InstanceNorm,
    /// Normalisation over the channels of each pixel or token.
    LayerNorm,
    /// Each channel times a trained value.
    Scale,
    /// Random zeros.
    Dropout,
    /// All elements of a map as the features of one vector.
    Flatten,
    /// The mean of all pixels.
    GlobalPool,
    /// The first token of a sequence.
    FirstToken,
    /// The first vector of a sequence, and the dot products of all pairs.
    DotInteraction,
    /// Softmax cross-entropy over all channels.
    CrossEntropy,
}

/// A number for all dimensions of a map, or one for each: depth, height and width of a volume, height and width of an
/// image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "it must be a whole number, or a list with one for each dimension")]
pub enum Sizes {
    /// The same for all dimensions.
    All(u64),
    /// One for each dimension.
    Each(Vec<u64>),
}

/// What is put around a map before windows are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "it must be \"same\", \"valid\", a whole number, or a list with one for each dimension")]
pub enum Padding {
    /// By a rule.
    Rule(PaddingRule),
    /// This many pixels on each side.
    By(Sizes),
}

/// How much is put around a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PaddingRule {
    /// As much that the stride alone makes it smaller.
    Same,
    /// Nothing.
    Valid,
}

/// A normalisation after a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Norm {
    /// Over samples and pixels.
    Batch,
    /// Over the pixels of each sample.
    Instance,
    /// Over the channels of each pixel.
    Layer,
    /// Scale and shift of each channel by what was learnt before: nothing is measured and nothing trained.
    Frozen,
}

/// How far a map is made larger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "it must be a whole number, a list with one for each dimension, or the name of something saved"
)]
pub enum UpsampleTo {
    /// To the extent of something saved.
    ExtentOf(String),
    /// So many times.
    Times(Sizes),
}

/// What is joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Joined {
    /// With what was saved under this name.
    Saved(String),
    /// What these make of the same input.
    Branches(Vec<Vec<OperatorSpec>>),
}
