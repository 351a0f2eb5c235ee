//! Limits of a step.

use crate::cost::{LayerCost, device_costs, layer_costs};
use crate::machine::Machine;
use crate::simulate::{Outcome, step_time};
use std::sync::Arc;
use trainyard_plan::{Bottleneck, Plan, Recompute};
use trainyard_units::Seconds;

/// So much faster that it limits nothing.
const WITHOUT_LIMIT: f64 = 1e6;

/// By how much a step would be shorter if one thing at a time took no time. They need not add up to the step: what
/// another thing hides is in none, and what two hide together in neither.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepLimits {
    /// Without arithmetic.
    pub compute: Seconds,
    /// Without traffic to the devices' memory.
    pub memory: Seconds,
    /// Without the host thread that launches kernels.
    pub launch: Seconds,
    /// Without communication.
    pub network: Seconds,
}

impl StepLimits {
    /// All of them, the largest first; of equals arithmetic, which nothing else explains.
    pub fn sorted(&self) -> [(Bottleneck, Seconds); 4] {
        let mut all = [
            (Bottleneck::Compute, self.compute),
            (Bottleneck::Memory, self.memory),
            (Bottleneck::Launch, self.launch),
            (Bottleneck::Network, self.network),
        ];
        all.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
        all
    }
}

/// Returns the limit of the step: that of arithmetic, memory bandwidth, launches and network which would shorten it
/// most if it took no time. On a measured machine, whose kernels are known as a whole, arithmetic or network.
pub fn bottleneck(plan: &Plan, machine: &Machine, outcome: &Outcome) -> Bottleneck {
    step_limits(plan, machine, outcome).sorted()[0].0
}

/// Returns the limits of the step, and by how much each: the step is simulated again on machines without one of them. On a
/// measured machine the passes count as arithmetic.
pub fn step_limits(plan: &Plan, machine: &Machine, outcome: &Outcome) -> StepLimits {
    let Some(inside) = inside_layers(plan, machine) else {
        let compute = Seconds(outcome.phases.forward_s + outcome.phases.backward_s);
        return StepLimits { compute, network: outcome.exposed_communication, ..StepLimits::default() };
    };
    let gain = |faster: &Machine| {
        step_time(plan, faster).map_or(Seconds::ZERO, |time| (outcome.step_time - time).max(Seconds::ZERO))
    };
    let passes = plan.batch().accumulation as f64 / f64::from(plan.mesh().pipeline());
    StepLimits {
        compute: gain(&without_arithmetic(machine)),
        memory: gain(&without_traffic(machine)),
        launch: gain(&without_launches(machine)),
        network: outcome.exposed_communication + inside * passes,
    }
}

/// Seconds of the communication inside all layers for one micro-batch, forward, backward and where layers are computed again.
/// Nothing for a measured machine.
fn inside_layers(plan: &Plan, machine: &Machine) -> Option<Seconds> {
    device_costs(&machine.cluster.first().device).peaks(plan.precision())?;
    let graph = plan.graph();
    let costs = layer_costs(graph, plan.batch().micro, plan.mesh(), plan.precision(), machine).ok()?;
    let layers = (0..graph.len()).map(|index| costs.layer(index));
    let again = |price: &LayerCost| plan.recompute() == Recompute::Full && price.recomputed;
    let inside = |price: LayerCost| {
        let passes_forward = if again(&price) { 2.0 } else { 1.0 };
        price.inside_forward * passes_forward + price.inside_backward
    };
    Some(layers.map(inside).sum())
}

fn without_arithmetic(machine: &Machine) -> Machine {
    let mut faster = machine.clone();
    for pool in &mut faster.cluster.pools {
        if let Some(gpu) = pool.device.gpu_mut() {
            let optional = [&mut gpu.peak_tf32, &mut gpu.peak_bf16, &mut gpu.peak_fp8].into_iter().flatten();
            for peak in optional.chain([&mut gpu.peak_fp32, &mut gpu.peak_fp16]) {
                peak.value.0 *= WITHOUT_LIMIT;
            }
        }
    }
    faster
}

fn without_traffic(machine: &Machine) -> Machine {
    let mut faster = machine.clone();
    for pool in &mut faster.cluster.pools {
        if let Some(gpu) = pool.device.gpu_mut() {
            gpu.memory_bandwidth.value.0 *= WITHOUT_LIMIT;
        }
    }
    faster
}

fn without_launches(machine: &Machine) -> Machine {
    let mut faster = machine.clone();
    Arc::make_mut(&mut faster.stack).launch.value = Seconds::ZERO;
    faster
}
