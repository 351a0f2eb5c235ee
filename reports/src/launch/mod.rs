//! Launch files: what other engines and services need to run a plan.
//!
//! A plan says more than any one target has keys for. What a target tells is marked field by field on a [`Draft`]; a
//! field that is left over and that decides whether the plan fits or what it is gets the plan refused, any other becomes
//! a note. So nothing is dropped silently, whatever a target's module forgets.

#![allow(clippy::format_collect, clippy::format_push_string, reason = "files of some lines are put together once")]
#![allow(clippy::needless_pass_by_value, reason = "values to be written are numbers and words, given as they are")]

mod accelerate;
mod deepspeed;
mod downloads;
mod draft;
mod ending;
mod error;
mod field;
mod fine_tuning;
mod form;
mod fsdp_checkpoints;
mod fsdp_units;
mod job;
mod kubernetes;
mod megatron;
mod megatron_arguments;
mod megatron_kernels;
mod megatron_model;
mod network;
mod packing;
mod places;
mod program;
mod python;
mod reclaims;
mod recommender;
mod sagemaker;
mod script;
mod skypilot;
mod slurm;
mod software;
mod starter;
mod torchrun;
mod training_arguments;
mod usual_rate;
mod yaml;

#[cfg(test)]
mod fine_tuning_tests;
#[cfg(test)]
mod own_cluster_tests;
#[cfg(test)]
mod priced_tests;
#[cfg(test)]
mod service_tests;
#[cfg(test)]
mod stack_tests;
#[cfg(test)]
mod tests;

pub use draft::{Flag, WRITTEN_BY};
pub use error::LaunchError;

use crate::format::{Width, bullets, lines};
use draft::{Draft, Finished};
use field::Field;
use job::Job;
use software::Engine;
use trainyard_hardware_profiles::{Cluster, Stack, catalog};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{LAUNCH_SCHEMA, LaunchDocument, LaunchFile, Precision};

/// Makes [`Target`] of a list of launchers. Each is a module whose `files` writes the launch files of a draft and whose
/// `STARTS` are the engines that they can start; then the name as it is typed, and for sentences.
macro_rules! targets {
    ($($(#[$doc:meta])* $module:ident::$target:ident = $name:literal, $title:literal;)*) => {
        /// A launcher for which launch files can be made.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Target {
            $($(#[$doc])* $target,)*
        }

        impl Target {
            /// All of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$target),*];

            /// Returns the target's name as it is typed.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$target => $name,)*
                }
            }

            /// Returns the target's name for sentences.
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$target => $title,)*
                }
            }

            fn files(self, draft: Draft<'_>) -> Result<Finished, LaunchError> {
                match self {
                    $(Self::$target => $module::files(draft),)*
                }
            }

            /// Returns the engines that launch files for the target can start.
            fn starts(self) -> &'static [Engine] {
                match self {
                    $(Self::$target => $module::STARTS,)*
                }
            }
        }
    };
}

targets! {
    /// Amazon SageMaker training jobs: a request, and an estimator of its Python SDK.
    sagemaker::Sagemaker = "sagemaker", "Amazon SageMaker";
    /// PyTorch's launcher.
    torchrun::Torchrun = "torchrun", "torchrun";
    /// DeepSpeed: its configuration and its launcher.
    deepspeed::Deepspeed = "deepspeed", "DeepSpeed";
    /// Megatron-LM's training scripts.
    megatron::Megatron = "megatron", "Megatron-LM";
    /// Hugging Face Accelerate: its configuration and its launcher.
    accelerate::Accelerate = "accelerate", "Hugging Face Accelerate";
    /// Slurm: torchrun on each machine, or mpirun for this program's own executor.
    slurm::Slurm = "slurm", "Slurm";
    /// SkyPilot.
    skypilot::Skypilot = "skypilot", "SkyPilot";
    /// Kubernetes with the training operator of Kubeflow.
    kubernetes::Kubernetes = "kubernetes", "Kubernetes";
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
    /// `true` if the cluster file of the machines has several kinds.
    pub other_kinds: bool,
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
        None => catalog().stack(name).map(AsRef::as_ref).map_err(|_| LaunchError::Stack(name.clone())),
    };
    let stack = document.plan.stack.as_ref().map(named).transpose()?;
    let job = Job::new(document, cluster, stack)?;
    let others = || -> Vec<&'static str> {
        // Whether a plan starts from weights decides who can start it.
        let options = LaunchOptions { weights: options.weights.clone(), ..LaunchOptions::default() };
        let can = |other: &Target| *other != target && drawn_up(&job, *other, &options).is_ok();
        Target::ALL.into_iter().filter(can).map(Target::name).collect()
    };
    drawn_up(&job, target, options).map_err(|error| error.with_others(others))
}

fn drawn_up(job: &Job<'_>, target: Target, options: &LaunchOptions) -> Result<LaunchDocument, LaunchError> {
    let draft = Draft::new(target, job, options)?;
    if job.plan().precision() == Precision::Fp8Mixed && draft.engine != Engine::Megatron {
        return Err(draft.cannot(Field::Precision, "launch files start Megatron-LM alone in eight bits"));
    }
    software::starts_the_stack(job, target)?;
    let finished = target.files(draft)?;
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

/// Lists the files, the placeholders to fill in, what was assumed, and the fields that the files do not express.
pub fn launch_listing(document: &LaunchDocument, width: Width) -> String {
    let names: Vec<String> = document.files.iter().map(|file| file.name.clone()).collect();
    let (blanks, assumed) = (draft::to_fill_in(&document.blanks), draft::assumed(&document.assumed));
    let sections = [
        ("Files", &names),
        (draft::TO_FILL_IN, &blanks),
        (draft::ASSUMED, &assumed),
        (draft::UNCOVERED, &document.notes),
    ];
    lines(
        sections.into_iter().filter(|(_, items)| !items.is_empty()).map(|(title, items)| bullets(width, title, items)),
    )
}
