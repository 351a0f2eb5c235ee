//! What surrounds the steps of a plan and what all of it costs, as a prediction states it.

use super::overheads::{Overheads, TrainingCost, Work};
use super::run_conditions::{Rented, RunConditions};
use crate::problem::{Hourly, settings_of};
use trainyard_plan::document::{CostParts, ExpectedInterruptions, JobsOfScheduler, Prediction, PriceUsed};
use trainyard_plan::{JobSpec, Plan, Pricing, StorageMode};
use trainyard_sim::Machine;
use trainyard_sim::campaign::checkpoints;
use trainyard_units::{Invalid, Seconds, UsdPerHour};

/// The price of an hour of a plan's machines, and the overheads that it applies to besides the steps.
#[derive(Clone, Debug)]
pub(crate) struct Rent {
    instances: u32,
    pricing: Pricing,
    /// `None` for machines without a price.
    price: Option<PriceUsed>,
    /// `None` where nothing is known of them.
    overheads: Option<Overheads>,
}

/// Returns the time of writing one checkpoint, which a prediction has for all of them together; `None` where it is not
/// known.
pub fn checkpoint_time(prediction: &Prediction) -> Option<Seconds> {
    let all = prediction.checkpoints_s.filter(|seconds| seconds.is_finite() && *seconds > 0.0)?;
    let step = Seconds(prediction.time_s / prediction.steps as f64);
    let written = prediction.checkpoint_interval_s.map_or(1, |s| checkpoints(prediction.steps, step, Seconds(s)));
    // Jobs end with one of their own.
    let ends = prediction.jobs.map_or(0, |jobs| jobs.count.saturating_sub(1));
    Some(Seconds(all / written.max(1).saturating_add(ends) as f64))
}

impl Rent {
    /// Computes the rent of a plan's machines, with the job's campaign; `None` for machines without a price of which nothing
    /// is known that surrounds the steps.
    ///
    /// # Errors
    ///
    /// When that is wrong, or does not go with the terms.
    pub(crate) fn new(
        job: &JobSpec,
        plan: &Plan,
        machine: &Machine,
        price: Option<PriceUsed>,
    ) -> Result<Option<Self>, Invalid> {
        if price.is_none() && machine.cluster.first().device.gpu().is_none() {
            return Ok(None);
        }
        let settings = settings_of(job, plan, price.as_ref())?;
        let rented = price.as_ref().and_then(Rented::at);
        let conditions = RunConditions::of(plan, machine, &settings, rented);
        let overheads = conditions.are_known().then(|| Overheads::new(&conditions));
        let instances = conditions.instances();
        let nothing = price.is_none() && overheads.is_none();
        Ok((!nothing).then_some(Self { instances, pricing: plan.pricing(), price, overheads }))
    }

    /// Computes the times of a training of so many steps.
    pub(crate) fn training_cost(&self, steps: u64, work: Work) -> TrainingCost {
        TrainingCost::of(self.overheads.as_ref(), steps, work)
    }

    /// Returns the lowest and the highest price of an hour of a machine, in USD; `None` for machines without one.
    pub(super) fn price_range(&self) -> Option<[f64; 2]> {
        self.price.as_ref().map(|price| [price.low_usd_per_hour, price.high_usd_per_hour])
    }

    /// Computes the cost of a training that takes these times, at the expected price; `None` for machines without one.
    pub(crate) fn cost(&self, spent: &TrainingCost, input: Option<StorageMode>) -> Option<CostParts> {
        Some(self.cost_at(self.price.as_ref()?.usd_per_hour, spent, input))
    }

    pub(super) fn cost_at(&self, usd_per_hour: f64, spent: &TrainingCost, input: Option<StorageMode>) -> CostParts {
        let hourly = Hourly::new(self.instances, UsdPerHour(usd_per_hour), self.pricing);
        spent.cost(hourly, self.overheads.as_ref(), input)
    }

    /// Adds the overheads and the cost of the whole training to a prediction, the interval of which is that of the step at the
    /// lowest and the highest price; `time_of` gives the time of all steps for a step time.
    pub(crate) fn add_to(&self, prediction: &mut Prediction, input: Option<StorageMode>, time_of: impl Fn(f64) -> f64) {
        let (steps, work) = (prediction.steps, Work::of(prediction));
        let spent = |time: f64| self.training_cost(steps, Work { steps: Seconds(time), ..work });
        let own = spent(prediction.time_s);
        let [low, high] = prediction.interval_s.map(|step| spent(time_of(step)));
        if let Some(overheads) = &self.overheads {
            (prediction.start_up_s, prediction.checkpoints_s) = (Some(own.start_up.0), Some(own.checkpoints.0));
            prediction.queued_s = Some(own.queued.0).filter(|wait| *wait > 0.0);
            prediction.weights_s = Some(overheads.weights.0).filter(|time| *time > 0.0);
            prediction.checkpoint_interval_s = overheads.interval.map(|interval| interval.0);
            let of = |limit: Seconds| JobsOfScheduler { count: own.jobs, limit_s: limit.0 };
            prediction.jobs = overheads.job_limit.map(of);
        }
        [prediction.interruptions, prediction.failures] = [own.reclaims, own.failures].map(|losses| {
            losses.map(|losses| ExpectedInterruptions {
                expected: losses.expected,
                waiting_s: (losses.queued + losses.waiting).0,
                restarts_s: losses.restarts.0,
                lost_s: (losses.lost + losses.saving).0,
            })
        });
        let parts = self.cost(&own, input);
        (prediction.cost_usd, prediction.cost_parts) = (parts.map(|parts| parts.total()), parts);
        prediction.cost_interval_usd = self.price.as_ref().map(|price| {
            // A block is paid for however early the training ends.
            let least = if price.pricing == Some(Pricing::CapacityBlock) { own } else { low };
            let ends = [(price.low_usd_per_hour, least), (price.high_usd_per_hour, high)];
            ends.map(|(usd, spent)| self.cost_at(usd, &spent, input).total())
        });
        prediction.price.clone_from(&self.price);
    }
}

#[cfg(test)]
mod tests {
    use super::checkpoint_time;
    use crate::answer::{Limits, recommend};
    use crate::asking;
    use crate::campaign::campaign;
    use crate::missed_goal;
    use crate::predict::resimulate;
    use crate::problem::{Resources, problem};
    use trainyard_hardware_profiles::ClusterFile;
    use trainyard_plan::document::PlanDocument;
    use trainyard_plan::{JobSpec, Objective};
    use trainyard_sim::Options;

    /// A cluster file with two kinds of machines at these prices, or without a price, and more text.
    fn file(prices: Option<[f64; 2]>, more: &str) -> ClusterFile {
        let kind = |name: &str, like: &str, count: u32, index: usize| {
            let price = prices.map_or_else(String::new, |prices| format!("usd_per_hour = {}\n", prices[index]));
            format!("[[machines]]\nname = \"{name}\"\nlike = \"{like}\"\ncount = {count}\n{price}")
        };
        let kinds = [kind("large", "p3.16xlarge", 2, 0), kind("small", "p3.8xlarge", 2, 1)].concat();
        toml::from_str(&format!("name = \"own\"\n{kinds}{more}")).expect("the form of a cluster file")
    }

    const SHARED: &str = "[shared_storage]\nread = \"5 GB/s\"\n";

    fn job() -> JobSpec {
        let mut job = asking::training("gpt2", 96);
        (job.data.samples, job.cluster.file) = (Some(1_000_000), Some("own.toml".into()));
        job
    }

    fn resources(file: &ClusterFile) -> Resources {
        let (cluster_file, cluster_path) = (Some(file.clone()), Some("own.toml".into()));
        Resources { cluster_file, cluster_path, ..Resources::default() }
    }

    /// The plan that is recommended on a type of these machines.
    fn planned(file: &ClusterFile, job: &JobSpec, instance: Option<&str>) -> PlanDocument {
        let problem = problem(job, resources(file)).expect("a solvable job");
        let mut limits = Limits { top: 1, ..Limits::default() };
        limits.fixed.instance = instance.map(Into::into);
        recommend(&problem, &limits, job).expect("a plan")
    }

    fn assert_same(one: f64, other: f64) {
        assert!((one / other - 1.0).abs() < 1e-9, "{one} and {other}");
    }

    /// All the hours of the machines that a plan uses at `usd` an hour for all of them; one that has failed is not paid for.
    fn paid(document: &PlanDocument, usd: f64) -> f64 {
        let failed = document.prediction.failures.map_or(0.0, |failures| failures.waiting_s);
        let of_one = failed / f64::from(document.plan.cluster.instances);
        (document.prediction.elapsed_s() - of_one) / 3600.0 * usd
    }

    #[test]
    fn a_plan_on_stated_machines_costs_their_hours_with_overheads_and_without() {
        for (more, are_known) in [("", false), (SHARED, true)] {
            let file = file(Some([12.0, 5.0]), more);
            for (instance, all) in [("large", None), ("small", None), ("own", Some(34.0))] {
                let document = planned(&file, &job(), Some(instance));
                let (prediction, instances) = (&document.prediction, f64::from(document.plan.cluster.instances));
                assert_eq!(prediction.start_up_s.is_some(), are_known);
                let each = if instance == "large" { 12.0 } else { 5.0 };
                let cost = prediction.cost_usd.expect("a price was stated");
                assert_same(cost, paid(&document, all.unwrap_or(each * instances)));
                assert_same(cost, prediction.cost_parts.expect("of a cost").total());
                let [low, high] = prediction.cost_interval_usd.expect("of a cost");
                assert!(low < cost && cost < high, "{low} {cost} {high}");
                assert_eq!(
                    document.warnings.iter().any(|told| told.starts_with("start-up, checkpoints and failures")),
                    !are_known
                );
                // The document says no more than the path, and the file is asked again.
                let again = resimulate(&document, resources(&file).machine_files(), Options::default());
                assert_eq!(again.expect("the same machines").0.prediction, document.prediction);
            }
        }
    }

    #[test]
    fn prices_of_kinds_that_are_used_together_are_told_one_by_one() {
        let document = planned(&file(Some([12.0, 5.0]), ""), &job(), Some("own"));
        let price = document.prediction.price.expect("stated");
        let kinds: Vec<_> =
            price.kinds.iter().map(|kind| (kind.name.as_str(), kind.instances, kind.usd_per_hour)).collect();
        assert_eq!(kinds, [("large", 2, 12.0), ("small", 2, 5.0)]);
        assert_same(price.of_all(4), 34.0);
        assert_eq!((price.offered(), price.source.as_str()), (None, "own.toml"));
    }

    #[test]
    fn cost_is_sought_where_there_is_one_and_time_where_not() {
        let objective = |prices, wanted| {
            let mut job = job();
            job.goal.objective = wanted;
            problem(&job, resources(&file(prices, ""))).expect("a solvable job").objective
        };
        let priced = Some([12.0, 5.0]);
        assert_eq!(objective(priced, None), Objective::Cost);
        assert_eq!(objective(priced, Some(Objective::Time)), Objective::Time);
        assert_eq!(objective(None, None), Objective::Time);
        assert_eq!(objective(None, Some(Objective::Cost)), Objective::Time);
        // Small machines that cost next to nothing are the cheapest, and large ones the fastest.
        let file = file(Some([12.0, 0.1]), "");
        assert_eq!(planned(&file, &job(), None).plan.cluster.instance, "small");
        let mut fast = job();
        fast.goal.objective = Some(Objective::Time);
        let fast = planned(&file, &fast, None);
        assert_eq!(fast.plan.cluster.instance, "large");
        assert!(fast.pareto.iter().any(|point| point.cost_usd < fast.prediction.cost_usd));
    }

    #[test]
    fn a_budget_is_kept_to_or_missed_and_needs_a_price() {
        let file_with = file(Some([12.0, 5.0]), "");
        let mut job = job();
        let cheapest = planned(&file_with, &job, None).prediction.cost_usd.expect("stated");
        job.goal.budget = Some(1.1 * cheapest);
        assert_eq!(missed_goal(&planned(&file_with, &job, None)), None);
        job.goal.budget = Some(0.5 * cheapest);
        let told = missed_goal(&planned(&file_with, &job, None)).expect("half of it is too little");
        assert!(told.starts_with("no plan costs at most "), "{told}");
        let error = problem(&job, resources(&file(None, ""))).expect_err("nothing costs anything");
        assert_eq!(error.to_string().split(':').next(), Some("`goal.budget` and `cluster.file` exclude each other"));
        assert!(error.hint().is_some_and(|hint| hint.starts_with("`usd_per_hour = 24.0` in [[machines]]")), "{error}");
    }

    #[test]
    fn a_checkpoint_takes_what_the_campaign_says() {
        let described = file(Some([12.0, 5.0]), SHARED);
        let mut wanted = job();
        for interval in [None, Some("10 min")] {
            wanted.campaign.get_or_insert_default().checkpoint_interval = interval.map(Into::into);
            let document = planned(&described, &wanted, Some("small"));
            let drawn = campaign(&document, resources(&described).machine_files(), 10, 1).expect("a campaign");
            assert_same(checkpoint_time(&document.prediction).expect("known").0, drawn.checkpoint.write_s);
        }
        let unknown = planned(&file(Some([12.0, 5.0]), ""), &job(), Some("small"));
        assert_eq!(checkpoint_time(&unknown.prediction), None);
    }

    #[test]
    fn a_whole_training_on_stated_machines_costs_about_what_its_plan_says() {
        let file = file(Some([12.0, 5.0]), SHARED);
        let document = planned(&file, &job(), Some("small"));
        let drawn = campaign(&document, resources(&file).machine_files(), 400, 1).expect("a campaign");
        let (mean, cost) = (drawn.cost_usd.expect("stated").mean, document.prediction.cost_usd.expect("stated"));
        assert!((0.8..1.5).contains(&(mean / cost)), "{mean} and {cost}");
        assert!(drawn.assumptions.iter().any(|told| told.starts_with("machines are there, and ready after")));
    }
}
