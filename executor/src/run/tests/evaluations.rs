//! Whole runs that are evaluated as they go on.

use super::*;

fn go(spec: PlanSpec, options: &RunOptions) -> RunReport {
    run(&plan(spec), options, &|_| {}, &AtomicBool::new(false)).expect("the run ends well").report
}

#[test]
fn evaluations_are_the_same_for_every_cut_and_leave_training_as_it_is() {
    let folder = text();
    let evaluation = Some(Evaluation { every: 3, samples: 7 });
    let evaluated = |spec: PlanSpec| go(spec, &RunOptions { evaluation, checkpoint: None, ..options(&folder, 8) });
    let plain = go(spec(1, 1, 1, ScheduleName::None), &RunOptions { checkpoint: None, ..options(&folder, 8) });
    let single = evaluated(spec(1, 1, 1, ScheduleName::None));
    let losses = |report: &RunReport| report.steps.iter().map(|step| step.loss).collect::<Vec<_>>();
    assert_eq!(losses(&plain), losses(&single));
    assert_eq!((plain.evaluations.len(), single.data.held_out_samples), (1, 7));
    let sharded = PlanSpec { state_sharding: StateSharding::Parameters, ..spec(2, 1, 2, ScheduleName::None) };
    for cut in [sharded, spec(2, 2, 1, ScheduleName::GPipe), spec(1, 3, 4, ScheduleName::OneForwardOneBackward)] {
        let report = evaluated(cut);
        let steps: Vec<u64> = report.evaluations.iter().map(|found| found.step).collect();
        assert_eq!(steps, [0, 3, 6, 8]);
        for (a, b) in single.evaluations.iter().zip(&report.evaluations) {
            assert!((a.loss / b.loss - 1.0).abs() < SINGLE_PRECISION, "{} and {}", a.loss, b.loss);
            assert_eq!((a.accuracy, b.accuracy), (None, None));
        }
    }
}

/// The samples of an evaluation are those of the data set, however long the training is, and the first values are evaluated where
/// that is cheap.
#[test]
fn trainings_of_any_length_are_evaluated_on_the_same_samples() {
    let folder = text();
    let evaluated = |steps| {
        let options = RunOptions { checkpoint: None, ..options(&folder, steps) };
        let report = go(spec(1, 1, 1, ScheduleName::None), &options);
        (report.data.held_out_samples, report.evaluations)
    };
    let (short, long) = (evaluated(1), evaluated(60));
    assert_eq!(short.0, long.0);
    let steps = |found: &[HeldOutReport]| found.iter().map(|found| found.step).collect::<Vec<_>>();
    assert_eq!((steps(&short.1), steps(&long.1)), (vec![1], vec![0, 60]));
    assert!(long.1[1].loss < long.1[0].loss);
}

/// Writes an array in NumPy's format.
fn write_array(path: &Path, kind: &str, shape: &str, bytes: &[u8]) {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape},), }}\n");
    let length = u16::try_from(header.len()).expect("a short header").to_le_bytes();
    fs::write(path, [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), bytes].concat()).expect("room");
}

/// Writes samples of three classes, of which each is one input that is not zero; the labels of some are those of the next
/// class.
fn write_samples(folder: &Path, samples: usize, is_wrong: fn(usize) -> bool) {
    fs::create_dir(folder).expect("a folder");
    let inputs = (0..samples).flat_map(|i| (0..3).map(move |j| f32::from(u8::from(i % 3 == j))));
    let inputs: Vec<u8> = inputs.flat_map(f32::to_le_bytes).collect();
    let labels = (0..samples).map(|i| ((i + usize::from(is_wrong(i))) % 3) as i64);
    let labels: Vec<u8> = labels.flat_map(i64::to_le_bytes).collect();
    write_array(&folder.join("inputs.npy"), "<f4", &format!("{samples}, 3"), &inputs);
    write_array(&folder.join("labels.npy"), "<i8", &samples.to_string(), &labels);
}

#[test]
fn accuracy_is_the_share_of_samples_whose_class_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = |name: &str| folder.path().join(name);
    write_samples(&place("data"), 96, |_| false);
    write_samples(&place("right"), 30, |_| false);
    write_samples(&place("wrong"), 30, |_| true);
    write_samples(&place("third"), 30, |i| i >= 10);
    let model = ModelSpec {
        layers: Some(1),
        hidden: Some(16),
        inputs: Some(3),
        outputs: Some(3),
        ..ModelSpec::new("mlp", Family::Mlp)
    };
    let accuracy = |data: u32, held_out: &str| {
        let plain = PlanSpec::plain(model.clone(), ClusterSpec::of("local", 1), 2);
        let parallel = ParallelSpec { data, ..ParallelSpec::default() };
        let batch = BatchSpec { global: GLOBAL, micro: GLOBAL / u64::from(data), accumulation: 1 };
        let source = DataSource { held_out: Some(place(held_out)), ..DataSource::new(place("data")) };
        let options = RunOptions { data: source, checkpoint: None, ..options(&folder, 40) };
        go(PlanSpec { parallel, batch, ..plain }, &options).loss.accuracy.expect("samples have classes")
    };
    for replicas in [1, 4] {
        let found = ["right", "wrong", "third"].map(|held_out| accuracy(replicas, held_out));
        assert!((found[0], found[1]) == (1.0, 0.0) && (found[2] - 1.0 / 3.0).abs() < 1e-6, "{found:?}");
    }
}

/// Writes images in the format of CIFAR-10: for each sample its class and 32 × 32 pixels of three colours.
fn write_images(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    let pixel = |sample: usize, at: usize| (sample * 37 + at * at * 11 + sample * at * 5).to_le_bytes()[0];
    for (name, samples) in [("data_batch_1.bin", 0..64), ("test_batch.bin", 64..80)] {
        let record =
            |sample: usize| std::iter::once((sample % 10) as u8).chain((0..3072).map(move |at| pixel(sample, at)));
        fs::write(folder.join(name), samples.flat_map(record).collect::<Vec<u8>>()).expect("room");
    }
}

/// Each replica has running means of its own samples, and a checkpoint keeps those of the first.
#[test]
fn replicas_are_evaluated_with_the_running_means_that_are_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("images");
    write_images(&data);
    let model = small_resnet(10);
    let layers = trainyard_models::Model::try_from(model.clone()).expect("a valid model").graph().len();
    let held_out = |steps: u64, resume: bool, checkpoint: Option<PathBuf>| {
        let parallel = ParallelSpec { data: 2, ..ParallelSpec::default() };
        let batch = BatchSpec { global: GLOBAL, micro: GLOBAL / 2, accumulation: 1 };
        let plain = PlanSpec::plain(model.clone(), ClusterSpec::of("local", 1), layers);
        let options = RunOptions { data: DataSource::new(data.clone()), resume, checkpoint, ..options(&folder, steps) };
        go(PlanSpec { parallel, batch, ..plain }, &options).loss.held_out.expect("samples are held out")
    };
    let place = Some(folder.path().join("checkpoint"));
    held_out(4, false, place.clone());
    assert_eq!(held_out(8, true, place).to_bits(), held_out(8, false, None).to_bits());
}
