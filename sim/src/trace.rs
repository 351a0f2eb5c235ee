//! A simulated step in detail: what every task consists of, and what it waited for.
//!
//! The engine puts whole passes in time. Here a pass is laid out as its layers and their operators, in the order in
//! which they are computed: each takes the share of the layer's price that its own cost has, and what is sent inside a
//! layer stands evenly between its operators. So the parts of a pass take as long as the pass, but where in it a
//! collective stands is a picture, not a result.

use crate::cost::{Costs, Inside, InsideMessage, LayerCost, OperatorCost};
use crate::engine::{Timing, run};
use crate::ensemble::Ensemble;
use crate::machine::{Machine, MachineError};
use crate::recurrence::Course;
use crate::simulate::step_time_of;
use crate::step::{Options, Step};
use std::borrow::Cow;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::Device;
use trainyard_plan::operators::Pass;
use trainyard_plan::{
    Between, Direction, Message, Plan, Rank, RankTrace, Recompute, Seat, Segment, StagePass, StepTrace, TaskGraph,
    TaskId, TraceDetail, TracedKernels, TracedPart, TracedTask, TracedWork, Work,
};
use trainyard_units::{Bytes, Seconds};

/// Kernels and messages that are told apart before layers, or passes, are taken together. A trace of as many is some
/// hundreds of megabytes of text.
const TRACED_MAX: usize = 400_000;

/// One step of `plan` on `machine` in detail, on every rank that is simulated: with kernels and messages apart unless they
/// are too many for a file, and not finer than whole passes where even these are more.
///
/// # Errors
///
/// As [`crate::simulate()`].
pub fn step_trace(plan: &Plan, machine: &Machine, options: Options) -> Result<StepTrace, MachineError> {
    let costs = Step::costs(plan, machine, options)?;
    let step = Step::in_full(plan, machine, options, &costs)?;
    let ensemble = step.ensemble();
    let ran = run(&ensemble.program);
    let inside = Inside::new(plan.batch().micro, plan.mesh(), plan.precision(), machine);
    let mut works = Works { plan, graph: &step.graph, costs: &costs, inside, known: BTreeMap::new(), parts: vec![] };
    let course = Course::from(ran);
    let traced = Traced { step: &step, ensemble: &ensemble, course: &course };
    let mut ranks = Vec::new();
    for (actor, first) in (0..).zip(&step.fold.ranks) {
        ranks.push(traced.rank(actor, *first, &mut works)?);
    }
    ranks.sort_by_key(|rank: &RankTrace| rank.rank);
    let trace = StepTrace {
        step_time: step_time_of(&ensemble, &course),
        window: ensemble.window(&course),
        launch: machine.launch(),
        detail: TraceDetail::Operators,
        works: works.parts,
        ranks,
    };
    let trace = if trace.len() > TRACED_MAX { trace.coarser(TraceDetail::Layers) } else { trace };
    Ok(if trace.len() > TRACED_MAX { trace.coarser(TraceDetail::Passes) } else { trace })
}

/// A step that was put in time.
struct Traced<'a> {
    step: &'a Step<'a>,
    ensemble: &'a Ensemble<'a>,
    course: &'a Course,
}

impl Traced<'_> {
    fn rank(&self, actor: u32, rank: Rank, works: &mut Works<'_>) -> Result<RankTrace, MachineError> {
        let stage = self.step.stage_of[actor as usize];
        let graph = &self.step.graph;
        let layout = works.costs.layout();
        let pool = layout.pool(rank);
        let mut places: Vec<Option<u32>> = vec![None; graph.tasks().len()];
        let mut last: Vec<Option<u32>> = vec![None; graph.streams().len()];
        let mut tasks = Vec::new();
        for (index, task) in (0..).zip(graph.tasks()) {
            let Some(node) = self.ensemble.node(index, actor) else { continue };
            let place = tasks.len() as u32;
            places[index as usize] = Some(place);
            let stream = graph.streams()[task.stream.0 as usize];
            let waited = graph.dependencies(TaskId(index)).iter().filter_map(|before| places[before.0 as usize]);
            let mut after: Vec<u32> = waited.collect();
            if stream.stage() == stage {
                after.extend(last[task.stream.0 as usize].replace(place));
            }
            after.sort_unstable();
            after.dedup();
            let Timing { start, end } = self.course.last(node);
            let work = works.of(self.step.works[index as usize], task.work, pool)?;
            tasks.push(TracedTask {
                activity: task.activity,
                stream,
                receives: matches!(task.work, Work::Transfer { .. }) && stream.stage() != stage,
                start,
                end,
                work,
                meeting: works.costs.message(task.work).is_some().then_some(node),
                after,
            });
        }
        let position = layout.position(rank);
        let actor_of = (0..).map(Rank).zip(&self.step.fold.actor_of);
        Ok(RankTrace {
            rank,
            stage,
            stands_for: actor_of.filter(|(_, of)| **of == actor).map(|(rank, _)| rank).collect(),
            seat: seat(&layout.cluster.pools[pool].device, position.instance, position.slot),
            tasks,
        })
    }
}

fn seat(device: &Device, instance: u32, slot: u32) -> Seat {
    let memory = device.gpu().map_or(Bytes(0), |gpu| gpu.memory.value);
    Seat { device: device.name().into(), memory, instance, slot }
}

/// Something that takes part of a task, and how long by its price.
type Timed = (TracedWork, Seconds);

/// The parts of each work on each kind of machine.
struct Works<'a> {
    plan: &'a Plan,
    graph: &'a TaskGraph,
    costs: &'a Costs<'a>,
    inside: Inside<'a>,
    known: BTreeMap<(u32, usize), usize>,
    parts: Vec<Vec<TracedPart>>,
}

impl Works<'_> {
    /// The place of a work's parts.
    fn of(&mut self, index: u32, work: Work, pool: usize) -> Result<usize, MachineError> {
        if let Some(known) = self.known.get(&(index, pool)) {
            return Ok(*known);
        }
        let timed = self.timed(work, pool)?;
        let whole: Seconds = timed.iter().map(|(_, seconds)| *seconds).sum();
        let count = timed.len() as f64;
        let share = |seconds: Seconds| if whole > Seconds::ZERO { seconds.0 / whole.0 } else { 1.0 / count };
        self.parts.push(timed.into_iter().map(|(what, seconds)| TracedPart { what, share: share(seconds) }).collect());
        self.known.insert((index, pool), self.parts.len() - 1);
        Ok(self.parts.len() - 1)
    }

    fn timed(&self, work: Work, pool: usize) -> Result<Vec<Timed>, MachineError> {
        if let Some(message) = self.costs.message(work) {
            return Ok(vec![(TracedWork::Message(message), Seconds(1.0))]);
        }
        let one = |what| Ok(vec![(what, Seconds(1.0))]);
        match work {
            Work::Compute(segment) => self.segment(&self.graph.segments()[segment.0 as usize], pool),
            Work::Update { .. } => one(kernels("optimizer update", None, Direction::Neither)),
            Work::Copy { way, bytes, .. } => one(TracedWork::Copy { way, bytes }),
            _ => one(TracedWork::Host),
        }
    }

    fn segment(&self, segment: &Segment, pool: usize) -> Result<Vec<Timed>, MachineError> {
        let mut timed = Vec::new();
        // Backward goes through the layers from the last to the first.
        let mut layers: Vec<usize> = segment.layers.clone().collect();
        if segment.pass != StagePass::Forward {
            layers.reverse();
        }
        for index in layers {
            self.layer(index, segment, pool, &mut timed)?;
        }
        let layers: Seconds = timed.iter().map(|(_, seconds)| *seconds).sum();
        let added = self.costs.segment(segment, pool)? - layers;
        if added.0 > 1e-9 * layers.0 {
            timed.push((kernels("gradient accumulation", None, Direction::Neither), added));
        }
        Ok(timed)
    }

    fn layer(&self, index: usize, segment: &Segment, pool: usize, timed: &mut Vec<Timed>) -> Result<(), MachineError> {
        let price = self.costs.layer(pool, index);
        let messages = self.inside.messages(self.plan.graph().layer(index), &price)?;
        let inside = |pick: fn(&InsideMessage) -> Seconds| one_by_one(&messages, pick);
        match (segment.pass, segment.recompute) {
            (StagePass::Forward, _) => {
                timed.extend(between(self.kernels(index, Direction::Forward, price, pool), inside(sent_forward)));
            }
            (StagePass::BackwardWeight, _) => timed.extend(self.backward(index, segment.pass, price, pool)),
            (pass, recompute) => {
                if price.recomputed && recompute == Recompute::Full {
                    timed.extend(between(self.kernels(index, Direction::Again, price, pool), inside(sent_forward)));
                } else if price.recomputed && recompute == Recompute::Selective && price.core > Seconds::ZERO {
                    let core = self.named("attention", index, Direction::Again);
                    timed.push((core, price.core));
                }
                timed.extend(between(self.backward(index, pass, price, pool), inside(sent_backward)));
            }
        }
        Ok(())
    }

    /// Kernels of a layer forward, or once more.
    fn kernels(&self, index: usize, direction: Direction, price: LayerCost, pool: usize) -> Vec<Timed> {
        let costs = self.costs.operator_costs(pool, index, Pass::Forward);
        self.shared_out(index, direction, price.forward, &costs, |_| 1.0)
    }

    /// Those backward: all, or of one of its two halves.
    fn backward(&self, index: usize, pass: StagePass, price: LayerCost, pool: usize) -> Vec<Timed> {
        let costs = self.costs.operator_costs(pool, index, Pass::Backward);
        let (time, part): (Seconds, fn(&OperatorCost) -> f64) = match pass {
            StagePass::BackwardInput => (price.backward * (1.0 - price.weights_share), |cost| 1.0 - cost.weights_share),
            StagePass::BackwardWeight => (price.backward * price.weights_share, |cost| cost.weights_share),
            StagePass::Forward | StagePass::Backward => (price.backward, |_| 1.0),
        };
        self.shared_out(index, Direction::Backward, time, &costs, part)
    }

    /// A time shared out over operators by their own costs; `part` says how much of each is done.
    fn shared_out(
        &self,
        index: usize,
        direction: Direction,
        time: Seconds,
        costs: &[OperatorCost],
        part: impl Fn(&OperatorCost) -> f64,
    ) -> Vec<Timed> {
        if time <= Seconds::ZERO {
            return Vec::new();
        }
        let whole: f64 = costs.iter().map(|cost| cost.seconds.0 * part(cost)).sum();
        if whole <= 0.0 {
            let name = if direction == Direction::Backward { "backward" } else { "forward" };
            return vec![(self.named(name, index, direction), time)];
        }
        let done = costs.iter().map(|cost| (cost, part(cost))).filter(|(_, part)| *part > 0.0);
        done.map(|(cost, part)| {
            let work = TracedWork::Kernels(TracedKernels {
                operator: cost.name.into(),
                layer: Some(self.layer_name(index)),
                direction,
                flops: cost.flops * part,
                bytes: cost.bytes * part,
            });
            (work, time * (cost.seconds.0 * part / whole))
        })
        .collect()
    }

    fn named(&self, operator: &'static str, index: usize, direction: Direction) -> TracedWork {
        kernels(operator, Some(self.layer_name(index)), direction)
    }

    fn layer_name(&self, index: usize) -> (u32, Cow<'static, str>) {
        (index as u32, self.plan.graph().layer(index).name.clone())
    }
}

/// The messages of one direction, each as often as it is sent, the kinds in turn.
fn one_by_one(messages: &[InsideMessage], time: fn(&InsideMessage) -> Seconds) -> Vec<Timed> {
    let sent = messages.iter().filter(|message| time(message) > Seconds::ZERO);
    let mut each: Vec<(u32, Timed)> = sent
        .flat_map(|message| {
            let count = message.count.max(1);
            let what = TracedWork::Message(Message {
                kind: message.kind,
                between: Between::Group(message.group),
                bytes: Some(message.bytes),
                element: message.element,
            });
            let seconds = time(message) * (1.0 / f64::from(count));
            (0..count).map(move |number| (number, (what.clone(), seconds)))
        })
        .collect();
    each.sort_by_key(|(number, _)| *number);
    each.into_iter().map(|(_, timed)| timed).collect()
}

fn sent_forward(message: &InsideMessage) -> Seconds {
    message.forward
}

fn sent_backward(message: &InsideMessage) -> Seconds {
    message.backward
}

fn kernels(operator: &'static str, layer: Option<(u32, Cow<'static, str>)>, direction: Direction) -> TracedWork {
    TracedWork::Kernels(TracedKernels { operator: operator.into(), layer, direction, flops: 0.0, bytes: 0.0 })
}

/// Messages put evenly between kernels, the last at their end.
fn between(kernels: Vec<Timed>, messages: Vec<Timed>) -> Vec<Timed> {
    let (count, sent) = (kernels.len(), messages.len());
    let mut timed = Vec::with_capacity(count + sent);
    let mut messages = messages.into_iter().enumerate().peekable();
    for (place, kernel) in kernels.into_iter().enumerate() {
        timed.push(kernel);
        while let Some((_, message)) = messages.next_if(|(number, _)| (number + 1) * count <= (place + 1) * sent) {
            timed.push(message);
        }
    }
    timed.extend(messages.map(|(_, message)| message));
    timed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(count: usize, sent: usize) -> String {
        let kernel = || (kernels("linear", None, Direction::Forward), Seconds(1.0));
        let message = || (TracedWork::Host, Seconds(1.0));
        let both = between((0..count).map(|_| kernel()).collect(), (0..sent).map(|_| message()).collect());
        both.iter().map(|(what, _)| if *what == TracedWork::Host { 'm' } else { 'k' }).collect()
    }

    #[test]
    fn messages_stand_evenly_between_kernels() {
        assert_eq!(told(6, 2), "kkkmkkkm");
        assert_eq!(told(5, 2), "kkkmkkm");
        assert_eq!(told(2, 3), "kmkmm");
        assert_eq!(told(0, 1), "m");
        assert_eq!(told(3, 0), "kkk");
    }
}
