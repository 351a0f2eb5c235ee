//! The front of time against cost, on every term on which machines can be rented, and any point of it as a plan.

use super::solve::{alone, alternative};
use super::warnings::Warnings;
use crate::amount::usd;
use crate::cost::Rent;
use crate::missed::missed_by_choice;
use crate::predict::predict;
use crate::problem::{Problem, Rental, inside, price_of, price_used, purchase, repriced};
use crate::search::Evaluated;
use trainyard_hardware_profiles::{Instance, Price, PriceQuery};
use trainyard_plan::document::{Alternative, PlanDocument, PriceUsed};
use trainyard_plan::{ClusterChoice, JobSpec, Plan, Pricing};
use trainyard_units::{Invalid, Seconds, human_duration};

/// Relative differences of time and cost below which two points of the front count as one.
const HAIR: f64 = 1e-4;

/// Computes the Pareto front of time and cost on each of the terms: first those of the job, then the others.
///
/// Steps take as long on any terms, so plans that were found are priced on each. On the job's own terms the ends of the
/// front are exact, for a search was made for the fastest plan and one for the cheapest. At prices in other proportions
/// another plan may be cheaper than all that were found: it would take a search of its own for each of the terms.
pub(crate) fn front(problem: &Problem, job: &JobSpec, found: Vec<Evaluated>) -> Vec<Alternative> {
    let own = problem.place.pricing();
    let others = Pricing::ALL.iter().copied().filter(|other| *other != own);
    if problem.place.rental().is_none() {
        let point = |evaluated: &Evaluated| Alternative {
            price: problem.place.price_used(evaluated.choice),
            ..alternative(evaluated)
        };
        return distinct(pareto(found)).iter().map(point).collect();
    }
    let mut points = Vec::new();
    for pricing in [own].into_iter().chain(others) {
        let priced = |evaluated: &Evaluated| {
            if pricing == own {
                return Some((evaluated.clone(), problem.place.offered(evaluated.choice)?.clone()));
            }
            let price = on_terms(problem, evaluated.choice, pricing)?;
            Some((rented_at(problem, job, evaluated, &price)?, price))
        };
        let all: Vec<(Evaluated, Price)> = found.iter().filter_map(priced).collect();
        let price_at =
            |choice: usize| all.iter().find(|(own, _)| own.choice == choice).map(|(_, price)| price_used(price));
        let front = distinct(pareto(all.iter().map(|(evaluated, _)| evaluated.clone()).collect()));
        points.extend(front.iter().map(|evaluated| {
            let mut point = alternative(evaluated);
            point.plan.pricing = pricing;
            point.price = price_at(evaluated.choice);
            point
        }));
    }
    points
}

/// Removes the points of a front that the next cheaper one nearly equals in time and cost.
fn distinct(mut front: Vec<Evaluated>) -> Vec<Evaluated> {
    let equal = |a: f64, b: f64| (a / b - 1.0).abs() < HAIR;
    let same = |a: &Evaluated, b: &Evaluated| {
        equal(a.elapsed_s, b.elapsed_s) && a.cost_usd.zip(b.cost_usd).is_none_or(|(a, b)| equal(a, b))
    };
    front.reverse();
    front.dedup_by(|faster, cheaper| same(faster, cheaper));
    front.reverse();
    front
}

/// Returns the price of a type of machine on other terms than the job's, if there is one.
fn on_terms(problem: &Problem, choice: usize, pricing: Pricing) -> Option<Price> {
    let rental = problem.place.rental()?;
    price_on_terms(rental, rental.offer(choice), pricing)
}

/// Returns the price of an instance on other terms than those on which it is offered, if there is one.
pub(super) fn price_on_terms(rental: &Rental, (instance, own): &(Instance, Price), pricing: Pricing) -> Option<Price> {
    let query = PriceQuery { region: &own.region, service: own.service, purchase: purchase(pricing) };
    Some(repriced(&rental.repriced, instance, price_of(instance, query)?.clone()))
}

/// The job on other terms.
fn job_on(job: &JobSpec, pricing: Pricing) -> JobSpec {
    JobSpec { cluster: ClusterChoice { pricing: Some(pricing), ..job.cluster.clone() }, ..job.clone() }
}

/// Returns a plan with its time and cost at a price on other terms; `None` if the job's campaign does not agree with them.
fn rented_at(problem: &Problem, job: &JobSpec, evaluated: &Evaluated, price: &Price) -> Option<Evaluated> {
    let machine = evaluated.machine(problem);
    let used = price_used(price);
    let plan = on(&evaluated.plan, used.pricing?);
    let rent = Rent::new(job, &plan, &machine, Some(used)).ok()??;
    let spent = rent.training_cost(problem.training.steps(plan.batch().global), evaluated.work());
    let cost = rent.cost(&spent, plan.input().map(|input| input.storage))?;
    Some(Evaluated {
        elapsed_s: spent.elapsed().0,
        queued_s: spent.queued.0,
        cost_usd: Some(cost.total()),
        ..evaluated.clone()
    })
}

/// The plan on other terms.
fn on(plan: &Plan, pricing: Pricing) -> Plan {
    let mut spec = plan.spec().clone();
    spec.pricing = pricing;
    Plan::try_from(spec).expect("a plan is valid on any terms")
}

/// Returns a point of a recommendation's front, counted from 1, as a plan of its own, simulated on its terms.
///
/// # Errors
///
/// When there is no such point, or its plan cannot be simulated.
pub fn point(problem: &Problem, document: &PlanDocument, number: usize) -> Result<PlanDocument, Invalid> {
    let points = document.pareto.len();
    let chosen = number.checked_sub(1).and_then(|index| document.pareto.get(index));
    let chosen = chosen.ok_or_else(|| {
        Invalid::breaks("--point", number, format!("the front of time against cost has {points}"))
            .with_hint("without --point the plan is printed with the points and their numbers")
    })?;
    let plan = Plan::try_from(chosen.plan.clone()).map_err(|error| inside("plan", &error, error.hint()))?;
    let choice = problem.place.choice_of(&plan).unwrap_or(0);
    let machine = problem.place.machine_of(choice, &plan);
    let offered = chosen.price.as_ref().and_then(PriceUsed::offered);
    let job = match offered {
        Some(_) => job_on(&document.job, plan.pricing()),
        None => document.job.clone(),
    };
    let rent = Rent::new(&job, &plan, &machine, chosen.price.clone())?;
    let steps = problem.training.steps(plan.batch().global);
    let data = problem.data.as_ref().map(|data| &data.set);
    let (prediction, _) = predict(&plan, &machine, steps, &job, rent.as_ref(), data)?;
    let reason = format!(
        "point {number} of {points} on the front of time against cost, {}: {}",
        match offered {
            Some(_) => format!("at {} prices", plan.pricing()),
            None => "on these machines".into(),
        },
        place_of(document, number)
    );
    let warnings = Warnings { problem, job: &job, plan: &plan, choice, prediction: &prediction, limits: None }.all();
    let pareto = document.pareto.clone();
    let alone = alone(job, &plan, prediction, document.search.clone());
    let document = PlanDocument { warnings, reasons: vec![reason], pareto, ..alone };
    Ok(PlanDocument { missed: missed_by_choice(&document), ..document })
}

/// Describes the neighbours of a point among those on its terms.
fn place_of(document: &PlanDocument, number: usize) -> String {
    let own = &document.pareto[number - 1];
    let others: Vec<&Alternative> =
        document.pareto.iter().filter(|other| other.plan.pricing == own.plan.pricing).collect();
    let index = others.iter().position(|other| std::ptr::eq(*other, own)).unwrap_or(0);
    let next = |other: Option<&&Alternative>, what: &str| {
        let other = other?;
        let (time, cost) = (human_duration(Seconds(other.time_s)), other.cost_usd?);
        Some(format!("the next {what} takes {time} and costs {}", usd(cost)))
    };
    let faster = index.checked_sub(1).and_then(|index| others.get(index));
    let sides = [next(faster, "faster"), next(others.get(index + 1), "cheaper")];
    let sides: Vec<String> = sides.into_iter().flatten().collect();
    if sides.is_empty() { "the only one on these terms".into() } else { sides.join("; ") }
}

/// Returns the Pareto front of time and cost, fastest first.
pub(crate) fn pareto(mut all: Vec<Evaluated>) -> Vec<Evaluated> {
    let cost = |evaluated: &Evaluated| evaluated.cost_usd.unwrap_or(0.0);
    all.sort_by(|a, b| a.elapsed_s.total_cmp(&b.elapsed_s).then(cost(a).total_cmp(&cost(b))));
    let mut cheapest = f64::INFINITY;
    all.retain(|evaluated| {
        let better = cost(evaluated) < cheapest;
        cheapest = cheapest.min(cost(evaluated));
        better
    });
    all
}
