//! Activations and gradients that are kept in the machine's memory instead of the device's.

use super::{Builder, PREFETCH};
use crate::offload::Store;
use crate::schedules::StageId;
use crate::schedules::{Slot, StagePass};
use crate::spec::Precision;
use crate::task::{Activity, CopyDirection, StreamKind, TaskId, Work};
use std::ops::Range;

/// Number of layers whose activations may be on the device while older ones are still being copied out.
pub(crate) const COPIES_UNDER_WAY: usize = 2;

impl Builder<'_> {
    /// Returns the tasks that a pass waits for because activations are kept off the device: forward for room, backward
    /// for their return.
    pub(super) fn room_or_return(
        &mut self,
        stage: StageId,
        position: u32,
        slot: Slot,
        layers: &Range<usize>,
    ) -> Option<TaskId> {
        let store = self.plan.offload().activations?;
        match slot.pass {
            StagePass::Forward => {
                let copied = &self.stages[stage.0 as usize].copied_out;
                copied.len().checked_sub(COPIES_UNDER_WAY).map(|index| copied[index])
            }
            StagePass::Backward | StagePass::BackwardInput => {
                Some(self.bring_back(stage, position, slot, layers, store))
            }
            StagePass::BackwardWeight => None,
        }
    }

    /// Adds the copies to the machine of the activations that forward keeps for backward.
    pub(super) fn keep_activations(
        &mut self,
        stage: StageId,
        position: u32,
        slot: Slot,
        layers: &Range<usize>,
        after: TaskId,
    ) {
        let Some(store) = self.plan.offload().activations.filter(|_| slot.pass == StagePass::Forward) else { return };
        let stream = self.graph.stream(StreamKind::CopyOut(stage));
        let work =
            Work::Copy { stage, way: CopyDirection::DeviceToHost, store, bytes: self.plan.kept_activations(layers) };
        let copied = self.graph.add(Activity::Copy { stage, way: CopyDirection::DeviceToHost }, work, stream, &[after]);
        self.chunks[position as usize].kept.insert((slot.micro_batch, layers.start), copied);
        self.stage(stage).copied_out.push(copied);
    }

    /// Returns `true` if the gradients that a pass ends with are kept in main memory.
    pub(super) fn keeps_gradients_of(&self, slot: Slot) -> bool {
        let ends = matches!(slot.pass, StagePass::Backward | StagePass::BackwardWeight);
        ends && self.lowering.gradients_on_host && self.plan.may_keep_gradients_on_host()
    }

    /// Adds the copies of a rank's part of gradients that are kept in main memory: what was kept of earlier micro-batches
    /// comes to the device to be added to, the sum goes back, and with the last micro-batch once more in single precision.
    /// The copies of the first micro-batch go the other way round, as many.
    ///
    /// # Source
    ///
    /// DeepSpeed 0.19, `runtime/zero/stage3.py`, `partition_grads`; `stage_1_and_2.py`,
    /// `async_accumulate_grad_in_cpu_via_gpu`.
    pub(super) fn keep_gradients(&mut self, stage: StageId, slot: Slot, layers: &Range<usize>, after: TaskId) {
        let reduced = self.stages[stage.0 as usize].reductions.last().copied().unwrap_or(after).max(after);
        let part = self.plan.shard_of(self.plan.held(layers));
        let element = self.plan.precision().element_bytes();
        let whole = if self.ends_step(slot) { Precision::Fp32.element_bytes() } else { 0 };
        let bytes = |element| self.plan.changed_bytes(part, element);
        let (out, back) = (bytes(element + whole), bytes(element));
        let back = self.copy(stage, (CopyDirection::HostToDevice, Store::Host), back, &[reduced]);
        let out = self.copy(stage, (CopyDirection::DeviceToHost, Store::Host), out, &[reduced]);
        self.stage(stage).reductions.extend([back, out]);
    }

    /// Adds the copy of activations back to the device, while the layer before the one that needs them computes.
    fn bring_back(&mut self, stage: StageId, position: u32, slot: Slot, layers: &Range<usize>, store: Store) -> TaskId {
        let kept = self.chunks[position as usize].kept.remove(&(slot.micro_batch, layers.start));
        let mut waits: Vec<TaskId> = kept.into_iter().collect();
        let passes = &self.stages[stage.0 as usize].passes;
        waits.extend(passes.len().checked_sub(PREFETCH + 1).map(|index| passes[index]));
        let stream = self.graph.stream(StreamKind::CopyIn(stage));
        let bytes = self.plan.kept_activations(layers);
        let work = Work::Copy { stage, way: CopyDirection::HostToDevice, store, bytes };
        self.graph.add(Activity::Copy { stage, way: CopyDirection::HostToDevice }, work, stream, &waits)
    }
}
