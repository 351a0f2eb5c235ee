//! Arguments of Megatron-LM's training scripts, and what its stages must be like.

use super::draft::Draft;
use super::error::LaunchError;

/// Arguments, in groups; each group stands on one line.
#[derive(Default)]
pub(super) struct Words(Vec<Vec<String>>);

impl Words {
    /// Begins a line.
    pub(super) fn line(&mut self) -> &mut Self {
        self.0.push(Vec::new());
        self
    }

    /// Adds a flag.
    pub(super) fn flag(&mut self, name: &str) -> &mut Self {
        if self.0.is_empty() {
            self.line();
        }
        if let Some(line) = self.0.last_mut() {
            line.push(format!("--{name}"));
        }
        self
    }

    /// Adds a flag with a value.
    pub(super) fn set(&mut self, name: &str, value: impl ToString) -> &mut Self {
        self.flag(name);
        if let Some(line) = self.0.last_mut() {
            line.push(value.to_string());
        }
        self
    }

    /// Returns the lines.
    pub(super) fn into_lines(self) -> Vec<Vec<String>> {
        self.0
    }
}

/// Creates the error for stages that are not alike, with the nearest pipeline-parallel degrees for which they are.
pub(super) fn uneven(draft: &Draft<'_>, why: &str) -> LaunchError {
    let counts = draft.job.blocks_of_runs();
    let (blocks, present) = (counts.iter().sum::<usize>(), draft.job.plan().mesh().parallel().pipeline as usize);
    // Where each rank has several runs of blocks, one run each may be even.
    let is_another = |degree: &usize| *degree != present || counts.len() > present;
    let fits = |degree: &usize| blocks.is_multiple_of(*degree) && is_another(degree);
    let mut degrees: Vec<usize> = (2..=present).rev().find(fits).into_iter().collect();
    degrees.extend((present + 1..=blocks).find(fits));
    degrees.sort_by_key(|degree| degree.abs_diff(present));
    let value = draft.job.stages_in_words();
    LaunchError::Uneven { value, why: why.into(), degrees, others: Vec::new() }
}
