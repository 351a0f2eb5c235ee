//! What a step of the recommended plan is bound by, with its share.

use crate::loading::FirstPass;
use crate::relative::whole_percent;
use trainyard_plan::document::{InputPrediction, Prediction};
use trainyard_plan::{Bottleneck, Offload, Plan, Store};
use trainyard_sim::{DataSet, Machine, Outcome, StepLimits, step_limits};
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
    let limits = step_limits(plan, machine, outcome);
    let idle = outcome.bubble / (1.0 + outcome.bubble);
    let stall = prediction.input.as_ref().map_or(0.0, |input| input.input_stall_s);
    // With nothing loaded ahead, loading and the step take turns, and a shorter step is one.
    let in_turns = plan.input().is_some_and(|input| input.prefetch == 0);
    let least = if in_turns { limits.sorted()[0].1.0 } else { WAITS * prediction.step_time_s };
    if let Some(input) = prediction.input.as_ref().filter(|_| stall > least) {
        let what = match input.bottleneck {
            Bottleneck::Decode => "decoding",
            Bottleneck::Copy => "copying samples to the devices",
            _ => "reading samples",
        };
        let share = whole_percent(stall / prediction.step_time_s);
        return format!("bound by input, {what}: {share} of each step waits for samples");
    }
    let first_pass = data.and_then(|data| FirstPass::of(data, prediction, plan.batch().global));
    let words = Words { between: between(plan, machine), offload: plan.offload() };
    let held = prediction
        .input
        .as_ref()
        .filter(|_| !in_turns)
        .and_then(|input| held_by_input(input, limits.sorted()[0].1.0 / step.0));
    let own = sentence(&limits, (step, idle), words) + held.as_deref().unwrap_or_default();
    match first_pass.filter(FirstPass::limits) {
        Some(first) => {
            format!("bound by input, reading samples: the first pass takes {}; after it, {own}", first.share())
        }
        None => own,
    }
}

/// Says how much shorter a step could be before it waits for samples, where something else would make it shorter than that by
/// the `gain`, a part of it.
fn held_by_input(input: &InputPrediction, gain: f64) -> Option<String> {
    let stages = [
        ("reading samples", input.read_samples_per_s),
        ("decoding", input.decode_samples_per_s),
        ("copying samples to the devices", input.copy_samples_per_s),
    ];
    let (what, rate) = stages.into_iter().min_by(|one, other| one.1.total_cmp(&other.1))?;
    let most = (1.0 - input.step_samples_per_s / rate).max(0.0);
    (gain > most + NOTICEABLE).then(|| format!("; {what} lets it be {} shorter at most", whole_percent(most)))
}

/// Names what ranks exchange data over: within one machine that is no network.
fn between(plan: &Plan, machine: &Machine) -> &'static str {
    match (plan.cluster().instances, machine.cluster.first().device.gpu()) {
        (1, Some(_)) => "communication between GPUs",
        (1, None) => "communication between ranks",
        _ => "the network",
    }
}

fn sentence(limits: &StepLimits, (step, idle): (Seconds, f64), words: Words) -> String {
    let [(first, most), rest @ ..] = limits.sorted();
    let gains: Vec<String> = [(first, most)]
        .into_iter()
        .chain(rest.into_iter().filter(|(_, gain)| gain.0 / step.0 >= NOTICEABLE))
        .map(|(what, gain)| (gain.0 / step.0, words.free(what)))
        .chain((idle >= NOTICEABLE).then_some((idle, "idle pipeline stages")))
        .map(|(share, what)| format!("{} without {what}", whole_percent(share)))
        .collect();
    let (most, others) = gains.split_first().expect("of all limits one is the largest");
    let mut told = most.replacen(" without", " shorter without", 1);
    for other in others {
        told.push_str(", ");
        told.push_str(other);
    }
    let Some((hidden, gain)) = limits.hidden_by_offload() else {
        return format!("bound by {}: a step would be {told}", words.name(first));
    };
    format!(
        "bound by {}, beside which {} takes about as long: a step would be {told}, and {} without {} as well",
        words.name(hidden),
        words.name(Bottleneck::Offload),
        whole_percent((limits.offload + gain).0 / step.0),
        words.free(hidden)
    )
}

/// How a plan's limits are called.
#[derive(Clone, Copy)]
struct Words {
    /// What ranks exchange data over.
    between: &'static str,
    offload: Offload,
}

impl Words {
    fn name(self, what: Bottleneck) -> &'static str {
        match what {
            Bottleneck::Compute => "compute",
            Bottleneck::Memory => "memory traffic",
            Bottleneck::Launch => "kernel launches",
            Bottleneck::Network => self.between,
            Bottleneck::Offload if self.offload.uses(Store::Nvme) => "offload to NVMe",
            Bottleneck::Offload => "offload to main memory",
            Bottleneck::Storage | Bottleneck::Decode | Bottleneck::Copy => "input",
        }
    }

    fn free(self, what: Bottleneck) -> &'static str {
        match what {
            Bottleneck::Compute => "arithmetic",
            Bottleneck::Memory => "memory traffic",
            Bottleneck::Launch => "launching kernels",
            Bottleneck::Network => "communication",
            Bottleneck::Offload if self.offload.optimizer.is_some() => "its copies and the update on CPUs",
            Bottleneck::Offload => "its copies",
            Bottleneck::Storage | Bottleneck::Decode | Bottleneck::Copy => "input",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: Words =
        Words { between: "the network", offload: Offload { optimizer: Some(Store::Host), ..Offload::NONE } };

    #[test]
    fn the_largest_gain_bounds_and_small_ones_are_not_told() {
        let limits = StepLimits {
            network: Seconds(0.5),
            compute: Seconds(0.25),
            memory: Seconds(0.001),
            ..StepLimits::default()
        };
        assert_eq!(
            sentence(&limits, (Seconds(1.0), 0.1), WORDS),
            "bound by the network: a step would be 50 % shorter without communication, 25 % without arithmetic, 10 % without idle pipeline stages"
        );
    }

    #[test]
    fn a_step_becomes_no_shorter_than_its_samples_come() {
        let input = |decode_samples_per_s| InputPrediction {
            input_stall_s: 0.0,
            accelerator_utilisation: 1.0,
            bottleneck: Bottleneck::Network,
            read_samples_per_s: 9000.0,
            decode_samples_per_s,
            copy_samples_per_s: 8000.0,
            step_samples_per_s: 950.0,
            first_pass_step_time_s: 1.0,
            download_s: 0.0,
            requests: 0.0,
        };
        assert_eq!(held_by_input(&input(1000.0), 0.5).as_deref(), Some("; decoding lets it be 5 % shorter at most"));
        assert_eq!(held_by_input(&input(950.0), 0.5).as_deref(), Some("; decoding lets it be 0 % shorter at most"));
        assert_eq!(held_by_input(&input(2000.0), 0.5), None);
    }

    #[test]
    fn what_copies_hide_bounds_where_it_is_more_than_they_add() {
        let beside = |seconds| StepLimits {
            offload: Seconds(0.09),
            beside_offload: Some((Bottleneck::Compute, Seconds(seconds))),
            ..StepLimits::default()
        };
        assert_eq!(
            sentence(&beside(0.85), (Seconds(1.0), 0.0), WORDS),
            "bound by compute, beside which offload to main memory takes about as long: a step would be 9 % shorter \
             without its copies and the update on CPUs, and 94 % without arithmetic as well"
        );
        assert_eq!(
            sentence(&beside(0.05), (Seconds(1.0), 0.0), WORDS),
            "bound by offload to main memory: a step would be 9 % shorter without its copies and the update on CPUs"
        );
    }
}
