//! The oracle: the same rules, looked at every second, with lists that are searched from end to end.

use super::seconds;
use crate::queue::simulation::outcome::Run;
use crate::queue::simulation::{Job, Kept, Queue};
use crate::queue::{QueueOrder, WarmEnd};
use trainyard_units::{Instant, Span};

pub(super) struct Twin {
    pub(super) runs: Vec<Run>,
    pub(super) kept: Vec<Kept>,
}

/// Instances that belong together.
#[derive(Clone)]
struct Cluster {
    places: Vec<u32>,
    launched: Instant,
    /// Who uses them, or who did.
    job: usize,
    /// Since when they wait and until when, if nobody uses them.
    idle: Option<(Instant, Instant)>,
}

struct State<'a> {
    queue: &'a Queue,
    now: Instant,
    clusters: Vec<Cluster>,
    waiting: Vec<usize>,
    runs: Vec<Option<Run>>,
    kept: Vec<Kept>,
}

pub(super) fn simulate(queue: &Queue) -> Twin {
    let mut state = State {
        queue,
        now: Instant::START,
        clusters: Vec::new(),
        waiting: Vec::new(),
        runs: vec![None; queue.jobs.len()],
        kept: Vec::new(),
    };
    loop {
        state.second();
        let over = state.clusters.is_empty() && state.runs.iter().all(Option::is_some);
        if over {
            break;
        }
        state.now = state.now.after_span(seconds(1));
    }
    state.kept.sort_by_key(|kept| (kept.since, kept.places[0]));
    Twin { runs: state.runs.into_iter().flatten().collect(), kept: state.kept }
}

impl State<'_> {
    fn second(&mut self) {
        let now = self.now;
        let mut changed = false;
        for job in 0..self.queue.jobs.len() {
            if self.queue.jobs[job].submit == now {
                self.waiting.push(job);
                changed = true;
            }
        }
        while let Some(over) = self.clusters.iter().position(|it| it.idle.is_some_and(|(_, until)| until == now)) {
            self.stop_waiting(over, WarmEnd::Expired);
        }
        for job in 0..self.queue.jobs.len() {
            if self.runs[job].as_ref().is_some_and(|run| run.end == now) {
                self.end(job);
                changed = true;
            }
        }
        if changed {
            self.start_jobs();
        }
    }

    fn end(&mut self, job: usize) {
        let own = self.clusters.iter().position(|it| it.job == job && it.idle.is_none()).expect("it ran");
        let idle: usize = self.clusters.iter().filter(|it| it.idle.is_some()).map(|it| it.places.len()).sum();
        let cluster = &mut self.clusters[own];
        let keep = self.queue.warm_pools.and_then(|pools| {
            let until = self.now.after_span(pools.keep_alive).min(cluster.launched.after_span(pools.lifetime));
            (idle + cluster.places.len() <= pools.quota as usize && until > self.now).then_some((self.now, until))
        });
        cluster.idle = keep;
        if keep.is_none() {
            self.clusters.remove(own);
        }
    }

    fn stop_waiting(&mut self, index: usize, ended: WarmEnd) -> Cluster {
        let cluster = self.clusters.remove(index);
        let (since, until) = (cluster.idle.expect("it waits").0, self.now);
        self.kept.push(Kept { places: cluster.places.clone(), since, until, ended });
        cluster
    }

    fn used(&self) -> u32 {
        self.clusters.iter().filter(|it| it.idle.is_none()).map(|it| it.places.len() as u32).sum()
    }

    fn fits(&self, job: usize) -> bool {
        self.used() + self.queue.jobs[job].instances <= self.queue.quota
    }

    fn start_jobs(&mut self) {
        self.waiting.sort_by(|a, b| {
            let (x, y) = (&self.queue.jobs[*a], &self.queue.jobs[*b]);
            let policy = match self.queue.order {
                QueueOrder::Fifo => std::cmp::Ordering::Equal,
                QueueOrder::ShortestFirst => x.expected.cmp(&y.expected),
                QueueOrder::LongestFirst => y.expected.cmp(&x.expected),
                QueueOrder::Priority => y.priority.cmp(&x.priority),
            };
            policy.then(x.submit.cmp(&y.submit)).then(a.cmp(b))
        });
        while self.waiting.first().is_some_and(|first| self.fits(*first)) {
            let first = self.waiting.remove(0);
            self.start(first);
        }
        if self.queue.backfill && !self.waiting.is_empty() {
            self.backfill();
        }
    }

    /// Instances that are free at an instant by what is expected now.
    fn expected_free(&self, at: Instant) -> u32 {
        let still = |it: &&Cluster| {
            let job = &self.queue.jobs[it.job];
            let run = self.runs[it.job].as_ref().expect("it runs");
            it.idle.is_none() && self.now.max(run.ready.after_span(job.expected)) > at
        };
        self.queue.quota - self.clusters.iter().filter(still).map(|it| it.places.len() as u32).sum::<u32>()
    }

    fn backfill(&mut self) {
        let first = self.queue.jobs[self.waiting[0]].instances;
        let mut at = self.now;
        while self.expected_free(at) < first {
            at = at.after_span(seconds(1));
        }
        // Overdue jobs count as free at once, so that even now there may seem to be enough.
        let mut spare = self.expected_free(at) - first;
        let others = self.waiting[1..].to_vec();
        for job in others {
            if !self.fits(job) {
                continue;
            }
            let needs = self.queue.jobs[job];
            if self.now.after_span(self.start_up(&needs) + needs.expected) > at {
                if needs.instances > spare {
                    continue;
                }
                spare -= needs.instances;
            }
            self.waiting.retain(|other| *other != job);
            self.start(job);
        }
    }

    fn matching(&self, job: &Job) -> Option<usize> {
        let fits = |it: &Cluster| {
            it.idle.is_some()
                && it.places.len() == job.instances as usize
                && self.queue.jobs[it.job].environment == job.environment
        };
        self.first_to_end(fits)
    }

    fn first_to_end(&self, suitable: impl Fn(&Cluster) -> bool) -> Option<usize> {
        let all = (0..self.clusters.len()).filter(|index| suitable(&self.clusters[*index]));
        all.min_by_key(|index| {
            let cluster = &self.clusters[*index];
            (cluster.idle.map(|(_, until)| until), cluster.places[0])
        })
    }

    fn start_up(&self, job: &Job) -> Span {
        if self.matching(job).is_some() { self.queue.warm_start } else { self.queue.cold_start }
    }

    fn start(&mut self, index: usize) {
        let job = self.queue.jobs[index];
        let ready = self.now.after_span(self.start_up(&job));
        let warm = self.matching(&job);
        let (places, launched) = match warm {
            Some(cluster) => {
                let cluster = self.stop_waiting(cluster, WarmEnd::Reused);
                (cluster.places, cluster.launched)
            }
            None => (self.new_places(job.instances as usize), self.now),
        };
        let end = ready.after_span(job.actual);
        let unpaid = if warm.is_none() { self.queue.unpaid_start } else { Span::ZERO };
        let (start, paid) = (self.now, self.now.after_span(unpaid));
        self.runs[index] = Some(Run { start, paid, ready, end, warm: warm.is_some(), places: places.clone() });
        self.clusters.push(Cluster { places, launched, job: index, idle: None });
    }

    fn new_places(&mut self, count: usize) -> Vec<u32> {
        loop {
            let taken = |place: &u32| self.clusters.iter().any(|it| it.places.contains(place));
            let free: Vec<u32> = (0..self.queue.quota).filter(|place| !taken(place)).collect();
            if free.len() >= count {
                return free[..count].to_vec();
            }
            let first = self.first_to_end(|it| it.idle.is_some()).expect("it fits");
            self.stop_waiting(first, WarmEnd::Released);
        }
    }
}
