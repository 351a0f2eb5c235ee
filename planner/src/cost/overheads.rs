//! Time and money around the steps of a training: start-up, checkpoints, reclaims and storage.

use super::run_conditions::RunConditions;
use crate::problem::{ForwardTimes, Hourly, Problem};
use trainyard_plan::document::CostParts;
use trainyard_plan::{Plan, Pricing, StorageMode};
use trainyard_sim::Machine;
use trainyard_sim::campaign::{Exposure, Reclaims, checkpoints, longest_interval, open_interval};
use trainyard_units::{Seconds, Usd};

/// The overheads of a training that do not depend on how long a step takes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Overheads {
    /// Time until the machines are there; it is not paid for.
    waiting: Seconds,
    /// Time from there until training can begin.
    software: Seconds,
    /// Writing a checkpoint.
    write: Seconds,
    /// Time from one checkpoint to the next; `None` if only the last step is followed by one.
    pub(super) interval: Option<Seconds>,
    /// The reclaims of machines, and the time of a restart without the data set; `None` where machines are not
    /// reclaimed, or nobody published how often.
    exposure: Option<Exposure>,
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
}

/// The cost of a training in time: its steps and its overheads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrainingCost {
    pub(crate) steps: Seconds,
    /// Time from the request for machines to the first step.
    pub(crate) start_up: Seconds,
    /// The part of the start-up during which the machines are paid for.
    paid_start_up: Seconds,
    /// Writing checkpoints.
    pub(crate) checkpoints: Seconds,
    /// Forward passes besides the steps.
    forward: ForwardTimes,
    /// Expected losses due to reclaims.
    pub(crate) reclaims: Option<Reclaims>,
}

impl TrainingCost {
    /// Computes the times of a training of so many steps: without overheads, where nothing is known of them, it takes its
    /// steps and its other forward passes.
    pub(crate) fn of(overheads: Option<&Overheads>, steps: u64, work: Work) -> Self {
        overheads.map_or_else(
            || {
                let nothing = Seconds(0.0);
                let (start_up, paid_start_up, checkpoints) = (nothing, nothing, nothing);
                Self { steps: work.steps, start_up, paid_start_up, checkpoints, forward: work.forward, reclaims: None }
            },
            |overheads| overheads.training_cost(steps, work),
        )
    }

    /// Computes what it costs on machines at so much by the hour, with what is stored besides, as the overheads say.
    pub(crate) fn cost(&self, hourly: Hourly, overheads: Option<&Overheads>, input: Option<StorageMode>) -> CostParts {
        let storage_hour = overheads.map_or(0.0, |overheads| overheads.storage_hour(input));
        CostParts {
            instances_usd: hourly.of_all(self.steps),
            start_up_usd: hourly.of_all(self.paid_start_up),
            storage_usd: storage_hour * self.elapsed().0 / 3600.0,
            checkpoints_usd: hourly.of_all(self.checkpoints),
            evaluations_usd: hourly.of_all(self.forward.evaluations),
            reference_usd: hourly.of_all(self.forward.reference),
            interruptions_usd: self.reclaims.map_or(0.0, |reclaims| {
                // While one is replaced, the others are paid for.
                let idle = hourly.of_others(reclaims.waiting);
                idle + hourly.of_all(reclaims.restarts + reclaims.lost + reclaims.saving)
            }),
        }
    }

    /// Returns the time from the request for machines to the last checkpoint.
    pub(crate) fn elapsed(&self) -> Seconds {
        self.steps + self.start_up + self.checkpoints + self.interrupted() + self.forward.total()
    }

    /// Returns the total time lost to reclaims.
    fn interrupted(&self) -> Seconds {
        self.reclaims.map_or(Seconds(0.0), |reclaims| reclaims.total())
    }
}

impl Overheads {
    /// Computes the overheads. Unknown values are left out, since a campaign asks for them: the rate of checkpoints to
    /// storage that nobody described, and the reclaim band of a spot instance that nobody published.
    pub(crate) fn new(conditions: &RunConditions<'_>) -> Self {
        let write = conditions.transfer_time().unwrap_or(Seconds(0.0));
        let settings = conditions.settings;
        let known = conditions.hazards(settings.scenario);
        let hazards = known.clone().or_else(|_| {
            let pricing = Pricing::OnDemand;
            RunConditions { pricing, ..*conditions }.hazards(settings.scenario)
        });
        let losing = hazards.map_or(0.0, |hazards| hazards.losing_rate(conditions.instances(), write));
        let interval = settings.interval.or_else(|| {
            let open = open_interval(losing, write)?;
            Some(Seconds(open.0.min(longest_interval(write).0)))
        });
        let exposure = known.ok().filter(|_| conditions.pricing == Pricing::Spot).map(|hazards| Exposure {
            instances: conditions.instances(),
            hazards,
            restart: conditions.restart().software + write,
            write,
            interval,
        });
        let start = conditions.start();
        let copies = |storage: &StorageMode| {
            let price = RunConditions { input: Some(*storage), ..*conditions }.copies_hour();
            (price > Usd(0.0)).then_some((*storage, price))
        };
        let kept = if settings.data.is_some() { StorageMode::ALL } else { &[] };
        Self {
            waiting: start.machines,
            software: start.software,
            write,
            interval,
            exposure,
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
        let Work { steps: time, forward, download } = work;
        let step = Seconds(time.0 / steps as f64);
        let written = self.interval.map_or(1, |interval| checkpoints(steps, step, interval));
        let paid_start_up = self.software + download;
        let reclaims = self.exposure.map(|exposure| {
            let exposure = Exposure { restart: exposure.restart + download, ..exposure };
            exposure.reclaims(time + forward.total(), step)
        });
        TrainingCost {
            steps: time,
            start_up: self.waiting + paid_start_up,
            paid_start_up,
            checkpoints: Seconds(self.write.0 * written as f64),
            forward,
            reclaims,
        }
    }

    /// Returns the price of what is stored for an hour, in USD, if samples are read from there.
    fn storage_hour(&self, input: Option<StorageMode>) -> f64 {
        let copies = self.copies_hour.iter().find(|(storage, _)| Some(*storage) == input);
        self.checkpoints_hour.0 + copies.map_or(0.0, |(_, price)| price.0)
    }
}
