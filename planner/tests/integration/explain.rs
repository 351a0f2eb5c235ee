//! Explanations: the parts of a path are the step, and two plans are told apart by what differs.

use crate::common;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{ExplainedPlan, JobSpec, PathKind};
use trainyard_planner::{MachineFiles, NamedPlan, explain};

fn job(model: &str, samples: u64, global_batch: u64, instance: &str) -> JobSpec {
    let mut job = common::job(model, global_batch, &[instance], 2);
    job.data.samples = Some(samples);
    job
}

fn plan(job: &JobSpec, fixed: &[&str]) -> PlanDocument {
    common::plan(job, fixed, 1).expect("a plan")
}

fn named(file: &str, document: PlanDocument) -> NamedPlan {
    NamedPlan { file: file.into(), document, files: MachineFiles::default() }
}

fn time(plan: &ExplainedPlan, kind: PathKind) -> f64 {
    plan.critical_path.iter().filter(|part| part.kind == kind).map(|part| part.time_s).sum()
}

#[test]
fn samples_that_are_late_are_on_the_path_which_is_the_step() {
    let mut late = job("resnet50", 1_281_167, 256, "p3.2xlarge");
    (late.data.bytes_per_sample, late.data.files) = (Some(114_660.0), Some(1024));
    late.cluster.max_instances = Some(1);
    let document = plan(&late, &["input.storage=s3-fastfile"]);
    let own = explain(&named("late.json", document), None).expect("a plan of the catalog").plan;
    let sum: f64 = own.critical_path.iter().map(|part| part.time_s).sum();
    let step = own.prediction.step_time_s;
    assert!((sum - step).abs() < 1e-9 * step, "{sum} of {step}");
    assert!(time(&own, PathKind::InputWait) > 0.2 * step, "{:?}", own.critical_path);
}

#[test]
fn the_slower_of_two_is_slower_by_what_stands_on_its_path() {
    let mut asked = job("gpt2", 64_000, 64, "p3.8xlarge");
    asked.cluster.stack = Some("pytorch".into());
    let held = ["instances=2", "parallel.tensor=1", "parallel.pipeline=1", "precision=fp16-mixed"];
    let whole = plan(&asked, &[&held[..], &["parallel.data=8", "gradient_compression=none"]].concat());
    let fewer = plan(&asked, &[&held[..], &["parallel.data=8", "gradient_compression=int8"]].concat());
    let both = explain(&named("a.json", whole), Some(&named("b.json", fewer))).expect("plans of the catalog");
    let other = both.against.as_ref().expect("two plans");
    let saved = time(&both.plan, PathKind::GradientReduction) - time(other, PathKind::GradientReduction);
    assert!(saved > 0.0 && both.verdict[0].starts_with("B is faster"), "{:?}", both.verdict);
    assert!(both.verdict[1].contains("more on gradient reduction between machines"), "{:?}", both.verdict);
    assert!(both.differences.iter().any(|difference| difference.field == "gradient_compression"));
    assert!(both.notes.is_empty(), "{:?}", both.notes);
}

#[test]
fn trainings_of_other_batches_are_compared_as_wholes() {
    let one = plan(&job("gpt2", 64_000, 64, "p3.8xlarge"), &["instances=1"]);
    let two = plan(&job("gpt2", 64_000, 128, "p3.16xlarge"), &["instances=1"]);
    let both = explain(&named("a.json", one), Some(&named("b.json", two))).expect("plans of the catalog");
    assert!(both.notes[0].contains("64 samples and one of B 128"), "{:?}", both.notes);
    assert!(both.verdict[1].starts_with("of the training A spends"), "{:?}", both.verdict);
}

#[test]
fn plans_of_different_models_are_not_compared() {
    let own = named("a.json", plan(&job("gpt2", 640, 8, "p3.2xlarge"), &["instances=1"]));
    let other = named("b.json", plan(&job("gpt2-medium", 640, 8, "p3.2xlarge"), &["instances=1"]));
    let error = explain(&own, Some(&other)).expect_err("two models");
    assert!(error.to_string().starts_with("in `plan.model`: `name` differs"), "{error}");
    let mut longer = own.clone();
    longer.document.plan.model.seq_len = Some(512);
    let error = explain(&own, Some(&longer)).expect_err("another length").to_string();
    assert!(error.contains("`seq_len`") && error.contains("1024") && error.contains("512"), "{error}");
    // A model is what it is, whatever it is called.
    let mut renamed = own.clone();
    renamed.document.plan.model.name = "mine".into();
    assert!(explain(&own, Some(&renamed)).is_ok());
}

#[test]
fn a_prediction_that_is_no_longer_that_of_the_file_is_told() {
    let mut own = named("a.json", plan(&job("gpt2", 640, 8, "p3.2xlarge"), &["instances=1"]));
    assert!(explain(&own, None).expect("a plan of the catalog").notes.is_empty());
    own.document.prediction.step_time_s *= 2.0;
    let notes = explain(&own, None).expect("a plan of the catalog").notes;
    assert!(notes[0].contains("`a.json` says") && notes[0].contains("simulated anew"), "{notes:?}");
    own.document.plan.cluster.instance = "p3.9xlarge".into();
    assert!(explain(&own, None).expect_err("no such instance").invalid.hint().is_some());
}
