//! What a job that names no instance types leaves out, and how what is recommended on the best of them compares.

use super::limits::Limits;
use super::solve::{SEARCHED_MAX, prediction, recommended_on};
use crate::problem::{Place, Problem, Rental, has_instead, price_of, usual_types};
use crate::search::{Evaluated, Found};
use trainyard_hardware_profiles::{Instance, Price, PriceQuery, matches};
use trainyard_plan::document::{LeftOut, LeftOutPlan};
use trainyard_plan::{JobSpec, Pricing};

/// Returns the types that a job leaves out; `None` if it says which types may be chosen.
pub(crate) fn left_out(
    problem: &Problem,
    limits: &Limits,
    job: &JobSpec,
    (found, chosen): (&Found, &Evaluated),
) -> Option<LeftOut> {
    let rental = problem.place.rental()?;
    let types = types(rental, limits, job)?;
    let mut families: Vec<String> = types.iter().filter_map(|own| Some(own.name.split_once('.')?.0.into())).collect();
    families.dedup();
    let others = others(problem, rental, &types, chosen).filter(|_| found.candidates <= SEARCHED_MAX);
    let best = others.and_then(|others| best_of((problem, limits, job), &others, chosen));
    Some(LeftOut { families, best })
}

/// Returns a place with the types that a job leaves out; `None` if it says which types may be chosen, or none has a price.
pub(super) fn place_of_others(problem: &Problem, limits: &Limits, job: &JobSpec, chosen: &Evaluated) -> Option<Place> {
    let rental = problem.place.rental()?;
    let others = others(problem, rental, &types(rental, limits, job)?, chosen)?;
    Some(Place::Rented(Box::new(others)))
}

/// Lists the types that a job leaves out; `None` if it says which may be chosen.
fn types<'r>(rental: &'r Rental, limits: &Limits, job: &JobSpec) -> Option<Vec<&'r Instance>> {
    // Of capacity blocks all types are searched that are offered so.
    let all = rental.pricing == Pricing::CapacityBlock;
    if all || job.cluster.instances.is_some() || limits.fixed.instance.is_some() {
        return None;
    }
    let usual = usual_types(&rental.catalog, rental.pricing);
    let is_left_out = |own: &&Instance| !usual.iter().any(|pattern| matches(pattern, &own.name));
    Some(rental.catalog.instances().iter().filter(is_left_out).collect())
}

/// Returns the rental of other types; `None` if none of them has a price.
fn others(problem: &Problem, rental: &Rental, types: &[&Instance], chosen: &Evaluated) -> Option<Rental> {
    let mut instances = priced(rental, types, &rental.offer(chosen.choice).1);
    if problem.data.is_none() {
        cheapest_sizes(&mut instances);
    }
    let most = instances.iter().map(|(own, _)| rental.quotas.cap(own, rental.max_instances)).collect();
    (!instances.is_empty()).then(|| Rental {
        instances,
        most,
        unpriced: Vec::new(),
        over_quota: Vec::new(),
        without_transport: Vec::new(),
        ..rental.clone()
    })
}

/// Lists the types with a price on the same terms that have the job's transport, of which a quota allows at least one
/// instance.
pub(super) fn priced(rental: &Rental, types: &[&Instance], like: &Price) -> Vec<(Instance, Price)> {
    let query = PriceQuery { region: &like.region, service: like.service, purchase: like.purchase };
    let allowed = types.iter().filter(|own| rental.quotas.refusal(own, 1).is_none());
    let able = |own: &&&Instance| rental.transport.is_none_or(|named| has_instead(own, named).is_none());
    allowed.filter(able).filter_map(|own| Some(((*own).clone(), price_of(own, query)?.clone()))).collect()
}

/// Keeps only the cheapest of the sizes with the same GPUs: without samples to decode, more CPUs rarely pay off.
pub(super) fn cheapest_sizes(instances: &mut Vec<(Instance, Price)>) {
    instances.sort_by(|(a, a_price), (b, b_price)| {
        let key = (a.gpu.as_str(), a.gpus).cmp(&(b.gpu.as_str(), b.gpus));
        key.then(a_price.hourly().0.total_cmp(&b_price.hourly().0))
    });
    instances.dedup_by(|(dearer, _), (cheapest, _)| (&dearer.gpu, dearer.gpus) == (&cheapest.gpu, cheapest.gpus));
}

/// Chooses one of these types briefly, but among its plans as for the job itself: the cheapest may be many times slower
/// than one that costs hardly more, or need more software.
fn best_of(
    (problem, limits, job): (&Problem, &Limits, &JobSpec),
    others: &Rental,
    chosen: &Evaluated,
) -> Option<LeftOutPlan> {
    let best = recommended_on(problem, limits, others, chosen)?;
    let cluster = best.plan.cluster();
    Some(LeftOutPlan {
        instance: cluster.instance.clone(),
        instances: cluster.instances,
        time_s: best.elapsed_s,
        cost_usd: best.cost_usd?,
        within_deadline: problem.deadline.and_then(|_| prediction(problem, job, &best).ok()?.0.within_deadline),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking;
    use trainyard_plan::GlobalBatch;
    use trainyard_plan::document::PlanDocument;

    fn job() -> JobSpec {
        let mut job = asking::training("gpt2", 64);
        (job.data.tokens, job.cluster.max_instances) = (Some(1e9), Some(2));
        job
    }

    fn left_out_of(job: &JobSpec) -> Option<LeftOut> {
        asking::planned(job).search.left_out
    }

    fn recommended_on(job: &JobSpec, types: &str) -> PlanDocument {
        let mut named = job.clone();
        named.cluster.instances = Some(vec![types.into()]);
        asking::planned(&named)
    }

    #[test]
    fn families_that_nobody_asked_for_are_named_with_the_best_of_them() {
        let left_out = left_out_of(&job()).expect("types are left out");
        assert!(left_out.families.contains(&"g6".into()) && left_out.families.contains(&"p5".into()));
        assert!(!left_out.families.contains(&"p4d".into()));
        let best = left_out.best.expect("a small space");
        let document = recommended_on(&job(), &best.instance);
        assert!((document.prediction.cost_usd.expect("rented") / best.cost_usd - 1.0).abs() < 1e-9);
        assert!((document.prediction.elapsed_s() / best.time_s - 1.0).abs() < 1e-9);
        assert_eq!(document.search.left_out, None);
    }

    #[test]
    fn what_is_named_is_what_would_be_recommended_of_all_types() {
        let mut job = job();
        job.model.name = Some("gpt2-xl".into());
        (job.data.tokens, job.training.global_batch) = (Some(1e10), Some(GlobalBatch::Exactly(512)));
        let best = left_out_of(&job).and_then(|left_out| left_out.best).expect("a small space");
        let all = recommended_on(&job, "*");
        assert_eq!((best.instance, best.instances), (all.plan.cluster.instance, all.plan.cluster.instances));
        // The search is a brief one.
        assert!((best.cost_usd / all.prediction.cost_usd.expect("rented") - 1.0).abs() < 0.1);
        assert!((best.time_s / all.prediction.elapsed_s() - 1.0).abs() < 0.1);
    }
}
