//! Memory of a rank at the peak of a step, in bytes. Whether it fits is decided in `sim`, which knows how much memory
//! the software takes besides.

use crate::fine_tuning::Method;
use crate::layer_memory::LayerMemory;
use crate::lower::COPIES_UNDER_WAY;
use crate::offload::Store;
use crate::parameters::{ParameterCounts, held_of};
use crate::schedules::StageId;
use crate::spec::{GradientCompression, GradientReduction, Optimizer, Precision, Recompute, StateSharding};
use crate::valid::Plan;
use std::ops::Range;
use trainyard_models::{Gemm, Layer, LayerRole, Operator, OperatorGraph, OperatorKind, Pass, Sharing};
use trainyard_units::Bytes;

/// Number of layers whose gathered weights, and unreduced gradients, are in memory at once: the one that computes and
/// the next.
const GATHERED_LAYERS: u64 = 2;

/// Bytes that a rank of one stage holds on its device, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Weights in the format used for compute.
    pub parameters: Bytes,
    /// Gradients, in the precision in which they are accumulated.
    pub gradients: Bytes,
    /// The optimizer's moments and, with mixed precision, the single-precision master weights.
    pub optimizer_state: Bytes,
    /// Activations kept for backward, at the schedule's peak.
    pub activations: Bytes,
    /// Buffers of gathered weights and of gradients that are sent.
    pub buffers: Bytes,
    /// Buffers that live inside one layer's computation.
    pub workspace: Bytes,
    /// What weights that are loaded whole, before training, need more than all of that.
    pub loading: Bytes,
}

impl Resident {
    /// Returns the most that is held at any time, saturating: a total that overflows is the largest number, which fits
    /// nowhere.
    pub fn total(&self) -> Bytes {
        self.training() + self.loading
    }

    /// Returns the most that is held while the model trains.
    pub fn training(&self) -> Bytes {
        self.parameters + self.gradients + self.optimizer_state + self.activations + self.buffers + self.workspace
    }
}

/// When software lets go of what a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Gradients, and what layers keep, are there together.
    Step,
    /// Every value goes after its last use, as with a compiler of the whole step: layers behind the one that is in backward
    /// hold nothing any more, and gradients of the only micro-batch come to be one after another.
    LastUse,
    /// Layer by layer, as in the executor: the same, but gradients of a layer lie beside those of earlier micro-batches until
    /// they are added, and gradients of the loss are written over the logits.
    Layer,
}

/// What the software that will run a plan keeps in memory, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each says what software does, whatever the others say")]
pub struct Retention {
    /// Bytes per gradient, of all the formats in which it is kept.
    pub element: u64,
    /// `true` if gradients are reduced in buckets during backward, and not in one piece after it.
    pub bucketed: bool,
    /// When values are let go.
    pub lifetime: Lifetime,
    /// `true` if it takes the loss over the vocabulary in tiles where a model is adapted or trained on pairs.
    pub tiles_loss: bool,
    /// `true` if experts weight what they compute themselves, and what they return is not kept.
    pub experts_weight: bool,
    /// `true` if gradients are kept in main memory where the processor updates.
    pub gradients_on_host: bool,
}

/// Returns the bytes that each rank of `stage` holds on its device at the peak of a step.
///
/// # Source
///
/// State: Rajbhandari et al., arXiv:1910.02054, section 3.1 (in mixed precision 16 bytes a parameter where gradients
/// are kept as computed, 18 in single precision), and section 5 where it is sharded. Two versions of the weights in
/// 2BW: Narayanan et al., arXiv:2006.09503, section 3.1. Activations: `models`.
pub fn resident(plan: &Plan, stage: StageId, retention: Retention) -> Resident {
    resident_with(plan, stage, &chunks_of(plan, stage), retention)
}

/// Returns what [`resident`] would if `stage` had these `chunks` of layers, for searches of a partition that fits in
/// memory.
pub fn resident_with(plan: &Plan, stage: StageId, chunks: &[Range<usize>], retention: Retention) -> Resident {
    let held = chunks.iter().map(|layers| plan.held(layers)).fold(ParameterCounts::default(), std::ops::Add::add);
    let offload = plan.offload();
    let (activations, workspace) = in_backward(plan, stage, chunks, retention);
    let whole = Resident {
        parameters: parameters(plan, held) + copies(plan, chunks),
        gradients: gradients(plan, held, retention),
        optimizer_state: if offload.optimizer.is_some() { Bytes(0) } else { optimizer_state(plan, held) },
        activations,
        buffers: buffers(plan, chunks, held, retention),
        workspace,
        loading: Bytes(0),
    };
    let whole = Resident { loading: loaded_whole(plan, held, whole.training()), ..whole };
    match chunks {
        [layers] if retention.lifetime != Lifetime::Step && offload.activations.is_none() => {
            fullest_moment(plan, stage, layers.clone(), retention, whole)
        }
        _ => whole,
    }
}

/// Returns by how much weights in four bits, which every rank loads whole before it shares them out, need more than the
/// `rest` of training.
///
/// # Source
///
/// transformers 5.24, `modeling_utils.py`, `get_init_context`: weights are shared out as they are made (`zero.Init`) only
/// where the model is not quantised; `quantizers/quantizer_bnb_4bit.py`, `update_device_map`: all go to the rank's own GPU.
fn loaded_whole(plan: &Plan, held: ParameterCounts, rest: Bytes) -> Bytes {
    if plan.method() != Method::Qlora || plan.state_sharding() != StateSharding::Parameters {
        return Bytes(0);
    }
    Bytes(held.weight_bytes(plan.precision().element_bytes()).0.saturating_sub(rest.0))
}

/// The fullest moment of the backward pass of a run of layers, or behind it, where values are let go after their last use;
/// `whole` is what they would hold together. Micro-batches whose backward pass has not begun hold all of theirs.
fn fullest_moment(
    plan: &Plan,
    stage: StageId,
    layers: Range<usize>,
    retention: Retention,
    whole: Resident,
) -> Resident {
    let of_one = kept_activations_with(plan, &layers, retention);
    let others = Bytes(plan.pipeline().peak(stage, &[1]).saturating_sub(1)) * of_one.0;
    let by_layer = retention.lifetime == Lifetime::Layer;
    let in_backward = |layer: usize| {
        let alone = layer..layer + 1;
        let run = std::slice::from_ref(&alone);
        let (once, behind) = (plan.batch().accumulation == 1, layer..layers.end);
        let come = if once { behind.clone() } else { layers.clone() };
        // A head that is the token table has gradients of its own, though the table counts as the embedding's.
        let fresh = match (by_layer, once) {
            (false, _) => Bytes(0),
            (true, true) => of_tied_heads(plan, behind, retention),
            (true, false) => {
                gradients(plan, plan.held(&alone), retention) + of_tied_heads(plan, alone.clone(), retention)
            }
        };
        let inside = if by_layer { without_loss(plan, layer) } else { workspace(plan, run, retention) };
        Resident {
            gradients: gradients(plan, plan.held(&come), retention) + fresh,
            activations: others
                + kept_activations_with(plan, &(layers.start..layer + 1), retention)
                + recomputed_at_once(plan, run, retention),
            workspace: inside,
            ..whole
        }
    };
    let behind = Resident { activations: Bytes(0), workspace: Bytes(0), ..whole };
    layers.clone().map(in_backward).chain([behind]).max_by_key(Resident::total).unwrap_or(whole)
}

/// Computes the bytes of the gradients that products with token tables have at the other end of a model.
fn of_tied_heads(plan: &Plan, layers: Range<usize>, retention: Retention) -> Bytes {
    let (micro, sharing) = (plan.batch().micro, plan.sharing());
    let operators = layers.flat_map(|layer| &plan.graph().layer(layer).operators);
    let weights = |operator: &Operator| match operator.on_rank(micro, sharing) {
        kind @ OperatorKind::TiedHead { .. } => {
            kind.gemms(Pass::Forward).into_iter().map(|Gemm { n, k, .. }| n * k).sum()
        }
        _ => 0,
    };
    Bytes(retention.element * operators.map(weights).sum::<u64>())
}

/// Computes the workspace of a layer where the gradient of a loss takes the place of the logits.
fn without_loss(plan: &Plan, layer: usize) -> Bytes {
    Bytes(LayerMemory::in_place(plan.spec(), plan.sharing(), plan.graph().layer(layer)).workspace)
}

fn chunks_of(plan: &Plan, stage: StageId) -> Vec<Range<usize>> {
    plan.stages().chunks_of(stage).collect()
}

/// Returns the bytes that each rank of `stage` keeps in its machine's main memory or on its disk.
pub fn kept_elsewhere(plan: &Plan, stage: StageId, store: Store) -> Bytes {
    let (held, offload) = (plan.held_by(stage), plan.offload());
    let mut bytes = Bytes(0);
    if offload.parameters == Some(store) {
        bytes += plan.kept_weights(held).weight_bytes(plan.precision().element_bytes());
    }
    if offload.optimizer == Some(store) {
        bytes += optimizer_state(plan, held);
    }
    if offload.optimizer.is_some() && store == Store::Host {
        // The gradients that the processor reads, in the precision of what it updates.
        bytes += plan.changed_bytes(plan.shard_of(held), Precision::Fp32.element_bytes());
    }
    if offload.activations == Some(store) {
        bytes += peak_of(plan, stage, &chunks_of(plan, stage), |layers| plan.kept_activations(layers));
    }
    bytes
}

/// Returns the bytes of a checkpoint: weights that are trained, their moments and master weights, each once. Embedding
/// tables are their own master weights.
pub fn checkpoint_bytes(plan: &Plan) -> Bytes {
    checkpoint_bytes_of(plan.graph(), plan.precision(), plan.optimizer())
}

/// Returns the bytes of a checkpoint of any plan of a model with this number format and optimizer.
pub fn checkpoint_bytes_of(graph: &OperatorGraph, precision: Precision, optimizer: Optimizer) -> Bytes {
    let (all, dense) = (graph.parameters(), graph.updated_parameters());
    let weights = Bytes(precision.element_bytes() + precision.master_bytes()) * dense;
    let whole = optimizer.is_in_eight_bits().then_some(1);
    let state = graph.layers().map(|layer| held_of(layer, 1, Sharing::WHOLE, whole).state_bytes(optimizer));
    weights + Bytes(Precision::Fp32.element_bytes()) * (all - dense) + state.sum()
}

fn parameters(plan: &Plan, held: ParameterCounts) -> Bytes {
    if plan.offload().parameters.is_some() {
        return Bytes(0);
    }
    let element = plan.precision().element_bytes();
    plan.kept_weights(held).weight_bytes(element) * plan.schedule().weight_versions()
}

/// Computes the bytes of the copies in eight bits of what products of blocks read; of gathered weights, those of the layers
/// that compute now and next.
fn copies(plan: &Plan, chunks: &[Range<usize>]) -> Bytes {
    let bytes = plan.precision().copy_bytes();
    if bytes == 0 {
        return Bytes(0);
    }
    let of = |layer: &Layer| -> u64 {
        let products = layer.operators.iter().filter(|operator| operator.kind.may_be_in_eight_bits());
        products.map(|operator| operator.parameters(plan.sharing())).sum()
    };
    let blocks = plan.layers_in(chunks).filter(|(layer, _)| layer.role == LayerRole::Block);
    let each: Vec<u64> = blocks.map(|(layer, _)| of(layer)).collect();
    let all: u64 = each.iter().sum();
    let largest = each.iter().max().copied().unwrap_or(0);
    Bytes(bytes) * if plan.gathers_weights() { all.min(GATHERED_LAYERS * largest) } else { all }
}

/// Returns `true` if a rank keeps only its shard of the gradients, and whole those of the layers now in backward.
fn keeps_part_of_gradients(plan: &Plan, retention: Retention) -> bool {
    let reduction = plan.gradient_reduction();
    let by_layer = match reduction {
        GradientReduction::Step => plan.gathers_weights(),
        GradientReduction::MicroBatch => plan.goes_by_layer(),
    };
    let at_once = reduction.is_at_once(plan.batch().accumulation, retention.bucketed || by_layer);
    plan.shards(StateSharding::Gradients) && at_once
}

/// Returns `true` if gradients leave for main memory as soon as they are whole.
fn keeps_gradients_on_host(plan: &Plan, retention: Retention) -> bool {
    retention.gradients_on_host && plan.may_keep_gradients_on_host()
}

/// Computes the bytes of gradients, which are whole until they are reduced.
fn gradients(plan: &Plan, held: ParameterCounts, retention: Retention) -> Bytes {
    if keeps_gradients_on_host(plan, retention) {
        return Bytes(0);
    }
    let own = if keeps_part_of_gradients(plan, retention) { plan.shard_of(held) } else { held };
    // Gradients of tables are the rows of a whole step.
    let element = if adapters_in_half(plan) { plan.precision().element_bytes() } else { retention.element };
    let kept = plan.changed_bytes(own, element);
    match plan.gradient_compression() {
        // Values that were not sent are kept for later, with their momentum (Lin et al., arXiv:1712.01887, section 3).
        GradientCompression::Dgc => kept * 3,
        _ => kept,
    }
}

fn optimizer_state(plan: &Plan, held: ParameterCounts) -> Bytes {
    let own = if plan.shards(StateSharding::Optimizer) { plan.shard_of(held) } else { held };
    own.state_bytes(plan.optimizer()) + master_weights(plan, own)
}

/// Returns the least that the optimizer keeps of some parameters on the devices, over the ranks that share it out in whatever
/// way: which tensors stay in 32 bits beside moments in eight depends on how they are shared out.
pub fn least_optimizer_state(plan: &Plan, held: ParameterCounts) -> Bytes {
    if plan.offload().optimizer.is_some() {
        return Bytes(0);
    }
    plan.optimizer().state(held.parameters) + master_weights(plan, held)
}

fn master_weights(plan: &Plan, own: ParameterCounts) -> Bytes {
    Bytes(if adapters_in_half(plan) { 0 } else { plan.precision().master_bytes() }) * own.updated()
}

/// Returns `true` if trained weights and their gradients are in half precision alone, as adapters beside quantised weights
/// are (Dettmers et al., arXiv:2305.14314, section 3; TRL, `SFTTrainer`), unless DeepSpeed keeps a master copy of what it
/// shards. Their moments stay in single precision.
fn adapters_in_half(plan: &Plan) -> bool {
    plan.method() == Method::Qlora && plan.state_sharding() == StateSharding::None
}

/// Computes the bytes of gathered weights (tables are not gathered) of the layers that compute now and next and, where
/// only a shard of gradients is kept or none, of their gradients before they are reduced.
fn buffers(plan: &Plan, chunks: &[Range<usize>], held: ParameterCounts, retention: Retention) -> Bytes {
    let largest = |of: &dyn Fn(ParameterCounts) -> u64| {
        let layers = chunks.iter().cloned().flatten();
        layers.map(|layer| of(plan.held(&(layer..layer + 1)))).max().unwrap_or(0)
    };
    let element = plan.precision().element_bytes();
    let mut bytes = Bytes(0);
    if plan.gathers_weights() {
        let gathered = |held: ParameterCounts| held.gathered_bytes(element).0;
        bytes += Bytes((GATHERED_LAYERS * largest(&gathered)).min(gathered(held)));
    }
    if keeps_part_of_gradients(plan, retention) || keeps_gradients_on_host(plan, retention) {
        bytes += Bytes(retention.element) * (GATHERED_LAYERS * largest(&ParameterCounts::updated)).min(held.updated());
    }
    bytes
}

/// Computes the bytes of activations on the device, and of what lives inside one layer's computation, at the fullest
/// moment of backward.
fn in_backward(plan: &Plan, stage: StageId, chunks: &[Range<usize>], retention: Retention) -> (Bytes, Bytes) {
    let kept = peak_of(plan, stage, chunks, |layers| kept_activations_with(plan, layers, retention));
    if plan.offload().activations.is_some() {
        // A few layers are not yet copied out.
        let layers = chunks.iter().cloned().flatten();
        let largest =
            layers.map(|layer| kept_activations_with(plan, &(layer..layer + 1), retention)).max().unwrap_or_default();
        let under_way = largest * (COPIES_UNDER_WAY as u64 + 1);
        return (under_way.min(kept) + recomputed_at_once(plan, chunks, retention), workspace(plan, chunks, retention));
    }
    if plan.recompute() != Recompute::Full {
        return (kept, workspace(plan, chunks, retention));
    }
    // Before a block is computed again the loss has had its backward pass, and what it kept is let go. Another run of the
    // stage may have a loss under way.
    let (blocks, others): (Vec<_>, Vec<_>) =
        layers_in(plan, chunks, retention).partition(|(layer, _)| layer.role == LayerRole::Block);
    let of_loss = others.iter().filter(|(layer, _)| layer.role == LayerRole::Output && chunks.len() == 1);
    let let_go: u64 = of_loss.map(|(_, memory)| memory.kept).sum();
    let others_keep = Bytes(kept.0.saturating_sub(let_go));
    let in_block = blocks.iter().map(|(_, memory)| (others_keep + Bytes(memory.stored), Bytes(memory.workspace)));
    let in_others = others.iter().map(|(_, memory)| (kept, Bytes(memory.workspace)));
    in_block.chain(in_others).max_by_key(|(kept, inside)| *kept + *inside).unwrap_or_default()
}

/// Computes the bytes at the schedule's peak of what one micro-batch keeps in each run of layers.
fn peak_of(plan: &Plan, stage: StageId, chunks: &[Range<usize>], kept: impl Fn(&Range<usize>) -> Bytes) -> Bytes {
    let held: Vec<u64> = chunks.iter().map(|layers| kept(layers).0).collect();
    Bytes(plan.pipeline().peak(stage, &held))
}

/// Returns what [`Plan::kept_activations`] does for software that may take the loss in tiles.
pub fn kept_activations_with(plan: &Plan, layers: &Range<usize>, retention: Retention) -> Bytes {
    layers_in(plan, std::slice::from_ref(layers), retention).map(|(_, memory)| Bytes(memory.kept)).sum()
}

/// Iterates over the layers of some runs, with the memory of each in the software that will run the plan.
fn layers_in<'p>(
    plan: &'p Plan,
    chunks: &'p [Range<usize>],
    retention: Retention,
) -> impl Iterator<Item = (&'p Layer, LayerMemory)> {
    plan.layers_in(chunks).map(move |(layer, memory)| {
        let (spec, sharing) = (plan.spec(), plan.sharing());
        let memory = if retention.experts_weight { memory.weighted_by_experts(spec, sharing, layer) } else { memory };
        let tiled = retention.tiles_loss && layer.loss_in_tiles;
        (layer, if tiled { LayerMemory::in_tiles(spec, sharing, layer) } else { memory })
    })
}

/// Returns the bytes of recomputed activations: with full recomputation one block at a time is whole again.
fn recomputed_at_once(plan: &Plan, chunks: &[Range<usize>], retention: Retention) -> Bytes {
    if plan.recompute() != Recompute::Full {
        return Bytes(0);
    }
    let blocks = layers_in(plan, chunks, retention).filter(|(layer, _)| layer.role == LayerRole::Block);
    let whole = blocks.map(|(_, memory)| memory.stored);
    Bytes(whole.max().unwrap_or(0))
}

fn workspace(plan: &Plan, chunks: &[Range<usize>], retention: Retention) -> Bytes {
    let largest = layers_in(plan, chunks, retention).map(|(_, memory)| memory.workspace).max();
    Bytes(largest.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fine_tuning::{DpoSpec, FineTuningSpec, LoraSpec, Reference};
    use crate::offload::Offload;
    use crate::spec::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec};
    use trainyard_models::{AttentionKernel, Family, ModelSpec};

    /// Weights and biases of a block of width 1024: attention 4 h² + 4 h, the feed-forward network 8 h² + 5 h, two
    /// normalisations 4 h.
    const BLOCK: u64 = 12 * 1024 * 1024 + 13 * 1024;

    /// What most of these tests vary: gradients of single precision, reduced in buckets and kept until the step.
    const RETENTION: Retention = Retention {
        element: 4,
        bucketed: true,
        lifetime: Lifetime::Step,
        tiles_loss: false,
        experts_weight: false,
        gradients_on_host: false,
    };

    /// GPT-2 medium with a small table, so that its blocks are its largest layers, on four replicas.
    fn spec(accumulation: u64) -> PlanSpec {
        let mut model = trainyard_models::find("gpt2-medium").expect("in the catalog").model.spec();
        model.vocab = Some(1000);
        PlanSpec {
            parallel: ParallelSpec { data: 4, ..ParallelSpec::default() },
            batch: BatchSpec { global: 4 * accumulation, micro: 1, accumulation },
            state_sharding: StateSharding::Gradients,
            ..PlanSpec::plain(model, ClusterSpec::of("p3.16xlarge", 1), 26)
        }
    }

    fn held(spec: PlanSpec, bucketed: bool) -> Resident {
        let plan = Plan::try_from(spec).expect("a valid plan");
        resident(&plan, StageId(0), Retention { bucketed, ..RETENTION })
    }

    #[test]
    fn values_that_are_let_go_at_once_are_there_at_one_moment() {
        let of = |accumulation, micro, lifetime| {
            let batch = BatchSpec { global: 4 * accumulation * micro, micro, accumulation };
            let plan = Plan::try_from(PlanSpec { batch, state_sharding: StateSharding::None, ..spec(1) });
            let plan = plan.expect("a valid plan");
            let store = Retention { bucketed: false, lifetime, ..RETENTION };
            (resident(&plan, StageId(0), store), plan)
        };
        for (accumulation, micro) in [(1, 1), (1, 16), (3, 1), (3, 16)] {
            let (whole, plan) = of(accumulation, micro, Lifetime::Step);
            let (moment, _) = of(accumulation, micro, Lifetime::LastUse);
            assert!(moment.total() < whole.total(), "{moment:?} {whole:?}");
            assert_eq!((moment.parameters, moment.optimizer_state), (whole.parameters, whole.optimizer_state));
            if accumulation > 1 {
                assert_eq!(moment.gradients, whole.gradients);
                continue;
            }
            // Layer by layer from the last: what is before it is kept, what is behind it has gradients.
            let layers = plan.graph().len();
            let retention = Retention { bucketed: false, lifetime: Lifetime::LastUse, ..RETENTION };
            let at = |layer: usize| {
                let kept = plan.kept_activations(&(0..layer + 1)).0;
                let gradients = 4 * plan.held(&(layer..layers)).updated();
                kept + gradients + workspace(&plan, std::slice::from_ref(&(layer..layer + 1)), retention).0
            };
            let fullest = (0..layers).map(at).max().expect("layers").max(whole.gradients.0);
            assert_eq!(moment.activations.0 + moment.gradients.0 + moment.workspace.0, fullest);
        }
    }

    /// With a large vocabulary the fullest moment is backward through the head: everything is kept, logits once, and the
    /// table has the head's gradient, beside that of earlier micro-batches where there are some.
    #[test]
    fn layer_by_layer_the_head_that_is_the_table_counts_with_its_gradient() {
        let of = |accumulation, lifetime| {
            let mut base = spec(accumulation);
            base.model.vocab = Some(200_000);
            base.batch = BatchSpec { global: 4 * 8 * accumulation, micro: 8, accumulation };
            let plan = Plan::try_from(PlanSpec { state_sharding: StateSharding::None, ..base }).expect("a valid plan");
            let retention = Retention { bucketed: false, lifetime, ..RETENTION };
            (resident(&plan, StageId(0), retention), plan)
        };
        let (table, norm) = (4 * 200_000 * 1024, 4 * 2 * 1024);
        for accumulation in [1, 3] {
            let (held, plan) = of(accumulation, Lifetime::Layer);
            let layers = plan.graph().len();
            assert_eq!(held.activations, plan.kept_activations(&(0..layers)));
            let earlier = if accumulation == 1 { 0 } else { 4 * plan.graph().parameters() };
            assert_eq!(held.gradients.0, earlier + table + norm);
            assert!(held.workspace.0 < table / 4, "{held:?}");
            let (whole, _) = of(accumulation, Lifetime::Step);
            assert!(whole.workspace.0 > table, "{whole:?}");
        }
    }

    #[test]
    fn gradients_of_the_only_micro_batch_are_kept_as_those_of_every_one() {
        let of = |accumulation, gradient_reduction| held(PlanSpec { gradient_reduction, ..spec(accumulation) }, true);
        let whole = of(2, GradientReduction::Step);
        for (accumulation, reduction) in [(1, GradientReduction::Step), (1, GradientReduction::MicroBatch)] {
            let once = of(accumulation, reduction);
            assert_eq!(once, of(2, GradientReduction::MicroBatch));
            assert_eq!(once.gradients.0, whole.gradients.0.div_ceil(4));
            assert_eq!(once.buffers, Bytes(2 * BLOCK * 4));
        }
        assert_eq!(whole.buffers, Bytes(0));
    }

    /// Llama 1 of 65 or 33 billion parameters with QLoRA of rank 64, one sample of 512 tokens, recomputed.
    fn qlora(hidden: u64, ffn: u64, layers: u32, heads: u64) -> Resident {
        qlora_over(StateSharding::None, 1, hidden, ffn, layers, heads)
    }

    fn qlora_over(
        state_sharding: StateSharding,
        data: u32,
        hidden: u64,
        ffn: u64,
        layers: u32,
        heads: u64,
    ) -> Resident {
        let model = ModelSpec {
            hidden: Some(hidden),
            ffn: Some(ffn),
            layers: Some(layers),
            heads: Some(heads),
            vocab: Some(32_000),
            seq_len: Some(512),
            attention: Some(AttentionKernel::Flash),
            ..ModelSpec::new("llama", Family::Llama)
        };
        let lora = LoraSpec { rank: Some(64), ..LoraSpec::default() };
        let plan = Plan::try_from(PlanSpec {
            state_sharding,
            parallel: ParallelSpec { data, ..ParallelSpec::default() },
            batch: BatchSpec { global: data.into(), micro: 1, accumulation: 1 },
            precision: Precision::Bf16Mixed,
            recompute: Recompute::Full,
            fine_tuning: Some(FineTuningSpec {
                method: Method::Qlora,
                lora: Some(lora),
                trained_blocks: None,
                dpo: None,
            }),
            ..PlanSpec::plain(model, ClusterSpec::of("p4d.24xlarge", 1), layers as usize + 2)
        })
        .expect("a valid plan");
        resident(&plan, StageId(0), RETENTION)
    }

    #[test]
    fn quantised_models_fit_the_gpus_that_the_paper_says() {
        const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
        let of = |held: Resident| held.total().as_f64() / GIB;
        let large = qlora(8192, 22_016, 80, 64);
        // 64.8 billion weights of 4.127 bits, 0.5 billion and 0.8 billion of adapters of 16.
        let weights = (64.76e9 * 4.127 / 8.0 + 2.0 * (0.524e9 + 0.8e9)) / GIB;
        assert!((large.parameters.as_f64() / GIB / weights - 1.0).abs() < 0.01, "{large:?}");
        assert!((40.0..46.0).contains(&of(large)), "{} GiB", of(large));
        // Dettmers et al., arXiv:2305.14314, figure 6: without paging 33B does not fit 24 GB.
        let small = qlora(6656, 17_920, 60, 52);
        let moments = small.optimizer_state.as_f64() / GIB;
        assert!(of(small) > 22.0 && of(small) - moments < 20.0, "{} GiB, {moments} of moments", of(small));
    }

    #[test]
    fn adapters_alone_have_gradients_and_states() {
        let model = &trainyard_models::find("llama-2-7b").expect("in the catalog").model;
        let layers = model.graph().len();
        let held = |method| {
            let fine_tuning = FineTuningSpec::towards(None, method, None, None).expect("valid");
            let plan = Plan::try_from(PlanSpec {
                precision: Precision::Bf16Mixed,
                fine_tuning,
                ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), layers)
            })
            .expect("a valid plan");
            resident(&plan, StageId(0), RETENTION)
        };
        // PEFT counts 39 976 960 trained of 6 778 392 576 values at rank 16 (tests/fine_tuning/counts.json).
        let (trained, all) = (39_976_960, 6_778_392_576);
        let lora = held(Method::Lora);
        assert_eq!(lora.parameters, Bytes(2 * all));
        assert_eq!((lora.gradients, lora.optimizer_state), (Bytes(4 * trained), Bytes(12 * trained)));
        let qlora = held(Method::Qlora);
        assert_eq!((qlora.gradients, qlora.optimizer_state), (Bytes(2 * trained), Bytes(8 * trained)));
        let full = held(Method::Full);
        assert_eq!(full.gradients, Bytes(4 * (all - trained)));
        assert!(qlora.parameters.0 * 3 < lora.parameters.0);
    }

    /// A plan of a model of the catalog in single precision with moments in eight bits.
    fn in_eight_bits(name: &str, state_sharding: StateSharding, data: u32) -> Plan {
        let model = &trainyard_models::find(name).expect("in the catalog").model;
        Plan::try_from(PlanSpec {
            state_sharding,
            parallel: ParallelSpec { data, ..ParallelSpec::default() },
            batch: BatchSpec { global: data.into(), micro: 1, accumulation: 1 },
            optimizer: Optimizer::AdamW8bit,
            ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), model.graph().len())
        })
        .expect("a valid plan")
    }

    #[test]
    fn moments_in_eight_bits_are_two_bytes_and_a_scale_a_block_but_for_embeddings_and_norms() {
        let state = |sharding, data| {
            let plan = in_eight_bits("llama-3.2-1b", sharding, data);
            resident(&plan, StageId(0), RETENTION).optimizer_state.0
        };
        // Published: 1 235 814 400 parameters, with a table of 128 256 rows and 33 norms of 2 048; all else is in matrices of
        // whole blocks. Of each of less than 200 tensors one block more counts.
        let (table, norms) = (128_256 * 2048, 33 * 2048);
        let matrices = 1_235_814_400 - table - norms;
        let within = |found: u64, least: u64| assert!((least..least + 8 * 200).contains(&found), "{found} {least}");
        within(state(StateSharding::None, 1), 8 * (table + norms) + 2 * matrices + 8 * matrices / 256);
        // Parts of a table are as those of a matrix.
        let values = (matrices + table) / 8;
        within(state(StateSharding::Parameters, 8), norms + 2 * values + 8 * values / 256);
    }

    /// Peaks of AdamW less those of 8 bits: pytorch/ao, torchao/optim/README.md, Llama 2 of 7B in bfloat16, moments too (51.6
    /// GiB, 39.1 with torchao and 39.3 with bitsandbytes, no embedding exempt), and pull request 478, ViT-H in single precision
    /// (12.98 and 12.23 GB, 8.32).
    #[test]
    fn moments_in_eight_bits_save_what_was_measured() {
        let saved = |values: u64, element: u64| {
            (Bytes(2 * element) * values).as_f64() - Optimizer::AdamW8bit.state(values).as_f64()
        };
        let gib = saved(6_738_415_616, 2) / 2.0_f64.powi(30);
        assert!((12.2..12.6).contains(&gib), "{gib}");
        let gigabytes = saved(630_000_000, 4) / 1e9;
        assert!((3.7..4.0).contains(&gigabytes), "{gigabytes}");
    }

    #[test]
    fn the_least_state_of_layers_is_no_more_than_any_ranks_part() {
        let shardings =
            [StateSharding::None, StateSharding::Optimizer, StateSharding::Gradients, StateSharding::Parameters];
        for name in ["gpt2-xl", "llama-3.2-1b", "resnet50", "mixtral-8x7b", "t5-large"] {
            for (sharding, data) in shardings.iter().flat_map(|sharding| [1, 3, 8].map(|data| (*sharding, data))) {
                let plan = in_eight_bits(name, sharding, data);
                let found = resident(&plan, StageId(0), RETENTION).optimizer_state.as_f64();
                let layers = 0..plan.graph().len();
                let least: f64 =
                    layers.map(|layer| least_optimizer_state(&plan, plan.held(&(layer..layer + 1))).as_f64()).sum();
                let copies = if sharding == StateSharding::None { 1.0 } else { f64::from(data) };
                assert!(least / copies <= found, "{name} {sharding} {data}: {least} {found}");
                // No more than all of it in 32 bits, and the scales of blocks that are not whole.
                let whole = Optimizer::AdamW.state(plan.held_by(StageId(0)).parameters).as_f64();
                assert!(found <= whole / copies * 1.01, "{name} {sharding} {data}: {found}");
            }
        }
    }

    #[test]
    fn parts_that_are_no_whole_blocks_stay_in_32_bits() {
        let of = |data| {
            let plan = in_eight_bits("gpt2-xl", StateSharding::Parameters, data);
            plan.held_by(StageId(0)).in_32_bits
        };
        // Rows of 1 600 values are 6.25 blocks: 1 600 rows over 8 ranks are whole blocks, over 32 they are not, nor are 50 257.
        assert!(of(8) > 50_257 * 1600 && of(8) < 90_000_000, "{}", of(8));
        assert!(of(32) > 50_257 * 1600 + 48 * 1600 * 1600, "{}", of(32));
        assert!(checkpoint_bytes(&in_eight_bits("gpt2-xl", StateSharding::None, 1)) < Bytes(7 * 1_557_611_200));
    }

    #[test]
    fn the_processor_does_not_update_in_eight_bits() {
        let plan = in_eight_bits("gpt2", StateSharding::Optimizer, 2);
        let offload = Offload { optimizer: Some(Store::Host), ..Offload::NONE };
        let error = Plan::try_from(PlanSpec { offload, ..plan.spec().clone() }).expect_err("no kernels").to_string();
        assert!(error.contains("adamw-8bit run on GPUs alone"), "{error}");
    }

    #[test]
    fn weights_in_four_bits_that_are_shared_out_are_loaded_whole() {
        let of = |state_sharding, data| qlora_over(state_sharding, data, 8192, 22_016, 80, 64);
        let (alone, shared) = (of(StateSharding::None, 1), of(StateSharding::Parameters, 8));
        assert!(shared.parameters.0 < alone.parameters.0 / 7);
        assert_eq!(shared.total(), alone.parameters);
        assert_eq!(alone.loading, Bytes(0));
    }

    #[test]
    fn in_eight_bits_products_keep_half_of_their_inputs_and_copies_of_weights() {
        let of = |precision| {
            let spec = PlanSpec { precision, state_sharding: StateSharding::None, ..spec(1) };
            let plan = Plan::try_from(spec).expect("a valid plan");
            resident(&plan, StageId(0), RETENTION)
        };
        let (half, eighths) = (of(Precision::Bf16Mixed), of(Precision::Fp8Mixed));
        // Four products of each block, with their biases: BLOCK without two normalisations.
        assert_eq!(eighths.parameters.0 - half.parameters.0, 2 * 24 * (BLOCK - 4 * 1024));
        // Inputs of 24 blocks' four products: 1024 tokens, 3 · 1024 and 4096 wide.
        assert_eq!(half.activations.0 - eighths.activations.0, 24 * 1024 * (3 * 1024 + 4096));
        assert_eq!((half.gradients, half.optimizer_state), (eighths.gradients, eighths.optimizer_state));
    }

    #[test]
    fn gradients_of_a_head_are_summed_in_single_precision_whose_ever_table_it_is() {
        let model = spec(1).model;
        let whole = ModelSpec { vocab: Some(50_000), ..model };
        let dpo = Some(DpoSpec { reference: Some(Reference::Precomputed) });
        let fine_tuning = FineTuningSpec::towards(dpo, Method::Full, None, None).expect("valid");
        let plan = PlanSpec { precision: Precision::Bf16Mixed, recompute: Recompute::Full, fine_tuning, ..spec(1) };
        let plan = Plan::try_from(PlanSpec { model: whole, ..plan }).expect("a valid plan");
        let retention = Retention { tiles_loss: true, ..RETENTION };
        let all = 0..plan.graph().len();
        let (_, head) = layers_in(&plan, std::slice::from_ref(&all), retention).last().expect("a head");
        // The token table is the head; 2 · 1024 tokens, 1024 wide, in tiles of 32 768 words.
        let stream = 2 * 1024 * 1024;
        assert_eq!(head.workspace, 2 * 1024 * 32_768 * 2 + 4 * (stream + 50_000 * 1024) + 2 * stream);
    }

    #[test]
    fn a_reference_model_is_a_copy_of_the_weights_or_none() {
        let model = &trainyard_models::find("llama-2-7b").expect("in the catalog").model;
        let held = |method, reference: Option<Reference>, micro, state_sharding| {
            let dpo = reference.map(|reference| DpoSpec { reference: Some(reference) });
            let fine_tuning = FineTuningSpec::towards(dpo, method, None, None).expect("valid");
            let layers = fine_tuning.as_ref().map_or(model.graph(), |own| own.graph(model).expect("a graph")).len();
            let data = if state_sharding == StateSharding::None { 1 } else { 8 };
            let plan = Plan::try_from(PlanSpec {
                precision: Precision::Bf16Mixed,
                parallel: ParallelSpec { data, ..ParallelSpec::default() },
                batch: BatchSpec { global: micro * u64::from(data), micro, accumulation: 1 },
                fine_tuning,
                state_sharding,
                ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), layers)
            })
            .expect("a valid plan");
            resident(&plan, StageId(0), Retention { element: 2, ..RETENTION })
        };
        let whole = 6_738_415_616;
        for (method, copy) in [(Method::Full, 2 * whole), (Method::Lora, 0), (Method::Qlora, 0)] {
            // Two samples of one sequence are one pair.
            let sft = held(method, None, 2, StateSharding::None);
            let kept = held(method, Some(Reference::Precomputed), 1, StateSharding::None);
            let dpo = held(method, Some(Reference::Model), 1, StateSharding::None);
            assert_eq!(kept, sft, "{method}: scores that are kept take nothing");
            assert_eq!(dpo, Resident { parameters: sft.parameters + Bytes(copy), ..sft }, "{method}");
        }
        // ZeRO-3 shares the copy out too.
        let sft = held(Method::Full, None, 2, StateSharding::Parameters);
        let dpo = held(Method::Full, Some(Reference::Model), 1, StateSharding::Parameters);
        assert!(dpo.parameters.0.abs_diff(sft.parameters.0 + whole / 4) < 1000, "{dpo:?} {sft:?}");
    }

    #[test]
    fn frozen_layers_keep_nothing() {
        let model = &trainyard_models::find("mask-rcnn-r50-fpn").expect("in the catalog").model;
        let layers = model.graph().len();
        for recompute in Recompute::ALL.iter().copied() {
            let spec =
                PlanSpec { recompute, ..PlanSpec::plain(model.spec(), ClusterSpec::of("p3.16xlarge", 1), layers) };
            let plan = Plan::try_from(spec).expect("a valid plan");
            let alone = |layer| resident_with(&plan, StageId(0), std::slice::from_ref(&(layer..layer + 1)), RETENTION);
            let frozen = |layer: &usize| plan.graph().layer(*layer).frozen;
            assert!((1..layers).any(|layer| frozen(&layer)), "there are frozen blocks");
            for held in (0..layers).filter(frozen).map(alone) {
                assert_eq!((held.activations, held.workspace), (Bytes(0), Bytes(0)), "{recompute}");
            }
        }
    }

    #[test]
    fn gradients_that_are_reduced_in_one_piece_are_whole_until_then() {
        for reduction in [GradientReduction::Step, GradientReduction::MicroBatch] {
            let of =
                |state_sharding| held(PlanSpec { state_sharding, gradient_reduction: reduction, ..spec(1) }, false);
            let [optimizer, gradients] = [StateSharding::Optimizer, StateSharding::Gradients].map(of);
            assert_eq!(gradients, optimizer);
            assert_eq!((gradients.gradients, gradients.buffers), (gradients.parameters, Bytes(0)));
            // Where weights are gathered, gradients are reduced layer by layer whatever the buckets.
            let weights = of(StateSharding::Parameters);
            assert_eq!(weights.gradients.0, gradients.gradients.0.div_ceil(4));
            assert_eq!(weights.buffers, Bytes(2 * BLOCK * (4 + 4)));
        }
    }
}
