//! Time of kernels on the critical path, by what it is spent on.

use super::Spread;
use crate::cost::{Costs, LayerCost, LayerWaits};
use crate::machine::{Machine, MachineError};
use std::collections::BTreeMap;
use trainyard_plan::{Activity, PathKind, Recompute, Segment, StagePass, TaskGraph, Work};
use trainyard_units::Seconds;

/// Seconds by kind, and whether they go between machines.
type Parts = Vec<((PathKind, bool), f64)>;

/// Splits kernels by what they are spent on.
pub(super) struct Kernels<'a> {
    graph: &'a TaskGraph,
    costs: &'a Costs<'a>,
    /// The same if a kernel were launched in no time.
    without_launches: &'a Costs<'a>,
    /// Host time once a step.
    step_overhead: Seconds,
    /// The groups that stand on several machines.
    spread: Spread,
    known: BTreeMap<(Work, usize), Parts>,
}

impl<'a> Kernels<'a> {
    pub(super) fn new(
        graph: &'a TaskGraph,
        machine: &Machine,
        costs: &'a Costs<'a>,
        without_launches: &'a Costs<'a>,
        spread: Spread,
    ) -> Self {
        let step_overhead = machine.stack.step_overhead.value;
        Self { graph, costs, without_launches, step_overhead, spread, known: BTreeMap::new() }
    }

    /// The parts of a work's kernels on one kind of machine.
    pub(super) fn parts(&mut self, work: Work, pool: usize) -> Result<Parts, MachineError> {
        if let Some(known) = self.known.get(&(work, pool)) {
            return Ok(known.clone());
        }
        let parts = match work {
            Work::Compute(segment) => self.segment(&self.graph.segments()[segment.0 as usize], pool)?,
            _ => self.update(work, pool)?,
        };
        self.known.insert((work, pool), parts.clone());
        Ok(parts)
    }

    fn segment(&self, segment: &Segment, pool: usize) -> Result<Parts, MachineError> {
        let mut sum = Split::default();
        let mut launches = 0.0;
        for index in segment.layers.clone() {
            let whole = Split::of(self.costs.layer(pool, index), segment.pass, segment.recompute);
            let quick = Split::of(self.without_launches.layer(pool, index), segment.pass, segment.recompute);
            launches += (whole.kernels() - quick.kernels()).0.max(0.0);
            sum = Split {
                pass: sum.pass + quick.pass,
                again: sum.again + quick.again,
                inside: sum.inside + whole.inside,
            };
        }
        // Besides the layers, a pass adds its gradients to those of the micro-batches before it.
        let adding = self.costs.segment(segment, pool)?.0 - (sum.kernels() + sum.inside.total()).0 - launches;
        let (pass, adding) = match segment.pass {
            StagePass::Forward => (PathKind::Forward, 0.0),
            _ => (PathKind::Backward, adding.max(0.0)),
        };
        let [within, apart] = sum.by_place(self.spread);
        Ok(vec![
            ((pass, false), sum.pass.0 + adding),
            ((PathKind::Recompute, false), sum.again.0),
            ((PathKind::Launches, false), launches),
            ((PathKind::LayerCollectives, false), within.0),
            ((PathKind::LayerCollectives, true), apart.0),
        ])
    }

    fn update(&self, work: Work, pool: usize) -> Result<Parts, MachineError> {
        let seconds = |costs: &Costs<'_>| costs.kernels(self.graph, work, pool).map(Option::unwrap_or_default);
        let (whole, quick) = (seconds(self.costs)?, seconds(self.without_launches)?);
        let update = (quick - self.step_overhead).max(Seconds::ZERO);
        Ok(vec![((PathKind::Update, false), update.0), ((PathKind::Launches, false), (whole - update).0)])
    }
}

/// A pass through a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Split {
    /// Kernels of the pass itself.
    pass: Seconds,
    /// Kernels of what is computed again.
    again: Seconds,
    /// Waiting for other ranks between them.
    inside: LayerWaits,
}

impl Split {
    /// The parts of [`LayerCost::pass`].
    fn of(price: LayerCost, pass: StagePass, recompute: Recompute) -> Self {
        let (again, inside_again) = match recompute {
            Recompute::Full if price.recomputed => (price.forward, price.inside_forward),
            Recompute::Selective if price.recomputed => (price.core, LayerWaits::default()),
            _ => (Seconds::ZERO, LayerWaits::default()),
        };
        let inside = price.inside_backward + inside_again;
        match pass {
            StagePass::Forward => Self { pass: price.forward, again: Seconds::ZERO, inside: price.inside_forward },
            StagePass::Backward => Self { pass: price.backward, again, inside },
            StagePass::BackwardInput => Self { pass: price.backward * (1.0 - price.weights_share), again, inside },
            StagePass::BackwardWeight => Self { pass: price.backward * price.weights_share, ..Self::default() },
        }
    }

    fn kernels(self) -> Seconds {
        self.pass + self.again
    }

    /// Waiting inside machines, and for groups that stand on several.
    fn by_place(self, spread: Spread) -> [Seconds; 2] {
        let LayerWaits { tensor, expert, context } = self.inside;
        let mut sums = [Seconds::ZERO; 2];
        for (time, apart) in [(tensor, spread.tensor), (expert, spread.expert), (context, spread.context)] {
            let sum = &mut sums[usize::from(apart)];
            *sum += time;
        }
        sums
    }
}

/// The kind of path that a task is which only moves data, or works on the machine's processor.
pub(super) fn kind_of_communication(activity: Activity) -> PathKind {
    match activity {
        Activity::SendActivations { .. } | Activity::SendGradients { .. } => PathKind::Transfers,
        Activity::ReduceGradients { .. } | Activity::ReduceShared => PathKind::GradientReduction,
        Activity::GatherWeights { .. } => PathKind::WeightGathering,
        Activity::Copy { .. } => PathKind::HostCopies,
        Activity::Update { .. } => PathKind::Update,
        Activity::Message { .. } | Activity::Wait { .. } => unreachable!("only measured ranks have them"),
        Activity::Forward { .. } => PathKind::Forward,
        Activity::Backward { .. } | Activity::BackwardWeights { .. } => PathKind::Backward,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each group's collectives go where its own ranks stand.
    #[test]
    fn only_groups_on_several_machines_communicate_between_them() {
        let inside = LayerWaits { tensor: Seconds(1.0), expert: Seconds(2.0), context: Seconds(4.0) };
        let split = Split { inside, ..Split::default() };
        let none = Spread { tensor: false, context: false, expert: false, pipeline: true, gradient: true };
        let told = |spread| split.by_place(spread).map(|time| time.0);
        assert_eq!(told(none).map(f64::to_bits), [7.0, 0.0].map(f64::to_bits));
        assert_eq!(told(Spread { context: true, ..none }).map(f64::to_bits), [3.0, 4.0].map(f64::to_bits));
        let most = Spread { tensor: true, expert: true, ..none };
        assert_eq!(told(most).map(f64::to_bits), [4.0, 3.0].map(f64::to_bits));
    }

    #[test]
    fn the_parts_of_a_pass_are_the_pass() {
        let price = LayerCost {
            forward: Seconds(3.0),
            backward: Seconds(8.0),
            weights_share: 0.375,
            core: Seconds(1.0),
            inside_forward: LayerWaits { tensor: Seconds(0.5), ..LayerWaits::default() },
            inside_backward: LayerWaits { context: Seconds(0.25), ..LayerWaits::default() },
            recomputed: true,
        };
        let passes = [StagePass::Forward, StagePass::Backward, StagePass::BackwardInput, StagePass::BackwardWeight];
        for pass in passes {
            for recompute in Recompute::ALL {
                let split = Split::of(price, pass, *recompute);
                assert_eq!(
                    split.kernels() + split.inside.total(),
                    price.pass(pass, *recompute),
                    "{pass:?} {recompute}"
                );
            }
        }
    }
}
