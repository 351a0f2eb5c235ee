//! Sweeps of measured collectives made into the constants of a fabric.
//!
//! A sweep is a table of collectives or what NVIDIA's nccl-tests print. Its rows teach the share of its rate that a
//! network sustains, what a message takes at least, how often chunks wait, and inside a machine the share of its links
//! and the latencies; which of them, follows from where the members stood.

mod fit;
mod output;

pub(crate) use output::is_output;

use fit::{FabricFit, fit_described, fit_fabrics};

use crate::collectives::{self, Measured};
use crate::fit::{ConstantChange, Errors, REFIT_SCHEMA, Refit, RefitDocument, StackErrors};
use crate::table::{Table, TableError};
use std::fmt::Display;
use trainyard_hardware_profiles::{Catalog, Cluster, Constants, MeasuredFabric};
use trainyard_units::Invalid;

const FITTED: &str = "`trainyard show instances` lists the machine types that can be fitted; for others, --instance \
                      CLUSTER.toml names a file that describes them";

/// Measured collectives.
#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    file: String,
    rows: Vec<SweepRow>,
    passed_over: Vec<TableError>,
    /// Columns of a table that are not read.
    unread: Option<String>,
}

/// One of them.
#[derive(Clone, Debug)]
struct SweepRow {
    measured: Measured,
    /// The GPU that the output names, for the hint where its machines are not named.
    gpu: Option<String>,
}

impl SweepRow {
    /// Tells whether a row names no machines, or its text is one of these names.
    fn is_of(&self, names: &[&str]) -> bool {
        let system = self.measured.system.as_str();
        system.is_empty() || names.contains(&system)
    }
}

impl Sweep {
    /// The measurements in some text, from `file` as messages call it. Rows of a table that cannot be read are passed
    /// over; a line of output that cannot be read ends it, because then the columns are not what they seem.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub(crate) fn read(text: &str, file: &str) -> Result<Self, Invalid> {
        let sweep = if output::is_output(text) {
            Self { file: file.into(), rows: output::rows(text, file)?, passed_over: Vec::new(), unread: None }
        } else {
            Self::of_table(text, file)?
        };
        if sweep.rows.is_empty() {
            let hint = "a row has size, time and bandwidths; a sweep of 8 B to 1 GB teaches most";
            return Err(Invalid::inside(file, "there is no measured collective").with_hint(hint));
        }
        Ok(sweep)
    }

    fn of_table(text: &str, file: &str) -> Result<Self, Invalid> {
        let mut table = Table::read(text.as_bytes(), file)?;
        table.needs("collective measurements", &collectives::COLLECTIVE_COLUMNS)?;
        let unread = table.unread(&collectives::COLLECTIVE_COLUMNS, &collectives::OPTIONAL_COLUMNS);
        let mut sweep = Self { file: file.into(), rows: Vec::new(), passed_over: Vec::new(), unread };
        while let Some(record) = table.next_record()? {
            match record.and_then(|record| Measured::of_record(&record)) {
                Ok(Some(measured)) => sweep.rows.push(SweepRow { measured, gpu: None }),
                Ok(None) => {}
                Err(error) => sweep.passed_over.push(error),
            }
        }
        Ok(sweep)
    }

    /// The machine type of a row: the one that is stated for all, or the one that its text begins with.
    fn machine(&self, row: &SweepRow, stated: Option<&str>, catalog: &Catalog) -> Result<Option<String>, Invalid> {
        if row.measured.system.is_empty() {
            return stated.map(|name| Some(name.to_owned())).ok_or_else(|| {
                let known = match candidates(row, catalog).as_slice() {
                    [] => "`trainyard show instances` lists them".into(),
                    candidates => format!("such GPUs are in {}", candidates.join(", ")),
                };
                Invalid::inside(&self.file, "it does not say which machine type it was measured on").with_hint(format!(
                    "say it with --instance NAME, or --instance CLUSTER.toml for machines of your own; {known}"
                ))
            });
        }
        let named = collectives::system::machine(catalog, &row.measured.system).map(|machine| machine.name.clone());
        Ok(named.filter(|name| stated.is_none_or(|stated| stated == name)))
    }
}

/// The fabrics of a sweep refitted, starting from those of `catalog`: of the machine type `instance`, or of all that
/// the sweep names. `date` is written beside the values. A fabric keeps its constants unless others predict the decades
/// of sizes that were left out better than the present ones predict them.
///
/// # Errors
///
/// When the text is no sweep or teaches nothing.
pub fn refit_fabrics(
    text: &str,
    file: &str,
    instance: Option<&str>,
    catalog: &Catalog,
    date: &str,
) -> Result<Refit, Invalid> {
    let sweep = Sweep::read(text, file)?;
    let fits = fit_fabrics(&sweep, instance, catalog, date)?;
    refitted(sweep, &fits, date)
}

/// The fabric of the machines of a cluster file refitted in the same way, as `cluster` was read from it with `catalog`.
///
/// # Errors
///
/// As [`refit_fabrics`], and when the cluster has machines of several kinds.
pub fn refit_described(
    text: &str,
    file: &str,
    cluster: &Cluster,
    catalog: &Catalog,
    date: &str,
) -> Result<Refit, Invalid> {
    let sweep = Sweep::read(text, file)?;
    let fit = fit_described(&sweep, cluster, catalog, date)?;
    refitted(sweep, &[fit], date)
}

/// The fits that predict better, as constants and as a document.
fn refitted(sweep: Sweep, fits: &[FabricFit], date: &str) -> Result<Refit, Invalid> {
    let file = sweep.file.as_str();
    let better = |fit: &&FabricFit| fit.cross_validated.unwrap_or(fit.after) < fit.before;
    let changes = fits.iter().filter(better).flat_map(|fit| &fit.constants).map(|constant| ConstantChange {
        name: format!("fabrics.{}.{}", constant.fabric, constant.name),
        before: constant.before,
        after: constant.after,
        deviation: constant.deviation,
        rows: constant.rows as usize,
    });
    let of_fit = |fit: &FabricFit| StackErrors {
        stack: fit.fabric.name.clone(),
        called: Vec::new(),
        rows: fit.rows,
        replaced: better(&fit),
        errors: Errors {
            before: fit.before,
            after: fit.after,
            left_out: fit.cross_validated.unwrap_or(fit.after),
            unseen: fit.before,
        },
    };
    let document = RefitDocument {
        schema: REFIT_SCHEMA.into(),
        rows: fits.iter().map(|fit| fit.rows).sum(),
        unsupported: sweep.passed_over.iter().map(ToString::to_string).collect(),
        constants: changes.collect(),
        stacks: fits.iter().map(of_fit).collect(),
        suites: Vec::new(),
        widths: Vec::new(),
        coverage90: None,
    };
    let fabrics: Vec<MeasuredFabric> = fits.iter().filter(better).map(|fit| fit.fabric.clone()).collect();
    let description = format!("Fabrics refitted on {file}, {date}");
    let constants = (!fabrics.is_empty()).then(|| Constants::of_fabrics(description, fabrics));
    let constants = constants.transpose().map_err(|error| useless(file, "a fabric within its bounds", &error))?;
    Ok(Refit { constants, document, warnings: sweep.unread.into_iter().collect() })
}

/// Tells that no row teaches what was to be fitted, and why the first does not.
fn useless(file: &str, what: &str, reason: &dyn Display) -> Invalid {
    Invalid::inside(file, format!("no row teaches {what}: {reason}")).with_hint(FITTED)
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
