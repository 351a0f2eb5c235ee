//! What a step of the recommended plan is bound by, with its share.

use crate::loading::FirstPass;
use trainyard_plan::document::Prediction;
use trainyard_plan::{Bottleneck, Plan};
use trainyard_sim::{DataSet, Machine, Outcome, step_limits};
use trainyard_units::Seconds;

/// Shares of the step below this are not reported.
const NOTICEABLE: f64 = 0.005;

/// The share of a step from which waiting for samples bounds it: nothing else would shorten it then, for loading overlaps
/// with the step.
const WAITS: f64 = 0.03;

/// Says what bounds the step: samples if it waits for them, otherwise the resource that would shorten it most if it
/// took no time; and how much the other resources would. The shares need not add up, since much of the work overlaps.
pub(crate) fn bound_by(
    plan: &Plan,
    machine: &Machine,
    outcome: &Outcome,
    prediction: &Prediction,
    data: Option<&DataSet>,
) -> String {
    let step = outcome.step_time;
    let limits = step_limits(plan, machine, outcome).sorted();
    let idle = outcome.bubble / (1.0 + outcome.bubble);
    let stall = prediction.input.as_ref().map_or(0.0, |input| input.input_stall_s);
    // With nothing loaded ahead, loading and the step take turns, and a shorter step is one.
    let in_turns = plan.input().is_some_and(|input| input.prefetch == 0);
    let least = if in_turns { limits[0].1.0 } else { WAITS * prediction.step_time_s };
    if let Some(input) = prediction.input.as_ref().filter(|_| stall > least) {
        let what = match input.bottleneck {
            Bottleneck::Decode => "decoding",
            Bottleneck::Copy => "copying samples to the devices",
            _ => "reading samples",
        };
        let share = percent(stall / prediction.step_time_s);
        return format!("bound by input, {what}: {share} of each step waits for samples");
    }
    let first_pass = data.and_then(|data| FirstPass::of(data, prediction, plan.batch().global));
    let own = sentence(limits, (step, idle), between(plan, machine));
    match first_pass.filter(FirstPass::limits) {
        Some(first) => {
            format!("bound by input, reading samples: the first pass takes {}; after it, {own}", first.share())
        }
        None => own,
    }
}

/// Names what ranks exchange data over: within one machine that is no network.
fn between(plan: &Plan, machine: &Machine) -> &'static str {
    match (plan.cluster().instances, machine.cluster.first().device.gpu()) {
        (1, Some(_)) => "communication between GPUs",
        (1, None) => "communication between ranks",
        _ => "the network",
    }
}

fn sentence(limits: [(Bottleneck, Seconds); 4], (step, idle): (Seconds, f64), between: &'static str) -> String {
    let [(first, most), rest @ ..] = limits;
    let others: Vec<String> = rest
        .into_iter()
        .filter(|(_, gain)| gain.0 / step.0 >= NOTICEABLE)
        .map(|(what, gain)| format!("{} without {}", percent(gain.0 / step.0), free(what)))
        .chain((idle >= NOTICEABLE).then(|| format!("{} without idle pipeline stages", percent(idle))))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!(", {}", others.join(", ")) };
    format!(
        "bound by {}: a step would be {} shorter without {}{others}",
        name(first, between),
        percent(most.0 / step.0),
        free(first)
    )
}

fn name(what: Bottleneck, between: &'static str) -> &'static str {
    match what {
        Bottleneck::Compute => "compute",
        Bottleneck::Memory => "memory traffic",
        Bottleneck::Launch => "kernel launches",
        Bottleneck::Network => between,
        Bottleneck::Storage | Bottleneck::Decode | Bottleneck::Copy => "input",
    }
}

fn free(what: Bottleneck) -> &'static str {
    match what {
        Bottleneck::Compute => "arithmetic",
        Bottleneck::Memory => "memory traffic",
        Bottleneck::Launch => "launching kernels",
        Bottleneck::Network => "communication",
        Bottleneck::Storage | Bottleneck::Decode | Bottleneck::Copy => "input",
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_gain_bounds_and_small_ones_are_not_told() {
        let limits = [
            (Bottleneck::Network, Seconds(0.5)),
            (Bottleneck::Compute, Seconds(0.25)),
            (Bottleneck::Memory, Seconds(0.001)),
            (Bottleneck::Launch, Seconds(0.0)),
        ];
        assert_eq!(
            sentence(limits, (Seconds(1.0), 0.1), "the network"),
            "bound by the network: a step would be 50 % shorter without communication, 25 % without arithmetic, 10 % without idle pipeline stages"
        );
    }
}
