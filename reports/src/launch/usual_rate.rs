//! Learning rates with which weights are usually trained further.

use super::job::Job;
use trainyard_models::{Family, Model, PublishedRate, predicts_next_token};
use trainyard_plan::{Method, Optimizer};

/// Returns usual peak learning rates, as what follows `peak learning rate`, of AdamW for a fine-tuning and of SGD for networks
/// with batch normalisation; none where no source is known.
///
/// # Source
///
/// Decoders: Hugging Face TRL 1.16, `trl/scripts/sft.py`; on preferences `trl/scripts/dpo.py`, and `learning_rate` in
/// `trl/trainer/dpo_config.py`. Encoders: Devlin et al., arXiv:1810.04805, appendix A.3; with adapters Hu et al.,
/// arXiv:2106.09685, appendix D (RoBERTa base). Images: Goyal et al., arXiv:1706.02677, section 5.1, linear in the batch.
pub(super) fn told(job: &Job<'_>) -> String {
    let plan = job.plan();
    if plan.optimizer() == Optimizer::Momentum && !job.is_fine_tuning() && plan.model().normalises_over_batches() {
        let rate = OF_256 * plan.batch().global as f64 / 256.0;
        return format!(
            ", usually about {} for this batch (Goyal et al., arXiv:1706.02677, section 5.1)",
            human_rate(rate)
        );
    }
    of_fine_tuning(job).into()
}

/// Tells at which learning rate a trained decoder's pretraining is gone on with, after that of its pretraining.
///
/// # Source
///
/// Touvron et al., LLaMA, arXiv:2302.13971, section 2.3: a cosine down to a tenth of the peak.
pub(super) fn of_further_training(rate: &PublishedRate) -> String {
    format!(
        "about {:.0e}, a tenth of the {:e} of its pretraining ({}), where a schedule that decays to a tenth ends: the whole rate would undo a part of what the weights have learnt",
        rate.peak / 10.0,
        rate.peak,
        rate.source
    )
}

/// The learning rate with which networks for images are trained by SGD with momentum in batches of 256.
const OF_256: f64 = 0.1;

/// Formats a learning rate with two digits.
fn human_rate(rate: f64) -> String {
    let scale = 10_f64.powf(1.0 - rate.log10().floor());
    ((rate * scale).round() / scale).to_string()
}

fn of_fine_tuning(job: &Job<'_>) -> &'static str {
    let plan = job.plan();
    if !job.is_fine_tuning() || !plan.optimizer().is_adam() {
        return "";
    }
    let decodes = predicts_next_token(plan.model());
    match (plan.method(), plan.tuning_kind().dpo) {
        (Method::Lora | Method::Qlora, true) => ", usually about 5e-6 for adapters trained on preferences",
        (_, true) => ", usually 5e-7 to 1e-6 where all weights are trained on preferences",
        (Method::Lora | Method::Qlora, false) if decodes => ", usually 1e-4 to 2e-4 for adapters",
        (Method::Full, false) if decodes => ", usually about 1e-5 where all weights are trained",
        (Method::Lora | Method::Qlora, false) if is_encoder(plan.model()) => {
            ", usually 4e-4 to 5e-4 for adapters of encoders (Hu et al., arXiv:2106.09685, appendix D)"
        }
        (Method::Full, false) if is_encoder(plan.model()) => {
            ", usually 2e-5 to 5e-5 where all weights of encoders are trained (Devlin et al., arXiv:1810.04805, appendix A.3)"
        }
        _ => "",
    }
}

/// Returns `true` for an encoder of text, as BERT.
fn is_encoder(model: &Model) -> bool {
    matches!(model.family(), Family::Bert | Family::Electra)
        || (model.family() == Family::Blocks && model.spec().causal == Some(false))
}

#[cfg(test)]
mod tests {
    use super::human_rate;

    #[test]
    fn rates_have_two_digits() {
        assert_eq!([0.4, 0.0125, 3.2, 12.8].map(human_rate), ["0.4", "0.013", "3.2", "13"]);
    }
}
