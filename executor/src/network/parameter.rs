//! The parameters of a network: their identity, names, shapes, first values, and how ranks cut them.
//!
//! A parameter is known by its layer and its slot within the layer, never by how the model is cut. Names are those of
//! the Hugging Face format, so that weights can be exchanged with other frameworks.

use crate::process_group::share;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::ops::Range;
use trainyard_data::{Purpose, generator};

/// The key of a parameter: layer 0 is the first of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ParameterKey {
    /// Layer of the whole model.
    pub(crate) layer: u32,
    /// Place within the layer.
    pub(crate) slot: u32,
}

impl ParameterKey {
    pub(crate) fn new(layer: usize, slot: usize) -> Self {
        Self { layer: layer as u32, slot: slot as u32 }
    }
}

/// The initial values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Initial {
    /// Normally distributed around zero with this standard deviation.
    Normal(f64),
    /// Equally distributed between minus and plus this bound.
    Uniform(f64),
    Ones,
    Zeros,
}

/// The way tensor parallelism splits a parameter: every rank has an equal share of one dimension, of each of `parts`
/// equal sections of it. Queries, keys and values that lie side by side are three sections.
///
/// Source: Shoeybi et al., arXiv:1909.08053, section 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// Index of the dimension in the shape.
    pub(crate) dimension: usize,
    /// Sections of it.
    pub(crate) parts: usize,
}

/// The layout of a matrix in files that other frameworks read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// As it computes: (inputs, outputs).
    AsIs,
    /// Transposed: (outputs, inputs).
    Transposed,
}

/// The role of a parameter in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The optimizer changes it.
    Trained,
    /// It is a running mean that forward passes change, as those of batch normalisation.
    Statistic,
    /// It stays as it is.
    Frozen,
}

/// One of the experts of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpertIndex {
    pub(crate) number: usize,
    /// Experts of the layer.
    pub(crate) count: usize,
}

impl ExpertIndex {
    /// Returns `true` if one of `ranks` ranks that share the experts has it: each has as many, in their order.
    pub(crate) fn is_on(self, rank: usize, ranks: usize) -> bool {
        self.number / (self.count / ranks) == rank
    }
}

/// One parameter of a layer, whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    /// Hugging Face's name of it.
    pub(crate) name: String,
    /// As it computes, outermost dimension first; linear weights are (inputs, outputs).
    pub(crate) shape: Vec<usize>,
    /// The split over the ranks of a tensor group; without one, each rank has the whole parameter.
    pub(crate) split: Option<Split>,
    /// Its layout in files.
    pub(crate) stored: Stored,
    /// Its values before the first step.
    pub(crate) initial: Initial,
    pub(crate) role: Role,
    /// `true` if it computes in single precision whatever other weights compute in, and so does its gradient.
    pub(crate) is_single: bool,
    /// The expert that it belongs to, if it is one's.
    pub(crate) expert: Option<ExpertIndex>,
    /// The parameter of another layer that it always equals, as a head tied to a token table.
    pub(crate) tied_to: Option<ParameterKey>,
    /// `true` if it is an adapter's, which the weights of a model do not hold.
    pub(crate) is_adapter: bool,
    /// `true` if each rank of a tensor group, which all have it whole, computes a part of the sum that its gradient is.
    pub(crate) has_partial_gradient: bool,
}

impl Parameter {
    /// Makes a trained parameter that every rank has all of.
    pub(crate) fn new(name: impl Into<String>, shape: &[usize], initial: Initial) -> Self {
        Self {
            name: name.into(),
            shape: shape.to_vec(),
            split: None,
            stored: Stored::AsIs,
            initial,
            role: Role::Trained,
            is_single: false,
            expert: None,
            tied_to: None,
            is_adapter: false,
            has_partial_gradient: false,
        }
    }

    /// Splits the parameter along a dimension over the ranks of a tensor group.
    pub(crate) fn split(self, dimension: usize, parts: usize) -> Self {
        Self { split: Some(Split { dimension, parts }), ..self }
    }

    /// Makes the parameter compute in single precision: the scale or shift of a normalisation, whose gradient is a sum over
    /// all tokens, which half precision does not hold. PyTorch's autocast computes them so, too.
    pub(crate) fn single(self) -> Self {
        Self { is_single: true, ..self }
    }

    /// Marks the parameter as transposed in files.
    pub(crate) fn transposed(self) -> Self {
        Self { stored: Stored::Transposed, ..self }
    }

    /// Returns the shape in files.
    pub(crate) fn stored_shape(&self) -> Vec<usize> {
        let mut shape = self.shape.clone();
        if self.stored == Stored::Transposed {
            shape.reverse();
        }
        shape
    }

    /// Returns `true` if files hold its values in the order in which it computes.
    pub(crate) fn is_stored_as_is(&self) -> bool {
        self.stored == Stored::AsIs || self.shape.len() != 2
    }

    /// Converts whole values to the order in which files hold them.
    pub(crate) fn to_stored(&self, values: Vec<f32>) -> Vec<f32> {
        match (self.stored, self.shape.as_slice()) {
            (Stored::Transposed, [rows, columns]) => transposed(&values, *rows, *columns),
            _ => values,
        }
    }

    /// Converts the values of a file to the order in which the parameter computes.
    pub(crate) fn as_computed(&self, values: &[f32]) -> Vec<f32> {
        match (self.stored, self.shape.as_slice()) {
            (Stored::Transposed, [rows, columns]) => transposed(values, *columns, *rows),
            _ => values.to_vec(),
        }
    }

    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the shape of the part that one of `ranks` ranks of a tensor group has.
    pub(crate) fn local_shape(&self, ranks: usize, rank: usize) -> Vec<usize> {
        let mut shape = self.shape.clone();
        if let Some(Split { dimension, parts }) = self.split {
            shape[dimension] = parts * share(shape[dimension] / parts, ranks, rank).len();
        }
        shape
    }

    /// Returns the part of `whole` that one rank of a tensor group has.
    pub(crate) fn local(&self, whole: &[f32], ranks: usize, rank: usize) -> Vec<f32> {
        let mut own = Vec::new();
        self.each_run(ranks, rank, |run| own.extend_from_slice(&whole[run]));
        own
    }

    /// Puts what one rank has into its place in `whole`.
    pub(crate) fn place(&self, own: &[f32], ranks: usize, rank: usize, whole: &mut [f32]) {
        let mut rest = own;
        self.each_run(ranks, rank, |run| {
            let (values, after) = rest.split_at(run.len());
            whole[run].copy_from_slice(values);
            rest = after;
        });
    }

    /// Visits the runs of elements of the whole parameter that one rank has, in the order in which it has them.
    fn each_run(&self, ranks: usize, rank: usize, mut visit: impl FnMut(Range<usize>)) {
        let Some(Split { dimension, parts }) = self.split else {
            visit(0..self.elements());
            return;
        };
        let outer: usize = self.shape[..dimension].iter().product();
        let inner: usize = self.shape[dimension + 1..].iter().product();
        let section = self.shape[dimension] / parts;
        let own = share(section, ranks, rank);
        for row in 0..outer {
            for part in 0..parts {
                let start = (row * self.shape[dimension] + part * section + own.start) * inner;
                visit(start..start + own.len() * inner);
            }
        }
    }

    /// Returns the whole values that a run with `seed` starts from. They depend on nothing else, so every plan trains
    /// the same model. `key` is the parameter's own.
    pub(crate) fn first_values(&self, key: ParameterKey, seed: u64) -> Vec<f32> {
        let length = self.elements();
        let ParameterKey { layer, slot } = self.tied_to.unwrap_or(key);
        let mut generator = generator(seed, Purpose::Parameter { layer, slot });
        match self.initial {
            Initial::Ones => vec![1.0; length],
            Initial::Zeros => vec![0.0; length],
            Initial::Normal(deviation) => normal_values(&mut generator, deviation, length),
            Initial::Uniform(bound) => (0..length).map(|_| generator.random_range(-bound..bound) as f32).collect(),
        }
    }
}

/// Transposes (rows, columns) → (columns, rows).
fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect()
}

/// Returns normally distributed values by the polar form of Box and Muller's transform (Marsaglia and Bray, 1964).
fn normal_values(generator: &mut Pcg64, deviation: f64, length: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(length + 1);
    while values.len() < length {
        let (x, y) = (generator.random_range(-1.0..1.0), generator.random_range(-1.0..1.0));
        let square: f64 = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            let scale = deviation * (-2.0 * square.ln() / square).sqrt();
            values.extend([(x * scale) as f32, (y * scale) as f32]);
        }
    }
    values.truncate(length);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_ranks_have_makes_up_the_whole(
            shape in proptest::collection::vec(1usize..7, 1..4),
            dimension in 0usize..3,
            parts in 1usize..4,
            ranks in 1usize..5,
        ) {
            let dimension = dimension % shape.len();
            let mut shape = shape;
            shape[dimension] *= parts;
            let parameter = Parameter::new("p", &shape, Initial::Ones).split(dimension, parts);
            let whole: Vec<f32> = (0..parameter.elements()).map(|i| i as f32).collect();
            let mut again = vec![f32::NAN; whole.len()];
            for rank in 0..ranks {
                let own = parameter.local(&whole, ranks, rank);
                prop_assert_eq!(own.len(), parameter.local_shape(ranks, rank).iter().product::<usize>());
                parameter.place(&own, ranks, rank, &mut again);
            }
            prop_assert_eq!(again, whole);
        }
    }

    #[test]
    fn sections_are_cut_each_for_itself() {
        // Two rows of queries | keys, two columns each.
        let parameter = Parameter::new("qk", &[2, 4], Initial::Zeros).split(1, 2);
        let whole = [0.0, 1.0, 10.0, 11.0, 2.0, 3.0, 12.0, 13.0];
        assert_eq!(parameter.local(&whole, 2, 1), [1.0, 11.0, 3.0, 13.0]);
    }

    #[test]
    fn first_values_are_normal_and_a_tied_parameter_equals_its_source() {
        let table = Parameter::new("table", &[256, 8], Initial::Normal(0.02));
        let key = ParameterKey::new(0, 0);
        let values = table.first_values(key, 7);
        let variance = values.iter().map(|v| f64::from(v * v)).sum::<f64>() / values.len() as f64;
        assert!((variance.sqrt() / 0.02 - 1.0).abs() < 0.1, "{variance}");
        let tied = Parameter { tied_to: Some(key), ..table.clone() };
        assert_eq!(tied.first_values(ParameterKey::new(4, 2), 7), values);
        assert_ne!(table.first_values(key, 8), values);
        assert_ne!(table.first_values(ParameterKey::new(1, 0), 7), values);
    }
}
