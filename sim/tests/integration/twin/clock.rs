//! A script put in time: from one event to the next, with a look at everything at each of them.
//!
//! Time is whole nanoseconds, as it is in the engine: what takes a known time takes the nearest number of them, and what
//! goes at a rate ends at the first of them at which nothing is left of it. In a plan whose transfers share links a
//! nanosecond more or less is not small: a transfer that starts a little earlier takes bytes from others, they end later,
//! and over a few dozen transfers that grows ten-thousandfold.

use super::script::{Script, What};
use super::shares::max_min;
use trainyard_sim::Phase;

const NANOSECONDS: f64 = 1e9;

/// When something started and ended, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Something under way.
struct Running<'a> {
    id: usize,
    start: u64,
    /// What it still has to do, in order; the first is under way.
    left: Vec<Left<'a>>,
    /// How much of that goes in a nanosecond, and since when; nothing before it was looked at.
    rate: Option<f64>,
    since: u64,
    /// When that ends, if the rate stays.
    due: u64,
}

#[derive(Clone, Copy)]
enum Left<'a> {
    /// Nanoseconds of kernels on a rank.
    Kernels(usize, f64),
    /// Nanoseconds before bytes flow.
    Latency(f64),
    /// Bytes of each flow.
    Bytes(&'a Phase, f64),
}

impl Left<'_> {
    fn amount(&mut self) -> &mut f64 {
        match self {
            Self::Kernels(_, amount) | Self::Latency(amount) | Self::Bytes(_, amount) => amount,
        }
    }
}

impl Running<'_> {
    /// From now on it goes at this rate.
    fn go_on(&mut self, now: u64, rate: f64) {
        if self.rate == Some(rate) {
            return;
        }
        let amount = self.left[0].amount();
        *amount = (*amount - (now - self.since) as f64 * self.rate.unwrap_or(0.0)).max(0.0);
        self.due = now + (*amount / rate).ceil() as u64;
        (self.rate, self.since) = (Some(rate), now);
    }

    /// It has done the first of what was left.
    fn next(&mut self, now: u64) {
        self.left.remove(0);
        (self.rate, self.since) = (None, now);
    }
}

/// When everything in a script happens, by its number. Links carry `capacities` in bytes a second; kernels beside a
/// collective of their rank take `1 + slowdown` times as long.
pub(crate) fn play(script: &Script, capacities: &[f64], slowdown: f64) -> Vec<Timing> {
    let mut ran: Vec<Option<Timing>> = vec![None; script.doings.len()];
    let mut started = vec![false; script.doings.len()];
    let mut running: Vec<Running> = Vec::new();
    // How much of each stream has ended.
    let mut heads = vec![0; script.streams.len()];
    let mut now = 0;
    loop {
        for one in running.extract_if(.., |one| one.left.is_empty()) {
            ran[one.id] = Some(Timing { start: one.start, end: now });
            for (head, stream) in heads.iter_mut().zip(script.streams.values()) {
                *head += usize::from(stream.get(*head) == Some(&one.id));
            }
        }
        let starting = startable(script, &heads, &ran, &started);
        if !starting.is_empty() {
            for id in starting {
                started[id] = true;
                let left = all_of(&script.doings[id].what);
                running.push(Running { id, start: now, left, rate: None, since: now, due: now });
            }
            continue;
        }
        let rates = rates(script, &running, capacities, slowdown);
        running.iter_mut().zip(rates).for_each(|(one, rate)| one.go_on(now, rate));
        let Some(next) = running.iter().map(|one| one.due).min() else { break };
        now = next;
        running.iter_mut().filter(|one| one.due == now).for_each(|one| one.next(now));
    }
    let never = || script.doings.iter().zip(&ran).filter(|(_, ran)| ran.is_none()).map(|(doing, _)| &doing.label);
    assert!(ran.iter().all(Option::is_some), "never started: {:?}", never().collect::<Vec<_>>());
    ran.into_iter().flatten().collect()
}

/// What is next on all streams that it is on, waits for nothing, and was not started.
fn startable(script: &Script, heads: &[usize], ran: &[Option<Timing>], started: &[bool]) -> Vec<usize> {
    let next: Vec<usize> =
        script.streams.values().zip(heads).filter_map(|(stream, head)| stream.get(*head).copied()).collect();
    let is_ready = |id: &usize| {
        let doing = &script.doings[*id];
        doing.after.iter().all(|before| ran[*before].is_some())
            && next.iter().filter(|next| *next == id).count() == doing.streams
    };
    let mut ready: Vec<usize> = next.iter().copied().filter(|id| !started[*id]).filter(is_ready).collect();
    ready.sort_unstable();
    ready.dedup();
    ready
}

/// Everything that is to be done, in order; what takes no time is left out.
fn all_of<'a>(what: &'a What) -> Vec<Left<'a>> {
    let rounded = |seconds: f64| (seconds * NANOSECONDS).round();
    let halves = |phase: &'a Phase| [Left::Latency(rounded(phase.latency.0)), Left::Bytes(phase, phase.volume)];
    let mut all = match what {
        What::Kernels { rank, seconds } => vec![Left::Kernels(*rank, rounded(*seconds))],
        What::Communication { operation, .. } => operation.phases.iter().flat_map(halves).collect(),
    };
    all.retain_mut(|left| *left.amount() > 0.0);
    all
}

/// How fast everything goes: nanoseconds or bytes a nanosecond.
fn rates(script: &Script, running: &[Running<'_>], capacities: &[f64], slowdown: f64) -> Vec<f64> {
    let slows = |other: &Running<'_>, slowed: usize| match &script.doings[other.id].what {
        What::Communication { members, is_collective, .. } => *is_collective && members.contains(&slowed),
        What::Kernels { .. } => false,
    };
    let moving: Vec<&Phase> = running
        .iter()
        .filter_map(|one| match one.left[0] {
            Left::Bytes(phase, _) => Some(phase),
            Left::Kernels(..) | Left::Latency(_) => None,
        })
        .collect();
    let mut shares = max_min(capacities, &moving).into_iter();
    let rate = |one: &Running<'_>| match one.left[0] {
        Left::Kernels(rank, _) if running.iter().any(|other| slows(other, rank)) => 1.0 / (1.0 + slowdown),
        Left::Kernels(..) | Left::Latency(_) => 1.0,
        Left::Bytes(..) => shares.next().expect("each that moves has a share") / NANOSECONDS,
    };
    running.iter().map(rate).collect()
}
