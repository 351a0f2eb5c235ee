//! Where weights of the Hugging Face Hub are kept once they are downloaded.
//!
//! # Source
//!
//! huggingface_hub, `HF_HOME` in `constants.py`; Amazon SageMaker AI Developer Guide, "SageMaker AI environment variables and
//! the default paths for training storage locations" (`/tmp` is the scratch space of a training job) and "Managing storage
//! paths for different types of instance local storage".

use super::Target;
use super::draft::Draft;
use super::fine_tuning;
use super::software::Engine;

/// The variable that names the folder.
pub(super) const VARIABLE: &str = "HF_HOME";

/// Weights in GB from which on they are told: room for smaller ones is there anyway.
const TOLD_MIN_GB: u64 = 20;

/// Returns the folder in which a service keeps weights, where that of the container's own system has no room for them: the
/// claim for results, which keeps them for the next start, or the volume of a training job.
pub(super) fn folder(draft: &Draft<'_>) -> Option<&'static str> {
    let reads = draft.reads_the_hub() && !matches!(draft.engine, Engine::Executor | Engine::Megatron);
    let folder = match draft.target {
        Target::Kubernetes => "/results/huggingface",
        Target::Sagemaker => "/tmp/huggingface",
        _ => return None,
    };
    reads.then_some(folder)
}

/// Returns the size of the weights that are downloaded, in GB.
fn gigabytes(draft: &Draft<'_>) -> u64 {
    fine_tuning::download_bytes(draft.job.plan()).div_ceil(1_000_000_000)
}

/// Tells how much is downloaded and where it is kept, where that is much.
pub(super) fn told(draft: &Draft<'_>) -> Option<String> {
    let size = gigabytes(draft);
    if size < TOLD_MIN_GB || draft.engine == Engine::Megatron {
        return None;
    }
    let of_job = format!("weights, about {size} GB, are downloaded");
    Some(match draft.target {
        Target::Kubernetes => {
            format!("{of_job} to /results/huggingface (HF_HOME): the claim for results must have room for them")
        }
        Target::Sagemaker => {
            format!("{of_job} to /tmp/huggingface (HF_HOME) on the volume of each machine{}", beyond(draft))
        }
        _ => format!("{of_job} to ~/.cache/huggingface on each machine unless HF_HOME names another folder"),
    })
}

/// Says so if the disks that come with a machine have no room for the weights beside the image.
fn beyond(draft: &Draft<'_>) -> String {
    let disk = draft.job.instance().map_or(0, |instance| instance.disk.value.0 / 1_000_000_000);
    if disk == 0 || gigabytes(draft) < disk {
        return String::new();
    }
    format!(", whose {disk} GB have no room for them: take machines with more")
}
