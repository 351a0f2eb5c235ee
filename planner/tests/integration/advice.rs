//! What a report says around its recommendation: what would change it, what was rejected and by how much, what to be
//! careful about, what makes room, and how number formats and batches compare.

use crate::common::{self, refused};
use trainyard_plan::document::{ChangedQuantity, PlanDocument, Rejected, RejectedBy};
use trainyard_plan::{GlobalBatch, JobSpec, Method, Objective, Optimizer, PlanSpec, Precision, StorageMode};
use trainyard_planner::{MachineFiles, resimulate};
use trainyard_sim::Options;

fn job(model: &str, global_batch: u64, instances: &[&str]) -> JobSpec {
    let mut job = common::job(model, global_batch, instances, 2);
    job.data.samples = Some(100_000);
    job
}

fn plan_ranked(job: &JobSpec, fixed: &[&str], top: usize) -> PlanDocument {
    common::plan(job, fixed, top).expect("a plan")
}

fn plan(job: &JobSpec, fixed: &[&str]) -> PlanDocument {
    plan_ranked(job, fixed, 5)
}

fn warns(document: &PlanDocument, of: &str) -> bool {
    document.warnings.iter().any(|warning| warning.contains(of))
}

fn reason<'a>(document: &'a PlanDocument, with: &str) -> Option<&'a str> {
    document.reasons.iter().find(|reason| reason.contains(with)).map(String::as_str)
}

#[test]
fn what_bounds_the_step_is_told_with_its_share() {
    let document = plan(&job("gpt2", 64, &["p3.2xlarge"]), &["instances=1"]);
    let bound = reason(&document, "bound by").expect("a reason");
    assert!(bound.contains("a step would be") && bound.contains('%'), "{bound}");
}

#[test]
fn a_price_that_would_change_the_decision_makes_both_plans_cost_the_same() {
    let asked = job("gpt2", 64, &["p3.2xlarge", "g4dn.xlarge"]);
    let document = plan(&asked, &[]);
    let change = document.changes.iter().find(|change| change.what == ChangedQuantity::Price).expect("a price");
    assert_ne!(change.winner.instance, document.plan.cluster.instance);
    let held = [format!("instance={}", change.winner.instance), format!("instances={}", change.winner.instances)];
    let winner = plan_ranked(&asked, &held.each_ref().map(String::as_str), 1).prediction;
    let (own, parts) = (document.prediction.cost_usd.expect("a price"), winner.cost_parts.expect("a price"));
    let machines = parts.total() - parts.storage_usd;
    assert!(parts.storage_usd > 0.0 && change.at < change.present);
    let then = machines * change.at / change.present + parts.storage_usd;
    assert!((then / own - 1.0).abs() < 1e-9, "storage costs the same as ever: {then} and {own}");
    assert!(reason(&document, "would be as cheap as this plan if").is_some());
    // Whoever seeks time does not ask what it costs.
    let mut fast = job("gpt2", 64, &["p3.2xlarge", "g4dn.xlarge"]);
    fast.goal.objective = Some(Objective::Time);
    assert!(plan(&fast, &[]).changes.iter().all(|change| change.what != ChangedQuantity::Price));
}

fn rejection<'a>(document: &'a PlanDocument, what: &str) -> &'a Rejected {
    document.rejected.iter().find(|rejected| rejected.what == what).unwrap_or_else(|| panic!("{:?}", document.rejected))
}

#[test]
fn machines_that_are_no_better_are_rejected_by_less_than_they_really_lack() {
    let asked = job("gpt2", 64, &["p3.2xlarge", "g4dn.xlarge"]);
    let document = plan_ranked(&asked, &[], 1);
    let own = document.prediction.cost_usd.expect("a price");
    let other = if document.plan.cluster.instance == "p3.2xlarge" { "g4dn.xlarge" } else { "p3.2xlarge" };
    let rejected = rejection(&document, other);
    let times = rejected.times.expect("by how much");
    let really = plan_ranked(&asked, &[&format!("instance={other}")], 1).prediction.cost_usd.expect("a price") / own;
    assert_eq!(rejected.limit, Some(RejectedBy::Objective));
    assert!(times >= 1.0 && times <= really * (1.0 + 1e-9), "{times} of {really}");
}

#[test]
fn machines_that_are_too_slow_or_too_dear_are_rejected_by_the_limit_that_they_miss() {
    let mut asked = job("gpt2", 64, &["p3.16xlarge", "g4dn.xlarge"]);
    let only = |instance: &str| {
        let mut alone = job("gpt2", 64, &[instance]);
        alone.goal.objective = Some(Objective::Time);
        plan_ranked(&alone, &[], 1).prediction
    };
    let (fast, slow) = (only("p3.16xlarge").elapsed_s(), only("g4dn.xlarge").elapsed_s());
    asked.goal.deadline = Some(format!("{:.0} s", fast * 1.2));
    let document = plan(&asked, &[]);
    let rejected = rejection(&document, "g4dn.xlarge");
    assert_eq!(rejected.limit, Some(RejectedBy::Deadline), "{rejected:?}");
    let times = rejected.times.expect("by how much");
    assert!(times > 1.0 && times <= slow / (fast * 1.2) * 1.001, "{times}");
    let mut cheap = job("gpt2", 64, &["p3.16xlarge", "g4dn.xlarge"]);
    cheap.goal.budget = Some(0.5);
    let document = plan(&cheap, &[]);
    // Neither comes within half a dollar, for certain, except for what is nearest.
    let nearest = &document.plan.cluster.instance;
    let other = if nearest == "g4dn.xlarge" { "p3.16xlarge" } else { "g4dn.xlarge" };
    let missed = document.rejected.iter().find(|rejected| rejected.what == other);
    assert!(missed.is_none_or(|missed| missed.limit == Some(RejectedBy::Budget) && missed.times > Some(1.0)));
}

#[test]
fn what_does_not_divide_and_what_has_no_units_is_rejected_for_that() {
    let asked = job("gpt2", 4, &["p3.16xlarge", "p3.2xlarge"]);
    let document = plan(&asked, &["parallel.tensor=1", "parallel.pipeline=1", "instances=1"]);
    assert_eq!(document.plan.cluster.instance, "p3.2xlarge");
    assert_eq!(rejection(&document, "p3.16xlarge").limit, Some(RejectedBy::Division));
    let mut asked = job("gpt2", 8, &["p3.2xlarge", "g5.xlarge"]);
    asked.training.precision = Some(vec![Precision::Fp32, Precision::Bf16Mixed]);
    let document = plan(&asked, &["instance=p3.2xlarge", "instances=1"]);
    let format = rejection(&document, "bf16-mixed");
    assert_eq!(format.limit, Some(RejectedBy::Machine));
    assert!(format.why.contains("p3.2xlarge") && !format.why.contains("g5.xlarge"), "{}", format.why);
    assert!(warns(&document, "bf16-mixed was asked for, but p3.2xlarge"));
    assert!(!warns(&plan(&asked, &["instance=g5.xlarge", "instances=1"]), "was asked for"));
}

#[test]
fn strategies_that_do_not_fit_are_rejected_with_what_they_need() {
    let whole = ["instances=1", "precision=fp32", "offload=none", "state_sharding=none"];
    let document = plan(&job("gpt2-xl", 64, &["p3.16xlarge"]), &whole);
    let alone = rejection(&document, "data parallelism alone on 1 × p3.16xlarge");
    assert_eq!(alone.limit, Some(RejectedBy::Memory));
    // 16 bytes for each of 1.56 billion parameters do not fit into 16 GB.
    assert!(alone.times.is_some_and(|times| times > 1.4 && times < 2.5), "{alone:?}");
    // A smaller model fits, and so does this one with its states sharded.
    let sharded = plan(&job("gpt2-xl", 64, &["p3.16xlarge"]), &whole[..3]);
    let fits = plan(&job("gpt2", 64, &["p3.16xlarge"]), &["instances=1"]);
    let split = |rejected: &Rejected| rejected.what.starts_with("data parallel");
    assert!(!fits.rejected.iter().chain(&sharded.rejected).any(split));
}

#[test]
fn a_model_too_large_for_one_device_is_told_what_makes_room_in_the_order_of_trying() {
    let mut asked = job("gpt2-xl", 64, &["p3.2xlarge"]);
    (asked.cluster.stack, asked.cluster.memory_margin) = (Some("pytorch".into()), Some("0%".into()));
    let document = plan(&asked, &["instances=1", "precision=fp32"]);
    let names: Vec<&str> = document.remedies.iter().map(|remedy| remedy.remedy.as_str()).collect();
    let expected = [
        "fp32 with adamw, 64 samples at once on one device",
        "24 layers",
        "sgd-momentum for adamw",
        "micro-batch 1",
        "512 tokens a sample",
        "fp16-mixed",
        "full recomputation",
        "offload to main memory",
    ];
    assert_eq!(names, expected);
    asked.cluster.stack = Some("deepspeed".into());
    let lighter = plan(&asked, &["instances=1", "precision=fp32"]).remedies;
    assert_eq!(
        lighter.get(2).map(|remedy| remedy.remedy.as_str()),
        Some("adamw-8bit for adamw"),
        "software that has it"
    );
    let remedy = |name: &str| document.remedies.iter().find(|remedy| remedy.remedy == name).expect("there");
    assert!(!remedy("micro-batch 1").fits && !remedy("full recomputation").fits);
    assert!(remedy("offload to main memory").fits);
    assert!(remedy("fp16-mixed").changes_training, "the number format is held");
    assert!(document.plan.offload.optimizer.is_some());
    let taken = format!("{} offloaded", document.plan.offload);
    assert_eq!(remedy("offload to main memory").taken.as_ref(), Some(&taken));
    // Each makes room, alone and upon those before it.
    let plain = document.remedies[0].memory_bytes;
    assert!(document.remedies.iter().skip(1).all(|remedy| remedy.memory_bytes < plain));
    let together: Vec<u64> = document.remedies.iter().filter_map(|remedy| remedy.together_bytes).collect();
    assert!(together.len() == 3 && together.is_sorted_by(|a, b| a > b), "{together:?}");
    assert!(reason(&document, "fits through").is_some_and(|reason| reason.contains(&format!("{taken}:"))));
}

#[test]
fn a_model_that_fits_needs_no_remedies() {
    let document = plan(&job("gpt2", 1, &["p3.2xlarge"]), &["instances=1"]);
    assert!(document.remedies.is_empty());
    assert_eq!(reason(&document, "fits through"), None);
}

#[test]
fn number_formats_are_compared_at_the_same_work() {
    let document = plan(&job("gpt2", 64, &["p3.2xlarge"]), &["instances=1"]);
    let formats: Vec<Precision> = document.precisions.iter().map(|choice| choice.precision).collect();
    assert_eq!(formats, [Precision::Fp16Mixed, Precision::Fp32]);
    assert!(document.precisions.iter().all(|choice| choice.batch.global == 64));
    let own = &document.precisions[0];
    assert!(own.recommended && (own.step_time_s - document.prediction.step_time_s).abs() < 1e-12);
    assert!(own.step_time_s < document.precisions[1].step_time_s);
    assert!(plan(&job("gpt2", 64, &["p3.2xlarge"]), &["instances=1", "precision=fp32"]).precisions.is_empty());
}

#[test]
fn a_micro_batch_is_compared_with_its_neighbours() {
    let mut asked = job("gpt2", 64, &["p3.2xlarge"]);
    asked.cluster.memory_margin = Some("0%".into());
    let document = plan(&asked, &["instances=1"]);
    let micro: Vec<u64> = document.batches.iter().map(|choice| choice.batch.micro).collect();
    assert!(micro.len() > 2 && micro.is_sorted_by(|a, b| a < b), "{micro:?}");
    let own = document.batches.iter().find(|choice| choice.recommended).expect("the recommended one");
    let step = own.step_time_s.expect("it fits");
    assert_eq!(own.batch, document.plan.batch);
    assert!(own.mfu.zip(document.prediction.mfu).is_some_and(|(own, mfu)| (own / mfu - 1.0).abs() < 1e-6));
    for choice in &document.batches {
        assert_eq!((choice.batch.global, choice.steps), (64, document.prediction.steps));
        // A choice that fits is no faster, or it would have been recommended.
        assert!(choice.step_time_s.is_none_or(|other| other >= step * (1.0 - 1e-9)), "{choice:?}");
        assert_eq!(choice.step_time_s.is_some(), choice.memory_peak_bytes <= document.prediction.memory_bytes.limit);
    }
}

/// ResNet-50 to MLPerf's target, with any of some global batches.
fn to_target(min: u64, max: u64) -> JobSpec {
    let mut job = job("resnet50", 1, &["p3.16xlarge"]);
    (job.data.samples, job.data.dataset) = (None, Some("none".into()));
    job.training.global_batch = Some(GlobalBatch::Between { min, max });
    job.training.target = Some("mlperf-resnet".into());
    job.training.optimizer = Some(Optimizer::Momentum);
    job.cluster.max_instances = Some(1);
    job
}

#[test]
fn the_time_to_the_target_decides_between_batches_and_not_the_time_of_a_step() {
    let document = plan(&to_target(2048, 16_384), &[]);
    let global: Vec<u64> = document.batches.iter().map(|choice| choice.batch.global).collect();
    assert_eq!(global, [2048, 4096, 8192, 16_384]);
    let own = document.batches.iter().find(|choice| choice.recommended).expect("the recommended one");
    let most = |value: fn(&trainyard_plan::document::BatchChoice) -> f64| {
        document.batches.iter().map(value).fold(f64::NEG_INFINITY, f64::max)
    };
    let rate = |choice: &trainyard_plan::document::BatchChoice| choice.samples_per_s.unwrap_or(0.0);
    // A larger batch has more samples a second, needs still more of them, and is not taken.
    assert!(most(rate) > rate(own) && own.batch.global == 2048);
    assert!(document.batches.is_sorted_by(|a, b| a.samples < b.samples));
    assert!(document.batches.iter().all(|choice| choice.time_s >= own.time_s));
    let told = reason(&document, "the samples to the target").expect("a reason");
    assert!(told.starts_with("global batch 2,048 rather than"), "{told}");
}

#[test]
fn the_learning_rate_rule_is_told_where_the_batch_is_not_the_one_it_is_for() {
    let mut range = job("gpt2", 1, &["p3.2xlarge"]);
    range.training.global_batch = Some(GlobalBatch::Between { min: 16, max: 64 });
    range.training.learning_rate = Some(0.001);
    let document = plan(&range, &["instances=1", "batch.global=64"]);
    assert!(warns(&document, "2.00 times (square root"), "{:?}", document.warnings);
    assert!(warns(&document, "training.learning_rate 0.001 would become 0.002"));
    assert!(!warns(&plan(&range, &["instances=1", "batch.global=16"]), "learning rate"));
    let target = plan(&to_target(4096, 4096), &[]);
    assert!(warns(&target, "2.51 times (linear"), "{:?}", target.warnings);
    assert!(!warns(&plan(&job("gpt2", 64, &["p3.2xlarge"]), &["instances=1"]), "learning rate"));
}

#[test]
fn batch_normalisation_over_few_samples_is_warned_of() {
    let few = plan(&job("resnet50", 64, &["p3.16xlarge"]), &["instances=2", "parallel.pipeline=1", "batch.micro=4"]);
    assert!(warns(&few, "batch normalisation sees"), "{:?}", few.warnings);
    let many = plan(&job("resnet50", 64, &["p3.2xlarge"]), &["instances=1", "batch.micro=64"]);
    assert!(!warns(&many, "batch normalisation sees"));
}

#[test]
fn sequences_beyond_what_weights_were_trained_for_are_warned_of() {
    let told = |model: &str, tokens, method| {
        let mut asked = job(model, 64, &["p4d.24xlarge"]);
        (asked.model.seq_len, asked.training.method) = (Some(tokens), method);
        let planned = plan_ranked(&asked, &["instances=1"], 1);
        planned.warnings.into_iter().find(|warning| warning.contains("max_position_embeddings"))
    };
    let lora = Some(Method::Lora);
    assert!(told("llama-2-7b", 8192, lora).is_some_and(|told| told.contains("rope_scaling")));
    assert!(told("gpt2", 2048, lora).is_some_and(|told| told.contains("table of positions")));
    // Shorter ones, a model whose usual samples are shorter than its context, and weights that learn any length.
    assert_eq!(told("llama-2-7b", 4096, lora), None);
    assert_eq!(told("llama-3.2-1b", 16384, lora), None);
    assert_eq!(told("gpt2", 2048, None), None);
}

#[test]
fn half_precision_wants_loss_scaling() {
    let asked = job("gpt2", 64, &["p3.2xlarge"]);
    assert!(warns(&plan(&asked, &["instances=1", "precision=fp16-mixed"]), "loss scaling"));
    assert!(!warns(&plan(&asked, &["instances=1", "precision=fp32"]), "loss scaling"));
}

#[test]
fn data_in_another_region_is_warned_of_or_refused() {
    let mut asked = job("gpt2", 64, &["p3.2xlarge"]);
    asked.data.region = Some("us-east-1".into());
    assert!(!warns(&plan(&asked, &["instances=1"]), "the data is in"));
    asked.data.region = Some("eu-west-1".into());
    assert!(warns(&plan(&asked, &["instances=1"]), "the data is in eu-west-1 and the instances are in us-east-1"));
    (asked.data.storage, asked.data.bytes_per_sample) = (Some(StorageMode::FsxLustre), Some(1024.0));
    assert!(refused(&asked).to_string().starts_with("`data.region` and `data.storage` exclude each other"));
    asked.data.region = Some("us-east-1".into());
    assert!(warns(&plan(&asked, &["instances=1"]), "one Availability Zone"));
    asked.data.storage = Some(StorageMode::S3FastFile);
    assert!(!warns(&plan(&asked, &["instances=1"]), "Availability Zone"));
    for wrong in ["", "mars", "us-east", "us-east-1a", "US-EAST-1"] {
        asked.data.region = Some(wrong.into());
        assert!(refused(&asked).to_string().starts_with("`data.region` is `"), "{wrong}");
    }
}

#[test]
fn what_encryption_takes_is_told_where_there_is_something_to_encrypt() {
    let asked = job("gpt2", 64, &["g4dn.xlarge"]);
    let encrypted = plan(&asked, &["instances=2", "cluster.encrypted=true"]);
    assert!(warns(&encrypted, "encrypted"), "{:?}", encrypted.warnings);
    assert!(!warns(&plan(&asked, &["instances=1", "cluster.encrypted=true"]), "encrypted"));
    assert!(!warns(&plan(&asked, &["instances=2"]), "encrypted"));
}

#[test]
fn sockets_are_told_where_machines_have_an_adapter() {
    let mut asked = job("gpt2", 64, &["g4dn.12xlarge", "p3.2xlarge"]);
    let held = ["instance=g4dn.12xlarge", "instances=2"];
    let usual = plan(&asked, &held);
    assert!(warns(&usual, "sockets"));
    assert!(!warns(&plan(&asked, &["instance=g4dn.12xlarge", "instances=1"]), "sockets"));
    assert!(!warns(&plan(&asked, &["instance=p3.2xlarge", "instances=2"]), "sockets"));
    asked.cluster.transport = Some("efa".into());
    assert!(!warns(&plan(&asked, &held), "sockets"));
}

#[test]
fn a_transport_is_that_of_every_plan_and_leaves_out_types_that_do_not_have_it() {
    let mut asked = job("gpt2", 64, &["g4dn.12xlarge", "p3.2xlarge"]);
    let usual = plan(&asked, &["instances=2", "instance=g4dn.12xlarge"]);
    assert_eq!(usual.plan.cluster.transport, None);
    asked.cluster.transport = Some("tcp".into());
    assert_eq!(plan(&asked, &["instances=2", "instance=g4dn.12xlarge"]).plan, usual.plan);
    asked.cluster.transport = Some("efa".into());
    let efa = plan(&asked, &["instances=2"]);
    assert_eq!(efa.plan.cluster.transport.as_deref(), Some("efa"));
    let left_out = efa.rejected.iter().find(|rejected| rejected.what == "p3.2xlarge").expect("it is told");
    assert_eq!((left_out.limit, left_out.why.as_str()), (Some(RejectedBy::Machine), "has no efa, but tcp, tcp-pods"));
    let (again, _) = resimulate(&efa, MachineFiles::default(), Options::default()).expect("a simulation");
    assert_eq!(again.prediction.step_time_s.to_bits(), efa.prediction.step_time_s.to_bits());
    let without = PlanDocument { plan: PlanSpec { cluster: usual.plan.cluster, ..efa.plan.clone() }, ..efa.clone() };
    let (over_tcp, _) = resimulate(&without, MachineFiles::default(), Options::default()).expect("a simulation");
    assert_ne!(over_tcp.prediction.step_time_s.to_bits(), efa.prediction.step_time_s.to_bits());
}

#[test]
fn a_transport_that_cannot_be_is_refused_in_jobs_and_plans() {
    let mut asked = job("gpt2", 64, &["p3.2xlarge"]);
    for (name, sentence) in [
        ("efa", "`cluster.transport` is efa, but p3.2xlarge has tcp, tcp-pods"),
        ("ethernet", "`cluster.transport` is `ethernet`, but it must be one of tcp, "),
    ] {
        asked.cluster.transport = Some(name.into());
        assert!(refused(&asked).to_string().starts_with(sentence), "{name}");
    }
    asked.cluster.transport = None;
    let mut document = plan(&asked, &["instances=2"]);
    document.plan.cluster.transport = Some("efa".into());
    let told = |document: &PlanDocument| {
        resimulate(document, MachineFiles::default(), Options::default()).expect_err("the plan is wrong").to_string()
    };
    assert!(told(&document).contains("`plan.cluster.transport` is efa, but p3.2xlarge has tcp, tcp-pods"));
    document.plan.cluster.file = Some("cluster.toml".into());
    assert!(told(&document).contains("`plan.cluster.transport` and `plan.cluster.file` exclude each other"));
}

#[test]
fn smddp_is_warned_of_where_it_does_not_run() {
    let held = ["instances=1", "collectives=smddp"];
    let mut rented = job("gpt2", 64, &["p3.16xlarge"]);
    assert!(warns(&plan(&rented, &held), "smddp"));
    rented.cluster.service = Some("sagemaker".into());
    assert!(!warns(&plan(&rented, &held), "smddp"));
}
