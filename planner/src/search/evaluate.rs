//! All variants of one candidate: cut, checked and bounded; and the simulation of one.

use super::bounds::Bounds;
use super::memory_bound::{MemoryBound, NEAR};
use super::space::{Candidate, Space, Variant};
use crate::problem::ForwardTimes;
use crate::shortfall::{Shortfall, TooLarge};
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;
use trainyard_plan::{Plan, StageId, StageSpec, Stages};
use trainyard_sim::{
    Footprint, LayerTable, Machine, Outcome, evaluation_time_with, footprint, longest_chunks, simulate,
    step_time_bound_with, step_time_with,
};
use trainyard_units::Bytes;

/// The result of looking at the variants of a candidate.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// The variants that do not fit into memory, if there are any.
    pub(crate) too_large: Option<TooLarge>,
    /// The variants that fit and could matter.
    pub(crate) fitting: Vec<Fitting>,
}

/// A variant whose plan fits.
#[derive(Clone, Debug)]
pub(crate) struct Fitting {
    pub(crate) variant: Variant,
    pub(crate) cut: Cut,
    pub(crate) memory_peak: Bytes,
}

/// Layers cut into stages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cut {
    pub(crate) stages: Arc<[StageSpec]>,
    pub(crate) times: Times,
}

/// What a plan takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Times {
    /// Seconds of a step, or a lower bound of them; infinite if it cannot be priced.
    pub(crate) step: f64,
    /// Forward passes besides the steps, or lower bounds of them.
    pub(crate) forward: ForwardTimes,
}

/// A variant of a candidate, as far as any search has looked at it. All that is known follows from the variant alone, so
/// that no search sees what another has looked at before.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    variant: Variant,
    /// Its layers as [`Bounds::cut`] has them; nothing where there is no such plan.
    by_time: Option<Result<Option<Cut>, Shortfall>>,
    /// Cut so that the stages fit, and the memory of the fullest of them.
    fitting: Option<Result<(Cut, Bytes), Shortfall>>,
}

impl Tried {
    fn new(variant: Variant) -> Self {
        Self { variant, by_time: None, fitting: None }
    }
}

/// Looks at the variants of a candidate for those that fit and may matter, as far as no search has. `matters` decides from
/// a variant and lower bounds of its times.
pub(crate) fn look(
    space: &Space<'_>,
    (bounds, memory): (&Bounds, &MemoryBound),
    candidate: &Candidate,
    tried: &mut Vec<Tried>,
    matters: impl Fn(&Variant, Times) -> bool,
) -> Looked {
    let weights = bounds.weights(candidate).expect("candidates without prices were dropped");
    let machine = space.machine(candidate);
    let builder = Builder { space, bounds, memory, candidate, weights, machine: &machine, layers: OnceCell::new() };
    if tried.is_empty() {
        tried.extend(space.variants_of(candidate).into_iter().map(Tried::new));
    }
    let mut looked = Looked::default();
    let matters = |variant: &Variant, bound: Times| bound.step.is_finite() && matters(variant, bound);
    for tried in tried {
        match builder.look(tried, &matters) {
            Ok(fitting) => looked.fitting.extend(fitting),
            Err(least) => looked.note_too_large(TooLarge { plans: 1, least }),
        }
    }
    looked
}

/// A step of a plan that was simulated.
#[derive(Clone)]
pub(crate) struct Simulated {
    pub(crate) step_time_s: f64,
    /// The whole outcome, if it was wanted.
    pub(crate) outcome: Option<Arc<Outcome>>,
}

/// Simulates a step of a plan, for the `whole` outcome or its time alone; `None` if the machine was not measured for it.
pub(crate) fn simulated(
    space: &Space<'_>,
    bounds: &Bounds,
    candidate: &Candidate,
    plan: &Plan,
    whole: bool,
) -> Option<Simulated> {
    let machine = space.machine(candidate);
    if whole {
        let outcome = simulate(plan, &machine).ok()?;
        return Some(Simulated { step_time_s: outcome.step_time.0, outcome: Some(Arc::new(outcome)) });
    }
    let layers = bounds.layers(candidate, plan, &machine)?;
    let step_time = step_time_with(plan, &machine, &layers).ok()?;
    Some(Simulated { step_time_s: step_time.0, outcome: None })
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
}

impl Looked {
    fn note_too_large(&mut self, own: TooLarge) {
        self.too_large = Some(self.too_large.map_or(own, |all| all.and(own)));
    }
}

impl Builder<'_> {
    fn layers(&self, plan: &Plan) -> Option<&LayerTable> {
        self.layers.get_or_init(|| self.bounds.layers(self.candidate, plan, self.machine)).as_ref()
    }

    /// Looks at a variant; returns it if it fits and matters.
    fn look(
        &self,
        tried: &mut Tried,
        matters: &impl Fn(&Variant, Times) -> bool,
    ) -> Result<Option<Fitting>, Shortfall> {
        let variant = tried.variant;
        let by_time = tried.by_time.get_or_insert_with(|| self.cut_by_time(&variant)).as_ref().map_err(|full| *full)?;
        let Some(by_time) = by_time.as_ref().filter(|cut| matters(&variant, cut.times)) else { return Ok(None) };
        let fitting = tried.fitting.get_or_insert_with(|| self.fit(&variant, by_time)).as_ref();
        let (cut, memory_peak) = fitting.map_err(|full| *full)?;
        let fitting = Fitting { variant, cut: cut.clone(), memory_peak: *memory_peak };
        Ok(matters(&variant, cut.times).then_some(fitting))
    }

    /// Cuts the layers as [`Bounds::cut`] does, unless the first of them is certain not to fit; `None` if there
    /// is no such plan.
    fn cut_by_time(&self, variant: &Variant) -> Result<Option<Cut>, Shortfall> {
        let runs = self.candidate.parallel.pipeline * variant.virtual_stages;
        let Some(stages) = self.bounds.cut(self.candidate, runs) else { return Ok(None) };
        let first = self.runs_of_first_stage(variant, &stages);
        if let Some(shortfall) = self.memory.first_stage_shortfall(self.space, self.candidate, variant, &first) {
            return Err(shortfall);
        }
        let plan = self.plan(variant, &stages);
        Ok(plan.map(|plan| Cut { times: self.least(&plan), stages }))
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

    /// Cuts the layers so that all stages fit; returns the memory of the fullest with them.
    fn fit(&self, variant: &Variant, by_time: &Cut) -> Result<(Cut, Bytes), Shortfall> {
        let plan = self.plan(variant, &by_time.stages).expect("a plan was cut this way before");
        let needed = footprint(&plan, self.machine);
        let Err(full) = needed.fits() else { return Ok((by_time.clone(), needed.peak())) };
        let Some(plan) = self.cut_within_memory(variant, &plan, &needed) else { return Err(full.into()) };
        let needed = footprint(&plan, self.machine);
        needed.fits().map_err(|_| full)?;
        Ok((Cut { stages: plan.spec().stages.as_slice().into(), times: self.least(&plan) }, needed.peak()))
    }

    /// Builds the plan; `None` if a count exceeds the limits of plans.
    fn plan(&self, variant: &Variant, stages: &[StageSpec]) -> Option<Plan> {
        self.space.plan(self.candidate, variant, stages.to_vec(), self.machine)
    }

    /// Returns a lower bound of a step, infinite if the machine was not measured for the plan, and the time of other forward
    /// passes.
    fn least(&self, plan: &Plan) -> Times {
        let unmeasured = Times { step: f64::INFINITY, forward: ForwardTimes::default() };
        let Some(layers) = self.layers(plan) else { return unmeasured };
        let passes = self.space.problem().forward_passes(plan.batch().global);
        let forward = passes.times(|samples| evaluation_time_with(plan, self.machine, layers, samples));
        let Ok(forward) = forward else { return unmeasured };
        let known = self.bounds.communications(self.bounds.communication_key(self.candidate, plan));
        let mut known = known.lock().expect("nobody panics while a bound is computed");
        let step = step_time_bound_with(plan, self.machine, layers, &mut known).map_or(f64::INFINITY, |bound| bound.0);
        Times { step, forward }
    }

    /// Cuts the stages of a plan by time and memory, with fewer layers than the balance asks where a stage holds more
    /// than others. Tried only if the stages fit on average, the fullest shortfalls less than a tenth, each has one run of
    /// layers, and they need not be even.
    fn cut_within_memory(&self, variant: &Variant, plan: &Plan, needed: &Footprint) -> Option<Plan> {
        let stages = plan.stages();
        let total = |bytes: &mut dyn Iterator<Item = Bytes>| bytes.map(|bytes| u128::from(bytes.0)).sum::<u128>();
        let asked = total(&mut stages.ids().map(|stage| needed.total(stage)));
        let there = total(&mut needed.usable.iter().copied());
        let near = stages
            .ids()
            .zip(&needed.usable)
            .all(|(stage, limit)| needed.total(stage).as_f64() <= limit.as_f64() * NEAR);
        // Where the software cuts evenly, that is the only cut: its bound need not be one of others.
        let even = self.space.cuts_evenly(self.candidate.choice) && self.space.blocks().is_multiple_of(stages.count());
        if stages.count() == 1 || stages.chunks_per_stage() > 1 || asked > there || !near || even {
            return None;
        }
        let first = longest_chunks(plan, self.machine);
        let fits = |stage: StageId, run: std::ops::Range<usize>| run.start >= first[stage.0 as usize][run.end];
        let cut = Stages::balanced_within(self.weights, stages.count(), fits)?;
        self.plan(variant, &cut.specs())
    }
}
