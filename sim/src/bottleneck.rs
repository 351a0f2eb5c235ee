//! Limits of a step.

use crate::cost::{LayerCost, device_costs, layer_costs};
use crate::machine::Machine;
use crate::simulate::{Outcome, step_time};
use std::sync::Arc;
use trainyard_plan::{Bottleneck, Offload, Plan, Recompute};
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
    /// Without communication between devices.
    pub network: Seconds,
    /// Without copies between devices and the memory or disks of their machine, and the update on its processors.
    pub offload: Seconds,
    /// What would bind next without them, and by how much that would shorten the step then: what copies hide while they
    /// run beside it. Of a plan that keeps nothing off its devices, nothing.
    pub beside_offload: Option<(Bottleneck, Seconds)>,
}

impl StepLimits {
    /// All of them, the largest first; of equals arithmetic, which nothing else explains.
    pub fn sorted(&self) -> [(Bottleneck, Seconds); 5] {
        let mut all = [
            (Bottleneck::Compute, self.compute),
            (Bottleneck::Memory, self.memory),
            (Bottleneck::Launch, self.launch),
            (Bottleneck::Network, self.network),
            (Bottleneck::Offload, self.offload),
        ];
        all.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
        all
    }

    /// What copies to and from the machine's memory hide, if that takes longer than anything that they do not: neither
    /// shortens the step alone then, for the other one goes on.
    pub fn hidden_by_offload(&self) -> Option<(Bottleneck, Seconds)> {
        self.beside_offload.filter(|(_, gain)| gain.0 > self.sorted()[0].1.0)
    }
}

/// Returns the limit of the step: that of arithmetic, memory bandwidth, launches, network and offload which would shorten
/// it most if it took no time, or what copies to and from the machine's memory hide, where that takes longer. On a
/// measured machine, whose kernels are known as a whole, arithmetic or network.
pub fn bottleneck(plan: &Plan, machine: &Machine, outcome: &Outcome) -> Bottleneck {
    let limits = step_limits(plan, machine, outcome);
    limits.hidden_by_offload().unwrap_or(limits.sorted()[0]).0
}

/// Returns the limits of the step, and by how much each: the step is simulated again on machines without one of them. On a
/// measured machine the passes count as arithmetic.
pub fn step_limits(plan: &Plan, machine: &Machine, outcome: &Outcome) -> StepLimits {
    let Some(inside) = inside_layers(plan, machine) else {
        let compute = Seconds(outcome.phases.forward_s + outcome.phases.backward_s);
        return StepLimits { compute, network: outcome.exposed_communication, ..StepLimits::default() };
    };
    let step = outcome.step_time;
    let passes = plan.batch().accumulation as f64 / f64::from(plan.mesh().pipeline());
    let (offload, beside_offload) = of_offload(plan, machine, step);
    StepLimits {
        network: (outcome.exposed_communication - offload).max(Seconds::ZERO) + inside * passes,
        offload,
        beside_offload,
        ..of_kernels(plan, machine, step)
    }
}

/// By how much a step of `step` seconds on `machine` would be shorter on `faster`.
fn gain(plan: &Plan, step: Seconds, faster: &Machine) -> Seconds {
    step_time(plan, faster).map_or(Seconds::ZERO, |time| (step - time).max(Seconds::ZERO))
}

/// The limits that kernels set.
fn of_kernels(plan: &Plan, machine: &Machine, step: Seconds) -> StepLimits {
    StepLimits {
        compute: gain(plan, step, &without_arithmetic(machine)),
        memory: gain(plan, step, &without_traffic(machine)),
        launch: gain(plan, step, &without_launches(machine)),
        ..StepLimits::default()
    }
}

/// By how much a step would be shorter without offload, and what kernels take that ran beside it.
fn of_offload(plan: &Plan, machine: &Machine, step: Seconds) -> (Seconds, Option<(Bottleneck, Seconds)>) {
    if plan.offload() == Offload::NONE {
        return (Seconds::ZERO, None);
    }
    let alone = without_offload(machine);
    let offload = gain(plan, step, &alone);
    (offload, Some(of_kernels(plan, &alone, step - offload).sorted()[0]))
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
        price.inside_forward.total() * passes_forward + price.inside_backward.total()
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

fn without_offload(machine: &Machine) -> Machine {
    let mut faster = machine.clone();
    for pool in &mut faster.cluster.pools {
        if let Some(gpu) = pool.device.gpu_mut() {
            gpu.host_bandwidth.value.0 *= WITHOUT_LIMIT;
        }
        if let Some(host) = &mut pool.host {
            for rate in [&mut host.memory_bandwidth, &mut host.disk_bandwidth, &mut host.pcie.uplink] {
                rate.0 *= WITHOUT_LIMIT;
            }
        }
    }
    faster
}

fn without_launches(machine: &Machine) -> Machine {
    let mut faster = machine.clone();
    Arc::make_mut(&mut faster.stack).launch.value = Seconds::ZERO;
    faster
}
