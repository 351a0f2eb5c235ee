//! The event kernel: a queue of things that will happen, in a total order. It knows no training word.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use trainyard_units::Instant;

/// Bits of a digit of time, which decides between the buckets of a level.
const DIGIT_BITS: u32 = 5;

/// Buckets of a level.
const DIGITS: usize = 1 << DIGIT_BITS;

/// Levels: digits of 64 bits of nanoseconds.
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;

/// A bucket with at most this many events is sorted; a fuller one is spread over the buckets below. Measured: 16 and
/// 64 are no better, and digits of 4 and 6 bits neither.
const SORTED_MAX: usize = 32;

type Event = (Instant, u32);

/// Future events, earliest first; events of one instant come in the order of their keys, never of their arrival.
///
/// Simulated time never goes back, so the queue is monotone: nothing may be scheduled before the instant last taken.
/// That allows a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, "Faster Algorithms for the Shortest Path Problem", 1990):
/// an event waits in the bucket of the highest digit in which its time differs from a base at or before the next
/// event, and moves to lower ones as the base approaches. Small buckets are sorted instead of spread further, as in a
/// ladder queue, and a binary heap takes what is scheduled into the range of the sorted bucket, so that no pattern of
/// events costs more than a logarithm. In the hold model it takes 0.7 of the time of a binary heap with 1 k pending
/// events, 0.4 with 64 k, a tenth with 1 M, and the same with 16. A heap with four children takes 0.7 to 0.9 from 1 k
/// on; a radix heap down to single nanoseconds takes 1.2 below and 0.6 at 64 k.
///
/// # Cancelling and moving events
///
/// Nothing is removed from the queue. Who schedules keeps the instant at which each key is due, and takes an event
/// whose key is due at another instant for stale. To move an event is to change its due instant and to schedule it
/// again; to cancel it is to make nothing due. A key that was moved away and back appears twice in a row at its
/// instant; marking it as no longer due when it is handled takes care of that, too.
///
/// ```
/// use trainyard_sim::des::EventQueue;
/// use trainyard_units::Instant;
///
/// let at = Instant::from_nanoseconds;
/// let mut queue = EventQueue::with_capacity(2);
/// let mut due = [Some(at(10)), Some(at(20))];
/// queue.schedule(at(10), 0);
/// queue.schedule(at(20), 1);
/// due[0] = Some(at(30)); // slowed down
/// queue.schedule(at(30), 0);
///
/// let (mut keys, mut happened) = (Vec::new(), Vec::new());
/// while let Some(now) = queue.next_instant(&mut keys) {
///     for key in keys.drain(..) {
///         if due[key as usize].take_if(|due| *due == now).is_some() {
///             happened.push((now.nanoseconds(), key));
///         }
///     }
/// }
/// assert_eq!(happened, [(20, 1), (30, 0)]);
/// ```
#[derive(Clone, Debug)]
pub struct EventQueue {
    /// The instant last taken.
    now: Instant,
    /// The last nanosecond that `sorted` and `arrivals` cover. What comes later is in `buckets`.
    horizon: u64,
    /// The nanosecond relative to which `buckets` are numbered: at or before `horizon`, and after all earlier bases.
    base: u64,
    /// Events of the earliest bucket, latest first.
    sorted: Vec<Event>,
    /// Events scheduled up to the horizon since then.
    arrivals: BinaryHeap<Reverse<Event>>,
    /// `DIGITS` buckets for each of `LEVELS`, lowest level first. Those of a level all have the digits of the base
    /// above that level and a higher digit in it, so the first that is not empty holds the next events.
    buckets: Vec<Vec<Event>>,
    /// For each level, a bit for each bucket that is not empty.
    occupied: [u32; LEVELS],
    /// A bit for each level that is not empty.
    levels: u32,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl EventQueue {
    /// An empty queue at the start of time, with room for this many events at its first instant. Everything else grows
    /// as it is used and keeps its room.
    pub fn with_capacity(events: usize) -> Self {
        Self {
            now: Instant::START,
            horizon: 0,
            base: 0,
            sorted: Vec::new(),
            arrivals: BinaryHeap::with_capacity(events),
            buckets: vec![Vec::new(); LEVELS * DIGITS],
            occupied: [0; LEVELS],
            levels: 0,
        }
    }

    /// Adds an event. It must not be before the instant last taken: an event in the past is a bug of the caller, which
    /// is looked for only in builds with debug assertions and otherwise leaves the order undefined.
    #[inline]
    pub fn schedule(&mut self, at: Instant, key: u32) {
        debug_assert!(at >= self.now, "time runs forward: {at:?} is before {:?}", self.now);
        if at.nanoseconds() <= self.horizon {
            self.arrivals.push(Reverse((at, key)));
        } else {
            self.put((at, key));
        }
    }

    /// Takes out all events of the next instant, in the order of their keys, and appends the keys to `keys`.
    /// Nothing if no event is left.
    #[inline]
    pub fn next_instant(&mut self, keys: &mut Vec<u32>) -> Option<Instant> {
        if self.sorted.is_empty() && self.arrivals.is_empty() {
            self.refill()?;
        }
        let (sorted, arrived) = (self.sorted.last(), self.arrivals.peek());
        let now = match (sorted, arrived) {
            (Some((at, _)), Some(Reverse((arrived, _)))) => *at.min(arrived),
            (Some((at, _)), None) | (None, Some(Reverse((at, _)))) => *at,
            (None, None) => return None,
        };
        let first = keys.len();
        while let Some((_, key)) = self.sorted.pop_if(|(at, _)| *at == now) {
            keys.push(key);
        }
        if self.arrivals.peek().is_some_and(|Reverse((at, _))| *at == now) {
            self.take_arrivals(now, keys);
            keys[first..].sort_unstable();
        }
        self.now = now;
        Some(now)
    }

    /// Takes out all arrivals of this instant, the earliest.
    fn take_arrivals(&mut self, now: Instant, keys: &mut Vec<u32>) {
        while let Some(Reverse((at, key))) = self.arrivals.peek().copied() {
            if at != now {
                break;
            }
            self.arrivals.pop();
            keys.push(key);
        }
    }

    /// Puts an event after the horizon into its bucket.
    #[inline]
    fn put(&mut self, event: Event) {
        let at = event.0.nanoseconds();
        let level = (at ^ self.base).ilog2() / DIGIT_BITS;
        let digit = (at >> (level * DIGIT_BITS)) as usize % DIGITS;
        self.levels |= 1 << level;
        self.occupied[level as usize] |= 1 << digit;
        self.buckets[level as usize * DIGITS + digit].push(event);
    }

    /// Moves the horizon over the earliest bucket, or over its earliest instant if the bucket is a full one, and sorts
    /// what is up to there. Nothing if all buckets are empty.
    fn refill(&mut self) -> Option<()> {
        let (level, bucket) = self.take_earliest_bucket()?;
        let within = (1 << (level * DIGIT_BITS)) - 1;
        if within == 0 || self.buckets[bucket].len() <= SORTED_MAX {
            std::mem::swap(&mut self.sorted, &mut self.buckets[bucket]);
            self.base = self.sorted[0].0.nanoseconds() & !within;
            self.horizon = self.base | within;
        } else {
            let mut events = std::mem::take(&mut self.buckets[bucket]);
            let earliest = events.iter().map(|(at, _)| *at).min()?;
            self.base = earliest.nanoseconds();
            self.horizon = self.base;
            for event in events.drain(..) {
                if event.0 == earliest {
                    self.sorted.push(event);
                } else {
                    self.put(event);
                }
            }
            self.buckets[bucket] = events;
        }
        self.sorted.sort_unstable_by(|a, b| b.cmp(a));
        Some(())
    }

    /// Level and index of the earliest bucket that is not empty, which is marked as empty.
    fn take_earliest_bucket(&mut self) -> Option<(u32, usize)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros();
        let occupied = &mut self.occupied[level as usize];
        let digit = occupied.trailing_zeros() as usize;
        *occupied &= *occupied - 1;
        if *occupied == 0 {
            self.levels &= self.levels - 1;
        }
        Some((level, level as usize * DIGITS + digit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The oracle: the same interface over the standard library's heap.
    #[derive(Default)]
    struct Twin(BinaryHeap<Reverse<Event>>);

    impl Twin {
        fn next_instant(&mut self) -> Option<(Instant, Vec<u32>)> {
            let Reverse((now, _)) = *self.0.peek()?;
            let mut keys = Vec::new();
            while let Some(Reverse((at, key))) = self.0.peek().copied() {
                if at != now {
                    break;
                }
                self.0.pop();
                keys.push(key);
            }
            Some((now, keys))
        }
    }

    /// Delays of events: ties, neighbours, every power of two, far beyond any simulation.
    fn delay() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), 0u64..4, 0u64..200, (0u32..62, 0u64..16).prop_map(|(bits, more)| (1 << bits) + more)]
    }

    /// Rounds of how many instants to take and what to schedule then.
    fn rounds() -> impl Strategy<Value = Vec<(usize, Vec<(u64, u32)>)>> {
        prop::collection::vec((0usize..40, prop::collection::vec((delay(), 0u32..50), 0..120)), 1..12)
    }

    proptest! {
        #[test]
        fn events_come_as_from_a_binary_heap(rounds in rounds()) {
            let (mut queue, mut twin) = (EventQueue::with_capacity(3), Twin::default());
            let (mut now, mut keys) = (Instant::START, Vec::new());
            let drain = (usize::MAX, Vec::new());
            for (instants, events) in rounds.into_iter().chain([drain]) {
                for (delay, key) in events {
                    let at = Instant::from_nanoseconds(now.nanoseconds().saturating_add(delay));
                    queue.schedule(at, key);
                    twin.0.push(Reverse((at, key)));
                }
                for _ in 0..instants {
                    let taken = queue.next_instant(&mut keys).map(|at| (at, std::mem::take(&mut keys)));
                    prop_assert_eq!(&taken, &twin.next_instant());
                    let Some((at, _)) = taken else { break };
                    now = at;
                }
            }
        }
    }

    #[test]
    fn keys_are_appended_and_an_empty_queue_leaves_them() {
        let mut queue = EventQueue::default();
        let mut keys = vec![7];
        queue.schedule(Instant::START, 2);
        queue.schedule(Instant::START, 1);
        assert_eq!(queue.next_instant(&mut keys), Some(Instant::START));
        assert_eq!(queue.next_instant(&mut keys), None);
        assert_eq!(keys, [7, 1, 2]);
    }

    #[test]
    fn the_last_nanosecond_of_the_clock_can_be_scheduled() {
        let end = Instant::from_nanoseconds(u64::MAX);
        let mut queue = EventQueue::default();
        let mut keys = Vec::new();
        for key in (0..100).rev() {
            queue.schedule(end, key);
        }
        assert_eq!(queue.next_instant(&mut keys), Some(end));
        assert_eq!(keys, (0..100).collect::<Vec<_>>());
    }
}
