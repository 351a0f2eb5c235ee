//! What a candidate holds at least: enough to drop most of those that cannot fit before anything else is asked of them.

use crate::problem::Place;
use crate::space::{Candidate, Space, Variant};
use rayon::prelude::*;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::Device;
use trainyard_plan::{
    BatchSpec, GradientReduction, ParallelSpec, Plan, Precision, Recompute, ScheduleName, StageSpec, StateSharding,
};
use trainyard_sim::footprint;
use trainyard_units::Bytes;

/// What decides how much all stages hold together, except how many ranks share it.
type Key = (ParallelSpec, Precision, Recompute, u64);

/// What the stages of a model hold together, in bytes.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Weights, gradients and the optimizer's state, all shared out among as many replicas as experts take.
    state: f64,
    /// Activations of one micro-batch.
    activations: f64,
}

/// The least memory of every candidate.
pub(crate) struct Room {
    /// Per type of machine, what the software takes and the most that a device has; nothing where ranks share the
    /// memory of a measured machine.
    devices: Vec<Option<(Bytes, Bytes)>>,
    held: BTreeMap<Key, Option<Held>>,
}

impl Room {
    pub(crate) fn new(space: &Space<'_>, place: &Place, candidates: &[Candidate]) -> Self {
        let devices = (0..place.choices().len()).map(|choice| device(place, choice)).collect();
        let mut first: BTreeMap<Key, &Candidate> = BTreeMap::new();
        for candidate in candidates {
            first.entry(key(candidate)).or_insert(candidate);
        }
        let held = first.into_par_iter().map(|(key, candidate)| (key, held(space, candidate))).collect();
        Self { devices, held }
    }

    /// What some stage of every variant of a candidate needs at least, and what its devices have: each stage's share of
    /// the model with everything shared out that can be, one micro-batch under way, and no buffers. Nothing where no
    /// such bound is known.
    fn least(&self, candidate: &Candidate) -> Option<(Bytes, Bytes)> {
        let (software, available) = self.devices[candidate.choice]?;
        let held = self.held[&key(candidate)]?;
        let parallel = candidate.parallel;
        let state = held.state * f64::from(parallel.expert) / f64::from(parallel.data);
        let needed = (state + held.activations) / f64::from(parallel.pipeline);
        Some((Bytes(needed as u64) + software, available))
    }

    /// What a candidate lacks for sure: the least that it needs, and what there is. Nothing where it may fit.
    pub(crate) fn lacks(&self, candidate: &Candidate) -> Option<(Bytes, Bytes)> {
        self.least(candidate).filter(|(needed, available)| needed > available)
    }
}

fn device(place: &Place, choice: usize) -> Option<(Bytes, Bytes)> {
    let machine = place.machine(choice, 1, None);
    let memory = machine.cluster.pools.iter().map(|pool| match &pool.device {
        Device::Gpu(gpu) => Some(gpu.memory.value),
        Device::Measured(_) => None,
    });
    let most = memory.collect::<Option<Vec<Bytes>>>()?.into_iter().max()?;
    Some((machine.stack.resident.value, most))
}

fn key(candidate: &Candidate) -> Key {
    let parallel = ParallelSpec { data: candidate.parallel.expert, pipeline: 1, ..candidate.parallel };
    (parallel, candidate.precision, candidate.recompute, candidate.batch.micro)
}

/// The whole model on the ranks of one stage, for one micro-batch.
fn held(space: &Space<'_>, candidate: &Candidate) -> Option<Held> {
    let (parallel, .., micro) = key(candidate);
    let batch = BatchSpec { global: micro * u64::from(parallel.data), micro, accumulation: 1 };
    let alone = Candidate { parallel, batch, ..*candidate };
    let variant = Variant {
        schedule: ScheduleName::None,
        virtual_stages: 1,
        state_sharding: StateSharding::Parameters,
        gradient_reduction: GradientReduction::MicroBatch,
    };
    let machine = space.machine(candidate);
    let layers = vec![StageSpec { first: 0, layers: space.layers() }];
    let plan = Plan::try_from(space.spec(&alone, &variant, layers, &machine)).ok()?;
    let parts = footprint(&plan, &machine).resident[0];
    let state = parts.parameters + parts.gradients + parts.optimizer_state;
    Some(Held { state: state.as_f64(), activations: parts.activations.as_f64() })
}
