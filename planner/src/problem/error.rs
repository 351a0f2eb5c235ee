//! What is wrong with a job.

use std::fmt::Display;
use trainyard_units::Invalid;

const FIELDS: &str =
    "`trainyard schemas` writes job.json, which describes every field of a job with its unit and its default";

/// The reason why a job cannot be solved as it is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A field is wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Quotas leave no instance.
    #[error(transparent)]
    OverQuota(Invalid),
}

impl JobError {
    /// The field, with what is wrong there.
    pub fn invalid(&self) -> &Invalid {
        let (Self::Invalid(invalid) | Self::OverQuota(invalid)) = self;
        invalid
    }

    /// Returns advice on how to fix the job.
    pub fn hint(&self) -> Option<String> {
        self.invalid().hint().or_else(|| Some(FIELDS.into()))
    }
}

/// Returns an error inside a field, with its hint, which is optional or not.
pub(crate) fn inside(field: &str, error: impl Display, hint: impl Into<Option<String>>) -> Invalid {
    Invalid::inside(field, error).maybe_hint(hint.into())
}

/// Returns an error in the job of a plan document.
pub(crate) fn in_job(error: Invalid) -> Invalid {
    let hint = error.hint().unwrap_or_else(|| FIELDS.into());
    error.within("job").with_hint(hint)
}
