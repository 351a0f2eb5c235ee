//! The coarse bound: what no plan of a candidate beats, from the prices of layers alone.

use super::known::Known;
use super::layer_prices::{CommunicationKey, PriceKey, Priced, Weights};
use super::space::{Candidate, Space, repeated};
use crate::problem::Problem;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use trainyard_hardware_profiles::Cluster;
use trainyard_plan::operators::OperatorGraph;
use trainyard_plan::{
    Fixed, GradientCompression, Mesh, ParallelSpec, Placement, Plan, Recompute, StagePass, StageSpec, Stages,
};
use trainyard_sim::{
    Communications, Computed, LayerKernels, LayerTable, Machine, Wiring, expected_max_sigma, micro_batches,
};
use trainyard_units::Seconds;

/// Prices of layers for all candidates of a search.
pub(crate) struct Bounds {
    /// One machine of each type.
    clusters: Vec<Cluster>,
    /// The most that each type of machine sends to others, in bytes a second.
    network: Vec<f64>,
    /// Parameters of the model that all have gradients.
    parameters: f64,
    /// The fewest elements of a sample that a layer passes to the next.
    boundary: f64,
    /// `true` for each choice whose stages wait until the bytes that they send have left.
    blocking: Vec<bool>,
    /// `true` for each choice whose tensor-parallel ranks each send only their own part.
    scattered: Vec<bool>,
    /// `true` for each choice whose software cuts models into stages of as many repeated layers each.
    even: Vec<bool>,
    /// Of each layer whether it is one of those.
    repeated: Vec<bool>,
    /// In which form gradients travel, if that is held.
    form: Option<GradientCompression>,
    /// `true` if only some rows of some parameters get gradients.
    has_tables: bool,
    placement: Placement,
    prices: BTreeMap<PriceKey, Option<Arc<Priced>>>,
    known: Arc<Known>,
}

impl Bounds {
    pub(super) fn new(
        (problem, fixed): (&Problem, &Fixed),
        space: &Space<'_>,
        candidates: &[Candidate],
        known: Arc<Known>,
    ) -> Self {
        let machines: Vec<&Machine> = (0..problem.place.choices().len()).map(|choice| space.alone(choice)).collect();
        let blocking = machines.iter().map(|machine| machine.lowering().blocking_transfers).collect();
        let scattered = machines.iter().map(|machine| machine.stack.scattered_transfers.value).collect();
        let clusters: Vec<Cluster> = machines.into_iter().map(|machine| machine.cluster.clone()).collect();
        let graph = problem.graph();
        let mut bounds = Self {
            network: clusters.iter().map(network).collect(),
            parameters: graph.updated_parameters() as f64,
            boundary: handed_on(&graph),
            blocking,
            scattered,
            has_tables: graph.updated_parameters() != graph.parameters(),
            even: space.choices().map(|choice| space.cuts_evenly(choice)).collect(),
            repeated: repeated(&graph),
            form: fixed.gradient_compression,
            clusters,
            placement: fixed.placement.unwrap_or_default(),
            prices: BTreeMap::new(),
            known,
        };
        let note = |mut keys: BTreeSet<PriceKey>, candidate: &Candidate| {
            keys.insert(bounds.key(candidate));
            keys
        };
        let merge = |mut keys: BTreeSet<PriceKey>, mut others: BTreeSet<PriceKey>| {
            keys.append(&mut others);
            keys
        };
        let keys = candidates.par_iter().fold(BTreeSet::new, note).reduce(BTreeSet::new, merge);
        bounds.prices = bounds.priced(space, &keys);
        bounds
    }

    /// Returns the prices of the layers of each key.
    fn priced(&self, space: &Space<'_>, keys: &BTreeSet<PriceKey>) -> BTreeMap<PriceKey, Option<Arc<Priced>>> {
        let alike = space.first_alike(computes_as_fast);
        let of_ranks = |key: &PriceKey| self.ranks_alone(&alike, key);
        let unknown = keys.iter().filter(|key| self.known.prices.get(key).is_none());
        let kinds: BTreeMap<PriceKey, &PriceKey> = unknown.map(|key| (of_ranks(key), key)).collect();
        let kernels = |(kind, key): (PriceKey, &PriceKey)| {
            let machine = space.machine_of(key.choice, key.instances);
            (kind, self.layers_on(space, key, &machine).kernels().ok())
        };
        let kernels: BTreeMap<PriceKey, Option<LayerKernels>> = kinds.into_par_iter().map(kernels).collect();
        let kernels = |key: &PriceKey| kernels.get(&of_ranks(key)).and_then(Option::as_ref);
        let price = |key: &PriceKey| Some(Arc::new(self.price(space, key, kernels(key)?)?));
        keys.par_iter().map(|key| (*key, self.known.prices.get_or(*key, || price(key)))).collect()
    }

    /// Prices layers with these kernels; `None` if the machine was not measured for them.
    fn price(&self, space: &Space<'_>, key: &PriceKey, kernels: &LayerKernels) -> Option<Priced> {
        let machine = space.machine_of(key.choice, key.instances);
        let layers = self.layers_on(space, key, &machine);
        let ranks = layers.mesh.ranks();
        let devices = if is_measured(&machine.cluster) { ranks } else { 2 * ranks };
        let [near, far] = layers.costs_among([ranks, devices], kernels).ok()?;
        let apart = expected_max_sigma(devices) - expected_max_sigma(ranks);
        let weights = |kind: &Recompute| Weights::new(near.weights(*kind), &far.weights(*kind), apart);
        let of_layer = |index| near.layer(index).pass(StagePass::Forward, Recompute::None).0;
        let forward = (0..layers.graph.len()).map(of_layer).sum();
        Some(Priced { weights: Recompute::ALL.iter().map(weights).collect(), forward })
    }

    fn layers_on<'m>(&self, space: &'m Space<'_>, key: &PriceKey, machine: &'m Machine) -> Computed<'m> {
        Computed {
            graph: space.graph_of(key.choice),
            micro: key.micro,
            mesh: Mesh::new(key.parallel, self.placement, None),
            precision: key.precision,
            machine,
        }
    }

    /// Returns the key of a candidate's prices. On GPUs the first group of ranks that share a layer is on the first
    /// devices, whatever other ranks there are; it only waits longer for the others where there are more of them. With
    /// another placement it may be anywhere. Ranks of a measured machine share its memory.
    fn key(&self, candidate: &Candidate) -> PriceKey {
        let (choice, precision, micro) = (candidate.choice, candidate.precision, candidate.batch.micro);
        let (cluster, parallel) = (&self.clusters[choice], candidate.parallel);
        let (instances, parallel) = if is_measured(cluster) {
            let fewest = parallel.fewest_replicas();
            let stages = parallel.data / fewest * parallel.pipeline;
            (1, ParallelSpec { data: fewest, pipeline: stages, ..parallel })
        } else if self.placement != Placement::Cluster {
            (candidate.instances, parallel)
        } else {
            let alone = ParallelSpec { data: parallel.fewest_replicas(), pipeline: 1, ..parallel };
            let ranks = alone.ranks() as u32;
            (ranks.div_ceil(cluster.first().devices_per_instance).min(candidate.instances), alone)
        };
        PriceKey { choice, instances, parallel, precision, micro }
    }

    /// Returns the key of the kernels of one rank by itself: on GPUs they are the same on all machines with such
    /// devices, on a measured machine ranks slow each other down.
    fn ranks_alone(&self, alike: &[usize], key: &PriceKey) -> PriceKey {
        if is_measured(&self.clusters[key.choice]) {
            return *key;
        }
        let parallel = ParallelSpec { data: key.parallel.fewest_replicas(), pipeline: 1, ..key.parallel };
        PriceKey { choice: alike[key.choice], instances: 1, parallel, ..*key }
    }

    /// Returns the seconds of each layer for one micro-batch; `None` if the machine was not measured for it.
    pub(crate) fn weights(&self, candidate: &Candidate) -> Option<&[f64]> {
        Some(&self.of(candidate)?.of_layers)
    }

    fn of(&self, candidate: &Candidate) -> Option<&Weights> {
        Some(&self.prices[&self.key(candidate)].as_ref()?.weights[place(candidate.recompute)])
    }

    /// Returns a lower bound of a forward pass over so many samples: the stages together compute all layers forward for
    /// every micro-batch, and the slowest of them takes no less than the mean.
    pub(crate) fn forward_pass(&self, candidate: &Candidate, samples: u64) -> Seconds {
        let Some(priced) = &self.prices[&self.key(candidate)] else { return Seconds::ZERO };
        let micro_batches = micro_batches(samples, candidate.batch.micro, candidate.parallel.data);
        Seconds(priced.forward / f64::from(candidate.parallel.pipeline) * micro_batches as f64)
    }

    /// Cuts the layers of a candidate's model into this many runs: of as many repeated layers each where the software
    /// does so and they divide, else of about the same time. `None` if the machine was not measured for them, or if
    /// there are fewer layers.
    pub(crate) fn cut(&self, candidate: &Candidate, runs: u32) -> Option<Arc<[StageSpec]>> {
        self.known.cuts.get_or((self.key(candidate), candidate.recompute, runs), || {
            let even = self.even[candidate.choice].then(|| Stages::even(&self.repeated, runs)).flatten();
            let cut = even.map_or_else(|| Stages::balanced(self.weights(candidate)?, runs), Some)?;
            Some(cut.specs().into())
        })
    }

    /// Returns prices of the layers of a candidate's plans; `None` if the machine was not measured for them. They are
    /// the same for all plans whose tensor groups are inside a machine and that have as many devices.
    pub(crate) fn layers(&self, candidate: &Candidate, plan: &Plan, machine: &Machine) -> Option<LayerTable> {
        let Candidate { choice, instances, parallel, precision, batch, .. } = *candidate;
        let inside = parallel.context == 1 && parallel.expert == 1 && self.placement == Placement::Cluster;
        let alike = ParallelSpec { data: parallel.data * parallel.pipeline, pipeline: 1, ..parallel };
        let shared = inside && !machine.cluster.is_mixed() && !is_measured(&machine.cluster);
        let parallel = if shared { alike } else { parallel };
        let key = PriceKey { choice, instances, parallel, precision, micro: batch.micro };
        self.known.tables.get_or(key, || LayerTable::new(plan, machine).ok())
    }

    /// Returns the key of the communication of one of a candidate's plans. Their micro-batch counts only where it decides
    /// how many rows of tables get gradients.
    pub(crate) fn communication_key(&self, candidate: &Candidate, plan: &Plan) -> CommunicationKey {
        let Candidate { choice, instances, parallel, precision, batch, .. } = *candidate;
        let micro = if self.has_tables { batch.micro } else { 0 };
        let key = PriceKey { choice, instances, parallel, precision, micro };
        (key, plan.sharding_ranks(), plan.gathers_weights(), plan.gradient_compression())
    }

    /// Returns what is known of the communication of plans with a key.
    pub(crate) fn communications(&self, key: CommunicationKey) -> Arc<Mutex<Communications>> {
        self.known.communications.get_or(key, Arc::default)
    }

    /// Returns a lower bound of a candidate's step in seconds: the fullest stage computes its layers for all
    /// micro-batches, and gradients are reduced after those of all but the last.
    pub(crate) fn step_time(&self, candidate: &Candidate) -> Option<f64> {
        let weights = self.of(candidate)?;
        let parallel = candidate.parallel;
        let fewest = self.key(candidate).parallel;
        let fewest = 2 * fewest.data * fewest.tensor * fewest.pipeline * fewest.context;
        let ranks = parallel.data * parallel.tensor * parallel.pipeline * parallel.context;
        let further = expected_max_sigma(ranks) - expected_max_sigma(fewest);
        let (stages, sent) = (f64::from(parallel.pipeline), self.sent(candidate));
        // Every stage sends one way at least. Together they send both ways, and some stage has no less than the mean.
        let mean = (weights.sum(further) + 2.0 * (stages - 1.0) * sent) / stages;
        let micro_batch = mean.max(weights.fullest(parallel.pipeline as usize, further) + sent);
        let accumulation = candidate.batch.accumulation as f64;
        // The mean stage has its part of the gradients too; the fullest one need not.
        Some((micro_batch * accumulation).max(mean * (accumulation - 1.0) + self.reduction(candidate)))
    }

    /// Returns a lower bound of the seconds in which every stage sends a micro-batch to the stage after or before it,
    /// where the software waits for it and every stage has machines of its own.
    fn sent(&self, candidate: &Candidate) -> f64 {
        let (parallel, cluster) = (candidate.parallel, &self.clusters[candidate.choice]);
        let devices = cluster.first().devices_per_instance;
        let own = (parallel.data * parallel.tensor * parallel.context).is_multiple_of(devices);
        if !self.blocking[candidate.choice] || parallel.pipeline == 1 || !own || self.placement != Placement::Cluster {
            return 0.0;
        }
        let parts =
            parallel.context * if parallel.sequence || self.scattered[candidate.choice] { parallel.tensor } else { 1 };
        let elements = self.boundary * candidate.batch.micro as f64 / f64::from(parts);
        elements * candidate.precision.element_bytes() as f64 * f64::from(devices) / self.network[candidate.choice]
    }

    /// Returns a lower bound of the seconds in which each machine of a stage sends its part of one sum of the stage's
    /// gradients to the others (half of what an all-reduce moves). Zero where a stage is on one machine, or where this
    /// bound may not hold: with gradients that are held in other forms, other placements or experts.
    fn reduction(&self, candidate: &Candidate) -> f64 {
        let (parallel, cluster) = (candidate.parallel, &self.clusters[candidate.choice]);
        let devices = cluster.first().devices_per_instance;
        let ranks = parallel.data * parallel.tensor * parallel.context;
        // No form that is sought has less than the two bytes of mixed precision.
        let two_bytes = self.form.is_none_or(|form| form.suits(candidate.precision));
        let plain = two_bytes && self.placement == Placement::Cluster && parallel.expert == 1;
        // Every machine of a stage has all of its weights and nothing else.
        let whole = ranks.is_multiple_of(devices) && devices.is_multiple_of(parallel.tensor) && !cluster.is_mixed();
        if !plain || !whole || ranks == devices {
            return 0.0;
        }
        let machines = f64::from(ranks / devices);
        let held = self.parameters / f64::from(parallel.pipeline) * candidate.precision.element_bytes() as f64;
        held * (machines - 1.0) / machines / self.network[candidate.choice]
    }
}

fn is_measured(cluster: &Cluster) -> bool {
    cluster.first().device.measured().is_some()
}

/// Returns `true` if kernels take the same on two machines with the same software.
fn computes_as_fast(one: &Machine, other: &Machine) -> bool {
    one.launch() == other.launch() && one.cluster.first().device == other.cluster.first().device
}

/// Returns the fewest elements of a sample that a layer passes to the next; the last passes nothing on.
fn handed_on(graph: &OperatorGraph) -> f64 {
    let layers = graph.layers().take(graph.len() - 1);
    layers.map(|layer| layer.output_elements).min().unwrap_or(0) as f64
}

/// Returns the rate out of one machine, all of its network cards together; infinite for a measured machine, which has
/// no others.
fn network(cluster: &Cluster) -> f64 {
    if is_measured(cluster) {
        return f64::INFINITY;
    }
    let wiring = Wiring::new(cluster);
    wiring.capacity(wiring.network_out(0))
}

fn place(recompute: Recompute) -> usize {
    Recompute::ALL.iter().position(|kind| *kind == recompute).expect("all kinds are there")
}
