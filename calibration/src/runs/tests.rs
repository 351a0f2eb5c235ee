use super::*;
use std::sync::Arc;
use trainyard_hardware_profiles::{
    CollectiveOperation, CollectiveSample, DeviceKind, EXECUTOR_STACK, NumberFormat, OperatorClass, OperatorSample,
    PROFILE_SCHEMA, catalog,
};
use trainyard_units::{Bytes, BytesPerSecond};

/// A machine of two processors on which everything takes a time that grows with its size.
fn profile() -> MeasuredMachine {
    let shapes = |class: OperatorClass| [16u64, 64, 256].map(|size| vec![size; class.dimensions()]);
    let sample = |class: OperatorClass, shape: Vec<u64>, ranks| {
        let elements = if class.is_over_parameters() { shape[0] } else { shape.iter().take(3).product() };
        let forward_s = 2e-6 + 1e-9 * elements as f64;
        let backward_s = if class.is_over_parameters() { 0.0 } else { 2.0 * forward_s };
        let format = NumberFormat::Fp32;
        OperatorSample { operator: class, format, ranks, threads: 1, shape, forward_s, backward_s, spread: 0.02 }
    };
    let operators = [1, 2].into_iter().flat_map(|ranks| {
        let of = move |class: OperatorClass| shapes(class).map(|shape| sample(class, shape, ranks));
        OperatorClass::ALL.into_iter().flat_map(of)
    });
    let collectives = [CollectiveOperation::AllReduce, CollectiveOperation::Send].into_iter().flat_map(|operation| {
        [1u64 << 10, 1 << 16, 1 << 22].map(|bytes| {
            let seconds = 1e-5 + bytes as f64 * 5e-10;
            CollectiveSample { operation, ranks: 2, bytes, seconds }
        })
    });
    MeasuredMachine {
        schema: PROFILE_SCHEMA.into(),
        name: "local".into(),
        processor: "a processor".into(),
        device: DeviceKind::Cpu,
        devices: 2,
        memory: Bytes(1 << 33),
        measured: "2026-11-21".into(),
        framework: "burn".into(),
        copy_bandwidth: BytesPerSecond(1e10),
        overlap_slowdown: None,
        corrections: Vec::new(),
        operators: operators.collect(),
        collectives: collectives.collect(),
    }
}

fn stack() -> Arc<Stack> {
    catalog().stack(EXECUTOR_STACK).expect("in the catalog").clone()
}

/// A decoder on this many replicas and stages.
fn plan(hidden: u64, data: u64, pipeline: u64) -> Plan {
    let stages = match pipeline {
        1 => r#"[{"first": 0, "layers": 6}]"#,
        _ => r#"[{"first": 0, "layers": 3}, {"first": 3, "layers": 3}]"#,
    };
    let schedule = if pipeline == 1 { "none" } else { "1f1b" };
    let accumulation = 8 / data / 2;
    let text = format!(
        r#"{{"model": {{"name": "m", "family": "gpt", "layers": 4, "hidden": {hidden}, "heads": 2, "vocab": 256,
            "seq_len": 64}}, "cluster": {{"instance": "local", "instances": 1, "profile": "p.toml"}},
            "parallel": {{"data": {data}, "tensor": 1, "pipeline": {pipeline}}},
            "batch": {{"global": 8, "micro": 2, "accumulation": {accumulation}}}, "schedule": "{schedule}",
            "stages": {stages}, "precision": "fp32", "recompute": "none", "collectives": "nccl",
            "optimizer": "adamw", "pricing": "on-demand"}}"#
    );
    Plan::try_from(serde_json::from_str::<trainyard_plan::PlanSpec>(&text).expect("a plan")).expect("a valid plan")
}

/// What a run would measure on a machine whose steps take that much longer than its operators.
fn run(truth: &MeasuredMachine, file: &str, plan: Plan) -> RunMeasurement {
    let machine = Machine { cluster: Cluster::of_measured(truth.clone()), stack: stack() };
    let outcome = simulate(&plan, &machine).expect("it is admitted");
    RunMeasurement {
        file: file.into(),
        processor: truth.processor.clone(),
        threads: truth.devices,
        plan,
        step_time_s: outcome.step_time.0,
        phases: outcome.phases,
    }
}

fn truth() -> MeasuredMachine {
    let correction = |phase, factor| Correction {
        phase,
        factor,
        deviation: 0.0,
        runs: 1,
        measured: String::new(),
        source: String::new(),
    };
    let corrections = vec![
        correction(CorrectedPhase::Forward, 1.2),
        correction(CorrectedPhase::Backward, 1.35),
        correction(CorrectedPhase::Optimizer, 0.9),
        correction(CorrectedPhase::Communication, 1.5),
    ];
    MeasuredMachine { corrections, ..profile() }
}

fn error_of(profile: &MeasuredMachine, run: &RunMeasurement) -> f64 {
    Fit { profile, stack: &stack(), from: "", date: "" }.error(run, profile).expect("it is admitted")
}

#[test]
fn a_run_improves_the_prediction_of_plans_that_were_not_run() {
    let truth = truth();
    let seen = [run(&truth, "one", plan(64, 2, 1))];
    let corrected = correct_profile(&profile(), &stack(), &seen, "one", "2026-11-22").expect("a run");
    let profile_after = corrected.profile.expect("it learnt");
    for held_out in [plan(64, 1, 2), plan(128, 1, 1), plan(128, 2, 1)] {
        let held_out = run(&truth, "other", held_out);
        let (before, after) = (error_of(&profile(), &held_out), error_of(&profile_after, &held_out));
        assert!(after < 0.5 * before, "{before} {after}");
    }
    let document = corrected.document;
    assert_eq!((document.rows, document.suites.len(), document.stacks[0].replaced), (1, 1, true));
    assert!(document.constants.iter().any(|change| change.name == "profiles.local.backward" && change.after > 1.2));
}

#[test]
fn more_runs_come_nearer_and_the_next_starts_from_them() {
    let truth = truth();
    let plans = [plan(64, 2, 1), plan(64, 1, 2), plan(128, 1, 1)];
    let seen: Vec<RunMeasurement> = plans.into_iter().map(|plan| run(&truth, "one of several", plan)).collect();
    let one = correct_profile(&profile(), &stack(), &seen[..1], "", "2026-11-22").expect("a run").profile;
    let all = correct_profile(&profile(), &stack(), &seen, "", "2026-11-22").expect("runs").profile;
    let (one, all) = (one.expect("it learnt"), all.expect("it learnt"));
    let wanted = truth.correction(CorrectedPhase::Backward);
    let off = |machine: &MeasuredMachine| (machine.correction(CorrectedPhase::Backward) - wanted).abs();
    assert!(off(&all) < off(&one), "{} {}", off(&all), off(&one));
    let again = correct_profile(&one, &stack(), &seen[1..], "", "2026-11-23").expect("runs").profile;
    let again = again.expect("it learnt more");
    assert!(off(&again) < off(&one));
    let backward = again.corrections.iter().find(|c| c.phase == CorrectedPhase::Backward).expect("corrected");
    assert_eq!((backward.runs, backward.measured.as_str()), (3, "2026-11-23"));
}

#[test]
fn runs_that_contradict_each_other_change_little() {
    let slow = truth();
    let mut fast = truth();
    for correction in &mut fast.corrections {
        correction.factor = correction.factor.recip();
    }
    let plans = || [plan(64, 1, 1), plan(128, 1, 1)];
    let mut seen: Vec<RunMeasurement> = plans().into_iter().map(|plan| run(&slow, "slow", plan)).collect();
    seen.extend(plans().into_iter().map(|plan| run(&fast, "fast", plan)));
    let outcome = correct_profile(&profile(), &stack(), &seen, "", "2026-11-22").expect("runs");
    let factor = outcome.profile.map_or(1.0, |profile| profile.correction(CorrectedPhase::Backward));
    assert!((factor - 1.0).abs() < 0.05, "{factor}");
}

#[test]
fn a_run_of_another_machine_or_without_sense_is_refused() {
    let good = run(&truth(), "runs/a/measurement.json", plan(64, 1, 1));
    let correct = |run: RunMeasurement| correct_profile(&profile(), &stack(), &[run], "", "2026-11-22");
    let error = correct(RunMeasurement { threads: 64, ..good.clone() }).expect_err("another machine");
    assert_eq!(
        error.to_string(),
        "in `runs/a/measurement.json`: `device.cores` is 64, but the profile `local` is of 2"
    );
    let error = correct(RunMeasurement { step_time_s: f64::NAN, ..good.clone() }).expect_err("no time");
    assert!(error.to_string().contains("step_time_s"), "{error}");
    let mut lacking = profile();
    lacking.operators.retain(|sample| sample.operator != OperatorClass::Linear);
    let error = correct_profile(&lacking, &stack(), &[good], "", "2026-11-22").expect_err("an unknown operator");
    assert!(error.to_string().contains("Linear") && error.hint().is_some(), "{error}");
    assert!(correct_profile(&profile(), &stack(), &[], "runs", "2026-11-22").is_err());
}
