//! Groups that are left out whole, so that what is predicted was not seen.

use super::observation::{Grouping, Observation};
use std::collections::{BTreeMap, BTreeSet};

/// Parts into which the groups of a stack are dealt out.
pub(crate) const FOLDS: usize = 5;

/// Observations that are left out together, of every stack some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    /// The property that they share; none if they are left out row by row.
    pub grouping: Option<Grouping>,
    /// Set for each observation that is left out.
    pub left_out: Vec<bool>,
}

/// Every observation is left out in one fold of each grouping in which its stack has more than one group. A stack that
/// has one group in all groupings is left out row by row, and one with a single row with that row.
pub(crate) fn folds(observations: &[Observation]) -> Vec<Fold> {
    let mut stacks: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, seen) in observations.iter().enumerate() {
        stacks.entry(seen.stack()).or_default().push(index);
    }
    let mut parts: Vec<(Option<Grouping>, Vec<Option<usize>>)> = Vec::new();
    for grouping in Grouping::ALL {
        let mut part = vec![None; observations.len()];
        for rows in stacks.values() {
            let groups: BTreeSet<&str> = rows.iter().map(|row| observations[*row].group(grouping)).collect();
            if groups.len() > 1 {
                for row in rows {
                    let before = groups.range(..observations[*row].group(grouping)).count();
                    part[*row] = Some(before % FOLDS);
                }
            }
        }
        parts.push((Some(grouping), part));
    }
    let mut single = vec![None; observations.len()];
    for rows in stacks.values() {
        if rows.iter().all(|row| parts.iter().all(|(_, part)| part[*row].is_none())) {
            for (count, row) in rows.iter().enumerate() {
                single[*row] = Some(count % FOLDS);
            }
        }
    }
    parts.push((None, single));
    let fold = |(grouping, part): &(Option<Grouping>, Vec<Option<usize>>), number: usize| Fold {
        grouping: *grouping,
        left_out: part.iter().map(|own| *own == Some(number)).collect(),
    };
    let all = parts.iter().flat_map(|part| (0..FOLDS).map(move |number| fold(part, number)));
    all.filter(|fold| fold.left_out.contains(&true)).collect()
}
