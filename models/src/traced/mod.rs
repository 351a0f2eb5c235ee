//! The language of models that were read from the graph of another program, of the family `traced`: layers of operators,
//! each with its sizes; `docs/models.md` describes it.

mod spec;

pub use spec::{
    AttentionSizes, ConvolutionSizes, CrossEntropySizes, EmbeddingSizes, KernelSizes, LinearSizes, MapSizes, NormSizes,
    PoolSizes, ProductSizes, RecurrentSizes, RowSizes, TracedLayer, TracedOperator, WeightSizes,
};
