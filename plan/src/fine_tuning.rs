//! Fine-tuning: which weights of a plan's model are trained.

use crate::name::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_models::{
    AdapterTarget, Adapters, Model, OperatorGraph, Quantization, RANK_MAX, Tuning, on_pairs, tuned,
};
use trainyard_units::{Invalid, numbers_or_texts, written_option, written_share_option};

named! {
    /// Which weights are trained.
    Method {
        /// All of them.
        Full = "full",
        /// Adapters beside weights that stay as they are (Hu et al., arXiv:2106.09685).
        Lora = "lora",
        /// The same beside weights in NF4 with double quantisation (Dettmers et al., arXiv:2305.14314).
        Qlora = "qlora" | "q-lora",
        /// The last blocks and the head.
        Frozen = "frozen" | "last-blocks",
    }
}

impl Method {
    /// Returns `true` if adapters are trained beside weights that stay as they are.
    pub fn has_adapters(self) -> bool {
        matches!(self, Self::Lora | Self::Qlora)
    }
}

named! {
    /// What a training gets better at.
    TuningObjective {
        /// The model's own loss, of the next token say (supervised fine-tuning).
        Sft = "sft" | "supervised",
        /// The preferred one of two sequences (direct preference optimisation, Rafailov et al., arXiv:2305.18290).
        Dpo = "dpo",
    }
}

named! {
    /// Where the scores of the model as it was before come from, with which those of the model are compared.
    Reference {
        /// A forward pass of it in every step: of a copy of its weights or, where adapters are trained, of the same weights
        /// without them.
        Model = "model",
        /// One pass over the data set before the first step.
        Precomputed = "precomputed",
    }
}

/// Direct preference optimisation, as TRL's `DPOConfig` sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DpoSpec {
    /// Where the scores of the reference model come from (`precompute_ref_log_probs`); model if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
}

/// What is trained of a model, and towards what: what software must be able to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TuningKind {
    pub method: Method,
    /// `true` if it is trained on preferences.
    pub dpo: bool,
}

impl TuningKind {
    /// All weights, by the model's own loss.
    pub const FULL: Self = Self { method: Method::Full, dpo: false };
}

impl std::fmt::Display for TuningKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}{}", self.method, if self.dpo { " with dpo" } else { "" })
    }
}

named! {
    /// The format of weights beside which the adapters of qlora stand.
    BaseFormat {
        /// Four bits (NormalFloat) with double quantisation.
        Nf4 = "nf4",
        /// Eight bits with outliers in half precision (LLM.int8, Dettmers et al., arXiv:2208.07339).
        Int8 = "int8" | "llm.int8",
    }
}

/// Features between an adapter's two products where nothing is said.
const RANK: u64 = 16;

/// The word for every product of a block.
const ALL_LINEAR: &str = "all-linear";

/// Adapters, as PEFT's `LoraConfig` names them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct LoraSpec {
    /// Features between the two products of an adapter (`r`); 16 if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// What their product is scaled by, times the rank (`lora_alpha`); twice the rank if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Share of their inputs that is dropped out (`lora_dropout`), `0.05` or `5%`; 0 if left out.
    #[serde(default, deserialize_with = "written_share_option", skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// The products that have adapters: `q`, `k`, `v`, `o`, `gate`, `up`, `down`, or `all-linear`, every product of the
    /// blocks, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<String>>,
    /// The format of the weights of blocks with qlora, nf4 or int8; nf4 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseFormat>,
}

/// Which weights of the model are trained and towards what, where not all are by the model's own loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FineTuningSpec {
    /// Which weights are trained.
    pub method: Method,
    /// The adapters of lora and qlora.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSpec>,
    /// With frozen, the last so many blocks are trained, and what follows them; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained_blocks: Option<u32>,
    /// Training on preferences; the model's own loss if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpo: Option<DpoSpec>,
}

impl FineTuningSpec {
    /// Returns what a method and its settings mean, on preferences if there is `dpo`, with every default filled in; `None`
    /// if all weights are trained by the model's own loss.
    ///
    /// # Errors
    ///
    /// When a setting does not belong to the method, or is out of range.
    pub fn towards(
        dpo: Option<DpoSpec>,
        method: Method,
        lora: Option<&LoraSpec>,
        blocks: Option<u32>,
    ) -> Result<Option<Self>, Invalid> {
        let dpo = dpo.map(|dpo| DpoSpec { reference: Some(dpo.reference.unwrap_or(Reference::Model)) });
        if dpo.is_some() && method == Method::Frozen {
            let rule = "the last blocks alone are not trained on preferences";
            return Err(Invalid::conflict("objective", "method", rule)
                .with_hint("use method = \"full\", \"lora\" or \"qlora\", or leave objective out"));
        }
        if let (Some(_), false) = (lora, method.has_adapters()) {
            let rule = format!("method is {method}, which has no adapters");
            return Err(Invalid::inside("lora", rule).with_hint("use method = \"lora\" or \"qlora\""));
        }
        if let (Some(blocks), true) = (blocks, method != Method::Frozen) {
            let rule = format!("method is {method}");
            return Err(Invalid::breaks("trained_blocks", blocks, rule).with_hint("use method = \"frozen\""));
        }
        Ok(match method {
            Method::Full => dpo.map(|_| Self { method, lora: None, trained_blocks: None, dpo }),
            Method::Frozen => Some(Self { method, lora: None, trained_blocks: Some(blocks.unwrap_or(1)), dpo }),
            Method::Lora | Method::Qlora => {
                let lora = Some(filled_in(method, lora.unwrap_or(&LoraSpec::default()))?);
                Some(Self { method, lora, trained_blocks: None, dpo })
            }
        })
    }

    /// Returns the same with every default filled in; `None` if all weights are trained by the model's own loss.
    ///
    /// # Errors
    ///
    /// As [`Self::towards`].
    pub(crate) fn filled_in(&self) -> Result<Option<Self>, Invalid> {
        Self::towards(self.dpo, self.method, self.lora.as_ref(), self.trained_blocks)
    }

    /// Returns what is trained, and towards what.
    pub fn kind(&self) -> TuningKind {
        TuningKind { method: self.method, dpo: self.dpo.is_some() }
    }

    /// Returns the format of the weights beside which adapters stand, if they are quantised.
    pub fn base(&self) -> Option<BaseFormat> {
        let own = self.lora.as_ref().and_then(|lora| lora.base);
        (self.method == Method::Qlora).then(|| own.unwrap_or(BaseFormat::Nf4))
    }

    /// Returns where the scores of the reference model come from, if the training is on preferences.
    pub fn reference(&self) -> Option<Reference> {
        self.dpo.map(|dpo| dpo.reference.unwrap_or(Reference::Model))
    }

    /// Returns the operators of a model that is trained so.
    ///
    /// # Errors
    ///
    /// As [`Self::towards`], and when the model has no such part.
    pub(crate) fn graph(&self, model: &Model) -> Result<OperatorGraph, Invalid> {
        let tuning = self.tuning()?;
        match (self.reference(), tuning) {
            (Some(reference), tuning) => on_pairs(model, tuning.as_ref(), reference == Reference::Model),
            (None, Some(tuning)) => tuned(model, &tuning),
            (None, None) => Ok(model.graph()),
        }
    }

    /// Returns the part of the model that is trained; `None` if it is all of it.
    ///
    /// # Errors
    ///
    /// As [`Self::towards`].
    pub fn tuning(&self) -> Result<Option<Tuning>, Invalid> {
        let Some(own) = self.filled_in()? else { return Ok(None) };
        match self.method {
            Method::Full => return Ok(None),
            Method::Frozen => return Ok(own.trained_blocks.map(Tuning::LastBlocks)),
            Method::Lora | Method::Qlora => {}
        }
        let lora = own.lora.unwrap_or_default();
        Ok(Some(Tuning::Adapters(Adapters {
            rank: lora.rank.unwrap_or(RANK),
            dropout: lora.dropout.is_some_and(|dropout| dropout > 0.0),
            targets: targets(lora.targets.as_deref())?,
            quantised: (self.method == Method::Qlora).then_some(match lora.base {
                None | Some(BaseFormat::Nf4) => Quantization::Nf4,
                Some(BaseFormat::Int8) => Quantization::Int8,
            }),
        })))
    }
}

fn filled_in(method: Method, lora: &LoraSpec) -> Result<LoraSpec, Invalid> {
    if let (Method::Lora, Some(base)) = (method, lora.base) {
        let rule = "method is lora, which keeps weights in the precision that it computes in";
        return Err(
            Invalid::breaks("lora.base", base, rule).with_hint("use method = \"qlora\", or leave lora.base out")
        );
    }
    // Only what is not the usual format is written out.
    let base = lora.base.filter(|base| *base != BaseFormat::Nf4);

    let rank = lora.rank.unwrap_or(RANK);
    if !(1..=RANK_MAX).contains(&rank) {
        return Err(Invalid::range("lora.rank", rank, 1..=RANK_MAX));
    }
    let alpha = lora.alpha.unwrap_or(2.0 * rank as f64);
    if !(alpha > 0.0 && alpha <= 1e6) {
        return Err(Invalid::value("lora.alpha", alpha, "above 0 and at most 1000000"));
    }
    let dropout = lora.dropout.unwrap_or(0.0);
    if !(0.0..1.0).contains(&dropout) {
        return Err(Invalid::value("lora.dropout", dropout, "at least 0 and below 1"));
    }
    let known = targets(lora.targets.as_deref())?;
    let named = if known.is_empty() {
        vec![ALL_LINEAR.to_string()]
    } else {
        known.iter().map(|target| target.name().to_string()).collect()
    };
    Ok(LoraSpec { rank: Some(rank), alpha: Some(alpha), dropout: Some(dropout), targets: Some(named), base })
}

/// Returns the products that are named, in the order of a block; none for all of them.
fn targets(names: Option<&[String]>) -> Result<Vec<AdapterTarget>, Invalid> {
    let Some(names) = names else { return Ok(Vec::new()) };
    if names.is_empty() {
        return Err(Invalid::value("lora.targets", "[]", "a list with at least one product, or all-linear"));
    }
    if names.iter().any(|name| name == ALL_LINEAR) {
        return Ok(Vec::new());
    }
    let short = |name: &str| name.trim_end_matches("_proj").to_string();
    if let Some(unknown) = names.iter().find(|name| AdapterTarget::NAMED.iter().all(|own| own.name() != short(name))) {
        let known = AdapterTarget::NAMED.map(AdapterTarget::name).join(", ");
        return Err(Invalid::value("lora.targets", format!("`{unknown}`"), format!("of {known}, or {ALL_LINEAR}")));
    }
    let named = |target: &AdapterTarget| names.iter().any(|name| short(name) == target.name());
    Ok(AdapterTarget::NAMED.into_iter().filter(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_written_out_and_read_back() {
        let spec = FineTuningSpec::towards(None, Method::Qlora, None, None).expect("valid").expect("a part is trained");
        let lora = spec.lora.clone().expect("adapters");
        assert_eq!((lora.rank, lora.alpha, lora.dropout), (Some(16), Some(32.0), Some(0.0)));
        assert_eq!(lora.targets, Some(vec!["all-linear".to_string()]));
        let again = FineTuningSpec::towards(None, spec.method, spec.lora.as_ref(), None).expect("valid");
        assert_eq!(again.as_ref(), Some(&spec));
        assert_eq!(FineTuningSpec::towards(None, Method::Full, None, None), Ok(None));
        let full = FineTuningSpec::towards(Some(DpoSpec::default()), Method::Full, None, None);
        let full = full.expect("valid").expect("it is on preferences");
        assert_eq!((full.reference(), full.kind().to_string()), (Some(Reference::Model), "full with dpo".into()));
        assert_eq!((full.filled_in(), full.tuning()), (Ok(Some(full.clone())), Ok(None)));
    }

    #[test]
    fn what_does_not_belong_to_the_method_is_told() {
        let lora = |rank, targets: &[&str]| LoraSpec {
            rank,
            targets: Some(targets.iter().map(ToString::to_string).collect()),
            ..LoraSpec::default()
        };
        for (method, lora, blocks, told) in [
            (Method::Full, Some(lora(None, &["q"])), None, "has no adapters"),
            (Method::Lora, None, Some(2), "trained_blocks"),
            (Method::Lora, Some(LoraSpec { rank: Some(0), ..LoraSpec::default() }), None, "from 1 to 4096"),
            (Method::Lora, Some(lora(None, &["query"])), None, "`query`"),
            (Method::Lora, Some(lora(None, &[])), None, "at least one"),
            (Method::Lora, Some(LoraSpec { dropout: Some(1.0), ..LoraSpec::default() }), None, "below 1"),
            (Method::Lora, Some(LoraSpec { base: Some(BaseFormat::Int8), ..LoraSpec::default() }), None, "lora.base"),
            (Method::Lora, Some(LoraSpec { alpha: Some(0.0), ..LoraSpec::default() }), None, "above 0"),
        ] {
            let error = FineTuningSpec::towards(None, method, lora.as_ref(), blocks).expect_err(told).to_string();
            assert!(error.contains(told), "{error}");
        }
        let named = targets(Some(&["v_proj".into(), "q".into()])).expect("known");
        assert_eq!(named, [AdapterTarget::Query, AdapterTarget::Value]);
    }
}
