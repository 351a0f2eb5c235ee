//! Ranks that compute longer than others with the same work: a hot processor, a busy neighbour, a failing part.

use crate::report::{RankReport, SlowRank};
use std::collections::BTreeMap;

/// The factor by which a slow rank computes longer than its peers.
const SLOWER: f64 = 1.25;
/// And at least so many seconds of a step: the system's scheduling alone makes less of a difference.
const SECONDS_MIN: f64 = 2e-3;

/// Returns the slow ones among `ranks`, by number. Stages differ in their work, so that only ranks of one stage are
/// compared; a stage with a single rank has nothing to be compared with.
pub(crate) fn slow_ranks(ranks: &[RankReport]) -> Vec<SlowRank> {
    let compute = |rank: &RankReport| rank.phases.forward_s + rank.phases.backward_s + rank.phases.optimizer_s;
    let mut stages: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for rank in ranks {
        stages.entry(rank.stage).or_default().push(compute(rank));
    }
    for times in stages.values_mut() {
        times.sort_by(f64::total_cmp);
    }
    // The lower of two middle ones: of two ranks, the faster shows what the work takes.
    let median = |stage: u32| stages[&stage][(stages[&stage].len() - 1) / 2];
    let slow = |rank: &RankReport| {
        let (compute_s, median_s) = (compute(rank), median(rank.stage));
        let is_slow = compute_s > SLOWER * median_s && compute_s - median_s > SECONDS_MIN;
        is_slow.then_some(SlowRank { rank: rank.rank, stage: rank.stage, compute_s, median_s })
    };
    ranks.iter().filter_map(slow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::document::Phases;

    /// Ranks by stage and seconds of forward; they wait as long as the slowest takes.
    fn ranks(times: &[(u32, f64)]) -> Vec<RankReport> {
        let report = |(rank, (stage, forward_s)): (usize, &(u32, f64))| RankReport {
            rank: rank as u32,
            stage: *stage,
            replica: 0,
            phases: Phases { forward_s: *forward_s, communication_s: 9.0, ..Phases::default() },
        };
        times.iter().enumerate().map(report).collect()
    }

    fn slow(times: &[(u32, f64)]) -> Vec<u32> {
        slow_ranks(&ranks(times)).iter().map(|slow| slow.rank).collect()
    }

    #[test]
    fn ranks_with_the_same_work_are_compared() {
        assert_eq!(slow(&[(0, 0.1), (0, 0.11), (0, 0.3), (0, 0.1)]), [2]);
        assert_eq!(slow(&[(0, 0.1), (0, 0.13)]), [1]);
        assert!(slow(&[(0, 0.1), (0, 0.12)]).is_empty());
        // A longer stage is not a slow rank.
        assert!(slow(&[(0, 0.1), (1, 0.3), (0, 0.1), (1, 0.3)]).is_empty());
        assert!(slow(&[(0, 0.1), (1, 0.9)]).is_empty());
        assert!(slow(&[]).is_empty());
    }

    #[test]
    fn what_scheduling_makes_is_not_slowness() {
        assert!(slow(&[(0, 0.001), (0, 0.002)]).is_empty());
        let found = slow_ranks(&ranks(&[(3, 0.010), (3, 0.020)]));
        assert_eq!(found, [SlowRank { rank: 1, stage: 3, compute_s: 0.020, median_s: 0.010 }]);
    }
}
