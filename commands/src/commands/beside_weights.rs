//! What lies beside trained weights and says how the samples were made that they know: a tokenizer, the order of classes,
//! the normalisation of pixels. Weights that read other samples learn from the beginning, without an error.

use crate::failure::Failure;
use serde_json::Value;
use std::path::{Path, PathBuf};
use trainyard_data::DataReport;

/// Means and deviations by which a folder of images is normalised, those of ImageNet.
const NORMALIZATION: [(&str, [f64; 3]); 2] =
    [("image_mean", [0.485, 0.456, 0.406]), ("image_std", [0.229, 0.224, 0.225])];

/// Model types of Hugging Face that are priced as BERT, but count positions from behind the padding token.
const OTHER_POSITIONS: [&str; 2] = ["roberta", "xlm-roberta"];

/// Checks data against what lies in the folders of the weights and of the model; returns what is worth a warning.
pub(crate) fn check(
    (weights, model): (Option<&Path>, Option<&Path>),
    data: &DataReport,
) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    let folders: Vec<PathBuf> = [weights, model].into_iter().flatten().filter_map(folder).collect();
    for folder in &folders {
        let config = json(&folder.join("config.json"));
        model_type(folder, config.as_ref())?;
        tokenizer(folder, data)?;
        if weights.is_some() {
            classes(folder, config.as_ref(), data)?;
            warnings.extend(normalization(folder, data));
        }
    }
    Ok(warnings)
}

/// Returns the folder that a path names, or in which the file lies.
fn folder(path: &Path) -> Option<PathBuf> {
    if path.is_dir() { Some(path.into()) } else { path.is_file().then(|| crate::files::folder_of(path).into()) }
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn model_type(folder: &Path, config: Option<&Value>) -> Result<(), Failure> {
    let kind = config.and_then(|config| config["model_type"].as_str()).unwrap_or_default();
    if !OTHER_POSITIONS.contains(&kind) {
        return Ok(());
    }
    let message =
        format!("`model_type` of `{}` is {kind}, which is not run here", folder.join("config.json").display());
    Err(Failure::input(message).hint("`trainyard plan` takes it; bert is run here"))
}

fn tokenizer(folder: &Path, data: &DataReport) -> Result<(), Failure> {
    let beside = folder.join("tokenizer.json");
    if data.kind != "text" || data.tokenizer.is_some() || !beside.is_file() {
        return Ok(());
    }
    let message = format!(
        "without a tokenizer the bytes of `{}` would be its tokens, but the model has the tokens of `{}`",
        data.path,
        beside.display()
    );
    Err(Failure::input(message).hint(format!("add --tokenizer {}", beside.display())))
}

/// Refuses folders of classes in another order than the classes of the weights.
fn classes(folder: &Path, config: Option<&Value>, data: &DataReport) -> Result<(), Failure> {
    let names = config.and_then(|config| config["id2label"].as_object());
    let number_of = |class: &String| {
        let named = names?.iter().find(|(_, name)| name.as_str() == Some(class))?;
        named.0.parse::<usize>().ok()
    };
    let numbers: Option<Vec<usize>> = data.classes.iter().map(number_of).collect();
    let Some(numbers) =
        numbers.filter(|numbers| numbers.iter().enumerate().any(|(own, of_weights)| own != *of_weights))
    else {
        return Ok(());
    };
    let pairs: Vec<String> =
        data.classes.iter().zip(&numbers).map(|(class, number)| format!("{class} {number}")).collect();
    let message = format!(
        "`{}` numbers the classes {}, but the folders of `{}` are numbered in the order of their names",
        folder.join("config.json").display(),
        pairs.join(", "),
        data.path
    );
    Err(Failure::input(message)
        .hint("name the folders so that their order is that of the weights, or remove `id2label`"))
}

/// Tells that images are normalised in another way than those that the weights know.
fn normalization(folder: &Path, data: &DataReport) -> Vec<String> {
    let path = folder.join("preprocessor_config.json");
    let Some(own) = json(&path).filter(|_| data.kind == "images") else { return Vec::new() };
    let differs = |(field, usual): (&str, [f64; 3])| {
        let values: Vec<f64> = own[field].as_array()?.iter().filter_map(Value::as_f64).collect();
        let other =
            values.len() == usual.len() && values.iter().zip(usual).any(|(own, usual)| (own - usual).abs() > 1e-3);
        other.then(|| {
            format!(
                "`{field}` of `{}` is {values:?}, but images are normalised by ImageNet's {usual:?}: the weights must \
                 adapt to that first",
                path.display()
            )
        })
    };
    NORMALIZATION.into_iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn report(kind: &str, classes: &[&str]) -> DataReport {
        DataReport {
            path: "data".into(),
            held_out: None,
            tokenizer: None,
            kind: kind.into(),
            classes: classes.iter().map(ToString::to_string).collect(),
            files: 1,
            skipped_files: 0,
            corrupt_samples: 0,
            waited_s: 0.0,
            bytes: 1,
            training_samples: 1,
            held_out_samples: 0,
            held_out_in_all: None,
        }
    }

    #[test]
    fn samples_that_weights_do_not_know_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
        let weights = folder.path().join("model.safetensors");
        write("model.safetensors", "");
        let refused =
            |data: &DataReport| check((Some(&weights), None), data).err().map(|failure| failure.message().to_owned());
        let images = report("images", &["cat", "dog", "eel"]);
        assert_eq!((refused(&report("text", &[])), refused(&images)), (None, None));
        write("tokenizer.json", "{}");
        assert!(refused(&report("text", &[])).is_some_and(|told| told.contains("tokenizer.json")));
        write("config.json", r#"{"id2label": {"0": "cat", "1": "dog", "2": "eel"}}"#);
        assert_eq!(refused(&images), None);
        write("config.json", r#"{"id2label": {"0": "eel", "1": "dog", "2": "cat"}}"#);
        assert!(refused(&images).is_some_and(|told| told.contains("cat 2, dog 1, eel 0")));
        write("preprocessor_config.json", r#"{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.229, 0.224, 0.225]}"#);
        write("config.json", "{}");
        let told = check((Some(&weights), None), &images).expect("no error");
        assert!(matches!(told.as_slice(), [one] if one.contains("image_mean")), "{told:?}");
        write("config.json", r#"{"model_type": "roberta"}"#);
        assert!(refused(&images).is_some_and(|told| told.contains("roberta")));
    }
}
