//! Pipeline schedules as stream programs: in which order a stage works on its micro-batches. Each is a file here, which
//! says what anybody asks of it.

use crate::name::named;
use std::ops::RangeInclusive;

mod gpipe;
mod interleaved;
mod none;
mod one_forward_one_backward;
mod two_buffered_weights;
mod zero_bubble_h1;
mod zero_bubble_v;

/// A pipeline stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StageId(pub u32);

/// A pipeline schedule. Methods with a body return what holds for most schedules.
pub trait Schedule: Sync {
    /// Describes the order and its cost, in a few words.
    fn about(&self) -> &'static str;

    /// Returns the publication.
    fn source(&self) -> &'static str;

    /// Returns a stage's slots of a step, in order.
    fn program(&self, pipeline: Pipeline, stage: StageId) -> Vec<Slot>;

    /// Returns the programs of all stages.
    fn programs(&self, pipeline: Pipeline) -> Vec<Vec<Slot>> {
        (0..pipeline.stages).map(|stage| self.program(pipeline, StageId(stage))).collect()
    }

    /// Returns the number of micro-batches that a stage holds at once from forward to backward; `None` where it is
    /// counted from the program, which repeats itself once the pipeline is full.
    fn peak_micro_batches(&self, pipeline: Pipeline, stage: StageId) -> Option<u32> {
        let _ = (pipeline, stage);
        None
    }

    /// Returns `true` if the schedule is for several stages; otherwise it is for one.
    fn is_pipelined(&self) -> bool {
        true
    }

    /// Returns the range of the number of chunks of layers per stage.
    fn chunks(&self) -> RangeInclusive<u32> {
        1..=1
    }

    /// Returns `true` if the second chunk of layers goes back from the last stage to the first, instead of round again.
    fn is_folded(&self) -> bool {
        false
    }

    /// Returns the constraint on the number of micro-batches of a step.
    fn accumulation(&self) -> Accumulation {
        Accumulation::Any
    }

    /// Returns what happens to the pipeline between steps.
    fn between_steps(&self) -> BetweenSteps {
        BetweenSteps::Flush
    }

    /// Returns `true` if gradients of inputs and of weights are computed apart.
    fn splits_backward(&self) -> bool {
        false
    }

    /// Returns the number of versions of the weights that a rank holds.
    fn weight_versions(&self) -> u64 {
        1
    }

    /// Returns the number of micro-batches after which the programs of all stages repeat themselves once the pipeline is
    /// full: with as many micro-batches more in a step, each program has one more repetition in its middle and is
    /// otherwise the same. `None` where programs have no such middle.
    fn period(&self, pipeline: Pipeline) -> Option<u32> {
        let _ = pipeline;
        None
    }

    /// Returns the closed form that is a lower bound of the step time.
    fn bound(&self) -> StepBound {
        StepBound::Drained
    }

    /// Returns the condition under which a search tries the schedule.
    fn sought(&self) -> Sought {
        Sought::Always
    }
}

/// A constraint on the number of micro-batches of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulation {
    /// Any number.
    Any,
    /// At least the number of stages.
    AtLeastStages,
    /// A multiple of the number of stages.
    GroupsOfStages,
}

impl Accumulation {
    /// Returns `true` if a pipeline of `stages` stages may have `micro_batches` micro-batches.
    pub fn admits(self, micro_batches: u64, stages: u64) -> bool {
        match self {
            Self::Any => true,
            Self::AtLeastStages => micro_batches >= stages,
            Self::GroupsOfStages => micro_batches.is_multiple_of(stages),
        }
    }
}

/// The behaviour of a pipeline between steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetweenSteps {
    /// The pipeline is empty before the next step begins.
    Flush,
    /// A stage begins the next step as soon as it has ended one.
    Staggered,
    /// The pipeline never drains: gradients are a step late.
    Continuous,
}

/// A closed form that is a lower bound of a step's time, named by what ends the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepBound {
    /// The pipeline drains.
    Drained,
    /// Stages begin the next step one after another, and postpone gradients of weights.
    Staggered,
    /// The stage that computes longest ends.
    Busiest,
}

/// The condition under which a search tries a schedule that the software runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sought {
    Always,
    /// Where the user fixes it, on measured machines, and where the software does not run 1F1B.
    InsteadOf1F1B,
    /// Only where the user fixes it.
    Held,
}

/// The list of schedules: doc, name, other spellings, and the module and type that define it.
macro_rules! schedules {
    ($($(#[$doc:meta])* $variant:ident = $text:literal $(| $spelling:literal)* in $module:ident),+ $(,)?) => {
        named! {
            /// The order in which a stage works on its micro-batches.
            ScheduleName {
                $($(#[$doc])* $variant = $text $(| $spelling)*),+
            }
        }

        impl ScheduleName {
            fn definition(self) -> &'static dyn Schedule {
                match self { $(Self::$variant => &$module::$variant),+ }
            }
        }
    };
}

schedules! {
    /// One stage: each micro-batch forward, then backward.
    None = "none" in none,
    /// All micro-batches forward, then all backward (Huang et al., arXiv:1811.06965).
    GPipe = "gpipe" in gpipe,
    /// Forwards and backwards alternate after a warm-up (PipeDream-Flush; Narayanan et al., arXiv:2104.04473).
    OneForwardOneBackward = "1f1b" | "pipedream-flush" in one_forward_one_backward,
    /// 1F1B over several model chunks on each stage (Narayanan et al., arXiv:2104.04473, section 2.2).
    Interleaved = "interleaved-1f1b" | "interleaved" | "1f1b-interleaved" | "interleaved1f1b" in interleaved,
    /// 1F1B that never drains: two versions of the weights (Narayanan et al., arXiv:2006.09503, section 3.1).
    TwoBufferedWeights = "2bw" | "pipedream-2bw" in two_buffered_weights,
    /// 1F1B whose weight gradients fill the drain (Qi et al., arXiv:2401.10241, section 2.3).
    ZeroBubbleH1 = "zb-h1" | "zero-bubble" | "zero-bubble-h1" | "zbh1" in zero_bubble_h1,
    /// Two model chunks folded into a V, weight gradients filling what is idle (the same, section 6).
    ZeroBubbleV = "zb-v" | "zero-bubble-v" | "zbv" in zero_bubble_v,
}

/// Methods of [`ScheduleName`] that ask the schedule.
macro_rules! asks {
    ($($method:ident: $type:ty),+ $(,)?) => {
        impl ScheduleName {
            $(#[doc = concat!("[`Schedule::", stringify!($method), "`].")]
            pub fn $method(self) -> $type {
                self.definition().$method()
            })+
        }
    };
}

asks! {
    about: &'static str,
    source: &'static str,
    is_pipelined: bool,
    chunks: RangeInclusive<u32>,
    is_folded: bool,
    accumulation: Accumulation,
    between_steps: BetweenSteps,
    splits_backward: bool,
    weight_versions: u64,
    bound: StepBound,
    sought: Sought,
}

impl ScheduleName {
    /// Returns `true` if a step ends before the next begins.
    pub fn flushes(self) -> bool {
        self.between_steps() == BetweenSteps::Flush
    }

    /// Returns `true` if stages may have any number of chunks of layers.
    pub fn is_interleaved(self) -> bool {
        self.chunks().end() > self.chunks().start()
    }
}

/// A pass through a chunk of layers in one direction; some schedules compute the two kinds of gradients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StagePass {
    /// Forward: computes activations.
    Forward,
    /// Gradients of inputs and of weights.
    Backward,
    /// Gradients of inputs only, which the previous stage waits for.
    BackwardInput,
    /// Gradients of weights only, which nothing waits for before the step ends.
    BackwardWeight,
}

/// An entry of a stage's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The direction.
    pub pass: StagePass,
    /// Index among the stage's chunks of layers.
    pub chunk: u32,
    /// Index of the micro-batch.
    pub micro_batch: u32,
}

/// The dimensions of a pipeline: stages, chunks of layers on each, and micro-batches in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pipeline {
    pub schedule: ScheduleName,
    pub stages: u32,
    /// Number of chunks of layers per stage.
    pub chunks: u32,
    /// Number of micro-batches in a step.
    pub micro_batches: u32,
}

fn slot(pass: StagePass, chunk: u32, micro_batch: u32) -> Slot {
    Slot { pass, chunk, micro_batch }
}

/// Number of micro-batches per stage with which every pipeline is full.
const FULL: u32 = 4;

impl Pipeline {
    /// Returns [`Schedule::program`].
    pub fn program(self, stage: StageId) -> Vec<Slot> {
        self.schedule.definition().program(self, stage)
    }

    /// Returns [`Schedule::programs`].
    pub fn programs(self) -> Vec<Vec<Slot>> {
        self.schedule.definition().programs(self)
    }

    /// Returns [`Schedule::period`].
    pub fn period(self) -> Option<u32> {
        self.schedule.definition().period(self)
    }

    /// Returns the number of slots that a micro-batch has in a stage's program.
    pub(crate) fn slots_of_micro_batch(self) -> u32 {
        self.chunks * if self.schedule.splits_backward() { 3 } else { 2 }
    }

    /// Returns the number of stages after `stage`.
    fn after(self, StageId(stage): StageId) -> u32 {
        self.stages - 1 - stage
    }

    /// Returns the most that a stage holds at once from forward to backward, if a micro-batch in chunk `c` takes
    /// `held[c]`. The result saturates at the largest number.
    pub fn peak(self, stage: StageId, held: &[u64]) -> u64 {
        if let Some(micro_batches) = self.schedule.definition().peak_micro_batches(self, stage) {
            return held[0].saturating_mul(micro_batches.min(self.micro_batches).into());
        }
        // Programs repeat themselves once the pipeline is full: more micro-batches hold no more.
        let full = Self { micro_batches: self.micro_batches.min(FULL * self.stages), ..self };
        peak_of(&full.program(stage), held)
    }
}

/// Returns the most that a program holds at any of its slots.
fn peak_of(program: &[Slot], held: &[u64]) -> u64 {
    let (mut now, mut peak) = (0_u128, 0);
    for slot in program {
        let size = u128::from(held[slot.chunk as usize]);
        match slot.pass {
            StagePass::Forward => now += size,
            StagePass::Backward | StagePass::BackwardWeight => now -= size,
            StagePass::BackwardInput => {}
        }
        peak = now.max(peak);
    }
    u64::try_from(peak).unwrap_or(u64::MAX)
}

/// Returns the program of `ahead` forwards, then a backward after each forward, then the remaining backwards.
fn run_ahead(ahead: u32, micro_batches: u32) -> Vec<Slot> {
    let forward = |micro_batch| slot(StagePass::Forward, 0, micro_batch);
    let backward = |micro_batch| slot(StagePass::Backward, 0, micro_batch);
    let ahead = ahead.min(micro_batches);
    let warm_up = (0..ahead).map(forward);
    let steady = (ahead..micro_batches).flat_map(|m| [forward(m), backward(m - ahead)]);
    let drain = (micro_batches - ahead..micro_batches).map(backward);
    warm_up.chain(steady).chain(drain).collect()
}

#[cfg(test)]
mod tests;
