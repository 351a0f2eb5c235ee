//! The model families: each reads its fields of a specification, and builds its operator graph.

mod bert;
mod dlrm;
mod electra;
mod encoder_decoder;
mod gnmt;
mod gpt;
mod llama;
mod mlp;
mod resnet;
mod rnn_t;
mod t5;
mod transformer;
mod transformer_xl;
mod vit;

pub use bert::Bert;
pub use dlrm::Dlrm;
pub use electra::Electra;
pub use encoder_decoder::{Bart, EncoderDecoder, Transformer};
pub use gnmt::Gnmt;
pub use gpt::{Gpt, GptMoe};
pub use llama::Llama;
pub use mlp::Mlp;
pub use resnet::ResNet;
pub use rnn_t::RnnT;
pub use t5::T5;
pub use transformer::Experts;
pub use transformer_xl::TransformerXl;
pub use vit::Vit;
