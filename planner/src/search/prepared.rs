//! The data that all searches of one space share.

use super::aim::{Aim, amount};
use super::bounds::Bounds;
use super::complexity::{Complexity, OptimizerState, Ordinary};
use super::evaluate::{Fitting, Looked, Simulated, Times, Tried, look, simulated};
use super::found::Found;
use super::input_stalls::InputStalls;
use super::known::Known;
use super::memory_bound::MemoryBound;
use super::overheads::SearchOverheads;
use super::space::{Candidate, Space, Variant};
use super::totals::{Evaluated, Surrounded, Totals};
use crate::cost::Work;
use crate::problem::Problem;
use crate::shortfall::TooLarge;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, OnceLock};
use trainyard_plan::{Fixed, Method, Objective, ParallelSpec, Plan, Precision};
use trainyard_sim::Machine;
use trainyard_units::Seconds;

/// The data that all searches of one space share.
pub(crate) struct Prepared<'a> {
    pub(super) problem: &'a Problem,
    pub(super) space: Space<'a>,
    /// Number of plans of each type of machine.
    pub(super) plans: BTreeMap<usize, u64>,
    /// Those that may fit into memory.
    pub(super) candidates: Vec<Candidate>,
    /// Statistics of the candidates that were dropped because they cannot fit.
    pub(super) dropped: Found,
    pub(super) memory: MemoryBound,
    pub(super) bounds: Bounds,
    pub(super) input_stalls: InputStalls,
    pub(super) overheads: SearchOverheads,
    /// By choice.
    pub(super) ordinary: Vec<Ordinary>,
    /// Lower bounds of the plans of each candidate that is fed and priced; `None` of others.
    least: OnceLock<Vec<Option<Totals>>>,
    /// Values of each objective at those bounds with the numbers of the candidates, ascending.
    by_time: OnceLock<Vec<(f64, u32)>>,
    by_cost: OnceLock<Vec<(f64, u32)>>,
    /// What is known of the variants of the candidates that were looked at.
    tried: Mutex<BTreeMap<u32, Vec<Tried>>>,
    known: Arc<Known>,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(problem: &'a Problem, fixed: &Fixed) -> Self {
        let space = Space::new(problem, fixed);
        let known = Known::of(&space, &problem.cache);
        let memory = MemoryBound::new(&space, known.clone());
        let with_room = |site: (usize, u32)| {
            let (mut candidates, mut dropped) = (space.candidates_on(site), Found::default());
            let kind = problem.place.kind(site.0);
            let plans = candidates.iter().map(|candidate| u64::from(candidate.plans)).sum();
            let mut shortfalls = memory.shortfalls(&space, &candidates).into_iter();
            candidates.retain(|candidate| {
                let shortfall = shortfalls.next().flatten();
                if let Some(least) = shortfall {
                    dropped.note_too_large(kind, TooLarge { plans: candidate.plans.into(), least });
                }
                shortfall.is_none()
            });
            candidates.shrink_to_fit();
            (kind, plans, candidates, dropped)
        };
        let of_sites: Vec<(usize, u64, Vec<Candidate>, Found)> = space.sites().into_par_iter().map(with_room).collect();
        let (mut plans, mut candidates, mut dropped) = (BTreeMap::new(), Vec::new(), Found::default());
        for (kind, own, with_room, without_room) in of_sites.into_iter().filter(|(_, plans, ..)| *plans > 0) {
            *plans.entry(kind).or_default() += own;
            candidates.extend(with_room);
            for (kind, own) in without_room.too_large {
                dropped.note_too_large(kind, own);
            }
        }
        let bounds = Bounds::new((problem, fixed), &space, &candidates, known.clone());
        let input_stalls = InputStalls::new(&space, &bounds, &candidates);
        let overheads = SearchOverheads::new(problem, &space, &candidates);
        let choices = 0..problem.place.choices().len();
        let is_held = fixed.state_sharding.is_some();
        let of_choice = |choice| {
            let own = ordinary(space.alone(choice), space.blocks(), problem.method());
            // What is asked for is not unusual.
            if is_held { Ordinary { optimizer_state: OptimizerState::Either, ..own } } else { own }
        };
        let ordinary = choices.map(of_choice).collect();
        Self {
            problem,
            space,
            plans,
            candidates,
            dropped,
            memory,
            bounds,
            input_stalls,
            overheads,
            ordinary,
            least: OnceLock::new(),
            by_time: OnceLock::new(),
            by_cost: OnceLock::new(),
            tried: Mutex::default(),
            known,
        }
    }

    /// Looks at the variants of a candidate, as far as no other search has.
    pub(super) fn look(&self, number: u32, matters: impl Fn(&Variant, Times) -> bool) -> Looked {
        let all = || self.tried.lock().expect("nobody panics while what was looked at is kept");
        // Another search may look at the same one meanwhile, and finds the same.
        let mut tried = all().remove(&number).unwrap_or_default();
        let candidate = &self.candidates[number as usize];
        let looked = look(&self.space, (&self.bounds, &self.memory), candidate, &mut tried, matters);
        all().insert(number, tried);
        looked
    }

    /// Builds the plan of a variant that fits.
    pub(super) fn plan(&self, candidate: &Candidate, fitting: &Fitting) -> Plan {
        let machine = self.space.machine(candidate);
        let plan = self.space.plan(candidate, &fitting.variant, fitting.cut.stages.to_vec(), &machine);
        plan.expect("what fits was a plan before")
    }

    /// Simulates a step of a plan, unless another search has; `None` if the machine was not measured for it.
    pub(super) fn simulated(&self, number: u32, fitting: &Fitting) -> Option<Simulated> {
        let candidate = &self.candidates[number as usize];
        let plan = self.plan(candidate, fitting);
        // A search that ends with its first good plan simulates so few that each is likely to be shown.
        let whole = self.problem.effort.is_some();
        let simulate = || simulated(&self.space, &self.bounds, candidate, &plan, whole);
        self.known.steps.get_or((candidate.choice, plan.spec()), whole, simulate)
    }

    /// Returns lower bounds of the plans of each candidate, by its number: the same for every aim.
    pub(super) fn least(&self) -> &[Option<Totals>] {
        self.least.get_or_init(|| {
            let least = |candidate: &Candidate| {
                let step = self.bounds.step_time(candidate).filter(|_| self.input_stalls.reaches(candidate))?;
                let passes = self.problem.forward_passes(candidate.batch.global);
                let once = |samples| Ok::<_, Infallible>(self.bounds.forward_pass(candidate, samples));
                let Ok(forward) = passes.times(once);
                let times = Times { step, forward };
                // Whether sharding the state is cheaper depends on the plan, so the bound is the smaller of the two
                // in each figure.
                let [whole, shared] = [false, true].map(|shards_state| self.totals(candidate, shards_state, times));
                Some(whole.least(shared))
            };
            self.candidates.par_iter().map(least).collect()
        })
    }

    /// Returns candidates with the values of an objective that they reach at best, the least first; of equal values the
    /// first candidate. A training that never ends, on machines that somebody described so, is no candidate.
    pub(super) fn ranked(&self, objective: Objective) -> &[(f64, u32)] {
        let ranked = match objective {
            Objective::Time => &self.by_time,
            Objective::Cost => &self.by_cost,
        };
        ranked.get_or_init(|| {
            let value = |(number, totals): (usize, &Option<Totals>)| {
                Some((amount(objective, (*totals)?), number as u32)).filter(|(value, _)| value.is_finite())
            };
            let mut ranked: Vec<(f64, u32)> = self.least().par_iter().enumerate().filter_map(value).collect();
            ranked.par_sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            ranked
        })
    }

    /// Returns lower bounds of the plans that may fit, by type of machine.
    pub(crate) fn least_by_kind(&self) -> BTreeMap<usize, Totals> {
        let mut by_kind: BTreeMap<usize, Totals> = BTreeMap::new();
        for (candidate, totals) in self.candidates.iter().zip(self.least()) {
            let Some(totals) = totals else { continue };
            let kind = by_kind.entry(self.problem.place.kind(candidate.choice));
            kind.and_modify(|least| *least = least.least(*totals)).or_insert(*totals);
        }
        by_kind
    }

    /// Returns the complexity of a plan.
    pub(crate) fn complexity(&self, plan: &Evaluated) -> Complexity {
        Complexity::of(&plan.plan, self.ordinary[plan.choice])
    }

    /// Lists the complexities of plans on an aim's stacks that may stay below its ceilings, the simplest first.
    pub(crate) fn complexities(&self, aim: Aim) -> BTreeSet<Complexity> {
        let stacks = self.problem.place.stacks().len();
        let of_stack = |candidate: &Candidate| aim.stack.is_none_or(|wanted| candidate.choice % stacks == wanted);
        let below = |number: usize| self.least()[number].is_some_and(|totals| aim.ceilings.admit(totals));
        let limit = aim.ceilings.of(aim.objective);
        let ranked = self.ranked(aim.objective).iter().take_while(|(value, _)| *value <= limit);
        let numbers = ranked.map(|(_, number)| *number as usize).filter(|number| below(*number));
        let candidates = numbers.map(|number| &self.candidates[number]).filter(|candidate| of_stack(candidate));
        let mut seen: BTreeSet<(usize, ParallelSpec, Precision, [bool; 2])> = BTreeSet::new();
        let mut all = BTreeSet::new();
        for candidate in candidates {
            let Candidate { choice, parallel, precision, batch, .. } = *candidate;
            // Of the batch only this decides which variants there are.
            let micro_batches = [batch.accumulation == 1, batch.accumulation.is_multiple_of(parallel.pipeline.into())];
            if seen.insert((choice, parallel, precision, micro_batches)) {
                all.extend(self.complexities_of(candidate));
            }
        }
        all
    }

    fn complexities_of(&self, candidate: &Candidate) -> impl Iterator<Item = Complexity> + use<'_, 'a> {
        let (candidate, ordinary) = (*candidate, self.ordinary[candidate.choice]);
        let variants = self.space.variants_of(&candidate);
        variants.into_iter().map(move |variant| Complexity::of_variant(&candidate, &variant, ordinary))
    }

    pub(super) fn may_be(&self, candidate: &Candidate, class: Complexity) -> bool {
        self.complexities_of(candidate).any(|own| own == class)
    }

    /// Computes the totals of a candidate with plans that take `times`. `shards_state` says whether its replicas shard their
    /// state.
    pub(super) fn totals(&self, candidate: &Candidate, shards_state: bool, times: Times) -> Totals {
        let steps = self.problem.training.steps(candidate.batch.global);
        let feed = self.input_stalls.of(candidate, times.step, steps);
        let time_s = feed.map_or(times.step * steps as f64, |feed| feed.time.0);
        let step_time_s = feed.map_or(times.step, |feed| feed.step_time.0);
        let forward = times.forward;
        let overheads = self.overheads.of(candidate, shards_state);
        let hourly = self.problem.place.hourly(candidate.choice, candidate.instances);
        let download = feed.map_or(Seconds(0.0), |feed| feed.download);
        let input = self.input_stalls.input(candidate).map(|input| input.storage);
        let requests = feed.map_or(0.0, |feed| feed.requests);
        let work = Work { steps: Seconds(time_s), forward, download, requests };
        let surrounded = Surrounded::of(overheads, hourly, steps, work, input);
        let devices = if self.problem.place.is_measured() { 1 } else { candidate.parallel.ranks() };
        Totals::new((step_time_s, time_s), surrounded, devices)
    }
}

/// Returns the ordinary settings on a machine: mixed precision if its GPUs have the units for it, bfloat16 before half
/// precision; single precision on CPUs.
fn ordinary(machine: &Machine, blocks: u32, method: Method) -> Ordinary {
    let has_units = |precision: &Precision| machine.has_units(*precision).is_ok();
    let mixed = || [Precision::Bf16Mixed, Precision::Fp16Mixed].into_iter().find(has_units);
    let precision = machine.cluster.first().device.gpu().and_then(|_| mixed());
    let shards = machine.stack.runs.state_sharding.as_ref().is_none_or(|states| states.len() > 1);
    let own_scripts = !machine.stack.runs.own_models;
    let own_engine = !machine.stack.runs.targets.iter().any(|target| target == "deepspeed");
    Ordinary {
        precision: precision.unwrap_or(Precision::Fp32),
        own_scripts,
        own_engine,
        blocks,
        optimizer_state: match (shards, method.has_adapters()) {
            (true, true) => OptimizerState::TooSmall,
            (true, false) if !(own_scripts && own_engine) => OptimizerState::Shared,
            _ => OptimizerState::Either,
        },
    }
}
