//! Recommendation models: scripts of their own train them, because their embedding tables lie on different ranks and are
//! updated by rows.
//!
//! # Source
//!
//! TorchRec 1.2, `torchrec.distributed` and "Optimizers" of its documentation: an optimizer that is fused into the backward
//! pass of a table updates the rows that were looked up.

use super::Target;
use super::deepspeed;
use super::draft::Draft;
use super::ending::Completion;
use super::error::LaunchError;
use super::field::{Field, is_said};
use super::places::Places;
use super::program::{Program, pytorch};
use super::reclaims::{asks_for_checkpoints, spot_notice};
use super::software::Engine;
use super::starter::{self, Script};
use super::training_arguments::whose_model;
use trainyard_models::Divisible;
use trainyard_units::counted;

/// What the script must be told, for which each script has arguments of its own.
const TOLD: [Field; 23] = [
    Field::Micro,
    Field::Accumulation,
    Field::Precision,
    Field::Recompute,
    Field::StateSharding,
    Field::ShardingRanks,
    Field::GradientReduction,
    Field::Offload,
    Field::Optimizer,
    Field::LearningRate,
    Field::WarmUp,
    Field::Decay,
    Field::ClipNorm,
    Field::WeightDecay,
    Field::DecayExempt,
    Field::Momentum,
    Field::Betas,
    Field::Epsilon,
    Field::Dropout,
    Field::Steps,
    Field::Workers,
    Field::Prefetch,
    Field::Evaluation,
];

/// Returns `true` if the model has embedding tables that ranks share out, as DLRM has.
pub(super) fn has_tables(draft: &Draft<'_>) -> bool {
    matches!(draft.job.plan().graph().divisible(), Some(Divisible::TableColumns(_)))
}

/// Returns a script of the user's without arguments, and says what it must be told and do.
pub(super) fn program(draft: &mut Draft<'_>, places: Places) -> Result<Program, LaunchError> {
    let files = if draft.engine == Engine::Deepspeed {
        vec![deepspeed::config_file(draft, deepspeed::Reader::Script)?]
    } else {
        Vec::new()
    };
    let script = Script::File(draft.script());
    whose_model(draft);
    told(draft);
    draft.note(Field::Expert, "the script shards its embedding tables over as many ranks (torchrec.distributed)");
    draft.remark(sparse_update(draft));
    if draft.job.is_compiled() {
        draft.remark("the model was priced as compiled: the script calls torch.compile");
    }
    checkpoints(draft, places);
    Ok(Program {
        script,
        starter: None,
        starter_at: starter::FILE,
        arguments: Vec::new(),
        completion: Completion::of_status(),
        is_told: asks_for_checkpoints(draft),
        resume: None,
        packages: Vec::new(),
        pytorch: pytorch(draft),
        files,
        what: "a script of your own for a recommendation model",
    })
}

/// Lists what the script must be told. What no plan and no job says is left to it.
fn told(draft: &mut Draft<'_>) {
    let mut values = Vec::new();
    for field in TOLD {
        let value = draft.told(field).filter(|_| is_said(field, draft.job));
        values.extend(value.map(|value| format!("{} {value}", field.path())));
    }
    draft.remark(format!(
        "the script is started without arguments, because each has its own; tell it {}",
        values.join(", ")
    ));
}

fn sparse_update(draft: &Draft<'_>) -> String {
    format!(
        "embedding tables were priced with a sparse update: {} changes only the rows that a step looked up, as TorchRec's optimizers do, fused into the backward pass; a dense one goes through whole tables and takes longer",
        draft.job.plan().optimizer()
    )
}

/// Tells what the script must do itself for a training to survive interruptions.
fn checkpoints(draft: &mut Draft<'_>, places: Places) {
    let every = counted(draft.job.checkpoint_steps(), "step");
    draft.tells(&[Field::CheckpointInterval]);
    let folder = match places.results {
        Some(_) => format!("in {}", places.results(draft)),
        None if draft.job.machines() > 1 => "in a folder that all machines share".into(),
        None => "in a folder that outlasts the job".into(),
    };
    spot_notice(draft);
    let asked = match (asks_for_checkpoints(draft), draft.target) {
        (true, Target::Slurm) => " and on SIGTERM, which ranks are sent before the job's time is over,",
        (true, _) => " and on SIGTERM",
        (false, _) => "",
    };
    draft.remark(format!(
        "the script writes a checkpoint {folder} every {every}{asked} and goes on from the newest when it is started again"
    ));
}
