//! What-if: a key at its present value changes nothing, better hardware is never slower, and what must follow follows.

use crate::common;
use trainyard_hardware_profiles::ClusterFile;
use trainyard_models::AttentionKernel;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{
    CampaignSpec, ClusterChoice, GlobalBatch, GradientReduction, JobSpec, Method, Objective, Pricing, ScheduleName,
    WhatIfDocument, WhatIfFigures,
};
use trainyard_planner::what_if::{HeldPlan, SoughtJob, Subject, WhatIfError, axes, tornado, what_if};
use trainyard_planner::{Cancellation, Limits, MachineFiles, Resources, SearchCache, problem, recommend, resimulate};
use trainyard_sim::Options;

fn job() -> JobSpec {
    let mut job = common::job("gpt2-xl", 256, &["p3.16xlarge", "p4d.24xlarge"], 2);
    job.data.tokens = Some(1e9);
    job
}

fn limits(fixed: &[&str]) -> Limits {
    common::limits(fixed, 1)
}

fn plan(fixed: &[&str]) -> PlanDocument {
    plan_of(&job(), fixed)
}

fn plan_of(job: &JobSpec, fixed: &[&str]) -> PlanDocument {
    common::plan(job, fixed, 1).expect("a plan")
}

fn held(document: &PlanDocument) -> Subject {
    Subject::Plan(Box::new(HeldPlan { document: document.clone(), files: MachineFiles::default() }))
}

fn sought(job: JobSpec, fixed: &[&str]) -> Subject {
    Subject::Job(Box::new(SoughtJob {
        spec: job,
        resources: Resources::default(),
        limits: limits(fixed),
        cancellation: Cancellation::default(),
        cache: SearchCache::default(),
    }))
}

fn ask(subject: &Subject, vary: &[&str]) -> WhatIfDocument {
    let axes = axes(&vary.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("keys and values");
    what_if(subject, &axes, &|| ()).expect("an answer")
}

/// What is said of values of which none can be.
fn refused(subject: &Subject, vary: &[&str]) -> String {
    let axes = axes(&vary.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("keys and values");
    what_if(subject, &axes, &|| ()).expect_err("wrong values").to_string()
}

fn figures(document: &WhatIfDocument) -> Vec<&WhatIfFigures> {
    document.cases.iter().map(|case| case.figures.as_ref().unwrap_or_else(|| panic!("{:?}", case.reason))).collect()
}

fn reason(document: &WhatIfDocument, case: usize) -> &str {
    document.cases[case].reason.as_deref().unwrap_or_else(|| panic!("{:?}", document.cases[case].figures))
}

/// On two p4d: replicas and stages, so that every link is used.
fn wide() -> PlanDocument {
    plan(&["instances=2", "instance=p4d.24xlarge", "parallel.pipeline=4", "parallel.data=4", "schedule=1f1b"])
}

/// Megatron Core trains experts under tensor parallelism with sequence parallelism alone, and tensor ranks share them out.
#[test]
fn experts_follow_the_degrees_of_a_held_plan() {
    let mut job = job();
    job.model.name = Some("qwen3-30b-a3b".into());
    job.cluster.instances = Some(vec!["p5.48xlarge".into()]);
    let fixed = ["stack=megatron-core", "instances=2", "parallel.tensor=1", "parallel.pipeline=2", "parallel.expert=8"];
    let whole = plan_of(&job, &fixed);
    assert!(!whole.plan.parallel.folded_experts);
    let answer = ask(&held(&whole), &["parallel.tensor=1,2"]);
    let [one, two] = figures(&answer)[..] else { panic!("two cases") };
    let [one, two] = [one, two].map(|case| case.plan.parallel);
    assert!(!one.folded_experts && two.folded_experts && two.sequence);
    assert_eq!([one, two].map(|parallel| (parallel.expert, parallel.expert_ranks())), [(8, 8), (4, 8)]);
}

#[test]
fn a_held_plan_with_a_key_at_its_present_value_is_simulated_as_ever() {
    let document = wide();
    let batch = document.plan.batch;
    let (simulated, _) = resimulate(&document, MachineFiles::default(), Options::default()).expect("a simulation");
    let own = format!("batch.micro={}", batch.micro);
    let accumulation = format!("batch.accumulation={}", batch.accumulation);
    let precision = format!("precision={}", document.plan.precision);
    for present in [
        "instances=2",
        "instances=x1",
        "instance=p4d.24xlarge",
        "parallel.data=4",
        "parallel.pipeline=4",
        "parallel.tensor=1",
        "batch.global=256",
        &own,
        &accumulation,
        &precision,
        "pricing=on-demand",
        "region=us-east-1",
        "price.instance=x1",
        "cluster.encrypted=false",
        "cluster.transport=efa-gpudirect",
        "cluster.network=400Gbps",
        "cluster.latency=×1",
        "link.bandwidth=×1",
        "gpu.memory_bandwidth=×1",
        "gpu.peak=×1",
        "stack.launch=x1",
        "cluster.stack=megatron-core",
        "stack=megatron-core",
        "model.layers=48",
        "model.seq_len=1024",
        "model.hidden=1600",
        "data.tokens=1e9",
        "training.optimizer=adamw",
    ] {
        let answer = ask(&held(&document), &[present]);
        let case = figures(&answer)[0];
        assert_eq!(case.plan, document.plan, "{present}");
        let prediction = &simulated.prediction;
        let expected = (prediction.step_time_s.to_bits(), prediction.time_s.to_bits(), prediction.steps);
        assert_eq!((case.step_time_s.to_bits(), case.time_s.to_bits(), case.steps), expected, "{present}");
        assert_eq!((case.cost_usd, case.interval_s), (prediction.cost_usd, prediction.interval_s), "{present}");
        assert_eq!((answer.cases[0].time_change, answer.cases[0].cost_change), (Some(0.0), Some(0.0)), "{present}");
    }
}

#[test]
fn a_job_with_a_key_at_its_present_value_is_planned_as_ever() {
    let document = plan(&[]);
    for present in
        ["training.global_batch=256", "region=us-east-1", "gpu.memory=×1", "model.layers=48", "data.tokens=1e9"]
    {
        let answer = ask(&sought(job(), &[]), &[present]);
        let case = figures(&answer)[0];
        assert_eq!(case.plan, document.plan, "{present}");
        assert_eq!(case.time_s.to_bits(), document.prediction.time_s.to_bits(), "{present}");
        assert_eq!(case.cost_usd, document.prediction.cost_usd, "{present}");
    }
}

#[test]
fn better_machines_are_never_slower() {
    let plans = vec![
        wide(),
        plan(&["instances=2", "instance=p3.16xlarge"]),
        plan(&["instances=2", "instance=p4d.24xlarge", "state_sharding=parameters"]),
    ];
    let rates = [
        "cluster.network",
        "gpu.memory_bandwidth",
        "gpu.peak",
        "link.bandwidth",
        "gpu.host_bandwidth",
        "host.memory_bandwidth",
    ];
    let delays = ["cluster.latency", "link.latency", "stack.launch"];
    for document in &plans {
        for (key, sign) in rates.iter().map(|key| (key, 1.0)).chain(delays.iter().map(|key| (key, -1.0))) {
            let answer = ask(&held(document), &[&format!("{key}=×0.25,×0.5,×1,×2,×4")]);
            let times: Vec<f64> = figures(&answer).iter().map(|own| own.step_time_s).collect();
            for pair in times.windows(2) {
                assert!((pair[0] - pair[1]) * sign >= -1e-12, "{key}: {times:?}");
            }
        }
    }
    // And they do matter where they are used.
    let slower = |key: &str| {
        let answer = ask(&held(&plans[0]), &[&format!("{key}=×1,×8")]);
        figures(&answer)[1].step_time_s / figures(&answer)[0].step_time_s
    };
    assert!(slower("cluster.latency") > 1.0 && slower("stack.launch") > 1.01 && slower("gpu.peak") < 0.99);
}

#[test]
fn prices_scale_costs_but_for_storage() {
    let document = wide();
    let storage = document.prediction.cost_parts.expect("rented").storage_usd;
    let answer = ask(&held(&document), &["price.instance=×0.5,×1,×2,10 USD/h"]);
    let costs: Vec<f64> = figures(&answer).iter().filter_map(|own| own.cost_usd).map(|cost| cost - storage).collect();
    assert!(storage > 0.0 && (costs[0] * 2.0 - costs[1]).abs() < 1e-9 && (costs[2] - costs[1] * 2.0).abs() < 1e-9);
    let prediction = &document.prediction;
    // All but the 150 s until the machines are there, and one of the two while it is replaced.
    let replaced = prediction.failures.expect("rented").waiting_s / 2.0;
    let paid = prediction.elapsed_s() - 150.0 - replaced;
    assert!((costs[3] - 20.0 * paid / 3600.0).abs() < 1e-9);
    let best = ask(&sought(job(), &[]), &["price.instance=×1,×2"]);
    let costs: Vec<f64> = figures(&best).iter().filter_map(|own| own.cost_usd).collect();
    assert!((costs[1] / costs[0] - 2.0).abs() < 0.01 && costs[1] < 2.0 * costs[0]);
}

#[test]
fn replicas_fill_the_machines_and_the_batch_stays() {
    let answer = ask(&held(&wide()), &["instances=1..64"]);
    let layout = |own: &WhatIfFigures| (own.plan.cluster.instances, own.plan.parallel.data, own.devices);
    let all: Vec<_> = figures(&answer).into_iter().map(layout).collect();
    assert_eq!(all, [(1, 2, 8), (2, 4, 16), (4, 8, 32), (8, 16, 64), (16, 32, 128), (32, 64, 256), (64, 128, 512)]);
    for own in figures(&answer) {
        let batch = own.plan.batch;
        assert_eq!(batch.global, 256);
        assert_eq!(batch.micro * batch.accumulation * u64::from(own.plan.parallel.data), 256);
    }
    let efficiency: Vec<f64> = answer.cases.iter().filter_map(|case| case.scaling_efficiency).collect();
    assert_eq!((efficiency.len(), efficiency[0]), (7, 1.0));
    assert!(efficiency.windows(2).all(|pair| pair[1] <= pair[0] * 1.001), "{efficiency:?}");
    let odd = ask(&held(&wide()), &["instances=3"]);
    assert!(reason(&odd, 0).contains("does not divide evenly among 6 replicas"), "{odd:?}");
}

#[test]
fn degrees_share_devices_and_layers_are_cut_anew() {
    let document = wide();
    let answer = ask(&held(&document), &["parallel.pipeline=1,2,8,5"]);
    let layout = |case: usize| {
        let plan = &answer.cases[case].figures.as_ref().expect("a plan").plan;
        (plan.parallel.pipeline, plan.parallel.data, plan.stages.len(), plan.schedule != ScheduleName::None)
    };
    assert_eq!((layout(1), layout(2)), ((2, 8, 2, true), (8, 2, 8, true)));
    assert!(reason(&answer, 3).contains("no multiple"), "{answer:?}");
    // One stage has no schedule, whether it fits or not.
    assert!(answer.cases[0].figures.as_ref().is_none_or(|own| own.plan.schedule == ScheduleName::None));
    let more = ask(&held(&document), &["parallel.data=8"]);
    assert_eq!(figures(&more)[0].plan.cluster.instances, 4);
    let deeper = ask(&held(&document), &["model.layers=24,96"]);
    let layers = |own: &WhatIfFigures| own.plan.stages.iter().map(|stage| stage.layers).sum::<usize>();
    let cut: Vec<usize> = deeper.cases.iter().filter_map(|case| case.figures.as_ref()).map(layers).collect();
    assert_eq!(cut[0], 26, "{deeper:?}");
    let batch = ask(&held(&document), &["batch.micro=1,3"]);
    assert_eq!(figures_of(&batch, 0).plan.batch.accumulation, 64);
    assert!(reason(&batch, 1).contains("micro-batch 3 does not divide the 64 samples"), "{batch:?}");
}

#[test]
fn models_beyond_counting_are_refused_before_their_layers_are_priced() {
    let long = ask(&held(&wide()), &["model.layers=24", "model.seq_len=4194304"]);
    assert!(reason(&long, 0).contains("beyond counting"), "{long:?}");
}

fn figures_of(document: &WhatIfDocument, case: usize) -> &WhatIfFigures {
    document.cases[case].figures.as_ref().expect("a plan")
}

#[test]
fn what_is_not_possible_is_a_case_with_its_reason() {
    let document = wide();
    let told = |vary: &str| reason(&ask(&held(&document), &[vary]), 0).to_owned();
    for (vary, part) in [
        ("gpu.memory=x0.1", "does not fit into memory"),
        ("parallel.tensor=7", "no multiple"),
        ("parallel.tensor=4", "must divide the 25 attention heads"),
        ("parallel.context=3", "no multiple"),
        ("input.workers=4", "does not say how its samples are brought in"),
        ("cluster.stack=pytorch-ddp", "but pytorch-ddp runs none"),
        ("schedule=none", "a pipeline needs"),
    ] {
        let why = told(vary);
        assert!(why.contains(part), "{vary}: {why}");
    }
    for (vary, part) in [
        ("region=mars-1", "no price of any instance is known"),
        ("instance=p3.17xlarge", "no instance is called `p3.17xlarge`"),
        ("cluster.stack=tensorflow9", "tensorflow9"),
        ("cluster.stack=auto", "name that"),
        ("model.heads=x0.5", "12.5"),
    ] {
        let why = refused(&held(&document), &[vary]);
        assert!(why.contains(part) && why.contains("--vary"), "{vary}: {why}");
    }
    // A type that a Region does not have is no mistake.
    let mut there = job();
    there.cluster.region = Some("eu-west-1".into());
    let best = ask(&sought(there, &[]), &["instance=p4de.24xlarge,p4d.*"]);
    assert!(reason(&best, 0).contains("no price of p4de.24xlarge") && best.cases[1].figures.is_some());
}

#[test]
fn a_plan_goes_to_another_stack_and_other_gpus_with_the_attention_that_they_have() {
    let document =
        plan(&["instances=1", "instance=p4d.24xlarge", "parallel.data=8", "recompute=full", "stack=pytorch-ddp"]);
    assert_eq!(document.plan.model.attention, Some(AttentionKernel::Flash));
    let answer = ask(&held(&document), &["stack=pytorch-ddp,pytorch-ddp-compiled,pytorch"]);
    let times: Vec<f64> = figures(&answer).iter().map(|own| own.step_time_s).collect();
    assert!(times[0].to_bits() == document.prediction.step_time_s.to_bits() && times[1] < times[0], "{times:?}");
    let stacks: Vec<_> = figures(&answer).iter().map(|own| own.plan.stack.clone().expect("a stack")).collect();
    assert_eq!(stacks, ["pytorch-ddp", "pytorch-ddp-compiled", "pytorch"]);
    // Other GPUs have another kernel, unless the job says which.
    let fixed = ["instances=1", "instance=p4d.24xlarge", "precision=fp16-mixed", "recompute=full"];
    let mut asked = job();
    asked.cluster.stack = Some("deepspeed".into());
    for (stated, expected) in
        [(None, AttentionKernel::MemoryEfficient), (Some(AttentionKernel::Flash), AttentionKernel::Flash)]
    {
        asked.model.attention = stated;
        let document = plan_of(&asked, &fixed);
        let moved = ask(&held(&document), &["instance=p3dn.24xlarge"]);
        assert_eq!(document.plan.model.attention, Some(AttentionKernel::Flash));
        assert_eq!(figures(&moved)[0].plan.model.attention, Some(expected));
    }
    // A job's stack goes before the one that is held.
    let best = ask(&sought(job(), &["stack=pytorch-ddp", "instances=1"]), &["stack=megatron-core,deepspeed"]);
    let stacks: Vec<_> = figures(&best).iter().map(|own| own.plan.stack.clone().expect("a stack")).collect();
    assert_eq!(stacks, ["megatron-core", "deepspeed"]);
}

#[test]
fn a_goal_that_is_missed_is_told_beside_the_plan() {
    let answer = ask(&held(&wide()), &["goal.deadline=1 h,90 d"]);
    let told = |case: usize| answer.cases[case].missed_goal.as_deref();
    assert!(told(0).is_some_and(|why| why.ends_with(" the deadline")) && told(1).is_none());
    let dear = ask(&held(&wide()), &["goal.budget=1,1000000"]);
    assert!(dear.cases[0].missed_goal.as_deref().is_some_and(|why| why.ends_with(" the budget")));
    assert!(dear.cases[1].missed_goal.is_none());
    assert!(answer.cases.iter().all(|case| case.figures.is_some()));
}

/// The fastest plan is of other software than the cheapest.
#[test]
fn a_case_that_misses_the_goal_has_the_plan_that_plan_says_comes_nearest() {
    let mut job = job();
    job.cluster.instances.get_or_insert_default().push("g4dn.12xlarge".into());
    job.cluster.max_instances = Some(4);
    job.goal.objective = Some(Objective::Time);
    let answer = ask(&sought(job.clone(), &[]), &["goal.budget=1"]);
    job.goal.budget = Some(1.0);
    let nearest = plan_of(&job, &[]);
    let own = figures(&answer)[0];
    assert_eq!((&own.plan, own.cost_usd), (&nearest.plan, nearest.prediction.cost_usd));
    let kept = answer.software.as_ref().expect("several are compared");
    assert_ne!(own.plan.stack.as_ref(), Some(kept));
    let told = answer.cases[0].choice.as_deref().expect("other software");
    assert!(told.ends_with(&format!(": {kept} has none there that comes as near to the goal")), "{told}");
    assert!(own.within_budget.is_some_and(|chance| chance < 0.01) && own.within_deadline.is_none());
}

/// As many as there are samples are trained on with each batch.
#[test]
fn other_batches_need_other_learning_rates() {
    let warned = |job: JobSpec, vary: &str| ask(&sought(job, &[]), &[vary]).cases.into_iter().map(|case| case.warnings);
    let rates =
        |warnings: &Vec<String>| warnings.iter().filter(|own| own.starts_with("the learning rate grows")).count();
    assert!(warned(job(), "batch.global=128,256").all(|own| rates(&own) == 1));
    assert!(warned(job(), "instances=1,2").all(|own| rates(&own) == 0));
    // The curve has the steps for each batch.
    let mut curve = job();
    curve.model.name = Some("resnet50".into());
    (curve.data.tokens, curve.data.samples) = (None, Some(1_281_167));
    curve.training.target = Some("mlperf-resnet".into());
    assert!(warned(curve, "batch.global=2048,4096").all(|own| rates(&own) == 0));
}

#[test]
fn two_keys_make_every_combination_the_last_fastest() {
    let answer = ask(&held(&wide()), &["cluster.network=100Gbps,400Gbps", "price.instance=x1,x2"]);
    let values: Vec<String> = answer.cases.iter().map(|case| case.values.join(" ")).collect();
    assert_eq!(values, ["100Gbps x1", "100Gbps x2", "400Gbps x1", "400Gbps x2"]);
    assert_eq!(answer.axes[1].unit.as_deref(), Some("×"));
}

#[test]
fn larger_models_take_longer_and_other_terms_cost_otherwise() {
    let answer = ask(&sought(job(), &[]), &["model.layers=12,24,48"]);
    let times: Vec<f64> = figures(&answer).iter().map(|own| own.cost_usd.expect("a price")).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    let terms = ask(&held(&wide()), &["pricing=on-demand,spot"]);
    assert!(figures(&terms)[1].cost_usd < figures(&terms)[0].cost_usd);
    assert_eq!(figures(&terms)[1].time_s.to_bits(), figures(&terms)[0].time_s.to_bits());
    let precision = ask(&sought(job(), &["precision=fp32"]), &["precision=fp32,fp16-mixed"]);
    assert!(figures(&precision)[1].time_s < figures(&precision)[0].time_s);
}

/// A job on some machines of one's own, with the file that describes them; `more` is further fields of it.
fn on_own_machines(count: u32, more: &str) -> (JobSpec, Resources) {
    let mut job = job();
    job.cluster = ClusterChoice { file: Some("rack.toml".into()), ..ClusterChoice::default() };
    let file = format!(
        r#"name = "rack"
        {more}
        [[machines]]
        name = "node"
        count = {count}
        gpus = 8
        gpu = "h100-sxm5-80gb"
        link = {{ kind = "nvswitch", bandwidth = "450 GB/s" }}
        network = {{ cards = 8, bandwidth = "400 Gbit/s", transport = "infiniband" }}"#
    );
    (job, Resources { cluster_file: Some(toml::from_str(&file).expect("a cluster file")), ..Resources::default() })
}

fn sought_on(job: JobSpec, resources: Resources) -> Subject {
    let cancellation = Cancellation::default();
    let cache = SearchCache::default();
    Subject::Job(Box::new(SoughtJob { spec: job, resources, limits: limits(&[]), cancellation, cache }))
}

/// A job on two machines of one's own, and a plan of it on both, held.
fn own(more: &str) -> [Subject; 2] {
    let (job, resources) = on_own_machines(2, more);
    let problem = problem(&job, resources.clone()).expect("a solvable job");
    let limits = limits(&["instances=2", "parallel.tensor=1", "parallel.pipeline=1"]);
    let document = recommend(&problem, &limits, &job).expect("a plan");
    let files = resources.machine_files();
    [sought_on(job, resources), Subject::Plan(Box::new(HeldPlan { document, files }))]
}

#[test]
fn a_held_plan_goes_to_more_machines_than_the_cluster_file_has() {
    let [_, held] = own("");
    let layout = |own: &WhatIfFigures| (own.plan.cluster.instances, own.plan.parallel.data, own.devices);
    let answer = ask(&held, &["instances=1,2,4,8"]);
    let all: Vec<_> = figures(&answer).into_iter().map(layout).collect();
    assert_eq!(all, [(1, 8, 8), (2, 16, 16), (4, 32, 32), (8, 64, 64)]);
    let times: Vec<f64> = figures(&answer).iter().map(|own| own.time_s).collect();
    assert!(times.windows(2).all(|pair| pair[1] < 0.7 * pair[0]), "{times:?}");
    let replicas = ask(&held, &["parallel.data=64"]);
    assert_eq!(layout(figures(&replicas)[0]), (8, 64, 64));
}

#[test]
fn more_machines_than_the_switches_have_ports_for_are_refused() {
    for subject in own("switches = [{ ports = 2, oversubscription = 1.0 }, { ports = 2, oversubscription = 2.0 }]") {
        let answer = ask(&subject, &["instances=4,8"]);
        assert_eq!(figures_of(&answer, 0).plan.cluster.instances, 4);
        assert!(reason(&answer, 1).contains("the switches of rack have ports for 4 machines"), "{answer:?}");
    }
}

#[test]
fn a_rate_of_machines_is_told_beside_what_they_have_at_present() {
    let [_, held] = own("");
    let answer = ask(&held, &["cluster.network=400Gbps,8x400Gbps", "gpu.memory=×1"]);
    let present = |axis: usize| answer.axes[axis].present.clone();
    assert_eq!(present(0).as_deref(), Some("8 × 400 Gbit/s = 3,200 Gbit/s a machine"));
    assert!(present(1).is_some_and(|memory| memory.ends_with(" GiB")), "{:?}", present(1));
    // All cards together at their present rate change nothing.
    assert_eq!(figures(&answer)[1].time_s.to_bits(), answer.base.as_ref().expect("a plan").time_s.to_bits());
    assert!(figures(&answer)[0].time_s > figures(&answer)[1].time_s);
    assert_eq!(ask(&held, &["batch.micro=1"]).axes[0].present, None);
}

#[test]
fn what_a_plan_assumes_of_its_campaign_times_one_changes_nothing() {
    let mut queued = job();
    let (job_limit, queue_wait) = (Some("1 h".into()), Some("24 h".into()));
    queued.campaign =
        Some(CampaignSpec { job_limit, queue_wait, node_mtbf: Some("10 h".into()), ..Default::default() });
    for document in [wide(), plan_of(&queued, &["instances=2", "instance=p3.16xlarge"])] {
        let usual = if document.job.campaign.is_some() { "24 h 14 min 40 s" } else { "14 min 40 s" };
        for vary in [
            format!("campaign.restart=x1,{usual}"),
            "campaign.node_mtbf=x1".into(),
            "campaign.checkpoint_interval=x1".into(),
        ] {
            for own in figures(&ask(&held(&document), &[&vary])) {
                let changes = [
                    own.in_all_s / document.prediction.elapsed_s(),
                    own.cost_usd.expect("rented") / document.prediction.cost_usd.expect("rented"),
                ];
                assert!(changes.iter().all(|change| (change - 1.0).abs() < 1e-9), "{vary} {changes:?}");
            }
        }
    }
}

#[test]
fn fields_of_the_campaign_change_what_surrounds_the_steps() {
    let document = wide();
    let costs = |vary: &str| -> Vec<f64> {
        figures(&ask(&held(&document), &[vary])).iter().filter_map(|own| own.cost_usd).collect()
    };
    let often = costs("campaign.checkpoint_interval=1 min,1 h");
    assert!(often[0] > often[1], "{often:?}");
    // The steps take as long, the training does not.
    let answer = ask(&held(&document), &["campaign.checkpoint_interval=1 min,1 h"]);
    let [minute, hour] = [0, 1].map(|case| figures(&answer)[case]);
    assert!(minute.time_s.to_bits() == hour.time_s.to_bits() && minute.in_all_s > hour.in_all_s, "{answer:?}");
    assert!(answer.cases[0].time_change > answer.cases[1].time_change && hour.in_all_s > hour.time_s, "{answer:?}");
    let slow = costs("campaign.checkpoint_bandwidth=100 MB/s,10 GB/s");
    assert!(slow[0] > slow[1], "{slow:?}");
    let fragile = costs("campaign.node_mtbf=10 h,100000 h");
    assert!(fragile[0] > fragile[1], "{fragile:?}");
    let waits = ask(&held(&document), &["campaign.queue_wait=0h,2h"]);
    let [at_once, later] = [0, 1].map(|case| figures(&waits)[case]);
    assert!(later.in_all_s - at_once.in_all_s > 7_199.0 && later.time_s.to_bits() == at_once.time_s.to_bits());
    for subject in [held(&document), sought(job(), &["instance=p3.16xlarge", "instances=2"])] {
        let jobs = ask(&subject, &["campaign.job_limit=40min,1000h,1min"]);
        let in_all = [0, 1].map(|case| figures_of(&jobs, case).in_all_s);
        assert!(in_all[0] > in_all[1], "{in_all:?}");
        let told = reason(&jobs, 2);
        assert!(told.contains("job") && told.contains("be queued again"), "{told}");
    }
    // Nothing of it is written: factors multiply what the plan assumes.
    let factors = costs("campaign.checkpoint_interval=x0.1,x1");
    assert!(factors[0] > factors[1] && (factors[1] / document.prediction.cost_usd.expect("rented") - 1.0).abs() < 1e-3);
    let restarts = costs("campaign.restart=x1,x20");
    assert!(restarts[1] > restarts[0], "{restarts:?}");
    let mut spot = job();
    spot.cluster.pricing = Some(Pricing::Spot);
    let document = plan_of(&spot, &["instances=2", "instance=p4d.24xlarge"]);
    for subject in [held(&document), sought(spot, &["instances=2", "instance=p4d.24xlarge"])] {
        let costs = |vary: &str| -> Vec<f64> {
            figures(&ask(&subject, &[vary])).iter().filter_map(|own| own.cost_usd).collect()
        };
        let reclaims = costs("campaign.monthly_reclaims=x1,x20");
        let scenarios = costs("campaign.spot_scenario=1,20");
        assert!(reclaims[1] > reclaims[0], "{reclaims:?}");
        // A factor is on how often they come, as a scenario is.
        for (one, other) in reclaims.iter().zip(&scenarios) {
            assert!((one / other - 1.0).abs() < 1e-6, "{reclaims:?} {scenarios:?}");
        }
        let waits = costs("campaign.spot_wait=x1,10 min,10 h");
        assert!(waits[0].to_bits() == waits[1].to_bits() && waits[2] > waits[0], "{waits:?}");
    }
    for subject in own("") {
        let told = refused(&subject, &["campaign.job_limit=2 h"]);
        assert!(told.contains("`campaign.job_limit` changes nothing"), "{told}");
        let told = refused(&subject, &["campaign.node_mtbf=1000 h"]);
        assert!(told.contains("campaign.checkpoint_bandwidth in the job"), "{told}");
        let told = refused(&subject, &["cluster.transport=tcp"]);
        assert!(told.contains("rack.toml") && told.contains("`network.transport`"), "{told}");
    }
}

/// The software of a case, and what is said of its choice.
fn software(answer: &WhatIfDocument, case: usize) -> (Option<&str>, &str) {
    let own = &answer.cases[case];
    let stack = own.figures.as_ref().and_then(|figures| figures.plan.stack.as_deref());
    (stack, own.choice.as_deref().unwrap_or_default())
}

#[test]
fn cases_keep_the_software_of_the_unvaried_plan_where_it_has_a_plan() {
    let (job, resources) = on_own_machines(2, "");
    let sought = |job: JobSpec| sought_on(job, resources.clone());
    let answer = ask(&sought(job.clone()), &["cluster.network=50Gbps,400Gbps,3200Gbps", "instances=1,2"]);
    let kept = answer.software.clone().expect("several are compared");
    assert_eq!(answer.base.as_ref().and_then(|base| base.plan.stack.as_ref()), Some(&kept));
    for case in 0..answer.cases.len() {
        assert_eq!(software(&answer, case).0, Some(kept.as_str()), "{case}");
    }
    // Replicas that share states have no stages.
    let staged = ask(&sought(job.clone()), &["parallel.pipeline=1,2"]);
    assert_eq!(software(&staged, 0).0, Some(kept.as_str()));
    let (other, told) = software(&staged, 1);
    let other = other.expect("some software has stages");
    assert!(other != kept && told.starts_with(&format!("with {other}: {kept} has no plan there")), "{told}");
    // Where it is varied or named none is kept.
    assert_eq!(ask(&sought(job.clone()), &["stack=pytorch-ddp,deepspeed"]).software, None);
    assert_eq!(ask(&sought(job.clone()), &["precision=bf16-mixed,fp32"]).software, None);
    let mut named = job;
    named.cluster.stack = Some(kept);
    assert_eq!(ask(&sought(named), &["instances=1,2"]).software, None);
}

#[test]
fn the_unvaried_plan_is_the_recommended_one_where_the_batch_is_open() {
    for deadline in ["12 h", "9 h", "6 h"] {
        let mut open = job();
        open.training.global_batch = Some(GlobalBatch::Between { min: 64, max: 1024 });
        open.goal.deadline = Some(deadline.into());
        let answer = ask(&sought(open.clone(), &[]), &["campaign.restart=x1"]);
        let (base, case) = (answer.base.as_ref().expect("a plan"), figures_of(&answer, 0));
        assert_eq!(base.plan, plan_of(&open, &[]).plan, "{deadline}");
        assert_eq!(case.plan, base.plan, "{deadline}");
    }
}

#[test]
fn a_held_kind_of_machines_may_become_more() {
    let old = "{ name = \"old\", count = 1, like = \"p4d.24xlarge\", network = { bandwidth = \"100 Gbit/s\", transport = \
               \"infiniband\" } }";
    let (job, mut resources) = on_own_machines(2, "");
    let file = resources.cluster_file.as_mut().expect("there is one");
    let other: ClusterFile = toml::from_str(&format!("name = \"other\"\nmachines = [{old}]")).expect("a cluster file");
    file.machines.extend(other.machines);
    let subject = |spec: &JobSpec, fixed: &[&str]| {
        let (cancellation, cache) = (Cancellation::default(), SearchCache::default());
        let (spec, resources, limits) = (spec.clone(), resources.clone(), limits(fixed));
        Subject::Job(Box::new(SoughtJob { spec, resources, limits, cancellation, cache }))
    };
    let mut only = job.clone();
    only.cluster.instances = Some(vec!["node".into()]);
    for asked in [subject(&job, &["instance=node"]), subject(&only, &[]), subject(&only, &["instance=node"])] {
        let held = ask(&asked, &["instances=2,4"]);
        let machines: Vec<String> = figures(&held).iter().map(|own| own.plan.cluster.to_string()).collect();
        assert_eq!(machines, ["2 × node", "4 × node"]);
    }
    let free = ask(&subject(&job, &[]), &["instances=2,4"]);
    assert!(reason(&free, 1).contains("a plan takes all 3 machines of rack or machines of one kind"), "{free:?}");
}

/// With less memory the simplest of the plans near the fastest does not fit, so that a faster one remains.
#[test]
fn a_case_that_is_better_only_by_the_choice_of_its_plan_says_so() {
    let (mut job, resources) = on_own_machines(16, "");
    job.model.name = Some("llama-3-70b".into());
    job.data.tokens = Some(100e9);
    job.training.global_batch = Some(GlobalBatch::Exactly(1024));
    let answer = ask(&sought_on(job, resources), &["gpu.memory=×1,80GB"]);
    assert_eq!(answer.cases[0].choice, None);
    let change = answer.cases[1].time_change.expect("a plan");
    let choice = answer.cases[1].choice.as_deref().expect("less memory makes nothing faster");
    assert!(change < 0.0 && choice.starts_with("the fastest plans of both differ by "), "{change} {choice}");
    assert!(choice.contains("the unvaried plan is ") && choice.contains("simpler"), "{choice}");
}

#[test]
fn what_nobody_can_solve_is_an_error() {
    let mut nonsense = job();
    nonsense.model.name = Some("gpt2-xxl".into());
    let axes = axes(&["instances=1,2".into()]).expect("a key");
    assert!(matches!(what_if(&sought(nonsense, &[]), &axes, &|| ()), Err(WhatIfError::Job(_))));
    let only = trainyard_planner::what_if::axes(&["cluster.max_instances=1,2".into()]).expect("a key");
    let error = what_if(&held(&wide()), &only, &|| ()).expect_err("a key of a search");
    assert!(error.to_string().contains("decides which plan is sought"), "{error}");
    let mut broken = wide();
    broken.plan.batch.micro = 7;
    assert!(matches!(what_if(&held(&broken), &axes, &|| ()), Err(WhatIfError::Plan(_))));
}

#[test]
fn assumptions_are_sorted_by_what_they_do() {
    let document = wide();
    let plan = HeldPlan { document: document.clone(), files: MachineFiles::default() };
    let all = tornado(&plan).expect("an answer").sensitivities;
    let span = |[low, high]: [f64; 2]| (high - low).abs();
    let effects: Vec<f64> =
        all.iter().map(|own| span(own.time_change).max(own.cost_change.map_or(0.0, span))).collect();
    assert!(effects.windows(2).all(|pair| pair[0] >= pair[1]), "{effects:?}");
    let price = all.iter().find(|own| own.key == "price.instance").expect("a price");
    assert!(price.time_change.iter().all(|change| *change == 0.0));
    // Storage costs what it costs.
    assert!(price.cost_change.is_some_and(|[low, high]| (low + 0.2).abs() < 1e-3 && (high - 0.2).abs() < 1e-3));
    let faster = all.iter().find(|own| own.key == "cluster.network").expect("a network");
    assert!(faster.time_change[0] > 0.0 && faster.time_change[1] <= 0.0, "{faster:?}");
    assert!(all.iter().any(|own| own.key == "campaign.node_mtbf"));
    let one = HeldPlan { document: self::plan(&["instances=1"]), files: MachineFiles::default() };
    let one = tornado(&one).expect("an answer").sensitivities;
    let unused = ["cluster.network", "gpu.host_bandwidth", "host.memory_bandwidth"];
    assert!(one.iter().all(|own| !unused.contains(&own.key.as_str())));
    let mut job = job();
    job.cluster.stack = Some("deepspeed".into());
    let document = plan_of(&job, &["instances=1", "instance=p3.16xlarge", "offload=optimizer", "batch.micro=1"]);
    let part = document.prediction.phases.optimizer_s / document.prediction.step_time_s;
    let offloaded = HeldPlan { document, files: MachineFiles::default() };
    let offloaded = tornado(&offloaded).expect("an answer").sensitivities;
    assert!(offloaded.iter().any(|own| own.key == "gpu.host_bandwidth"));
    let updates = offloaded.iter().find(|own| own.key == "host.memory_bandwidth").expect("updates by processors");
    // Nothing hides an update: with four and six fifths of the rate it takes 1/4 longer and 1/6 less. Copies may be seen besides.
    let [longer, shorter] = updates.time_change;
    assert!(part > 0.05 && longer > 0.95 * part / 4.0 && shorter < -0.95 * part / 6.0, "{part} {updates:?}");
}

#[test]
fn the_answer_is_the_same_on_any_number_of_threads() {
    let subject = sought(job(), &[]);
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| serde_json::to_string(&ask(&subject, &["instances=1,2", "model.layers=24,48"])).expect("JSON"))
    };
    assert_eq!(on(1), on(4));
}

#[test]
fn cases_that_nobody_waits_for_are_not_sought() {
    let subject = sought(job(), &[]);
    if let Subject::Job(job) = &subject {
        job.cancellation.cancel();
    }
    let found = ask(&subject, &["instances=1,2"]);
    assert!(reason(&found, 0).contains("cancelled") && reason(&found, 1).contains("cancelled"));
}

#[test]
fn nothing_is_assumed_of_a_measured_machine() {
    let mut document = plan(&["instance=p3.16xlarge"]);
    document.plan.cluster.profile = Some("profile.toml".into());
    let told = tornado(&HeldPlan { document, files: MachineFiles::default() }).expect_err("nothing is assumed");
    assert!(told.to_string().contains("known only as it was measured") && told.hint().is_some(), "{told}");
}

/// A job on two machines of a cluster file, with this line about their price.
fn described(price: &str) -> SoughtJob {
    let text = format!("name = \"own\"\n[[machines]]\nlike = \"p3.16xlarge\"\ncount = 2\n{price}\n");
    let cluster_file = Some(toml::from_str(&text).expect("the form of a cluster file"));
    let mut spec = JobSpec { cluster: ClusterChoice::default(), ..job() };
    spec.cluster.file = Some("own.toml".into());
    SoughtJob {
        spec,
        resources: Resources { cluster_file, cluster_path: Some("own.toml".into()), ..Resources::default() },
        limits: limits(&[]),
        cancellation: Cancellation::default(),
        cache: SearchCache::default(),
    }
}

/// The job, and its recommended plan.
fn both(own: SoughtJob) -> [Subject; 2] {
    let problem = problem(&own.spec, own.resources.clone()).expect("a solvable job");
    let document = recommend(&problem, &own.limits, &own.spec).expect("a plan");
    let files = own.resources.machine_files();
    [Subject::Job(Box::new(own)), Subject::Plan(Box::new(HeldPlan { document, files }))]
}

#[test]
fn a_stated_price_is_varied_and_terms_are_not() {
    for subject in both(described("usd_per_hour = 20.0")) {
        let found = ask(&subject, &["price.instance=20USD/h,x0.5,40USD/h"]);
        let costs: Vec<f64> = figures(&found).iter().filter_map(|own| own.cost_usd).collect();
        let base = found.base.as_ref().and_then(|base| base.cost_usd).expect("a stated price");
        let ratios: Vec<f64> = costs.iter().map(|cost| cost / base).collect();
        assert!(ratios.iter().zip([1.0, 0.5, 2.0]).all(|(one, other)| (one - other).abs() < 1e-9), "{ratios:?}");
        assert_eq!(found.base.and_then(|base| base.price?.date), None);
    }
    let [_, plan] = both(described("usd_per_hour = 20.0"));
    // More machines than there are cost as much each.
    let more = ask(&plan, &["instances=2,4"]);
    let hourly = |own: &&WhatIfFigures| own.cost_usd.expect("a price") / own.time_s * 3600.0;
    let each: Vec<f64> = figures(&more).iter().map(hourly).collect();
    assert!((each[0] - 40.0).abs() < 1e-6 && (each[1] - 80.0).abs() < 1e-6, "{each:?}");
    for terms in ["pricing=spot", "region=us-west-2", "service=sagemaker"] {
        let told = refused(&plan, &[terms]);
        assert!(told.contains("is for machines that are rented"), "{told}");
    }
}

#[test]
fn the_price_of_one_type_changes_that_type_alone() {
    let types = |vary: &str| -> Vec<(String, f64)> {
        let answer = ask(&sought(job(), &[]), &[vary]);
        let priced =
            |own: &&WhatIfFigures| (own.plan.cluster.instance.clone(), own.price.clone().expect("rented").usd_per_hour);
        figures(&answer).iter().map(priced).collect()
    };
    let dear = types("price.p4d.24xlarge=1USD/h,1000USD/h,x1");
    assert_eq!((dear[0].0.as_str(), dear[0].1, dear[1].0.as_str()), ("p4d.24xlarge", 1.0, "p3.16xlarge"));
    assert_eq!(types("price.p3.16xlarge=x100"), [dear[2].clone()]);
    // One value for all is told, a factor keeps what differs.
    let of_all = "is the same for all types that may be chosen (p3.16xlarge and p4d.24xlarge)";
    for (vary, told) in [("price.instance=20USD/h", true), ("price.instance=x0.9", false), ("gpu.memory=80GB", true)] {
        let answer = ask(&sought(job(), &[]), &[vary]);
        assert_eq!(answer.cases[0].warnings.iter().any(|own| own.contains(of_all)), told, "{vary}: {answer:?}");
    }
    let plan = plan(&["instances=2", "instance=p4d.24xlarge"]);
    let answer = ask(&held(&plan), &["price.p4d.24xlarge=x2"]);
    assert!(answer.cases[0].cost_change.is_some_and(|change| change > 0.9 && change < 1.1), "{answer:?}");
}

#[test]
fn wrong_values_are_refused_and_what_is_only_impossible_is_a_case() {
    let subjects = [sought(job(), &[]), held(&wide())];
    for subject in &subjects {
        let told = refused(subject, &["campaign.monthly_reclaims=5%,10%"]);
        assert!(told.contains("--vary campaign.monthly_reclaims=…") && told.contains("only spot instances"), "{told}");
        assert!(refused(subject, &["region=us-east-1,us-east-9"]).contains("--vary region=…"));
        assert!(refused(subject, &["instance=foo,p4d.24xlarge"]).contains("--vary instance=…"));
        // On other terms it is sound.
        let both = ask(subject, &["pricing=on-demand,spot", "campaign.monthly_reclaims=5%"]);
        assert!(both.cases[0].reason.is_some() && both.cases[1].figures.is_some(), "{both:?}");
    }
    assert!(refused(&subjects[0], &["price.p5.48xlarge=x2"]).contains("none of the types that may be chosen"));
}

#[test]
fn a_price_that_nobody_stated_is_not_varied() {
    for subject in both(described("")) {
        let told = refused(&subject, &["price.instance=20USD/h"]);
        assert!(told.contains("machines that are not rented have no price (`usd_per_hour` in [[machines]]"), "{told}");
        let told = refused(&subject, &["campaign.node_mtbf=1000h"]);
        assert!(told.contains("time and cost are those of the steps alone"), "{told}");
        let known = ask(&subject, &["campaign.checkpoint_bandwidth=1GB/s"]);
        assert!(figures(&known)[0].in_all_s > figures(&known)[0].time_s);
    }
}

#[test]
fn more_machines_than_one_need_a_network_that_is_described() {
    let host = "[machines.host]\nmemory = \"128 GiB\"\nmemory_bandwidth = \"80 GB/s\"\npcie = \"31.5 GB/s\"\n";
    let text = format!("name = \"box\"\n[[machines]]\nname = \"box\"\ncount = 1\ngpus = 2\ngpu = \"l40s\"\n{host}");
    let mut own = described("");
    own.resources.cluster_file = Some(toml::from_str(&text).expect("the form of a cluster file"));
    own.spec.training.global_batch = Some(GlobalBatch::Exactly(32));
    for subject in both(own) {
        let found = ask(&subject, &["instances=1,2"]);
        assert!(found.cases[0].figures.is_some(), "{:?}", found.cases[0].reason);
        assert!(reason(&found, 1).contains("nothing is said of a network"), "{}", reason(&found, 1));
    }
}

/// Where it is known how fast checkpoints are written, machines of one's own fail too.
#[test]
fn failures_of_machines_without_a_price_are_varied() {
    let mut own = described("");
    let bandwidth = Some("1 GB/s".to_owned());
    own.spec.campaign = Some(CampaignSpec { checkpoint_bandwidth: bandwidth, ..CampaignSpec::default() });
    for subject in both(own) {
        let found = ask(&subject, &["campaign.node_mtbf=x0.01,20h,x1"]);
        let times: Vec<f64> = figures(&found).iter().map(|own| own.in_all_s).collect();
        assert!(times[0] > times[2] && times[1] > times[2], "{times:?}");
    }
}

#[test]
fn a_held_plan_that_plan_would_refuse_for_its_memory_is_told() {
    let mut job = common::job("mistral-7b", 16, &["g5.xlarge"], 1);
    (job.model.seq_len, job.data.samples) = (Some(2048), Some(15_000));
    job.training.method = Some(Method::Lora);
    let answer = ask(&held(&plan_of(&job, &[])), &["batch.micro=1..4"]);
    let told: Vec<bool> = answer.cases.iter().map(|case| case.within_margin.is_some()).collect();
    assert_eq!(told, [false, false, true]);
    assert!(common::plan(&job, &["batch.micro=4"], 1).is_err());
}

/// Asks a job and its plan alike, and returns the warnings of each case.
fn warned(job: &JobSpec, fixed: &[&str], vary: &str) -> Vec<Vec<String>> {
    let [sought, held] = [sought(job.clone(), fixed), held(&plan_of(job, fixed))].map(|subject| {
        let answer = ask(&subject, &[vary]);
        answer.cases.into_iter().map(|case| case.warnings).collect::<Vec<_>>()
    });
    let of_terms = |cases: &[Vec<String>]| -> Vec<String> {
        let told = |own: &&String| own.starts_with("reserved") || own.contains("quota");
        cases
            .iter()
            .filter_map(|case| case.iter().find(told))
            .map(|own| own.split([':', ';']).next().into_iter().collect())
            .collect()
    };
    assert_eq!(of_terms(&sought), of_terms(&held), "{vary}");
    sought
}

#[test]
fn what_plan_warns_of_the_terms_is_told_of_each_case() {
    let mut job = job();
    job.cluster.instances = Some(vec!["p4d.24xlarge".into()]);
    job.cluster.quotas = Some([("P".to_owned(), 192)].into());
    // A p4d.24xlarge has 96.
    let quotas = warned(&job, &["instances=2"], "instances=2,4");
    assert_eq!(quotas[0], Vec::<String>::new());
    assert!(quotas[1][0].starts_with("the plan needs 384 vCPUs, but the quota of `P` is 192"), "{quotas:?}");
    job.cluster.quotas = None;
    let terms = warned(&job, &["instances=2"], "pricing=on-demand,reserved-3y");
    assert_eq!(terms[0], Vec::<String>::new());
    let reserved = terms[1].iter().find(|own| own.starts_with("reserved instances are paid for 3 years"));
    let told = reserved.expect("a commitment");
    assert!(
        told.contains("for the whole term the instances cost") && told.contains("compare prices of one day"),
        "{told}"
    );
    // Of two types one has a price on these terms.
    job.cluster.instances = Some(vec!["p3.16xlarge".into(), "p4d.24xlarge".into()]);
    let answer = ask(&sought(job, &[]), &["pricing=reserved"]);
    let left_out = "p3.16xlarge is left out: it has no price on these terms";
    assert!(answer.cases[0].warnings.iter().any(|own| own == left_out), "{:?}", answer.cases[0].warnings);
}

#[test]
fn gradients_of_a_held_plan_are_reduced_as_its_software_does() {
    let mut job = common::job("qwen2.5-32b", 32, &["g6e.48xlarge"], 1);
    (job.model.seq_len, job.data.samples) = (Some(2048), Some(20_000));
    job.cluster.stack = Some("deepspeed".into());
    let document = plan_of(&job, &["batch.micro=4", "state_sharding=parameters"]);
    assert_eq!(document.plan.gradient_reduction, GradientReduction::Step);
    let answer = ask(&held(&document), &["batch.micro=1"]);
    let one = &figures(&answer)[0].plan;
    assert_eq!((one.batch.accumulation, one.gradient_reduction), (4, GradientReduction::MicroBatch));
}
