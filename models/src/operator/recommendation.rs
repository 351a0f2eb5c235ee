//! Operators of recommendation models: tables of categories, and products between what they hold.

use super::{Pass, Storage, elements};
use trainyard_units::Flops;

/// Bytes of an index into a table.
const INDEX: u64 = 8;

/// What a recommendation model computes besides products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recommendation {
    /// One row of each of several tables, kept in single precision. Ranks may divide the tables: each then looks up its
    /// part for the samples of all of them, as many values as if it had all tables for its own (Naumov et al.,
    /// arXiv:1906.00091, section 4).
    Tables {
        samples: u64,
        /// Tables, one row of each of which a sample needs.
        tables: u64,
        /// Rows of all tables together.
        entries: u64,
        /// Features of a row.
        width: u64,
    },
    /// Dot products of all pairs of a sample's vectors, beside the first of them, in one kernel (Naumov et al.,
    /// arXiv:1906.00091, section 3.2).
    Interaction {
        samples: u64,
        /// Vectors of a sample: one for each table and one of dense features.
        vectors: u64,
        /// Features of a vector.
        width: u64,
        /// Features of the result.
        outputs: u64,
    },
}

impl Recommendation {
    /// Pairs of different vectors.
    pub(crate) fn pairs_of(vectors: u64) -> u64 {
        vectors * (vectors - 1) / 2
    }

    pub(super) fn for_samples(self, count: u64) -> Self {
        let mut scaled = self;
        match &mut scaled {
            Self::Tables { samples, .. } | Self::Interaction { samples, .. } => *samples *= count,
        }
        scaled
    }

    /// Returns the tables' part of a rank that shares them with others.
    pub(super) fn share_tables(self, parts: u64) -> Self {
        match self {
            Self::Tables { samples, tables, entries, width } => {
                Self::Tables { samples, tables, entries: entries.div_ceil(parts), width }
            }
            interaction @ Self::Interaction { .. } => interaction,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tables { .. } => "embedding tables",
            Self::Interaction { .. } => "dot interaction",
        }
    }

    pub(super) fn parameters(self) -> u64 {
        match self {
            Self::Tables { entries, width, .. } => entries * width,
            Self::Interaction { .. } => 0,
        }
    }

    pub(super) fn parameter_tensors(self) -> u32 {
        match self {
            Self::Tables { tables, .. } => tables as u32,
            Self::Interaction { .. } => 0,
        }
    }

    /// Returns the values of the rows that are looked up.
    pub(crate) fn looked_up(self) -> u64 {
        match self {
            Self::Tables { samples, tables, width, .. } => samples * tables * width,
            Self::Interaction { .. } => 0,
        }
    }

    /// Returns the arithmetic inside the kernel.
    pub(super) fn fused_flops(self, pass: Pass) -> Flops {
        let Self::Interaction { samples, vectors, width, .. } = self else { return Flops(0.0) };
        let forward = 2.0 * (samples * vectors * vectors * width) as f64;
        Flops(if pass == Pass::Forward { forward } else { 2.0 * forward })
    }

    pub(super) fn traffic(self, pass: Pass) -> Storage {
        let forward = pass == Pass::Forward;
        match self {
            // Forward reads rows and writes them in the format of compute. Backward reads gradients and orders them by
            // row, to be added in the update.
            Self::Tables { samples, tables, .. } => Storage {
                elements: self.looked_up() * if forward { 1 } else { 2 },
                single: if forward { self.looked_up() } else { 0 },
                masks: INDEX * samples * tables,
            },
            Self::Interaction { samples, vectors, width, outputs } => {
                elements(samples * (vectors * width * if forward { 1 } else { 2 } + outputs))
            }
        }
    }

    pub(super) fn kernels(self, pass: Pass) -> u32 {
        match (self, pass) {
            (Self::Tables { .. }, Pass::Forward) | (Self::Interaction { .. }, _) => 1,
            // Indices sorted, gradients of equal ones summed.
            (Self::Tables { .. }, Pass::Backward) => 3,
        }
    }

    pub(super) fn stored(self) -> Storage {
        match self {
            Self::Tables { samples, tables, .. } => Storage { masks: INDEX * samples * tables, ..Storage::default() },
            Self::Interaction { samples, vectors, width, .. } => elements(samples * vectors * width),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_moves_rows_and_no_table() {
        let tables = |entries| Recommendation::Tables { samples: 64, tables: 26, entries, width: 128 };
        for pass in [Pass::Forward, Pass::Backward] {
            assert_eq!(tables(1_000).traffic(pass), tables(1_000_000).traffic(pass));
        }
        assert_eq!(tables(1_000).traffic(Pass::Forward).single, 64 * 26 * 128);
        assert_eq!(tables(1_000).share_tables(8).parameters(), 125 * 128);
        assert_eq!(tables(1_000).share_tables(8).looked_up(), tables(1_000).looked_up());
    }

    #[test]
    fn an_interaction_multiplies_every_pair() {
        let interaction = Recommendation::Interaction { samples: 3, vectors: 27, width: 128, outputs: 480 };
        let mut products = 0.0;
        for _sample in 0..3 {
            for _pair in 0..27 * 27 {
                products += 128.0;
            }
        }
        assert!((interaction.fused_flops(Pass::Forward).0 - 2.0 * products).abs() < 1e-9);
    }
}
