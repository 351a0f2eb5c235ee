//! What one process is told of the ranks of others when a run ends.

use super::WorkerOutcome;
use crate::process_group::{GroupError, ProcessGroup};
use crate::report::Span;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use trainyard_host::Clock;
use trainyard_plan::document::Phases;

/// The part of the report that each rank sends to rank 0. What all ranks know alike, rank 0 knows itself.
#[derive(Serialize, Deserialize)]
struct Told {
    phases: Vec<Phases>,
    spans: VecDeque<(u64, f64, Vec<Span>)>,
    /// Seconds on its clock when all ranks met.
    met_s: f64,
    /// Seconds that it waited for samples.
    waited_s: f64,
    /// Samples that its process met and could not decode.
    corrupt: BTreeSet<usize>,
    /// Peak memory of its process, told by the first rank of each.
    memory: Option<u64>,
}

/// Returns the outcomes that this rank answers for: its own where all ranks live in one process. With several
/// processes, those of all ranks on rank 0, whose memory is that of all processes, and none on the others.
pub(super) fn gathered(
    world: &ProcessGroup,
    clock: Clock,
    own: WorkerOutcome,
) -> Result<Vec<WorkerOutcome>, GroupError> {
    if !world.is_across_processes() {
        return Ok(vec![own]);
    }
    // Each process has a clock of its own, but all leave a barrier at the same time.
    world.barrier()?;
    let met_s = clock.seconds();
    let told = Told {
        phases: own.phases.clone(),
        spans: own.spans.clone(),
        met_s,
        waited_s: own.waited_s,
        corrupt: own.corrupt.clone(),
        memory: own.memory.filter(|_| world.is_first_of_process()),
    };
    let bytes = serde_json::to_vec(&told).expect("times are numbers");
    let Some(all) = world.gather_bytes(bytes, 0)? else { return Ok(Vec::new()) };
    let mut outcomes = vec![own];
    for bytes in all.into_iter().skip(1) {
        let told: Told = serde_json::from_slice(&bytes).expect("ranks run the same program");
        let first = &mut outcomes[0];
        if let Some(memory) = told.memory {
            first.memory = first.memory.map(|sum| sum + memory);
        }
        let other = WorkerOutcome {
            processor_s: None,
            steps: first.steps.clone(),
            phases: told.phases,
            spans: told.spans.into_iter().map(|spans| later(spans, met_s - told.met_s)).collect(),
            waited_s: told.waited_s,
            corrupt: told.corrupt,
            evaluations: first.evaluations.clone(),
            interrupted: first.interrupted,
            memory: None,
            skipped: first.skipped,
            checkpoints: Vec::new(),
        };
        outcomes.push(other);
    }
    Ok(outcomes)
}

/// Shifts the spans of a step to a clock that shows so many seconds more.
fn later((step, start, spans): (u64, f64, Vec<Span>), seconds: f64) -> (u64, f64, Vec<Span>) {
    let shifted = |span: Span| Span { start_s: span.start_s + seconds, end_s: span.end_s + seconds, ..span };
    (step, start + seconds, spans.into_iter().map(shifted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_group::tests::run_processes;
    use crate::run::reporting::corrupt_samples;

    #[test]
    fn samples_that_several_processes_could_not_decode_count_once() {
        let results = run_processes(2, 2, 1 << 20, |world| {
            let corrupt = BTreeSet::from([3, 5 + world.rank() / 2]);
            gathered(&world, Clock::start(), WorkerOutcome { corrupt, ..WorkerOutcome::default() })
        });
        let outcomes: Vec<_> = results.into_iter().flat_map(|known| known.expect("no rank fails")).collect();
        // Rank 0 knows of all four: samples 3 and 5 of its own process, 3 and 6 of the other.
        assert_eq!((outcomes.len(), corrupt_samples(&outcomes)), (4, 3));
    }
}
