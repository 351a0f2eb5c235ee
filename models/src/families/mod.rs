//! Models: as they are written (`spec`), the fields of families and how they are checked, and the families themselves. A
//! family is one file here, which declares its dimensions and builds its operator graph, and one line of the list
//! `families!` below.

mod bart;
mod bert;
mod blocks;
mod clip;
mod dlrm;
mod dropout;
mod electra;
mod encoder_decoder;
mod fields;
mod gemma2;
mod gnmt;
mod gpt;
mod gpt_moe;
mod gpt_neox;
mod layers;
mod llama;
mod mamba2;
mod mlp;
mod model;
mod parts;
mod resnet;
mod rnn_t;
mod rotary;
mod router;
mod spec;
mod t5;
mod traced;
mod transformer;
mod transformer_xl;
mod vit;
mod whisper;

pub use bert::predicted_tokens;
pub use dropout::{Dropout, DropoutSpec, check_dropout};
pub use encoder_decoder::EncoderDecoder;
pub use fields::SEQUENCE_MAX;
pub use model::{Sample, SpecialLayers, samples_in};
pub use parts::{Experts, FeedForward, Norm};
pub use rotary::RotaryScaling;
pub use router::{Router, RouterScores};
pub use spec::{BlockKind, HeadKind, ModelError, ModelSpec, PositionKind, QueryKeyNorm};

use model::Architecture;

/// Makes [`Family`] and [`Model`] of a list of families, each with its name in files.
macro_rules! families {
    ($($(#[$doc:meta])* $module:ident::$family:ident = $name:literal,)*) => {
        $(pub use $module::$family;)*

        /// The architecture of a model.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum Family {
            $($(#[$doc])* #[serde(rename = $name)] $family,)*
        }

        impl std::fmt::Display for Family {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$family => $name,)*
                })
            }
        }

        impl Family {
            /// Returns `true` for models with an encoder and a decoder, whose output has a length of its own
            /// ([`ModelSpec::decoder_seq_len`]).
            pub fn has_decoder_length(self) -> bool {
                match self {
                    $(Self::$family => <$family as fields::Dimensions>::has("decoder_seq_len"),)*
                }
            }
        }

        /// A model whose dimensions fit together.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(clippy::large_enum_variant, reason = "there are few models at a time")]
        pub enum Model {
            $($(#[$doc])* $family($family),)*
        }

        impl Model {
            /// Returns the architecture.
            pub fn family(&self) -> Family {
                match self {
                    $(Self::$family(_) => Family::$family,)*
                }
            }

            pub(crate) fn architecture(&self) -> &dyn Architecture {
                match self {
                    $(Self::$family(own) => own,)*
                }
            }
        }

        impl TryFrom<ModelSpec> for Model {
            type Error = ModelError;

            fn try_from(spec: ModelSpec) -> Result<Self, ModelError> {
                let read = match spec.family {
                    $(Family::$family => fields::read(&spec).map(Self::$family),)*
                };
                let checked = read.and_then(|model| Ok(model.architecture().check().map(|()| model)?));
                checked.map_err(|error| error.of(&spec.name))
            }
        }
    };
}

families! {
    /// A decoder-only transformer with learned positions, as GPT-2.
    gpt::Gpt = "gpt",
    /// The same with experts, as GShard.
    gpt_moe::GptMoe = "gpt-moe",
    /// An encoder-only transformer, as BERT and RoBERTa.
    bert::Bert = "bert",
    /// A decoder-only transformer with rotary positions and gated feed-forward parts, as Llama, Mistral and Mixtral.
    llama::Llama = "llama",
    /// A decoder-only transformer with parts side by side and rotary positions for a part of each head, as GPT-NeoX and
    /// Pythia.
    gpt_neox::GptNeox = "gpt-neox",
    /// A decoder-only transformer with normalisations around its parts and bounded scores and logits, as Gemma 2.
    gemma2::Gemma2 = "gemma2",
    /// One stack of transformer blocks over tokens, of parts that are chosen one by one, as most language models of today.
    blocks::Blocks = "blocks",
    /// A vision transformer.
    vit::Vit = "vit",
    /// A decoder of selective state spaces, as Mamba-2.
    mamba2::Mamba2 = "mamba2",
    /// An encoder of images and one of texts, as CLIP.
    clip::Clip = "clip",
    /// An encoder-decoder, as T5.
    t5::T5 = "t5",
    /// A generator and a discriminator, as ELECTRA.
    electra::Electra = "electra",
    /// An encoder-decoder with learned positions, as BART.
    bart::Bart = "bart",
    /// An encoder-decoder with sinusoidal positions, as the first transformer.
    transformer::Transformer = "transformer",
    /// A decoder-only transformer with a memory of the segment before, as Transformer-XL.
    transformer_xl::TransformerXl = "transformer-xl",
    /// An encoder-decoder from sound to text, as Whisper.
    whisper::Whisper = "whisper",
    /// A recurrent encoder-decoder for translation, as GNMT.
    gnmt::Gnmt = "gnmt",
    /// A recurrent transducer for speech.
    rnn_t::RnnT = "rnn-t",
    /// A recommendation model of embedding tables and products.
    dlrm::Dlrm = "dlrm",
    /// A residual convolutional network.
    resnet::ResNet = "resnet",
    /// A stack of linear layers with an activation between them.
    mlp::Mlp = "mlp",
    /// Layers of operators that are written out.
    layers::Layers = "layers",
    /// Operators with their sizes, read from the graph of another program.
    traced::Traced = "traced",
}
