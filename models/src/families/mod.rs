//! The model families: each reads its fields of a specification, and builds its operator graph.

mod bert;
mod gpt;
mod llama;
mod mlp;
mod resnet;
mod t5;
mod transformer;
mod vit;

pub use bert::Bert;
pub use gpt::{Gpt, GptMoe};
pub use llama::Llama;
pub use mlp::Mlp;
pub use resnet::ResNet;
pub use t5::T5;
pub use transformer::Experts;
pub use vit::Vit;
