//! A validation as a page.

use crate::format::{Width, bullets, deviation, percent, seconds, table};
use trainyard_calibration::{Reason, RowResult, SuiteResult};

/// Formats a validation for a reader: one line for each suite, and why rows have no prediction.
pub fn validation(suites: &[SuiteResult], reasons: &[Reason], width: Width) -> String {
    let shown = |value: Option<f64>, print: fn(f64) -> String| value.map_or_else(|| "–".into(), print);
    let rows = suites.iter().map(|suite| {
        let regret = suite.regret.zip(suite.regret_max);
        [
            if suite.suite == "*" { "all".into() } else { suite.suite.clone() },
            suite.rows.to_string(),
            suite.predicted.to_string(),
            shown(suite.mape, percent),
            shown(suite.median, percent),
            shown(suite.bias, deviation),
            shown(suite.coverage90, percent),
            regret.map_or_else(|| "–".into(), |(mean, most)| format!("{} ({})", percent(mean), percent(most))),
        ]
    });
    let header =
        ["suite", ">rows", ">predicted", ">mean error", ">median", ">bias", ">in 90 % interval", ">regret (worst)"];
    let reasons: Vec<String> = reasons.iter().map(reason).collect();
    table(width, header, rows) + &bullets(width, "Not predicted", &reasons)
}

fn reason(reason: &Reason) -> String {
    let lines: Vec<String> = reason.lines.iter().map(u64::to_string).collect();
    let more = if reason.rows > reason.lines.len() as u64 { ", …" } else { "" };
    match reason.rows {
        1 => format!("line {}: {}", lines.join(", "), reason.reason),
        rows => format!("{rows} rows (lines {}{more}): {}", lines.join(", "), reason.reason),
    }
}

/// Formats every predicted row of a validation.
pub fn validation_rows(rows: &[RowResult], width: Width) -> String {
    let rows = rows.iter().filter_map(|row| {
        let (predicted, [low, high]) = (row.predicted_step_time_s?, row.interval_s?);
        Some([
            row.id.clone(),
            row.suite.clone(),
            seconds(predicted),
            format!("{} to {}", seconds(low), seconds(high)),
            row.measured_step_time_s.map_or_else(|| "–".into(), seconds),
            row.error.map_or_else(|| "–".into(), deviation),
        ])
    });
    let header = ["row", "suite", ">predicted", ">90 % interval", ">measured", ">error"];
    format!("\n{}", table(width, header, rows))
}
