//! Parameter counts of models of sequences and of recommendations against published figures.

use trainyard_models::{Model, ModelSpec, OperatorGraph, Pass, Sharing, find};

fn graph(name: &str) -> OperatorGraph {
    find(name).expect("a model of the catalog").model.graph()
}

#[test]
fn parameter_counts_equal_the_published_ones() {
    for (name, count) in [
        // BartModel of facebook/bart-large: Hugging Face transformers.
        ("bart-large", 406_291_456),
        // NVIDIA/apex: its benchmarks of optimizers on the tensors of MLPerf's GNMT.
        ("gnmt", 160_671_297),
    ] {
        assert_eq!(graph(name).parameters(), count, "{name}");
    }
}

#[test]
fn parameter_counts_round_to_the_published_ones() {
    // In millions: the README of NVIDIA/DeepLearningExamples for Transformer-XL; Vaswani et al., table 3, with a
    // vocabulary of 37 000 where this one has 33 712; the reference of MLPerf for RNN-T.
    for (name, millions, tolerance) in [
        ("transformer-xl-base", 192.0, 0.5),
        ("transformer-xl-large", 285.0, 0.5),
        ("transformer-big", 213.0 - 3.288 * 1.024, 1.5),
        ("rnn-t", 49.0, 0.5),
    ] {
        let counted = graph(name).parameters() as f64 / 1e6;
        assert!((counted - millions).abs() < tolerance, "{name}: {counted}");
    }
}

#[test]
fn the_discriminator_of_electra_has_its_published_parameters() {
    // As many as BERT-base with a pooler and one logit has, BertForSequenceClassification of Hugging Face transformers:
    // the two differ in the activation of the pooler.
    let graph = graph("electra-base");
    let blocks: Vec<u64> = graph.layers().map(|layer| layer.parameters(Sharing::WHOLE)).collect();
    let tables = (30_522 + 512 + 2) * 768 + 2 * 768;
    assert_eq!(tables + blocks[14..].iter().sum::<u64>(), 109_483_009);
    // Twelve blocks of a quarter of the width, and what brings tables to that width and back.
    let (h, e, f) = (192, 768, 768);
    let generator = 12 * (4 * (h * h + h) + 2 * h * f + f + h + 4 * h) + e * h + h;
    assert_eq!(blocks[..13].iter().sum::<u64>(), tables + generator);
}

#[test]
fn forward_arithmetic_of_transformer_xl_is_what_was_derived() {
    // From layers and shapes of its README: about 0.17 and 0.70 GFLOP a token.
    for (name, tokens, gigaflops) in [("transformer-xl-base", 192.0, 0.17), ("transformer-xl-large", 384.0, 0.70)] {
        let counted = graph(name).flops(Pass::Forward).0 / tokens / 1e9;
        assert!((counted / gigaflops - 1.0).abs() < 0.25, "{name}: {counted}");
    }
}

#[test]
fn tables_have_the_published_size() {
    // The README of NVIDIA/DeepLearningExamples, PyTorch/Recommendation/DLRM: checkpoints of 15.0 and 81.9 GB in single
    // precision, its gigabytes being between 2³⁰ and 10⁹ bytes; 16 and 85 GiB in the names of its synthetic data.
    for (name, gibibytes) in [("dlrm-small", 15.6), ("dlrm-large", 84.9)] {
        let counted = graph(name).parameters() as f64 * 4.0 / f64::from(1 << 30);
        assert!((counted - gibibytes).abs() < 0.1, "{name}: {counted}");
    }
    // MLPerf: 188 million rows of 128 values.
    let tables: u64 = graph("dlrm").layers().map(|layer| layer.table_parameters(Sharing::WHOLE)).sum();
    assert_eq!(tables, 187_767_399 * 128);
}

/// Every field of a specification that is set to a number or a list of numbers, raised.
fn raised(spec: &ModelSpec) -> Vec<(String, ModelSpec)> {
    let fields = serde_json::to_value(spec).expect("a specification is JSON");
    let fields = fields.as_object().expect("an object").clone();
    let raise = |value: &serde_json::Value| match value {
        serde_json::Value::Number(number) => Some(serde_json::json!(2 * number.as_u64()?)),
        serde_json::Value::Array(values) => {
            let raised = values.iter().map(|value| Some(value.as_u64()? + 1)).collect::<Option<Vec<u64>>>()?;
            Some(serde_json::json!(raised))
        }
        _ => None,
    };
    fields
        .iter()
        .filter_map(|(name, value)| {
            let mut changed = fields.clone();
            changed.insert(name.clone(), raise(value)?);
            let spec = serde_json::from_value(changed.into()).expect("the same types");
            Some((name.clone(), spec))
        })
        .collect()
}

#[test]
fn every_field_changes_what_is_computed() {
    for name in [
        "bart-large",
        "transformer-big",
        "electra-base",
        "transformer-xl-base",
        "transformer-xl-large",
        "gnmt",
        "rnn-t",
        "dlrm-small",
    ] {
        let spec = find(name).expect("a model of the catalog").model.spec();
        let graph = graph(name);
        for (field, changed) in raised(&spec) {
            // One that no longer fits to the others is refused.
            if let Ok(changed) = Model::try_from(changed) {
                assert_ne!(changed.graph(), graph, "{name}: {field}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let wrong = |name: &str, change: &dyn Fn(&mut ModelSpec)| {
        let mut spec = find(name).expect("a model of the catalog").model.spec();
        change(&mut spec);
        Model::try_from(spec).expect_err("refused")
    };
    let unordered = wrong("transformer-xl-base", &|spec| spec.cutoffs = Some(vec![40_000, 20_000]));
    assert!(unordered.to_string().contains("`cutoffs` is 40000, but its cluster ends at 20000"), "{unordered}");
    let beyond = wrong("transformer-xl-base", &|spec| spec.cutoffs = Some(vec![267_735]));
    assert!(beyond.to_string().contains("its cluster ends at 267735") && beyond.hint().is_some(), "{beyond}");
    let narrow = wrong("electra-base", &|spec| spec.generator_hidden = Some(200));
    assert!(narrow.hint().is_some_and(|hint| hint.contains("256")), "{narrow}");
    let no_tables = wrong("dlrm", &|spec| spec.tables = Some(Vec::new()));
    assert!(no_tables.to_string().contains("`tables` is 0, but it must be from 1"), "{no_tables}");
    let huge = wrong("dlrm", &|spec| spec.tables = Some(vec![u64::MAX]));
    assert!(huge.to_string().contains("`tables` is 18446744073709551615"), "{huge}");
    let foreign = wrong("gnmt", &|spec| spec.heads = Some(8));
    assert!(foreign.to_string().ends_with("family `gnmt` has no field `heads`"), "{foreign}");
}
