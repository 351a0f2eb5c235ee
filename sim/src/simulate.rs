//! The simulation of one step, summed up.

use crate::capacity::{Footprint, footprint};
use crate::cost::{Costs, LayerTable, device_costs};
use crate::engine::{Timing, run, run_in_silence};
use crate::ensemble::{Asks, Ensemble};
use crate::fold::{Communication, Fold, folded, unfolded};
use crate::layout::Layout;
use crate::machine::{Machine, MachineError};
use crate::variation::Variation;
use std::collections::BTreeMap;
use trainyard_plan::document::Phases;
use trainyard_plan::{
    Activity, Group, Plan, Rank, StageId, StageUse, StepSize, StreamKind, TaskGraph, Timeline, Work, lower,
};
use trainyard_units::{Bytes, Instant, Seconds, Span};

/// Options of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Every rank by itself, instead of one for all that must behave alike.
    pub unfold: bool,
    /// Devices of different speed.
    pub variation: Option<Variation>,
}

/// The outcome of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Seconds of one optimizer step.
    pub step_time: Seconds,
    /// When everything happened, on the first rank of each stage.
    pub timeline: Timeline,
    /// Use of each stage's device.
    pub stages: Vec<StageUse>,
    /// Idle time of the pipeline over its ideal time, communication apart.
    pub bubble: f64,
    /// Time that communication adds to the step: the step time less that with links that take no time.
    pub exposed_communication: Seconds,
    /// Where the step goes on the busiest stage.
    pub phases: Phases,
    /// Model FLOPs over peak FLOPs; nothing where no peak is known.
    pub mfu: Option<f64>,
    /// Memory of each stage.
    pub footprint: Footprint,
    /// Ranks that were simulated, each for all that behave as it does.
    pub actors: u32,
}

/// Bytes of a node with its edges, progress and place in the queue. Measured: 0.42 kB a node for 16 384 ranks of which
/// each was simulated, rounded up.
const NODE_BYTES: u64 = 512;

/// Nodes for each pass: itself and what it sends or gathers.
const NODES_PER_PASS: u64 = 2;

/// Different works of a stream that are remembered: its passes forward and backward.
const RECENT: usize = 4;

/// Bytes of a rank's communications and links while ranks are folded.
const RANK_BYTES: u64 = 8 << 10;

/// Bytes of a machine's links, whether ranks are on it or not. Measured: 0.7 kB a machine of 8 GPUs for 10⁶ of them,
/// rounded up.
const MACHINE_BYTES: u64 = 1 << 10;

/// Memory that a simulation takes at most, about. A fold's ranks are known only when it is done: where every device is
/// different, each of them is simulated.
pub fn memory_needed(plan: &Plan, options: Options) -> Bytes {
    let ranks = u64::from(plan.mesh().ranks());
    let each = options.unfold || options.variation.is_some();
    let copies = if each { ranks / u64::from(plan.mesh().pipeline()) } else { 1 };
    let passes = StepSize::of(plan.spec(), plan.graph().len()).tasks();
    let places = ranks * RANK_BYTES + u64::from(plan.cluster().instances) * MACHINE_BYTES;
    Bytes(passes.saturating_mul(NODES_PER_PASS * copies * NODE_BYTES).saturating_add(places))
}

/// One step of `plan` on `machine`.
///
/// # Errors
///
/// When the machine does not admit the plan or was not measured for it. That a plan does not fit into memory is no
/// error here: the outcome's footprint says so.
pub fn simulate(plan: &Plan, machine: &Machine) -> Result<Outcome, MachineError> {
    simulate_with(plan, machine, Options::default())
}

/// The same, with a say in how.
///
/// # Errors
///
/// As [`simulate`].
pub fn simulate_with(plan: &Plan, machine: &Machine, options: Options) -> Result<Outcome, MachineError> {
    let step = Step::new(plan, machine, options)?;
    let ensemble = step.ensemble();
    let ran = run(&ensemble.program);
    let silent = run_in_silence(&ensemble.program);
    let step_time = step_time_of(&ensemble, &ran);
    let timeline = step.stages_timeline(&ensemble, &ran);
    let stages = timeline.stage_use();
    let exposed_communication = (step_time - step_time_of(&ensemble, &silent)).max(Seconds::ZERO);
    Ok(Outcome {
        step_time,
        bubble: step.stages_timeline(&ensemble, &silent).bubble(),
        exposed_communication,
        phases: phases(&timeline, &stages, exposed_communication),
        mfu: mfu(plan, machine, step_time),
        footprint: footprint(plan, machine),
        actors: ensemble.program.actors,
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
    step_time_with(plan, machine, &LayerTable::new(plan, machine)?)
}

/// The same where layers are priced already.
///
/// # Errors
///
/// As [`simulate`].
pub fn step_time_with(plan: &Plan, machine: &Machine, layers: &LayerTable) -> Result<Seconds, MachineError> {
    let costs = Costs::with_layers(plan, machine, layers.clone())?;
    let step = Step::priced(plan, machine, Options::default(), &costs)?;
    let ensemble = step.ensemble();
    let ran = run(&ensemble.program);
    Ok(step_time_of(&ensemble, &ran))
}

/// Returns the timeline of every rank, in the order of ranks.
///
/// # Errors
///
/// As [`simulate`].
pub fn rank_timelines(plan: &Plan, machine: &Machine, options: Options) -> Result<Vec<Timeline>, MachineError> {
    let step = Step::new(plan, machine, options)?;
    let ensemble = step.ensemble();
    let ran = run(&ensemble.program);
    Ok((0..plan.mesh().ranks()).map(|rank| ensemble.timeline(&ran, Rank(rank))).collect())
}

/// Everything that is needed to put a step in time.
pub(crate) struct Step<'a> {
    plan: &'a Plan,
    pub(crate) graph: TaskGraph,
    /// Per task, which of `asks` it does.
    pub(crate) works: Vec<u32>,
    asks: Vec<Asks>,
    pub(crate) fold: Fold,
    pub(crate) stage_of: Vec<StageId>,
    slowdown: f64,
}

impl<'a> Step<'a> {
    fn new(plan: &'a Plan, machine: &'a Machine, options: Options) -> Result<Self, MachineError> {
        Self::priced(plan, machine, options, &Self::costs(plan, machine, options)?)
    }

    /// The costs that such a simulation rests on.
    pub(crate) fn costs(plan: &'a Plan, machine: &'a Machine, options: Options) -> Result<Costs<'a>, MachineError> {
        // Where devices are drawn one by one, the slowest of them is among them.
        let slowest_of = if options.variation.is_some() { 1 } else { plan.mesh().ranks() };
        Costs::on_slowest_of(slowest_of, plan, machine)
    }

    pub(crate) fn priced(
        plan: &'a Plan,
        machine: &'a Machine,
        options: Options,
        costs: &Costs<'a>,
    ) -> Result<Self, MachineError> {
        let graph = lower(plan, machine.lowering());
        let (works, distinct) = distinct_works(&graph);
        let mut communications = Vec::new();
        let mut alone = Vec::with_capacity(distinct.len());
        for (index, work) in (0..).zip(&distinct) {
            let placed = costs.communications(*work)?;
            alone.push(placed.iter().map(|(_, operation)| operation.alone(costs.capacities())).sum::<Seconds>());
            communications.extend(placed.into_iter().map(|(members, operation)| Communication {
                work: index,
                members,
                operation,
            }));
        }
        let mesh = plan.mesh();
        let factors: Vec<f64> = match options.variation {
            None => vec![1.0; mesh.ranks() as usize],
            Some(variation) => variation.factors(mesh.ranks()),
        };
        let fold = if options.unfold {
            unfolded(mesh.ranks(), communications, costs.capacities())
        } else {
            folded(&kinds(plan, machine, &factors), &communications, costs.capacities())
        };
        let stage_of: Vec<StageId> = fold.ranks.iter().map(|rank| StageId(mesh.coordinates(*rank).pipeline)).collect();
        let paces = Paces::new(plan, machine, &fold, &factors);
        let kernels: Vec<Option<Vec<Seconds>>> =
            distinct.iter().map(|work| paces.kernels(costs, &graph, *work)).collect::<Result<_, _>>()?;
        // However things wait for each other and for links, they end before this.
        machine.ends(one_by_one(&works, alone, &kernels) * (1.0 + machine.overlap_slowdown()))?;
        let asks = (0..).zip(kernels).map(|(index, kernels)| match kernels {
            Some(kernels) => Asks::Kernels(kernels.into_iter().map(Span::from_seconds).collect()),
            None => Asks::Communication(index),
        });
        let asks = asks.collect();
        Ok(Self { plan, graph, works, asks, fold, stage_of, slowdown: machine.overlap_slowdown() })
    }

    pub(crate) fn ensemble(&self) -> Ensemble<'_> {
        Ensemble::new(&self.graph, &self.fold, &self.works, &self.asks, &self.stage_of, self.slowdown)
    }

    /// The first rank of each stage.
    pub(crate) fn stages_timeline(&self, ensemble: &Ensemble<'_>, ran: &[Timing]) -> Timeline {
        let firsts: Vec<Rank> = (0..self.plan.mesh().pipeline()).map(|s| self.plan.mesh().first_of_stage(s)).collect();
        ensemble.stages_timeline(ran, &firsts)
    }
}

/// The sum of all times if one thing is done after the other: for each task its work's operations, which take so
/// long alone, and its slowest kernels.
fn one_by_one(works: &[u32], alone: Vec<Seconds>, kernels: &[Option<Vec<Seconds>>]) -> Seconds {
    let longest = |kernels: &Vec<Seconds>| kernels.iter().copied().fold(Seconds::ZERO, Seconds::max);
    let slowest = kernels.iter().map(|kernels| kernels.as_ref().map_or(Seconds::ZERO, longest));
    let each: Vec<Seconds> = alone.into_iter().zip(slowest).map(|(alone, slowest)| alone + slowest).collect();
    works.iter().map(|work| each[*work as usize]).sum()
}

/// Numbers that tell ranks apart before anything communicates: their stage, and what the layers of their tensor group
/// run on.
fn kinds(plan: &Plan, machine: &Machine, factors: &[f64]) -> Vec<u64> {
    let mesh = plan.mesh();
    let stage = |rank| mesh.coordinates(Rank(rank)).pipeline;
    let mut known = BTreeMap::new();
    let layout = Layout { mesh, cluster: &machine.cluster };
    (0..mesh.ranks())
        .map(|rank| {
            let pace = pace(plan, machine, Rank(rank), factors);
            let pace: Vec<(usize, u64)> = pace.into_iter().map(|(pool, factor)| (pool, factor.to_bits())).collect();
            let next = known.len() as u64;
            *known.entry((stage(rank), layout.pool(Rank(rank)), pace)).or_insert(next)
        })
        .collect()
}

/// The kinds of machine that a rank's tensor group stands on, with the largest factor on each.
fn pace(plan: &Plan, machine: &Machine, rank: Rank, factors: &[f64]) -> Vec<(usize, f64)> {
    if !machine.cluster.is_mixed() && factors.iter().all(|factor| factor.to_bits() == 1.0_f64.to_bits()) {
        return vec![(0, 1.0)];
    }
    let layout = Layout { mesh: plan.mesh(), cluster: &machine.cluster };
    let mut slowest: BTreeMap<usize, f64> = BTreeMap::new();
    for member in plan.mesh().group(rank, Group::Tensor) {
        let factor = slowest.entry(layout.pool(member)).or_insert(0.0);
        *factor = factor.max(factors[member.0 as usize]);
    }
    slowest.into_iter().collect()
}

/// For each task the index of its work among those that differ, and these. A stream does the same few things over and
/// over, so what it did last is looked at first.
fn distinct_works(graph: &TaskGraph) -> (Vec<u32>, Vec<Work>) {
    let mut known: BTreeMap<Work, u32> = BTreeMap::new();
    let mut distinct = Vec::new();
    let mut recent: Vec<[Option<u32>; RECENT]> = vec![[None; RECENT]; graph.streams().len()];
    let mut works = Vec::with_capacity(graph.tasks().len());
    for task in graph.tasks() {
        let recent = &mut recent[task.stream.0 as usize];
        let again = recent.iter().flatten().copied().find(|index| distinct[*index as usize] == task.work);
        let index = again.unwrap_or_else(|| {
            let index = *known.entry(task.work).or_insert_with(|| {
                distinct.push(task.work);
                distinct.len() as u32 - 1
            });
            recent.rotate_right(1);
            recent[0] = Some(index);
            index
        });
        works.push(index);
    }
    (works, distinct)
}

/// The kinds of machine that each actor's layers run on, and the speed of its devices: the ranks of a tensor group wait
/// for the slowest of them at every layer.
struct Paces {
    /// Per actor, the kinds of machine of its tensor group with the largest factor on each.
    groups: Vec<Vec<(usize, f64)>>,
}

impl Paces {
    fn new(plan: &Plan, machine: &Machine, fold: &Fold, factors: &[f64]) -> Self {
        Self { groups: fold.ranks.iter().map(|rank| pace(plan, machine, *rank, factors)).collect() }
    }

    /// Time of each actor's kernels of this work; none if it is communication.
    fn kernels(&self, costs: &Costs<'_>, graph: &TaskGraph, work: Work) -> Result<Option<Vec<Seconds>>, MachineError> {
        let mut known: BTreeMap<usize, Seconds> = BTreeMap::new();
        let mut kernels = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let mut slowest = Seconds::ZERO;
            for (pool, factor) in group {
                let seconds = if let Some(seconds) = known.get(pool) {
                    *seconds
                } else {
                    let Some(seconds) = costs.kernels(graph, work, *pool)? else {
                        return Ok(None);
                    };
                    known.insert(*pool, seconds);
                    seconds
                };
                slowest = slowest.max(seconds * *factor);
            }
            kernels.push(slowest);
        }
        Ok(Some(kernels))
    }
}

/// From start to end, or the step that is counted. Steps that follow each other without a pause take no less than the
/// kernels of the busiest device, though what it puts off to the next step may not show in the one that is counted.
pub(crate) fn step_time_of(ensemble: &Ensemble<'_>, ran: &[Timing]) -> Seconds {
    match ensemble.window(ran) {
        Some((start, end)) => end.since(start).seconds().max(ensemble.busiest()),
        None => ran.iter().map(|ran| ran.end).max().unwrap_or(Instant::START).seconds(),
    }
}

/// Where the step goes on the stage that computes longest. What is left is moving bytes, as far as the step would be
/// shorter without, and waiting.
fn phases(timeline: &Timeline, stages: &[StageUse], exposed: Seconds) -> Phases {
    let busiest = stages.iter().max_by(|a, b| a.busy.0.total_cmp(&b.busy.0)).map(|used| used.stage);
    let sum = |wanted: fn(&Activity) -> bool| -> f64 {
        timeline
            .intervals
            .iter()
            .filter(|interval| Some(interval.stream) == busiest.map(StreamKind::Compute) && wanted(&interval.activity))
            .map(|interval| timeline.counted(interval))
            .sum::<Span>()
            .seconds()
            .0
    };
    let forward_s = sum(|activity| matches!(activity, Activity::Forward { .. }));
    let backward_s = sum(|activity| matches!(activity, Activity::Backward { .. } | Activity::BackwardWeights { .. }));
    let optimizer_s = sum(|activity| matches!(activity, Activity::Update { .. }));
    let rest = (timeline.step_time().0 - forward_s - backward_s - optimizer_s).max(0.0);
    let communication_s = exposed.0.min(rest);
    Phases { forward_s, backward_s, communication_s, wait_s: rest - communication_s, optimizer_s, other_s: 0.0 }
}

fn mfu(plan: &Plan, machine: &Machine, step_time: Seconds) -> Option<f64> {
    let mesh = plan.mesh();
    let mut peak = 0.0;
    for rank in 0..mesh.ranks() {
        let pool = Layout { mesh, cluster: &machine.cluster }.pool(Rank(rank));
        peak += device_costs(&machine.cluster.pools[pool].device).peaks(plan.precision())?.arithmetic.0;
    }
    let needed = plan.graph().training_flops().0 * plan.batch().global as f64;
    Some(needed / (peak * step_time.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;
    use trainyard_models::find;
    use trainyard_plan::{ClusterSpec, PlanSpec};

    fn plan(instances: u32) -> Plan {
        let model = &find("mnist-mlp").expect("in the catalog").model;
        let cluster = ClusterSpec::of("p3.16xlarge", instances);
        Plan::try_from(PlanSpec::plain(model.spec(), cluster, model.graph().len())).expect("a valid plan")
    }

    #[test]
    fn machines_that_no_rank_is_on_take_memory_too() {
        let needed = |instances| memory_needed(&plan(instances), Options::default()).0;
        assert!(needed(1) < 1 << 20 && needed(1 << 20) > 1 << 30, "{} {}", needed(1), needed(1 << 20));
    }

    #[test]
    fn what_outlasts_simulated_time_is_refused() {
        let cluster = catalog().cluster("p3.16xlarge", 1).expect("in the catalog");
        let mut machine = Machine { cluster, stack: catalog().stack("pytorch").expect("in the catalog").clone() };
        assert!(simulate(&plan(1), &machine).is_ok());
        for slowdown in [1e30, f64::INFINITY, f64::NAN] {
            machine.stack.overlap_slowdown.value = slowdown;
            let error = simulate(&plan(1), &machine).expect_err("too long");
            assert!(matches!(error, MachineError::Endless { .. }) && error.hint().is_some(), "{error}");
        }
    }
}
