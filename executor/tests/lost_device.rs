//! A GPU that is gone in the middle of a run, in a process of its own: nothing computes on it afterwards.

use burn::tensor::{Device, DeviceKind as Adapter};
use std::sync::atomic::AtomicBool;
use trainyard_data::DataSource;
use trainyard_executor::{HyperParameters, RunError, RunEvent, RunOptions, run};
use trainyard_hardware_profiles::DeviceKind;
use trainyard_models::{Family, ModelSpec};
use trainyard_plan::{BatchSpec, ClusterSpec, LearningRate, Optimizer, ParallelSpec, Plan, PlanSpec, TrainingSpec};

const STEPS: u64 = 8;
/// The last step before the device is gone.
const LAST: u64 = 3;

fn plan() -> Plan {
    let model = ModelSpec {
        layers: Some(1),
        hidden: Some(16),
        heads: Some(2),
        vocab: Some(256),
        seq_len: Some(12),
        ..ModelSpec::new("tiny", Family::Gpt)
    };
    let spec = PlanSpec {
        parallel: ParallelSpec { data: 2, ..ParallelSpec::default() },
        batch: BatchSpec { global: 4, micro: 2, accumulation: 1 },
        ..PlanSpec::plain(model, ClusterSpec::of("local", 1), 3)
    };
    Plan::try_from(spec).expect("a valid plan")
}

fn options(folder: &std::path::Path) -> RunOptions {
    let training = TrainingSpec { learning_rate: Some(1e-2), ..TrainingSpec::default() };
    RunOptions {
        data: DataSource::new(folder.join("text")),
        steps: STEPS,
        learning_rate: LearningRate::of(&training, STEPS),
        hyper_parameters: HyperParameters::of(Optimizer::AdamW),
        clip_norm: None,
        skips_max: 5,
        seed: 42,
        checkpoint: Some(folder.join("checkpoint")),
        checkpoint_every: Some(1),
        keep: 2,
        evaluation: None,
        resume: false,
        device: DeviceKind::Wgpu,
        threads: None,
        weights: None,
        allocations: None,
        plan_document: serde_json::json!({}),
    }
}

#[test]
fn the_run_ends_with_a_whole_checkpoint_that_goes_on_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("text")).expect("a folder");
    std::fs::write(folder.path().join("text/a.txt"), "the loss falls when training goes on.\n".repeat(40))
        .expect("a file");
    // The device that ranks compute on: a card before a device that processors stand in for.
    let adapters = [Adapter::DiscreteGpu(0), Adapter::IntegratedGpu(0), Adapter::VirtualGpu(0), Adapter::Cpu];
    let opened = adapters.into_iter().find_map(|kind| Device::wgpu_options().device_kind(kind).init_with_setup().ok());
    let (_, setup) = opened.expect("a device of wgpu's");

    let options = options(folder.path());
    let observe = |event: RunEvent| {
        if matches!(event, RunEvent::Step(step) if step.step == LAST) {
            setup.device.destroy();
        }
    };
    let error = run(&plan(), &options, &observe, &AtomicBool::new(false)).expect_err("the device is gone");
    let RunError::EndedEarly { step, ref source, .. } = error else { panic!("{error}") };
    assert!((LAST - 1..=LAST).contains(&step), "{error}: {source}");
    assert!(matches!(**source, RunError::Rank { ref reason, .. } if !reason.is_empty()), "{source}");

    let resumed = RunOptions { device: DeviceKind::Cpu, resume: true, ..options };
    let outcome = run(&plan(), &resumed, &|_| {}, &AtomicBool::new(false)).expect("processors go on");
    assert_eq!(outcome.report.steps.last().map(|step| step.step), Some(STEPS));
}
