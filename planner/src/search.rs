//! Exact search by bounds: candidates are tried in the order of what they could reach at best, until none that is
//! left could still enter the list of the best.
//!
//! A coarse bound needs only the prices of a model's distinct layers: no stage computes less than its share of all
//! layers, and no plan does more micro-batches at once than it has stages. A candidate that passes it gets its stages
//! cut, its memory checked and a finer bound; what passes that is simulated. Both bounds are admissible, so what is
//! never simulated is proved to be no better.

use crate::fix::Fixed;
use crate::problem::Problem;
use crate::space::{Candidate, candidates};
use rayon::prelude::*;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{Device, catalog};
use trainyard_plan::{ClusterSpec, Collectives, Mesh, Objective, ParallelSpec, Plan, PlanSpec, Precision, Stages};
use trainyard_sim::{LayerPrices, Machine, footprint, layer_prices, step_time, step_time_bound};
use trainyard_units::Bytes;

/// Candidates that are evaluated at the same time. Fixed, so that the result does not depend on the thread count.
const BATCH: usize = 64;

/// A plan with what it takes.
#[derive(Clone, Debug)]
pub(crate) struct Evaluated {
    /// The plan.
    pub plan: Plan,
    /// Which type of machine of the place.
    pub(crate) choice: usize,
    /// Seconds of a step.
    pub step_time_s: f64,
    /// Seconds of the training.
    pub time_s: f64,
    /// Price of the training.
    pub cost_usd: Option<f64>,
    /// What the fullest rank needs.
    pub memory_peak: Bytes,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// The best plan of each type and number of machines, best first, within deadline and budget.
    pub best: Vec<Evaluated>,
    /// Plans that were simulated and that no other simulated one beats in both time and cost.
    pub pareto: Vec<Evaluated>,
    /// Plans in the space.
    pub candidates: u64,
    /// Plans that were simulated.
    pub simulated: u64,
    /// How much better than the best an unseen plan could still be.
    pub gap: f64,
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

enum Verdict {
    TooLarge { choice: usize, needed: Bytes, available: Bytes },
    Bounded,
    Simulated(Box<Evaluated>),
}

pub(crate) fn search(problem: &Problem, fixed: &Fixed, aim: Aim) -> Found {
    let mut searcher = Searcher::new(problem, fixed, aim);
    let mut all = candidates(problem, fixed);
    all.retain(|candidate| searcher.uses_wanted_gpu(candidate));
    let mut found = Found { candidates: all.len() as u64, ..Found::default() };
    let mut order = searcher.bounded(all);
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    for chunk in order.chunks(BATCH) {
        let limit = searcher.limit();
        let capped = aim.max_simulations.is_some_and(|most| found.simulated >= most);
        if chunk[0].0 >= limit || capped {
            found.gap = searcher.gap(chunk[0].0);
            break;
        }
        let verdicts: Vec<Verdict> =
            chunk.par_iter().map(|(_, candidate)| searcher.evaluate(candidate, limit)).collect();
        for verdict in verdicts {
            match verdict {
                Verdict::Bounded => {}
                Verdict::TooLarge { choice, needed, available } => {
                    let entry = found.too_large.entry(choice).or_insert((0, needed, available));
                    *entry = (entry.0 + 1, if needed < entry.1 { needed } else { entry.1 }, available);
                }
                Verdict::Simulated(evaluated) => {
                    found.simulated += 1;
                    searcher.keep(*evaluated);
                }
            }
        }
    }
    searcher.finish(found)
}

/// What decides a layer's price, besides the model.
type PriceKey = (usize, u32, Precision, u32, u64);

struct Searcher<'a> {
    problem: &'a Problem,
    fixed: &'a Fixed,
    aim: Aim,
    /// One machine of each type.
    machines: Vec<Machine>,
    prices: BTreeMap<PriceKey, Option<LayerPrices>>,
    /// The best of each (type, number) of machines.
    best: BTreeMap<(usize, u32), Evaluated>,
    simulated: Vec<Evaluated>,
}

impl<'a> Searcher<'a> {
    fn new(problem: &'a Problem, fixed: &'a Fixed, aim: Aim) -> Self {
        let choices = problem.place.choices();
        let machines = (0..choices.len()).map(|choice| problem.place.machine(choice, 1, catalog())).collect();
        Self { problem, fixed, aim, machines, prices: BTreeMap::new(), best: BTreeMap::new(), simulated: Vec::new() }
    }

    fn uses_wanted_gpu(&self, candidate: &Candidate) -> bool {
        match (&self.machines[candidate.choice].cluster.first().device, self.aim.without_gpu) {
            (Device::Gpu(gpu), Some(unwanted)) => gpu.name != unwanted,
            _ => true,
        }
    }

    /// The candidates that could meet the goal, each with the best value it could reach.
    fn bounded(&mut self, candidates: Vec<Candidate>) -> Vec<(f64, Candidate)> {
        let graph = self.problem.model.graph();
        for candidate in &candidates {
            let key = self.price_key(candidate);
            if !self.prices.contains_key(&key) {
                let (machine, (_, ranks, precision, tensor, micro)) = (&self.machines[candidate.choice], key);
                let mesh = Mesh::from(ParallelSpec { tensor, pipeline: ranks, ..ParallelSpec::default() });
                self.prices.insert(key, layer_prices(&graph, micro, mesh, precision, machine).ok());
            }
        }
        candidates
            .into_iter()
            .filter_map(|candidate| {
                let weights = self.weights(&candidate)?;
                let share: f64 = weights.iter().sum::<f64>() / f64::from(candidate.parallel.pipeline);
                let bound = share * candidate.batch.accumulation as f64;
                let (time, cost) = self.totals(&candidate, bound);
                self.within_goal(time, cost).then(|| (self.value(&candidate, bound), candidate))
            })
            .collect()
    }

    /// Ranks matter to the price of a layer on a measured machine, where they share its memory.
    fn price_key(&self, candidate: &Candidate) -> PriceKey {
        let parallel = candidate.parallel;
        let ranks = match self.machines[candidate.choice].cluster.first().device {
            Device::Gpu(_) => 1,
            Device::Measured(_) => parallel.data * parallel.pipeline,
        };
        (candidate.choice, ranks, candidate.precision, parallel.tensor, candidate.batch.micro)
    }

    fn weights(&self, candidate: &Candidate) -> Option<Vec<f64>> {
        let prices = self.prices[&self.price_key(candidate)].as_ref()?;
        Some(prices.weights(candidate.recompute))
    }

    /// What the objective makes of a step time.
    fn value(&self, candidate: &Candidate, step_time_s: f64) -> f64 {
        let (time, cost) = self.totals(candidate, step_time_s);
        match self.aim.objective {
            Objective::Time => time,
            // What costs nothing is compared by time.
            Objective::Cost => cost.unwrap_or(time),
        }
    }

    fn totals(&self, candidate: &Candidate, step_time_s: f64) -> (f64, Option<f64>) {
        let time = step_time_s * self.problem.training.steps(candidate.batch.global) as f64;
        let price = self.problem.place.price(candidate.choice);
        (time, price.map(|price| price.middle().0 * f64::from(candidate.instances) * time / 3600.0))
    }

    fn within_goal(&self, time: f64, cost: Option<f64>) -> bool {
        !self.aim.within_goal
            || (self.problem.deadline.is_none_or(|deadline| time <= deadline.0)
                && self.problem.budget.is_none_or(|budget| cost.is_none_or(|cost| cost <= budget)))
    }

    fn evaluate(&self, candidate: &Candidate, limit: f64) -> Verdict {
        let (plan, machine) = self.build(candidate);
        let footprint = footprint(&plan, &machine);
        if let Err(full) = footprint.fits() {
            let (needed, available) = full.amounts();
            return Verdict::TooLarge { choice: candidate.choice, needed, available };
        }
        // A machine that was not measured for a plan cannot run it.
        let Ok(bound) = step_time_bound(&plan, &machine) else { return Verdict::Bounded };
        let (time, cost) = self.totals(candidate, bound.0);
        if self.value(candidate, bound.0) >= limit || !self.within_goal(time, cost) {
            return Verdict::Bounded;
        }
        let Ok(step_time) = step_time(&plan, &machine) else { return Verdict::Bounded };
        let (time_s, cost_usd) = self.totals(candidate, step_time.0);
        Verdict::Simulated(Box::new(Evaluated {
            plan,
            choice: candidate.choice,
            step_time_s: step_time.0,
            time_s,
            cost_usd,
            memory_peak: footprint.peak(),
        }))
    }

    fn build(&self, candidate: &Candidate) -> (Plan, Machine) {
        let weights = self.weights(candidate).expect("candidates without prices were dropped");
        let stages = Stages::balanced(&weights, candidate.parallel.pipeline).expect("a stage has at least one layer");
        let machine = self.problem.place.machine(candidate.choice, candidate.instances, catalog());
        let cluster = ClusterSpec {
            profile: self.problem.place.profile(),
            ..ClusterSpec::of(&machine.cluster.instance, candidate.instances)
        };
        let spec = PlanSpec {
            parallel: candidate.parallel,
            batch: candidate.batch,
            schedule: candidate.schedule,
            stages: stages.specs(),
            precision: candidate.precision,
            recompute: candidate.recompute,
            collectives: self.fixed.collectives.unwrap_or(Collectives::Nccl),
            optimizer: self.problem.optimizer,
            pricing: self.problem.place.pricing(),
            ..PlanSpec::plain(self.problem.model.spec(), cluster, 0)
        };
        (Plan::try_from(spec).expect("the search space holds valid plans"), machine)
    }

    /// What a candidate must beat to matter.
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

    fn keep(&mut self, evaluated: Evaluated) {
        self.simulated.push(evaluated.clone());
        if !self.within_goal(evaluated.time_s, evaluated.cost_usd) {
            return;
        }
        let key = (evaluated.choice, evaluated.plan.cluster().instances);
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
        found.pareto = pareto(std::mem::take(&mut self.simulated));
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
    use crate::job::{Resources, problem};
    use trainyard_plan::{GlobalBatch, JobSpec};

    fn small(objective: Objective) -> Problem {
        let mut job = JobSpec::default();
        job.model.name = Some("gpt2-large".into());
        job.data.samples = Some(10_000);
        job.training.global_batch = Some(GlobalBatch::Exactly(16));
        job.cluster.instances = Some(vec!["p3.*".into(), "g4dn.12xlarge".into()]);
        job.cluster.max_instances = Some(2);
        job.goal.objective = Some(objective);
        problem(&job, Resources::default()).expect("a solvable job")
    }

    /// The oracle: build, check and simulate every candidate.
    fn exhaustive(problem: &Problem, aim: Aim) -> f64 {
        let fixed = Fixed::default();
        let mut searcher = Searcher::new(problem, &fixed, aim);
        let all = searcher.bounded(candidates(problem, &fixed));
        all.iter()
            .filter_map(|(bound, candidate)| {
                let (plan, machine) = searcher.build(candidate);
                footprint(&plan, &machine).fits().ok()?;
                let simulated = step_time(&plan, &machine).expect("a GPU prices everything");
                let value = searcher.value(candidate, simulated.0);
                let fine = step_time_bound(&plan, &machine).expect("a GPU prices everything").0;
                assert!(*bound <= value * (1.0 + 1e-6), "the coarse bound is not one: {candidate:?}");
                assert!(fine <= simulated.0 * (1.0 + 1e-6), "the fine bound is not one: {candidate:?}");
                Some(value)
            })
            .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn the_search_finds_what_trying_everything_finds() {
        for objective in [Objective::Cost, Objective::Time] {
            let problem = small(objective);
            let aim = Aim { objective, top: 3, max_simulations: None, within_goal: true, without_gpu: None };
            let found = search(&problem, &Fixed::default(), aim);
            let best = match objective {
                Objective::Cost => found.best[0].cost_usd.expect("rented machines cost"),
                Objective::Time => found.best[0].time_s,
            };
            assert!((best / exhaustive(&problem, aim) - 1.0).abs() < 1e-9);
            assert!(
                found.simulated < found.candidates / 4,
                "bounds prune: {} of {}",
                found.simulated,
                found.candidates
            );
            assert!(found.gap.abs() < f64::EPSILON);
        }
    }

    #[test]
    fn a_search_that_is_cut_short_says_how_much_better_a_plan_could_be() {
        let problem = small(Objective::Cost);
        let aim =
            Aim { objective: Objective::Cost, top: 5, max_simulations: Some(1), within_goal: true, without_gpu: None };
        let cut = search(&problem, &Fixed::default(), aim);
        assert!(cut.gap > 0.0 && cut.gap < 1.0, "{}", cut.gap);
    }
}
