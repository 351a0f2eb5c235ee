//! Blocks of chosen parts against counts by hand.

use super::*;
use crate::operator::{Mask, Pass, Sharing};
use crate::{Model, ModelError, ModelSpec};

fn spec() -> ModelSpec {
    ModelSpec {
        layers: Some(4),
        hidden: Some(64),
        heads: Some(4),
        ffn: Some(96),
        vocab: Some(100),
        seq_len: Some(32),
        ..ModelSpec::new("test", crate::Family::Blocks)
    }
}

fn graph(spec: ModelSpec) -> OperatorGraph {
    Model::try_from(spec).expect("a model").graph()
}

fn refused(spec: ModelSpec) -> ModelError {
    Model::try_from(spec).expect_err("refused")
}

#[test]
fn nothing_but_dimensions_is_a_llama() {
    let llama = ModelSpec { family: crate::Family::Llama, ..spec() };
    for attention in [AttentionKernel::Unfused, AttentionKernel::Flash] {
        let [blocks, llama] = [spec(), llama.clone()]
            .map(|spec| graph(ModelSpec { kv_heads: Some(2), attention: Some(attention), ..spec }));
        assert_eq!(blocks, llama);
    }
    let routed = |spec| graph(ModelSpec { experts: Some(8), experts_per_token: Some(2), ..spec });
    let [blocks, llama] = [routed(spec()), routed(llama)];
    assert_eq!(blocks.parameters(), llama.parameters());
    assert_eq!(blocks.flops(Pass::Forward), llama.flops(Pass::Forward));
}

#[test]
fn a_window_holds_in_the_blocks_that_are_named() {
    let masks = |spec: ModelSpec| -> Vec<Mask> {
        let graph = graph(spec);
        let attention = |layer: &Layer| {
            layer.operators.iter().find_map(|operator| match operator.kind {
                OperatorKind::Attention(attention) => Some(attention.mask),
                _ => None,
            })
        };
        graph.layers().filter_map(attention).collect()
    };
    let (all, near) = (Mask::Causal, Mask::Window(8));
    let windowed = ModelSpec { window: Some(8), ..spec() };
    assert_eq!(masks(windowed.clone()), [near; 4]);
    let alternating = ModelSpec { window_blocks: Some(vec![0, 2]), ..windowed.clone() };
    assert_eq!(masks(alternating.clone()), [near, all, near, all]);
    let both_ways = ModelSpec { causal: Some(false), window_blocks: Some(vec![1]), ..windowed };
    assert_eq!(masks(both_ways), [Mask::Full, Mask::Local(4), Mask::Full, Mask::Full]);
    let beyond = ModelSpec { window_blocks: Some(vec![4]), ..alternating };
    assert!(refused(beyond).to_string().contains("`window_blocks` is 4, but it must be from 0 to 3"));
}

#[test]
fn latent_attention_has_the_weights_of_its_narrow_products() {
    let latent = ModelSpec {
        head_width: Some(24),
        rotary_width: Some(8),
        value_width: Some(12),
        kv_rank: Some(20),
        query_rank: Some(28),
        ..spec()
    };
    let block = graph(latent.clone()).layer(1).clone();
    let queries = 64 * 28 + 28 + 28 * 4 * 24;
    let keys = 64 * (20 + 8) + 20 + 20 * 4 * (16 + 12);
    let output = 4 * 12 * 64;
    assert_eq!(block.parameters(Sharing::WHOLE), queries + keys + output + 3 * 64 * 96 + 2 * 64);
    // Ranks of a tensor group share wide products and have each of the narrow ones whole.
    let part = block.parameters(Sharing::tensor(2));
    let narrow = 64 * 28 + 28 + 64 * 28 + 20 + 2 * 64;
    assert_eq!(part - narrow, (block.parameters(Sharing::WHOLE) - narrow) / 2);
    let whole = ModelSpec { rotary_width: Some(24), ..latent.clone() };
    assert!(refused(whole).to_string().contains("`rotary_width` is 24, but it must be below `head_width`"));
    let grouped = ModelSpec { kv_heads: Some(2), ..latent };
    assert!(refused(grouped).to_string().contains("`kv_heads` is 2, but it must be `heads`"));
}

#[test]
fn parts_side_by_side_are_reduced_once() {
    let reductions = |parallel_norms| graph(ModelSpec { parallel_norms, ..spec() }).layer(1).tensor_reductions;
    assert_eq!([reductions(None), reductions(Some(1)), reductions(Some(2))], [2, 1, 1]);
    let parameters = |parallel_norms| graph(ModelSpec { parallel_norms, ..spec() }).parameters();
    assert_eq!(parameters(None), parameters(Some(2)));
    assert_eq!(parameters(Some(2)) - parameters(Some(1)), 4 * 64);
}

#[test]
fn bounds_and_sinks_cost_what_their_kernels_move() {
    let traffic = |spec: ModelSpec| -> u64 {
        let graph = graph(spec);
        let of = |operator: &Operator| operator.kind.traffic(Pass::Forward).bytes(2).0;
        graph.layers().map(|layer| layer.operators.iter().map(of).sum::<u64>()).sum()
    };
    let scores = 4 * 4 * 32 * 32;
    let plain = traffic(spec());
    assert_eq!(traffic(ModelSpec { score_cap: Some(50.0), ..spec() }) - plain, 2 * 6 * scores);
    assert_eq!(traffic(ModelSpec { sinks: Some(true), ..spec() }) - plain, 2 * 4 * scores);
    assert_eq!(traffic(ModelSpec { logit_cap: Some(30.0), ..spec() }) - plain, 2 * 2 * 32 * 100);
}

#[test]
fn normalised_heads_are_shared_out_with_their_weights_or_without() {
    let with = |norm| graph(ModelSpec { query_key_norm: Some(norm), kv_heads: Some(2), ..spec() });
    let plain = graph(ModelSpec { kv_heads: Some(2), ..spec() });
    let added = |norm, sharing| with(norm).layer(1).parameters(sharing) - plain.layer(1).parameters(sharing);
    assert_eq!(added(QueryKeyNorm::Head, Sharing::WHOLE), 2 * 16);
    assert_eq!(added(QueryKeyNorm::Head, Sharing::tensor(2)), 2 * 16);
    assert_eq!(added(QueryKeyNorm::Features, Sharing::WHOLE), (4 + 2) * 16);
    assert_eq!(added(QueryKeyNorm::Features, Sharing::tensor(2)), (2 + 1) * 16);
    for norm in [QueryKeyNorm::Head, QueryKeyNorm::Features] {
        let graph = with(norm);
        let rows = |sharing| -> u64 {
            let kinds = graph.layer(1).operators.iter().map(|operator| operator.on_rank(1, sharing));
            kinds
                .filter(|kind| matches!(kind, OperatorKind::RmsNorm { .. }))
                .map(|kind| kind.traffic(Pass::Forward).elements)
                .sum()
        };
        let blocks = 2 * 2 * 32 * 64;
        assert_eq!((rows(Sharing::WHOLE) - blocks) / 2, rows(Sharing::tensor(2)) - blocks);
    }
}

#[test]
fn shared_experts_stand_beside_the_others() {
    let routed = ModelSpec {
        experts: Some(8),
        experts_per_token: Some(2),
        expert_ffn: Some(24),
        dense_blocks: Some(vec![0]),
        ..spec()
    };
    let own = graph(routed.clone());
    assert_eq!(own.layer(1), graph(spec()).layer(1));
    let exchanged: Vec<u64> = own.layers().map(|layer| layer.exchanged_elements).collect();
    assert_eq!(exchanged, [0, 0, 2 * 32 * 64, 2 * 32 * 64, 2 * 32 * 64, 0]);
    let gated = graph(ModelSpec { shared_ffn: Some(40), shared_gate: Some(true), ..routed.clone() });
    assert_eq!(gated.parameters() - own.parameters(), 3 * (3 * 64 * 40 + 64));
    let expert = Sharing { expert: 8, ..Sharing::WHOLE };
    // Every rank has all of the shared expert.
    let held = |graph: &OperatorGraph| graph.layer(2).parameters(expert);
    assert_eq!(held(&gated) - held(&own), 3 * 64 * 40 + 64);
    let without = ModelSpec { experts: None, experts_per_token: None, expert_ffn: None, ..routed };
    assert!(refused(without).to_string().contains("`experts` is missing"));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let encoder = ModelSpec { causal: Some(false), ..spec() };
    for (spec, sentence) in [
        (
            ModelSpec { head: Some(HeadKind::LanguageModel), ..encoder.clone() },
            "`head` is `language-model`, but with causal",
        ),
        (ModelSpec { head: Some(HeadKind::Pooler), ..encoder }, "`head` is `pooler`, but with causal = false"),
        (ModelSpec { positions: Some(40), ..spec() }, "`positions` is 40, but positions are not learned"),
        (ModelSpec { query_rank: Some(8), ..spec() }, "`query_rank` is 8, but attention is not latent"),
        (ModelSpec { expert_ffn: Some(8), ..spec() }, "`experts` is missing: `expert_ffn` is set"),
        (ModelSpec { window_blocks: Some(vec![0]), ..spec() }, "`window` is missing: `window_blocks` says where"),
        (ModelSpec { score_cap: Some(-1.0), ..spec() }, "`score_cap` is -1, but it must be above 0"),
        (ModelSpec { part_norms: Some(3), ..spec() }, "`part_norms` is 3, but it must be from 1 to 2"),
        (
            ModelSpec { part_norms: Some(2), parallel_norms: Some(1), ..spec() },
            "`part_norms` is 2, but the two parts work side by side",
        ),
    ] {
        let error = refused(spec);
        assert!(error.to_string().contains(sentence), "{error}");
    }
}

/// How experts are chosen changes no cost.
#[test]
fn a_router_is_kept_and_checked() {
    use crate::families::RouterScores;
    let routed = ModelSpec { experts: Some(8), experts_per_token: Some(4), ..spec() };
    let sigmoid = ModelSpec {
        router: Some(RouterScores::Sigmoid),
        router_groups: Some(4),
        router_groups_per_token: Some(2),
        routed_scale: Some(2.5),
        correction_bias: Some(true),
        ..routed.clone()
    };
    let read = Model::try_from(sigmoid.clone()).expect("a router");
    assert_eq!(Model::try_from(read.spec()).expect("as written"), read);
    let Model::Blocks(blocks) = &read else { panic!("blocks") };
    assert_eq!(blocks.routing.as_ref().and_then(Router::groups), Some((4, 2)));
    assert_eq!(read.graph(), graph(routed.clone()));
    let softmax = Some(RouterScores::Softmax);
    for (wrong, told) in [
        (ModelSpec { router: None, ..sigmoid.clone() }, "`router` is missing"),
        (ModelSpec { router: softmax, ..sigmoid.clone() }, "`correction_bias` is true, but scores are not"),
        (ModelSpec { router: softmax, ..spec() }, "`experts` is missing: `router` is set"),
        (ModelSpec { router_groups: Some(3), ..sigmoid.clone() }, "`router_groups` is 3"),
        (ModelSpec { router_groups_per_token: Some(1), ..sigmoid.clone() }, "`router_groups_per_token` is 1"),
        (ModelSpec { routed_scale: Some(0.0), ..sigmoid }, "`routed_scale` is 0"),
    ] {
        let error = refused(wrong).to_string();
        assert!(error.contains(told), "{told}: {error}");
    }
}
