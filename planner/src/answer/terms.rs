//! What to be careful about with the terms on which machines are rented.

use super::reclaimed::spot;
use crate::amount::expected_count;
use crate::cost::{Rented, RunConditions};
use crate::problem::{Place, Rental, class, purchase, settings};
use trainyard_hardware_profiles::Service;
use trainyard_plan::document::Prediction;
use trainyard_plan::{JobSpec, Plan, Pricing};
use trainyard_units::{Seconds, human_count, human_duration};

/// Lists the warnings that follow from the rental terms of a plan.
pub(crate) fn terms(
    job: &JobSpec,
    rental: &Rental,
    prediction: &Prediction,
    plan: &Plan,
    choice: usize,
) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(spot(job, rental, prediction, plan, choice));
    warnings.extend(reserved(prediction, plan));
    warnings.extend(quota(rental, plan, choice));
    let availability = match prediction.price.as_ref().filter(|price| !price.zones.is_empty()) {
        None => "availability of instances is not known".to_owned(),
        Some(price) => {
            let instance = &plan.cluster().instance;
            format!("{instance} is offered in {}; whether any are free there is not known", price.zones.join(", "))
        }
    };
    let unasked = "the model is not evaluated unless `campaign.evaluation` says how often";
    let evaluated = prediction.evaluations_s.is_some();
    warnings.push(if evaluated { availability } else { format!("{availability}; {unasked}") });
    warnings.extend(failures(prediction));
    warnings
}

/// Share of a training from which failures are told.
const FAILURES_TOLD: f64 = 0.01;

/// Warns of machines that fail in a large or long training.
fn failures(prediction: &Prediction) -> Option<String> {
    let failures = prediction.failures.filter(|own| own.total_s() > FAILURES_TOLD * prediction.elapsed_s())?;
    Some(format!(
        "{} failures of machines are expected and are in time and cost: {} on average; `trainyard simulate --campaign` shows \
         how much that varies, and `campaign.node_mtbf` sets how often machines fail",
        expected_count(failures.expected),
        human_duration(Seconds(failures.total_s()))
    ))
}

/// Warns of what a reservation costs beyond this training.
fn reserved(prediction: &Prediction, plan: &Plan) -> Option<String> {
    let term = purchase(plan.pricing()).term()?;
    let (price, instances) = (prediction.price.as_ref()?, plan.cluster().instances);
    let years = if plan.pricing() == Pricing::ReservedThreeYears { "3 years" } else { "a year" };
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
        "reserved instances are paid for {years}, used or not: {used}; the cost here is the hourly price of the hours \
         used, and for the whole term {each} {} USD",
        human_count(whole.round() as u64)
    ))
}

/// Warns of how much of an unstated quota a plan takes, or how much of a stated one it lacks: if the number of
/// instances is held, it is what the user wants.
fn quota(rental: &Rental, plan: &Plan, choice: usize) -> Option<String> {
    let (instance, price) = rental.offer(choice);
    if rental.quotas.most(instance).is_some() {
        let lacking = rental.quotas.refusal(instance, plan.cluster().instances)?;
        return Some(format!("the plan {lacking}; have the quota raised before, or hold fewer instances"));
    }
    let instances = u64::from(plan.cluster().instances);
    let taken = match (price.service, class(instance)) {
        (Service::Ec2, Some(class)) => {
            let vcpus = human_count(instances * u64::from(instance.vcpus));
            match plan.pricing() {
                Pricing::Spot if instance.name.starts_with("p5") => {
                    let own = "apart from that of other `P` instances";
                    format!("{vcpus} vCPUs of the spot quota of P5 instances (`p5*`), {own}, 0 in a new account")
                }
                // Amazon EC2 User Guide, "Spot Instance quotas".
                Pricing::Spot => format!("{vcpus} vCPUs of the spot quota of `{class}` instances, 0 in a new account"),
                _ => format!("{vcpus} vCPUs of the quota of `{class}` instances"),
            }
        }
        _ => format!("{instances} of the quota of {}", instance.name),
    };
    Some(format!("the plan takes {taken}; set `cluster.quotas` to yours"))
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
    let service = Service::named(price.offered()?.service);
    let settings = settings(job, plan.model(), plan.pricing(), service).ok()?;
    let machine = place.machine_of(choice, plan);
    RunConditions::of(plan, &machine, &settings, Rented::at(price)).unpriced_copies()
}
