//! Exact search by bounds: candidates are tried in the order of what they could reach at best, until none that is
//! left could still enter the list of the best.
//!
//! A coarse bound needs only the prices of a model's distinct layers: no stage computes less than its share of all
//! layers, and no plan does more micro-batches at once than it has stages. A candidate that passes it is looked at in
//! all its variants: each gets its stages cut, its memory checked and a finer bound, and the one that could be best is
//! simulated first. Both bounds are admissible, so what is never simulated is proved to be no better.
//!
//! The list of the best holds one plan for each type and number of machines. On the same machines a plan that takes
//! longer also costs more, so a candidate must beat the best that is known on its own machines to matter at all.

use crate::bounds::Bounds;
use crate::evaluate::{Looked, look};
use crate::feeding::Feeding;
use crate::fix::Fixed;
use crate::overheads::{SearchOverheads, shares_out};
use crate::problem::{Place, Problem};
use crate::room::Room;
use crate::space::{Candidate, Space};
use rayon::prelude::*;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::Device;
use trainyard_plan::{Objective, Plan};
use trainyard_units::{Bytes, Seconds};

/// Candidates that are evaluated at the same time, at first and at most: few until something is known that others must
/// beat. Fixed, so that the result does not depend on the thread count.
const BATCHES: std::ops::RangeInclusive<usize> = 2..=32;

/// A plan with what it takes.
#[derive(Clone, Debug)]
pub(crate) struct Evaluated {
    /// The plan.
    pub plan: Plan,
    /// Which type of machine of the place.
    pub(crate) choice: usize,
    /// Seconds of a step, with what it waits for its samples.
    pub step_time_s: f64,
    /// Seconds of all steps.
    pub time_s: f64,
    /// Seconds from the request for machines to the last checkpoint.
    pub elapsed_s: f64,
    /// Seconds of downloading before the first step.
    pub(crate) download_s: f64,
    /// Price of the training, with what it takes besides its steps.
    pub cost_usd: Option<f64>,
    /// What the fullest rank needs.
    pub memory_peak: Bytes,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The best plan of each type and number of machines, best first, within deadline and budget.
    pub best: Vec<Evaluated>,
    /// Of each type and number of machines, the fastest plan that was simulated. It is the cheapest there too, whatever an
    /// hour costs.
    pub fastest: Vec<Evaluated>,
    /// Plans in the space.
    pub candidates: u64,
    /// Plans that were simulated.
    pub simulated: u64,
    /// How much better than the best an unseen plan could still be.
    pub gap: f64,
    /// Plans in the space, by type of machine.
    pub plans: BTreeMap<usize, u64>,
    /// Plans that do not fit into memory, by type of machine: how many were looked at, and the least that was needed.
    pub too_large: BTreeMap<usize, (u64, Bytes, Bytes)>,
}

/// What to look for.
#[derive(Clone, Copy)]
pub(crate) struct Aim {
    pub(crate) objective: Objective,
    /// How many different clusters to rank.
    pub(crate) top: usize,
    pub(crate) max_simulations: Option<u64>,
    /// Whether deadline and budget count.
    pub(crate) within_goal: bool,
    /// A GPU that is left out.
    pub(crate) without_gpu: Option<&'static str>,
}

pub(crate) fn search(problem: &Problem, fixed: &Fixed, aim: Aim) -> Found {
    let space = Space::new(problem, fixed);
    let mut searcher = Searcher::new(problem, aim);
    let mut all = space.candidates();
    all.retain(|candidate| searcher.uses_wanted_gpu(candidate));
    let mut found =
        Found { candidates: all.iter().map(|candidate| u64::from(candidate.plans)).sum(), ..Found::default() };
    for candidate in &all {
        *found.plans.entry(candidate.choice).or_default() += u64::from(candidate.plans);
    }
    let room = Room::new(&space, &problem.place, &all);
    let mut dropped = Found::default();
    all.retain(|candidate| dropped.has_room(&room, candidate));
    let bounds = Bounds::new(problem, fixed, &all);
    searcher.feeding = Feeding::new(&space, &bounds, &all);
    searcher.overheads = SearchOverheads::new(problem, &all);
    let mut order = searcher.bounded(&bounds, all).into_iter().peekable();
    let mut batch = *BATCHES.start();
    while let Some((next, _)) = order.peek() {
        let capped = aim.max_simulations.is_some_and(|most| found.simulated >= most);
        if *next >= searcher.limit() || capped {
            found.gap = searcher.gap(*next);
            break;
        }
        let chunk: Vec<(Candidate, f64)> = order
            .by_ref()
            .map(|(bound, candidate)| (bound, searcher.limit_of(&candidate), candidate))
            .filter(|(bound, limit, _)| bound < limit)
            .map(|(_, limit, candidate)| (candidate, limit))
            .take(batch)
            .collect();
        batch = (2 * batch).min(*BATCHES.end());
        let looked: Vec<Looked> = chunk
            .par_iter()
            .map(|(candidate, limit)| {
                let value = |plan: &Plan, step_time_s| searcher.assess(candidate, shares_out(plan), step_time_s);
                look(&space, &bounds, candidate, *limit, value)
            })
            .collect();
        for ((candidate, _), looked) in chunk.iter().zip(looked) {
            if let Some((needed, available)) = looked.least_too_large {
                found.note_too_large(candidate.choice, looked.too_large, needed, available);
            }
            found.simulated += looked.simulated;
            if let Some((step_time_s, plan, memory_peak)) = looked.best {
                searcher.keep(candidate, *plan, step_time_s, memory_peak);
            }
        }
    }
    found.count_dropped(dropped);
    searcher.finish(found)
}

impl Found {
    /// How many plans were looked at and do not fit.
    pub(crate) fn count_too_large(&self) -> u64 {
        self.too_large.values().map(|(count, ..)| count).sum()
    }

    /// Whether a candidate may fit into memory; its plans are counted if it cannot.
    fn has_room(&mut self, room: &Room, candidate: &Candidate) -> bool {
        let Some((needed, available)) = room.lacks(candidate) else { return true };
        self.note_too_large(candidate.choice, u64::from(candidate.plans), needed, available);
        false
    }

    /// Adds plans that were dropped for the least that they need: how much one needs is told by a plan, where one was
    /// looked at, and not by its bound.
    fn count_dropped(&mut self, dropped: Found) {
        for (choice, (plans, needed, available)) in dropped.too_large {
            self.too_large.entry(choice).or_insert((0, needed, available)).0 += plans;
        }
    }

    fn note_too_large(&mut self, choice: usize, plans: u64, needed: Bytes, available: Bytes) {
        let entry = self.too_large.entry(choice).or_insert((0, needed, available));
        *entry = (entry.0 + plans, entry.1.min(needed), available);
    }
}

struct Searcher<'a> {
    problem: &'a Problem,
    aim: Aim,
    feeding: Feeding,
    overheads: SearchOverheads,
    /// The best of each (type, number) of machines.
    best: BTreeMap<(usize, u32), Evaluated>,
    /// The fastest of each.
    fastest: BTreeMap<(usize, u32), Evaluated>,
}

/// A training as a whole.
#[derive(Clone, Copy)]
struct Totals {
    time_s: f64,
    elapsed_s: f64,
    cost_usd: Option<f64>,
}

impl<'a> Searcher<'a> {
    fn new(problem: &'a Problem, aim: Aim) -> Self {
        Self {
            problem,
            aim,
            feeding: Feeding::default(),
            overheads: SearchOverheads::default(),
            best: BTreeMap::new(),
            fastest: BTreeMap::new(),
        }
    }

    fn uses_wanted_gpu(&self, candidate: &Candidate) -> bool {
        let Some(unwanted) = self.aim.without_gpu else { return true };
        match &self.problem.place {
            Place::Rented(rental) => rental.instances[candidate.choice].0.gpu != unwanted,
            Place::Owned { machine, .. } => match &machine.cluster.first().device {
                Device::Gpu(gpu) => gpu.name != unwanted,
                Device::Measured(_) => true,
            },
        }
    }

    /// The candidates that could meet the goal, each with the best value it could reach, best first.
    fn bounded(&self, bounds: &Bounds, candidates: Vec<Candidate>) -> Vec<(f64, Candidate)> {
        let mut order: Vec<(f64, Candidate)> = candidates
            .into_iter()
            .filter(|candidate| self.feeding.reaches(candidate))
            .filter_map(|candidate| {
                let step_time_s = bounds.step_time(&candidate)?;
                // Which of the two is cheaper depends on the plan: what none of them beats is the less of both.
                let values = [false, true].map(|shared_out| self.assess(&candidate, shared_out, step_time_s));
                Some((values.into_iter().flatten().min_by(f64::total_cmp)?, candidate))
            })
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        order
    }

    /// The value of a candidate that takes this long; nothing if it cannot meet the goal. `shared_out` says whether its
    /// replicas share out their state.
    fn assess(&self, candidate: &Candidate, shared_out: bool, step_time_s: f64) -> Option<f64> {
        let totals = self.totals(candidate, shared_out, step_time_s);
        self.within_goal(totals).then(|| self.value(totals))
    }

    /// What the objective makes of a training.
    fn value(&self, totals: Totals) -> f64 {
        match self.aim.objective {
            Objective::Time => totals.time_s,
            // What costs nothing is compared by time.
            Objective::Cost => totals.cost_usd.unwrap_or(totals.time_s),
        }
    }

    fn totals(&self, candidate: &Candidate, shared_out: bool, step_time_s: f64) -> Totals {
        let steps = self.problem.training.steps(candidate.batch.global);
        let feed = self.feeding.feed(candidate, step_time_s, steps);
        let time_s = feed.map_or(step_time_s * steps as f64, |feed| feed.time.0);
        let rented = self.overheads.of(candidate, shared_out).zip(self.problem.place.price(candidate.choice));
        let Some((overheads, price)) = rented else { return Totals { time_s, elapsed_s: time_s, cost_usd: None } };
        let download = feed.map_or(Seconds(0.0), |feed| feed.download);
        let course = overheads.course(steps, Seconds(time_s), download);
        let input = self.feeding.input(candidate).map(|input| input.storage);
        let cost_usd = Some(overheads.cost(&course, price.hourly(), input).total());
        Totals { time_s, elapsed_s: course.elapsed().0, cost_usd }
    }

    fn within_goal(&self, totals: Totals) -> bool {
        !self.aim.within_goal
            || (self.problem.deadline.is_none_or(|deadline| totals.elapsed_s <= deadline.0)
                && self.problem.budget.is_none_or(|budget| totals.cost_usd.is_none_or(|cost| cost <= budget)))
    }

    /// What a candidate must beat to matter, the best on its own machines included.
    fn limit_of(&self, candidate: &Candidate) -> f64 {
        let own = self.best.get(&(candidate.choice, candidate.instances));
        own.map_or(f64::INFINITY, |kept| self.worth(kept)).min(self.limit())
    }

    /// What every candidate must beat to matter.
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

    fn keep(&mut self, candidate: &Candidate, plan: Plan, step_time_s: f64, memory_peak: Bytes) {
        let choice = candidate.choice;
        let plan = match self.feeding.input(candidate) {
            Some(input) => plan.with_input(input).expect("counts of an input are checked where a job is read"),
            None => plan,
        };
        let totals = self.totals(candidate, shares_out(&plan), step_time_s);
        let steps = self.problem.training.steps(candidate.batch.global);
        let fed = self.feeding.feed(candidate, step_time_s, steps);
        let evaluated = Evaluated {
            plan,
            choice,
            step_time_s: fed.map_or(step_time_s, |feed| feed.step_time.0),
            time_s: totals.time_s,
            elapsed_s: totals.elapsed_s,
            download_s: fed.map_or(0.0, |feed| feed.download.0),
            cost_usd: totals.cost_usd,
            memory_peak,
        };
        let key = (choice, candidate.instances);
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

    /// How much better than the best an unseen plan could be whose bound is `bound`.
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

/// Those that no other beats in both time and cost, fastest first.
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
    use crate::evaluate::shares_more;
    use crate::job::{Resources, problem};
    use crate::space::Variant;
    use trainyard_plan::{GlobalBatch, JobSpec, Stages};
    use trainyard_sim::{footprint, step_time, step_time_bound};

    /// Samples are there, or are so large that some machines wait for them.
    fn small(objective: Objective, bytes_per_sample: Option<f64>) -> Problem {
        let mut job = JobSpec::default();
        job.model.name = Some("gpt2-large".into());
        job.data.samples = Some(10_000);
        job.data.bytes_per_sample = bytes_per_sample;
        job.training.global_batch = Some(GlobalBatch::Exactly(8));
        job.cluster.instances = Some(vec!["p3.*".into(), "g4dn.12xlarge".into()]);
        job.cluster.max_instances = Some(2);
        job.goal.objective = Some(objective);
        problem(&job, Resources::default()).expect("a solvable job")
    }

    /// The oracle: build, check and simulate every variant of every candidate. Those that are there for their memory
    /// count where no other of their schedule fits.
    fn exhaustive(problem: &Problem, fixed: &Fixed, aim: Aim) -> f64 {
        let space = Space::new(problem, fixed);
        let all = space.candidates();
        let bounds = Bounds::new(problem, fixed, &all);
        let feeding = Feeding::new(&space, &bounds, &all);
        let overheads = SearchOverheads::new(problem, &all);
        let searcher = Searcher { feeding, overheads, ..Searcher::new(problem, aim) };
        let value_of = |candidate: &Candidate, coarse: f64, variant: &Variant| {
            let weights = bounds.weights(candidate).expect("a GPU prices everything");
            let machine = space.machine(candidate);
            let runs = candidate.parallel.pipeline * variant.virtual_stages;
            let stages = Stages::balanced(weights, runs).expect("as many layers as runs");
            let plan = Plan::try_from(space.spec(candidate, variant, stages.specs(), &machine)).expect("a valid plan");
            footprint(&plan, &machine).fits().ok()?;
            let simulated = step_time(&plan, &machine).expect("a GPU prices everything").0;
            let fine = step_time_bound(&plan, &machine).expect("a GPU prices everything").0;
            let value = searcher.value(searcher.totals(candidate, shares_out(&plan), simulated));
            assert!(coarse <= value * (1.0 + 1e-6), "the coarse bound is not one: {candidate:?} {variant:?}");
            assert!(fine <= simulated * (1.0 + 1e-6), "the fine bound is not one: {candidate:?} {variant:?}");
            Some((value, *variant))
        };
        searcher
            .bounded(&bounds, all)
            .par_iter()
            .flat_map_iter(|(coarse, candidate)| {
                let variants = space.variants(candidate.parallel, candidate.batch);
                let all: Vec<_> = variants.iter().filter_map(|variant| value_of(candidate, *coarse, variant)).collect();
                let plainer = |other: &Variant, own: &Variant| {
                    other.schedule == own.schedule && other.virtual_stages == own.virtual_stages && !shares_more(other)
                };
                let counts = |own: &Variant| !shares_more(own) || !all.iter().any(|(_, other)| plainer(other, own));
                all.iter().filter(|(_, own)| counts(own)).map(|(value, _)| *value).collect::<Vec<_>>()
            })
            .min_by(f64::total_cmp)
            .expect("something fits")
    }

    #[test]
    fn the_search_finds_what_trying_everything_finds() {
        for (fixed, bytes) in [
            (&["instances=1"][..], None),
            (&["instances=2", "parallel.pipeline=4"], None),
            (&["parallel.tensor=2", "parallel.context=2"], None),
            (&["instances=1", "parallel.pipeline=2"], Some(5e7)),
        ] {
            let fixed = Fixed::parse(&fixed.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("fields");
            for objective in [Objective::Cost, Objective::Time] {
                let problem = small(objective, bytes);
                let aim = Aim { objective, top: 3, max_simulations: None, within_goal: true, without_gpu: None };
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
        let problem = small(Objective::Cost, None);
        let aim =
            Aim { objective: Objective::Cost, top: 5, max_simulations: Some(1), within_goal: true, without_gpu: None };
        let cut = search(&problem, &Fixed::default(), aim);
        assert!(cut.gap > 0.0 && cut.gap < 1.0, "{}", cut.gap);
    }
}
