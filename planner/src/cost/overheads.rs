//! Time and money around the steps of a training: start-up, checkpoints, lost machines and storage.

use super::run_conditions::RunConditions;
use crate::problem::{ForwardTimes, Hourly, Problem};
use trainyard_hardware_profiles::catalog;
use trainyard_plan::document::{CostParts, Prediction};
use trainyard_plan::{Plan, Pricing, StorageMode};
use trainyard_sim::Machine;
use trainyard_sim::campaign::{Exposure, JobChain, Losses, checkpoints, longest_interval, open_interval};
use trainyard_units::{Seconds, Usd};

/// What the shortest job of a scheduler does in which a training gets on.
pub(crate) const JOB_OF_A_STEP: &str =
    "a start-up, reading a checkpoint, a step, and the time at its end to write one and be queued again";

/// The overheads of a training that do not depend on how long a step takes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Overheads {
    /// Time in the scheduler's queue, which any plan waits; it is not paid for.
    queue: Seconds,
    /// Time from there until the machines are there; it is not paid for either.
    waiting: Seconds,
    /// Time from there until training can begin.
    software: Seconds,
    /// The part of it in which trained weights are read.
    pub(super) weights: Seconds,
    /// Writing a checkpoint.
    write: Seconds,
    /// Time from one checkpoint to the next; `None` if only the last step is followed by one.
    pub(super) interval: Option<Seconds>,
    /// The longest that one job of the scheduler may run.
    pub(super) job_limit: Option<Seconds>,
    /// How often machines are lost, and the time of a restart without the data set.
    exposure: Exposure,
    /// `true` if machines are reclaimed and it is known how often.
    reclaimed: bool,
    /// Price of storing checkpoints for an hour.
    checkpoints_hour: Usd,
    /// Price of storing the data set for an hour, by the storage from which samples are read; free storage is left out.
    copies_hour: Vec<(StorageMode, Usd)>,
}

/// The work of a training: what its overheads follow from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// All steps.
    pub(crate) steps: Seconds,
    /// Forward passes besides them.
    pub(crate) forward: ForwardTimes,
    /// Downloading the data set.
    pub(crate) download: Seconds,
    /// Requests that read samples from S3.
    pub(crate) requests: f64,
}

impl Work {
    /// Returns the work of the training that a prediction is of.
    pub(crate) fn of(prediction: &Prediction) -> Self {
        let seconds = |seconds: Option<f64>| Seconds(seconds.unwrap_or(0.0));
        let (evaluations, reference) = (seconds(prediction.evaluations_s), seconds(prediction.reference_s));
        Self {
            steps: Seconds(prediction.time_s),
            forward: ForwardTimes { evaluations, reference },
            download: Seconds(prediction.input.map_or(0.0, |input| input.download_s)),
            requests: prediction.input.map_or(0.0, |input| input.requests),
        }
    }
}

/// The cost of a training in time: its steps and its overheads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrainingCost {
    pub(crate) steps: Seconds,
    /// Jobs of the scheduler, one after another.
    pub(crate) jobs: u64,
    /// Reading weights and the data set before the first step, a part of the start-up.
    read: Seconds,
    /// Time from the request for machines to the first step, of all jobs; those after the first read a checkpoint.
    pub(crate) start_up: Seconds,
    /// The part of the start-up during which the machines are paid for.
    paid_start_up: Seconds,
    /// The part of the start-up in the scheduler's queue, of all jobs.
    pub(crate) queued: Seconds,
    /// Writing checkpoints.
    pub(crate) checkpoints: Seconds,
    /// Forward passes besides the steps.
    forward: ForwardTimes,
    /// Requests that read samples from S3; what is read again after a loss is left out.
    requests: f64,
    /// What reclaims of machines are expected to add, where they are reclaimed and it is known how often.
    pub(crate) reclaims: Option<Losses>,
    /// What failures of machines are expected to add, where overheads are known.
    pub(crate) failures: Option<Losses>,
}

impl TrainingCost {
    /// Computes the times of a training of so many steps: without overheads, where nothing is known of them, it takes its
    /// steps and its other forward passes.
    pub(crate) fn of(overheads: Option<&Overheads>, steps: u64, work: Work) -> Self {
        overheads.map_or_else(
            || {
                let nothing = Seconds(0.0);
                Self {
                    steps: work.steps,
                    jobs: 1,
                    read: work.download,
                    start_up: nothing,
                    paid_start_up: nothing,
                    queued: nothing,
                    checkpoints: nothing,
                    forward: work.forward,
                    requests: work.requests,
                    reclaims: None,
                    failures: None,
                }
            },
            |overheads| overheads.training_cost(steps, work),
        )
    }

    /// Computes what it costs on machines at so much by the hour, with what is stored besides, as the overheads say.
    pub(crate) fn cost(&self, hourly: Hourly, overheads: Option<&Overheads>, input: Option<StorageMode>) -> CostParts {
        let storage_hour = overheads.map_or(0.0, |overheads| overheads.storage_hour(input));
        let of_losses = |losses: Option<Losses>| {
            losses.map_or(0.0, |losses| {
                // While one is replaced, the others are paid for; a job that is queued again has given them back.
                hourly.of_others(losses.waiting) + hourly.of_all(losses.restarts + losses.lost + losses.saving)
            })
        };
        let used = CostParts {
            instances_usd: hourly.of_all(self.steps),
            start_up_usd: hourly.of_all(self.paid_start_up),
            storage_usd: storage_hour * self.elapsed().0 / 3600.0,
            requests_usd: self.requests / 1000.0 * catalog().storage().s3.thousand_reads.value.0,
            checkpoints_usd: hourly.of_all(self.checkpoints),
            evaluations_usd: hourly.of_all(self.forward.evaluations),
            reference_usd: hourly.of_all(self.forward.reference),
            interruptions_usd: of_losses(self.reclaims),
            failures_usd: of_losses(self.failures),
            unused_usd: 0.0,
        };
        CostParts {
            unused_usd: hourly.unused(self.elapsed(), used.total() - used.storage_usd - used.requests_usd),
            ..used
        }
    }

    /// Returns the time from the request for machines to the last checkpoint.
    pub(crate) fn elapsed(&self) -> Seconds {
        self.steps + self.start_up + self.checkpoints + self.interrupted() + self.forward.total()
    }

    /// Returns the time on machines that have started to the last checkpoint, without reclaims, with what is read before the
    /// first step: trained weights and the data set.
    pub(crate) fn training(&self) -> Seconds {
        let failed = self.failures.map_or(Seconds(0.0), |failures| failures.total());
        self.read + self.steps + self.checkpoints + self.forward.total() + failed
    }

    /// Returns the total time lost with machines.
    fn interrupted(&self) -> Seconds {
        [self.reclaims, self.failures].into_iter().flatten().map(|losses| losses.total()).sum()
    }
}

impl Overheads {
    /// Computes the overheads. Unknown values are left out, since a campaign asks for them: the rate of checkpoints to
    /// storage that nobody described, and the reclaim band of a spot instance that nobody published.
    pub(crate) fn new(conditions: &RunConditions<'_>) -> Self {
        let write = conditions.transfer_time().unwrap_or(Seconds(0.0));
        let settings = conditions.settings;
        let known = conditions.hazards(settings.scenario);
        let reclaimed = known.is_ok() && conditions.pricing == Pricing::Spot;
        let hazards = known.unwrap_or_else(|_| conditions.failures());
        let interval = settings.interval.or_else(|| {
            let open = open_interval(hazards.losing_rate(conditions.instances(), write), write)?;
            Some(Seconds(open.0.min(longest_interval(write).0)))
        });
        let restart = conditions.restart();
        let exposure = Exposure {
            instances: conditions.instances(),
            hazards,
            restart: restart.software + write,
            queue: restart.queue,
            replacing: restart.machines,
            write,
            interval,
        };
        let start = conditions.start();
        let copies = |storage: &StorageMode| {
            let price = RunConditions { input: Some(*storage), ..*conditions }.copies_hour();
            (price > Usd(0.0)).then_some((*storage, price))
        };
        let kept = if settings.data.is_some() { StorageMode::ALL } else { &[] };
        Self {
            queue: start.queue,
            waiting: start.machines,
            software: start.software,
            weights: conditions.loading(),
            write,
            interval,
            job_limit: settings.job_limit,
            exposure,
            reclaimed,
            checkpoints_hour: conditions.checkpoints_hour(),
            copies_hour: kept.iter().filter_map(copies).collect(),
        }
    }

    /// Computes the overheads of a plan on the machines of a choice; `None` where nothing is known of them.
    pub(crate) fn of_plan(problem: &Problem, plan: &Plan, machine: &Machine, choice: usize) -> Option<Self> {
        let rented = problem.place.offered(choice).map(Into::into);
        let conditions = RunConditions::of(plan, machine, &problem.settings, rented);
        conditions.are_known().then(|| Self::new(&conditions))
    }

    /// Computes the times of a training of `steps` steps that take `time` together, with forward passes besides them,
    /// after a download. No part gets shorter as one of these gets longer, so that lower bounds of them give one of the
    /// whole.
    fn training_cost(&self, steps: u64, work: Work) -> TrainingCost {
        let Work { steps: time, forward, download, requests } = work;
        let step = Seconds(time.0 / steps as f64);
        let written = self.interval.map_or(1, |interval| checkpoints(steps, step, interval));
        let start = self.software + download;
        let between = Seconds(self.write.0 * written.saturating_sub(1) as f64);
        let each = Seconds((time + forward.total() + between).0 / steps as f64);
        let jobs = self.chain(download).map_or(1, |chain| chain.jobs(steps, each));
        let again = (jobs - 1) as f64;
        let paid_start_up = Seconds(start.0 * jobs as f64 + self.write.0 * again);
        let exposure = Exposure { restart: self.exposure.restart + download, ..self.exposure };
        let exposed = time + forward.total();
        TrainingCost {
            steps: time,
            jobs,
            read: self.weights + download,
            start_up: Seconds((self.queue + self.waiting).0 * jobs as f64) + paid_start_up,
            paid_start_up,
            queued: Seconds(self.queue.0 * jobs as f64),
            checkpoints: Seconds(self.write.0 * (written as f64 + again)),
            forward,
            requests,
            reclaims: self.reclaimed.then(|| exposure.reclaims(exposed, step)),
            failures: Some(exposure.failures(exposed, step)),
        }
    }

    /// Returns what jobs of the scheduler do besides training, if their time is limited. A checkpoint is read as fast as it is
    /// written.
    fn chain(&self, download: Seconds) -> Option<JobChain> {
        let (start, write) = (self.software + download, self.write);
        self.job_limit.map(|longest| JobChain { longest, start, read: write, write })
    }

    /// Returns the least limit of a job with which a training of such steps gets on, if its limit is less.
    pub(crate) fn least_limit(&self, step: Seconds, download: Seconds) -> Option<Seconds> {
        let chain = self.chain(download)?;
        Some(chain.least(step)).filter(|least| *least > chain.longest)
    }

    /// Returns the price of what is stored for an hour, in USD, if samples are read from there.
    fn storage_hour(&self, input: Option<StorageMode>) -> f64 {
        let copies = self.copies_hour.iter().find(|(storage, _)| Some(*storage) == input);
        self.checkpoints_hour.0 + copies.map_or(0.0, |(_, price)| price.0)
    }
}
