//! Models that are written out, layer by layer, from operators. Shapes follow from the input, operator by operator.

mod attention;
mod batch_norm;
mod build;
mod operators;
mod recommendation;
mod recurrent;
mod shape;

use crate::families::fields::{Dimensions, Field};
use crate::families::model::{Architecture, Named, Sample};
use crate::families::{ModelError, ModelSpec};
use crate::graph::OperatorGraph;
use crate::layers::{InputSpec, LayerSpec};
use crate::operator::AttentionKernel;
use trainyard_units::Invalid;

/// A model whose layers are written out.
#[derive(Clone, Debug, PartialEq)]
pub struct Layers {
    /// Catalog id or the user's name.
    pub name: String,
    /// The shape of one sample.
    pub input: InputSpec,
    /// The attention kernel of operators that do not name one.
    pub attention: Option<AttentionKernel>,
    /// The layers as they are written.
    pub layers: Vec<LayerSpec>,
    graph: OperatorGraph,
}

impl Named for Layers {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Dimensions for Layers {
    type Given = ();

    fn has(field: &str) -> bool {
        ["input", "layer", "image_size", "seq_len", "attention"].contains(&field)
    }

    fn read(spec: &ModelSpec, (): ()) -> Result<Self, ModelError> {
        let at = |name| Field { spec, name };
        let input = spec.input.ok_or_else(|| at("input").missing())?;
        let layers = spec.layer.clone().ok_or_else(|| at("layer").missing())?;
        let input = overridden(input, spec.image_size, spec.seq_len)?;
        let graph = build::graph(input, &layers, spec.attention)?;
        Ok(Self { name: spec.name.clone(), input, attention: spec.attention, layers, graph })
    }

    fn write(&self, spec: &mut ModelSpec) {
        spec.input = Some(self.input);
        spec.attention = self.attention;
        spec.layer = Some(self.layers.clone());
    }
}

impl Architecture for Layers {
    fn sample(&self) -> Sample {
        sample(self.input)
    }

    /// Looks for a batch normalisation in the layers that are trained.
    fn normalises_over_batches(&self) -> bool {
        let mut trained = self.layers.iter().filter(|layer| !layer.frozen);
        trained.any(|layer| batch_norm::normalises_over_batches(&layer.operators))
    }

    fn graph(&self) -> OperatorGraph {
        self.graph.clone()
    }
}

/// Returns what a sample of this input is.
pub(super) fn sample(input: InputSpec) -> Sample {
    let InputSpec { channels, depth, height, width, tokens, .. } = input;
    match (channels, depth, height.zip(width), tokens) {
        (Some(channels), None, Some((height, width)), _) => Sample::Image(channels * height * width),
        (Some(channels), Some(depth), Some((height, width)), _) => Sample::Volume(channels * depth * height * width),
        (.., Some(tokens)) => Sample::Tokens(tokens),
        _ => Sample::Record,
    }
}

/// Refuses an input that describes no sample.
pub(super) fn check_input(input: InputSpec) -> Result<(), ModelError> {
    input.valid().map(drop).map_err(|invalid| ModelError::new("the input", invalid))
}

/// Returns the input with the sides of its image, or its tokens, replaced by those of a job.
fn overridden(input: InputSpec, image_size: Option<u64>, seq_len: Option<u64>) -> Result<InputSpec, ModelError> {
    let without_effect = |sentence| Err(ModelError::new("the input", Invalid::whole(sentence)));
    let image = input.height.is_some();
    match (image_size, seq_len) {
        (Some(_), _) if !image => without_effect("`image_size` is set, but it is no image"),
        (_, Some(_)) if input.tokens.is_none() => without_effect("`seq_len` is set, but it has no tokens"),
        _ => Ok(InputSpec {
            depth: input.depth.map(|depth| image_size.unwrap_or(depth)),
            height: image_size.or(input.height),
            width: image_size.or(input.width),
            tokens: seq_len.or(input.tokens),
            ..input
        }),
    }
}

#[cfg(test)]
mod tests;
