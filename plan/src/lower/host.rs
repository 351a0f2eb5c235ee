//! Activations that wait for their backward pass in the machine's memory instead of the device's.

use super::{Builder, PREFETCH};
use crate::offload::Store;
use crate::partition::StageId;
use crate::schedule::{Slot, StagePass};
use crate::task::{Activity, StreamKind, TaskId, Way, Work};
use trainyard_units::Bytes;

/// Micro-batches whose activations may be on the device while older ones are still being copied out.
pub(crate) const COPIES_UNDER_WAY: usize = 2;

impl Builder<'_> {
    /// What a pass waits for on account of activations that are kept elsewhere: forward for room, backward for their
    /// return.
    pub(super) fn room_or_return(&mut self, stage: StageId, link: u32, slot: Slot) -> Option<TaskId> {
        let store = self.plan.offload().activations?;
        match slot.pass {
            StagePass::Forward => {
                let copied = &self.stages[stage.0 as usize].copied_out;
                copied.len().checked_sub(COPIES_UNDER_WAY).map(|index| copied[index])
            }
            StagePass::Backward | StagePass::BackwardInput => Some(self.bring_back(stage, link, slot, store)),
            StagePass::BackwardWeight => None,
        }
    }

    /// A micro-batch's activations leave the device after forward.
    pub(super) fn keep_activations(&mut self, stage: StageId, link: u32, slot: Slot, after: TaskId) {
        let Some(store) = self.plan.offload().activations else { return };
        let stream = self.graph.stream(StreamKind::CopyOut(stage));
        let work = Work::Copy { stage, way: Way::Out, store, bytes: self.kept_bytes(link) };
        let copied = self.graph.add(Activity::Copy { stage, way: Way::Out }, work, stream, &[after]);
        self.links[link as usize].kept[slot.micro_batch as usize] = Some(copied);
        self.stage(stage).copied_out.push(copied);
    }

    /// They come back while the pass before the one that needs them computes.
    fn bring_back(&mut self, stage: StageId, link: u32, slot: Slot, store: Store) -> TaskId {
        let kept = self.links[link as usize].kept[slot.micro_batch as usize];
        let mut waits: Vec<TaskId> = kept.into_iter().collect();
        let passes = &self.stages[stage.0 as usize].passes;
        waits.extend(passes.len().checked_sub(PREFETCH + 1).map(|index| passes[index]));
        let stream = self.graph.stream(StreamKind::CopyIn(stage));
        let work = Work::Copy { stage, way: Way::In, store, bytes: self.kept_bytes(link) };
        self.graph.add(Activity::Copy { stage, way: Way::In }, work, stream, &waits)
    }

    fn kept_bytes(&self, link: u32) -> Bytes {
        self.plan.kept_activations(&self.links[link as usize].layers)
    }
}
