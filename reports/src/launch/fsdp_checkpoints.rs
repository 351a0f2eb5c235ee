//! What FSDP saves under transformers' Trainer.
//!
//! # Source
//!
//! Hugging Face transformers 5.24, `save_model` and `_save_optimizer_and_scheduler` in `src/transformers/trainer.py`:
//! shards are saved by `save_fsdp_model` alone, and the model that a script saves in the end is none at all
//! (huggingface/transformers issue 30491); whole states go to `save_pretrained` too. accelerate 1.15, `get_state_dict` in
//! `src/accelerate/accelerator.py`, which gathers weights that are not trained as well, in main memory of the first rank,
//! and `save_fsdp_model` in `utils/fsdp_utils.py`, whose adapters are whole since huggingface/accelerate pull request 4206.
//! TRL 1.16, `trl/accelerate_configs/fsdp2.yaml`, has whole states for all that it trains.

use super::draft::Draft;
use super::fine_tuning::download_bytes;
use trainyard_units::{Bytes, human_bytes};

/// The part of a machine's main memory that a gathered model may take: a stated default. The rest is the system's, the data
/// loader's and the ranks' own.
const GATHERABLE: f64 = 0.8;

/// The files of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checkpoints {
    /// Each rank writes its shard of the weights that are trained; `adapters`: these are of adapters.
    Shards { adapters: bool },
    /// The first rank writes adapters as PEFT loads them, for which it gathers the whole model.
    Adapters { gathered: Bytes },
}

/// Returns how a plan's states are saved: adapters as PEFT loads them where the whole model has room in main memory, and
/// everything else in shards, as checkpoints are priced.
pub(super) fn of(draft: &Draft<'_>) -> Checkpoints {
    let plan = draft.job.plan();
    if !plan.method().has_adapters() {
        return Checkpoints::Shards { adapters: false };
    }
    let gathered = Bytes(download_bytes(plan));
    let room = |gib: f64| gathered.as_f64() <= GATHERABLE * gib * (1_u64 << 30) as f64;
    if draft.job.memory_gib().is_none_or(room) {
        Checkpoints::Adapters { gathered }
    } else {
        Checkpoints::Shards { adapters: true }
    }
}

impl Checkpoints {
    /// Returns PyTorch's name of it.
    pub(super) fn state_dict_type(self) -> &'static str {
        match self {
            Self::Shards { .. } => "SHARDED_STATE_DICT",
            Self::Adapters { .. } => "FULL_STATE_DICT",
        }
    }

    /// Returns the files without which a checkpoint is not whole. Those of shards are written once all ranks have written
    /// theirs.
    pub(super) fn files(self) -> [&'static str; 2] {
        match self {
            Self::Shards { .. } => ["pytorch_model_fsdp_0/.metadata", "optimizer_0/.metadata"],
            Self::Adapters { .. } => ["pytorch_model_fsdp.bin", "optimizer.bin"],
        }
    }

    /// Says what the files are good for.
    pub(super) fn told(self) -> String {
        match self {
            Self::Shards { adapters: false } => {
                "each rank saves its part of a checkpoint: `accelerate merge-weights` makes one file of the weights".into()
            }
            Self::Shards { adapters: true } => {
                "each rank saves its part of a checkpoint, because main memory has no room for the whole model, which \
                 state_dict_type FULL_STATE_DICT gathers: `accelerate merge-weights` makes one file of the adapters, which \
                 PEFT calls adapter_model.safetensors and loads with an adapter_config.json beside it \
                 (LoraConfig.save_pretrained)"
                    .into()
            }
            Self::Adapters { gathered } => format!(
                "adapters are saved as PEFT loads them (FULL_STATE_DICT); for that the first machine gathers the whole model, \
                 {}, in main memory at each checkpoint, which is not in the predicted time",
                human_bytes(gathered)
            ),
        }
    }
}
