//! Cases as rows for other programs: numbers as they are, in the units that the names of the columns say.

use crate::layout::strategy_and_state;
use trainyard_plan::{WhatIfCase, WhatIfDocument, WhatIfFigures};

/// Formats the cases of a document, or, where nothing is varied, its assumptions, as CSV (RFC 4180) with a header.
pub fn what_if_csv(document: &WhatIfDocument) -> String {
    if document.axes.is_empty() { assumptions(document) } else { cases(document) }
}

/// What a column of figures holds.
type Cell = fn(&WhatIfCase, &WhatIfFigures) -> String;

/// The columns of a case with a plan, in their order.
const FIGURES: [(&str, Cell); 35] = [
    ("time_s", |_, own| own.time_s.to_string()),
    ("in_all_s", |_, own| own.in_all_s.to_string()),
    ("time_change", |case, _| shown(case.time_change)),
    ("cost_usd", |_, own| shown(own.cost_usd)),
    ("cost_low_usd", |_, own| shown(own.cost_interval_usd.map(|ends| ends[0]))),
    ("cost_high_usd", |_, own| shown(own.cost_interval_usd.map(|ends| ends[1]))),
    ("cost_change", |case, _| shown(case.cost_change)),
    ("within_deadline", |_, own| shown(own.within_deadline)),
    ("within_budget", |_, own| shown(own.within_budget)),
    ("usd_per_hour", |_, own| shown(own.price.as_ref().map(|price| price.usd_per_hour))),
    ("price_date", |_, own| shown(own.price.as_ref().and_then(|price| price.date.clone()))),
    ("pricing", |_, own| shown(own.price.as_ref().and_then(|price| price.pricing))),
    ("service", |_, own| shown(own.price.as_ref().and_then(|price| price.service.clone()))),
    ("region", |_, own| shown(own.price.as_ref().and_then(|price| price.region.clone()))),
    ("step_time_s", |_, own| own.step_time_s.to_string()),
    ("interval_low_s", |_, own| own.interval_s[0].to_string()),
    ("interval_high_s", |_, own| own.interval_s[1].to_string()),
    ("samples_per_s", |_, own| own.samples_per_s.to_string()),
    ("samples_per_s_per_device", |_, own| own.samples_per_s_per_device.to_string()),
    ("scaling_efficiency", |case, _| shown(case.scaling_efficiency)),
    ("mfu", |_, own| shown(own.mfu)),
    ("bottleneck", |_, own| own.bottleneck.to_string()),
    ("memory_peak_bytes", |_, own| own.memory_peak_bytes.to_string()),
    ("steps", |_, own| own.steps.to_string()),
    ("instance", |_, own| own.plan.cluster.instance.clone()),
    ("instances", |_, own| own.plan.cluster.instances.to_string()),
    ("devices", |_, own| own.devices.to_string()),
    ("strategy", |_, own| strategy_and_state(&own.plan)),
    ("micro_batch", |_, own| own.plan.batch.micro.to_string()),
    ("accumulation", |_, own| own.plan.batch.accumulation.to_string()),
    ("recompute", |_, own| own.plan.recompute.to_string()),
    ("precision", |_, own| own.plan.precision.to_string()),
    ("stack", |_, own| shown(own.plan.stack.clone())),
    ("choice", |case, _| shown(case.choice.clone())),
    ("missed_goal", |case, _| shown(case.missed_goal.clone())),
];

/// Formats what may be unknown: an empty cell.
fn shown(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Formats a line for each case. What varies is prefixed: a plan has fields of the same names.
fn cases(document: &WhatIfDocument) -> String {
    let keys = document.axes.iter().map(|axis| format!("vary.{}", axis.key));
    let figures = FIGURES.iter().map(|(name, _)| (*name).to_owned());
    let mut text = line(keys.chain(figures).chain(["warnings".into(), "reason".into()]));
    for case in &document.cases {
        let of = |(_, cell): &(&str, Cell)| case.figures.as_ref().map(|own| cell(case, own)).unwrap_or_default();
        let told = [case.warnings.join("; "), shown(case.reason.clone())];
        text += &line(case.values.iter().cloned().chain(FIGURES.iter().map(of)).chain(told));
    }
    text
}

fn assumptions(document: &WhatIfDocument) -> String {
    let header =
        ["key", "factor", "in_all_s", "time_change", "cost_usd", "cost_change", "what", "basis"].map(String::from);
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
    fn columns_have_names_of_their_own_and_what_a_price_rests_on() {
        // `instances` varies, and is a field of the plan too.
        let text = what_if_csv(&two_keys());
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let (header, first) = (lines.next().expect("a header"), lines.next().expect("a case"));
        let mut names = header.clone();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{header:?}");
        let cell = |name: &str| first[header.iter().position(|own| *own == name).expect(name)];
        assert_eq!((cell("vary.instances"), cell("vary.pricing"), cell("pricing")), ("1", "spot", "on-demand"));
        assert_eq!((cell("usd_per_hour"), cell("price_date"), cell("region")), ("24.48", "2026-07-20", "us-east-1"));
        assert_eq!((cell("time_s"), cell("in_all_s"), cell("cost_low_usd")), ("1000", "1250", "500"));
        let layout = ["service", "micro_batch", "accumulation", "recompute", "choice"].map(cell);
        assert_eq!(layout, ["ec2", "1", "1", "none", ""]);
        // The time of an assumption is that in all, under the name that it has beside cases.
        assert!(what_if_csv(&tornado()).starts_with("key,factor,in_all_s,time_change,"));
    }

    #[test]
    fn cells_with_commas_are_quoted() {
        assert_eq!(
            line(["a,b".to_owned(), "say \"no\"".into(), "c".into()].into_iter()),
            "\"a,b\",\"say \"\"no\"\"\",c\n"
        );
    }
}
