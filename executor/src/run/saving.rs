//! Checkpoints of a training whose state lies on many ranks: pieces go to the first rank one by one and from there to
//! the disk, so that nobody holds the state twice; a resumed rank cuts its own pieces out of whole tensors.

use super::{Job, WorkerError, adapter, companions};
use crate::device::framework;
use crate::network::operators::{from_vec, to_vec};
use crate::network::{Network, Parameter, ParameterKey, Role};
use crate::optimizer::{OptimizerState, means_of};
use crate::process_group::{GroupError, Tag};
use crate::report::CheckpointReport;
use crate::trainer::Trainer;
use crate::unit::{Slot, Unit};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use trainyard_checkpoint::{
    Checkpoint, CheckpointError, Counter, MODEL, Manifest, Progress, TensorFile, TensorSpec, Writer, numbered,
};
use trainyard_models::{Model, ModelSpec};
use trainyard_plan::Plan;

/// The message in which the first rank asks for a piece, and those that bring it.
const ASK: Tag = Tag(u32::MAX / 2 + 1);
const PIECE: Tag = Tag(u32::MAX / 2 + 2);
/// Pieces that are asked for before an earlier one is written: the next travels meanwhile.
const AHEAD: usize = 2;

/// A checkpoint that a run wrote.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Saved {
    pub(super) path: PathBuf,
    /// The report of its writing; known on the first rank only.
    pub(super) report: Option<CheckpointReport>,
}

/// A piece of a parameter: the tensor-parallel part of one rank, and of that the shard of one rank where state is
/// sharded. Ordered as pieces are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    key: ParameterKey,
    tensor: u32,
    shard: u32,
}

/// The pieces that a rank brings to a checkpoint, which no other rank brings.
type Own<'a> = BTreeMap<Piece, (&'a Unit, &'a Slot)>;

fn own_pieces<'a>(network: &Network, trainer: &'a Trainer) -> Own<'a> {
    let (groups, tensor) = (trainer.groups(), trainer.groups().tensor.rank());
    let shard = groups.weights.rank();
    let brings = |slot: &Slot| {
        let stored = !slot.held_elsewhere && !slot.absent && network.parameter(slot.key).tied_to.is_none();
        let is_shared_out = match slot.role {
            Role::Trained => true,
            // Running means of the data are whole on every rank.
            Role::Statistic => false,
            Role::Frozen => trainer.shards().gathers_weights(),
        };
        let is_saved = network.parameter(slot.key).is_adapter || !network.has_adapters();
        let once = is_saved && (is_shared_out || shard == 0);
        groups.is_first_with(slot.of_expert) && stored && once && (tensor == 0 || !slot.replicated)
    };
    let all = trainer.units().values().flat_map(|unit| unit.slots.iter().map(move |slot| (unit, slot)));
    all.filter(|(_, slot)| brings(slot))
        .map(|(unit, slot)| (Piece { key: slot.key, tensor: tensor as u32, shard: shard as u32 }, (unit, slot)))
        .collect()
}

/// Returns the values of a piece, and after them its optimizer state.
fn contents(trainer: &Trainer, (unit, slot): (&Unit, &Slot), means: usize) -> Vec<Vec<f32>> {
    if slot.role == Role::Statistic {
        return vec![to_vec(slot.working())];
    }
    let values = to_vec(unit.master_of(slot));
    if slot.role == Role::Frozen {
        return vec![values];
    }
    let memory = trainer.optimizer().memory().get(&slot.key);
    // A parameter without gradients so far has nothing to be remembered of.
    let mean =
        |index: usize| memory.map_or_else(|| vec![0.0; values.len()], |memory| to_vec(memory.means[index].clone()));
    let means: Vec<_> = (0..means).map(mean).collect();
    std::iter::once(values).chain(means).collect()
}

/// Returns the names of the optimizer's state after so many updates.
fn remembered(plan: &Plan, updates: u64) -> &'static [&'static str] {
    if updates == 0 { &[] } else { means_of(plan.optimizer()) }
}

/// Writes a checkpoint, if there is a place for it. All ranks call it after the same step, and return once it is whole.
pub(super) fn save(job: &Job<'_>, trainer: &Trainer, progress: Progress) -> Result<Option<Saved>, WorkerError> {
    let Some(folder) = &job.checkpoints else { return Ok(None) };
    let means = remembered(job.plan, progress.updates);
    let own = own_pieces(job.network, trainer);
    let world = trainer.world();
    let Some(order) = holders(trainer, &own)? else {
        for piece in own.into_values() {
            world.recv(0, ASK)?;
            for values in contents(trainer, piece, means.len()) {
                world.send(0, PIECE, values)?;
            }
        }
        let path = numbered(folder, told_number(trainer, 0)?);
        return Ok(Some(Saved { path, report: None }));
    };
    let start = job.clock.seconds();
    let pieces = Pieces { trainer, own, means: means.len(), asked: VecDeque::new(), order: order.into() };
    let mut writer = Writer::begin(folder, job.open)?;
    let number = writer.number();
    let batches = progress.step * job.plan.batch().accumulation;
    write_tensors(job.network, &mut writer, (means, batches), pieces)?;
    companions::write(job, &mut writer)?;
    let (optimizer, framework) = (job.plan.optimizer().to_string(), framework(job.options.device));
    let manifest = Manifest::new(progress, optimizer, job.entry.clone(), framework).on(job.base.cloned());
    let (path, bytes) = writer.finish(manifest, &job.options.plan_document)?;
    let seconds = job.clock.seconds() - start;
    told_number(trainer, number)?;
    Ok(Some(Saved { path, report: Some(CheckpointReport { step: progress.step, bytes, seconds }) }))
}

/// Returns the first rank's number, once all ranks know that its checkpoint is whole: each may have to name the
/// checkpoint to resume from.
fn told_number(trainer: &Trainer, number: u64) -> Result<u64, GroupError> {
    // In two halves, which single precision holds exactly.
    let mut halves = vec![(number >> 24) as f32, (number & 0xff_ffff) as f32];
    trainer.world().broadcast(&mut halves, 0)?;
    Ok(((halves[0] as u64) << 24) + halves[1] as u64)
}

/// Returns the rank that brings each piece, in the order of writing; `None` on all but the first rank.
fn holders(trainer: &Trainer, own: &Own<'_>) -> Result<Option<Vec<(Piece, usize)>>, GroupError> {
    let fields = own.keys().flat_map(|piece| [piece.key.layer, piece.key.slot, piece.tensor, piece.shard]);
    let bytes: Vec<u8> = fields.flat_map(u32::to_le_bytes).collect();
    let Some(all) = trainer.world().gather_bytes(bytes, 0)? else { return Ok(None) };
    let mut order = Vec::new();
    for (rank, bytes) in all.iter().enumerate() {
        let numbers: Vec<u32> = bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        order.extend(numbers.as_chunks().0.iter().map(|[layer, slot, tensor, shard]| {
            let key = ParameterKey { layer: *layer, slot: *slot };
            (Piece { key, tensor: *tensor, shard: *shard }, rank)
        }));
    }
    order.sort_unstable();
    Ok(Some(order))
}

/// The pieces of all ranks, one by one.
struct Pieces<'a> {
    trainer: &'a Trainer,
    own: Own<'a>,
    means: usize,
    /// Not yet asked for.
    order: VecDeque<(Piece, usize)>,
    /// On their way.
    asked: VecDeque<(Piece, usize)>,
}

impl Pieces<'_> {
    /// Returns the next piece, if it is one of `key`.
    #[expect(clippy::type_complexity, reason = "a piece with its values, if there is one")]
    fn next_of(&mut self, key: ParameterKey) -> Result<Option<(Piece, Vec<Vec<f32>>)>, GroupError> {
        let world = self.trainer.world();
        while self.asked.len() <= AHEAD
            && let Some((piece, rank)) = self.order.pop_front()
        {
            if rank != 0 {
                world.send(rank, ASK, Vec::new())?;
            }
            self.asked.push_back((piece, rank));
        }
        let Some((piece, rank)) = self.asked.pop_front_if(|(piece, _)| piece.key == key) else { return Ok(None) };
        if rank == 0 {
            return Ok(Some((piece, contents(self.trainer, self.own[&piece], self.means))));
        }
        let kinds = match self.trainer.network().parameter(key).role {
            Role::Trained => 1 + self.means,
            Role::Statistic | Role::Frozen => 1,
        };
        let values = (0..kinds).map(|_| world.recv(rank, PIECE)).collect::<Result<_, _>>()?;
        Ok(Some((piece, values)))
    }
}

/// Writes all tensors: weights, and what the optimizer remembers. A replica has learnt from so many batches.
fn write_tensors(
    network: &Network,
    writer: &mut Writer<'_>,
    (means, batches): (&[&str], u64),
    mut pieces: Pieces<'_>,
) -> Result<(), WorkerError> {
    let keys: Vec<ParameterKey> = network.saved_keys().collect();
    let trained = trained_specs(network);
    let counters = counters(network, batches);
    let mut files = vec![writer.tensors_and_counters(file_of(network), &specs(network), &counters)?];
    for name in means {
        files.push(writer.tensors(name, &trained)?);
    }
    for key in keys {
        let parameter = network.parameter(key);
        let mut assembly = Assembly::new(parameter, pieces.trainer.groups().tensor.size());
        while let Some((piece, contents)) = pieces.next_of(key)? {
            assembly.add(piece.tensor as usize, contents, writer, &mut files)?;
        }
        assembly.finish(writer, &mut files)?;
    }
    for file in files {
        writer.add(file)?;
    }
    Ok(())
}

/// A parameter that is put together from its pieces: written as they come where they follow each other in the file,
/// held until the last has come where they do not.
struct Assembly<'a> {
    parameter: &'a Parameter,
    ranks: usize,
    /// By rank of the tensor group and kind of content: the shards, joined.
    held: BTreeMap<usize, Vec<Vec<f32>>>,
}

impl<'a> Assembly<'a> {
    fn new(parameter: &'a Parameter, ranks: usize) -> Self {
        Self { parameter, ranks, held: BTreeMap::new() }
    }

    fn add(
        &mut self,
        rank: usize,
        contents: Vec<Vec<f32>>,
        writer: &Writer<'_>,
        files: &mut [TensorFile],
    ) -> Result<(), CheckpointError> {
        let in_order = self.parameter.is_stored_as_is() && (self.ranks == 1 || self.parameter.split.is_none());
        if in_order {
            return files.iter_mut().zip(&contents).try_for_each(|(file, values)| writer.put(file, values));
        }
        let held = self.held.entry(rank).or_insert_with(|| vec![Vec::new(); contents.len()]);
        held.iter_mut().zip(contents).for_each(|(held, values)| held.extend(values));
        Ok(())
    }

    fn finish(self, writer: &Writer<'_>, files: &mut [TensorFile]) -> Result<(), CheckpointError> {
        let kinds = self.held.values().next().map_or(0, Vec::len);
        let whole = |kind: usize| {
            let mut whole = vec![0.0; self.parameter.elements()];
            for (rank, held) in &self.held {
                self.parameter.place(&held[kind], self.ranks, *rank, &mut whole);
            }
            self.parameter.to_stored(whole)
        };
        files.iter_mut().zip(0..kinds).try_for_each(|(file, kind)| writer.put(file, &whole(kind)))
    }
}

fn spec(parameter: &Parameter) -> TensorSpec {
    TensorSpec { name: parameter.name.clone(), shape: parameter.stored_shape() }
}

/// Returns the name of the file of a network's weights, without its ending.
fn file_of(network: &Network) -> &'static str {
    if network.has_adapters() { adapter::FILE } else { MODEL }
}

/// Returns names and shapes of the tensors in that file.
pub(super) fn specs(network: &Network) -> Vec<TensorSpec> {
    network.saved_keys().map(|key| spec(network.parameter(key))).collect()
}

/// Returns the counters of batches that normalisations over batches have in PyTorch: of micro-batches, whose statistics
/// they take.
fn counters(network: &Network, batches: u64) -> Vec<Counter> {
    let names = network.keys().filter_map(|key| network.parameter(key).name.strip_suffix("running_mean"));
    names.map(|of| Counter { name: format!("{of}num_batches_tracked"), value: batches as i64 }).collect()
}

/// Returns names and shapes of the tensors in a file of optimizer state.
fn trained_specs(network: &Network) -> Vec<TensorSpec> {
    let all = network.keys().map(|key| network.parameter(key));
    all.filter(|parameter| parameter.role == Role::Trained).map(spec).collect()
}

/// Refuses a checkpoint that lacks something of what the training goes on from, or has it in another shape.
pub(super) fn check(checkpoint: &Checkpoint, network: &Network, plan: &Plan) -> Result<(), CheckpointError> {
    checkpoint.expect(file_of(network), &specs(network))?;
    let trained = trained_specs(network);
    let means = remembered(plan, checkpoint.manifest().progress.updates);
    means.iter().try_for_each(|name| checkpoint.expect(name, &trained))
}

/// Refuses a checkpoint of another model, which may have tensors of the same shapes and compute something else with
/// them, or count its samples by another length.
pub(super) fn check_model(checkpoint: &Checkpoint, plan_document: &Value) -> Result<(), CheckpointError> {
    // What was written loses nothing that this, read in the same way, would keep.
    let document = serde_json::from_str(&plan_document.to_string()).unwrap_or_default();
    let before = checkpoint.plan()?;
    for (field, of) in [("fine_tuning", part_of as fn(Value) -> Map<String, Value>), ("model", model_of)] {
        check_same(checkpoint, field, [&before, &document].map(|document: &Value| of(document.clone())))?;
    }
    Ok(())
}

fn check_same(
    checkpoint: &Checkpoint,
    field: &'static str,
    [found, expected]: [Map<String, Value>; 2],
) -> Result<(), CheckpointError> {
    if found == expected {
        return Ok(());
    }
    let path = checkpoint.path().to_owned();
    Err(CheckpointError::Mismatch {
        path,
        field,
        found: what_differs(&found, &expected),
        expected: what_differs(&expected, &found),
    })
}

/// Returns the model of a plan document with its defaults filled in, without what may change from run to run: the name
/// says nothing of the model, all attention kernels compute the same, and weights do not depend on what is dropped out.
fn model_of(mut document: Value) -> Map<String, Value> {
    let written = document.pointer_mut("/plan/model").map(Value::take).unwrap_or_default();
    let spec = serde_json::from_value(written.clone()).ok();
    let whole = spec.and_then(|spec: ModelSpec| Model::try_from(spec).ok());
    let whole = whole.and_then(|model| serde_json::to_value(model.spec()).ok());
    let Value::Object(mut model) = whole.unwrap_or(written) else { return Map::new() };
    for said_elsewhere in ["name", "attention", "dropout", "attention_dropout", "embedding_dropout"] {
        model.remove(said_elsewhere);
    }
    model
}

/// Returns which weights a plan document trains, without what of adapters' inputs is dropped out; all of them if it does not
/// say.
fn part_of(mut document: Value) -> Map<String, Value> {
    let written = document.pointer_mut("/plan/fine_tuning").map(Value::take).unwrap_or_default();
    let Value::Object(mut part) = written else { return Map::new() };
    if let Some(Value::Object(mut lora)) = part.remove("lora") {
        lora.remove("dropout");
        part.extend(lora);
    }
    part
}

/// Describes the fields of one model whose values differ in the other.
fn what_differs(own: &Map<String, Value>, other: &Map<String, Value>) -> String {
    let said = |(key, value): (&String, &Value)| match value {
        Value::Array(_) | Value::Object(_) => format!("other {key}"),
        value => format!("{key} {value}"),
    };
    let differing: Vec<String> = own.iter().filter(|(key, value)| other.get(*key) != Some(value)).map(said).collect();
    if differing.is_empty() { "without that".into() } else { differing.join(", ") }
}

/// Whole tensors of a checkpoint, one at a time. The first error is kept, since those who ask for first values expect
/// some.
pub(super) struct Resumed<'a> {
    network: &'a Network,
    checkpoint: &'a Checkpoint,
    failed: RefCell<Option<CheckpointError>>,
}

impl<'a> Resumed<'a> {
    pub(super) fn new(network: &'a Network, checkpoint: &'a Checkpoint) -> Self {
        Self { network, checkpoint, failed: RefCell::new(None) }
    }

    /// Returns the whole values of a parameter that the checkpoint holds.
    pub(super) fn values(&self, key: ParameterKey) -> Vec<f32> {
        self.read(file_of(self.network), key)
    }

    fn read(&self, file: &str, key: ParameterKey) -> Vec<f32> {
        let parameter = self.network.parameter(key);
        let length = parameter.elements();
        match self.checkpoint.values(file, &parameter.name, 0..length) {
            Ok(values) => parameter.as_computed(&values),
            Err(error) => {
                self.failed.borrow_mut().get_or_insert(error);
                vec![0.0; length]
            }
        }
    }

    /// Gives a rank's optimizer back what it remembers, and its loss scale.
    pub(super) fn restore(self, trainer: &mut Trainer) -> Result<(), CheckpointError> {
        let progress = self.checkpoint.manifest().progress;
        let names = if progress.updates == 0 { &[] } else { means_of(trainer.optimizer().kind()) };
        let (ranks, rank) = (trainer.groups().tensor.size(), trainer.groups().tensor.rank());
        let mut memories = Vec::new();
        let slots = trainer.units().values().flat_map(|unit| unit.slots.iter().map(move |slot| (slot, unit.home())));
        for (slot, home) in slots.filter(|(slot, _)| slot.is_own() && !names.is_empty()) {
            let parameter = self.network.parameter(slot.key);
            let source = parameter.tied_to.unwrap_or(slot.key);
            let piece = trainer.shards().piece(slot.length, trainer.shards().own);
            let mean = |name: &&str| {
                let local = self.network.parameter(source).local(&self.read(name, source), ranks, rank);
                from_vec(local[piece.clone()].to_vec(), [piece.len()], home)
            };
            let means = names.iter().map(mean).collect();
            memories.push((slot.key, OptimizerState { time: progress.updates as usize, means }));
        }
        for (key, memory) in memories {
            trainer.optimizer_mut().restore(key, memory);
        }
        if let Some(scaler) = progress.loss_scaler {
            trainer.loss_scale().restore(scaler.scale, scaler.steps_since_change);
        }
        self.failed.into_inner().map_or(Ok(()), Err)
    }
}
