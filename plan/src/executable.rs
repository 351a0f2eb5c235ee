//! The plans that a software runs. Those of Trainyard's own executor are also those whose speed is known on machines
//! that it measured.

use crate::fine_tuning::{Method, TuningKind};
use crate::offload::{Offload, Store};
use crate::placement::Placement;
use crate::schedules::ScheduleName;
use crate::spec::{
    Collectives, GradientCompression, GradientReduction, Optimizer, ParallelSpec, Precision, Recompute, StateSharding,
};
use crate::valid::Plan;
use std::borrow::Cow;
use std::fmt::Display;
use trainyard_models::{Divisible, Family, HeadKind, Model, SpecialLayers};
use trainyard_units::either;

/// Offloads that a software runs, each with the least sharding of states that it requires.
pub type Offloads = Cow<'static, [(Offload, StateSharding)]>;

/// The plans that a software runs: one list both for checks that refuse plans and for searches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each tells of one field of a plan")]
pub struct Executable {
    /// Model families; `None` if any is supported.
    pub families: Option<Cow<'static, [Family]>>,
    /// Layers with which no model is supported.
    pub layers_refused: Cow<'static, [SpecialLayers]>,
    /// `true` if of stacks of blocks those alone are supported that can be layers of Megatron Core's `GPTModel`.
    pub gpt_layers: bool,
    /// `true` if latent attention, whose values are narrower than its keys, is supported.
    pub latent_attention: bool,
    /// What is on top of models that have a choice; `None` if any is supported.
    pub heads: Option<Cow<'static, [HeadKind]>>,
    /// Number formats in which expert parallelism is supported.
    pub expert_precisions: Cow<'static, [Precision]>,
    /// `true` if models with experts need sequence parallelism beside tensor parallelism.
    pub experts_need_sequence: bool,
    /// `true` if the software has tensor parallelism.
    pub tensor: bool,
    /// `true` if the software has sequence parallelism beside tensor parallelism.
    pub sequence: bool,
    /// `true` if the software has context parallelism.
    pub context: bool,
    /// `true` if the software has expert parallelism.
    pub expert: bool,
    /// `true` if experts are shared out over tensor ranks and parts of a sample too.
    pub folds_experts: bool,
    /// `true` if ranks that share experts cannot shard states besides.
    pub experts_need_whole_states: bool,
    /// `true` if the software shards embedding tables over ranks, which plans call `parallel.expert` too.
    pub tables: bool,
    /// Number formats.
    pub precisions: Cow<'static, [Precision]>,
    /// Pipeline schedules; only `none` without pipeline parallelism.
    pub schedules: Cow<'static, [ScheduleName]>,
    /// Activation recomputation.
    pub recompute: Cow<'static, [Recompute]>,
    /// The states that replicas may shard.
    pub state_sharding: Cow<'static, [StateSharding]>,
    /// `true` if replicas shard flat runs of values, whose norms are none of tensors: optimizers with a rate for each tensor
    /// need whole states there.
    pub flat_shards: bool,
    /// `true` if states may be sharded inside machines and replicated across them (hybrid sharding).
    pub hybrid_sharding: bool,
    /// `true` if states may be sharded over any part of the replicas.
    pub any_sharding_groups: bool,
    /// The supported frequencies of gradient reduction.
    pub gradient_reduction: Cow<'static, [GradientReduction]>,
    /// The least sharding with which gradients are summed after each micro-batch, whatever the plan says.
    pub reduces_micro_batches_from: Option<StateSharding>,
    pub gradient_compression: Cow<'static, [GradientCompression]>,
    /// Algorithms and libraries that sum gradients over replicas.
    pub collectives: Cow<'static, [Collectives]>,
    pub optimizers: Cow<'static, [Optimizer]>,
    /// States that may be kept off the devices.
    pub offloads: Offloads,
    /// `true` if of activations only the inputs of recomputed blocks (checkpoints) can be kept off the devices.
    pub offloads_checkpoints: bool,
    /// `true` if ranks may be placed otherwise than machine by machine.
    pub placements: bool,
    /// Which weights may be trained.
    pub methods: Cow<'static, [Method]>,
    /// Which weights may be trained on preferences.
    pub dpo: Cow<'static, [Method]>,
    /// `true` if a model of which a part is trained may be split otherwise than by data parallelism.
    pub splits_tuned: bool,
}

const OPTIMIZER: Offload = Offload { optimizer: Some(Store::Host), ..Offload::NONE };

/// The plans that Trainyard's own executor runs, whatever the model.
pub const EXECUTABLE: Executable = Executable {
    families: None,
    layers_refused: Cow::Borrowed(&[]),
    gpt_layers: false,
    latent_attention: true,
    heads: None,
    expert_precisions: Cow::Borrowed(Precision::ALL),
    experts_need_sequence: false,
    tensor: true,
    sequence: true,
    context: true,
    expert: true,
    folds_experts: false,
    experts_need_whole_states: true,
    tables: false,
    precisions: Cow::Borrowed(&[Precision::Fp32, Precision::Bf16Mixed, Precision::Fp16Mixed]),
    schedules: Cow::Borrowed(&[
        ScheduleName::None,
        ScheduleName::GPipe,
        ScheduleName::OneForwardOneBackward,
        ScheduleName::Interleaved,
        ScheduleName::ZeroBubbleH1,
    ]),
    recompute: Cow::Borrowed(Recompute::ALL),
    state_sharding: Cow::Borrowed(StateSharding::ALL),
    flat_shards: false,
    hybrid_sharding: true,
    any_sharding_groups: true,
    gradient_reduction: Cow::Borrowed(GradientReduction::ALL),
    reduces_micro_batches_from: None,
    gradient_compression: Cow::Borrowed(&[GradientCompression::None, GradientCompression::Fp16]),
    collectives: Cow::Borrowed(Collectives::ALL),
    optimizers: Cow::Borrowed(&[
        Optimizer::AdamW,
        Optimizer::Adam,
        Optimizer::Sgd,
        Optimizer::Momentum,
        Optimizer::Lars,
        Optimizer::Lamb,
    ]),
    offloads: Cow::Borrowed(&[
        (Offload::NONE, StateSharding::None),
        (OPTIMIZER, StateSharding::None),
        (Offload { activations: Some(Store::Host), ..Offload::NONE }, StateSharding::None),
        (Offload { activations: Some(Store::Host), ..OPTIMIZER }, StateSharding::None),
        (Offload { parameters: Some(Store::Host), ..OPTIMIZER }, StateSharding::Parameters),
        (
            Offload { activations: Some(Store::Host), parameters: Some(Store::Host), ..OPTIMIZER },
            StateSharding::Parameters,
        ),
    ]),
    offloads_checkpoints: true,
    placements: true,
    methods: Cow::Borrowed(&[Method::Full, Method::Lora, Method::Frozen]),
    dpo: Cow::Borrowed(&[]),
    splits_tuned: true,
};

/// A field of a plan that a software does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotExecutable {
    /// Path of the field in the plan.
    pub field: &'static str,
    /// The value of the field.
    pub value: String,
    /// The values that would run.
    pub allowed: String,
}

/// Returns the first field of `plan` that Trainyard's own executor does not run, whatever the model; `None` if it runs
/// the plan.
pub fn not_executable(plan: &Plan) -> Option<NotExecutable> {
    let (method, family) = (plan.method(), plan.model().family());
    let refused = EXECUTABLE.for_tuning(plan.tuning_kind()).refusal(plan).or_else(|| {
        let allowed = format!("{method} of {}", either(&ADAPTED));
        let refused = NotExecutable { field: "fine_tuning.method", value: method.to_string(), allowed };
        (!executor_trains(plan.tuning_kind(), family)).then_some(refused)
    });
    refused.or_else(|| {
        let scaling = plan.model().spec().rotary_scaling.filter(|scaling| !scaling.is_of_frequencies())?;
        let allowed = "rotary positions that are not scaled, or as llama3 or linear".into();
        Some(NotExecutable { field: "model.rotary_scaling", value: scaling.to_string(), allowed })
    })
}

/// Families whose adapters Trainyard's own executor has.
const ADAPTED: [Family; 5] = [Family::Gpt, Family::GptMoe, Family::Llama, Family::GptNeox, Family::Gemma2];

/// Returns `true` if it trains these weights of models of a family that it runs towards this.
pub fn executor_trains(kind: TuningKind, family: Family) -> bool {
    let method = kind.method;
    EXECUTABLE.trains(kind) && (method != Method::Lora || ADAPTED.contains(&family))
}

impl Executable {
    /// Returns the first field of `plan` that the software does not run; `None` if it runs the plan.
    pub fn refusal(&self, plan: &Plan) -> Option<NotExecutable> {
        let parallel = plan.mesh().parallel();
        let degree = |field: &'static str, degree: u32, built: bool| {
            let refused = degree > 1 && !built;
            refused.then(|| NotExecutable { field, value: degree.to_string(), allowed: format!("{field} 1") })
        };
        self.refused_model(plan.model())
            .or_else(|| self.refused_head(plan))
            .or_else(|| degree("parallel.tensor", parallel.tensor, self.tensor))
            .or_else(|| degree("parallel.context", parallel.context, self.context))
            .or_else(|| degree("parallel.expert", parallel.expert, self.distributes(plan.graph().divisible())))
            .or_else(|| self.refused_folding(parallel))
            .or_else(|| self.refused_experts(plan))
            .or_else(|| among("precision", plan.precision(), &self.precisions))
            .or_else(|| among("schedule", plan.schedule(), &self.schedules))
            .or_else(|| among("recompute", plan.recompute(), &self.recompute))
            .or_else(|| among("state_sharding", plan.state_sharding(), &self.state_sharding))
            .or_else(|| self.refused_sharding(plan))
            .or_else(|| among("gradient_reduction", plan.gradient_reduction(), &self.gradient_reduction))
            .or_else(|| among("gradient_compression", plan.gradient_compression(), &self.gradient_compression))
            .or_else(|| among("optimizer", plan.optimizer(), &self.optimizers))
            .or_else(|| self.refused_offload(plan))
            .or_else(|| among("collectives", plan.collectives(), &self.collectives))
            .or_else(|| self.refused_placement(plan.mesh().placement()))
            .or_else(|| among("fine_tuning.method", plan.method(), &self.methods))
            .or_else(|| self.refused_objective(plan.tuning_kind()))
    }

    /// Returns what of a model the software does not train.
    pub fn refused_model(&self, model: &Model) -> Option<NotExecutable> {
        let family = model.family();
        let families = self.families.as_deref().and_then(|families| among("model.family", family, families));
        let latent = || {
            let refused = model.has_latent_attention() && !self.latent_attention;
            let allowed = "latent attention on Hopper GPUs alone".to_owned();
            refused.then(|| NotExecutable { field: "model.family", value: family.to_string(), allowed })
        };
        let special = || {
            let special = self.refused_layers(model)?;
            let allowed = format!("models without {special}");
            Some(NotExecutable { field: "model", value: model.name().to_owned(), allowed })
        };
        families.or_else(latent).or_else(special).or_else(|| {
            let part = model.beyond_gpt_layers().filter(|_| self.gpt_layers)?;
            let allowed = format!("blocks that can be layers of Megatron Core's GPTModel, which have no such `{part}`");
            Some(NotExecutable { field: "model.family", value: family.to_string(), allowed })
        })
    }

    /// Returns the layers of a model with which the software does not run it.
    pub fn refused_layers(&self, model: &Model) -> Option<SpecialLayers> {
        self.layers_refused.iter().copied().find(|special| model.has(*special))
    }

    /// Returns `true` if the software can reduce gradients so, where replicas share this out and a step has so many
    /// micro-batches.
    pub fn reduces(&self, reduction: GradientReduction, sharding: StateSharding, accumulation: u64) -> bool {
        let each = self.reduces_micro_batches_from.is_some_and(|least| sharding >= least) && accumulation > 1;
        self.gradient_reduction.contains(&reduction) && !(each && reduction == GradientReduction::Step)
    }

    /// Returns `true` if the software trains these weights towards this.
    pub fn trains(&self, kind: TuningKind) -> bool {
        self.methods.contains(&kind.method) && (!kind.dpo || self.dpo.contains(&kind.method))
    }

    fn refused_objective(&self, kind: TuningKind) -> Option<NotExecutable> {
        let allowed = match self.dpo.as_ref() {
            [] => "no training on preferences".into(),
            methods => format!("dpo of {}", either(methods)),
        };
        let value = format!("dpo of {}", kind.method);
        (!self.trains(kind)).then_some(NotExecutable { field: "fine_tuning.dpo", value, allowed })
    }

    /// Returns what of it there is for a model of which these weights are trained: frozen weights stay on the devices, and
    /// with most software they have data parallelism alone; quantised weights are computed with in half precision.
    #[must_use]
    pub fn for_tuning(self, kind: TuningKind) -> Self {
        if kind == TuningKind::FULL {
            return self;
        }
        let method = kind.method;
        let half = |precision: &Precision| method != Method::Qlora || precision.master_bytes() > 0;
        let precisions = self.precisions.iter().copied().filter(half).collect();
        let offloads = Cow::Borrowed(&[(Offload::NONE, StateSharding::None)][..]);
        if self.splits_tuned {
            return Self { expert: false, precisions, offloads, ..self };
        }
        Self {
            tensor: false,
            sequence: false,
            context: false,
            expert: false,
            precisions,
            schedules: Cow::Borrowed(&[ScheduleName::None]),
            offloads,
            ..self
        }
    }

    /// Returns what of it there is with an optimizer: where replicas shard flat runs of values, one with a rate for each
    /// tensor needs whole states; one in eight bits is updated on GPUs alone.
    #[must_use]
    pub fn for_optimizer(mut self, optimizer: Optimizer) -> Self {
        if optimizer.is_in_eight_bits() {
            self.offloads.to_mut().retain(|(offload, _)| offload.optimizer.is_none());
        }
        if !self.flat_shards || !optimizer.has_rates_of_tensors() {
            return self;
        }
        let whole = |sharding: &StateSharding| *sharding == StateSharding::None;
        Self { state_sharding: self.state_sharding.iter().copied().filter(whole).collect(), ..self }
    }

    /// Returns `true` if the software updates weights with an optimizer, and keeps its states as that needs them.
    pub fn updates_with(&self, optimizer: Optimizer) -> bool {
        self.optimizers.contains(&optimizer) && !self.clone().for_optimizer(optimizer).state_sharding.is_empty()
    }

    /// Returns `true` if the software can distribute a model's experts or embedding tables over ranks.
    pub fn distributes(&self, divisible: Option<Divisible>) -> bool {
        if matches!(divisible, Some(Divisible::TableColumns(_))) { self.tables } else { self.expert }
    }

    /// Returns `true` if states may be sharded in this way beside expert parallelism of this degree.
    pub fn shards(&self, sharding: StateSharding, expert: u32) -> bool {
        self.state_sharding.contains(&sharding)
            && (sharding == StateSharding::None || expert == 1 || !self.experts_need_whole_states)
    }

    fn refused_sharding(&self, plan: &Plan) -> Option<NotExecutable> {
        let (field, value, expert) = ("state_sharding", plan.state_sharding(), plan.mesh().parallel().expert);
        let refused = |allowed: String| Some(NotExecutable { field, value: value.to_string(), allowed });
        let (none, optimizer) = (StateSharding::None, plan.optimizer());
        if !self.shards(value, expert) {
            return refused(format!("{none} beside parallel.expert {expert}"));
        }
        if self.flat_shards && value != none && optimizer.has_rates_of_tensors() {
            return refused(format!("{none} with {optimizer}, which needs whole tensors"));
        }
        None
    }

    fn refused_folding(&self, parallel: ParallelSpec) -> Option<NotExecutable> {
        let refused = parallel.folded_experts && !self.folds_experts;
        let field = "parallel.folded_experts";
        refused.then(|| NotExecutable { field, value: "true".into(), allowed: format!("{field} false") })
    }

    /// Returns that whole tokens are beside experts under tensor parallelism, where the software cannot do that.
    fn refused_experts(&self, plan: &Plan) -> Option<NotExecutable> {
        let parallel = plan.mesh().parallel();
        let has_experts = matches!(plan.graph().divisible(), Some(Divisible::Experts(_)));
        let refused = self.experts_need_sequence && has_experts && parallel.tensor > 1 && !parallel.sequence;
        let field = "parallel.sequence";
        refused.then(|| NotExecutable { field, value: "false".into(), allowed: format!("{field} true beside experts") })
    }

    fn refused_head(&self, plan: &Plan) -> Option<NotExecutable> {
        among("model.head", plan.model().spec().head?, self.heads.as_deref()?)
    }

    /// Returns `true` if the software can keep this off the devices with this recomputation.
    pub fn offloads_with(&self, offload: Offload, recompute: Recompute) -> bool {
        offload.activations.is_none() || !self.offloads_checkpoints || recompute == Recompute::Full
    }

    fn refused_offload(&self, plan: &Plan) -> Option<NotExecutable> {
        let (field, value) = ("offload", plan.offload());
        let among_all = |(offload, least): &(Offload, StateSharding)| {
            *offload == value && plan.state_sharding() >= *least && self.offloads_with(value, plan.recompute())
        };
        if self.offloads.iter().any(among_all) {
            return None;
        }
        let known: Vec<Offload> = self.offloads.iter().map(|(offload, _)| *offload).collect();
        let needs = self.offloads.iter().find(|(offload, _)| *offload == value);
        let allowed = match needs {
            None => either(&known),
            Some((_, least)) if plan.state_sharding() < *least => format!("{value} with state_sharding {least}"),
            Some(_) => format!("{value} with recompute {}", Recompute::Full),
        };
        Some(NotExecutable { field, value: value.to_string(), allowed })
    }

    fn refused_placement(&self, placement: Placement) -> Option<NotExecutable> {
        let allowed = || Placement::Cluster.to_string();
        (!self.placements && placement != Placement::Cluster).then(|| NotExecutable {
            field: "placement",
            value: placement.to_string(),
            allowed: allowed(),
        })
    }
}

fn among<T: Copy + PartialEq + Display>(field: &'static str, value: T, built: &[T]) -> Option<NotExecutable> {
    (!built.contains(&value)).then(|| NotExecutable { field, value: value.to_string(), allowed: either(built) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec};

    #[test]
    fn what_is_built_is_told_as_a_choice() {
        assert_eq!(either(&EXECUTABLE.precisions), "fp32, bf16-mixed or fp16-mixed");
    }

    #[test]
    fn what_is_offloaded_stays_in_main_memory_and_activations_are_checkpoints() {
        let model = trainyard_models::find("gpt2").expect("in the catalog").model.spec();
        let of = |offload: &str, recompute, state_sharding| {
            let spec = PlanSpec {
                recompute,
                state_sharding,
                offload: offload.parse().expect("an offload"),
                batch: BatchSpec { global: 2, micro: 1, accumulation: 1 },
                parallel: ParallelSpec { data: 2, ..ParallelSpec::default() },
                ..PlanSpec::plain(model.clone(), ClusterSpec::of("local", 1), 14)
            };
            let plan = Plan::try_from(spec).expect("a valid plan");
            not_executable(&plan).map(|refused| refused.allowed)
        };
        let (none, full) = (Recompute::None, Recompute::Full);
        let (whole, shared) = (StateSharding::None, StateSharding::Parameters);
        assert_eq!(of("optimizer", none, whole), None);
        assert_eq!(of("activations+optimizer", full, whole), None);
        assert_eq!(of("activations+optimizer+parameters", full, shared), None);
        let refused = |offload, recompute, sharding| of(offload, recompute, sharding).expect("it is refused");
        assert_eq!(refused("activations", none, whole), "activations with recompute full");
        assert_eq!(refused("optimizer+parameters", none, whole), "optimizer+parameters with state_sharding parameters");
        assert!(refused("optimizer@nvme", none, shared).starts_with("none, optimizer, activations,"));
    }
}
