//! Random numbers that depend on the seed and on what they are for, and on nothing else: those of samples, and those of
//! the weights that a training starts from.

use rand::SeedableRng;
use rand_pcg::Pcg64;

/// The purpose of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// First values of a parameter.
    Parameter { layer: u32, slot: u32 },
    /// The order of samples in an epoch.
    Order { epoch: u64 },
    /// The hidden tokens of a training sample.
    Mask {
        /// The sample's place in the order of training.
        position: u64,
    },
    /// The hidden tokens of a held-out sample.
    HeldOutMask {
        /// Index of the held-out sample.
        index: u64,
    },
    /// What a place in a layer drops out.
    Dropout { layer: u32, place: u32 },
    /// The values of a sample that is made up.
    Synthetic {
        /// The number of the sample.
        number: u64,
    },
}

/// Returns a generator for this purpose, unrelated to those for others.
pub fn generator(seed: u64, purpose: Purpose) -> Pcg64 {
    Pcg64::seed_from_u64(key(seed, purpose))
}

/// Returns a key for this purpose, for random numbers that are a function of a key and of what they are numbered by.
pub fn key(seed: u64, purpose: Purpose) -> u64 {
    let words = match purpose {
        Purpose::Parameter { layer, slot } => [1, u64::from(layer), u64::from(slot)],
        Purpose::Order { epoch } => [2, epoch, 0],
        Purpose::Mask { position } => [3, position, 0],
        Purpose::HeldOutMask { index } => [4, index, 0],
        Purpose::Synthetic { number } => [5, number, 0],
        Purpose::Dropout { layer, place } => [6, u64::from(layer), u64::from(place)],
    };
    words.into_iter().fold(mix(seed), |hash, word| mix(hash ^ word))
}

/// Applies SplitMix64's output function, a bijection whose every output bit depends on every input bit.
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014, figure 17.
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn every_purpose_has_its_own_numbers() {
        let parameters = (0..6).flat_map(|layer| (0..12).map(move |slot| Purpose::Parameter { layer, slot }));
        let dropped = (0..6).flat_map(|layer| (0..4).map(move |place| Purpose::Dropout { layer, place }));
        let orders = (0..20).map(|epoch| Purpose::Order { epoch });
        let samples = (0..20).flat_map(|i| {
            [Purpose::Mask { position: i }, Purpose::HeldOutMask { index: i }, Purpose::Synthetic { number: i }]
        });
        let purposes: Vec<_> = parameters.chain(dropped).chain(orders).chain(samples).collect();
        let mut first: Vec<u64> =
            (0..3).flat_map(|seed| purposes.iter().map(move |p| generator(seed, *p).random::<u64>())).collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 3 * purposes.len());
    }
}
