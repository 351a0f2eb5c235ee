//! Predictions of runs on one machine, from its profile: both were kept, so that a change of what is predicted shows.
//!
//! `runs/profile.toml` is what `trainyard calibrate` measured, `runs/runs.json` what benchmarks/predictions/run.sh ran
//! after it on the same machine: the plans, and their measured step times, phases and memory.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_calibration::{RunMeasurement, correct_profile, profile_from_toml};
use trainyard_hardware_profiles::{Cluster, EXECUTOR_STACK, MeasuredMachine, catalog};
use trainyard_plan::document::Phases;
use trainyard_plan::{Plan, PlanSpec};
use trainyard_sim::{Machine, Outcome, simulate};

/// A run that was kept.
#[derive(Deserialize)]
struct Kept {
    name: String,
    plan: PlanSpec,
    step_time_s: f64,
    memory_bytes: u64,
    phases: Phases,
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs")
}

fn profile() -> MeasuredMachine {
    let text = std::fs::read_to_string(folder().join("profile.toml")).expect("it is kept");
    profile_from_toml(&text, "profile.toml").expect("a profile")
}

fn runs() -> Vec<(Kept, Plan)> {
    let text = std::fs::read_to_string(folder().join("runs.json")).expect("it is kept");
    let kept: Vec<Kept> = serde_json::from_str(&text).expect("runs");
    kept.into_iter()
        .map(|run| {
            let plan = Plan::try_from(run.plan.clone()).expect("a valid plan");
            (run, plan)
        })
        .collect()
}

fn machine(profile: &MeasuredMachine) -> Machine {
    let stack = catalog().stack(EXECUTOR_STACK).expect("in the catalog").clone();
    Machine { cluster: Cluster::of_measured(profile.clone()), stack }
}

fn predicted(plan: &Plan, profile: &MeasuredMachine) -> Outcome {
    simulate(plan, &machine(profile)).expect("the profile knows what it needs")
}

fn off(run: &Kept, plan: &Plan, profile: &MeasuredMachine) -> f64 {
    (predicted(plan, profile).step_time.0 / run.step_time_s - 1.0).abs()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

#[test]
fn steps_are_predicted_within_six_percent_on_the_median_and_a_fifth_at_worst() {
    let (profile, runs) = (profile(), runs());
    assert!(runs.len() >= 18);
    let errors: Vec<f64> = runs.iter().map(|(run, plan)| off(run, plan, &profile)).collect();
    let told: Vec<String> =
        runs.iter().zip(&errors).map(|((run, _), error)| format!("{} {error:.3}", run.name)).collect();
    assert!(errors.iter().all(|error| *error <= 0.2), "{told:?}");
    assert!(median(errors) <= 0.06, "{told:?}");
}

/// What is recommended for this machine is the plan that is predicted to be the fastest.
#[test]
fn the_plan_that_is_predicted_fastest_is_within_five_percent_of_the_fastest() {
    let profile = profile();
    let mut jobs: BTreeMap<String, Vec<(f64, f64, String)>> = BTreeMap::new();
    for (run, plan) in runs() {
        let job = run.name.split('-').next().expect("a job and a plan").to_owned();
        let predicted = predicted(&plan, &profile).step_time.0;
        jobs.entry(job).or_default().push((predicted, run.step_time_s, run.name));
    }
    assert_eq!(jobs.len(), 6);
    for (job, plans) in jobs {
        assert!(plans.len() >= 5, "{job} is divided by data, tensor, pipeline, not at all, and by micro-batch");
        let least = |of: fn(&(f64, f64, String)) -> f64| {
            plans.iter().min_by(|a, b| of(a).total_cmp(&of(b))).expect("it has plans")
        };
        let (chosen, fastest) = (least(|plan| plan.0), least(|plan| plan.1));
        let regret = chosen.1 / fastest.1 - 1.0;
        assert!(regret <= 0.05, "{job}: {} is {regret:.3} slower than {}", chosen.2, fastest.2);
    }
}

#[test]
fn memory_is_predicted_within_a_tenth_on_the_median() {
    let profile = profile();
    let mut errors = Vec::new();
    for (run, plan) in runs() {
        let footprint = predicted(&plan, &profile).footprint;
        let of_stages: u64 = plan.stages().ids().map(|stage| footprint.total(stage).0).sum();
        let all = of_stages * u64::from(plan.mesh().ranks() / plan.mesh().pipeline());
        errors.push((all as f64 / run.memory_bytes as f64 - 1.0).abs());
    }
    assert!(median(errors.clone()) <= 0.10, "{errors:?}");
}

#[test]
fn runs_correct_a_profile_that_was_measured_on_a_busy_machine() {
    let (mut profile, runs) = (profile(), runs());
    // As if other programs had taken a third of the machine meanwhile.
    for sample in &mut profile.operators {
        sample.forward_s *= 1.5;
        sample.backward_s *= 1.5;
    }
    let stack = catalog().stack(EXECUTOR_STACK).expect("in the catalog");
    let measured: Vec<RunMeasurement> = runs
        .iter()
        .map(|(run, plan)| RunMeasurement {
            file: run.name.clone(),
            processor: profile.processor.clone(),
            threads: profile.devices,
            plan: plan.clone(),
            step_time_s: run.step_time_s,
            phases: run.phases,
        })
        .collect();
    let corrected = correct_profile(&profile, stack, &measured, "runs", "2026-11-26").expect("runs of this machine");
    let total = corrected.document.stacks[0].errors;
    assert!(total.before > 0.3, "{total:?}");
    // The run that was left out, which the correction has not seen.
    assert!(total.left_out < 0.12 && total.after < 0.12, "{total:?}");
}
