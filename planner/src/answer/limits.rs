//! Limits of a search for the plan to recommend.

use trainyard_plan::Fixed;

/// Limits of a search and the fields that its plans must have.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Number of clusters to rank: the recommended one and the runners-up.
    pub top: usize,
    /// Stop after this many simulations; the report then states the gap.
    pub max_simulations: Option<u64>,
    /// Fields that every plan must have.
    pub fixed: Fixed,
}
