//! What makes room where the plain plan does not fit, in the order in which it is worth trying: a lighter model or
//! optimizer, a smaller batch, a smaller input, a narrower number format, recomputation, sharing out, keeping elsewhere,
//! and, at last, splitting the model.
//!
//! Memory is counted, nothing is simulated: each draft is a plan of its own, with the layers cut evenly if it is split.

use super::solve::recommended;
use crate::problem::{Problem, executable_on, lighter, usual_optimizer};
use crate::relative::apart;
use crate::search::Evaluated;
use crate::shortfall::TooLarge;
use trainyard_models::{Model, ModelSpec};
use trainyard_plan::document::{Rejected, RejectedBy, Remedy};
use trainyard_plan::operators::LayerRole;
use trainyard_plan::{
    BatchSpec, Fixed, Offload, Optimizer, ParallelSpec, Plan, PlanSpec, Precision, Recompute, ScheduleName, Stages,
    StateSharding, Store,
};
use trainyard_sim::{Footprint, Machine, footprint};
use trainyard_units::{Bytes, counted};

/// The offload that is tried: of everything that can be.
const OFFLOAD: Offload =
    Offload { optimizer: Some(Store::Host), activations: Some(Store::Host), parameters: Some(Store::Host) };

/// The problem on the recommended machines.
pub(crate) struct Remedies<'a> {
    problem: &'a Problem,
    fixed: &'a Fixed,
    chosen: &'a Plan,
    machine: Machine,
}

/// A plan before it is one.
#[derive(Clone)]
struct Draft {
    model: Model,
    optimizer: Optimizer,
    at_once: bool,
    precision: Precision,
    recompute: Recompute,
    sharding: StateSharding,
    offload: Offload,
    /// Ranks over which the tokens of a sample are shared out.
    context: u32,
    /// Ranks over which experts are shared out.
    expert: u32,
    split: (u32, u32),
}

/// One remedy: its name, its effect on a draft, and how far the recommended plan uses it.
struct Step {
    name: String,
    changes_training: bool,
    draft: Draft,
    taken: Option<String>,
}

impl<'a> Remedies<'a> {
    pub(crate) fn new(problem: &'a Problem, fixed: &'a Fixed, chosen: &'a Evaluated) -> Self {
        Self { problem, fixed, chosen: &chosen.plan, machine: chosen.machine(problem) }
    }

    /// Lists the plain plan and the remedies; empty if the plain plan fits, or if the machine was measured in one
    /// format only.
    pub(crate) fn all(&self) -> Vec<Remedy> {
        let plain = self.plain();
        let Some(needed) = self.needed(&plain) else { return Vec::new() };
        if self.machine.cluster.first().device.gpu().is_none() || needed.fits().is_ok() {
            return Vec::new();
        }
        let mut all = vec![Remedy {
            remedy: self.plain_name(&plain),
            changes_training: false,
            memory_bytes: needed.peak().0,
            together_bytes: None,
            available_bytes: available(&needed),
            fits: false,
            taken: None,
        }];
        let mut together = plain.clone();
        for step in self.steps(&plain) {
            let Some(alone) = self.needed(&step.draft) else { continue };
            let joined = (!step.changes_training).then(|| joined(&together, &plain, &step.draft));
            let both = joined.as_ref().and_then(|draft| self.needed(draft));
            if let (Some(draft), Some(_)) = (joined, &both) {
                together = draft;
            }
            let fits = both.as_ref().unwrap_or(&alone).fits().is_ok();
            all.push(Remedy {
                remedy: step.name,
                changes_training: step.changes_training,
                memory_bytes: alone.peak().0,
                together_bytes: both.map(|both| both.peak().0),
                available_bytes: available(&alone),
                fits,
                taken: step.taken,
            });
        }
        all
    }

    /// Lists the strategies of which no plan fits on the recommended machines, each with the least memory that it
    /// needs.
    pub(crate) fn too_large(&self) -> Vec<Rejected> {
        if self.machine.cluster.first().device.gpu().is_none() {
            return Vec::new();
        }
        let cluster = self.chosen.cluster();
        let here = Fixed {
            instance: Some(cluster.instance.clone()),
            instances: Some(cluster.instances),
            tensor: Some(1),
            pipeline: Some(1),
            ..self.fixed.clone()
        };
        let mut strategies = vec![("data parallelism alone", here.clone())];
        if let (Some(tensor), true) = (self.widest_tensor(), self.chosen.mesh().pipeline() > 1) {
            strategies.push(("tensor parallelism inside a machine", Fixed { tensor: Some(tensor), ..here }));
        }
        strategies.into_iter().filter_map(|(name, fixed)| self.rejected(name, &fixed)).collect()
    }

    fn rejected(&self, name: &str, fixed: &Fixed) -> Option<Rejected> {
        let (None, Some(TooLarge { plans: count, least })) = recommended(self.problem, fixed) else { return None };
        let times = least.ratio();
        let much = if times < 1.1 { least.times() } else { format!("{times:.1}") };
        Some(Rejected {
            what: format!("{name} on {}", self.chosen.cluster()),
            why: format!("does not fit ({}, {much} times as much)", least.in_words()),
            count,
            limit: Some(RejectedBy::Memory),
            times: Some(times),
        })
    }

    fn has_blocks(&self) -> bool {
        self.chosen.graph().distinct().iter().any(|layer| layer.role == LayerRole::Block)
    }

    /// Returns the most ranks of a machine that share its layers evenly, if there is more than one.
    fn widest_tensor(&self) -> Option<u32> {
        let devices = self.machine.cluster.first().devices_per_instance;
        let heads = self.problem.model.tensor_heads()?;
        (2..=devices).rev().find(|ranks| devices.is_multiple_of(*ranks) && heads.is_multiple_of(u64::from(*ranks)))
    }

    fn plain(&self) -> Draft {
        let allowed = self.fixed.precision.map_or_else(|| self.problem.precisions.clone(), |held| vec![held]);
        let usable = |precision: &&Precision| self.machine.has_units(**precision).is_ok();
        // Formats are in the order of their width.
        let precision = allowed.iter().find(usable).copied().unwrap_or(self.chosen.precision());
        Draft {
            model: self.chosen.model().clone(),
            optimizer: self.problem.optimizer,
            at_once: true,
            precision,
            recompute: Recompute::None,
            sharding: StateSharding::None,
            offload: Offload::NONE,
            context: 1,
            expert: 1,
            split: (1, 1),
        }
    }

    fn plain_name(&self, plain: &Draft) -> String {
        let (replicas, replica) = self.replicas(plain);
        let each = if replicas == 1 { "on one device".into() } else { format!("on each of {replicas} devices") };
        let samples = counted(replica, "sample");
        format!("{} with {}, {samples} at once {each}", plain.precision, plain.optimizer)
    }

    /// Returns the number of replicas that the machines have room for and that share the global batch evenly, and the
    /// samples of each.
    fn replicas(&self, draft: &Draft) -> (u32, u64) {
        let global = self.chosen.batch().global;
        let most = (self.machine.cluster.devices() / (draft.split.0 * draft.split.1 * draft.context)).max(1);
        let evenly = |replicas: &u32| global.is_multiple_of(u64::from(*replicas));
        let replicas = (1..=most).rev().find(evenly).unwrap_or(1);
        (replicas, global / u64::from(replicas))
    }

    /// Computes the memory that a draft needs; `None` if it is no valid plan.
    fn needed(&self, draft: &Draft) -> Option<Footprint> {
        let layers = draft.model.graph().len();
        let cluster = self.problem.place.spec_of(&self.machine.cluster);
        let (data, replica) = self.replicas(draft);
        let (tensor, pipeline) = draft.split;
        let (context, expert) = (draft.context, draft.expert);
        let micro = if draft.at_once { replica } else { 1 };
        let spec = PlanSpec {
            parallel: ParallelSpec { data, tensor, pipeline, context, expert, ..ParallelSpec::default() },
            batch: BatchSpec { global: self.chosen.batch().global, micro, accumulation: replica / micro },
            schedule: if pipeline > 1 { ScheduleName::OneForwardOneBackward } else { ScheduleName::None },
            stages: Stages::balanced(&vec![1.0; layers], pipeline)?.specs(),
            precision: draft.precision,
            recompute: draft.recompute,
            state_sharding: draft.sharding,
            offload: draft.offload,
            optimizer: draft.optimizer,
            fine_tuning: self.problem.fine_tuning.clone(),
            ..PlanSpec::plain(draft.model.spec(), cluster, layers)
        };
        let plan = Plan::try_from(spec).ok()?;
        self.machine.admits(&plan).ok()?;
        Some(footprint(&plan, &self.machine))
    }

    /// Lists all remedies, each applied to the plain plan.
    fn steps(&self, plain: &Draft) -> Vec<Step> {
        [
            self.fewer_layers(plain),
            self.lighter_optimizer(plain),
            self.smaller_batch(plain),
            self.smaller_input(plain),
            self.narrower_format(plain),
            self.recomputation(plain),
            self.sharing_out(plain),
            Some(self.keeping_elsewhere(plain)),
            self.sharing_tokens(plain),
            self.sharing_experts(plain),
            self.splitting(plain),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn other_model(&self, plain: &Draft, name: String, change: impl FnOnce(&mut ModelSpec)) -> Option<Step> {
        let mut spec = self.chosen.model().spec();
        change(&mut spec);
        let model = Model::try_from(spec).ok()?;
        Some(Step { name, changes_training: true, draft: Draft { model, ..plain.clone() }, taken: None })
    }

    fn fewer_layers(&self, plain: &Draft) -> Option<Step> {
        let layers = self.chosen.model().spec().layers.filter(|layers| *layers > 1)? / 2;
        self.other_model(plain, counted(layers.into(), "layer"), |spec| spec.layers = Some(layers))
    }

    fn smaller_input(&self, plain: &Draft) -> Option<Step> {
        let spec = self.chosen.model().spec();
        if let Some(tokens) = spec.seq_len.filter(|tokens| *tokens > 1) {
            let half = tokens / 2;
            return self.other_model(plain, format!("{half} tokens a sample"), |spec| spec.seq_len = Some(half));
        }
        let half = spec.image_size.filter(|side| *side > 1)? / 2;
        self.other_model(plain, format!("images of {half} pixels"), |spec| spec.image_size = Some(half))
    }

    fn smaller_batch(&self, plain: &Draft) -> Option<Step> {
        let batch = self.chosen.batch();
        let taken = (batch.accumulation > 1).then(|| format!("micro-batch {}", batch.micro));
        let draft = Draft { at_once: false, ..plain.clone() };
        (self.replicas(plain).1 > 1).then(|| Step {
            name: "micro-batch 1".into(),
            changes_training: false,
            draft,
            taken,
        })
    }

    /// Returns the step to a narrower number format. One that the job does not allow would change the training.
    fn narrower_format(&self, plain: &Draft) -> Option<Step> {
        let narrow = [Precision::Bf16Mixed, Precision::Fp16Mixed];
        let usable = |precision: &&Precision| self.machine.has_units(**precision).is_ok();
        let own = Some(self.chosen.precision()).filter(|own| own.element_bytes() < plain.precision.element_bytes());
        let precision = own.or_else(|| narrow.iter().find(usable).copied())?;
        if plain.precision.element_bytes() <= precision.element_bytes() {
            return None;
        }
        let open = self.problem.precisions.contains(&precision) && self.problem.unless_named(precision).is_none();
        let allowed = self.fixed.precision.is_none() && open;
        Some(Step {
            name: precision.to_string(),
            changes_training: !allowed,
            draft: Draft { precision, ..plain.clone() },
            taken: own.map(|own| own.to_string()),
        })
    }

    fn recomputation(&self, plain: &Draft) -> Option<Step> {
        let blocks = self.has_blocks();
        let taken = self.chosen.recompute().in_words().map(Into::into);
        let draft = Draft { recompute: Recompute::Full, ..plain.clone() };
        blocks.then(|| Step { name: "full recomputation".into(), changes_training: false, draft, taken })
    }

    fn sharing_out(&self, plain: &Draft) -> Option<Step> {
        let replicas = self.replicas(plain).0;
        let taken = self.chosen.state_sharding().zero().map(Into::into);
        let draft = Draft { sharding: StateSharding::Parameters, ..plain.clone() };
        let name = format!("everything sharded over {replicas} replicas (ZeRO-3)");
        (replicas > 1).then_some(Step { name, changes_training: false, draft, taken })
    }

    fn keeping_elsewhere(&self, plain: &Draft) -> Step {
        let own = self.chosen.offload();
        Step {
            name: "offload to main memory".into(),
            changes_training: false,
            draft: Draft { offload: OFFLOAD, ..plain.clone() },
            taken: (own != Offload::NONE).then(|| format!("{own} offloaded")),
        }
    }

    /// Returns the step to an optimizer with less state, which the software has: the first with which the plain plan fits, or
    /// the one that saves most; none where none saves anything.
    fn lighter_optimizer(&self, plain: &Draft) -> Option<Step> {
        let software = executable_on(&self.machine).ok()?;
        let usual = usual_optimizer(&plain.model, &plain.model.graph());
        let others = lighter(plain.optimizer, usual).iter().copied().filter(|own| software.updates_with(*own));
        let least = self.needed(plain)?.peak();
        let drafts = others.map(|optimizer| Draft { optimizer, ..plain.clone() });
        let mut saving: Vec<(Footprint, Draft)> = drafts
            .filter_map(|draft| Some((self.needed(&draft)?, draft)))
            .filter(|(own, _)| own.peak() < least)
            .collect();
        // The sort is stable, so that of those that fit the likeliest is first.
        saving.sort_by_key(|(own, _)| if own.fits().is_ok() { Bytes(0) } else { own.peak() });
        let (_, draft) = saving.into_iter().next()?;
        let name = format!("{} for {}", draft.optimizer, plain.optimizer);
        Some(Step { name, changes_training: true, draft, taken: None })
    }

    /// Shares the tokens of a sample out where the recommended plan does.
    fn sharing_tokens(&self, plain: &Draft) -> Option<Step> {
        let context = self.chosen.mesh().context();
        let (name, draft) = (format!("context {context}"), Draft { context, ..plain.clone() });
        (context > 1).then(|| Step { taken: Some(name.clone()), name, changes_training: false, draft })
    }

    /// Shares experts out where the recommended plan does.
    fn sharing_experts(&self, plain: &Draft) -> Option<Step> {
        let expert = self.chosen.mesh().parallel().expert;
        let (name, draft) = (format!("expert {expert}"), Draft { expert, ..plain.clone() });
        (expert > 1).then(|| Step { taken: Some(name.clone()), name, changes_training: false, draft })
    }

    /// Splits the model as the recommended plan does, or over the devices of a machine.
    fn splitting(&self, plain: &Draft) -> Option<Step> {
        let mesh = self.chosen.mesh();
        let own = (mesh.tensor(), mesh.pipeline());
        let layers = plain.model.graph().len();
        let tensor = self.widest_tensor();
        let all = self.machine.cluster.devices();
        let pipeline = (2..=all).rev().find(|stages| all.is_multiple_of(*stages) && *stages as usize <= layers);
        let split = match (own, tensor, pipeline) {
            ((1, 1), Some(tensor), _) => (tensor, 1),
            ((1, 1), None, Some(pipeline)) => (1, pipeline),
            ((1, 1), None, None) => return None,
            (own, ..) => own,
        };
        Some(Step {
            name: split_name(split),
            changes_training: false,
            draft: Draft { split, ..plain.clone() },
            taken: (own != (1, 1)).then(|| split_name(own)),
        })
    }
}

/// Merges into a draft what another one changes of the plain one.
fn joined(together: &Draft, plain: &Draft, other: &Draft) -> Draft {
    fn either<T: PartialEq + Copy>(kept: T, plain: T, other: T) -> T {
        if other == plain { kept } else { other }
    }
    Draft {
        model: together.model.clone(),
        optimizer: together.optimizer,
        at_once: either(together.at_once, plain.at_once, other.at_once),
        precision: either(together.precision, plain.precision, other.precision),
        recompute: either(together.recompute, plain.recompute, other.recompute),
        sharding: either(together.sharding, plain.sharding, other.sharding),
        offload: either(together.offload, plain.offload, other.offload),
        context: either(together.context, plain.context, other.context),
        expert: either(together.expert, plain.expert, other.expert),
        split: either(together.split, plain.split, other.split),
    }
}

fn available(needed: &Footprint) -> u64 {
    needed.limits.iter().min().map_or(0, |limit| limit.0)
}

fn split_name((tensor, pipeline): (u32, u32)) -> String {
    match (tensor, pipeline) {
        (tensor, 1) => format!("tensor {tensor}"),
        (1, pipeline) => format!("pipeline {pipeline}"),
        (tensor, pipeline) => format!("tensor {tensor} × pipeline {pipeline}"),
    }
}

/// Says which remedies make a plain plan fit that would not fit otherwise.
pub(crate) fn remedy_reason(remedies: &[Remedy]) -> Option<String> {
    let (plain, rest) = remedies.split_first()?;
    let taken: Vec<&str> = rest.iter().filter_map(|remedy| remedy.taken.as_deref()).collect();
    let done = if taken.is_empty() { "fewer samples at once".into() } else { taken.join(", ") };
    let room = if plain.memory_bytes <= plain.available_bytes { ", which leaves too little free" } else { "" };
    let (needed, available) = apart(Bytes(plain.memory_bytes), Bytes(plain.available_bytes));
    Some(format!("fits through {done}: {} would need {needed} of a GPU's {available}{room}", plain.remedy))
}
