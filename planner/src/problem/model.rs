//! The model of a job: of the catalog, of a file, of a configuration, or by its dimensions.

use super::error::inside;
use trainyard_models::{
    Bert, CatalogEntry, Family, HeadKind, Model, ModelSpec, find, find_published, predicted_tokens,
};
use trainyard_plan::{Architecture, ModelChoice};
use trainyard_units::{CatalogError, Invalid};

/// The name of a model that the user did not name.
pub const UNNAMED_MODEL: &str = "own-model";

/// Checks that the cost of a sample can be counted.
pub(crate) fn countable(model: &Model) -> Result<(), Invalid> {
    if Architecture::new(model.clone()).micro_batch_max() > 0 {
        return Ok(());
    }
    let allowed = "smaller: a single sample of it is beyond counting; shorten model.seq_len, or take fewer layers";
    Err(Invalid::value("model", format!("`{}`", model.name()), allowed))
}

/// Returns a model as the executor computes it: it scores the vocabulary for tokens that are predicted, whatever else a
/// model says.
pub(crate) fn as_executed(model: Model) -> Model {
    match model {
        Model::Bert(bert) if matches!(bert.head, HeadKind::Pretraining | HeadKind::MaskedLanguageModel) => {
            let predictions = Some(predicted_tokens(bert.predictions, bert.seq_len));
            Model::Bert(Bert { predictions, ..bert })
        }
        model => model,
    }
}

/// Returns a description with other samples: a table of positions and a decoder's samples that were as long stay so.
pub(crate) fn with_seq_len(model: ModelSpec, seq_len: Option<u64>) -> ModelSpec {
    let as_long = |own: Option<u64>| if own == model.seq_len { seq_len } else { own };
    ModelSpec { positions: as_long(model.positions), decoder_seq_len: as_long(model.decoder_seq_len), seq_len, ..model }
}

/// Returns the model of a description.
pub(crate) fn valid(spec: ModelSpec) -> Result<Model, Invalid> {
    Model::try_from(spec).map_err(|error| inside("model", &error, error.hint()))
}

/// Returns the model that a job names or describes; `read` is the content of the file that it names, if it names one.
pub(crate) fn model(choice: &ModelChoice, read: Option<ModelSpec>) -> Result<Model, Invalid> {
    valid_of(choice, model_spec(choice, read)?)
}

/// Returns the model of a description in which lengths that the job says are in place of its own.
pub(crate) fn valid_of(choice: &ModelChoice, spec: ModelSpec) -> Result<Model, Invalid> {
    Model::try_from(spec).map_err(|error| {
        let lengths = [("seq_len", choice.seq_len), ("decoder_seq_len", choice.decoder_seq_len)];
        let of_job = lengths.into_iter().any(|(field, own)| own.is_some() && error.invalid().field() == field);
        if of_job { error.invalid().clone().within("model") } else { inside("model", &error, error.hint()) }
    })
}

/// Returns the tokens of the longest sequence that the published weights of a job's model were trained for, if the catalog
/// or the configuration that was `read` says so.
pub(crate) fn context_length(choice: &ModelChoice, read: Option<&ModelSpec>) -> Option<u64> {
    if choice.config.is_some() {
        return read?.seq_len;
    }
    published(choice.name.as_deref()?).ok()?.context_length
}

pub(crate) fn model_spec(choice: &ModelChoice, read: Option<ModelSpec>) -> Result<ModelSpec, Invalid> {
    one_source(choice)?;
    let mut spec = match (&choice.name, choice.family) {
        _ if choice.file.is_some() || choice.config.is_some() => {
            let field = if choice.file.is_some() { "model.file" } else { "model.config" };
            read.ok_or(Invalid::missing(field, "the file was not read"))?
        }
        (name, Some(family)) => {
            only_of_decoders(choice, family)?;
            return Ok(own_model(choice, name.as_deref(), family));
        }
        (Some(name), None) => catalog_spec(name)?,
        (None, None) => {
            return Err(Invalid::missing(
                "model",
                "write name = \"gpt2\", file = \"my-model.toml\", config = \"config.json\", or family = \"gpt\" with its dimensions",
            ));
        }
    };
    only_overrides(choice)?;
    only_of_decoders(choice, spec.family)?;
    if choice.seq_len.is_some() {
        spec = with_seq_len(spec, choice.seq_len);
    }
    spec.decoder_seq_len = choice.decoder_seq_len.or(spec.decoder_seq_len);
    spec.image_size = choice.image_size.or(spec.image_size);
    spec.attention = choice.attention.or(spec.attention);
    Ok(spec)
}

/// Refuses the length of what a decoder writes for a model that has none behind an encoder.
fn only_of_decoders(choice: &ModelChoice, family: Family) -> Result<(), Invalid> {
    match choice.decoder_seq_len.filter(|_| !family.has_decoder_length()) {
        Some(tokens) => {
            let allowed = format!("left out: a model of family {family} has no decoder behind an encoder");
            Err(Invalid::value("model.decoder_seq_len", tokens, allowed)
                .with_hint("`model.seq_len` is the length of its samples"))
        }
        None => Ok(()),
    }
}

/// A model comes from the catalog, from a file, from a configuration or from its dimensions. Those that do not bring
/// their own name may be given one.
fn one_source(choice: &ModelChoice) -> Result<(), Invalid> {
    let conflict = |first, second, rule| Err(Invalid::conflict(first, second, rule));
    match (&choice.file, &choice.config, choice.family, &choice.name) {
        (Some(_), Some(_), _, _) => conflict("model.file", "model.config", "write one of them"),
        (Some(_), _, Some(_), _) => conflict("model.file", "model.family", "a file says its own family"),
        (_, Some(_), Some(_), _) => conflict("model.config", "model.family", "a configuration says its own family"),
        (Some(_), _, _, Some(_)) => conflict("model.name", "model.file", "write one of them"),
        _ => Ok(()),
    }
}

/// A model of the catalog, which leaves the attention kernel to software and GPU.
fn catalog_spec(name: &str) -> Result<ModelSpec, Invalid> {
    let entry = published(name).map_err(|error| error.at("model"))?;
    Ok(ModelSpec { attention: None, ..entry.model.spec() })
}

/// Returns the model of the catalog that is named so there, or where its weights are published.
fn published(name: &str) -> Result<&'static CatalogEntry, CatalogError> {
    find_published(name).map_or_else(|| find(name), Ok)
}

fn own_model(choice: &ModelChoice, name: Option<&str>, family: Family) -> ModelSpec {
    ModelSpec {
        layers: choice.layers,
        hidden: choice.hidden,
        heads: choice.heads,
        ffn: choice.ffn,
        vocab: choice.vocab,
        seq_len: choice.seq_len,
        decoder_seq_len: choice.decoder_seq_len,
        attention: choice.attention,
        image_size: choice.image_size,
        inputs: choice.inputs,
        outputs: choice.outputs,
        ..ModelSpec::new(name.unwrap_or(UNNAMED_MODEL), family)
    }
}

/// A model of the catalog or of a file has its dimensions; only the sequence length and attention may be overridden.
fn only_overrides(choice: &ModelChoice) -> Result<(), Invalid> {
    let set = [
        ("model.layers", choice.layers.is_some()),
        ("model.hidden", choice.hidden.is_some()),
        ("model.heads", choice.heads.is_some()),
        ("model.ffn", choice.ffn.is_some()),
        ("model.vocab", choice.vocab.is_some()),
        ("model.inputs", choice.inputs.is_some()),
        ("model.outputs", choice.outputs.is_some()),
    ];
    match set.into_iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((field, _)) => Err(Invalid::conflict(
            field,
            "model.name",
            "a model of the catalog or of a file has its dimensions; write family = \"gpt\" for others",
        )),
    }
}
