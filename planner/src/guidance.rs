//! Where a recommendation departs from the size guidance that AWS gives, and why.
//!
//! The guidance names families of instances by the number of a model's parameters alone. It was written when a T4, a
//! V100 and an A100 were what one could rent, and it knows no deadline and no price list.

use crate::amount::usd;
use crate::fix::Fixed;
use crate::problem::{Place, Problem, Rental};
use crate::reasons::relative;
use crate::search::{Aim, Evaluated, Found, search};
use trainyard_hardware_profiles::{Instance, Price};
use trainyard_plan::Objective;
use trainyard_units::{Seconds, human_duration};

/// Families for models with fewer than so many parameters, the smallest models first: under 100 million G4dn, up to 300
/// million P3, above that P3dn and P4d. As the requirements of this program quote AWS; the page itself was not at hand.
const GUIDANCE: [(u64, &[&str]); 3] = [(100_000_000, &["g4dn"]), (300_000_000, &["p3"]), (u64::MAX, &["p3dn", "p4d"])];

/// The comparison of a recommended plan with the guidance.
pub(crate) struct Guidance<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) fixed: &'a Fixed,
    pub(crate) chosen: &'a Evaluated,
    pub(crate) found: &'a Found,
}

impl Guidance<'_> {
    /// Why the recommended instance is none that the guidance names; nothing if it is, or if none of those may be
    /// chosen.
    pub(crate) fn reason(&self) -> Option<String> {
        let Place::Rented(rental) = &self.problem.place else { return None };
        let parameters = self.problem.model.graph().parameters();
        let families = families(parameters);
        let named = |name: &str| families.contains(&family(name));
        let own = &self.chosen.plan.cluster().instance;
        if self.fixed.instance.is_some() || named(own) {
            return None;
        }
        let guided: Vec<&(Instance, Price)> =
            rental.instances.iter().filter(|(instance, _)| named(&instance.name)).collect();
        if guided.is_empty() {
            return None;
        }
        // The list of the best is exact: the first of these families in it is the best of them.
        let listed = self.found.best.iter().find(|kept| named(&kept.plan.cluster().instance)).cloned();
        let advice = format!(
            "AWS's size guidance for {:.0} million parameters is {}",
            parameters as f64 / 1e6,
            families.iter().map(|name| family_name(name)).collect::<Vec<_>>().join(" or ")
        );
        Some(match listed.or_else(|| self.best_of(&representatives(&guided), rental)) {
            Some(other) => format!("{advice}, but {own} is {}", self.against(&other, rental)),
            None => format!("{advice}, but no plan fits on as many of their GPUs as {own} has"),
        })
    }

    /// The best plan on one of these types, with at least as many devices as the recommended one.
    fn best_of(&self, guided: &[&Instance], rental: &Rental) -> Option<Evaluated> {
        let devices = self.chosen.plan.mesh().ranks();
        let aim = Aim::best(self.problem.objective);
        let plans = guided.iter().filter_map(|instance| {
            let enough = devices.div_ceil(instance.gpus).min(rental.max_instances);
            let instances = self.fixed.instances.or(Some(enough));
            let fixed = Fixed { instance: Some(instance.name.clone()), instances, ..self.fixed.clone() };
            search(self.problem, &fixed, aim).best.into_iter().next()
        });
        let worth = |plan: &Evaluated| match (self.problem.objective, plan.cost_usd) {
            (Objective::Cost, Some(cost)) => cost,
            _ => plan.time_s,
        };
        plans.min_by(|a, b| worth(a).total_cmp(&worth(b)))
    }

    /// `23 % cheaper and 10 % slower than 1 × g4dn.xlarge: 0.80 against 0.53 USD/h each, as of 2026-07-20`.
    fn against(&self, other: &Evaluated, rental: &Rental) -> String {
        let time = relative(self.chosen.time_s, other.time_s, "faster", "slower");
        let cost = self.chosen.cost_usd.zip(other.cost_usd);
        let how = cost.map_or_else(
            || time.clone(),
            |(own, others)| format!("{} and {time}", relative(own, others, "cheaper", "dearer")),
        );
        let (own, cluster) = (self.chosen.plan.cluster(), other.plan.cluster());
        let price = |name: &str| rental.instances.iter().find(|(instance, _)| instance.name == name);
        let prices =
            price(&own.instance).zip(price(&cluster.instance)).map_or_else(String::new, |((_, own), (_, other))| {
                format!(
                    ": {:.2} against {:.2} USD/h each at prices of {}",
                    own.hourly().0,
                    other.hourly().0,
                    if own.date == other.date { own.date.clone() } else { format!("{} and {}", own.date, other.date) }
                )
            });
        let missed = self.missed(other).unwrap_or_default();
        format!("{how} than {} × {}{missed}{prices}", cluster.instances, cluster.instance)
    }

    /// That a plan is too late or too dear, where the recommended one is not.
    fn missed(&self, other: &Evaluated) -> Option<String> {
        let late = |plan: &Evaluated| self.problem.deadline.filter(|deadline| plan.elapsed_s > deadline.0);
        let dear = |plan: &Evaluated| self.problem.budget.filter(|budget| plan.cost_usd.is_some_and(|c| c > *budget));
        if let (None, Some(deadline)) = (late(self.chosen), late(other)) {
            let time = human_duration(Seconds(other.elapsed_s));
            return Some(format!(", which would need {time}, more than {}", human_duration(deadline)));
        }
        let (None, Some(budget)) = (dear(self.chosen), dear(other)) else { return None };
        Some(format!(", which would cost more than {}", usd(budget)))
    }
}

/// The families for a model of this size.
fn families(parameters: u64) -> &'static [&'static str] {
    GUIDANCE.iter().find(|(below, _)| parameters < *below).map_or(&[], |(_, families)| families)
}

/// `p3dn` of `p3dn.24xlarge`.
fn family(instance: &str) -> &str {
    instance.split('.').next().unwrap_or(instance)
}

/// `P3dn` of `p3dn`.
fn family_name(family: &str) -> String {
    let mut letters = family.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Of the types with as many GPUs in each family the one with the lowest price: they differ in what this comparison does
/// not need.
fn representatives<'a>(guided: &[&'a (Instance, Price)]) -> Vec<&'a Instance> {
    let mut all: Vec<&(Instance, Price)> = guided.to_vec();
    let kind = |entry: &(Instance, Price)| (family(&entry.0.name).to_owned(), entry.0.gpus);
    all.sort_by(|a, b| kind(a).cmp(&kind(b)).then(a.1.hourly().0.total_cmp(&b.1.hourly().0)));
    all.dedup_by_key(|entry| kind(entry));
    all.into_iter().map(|(instance, _)| instance).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_follow_the_size() {
        assert_eq!(families(25_000_000), ["g4dn"]);
        assert_eq!(families(100_000_000), ["p3"]);
        assert_eq!(families(300_000_000), ["p3dn", "p4d"]);
        assert_eq!((family("p3dn.24xlarge"), family_name("p3dn").as_str()), ("p3dn", "P3dn"));
    }
}
