//! Every row of a table predicted, and the errors summed up.

use crate::collectives;
use crate::configuration::{Unsupported, configure_in};
use crate::document::{RowResult, Status, SuiteResult, VALIDATION_SCHEMA, ValidationDocument};
use crate::interval::interval;
use crate::table::{Entry, Row, RowError, Table, TableError, entries, needs_measurements};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_hardware_profiles::{Catalog, catalog};

/// Predicts every row of a table of training measurements, or of collective measurements, which its header tells
/// apart.
///
/// A row with a bad cell is unsupported, with the cell in its reason and in [`ValidationDocument::malformed`].
///
/// # Errors
///
/// When the text is no table: not CSV, empty, or without a column that such tables have.
pub fn validate(text: &str, file: &str) -> Result<ValidationDocument, TableError> {
    validate_in(text, file, catalog())
}

/// The same with GPUs, machines and stacks of another catalog.
///
/// # Errors
///
/// As [`validate`].
pub fn validate_in(text: &str, file: &str, catalog: &Catalog) -> Result<ValidationDocument, TableError> {
    let table = Table::parse(text, file)?;
    if collectives::is_table(&table) {
        let results = collectives::results(&table, catalog)?;
        return Ok(document(results, |_| None));
    }
    needs_measurements(&table)?;
    let entries = entries(&table);
    let results: Vec<(RowResult, Option<RowError>)> =
        entries.par_iter().map(|entry| predicted(entry, catalog)).collect();
    let rows: Vec<Option<&Row>> = entries
        .iter()
        .map(|entry| match entry {
            Entry::Row(row) => Some(&**row),
            Entry::Malformed { .. } => None,
        })
        .collect();
    let seconds: Vec<Option<f64>> = results.iter().map(|(result, _)| result.predicted_step_time_s).collect();
    let groups = groups(&rows);
    Ok(document(results, |suite| regret(&groups, &rows, &seconds, suite)))
}

fn predicted(entry: &Entry, catalog: &Catalog) -> (RowResult, Option<RowError>) {
    match entry {
        Entry::Malformed { id, suite, error } => (unsupported(id, suite, None, error.to_string()), Some(error.clone())),
        Entry::Row(row) => {
            let result = match predict(row, catalog) {
                Ok((seconds, interval)) => scored(&row.id, &row.suite, seconds, interval, row.step_time_s),
                Err(Unsupported { reason }) => unsupported(&row.id, &row.suite, Some(row.step_time_s), reason),
            };
            (result, None)
        }
    }
}

fn predict(row: &Row, catalog: &Catalog) -> Result<(f64, [f64; 2]), Unsupported> {
    let configuration = configure_in(row, catalog)?;
    let (plan, outcome) = configuration.predict()?;
    Ok((outcome.step_time.0, interval(plan, &configuration.machine, &outcome)))
}

pub(crate) fn scored(id: &str, suite: &str, predicted: f64, interval: [f64; 2], measured: f64) -> RowResult {
    RowResult {
        id: id.into(),
        suite: suite.into(),
        status: Status::Ok,
        reason: None,
        predicted_step_time_s: Some(predicted),
        interval_s: Some(interval),
        measured_step_time_s: Some(measured),
        error: Some(predicted / measured - 1.0),
    }
}

pub(crate) fn unsupported(id: &str, suite: &str, measured: Option<f64>, reason: String) -> RowResult {
    RowResult {
        id: id.into(),
        suite: suite.into(),
        status: Status::Unsupported,
        reason: Some(reason),
        predicted_step_time_s: None,
        interval_s: None,
        measured_step_time_s: measured,
        error: None,
    }
}

fn document(
    results: Vec<(RowResult, Option<RowError>)>,
    regret: impl Fn(Option<&str>) -> Option<f64>,
) -> ValidationDocument {
    let (rows, malformed): (Vec<RowResult>, Vec<Option<RowError>>) = results.into_iter().unzip();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.suite.as_str()).collect();
    let mut suites: Vec<SuiteResult> = names
        .into_iter()
        .map(|name| {
            let own: Vec<&RowResult> = rows.iter().filter(|row| row.suite == name).collect();
            summary(name, &own, regret(Some(name)))
        })
        .collect();
    suites.push(summary("*", &rows.iter().collect::<Vec<_>>(), regret(None)));
    ValidationDocument {
        schema: VALIDATION_SCHEMA.into(),
        rows,
        suites,
        malformed: malformed.into_iter().flatten().collect(),
    }
}

fn summary(suite: &str, rows: &[&RowResult], regret: Option<f64>) -> SuiteResult {
    let errors: Vec<f64> = rows.iter().filter_map(|row| row.error).collect();
    let held = |row: &&&RowResult| {
        let (Some([low, high]), Some(measured)) = (row.interval_s, row.measured_step_time_s) else { return false };
        (low..=high).contains(&measured)
    };
    let mean = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let absolute: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    SuiteResult {
        suite: suite.into(),
        rows: rows.len(),
        predicted: errors.len(),
        mape: mean(&absolute),
        median: median(absolute),
        bias: mean(&errors),
        coverage90: (!errors.is_empty()).then(|| rows.iter().filter(held).count() as f64 / errors.len() as f64),
        regret,
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// The rows that do the same work on the same machines, by index; plans with open knobs stand in no group.
fn groups(rows: &[Option<&Row>]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let Some(row) = row else { continue };
        if [row.dp, row.tp, row.pp].iter().all(Option::is_some) && row.micro_batch.is_some() {
            let work = (
                (&row.suite, &row.system, &row.model, row.layers, row.hidden, row.seq_len),
                (row.global_batch, row.nodes, row.gpus_per_node, &row.stack, &row.precision),
                (row.zero_stage, row.recompute),
            );
            groups.entry(format!("{work:?}")).or_default().push(index);
        }
    }
    groups.into_values().collect()
}

/// The mean regret over the groups of a suite, or of all suites.
fn regret(groups: &[Vec<usize>], rows: &[Option<&Row>], predicted: &[Option<f64>], suite: Option<&str>) -> Option<f64> {
    let regrets: Vec<f64> = groups
        .iter()
        .filter_map(|group| {
            let members = group.iter().filter_map(|index| Some((rows[*index]?, predicted[*index]?)));
            let members: Vec<(&Row, f64)> =
                members.filter(|(row, _)| suite.is_none_or(|suite| suite == row.suite)).collect();
            let plans: BTreeSet<String> = members
                .iter()
                .map(|(row, _)| (row.dp, row.tp, row.pp, row.micro_batch, row.schedule, row.virtual_stages))
                .map(|plan| format!("{plan:?}"))
                .collect();
            let chosen = members.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(row, _)| row.step_time_s)?;
            let best = members.iter().map(|(row, _)| row.step_time_s).min_by(f64::total_cmp)?;
            (plans.len() >= 3).then_some(chosen / best - 1.0)
        })
        .collect();
    (!regrets.is_empty()).then(|| regrets.iter().sum::<f64>() / regrets.len() as f64)
}
