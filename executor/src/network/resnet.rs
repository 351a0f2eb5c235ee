//! Residual convolutional networks: a strided stem, stages of residual blocks, the mean over the image, a classifier.
//!
//! Source: He et al., arXiv:1512.03385, section 4.1, with the stride of bottlenecks in their 3 × 3 convolution, as
//! torchvision builds them. Names and first values are those of transformers' `ResNetForImageClassification`.

use super::parts::{BatchNorm, Linear, Slots};
use super::{Initial, Layer, Parameter, Pass, Weights, rows};
use crate::kernels::{Strides, convolution, max_pool, relu};
use burn::tensor::Tensor;
use std::sync::Arc;
use trainyard_data::MicroBatch;
use trainyard_models::{BlockKind, ResNet};
use trainyard_units::Invalid;

/// Channels that a bottleneck hands on, over those of its 3 × 3 convolution.
const EXPANSION: u64 = 4;

/// Returns the layers of a network without squeeze and excitation, as its description counts them.
///
/// # Errors
///
/// When it has squeeze and excitation.
pub(super) fn layers(resnet: &ResNet) -> Result<Vec<Arc<dyn Layer>>, Invalid> {
    if let Some(ratio) = resnet.squeeze_excite {
        return Err(Invalid::breaks("model.squeeze_excite", ratio, "only networks without are run")
            .with_hint("leave squeeze_excite out of the model"));
    }
    let stem = Stem::new(resnet);
    let mut feature = Feature { size: resnet.image_size.div_ceil(4) as usize, channels: resnet.base_channels as usize };
    let mut layers: Vec<Arc<dyn Layer>> = vec![Arc::new(stem)];
    for (stage, (depth, width)) in resnet.depths.iter().zip(&resnet.widths).enumerate() {
        for index in 0..*depth {
            let stride = if stage > 0 && index == 0 { 2 } else { 1 };
            let prefix = format!("resnet.encoder.stages.{stage}.layers.{index}.");
            let block = Block::new(resnet, prefix, feature, *width, stride);
            feature = Feature { size: feature.size.div_ceil(stride), channels: *width as usize };
            layers.push(Arc::new(block));
        }
    }
    layers.push(Arc::new(Head::new(feature, resnet.classes as usize)));
    Ok(layers)
}

/// The shape of one sample between two layers: (channels, size, size).
#[derive(Clone, Copy, Debug)]
struct Feature {
    size: usize,
    channels: usize,
}

impl Feature {
    /// (samples, channels × size × size) → (samples, channels, size, size).
    fn images(self, rows: Tensor<2>) -> Tensor<4> {
        let samples = rows.dims()[0];
        rows.reshape([samples, self.channels, self.size, self.size])
    }
}

/// (samples, channels, height, width) → (samples, channels × height × width).
fn flat(images: Tensor<4>) -> Tensor<2> {
    images.flatten(1, 3)
}

/// A convolution without bias and its batch normalisation.
#[derive(Clone, Copy, Debug)]
struct Convolution {
    kernel: usize,
    size: usize,
    stride: usize,
    groups: usize,
    norm: BatchNorm,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    inputs: usize,
    outputs: usize,
    size: usize,
    stride: usize,
    groups: usize,
}

impl Convolution {
    fn new(slots: &mut Slots, name: &str, shape: Shape) -> Self {
        let Shape { inputs, outputs, size, stride, groups } = shape;
        // He et al., arXiv:1502.01852, section 2.2, by what goes out.
        let deviation = (2.0 / (outputs * size * size) as f64).sqrt();
        let dimensions = [outputs, inputs / groups, size, size];
        let name_of = slots.name(&format!("{name}.convolution.weight"));
        let kernel = slots.add(Parameter::new(name_of, &dimensions, Initial::Normal(deviation)));
        let norm = slots.batch_norm(&format!("{name}.normalization"), outputs);
        Self { kernel, size, stride, groups, norm }
    }

    fn forward(self, pass: &Pass, weights: &Weights, images: Tensor<4>) -> Tensor<4> {
        let strides = Strides { stride: self.stride, padding: self.size / 2, groups: self.groups };
        let convolved = convolution(images, weights.get(self.kernel), strides);
        self.norm.forward(pass, weights, convolved)
    }
}

/// A convolution of 7 × 7 pixels and the largest of 3 × 3, both with stride 2.
struct Stem {
    parameters: Vec<Parameter>,
    image: Feature,
    convolution: Convolution,
}

impl Stem {
    fn new(resnet: &ResNet) -> Self {
        let (inputs, outputs) = (resnet.channels as usize, resnet.base_channels as usize);
        let image = Feature { size: resnet.image_size as usize, channels: inputs };
        let mut slots = Slots::new("resnet.embedder.");
        let shape = Shape { inputs, outputs, size: 7, stride: 2, groups: 1 };
        let convolution = Convolution::new(&mut slots, "embedder", shape);
        Self { parameters: slots.parameters(), image, convolution }
    }
}

impl Layer for Stem {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, _: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let images = rows::images(pass, batch, weights.get::<4>(self.convolution.kernel).dtype());
        let convolved = relu(self.convolution.forward(pass, weights, self.image.images(images)));
        flat(max_pool(convolved))
    }
}

/// Convolutions around which the input goes, too.
struct Block {
    parameters: Vec<Parameter>,
    input: Feature,
    /// With a ReLU between each two.
    convolutions: Vec<Convolution>,
    /// The projection on the shortcut, where the shape changes.
    shortcut: Option<Convolution>,
}

impl Block {
    fn new(resnet: &ResNet, prefix: String, input: Feature, width: u64, stride: usize) -> Self {
        let mut slots = Slots::new(prefix);
        let outputs = width as usize;
        let changes = stride != 1 || input.channels != outputs;
        let shape = Shape { inputs: input.channels, outputs, size: 1, stride, groups: 1 };
        let shortcut = changes.then(|| Convolution::new(&mut slots, "shortcut", shape));
        let convolutions = shapes(resnet, input.channels, width, stride);
        let convolutions = convolutions.into_iter().enumerate();
        let convolutions =
            convolutions.map(|(index, shape)| Convolution::new(&mut slots, &format!("layer.{index}"), shape)).collect();
        Self { parameters: slots.parameters(), input, convolutions, shortcut }
    }
}

/// Returns the convolutions of a block.
fn shapes(resnet: &ResNet, inputs: usize, width: u64, stride: usize) -> Vec<Shape> {
    let outputs = width as usize;
    let plain = |inputs, outputs, size, stride| Shape { inputs, outputs, size, stride, groups: 1 };
    match resnet.block {
        BlockKind::Basic => vec![plain(inputs, outputs, 3, stride), plain(outputs, outputs, 3, 1)],
        BlockKind::Bottleneck => {
            let reduced = ((width / EXPANSION).max(1) * resnet.width_factor) as usize;
            let widened = reduced * resnet.kernel_factor as usize;
            let groups = resnet.groups as usize;
            let middle = Shape { inputs: reduced, outputs: widened, size: 3, stride, groups };
            vec![plain(inputs, reduced, 1, 1), middle, plain(widened, outputs, 1, 1)]
        }
    }
}

impl Layer for Block {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, _: &MicroBatch) -> Tensor<2> {
        let input = self.input.images(rows::from_before(input));
        let (last, before) = self.convolutions.split_last().expect("blocks have two convolutions or three");
        let between =
            before.iter().fold(input.clone(), |images, convolution| relu(convolution.forward(pass, weights, images)));
        let residual = match self.shortcut {
            Some(shortcut) => shortcut.forward(pass, weights, input),
            None => input,
        };
        flat(relu(last.forward(pass, weights, between) + residual))
    }
}

/// The mean over the image and the classes.
struct Head {
    parameters: Vec<Parameter>,
    input: Feature,
    classifier: Linear,
}

impl Head {
    fn new(input: Feature, classes: usize) -> Self {
        let mut slots = Slots::new("");
        let classifier = slots.linear_of_pytorch("classifier.1", input.channels, classes);
        Self { parameters: slots.parameters(), input, classifier }
    }
}

impl Layer for Head {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn forward(&self, pass: &Pass, weights: &Weights, input: Option<Tensor<2>>, batch: &MicroBatch) -> Tensor<2> {
        let rows = rows::from_before(input);
        let pixels = [rows.dims()[0], self.input.channels, self.input.size * self.input.size];
        let means = rows.reshape(pixels).mean_dim(2).squeeze_dim::<2>(2);
        rows::class_loss(pass, self.classifier.forward(weights, means), batch)
    }
}
