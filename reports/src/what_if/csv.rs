//! Cases as rows for other programs: numbers as they are, in the units that the names of the columns say.

use trainyard_plan::WhatIfDocument;

/// Formats the cases of a document, or, where nothing is varied, its assumptions, as CSV (RFC 4180) with a header.
pub fn what_if_csv(document: &WhatIfDocument) -> String {
    if document.axes.is_empty() { assumptions(document) } else { cases(document) }
}

const FIGURES: [&str; 20] = [
    "time_s",
    "in_all_s",
    "time_change",
    "cost_usd",
    "cost_change",
    "step_time_s",
    "interval_low_s",
    "interval_high_s",
    "samples_per_s",
    "samples_per_s_per_device",
    "scaling_efficiency",
    "mfu",
    "bottleneck",
    "memory_peak_bytes",
    "steps",
    "instance",
    "instances",
    "devices",
    "missed_goal",
    "reason",
];

fn cases(document: &WhatIfDocument) -> String {
    let keys = document.axes.iter().map(|axis| axis.key.clone());
    let mut text = line(keys.chain(FIGURES.map(Into::into)));
    for case in &document.cases {
        let own = case.figures.as_ref();
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let words = |words: &Option<String>| words.clone().unwrap_or_default();
        let cells = [
            number(own.map(|own| own.time_s)),
            number(own.map(|own| own.in_all_s)),
            number(case.time_change),
            number(own.and_then(|own| own.cost_usd)),
            number(case.cost_change),
            number(own.map(|own| own.step_time_s)),
            number(own.map(|own| own.interval_s[0])),
            number(own.map(|own| own.interval_s[1])),
            number(own.map(|own| own.samples_per_s)),
            number(own.map(|own| own.samples_per_s_per_device)),
            number(case.scaling_efficiency),
            number(own.and_then(|own| own.mfu)),
            own.map(|own| own.bottleneck.to_string()).unwrap_or_default(),
            own.map(|own| own.memory_peak_bytes.to_string()).unwrap_or_default(),
            own.map(|own| own.steps.to_string()).unwrap_or_default(),
            own.map(|own| own.plan.cluster.instance.clone()).unwrap_or_default(),
            own.map(|own| own.plan.cluster.instances.to_string()).unwrap_or_default(),
            own.map(|own| own.devices.to_string()).unwrap_or_default(),
            words(&case.missed_goal),
            words(&case.reason),
        ];
        text += &line(case.values.iter().cloned().chain(cells));
    }
    text
}

fn assumptions(document: &WhatIfDocument) -> String {
    let header =
        ["key", "factor", "time_s", "time_change", "cost_usd", "cost_change", "what", "basis"].map(String::from);
    let mut text = line(header.into_iter());
    for own in &document.sensitivities {
        for end in 0..2 {
            let cost = |values: Option<[f64; 2]>| values.map(|values| values[end].to_string()).unwrap_or_default();
            let cells = [
                own.key.clone(),
                own.factors[end].to_string(),
                own.time_s[end].to_string(),
                own.time_change[end].to_string(),
                cost(own.cost_usd),
                cost(own.cost_change),
                own.what.clone(),
                own.basis.clone(),
            ];
            text += &line(cells.into_iter());
        }
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = |cell: String| {
        if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
    };
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::tests::{document, tornado, two_keys};

    #[test]
    fn every_row_has_every_column() {
        for document in [document(), two_keys(), tornado()] {
            let text = what_if_csv(&document);
            let counts: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
            assert!(counts.iter().all(|count| *count == counts[0]) && counts.len() > 3, "{text}");
        }
    }

    #[test]
    fn cells_with_commas_are_quoted() {
        assert_eq!(
            line(["a,b".to_owned(), "say \"no\"".into(), "c".into()].into_iter()),
            "\"a,b\",\"say \"\"no\"\"\",c\n"
        );
    }
}
