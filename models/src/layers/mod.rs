//! The language of layers that are written out from operators, of the family `layers`; `docs/models.md` describes it.

mod read;
mod spec;

pub use spec::{
    Activation, AdaptivePool, Add, AttentionSpec, ClassTokens, Concat, Conv, CrossEntropy, Depthwise, Embedding,
    GroupNorm, Gru, InputSpec, Joined, LayerSpec, Linear, Load, Lstm, MaxPool, MeanPool, Norm, OperatorSpec, Padding,
    PaddingRule, RoiAlign, Save, Side, Sizes, SpaceToDepth, SqueezeExcite, TransposedConv, Upsample, UpsampleTo, Word,
};
