//! Vision transformers.

use super::parts::{Heads, Stream, classifier, operator, patches, pooler};
use crate::families::fields::{
    CHANNELS_MAX, Field, IMAGE_MAX, LAYERS_MAX, WIDTH_MAX, attention_heads, dimensions, divisor, head_classes, kernel,
    needed, or,
};
use crate::families::model::{Architecture, Sample};
use crate::families::{Dropout, HeadKind};
use crate::graph::{Layer, OperatorGraph};
use crate::operator::{AttentionKernel, Image, Mask, OperatorKind, Split};
use trainyard_units::Invalid;

dimensions! {
    /// An encoder over patches of an image and a class token: learned positions, pre-normalisation, GELU, no dropout but
    /// what is asked for.
    ///
    /// Source: Dosovitskiy et al., arXiv:2010.11929, section 3.1.
    pub struct Vit {
        name,
        hidden: u64 = needed(WIDTH_MAX),
        /// Classifier or pooler.
        head: HeadKind = first_token(),
        image_size: u64 = or(224, IMAGE_MAX),
        patch_size: u64 = covering(image_size),
        layers: u32 = needed(LAYERS_MAX),
        heads: u64 = attention_heads(hidden),
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        channels: u64 = or(3, CHANNELS_MAX),
        classes: Option<u64> = head_classes(head),
        attention: AttentionKernel = kernel(),
        /// The shares that are dropped out.
        @part dropout: Dropout = (),
    }
}

/// Reads a head over the first token.
fn first_token(at: Field, written: Option<HeadKind>) -> Result<HeadKind, Invalid> {
    match written.unwrap_or(HeadKind::Classifier) {
        head @ (HeadKind::Pretraining | HeadKind::MaskedLanguageModel | HeadKind::LanguageModel) => {
            Err(Invalid::breaks(at.name, format!("`{head}`"), format!("family `{}` has none", at.spec.family))
                .with_hint("set head = \"classifier\" or head = \"pooler\""))
        }
        head => Ok(head),
    }
}

/// Reads the side of patches that cover an image.
pub(super) fn covering(at: Field, written: Option<u64>, image_size: u64) -> Result<u64, Invalid> {
    let patch_size = needed(at, written, image_size)?;
    divisor(at.name, patch_size, (image_size, "pixels of `image_size`"))
        .map_err(|error| error.with_hint(format!("image_size {} is divisible", image_size / patch_size * patch_size)))
}

impl Architecture for Vit {
    fn sample(&self) -> Sample {
        Sample::Image(self.channels * self.image_size * self.image_size)
    }

    fn tensor_heads(&self) -> Option<u64> {
        Some(self.heads)
    }

    fn dropout(&self) -> Dropout {
        self.dropout
    }

    fn graph(&self) -> OperatorGraph {
        let stream = self.stream();
        let heads = Heads::equal(self.heads, self.hidden / self.heads, self.attention, Mask::Full);
        let block = stream.block(heads, stream.feed_forward(self.ffn), 0);
        OperatorGraph::of_equal_blocks(self.embedding(), block, self.layers, self.head_layer(), 0)
    }
}

impl Vit {
    /// Patches and the class token.
    pub fn tokens(&self) -> u64 {
        patches(self.image_size, self.patch_size) + 1
    }

    fn stream(&self) -> Stream {
        Stream::gelu(self.tokens(), self.hidden, self.dropout.counted(false))
    }

    fn embedding(&self) -> Layer {
        let mut operators = self.stream().patch_embedding(self.image_size, self.patch_size, self.channels, true);
        if self.stream().dropout.embedding {
            let dropout = Image::Dropout { samples: 1, elements: self.stream().elements() };
            operators.push(operator(OperatorKind::Image(dropout), Split::Tokens));
        }
        Layer { tensor_reductions: 0, ..self.stream().input(operators) }
    }

    fn head_layer(&self) -> Layer {
        let mut operators = vec![self.stream().norm()];
        match self.classes {
            Some(classes) => operators.extend(classifier(self.hidden, classes)),
            None => operators.extend(pooler(self.hidden)),
        }
        Layer { tensor_reductions: 0, ..Stream::head(1, operators) }
    }
}
