//! What the holders of the same parameters do together: reduce gradients, gather weights, end the step.

use super::{Builder, PREFETCH, Piece, UpdatedWeights};
use crate::collective::Collective;
use crate::mesh::Group;
use crate::offload::Store;
use crate::parameters::ParameterCounts;
use crate::schedules::StageId;
use crate::schedules::StagePass;
use crate::spec::{GradientReduction, StateSharding};
use crate::task::{Activity, Content, CopyDirection, Exchange, StreamKind, TaskId, Work};
use std::ops::Range;
use trainyard_units::Bytes;

impl Builder<'_> {
    /// Adds the fetch of offloaded weights, and the gather of sharded ones, for the layers that compute next; `None` if
    /// there is nothing to bring. It waits until the layers before the ones that compute now are done with theirs, so
    /// that the weights of no more than [`PREFETCH`] + 1 are on the device at once. Where weights stay for backward, a
    /// forward pass that `begins` asks for its first when what was computed before is done.
    pub(super) fn gather(
        &mut self,
        stage: StageId,
        layers: &Range<usize>,
        pass: StagePass,
        begins: bool,
    ) -> Option<TaskId> {
        let known = &self.stages[stage.0 as usize];
        let overlaps = self.lowering.sharded_overlap;
        let stay = !self.plan.gathers_weights();
        let ahead = || Some(known.gathered_for[known.gathered_for.len().checked_sub(PREFETCH + 1)?]);
        let before = if overlaps && !(stay && begins) { ahead() } else { known.passes.last().copied() };
        let mut waits: Vec<TaskId> = before.into_iter().collect();
        waits.extend(known.reductions.last().filter(|_| !overlaps));
        waits.extend(known.renewed);
        let held = self.plan.held(layers);
        let activity = Activity::GatherWeights { stage, layer: layers.start as u32 };
        let mut last = None;
        if let Some(store) = self.plan.offload().parameters {
            let kept = self.plan.kept_weights(held);
            // Tables stay where they are; only the rows that forward looks up are fetched, as many as get gradients.
            let looked_up = if pass == StagePass::Forward { kept.looked_up } else { 0 };
            let bytes = ParameterCounts { looked_up, ..kept }.gradient_bytes_in(self.plan.precision().element_bytes());
            let fetched = self.copy(stage, (CopyDirection::HostToDevice, store), bytes, &waits);
            (last, waits) = (Some(fetched), vec![fetched]);
        }
        if self.plan.shards(StateSharding::Parameters) || stay {
            let is_all = !stay || self.lowering.updated_weights == UpdatedWeights::EachForward;
            let gathered = if is_all { held } else { held.trained() };
            let stream = self.graph.stream(StreamKind::Gather(stage));
            for (group, held) in self.plan.gather_groups(gathered) {
                let work = exchange(Collective::AllGather, stage, group, Content::Weights, held);
                let gathered = self.graph.add(activity, work, stream, &waits);
                (last, waits) = (Some(gathered), vec![gathered]);
            }
        }
        last
    }

    pub(super) fn copy(
        &mut self,
        stage: StageId,
        (way, store): (CopyDirection, Store),
        bytes: Bytes,
        waits: &[TaskId],
    ) -> TaskId {
        let kind =
            if way == CopyDirection::HostToDevice { StreamKind::CopyIn(stage) } else { StreamKind::CopyOut(stage) };
        let stream = self.graph.stream(kind);
        self.graph.add(Activity::Copy { stage, way }, Work::Copy { stage, way, store, bytes }, stream, waits)
    }

    /// Adds the collectives that sum the gradients of some layers over the ranks that hold copies of them.
    pub(super) fn reduce(&mut self, stage: StageId, bucket: u32, layers: &Range<usize>, after: TaskId) {
        let stream = self.graph.stream(StreamKind::Reduce(stage));
        let activity = Activity::ReduceGradients { stage, bucket };
        for chain in self.plan.reductions(self.plan.held(layers)) {
            let mut before = after;
            for (collective, group, held) in chain {
                let work = exchange(collective, stage, group, Content::Gradients, held);
                before = self.graph.add(activity, work, stream, &[before]);
            }
            if before != after {
                self.stage(stage).reductions.push(before);
            }
        }
    }

    /// Returns `true` if a stage may end a step: the other holder of a shared table has ended its passes of that step
    /// too.
    pub(super) fn shared_gradients_are_there(&self, stage: StageId, step: u32) -> bool {
        let Some(ends) = self.table_ends() else { return true };
        !ends.contains(&stage) || self.shared_sums > step || ends.iter().all(|end| self.is_at_end_of(*end, step))
    }

    /// Returns `true` if the next piece of a stage's program ends this step.
    fn is_at_end_of(&self, stage: StageId, step: u32) -> bool {
        let known = &self.stages[stage.0 as usize];
        matches!(known.program.get(known.next), Some(Piece::Update(next)) if *next == step)
    }

    /// Returns the two stages that hold the shared embedding table, if there are two.
    fn table_ends(&self) -> Option<[StageId; 2]> {
        let stages = self.plan.stages();
        let (first, last) = (stages.at(0).0, stages.at(stages.chunks() - 1).0);
        (self.plan.shared_on_rank() > 0 && first != last).then_some([first, last])
    }

    /// Adds the shared table's reduction and the update.
    pub(super) fn end_of_step(&mut self, stage: StageId, step: u32) {
        self.reduce_shared(stage, step);
        let last = self.last_pass(stage);
        let mut waits = std::mem::take(&mut self.stage(stage).reductions);
        waits.push(last);
        let held = self.plan.held_by(stage);
        let updated = match self.plan.offload().optimizer {
            None => self.update(stage, held, &waits),
            Some(store) => self.update_on_host(stage, store, held, &waits),
        };
        let gathered = self.gather_updated(stage, held, updated).unwrap_or(updated);
        let renewed = self.keep_updated(stage, held, gathered).unwrap_or(gathered);
        self.stage(stage).renewed = Some(renewed);
        if stage == StageId(0) {
            self.graph.end_step(renewed);
        }
    }

    fn last_pass(&self, stage: StageId) -> TaskId {
        self.stages[stage.0 as usize].last_pass.expect("every stage has ended its passes")
    }

    /// Adds the reductions in one piece after the passes, where the software does not overlap them.
    pub(super) fn remaining_reductions(&mut self, stage: StageId) {
        let whole = self.lowering.bucket.is_none()
            && !self.plan.gathers_weights()
            && self.plan.gradient_reduction() == GradientReduction::Step;
        if self.plan.mesh().copies() == 1 || !whole {
            return;
        }
        let after = self.last_pass(stage);
        let chunks: Vec<Range<usize>> = self.plan.stages().chunks_of(stage).collect();
        for (number, layers) in chunks.iter().enumerate() {
            self.reduce(stage, number as u32, layers, after);
        }
    }

    /// Adds the shared table's reduction when the first of its two holders ends the step; both wait for it.
    fn reduce_shared(&mut self, stage: StageId, step: u32) {
        let Some(ends) = self.table_ends().filter(|ends| ends.contains(&stage) && self.shared_sums == step) else {
            return;
        };
        self.shared_sums += 1;
        let mut waits = Vec::new();
        for end in ends {
            waits.push(self.last_pass(end));
            waits.extend(&self.stages[end.0 as usize].reductions);
        }
        let held = ParameterCounts {
            parameters: self.plan.shared_on_rank(),
            tensors: 1,
            matrices: 1,
            ..ParameterCounts::default()
        };
        let stream = self.graph.stream(StreamKind::Reduce(ends[0]));
        let task = self.graph.add(Activity::ReduceShared, Work::ReduceShared { held }, stream, &waits);
        for end in ends {
            self.stage(end).reductions.push(task);
        }
    }

    fn update(&mut self, stage: StageId, held: ParameterCounts, waits: &[TaskId]) -> TaskId {
        let held = if self.plan.shards(StateSharding::Optimizer) { self.plan.shard_of(held) } else { held };
        let stream = self.stages[stage.0 as usize].compute;
        self.graph.add(Activity::Update { stage }, Work::Update { stage, held }, stream, waits)
    }

    /// Adds the copy of gradients to the machine unless they are there, the processor's update, and the copy of weights back if the device
    /// keeps them or other ranks need them (Ren et al., arXiv:2101.06840, figure 3).
    fn update_on_host(&mut self, stage: StageId, store: Store, held: ParameterCounts, waits: &[TaskId]) -> TaskId {
        let held = if self.plan.shards(StateSharding::Optimizer) { self.plan.shard_of(held) } else { held };
        let bytes = self.plan.changed_bytes(held, self.plan.precision().element_bytes());
        let are_there = self.lowering.gradients_on_host && self.plan.may_keep_gradients_on_host();
        let sent = (!are_there).then(|| self.copy(stage, (CopyDirection::DeviceToHost, Store::Host), bytes, waits));
        let compute = self.stages[stage.0 as usize].compute;
        let work = Work::HostUpdate { stage, store, held };
        let updated = self.graph.add(
            Activity::Update { stage },
            work,
            compute,
            sent.as_ref().map_or(waits, std::slice::from_ref),
        );
        if self.plan.offload().parameters.is_some() && !self.plan.gathers_updated() {
            return updated;
        }
        self.copy(stage, (CopyDirection::HostToDevice, Store::Host), bytes, &[updated])
    }

    /// Adds the all-gather of updated weights, where only optimizer state and gradients are sharded and no forward pass
    /// gathers them.
    fn gather_updated(&mut self, stage: StageId, held: ParameterCounts, after: TaskId) -> Option<TaskId> {
        if !self.plan.gathers_updated() || self.lowering.gathers_in_forward(self.plan, 0) {
            return None;
        }
        let stream = self.graph.stream(StreamKind::Reduce(stage));
        let activity = Activity::GatherWeights { stage, layer: self.plan.stages().chunk(stage, 0).start as u32 };
        let mut last = after;
        for (group, held) in self.plan.gather_groups(held.trained()) {
            let work = exchange(Collective::AllGather, stage, group, Content::Weights, held);
            last = self.graph.add(activity, work, stream, &[last]);
        }
        (last != after).then_some(last)
    }

    /// Adds the copy of updated weights to where they are kept, before the next step begins. To a disk they go as a
    /// copy from the device even where the processor updated them: the disk is the narrowest part of that way.
    fn keep_updated(&mut self, stage: StageId, held: ParameterCounts, after: TaskId) -> Option<TaskId> {
        let store = self.plan.updated_to()?;
        let bytes = self.plan.changed_bytes(self.plan.kept_weights(held), self.plan.precision().element_bytes());
        Some(self.copy(stage, (CopyDirection::DeviceToHost, store), bytes, &[after]))
    }
}

fn exchange(collective: Collective, stage: StageId, group: Group, content: Content, held: ParameterCounts) -> Work {
    Work::Exchange(Exchange { collective, stage, group, content, held })
}

#[cfg(test)]
mod tests {
    use crate::lower::tests::LOWERING;
    use crate::lower::{Lowering, UpdatedWeights, lower};
    use crate::offload::Store;
    use crate::schedules::ScheduleName;
    use crate::spec::{
        BatchSpec, ClusterSpec, GradientReduction, ParallelSpec, PlanSpec, Precision, StageSpec, StateSharding,
    };
    use crate::task::{Activity, CopyDirection, Task, Work};
    use crate::valid::Plan;
    use trainyard_units::Bytes;

    /// Two replicas in half precision, two micro-batches of four samples each.
    fn plan(model: &str, offload: &str) -> Plan {
        let model = &trainyard_models::find(model).expect("in the catalog").model;
        Plan::try_from(PlanSpec {
            parallel: ParallelSpec { data: 2, ..ParallelSpec::default() },
            batch: BatchSpec { global: 16, micro: 4, accumulation: 2 },
            precision: Precision::Fp16Mixed,
            offload: offload.parse().expect("a valid offload"),
            ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), model.graph().len())
        })
        .expect("a valid plan")
    }

    /// Bytes that go this way in a step.
    fn copied(plan: &Plan, wanted: (CopyDirection, Store)) -> u64 {
        copied_with(plan, LOWERING, wanted)
    }

    fn copied_with(plan: &Plan, lowering: Lowering, wanted: (CopyDirection, Store)) -> u64 {
        let graph = lower(plan, lowering);
        let bytes = |work| match work {
            Work::Copy { way, store, bytes, .. } if (way, store) == wanted => bytes.0,
            _ => 0,
        };
        graph.tasks().iter().map(|task| bytes(task.work)).sum()
    }

    #[test]
    fn updated_weights_go_where_they_are_kept() {
        let values = plan("gpt2-medium", "none").graph().parameters();
        let of = |offload, sharding| {
            let plan = plan("gpt2-medium", offload);
            let plan =
                Plan::try_from(PlanSpec { state_sharding: sharding, ..plan.spec().clone() }).expect("a valid plan");
            Store::ALL.map(|store| copied(&plan, (CopyDirection::DeviceToHost, store)))
        };
        let [half, whole] = [values, 2 * values];
        for (offload, sharding, out) in [
            ("parameters", StateSharding::None, [whole, 0]),
            ("parameters", StateSharding::Gradients, [whole, 0]),
            ("parameters", StateSharding::Parameters, [half, 0]),
            // Gradients go to the processor, which leaves weights in main memory, unless others wait for its part.
            ("parameters+optimizer", StateSharding::None, [whole, 0]),
            ("parameters+optimizer", StateSharding::Parameters, [half, 0]),
            ("parameters+optimizer", StateSharding::Gradients, [half + whole, 0]),
            ("parameters@nvme+optimizer", StateSharding::None, [whole, whole]),
            ("parameters@nvme+optimizer@nvme", StateSharding::Parameters, [half, half]),
            ("optimizer", StateSharding::None, [whole, 0]),
        ] {
            assert_eq!(of(offload, sharding), out, "{offload} with {sharding}");
        }
    }

    #[test]
    fn updated_weights_are_gathered_when_the_software_does() {
        let gathered = |updated_weights, pipeline: u32| {
            let spec = plan("gpt2-medium", "none").spec().clone();
            let layers = spec.stages[0].layers / pipeline as usize;
            let stages = (0..pipeline as usize).map(|stage| StageSpec { first: stage * layers, layers }).collect();
            let plan = Plan::try_from(PlanSpec {
                parallel: ParallelSpec { data: 2, pipeline, ..ParallelSpec::default() },
                schedule: if pipeline == 1 { ScheduleName::None } else { ScheduleName::OneForwardOneBackward },
                state_sharding: StateSharding::Optimizer,
                stages,
                ..spec
            })
            .expect("a valid plan");
            let graph = lower(&plan, Lowering { updated_weights, bucket: Some(Bytes(0)), ..LOWERING });
            let is_gather = |task: &&Task| matches!(task.activity, Activity::GatherWeights { .. });
            (graph.tasks().iter().filter(is_gather).count(), plan.graph().len())
        };
        let (in_one_piece, layers) = gathered(UpdatedWeights::AfterUpdate, 1);
        assert_eq!(in_one_piece, 1);
        assert_eq!(gathered(UpdatedWeights::FirstForward, 1).0, layers);
        assert_eq!(gathered(UpdatedWeights::EachForward, 1).0, 2 * layers, "of two micro-batches");
        for updated in [UpdatedWeights::AfterUpdate, UpdatedWeights::FirstForward, UpdatedWeights::EachForward] {
            assert_eq!(gathered(updated, 2).0, 2, "{updated:?}: once on each of two stages");
        }
    }

    #[test]
    fn gradients_in_main_memory_come_and_go_with_each_micro_batch() {
        let lowering = Lowering { gradients_on_host: true, ..LOWERING };
        let of = |state_sharding, gradient_reduction| {
            let spec = plan("gpt2-medium", "optimizer").spec().clone();
            let plan = Plan::try_from(PlanSpec { state_sharding, gradient_reduction, ..spec }).expect("a valid plan");
            let part = plan.graph().parameters() / if state_sharding == StateSharding::None { 1 } else { 2 };
            let bytes = |way| copied_with(&plan, lowering, (way, Store::Host)).div_ceil(part);
            [bytes(CopyDirection::DeviceToHost), bytes(CopyDirection::HostToDevice)]
        };
        // Two micro-batches out and back in half precision, the sum out in single precision, and weights back.
        assert_eq!(of(StateSharding::Gradients, GradientReduction::MicroBatch), [2 * 2 + 4, 2 * 2 + 2]);
        assert_eq!(of(StateSharding::Parameters, GradientReduction::MicroBatch), [2 * 2 + 4, 2 * 2 + 2]);
        // Once, where they are whole on every replica until the last micro-batch.
        assert_eq!(of(StateSharding::Optimizer, GradientReduction::Step), [2, 2]);
    }

    #[test]
    fn of_tables_only_rows_that_were_looked_up_are_copied() {
        let dense = plan("dlrm-small", "none").graph().updated_parameters();
        // One row of 128 values of each of 26 tables for each sample.
        let row = 26 * 128 * 4;
        for (offload, out, back) in [
            // Gradients, and weights, of the samples of both replicas.
            ("optimizer", 2 * dense + 16 * row, 2 * dense + 16 * row),
            // Weights for each pass, and rows for each forward pass of the own samples.
            ("parameters+optimizer", 2 * dense + 16 * row, 4 * 2 * dense + 8 * row),
        ] {
            let plan = plan("dlrm-small", offload);
            assert_eq!(copied(&plan, (CopyDirection::DeviceToHost, Store::Host)), out, "{offload}");
            assert_eq!(copied(&plan, (CopyDirection::HostToDevice, Store::Host)), back, "{offload}");
        }
    }
}
