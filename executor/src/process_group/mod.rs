//! Process groups: collectives and ordered messages between the ranks of a job.
//!
//! A rank is a thread. Ranks of one process meet in shared memory. Where the ranks of a group live in several
//! processes, those of each process combine what they bring, one of them speaks for all through MPI (feature `mpi`),
//! and what came is shared again.
//!
//! Every rank holds a [`ProcessGroup`] and calls the same collectives in the same order. Sums are taken in fp32 and in
//! a fixed order, so that a run gives the same bits every time: over the ranks of a process in their order, then over
//! processes in theirs. With all ranks in one process, or one rank in each, this is the order of ranks; other layouts
//! add the same values in another order, and differ in the last bits.
//!
//! When a rank fails, [`ProcessGroup::fail`] (or the guard of [`run_ranks`]) makes every call of every other rank, in
//! whatever process, return [`GroupError`] instead of waiting for ever. A process that dies without a word is noticed by
//! the launcher, which then ends the job; one that is silent for too long fails like a rank.

mod across;
mod failure;
#[cfg_attr(not(any(feature = "mpi", test)), expect(dead_code, reason = "only processes listen to each other"))]
mod heartbeat;
mod inbox;
mod launch;
mod link;
mod meeting;
#[cfg(feature = "mpi")]
mod mpi;
mod wire;

pub(crate) use launch::alone;
pub use launch::{LaunchError, Launcher, Processes, RankError, World, launch, run_ranks};
pub use wire::Wire;

use across::{Across, scaled};
use failure::Failure;
use inbox::{Envelope, Inbox};
use link::{Carrier, Letter, Payload};
use meeting::Barrier;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use trainyard_host::Clock;

/// Why an operation between ranks did not happen. The group cannot be used afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Another rank failed, or this one did before.
    #[error("rank {rank} stopped: {reason}")]
    RankFailed {
        /// The rank, numbered in the whole job.
        rank: usize,
        /// Its error message.
        reason: String,
    },
    /// Ranks called a collective with buffers of different lengths.
    #[error("rank {rank} brought {length} elements to a collective, another {other}")]
    LengthMismatch {
        /// The rank, numbered in its group.
        rank: usize,
        /// Its elements.
        length: usize,
        /// The elements of this rank.
        other: usize,
    },
}

/// The operator by which a reduction combines the values of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    Sum,
    /// Their sum over their number.
    Mean,
}

/// The tag that pairs a message's sender and receiver: messages of one tag arrive in the order of their sending, those
/// of different tags in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub u32);

impl Tag {
    /// Tags of users are the first 2³² channels.
    fn channel(self) -> u64 {
        u64::from(self.0)
    }
}

const ALL_TO_ALL: u64 = 1 << 32;
const GATHER_BYTES: u64 = ALL_TO_ALL + 1;

/// State that all groups of a process share.
struct Job {
    failure: Arc<Failure>,
    /// Turns at a barrier; see [`meeting::spins`].
    spins: u32,
    /// The first rank of this process.
    first: usize,
    /// Ranks of each process.
    threads: usize,
    /// Per rank of this process.
    inboxes: Arc<Vec<Inbox>>,
    /// To other processes; nothing where there are none.
    carrier: Option<Arc<dyn Carrier>>,
    processes: usize,
    process: usize,
    /// Ranks on this host in processes that come before this one there.
    before_on_host: usize,
    /// Tickets that this process has given to groups.
    tickets: AtomicU64,
}

impl Job {
    fn process_of(&self, rank: usize) -> usize {
        rank / self.threads
    }

    /// Returns the first of `count` consecutive numbers that no other call on this process returns.
    fn tickets(&self, count: usize) -> u64 {
        self.tickets.fetch_add(count as u64, Ordering::Relaxed)
    }
}

/// State that the ranks of one group in this process share.
struct Shared {
    job: Arc<Job>,
    /// No other group that has ranks of this one's has the same.
    id: u64,
    /// The group's ranks, numbered in the whole job, in ascending order.
    members: Vec<usize>,
    /// The range of `members` in this process.
    local: Range<usize>,
    barrier: Barrier,
    /// Per rank here, the buffers it brought to the current collective: one, but for reductions of several at once.
    brought: Vec<RwLock<Vec<Vec<f32>>>>,
    /// Per rank here, the part of the result that it computed. Kept between collectives, so that memory is touched once.
    parts: Vec<RwLock<Vec<f32>>>,
    /// The result of the last collective across processes.
    result: RwLock<Vec<f32>>,
    /// The group's processes, if they are several.
    across: Option<Across>,
    split: Mutex<Split>,
}

/// A split on its way.
#[derive(Default)]
struct Split {
    /// The colour that each rank here brought.
    colours: Vec<usize>,
    /// The groups that have ranks here.
    groups: BTreeMap<usize, Arc<Shared>>,
}

impl Shared {
    /// Makes a group of `members` with at least one in this process.
    fn new(job: Arc<Job>, id: u64, members: Vec<usize>) -> Arc<Self> {
        let processes: BTreeSet<usize> = members.iter().map(|rank| job.process_of(*rank)).collect();
        let ranks_of = |process: usize| {
            let start = members.partition_point(|rank| job.process_of(*rank) < process);
            start..members.partition_point(|rank| job.process_of(*rank) <= process)
        };
        let local = ranks_of(job.process);
        let across = job.carrier.as_ref().filter(|_| processes.len() > 1).map(|carrier| {
            let place = processes.range(..job.process).count();
            let link = carrier.link(&processes.iter().copied().collect::<Vec<_>>(), id);
            Across::new(link, processes.iter().map(|process| ranks_of(*process)).collect(), place)
        });
        Arc::new(Self {
            barrier: Barrier::default(),
            brought: local.clone().map(|_| RwLock::default()).collect(),
            parts: local.clone().map(|_| RwLock::default()).collect(),
            result: RwLock::default(),
            split: Mutex::new(Split { colours: vec![0; local.len()], groups: BTreeMap::new() }),
            id,
            across,
            local,
            members,
            job,
        })
    }
}

/// Time that a rank waited for others.
#[derive(Default)]
struct Waited {
    nanoseconds: AtomicU64,
}

impl Waited {
    fn add(&self, seconds: f64) {
        self.nanoseconds.fetch_add((seconds * 1e9) as u64, Ordering::Relaxed);
    }
}

/// One rank's end of a group.
#[derive(Clone)]
pub struct ProcessGroup {
    shared: Arc<Shared>,
    rank: usize,
    waited: Arc<Waited>,
}

impl ProcessGroup {
    /// Returns this rank's number in the group.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks in the group.
    pub fn size(&self) -> usize {
        self.shared.members.len()
    }

    /// Returns the group's ranks, numbered in the whole job, in ascending order.
    pub fn world_ranks(&self) -> &[usize] {
        &self.shared.members
    }

    /// Returns this rank's number in the whole job.
    pub fn world_rank(&self) -> usize {
        self.shared.members[self.rank]
    }

    /// Returns `true` if some of its ranks live in other processes.
    pub fn is_across_processes(&self) -> bool {
        self.shared.across.is_some()
    }

    /// Returns `true` if it is the first rank of the group in its process.
    pub fn is_first_of_process(&self) -> bool {
        self.slot() == 0
    }

    /// Returns this rank's place among all ranks of its host.
    pub fn place_on_host(&self) -> usize {
        self.shared.job.before_on_host + self.world_rank() - self.shared.job.first
    }

    /// Returns the places that the ranks of its process have among all of its host.
    pub fn places_of_process(&self) -> Range<usize> {
        let Job { before_on_host, threads, .. } = *self.shared.job;
        before_on_host..before_on_host + threads
    }

    /// Returns the same end of the group with a waiting time of its own, which no longer counts for the world that it
    /// comes from: for a thread that waits beside the rank's own.
    pub(crate) fn counted_apart(self) -> Self {
        Self { waited: Arc::default(), ..self }
    }

    /// Returns the seconds that this rank has waited for others, in this group and in all that come from the same world
    /// and are not counted apart: at barriers, in collectives before anything moved, and for messages that had not
    /// arrived. Where several threads of a rank wait at once, each counts.
    pub fn waited_s(&self) -> f64 {
        self.waited.nanoseconds.load(Ordering::Relaxed) as f64 * 1e-9
    }

    /// Makes every present and later call on every rank of this group, and of all groups of the job, an error.
    pub fn fail(&self, reason: &str) {
        let (job, rank) = (&self.shared.job, self.world_rank());
        if job.failure.note(rank, reason)
            && let Some(carrier) = &job.carrier
        {
            carrier.announce(rank, reason);
        }
    }

    /// Waits until every rank is here.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn barrier(&self) -> Result<(), GroupError> {
        self.arrive()?;
        match &self.shared.across {
            Some(across) => self.led(across, || across.barrier().map(|()| Vec::new())),
            None => Ok(()),
        }
    }

    /// Replaces every rank's `buffer` by the reduction of all of them.
    ///
    /// # Errors
    ///
    /// When a rank has failed, or buffers differ in length.
    pub fn all_reduce(&self, buffer: &mut Vec<f32>, reduction: Reduction) -> Result<(), GroupError> {
        self.all_reduce_as(buffer, reduction, Wire::F32)
    }

    /// Performs [`ProcessGroup::all_reduce`] with values that travel as `wire`: each rank's values are rounded before
    /// they leave it, their reduction is rounded before it comes back, sums are fp32. Where ranks of one process have a
    /// sum before it travels to another process, that sum is rounded too. A group of one rank sends nothing.
    ///
    /// # Errors
    ///
    /// When a rank has failed, or buffers differ in length.
    pub fn all_reduce_as(&self, buffer: &mut Vec<f32>, reduction: Reduction, wire: Wire) -> Result<(), GroupError> {
        let mut buffers = vec![std::mem::take(buffer)];
        let reduced = self.all_reduce_each(&mut buffers, reduction, wire);
        *buffer = buffers.pop().unwrap_or_default();
        reduced
    }

    /// Performs [`ProcessGroup::all_reduce_as`] on several buffers at once. Every rank must bring as many, of equal
    /// lengths.
    ///
    /// # Errors
    ///
    /// When a rank has failed, or buffers differ in length.
    pub fn all_reduce_each(
        &self,
        buffers: &mut Vec<Vec<f32>>,
        reduction: Reduction,
        wire: Wire,
    ) -> Result<(), GroupError> {
        if self.size() == 1 {
            return self.shared.job.failure.check();
        }
        let scale = self.scale(reduction);
        if let Some(across) = &self.shared.across {
            return self.all_reduce_across(across, buffers, scale, wire);
        }
        self.reduce_parts(
            buffers,
            |part| {
                scaled(part, scale);
                wire.round(part);
            },
            wire,
        )?;
        for rank in 0..self.size() {
            let part = read(&self.shared.parts[rank]);
            let mut rest = part.as_slice();
            for buffer in buffers.iter_mut() {
                let range = share(buffer.len(), self.size(), rank);
                let (own, after) = rest.split_at(range.len());
                buffer[range].copy_from_slice(own);
                rest = after;
            }
        }
        Ok(())
    }

    /// All-reduces several buffers across processes as one.
    fn all_reduce_across(
        &self,
        across: &Across,
        buffers: &mut [Vec<f32>],
        scale: f32,
        wire: Wire,
    ) -> Result<(), GroupError> {
        let mut joined = if let [only] = buffers { std::mem::take(only) } else { buffers.concat() };
        let sums = self.local_sums(&mut joined, wire)?;
        self.led(across, || across.all_reduce(sums, scale, wire))?;
        if let [only] = buffers
            && self.shared.local.len() == 1
        {
            std::mem::swap(only, &mut *write(&self.shared.result));
            return Ok(());
        }
        let result = read(&self.shared.result);
        if let [only] = buffers {
            only.clone_from(&result);
            return Ok(());
        }
        let mut rest = result.as_slice();
        for buffer in buffers {
            let (own, after) = rest.split_at(buffer.len());
            buffer.copy_from_slice(own);
            rest = after;
        }
        Ok(())
    }

    /// Returns this rank's [`share`] of the reduction of all buffers. `buffer` stays as it was.
    ///
    /// # Errors
    ///
    /// When a rank has failed, or buffers differ in length.
    pub fn reduce_scatter(&self, buffer: &mut Vec<f32>, reduction: Reduction) -> Result<Vec<f32>, GroupError> {
        self.reduce_scatter_as(buffer, reduction, Wire::F32)
    }

    /// Performs [`ProcessGroup::reduce_scatter`] with values that are rounded to `wire` before they leave a rank. With
    /// [`ProcessGroup::all_gather_as`] after it, this is [`ProcessGroup::all_reduce_as`].
    ///
    /// # Errors
    ///
    /// When a rank has failed, or buffers differ in length.
    pub fn reduce_scatter_as(
        &self,
        buffer: &mut Vec<f32>,
        reduction: Reduction,
        wire: Wire,
    ) -> Result<Vec<f32>, GroupError> {
        if self.size() == 1 {
            return self.shared.job.failure.check().map(|()| buffer.clone());
        }
        let scale = self.scale(reduction);
        let Some(across) = &self.shared.across else {
            self.reduce_one(buffer, |part| scaled(part, scale), wire)?;
            return Ok(read(&self.shared.parts[self.slot()]).clone());
        };
        let length = buffer.len();
        let sums = self.local_sums(buffer, wire)?;
        let alone = self.shared.local.len() == 1;
        self.led(across, || {
            let (brought, piece) = across.reduce_scatter(sums, scale, wire)?;
            if alone {
                *buffer = brought;
            }
            Ok(piece)
        })?;
        let (start, own) = (across.start(length), share(length, self.size(), self.rank));
        Ok(read(&self.shared.result)[own.start - start..own.end - start].to_vec())
    }

    /// Returns the buffers of all ranks, which may differ in length, one after another, first rank first.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn all_gather(&self, own: &[f32]) -> Result<Vec<f32>, GroupError> {
        self.all_gather_as(own, Wire::F32)
    }

    /// Performs [`ProcessGroup::all_gather`] with values that are rounded to `wire`, this rank's own among them.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn all_gather_as(&self, own: &[f32], wire: Wire) -> Result<Vec<f32>, GroupError> {
        if self.size() == 1 {
            return self.shared.job.failure.check().map(|()| own.to_vec());
        }
        {
            let mut slot = write(&self.shared.brought[self.slot()]);
            slot.resize_with(1, Vec::new);
            slot[0].clear();
            slot[0].extend_from_slice(own);
            wire.round(&mut slot[0]);
        }
        self.arrive()?;
        let concatenated = || {
            let mut all = Vec::new();
            self.shared.brought.iter().for_each(|slot| all.extend_from_slice(&read(slot)[0]));
            all
        };
        let Some(across) = &self.shared.across else {
            let gathered = concatenated();
            self.meet()?;
            return Ok(gathered);
        };
        self.led(across, || across.all_gather(concatenated(), wire))?;
        Ok(read(&self.shared.result).clone())
    }

    /// Replaces every rank's `buffer` by that of `root`, whose length may be another.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn broadcast(&self, buffer: &mut Vec<f32>, root: usize) -> Result<(), GroupError> {
        let Shared { local, brought, across, result, .. } = &*self.shared;
        if self.rank == root {
            *write(&brought[self.slot()]) = vec![buffer.clone()];
        }
        self.arrive()?;
        let from_here = local.contains(&root).then(|| &brought[root - local.start]);
        if let Some(across) = across {
            let own = || from_here.map(|slot| read(slot)[0].clone()).unwrap_or_default();
            self.led(across, || across.broadcast(own(), root))?;
        }
        if self.rank != root {
            match from_here {
                Some(slot) => buffer.clone_from(&read(slot)[0]),
                None => buffer.clone_from(&read(result)),
            }
        }
        self.meet()
    }

    /// Hands `parts[i]` to rank i and returns what each rank had for this one, first rank first. Parts may differ in
    /// length.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    ///
    /// # Panics
    ///
    /// When there is not one part per rank.
    pub fn all_to_all(&self, parts: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>, GroupError> {
        assert_eq!(parts.len(), self.size(), "an all-to-all has one part per rank");
        for (to, part) in parts.into_iter().enumerate() {
            self.deliver(to, ALL_TO_ALL, Payload::F32(part))?;
        }
        (0..self.size()).map(|from| self.take(from, ALL_TO_ALL).map(|part| Wire::F32.decode(part))).collect()
    }

    /// Returns the bytes of every rank, first rank first, on rank `root`; `None` on the others.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn gather_bytes(&self, own: Vec<u8>, root: usize) -> Result<Option<Vec<Vec<u8>>>, GroupError> {
        self.deliver(root, GATHER_BYTES, Payload::Bytes(own))?;
        if self.rank != root {
            return Ok(None);
        }
        let bytes = |from| {
            self.take(from, GATHER_BYTES).map(|message| match message {
                Payload::Bytes(bytes) => bytes,
                Payload::F32(_) | Payload::Half(_) => unreachable!("only bytes are gathered"),
            })
        };
        (0..self.size()).map(bytes).collect::<Result<_, _>>().map(Some)
    }

    /// Hands `message` to rank `to`. Does not wait for it to be received.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn send(&self, to: usize, tag: Tag, message: Vec<f32>) -> Result<(), GroupError> {
        self.deliver(to, tag.channel(), Payload::F32(message))
    }

    /// Returns the oldest message of this tag from rank `from` that was not received yet; waits for it.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn recv(&self, from: usize, tag: Tag) -> Result<Vec<f32>, GroupError> {
        self.take(from, tag.channel()).map(|message| Wire::F32.decode(message))
    }

    /// Returns the group of the ranks that give the same `colour`, in the order of their ranks here. All ranks must
    /// call it.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn split(&self, colour: usize) -> Result<Self, GroupError> {
        lock(&self.shared.split).colours[self.slot()] = colour;
        self.arrive()?;
        if self.slot() == 0
            && let Err(error) = self.make_groups()
        {
            self.fail(&error.to_string());
            return Err(error);
        }
        self.meet()?;
        let group = lock(&self.shared.split).groups.get(&colour).cloned().expect("a rank has its own colour");
        self.meet()?;
        if self.slot() == 0 {
            // Groups live as long as their ranks hold them.
            lock(&self.shared.split).groups.clear();
        }
        let rank = group.members.binary_search(&self.world_rank()).expect("a rank is in the group of its colour");
        Ok(Self { shared: group, rank, waited: self.waited.clone() })
    }

    /// Makes the groups of a split that have ranks in this process.
    fn make_groups(&self) -> Result<(), GroupError> {
        let Shared { job, members, across, split, .. } = &*self.shared;
        let own = lock(split).colours.clone();
        // At most as many groups as ranks: each has its own number.
        let ticket = job.tickets(self.size());
        let first = job.process_of(members[0]);
        let (colours, ticket) = match across {
            Some(across) => across.colours(&own, ticket)?,
            None => (own.clone(), ticket),
        };
        let distinct: BTreeSet<usize> = colours.iter().copied().collect();
        for (number, colour) in distinct.into_iter().enumerate().filter(|(_, colour)| own.contains(colour)) {
            let id = (ticket + number as u64) * job.processes as u64 + first as u64;
            let of_colour = members.iter().zip(&colours).filter(|(_, other)| **other == colour);
            let group = Shared::new(job.clone(), id, of_colour.map(|(rank, _)| *rank).collect());
            lock(split).groups.insert(colour, group);
        }
        Ok(())
    }
}

impl ProcessGroup {
    /// Returns the index of this rank among the group's ranks in this process.
    fn slot(&self) -> usize {
        self.rank - self.shared.local.start
    }

    fn scale(&self, reduction: Reduction) -> f32 {
        match reduction {
            Reduction::Sum => 1.0,
            Reduction::Mean => 1.0 / self.size() as f32,
        }
    }

    /// Waits for the ranks of this process.
    fn meet(&self) -> Result<(), GroupError> {
        let Shared { barrier, job, local, .. } = &*self.shared;
        barrier.wait(local.len(), job.spins, &job.failure)
    }

    /// Performs [`ProcessGroup::meet`] before anything moves; its time counts as waiting.
    fn arrive(&self) -> Result<(), GroupError> {
        let clock = Clock::start();
        let met = self.meet();
        self.waited.add(clock.seconds());
        met
    }

    /// Lets the first rank of this process do `work` with the other processes; all of this process wait for the result.
    fn led(&self, across: &Across, work: impl FnOnce() -> Result<Vec<f32>, GroupError>) -> Result<(), GroupError> {
        if self.slot() == 0 {
            match work() {
                Ok(result) => *write(&self.shared.result) = result,
                Err(error) => {
                    self.fail(&error.to_string());
                    return Err(error);
                }
            }
        }
        self.meet()?;
        self.waited.add(across.waited_s());
        Ok(())
    }

    /// Performs [`Self::reduce_parts`] on one buffer.
    fn reduce_one(&self, buffer: &mut Vec<f32>, finish: impl FnOnce(&mut [f32]), wire: Wire) -> Result<(), GroupError> {
        let mut buffers = vec![std::mem::take(buffer)];
        let reduced = self.reduce_parts(&mut buffers, finish, wire);
        *buffer = buffers.pop().unwrap_or_default();
        reduced
    }

    /// Leaves this rank's share of the sum of each buffer in `parts`, one after another, after `finish`; all ranks are
    /// of this process. `buffers` come back as they were.
    fn reduce_parts(
        &self,
        buffers: &mut Vec<Vec<f32>>,
        finish: impl FnOnce(&mut [f32]),
        wire: Wire,
    ) -> Result<(), GroupError> {
        let slot = self.slot();
        std::mem::swap(&mut *write(&self.shared.brought[slot]), buffers);
        self.arrive()?;
        let reduced = self.reduce_own_part(finish, wire);
        // A rank that found a mismatch must not leave the others at the next barrier.
        // One that has failed may have taken its buffers back: then that is the reason.
        let reduced = reduced.or_else(|error| self.shared.job.failure.check().and(Err(error)));
        if let Err(error) = &reduced {
            self.fail(&error.to_string());
        }
        let met = self.meet();
        std::mem::swap(&mut *write(&self.shared.brought[slot]), buffers);
        reduced.and(met)
    }

    fn reduce_own_part(&self, finish: impl FnOnce(&mut [f32]), wire: Wire) -> Result<(), GroupError> {
        let slot = self.slot();
        let brought: Vec<_> = self.shared.brought.iter().map(read).collect();
        let lengths = |buffers: &[Vec<f32>]| buffers.iter().map(Vec::len).collect::<Vec<_>>();
        let own = lengths(&brought[slot]);
        for (other_slot, other) in brought.iter().enumerate() {
            let other = lengths(other);
            if other != own {
                let rank = self.shared.local.start + other_slot;
                return Err(GroupError::LengthMismatch { rank, length: other.iter().sum(), other: own.iter().sum() });
            }
        }
        let mut part = write(&self.shared.parts[slot]);
        part.clear();
        for (buffer, length) in own.into_iter().enumerate() {
            let range = share(length, brought.len(), slot);
            let start = part.len();
            part.extend_from_slice(&brought[0][buffer][range.clone()]);
            let sum = &mut part[start..];
            wire.round(sum);
            for other in &brought[1..] {
                wire.add(sum, &other[buffer][range.clone()]);
            }
        }
        finish(&mut part);
        Ok(())
    }

    /// Returns the sum over the ranks of this process on the first of them, and an empty buffer on the others. A rank
    /// that is alone in its process gives its `buffer` away.
    fn local_sums(&self, buffer: &mut Vec<f32>, wire: Wire) -> Result<Vec<f32>, GroupError> {
        if self.shared.local.len() == 1 {
            return self.shared.job.failure.check().map(|()| std::mem::take(buffer));
        }
        self.reduce_one(buffer, |_| {}, wire)?;
        let mut sums = Vec::new();
        if self.slot() == 0 {
            sums.reserve(buffer.len());
            self.shared.parts.iter().for_each(|part| sums.extend_from_slice(&read(part)));
        }
        Ok(sums)
    }

    fn deliver(&self, to: usize, channel: u64, message: Payload) -> Result<(), GroupError> {
        let Shared { job, id, members, local, .. } = &*self.shared;
        job.failure.check()?;
        let envelope = Envelope { group: *id, from: self.world_rank(), channel };
        let to_world = members[to];
        match &job.carrier {
            Some(carrier) if !local.contains(&to) => carrier.post(Letter { envelope, to: to_world, message }),
            _ => {
                job.inboxes[to_world - job.first].deliver(envelope, message);
                Ok(())
            }
        }
    }

    fn take(&self, from: usize, channel: u64) -> Result<Payload, GroupError> {
        let Shared { job, id, members, local, .. } = &*self.shared;
        job.failure.check()?;
        let envelope = Envelope { group: *id, from: members[from], channel };
        let inbox = &job.inboxes[self.world_rank() - job.first];
        if let Some(message) = inbox.take(envelope) {
            return Ok(message);
        }
        let clock = Clock::start();
        let carrier = job.carrier.as_ref().filter(|_| !local.contains(&from));
        if let Some(carrier) = carrier {
            carrier.expect(true);
        }
        let message = inbox.wait(envelope, &job.failure);
        if let Some(carrier) = carrier {
            carrier.expect(false);
        }
        self.waited.add(clock.seconds());
        message
    }
}

/// Returns the share of `length` elements that belongs to `rank` of `size`: equal shares side by side, the first ranks
/// having one more element where it does not divide.
pub fn share(length: usize, size: usize, rank: usize) -> Range<usize> {
    let (share, extra) = (length / size, length % size);
    let start = rank * share + rank.min(extra);
    start..start + share + usize::from(rank < extra)
}

const UNPOISONED: &str = "no code panics while it holds a lock of the group";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(UNPOISONED)
}

fn read<T>(slot: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    slot.read().expect(UNPOISONED)
}

fn write<T>(slot: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    slot.write().expect(UNPOISONED)
}

#[cfg(test)]
pub(crate) mod tests;
