//! Where a launcher puts what a program reads and writes.

use super::Target;
use super::draft::Draft;

/// The locations where a launcher mounts data and results; `None` where the user names them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    /// The location of the program's data.
    pub(super) data: Option<&'static str>,
    /// The location of checkpoints and results.
    pub(super) results: Option<&'static str>,
}

impl Places {
    /// Returns the location of checkpoints and results, or a placeholder. What is mounted serves for many plans, each of
    /// which has a folder of its own; SageMaker mounts that folder.
    pub(super) fn results(self, draft: &mut Draft<'_>) -> String {
        match self.results {
            Some(folder) if draft.target == Target::Sagemaker => folder.to_owned(),
            Some(folder) => format!("{folder}/{}", draft.folder()),
            None => draft.results_folder(),
        }
    }
}
