use super::*;
use crate::order::{Order, Slice};
use crate::tokenizer::of_words;
use std::collections::BTreeSet;
use std::fs;

const NEXT: SampleKind = SampleKind::NextToken { sequence: 4, vocabulary: 256 };
const MASKED: SampleKind = SampleKind::Masked { sequence: 8, vocabulary: 257, predictions: None };

fn write(content: impl AsRef<[u8]>) -> (tempfile::TempDir, DataSource) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("text.txt");
    fs::write(&path, content).expect("a file");
    (folder, DataSource::new(path))
}

/// Bytes of ASCII, none of them zero.
fn text(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i % 101) as u8 + 1).collect()
}

fn ids_of(batch: &MicroBatch) -> &[i32] {
    let Inputs::Tokens { ids, .. } = &batch.inputs else { panic!("tokens") };
    ids
}

#[test]
fn an_epoch_reads_every_training_sample_once_and_no_held_out_one() {
    let (_folder, source) = write(text(401));
    let data = Dataset::open(&source, &NEXT, 8, 3).expect("enough text");
    assert_eq!((data.training_samples(), data.held_out_samples(), data.bytes()), (95, 5, 401));
    let mut order = Order::new(&data);
    let first: Vec<usize> = (0..95).map(|p| order.sample(p)).collect();
    let second: Vec<usize> = (95..190).map(|p| order.sample(p)).collect();
    assert_ne!(first, second);
    assert_eq!((0..95).map(|p| order.sample(p)).collect::<Vec<_>>(), first);
    let read: BTreeSet<usize> = first.into_iter().collect();
    assert_eq!(read, (0..100).filter(|i| i % 20 != 19).collect());
    let held_out = data.held_out(&[0, 4]).expect("text");
    assert_eq!(ids_of(&held_out), [77, 78, 79, 80, 94, 95, 96, 97]);
}

#[test]
fn held_out_data_of_its_own_leaves_all_of_the_other_to_train_on() {
    let (folder, source) = write(text(401));
    let path = folder.path().join("valid.txt");
    let mut backwards = text(401)[100..141].to_owned();
    backwards.reverse();
    fs::write(&path, backwards).expect("a file");
    let source = DataSource { held_out: Some(path.clone()), ..source };
    let data = Dataset::open(&source, &NEXT, 100, 3).expect("enough text");
    assert_eq!((data.training_samples(), data.held_out_samples(), data.bytes()), (100, 10, 401));
    assert_eq!(ids_of(&data.held_out(&[0]).expect("text")), [40, 39, 38, 37]);
    assert_eq!(data.report().held_out.map(PathBuf::from), Some(path.clone()));
    // What a run that goes on must find again.
    let whole = Dataset::open(&DataSource { held_out: None, ..source.clone() }, &NEXT, 8, 3).expect("enough text");
    assert_ne!(whole.checksum(), data.checksum());
    let few = data.evaluating(3);
    assert_eq!(few.held_out_samples(), 3);
    // Spread over all of it.
    assert_eq!(ids_of(&few.held_out(&[2]).expect("text")), [16, 15, 14, 13]);
    let open = |held_out: PathBuf| {
        let refused = Dataset::open(&DataSource { held_out: Some(held_out), ..source.clone() }, &NEXT, 8, 3);
        refused.expect_err("no held-out data").to_string()
    };
    let short = folder.path().join("short.txt");
    fs::write(&short, "abcd").expect("a file");
    assert!(open(short).contains("has 4 bytes, but one sample of the model takes 5"));
    // The file itself, the folder that it is in, a copy, and a part of one.
    let [copy, part] = ["copy.txt", "part.txt"].map(|name| folder.path().join("elsewhere").join(name));
    fs::create_dir(folder.path().join("elsewhere")).expect("a folder");
    fs::write(&copy, text(401)).expect("a file");
    fs::write(&part, &text(401)[102..180]).expect("a file");
    for overlapping in [source.path.clone(), folder.path().to_owned(), copy, part] {
        assert!(open(overlapping).contains("have samples in common"));
    }
    assert!(open(folder.path().join("none")).contains("cannot read"));
}

#[test]
fn held_out_images_are_of_the_same_classes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let put = |place: &str| {
        let path = folder.path().join(place);
        fs::create_dir_all(path.parent().expect("a folder")).expect("room");
        image::RgbImage::from_pixel(4, 4, image::Rgb([9, 9, 9])).save(path).expect("an image");
    };
    for image in ["data/cat/1", "data/dog/1", "same/cat/2", "same/dog/2", "other/cat/1", "other/eel/1"] {
        put(&format!("{image}.png"));
    }
    let wanted = SampleKind::Image { channels: 3, height: 4, width: 4, classes: 2 };
    let open = |held_out: &str| {
        let held_out = Some(folder.path().join(held_out));
        Dataset::open(&DataSource { held_out, ..DataSource::new(folder.path().join("data")) }, &wanted, 2, 3)
    };
    let data = open("same").expect("the same classes");
    assert_eq!((data.training_samples(), data.held_out(&[0, 1]).expect("images").targets), (2, vec![0, 1]));
    let error = open("other").expect_err("an eel").to_string();
    assert!(error.ends_with("are cat, eel; those that are trained on are cat, dog"), "{error}");
}

#[test]
fn a_global_batch_is_the_same_however_it_is_sliced() {
    let (_folder, source) = write(text(1001));
    let divisors = [1_u64, 2, 3, 4, 6, 12];
    for wanted in [NEXT, MASKED] {
        let data = Dataset::open(&source, &wanted, 12, 3).expect("enough text");
        let mut order = Order::new(&data);
        // In the middle of an epoch, over its end, and far on.
        for position in [0, 84, data.training_samples() as u64 - 5, 1007] {
            let mut read = |replicas: u64, micro: u64| -> (Vec<i32>, Vec<i32>) {
                let accumulation = 12 / replicas / micro;
                let batches: Vec<MicroBatch> = (0..replicas)
                    .flat_map(|replica| {
                        Slice { micro, accumulation, replica }.step(&mut order, position).expect("text")
                    })
                    .collect();
                let inputs = batches.iter().flat_map(|batch| ids_of(batch).to_vec()).collect();
                (inputs, batches.into_iter().flat_map(|batch| batch.targets).collect())
            };
            let whole = read(1, 12);
            for (replicas, micro) in divisors.iter().flat_map(|r| divisors.map(|m| (*r, m))) {
                if 12 % (replicas * micro) == 0 {
                    assert_eq!(read(replicas, micro), whole, "{replicas} replicas, micro-batches of {micro}");
                }
            }
        }
    }
}

#[test]
fn masked_samples_score_as_many_tokens_each_and_change_with_the_epoch() {
    let (_folder, source) = write(text(4000));
    let wanted = SampleKind::Masked { sequence: 40, vocabulary: 300, predictions: None };
    let data = Dataset::open(&source, &wanted, 8, 3).expect("enough text");
    let mut batch = data.empty();
    for number in 0..3 {
        data.read(number, number as u64, &mut batch).expect("text");
    }
    let scored = batch.scored.clone().expect("some");
    // 15 % of 40.
    assert_eq!((batch.targets.len(), scored.len()), (18, 18));
    assert!((0..3).all(|sample| scored[sample * 6..][..6].iter().all(|row| (row / 40) as usize == sample)));
    let whole: Vec<i32> = text(120).into_iter().map(i32::from).collect();
    assert!(scored.iter().zip(&batch.targets).all(|(row, target)| whole[*row as usize] == *target));
    let changed = ids_of(&batch).iter().zip(&whole).filter(|(read, text)| read != text).count();
    assert!((9..=18).contains(&changed) && ids_of(&batch).contains(&256), "{changed}");
    let mut later = data.empty();
    (0..3).for_each(|number| data.read(number, number as u64 + 95, &mut later).expect("text"));
    assert_ne!(later.scored, batch.scored);
    assert_eq!(data.held_out(&[0, 1]).expect("text"), data.held_out(&[0, 1]).expect("text"));
}

#[test]
fn a_tokenizers_frame_is_never_hidden() {
    let (folder, source) = write("a b ".repeat(600));
    let path = folder.path().join("tokenizer.json");
    fs::write(&path, of_words(&["<unk>", "a", "b", "[MASK]", "[CLS]", "[SEP]"])).expect("a file");
    let source = DataSource { tokenizer: Some(path), ..source };
    let wanted = SampleKind::Masked { sequence: 8, vocabulary: 6, predictions: Some(8) };
    let data = Dataset::open(&source, &wanted, 8, 3).expect("enough text");
    assert_eq!(data.training_samples(), 190);
    assert_eq!(data.tokenizer(), fs::read(folder.path().join("tokenizer.json")).ok().as_deref());
    let mut batch = data.empty();
    data.read(0, 0, &mut batch).expect("text");
    let (read, scored) = (ids_of(&batch), batch.scored.as_ref().expect("some"));
    assert_eq!((read.len(), read[0], read[7]), (8, 4, 5));
    assert_eq!((scored.as_slice(), batch.targets.as_slice()), (&[1, 2, 3, 4, 5, 6][..], &[1, 2, 1, 2, 1, 2][..]));
}

#[test]
fn a_folder_of_images_says_what_its_classes_are_and_how_they_are_prepared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for class in ["eel", "cat"] {
        fs::create_dir(folder.path().join(class)).expect("a folder");
        image::RgbImage::new(5, 4).save(folder.path().join(class).join("a.png")).expect("an image");
    }
    let wanted = SampleKind::Image { channels: 3, height: 8, width: 8, classes: 2 };
    let data = Dataset::open(&DataSource::new(folder.path()), &wanted, 1, 0).expect("two images");
    assert_eq!(data.classes(), ["cat", "eel"]);
    let prepared = data.preparation().expect("images");
    assert_eq!(prepared["image_mean"], serde_json::json!([0.485, 0.456, 0.406]));
    assert_eq!(prepared["crop_size"], serde_json::json!({ "height": 8, "width": 8 }));
    assert!(data.tokenizer().is_none());
}

#[test]
fn an_array_of_tokens_is_a_text_with_its_mask_last_or_where_a_tokenizer_has_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tokens.npy");
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (90,), }";
    let ids = (0..90).map(|i| i % 3).collect::<Vec<u8>>();
    let length = (header.len() as u16).to_le_bytes();
    fs::write(&path, [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &ids].concat()).expect("a file");
    let source = DataSource::new(&path);
    let next = Dataset::open(&source, &SampleKind::NextToken { sequence: 8, vocabulary: 3 }, 2, 0).expect("ids");
    let mut batch = next.empty();
    next.read(1, 0, &mut batch).expect("ids");
    assert_eq!(
        (ids_of(&batch), batch.targets.as_slice()),
        (&[2, 0, 1, 2, 0, 1, 2, 0][..], &[0, 1, 2, 0, 1, 2, 0, 1][..])
    );
    let wanted = |vocabulary| SampleKind::Masked { sequence: 8, vocabulary, predictions: Some(8) };
    assert!(matches!(Dataset::open(&source, &wanted(3), 2, 0), Err(DataError::TokenId { id: 2, .. })));
    let read = |source: &DataSource, vocabulary| {
        let data = Dataset::open(source, &wanted(vocabulary), 2, 0).expect("ids");
        let mut batch = data.empty();
        (0..5).for_each(|number| data.read(number, number as u64, &mut batch).expect("ids"));
        ids_of(&batch).to_vec()
    };
    assert!(read(&source, 10).contains(&9));
    let checksum = |source: &DataSource| Dataset::open(source, &wanted(10), 2, 0).expect("ids").checksum().to_owned();
    let of = |bytes: &[u8]| format!("{:016x}", xxh3_64(bytes));
    let file = fs::read(&path).expect("just written");
    assert_eq!(checksum(&source), of(&file));
    let tokenizer = folder.path().join("tokenizer.json");
    let words = of_words(&["<unk>", "a", "b", "[MASK]"]);
    fs::write(&tokenizer, &words).expect("a file");
    let source = DataSource { tokenizer: Some(tokenizer), ..source };
    assert_eq!(checksum(&source), of(&[file.as_slice(), words.as_bytes()].concat()));
    assert!(read(&source, 10).contains(&3) && !read(&source, 10).contains(&9));
    let next = Dataset::open(&source, &SampleKind::NextToken { sequence: 8, vocabulary: 4 }, 2, 0);
    assert!(matches!(next, Err(DataError::TokenizerUnused { .. })));
}

#[test]
fn too_little_text_says_how_much_is_needed() {
    let wanted = SampleKind::NextToken { sequence: 16, vocabulary: 256 };
    let open = |length| {
        let (_folder, source) = write(text(length));
        Dataset::open(&source, &wanted, 8, 0)
    };
    let error = open(100).expect_err("six samples").to_string();
    assert!(error.contains("has 100 bytes") && error.contains("needs 145"), "{error}");
    assert!(open(145).is_ok());
    assert!(open(144).is_err());
    let error = open(16).expect_err("no sample").to_string();
    assert!(error.contains("has 16 bytes") && error.contains("takes 17") && error.contains("seq_len"), "{error}");
}

#[test]
fn bytes_need_entries_for_all_of_them_and_a_mask() {
    let (_folder, source) = write(text(400));
    let open =
        |wanted: &SampleKind| Dataset::open(&source, wanted, 1, 0).map(|_| ()).map_err(|error| error.to_string());
    let few = open(&SampleKind::NextToken { sequence: 4, vocabulary: 255 }).expect_err("255 entries");
    assert!(few.contains("256 entries") && few.contains("255"), "{few}");
    assert!(open(&NEXT).is_ok() && open(&MASKED).is_ok());
    assert!(open(&SampleKind::Masked { sequence: 8, vocabulary: 256, predictions: None }).is_err());
}

#[test]
fn other_data_than_the_model_reads_is_refused() {
    let (folder, source) = write(text(400));
    let image = SampleKind::Image { channels: 1, height: 28, width: 28, classes: 10 };
    let vector = SampleKind::Vector { width: 784, classes: 10 };
    let open = |source: &DataSource, wanted: &SampleKind| Dataset::open(source, wanted, 1, 0).expect_err("wrong");
    assert!(matches!(open(&source, &image), DataError::UnknownKind { .. }));
    assert!(matches!(open(&source, &vector), DataError::UnknownKind { .. }));
    assert!(matches!(open(&DataSource::new(folder.path()), &vector), DataError::UnknownKind { .. }));
    assert!(matches!(open(&DataSource::new(folder.path()), &image), DataError::NoClasses { .. }));
    assert!(matches!(open(&DataSource::new(""), &NEXT), DataError::EmptyPath));
    assert!(matches!(open(&DataSource::new(folder.path().join("none")), &NEXT), DataError::Unreadable { .. }));
    let digits = folder.path().join("train-images-idx3-ubyte");
    fs::write(&digits, [0, 0, 8, 3]).expect("a file");
    assert!(matches!(open(&DataSource::new(digits), &NEXT), DataError::Foreign { kind: "MNIST data", .. }));
    let tokenizer = Some(folder.path().join("tokenizer.json"));
    let synthetic = DataSource { tokenizer, ..DataSource::new(SYNTHETIC) };
    assert!(matches!(open(&synthetic, &vector), DataError::TokenizerUnused { .. }));
}

#[test]
fn made_up_samples_depend_on_the_seed_and_fit_the_model() {
    let source = DataSource::new(SYNTHETIC);
    let image = SampleKind::Image { channels: 3, height: 2, width: 2, classes: 5 };
    let vector = SampleKind::Vector { width: 3, classes: 5 };
    for wanted in [NEXT, MASKED, image, vector] {
        let read = |seed: u64, numbers: [usize; 2]| {
            let data = Dataset::open(&source, &wanted, 8, seed).expect("made up");
            let mut batch = data.empty();
            for number in numbers {
                data.read(number, 0, &mut batch).expect("made up");
            }
            batch
        };
        assert_eq!(read(1, [0, 1]), read(1, [0, 1]));
        assert_ne!(read(1, [0, 1]), read(2, [0, 1]));
        assert_ne!(read(1, [0, 1]), read(1, [0, 2]));
        let batch = read(1, [0, 1]);
        let below = wanted.classes().unwrap_or(257) as i32;
        assert!(batch.targets.iter().all(|target| (0..below).contains(target)), "{batch:?}");
    }
}

#[test]
fn few_samples_are_told() {
    let data = Dataset::open(&DataSource::new(SYNTHETIC), &NEXT, 19_001, 0);
    assert!(matches!(data, Err(DataError::TooFew { found: 19_000, batch: 19_001, .. })));
}

#[test]
fn a_test_part_is_held_out_instead_of_a_twentieth() {
    assert_eq!(parts(5, 2), (vec![0, 1, 2], vec![3, 4]));
    assert_eq!(parts(5, 0), (vec![0, 1, 2, 3], vec![4]));
    assert_eq!(parts(40, 0).1, [19, 39]);
}
