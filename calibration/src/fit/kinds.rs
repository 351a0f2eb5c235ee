//! By how much predictions of each kind of published steps are off when their group is left out.

use super::observation::{Grouping, Observation};
use super::widths::NINE_TENTHS;
use crate::interval::Kind;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_hardware_profiles::{Seen, Sourced};

/// Fewer steps of a kind say too little of it.
const ROWS_MIN: usize = 4;

/// So do steps of fewer models and scales: those of one are off by the same.
const GROUPS_MIN: usize = 3;

/// For each stack the kinds of steps of which enough were published, whatever their arithmetic and by arithmetic.
pub(crate) fn seen(observations: &[Observation], residuals: &[Vec<f64>]) -> BTreeMap<String, Vec<Seen>> {
    let mut kinds: BTreeMap<(&str, Kind<'_>), Vec<(&Observation, f64)>> = BTreeMap::new();
    for (seen, own) in observations.iter().zip(residuals).filter(|(_, own)| !own.is_empty()) {
        let Some(kind) = Kind::of(&seen.plan, &seen.machine) else { continue };
        for kind in [kind.whatever_arithmetic(), kind] {
            kinds.entry((seen.stack(), kind)).or_default().push((seen, root_mean_square(own)));
        }
    }
    let mut stacks: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for ((stack, kind), rows) in &kinds {
        // Where all steps have one arithmetic, they stand under it alone.
        let all_alike = kinds.iter().any(|((name, narrower), own)| {
            name == stack && narrower != kind && narrower.whatever_arithmetic() == *kind && own.len() == rows.len()
        });
        if !all_alike && tells(rows) {
            stacks.entry((*stack).to_owned()).or_default().push(entry(kind, rows));
        }
    }
    stacks
}

/// Whether steps are enough, of enough models and scales.
fn tells(rows: &[(&Observation, f64)]) -> bool {
    let group = |seen: &Observation| Grouping::ALL.map(|grouping| seen.group(grouping).to_owned());
    let groups: BTreeSet<[String; 3]> = rows.iter().map(|(seen, _)| group(seen)).collect();
    rows.len() >= ROWS_MIN && groups.len() >= GROUPS_MIN
}

fn entry(kind: &Kind<'_>, rows: &[(&Observation, f64)]) -> Seen {
    Seen {
        generation: kind.generation.to_owned(),
        work: kind.work,
        arithmetic: kind.arithmetic,
        network: kind.network,
        rows: rows.len() as u32,
        devices: rows.iter().map(|(seen, _)| seen.plan.mesh().ranks()).max().unwrap_or(1),
        half_width: Sourced::new(
            nine_tenths(rows.iter().map(|(_, residual)| *residual).collect()),
            "holds nine in ten of the published steps of this kind, each predicted without its group",
        ),
    }
}

fn root_mean_square(residuals: &[f64]) -> f64 {
    (residuals.iter().map(|residual| residual * residual).sum::<f64>() / residuals.len() as f64).sqrt()
}

/// The width that holds the next residual with nine tenths of probability, if it is drawn as these were: one more of
/// them counts as farther away than all (split conformal prediction, Lei et al., arXiv:1604.04173, section 2.2).
fn nine_tenths(mut residuals: Vec<f64>) -> f64 {
    residuals.sort_by(f64::total_cmp);
    let rank = ((residuals.len() + 1) as f64 * NINE_TENTHS).ceil() as usize;
    (residuals[rank.clamp(1, residuals.len()) - 1] * 1e3).ceil() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_tenths_of_the_next_are_inside() {
        let residuals = |count: u32| (1..=count).rev().map(|one| f64::from(one) / 1000.0).collect();
        assert!((nine_tenths(residuals(99)) - 0.09).abs() < 1e-12);
        // Of few the farthest counts.
        assert!((nine_tenths(residuals(9)) - 0.009).abs() < 1e-12);
        assert!((nine_tenths(residuals(5)) - 0.005).abs() < 1e-12);
    }
}
