use super::*;
use std::collections::BTreeMap;
use trainyard_plan::Bottleneck;
use trainyard_plan::document::{InputPrediction, PlanDocument};

mod owned;

const POOL: &str = "[pool]\ninstance = \"p3.2xlarge\"\nmax_instances = 4\n";
const JOB: &str = "[[job]]\nname = \"trial\"\nduration = \"1 h\"\ncount = 6\n";

fn spec(text: &str) -> QueueSpec {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn predict(pool: &str, policy: &str, job: &str) -> Result<QueueDocument, Invalid> {
    predict_queue(&spec(&format!("{POOL}{pool}\n{policy}\n{JOB}{job}")), &QueueFiles::default(), 0)
}

fn predicted(pool: &str, policy: &str, job: &str) -> QueueDocument {
    predict(pool, policy, job).expect("a queue without mistakes")
}

/// A plan of this type and number of instances that takes a day.
fn plan(instance: &str, instances: u32) -> BTreeMap<String, PlanDocument> {
    let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
    let cluster = trainyard_plan::ClusterSpec::of(instance, instances);
    let prediction = serde_json::json!({
        "step_time_s": 1.0, "interval_s": [1.0, 1.0], "samples_per_s": 1.0, "bubble": 0.0,
        "exposed_communication_s": 0.0, "utilisation": [], "steps": 86_400, "time_s": 86_400.0,
        "phases": { "forward_s": 0.0, "backward_s": 0.0, "communication_s": 0.0, "optimizer_s": 0.0 },
        "memory_bytes": { "limit": 1, "stages": [] },
    });
    let document = serde_json::json!({
        "schema": trainyard_plan::document::PLAN_SCHEMA,
        "job": trainyard_plan::JobSpec::default(),
        "plan": trainyard_plan::PlanSpec::plain(model.spec(), cluster, model.graph().len()),
        "prediction": prediction,
        "search": { "candidates": 1, "simulated": 1, "gap": 0.0 },
    });
    BTreeMap::from([("p.json".into(), serde_json::from_value(document).expect("a plan document"))])
}

fn with_plan(job: &str, plans: &BTreeMap<String, PlanDocument>) -> Result<QueueDocument, Invalid> {
    predict_queue(&spec(&format!("{POOL}[[job]]\nname = \"big\"\nplan = \"p.json\"\n{job}")), &of(plans), 0)
}

fn of(plans: &BTreeMap<String, PlanDocument>) -> QueueFiles {
    QueueFiles { plans: plans.clone(), machines: None }
}

#[test]
fn six_hours_of_work_on_four_instances_take_two_and_cost_what_is_paid_for() {
    let prediction = predicted("start = { cold = \"5 min\" }", "", "").prediction;
    assert!((prediction.makespan_s - 2.0 * 3900.0).abs() < 1e-9);
    assert!((prediction.bound.work_s - 1.5 * 3900.0).abs() < 1e-9 && (prediction.gap - 1.0 / 3.0).abs() < 1e-9);
    assert!((prediction.waiting_s.mean - 1300.0).abs() < 1e-9 && (prediction.waiting_s.p95 - 3900.0).abs() < 1e-9);
    let (cost, price) = (prediction.cost.expect("rented"), prediction.price.expect("rented"));
    // Of 280 seconds of a start, and so of these 300, 130 are paid for: an image is loaded, and the framework starts.
    let paid = (3600.0 + 300.0 * 130.0 / 280.0_f64).ceil();
    assert!((cost.total_usd - 6.0 * paid / 3600.0 * price.usd_per_hour).abs() < 1e-9);
    assert_eq!((prediction.cold_starts, prediction.warm_starts), (6, 0));
}

#[test]
fn every_field_of_the_pool_and_of_the_policy_changes_something() {
    let warm = "service = \"sagemaker\"\nwarm_pool = true\n";
    // Wide jobs between the trials, so that order, backfilling and warm quotas matter.
    let jobs = "[[job]]\nname = \"wide\"\nduration = \"90 min\"\ninstances = 4\ncount = 2\npriority = 1\n\
                [[job]]\nname = \"late\"\nduration = \"10 min\"\nsubmit = \"10 min\"\ncount = 3\n";
    let pair = |pool: &str, policy: &str| predicted(pool, policy, jobs).prediction;
    let plain = pair("", "");
    for pool in [
        "region = \"eu-west-1\"",
        "pricing = \"spot\"",
        "service = \"sagemaker\"",
        "start = { cold = \"1 min\" }",
        warm,
    ] {
        assert_ne!(pair(pool, ""), plain, "{pool}");
    }
    let policies =
        ["order = \"shortest-first\"", "order = \"longest-first\"", "order = \"priority\"", "backfill = true"];
    for policy in policies {
        assert_ne!(pair("", &format!("[policy]\n{policy}")), plain, "{policy}");
    }
    let kept = pair(warm, "");
    for pool in ["keep_alive = \"2 min\"", "max_warm_instances = 1", "start = { warm = \"10 s\" }"] {
        assert_ne!(pair(&format!("{warm}{pool}"), ""), kept, "{pool}");
    }
}

#[test]
fn every_field_of_a_job_changes_something() {
    let warm = "service = \"sagemaker\"\nwarm_pool = true\n[policy]\norder = \"priority\"";
    let document = |fields: &str| {
        let second = "[[job]]\nname = \"second\"\nduration = \"1 h\"\ncount = 6\n";
        let QueueDocument { prediction, jobs, .. } = predicted(warm, "", &format!("{second}{fields}"));
        (prediction, jobs)
    };
    let plain = document("");
    let fields = [
        "instances = 2",
        "submit = \"3 h\"",
        "priority = 1",
        "spread = 0.2",
        "role = \"other\"",
        "volume = \"500 GB\"",
        "vpc = \"subnet-1\"",
        "encryption = true",
    ];
    for field in fields {
        assert_ne!(document(field), plain, "{field}");
    }
}

#[test]
fn the_seed_decides_durations_that_have_a_spread() {
    let run = |spread: &str, seed| {
        let spec = spec(&format!("{POOL}{JOB}{spread}"));
        predict_queue(&spec, &QueueFiles::default(), seed).expect("a queue without mistakes").jobs
    };
    assert_eq!(run("", 1), run("", 2));
    assert_eq!(run("spread = 0.2", 1), run("spread = 0.2", 1));
    assert_ne!(run("spread = 0.2", 1), run("spread = 0.2", 2));
}

#[test]
fn a_plan_brings_its_instances_its_time_and_its_encryption() {
    let mut plans = plan("p3.2xlarge", 2);
    let document = with_plan("", &plans).expect("a plan that fits");
    let run = &document.jobs[0];
    assert_eq!(run.instances, [0, 1]);
    assert!((run.end_s - run.ready_s - 86_400.0).abs() < 1e-6);
    let encrypted = plans.get_mut("p.json").expect("there");
    encrypted.plan.cluster.encrypted = true;
    let text = "[pool]\ninstance = \"p3.2xlarge\"\nmax_instances = 2\nservice = \"sagemaker\"\nwarm_pool = true\n\
                [[job]]\nname = \"big\"\nplan = \"p.json\"\n[[job]]\nname = \"next\"\nduration = \"1 h\"\ninstances = 2\n";
    let warm =
        |text: &str| predict_queue(&spec(text), &of(&plans), 0).expect("a plan that fits").prediction.warm_starts;
    assert_eq!((warm(text), warm(&format!("{text}encryption = true\n"))), (0, 1));
}

#[test]
fn a_plan_that_downloads_its_data_set_takes_that_longer() {
    let mut plans = plan("p3.2xlarge", 1);
    plans.get_mut("p.json").expect("there").prediction.input = Some(InputPrediction {
        input_stall_s: 0.0,
        accelerator_utilisation: 1.0,
        bottleneck: Bottleneck::Compute,
        read_samples_per_s: 1.0,
        decode_samples_per_s: 1.0,
        copy_samples_per_s: 1.0,
        step_samples_per_s: 1.0,
        first_pass_step_time_s: 1.0,
        download_s: 600.0,
        requests: 0.0,
    });
    let document = with_plan("", &plans).expect("a plan that fits");
    assert!((document.jobs[0].end_s - document.jobs[0].ready_s - 87_000.0).abs() < 1e-6);
}

#[test]
fn evaluation_and_checkpoints_of_a_plan_take_time() {
    let mut plans = plan("p3.2xlarge", 1);
    let prediction = &mut plans.get_mut("p.json").expect("there").prediction;
    (prediction.evaluations_s, prediction.reference_s) = (Some(100.0), Some(20.0));
    (prediction.checkpoints_s, prediction.start_up_s) = (Some(3.0), Some(280.0));
    let document = with_plan("", &plans).expect("a plan that fits");
    assert!((document.jobs[0].end_s - document.jobs[0].ready_s - 86_523.0).abs() < 1e-6);
}

#[test]
fn a_plan_made_at_another_price_is_warned_of() {
    let mut plans = plan("p3.2xlarge", 1);
    let warned = |plans: &BTreeMap<String, PlanDocument>| {
        let warnings = with_plan("", plans).expect("a plan that fits").warnings;
        warnings.into_iter().find(|warning| warning.starts_with("the plan of big was made at"))
    };
    assert_eq!(warned(&plans), None);
    let own = with_plan("", &plans).expect("a plan that fits").prediction.price;
    plans.get_mut("p.json").expect("there").prediction.price.clone_from(&own);
    assert_eq!(warned(&plans), None);
    let lower = own.map(|price| PriceUsed { usd_per_hour: 1.25, ..price });
    plans.get_mut("p.json").expect("there").prediction.price = lower;
    let told = warned(&plans).expect("a warning");
    assert!(told.contains("at 1.25 USD an hour (ec2 on-demand in us-east-1); here"), "{told}");
}

#[test]
fn what_only_warm_pools_match_by_is_warned_of_without_one() {
    let fields = "role = \"other\"\nvolume = \"500 GB\"\nvpc = \"subnet-1\"\nencryption = true";
    let warned = |pool: &str, job: &str| {
        let warnings = predicted(pool, "", job).warnings;
        warnings.into_iter().find(|warning| warning.contains("change nothing"))
    };
    let all = warned("", fields).expect("a warning");
    assert!(all.ends_with("role, volume, vpc, encryption"), "{all}");
    assert_eq!(warned("", ""), None);
    assert_eq!(warned("service = \"sagemaker\"\nwarm_pool = true", fields), None);
}

#[test]
fn what_cannot_be_is_refused_with_its_field_and_its_value() {
    let refused = |pool: &str, job: &str| predict(pool, "", job).expect_err("a mistake").to_string();
    let warm = "service = \"sagemaker\"\nwarm_pool = true\n";
    let other = |fields: &str| format!("[[job]]\nname = \"other\"\n{fields}");
    let cases = [
        (String::new(), "instances = 5".to_owned(), "`job[0].instances` is 5 instances, but `pool.max_instances` is 4"),
        (String::new(), "instances = 0".into(), "`job[0].instances` is 0, but it must be at least 1"),
        (String::new(), "spread = 1.5".into(), "`job[0].spread` is 1.5"),
        (String::new(), "spread = 9".into(), "`job[0].spread` is 9"),
        (String::new(), "submit = \"-2 h\"".into(), "`job[0].submit` is `-2 h`"),
        (String::new(), "volume = \"big\"".into(), "`job[0].volume` is `big`"),
        (String::new(), "plan = \"p.json\"".into(), "`job[0].plan` and `job[0].duration` exclude each other"),
        (String::new(), other(""), "`job[1].plan` is missing"),
        (String::new(), other("duration = \"0 s\""), "`job[1].duration` is `0 s`"),
        (String::new(), other("duration = \"1 h\"\ncount = 0"), "`job[1].count` is 0"),
        (String::new(), other("duration = \"1 h\"\ncount = 10000"), "`job` is 10006 jobs"),
        (String::new(), other("duration = \"300 d\"\ncount = 1000"), "at most 18250 d"),
        (String::new(), JOB.into(), "`job[1].name` is `trial`, but another job"),
        ("service = \"gcp\"".into(), String::new(), "`pool.service` is `gcp`"),
        (
            "region = \"us-east-9\"".into(),
            String::new(),
            "in `pool.region`: no price of any instance is known in `us-east-9`",
        ),
        ("warm_pool = true".into(), String::new(), "`pool.service` is ec2, but it must be sagemaker"),
        ("keep_alive = \"5 min\"".into(), String::new(), "`pool.keep_alive` and `pool.warm_pool = false`"),
        (
            format!("{warm}keep_alive = \"2 h\""),
            String::new(),
            "`pool.keep_alive` is 2 h, but it must be from 1 s to 1 h",
        ),
        (format!("{warm}keep_alive = \"0 s\""), String::new(), "`pool.keep_alive` is 0 s"),
        (format!("{warm}max_warm_instances = 5"), String::new(), "`pool.max_warm_instances` is 5"),
        (
            format!("{warm}start = {{ cold = \"1 min\", warm = \"2 min\" }}"),
            String::new(),
            "`pool.start.warm` is 2 min",
        ),
        ("start = { warm = \"10 s\" }".into(), String::new(), "`pool.start.warm` and `pool.warm_pool = false`"),
    ];
    for (pool, job, expected) in cases {
        let found = refused(&pool, &job);
        assert!(found.contains(expected), "{pool}{job}: {found}");
    }
}

#[test]
fn warm_pools_of_spot_instances_and_empty_queues_are_refused() {
    let text = "[pool]\ninstance = \"p3.2xlarge\"\nmax_instances = 4\npricing = \"spot\"\nservice = \"ec2\"\n";
    let refused = |text: &str| predict_queue(&spec(text), &QueueFiles::default(), 0).expect_err("a mistake");
    assert_eq!(refused(text).to_string().split(':').next(), Some("`job` is missing"));
    let spot = text.replace("ec2", "sagemaker") + "warm_pool = true\n" + JOB;
    assert!(refused(&spot).to_string().starts_with("`pool.warm_pool` and `pool.pricing = \"spot\"` exclude"));
    let unknown = POOL.replace("p3.2xlarge", "p3.2xlage") + JOB;
    assert_eq!(refused(&unknown).hint().as_deref(), Some("did you mean `p3.2xlarge`?"));
    let zero = POOL.replace("= 4", "= 0") + JOB;
    assert_eq!(refused(&zero).to_string(), "`pool.max_instances` is 0, but it must be from 1 to 16384");
}

#[test]
fn plans_for_other_machines_or_more_of_them_are_refused() {
    let wide = with_plan("", &plan("p3.2xlarge", 8)).expect_err("eight of four");
    assert_eq!(
        wide.to_string(),
        "`job[0].plan` is 8 instances, but `pool.max_instances` is 4: the job could never start"
    );
    let other = with_plan("", &plan("p3.8xlarge", 1)).expect_err("another type");
    assert_eq!(other.to_string(), "`job[0].plan` is a plan for p3.8xlarge, but `pool.instance` is p3.2xlarge");
    let hint = "a pool has one type of instances: write a queue for p3.8xlarge, or plan the job again with --instances \
                p3.2xlarge";
    assert_eq!(other.hint().as_deref(), Some(hint));
    // What the hint says of machines of one's own can be written.
    let own = with_plan("", &plan("h100", 2)).expect_err("of a cluster file").hint().expect("advice");
    let (_, rest) = own.split_once("write ").expect("what to write");
    let (duration, rest) = rest.split_once(" and ").expect("two keys");
    let (instances, _) = rest.split_once(" instead").expect("two keys");
    assert_eq!(instances, "instances = 2");
    let written = format!("{POOL}\n[[job]]\nname = \"a\"\n{duration}\n{instances}\n");
    toml::from_str::<QueueSpec>(&written).expect("the keys that the hint names");
    assert!(with_plan("instances = 1", &plan("p3.2xlarge", 1)).is_err());
}

#[test]
fn the_most_work_at_its_longest_fits_the_clock() {
    let longest = valid::MOST_WORK * (crate::queue::simulation::MOST_DEVIATION + 1.0);
    assert!(longest < Instant::NEVER.seconds());
}

#[test]
fn jobs_may_wait_together_for_longer_than_the_clock_goes() {
    let waited = waiting(vec![Span::from_seconds(Seconds(1.5e9)); 1000]);
    assert_eq!((waited.mean, waited.p95, waited.max), (1.5e9, 1.5e9, 1.5e9));
}
