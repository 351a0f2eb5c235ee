//! Whole runs of tiny models: every way to cut a plan trains the same model.

use super::reporting::middle_half;
use super::*;
use crate::RunEnd;
use std::fs;
use std::sync::Mutex;
use trainyard_models::{AttentionKernel, DropoutSpec, Family, ModelSpec};
use trainyard_plan::{
    BatchSpec, ClusterSpec, GradientCompression, GradientReduction, Optimizer, ParallelSpec, PlanSpec, Precision,
    Recompute, ScheduleName, StageSpec, StateSharding, TrainingSpec,
};

mod adapters;
mod disk;
mod evaluations;
mod reliability;
mod state;

use state::{HostTensors, State};

const GLOBAL: u64 = 8;

#[test]
fn steps_that_something_disturbed_are_not_usual() {
    assert_eq!(middle_half(&[1.0, 9.0, 1.1, 1.2, 0.9]), [0, 2, 3]);
    assert_eq!((middle_half(&[2.0]), middle_half(&[1.0, 2.0])), (vec![0], vec![0, 1]));
}

#[test]
fn the_error_is_that_of_the_first_rank_that_failed_by_itself() {
    let told = || Err(RankError::Failed(GroupError::RankFailed { rank: 7, reason: "elsewhere".into() }.into()));
    let panicked = |reason: &str| Err(RankError::Panicked(reason.into()));
    let diverged = || Err(RankError::Failed(WorkerError::Diverged { step: 3, skipped: 2, loss: 1.0 }));
    let said = |results| collect(results, 4).err().map(|error| error.to_string());
    let first = said(vec![told(), Ok(Vec::new()), panicked("one"), diverged(), panicked("two")]);
    assert_eq!(first.as_deref(), Some("rank 6 failed: one"));
    assert!(said(vec![diverged(), panicked("one")]).is_some_and(|error| error.contains("no numbers")));
    assert_eq!(said(vec![Ok(Vec::new()), told()]).as_deref(), Some("rank 7 failed: elsewhere"));
    assert!(said(vec![Ok(Vec::new())]).is_none());
}

/// A plan for a tiny model at the same global batch, whatever the degrees.
fn spec(data: u32, pipeline: u32, accumulation: u64, schedule: ScheduleName) -> PlanSpec {
    let layers = 4;
    let total = layers as usize + 2;
    let stages = (0..pipeline as usize)
        .map(|stage| {
            let first = stage * total / pipeline as usize;
            StageSpec { first, layers: (stage + 1) * total / pipeline as usize - first }
        })
        .collect();
    let model = ModelSpec {
        layers: Some(layers),
        hidden: Some(16),
        heads: Some(2),
        vocab: Some(256),
        seq_len: Some(12),
        ..ModelSpec::new("tiny", Family::Gpt)
    };
    PlanSpec {
        parallel: ParallelSpec { data, pipeline, ..ParallelSpec::default() },
        batch: BatchSpec { global: GLOBAL, micro: GLOBAL / u64::from(data) / accumulation, accumulation },
        schedule,
        stages,
        ..PlanSpec::plain(model, ClusterSpec::of("local", 1), total)
    }
}

fn plan(spec: PlanSpec) -> Plan {
    Plan::try_from(spec).expect("a valid plan")
}

/// A small network with batch normalisation.
fn small_resnet(classes: u64) -> ModelSpec {
    ModelSpec {
        image_size: Some(32),
        classes: Some(classes),
        depths: Some(vec![1, 1]),
        widths: Some(vec![8, 16]),
        base_channels: Some(4),
        block: Some(trainyard_models::BlockKind::Basic),
        ..ModelSpec::new("small", Family::ResNet)
    }
}

/// A folder with text, and a place for checkpoints beside it.
fn text() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("text")).expect("a folder");
    let words = ["the ", "loss ", "falls ", "when ", "training ", "goes ", "on.\n"];
    let text: String = (0..900).map(|i| words[(i * i + i / 3) % words.len()]).collect();
    fs::write(folder.path().join("text/a.txt"), text).expect("a file");
    folder
}

fn options(folder: &tempfile::TempDir, steps: u64) -> RunOptions {
    RunOptions {
        data: DataSource::new(folder.path().join("text")),
        steps,
        learning_rate: LearningRate::of(
            &TrainingSpec { learning_rate: Some(1e-2), warm_up_steps: Some(4), ..TrainingSpec::default() },
            steps,
        ),
        hyper_parameters: HyperParameters::of(Optimizer::AdamW),
        clip_norm: None,
        skips_max: 5,
        seed: 42,
        checkpoint: Some(folder.path().join("checkpoint")),
        checkpoint_every: None,
        keep: 2,
        evaluation: None,
        resume: false,
        device: DeviceKind::Cpu,
        threads: None,
        weights: None,
        allocations: None,
        plan_document: serde_json::json!({}),
        kernels: true,
    }
}

fn train_plan(spec: PlanSpec, steps: u64) -> (RunReport, State) {
    let folder = text();
    let outcome =
        run(&plan(spec), &options(&folder, steps), &|_| {}, &AtomicBool::new(false)).expect("the run ends well");
    let state = state::read(&folder.path().join("checkpoint")).expect("a whole checkpoint").1;
    (outcome.report, state)
}

fn largest_difference(a: &HostTensors, b: &HostTensors) -> f32 {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    let pairs = a.iter().flat_map(|(name, tensor)| tensor.values.iter().zip(&b[name].values));
    pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

/// The share by which losses of a cut may differ from those of the single process after ten steps.
const SINGLE_PRECISION: f64 = 1e-5;

/// Trains both plans and compares every loss with that of the single process. Weights are compared after plain
/// descent: rules that divide by the root of a square make much of a gradient that is nearly nothing.
fn assert_equals(single: &PlanSpec, changed: &PlanSpec, tolerance: f64) {
    let ((expected, expected_state), (report, state)) =
        (train_plan(single.clone(), 10), train_plan(changed.clone(), 10));
    let optimizer = changed.optimizer;
    for (a, b) in expected.steps.iter().zip(&report.steps) {
        assert!((a.loss / b.loss - 1.0).abs() < tolerance, "{optimizer} step {}: {} and {}", a.step, a.loss, b.loss);
    }
    let norm = |report: &RunReport| report.steps[0].gradient_norm.expect("it is finite");
    let (a, b) = (norm(&expected), norm(&report));
    assert!((a / b - 1.0).abs() < 10.0 * tolerance, "gradients of {a} and {b}");
    let (a, b) = (expected.loss.held_out.expect("held-out text"), report.loss.held_out.expect("held-out text"));
    assert!((a / b - 1.0).abs() < tolerance, "{optimizer} {a} and {b}");
    if optimizer == Optimizer::Sgd {
        let difference = largest_difference(&expected_state.model, &state.model);
        assert!(f64::from(difference) < tolerance, "weights differ by {difference}");
    }
}

fn assert_equals_single_process(changed: &PlanSpec) {
    for optimizer in [Optimizer::Sgd, Optimizer::AdamW] {
        let single = PlanSpec { optimizer, ..spec(1, 1, 1, ScheduleName::None) };
        assert_equals(&single, &PlanSpec { optimizer, ..changed.clone() }, SINGLE_PRECISION);
    }
}

#[test]
fn two_replicas_equal_the_single_process() {
    assert_equals_single_process(&spec(2, 1, 1, ScheduleName::None));
}

#[test]
fn accumulation_equals_the_single_process() {
    assert_equals_single_process(&spec(1, 1, 4, ScheduleName::None));
    assert_equals_single_process(&spec(2, 1, 2, ScheduleName::None));
}

#[test]
fn two_stages_equal_the_single_process() {
    assert_equals_single_process(&spec(1, 2, 4, ScheduleName::GPipe));
    assert_equals_single_process(&spec(1, 2, 4, ScheduleName::OneForwardOneBackward));
}

#[test]
fn four_stages_equal_the_single_process() {
    assert_equals_single_process(&spec(1, 4, 2, ScheduleName::GPipe));
    assert_equals_single_process(&spec(1, 4, 8, ScheduleName::OneForwardOneBackward));
}

#[test]
fn replicas_of_a_pipeline_equal_the_single_process() {
    assert_equals_single_process(&spec(2, 2, 2, ScheduleName::GPipe));
}

#[test]
fn recomputation_equals_the_single_process() {
    assert_equals_single_process(&PlanSpec { recompute: Recompute::Full, ..spec(1, 1, 2, ScheduleName::None) });
    assert_equals_single_process(&PlanSpec { recompute: Recompute::Full, ..spec(1, 2, 2, ScheduleName::GPipe) });
}

/// A rank on another device has the operators that own kernels stand for.
#[test]
fn runs_without_own_kernels_equal_those_with_them() {
    let losses = |spec: &PlanSpec, kernels| {
        let folder = text();
        let options = RunOptions { kernels, ..options(&folder, 6) };
        let report = run(&plan(spec.clone()), &options, &|_| {}, &AtomicBool::new(false)).expect("it ends well").report;
        let losses = report.steps.iter().map(|step| step.loss).chain(report.loss.held_out);
        losses.collect::<Vec<_>>()
    };
    let hybrid = tensor(spec(2, 2, 2, ScheduleName::OneForwardOneBackward), 2, true);
    let mut otherwise = false;
    for (precision, tolerance) in [(Precision::Fp32, 1e-5), (Precision::Fp16Mixed, 2e-3), (Precision::Bf16Mixed, 1e-2)]
    {
        for cut in [spec(1, 1, 2, ScheduleName::None), hybrid.clone()] {
            for optimizer in [Optimizer::AdamW, Optimizer::Lamb] {
                let cut = PlanSpec { precision, optimizer, ..cut.clone() };
                let (with, without) = (losses(&cut, true), losses(&cut, false));
                for (step, (with, without)) in with.iter().zip(&without).enumerate() {
                    let near = (with / without - 1.0).abs() < tolerance;
                    assert!(near, "{precision}, {optimizer}, step {step}: {with} and {without}");
                }
                otherwise |= with != without;
            }
        }
    }
    assert!(otherwise, "own kernels round otherwise somewhere, or both runs had the same");
}

/// A cut with tensor parallelism.
fn tensor(spec: PlanSpec, tensor: u32, sequence: bool) -> PlanSpec {
    PlanSpec { parallel: ParallelSpec { tensor, sequence, ..spec.parallel }, ..spec }
}

#[test]
fn tensor_parallel_ranks_equal_the_single_process() {
    assert_equals_single_process(&tensor(spec(1, 1, 1, ScheduleName::None), 2, false));
    assert_equals_single_process(&tensor(spec(1, 1, 2, ScheduleName::None), 2, true));
}

#[test]
fn tensor_parallelism_joins_all_others() {
    assert_equals_single_process(&tensor(spec(2, 1, 1, ScheduleName::None), 2, false));
    assert_equals_single_process(&tensor(spec(2, 2, 2, ScheduleName::OneForwardOneBackward), 2, true));
}

#[test]
fn ranks_that_share_the_tokens_of_samples_equal_the_single_process() {
    let context = |spec: PlanSpec, context| PlanSpec { parallel: ParallelSpec { context, ..spec.parallel }, ..spec };
    assert_equals_single_process(&context(spec(1, 1, 1, ScheduleName::None), 3));
    let cut = tensor(spec(2, 1, 2, ScheduleName::None), 2, true);
    assert_equals_single_process(&PlanSpec { state_sharding: StateSharding::Gradients, ..context(cut, 2) });
}

/// The same plan for a model with experts in every second block, which have a place for two of three choices.
fn with_experts(spec: PlanSpec, expert: u32) -> PlanSpec {
    let model = ModelSpec {
        family: Family::GptMoe,
        experts: Some(4),
        experts_per_token: Some(2),
        capacity_factor: Some(2.0 / 3.0),
        ..spec.model.clone()
    };
    PlanSpec { model, parallel: ParallelSpec { expert, ..spec.parallel }, ..spec }
}

#[test]
fn experts_with_limited_places_equal_the_single_process_however_they_are_cut() {
    let context = |spec: PlanSpec, context| PlanSpec { parallel: ParallelSpec { context, ..spec.parallel }, ..spec };
    let single = with_experts(spec(1, 1, 1, ScheduleName::None), 1);
    let replicas = spec(2, 1, 1, ScheduleName::None);
    let cuts = [
        with_experts(spec(4, 1, 1, ScheduleName::None), 2),
        with_experts(spec(4, 1, 2, ScheduleName::None), 4),
        with_experts(context(replicas.clone(), 2), 2),
        with_experts(tensor(replicas.clone(), 2, true), 2),
        with_experts(spec(2, 2, 2, ScheduleName::OneForwardOneBackward), 2),
        PlanSpec { state_sharding: StateSharding::Parameters, ..with_experts(replicas, 1) },
    ];
    for cut in cuts {
        for optimizer in [Optimizer::Sgd, Optimizer::Lamb] {
            let single = PlanSpec { optimizer, ..single.clone() };
            assert_equals(&single, &PlanSpec { optimizer, ..cut.clone() }, SINGLE_PRECISION);
        }
    }
}

#[test]
fn tokens_without_a_place_are_left_out() {
    let losses = |capacity_factor| {
        let cut = with_experts(spec(1, 1, 1, ScheduleName::None), 1);
        let model = ModelSpec { capacity_factor, ..cut.model.clone() };
        train_plan(PlanSpec { model, ..cut }, 2).0.steps.iter().map(|step| step.loss).collect::<Vec<_>>()
    };
    // As many places as tokens drop none, wherever they go.
    assert_eq!(losses(None), losses(Some(4.0)));
    assert_ne!(losses(None), losses(Some(0.5)));
}

#[test]
fn ranks_that_share_experts_go_on_from_the_checkpoint_of_one() {
    let (folder, one) = (text(), with_experts(spec(1, 1, 1, ScheduleName::None), 1));
    let go = |spec: PlanSpec, options: &RunOptions| run(&plan(spec), options, &|_| {}, &AtomicBool::new(false));
    let (straight, _) = train_plan(one.clone(), 6);
    go(one, &options(&folder, 3)).expect("the first half");
    let again = RunOptions { resume: true, ..options(&folder, 6) };
    let shared = with_experts(spec(2, 1, 1, ScheduleName::None), 2);
    let report = go(shared, &again).expect("the second half").report;
    for (one, shared) in straight.steps[3..].iter().zip(&report.steps) {
        assert!((one.loss / shared.loss - 1.0).abs() < SINGLE_PRECISION, "{} and {}", one.loss, shared.loss);
    }
}

#[test]
fn interleaved_stages_equal_the_single_process() {
    let stages = [(0, 1), (1, 2), (3, 2), (5, 1)].map(|(first, layers)| StageSpec { first, layers }).to_vec();
    let cut = |data, accumulation| PlanSpec {
        virtual_stages: 2,
        stages: stages.clone(),
        ..spec(data, 2, accumulation, ScheduleName::Interleaved)
    };
    assert_equals_single_process(&cut(1, 4));
    assert_equals_single_process(&cut(2, 2));
}

#[test]
fn what_replicas_share_out_makes_no_difference() {
    for state_sharding in [StateSharding::Optimizer, StateSharding::Gradients, StateSharding::Parameters] {
        for gradient_reduction in [GradientReduction::Step, GradientReduction::MicroBatch] {
            let cut = spec(2, 1, 2, ScheduleName::None);
            assert_equals_single_process(&PlanSpec { state_sharding, gradient_reduction, ..cut });
        }
        // Sharing out, stages and tensor parallelism together, in groups of two replicas of four.
        let cut = tensor(spec(4, 1, 1, ScheduleName::None), 2, true);
        assert_equals_single_process(&PlanSpec { state_sharding, sharding_ranks: Some(2), ..cut });
        let cut = spec(2, 2, 2, ScheduleName::OneForwardOneBackward);
        assert_equals_single_process(&PlanSpec { state_sharding, recompute: Recompute::Full, ..cut });
    }
}

#[test]
fn rules_with_norms_see_whole_parameters_however_they_are_cut() {
    for optimizer in [Optimizer::Lamb, Optimizer::Lars, Optimizer::Adam, Optimizer::Momentum] {
        let single = PlanSpec { optimizer, ..spec(1, 1, 1, ScheduleName::None) };
        let cut = tensor(spec(2, 2, 1, ScheduleName::GPipe), 2, false);
        let cut = PlanSpec { optimizer, state_sharding: StateSharding::Optimizer, ..cut };
        assert_equals(&single, &cut, SINGLE_PRECISION);
    }
}

/// Half precision rounds to three digits, and cuts round in other places. Products of ten bits of mantissa are near to
/// single precision, those of seven less so.
#[test]
fn mixed_precision_is_near_single_precision_however_it_is_cut() {
    let single = spec(1, 1, 1, ScheduleName::None);
    for (precision, tolerance) in [(Precision::Fp16Mixed, 2e-3), (Precision::Bf16Mixed, 1e-2)] {
        assert_equals(&single, &PlanSpec { precision, ..single.clone() }, tolerance);
        let cut = tensor(spec(2, 2, 2, ScheduleName::OneForwardOneBackward), 2, true);
        let cut = PlanSpec { precision, state_sharding: StateSharding::Parameters, recompute: Recompute::Full, ..cut };
        assert_equals(&single, &cut, tolerance);
    }
}

#[test]
fn gradients_that_travel_in_half_precision_are_near_those_that_do_not() {
    let single = spec(1, 1, 1, ScheduleName::None);
    let cut = PlanSpec { gradient_compression: GradientCompression::Fp16, ..spec(2, 1, 1, ScheduleName::None) };
    assert_equals(&single, &cut, 1e-3);
}

#[test]
fn clipping_limits_what_all_ranks_together_change() {
    let norm = |spec: PlanSpec, clip_norm| {
        let folder = text();
        let hyper_parameters = HyperParameters::of(Optimizer::Sgd);
        let options = RunOptions { hyper_parameters, clip_norm, ..options(&folder, 1) };
        let rate = options.learning_rate.at(1);
        let before = plan(PlanSpec { optimizer: Optimizer::Sgd, ..spec });
        run(&before, &options, &|_| {}, &AtomicBool::new(false)).expect("the run ends well");
        let after = state::read(&folder.path().join("checkpoint")).expect("a whole checkpoint").1.model;
        let network = network(&before).expect("it is built");
        let changes = network.keys().flat_map(|key| {
            let first = network.parameter(key).first_values(key, options.seed);
            let values = after[&network.parameter(key).name].values.clone();
            first.into_iter().zip(values).map(|(a, b)| f64::from(a - b) / rate)
        });
        changes.map(|change| change * change).sum::<f64>().sqrt()
    };
    let single = spec(1, 1, 1, ScheduleName::None);
    let whole = norm(single.clone(), None);
    assert!(whole > 0.5, "{whole}");
    for cut in [single, tensor(spec(2, 2, 1, ScheduleName::GPipe), 2, true)] {
        let cut = PlanSpec { state_sharding: StateSharding::Gradients, ..cut };
        assert!((norm(cut.clone(), None) / whole - 1.0).abs() < 1e-3);
        assert!((norm(cut, Some(0.25)) - 0.25).abs() < 1e-3);
    }
}

#[test]
fn a_step_without_a_usable_gradient_changes_nothing_and_too_many_end_the_run() {
    let folder = text();
    let mut options = options(&folder, 8);
    // Weights become infinite in the first step.
    options.learning_rate = LearningRate { peak: 1e38, warm_up: 0, ..options.learning_rate };
    let single = plan(PlanSpec { optimizer: Optimizer::Sgd, ..spec(1, 1, 1, ScheduleName::None) });
    let error = run(&single, &options, &|_| {}, &AtomicBool::new(false)).expect_err("no number is left");
    assert!(matches!(error, RunError::Diverged { skipped: 6, step: 7, .. }), "{error:?}");
}

#[test]
fn a_run_gives_the_same_bits_every_time() {
    let cut = spec(2, 2, 2, ScheduleName::OneForwardOneBackward);
    let ((first, first_state), (second, second_state)) = (train_plan(cut.clone(), 3), train_plan(cut, 3));
    let bits = |report: &RunReport| report.steps.iter().map(|step| step.loss.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&first), bits(&second));
    assert_eq!(first_state, second_state);
}

#[test]
fn the_loss_falls_and_the_seed_matters() {
    let (report, _) = train_plan(spec(1, 1, 1, ScheduleName::None), 30);
    assert!((report.loss.first - 256f64.ln()).abs() < 0.2, "{}", report.loss.first);
    assert!(report.loss.last < report.loss.first - 1.5, "{:?}", report.loss);
    let folder = text();
    let other = RunOptions { seed: 43, ..options(&folder, 1) };
    let single = plan(spec(1, 1, 1, ScheduleName::None));
    let outcome = run(&single, &other, &|_| {}, &AtomicBool::new(false)).expect("the run ends well");
    assert_ne!(outcome.report.loss.first.to_bits(), report.loss.first.to_bits());
}

#[test]
fn a_resumed_run_gives_the_bits_of_one_that_never_stopped() {
    let mut dropping = spec(2, 1, 2, ScheduleName::None);
    dropping.model.dropout = Some(DropoutSpec::Share(0.2));
    for cut in [spec(1, 1, 2, ScheduleName::None), spec(2, 2, 1, ScheduleName::GPipe), dropping] {
        let (straight, expected) = train_plan(cut.clone(), 6);
        let (folder, plan) = (text(), plan(cut));
        let go = |options: &RunOptions| run(&plan, options, &|_| {}, &AtomicBool::new(false));
        go(&options(&folder, 3)).expect("the first half");
        let again = RunOptions { resume: true, ..options(&folder, 6) };
        let report = go(&again).expect("the second half").report;
        assert_eq!(report.resumed_from, 3);
        let losses = |steps: &[StepReport]| steps.iter().map(|s| (s.step, s.loss.to_bits())).collect::<Vec<_>>();
        assert_eq!(losses(&report.steps), losses(&straight.steps[3..]));
        let (_, state) = state::read(&folder.path().join("checkpoint")).expect("a whole checkpoint");
        assert_eq!(state, expected);
        assert!(matches!(go(&again), Err(RunError::NothingToDo { done: 6, .. })));
    }
}

#[test]
fn a_checkpoint_of_another_training_is_refused() {
    let folder = text();
    let single = plan(spec(1, 1, 1, ScheduleName::None));
    let go = |plan: &Plan, options: &RunOptions| run(plan, options, &|_| {}, &AtomicBool::new(false));
    let again = RunOptions { resume: true, ..options(&folder, 4) };
    let missing = go(&single, &again).expect_err("nothing to resume from");
    assert!(matches!(missing, RunError::Checkpoint(CheckpointError::Missing { .. })), "{missing}");
    go(&single, &options(&folder, 2)).expect("the run ends well");
    let field = |result: Result<RunOutcome, RunError>| match result {
        Err(RunError::Checkpoint(CheckpointError::Mismatch { field, .. })) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(go(&single, &RunOptions { seed: 1, ..again.clone() })), "seed");
    let mut wider = spec(1, 1, 1, ScheduleName::None);
    wider.model.hidden = Some(32);
    assert_eq!(field(go(&plan(wider), &again)), "model");
    // Other heads in tensors of the same shapes would compute something else.
    let documented =
        RunOptions { plan_document: serde_json::json!({ "plan": { "model": { "heads": 8 } } }), ..again.clone() };
    let refused = go(&single, &documented).expect_err("another model").to_string();
    assert!(refused.contains("heads 8"), "{refused}");
    fs::write(folder.path().join("text/b.txt"), "more text").expect("a file");
    assert_eq!(field(go(&single, &again)), "data");
}

#[test]
fn the_same_model_in_other_words_is_resumed() {
    let folder = text();
    let plan_of = |attention, ffn| {
        let mut spec = spec(1, 1, 1, ScheduleName::None);
        (spec.model.attention, spec.model.ffn) = (attention, ffn);
        spec
    };
    let go = |spec: PlanSpec, resume, steps| {
        let plan_document = serde_json::json!({ "plan": &spec });
        let options = RunOptions { resume, plan_document, ..options(&folder, steps) };
        run(&plan(spec), &options, &|_| {}, &AtomicBool::new(false))
    };
    let whole = plan_of(None, None).model;
    go(plan_of(Some(AttentionKernel::Unfused), None), false, 2).expect("the run ends well");
    let ffn = Some(4 * whole.hidden.expect("a width"));
    let report = go(plan_of(Some(AttentionKernel::Flash), ffn), true, 3).expect("the model is the same").report;
    assert_eq!(report.resumed_from, 2);
}

#[test]
fn a_stopped_run_finishes_its_step_and_keeps_a_checkpoint() {
    let folder = text();
    let stop = AtomicBool::new(false);
    let seen = Mutex::new(Vec::new());
    let observer = |event: RunEvent| {
        let RunEvent::Step(report) = event else { return };
        let mut seen = seen.lock().expect("no panic");
        seen.push(report.step);
        stop.store(seen.len() == 2, Ordering::Relaxed);
    };
    let outcome = run(&plan(spec(2, 1, 1, ScheduleName::None)), &options(&folder, 50), &observer, &stop);
    let outcome = outcome.expect("an interrupted run is not a failure");
    assert_eq!(outcome.report.end, RunEnd::Interrupted);
    // The flag was raised after the second step, and is seen at the end of the third.
    assert_eq!(*seen.lock().expect("no panic"), [1, 2, 3]);
    let (path, state) = state::read(&folder.path().join("checkpoint")).expect("a whole checkpoint");
    assert_eq!((Some(path), state.step, state.position), (outcome.checkpoint, 3, 24));
}

#[test]
fn the_report_accounts_for_the_whole_step() {
    let (report, _) = train_plan(spec(1, 2, 4, ScheduleName::GPipe), 8);
    assert_eq!(report.ranks.len(), 2);
    assert!(report.phases.forward_s > 0.0 && report.phases.backward_s > 0.0 && report.phases.optimizer_s > 0.0);
    assert!(report.ranks[1].phases.communication_s > 0.0);
    let forwards = report.timeline.iter().filter(|s| s.stage == 1 && s.phase == Phase::Forward).count();
    assert_eq!(forwards, 4);
    assert!(report.timeline.iter().all(|span| span.end_s >= span.start_s));
    let text = serde_json::to_string_pretty(&report).expect("a report is JSON");
    assert_eq!(serde_json::from_str::<RunReport>(&text).expect("a report"), report);
}

/// The last stage is done with backward first. With a head of its own it exchanges nothing with the others before the
/// norm of all gradients.
#[test]
fn waiting_for_other_stages_is_no_part_of_the_update() {
    let mut pipeline = spec(1, 2, 2, ScheduleName::GPipe);
    (pipeline.model.family, pipeline.model.tied_head) = (Family::Llama, Some(false));
    let (report, _) = train_plan(pipeline, 4);
    for rank in 0..2 {
        let own: Vec<&Span> = report.timeline.iter().filter(|span| span.rank == rank).collect();
        let update = own.iter().find(|span| span.phase == Phase::Optimizer).expect("every rank updates its layers");
        let is_exchange = |span: &Span| matches!(span.phase, Phase::Wait | Phase::Communication);
        let within = |span: &Span| span.start_s >= update.start_s && span.end_s <= update.end_s;
        assert!(own.iter().any(|span| is_exchange(span) && within(span)), "rank {rank}: {own:?}");
    }
}

#[test]
fn models_of_every_kind_of_sample_train_alike_on_one_and_two_ranks() {
    let mlp = ModelSpec { inputs: Some(6), outputs: Some(4), ..ModelSpec::new("mlp", Family::Mlp) };
    let transformer = ModelSpec { heads: Some(2), ..ModelSpec::new("small", Family::Bert) };
    let head = Some(trainyard_models::HeadKind::MaskedLanguageModel);
    let bert = ModelSpec { vocab: Some(300), seq_len: Some(12), head, ..transformer.clone() };
    let (image_size, patch_size) = (Some(8), Some(4));
    let vit = ModelSpec { family: Family::Vit, image_size, patch_size, classes: Some(5), ..transformer };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for model in [mlp, bert, vit].map(|model| ModelSpec { layers: Some(2), hidden: Some(16), ..model }) {
        let layers = trainyard_models::Model::try_from(model.clone()).expect("a valid model").graph().len();
        let losses = |data: u32| -> Vec<f64> {
            let plain = PlanSpec::plain(model.clone(), ClusterSpec::of("local", 1), layers);
            let parallel = ParallelSpec { data, ..ParallelSpec::default() };
            let batch = BatchSpec { global: GLOBAL, micro: GLOBAL / u64::from(data), accumulation: 1 };
            let made_up = DataSource::new(trainyard_data::SYNTHETIC);
            let options = RunOptions { data: made_up, checkpoint: None, ..options(&folder, 5) };
            let plan = plan(PlanSpec { parallel, batch, ..plain });
            let report = run(&plan, &options, &|_| {}, &AtomicBool::new(false)).expect("the run ends well").report;
            assert!(report.loss.held_out.is_some_and(f64::is_finite));
            assert_eq!((report.data.kind.as_str(), report.data.training_samples), ("synthetic data", 19_000));
            report.steps.iter().map(|step| step.loss).collect()
        };
        let (single, double) = (losses(1), losses(2));
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 2e-5;
        assert!(single.iter().zip(&double).all(near), "{}: {single:?} and {double:?}", model.name);
    }
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_read() {
    let single = || spec(1, 1, 1, ScheduleName::None);
    let rounded = PlanSpec { precision: Precision::Tf32, ..single() };
    let scaled = PlanSpec { optimizer: Optimizer::RmsProp, ..single() };
    let recurrent = &trainyard_models::find("gnmt").expect("a model of the catalog").model;
    let recurrent = PlanSpec::plain(recurrent.spec(), ClusterSpec::of("local", 1), recurrent.graph().len());
    let mut narrow = spec(2, 1, 1, ScheduleName::None);
    narrow.parallel = ParallelSpec { tensor: 2, ..ParallelSpec::default() };
    narrow.model.ffn = Some(1);
    narrow.batch = BatchSpec { global: 8, micro: 8, accumulation: 1 };
    let nowhere = RunOptions { data: DataSource::new("nowhere"), ..options(&text(), 1) };
    let sharded =
        PlanSpec { state_sharding: StateSharding::Optimizer, ..with_experts(spec(2, 1, 1, ScheduleName::None), 2) };
    let mut grouped = with_experts(single(), 1);
    grouped.model.expert_group = Some(4);
    for (spec, field) in [
        (rounded, "precision"),
        (scaled, "optimizer"),
        (recurrent, "model.family"),
        (narrow, "parallel.tensor"),
        (sharded, "state_sharding"),
        (grouped, "model.expert_group"),
    ] {
        let error = run(&plan(spec), &nowhere, &|_| {}, &AtomicBool::new(false)).expect_err("refused");
        let RunError::Invalid(invalid) = &error else { panic!("{error:?}") };
        assert_eq!(invalid.field(), field);
    }
    let error = run(&plan(single()), &nowhere, &|_| {}, &AtomicBool::new(false)).expect_err("no such path");
    assert!(matches!(error, RunError::Data(DataError::Unreadable { .. })), "{error}");
    let zero = RunOptions { steps: 0, ..nowhere };
    let error = run(&plan(single()), &zero, &|_| {}, &AtomicBool::new(false)).expect_err("no steps");
    assert!(matches!(&error, RunError::Invalid(invalid) if invalid.field() == "steps"), "{error}");
}

#[test]
fn the_kernel_of_attention_is_the_same_whatever_the_model_names() {
    let losses = |kernel| {
        let folder = text();
        let mut spec = spec(1, 1, 1, ScheduleName::None);
        spec.model.attention = Some(kernel);
        let report = run(&plan(spec), &options(&folder, 3), &|_| {}, &AtomicBool::new(false)).expect("it runs").report;
        report.steps.iter().map(|step| step.loss).collect::<Vec<_>>()
    };
    assert_eq!(losses(AttentionKernel::Flash), losses(AttentionKernel::Unfused));
}

#[test]
fn a_rank_that_cannot_read_says_why() {
    let source = std::io::Error::other("the disk is gone");
    let unreadable = LoaderError::Data(DataError::Unreadable { path: "class/4.png".into(), source });
    let results = vec![Err(RankError::Failed(WorkerError::Samples(unreadable)))];
    let error = collect(results, 3).err().expect("a rank failed");
    assert_eq!(error.to_string(), "rank 3 failed: cannot read `class/4.png`: the disk is gone");
}

#[test]
fn an_observer_that_panics_fails_the_run_instead_of_hanging_it() {
    let folder = text();
    let observer = |_: RunEvent| panic!("no room to draw");
    let error =
        run(&plan(spec(1, 2, 2, ScheduleName::GPipe)), &options(&folder, 5), &observer, &AtomicBool::new(false));
    let error = error.expect_err("a rank panicked");
    assert!(error.to_string().contains("rank 0") && error.to_string().contains("no room to draw"), "{error}");
    assert!(!folder.path().join("checkpoint").exists());
}
