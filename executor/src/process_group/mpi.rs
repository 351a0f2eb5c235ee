//! Processes that an MPI launcher started.
//!
//! A communicator stays with the thread that made it, so each group has a thread of its own here that does its
//! collectives one after another. Messages go through two more kinds of threads: one per pair of ranks sends, so that a
//! message that nobody takes holds up no other; one per process receives what comes and puts it where ranks look for
//! it, so that messages travel while ranks compute. All of them sleep while there is nothing to do.

use super::failure::{FAILURE_CHECK, Failure};
use super::heartbeat::Heartbeat;
use super::inbox::{Envelope, Inbox};
use super::launch::{LaunchError, Seats};
use super::link::{Carrier, Letter, Link, Payload};
use super::{GroupError, lock};
use mpi::Threading;
use mpi::collective::CommunicatorCollectives;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::point_to_point::{Destination, Message, Source, Status};
use mpi::request::{Request, StaticScope, scope};
use mpi::topology::{Communicator, Group, SimpleCommunicator};
use mpi::traits::{Equivalence, Root};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use trainyard_host::Clock;
use trainyard_host::cores;

/// Messages that say which rank failed and why.
const FAILURE_TAG: i32 = 0;
/// Messages of one byte: that a process lives, or that it is about to end.
const SIGN_TAG: i32 = 1;
static ALIVE: [u8; 1] = [0];
static LEAVING: [u8; 1] = [1];
/// The MPI tag of the header that precedes a message from one rank to another.
const HEADER_TAG: i32 = 2;
/// Tags for making groups, which the library uses for messages of its own: groups that are made at once have different
/// ones.
const GROUP_TAGS: std::ops::Range<i32> = 3..16_384;
/// Messages from one rank to another: one tag per pair of ranks of two processes. Every library has tags up to 32 767.
const FIRST_PAIR_TAG: i32 = GROUP_TAGS.end;
/// Elements that one operation may move: counts and places are 32-bit integers with a sign.
const LIMIT: usize = 1 << 30;
/// Seconds that processes wait for each other before a job is ended by force.
const FAREWELL_S: f64 = 5.0;

/// Seconds after which a process ends itself that could not be ended in order.
const LAST_RESORT_S: f64 = 4.0 * FAREWELL_S;

/// MPI, started in this process.
pub(super) struct Session {
    universe: Universe,
    heartbeat_timeout: Duration,
    /// The name of each process's host.
    hosts: Vec<String>,
}

impl Session {
    /// Joins the processes that were started, each of which counts as lost after this time without a sign of life.
    pub(super) fn start(heartbeat_timeout: Duration) -> Result<Self, LaunchError> {
        let (universe, given) =
            mpi::initialize_with_threading(Threading::Multiple).ok_or(LaunchError::AlreadyStarted)?;
        if given != Threading::Multiple {
            let library = mpi::environment::library_version().unwrap_or_default();
            let library = library.split([',', '\n']).next().unwrap_or_default().to_owned();
            return Err(LaunchError::Threading { given: format!("{given:?}").to_lowercase(), library });
        }
        let hosts = hosts(&universe.world());
        Ok(Self { universe, heartbeat_timeout, hosts })
    }

    pub(super) fn processes(&self) -> usize {
        number(self.universe.world().size())
    }

    pub(super) fn process(&self) -> usize {
        number(self.universe.world().rank())
    }

    /// Asks all processes whether they are ready. All must call it.
    pub(super) fn all_ready(&self, ready: bool) -> bool {
        let world = self.universe.world();
        let mut all = vec![false; number(world.size())];
        world.all_gather_into(&ready, &mut all[..]);
        all.into_iter().all(|ready| ready)
    }

    /// Returns what the first process passed as `own`. Collective: all must call it.
    pub(super) fn told(&self, own: &str) -> String {
        let world = self.universe.world();
        let first = world.process_at_rank(0);
        let mut length = own.len() as u64;
        first.broadcast_into(&mut length);
        let mut text = own.as_bytes().to_vec();
        text.resize(length as usize, 0);
        first.broadcast_into(&mut text[..]);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Asks all processes how many processors they may use. All must call it.
    pub(super) fn seats(&self) -> Seats {
        let world = self.universe.world();
        let host = world.split_shared(world.rank());
        let mut all = vec![0u64; number(world.size())];
        world.all_gather_into(&(cores() as u64), &mut all[..]);
        let (own_set, mut sets) = (processor_set(), vec![0u64; number(host.size())]);
        host.all_gather_into(&own_set, &mut sets[..]);
        Seats {
            own: cores(),
            fewest: all.into_iter().min().unwrap_or(1) as usize,
            sharing: sets.iter().filter(|set| **set == own_set).count(),
            on_host: sets.len(),
            place: number(host.rank()),
        }
    }
}

/// Returns the name of the host of each process. Collective: all must call it.
fn hosts(world: &SimpleCommunicator) -> Vec<String> {
    const LONGEST: usize = 64;
    let mut own = mpi::environment::processor_name().unwrap_or_default().into_bytes();
    own.resize(LONGEST, 0);
    let mut all = vec![0; LONGEST * number(world.size())];
    world.all_gather_into(&own[..], &mut all[..]);
    let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    all.chunks(LONGEST).map(name).collect()
}

/// Returns a number for the set of processors that this process may use; the same for all processes where the system
/// does not tell.
fn processor_set() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap_or_default();
    xxhash_rust::xxh3::xxh3_64(set.as_bytes())
}

/// The processes of a job.
pub(super) struct Mpi {
    office: Arc<Office>,
    /// The queue of each pair of ranks that has one.
    senders: Mutex<BTreeMap<(usize, usize), Sender<Letter>>>,
    /// The threads that end when nothing more is asked of them: of senders, and of groups.
    sending: Mutex<Vec<JoinHandle<()>>>,
    serving: Mutex<Vec<JoinHandle<()>>>,
    receiving: Mutex<Option<JoinHandle<()>>>,
    watching: Mutex<Option<JoinHandle<()>>>,
    universe: Mutex<Option<Universe>>,
}

/// State that the receiving thread shares with the others.
struct Office {
    failure: Arc<Failure>,
    inboxes: Arc<Vec<Inbox>>,
    first: usize,
    /// Ranks of each process.
    threads: usize,
    /// `true` if ranks send messages to each other at all.
    used: AtomicBool,
    /// Ranks that wait for a message from another process.
    expecting: AtomicUsize,
    /// Processes that are about to end.
    leaving: AtomicUsize,
    /// Per process, its host and whether a sign of life came from it since the last beat.
    hosts: Vec<String>,
    heard: Vec<AtomicBool>,
    heartbeat_timeout: Duration,
    closed: AtomicBool,
}

impl Mpi {
    /// Connects the processes, each of which has `threads` ranks, this one from rank `first` on.
    pub(super) fn new(
        session: Session,
        failure: Arc<Failure>,
        inboxes: Arc<Vec<Inbox>>,
        first: usize,
        threads: usize,
    ) -> Self {
        let office = Arc::new(Office {
            failure,
            inboxes,
            first,
            threads,
            used: AtomicBool::new(false),
            expecting: AtomicUsize::new(0),
            leaving: AtomicUsize::new(0),
            heard: session.hosts.iter().map(|_| AtomicBool::new(false)).collect(),
            hosts: session.hosts,
            heartbeat_timeout: session.heartbeat_timeout,
            closed: AtomicBool::new(false),
        });
        let (receiver, watcher) = (office.clone(), office.clone());
        Self {
            office,
            senders: Mutex::default(),
            sending: Mutex::default(),
            serving: Mutex::default(),
            receiving: Mutex::new(Some(std::thread::spawn(move || receiver.receive()))),
            watching: Mutex::new(Some(std::thread::spawn(move || watcher.watch()))),
            universe: Mutex::new(Some(session.universe)),
        }
    }

    /// Ends everything in order, unless a rank has failed: then operations that others will never join cannot be ended.
    pub(super) fn close(&self) {
        if self.office.failure.happened() {
            return;
        }
        lock(&self.senders).clear();
        let waiting = [&self.sending, &self.serving].map(|threads| std::mem::take(&mut *lock(threads)));
        for thread in waiting.into_iter().flatten() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        // Others may still wait for this process to take their messages.
        if !self.office.all_close() {
            return;
        }
        self.office.closed.store(true, Ordering::Release);
        for thread in [&self.receiving, &self.watching] {
            if let Some(thread) = lock(thread).take() {
                thread.thread().unpark();
                let _ = thread.join();
            }
        }
        drop(lock(&self.universe).take());
    }

    /// Ends the job once all processes want to, or after a while.
    pub(super) fn abort(&self, code: i32) -> ! {
        self.office.used.store(true, Ordering::Release);
        tell_others(SIGN_TAG, LEAVING.to_vec());
        let world = SimpleCommunicator::world();
        let clock = Clock::start();
        let others = number(world.size()) - 1;
        // The first process ends the job for all; the others only if it does not.
        let patience = if world.rank() == 0 { FAREWELL_S } else { 2.0 * FAREWELL_S };
        while clock.seconds() < patience {
            if world.rank() == 0 && self.office.leaving.load(Ordering::Acquire) == others {
                break;
            }
            std::thread::sleep(FAILURE_CHECK);
        }
        end_by_force(code)
    }
}

/// Ends the job, or at least this process: where the network is gone, the launcher may not be reached either.
fn end_by_force(code: i32) -> ! {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs_f64(FAREWELL_S));
        std::process::abort();
    });
    SimpleCommunicator::world().abort(code)
}

/// Sends `bytes` to every other process, on a thread of its own: a process may never take them.
fn tell_others(tag: i32, bytes: Vec<u8>) {
    std::thread::spawn(move || {
        let world = SimpleCommunicator::world();
        let others = (0..world.size()).filter(|process| *process != world.rank());
        scope(|scope| {
            let send = |process| world.process_at_rank(process).immediate_send_with_tag(scope, &bytes[..], tag);
            let sent: Vec<_> = others.map(send).collect();
            sent.into_iter().for_each(|sent| settle(sent, &Pause::waiting()));
        });
    });
}

impl Carrier for Mpi {
    fn link(&self, processes: &[usize], id: u64) -> Box<dyn Link> {
        let (tasks, queue) = channel::<Task>();
        let members: Vec<i32> = processes.iter().map(|process| count(*process)).collect();
        let tag = GROUP_TAGS.start + count((id % GROUP_TAGS.len() as u64) as usize);
        lock(&self.serving).push(std::thread::spawn(move || {
            let world = SimpleCommunicator::world();
            let group = world.group().include(&members);
            let group = world.split_by_subgroup_with_tag(&group, tag).expect("a process is in its own groups");
            for task in queue {
                task(&group);
            }
        }));
        Box::new(GroupLink { tasks, processes: processes.len(), failure: self.office.failure.clone() })
    }

    fn post(&self, letter: Letter) -> Result<(), GroupError> {
        self.office.used.store(true, Ordering::Release);
        let pair = (letter.envelope.from, letter.to);
        let mut senders = lock(&self.senders);
        let sender = senders.entry(pair).or_insert_with(|| {
            let (sender, letters) = channel::<Letter>();
            let tag = self.office.pair_tag(pair.0, pair.1);
            let to = count(pair.1 / self.office.threads);
            lock(&self.sending).push(std::thread::spawn(move || {
                letters.into_iter().for_each(|letter| send(letter, to, tag));
            }));
            sender
        });
        sender.send(letter).map_err(|_| ended())
    }

    fn expect(&self, waits: bool) {
        self.office.used.store(true, Ordering::Release);
        if waits {
            self.office.expecting.fetch_add(1, Ordering::AcqRel);
            if let Some(receiver) = &*lock(&self.receiving) {
                receiver.thread().unpark();
            }
        } else {
            self.office.expecting.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn announce(&self, rank: usize, reason: &str) {
        tell_others(FAILURE_TAG, notice(rank, reason));
    }
}

/// Returns the message that a rank failed.
fn notice(rank: usize, reason: &str) -> Vec<u8> {
    let mut notice = (rank as u64).to_le_bytes().to_vec();
    notice.extend_from_slice(reason.as_bytes());
    notice
}

/// Number of words in a message's header, which precedes its elements.
const HEADER_WORDS: usize = 6;

fn send(letter: Letter, process: i32, tag: i32) {
    let Letter { envelope: Envelope { group, from, channel }, to, message } = letter;
    let kind = match &message {
        Payload::F32(_) => 0,
        Payload::Half(_) => 1,
        Payload::Bytes(_) => 2,
    };
    let header: [u64; HEADER_WORDS] = [group, from as u64, channel, to as u64, message.len() as u64, kind];
    send_elements(&header, process, HEADER_TAG);
    match &message {
        Payload::F32(values) => send_elements(values, process, tag),
        Payload::Half(values) => send_elements(values, process, tag),
        Payload::Bytes(bytes) => send_elements(bytes, process, tag),
    }
}

fn send_elements<T: Equivalence>(elements: &[T], process: i32, tag: i32) {
    let world = SimpleCommunicator::world();
    for part in elements.chunks(LIMIT) {
        scope(|scope| {
            let sent = world.process_at_rank(process).immediate_send_with_tag(scope, part, tag);
            settle(sent, &Pause::waiting());
        });
    }
}

impl Office {
    /// Takes what other processes send until the job ends.
    fn receive(&self) {
        let world = SimpleCommunicator::world();
        let mut pause = Pause::waiting();
        let mut expected = false;
        loop {
            let expects = self.expecting.load(Ordering::Acquire) > 0;
            if expects && !expected {
                pause = Pause::waiting();
            }
            expected = expects;
            let came = [HEADER_TAG, FAILURE_TAG, SIGN_TAG]
                .into_iter()
                .find_map(|tag| world.any_process().immediate_matched_probe_with_tag(tag));
            if let Some((message, status)) = came {
                self.take(message, &status);
                pause = Pause::waiting();
            } else if self.closed.load(Ordering::Acquire) {
                return;
            } else if !self.used.load(Ordering::Acquire) {
                std::thread::sleep(FAILURE_CHECK / 2);
            } else if expects {
                pause.turn();
            } else {
                pause.nap();
            }
        }
    }

    /// Tells others that this process lives, and listens to them, until the job ends.
    fn watch(&self) {
        let world = SimpleCommunicator::world();
        let mut heartbeat = Heartbeat::new(number(world.rank()), number(world.size()), self.heartbeat_timeout);
        let send = |process: usize| {
            world.process_at_rank(count(process)).immediate_send_with_tag(StaticScope, &ALIVE[..], SIGN_TAG)
        };
        let mut under_way: Vec<_> = heartbeat.peers().iter().map(|peer| send(*peer)).collect();
        while !self.closed.load(Ordering::Acquire) {
            std::thread::park_timeout(heartbeat.beat);
            if let Some(lost) = heartbeat.end_beat(|peer| self.heard[peer].swap(false, Ordering::AcqRel)) {
                self.lose(lost);
            }
            // A sign that a network holds up must not hold up those to others.
            let again = heartbeat.peers().iter().zip(under_way);
            under_way = again.map(|(peer, sent)| sent.test().err().unwrap_or_else(|| send(*peer))).collect();
        }
        under_way.into_iter().for_each(|sent| settle(sent, &Pause::waiting()));
    }

    /// Fails the ranks of a process that is silent, and sees to it that this process ends. Does not return.
    fn lose(&self, process: usize) -> ! {
        let (rank, host, seconds) =
            (process * self.threads, &self.hosts[process], self.heartbeat_timeout.as_secs_f64());
        let reason = format!(
            "no sign of life from its process on host {host} for {seconds} s: it hangs or was stopped, or the network \
             between the hosts is down"
        );
        if self.failure.note(rank, &reason) {
            tell_others(FAILURE_TAG, notice(rank, &reason));
        }
        // Ranks end with this error at their next call; one may be in a long step or wait where it cannot hear.
        std::thread::sleep(Duration::from_secs_f64(LAST_RESORT_S));
        end_by_force(1)
    }

    /// Waits until all processes have done their work; returns `false` if a rank fails before.
    fn all_close(&self) -> bool {
        let pause = Pause::waiting();
        let mut all_here = SimpleCommunicator::world().immediate_barrier();
        while let Err(pending) = all_here.test() {
            if self.failure.happened() {
                // MPI must not be ended in order now, so nothing waits for this request.
                std::mem::forget(pending);
                return false;
            }
            all_here = pending;
            pause.turn();
        }
        true
    }

    /// Returns the tag of messages from one rank to another of another process.
    fn pair_tag(&self, from: usize, to: usize) -> i32 {
        FIRST_PAIR_TAG + count(from % self.threads * self.threads + to % self.threads)
    }

    fn take(&self, message: Message, status: &Status) {
        match status.tag() {
            FAILURE_TAG => {
                let mut notice = vec![0u8; number(status.count(u8::equivalent_datatype()))];
                message.matched_receive_into(&mut notice[..]);
                match notice.split_first_chunk() {
                    Some((rank, reason)) => {
                        let rank = u64::from_le_bytes(*rank) as usize;
                        self.failure.note(rank, &String::from_utf8_lossy(reason));
                    }
                    None => self.note_stranger(status.source_rank()),
                }
            }
            SIGN_TAG => {
                let mut sign = [0u8; 1];
                message.matched_receive_into(&mut sign[..]);
                self.heard[number(status.source_rank())].store(true, Ordering::Release);
                if sign == LEAVING {
                    self.leaving.fetch_add(1, Ordering::AcqRel);
                }
            }
            _ => self.take_letter(message, status.source_rank()),
        }
    }

    fn take_letter(&self, message: Message, process: i32) {
        let mut header = [0u64; HEADER_WORDS];
        message.matched_receive_into(&mut header[..]);
        let [group, from, channel, to, length, kind] = header;
        let Some(inbox) = (to as usize).checked_sub(self.first).and_then(|place| self.inboxes.get(place)) else {
            return self.note_stranger(process);
        };
        let (length, tag) = (length as usize, self.pair_tag(from as usize, to as usize));
        let message = match kind {
            0 => Payload::F32(receive_elements(length, process, tag)),
            1 => Payload::Half(receive_elements(length, process, tag)),
            _ => Payload::Bytes(receive_elements(length, process, tag)),
        };
        inbox.deliver(Envelope { group, from: from as usize, channel }, message);
    }

    /// Ends the run for a process that says what no rank of this version does.
    fn note_stranger(&self, process: i32) {
        let reason = "it sent what this program does not understand: start the same program on all machines";
        self.failure.note(number(process) * self.threads, reason);
    }
}

fn receive_elements<T: Equivalence + Clone + Default>(length: usize, process: i32, tag: i32) -> Vec<T> {
    let world = SimpleCommunicator::world();
    let mut elements = vec![T::default(); length];
    for part in elements.chunks_mut(LIMIT) {
        let bytes = size_of_val(part);
        scope(|scope| {
            let received = world.process_at_rank(process).immediate_receive_into_with_tag(scope, part, tag);
            settle(received, &Pause::moving(bytes));
        });
    }
    elements
}

/// Work for the thread of a group.
type Task = Box<dyn FnOnce(&SimpleCommunicator) + Send>;

/// The processes of one group.
struct GroupLink {
    tasks: Sender<Task>,
    processes: usize,
    failure: Arc<Failure>,
}

impl GroupLink {
    /// Runs `work` on the group's thread and returns its result.
    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SimpleCommunicator) -> T + Send + 'static,
    ) -> Result<T, GroupError> {
        let (reply, answer) = sync_channel(1);
        let task: Task = Box::new(move |group| {
            // Nobody hears the answer once a rank has failed.
            let _ = reply.send(work(group));
        });
        self.tasks.send(task).map_err(|_| ended())?;
        loop {
            match answer.recv_timeout(FAILURE_CHECK) {
                Ok(value) => return Ok(value),
                Err(RecvTimeoutError::Timeout) => self.failure.check()?,
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
            }
        }
    }
}

impl Link for GroupLink {
    fn limit(&self) -> usize {
        LIMIT
    }

    fn meet(&self, words: Vec<u32>) -> Result<Vec<u32>, GroupError> {
        let mut all = vec![0; words.len() * self.processes];
        self.call(move |group| {
            scope(|scope| {
                let gathered = group.immediate_all_gather_into(scope, &words[..], &mut all[..]);
                settle(gathered, &Pause::waiting());
            });
            all
        })
    }

    fn exchange(&self, own: Payload, counts: &[usize], into: Payload) -> Result<(Payload, Payload), GroupError> {
        let counts: Vec<i32> = counts.iter().map(|elements| count(*elements)).collect();
        self.call(move |group| match (own, into) {
            (Payload::F32(own), Payload::F32(into)) => {
                let into = exchange_elements(group, &own, &counts, into);
                (Payload::F32(own), Payload::F32(into))
            }
            (Payload::Half(own), Payload::Half(into)) => {
                let into = exchange_elements(group, &own, &counts, into);
                (Payload::Half(own), Payload::Half(into))
            }
            (Payload::Bytes(own), Payload::Bytes(into)) => {
                let into = exchange_elements(group, &own, &counts, into);
                (Payload::Bytes(own), Payload::Bytes(into))
            }
            _ => unreachable!("what travels together is of one type"),
        })
    }

    fn gather(&self, own: Payload, counts: &[usize], into: Payload) -> Result<(Payload, Payload), GroupError> {
        let counts: Vec<i32> = counts.iter().map(|elements| count(*elements)).collect();
        self.call(move |group| match (own, into) {
            (Payload::F32(own), Payload::F32(into)) => {
                let into = gather_elements(group, &own, &counts, into);
                (Payload::F32(own), Payload::F32(into))
            }
            (Payload::Half(own), Payload::Half(into)) => {
                let into = gather_elements(group, &own, &counts, into);
                (Payload::Half(own), Payload::Half(into))
            }
            (Payload::Bytes(own), Payload::Bytes(into)) => {
                let into = gather_elements(group, &own, &counts, into);
                (Payload::Bytes(own), Payload::Bytes(into))
            }
            _ => unreachable!("what travels together is of one type"),
        })
    }

    fn broadcast(&self, own: Payload, count: usize, root: usize) -> Result<Payload, GroupError> {
        self.call(move |group| match own {
            Payload::F32(own) => Payload::F32(broadcast_elements(group, own, count, root)),
            Payload::Half(own) => Payload::Half(broadcast_elements(group, own, count, root)),
            Payload::Bytes(own) => Payload::Bytes(broadcast_elements(group, own, count, root)),
        })
    }
}

fn exchange_elements<T: Equivalence + Clone + Default>(
    group: &SimpleCommunicator,
    own: &[T],
    counts: &[i32],
    mut into: Vec<T>,
) -> Vec<T> {
    let received = vec![counts[number(group.rank())]; counts.len()];
    into.resize(received.iter().copied().map(number).sum(), T::default());
    let sent = Partition::new(own, counts, places(counts));
    let bytes = size_of_val(&into[..]);
    let mut arrived = PartitionMut::new(&mut into[..], &received[..], places(&received));
    scope(|scope| {
        let moved = group.immediate_all_to_all_varcount_into(scope, &sent, &mut arrived);
        settle(moved, &Pause::moving(bytes));
    });
    into
}

fn gather_elements<T: Equivalence + Clone + Default>(
    group: &SimpleCommunicator,
    own: &[T],
    counts: &[i32],
    mut into: Vec<T>,
) -> Vec<T> {
    into.resize(counts.iter().copied().map(number).sum(), T::default());
    let bytes = size_of_val(&into[..]);
    let mut arrived = PartitionMut::new(&mut into[..], counts, places(counts));
    scope(|scope| {
        let moved = group.immediate_all_gather_varcount_into(scope, own, &mut arrived);
        settle(moved, &Pause::moving(bytes));
    });
    into
}

fn broadcast_elements<T: Equivalence + Clone + Default>(
    group: &SimpleCommunicator,
    mut own: Vec<T>,
    count_: usize,
    root: usize,
) -> Vec<T> {
    own.resize(count_, T::default());
    let bytes = size_of_val(&own[..]);
    scope(|scope| {
        let moved = group.process_at_rank(count(root)).immediate_broadcast_into(scope, &mut own[..]);
        settle(moved, &Pause::moving(bytes));
    });
    own
}

/// Returns the offsets of parts of these lengths that lie one after another.
fn places(counts: &[i32]) -> Vec<i32> {
    let mut next = 0;
    let place = |count: &i32| {
        next += count;
        next - count
    };
    counts.iter().map(place).collect()
}

/// Waits until MPI is done with a request.
fn settle<'a, D: ?Sized, S: mpi::request::Scope<'a>>(mut request: Request<'a, D, S>, pause: &Pause) {
    while let Err(pending) = request.test() {
        request = pending;
        pause.turn();
    }
}

/// The waiting strategy of a thread: MPI moves bytes only while it is called.
struct Pause {
    since: Clock,
    /// Seconds for which it spins before it sleeps.
    eager_s: f64,
}

impl Pause {
    /// Seconds for which a thread spins where nothing may come for long.
    const EAGER_S: f64 = 200e-6;
    /// The shortest sleep after spinning. What a network brings meanwhile lies in its buffers.
    const NAP: Duration = Duration::from_micros(30);
    /// The longest sleep. Sleeps grow up to it because waking up takes the processor from what computes on it.
    const NAP_MAX: Duration = Duration::from_millis(1);
    /// The length of a sleep as a fraction of the time waited so far: a message may be noticed as much later.
    const LATER: f64 = 0.05;
    /// Bytes that memory moves in a second, slowly: what takes longer comes over a network, which is not made faster
    /// by asking for it, while the processor is wanted for computing.
    const MEMORY: f64 = 5e8;

    /// Returns the pause for waiting on other processes, which may take long to come.
    fn waiting() -> Self {
        Self { since: Clock::start(), eager_s: Self::EAGER_S }
    }

    /// Returns the pause for moving so many bytes, which both sides are ready to move.
    fn moving(bytes: usize) -> Self {
        Self { since: Clock::start(), eager_s: Self::EAGER_S + bytes as f64 / Self::MEMORY }
    }

    fn turn(&self) {
        if self.since.seconds() > self.eager_s {
            self.nap();
        } else {
            std::thread::yield_now();
        }
    }

    /// Leaves the processor to others for a while, or until somebody wakes this thread.
    fn nap(&self) {
        let nap = Duration::from_secs_f64(self.since.seconds() * Self::LATER);
        std::thread::park_timeout(nap.clamp(Self::NAP, Self::NAP_MAX));
    }
}

/// Returns the error for a thread of the group that is gone: it panicked.
fn ended() -> GroupError {
    GroupError::RankFailed { rank: 0, reason: "the connection to other processes is closed".into() }
}

fn number(count: i32) -> usize {
    usize::try_from(count).expect("MPI counts from zero")
}

fn count(number: usize) -> i32 {
    i32::try_from(number).expect("operations are cut so that counts fit")
}
