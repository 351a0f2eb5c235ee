//! Why a plan has no launch files for a target.

use trainyard_plan::Field;
use trainyard_units::Invalid;

/// The reason why a plan has no launch files for a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The document's plan is not valid.
    #[error("in `plan`: {0}")]
    Plan(#[from] Invalid),
    /// The target cannot express a field of the plan.
    #[error("`{field}` is {value}, but {why}")]
    Inexpressible {
        /// Path of the field in the document.
        field: &'static str,
        /// The value of the field.
        value: String,
        /// The reason: what the target has instead.
        why: String,
        /// The targets that can express the field, once they were asked.
        others: Vec<&'static str>,
    },
    /// The target takes only stages of as many blocks each.
    #[error("`plan.stages` is {value}, but {why}")]
    Uneven {
        /// The blocks of each stage.
        value: String,
        /// The reason.
        why: String,
        /// The pipeline-parallel degrees nearest to the plan's with which stages are alike, the nearest first.
        degrees: Vec<usize>,
        /// The targets that can express the stages, once they were asked.
        others: Vec<&'static str>,
    },
    /// The plan's machines are of several kinds, on which the same cannot be started.
    #[error(
        "`plan.cluster` is {value}, machines of several kinds whose {what} differ, and launchers start the same on all"
    )]
    Mixed {
        /// The machines.
        value: String,
        /// In what they differ.
        what: &'static str,
    },
    /// The plan names unknown software.
    #[error("`plan.stack` is {0}, but the catalog has no such software stack")]
    Stack(String),
    /// An option that changes nothing in the target's files.
    #[error("`{flag}` is given, but nothing in the files for {target} depends on it")]
    Unused {
        /// The flag of the command line.
        flag: &'static str,
        /// The target of the files.
        target: &'static str,
    },
    /// An option whose value cannot stand in a launch file.
    #[error("`{flag}` is {value:?}, but {rule}")]
    Option {
        /// The flag of the command line.
        flag: &'static str,
        /// The value that was given.
        value: String,
        /// The rule that values must keep.
        rule: &'static str,
        /// An example of an allowed value.
        example: &'static str,
    },
}

impl LaunchError {
    /// Returns advice on what the user may do about the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Plan(error) => error.hint(),
            Self::Inexpressible { field: "plan.stack", others, .. } if others.is_empty() => {
                Some("no target can; plan again with another stack, `--stack NAME`".into())
            }
            Self::Inexpressible { field: "plan.fine_tuning.method", others, .. } if others.is_empty() => {
                Some("no target can; plan again with another `training.lora` in the job".into())
            }
            Self::Inexpressible { field, others, .. } if others.is_empty() => Some(plan_again(field)),
            Self::Uneven { degrees, others, .. } if others.is_empty() => Some(plan_again_evenly(degrees)),
            Self::Inexpressible { others, .. } | Self::Uneven { others, .. } => {
                Some(format!("these can: {}", others.join(", ")))
            }
            Self::Unused { .. } => Some("leave it out".into()),
            Self::Mixed { .. } => Some("plan again for machines of one kind, `--fix instance=NAME`".into()),
            Self::Stack(_) => Some("`trainyard show stacks` lists them".into()),
            Self::Option { flag, example, .. } => Some(format!("for example `{flag} {example}`")),
        }
    }

    /// Adds the targets that can express the plan to the error.
    pub(super) fn with_others(self, can: impl Fn() -> Vec<&'static str>) -> Self {
        match self {
            Self::Inexpressible { field, value, why, .. } => Self::Inexpressible { field, value, why, others: can() },
            Self::Uneven { value, why, degrees, .. } => Self::Uneven { value, why, degrees, others: can() },
            other => other,
        }
    }
}

/// Returns how to plan again with stages of as many blocks each: without a pipeline, which needs least, then with degrees
/// that divide the blocks. Several runs of blocks for each rank would be uneven too.
fn plan_again_evenly(degrees: &[usize]) -> String {
    let alone = "no target can; plan again without a pipeline, `--fix parallel.pipeline=1`";
    let Some((nearest, rest)) = degrees.split_first() else { return alone.into() };
    let rest: String = rest.iter().map(|degree| format!(", or {degree} stages")).collect();
    format!(
        "{alone}; where that does not fit, with as many stages as share the blocks out evenly, `--fix parallel.pipeline={nearest} --fix virtual_stages=1`{rest}"
    )
}

/// Returns how to plan again where no target can express a field. Not every field can be fixed.
fn plan_again(field: &str) -> String {
    let name = field.strip_prefix("plan.").unwrap_or(field);
    match name {
        // Ranks that do not fill their machines.
        "cluster" => "no target can; plan again with other replicas, `--fix parallel.data=…`".into(),
        _ if Field::named(name).is_some() => {
            format!("no target can; plan again with another value, `--fix {name}=…`")
        }
        _ => "no target can".into(),
    }
}
