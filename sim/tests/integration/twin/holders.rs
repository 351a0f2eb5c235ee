//! What the holders of the same parameters do: sum gradients, bring weights together, update.

use super::author::{Author, Own};
use super::schedules::Pass;
use super::script::Stream;
use std::ops::Range;
use trainyard_hardware_profiles::UpdatedWeights;
use trainyard_plan::{
    Activity, Collective, Content, CopyDirection, Exchange, GradientReduction, Group, ParameterCounts, StageId,
    StagePass, StateSharding, Store, Work,
};
use trainyard_units::Bytes;

/// Something that is done with the others of a group.
type Common = (Collective, Group, Content, ParameterCounts);

impl Author<'_> {
    /// Whether weights are not on the device until they are needed.
    pub(crate) fn weights_come(&self) -> bool {
        self.shares_out(StateSharding::Parameters) || self.plan.offload().parameters.is_some()
    }

    /// Whether weights come back with a forward pass that the sharers of their optimizer state have updated in parts.
    pub(crate) fn weights_return(&self, pass: Pass) -> bool {
        let in_parts = self.shares_out(StateSharding::Optimizer) && !self.weights_come();
        let is_time = match self.updated {
            UpdatedWeights::AfterUpdate => false,
            UpdatedWeights::FirstForward => pass.micro_batch.is_multiple_of(self.micro_batches),
            UpdatedWeights::EachForward => true,
        };
        in_parts && is_time && self.stages == 1 && pass.kind == StagePass::Forward
    }

    /// Whether gradients are summed beside the last backward of a step: in buckets, or layer by layer.
    pub(crate) fn overlaps_reductions(&self) -> bool {
        self.bucket.is_some() || self.weights_come()
    }

    /// Weights come one layer ahead: when the layer before the one that computes with its own at the moment is done,
    /// and not before the step before has ended. Where they do not come beside kernels, nothing computes and nothing is
    /// reduced while they come. From the machine comes what the rank keeps there, its part if it has only a part.
    /// Weights that stay for backward have no room ahead: a pass asks for its first when it begins.
    pub(crate) fn weights(&mut self, own: &Own, layers: &Range<usize>, is_first: bool) -> usize {
        let mut after: Vec<usize> = own.ends.last().copied().into_iter().collect();
        let stay = !self.weights_come();
        if self.gathers_beside && stay && is_first {
            after.extend(own.kernels_before(0));
        } else if self.gathers_beside {
            after.extend(own.with_weights.iter().nth_back(1));
        } else {
            after.extend(own.kernels_before(0));
            after.extend(own.reductions.last());
        }
        let all = self.plan.held(layers);
        let shares = self.shares_out(StateSharding::Parameters);
        if let Some(store) = self.plan.offload().parameters {
            let kept = if shares { self.part(own, all) } else { all };
            let bytes = Bytes(kept.parameters * self.plan.precision().element_bytes());
            after = vec![self.copy(own, (CopyDirection::HostToDevice, store), bytes, &after)];
        }
        if shares || stay {
            let label = Activity::GatherWeights { stage: StageId(own.stage), layer: layers.start as u32 };
            after = vec![self.gather(own, Stream::Gather, all, label, &after)];
        }
        after[0]
    }

    /// Among whom experts are shared out: their holders, or, where all hold all of them, those that share out the rest.
    fn sharers_of_experts(&self, own: &Own) -> (Group, Vec<usize>) {
        let holders = self.ranks.holders_of_experts(own.rank);
        if holders.len() == self.ranks.holders(own.rank).len() {
            (Group::Shard, self.ranks.sharers(own.rank))
        } else {
            (Group::ExpertGradient, holders)
        }
    }

    /// Everybody gets the weights that others have a part of: those of experts from fewer, where they are spread.
    fn gather(&mut self, own: &Own, stream: Stream, held: ParameterCounts, label: Activity, after: &[usize]) -> usize {
        let (dense, experts) = apart(held);
        let gathered = (Collective::AllGather, Group::Shard, Content::Weights, dense);
        let last = self.together(own, stream, gathered, label, after);
        let (group, sharers) = self.sharers_of_experts(own);
        if experts.parameters == 0 || sharers.len() == 1 {
            return last;
        }
        let gathered = (Collective::AllGather, group, Content::Weights, experts);
        self.together(own, stream, gathered, label, &[last])
    }

    /// Sums gradients of layers over the holders of copies, once their last kernels have ended. Where a state is shared
    /// out, each of the sharers gets its part of the sum over them, and then sums that with those who have the same part.
    pub(crate) fn reduce(&mut self, own: &mut Own, bucket: u32, layers: &Range<usize>, after: usize) {
        let label = Activity::ReduceGradients { stage: StageId(own.stage), bucket };
        let (dense, experts) = apart(self.plan.held(layers));
        let (copies, shard) = (self.ranks.copies(), self.ranks.shard());
        let shares = self.shares_out(StateSharding::Optimizer);
        let mut sum = |own: &mut Own, collective, group, held, after| {
            self.together(own, Stream::Reduce, (collective, group, Content::Gradients, held), label, &[after])
        };
        let over_holders = if shares { Collective::ReduceScatter } else { Collective::AllReduce };
        let mut reduced = sum(own, over_holders, if shares { Group::Shard } else { Group::Gradient }, dense, after);
        if shares && copies > shard {
            let part = ParameterCounts { parameters: dense.parameters.div_ceil(u64::from(shard)), ..dense };
            reduced = sum(own, Collective::AllReduce, Group::ShardReplicas, part, reduced);
        }
        own.reductions.push(reduced);
        if experts.parameters > 0 && self.ranks.holders_of_experts(own.rank).len() > 1 {
            let (group, sharers) = self.sharers_of_experts(own);
            let group = if shares { group } else { Group::ExpertGradient };
            let what = (over_holders, group, Content::Gradients, experts);
            let mut reduced = self.together(own, Stream::Reduce, what, label, &[after]);
            if shares && group == Group::Shard && copies > shard {
                let part = ParameterCounts { parameters: experts.parameters.div_ceil(sharers.len() as u64), ..experts };
                let what = (Collective::AllReduce, Group::ShardReplicas, Content::Gradients, part);
                reduced = self.together(own, Stream::Reduce, what, label, &[reduced]);
            }
            own.reductions.push(reduced);
        }
    }

    pub(crate) fn end_of_step(&mut self, own: &mut Own) {
        let last = own.kernels_before(0).expect("a step has passes");
        let runs: Vec<Range<usize>> =
            (0..self.runs).map(|run| self.cut[(run * self.stages + own.stage) as usize].clone()).collect();
        let is_once = self.plan.gradient_reduction() == GradientReduction::Step;
        if self.ranks.copies() > 1 && is_once && !self.overlaps_reductions() {
            for (run, layers) in (0..).zip(&runs) {
                self.reduce(own, run, layers, last);
            }
        }
        self.reduce_shared(own, last);
        let held =
            runs.iter().map(|layers| self.plan.held(layers)).fold(ParameterCounts::default(), std::ops::Add::add);
        let shares = self.shares_out(StateSharding::Optimizer);
        let part = if shares { self.part(own, held) } else { held };
        let after: Vec<usize> = own.reductions.drain(..).chain([last]).collect();
        // Each of the sharers has updated its part of weights that all of them hold.
        let all_hold = shares && !self.shares_out(StateSharding::Parameters);
        let offload = self.plan.offload();
        let mut end = if let Some(store) = offload.optimizer {
            self.update_on_machine(own, store, part, offload.parameters.is_none() || all_hold, &after)
        } else {
            let seconds = self.slowest(own.rank, |kind| self.update_seconds(part, kind));
            self.kernels(own, Activity::Update { stage: StageId(own.stage) }, &after, seconds)
        };
        let returns_later =
            self.updated != UpdatedWeights::AfterUpdate && self.stages == 1 && offload.parameters.is_none();
        if all_hold && !returns_later {
            let label = Activity::GatherWeights { stage: StageId(own.stage), layer: runs[0].start as u32 };
            end = self.gather(own, Stream::Reduce, held, label, &[end]);
        }
        // What the processor has in main memory is where it belongs, unless that is the disk.
        let from_device = offload.optimizer.is_none() || all_hold;
        if let Some(store) = offload.parameters.filter(|store| from_device || *store == Store::Nvme) {
            let kept = if all_hold { held } else { part };
            let bytes = Bytes(kept.parameters * self.plan.precision().element_bytes());
            end = self.copy(own, (CopyDirection::DeviceToHost, store), bytes, &[end]);
        }
        own.ends.push(end);
    }

    /// Whether a pass ends with gradients of which a rank's part lives in main memory.
    pub(crate) fn leaves(&self, pass: Pass) -> bool {
        pass.gives_gradients() && self.gradients_live_there()
    }

    fn gradients_live_there(&self) -> bool {
        let each = self.plan.gradient_reduction() == GradientReduction::MicroBatch || self.micro_batches == 1;
        let has_part = self.ranks.copies() == 1 || self.shares_out(StateSharding::Gradients) && each;
        self.keeps_gradients_there && self.plan.offload().optimizer.is_some() && has_part
    }

    /// What is there comes to be added to, and goes back; in single precision too when the processor reads it next.
    pub(crate) fn leave(&mut self, own: &mut Own, pass: Pass, layers: &Range<usize>, kernels: usize) {
        let held = self.plan.held(layers);
        let part = if self.shares_out(StateSharding::Optimizer) { self.part(own, held) } else { held };
        let is_last = (pass.micro_batch + 1).is_multiple_of(self.micro_batches);
        let value = self.plan.precision().element_bytes();
        let reduced = own.reductions.last().copied().filter(|_| self.ranks.copies() > 1).unwrap_or(kernels);
        for (way, each) in
            [(CopyDirection::HostToDevice, value), (CopyDirection::DeviceToHost, value + if is_last { 4 } else { 0 })]
        {
            let copied = self.copy(own, (way, Store::Host), Bytes(part.parameters * each), &[reduced]);
            own.reductions.push(copied);
        }
    }

    /// Gradients go to the machine, its processor updates, and weights come back if the device needs them (Ren et al.,
    /// arXiv:2101.06840, figure 3).
    fn update_on_machine(
        &mut self,
        own: &Own,
        store: Store,
        part: ParameterCounts,
        returns: bool,
        after: &[usize],
    ) -> usize {
        let stage = StageId(own.stage);
        let bytes = Bytes(part.parameters * self.plan.precision().element_bytes());
        let sent = if self.gradients_live_there() {
            after.to_vec()
        } else {
            vec![self.copy(own, (CopyDirection::DeviceToHost, Store::Host), bytes, after)]
        };
        let work = Work::HostUpdate { stage, store, held: part };
        let updated = self.communicate(own, Stream::Compute, work, &[own.rank], Activity::Update { stage }, &sent);
        if returns { self.copy(own, (CopyDirection::HostToDevice, Store::Host), bytes, &[updated]) } else { updated }
    }

    /// A table that the first and the last stage both hold has gradients on both: they are summed when both have all.
    fn reduce_shared(&mut self, own: &mut Own, last: usize) {
        let shared = self.plan.graph().shared_parameters().div_ceil(u64::from(self.plan.mesh().tensor()));
        let ends = [0, self.stages - 1];
        if shared == 0 || self.stages == 1 || !ends.contains(&own.stage) {
            return;
        }
        let members = ends.map(|stage| self.ranks.partner(own.rank, stage));
        let work = Work::ReduceShared {
            held: ParameterCounts { parameters: shared, tensors: 1, matrices: 1, ..ParameterCounts::default() },
        };
        let after: Vec<usize> = own.reductions.iter().copied().chain([last]).collect();
        let reduced = self.communicate(own, Stream::Reduce, work, &members, Activity::ReduceShared, &after);
        own.reductions.push(reduced);
    }

    /// What one of those that share out a state has of it.
    fn part(&self, own: &Own, held: ParameterCounts) -> ParameterCounts {
        let (dense, experts) = apart(held);
        let (_, sharers) = self.sharers_of_experts(own);
        let experts = experts.parameters.div_ceil(sharers.len() as u64);
        ParameterCounts {
            parameters: dense.parameters.div_ceil(u64::from(self.ranks.shard())) + experts,
            experts,
            ..held
        }
    }

    /// A rank does something with the others of a group.
    fn together(&mut self, own: &Own, stream: Stream, what: Common, label: Activity, after: &[usize]) -> usize {
        let (collective, group, content, held) = what;
        let members = match group {
            Group::Gradient => self.ranks.holders(own.rank),
            Group::ExpertGradient => self.ranks.holders_of_experts(own.rank),
            Group::Shard => self.ranks.sharers(own.rank),
            Group::ShardReplicas => self.ranks.holders_of_part(own.rank),
            Group::Tensor | Group::Context | Group::Expert => unreachable!("they meet inside layers"),
        };
        let work = Work::Exchange(Exchange { collective, stage: StageId(own.stage), group, content, held });
        self.communicate(own, stream, work, &members, label, after)
    }
}

/// What every rank of a stage holds a copy of, and experts, of which fewer do. There are no tables in these models.
fn apart(held: ParameterCounts) -> (ParameterCounts, ParameterCounts) {
    let dense = ParameterCounts { parameters: held.parameters - held.experts, experts: 0, ..held };
    let any = u32::from(held.experts > 0);
    (
        dense,
        ParameterCounts {
            parameters: held.experts,
            experts: held.experts,
            tensors: any,
            matrices: any,
            ..ParameterCounts::default()
        },
    )
}
