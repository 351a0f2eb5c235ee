//! Memory that plans need and that is not there.

use crate::relative::apart;
use trainyard_plan::Store;
use trainyard_sim::OutOfMemory;
use trainyard_units::Bytes;

/// The memory that a plan needs, or a lower bound of it, and the memory that may be used, which is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shortfall {
    pub needed: Bytes,
    pub available: Bytes,
    /// Where on the machine, if it is not on a device that room is wanting.
    pub store: Option<Store>,
}

impl Shortfall {
    /// Returns by how many times the needed memory exceeds what there is.
    pub(crate) fn ratio(self) -> f64 {
        self.needed.as_f64() / self.available.as_f64().max(1.0)
    }

    /// Formats that ratio, rounded up: with less nothing fits.
    pub(crate) fn times(self) -> String {
        format!("{:.2}", (self.ratio() * 100.0).ceil() / 100.0)
    }

    /// Returns the one of two that comes nearer to fitting: stacks of a machine leave different parts of its memory free.
    pub(crate) fn nearer(self, other: Self) -> Self {
        if other.ratio() < self.ratio() { other } else { self }
    }

    /// Formats what is needed and what there is, with as many digits as tell them apart.
    pub(crate) fn apart(self) -> (String, String) {
        apart(self.needed, self.available)
    }

    /// Names the memory of which there is too little.
    pub(crate) fn place(self) -> &'static str {
        match self.store {
            None => "a device",
            Some(Store::Host) => "main memory",
            Some(Store::Nvme) => "the local disk",
        }
    }

    /// Says how much memory is needed, and how much there is.
    pub(crate) fn in_words(self) -> String {
        let (needed, available) = self.apart();
        format!("at least {needed} needed, {available} available")
    }
}

impl From<OutOfMemory> for Shortfall {
    fn from(full: OutOfMemory) -> Self {
        let (needed, available) = full.amounts();
        let store = match full {
            OutOfMemory::Device { .. } => None,
            OutOfMemory::Machine { store, .. } => Some(store),
        };
        Self { needed, available, store }
    }
}

/// Plans that do not fit into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge {
    pub(crate) plans: u64,
    /// What the plan lacks that comes nearest to fitting.
    pub(crate) least: Shortfall,
}

impl TooLarge {
    /// Counts other plans in.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { plans: self.plans + other.plans, least: self.least.nearer(other.least) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::StageId;

    #[test]
    fn a_want_is_told_of_the_memory_that_is_too_small() {
        let (needed, available) = (Bytes(2), Bytes(1));
        let of = |full| Shortfall::from(full).place();
        assert_eq!(of(OutOfMemory::Device { stage: StageId(0), needed, available }), "a device");
        assert_eq!(of(OutOfMemory::Machine { store: Store::Host, needed, available }), "main memory");
    }

    #[test]
    fn the_nearest_of_several_plans_is_told() {
        let lacking = |needed: u64, available: u64| Shortfall {
            needed: Bytes(needed << 20),
            available: Bytes(available << 20),
            store: None,
        };
        let [large, near] = [lacking(60_000, 40_960), lacking(35_843, 35_840)];
        let both = TooLarge { plans: 2, least: large }.and(TooLarge { plans: 3, least: near });
        assert_eq!(both, TooLarge { plans: 5, least: near });
        assert_eq!(near.times(), "1.01");
        assert_eq!(near.in_words(), "at least 35,843 MiB needed, 35,840 MiB available");
    }
}
