//! Process groups over the threads of one process: collectives and ordered messages through shared memory.
//!
//! Every rank holds a [`ProcessGroup`] and calls the same collectives in the same order. Sums are taken in the order
//! of ranks, so that a run gives the same bits every time. When a rank fails, [`ProcessGroup::fail`] (or the guard of
//! [`run_ranks`]) makes every call of every other rank return [`GroupError`] instead of waiting for ever.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// How often a waiting rank looks whether another has failed. Only failures wait this long.
const FAILURE_CHECK: Duration = Duration::from_millis(20);

/// How many turns a rank waits at a barrier without giving up its processor: partners that arrive within microseconds
/// are then met without a system call. Ranks that outnumber processors must not do so.
const SPINS: u32 = 2_000;

/// Why an operation between ranks did not happen. The group cannot be used afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// Another rank failed, or this one did before.
    #[error("rank {rank} stopped: {reason}")]
    RankFailed {
        /// Which one, numbered in the whole job.
        rank: usize,
        /// What it said.
        reason: String,
    },
    /// Ranks called a collective with buffers of different lengths.
    #[error("rank {rank} brought {length} elements to a collective, another {other}")]
    LengthMismatch {
        /// Which one, numbered in its group.
        rank: usize,
        /// Its elements.
        length: usize,
        /// The elements of this rank.
        other: usize,
    },
}

/// How values of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their sum over their number.
    Mean,
}

/// What the first rank that failed said; shared by a group and all groups split from it.
#[derive(Default)]
struct Failure {
    happened: AtomicBool,
    first: Mutex<Option<(usize, String)>>,
}

impl Failure {
    fn check(&self) -> Result<(), GroupError> {
        if !self.happened.load(Ordering::Acquire) {
            return Ok(());
        }
        let (rank, reason) = lock(&self.first).clone().expect("a failure is noted before it is announced");
        Err(GroupError::RankFailed { rank, reason })
    }

    fn note(&self, rank: usize, reason: &str) {
        lock(&self.first).get_or_insert_with(|| (rank, reason.to_owned()));
        self.happened.store(true, Ordering::Release);
    }
}

/// Messages from one rank to another, oldest first.
#[derive(Default)]
struct Mailbox {
    messages: Mutex<VecDeque<Vec<f32>>>,
    arrived: Condvar,
}

/// A meeting point that all ranks reach before any leaves.
#[derive(Default)]
struct Barrier {
    /// Meetings that were completed.
    generation: AtomicUsize,
    waiting: Mutex<usize>,
    complete: Condvar,
}

/// What the ranks of one group share.
struct Shared {
    failure: Arc<Failure>,
    spins: u32,
    barrier: Barrier,
    /// Per rank, the buffer it brought to the current collective.
    brought: Vec<RwLock<Vec<f32>>>,
    /// Per rank, the part of the result that it computed. Kept between collectives, so that memory is touched once.
    parts: Vec<RwLock<Vec<f32>>>,
    /// At `from * size + to`.
    mailboxes: Vec<Mailbox>,
    /// Per rank, what it brought to the current split, and the groups that the first member of each made.
    split: Mutex<Vec<Option<SplitSlot>>>,
}

struct SplitSlot {
    colour: usize,
    group: Option<Arc<Shared>>,
}

impl Shared {
    fn new(size: usize, failure: Arc<Failure>, spins: u32) -> Arc<Self> {
        Arc::new(Self {
            failure,
            spins,
            barrier: Barrier::default(),
            brought: (0..size).map(|_| RwLock::default()).collect(),
            parts: (0..size).map(|_| RwLock::default()).collect(),
            mailboxes: (0..size * size).map(|_| Mailbox::default()).collect(),
            split: Mutex::new((0..size).map(|_| None).collect()),
        })
    }
}

/// One rank's end of a group.
#[derive(Clone)]
pub struct ProcessGroup {
    shared: Arc<Shared>,
    rank: usize,
    size: usize,
    /// The rank in the whole job, for messages.
    global_rank: usize,
}

/// The ends of a group of `size` ranks, first rank first.
pub fn thread_group(size: usize) -> Vec<ProcessGroup> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let spins = if size <= processors { SPINS } else { 0 };
    let shared = Shared::new(size, Arc::default(), spins);
    (0..size).map(|rank| ProcessGroup { shared: shared.clone(), rank, size, global_rank: rank }).collect()
}

/// Runs `work` on a thread per rank and returns what each returned, first rank first.
///
/// A rank that panics or returns an error fails the group, so that the others return too.
pub fn run_ranks<T: Send, E: Send + std::fmt::Display>(
    size: usize,
    work: impl Fn(ProcessGroup) -> Result<T, E> + Sync,
) -> Vec<Result<T, RankError<E>>> {
    let work = &work;
    std::thread::scope(|scope| {
        let handles: Vec<_> = thread_group(size)
            .into_iter()
            .map(|group| {
                scope.spawn(move || {
                    let guard = PanicGuard(group.clone());
                    let result = work(group);
                    if let Err(error) = &result {
                        guard.0.fail(&error.to_string());
                    }
                    result
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| match handle.join() {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(error)) => Err(RankError::Failed(error)),
                Err(panic) => Err(RankError::Panicked(panic_message(panic.as_ref()))),
            })
            .collect()
    })
}

/// How a rank ended that did not return a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankError<E> {
    /// It returned this.
    Failed(E),
    /// It panicked with this message.
    Panicked(String),
}

/// Fails the group when its rank's thread unwinds.
struct PanicGuard(ProcessGroup);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("it panicked");
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".into())
}

impl ProcessGroup {
    /// This rank's number in the group.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks the group has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Makes every present and later call on every rank of this group, and of the groups around it, an error.
    pub fn fail(&self, reason: &str) {
        self.shared.failure.note(self.global_rank, reason);
    }

    /// Waits until every rank is here.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn barrier(&self) -> Result<(), GroupError> {
        let Shared { barrier, failure, spins, .. } = &*self.shared;
        failure.check()?;
        let generation = barrier.generation.load(Ordering::Acquire);
        {
            let mut waiting = lock(&barrier.waiting);
            *waiting += 1;
            if *waiting == self.size {
                *waiting = 0;
                barrier.generation.store(generation.wrapping_add(1), Ordering::Release);
                barrier.complete.notify_all();
                return Ok(());
            }
        }
        for _ in 0..*spins {
            if barrier.generation.load(Ordering::Acquire) != generation {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let mut waiting = lock(&barrier.waiting);
        while barrier.generation.load(Ordering::Acquire) == generation {
            failure.check()?;
            waiting = barrier.complete.wait_timeout(waiting, FAILURE_CHECK).expect(UNPOISONED).0;
        }
        Ok(())
    }

    /// Replaces every rank's `buffer` by the reduction of all of them. Each rank reduces its own part of the buffer
    /// over all ranks, then all collect the parts.
    ///
    /// # Errors
    ///
    /// When a rank has failed, or buffers differ in length.
    pub fn all_reduce(&self, buffer: &mut Vec<f32>, reduction: Reduction) -> Result<(), GroupError> {
        if self.size == 1 {
            return self.shared.failure.check();
        }
        self.reduce_parts(buffer, reduction)?;
        for rank in 0..self.size {
            let range = part_range(buffer.len(), self.size, rank);
            buffer[range].copy_from_slice(&read(&self.shared.parts[rank]));
        }
        Ok(())
    }

    /// This rank's part of the reduction of all buffers: element `i` belongs to the rank whose equal share of the
    /// buffer holds it, the first ranks having one more where it does not divide.
    ///
    /// # Errors
    ///
    /// When a rank has failed, or buffers differ in length.
    pub fn reduce_scatter(&self, buffer: &mut Vec<f32>, reduction: Reduction) -> Result<Vec<f32>, GroupError> {
        self.reduce_parts(buffer, reduction)?;
        Ok(read(&self.shared.parts[self.rank]).clone())
    }

    /// Leaves this rank's part of the reduction in `parts`; `buffer` comes back as it was.
    fn reduce_parts(&self, buffer: &mut Vec<f32>, reduction: Reduction) -> Result<(), GroupError> {
        std::mem::swap(&mut *write(&self.shared.brought[self.rank]), buffer);
        self.barrier()?;
        let reduced = self.reduce_own_part(reduction);
        // A rank that found a mismatch must not leave the others at the next barrier.
        if let Err(error) = &reduced {
            self.fail(&error.to_string());
        }
        let met = self.barrier();
        std::mem::swap(&mut *write(&self.shared.brought[self.rank]), buffer);
        reduced.and(met)
    }

    fn reduce_own_part(&self, reduction: Reduction) -> Result<(), GroupError> {
        let brought: Vec<_> = self.shared.brought.iter().map(read).collect();
        let length = brought[self.rank].len();
        if let Some((rank, other)) = brought.iter().enumerate().find(|(_, other)| other.len() != length) {
            return Err(GroupError::LengthMismatch { rank, length: other.len(), other: length });
        }
        let range = part_range(length, self.size, self.rank);
        let mut part = write(&self.shared.parts[self.rank]);
        part.clear();
        part.extend_from_slice(&brought[0][range.clone()]);
        for other in &brought[1..] {
            for (sum, value) in part.iter_mut().zip(&other[range.clone()]) {
                *sum += value;
            }
        }
        if reduction == Reduction::Mean {
            let scale = 1.0 / self.size as f32;
            part.iter_mut().for_each(|value| *value *= scale);
        }
        Ok(())
    }

    /// The buffers of all ranks one after another, first rank first.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn all_gather(&self, own: &[f32]) -> Result<Vec<f32>, GroupError> {
        {
            let mut slot = write(&self.shared.brought[self.rank]);
            slot.clear();
            slot.extend_from_slice(own);
        }
        self.barrier()?;
        let gathered = self.shared.brought.iter().flat_map(|slot| read(slot).clone()).collect();
        self.barrier()?;
        Ok(gathered)
    }

    /// Replaces every rank's `buffer` by that of `root`.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn broadcast(&self, buffer: &mut Vec<f32>, root: usize) -> Result<(), GroupError> {
        if self.rank == root {
            write(&self.shared.brought[root]).clone_from(buffer);
        }
        self.barrier()?;
        if self.rank != root {
            buffer.clone_from(&read(&self.shared.brought[root]));
        }
        self.barrier()
    }

    /// Hands `message` to rank `to`. Does not wait for it to be received.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn send(&self, to: usize, message: Vec<f32>) -> Result<(), GroupError> {
        self.shared.failure.check()?;
        let mailbox = &self.shared.mailboxes[self.rank * self.size + to];
        lock(&mailbox.messages).push_back(message);
        mailbox.arrived.notify_one();
        Ok(())
    }

    /// The oldest message from rank `from` that was not received yet; waits for it.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn recv(&self, from: usize) -> Result<Vec<f32>, GroupError> {
        let mailbox = &self.shared.mailboxes[from * self.size + self.rank];
        let mut messages = lock(&mailbox.messages);
        loop {
            self.shared.failure.check()?;
            if let Some(message) = messages.pop_front() {
                return Ok(message);
            }
            messages = mailbox.arrived.wait_timeout(messages, FAILURE_CHECK).expect(UNPOISONED).0;
        }
    }

    /// The group of the ranks that give the same `colour`, in the order of their ranks here. All ranks must call it.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub fn split(&self, colour: usize) -> Result<Self, GroupError> {
        lock(&self.shared.split)[self.rank] = Some(SplitSlot { colour, group: None });
        self.barrier()?;
        let (members, group) = {
            let mut slots = lock(&self.shared.split);
            let colour_of = |slot: &Option<SplitSlot>| slot.as_ref().map(|slot| slot.colour);
            let members: Vec<usize> = (0..self.size).filter(|r| colour_of(&slots[*r]) == Some(colour)).collect();
            let first = slots[members[0]].as_mut().expect("every rank came to the split");
            let group = first
                .group
                .get_or_insert_with(|| Shared::new(members.len(), self.shared.failure.clone(), self.shared.spins));
            (members.clone(), group.clone())
        };
        self.barrier()?;
        let rank = members.iter().position(|member| *member == self.rank).expect("a rank has its own colour");
        Ok(Self { shared: group, rank, size: members.len(), global_rank: self.global_rank })
    }
}

/// The share of `length` elements that belongs to `rank`.
fn part_range(length: usize, size: usize, rank: usize) -> Range<usize> {
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
mod tests {
    use super::*;

    fn values<T: Send, E: Send + std::fmt::Display + std::fmt::Debug>(
        size: usize,
        work: impl Fn(ProcessGroup) -> Result<T, E> + Sync,
    ) -> Vec<T> {
        run_ranks(size, work).into_iter().map(|result| result.expect("no rank fails")).collect()
    }

    fn brought(rank: usize, length: usize) -> Vec<f32> {
        (0..length).map(|i| ((i * 7 + rank * 13) % 29) as f32 * 0.37 - 3.0).collect()
    }

    #[test]
    fn all_reduce_is_the_sum_in_the_order_of_ranks() {
        for (size, length) in [(1, 5), (2, 1), (2, 1000), (3, 2), (4, 1001), (5, 0)] {
            let results = values(size, |group| {
                let mut buffer = brought(group.rank(), length);
                group.all_reduce(&mut buffer, Reduction::Sum)?;
                Ok::<_, GroupError>(buffer)
            });
            let expected: Vec<f32> =
                (0..length).map(|i| (0..size).map(|rank| brought(rank, length)[i]).sum()).collect();
            for result in results {
                assert_eq!(result, expected);
            }
        }
    }

    #[test]
    fn reduce_scatter_then_all_gather_is_all_reduce() {
        let results = values(3, |group| {
            let mut buffer = brought(group.rank(), 10);
            let part = group.reduce_scatter(&mut buffer, Reduction::Mean)?;
            assert_eq!(buffer, brought(group.rank(), 10));
            let whole = group.all_gather(&part)?;
            group.all_reduce(&mut buffer, Reduction::Mean)?;
            Ok::<_, GroupError>((whole, buffer))
        });
        for (scattered, reduced) in results {
            assert_eq!(scattered, reduced);
        }
    }

    #[test]
    fn broadcast_and_messages_keep_order() {
        let results = values(3, |group| {
            let mut buffer = vec![group.rank() as f32; 4];
            group.broadcast(&mut buffer, 2)?;
            let next = (group.rank() + 1) % 3;
            for number in 0..50 {
                group.send(next, vec![(group.rank() * 100 + number) as f32])?;
            }
            let received: Vec<f32> =
                (0..50).map(|_| group.recv((group.rank() + 2) % 3).map(|m| m[0])).collect::<Result<_, _>>()?;
            Ok::<_, GroupError>((buffer, received))
        });
        for (rank, (buffer, received)) in results.into_iter().enumerate() {
            assert_eq!(buffer, vec![2.0; 4]);
            let from = (rank + 2) % 3;
            assert_eq!(received, (0..50).map(|n| (from * 100 + n) as f32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn split_groups_work_apart_from_each_other() {
        let results = values(6, |group| {
            let part = group.split(group.rank() % 2)?;
            let again = group.split(group.rank() / 3)?;
            let mut sum = vec![group.rank() as f32];
            part.all_reduce(&mut sum, Reduction::Sum)?;
            let mut second = vec![group.rank() as f32];
            again.all_reduce(&mut second, Reduction::Sum)?;
            Ok::<_, GroupError>((part.rank(), part.size(), sum[0], second[0]))
        });
        assert_eq!(results[3], (1, 3, 9.0, 12.0));
        assert_eq!(results[4], (2, 3, 6.0, 12.0));
    }

    #[test]
    fn a_rank_that_fails_or_panics_ends_the_wait_of_the_others() {
        let results = run_ranks(3, |group| {
            let part = group.split(usize::from(group.rank() > 0))?;
            match group.rank() {
                0 => Err(GroupError::RankFailed { rank: 0, reason: "no memory".into() }),
                1 => part.recv(1).map(|_| ()),
                _ => group.barrier(),
            }
        });
        for result in &results[1..] {
            let Err(RankError::Failed(error)) = result else { panic!("{result:?}") };
            assert!(error.to_string().contains("no memory"), "{error}");
        }
        let results = run_ranks(2, |group| {
            assert!(group.rank() == 0, "this rank falls over");
            group.all_reduce(&mut vec![1.0], Reduction::Sum)
        });
        assert_eq!(
            results[0],
            Err(RankError::Failed(GroupError::RankFailed { rank: 1, reason: "it panicked".into() }))
        );
        assert_eq!(results[1], Err(RankError::Panicked("this rank falls over".into())));
    }

    #[test]
    fn buffers_of_different_lengths_are_refused_on_every_rank() {
        let results = run_ranks(2, |group| group.all_reduce(&mut vec![0.0; 2 + group.rank()], Reduction::Sum));
        assert!(results.iter().all(Result::is_err), "{results:?}");
    }
}
