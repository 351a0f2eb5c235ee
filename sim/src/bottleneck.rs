//! What limits a step.

use crate::cost::layer_prices;
use crate::machine::Machine;
use crate::simulate::Outcome;
use trainyard_hardware_profiles::Device;
use trainyard_plan::{Bottleneck, Plan, StagePass};
use trainyard_units::Seconds;

/// So much faster that it limits nothing.
const WITHOUT_LIMIT: f64 = 1e6;

/// What limits the step: that of arithmetic, memory bandwidth, launches and network which would shorten it most if it
/// took no time. On a measured machine, whose kernels are known as a whole, arithmetic or network.
pub fn bottleneck(plan: &Plan, machine: &Machine, outcome: &Outcome) -> Bottleneck {
    let passes = plan.batch().accumulation as f64 / f64::from(plan.mesh().pipeline());
    let Some((kernels, inside)) = layers(plan, machine) else {
        let computing = outcome.phases.forward_s + outcome.phases.backward_s;
        let network = outcome.exposed_communication.0 > computing;
        return if network { Bottleneck::Network } else { Bottleneck::Compute };
    };
    let gain = |faster: &Machine| layers(plan, faster).map_or(0.0, |(faster, _)| (kernels - faster).0 * passes);
    let gains = [
        (Bottleneck::Compute, gain(&without_arithmetic(machine))),
        (Bottleneck::Memory, gain(&without_traffic(machine))),
        (Bottleneck::Launch, gain(&without_launches(machine))),
        (Bottleneck::Network, outcome.exposed_communication.0 + inside.0 * passes),
    ];
    // The first of equals: arithmetic, which nothing else explains.
    gains.into_iter().rev().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(Bottleneck::Compute, |(limit, _)| limit)
}

/// Seconds of all layers for one micro-batch, forward and backward: kernels, and what happens between them. Nothing for
/// a measured machine.
fn layers(plan: &Plan, machine: &Machine) -> Option<(Seconds, Seconds)> {
    let Device::Gpu(_) = &machine.cluster.first().device else { return None };
    let (graph, recompute) = (plan.graph(), plan.recompute());
    let prices = layer_prices(graph, plan.batch().micro, plan.mesh(), plan.precision(), machine).ok()?;
    let (mut kernels, mut inside) = (Seconds::ZERO, Seconds::ZERO);
    for index in 0..graph.len() {
        let price = prices.layer(index);
        let between = price.inside_forward + price.inside_backward;
        kernels += price.pass(StagePass::Forward, recompute) + price.pass(StagePass::Backward, recompute) - between;
        inside += between;
    }
    Some((kernels, inside))
}

fn without_arithmetic(machine: &Machine) -> Machine {
    let mut faster = machine.clone();
    for pool in &mut faster.cluster.pools {
        if let Device::Gpu(gpu) = &mut pool.device {
            let optional = [&mut gpu.peak_tf32, &mut gpu.peak_bf16].into_iter().flatten();
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
        if let Device::Gpu(gpu) = &mut pool.device {
            gpu.memory_bandwidth.value.0 *= WITHOUT_LIMIT;
        }
    }
    faster
}

fn without_launches(machine: &Machine) -> Machine {
    let mut faster = machine.clone();
    faster.stack.launch.value = Seconds::ZERO;
    faster
}
