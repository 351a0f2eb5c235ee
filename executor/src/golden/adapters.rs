//! Trainings of a part of a model: adapters beside those of PEFT (`tests/golden/lora.py`), the last blocks beside
//! trainings of all weights, and both however a plan cuts them.

use super::*;
use crate::network::module_of;
use serde_json::Value;
use trainyard_plan::{LoraSpec, Method};

/// The cases, and the products that have adapters in them.
const ADAPTED: [(&str, &[&str]); 8] = [
    ("gpt2", &["all-linear"]),
    ("llama", &["all-linear"]),
    ("mistral", &["q", "v", "down"]),
    ("mixtral", &["all-linear"]),
    ("qwen2", &["all-linear"]),
    ("qwen3", &["all-linear"]),
    ("gpt-neox", &["all-linear"]),
    ("gemma2", &["all-linear"]),
];

/// What PEFT made of a case.
#[derive(Deserialize)]
struct OfPeft {
    runs: BTreeMap<String, Run>,
    gradient_norms: BTreeMap<String, f64>,
}

/// Returns a case with the adapters that PEFT began with.
fn adapted(name: &str) -> Case {
    let case = Case::read(name);
    let folder = case.folder.with_file_name(format!("{name}-lora"));
    let read = |file: &str| std::fs::read(folder.join(file)).expect("the case is in the repository");
    let configuration: Value = serde_json::from_slice(&read("adapter_config.json")).expect("PEFT wrote it");
    let OfPeft { runs, gradient_norms } = serde_json::from_slice(&read("golden.json")).expect("the script wrote it");
    let (_, targets) = ADAPTED.iter().find(|(own, _)| *own == name).expect("it has adapters");
    let lora = LoraSpec {
        rank: configuration["r"].as_u64(),
        alpha: configuration["lora_alpha"].as_f64(),
        dropout: None,
        targets: Some(targets.iter().map(ToString::to_string).collect()),
        base: None,
    };
    let file = read("adapter_model.safetensors");
    let tensors = safetensors::SafeTensors::deserialize(&file).expect("PEFT wrote it");
    let values = |data: &[u8]| data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let adapters = tensors.iter().map(|(name, view)| (name.to_owned(), values(view.data()))).collect();
    let part = FineTuningSpec::towards(None, Method::Lora, Some(&lora), None).expect("PEFT has such adapters");
    Case { golden: Golden { runs, gradient_norms, ..case.golden }, part, adapters, ..case }
}

/// Returns a case with this share of adapters' inputs dropped out.
fn dropping(name: &str, share: f64) -> Case {
    let mut case = adapted(name);
    case.part.as_mut().and_then(|part| part.lora.as_mut()).expect("it has adapters").dropout = Some(share);
    case
}

/// Returns a case of which the last block is trained.
fn last_block(name: &str) -> Case {
    Case {
        part: FineTuningSpec::towards(None, Method::Frozen, None, None).expect("one is trained"),
        ..Case::read(name)
    }
}

fn assert_equal_cuts(cases: &[Case], cuts: &[Cut]) {
    for cut in cuts {
        let one = Cut { on: cut.on, micro: cut.micro, ..WHOLE };
        cases.iter().for_each(|case| assert_case_near_one_process(case, *cut, one, 1e-5));
    }
}

fn of(names: &[&str]) -> Vec<Case> {
    names.iter().map(|name| adapted(name)).collect()
}

#[test]
fn adapters_learn_as_in_peft() {
    for (name, _) in ADAPTED {
        let case = adapted(name);
        assert_learns_as_in_pytorch(&case, WHOLE, 1e-4);
        assert_learns_as_in_pytorch(&case, Cut { on: On::Operators, ..WHOLE }, 1e-4);
        assert_same_gradients(&case, WHOLE, 1e-4);
    }
}

#[test]
fn networks_have_the_adapters_that_peft_has() {
    for (name, _) in ADAPTED {
        let case = adapted(name);
        let network = Network::tuned(&case.model, case.part.as_ref()).expect("the family is built");
        let adapters = || network.keys().map(|key| network.parameter(key)).filter(|own| own.is_adapter);
        let names: Vec<&String> = adapters().map(|own| &own.name).collect();
        assert_eq!(names.len(), case.adapters.len(), "{name}");
        assert!(adapters().all(|own| case.adapters[&own.name].len() == own.elements()), "{names:?}");
        assert!(adapters().all(|own| module_of(own).is_some_and(|module| own.name.contains(module))));
        let graph = WHOLE.plan(&case, Optimizer::AdamW).graph().clone();
        for (index, layer) in graph.layers().enumerate() {
            let own = network.parameters_of(index).iter().filter(|own| own.role == Role::Trained);
            let trained: usize = own.map(Parameter::elements).sum();
            assert_eq!(trained as u64, layer.parameters(Sharing::WHOLE), "{name}, layer {index}");
        }
    }
}

#[test]
fn what_is_not_trained_stays_and_is_not_remembered() {
    for case in [adapted("gpt2"), adapted("qwen2"), last_block("llama")] {
        for sharding in [StateSharding::None, StateSharding::Parameters] {
            let cut = Cut { data: 2, micro: 4, sharding, ..WHOLE };
            let how = (Optimizer::AdamW, 1e-2);
            let (before, after) = (train(&case, cut, how, 0).values, train(&case, cut, how, 3).values);
            let network = Network::tuned(&case.model, case.part.as_ref()).expect("the family is built");
            for key in network.keys() {
                let Parameter { name, role, .. } = network.parameter(key);
                assert_eq!(before[name] == after[name], *role == Role::Frozen, "{name}");
            }
        }
    }
}

#[test]
fn replicas_with_sharded_states_equal_one_process() {
    let cases = of(&["gpt2", "llama", "mistral", "mixtral", "qwen2", "qwen3", "gpt-neox", "gemma2"]);
    let sharded = [StateSharding::None, StateSharding::Optimizer, StateSharding::Gradients, StateSharding::Parameters];
    assert_equal_cuts(&cases, &sharded.map(|sharding| Cut { data: 2, micro: 2, sharding, ..WHOLE }));
    assert_equal_cuts(&cases, &[Cut { data: 2, context: 2, micro: 2, sharding: StateSharding::Parameters, ..WHOLE }]);
}

#[test]
fn pipelines_equal_one_process() {
    let cases = of(&["gpt2", "llama", "mistral", "qwen3", "gpt-neox", "gemma2"]);
    let schedule = ScheduleName::ZeroBubbleH1;
    let (sharding, recompute) = (StateSharding::Parameters, Recompute::Full);
    assert_equal_cuts(
        &cases,
        &[
            Cut { pipeline: 2, micro: 4, ..WHOLE },
            // The embedding is a stage of its own.
            Cut { pipeline: 4, micro: 2, ..WHOLE },
            Cut { pipeline: 2, micro: 2, schedule, ..WHOLE },
            Cut { data: 2, pipeline: 3, micro: 2, recompute, ..WHOLE },
            Cut { data: 2, pipeline: 2, micro: 2, sharding, schedule, ..WHOLE },
        ],
    );
}

#[test]
fn ranks_of_a_tensor_group_equal_one_process() {
    let cases = of(&["gpt2", "llama", "mixtral", "qwen2", "qwen3", "gpt-neox", "gemma2"]);
    let (sharding, schedule) = (StateSharding::Parameters, ScheduleName::ZeroBubbleH1);
    assert_equal_cuts(
        &cases,
        &[
            Cut { tensor: 2, ..WHOLE },
            Cut { tensor: 2, sequence: true, ..WHOLE },
            Cut { tensor: 2, context: 2, ..WHOLE },
            Cut { tensor: 2, data: 2, micro: 4, sharding, ..WHOLE },
            Cut { tensor: 2, pipeline: 2, micro: 2, sequence: true, schedule, ..WHOLE },
            Cut { tensor: 2, on: On::Operators, ..WHOLE },
        ],
    );
}

#[test]
fn what_is_computed_again_equals_one_process() {
    let cases = of(&["gpt2", "llama", "gpt-neox", "gemma2"]);
    let again = [Recompute::Selective, Recompute::Full];
    assert_equal_cuts(&cases, &again.map(|recompute| Cut { recompute, micro: 4, ..WHOLE }));
}

#[test]
fn inputs_of_adapters_are_dropped_out_alike_everywhere() {
    let cases: Vec<Case> =
        ["gpt2", "llama", "qwen3", "gpt-neox", "gemma2"].iter().map(|name| dropping(name, 0.2)).collect();
    let schedule = ScheduleName::ZeroBubbleH1;
    assert_equal_cuts(
        &cases,
        &[
            Cut { data: 2, micro: 2, ..WHOLE },
            Cut { tensor: 2, ..WHOLE },
            Cut { tensor: 2, sequence: true, ..WHOLE },
            Cut { context: 2, ..WHOLE },
            Cut { pipeline: 2, micro: 2, schedule, recompute: Recompute::Full, ..WHOLE },
        ],
    );
    let how = (Optimizer::Sgd, 0.1);
    for (dropping, plain) in cases.iter().zip(["gpt2", "llama", "qwen3", "gpt-neox", "gemma2"]) {
        let [with, without] = [dropping, &adapted(plain)].map(|case| train(case, WHOLE, how, 2));
        assert!((with.losses[0] - without.losses[0]).abs() > 1e-3, "{plain}");
        // Before any step, evaluation drops nothing.
        let [with, without] = [dropping, &adapted(plain)].map(|case| train(case, WHOLE, how, 0).evaluated);
        assert!((with - without).abs() < 1e-9, "{plain}");
    }
}

#[test]
fn the_last_blocks_have_the_gradients_that_they_have_in_full() {
    for name in ["gpt2", "llama", "qwen3", "gpt-neox", "gemma2", "bert", "vit"] {
        let (case, rate) = (last_block(name), 0.5);
        let [before, after] = [0, 1].map(|steps| train(&case, WHOLE, (Optimizer::Sgd, rate), steps).values);
        let norms = &case.golden.gradient_norms;
        let mut changed = 0;
        for (name, before) in before.iter().filter(|(name, before)| **before != after[*name]) {
            let theirs = norms.get(name).or_else(|| norms.get(&format!("transformer.{name}"))).expect("it is trained");
            let ours = norm(before.iter().zip(&after[name]).map(|(before, after)| (before - after) / rate as f32));
            assert!((ours - theirs).abs() < 1e-4 * theirs + 3e-6, "{name}: {ours} and {theirs}");
            changed += 1;
        }
        assert!(changed > 5 && changed < norms.len(), "{changed} of {}", norms.len());
    }
    let cases = ["gpt2", "llama", "qwen3", "gpt-neox", "gemma2", "bert"].map(last_block);
    let (sharding, schedule) = (StateSharding::Parameters, ScheduleName::ZeroBubbleH1);
    assert_equal_cuts(
        &cases,
        &[
            Cut { data: 2, micro: 2, sharding, ..WHOLE },
            // The embedding and the first block are a stage that is not trained.
            Cut { pipeline: 2, micro: 2, ..WHOLE },
            Cut { pipeline: 2, micro: 2, schedule, ..WHOLE },
            Cut { pipeline: 4, micro: 2, ..WHOLE },
            Cut { tensor: 2, sequence: true, recompute: Recompute::Full, ..WHOLE },
        ],
    );
}

/// Weights that stay are kept in bfloat16, with neither a copy in single precision nor gradients.
#[test]
fn adapters_beside_weights_in_half_precision_learn_about_the_same() {
    for name in ["gpt2", "llama", "qwen3", "gpt-neox", "gemma2"] {
        let case = adapted(name);
        let how = (Optimizer::AdamW, 3e-3);
        let single = train(&case, WHOLE, how, 5).losses;
        for sharding in [StateSharding::None, StateSharding::Parameters] {
            let half = Cut { precision: Precision::Bf16Mixed, data: 2, micro: 4, sharding, ..WHOLE };
            for (step, (half, single)) in train(&case, half, how, 5).losses.iter().zip(&single).enumerate() {
                assert!((half / single - 1.0).abs() < 0.01, "{name}, step {step}: {half} and {single}");
            }
        }
    }
}
