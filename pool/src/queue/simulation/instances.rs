//! The instances of a quota: free, in use, or kept warm.

use super::outcome::Kept;
use super::{Job, WarmPools};
use crate::queue::WarmEnd;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_units::Instant;

/// The places of a quota. Those in use are with their jobs.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    rules: Option<WarmPools>,
    /// Places without an instance.
    free: BTreeSet<u32>,
    /// Instances without a job, by the job that left them.
    idle: BTreeMap<u32, Idle>,
    /// Instances of those.
    idle_instances: u32,
}

/// Instances that wait together for a job that matches.
#[derive(Clone, Debug)]
struct Idle {
    held: Held,
    environment: u32,
    since: Instant,
    until: Instant,
}

/// Instances of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) places: Vec<u32>,
    /// When they were new.
    pub(super) launched: Instant,
    /// Set if another job had them before.
    pub(super) warm: bool,
}

impl Pool {
    pub(super) fn new(quota: u32, rules: Option<WarmPools>) -> Self {
        Self { rules, free: (0..quota).collect(), idle: BTreeMap::new(), idle_instances: 0 }
    }

    /// Instances that a job could get now.
    pub(super) fn available(&self) -> u32 {
        self.free.len() as u32 + self.idle_instances
    }

    /// Instances that are kept without a job.
    pub(super) fn idle_instances(&self) -> u32 {
        self.idle_instances
    }

    /// Tells whether instances are kept that this job can take over.
    pub(super) fn matches(&self, job: &Job) -> bool {
        self.matching(job).is_some()
    }

    /// Those that would be given up first. A warm pool is handed on as a whole, to a job of as many instances.
    fn matching(&self, job: &Job) -> Option<u32> {
        self.first_to_expire(|idle| {
            idle.environment == job.environment && idle.held.places.len() == job.instances as usize
        })
    }

    fn first_to_expire(&self, suitable: impl Fn(&Idle) -> bool) -> Option<u32> {
        let candidates = self.idle.iter().filter(|(_, idle)| suitable(idle));
        candidates.min_by_key(|(_, idle)| (idle.until, idle.held.places[0])).map(|(left_by, _)| *left_by)
    }

    /// Instances for a job, of which there are enough: those that match, or new ones. What ends for that is appended to
    /// `kept`.
    pub(super) fn take(&mut self, job: &Job, now: Instant, kept: &mut Vec<Kept>) -> Held {
        if let Some(left_by) = self.matching(job) {
            return Held { warm: true, ..self.end(left_by, now, WarmEnd::Reused, kept) };
        }
        while self.free.len() < job.instances as usize {
            let first = self.first_to_expire(|_| true).expect("whoever takes instances has seen that there are enough");
            let held = self.end(first, now, WarmEnd::Released, kept);
            self.free.extend(held.places);
        }
        let places = (0..job.instances).filter_map(|_| self.free.pop_first()).collect();
        Held { places, launched: now, warm: false }
    }

    /// Takes back the instances of `job`, the one of this index. Returns when they will be given up if they are kept.
    pub(super) fn give_back(&mut self, index: u32, job: &Job, held: Held, now: Instant) -> Option<Instant> {
        let until = self.rules.and_then(|rules| {
            let room = self.idle_instances + job.instances <= rules.quota;
            let until = now.after_span(rules.keep_alive).min(held.launched.after_span(rules.lifetime));
            (room && until > now).then_some(until)
        });
        match until {
            Some(until) => {
                self.idle_instances += job.instances;
                self.idle.insert(index, Idle { held, environment: job.environment, since: now, until });
            }
            None => self.free.extend(held.places),
        }
        until
    }

    /// Gives up what the job of this index left, if nobody took it over.
    pub(super) fn expire(&mut self, left_by: u32, now: Instant, kept: &mut Vec<Kept>) {
        if self.idle.contains_key(&left_by) {
            let held = self.end(left_by, now, WarmEnd::Expired, kept);
            self.free.extend(held.places);
        }
    }

    fn end(&mut self, left_by: u32, now: Instant, ended: WarmEnd, kept: &mut Vec<Kept>) -> Held {
        let Idle { held, since, .. } = self.idle.remove(&left_by).expect("only what is idle is ended");
        self.idle_instances -= held.places.len() as u32;
        kept.push(Kept { places: held.places.clone(), since, until: now, ended });
        held
    }
}
