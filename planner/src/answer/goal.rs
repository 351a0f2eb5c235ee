//! What would meet a deadline or a budget that no plan meets: how many instances, or which of the two to give up.

use super::limits::Limits;
use super::solve::ENOUGH;
use crate::amount::usd;
use crate::problem::{Place, Problem};
use crate::search::{Aim, Evaluated, Ranking, Totals, Within, search};
use trainyard_plan::Objective;
use trainyard_units::{Seconds, human_count, human_duration};

/// The most instances that are tried beyond those that the job allows: hardly anybody rents more.
const INSTANCES_MAX: u32 = 1024;

/// Says what would meet the goal of a problem; `None` if the chosen plan meets it.
pub(crate) fn to_meet_goal(problem: &Problem, limits: &Limits, chosen: &Evaluated) -> Option<String> {
    if Ranking::goal(problem).meets_goal(Totals::found(chosen)) {
        return None;
    }
    let cheap_enough = || {
        let fixed = &limits.fixed;
        let cheapest = search(problem, fixed, Aim::best(Objective::Cost)).best.into_iter().next()?;
        let (cost, budget) = (cheapest.cost_usd?, problem.budget?);
        let (cluster, time) = (cheapest.plan.cluster(), human_duration(Seconds(cheapest.elapsed_s)));
        Some(if cost <= budget {
            format!("{} × {} cost {} and take {time}", cluster.instances, cluster.instance, usd(cost))
        } else {
            format!("no plan costs less than {}: a budget of so much buys one that takes {time}", usd(cost))
        })
    };
    match problem.deadline {
        Some(deadline) if chosen.elapsed_s > deadline.0 => in_time(problem, limits, chosen, deadline),
        _ => cheap_enough(),
    }
}

/// Says how many instances would meet a deadline, if more than there are would.
fn in_time(problem: &Problem, limits: &Limits, chosen: &Evaluated, deadline: Seconds) -> Option<String> {
    if !problem.place.may_grow() {
        return None;
    }
    if limits.fixed.instances.is_some() {
        return Some("the number of instances is held; with more of them training takes less time".into());
    }
    let cap = match &problem.place {
        Place::Rented(rental) => rental.max_instances,
        Place::Owned { machine, .. } => machine.cluster.machines(),
    };
    // Instances that scale without loss would need so many.
    let least = f64::from(chosen.plan.cluster().instances) * chosen.elapsed_s / deadline.0;
    let least = (least as u32).min(INSTANCES_MAX).max(cap.saturating_add(1)).next_power_of_two();
    let caps = std::iter::successors(Some(least), |most| most.checked_mul(2)).take_while(|most| *most <= INSTANCES_MAX);
    let mut tried = cap;
    for most in caps {
        tried = most;
        let larger = with_at_most(problem, most);
        let aim = Aim { within: Within::Goal, ..Aim::best(Objective::Cost) };
        let Some(plan) = search(&larger, &limits.fixed, aim).best.into_iter().next() else { continue };
        let (cluster, time) = (plan.plan.cluster(), human_duration(Seconds(plan.elapsed_s)));
        let cost = plan.cost_usd.map_or_else(String::new, |cost| format!(" for {}", usd(cost)));
        let enough = format!(
            "{} × {} are enough and end in about {time}{cost}",
            human_count(cluster.instances.into()),
            cluster.instance
        );
        let cap = human_count(cap.into());
        return Some(match &problem.place {
            Place::Rented(_) => format!(
                "cluster.max_instances {cap} stands in the way: {enough}; write --max-instances {}",
                cluster.instances
            ),
            Place::Owned { .. } => format!("with more machines than the {cap} of the cluster file: {enough}"),
        });
    }
    Some(format!(
        "no plan on up to {} instances was found that ends within {}; on {} it takes {}",
        human_count(tried.into()),
        human_duration(deadline),
        human_count(chosen.plan.cluster().instances.into()),
        human_duration(Seconds(chosen.elapsed_s))
    ))
}

/// Returns the same problem with more instances of each type, searched like a draft: a plan found meets the goal, but
/// need not be the best.
pub(super) fn with_at_most(problem: &Problem, most: u32) -> Problem {
    let mut larger = Problem { enough: Some(ENOUGH), ..problem.clone() };
    larger.place = larger.place.with_machines(most);
    if let Place::Rented(rental) = &mut larger.place {
        rental.max_instances = most;
        let quotas = rental.quotas.clone();
        rental.most = rental.instances.iter().map(|(instance, _)| quotas.cap(instance, most)).collect();
    }
    larger
}
