//! The global batches that a job allows, and those of them that are tried.

/// A global batch, or a range of them: samples of an optimizer step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalBatches {
    min: u64,
    max: u64,
}

impl GlobalBatches {
    /// Returns the range with these ends, which must be at least 1 and ascend.
    pub(crate) const fn between(min: u64, max: u64) -> Self {
        Self { min, max }
    }

    /// Returns a single batch, which must be at least 1.
    pub(crate) const fn exactly(samples: u64) -> Self {
        Self::between(samples, samples)
    }

    /// Returns the smallest batch.
    pub fn min(self) -> u64 {
        self.min
    }

    /// Returns the largest batch.
    pub fn max(self) -> u64 {
        self.max
    }

    /// Returns `true` if there is a choice.
    pub fn are_open(self) -> bool {
        self.min < self.max
    }

    pub(crate) fn allow(self, batch: u64) -> bool {
        (self.min..=self.max).contains(&batch)
    }

    /// Lists the batches that people would try first: the smallest one and doublings of it.
    pub(crate) fn usual(self) -> Vec<u64> {
        self.doublings(self.min)
    }

    pub(crate) fn is_usual(self, batch: u64) -> bool {
        self.allow(batch) && batch.is_multiple_of(self.min) && (batch / self.min).is_power_of_two()
    }

    /// Lists the batches that so many replicas share evenly: usual ones, or, if there are none, doublings of the replicas' odd
    /// part, 3 of 24. So 24 replicas of a range from 64 to 4,096 get 96, 192, … and 3,072 samples.
    pub(crate) fn over(self, replicas: u64) -> Vec<u64> {
        let even = |all: Vec<u64>| -> Vec<u64> { all.into_iter().filter(|own| own.is_multiple_of(replicas)).collect() };
        let usual = even(self.usual());
        if usual.is_empty() { even(self.doublings(odd_part(replicas))) } else { usual }
    }

    /// Lists the batches that are this one's doublings and halves, itself included, if it is in the range.
    pub(crate) fn like(self, batch: u64) -> Vec<u64> {
        if self.is_usual(batch) { self.usual() } else { self.doublings(odd_part(batch)) }
    }

    fn doublings(self, first: u64) -> Vec<u64> {
        let all = std::iter::successors(Some(first), |batch| batch.checked_mul(2));
        all.skip_while(|batch| *batch < self.min).take_while(|batch| *batch <= self.max).collect()
    }
}

/// Returns what is left of a number, which must not be 0, when it is halved as often as it can be.
fn odd_part(number: u64) -> u64 {
    number >> number.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_tried_at_its_lower_end_and_doublings_and_where_these_divide_nothing_at_others() {
        let range = GlobalBatches::between(64, 1000);
        assert_eq!(range.usual(), [64, 128, 256, 512]);
        assert_eq!(range.over(8), [64, 128, 256, 512]);
        assert_eq!(range.over(256), [256, 512]);
        assert_eq!(range.over(24), [96, 192, 384, 768]);
        assert_eq!(range.over(40), [80, 160, 320, 640]);
        assert_eq!(range.over(56), [112, 224, 448, 896]);
        assert_eq!(range.over(1024), [0; 0]);
        assert_eq!(range.like(384), range.over(24));
        assert_eq!(range.like(128), range.usual());
        // A range that begins elsewhere goes on from there.
        assert_eq!(GlobalBatches::between(96, 800).over(24), [96, 192, 384, 768]);
        assert_eq!(GlobalBatches::between(100, 500).over(8), [200, 400]);
    }

    #[test]
    fn a_single_batch_is_the_only_one() {
        let one = GlobalBatches::exactly(96);
        assert!(!one.are_open() && one.allow(96) && !one.allow(192));
        assert_eq!((one.usual(), one.over(24), one.over(64)), (vec![96], vec![96], vec![]));
    }
}
