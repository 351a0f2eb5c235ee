//! GPipe: figure 2c of the publication.

use super::{Pipeline, Schedule, Slot, Sought, StageId, run_ahead};

pub(super) struct GPipe;

impl Schedule for GPipe {
    fn about(&self) -> &'static str {
        "all micro-batches forward, then all backward: holds the activations of all of them"
    }

    fn source(&self) -> &'static str {
        "Huang et al., arXiv:1811.06965"
    }

    fn program(&self, pipeline: Pipeline, _: StageId) -> Vec<Slot> {
        run_ahead(pipeline.micro_batches, pipeline.micro_batches)
    }

    fn peak_micro_batches(&self, pipeline: Pipeline, _: StageId) -> Option<u32> {
        Some(pipeline.micro_batches)
    }

    fn sought(&self) -> Sought {
        Sought::InsteadOf1F1B
    }
}
