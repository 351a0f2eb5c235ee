//! One stage: gradients of micro-batches are accumulated.

use super::{Pipeline, Schedule, Slot, StageId, run_ahead};

pub(super) struct None;

impl Schedule for None {
    fn about(&self) -> &'static str {
        "one stage: each micro-batch forward, then backward"
    }

    fn source(&self) -> &'static str {
        "plain gradient accumulation"
    }

    fn program(&self, pipeline: Pipeline, _: StageId) -> Vec<Slot> {
        run_ahead(0, pipeline.micro_batches)
    }

    fn peak_micro_batches(&self, _: Pipeline, _: StageId) -> Option<u32> {
        Some(1)
    }

    fn is_pipelined(&self) -> bool {
        false
    }

    fn period(&self, _: Pipeline) -> Option<u32> {
        Some(1)
    }
}
