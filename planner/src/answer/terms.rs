//! What to be careful about with the terms on which machines are rented.

use super::reclaimed::spot;
use super::unlikely::CERTAIN;
use crate::amount::{expected_count, likelihood};
use crate::cost::{Rented, RunConditions, spread_of};
use crate::problem::{Place, Quotas, class, price_of, purchase, settings_of};
use crate::relative::percent_of;
use trainyard_hardware_profiles::{
    Instance, LONGEST_BLOCK, PriceQuery, Purchase, Service, blocks_of, booked, booked_instances, usable_in_block,
};
use trainyard_plan::document::{Prediction, PriceUsed};
use trainyard_plan::{JobSpec, Plan, Pricing};
use trainyard_sim::Machine;
use trainyard_units::{Seconds, counted, human_count, human_duration};

/// Share of a training from which failures are told.
const FAILURES_TOLD: f64 = 0.01;

/// Share of a training from which the writing of checkpoints is told.
const CHECKPOINTS_TOLD: f64 = 0.02;

/// Share of a training from which its start-up is told.
const START_UP_TOLD: f64 = 0.25;

/// A plan on rented machines, with everything that warnings of its terms depend on.
pub(crate) struct Terms<'a> {
    pub(crate) job: &'a JobSpec,
    pub(crate) prediction: &'a Prediction,
    pub(crate) plan: &'a Plan,
    pub(crate) machine: Machine,
    /// The type of the machines, with its prices.
    pub(crate) instance: &'a Instance,
    pub(crate) service: Service,
    /// The quotas that the job states.
    pub(crate) quotas: &'a Quotas,
}

impl Terms<'_> {
    /// Lists the warnings that follow from the rental terms of a plan.
    pub(crate) fn all(&self) -> Vec<String> {
        let mut warnings: Vec<String> = [spot(self), self.reserved(), self.quota()].into_iter().flatten().collect();
        let prediction = self.prediction;
        let unasked = "the model is not evaluated unless `campaign.evaluation` says how often";
        let unasked = prediction.evaluations_s.is_none().then(|| unasked.to_owned());
        let told: Vec<String> = self.availability().into_iter().chain(unasked).collect();
        warnings.extend((!told.is_empty()).then(|| told.join("; ")));
        warnings.extend(self.failures());
        warnings.extend(self.checkpoints());
        warnings.extend(self.start_up());
        warnings
    }

    /// Says what is not known of the availability of the machines; nothing of those of a capacity block, which are there.
    fn availability(&self) -> Option<String> {
        if self.plan.pricing() == Pricing::CapacityBlock {
            return None;
        }
        Some(match self.prediction.price.as_ref().filter(|price| !price.zones.is_empty()) {
            None => "availability of instances is not known".to_owned(),
            Some(price) => {
                let (instance, zones) = (&self.instance.name, price.zones.join(", "));
                format!("{instance} is offered in {zones}; whether any are free there is not known")
            }
        })
    }

    /// Warns of machines that fail in a large or long training.
    fn failures(&self) -> Option<String> {
        let whole = self.prediction.elapsed_s();
        let failures = self.prediction.failures.filter(|own| own.total_s() > FAILURES_TOLD * whole)?;
        Some(format!(
            "{} failures of machines are expected and are in time and cost: {} on average; `trainyard simulate --campaign` \
             shows how much that varies, and `campaign.node_mtbf` sets how often machines fail",
            expected_count(failures.expected),
            human_duration(Seconds(failures.total_s()))
        ))
    }

    /// Warns of checkpoints whose writing takes long at a rate that nobody stated.
    fn checkpoints(&self) -> Option<String> {
        let prediction = self.prediction;
        let written = prediction.checkpoints_s.filter(|time| *time > CHECKPOINTS_TOLD * prediction.elapsed_s())?;
        let price = prediction.price.as_ref()?;
        let settings = settings_of(self.job, self.plan, Some(price)).ok().filter(|own| own.bandwidth.is_none())?;
        let conditions = RunConditions::of(self.plan, &self.machine, &settings, Rented::at(price));
        let rate = conditions.checkpoint_rate().ok()?.0;
        let stated = self.job.campaign.as_ref().is_some_and(|campaign| campaign.checkpoint_interval.is_some());
        let rarely = if stated { ", and campaign.checkpoint_interval how often they are" } else { "" };
        let beside = if self.machine.stack.runs.own_models { "; `--async-save` hides most of it" } else { "" };
        Some(format!(
            "training stops for {} ({} of the time) while checkpoints are written, at {:.2} GB/s of all machines together: \
             campaign.checkpoint_bandwidth sets what your storage takes{rarely}{beside}",
            human_duration(Seconds(written)),
            percent_of(written / prediction.elapsed_s()),
            rate.0 / 1e9
        ))
    }

    /// Warns of a training of which the start-up is a large part.
    fn start_up(&self) -> Option<String> {
        let whole = self.prediction.elapsed_s();
        let start_up = self.prediction.start_up_s? - self.prediction.queued_s.unwrap_or(0.0);
        (start_up > START_UP_TOLD * whole).then(|| {
            let compiled = self.machine.stack.runs.compiled;
            let beside = if compiled { "; what compiling takes is not counted" } else { "" };
            let weights = if self.job.training.method.is_some() { ", reading weights" } else { "" };
            format!(
                "{} of {} are start-up: finding and booting machines, image and framework (medians){weights}, and copying data, where \
                 it is copied first{beside}",
                human_duration(Seconds(start_up)),
                human_duration(Seconds(whole))
            )
        })
    }

    /// Lists those that make a plan more expensive than it looks, or impossible: reclaims, a reservation, too small a quota.
    pub(crate) fn costly(&self) -> Vec<String> {
        [spot(self), self.reserved(), self.block(), self.over_quota()].into_iter().flatten().collect()
    }

    /// Warns of what a reservation costs beyond this training.
    fn reserved(&self) -> Option<String> {
        let (prediction, pricing) = (self.prediction, self.plan.pricing());
        let term = purchase(pricing).term()?;
        let (price, instances) = (prediction.price.as_ref()?, self.plan.cluster().instances);
        let years = years(pricing);
        let share = prediction.elapsed_s() / term.0;
        let whole = price.of_all(instances) * term.0 / 3600.0;
        let used = match share {
            share if share > 1.0 => {
                format!("the training takes {}, longer than that", human_duration(Seconds(prediction.elapsed_s())))
            }
            share if share < 0.001 => "this training uses less than 0.1 % of it".into(),
            share => format!("this training uses {:.1} % of it", 100.0 * share),
        };
        let each = if instances == 1 { "the instance costs" } else { "the instances cost" };
        Some(format!(
            "reserved instances are paid for {years}, used or not: {used}; the cost here is the hourly price of the \
             hours used, and for the whole term {each} {} USD{}",
            human_count(whole.round() as u64),
            break_even(price, self.instance, self.service).unwrap_or_default()
        ))
    }

    /// Warns of what a capacity block costs whether it is used or not, and if it ends before a slow training.
    pub(crate) fn block(&self) -> Option<String> {
        let (prediction, cluster) = (self.prediction, self.plan.cluster());
        if self.plan.pricing() != Pricing::CapacityBlock {
            return None;
        }
        let price = prediction.price.as_ref()?;
        let of = |elapsed: f64| booked(Seconds(elapsed)).0;
        let instances = booked_instances(cluster.instances);
        let usd = |block: f64| human_count((f64::from(instances) * price.usd_per_hour * block / 3600.0).round() as u64);
        let days = |block: f64| counted((block / 86_400.0) as u64, "day");
        let elapsed = prediction.elapsed_s();
        let block = of(elapsed);
        let longest = LONGEST_BLOCK.0;
        let told = if block > longest {
            format!(
                "no capacity block is longer than {}: the training needs several, one after another, {} in all of {} for {} \
                 USD, and none of them is sure to follow on the one before; ",
                days(longest),
                days(block),
                counted(instances.into(), "instance"),
                usd(block)
            )
        } else {
            format!(
                "{} for {} costs {} USD, paid in advance, and the training uses {:.0} % of its time{}; ",
                blocks_of(instances),
                days(block),
                usd(block),
                100.0 * elapsed / block,
                long_enough(prediction, usable_in_block(Seconds(block)).0).unwrap_or_default()
            )
        } + "`aws ec2 describe-capacity-block-offerings` tells when one can begin and what it costs now";
        let slow = elapsed + prediction.time_s * (prediction.interval_s[1] / prediction.step_time_s - 1.0);
        let longer = of(slow);
        let tight = (longer > block).then(|| {
            let ends = format!(
                ". At the slow end of the interval the training takes {} and the block ends before it: ",
                human_duration(Seconds(slow))
            );
            let beyond = format!("{} cost {} USD", days(longer), usd(longer));
            if longer <= longest {
                return format!("{ends}{beyond}, or extend the block in time");
            }
            format!(
                "{ends}no block is longer than {}, so that it takes another one after it, which is not sure to be had; {beyond} \
                 in all",
                days(longest)
            )
        });
        Some(told + &tight.filter(|_| block <= longest).unwrap_or_default())
    }

    /// Warns of how much of an unstated quota a plan takes, or how much of a stated one it lacks.
    fn quota(&self) -> Option<String> {
        let (instance, pricing) = (self.instance, self.plan.pricing());
        if self.quotas.most(instance).is_some() {
            return self.over_quota();
        }
        // Amazon EC2 User Guide, "Capacity Blocks for ML": they do not count towards limits of instances on demand.
        if pricing == Pricing::CapacityBlock {
            return None;
        }
        let share = QuotaShare::of(instance, self.service, pricing);
        let taken = share.told(u64::from(self.plan.cluster().instances) * share.each);
        Some(format!(
            "the plan takes {taken}: see what your account may run under Service Quotas (new accounts have little or nothing), and \
             set `cluster.quotas` to that"
        ))
    }

    /// Warns of how much of a stated quota a plan lacks: if the number of instances is held, it is what the user wants.
    fn over_quota(&self) -> Option<String> {
        let lacking = self.quotas.refusal(self.instance, self.plan.cluster().instances)?;
        Some(format!("the plan {lacking}; have the quota raised before, or hold fewer instances"))
    }
}

/// What an instance takes of a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaShare {
    /// vCPUs on EC2, one on SageMaker.
    pub each: u64,
    /// The quota: equal ones are the same.
    pub quota: String,
    unit: &'static str,
    more: &'static str,
}

impl QuotaShare {
    /// Returns what an instance takes of the quota that applies to it on these terms.
    pub fn of(instance: &Instance, service: Service, pricing: Pricing) -> Self {
        let Some(class) = class(instance).filter(|_| service == Service::Ec2) else {
            return Self { each: 1, quota: format!("the quota of {}", instance.name), unit: "", more: "" };
        };
        let (quota, more) = match pricing {
            Pricing::Spot if instance.name.starts_with("p5") => {
                ("the spot quota of P5 instances (`p5*`)".into(), ", apart from that of other `P` instances")
            }
            // Amazon EC2 User Guide, "Spot Instance quotas".
            Pricing::Spot => (format!("the spot quota of `{class}` instances"), ""),
            _ => (format!("the quota of `{class}` instances"), ""),
        };
        Self { each: u64::from(instance.vcpus), quota, unit: " vCPUs", more }
    }

    /// Says how much of the quota is taken: `192 vCPUs of the quota of `P` instances`.
    pub fn told(&self, taken: u64) -> String {
        format!("{}{} of {}{}", human_count(taken), self.unit, self.quota, self.more)
    }
}

/// Instances of a type that several jobs share.
#[derive(Clone, Copy, Debug)]
pub struct SharedInstances<'a> {
    pub instance: &'a Instance,
    pub service: Service,
    pub pricing: Pricing,
    /// What one of them costs.
    pub price: &'a PriceUsed,
    /// The most that are held at once.
    pub most: u32,
    /// Instances times the time for which they are paid.
    pub paid: Seconds,
}

impl SharedInstances<'_> {
    /// Warns of what a reservation of these instances costs beyond the jobs that share them.
    pub fn reserved(&self) -> Option<String> {
        let term = purchase(self.pricing).term()?;
        let (name, most) = (&self.instance.name, self.most);
        let share = self.paid.0 / (f64::from(most) * term.0);
        let used = match share {
            share if share > 1.0 => "the jobs use them for longer than that".into(),
            share if share < 0.001 => "the jobs use less than 0.1 % of it".into(),
            share => format!("the jobs use {:.1} % of it", 100.0 * share),
        };
        let whole = self.price.of_all(most) * term.0 / 3600.0;
        Some(format!(
            "reserved instances are paid for {}, used or not: {most} × {name} cost {} USD for the whole term, and {used}; the cost \
             here is the hourly price of the hours used{}",
            years(self.pricing),
            human_count(whole.round() as u64),
            break_even(self.price, self.instance, self.service).unwrap_or_default()
        ))
    }
}

/// Names the term of a reservation.
fn years(pricing: Pricing) -> &'static str {
    if pricing == Pricing::ReservedThreeYears { "3 years" } else { "a year" }
}

/// Says from which use on a reservation is cheaper than the same instance on demand, if both prices are of one day.
fn break_even(price: &PriceUsed, instance: &Instance, service: Service) -> Option<String> {
    let offered = price.offered()?;
    let listed = price_of(instance, PriceQuery { region: offered.region, service, purchase: Purchase::OnDemand })?;
    let on_demand = listed.hourly().0;
    if listed.date != offered.date {
        return Some(format!(
            "; that price is of {}, and the one on demand ({on_demand:.2} USD/h each) of {}: compare prices of one day before \
             you reserve (`trainyard prices import`)",
            offered.date, listed.date
        ));
    }
    let use_of_term = price.usd_per_hour / on_demand;
    (use_of_term < 1.0).then(|| {
        format!(
            "; they are cheaper than on demand ({on_demand:.2} USD/h each) if used more than {:.0} % of the time",
            100.0 * use_of_term
        )
    })
}

/// Says how likely a training is to end within a block in which it can run for so many seconds, unless that is as good as certain.
fn long_enough(prediction: &Prediction, usable_s: f64) -> Option<String> {
    let steps = (prediction.time_s + usable_s - prediction.elapsed_s()) / prediction.time_s;
    let chance = spread_of(prediction).probability(steps.ln());
    (chance <= CERTAIN).then(|| format!(" and is {} likely to end within it", likelihood(chance)))
}

/// Names the storage of the data set that is missing from the cost, because its price or its size is not known.
pub(crate) fn unpriced_copies(
    job: &JobSpec,
    prediction: &Prediction,
    plan: &Plan,
    place: &Place,
    choice: usize,
) -> Option<String> {
    let price = prediction.price.as_ref()?;
    let rented = Rented::at(price)?;
    let settings = settings_of(job, plan, Some(price)).ok()?;
    let machine = place.machine_of(choice, plan);
    RunConditions::of(plan, &machine, &settings, Some(rented)).unpriced_copies()
}
