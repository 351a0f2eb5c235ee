//! All variants of one candidate: cut, checked, bounded, and the best of them simulated.

use crate::bounds::Bounds;
use crate::space::{Candidate, Space, Variant};
use std::collections::BTreeMap;
use trainyard_plan::{GradientReduction, Plan, ScheduleName, StageId, StageSpec, Stages, StateSharding};
use trainyard_sim::{Footprint, Machine, OutOfMemory, footprint, longest_runs, step_time, step_time_bound};
use trainyard_units::Bytes;

/// What the variants of a candidate came to.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// How many were simulated.
    pub(crate) simulated: u64,
    /// How many do not fit into memory.
    pub(crate) too_large: u64,
    /// Of those, what the smallest needs and what there is.
    pub(crate) least_too_large: Option<(Bytes, Bytes)>,
    /// The best that matters: seconds of a step, the plan, and what its fullest rank needs.
    pub(crate) best: Option<(f64, Box<Plan>, Bytes)>,
}

/// Looks for the variant of a candidate that beats `limit` by most. `value` tells what a step time is worth; nothing if
/// it misses the goal.
pub(crate) fn look(
    space: &Space<'_>,
    bounds: &Bounds,
    candidate: &Candidate,
    limit: f64,
    value: impl Fn(f64) -> Option<f64>,
) -> Looked {
    let weights = bounds.weights(candidate).expect("candidates without prices were dropped");
    let builder = Builder { space, candidate, weights, machine: space.machine(candidate) };
    let mut looked = Looked::default();
    let mut fitting = builder.fitting(&mut looked);
    fitting.retain(|built| built.bound.is_finite());
    fitting.sort_by(|a, b| a.bound.total_cmp(&b.bound));
    let mut limit = limit;
    for built in fitting {
        if value(built.bound).is_none_or(|value| value >= limit) {
            continue;
        }
        let Ok(step_time) = step_time(&built.plan, &builder.machine) else { continue };
        looked.simulated += 1;
        let seconds = step_time.0;
        let best = looked.best.as_ref().is_none_or(|(best, ..)| seconds < *best);
        if best {
            limit = value(seconds).map_or(limit, |value| value.min(limit));
            looked.best = Some((seconds, Box::new(built.plan), built.memory_peak));
        }
    }
    looked
}

/// A plan that fits.
struct Built {
    plan: Plan,
    /// Seconds that its step does not beat; infinite where it cannot be priced.
    bound: f64,
    memory_peak: Bytes,
}

/// Makes plans of a candidate's variants.
struct Builder<'a> {
    space: &'a Space<'a>,
    candidate: &'a Candidate,
    /// Seconds of each layer.
    weights: &'a [f64],
    machine: Machine,
}

impl Builder<'_> {
    /// The variants that fit. Beyond the optimizer's state, sharing out more only adds communication, so of each
    /// schedule it is tried where sharing out less does not fit.
    fn fitting(&self, looked: &mut Looked) -> Vec<Built> {
        let mut cuts: BTreeMap<u32, Vec<StageSpec>> = BTreeMap::new();
        let mut all: Vec<Built> = Vec::new();
        let mut plainer_fits: Option<(ScheduleName, u32)> = None;
        for variant in self.space.variants(self.candidate.parallel, self.candidate.batch) {
            let schedule = (variant.schedule, variant.virtual_stages);
            if plainer_fits == Some(schedule) && shares_more(&variant) {
                continue;
            }
            let runs = self.candidate.parallel.pipeline * variant.virtual_stages;
            let stages = cuts.entry(runs).or_insert_with(|| self.balanced(runs));
            match self.build(&variant, stages) {
                Some(Ok(built)) => {
                    plainer_fits = Some(schedule);
                    all.push(built);
                }
                Some(Err(full)) => {
                    let (needed, available) = full.amounts();
                    let least = looked.least_too_large.map_or(needed, |(least, _)| least.min(needed));
                    looked.least_too_large = Some((least, available));
                    looked.too_large += 1;
                }
                None => {}
            }
        }
        all
    }

    fn balanced(&self, runs: u32) -> Vec<StageSpec> {
        Stages::balanced(self.weights, runs).expect("every run has at least one layer").specs()
    }

    /// Nothing where a count is beyond what plans take for meant.
    fn build(&self, variant: &Variant, stages: &[StageSpec]) -> Option<Result<Built, OutOfMemory>> {
        let plan = self.plan(variant, stages.to_vec())?;
        let needed = footprint(&plan, &self.machine);
        let Err(full) = needed.fits() else { return Some(Ok(self.bounded(plan, &needed))) };
        let within = self.cut_within_memory(variant, &plan, &needed);
        let (plan, needed) = match within {
            Some(plan) => {
                let needed = footprint(&plan, &self.machine);
                (plan, needed)
            }
            None => return Some(Err(full)),
        };
        Some(if needed.fits().is_ok() { Ok(self.bounded(plan, &needed)) } else { Err(full) })
    }

    fn plan(&self, variant: &Variant, stages: Vec<StageSpec>) -> Option<Plan> {
        Plan::try_from(self.space.spec(self.candidate, variant, stages, &self.machine)).ok()
    }

    fn bounded(&self, plan: Plan, needed: &Footprint) -> Built {
        // A machine that was not measured for a plan cannot run it.
        let bound = step_time_bound(&plan, &self.machine).map_or(f64::INFINITY, |bound| bound.0);
        Built { plan, bound, memory_peak: needed.peak() }
    }

    /// The plan with its stages cut by time and memory: stages with fewer layers than balance asks where one holds
    /// more than others. Tried only where the stages fit on average, and each has one run of layers.
    fn cut_within_memory(&self, variant: &Variant, plan: &Plan, needed: &Footprint) -> Option<Plan> {
        let stages = plan.stages();
        let total = |bytes: &mut dyn Iterator<Item = Bytes>| bytes.map(|bytes| u128::from(bytes.0)).sum::<u128>();
        let asked = total(&mut stages.ids().map(|stage| needed.total(stage)));
        let there = total(&mut needed.limits.iter().copied());
        if stages.count() == 1 || stages.runs() > 1 || asked > there {
            return None;
        }
        let first = longest_runs(plan, &self.machine);
        let fits = |stage: StageId, run: std::ops::Range<usize>| run.start >= first[stage.0 as usize][run.end];
        let cut = Stages::balanced_within(self.weights, stages.count(), fits)?;
        self.plan(variant, cut.specs())
    }
}

/// Whether more is shared out than the optimizer's state, or more often.
fn shares_more(variant: &Variant) -> bool {
    variant.state_sharding > StateSharding::Optimizer || variant.gradient_reduction == GradientReduction::MicroBatch
}
