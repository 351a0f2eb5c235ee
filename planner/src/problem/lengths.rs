//! Samples of different lengths as sequences of one.

use std::collections::BTreeMap;
use trainyard_models::Model;
use trainyard_plan::{DataSpec, JobSpec};
use trainyard_units::{Invalid, counted, human_count};

/// The most samples of a file of lengths.
const SAMPLES_MAX: usize = 100_000_000;

/// The part of a sequence from which padding to the longest sample of a micro-batch is about padding to all of it.
const NEARLY_WHOLE: f64 = 0.95;

/// What became of samples of different lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    samples: u64,
    sequences: u64,
    /// Tokens of a sequence.
    capacity: u64,
    /// Tokens of samples in all sequences.
    kept: u64,
    /// Samples that are longer than a sequence.
    cut: u64,
    packed: bool,
    /// Tokens of the longest of 1, 2, 4, … samples, on average.
    longest: [u64; MICRO_BATCHES],
}

/// Micro-batches for which the longest sample is known: 1 to 256.
const MICRO_BATCHES: usize = 9;

/// Returns the tokens of the longest of 1, 2, 4, … samples, on average, none longer than `capacity`.
fn longest(lengths: &[u64], capacity: u64) -> [u64; MICRO_BATCHES] {
    let mut sorted: Vec<u64> = lengths.iter().map(|length| (*length).clamp(1, capacity)).collect();
    sorted.sort_unstable();
    let all = sorted.len() as f64;
    std::array::from_fn(|doublings| {
        // The probability that none of so many samples is behind a place in the order.
        let up_to = |place: usize| (place as f64 / all).powi(1 << doublings);
        let weighed =
            sorted.iter().enumerate().map(|(place, length)| *length as f64 * (up_to(place + 1) - up_to(place)));
        weighed.sum::<f64>().round() as u64
    })
}

impl Packing {
    fn of(lengths: &[u64], capacity: u64, packing: bool) -> Self {
        Self {
            samples: lengths.len() as u64,
            sequences: if packing { packed(lengths, capacity) } else { lengths.len() as u64 },
            capacity,
            kept: lengths.iter().map(|length| (*length).clamp(1, capacity)).sum(),
            cut: lengths.iter().filter(|length| **length > capacity).count() as u64,
            packed: packing,
            longest: if packing { [0; MICRO_BATCHES] } else { longest(lengths, capacity) },
        }
    }

    /// Returns `true` if samples share sequences.
    pub(crate) fn is_packed(&self) -> bool {
        self.packed
    }

    /// Tells how many tokens a sample has where collators pad to the longest of a micro-batch, and not to the whole sequence;
    /// `None` where samples are packed, and where that is about the same.
    pub(crate) fn padded(&self, micro: u64) -> Option<String> {
        let doublings = micro.max(1).next_power_of_two().trailing_zeros() as usize;
        let longest = *self.longest.get(doublings)?;
        let share = longest as f64 / self.capacity as f64;
        (!self.packed && share < NEARLY_WHOLE).then(|| {
            format!(
                "samples are counted as padded to {} tokens; collators that pad to the longest of a micro-batch, as TRL's, make them \
                 {} on average at micro-batch {micro}, {:.0} % of the tokens: steps take less, as far as ranks do not wait for \
                 the one with the longest",
                human_count(self.capacity),
                human_count(longest),
                100.0 * share
            )
        })
    }

    /// Says it in a sentence: `50,000 samples are packed into 8,168 sequences of 2,048 tokens, 99.9 % full`.
    pub(crate) fn told(&self) -> String {
        let Self { samples, sequences, capacity, kept, cut, packed, .. } = *self;
        let full = 100.0 * kept as f64 / (sequences as f64 * capacity as f64);
        let into = if packed {
            format!("packed into {} of {capacity} tokens", counted(sequences, "sequence"))
        } else {
            format!("padded to {capacity} tokens each")
        };
        let cut =
            if cut > 0 { format!("; {} longer than that and cut", counted(cut, "sample")) } else { String::new() };
        format!("{} are {into}, {full:.1} % full{cut}", counted(samples, "sample"))
    }
}

/// Returns the job with the sequences that the samples of a file of lengths make, and what became of them, if it names
/// one; `lengths` is the content of that file, in tokens.
///
/// Packed, the default, samples share sequences of `model.seq_len` tokens, and longer ones are cut; otherwise each is a
/// sequence, padded to that.
pub(crate) fn as_sequences(
    job: &JobSpec,
    lengths: Option<&[u64]>,
    model: &Model,
) -> Result<(JobSpec, Option<Packing>), Invalid> {
    let data = &job.data;
    let Some(path) = &data.lengths else {
        return match data.packing {
            Some(_) => Err(Invalid::missing("data.lengths", "data.packing is of samples whose lengths a file tells")),
            None => Ok((job.clone(), None)),
        };
    };
    for (field, set) in [("data.samples", data.samples.is_some()), ("data.tokens", data.tokens.is_some())] {
        if set {
            return Err(Invalid::conflict(field, "data.lengths", "the file of lengths has one line for each sample"));
        }
    }
    let lengths = lengths.ok_or_else(|| Invalid::missing("data.lengths", "the file was not read"))?;
    let Some(tokens) = model.tokens_per_sample() else {
        return Err(Invalid::conflict("data.lengths", "model", "this model reads no tokens; write data.samples"));
    };
    if lengths.is_empty() || lengths.len() > SAMPLES_MAX {
        return Err(Invalid::inside("data.lengths", format!("`{path}` has {} samples", lengths.len()))
            .with_hint(format!("one line for each sample, at least 1 and at most {SAMPLES_MAX}")));
    }
    let sequences = Packing::of(lengths, tokens, data.packing != Some(false));
    let data = DataSpec { samples: Some(sequences.sequences), ..data.clone() };
    Ok((JobSpec { data, ..job.clone() }, Some(sequences)))
}

/// Returns the number of sequences of `capacity` tokens into which samples are packed: each, the longest first, where it
/// leaves the least room (best-fit decreasing; Ding et al., arXiv:2404.10830, section 3). Longer samples are cut.
pub(crate) fn packed(lengths: &[u64], capacity: u64) -> u64 {
    let mut of_length: BTreeMap<u64, u64> = BTreeMap::new();
    for length in lengths {
        *of_length.entry((*length).clamp(1, capacity)).or_default() += 1;
    }
    // Packing by the room that they have left.
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    let mut sequences = 0;
    for (length, mut count) in of_length.into_iter().rev() {
        while count > 0 {
            let fitting = open.range(length..).next().map(|(room, there)| (*room, *there));
            let (room, there) = fitting.unwrap_or((capacity, u64::MAX));
            // What was filled is the tightest, and takes what it has room for before the next one does.
            let each = (room / length).min(count);
            let filled = (count / each).min(there);
            match there.checked_sub(filled).filter(|_| fitting.is_some()) {
                Some(0) => {
                    open.remove(&room);
                }
                Some(left) => {
                    open.insert(room, left);
                }
                None => sequences += filled,
            }
            *open.entry(room - each * length).or_default() += filled;
            count -= each * filled;
        }
    }
    sequences
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The oracle: one sample after another.
    fn one_by_one(lengths: &[u64], capacity: u64) -> u64 {
        let mut sorted: Vec<u64> = lengths.iter().map(|length| (*length).clamp(1, capacity)).collect();
        sorted.sort_by(|a, b| b.cmp(a));
        let mut rooms: Vec<u64> = Vec::new();
        for length in sorted {
            let best = rooms.iter_mut().filter(|room| **room >= length).min_by_key(|room| **room);
            match best {
                Some(room) => *room -= length,
                None => rooms.push(capacity - length),
            }
        }
        rooms.len() as u64
    }

    #[test]
    fn samples_share_sequences() {
        assert_eq!(packed(&[60, 50, 40, 30, 20], 100), 2);
        assert_eq!(packed(&[51, 51, 51], 100), 3);
        assert_eq!(packed(&[400, 100, 1], 100), 3);
        assert_eq!(packed(&[10; 105], 100), 11);
    }

    #[test]
    fn what_becomes_of_samples_is_told() {
        let told = |packing| Packing::of(&[60, 50, 40, 30, 120], 100, packing).told();
        assert_eq!(
            told(true),
            "5 samples are packed into 3 sequences of 100 tokens, 93.3 % full; 1 sample longer than that and cut"
        );
        assert_eq!(
            told(false),
            "5 samples are padded to 100 tokens each, 56.0 % full; 1 sample longer than that and cut"
        );
    }

    /// Three samples of 23 fill a sequence of 69; two sequences with two each would have room for samples of 20.
    #[test]
    fn a_sequence_is_filled_before_the_next_is_begun() {
        let lengths = [&[23; 4][..], &[20; 4]].concat();
        assert_eq!((packed(&lengths, 69), one_by_one(&lengths, 69)), (3, 3));
        let lengths = [&[30; 5][..], &[29; 4], &[11; 3]].concat();
        assert_eq!(packed(&lengths, 100), one_by_one(&lengths, 100));
    }

    #[test]
    fn collators_pad_to_the_longest_of_a_micro_batch() {
        // Of two out of four, one in sixteen has 1 at most, three 2, five 3 and seven 4.
        assert_eq!(longest(&[100, 200, 300, 400], 1000)[..2], [250, 313]);
        assert_eq!(longest(&[100, 200, 300, 400], 300)[8], 300);
        let padded = Packing::of(&[60, 50, 40, 30, 120], 100, false);
        assert!(padded.padded(1).is_some_and(|told| told.contains("make them 56 on average at micro-batch 1")));
        assert_eq!(padded.padded(256), None);
        assert_eq!(Packing::of(&[60, 50], 100, true).padded(1), None);
    }

    proptest! {
        #[test]
        fn equal_samples_are_packed_at_once_as_one_by_one(
            lengths in prop::collection::vec(0u64..120, 1..200), capacity in 20u64..100,
        ) {
            prop_assert_eq!(packed(&lengths, capacity), one_by_one(&lengths, capacity));
        }
    }
}
