//! Everything that is needed to put a step in time: its work, what that costs, and who does it.

use crate::cost::Costs;
use crate::ensemble::{Asks, Ensemble};
use crate::fold::{Communication, Fold, folded, unfolded};
use crate::layout::Layout;
use crate::machine::{Machine, MachineError};
use crate::variation::Variation;
use std::collections::BTreeMap;
use trainyard_plan::{Group, Plan, Rank, StageId, TaskGraph, TaskId, Work, lower};
use trainyard_units::{Seconds, Span};

/// Different works of a stream that are remembered: its passes forward and backward.
const RECENT: usize = 4;

/// Options of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Every rank by itself, instead of one for all that must behave alike.
    pub unfold: bool,
    /// Devices of different speed.
    pub variation: Option<Variation>,
    /// Every micro-batch by itself, instead of telling a step from its repetition.
    pub in_full: bool,
}

/// The tasks of a step, or of a shorter one that stands for it.
pub(crate) struct Laid {
    pub(crate) graph: TaskGraph,
    /// The tasks that the step has more often, and how much.
    pub(crate) again: Vec<TaskId>,
    pub(crate) more: u32,
}

impl Laid {
    pub(crate) fn in_full(plan: &Plan, machine: &Machine) -> Self {
        Self { graph: lower(plan, machine.lowering()), again: Vec::new(), more: 0 }
    }
}

/// Everything that is needed to put a step in time.
pub(crate) struct Step<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) graph: TaskGraph,
    /// Per task, which of `asks` it does.
    pub(crate) works: Vec<u32>,
    asks: Vec<Asks>,
    pub(crate) fold: Fold,
    pub(crate) stage_of: Vec<StageId>,
    slowdown: f64,
}

impl<'a> Step<'a> {
    /// The costs that such a simulation rests on.
    pub(crate) fn costs(plan: &'a Plan, machine: &'a Machine, options: Options) -> Result<Costs<'a>, MachineError> {
        // Where devices are drawn one by one, the slowest of them is among them.
        let slowest_of = if options.variation.is_some() { 1 } else { plan.mesh().ranks() };
        Costs::on_slowest_of(slowest_of, plan, machine)
    }

    /// The step with all its tasks.
    pub(crate) fn in_full(
        plan: &'a Plan,
        machine: &'a Machine,
        options: Options,
        costs: &Costs<'a>,
    ) -> Result<Self, MachineError> {
        Self::of(Laid::in_full(plan, machine), (plan, machine), options, costs)
    }

    pub(crate) fn of(
        Laid { graph, again, more }: Laid,
        (plan, machine): (&'a Plan, &'a Machine),
        options: Options,
        costs: &Costs<'a>,
    ) -> Result<Self, MachineError> {
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
        let factors = options.variation.map(|variation| variation.factors(mesh.ranks()));
        let factors = factors.as_deref();
        let fold = if options.unfold {
            unfolded(mesh.ranks(), communications, costs.capacities())
        } else {
            folded(&kinds(plan, machine, factors), &communications, costs.capacities())
        };
        let stage_of: Vec<StageId> = fold.ranks.iter().map(|rank| StageId(mesh.coordinates(*rank).pipeline)).collect();
        let paces = Paces::new(plan, machine, &fold, factors);
        let kernels: Vec<Option<Vec<Seconds>>> =
            distinct.iter().map(|work| paces.kernels(costs, &graph, *work)).collect::<Result<_, _>>()?;
        // However things wait for each other and for links, they end before this.
        let each = each_by_itself(alone, &kernels);
        let sum = |tasks: &mut dyn Iterator<Item = u32>| tasks.map(|work| each[work as usize]).sum::<Seconds>();
        let again = sum(&mut again.into_iter().map(|task| works[task.0 as usize])) * f64::from(more);
        machine.ends((sum(&mut works.iter().copied()) + again) * (1.0 + machine.overlap_slowdown()))?;
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
    pub(crate) fn first_ranks(&self) -> Vec<Rank> {
        (0..self.plan.mesh().pipeline()).map(|stage| self.plan.mesh().first_of_stage(stage)).collect()
    }
}

/// The time of each work if nothing else is done meanwhile: its operations, which take so long alone, and its slowest
/// kernels.
fn each_by_itself(alone: Vec<Seconds>, kernels: &[Option<Vec<Seconds>>]) -> Vec<Seconds> {
    let longest = |kernels: &Vec<Seconds>| kernels.iter().copied().fold(Seconds::ZERO, Seconds::max);
    let slowest = kernels.iter().map(|kernels| kernels.as_ref().map_or(Seconds::ZERO, longest));
    alone.into_iter().zip(slowest).map(|(alone, slowest)| alone + slowest).collect()
}

/// Numbers that tell ranks apart before anything communicates: their stage, and what the layers of their tensor group
/// run on. `factors` are those of all devices, where they differ.
fn kinds(plan: &Plan, machine: &Machine, factors: Option<&[f64]>) -> Vec<u64> {
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
fn pace(plan: &Plan, machine: &Machine, rank: Rank, factors: Option<&[f64]>) -> Vec<(usize, f64)> {
    if !machine.cluster.is_mixed() && factors.is_none() {
        return vec![(0, 1.0)];
    }
    let layout = Layout { mesh: plan.mesh(), cluster: &machine.cluster };
    let mut slowest: BTreeMap<usize, f64> = BTreeMap::new();
    for member in plan.mesh().group(rank, Group::Tensor) {
        let factor = slowest.entry(layout.pool(member)).or_insert(0.0);
        *factor = factor.max(factors.map_or(1.0, |factors| factors[member.0 as usize]));
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
    fn new(plan: &Plan, machine: &Machine, fold: &Fold, factors: Option<&[f64]>) -> Self {
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
