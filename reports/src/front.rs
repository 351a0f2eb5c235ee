//! The front of time against cost, point by point.

use crate::format::{Width, lines, seconds, table, usd, wrap};
use crate::layout::{cluster, strategy};
use std::collections::BTreeMap;
use trainyard_plan::Pricing;
use trainyard_plan::document::{Alternative, PlanDocument};

/// Number of points that are shown unless all are.
const SHOWN: usize = 8;
/// Number of these on each of the terms that are not the job's.
const OTHERS: usize = 2;

/// The points of a front to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// The ends, and points spread evenly between them.
    Some,
    All,
}

/// Formats the plans that no other on the same terms beats in both time and cost, with their numbers and how to save
/// one.
pub(crate) fn front(document: &PlanDocument, points: Points, width: Width) -> String {
    let all = &document.pareto;
    if all.len() < 2 {
        return String::new();
    }
    let shown = match points {
        Points::All => (0..all.len()).collect(),
        Points::Some => selection(all),
    };
    let rows = shown.iter().map(|index| row(*index, &all[*index]));
    let table = table(width, ["point", "terms", "on", "strategy", ">time", ">cost"], rows);
    let mut notes = vec!["--point N --out PLAN.json saves point N.".to_owned()];
    if shown.len() < all.len() {
        notes.push(format!("Of {} points, {} are shown; all with -v.", all.len(), shown.len()));
    }
    if all.iter().any(|point| point.plan.pricing != all[0].plan.pricing) {
        notes.push("On other terms than the job's, plans that were found for it are priced.".into());
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
        point.price.as_ref().map_or_else(|| "–".into(), |_| point.plan.pricing.to_string()),
        cluster(&point.plan),
        strategy(&point.plan),
        seconds(point.time_s),
        point.cost_usd.map_or_else(|| "–".into(), usd),
    ]
}

/// Tells the dates of the prices: those of different terms are not of one day.
fn dates(all: &[Alternative]) -> Option<String> {
    let mut seen: BTreeMap<Pricing, Vec<&str>> = BTreeMap::new();
    for point in all {
        let Some(price) = &point.price else { continue };
        let dates = seen.entry(point.plan.pricing).or_default();
        if !dates.contains(&price.date.as_str()) {
            dates.push(&price.date);
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

/// Selects some of many points: the fastest and the cheapest of each of the terms, and more of the first.
fn selection(all: &[Alternative]) -> Vec<usize> {
    if all.len() <= SHOWN {
        return (0..all.len()).collect();
    }
    let mut terms: Vec<(Pricing, Vec<usize>)> = Vec::new();
    for (index, point) in all.iter().enumerate() {
        match terms.iter_mut().find(|(pricing, _)| *pricing == point.plan.pricing) {
            Some((_, own)) => own.push(index),
            None => terms.push((point.plan.pricing, vec![index])),
        }
    }
    let first = SHOWN - OTHERS * (terms.len() - 1).min(SHOWN / OTHERS - 1);
    let share = |place: usize| if place == 0 { first } else { OTHERS };
    terms.iter().enumerate().flat_map(|(place, (_, own))| spread(own, share(place))).collect()
}

/// Selects at most `most` (at least two) of some indices, both ends included and evenly spread between them.
fn spread(own: &[usize], most: usize) -> Vec<usize> {
    if own.len() <= most {
        return own.to_vec();
    }
    (0..most).map(|place| own[place * (own.len() - 1) / (most - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_holds_both_ends() {
        let own: Vec<usize> = (10..30).collect();
        assert_eq!(spread(&own, 4), [10, 16, 22, 29]);
        assert_eq!(spread(&own, 2), [10, 29]);
        assert_eq!(spread(&own[..3], 4), [10, 11, 12]);
    }
}
