//! Recommendations for real jobs, checked against rules that users know.

use crate::common::{self, plan_with, refused};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{GlobalBatch, JobSpec, Method, Objective, Precision};
use trainyard_planner::{MachineFiles, NoPlan, Resources, missed_goal, problem, resimulate};
use trainyard_sim::Options;

fn job(model: &str, tokens: f64, global_batch: u64) -> JobSpec {
    let mut job = JobSpec::default();
    job.model.name = Some(model.into());
    job.data.tokens = Some(tokens);
    job.training.global_batch = Some(GlobalBatch::Exactly(global_batch));
    job
}

fn plan(job: &JobSpec, fixed: &[&str]) -> Result<PlanDocument, NoPlan> {
    common::plan(job, fixed, 5)
}

/// Everything is sharded among context-parallel ranks too.
#[test]
fn ranks_that_share_samples_make_room_as_replicas_do() {
    let mut job = job("gpt2-xl", 1e9, 8);
    (job.cluster.instances, job.cluster.max_instances) = (Some(vec!["p3.16xlarge".into()]), Some(1));
    // No launchable software computes fused attention across such ranks on V100.
    job.cluster.stack = Some("pytorch".into());
    let found = plan(&job, &["parallel.context=8", "offload=none"]).expect("16 GB hold an eighth of the state");
    assert_eq!((found.plan.parallel.context, found.plan.parallel.data), (8, 1));
}

#[test]
fn tables_too_large_for_one_device_are_divided() {
    let mut job = job("dlrm-large", 1.0, 65_536);
    (job.data.tokens, job.data.samples) = (None, Some(65_536_000));
    job.cluster.instances = Some(vec!["p4d.24xlarge".into()]);
    job.cluster.max_instances = Some(1);
    // 91 GB of tables do not fit into 40 GiB: the planner finds by itself what a user may hold.
    let found = plan(&job, &[]).expect("a plan");
    assert!(found.plan.parallel.expert > 2, "{:?}", found.plan.parallel);
    let held = plan(&job, &["parallel.expert=8"]).expect("a plan");
    assert_eq!(held.plan.parallel.expert, 8);
    assert!(plan(&job, &["parallel.expert=1", "offload=none"]).is_err());
}

#[test]
fn models_of_every_family_are_planned() {
    for name in [
        "resnet50",
        "vit-b-16",
        "bert-base",
        "t5-small",
        "alpa-moe-380m",
        "alpa-wide-resnet-250m",
        "electra-base",
        "bart-large",
        "transformer-big",
        "transformer-xl-base",
        "gnmt",
        "rnn-t",
        "dlrm-small",
    ] {
        let mut job = job(name, 1.0, 64);
        (job.data.tokens, job.data.samples) = (None, Some(6400));
        job.cluster.instances = Some(vec!["p3.*".into()]);
        job.cluster.max_instances = Some(2);
        let document = plan(&job, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mfu = document.prediction.mfu.expect("rented GPUs have a peak");
        assert!(document.prediction.step_time_s > 0.0 && mfu < 1.0, "{name}: {mfu}");
        assert_eq!(document.plan.model.name, name);
    }
}

#[test]
fn a_configuration_is_planned_under_its_name_with_the_jobs_overrides() {
    let config = r#"{
        "model_type": "vit", "hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 3,
        "intermediate_size": 768, "image_size": 224, "patch_size": 16, "num_labels": 10
    }"#;
    let mut job = job("tiny-vit", 1.0, 64);
    (job.data.tokens, job.data.samples) = (None, Some(640));
    (job.model.config, job.model.image_size) = (Some("config.json".into()), Some(64));
    assert!(refused(&job).to_string().starts_with("`model.config` is missing"));
    let read = || trainyard_models::from_hugging_face(config, "tiny-vit").expect("a configuration");
    let ask = |job: &JobSpec| problem(job, Resources { model_file: Some(read()), ..Resources::default() });
    let spec = ask(&job).expect("a solvable job").model.spec();
    assert_eq!((spec.name.as_str(), spec.image_size, spec.classes), ("tiny-vit", Some(64), Some(10)));
    job.model.seq_len = Some(128);
    assert_eq!(ask(&job).expect_err("an image has no sequence length").invalid().field(), "model");
    (job.model.seq_len, job.model.file) = (None, Some("model.toml".into()));
    let error = ask(&job).expect_err("two files").to_string();
    assert!(error.contains("`model.config` exclude each other"), "{error}");
}

#[test]
fn two_way_data_and_four_way_model_parallel_need_eight_gpus() {
    // Seeds of this field: global batch 64 gives each of two replicas 32 samples; 640 samples are 10 steps.
    let mut job = job("gpt2-large", 1.0, 64);
    job.data.tokens = None;
    job.data.samples = Some(640);
    let document =
        plan(&job, &["parallel.data=2", "parallel.tensor=4", "parallel.pipeline=1", "instances=1"]).expect("a plan");
    let plan = trainyard_plan::Plan::try_from(document.plan.clone()).expect("a valid plan");
    assert_eq!(plan.mesh().ranks(), 8);
    assert_eq!(plan.samples_per_replica(), 32);
    assert_eq!(document.prediction.steps, 10);
}

#[test]
fn half_precision_is_chosen_where_tensor_cores_are() {
    let fp16 = plan(&job("gpt2-medium", 1e9, 256), &["instance=p3.16xlarge", "instances=1"]).expect("a plan");
    let fp32 = plan(&job("gpt2-medium", 1e9, 256), &["instance=p3.16xlarge", "instances=1", "precision=fp32"])
        .expect("a plan");
    assert_eq!(fp16.plan.precision, Precision::Fp16Mixed);
    assert!(fp32.prediction.step_time_s > 1.5 * fp16.prediction.step_time_s);
}

#[test]
fn a_tighter_deadline_is_met_with_more_machines() {
    let mut job = job("gpt2-xl", 10e9, 512);
    let relaxed = plan(&job, &[]).expect("a plan");
    job.goal.deadline = Some("4 h".into());
    let tight = plan(&job, &[]).expect("a plan");
    assert!(tight.prediction.time_s <= 4.0 * 3600.0 && relaxed.prediction.time_s > 4.0 * 3600.0);
    assert!(tight.plan.cluster.instances > relaxed.plan.cluster.instances);
    assert!(tight.prediction.cost_usd >= relaxed.prediction.cost_usd);
    assert_eq!(missed_goal(&tight), None);
}

#[test]
fn a_goal_that_cannot_be_met_gets_the_nearest_plan_and_by_how_much() {
    let mut job = job("gpt2-xl", 10e9, 512);
    job.goal.deadline = Some("1 min".into());
    let document = plan(&job, &[]).expect("the nearest plan");
    assert!(missed_goal(&document).is_some_and(|missed| missed.contains("times the deadline")));
    assert_eq!(
        (document.missed.clone(), document.prediction.in_all_s),
        (missed_goal(&document), Some(document.prediction.elapsed_s()))
    );
    job.goal.deadline = None;
    job.goal.budget = Some(1.0);
    let document = plan(&job, &[]).expect("the nearest plan");
    assert!(missed_goal(&document).is_some_and(|missed| missed.contains("times the budget")));
}

#[test]
fn of_two_limits_that_no_plan_meets_together_the_one_that_can_be_met_is() {
    let mut job = job("gpt2-xl", 10e9, 512);
    let document = plan(&job, &[]).expect("a plan");
    // The one that is recommended may cost more by less than predictions can tell.
    let least = document.optimum.as_ref().and_then(|optimum| optimum.cost_usd);
    let (cost, time) = (document.prediction.cost_usd.expect("a price"), document.prediction.elapsed_s());
    let least = least.unwrap_or(cost);
    let mut nearest = |deadline_s: f64, budget: f64| {
        job.goal.deadline = Some(format!("{deadline_s} s"));
        job.goal.budget = Some(budget);
        let document = plan(&job, &[]).expect("the nearest plan");
        let prediction = &document.prediction;
        (prediction.elapsed_s(), prediction.cost_usd.expect("a price"), missed_goal(&document).expect("a reason"))
    };
    // Any time will do: the cheapest plan is nearest to a budget below its price, not the fastest.
    let (_, dear, why) = nearest(100.0 * time, 0.9 * cost);
    assert!((dear - least).abs() < 1e-9 * least && why.contains(" that ends within "), "{dear} USD: {why}");
    // No plan is so fast, and some cost no more than twice the least.
    let (late, cost_of_late, why) = nearest(60.0, 2.0 * cost);
    assert!(late < time && cost_of_late <= 2.0 * cost && why.contains("the nearest that costs at most"), "{why}");
    // Neither can be met: the fastest.
    let (fastest, _, why) = nearest(60.0, 0.5 * cost);
    assert!(fastest <= 1.2 * late && why.contains("and none costs at most"), "{fastest} {late}: {why}");
}

#[test]
fn hints_of_what_would_fit_were_tried() {
    let mut job = job("gpt2-xl", 1e9, 512);
    job.cluster.instances = Some(vec!["p3.16xlarge".into()]);
    job.cluster.max_instances = Some(4);
    job.cluster.stack = Some("pytorch-ddp".into());
    let hint = plan(&job, &[]).expect_err("a V100 does not hold the states of GPT-2 XL").hint().expect("there is one");
    // Replicas that hold everything do not hold less of it on more machines.
    assert!(hint.contains("--stack ") && !hint.contains("allow"), "{hint}");
    let stack = hint.split_once("--stack ").and_then(|(_, rest)| rest.split_once(')')).expect("it names one").0;
    job.cluster.stack = Some(stack.into());
    plan(&job, &[]).expect("it was tried");
    job.cluster.stack = None;
    let refused = plan(&job, &["parallel.tensor=2"]).expect_err("GPT-2 XL has 25 heads");
    assert!(refused.to_string().contains("25 attention heads do not divide by it"), "{refused}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("with parallel.tensor 1 there are plans")), "{refused}");
}

#[test]
fn eight_bits_are_planned_where_they_are_named_and_can_be() {
    let mut job = job("llama-3.1-8b", 1e9, 64);
    job.cluster.max_instances = Some(1);
    job.cluster.instances = Some(vec!["p5.48xlarge".into()]);
    let precision = |job: &JobSpec, fixed: &[&str]| plan(job, fixed).map(|document| document.plan.precision);
    assert_eq!(precision(&job, &[]).expect("a plan"), Precision::Bf16Mixed);
    assert_eq!(precision(&job, &["precision=fp8"]).expect("a plan"), Precision::Fp8Mixed);
    let stack = plan(&job, &["precision=fp8"]).expect("a plan").plan.stack;
    assert_eq!(stack.as_deref(), Some("megatron-core"));
    // Adapters are for software that has no fp8 here, and A100s have no units for it.
    let mut adapted = job.clone();
    (adapted.data.tokens, adapted.data.samples) = (None, Some(10_000));
    adapted.training.method = Some(Method::Lora);
    let error = precision(&adapted, &["precision=fp8"]).expect_err("refused");
    assert!(matches!(&error, NoPlan::Unable { field, .. } if field == "precision"), "{error}");
    job.cluster.instances = Some(vec!["p4d.24xlarge".into()]);
    let error = precision(&job, &["precision=fp8"]).expect_err("refused");
    assert!(error.hint().is_some_and(|hint| hint.contains("p5.48xlarge")), "{error} {:?}", error.hint());
}

#[test]
fn a_batch_that_no_degree_divides_says_so() {
    let error = plan(&job("gpt2", 1e9, 7), &["parallel.data=2"]).expect_err("7 samples on 2 replicas");
    assert!(matches!(error, NoPlan::EmptySpace { .. }), "{error}");
}

#[test]
fn the_same_question_has_the_same_answer_on_any_number_of_threads() {
    let job = job("gpt2-large", 1e9, 128);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| serde_json::to_string(&plan(&job, &[]).expect("a plan")).expect("a document"))
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn simulating_a_plan_again_gives_the_same_prediction() {
    let document = plan(&job("gpt2-large", 1e9, 128), &[]).expect("a plan");
    let (again, outcome) =
        resimulate(&document, MachineFiles::default(), Options::default()).expect("a plan of the catalog");
    assert_eq!(again, document);
    assert!((outcome.step_time.0 - document.prediction.step_time_s).abs() < f64::EPSILON);
}

#[test]
fn fastest_plans_are_not_slower_than_cheapest_ones() {
    let mut job = job("gpt2-xl", 1e9, 512);
    let cheapest = plan(&job, &[]).expect("a plan");
    job.goal.objective = Some(Objective::Time);
    let fastest = plan(&job, &[]).expect("a plan");
    assert!(fastest.prediction.elapsed_s() <= cheapest.prediction.elapsed_s());
    assert!(fastest.prediction.cost_usd >= cheapest.prediction.cost_usd);
    // The front of either holds both ends.
    let ends = |document: &PlanDocument| {
        let own: Vec<_> = document.pareto.iter().filter(|point| point.plan.pricing == document.plan.pricing).collect();
        let ends = (own.first().map(|point| point.time_s), own.last().and_then(|point| point.cost_usd));
        [ends.0.expect("a point"), ends.1.expect("rented")]
    };
    // To the last bit but one: plans may tie.
    let same =
        |one: [f64; 2], other: [f64; 2]| one.iter().zip(other).all(|(one, other)| (one / other - 1.0).abs() < 1e-12);
    assert!(same(ends(&cheapest), ends(&fastest)), "{:?} {:?}", ends(&cheapest), ends(&fastest));
    let least_time = fastest.optimum.as_ref().map_or(fastest.prediction.elapsed_s(), |optimum| optimum.time_s);
    let least_cost = cheapest.optimum.as_ref().map_or(cheapest.prediction.cost_usd, |optimum| optimum.cost_usd);
    assert!(same(ends(&cheapest), [least_time, least_cost.expect("rented")]), "{:?}", ends(&cheapest));
}

#[test]
fn wrong_jobs_are_refused_with_field_value_and_what_is_allowed() {
    let good = job("gpt2", 1e9, 512);
    let mut wrong = good.clone();
    wrong.model.name = Some("gpt2-xll".into());
    assert_eq!(refused(&wrong).hint().as_deref(), Some("did you mean `gpt2-xl`?"));
    for tokens in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e30] {
        let mut wrong = good.clone();
        wrong.data.tokens = Some(tokens);
        assert!(refused(&wrong).to_string().contains("`data.tokens`"), "{tokens}");
    }
    let mut wrong = good.clone();
    (wrong.model.name, wrong.model.seq_len) = (Some("gpt3-175b".into()), Some(1 << 22));
    assert!(refused(&wrong).to_string().contains("`model` is `gpt3-175b`"));
    let mut wrong = good.clone();
    wrong.training.global_batch = Some(GlobalBatch::Exactly(0));
    assert!(refused(&wrong).to_string().contains("from 1 to"));
    let mut wrong = good.clone();
    wrong.cluster.instances = Some(vec!["p3.16xlage".into()]);
    assert_eq!(refused(&wrong).hint().as_deref(), Some("did you mean `p3.16xlarge`?"));
    let mut wrong = good.clone();
    wrong.cluster.region = Some("mars-1".into());
    assert!(refused(&wrong).hint().is_some_and(|hint| hint.contains("us-east-1")));
    let mut wrong = good.clone();
    wrong.goal.deadline = Some("3".into());
    assert!(refused(&wrong).to_string().contains("has no unit"));
    let mut wrong = good;
    wrong.data.samples = Some(10);
    assert!(refused(&wrong).to_string().contains("exclude each other"));
}

#[test]
fn a_step_too_large_to_simulate_is_told_before_it_starts() {
    let mut job = job("gpt2", 1e9, 1 << 32);
    job.cluster.instances = Some(vec!["p3.2xlarge".into()]);
    job.cluster.max_instances = Some(2);
    assert!(matches!(plan(&job, &[]), Err(NoPlan::EmptySpace { .. })));
}

/// A job on machines of one's own that seeks time, with the file that describes them.
fn on_own_cluster(machines: &str) -> (JobSpec, Resources) {
    let mut job = job("gpt2", 1e9, 64);
    (job.cluster.file, job.goal.objective) = (Some("rack.toml".into()), Some(Objective::Time));
    let file = toml::from_str(&format!("name = \"rack\"\nmachines = [{machines}]")).expect("a cluster file");
    (job, Resources { cluster_file: Some(file), ..Resources::default() })
}

const NODE: &str = r#"{ name = "node", count = 2, gpus = 4, gpu = "a100-sxm4-40gb", link = { kind = "nvswitch", bandwidth = "300 GB/s" }, network = { bandwidth = "200 Gbit/s", transport = "infiniband" } }"#;
const STATION: &str = r#"{ name = "station", count = 4, gpus = 1, gpu = "l4", network = { bandwidth = "25 Gbit/s", transport = "tcp" } }"#;

fn plan_on(machines: &str) -> PlanDocument {
    let (job, resources) = on_own_cluster(machines);
    plan_with::<&str>(&job, resources, &[], 5).expect("a plan")
}

#[test]
fn a_cluster_of_ones_own_costs_nothing_and_its_machines_are_used_whole() {
    let document = plan_on(NODE);
    let (cluster, parallel) = (&document.plan.cluster, document.plan.parallel);
    assert_eq!(parallel.data * parallel.tensor * parallel.pipeline, 4 * cluster.instances);
    assert!(cluster.instance == "rack" && cluster.instances <= 2 && document.prediction.cost_usd.is_none());
    // Both machines together are faster than one.
    assert_eq!(cluster.instances, 2);
    assert!(document.alternatives.iter().any(|other| other.plan.cluster.instances == 1));
}

/// Machines of a kind, this many.
fn nodes(count: u32) -> String {
    NODE.replace("count = 2", &format!("count = {count}"))
}

#[test]
fn machines_that_the_batch_leaves_idle_are_told_with_a_batch_that_uses_them() {
    let idle = |batch| {
        let (mut job, resources) = on_own_cluster(&nodes(3));
        job.training.global_batch = Some(GlobalBatch::Exactly(batch));
        let document = plan_with::<&str>(&job, resources, &[], 0).expect("a plan");
        document.warnings.into_iter().find(|warning| warning.contains("stay idle"))
    };
    let told = idle(256).expect("256 samples do not divide over 12 devices");
    assert!(told.starts_with("1 of 3 machines stay idle") && told.contains("--global-batch 240"), "{told}");
    assert_eq!(idle(240), None);
}

#[test]
fn a_kind_of_machines_that_is_faster_alone_is_used_alone_in_its_own_number_format() {
    let document = plan_on(&format!("{NODE}, {}", STATION.replace("\"l4\"", "\"t4\"")));
    let cluster = &document.plan.cluster;
    assert_eq!((cluster.instance.as_str(), cluster.instances), ("node", 2));
    assert_eq!((document.plan.precision, cluster.file.as_deref()), (Precision::Bf16Mixed, Some("rack.toml")));
    let told = document.reasons.iter().find(|reason| reason.starts_with("2 × node rather than"));
    assert!(told.is_some(), "{:?}", document.reasons);
    assert!(!document.warnings.iter().any(|warning| warning.contains("no launcher")));
}

#[test]
fn more_machines_of_ones_own_are_told_where_they_would_meet_a_deadline() {
    let (mut job, resources) = on_own_cluster(&nodes(2));
    let all = plan_on(&nodes(2)).prediction.elapsed_s();
    job.goal.deadline = Some(format!("{} s", all * 0.8));
    let document = plan_with::<&str>(&job, resources, &[], 0).expect("the nearest");
    let told = document.to_meet_goal.expect("the deadline is missed");
    assert!(told.starts_with("with more machines than the 2 of the cluster file: 4 × rack"), "{told}");
}

#[test]
fn degrees_beyond_ones_own_devices_are_refused_with_both_numbers() {
    let (job, resources) = on_own_cluster(&nodes(2));
    let refused = |held: &str| {
        let error = plan_with(&job, resources.clone(), &[held], 0).expect_err("too many");
        (error.to_string(), error.hint().expect("a way out"))
    };
    for (held, sentence, instances) in [
        ("parallel.data=16", "parallel.data 16 needs 16 devices, but rack has 8", 4),
        ("instances=3", "`instances` is 3, but rack has 2 machines", 3),
    ] {
        let (told, hint) = refused(held);
        assert_eq!(told, sentence);
        assert!(hint.contains("`count`") && hint.contains(&format!("--vary instances={instances}`")), "{hint}");
    }
}

#[test]
fn a_mixed_cluster_that_is_held_is_used_as_a_whole() {
    let (job, resources) = on_own_cluster(&format!("{NODE}, {STATION}"));
    let document = plan_with(&job, resources, &["instance=rack"], 0).expect("a plan");
    assert!(document.warnings.iter().any(|warning| warning.contains("`export` writes no files")));
    let parallel = document.plan.parallel;
    assert_eq!((parallel.data * parallel.tensor * parallel.pipeline, document.plan.cluster.instances), (12, 6));
    assert_eq!(parallel.tensor, 1, "a tensor-parallel group stays inside the smallest machine");
}

#[test]
fn a_cluster_file_excludes_rented_machines_and_says_what_is_wrong_in_it() {
    let refused = |change: fn(&mut JobSpec), machines: &str| {
        let (mut job, resources) = on_own_cluster(machines);
        change(&mut job);
        problem(&job, resources).expect_err("the job is wrong").to_string()
    };
    assert!(refused(|job| job.cluster.region = Some("us-east-1".into()), NODE).contains("`cluster.region`"));
    assert!(refused(|job| job.cluster.profile = Some("local".into()), NODE).contains("`cluster.profile`"));
    assert!(refused(|job| job.goal.budget = Some(10.0), NODE).contains("`goal.budget` and `cluster.file`"));
    let wrong = refused(|_| (), &NODE.replace("a100-sxm4-40gb", "a100"));
    assert!(wrong.contains("`cluster.file`") && wrong.contains("`machines[0].gpu`"), "{wrong}");
    let job = on_own_cluster(NODE).0;
    let error = common::refused(&job).to_string();
    assert!(error.starts_with("`cluster.file` is missing"), "{error}");
}

#[test]
fn a_system_that_nobody_rents_out_is_not_recommended() {
    let mut job = job("gpt2", 1e9, 64);
    job.cluster.instances = Some(vec!["selene".into()]);
    assert!(refused(&job).to_string().starts_with("in `cluster.region`: no price of selene"));
    job.cluster.instances = Some(vec!["selene".into(), "p3.2xlarge".into()]);
    let document = plan(&job, &[]).expect("a plan");
    assert_eq!(document.plan.cluster.instance, "p3.2xlarge");
    assert!(document.rejected.iter().any(|rejected| rejected.what == "selene"), "{:?}", document.rejected);
}

#[test]
fn a_number_format_that_no_machine_has_is_not_dropped_in_silence() {
    let mut job = job("gpt2", 1e7, 64);
    job.cluster.instances = Some(vec!["p3.2xlarge".into()]);
    job.cluster.max_instances = Some(1);
    job.training.precision = Some(vec![Precision::Bf16Mixed, Precision::Fp16Mixed]);
    let document = plan(&job, &[]).expect("a plan");
    assert_ne!(document.plan.precision, Precision::Fp32);
    assert!(
        document.warnings.iter().any(|warning| warning.contains("bf16-mixed is left out")),
        "{:?}",
        document.warnings
    );
}

#[test]
fn models_that_are_written_out_are_planned() {
    // One that goes by blocks, one with skips across layers, one with sixty layers that all differ.
    for name in ["efficientnet-b0", "unet-medical", "densenet121", "retinanet-resnext50"] {
        let mut job = job(name, 1.0, 64);
        (job.data.tokens, job.data.samples) = (None, Some(6400));
        job.cluster.instances = Some(vec!["p3.*".into()]);
        job.cluster.max_instances = Some(2);
        let document = plan(&job, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let again = resimulate(&document, MachineFiles::default(), Options::default());
        assert!(again.is_ok(), "{name}");
        assert_eq!(document.plan.parallel.tensor, 1, "{name}");
        assert!(document.plan.model.layer.as_ref().is_some_and(|layers| layers.len() > 1), "{name}");
    }
}

#[test]
fn the_example_of_a_model_of_ones_own_is_planned() {
    let job: JobSpec = toml::from_str(include_str!("../../../examples/own-layers.toml")).expect("a job");
    let model_file = Some(toml::from_str(include_str!("../../../examples/own-layers-model.toml")).expect("a model"));
    let document = plan_with::<&str>(&job, Resources { model_file, ..Resources::default() }, &[], 1).expect("a plan");
    // The job's image replaces the file's.
    assert_eq!(document.plan.model.input.and_then(|input| input.height), Some(256));
}
