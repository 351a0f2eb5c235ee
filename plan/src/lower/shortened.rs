//! A step with fewer micro-batches than a plan has, and where in it those that are left out would be.
//!
//! Once a pipeline is full, every stage does the same for one micro-batch after another (or for one group of them), until
//! it drains. A task in this middle depends on others that are as far before it whatever the number of micro-batches is,
//! so a step with more of them differs from a step with fewer in the length of its middle alone.

use super::{Builder, Lowering, Piece, steps};
use crate::schedules::{Pipeline, Slot, StagePass};
use crate::task::TaskGraph;
use crate::valid::Plan;

/// The work of a step with fewer micro-batches.
#[derive(Clone, Debug)]
pub struct Shortened {
    pub graph: TaskGraph,
    /// The number of micro-batches after which stages repeat themselves.
    pub period: u32,
    /// For each step in the graph and each stream, by its id, where it repeats itself.
    pub repetitions: Vec<Vec<Repetition>>,
}

/// The places on a stream, or in a program, that repeat themselves: what is at a place from `from` on and before `to -
/// each` is also at the place `each` further on, for a later micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repetition {
    pub from: u32,
    pub each: u32,
    pub to: u32,
}

/// Returns the work of a step of `plan` that has only this many micro-batches; `None` if programs do not repeat
/// themselves in it. The plan's own number and this one differ by a multiple of [`Pipeline::period`].
///
/// The graph with one period of micro-batches more has, on each stream and in each step, `each` tasks more: those from
/// `to - each` to `to` twice, the second time for later micro-batches, and is otherwise the same.
pub fn lower_shortened(plan: &Plan, lowering: Lowering, micro_batches: u32) -> Option<Shortened> {
    let pipeline = Pipeline { micro_batches, ..plan.pipeline() };
    let period = pipeline.period()?;
    let steps = steps(plan, lowering);
    let mut builder = Builder::new(plan, pipeline, lowering);
    for stage in &mut builder.stages {
        for step in 0..steps {
            let Repetition { from, each, to } = repetition(&stage.program, pipeline, period, step)?;
            stage.noted_at.extend([from, from + each, to].map(|place| place as usize));
        }
    }
    builder.run_programs();
    Some(Shortened { repetitions: on_streams(&builder, steps), graph: builder.graph, period })
}

/// Returns the pieces of a stage's program that repeat themselves in a step; `None` if there are none.
fn repetition(program: &[Piece], pipeline: Pipeline, period: u32, step: u32) -> Option<Repetition> {
    let each = (period * pipeline.slots_of_micro_batch()) as usize;
    let (first, last) = (step * pipeline.micro_batches, (step + 1) * pipeline.micro_batches - 1);
    // The first gradients of weights are added to nothing, and those of the last micro-batch may be summed as they come.
    let weights = |piece: &Piece, of: u32| match piece {
        Piece::Pass(slot) => slot.micro_batch == of && gives_gradients(*slot),
        Piece::Reduce | Piece::Update(_) => false,
    };
    let start = program.iter().rposition(|piece| weights(piece, first))? + 1;
    let end = program.iter().position(|piece| weights(piece, last))?;
    let again = |place: usize| match (program.get(place), program.get(place + each)) {
        (Some(Piece::Pass(slot)), Some(Piece::Pass(later))) => {
            Slot { micro_batch: slot.micro_batch + period, ..*slot } == *later
        }
        _ => false,
    };
    let middle = usize::midpoint(start, end);
    let from = (start..middle).rev().take_while(|place| again(*place)).last()?;
    let last = (middle..end.checked_sub(each)?).take_while(|place| again(*place)).last()?;
    let narrow = |place: usize| u32::try_from(place).ok();
    Some(Repetition { from: narrow(from)?, each: narrow(each)?, to: narrow(last + each + 1)? })
}

fn gives_gradients(slot: Slot) -> bool {
    matches!(slot.pass, StagePass::Backward | StagePass::BackwardWeight)
}

/// Converts places in programs, at which the number of tasks was noted, to places on streams.
fn on_streams(builder: &Builder<'_>, steps: u32) -> Vec<Vec<Repetition>> {
    let streams = builder.graph.streams();
    let mut before = vec![vec![0_u32; 3 * steps as usize]; streams.len()];
    for (id, task) in (0..).zip(builder.graph.tasks()) {
        let stream = task.stream.0 as usize;
        let noted = &builder.stages[streams[stream].stage().0 as usize].noted;
        for (count, noted) in before[stream].iter_mut().zip(noted) {
            *count += u32::from(id < *noted);
        }
    }
    let of_step = |step: usize| {
        let of_stream = |counts: &Vec<u32>| {
            let [from, next, to] = [0, 1, 2].map(|place| counts[3 * step + place]);
            Repetition { from, each: next - from, to }
        };
        before.iter().map(of_stream).collect()
    };
    (0..steps as usize).map(of_step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::pieces;
    use crate::schedules::{Accumulation, ScheduleName};
    use proptest::prelude::*;

    proptest! {
        /// What [`crate::schedules::Schedule::period`] promises, for each step of a program.
        #[test]
        fn more_micro_batches_repeat_the_middle_of_a_program(
            schedule in prop::sample::select(ScheduleName::ALL), stages in 1u32..9, chunks in 2u32..5, groups in 1u32..80,
            steps in 1u32..4,
        ) {
            let grouped = schedule.accumulation() == Accumulation::GroupsOfStages;
            let pipeline = Pipeline {
                schedule,
                stages,
                chunks: chunks.clamp(*schedule.chunks().start(), *schedule.chunks().end()),
                micro_batches: if grouped { groups.min(20) * stages } else { groups },
            };
            let Some(period) = pipeline.period() else { return Ok(()) };
            let longer = Pipeline { micro_batches: pipeline.micro_batches + period, ..pipeline };
            for (program, expected) in pieces(pipeline, steps).iter().zip(pieces(longer, steps)) {
                let found: Option<Vec<Repetition>> =
                    (0..steps).map(|step| repetition(program, pipeline, period, step)).collect();
                let Some(found) = found else {
                    prop_assert!(pipeline.micro_batches < 10 * stages * chunks, "{:?}", pipeline);
                    continue;
                };
                let (mut built, mut next) = (Vec::new(), 0);
                for (step, Repetition { each, to, .. }) in found.into_iter().enumerate() {
                    let further = |pieces: &[Piece], by: u32| pieces.iter().map(|p| later(*p, by)).collect::<Vec<_>>();
                    built.extend(further(&program[next..to as usize], step as u32 * period));
                    built.extend(further(&program[(to - each) as usize..to as usize], (step as u32 + 1) * period));
                    next = to as usize;
                }
                built.extend(program[next..].iter().map(|piece| later(*piece, steps * period)));
                let show = |pieces: &[Piece]| format!("{pieces:?}");
                prop_assert_eq!(show(&built), show(&expected));
            }
        }
    }

    fn later(piece: Piece, by: u32) -> Piece {
        match piece {
            Piece::Pass(slot) => Piece::Pass(Slot { micro_batch: slot.micro_batch + by, ..slot }),
            other => other,
        }
    }
}
