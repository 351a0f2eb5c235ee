//! The scheduler: it gives instances to jobs.

use super::instances::{Held, Pool};
use super::outcome::{Kept, QueueOutcome, Run, State};
use super::{Job, Queue};
use crate::queue::QueueOrder;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use trainyard_sim::des::EventQueue;
use trainyard_units::{Instant, Span};

/// An event of the job of an index. At one instant all of one kind come before all of the next, so that a warm pool
/// that expires makes room for one that begins.
#[derive(Clone, Copy)]
enum Event {
    Submit = 0,
    Expire = 1,
    Ready = 2,
    End = 3,
}

impl Event {
    const ALL: [Self; 4] = [Self::Submit, Self::Expire, Self::Ready, Self::End];
}

/// Runs a queue to its end.
///
/// # Panics
///
/// When a job needs no instance or more than the quota: that is checked where queues are read.
pub(crate) fn simulate_queue(queue: &Queue) -> QueueOutcome {
    for job in &queue.jobs {
        assert!((1..=queue.quota).contains(&job.instances), "a job needs 1 to {} instances: {job:?}", queue.quota);
    }
    Scheduler::new(queue).run()
}

struct Scheduler<'a> {
    queue: &'a Queue,
    events: EventQueue,
    pool: Pool,
    /// Jobs in the order of the policy, and where in it each job stands.
    order: Vec<u32>,
    rank: Vec<u32>,
    /// Ranks of the jobs that wait.
    waiting: BTreeSet<u32>,
    /// Jobs that have instances, by when they are expected to end.
    running: BTreeSet<(Instant, u32)>,
    starting_instances: u32,
    busy_instances: u32,
    held: Vec<Option<Held>>,
    runs: Vec<Run>,
    kept: Vec<Kept>,
    states: Vec<State>,
}

/// The promise to the first job that waits for instances.
struct Reservation {
    /// When there will be enough, by what is expected.
    at: Instant,
    /// Instances left over then.
    spare: u32,
}

impl<'a> Scheduler<'a> {
    fn new(queue: &'a Queue) -> Self {
        let count = queue.jobs.len();
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.sort_by_key(|index| {
            let job = &queue.jobs[*index as usize];
            (precedence(queue.order, job), job.submit, *index)
        });
        let mut rank = vec![0; count];
        for (place, index) in order.iter().enumerate() {
            rank[*index as usize] = place as u32;
        }
        Self {
            queue,
            events: EventQueue::with_capacity(count),
            pool: Pool::new(queue.quota, queue.warm_pools),
            order,
            rank,
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            starting_instances: 0,
            busy_instances: 0,
            held: vec![None; count],
            runs: vec![Run::default(); count],
            kept: Vec::new(),
            states: Vec::new(),
        }
    }

    fn run(mut self) -> QueueOutcome {
        for (index, job) in self.queue.jobs.iter().enumerate() {
            self.schedule(job.submit, Event::Submit, index as u32);
        }
        let mut keys = Vec::new();
        while let Some(now) = self.events.next_instant(&mut keys) {
            let mut changed = false;
            for key in keys.drain(..) {
                changed |= self.happen(key, now);
            }
            if changed {
                self.dispatch(now);
            }
            self.note(now);
        }
        self.kept.sort_by_key(|kept| (kept.since, kept.places[0]));
        QueueOutcome { runs: self.runs, kept: self.kept, states: self.states }
    }

    fn schedule(&mut self, at: Instant, event: Event, index: u32) {
        self.events.schedule(at, event as u32 * self.queue.jobs.len() as u32 + index);
    }

    /// Applies an event. Returns whether a job came or ended, which is when instances are given out.
    fn happen(&mut self, key: u32, now: Instant) -> bool {
        let count = self.queue.jobs.len() as u32;
        let (event, index) = (Event::ALL[(key / count) as usize], key % count);
        let job = &self.queue.jobs[index as usize];
        match event {
            Event::Submit => {
                self.waiting.insert(self.rank[index as usize]);
            }
            Event::Expire => self.pool.expire(index, now, &mut self.kept),
            Event::Ready => {
                self.starting_instances -= job.instances;
                self.busy_instances += job.instances;
            }
            Event::End => {
                self.busy_instances -= job.instances;
                let expected = self.runs[index as usize].ready.after_span(job.expected);
                self.running.remove(&(expected, index));
                let held = self.held[index as usize].take().expect("a job that ends has instances");
                if let Some(until) = self.pool.give_back(index, job, held, now) {
                    self.schedule(until, Event::Expire, index);
                }
            }
        }
        matches!(event, Event::Submit | Event::End)
    }

    /// Gives instances to the first jobs as long as there are enough, then to others that do not delay the next one.
    fn dispatch(&mut self, now: Instant) {
        while let Some(rank) = self.waiting.first().copied() {
            let index = self.order[rank as usize];
            if self.queue.jobs[index as usize].instances > self.pool.available() {
                break;
            }
            self.begin(rank, now);
        }
        if self.queue.backfill && self.waiting.len() > 1 && self.pool.available() > 0 {
            self.backfill(now);
        }
    }

    /// Aggressive backfilling: only the first job that waits has a reservation.
    fn backfill(&mut self, now: Instant) {
        let ranks: Vec<u32> = self.waiting.iter().copied().collect();
        let mut reservation = self.reserve(self.order[ranks[0] as usize], now);
        for rank in &ranks[1..] {
            let job = &self.queue.jobs[self.order[*rank as usize] as usize];
            if self.pool.available() == 0 {
                break;
            }
            if job.instances > self.pool.available() {
                continue;
            }
            let ends_in_time = now.after_span(self.start_of(job) + job.expected) <= reservation.at;
            if ends_in_time || job.instances <= reservation.spare {
                reservation.spare -= if ends_in_time { 0 } else { job.instances };
                self.begin(*rank, now);
            }
        }
    }

    /// When the job of this index will have its instances, which now are too few, if all that run end as expected. A
    /// job that takes longer than expected is expected to end at once.
    fn reserve(&self, index: u32, now: Instant) -> Reservation {
        let wanted = self.queue.jobs[index as usize].instances;
        let (mut available, mut at) = (self.pool.available(), now);
        for (end, other) in &self.running {
            let end = now.max(*end);
            if available >= wanted && end > at {
                break;
            }
            at = end;
            available += self.queue.jobs[*other as usize].instances;
        }
        Reservation { at, spare: available - wanted }
    }

    fn start_of(&self, job: &Job) -> Span {
        if self.pool.matches(job) { self.queue.warm_start } else { self.queue.cold_start }
    }

    fn begin(&mut self, rank: u32, now: Instant) {
        let index = self.order[rank as usize];
        let job = &self.queue.jobs[index as usize];
        let ready = now.after_span(self.start_of(job));
        let held = self.pool.take(job, now, &mut self.kept);
        let end = ready.after_span(job.actual);
        self.waiting.remove(&rank);
        self.running.insert((ready.after_span(job.expected), index));
        self.starting_instances += job.instances;
        let paid = if held.warm { now } else { now.after_span(self.queue.unpaid_start) };
        self.runs[index as usize] = Run { start: now, paid, ready, end, warm: held.warm, places: held.places.clone() };
        self.held[index as usize] = Some(held);
        self.schedule(ready, Event::Ready, index);
        self.schedule(end, Event::End, index);
    }

    /// Notes what the pool does from now on, if that is new.
    fn note(&mut self, now: Instant) {
        let state = State {
            at: now,
            waiting: self.waiting.len() as u32,
            starting: self.starting_instances,
            busy: self.busy_instances,
            idle: self.pool.idle_instances(),
        };
        // What takes no time at all happens in several rounds of one instant.
        self.states.pop_if(|last| last.at == now);
        if self.states.last().is_none_or(|last| State { at: now, ..*last } != state) {
            self.states.push(state);
        }
    }
}

/// The key of the order: smaller goes first.
fn precedence(order: QueueOrder, job: &Job) -> (Reverse<i32>, Span, Reverse<Span>) {
    let none = (Reverse(0), Span::ZERO, Reverse(Span::ZERO));
    match order {
        QueueOrder::Fifo => none,
        QueueOrder::ShortestFirst => (none.0, job.expected, none.2),
        QueueOrder::LongestFirst => (none.0, none.1, Reverse(job.expected)),
        QueueOrder::Priority => (Reverse(job.priority), none.1, none.2),
    }
}
