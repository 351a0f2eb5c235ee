//! Recurrent layers as written.

use super::build::{Builder, Value};
use super::shape::{Shape, range};
use crate::families::ModelError;
use crate::families::fields::CHANNELS_MAX;
use crate::operator::{Cell, OperatorKind, Recurrent};
use trainyard_units::Invalid;

impl Builder<'_> {
    pub(super) fn no_sequence(&self, shape: Shape) -> ModelError {
        self.error(Invalid::whole(format!("it needs a sequence, but gets {shape}")))
    }

    /// Returns a recurrent layer with as many features, which a word says, in each direction.
    pub(super) fn recurrent(
        &mut self,
        cell: Cell,
        (word, hidden): (&'static str, u64),
        bidirectional: Option<bool>,
        value: Value,
    ) -> Result<Value, ModelError> {
        let shape = value.shape;
        if shape.dimensions != 1 {
            return Err(self.no_sequence(shape));
        }
        let hidden = self.valid(range(word, hidden, 1, CHANNELS_MAX))?;
        let directions = if bidirectional.unwrap_or(false) { 2 } else { 1 };
        self.weights(shape.channels + hidden, directions * cell.gates() * hidden)?;
        let made = self.made(shape.with_channels(directions * hidden))?;
        let (samples, steps, inputs) = (shape.samples, shape.pixels(), shape.channels);
        let layer = Recurrent { cell, samples, steps, inputs, hidden, directions };
        self.push(OperatorKind::Recurrent(layer), value);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cell, Model, ModelError, ModelSpec, OperatorKind, Recurrent};

    fn model(input: &str, operators: &str) -> Result<Model, ModelError> {
        let text = format!(
            "name = \"own\"\nfamily = \"layers\"\ninput = {{ {input} }}\n\
             layer = [{{ name = \"steps\", operators = [{operators}] }}, \
             {{ name = \"loss\", operators = [\"cross_entropy\"] }}]"
        );
        Model::try_from(toml::from_str::<ModelSpec>(&text).expect("a specification"))
    }

    #[test]
    fn a_sequence_of_vectors_goes_through_both_directions() {
        let operators = "{ lstm = 320, bidirectional = true }, { gru = 100 }";
        let graph = model("tokens = 200, features = 80", operators).expect("valid").graph();
        let recurrent = |cell, inputs, hidden, directions| {
            OperatorKind::Recurrent(Recurrent { cell, samples: 1, steps: 200, inputs, hidden, directions })
        };
        let kinds: Vec<OperatorKind> = graph.layer(0).operators.iter().map(|operator| operator.kind).collect();
        assert_eq!(kinds, [recurrent(Cell::Lstm, 80, 320, 2), recurrent(Cell::Gru, 640, 100, 1)]);
        assert_eq!(graph.layer(0).output_elements, 200 * 100);
    }

    #[test]
    fn an_image_has_no_steps() {
        let error = model("channels = 3, height = 8, width = 8", "{ lstm = 16 }").expect_err("no sequence");
        assert!(error.to_string().contains("needs a sequence"), "{error}");
        let error = model("tokens = 8, features = 4", "{ gru = 0 }").expect_err("no features");
        assert!(error.to_string().contains("`gru` is 0"), "{error}");
    }
}
