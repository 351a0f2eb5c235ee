//! Sweeps of measured collectives made into the constants of a fabric.
//!
//! A sweep is a table of collectives or what NVIDIA's nccl-tests print. Its rows teach the share of its rate that a
//! network sustains, what a message takes at least, how often chunks wait, and inside a machine the share of its links
//! and the latencies; which of them, follows from where the members stood.

mod fit;
mod output;

pub use fit::{FabricFit, FittedConstant, fit_fabrics};

use crate::collectives::{self, Measured};
use crate::table::{RowError, Table, TableError};
use trainyard_hardware_profiles::Catalog;

/// Measured collectives.
#[derive(Clone, Debug)]
pub struct Sweep {
    file: String,
    rows: Vec<SweepRow>,
    passed_over: Vec<RowError>,
}

/// One of them.
#[derive(Clone, Debug)]
struct SweepRow {
    measured: Measured,
    /// The GPU that the output names, for the hint where its machines are not named.
    gpu: Option<String>,
}

/// Why a sweep teaches nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// It is not a table of collectives.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A line of nccl-tests output cannot be read.
    #[error(transparent)]
    Line(#[from] RowError),
    /// There is no measurement in it.
    #[error("`{file}` has no measured collective")]
    Empty {
        /// The file.
        file: String,
    },
    /// Output does not tell what machines it is from.
    #[error("`{file}` does not say which machine type it was measured on")]
    Unnamed {
        /// The file.
        file: String,
        /// Machine types of the catalog that have as many of the GPUs that it names.
        candidates: Vec<String>,
    },
    /// None of the rows is of the machine type that is to be fitted, or can be predicted at all.
    #[error("`{file}` has no row that teaches {what}: {reason}")]
    Useless {
        /// The file.
        file: String,
        /// What was to be fitted.
        what: String,
        /// Why its first row does not.
        reason: String,
    },
    /// The machine type is not known.
    #[error("no machine type of the catalog is called `{name}`")]
    Unknown {
        /// What was asked for.
        name: String,
    },
}

impl SweepError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Table(error) => return error.hint(),
            Self::Line(_) => "give the output of nccl-tests as it was printed, or a table of collectives".into(),
            Self::Empty { .. } => "a row has size, time and bandwidths; a sweep of 8 B to 1 GB teaches most".into(),
            Self::Unnamed { candidates, .. } if candidates.is_empty() => {
                "say it with --instance NAME; `trainyard show instances` lists them".into()
            }
            Self::Unnamed { candidates, .. } => {
                format!("say it with --instance NAME; such GPUs are in {}", candidates.join(", "))
            }
            Self::Useless { .. } | Self::Unknown { .. } => {
                "`trainyard show instances` lists the machine types that can be fitted".into()
            }
        })
    }
}

impl Sweep {
    /// Whether a text is a sweep rather than a table of step times: output of nccl-tests, or a table of collectives.
    pub fn is_one(text: &str) -> bool {
        output::is_output(text) || Table::parse(text, "").is_ok_and(|table| collectives::is_table(&table))
    }

    /// The measurements in some text, from `file` as messages call it. Rows of a table that cannot be read are passed
    /// over; a line of output that cannot be read ends it, because then the columns are not what they seem.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn read(text: &str, file: &str) -> Result<Self, SweepError> {
        let sweep = if output::is_output(text) {
            Self { file: file.into(), rows: output::rows(text, file)?, passed_over: Vec::new() }
        } else {
            Self::of_table(text, file)?
        };
        if sweep.rows.is_empty() {
            return Err(SweepError::Empty { file: file.into() });
        }
        Ok(sweep)
    }

    fn of_table(text: &str, file: &str) -> Result<Self, SweepError> {
        let table = Table::parse(text, file)?;
        table.needs("collective measurements", &collectives::COLLECTIVE_COLUMNS)?;
        let mut sweep = Self { file: file.into(), rows: Vec::new(), passed_over: Vec::new() };
        for record in table.records() {
            match record.and_then(|record| Measured::of_record(&record)) {
                Ok(Some(measured)) => sweep.rows.push(SweepRow { measured, gpu: None }),
                Ok(None) => {}
                Err(error) => sweep.passed_over.push(error),
            }
        }
        Ok(sweep)
    }

    /// Rows of a table that could not be read.
    pub fn passed_over(&self) -> &[RowError] {
        &self.passed_over
    }

    /// Measured collectives.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none; what [`Sweep::read`] gives has some.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The machine type of a row: the one that is stated for all, or the one that its text begins with.
    fn machine(&self, row: &SweepRow, stated: Option<&str>, catalog: &Catalog) -> Result<Option<String>, SweepError> {
        if row.measured.system.is_empty() {
            let candidates = || candidates(row, catalog);
            let unnamed = || SweepError::Unnamed { file: self.file.clone(), candidates: candidates() };
            return stated.map(|name| Some(name.to_owned())).ok_or_else(unnamed);
        }
        let named = collectives::system::machine(catalog, &row.measured.system).map(|machine| machine.name.clone());
        Ok(named.filter(|name| stated.is_none_or(|stated| stated == name)))
    }
}

/// Machine types whose GPUs are those that the output names, as many on a machine at least.
fn candidates(row: &SweepRow, catalog: &Catalog) -> Vec<String> {
    let Some(gpu) = &row.gpu else { return Vec::new() };
    let gpu = gpu.to_lowercase();
    let words: Vec<&str> = gpu.split(|c: char| !c.is_alphanumeric()).collect();
    let alike = |name: &str| name.split('-').next().is_some_and(|model| words.contains(&model));
    let each = row.measured.gpus_per_machine();
    catalog
        .instances()
        .iter()
        .filter(|machine| alike(&machine.gpu) && each.is_none_or(|each| machine.gpus >= each))
        .map(|machine| machine.name.clone())
        .collect()
}

#[cfg(test)]
mod tests;
