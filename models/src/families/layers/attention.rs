//! Attention over pixels or tokens, and what makes tokens of pixels.

use super::build::{Builder, Value};
use super::shape::{Shape, range};
use crate::families::ModelError;
use crate::families::fields::SEQUENCE_MAX;
use crate::layers::{AttentionSpec, ClassTokens, Sizes};
use crate::operator::{Attention, AttentionKernel, Image, Mask, OperatorKind, pixels};
use trainyard_units::Invalid;

impl Builder<'_> {
    pub(super) fn attention(&mut self, spec: &AttentionSpec, value: Value) -> Result<Value, ModelError> {
        let width = value.shape.channels;
        self.divides("attention", width, spec.attention)?;
        self.attention_used |= spec.kernel.is_none();
        let windows = self.windows_of(spec.window, value.shape)?;
        let tokens = self.valid(range("tokens", windows.pixels(), 1, SEQUENCE_MAX))?;
        // Another name for the pixels, with some more where windows go beyond the map.
        let (whole, value) = (value.shape, if windows == value.shape { value } else { self.made(windows)? });
        let bias = spec.bias.unwrap_or(true);
        let attention = Attention {
            samples: value.shape.samples,
            heads: spec.attention,
            kv_heads: spec.attention,
            queries: tokens,
            keys: tokens,
            own_keys: tokens,
            head_width: width / spec.attention,
            value_width: width / spec.attention,
            kernel: spec.kernel.or(self.attention).unwrap_or(AttentionKernel::Unfused),
            mask: if spec.causal.unwrap_or(false) { Mask::Causal } else { Mask::Full },
            dropout: spec.dropout.unwrap_or(false),
            biased: spec.relative_bias.is_some(),
            soft_cap: false,
            sinks: false,
        };
        let projected = if bias && spec.key_bias == Some(false) {
            self.product(value, width, false)?;
            self.product(value, 2 * width, true)?
        } else {
            self.product(value, 3 * width, bias)?
        };
        if let Some(distances) = spec.relative_bias {
            let buckets = self.valid(range("relative_bias", distances, 1, SEQUENCE_MAX))?;
            let heads = spec.attention;
            self.push(OperatorKind::RelativeBias { heads, buckets, queries: tokens, keys: tokens }, value);
        }
        self.push(OperatorKind::Attention(attention), projected);
        let mixed = self.value(value.shape);
        self.context_elements += value.shape.samples * tokens * 2 * width;
        let made = self.product(mixed, width, bias)?;
        Ok(made.seen_as(whole))
    }

    /// Returns the windows of a map as maps of their own. Where they do not cover it evenly the last ones go beyond it.
    fn windows_of(&self, window: Option<u64>, shape: Shape) -> Result<Shape, ModelError> {
        let Some(side) = window else { return Ok(shape) };
        let windows = self.valid(shape.windows(("window", &Sizes::All(side)), Some(&Sizes::All(side)), None, None))?;
        let count = self.valid(windows.count(shape.extent))?;
        Ok(Shape { samples: shape.samples * pixels(count), extent: windows.kernel, ..shape })
    }

    pub(super) fn class_tokens(&mut self, spec: &ClassTokens, value: Value) -> Result<Value, ModelError> {
        let shape = value.shape;
        if shape.dimensions == 0 {
            return Err(self.error(Invalid::whole(format!("it needs pixels or tokens, but gets {shape}"))));
        }
        let learned = self.valid(range("class_tokens", spec.class_tokens, 1, SEQUENCE_MAX))?;
        let rows = learned + shape.pixels();
        let positions = if spec.positions.unwrap_or(true) { rows } else { 0 };
        let width = shape.channels;
        self.weights(learned + positions, width)?;
        let made = self.made(Shape { dimensions: 1, extent: [1, 1, rows], ..shape })?;
        self.push(OperatorKind::ClassToken { rows: rows * shape.samples, learned, positions, width }, value);
        Ok(made)
    }

    pub(super) fn space_to_depth(&mut self, sides: &Sizes, value: Value) -> Result<Value, ModelError> {
        let shape = value.shape;
        let windows = self.valid(shape.windows(("space_to_depth", sides), Some(sides), None, None))?;
        let extent = self.valid(windows.count(shape.extent))?;
        let channels = shape.channels * pixels(windows.kernel);
        let made = self.made(shape.with_extent(extent).with_channels(channels))?;
        let (samples, elements) = (shape.samples, made.shape.map_elements());
        self.push(OperatorKind::Image(Image::Concatenation { samples, elements }), value);
        Ok(made)
    }
}
