//! The kind of data that a model is trained on.

use trainyard_models::{HeadKind, Model};

/// The kind of one training sample, and the number of values of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// So many tokens, each of which predicts the next.
    NextToken {
        /// Tokens of a sample.
        sequence: usize,
        /// Entries of the model's token table.
        vocabulary: u64,
    },
    /// So many tokens, some of which are hidden and predicted.
    Masked {
        /// Tokens of a sample.
        sequence: usize,
        /// Entries of the model's token table.
        vocabulary: u64,
        /// Tokens of a sample that are predicted; 15 % if the model does not say.
        predictions: Option<usize>,
    },
    /// An image with a class.
    Image {
        /// Channels of an image.
        channels: usize,
        /// Its height in pixels.
        height: usize,
        /// Its width in pixels.
        width: usize,
        /// Classes that the model tells apart.
        classes: u64,
    },
    /// A vector with a class.
    Vector {
        width: usize,
        /// Classes that the model tells apart.
        classes: u64,
    },
}

impl SampleKind {
    /// The families of models that [`Self::of`] knows a kind for, for messages.
    pub const FAMILIES: &str = "gpt, gpt-moe, llama, gpt-neox, gemma2, bert, vit, resnet and mlp";

    /// Returns the kind that `model` is trained on; `None` if no data of the kinds that are read would train it.
    pub fn of(model: &Model) -> Option<Self> {
        let next_token = |sequence: u64, vocabulary| Some(Self::NextToken { sequence: sequence as usize, vocabulary });
        let image = |channels: u64, side: u64, classes| {
            let (channels, side) = (channels as usize, side as usize);
            Some(Self::Image { channels, height: side, width: side, classes })
        };
        match model {
            Model::Gpt(gpt) => next_token(gpt.seq_len, gpt.vocab),
            Model::GptMoe(routed) => next_token(routed.dense.seq_len, routed.dense.vocab),
            Model::Llama(llama) => next_token(llama.seq_len, llama.vocab),
            Model::GptNeox(neox) => next_token(neox.seq_len, neox.vocab),
            Model::Gemma2(gemma) => next_token(gemma.seq_len, gemma.vocab),
            Model::Bert(bert) if matches!(bert.head, HeadKind::MaskedLanguageModel | HeadKind::Pretraining) => {
                Some(Self::Masked {
                    sequence: bert.seq_len as usize,
                    vocabulary: bert.vocab,
                    predictions: bert.predictions.map(|count| count as usize),
                })
            }
            Model::Vit(vit) => image(vit.channels, vit.image_size, vit.classes?),
            Model::ResNet(resnet) => image(resnet.channels, resnet.image_size, resnet.classes),
            Model::Mlp(mlp) => Some(Self::Vector { width: mlp.inputs as usize, classes: mlp.outputs }),
            _ => None,
        }
    }

    /// Returns the number of tokens of a sample, for models that read them.
    pub fn sequence(&self) -> Option<usize> {
        match self {
            Self::NextToken { sequence, .. } | Self::Masked { sequence, .. } => Some(*sequence),
            Self::Image { .. } | Self::Vector { .. } => None,
        }
    }

    /// Returns the number of classes, for models that tell some apart.
    pub fn classes(&self) -> Option<u64> {
        match self {
            Self::NextToken { .. } | Self::Masked { .. } => None,
            Self::Image { classes, .. } | Self::Vector { classes, .. } => Some(*classes),
        }
    }

    /// Describes the kind in words, for messages.
    pub fn words(&self) -> String {
        match self {
            Self::NextToken { sequence, .. } | Self::Masked { sequence, .. } => format!("texts of {sequence} tokens"),
            Self::Image { channels, height, width, .. } => format!("images of {channels} × {height} × {width} values"),
            Self::Vector { width, .. } => format!("vectors of {width} values"),
        }
    }

    /// Returns the kinds of files that may be named for it, for messages.
    pub fn allowed(&self) -> &'static str {
        match self {
            Self::NextToken { .. } | Self::Masked { .. } => {
                "a text file, a folder of text files, or a .npy or .safetensors array of token ids"
            }
            Self::Image { .. } => {
                "a folder with a folder of JPEG or PNG files for each class, MNIST or CIFAR binary files, or .npy or \
                 .safetensors arrays"
            }
            Self::Vector { .. } => ".npy or .safetensors arrays, or MNIST or CIFAR binary files",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use trainyard_models::{catalog, find};

    fn wanted(name: &str) -> Option<SampleKind> {
        SampleKind::of(&find(name).expect("a model of the catalog").model)
    }

    #[test]
    fn models_of_the_catalog_want_what_their_families_read() {
        assert_eq!(wanted("gpt2"), Some(SampleKind::NextToken { sequence: 1024, vocabulary: 50257 }));
        let image = SampleKind::Image { channels: 3, height: 224, width: 224, classes: 1000 };
        assert_eq!((wanted("resnet50"), wanted("vit-b-16")), (Some(image), Some(image)));
        assert_eq!(wanted("mnist-mlp"), Some(SampleKind::Vector { width: 784, classes: 10 }));
        assert!(matches!(wanted("bert-base"), Some(SampleKind::Masked { .. })));
        assert_eq!(wanted("gnmt"), None);
    }

    #[test]
    fn the_families_that_are_named_are_those_that_are_read() {
        let read = catalog().map(|entry| &entry.model).filter(|model| SampleKind::of(model).is_some());
        let read: BTreeSet<String> = read.map(|model| model.family().to_string()).collect();
        let named = SampleKind::FAMILIES.split([',', ' ']).filter(|word| !["", "and"].contains(word));
        assert_eq!(named.map(str::to_owned).collect::<BTreeSet<_>>(), read);
    }
}
