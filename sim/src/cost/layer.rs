//! Seconds of layers: kernels, and the communication that happens inside a layer.

use super::device::{LinkCosts, Usage, device_costs};
use super::work::LayerWork;
use crate::layout::Layout;
use crate::machine::{Machine, MachineError, enough_devices};
use crate::wiring::Wiring;
use trainyard_hardware_profiles::Device;
use trainyard_plan::operators::{
    Image, Layer, LayerRole, Operator, OperatorGraph, OperatorKind, Places, Routing, Sharing,
};
use trainyard_plan::{Collective, Collectives, Group, Mesh, Precision, Recompute, StagePass};
use trainyard_units::{Bytes, Seconds};

/// The spread of work between images where regions are cut out of it, as one standard
/// deviation over the mean: images differ in shape and in what is on them. Fitted on 108 step times of Mask R-CNN on 1
/// to 256 GPUs with 1 to 24 images each, 2026-11-21; known to a quarter. See docs/physics.md.
const REGION_SPREAD: f64 = 0.25;

/// Bytes of a token's score for one expert, which is in single precision.
const SCORE: u64 = 4;

/// Bytes of the number of tokens for one expert.
const COUNT: u64 = 8;

/// Seconds of one layer for one micro-batch on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerCost {
    /// Kernels forward.
    pub forward: Seconds,
    /// Kernels backward, without recomputation.
    pub backward: Seconds,
    /// The part of backward that is for gradients of weights.
    pub weights_share: f64,
    /// The core of attention, forward.
    pub core: Seconds,
    /// Waiting for other ranks inside the layer, forward.
    pub inside_forward: LayerWaits,
    /// The same backward.
    pub inside_backward: LayerWaits,
    /// Set if recomputation computes this layer again.
    pub recomputed: bool,
}

/// Waiting for other ranks inside a layer, by the group that they wait for: the groups of a plan may lie differently,
/// one inside machines and another across them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerWaits {
    /// Ranks that share the layer.
    pub tensor: Seconds,
    /// Ranks that share experts or tables.
    pub expert: Seconds,
    /// Ranks that share a sample.
    pub context: Seconds,
}

impl LayerWaits {
    /// Returns the time in all groups.
    pub fn total(self) -> Seconds {
        self.tensor + self.expert + self.context
    }
}

impl std::ops::Add for LayerWaits {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tensor: self.tensor + other.tensor,
            expert: self.expert + other.expert,
            context: self.context + other.context,
        }
    }
}

/// Costs of all layers of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerCosts {
    distinct: Vec<LayerCost>,
    order: Vec<usize>,
}

impl LayerCosts {
    /// The price of a layer.
    pub fn layer(&self, index: usize) -> LayerCost {
        self.distinct[self.order[index]]
    }

    /// Per layer, forward and backward together: what a cut into stages should balance.
    pub fn weights(&self, recompute: Recompute) -> Vec<f64> {
        let distinct: Vec<f64> = self
            .distinct
            .iter()
            .map(|price| (price.pass(StagePass::Forward, recompute) + price.pass(StagePass::Backward, recompute)).0)
            .collect();
        self.order.iter().map(|index| distinct[*index]).collect()
    }
}

impl LayerCost {
    /// One pass, with what happens between its kernels and, backward, what is computed again.
    pub fn pass(&self, pass: StagePass, recompute: Recompute) -> Seconds {
        let again = match recompute {
            Recompute::Full if self.recomputed => self.forward + self.inside_forward.total(),
            Recompute::Selective if self.recomputed => self.core,
            _ => Seconds::ZERO,
        };
        let inputs = self.inside_backward.total() + again;
        match pass {
            StagePass::Forward => self.forward + self.inside_forward.total(),
            StagePass::Backward => self.backward + inputs,
            StagePass::BackwardInput => self.backward * (1.0 - self.weights_share) + inputs,
            StagePass::BackwardWeight => self.backward * self.weights_share,
        }
    }
}

/// Costs of the layers of `graph` for micro-batches of `micro` samples, on the first kind of machine of a cluster.
///
/// # Errors
///
/// When a measured machine was not measured for this.
pub fn layer_costs(
    graph: &OperatorGraph,
    micro: u64,
    mesh: Mesh,
    precision: Precision,
    machine: &Machine,
) -> Result<LayerCosts, MachineError> {
    let layers = Computed { graph, micro, mesh, precision, machine };
    let [costs] = layers.costs_among([mesh.ranks()], &layers.kernels()?)?;
    Ok(costs)
}

/// Layers as the ranks of a plan compute them.
#[derive(Clone, Copy)]
pub struct Computed<'a> {
    pub graph: &'a OperatorGraph,
    /// Samples of a micro-batch.
    pub micro: u64,
    pub mesh: Mesh,
    pub precision: Precision,
    pub machine: &'a Machine,
}

/// The kernels of a model's distinct layers on one rank, without communication. They are the same on all machines with
/// such a GPU, the same software and as fast a processor.
#[derive(Clone, Debug)]
pub struct LayerKernels(Vec<LayerWork>);

impl Computed<'_> {
    /// Returns the kernels of the layers on the first kind of machine of the cluster.
    ///
    /// # Errors
    ///
    /// As [`layer_costs`].
    pub fn kernels(&self) -> Result<LayerKernels, MachineError> {
        self.kernels_on(&self.machine.cluster.first().device)
    }

    /// The same on one kind of machine of a mixed cluster.
    pub(super) fn kernels_on(&self, device: &Device) -> Result<LayerKernels, MachineError> {
        let Self { graph, micro, mesh, precision, machine } = *self;
        enough_devices(&machine.cluster, mesh)?;
        let usage = Usage {
            stack: &machine.stack,
            launch: machine.launch(),
            precision,
            ranks: mesh.ranks(),
            work_cv: work_cv(graph),
            drops_out: graph.drops_out(),
        };
        let costs = device_costs(device);
        let work = |layer| costs.layer(usage, layer, micro, mesh.sharing());
        Ok(LayerKernels(graph.distinct().iter().map(work).collect::<Result<_, _>>()?))
    }

    /// Returns the costs of layers with these kernels for each number of `devices` among which the ranks might be, the
    /// slowest of which they wait for. A layer's price is convex in [`expected_max_sigma`] of the devices: kernels take
    /// longer in proportion, host and links do not, and each kernel takes the longer of the two.
    ///
    /// # Errors
    ///
    /// As [`layer_costs`].
    pub fn costs_among<const N: usize>(
        &self,
        devices: [u32; N],
        kernels: &LayerKernels,
    ) -> Result<[LayerCosts; N], MachineError> {
        let Self { graph, micro, mesh, precision, machine } = *self;
        enough_devices(&machine.cluster, mesh)?;
        let inside = Inside::new(micro, mesh, precision, machine);
        let mut distinct = [const { Vec::new() }; N];
        for (layer, work) in graph.distinct().iter().zip(&kernels.0) {
            let waits = inside.waits(layer)?;
            for (priced, devices) in distinct.iter_mut().zip(devices) {
                priced.push(inside.add_to(work.among(devices), layer, waits));
            }
        }
        Ok(distinct.map(|distinct| LayerCosts { distinct, order: graph.order().to_vec() }))
    }
}

/// Standard deviations by which the slowest of so many devices is behind the mean: √(2 ln N), the leading term of the
/// expected maximum of N normal variables.
pub fn expected_max_sigma(devices: u32) -> f64 {
    (2.0 * f64::from(devices).ln()).sqrt()
}

/// One standard deviation of the work of a model's sample over its mean.
fn work_cv(graph: &OperatorGraph) -> f64 {
    let mut operators = graph.distinct().iter().flat_map(|layer| &layer.operators);
    let regions = operators.any(|operator| matches!(operator.kind, OperatorKind::Image(Image::RegionAlign { .. })));
    if regions { REGION_SPREAD } else { 0.0 }
}

/// Time that a collective adds to a kernel beside it, which takes longer by `slowdown` meanwhile.
fn exposed_beside(collective: Seconds, kernel: Seconds, slowdown: f64) -> Seconds {
    let slowed = collective * (slowdown / (1.0 + slowdown));
    Seconds(collective.0 - kernel.0).max(slowed)
}

/// Time that passing keys and values round adds, forward and backward, beside the core of attention if that goes on
/// meanwhile. Backward passes them round again, and their gradients with them, beside twice the work.
fn exposed_passing(passing: Seconds, beside: Option<Seconds>) -> [Seconds; 2] {
    let core = beside.unwrap_or(Seconds::ZERO);
    let exposed = |compute: Seconds, rounds: f64| Seconds((passing * rounds).0 - compute.0).max(Seconds::ZERO);
    [exposed(core, 1.0), exposed(core * 2.0, 2.0)]
}

/// Something that is sent inside a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct InsideMessage {
    pub(crate) kind: Collective,
    pub(crate) group: Group,
    /// The buffer, as [`Collective`] counts it.
    pub(crate) bytes: Bytes,
    /// Bytes of an element.
    pub(crate) element: u64,
    /// Messages in each direction.
    pub(crate) count: u32,
    /// Time in which ranks wait for all of them, forward.
    pub(crate) forward: Seconds,
    /// The same backward.
    pub(crate) backward: Seconds,
}

/// Seconds of the collectives inside a layer, each by itself and over all that it sends.
#[derive(Clone, Copy, Default)]
struct Waits {
    /// One sum over tensor-parallel ranks: its scattering and its gathering, or nothing and all of it.
    reduction: [Seconds; 2],
    /// All exchanges with experts, forward and backward.
    experts: [Seconds; 2],
    /// Keys and values passed round once.
    passing: Seconds,
}

/// The communication inside layers. Ranks of a group wait for it: it is not spread over shared links by the engine, but
/// priced as if all groups of a stage did it at the same time and nothing else used their links.
pub(crate) struct Inside<'a> {
    /// The part by which kernels take longer beside a collective.
    slowdown: f64,
    links: &'a dyn LinkCosts,
    micro: u64,
    element: u64,
    sharing: Sharing,
    table_exchange: f64,
    sends_scores: bool,
    layout: Layout<'a>,
    wiring: Option<Wiring<'a>>,
}

impl<'a> Inside<'a> {
    pub(crate) fn new(micro: u64, mesh: Mesh, precision: Precision, machine: &'a Machine) -> Self {
        let sharing = mesh.sharing();
        let communicates = sharing.tensor.max(sharing.context).max(sharing.expert) > 1;
        Self {
            slowdown: machine.overlap_slowdown(),
            links: device_costs(&machine.cluster.first().device).links(),
            micro,
            element: precision.element_bytes(),
            sharing,
            table_exchange: machine.stack.table_exchange.as_ref().map_or(1.0, |share| share.value),
            sends_scores: machine.stack.scores_sent.as_ref().is_some_and(|sent| sent.value),
            layout: Layout { mesh, cluster: &machine.cluster },
            wiring: communicates.then(|| Wiring::new(&machine.cluster)),
        }
    }

    /// Adds the time in which ranks wait for one another inside a layer to the time of its kernels.
    fn add_to(&self, kernels: LayerCost, layer: &Layer, waits: Waits) -> LayerCost {
        // What is frozen has no backward pass that would want it again.
        let recomputed = layer.role == LayerRole::Block && !layer.frozen;
        let [reductions, reduced_back] = self.reductions(layer, &kernels, waits.reduction);
        let [passed, passed_back] = exposed_passing(waits.passing, self.beside_passing(&kernels));
        LayerCost {
            inside_forward: LayerWaits { tensor: reductions, expert: waits.experts[0], context: passed },
            inside_backward: LayerWaits { tensor: reduced_back, expert: waits.experts[1], context: passed_back },
            recomputed,
            ..kernels
        }
    }

    /// Returns the time that each kind of collective inside a layer takes by itself.
    fn waits(&self, layer: &Layer) -> Result<Waits, MachineError> {
        let Some(wiring) = &self.wiring else { return Ok(Waits::default()) };
        Ok(Waits {
            reduction: self.reduction(wiring, layer)?,
            experts: self.exchanges(wiring, layer)?,
            passing: self.passing(wiring, layer)?,
        })
    }

    /// Messages inside a layer, kind by kind, with the time in which ranks wait for it: together that of
    /// [`LayerCost::inside_forward`] and [`LayerCost::inside_backward`].
    pub(crate) fn messages(&self, layer: &Layer, kernels: &LayerCost) -> Result<Vec<InsideMessage>, MachineError> {
        if self.wiring.is_none() {
            return Ok(Vec::new());
        }
        let waits = self.waits(layer)?;
        let mut messages = Vec::new();
        let mut add = |kind, group, elements: u64, count, [forward, backward]: [Seconds; 2]| {
            if forward + backward > Seconds::ZERO {
                let bytes = Bytes(elements * self.element);
                messages.push(InsideMessage { kind, group, bytes, element: self.element, count, forward, backward });
            }
        };
        let stream = layer.stream_elements.div_ceil(self.sharing.context) * self.micro;
        let reductions = self.reductions(layer, kernels, waits.reduction);
        if self.sharing.sequence {
            let halves = reductions.map(|time| time * 0.5);
            add(Collective::AllGather, Group::Tensor, stream, layer.tensor_reductions, halves);
            add(Collective::ReduceScatter, Group::Tensor, stream, layer.tensor_reductions, halves);
        } else {
            add(Collective::AllReduce, Group::Tensor, stream, layer.tensor_reductions, reductions);
        }
        add(Collective::AllToAll, Group::Expert, self.exchanged(layer), layer.exchanges(), waits.experts);
        let passed = layer.context_elements.div_ceil(self.sharing.tensor) * self.micro;
        let exposed = exposed_passing(waits.passing, self.beside_passing(kernels));
        add(Collective::AllGather, Group::Context, passed, 1, exposed);
        Ok(messages)
    }

    /// Tensor parallelism, forward and backward: sums of the residual stream (Shoeybi et al., arXiv:1909.08053,
    /// section 3); with sequence parallelism the two halves of each sum in different places (Korthikanti et al.,
    /// arXiv:2205.05198, section 4.2.2). Backward then gathers the input of a product once more beside the gradient of
    /// that input, and scatters the gradient beside that of the weight (NVIDIA/Megatron-LM,
    /// `LinearWithGradAccumulationAndAsyncCommunication`), so that one of three is waited for.
    fn reductions(&self, layer: &Layer, kernels: &LayerCost, [scattered, gathered]: [Seconds; 2]) -> [Seconds; 2] {
        if layer.tensor_reductions == 0 {
            return [Seconds::ZERO; 2];
        }
        let count = f64::from(layer.tensor_reductions);
        if !self.sharing.sequence || !self.links.overlaps_inside_layers() {
            return [(scattered + gathered) * count; 2];
        }
        // Half of a block's weights are behind a gathering, the other half before a scattering.
        let product = kernels.backward * (kernels.weights_share / 2.0 / count);
        let beside = |collective| exposed_beside(collective, product, self.slowdown);
        [(scattered + gathered) * count, (gathered + beside(gathered) + beside(scattered)) * count]
    }

    /// One of these sums: its scattering and its gathering, or all of it as one.
    fn reduction(&self, wiring: &Wiring<'_>, layer: &Layer) -> Result<[Seconds; 2], MachineError> {
        if self.sharing.tensor == 1 || layer.tensor_reductions == 0 {
            return Ok([Seconds::ZERO; 2]);
        }
        let elements = layer.stream_elements.div_ceil(self.sharing.context) * self.micro;
        let bytes = Bytes(elements * self.element);
        let of = |collective| self.slowest(wiring, Group::Tensor, collective, bytes);
        if self.sharing.sequence {
            Ok([of(Collective::ReduceScatter)?, of(Collective::AllGather)?])
        } else {
            Ok([Seconds::ZERO, of(Collective::AllReduce)?])
        }
    }

    /// Expert parallelism: tokens to their experts and back (Lepikhin et al., arXiv:2006.16668, section 3.2), or rows
    /// of tables to the samples that need them (Naumov et al., arXiv:1906.00091, section 4).
    fn exchanges(&self, wiring: &Wiring<'_>, layer: &Layer) -> Result<[Seconds; 2], MachineError> {
        if self.sharing.expert_ranks() == 1 || layer.exchanged_elements == 0 {
            return Ok([Seconds::ZERO; 2]);
        }
        let of = |collective, bytes| self.slowest(wiring, Group::Expert, collective, Bytes(bytes));
        let tokens = of(Collective::AllToAll, self.exchanged(layer) * self.element)? * f64::from(layer.exchanges());
        let Some(places) = self.scored(layer) else { return Ok([tokens; 2]) };
        let scores = of(Collective::AllToAll, places.places * SCORE)?;
        let counts = of(Collective::AllGather, places.experts * COUNT)?;
        Ok([tokens + scores + counts, tokens + scores])
    }

    /// Returns the places of a rank's tokens where their scores are sent with them, and before that how many there are for
    /// each expert; backward, the gradients of scores return.
    ///
    /// # Source
    ///
    /// megatron-core 0.16, `transformer/moe/token_dispatcher.py`, `MoEAlltoAllTokenDispatcher`: `preprocess` gathers counts,
    /// `token_dispatch` sends tokens and probabilities by an all-to-all each.
    fn scored(&self, layer: &Layer) -> Option<Places> {
        let dispatched = |operator: &Operator| match operator.on_rank(self.micro, self.sharing) {
            OperatorKind::Routing(Routing::Dispatch(places)) => Some(places),
            _ => None,
        };
        self.sends_scores.then(|| layer.operators.iter().find_map(dispatched)).flatten()
    }

    /// Elements that one exchange moves from each rank.
    fn exchanged(&self, layer: &Layer) -> u64 {
        let parts = self.sharing.context * if self.sharing.sequence { self.sharing.tensor } else { 1 };
        let elements = layer.exchanged_elements.div_ceil(parts) * self.micro;
        let share = if layer.looked_up(1) > 0 { self.table_exchange } else { 1.0 };
        (elements as f64 * share) as u64
    }

    /// Context parallelism: each rank's keys and values visit all others, block by block, while attention works on the
    /// block before (Liu et al., arXiv:2310.01889, section 3).
    fn passing(&self, wiring: &Wiring<'_>, layer: &Layer) -> Result<Seconds, MachineError> {
        if self.sharing.context == 1 || layer.context_elements == 0 {
            return Ok(Seconds::ZERO);
        }
        let elements = layer.context_elements.div_ceil(self.sharing.tensor) * self.micro;
        self.slowest(wiring, Group::Context, Collective::AllGather, Bytes(elements * self.element))
    }

    /// The work that goes on while keys and values go round.
    fn beside_passing(&self, kernels: &LayerCost) -> Option<Seconds> {
        self.links.overlaps_inside_layers().then_some(kernels.core)
    }

    /// The slowest of the groups of all stages, all groups of a stage at once. Stages that stand on machines alike take
    /// the same, to the last bit.
    fn slowest(
        &self,
        wiring: &Wiring<'_>,
        group: Group,
        collective: Collective,
        bytes: Bytes,
    ) -> Result<Seconds, MachineError> {
        let mut slowest = Seconds::ZERO;
        let stages = self.layout.mesh.pipeline();
        for stage in 0..self.layout.period().map_or(stages, |period| period.min(stages)) {
            let groups = self.layout.groups(stage, group);
            let groups: Vec<_> = groups.iter().map(|members| self.layout.positions(members)).collect();
            slowest = slowest.max(self.links.together(wiring, collective, Collectives::Nccl, &groups, bytes)?);
        }
        Ok(slowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;
    use trainyard_models::{FeedForward, Model};
    use trainyard_plan::ParallelSpec;

    #[test]
    fn layers_without_a_backward_pass_are_not_computed_again() {
        let graph = trainyard_models::find("mask-rcnn-r50-fpn").expect("in the catalog").model.graph();
        let machine = Machine {
            cluster: catalog().cluster("p3.16xlarge", 1).expect("in the catalog"),
            stack: catalog().stack("pytorch").expect("in the catalog").clone(),
        };
        let mesh = Mesh::from(ParallelSpec::default());
        let costs = layer_costs(&graph, 2, mesh, Precision::Fp32, &machine).expect("a GPU prices everything");
        let blocks = graph.layers().enumerate().filter(|(_, layer)| layer.role == LayerRole::Block);
        let mut frozen = 0;
        for (index, layer) in blocks {
            let price = costs.layer(index);
            let [kept, again] = [Recompute::None, Recompute::Full].map(|kind| price.pass(StagePass::Backward, kind));
            let forward = if layer.frozen { Seconds::ZERO } else { price.forward };
            assert!((again.0 - kept.0 - forward.0).abs() < 1e-12, "{}", layer.name);
            frozen += u32::from(layer.frozen && kept == Seconds::ZERO);
        }
        assert!(frozen > 0, "the model has frozen blocks");
    }

    /// Seconds forward and backward of the feed-forward part of a block with experts, of 4,096 tokens on each of eight
    /// H100 that share the experts, as Megatron Core runs it in bfloat16.
    fn experts_on_eight(dimensions: &[(&str, u64)]) -> [f64; 2] {
        let mut spec = trainyard_models::find("qwen3-30b-a3b").expect("in the catalog").model.spec();
        (spec.layers, spec.feed_forward) = (Some(1), Some(FeedForward::Smooth));
        for (name, value) in dimensions {
            match *name {
                "hidden" => spec.hidden = Some(*value),
                "experts" => spec.experts = Some(*value),
                "chosen" => spec.experts_per_token = Some(*value),
                "ffn" => spec.expert_ffn = Some(*value),
                _ => spec.shared_ffn = Some(*value),
            }
        }
        let graph = Model::try_from(spec).expect("a model").graph();
        let block = graph.layers().find(|layer| layer.exchanged_elements > 0).expect("a block with experts");
        let norms = |operator: &Operator| matches!(operator.kind, OperatorKind::RmsNorm { .. });
        let first = block.operators.iter().rposition(norms).expect("a norm") + 1;
        let operators = block.operators[first..block.operators.len() - 1].to_vec();
        let layer = Layer { operators, tensor_reductions: 0, context_elements: 0, ..block.clone() };
        let machine = Machine {
            cluster: catalog().cluster("p5.48xlarge", 1).expect("in the catalog"),
            stack: catalog().stack("megatron-core").expect("in the catalog").clone(),
        };
        let mesh = Mesh::from(ParallelSpec { data: 8, expert: 8, ..ParallelSpec::default() });
        let (stack, launch, precision) = (&machine.stack, machine.launch(), Precision::Bf16Mixed);
        let usage = Usage { stack, launch, precision, ranks: 8, work_cv: 0.0, drops_out: false };
        let device = device_costs(&machine.cluster.first().device);
        let kernels = device.layer(usage, &layer, 1, mesh.sharing()).expect("a GPU prices everything").among(8);
        let inside = Inside::new(1, mesh, precision, &machine);
        let costs = inside.add_to(kernels, &layer, inside.waits(&layer).expect("links are known"));
        [costs.forward + costs.inside_forward.total(), costs.backward + costs.inside_backward.total()]
            .map(|time| time.0)
    }

    /// # Source
    ///
    /// NVIDIA/Megatron-LM at 32f2c9c, `tests/functional_tests/test_cases/common/moe_perf/`: `baseline.json`,
    /// `mixtral_a2a_tp1ep8_bf16` and `deepseek_a2a_tp1ep8_bf16`, whose shapes are in `test_cases.py`; tokens are spread evenly.
    /// Nothing was fitted on them.
    #[test]
    fn layers_with_experts_take_what_was_measured() {
        let mixtral = [("hidden", 4096), ("ffn", 14_336), ("experts", 8), ("chosen", 2)];
        let deepseek = [("hidden", 7168), ("ffn", 2048), ("experts", 32), ("chosen", 8), ("shared", 2048)];
        for (shape, measured) in [(&mixtral[..], [4.26e-3, 7.83e-3]), (&deepseek[..], [6.94e-3, 10.45e-3])] {
            for (predicted, measured) in experts_on_eight(shape).into_iter().zip(measured) {
                assert!((predicted / measured - 1.0_f64).abs() < 0.16, "{shape:?}: {predicted} for {measured}");
            }
        }
    }

    #[test]
    fn a_collective_beside_a_kernel_slows_it_or_is_waited_for() {
        let exposed = |collective, kernel| exposed_beside(Seconds(collective), Seconds(kernel), 0.25).0;
        // For one second the kernel does 0.8 seconds' work.
        assert!((exposed(1.0, 5.0) - 0.2).abs() < 1e-12);
        assert!((exposed(5.0, 1.0) - 4.0).abs() < 1e-12);
        assert!((exposed(1.0, 0.0) - 1.0).abs() < 1e-12);
    }
}
