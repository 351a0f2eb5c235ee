//! What a checkpoint holds besides weights, so that others can use it as it is: the model's configuration with the names of
//! its classes, the tokenizer of the texts, the preparation of the images.

use super::{Job, adapter};
use crate::weights::CONFIGURATION;
use serde_json::{Map, Value, json};
use trainyard_checkpoint::{CheckpointError, Writer};
use trainyard_models::to_hugging_face;

/// The names under which transformers looks for them.
const TOKENIZER: &str = "tokenizer.json";
const PREPARATION: &str = "preprocessor_config.json";

/// Writes them, as far as transformers has them.
pub(super) fn write(job: &Job<'_>, writer: &mut Writer<'_>) -> Result<(), CheckpointError> {
    let mut put = |name: &str, value: &Value| writer.document(name, format!("{value:#}\n").as_bytes());
    if let Some(configuration) = adapter::configuration(job) {
        put(adapter::CONFIGURATION, &configuration)?;
    } else if let Some(mut configuration) = to_hugging_face(job.plan.model()) {
        name_classes(&mut configuration, job.data.classes());
        put(CONFIGURATION, &configuration)?;
    }
    if let Some(preparation) = job.data.preparation() {
        put(PREPARATION, &preparation)?;
    }
    match job.data.tokenizer() {
        Some(content) => writer.document(TOKENIZER, content),
        None => Ok(()),
    }
}

/// Names the first classes of a configuration as the data does; others keep their numbers.
fn name_classes(configuration: &mut Value, classes: &[String]) {
    let Some(names) = configuration.get_mut("id2label").and_then(Value::as_object_mut) else { return };
    for (number, class) in classes.iter().enumerate() {
        names.insert(number.to_string(), json!(class));
    }
    let numbers: Map<String, Value> = names
        .iter()
        .filter_map(|(number, name)| Some((name.as_str()?.to_owned(), json!(number.parse::<u64>().ok()?))))
        .collect();
    configuration["label2id"] = Value::Object(numbers);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_the_names_of_their_folders() {
        let mut configuration = json!({ "id2label": { "0": "0", "1": "1", "2": "2" } });
        name_classes(&mut configuration, &["cat".into(), "dog".into()]);
        assert_eq!(
            configuration,
            json!({ "id2label": { "0": "cat", "1": "dog", "2": "2" }, "label2id": { "cat": 0, "dog": 1, "2": 2 } })
        );
        let mut none = json!({ "model_type": "gpt2" });
        name_classes(&mut none, &["cat".into()]);
        assert_eq!(none, json!({ "model_type": "gpt2" }));
    }
}
