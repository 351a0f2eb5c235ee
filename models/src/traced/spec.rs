//! Traced layers as written. All sizes are those of one sample.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares the tables of operators: the sizes that are needed and, behind `+`, what may be left out: numbers that are 0
/// then, and flags that are false.
macro_rules! tables {
    ($(
        $(#[$meta:meta])*
        $table:ident { $($(#[$needed_meta:meta])* $needed:ident: $type:ty,)* }
        $(+ { $($(#[$doc:meta])* $field:ident: $of:ty,)* })?
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            pub struct $table {
                $($(#[$needed_meta])* pub $needed: $type,)*
                $($(
                    $(#[$doc])*
                    #[serde(default, skip_serializing_if = "is_default")]
                    pub $field: $of,
                )*)?
            }
        )*
    };
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

tables! {
    /// A product of rows with weights, and perhaps a bias.
    LinearSizes {
        /// Rows: tokens or pixels.
        rows: u64,
        /// Features of a row.
        inputs: u64,
        /// Features of a row of the result.
        outputs: u64,
    } + {
        /// Whether a bias is added.
        bias: bool,
        /// Whether its weights are those of an operator before it.
        shared: bool,
        /// Whether another operator keeps its input for backward.
        input_kept: bool,
    }

    /// A convolution, or its transpose, of up to three dimensions: depth, height and width.
    ConvolutionSizes {
        /// Maps of a sample.
        maps: u64,
        /// Extent of the input; 1 in dimensions that it has not.
        input: [u64; 3],
        /// Extent of the output.
        output: [u64; 3],
        /// Channels of the input.
        inputs: u64,
        /// Channels of the output.
        outputs: u64,
        /// Extent of the kernel.
        kernel: [u64; 3],
        /// Groups of channels that are convolved apart.
        groups: u64,
    } + {
        /// Whether a bias is added.
        bias: bool,
        /// Whether it is the transpose of a convolution.
        transposed: bool,
        /// Whether its weights are those of an operator before it.
        shared: bool,
        /// Whether another operator keeps its input for backward.
        input_kept: bool,
    }

    /// Scaled dot-product attention between queries, keys and values that were projected before.
    AttentionSizes {
        /// Sequences of a sample.
        sequences: u64,
        /// Heads of queries.
        heads: u64,
        /// Heads of keys and values.
        kv_heads: u64,
        /// Tokens that attend.
        queries: u64,
        /// Tokens that are attended to.
        keys: u64,
        /// Features of a head of queries and keys.
        head_width: u64,
        /// Features of a head of values.
        value_width: u64,
    } + {
        /// Whether tokens attend to earlier ones only.
        causal: bool,
        /// Whether weights are dropped out.
        dropout: bool,
        /// Whether a bias for each pair is added to the scores.
        biased: bool,
    }

    /// A look-up of rows in a table.
    EmbeddingSizes {
        /// Rows that are looked up.
        rows: u64,
        /// Entries of the table.
        entries: u64,
        /// Features of an entry.
        width: u64,
    } + {
        /// Whether the table is that of an operator before it.
        shared: bool,
    }

    /// A normalisation over the features of each row.
    NormSizes {
        /// Rows: tokens or pixels.
        rows: u64,
        /// Features of a row.
        width: u64,
    } + {
        /// Whether its weights are those of an operator before it.
        shared: bool,
        /// Whether another operator keeps its input for backward.
        input_kept: bool,
    }

    /// A normalisation of channels over pixels, with scale and shift.
    MapSizes {
        /// Pixels of the sample.
        pixels: u64,
        /// Channels of a pixel.
        channels: u64,
    } + {
        /// Whether its weights are those of an operator before it.
        shared: bool,
        /// Whether another operator keeps its input for backward.
        input_kept: bool,
    }

    /// A value for each window of pixels.
    PoolSizes {
        /// Pixels of the input.
        pixels: u64,
        /// Pixels of the output.
        windows: u64,
        /// Channels of a pixel.
        channels: u64,
    } + {
        /// Whether another operator keeps its input for backward.
        input_kept: bool,
    }

    /// A function of each element.
    RowSizes {
        /// Rows: tokens or pixels.
        rows: u64,
        /// Features of a row.
        width: u64,
    } + {
        /// Whether another operator keeps its input for backward.
        input_kept: bool,
    }

    /// Independent products of two activations, (m, k) · (k, n) each.
    ProductSizes {
        /// Products.
        batch: u64,
        /// Rows of a result.
        m: u64,
        /// Columns of a result.
        n: u64,
        /// Length of the sums.
        k: u64,
    } + {
        /// Elements of the operands that nothing else keeps for backward.
        kept: u64,
    }

    /// Any other kernel, which is bound by memory.
    KernelSizes {
        /// Elements read.
        read: u64,
        /// Elements written.
        written: u64,
    } + {
        /// Elements that backward needs and that nothing else keeps.
        kept: u64,
        /// Bytes of masks and indices that backward needs.
        masks: u64,
    }

    /// Trained values that kernels read beside what flows: positions, scales, biases of scores.
    WeightSizes {
        /// Trained values.
        values: u64,
        /// Tensors that they are in.
        tensors: u32,
    }

    /// A layer of recurrent cells over the steps of a sequence, with two biases for each gate.
    RecurrentSizes {
        /// Sequences of a sample.
        sequences: u64,
        /// Steps of a sequence.
        steps: u64,
        /// Features of a step.
        inputs: u64,
        /// Features of a state.
        hidden: u64,
    } + {
        /// Whether another set of weights reads from the end.
        bidirectional: bool,
        /// Whether its weights are those of an operator before it.
        shared: bool,
    }

    /// Softmax cross-entropy.
    CrossEntropySizes {
        /// Values that are predicted.
        rows: u64,
        /// Classes.
        classes: u64,
    }
}

/// An operator with its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TracedOperator {
    /// A product with weights.
    Linear(LinearSizes),
    /// A convolution.
    Convolution(ConvolutionSizes),
    /// Scaled dot-product attention.
    Attention(AttentionSizes),
    /// A look-up in a table.
    Embedding(EmbeddingSizes),
    /// Layer normalisation with scale and shift.
    LayerNorm(NormSizes),
    /// Division by the root mean square, with scale.
    RmsNorm(NormSizes),
    /// Normalisation of channels over all samples, with scale and shift.
    BatchNorm(MapSizes),
    /// Normalisation of channels, or groups of them, over each sample by itself, with scale and shift.
    GroupNorm(MapSizes),
    /// The largest value of each window.
    MaxPool(PoolSizes),
    /// The mean of each window.
    MeanPool(PoolSizes),
    /// The positive part, capped or not.
    Relu(RowSizes),
    /// x · Φ(x), or another smooth function that is computed alike.
    Gelu(RowSizes),
    /// A sum with something else.
    Add(RowSizes),
    /// Long short-term memory.
    Lstm(RecurrentSizes),
    /// Gated recurrent units.
    Gru(RecurrentSizes),
    /// A product of two activations.
    Product(ProductSizes),
    /// Any other kernel.
    Kernel(KernelSizes),
    /// Trained values beside.
    Weights(WeightSizes),
    /// The loss.
    CrossEntropy(CrossEntropySizes),
}

/// A layer: the unit that is assigned to pipeline stages, and of which recomputation keeps only the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TracedLayer {
    /// What it is called in messages and reports: the path of the module that it was.
    pub name: String,
    /// How many of it follow one another; 1 if left out.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeat: u64,
    /// Elements of a sample that go on to the next layer, what only goes past this one among them.
    pub output: u64,
    /// Those of them that this layer made.
    pub made: u64,
    /// Trained values of the first layer that it uses too, which only the last layer may: a tied head.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tied: u64,
    /// What it computes, in order.
    pub operators: Vec<TracedOperator>,
}

fn once() -> u64 {
    1
}

fn is_once(repeat: &u64) -> bool {
    *repeat == 1
}
