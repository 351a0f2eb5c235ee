//! All variants of one candidate: cut, checked and bounded; and the simulation of one.

use super::bounds::{Bounds, CommunicationKey};
use super::found::nearer;
use super::memory_bound::{MemoryBound, NEAR};
use super::space::{Candidate, Space, Variant};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use trainyard_plan::{Plan, StageId, StageSpec, Stages};
use trainyard_sim::{
    Communications, Footprint, LayerTable, Machine, OutOfMemory, Outcome, footprint, longest_chunks, simulate,
    step_time_bound_with, step_time_with,
};
use trainyard_units::Bytes;

/// The result of building the variants of a candidate.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// Number of variants that do not fit into memory.
    pub(crate) too_large: u64,
    /// The memory that the smallest of these needs, and the memory that there is.
    pub(crate) least_too_large: Option<(Bytes, Bytes)>,
    /// The variants that fit and could matter.
    pub(crate) fitting: Vec<Built>,
}

/// Builds the variants of a candidate that fit and may matter. `matters` decides this from a plan and a lower bound of
/// its step time.
pub(crate) fn look(
    space: &Space<'_>,
    (bounds, memory): (&Bounds, &MemoryBound),
    candidate: &Candidate,
    matters: impl Fn(&Plan, f64) -> bool,
) -> Looked {
    let weights = bounds.weights(candidate).expect("candidates without prices were dropped");
    let machine = space.machine(candidate);
    let builder = Builder {
        space,
        bounds,
        memory,
        candidate,
        weights,
        machine: &machine,
        layers: OnceCell::new(),
        communications: RefCell::default(),
    };
    let mut looked = Looked::default();
    looked.fitting = builder.fitting(&mut looked, &|plan: &Plan, bound: f64| bound.is_finite() && matters(plan, bound));
    for (key, known) in builder.communications.into_inner() {
        bounds.note_communications(key, known);
    }
    looked
}

/// A step of a plan that was simulated.
#[derive(Clone)]
pub(crate) struct Simulated {
    pub(crate) step_time_s: f64,
    /// The whole outcome, if the search simulates so few plans that this one is likely to be shown.
    pub(crate) outcome: Option<Arc<Outcome>>,
}

/// Simulates a step of a plan; `None` if the machine was not measured for it.
pub(crate) fn simulated(space: &Space<'_>, bounds: &Bounds, candidate: &Candidate, plan: &Plan) -> Option<Simulated> {
    let machine = space.machine(candidate);
    if space.problem().enough.is_some() {
        let outcome = simulate(plan, &machine).ok()?;
        return Some(Simulated { step_time_s: outcome.step_time.0, outcome: Some(Arc::new(outcome)) });
    }
    let layers = bounds.layers(candidate, plan, &machine)?;
    let step_time = step_time_with(plan, &machine, &layers).ok()?;
    Some(Simulated { step_time_s: step_time.0, outcome: None })
}

/// A plan that fits.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) plan: Plan,
    /// Lower bound of its step time, in seconds; infinite if it cannot be priced.
    pub(crate) bound: f64,
    pub(crate) memory_peak: Bytes,
}

/// A builder of plans from a candidate's variants.
struct Builder<'a> {
    space: &'a Space<'a>,
    bounds: &'a Bounds,
    memory: &'a MemoryBound,
    candidate: &'a Candidate,
    /// Seconds of each layer.
    weights: &'a [f64],
    machine: &'a Machine,
    /// Prices of layers, which all variants share; `None` if the machine was not measured for them.
    layers: OnceCell<Option<LayerTable>>,
    /// Communication of the plans.
    communications: RefCell<BTreeMap<CommunicationKey, Communications>>,
}

impl Looked {
    fn note_too_large(&mut self, needed: Bytes, available: Bytes) {
        let new = (needed, available);
        self.least_too_large = Some(self.least_too_large.map_or(new, |least| nearer(least, new)));
        self.too_large += 1;
    }
}

impl Builder<'_> {
    fn layers(&self, plan: &Plan) -> Option<&LayerTable> {
        self.layers.get_or_init(|| self.bounds.layers(self.candidate, plan, self.machine)).as_ref()
    }

    /// Builds the variants that fit and matter.
    fn fitting(&self, looked: &mut Looked, matters: &impl Fn(&Plan, f64) -> bool) -> Vec<Built> {
        let mut all: Vec<Built> = Vec::new();
        let parallel = self.candidate.parallel;
        for variant in self.space.variants_of(self.candidate) {
            let stages = self.bounds.cut(self.candidate, parallel.pipeline * variant.virtual_stages);
            let Some(stages) = stages else { continue };
            let first = self.runs_of_first_stage(&variant, &stages);
            if let Some((needed, available)) = self.memory.first_stage_shortfall(self.candidate, &variant, &first) {
                looked.note_too_large(needed, available);
                continue;
            }
            let Some(plan) = self.plan(&variant, stages.to_vec()) else { continue };
            let bound = self.bound(&plan);
            if !matters(&plan, bound) {
                continue;
            }
            match self.build(&variant, plan, bound) {
                Ok(built) if matters(&built.plan, built.bound) => all.push(built),
                Ok(_) => {}
                Err(full) => {
                    let (needed, available) = full.amounts();
                    looked.note_too_large(needed, available);
                }
            }
        }
        all
    }

    /// Lists the runs of layers on the first stage: in a V schedule the first run and the last, otherwise one in every
    /// round of the stages.
    fn runs_of_first_stage(&self, variant: &Variant, stages: &[StageSpec]) -> Vec<Range<usize>> {
        let layers = |run: &StageSpec| run.first..run.first + run.layers;
        if variant.schedule.is_folded() {
            return [stages.first(), stages.last()].into_iter().flatten().map(layers).collect();
        }
        stages.iter().step_by(self.candidate.parallel.pipeline as usize).map(layers).collect()
    }

    fn build(&self, variant: &Variant, plan: Plan, bound: f64) -> Result<Built, OutOfMemory> {
        let needed = footprint(&plan, self.machine);
        let Err(full) = needed.fits() else { return Ok(Built { plan, bound, memory_peak: needed.peak() }) };
        let Some(plan) = self.cut_within_memory(variant, &plan, &needed) else { return Err(full) };
        let needed = footprint(&plan, self.machine);
        needed.fits().map_err(|_| full)?;
        Ok(Built { bound: self.bound(&plan), plan, memory_peak: needed.peak() })
    }

    /// Builds the plan; `None` if a count exceeds the limits of plans.
    fn plan(&self, variant: &Variant, stages: Vec<StageSpec>) -> Option<Plan> {
        self.space.plan(self.candidate, variant, stages, self.machine)
    }

    /// Returns the lower bound of a step; infinite if the machine was not measured for the plan.
    fn bound(&self, plan: &Plan) -> f64 {
        let mut known = self.communications.borrow_mut();
        let key = self.bounds.communication_key(self.candidate, plan);
        let known = known.entry(key).or_insert_with(|| self.bounds.communications(&key));
        let bound = self.layers(plan).and_then(|layers| step_time_bound_with(plan, self.machine, layers, known).ok());
        bound.map_or(f64::INFINITY, |bound| bound.0)
    }

    /// Cuts the stages of a plan by time and memory, with fewer layers than the balance asks where a stage holds more
    /// than others. Tried only if the stages fit on average, the fullest shortfalls less than a tenth, and each has one run
    /// of layers.
    fn cut_within_memory(&self, variant: &Variant, plan: &Plan, needed: &Footprint) -> Option<Plan> {
        let stages = plan.stages();
        let total = |bytes: &mut dyn Iterator<Item = Bytes>| bytes.map(|bytes| u128::from(bytes.0)).sum::<u128>();
        let asked = total(&mut stages.ids().map(|stage| needed.total(stage)));
        let there = total(&mut needed.usable.iter().copied());
        let near = stages
            .ids()
            .zip(&needed.usable)
            .all(|(stage, limit)| needed.total(stage).as_f64() <= limit.as_f64() * NEAR);
        if stages.count() == 1 || stages.chunks_per_stage() > 1 || asked > there || !near {
            return None;
        }
        let first = longest_chunks(plan, self.machine);
        let fits = |stage: StageId, run: std::ops::Range<usize>| run.start >= first[stage.0 as usize][run.end];
        let cut = Stages::balanced_within(self.weights, stages.count(), fits)?;
        self.plan(variant, cut.specs())
    }
}
