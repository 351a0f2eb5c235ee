//! What encoders of text are priced with on top, where they are fine-tuned.

use trainyard_models::{HeadKind, Model};

/// Warns that an encoder which is fine-tuned is priced with what predicts words in its pretraining; `None` for models
/// without, and where the model says that it classifies.
pub(super) fn of_pretraining(model: &Model) -> Option<String> {
    let head = match model {
        Model::Bert(bert) => Some(bert.head),
        Model::Blocks(_) => model.spec().head,
        Model::Electra(_) => {
            return Some(
                "priced with ELECTRA's generator, as in pretraining; a fine-tuning trains the discriminator alone and takes less"
                    .into(),
            );
        }
        _ => None,
    };
    matches!(head, Some(HeadKind::Pretraining | HeadKind::MaskedLanguageModel)).then(|| {
        "priced with the head over the vocabulary, as in pretraining; `--model PATH/config.json` with \
         …ForSequenceClassification among its `architectures` prices a classifier"
            .to_owned()
    })
}
