//! What would meet a deadline or a budget that no plan meets: how many instances, or which of the two to give up.

use super::left_out::{place_of_others, priced};
use super::limits::Limits;
use super::spot::met_at_spot_prices;
use crate::amount::usd;
use crate::problem::{Place, Problem, Quotas, Rental, of_type};
use crate::search::{Aim, Ceilings, Evaluated, INDISTINCT, Ranking, Totals, Within, search};
use trainyard_plan::{Fixed, JobSpec, Objective};
use trainyard_units::{Seconds, counted, human_count, human_duration};

/// The most instances that are tried beyond those that the job allows: hardly anybody rents more.
const INSTANCES_MAX: u32 = 1024;

/// Says what would meet the goal of a problem; `None` if the chosen plan meets it.
pub(crate) fn to_meet_goal(problem: &Problem, limits: &Limits, job: &JobSpec, chosen: &Evaluated) -> Option<String> {
    if Ranking::goal(problem).meets_goal(Totals::found(chosen)) {
        return None;
    }
    let told = [on_these_terms(problem, limits, job, chosen), met_at_spot_prices(problem, limits)];
    told.into_iter().flatten().reduce(|own, spot| format!("{own}; {spot}"))
}

/// Says what would meet the goal on the terms of the job.
fn on_these_terms(problem: &Problem, limits: &Limits, job: &JobSpec, chosen: &Evaluated) -> Option<String> {
    match problem.deadline {
        Some(deadline) if chosen.elapsed_s > deadline.0 => in_time(problem, limits, job, (chosen, deadline)),
        _ => {
            let cheapest = Cheapest::of(problem, limits)?;
            let late = problem.is_late(cheapest.plan.elapsed_s);
            let in_time = Aim { within: Within::Deadline, ..Aim::best(Objective::Cost) };
            let in_time = late.then(|| search(problem, &limits.fixed, in_time).best.into_iter().next()).flatten();
            let own = match in_time {
                Some(plan) => format!("no plan meets both: {}; {}", in_time_alone(problem, &plan), cheapest.told()),
                None => cheapest.alone(),
            };
            let others = affordable_on_others(problem, limits, job, chosen);
            Some(others.map_or_else(|| own.clone(), |others| format!("{others}; {own}")))
        }
    }
}

/// Says that machines of types that the job leaves out meet the goal, if a short search finds that they do.
fn affordable_on_others(problem: &Problem, limits: &Limits, job: &JobSpec, chosen: &Evaluated) -> Option<String> {
    let place = place_of_others(problem, limits, job, chosen)?;
    let others = Problem { place, ..problem.briefly() };
    let aim = Aim { within: Within::Goal, ..Aim::best(Objective::Cost) };
    let plan = search(&others, &limits.fixed, aim).best.into_iter().next()?;
    told_of_others(&plan, "")
}

/// Says what a plan on a type that is not considered takes and costs, and how to ask for it.
fn told_of_others(plan: &Evaluated, more: &str) -> Option<String> {
    let (on, time) = (plan.machines(), human_duration(Seconds(plan.elapsed_s)));
    let (cost, instance) = (usd(plan.cost_usd?), &plan.plan.cluster().instance);
    Some(format!(
        "{on}, a type that is not considered, would end in about {time} for {cost}; write --instances {instance}{more}"
    ))
}

/// The cheapest plan of all.
struct Cheapest {
    plan: Evaluated,
    cost: f64,
    /// `true` if it is within the budget.
    affordable: bool,
    /// The machines among which it is the cheapest, in words.
    among: &'static str,
}

impl Cheapest {
    /// Finds it; `None` without a budget.
    fn of(problem: &Problem, limits: &Limits) -> Option<Self> {
        let budget = problem.budget?;
        let plan = search(problem, &limits.fixed, Aim::best(Objective::Cost)).best.into_iter().next()?;
        let cost = plan.cost_usd?;
        let among = if problem.place.rental().is_some() { " on the types considered" } else { "" };
        Some(Self { plan, cost, affordable: cost <= budget, among })
    }

    /// Says what it costs and how long it takes, where nothing else is asked for.
    fn alone(&self) -> String {
        let (on, time) = (self.plan.machines(), human_duration(Seconds(self.plan.elapsed_s)));
        if self.affordable {
            format!("{on} would cost {} and take {time}", usd(self.cost))
        } else {
            format!(
                "no plan{} costs less than {}: a budget of so much buys one that takes {time}",
                self.among,
                usd(self.cost)
            )
        }
    }

    /// Says what the budget alone would need.
    fn told(&self) -> String {
        if self.affordable {
            let (on, time) = (self.plan.machines(), human_duration(Seconds(self.plan.elapsed_s)));
            format!("the budget is met by {on} for {} in {time}", usd(self.cost))
        } else {
            format!("no plan{} costs less than {}", self.among, usd(self.cost))
        }
    }
}

/// Says how many instances would meet a deadline, if more than there are would; where none of them keeps to the budget
/// too, what each of the two alone would need.
fn in_time(
    problem: &Problem,
    limits: &Limits,
    job: &JobSpec,
    (chosen, deadline): (&Evaluated, Seconds),
) -> Option<String> {
    let larger = Larger::new(problem, chosen, deadline)?;
    if limits.fixed.instances.is_some() {
        return Some("the number of instances is held; with more of them training takes less time".into());
    }
    let plan = larger.first(problem, limits, Within::Goal);
    let others = place_of_others(problem, limits, job, chosen);
    let others = others.and_then(|place| larger.on_others(problem, limits, place, plan.as_ref()));
    let own = plan.map(|plan| larger.enough(problem, &plan));
    if let Some(told) = own.into_iter().chain(others).reduce(|own, others| format!("{own}; {others}")) {
        return Some(told);
    }
    if let Some(told) = larger.without_quotas(problem, limits) {
        return Some(told);
    }
    let cheapest = Cheapest::of(problem, limits);
    let Some(cheapest) = cheapest.map(|cheapest| cheapest.told()) else {
        return Some(larger.late(problem, chosen, deadline));
    };
    Some(match larger.first(problem, limits, Within::Deadline) {
        Some(plan) => format!("no plan was found that meets both: {}; {cheapest}", in_time_alone(problem, &plan)),
        None => format!("{}; {cheapest}", larger.late(problem, chosen, deadline)),
    })
}

/// More machines than the job allows.
struct Larger {
    /// The machines that the job allows.
    cap: u32,
    /// The numbers of machines to try as the most, ascending.
    caps: Vec<u32>,
    /// The type of machines of one's own of which there would be more.
    of: Option<String>,
}

impl Larger {
    /// Lists them; `None` where there cannot be as many as would be needed.
    fn new(problem: &Problem, chosen: &Evaluated, deadline: Seconds) -> Option<Self> {
        let chosen_type = chosen.plan.cluster().instance.as_str();
        let (cap, of) = match &problem.place {
            Place::Rented(rental) => (rental.max_instances, None),
            Place::Owned { machine, max_instances, .. } => {
                let there = of_type(&machine.cluster, Some(chosen_type)).machines();
                (max_instances.map_or(there, |most| there.min(most)), Some(chosen_type))
            }
        };
        // Instances that scale without loss would need so many.
        let least = f64::from(chosen.plan.cluster().instances) * chosen.elapsed_s / deadline.0;
        let least = (least as u32).min(INSTANCES_MAX).max(cap.saturating_add(1)).next_power_of_two();
        if !problem.place.may_have(least, of) {
            return None;
        }
        let caps = std::iter::successors(Some(least), |most| most.checked_mul(2));
        let caps = caps.take_while(|most| *most <= INSTANCES_MAX && problem.place.may_have(*most, of));
        Some(Self { cap, caps: caps.collect(), of: of.map(Into::into) })
    }

    /// Finds the cheapest plan within these limits on the fewest machines with which a short search has one that costs little
    /// more than with some others more: numbers that the model divides badly need not be paid for.
    fn first(&self, problem: &Problem, limits: &Limits, within: Within) -> Option<Evaluated> {
        let aim = Aim { within, ..Aim::best(Objective::Cost) };
        let fixed = Fixed { instance: self.of.clone().or(limits.fixed.instance.clone()), ..limits.fixed.clone() };
        let at_most = |most: u32| {
            let larger = with_at_most(problem, most, self.of.as_deref());
            search(&larger, &fixed, aim).best.into_iter().next()
        };
        let (index, plan) = self.caps.iter().enumerate().find_map(|(index, most)| Some((index, at_most(*most)?)))?;
        let missed = index.checked_sub(1).map_or(self.cap, |before| self.caps[before]);
        let near = Ceilings::near(Objective::Cost, Totals::found(&plan), 1.0 + INDISTINCT);
        Some(fewest(missed, plan, |most| at_most(most).filter(|fewer| near.admit(Totals::found(fewer)))))
    }

    /// Says that so many machines meet the goal, and how to allow them.
    fn enough(&self, problem: &Problem, plan: &Evaluated) -> String {
        let cost = plan.cost_usd.map_or_else(String::new, |cost| format!(" for {}", usd(cost)));
        let time = human_duration(Seconds(plan.elapsed_s));
        let (on, cap) = (plan.machines(), human_count(self.cap.into()));
        let enough = format!("{on} would be enough and end in about {time}{cost}");
        match &problem.place {
            Place::Rented(_) => format!(
                "cluster.max_instances {cap} stands in the way: {enough}; write --max-instances {}",
                plan.plan.cluster().instances
            ),
            Place::Owned { machine, max_instances, .. } => {
                let there = of_type(&machine.cluster, self.of.as_deref()).machines();
                let taken = plan.plan.cluster().instances;
                if taken <= there {
                    return format!(
                        "cluster.max_instances {cap} stands in the way: {enough}; write --max-instances {taken}"
                    );
                }
                let also = max_instances.map_or_else(String::new, |_| format!("; write --max-instances {taken} too"));
                format!("with more machines than the {} of the cluster file: {enough}{also}", human_count(there.into()))
            }
        }
    }

    /// Says that machines of types that the job leaves out meet the goal, if they do, and for less than the machines of `own`
    /// if these do too.
    fn on_others(&self, problem: &Problem, limits: &Limits, place: Place, own: Option<&Evaluated>) -> Option<String> {
        let problem = Problem { place, ..problem.clone() };
        let plan = self.with_own_cap().first(&problem, limits, Within::Goal)?;
        let cost = plan.cost_usd?;
        if own.and_then(|own| own.cost_usd).is_some_and(|own| cost > own * (1.0 - INDISTINCT)) {
            return None;
        }
        let instances = plan.plan.cluster().instances;
        let more = if instances > self.cap { format!(" --max-instances {instances}") } else { String::new() };
        told_of_others(&plan, &more)
    }

    /// Returns the same numbers of machines, and before them those that the job allows.
    fn with_own_cap(&self) -> Self {
        let caps = std::iter::once(self.cap).chain(self.caps.iter().copied()).collect();
        Self { cap: self.cap, caps, of: self.of.clone() }
    }

    /// Says that machines beyond a quota meet the goal, if they do.
    fn without_quotas(&self, problem: &Problem, limits: &Limits) -> Option<String> {
        let rental = problem.place.rental()?;
        if rental.quotas == Quotas::default() {
            return None;
        }
        let free = freed(rental);
        let place = Place::Rented(Box::new(free.clone()));
        let plan = self.with_own_cap().first(&Problem { place, ..problem.clone() }, limits, Within::Goal)?;
        let instances = plan.plan.cluster().instances;
        let refusal = rental.quotas.refusal(&free.offer(plan.choice).0, instances)?;
        let too = if instances > self.cap { format!(" and cluster.max_instances {}", self.cap) } else { String::new() };
        let cost = plan.cost_usd.map_or_else(String::new, |cost| format!(" for {}", usd(cost)));
        let time = human_duration(Seconds(plan.elapsed_s));
        let on = plan.machines();
        Some(format!(
            "a quota{too} stands in the way: {on} would be enough and end in about {time}{cost}, which {refusal}"
        ))
    }

    /// Says that no number of machines that was tried meets the deadline.
    fn late(&self, problem: &Problem, chosen: &Evaluated, deadline: Seconds) -> String {
        let most = self.caps.last().copied().unwrap_or(self.cap);
        let most = match &problem.place {
            Place::Rented(rental) => {
                rental.instances.iter().map(|(instance, _)| rental.quotas.cap(instance, most)).max().unwrap_or(most)
            }
            Place::Owned { .. } => most,
        };
        format!(
            "no plan on up to {} was found that ends within {}; on {} it takes {}",
            counted(most.into(), if self.of.is_some() { "machine" } else { "instance" }),
            human_duration(deadline),
            human_count(chosen.plan.cluster().instances.into()),
            human_duration(Seconds(chosen.elapsed_s))
        )
    }
}

/// Says what the deadline alone would need.
fn in_time_alone(problem: &Problem, plan: &Evaluated) -> String {
    let cost = plan.cost_usd.map_or_else(String::new, |cost| format!(" for about {}", usd(cost)));
    let instances = plan.plan.cluster().instances;
    let allowed = match &problem.place {
        Place::Rented(rental) if instances > rental.max_instances => format!(" (--max-instances {instances})"),
        _ => String::new(),
    };
    let time = human_duration(Seconds(plan.elapsed_s));
    format!("the deadline is met by {}{cost} in about {time}{allowed}", plan.machines())
}

/// Returns a rental without quotas, and with the types that they leave out.
fn freed(rental: &Rental) -> Rental {
    let mut instances = rental.instances.clone();
    if let Some((_, like)) = rental.instances.first() {
        let over = rental.over_quota.iter().filter_map(|(name, _)| rental.catalog.instance(name).ok());
        let free = Rental { quotas: Quotas::default(), ..rental.clone() };
        instances.extend(priced(&free, &over.collect::<Vec<_>>(), like));
    }
    let over_quota = Vec::new();
    Rental { instances, over_quota, quotas: Quotas::default(), ..rental.clone() }
}

/// Narrows the number of machines down from that of a plan, by halves, to the fewest above one with which there is no plan.
/// `at_most` finds a plan on up to so many machines: with numbers that nothing divides it is one on fewer.
pub(super) fn fewest(mut missed: u32, mut plan: Evaluated, at_most: impl Fn(u32) -> Option<Evaluated>) -> Evaluated {
    while plan.plan.cluster().instances.saturating_sub(missed) > 1 {
        let middle = u32::midpoint(missed, plan.plan.cluster().instances);
        match at_most(middle) {
            Some(fewer) => plan = fewer,
            None => missed = middle,
        }
    }
    plan
}

/// Returns the same problem with more instances of each type, or of one type of machines of one's own, searched like a
/// draft: a plan found meets the goal, but need not be the best.
pub(super) fn with_at_most(problem: &Problem, most: u32, of: Option<&str>) -> Problem {
    let mut larger = problem.briefly();
    larger.place = larger.place.with_machines(most, of);
    match &mut larger.place {
        Place::Owned { max_instances, .. } => *max_instances = None,
        Place::Rented(rental) => {
            rental.max_instances = most;
            rental.most = rental.instances.iter().map(|(instance, _)| rental.quotas.cap(instance, most)).collect();
        }
    }
    larger
}

#[cfg(test)]
mod tests {
    use crate::asking;
    use trainyard_plan::document::PlanDocument;

    /// The plan of a job on so many machines at most that has a deadline and, if any, this budget.
    fn planned(instances: u32, deadline: &str, budget: Option<f64>) -> PlanDocument {
        let mut job = asking::job("gpt2-xl", 512, &["p3.16xlarge"], instances);
        job.data.samples = Some(5_000_000);
        (job.goal.deadline, job.goal.budget) = (Some(deadline.into()), budget);
        asking::planned(&job)
    }

    /// What it is told on one machine.
    fn told(budget: Option<f64>) -> String {
        planned(1, "20 h", budget).to_meet_goal.expect("one instance takes longer")
    }

    #[test]
    fn the_fewest_instances_that_meet_a_deadline_are_told() {
        for deadline in ["22 h", "13 h"] {
            let told = planned(1, deadline, None).to_meet_goal.expect("one instance takes longer");
            let enough: u32 = told.rsplit(' ').next().and_then(|last| last.parse().ok()).expect("--max-instances N");
            assert_eq!(planned(enough, deadline, None).to_meet_goal, None, "{told}");
            assert!(planned(enough - 1, deadline, None).to_meet_goal.is_some(), "{told}");
        }
    }

    #[test]
    fn a_quota_that_stands_in_the_way_is_told() {
        let mut job = asking::training("gpt2-xl", 512);
        job.data.samples = Some(5_000_000);
        job.cluster.instances = Some(vec!["p4d.24xlarge".into()]);
        job.cluster.quotas = Some([("P".to_owned(), 96)].into());
        let told = |deadline: &str| {
            let mut job = job.clone();
            job.goal.deadline = Some(deadline.into());
            asking::planned(&job).to_meet_goal.expect("one instance takes longer")
        };
        let [few, none] = ["5 h", "1 min"].map(told);
        assert!(few.starts_with("a quota stands in the way: ") && few.contains("the quota of `P` is 96"), "{few}");
        assert!(none.starts_with("no plan on up to 1 instance "), "{none}");
    }

    #[test]
    fn where_the_budget_buys_only_plans_that_are_late_each_is_told_alone() {
        let mut job = asking::job("gpt2-xl", 512, &["p4d.24xlarge"], 16);
        job.data.samples = Some(5_000_000);
        let cheapest = asking::planned(&job).prediction.cost_usd.expect("rented");
        (job.goal.deadline, job.goal.budget) = (Some("2 h".into()), Some(1.01 * cheapest));
        let told = asking::planned(&job).to_meet_goal.expect("two hours cost more");
        assert!(told.starts_with("no plan meets both: the deadline is met by "), "{told}");
        assert!(told.contains("; the budget is met by ") && !told.contains("--max-instances"), "{told}");
    }

    #[test]
    fn a_type_that_is_not_considered_and_meets_the_budget_is_told() {
        let mut job = asking::job("gpt2", 64, &[], 2);
        (job.data.tokens, job.cluster.instances) = (Some(1e9), None);
        let free = asking::planned(&job);
        let other = free.search.left_out.and_then(|left_out| left_out.best).expect("a small space");
        job.goal.budget = Some(1.1 * other.cost_usd);
        let poor = asking::planned(&job);
        assert!(free.prediction.cost_usd > job.goal.budget, "{other:?}");
        let told = poor.to_meet_goal.clone().expect("no plan is so cheap");
        assert!(told.contains(", a type that is not considered, would end in about "), "{told}");
        assert!(told.contains("no plan on the types considered costs less than "), "{told}");
        assert!(
            crate::missed_goal(&poor)
                .is_some_and(|missed| missed.starts_with("no plan on the types considered costs "))
        );
    }

    #[test]
    fn where_deadline_and_budget_go_together_nowhere_each_is_told_alone() {
        let deadline = told(None);
        assert!(deadline.contains(" × p3.16xlarge would be enough"), "{deadline}");
        let rich = told(Some(1e6));
        assert_eq!(rich, deadline);
        let poor = told(Some(1.0));
        assert!(poor.starts_with("no plan was found that meets both: the deadline is met by "), "{poor}");
        assert!(
            poor.contains("(--max-instances ") && poor.contains("; no plan on the types considered costs less than "),
            "{poor}"
        );
    }
}
