//! What a training takes and costs besides its steps, in closed form: the search ranks by it, and predictions carry it.
//!
//! Start-up, checkpoints, storage and what reclaims of spot instances add are expected values of a training in which
//! nothing fails. What failures and tests of the model add is drawn by `campaign`, from the same surroundings.

use crate::campaign::{Saved, Surroundings, ranks_of_state, settings};
use crate::job::JobError;
use crate::problem::{Place, Problem};
use crate::search::Evaluated;
use crate::space::Candidate;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{Price, Service};
use trainyard_plan::document::{CostParts, ExpectedInterruptions, Prediction, PriceUsed};
use trainyard_plan::{JobSpec, Plan, Precision, Pricing, StateSharding, StorageMode, checkpoint_bytes_of};
use trainyard_sim::Machine;
use trainyard_sim::campaign::{Exposure, Reclaims, checkpoints, open_interval};
use trainyard_units::{Bytes, Seconds, Usd, UsdPerHour};

/// The overheads of a training that do not depend on how long a step takes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Overheads {
    instances: f64,
    /// Time until the machines are there; it is not paid for.
    waiting: Seconds,
    /// Time from there until training can begin.
    software: Seconds,
    /// Writing a checkpoint.
    write: Seconds,
    /// Time from one checkpoint to the next; `None` if only the last step is followed by one.
    interval: Option<Seconds>,
    /// The reclaims of machines, and the time of a restart without the data set; `None` where machines are not
    /// reclaimed, or nobody published how often.
    exposure: Option<Exposure>,
    /// Price of storing checkpoints for an hour.
    checkpoints_hour: Usd,
    /// Price of storing the data set for an hour, by the storage from which samples are read; free storage is left out.
    copies_hour: Vec<(StorageMode, Usd)>,
}

/// The times of a training and its overheads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Course {
    /// All steps.
    pub(crate) steps: Seconds,
    /// Time from the request for machines to the first step.
    pub(crate) start_up: Seconds,
    /// The part of the start-up during which the machines are paid for.
    paid_start_up: Seconds,
    /// Writing checkpoints.
    pub(crate) checkpoints: Seconds,
    /// Expected losses due to reclaims.
    pub(crate) reclaims: Option<Reclaims>,
}

impl Course {
    /// Returns the time from the request for machines to the last checkpoint.
    pub(crate) fn elapsed(&self) -> Seconds {
        self.steps + self.start_up + self.checkpoints + self.interrupted()
    }

    /// Returns the total time lost to reclaims.
    fn interrupted(&self) -> Seconds {
        self.reclaims.map_or(Seconds(0.0), |reclaims| reclaims.total())
    }
}

impl Overheads {
    /// Computes the overheads. Unknown values are left out, since a campaign asks for them: the rate of checkpoints to
    /// storage that nobody described, and the reclaim band of a spot instance that nobody published.
    pub(crate) fn new(around: &Surroundings<'_>) -> Self {
        let write = around.transfer_time().unwrap_or(Seconds(0.0));
        let settings = around.settings;
        let known = around.hazards(settings.scenario);
        let hazards = known.clone().or_else(|_| {
            let pricing = Pricing::OnDemand;
            Surroundings { pricing, ..*around }.hazards(settings.scenario)
        });
        let losing = hazards.map_or(0.0, |hazards| hazards.losing_rate(around.instances(), write));
        let interval = settings.interval.or_else(|| open_interval(losing, write));
        let exposure = known.ok().filter(|_| around.pricing == Pricing::Spot).map(|hazards| Exposure {
            instances: around.instances(),
            hazards,
            restart: Surroundings::restart().software + write,
            write,
            interval,
        });
        let start = around.start();
        let copies = |storage: &StorageMode| {
            let price = Surroundings { input: Some(*storage), ..*around }.copies_hour();
            (price > Usd(0.0)).then_some((*storage, price))
        };
        let kept = if settings.data.is_some() { StorageMode::ALL } else { &[] };
        Self {
            instances: f64::from(around.instances()),
            waiting: start.machines,
            software: start.software,
            write,
            interval,
            exposure,
            checkpoints_hour: around.checkpoints_hour(),
            copies_hour: kept.iter().filter_map(copies).collect(),
        }
    }

    /// Computes the overheads of a plan on machines at a price.
    pub(crate) fn of_plan(problem: &Problem, plan: &Plan, machine: &Machine, price: &Price) -> Self {
        Self::new(&Surroundings {
            machine,
            settings: &problem.settings,
            saved: Saved::of(plan),
            pricing: plan.pricing(),
            region: Some(&price.region),
            input: None,
        })
    }

    /// Computes the times of a training of `steps` steps that take `time` together, after a download. No part gets
    /// shorter as `time` gets longer, so that a lower bound of the time gives one of the whole.
    pub(crate) fn course(&self, steps: u64, time: Seconds, download: Seconds) -> Course {
        let step = Seconds(time.0 / steps as f64);
        let written = self.interval.map_or(1, |interval| checkpoints(steps, step, interval));
        let paid_start_up = self.software + download;
        let reclaims = self.exposure.map(|exposure| {
            let exposure = Exposure { restart: exposure.restart + download, ..exposure };
            exposure.reclaims(time, step)
        });
        Course {
            steps: time,
            start_up: self.waiting + paid_start_up,
            paid_start_up,
            checkpoints: Seconds(self.write.0 * written as f64),
            reclaims,
        }
    }

    /// Computes the cost at a price of one machine.
    pub(crate) fn cost(&self, course: &Course, hourly: UsdPerHour, input: Option<StorageMode>) -> CostParts {
        let machines = |time: Seconds| self.instances * (hourly * time).0;
        let copies = self.copies_hour.iter().find(|(storage, _)| Some(*storage) == input);
        let storage_hour = self.checkpoints_hour.0 + copies.map_or(0.0, |(_, price)| price.0);
        CostParts {
            instances_usd: machines(course.steps),
            start_up_usd: machines(course.paid_start_up),
            storage_usd: storage_hour * course.elapsed().0 / 3600.0,
            checkpoints_usd: machines(course.checkpoints),
            interruptions_usd: course.reclaims.map_or(0.0, |reclaims| {
                // While one is replaced, the others are paid for.
                let idle = (hourly * reclaims.waiting).0 * (self.instances - 1.0);
                idle + machines(reclaims.restarts + reclaims.lost + reclaims.saving)
            }),
        }
    }

    /// Computes the cost of a plan that a search found, at a price of one machine.
    pub(crate) fn cost_of(&self, evaluated: &Evaluated, steps: u64, hourly: UsdPerHour) -> CostParts {
        let course = self.course(steps, Seconds(evaluated.time_s), Seconds(evaluated.download_s));
        self.cost(&course, hourly, evaluated.plan.input().map(|input| input.storage))
    }
}

/// Overheads by the ranks that hold a state and the number format: with the state whole on each replica, and sharded.
type Site = BTreeMap<(u32, Precision), [Overheads; 2]>;

/// The overheads of all candidates of a search on rented machines.
#[derive(Default)]
pub(crate) struct SearchOverheads {
    /// By type and number of machines.
    sites: Vec<BTreeMap<u32, Site>>,
}

impl SearchOverheads {
    pub(crate) fn new(problem: &Problem, candidates: &[Candidate]) -> Self {
        let Place::Rented(rental) = &problem.place else { return Self::default() };
        let graph = problem.model.graph();
        let bytes_of = |precision| checkpoint_bytes_of(&graph, precision, problem.optimizer);
        let bytes: BTreeMap<Precision, Bytes> =
            problem.precisions.iter().map(|precision| (*precision, bytes_of(*precision))).collect();
        let mut machines: BTreeMap<(usize, u32), Machine> = BTreeMap::new();
        let mut all = Self::default();
        for candidate in candidates {
            let Candidate { choice, instances, precision, .. } = *candidate;
            let site = all.site(choice, instances);
            let ranks = ranks_of_state(candidate.parallel);
            if site.contains_key(&(ranks, precision)) {
                continue;
            }
            let machine =
                machines.entry((choice, instances)).or_insert_with(|| problem.place.machine(choice, instances, None));
            let bytes = bytes.get(&precision).copied().unwrap_or_else(|| bytes_of(precision));
            let overheads = |shared_out| {
                Overheads::new(&Surroundings {
                    machine,
                    settings: &problem.settings,
                    saved: Saved { bytes, ranks, shared_out },
                    pricing: rental.pricing,
                    region: problem.place.price(choice).map(|price| price.region.as_str()),
                    input: None,
                })
            };
            site.insert((ranks, precision), [false, true].map(overheads));
        }
        all
    }

    fn site(&mut self, choice: usize, instances: u32) -> &mut Site {
        if self.sites.len() <= choice {
            self.sites.resize_with(choice + 1, BTreeMap::new);
        }
        self.sites[choice].entry(instances).or_default()
    }

    /// Returns the overheads of a candidate's plans whose replicas shard their state, or do not; `None` on owned
    /// machines.
    pub(crate) fn of(&self, candidate: &Candidate, shared_out: bool) -> Option<&Overheads> {
        let site = self.sites.get(candidate.choice)?.get(&candidate.instances)?;
        let both = site.get(&(ranks_of_state(candidate.parallel), candidate.precision))?;
        Some(&both[usize::from(shared_out)])
    }
}

/// Returns `true` if the replicas of a plan shard their state.
pub(crate) fn shares_out(plan: &Plan) -> bool {
    plan.state_sharding() != StateSharding::None
}

/// The rent of a plan's machines: the price of an hour, and the overheads that it applies to besides the steps.
#[derive(Clone, Debug)]
pub(crate) struct Rent {
    pub(crate) price: PriceUsed,
    pub(crate) overheads: Overheads,
}

impl Rent {
    /// Computes the rent of a plan's machines at a price, with the job's campaign.
    ///
    /// # Errors
    ///
    /// When that is wrong, or does not go with the terms.
    pub(crate) fn new(job: &JobSpec, plan: &Plan, machine: &Machine, price: PriceUsed) -> Result<Self, JobError> {
        let settings = settings(job, plan.model(), plan.pricing(), Service::named(&price.service))?;
        let overheads = Overheads::new(&Surroundings {
            machine,
            settings: &settings,
            saved: Saved::of(plan),
            pricing: plan.pricing(),
            region: Some(&price.region),
            input: None,
        });
        Ok(Self { price, overheads })
    }

    /// Adds the overheads and the cost of the whole training to a prediction; `time_of` gives the time of all steps for
    /// a step time.
    pub(crate) fn add_to(self, prediction: &mut Prediction, input: Option<StorageMode>, time_of: impl Fn(f64) -> f64) {
        let download = Seconds(prediction.input.map_or(0.0, |input| input.download_s));
        let course = |time: f64| self.overheads.course(prediction.steps, Seconds(time), download);
        let cost = |time: f64, usd: f64| self.overheads.cost(&course(time), UsdPerHour(usd), input);
        let (own, parts) = (course(prediction.time_s), cost(prediction.time_s, self.price.usd_per_hour));
        let [low, high] = prediction.interval_s.map(time_of);
        let ends = [cost(low, self.price.low_usd_per_hour), cost(high, self.price.high_usd_per_hour)];
        (prediction.start_up_s, prediction.checkpoints_s) = (Some(own.start_up.0), Some(own.checkpoints.0));
        prediction.interruptions = own.reclaims.map(|reclaims| ExpectedInterruptions {
            expected: reclaims.expected,
            waiting_s: reclaims.waiting.0,
            restarts_s: reclaims.restarts.0,
            lost_s: (reclaims.lost + reclaims.saving).0,
        });
        prediction.checkpoint_interval_s = self.overheads.interval.map(|interval| interval.0);
        (prediction.cost_usd, prediction.cost_parts) = (Some(parts.total()), Some(parts));
        prediction.cost_interval_usd = Some(ends.map(|parts| parts.total()));
        prediction.price = Some(self.price);
    }
}
