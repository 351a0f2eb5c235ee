use super::*;
use proptest::prelude::*;

/// Returns a pipeline of a schedule that a plan may have, near these runs and micro-batches.
fn pipeline(schedule: ScheduleName, stages: u32, chunks: u32, micro_batches: u32) -> Pipeline {
    let (fewest, most) = schedule.chunks().into_inner();
    let grouped = schedule.accumulation() == Accumulation::GroupsOfStages;
    let micro_batches = if grouped { micro_batches * stages } else { micro_batches };
    Pipeline { schedule, stages, chunks: chunks.clamp(fewest, most), micro_batches }
}

/// Plays programs in whole units of time, as the oracle. Forward takes one unit, gradients of inputs and of weights one
/// each. Returns the makespan and, per stage, its start and its end.
fn play(pipeline: Pipeline) -> (u32, Vec<(u32, u32)>) {
    let programs = pipeline.programs();
    let last = pipeline.stages * pipeline.chunks - 1;
    let position = |stage: u32, chunk: u32| match chunk {
        1 if pipeline.schedule.is_folded() => 2 * pipeline.stages - 1 - stage,
        _ => chunk * pipeline.stages + stage,
    };
    let mut ends: std::collections::BTreeMap<(bool, u32, u32), u32> = std::collections::BTreeMap::new();
    let (mut next, mut free) = (vec![0; programs.len()], vec![0; programs.len()]);
    let mut starts = vec![None; programs.len()];
    while (0..programs.len()).any(|stage| next[stage] < programs[stage].len()) {
        let mut moved = false;
        for stage in 0..programs.len() {
            while let Some(slot) = programs[stage].get(next[stage]) {
                let at = position(stage as u32, slot.chunk);
                let forward = slot.pass == StagePass::Forward;
                let before = match slot.pass {
                    StagePass::Forward if at == 0 => Some(0),
                    StagePass::Forward => ends.get(&(true, at - 1, slot.micro_batch)).copied(),
                    StagePass::BackwardWeight => Some(0),
                    _ if at == last => ends.get(&(true, at, slot.micro_batch)).copied(),
                    _ => ends.get(&(false, at + 1, slot.micro_batch)).copied(),
                };
                let Some(before) = before else { break };
                let start = before.max(free[stage]);
                starts[stage].get_or_insert(start);
                free[stage] = start + if slot.pass == StagePass::Backward { 2 } else { 1 };
                if slot.pass != StagePass::BackwardWeight {
                    ends.insert((forward, at, slot.micro_batch), free[stage]);
                }
                next[stage] += 1;
                moved = true;
            }
        }
        assert!(moved, "{pipeline:?} waits for itself");
    }
    let spans = starts.into_iter().zip(&free).map(|(start, end)| (start.expect("every stage works"), *end));
    (free.iter().copied().max().unwrap_or(0), spans.collect())
}

#[test]
fn what_is_held_beyond_counting_is_the_most_that_can_be_counted() {
    let peak = |schedule, held: u64| pipeline(schedule, 4, 1, 4096).peak(StageId(0), &[held; 2]);
    // GPipe keeps all 4096 micro-batches, ZB-V at most twice as many runs as there are stages.
    assert_eq!(peak(ScheduleName::GPipe, (1 << 52) - 1), u64::MAX - 4095);
    assert_eq!(peak(ScheduleName::GPipe, 1 << 52), u64::MAX);
    assert_eq!(peak(ScheduleName::ZeroBubbleV, (1 << 61) - 1), u64::MAX - 7);
    assert_eq!(peak(ScheduleName::ZeroBubbleV, 1 << 61), u64::MAX);
}

#[test]
fn bubbles_are_the_published_ones() {
    for (p, m) in [(2, 4), (4, 8), (4, 16), (8, 16), (8, 64)] {
        let makespan = |schedule, chunks| play(Pipeline { schedule, stages: p, chunks, micro_batches: m }).0;
        // Units: forward 1, each half of backward 1. Narayanan et al. 2021, section 2.2: (p − 1)(F + B + W).
        assert_eq!(makespan(ScheduleName::GPipe, 1), 3 * m + 3 * (p - 1));
        assert_eq!(makespan(ScheduleName::OneForwardOneBackward, 1), 3 * m + 3 * (p - 1));
        // With v runs the passes are v times shorter, and the bubble with them: in units of a run, m·v·3 of work.
        assert_eq!(makespan(ScheduleName::Interleaved, 2), 6 * m + 3 * (p - 1));
        // Qi et al., table 2: (p − 1)(F + B − W).
        assert_eq!(makespan(ScheduleName::ZeroBubbleH1, 1), 3 * m + (p - 1));
    }
}

#[test]
fn a_v_leaves_almost_nothing_idle() {
    for (p, m) in [(2, 4), (4, 8), (4, 16), (6, 12), (8, 16), (8, 64)] {
        let v = Pipeline { schedule: ScheduleName::ZeroBubbleV, stages: p, chunks: 2, micro_batches: m };
        for (start, end) in play(v).1 {
            assert!(end - start - 6 * m <= 2 * (p - 1), "p {p}, m {m}: {start} to {end}");
        }
    }
}

proptest! {
    #[test]
    fn programs_do_everything_once_in_order_and_hold_what_they_say(
        schedule in prop::sample::select(ScheduleName::ALL), stages in 1u32..7, chunks in 2u32..4, m in 1u32..40,
    ) {
        let pipeline = pipeline(schedule, stages, chunks, m);
        play(pipeline);
        for (stage, slots) in pipeline.programs().into_iter().enumerate() {
            let stage = StageId(stage as u32);
            prop_assert_eq!(&slots, &pipeline.program(stage));
            let passes = if schedule.splits_backward() { 3 } else { 2 };
            prop_assert_eq!(slots.len() as u32, passes * pipeline.chunks * pipeline.micro_batches);
            for (index, slot) in slots.iter().enumerate() {
                prop_assert!(!slots[..index].contains(slot));
                let needs = match slot.pass {
                    StagePass::Forward => None,
                    StagePass::Backward | StagePass::BackwardInput => Some(StagePass::Forward),
                    StagePass::BackwardWeight => Some(StagePass::BackwardInput),
                };
                let done = |pass| slots[..index].contains(&Slot { pass, ..*slot });
                prop_assert!(needs.is_none_or(done));
            }
            let sizes: Vec<u64> = (0..pipeline.chunks).map(|chunk| u64::from(chunk) + 3).collect();
            if schedule == ScheduleName::ZeroBubbleH1 {
                prop_assert!(pipeline.peak(stage, &sizes) >= peak_of(&slots, &sizes));
            } else if schedule == ScheduleName::None && stages > 1 {
                // No such plan is valid.
            } else {
                prop_assert_eq!(pipeline.peak(stage, &sizes), peak_of(&slots, &sizes));
            }
        }
    }
}
