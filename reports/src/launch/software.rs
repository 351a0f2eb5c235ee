//! The software that runs a plan: what the stack that it was priced with says, else what such plans are started with.

use super::Target;
use super::error::LaunchError;
use super::job::Job;
use trainyard_hardware_profiles::{EXECUTOR_STACK, Stack};
use trainyard_plan::operators::AttentionKernel;
use trainyard_plan::{Offload, Plan, StateSharding};

/// The software that runs the steps of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// Trainyard's own executor.
    Executor,
    /// Megatron-LM's training scripts.
    Megatron,
    Deepspeed,
    /// PyTorch's FullyShardedDataParallel.
    Fsdp,
    /// PyTorch's DistributedDataParallel.
    Ddp,
}

impl Engine {
    pub(super) const ALL: &[Self] = &[Self::Executor, Self::Megatron, Self::Deepspeed, Self::Fsdp, Self::Ddp];
    /// Those that are Python scripts, which any launcher of processes starts.
    pub(super) const SCRIPTS: &[Self] = &[Self::Megatron, Self::Deepspeed, Self::Fsdp, Self::Ddp];

    /// Returns the engine of a stack of the catalog; `None` for software that no launch file starts, such as frameworks
    /// that are known by published step times only.
    pub(super) fn of_stack(name: &str) -> Option<Self> {
        let known = [
            ("megatron", Self::Megatron),
            ("deepspeed", Self::Deepspeed),
            ("pytorch-fsdp", Self::Fsdp),
            ("llm-foundry-fsdp", Self::Fsdp),
            ("pytorch-ddp", Self::Ddp),
        ];
        if name == EXECUTOR_STACK {
            return Some(Self::Executor);
        }
        known.into_iter().find(|(start, _)| name.starts_with(start)).map(|(_, engine)| engine)
    }

    /// Returns the usual engine of a plan that names no stack: Megatron-LM where ranks share layers, tokens or experts;
    /// DeepSpeed where FSDP cannot express how states are kept, because FSDP shards gradients as soon as anything and
    /// offloads everything or nothing.
    fn of_plan(plan: &Plan) -> Self {
        let parallel = plan.mesh().parallel();
        let degrees = [parallel.tensor, parallel.pipeline, parallel.context, parallel.expert];
        if degrees.iter().any(|degree| *degree > 1) {
            return Self::Megatron;
        }
        match plan.state_sharding() {
            StateSharding::Optimizer => Self::Deepspeed,
            _ if plan.offload() != Offload::NONE => Self::Deepspeed,
            StateSharding::None => Self::Ddp,
            StateSharding::Gradients | StateSharding::Parameters => Self::Fsdp,
        }
    }

    /// Returns the engine that a target starts for a plan.
    pub(super) fn of(job: &Job<'_>, target: Target) -> Self {
        let of_stack = job.stack().and_then(|stack| Self::of_stack(&stack.name));
        of_stack.unwrap_or_else(|| match target {
            // Documents that name no stack were made for the executor there.
            Target::Slurm if job.stack().is_none() => Self::Executor,
            _ => Self::of_plan(job.plan()),
        })
    }
}

/// Refuses a target that does not start the software of the plan's stack.
pub(super) fn starts_the_stack(job: &Job<'_>, target: Target) -> Result<(), LaunchError> {
    let Some(stack) = job.stack() else { return Ok(()) };
    let listed = stack.runs.targets.is_empty() || stack.runs.targets.iter().any(|name| name == target.name());
    if listed && Engine::of_stack(&stack.name).is_none_or(|engine| target.starts().contains(&engine)) {
        return Ok(());
    }
    let why = format!("launch files for {} do not start it", target.title());
    Err(LaunchError::Inexpressible { field: "plan.stack", value: stack.name.clone(), why, others: Vec::new() })
}

/// The attention kernel that a stack chooses on GPUs of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attention<'a> {
    /// The kernel's name in the catalog: `flash`, `memory-efficient`, `fused`, `unfused`.
    pub(super) kernel: &'a str,
    /// The generation of the GPUs.
    pub(super) generation: &'a str,
}

impl<'a> Attention<'a> {
    /// Returns the attention kernel of a stack on GPUs of a generation, for a model that was priced with a kernel.
    pub(super) fn of(stack: &'a Stack, generation: &'a str, priced: AttentionKernel) -> Self {
        let kernel = match priced {
            AttentionKernel::Flash => stack.runs.attention_on(generation).unwrap_or("unfused"),
            own => own.name(),
        };
        Self { kernel, generation }
    }

    /// Returns `true` if attention scores go through memory.
    pub(super) fn is_unfused(self) -> bool {
        self.kernel == "unfused"
    }

    /// Returns `true` if NVIDIA's Transformer Engine has no kernels for the GPUs; it has them from Ampere on.
    pub(super) fn is_before_transformer_engine(self) -> bool {
        !is_from("Ampere", self.generation)
    }
}

/// Generations of NVIDIA's GPUs by their compute capability, the lowest first.
const GENERATIONS: [&str; 7] = ["Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell"];

/// Returns `true` if GPUs of a generation have the compute capability of those of `first` at least. Generations that are
/// not known are newer than these.
fn is_from(first: &str, generation: &str) -> bool {
    let at = |name: &str| GENERATIONS.iter().position(|known| *known == name).unwrap_or(GENERATIONS.len());
    at(generation) >= at(first)
}

/// Returns `true` if Transformer Engine computes attention with cuDNN's kernels rather than those of the package flash-attn on
/// GPUs of a generation, with which stacks are priced there.
///
/// # Source
///
/// Transformer Engine 2, `transformer_engine/pytorch/attention/dot_product_attention/utils.py`, `get_attention_backend`:
/// from compute capability 9.0 on.
pub(super) fn prefers_cudnn(generation: &str) -> bool {
    is_from("Hopper", generation)
}

/// Returns `true` if Megatron-LM wants kernels and transfers launched in one order on GPUs of a generation.
///
/// # Source
///
/// NVIDIA Megatron-LM, core 0.16, `validate_args` in `megatron/training/arguments.py`: below compute capability 10.
pub(super) fn wants_launches_in_order(generation: &str) -> bool {
    !is_from("Blackwell", generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_generation_needs_follows_from_its_compute_capability() {
        let of = |generation| {
            let before = Attention { kernel: "flash", generation }.is_before_transformer_engine();
            [before, prefers_cudnn(generation), wants_launches_in_order(generation)]
        };
        assert_eq!(["Volta", "Turing"].map(of), [[true, false, true]; 2]);
        assert_eq!(["Ampere", "Ada"].map(of), [[false, false, true]; 2]);
        assert_eq!(of("Hopper"), [false, true, true]);
        assert_eq!(["Blackwell", "one that is newer"].map(of), [[false, true, false]; 2]);
    }

    #[test]
    fn stacks_of_one_engine_share_a_name() {
        for (name, engine) in [
            ("megatron-core", Some(Engine::Megatron)),
            ("deepspeed", Some(Engine::Deepspeed)),
            ("deepspeed-zero3", Some(Engine::Deepspeed)),
            ("pytorch-fsdp-compiled", Some(Engine::Fsdp)),
            ("pytorch-ddp", Some(Engine::Ddp)),
            ("trainyard-executor", Some(Engine::Executor)),
            ("pytorch", None),
            ("tensorflow2-xla", None),
        ] {
            assert_eq!(Engine::of_stack(name), engine, "{name}");
        }
    }
}
