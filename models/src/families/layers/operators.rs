//! What each written operator computes at the shape that it gets.

use super::build::{Builder, Flow, Value};
use super::shape::{Shape, Windows, range};
use crate::families::ModelError;
use crate::families::fields::{CHANNELS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, divisor};
use crate::layers::{
    Activation, Add, Concat, Conv, Depthwise, Embedding, Gru, Joined, Linear, Lstm, MaxPool, MeanPool, Norm,
    OperatorSpec, Padding, RoiAlign, Sizes, SqueezeExcite, TransposedConv, UpsampleTo, Word,
};
use crate::operator::{Cell, Convolution, Image, OperatorKind, Pool, pixels, squeeze_excite};
use trainyard_units::Invalid;

/// Most weights of an operator, which keeps every count within 64 bits.
const WEIGHTS_MAX: u64 = 1 << 36;

/// Most regions of a sample.
const REGIONS_MAX: u64 = 1 << 16;

/// What follows a convolution.
struct After {
    bias: Option<bool>,
    norm: Option<Norm>,
    activation: Option<Activation>,
}

impl<'a> Builder<'a> {
    pub(super) fn operator(&mut self, spec: &'a OperatorSpec, flow: Flow) -> Result<Flow, ModelError> {
        match (spec, flow) {
            (OperatorSpec::Load(load), _) => self.saved(&load.load).map(Flow::Map),
            (_, Flow::Loss) => Err(self.after_loss()),
            (OperatorSpec::Embedding(embedding), Flow::Tokens(tokens)) => {
                self.embedding(embedding, tokens).map(Flow::Map)
            }
            (_, Flow::Tokens(_)) => {
                let tokens = Invalid::whole("its input is tokens, which need to be looked up first");
                Err(self.error(tokens.with_hint("write { embedding = 30522, width = 768 } first")))
            }
            (spec, Flow::Map(value)) => self.over(spec, value),
        }
    }

    fn over(&mut self, spec: &'a OperatorSpec, value: Value) -> Result<Flow, ModelError> {
        let made = match spec {
            OperatorSpec::Activation(activation) => self.activation(*activation, value),
            OperatorSpec::Word(Word::CrossEntropy) => return self.loss(value, value.shape.channels),
            OperatorSpec::CrossEntropy(loss) => return self.loss(value, loss.cross_entropy),
            OperatorSpec::Word(Word::DotInteraction) => self.dot_interaction(value)?,
            OperatorSpec::Word(word) => self.word(*word, value),
            OperatorSpec::Lstm(Lstm { lstm, bidirectional }) => {
                self.recurrent(Cell::Lstm, ("lstm", *lstm), *bidirectional, value)?
            }
            OperatorSpec::Gru(Gru { gru, bidirectional }) => {
                self.recurrent(Cell::Gru, ("gru", *gru), *bidirectional, value)?
            }
            OperatorSpec::Tables(tables) => self.tables(&tables.tables, value)?,
            OperatorSpec::Conv(conv) => self.conv(conv, value)?,
            OperatorSpec::Depthwise(conv) => self.depthwise(conv, value)?,
            OperatorSpec::TransposedConv(conv) => self.transposed_conv(conv, value)?,
            OperatorSpec::GroupNorm(norm) => {
                self.divides("group_norm", value.shape.channels, norm.group_norm)?;
                self.norm(value, false)
            }
            OperatorSpec::MaxPool(MaxPool { max_pool, stride, padding }) => {
                self.pool(("max_pool", max_pool), stride.as_ref(), padding.as_ref(), Pool::Max, value)?
            }
            OperatorSpec::MeanPool(MeanPool { mean_pool, stride, padding }) => {
                self.pool(("mean_pool", mean_pool), stride.as_ref(), padding.as_ref(), Pool::Mean, value)?
            }
            OperatorSpec::AdaptivePool(pool) => {
                let extent = self.valid(value.shape.extent_of("adaptive_pool", &pool.adaptive_pool))?;
                self.pooled(value, value.shape.with_extent(extent), Pool::Mean)
            }
            OperatorSpec::Upsample(upsample) => self.upsample(&upsample.upsample, value)?,
            OperatorSpec::Linear(linear) => self.linear(linear, value)?,
            OperatorSpec::Attention(attention) => self.attention(attention, value)?,
            OperatorSpec::ClassTokens(tokens) => self.class_tokens(tokens, value)?,
            OperatorSpec::SpaceToDepth(patches) => self.space_to_depth(&patches.space_to_depth, value)?,
            OperatorSpec::Embedding(_) => {
                return Err(self.error(Invalid::whole(format!("it looks up tokens, but gets {}", value.shape))));
            }
            OperatorSpec::SqueezeExcite(squeeze) => self.squeeze_excite(squeeze, value)?,
            OperatorSpec::RoiAlign(align) => self.roi_align(align, value)?,
            OperatorSpec::Add(add) => self.add(add, value)?,
            OperatorSpec::Concat(concat) => self.concat(concat, value)?,
            OperatorSpec::Save(save) => {
                self.save(&save.save, value);
                value
            }
            OperatorSpec::Side(side) => {
                let values = self.all_of(&side.of, value)?;
                self.side(&side.side, &values)?;
                value
            }
            OperatorSpec::Load(_) => unreachable!("what is loaded does not depend on what flows"),
        };
        Ok(Flow::Map(made))
    }

    fn activation(&mut self, activation: Activation, value: Value) -> Value {
        self.push(activation_kind(activation, value.shape), value);
        self.value(value.shape)
    }

    fn word(&mut self, word: Word, value: Value) -> Value {
        let shape = value.shape;
        let (samples, elements) = (shape.samples, shape.map_elements());
        match word {
            Word::BatchNorm | Word::InstanceNorm => return self.norm(value, false),
            Word::LayerNorm => self.push(OperatorKind::LayerNorm { rows: shape.rows(), width: shape.channels }, value),
            Word::Scale => {
                let scale = Image::Scale { samples, pixels: shape.pixels(), channels: shape.channels, trained: true };
                self.push(OperatorKind::Image(scale), value);
            }
            Word::Dropout => self.push(OperatorKind::Image(Image::Dropout { samples, elements }), value),
            Word::Flatten => {
                // Another name for the same elements.
                let flat = Shape { samples, dimensions: 0, extent: [1; 3], channels: elements };
                return value.seen_as(flat);
            }
            Word::FirstToken => {
                let first = shape.with_extent([1; 3]);
                return self.value(Shape { dimensions: 0, ..first });
            }
            Word::GlobalPool => return self.pooled(value, shape.with_extent([1; 3]), Pool::Mean),
            Word::CrossEntropy | Word::DotInteraction => unreachable!("handled before"),
        }
        self.value(shape)
    }

    fn norm(&mut self, value: Value, frozen: bool) -> Value {
        let Shape { samples, channels, .. } = value.shape;
        let norm = Image::Norm { samples, pixels: value.shape.pixels(), channels, frozen };
        self.push(OperatorKind::Image(norm), value);
        self.value(value.shape)
    }

    fn loss(&mut self, value: Value, classes: u64) -> Result<Flow, ModelError> {
        self.divides("cross_entropy", value.shape.channels, classes)?;
        let rows = value.shape.elements() / classes;
        self.push(OperatorKind::CrossEntropy { rows, vocab: classes }, value);
        Ok(Flow::Loss)
    }

    fn conv(&mut self, spec: &Conv, value: Value) -> Result<Value, ModelError> {
        let Conv { conv, kernel, stride, padding, dilation, groups, bias, norm, activation } = spec;
        let (one, inputs) = (Sizes::All(1), value.shape.channels);
        let outputs = self.valid(range("conv", *conv, 1, CHANNELS_MAX))?;
        let groups = groups.unwrap_or(1);
        self.divides("groups", inputs, groups)?;
        self.divides("groups", outputs, groups)?;
        let kernel = ("kernel", kernel.as_ref().unwrap_or(&one));
        let windows = self.valid(value.shape.windows(kernel, stride.as_ref(), dilation.as_ref(), padding.as_ref()))?;
        let after = After { bias: *bias, norm: *norm, activation: *activation };
        self.convolution(value, windows, (outputs, groups), false, &after)
    }

    fn depthwise(&mut self, spec: &Depthwise, value: Value) -> Result<Value, ModelError> {
        let Depthwise { depthwise, stride, padding, dilation, bias, norm, activation } = spec;
        let kernel = ("depthwise", depthwise);
        let windows = self.valid(value.shape.windows(kernel, stride.as_ref(), dilation.as_ref(), padding.as_ref()))?;
        let (after, channels) = (After { bias: *bias, norm: *norm, activation: *activation }, value.shape.channels);
        self.convolution(value, windows, (channels, channels), false, &after)
    }

    fn transposed_conv(&mut self, spec: &TransposedConv, value: Value) -> Result<Value, ModelError> {
        let TransposedConv { transposed_conv, kernel, stride, padding, bias, norm, activation } = spec;
        let outputs = self.valid(range("transposed_conv", *transposed_conv, 1, CHANNELS_MAX))?;
        let windows = value.shape.windows(("kernel", kernel), stride.as_ref(), None, padding.as_ref());
        let windows = self.valid(windows)?;
        let after = After { bias: *bias, norm: *norm, activation: *activation };
        self.convolution(value, windows, (outputs, 1), true, &after)
    }

    fn convolution(
        &mut self,
        value: Value,
        windows: Windows,
        (outputs, groups): (u64, u64),
        transposed: bool,
        after: &After,
    ) -> Result<Value, ModelError> {
        let shape = value.shape;
        let extent = if transposed { windows.spread(shape.extent) } else { windows.count(shape.extent) };
        let output = shape.with_extent(self.valid(extent)?).with_channels(outputs);
        self.weights(shape.channels / groups * pixels(windows.kernel), outputs)?;
        let made = self.made(output)?;
        let convolution = Convolution {
            samples: shape.samples,
            input: shape.extent,
            output: output.extent,
            inputs: shape.channels,
            outputs,
            kernel: windows.kernel,
            groups,
            bias: after.bias.unwrap_or(after.norm.is_none()),
            transposed,
        };
        self.push(OperatorKind::Image(Image::Convolution(convolution)), value);
        let normed = match after.norm {
            None => made,
            Some(norm @ (Norm::Batch | Norm::Instance | Norm::Frozen)) => self.norm(made, norm == Norm::Frozen),
            Some(Norm::Layer) => self.word(Word::LayerNorm, made),
        };
        Ok(after.activation.map_or(normed, |activation| self.activation(activation, normed)))
    }

    fn pool(
        &mut self,
        window: (&'static str, &Sizes),
        stride: Option<&Sizes>,
        padding: Option<&Padding>,
        kind: Pool,
        value: Value,
    ) -> Result<Value, ModelError> {
        let windows = value.shape.windows(window, Some(stride.unwrap_or(window.1)), None, padding);
        let extent = self.valid(windows.and_then(|windows| windows.count(value.shape.extent)))?;
        Ok(self.pooled(value, value.shape.with_extent(extent), kind))
    }

    fn pooled(&mut self, value: Value, output: Shape, kind: Pool) -> Value {
        let Shape { samples, channels, .. } = value.shape;
        let pool = Image::Pool { samples, pixels: value.shape.pixels(), windows: output.pixels(), channels, kind };
        self.push(OperatorKind::Image(pool), value);
        self.value(output)
    }

    fn upsample(&mut self, to: &UpsampleTo, value: Value) -> Result<Value, ModelError> {
        let shape = value.shape;
        let extent = match to {
            UpsampleTo::Times(factors) => {
                let factors = self.valid(shape.factors(factors))?;
                std::array::from_fn(|axis| shape.extent[axis] * factors[axis])
            }
            UpsampleTo::ExtentOf(name) => {
                let like = self.saved(name)?.shape;
                if (0..3).any(|axis| like.extent[axis] < shape.extent[axis]) {
                    return Err(self.unequal(shape, like, "the saved map must not be smaller"));
                }
                like.extent
            }
        };
        let made = self.made(shape.with_extent(extent))?;
        let Shape { samples, channels, .. } = shape;
        let (pixels, repeated) = (shape.pixels(), made.shape.pixels());
        self.push(OperatorKind::Image(Image::Upsample { samples, pixels, repeated, channels }), value);
        Ok(made)
    }

    fn linear(&mut self, spec: &Linear, value: Value) -> Result<Value, ModelError> {
        let outputs = self.valid(range("linear", spec.linear, 1, VOCABULARY_MAX))?;
        let made = self.product(value, outputs, spec.bias.unwrap_or(true))?;
        Ok(spec.activation.map_or(made, |activation| self.activation(activation, made)))
    }

    pub(super) fn product(&mut self, value: Value, outputs: u64, bias: bool) -> Result<Value, ModelError> {
        let (rows, inputs) = (value.shape.rows(), value.shape.channels);
        self.weights(inputs, outputs)?;
        let made = self.made(value.shape.with_channels(outputs))?;
        self.push(OperatorKind::Linear { rows, inputs, outputs, bias }, value);
        Ok(made)
    }

    fn embedding(&mut self, spec: &Embedding, tokens: u64) -> Result<Value, ModelError> {
        let Embedding { embedding, width, positions, dropout } = spec;
        let vocab = self.valid(range("embedding", *embedding, 1, VOCABULARY_MAX))?;
        let width = self.valid(range("width", *width, 1, CHANNELS_MAX))?;
        // A table of fewer positions than tokens has none for the last ones.
        let positions = positions.map_or(Ok(0), |count| self.valid(range("positions", count, tokens, SEQUENCE_MAX)))?;
        self.weights(vocab + positions, width)?;
        let shape = Shape { samples: 1, dimensions: 1, extent: [1, 1, tokens], channels: width };
        let made = self.made(shape)?;
        let dropout = dropout.unwrap_or(false);
        let kind = OperatorKind::Embedding { rows: tokens, vocab, positions, segments: 0, width, dropout };
        self.push(kind, made);
        Ok(made)
    }

    fn squeeze_excite(&mut self, spec: &SqueezeExcite, value: Value) -> Result<Value, ModelError> {
        let shape = value.shape;
        let squeezed = self.valid(range("squeeze_excite", spec.squeeze_excite, 1, CHANNELS_MAX))?;
        let vector = Shape { dimensions: 0, extent: [1; 3], channels: squeezed, ..shape };
        let activation = activation_kind(spec.activation.unwrap_or(Activation::Relu), vector);
        let parts = squeeze_excite((shape.samples, shape.pixels(), shape.channels), squeezed, activation);
        let last = parts.len() - 1;
        // The mean and the scaling read the map; what is between them reads vectors.
        let mut between = value;
        for (index, part) in parts.into_iter().enumerate() {
            self.push(part, if index == last { value } else { between });
            between = self.value(vector);
        }
        Ok(self.value(shape))
    }

    fn roi_align(&mut self, spec: &RoiAlign, value: Value) -> Result<Value, ModelError> {
        let maps = self.all_of(&spec.of, value)?;
        let shape = maps[0].shape;
        let regions = self.valid(range("regions", spec.regions, 1, REGIONS_MAX))?;
        let extent = self.valid(shape.extent_of("roi_align", &spec.roi_align))?;
        let output = Shape { samples: shape.samples * regions, ..shape.with_extent(extent) };
        let made = self.made(output)?;
        let align = Image::RegionAlign { samples: output.samples, pixels: output.pixels(), channels: shape.channels };
        self.push(OperatorKind::Image(align), value);
        Ok(made)
    }

    /// Saved maps of as many channels each, or, of no names, what flows.
    fn all_of(&mut self, names: &[String], value: Value) -> Result<Vec<Value>, ModelError> {
        let values = names.iter().map(|name| self.saved(name)).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = values.first() else { return Ok(vec![value]) };
        let like_first = |other: &Value| {
            (other.shape.channels, other.shape.dimensions) == (first.shape.channels, first.shape.dimensions)
        };
        match values.iter().find(|other| !like_first(other)) {
            None => Ok(values),
            Some(other) => {
                let rule = "the same weights need maps of as many channels and dimensions";
                Err(self.unequal(first.shape, other.shape, rule))
            }
        }
    }

    fn add(&mut self, spec: &'a Add, value: Value) -> Result<Value, ModelError> {
        let joined = match &spec.add {
            Joined::Saved(name) => vec![value, self.saved(name)?],
            Joined::Branches(branches) => self.branches(branches, value)?,
        };
        let shape = joined[0].shape;
        if let Some(other) = joined.iter().find(|other| other.shape != shape) {
            return Err(self.unequal(shape, other.shape, "a sum needs equal shapes"));
        }
        let dropout = spec.dropout.unwrap_or(false);
        let mut sum = joined[0];
        for _ in &joined[1..] {
            self.push(OperatorKind::Residual { rows: shape.rows(), width: shape.channels, dropout }, sum);
            sum = self.value(shape);
        }
        Ok(sum)
    }

    fn concat(&mut self, spec: &'a Concat, value: Value) -> Result<Value, ModelError> {
        let crop = spec.crop.unwrap_or(false);
        let joined = match &spec.concat {
            Joined::Saved(name) => vec![value, self.saved(name)?],
            Joined::Branches(branches) => self.branches(branches, value)?,
        };
        let shape = joined[0].shape;
        let fits = |other: Shape| {
            let like = (other.samples, other.dimensions) == (shape.samples, shape.dimensions);
            let larger = (0..3).all(|axis| other.extent[axis] >= shape.extent[axis]);
            like && (other.extent == shape.extent || crop && larger)
        };
        if let Some(other) = joined.iter().find(|other| !fits(other.shape)) {
            let rule = if crop {
                "what is cut must not be smaller"
            } else {
                "channels stand side by side only over as many pixels; write crop = true to cut out the middle"
            };
            return Err(self.unequal(shape, other.shape, rule));
        }
        let channels = joined.iter().map(|value| value.shape.channels).sum();
        let made = self.made(shape.with_channels(channels))?;
        let (samples, elements) = (shape.samples, made.shape.map_elements());
        self.push(OperatorKind::Image(Image::Concatenation { samples, elements }), value);
        Ok(made)
    }

    fn unequal(&self, first: Shape, second: Shape, rule: &'static str) -> ModelError {
        self.error(Invalid::whole(format!("{first} and {second} cannot be joined: {rule}")))
    }

    pub(super) fn divides(&self, field: &'static str, channels: u64, value: u64) -> Result<(), ModelError> {
        let in_range = range(field, value, 1, VOCABULARY_MAX);
        self.valid(in_range.and_then(|value| divisor(field, value, (channels, "channels"))).map(drop))
    }

    pub(super) fn weights(&self, inputs: u64, outputs: u64) -> Result<(), ModelError> {
        if u128::from(inputs) * u128::from(outputs) <= u128::from(WEIGHTS_MAX) {
            Ok(())
        } else {
            Err(self.error(Invalid::whole(format!("it has more than {WEIGHTS_MAX} weights"))))
        }
    }
}

fn activation_kind(activation: Activation, shape: Shape) -> OperatorKind {
    let (rows, width) = (shape.rows(), shape.channels);
    match activation {
        Activation::Relu => OperatorKind::Relu { rows, width },
        Activation::Gelu => OperatorKind::Activation { rows, width },
        Activation::Swish
        | Activation::Sigmoid
        | Activation::Tanh
        | Activation::HardSwish
        | Activation::HardSigmoid => {
            OperatorKind::Image(Image::Pointwise { samples: shape.samples, elements: shape.map_elements() })
        }
    }
}
