//! Pipeline schedules as stream programs: in which order a stage works on its micro-batches.

use crate::partition::StageId;
use crate::spec::ScheduleName;

/// A direction through a run of layers; some schedules compute the two kinds of gradients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StagePass {
    /// Activations.
    Forward,
    /// Gradients of inputs and of weights.
    Backward,
    /// Gradients of inputs only: what the stage before waits for.
    BackwardInput,
    /// Gradients of weights only, which nobody waits for before the step ends.
    BackwardWeight,
}

/// One piece of a stage's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Which direction.
    pub pass: StagePass,
    /// Which of the stage's runs of layers.
    pub run: u32,
    /// Which micro-batch.
    pub micro_batch: u32,
}

/// A pipeline: how many stages, runs of layers on each, and micro-batches in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pipeline {
    /// The order.
    pub schedule: ScheduleName,
    /// Stages.
    pub stages: u32,
    /// Runs of layers of each stage.
    pub runs: u32,
    /// Micro-batches of a step.
    pub micro_batches: u32,
}

fn slot(pass: StagePass, run: u32, micro_batch: u32) -> Slot {
    Slot { pass, run, micro_batch }
}

fn forward(micro_batch: u32) -> Slot {
    slot(StagePass::Forward, 0, micro_batch)
}

fn backward(micro_batch: u32) -> Slot {
    slot(StagePass::Backward, 0, micro_batch)
}

/// Micro-batches for each stage with which every pipeline is full.
const FULL: u32 = 4;

impl Pipeline {
    /// What a stage does in a step, in order.
    ///
    /// # Source
    ///
    /// GPipe: Huang et al., arXiv:1811.06965, figure 2c. 1F1B: Narayanan et al., arXiv:2104.04473, figure 4 (top): a
    /// stage runs ahead by as many forwards as there are stages after it, then alternates; interleaved: the same,
    /// figure 4 (bottom). ZB-H1: Qi et al., arXiv:2401.10241, figure 3. ZB-V: the same, section 6.
    pub fn program(self, stage: StageId) -> Vec<Slot> {
        let micro_batches = self.micro_batches;
        match self.schedule {
            ScheduleName::None => run_ahead(0, micro_batches),
            ScheduleName::GPipe => run_ahead(micro_batches, micro_batches),
            ScheduleName::OneForwardOneBackward | ScheduleName::TwoBufferedWeights => {
                run_ahead(self.after(stage), micro_batches)
            }
            ScheduleName::Interleaved => self.interleaved(stage),
            ScheduleName::ZeroBubbleH1 => self.delayed_weights(stage),
            ScheduleName::ZeroBubbleV => v_shaped(self.stages, micro_batches).swap_remove(stage.0 as usize),
        }
    }

    /// The programs of all stages.
    pub fn programs(self) -> Vec<Vec<Slot>> {
        match self.schedule {
            ScheduleName::ZeroBubbleV => v_shaped(self.stages, self.micro_batches),
            _ => (0..self.stages).map(|stage| self.program(StageId(stage))).collect(),
        }
    }

    fn after(self, StageId(stage): StageId) -> u32 {
        self.stages - 1 - stage
    }

    /// 1F1B over `runs` runs: micro-batches go in groups of as many as there are stages, each group through one run
    /// after another.
    fn interleaved(self, stage: StageId) -> Vec<Slot> {
        let Self { stages, runs, micro_batches, .. } = self;
        let total = micro_batches * runs;
        let at = |index: u32, pass: StagePass| {
            let (group, within) = (index / (stages * runs), index % (stages * runs));
            let run = within / stages;
            let run = if pass == StagePass::Forward { run } else { runs - 1 - run };
            slot(pass, run, group * stages + within % stages)
        };
        let ahead = if micro_batches == stages { total } else { 2 * self.after(stage) + (runs - 1) * stages };
        let ahead = ahead.min(total);
        let forwards = |range: std::ops::Range<u32>| range.map(move |index| at(index, StagePass::Forward));
        let steady =
            (ahead..total).flat_map(|index| [at(index, StagePass::Forward), at(index - ahead, StagePass::Backward)]);
        let drain = (total - ahead..total).map(|index| at(index, StagePass::Backward));
        forwards(0..ahead).chain(steady).chain(drain).collect()
    }

    /// 1F1B with gradients of weights put off by as many micro-batches as there are stages before, so that all
    /// stages hold as much as the first does in 1F1B, and have something to do while the pipeline drains.
    fn delayed_weights(self, StageId(stage): StageId) -> Vec<Slot> {
        let mut slots = Vec::new();
        let (mut inputs, mut weights) = (0, 0);
        for slot in run_ahead(self.after(StageId(stage)), self.micro_batches) {
            if slot.pass == StagePass::Forward {
                slots.push(slot);
                continue;
            }
            slots.push(Slot { pass: StagePass::BackwardInput, ..slot });
            inputs += 1;
            if inputs > stage {
                slots.push(Slot { pass: StagePass::BackwardWeight, micro_batch: weights, ..slot });
                weights += 1;
            }
        }
        slots.extend((weights..inputs).map(|micro_batch| Slot {
            pass: StagePass::BackwardWeight,
            run: 0,
            micro_batch,
        }));
        slots
    }

    /// The most that a stage holds at once from forward to backward, if a micro-batch in run `r` takes `held[r]`. What
    /// is beyond counting is the most that can be counted.
    pub fn peak(self, stage: StageId, held: &[u64]) -> u64 {
        let simple = |micro_batches: u32| held[0].saturating_mul(micro_batches.min(self.micro_batches).into());
        match self.schedule {
            ScheduleName::None => simple(1),
            ScheduleName::GPipe => simple(self.micro_batches),
            ScheduleName::OneForwardOneBackward | ScheduleName::TwoBufferedWeights => simple(self.after(stage) + 1),
            ScheduleName::ZeroBubbleH1 => simple(self.stages),
            // Programs repeat themselves once the pipeline is full: more micro-batches hold no more.
            ScheduleName::Interleaved | ScheduleName::ZeroBubbleV => {
                let full = Self { micro_batches: self.micro_batches.min(FULL * self.stages), ..self };
                peak_of(&full.program(stage), held)
            }
        }
    }
}

/// What a program holds at its worst, step by step.
fn peak_of(program: &[Slot], held: &[u64]) -> u64 {
    let (mut now, mut peak) = (0_u128, 0);
    for slot in program {
        let size = u128::from(held[slot.run as usize]);
        match slot.pass {
            StagePass::Forward => now += size,
            StagePass::Backward | StagePass::BackwardWeight => now -= size,
            StagePass::BackwardInput => {}
        }
        peak = now.max(peak);
    }
    u64::try_from(peak).unwrap_or(u64::MAX)
}

/// `ahead` forwards, then a backward after each forward, then the backwards that are left.
fn run_ahead(ahead: u32, micro_batches: u32) -> Vec<Slot> {
    let ahead = ahead.min(micro_batches);
    let warm_up = (0..ahead).map(forward);
    let steady = (ahead..micro_batches).flat_map(|m| [forward(m), backward(m - ahead)]);
    let drain = (micro_batches - ahead..micro_batches).map(backward);
    warm_up.chain(steady).chain(drain).collect()
}

/// The programs of a V: the first run of each stage goes down the stages, the second comes back up.
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
    /// Per run in the order of the model, how many micro-batches each pass has done.
    forwards: Vec<u32>,
    inputs: Vec<u32>,
    weights: Vec<u32>,
    /// When the last of them ended.
    forward_ends: Vec<Vec<u32>>,
    input_ends: Vec<Vec<u32>>,
}

impl VSchedule {
    fn new(stages: u32, micro_batches: u32) -> Self {
        let runs = 2 * stages as usize;
        Self {
            stages,
            micro_batches,
            now: 0,
            programs: vec![Vec::new(); stages as usize],
            forwards: vec![0; runs],
            inputs: vec![0; runs],
            weights: vec![0; runs],
            forward_ends: vec![Vec::new(); runs],
            input_ends: vec![Vec::new(); runs],
        }
    }

    /// Place of a stage's run in the order of the model.
    fn link(&self, stage: u32, run: u32) -> usize {
        (if run == 0 { stage } else { 2 * self.stages - 1 - stage }) as usize
    }

    /// Whether the pass before has ended for this micro-batch; without one there is nothing to wait for.
    fn arrived(&self, ends: &[Vec<u32>], before: Option<usize>, micro_batch: u32) -> bool {
        before.is_none_or(|link| ends[link].get(micro_batch as usize).is_some_and(|end| *end <= self.now))
    }

    fn choose(&self, stage: u32) -> Option<Slot> {
        let runs = [1, 0];
        let input = runs.into_iter().find_map(|run| {
            let (link, micro_batch) = (self.link(stage, run), self.inputs[self.link(stage, run)]);
            let after = (link + 1 < self.forwards.len()).then_some(link + 1);
            let ready = micro_batch < self.micro_batches
                && self.arrived(&self.forward_ends, Some(link), micro_batch)
                && self.arrived(&self.input_ends, after, micro_batch);
            ready.then(|| slot(StagePass::BackwardInput, run, micro_batch))
        });
        let held: u32 = runs.iter().map(|run| self.link(stage, *run)).map(|l| self.forwards[l] - self.weights[l]).sum();
        let ahead = self.forwards[self.link(stage, 0)] - self.forwards[self.link(stage, 1)];
        let forward = || {
            runs.into_iter().find_map(|run| {
                let (link, micro_batch) = (self.link(stage, run), self.forwards[self.link(stage, run)]);
                let room = held < 2 * self.stages && (run == 1 || ahead < 2 * self.stages - stage);
                let ready = micro_batch < self.micro_batches
                    && room
                    && self.arrived(&self.forward_ends, link.checked_sub(1), micro_batch);
                ready.then(|| slot(StagePass::Forward, run, micro_batch))
            })
        };
        // The oldest gradients of weights first, of the run whose gradients of inputs came first.
        let weight = || {
            runs.into_iter()
                .map(|run| (self.weights[self.link(stage, run)], run))
                .filter(|(micro_batch, run)| *micro_batch < self.inputs[self.link(stage, *run)])
                .min_by_key(|(micro_batch, run)| (*micro_batch, 1 - run))
                .map(|(micro_batch, run)| slot(StagePass::BackwardWeight, run, micro_batch))
        };
        input.or_else(forward).or_else(weight)
    }

    fn take(&mut self, stage: u32, slot: Slot) {
        let link = self.link(stage, slot.run);
        let end = self.now + 1;
        match slot.pass {
            StagePass::Forward => {
                self.forwards[link] += 1;
                self.forward_ends[link].push(end);
            }
            StagePass::BackwardInput => {
                self.inputs[link] += 1;
                self.input_ends[link].push(end);
            }
            StagePass::Backward | StagePass::BackwardWeight => self.weights[link] += 1,
        }
        self.programs[stage as usize].push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every pipeline that a plan may have, for these stages and micro-batches.
    fn pipeline(schedule: ScheduleName, stages: u32, runs: u32, micro_batches: u32) -> Pipeline {
        match schedule {
            ScheduleName::Interleaved => Pipeline { schedule, stages, runs, micro_batches: micro_batches * stages },
            ScheduleName::ZeroBubbleV => Pipeline { schedule, stages, runs: 2, micro_batches },
            _ => Pipeline { schedule, stages, runs: 1, micro_batches },
        }
    }

    /// The oracle: programs played in whole units of time. Forward takes one, gradients of inputs and of weights one
    /// each. Returns the makespan and, per stage, when it starts and ends.
    fn play(pipeline: Pipeline) -> (u32, Vec<(u32, u32)>) {
        let programs = pipeline.programs();
        let last = pipeline.stages * pipeline.runs - 1;
        let link = |stage: u32, run: u32| match pipeline.schedule {
            ScheduleName::ZeroBubbleV if run == 1 => 2 * pipeline.stages - 1 - stage,
            _ => run * pipeline.stages + stage,
        };
        let mut ends: std::collections::BTreeMap<(bool, u32, u32), u32> = std::collections::BTreeMap::new();
        let (mut next, mut free) = (vec![0; programs.len()], vec![0; programs.len()]);
        let mut starts = vec![None; programs.len()];
        while (0..programs.len()).any(|stage| next[stage] < programs[stage].len()) {
            let mut moved = false;
            for stage in 0..programs.len() {
                while let Some(slot) = programs[stage].get(next[stage]) {
                    let at = link(stage as u32, slot.run);
                    let forward = slot.pass == StagePass::Forward;
                    let before = match slot.pass {
                        StagePass::Forward if at == 0 => Some(0),
                        StagePass::Forward => ends.get(&(true, at - 1, slot.micro_batch)).copied(),
                        StagePass::BackwardWeight => Some(0),
                        _ if at == last => ends.get(&(true, at, slot.micro_batch)).copied(),
                        _ => ends.get(&(false, at + 1, slot.micro_batch)).copied(),
                    };
                    let Some(before) = before else { break };
                    let start = before.max(free[stage]);
                    starts[stage].get_or_insert(start);
                    free[stage] = start + if slot.pass == StagePass::Backward { 2 } else { 1 };
                    if slot.pass != StagePass::BackwardWeight {
                        ends.insert((forward, at, slot.micro_batch), free[stage]);
                    }
                    next[stage] += 1;
                    moved = true;
                }
            }
            assert!(moved, "{pipeline:?} waits for itself");
        }
        let spans = starts.into_iter().zip(&free).map(|(start, end)| (start.expect("every stage works"), *end));
        (free.iter().copied().max().unwrap_or(0), spans.collect())
    }

    #[test]
    fn what_is_held_beyond_counting_is_the_most_that_can_be_counted() {
        let peak = |schedule, held: u64| pipeline(schedule, 4, 1, 4096).peak(StageId(0), &[held; 2]);
        // GPipe keeps all 4096 micro-batches, ZB-V at most twice as many runs as there are stages.
        assert_eq!(peak(ScheduleName::GPipe, (1 << 52) - 1), u64::MAX - 4095);
        assert_eq!(peak(ScheduleName::GPipe, 1 << 52), u64::MAX);
        assert_eq!(peak(ScheduleName::ZeroBubbleV, (1 << 61) - 1), u64::MAX - 7);
        assert_eq!(peak(ScheduleName::ZeroBubbleV, 1 << 61), u64::MAX);
    }

    #[test]
    fn bubbles_are_the_published_ones() {
        for (p, m) in [(2, 4), (4, 8), (4, 16), (8, 16), (8, 64)] {
            let makespan = |schedule, runs| play(Pipeline { schedule, stages: p, runs, micro_batches: m }).0;
            // Units: forward 1, each half of backward 1. Narayanan et al. 2021, section 2.2: (p − 1)(F + B + W).
            assert_eq!(makespan(ScheduleName::GPipe, 1), 3 * m + 3 * (p - 1));
            assert_eq!(makespan(ScheduleName::OneForwardOneBackward, 1), 3 * m + 3 * (p - 1));
            // With v runs the passes are v times shorter, and the bubble with them: in units of a run, m·v·3 of work.
            assert_eq!(makespan(ScheduleName::Interleaved, 2), 6 * m + 3 * (p - 1));
            // Qi et al., table 2: (p − 1)(F + B − W).
            assert_eq!(makespan(ScheduleName::ZeroBubbleH1, 1), 3 * m + (p - 1));
        }
    }

    #[test]
    fn a_v_leaves_almost_nothing_idle() {
        for (p, m) in [(2, 4), (4, 8), (4, 16), (6, 12), (8, 16), (8, 64)] {
            let v = Pipeline { schedule: ScheduleName::ZeroBubbleV, stages: p, runs: 2, micro_batches: m };
            for (start, end) in play(v).1 {
                assert!(end - start - 6 * m <= 2 * (p - 1), "p {p}, m {m}: {start} to {end}");
            }
        }
    }

    proptest! {
        #[test]
        fn programs_do_everything_once_in_order_and_hold_what_they_say(
            schedule in prop::sample::select(ScheduleName::ALL), stages in 1u32..7, runs in 2u32..4, m in 1u32..40,
        ) {
            let pipeline = pipeline(schedule, stages, runs, m);
            play(pipeline);
            for (stage, slots) in pipeline.programs().into_iter().enumerate() {
                let stage = StageId(stage as u32);
                prop_assert_eq!(&slots, &pipeline.program(stage));
                let passes = if schedule.splits_backward() { 3 } else { 2 };
                prop_assert_eq!(slots.len() as u32, passes * pipeline.runs * pipeline.micro_batches);
                for (index, slot) in slots.iter().enumerate() {
                    prop_assert!(!slots[..index].contains(slot));
                    let needs = match slot.pass {
                        StagePass::Forward => None,
                        StagePass::Backward | StagePass::BackwardInput => Some(StagePass::Forward),
                        StagePass::BackwardWeight => Some(StagePass::BackwardInput),
                    };
                    let done = |pass| slots[..index].contains(&Slot { pass, ..*slot });
                    prop_assert!(needs.is_none_or(done));
                }
                let sizes: Vec<u64> = (0..pipeline.runs).map(|run| u64::from(run) + 3).collect();
                if schedule == ScheduleName::ZeroBubbleH1 {
                    prop_assert!(pipeline.peak(stage, &sizes) >= peak_of(&slots, &sizes));
                } else if schedule == ScheduleName::None && stages > 1 {
                    // No such plan is valid.
                } else {
                    prop_assert_eq!(pipeline.peak(stage, &sizes), peak_of(&slots, &sizes));
                }
            }
        }
    }
}
