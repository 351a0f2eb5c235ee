//! Collectives of a group whose ranks live in several processes, as seen by one process: what its ranks brought comes
//! in as one buffer, what all need comes out.
//!
//! Sums are taken here and not by the library that moves the bytes: first over the ranks of a process in their order,
//! then over processes in theirs, so that a run gives the same bits every time. With one rank per process that is the
//! order of ranks, and the bits are those of threads in one process.

use super::link::{self, Link, Payload};
use super::wire::Wire;
use super::{GroupError, lock, share};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use trainyard_host::Clock;

/// Values that travel with the message by which processes meet: losses, norms and flags need no second one.
const INLINE: usize = 64;
/// Words that tell how many values a process brings.
const LENGTH_WORDS: usize = 2;

/// A group's processes.
pub(super) struct Across {
    link: Box<dyn Link>,
    /// The ranks of each process, numbered in the group.
    ranks: Vec<Range<usize>>,
    /// The index of this process in the group.
    place: usize,
    /// Memory that was received into, so that it is touched once.
    spare: Mutex<Vec<f32>>,
    /// Nanoseconds of the last wait for other processes.
    waited_ns: AtomicU64,
}

/// The facts that processes know about each other once all have arrived.
struct Met {
    lengths: Vec<usize>,
    /// The values that each process brought, if all brought few.
    values: Option<Vec<Vec<f32>>>,
}

impl Across {
    pub(super) fn new(link: Box<dyn Link>, ranks: Vec<Range<usize>>, place: usize) -> Self {
        Self { link, ranks, place, spare: Mutex::default(), waited_ns: AtomicU64::new(0) }
    }

    /// Returns the seconds that this process waited for others in the last operation, before anything moved.
    pub(super) fn waited_s(&self) -> f64 {
        self.waited_ns.load(Ordering::Acquire) as f64 * 1e-9
    }

    /// Returns the process of a rank, both numbered in the group.
    fn process_of(&self, rank: usize) -> usize {
        self.ranks.iter().position(|ranks| ranks.contains(&rank)).expect("each rank lives in a process")
    }

    /// Returns the shares of this buffer that belong to the ranks of process `q`: they lie side by side.
    fn shares(&self, length: usize, q: usize) -> Range<usize> {
        let (size, ranks) = (self.ranks.last().map_or(0, |ranks| ranks.end), &self.ranks[q]);
        share(length, size, ranks.start).start..share(length, size, ranks.end - 1).end
    }

    /// Returns the offset at which this process's part of a reduction of `length` elements starts.
    pub(super) fn start(&self, length: usize) -> usize {
        self.shares(length, self.place).start
    }

    fn counts(&self, length: usize) -> Vec<usize> {
        (0..self.ranks.len()).map(|q| self.shares(length, q).len()).collect()
    }

    /// Waits for all processes.
    pub(super) fn barrier(&self) -> Result<(), GroupError> {
        self.words(vec![0]).map(|_| ())
    }

    /// Words of every process, first process first. The wait for them is what counts as waiting.
    fn words(&self, words: Vec<u32>) -> Result<Vec<u32>, GroupError> {
        let clock = Clock::start();
        let met = self.link.meet(words);
        self.waited_ns.store((clock.seconds() * 1e9) as u64, Ordering::Release);
        met
    }

    fn meet(&self, length: usize, few: &[f32]) -> Result<Met, GroupError> {
        let mut words = Vec::with_capacity(LENGTH_WORDS + INLINE);
        words.extend(halves(length as u64));
        if length <= INLINE {
            words.extend(few.iter().map(|value| value.to_bits()));
        }
        words.resize(LENGTH_WORDS + INLINE, 0);
        let all = self.words(words)?;
        let from: Vec<&[u32]> = all.chunks(LENGTH_WORDS + INLINE).collect();
        let lengths: Vec<usize> = from.iter().map(|words| joined(words[0], words[1]) as usize).collect();
        let all_few = lengths.iter().all(|length| *length <= INLINE);
        let values = all_few.then(|| {
            let values = |(words, length): (&&[u32], &usize)| {
                words[LENGTH_WORDS..][..*length].iter().map(|bits| f32::from_bits(*bits)).collect()
            };
            from.iter().zip(&lengths).map(values).collect()
        });
        Ok(Met { lengths, values })
    }

    /// Performs [`Across::meet`] for buffers that must be equally long.
    fn meet_equal(&self, values: &[f32], wire: Wire) -> Result<Met, GroupError> {
        let mut few = values[..values.len().min(INLINE)].to_vec();
        wire.round(&mut few);
        let met = self.meet(values.len(), &few)?;
        if let Some(q) = met.lengths.iter().position(|length| *length != values.len()) {
            let (rank, length) = (self.ranks[q].start, met.lengths[q]);
            return Err(GroupError::LengthMismatch { rank, length, other: values.len() });
        }
        Ok(met)
    }

    /// Returns the sum over processes of `sums`, times `scale`.
    pub(super) fn all_reduce(&self, sums: Vec<f32>, scale: f32, wire: Wire) -> Result<Vec<f32>, GroupError> {
        let met = self.meet_equal(&sums, wire)?;
        if let Some(values) = met.values {
            let mut total = total(values, scale);
            wire.round(&mut total);
            return Ok(total);
        }
        let counts = self.counts(sums.len());
        let (brought, piece) = self.reduce_piece(sums, &counts, scale, wire)?;
        let into = match wire {
            Wire::F32 => Payload::F32(brought),
            Wire::F16 | Wire::Bf16 => Payload::Half(Vec::new()),
        };
        let (piece, all) = link::gather(&*self.link, wire.encode(piece), &counts, into)?;
        if let Payload::F32(memory) = piece {
            *lock(&self.spare) = memory;
        }
        Ok(wire.decode(all))
    }

    /// Returns `sums`, and the part of their sum over processes, times `scale`, that belongs to the ranks of this one.
    pub(super) fn reduce_scatter(
        &self,
        sums: Vec<f32>,
        scale: f32,
        wire: Wire,
    ) -> Result<(Vec<f32>, Vec<f32>), GroupError> {
        let met = self.meet_equal(&sums, wire)?;
        if let Some(values) = met.values {
            let range = self.shares(sums.len(), self.place);
            return Ok((sums, total(values, scale)[range].to_vec()));
        }
        let counts = self.counts(sums.len());
        self.reduce_piece(sums, &counts, scale, wire)
    }

    fn reduce_piece(
        &self,
        sums: Vec<f32>,
        counts: &[usize],
        scale: f32,
        wire: Wire,
    ) -> Result<(Vec<f32>, Vec<f32>), GroupError> {
        let length = counts[self.place];
        let mut piece = if wire == Wire::F32 {
            let spare = Payload::F32(std::mem::take(&mut *lock(&self.spare)));
            let (brought, came) = link::exchange(&*self.link, Payload::F32(sums), counts, self.place, spare)?;
            (wire.decode(brought), wire.decode(came))
        } else {
            // What was brought stays as it is; its rounded copy travels.
            let travels = wire.encode(sums.clone());
            let none = travels.none();
            let (_, came) = link::exchange(&*self.link, travels, counts, self.place, none)?;
            (sums, wire.decode(came))
        };
        let (first, others) = piece.1.split_at_mut(length);
        for other in others.chunks(length.max(1)) {
            first.iter_mut().zip(other).for_each(|(sum, value)| *sum += value);
        }
        scaled(first, scale);
        piece.1.truncate(length);
        Ok(piece)
    }

    /// Returns what all processes brought, first process first.
    pub(super) fn all_gather(&self, own: Vec<f32>, wire: Wire) -> Result<Vec<f32>, GroupError> {
        let mut few = own[..own.len().min(INLINE)].to_vec();
        wire.round(&mut few);
        let met = self.meet(own.len(), &few)?;
        if let Some(values) = met.values {
            return Ok(values.concat());
        }
        let own = wire.encode(own);
        let none = own.none();
        let (_, all) = link::gather(&*self.link, own, &met.lengths, none)?;
        Ok(wire.decode(all))
    }

    /// Returns what the process of rank `root` brought.
    pub(super) fn broadcast(&self, own: Vec<f32>, root: usize) -> Result<Vec<f32>, GroupError> {
        let root = self.process_of(root);
        let few = own[..own.len().min(INLINE)].to_vec();
        let met = self.meet(own.len(), &few)?;
        if let Some(mut values) = met.values {
            return Ok(values.swap_remove(root));
        }
        let all = link::broadcast(&*self.link, Payload::F32(own), met.lengths[root], root)?;
        Ok(Wire::F32.decode(all))
    }

    /// Returns the colours that all ranks of the group bring to a split, and the ticket of its first process.
    pub(super) fn colours(&self, own: &[usize], ticket: u64) -> Result<(Vec<usize>, u64), GroupError> {
        let most = self.ranks.iter().map(Range::len).max().unwrap_or(0);
        let mut words: Vec<u32> = halves(ticket).into_iter().collect();
        words.extend(own.iter().flat_map(|colour| halves(*colour as u64)));
        words.resize(LENGTH_WORDS * (1 + most), 0);
        let all = self.words(words)?;
        let from: Vec<Vec<u64>> = all
            .chunks(LENGTH_WORDS * (1 + most))
            .map(|words| words.chunks(LENGTH_WORDS).map(|word| joined(word[0], word[1])).collect())
            .collect();
        let colours = from
            .iter()
            .zip(&self.ranks)
            .flat_map(|(numbers, ranks)| numbers[1..].iter().take(ranks.len()))
            .map(|colour| *colour as usize)
            .collect();
        Ok((colours, from[0][0]))
    }
}

/// Sums equally long buffers in their order, times `scale`.
fn total(values: Vec<Vec<f32>>, scale: f32) -> Vec<f32> {
    let mut values = values.into_iter();
    let mut total = values.next().unwrap_or_default();
    for other in values {
        total.iter_mut().zip(other).for_each(|(sum, value)| *sum += value);
    }
    scaled(&mut total, scale);
    total
}

/// Multiplies by `scale`, which is exactly one for sums.
pub(super) fn scaled(values: &mut [f32], scale: f32) {
    if scale < 1.0 {
        values.iter_mut().for_each(|value| *value *= scale);
    }
}

fn halves(number: u64) -> [u32; LENGTH_WORDS] {
    [(number & u64::from(u32::MAX)) as u32, (number >> 32) as u32]
}

fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
