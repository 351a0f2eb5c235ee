//! The memory that layers hold, and what decides it: what bounds are made of, and what searches for a model share.

use std::sync::Arc;
use trainyard_plan::{Offload, ParallelSpec, Precision, Recompute, Resident};

/// Everything that decides how much memory layers hold together, except the number of ranks that share it: the
/// attention kernel follows from the choice, the offload from the variant.
pub(super) type HeldKey = (usize, ParallelSpec, Precision, Recompute, u64, Offload);

/// What the layers before each layer hold together, from none to all of them.
pub(super) type HeldBefore = Option<Arc<[ParameterCounts]>>;

/// Memory that the layers before each layer hold together, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ParameterCounts {
    pub(super) parameters: f64,
    pub(super) gradients: f64,
    pub(super) optimizer_state: f64,
    /// Of one micro-batch.
    pub(super) activations: f64,
}

impl ParameterCounts {
    pub(super) fn of(resident: Resident) -> Self {
        Self {
            parameters: resident.parameters.as_f64(),
            gradients: resident.gradients.as_f64(),
            optimizer_state: resident.optimizer_state.as_f64(),
            activations: resident.activations.as_f64(),
        }
    }

    pub(super) fn state(self) -> f64 {
        self.parameters + self.gradients + self.optimizer_state
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            parameters: self.parameters + other.parameters,
            gradients: self.gradients + other.gradients,
            optimizer_state: self.optimizer_state + other.optimizer_state,
            activations: self.activations + other.activations,
        }
    }

    pub(super) fn less(self, other: Self) -> Self {
        Self {
            parameters: self.parameters - other.parameters,
            gradients: self.gradients - other.gradients,
            optimizer_state: self.optimizer_state - other.optimizer_state,
            activations: self.activations - other.activations,
        }
    }
}
