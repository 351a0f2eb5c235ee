//! Fine-tuning against what PEFT and PyTorch count, `tests/fine_tuning/count.py`.

use serde_json::Value;
use trainyard_models::{
    AdapterTarget, Adapters, AttentionKernel, Family, FrozenWeights, LayerRole, Model, ModelSpec, OperatorGraph, Pass,
    Quantization, Sharing, Tuning, find, on_pairs, tuned,
};

fn counts() -> Value {
    serde_json::from_str(include_str!("../../../tests/fine_tuning/counts.json")).expect("it is JSON")
}

fn adapters(rank: u64, targets: Vec<AdapterTarget>, dropout: bool) -> Tuning {
    Tuning::Adapters(Adapters { rank, dropout, targets, quantised: None })
}

/// The model of the same configuration.
fn model(name: &str) -> Model {
    let spec = |hidden, ffn, layers, heads, kv_heads, vocab| ModelSpec {
        hidden: Some(hidden),
        ffn: Some(ffn),
        layers: Some(layers),
        heads: Some(heads),
        kv_heads: Some(kv_heads),
        vocab: Some(vocab),
        seq_len: Some(32),
        attention: Some(AttentionKernel::Unfused),
        ..ModelSpec::new(name, Family::Llama)
    };
    let spec = match name {
        "llama-2-7b" => spec(4096, 11008, 32, 32, 32, 32000),
        "llama-3-8b" => spec(4096, 14336, 32, 32, 8, 128_256),
        "llama-2-70b" => spec(8192, 28672, 80, 64, 8, 32000),
        "tiny" => spec(64, 160, 2, 4, 2, 256),
        "pythia-1.4b" => ModelSpec {
            kv_heads: None,
            parallel_norms: Some(2),
            rotary_width: Some(32),
            family: Family::GptNeox,
            ..spec(2048, 8192, 24, 16, 16, 50304)
        },
        other => return find(other).expect("in the catalog").model.clone(),
    };
    Model::try_from(spec).expect("valid")
}

fn trained(graph: &OperatorGraph) -> u64 {
    graph.layers().map(|layer| layer.parameters(Sharing::WHOLE)).sum()
}

fn frozen(graph: &OperatorGraph) -> u64 {
    graph.layers().map(trainyard_models::Layer::frozen_values).sum()
}

#[test]
fn adapters_have_as_many_values_as_peft_counts() {
    for row in counts()["adapters"].as_array().expect("rows") {
        let name = row["model"].as_str().expect("a name");
        let targets = match row["targets"].as_array() {
            Some(_) => vec![AdapterTarget::Query, AdapterTarget::Value],
            None => Vec::new(),
        };
        let graph =
            tuned(&model(name), &adapters(row["rank"].as_u64().expect("a rank"), targets, false)).expect("a part");
        assert_eq!(Some(trained(&graph)), row["trained"].as_u64(), "{row}");
        assert_eq!(Some(trained(&graph) + frozen(&graph)), row["all"].as_u64(), "{row}");
        let blocks = |graph: &OperatorGraph| graph.layers().filter(|layer| layer.role == LayerRole::Block).count();
        assert_eq!((graph.len(), blocks(&graph)), (model(name).graph().len(), blocks(&model(name).graph())));
    }
}

#[test]
fn products_of_parts_side_by_side_are_known_by_their_place() {
    let pythia = model("pythia-1.4b");
    let with = |target| tuned(&pythia, &adapters(8, vec![target], false));
    for (target, inputs, outputs) in [
        (AdapterTarget::Query, 2048, 3 * 2048),
        (AdapterTarget::Output, 2048, 2048),
        (AdapterTarget::Up, 2048, 8192),
        (AdapterTarget::Down, 8192, 2048),
    ] {
        assert_eq!(trained(&with(target).expect("it is there")), 24 * 8 * (inputs + outputs), "{target:?}");
    }
    let refused = with(AdapterTarget::Key).expect_err("keys are in the product of queries").to_string();
    assert_eq!(refused, "`lora.targets` is `k`, but it must be of q, o, up, down");
}

#[test]
fn passes_have_the_arithmetic_that_pytorch_counts() {
    for row in counts()["flops"].as_array().expect("rows") {
        let tuning = match row["method"].as_str() {
            Some("lora") => Some(adapters(4, Vec::new(), false)),
            Some("frozen") => Some(Tuning::LastBlocks(1)),
            _ => None,
        };
        let own = model("tiny");
        let graph = tuning.map_or_else(|| own.graph(), |tuning| tuned(&own, &tuning).expect("a part"));
        for (name, pass) in [("forward", Pass::Forward), ("backward", Pass::Backward)] {
            // Two samples.
            let (counted, expected) = (2.0 * graph.flops(pass).0, row[name].as_f64().expect("a number"));
            assert!((counted / expected - 1.0).abs() < 0.01, "{row}: {counted} {name}");
        }
    }
}

#[test]
fn quantised_weights_take_half_a_byte_and_are_the_same_weights() {
    let own = model("llama-2-7b");
    let quantised = Tuning::Adapters(Adapters {
        rank: 16,
        dropout: false,
        targets: Vec::new(),
        quantised: Some(Quantization::Nf4),
    });
    let graph = tuned(&own, &quantised).expect("a part");
    assert_eq!(frozen(&graph), own.graph().parameters());
    let of = |sharing| {
        let each = graph.layers().map(|layer| layer.frozen_weights(sharing));
        each.fold(FrozenWeights::default(), std::ops::Add::add)
    };
    let held = of(Sharing::WHOLE);
    // Embedding, head and norms stay as they are.
    assert_eq!(held.values, 2 * 32000 * 4096 + 65 * 4096);
    let blocks = own.graph().parameters() - held.values;
    assert!((held.quantised as f64 / blocks as f64 - 4.127 / 8.0).abs() < 1e-4, "{}", held.quantised);
    // Ranks of a tensor group share out matrices and tables, and each has all of the norms.
    let half = of(Sharing::tensor(2));
    assert_eq!((half.values, half.quantised), (32000 * 4096 + 65 * 4096, held.quantised / 2));
}

#[test]
fn adapters_keep_inputs_of_their_own_and_frozen_products_none() {
    let own = model("llama-2-7b");
    let block = |dropout| {
        let graph = tuned(&own, &adapters(8, Vec::new(), dropout)).expect("a part");
        graph.layer(1).stored(1, Sharing::WHOLE)
    };
    let (s, h, f, r) = (32, 4096, 11008, 8);
    // Norms 2 h, queries, keys, values 3 h and scores 32 s of separate kernels, gate and up 2 f; then the inputs of
    // adapters: q, k, v, o, gate and up h each, down f, and the ranks between their products.
    let adapted = 6 * h + f + 7 * r;
    assert_eq!(block(false).elements, s * (2 * h + 3 * h + 32 * s + 2 * f + adapted));
    assert_eq!((block(false).masks, block(true).masks), (0, s * (6 * h + f)));
}

#[test]
fn a_pair_is_two_sequences_and_a_forward_pass_of_each_by_the_reference() {
    let own = model("tiny");
    let plain = own.graph();
    let of = |tuning: Option<&Tuning>, reference| {
        let graph = on_pairs(&own, tuning, reference).expect("it predicts the next token");
        (graph.flops(Pass::Forward).0, graph.flops(Pass::Backward).0, graph)
    };
    let (forward, backward) = (plain.flops(Pass::Forward).0, plain.flops(Pass::Backward).0);
    let near = |one: f64, other: f64| assert!((one / other - 1.0).abs() < 1e-12, "{one} {other}");
    // (3 + 1) × 2 sequences, where training from scratch has 3.
    let (full_forward, full_backward, full) = of(None, true);
    near(full_forward, 4.0 * forward);
    near(full_backward, 2.0 * backward);
    // A copy of the weights, of which none is trained.
    assert_eq!((trained(&full), frozen(&full)), (plain.parameters(), plain.parameters()));
    assert_eq!((full.len(), full.own_layers().len()), (2 * plain.len(), plain.len()));
    let held: u64 = full.own_layers().map(trainyard_models::Layer::frozen_values).sum();
    assert_eq!(held, 0, "the copy is not the model's own");
    // Scores that are kept cost nothing in a step.
    let (kept_forward, kept_backward, kept) = of(None, false);
    near(kept_forward, 2.0 * forward);
    near(kept_backward, 2.0 * backward);
    assert_eq!((frozen(&kept), kept.len()), (0, plain.len()));
    // With adapters off the model is its own reference: once more forward without them, and no weights more.
    let lora = adapters(4, Vec::new(), false);
    let adapted = tuned(&own, &lora).expect("a part");
    let (lora_forward, lora_backward, graph) = of(Some(&lora), true);
    near(lora_forward, 2.0 * (adapted.flops(Pass::Forward).0 + forward));
    near(lora_backward, 2.0 * adapted.flops(Pass::Backward).0);
    assert_eq!((trained(&graph), frozen(&graph)), (trained(&adapted), frozen(&adapted)));
    let borrowed: u64 = graph.layers().map(|layer| layer.borrowed_weights(Sharing::WHOLE).values).sum();
    assert_eq!(borrowed, plain.parameters());
}

/// What TRL's trainer computes and keeps in a step on one pair, `tests/fine_tuning/count_pairs.py`.
#[test]
fn a_step_on_pairs_has_the_arithmetic_of_trl() {
    let counts: Value =
        serde_json::from_str(include_str!("../../../tests/fine_tuning/pairs.json")).expect("it is JSON");
    let own = model("tiny");
    for row in counts["steps"].as_array().expect("rows") {
        let tuning = (row["method"] == "lora").then(|| adapters(4, Vec::new(), false));
        let graph = on_pairs(&own, tuning.as_ref(), row["precomputed"] == false).expect("it predicts the next token");
        let counted = |pass: Pass, name: &str| graph.flops(pass).0 / row[name].as_f64().expect("a number");
        // The last of 32 tokens has no score.
        assert!((counted(Pass::Forward, "forward") - 1.0).abs() < 0.01, "{row}");
        // TRL's head keeps no logits, and has its backward pass in tiles.
        assert!((counted(Pass::Backward, "backward") - 1.0).abs() < 0.1, "{row}");
        let copy = frozen(&graph) - graph.own_layers().map(trainyard_models::Layer::frozen_values).sum::<u64>();
        assert_eq!(row["reference"].as_u64(), (copy > 0).then_some(copy), "{row}");
    }
}

#[test]
fn both_sequences_of_a_pair_are_kept_for_backward() {
    let own = model("tiny");
    let graph = on_pairs(&own, None, true).expect("it predicts the next token");
    let all = |graph: &OperatorGraph, samples| {
        let each = graph.layers().map(|layer| layer.stored(samples, Sharing::WHOLE));
        each.fold(trainyard_models::Storage::default(), std::ops::Add::add)
    };
    assert_eq!(all(&graph, 3), all(&own.graph(), 6));
    for name in ["bert-base", "resnet50", "t5-large"] {
        let error = on_pairs(&model(name), None, true).expect_err("no next token").to_string();
        assert!(error.contains("does not predict the next token"), "{error}");
    }
}

#[test]
fn what_has_no_adapters_is_told() {
    let image = &find("resnet50").expect("in the catalog").model;
    let error = tuned(image, &adapters(8, Vec::new(), false)).expect_err("no products in blocks");
    assert!(error.to_string().contains("resnet"), "{error}");
    let error = tuned(&model("gpt2"), &adapters(8, vec![AdapterTarget::Gate], false)).expect_err("not gated");
    assert!(error.to_string().contains("`gate`"), "{error}");
    assert!(tuned(&model("tiny"), &Tuning::LastBlocks(3)).is_err());
}
