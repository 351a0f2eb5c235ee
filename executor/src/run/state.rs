//! The state of a training, put together from what ranks hold of it.

use super::Job;
use crate::checkpoint::State;
use crate::network::operators::{from_vec, to_vec};
use crate::network::{Network, ParameterKey, Role};
use crate::optimizer::{Memory, means_of};
use crate::safetensors::{HostTensor, HostTensors};
use crate::trainer::Trainer;
use crate::unit::Slot;
use std::collections::BTreeMap;

/// One rank's piece of a parameter.
pub(super) struct Piece {
    key: ParameterKey,
    tensor_ranks: usize,
    tensor_rank: usize,
    /// Where it stands among the pieces of what this rank's tensor group leaves it.
    shard: usize,
    values: Vec<f32>,
    /// Updates of the optimizer, and its running means.
    updates: usize,
    means: Vec<Vec<f32>>,
}

/// What a rank has that no rank before it has.
pub(super) fn pieces(trainer: &Trainer) -> Vec<Piece> {
    let groups = trainer.groups();
    if groups.gradients.replicas.rank() > 0 {
        return Vec::new();
    }
    let tensor = &groups.tensor;
    let own = trainer.units().values().flat_map(|unit| unit.slots.iter().map(move |slot| (unit, slot)));
    // Of running means every rank of a replica has all, and those of the first replica are kept.
    let is_kept = |slot: &Slot| slot.is_own() || (slot.role == Role::Statistic && groups.weights.rank() == 0);
    own.filter(|(_, slot)| is_kept(slot) && (tensor.rank() == 0 || !slot.replicated))
        .map(|(unit, slot)| {
            let memory = trainer.optimizer().memory().get(&slot.key);
            Piece {
                key: slot.key,
                tensor_ranks: tensor.size(),
                tensor_rank: tensor.rank(),
                shard: groups.weights.rank(),
                values: to_vec(unit.master_of(slot)),
                updates: memory.map_or(0, |memory| memory.time),
                means: memory.map_or(Vec::new(), |memory| memory.means.iter().cloned().map(to_vec).collect()),
            }
        })
        .collect()
}

/// Whole tensors by name, as files hold them, of the values that `of` gives.
fn whole(network: &Network, pieces: &[Piece], of: &dyn Fn(&Piece) -> Option<Vec<f32>>) -> HostTensors {
    let mut of_rank: BTreeMap<(ParameterKey, usize), (usize, Vec<f32>)> = BTreeMap::new();
    let mut ordered: Vec<&Piece> = pieces.iter().collect();
    ordered.sort_by_key(|piece| (piece.key, piece.tensor_rank, piece.shard));
    for piece in ordered.into_iter().filter(|piece| network.parameter(piece.key).tied_to.is_none()) {
        let Some(values) = of(piece) else { continue };
        let (_, own) = of_rank.entry((piece.key, piece.tensor_rank)).or_insert((piece.tensor_ranks, Vec::new()));
        own.extend(values);
    }
    let mut tensors: BTreeMap<ParameterKey, Vec<f32>> = BTreeMap::new();
    for ((key, rank), (ranks, own)) in of_rank {
        let parameter = network.parameter(key);
        let whole = tensors.entry(key).or_insert_with(|| vec![0.0; parameter.elements()]);
        parameter.place(&own, ranks, rank, whole);
    }
    let stored = |(key, values): (ParameterKey, Vec<f32>)| {
        let parameter = network.parameter(key);
        let tensor = HostTensor { shape: parameter.stored_shape(), values: parameter.to_stored(values) };
        (parameter.name.clone(), tensor)
    };
    tensors.into_iter().map(stored).collect()
}

/// The state of the whole training.
pub(super) fn state(job: &Job<'_>, pieces: &[Piece], done: u64, data: (u64, String)) -> State {
    let mean = |index: usize| whole(job.network, pieces, &|piece| piece.means.get(index).cloned());
    let (step, position) = job.resumed.map_or((0, 0), |state| (state.step, state.position));
    State {
        step: step + done,
        position: position + done * job.plan.batch().global,
        seed: job.options.seed,
        updates: pieces.iter().map(|piece| piece.updates as u64).max().unwrap_or(0),
        data_bytes: data.0,
        data_checksum: data.1,
        plan: job.options.plan_document.clone(),
        model: whole(job.network, pieces, &|piece| Some(piece.values.clone())),
        first_moments: mean(0),
        second_moments: mean(1),
    }
}

/// Whole values of a parameter from a resumed state.
pub(super) fn values(network: &Network, state: &State, key: ParameterKey) -> Vec<f32> {
    let parameter = network.parameter(key);
    parameter.from_stored(&state.model[&parameter.name].values)
}

/// Gives a rank's optimizer back what it remembers.
pub(super) fn restore(job: &Job<'_>, trainer: &mut Trainer, state: &State) {
    let means = means_of(job.plan.optimizer()).len();
    if state.updates == 0 || means == 0 {
        return;
    }
    let (ranks, rank) = (trainer.groups().tensor.size(), trainer.groups().tensor.rank());
    let mut memories = Vec::new();
    for slot in trainer.units().values().flat_map(|unit| &unit.slots).filter(|slot| slot.is_own()) {
        let parameter = job.network.parameter(slot.key);
        let source = parameter.tied_to.map_or(parameter, |source| job.network.parameter(source));
        let piece = trainer.shards().piece(slot.length, trainer.shards().own);
        let own = |tensors: &HostTensors| {
            let stored = tensors.get(&source.name)?;
            let local = parameter.local(&source.from_stored(&stored.values), ranks, rank);
            Some(from_vec(local[piece.clone()].to_vec(), [piece.len()], trainer.device()))
        };
        let all = [&state.first_moments, &state.second_moments];
        let means: Option<Vec<_>> = all[..means].iter().map(|tensors| own(tensors)).collect();
        memories.extend(means.map(|means| (slot.key, Memory { time: state.updates as usize, means })));
    }
    for (key, memory) in memories {
        trainer.optimizer_mut().restore(key, memory);
    }
}
