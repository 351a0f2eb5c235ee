//! The complexity of a plan beyond data parallelism.

use super::space::{Candidate, Variant};
use trainyard_plan::{GradientCompression, Offload, ParallelSpec, Plan, Precision, StateSharding};

/// The deepest pipeline that is usual: that of Llama 3 405B (Llama Team, arXiv:2407.21783, table 4).
pub(super) const DEEPEST_USUAL: u32 = 16;

/// The settings that are ordinary on the devices and with the software of a choice: nobody has to think about them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordinary {
    /// The number format in which people train on such devices.
    pub(crate) precision: Precision,
    /// `true` if models and data stay as they are, in a script of the user's own.
    pub(crate) own_scripts: bool,
    /// `true` if PyTorch itself runs the training, and no library on top of it that shards states (DeepSpeed).
    pub(crate) own_engine: bool,
    /// Number of repeated layers, which stages usually share evenly.
    pub(crate) blocks: u32,
    /// What people do about the optimizer's state of replicas.
    pub(crate) optimizer_state: OptimizerState,
}

/// Whether replicas share the optimizer's state out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptimizerState {
    /// As one likes: it is a switch of the software, or nothing that it can do.
    Either,
    /// Adapters alone are trained, whose state is too small to be worth it, with software that is there to do that.
    TooSmall,
    /// Unless somebody forbids it: the distributed optimizer of Megatron-LM, ZeRO of DeepSpeed. Nobody leaves it out to be a
    /// little faster with hardly any memory left.
    Shared,
}

/// The complexity of a plan beyond data parallelism, the most telling figure first. Less is simpler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own, in order of weight")]
pub(crate) struct Complexity {
    /// `true` if numbers are wider or narrower than those in which people train on such devices.
    unusual_format: bool,
    /// Number of kinds of offloaded state.
    offloads: u32,
    /// `true` if the stages of a pipeline cannot have the same number of repeated layers: what software takes only with a
    /// list of them.
    uneven: bool,
    /// `true` if a pipeline is deeper than people run them: every stage waits for the slowest, and for each that fails.
    deep: bool,
    /// Number of kinds of parallelism besides data parallelism.
    kinds: u32,
    /// Number of other features that must work: sharded gradients or parameters, hybrid sharding, interleaving,
    /// converted models and data, a library on top of PyTorch, software that shards what is too small for it, or that does
    /// not share out what it usually does.
    parts: u32,
    /// `true` if one of these is that the optimizer's state is shared out where that is not usual, or not where it is.
    unusual_states: bool,
    /// `true` if models and data must be converted, and weights back: of as many parts that is the most work.
    converted: bool,
    /// `true` if gradients are compressed, which is a line in a script.
    compressed: bool,
}

impl Complexity {
    /// Returns what has to be set up for a plan, its other features aside: less is plainer.
    pub(crate) fn set_up(self) -> impl Ord {
        (self.unusual_format, self.offloads, self.uneven, self.deep, self.kinds, self.converted)
    }

    /// Returns `true` if the same has to be set up for both, and the optimizer's state is shared out as is usual, or not, in
    /// both.
    pub(crate) fn differs_in_switches(self, other: Self) -> bool {
        self.set_up() == other.set_up() && self.unusual_states == other.unusual_states
    }

    /// Returns `true` if models and data must be converted.
    pub(crate) fn is_converted(self) -> bool {
        self.converted
    }

    pub(crate) fn of(plan: &Plan, ordinary: Ordinary) -> Self {
        let variant = Variant {
            schedule: plan.schedule(),
            virtual_stages: plan.stages().chunks_per_stage(),
            state_sharding: plan.state_sharding(),
            sharding_ranks: plan.sharding_ranks(),
            gradient_reduction: plan.gradient_reduction(),
            gradient_compression: plan.gradient_compression(),
            offload: plan.offload(),
        };
        Self::of_parts(plan.mesh().parallel(), plan.precision(), &variant, ordinary)
    }

    /// Computes the complexity of a variant of a candidate.
    pub(crate) fn of_variant(candidate: &Candidate, variant: &Variant, ordinary: Ordinary) -> Self {
        Self::of_parts(candidate.parallel, candidate.precision, variant, ordinary)
    }

    fn of_parts(parallel: ParallelSpec, precision: Precision, variant: &Variant, ordinary: Ordinary) -> Self {
        // A distributed optimizer is a switch of the software; gradients and parameters that come and go are not.
        let for_adapters = ordinary.optimizer_state == OptimizerState::TooSmall;
        let switch = if for_adapters { StateSharding::None } else { StateSharding::Optimizer };
        let replicas = parallel.data * parallel.context;
        let shared = ordinary.optimizer_state == OptimizerState::Shared;
        let unusual_states = for_adapters || shared && replicas > 1 && variant.state_sharding == StateSharding::None;
        let parts = [
            unusual_states,
            variant.state_sharding > switch,
            variant.schedule.is_interleaved(),
            variant.sharding_ranks.is_some(),
            !ordinary.own_scripts,
            !ordinary.own_engine,
        ];
        Self {
            unusual_format: precision != ordinary.precision,
            offloads: offloads(variant.offload),
            uneven: is_uneven(ordinary.blocks, parallel.pipeline, variant.virtual_stages),
            deep: parallel.pipeline > DEEPEST_USUAL,
            kinds: parallel.kinds(),
            parts: parts.iter().filter(|part| **part).count() as u32,
            unusual_states,
            converted: !ordinary.own_scripts,
            compressed: variant.gradient_compression != GradientCompression::None,
        }
    }
}

/// Returns `true` if so many repeated layers cannot be shared evenly by the stages of a pipeline, with so many runs of
/// layers each.
pub(super) fn is_uneven(blocks: u32, stages: u32, runs: u32) -> bool {
    stages > 1 && !blocks.is_multiple_of(stages * runs)
}

fn offloads(offload: Offload) -> u32 {
    [offload.activations, offload.optimizer, offload.parameters].iter().flatten().count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDINARY: Ordinary = Ordinary {
        precision: Precision::Bf16Mixed,
        own_scripts: true,
        own_engine: true,
        blocks: 40,
        optimizer_state: OptimizerState::Either,
    };

    #[test]
    fn plain_data_parallelism_goes_before_that_of_a_library() {
        let of = |own_engine, state_sharding| {
            let variant = Variant { state_sharding, ..Variant::PLAIN };
            let ordinary = Ordinary { own_engine, ..ORDINARY };
            Complexity::of_parts(ParallelSpec::default(), Precision::Bf16Mixed, &variant, ordinary)
        };
        assert!(of(true, StateSharding::None) < of(false, StateSharding::Optimizer));
        assert!(of(true, StateSharding::Gradients) < of(false, StateSharding::Gradients));
    }

    #[test]
    fn a_hook_goes_before_sharding_and_behind_neither() {
        let of = |variant| Complexity::of_parts(ParallelSpec::default(), Precision::Bf16Mixed, &variant, ORDINARY);
        let hooked = of(Variant { gradient_compression: GradientCompression::Bf16, ..Variant::PLAIN });
        let sharded = of(Variant { state_sharding: StateSharding::Gradients, ..Variant::PLAIN });
        assert!(of(Variant::PLAIN) < hooked && hooked < sharded && hooked.set_up() == of(Variant::PLAIN).set_up());
    }

    #[test]
    fn fewer_kinds_of_parallelism_go_before_fewer_parts_and_usual_formats_before_both() {
        let plain = ParallelSpec { data: 8, ..ParallelSpec::default() };
        let of = |parallel, precision, variant: Variant| Complexity::of_parts(parallel, precision, &variant, ORDINARY);
        let bf16 = Precision::Bf16Mixed;
        let data = of(plain, bf16, Variant::PLAIN);
        let sharded = Variant { state_sharding: StateSharding::Parameters, ..Variant::PLAIN };
        let sharded = of(plain, bf16, sharded);
        let tensor = of(ParallelSpec { tensor: 2, ..plain }, bf16, Variant::PLAIN);
        let single = of(plain, Precision::Fp32, Variant::PLAIN);
        assert!(data < sharded && sharded < tensor && tensor < single);
        let stages = |pipeline| of(ParallelSpec { pipeline, ..plain }, bf16, Variant::PLAIN);
        let both = of(ParallelSpec { tensor: 2, pipeline: 4, ..plain }, bf16, Variant::PLAIN);
        assert!(stages(4) == tensor && both < stages(6) && stages(6) < single);
        assert!(both < stages(20) && stages(20) < stages(6));
    }

    #[test]
    fn scripts_of_ones_own_go_before_converted_models() {
        let of = |own_scripts, state_sharding| {
            let variant = Variant { state_sharding, ..Variant::PLAIN };
            let ordinary = Ordinary { own_scripts, ..ORDINARY };
            Complexity::of_parts(ParallelSpec::default(), Precision::Bf16Mixed, &variant, ordinary)
        };
        let [fsdp, megatron] = [of(true, StateSharding::Parameters), of(false, StateSharding::Optimizer)];
        assert!(fsdp < megatron && fsdp.set_up() < megatron.set_up());
        assert!(megatron < of(false, StateSharding::Parameters));
    }

    #[test]
    fn a_distributed_optimizer_is_usual_where_the_software_has_one() {
        let of = |data, state_sharding| {
            let ordinary = Ordinary { optimizer_state: OptimizerState::Shared, own_scripts: false, ..ORDINARY };
            let variant = Variant { state_sharding, ..Variant::PLAIN };
            let parallel = ParallelSpec { data, ..ParallelSpec::default() };
            Complexity::of_parts(parallel, Precision::Bf16Mixed, &variant, ordinary)
        };
        let (none, optimizer) = (StateSharding::None, StateSharding::Optimizer);
        assert!(of(8, optimizer) < of(8, none) && of(8, optimizer) < of(8, StateSharding::Gradients));
        // One replica has nobody to share it with.
        assert_eq!(of(1, none), of(8, optimizer));
    }

    #[test]
    fn the_optimizer_state_of_adapters_is_not_worth_sharing_out() {
        let of = |optimizer_state, state_sharding| {
            let ordinary = Ordinary { optimizer_state, ..ORDINARY };
            let variant = Variant { state_sharding, ..Variant::PLAIN };
            Complexity::of_parts(ParallelSpec::default(), Precision::Bf16Mixed, &variant, ordinary)
        };
        let (none, optimizer) = (StateSharding::None, StateSharding::Optimizer);
        let (either, small) = (OptimizerState::Either, OptimizerState::TooSmall);
        assert_eq!(of(either, none), of(either, optimizer));
        assert!(of(either, none) < of(small, none) && of(small, none) < of(small, optimizer));
    }
}
