//! Bytes that a rank holds at the worst moment of a step. Whether they fit is for `sim` to say, which knows what the
//! software takes besides.

use crate::partition::StageId;
use crate::schedule::peak_in_flight;
use crate::spec::{Optimizer, Precision, Recompute};
use crate::valid::Plan;
use trainyard_models::{Layer, LayerRole};
use trainyard_units::Bytes;

/// What a rank of one stage holds, by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Weights that compute uses.
    pub parameters: Bytes,
    /// Gradients, in single precision.
    pub gradients: Bytes,
    /// The optimizer's moments and, with mixed precision, the single-precision master weights.
    pub optimizer_state: Bytes,
    /// Activations kept for backward, at the schedule's peak.
    pub activations: Bytes,
    /// Buffers that live inside one layer's computation.
    pub workspace: Bytes,
}

impl Resident {
    /// All of it.
    pub fn total(&self) -> Bytes {
        self.parameters + self.gradients + self.optimizer_state + self.activations + self.workspace
    }
}

/// What each rank of `stage` holds at the peak of a step.
///
/// # Source
///
/// State: Rajbhandari et al., arXiv:1910.02054, section 3.1, with gradients kept in single precision as Megatron-LM
/// does (18 bytes a parameter in mixed precision, 16 in single). Activations: `models`.
pub fn resident(plan: &Plan, stage: StageId) -> Resident {
    let layers = plan.stages().layers(stage);
    let own = || plan.graph().layers().skip(layers.start).take(layers.len());
    let held = plan.held(&layers);
    let parameters = held.parameters;
    let element = plan.precision().element_bytes();
    let moments = match plan.optimizer() {
        Optimizer::AdamW => 8,
        Optimizer::Sgd => 0,
    };
    let master = match plan.precision() {
        Precision::Fp32 => 0,
        Precision::Fp16Mixed => 4,
    };
    Resident {
        parameters: Bytes(parameters * element),
        gradients: held.gradient_bytes(),
        optimizer_state: Bytes(parameters * (moments + master)),
        activations: activations(plan, stage, own()),
        workspace: workspace(plan, own()),
    }
}

fn activations<'a>(plan: &Plan, stage: StageId, layers: impl Iterator<Item = &'a Layer> + Clone) -> Bytes {
    let micro = plan.batch().micro;
    let (sharing, element) = (plan.sharing(), plan.precision().element_bytes());
    let micro_batches = u32::try_from(plan.batch().accumulation).unwrap_or(u32::MAX);
    let held = u64::from(peak_in_flight(plan.schedule(), stage, plan.stages().count(), micro_batches));
    let whole = |layer: &Layer| layer.stored(micro, sharing).bytes(element).0;
    match plan.recompute() {
        Recompute::None => Bytes(layers.map(whole).sum::<u64>() * held),
        // Blocks keep their input, the residual stream, and one at a time is whole again.
        Recompute::Full => {
            let kept: u64 = layers
                .clone()
                .map(|layer| match layer.role {
                    LayerRole::Block => layer.stream_on_rank(micro, sharing) * element,
                    LayerRole::Input | LayerRole::Output => whole(layer),
                })
                .sum();
            let again = layers.filter(|layer| layer.role == LayerRole::Block).map(whole).max();
            Bytes(kept * held + again.unwrap_or(0))
        }
    }
}

/// The gradient of the largest layer's activations, alive while that layer runs backward: two outputs' worth, or the
/// logits' gradient where there is a loss.
fn workspace<'a>(plan: &Plan, layers: impl Iterator<Item = &'a Layer>) -> Bytes {
    let (micro, sharing, element) = (plan.batch().micro, plan.sharing(), plan.precision().element_bytes());
    let largest = layers
        .map(|layer| {
            let widest = layer.operators.iter().map(|operator| operator.stored(micro, sharing).bytes(element));
            widest.max().unwrap_or_default().0 + layer.stream_on_rank(micro, sharing) * element
        })
        .max();
    Bytes(largest.unwrap_or(0))
}
