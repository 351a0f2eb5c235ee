//! Vision transformers.

use super::transformer::{Heads, Stream, classifier, operator, pooler};
use crate::fields::{CHANNELS_MAX, Fields, IMAGE_MAX};
use crate::graph::{Layer, OperatorGraph};
use crate::operator::{AttentionKernel, Convolution, Image, Mask, OperatorKind, Split};
use crate::spec::{Family, HeadKind, ModelError, ModelSpec};

const FIELDS: [&str; 10] =
    ["layers", "hidden", "heads", "ffn", "image_size", "patch_size", "channels", "classes", "attention", "head"];

/// An encoder over patches of an image and a class token: learned positions, pre-normalisation, GELU, no dropout.
///
/// Source: Dosovitskiy et al., arXiv:2010.11929, section 3.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vit {
    /// Catalog id or the user's name.
    pub name: String,
    /// Blocks.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Attention heads.
    pub heads: u64,
    /// Width inside the feed-forward part.
    pub ffn: u64,
    /// Height and width of an image.
    pub image_size: u64,
    /// Height and width of a patch.
    pub patch_size: u64,
    /// Channels of an image.
    pub channels: u64,
    /// Classes, for a classifier.
    pub classes: Option<u64>,
    /// How attention is computed.
    pub attention: AttentionKernel,
    /// Classifier or pooler.
    pub head: HeadKind,
}

impl Vit {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&FIELDS])?;
        let hidden = fields.hidden()?;
        let head = spec.head.unwrap_or(HeadKind::Classifier);
        if matches!(head, HeadKind::Pretraining | HeadKind::MaskedLanguageModel) {
            return Err(ModelError::ForeignHead { model: spec.name.clone(), family: spec.family, head });
        }
        let image_size = fields.or("image_size", spec.image_size, 224, IMAGE_MAX)?;
        let patch_size = fields.needed("patch_size", spec.patch_size, image_size)?;
        if !image_size.is_multiple_of(patch_size) {
            return Err(ModelError::IndivisiblePatches { model: spec.name.clone(), image_size, patch_size });
        }
        Ok(Self {
            name: spec.name.clone(),
            layers: fields.layers()?,
            hidden,
            heads: fields.dividing_heads(hidden)?,
            ffn: fields.ffn(hidden)?,
            image_size,
            patch_size,
            channels: fields.or("channels", spec.channels, 3, CHANNELS_MAX)?,
            classes: fields.classes(head)?,
            attention: fields.attention(),
            head,
        })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        ModelSpec {
            layers: Some(self.layers),
            hidden: Some(self.hidden),
            heads: Some(self.heads),
            ffn: Some(self.ffn),
            image_size: Some(self.image_size),
            patch_size: Some(self.patch_size),
            channels: Some(self.channels),
            classes: self.classes,
            attention: Some(self.attention),
            head: Some(self.head),
            ..ModelSpec::new(&self.name, Family::Vit)
        }
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
        let stream = self.stream();
        let heads = Heads::equal(self.heads, self.hidden / self.heads, self.attention, Mask::Full);
        let block = stream.block(heads, stream.feed_forward(self.ffn), 0);
        OperatorGraph::of_equal_blocks(self.embedding(), block, self.layers, self.head_layer(), 0)
    }

    /// Patches and the class token.
    pub fn tokens(&self) -> u64 {
        (self.image_size / self.patch_size).pow(2) + 1
    }

    fn stream(&self) -> Stream {
        Stream::gelu(self.tokens(), self.hidden, false)
    }

    fn embedding(&self) -> Layer {
        let patches = Convolution {
            samples: 1,
            input: [1, self.image_size, self.image_size],
            output: [1, self.image_size / self.patch_size, self.image_size / self.patch_size],
            inputs: self.channels,
            outputs: self.hidden,
            kernel: [1, self.patch_size, self.patch_size],
            groups: 1,
            bias: true,
            transposed: false,
        };
        let tokens = OperatorKind::ClassToken { rows: self.tokens(), positions: self.tokens(), width: self.hidden };
        let operators = vec![
            operator(OperatorKind::Image(Image::Convolution(patches)), Split::Replicated),
            operator(tokens, Split::Tokens),
        ];
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
