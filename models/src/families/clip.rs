//! Pairs of a text and an image as CLIP.

use super::parts::{Heads, Stream, operator, patches};
use crate::families::fields::{
    CHANNELS_MAX, Field, IMAGE_MAX, LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, dimensions,
    divisor, kernel, needed, or,
};
use crate::families::model::{Architecture, Sample};
use crate::families::vit::covering;
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{AttentionKernel, Image, Mask, Operator, OperatorKind, Split, replicated};
use trainyard_units::Invalid;

dimensions! {
    /// An encoder of images and one of texts, each of which ends in a product to vectors that are compared: both with
    /// learned positions, pre-normalisation and biases. The comparison of all pairs of a batch is not counted: a product of
    /// as many vectors.
    ///
    /// Source: Radford et al., arXiv:2103.00020, sections 2.4 and 2.5.
    pub struct Clip {
        name,
        /// Width of the encoder of texts.
        hidden: u64 = needed(WIDTH_MAX),
        /// Heads of the encoder of texts.
        heads: u64 = attention_heads(hidden),
        layers: u32 = needed(LAYERS_MAX),
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        vocab: u64 = needed(VOCABULARY_MAX),
        seq_len: u64 = needed(SEQUENCE_MAX),
        vision_hidden: u64 = needed(WIDTH_MAX),
        vision_heads: u64 = heads_of(vision_hidden),
        vision_layers: u32 = needed(LAYERS_MAX),
        vision_ffn: u64 = or(4 * vision_hidden, 4 * WIDTH_MAX),
        image_size: u64 = or(224, IMAGE_MAX),
        patch_size: u64 = covering(image_size),
        channels: u64 = or(3, CHANNELS_MAX),
        /// Features of the vectors that are compared.
        joint: u64 = or(hidden, WIDTH_MAX),
        attention: AttentionKernel = kernel(),
    }
}

/// Reads the heads of the encoder of images.
fn heads_of(at: Field, written: Option<u64>, width: u64) -> Result<u64, Invalid> {
    divisor(at.name, needed(at, written, WIDTH_MAX)?, (width, "features of `vision_hidden`"))
}

impl Architecture for Clip {
    fn sample(&self) -> Sample {
        Sample::Image(self.channels * self.image_size * self.image_size)
    }

    /// As many as divide the heads of both.
    fn tensor_heads(&self) -> Option<u64> {
        let (mut divisor, mut rest) = (self.heads, self.vision_heads);
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Some(divisor)
    }

    /// The encoder of images, that of texts, and the loss. What an image became goes past the encoder of texts.
    fn graph(&self) -> OperatorGraph {
        let (images, texts) = (self.images(), self.texts());
        let heads = |heads, stream: Stream, mask| Heads::equal(heads, stream.hidden / heads, self.attention, mask);
        let image_block =
            images.block(heads(self.vision_heads, images, Mask::Full), images.feed_forward(self.vision_ffn), 0);
        let text_block = texts.block(heads(self.heads, texts, Mask::Causal), texts.feed_forward(self.ffn), 0);
        let text_block = Layer { output_elements: texts.elements() + self.joint, ..text_block };
        let runs = [
            (self.image_embedding(), 1),
            (image_block, self.vision_layers),
            (self.text_embedding(), 1),
            (text_block, self.layers),
            (self.comparison(), 1),
        ];
        OperatorGraph::of_runs(runs, 0)
    }
}

impl Clip {
    fn images(&self) -> Stream {
        Stream::gelu(patches(self.image_size, self.patch_size) + 1, self.vision_hidden, false)
    }

    fn texts(&self) -> Stream {
        Stream::gelu(self.seq_len, self.hidden, false)
    }

    fn image_embedding(&self) -> Layer {
        let stream = self.images();
        let mut operators = stream.patch_embedding(self.image_size, self.patch_size, self.channels, false);
        operators.push(stream.norm());
        Layer { tensor_reductions: 0, ..stream.input(operators) }
    }

    /// The vector of an image, and the tokens of the text.
    fn text_embedding(&self) -> Layer {
        let stream = self.texts();
        let mut operators = Vec::from(self.vector(self.images(), 1));
        operators.push(stream.lookup(self.vocab, self.seq_len, 0));
        let layer = stream.input(operators);
        Layer {
            name: "text embedding".into(),
            role: LayerRole::Block,
            output_elements: stream.elements() + self.joint,
            ..layer
        }
    }

    /// The vector of a text, both vectors scaled by one trained number, and a loss each way.
    fn comparison(&self) -> Layer {
        let scale = Image::Scale { samples: 1, pixels: 2 * self.joint, channels: 1, trained: true };
        let mut operators = Vec::from(self.vector(self.texts(), self.seq_len));
        operators
            .extend([OperatorKind::Image(scale), OperatorKind::CrossEntropy { rows: 2, vocab: 1 }].map(replicated));
        Layer { tensor_reductions: 0, ..Stream::head(1, operators) }
    }

    /// The normalisation of so many tokens, and the product of one of them to the vector that is compared.
    fn vector(&self, stream: Stream, normed: u64) -> [Operator; 2] {
        let projection = OperatorKind::Linear { rows: 1, inputs: stream.hidden, outputs: self.joint, bias: false };
        [Stream { tokens: normed, ..stream }.norm(), operator(projection, Split::Replicated)]
    }
}

#[cfg(test)]
mod tests {
    use crate::{Family, Model, ModelSpec, Sharing};

    #[test]
    fn ranks_share_the_heads_of_both_encoders() {
        let spec = ModelSpec {
            hidden: Some(96),
            heads: Some(12),
            layers: Some(2),
            vocab: Some(100),
            seq_len: Some(16),
            vision_hidden: Some(64),
            vision_heads: Some(8),
            vision_layers: Some(3),
            image_size: Some(32),
            patch_size: Some(8),
            joint: Some(48),
            ..ModelSpec::new("test", Family::Clip)
        };
        let model = Model::try_from(spec.clone()).expect("valid");
        assert_eq!(model.tensor_heads(), Some(4));
        let graph = model.graph();
        assert_eq!(graph.len(), 1 + 3 + 1 + 2 + 1);
        // The token of the class and those of positions, patches without biases, a normalisation.
        assert_eq!(graph.layer(0).parameters(Sharing::WHOLE), (1 + 17) * 64 + 3 * 64 * 64 + 2 * 64);
        assert_eq!(graph.layer(5).output_elements, 16 * 96 + 48);
        let uneven = Model::try_from(ModelSpec { vision_heads: Some(5), ..spec }).expect_err("refused");
        assert!(
            uneven.to_string().contains("`vision_heads` is 5, but it must divide the 64 features of `vision_hidden`")
        );
    }
}
