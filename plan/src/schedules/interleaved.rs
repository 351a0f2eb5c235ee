//! 1F1B over several chunks of layers on each stage (figure 4, bottom).

use super::{Accumulation, Pipeline, Schedule, Slot, StageId, StagePass, slot};
use std::ops::RangeInclusive;

pub(super) struct Interleaved;

impl Schedule for Interleaved {
    fn about(&self) -> &'static str {
        "1f1b over several model chunks on each stage: a smaller bubble, more transfers"
    }

    fn source(&self) -> &'static str {
        "Narayanan et al., arXiv:2104.04473, section 2.2"
    }

    /// Micro-batches go in groups of as many as there are stages; each group goes through one run after another.
    fn program(&self, pipeline: Pipeline, stage: StageId) -> Vec<Slot> {
        let Pipeline { stages, chunks, micro_batches, .. } = pipeline;
        let total = micro_batches * chunks;
        let at = |index: u32, pass: StagePass| {
            let (group, within) = (index / (stages * chunks), index % (stages * chunks));
            let chunk = within / stages;
            let chunk = if pass == StagePass::Forward { chunk } else { chunks - 1 - chunk };
            slot(pass, chunk, group * stages + within % stages)
        };
        let ahead = if micro_batches == stages { total } else { 2 * pipeline.after(stage) + (chunks - 1) * stages };
        let ahead = ahead.min(total);
        let forwards = |range: std::ops::Range<u32>| range.map(move |index| at(index, StagePass::Forward));
        let steady =
            (ahead..total).flat_map(|index| [at(index, StagePass::Forward), at(index - ahead, StagePass::Backward)]);
        let drain = (total - ahead..total).map(|index| at(index, StagePass::Backward));
        forwards(0..ahead).chain(steady).chain(drain).collect()
    }

    fn chunks(&self) -> RangeInclusive<u32> {
        2..=u32::MAX
    }

    fn accumulation(&self) -> Accumulation {
        Accumulation::GroupsOfStages
    }

    /// A group of micro-batches.
    fn period(&self, pipeline: Pipeline) -> Option<u32> {
        Some(pipeline.stages)
    }
}
