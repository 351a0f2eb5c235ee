//! Embedding tables and dot interactions as written.

use super::build::{Builder, Value};
use super::shape::{Shape, range};
use crate::families::ModelError;
use crate::families::fields::ROWS_MAX;
use crate::operator::{OperatorKind, Recommendation};
use trainyard_units::Invalid;

/// Most tables of a layer.
const TABLES_MAX: u64 = 1 << 16;

impl Builder<'_> {
    /// Returns the vector that flows and a row of each table: a sequence of vectors.
    pub(super) fn tables(&mut self, rows: &[u64], value: Value) -> Result<Value, ModelError> {
        let shape = value.shape;
        if shape.pixels() != 1 {
            let sentence = format!("it puts rows of tables beside one vector, but gets {shape}");
            return Err(self.error(Invalid::whole(sentence)));
        }
        if self.exchanged_elements > 0 {
            let hint = "write the rows of all tables in one list, or put them into another layer";
            return Err(self.error(Invalid::whole("the layer has tables already").with_hint(hint)));
        }
        let count = self.valid(range("tables", rows.len() as u64, 1, TABLES_MAX))?;
        for table in rows {
            self.valid(range("tables", *table, 1, ROWS_MAX))?;
        }
        let entries = self.valid(range("tables", rows.iter().sum(), 1, ROWS_MAX))?;
        let (samples, width) = (shape.samples, shape.channels);
        let made = self.made(Shape { dimensions: 1, extent: [1, 1, count + 1], ..shape })?;
        let tables = Recommendation::Tables { samples, tables: count, entries, width };
        self.push(OperatorKind::Recommendation(tables), value);
        self.exchanged_elements = samples * count * width;
        Ok(made)
    }

    /// Returns the first vector of a sequence and the dot products of all pairs: one vector.
    pub(super) fn dot_interaction(&mut self, value: Value) -> Result<Value, ModelError> {
        let shape = value.shape;
        if shape.dimensions != 1 {
            return Err(self.no_sequence(shape));
        }
        let (vectors, width) = (shape.pixels(), shape.channels);
        let outputs = Recommendation::pairs_of(vectors) + width;
        let made = self.made(Shape { dimensions: 0, extent: [1; 3], channels: outputs, ..shape })?;
        let dots = Recommendation::Interaction { samples: shape.samples, vectors, width, outputs };
        self.push(OperatorKind::Recommendation(dots), value);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Divisible, Model, ModelError, ModelSpec, Sharing};

    fn model(operators: &str) -> Result<Model, ModelError> {
        let text = format!(
            "name = \"own\"\nfamily = \"layers\"\ninput = {{ features = 13 }}\n\
             layer = [{{ name = \"features\", operators = [{operators}] }}, \
             {{ name = \"click\", operators = [{{ linear = 1 }}, {{ cross_entropy = 1 }}] }}]"
        );
        Model::try_from(toml::from_str::<ModelSpec>(&text).expect("a specification"))
    }

    #[test]
    fn tables_and_interactions_have_the_parameters_of_the_family() {
        let written = "{ linear = 16, activation = \"relu\" }, { tables = [1000, 50, 7] }, \"dot_interaction\"";
        let graph = model(written).expect("valid").graph();
        // Four vectors of 16 have six pairs: 22 features, where the family pads to 24.
        let click = 16 + 6 + 1;
        assert_eq!(graph.parameters(), 13 * 16 + 16 + 1057 * 16 + click);
        let features = graph.layer(0);
        assert_eq!((features.exchanges(), features.exchanged_elements), (1, 3 * 16));
        assert_eq!(features.table_parameters(Sharing::WHOLE), 1057 * 16);
        assert_eq!(graph.divisible(), Some(Divisible::TableColumns(3 * 16)));
    }

    #[test]
    fn tables_stand_beside_one_vector_once() {
        let twice = model("{ linear = 16 }, { tables = [10] }, \"flatten\", { tables = [10] }").expect_err("twice");
        assert!(twice.hint().is_some_and(|hint| hint.contains("one list")), "{twice}");
        let beside = model("{ linear = 16 }, { tables = [10] }, { tables = [10] }").expect_err("beside two vectors");
        assert!(beside.to_string().contains("one vector"), "{beside}");
        assert!(model("{ tables = [] }").is_err() && model("{ tables = [0] }").is_err());
        assert!(model("\"dot_interaction\"").expect_err("one vector").to_string().contains("sequence"));
    }
}
