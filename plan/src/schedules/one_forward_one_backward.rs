//! 1F1B: a stage runs ahead by as many forwards as there are stages after it, then alternates (figure 4, top).

use super::{Pipeline, Schedule, Slot, StageId, run_ahead};

pub(super) struct OneForwardOneBackward;

impl Schedule for OneForwardOneBackward {
    fn about(&self) -> &'static str {
        "forwards and backwards alternate: holds as many micro-batches as stages follow"
    }

    fn source(&self) -> &'static str {
        "Narayanan et al., arXiv:2104.04473"
    }

    fn program(&self, pipeline: Pipeline, stage: StageId) -> Vec<Slot> {
        run_ahead(pipeline.after(stage), pipeline.micro_batches)
    }

    fn peak_micro_batches(&self, pipeline: Pipeline, stage: StageId) -> Option<u32> {
        Some(pipeline.after(stage) + 1)
    }

    fn period(&self, _: Pipeline) -> Option<u32> {
        Some(1)
    }
}
