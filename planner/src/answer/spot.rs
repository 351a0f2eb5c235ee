//! Spot prices, where they meet a budget that the job's own terms do not.

use super::limits::Limits;
use super::pareto::price_on_terms;
use super::solve::{best, worth_the_effort};
use crate::amount::usd;
use crate::problem::{Place, Problem, Rental, no_warm_pool};
use crate::search::{Ranking, Totals};
use trainyard_hardware_profiles::{Instance, Price};
use trainyard_plan::{Pricing, StartKind};
use trainyard_units::{Seconds, human_duration};

/// Says which machines would be recommended at spot prices, if they meet the deadline and the budget; `None` without a
/// budget, for spot machines are no faster.
pub(super) fn met_at_spot_prices(problem: &Problem, limits: &Limits) -> Option<String> {
    problem.budget?;
    let spot = worth_the_effort(&at_spot_prices(problem)?, &limits.fixed);
    let plan = best(&spot, &Limits { top: 1, ..limits.clone() }).ok()?;
    if !Ranking::goal(&spot).meets_goal(Totals::found(&plan)) {
        return None;
    }
    let met = if problem.deadline.is_some() { "both" } else { "the budget" };
    let (time, cost) = (human_duration(Seconds(plan.elapsed_s)), usd(plan.cost_usd?));
    let (on, date) = (plan.machines(), &spot.place.offered(plan.choice)?.date);
    Some(format!("at spot prices as of {date}, {on} meet {met} for {cost} and take {time} (--pricing spot)"))
}

/// Returns the same problem at spot prices; `None` where it has them already, or where the job does not agree with them.
fn at_spot_prices(problem: &Problem) -> Option<Problem> {
    let rental = problem.place.rental()?;
    let pricing = Pricing::Spot;
    let service = rental.instances.first()?.1.service;
    let warm = problem.settings.start == Some(StartKind::WarmPool) && no_warm_pool(service, pricing).is_some();
    if rental.pricing == pricing || warm {
        return None;
    }
    let priced = |own: &(Instance, Price)| Some((own.0.clone(), price_on_terms(rental, own, pricing)?));
    let offers = rental.instances.iter().zip(&rental.most);
    let (instances, most): (Vec<_>, Vec<_>) = offers.filter_map(|(own, most)| Some((priced(own)?, *most))).unzip();
    let rental = Rental { instances, most, pricing, ..Rental::clone(rental) };
    let place = Place::Rented(Box::new(rental));
    Some(Problem { place, ..problem.clone() })
}

#[cfg(test)]
mod tests {
    use crate::asking;
    use trainyard_plan::document::PlanDocument;
    use trainyard_plan::{Method, Pricing};

    fn planned(budget: f64, pricing: Option<Pricing>) -> PlanDocument {
        let mut job = asking::job("llama-3.1-8b", 16, &["g6e.*"], 4);
        (job.model.seq_len, job.data.samples) = (Some(1024), Some(156_000));
        job.training.method = Some(Method::Qlora);
        job.cluster.pricing = pricing;
        (job.goal.deadline, job.goal.budget) = (Some("6 h".into()), Some(budget));
        asking::planned(&job)
    }

    #[test]
    fn spot_prices_are_told_where_they_meet_what_others_miss_and_nowhere_else() {
        let told = planned(20.0, None).to_meet_goal.expect("20 USD are too few on demand");
        assert!(told.contains("; at spot prices ") && told.ends_with("(--pricing spot)"), "{told}");
        assert_eq!(planned(20.0, Some(Pricing::Spot)).missed, None);
        let told = planned(2.0, None).to_meet_goal.expect("2 USD are too few");
        assert!(!told.contains("spot"), "{told}");
    }
}
