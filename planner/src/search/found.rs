//! The result of a search.

use super::totals::Evaluated;
use crate::shortfall::TooLarge;
use std::collections::BTreeMap;

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The best plan of each type and number of machines, best first, within deadline and budget.
    pub best: Vec<Evaluated>,
    /// The fastest plan that was simulated, of each type and number of machines. It is also the cheapest there,
    /// whatever the price of an hour.
    pub fastest: Vec<Evaluated>,
    /// Of a search that a number of simulations may end, the fastest plan that was simulated of each choice, number of
    /// machines and complexity.
    pub(crate) simulated_plans: Vec<Evaluated>,
    /// Plans in the space.
    pub candidates: u64,
    /// Plans that were simulated.
    pub simulated: u64,
    /// Upper bound of how much better an unseen plan could be than the best one found.
    pub gap: f64,
    /// Plans in the space, by type of machine.
    pub plans: BTreeMap<usize, u64>,
    /// Plans that were looked at and do not fit into memory, by type of machine.
    pub too_large: BTreeMap<usize, TooLarge>,
    /// The plan with the lowest objective, if another that cannot be told from it is recommended.
    pub(crate) optimum: Option<Box<Evaluated>>,
}

impl Found {
    /// Counts the dropped plans as too large. The least memory that a type needs comes from plans that were looked at,
    /// where there are some, and not from a bound.
    pub(super) fn count_dropped(&mut self, dropped: &Found) {
        for (kind, own) in &dropped.too_large {
            if self.plans.contains_key(kind) {
                self.too_large.entry(*kind).or_insert(TooLarge { plans: 0, ..*own }).plans += own.plans;
            }
        }
    }

    /// Notes that plans of a type of machine do not fit.
    pub(super) fn note_too_large(&mut self, kind: usize, own: TooLarge) {
        self.too_large.entry(kind).and_modify(|all| *all = all.and(own)).or_insert(own);
    }
}
