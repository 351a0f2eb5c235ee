//! Operators as calibration times them: under which class and shape, and of which parts others consist.

use std::collections::BTreeSet;
use trainyard_hardware_profiles::{MeasuredMachine, NumberFormat, OperatorCase, OperatorClass, OperatorSample};
use trainyard_plan::operators::{
    Attention, Image, Mask, Operator, OperatorGraph, OperatorKind, Places, Pool, Routing, Sharing, Tuned,
};
use trainyard_plan::{Optimizer, Precision};

/// The format in which layers compute.
pub(super) fn format_of(precision: Precision) -> NumberFormat {
    match precision {
        Precision::Fp32 | Precision::Tf32 => NumberFormat::Fp32,
        Precision::Fp16Mixed => NumberFormat::Fp16,
        // Refused before: no machine was measured in eight bits.
        Precision::Bf16Mixed | Precision::Fp8Mixed => NumberFormat::Bf16,
    }
}

/// Returns the cases by which a measured machine prices the passes of a model's layers for micro-batches of `samples`,
/// with so many `ranks` at work and layers shared among them; operators that it cannot price are left out.
pub fn cases_of_layers(
    graph: &OperatorGraph,
    samples: u64,
    sharing: Sharing,
    ranks: u32,
    precision: Precision,
) -> BTreeSet<OperatorCase> {
    let operators = graph.distinct().iter().flat_map(|layer| &layer.operators);
    let of = |operator: &Operator| timed_parts(operator.on_rank(samples, sharing), graph.drops_out());
    let parts = operators.filter_map(of).flatten();
    let cases = parts.filter_map(|(_, part)| class_and_shape(part));
    let cases = cases.filter(|(_, shape)| !shape.contains(&0));
    cases.map(|(operator, shape)| OperatorCase { operator, format: format_of(precision), ranks, shape }).collect()
}

/// Returns the cases by which it prices what is done once a step over so many parameters in so many tensors.
pub fn cases_of_update(
    optimizer: Optimizer,
    [parameters, tensors]: [u64; 2],
    ranks: u32,
    precision: Precision,
) -> BTreeSet<OperatorCase> {
    let format = format_of(precision);
    let rounding = (format != NumberFormat::Fp32).then_some((OperatorClass::Rounding, format));
    let single = [Some(OperatorClass::Accumulate), Some(OperatorClass::Flatten), class_of_update(optimizer)];
    let classes = single.into_iter().flatten().map(|class| (class, NumberFormat::Fp32)).chain(rounding);
    let shape = vec![parameters, tensors];
    classes.map(|(operator, format)| OperatorCase { operator, format, ranks, shape: shape.clone() }).collect()
}

/// Counts those of some cases that are far from what was timed: no sample of the operator has each dimension within
/// four times theirs. More rows or samples, the first dimension, are not far: they take longer in proportion.
pub fn far_from_timed(machine: &MeasuredMachine, cases: &BTreeSet<OperatorCase>) -> usize {
    let is_near = |sample: &OperatorSample, case: &OperatorCase| {
        let apart = |at: usize| (case.shape[at] as f64 / sample.shape[at] as f64).ln();
        let limit = FAR.ln() + 1e-9;
        (sample.operator, sample.format) == (case.operator, case.format)
            && apart(0) >= -limit
            && (1..case.shape.len()).all(|at| apart(at).abs() <= limit)
    };
    cases.iter().filter(|case| !machine.operators.iter().any(|sample| is_near(sample, case))).count()
}

/// The ratio of sizes beyond which an operator's rate may well be another.
const FAR: f64 = 4.0;

/// The class under which calibration times an update; none for optimizers that the executor does not have.
pub(super) fn class_of_update(optimizer: Optimizer) -> Option<OperatorClass> {
    match optimizer {
        Optimizer::AdamW | Optimizer::Adam => Some(OperatorClass::AdamW),
        Optimizer::Sgd => Some(OperatorClass::Sgd),
        Optimizer::Momentum => Some(OperatorClass::Momentum),
        Optimizer::Lars => Some(OperatorClass::Lars),
        Optimizer::Lamb => Some(OperatorClass::Lamb),
        Optimizer::AdamW8bit | Optimizer::RmsProp => None,
    }
}

/// The quantity that an operator's time grows with: arithmetic for products, elements for the rest.
pub fn work_of_operator(class: OperatorClass, shape: &[u64]) -> f64 {
    let product = |dimensions: &[u64]| dimensions.iter().map(|size| *size as f64).product::<f64>();
    match (class, shape) {
        (OperatorClass::Attention | OperatorClass::FullAttention, [samples, heads, sequence, _]) => {
            product(&[*samples, *heads, *sequence, *sequence])
        }
        (OperatorClass::Embedding, [rows, _, _, width]) => product(&[*rows, *width]),
        (OperatorClass::Convolution, [samples, pixels, inputs, outputs, side, _]) => {
            product(&[*samples, *pixels, *inputs, *outputs, *side, *side])
        }
        (class, [parameters, _]) if class.is_over_parameters() => *parameters as f64,
        _ => product(shape),
    }
}

/// The class and shape under which calibration times an operator; none for operators that the executor does not have.
pub(super) fn class_and_shape(operator: OperatorKind) -> Option<(OperatorClass, Vec<u64>)> {
    Some(match operator {
        OperatorKind::Linear { rows, inputs, outputs, .. } => (OperatorClass::Linear, vec![rows, inputs, outputs]),
        OperatorKind::Attention(attention) => {
            let class = match attention.mask {
                Mask::Full | Mask::Local(_) => OperatorClass::FullAttention,
                Mask::Causal | Mask::Window(_) => OperatorClass::Attention,
            };
            if attention.value_width != attention.head_width || attention.sinks {
                return None;
            }
            // Where ranks share the tokens of a sample, the keys of each are as much work as the own ones.
            let blocks = attention.keys.div_ceil(attention.queries.max(1));
            (class, vec![attention.samples * blocks, attention.heads, attention.queries, attention.head_width])
        }
        OperatorKind::LayerNorm { rows, width } => (OperatorClass::LayerNorm, vec![rows, width]),
        OperatorKind::RmsNorm { rows, width } => (OperatorClass::RmsNorm, vec![rows, width]),
        OperatorKind::Activation { rows, width } => (OperatorClass::Activation, vec![rows, width]),
        OperatorKind::Relu { rows, width } => (OperatorClass::Relu, vec![rows, width]),
        OperatorKind::GatedActivation { rows, width } => (OperatorClass::GatedActivation, vec![rows, width]),
        OperatorKind::Rotary { rows, width } => (OperatorClass::Rotary, vec![rows, width]),
        OperatorKind::Residual { rows, width, .. } => (OperatorClass::Residual, vec![rows, width]),
        OperatorKind::Embedding { rows, vocab, positions, width, .. } => {
            // Without learned positions there is nothing to add: as if there were one.
            (OperatorClass::Embedding, vec![rows, vocab, positions.max(1), width])
        }
        OperatorKind::ClassToken { rows, width, .. } => (OperatorClass::ClassToken, vec![rows, width]),
        OperatorKind::TiedHead { rows, width, vocab, .. } => (OperatorClass::TiedHead, vec![rows, width, vocab]),
        OperatorKind::CrossEntropy { rows, vocab } => (OperatorClass::CrossEntropy, vec![rows, vocab]),
        OperatorKind::Image(image) => return class_and_shape_of_image(image),
        _ => return None,
    })
}

/// Returns the operators that calibration times of which another consists, with how often it has each; itself, if it is
/// one of them. Nothing for products with masks for experts, which the executor does not have. Dropout is a part where
/// training has it: the operators of other models count it only because their published training had it.
pub(super) fn timed_parts(operator: OperatorKind, drops_out: bool) -> Option<Vec<(u64, OperatorKind)>> {
    let mut parts = parts_without_dropout(operator)?;
    parts.extend(dropout_of(operator).filter(|_| drops_out).map(|dropout| (1, OperatorKind::Image(dropout))));
    Some(parts)
}

/// Returns the dropout of an operator that has some; of attention that of the weights that its mask lets through.
fn dropout_of(operator: OperatorKind) -> Option<Image> {
    let (samples, elements) = match operator {
        OperatorKind::Residual { rows, width, dropout: true }
        | OperatorKind::Embedding { rows, width, dropout: true, .. } => (rows, width),
        OperatorKind::Attention(attention) if attention.dropout => seen_scores(attention),
        _ => return None,
    };
    Some(Image::Dropout { samples, elements })
}

/// Returns the queries of all heads, and the keys that each sees.
fn seen_scores(attention: Attention) -> (u64, u64) {
    let seen = attention.keys as f64 * attention.unmasked_share();
    (attention.samples * attention.heads * attention.queries, seen.ceil() as u64)
}

/// Returns the attention without bounds, and the hyperbolic tangents of its scores, which are also what GELU computes.
fn parts_of_capped(attention: Attention) -> Vec<(u64, OperatorKind)> {
    let (rows, width) = seen_scores(attention);
    let plain = OperatorKind::Attention(Attention { soft_cap: false, ..attention });
    vec![(1, plain), (1, OperatorKind::Activation { rows, width })]
}

fn parts_without_dropout(operator: OperatorKind) -> Option<Vec<(u64, OperatorKind)>> {
    match operator {
        OperatorKind::ExpertLinear { experts, rows, inputs, outputs, .. } => {
            let each = OperatorKind::Linear { rows: rows.div_ceil(experts.max(1)), inputs, outputs, bias: false };
            Some(vec![(experts, each)])
        }
        OperatorKind::Attention(attention) if attention.soft_cap => Some(parts_of_capped(attention)),
        OperatorKind::Routing(routing) => parts_of_routing(routing),
        OperatorKind::Tuned(tuned) => parts_of_tuned(tuned),
        OperatorKind::CentredNorm { rows, width, scale: false } => {
            Some(vec![(1, OperatorKind::LayerNorm { rows, width })])
        }
        _ => Some(vec![(1, operator)]),
    }
}

/// Returns what fine-tuning computes: products, and for an adapter the sum with what it stands beside, and the dropout
/// of its inputs. Nothing for weights in NF4, which the executor does not have.
fn parts_of_tuned(tuned: Tuned) -> Option<Vec<(u64, OperatorKind)>> {
    let product = |rows, inputs, outputs| OperatorKind::Linear { rows, inputs, outputs, bias: false };
    match tuned {
        Tuned::Frozen { quantised: Some(_), .. } => None,
        Tuned::Frozen { experts, rows, inputs, outputs, .. } => {
            Some(vec![(experts, product(rows.div_ceil(experts.max(1)), inputs, outputs))])
        }
        Tuned::Adapter { rows, inputs, outputs, rank, dropout } => {
            let dropped = OperatorKind::Image(Image::Dropout { samples: rows, elements: inputs });
            let sum = OperatorKind::Residual { rows, width: outputs, dropout: false };
            let products = [product(rows, inputs, rank), product(rows, rank, outputs), sum];
            Some(products.into_iter().chain(dropout.then_some(dropped)).map(|part| (1, part)).collect())
        }
    }
}

/// Returns what routing consists of: the router's product and the softmax of its scores, and rows that are looked up,
/// which those of experts are weighted and added up behind.
fn parts_of_routing(routing: Routing) -> Option<Vec<(u64, OperatorKind)>> {
    let looked_up = |rows: u64, of: u64, width: u64| OperatorKind::Embedding {
        rows,
        vocab: of,
        positions: 0,
        segments: 0,
        width,
        dropout: false,
    };
    let (Routing::Router { places, .. } | Routing::Dispatch(places) | Routing::Combine(places)) = routing;
    let Places { tokens, places: count, width, experts, group: None, .. } = places else { return None };
    let weighted = OperatorKind::Residual { rows: count, width, dropout: false };
    Some(match routing {
        Routing::Router { .. } => vec![
            (1, OperatorKind::Linear { rows: tokens, inputs: width, outputs: experts, bias: false }),
            (1, OperatorKind::CrossEntropy { rows: tokens, vocab: experts }),
        ],
        Routing::Dispatch(_) => vec![(1, looked_up(count, tokens, width))],
        Routing::Combine(_) => vec![(1, looked_up(count, count, width)), (2, weighted)],
    })
}

fn class_and_shape_of_image(image: Image) -> Option<(OperatorClass, Vec<u64>)> {
    Some(match image {
        Image::Convolution(convolution) => {
            let [depth, height, width] = convolution.kernel;
            let plain = convolution.groups == 1 && !convolution.transposed && depth == 1 && height == width;
            if !plain {
                return None;
            }
            let pixels = convolution.output.iter().product();
            let stride = convolution.input[1].div_ceil(convolution.output[1].max(1)).max(1);
            let shape = vec![convolution.samples, pixels, convolution.inputs, convolution.outputs, height, stride];
            (OperatorClass::Convolution, shape)
        }
        Image::Dropout { samples, elements } => (OperatorClass::Dropout, vec![samples, elements]),
        Image::Norm { samples, pixels, channels, frozen: false } => {
            (OperatorClass::BatchNorm, vec![samples, pixels, channels])
        }
        Image::Pool { samples, windows, channels, kind: Pool::Max, .. } => {
            (OperatorClass::MaxPool, vec![samples, windows, channels])
        }
        Image::Pool { samples, pixels, channels, kind: Pool::Mean, .. } => {
            (OperatorClass::MeanPool, vec![samples, pixels, channels])
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::measured::machine;
    use super::*;
    use trainyard_plan::operators::Convolution;

    #[test]
    fn other_widths_and_fewer_rows_are_far_and_more_rows_are_not() {
        let case = |rows, width| OperatorCase {
            operator: OperatorClass::LayerNorm,
            format: NumberFormat::Fp32,
            ranks: 1,
            shape: vec![rows, width],
        };
        let OperatorCase { operator, format, ranks, shape } = case(64, 64);
        let sample =
            OperatorSample { operator, format, ranks, threads: 1, shape, forward_s: 1.0, backward_s: 1.0, spread: 0.0 };
        let machine = machine(vec![sample]);
        let far = |rows, width| far_from_timed(&machine, &BTreeSet::from([case(rows, width)]));
        assert_eq!([far(16, 64), far(9999, 64), far(64, 16), far(64, 256)], [0; 4]);
        assert_eq!([far(15, 64), far(64, 15), far(64, 257)], [1; 3]);
    }

    #[test]
    fn bounds_of_scores_take_what_an_activation_of_those_that_are_seen_takes() {
        let graph = trainyard_models::find("gemma-2-9b").expect("in the catalog").model.graph();
        let attention = graph.layer(2).operators.iter().find_map(|operator| match operator.kind {
            OperatorKind::Attention(attention) => Some(attention),
            _ => None,
        });
        let attention = Attention { queries: 8, keys: 8, own_keys: 8, ..attention.expect("a block has one") };
        assert!(attention.soft_cap && attention.mask == Mask::Causal);
        let plain = Attention { soft_cap: false, ..attention };
        // Half of the pairs of eight tokens.
        let tangents = OperatorKind::Activation { rows: 16 * 8, width: 4 };
        let parts = timed_parts(OperatorKind::Attention(attention), false).expect("it is timed");
        assert_eq!(parts, [(1, OperatorKind::Attention(plain)), (1, tangents)]);
        assert_eq!(timed_parts(OperatorKind::Attention(plain), false), Some(vec![(1, OperatorKind::Attention(plain))]));
    }

    #[test]
    fn every_operator_of_the_families_that_run_has_a_class_and_its_shape() {
        let families =
            ["gpt2", "llama-3-8b", "mistral-7b", "gemma-2-9b", "bert-large", "vit-b-16", "resnet18", "resnet50"];
        for name in families.into_iter().chain(["mnist-mlp"]) {
            let graph =
                trainyard_models::find(name).unwrap_or_else(|_| panic!("{name} is in the catalog")).model.graph();
            for operator in graph.layers().flat_map(|layer| &layer.operators) {
                for sharing in [Sharing::WHOLE, Sharing { sequence: true, ..Sharing::tensor(2) }] {
                    let kind = operator.on_rank(2, sharing);
                    for (_, part) in timed_parts(kind, false).unwrap_or_default() {
                        let (class, shape) = class_and_shape(part).unwrap_or_else(|| panic!("{name}: {part:?}"));
                        assert_eq!(shape.len(), class.dimensions(), "{part:?}");
                        assert!(work_of_operator(class, &shape) > 0.0 && !shape.contains(&0), "{part:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn dropout_is_timed_where_training_has_it() {
        let cases = |share: Option<f64>, attention: Option<f64>| {
            let spec = trainyard_models::ModelSpec {
                dropout: share.map(trainyard_models::DropoutSpec::Share),
                attention_dropout: attention.map(trainyard_models::DropoutSpec::Share),
                ..trainyard_models::find("gpt2").expect("in the catalog").model.spec()
            };
            let graph = trainyard_models::Model::try_from(spec).expect("valid").graph();
            let all = cases_of_layers(&graph, 2, Sharing::WHOLE, 1, Precision::Fp32);
            let dropout = all.into_iter().filter(|case| case.operator == OperatorClass::Dropout);
            dropout.map(|case| case.shape).collect::<Vec<_>>()
        };
        let (residual, attention) = (vec![2 * 1024, 768], vec![2 * 12 * 1024, 512]);
        assert_eq!(cases(None, None), Vec::<Vec<u64>>::new());
        assert_eq!(cases(Some(0.0), None), Vec::<Vec<u64>>::new());
        assert_eq!(cases(Some(0.1), None), [residual.clone(), attention.clone()]);
        assert_eq!(cases(Some(0.1), Some(0.0)), [residual]);
        assert_eq!(cases(None, Some(0.1)), [attention]);
    }

    #[test]
    fn attention_to_the_keys_of_several_ranks_is_that_of_as_many_samples() {
        let graph = trainyard_models::find("gpt2").expect("in the catalog").model.graph();
        let attention = graph.distinct()[1].operators.iter().find(|o| matches!(o.kind, OperatorKind::Attention(_)));
        let of = |context| {
            let kind = attention.expect("blocks have it").on_rank(3, Sharing { context, ..Sharing::WHOLE });
            class_and_shape(kind).expect("it is measured").1
        };
        assert_eq!((of(1), of(4)), (vec![3, 12, 1024, 64], vec![12, 12, 256, 64]));
    }

    #[test]
    fn a_convolution_is_known_by_its_output_and_stride() {
        let convolution = Convolution {
            samples: 2,
            input: [1, 56, 56],
            output: [1, 28, 28],
            inputs: 64,
            outputs: 128,
            kernel: [1, 3, 3],
            groups: 1,
            bias: false,
            transposed: false,
        };
        let of = |convolution| class_and_shape(OperatorKind::Image(Image::Convolution(convolution)));
        assert_eq!(of(convolution), Some((OperatorClass::Convolution, vec![2, 784, 64, 128, 3, 2])));
        assert_eq!(of(Convolution { groups: 32, ..convolution }), None);
        assert_eq!(of(Convolution { transposed: true, ..convolution }), None);
    }
}
