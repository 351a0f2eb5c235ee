//! ZB-V: two chunks of layers folded into a V, weight gradients filling what is idle (section 6).

use super::{BetweenSteps, Pipeline, Schedule, Slot, Sought, StageId, StagePass, StepBound, slot};
use std::ops::RangeInclusive;

pub(super) struct ZeroBubbleV;

impl Schedule for ZeroBubbleV {
    fn about(&self) -> &'static str {
        "two model chunks in a V, weight gradients in every gap: almost no bubble"
    }

    fn source(&self) -> &'static str {
        "Qi et al., arXiv:2401.10241, section 6"
    }

    fn program(&self, pipeline: Pipeline, StageId(stage): StageId) -> Vec<Slot> {
        self.programs(pipeline).swap_remove(stage as usize)
    }

    fn programs(&self, pipeline: Pipeline) -> Vec<Vec<Slot>> {
        v_shaped(pipeline.stages, pipeline.micro_batches)
    }

    fn chunks(&self) -> RangeInclusive<u32> {
        2..=2
    }

    fn is_folded(&self) -> bool {
        true
    }

    fn between_steps(&self) -> BetweenSteps {
        BetweenSteps::Staggered
    }

    fn splits_backward(&self) -> bool {
        true
    }

    fn bound(&self) -> StepBound {
        StepBound::Busiest
    }

    fn sought(&self) -> Sought {
        Sought::Held
    }
}

/// Returns the programs of a V: the first run of each stage goes down the stages, the second comes back up.
///
/// A list schedule in whole units of time, one for each pass of a run: gradients of inputs first, then forwards as
/// long as no more than `2 · stages` runs are held (what 1F1B holds on its first stage), then gradients of weights.
/// The published hand-made schedule leaves no stage idle; this one leaves a stage idle for at most 1.6 (stages − 1) units
/// where there are twice as many micro-batches as stages, and 4 · stages − 5 where there are fewer (counted up to 16
/// stages; a unit is a sixth of a micro-batch's work).
fn v_shaped(stages: u32, micro_batches: u32) -> Vec<Vec<Slot>> {
    let mut v = VSchedule::new(stages, micro_batches);
    let total = 6 * (stages * micro_batches) as usize;
    let mut done = 0;
    while done < total {
        let chosen: Vec<Option<Slot>> = (0..stages).map(|stage| v.choose(stage)).collect();
        for (stage, slot) in (0..stages).zip(chosen) {
            if let Some(slot) = slot {
                v.take(stage, slot);
                done += 1;
            }
        }
        v.now += 1;
    }
    v.programs
}

struct VSchedule {
    stages: u32,
    micro_batches: u32,
    now: u32,
    programs: Vec<Vec<Slot>>,
    /// Per run in the order of the model, the number of micro-batches that each pass has done.
    forwards: Vec<u32>,
    inputs: Vec<u32>,
    weights: Vec<u32>,
    /// The times at which the forward passes of micro-batches ended, per run.
    forward_ends: Vec<Vec<u32>>,
    input_ends: Vec<Vec<u32>>,
}

impl VSchedule {
    fn new(stages: u32, micro_batches: u32) -> Self {
        let chunks = 2 * stages as usize;
        Self {
            stages,
            micro_batches,
            now: 0,
            programs: vec![Vec::new(); stages as usize],
            forwards: vec![0; chunks],
            inputs: vec![0; chunks],
            weights: vec![0; chunks],
            forward_ends: vec![Vec::new(); chunks],
            input_ends: vec![Vec::new(); chunks],
        }
    }

    /// Returns the position of a stage's run in the order of the model.
    fn position(&self, stage: u32, chunk: u32) -> usize {
        (if chunk == 0 { stage } else { 2 * self.stages - 1 - stage }) as usize
    }

    /// Returns `true` if the previous pass has ended for this micro-batch, or if there is none to wait for.
    fn arrived(&self, ends: &[Vec<u32>], before: Option<usize>, micro_batch: u32) -> bool {
        before.is_none_or(|position| ends[position].get(micro_batch as usize).is_some_and(|end| *end <= self.now))
    }

    fn choose(&self, stage: u32) -> Option<Slot> {
        let chunks = [1, 0];
        let input = chunks.into_iter().find_map(|chunk| {
            let (position, micro_batch) = (self.position(stage, chunk), self.inputs[self.position(stage, chunk)]);
            let after = (position + 1 < self.forwards.len()).then_some(position + 1);
            let ready = micro_batch < self.micro_batches
                && self.arrived(&self.forward_ends, Some(position), micro_batch)
                && self.arrived(&self.input_ends, after, micro_batch);
            ready.then(|| slot(StagePass::BackwardInput, chunk, micro_batch))
        });
        let held: u32 =
            chunks.iter().map(|chunk| self.position(stage, *chunk)).map(|l| self.forwards[l] - self.weights[l]).sum();
        let ahead = self.forwards[self.position(stage, 0)] - self.forwards[self.position(stage, 1)];
        let forward = || {
            chunks.into_iter().find_map(|chunk| {
                let (position, micro_batch) = (self.position(stage, chunk), self.forwards[self.position(stage, chunk)]);
                let room = held < 2 * self.stages && (chunk == 1 || ahead < 2 * self.stages - stage);
                let ready = micro_batch < self.micro_batches
                    && room
                    && self.arrived(&self.forward_ends, position.checked_sub(1), micro_batch);
                ready.then(|| slot(StagePass::Forward, chunk, micro_batch))
            })
        };
        // The oldest gradients of weights first, of the run whose gradients of inputs came first.
        let weight = || {
            chunks
                .into_iter()
                .map(|chunk| (self.weights[self.position(stage, chunk)], chunk))
                .filter(|(micro_batch, chunk)| *micro_batch < self.inputs[self.position(stage, *chunk)])
                .min_by_key(|(micro_batch, chunk)| (*micro_batch, 1 - chunk))
                .map(|(micro_batch, chunk)| slot(StagePass::BackwardWeight, chunk, micro_batch))
        };
        input.or_else(forward).or_else(weight)
    }

    fn take(&mut self, stage: u32, slot: Slot) {
        let position = self.position(stage, slot.chunk);
        let end = self.now + 1;
        match slot.pass {
            StagePass::Forward => {
                self.forwards[position] += 1;
                self.forward_ends[position].push(end);
            }
            StagePass::BackwardInput => {
                self.inputs[position] += 1;
                self.input_ends[position].push(end);
            }
            StagePass::Backward | StagePass::BackwardWeight => self.weights[position] += 1,
        }
        self.programs[stage as usize].push(slot);
    }
}
