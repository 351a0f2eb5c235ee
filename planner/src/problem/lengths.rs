//! Samples of different lengths as sequences of one.

use std::collections::BTreeMap;
use trainyard_models::Model;
use trainyard_plan::{DataSpec, JobSpec};
use trainyard_units::Invalid;

/// The most samples of a file of lengths.
const SAMPLES_MAX: usize = 100_000_000;

/// Returns the job with the sequences that the samples of a file of lengths make, if it names one; `lengths` is the content of
/// that file, in tokens.
///
/// Packed, the default, samples share sequences of `model.seq_len` tokens, and longer ones are cut; otherwise each is a
/// sequence, padded to that.
pub(crate) fn counted(job: &JobSpec, lengths: Option<&[u64]>, model: &Model) -> Result<JobSpec, Invalid> {
    let data = &job.data;
    let Some(path) = &data.lengths else {
        return match data.packing {
            Some(_) => Err(Invalid::missing("data.lengths", "data.packing is of samples whose lengths a file tells")),
            None => Ok(job.clone()),
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
    let samples = if data.packing == Some(false) { lengths.len() as u64 } else { packed(lengths, tokens) };
    Ok(JobSpec { data: DataSpec { samples: Some(samples), ..data.clone() }, ..job.clone() })
}

/// Returns the number of sequences of `capacity` tokens into which samples are packed: each, the longest first, where it
/// leaves the least room (best-fit decreasing; Ding et al., arXiv:2404.10830, section 3). Longer samples are cut.
pub(crate) fn packed(lengths: &[u64], capacity: u64) -> u64 {
    let mut of_length: BTreeMap<u64, u64> = BTreeMap::new();
    for length in lengths {
        *of_length.entry((*length).clamp(1, capacity)).or_default() += 1;
    }
    // Sequences by the room that they have left.
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    let mut sequences = 0;
    for (length, mut count) in of_length.into_iter().rev() {
        while count > 0 {
            let fitting = open.range(length..).next().map(|(room, there)| (*room, *there));
            let Some((room, there)) = fitting else {
                let new = count.div_ceil(capacity / length);
                sequences += new;
                *open.entry(capacity).or_default() += new;
                continue;
            };
            let taken = there.min(count);
            let left = open.get_mut(&room).expect("it was found");
            *left -= taken;
            if *left == 0 {
                open.remove(&room);
            }
            *open.entry(room - length).or_default() += taken;
            count -= taken;
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

    proptest! {
        #[test]
        fn equal_samples_are_packed_at_once_as_one_by_one(
            lengths in prop::collection::vec(0u64..120, 1..200), capacity in 20u64..100,
        ) {
            prop_assert_eq!(packed(&lengths, capacity), one_by_one(&lengths, capacity));
        }
    }
}
