//! What a job that names no instance types leaves out, and how the best that a short search finds there compares.

use super::limits::Limits;
use super::solve::{SEARCHED_MAX, briefly};
use crate::problem::{DEFAULT_INSTANCES, Place, Problem, Rental, has_instead, price_of};
use crate::search::{Evaluated, Found};
use trainyard_hardware_profiles::{Instance, Price, PriceQuery, matches};
use trainyard_plan::JobSpec;
use trainyard_plan::document::{LeftOut, LeftOutPlan};

/// Returns the types that a job leaves out; `None` if it says which types may be chosen.
pub(crate) fn left_out(
    problem: &Problem,
    limits: &Limits,
    job: &JobSpec,
    (found, chosen): (&Found, &Evaluated),
) -> Option<LeftOut> {
    let Place::Rented(rental) = &problem.place else { return None };
    if job.cluster.instances.is_some() || limits.fixed.instance.is_some() {
        return None;
    }
    let is_left_out = |own: &&Instance| !DEFAULT_INSTANCES.iter().any(|pattern| matches(pattern, &own.name));
    let types: Vec<&Instance> = rental.catalog.instances().iter().filter(is_left_out).collect();
    let mut families: Vec<String> = types.iter().filter_map(|own| Some(own.name.split_once('.')?.0.into())).collect();
    families.dedup();
    let mut others = priced(rental, &types, &rental.offer(chosen.choice).1);
    if problem.data.is_none() {
        cheapest_sizes(&mut others);
    }
    let is_small = found.candidates <= SEARCHED_MAX && !others.is_empty();
    let best = is_small.then(|| best_of(problem, limits, rental, others, chosen)).flatten();
    Some(LeftOut { families, best })
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
fn cheapest_sizes(instances: &mut Vec<(Instance, Price)>) {
    instances.sort_by(|(a, a_price), (b, b_price)| {
        let key = (a.gpu.as_str(), a.gpus).cmp(&(b.gpu.as_str(), b.gpus));
        key.then(a_price.hourly().0.total_cmp(&b_price.hourly().0))
    });
    instances.dedup_by(|(dearer, _), (cheapest, _)| (&dearer.gpu, dearer.gpus) == (&cheapest.gpu, cheapest.gpus));
}

fn best_of(
    problem: &Problem,
    limits: &Limits,
    rental: &Rental,
    instances: Vec<(Instance, Price)>,
    chosen: &Evaluated,
) -> Option<LeftOutPlan> {
    let most = instances.iter().map(|(own, _)| rental.quotas.cap(own, rental.max_instances)).collect();
    let others = Rental {
        instances,
        most,
        unpriced: Vec::new(),
        over_quota: Vec::new(),
        without_transport: Vec::new(),
        ..rental.clone()
    };
    let best = briefly(problem, limits, others, chosen)?;
    let cluster = best.plan.cluster();
    Some(LeftOutPlan {
        instance: cluster.instance.clone(),
        instances: cluster.instances,
        time_s: best.elapsed_s,
        cost_usd: best.cost_usd?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::recommend;
    use crate::problem::{Resources, problem};
    use trainyard_plan::GlobalBatch;

    fn job() -> JobSpec {
        let mut job = JobSpec::default();
        job.model.name = Some("gpt2".into());
        job.data.tokens = Some(1e9);
        job.training.global_batch = Some(GlobalBatch::Exactly(64));
        job.cluster.max_instances = Some(2);
        job
    }

    fn left_out_of(job: &JobSpec) -> Option<LeftOut> {
        let problem = problem(job, Resources::default()).expect("a solvable job");
        recommend(&problem, &Limits::default(), job).expect("a plan").search.left_out
    }

    #[test]
    fn families_that_nobody_asked_for_are_named_with_the_best_of_them() {
        let left_out = left_out_of(&job()).expect("types are left out");
        assert!(left_out.families.contains(&"g6".into()) && left_out.families.contains(&"p5".into()));
        assert!(!left_out.families.contains(&"p4d".into()));
        let best = left_out.best.expect("a small space");
        let mut named = job();
        named.cluster.instances = Some(vec![best.instance.clone()]);
        let problem = problem(&named, Resources::default()).expect("a solvable job");
        let document = recommend(&problem, &Limits::default(), &named).expect("a plan");
        // A short search comes near what a whole one finds.
        assert!(document.prediction.cost_usd.expect("rented") <= best.cost_usd * (1.0 + 1e-9));
        assert!(document.prediction.cost_usd.expect("rented") >= best.cost_usd * 0.8);
        assert_eq!(document.search.left_out, None);
    }
}
