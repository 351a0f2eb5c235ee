//! A step told from its repetition: the engine runs a step with fewer micro-batches, and what it does over and over is
//! counted as often as the whole step has it. `docs/design/006-hot-paths.md` has the argument why that is exact.

use crate::engine::{Engine, Program, Timing};
use trainyard_plan::Repetition;
use trainyard_units::{Instant, Span};

/// Snapshots that are kept to compare with: the longest recurrence that is found, in periods of the programs.
const KEPT: usize = 64;

/// The nodes that an actor does on a stream, in order, and where they repeat themselves in each of the steps.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) nodes: Vec<u32>,
    pub(crate) repetitions: Vec<Repetition>,
}

/// A state of the engine that came back.
#[derive(Clone, Debug)]
pub(crate) struct Recurrence {
    /// Per chain, how many of its nodes had ended at the first time and at the second.
    first: Vec<u32>,
    second: Vec<u32>,
    /// From the one to the other.
    pub(crate) span: Span,
    /// Periods of the programs in it.
    pub(crate) periods: u32,
}

/// Runs a program until its end if, in each of its steps, a state of the engine recurs. The first of the chains is one
/// that every period lengthens.
pub(crate) fn run_repeating(program: &Program, chains: &[Chain]) -> Option<(Vec<Timing>, Vec<Recurrence>)> {
    let steps = chains[0].repetitions.len();
    let mut engine = Engine::new(program);
    let mut watch = Watch { chains, step: 0, ended: vec![0; chains.len()], turn: None, seen: Vec::new() };
    let mut found = Vec::new();
    loop {
        engine.settle();
        if found.len() < steps {
            match watch.look(&engine) {
                Look::On => {}
                Look::Found(recurrence) => {
                    found.push(recurrence);
                    watch.next_step();
                }
                Look::InVain => return None,
            }
        }
        if !engine.go_on() {
            return (found.len() == steps).then(|| (engine.into_ran(), found));
        }
    }
}

/// The outcome of a look at the engine.
enum Look {
    On,
    Found(Recurrence),
    /// The step stops repeating itself, and no state has recurred.
    InVain,
}

/// The state of the engine at the end of a period of the first chain.
struct Snapshot {
    turn: u32,
    at: Instant,
    ended: Vec<u32>,
    state: Vec<u64>,
}

struct Watch<'a> {
    chains: &'a [Chain],
    /// The step that is watched.
    step: usize,
    /// Per chain, how many of its nodes have ended.
    ended: Vec<u32>,
    /// How many periods of the step the first chain had ended when it was last looked at.
    turn: Option<u32>,
    seen: Vec<Snapshot>,
}

impl Watch<'_> {
    fn next_step(&mut self) {
        self.step += 1;
        self.turn = None;
        self.seen.clear();
    }

    /// Counts the nodes of a chain that have ended.
    fn count(&mut self, engine: &Engine<'_>, chain: usize) -> u32 {
        let (nodes, ended) = (&self.chains[chain].nodes, &mut self.ended[chain]);
        while nodes.get(*ended as usize).is_some_and(|node| engine.ran()[*node as usize].end != Instant::NEVER) {
            *ended += 1;
        }
        *ended
    }

    /// Compares the state with those before if the first chain has ended another period.
    fn look(&mut self, engine: &Engine<'_>) -> Look {
        let Repetition { from, each, .. } = self.chains[0].repetitions[self.step];
        let Some(further) = self.count(engine, 0).checked_sub(from) else { return Look::On };
        let turn = Some(further / each);
        if turn == self.turn {
            return Look::On;
        }
        self.turn = turn;
        self.compare(engine, further / each)
    }

    fn compare(&mut self, engine: &Engine<'_>, turn: u32) -> Look {
        let mut state = Vec::with_capacity(4 * self.chains.len());
        for index in 0..self.chains.len() {
            let ended = self.count(engine, index);
            let Chain { nodes, repetitions } = &self.chains[index];
            let Repetition { from, each, to } = repetitions[self.step];
            let running = nodes.get(ended as usize).and_then(|node| engine.state(*node));
            if ended + u32::from(running.is_some()) > to {
                return Look::InVain;
            }
            if ended < from {
                return Look::On;
            }
            // Not negative: what a chain lacks of its periods it has before the first of them.
            state.push((u64::from(ended) + u64::from(u32::MAX)) - u64::from(turn) * u64::from(each));
            state.push(u64::from(running.is_some()));
            state.extend(running.iter().flatten());
        }
        if let Some(before) = self.seen.iter().rev().find(|snapshot| snapshot.state == state) {
            return Look::Found(Recurrence {
                first: before.ended.clone(),
                second: self.ended.clone(),
                span: engine.now().since(before.at),
                periods: turn - before.turn,
            });
        }
        if self.seen.len() == KEPT {
            self.seen.remove(0);
        }
        self.seen.push(Snapshot { turn, at: engine.now(), ended: self.ended.clone(), state });
        Look::On
    }
}

/// When the nodes of a step ran, some of them several times.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    ran: Vec<Timing>,
    /// Per node, twice the number of recurrences before it, plus one if it is part of the next; nothing where nothing
    /// recurs.
    places: Vec<u8>,
    again: Vec<Again>,
}

/// A stretch of a step that is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Again {
    pub(crate) span: Span,
    /// How often, besides the first time.
    pub(crate) times: u32,
    /// Micro-batches in it.
    pub(crate) micro_batches: u32,
}

impl Again {
    const NEVER: Self = Self { span: Span::ZERO, times: 0, micro_batches: 0 };

    fn in_all(self) -> Span {
        self.span * u64::from(self.times)
    }
}

impl From<Vec<Timing>> for Course {
    fn from(ran: Vec<Timing>) -> Self {
        Self { ran, places: Vec::new(), again: Vec::new() }
    }
}

impl Course {
    /// `more` periods of the programs, of `period` micro-batches, are added to what was run in each of its steps, a
    /// multiple of those of each recurrence.
    pub(crate) fn repeating(
        ran: Vec<Timing>,
        found: &[Recurrence],
        chains: &[Chain],
        (more, period): (u32, u32),
    ) -> Self {
        let mut places = vec![u8::MAX; ran.len()];
        for node in chains.iter().flat_map(|chain| &chain.nodes) {
            places[*node as usize] = 0;
        }
        assert!(!places.contains(&u8::MAX), "whoever takes part in a task of its stage has it in a chain");
        for (step, recurrence) in (0u8..).zip(found) {
            for ((chain, first), second) in chains.iter().zip(&recurrence.first).zip(&recurrence.second) {
                for (place, node) in (0..).zip(&chain.nodes).skip(*first as usize) {
                    places[*node as usize] = 2 * step + if place < *second { 1 } else { 2 };
                }
            }
        }
        let again = |found: &Recurrence| Again {
            span: found.span,
            times: more / found.periods,
            micro_batches: found.periods * period,
        };
        Self { ran, places, again: found.iter().map(again).collect() }
    }

    /// When a node ran for the last time.
    pub(crate) fn last(&self, node: u32) -> Timing {
        let shift: Span = self.again[..self.place(node).div_ceil(2)].iter().map(|again| again.in_all()).sum();
        self.shifted(node, shift)
    }

    /// When a node ran for the first time, and how often it did so again.
    pub(crate) fn first(&self, node: u32) -> (Timing, Again) {
        let place = self.place(node);
        let shift: Span = self.again[..place / 2].iter().map(|again| again.in_all()).sum();
        let again = if place.is_multiple_of(2) { Again::NEVER } else { self.again[place / 2] };
        (self.shifted(node, shift), again)
    }

    /// Micro-batches that were left out before a node.
    pub(crate) fn left_out_before(&self, node: u32) -> u32 {
        self.again[..self.place(node) / 2].iter().map(|again| again.times * again.micro_batches).sum()
    }

    /// Every time that a node ran.
    pub(crate) fn all(&self, node: u32) -> impl Iterator<Item = Timing> {
        let (Timing { start, end }, again) = self.first(node);
        (0..=again.times).map(move |time| {
            let later = again.span * u64::from(time);
            Timing { start: start.after_span(later), end: end.after_span(later) }
        })
    }

    /// The latest end of all.
    pub(crate) fn end(&self) -> Option<Instant> {
        (0..self.ran.len() as u32).map(|node| self.last(node).end).max()
    }

    /// Which stretch a node is in.
    pub(crate) fn place(&self, node: u32) -> usize {
        self.places.get(node as usize).copied().map_or(0, usize::from)
    }

    fn shifted(&self, node: u32, shift: Span) -> Timing {
        let Timing { start, end } = self.ran[node as usize];
        Timing { start: start.after_span(shift), end: end.after_span(shift) }
    }
}
