//! What is written comes back, and whatever is not whole is told as such.

use crate::storage::checksum;
use crate::*;
use half::{bf16, f16};
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const SHAPE: [usize; 2] = [3, 1000];
const MOMENTS: &str = "first_moments";

fn specs() -> Vec<TensorSpec> {
    [("wte.weight", SHAPE.to_vec()), ("ln_f.bias", vec![7]), ("empty", vec![0])]
        .map(|(name, shape)| TensorSpec { name: name.into(), shape })
        .into()
}

fn value(step: u64, index: usize) -> f32 {
    (index as f32).mul_add(0.25, step as f32)
}

fn progress(step: u64) -> Progress {
    let loss_scaler = Some(LossScalerState { scale: 1024.0, steps_since_change: 3 });
    Progress {
        step,
        position: step * 8,
        updates: step - 1,
        skipped_steps: 1,
        skipped_in_a_row: 0,
        seed: u64::MAX,
        loss_scaler,
    }
}

fn manifest(step: u64) -> Manifest {
    Manifest::new(progress(step), "adamw".into(), DataEntry { bytes: 77, checksum: checksum(b"text") }, "burn")
}

/// A checkpoint whose values tell its step, in pieces of odd sizes.
fn write_step(folder: &Path, step: u64, open: Open<'_>) -> Result<PathBuf, CheckpointError> {
    let mut writer = Writer::begin(folder, open)?;
    let all: Vec<f32> = (0..specs().iter().map(TensorSpec::elements).sum()).map(|index| value(step, index)).collect();
    for name in [MODEL, MOMENTS] {
        let mut file = writer.tensors(name, &specs())?;
        for piece in all.chunks(613) {
            writer.put(&mut file, piece)?;
        }
        writer.add(file)?;
    }
    writer.finish(manifest(step), &serde_json::json!({ "name": "plan" })).map(|(path, _)| path)
}

#[test]
fn counters_stand_beside_tensors_and_are_none_of_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut writer = Writer::begin(folder.path(), &create).expect("room");
    let counters = [("a", 7), ("b", -1)].map(|(name, value)| Counter { name: name.into(), value });
    let all: Vec<f32> = (0..specs().iter().map(TensorSpec::elements).sum()).map(|index| value(1, index)).collect();
    let mut file = writer.tensors_and_counters(MODEL, &specs(), &counters).expect("room");
    writer.put(&mut file, &all).expect("room");
    writer.add(file).expect("room");
    let (path, _) = writer.finish(manifest(1), &serde_json::json!({})).expect("room");
    let checkpoint = Checkpoint::open(&path).expect("whole");
    assert_eq!(checkpoint.tensors(MODEL).len(), specs().len());
    checkpoint.expect(MODEL, &specs()).expect("counters are no tensors");
    let first = &specs()[0];
    let values = checkpoint.values(MODEL, &first.name, 0..first.elements()).expect("there");
    assert_eq!(values, all[..first.elements()]);
    let bytes = fs::read(path.join(format!("{MODEL}{TENSORS}"))).expect("readable");
    let read = safetensors::SafeTensors::deserialize(&bytes).expect("the crate reads it");
    for Counter { name, value } in counters {
        let view = read.tensor(&name).expect("there");
        assert_eq!(
            (view.dtype(), view.shape().len(), view.data()),
            (safetensors::Dtype::I64, 0, &value.to_le_bytes()[..])
        );
    }
}

fn step_of(path: &Path) -> u64 {
    Checkpoint::open(path).expect("whole").manifest().progress.step
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().expect("a plain name")).collect();
    names.sort();
    names
}

/// A disk with room for so many bytes.
struct FullDisk {
    left: Arc<AtomicUsize>,
}

impl Write for FullDisk {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let left = self.left.load(Ordering::Relaxed);
        let taken = buffer.len().min(left);
        self.left.store(left - taken, Ordering::Relaxed);
        if taken == 0 && !buffer.is_empty() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for FullDisk {
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn tensors_come_back_whole_and_by_ranges() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write_step(folder.path(), 5, &create).expect("room");
    let checkpoint = Checkpoint::open(folder.path()).expect("whole");
    assert_eq!(checkpoint.path(), path);
    assert_eq!(fs::read_to_string(path.join(PLAN)).expect("readable"), "{\n  \"name\": \"plan\"\n}\n");
    assert_eq!(checkpoint.manifest().progress, progress(5));
    assert_eq!((checkpoint.manifest().optimizer.as_str(), checkpoint.manifest().data.bytes), ("adamw", 77));
    assert_eq!(checkpoint.files().collect::<Vec<_>>(), [MOMENTS, MODEL]);
    for file in [MODEL, MOMENTS] {
        let whole = checkpoint.values(file, "wte.weight", 0..3000).expect("there");
        assert!(whole.iter().enumerate().all(|(index, found)| found.to_bits() == value(5, index).to_bits()));
        assert_eq!(checkpoint.values(file, "wte.weight", 999..1002).expect("there"), whole[999..1002]);
        assert_eq!(checkpoint.values(file, "ln_f.bias", 6..7).expect("there"), [value(5, 3006)]);
        assert!(checkpoint.values(file, "empty", 0..0).expect("there").is_empty());
        assert!(checkpoint.values(file, "wpe.weight", 0..1).is_err());
    }
    checkpoint.expect(MODEL, &specs()).expect("the same tensors");
}

#[test]
fn the_reference_implementation_reads_what_is_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write_step(folder.path(), 2, &create).expect("room");
    let bytes = fs::read(path.join("model.safetensors")).expect("readable");
    let tensors = SafeTensors::deserialize(&bytes).expect("whole");
    let bias = tensors.tensor("ln_f.bias").expect("there");
    assert_eq!((bias.shape(), bias.dtype()), (&[7][..], safetensors::Dtype::F32));
    assert_eq!(bias.data()[..4], value(2, 3000).to_le_bytes());
    assert_eq!(tensors.tensor("wte.weight").expect("there").shape(), SHAPE);
}

#[test]
fn half_precision_is_widened_and_other_types_are_refused() {
    let values = [1.0f32, -0.5, 3.140_625];
    let wide: Vec<u8> = values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect();
    let brain: Vec<u8> = values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect();
    let view = |dtype, bytes| safetensors::tensor::TensorView::new(dtype, vec![3], bytes).expect("six bytes");
    let tensors = BTreeMap::from([
        ("a", view(safetensors::Dtype::F16, &wide)),
        ("b", view(safetensors::Dtype::BF16, &brain)),
        ("c", view(safetensors::Dtype::I16, &wide)),
    ]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("weights.safetensors");
    fs::write(&path, safetensors::serialize(tensors, None).expect("three tensors")).expect("room");
    let index = TensorIndex::read(&path).expect("whole");
    for name in ["a", "b"] {
        assert_eq!(index.values(&path, name, 0..3).expect("there"), values, "{name}");
        assert_eq!(index.values(&path, name, 2..3).expect("there"), values[2..], "{name}");
    }
    assert!(format!("{:?}", index.values(&path, "c", 0..3)).contains("I16"));
}

#[test]
fn the_newest_few_are_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // A later run may have done fewer steps.
    for step in [10, 20, 3] {
        let newest = write_step(folder.path(), step, &create).expect("room");
        Writer::prune(folder.path(), &newest, 2).expect("removable");
    }
    assert_eq!(names(folder.path()), ["checkpoint-2", "checkpoint-3"]);
    assert_eq!(step_of(folder.path()), 3);
    assert_eq!(step_of(&folder.path().join("checkpoint-2")), 20);
    // The newest is never removed, whatever is asked.
    Writer::prune(folder.path(), &folder.path().join("checkpoint-3"), 0).expect("removable");
    assert_eq!(names(folder.path()), ["checkpoint-3"]);
}

#[test]
fn what_is_not_of_this_training_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // transformers names its checkpoints so, after steps.
    fs::create_dir(folder.path().join("checkpoint-1")).expect("room");
    fs::write(folder.path().join("checkpoint-1/model.safetensors"), "weights").expect("room");
    fs::write(folder.path().join("checkpoint-2"), "a file").expect("room");
    fs::create_dir(folder.path().join("checkpoint-18446744073709551615")).expect("room");
    let mut writer = Writer::begin(folder.path(), &create).expect("room");
    writer.document("note.txt", b"of another seed").expect("room");
    let other = Progress { seed: 1, ..progress(2) };
    let other = Manifest { progress: other, ..manifest(2) };
    writer.finish(other, &serde_json::json!({})).expect("room");
    assert!(holds_some(folder.path()).expect("readable"));
    for step in [3, 4] {
        let newest = write_step(folder.path(), step, &create).expect("room");
        Writer::prune(folder.path(), &newest, 1).expect("removable");
    }
    let left = ["checkpoint-1", "checkpoint-18446744073709551615", "checkpoint-2", "checkpoint-3", "checkpoint-5"];
    assert_eq!(names(folder.path()), left);
}

#[test]
fn a_place_that_nothing_can_be_written_to_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    fs::write(&file, "mine").expect("room");
    let error = Hold::take(&file).expect_err("a file stands there");
    assert!(matches!(error, CheckpointError::Place { .. }) && error.is_input() && error.hint().is_some());
    drop(Hold::take(&folder.path().join("new")).expect("room"));
    assert_eq!(names(folder.path()), ["file"]);
}

#[test]
fn a_folder_has_one_training_at_a_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("new");
    let hold = Hold::take(&place).expect("room");
    let error = Hold::take(&place).expect_err("held");
    assert!(matches!(error, CheckpointError::Busy { .. }) && error.is_input() && error.hint().is_some());
    write_step(&place, 1, &create).expect("room");
    drop(hold);
    drop(Hold::take(&place).expect("nobody holds it any more"));
    assert_eq!(names(&place), ["checkpoint-1"]);
}

#[test]
fn damaged_checkpoints_do_not_count_as_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for step in 1..=4 {
        write_step(folder.path(), step, &create).expect("room");
    }
    for number in [2, 4] {
        fs::remove_file(folder.path().join(format!("checkpoint-{number}/model.safetensors"))).expect("there");
    }
    let newest = folder.path().join("checkpoint-4");
    Writer::prune(folder.path(), &newest, 2).expect("removable");
    assert_eq!(names(folder.path()).len(), 4);
    Writer::prune(folder.path(), &newest, 1).expect("removable");
    assert_eq!(names(folder.path()), ["checkpoint-3", "checkpoint-4"]);
}

#[test]
fn a_full_disk_leaves_the_last_checkpoint_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_step(folder.path(), 1, &create).expect("room");
    // In the header, the values, the second file, the plan, the manifest.
    let whole: u64 = Checkpoint::open(folder.path()).expect("whole").manifest().files.iter().map(|f| f.bytes).sum();
    for room in [0, 100, 5000, 12_500, 20_000, whole as usize - 10, whole as usize + 20] {
        let left = Arc::new(AtomicUsize::new(room));
        let open = |_: &Path| -> io::Result<Box<dyn Storage>> { Ok(Box::new(FullDisk { left: left.clone() })) };
        let error = write_step(folder.path(), 2, &open).expect_err("no room");
        let CheckpointError::Write { path, source, .. } = &error else { panic!("{error:?}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("space")) && !error.is_input());
        assert_eq!(step_of(folder.path()), 1);
        assert_eq!(names(folder.path()), ["checkpoint-1"]);
    }
}

#[test]
fn what_a_killed_run_left_unfinished_is_neither_read_nor_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write_step(folder.path(), 1, &create).expect("room");
    let left = folder.path().join(".checkpoint-2.part");
    fs::create_dir(&left).expect("room");
    fs::copy(path.join("model.safetensors"), left.join("model.safetensors")).expect("room");
    assert_eq!(step_of(folder.path()), 1);
    write_step(folder.path(), 2, &create).expect("room");
    assert_eq!(names(folder.path()), ["checkpoint-1", "checkpoint-2"]);
}

#[test]
fn an_abandoned_checkpoint_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let writer = Writer::begin(folder.path(), &create).expect("room");
    let file = writer.tensors(MODEL, &specs()).expect("room");
    drop((file, writer));
    assert!(names(folder.path()).is_empty());
}

#[test]
fn damage_anywhere_is_told_with_the_whole_one_before() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_step(folder.path(), 1, &create).expect("room");
    let path = write_step(folder.path(), 2, &create).expect("room");
    for name in names(&path) {
        let file = path.join(&name);
        let good = fs::read(&file).expect("readable");
        let half = good.len() / 2;
        let mut flipped = good.clone();
        flipped[half] ^= 1;
        for bad in [Some(flipped), Some(good[..half].to_vec()), Some(Vec::new()), None] {
            match &bad {
                Some(bytes) => fs::write(&file, bytes).expect("room"),
                None => fs::remove_file(&file).expect("there"),
            }
            let error = Checkpoint::open(folder.path()).expect_err("damaged");
            let CheckpointError::Damaged { whole, .. } = &error else { panic!("{name}: {error:?}") };
            assert_eq!(whole.as_ref().map(|(_, step)| *step), Some(1));
            assert!(error.to_string().contains("damaged") && error.is_input(), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("checkpoint-1")), "{error:?}");
            // What the hint says can be done.
            assert_eq!(step_of(&folder.path().join("checkpoint-1")), 1);
            fs::write(&file, &good).expect("room");
        }
    }
    assert_eq!(step_of(folder.path()), 2);
}

#[test]
fn absence_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert!(matches!(Checkpoint::open(folder.path()), Err(CheckpointError::Missing { .. })));
    let nowhere = Checkpoint::open(&folder.path().join("none")).expect_err("nothing there");
    assert!(matches!(nowhere, CheckpointError::Missing { .. }) && nowhere.is_input());
}

#[test]
fn other_versions_and_other_programs_are_told_apart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write_step(folder.path(), 1, &create).expect("room");
    let document = fs::read_to_string(path.join(MANIFEST)).expect("readable");
    let open = |schema: &str| {
        fs::write(path.join(MANIFEST), document.replace(CHECKPOINT_SCHEMA, schema)).expect("room");
        Checkpoint::open(folder.path()).expect_err("another schema")
    };
    let newer = open("trainyard.checkpoint/3");
    assert!(matches!(newer, CheckpointError::Newer { .. }), "{newer:?}");
    assert!(newer.to_string().contains("checkpoint/3") && newer.to_string().contains(CHECKPOINT_SCHEMA));
    assert!(matches!(open("trainyard.checkpoint/1"), CheckpointError::Older { .. }));
    assert!(matches!(open("pytorch"), CheckpointError::Foreign { .. }));
    fs::write(path.join(MANIFEST), "weights").expect("room");
    assert!(matches!(Checkpoint::open(folder.path()), Err(CheckpointError::Damaged { .. })));
}

#[test]
fn tensors_of_another_model_are_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_step(folder.path(), 1, &create).expect("room");
    let checkpoint = Checkpoint::open(folder.path()).expect("whole");
    let told = |expected: &[TensorSpec]| checkpoint.expect(MODEL, expected).expect_err("another model").to_string();
    let mut wider = specs();
    wider[0].shape = vec![3, 2000];
    assert!(told(&wider).contains("[3, 1000]") && told(&wider).contains("`wte.weight`"), "{}", told(&wider));
    assert!(told(&specs()[..2]).contains("`empty`"));
    let more = [specs(), vec![TensorSpec { name: "h.0".into(), shape: vec![1] }]].concat();
    assert!(told(&more).contains("`h.0`"));
}

#[test]
fn new_checkpoints_go_beside_the_one_that_was_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write_step(folder.path(), 1, &create).expect("room");
    assert_eq!(home(&path), folder.path());
    assert_eq!(home(folder.path()), folder.path());
    // A folder of checkpoints may be called like one.
    let like = folder.path().join("checkpoint-9");
    write_step(&like, 1, &create).expect("room");
    assert_eq!(home(&like), like);
    assert_eq!(home(Path::new("not/there")), Path::new("not/there"));
}

#[test]
fn broken_files_of_tensors_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write_step(folder.path(), 1, &create).expect("room").join("model.safetensors");
    let good = fs::read(&path).expect("readable");
    let mut bad: Vec<Vec<u8>> = [0, 7, 20, good.len() - 1].map(|end| good[..end].to_vec()).into();
    bad.push([&u64::MAX.to_le_bytes()[..], &good[8..]].concat());
    bad.push([&good[..8], &good[9..], b" "].concat());
    bad.push([&good[..], b"more"].concat());
    for bytes in bad {
        fs::write(&path, bytes).expect("room");
        assert!(TensorIndex::read(&path).is_err());
    }
}

/// A manifest whose checksum is right whatever it says, as somebody who wants to do harm would write it.
#[test]
fn manifests_that_no_training_writes_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = write_step(folder.path(), 2, &create).expect("room");
    let good = Checkpoint::open(&path).expect("whole").manifest().clone();
    let told = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = good.clone();
        change(&mut manifest);
        fs::write(path.join(MANIFEST), manifest.to_json()).expect("room");
        Checkpoint::open(&path).expect_err("made up").to_string()
    };
    for name in ["../plan.json", "/etc/hostname", "", ".", "folder/plan.json"] {
        let problem = told(&|manifest| manifest.files[0].name = name.into());
        assert!(problem.contains(&format!("`{name}`, which is no file beside it")), "{problem}");
    }
    let twice = told(&|manifest| manifest.files.push(manifest.files[0].clone()));
    assert!(twice.contains("`model.safetensors` twice"), "{twice}");
    let steps = told(&|manifest| manifest.progress.step = u64::MAX);
    assert!(steps.contains("do not make 18446744073709551615 steps"), "{steps}");
    let far = told(&|manifest| manifest.progress.position = u64::MAX);
    assert!(far.contains("position 18446744073709551615 is larger"), "{far}");
    let scale = told(&|manifest| {
        manifest.progress.loss_scaler = Some(LossScalerState { scale: 0.0, steps_since_change: 0 });
    });
    assert!(scale.contains("loss scale is 0"), "{scale}");
    fs::write(path.join(MANIFEST), good.to_json()).expect("room");
    assert_eq!(step_of(&path), 2);
}
