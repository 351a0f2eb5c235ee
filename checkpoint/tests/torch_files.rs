//! Files that PyTorch saved are read as they were meant, or refused with what is wrong. `torch/make.py` wrote them.

use std::path::{Path, PathBuf};
use trainyard_checkpoint::{IndexError, TensorIndex};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch").join(name)
}

fn problem(name: &str) -> String {
    match TensorIndex::read(&file(name)) {
        Err(IndexError::Damaged(problem)) => problem,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn tensors_have_the_values_that_were_saved() {
    for name in ["model.bin", "training.pt"] {
        let index = TensorIndex::read(&file(name)).expect("weights");
        let values = |tensor: &str| {
            let length = index.shape(tensor).expect("it is there").iter().product();
            index.values(&file(name), tensor, 0..length).expect("numbers")
        };
        assert_eq!(index.shape("0.weight"), Some(&[2, 3][..]));
        assert_eq!(values("0.weight"), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
        assert_eq!(index.values(&file(name), "0.weight", 4..6).expect("a part"), [1.0, 1.25]);
        assert_eq!(values("half"), [1.5, -2.0]);
        assert_eq!(values("brain"), [0.5, 3.0]);
        // A view of another tensor's storage.
        assert_eq!(values("row"), [0.75, 1.0, 1.25]);
        assert_eq!(values("1.running_var"), [1.0, 1.0]);
        // Counters are there, but no weights.
        assert_eq!(index.shape("1.num_batches_tracked"), Some(&[][..]));
        assert!(index.values(&file(name), "1.num_batches_tracked", 0..1).is_err());
        assert_eq!(index.tensors().count(), 10);
    }
}

#[test]
fn anything_but_contiguous_tensors_is_refused_by_name() {
    let transposed = problem("transposed.pt");
    assert!(transposed.contains("`w`") && transposed.contains(".contiguous()"), "{transposed}");
    let module = problem("module.pt");
    assert!(module.contains("torch.nn.modules.container.Sequential"), "{module}");
    assert!(problem("old.pt").contains("before 1.6"));
}

#[test]
fn damage_is_an_error_and_nothing_worse() {
    let whole = std::fs::read(file("model.bin")).expect("a file");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("damaged.bin");
    for step in 0..400 {
        let mut bytes = whole.clone();
        let place = step * 7919 % bytes.len();
        if step % 4 == 0 {
            bytes.truncate(place);
        } else {
            bytes[place] ^= 1 << (step % 8);
        }
        std::fs::write(&path, bytes).expect("room");
        if let Ok(index) = TensorIndex::read(&path) {
            for (name, _, shape) in index.tensors() {
                let _ = index.values(&path, name, 0..shape.iter().product());
            }
        }
    }
}
