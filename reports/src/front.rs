//! The front of time against cost, point by point.

use crate::format::{Width, columns, lines, seconds, table, usd, wrap};
use crate::layout::{cluster, strategy_and_state};
use std::collections::BTreeMap;
use trainyard_plan::document::{Alternative, Offered, PlanDocument, PriceUsed};
use trainyard_plan::{PlanSpec, Pricing};

/// Formats the plans that no other on the same terms beats in both time and cost, with their numbers and how to save
/// one.
pub(crate) fn front(document: &PlanDocument, width: Width) -> String {
    let all = &document.pareto;
    if all.len() < 2 {
        return String::new();
    }
    let terms = terms(all);
    let mut notes = Vec::new();
    let table = if let [_, _, ..] = terms.as_slice() {
        notes.push("USD, with the number of the point: --point N --out PLAN.json saves that plan.".to_owned());
        notes.push("Other pricing terms re-price the plans; they are not searched again.".into());
        let (table, has_blanks) = by_terms(document, &terms, width);
        notes.extend(has_blanks.then(|| "A blank is beaten on those terms, or has no price.".into()));
        table
    } else {
        notes.push("--point N --out PLAN.json saves point N.".into());
        let rows = all.iter().enumerate().map(|(index, point)| row(index, point));
        table(width, ["point", "terms", "on", "strategy", ">in all", ">cost"], rows)
    };
    let own = &document.prediction;
    let is_own = |point: &Alternative| {
        let alike = |one: f64, other: f64| (one / other - 1.0).abs() < ALIKE;
        let costs = point.cost_usd.zip(own.cost_usd);
        alike(point.time_s, own.elapsed_s()) && costs.is_none_or(|(one, other)| alike(one, other))
    };
    if !all.iter().any(is_own) {
        notes.push("The recommended plan is none of them; Why says what it is preferred for.".into());
    }
    notes.extend(dates(all));
    let notes = wrap(&notes.join(" "), usize::from(width.0).saturating_sub(2));
    let notes = lines(notes.into_iter().map(|line| format!("  {line}")));
    format!("\nTime against cost\n{table}{notes}")
}

/// Lists the terms of all points, those of the job first.
fn terms(all: &[Alternative]) -> Vec<Pricing> {
    let mut terms = Vec::new();
    for point in all {
        if !terms.contains(&point.plan.pricing) {
            terms.push(point.plan.pricing);
        }
    }
    terms
}

/// The part by which a point may differ in time and cost from a plan that is as good.
const ALIKE: f64 = 0.001;

/// The part of its time by which a plan may take longer on other terms in the same row: start-up differs, and machines are
/// reclaimed.
const SAME_TIME: f64 = 0.02;

/// Formats points on several terms as a table with a row for each plan and a column for each of the terms. Where a plan takes
/// noticeably longer on other terms it has another row. Tells if any cell is blank.
fn by_terms(document: &PlanDocument, terms: &[Pricing], width: Width) -> (String, bool) {
    let mut rows: Vec<(&Alternative, Vec<String>)> = Vec::new();
    for (index, point) in document.pareto.iter().enumerate() {
        let same = |first: &Alternative| {
            let on_its_terms = PlanSpec { pricing: point.plan.pricing, ..first.plan.clone() };
            on_its_terms == point.plan && (first.time_s / point.time_s - 1.0).abs() < SAME_TIME
        };
        let row = rows.iter().position(|(first, _)| same(first)).unwrap_or_else(|| {
            rows.push((point, vec![String::new(); terms.len()]));
            rows.len() - 1
        });
        let column = terms.iter().position(|terms| *terms == point.plan.pricing).unwrap_or(0);
        let cost = point.cost_usd.map(|cost| usd(cost).trim_end_matches(" USD").to_owned());
        rows[row].1[column] = format!("{} ({})", cost.unwrap_or_else(|| "–".into()), index + 1);
    }
    let priced = terms.iter().map(|terms| format!(">{}", terms.to_string().replace('-', " ")));
    let header: Vec<String> = ["on", "strategy", ">in all"].map(str::to_owned).into_iter().chain(priced).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let has_blanks = rows.iter().any(|(_, costs)| costs.iter().any(String::is_empty));
    let rows = rows.into_iter().map(|(point, costs)| {
        let stack = point.plan.stack.as_ref().filter(|stack| Some(*stack) != document.plan.stack.as_ref());
        let with = stack.map_or_else(String::new, |stack| format!(" with {stack}"));
        let plan = [format!("{}{with}", cluster(&point.plan)), strategy_and_state(&point.plan), seconds(point.time_s)];
        plan.into_iter().chain(costs).collect::<Vec<_>>()
    });
    (columns(width, &header, rows), has_blanks)
}

/// Formats a point as a row of a table: number, terms, machines, strategy, time, cost.
pub(crate) fn row(index: usize, point: &Alternative) -> [String; 6] {
    [
        (index + 1).to_string(),
        offered(point).map_or_else(|| "–".into(), |_| point.plan.pricing.to_string()),
        cluster(&point.plan),
        strategy_and_state(&point.plan),
        seconds(point.time_s),
        point.cost_usd.map_or_else(|| "–".into(), usd),
    ]
}

/// Returns where and when the price of a point's machines was seen, if they are rented.
fn offered(point: &Alternative) -> Option<Offered<'_>> {
    point.price.as_ref().and_then(PriceUsed::offered)
}

/// Tells the dates of the prices: those of different terms are not of one day.
fn dates(all: &[Alternative]) -> Option<String> {
    let mut seen: BTreeMap<Pricing, Vec<&str>> = BTreeMap::new();
    for point in all {
        let Some(offered) = offered(point) else { continue };
        let dates = seen.entry(point.plan.pricing).or_default();
        if !dates.contains(&offered.date) {
            dates.push(offered.date);
        }
    }
    let each: Vec<String> = seen
        .into_iter()
        .map(|(pricing, mut dates)| {
            dates.sort_unstable();
            format!("{pricing} {}", dates.join(" and "))
        })
        .collect();
    (!each.is_empty()).then(|| format!("Prices as of: {}.", each.join(", ")))
}
