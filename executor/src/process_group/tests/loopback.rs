//! Processes that are threads: the whole path of groups over processes without a library that carries messages.

use super::super::failure::{FAILURE_CHECK, Failure};
use super::super::inbox::Inbox;
use super::super::launch::Seats;
use super::super::link::{Carrier, Letter, Link, Payload};
use super::super::{GroupError, ProcessGroup, RankError, UNPOISONED, World, lock, run_ranks};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// The contributions gathered so far to one operation of a group.
#[derive(Default)]
struct Meeting {
    brought: BTreeMap<usize, Payload>,
    left: usize,
}

/// State that the processes share.
struct Network {
    threads: usize,
    limit: usize,
    failures: Vec<Arc<Failure>>,
    inboxes: Vec<Arc<Vec<Inbox>>>,
    /// By group and number of the operation.
    meetings: Mutex<BTreeMap<(u64, u64), Meeting>>,
    changed: Condvar,
}

struct Process {
    network: Arc<Network>,
    number: usize,
}

impl Carrier for Process {
    fn link(&self, processes: &[usize], id: u64) -> Box<dyn Link> {
        let place = processes.iter().position(|process| *process == self.number).expect("it is in its groups");
        Box::new(Connection {
            network: self.network.clone(),
            process: self.number,
            id,
            place,
            processes: processes.len(),
            turn: AtomicU64::new(0),
        })
    }

    fn post(&self, letter: Letter) -> Result<(), GroupError> {
        let threads = self.network.threads;
        self.network.inboxes[letter.to / threads][letter.to % threads].deliver(letter.envelope, letter.message);
        Ok(())
    }

    fn expect(&self, _waits: bool) {}

    fn announce(&self, rank: usize, reason: &str) {
        for failure in &self.network.failures {
            failure.note(rank, reason);
        }
    }
}

struct Connection {
    network: Arc<Network>,
    process: usize,
    id: u64,
    place: usize,
    processes: usize,
    turn: AtomicU64,
}

impl Connection {
    /// Returns what every process brings to this operation.
    fn all(&self, own: Payload) -> Result<Vec<Payload>, GroupError> {
        let key = (self.id, self.turn.fetch_add(1, Ordering::Relaxed));
        let mut meetings = lock(&self.network.meetings);
        let earlier = meetings.entry(key).or_default().brought.insert(self.place, own);
        assert!(earlier.is_none(), "two groups of the same processes have the same number");
        self.network.changed.notify_all();
        while meetings[&key].brought.len() < self.processes {
            self.network.failures[self.process].check()?;
            meetings = self.network.changed.wait_timeout(meetings, FAILURE_CHECK).expect(UNPOISONED).0;
        }
        let meeting = meetings.get_mut(&key).expect("it stays until all have left");
        let all = meeting.brought.values().cloned().collect();
        meeting.left += 1;
        if meeting.left == self.processes {
            meetings.remove(&key);
        }
        Ok(all)
    }
}

impl Link for Connection {
    fn limit(&self) -> usize {
        self.network.limit
    }

    fn meet(&self, words: Vec<u32>) -> Result<Vec<u32>, GroupError> {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let all = self.all(Payload::Bytes(bytes))?;
        let words = |payload| match payload {
            Payload::Bytes(bytes) => bytes
                .chunks(4)
                .map(|word| u32::from_le_bytes(word.try_into().expect("words have four bytes")))
                .collect::<Vec<_>>(),
            Payload::F32(_) | Payload::Half(_) => panic!("processes do different things"),
        };
        Ok(all.into_iter().flat_map(words).collect())
    }

    fn exchange(&self, own: Payload, counts: &[usize], mut into: Payload) -> Result<(Payload, Payload), GroupError> {
        assert!(own.len() <= self.network.limit && counts[self.place] * self.processes <= self.network.limit);
        assert_eq!(own.len(), counts.iter().sum::<usize>());
        let start = counts[..self.place].iter().sum::<usize>();
        into.truncate(0);
        for from in self.all(own.clone())? {
            into.extend(&from, start..start + counts[self.place]);
        }
        Ok((own, into))
    }

    fn gather(&self, own: Payload, counts: &[usize], mut into: Payload) -> Result<(Payload, Payload), GroupError> {
        assert!(counts.iter().sum::<usize>() <= self.network.limit);
        into.truncate(0);
        for (from, count) in self.all(own.clone())?.iter().zip(counts) {
            assert_eq!(from.len(), *count);
            into.extend(from, 0..*count);
        }
        Ok((own, into))
    }

    fn broadcast(&self, own: Payload, count: usize, root: usize) -> Result<Payload, GroupError> {
        assert!(count <= self.network.limit);
        let mut all = self.all(own)?;
        assert_eq!(all[root].len(), count);
        Ok(all.swap_remove(root))
    }
}

/// Runs `work` on every rank of `processes` × `threads`, where one operation between processes moves at most `limit`
/// elements; results in the order of ranks.
pub(crate) fn run_processes<T: Send, E: Send + std::fmt::Display>(
    processes: usize,
    threads: usize,
    limit: usize,
    work: impl Fn(ProcessGroup) -> Result<T, E> + Sync,
) -> Vec<Result<T, RankError<E>>> {
    let network = Arc::new(Network {
        threads,
        limit,
        failures: (0..processes).map(|_| Arc::default()).collect(),
        inboxes: (0..processes).map(|_| Arc::new((0..threads).map(|_| Inbox::default()).collect())).collect(),
        meetings: Mutex::default(),
        changed: Condvar::new(),
    });
    let worlds: Vec<World> = (0..processes)
        .map(|number| {
            let carrier = Arc::new(Process { network: network.clone(), number });
            let (failure, inboxes) = (network.failures[number].clone(), network.inboxes[number].clone());
            let seats = Seats { own: 1, fewest: 1, sharing: processes, on_host: processes, place: number };
            World::new((number, processes), failure, inboxes, Some(carrier), seats)
        })
        .collect();
    let work = &work;
    std::thread::scope(|scope| {
        let running: Vec<_> = worlds.iter().map(|world| scope.spawn(move || run_ranks(world, work))).collect();
        running.into_iter().flat_map(|process| process.join().expect("ranks catch their panics")).collect()
    })
}
