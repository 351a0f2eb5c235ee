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

use super::aim::{Aim, amount};
use super::complexity::Complexity;
use super::evaluate::{Fitting, Looked, Simulated, Times};
use super::found::Found;
use super::input_stalls::InputStalls;
use super::prepared::Prepared;
use super::space::{Candidate, Variant};
use super::totals::{Evaluated, Totals};
use crate::problem::{Effort, Problem};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use trainyard_plan::Fixed;

/// Number of candidates looked at in parallel, at first and at most, and of plans simulated in parallel. They are few,
/// so that the result of one spares later ones; and fixed, so that the result does not depend on the thread count.
const LOOKS: std::ops::RangeInclusive<usize> = 2..=32;

const SIMULATIONS: usize = 2;

impl Prepared<'_> {
    /// Searches for the best plans by an aim.
    pub(crate) fn search(&self, aim: Aim) -> Found {
        let searcher = Searcher::new(self, aim);
        let stacks = self.problem.place.stacks().len();
        let wanted = |kind: usize| searcher.sought.uses_wanted_gpu(kind * stacks);
        let plans: BTreeMap<usize, u64> =
            self.plans.iter().map(|(kind, plans)| (*kind, *plans)).filter(|(kind, _)| wanted(*kind)).collect();
        let mut found = Found { candidates: plans.values().sum(), plans, ..Found::default() };
        let searcher = searcher.run(&mut found);
        found.count_dropped(&self.dropped);
        searcher.finish(found)
    }

    /// Returns the best by an aim of plans that were simulated.
    pub(super) fn best_of(&self, plans: &[Evaluated], aim: Aim) -> Option<Evaluated> {
        let sought = Sought { prepared: self, aim };
        let admitted = plans.iter().filter(|plan| sought.admits(plan));
        let value = |plan: &Evaluated| sought.value(Totals::found(plan));
        admitted.min_by(|one, other| value(one).total_cmp(&value(other))).cloned()
    }
}

/// Searches for the best plans that have the held fields.
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

/// Numbers of candidates to look at, and plans to simulate next, in parallel.
#[derive(Default)]
struct Turn {
    looks: Vec<(u32, f64)>,
    simulations: Vec<(u32, Fitting)>,
}

impl Turn {
    fn is_full(&self, looks: usize, simulations: usize) -> bool {
        self.looks.len() >= looks || self.simulations.len() >= simulations
    }
}

/// Work that is left: candidates in order of their coarse bounds, and plans that fit in order of their finer bounds.
struct Untried<'a> {
    coarse: std::iter::Peekable<Box<dyn Iterator<Item = (f64, u32)> + 'a>>,
    fitting: BinaryHeap<Waiting<(u32, Fitting)>>,
    numbered: u64,
}

impl Untried<'_> {
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

    fn push(&mut self, bound: f64, candidate: u32, fitting: Fitting) {
        self.numbered += 1;
        self.fitting.push(Waiting { bound, number: self.numbered, item: (candidate, fitting) });
    }

    /// Takes the next work in order of its bound, as long as it can still beat the best plan. With `fits_first`, plans
    /// that fit are simulated before another candidate is looked at.
    fn turn(&mut self, searcher: &Searcher<'_>, looks: usize, simulations: usize, fits_first: bool) -> Turn {
        let mut turn = Turn::default();
        let limit = searcher.limit();
        while !turn.is_full(looks, simulations) && self.bound().is_some_and(|bound| bound < limit) {
            if self.is_fitting_next() || (fits_first && !self.fitting.is_empty()) {
                let Some(Waiting { bound, item: (number, fitting), .. }) = self.fitting.pop() else { break };
                if bound < searcher.limit_of(number) {
                    turn.simulations.push((number, fitting));
                }
            } else {
                let Some((bound, number)) = self.coarse.next() else { break };
                let limit = searcher.limit_of(number);
                if bound < limit {
                    turn.looks.push((number, limit));
                }
            }
        }
        turn
    }
}

/// What a search looks for, and where.
#[derive(Clone, Copy)]
struct Sought<'a> {
    prepared: &'a Prepared<'a>,
    aim: Aim,
}

impl<'a> Sought<'a> {
    /// Iterates over the candidates that could meet the goal, each with its bound, best first.
    fn bounded(self) -> impl Iterator<Item = (f64, u32)> + use<'a> {
        let Self { prepared, aim } = self;
        let limit = aim.ceilings.of(aim.objective);
        let ranked = prepared.ranked(aim.objective).iter().copied().take_while(move |(value, _)| *value <= limit);
        ranked.filter(move |(_, number)| {
            let (candidate, least) = (self.candidate(*number), prepared.least()[*number as usize]);
            self.is_wanted(candidate.choice)
                && (!aim.on_one_machine || candidate.instances == 1)
                && least.is_some_and(|totals| self.within_goal(totals))
                && aim.global.is_none_or(|wanted| candidate.batch.global == wanted)
                && aim.only.is_none_or(|wanted| *candidate == wanted)
                && aim.complexity.is_none_or(|class| prepared.may_be(candidate, class))
        })
    }

    fn is_wanted(&self, choice: usize) -> bool {
        let stacks = self.problem().place.stacks().len();
        self.aim.stack.is_none_or(|wanted| choice % stacks == wanted) && self.uses_wanted_gpu(choice)
    }

    fn uses_wanted_gpu(&self, choice: usize) -> bool {
        let Some(unwanted) = self.aim.without_gpu else { return true };
        let gpu = self.prepared.space.alone(choice).cluster.first().device.gpu();
        gpu.is_none_or(|gpu| gpu.name != unwanted)
    }

    fn candidate(&self, number: u32) -> &'a Candidate {
        &self.prepared.candidates[number as usize]
    }

    fn problem(&self) -> &'a Problem {
        self.prepared.problem
    }

    /// Returns the objective of a candidate with plans that take this long; `None` if it cannot meet the goal. `shards_state`
    /// says whether its replicas shard their state.
    fn assess(&self, candidate: &Candidate, shards_state: bool, times: Times) -> Option<f64> {
        let totals = self.prepared.totals(candidate, shards_state, times);
        self.within_goal(totals).then(|| self.value(totals)).filter(|value| value.is_finite())
    }

    /// Returns `true` if a plan that was simulated is one that is looked for.
    fn admits(&self, plan: &Evaluated) -> bool {
        self.is_wanted(plan.choice)
            && (!self.aim.on_one_machine || plan.plan.cluster().instances == 1)
            && self.aim.complexity.is_none_or(|class| self.prepared.complexity(plan) == class)
            && self.within_goal(Totals::found(plan))
    }

    /// Returns the objective's value of a training run; less is better.
    fn value(&self, totals: Totals) -> f64 {
        amount(self.aim.objective, totals)
    }

    fn within_goal(&self, totals: Totals) -> bool {
        let (deadline, budget) = self.aim.within.of(self.problem().deadline, self.problem().budget);
        let used = 1.0 - self.aim.left_over;
        self.aim.ceilings.admit(totals)
            && deadline.is_none_or(|deadline| totals.elapsed_s <= used * deadline.0)
            && budget.is_none_or(|budget| totals.cost_usd.is_none_or(|cost| cost <= used * budget))
    }
}

struct Searcher<'a> {
    sought: Sought<'a>,
    /// The best of each (type, number) of machines.
    best: BTreeMap<(usize, u32), Evaluated>,
    fastest: BTreeMap<(usize, u32), Evaluated>,
    /// Where the search may be cut short, the fastest of each choice, number of machines and complexity.
    simulated: BTreeMap<(usize, u32, Complexity), Evaluated>,
}

impl<'a> Searcher<'a> {
    fn new(prepared: &'a Prepared<'a>, aim: Aim) -> Self {
        Self {
            sought: Sought { prepared, aim },
            best: BTreeMap::new(),
            fastest: BTreeMap::new(),
            simulated: BTreeMap::new(),
        }
    }

    /// Searches until nothing that is left could beat the best plan.
    fn run(mut self, found: &mut Found) -> Self {
        let coarse: Box<dyn Iterator<Item = (f64, u32)> + 'a> = Box::new(self.sought.bounded());
        let mut untried = Untried { coarse: coarse.peekable(), fitting: BinaryHeap::new(), numbered: 0 };
        let (mut looks, mut looked) = (*LOOKS.start(), 0);
        let simulations =
            self.sought.problem().effort.map_or(SIMULATIONS, |effort| SIMULATIONS.min(effort.simulations as usize));
        while let Some(bound) = untried.bound() {
            let left = self
                .sought
                .aim
                .max_simulations
                .map_or(usize::MAX, |most| most.saturating_sub(found.simulated) as usize);
            let done = bound >= self.limit() || self.is_enough(looked, found.simulated);
            if left == 0 || done || self.sought.problem().is_cancelled() {
                found.gap = self.gap(bound);
                break;
            }
            let fits_first = self.sought.problem().effort.is_some_and(|effort| looked >= effort.looks);
            let turn = untried.turn(&self, looks, simulations.min(left), fits_first);
            looks = (2 * looks).min(*LOOKS.end());
            looked += self.take(turn, &mut untried, found);
        }
        self
    }

    /// Returns `true` if a plan was found and the search may stop without a proof that none is better.
    fn is_enough(&self, looked: u64, simulated: u64) -> bool {
        let reached = |effort: Effort| looked >= effort.looks || simulated >= effort.simulations;
        !self.best.is_empty() && self.sought.problem().effort.is_some_and(reached)
    }

    /// Does the next work in parallel. Counts the looks that found a plan that fits.
    fn take(&mut self, turn: Turn, untried: &mut Untried<'_>, found: &mut Found) -> u64 {
        let look_at = |(number, limit): &(u32, f64)| {
            let candidate = self.sought.candidate(*number);
            let ordinary = self.sought.prepared.ordinary[candidate.choice];
            let wanted = |variant: &Variant| {
                self.sought
                    .aim
                    .complexity
                    .is_none_or(|class| Complexity::of_variant(candidate, variant, ordinary) == class)
            };
            let worth = |variant: &Variant, times| self.sought.assess(candidate, variant.shares_out(), times);
            let matters =
                |variant: &Variant, times| wanted(variant) && worth(variant, times).is_some_and(|value| value < *limit);
            self.sought.prepared.look(*number, matters)
        };
        let simulate = |(number, fitting): &(u32, Fitting)| self.sought.prepared.simulated(*number, fitting);
        let (looked, simulations): (Vec<Looked>, Vec<Option<Simulated>>) = rayon::join(
            || turn.looks.par_iter().map(look_at).collect(),
            || turn.simulations.par_iter().with_max_len(1).map(simulate).collect(),
        );
        let fitting = looked.iter().filter(|looked| !looked.fitting.is_empty()).count() as u64;
        for ((number, _), looked) in turn.looks.into_iter().zip(looked) {
            let candidate = self.sought.candidate(number);
            if let Some(own) = looked.too_large {
                found.note_too_large(self.sought.problem().place.kind(candidate.choice), own);
            }
            for fitting in looked.fitting {
                if let Some(bound) = self.sought.assess(candidate, fitting.variant.shares_out(), fitting.cut.times) {
                    untried.push(bound, number, fitting);
                }
            }
        }
        for ((number, fitting), simulated) in turn.simulations.into_iter().zip(simulations) {
            let Some(simulated) = simulated else { continue };
            found.simulated += 1;
            self.keep(number, &fitting, simulated);
        }
        fitting
    }

    fn input_stalls(&self) -> &InputStalls {
        &self.sought.prepared.input_stalls
    }

    /// Returns the value that a candidate must beat to matter, given also the best plan on its own machines.
    fn limit_of(&self, number: u32) -> f64 {
        let own = self.best.get(&self.site(self.sought.candidate(number)));
        own.map_or(f64::INFINITY, |kept| self.worth(kept)).min(self.limit())
    }

    /// Returns the type and number of a candidate's machines, on which all stacks compete.
    fn site(&self, candidate: &Candidate) -> (usize, u32) {
        (self.sought.problem().place.kind(candidate.choice), candidate.instances)
    }

    /// Returns the value that every candidate must beat to matter.
    fn limit(&self) -> f64 {
        let mut values: Vec<f64> = self.best.values().map(|kept| self.worth(kept)).collect();
        values.sort_by(f64::total_cmp);
        values.get(self.sought.aim.top.max(1) - 1).copied().unwrap_or(f64::INFINITY)
    }

    fn worth(&self, evaluated: &Evaluated) -> f64 {
        self.sought.value(Totals::found(evaluated))
    }

    fn keep(&mut self, number: u32, fitting: &Fitting, simulated: Simulated) {
        let candidate = &self.sought.prepared.candidates[number as usize];
        let (choice, memory_peak, plan) =
            (candidate.choice, fitting.memory_peak, self.sought.prepared.plan(candidate, fitting));
        let Simulated { step_time_s, outcome } = simulated;
        let plan = match self.input_stalls().input(candidate) {
            Some(input) => plan.with_input(input).expect("counts of an input are checked where a job is read"),
            None => plan,
        };
        let times = Times { step: step_time_s, ..fitting.cut.times };
        let totals = self.sought.prepared.totals(candidate, fitting.variant.shares_out(), times);
        let steps = self.sought.problem().training.steps(candidate.batch.global);
        let fed = self.input_stalls().of(candidate, step_time_s, steps);
        let Totals { step_time_s, time_s, elapsed_s, queued_s, cost_usd, .. } = totals;
        let (download_s, requests) = fed.map_or((0.0, 0.0), |feed| (feed.download.0, feed.requests));
        let evaluated = Evaluated {
            plan,
            choice,
            step_time_s,
            time_s,
            elapsed_s,
            queued_s,
            forward: times.forward,
            download_s,
            requests,
            cost_usd,
            memory_peak,
            outcome,
        };
        let key = self.site(candidate);
        keep_faster(&mut self.fastest, key, &evaluated);
        if self.sought.aim.max_simulations.is_some() {
            let key = (evaluated.choice, candidate.instances, self.sought.prepared.complexity(&evaluated));
            keep_faster(&mut self.simulated, key, &evaluated);
        }
        if !self.sought.within_goal(totals) {
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
        best.truncate(self.sought.aim.top.max(1));
        found.best = best;
        found.fastest = std::mem::take(&mut self.fastest).into_values().collect();
        found.simulated_plans = std::mem::take(&mut self.simulated).into_values().collect();
        found
    }
}

/// Keeps a plan if it is faster than the one that is kept.
fn keep_faster<K: Ord>(kept: &mut BTreeMap<K, Evaluated>, key: K, plan: &Evaluated) {
    if kept.get(&key).is_none_or(|own| plan.elapsed_s < own.elapsed_s) {
        kept.insert(key, plan.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking;
    use crate::search::Within;
    use crate::search::space::Variant;
    use trainyard_plan::{Objective, Plan, StageId};
    use trainyard_sim::{footprint, step_time, step_time_bound};

    /// Samples are there, or are so large that some machines wait for them.
    fn small(objective: Objective, bytes_per_sample: Option<f64>, stack: &str) -> Problem {
        let mut job = asking::job("gpt2-large", 8, &["p3.*", "g4dn.12xlarge"], 2);
        job.cluster.stack = Some(stack.into());
        job.data.samples = Some(10_000);
        job.data.bytes_per_sample = bytes_per_sample;
        job.goal.objective = Some(objective);
        asking::solvable(&job)
    }

    /// The oracle: build, check and simulate every variant of every candidate.
    fn exhaustive(problem: &Problem, fixed: &Fixed, aim: Aim) -> f64 {
        let prepared = Prepared::new(problem, fixed);
        let Prepared { space, bounds, .. } = &prepared;
        let searcher = Searcher::new(&prepared, aim);
        let value_of = |candidate: &Candidate, coarse: f64, variant: &Variant| -> Option<f64> {
            let machine = space.machine(candidate);
            let runs = candidate.parallel.pipeline * variant.virtual_stages;
            let stages = bounds.cut(candidate, runs).expect("as many layers as runs");
            let plan = space.plan(candidate, variant, stages.to_vec(), &machine).expect("a valid plan");
            let needed = footprint(&plan, &machine);
            let runs: Vec<_> = plan.stages().chunks_of(StageId(0)).collect();
            let shortfall = prepared.memory.first_stage_shortfall(space, candidate, variant, &runs);
            assert!(
                shortfall.is_none_or(|bound| bound.needed <= needed.total(StageId(0))),
                "{candidate:?} {variant:?}"
            );
            needed.fits().ok()?;
            let simulated = step_time(&plan, &machine).expect("a GPU prices everything").0;
            let fine = step_time_bound(&plan, &machine).expect("a GPU prices everything").0;
            let value = searcher.sought.value(prepared.totals(
                candidate,
                variant.shares_out(),
                Times { step: simulated, forward: crate::problem::ForwardTimes::default() },
            ));
            assert!(coarse <= value * (1.0 + 1e-6), "the coarse bound is not one: {candidate:?} {variant:?}");
            assert!(fine <= simulated * (1.0 + 1e-6), "the fine bound is not one: {candidate:?} {variant:?}");
            Some(value)
        };
        searcher
            .sought
            .bounded()
            .collect::<Vec<_>>()
            .into_par_iter()
            .flat_map_iter(|(coarse, number)| {
                let candidate = &prepared.candidates[number as usize];
                let variants = space.variants_of(candidate);
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
            let fixed = asking::held(fixed);
            for objective in [Objective::Cost, Objective::Time] {
                let problem = small(objective, bytes, stack);
                let aim = Aim { top: 3, within: Within::Goal, ..Aim::best(objective) };
                let found = search(&problem, &fixed, aim);
                let best = match objective {
                    Objective::Cost => found.best[0].cost_usd.expect("rented machines cost"),
                    Objective::Time => found.best[0].elapsed_s,
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
        let simulated: Vec<&Plan> = cut.simulated_plans.iter().map(|plan| &plan.plan).collect();
        assert_eq!(simulated, cut.best.iter().map(|plan| &plan.plan).collect::<Vec<_>>(), "one was simulated");
    }
}
