//! The result of a search.

use super::totals::Evaluated;
use crate::relative::memory_ratio;
use std::collections::BTreeMap;
use trainyard_units::Bytes;

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
    /// Plans that do not fit into memory, by type of machine: how many were looked at, and the least that was needed.
    pub too_large: BTreeMap<usize, (u64, Bytes, Bytes)>,
    /// The plan with the lowest objective, if another that cannot be told from it is recommended.
    pub(crate) optimum: Option<Box<Evaluated>>,
}

/// Returns the one of two amounts of needed and available memory that comes nearer to fitting: stacks of a machine leave
/// different parts of its memory free.
pub(super) fn nearer(one: (Bytes, Bytes), other: (Bytes, Bytes)) -> (Bytes, Bytes) {
    if memory_ratio(other.0, other.1) < memory_ratio(one.0, one.1) { other } else { one }
}

impl Found {
    /// Counts the dropped plans as too large. The least memory that a type needs comes from plans that were looked at,
    /// where there are some, and not from a bound.
    pub(super) fn count_dropped(&mut self, dropped: &Found) {
        for (choice, (plans, needed, available)) in &dropped.too_large {
            if self.plans.contains_key(choice) {
                self.too_large.entry(*choice).or_insert((0, *needed, *available)).0 += plans;
            }
        }
    }

    pub(super) fn note_too_large(&mut self, choice: usize, plans: u64, needed: Bytes, available: Bytes) {
        let entry = self.too_large.entry(choice).or_insert((0, needed, available));
        let (needed, available) = nearer((entry.1, entry.2), (needed, available));
        *entry = (entry.0 + plans, needed, available);
    }
}
