//! Residual convolutional networks.

use super::transformer::{classifier, operator};
use crate::fields::{CHANNELS_MAX, Fields, IMAGE_MAX, VOCABULARY_MAX};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{Convolution, Image, Operator, OperatorKind, Split};
use crate::spec::{BlockKind, Family, ModelError, ModelSpec};

const FIELDS: [&str; 9] = [
    "depths",
    "widths",
    "block",
    "base_channels",
    "width_factor",
    "kernel_factor",
    "image_size",
    "channels",
    "classes",
];

const DEPTH_MAX: u64 = 1000;
const STAGES_MAX: u64 = 8;
const FACTOR_MAX: u64 = 64;

/// A residual network: a strided stem, stages of residual blocks that halve the image and double the channels, mean
/// over the image, classifier. Bottlenecks stride in their 3 × 3 convolution.
///
/// Source: He et al., arXiv:1512.03385, section 4.1, as torchvision builds it; Zagoruyko and Komodakis,
/// arXiv:1605.07146, for wide ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResNet {
    /// Catalog id or the user's name.
    pub name: String,
    /// Blocks of each stage.
    pub depths: Vec<u32>,
    /// Channels that the blocks of each stage hand on.
    pub widths: Vec<u64>,
    /// What blocks are.
    pub block: BlockKind,
    /// Channels after the stem.
    pub base_channels: u64,
    /// Factor of the channels inside a bottleneck.
    pub width_factor: u64,
    /// Factor of the channels that the 3 × 3 convolution of a bottleneck makes, besides.
    pub kernel_factor: u64,
    /// Height and width of an image.
    pub image_size: u64,
    /// Channels of an image.
    pub channels: u64,
    /// Classes.
    pub classes: u64,
}

impl BlockKind {
    /// Channels that a block hands on, relative to those of its 3 × 3 convolutions before widening.
    fn expansion(self) -> u64 {
        match self {
            Self::Basic => 1,
            Self::Bottleneck => 4,
        }
    }
}

impl ResNet {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&FIELDS])?;
        let block = spec.block.unwrap_or(BlockKind::Bottleneck);
        let depths = spec.depths.clone().ok_or_else(|| fields.missing("depths"))?;
        fields.range("depths", depths.len() as u64, STAGES_MAX)?;
        for depth in &depths {
            fields.range("depths", u64::from(*depth), DEPTH_MAX)?;
        }
        let base_channels = fields.or("base_channels", spec.base_channels, 64, CHANNELS_MAX)?;
        let doubled = |stage: usize| (base_channels * block.expansion()) << stage;
        let widths = spec.widths.clone().unwrap_or_else(|| (0..depths.len()).map(doubled).collect());
        if widths.len() != depths.len() {
            return Err(ModelError::UnequalStages {
                model: spec.name.clone(),
                depths: depths.len(),
                widths: widths.len(),
            });
        }
        for width in &widths {
            fields.range("widths", *width, CHANNELS_MAX)?;
        }
        Ok(Self {
            name: spec.name.clone(),
            depths,
            widths,
            block,
            base_channels,
            width_factor: fields.or("width_factor", spec.width_factor, 1, FACTOR_MAX)?,
            kernel_factor: fields.or("kernel_factor", spec.kernel_factor, 1, FACTOR_MAX)?,
            image_size: fields.or("image_size", spec.image_size, 224, IMAGE_MAX)?,
            channels: fields.or("channels", spec.channels, 3, CHANNELS_MAX)?,
            classes: fields.needed("classes", spec.classes, VOCABULARY_MAX)?,
        })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        ModelSpec {
            depths: Some(self.depths.clone()),
            widths: Some(self.widths.clone()),
            block: Some(self.block),
            base_channels: Some(self.base_channels),
            width_factor: Some(self.width_factor),
            kernel_factor: Some(self.kernel_factor),
            image_size: Some(self.image_size),
            channels: Some(self.channels),
            classes: Some(self.classes),
            ..ModelSpec::new(&self.name, Family::Resnet)
        }
    }

    /// Stem, blocks, head: of each stage, the first block, which may change the shape, and the others.
    pub(crate) fn graph(&self) -> OperatorGraph {
        let mut feature = Feature { size: self.image_size.div_ceil(4), channels: self.base_channels };
        let (mut layers, mut order) = (vec![self.stem()], vec![0]);
        for (stage, (depth, width)) in self.depths.iter().zip(&self.widths).enumerate() {
            let stride = if stage == 0 { 1 } else { 2 };
            order.push(layers.len());
            layers.push(self.residual_block(feature, *width, stride));
            feature = Feature { size: feature.size.div_ceil(stride), channels: *width };
            if *depth > 1 {
                order.extend(std::iter::repeat_n(layers.len(), *depth as usize - 1));
                layers.push(self.residual_block(feature, *width, 1));
            }
        }
        order.push(layers.len());
        layers.push(self.head(feature));
        OperatorGraph::new(layers, order, 0)
    }

    fn stem(&self) -> Layer {
        let image = Feature { size: self.image_size, channels: self.channels };
        let mut operators = Vec::new();
        let convolved = image.convolution(7, 2, self.base_channels, &mut operators);
        operators.push(convolved.relu());
        let pool = Image::Pool { samples: 1, size: convolved.size, channels: convolved.channels, stride: 2 };
        operators.push(replicated(pool));
        let output = Feature { size: convolved.size.div_ceil(2), ..convolved };
        layer("stem", LayerRole::Input, operators, output.elements())
    }

    fn residual_block(&self, input: Feature, width: u64, stride: u64) -> Layer {
        let mut operators = Vec::new();
        let output = match self.block {
            BlockKind::Basic => {
                let middle = input.convolution(3, stride, width, &mut operators);
                operators.push(middle.relu());
                middle.convolution(3, 1, width, &mut operators)
            }
            BlockKind::Bottleneck => {
                let reduced = (width / self.block.expansion()).max(1) * self.width_factor;
                let first = input.convolution(1, 1, reduced, &mut operators);
                operators.push(first.relu());
                let second = first.convolution(3, stride, reduced * self.kernel_factor, &mut operators);
                operators.push(second.relu());
                second.convolution(1, 1, width, &mut operators)
            }
        };
        if stride != 1 || input.channels != width {
            let start = operators.len();
            input.convolution(1, stride, width, &mut operators);
            // The block's first convolution keeps the same input.
            operators[start].kept_elsewhere = true;
        }
        operators.extend([output.addition(), output.relu()]);
        layer("residual block", LayerRole::Block, operators, output.elements())
    }

    fn head(&self, feature: Feature) -> Layer {
        let mean = Image::Pool { samples: 1, size: feature.size, channels: feature.channels, stride: feature.size };
        let mut operators = vec![replicated(mean)];
        operators.extend(classifier(feature.channels, self.classes));
        layer("head", LayerRole::Output, operators, 1)
    }
}

/// The shape of one sample between two operators: (size, size, channels).
#[derive(Clone, Copy, Debug)]
struct Feature {
    size: u64,
    channels: u64,
}

impl Feature {
    fn elements(self) -> u64 {
        self.size * self.size * self.channels
    }

    /// A convolution and its batch normalisation.
    fn convolution(self, kernel: u64, stride: u64, outputs: u64, operators: &mut Vec<Operator>) -> Self {
        let convolution = Convolution {
            samples: 1,
            size: self.size,
            inputs: self.channels,
            outputs,
            kernel,
            stride,
            groups: 1,
            bias: false,
        };
        let size = convolution.output_size();
        operators.extend([
            replicated(Image::Convolution(convolution)),
            replicated(Image::BatchNorm { samples: 1, size, channels: outputs }),
        ]);
        Self { size, channels: outputs }
    }

    fn relu(self) -> Operator {
        let kind = OperatorKind::Relu { rows: self.size * self.size, width: self.channels };
        operator(kind, Split::Replicated)
    }

    fn addition(self) -> Operator {
        let kind = OperatorKind::Residual { rows: self.size * self.size, width: self.channels, dropout: false };
        operator(kind, Split::Replicated)
    }
}

fn replicated(image: Image) -> Operator {
    operator(OperatorKind::Image(image), Split::Replicated)
}

fn layer(name: &'static str, role: LayerRole, operators: Vec<Operator>, output: u64) -> Layer {
    Layer {
        name,
        role,
        operators,
        output_elements: output,
        stream_elements: output,
        tensor_reductions: 0,
        exchanged_elements: 0,
        context_elements: 0,
    }
}
