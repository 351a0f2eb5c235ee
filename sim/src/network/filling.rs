//! Progressive filling: all rates of a component rise together, and freeze where a link fills up or a limit is reached.

use super::{Graph, Operation};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// The state of a computation of rates, kept from one to the next for its memory.
///
/// Rounds take the next level from a heap and a sorted list, so that a component of E uses costs E log E however many
/// levels it has.
#[derive(Clone, Debug, Default)]
pub(super) struct Filling {
    /// The number of this computation: links and users that carry it have been reached.
    number: u64,
    links: Vec<LinkState>,
    operations: Vec<OperationState>,
    /// Slots of the component at hand.
    component: Vec<u32>,
    /// Links of the component at hand.
    component_links: Vec<u32>,
    /// The level at which each link fills up, as [`ordered`], lowest first. An entry may be out of date, and is then
    /// too low, because levels only rise.
    levels: BinaryHeap<Reverse<(u64, u32)>>,
    /// Limit, as [`ordered`], and slot of each operation that has a finite one; the lowest last.
    limits: Vec<(u64, u32)>,
    /// Links on which something froze in the round at hand.
    touched: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct LinkState {
    reached: u64,
    /// Flows that have not frozen.
    rising: f64,
    /// Flows that freeze in the round at hand.
    freezing: f64,
    /// Bytes per second that frozen flows take.
    taken: f64,
    /// The rate of rising flows at which the link is full.
    level: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OperationState {
    reached: u64,
    is_frozen: bool,
}

/// Bits in the order of the numbers, for those that are not negative.
fn ordered(number: f64) -> u64 {
    number.to_bits()
}

impl Filling {
    pub(super) fn new(links: usize) -> Self {
        Self { links: vec![LinkState::default(); links], ..Self::default() }
    }

    /// Begins a computation with this many slots of operations. No component has been reached.
    pub(super) fn begin(&mut self, operations: usize) {
        self.number += 1;
        self.operations.resize(operations, OperationState::default());
    }

    /// Computes the rates of the component around an operation, unless it was reached already, and appends the changed
    /// ones, in no particular order.
    pub(super) fn fill_around(&mut self, graph: &Graph, slot: u32, rates: &mut [f64], changed: &mut Vec<(u32, f64)>) {
        if self.operations[slot as usize].reached == self.number {
            return;
        }
        let mut report = |slot: u32, rate: f64| {
            let known = &mut rates[slot as usize];
            if known.to_bits() != rate.to_bits() {
                *known = rate;
                changed.push((graph.operations[slot as usize].id, rate));
            }
        };
        let operation = &graph.operations[slot as usize];
        if let Some(rate) = rate_if_alone(graph, operation) {
            self.operations[slot as usize].reached = self.number;
            return report(slot, rate);
        }
        self.reach_component(graph, slot);
        self.prepare(graph);
        while let Some(level) = self.next_level() {
            self.freeze_at(graph, level, &mut report);
        }
        for slot in &self.component {
            // What neither a link nor a limit holds back.
            if !self.operations[*slot as usize].is_frozen {
                report(*slot, f64::INFINITY);
            }
        }
    }

    /// Collects the operations and links that are connected with an operation.
    fn reach_component(&mut self, graph: &Graph, slot: u32) {
        let number = self.number;
        let Self { operations, links, component, component_links, .. } = self;
        component.clear();
        component_links.clear();
        let mut reach = |slot: u32, component: &mut Vec<u32>| {
            let state = &mut operations[slot as usize];
            if state.reached != number {
                *state = OperationState { reached: number, is_frozen: false };
                component.push(slot);
            }
        };
        reach(slot, component);
        let mut next = 0;
        while let Some(slot) = component.get(next).copied() {
            next += 1;
            for used in &graph.operations[slot as usize].uses {
                let state = &mut links[used.link as usize];
                if state.reached == number {
                    continue;
                }
                state.reached = number;
                component_links.push(used.link);
                for user in &graph.links[used.link as usize].users {
                    reach(user.slot, component);
                }
            }
        }
    }

    /// Sets the component at hand to rates of zero.
    fn prepare(&mut self, graph: &Graph) {
        let Self { links, component, component_links, levels, limits, .. } = self;
        levels.clear();
        levels.extend(component_links.iter().filter_map(|id| {
            let link = &graph.links[*id as usize];
            let level = link.capacity / link.flows;
            let reached = links[*id as usize].reached;
            links[*id as usize] = LinkState { reached, rising: link.flows, freezing: 0.0, taken: 0.0, level };
            level.is_finite().then(|| Reverse((ordered(level), *id)))
        }));
        limits.clear();
        limits.extend(component.iter().filter_map(|slot| {
            let limit = graph.operations[*slot as usize].limit;
            limit.is_finite().then(|| (ordered(limit), *slot))
        }));
        limits.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// The lowest finite level at which a link of rising flows fills up or a rising operation reaches its limit.
    fn next_level(&mut self) -> Option<f64> {
        while let Some(mut lowest) = self.levels.peek_mut() {
            let Reverse((known, link)) = *lowest;
            let state = &self.links[link as usize];
            if state.rising == 0.0 {
                PeekMut::pop(lowest);
            } else if known == ordered(state.level) {
                break;
            } else {
                *lowest = Reverse((ordered(state.level), link));
            }
        }
        while self.limits.pop_if(|(_, slot)| self.operations[*slot as usize].is_frozen).is_some() {}
        let level = self.levels.peek().map(|Reverse((level, _))| *level);
        let limit = self.limits.last().map(|(limit, _)| *limit);
        level.into_iter().chain(limit).min().map(f64::from_bits)
    }

    /// A round: freezes, at the next level, what is on links that are full there or has its limit there.
    fn freeze_at(&mut self, graph: &Graph, level: f64, report: &mut impl FnMut(u32, f64)) {
        while let Some((_, slot)) = self.limits.pop_if(|(limit, _)| *limit <= ordered(level)) {
            self.freeze(&graph.operations[slot as usize], slot, level, report);
        }
        while let Some(Reverse((known, link))) = self.levels.peek().copied() {
            if known > ordered(level) {
                break;
            }
            self.levels.pop();
            let full_at = self.links[link as usize].level;
            if full_at > level {
                self.levels.push(Reverse((ordered(full_at), link)));
                continue;
            }
            for user in &graph.links[link as usize].users {
                self.freeze(&graph.operations[user.slot as usize], user.slot, level, report);
            }
        }
        // Only now, so that which links are full does not depend on the order in which they were looked at.
        for link in self.touched.drain(..) {
            self.links[link as usize].end_round(graph.links[link as usize].capacity, level);
        }
    }

    /// Freezes an operation, unless it is frozen.
    fn freeze(&mut self, operation: &Operation, slot: u32, level: f64, report: &mut impl FnMut(u32, f64)) {
        if std::mem::replace(&mut self.operations[slot as usize].is_frozen, true) {
            return;
        }
        report(slot, level);
        for used in &operation.uses {
            let state = &mut self.links[used.link as usize];
            if state.freezing == 0.0 {
                self.touched.push(used.link);
            }
            state.freezing += used.flows;
        }
    }
}

impl LinkState {
    /// Accounts for the flows that froze at `level`, and finds the level at which the others fill the link.
    fn end_round(&mut self, capacity: f64, level: f64) {
        self.taken += level * self.freezing;
        self.rising -= self.freezing;
        self.freezing = 0.0;
        if self.rising > 0.0 {
            self.level = self.level.max((capacity - self.taken) / self.rising);
        }
    }
}

/// The rate of an operation that shares no link, by the arithmetic of the first round.
fn rate_if_alone(graph: &Graph, operation: &Operation) -> Option<f64> {
    let mut rate = operation.limit;
    for used in &operation.uses {
        let link = &graph.links[used.link as usize];
        if link.users.len() > 1 {
            return None;
        }
        rate = rate.min(link.capacity / used.flows);
    }
    Some(rate)
}
