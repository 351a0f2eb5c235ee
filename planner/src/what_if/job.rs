//! Jobs and models with a field set to something else.

use super::key::{Key, Kind};
use crate::cost::operations;
use crate::edits::Setting;
use crate::problem::with_seq_len;
use serde_json::{Value, json};
use trainyard_models::ModelSpec;
use trainyard_plan::{JobSpec, place_at};
use trainyard_units::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds, UsdPerHour};

/// Groups of fields of a job of which at most one may be written.
const INSTEAD: [&[&str]; 2] =
    [&["data.samples", "data.tokens"], &["training.epochs", "training.steps", "training.target"]];

/// Checks a word to which a field of a job is set.
pub(super) fn check_word(name: &str, word: &str) -> Result<(), String> {
    let key = Key { kind: Kind::Word, ..super::key::find(name).expect("keys are looked up before their values") };
    set_job(&JobSpec::default(), key, &Setting::Word(word.into())).map(|_| ())
}

/// Returns the job with a field set; its alternatives are removed.
pub(super) fn set_job(job: &JobSpec, key: Key, setting: &Setting) -> Result<JobSpec, String> {
    let mut value = sound(serde_json::to_value(job));
    set(&mut value, key, key.name, setting)?;
    for others in INSTEAD.iter().filter(|group| group.contains(&key.name)) {
        for other in others.iter().filter(|other| **other != key.name) {
            remove(&mut value, other);
        }
    }
    let mut job: JobSpec = serde_json::from_value(value).map_err(|error| plain(&error))?;
    if let Some(method) = job.training.method.filter(|_| key.name == "training.method") {
        job.training = job.training.by(method);
    }
    Ok(job)
}

/// The model with a dimension set, and with what follows from it:
///
/// - the feed-forward width keeps its ratio to the width, and heads of their own width keep their number;
/// - heads of keys and values stay as many as those of queries, if they were;
/// - a decoder stays as deep as the encoder, and a table of positions as long as a sample, if they were.
pub(super) fn set_model(model: &ModelSpec, key: Key, setting: &Setting) -> Result<ModelSpec, String> {
    let mut value = sound(serde_json::to_value(model));
    let field = key.name.trim_start_matches("model.");
    set(&mut value, key, field, setting)?;
    let mut changed: ModelSpec = serde_json::from_value(value).map_err(|error| plain(&error))?;
    match field {
        "hidden" => {
            if let (Some(ffn), Some(old), Some(new)) = (model.ffn, model.hidden, changed.hidden) {
                changed.ffn = Some(scaled(ffn, old, new)?);
            }
            if let (Some(width), Some(old), Some(new)) = (model.head_width, model.hidden, changed.hidden) {
                changed.head_width = Some(scaled(width, old, new)?);
            }
        }
        "heads" => {
            if model.kv_heads.is_some() && model.kv_heads == model.heads {
                changed.kv_heads = changed.heads;
            }
            if let (Some(width), Some(old), Some(new)) = (model.head_width, model.heads, changed.heads) {
                changed.head_width = Some(scaled(width, new, old)?);
            }
        }
        "layers" if model.decoder_layers == model.layers => changed.decoder_layers = changed.layers,
        "seq_len" => changed = with_seq_len(model.clone(), changed.seq_len),
        _ => {}
    }
    Ok(changed)
}

/// Scales a width in proportion to a dimension that changes from `old` to `new`.
fn scaled(width: u64, old: u64, new: u64) -> Result<u64, String> {
    let product = u128::from(width) * u128::from(new);
    let whole = product.is_multiple_of(u128::from(old.max(1)));
    let scaled = u64::try_from(product / u128::from(old.max(1))).ok().filter(|_| whole);
    scaled.ok_or_else(|| format!("a width of {width} that goes with {old} would not be whole with {new}"))
}

/// Returns the JSON of a job or a model, which never fails.
fn sound(value: Result<Value, serde_json::Error>) -> Value {
    value.expect("jobs and models hold only what JSON can hold")
}

/// Sets the value at a dotted path.
fn set(value: &mut Value, key: Key, path: &str, setting: &Setting) -> Result<(), String> {
    let place = place_at(value, path)?;
    *place = written(key, Some(&*place).filter(|present| !present.is_null()), setting)?;
    Ok(())
}

fn remove(value: &mut Value, path: &str) {
    let Some((table, name)) = path.split_once('.') else { return };
    if let Some(fields) = value.get_mut(table).and_then(Value::as_object_mut) {
        fields.shift_remove(name);
    }
}

/// Converts a setting into its form in documents.
fn written(key: Key, present: Option<&Value>, setting: &Setting) -> Result<Value, String> {
    if let Setting::Word(word) = setting {
        return Ok(json!(word));
    }
    if key.kind.is_whole() {
        let usual = (key.name == "campaign.spot_scenario").then_some(1);
        return setting.count(present.and_then(Value::as_u64).or(usual)).map(|count| json!(count));
    }
    let amount = match (setting, present) {
        (Setting::Factor(factor), None) => {
            let usual = match key.name {
                "campaign.node_mtbf" => operations().node_mtbf.value,
                "campaign.spot_wait" => operations().spot_wait.value,
                name => {
                    return Err(format!("`{name}` is not written, so that there is nothing for a factor to multiply"));
                }
            };
            usual.0 * factor
        }
        (Setting::Factor(factor), Some(present)) => {
            let present = amount(key.kind, present).ok_or_else(|| format!("`{}` is no number", key.name))?;
            match key.kind {
                // So many times as often: a share is what is left out of all after independent losses.
                Kind::Share => 1.0 - (1.0 - present).powf(*factor),
                _ => present * factor,
            }
        }
        (_, _) => setting.of(0.0),
    };
    Ok(match key.kind {
        Kind::Size => json!(Bytes(amount.round() as u64).to_string()),
        Kind::Rate => json!(BytesPerSecond(amount).to_string()),
        Kind::Arithmetic => json!(FlopsPerSecond(amount).to_string()),
        Kind::Time => json!(Seconds(amount).to_string()),
        Kind::Price => json!(UsdPerHour(amount).to_string()),
        Kind::Count
        | Kind::Length
        | Kind::Steps
        | Kind::Number
        | Kind::Share
        | Kind::Bytes
        | Kind::Factor
        | Kind::Word => {
            json!(amount)
        }
    })
}

/// Returns the amount in a field, in the base unit of its kind.
fn amount(kind: Kind, present: &Value) -> Option<f64> {
    let text = present.as_str();
    match kind {
        Kind::Size => text?.parse().ok().map(Bytes::as_f64),
        Kind::Rate => text?.parse().ok().map(|BytesPerSecond(rate)| rate),
        Kind::Arithmetic => text?.parse().ok().map(|FlopsPerSecond(rate)| rate),
        Kind::Time => text?.parse().ok().map(|Seconds(time)| time),
        Kind::Price => text?.parse().ok().map(|UsdPerHour(price)| price),
        Kind::Count
        | Kind::Length
        | Kind::Steps
        | Kind::Number
        | Kind::Share
        | Kind::Bytes
        | Kind::Factor
        | Kind::Word => present.as_f64(),
    }
}

fn plain(error: &serde_json::Error) -> String {
    error.to_string().replace("unknown variant", "unknown value")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::key::{Level, all, find};
    use trainyard_models::{Model, find as model};
    use trainyard_plan::GlobalBatch;

    fn key(name: &str) -> Key {
        find(name).expect("a key")
    }

    #[test]
    fn every_key_of_a_job_is_a_field_of_it() {
        for key in all().filter(|key| matches!(key.level, Level::Job | Level::Search)) {
            let setting = match (key.kind, key.name) {
                (Kind::Word, "data.format") => Setting::Word("jpeg".into()),
                (Kind::Word, "training.optimizer") => Setting::Word("sgd".into()),
                (Kind::Word, "goal.objective") => Setting::Word("time".into()),
                (Kind::Word, "training.method") => Setting::Word("lora".into()),
                (Kind::Word, "training.lora.base") => Setting::Word("int8".into()),
                (Kind::Word, "training.dpo.reference") => Setting::Word("precomputed".into()),
                (Kind::Word, _) => Setting::Word("any".into()),
                _ => Setting::Number(3.0),
            };
            let set = set_job(&JobSpec::default(), key, &setting).unwrap_or_else(|why| panic!("{}: {why}", key.name));
            assert_ne!(set, JobSpec::default(), "{}", key.name);
        }
    }

    #[test]
    fn every_dimension_of_a_model_is_a_field_of_it() {
        let spec = model("gpt2").expect("in the catalog").model.spec();
        for key in all().filter(|key| key.level == Level::Model) {
            let setting = if key.kind == Kind::Word { Setting::Word("flash".into()) } else { Setting::Number(1536.0) };
            let set = set_model(&spec, key, &setting).unwrap_or_else(|why| panic!("{}: {why}", key.name));
            assert_ne!(set, spec, "{}", key.name);
        }
    }

    #[test]
    fn a_wider_model_has_wider_feed_forward_parts() {
        let spec = model("gpt2-xl").expect("in the catalog").model.spec();
        let wider = set_model(&spec, key("model.hidden"), &Setting::Factor(2.0)).expect("whole");
        assert_eq!((wider.hidden, wider.ffn), (Some(3200), Some(12_800)));
        let longer = set_model(&spec, key("model.seq_len"), &Setting::Number(2048.0)).expect("whole");
        assert!(Model::try_from(longer).is_ok());
        let half = set_model(&spec, key("model.heads"), &Setting::Factor(0.5)).expect_err("25 heads");
        assert!(half.contains("12.5"), "{half}");
    }

    #[test]
    fn what_stands_for_the_same_is_left_out_and_the_rest_is_kept() {
        let mut job = JobSpec::default();
        (job.data.tokens, job.training.global_batch) = (Some(1e9), Some(GlobalBatch::Exactly(8)));
        job.goal.deadline = Some("2 d".into());
        let more = set_job(&job, key("data.samples"), &Setting::Number(10.0)).expect("a field");
        assert_eq!((more.data.samples, more.data.tokens), (Some(10), None));
        let twice = set_job(&job, key("data.tokens"), &Setting::Factor(2.0)).expect("a field");
        assert_eq!((twice.data.tokens, twice.training.global_batch), (Some(2e9), job.training.global_batch));
        let fragile = set_job(&job, key("campaign.node_mtbf"), &Setting::Factor(0.5)).expect("half of the default");
        let mtbf: Seconds = fragile.campaign.and_then(|own| own.node_mtbf).expect("it is set").parse().expect("a time");
        assert!((mtbf.0 / operations().node_mtbf.value.0 - 0.5).abs() < 1e-2, "{mtbf}");
        let sooner = set_job(&job, key("goal.deadline"), &Setting::Factor(0.5)).expect("a field");
        assert_eq!(sooner.goal.deadline.as_deref(), Some("1 d"));
        assert!(set_job(&job, key("goal.budget"), &Setting::Factor(0.5)).is_err());
        // A field set to what it is changes nothing.
        assert_eq!(set_job(&job, key("data.tokens"), &Setting::Number(1e9)), Ok(job));
    }
}
