//! Which optimizer networks of a kind are usually trained with, where that is none of Adam's, and which have less state.

use trainyard_models::{Divisible, Model};
use trainyard_plan::Optimizer;
use trainyard_plan::operators::{Image, OperatorGraph, OperatorKind};

/// The usual optimizer of networks of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usual {
    pub(crate) optimizer: Optimizer,
    /// Networks of which kind.
    pub(crate) whose: &'static str,
    /// The optimizer in words.
    pub(crate) name: &'static str,
}

/// Returns the optimizer that a model is usually trained with, where that is none of Adam's.
///
/// # Source
///
/// Batch normalisation: Goyal et al., arXiv:1706.02677, section 5.1. Detectors on a backbone whose normalisation is frozen: He et
/// al., arXiv:1703.06870, section 3.1, and Lin et al., arXiv:1708.02002, section 4.1. Embedding tables: facebookresearch/dlrm,
/// `dlrm_s_pytorch.py`, the default of `--optimizer`, with which MLPerf Training 0.7 to 2.0 trained DLRM.
pub(crate) fn usual_optimizer(model: &Model, graph: &OperatorGraph) -> Option<Usual> {
    if matches!(graph.divisible(), Some(Divisible::TableColumns(_))) {
        return Some(Usual {
            optimizer: Optimizer::Sgd,
            whose: "recommenders with embedding tables",
            name: "plain SGD",
        });
    }
    let mut operators = graph.distinct().iter().flat_map(|layer| &layer.operators);
    let is_frozen = |kind: &OperatorKind| matches!(kind, OperatorKind::Image(Image::Norm { frozen: true, .. }));
    let whose = if model.normalises_over_batches() {
        "networks with batch normalisation"
    } else if operators.any(|operator| is_frozen(&operator.kind)) {
        "detectors with frozen batch normalisation"
    } else {
        return None;
    };
    Some(Usual { optimizer: Optimizer::Momentum, whose, name: "SGD with momentum" })
}

/// Lists the optimizers with less state than a model's own that a person of the field would try for it, the likeliest first.
pub(crate) fn lighter(own: Optimizer, usual: Option<Usual>) -> &'static [Optimizer] {
    use Optimizer::{Adam, AdamW, AdamW8bit, Lamb, Lars, Momentum, RmsProp, Sgd};
    match (own, usual.map(|usual| usual.optimizer)) {
        (Sgd, _) | (AdamW8bit, None) => &[],
        (Momentum | Lars, _) => &[Sgd],
        (_, Some(Sgd)) => &[Sgd, Momentum],
        (_, Some(_)) => &[Momentum, Sgd],
        (AdamW, None) => &[AdamW8bit, Momentum],
        (Adam | RmsProp | Lamb, None) => &[Momentum],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_that_are_not_trained_by_adam_are_known_by_their_operators() {
        let of = |name: &str| {
            let model = &trainyard_models::find(name).expect("in the catalog").model;
            usual_optimizer(model, &model.graph()).map(|usual| usual.optimizer)
        };
        assert_eq!(
            [of("resnet50"), of("mask-rcnn-r50-fpn"), of("retinanet-resnet50-fpn")],
            [Some(Optimizer::Momentum); 3]
        );
        assert_eq!(of("dlrm-small"), Some(Optimizer::Sgd));
        assert_eq!([of("gpt2"), of("vit-b-16"), of("t5-small"), of("gnmt")], [None; 4]);
    }

    #[test]
    fn what_is_lighter_has_less_state() {
        let state = |optimizer: Optimizer| optimizer.state(1 << 20);
        let usual = |optimizer| Usual { optimizer, whose: "", name: "" };
        for own in Optimizer::ALL.iter().copied() {
            for usual in [None, Some(usual(Optimizer::Momentum)), Some(usual(Optimizer::Sgd))] {
                for other in lighter(own, usual).iter().filter(|other| **other != Optimizer::Momentum) {
                    assert!(state(*other) < state(own), "{other} for {own}");
                }
            }
        }
    }
}
