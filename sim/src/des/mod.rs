//! The event kernel: a queue of things that will happen, in a total order. It knows no training word.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use trainyard_units::Instant;

/// Future events, earliest first; events of one instant come in the order of their keys, never of their arrival.
///
/// A binary heap of (time, key): the two fit into 16 bytes, so that a comparison touches one cache line.
#[derive(Clone, Debug, Default)]
pub struct EventQueue {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl EventQueue {
    /// An empty queue with room for this many events.
    pub fn with_capacity(events: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(events) }
    }

    /// Adds an event.
    pub fn schedule(&mut self, at: Instant, key: u32) {
        self.heap.push(Reverse((at, key)));
    }

    /// Takes out all events of the next instant, in the order of their keys, and appends the keys to `keys`.
    /// Nothing if no event is left.
    pub fn next_instant(&mut self, keys: &mut Vec<u32>) -> Option<Instant> {
        let Reverse((now, key)) = self.heap.pop()?;
        keys.push(key);
        while let Some(Reverse((at, key))) = self.heap.peek().copied() {
            if at != now {
                break;
            }
            self.heap.pop();
            keys.push(key);
        }
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_in_order_of_time_then_key(events in prop::collection::vec((0u64..20, 0u32..1000), 0..200)) {
            let mut queue = EventQueue::default();
            for (at, key) in &events {
                queue.schedule(Instant::from_nanoseconds(*at), *key);
            }
            let mut sorted = events.clone();
            sorted.sort_unstable();
            let mut taken = Vec::new();
            let mut keys = Vec::new();
            while let Some(now) = queue.next_instant(&mut keys) {
                taken.extend(keys.drain(..).map(|key| (now.nanoseconds(), key)));
            }
            prop_assert_eq!(taken, sorted);
        }
    }
}
