//! What trainings cost: all of it, on every term, within quotas, at prices of one's own.

use crate::common::{self, refused, solvable};
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{PriceTable, Purchase};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{
    CampaignSpec, DataSpec, EvaluationSpec, GlobalBatch, JobSpec, Objective, Pricing, StartKind, StorageMode,
};
use trainyard_planner::{
    JobError, MachineFiles, NoPlan, Place, Resources, forward_passes, missed_goal, plan_of, point, resimulate,
};
use trainyard_sim::Options;

fn job() -> JobSpec {
    let mut job = common::job("gpt2", 64, &["g4dn.12xlarge", "p3dn.24xlarge", "p4d.24xlarge"], 2);
    job.data.tokens = Some(1e9);
    job
}

fn plan_with(job: &JobSpec, resources: Resources) -> Result<PlanDocument, NoPlan> {
    common::plan_with::<&str>(job, resources, &[], 5)
}

fn plan(job: &JobSpec) -> PlanDocument {
    plan_with(job, Resources::default()).expect("a plan")
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

#[test]
fn a_cost_is_the_sum_of_its_parts_and_lies_in_its_interval() {
    let prediction = plan(&job()).prediction;
    let (cost, parts) = (prediction.cost_usd.expect("rented"), prediction.cost_parts.expect("rented"));
    let [low, high] = prediction.cost_interval_usd.expect("rented");
    assert!(near(parts.total(), cost) && low < cost && cost < high, "{low} {cost} {high}");
    let each = [parts.instances_usd, parts.start_up_usd, parts.storage_usd, parts.checkpoints_usd];
    assert!(each.iter().all(|part| *part > 0.0), "{each:?}");
    assert!(parts.interruptions_usd.abs() < f64::EPSILON && prediction.interruptions.is_none(), "nobody reclaims");
    let price = prediction.price.as_ref().expect("rented");
    // 90 s of downloading the image and 40 s of starting the framework are paid for, 150 s of waiting are not.
    let instances = parts.instances_usd / (price.usd_per_hour * prediction.time_s / 3600.0);
    assert!(near(parts.start_up_usd, instances * price.usd_per_hour * 130.0 / 3600.0), "{parts:?}");
    assert_eq!(prediction.start_up_s, Some(280.0));
    let checkpoints = prediction.checkpoints_s.expect("rented");
    assert!(near(parts.checkpoints_usd, instances * price.usd_per_hour * checkpoints / 3600.0));
    let failures = prediction.failures.expect("rented");
    assert!(failures.expected > 0.0 && parts.failures_usd > 0.0, "{failures:?} {parts:?}");
    assert!(near(prediction.elapsed_s(), prediction.time_s + 280.0 + checkpoints + failures.total_s()));
}

/// Machines that fail ten times as often cost more, and never to save progress costs most.
#[test]
fn failures_are_in_time_and_cost() {
    let with = |campaign: CampaignSpec| plan(&JobSpec { campaign: Some(campaign), ..job() }).prediction;
    let often = || CampaignSpec { node_mtbf: Some("20 h".into()), ..CampaignSpec::default() };
    let [usual, failing] = [CampaignSpec::default(), often()].map(with);
    assert!(failing.elapsed_s() > usual.elapsed_s() && failing.cost_usd > usual.cost_usd);
    let hopeless = CampaignSpec { node_mtbf: Some("1 s".into()), ..CampaignSpec::default() };
    let hopeless = plan_with(&JobSpec { campaign: Some(hopeless), ..job() }, Resources::default());
    assert!(matches!(hopeless, Err(NoPlan::NoProgress)));
    let unsaved = with(CampaignSpec { checkpoint_interval: Some("1000 d".into()), ..often() });
    assert!(unsaved.cost_usd > failing.cost_usd, "{:?} {:?}", unsaved.cost_usd, failing.cost_usd);
}

/// Where a machine fails every quarter of an hour, more of them take shorter steps and end later.
#[test]
fn the_fastest_plan_is_the_first_to_end_with_failures() {
    let mut hurried = job();
    hurried.goal.objective = Some(Objective::Time);
    hurried.training.global_batch = Some(GlobalBatch::Exactly(512));
    (hurried.cluster.instances, hurried.cluster.max_instances) = (Some(vec!["g4dn.12xlarge".into()]), Some(8));
    let largest = |document: &PlanDocument| document.plan.cluster.instances;
    let usual = plan(&hurried);
    hurried.campaign = Some(CampaignSpec { node_mtbf: Some("15 min".into()), ..CampaignSpec::default() });
    let fragile = plan(&hurried);
    assert!(largest(&fragile) < largest(&usual), "{} {}", largest(&fragile), largest(&usual));
    let others = fragile.pareto.iter().chain(&fragile.alternatives).chain(&fragile.optimum);
    let terms = fragile.plan.pricing;
    let first = others.filter(|other| other.plan.pricing == terms).map(|other| other.time_s).fold(f64::MAX, f64::min);
    // One that takes little longer may be preferred for being simpler.
    assert!(fragile.prediction.elapsed_s() < 1.2 * first, "{} {first}", fragile.prediction.elapsed_s());
    let steps = |document: &PlanDocument| document.prediction.time_s;
    assert!(steps(&fragile) > 1.5 * steps(&usual), "{} {}", steps(&fragile), steps(&usual));
}

#[test]
fn evaluations_are_in_time_and_cost() {
    let plain = plan(&job());
    let mut evaluated = job();
    evaluated.data = DataSpec { samples: Some(1_000_000), ..DataSpec::default() };
    let without = plan(&evaluated).prediction;
    let evaluation = EvaluationSpec { every_epochs: Some(0.25), share: Some(0.1), ..EvaluationSpec::default() };
    evaluated.campaign = Some(CampaignSpec { evaluation: Some(evaluation), ..CampaignSpec::default() });
    let document = plan(&evaluated);
    let with = &document.prediction;
    // 15,625 steps, one of 100,000 samples after every 3,906.
    let counted = forward_passes(&document, &plan_of(&document).expect("a plan")).expect("valid");
    let counted = counted.evaluations.expect("it is said");
    assert_eq!((with.steps, counted.interval, counted.count, counted.samples), (15_625, 3906, 4, 100_000));
    let took = with.evaluations_s.expect("it is said");
    let (parts, price) = (with.cost_parts.expect("rented"), with.price.as_ref().expect("rented"));
    let instances = parts.instances_usd / (price.usd_per_hour * with.time_s / 3600.0);
    assert!(near(parts.evaluations_usd, instances * price.usd_per_hour * took / 3600.0), "{parts:?}");
    assert!(near(parts.total(), with.cost_usd.expect("rented")));
    let failures = with.failures.expect("rented").total_s();
    assert!(near(with.elapsed_s(), with.time_s + 280.0 + with.checkpoints_s.expect("rented") + took + failures));
    // 400,000 samples forward: a third of the arithmetic of 40 % of the training.
    assert!(took > 0.08 * with.time_s && took < 0.2 * with.time_s, "{took} of {}", with.time_s);
    assert!(with.cost_usd > without.cost_usd && plain.prediction.evaluations_s.is_none());
    let again = resimulate(&document, MachineFiles::default(), Options::default()).expect("a plan").0;
    assert_eq!(again.prediction, document.prediction);
}

#[test]
fn the_search_ranks_by_the_cost_that_is_predicted() {
    for evaluation in
        [None, Some(EvaluationSpec { every_steps: Some(10), samples: Some(640), ..EvaluationSpec::default() })]
    {
        let campaign = evaluation.map(|own| CampaignSpec { evaluation: Some(own), ..CampaignSpec::default() });
        ranks_by_the_predicted_cost(&plan(&JobSpec { campaign, ..job() }));
    }
}

fn ranks_by_the_predicted_cost(document: &PlanDocument) {
    let costs: Vec<f64> = document.alternatives.iter().filter_map(|other| other.cost_usd).collect();
    let own = document.prediction.cost_usd.expect("rented");
    assert!(!costs.is_empty() && costs.is_sorted() && own <= costs[0], "{own} {costs:?}");
    let cheapest = document.optimum.as_ref().and_then(|optimum| optimum.cost_usd).unwrap_or(own);
    let terms = document.plan.pricing;
    let on_front =
        document.pareto.iter().filter(|point| point.plan.pricing == terms).filter_map(|point| point.cost_usd);
    let least = on_front.min_by(f64::total_cmp).expect("the cheapest is on the front");
    assert!(near(least, cheapest) && cheapest <= own, "{least} {cheapest} {own}");
}

#[test]
fn a_short_training_is_not_spread_over_machines_that_start_for_longer_than_they_train() {
    let mut job = job();
    job.data.tokens = Some(2e6);
    let document = plan(&job);
    let parts = document.prediction.cost_parts.expect("rented");
    assert!(parts.start_up_usd > parts.instances_usd, "{parts:?}");
    assert_eq!(document.plan.cluster.instances, 1);
}

#[test]
fn a_deadline_includes_start_up_and_checkpoints() {
    let mut job = job();
    let relaxed = plan(&job);
    let just_the_steps = format!("{} s", relaxed.prediction.time_s + 1.0);
    job.goal.deadline = Some(just_the_steps);
    let document = plan(&job);
    let missed = missed_goal(&document);
    let deadline = relaxed.prediction.time_s + 1.0;
    assert!(missed.is_some() || document.prediction.elapsed_s() <= deadline);
    assert_ne!(document.plan.cluster, relaxed.plan.cluster);
    job.goal.deadline = Some("1 min".into());
    let message = missed_goal(&plan(&job)).expect("machines do not start within a minute");
    assert!(message.contains("with start-up, checkpoints and failures"), "{message}");
}

#[test]
fn what_a_job_says_of_start_and_checkpoints_changes_its_cost() {
    let plain = plan(&job()).prediction;
    let with = |change: fn(&mut CampaignSpec)| {
        let mut job = job();
        let mut campaign = CampaignSpec::default();
        change(&mut campaign);
        job.campaign = Some(campaign);
        job.cluster.service = Some("sagemaker".into());
        plan(&job).prediction
    };
    let warm = with(|campaign| campaign.start = Some(StartKind::WarmPool));
    assert_eq!((warm.start_up_s, plain.start_up_s), (Some(40.0), Some(280.0)));
    let often = with(|campaign| campaign.checkpoint_interval = Some("5 min".into()));
    assert!(often.checkpoints_s > plain.checkpoints_s);
}

#[test]
fn volumes_that_keep_the_data_set_are_in_the_cost() {
    let mut job = job();
    (job.data.tokens, job.data.samples, job.data.bytes_per_sample) = (None, Some(1_000_000), Some(2e5));
    job.cluster.instances = Some(vec!["p3.8xlarge".into()]);
    let storage = |mode| {
        let mut job = job.clone();
        job.data.storage = Some(mode);
        let document = plan(&job);
        (document.prediction.cost_parts.expect("rented").storage_usd, document.warnings)
    };
    let (streamed, _) = storage(StorageMode::S3FastFile);
    let (volumes, _) = storage(StorageMode::S3File);
    assert!(volumes > 2.0 * streamed, "{volumes} {streamed}");
    let (_, warnings) = storage(StorageMode::FsxLustre);
    assert!(warnings.iter().any(|warning| warning.contains("file system of")), "{warnings:?}");
}

#[test]
fn a_front_has_the_best_of_each_of_the_terms() {
    let document = plan(&job());
    let mut terms: BTreeMap<Pricing, Vec<(f64, f64)>> = BTreeMap::new();
    for point in &document.pareto {
        let price = point.price.as_ref().expect("rented");
        assert_eq!(price.pricing, Some(point.plan.pricing));
        terms.entry(point.plan.pricing).or_default().push((point.time_s, point.cost_usd.expect("rented")));
    }
    // Its types are not booked by blocks in this Region.
    let priced: Vec<Pricing> = Pricing::ALL.iter().copied().filter(|own| *own != Pricing::CapacityBlock).collect();
    assert_eq!(terms.keys().copied().collect::<Vec<_>>(), priced);
    assert_eq!(document.pareto[0].plan.pricing, Pricing::OnDemand);
    for points in terms.values() {
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1), "{points:?}");
    }
    let cheapest = |pricing| terms[&pricing].last().expect("a point").1;
    assert!(cheapest(Pricing::Spot) < cheapest(Pricing::OnDemand));
    assert!(cheapest(Pricing::ReservedThreeYears) < cheapest(Pricing::Reserved));
}

#[test]
fn a_capacity_block_is_paid_for_whole_and_the_cheapest_is_found() {
    let mut job = job();
    job.data.tokens = Some(1e10);
    job.cluster.instances = Some(vec!["p4d.24xlarge".into()]);
    job.cluster.max_instances = None;
    (job.cluster.pricing, job.cluster.region) = (Some(Pricing::CapacityBlock), Some("us-east-2".into()));
    let booked = |instances: Option<u32>| {
        let held: Vec<String> = instances.iter().map(|count| format!("instances={count}")).collect();
        let document = common::plan(&job, &held, 1).expect("a plan");
        let (prediction, machines) = (&document.prediction, document.plan.cluster.instances);
        let parts = prediction.cost_parts.expect("rented");
        let days = ((prediction.elapsed_s() + 1_800.0) / 86_400.0).ceil();
        assert!(days < 15.0, "not of whole weeks");
        let paid = f64::from(machines.next_power_of_two()) * 14.75 * 24.0 * days;
        assert!(near(parts.total() - parts.storage_usd, paid), "{machines} for {days} d: {parts:?}");
        assert!(parts.unused_usd > 0.0, "{parts:?}");
        let [low, _] = prediction.cost_interval_usd.expect("rented");
        assert!(low > 0.999 * parts.total(), "who ends early has paid all the same: {low} {parts:?}");
        assert!(
            document.warnings.iter().any(|told| told.starts_with("the capacity block of ")),
            "{:?}",
            document.warnings
        );
        (machines, prediction.cost_usd.expect("rented"))
    };
    let (_, cheapest) = booked(None);
    for instances in [1, 2, 3, 4] {
        assert!(booked(Some(instances)).1 > 0.999 * cheapest, "{instances}");
    }
}

#[test]
fn no_block_is_said_to_be_longer_than_the_longest() {
    let mut job = job();
    job.cluster.instances = Some(vec!["p4d.24xlarge".into()]);
    job.cluster.max_instances = None;
    (job.cluster.pricing, job.cluster.region) = (Some(Pricing::CapacityBlock), Some("us-east-2".into()));
    job.data.tokens = Some(1e10);
    let one = common::plan(&job, &["instances=1"], 1).expect("a plan").prediction;
    // The slow end of the first is longer than a block, the second is.
    for (days, several) in [(170.0, "so that it takes another one after it"), (400.0, "the training needs several")] {
        job.data.tokens = Some(1e10 * days * 86_400.0 / one.time_s);
        let document = common::plan(&job, &["instances=1"], 1).expect("a plan");
        let told = document.warnings.iter().find(|told| {
            told.contains("no capacity block is longer than 182 days")
                || told.contains("no block is longer than 182 days")
        });
        assert!(told.is_some_and(|told| told.contains(several)), "{:?}", document.warnings);
    }
}

#[test]
fn types_that_are_offered_in_blocks_are_chosen_from() {
    let mut job = job();
    (job.cluster.instances, job.cluster.pricing) = (None, Some(Pricing::CapacityBlock));
    for (region, offered) in [("us-east-1", "p5.48xlarge"), ("us-east-2", "p4d.24xlarge")] {
        job.cluster.region = Some(region.into());
        let problem = solvable(&job);
        let Place::Rented(rental) = problem.place else { panic!("nobody owns machines") };
        assert!(rental.instances.iter().any(|(own, _)| own.name == offered), "{region}");
        assert!(rental.instances.iter().all(|(_, price)| price.purchase == Purchase::CapacityBlock));
    }
}

#[test]
fn every_point_of_a_front_can_be_had_as_a_plan() {
    let job = job();
    let problem = solvable(&job);
    let document = plan(&job);
    for (index, chosen) in document.pareto.iter().enumerate() {
        let own = point(&problem, &document, index + 1).expect("a point");
        assert_eq!((&own.plan, own.job.cluster.pricing), (&chosen.plan, Some(chosen.plan.pricing)));
        assert!(near(own.prediction.cost_usd.expect("rented"), chosen.cost_usd.expect("rented")), "{index}");
        assert!(near(own.prediction.elapsed_s(), chosen.time_s));
        assert!(own.reasons[0].starts_with(&format!("point {} of", index + 1)), "{:?}", own.reasons);
        let (again, _) = resimulate(&own, MachineFiles::default(), Options::default()).expect("a plan of the catalog");
        assert_eq!(again, own);
        let is_reserved = matches!(own.plan.pricing, Pricing::Reserved | Pricing::ReservedThreeYears);
        assert_eq!(own.warnings.iter().any(|warning| warning.contains("used or not")), is_reserved);
    }
    let points = document.pareto.len();
    for beyond in [0, points + 1] {
        let error = point(&problem, &document, beyond).expect_err("no such point").to_string();
        assert_eq!(error, format!("`--point` is {beyond}, but the front of time against cost has {points}"));
    }
}

#[test]
fn a_point_that_misses_the_goal_says_so() {
    let mut job = job();
    job.goal.budget = Some(plan(&job).prediction.cost_usd.expect("rented") * 1.001);
    let problem = solvable(&job);
    let document = plan(&job);
    let fastest = point(&problem, &document, 1).expect("a point");
    let message = fastest.missed.clone().expect("the fastest costs more than the cheapest");
    assert!(message.starts_with("the chosen plan costs"), "{message}");
    assert_eq!(document.missed, None);
}

#[test]
fn prices_of_ones_own_stand_before_the_catalogs_and_stay_with_the_plan() {
    let rows = "instance,region,service,purchase,usd_per_hour,date,source\n\
                p3dn.24xlarge,us-east-1,ec2,on-demand,0.01,2026-11-20,contract\n";
    let prices = PriceTable::from_csv(rows, "prices.csv").expect("a table");
    let mut job = job();
    job.cluster.prices = Some("prices.csv".into());
    assert!(refused(&job).to_string().starts_with("`cluster.prices` is missing"));
    let resources = Resources { prices: Some(prices), ..Resources::default() };
    let document = plan_with(&job, resources).expect("a plan");
    let price = document.prediction.price.as_ref().expect("rented");
    assert_eq!((document.plan.cluster.instance.as_str(), price.usd_per_hour), ("p3dn.24xlarge", 0.01));
    assert_eq!((price.date.as_deref(), price.source.as_str()), (Some("2026-11-20"), "contract"));
    let (again, _) = resimulate(&document, MachineFiles::default(), Options::default()).expect("a plan");
    assert_eq!(again, document);
}

#[test]
fn quotas_limit_how_many_are_rented_and_which() {
    let mut job = job();
    let quotas =
        |entries: &[(&str, u64)]| Some(entries.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect());
    job.goal.objective = Some(trainyard_plan::Objective::Time);
    job.cluster.max_instances = Some(4);
    // One p4d.24xlarge, and of p3dn, of the same class, one as well; no g4dn.12xlarge, which has 48 vCPUs.
    job.cluster.quotas = quotas(&[("P", 191), ("g4dn", 47)]);
    let document = plan(&job);
    assert_eq!(document.plan.cluster.instances, 1);
    let why = document.rejected.iter().find(|rejected| rejected.what == "g4dn.12xlarge").map(|own| own.why.as_str());
    assert_eq!(why, Some("needs 48 vCPUs, but the quota of `g4dn` is 47: 1 too few"));
    assert!(document.alternatives.iter().all(|other| other.plan.cluster.instances == 1));
    // Four of them held: 384 vCPUs.
    let document = common::plan(&job, &["instance=p4d.24xlarge", "instances=4"], 1).expect("a plan");
    let warned = |text: &str| document.warnings.iter().any(|warning| warning.contains(text));
    assert_eq!(document.plan.cluster.instances, 4);
    assert!(warned("needs 384 vCPUs, but the quota of `P` is 191: 193 too few"), "{:?}", document.warnings);
    job.cluster.quotas = quotas(&[("P", 0), ("G and VT", 0)]);
    let error = refused(&job);
    assert!(matches!(error, JobError::OverQuota(_)) && error.to_string().contains("96 too few"), "{error}");
}

#[test]
fn prices_that_are_not_there_are_told_with_those_that_are() {
    let on = |service: &str, pricing, region: &str| {
        let mut job = job();
        job.cluster.instances = Some(vec!["p4d.24xlarge".into()]);
        (job.cluster.service, job.cluster.pricing) = (Some(service.into()), Some(pricing));
        job.cluster.region = Some(region.into());
        refused(&job)
    };
    let reserved = on("sagemaker", Pricing::Reserved, "us-east-1");
    assert_eq!(reserved.invalid().field(), "cluster.pricing", "{reserved}");
    let region = on("ec2", Pricing::OnDemand, "us-esat-1");
    assert_eq!(region.hint().as_deref(), Some("did you mean `us-east-1`?"));
    assert!(region.to_string().starts_with("in `cluster.region`"), "{region}");
}
