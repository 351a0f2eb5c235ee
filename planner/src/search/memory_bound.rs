//! What a candidate holds at least: enough to drop those that cannot fit before anything else is asked of them.

use super::known::Known;
use super::layers_held::{HeldBefore, HeldKey, ParameterCounts};
use super::space::{Candidate, Space, Variant};
use crate::shortfall::Shortfall;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use trainyard_plan::{
    BatchSpec, Offload, ParallelSpec, Pipeline, Precision, Recompute, StageId, StageSpec, StateSharding,
};
use trainyard_sim::{Machine, held_by_layers, usable};
use trainyard_units::Bytes;

/// The most that a stage may need, as a multiple of what a device has, before another cut of the layers is tried to fit
/// it into memory. Beyond this, another cut is hopeless.
pub(crate) const NEAR: f64 = 1.1;

/// The memory of a device, by type of machine.
#[derive(Clone, Copy, Debug)]
struct DeviceMemory {
    /// Memory that the software takes in any case.
    software: Bytes,
    /// The part of each held byte that the allocator wastes.
    unused: f64,
    /// `true` if gradients are reduced in buckets during the backward pass.
    bucketed: bool,
    /// The most that a device has.
    available: Bytes,
}

/// Lower bounds of the memory of every candidate.
pub(crate) struct MemoryBound {
    /// By choice; `None` where ranks share the memory of a measured machine.
    devices: Vec<Option<DeviceMemory>>,
    /// For each choice the first one on which layers hold the same.
    alike: Vec<usize>,
    known: Arc<Known>,
    /// The possible offloads of each choice.
    offloads: Vec<Vec<Offload>>,
}

impl MemoryBound {
    pub(super) fn new(space: &Space<'_>, known: Arc<Known>) -> Self {
        Self {
            devices: space.choices().map(|choice| device(space.alone(choice))).collect(),
            alike: space.first_alike(|_, _| true),
            known,
            offloads: space.choices().map(|choice| space.offloads(choice)).collect(),
        }
    }

    /// Returns what the layers before each layer hold together on a candidate's ranks.
    fn held(&self, space: &Space<'_>, candidate: &Candidate, offload: Offload) -> HeldBefore {
        let key = key(self.alike[candidate.choice], candidate, offload);
        self.known.held.get_or(key, || held(space, candidate, key))
    }

    /// Returns for each of the candidates of one choice what [`Self::shortfall`] does. Of those that differ in nothing but
    /// their micro-batches, larger ones need more: where the largest may fit they all may, and where one does not fit no
    /// larger one does, whose shortfall is told as that of the smallest.
    pub(crate) fn shortfalls(&self, space: &Space<'_>, candidates: &[Candidate]) -> Vec<Option<Shortfall>> {
        let mut alike: BTreeMap<(ParallelSpec, Precision, Recompute), Vec<usize>> = BTreeMap::new();
        for (index, Candidate { parallel, precision, recompute, .. }) in candidates.iter().enumerate() {
            alike.entry((*parallel, *precision, *recompute)).or_default().push(index);
        }
        let mut shortfalls = vec![None; candidates.len()];
        for mut indices in alike.into_values() {
            let of = |index: &usize| self.shortfall(space, &candidates[*index]);
            indices.sort_by_key(|index| candidates[*index].batch.micro);
            if indices.last().and_then(of).is_none() {
                continue;
            }
            let first = indices.partition_point(|index| of(index).is_none());
            let shortfall = of(&indices[first]);
            indices[first..].iter().for_each(|index| shortfalls[*index] = shortfall);
        }
        shortfalls
    }

    /// Returns the least memory that some stage of every variant needs and the memory that there is, if it is certain
    /// that the candidate does not fit. For this bound, each stage has its part of the model, with everything sharded
    /// and offloaded that can be, and one micro-batch in flight. `None` where it may fit, or no such bound is known.
    fn shortfall(&self, space: &Space<'_>, candidate: &Candidate) -> Option<Shortfall> {
        let device = self.devices[candidate.choice]?;
        let parallel = candidate.parallel;
        let mut least = Bytes(u64::MAX);
        for offload in &self.offloads[candidate.choice] {
            let held = *self.held(space, candidate, *offload)?.last()?;
            // Experts are divided among fewer, which would need more.
            let state = held.state() / f64::from(parallel.data * parallel.context);
            let needed = device.needed((state + held.activations) / f64::from(parallel.pipeline));
            if needed <= device.available {
                return None;
            }
            least = least.min(needed);
        }
        Some(Shortfall { needed: least, available: device.available, store: None })
    }

    /// Returns the least memory that the first stage of a variant with these runs of layers needs and the memory that
    /// there is, if it is certain that it does not fit. The first stage holds as many micro-batches as any other, of
    /// its own layers.
    pub(crate) fn first_stage_shortfall(
        &self,
        space: &Space<'_>,
        candidate: &Candidate,
        variant: &Variant,
        runs: &[Range<usize>],
    ) -> Option<Shortfall> {
        // Of activations that leave the devices few are there at once.
        let device = self.devices[candidate.choice].filter(|_| variant.offload.activations.is_none())?;
        let before = self.held(space, candidate, variant.offload)?;
        let of_runs: Vec<ParameterCounts> = runs.iter().map(|run| before[run.end].less(before[run.start])).collect();
        let parallel = candidate.parallel;
        let copies = variant.sharding_ranks.unwrap_or(parallel.data * parallel.context);
        let copies = f64::from(copies);
        let by_layer = variant.state_sharding == StateSharding::Parameters || variant.offload.parameters.is_some();
        let beside = device.bucketed || by_layer;
        let at_once = variant.gradient_reduction.is_at_once(candidate.batch.accumulation, beside);
        let part = |state, whole_until_then: bool| {
            if variant.state_sharding >= state && !whole_until_then { 1.0 / copies } else { 1.0 }
        };
        let state = of_runs.iter().map(|held| {
            held.parameters * part(StateSharding::Parameters, false)
                + held.gradients * part(StateSharding::Gradients, !at_once)
                + held.optimizer_state * part(StateSharding::Optimizer, false)
        });
        let pipeline = Pipeline {
            schedule: variant.schedule,
            stages: parallel.pipeline,
            chunks: variant.virtual_stages,
            micro_batches: u32::try_from(candidate.batch.accumulation).ok()?,
        };
        let activations: Vec<u64> = of_runs.iter().map(|held| held.activations as u64).collect();
        let needed = device.needed(state.sum::<f64>() + pipeline.peak(StageId(0), &activations) as f64);
        let other_cuts = parallel.pipeline > 1 && variant.virtual_stages == 1;
        let hopeless = device.available.as_f64() * if other_cuts { NEAR } else { 1.0 };
        (needed.as_f64() > hopeless).then_some(Shortfall { needed, available: device.available, store: None })
    }
}

impl DeviceMemory {
    fn needed(self, held: f64) -> Bytes {
        Bytes((held * (1.0 + self.unused)) as u64) + self.software
    }
}

fn device(machine: &Machine) -> Option<DeviceMemory> {
    let memory = machine.cluster.pools.iter().map(|pool| Some(pool.device.gpu()?.memory.value));
    let stack = &machine.stack;
    let available = usable(memory.collect::<Option<Vec<Bytes>>>()?.into_iter().max()?, stack);
    let (software, unused) = (stack.resident.value, stack.fragmentation.value);
    Some(DeviceMemory { software, unused, bucketed: machine.lowering().bucket.is_some(), available })
}

fn key(choice: usize, candidate: &Candidate, offload: Offload) -> HeldKey {
    let parallel = ParallelSpec { data: candidate.parallel.fewest_replicas(), pipeline: 1, ..candidate.parallel };
    (choice, parallel, candidate.precision, candidate.recompute, candidate.batch.micro, offload)
}

/// Computes what the first layers hold, from none to all, on the ranks of one stage for one micro-batch.
fn held(space: &Space<'_>, candidate: &Candidate, key: HeldKey) -> HeldBefore {
    let (_, parallel, .., micro, offload) = key;
    let batch = BatchSpec { global: micro * u64::from(parallel.data), micro, accumulation: 1 };
    let alone = Candidate { parallel, batch, ..*candidate };
    let variant = Variant { offload, ..Variant::PLAIN };
    let machine = space.machine(candidate);
    let layers = vec![StageSpec { first: 0, layers: space.layers() }];
    let plan = space.plan(&alone, &variant, layers, &machine)?;
    let layers = held_by_layers(&plan, &machine).into_iter().map(ParameterCounts::of);
    let before = layers.scan(ParameterCounts::default(), |sum, layer| {
        *sum = sum.and(layer);
        Some(*sum)
    });
    Some(std::iter::once(ParameterCounts::default()).chain(before).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking;
    use trainyard_plan::Fixed;

    /// What one candidate after another is asked for is the oracle.
    #[test]
    fn what_does_not_fit_with_one_micro_batch_does_not_with_a_larger_one() {
        let mut dropped = 0;
        for model in ["gpt2-xl", "gpt3-13b", "mixtral-8x7b", "t5-11b", "dlrm", "resnet50"] {
            let mut job = asking::training(model, 96);
            job.data.samples = Some(100_000);
            job.cluster.instances = Some(["g4dn.12xlarge", "p3.16xlarge", "p4d.24xlarge"].map(Into::into).into());
            let problem = asking::solvable(&job);
            let space = Space::new(&problem, &Fixed::default());
            let memory = MemoryBound::new(&space, Known::of(&space, &problem.cache));
            for site in space.sites().into_iter().filter(|(_, instances)| *instances <= 4) {
                let candidates = space.candidates_on(site);
                let together = memory.shortfalls(&space, &candidates);
                dropped += together.iter().flatten().count();
                for (candidate, shortfall) in candidates.iter().zip(together) {
                    let alone = memory.shortfall(&space, candidate);
                    assert_eq!(shortfall.is_some(), alone.is_some(), "{model}: {candidate:?}");
                    assert!(shortfall <= alone, "{model}: {candidate:?}");
                }
            }
        }
        assert!(dropped > 1000, "{dropped} candidates do not fit");
    }
}
