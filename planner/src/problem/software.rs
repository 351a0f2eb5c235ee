//! Software that exists: which plans a stack runs, with which attention kernel, and which stacks are compared.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as UnknownWord;
use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;
use trainyard_hardware_profiles::{Catalog, Stack};
use trainyard_models::{AttentionKernel, Divisible, Model, SpecialLayers};
use trainyard_plan::{
    Collectives, Executable, Fixed, GradientCompression, GradientReduction, Method, NotExecutable, Offload, Optimizer,
    Placement, Precision, Recompute, ScheduleName, StateSharding, Store, TuningKind,
};
use trainyard_sim::Machine;
use trainyard_units::Invalid;

/// The word with which a job asks for a comparison of the stacks that people use today.
pub(crate) const AUTO_STACK: &str = "auto";

/// Offloads to main memory with undescribed software, the smallest first.
const OFFLOADS: &[(Offload, StateSharding)] = &[
    (Offload::NONE, StateSharding::None),
    (Offload { optimizer: Some(Store::Host), ..Offload::NONE }, StateSharding::None),
    (Offload { optimizer: Some(Store::Host), activations: Some(Store::Host), parameters: None }, StateSharding::None),
    (
        Offload { optimizer: Some(Store::Host), activations: Some(Store::Host), parameters: Some(Store::Host) },
        StateSharding::None,
    ),
];

/// Number formats that all software has.
const EVERYWHERE: &[Precision] = &[Precision::Fp32, Precision::Tf32, Precision::Fp16Mixed, Precision::Bf16Mixed];

/// Optimizers that all software has: those in eight bits are in libraries of their own.
const WITHOUT_A_LIBRARY: &[Optimizer] = &[
    Optimizer::AdamW,
    Optimizer::Adam,
    Optimizer::Sgd,
    Optimizer::Momentum,
    Optimizer::RmsProp,
    Optimizer::Lars,
    Optimizer::Lamb,
];

/// Converts the description of a stack into the plans that it can run.
///
/// # Errors
///
/// When its description holds a word that plan documents do not have.
pub fn executable(stack: &Stack) -> Result<Executable, Invalid> {
    let runs = &stack.runs;
    let words = Words { stack };
    let degree = |name: &str| runs.degrees.as_ref().is_none_or(|degrees| degrees.iter().any(|own| own == name));
    let mut schedules = words.among("schedules", runs.schedules.as_deref(), ScheduleName::ALL)?;
    if !degree("pipeline") {
        schedules = Cow::Borrowed(&[ScheduleName::None]);
    }
    let sharding = |name: &String| words.one("reduces_micro_batches_from", name);
    Ok(Executable {
        families: runs.families.as_deref().map(|names| words.each("families", names)).transpose()?.map(Cow::Owned),
        layers_refused: runs
            .layers_refused
            .keys()
            .map(|name| words.one("layers_refused", name))
            .collect::<Result<Vec<SpecialLayers>, Invalid>>()?
            .into(),
        gpt_layers: runs.gpt_layers,
        latent_attention: true,
        heads: runs.heads.as_deref().map(|names| words.each("heads", names)).transpose()?.map(Cow::Owned),
        expert_precisions: words.among("expert_precisions", runs.expert_precisions.as_deref(), Precision::ALL)?,
        experts_need_sequence: runs.experts_need_sequence,
        tensor: degree("tensor"),
        sequence: degree("sequence"),
        context: degree("context"),
        expert: degree("expert"),
        folds_experts: runs.folds_experts,
        experts_need_whole_states: runs.experts_need_whole_states,
        tables: degree("tables"),
        precisions: match runs.precisions.as_deref() {
            Some(named) => words.among("precisions", Some(named), Precision::ALL)?,
            None => Cow::Borrowed(EVERYWHERE),
        },
        schedules,
        recompute: words.among("recompute", runs.recompute.as_deref(), Recompute::ALL)?,
        state_sharding: words.among("state_sharding", runs.state_sharding.as_deref(), StateSharding::ALL)?,
        flat_shards: runs.flat_shards,
        hybrid_sharding: runs.hybrid_sharding.unwrap_or(true),
        any_sharding_groups: runs.hybrid_sharding.is_none(),
        gradient_reduction: words.among(
            "gradient_reduction",
            runs.gradient_reduction.as_deref(),
            GradientReduction::ALL,
        )?,
        reduces_micro_batches_from: runs.reduces_micro_batches_from.as_ref().map(sharding).transpose()?,
        gradient_compression: words.among(
            "gradient_compression",
            runs.gradient_compression.as_deref(),
            GradientCompression::ALL,
        )?,
        collectives: words.among("collectives", runs.collectives.as_deref(), Collectives::ALL)?,
        optimizers: match runs.optimizers.as_deref() {
            Some(named) => words.among("optimizers", Some(named), Optimizer::ALL)?,
            None => Cow::Borrowed(WITHOUT_A_LIBRARY),
        },
        offloads: words.offloads()?,
        offloads_checkpoints: runs.offloads_checkpoints,
        placements: runs.placements.as_ref().is_none_or(|names| names.iter().any(|name| name != "cluster")),
        methods: words.methods()?,
        dpo: words.each("dpo", &runs.dpo)?.into(),
        splits_tuned: runs.splits_tuned,
    })
}

/// Returns the plans that a stack can run on its machine's GPUs.
pub(crate) fn executable_on(machine: &Machine) -> Result<Executable, Invalid> {
    let mut software = executable(&machine.stack)?;
    let Some(gpu) = machine.cluster.first().device.gpu() else { return Ok(software) };
    let runs = &machine.stack.runs;
    software.latent_attention =
        runs.latent_attention.as_ref().is_none_or(|generations| generations.contains(&gpu.generation));
    let lacks = |degree: &str| runs.degrees_with_fused_attention.iter().any(|name| name == degree);
    if runs.attention_on(&gpu.generation).is_some_and(|kernel| kernel == AttentionKernel::Unfused.name()) {
        software.sequence &= !lacks("sequence");
        software.context &= !lacks("context");
    }
    Ok(software)
}

/// What is trained: a model, which of its weights and towards what, and with which optimizer.
#[derive(Clone, Copy)]
pub(crate) struct Trained<'a> {
    pub(crate) model: &'a Model,
    pub(crate) kind: TuningKind,
    pub(crate) optimizer: Optimizer,
}

/// Returns the plans that the stack of a machine can run, of those that train this.
pub(crate) fn software_of(trained: Trained<'_>, machine: &Machine) -> Executable {
    of_these(executable_on(machine).expect("stacks are checked where a job is read"), trained)
}

/// Returns the plans of a software that train this.
pub(crate) fn of_these(software: Executable, trained: Trained<'_>) -> Executable {
    software.for_tuning(trained.kind).for_optimizer(trained.optimizer)
}

/// The lists of a stack, parsed into the types of plans.
struct Words<'a> {
    stack: &'a Stack,
}

impl Words<'_> {
    fn one<T: for<'de> Deserialize<'de>>(&self, field: &'static str, name: &str) -> Result<T, Invalid> {
        T::deserialize(name.into_deserializer()).map_err(|problem: UnknownWord| {
            let field = format!("stacks.{}.runs.{field}", self.stack.name);
            Invalid::inside(field, format!("`{name}`: {problem}"))
                .with_hint("the words are those of plan documents; `trainyard schemas` writes plan.json, their schema")
        })
    }

    fn each<T: for<'de> Deserialize<'de>>(&self, field: &'static str, names: &[String]) -> Result<Vec<T>, Invalid> {
        names.iter().map(|name| self.one(field, name)).collect()
    }

    /// Returns the values that the stack names, in the order of all; all if it names none.
    fn among<T: for<'de> Deserialize<'de> + Copy + PartialEq>(
        &self,
        field: &'static str,
        names: Option<&[String]>,
        all: &'static [T],
    ) -> Result<Cow<'static, [T]>, Invalid> {
        let Some(names) = names else { return Ok(Cow::Borrowed(all)) };
        let named: Vec<T> = self.each(field, names)?;
        Ok(all.iter().copied().filter(|value| named.contains(value)).collect())
    }

    fn methods(&self) -> Result<Cow<'static, [Method]>, Invalid> {
        let mut all = vec![Method::Full];
        all.extend(self.each::<Method>("fine_tuning", &self.stack.runs.fine_tuning)?);
        Ok(all.into())
    }

    fn offloads(&self) -> Result<Cow<'static, [(Offload, StateSharding)]>, Invalid> {
        let runs = &self.stack.runs;
        let Some(names) = &runs.offload else { return Ok(Cow::Borrowed(OFFLOADS)) };
        let mut least = [("optimizer", StateSharding::None); 4];
        for (slot, part) in least.iter_mut().zip(["optimizer", "activations", "parameters", "nvme"]) {
            let needed = runs.offload_needs.get(part).map(|name| self.one("offload_needs", name)).transpose()?;
            *slot = (part, needed.unwrap_or_default());
        }
        let mut all = vec![(Offload::NONE, StateSharding::None)];
        for offload in self.each::<Offload>("offload", names)? {
            let has = |part: &str| match part {
                "optimizer" => offload.optimizer.is_some(),
                "activations" => offload.activations.is_some(),
                "parameters" => offload.parameters.is_some(),
                _ => offload.uses(Store::Nvme),
            };
            let needed = least.iter().filter(|(part, _)| has(part)).map(|(_, needed)| *needed).max();
            if offload != Offload::NONE {
                all.push((offload, needed.unwrap_or_default()));
            }
        }
        Ok(all.into())
    }
}

/// Lists the stacks that people start trainings with today.
pub(crate) fn of_today(catalog: &Catalog) -> Vec<Arc<Stack>> {
    catalog.stacks().iter().filter(|stack| stack.runs.today).cloned().collect()
}

/// Returns `true` if a stack can train this, on one device.
pub(crate) fn trains(software: &Executable, trained: Trained<'_>) -> bool {
    let Trained { model, kind, optimizer } = trained;
    let head = model.spec().head.zip(software.heads.as_ref()).is_none_or(|(head, heads)| heads.contains(&head));
    software.refused_model(model).is_none() && head && software.trains(kind) && software.updates_with(optimizer)
}

/// Returns why a stack is not planned for layers of a model, or for a method of fine-tuning, where it says so.
pub(crate) fn why_refused<'a>(stack: &'a Stack, model: &Model, method: Method) -> Option<&'a str> {
    let layers = executable(stack).ok().and_then(|software| software.refused_layers(model));
    let of_layers = layers.and_then(|special| {
        let name = match special {
            SpecialLayers::Recurrent => "recurrent",
            SpecialLayers::Regions => "regions",
        };
        stack.runs.layers_refused.get(name)
    });
    of_layers.or_else(|| stack.runs.fine_tuning_refused.get(&method.to_string())).map(String::as_str)
}

/// Returns the first held field that a stack cannot run, for a model with these experts or tables; `None` if it can run
/// them all.
pub(crate) fn refused(fixed: &Fixed, software: &Executable, divisible: Option<Divisible>) -> Option<NotExecutable> {
    fn among<T: Copy + PartialEq + Display>(field: &'static str, held: Option<T>, runs: &[T]) -> Option<NotExecutable> {
        let value = held.filter(|held| !runs.contains(held))?;
        let names: Vec<String> = runs.iter().map(ToString::to_string).collect();
        Some(NotExecutable { field, value: value.to_string(), allowed: format!("only {}", names.join(", ")) })
    }
    let degree = |field: &'static str, held: Option<u32>, runs: bool| {
        let value = held.filter(|degree| *degree > 1 && !runs)?;
        Some(NotExecutable { field, value: value.to_string(), allowed: format!("{field} 1 only") })
    };
    let offloads: Vec<Offload> = software.offloads.iter().map(|(offload, _)| *offload).collect();
    let pipelined = software.schedules.iter().any(|name| name.is_pipelined());
    // Software that shards flat runs of values shards something, unless the optimizer needs whole tensors.
    let whole_tensors = software.flat_shards && *software.state_sharding == [StateSharding::None];
    let state_sharding = || {
        let refused = among("state_sharding", fixed.state_sharding, &software.state_sharding)?;
        let why = if whole_tensors { ", because lamb and lars need whole tensors" } else { "" };
        Some(NotExecutable { allowed: refused.allowed + why, ..refused })
    };
    let placed = fixed.placement.filter(|placement| *placement != Placement::Cluster && !software.placements);
    degree("parallel.tensor", fixed.tensor, software.tensor)
        .or_else(|| degree("parallel.pipeline", fixed.pipeline, pipelined))
        .or_else(|| degree("parallel.context", fixed.context, software.context))
        .or_else(|| degree("parallel.expert", fixed.expert, software.distributes(divisible)))
        .or_else(|| among("schedule", fixed.schedule, &software.schedules))
        .or_else(|| among("precision", fixed.precision, &software.precisions))
        .or_else(|| among("recompute", fixed.recompute, &software.recompute))
        .or_else(state_sharding)
        .or_else(|| among("gradient_reduction", fixed.gradient_reduction, &software.gradient_reduction))
        .or_else(|| among("gradient_compression", fixed.gradient_compression, &software.gradient_compression))
        .or_else(|| among("offload", fixed.offload, &offloads))
        .or_else(|| among("collectives", fixed.collectives, &software.collectives))
        .or_else(|| among("placement", placed, &[Placement::Cluster]))
}

/// Names the stacks that meet a condition, those that people start trainings with today first.
pub(crate) fn names_of_those_that(stacks: &[Arc<Stack>], runs: impl Fn(&Executable) -> bool) -> Vec<String> {
    let able = |stack: &&Stack| executable(stack).is_ok_and(|software| runs(&software));
    let stacks = stacks.iter().map(AsRef::as_ref);
    let (today, measured): (Vec<&Stack>, Vec<&Stack>) = stacks.filter(able).partition(|stack| stack.runs.today);
    today.into_iter().chain(measured).map(|stack| stack.name.clone()).collect()
}

/// Returns the model as the stack of a machine computes it: if the model does not state its attention kernel, with the
/// one that the stack chooses for the GPUs.
pub(crate) fn with_chosen_attention(model: &Model, machine: &Machine) -> Model {
    machine
        .attention_kernel(model.adds_bias_to_scores())
        .map_or_else(|| model.clone(), |kernel| model.with_attention(kernel))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;

    fn stack(name: &str) -> Arc<Stack> {
        catalog().stack(name).expect("in the catalog").clone()
    }

    #[test]
    fn every_stack_says_what_it_runs_in_the_words_of_plans() {
        for stack in catalog().stacks() {
            let software = executable(stack).unwrap_or_else(|error| panic!("{error}"));
            assert!(software.offloads.iter().any(|(offload, _)| *offload == Offload::NONE), "{}", stack.name);
        }
        let mut wrong = stack("pytorch-ddp");
        Arc::make_mut(&mut wrong).runs.schedules = Some(vec!["2f2b".into()]);
        let error = executable(&wrong).expect_err("no schedule");
        assert_eq!(error.field(), "stacks.pytorch-ddp.runs.schedules");
        assert!(error.to_string().contains("`2f2b`"), "{error}");
    }

    /// transformers 5.24 computes T5 with PyTorch's scaled_dot_product_attention, which takes FlashAttention for no bias.
    #[test]
    fn a_bias_of_scores_is_computed_by_the_memory_efficient_kernel() {
        let kernel = |name: &str, stack_name: &str| {
            let cluster = catalog().cluster("p4d.24xlarge", 1).expect("in the catalog");
            let machine = Machine { cluster, stack: stack(stack_name) };
            let model = &trainyard_models::find(name).expect("in the catalog").model;
            with_chosen_attention(&model_without_kernel(model), &machine).spec().attention
        };
        for of_today in ["pytorch-ddp", "pytorch-ddp-compiled", "pytorch-fsdp", "deepspeed"] {
            assert_eq!(kernel("t5-base", of_today), Some(AttentionKernel::MemoryEfficient), "{of_today}");
            assert_eq!(kernel("bart-large", of_today), Some(AttentionKernel::Flash), "{of_today}");
        }
        assert_eq!(kernel("t5-base", "pytorch-2020"), Some(AttentionKernel::Unfused));
    }

    fn model_without_kernel(model: &Model) -> Model {
        let spec = trainyard_models::ModelSpec { attention: None, ..model.spec() };
        Model::try_from(spec).expect("a model of the catalog")
    }

    /// What torch.compile and shards of parameters do not do to an LSTM, and what the number of regions in an image does to a graph.
    #[test]
    fn layers_that_break_graphs_or_flat_buffers_are_run_by_eager_replicas() {
        let of = |name: &str| {
            let model = &trainyard_models::find(name).expect("in the catalog").model;
            let runs =
                |stack_name: &&str| executable(&stack(stack_name)).is_ok_and(|own| own.refused_model(model).is_none());
            let all = ["pytorch-ddp", "pytorch-ddp-compiled", "pytorch-fsdp", "pytorch-fsdp-compiled", "deepspeed"];
            let run: Vec<&str> = all.into_iter().filter(runs).collect();
            (run, why_refused(&stack("pytorch-fsdp-compiled"), model, Method::Full).map(ToOwned::to_owned))
        };
        let (run, why) = of("gnmt");
        assert_eq!(run, ["pytorch-ddp"]);
        assert!(why.is_some_and(|why| why.contains("flat buffer")));
        let (run, why) = of("mask-rcnn-r50-fpn");
        assert_eq!(run, ["pytorch-ddp", "pytorch-fsdp", "deepspeed"]);
        assert!(why.is_some_and(|why| why.contains("torch.compile")));
        assert_eq!(
            of("gpt2"),
            (vec!["pytorch-ddp", "pytorch-ddp-compiled", "pytorch-fsdp", "pytorch-fsdp-compiled", "deepspeed"], None)
        );
    }

    /// ZeRO's partitions are flat; Megatron-LM and the Trainer's FSDP have no LAMB at all.
    #[test]
    fn an_optimizer_with_rates_of_tensors_keeps_whole_states() {
        let model = trainyard_models::find("bert-large").expect("in the catalog").model.clone();
        let of = |optimizer| Trained { model: &model, kind: TuningKind::FULL, optimizer };
        let runs = |name: &str| executable(&stack(name)).expect("well described");
        for optimizer in [Optimizer::Lamb, Optimizer::Lars] {
            for none in ["megatron-core", "pytorch-fsdp", "pytorch-fsdp-compiled", "deepspeed-zero3"] {
                assert!(!trains(&runs(none), of(optimizer)), "{none} with {optimizer}");
            }
            assert!(trains(&runs("pytorch-ddp"), of(optimizer)));
        }
        let whole = of_these(runs("deepspeed"), of(Optimizer::Lamb));
        assert_eq!(*whole.state_sharding, [StateSharding::None]);
        let held = Fixed { state_sharding: Some(StateSharding::Optimizer), ..Fixed::default() };
        let refusal = refused(&held, &whole, None).expect("flat partitions");
        let allowed = "only none, because lamb and lars need whole tensors";
        assert_eq!((refusal.field, refusal.allowed.as_str()), ("state_sharding", allowed));
        assert_eq!(refused(&held, &of_these(runs("deepspeed"), of(Optimizer::AdamW)), None), None);
        assert_eq!(refused(&held, &of_these(runs("trainyard-executor"), of(Optimizer::Lamb)), None), None);
    }

    #[test]
    fn moments_in_eight_bits_are_of_the_stacks_that_name_them() {
        let mut run = names_of_those_that(catalog().stacks(), |software| software.updates_with(Optimizer::AdamW8bit));
        run.sort();
        assert_eq!(run, ["deepspeed", "pytorch-ddp", "pytorch-ddp-compiled", "pytorch-fsdp"]);
        let model = trainyard_models::find("llama-3.2-1b").expect("in the catalog").model.clone();
        let of = |optimizer| Trained { model: &model, kind: TuningKind::FULL, optimizer };
        let held = Fixed::parse(&["offload=optimizer".into()]).expect("a field");
        let deepspeed = || executable(&stack("deepspeed")).expect("well described");
        let refusal = refused(&held, &of_these(deepspeed(), of(Optimizer::AdamW8bit)), None).expect("no kernels");
        assert_eq!((refusal.field, refusal.allowed.as_str()), ("offload", "only none"));
        assert_eq!(refused(&held, &of_these(deepspeed(), of(Optimizer::AdamW)), None), None);
    }

    #[test]
    fn offload_asks_for_as_much_sharding_as_its_parts() {
        let software = executable(&stack("deepspeed")).expect("well described");
        let least = |text: &str| {
            let offload: Offload = text.parse().expect("an offload");
            software.offloads.iter().find(|(own, _)| *own == offload).map(|(_, least)| *least)
        };
        assert_eq!(least("none"), Some(StateSharding::None));
        assert_eq!(least("optimizer"), Some(StateSharding::Optimizer));
        assert_eq!(least("optimizer@nvme"), Some(StateSharding::Parameters));
        assert_eq!(least("activations"), None);
    }

    #[test]
    fn attention_follows_from_stack_and_gpu() {
        let kernel = |model: &str, name: &str, instance: &str| {
            let model = &trainyard_models::find(model).expect("in the catalog").model;
            let cluster = catalog().cluster(instance, 1).expect("in the catalog");
            with_chosen_attention(model, &Machine { cluster, stack: stack(name) }).spec().attention
        };
        assert_eq!(kernel("gpt2", "pytorch-ddp", "p4d.24xlarge"), Some(AttentionKernel::Flash));
        assert_eq!(kernel("gpt2", "pytorch-ddp", "p3.2xlarge"), Some(AttentionKernel::MemoryEfficient));
        assert_eq!(kernel("gpt2", "megatron-core", "p3.2xlarge"), Some(AttentionKernel::Unfused));
        assert_eq!(kernel("t5-large", "pytorch-ddp", "p4d.24xlarge"), Some(AttentionKernel::MemoryEfficient));
        assert_eq!(kernel("resnet50", "pytorch-ddp", "p4d.24xlarge"), None);
    }

    #[test]
    fn what_a_stack_does_not_run_is_told_by_its_field() {
        let refusal = |name: &str, held: &str| {
            let fixed = Fixed::parse(&[held.into()]).expect("a field");
            refused(&fixed, &executable(&stack(name)).expect("well described"), None).map(|refused| refused.field)
        };
        assert_eq!(refusal("pytorch-ddp", "parallel.tensor=2"), Some("parallel.tensor"));
        assert_eq!(refusal("megatron-core", "parallel.tensor=2"), None);
        assert_eq!(refusal("megatron-core", "schedule=zb-h1"), Some("schedule"));
        assert_eq!(refusal("megatron-core", "offload=optimizer"), Some("offload"));
        assert_eq!(refusal("pytorch", "schedule=zb-h1"), None);
    }
}
