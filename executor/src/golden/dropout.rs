//! Trainings that drop numbers out: every plan drops the same, and gradients are those of the loss with these zeros.

use super::*;
use trainyard_models::DropoutSpec;

/// Every family that has dropout.
const DROPPING: [&str; 11] =
    ["gpt2", "llama", "mistral", "mixtral", "qwen2", "qwen3", "gpt-neox", "gpt-neox-serial", "gemma2", "bert", "vit"];

/// Returns a case with dropout everywhere, more of it in attention.
fn dropping(name: &str) -> Case {
    let case = Case::read(name);
    let spec = ModelSpec {
        dropout: Some(DropoutSpec::Share(0.15)),
        attention_dropout: Some(DropoutSpec::Share(0.25)),
        embedding_dropout: Some(DropoutSpec::Share(0.1)),
        ..case.spec
    };
    let model = Model::try_from(spec.clone()).expect("a valid model");
    Case { spec, model, ..case }
}

/// Compares ten steps of a parallel training with those of one process that computes micro-batches of this size.
fn assert_drops_as_one_process(names: &[&str], cut: Cut, micro: u64) {
    for name in names {
        assert_case_near_one_process(&dropping(name), cut, Cut { on: cut.on, micro, ..WHOLE }, 1e-5);
    }
}

fn assert_equal_cuts(names: &[&str], cuts: &[Cut]) {
    for cut in cuts {
        assert_drops_as_one_process(names, *cut, cut.micro);
    }
}

const RECOMPUTED: [Recompute; 2] = [Recompute::Selective, Recompute::Full];

#[test]
fn replicas_and_micro_batches_drop_what_one_process_drops() {
    assert_equal_cuts(&DROPPING, &[Cut { data: 2, micro: 4, ..WHOLE }, Cut { data: 2, micro: 2, ..WHOLE }]);
    // Also what one process drops that computes all samples at once; BERT's micro-batches have unlike numbers of targets.
    let names: Vec<&str> = DROPPING.into_iter().filter(|name| *name != "bert").collect();
    assert_drops_as_one_process(&names, Cut { data: 2, micro: 1, ..WHOLE }, GLOBAL as u64);
    let sharded = [StateSharding::Optimizer, StateSharding::Gradients, StateSharding::Parameters];
    let cuts = sharded.map(|sharding| Cut { data: 2, micro: 2, sharding, ..WHOLE });
    assert_equal_cuts(&["gpt2", "llama", "bert", "vit"], &cuts);
}

#[test]
fn ranks_of_a_tensor_group_drop_what_one_process_drops() {
    let names = ["gpt2", "llama", "qwen3", "gpt-neox", "gemma2", "bert", "vit", "mixtral"];
    assert_equal_cuts(&names, &[Cut { tensor: 2, ..WHOLE }]);
    assert_equal_cuts(
        &["gpt2", "llama", "gpt-neox", "gemma2", "bert", "mixtral"],
        &[Cut { tensor: 2, sequence: true, ..WHOLE }],
    );
}

#[test]
fn ranks_that_share_tokens_drop_what_one_process_drops() {
    let names = ["gpt2", "llama", "mistral", "gpt-neox", "gemma2", "bert"];
    assert_equal_cuts(&names, &[Cut { context: 2, ..WHOLE }, Cut { context: 4, ..WHOLE }]);
    assert_equal_cuts(&["vit"], &[Cut { context: 17, ..WHOLE }]);
    assert_equal_cuts(&["gpt2", "bert"], &[Cut { tensor: 2, context: 2, sequence: true, ..WHOLE }]);
}

#[test]
fn pipelines_drop_what_one_process_drops() {
    let schedule = ScheduleName::ZeroBubbleH1;
    assert_equal_cuts(&DROPPING, &[Cut { pipeline: 2, micro: 4, ..WHOLE }]);
    let cuts = [Cut { pipeline: 2, micro: 2, schedule, ..WHOLE }, Cut { data: 2, pipeline: 3, micro: 2, ..WHOLE }];
    assert_equal_cuts(&["gpt2", "bert", "vit"], &cuts);
}

#[test]
fn what_is_computed_again_drops_the_same() {
    assert_equal_cuts(&DROPPING, &RECOMPUTED.map(|recompute| Cut { recompute, micro: 4, ..WHOLE }));
    assert_equal_cuts(&["gpt2", "mistral"], &RECOMPUTED.map(|recompute| Cut { recompute, context: 2, ..WHOLE }));
    let (offload, recompute) = ("activations+optimizer", Recompute::Full);
    assert_equal_cuts(&["gpt2", "vit"], &[Cut { offload, recompute, micro: 4, ..WHOLE }]);
}

#[test]
fn ranks_that_share_experts_drop_what_one_process_drops() {
    assert_equal_cuts(&["mixtral"], &[Cut { data: 4, expert: 2, micro: 2, ..WHOLE }]);
}

#[test]
fn other_devices_drop_what_processors_drop() {
    let on = On::Operators;
    for name in DROPPING {
        assert_case_near_one_process(&dropping(name), Cut { on, ..WHOLE }, WHOLE, 1e-4);
    }
    assert_equal_cuts(&["gpt2", "llama"], &[Cut { on, context: 2, ..WHOLE }, Cut { on, tensor: 2, ..WHOLE }]);
}

#[test]
fn training_drops_and_evaluation_does_not() {
    for name in DROPPING {
        let (plain, case) = (Case::read(name), dropping(name));
        let how = (Optimizer::Sgd, plain.golden.runs["sgd"].learning_rate);
        let losses = |case: &Case| train(case, WHOLE, how, 2).losses;
        assert!((losses(&plain)[0] - losses(&case)[0]).abs() > 1e-3, "{name}");
        // Before any step.
        let evaluated = |case: &Case| train(case, WHOLE, how, 0).evaluated;
        assert!((evaluated(&plain) - evaluated(&case)).abs() < 1e-9, "{name}");
        // The zeros of each step are others.
        assert!((losses(&case)[0] - losses(&case)[1]).abs() > 1e-3, "{name}");
    }
}

/// Goes along the gradient, once with it and once against it, under the zeros of the same step: half of the loss's
/// difference is the gradient's square, whatever else is not linear cancels out but for its third order.
#[test]
fn gradients_are_those_of_the_loss_with_the_same_zeros() {
    for name in ["gpt2", "llama", "mistral", "bert", "vit"] {
        let case = dropping(name);
        let rate = 2e-3;
        let before = train(&case, WHOLE, (Optimizer::Sgd, rate), 0).values;
        let of = |rate: f64| train_on(&case, WHOLE, (Optimizer::Sgd, rate), &[0, 0]);
        let [with, against] = [of(rate), of(-rate)];
        let after = train(&case, WHOLE, (Optimizer::Sgd, 1.0), 1).values;
        let changes = before.iter().flat_map(|(name, before)| before.iter().zip(&after[name]).map(|(a, b)| a - b));
        let square = norm(changes).powi(2);
        let slope = (against.losses[1] - with.losses[1]) / (2.0 * rate);
        assert!((slope / square - 1.0).abs() < 0.01, "{name}: {slope} and {square}");
    }
}
