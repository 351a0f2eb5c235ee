//! Launch files: what other engines and services need to run a plan.
//!
//! A plan says more than any one target has keys for. What a target tells is marked field by field on a [`Draft`]; a
//! field that is left over and that decides whether the plan fits or what it is gets the plan refused, any other becomes
//! a note. So nothing is dropped silently, whatever a target's module forgets.

#![allow(clippy::format_collect, clippy::format_push_string, reason = "files of some lines are put together once")]
#![allow(clippy::needless_pass_by_value, reason = "values to be written are numbers and words, given as they are")]

mod accelerate;
mod deepspeed;
mod draft;
mod error;
mod field;
mod job;
mod kubernetes;
mod megatron;
mod megatron_model;
mod program;
mod python;
mod sagemaker;
mod script;
mod skypilot;
mod slurm;
mod software;
mod torchrun;
mod training_arguments;
mod yaml;

#[cfg(test)]
mod stack_tests;
#[cfg(test)]
mod tests;

pub use draft::Flag;
pub use error::LaunchError;

use crate::format::{Width, bullets, lines};
use draft::Draft;
use job::Job;
use trainyard_hardware_profiles::{Cluster, Stack, catalog};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{LAUNCH_SCHEMA, LaunchDocument, LaunchFile};

/// A launcher for which launch files can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Amazon SageMaker training jobs: a request, and an estimator of its Python SDK.
    Sagemaker,
    /// PyTorch's launcher.
    Torchrun,
    /// DeepSpeed: its configuration and its launcher.
    Deepspeed,
    /// Megatron-LM's training scripts.
    Megatron,
    /// Hugging Face Accelerate: its configuration and its launcher.
    Accelerate,
    /// Slurm: torchrun on each machine, or mpirun for this program's own executor.
    Slurm,
    /// SkyPilot.
    Skypilot,
    /// Kubernetes with the training operator of Kubeflow.
    Kubernetes,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Sagemaker,
        Self::Torchrun,
        Self::Deepspeed,
        Self::Megatron,
        Self::Accelerate,
        Self::Slurm,
        Self::Skypilot,
        Self::Kubernetes,
    ];

    /// Returns the target's name as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sagemaker => "sagemaker",
            Self::Torchrun => "torchrun",
            Self::Deepspeed => "deepspeed",
            Self::Megatron => "megatron",
            Self::Accelerate => "accelerate",
            Self::Slurm => "slurm",
            Self::Skypilot => "skypilot",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// Returns the target's name for sentences.
    pub fn title(self) -> &'static str {
        match self {
            Self::Sagemaker => "Amazon SageMaker",
            Self::Torchrun => "torchrun",
            Self::Deepspeed => "DeepSpeed",
            Self::Megatron => "Megatron-LM",
            Self::Accelerate => "Hugging Face Accelerate",
            Self::Slurm => "Slurm",
            Self::Skypilot => "SkyPilot",
            Self::Kubernetes => "Kubernetes",
        }
    }
}

/// Values that a plan does not know; a placeholder stands for each that is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchOptions {
    /// The training script.
    pub script: Option<String>,
    /// The container image.
    pub image: Option<String>,
    /// The IAM role of a SageMaker job.
    pub role: Option<String>,
    /// The location of the data: a path, or an address such as `s3://bucket/prefix`.
    pub data: Option<String>,
    /// The location of checkpoints and results, in the same form.
    pub results: Option<String>,
    /// The peak learning rate; takes precedence over that of the job.
    pub learning_rate: Option<String>,
    /// The weights to start from: a folder, or a name on the Hugging Face Hub.
    pub weights: Option<String>,
    /// The file of the plan document, for this program's own executor.
    pub plan: Option<String>,
}

/// Makes the files with which `target` runs the plan of a document on the machines of `cluster`, those that the plan
/// names, with the software that the plan names: `stack` if that is its name, else that of the catalog.
///
/// # Errors
///
/// When the plan is not valid, when the target cannot express it or does not start its software, or when an option means
/// nothing to the target.
pub fn launch(
    document: &PlanDocument,
    cluster: &Cluster,
    stack: Option<&Stack>,
    target: Target,
    options: &LaunchOptions,
) -> Result<LaunchDocument, LaunchError> {
    let named = |name: &String| match stack.filter(|stack| stack.name == *name) {
        Some(stack) => Ok(stack),
        None => catalog().stack(name).map_err(|_| LaunchError::Stack(name.clone())),
    };
    let stack = document.plan.stack.as_ref().map(named).transpose()?;
    let job = Job::new(document, cluster, stack)?;
    let others = || -> Vec<&'static str> {
        let can = |other: &Target| *other != target && drawn_up(&job, *other, &LaunchOptions::default()).is_ok();
        Target::ALL.into_iter().filter(can).map(Target::name).collect()
    };
    drawn_up(&job, target, options).map_err(|error| error.with_others(others))
}

fn drawn_up(job: &Job<'_>, target: Target, options: &LaunchOptions) -> Result<LaunchDocument, LaunchError> {
    let draft = Draft::new(target, job, options)?;
    software::starts_the_stack(job, target)?;
    let finished = match target {
        Target::Sagemaker => sagemaker::files(draft)?,
        Target::Torchrun => torchrun::files(draft)?,
        Target::Deepspeed => deepspeed::files(draft)?,
        Target::Megatron => megatron::files(draft)?,
        Target::Accelerate => accelerate::files(draft)?,
        Target::Slurm => slurm::files(draft)?,
        Target::Skypilot => skypilot::files(draft)?,
        Target::Kubernetes => kubernetes::files(draft)?,
    };
    Ok(LaunchDocument {
        schema: LAUNCH_SCHEMA.into(),
        target: target.name().into(),
        files: finished.files,
        blanks: finished.blanks,
        assumed: finished.assumed,
        notes: finished.notes,
    })
}

/// Concatenates the files, each under its name if there are several.
pub fn launch_page(document: &LaunchDocument) -> String {
    match document.files.as_slice() {
        [only] => only.text.clone(),
        files => {
            let texts: Vec<String> =
                files.iter().map(|LaunchFile { name, text }| format!("==> {name} <==\n{text}")).collect();
            texts.join("\n")
        }
    }
}

/// Lists the files, the placeholders to fill in, and the fields that the files do not express.
pub fn launch_listing(document: &LaunchDocument, width: Width) -> String {
    let names: Vec<String> = document.files.iter().map(|file| file.name.clone()).collect();
    let blanks = draft::to_fill_in(&document.blanks, &document.assumed);
    let sections = [("Files", &names), ("To fill in", &blanks), ("Not covered by these files", &document.notes)];
    lines(
        sections.into_iter().filter(|(_, items)| !items.is_empty()).map(|(title, items)| bullets(width, title, items)),
    )
}
