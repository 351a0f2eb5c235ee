//! Values in ascending order, sorted only as far as they are asked for: a search asks for few of many.

/// Number of values that are sorted at first, and the factor by which it grows each time they are used up.
const FIRST: usize = 1024;

const GROWTH: usize = 4;

/// An iterator over numbered values, the least first; of equal values the least number first.
#[derive(Debug)]
pub(crate) struct Ranked {
    /// The least of all, in descending order.
    sorted: Vec<(f64, u32)>,
    /// The others.
    rest: Vec<(f64, u32)>,
    next: usize,
}

impl Ranked {
    pub(crate) fn new(all: Vec<(f64, u32)>) -> Self {
        Self { sorted: Vec::new(), rest: all, next: FIRST }
    }
}

impl Iterator for Ranked {
    type Item = (f64, u32);

    fn next(&mut self) -> Option<Self::Item> {
        if self.sorted.is_empty() && !self.rest.is_empty() {
            let descending = |a: &(f64, u32), b: &(f64, u32)| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1));
            let larger = self.rest.len().saturating_sub(self.next);
            if larger > 0 {
                self.rest.select_nth_unstable_by(larger, descending);
            }
            self.sorted = self.rest.split_off(larger);
            self.sorted.sort_unstable_by(descending);
            self.next *= GROWTH;
        }
        self.sorted.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_sorting_all(values in prop::collection::vec(0u32..500, 0..6000)) {
            let all: Vec<(f64, u32)> = values.iter().map(|value| f64::from(*value)).zip(0..).collect();
            let mut sorted = all.clone();
            sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
            prop_assert_eq!(Ranked::new(all).collect::<Vec<_>>(), sorted);
        }
    }
}
