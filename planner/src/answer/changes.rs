//! What would change the decision: the nearest price, network and global batch at which another plan wins.
//!
//! Plans are held: those that the report ranks, each on its own machines. A price scales what a plan's machines cost, so
//! it takes no simulation; the network and the batch take a few. A plan that is not ranked might win earlier, and what
//! would be recommended then may be a third one that is simpler, which is why sentences say no more than how two plans
//! compare.

use crate::cost::Overheads;
use crate::edits::{MachineChange, Part, Setting, set_batch};
use crate::problem::Problem;
use crate::search::{Evaluated, Found, Ranking, Totals, is_quick};
use rayon::prelude::*;
use trainyard_hardware_profiles::Fabric;
use trainyard_plan::document::{Change, ChangedQuantity, PlanSummary};
use trainyard_plan::{Fixed, GradientReduction, Objective, Plan, StateSharding};
use trainyard_sim::{Machine, footprint};
use trainyard_units::human_count;

/// Prices and networks are varied up to this multiple of the present one, and down to its inverse.
const FACTOR_MAX: f64 = 10.0;

/// Halvings of the range of the network, on a logarithmic scale: the deciding factor is found to 4 %.
const HALVINGS: u32 = 6;

/// Share of a price below which nobody knows it.
const UNKNOWABLE: f64 = 0.01;

/// The same of the speed of a network, as near as the deciding one is found.
const NETWORK_UNKNOWABLE: f64 = 0.05;

/// Global batches are varied up to this multiple of the present one, and down to its inverse.
const BATCH_FACTOR_MAX: u64 = 4;

/// The recommended plan and those that it is compared with.
pub(crate) struct Changes<'a> {
    problem: &'a Problem,
    chosen: &'a Evaluated,
    others: Vec<&'a Evaluated>,
    /// `true` if a plan is better already, so that neither network nor batch decide.
    ahead: bool,
    ranking: Ranking,
}

/// In what a plan is better than the recommended one.
#[derive(Clone, Copy)]
enum Better {
    Cheaper,
    Faster,
    /// It alone meets deadline and budget.
    InGoal,
    /// It misses them by less.
    Nearer,
}

impl<'a> Changes<'a> {
    /// Compares plans. `found` holds the ranked ones; `other_gpu` is the best on machines with another GPU, which may
    /// be among them.
    pub(crate) fn new(
        problem: &'a Problem,
        chosen: &'a Evaluated,
        found: &'a Found,
        other_gpu: Option<&'a Evaluated>,
    ) -> Self {
        let mut others: Vec<&Evaluated> = found.best.iter().skip(1).collect();
        let listed = |plan: &Evaluated| found.best.iter().any(|known| known.plan.cluster() == plan.plan.cluster());
        others.extend(other_gpu.filter(|other| !listed(other)));
        let ranking = Ranking::of(problem, chosen);
        // A plan that cannot be told from the recommended one may be slightly ahead of it: nothing must change for
        // that.
        let all = others.len();
        others.retain(|other| !ranking.prefers(Totals::found(other), Totals::found(chosen)));
        Self { problem, chosen, ahead: others.len() < all, others, ranking }
    }

    /// Returns the nearest price, network and batch at which another plan wins, where there is one, and sentences about
    /// all three.
    pub(crate) fn all(&self) -> (Vec<Change>, Vec<String>) {
        let (price, quick) = (self.price(), self.quick());
        let (network, batch) = (quick.network(), quick.global_batch());
        let without_effect = quick.without_effect(network.is_none(), batch.is_none());
        // At the price that is told, the two cost the same.
        let found: Vec<(Change, Better)> =
            [price.map(|price| (price, Better::Cheaper)), network, batch].into_iter().flatten().collect();
        let told = found.iter().enumerate().filter(|(index, (change, _))| {
            let equal = |(other, _): &(Change, Better)| is_too_near(other) && other.winner == change.winner;
            !(is_too_near(change) && found[..*index].iter().any(equal))
        });
        let sentences = told.map(|(_, (change, better))| sentence(change, *better)).chain(without_effect).collect();
        (found.into_iter().map(|(change, _)| change).collect(), sentences)
    }

    /// Keeps only the plans that are quick to simulate again: none if the recommended one is not, or if another is better
    /// already.
    fn quick(&self) -> Self {
        let chosen = !self.ahead && is_quick(&self.chosen.plan);
        let others = self.others.iter().copied().filter(|other| chosen && is_quick(&other.plan)).collect();
        Self { others, ..*self }
    }

    /// Names the changes that were tried and do not change the decision.
    fn without_effect(&self, network: bool, batch: bool) -> Option<String> {
        if self.others.is_empty() {
            return None;
        }
        let batches = self.batches();
        let network = (network && self.wired())
            .then(|| format!("a network {FACTOR_MAX} times slower to {FACTOR_MAX} times faster"));
        let (least, most) = (batches.iter().min(), batches.iter().max());
        let batch = least
            .zip(most)
            .filter(|_| batch)
            .map(|(least, most)| format!("a global batch of {} to {}", human_count(*least), human_count(*most)));
        let parts: Vec<String> = [network, batch].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("still the best of these plans with {}", parts.join(" or ")))
    }

    /// Returns `true` if less cost is better, and not less time.
    fn seeks_cost(&self) -> bool {
        self.ranking.objective == Objective::Cost && self.chosen.cost_usd.is_some()
    }

    /// Tells in what a plan that is preferred to the recommended one is better.
    fn better(&self, totals: Totals, own: Totals) -> Better {
        // Where nothing meets the goal, the ranking is that of a nearest miss.
        let met = Ranking::goal(self.problem).meets_goal(totals);
        match (self.ranking.meets_goal(totals), self.ranking.meets_goal(own)) {
            (true, false) if met => Better::InGoal,
            (true, false) | (false, _) => Better::Nearer,
            (true, true) if self.seeks_cost() => Better::Cheaper,
            (true, true) => Better::Faster,
        }
    }

    /// Returns the cost of a plan's storage, which does not depend on the price of its machines.
    fn storage(&self, plan: &Evaluated) -> Option<f64> {
        let overheads = Overheads::of_plan(self.problem, &plan.plan, &plan.machine(self.problem), plan.choice);
        let steps = self.problem.training.steps(plan.plan.batch().global);
        Some(plan.cost(self.problem, overheads.as_ref(), steps)?.storage_usd)
    }

    /// Finds the price of another type of machine at which its plan costs as little as the recommended one. Kinds of
    /// machines that are used together have no price of one.
    fn price(&self) -> Option<Change> {
        if self.ranking.objective != Objective::Cost {
            return None;
        }
        let own = self.chosen.cost_usd?;
        let instance = |plan: &Evaluated| plan.plan.cluster().instance.clone();
        let share = |other: &&&Evaluated| {
            let cost = other.cost_usd.filter(|_| !other.machine(self.problem).cluster.is_mixed())?;
            // At that price it costs as much as the recommended plan, which is within the budget.
            let totals = Totals { cost_usd: Some(own), worth_usd: own, ..Totals::found(other) };
            let storage = self.storage(other)?;
            let share = (own - storage) / (cost - storage);
            (instance(other) != instance(self.chosen) && self.ranking.meets_goal(totals) && share * FACTOR_MAX > 1.0)
                .then_some(share)
        };
        let others = self.others.iter().filter_map(|other| Some((share(&other)?, *other)));
        let (share, winner) = others.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let present = self.problem.place.usd_per_hour(winner.choice)?.0;
        Some(Change {
            what: ChangedQuantity::Price,
            instance: Some(instance(winner)),
            present,
            at: present * share,
            winner: summary(&winner.plan),
        })
    }

    fn wired(&self) -> bool {
        let mut all = std::iter::once(self.chosen).chain(self.others.iter().copied());
        all.all(|plan| baseline(&self.machine(plan, 1.0)).is_some())
    }

    /// Finds the network, faster or slower on all machines by the same factor, at which another plan wins.
    fn network(&self) -> Option<(Change, Better)> {
        if self.others.is_empty() || !self.wired() {
            return None;
        }
        let towards = [FACTOR_MAX, 1.0 / FACTOR_MAX].map(|end| self.nearest_factor(end));
        let (factor, (better, winner)) =
            towards.into_iter().flatten().min_by(|a, b| a.0.ln().abs().total_cmp(&b.0.ln().abs()))?;
        // Of the two plans the one on more machines is the one whose network it is about.
        let wide = [winner, self.chosen].into_iter().max_by_key(|plan| plan.plan.cluster().instances)?;
        let machine = self.machine(wide, 1.0);
        let present = baseline(&machine)?;
        // Machines of several kinds have networks of several rates.
        let one_kind = machine.cluster.pools.len() == 1;
        let change = Change {
            what: ChangedQuantity::Network,
            instance: one_kind.then(|| wide.plan.cluster().instance.clone()),
            present,
            at: present * factor,
            winner: summary(&winner.plan),
        };
        Some((change, better))
    }

    /// Finds the factor between 1 and `end` nearest to 1 with which another plan wins, if one wins at `end`. Assumes
    /// that in between a plan begins to win only once.
    fn nearest_factor(&self, end: f64) -> Option<(f64, (Better, &'a Evaluated))> {
        let winners = self.winners(end, &self.others)?;
        let (mut loses, mut wins) = (1.0, (end, winners));
        for _ in 0..HALVINGS {
            let middle = f64::sqrt(loses * wins.0);
            match self.winners(middle, &self.others) {
                Some(winners) => wins = (middle, winners),
                None => loses = middle,
            }
        }
        Some((wins.0, *wins.1.first()?))
    }

    /// Returns the plans that are better than the recommended one when the network is `factor` times as fast, the best
    /// first; `None` if there are none.
    fn winners(&self, factor: f64, others: &[&'a Evaluated]) -> Option<Vec<(Better, &'a Evaluated)>> {
        let own = self.with_network(self.chosen, factor)?;
        let all: Vec<Option<Totals>> = others.par_iter().map(|other| self.with_network(other, factor)).collect();
        let mut better: Vec<(Totals, &Evaluated)> = others
            .iter()
            .zip(all)
            .filter_map(|(other, totals)| Some((totals.filter(|totals| self.ranking.prefers(*totals, own))?, *other)))
            .collect();
        better.sort_by(|a, b| self.ranking.worth(a.0).total_cmp(&self.ranking.worth(b.0)));
        let told = |(totals, other)| (self.better(totals, own), other);
        (!better.is_empty()).then(|| better.into_iter().map(told).collect())
    }

    fn with_network(&self, plan: &Evaluated, factor: f64) -> Option<Totals> {
        // One machine whose samples are there sends nothing.
        if plan.plan.cluster().instances == 1 && plan.plan.input().is_none() {
            return Some(Totals::found(plan));
        }
        Totals::simulated(self.problem, &plan.plan, plan.choice, &self.machine(plan, factor))
    }

    /// Returns the machines of a plan with a network that is `factor` times as fast.
    fn machine(&self, plan: &Evaluated, factor: f64) -> Machine {
        let mut machine = plan.machine(self.problem);
        MachineChange { part: Part::Network, setting: Setting::Factor(factor) }.apply(&mut machine);
        machine
    }

    /// Finds the nearest global batch at which another plan wins, with its layout held.
    fn global_batch(&self) -> Option<(Change, Better)> {
        let present = self.chosen.plan.batch().global;
        let (at, (better, winner)) =
            self.batches().into_iter().find_map(|batch| Some((batch, self.best_at(batch)?)))?;
        let change = Change {
            what: ChangedQuantity::GlobalBatch,
            instance: None,
            present: present as f64,
            at: at as f64,
            winner: summary(&winner),
        };
        Some((change, better))
    }

    /// Lists the global batches to try, the nearest first: those at which the recommended plan can be held.
    fn batches(&self) -> Vec<u64> {
        let mut batches = self.near_batches();
        batches.retain(|batch| self.held_at(self.chosen, *batch).is_some());
        batches
    }

    /// Lists the global batches that the job allows or, if it allows only one, its double, half, quadruple and quarter.
    fn near_batches(&self) -> Vec<u64> {
        let present = self.chosen.plan.batch().global;
        let near = |other: &u64| {
            *other != present
                && *other <= present.saturating_mul(BATCH_FACTOR_MAX)
                && *other >= present.div_ceil(BATCH_FACTOR_MAX)
        };
        let allowed = self.problem.global_batches;
        let mut batches: Vec<u64> = if allowed.are_open() {
            allowed.like(present)
        } else {
            [present.saturating_mul(2), present / 2, present.saturating_mul(4), present / 4].into()
        };
        batches.retain(near);
        let distance = |batch: &u64| (*batch as f64 / present as f64).ln().abs();
        batches.sort_by(|a, b| distance(a).total_cmp(&distance(b)).then(b.cmp(a)));
        batches
    }

    /// Returns the plan that is better than the recommended one at another global batch, by more than can be known, if there
    /// is one.
    fn best_at(&self, global: u64) -> Option<(Better, Plan)> {
        if self.others.is_empty() {
            return None;
        }
        let own = self.with_batch(self.chosen, global)?.1;
        let others: Vec<Option<(Plan, Totals)>> =
            self.others.par_iter().map(|other| self.with_batch(other, global)).collect();
        let both_meet = |totals| self.ranking.meets_goal(totals) && self.ranking.meets_goal(own);
        let much = |totals| self.ranking.worth(totals) < self.ranking.worth(own) * (1.0 - UNKNOWABLE);
        let knowable = |totals: Totals| !both_meet(totals) || much(totals);
        let prefers = |totals: Totals| self.ranking.prefers(totals, own);
        let better = others.into_iter().flatten().filter(|(_, totals)| prefers(*totals) && knowable(*totals));
        let best = better.min_by(|a, b| self.ranking.worth(a.1).total_cmp(&self.ranking.worth(b.1)));
        best.map(|(plan, totals)| (self.better(totals, own), plan))
    }

    fn with_batch(&self, held: &Evaluated, global: u64) -> Option<(Plan, Totals)> {
        let plan = self.held_at(held, global)?;
        let totals = Totals::simulated(self.problem, &plan, held.choice, &held.machine(self.problem))?;
        Some((plan, totals))
    }

    /// Returns a plan at another global batch, if it is valid and fits.
    fn held_at(&self, held: &Evaluated, global: u64) -> Option<Plan> {
        let old = held.plan.spec();
        let mut spec = old.clone();
        set_batch(&mut spec, old, &Fixed { global: Some(global), ..Fixed::default() }).ok()?;
        // Gradients that are sharded and summed once a step would be held whole until then.
        if spec.state_sharding == StateSharding::Gradients {
            let several = spec.batch.accumulation > 1;
            spec.gradient_reduction = if several { GradientReduction::MicroBatch } else { GradientReduction::Step };
        }
        let plan = Plan::try_from(spec).ok().filter(is_quick)?;
        footprint(&plan, &held.machine(self.problem)).fits().ok()?;
        Some(plan)
    }
}

/// Returns the most that one machine sends to others, in bytes a second; `None` if their network is not known.
fn baseline(machine: &Machine) -> Option<f64> {
    match &machine.cluster.first().fabric {
        Fabric::Wired { network, .. } => Some(network.baseline.value.0),
        Fabric::Measured => None,
    }
}

pub(crate) fn summary(plan: &Plan) -> PlanSummary {
    let cluster = plan.cluster();
    PlanSummary {
        instance: cluster.instance.clone(),
        instances: cluster.instances,
        parallel: plan.mesh().parallel(),
        batch: plan.batch(),
        schedule: plan.schedule(),
        precision: plan.precision(),
        recompute: plan.recompute(),
        state_sharding: plan.state_sharding(),
    }
}

/// Returns `true` if a change is smaller than what is known of its quantity.
fn is_too_near(change: &Change) -> bool {
    match change.what {
        ChangedQuantity::Price => (1.0 - change.at / change.present).abs() < UNKNOWABLE,
        ChangedQuantity::Network => (change.at / change.present).ln().abs() < NETWORK_UNKNOWABLE.ln_1p(),
        ChangedQuantity::GlobalBatch => false,
    }
}

/// Describes a change in words: how two plans that are held compare then, and not what would be recommended.
fn sentence(change: &Change, better: Better) -> String {
    let Change { what, instance, present, at, winner } = change;
    let instance = instance.as_deref().unwrap_or_default();
    let other = format!("{} × {}", winner.instances, winner.instance);
    let is_better = match better {
        Better::Cheaper => format!("{other} would be cheaper than this plan"),
        Better::Faster => format!("{other} would be faster than this plan"),
        Better::InGoal => format!("{other} would meet the goal and this plan would not"),
        Better::Nearer => format!("{other} would come nearer to the goal than this plan"),
    };
    match what {
        ChangedQuantity::Price if is_too_near(change) => {
            format!("{other} costs less than {:.0} % more than this plan", 100.0 * UNKNOWABLE)
        }
        ChangedQuantity::Network if is_too_near(change) => format!(
            "a network less than {:.0} % faster or slower would decide between this plan and {other}",
            100.0 * NETWORK_UNKNOWABLE
        ),
        ChangedQuantity::Price => format!(
            "{other} would be as cheap as this plan if {instance} cost {} USD/h instead of {}, {:.0} % less",
            dollars(*at),
            dollars(*present),
            100.0 * (1.0 - at / present)
        ),
        ChangedQuantity::Network => {
            let times = at / present;
            let how = if times > 1.0 {
                format!("{times:.1} times faster")
            } else {
                format!("{:.1} times slower", 1.0 / times)
            };
            if instance.is_empty() {
                return format!("{is_better} if the network were {how}");
            }
            let (from, to) = (gigabits(*present), gigabits(*at));
            format!("{is_better} if the network were {how}: {to} Gbit/s for each {instance} instead of {from}")
        }
        ChangedQuantity::GlobalBatch => {
            let batch = |samples: f64| human_count(samples.round() as u64);
            format!("{is_better} at a global batch of {} instead of {}", batch(*at), batch(*present))
        }
    }
}

fn dollars(usd_per_hour: f64) -> String {
    if usd_per_hour < 1.0 { format!("{usd_per_hour:.3}") } else { format!("{usd_per_hour:.2}") }
}

fn gigabits(bytes_per_second: f64) -> String {
    let gigabits = bytes_per_second * 8.0 / 1e9;
    if gigabits < 10.0 { format!("{gigabits:.1}") } else { format!("{gigabits:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking;
    use crate::problem::GlobalBatches;
    use crate::search::{Aim, Within, search};

    /// Data parallelism of which some machines have a better network than others.
    fn decided() -> (Problem, Found) {
        let mut job = asking::job("gpt2-medium", 64, &["g4dn.xlarge", "g4dn.12xlarge"], 4);
        job.data.samples = Some(100_000);
        job.goal.objective = Some(Objective::Time);
        let problem = asking::solvable(&job);
        let objective = problem.objective;
        let aim = Aim { top: 5, within: Within::Goal, ..Aim::best(objective) };
        let found = search(&problem, &Fixed::default(), aim);
        (problem, found)
    }

    #[test]
    fn another_plan_wins_at_the_network_that_is_told_and_not_before() {
        let (problem, found) = decided();
        let changes = Changes::new(&problem, &found.best[0], &found, None);
        assert!(changes.winners(1.0, &changes.others).is_none(), "the recommended plan is the best as things are");
        let (change, better) = changes.network().expect("with a slow enough network fewer machines are faster");
        let factor = change.at / change.present;
        assert!(changes.winners(factor, &changes.others).is_some());
        assert!(changes.winners(factor.powf(0.9), &changes.others).is_none());
        let told = sentence(&change, better);
        assert_eq!(told.contains("times slower"), factor < 1.0, "{told}");
        assert!(told.contains("would be faster than this plan if"), "{told}");
    }

    #[test]
    fn the_nearest_batches_are_looked_at_first() {
        let (mut problem, found) = decided();
        let batches = |problem: &Problem| Changes::new(problem, &found.best[0], &found, None).near_batches();
        assert_eq!(batches(&problem), [128, 32, 256, 16]);
        problem.global_batches = GlobalBatches::between(8, 128);
        assert_eq!(batches(&problem), [128, 32, 16]);
    }

    #[test]
    fn a_plan_held_at_another_batch_keeps_its_replicas() {
        let (problem, found) = decided();
        let changes = Changes::new(&problem, &found.best[0], &found, None);
        let (plan, _) = changes.with_batch(&found.best[0], 32).expect("a plan");
        let own = &found.best[0].plan;
        assert_eq!((plan.batch().global, plan.mesh()), (32, own.mesh()));
        assert!(plan.batch().micro <= own.batch().micro);
    }

    #[test]
    fn changes_read_as_people_say_them() {
        let (_, found) = decided();
        let winner = summary(&found.best[0].plan);
        let name = format!("{} × {}", winner.instances, winner.instance);
        let told = |better, what, instance: Option<&str>, present, at| {
            let instance = instance.map(Into::into);
            sentence(&Change { what, instance, present, at, winner: winner.clone() }, better)
        };
        let change = |what, instance, present, at| told(Better::Cheaper, what, instance, present, at);
        assert_eq!(
            change(ChangedQuantity::Price, Some("p3.2xlarge"), 3.06, 2.448),
            format!("{name} would be as cheap as this plan if p3.2xlarge cost 2.45 USD/h instead of 3.06, 20 % less")
        );
        assert_eq!(
            change(ChangedQuantity::Network, Some("p4d.24xlarge"), 5e10, 1e11),
            format!(
                "{name} would be cheaper than this plan if the network were 2.0 times faster: 800 Gbit/s for each \
                 p4d.24xlarge instead of 400"
            )
        );
        let (dear, wide) = (
            change(ChangedQuantity::Price, Some("p5en.48xlarge"), 63.30, 63.28),
            change(ChangedQuantity::Network, Some("p4d.24xlarge"), 5e10, 4.9e10),
        );
        assert_eq!(dear, format!("{name} costs less than 1 % more than this plan"));
        assert_eq!(wide, format!("a network less than 5 % faster or slower would decide between this plan and {name}"));
        assert_eq!(
            change(ChangedQuantity::GlobalBatch, None, 512.0, 1024.0),
            format!("{name} would be cheaper than this plan at a global batch of 1,024 instead of 512")
        );
        assert_eq!(
            told(Better::InGoal, ChangedQuantity::GlobalBatch, None, 512.0, 1024.0),
            format!("{name} would meet the goal and this plan would not at a global batch of 1,024 instead of 512")
        );
    }
}
