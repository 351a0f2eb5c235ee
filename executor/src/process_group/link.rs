//! What moves between processes, whatever carries it.

use super::GroupError;
use std::ops::Range;

/// Elements of one type, as they travel.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Payload {
    /// Values in fp32.
    F32(Vec<f32>),
    /// Values in a type of 16 bits.
    Half(Vec<u16>),
    /// Anything else.
    Bytes(Vec<u8>),
}

/// Runs the same expression on the elements of a payload, whatever their type.
macro_rules! on_elements {
    ($payload:expr, $elements:ident => $work:expr) => {
        match $payload {
            Payload::F32($elements) => $work,
            Payload::Half($elements) => $work,
            Payload::Bytes($elements) => $work,
        }
    };
}

impl Payload {
    /// Returns the number of elements.
    pub(super) fn len(&self) -> usize {
        on_elements!(self, elements => elements.len())
    }

    /// Returns an empty payload of the same type.
    pub(super) fn none(&self) -> Self {
        match self {
            Self::F32(_) => Self::F32(Vec::new()),
            Self::Half(_) => Self::Half(Vec::new()),
            Self::Bytes(_) => Self::Bytes(Vec::new()),
        }
    }

    /// Copies some elements.
    pub(super) fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::F32(elements) => Self::F32(elements[range].to_vec()),
            Self::Half(elements) => Self::Half(elements[range].to_vec()),
            Self::Bytes(elements) => Self::Bytes(elements[range].to_vec()),
        }
    }

    /// Keeps the first `length` elements.
    pub(super) fn truncate(&mut self, length: usize) {
        on_elements!(self, elements => elements.truncate(length));
    }

    /// Adds some elements of `other`, which is of the same type, at the end.
    pub(super) fn extend(&mut self, other: &Self, range: Range<usize>) {
        match (self, other) {
            (Self::F32(all), Self::F32(more)) => all.extend_from_slice(&more[range]),
            (Self::Half(all), Self::Half(more)) => all.extend_from_slice(&more[range]),
            (Self::Bytes(all), Self::Bytes(more)) => all.extend_from_slice(&more[range]),
            _ => unreachable!("what travels together is of one type"),
        }
    }
}

/// The processes of one group. All of them call the same operations with fitting counts in the same order, each from
/// one thread at a time. Processes are numbered in their group.
pub(super) trait Link: Send + Sync {
    /// Returns the most elements that one process may send or receive in one operation.
    fn limit(&self) -> usize;

    /// Waits for every process and returns what each brought, first process first. All bring equally many words.
    fn meet(&self, words: Vec<u32>) -> Result<Vec<u32>, GroupError>;

    /// Sends `counts[q]` elements to each process q, those of process 0 first. Returns `own` and what came, from
    /// process 0 first, in the memory of `into`.
    fn exchange(&self, own: Payload, counts: &[usize], into: Payload) -> Result<(Payload, Payload), GroupError>;

    /// Process q brings `counts[q]` elements. Returns `own` and what all brought, process 0 first, in the memory of
    /// `into`.
    fn gather(&self, own: Payload, counts: &[usize], into: Payload) -> Result<(Payload, Payload), GroupError>;

    /// Process `root` brings `count` elements, the others none of the same type. Returns the elements.
    fn broadcast(&self, own: Payload, count: usize, root: usize) -> Result<Payload, GroupError>;
}

/// A message from a rank of this process to one of another; ranks are numbered in the whole job.
#[derive(Debug)]
#[cfg_attr(not(any(test, feature = "mpi")), expect(dead_code, reason = "only carriers between processes open it"))]
pub(super) struct Letter {
    pub(super) envelope: super::inbox::Envelope,
    pub(super) to: usize,
    pub(super) message: Payload,
}

/// The transport that connects the processes of a job.
pub(super) trait Carrier: Send + Sync {
    /// Connects some processes, in ascending order and with this one among them. All of them ask for it with the same
    /// `id`, which no other group of theirs has. Does not wait for the others.
    fn link(&self, processes: &[usize], id: u64) -> Box<dyn Link>;

    /// Sends a message. Does not wait for it to be received.
    fn post(&self, letter: Letter) -> Result<(), GroupError>;

    /// Tells whether a rank of this process waits for a message from another, so that it is looked for more often.
    fn expect(&self, waits: bool);

    /// Tells the other processes that `rank` failed. Does not wait for them.
    fn announce(&self, rank: usize, reason: &str);
}

/// Performs [`Link::exchange`] in as many operations as its limit asks for.
pub(super) fn exchange(
    link: &dyn Link,
    own: Payload,
    counts: &[usize],
    place: usize,
    into: Payload,
) -> Result<(Payload, Payload), GroupError> {
    let Some(rounds) = Rounds::of(link, counts) else { return link.exchange(own, counts, into) };
    let mut from = vec![own.none(); counts.len()];
    for round in rounds {
        let (mut packed, mut start) = (own.none(), 0);
        for count in counts {
            let cut = round.of(*count);
            packed.extend(&own, start + cut.start..start + cut.end);
            start += count;
        }
        let lengths: Vec<usize> = counts.iter().map(|count| round.of(*count).len()).collect();
        let (_, came) = link.exchange(packed, &lengths, own.none())?;
        let length = lengths[place];
        for (q, all) in from.iter_mut().enumerate() {
            all.extend(&came, q * length..(q + 1) * length);
        }
    }
    Ok((own, joined(from, into)))
}

/// Performs [`Link::gather`] in as many operations as its limit asks for.
pub(super) fn gather(
    link: &dyn Link,
    own: Payload,
    counts: &[usize],
    into: Payload,
) -> Result<(Payload, Payload), GroupError> {
    let Some(rounds) = Rounds::of(link, counts) else { return link.gather(own, counts, into) };
    let mut from = vec![own.none(); counts.len()];
    for round in rounds {
        let lengths: Vec<usize> = counts.iter().map(|count| round.of(*count).len()).collect();
        let (_, came) = link.gather(own.part(round.of(own.len())), &lengths, own.none())?;
        let mut start = 0;
        for (all, length) in from.iter_mut().zip(lengths) {
            all.extend(&came, start..start + length);
            start += length;
        }
    }
    Ok((own, joined(from, into)))
}

/// Performs [`Link::broadcast`] in as many operations as its limit asks for.
pub(super) fn broadcast(link: &dyn Link, own: Payload, count: usize, root: usize) -> Result<Payload, GroupError> {
    let limit = link.limit();
    if count <= limit {
        return link.broadcast(own, count, root);
    }
    let mut all = own.none();
    for start in (0..count).step_by(limit) {
        let end = count.min(start + limit);
        let part = if own.len() == count { own.part(start..end) } else { own.none() };
        let part = link.broadcast(part, end - start, root)?;
        all.extend(&part, 0..end - start);
    }
    Ok(all)
}

fn joined(parts: Vec<Payload>, mut into: Payload) -> Payload {
    into.truncate(0);
    for part in parts {
        into.extend(&part, 0..part.len());
    }
    into
}

/// The operations that an exchange of more than the limit takes. Every process comes to the same ones, because all
/// know all counts.
struct Rounds {
    next: usize,
    count: usize,
    /// Elements between two processes in one of them.
    share: usize,
}

impl Rounds {
    /// Divides an operation into rounds; `None` where one is enough.
    fn of(link: &dyn Link, counts: &[usize]) -> Option<Self> {
        let largest = counts.iter().copied().max().unwrap_or(0);
        let share = (link.limit() / counts.len()).max(1);
        (largest > share).then(|| Self { next: 0, count: largest.div_ceil(share), share })
    }
}

impl Iterator for Rounds {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        let number = self.next;
        self.next += 1;
        (number < self.count).then_some(Round { number, share: self.share })
    }
}

struct Round {
    number: usize,
    share: usize,
}

impl Round {
    /// Returns the range of its elements among `count`.
    fn of(&self, count: usize) -> Range<usize> {
        (self.number * self.share).min(count)..((self.number + 1) * self.share).min(count)
    }
}
