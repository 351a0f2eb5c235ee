//! Residual convolutional networks.

use super::transformer::classifier;
use crate::fields::{CHANNELS_MAX, Fields, IMAGE_MAX, VOCABULARY_MAX};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{Convolution, Image, Operator, OperatorKind, Pool, replicated, squeeze_excite};
use crate::spec::{BlockKind, Family, ModelError, ModelSpec};

const FIELDS: [&str; 11] = [
    "depths",
    "widths",
    "block",
    "base_channels",
    "width_factor",
    "kernel_factor",
    "groups",
    "squeeze_excite",
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
/// arXiv:1605.07146, for wide ones; Xie et al., arXiv:1611.05431, for grouped ones; Hu et al., arXiv:1709.01507, for
/// those with squeeze and excitation.
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
    /// Groups of the 3 × 3 convolution of a bottleneck. What ResNeXt calls 32 × 4d is 32 groups at a width factor of 2.
    pub groups: u64,
    /// Channels that a bottleneck hands on, over those that they are squeezed to for their gates.
    pub squeeze_excite: Option<u64>,
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
        Self {
            name: spec.name.clone(),
            depths,
            widths,
            block,
            base_channels,
            width_factor: fields.or("width_factor", spec.width_factor, 1, FACTOR_MAX)?,
            kernel_factor: fields.or("kernel_factor", spec.kernel_factor, 1, FACTOR_MAX)?,
            groups: fields.or("groups", spec.groups, 1, CHANNELS_MAX)?,
            squeeze_excite: spec
                .squeeze_excite
                .map(|ratio| fields.range("squeeze_excite", ratio, CHANNELS_MAX))
                .transpose()?,
            image_size: fields.or("image_size", spec.image_size, 224, IMAGE_MAX)?,
            channels: fields.or("channels", spec.channels, 3, CHANNELS_MAX)?,
            classes: fields.needed("classes", spec.classes, VOCABULARY_MAX)?,
        }
        .with_equal_groups()
    }

    /// Groups and gates are those of bottlenecks, whose channels the groups share evenly.
    fn with_equal_groups(self) -> Result<Self, ModelError> {
        let model = || self.name.clone();
        if self.block == BlockKind::Basic && (self.groups > 1 || self.squeeze_excite.is_some()) {
            let field = if self.groups > 1 { "groups" } else { "squeeze_excite" };
            return Err(ModelError::BottleneckOnly { model: model(), field });
        }
        let channels = self.widths.iter().map(|width| self.reduced(*width));
        match channels.into_iter().find(|channels| !channels.is_multiple_of(self.groups)) {
            None => Ok(self),
            Some(channels) => Err(ModelError::IndivisibleChannels { model: model(), channels, groups: self.groups }),
        }
    }

    /// Channels inside a bottleneck that hands on `width`.
    fn reduced(&self, width: u64) -> u64 {
        (width / self.block.expansion()).max(1) * self.width_factor
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        ModelSpec {
            depths: Some(self.depths.clone()),
            widths: Some(self.widths.clone()),
            block: Some(self.block),
            base_channels: Some(self.base_channels),
            width_factor: Some(self.width_factor),
            kernel_factor: Some(self.kernel_factor),
            groups: Some(self.groups),
            squeeze_excite: self.squeeze_excite,
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
        let convolved = image.convolution(7, 2, 1, self.base_channels, &mut operators);
        let output = Feature { size: convolved.size.div_ceil(2), ..convolved };
        operators.extend([convolved.relu(), convolved.pool(output, Pool::Max)]);
        layer("stem", LayerRole::Input, operators, output.elements())
    }

    fn residual_block(&self, input: Feature, width: u64, stride: u64) -> Layer {
        let mut operators = Vec::new();
        let output = match self.block {
            BlockKind::Basic => {
                let middle = input.convolution(3, stride, 1, width, &mut operators);
                operators.push(middle.relu());
                middle.convolution(3, 1, 1, width, &mut operators)
            }
            BlockKind::Bottleneck => {
                let reduced = self.reduced(width);
                let first = input.convolution(1, 1, 1, reduced, &mut operators);
                operators.push(first.relu());
                let widened = reduced * self.kernel_factor;
                let second = first.convolution(3, stride, self.groups, widened, &mut operators);
                operators.push(second.relu());
                second.convolution(1, 1, 1, width, &mut operators)
            }
        };
        if let Some(ratio) = self.squeeze_excite {
            operators.extend(output.squeeze_excite((width / ratio).max(1)));
        }
        if stride != 1 || input.channels != width {
            let start = operators.len();
            input.convolution(1, stride, 1, width, &mut operators);
            // The block's first convolution keeps the same input.
            operators[start].kept_elsewhere = true;
        }
        operators.extend([output.addition(), output.relu()]);
        layer("residual block", LayerRole::Block, operators, output.elements())
    }

    fn head(&self, feature: Feature) -> Layer {
        let mut operators = vec![feature.pool(Feature { size: 1, ..feature }, Pool::Mean)];
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
    fn pixels(self) -> u64 {
        self.size * self.size
    }

    fn elements(self) -> u64 {
        self.pixels() * self.channels
    }

    /// A convolution and its batch normalisation.
    fn convolution(self, kernel: u64, stride: u64, groups: u64, outputs: u64, operators: &mut Vec<Operator>) -> Self {
        let output = Self { size: self.size.div_ceil(stride), channels: outputs };
        let convolution = Convolution {
            samples: 1,
            input: [1, self.size, self.size],
            output: [1, output.size, output.size],
            inputs: self.channels,
            outputs,
            kernel: [1, kernel, kernel],
            groups,
            bias: false,
            transposed: false,
        };
        let norm = Image::Norm { samples: 1, pixels: output.pixels(), channels: outputs, frozen: false };
        operators.extend([Image::Convolution(convolution), norm].map(|kind| replicated(OperatorKind::Image(kind))));
        output
    }

    fn pool(self, output: Self, kind: Pool) -> Operator {
        let (pixels, windows, channels) = (self.pixels(), output.pixels(), self.channels);
        replicated(OperatorKind::Image(Image::Pool { samples: 1, pixels, windows, channels, kind }))
    }

    fn squeeze_excite(self, squeezed: u64) -> impl Iterator<Item = Operator> {
        let activation = OperatorKind::Relu { rows: 1, width: squeezed };
        squeeze_excite((1, self.pixels(), self.channels), squeezed, activation).into_iter().map(replicated)
    }

    fn relu(self) -> Operator {
        replicated(OperatorKind::Relu { rows: self.pixels(), width: self.channels })
    }

    fn addition(self) -> Operator {
        replicated(OperatorKind::Residual { rows: self.pixels(), width: self.channels, dropout: false })
    }
}

fn layer(name: &'static str, role: LayerRole, operators: Vec<Operator>, output: u64) -> Layer {
    Layer {
        name: name.into(),
        role,
        operators,
        output_elements: output,
        stream_elements: output,
        tensor_reductions: 0,
        exchanged_elements: 0,
        context_elements: 0,
        frozen: false,
    }
}
