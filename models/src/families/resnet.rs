//! Residual convolutional networks.

use super::parts::classifier;
use crate::families::BlockKind;
use crate::families::fields::{
    CHANNELS_MAX, Field, IMAGE_MAX, VOCABULARY_MAX, choice, dimensions, divisor, list, needed, optional, or,
};
use crate::families::model::{Architecture, Sample};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{Convolution, Image, Operator, OperatorKind, Pool, replicated, squeeze_excite};
use trainyard_units::Invalid;

const DEPTH_MAX: u64 = 1000;
const STAGES_MAX: u64 = 8;
const FACTOR_MAX: u64 = 64;

dimensions! {
    /// A residual network: a strided stem, stages of residual blocks that halve the image and double the channels, mean
    /// over the image, classifier. Bottlenecks stride in their 3 × 3 convolution.
    ///
    /// Source: He et al., arXiv:1512.03385, section 4.1, as torchvision builds it; Zagoruyko and Komodakis,
    /// arXiv:1605.07146, for wide ones; Xie et al., arXiv:1611.05431, for grouped ones; Hu et al., arXiv:1709.01507, for
    /// those with squeeze and excitation.
    pub struct ResNet {
        name,
        block: BlockKind = choice(BlockKind::Bottleneck),
        depths: Vec<u32> = list(STAGES_MAX, DEPTH_MAX),
        base_channels: u64 = or(64, CHANNELS_MAX),
        widths: Vec<u64> = doubling(&depths, base_channels * block.expansion()),
        width_factor: u64 = or(1, FACTOR_MAX),
        kernel_factor: u64 = or(1, FACTOR_MAX),
        /// ResNeXt's 32 × 4d are 32 groups at a width factor of 2.
        groups: u64 = or(1, CHANNELS_MAX),
        squeeze_excite: Option<u64> = optional(CHANNELS_MAX),
        image_size: u64 = or(224, IMAGE_MAX),
        channels: u64 = or(3, CHANNELS_MAX),
        classes: u64 = needed(VOCABULARY_MAX),
    }
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

impl Architecture for ResNet {
    /// Groups and gates are those of bottlenecks, whose channels the groups share evenly.
    fn check(&self) -> Result<(), Invalid> {
        if self.block == BlockKind::Basic && (self.groups > 1 || self.squeeze_excite.is_some()) {
            let field = if self.groups > 1 { "groups" } else { "squeeze_excite" };
            let sentence = format!("`{field}` is set, but blocks are `basic`");
            return Err(Invalid::whole(sentence).with_hint("set block = \"bottleneck\""));
        }
        let mut channels = self.widths.iter().map(|width| self.reduced(*width));
        channels.try_for_each(|channels| divisor("groups", self.groups, (channels, "channels of a block")).map(drop))
    }

    fn sample(&self) -> Sample {
        Sample::Image(self.channels * self.image_size * self.image_size)
    }

    fn normalises_over_batches(&self) -> bool {
        true
    }

    /// Stem, blocks, head: of each stage, the first block, which may change the shape, and the others.
    fn graph(&self) -> OperatorGraph {
        let mut feature = Feature { size: self.image_size.div_ceil(4), channels: self.base_channels };
        let mut runs = vec![(self.stem(), 1)];
        for (stage, (depth, width)) in self.depths.iter().zip(&self.widths).enumerate() {
            let stride = if stage == 0 { 1 } else { 2 };
            runs.push((self.residual_block(feature, *width, stride), 1));
            feature = Feature { size: feature.size.div_ceil(stride), channels: *width };
            if *depth > 1 {
                runs.push((self.residual_block(feature, *width, 1), *depth - 1));
            }
        }
        runs.push((self.head(feature), 1));
        OperatorGraph::of_runs(runs, 0)
    }
}

/// Reads the channels of each stage, twice those of the stage before unless they are stated.
fn doubling(at: Field, written: Option<Vec<u64>>, depths: &[u32], first: u64) -> Result<Vec<u64>, Invalid> {
    let widths = written.unwrap_or_else(|| (0..depths.len()).map(|stage| first << stage).collect());
    if widths.len() != depths.len() {
        let allowed = format!("one for each of the {} `depths`", depths.len());
        return Err(Invalid::value(at.name, format!("{} numbers", widths.len()), allowed));
    }
    list(at, Some(widths), STAGES_MAX, CHANNELS_MAX)
}

impl ResNet {
    /// Channels inside a bottleneck that hands on `width`.
    fn reduced(&self, width: u64) -> u64 {
        (width / self.block.expansion()).max(1) * self.width_factor
    }

    fn stem(&self) -> Layer {
        let image = Feature { size: self.image_size, channels: self.channels };
        let mut operators = Vec::new();
        let convolved = image.convolution(7, 2, 1, self.base_channels, &mut operators);
        let output = Feature { size: convolved.size.div_ceil(2), ..convolved };
        operators.extend([convolved.relu(), convolved.pool(output, Pool::Max)]);
        Layer::undivided("stem", LayerRole::Input, operators, output.elements())
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
        Layer::undivided("residual block", LayerRole::Block, operators, output.elements())
    }

    fn head(&self, feature: Feature) -> Layer {
        let mut operators = vec![feature.pool(Feature { size: 1, ..feature }, Pool::Mean)];
        operators.extend(classifier(feature.channels, self.classes));
        Layer::undivided("head", LayerRole::Output, operators, 1)
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

    /// Returns a convolution and its batch normalisation.
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
