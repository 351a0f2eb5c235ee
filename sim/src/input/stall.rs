//! Steps whose samples have to be brought in.

use super::line::{Batch, LOADING, step_ends};
use super::{Kind, LoaderRates, Requests};
use rand::SeedableRng;
use rand::distr::{Distribution, Uniform};
use rand_pcg::Pcg64;
use statrs::distribution::{ContinuousCDF, Normal};
use trainyard_plan::Bottleneck;
use trainyard_units::{Instant, Seconds, Span};

/// Batches that are followed where samples differ in size, and how many of them fill the line.
const BATCHES: usize = 512;
const FILLING: usize = 128;

/// The longest batch, on average, of which so many surely end within simulated time.
const LONGEST_BATCH: Seconds = Seconds(1e6);

/// The seed that decides which samples are large: the same for every plan.
const SEED: u64 = 0;

/// Seconds that one machine takes for its samples of a step, stage by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageTimes {
    /// From storage into main memory.
    pub read: Seconds,
    /// Decoding and augmenting.
    pub decode: Seconds,
    /// To the devices.
    pub copy: Seconds,
}

/// A training whose samples have to be brought in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputStall {
    /// Seconds from one step to the next: after the first pass over the data set if there are more, else during it.
    pub step_time: Seconds,
    /// The same during the first pass.
    pub first_step_time: Seconds,
    /// Time of `step_time` in which a step waits for its samples.
    pub stall: Seconds,
    /// Time in which devices work on steps over all time (accelerator utilisation of MLPerf Storage).
    pub utilisation: f64,
    /// Seconds of the whole training, from the first read.
    pub time: Seconds,
    /// Seconds before that, in which data is downloaded or listed.
    pub download: Seconds,
    /// Requests that read objects of S3, of the whole training.
    pub requests: f64,
    /// The stage that a step waits for; nothing if it does not wait.
    pub slowest: Option<Bottleneck>,
    /// Samples a second that reading, decoding and copying would reach, all machines together.
    pub rates: [f64; LOADING],
}

impl StageTimes {
    fn stages(self) -> [Seconds; LOADING] {
        [self.read, self.decode, self.copy]
    }

    fn sum(self) -> Seconds {
        self.stages().into_iter().sum()
    }

    pub(super) fn slowest(self) -> Seconds {
        self.stages().into_iter().fold(Seconds::ZERO, Seconds::max)
    }
}

impl LoaderRates {
    /// The same for samples that are all of the mean size.
    #[must_use]
    pub fn of_equal_samples(self) -> Self {
        Self { deviation: 0.0, ..self }
    }

    /// Returns `true` if loaders have room ahead for micro-batches of so many samples.
    pub fn has_room_ahead(&self, micro_batch: u64) -> bool {
        micro_batch <= self.largest_micro_batch
    }

    /// Returns the outcome of `steps` steps that would take `step` each if their samples were there.
    pub fn feed(&self, step: Seconds, steps: u64) -> InputStall {
        let first_steps = self.data_samples.map_or(steps, |samples| samples.div_ceil(self.global_batch).min(steps));
        let first = self.pace(|kind| kind.first, step);
        let later = if first_steps < steps { self.pace(|kind| kind.later, step) } else { first };
        let times = |kind: &Kind| if first_steps < steps { kind.later } else { kind.first };
        let stall = (later - step).max(Seconds::ZERO);
        let slowest = self.slowest(times);
        let rates = std::array::from_fn(|stage| {
            let slowest = self.kinds.iter().map(|kind| times(kind).stages()[stage]).fold(Seconds::ZERO, Seconds::max);
            self.global_batch as f64 / slowest.0
        });
        let samples = |steps: u64| steps as f64 * self.global_batch as f64;
        let Requests { before, first: first_requests, later: later_requests } = self.requests;
        InputStall {
            step_time: later,
            first_step_time: first,
            stall,
            utilisation: step.0 / later.0,
            time: self.filling(step, first) + first * first_steps as f64 + later * (steps - first_steps) as f64,
            download: self.download,
            requests: before + samples(first_steps) * first_requests + samples(steps - first_steps) * later_requests,
            slowest: Some(slowest).filter(|_| stall.0 > 0.0),
            rates,
        }
    }

    /// Time that the first step waits for longer than those that follow it.
    fn filling(&self, step: Seconds, pace: Seconds) -> Seconds {
        let loaded = self.kinds.iter().map(|kind| kind.first.sum()).fold(Seconds::ZERO, Seconds::max);
        (loaded + step - pace).max(Seconds::ZERO)
    }

    /// Seconds from one step to the next.
    fn pace(&self, times: impl Fn(&Kind) -> StageTimes, step: Seconds) -> Seconds {
        if self.deviation > 0.0 {
            return self.uneven_pace(times, step);
        }
        let loading = self.kinds.iter().map(times);
        if self.prefetch == 0 {
            loading.map(StageTimes::sum).fold(Seconds::ZERO, Seconds::max) + step
        } else {
            loading.map(StageTimes::slowest).fold(step, Seconds::max)
        }
    }

    /// The same where samples differ in size: what a machine loads for a step is normally distributed, by the central
    /// limit theorem.
    fn uneven_pace(&self, times: impl Fn(&Kind) -> StageTimes, step: Seconds) -> Seconds {
        let normal = Normal::new(0.0, 1.0).expect("one is not negative");
        let uniform = Uniform::new(f64::EPSILON, 1.0).expect("one is more");
        let mut random = Pcg64::seed_from_u64(SEED);
        let batch = self.kinds.iter().map(|kind| times(kind).sum()).fold(Seconds::ZERO, Seconds::max) + step;
        // The pace is in proportion to all times.
        let scale = (LONGEST_BATCH.0 / batch.0).min(1.0);
        let mut loading = || {
            let mut machines = Vec::new();
            for kind in &self.kinds {
                for _ in 0..kind.machines {
                    let deviation = self.deviation / kind.samples.sqrt();
                    let factor = (1.0 + deviation * normal.inverse_cdf(uniform.sample(&mut random))).max(0.0);
                    machines.push(times(kind).stages().map(|stage| Span::from_seconds(stage * factor * scale)));
                }
            }
            machines
        };
        let batches = (0..BATCHES).map(|_| Batch { loading: loading(), step: Span::from_seconds(step * scale) });
        let ends: Vec<Instant> = step_ends(batches, self.prefetch as usize).collect();
        let span = ends[BATCHES - 1].since(ends[FILLING - 1]);
        Seconds(span.seconds().0 / ((BATCHES - FILLING) as f64 * scale))
    }

    fn slowest(&self, times: impl Fn(&Kind) -> StageTimes) -> Bottleneck {
        let stages = [Bottleneck::Storage, Bottleneck::Decode, Bottleneck::Copy];
        let all = self.kinds.iter().flat_map(|kind| stages.into_iter().zip(times(kind).stages()));
        all.max_by(|a, b| a.1.0.total_cmp(&b.1.0)).map_or(Bottleneck::Storage, |(stage, _)| stage)
    }
}
