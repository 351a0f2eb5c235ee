//! The critical path of a step: what it could not have done without, from its end back to its start.
//!
//! A node of the engine starts at the very instant at which the last of those it waits for ends, on its own stream or
//! on another. So the walk back from the last node to end never crosses a gap, and the parts of the path add up to the
//! step time. Where several ended at that instant the path goes over kernels first: communication that ends together
//! with them costs nothing. Copies between a device and its machine that go on without a pause can be the longest path by
//! a hair while the device computes all along; while it does, their time is told as its kernels', and as theirs where
//! nothing hides them, as in exposed communication.
//!
//! In a pipeline the path changes between stages, and it holds more passes than any one stage does: with p equal stages
//! and m micro-batches m + p − 1 of each. What it holds beyond those of the stage that computes longest is the filling
//! and draining of the pipeline, its bubble.

mod kernels;

use crate::cost::Costs;
use crate::engine::{Node, Program, Timing, run};
use crate::ensemble::Ensemble;
use crate::layout::Layout;
use crate::machine::{Machine, MachineError};
use crate::recurrence::Course;
use crate::step::{Options, Step};
use kernels::Kernels;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_plan::{Group, PathKind, PathPart, Plan, Rank, StageId, Usage, Work};
use trainyard_units::{Instant, Span};

/// The groups of a plan's ranks that stand on several machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a kind of group that a plan may have")]
pub struct Spread {
    /// Ranks that share a layer.
    pub tensor: bool,
    /// Ranks that share a sample.
    pub context: bool,
    /// Ranks that share experts or tables.
    pub expert: bool,
    /// Neighbouring stages.
    pub pipeline: bool,
    /// Ranks that sum gradients.
    pub gradient: bool,
}

/// Returns the groups of the ranks of `plan` that stand on several machines.
pub fn spread(plan: &Plan, machine: &Machine) -> Spread {
    let mesh = plan.mesh();
    let layout = Layout { mesh, cluster: &machine.cluster };
    let any = |group| {
        (0..mesh.pipeline()).any(|stage| layout.groups(stage, group).iter().any(|g| apart(layout, g.iter().copied())))
    };
    let neighbours = |stage: u32| layout.pairs(stage - 1, stage).iter().any(|pair| apart(layout, pair.iter().copied()));
    Spread {
        tensor: any(Group::Tensor),
        context: any(Group::Context),
        expert: any(Group::Expert),
        pipeline: (1..mesh.pipeline()).any(neighbours),
        gradient: any(Group::Gradient),
    }
}

/// Tells whether the ranks of `plan` stand on several machines.
pub fn on_several_machines(plan: &Plan, machine: &Machine) -> bool {
    let mesh = plan.mesh();
    apart(Layout { mesh, cluster: &machine.cluster }, (0..mesh.ranks()).map(Rank))
}

/// Tells whether ranks stand on several machines.
fn apart(layout: Layout<'_>, ranks: impl IntoIterator<Item = Rank>) -> bool {
    let mut machines = ranks.into_iter().map(|rank| layout.position(rank).instance);
    let first = machines.next();
    machines.any(|machine| Some(machine) != first)
}

/// The critical path of one step of `plan` on `machine` by what it is spent on, in the order of [`PathKind`]: together
/// the step time of [`crate::simulate()`]. What takes no time is left out.
///
/// # Errors
///
/// As [`crate::simulate()`].
pub fn critical_path(plan: &Plan, machine: &Machine) -> Result<Vec<PathPart>, MachineError> {
    let ranks = plan.mesh().ranks();
    let costs = Costs::on_slowest_of(ranks, plan, machine)?;
    let mut quick = machine.clone();
    Arc::make_mut(&mut quick.stack).launch.value = trainyard_units::Seconds::ZERO;
    let without_launches = Costs::on_slowest_of(ranks, plan, &quick)?;
    let step = Step::in_full(plan, machine, Options::default(), &costs)?;
    let ensemble = step.ensemble();
    let ran = run(&ensemble.program);
    let course = Course::from(ran.clone());
    let Some((from, last)) = ensemble.last_node(&course) else { return Ok(Vec::new()) };
    let kernels = Kernels::new(&step.graph, machine, &costs, &without_launches, spread(plan, machine));
    let mut account = Account {
        step: &step,
        ensemble: &ensemble,
        kernels,
        layout: costs.layout(),
        links: Links { costs: &costs, known: BTreeMap::new() },
        passes: BTreeMap::new(),
        rest: BTreeMap::new(),
    };
    let beside = Beside::new(&ensemble.program, &ran);
    for hop in walk(&ensemble.program, &ran, last, from) {
        let copier = ensemble.copier(hop.node);
        for part in copier.map_or_else(|| vec![hop], |actor| beside.told(hop, actor, &ran)) {
            account.add(part, ran[part.node as usize])?;
        }
    }
    let busiest = longest_passes(&ensemble.usage(&course, &step.first_ranks()));
    Ok(account.parts(if plan.mesh().pipeline() > 1 { Some(busiest) } else { None }))
}

/// A node of the path, and how much of it lies in the step that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hop {
    node: u32,
    counted: Span,
}

/// From `last` back to `from`, latest first.
fn walk(program: &Program, ran: &[Timing], last: u32, from: Instant) -> Vec<Hop> {
    let before = Before::new(program);
    let mut path = Vec::new();
    let mut node = last;
    loop {
        let Timing { start, end } = ran[node as usize];
        if end > from {
            path.push(Hop { node, counted: end.since(start.max(from)) });
        }
        if start <= from {
            return path;
        }
        let communicates = |node: &u32| matches!(program.nodes[*node as usize], Node::Operation(_));
        let waited_for = before.of(node).iter().filter(|before| ran[**before as usize].end == start);
        node = *waited_for
            .min_by_key(|before| (communicates(before), **before))
            .expect("what starts later than the step has waited for something that ended then");
    }
}

/// The kernels of each actor in the order in which they ran.
struct Beside(Vec<Vec<u32>>);

impl Beside {
    fn new(program: &Program, ran: &[Timing]) -> Self {
        let mut kernels = vec![Vec::new(); program.actors as usize];
        for (node, own) in (0..).zip(&program.nodes) {
            if let Node::Kernel { actor, .. } = own {
                kernels[*actor as usize].push(node);
            }
        }
        for own in &mut kernels {
            own.sort_by_key(|node| ran[*node as usize].start);
        }
        Self(kernels)
    }

    /// A copy of an actor's as the kernels that the actor runs meanwhile, and what is left of it.
    fn told(&self, copy: Hop, actor: u32, ran: &[Timing]) -> Vec<Hop> {
        let Timing { end, .. } = ran[copy.node as usize];
        let (kernels, mut hidden, mut parts) = (&self.0[actor as usize], Span::ZERO, Vec::new());
        let mut from = Instant::from_nanoseconds(end.nanoseconds() - copy.counted.nanoseconds());
        let first = kernels.partition_point(|node| ran[*node as usize].end <= from);
        for node in &kernels[first..] {
            let kernel = ran[*node as usize];
            if kernel.start >= end {
                break;
            }
            let (start, until) = (kernel.start.max(from), kernel.end.min(end));
            if until > start {
                parts.push(Hop { node: *node, counted: until.since(start) });
                hidden = hidden + until.since(start);
                from = until;
            }
        }
        let left = copy.counted.nanoseconds() - hidden.nanoseconds();
        parts.push(Hop { counted: Span::from_nanoseconds(left), ..copy });
        parts
    }
}

/// For each node those it waits for, in compressed rows.
struct Before {
    nodes: Vec<u32>,
    offsets: Vec<u32>,
}

impl Before {
    fn new(program: &Program) -> Self {
        let mut offsets = vec![0; program.nodes.len() + 1];
        for (_, after) in &program.edges {
            offsets[*after as usize + 1] += 1;
        }
        for index in 1..offsets.len() {
            offsets[index] += offsets[index - 1];
        }
        let mut fill = offsets.clone();
        let mut nodes = vec![0; program.edges.len()];
        for (before, after) in &program.edges {
            let slot = &mut fill[*after as usize];
            nodes[*slot as usize] = *before;
            *slot += 1;
        }
        Self { nodes, offsets }
    }

    fn of(&self, node: u32) -> &[u32] {
        &self.nodes[self.offsets[node as usize] as usize..self.offsets[node as usize + 1] as usize]
    }
}

/// Seconds in passes of the stage that spends most in them, within the step that is counted.
fn longest_passes(usage: &Usage) -> f64 {
    let mut stages: BTreeMap<StageId, Span> = BTreeMap::new();
    for counted in usage.counted.iter().filter(|counted| counted.activity.is_pass()) {
        let sum = stages.entry(counted.stream.stage()).or_insert(Span::ZERO);
        *sum = *sum + counted.time;
    }
    stages.into_values().max().unwrap_or(Span::ZERO).seconds().0
}

/// The communications that go between machines.
struct Links<'a> {
    costs: &'a Costs<'a>,
    known: BTreeMap<Work, bool>,
}

impl Links<'_> {
    fn apart(&mut self, work: Work) -> Result<bool, MachineError> {
        if let Some(known) = self.known.get(&work) {
            return Ok(*known);
        }
        let layout = self.costs.layout();
        let any = self.costs.communications(work)?.iter().any(|(members, _)| apart(layout, members.iter().copied()));
        self.known.insert(work, any);
        Ok(any)
    }
}

/// Seconds by kind, and whether they go between machines.
type Sums = BTreeMap<(PathKind, bool), f64>;

/// Time of the path so far, by what it is spent on.
struct Account<'a> {
    step: &'a Step<'a>,
    ensemble: &'a Ensemble<'a>,
    kernels: Kernels<'a>,
    layout: Layout<'a>,
    links: Links<'a>,
    /// Of passes, which fill and drain the pipeline too.
    passes: Sums,
    /// Of everything else.
    rest: Sums,
}

impl Account<'_> {
    fn add(&mut self, hop: Hop, ran: Timing) -> Result<(), MachineError> {
        let task = &self.step.graph.tasks()[self.ensemble.task_of(hop.node).0 as usize];
        let counted = hop.counted.seconds().0;
        match &self.ensemble.program.nodes[hop.node as usize] {
            Node::Operation(_) => {
                let apart = self.links.apart(task.work)?;
                *self.rest.entry((kernels::kind_of_communication(task.activity), apart)).or_default() += counted;
            }
            Node::Kernel { actor, span } => {
                let rank = self.step.fold.ranks[*actor as usize];
                let parts = self.kernels.parts(task.work, self.layout.pool(rank))?;
                let planned: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
                let whole = ran.end.since(ran.start).seconds().0;
                // Of a pass that began before the step that is counted, the part within it.
                let within = if whole > 0.0 { counted / whole } else { 0.0 };
                let slowed = (whole - span.seconds().0).max(0.0);
                let sums = if task.activity.is_pass() { &mut self.passes } else { &mut self.rest };
                for (key, seconds) in parts {
                    let share = if planned > 0.0 { seconds / planned } else { 0.0 };
                    *sums.entry(key).or_default() += share * (whole - slowed) * within;
                }
                *sums.entry((PathKind::OverlapSlowdown, false)).or_default() += slowed * within;
            }
        }
        Ok(())
    }

    /// The parts in order. Of a pipeline it is known how long its busiest stage is in passes; what the path has beyond
    /// that is the bubble.
    fn parts(self, busiest: Option<f64>) -> Vec<PathPart> {
        let on_path: f64 = self.passes.values().sum();
        let bubble = busiest.map_or(0.0, |busiest| (on_path - busiest).max(0.0));
        let kept = if on_path > 0.0 { 1.0 - bubble / on_path } else { 1.0 };
        let mut sums = self.rest;
        for (key, seconds) in self.passes {
            *sums.entry(key).or_default() += seconds * kept;
        }
        *sums.entry((PathKind::FillAndDrain, false)).or_default() += bubble;
        let told = sums.into_iter().filter(|(_, time_s)| *time_s > 0.0);
        told.map(|((kind, between_machines), time_s)| PathPart { kind, between_machines, time_s }).collect()
    }
}

#[cfg(test)]
mod tests;
