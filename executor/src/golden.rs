//! Trainings beside those of PyTorch and transformers, and beside each other: every family learns from the same first
//! weights and samples the same as there (`tests/golden` in the repository), however a plan cuts it.

use crate::groups::Groups;
use crate::network::{Network, Parameter, ParameterKey, Role};
use crate::optimizer::HyperParameters;
use crate::process_group::{GroupError, Reduction, World, run_ranks};
use crate::trainer::{Trainer, TrainerOptions};
use crate::weights::FirstWeights;
use burn::tensor::Device;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use trainyard_data::{Inputs, MicroBatch};
use trainyard_hardware_profiles::DeviceKind;
use trainyard_host::Clock;
use trainyard_models::{Family, Model, ModelSpec, Sharing, from_hugging_face};
use trainyard_plan::{
    BatchSpec, ClusterSpec, FineTuningSpec, Optimizer, ParallelSpec, Plan, PlanSpec, Precision, Recompute,
    ScheduleName, StageSpec, StateSharding,
};

mod adapters;
mod dropout;
mod half;

/// The document that `tests/golden/make.py` writes.
#[derive(Deserialize)]
struct Golden {
    batches: Vec<Batch>,
    runs: BTreeMap<String, Run>,
    gradient_norms: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Batch {
    #[serde(default)]
    inputs: Vec<Vec<i32>>,
    targets: Targets,
    scored: Option<Vec<Vec<i32>>>,
    samples: Option<Vec<usize>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Targets {
    Tokens(Vec<Vec<i32>>),
    Classes(Vec<i32>),
}

#[derive(Deserialize)]
struct Run {
    learning_rate: f64,
    losses: Vec<f64>,
    evaluated: f64,
    buffer_norms: BTreeMap<String, f64>,
}

/// One of the folders.
struct Case {
    folder: PathBuf,
    golden: Golden,
    spec: ModelSpec,
    model: Model,
    /// Shape of all samples and their values, where they are not tokens.
    samples: Option<(Vec<usize>, Vec<f32>)>,
    /// The part of the model that is trained, if not all of it is.
    part: Option<FineTuningSpec>,
    /// By name, the first values of adapters.
    adapters: BTreeMap<String, Vec<f32>>,
}

const STEPS: usize = 20;

/// Samples of a step.
const GLOBAL: usize = 8;

impl Case {
    fn read(name: &str) -> Self {
        // Tests may run elsewhere than where they were built: `benchmarks/gpu/acceptance`.
        let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let folder = Path::new(&here).join("../tests/golden").join(name);
        let golden = std::fs::read(folder.join("golden.json")).expect("the case is in the repository");
        let configured = std::fs::read_to_string(folder.join("config.json")).ok();
        let spec = configured.map(|text| from_hugging_face(&text, name).expect("transformers wrote it"));
        let spec = spec.unwrap_or_else(perceptron);
        // The configuration of a convolutional network does not say of what images.
        let image_size = if spec.family == Family::ResNet { Some(32) } else { spec.image_size };
        let spec = ModelSpec { image_size, ..spec };
        let model = Model::try_from(spec.clone()).expect("the configuration is that of a model");
        let golden = serde_json::from_slice(&golden).expect("the script wrote it");
        let samples = samples(&folder.join("data.safetensors"));
        Self { samples, folder, golden, spec, model, part: None, adapters: BTreeMap::new() }
    }

    /// Returns some of the samples of a step.
    fn batch(&self, step: usize, own: Range<usize>) -> MicroBatch {
        let Batch { inputs, targets, scored, samples } = &self.golden.batches[step];
        let targets = match targets {
            Targets::Tokens(rows) => rows[own.clone()].concat(),
            Targets::Classes(classes) => classes[own.clone()].to_vec(),
        };
        let inputs = match (samples, &self.samples) {
            (Some(numbers), Some((shape, values))) => {
                let length: usize = shape[1..].iter().product();
                let of = |number: &usize| &values[number * length..(number + 1) * length];
                let values = numbers[own.clone()].iter().flat_map(of).copied().collect();
                match shape[1..] {
                    [channels, height, width] => Inputs::Images { pixels: values, channels, height, width },
                    _ => Inputs::Vectors { values, width: length },
                }
            }
            _ => Inputs::Tokens { ids: inputs[own.clone()].concat(), sequence: inputs[0].len() },
        };
        let before = match &inputs {
            Inputs::Tokens { sequence, .. } => (own.start * sequence) as i32,
            _ => 0,
        };
        let scored = scored.as_ref().map(|rows| rows[own.clone()].concat().iter().map(|row| row - before).collect());
        MicroBatch { samples: own.len(), inputs, targets, scored }
    }
}

fn perceptron() -> ModelSpec {
    ModelSpec {
        layers: Some(3),
        hidden: Some(24),
        inputs: Some(12),
        outputs: Some(5),
        ..ModelSpec::new("mlp", Family::Mlp)
    }
}

/// Reads the samples of a case: numbers, or bytes as value / 127.5 − 1.
fn samples(path: &Path) -> Option<(Vec<usize>, Vec<f32>)> {
    let file = std::fs::read(path).ok()?;
    let tensors = safetensors::SafeTensors::deserialize(&file).expect("the script wrote it");
    let view = tensors.tensor("samples").expect("the script calls them so");
    let values = match view.dtype() {
        safetensors::Dtype::U8 => view.data().iter().map(|byte| f32::from(*byte) / 127.5 - 1.0).collect(),
        _ => view.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
    };
    Some((view.shape().to_vec(), values))
}

/// The device and the kind of kernels that compute.
#[derive(Clone, Copy, PartialEq)]
enum On {
    /// Processors, with own kernels.
    Kernels,
    /// Processors, with the operators that run on other devices.
    Operators,
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    Gpu(DeviceKind),
}

impl On {
    fn kind(self) -> DeviceKind {
        match self {
            Self::Kernels | Self::Operators => DeviceKind::Cpu,
            #[cfg(any(feature = "cuda", feature = "wgpu"))]
            Self::Gpu(kind) => kind,
        }
    }

    fn device(self, place: usize) -> Device {
        crate::device::device(self.kind(), place).expect("the test is asked for where there is one")
    }
}

/// The parallelism of a training.
#[derive(Clone, Copy)]
struct Cut {
    on: On,
    data: u32,
    tensor: u32,
    pipeline: u32,
    context: u32,
    expert: u32,
    sequence: bool,
    micro: u64,
    sharding: StateSharding,
    recompute: Recompute,
    offload: &'static str,
    precision: Precision,
    /// Where there is a pipeline.
    schedule: ScheduleName,
}

const WHOLE: Cut = Cut {
    on: On::Kernels,
    data: 1,
    tensor: 1,
    pipeline: 1,
    context: 1,
    expert: 1,
    sequence: false,
    micro: GLOBAL as u64,
    sharding: StateSharding::None,
    recompute: Recompute::None,
    offload: "none",
    precision: Precision::Fp32,
    schedule: ScheduleName::OneForwardOneBackward,
};

impl Cut {
    fn plan(self, case: &Case, optimizer: Optimizer) -> Plan {
        let Self { data, tensor, pipeline, context, expert, sequence, micro, .. } = self;
        let layers = case.model.graph().len();
        let start = |stage: usize| stage * layers / pipeline as usize;
        let stages = (0..pipeline as usize)
            .map(|stage| StageSpec { first: start(stage), layers: start(stage + 1) - start(stage) })
            .collect();
        let spec = PlanSpec {
            parallel: ParallelSpec { data, tensor, pipeline, context, expert, sequence, ..ParallelSpec::default() },
            batch: BatchSpec { global: GLOBAL as u64, micro, accumulation: GLOBAL as u64 / u64::from(data) / micro },
            schedule: if pipeline > 1 { self.schedule } else { ScheduleName::None },
            stages,
            state_sharding: self.sharding,
            recompute: self.recompute,
            precision: self.precision,
            offload: self.offload.parse().expect("an offload"),
            optimizer,
            fine_tuning: case.part.clone(),
            ..PlanSpec::plain(case.spec.clone(), measured_machine(), layers)
        };
        Plan::try_from(spec).expect("a valid plan")
    }
}

/// A machine that was measured, for which there are more plans of a part of a model.
fn measured_machine() -> ClusterSpec {
    ClusterSpec { profile: Some("profile.toml".into()), ..ClusterSpec::of("local", 1) }
}

/// The result of a training.
struct Trained {
    losses: Vec<f64>,
    /// The loss of the batch behind the last step, in evaluation.
    evaluated: f64,
    /// By name, of the first rank.
    values: BTreeMap<String, Vec<f32>>,
}

/// Trains so many steps from the weights of the case.
fn train(case: &Case, cut: Cut, how: (Optimizer, f64), steps: usize) -> Trained {
    train_on(case, cut, how, &(0..steps).collect::<Vec<_>>())
}

/// Does so on the samples of these steps.
fn train_on(case: &Case, cut: Cut, (kind, learning_rate): (Optimizer, f64), steps: &[usize]) -> Trained {
    let plan = cut.plan(case, kind);
    let network = Network::tuned(&case.model, case.part.as_ref()).expect("the family is built");
    let weights = FirstWeights::find(&case.folder, &case.model, &network).expect("they are those of the model");
    let values = |key: ParameterKey| {
        let parameter = network.parameter(key);
        match case.adapters.get(&parameter.name) {
            Some(values) => parameter.as_computed(values),
            None => weights.values(key, parameter).expect("they are there"),
        }
    };
    let world = World::threads(plan.mesh().ranks() as usize);
    let results = run_ranks(&world, |world| -> Result<Trained, GroupError> {
        crate::kernels::testing::use_kernels(cut.on == On::Kernels);
        let device = cut.on.device(world.place_on_host());
        let groups = Groups::new(world, &plan, cut.on.kind())?;
        let at = groups.at;
        // What is offloaded from processors is kept apart too, as if main memory were not theirs.
        let hyper_parameters = HyperParameters { decays_all: true, ..HyperParameters::of(kind) };
        let clock = Clock::start();
        let main_memory = Some(Device::flex());
        let options = TrainerOptions { hyper_parameters, clip: None, seed: 3, clock, device, main_memory };
        let mut trainer = Trainer::new(&plan, network.clone(), groups, &values, &options);
        let (micro, accumulation) = (plan.batch().micro as usize, plan.batch().accumulation as usize);
        let first = at.data as usize * micro * accumulation;
        let mut losses = Vec::new();
        for step in steps.iter().copied() {
            let own = (0..accumulation).map(|m| first + m * micro..first + (m + 1) * micro);
            let batches: Vec<MicroBatch> = own.map(|own| case.batch(step, own)).collect();
            let mut share = vec![trainer.step(&batches, (step * GLOBAL) as u64, learning_rate)?.loss];
            trainer.world().all_reduce(&mut share, Reduction::Sum)?;
            losses.push(f64::from(share[0]));
        }
        let evaluated = trainer.evaluate(Some(&case.batch(STEPS, 0..GLOBAL)), None)?.loss / GLOBAL as f64;
        Ok(Trained { losses, evaluated, values: held(&trainer, &network) })
    });
    let mut results = results.into_iter().map(|result| result.expect("ranks go on to the end"));
    results.next().expect("there is a first rank")
}

/// Returns the values that a rank holds, by name.
fn held(trainer: &Trainer, network: &Network) -> BTreeMap<String, Vec<f32>> {
    let slots = trainer.units().values().flat_map(|unit| unit.slots.iter().map(move |slot| (unit, slot)));
    let own = slots.filter(|(_, slot)| !slot.held_elsewhere && !slot.absent);
    own.map(|(unit, slot)| {
        (network.parameter(slot.key).name.clone(), crate::network::operators::to_vec(unit.master_of(slot)))
    })
    .collect()
}

fn norm(values: impl IntoIterator<Item = f32>) -> f64 {
    values.into_iter().map(|value| f64::from(value).powi(2)).sum::<f64>().sqrt()
}

/// Asserts the same losses as PyTorch over twenty steps, with both optimizers, and the same gradients in the first.
fn assert_equals_pytorch(name: &str) {
    let case = Case::read(name);
    assert_learns_as_in_pytorch(&case, WHOLE, 1e-4);
    assert_same_gradients(&case, WHOLE, 1e-4);
}

fn assert_learns_as_in_pytorch(case: &Case, cut: Cut, tolerance: f64) {
    let name = case.folder.display();
    for (kind, written) in [(Optimizer::Sgd, "sgd"), (Optimizer::AdamW, "adamw")] {
        let expected = &case.golden.runs[written];
        let trained = train(case, cut, (kind, expected.learning_rate), STEPS);
        assert_eq!(expected.losses.len(), trained.losses.len());
        for (step, (ours, theirs)) in trained.losses.iter().zip(&expected.losses).enumerate() {
            assert!((ours - theirs).abs() < tolerance, "{name}, {written}, step {step}: {ours} and {theirs}");
        }
        let (ours, theirs) = (trained.evaluated, expected.evaluated);
        assert!((ours - theirs).abs() < tolerance, "{name}, {written}, evaluated: {ours} and {theirs}");
        for (buffer, theirs) in &expected.buffer_norms {
            let ours = norm(trained.values[buffer].iter().copied());
            assert!((ours - theirs).abs() < tolerance * theirs, "{name}, {written}, {buffer}: {ours} and {theirs}");
        }
    }
}

/// Asserts the norms of the gradients of the first step, from what plain gradient descent did with them.
fn assert_same_gradients(case: &Case, cut: Cut, tolerance: f64) {
    let rate = 0.5;
    let before = train(case, cut, (Optimizer::Sgd, rate), 0).values;
    let after = train(case, cut, (Optimizer::Sgd, rate), 1).values;
    let (mut compared, mut wrong) = (0, Vec::new());
    for (name, before) in &before {
        let norms = &case.golden.gradient_norms;
        let theirs = norms.get(name).or_else(|| norms.get(&format!("transformer.{name}")));
        // Running statistics have none.
        let Some(theirs) = theirs else { continue };
        let gradients = before.iter().zip(&after[name]).map(|(before, after)| (before - after) / rate as f32);
        let ours = norm(gradients);
        if (ours - theirs).abs() > tolerance * theirs + 3e-6 {
            wrong.push(format!("{name}: {ours} and {theirs}"));
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(compared, case.golden.gradient_norms.len());
}

#[test]
fn gpt2_learns_as_in_pytorch() {
    assert_equals_pytorch("gpt2");
}

#[test]
fn llama_learns_as_in_pytorch() {
    assert_equals_pytorch("llama");
    assert_equals_pytorch("llama3");
}

#[test]
fn mistral_learns_as_in_pytorch() {
    assert_equals_pytorch("mistral");
}

#[test]
fn mixtral_learns_as_in_pytorch() {
    assert_equals_pytorch("mixtral");
}

#[test]
fn qwen_learns_as_in_pytorch() {
    assert_equals_pytorch("qwen2");
    assert_equals_pytorch("qwen3");
}

#[test]
fn gpt_neox_learns_as_in_pytorch() {
    assert_equals_pytorch("gpt-neox");
    assert_equals_pytorch("gpt-neox-serial");
}

#[test]
fn gemma_2_learns_as_in_pytorch() {
    assert_equals_pytorch("gemma2");
}

#[test]
fn bert_learns_as_in_pytorch() {
    assert_equals_pytorch("bert");
}

#[test]
fn vit_learns_as_in_pytorch() {
    assert_equals_pytorch("vit");
}

#[test]
fn residual_networks_learn_as_in_pytorch() {
    assert_equals_pytorch("resnet-basic");
    assert_equals_pytorch("resnet-bottleneck");
}

#[test]
fn perceptrons_learn_as_in_pytorch() {
    assert_equals_pytorch("mlp");
}

/// Tests the operators that ranks on other devices compute with, in place of this crate's own kernels.
#[test]
fn every_family_learns_as_in_pytorch_without_own_kernels() {
    for name in CASES {
        assert_learns_as_in_pytorch(&Case::read(name), Cut { on: On::Operators, ..WHOLE }, 1e-4);
    }
}

#[test]
fn cuts_equal_one_process_without_own_kernels() {
    let on = On::Operators;
    assert_equals_one_process(&["gpt2", "llama"], Cut { on, tensor: 2, sequence: true, ..WHOLE });
    assert_equals_one_process(&["gpt2", "resnet-basic"], Cut { on, data: 2, pipeline: 2, micro: 2, ..WHOLE });
}

/// Trainings on GPUs; through wgpu also on a software device, where there is no other.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
mod gpus {
    use super::*;

    #[cfg(feature = "wgpu")]
    const WGPU: On = On::Gpu(DeviceKind::Wgpu);
    #[cfg(feature = "cuda")]
    const CUDA: On = On::Gpu(DeviceKind::Cuda);

    /// Ranks that share a GPU, or have one each, exchange through main memory.
    fn assert_cuts_near_one_process(on: On, tolerance: f64) {
        let whole = Cut { on, ..WHOLE };
        for cut in [
            Cut { data: 2, micro: 4, ..whole },
            Cut { tensor: 2, ..whole },
            Cut { tensor: 2, sequence: true, ..whole },
            Cut { pipeline: 2, micro: 4, ..whole },
        ] {
            assert_near_one_process(&["gpt2", "llama"], cut, tolerance);
        }
        assert_near_one_process(&["resnet-basic"], Cut { data: 2, pipeline: 2, micro: 2, ..whole }, tolerance);
    }

    /// A GPU approximates `exp` and its kin: a few parts in ten thousand of some gradients are lost.
    #[test]
    #[cfg(feature = "wgpu")]
    fn gradients_are_those_of_pytorch_through_wgpu() {
        for name in CASES {
            assert_same_gradients(&Case::read(name), Cut { on: WGPU, ..WHOLE }, 1e-3);
        }
    }

    /// AdamW's first step divides a gradient by its size, so that those near zero carry the rounding of a GPU far.
    #[test]
    #[cfg(feature = "wgpu")]
    #[ignore = "takes some five minutes on a software device"]
    fn every_family_learns_as_in_pytorch_through_wgpu() {
        for name in CASES {
            assert_learns_as_in_pytorch(&Case::read(name), Cut { on: WGPU, ..WHOLE }, 1e-3);
        }
    }

    #[test]
    #[cfg(feature = "wgpu")]
    fn cuts_equal_one_process_through_wgpu() {
        assert_cuts_near_one_process(WGPU, 1e-5);
    }

    #[test]
    #[cfg(feature = "wgpu")]
    fn what_is_offloaded_equals_what_stays_through_wgpu() {
        assert_offload_changes_nothing(&["gpt2"], Cut { on: WGPU, ..WHOLE });
    }

    /// Matrix units take single precision with ten bits of mantissa (TF32), so losses are near those of PyTorch on a
    /// processor, not equal to them. Batch normalisation of a few images makes more of it: 0.012 of a loss of 2.04 after
    /// 13 steps on an H100, 0.01 at most in other families.
    #[test]
    #[cfg(feature = "cuda")]
    #[ignore = "needs a GPU of NVIDIA's"]
    fn every_family_learns_as_in_pytorch_through_cuda() {
        // All are tried: a GPU may not be at hand again soon.
        let learns = |name: &&str| {
            let tried = || assert_learns_as_in_pytorch(&Case::read(name), Cut { on: CUDA, ..WHOLE }, 2e-2);
            std::panic::catch_unwind(tried).is_ok()
        };
        let others: Vec<&str> = CASES.into_iter().filter(|name| !learns(name)).collect();
        assert!(others.is_empty(), "{others:?} learn otherwise");
    }

    #[test]
    #[cfg(feature = "cuda")]
    #[ignore = "needs a GPU of NVIDIA's"]
    fn cuts_equal_one_process_through_cuda() {
        assert_cuts_near_one_process(CUDA, 1e-2);
    }
}

const CASES: [&str; 15] = [
    "gpt2",
    "llama",
    "llama3",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "gpt-neox",
    "gpt-neox-serial",
    "gemma2",
    "bert",
    "vit",
    "resnet-basic",
    "resnet-bottleneck",
    "mlp",
];

#[test]
fn networks_have_the_layers_and_parameters_that_descriptions_count() {
    for name in CASES {
        let case = Case::read(name);
        let (network, graph) = (Network::new(&case.model).expect("the family is built"), case.model.graph());
        assert_eq!(network.len(), graph.len(), "{name}");
        for (index, layer) in graph.layers().enumerate() {
            let own = network.parameters_of(index).iter().filter(|p| p.role == Role::Trained && p.tied_to.is_none());
            let elements: usize = own.map(Parameter::elements).sum();
            assert_eq!(elements as u64, layer.parameters(Sharing::WHOLE), "{name}, layer {index}");
        }
    }
}

/// Compares ten steps of a parallel training with those of one process with the same micro-batches.
fn assert_equals_one_process(names: &[&str], cut: Cut) {
    assert_near_one_process(names, cut, 1e-5);
}

/// Does so, where losses may differ by a part `tolerance` of them.
fn assert_near_one_process(names: &[&str], cut: Cut, tolerance: f64) {
    for name in names {
        let one = Cut { on: cut.on, micro: cut.micro, ..WHOLE };
        assert_case_near_one_process(&Case::read(name), cut, one, tolerance);
    }
}

/// Compares two cuts, the second of one process.
fn assert_case_near_one_process(case: &Case, cut: Cut, one: Cut, tolerance: f64) {
    let name = case.folder.display();
    let how = (Optimizer::Sgd, case.golden.runs["sgd"].learning_rate);
    let (one, several) = (train(case, one, how, 10), train(case, cut, how, 10));
    for (step, (one, several)) in one.losses.iter().zip(&several.losses).enumerate() {
        assert!((one - several).abs() < tolerance * one, "{name}, step {step}: {one} and {several}");
    }
}

#[test]
fn replicas_of_every_family_equal_one_process() {
    assert_equals_one_process(&CASES, Cut { data: 2, micro: 4, ..WHOLE });
}

#[test]
fn pipelines_of_every_family_equal_one_process() {
    assert_equals_one_process(&CASES, Cut { pipeline: 2, micro: 4, ..WHOLE });
    assert_equals_one_process(&CASES, Cut { data: 2, pipeline: 3, micro: 4, ..WHOLE });
}

#[test]
fn tensor_parallel_transformers_equal_one_process() {
    let names = ["gpt2", "llama", "qwen2", "qwen3", "gpt-neox", "gpt-neox-serial", "gemma2", "bert", "vit"];
    assert_equals_one_process(&names, Cut { tensor: 2, ..WHOLE });
}

#[test]
fn transformers_that_share_tokens_equal_one_process() {
    // The seventeen tokens of the vision transformer do not divide.
    let names = ["gpt2", "llama", "qwen2", "qwen3", "gpt-neox", "gpt-neox-serial", "gemma2", "bert"];
    assert_equals_one_process(&names, Cut { tensor: 2, sequence: true, ..WHOLE });
}

#[test]
fn ranks_that_share_the_tokens_of_samples_equal_one_process() {
    let names = ["gpt2", "llama", "mistral", "gpt-neox", "gemma2", "bert"];
    for context in [2, 4] {
        assert_equals_one_process(&names, Cut { context, ..WHOLE });
    }
    // A token of seventeen for each: sixteen patches and the class token.
    assert_equals_one_process(&["vit"], Cut { context: 17, ..WHOLE });
    assert_equals_one_process(&names, Cut { on: On::Operators, context: 2, ..WHOLE });
}

#[test]
fn sharing_tokens_of_samples_joins_all_other_cuts() {
    let names = ["gpt2", "llama", "mistral", "bert"];
    assert_equals_one_process(&names, Cut { data: 2, context: 2, micro: 4, ..WHOLE });
    assert_equals_one_process(&names, Cut { pipeline: 2, context: 2, micro: 2, recompute: Recompute::Full, ..WHOLE });
    assert_equals_one_process(&names, Cut { context: 2, recompute: Recompute::Selective, ..WHOLE });
    assert_equals_one_process(&["gpt2", "llama", "bert"], Cut { tensor: 2, context: 2, sequence: true, ..WHOLE });
    for sharding in [StateSharding::Optimizer, StateSharding::Gradients, StateSharding::Parameters] {
        assert_equals_one_process(&names, Cut { data: 2, context: 2, micro: 2, sharding, ..WHOLE });
    }
    let (sharding, schedule) = (StateSharding::Parameters, ScheduleName::ZeroBubbleH1);
    assert_equals_one_process(&names, Cut { pipeline: 2, context: 2, micro: 2, sharding, ..WHOLE });
    assert_equals_one_process(&names, Cut { pipeline: 2, context: 2, micro: 2, schedule, ..WHOLE });
}

#[test]
fn gpt_neox_and_gemma_2_are_cut_by_everything_at_once() {
    let names = ["gpt-neox", "gemma2"];
    for sharding in [StateSharding::Optimizer, StateSharding::Gradients, StateSharding::Parameters] {
        assert_equals_one_process(&names, Cut { data: 2, tensor: 2, micro: 2, sharding, ..WHOLE });
    }
    let (sharding, schedule) = (StateSharding::Parameters, ScheduleName::ZeroBubbleH1);
    for recompute in [Recompute::Selective, Recompute::Full] {
        let cut = Cut { tensor: 2, sequence: true, pipeline: 2, micro: 2, recompute, ..WHOLE };
        assert_equals_one_process(&names, cut);
        assert_equals_one_process(&names, Cut { schedule, ..cut });
    }
    assert_equals_one_process(&names, Cut { data: 2, pipeline: 2, micro: 2, sharding, schedule, ..WHOLE });
    assert_equals_one_process(&names, Cut { tensor: 2, context: 2, sequence: true, ..WHOLE });
    for cut in [Cut { tensor: 2, sequence: true, ..WHOLE }, Cut { data: 2, micro: 4, sharding, ..WHOLE }] {
        assert_equals_one_process(&names, Cut { on: On::Operators, ..cut });
    }
}

#[test]
fn ranks_that_share_experts_equal_one_process() {
    for expert in [2, 4] {
        assert_equals_one_process(&["mixtral"], Cut { data: 4, expert, micro: 2, ..WHOLE });
    }
    let pair = Cut { data: 2, expert: 2, micro: 4, ..WHOLE };
    for sequence in [false, true] {
        assert_equals_one_process(&["mixtral"], Cut { tensor: 2, sequence, ..pair });
    }
    let schedule = ScheduleName::ZeroBubbleH1;
    for cut in [
        Cut { context: 2, ..pair },
        Cut { pipeline: 2, micro: 2, recompute: Recompute::Full, ..pair },
        Cut { pipeline: 2, micro: 2, schedule, recompute: Recompute::Selective, ..pair },
        Cut { on: On::Operators, ..pair },
    ] {
        assert_equals_one_process(&["mixtral"], cut);
    }
}

#[test]
fn experts_are_cut_as_everything_else() {
    let schedule = ScheduleName::ZeroBubbleH1;
    for cut in [
        Cut { tensor: 2, ..WHOLE },
        Cut { tensor: 2, sequence: true, ..WHOLE },
        Cut { context: 2, ..WHOLE },
        Cut { pipeline: 2, micro: 2, schedule, ..WHOLE },
    ] {
        assert_equals_one_process(&["mixtral"], cut);
    }
}

#[test]
fn weights_that_are_gathered_for_each_pass_equal_one_process() {
    let sharding = StateSharding::Parameters;
    assert_equals_one_process(&CASES, Cut { data: 2, micro: 4, sharding, ..WHOLE });
    assert_equals_one_process(&["gpt2", "llama", "vit"], Cut { data: 2, pipeline: 2, micro: 2, sharding, ..WHOLE });
    assert_equals_one_process(
        &["gpt2", "llama"],
        Cut { data: 2, tensor: 2, sequence: true, sharding, micro: 4, ..WHOLE },
    );
    let on = On::Operators;
    assert_equals_one_process(&["gpt2", "llama", "resnet-basic"], Cut { on, data: 2, micro: 4, sharding, ..WHOLE });
}

/// Compares trainings that keep states, weights and activations in main memory with ones that keep them on the device.
fn assert_offload_changes_nothing(names: &[&str], whole: Cut) {
    let sharding = StateSharding::Parameters;
    for cut in [
        Cut { offload: "optimizer", ..whole },
        Cut { offload: "activations+optimizer", recompute: Recompute::Full, micro: 4, ..whole },
        Cut { offload: "optimizer+parameters", sharding, micro: 4, ..whole },
        Cut { offload: "optimizer+parameters", sharding, data: 2, micro: 4, ..whole },
    ] {
        assert_equals_one_process(names, cut);
    }
}

#[test]
fn what_is_offloaded_equals_what_stays() {
    for on in [On::Kernels, On::Operators] {
        assert_offload_changes_nothing(&CASES, Cut { on, ..WHOLE });
    }
    let (offload, recompute, schedule) =
        ("activations+optimizer+parameters", Recompute::Full, ScheduleName::ZeroBubbleH1);
    let sharding = StateSharding::Parameters;
    let cut = Cut { offload, recompute, sharding, pipeline: 2, micro: 2, ..WHOLE };
    assert_equals_one_process(&["gpt2", "llama"], cut);
    assert_equals_one_process(&["gpt2", "llama"], Cut { data: 2, schedule, ..cut });
}

#[test]
fn attention_that_is_computed_again_equals_one_process() {
    let names = ["gpt2", "llama", "mistral", "gpt-neox", "gemma2", "bert", "vit"];
    let recompute = Recompute::Selective;
    assert_equals_one_process(&names, Cut { recompute, micro: 4, ..WHOLE });
    let sharding = StateSharding::Parameters;
    assert_equals_one_process(&names[..2], Cut { data: 2, pipeline: 2, micro: 2, sharding, recompute, ..WHOLE });
    assert_equals_one_process(&names[..2], Cut { tensor: 2, sequence: true, recompute, ..WHOLE });
    assert_equals_one_process(&names, Cut { on: On::Operators, recompute, ..WHOLE });
}

#[test]
fn backward_in_halves_equals_one_process() {
    let schedule = ScheduleName::ZeroBubbleH1;
    assert_equals_one_process(&CASES, Cut { pipeline: 2, micro: 2, schedule, ..WHOLE });
    let (sharding, recompute) = (StateSharding::Parameters, Recompute::Full);
    assert_equals_one_process(&["gpt2", "vit"], Cut { data: 2, pipeline: 2, micro: 1, schedule, sharding, ..WHOLE });
    let cut = Cut { pipeline: 3, micro: 2, schedule, recompute, ..WHOLE };
    assert_equals_one_process(&["gpt2", "bert", "llama"], cut);
    let cut = Cut { tensor: 2, pipeline: 2, sequence: true, micro: 2, schedule, ..WHOLE };
    assert_equals_one_process(&["gpt2", "llama"], cut);
    assert_equals_one_process(
        &["gpt2", "llama", "mlp"],
        Cut { on: On::Operators, pipeline: 2, micro: 2, schedule, ..WHOLE },
    );
}
