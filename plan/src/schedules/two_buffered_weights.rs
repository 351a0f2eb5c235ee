//! 1F1B that never drains: the weights of the step before are kept for the micro-batches that began with them.

use super::{Accumulation, BetweenSteps, Pipeline, Schedule, Slot, Sought, StageId, StepBound, run_ahead};

pub(super) struct TwoBufferedWeights;

impl Schedule for TwoBufferedWeights {
    fn about(&self) -> &'static str {
        "1f1b that never drains: no bubble, gradients one step late, two weights"
    }

    fn source(&self) -> &'static str {
        "Narayanan et al., arXiv:2006.09503"
    }

    fn program(&self, pipeline: Pipeline, stage: StageId) -> Vec<Slot> {
        run_ahead(pipeline.after(stage), pipeline.micro_batches)
    }

    fn peak_micro_batches(&self, pipeline: Pipeline, stage: StageId) -> Option<u32> {
        Some(pipeline.after(stage) + 1)
    }

    fn accumulation(&self) -> Accumulation {
        Accumulation::AtLeastStages
    }

    fn between_steps(&self) -> BetweenSteps {
        BetweenSteps::Continuous
    }

    fn weight_versions(&self) -> u64 {
        2
    }

    fn period(&self, _: Pipeline) -> Option<u32> {
        Some(1)
    }

    fn bound(&self) -> StepBound {
        StepBound::Busiest
    }

    fn sought(&self) -> Sought {
        Sought::Held
    }
}
