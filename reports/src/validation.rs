//! A validation as a page.

use crate::format::{Width, bullets, deviation, percent, seconds, table};
use std::collections::BTreeMap;
use trainyard_calibration::{Status, ValidationDocument};

/// A validation document for a reader: one line for each suite, and why rows have no prediction.
pub fn validation(document: &ValidationDocument, width: Width) -> String {
    let shown = |value: Option<f64>, print: fn(f64) -> String| value.map_or_else(|| "–".into(), print);
    let rows = document.suites.iter().map(|suite| {
        [
            if suite.suite == "*" { "all".into() } else { suite.suite.clone() },
            suite.rows.to_string(),
            suite.predicted.to_string(),
            shown(suite.mape, percent),
            shown(suite.median, percent),
            shown(suite.bias, deviation),
            shown(suite.coverage90, percent),
            shown(suite.regret, percent),
        ]
    });
    let header = ["suite", ">rows", ">predicted", ">mean error", ">median", ">bias", ">90 % intervals hold", ">regret"];
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for row in document.rows.iter().filter(|row| row.status == Status::Unsupported) {
        *reasons.entry(row.reason.as_deref().unwrap_or("no reason given")).or_default() += 1;
    }
    let mut reasons: Vec<(&str, u64)> = reasons.into_iter().collect();
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let reasons: Vec<String> = reasons
        .into_iter()
        .map(|(reason, count)| format!("{count} {}: {reason}", if count == 1 { "row" } else { "rows" }))
        .collect();
    table(width, header, rows) + &bullets(width, "Not predicted", &reasons)
}

/// Every predicted row of a validation document.
pub fn validation_rows(document: &ValidationDocument, width: Width) -> String {
    let rows = document.rows.iter().filter_map(|row| {
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
