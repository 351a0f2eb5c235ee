//! Parameters that a rank holds.

use crate::spec::Precision;
use crate::valid::Plan;
use std::ops::Range;
use trainyard_models::Sharing;
use trainyard_units::Bytes;

/// Parameters of a run of layers on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Trainable values.
    pub parameters: u64,
    /// Trainable tensors.
    pub tensors: u32,
}

impl Held {
    /// Their gradients, which are kept and reduced in single precision whatever computes them.
    pub fn gradient_bytes(self) -> Bytes {
        Bytes(self.parameters * Precision::Fp32.element_bytes())
    }
}

impl Plan {
    /// How the ranks that hold one stage's layers share them.
    pub fn sharing(&self) -> Sharing {
        Sharing { tensor: u64::from(self.mesh().tensor()), sequence: false, context: 1, expert: 1 }
    }

    /// What one rank holds of `layers`, a part of one stage. The last of several stages has its own copy of a table
    /// that the first one holds too.
    pub fn held(&self, layers: &Range<usize>) -> Held {
        let own = || self.graph().layers().skip(layers.start).take(layers.len());
        let copies = self.stages().count() > 1 && layers.end == self.graph().len();
        let copy = if copies { self.shared_on_rank() } else { 0 };
        Held {
            parameters: own().map(|layer| layer.parameters(self.sharing())).sum::<u64>() + copy,
            tensors: own().map(trainyard_models::Layer::parameter_tensors).sum::<u32>() + u32::from(copy > 0),
        }
    }

    /// One rank's part of the table that the first and the last layer share.
    pub fn shared_on_rank(&self) -> u64 {
        self.graph().shared_parameters().div_ceil(self.sharing().tensor)
    }
}
