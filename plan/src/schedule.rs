//! Pipeline schedules as stream programs: in which order a stage works on its micro-batches.

use crate::partition::StageId;
use crate::spec::ScheduleName;

/// One piece of a stage's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// Forward of this micro-batch.
    Forward(u32),
    /// Backward of this micro-batch.
    Backward(u32),
}

/// What a stage does in a step, in order.
///
/// # Source
///
/// GPipe: Huang et al., arXiv:1811.06965, figure 2c. 1F1B: Narayanan et al., arXiv:2104.04473, figure 4 (top): a stage
/// runs ahead by as many forwards as there are stages after it, then alternates.
pub fn program(schedule: ScheduleName, stage: StageId, stages: u32, micro_batches: u32) -> Vec<Slot> {
    let ahead = match schedule {
        ScheduleName::None => 0,
        ScheduleName::GPipe => micro_batches,
        ScheduleName::OneForwardOneBackward => (stages - 1 - stage.0).min(micro_batches),
    };
    let warm_up = (0..ahead).map(Slot::Forward);
    let steady = (ahead..micro_batches).flat_map(|m| [Slot::Forward(m), Slot::Backward(m - ahead)]);
    let drain = (micro_batches - ahead..micro_batches).map(Slot::Backward);
    warm_up.chain(steady).chain(drain).collect()
}

/// The most micro-batches whose activations a stage holds at once.
pub fn peak_in_flight(schedule: ScheduleName, stage: StageId, stages: u32, micro_batches: u32) -> u32 {
    match schedule {
        ScheduleName::None => 1,
        ScheduleName::GPipe => micro_batches,
        ScheduleName::OneForwardOneBackward => (stages - stage.0).min(micro_batches),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn programs_do_everything_once_and_hold_what_they_say(
            schedule in prop::sample::select(ScheduleName::ALL), stage in 0u32..8, after in 0u32..8, m in 1u32..20,
        ) {
            let stages = stage + after + 1;
            let slots = program(schedule, StageId(stage), stages, m);
            prop_assert_eq!(slots.len(), 2 * m as usize);
            let (mut held, mut peak) = (0u32, 0u32);
            for (index, slot) in slots.iter().enumerate() {
                prop_assert!(!slots[..index].contains(slot));
                match slot {
                    Slot::Forward(_) => { held += 1; peak = peak.max(held); }
                    Slot::Backward(b) => { prop_assert!(slots[..index].contains(&Slot::Forward(*b))); held -= 1; }
                }
            }
            prop_assert_eq!(peak, peak_in_flight(schedule, StageId(stage), stages, m));
        }
    }
}
