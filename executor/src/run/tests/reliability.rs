//! Whatever ends a run, the last checkpoint is whole, and going on from it is as if nothing had happened.

use super::*;
use std::io;
use trainyard_checkpoint::{MODEL, Manifest, Storage, TensorSpec};

fn go(plan: &Plan, options: &RunOptions) -> Result<RunOutcome, RunError> {
    run(plan, options, &|_| {}, &AtomicBool::new(false))
}

fn losses(report: &RunReport) -> Vec<(u64, u64)> {
    report.steps.iter().map(|step| (step.step, step.loss.to_bits())).collect()
}

fn place(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("checkpoint")
}

/// Steps of the checkpoints in a folder, and where they are.
fn kept(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut all: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path()).collect();
    all.sort();
    all.into_iter().map(|path| (path.clone(), state::read(&path).expect("whole").1.step)).collect()
}

/// The interrupting error and the steps of the checkpoint that is left.
fn ended_early(result: Result<RunOutcome, RunError>) -> (RunError, u64) {
    match result {
        Err(RunError::EndedEarly { source, checkpoint, step }) => {
            assert_eq!(state::read(&checkpoint).expect("whole").1.step, step);
            (*source, step)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn checkpoints_come_every_so_many_steps_and_the_newest_few_stay() {
    let folder = text();
    let options = RunOptions { checkpoint_every: Some(3), ..options(&folder, 7) };
    let outcome = go(&plan(spec(2, 1, 1, ScheduleName::None)), &options).expect("the run ends well");
    assert_eq!(outcome.report.checkpoints.iter().map(|report| report.step).collect::<Vec<_>>(), [3, 6, 7]);
    assert!(outcome.report.checkpoints.iter().all(|report| report.bytes > 10_000 && report.seconds > 0.0));
    let kept = kept(&place(&folder));
    assert_eq!(kept.iter().map(|(_, step)| *step).collect::<Vec<_>>(), [6, 7]);
    assert_eq!(outcome.checkpoint.as_ref(), kept.last().map(|(path, _)| path));
    // An older one may be named; new ones go beside it.
    let again = RunOptions {
        resume: true,
        steps: 9,
        checkpoint: Some(kept[0].0.clone()),
        checkpoint_every: Some(1),
        ..options
    };
    let report = go(&plan(spec(2, 1, 1, ScheduleName::None)), &again).expect("the run ends well").report;
    assert_eq!((report.resumed_from, losses(&report)[0]), (6, losses(&outcome.report)[6]));
    assert_eq!(self::kept(&place(&folder)).iter().map(|(_, step)| *step).collect::<Vec<_>>(), [8, 9]);
}

/// Trains three steps under one plan and three under another; all six must be those of the first plan alone.
fn goes_on_under(first: PlanSpec, second: PlanSpec) {
    let (straight, expected) = train_plan(first.clone(), 6);
    let folder = text();
    go(&plan(first), &options(&folder, 3)).expect("the first half");
    let again = RunOptions { resume: true, ..options(&folder, 6) };
    let report = go(&plan(second), &again).expect("the second half").report;
    assert_eq!(report.resumed_from, 3);
    for (a, b) in straight.steps[3..].iter().zip(&report.steps) {
        assert!((a.loss / b.loss - 1.0).abs() < 1e-5, "step {}: {} and {}", a.step, a.loss, b.loss);
    }
    let state = state::read(&place(&folder)).expect("whole").1;
    for (expected, state) in [(&expected.model, &state.model), (&expected.first_moments, &state.first_moments)] {
        assert!(largest_difference(expected, state) < 2e-3);
    }
}

#[test]
fn a_training_goes_on_under_another_plan() {
    let data_and_stages = || spec(2, 2, 1, ScheduleName::GPipe);
    let data = || spec(4, 1, 1, ScheduleName::None);
    let single = || spec(1, 1, 1, ScheduleName::None);
    goes_on_under(data_and_stages(), data());
    goes_on_under(tensor(single(), 2, true), single());
    goes_on_under(single(), tensor(spec(2, 2, 2, ScheduleName::OneForwardOneBackward), 2, false));
}

#[test]
fn state_that_was_shared_out_is_shared_out_anew() {
    let shared = |data, state_sharding| PlanSpec { state_sharding, ..spec(data, 1, 1, ScheduleName::None) };
    goes_on_under(shared(4, StateSharding::Parameters), shared(2, StateSharding::Optimizer));
    goes_on_under(shared(2, StateSharding::Gradients), spec(1, 2, 2, ScheduleName::GPipe));
    goes_on_under(tensor(shared(2, StateSharding::Parameters), 2, true), shared(4, StateSharding::Parameters));
}

#[test]
fn what_optimizers_and_loss_scales_remember_comes_back_to_the_bit() {
    for (optimizer, precision) in [
        (Optimizer::Momentum, Precision::Fp32),
        (Optimizer::Lamb, Precision::Fp32),
        (Optimizer::AdamW, Precision::Fp16Mixed),
        (Optimizer::Sgd, Precision::Bf16Mixed),
    ] {
        let cut = PlanSpec {
            optimizer,
            precision,
            state_sharding: StateSharding::Optimizer,
            ..spec(2, 1, 1, ScheduleName::None)
        };
        let (straight, expected) = train_plan(cut.clone(), 6);
        let folder = text();
        go(&plan(cut.clone()), &options(&folder, 3)).expect("the first half");
        let again = RunOptions { resume: true, ..options(&folder, 6) };
        let report = go(&plan(cut), &again).expect("the second half").report;
        assert_eq!(losses(&report), losses(&straight)[3..], "{optimizer} {precision}");
        assert_eq!(state::read(&place(&folder)).expect("whole").1, expected);
    }
}

#[test]
fn a_killed_rank_leaves_the_last_checkpoint_to_go_on_from() {
    let cut = spec(1, 2, 2, ScheduleName::GPipe);
    let (straight, _) = train_plan(cut.clone(), 8);
    let folder = text();
    let options = RunOptions { checkpoint_every: Some(2), ..options(&folder, 8) };
    let dies = |event: RunEvent| assert!(!matches!(event, RunEvent::Step(report) if report.step == 5), "killed");
    let (error, step) = ended_early(run(&plan(cut.clone()), &options, &dies, &AtomicBool::new(false)));
    assert!(matches!(&error, RunError::Rank { rank: 0, reason } if reason.contains("killed")), "{error}");
    assert_eq!(step, 4);
    let report = go(&plan(cut), &RunOptions { resume: true, ..options }).expect("it goes on").report;
    assert_eq!(losses(&report), losses(&straight)[4..]);
}

#[test]
fn a_resumed_run_that_fails_at_once_still_has_its_checkpoint() {
    let folder = text();
    let cut = plan(spec(1, 1, 1, ScheduleName::None));
    go(&cut, &options(&folder, 2)).expect("the first half");
    let again = RunOptions { resume: true, ..options(&folder, 4) };
    let (_, step) = ended_early(run(&cut, &again, &|_| panic!("killed"), &AtomicBool::new(false)));
    assert_eq!(step, 2);
}

#[test]
fn losses_that_are_no_numbers_are_skipped_and_too_many_end_the_run() {
    let folder = text();
    let cut = plan(spec(2, 1, 1, ScheduleName::None));
    let steep = TrainingSpec { learning_rate: Some(1e38), ..TrainingSpec::default() };
    let options = RunOptions {
        learning_rate: LearningRate::of(&steep, 50),
        skips_max: 2,
        checkpoint: None,
        ..options(&folder, 50)
    };
    let seen = Mutex::new(Vec::new());
    let observer = |event: RunEvent| {
        let RunEvent::Step(report) = event else { return };
        seen.lock().expect("no panic").push(report.skipped);
    };
    let error = run(&cut, &options, &observer, &AtomicBool::new(false)).expect_err("hopeless");
    let RunError::Diverged { step, skipped: 3, loss } = error else { panic!("{error:?}") };
    assert!(!loss.is_finite());
    let seen = seen.into_inner().expect("no panic");
    // The steps before the last three updated the parameters.
    let (before, after) = seen.split_at(seen.len() - 3);
    assert!(seen.len() as u64 == step && after.iter().all(|skipped| *skipped) && !before[before.len() - 1]);
    // With a checkpoint there is something to go on from, at a lower rate.
    let (error, whole) = ended_early(go(
        &cut,
        &RunOptions { checkpoint: Some(place(&folder)), checkpoint_every: Some(1), keep: 9, ..options },
    ));
    assert!(matches!(error, RunError::Diverged { .. }) && whole + 1 == step, "{error} {whole}");
}

/// A step that is left out leaves running means of activations as they were, not only weights.
#[test]
fn running_means_forget_a_step_that_is_left_out() {
    let folder = text();
    let model = small_resnet(5);
    let layers = trainyard_models::Model::try_from(model.clone()).expect("a valid model").graph().len();
    let batch = BatchSpec { global: GLOBAL, micro: GLOBAL / 2, accumulation: 2 };
    let cut = plan(PlanSpec { batch, ..PlanSpec::plain(model, ClusterSpec::of("local", 1), layers) });
    let steep = TrainingSpec { learning_rate: Some(1e38), ..TrainingSpec::default() };
    let options = RunOptions {
        data: DataSource::new(trainyard_data::SYNTHETIC),
        learning_rate: LearningRate::of(&steep, 4),
        ..options(&folder, 4)
    };
    let report = go(&cut, &options).expect("skipped steps are forgiven").report;
    assert!(report.skipped_steps > 0);
    let (_, state) = state::read(&place(&folder)).expect("a whole checkpoint");
    let means: Vec<_> = state.model.iter().filter(|(name, _)| name.contains("running_")).collect();
    assert!(!means.is_empty());
    for (name, mean) in means {
        assert!(mean.values.iter().all(|value| value.is_finite()), "{name}");
    }
}

#[test]
fn a_few_skipped_steps_are_counted_and_forgiven() {
    let folder = text();
    let cut = plan(PlanSpec { precision: Precision::Fp16Mixed, ..spec(1, 1, 1, ScheduleName::None) });
    let report = go(&cut, &options(&folder, 4)).expect("the run ends well").report;
    assert_eq!(report.skipped_steps, report.steps.iter().filter(|step| step.skipped).count() as u64);
    let text = serde_json::to_string(&StepReport { loss: f64::NAN, ..report.steps[0] }).expect("JSON");
    let read: StepReport = serde_json::from_str(&text).expect("what was written can be read");
    assert!(text.contains("null") && read.loss.is_nan());
}

/// A disk that has room for so many files.
struct SmallDisk<'a> {
    room: &'a Mutex<usize>,
}

impl SmallDisk<'_> {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Storage>> {
        let mut room = self.room.lock().expect("no panic");
        *room = room.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        checkpoint::create(path)
    }
}

#[test]
fn a_full_disk_ends_the_run_with_the_last_checkpoint_whole() {
    // Weights, two moments, configuration, plan and manifest are one checkpoint.
    for (room, left) in [(5, None), (6, Some(2)), (11, Some(2)), (12, Some(4))] {
        let folder = text();
        let options = RunOptions { checkpoint_every: Some(2), ..options(&folder, 8) };
        let room = Mutex::new(room);
        let disk = SmallDisk { room: &room };
        let open = |path: &Path| disk.open(path);
        let cut = plan(spec(2, 1, 1, ScheduleName::None));
        let world = World::threads(2);
        let result = run_on(&world, &cut, &options, &|_| {}, &AtomicBool::new(false), &open);
        let result = result.map(|outcome| outcome.expect("the first rank lives in this process"));
        let error = match left {
            Some(step) => {
                let (error, whole) = ended_early(result);
                assert_eq!(whole, step);
                error
            }
            None => result.expect_err("no room"),
        };
        assert!(error.hint().is_some_and(|hint| hint.contains("space")), "{error:?}");
        let RunError::Checkpoint(CheckpointError::Write { source, .. }) = error else { panic!("{error:?}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        // Without a checkpoint there is no folder either.
        let names = fs::read_dir(place(&folder)).into_iter().flatten();
        let mut names = names.map(|entry| entry.expect("readable").file_name());
        assert!(names.all(|name| !name.to_string_lossy().starts_with('.')), "nothing half done is left");
    }
}

#[test]
fn a_folder_that_another_run_writes_to_is_left_alone() {
    let folder = text();
    let hold = checkpoint::Hold::take(&place(&folder)).expect("room");
    let cut = plan(spec(1, 1, 1, ScheduleName::None));
    let error = go(&cut, &options(&folder, 1)).expect_err("refused");
    assert!(matches!(error, RunError::Checkpoint(CheckpointError::Busy { .. })) && error.is_input(), "{error:?}");
    drop(hold);
    go(&cut, &options(&folder, 1)).expect("nobody is there any more");
}

#[test]
fn what_cannot_fit_is_refused_before_anything_is_read() {
    let mut large = spec(2, 1, 1, ScheduleName::None);
    large.model.hidden = Some(1 << 17);
    let folder = text();
    let nowhere = RunOptions { data: DataSource::new("nowhere"), ..options(&folder, 1) };
    let error = go(&plan(large), &nowhere).expect_err("refused");
    let RunError::Memory(shortage) = &error else { panic!("{error:?}") };
    assert!(shortage.needed > shortage.available && error.is_input() && error.hint().is_some(), "{error}");
}

#[test]
fn a_checkpoint_of_another_optimizer_is_refused() {
    let folder = text();
    let of = |optimizer| plan(PlanSpec { optimizer, ..spec(1, 1, 1, ScheduleName::None) });
    go(&of(Optimizer::AdamW), &options(&folder, 1)).expect("the run ends well");
    let again = RunOptions { resume: true, ..options(&folder, 2) };
    let error = go(&of(Optimizer::Sgd), &again).expect_err("refused");
    assert!(error.is_input() && error.to_string().contains("optimizer adamw"), "{error}");
}

/// Weights alone are a checkpoint in form, but no training goes on from them.
#[test]
fn a_checkpoint_without_what_the_optimizer_remembers_is_refused() {
    let folder = text();
    let cut = plan(spec(1, 1, 1, ScheduleName::None));
    go(&cut, &options(&folder, 2)).expect("the run ends well");
    let whole = Checkpoint::open(&place(&folder)).expect("whole");
    let tensors = whole.tensors(MODEL);
    for scalars in [false, true] {
        let mut writer = Writer::begin(&place(&folder), &checkpoint::create).expect("room");
        let mut model = writer.tensors(MODEL, &tensors).expect("room");
        for tensor in &tensors {
            let values = whole.values(MODEL, &tensor.name, 0..tensor.elements()).expect("whole");
            writer.put(&mut model, &values).expect("room");
        }
        writer.add(model).expect("room");
        if scalars {
            for name in ["first_moments", "second_moments"] {
                let short: Vec<_> =
                    tensors.iter().map(|tensor| TensorSpec { shape: vec![1], ..tensor.clone() }).collect();
                let mut moments = writer.tensors(name, &short).expect("room");
                writer.put(&mut moments, &vec![0.0; short.len()]).expect("room");
                writer.add(moments).expect("room");
            }
        }
        let manifest = Manifest { files: Vec::new(), ..whole.manifest().clone() };
        writer.finish(manifest, &serde_json::json!({})).expect("room");
        let error = go(&cut, &RunOptions { resume: true, ..options(&folder, 4) }).expect_err("refused");
        assert!(error.is_input(), "{error:?}");
        match error {
            RunError::Checkpoint(CheckpointError::Damaged { path, .. }) => {
                assert!(!scalars && path.ends_with("first_moments.safetensors"), "{path:?}");
            }
            RunError::Checkpoint(CheckpointError::Mismatch { found, .. }) => assert!(scalars && found.contains("[1]")),
            other => panic!("{other:?}"),
        }
    }
}
