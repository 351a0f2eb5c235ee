//! What one process is told of the ranks of others when a run ends.

use super::WorkerOutcome;
use crate::process_group::{GroupError, ProcessGroup};
use crate::report::{Span, StepPhases};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What the report says of each rank. What all ranks know alike, rank 0 knows itself.
#[derive(Serialize, Deserialize)]
struct Told {
    phases: Vec<StepPhases>,
    spans: VecDeque<(u64, f64, Vec<Span>)>,
    /// Seconds that it waited for samples.
    waited_s: f64,
    /// Peak memory of its process, told by the first rank of each.
    memory: Option<u64>,
}

/// The outcomes that this rank answers for: its own where all ranks live in one process. Otherwise those of all ranks
/// on rank 0, whose memory is that of all processes, and none on the others.
pub(super) fn gathered(world: &ProcessGroup, own: WorkerOutcome) -> Result<Vec<WorkerOutcome>, GroupError> {
    if !world.is_across_processes() {
        return Ok(vec![own]);
    }
    let told = Told {
        phases: own.phases.clone(),
        spans: own.spans.clone(),
        waited_s: own.waited_s,
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
            steps: first.steps.clone(),
            phases: told.phases,
            spans: told.spans,
            held_out: first.held_out,
            interrupted: first.interrupted,
            waited_s: told.waited_s,
            memory: None,
            skipped: first.skipped,
            checkpoints: Vec::new(),
        };
        outcomes.push(other);
    }
    Ok(outcomes)
}
