//! What a software stack can run: which plans, on which attention kernels, and what launches it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The plans that a training framework can run, in the words of plan documents. A list that is left out allows
/// everything: software that is known only by published step times need not be able to launch a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own of the software, none a state")]
pub struct Abilities {
    /// `true` if people start trainings with it today: `auto` compares these stacks.
    pub today: bool,
    /// Targets of launch files for it, best first: `torchrun`, `megatron`, `slurm`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// Model families: `gpt`, `llama`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub families: Option<Vec<String>>,
    /// Layers with which a model is not run, `recurrent` or `regions`, each with the reason: the part of a sentence behind
    /// `because`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub layers_refused: BTreeMap<String, String>,
    /// `true` if of models of the family `blocks` those alone are trained whose blocks can be layers of Megatron Core's
    /// `GPTModel`.
    pub gpt_layers: bool,
    /// Generations of GPUs on which latent attention, whose values are narrower than its keys, is computed; all if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_attention: Option<Vec<String>>,
    /// What is on top of models that have a choice, as `plan.model.head` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<Vec<String>>,
    /// Number formats in which expert parallelism is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expert_precisions: Option<Vec<String>>,
    /// `true` if models with experts need sequence parallelism beside tensor parallelism.
    pub experts_need_sequence: bool,
    /// `true` if experts are shared out over the ranks of a stage as they are numbered, those of a tensor group and parts of
    /// a sample too, so that tensor parallelism splits no expert.
    pub folds_experts: bool,
    /// `true` if ranks that share experts cannot shard states besides.
    pub experts_need_whole_states: bool,
    /// Kinds of parallelism besides data parallelism: `tensor`, `sequence`, `pipeline`, `context`, `expert`, and
    /// `tables` for embedding tables that are sharded over ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degrees: Option<Vec<String>>,
    /// Degrees that need the fused attention of newer GPUs: software that computes attention in separate kernels on
    /// older ones lacks them there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub degrees_with_fused_attention: Vec<String>,
    /// Pipeline schedules, as `plan.schedule` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedules: Option<Vec<String>>,
    /// Number formats, as `plan.precision` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precisions: Option<Vec<String>>,
    /// Activation recomputation, as `plan.recompute` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recompute: Option<Vec<String>>,
    /// States that replicas may shard, as `plan.state_sharding` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_sharding: Option<Vec<String>>,
    /// `true` if replicas shard flat runs of values, so that optimizers with a rate for each tensor (LAMB, LARS) need whole
    /// states.
    pub flat_shards: bool,
    /// `true` if states can be sharded inside each machine and replicated across machines (HSDP, MiCS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hybrid_sharding: Option<bool>,
    /// Supported frequencies of gradient reduction, as `plan.gradient_reduction` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_reduction: Option<Vec<String>>,
    /// Gradient compression, as `plan.gradient_compression` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_compression: Option<Vec<String>>,
    /// The least `plan.state_sharding` with which gradients are summed after each micro-batch in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduces_micro_batches_from: Option<String>,
    /// States that can be kept off the GPUs, as `plan.offload` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<Vec<String>>,
    /// The least `plan.state_sharding` with which something is kept off the GPUs: `optimizer`, `activations`,
    /// `parameters`, or anything on `nvme`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub offload_needs: BTreeMap<String, String>,
    /// `true` if of activations only the inputs of recomputed blocks (checkpoints) can be kept off the GPUs.
    pub offloads_checkpoints: bool,
    /// Collective algorithms and libraries, as `plan.collectives` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collectives: Option<Vec<String>>,
    /// Rank placements, as `plan.placement` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placements: Option<Vec<String>>,
    /// Optimizers, as `plan.optimizer` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizers: Option<Vec<String>>,
    /// Which weights can be trained where not all are, as `plan.fine_tuning.method` names it: software that loads adapters
    /// (PEFT), and quantised weights (bitsandbytes).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fine_tuning: Vec<String>,
    /// Why methods of fine-tuning are not planned that people may expect of the software, by their names: the part of a
    /// sentence behind `because`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fine_tuning_refused: BTreeMap<String, String>,
    /// Which weights can be trained on preferences (TRL's `DPOTrainer`), as `plan.fine_tuning.method` names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dpo: Vec<String>,
    /// `true` if a model of which a part is trained can be split as any other; by data parallelism alone if not.
    pub splits_tuned: bool,
    /// `true` if each rank of a machine holds the whole model in single precision in main memory before its state is sharded.
    pub whole_on_every_rank: bool,
    /// `true` if the software trains its own implementations of models on data in its own format, so that a user
    /// converts both: Megatron-LM.
    pub own_models: bool,
    /// `true` if the model is compiled (`torch.compile`).
    pub compiled: bool,
    /// `true` if the optimizer's update is one fused kernel for all tensors.
    pub fused_optimizer: bool,
    /// The attention kernel by GPU generation (`Volta = "memory-efficient"`); `other` for those that are not named.
    /// Unfused if left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attention: BTreeMap<String, String>,
    /// The kernel, on all GPUs, for attention that adds a trained bias to the scores: flash kernels take none. Unfused if left
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub biased_attention: Option<String>,
    /// The documentation that states this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Abilities {
    /// Returns the attention kernel that the stack chooses on a generation of GPUs, if it is known.
    pub fn attention_on(&self, generation: &str) -> Option<&str> {
        self.attention.get(generation).or_else(|| self.attention.get("other")).map(String::as_str)
    }
}
