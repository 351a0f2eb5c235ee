//! In which order a stage works on its micro-batches, from the papers that define the schedules.

use trainyard_plan::{ScheduleName, StagePass};

/// A micro-batch goes through one of a stage's runs of layers. Micro-batches are counted through all steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) kind: StagePass,
    pub(crate) run: u32,
    pub(crate) micro_batch: u32,
}

impl Pass {
    /// Whether it computes gradients of weights.
    pub(crate) fn gives_gradients(self) -> bool {
        matches!(self.kind, StagePass::Backward | StagePass::BackwardWeight)
    }
}

/// Steps that are simulated in a row. Where a step drains the pipeline one is enough; where it does not, the second one
/// is looked at.
pub(crate) fn steps(schedule: ScheduleName) -> u32 {
    match schedule {
        ScheduleName::ZeroBubbleH1 => 2,
        ScheduleName::TwoBufferedWeights => 3,
        _ => 1,
    }
}

/// Returns what a stage of `stages` does in all steps of `micro_batches` each, with `runs` runs of layers.
#[expect(clippy::match_wildcard_for_single_variants, reason = "a new schedule needs no twin before it compiles")]
pub(crate) fn program(schedule: ScheduleName, stage: u32, stages: u32, runs: u32, micro_batches: u32) -> Vec<Pass> {
    let after = stages - 1 - stage;
    let one_after_another = |kind| (0..micro_batches).map(move |m| Pass { kind, run: 0, micro_batch: m }).collect();
    let forwards = one_after_another(StagePass::Forward);
    let backwards = one_after_another(StagePass::Backward);
    match schedule {
        // Accumulation of gradients on a single stage.
        ScheduleName::None => alternate(0, forwards, backwards),
        // Huang et al., arXiv:1811.06965, section 2.3: all forward, then all backward. Backward here in the order of
        // forward, as frameworks do it.
        ScheduleName::GPipe => alternate(micro_batches, forwards, backwards),
        // Narayanan et al., arXiv:2104.04473, section 2.2.1: as many forwards ahead as there are stages behind.
        ScheduleName::OneForwardOneBackward => alternate(after, forwards, backwards),
        // The same, section 2.2.2. Warm-up: two for each stage behind, and all runs but the last for as many micro-batches
        // as there are stages; all of them where there are no more micro-batches than that.
        ScheduleName::Interleaved => {
            let ahead = if micro_batches == stages { runs * micro_batches } else { 2 * after + (runs - 1) * stages };
            let (forwards, backwards) = in_groups(stages, runs, micro_batches);
            alternate(ahead, forwards, backwards)
        }
        // Narayanan et al., arXiv:2006.09503, section 3.1: 1F1B, and a new step does not wait for the one before.
        ScheduleName::TwoBufferedWeights => {
            program(ScheduleName::OneForwardOneBackward, stage, stages, runs, micro_batches * steps(schedule))
        }
        ScheduleName::ZeroBubbleH1 => {
            let step = put_off_weights(stage, &alternate(after, forwards, backwards));
            let later = |n: u32| {
                step.iter().map(move |pass| Pass { micro_batch: pass.micro_batch + n * micro_batches, ..*pass })
            };
            (0..steps(schedule)).flat_map(later).collect()
        }
        _ => unreachable!("it is not drawn"),
    }
}

/// Some forwards, then a forward and a backward in turn, then the backwards that are left.
fn alternate(ahead: u32, forwards: Vec<Pass>, backwards: Vec<Pass>) -> Vec<Pass> {
    let mut backwards = backwards.into_iter();
    let mut order = Vec::new();
    for (done, forward) in (0..).zip(forwards) {
        order.push(forward);
        if done >= ahead {
            order.extend(backwards.next());
        }
    }
    order.extend(backwards);
    order
}

/// As many micro-batches as there are stages go through one run after another, forward from the first, backward from
/// the last; then the next as many.
fn in_groups(stages: u32, runs: u32, micro_batches: u32) -> (Vec<Pass>, Vec<Pass>) {
    let (mut forwards, mut backwards) = (Vec::new(), Vec::new());
    for group in 0..micro_batches / stages {
        for run in 0..runs {
            for micro_batch in group * stages..(group + 1) * stages {
                forwards.push(Pass { kind: StagePass::Forward, run, micro_batch });
                backwards.push(Pass { kind: StagePass::Backward, run: runs - 1 - run, micro_batch });
            }
        }
    }
    (forwards, backwards)
}

/// Qi et al., arXiv:2401.10241, section 2.3: gradients of weights come later than those of inputs, by as many
/// micro-batches as the stage would hold less than the first one does.
fn put_off_weights(stage: u32, order: &[Pass]) -> Vec<Pass> {
    let mut split = Vec::new();
    let mut waiting = Vec::new();
    for pass in order {
        if pass.kind == StagePass::Forward {
            split.push(*pass);
            continue;
        }
        split.push(Pass { kind: StagePass::BackwardInput, ..*pass });
        waiting.push(Pass { kind: StagePass::BackwardWeight, ..*pass });
        if waiting.len() > stage as usize {
            split.push(waiting.remove(0));
        }
    }
    split.extend(waiting);
    split
}
