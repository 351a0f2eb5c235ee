//! The front of time against cost, point by point.

use crate::format::{Width, lines, seconds, table, usd, wrap};
use crate::layout::{cluster, strategy_and_state};
use std::collections::BTreeMap;
use trainyard_plan::Pricing;
use trainyard_plan::document::{Alternative, Offered, PlanDocument, PriceUsed};

/// Formats the plans that no other on the same terms beats in both time and cost, with their numbers and how to save
/// one.
pub(crate) fn front(document: &PlanDocument, width: Width) -> String {
    let all = &document.pareto;
    if all.len() < 2 {
        return String::new();
    }
    let rows = all.iter().enumerate().map(|(index, point)| row(index, point));
    let table = table(width, ["point", "terms", "on", "strategy", ">in all", ">cost"], rows);
    let mut notes = vec!["--point N --out PLAN.json saves point N.".to_owned()];
    if all.iter().any(|point| point.plan.pricing != all[0].plan.pricing) {
        notes.push("Other pricing terms re-price these plans; they are not searched again.".into());
    }
    notes.extend(dates(all));
    let notes = wrap(&notes.join(" "), usize::from(width.0).saturating_sub(2));
    let notes = lines(notes.into_iter().map(|line| format!("  {line}")));
    format!("\nTime against cost\n{table}{notes}")
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
