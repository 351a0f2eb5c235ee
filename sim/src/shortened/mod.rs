//! A step put in time: told from a shorter one where that is exact, otherwise laid out in full.

use crate::cost::Costs;
use crate::engine::run;
use crate::ensemble::Ensemble;
use crate::machine::{Machine, MachineError};
use crate::recurrence::{Course, run_repeating};
use crate::step::{Laid, Options, Step};
use trainyard_plan::{Plan, Repetition, Shortened, TaskGraph, TaskId, greatest_common_divisor, lower_shortened};

/// Which courses of a step are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// That with communication.
    One,
    /// Another one besides, with links that take no time.
    Silent,
}

/// A step that was put in time.
pub(crate) struct InTime<'a> {
    pub(crate) step: &'a Step<'a>,
    pub(crate) ensemble: &'a Ensemble<'a>,
    pub(crate) course: Course,
    /// Where it was wanted: the course if communication took no time.
    pub(crate) silent: Option<Course>,
}

/// Puts a step of `plan` in time and says what `tell` has to say of it.
pub(crate) fn in_time<R>(
    (plan, machine): (&Plan, &Machine),
    options: Options,
    costs: &Costs<'_>,
    wanted: Wanted,
    tell: impl Fn(InTime<'_>) -> R,
) -> Result<R, MachineError> {
    let shorter = if options.in_full { Vec::new() } else { lengths(plan) };
    for length in shorter {
        let attempt = Attempt { plan, machine, options, costs, wanted };
        if let Some(told) = attempt.run(length, &tell)? {
            return Ok(told);
        }
    }
    let step = Step::in_full(plan, machine, options, costs)?;
    let ensemble = step.ensemble();
    let course = run(&ensemble.program).into();
    let silent = (wanted == Wanted::Silent).then(|| run(&ensemble.program.in_silence()).into());
    Ok(tell(InTime { step: &step, ensemble: &ensemble, course, silent }))
}

/// The numbers of micro-batches with which it is tried to tell a step, the least first: enough to fill and to drain the
/// pipeline and some periods between, then more. They are small parts of what the step has, so that little is lost where
/// nothing recurs.
fn lengths(plan: &Plan) -> Vec<u32> {
    let pipeline = plan.pipeline();
    let (Some(period), all) = (pipeline.period(), pipeline.micro_batches) else { return Vec::new() };
    let least = FILLED * pipeline.stages + PERIODS * period + SETTLED;
    let tried = [(least, 2), (GROWTH * least, 2 * GROWTH)];
    let small = tried.into_iter().filter(|(length, part)| all / part >= *length);
    small.map(|(length, _)| all - (all - length) / period * period).collect()
}

/// Micro-batches for each stage, and periods, in the shortest step that is tried; and micro-batches after which most
/// pipelines have settled.
const FILLED: u32 = 2;
const PERIODS: u32 = 6;
const SETTLED: u32 = 24;

/// How much longer the next step is that is tried.
const GROWTH: u32 = 4;

struct Attempt<'a> {
    plan: &'a Plan,
    machine: &'a Machine,
    options: Options,
    costs: &'a Costs<'a>,
    wanted: Wanted,
}

/// What became of an attempt.
enum Tried<R> {
    Told(R),
    /// What was left out is not a whole number of recurrences; it is with so many micro-batches more.
    Longer(u32),
    InVain,
}

impl Attempt<'_> {
    /// Tells the step from one with this many micro-batches, or with some more; nothing where it does not recur.
    fn run<R>(&self, length: u32, tell: &impl Fn(InTime<'_>) -> R) -> Result<Option<R>, MachineError> {
        let mut length = length;
        for _ in 0..2 {
            match self.run_once(length, tell)? {
                Tried::Told(told) => return Ok(Some(told)),
                Tried::Longer(more) => length += more,
                Tried::InVain => return Ok(None),
            }
        }
        Ok(None)
    }

    fn run_once<R>(&self, length: u32, tell: &impl Fn(InTime<'_>) -> R) -> Result<Tried<R>, MachineError> {
        let Attempt { plan, machine, options, costs, wanted } = *self;
        let Some(shortened) = lower_shortened(plan, machine.lowering(), length) else { return Ok(Tried::InVain) };
        let Shortened { graph, period, repetitions } = shortened;
        let more = (plan.pipeline().micro_batches - length) / period;
        let laid = Laid { again: repeated(&graph, &repetitions), graph, more };
        let step = Step::of(laid, (plan, machine), options, costs)?;
        let ensemble = step.ensemble();
        let chains = ensemble.chains(&repetitions);
        let Some((ran, found)) = run_repeating(&ensemble.program, &chains) else { return Ok(Tried::InVain) };
        let silent = match wanted {
            Wanted::One => None,
            Wanted::Silent => match run_repeating(&ensemble.program.in_silence(), &chains) {
                Some(silent) => Some(silent),
                None => return Ok(Tried::InVain),
            },
        };
        let all = found.iter().chain(silent.iter().flat_map(|(_, found)| found));
        let common = all.fold(1, |common, found| {
            common / greatest_common_divisor(common, found.periods.into()) * u64::from(found.periods)
        });
        let rest = u64::from(more) % common;
        if rest != 0 {
            return Ok(Tried::Longer(rest as u32 * period));
        }
        let course = Course::repeating(ran, &found, &chains, (more, period));
        let silent = silent.map(|(ran, found)| Course::repeating(ran, &found, &chains, (more, period)));
        Ok(Tried::Told(tell(InTime { step: &step, ensemble: &ensemble, course, silent })))
    }
}

/// The tasks that one period more adds to a graph.
fn repeated(graph: &TaskGraph, repetitions: &[Vec<Repetition>]) -> Vec<TaskId> {
    let mut places = vec![0_u32; graph.streams().len()];
    let mut again = Vec::new();
    for (id, task) in (0..).zip(graph.tasks()) {
        let stream = task.stream.0 as usize;
        let place = places[stream];
        places[stream] += 1;
        let added = |Repetition { each, to, .. }: Repetition| (to - each..to).contains(&place);
        if repetitions.iter().any(|step| added(step[stream])) {
            again.push(TaskId(id));
        }
    }
    again
}

#[cfg(test)]
mod tests;
