//! Launch files: what other programs need to start a plan.

use crate::question::check_plan;
use crate::refusal::Refusal;
use schemars::JsonSchema;
use serde::Serialize;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Assumption, Blank, LaunchDocument};

/// A launcher of training, and the function that writes its files.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name in paths and on the command line: `torchrun`.
    pub name: &'static str,
    /// Its name in sentences.
    pub title: &'static str,
    /// Writes the files that launch a plan with the target of this name; refuses a plan that the target cannot express.
    pub export: fn(&str, &PlanDocument) -> Result<LaunchDocument, Refusal>,
}

/// A target as the catalogs list it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportEntry {
    /// Its name in paths.
    pub name: String,
    /// Its name in sentences.
    pub title: String,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportedFile {
    /// Its name, without a folder.
    pub name: String,
    /// Its text.
    pub content: String,
}

/// The files that launch a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportAnswer {
    /// The schema of launch documents, whose fields these are, but that a file has its `content`.
    pub schema: String,
    /// What they are for.
    pub target: String,
    /// The files, the one that starts the training first.
    pub files: Vec<ExportedFile>,
    /// What has to be filled in, because a plan does not know it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blanks: Vec<Blank>,
    /// What the job leaves open and the files say nonetheless.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<Assumption>,
    /// What the plan says and the files do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl From<LaunchDocument> for ExportAnswer {
    fn from(launch: LaunchDocument) -> Self {
        let LaunchDocument { schema, target, files, blanks, assumed, notes } = launch;
        let files = files.into_iter().map(|file| ExportedFile { name: file.name, content: file.text }).collect();
        Self { schema, target, files, blanks, assumed, notes }
    }
}

/// Writes the launch files of a plan for the target of this name.
pub(crate) fn export(targets: &[Target], name: &str, plan: &PlanDocument) -> Result<ExportAnswer, Refusal> {
    let target = targets.iter().find(|target| target.name == name).ok_or_else(|| {
        let known: Vec<&str> = targets.iter().map(|target| target.name).collect();
        let hint = match known.as_slice() {
            [] => "this build writes no launch files".to_owned(),
            known => format!("targets are {}", known.join(", ")),
        };
        Refusal::not_found("such target").hint(hint)
    })?;
    check_plan(plan)?;
    (target.export)(target.name, plan).map(Into::into)
}
