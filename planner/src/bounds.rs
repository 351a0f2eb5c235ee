//! The coarse bound: what no plan of a candidate beats, from the prices of layers alone.

use crate::fix::Fixed;
use crate::problem::Problem;
use crate::space::Candidate;
use rayon::prelude::*;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{Cluster, Device};
use trainyard_plan::operators::OperatorGraph;
use trainyard_plan::{Mesh, ParallelSpec, Placement, Precision, Recompute};
use trainyard_sim::{Machine, Wiring, layer_prices};

/// What decides a layer's price, besides the model: the fewest ranks and machines on which it is the same or less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PriceKey {
    choice: usize,
    instances: u32,
    parallel: ParallelSpec,
    precision: Precision,
    micro: u64,
}

/// Seconds of each layer, forward and backward, for each kind of recomputation in order.
struct Weights {
    of_layers: Vec<Vec<f64>>,
    sums: Vec<f64>,
}

/// Prices of layers for all candidates of a search.
pub(crate) struct Bounds {
    /// One machine of each type.
    clusters: Vec<Cluster>,
    /// What each type of machine sends to others at most, in bytes a second.
    network: Vec<f64>,
    /// Values of the model that all have gradients.
    parameters: f64,
    /// The fewest elements of a sample that a layer hands to the next.
    boundary: f64,
    /// Whether a stage that sends waits until the bytes have left.
    blocking: bool,
    /// Whether each rank of a tensor group sends its own part only.
    scattered: bool,
    compressed: bool,
    placement: Placement,
    prices: BTreeMap<PriceKey, Option<Weights>>,
}

impl Bounds {
    pub(crate) fn new(problem: &Problem, fixed: &Fixed, candidates: &[Candidate]) -> Self {
        let machine = |choice, instances| problem.place.machine(choice, instances, fixed.encrypted);
        let clusters: Vec<Cluster> =
            (0..problem.place.choices().len()).map(|choice| machine(choice, 1).cluster).collect();
        let mut bounds = Self {
            network: clusters.iter().map(network).collect(),
            parameters: problem.model.graph().updated_parameters() as f64,
            boundary: handed_on(&problem.model.graph()),
            blocking: (0..clusters.len()).all(|choice| machine(choice, 1).lowering().blocking_transfers),
            scattered: (0..clusters.len()).any(|choice| machine(choice, 1).stack.scattered_transfers.value),
            compressed: fixed.gradient_compression.is_some(),
            clusters,
            placement: fixed.placement.unwrap_or_default(),
            prices: BTreeMap::new(),
        };
        let mut keys: Vec<PriceKey> = Vec::new();
        for candidate in candidates {
            let key = bounds.key(candidate);
            if bounds.prices.insert(key, None).is_none() {
                keys.push(key);
            }
        }
        let graph = problem.model.graph();
        let price = |key: &PriceKey| {
            let machine: Machine = machine(key.choice, key.instances);
            let mesh = Mesh::new(key.parallel, bounds.placement, None);
            let prices = layer_prices(&graph, key.micro, mesh, key.precision, &machine).ok()?;
            let of_layers: Vec<Vec<f64>> = Recompute::ALL.iter().map(|kind| prices.weights(*kind)).collect();
            Some(Weights { sums: of_layers.iter().map(|weights| weights.iter().sum()).collect(), of_layers })
        };
        let priced: Vec<Option<Weights>> = keys.par_iter().map(price).collect();
        bounds.prices = keys.into_iter().zip(priced).collect();
        bounds
    }

    /// On GPUs the first group of ranks that share a layer stands on the first devices, whatever else there is; it
    /// waits for others only longer where there are more of them. With another placement it may stand anywhere. Ranks
    /// of a measured machine share its memory.
    fn key(&self, candidate: &Candidate) -> PriceKey {
        let (choice, precision, micro) = (candidate.choice, candidate.precision, candidate.batch.micro);
        let (cluster, parallel) = (&self.clusters[choice], candidate.parallel);
        let (instances, parallel) = match cluster.first().device {
            Device::Measured(_) => {
                (1, ParallelSpec { pipeline: parallel.data * parallel.pipeline, ..ParallelSpec::default() })
            }
            Device::Gpu(_) if self.placement != Placement::Cluster => (candidate.instances, parallel),
            Device::Gpu(_) => {
                let ranks = parallel.tensor * parallel.context * parallel.expert;
                let alone = ParallelSpec { data: parallel.expert, pipeline: 1, ..parallel };
                (ranks.div_ceil(cluster.first().devices_per_instance).min(candidate.instances), alone)
            }
        };
        PriceKey { choice, instances, parallel, precision, micro }
    }

    /// Seconds of each layer for one micro-batch; nothing where the machine was not measured for it.
    pub(crate) fn weights(&self, candidate: &Candidate) -> Option<&[f64]> {
        Some(&self.prices[&self.key(candidate)].as_ref()?.of_layers[place(candidate.recompute)])
    }

    /// Seconds that no step of a candidate beats: each stage computes its share of all layers for all micro-batches, and
    /// gradients travel after those of all but the last.
    pub(crate) fn step_time(&self, candidate: &Candidate) -> Option<f64> {
        let sum = self.prices[&self.key(candidate)].as_ref()?.sums[place(candidate.recompute)];
        let micro_batch = sum / f64::from(candidate.parallel.pipeline) + self.sent(candidate);
        let accumulation = candidate.batch.accumulation as f64;
        Some((micro_batch * accumulation).max(micro_batch * (accumulation - 1.0) + self.reduction(candidate)))
    }

    /// What every stage at least sends for a micro-batch, to the stage after or before it, where the software waits for it
    /// and every stage has machines of its own.
    fn sent(&self, candidate: &Candidate) -> f64 {
        let (parallel, cluster) = (candidate.parallel, &self.clusters[candidate.choice]);
        let devices = cluster.first().devices_per_instance;
        let own = (parallel.data * parallel.tensor * parallel.context).is_multiple_of(devices);
        if !self.blocking || parallel.pipeline == 1 || !own || self.placement != Placement::Cluster {
            return 0.0;
        }
        let parts = parallel.context * if parallel.sequence || self.scattered { parallel.tensor } else { 1 };
        let elements = self.boundary * candidate.batch.micro as f64 / f64::from(parts);
        elements * candidate.precision.element_bytes() as f64 * f64::from(devices) / self.network[candidate.choice]
    }

    /// What each machine of a stage at least sends to the others: its part of a sum of the stage's gradients, once
    /// (half of what an all-reduce moves). Nothing where a stage stands on one machine, or where it is not so plain:
    /// compressed gradients, other placements, experts.
    fn reduction(&self, candidate: &Candidate) -> f64 {
        let (parallel, cluster) = (candidate.parallel, &self.clusters[candidate.choice]);
        let devices = cluster.first().devices_per_instance;
        let ranks = parallel.data * parallel.tensor * parallel.context;
        let plain = !self.compressed && self.placement == Placement::Cluster && parallel.expert == 1;
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

/// The fewest elements of a sample that a layer hands to the next; the last hands nothing on.
fn handed_on(graph: &OperatorGraph) -> f64 {
    let layers = graph.layers().take(graph.len() - 1);
    layers.map(|layer| layer.output_elements).min().unwrap_or(0) as f64
}

/// Out of one machine, all of its cards together; infinite for a measured machine, which has no others.
fn network(cluster: &Cluster) -> f64 {
    match cluster.first().device {
        Device::Measured(_) => f64::INFINITY,
        Device::Gpu(_) => {
            let wiring = Wiring::new(cluster);
            wiring.capacity(wiring.network_out(0))
        }
    }
}

fn place(recompute: Recompute) -> usize {
    Recompute::ALL.iter().position(|kind| *kind == recompute).expect("all kinds are there")
}
