use super::*;
use crate::batch::{Inputs, MicroBatch};
use npyz::WriterBuilder;
use safetensors::tensor::TensorView;
use std::fs;

const VECTOR: SampleKind = SampleKind::Vector { width: 3, classes: 4 };
const TEXT: SampleKind = SampleKind::NextToken { sequence: 2, vocabulary: 100 };

fn save<T: npyz::AutoSerialize + Copy>(path: &Path, shape: &[u64], values: &[T], order: Order) {
    let mut content = Vec::new();
    let options = npyz::WriteOptions::new().default_dtype().shape(shape).order(order);
    let mut writer = options.writer(&mut content).begin_nd().expect("memory");
    writer.extend(values.iter().copied()).expect("memory");
    writer.finish().expect("memory");
    fs::write(path, content).expect("a file");
}

fn vectors(labelled: &Labelled) -> (Vec<f32>, Vec<i32>) {
    let mut batch = MicroBatch::empty(Inputs::Vectors { values: Vec::new(), width: 3 });
    (0..labelled.samples()).for_each(|number| labelled.read(number, &mut batch));
    let Inputs::Vectors { values, .. } = batch.inputs else { panic!("vectors") };
    (values, batch.targets)
}

fn labelled(path: &Path, wanted: &SampleKind) -> Result<Labelled, DataError> {
    ArrayFiles::at(path, path.is_dir(), wanted).expect("arrays").labelled(wanted)
}

#[test]
fn npy_arrays_of_several_types_give_the_same_samples() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (inputs, labels) = (folder.path().join("inputs.npy"), folder.path().join("labels.npy"));
    let values = [0.5_f32, 1.0, -1.5, 2.0, 0.25, 4.0];
    save(&inputs, &[2, 3], &values, Order::C);
    save(&labels, &[2], &[3_i64, 0], Order::C);
    let read = labelled(folder.path(), &VECTOR).expect("two samples");
    assert_eq!(vectors(&read), (values.to_vec(), vec![3, 0]));
    assert_eq!((read.files, read.test), (2, 0));
    save(&inputs, &[2, 1, 3], &values.map(f64::from), Order::C);
    save(&labels, &[2], &[3_u8, 0], Order::C);
    assert_eq!(vectors(&labelled(&inputs, &VECTOR).expect("two samples")), (values.to_vec(), vec![3, 0]));
    save(&inputs, &[2, 3], &[0_u8, 255, 0, 255, 0, 255], Order::C);
    let scaled = [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0].to_vec();
    assert_eq!(vectors(&labelled(&inputs, &VECTOR).expect("two samples")), (scaled, vec![3, 0]));
}

#[test]
fn safetensors_hold_inputs_and_labels() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("data.safetensors");
    let values: Vec<u8> = [0.5_f32, 1.0, -1.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    let halves: Vec<u8> = [0.5_f32, 1.0, -1.5].iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect();
    let label = 2_i32.to_le_bytes();
    for (dtype, bytes) in [(Dtype::F32, &values), (Dtype::BF16, &halves)] {
        let inputs = TensorView::new(dtype, vec![1, 3], bytes).expect("three values");
        let labels = TensorView::new(Dtype::I32, vec![1], &label).expect("one value");
        let content = safetensors::serialize([("inputs", inputs), ("labels", labels)], None).expect("memory");
        fs::write(&path, &content).expect("a file");
        assert_eq!(vectors(&labelled(&path, &VECTOR).expect("a sample")), (vec![0.5, 1.0, -1.5], vec![2]));
    }
    let inputs = TensorView::new(Dtype::F32, vec![1, 3], &values).expect("three values");
    fs::write(&path, safetensors::serialize([("inputs", inputs)], None).expect("memory")).expect("a file");
    let error = labelled(&path, &VECTOR).expect_err("no labels").to_string();
    assert!(error.contains("no array `labels`"), "{error}");
    let tokens = ArrayFiles::at(&path, false, &TEXT).expect("an array").tokens(100).expect_err("no tokens");
    assert!(matches!(tokens, DataError::NoArray { .. }));
    fs::write(&path, b"nothing of the kind").expect("a file");
    assert!(matches!(labelled(&path, &VECTOR), Err(DataError::Damaged { .. })));
}

#[test]
fn images_have_the_models_sides_or_one_channel_less() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (inputs, labels) = (folder.path().join("inputs.npy"), folder.path().join("labels.npy"));
    save(&labels, &[1], &[0_i32], Order::C);
    let grey = SampleKind::Image { channels: 1, height: 2, width: 3, classes: 4 };
    save(&inputs, &[1, 2, 3], &[0.0_f32; 6], Order::C);
    assert!(labelled(folder.path(), &grey).is_ok());
    save(&inputs, &[1, 1, 2, 3], &[0.0_f32; 6], Order::C);
    assert!(labelled(folder.path(), &grey).is_ok());
    let colour = SampleKind::Image { channels: 3, height: 2, width: 3, classes: 4 };
    let error = labelled(folder.path(), &colour).expect_err("one channel").to_string();
    assert!(error.contains("shape [1, 1, 2, 3]") && error.contains("[samples, 3, 2, 3]"), "{error}");
}

#[test]
fn tokens_are_integers_below_the_vocabulary() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.npy");
    let tokens = |path: &Path| ArrayFiles::at(path, path.is_dir(), &TEXT).expect("an array").tokens(100);
    save(&path, &[4], &[0_u16, 99, 5, 7], Order::C);
    assert_eq!(tokens(folder.path()).expect("four tokens").0, [0, 99, 5, 7]);
    save(&path, &[2], &[0_i64, 100], Order::C);
    assert!(matches!(tokens(&path), Err(DataError::TokenId { position: 1, id: 100, vocabulary: 100, .. })));
    save(&path, &[2], &[-1_i32, 1], Order::C);
    assert!(matches!(tokens(&path), Err(DataError::TokenId { position: 0, id: -1, .. })));
    save(&path, &[2], &[0.0_f32, 1.0], Order::C);
    let error = tokens(&path).expect_err("no integers").to_string();
    assert!(error.contains("dtype") && error.contains("<f4"), "{error}");
    save(&path, &[2, 1], &[0_u16, 1], Order::C);
    assert!(matches!(tokens(&path), Err(DataError::Array { field: "shape", .. })));
}

#[test]
fn bytes_without_a_meaning_are_no_numbers_even_where_there_are_none() {
    let nothing = b"\x93NUMPY\x01\x00\x38\x00{'descr': '|V4', 'fortran_order': False, 'shape': (0,)}\n";
    let array = || npy(Path::new("tokens.npy"), nothing).expect("an array");
    assert!(matches!(array().integers(), Err(DataError::Array { field: "dtype", .. })));
    assert!(matches!(array().values(), Err(DataError::Array { field: "dtype", .. })));
}

#[test]
fn what_is_wrong_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (inputs, labels) = (folder.path().join("inputs.npy"), folder.path().join("labels.npy"));
    save(&inputs, &[2, 3], &[0.0_f32; 6], Order::C);
    let read = || labelled(folder.path(), &VECTOR).expect_err("wrong");
    assert!(read().to_string().contains("no array `labels.npy`"));
    save(&labels, &[3], &[0_i32; 3], Order::C);
    assert!(matches!(read(), DataError::Array { field: "shape", .. }));
    save(&labels, &[2], &[0.0_f32; 2], Order::C);
    assert!(matches!(read(), DataError::Array { field: "dtype", .. }));
    save(&labels, &[2], &[0_i32, 4], Order::C);
    assert!(matches!(read(), DataError::Label { sample: 1, label: 4, classes: 4, .. }));
    save(&labels, &[2], &[0_i32, 3], Order::C);
    save(&inputs, &[2, 3], &[0.0, 1.0, f32::NAN, 0.0, 0.0, 0.0], Order::C);
    assert!(read().to_string().contains("element 2 of array `inputs` is NaN"));
    save(&inputs, &[2, 3], &[0_i32; 6], Order::C);
    assert!(matches!(read(), DataError::Array { field: "dtype", .. }));
    save(&inputs, &[2, 3], &[0.0_f32; 6], Order::Fortran);
    assert!(read().to_string().contains("column order"));
    save(&inputs, &[2, 3], &[0.0_f32; 6], Order::C);
    let whole = fs::read(&inputs).expect("a file");
    fs::write(&inputs, &whole[..whole.len() - 1]).expect("a file");
    assert!(read().to_string().contains("23 bytes of values"));
    fs::write(&inputs, b"PK\x03\x04").expect("a file");
    assert!(matches!(read(), DataError::Damaged { .. }));
}

#[test]
fn a_header_longer_than_its_file_is_told_before_there_is_room_for_it() {
    let path = Path::new("x.npy");
    for content in [b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}".as_slice(), b"\x93NUMPY\x01\x00\xff\xff{}"] {
        let Err(DataError::Damaged { problem, .. }) = npy(path, content) else { panic!("{content:?}") };
        assert!(problem.contains("within its header"), "{problem}");
    }
}

#[test]
fn brackets_that_the_library_would_try_in_all_ways_are_refused() {
    let text = format!("{{'descr': '<i8', {}", "[".repeat(99));
    let content = [b"\x93NUMPY\x01\x00".as_slice(), &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
    let Err(DataError::Damaged { problem, .. }) = npy(Path::new("x.npy"), &content) else { panic!("{content:?}") };
    assert!(problem.contains("brackets"), "{problem}");
    assert_eq!((nested(b"{'shape': (1, 2), 'descr': [('a', '<f4', (2,))]}"), nested(b"])")), (4, 0));
}

#[test]
fn sides_whose_product_is_beyond_counting_are_refused() {
    let text = "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 5555555555555555554, 4), }\n";
    let content = [b"\x93NUMPY\x01\x00".as_slice(), &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
    assert!(matches!(npy(Path::new("x.npy"), &content), Err(DataError::Damaged { .. })));
}
