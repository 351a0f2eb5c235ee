//! From the work of a stage's rank to the nodes of all actors: each actor runs its stage's tasks, and communications
//! join the actors that take part in them.

use crate::cost::Operation;
use crate::engine::{CommProgram, Node, Program, Stretch, Timing};
use crate::fold::Fold;
use crate::network::Demand;
use crate::recurrence::{Chain, Course};
use crate::stretches::Stretches;
use trainyard_plan::{
    Activity, Counted, Interval, Rank, Repetition, StageId, StreamKind, TaskGraph, TaskId, Usage, Work, counted,
};
use trainyard_units::{Instant, Seconds, Span};

const NOBODY: u32 = u32::MAX;

/// The kernels or operations of a piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Asks {
    /// Kernels: per actor, how long.
    Kernels(Vec<Span>),
    /// A communication, by its index among the distinct works.
    Communication(u32),
}

/// The tasks of a step on all actors.
pub(crate) struct Ensemble<'a> {
    graph: &'a TaskGraph,
    fold: &'a Fold,
    /// Per distinct work that communicates and actor, which communication of the fold it takes part in.
    joins: Vec<Vec<u32>>,
    /// Per task, its first node.
    first: Vec<u32>,
    /// Per task, which distinct work it does.
    works: &'a [u32],
    asks: &'a [Asks],
    /// Actors by stage.
    actors: Vec<Vec<u32>>,
    /// Per actor, its place among those of its stage.
    places: Vec<u32>,
    stage_of: &'a [StageId],
    /// Per distinct work that communicates, its communications in the fold.
    communications: Vec<Vec<u32>>,
    pub(crate) program: Program,
}

impl<'a> Ensemble<'a> {
    /// `works` tells for each task which of `asks` it does; `stage_of` each actor's stage.
    pub(crate) fn new(
        graph: &'a TaskGraph,
        fold: &'a Fold,
        works: &'a [u32],
        asks: &'a [Asks],
        stage_of: &'a [StageId],
        slowdown: f64,
    ) -> Self {
        let stages = stage_of.iter().map(|stage| stage.0 as usize + 1).max().unwrap_or(0);
        let mut actors = vec![Vec::new(); stages];
        let mut places = Vec::with_capacity(stage_of.len());
        for (actor, stage) in (0..).zip(stage_of) {
            let here = &mut actors[stage.0 as usize];
            places.push(here.len() as u32);
            here.push(actor);
        }
        let mut joins = vec![Vec::new(); asks.len()];
        let mut communications = vec![Vec::new(); asks.len()];
        for (index, communication) in (0..).zip(&fold.communications) {
            let work = communication.work as usize;
            let of_work: &mut Vec<u32> = &mut joins[work];
            of_work.resize(stage_of.len(), NOBODY);
            for actor in &communication.actors {
                of_work[*actor as usize] = communications[work].len() as u32;
            }
            communications[work].push(index);
        }
        let mut exchanges = vec![false; asks.len()];
        for (task, work) in graph.tasks().iter().zip(works) {
            exchanges[*work as usize] = matches!(task.work, Work::Exchange(_) | Work::ReduceShared { .. });
        }
        let program = Program {
            operations: fold
                .communications
                .iter()
                .map(|c| operating(&c.operation, &c.actors, exchanges[c.work as usize]))
                .collect(),
            links: fold.links.clone(),
            actors: stage_of.len() as u32,
            slowdown,
            ..Program::default()
        };
        let mut ensemble = Self {
            graph,
            fold,
            joins,
            first: Vec::new(),
            works,
            asks,
            actors,
            places,
            stage_of,
            communications,
            program,
        };
        ensemble.add_nodes();
        ensemble.add_edges();
        ensemble
    }

    fn stage(&self, task: u32) -> StageId {
        self.graph.streams()[self.graph.tasks()[task as usize].stream.0 as usize].stage()
    }

    fn add_nodes(&mut self) {
        for task in 0..self.graph.tasks().len() as u32 {
            self.first.push(self.program.nodes.len() as u32);
            match &self.asks[self.works[task as usize] as usize] {
                Asks::Kernels(spans) => {
                    let actors = &self.actors[self.stage(task).0 as usize];
                    let nodes = actors.iter().map(|actor| Node::Kernel { actor: *actor, span: spans[*actor as usize] });
                    self.program.nodes.extend(nodes);
                }
                Asks::Communication(work) => {
                    let nodes = self.communications[*work as usize].iter().map(|index| Node::Operation(*index));
                    self.program.nodes.extend(nodes);
                }
            }
        }
    }

    /// The node in which an actor does a task; nothing if it takes no part in it.
    pub(crate) fn node(&self, task: u32, actor: u32) -> Option<u32> {
        let place = match &self.asks[self.works[task as usize] as usize] {
            Asks::Kernels(_) => {
                let here = self.stage_of.get(actor as usize) == Some(&self.stage(task));
                if here { self.places[actor as usize] } else { NOBODY }
            }
            Asks::Communication(work) => self.joins[*work as usize].get(actor as usize).copied().unwrap_or(NOBODY),
        };
        (place != NOBODY).then(|| self.first[task as usize] + place)
    }

    /// Streams are in order, and tasks wait for what they depend on, each actor for its own.
    fn add_edges(&mut self) {
        let actors = self.program.actors as usize;
        let mut last: Vec<Vec<u32>> = vec![Vec::new(); self.graph.streams().len()];
        let mut edges = Vec::new();
        for task in 0..self.graph.tasks().len() as u32 {
            let stream = self.graph.tasks()[task as usize].stream.0 as usize;
            if last[stream].is_empty() {
                last[stream] = vec![NOBODY; self.actors[self.stage(task).0 as usize].len()];
            }
            for actor in self.actors[self.stage(task).0 as usize].iter().copied() {
                let Some(node) = self.node(task, actor) else { continue };
                let before = &mut last[stream][self.places[actor as usize] as usize];
                if *before != NOBODY {
                    edges.push((*before, node));
                }
                *before = node;
            }
            for dependency in self.graph.dependencies(TaskId(task)) {
                self.add_dependency(dependency.0, task, actors, &mut edges);
            }
        }
        self.program.edges = edges;
    }

    fn add_dependency(&self, before: u32, task: u32, actors: usize, edges: &mut Vec<(u32, u32)>) {
        let start = edges.len();
        let mut connect = |actor: u32| {
            if let (Some(before), Some(after)) = (self.node(before, actor), self.node(task, actor)) {
                edges.push((before, after));
            }
        };
        // Whoever takes part in a task that waits is of the stage of one of the two.
        let stages = [self.stage(before), self.stage(task)];
        self.actors[stages[0].0 as usize].iter().copied().for_each(&mut connect);
        if stages[0] != stages[1] {
            self.actors[stages[1].0 as usize].iter().copied().for_each(&mut connect);
        }
        debug_assert!(edges.len() > start || actors == 0, "somebody who does a task has done what it waits for");
    }

    /// What each actor does on each stream, in order; `repetitions` are those of each stream, for each step.
    pub(crate) fn chains(&self, repetitions: &[Vec<Repetition>]) -> Vec<Chain> {
        let tasks_of = self.tasks_by_stream();
        let mut chains = Vec::new();
        for (stream, tasks) in tasks_of.iter().enumerate() {
            let stage = self.graph.streams()[stream].stage();
            for actor in self.actors[stage.0 as usize].iter().copied() {
                let nodes: Vec<Option<u32>> = tasks.iter().map(|task| self.node(*task, actor)).collect();
                // An actor has no part in some tasks of its stage's streams.
                let own = |place: u32| nodes[..place as usize].iter().flatten().count() as u32;
                let of_actor = |step: &Vec<Repetition>| {
                    let Repetition { from, each, to } = step[stream];
                    Repetition { from: own(from), each: own(from + each) - own(from), to: own(to) }
                };
                let repetitions = repetitions.iter().map(of_actor).collect();
                chains.push(Chain { nodes: nodes.into_iter().flatten().collect(), repetitions });
            }
        }
        chains
    }

    fn tasks_by_stream(&self) -> Vec<Vec<u32>> {
        let mut tasks = vec![Vec::new(); self.graph.streams().len()];
        for (index, task) in (0..).zip(self.graph.tasks()) {
            tasks[task.stream.0 as usize].push(index);
        }
        tasks
    }

    /// Each task of some ranks, each of another stage, with the node in which its rank does it: one stream after another,
    /// each in the order of its work.
    fn done_by(&self, ranks: &[Rank]) -> impl Iterator<Item = (u32, u32)> {
        let mut actor_at = vec![NOBODY; self.actors.len()];
        for rank in ranks {
            let actor = self.fold.actor_of[rank.0 as usize];
            actor_at[self.stage_of[actor as usize].0 as usize] = actor;
        }
        let mut streams: Vec<(StreamKind, Vec<u32>)> =
            self.graph.streams().iter().copied().zip(self.tasks_by_stream()).collect();
        streams.sort_unstable_by_key(|(stream, _)| *stream);
        streams.into_iter().flat_map(|(_, tasks)| tasks).filter_map(move |task| {
            let actor = actor_at[self.stage(task).0 as usize];
            Some((task, self.node(task, actor)?))
        })
    }

    /// The timeline of some ranks, each of another stage.
    pub(crate) fn timeline(&self, course: &Course, ranks: &[Rank]) -> Stretches {
        let intervals = self.done_by(ranks).map(|(task, node)| {
            let (first, again) = course.first(node);
            let Interval { activity, stream, start, end } = self.interval(task, first);
            let activity = activity.later(course.left_out_before(node));
            ((stream, course.place(node)), Interval { activity, stream, start, end }, again)
        });
        Stretches::new(self.window(course), intervals)
    }

    fn interval(&self, task: u32, ran: Timing) -> Interval {
        let task = &self.graph.tasks()[task as usize];
        let stream = self.graph.streams()[task.stream.0 as usize];
        Interval { activity: task.activity, stream, start: ran.start, end: ran.end }
    }

    /// The same summed up, whether or not the step is laid out in full.
    pub(crate) fn usage(&self, course: &Course, ranks: &[Rank]) -> Usage {
        let window = self.window(course);
        let counted = self.done_by(ranks).map(|(task, node)| {
            let (first, again) = course.first(node);
            let first = self.interval(task, first);
            let time = match window {
                None => counted(None, &first) * (1 + u64::from(again.times)),
                Some(_) => course.all(node).map(|ran| counted(window, &self.interval(task, ran))).sum(),
            };
            let Interval { activity, stream, start, .. } = first;
            Counted { activity, stream, start, end: course.last(node).end, time }
        });
        Usage { counted: counted.collect(), window }
    }

    /// Kernels of the busiest actor in one of the steps.
    pub(crate) fn busiest(&self, course: &Course) -> Seconds {
        let mut busy = vec![Span::ZERO; self.program.actors as usize];
        for (index, node) in (0..).zip(&self.program.nodes) {
            if let Node::Kernel { actor, span } = node {
                let busy = &mut busy[*actor as usize];
                *busy = *busy + *span * (1 + u64::from(course.first(index).1.times));
            }
        }
        let steps = self.graph.step_ends().len().max(1) as f64;
        busy.into_iter().max().unwrap_or_default().seconds() * (1.0 / steps)
    }

    /// Where steps follow each other without draining the pipeline: from the end of the first to that of the second.
    pub(crate) fn window(&self, course: &Course) -> Option<(Instant, Instant)> {
        let (from, to) = self.counted_ends()?;
        Some((course.last(from).end, course.last(to).end))
    }

    /// The nodes that end the step before the one that is counted, and the latter.
    fn counted_ends(&self) -> Option<(u32, u32)> {
        let [from, to, ..] = self.graph.step_ends() else { return None };
        let actor = self.actors[0][0];
        Some((self.node(from.0, actor)?, self.node(to.0, actor)?))
    }

    /// When the step that is counted begins, and the node with which it ends: of several the first.
    pub(crate) fn last_node(&self, course: &Course) -> Option<(Instant, u32)> {
        if let Some((from, to)) = self.counted_ends() {
            return Some((course.last(from).end, to));
        }
        let latest = course.end()?;
        let node = (0..self.program.nodes.len() as u32).find(|node| course.last(*node).end == latest)?;
        Some((Instant::START, node))
    }

    /// The actor of a node that copies between its device and its machine; nothing for other nodes.
    pub(crate) fn copier(&self, node: u32) -> Option<u32> {
        let task = self.task_of(node);
        let Activity::Copy { .. } = self.graph.tasks()[task.0 as usize].activity else { return None };
        let here = &self.actors[self.stage(task.0).0 as usize];
        here.iter().copied().find(|actor| self.node(task.0, *actor) == Some(node))
    }

    /// The task that a node is part of.
    pub(crate) fn task_of(&self, node: u32) -> TaskId {
        TaskId(self.first.partition_point(|first| *first <= node) as u32 - 1)
    }
}

/// The program of an operation; only collectives slow the kernels of their actors.
fn operating(operation: &Operation, actors: &[u32], exchanges: bool) -> CommProgram {
    let stretches = operation
        .phases
        .iter()
        .map(|phase| Stretch {
            latency: Span::from_seconds(phase.latency),
            volume: phase.volume,
            demand: Demand { limit: phase.limit, uses: phase.uses.clone() },
        })
        .collect();
    CommProgram { stretches, slows: if exchanges { actors.to_vec() } else { Vec::new() } }
}
