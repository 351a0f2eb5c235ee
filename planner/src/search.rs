//! Exact search by bounds: candidates are tried in the order of what they could reach at best, until none that is
//! left could still enter the list of the best.
//!
//! A coarse bound needs only the prices of a model's distinct layers: the fullest stage has at least its share of all
//! layers, and computes them for every micro-batch. A candidate whose turn comes is looked at in
//! all its variants: each gets its stages cut, its memory checked and a finer bound, and waits for its turn to be
//! simulated. Both bounds are admissible, so what is never simulated is proved to be no better.
//!
//! The list of the best holds one plan for each type and number of machines. On the same machines a plan that takes
//! longer also costs more, so a candidate must beat the best that is known on its own machines to matter at all.

use crate::bounds::Bounds;
use crate::evaluate::{Built, Looked, Simulated, look, simulated};
use crate::feeding::Feeding;
use crate::overheads::{SearchOverheads, shares_out};
use crate::problem::{Enough, Place, Problem};
use crate::ranked::Ranked;
use crate::robust::{Complexity, Ordinary};
use crate::room::Room;
use crate::space::{Candidate, Space};
use crate::totals::Totals;
use rayon::prelude::*;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::{Arc, OnceLock};
use trainyard_plan::{Fixed, Objective, ParallelSpec, Plan, Precision};
use trainyard_sim::{Machine, Outcome};
use trainyard_units::{Bytes, Seconds};

/// Number of candidates looked at in parallel, at first and at most, and of plans simulated in parallel. They are few,
/// so that the result of one spares later ones; and fixed, so that the result does not depend on the thread count.
const LOOKS: std::ops::RangeInclusive<usize> = 2..=32;
const SIMULATIONS: usize = 2;

/// A plan with what it takes.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// The plan.
    pub plan: Plan,
    /// Index among the choices of the place: a type of machine with a stack.
    pub(crate) choice: usize,
    /// Seconds of a step, including waiting for samples.
    pub step_time_s: f64,
    /// Seconds of all steps.
    pub time_s: f64,
    /// Seconds from the request for machines to the last checkpoint.
    pub elapsed_s: f64,
    /// Seconds of downloading before the first step.
    pub download_s: f64,
    /// Price of the training and its overheads, in USD.
    pub cost_usd: Option<f64>,
    /// Memory needed by the rank that needs most.
    pub memory_peak: Bytes,
    /// The whole simulated step, if a search kept it.
    pub(crate) outcome: Option<Arc<Outcome>>,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The best plan of each type and number of machines, best first, within deadline and budget.
    pub best: Vec<Evaluated>,
    /// The fastest plan that was simulated, of each type and number of machines. It is also the cheapest there,
    /// whatever the price of an hour.
    pub fastest: Vec<Evaluated>,
    /// Plans in the space.
    pub candidates: u64,
    /// Plans that were simulated.
    pub simulated: u64,
    /// Upper bound of how much better an unseen plan could be than the best one found.
    pub gap: f64,
    /// Plans in the space, by type of machine.
    pub plans: BTreeMap<usize, u64>,
    /// Plans that do not fit into memory, by type of machine: how many were looked at, and the least that was needed.
    pub too_large: BTreeMap<usize, (u64, Bytes, Bytes)>,
    /// Lower bounds of the plans that may fit, by type of machine.
    pub(crate) least: BTreeMap<usize, Totals>,
    /// The plan with the lowest objective, if another that cannot be told from it is recommended.
    pub(crate) optimum: Option<Box<Evaluated>>,
}

/// The limits of the job that a search respects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    Goal,
    Deadline,
    Budget,
    Anything,
}

/// The aim of a search: the objective and the limits.
#[derive(Clone, Copy)]
pub(crate) struct Aim {
    pub(crate) objective: Objective,
    /// Number of different clusters to rank.
    pub(crate) top: usize,
    pub(crate) max_simulations: Option<u64>,
    pub(crate) within: Within,
    /// A GPU that is left out.
    pub(crate) without_gpu: Option<&'static str>,
    /// Index of the only stack to consider, among those of the problem.
    pub(crate) stack: Option<usize>,
    /// Upper limits of plans, besides the deadline and the budget.
    pub(crate) ceilings: Ceilings,
    /// The complexity that plans must have; `None` admits any.
    pub(crate) complexity: Option<Complexity>,
}

impl Aim {
    /// Returns the aim of one plan with the lowest objective, without deadline and budget.
    pub(crate) fn best(objective: Objective) -> Self {
        Self {
            objective,
            top: 1,
            max_simulations: None,
            within: Within::Anything,
            without_gpu: None,
            stack: None,
            ceilings: Ceilings::NONE,
            complexity: None,
        }
    }
}

/// Upper limits of a training run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ceilings {
    /// Seconds of all steps.
    time_s: f64,
    /// Its price.
    cost_usd: f64,
}

impl Ceilings {
    pub(crate) const NONE: Self = Self { time_s: f64::INFINITY, cost_usd: f64::INFINITY };

    /// Limits the objective to `times` that of a training.
    pub(crate) fn near(objective: Objective, totals: Totals, times: f64) -> Self {
        match (objective, totals.cost_usd) {
            (Objective::Cost, Some(cost)) => Self { cost_usd: cost * times, ..Self::NONE },
            _ => Self { time_s: totals.time_s * times, ..Self::NONE },
        }
    }

    /// Both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { time_s: self.time_s.min(other.time_s), cost_usd: self.cost_usd.min(other.cost_usd) }
    }

    pub(crate) fn admit(self, totals: Totals) -> bool {
        totals.time_s <= self.time_s && totals.cost_usd.is_none_or(|cost| cost <= self.cost_usd)
    }
}

impl Within {
    /// Returns the deadline and the budget, each if it counts.
    pub(crate) fn of(self, deadline: Option<Seconds>, budget: Option<f64>) -> (Option<Seconds>, Option<f64>) {
        let in_time = matches!(self, Self::Goal | Self::Deadline);
        (deadline.filter(|_| in_time), budget.filter(|_| matches!(self, Self::Goal | Self::Budget)))
    }
}

/// The data that all searches of one space share.
pub(crate) struct Prepared<'a> {
    problem: &'a Problem,
    space: Space<'a>,
    /// Number of plans of each type of machine.
    plans: BTreeMap<usize, u64>,
    /// Those that may fit into memory.
    candidates: Vec<Candidate>,
    /// Statistics of the candidates that were dropped because they cannot fit.
    dropped: Found,
    room: Room,
    bounds: Bounds,
    feeding: Feeding,
    overheads: SearchOverheads,
    /// By choice.
    ordinary: Vec<Ordinary>,
    least: OnceLock<Vec<(u32, Totals)>>,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(problem: &'a Problem, fixed: &Fixed) -> Self {
        let space = Space::new(problem, fixed);
        let mut candidates = space.candidates();
        let mut plans: BTreeMap<usize, u64> = BTreeMap::new();
        for candidate in &candidates {
            *plans.entry(problem.place.kind(candidate.choice)).or_default() += u64::from(candidate.plans);
        }
        let room = Room::new(&space, &problem.place, &candidates);
        let mut dropped = Found::default();
        let lacks: Vec<Option<(Bytes, Bytes)>> = candidates.par_iter().map(|candidate| room.lacks(candidate)).collect();
        for (candidate, (needed, available)) in
            candidates.iter().zip(&lacks).filter_map(|(candidate, lacks)| Some((candidate, (*lacks)?)))
        {
            dropped.note_too_large(problem.place.kind(candidate.choice), u64::from(candidate.plans), needed, available);
        }
        let mut lacks = lacks.iter();
        candidates.retain(|_| lacks.next().is_some_and(Option::is_none));
        let bounds = Bounds::new(problem, fixed, &space, &candidates);
        let feeding = Feeding::new(&space, &bounds, &candidates);
        let overheads = SearchOverheads::new(problem, &candidates);
        let choices = 0..problem.place.choices().len();
        let ordinary = choices.map(|choice| ordinary(&problem.place.machine(choice, 1, None))).collect();
        let least = OnceLock::new();
        Self { problem, space, plans, candidates, dropped, room, bounds, feeding, overheads, ordinary, least }
    }

    pub(crate) fn search(&self, aim: Aim) -> Found {
        let searcher = Searcher::new(self, aim);
        let stacks = self.problem.place.stacks().len();
        let wanted = |kind: usize| searcher.uses_wanted_gpu(kind * stacks);
        let plans: BTreeMap<usize, u64> =
            self.plans.iter().map(|(kind, plans)| (*kind, *plans)).filter(|(kind, _)| wanted(*kind)).collect();
        let mut found = Found { candidates: plans.values().sum(), plans, ..Found::default() };
        let searcher = searcher.run(&mut found);
        found.count_dropped(&self.dropped);
        searcher.finish(found)
    }

    /// Returns lower bounds of the plans of each candidate that is fed and priced, by its number: the same for every
    /// aim.
    fn least(&self) -> &[(u32, Totals)] {
        self.least.get_or_init(|| {
            let least = |(number, candidate): (usize, &Candidate)| {
                let step_time_s = self.bounds.step_time(candidate).filter(|_| self.feeding.reaches(candidate))?;
                // Whether sharding the state is cheaper depends on the plan, so the bound is the smaller of the two
                // in each figure.
                let [whole, shared] = [false, true].map(|shared_out| self.totals(candidate, shared_out, step_time_s));
                Some((number as u32, whole.least(shared)))
            };
            self.candidates.par_iter().enumerate().filter_map(least).collect()
        })
    }

    /// Returns the complexity of a plan.
    pub(crate) fn complexity(&self, plan: &Evaluated) -> Complexity {
        Complexity::of(&plan.plan, self.ordinary[plan.choice])
    }

    /// Lists the complexities of plans on an aim's stacks that may stay below its ceilings, the simplest first.
    pub(crate) fn complexities(&self, aim: Aim) -> BTreeSet<Complexity> {
        let stacks = self.problem.place.stacks().len();
        let of_stack = |number: u32| {
            let choice = self.candidates[number as usize].choice;
            aim.stack.is_none_or(|wanted| choice % stacks == wanted)
        };
        let below = self.least().iter().filter(|(number, totals)| aim.ceilings.admit(*totals) && of_stack(*number));
        let mut seen: BTreeSet<(usize, ParallelSpec, Precision, [bool; 2])> = BTreeSet::new();
        let mut all = BTreeSet::new();
        for candidate in below.map(|(number, _)| &self.candidates[*number as usize]) {
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
        let variants = self.space.variants(candidate.choice, candidate.parallel, candidate.batch);
        variants.into_iter().map(move |variant| Complexity::of_variant(&candidate, &variant, ordinary))
    }

    fn may_be(&self, candidate: &Candidate, class: Complexity) -> bool {
        self.complexities_of(candidate).any(|own| own == class)
    }

    /// Computes the totals of a candidate whose step takes `step_time_s`. `shared_out` says whether its replicas shard
    /// their state.
    fn totals(&self, candidate: &Candidate, shared_out: bool, step_time_s: f64) -> Totals {
        let steps = self.problem.training.steps(candidate.batch.global);
        let feed = self.feeding.feed(candidate, step_time_s, steps);
        let time_s = feed.map_or(step_time_s * steps as f64, |feed| feed.time.0);
        let step_time_s = feed.map_or(step_time_s, |feed| feed.step_time.0);
        let overheads = self.overheads.of(candidate, shared_out);
        let Some((overheads, price)) = overheads.zip(self.problem.place.price(candidate.choice)) else {
            return Totals { step_time_s, time_s, elapsed_s: time_s, cost_usd: None };
        };
        let download = feed.map_or(Seconds(0.0), |feed| feed.download);
        let course = overheads.course(steps, Seconds(time_s), download);
        let input = self.feeding.input(candidate).map(|input| input.storage);
        let cost_usd = Some(overheads.cost(&course, price.hourly(), input).total());
        Totals { step_time_s, time_s, elapsed_s: course.elapsed().0, cost_usd }
    }
}

/// Returns the ordinary settings on a machine: mixed precision if its GPUs have the units for it, bfloat16 before half
/// precision; single precision on CPUs.
fn ordinary(machine: &Machine) -> Ordinary {
    let has_units = |precision: &Precision| machine.has_units(*precision).is_ok();
    let mixed = || [Precision::Bf16Mixed, Precision::Fp16Mixed].into_iter().find(has_units);
    let precision = machine.cluster.first().device.gpu().and_then(|_| mixed());
    Ordinary { precision: precision.unwrap_or(Precision::Fp32), own_scripts: !machine.stack.runs.own_models }
}

pub(crate) fn search(problem: &Problem, fixed: &Fixed, aim: Aim) -> Found {
    Prepared::new(problem, fixed).search(aim)
}

/// An item that waits for its turn, ordered by its bound; among equals, the earliest is first.
struct Waiting<T> {
    bound: f64,
    number: u64,
    item: T,
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Waiting<T> {}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Waiting<T> {
    /// Orders by descending bound, since the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.bound.total_cmp(&self.bound).then(other.number.cmp(&self.number))
    }
}

/// Candidates to look at and plans to simulate next, in parallel.
#[derive(Default)]
struct Turn {
    looks: Vec<(Candidate, f64)>,
    simulations: Vec<(Candidate, Box<Built>)>,
}

impl Turn {
    fn is_full(&self, looks: usize, simulations: usize) -> bool {
        self.looks.len() >= looks || self.simulations.len() >= simulations
    }
}

/// Work that is left: candidates in order of their coarse bounds, and plans that fit in order of their finer bounds.
struct Untried {
    coarse: std::iter::Peekable<Ranked>,
    fitting: BinaryHeap<Waiting<(Candidate, Box<Built>)>>,
    numbered: u64,
}

impl Untried {
    /// Returns the lowest bound of all that is left.
    fn bound(&mut self) -> Option<f64> {
        let coarse = self.coarse.peek().map(|(bound, _)| *bound);
        let fitting = self.fitting.peek().map(|waiting| waiting.bound);
        [coarse, fitting].into_iter().flatten().min_by(f64::total_cmp)
    }

    fn is_fitting_next(&mut self) -> bool {
        let fitting = self.fitting.peek().map_or(f64::INFINITY, |waiting| waiting.bound);
        fitting <= self.coarse.peek().map_or(f64::INFINITY, |(bound, _)| *bound) && !self.fitting.is_empty()
    }

    fn push(&mut self, bound: f64, candidate: Candidate, built: Built) {
        self.numbered += 1;
        self.fitting.push(Waiting { bound, number: self.numbered, item: (candidate, Box::new(built)) });
    }

    /// Takes the next work in order of its bound, as long as it can still beat the best plan. With `fits_first`, plans
    /// that fit are simulated before another candidate is looked at.
    fn turn(&mut self, searcher: &Searcher<'_>, looks: usize, simulations: usize, fits_first: bool) -> Turn {
        let mut turn = Turn::default();
        let limit = searcher.limit();
        while !turn.is_full(looks, simulations) && self.bound().is_some_and(|bound| bound < limit) {
            if self.is_fitting_next() || (fits_first && !self.fitting.is_empty()) {
                let Some(Waiting { bound, item: (candidate, built), .. }) = self.fitting.pop() else { break };
                if bound < searcher.limit_of(&candidate) {
                    turn.simulations.push((candidate, built));
                }
            } else {
                let Some((bound, number)) = self.coarse.next() else { break };
                let candidate = searcher.prepared.candidates[number as usize];
                let limit = searcher.limit_of(&candidate);
                if bound < limit {
                    turn.looks.push((candidate, limit));
                }
            }
        }
        turn
    }
}

impl Found {
    /// Counts the plans that were looked at and do not fit.
    pub(crate) fn count_too_large(&self) -> u64 {
        self.too_large.values().map(|(count, ..)| count).sum()
    }

    /// Counts the dropped plans as too large. The least memory that a type needs comes from plans that were looked at,
    /// where there are some, and not from a bound.
    fn count_dropped(&mut self, dropped: &Found) {
        for (choice, (plans, needed, available)) in &dropped.too_large {
            if self.plans.contains_key(choice) {
                self.too_large.entry(*choice).or_insert((0, *needed, *available)).0 += plans;
            }
        }
    }

    fn note_too_large(&mut self, choice: usize, plans: u64, needed: Bytes, available: Bytes) {
        let entry = self.too_large.entry(choice).or_insert((0, needed, available));
        *entry = (entry.0 + plans, entry.1.min(needed), available);
    }

    fn note_least(&mut self, choice: usize, totals: Totals) {
        self.least.entry(choice).and_modify(|least| *least = least.least(totals)).or_insert(totals);
    }
}

struct Searcher<'a> {
    prepared: &'a Prepared<'a>,
    aim: Aim,
    /// The best of each (type, number) of machines.
    best: BTreeMap<(usize, u32), Evaluated>,
    /// The fastest of each.
    fastest: BTreeMap<(usize, u32), Evaluated>,
}

impl<'a> Searcher<'a> {
    fn new(prepared: &'a Prepared<'a>, aim: Aim) -> Self {
        Self { prepared, aim, best: BTreeMap::new(), fastest: BTreeMap::new() }
    }

    /// Searches until nothing that is left could beat the best plan.
    fn run(mut self, found: &mut Found) -> Self {
        let mut untried = Untried { coarse: self.bounded(found).peekable(), fitting: BinaryHeap::new(), numbered: 0 };
        let (mut looks, mut looked) = (*LOOKS.start(), 0);
        let simulations =
            self.problem().enough.map_or(SIMULATIONS, |enough| SIMULATIONS.min(enough.simulations as usize));
        while let Some(bound) = untried.bound() {
            let left =
                self.aim.max_simulations.map_or(usize::MAX, |most| most.saturating_sub(found.simulated) as usize);
            let done = bound >= self.limit() || self.is_enough(looked, found.simulated);
            if left == 0 || done || self.problem().is_cancelled() {
                found.gap = self.gap(bound);
                break;
            }
            let fits_first = self.problem().enough.is_some_and(|enough| looked >= enough.looks);
            let turn = untried.turn(&self, looks, simulations.min(left), fits_first);
            looks = (2 * looks).min(*LOOKS.end());
            looked += self.take(turn, &mut untried, found);
        }
        self
    }

    /// Returns `true` if a plan was found and the search may stop without a proof that none is better.
    fn is_enough(&self, looked: u64, simulated: u64) -> bool {
        let reached = |enough: Enough| looked >= enough.looks || simulated >= enough.simulations;
        !self.best.is_empty() && self.problem().enough.is_some_and(reached)
    }

    /// Does the next work in parallel. Counts the looks that found a plan that fits.
    fn take(&mut self, turn: Turn, untried: &mut Untried, found: &mut Found) -> u64 {
        let Prepared { space, bounds, room, .. } = self.prepared;
        let look_at = |(candidate, limit): &(Candidate, f64)| {
            let worth = |plan: &Plan, seconds| self.assess(candidate, shares_out(plan), seconds);
            let ordinary = self.prepared.ordinary[candidate.choice];
            let wanted = |plan: &Plan| self.aim.complexity.is_none_or(|class| Complexity::of(plan, ordinary) == class);
            let matters =
                |plan: &Plan, seconds| wanted(plan) && worth(plan, seconds).is_some_and(|value| value < *limit);
            look(space, (bounds, room), candidate, matters)
        };
        let simulate = |(candidate, built): &(Candidate, Box<Built>)| simulated(space, bounds, candidate, &built.plan);
        let (looked, simulations): (Vec<Looked>, Vec<Option<Simulated>>) = rayon::join(
            || turn.looks.par_iter().map(look_at).collect(),
            || turn.simulations.par_iter().with_max_len(1).map(simulate).collect(),
        );
        let fitting = looked.iter().filter(|looked| !looked.fitting.is_empty()).count() as u64;
        for ((candidate, _), looked) in turn.looks.into_iter().zip(looked) {
            if let Some((needed, available)) = looked.least_too_large {
                let kind = self.problem().place.kind(candidate.choice);
                found.note_too_large(kind, looked.too_large, needed, available);
            }
            for built in looked.fitting {
                if let Some(bound) = self.assess(&candidate, shares_out(&built.plan), built.bound) {
                    untried.push(bound, candidate, built);
                }
            }
        }
        for ((candidate, built), simulated) in turn.simulations.into_iter().zip(simulations) {
            let Some(simulated) = simulated else { continue };
            found.simulated += 1;
            self.keep(&candidate, *built, simulated);
        }
        fitting
    }

    fn is_wanted(&self, choice: usize) -> bool {
        let stacks = self.problem().place.stacks().len();
        self.aim.stack.is_none_or(|wanted| choice % stacks == wanted) && self.uses_wanted_gpu(choice)
    }

    fn uses_wanted_gpu(&self, choice: usize) -> bool {
        let Some(unwanted) = self.aim.without_gpu else { return true };
        match &self.problem().place {
            place @ Place::Rented(_) => place.offer(choice).is_none_or(|(instance, _)| instance.gpu != unwanted),
            Place::Owned { machine, .. } => machine.cluster.first().device.gpu().is_none_or(|gpu| gpu.name != unwanted),
        }
    }

    fn problem(&self) -> &Problem {
        self.prepared.problem
    }

    fn feeding(&self) -> &Feeding {
        &self.prepared.feeding
    }

    /// Lists the candidates that could meet the goal, each with its bound, best first. Notes the lower bounds of each
    /// type of machine.
    fn bounded(&self, found: &mut Found) -> Ranked {
        let candidates = &self.prepared.candidates;
        let choice = |number: u32| candidates[number as usize].choice;
        let mut values = Vec::new();
        for (number, totals) in self.prepared.least().iter().filter(|(number, _)| self.is_wanted(choice(*number))) {
            found.note_least(self.problem().place.kind(choice(*number)), *totals);
            let candidate = &candidates[*number as usize];
            if self.aim.complexity.is_some_and(|class| !self.prepared.may_be(candidate, class)) {
                continue;
            }
            let value = self.value(*totals);
            // A training that never ends, on machines that somebody described so, is no candidate.
            if self.within_goal(*totals) && value.is_finite() {
                values.push((value, *number));
            }
        }
        Ranked::new(values)
    }

    /// Returns the objective of a candidate whose step takes this long; `None` if it cannot meet the goal. `shared_out`
    /// says whether its replicas shard their state.
    fn assess(&self, candidate: &Candidate, shared_out: bool, step_time_s: f64) -> Option<f64> {
        let totals = self.prepared.totals(candidate, shared_out, step_time_s);
        self.within_goal(totals).then(|| self.value(totals)).filter(|value| value.is_finite())
    }

    /// Returns the objective's value of a training run; less is better.
    fn value(&self, totals: Totals) -> f64 {
        match self.aim.objective {
            Objective::Time => totals.time_s,
            // Plans without a price are compared by time.
            Objective::Cost => totals.cost_usd.unwrap_or(totals.time_s),
        }
    }

    fn within_goal(&self, totals: Totals) -> bool {
        let (deadline, budget) = self.aim.within.of(self.problem().deadline, self.problem().budget);
        self.aim.ceilings.admit(totals)
            && deadline.is_none_or(|deadline| totals.elapsed_s <= deadline.0)
            && budget.is_none_or(|budget| totals.cost_usd.is_none_or(|cost| cost <= budget))
    }

    /// Returns the value that a candidate must beat to matter, given also the best plan on its own machines.
    fn limit_of(&self, candidate: &Candidate) -> f64 {
        let own = self.best.get(&self.site(candidate));
        own.map_or(f64::INFINITY, |kept| self.worth(kept)).min(self.limit())
    }

    /// Returns the type and number of a candidate's machines, on which all stacks compete.
    fn site(&self, candidate: &Candidate) -> (usize, u32) {
        (self.problem().place.kind(candidate.choice), candidate.instances)
    }

    /// Returns the value that every candidate must beat to matter.
    fn limit(&self) -> f64 {
        let mut values: Vec<f64> = self.best.values().map(|kept| self.worth(kept)).collect();
        values.sort_by(f64::total_cmp);
        values.get(self.aim.top.max(1) - 1).copied().unwrap_or(f64::INFINITY)
    }

    fn worth(&self, evaluated: &Evaluated) -> f64 {
        match self.aim.objective {
            Objective::Time => evaluated.time_s,
            Objective::Cost => evaluated.cost_usd.unwrap_or(evaluated.time_s),
        }
    }

    fn keep(&mut self, candidate: &Candidate, built: Built, simulated: Simulated) {
        let (choice, Built { plan, memory_peak, .. }) = (candidate.choice, built);
        let Simulated { step_time_s, outcome } = simulated;
        let plan = match self.feeding().input(candidate) {
            Some(input) => plan.with_input(input).expect("counts of an input are checked where a job is read"),
            None => plan,
        };
        let totals = self.prepared.totals(candidate, shares_out(&plan), step_time_s);
        let steps = self.problem().training.steps(candidate.batch.global);
        let fed = self.feeding().feed(candidate, step_time_s, steps);
        let Totals { step_time_s, time_s, elapsed_s, cost_usd } = totals;
        let download_s = fed.map_or(0.0, |feed| feed.download.0);
        let evaluated =
            Evaluated { plan, choice, step_time_s, time_s, elapsed_s, download_s, cost_usd, memory_peak, outcome };
        let key = self.site(candidate);
        if self.fastest.get(&key).is_none_or(|kept| evaluated.time_s < kept.time_s) {
            self.fastest.insert(key, evaluated.clone());
        }
        if !self.within_goal(totals) {
            return;
        }
        let worth = self.worth(&evaluated);
        if self.best.get(&key).is_none_or(|kept| worth < self.worth(kept)) {
            self.best.insert(key, evaluated);
        }
    }

    /// Computes how much better than the best plan an unseen plan with this bound could be.
    fn gap(&self, bound: f64) -> f64 {
        let best = self.best.values().map(|kept| self.worth(kept)).fold(f64::INFINITY, f64::min);
        if best.is_finite() { (1.0 - bound / best).max(0.0) } else { 1.0 }
    }

    fn finish(mut self, mut found: Found) -> Found {
        let mut best: Vec<Evaluated> = std::mem::take(&mut self.best).into_values().collect();
        best.sort_by(|a, b| self.worth(a).total_cmp(&self.worth(b)));
        best.truncate(self.aim.top.max(1));
        found.best = best;
        found.fastest = std::mem::take(&mut self.fastest).into_values().collect();
        found
    }
}

/// Returns the Pareto front of time and cost, fastest first.
pub(crate) fn pareto(mut all: Vec<Evaluated>) -> Vec<Evaluated> {
    let cost = |evaluated: &Evaluated| evaluated.cost_usd.unwrap_or(0.0);
    all.sort_by(|a, b| a.time_s.total_cmp(&b.time_s).then(cost(a).total_cmp(&cost(b))));
    let mut cheapest = f64::INFINITY;
    all.retain(|evaluated| {
        let better = cost(evaluated) < cheapest;
        cheapest = cheapest.min(cost(evaluated));
        better
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Resources, problem};
    use crate::space::Variant;
    use trainyard_plan::{GlobalBatch, JobSpec, StageId, Stages};
    use trainyard_sim::{footprint, step_time, step_time_bound};

    /// Samples are there, or are so large that some machines wait for them.
    fn small(objective: Objective, bytes_per_sample: Option<f64>, stack: &str) -> Problem {
        let mut job = JobSpec::default();
        job.cluster.stack = Some(stack.into());
        job.model.name = Some("gpt2-large".into());
        job.data.samples = Some(10_000);
        job.data.bytes_per_sample = bytes_per_sample;
        job.training.global_batch = Some(GlobalBatch::Exactly(8));
        job.cluster.instances = Some(vec!["p3.*".into(), "g4dn.12xlarge".into()]);
        job.cluster.max_instances = Some(2);
        job.goal.objective = Some(objective);
        problem(&job, Resources::default()).expect("a solvable job")
    }

    /// The oracle: build, check and simulate every variant of every candidate.
    fn exhaustive(problem: &Problem, fixed: &Fixed, aim: Aim) -> f64 {
        let prepared = Prepared::new(problem, fixed);
        let Prepared { space, bounds, .. } = &prepared;
        let searcher = Searcher::new(&prepared, aim);
        let value_of = |candidate: &Candidate, coarse: f64, variant: &Variant| -> Option<f64> {
            let weights = bounds.weights(candidate).expect("a GPU prices everything");
            let machine = space.machine(candidate);
            let runs = candidate.parallel.pipeline * variant.virtual_stages;
            let stages = Stages::balanced(weights, runs).expect("as many layers as runs");
            let plan = space.plan(candidate, variant, stages.specs(), &machine).expect("a valid plan");
            let needed = footprint(&plan, &machine);
            let runs: Vec<_> = plan.stages().runs_of(StageId(0)).collect();
            let lacks = prepared.room.first_stage_lacks(candidate, variant, &runs);
            assert!(lacks.is_none_or(|(lacks, _)| lacks <= needed.total(StageId(0))), "{candidate:?} {variant:?}");
            needed.fits().ok()?;
            let simulated = step_time(&plan, &machine).expect("a GPU prices everything").0;
            let fine = step_time_bound(&plan, &machine).expect("a GPU prices everything").0;
            let value = searcher.value(prepared.totals(candidate, shares_out(&plan), simulated));
            assert!(coarse <= value * (1.0 + 1e-6), "the coarse bound is not one: {candidate:?} {variant:?}");
            assert!(fine <= simulated * (1.0 + 1e-6), "the fine bound is not one: {candidate:?} {variant:?}");
            Some(value)
        };
        searcher
            .bounded(&mut Found::default())
            .collect::<Vec<_>>()
            .into_par_iter()
            .flat_map_iter(|(coarse, number)| {
                let candidate = &prepared.candidates[number as usize];
                let variants = space.variants(candidate.choice, candidate.parallel, candidate.batch);
                variants
                    .into_iter()
                    .filter_map(move |variant| value_of(candidate, coarse, &variant))
                    .collect::<Vec<_>>()
            })
            .min_by(f64::total_cmp)
            .expect("something fits")
    }

    #[test]
    fn the_search_finds_what_trying_everything_finds() {
        for (fixed, bytes, stack) in [
            (&["instances=1"][..], None, "auto"),
            (&["instances=2", "parallel.pipeline=4"], None, "auto"),
            (&["parallel.tensor=2", "parallel.context=2", "offload=none"], None, "pytorch"),
            (&["instances=1", "parallel.pipeline=2"], Some(5e7), "auto"),
        ] {
            let fixed = Fixed::parse(&fixed.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("fields");
            for objective in [Objective::Cost, Objective::Time] {
                let problem = small(objective, bytes, stack);
                let aim = Aim { top: 3, within: Within::Goal, ..Aim::best(objective) };
                let found = search(&problem, &fixed, aim);
                let best = match objective {
                    Objective::Cost => found.best[0].cost_usd.expect("rented machines cost"),
                    Objective::Time => found.best[0].time_s,
                };
                let ratio = best / exhaustive(&problem, &fixed, aim);
                assert!((ratio - 1.0).abs() < 1e-9, "{fixed:?} {objective:?}: {ratio}");
                let (simulated, candidates) = (found.simulated, found.candidates);
                assert!(simulated < candidates / 2, "bounds prune: {simulated} of {candidates}");
                assert!(found.gap.abs() < f64::EPSILON);
            }
        }
    }

    #[test]
    fn a_search_that_is_cut_short_says_how_much_better_a_plan_could_be() {
        let problem = small(Objective::Cost, None, "auto");
        let aim = Aim { top: 5, max_simulations: Some(1), within: Within::Goal, ..Aim::best(Objective::Cost) };
        let cut = search(&problem, &Fixed::default(), aim);
        assert!(cut.gap > 0.0 && cut.gap < 1.0, "{}", cut.gap);
    }
}
