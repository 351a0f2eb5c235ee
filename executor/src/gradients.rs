//! The gradients of a stage in one flat buffer, which accumulates micro-batches and goes through collectives whole.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{Gradients, Tensor};
use std::collections::BTreeMap;
use std::ops::Range;

/// Gradients of all parameters of a stage, one after another in the order in which modules are visited.
pub(crate) struct GradientBucket {
    values: Vec<f32>,
    places: BTreeMap<u64, Place>,
}

/// Where the gradient of a parameter lies.
struct Place {
    range: Range<usize>,
    /// Whether this step has put something there. What is left of the step before is overwritten, not cleared first.
    written: bool,
}

impl GradientBucket {
    /// A buffer for the parameters of `module`.
    pub(crate) fn new<M: Module>(module: &M) -> Self {
        let mut visitor = Places { places: BTreeMap::new(), end: 0 };
        module.visit(&mut visitor);
        Self { values: vec![0.0; visitor.end], places: visitor.places }
    }

    /// Starts a new sum.
    pub(crate) fn start(&mut self) {
        self.places.values_mut().for_each(|place| place.written = false);
    }

    /// Takes the gradients of `module`'s parameters out of `gradients`, as far as they are there, and adds them.
    /// `module` is the one that the buffer was made for, or a part of it.
    pub(crate) fn gather<M: Module>(&mut self, module: &M, gradients: &mut Gradients) {
        module.visit(&mut Gatherer { bucket: self, gradients });
    }

    /// All gradients, for collectives.
    ///
    /// # Panics
    ///
    /// When a parameter got no gradient since the start of the sum: the model is wrong.
    pub(crate) fn values_mut(&mut self) -> &mut Vec<f32> {
        assert!(self.places.values().all(|place| place.written), "every parameter takes part in the loss");
        &mut self.values
    }

    /// The gradient of one parameter.
    pub(crate) fn of(&self, id: ParamId) -> &[f32] {
        &self.values[self.places.get(&id.val()).expect(HAS_PLACE).range.clone()]
    }

    /// The gradient of one parameter, to change it.
    pub(crate) fn of_mut(&mut self, id: ParamId) -> &mut [f32] {
        &mut self.values[self.places.get(&id.val()).expect(HAS_PLACE).range.clone()]
    }
}

const HAS_PLACE: &str = "the buffer has a place for every parameter of its stage";

struct Places {
    places: BTreeMap<u64, Place>,
    end: usize,
}

impl ModuleVisitor for Places {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let start = self.end;
        self.end += parameter.lazy_shape().num_elements();
        self.places.insert(parameter.id.val(), Place { range: start..self.end, written: false });
    }
}

struct Gatherer<'a> {
    bucket: &'a mut GradientBucket,
    gradients: &'a mut Gradients,
}

impl ModuleVisitor for Gatherer<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let Some(gradient) = parameter.val().grad_remove(self.gradients) else { return };
        let data = gradient.into_data();
        let from = data.as_slice::<f32>().expect("gradients are single precision");
        let place = self.bucket.places.get_mut(&parameter.id.val()).expect(HAS_PLACE);
        let to = &mut self.bucket.values[place.range.clone()];
        if std::mem::replace(&mut place.written, true) {
            to.iter_mut().zip(from).for_each(|(sum, value)| *sum += value);
        } else {
            to.copy_from_slice(from);
        }
    }
}
