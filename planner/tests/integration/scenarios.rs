//! Questions whose answers people who train models know, each as narrow as it can be asked.

use crate::common::{self, limits};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{JobSpec, Precision, Pricing, Recompute, StateSharding, WhatIfFigures};
use trainyard_planner::what_if::{SoughtJob, Subject, axes, what_if};
use trainyard_planner::{Cancellation, MachineFiles, NamedPlan, NoPlan, Resources, SearchCache, explain, missed_goal};

/// A job on some instances: `model` and `work` are TOML.
fn job(model: &str, work: &str, instances: &str, max_instances: u32) -> JobSpec {
    let types: Vec<String> = instances.split(',').map(|name| format!("{name:?}")).collect();
    let text = format!(
        "[model]\n{model}\n{work}\n[cluster]\ninstances = [{}]\nmax_instances = {max_instances}\n",
        types.join(", ")
    );
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn tokens(tokens: f64, global_batch: u64) -> String {
    format!("[data]\ntokens = {tokens:e}\n[training]\nglobal_batch = {global_batch}")
}

fn gpt(layers: u32, hidden: u32, vocab: u32) -> String {
    let heads = hidden / 64;
    format!("family = \"gpt\"\nlayers = {layers}\nhidden = {hidden}\nheads = {heads}\nvocab = {vocab}\nseq_len = 1024")
}

fn plan(job: &JobSpec, fixed: &[&str]) -> Result<PlanDocument, NoPlan> {
    common::plan(job, fixed, 3)
}

fn found(job: &JobSpec, fixed: &[&str]) -> PlanDocument {
    plan(job, fixed).unwrap_or_else(|error| panic!("{error}"))
}

fn cluster(document: &PlanDocument) -> (&str, u32) {
    (&document.plan.cluster.instance, document.plan.cluster.instances)
}

#[track_caller]
fn says(document: &PlanDocument, parts: &[&str]) {
    let told = |reason: &&String| parts.iter().all(|part| reason.contains(part));
    assert!(document.reasons.iter().any(|reason| told(&reason)), "no reason says {parts:?}: {:#?}", document.reasons);
}

#[test]
fn a_small_model_trains_on_one_machine_of_a_small_instance() {
    let job = job(&gpt(6, 512, 10_000), &tokens(1e10, 64), "g4dn.xlarge,g4dn.12xlarge,p3.2xlarge,p3.8xlarge", 2);
    let document = found(&job, &[]);
    assert_eq!(cluster(&document).1, 1);
    assert!(["g4dn.xlarge", "p3.2xlarge"].contains(&cluster(&document).0), "{:?}", cluster(&document));
    let parallel = document.plan.parallel;
    assert_eq!((parallel.data, parallel.tensor, parallel.pipeline), (1, 1, 1));
    assert_eq!(document.plan.state_sharding, StateSharding::None);
    assert_ne!(document.plan.precision, Precision::Fp32);
    says(&document, &["nothing is split"]);
}

#[test]
fn a_growing_model_takes_bigger_instances_before_a_second_one() {
    // 0.2 to 0.9 billion parameters, and everything else equal.
    let sizes = ["p3.2xlarge", "p3.8xlarge", "p3.16xlarge"];
    let mut taken = Vec::new();
    for layers in [12, 36, 48, 64] {
        let mut asked = job(&gpt(layers, 1024, 50_257), &tokens(1e11, 64), "p3.*", 2);
        (asked.cluster.stack, asked.cluster.memory_margin) = (Some("pytorch".into()), Some("0%".into()));
        let document = found(&asked, &[]);
        let cheapest = document.optimum.as_ref().map_or(&document.plan, |optimum| &optimum.plan);
        assert_eq!(cheapest.cluster.instances, 1, "{layers} layers");
        taken.extend(sizes.iter().position(|size| *size == cheapest.cluster.instance));
        // A plan that costs about as much and is much faster is on a bigger machine too, not on a second one.
        assert_eq!(cluster(&document).1, 1, "{layers} layers");
    }
    assert!(taken.is_sorted() && taken.len() == 4 && taken[0] == 0 && taken[3] > 0, "{taken:?}");
}

#[test]
fn what_was_done_to_fit_a_large_model_into_a_small_gpu_is_told() {
    let mut job = job("name = \"gpt2-xl\"", &tokens(1e9, 64), "p3.2xlarge", 1);
    (job.cluster.stack, job.cluster.memory_margin) = (Some("pytorch".into()), Some("0%".into()));
    job.training.precision = Some(vec![Precision::Fp32]);
    let plain = ["offload=none", "recompute=none", "state_sharding=none"];
    assert!(matches!(plan(&job, &plain), Err(NoPlan::OutOfMemory { .. })));
    let kept = found(&job, &["offload=optimizer"]);
    assert_eq!(kept.plan.recompute, Recompute::Full);
    says(&kept, &["full recomputation", "15.8 GiB"]);
    let document = found(&job, &[]);
    assert_ne!(document.plan.recompute, Recompute::None);
    let offload = document.plan.offload;
    assert!(offload.optimizer.is_some(), "{offload}");
    says(
        &document,
        &[&format!("offload {offload}"), "plans without it on these machines would not fit", "15.8 GiB available"],
    );
}

#[test]
fn one_large_instance_is_told_from_two_of_half_its_size() {
    let work = tokens(1e9, 256);
    let on = |instance: &str, instances: u32| {
        let job = job("name = \"gpt2-medium\"", &work, "p3.8xlarge,p3.16xlarge", 2);
        found(&job, &[&format!("instance={instance}"), &format!("instances={instances}")])
    };
    let free = found(&job("name = \"gpt2-medium\"", &work, "p3.8xlarge,p3.16xlarge", 2), &[]);
    assert_eq!(cluster(&free), ("p3.16xlarge", 1));
    says(&free, &["p3.16xlarge rather than 2 × p3.8xlarge for the same 8 GPUs", "cheaper"]);
    let named = |file: &str, document| NamedPlan { file: file.into(), document, files: MachineFiles::default() };
    let (one, two) = (named("one.json", on("p3.16xlarge", 1)), named("two.json", on("p3.8xlarge", 2)));
    let explained = explain(&one, Some(&two)).expect("plans of the catalog");
    let verdict = explained.verdict.join("\n");
    assert!(verdict.contains("A is faster") && verdict.contains("between machines"), "{verdict}");
    let differs = |field: &str| explained.differences.iter().any(|difference| difference.field == field);
    assert!(differs("cluster.instance") && differs("cluster.instances") && !differs("optimizer"));
    let same = explain(&one, Some(&one)).expect("plans of the catalog");
    assert!(same.differences.is_empty() && same.verdict[0].contains("the same time"), "{:?}", same.verdict);
}

#[test]
fn a_very_large_model_with_whole_states_is_split_inside_machines_and_across_them() {
    let job = job("name = \"gpt3-175b\"", &tokens(1e10, 1024), "p4d.24xlarge", 64);
    let document = found(&job, &["instances=64", "state_sharding=none", "precision=bf16-mixed", "batch.micro=2"]);
    let parallel = document.plan.parallel;
    assert!((2..=8).contains(&parallel.tensor) && parallel.pipeline > 1, "{parallel:?}");
    says(&document, &["tensor parallel", "pipeline stages", "data parallel alone would not fit"]);
    let named = NamedPlan { file: "plan.json".into(), document, files: MachineFiles::default() };
    let told = explain(&named, None).expect("a plan of the catalog").plan.description.join("\n");
    assert!(told.contains("which exchange activations inside a machine"), "{told}");
    assert!(told.contains("activations pass between them over the network"), "{told}");
}

#[test]
fn a_slow_network_favours_stages_and_a_fast_one_replicas() {
    let mut job = job("name = \"gpt2-large\"", &tokens(1e9, 256), "p4d.24xlarge", 4);
    job.cluster.stack = Some("megatron-core".into());
    let limits = limits(&["instances=4", "precision=bf16-mixed"], 1);
    let subject = Subject::Job(Box::new(SoughtJob {
        spec: job,
        resources: Resources::default(),
        limits,
        cancellation: Cancellation::default(),
        cache: SearchCache::default(),
    }));
    let axes = axes(&["cluster.network=25Gbps,400Gbps".into()]).expect("a key and values");
    let answer = what_if(&subject, &axes, &|| ()).expect("an answer");
    let plans: Vec<&WhatIfFigures> = answer.cases.iter().filter_map(|case| case.figures.as_ref()).collect();
    let [slow, fast] = plans[..] else { panic!("{answer:?}") };
    let (slow, fast) = (&slow.plan, &fast.plan);
    // Replicas sum gradients less often, or there are fewer of them and stages instead.
    assert!(slow.parallel.pipeline > 1 || slow.batch.accumulation > fast.batch.accumulation, "{:?}", slow.parallel);
    assert!(slow.parallel.data < fast.parallel.data, "{:?} and {:?}", slow.parallel, fast.parallel);
    assert_eq!((fast.parallel.data, fast.parallel.pipeline), (32, 1));
}

/// GPT-2 XL, which p4d.24xlarge trains in a day and a half and p3.16xlarge in three.
fn large(goal: &str) -> JobSpec {
    let work = format!("{}\n[goal]\n{goal}", tokens(1e10, 256));
    job("name = \"gpt2-xl\"", &work, "p3.16xlarge,p4d.24xlarge", 1)
}

#[test]
fn a_deadline_that_only_the_newer_gpu_meets_decides() {
    let document = found(&large("deadline = \"40 h\""), &[]);
    assert_eq!((cluster(&document), missed_goal(&document)), (("p4d.24xlarge", 1), None));
    let older = found(&large("deadline = \"40 h\""), &["instance=p3.16xlarge"]);
    assert!(missed_goal(&older).is_some_and(|missed| missed.contains(" the deadline")));
}

#[test]
fn a_budget_that_only_spot_meets_is_met_by_spot() {
    let cheapest = found(&large(""), &[]).prediction.cost_usd.expect("a price");
    let budget = (0.9 * cheapest).floor();
    let mut job = large(&format!("budget = {budget:.1}"));
    let on_demand = found(&job, &[]);
    assert!(missed_goal(&on_demand).is_some_and(|missed| missed.contains(" over the budget")));
    job.cluster.pricing = Some(Pricing::Spot);
    let spot = found(&job, &[]);
    assert_eq!(missed_goal(&spot), None);
    assert!(spot.prediction.cost_usd.is_some_and(|cost| cost <= budget));
}

#[test]
fn where_nothing_fits_the_limit_to_relax_is_told() {
    let job = job("name = \"gpt3-175b\"", &tokens(1e9, 64), "p3.2xlarge", 2);
    let error = plan(&job, &["precision=fp16-mixed"]).expect_err("175 billion parameters on two small GPUs");
    let hint = error.hint().unwrap_or_default();
    assert!(matches!(error, NoPlan::OutOfMemory { .. }), "{error}");
    assert!(hint.contains("search types whose GPUs have more memory (--instances p4d.24xlarge), or take"), "{hint}");
    assert!(!hint.contains("shorten the samples"), "no length fits: {hint}");
}

#[test]
fn samples_are_said_to_be_shortened_to_what_fits() {
    let on_one_machine = |seq_len| {
        let model = format!("name = \"llama-3.2-1b\"\nseq_len = {seq_len}");
        plan(&job(&model, &tokens(1e9, 8), "p3dn.24xlarge", 1), &["precision=fp16-mixed", "stack=pytorch-ddp"])
    };
    let hint = on_one_machine(16_384).expect_err("samples that are too long").hint().unwrap_or_default();
    let (_, fits) = hint.split_once("--seq-len ").unwrap_or_else(|| panic!("{hint}"));
    let fits: String = fits.chars().take_while(char::is_ascii_digit).collect();
    assert!(on_one_machine(fits.parse().expect("a number")).is_ok(), "{hint}");
}
