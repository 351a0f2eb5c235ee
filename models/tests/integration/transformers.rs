//! Configurations of Hugging Face transformers against what its classes are made of: `tests/hugging_face` has, for each
//! type, published and small models with the parameters that transformers makes and the FLOPs that PyTorch counts.

use crate::hugging_face::{any_value, with};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use trainyard_models::{Model, ModelSpec, Pass, find, from_hugging_face};

/// A model that was counted.
struct Counted {
    /// Type and name.
    name: String,
    value: Value,
}

/// Returns what was counted, type by type.
fn counted() -> Vec<Counted> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/hugging_face");
    let files = fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    files.sort();
    files.into_iter().flat_map(|path| models_of(&path)).collect()
}

fn models_of(path: &PathBuf) -> Vec<Counted> {
    let text = fs::read_to_string(path).expect("readable");
    let file: Value = serde_json::from_str(&text).expect("it is JSON");
    let model_type = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let models = file["models"].as_array().expect("a list").clone();
    let named = |value: Value| {
        let name = format!("{model_type} {}", value["name"].as_str().expect("a name"));
        Counted { name, value }
    };
    models.into_iter().map(named).collect()
}

impl Counted {
    /// Returns the forms of the configuration: as transformers saves it, and of a published model as its file has it.
    fn forms(&self) -> impl Iterator<Item = &'static str> {
        let published = self.value.get("written").is_some();
        published.then_some("written").into_iter().chain(["saved"])
    }

    /// Returns the specification that a form of the configuration is read as.
    fn read(&self, form: &str) -> ModelSpec {
        let text = self.value[form].to_string();
        from_hugging_face(&text, "counted").unwrap_or_else(|error| panic!("{}, {form}: {error}", self.name))
    }
}

fn model(name: &str, spec: ModelSpec) -> Model {
    Model::try_from(spec).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn parameters_are_those_of_the_class_that_transformers_makes() {
    let mut wrong = Vec::new();
    for counted in counted() {
        let expected = counted.value["parameters"].as_u64().expect("a count");
        for form in counted.forms() {
            let found = model(&counted.name, counted.read(form)).graph().parameters();
            if found != expected {
                wrong.push(format!("{}, {form}: {found} of {expected}, {}", counted.name, found.abs_diff(expected)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_transformers_saves_is_the_model_that_it_read() {
    for counted in counted() {
        let models: Vec<Model> = counted.forms().map(|form| model(&counted.name, counted.read(form))).collect();
        assert!(models.windows(2).all(|pair| pair[0] == pair[1]), "{}: {models:?}", counted.name);
    }
}

#[test]
fn forward_flops_are_those_that_pytorch_counts() {
    let mut wrong = Vec::new();
    for counted in counted() {
        let Some(expected) = counted.value["flops"].as_f64() else { continue };
        let spec = counted.read("saved");
        let of = |name: &str| counted.value["inputs"][name][0].as_u64();
        let (tokens, decoder_tokens) = (of("input_ids"), of("decoder_input_ids"));
        let (seq_len, decoder_seq_len) = (tokens.or(spec.seq_len), decoder_tokens.or(spec.decoder_seq_len));
        let counted_model = model(&counted.name, ModelSpec { seq_len, decoder_seq_len, ..spec });
        let found = counted_model.graph().flops(Pass::Forward).0;
        let error = found / expected - 1.0;
        if error.abs() > 0.01 {
            wrong.push(format!("{}: {found} of {expected}, {error:+.4}", counted.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_specification_that_is_read_is_written_back_as_the_same_model() {
    for counted in counted() {
        let first = model(&counted.name, counted.read("saved"));
        let text = toml::to_string(&first.spec()).expect("it can be written");
        let again: ModelSpec = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", counted.name));
        assert_eq!(model(&counted.name, again), first, "{}", counted.name);
    }
}

#[test]
fn models_of_the_catalog_are_those_of_their_configurations() {
    let mut compared = 0;
    for counted in counted() {
        let Ok(entry) = find(counted.value["name"].as_str().expect("a name")) else { continue };
        let spec = counted.read("saved");
        let (tokens, attention) = (entry.model.spec().seq_len, entry.model.spec().attention);
        let own_table = spec.window.filter(|window| Some(*window) < tokens);
        let read = ModelSpec { seq_len: tokens, attention, window: own_table, ..spec };
        assert_eq!(entry.model.graph(), model(&counted.name, read).graph(), "{}", counted.name);
        compared += 1;
    }
    assert!(compared >= 15, "{compared} are in the catalog");
}

proptest! {
    #[test]
    fn no_value_of_any_field_of_a_small_model_makes_reading_panic(
        model in any::<prop::sample::Index>(),
        field in any::<prop::sample::Index>(),
        value in any_value(),
    ) {
        let models: Vec<Counted> = counted().into_iter().filter(|counted| counted.value.get("flops").is_some()).collect();
        let config = &model.get(&models).value["saved"];
        let names: Vec<&String> = config.as_object().expect("an object").keys().collect();
        let changed = with(config.clone(), &json!({ field.get(&names).as_str(): value }));
        if let Ok(spec) = from_hugging_face(&changed.to_string(), "test")
            && let Ok(model) = Model::try_from(spec)
        {
            prop_assert!(model.graph().parameters() > 0);
            prop_assert!(model.graph().training_flops().0 > 0.0);
        }
    }
}
