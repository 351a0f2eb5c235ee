//! What was not possible, or for certain no better: for each type of machine the limit that decided, and by how much.

use super::remedies::Remedies;
use crate::amount::usd;
use crate::problem::{Place, Problem};
use crate::search::{Evaluated, Found, Ranking, Space, Totals};
use std::collections::BTreeMap;
use trainyard_plan::document::{Rejected, RejectedBy};
use trainyard_plan::{Fixed, JobSpec, Objective};
use trainyard_units::{Seconds, human_duration};

/// The most types of machine that are told by name.
const NAMED: usize = 4;

/// A search with the plan that it led to.
pub(crate) struct Rejections<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) fixed: &'a Fixed,
    pub(crate) found: &'a Found,
    /// Lower bounds of the plans that may fit, by type of machine.
    pub(crate) least: &'a BTreeMap<usize, Totals>,
    pub(crate) chosen: &'a Evaluated,
    /// Number of clusters that were to be ranked.
    pub(crate) top: usize,
}

impl Rejections<'_> {
    /// Lists the rejections of each type of machine, in the order of the place, then of strategies, of number formats
    /// and of others.
    pub(crate) fn all(&self, job: &JobSpec) -> Vec<Rejected> {
        let types = self.problem.place.types();
        let mut all: Vec<Rejected> =
            types.iter().enumerate().filter_map(|(kind, (name, _))| self.machines(kind, name)).collect();
        all.extend(without_offer(&self.problem.place));
        all.extend(Remedies::new(self.problem, self.fixed, self.chosen).too_large());
        all.extend(self.formats(job));
        all.extend(self.too_large_elsewhere());
        all
    }

    /// Explains why no plan of a type of machine is ranked.
    fn machines(&self, kind: usize, name: &str) -> Option<Rejected> {
        if self.found.best.iter().any(|ranked| self.problem.place.kind(ranked.choice) == kind) {
            return None;
        }
        let plans = self.found.plans.get(&kind).copied().unwrap_or(0);
        if plans == 0 {
            return self.without_plans(kind, name);
        }
        if let Some(large) = self.found.too_large.get(&kind).filter(|large| large.plans >= plans) {
            let why = format!("does not fit ({})", large.least.in_words());
            let times = Some(large.least.ratio());
            return Some(Rejected { count: large.plans, ..rejected(RejectedBy::Memory, name, why, times) });
        }
        if let Some(data) = &self.problem.data
            && let Some(error) = data.refusal(self.fixed, &self.problem.place.machine(self.first(kind), 1, None))
        {
            return Some(rejected(RejectedBy::Data, name, format!("cannot bring in samples: {error}"), None));
        }
        self.late_or_dear(kind, name).or_else(|| self.no_better(kind, name))
    }

    fn without_plans(&self, kind: usize, name: &str) -> Option<Rejected> {
        if self.fixed.instance.as_ref().is_some_and(|held| held != name) {
            return None;
        }
        let space = Space::new(self.problem, self.fixed);
        let choices = self.first(kind)..self.first(kind + 1);
        // A type is refused if each of its choices is.
        let refusals: Option<Vec<String>> = choices.map(|choice| space.refusal(choice)).collect();
        let refusal = refusals.and_then(|all| all.into_iter().next());
        let undivided = || "no degrees use its devices and divide the global batch evenly".into();
        let limit = if refusal.is_some() { RejectedBy::Machine } else { RejectedBy::Division };
        Some(rejected(limit, name, refusal.unwrap_or_else(undivided), None))
    }

    /// Rejects a type of machine if a lower bound of its plans that may fit exceeds the deadline or the budget.
    fn late_or_dear(&self, kind: usize, name: &str) -> Option<Rejected> {
        let least = *self.least.get(&kind)?;
        let (time, cost) = (least.elapsed_s, least.cost_usd);
        if let Some(deadline) = self.problem.deadline.filter(|deadline| time > deadline.0) {
            let times = time / deadline.0;
            let time = human_duration(Seconds(time));
            let why = format!("is too slow: any plan takes at least {time}, {times:.1} times the deadline");
            return Some(rejected(RejectedBy::Deadline, name, why, Some(times)));
        }
        let (cost, budget) = cost.zip(self.problem.budget).filter(|(cost, budget)| cost > budget)?;
        let times = cost / budget;
        let why = format!("is too expensive: any plan costs at least {}, {times:.1} times the budget", usd(cost));
        Some(rejected(RejectedBy::Budget, name, why, Some(times)))
    }

    /// Explains by how much every plan of a type of machine is worse than the recommended one. This follows from the
    /// type's lower bound and, if the ranking is full, from the last plan in it.
    fn no_better(&self, kind: usize, name: &str) -> Option<Rejected> {
        if self.found.gap > 0.0 {
            return None;
        }
        let ranking = Ranking::of(self.problem, self.chosen);
        let least = *self.least.get(&kind)?;
        let bound = ranking.worth(least);
        let full = self.found.best.len() >= self.top;
        let ranked = self.found.best.last().filter(|_| full).map(|last| ranking.worth(Totals::found(last)));
        let times = ranked.map_or(bound, |last| last.max(bound)) / ranking.worth(Totals::found(self.chosen));
        if !full && times <= 1.0 {
            let why = format!("has no plan that fits{}", self.problem.and_meets_goal());
            return Some(rejected(RejectedBy::Objective, name, why, None));
        }
        let dear = ranking.objective == Objective::Cost && least.cost_usd.is_some();
        let what = if dear { "more expensive" } else { "slower" };
        let why = format!("is no better: any plan is at least {} {what}", more(times));
        Some(rejected(RejectedBy::Objective, name, why, Some(times)))
    }

    /// Returns the first choice with a type of machine.
    fn first(&self, kind: usize) -> usize {
        kind * self.problem.place.stacks().len()
    }

    /// Lists the number formats that the job asks for by name and that machines have no units for.
    fn formats(&self, job: &JobSpec) -> Vec<Rejected> {
        let types = self.problem.place.types();
        let asked = job.training.precision.iter().flatten();
        asked
            .filter_map(|precision| {
                let lacks = |kind: &usize| {
                    self.problem.place.machine(self.first(*kind), 1, None).has_units(*precision).is_err()
                };
                let without: Vec<&str> = (0..types.len()).filter(lacks).map(|kind| types[kind].0.as_str()).collect();
                let why = format!("has no units on {}", without.join(", "));
                (!without.is_empty()).then(|| rejected(RejectedBy::Machine, precision.name(), why, None))
            })
            .collect()
    }

    /// Lists the plans that do not fit on machines where others do.
    fn too_large_elsewhere(&self) -> Option<Rejected> {
        let whole = |kind: &usize, count: u64| self.found.plans.get(kind).is_some_and(|plans| count >= *plans);
        let large = self.found.too_large.iter().filter(|(kind, large)| !whole(kind, large.plans));
        let count: u64 = large.map(|(_, large)| large.plans).sum();
        let why = "need more memory than a device has".into();
        (count > 0).then(|| Rejected { count, ..rejected(RejectedBy::Memory, "further plans", why, None) })
    }
}

/// Lists the types of machine that may be chosen but cannot be rented: those without a price on these terms, those of which
/// quotas leave none, and those without the job's transport.
fn without_offer(place: &Place) -> Vec<Rejected> {
    let Some(rental) = place.rental() else { return Vec::new() };
    let unpriced = rental.unpriced.iter().map(|name| (RejectedBy::Price, name, "has no price on these terms"));
    let over = rental.over_quota.iter().map(|(name, why)| (RejectedBy::Quota, name, why.as_str()));
    let without = rental.without_transport.iter().map(|(name, why)| (RejectedBy::Machine, name, why.as_str()));
    let all = unpriced.chain(over).chain(without);
    all.map(|(limit, name, why)| rejected(limit, name, why.into(), None)).collect()
}

/// Tells the same in one sentence for each reason; a few types by name, of many how many they are.
pub(crate) fn types_left_out(place: &Place) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Rejected { what, why, .. } in without_offer(place) {
        by_reason.entry(why).or_default().push(what);
    }
    let told = |(why, names): (String, Vec<String>)| match names.as_slice() {
        [only] => format!("{only} is left out: it {why}"),
        few if few.len() <= NAMED => format!("{} are left out: each {why}", few.join(", ")),
        [first, rest @ ..] => format!("{first} and {} other types are left out: each {why}", rest.len()),
        [] => unreachable!("a reason has a type"),
    };
    by_reason.into_iter().map(told).collect()
}

fn rejected(limit: RejectedBy, what: &str, why: String, times: Option<f64>) -> Rejected {
    Rejected { what: what.into(), why, count: 0, limit: Some(limit), times }
}

/// Formats an excess as people say it: `34 %`, `2.5 times`.
fn more(times: f64) -> String {
    if times >= 2.0 { format!("{times:.1} times") } else { format!("{:.0} %", 100.0 * (times - 1.0).max(0.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_said_as_people_say_it() {
        assert_eq!(more(1.344), "34 %");
        assert_eq!(more(2.54), "2.5 times");
        assert_eq!(more(0.99), "0 %");
    }
}
