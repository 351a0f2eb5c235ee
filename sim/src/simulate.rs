//! The simulation of one step, summed up.

use crate::capacity::{Footprint, footprint};
use crate::cost::Prices;
use crate::engine::run;
use crate::machine::{Machine, MachineError};
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{Device, Rate};
use trainyard_plan::document::Phases;
use trainyard_plan::{Activity, Plan, Precision, StageUse, StreamKind, TaskGraph, Timeline, Work, lower};
use trainyard_units::{Seconds, Span};

/// What a simulation found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Seconds of one optimizer step.
    pub step_time: Seconds,
    /// When everything happened.
    pub timeline: Timeline,
    /// How each stage's device was used.
    pub stages: Vec<StageUse>,
    /// Idle time of the pipeline over its ideal time, communication apart.
    pub bubble: f64,
    /// What communication adds to the step: the step time less that with links that take no time.
    pub exposed_communication: Seconds,
    /// Where the step goes on the busiest stage.
    pub phases: Phases,
    /// Model FLOPs over peak FLOPs; nothing where no peak is known.
    pub mfu: Option<f64>,
    /// What each stage needs in memory.
    pub footprint: Footprint,
}

/// One step of `plan` on `machine`.
///
/// # Errors
///
/// When the machine does not admit the plan or was not measured for it. That a plan does not fit into memory is no
/// error here: the outcome's footprint says so.
pub fn simulate(plan: &Plan, machine: &Machine) -> Result<Outcome, MachineError> {
    let prices = Prices::new(plan, machine)?;
    let graph = lower(plan, machine.lowering());
    let durations = durations(&prices, &graph)?;
    let timeline = run(&graph, &durations);
    let silent: Vec<Span> = graph
        .tasks()
        .iter()
        .zip(&durations)
        .map(|(task, duration)| if task.activity.is_communication() { Span::ZERO } else { *duration })
        .collect();
    let silent = run(&graph, &silent);
    let step_time = timeline.step_time();
    let stages = timeline.stage_use();
    Ok(Outcome {
        step_time,
        bubble: silent.bubble(),
        exposed_communication: step_time - silent.step_time(),
        phases: phases(&timeline, &stages),
        mfu: mfu(plan, machine, step_time),
        footprint: footprint(plan, machine),
        timeline,
        stages,
    })
}

/// The step time that [`simulate`] finds, and nothing else: what a search compares.
///
/// # Errors
///
/// As [`simulate`].
pub fn step_time(plan: &Plan, machine: &Machine) -> Result<Seconds, MachineError> {
    let prices = Prices::new(plan, machine)?;
    let graph = lower(plan, machine.lowering());
    Ok(run(&graph, &durations(&prices, &graph)?).step_time())
}

/// The price of each task; equal work is priced once.
fn durations(prices: &Prices<'_>, graph: &TaskGraph) -> Result<Vec<Span>, MachineError> {
    let mut known: BTreeMap<Work, Span> = BTreeMap::new();
    graph
        .tasks()
        .iter()
        .map(|task| {
            if let Some(span) = known.get(&task.work) {
                return Ok(*span);
            }
            let span = Span::from_seconds(prices.work(graph, task.work)?);
            known.insert(task.work, span);
            Ok(span)
        })
        .collect()
}

/// Where the step goes on the stage that computes longest; what is left is waiting and moving bytes.
fn phases(timeline: &Timeline, stages: &[StageUse]) -> Phases {
    let busiest = stages.iter().max_by(|a, b| a.busy.0.total_cmp(&b.busy.0)).map(|used| used.stage);
    let sum = |wanted: fn(&Activity) -> bool| -> f64 {
        timeline
            .intervals
            .iter()
            .filter(|interval| Some(interval.stream) == busiest.map(StreamKind::Compute) && wanted(&interval.activity))
            .map(|interval| interval.end.since(interval.start))
            .sum::<Span>()
            .seconds()
            .0
    };
    let forward_s = sum(|activity| matches!(activity, Activity::Forward { .. }));
    let backward_s = sum(|activity| matches!(activity, Activity::Backward { .. }));
    let optimizer_s = sum(|activity| matches!(activity, Activity::Update { .. }));
    let communication_s = timeline.step_time().0 - forward_s - backward_s - optimizer_s;
    Phases { forward_s, backward_s, communication_s, optimizer_s }
}

fn mfu(plan: &Plan, machine: &Machine, step_time: Seconds) -> Option<f64> {
    let Device::Gpu(gpu) = &machine.cluster.first().device else { return None };
    let rate = match plan.precision() {
        Precision::Fp32 => Rate::Fp32,
        Precision::Fp16Mixed => Rate::Fp16,
    };
    let needed = plan.graph().training_flops().0 * plan.batch().global as f64;
    Some(needed / (gpu.peak(rate).0 * f64::from(plan.mesh().ranks()) * step_time.0))
}
