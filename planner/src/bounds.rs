//! The coarse bound: what no plan of a candidate beats, from the prices of layers alone.

use crate::fix::Fixed;
use crate::problem::Problem;
use crate::space::Candidate;
use rayon::prelude::*;
use std::collections::HashMap;
use trainyard_hardware_profiles::{Cluster, Device};
use trainyard_plan::{Mesh, ParallelSpec, Placement, Precision, Recompute};
use trainyard_sim::{Machine, layer_prices};

/// What decides a layer's price, besides the model: the fewest ranks and machines on which it is the same or less.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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
    placement: Placement,
    prices: HashMap<PriceKey, Option<Weights>>,
}

impl Bounds {
    pub(crate) fn new(problem: &Problem, fixed: &Fixed, candidates: &[Candidate]) -> Self {
        let machine = |choice, instances| problem.place.machine(choice, instances, fixed.encrypted);
        let clusters = (0..problem.place.choices().len()).map(|choice| machine(choice, 1).cluster).collect();
        let mut bounds = Self { clusters, placement: fixed.placement.unwrap_or_default(), prices: HashMap::new() };
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

    /// Seconds that no step of a candidate beats.
    pub(crate) fn step_time(&self, candidate: &Candidate) -> Option<f64> {
        let sum = self.prices[&self.key(candidate)].as_ref()?.sums[place(candidate.recompute)];
        Some(sum / f64::from(candidate.parallel.pipeline) * candidate.batch.accumulation as f64)
    }
}

fn place(recompute: Recompute) -> usize {
    Recompute::ALL.iter().position(|kind| *kind == recompute).expect("all kinds are there")
}
