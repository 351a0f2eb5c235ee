//! Of plans that cannot be told apart the one that an engineer would launch: as cheap and much faster, or simpler.
//!
//! A search proves which plan is best by what is predicted, to the last digit. Predictions are not known to that digit:
//! two plans within some percent of each other may come in either order. So the best plan only sets the bar, and what is
//! recommended is chosen among those near it.

use super::aim::{Aim, Ceilings, amount, other};
use super::arrangement::arrangement;
use super::complexity::{Complexity, DEEPEST_USUAL};
use super::found::Found;
use super::prepared::Prepared;
use super::surer::surer;
use super::totals::{Evaluated, Totals};
use super::usual_batch::with_usual_batch;
use crate::amount::usd;
use crate::problem::Problem;
use crate::relative::{pace, percent_of, price, whole_percent};
use std::collections::BTreeSet;
use trainyard_hardware_profiles::Stack;
use trainyard_plan::operators::LayerRole;
use trainyard_plan::{Objective, Plan, Pricing, StateSharding};
use trainyard_units::{Bytes, Seconds, human_bytes, human_count, human_duration};

/// The relative difference of the objective from which two plans can be told apart. A stated default: the median error
/// of single step times on the same software and machines is about as large (docs/physics.md), and the errors that the
/// two plans share cancel.
pub const INDISTINCT: f64 = 0.05;

/// The relative difference of the objective that is nothing beside one that cannot be told from another. A stated default.
const HARDLY: f64 = 0.01;

/// The most that is given up for a plan that is simpler, however little is known: a stated default. What is predicted to be
/// faster than that by more is worth some trouble.
pub(crate) const GIVEN_UP_MAX: f64 = 0.1;

/// The most that a plan may cost more, or use more time of GPUs, in USD, that is simpler by its software or by switches of
/// that (interleaving, sharding): a stated default, about what a day of an engineer costs. A large training is worth the
/// trouble of what is only a little faster.
pub(crate) const SIMPLER_FOR_USD: f64 = 1000.0;

/// The most that a plan may cost more, in USD, for which less has to be set up (fewer kinds of parallelism, even stages, no
/// offloading): a stated default, what some minutes of an engineer cost, who needs more for that.
const SET_UP_USD: f64 = 10.0;

/// The same for a plan whose software trains models and data as they are, in place of one for which they have to be converted,
/// and weights back: a stated default, what an hour or two of an engineer costs.
const CONVERSION_USD: f64 = 100.0;

/// The same as a part of what the other plan costs, so that small trainings stay cheap.
const SET_UP_MAX: f64 = 0.2;

/// The time that several machines must save where one would do: a stated default, what an engineer needs to set up their
/// network, storage that all of them see, and a launcher.
pub(crate) const SEVERAL_MACHINES: Seconds = Seconds(2.0 * 3600.0);

/// The share of a deadline and of a budget that a plan leaves over that is preferred for being simpler: what ends just in
/// time by a prediction, or costs just the budget, is not given up for it.
pub const LEFT_OVER: f64 = INDISTINCT;

/// The ratio of a quantity's median error to half its 90 % interval: 0.6745 and 1.6449 standard deviations of a normal
/// distribution.
const MEDIAN_OF_INTERVAL: f64 = 0.6745 / 1.6449;

/// A plan is much faster or cheaper than another that takes this many times as much.
pub const MUCH: f64 = 1.5;

/// The same of GPU-hours on machines that have no price: who shares them with others takes what is no slower on fewer.
const FEWER: f64 = 1.1;

/// Returns the ratio of the other objective from which a plan is taken that is as good by what is sought.
fn much(problem: &Problem) -> f64 {
    if problem.place.is_priced() { MUCH } else { FEWER }
}

/// Returns the relative difference of the objective up to which one of two plans may be preferred for being simpler: that
/// from which they can be told apart, where errors of different stacks do not cancel.
pub(crate) fn indistinct(one: &Stack, other: &Stack) -> f64 {
    if one.name == other.name {
        return INDISTINCT;
    }
    let known = MEDIAN_OF_INTERVAL * one.uncertainty.value.hypot(other.uncertainty.value);
    known.clamp(INDISTINCT, GIVEN_UP_MAX)
}

/// Returns the part of a training's cost that may be given up for a plan of a complexity for which less has to be set up than
/// for another one.
pub(crate) fn given_up_for_set_up(cost_usd: f64, own: Complexity, other: Complexity) -> f64 {
    if own.set_up() >= other.set_up() {
        return 0.0;
    }
    let most = if other.is_converted() && !own.is_converted() { CONVERSION_USD } else { SET_UP_USD };
    (most / cost_usd).min(SET_UP_MAX)
}

/// The plans among which one is chosen.
#[derive(Clone, Copy)]
pub(super) struct Among<'s, 'p> {
    pub(super) prepared: &'s Prepared<'p>,
    /// The plans of a search that was cut short; `None` if others may be searched for.
    simulated: Option<&'s [Evaluated]>,
}

impl Among<'_, '_> {
    /// Returns the best plan by an aim.
    pub(super) fn best(self, aim: Aim) -> Option<Evaluated> {
        match self.simulated {
            Some(plans) => self.prepared.best_of(plans, aim),
            None => self.prepared.search(aim).best.into_iter().next(),
        }
    }

    /// Lists the complexities of plans that an aim may admit, the simplest first.
    pub(super) fn complexities(self, aim: Aim) -> BTreeSet<Complexity> {
        match self.simulated {
            Some(plans) => plans.iter().map(|plan| self.prepared.complexity(plan)).collect(),
            None => self.prepared.complexities(aim),
        }
    }
}

/// Returns the best plan that a brief search finds with `aim`, or one that cannot be told from it and that is much faster
/// (where cost is minimized) or much cheaper (where time is).
pub(crate) fn choose_briefly(prepared: &Prepared<'_>, aim: Aim) -> Option<Evaluated> {
    let among = Among { prepared, simulated: None };
    let best = among.best(aim)?;
    let near = Ceilings::near(aim.objective, Totals::found(&best), 1.0 + INDISTINCT);
    Some(or_much_better(among, Aim { ceilings: near, ..aim }, best))
}

/// Returns the plan with `aim` that is much faster (where cost is minimized) or much cheaper (where time is) than this one,
/// or this one if there is none.
pub(super) fn or_much_better(among: Among<'_, '_>, aim: Aim, plan: Evaluated) -> Evaluated {
    let (other, totals) = (other(aim.objective), Totals::found(&plan));
    let end = among.best(Aim { objective: other, ..aim });
    end.filter(|end| !Ceilings::near(other, Totals::found(end), MUCH).admit(totals)).unwrap_or(plan)
}

/// Returns the best plan with `aim` for which the same has to be set up as for this one, if it saves more than
/// [`SIMPLER_FOR_USD`], or this one.
fn or_with_switches(among: Among<'_, '_>, aim: Aim, plan: Evaluated) -> Evaluated {
    let worth = |plan: &Evaluated| Totals::found(plan).worth_usd;
    let order = |plan: &Evaluated| amount(aim.objective, Totals::found(plan));
    let own = among.prepared.complexity(&plan);
    let switched = among.complexities(aim).into_iter().filter(|class| class.differs_in_switches(own));
    let best = switched
        .filter_map(|class| among.best(Aim { complexity: Some(class), ..aim }))
        .min_by(|one, other| order(one).total_cmp(&order(other)));
    best.filter(|best| worth(&plan) - worth(best) > SIMPLER_FOR_USD).unwrap_or(plan)
}

/// Returns, of the plans that cost little more than this one and stay clear of the deadline and the budget, the cheapest for
/// which least has to be set up, or one of these that is much faster; `None` if less is set up for none or if time is what
/// counts.
fn plainer(among: Among<'_, '_>, aim: Aim, plan: &Evaluated) -> Option<Evaluated> {
    let (own, totals) = (among.prepared.complexity(plan), Totals::found(plan));
    if aim.objective != Objective::Cost {
        return None;
    }
    let part = |class| given_up_for_set_up(totals.worth_usd, class, own);
    let up_to = |part: f64| {
        let ceilings = aim.ceilings.and(Ceilings::near(aim.objective, totals, 1.0 + part));
        Aim { ceilings, left_over: LEFT_OVER, ..aim }
    };
    let mut plainest: Option<(Complexity, Evaluated)> = None;
    for class in among.complexities(up_to(SET_UP_MAX)).into_iter().filter(|class| part(*class) > INDISTINCT) {
        if plainest.as_ref().is_some_and(|(first, _)| first.set_up() < class.set_up()) {
            break;
        }
        let Some(other) = simplest(among, up_to(part(class)), |own| own == class) else { continue };
        let value = |plan: &Evaluated| amount(aim.objective, Totals::found(plan));
        if plainest.as_ref().is_none_or(|(_, best)| value(&other.1) < value(best)) {
            plainest = Some(other);
        }
    }
    plainest.map(|(class, plan)| {
        let near = Ceilings::near(aim.objective, Totals::found(&plan), 1.0 + INDISTINCT);
        let up_to = up_to(part(class));
        or_much_better(among, Aim { complexity: Some(class), ceilings: up_to.ceilings.and(near), ..up_to }, plan)
    })
}

/// Chooses the plan to recommend among those found with `aim`, the best of which comes first: that plan, or one that
/// cannot be told from it and that is much faster (where cost is minimized) or much cheaper (where time is), and among
/// these the simplest that stays clear of the deadline and the budget; or one that costs little more than that and for which
/// less has to be set up, or that is likely to end in time.
///
/// A search that was cut short is followed by no other: the choice is among the plans that it simulated.
///
/// A plan that is recommended in place of the best one is moved to the front of the list, and the best one is kept as
/// [`Found::optimum`].
pub(crate) fn choose(prepared: &Prepared<'_>, problem: &Problem, aim: Aim, mut found: Found) -> Found {
    let simulated = std::mem::take(&mut found.simulated_plans);
    let is_cut = found.gap > 0.0;
    let among = Among { prepared, simulated: is_cut.then_some(&simulated) };
    let Some(best) = found.best.first().filter(|_| problem.effort.is_none()) else { return found };
    let one = Aim { top: 1, ..aim };
    let Some(chosen) = preferred_plan(among, problem, one, best) else { return found };
    let chosen = if is_cut { chosen } else { with_usual_batch(among, problem, one, chosen) };
    let chosen = surer(among, problem, one, &chosen).unwrap_or(chosen);
    put_first(&mut found, chosen);
    found
}

/// Returns the plan to recommend with an aim of one plan, the best of which is `best`, whatever its global batch; `None` if there
/// is none.
pub(super) fn preferred_plan(among: Among<'_, '_>, problem: &Problem, one: Aim, best: &Evaluated) -> Option<Evaluated> {
    let chosen = preferred_near(among, problem, one, best)?;
    if chosen.plan.cluster().instances == 1 {
        return Some(chosen);
    }
    let on_one = Aim { on_one_machine: true, ..one };
    let alone = match one.objective {
        Objective::Cost => preferred_near(among, problem, on_one, best),
        // GPU-hours stand for the cost, by which the others are limited above.
        Objective::Time if problem.only_for_want_of_a_price => {
            let ceilings = Ceilings::near(Objective::Cost, Totals::found(&chosen), 1.0 + INDISTINCT);
            let on_one = Aim { ceilings: one.ceilings.and(ceilings), left_over: LEFT_OVER, ..on_one };
            let alone = among.best(on_one).and_then(|best| preferred_near(among, problem, on_one, &best));
            // Methods are compared without the deadline.
            alone.filter(|alone| problem.deadline.is_none_or(|most| alone.elapsed_s <= most.0))
        }
        Objective::Time => None,
    };
    Some(alone.filter(|alone| is_more_set_up_than_saved(alone, &chosen)).unwrap_or(chosen))
}

/// Does so on any number of machines, among the plans near the `best`.
fn preferred_near(among: Among<'_, '_>, problem: &Problem, one: Aim, best: &Evaluated) -> Option<Evaluated> {
    let fastest = fastest_in_block(among, problem, one, best);
    let best = fastest.as_ref().unwrap_or(best);
    let stacks = problem.place.stacks();
    let own_stack = problem.place.software(best.choice);
    let near = |stack| Ceilings::near(one.objective, Totals::found(best), 1.0 + indistinct(own_stack, stack));
    let other = other(one.objective);
    let mut chosen = best.clone();
    let end = among.best(Aim { objective: other, ceilings: near(own_stack), ..one })?;
    let not_much_worse = Ceilings::near(other, Totals::found(&end), much(problem));
    if !not_much_worse.admit(Totals::found(&chosen)) {
        chosen = end;
    }
    let fastest = Totals::found(&chosen);
    // A block costs the same however much of it is used, so what a plan gives up of its time does not show in its cost.
    let as_fast = |stack: &Stack| match problem.place.pricing() {
        Pricing::CapacityBlock => Ceilings::near(Objective::Time, fastest, 1.0 + indistinct(own_stack, stack)),
        _ => Ceilings::NONE,
    };
    let within = |stack| Aim { ceilings: near(stack).and(not_much_worse).and(as_fast(stack)), ..one };
    let own = among.prepared.complexity(&chosen);
    let clear = |stack| Aim { left_over: LEFT_OVER, ..within(stack) };
    let simpler = simplest(among, clear(own_stack), |class| class < own);
    let as_simple = || simplest(among, within(own_stack), |class| class == own);
    if let Some((_, plan)) = simpler.or_else(as_simple) {
        chosen = or_with_switches(among, clear(own_stack), plan);
    }
    if one.stack.is_none() {
        let own = among.prepared.complexity(&chosen);
        let affordable = Ceilings::affordable(Totals::found(&chosen), SIMPLER_FOR_USD);
        let others = stacks.iter().enumerate().filter(|(_, stack)| stack.name != own_stack.name);
        let simpler = others.filter_map(|(number, stack)| {
            let aim = Aim { stack: Some(number), ..clear(stack) };
            let aim = Aim { ceilings: aim.ceilings.and(affordable), ..aim };
            let (class, plan) = simplest(among, aim, |class| class < own)?;
            let plan = or_much_better(among, Aim { complexity: Some(class), ..aim }, plan);
            let as_good = Ceilings::near(one.objective, Totals::found(&plan), 1.0);
            let better = or_much_better(among, Aim { ceilings: as_good, ..one }, plan.clone());
            (better.plan == plan.plan).then_some((class, plan))
        });
        let order = |plan: &Evaluated| amount(one.objective, Totals::found(plan));
        let least = simpler.min_by(|(a, one), (b, other)| a.cmp(b).then(order(one).total_cmp(&order(other))));
        chosen = least.map_or(chosen, |(_, plan)| plan);
    }
    let at_most = Ceilings::near(one.objective, Totals::found(best), 1.0 + SET_UP_MAX);
    let plain = plainer(among, Aim { ceilings: not_much_worse.and(at_most), ..one }, &chosen);
    let chosen = plain.unwrap_or(chosen);
    let chosen = hardly_worse(among, Aim { ceilings: not_much_worse, ..one }, &chosen).unwrap_or(chosen);
    let as_simple = Aim { complexity: Some(among.prepared.complexity(&chosen)), ..one };
    Some(fastest_in_block(among, problem, as_simple, &chosen).unwrap_or(chosen))
}

/// Returns the simplest of the best plans with an aim that differ by next to nothing.
pub(crate) fn simplest_of_best(prepared: &Prepared<'_>, aim: Aim) -> Option<Evaluated> {
    let among = Among { prepared, simulated: None };
    let best = among.best(aim)?;
    Some(hardly_worse(among, aim, &best).unwrap_or(best))
}

/// Returns the simplest plan on the same machines that is hardly worse than this one, which may lie just within a limit beyond
/// which a simpler one lies.
fn hardly_worse(among: Among<'_, '_>, aim: Aim, plan: &Evaluated) -> Option<Evaluated> {
    let own = among.prepared.complexity(plan);
    let beside = Ceilings::near(aim.objective, Totals::found(plan), 1.0 + HARDLY);
    let aim = Aim { ceilings: aim.ceilings.and(beside), left_over: LEFT_OVER, ..aim };
    let is_plainer = |class: Complexity| class < own && (own.is_converted() || !class.is_converted());
    let simpler = simplest(among, aim, is_plainer).map(|(_, plan)| plan);
    simpler.filter(|simpler| simpler.plan.cluster() == plan.plan.cluster())
}

/// Returns the fastest plan that costs no more than this one, if machines are booked in blocks of whole days: many plans cost
/// the same then.
fn fastest_in_block(among: Among<'_, '_>, problem: &Problem, one: Aim, best: &Evaluated) -> Option<Evaluated> {
    if problem.place.pricing() != Pricing::CapacityBlock {
        return None;
    }
    let as_cheap = one.ceilings.and(Ceilings::near(Objective::Cost, Totals::found(best), 1.0 + SAME));
    among.best(Aim { objective: Objective::Time, ceilings: as_cheap, ..one })
}

/// Returns `true` if the first plan is on one machine, and the other on several that save less time than they take to be set up.
pub(crate) fn is_more_set_up_than_saved(alone: &Evaluated, other: &Evaluated) -> bool {
    let machines = |plan: &Evaluated| plan.plan.cluster().instances;
    machines(alone) == 1 && machines(other) > 1 && alone.elapsed_s - other.elapsed_s < SEVERAL_MACHINES.0
}

/// Returns the best plan of the simplest of these complexities that has one.
pub(super) fn simplest(
    among: Among<'_, '_>,
    aim: Aim,
    of_class: impl Fn(Complexity) -> bool,
) -> Option<(Complexity, Evaluated)> {
    among
        .complexities(aim)
        .into_iter()
        .filter(|class| of_class(*class))
        .find_map(|class| Some((class, among.best(Aim { complexity: Some(class), ..aim })?)))
}

/// Moves a plan to the front, in place of the one on as many machines of its type.
fn put_first(found: &mut Found, chosen: Evaluated) {
    let best = found.best[0].clone();
    if chosen.plan == best.plan {
        return;
    }
    let site = |plan: &Evaluated| plan.plan.cluster().clone();
    let length = found.best.len();
    found.best.retain(|other| site(other) != site(&chosen));
    found.best.insert(0, chosen);
    found.best.truncate(length);
    found.optimum = Some(Box::new(best));
}

/// The relative difference of the objective that is nothing where tenths of a percent are told.
pub const SAME: f64 = 0.000_5;

/// Explains why a plan is recommended although another one has the lower objective; `None` where it is simpler
/// and comes to the same, in time too.
pub(crate) fn preferred(problem: &Problem, chosen: &Evaluated, optimum: &Evaluated) -> Option<String> {
    let [own, best] = [chosen, optimum].map(Totals::found);
    let seeks_cost = problem.objective == Objective::Cost && best.cost_usd.is_some();
    if problem.only_for_want_of_a_price && is_more_set_up_than_saved(chosen, optimum) {
        return Some(format!(
            "one machine: {} would end only {} sooner, less than several take to set up; objective = \"time\" asks for the fastest",
            optimum.plan.cluster(),
            human_duration(Seconds(chosen.elapsed_s - optimum.elapsed_s)),
        ));
    }
    let software = |plan: &Evaluated| problem.place.software(plan.choice);
    let told_apart = 1.0 + indistinct(software(chosen), software(optimum));
    let slower = own.times_as_long_as(best) - 1.0;
    let (what, worse) = match (seeks_cost, own.cost_usd.zip(best.cost_usd)) {
        // Capacity blocks are paid whole.
        (true, Some((own, best))) if own / best < 1.0 + SAME && slower >= SAME => {
            ("equally cheap", format!("{} slower", percent_of(slower)))
        }
        (true, Some((own, best))) if own > best * told_apart => {
            ("cheapest", format!("{} ({}) more expensive", usd(own - best), percent_of(own / best - 1.0)))
        }
        (true, Some((own, best))) => ("cheapest", format!("{} more expensive", percent_of(own / best - 1.0))),
        _ => ("fastest", format!("{} slower", percent_of(slower))),
    };
    let ratio = match problem.objective {
        Objective::Time => own.times_as_long_as(best),
        Objective::Cost => own.worth_usd / best.worth_usd,
    };
    let doubt = if ratio > told_apart || more_of_the_same(chosen, optimum) { "" } else { DOUBT };
    let gain = match (seeks_cost, own.cost_usd.zip(best.cost_usd)) {
        (true, _) => Gain::of(best.times_as_long_as(own), pace(own.times_as_long_as(best), 1.0)),
        (false, Some((own, best))) => Gain::of(best / own, price(own, best)),
        (false, None) => {
            let fewer = best.worth_usd / own.worth_usd;
            Gain::of(fewer, format!("with {} of its GPU-hours", whole_percent(1.0 / fewer)))
        }
    };
    let without = without(chosen, optimum);
    let simpler = || simpler_than(chosen, optimum);
    let gain = match gain {
        Gain::Much(gain) if without.is_empty() => gain,
        Gain::Much(gain) => format!("{gain} and {}", simpler()),
        _ if ratio < 1.0 + SAME && slower < SAME => return None,
        Gain::Some(gain) if without.is_empty() && chosen.plan.stack() == optimum.plan.stack() => gain,
        _ => simpler(),
    };
    let stack = optimum.plan.stack().filter(|_| optimum.plan.stack() != chosen.plan.stack());
    let with = stack.map_or_else(String::new, |stack| format!(" with {stack}"));
    let arranged: Vec<String> = [optimum.plan.mesh().parallel().to_string()]
        .into_iter()
        .chain(arrangement(&chosen.plan, &optimum.plan))
        .collect();
    Some(format!(
        "{worse} than the {what} plan ({}{with}, {}){doubt}, but {gain}",
        optimum.plan.cluster(),
        arranged.join(", "),
    ))
}

const DOUBT: &str = ", less than predictions can tell";

/// Returns `true` if both plans run the same way on another number of the same machines: what is not known of one is not known
/// of the other.
fn more_of_the_same(chosen: &Evaluated, optimum: &Evaluated) -> bool {
    let place = |plan: &Plan| (plan.cluster().instance.clone(), plan.stack().map(ToOwned::to_owned));
    let (own, other) = (&chosen.plan, &optimum.plan);
    let split =
        |plan: &Plan| (plan.mesh().tensor(), plan.mesh().pipeline(), plan.mesh().context(), plan.state_sharding());
    own.cluster().instances != other.cluster().instances && place(own) == place(other) && split(own) == split(other)
}

/// What a plan gains in the other of time and cost.
enum Gain {
    Much(String),
    Some(String),
    Nothing,
}

impl Gain {
    /// Weighs that another plan takes `ratio` times as much, which is `told` in words.
    fn of(ratio: f64, told: String) -> Self {
        if ratio > MUCH {
            Self::Much(told)
        } else if ratio > 1.0 + INDISTINCT {
            Self::Some(told)
        } else {
            Self::Nothing
        }
    }
}

/// Lists what one plan does without that another needs.
fn without(chosen: &Evaluated, optimum: &Evaluated) -> Vec<String> {
    let [own, other] = [chosen, optimum].map(|plan| plan.plan.spec().features());
    let parts = other.into_iter().filter(|part| !own.contains(part)).map(|part| format!("no {part}"));
    let even = has_uneven_stages(&optimum.plan) && !has_uneven_stages(&chosen.plan) && chosen.plan.stages().count() > 1;
    let stages = |plan: &Evaluated| plan.plan.mesh().pipeline();
    let shallow = stages(optimum) > DEEPEST_USUAL && stages(chosen) <= DEEPEST_USUAL;
    let shallow = shallow.then(|| format!("{} pipeline stages instead of {}", stages(chosen), stages(optimum)));
    let even = even.then(|| "every stage has the same number of layers".into());
    parts.chain(even).chain(shallow).collect()
}

/// Says that one plan is simpler than another, and in what: `simpler (no interleaving)`.
pub fn simpler_than(chosen: &Evaluated, optimum: &Evaluated) -> String {
    let mut without = without(chosen, optimum);
    let other_stack = optimum.plan.stack().filter(|_| optimum.plan.stack() != chosen.plan.stack());
    without.extend(other_stack.filter(|_| without.is_empty()).map(|stack| format!("no {stack}")));
    let [own, other] = [chosen, optimum].map(|plan| plan.plan.batch());
    if without.is_empty() && own.global < other.global {
        return format!("with a smaller global batch ({})", human_count(own.global));
    }
    if without.is_empty() && own.accumulation < other.accumulation {
        let needed = chosen.plan.model().normalises_over_batches().then_some(", as batch normalisation needs");
        let needed = needed.unwrap_or_default();
        return format!(
            "in micro-batches of {} instead of {}{needed}",
            human_count(own.micro),
            human_count(other.micro)
        );
    }
    let sharded = |plan: &Evaluated| plan.plan.state_sharding() != StateSharding::None;
    if without.is_empty() && sharded(chosen) && !sharded(optimum) {
        let less = Bytes(optimum.memory_peak.0.saturating_sub(chosen.memory_peak.0));
        return format!("with a distributed optimizer, as is usual, which takes {} less memory", human_bytes(less));
    }
    if without.is_empty() { "simpler".into() } else { format!("simpler ({})", without.join(", ")) }
}

/// Returns `true` if the stages of a plan have different numbers of repeated layers.
pub fn has_uneven_stages(plan: &Plan) -> bool {
    let (stages, graph) = (plan.stages(), plan.graph());
    let blocks =
        |position| stages.layers_at(position).filter(|layer| graph.layer(*layer).role == LayerRole::Block).count();
    (1..stages.chunks()).any(|position| blocks(position) != blocks(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Limits, recommend};
    use crate::{Resources, asking, problem};
    use trainyard_hardware_profiles::ClusterFile;
    use trainyard_plan::document::{Alternative, PlanDocument};
    use trainyard_plan::{CampaignSpec, ClusterChoice, Fixed, GradientCompression, Method, Precision, ScheduleName};

    #[test]
    fn plans_of_two_stacks_are_told_apart_less_well_than_plans_of_one() {
        let stack = |name: &str| trainyard_hardware_profiles::catalog().stack(name).expect("in the catalog");
        let [ddp, fsdp, megatron] = ["pytorch-ddp", "pytorch-fsdp", "megatron-core"].map(stack);
        assert_eq!(indistinct(ddp, ddp).to_bits(), INDISTINCT.to_bits());
        assert_eq!(indistinct(ddp, megatron).to_bits(), indistinct(megatron, ddp).to_bits());
        for other in [fsdp, megatron] {
            assert!(indistinct(ddp, other) > INDISTINCT && indistinct(ddp, other) <= GIVEN_UP_MAX);
        }
    }

    /// A training of GPT-2 XL is 11 % cheaper with Megatron Core, for which models and data have to be converted.
    #[test]
    fn nobody_converts_models_to_save_a_few_dollars() {
        let stack = |tokens: f64| {
            let mut job = asking::job("gpt2-xl", 512, &["g6e.xlarge"], 1);
            job.data.tokens = Some(tokens);
            asking::planned(&job).plan.stack
        };
        assert_eq!(stack(5e9).as_deref(), Some("pytorch-ddp-compiled"));
        assert_eq!(stack(100e9).as_deref(), Some("megatron-core"));
    }

    /// Over 10 Gbit/s the sum of gradients decides, and FSDP and DeepSpeed send them in half precision of their own.
    #[test]
    fn nobody_shards_a_small_network_for_the_format_of_its_gradients() {
        let plan = |precision| {
            let mut job = asking::job("resnet50", 256, &["p3.2xlarge"], 2);
            (job.data.samples, job.goal.objective) = (Some(1_281_167), Some(Objective::Time));
            job.training.precision = Some(vec![precision]);
            let plan = asking::planned(&job).plan;
            (plan.stack, plan.cluster.instances, plan.state_sharding, plan.gradient_compression)
        };
        let ddp = |form| (Some("pytorch-ddp-compiled".into()), 2, StateSharding::None, form);
        assert_eq!(plan(Precision::Fp16Mixed), ddp(GradientCompression::Fp16));
        // Single precision is not cut to less.
        assert_eq!(plan(Precision::Fp32).3, GradientCompression::None);
    }

    /// Interleaving takes 5 % off a pipeline that may be set up either way.
    #[test]
    fn what_software_does_at_a_switch_is_given_up_for_little_money_alone() {
        let plan = |tokens: f64| {
            let mut job = asking::job("gpt3-13b", 512, &["p4d.24xlarge"], 16);
            job.data.tokens = Some(tokens);
            job.cluster.stack = Some("megatron-core".into());
            let problem = asking::solvable(&job);
            let (instances, tensor, pipeline) = (Some(16), Some(8), Some(4));
            let fixed = Fixed { instances, tensor, pipeline, ..Fixed::default() };
            let document = recommend(&problem, &Limits { fixed, ..Limits::default() }, &job).expect("a plan");
            (document.plan.schedule, document.plan.state_sharding)
        };
        assert_eq!(plan(1e9), (ScheduleName::OneForwardOneBackward, StateSharding::Optimizer));
        // The distributed optimizer is not given up for a per cent.
        assert_eq!(plan(1e12), (ScheduleName::Interleaved, StateSharding::Optimizer));
    }

    /// Two machines take half the time at about the same cost.
    #[test]
    fn several_machines_are_worth_it_where_they_save_hours() {
        let machines = |samples: u64| {
            let mut job = asking::job("llama-3.1-8b", 64, &["p4d.24xlarge"], 2);
            (job.model.seq_len, job.data.samples) = (Some(2048), Some(samples));
            job.training.method = Some(Method::Lora);
            asking::planned(&job).plan.cluster.instances
        };
        assert_eq!([machines(30_000), machines(600_000)], [1, 2]);
    }

    /// Eight machines take eight minutes for what one takes an hour.
    #[test]
    fn machines_without_a_price_are_not_all_held_to_save_minutes() {
        let text = "name = \"own\"\n[[machines]]\nname = \"node\"\nlike = \"p4de.24xlarge\"\ncount = 8\n";
        let file: ClusterFile = toml::from_str(text).expect("the form of a cluster file");
        let planned = |samples: u64, objective, deadline: Option<&str>| {
            let mut job = asking::job("llama-2-7b", 128, &[], 8);
            job.cluster = ClusterChoice { file: Some("own.toml".into()), ..ClusterChoice::default() };
            (job.model.seq_len, job.data.samples) = (Some(1024), Some(samples));
            job.training.method = Some(Method::Lora);
            (job.goal.objective, job.goal.deadline) = (objective, deadline.map(Into::into));
            let (cluster_file, cluster_path) = (Some(file.clone()), Some("own.toml".into()));
            let own = Resources { cluster_file, cluster_path, ..Resources::default() };
            let problem = problem(&job, own).expect("solvable");
            recommend(&problem, &Limits::default(), &job).expect("a plan")
        };
        let machines = |document: &PlanDocument| document.plan.cluster.instances;
        let short = planned(156_000, None, None);
        let told = |sentence: &String| sentence.starts_with("one machine: 8 × own would end only ");
        assert!(machines(&short) == 1 && short.reasons.iter().any(told), "{:?}", short.reasons);
        assert_eq!(machines(&planned(156_000, Some(Objective::Time), None)), 8);
        assert_eq!(machines(&planned(3_000_000, None, None)), 8);
        // Within a deadline that one machine misses, the plan of the fewest GPU-hours is told besides.
        let urgent = planned(156_000, None, Some("20 min"));
        let thrifty = |other: &Alternative| other.time_s < 1200.0 && other.plan.cluster.instances < 5;
        assert!(machines(&urgent) > 4 && urgent.alternatives.iter().any(thrifty), "{:?}", urgent.alternatives);
    }

    #[test]
    fn a_wait_in_the_queue_makes_no_plan_as_good_as_another() {
        let plan = |objective, wait: &str| {
            let mut job = asking::job("gpt2-medium", 64, &["g4dn.12xlarge"], 4);
            job.data.samples = Some(100_000);
            job.goal.objective = Some(objective);
            // Failures, after which a job waits again, are left out.
            let (queue_wait, node_mtbf) = (Some(wait.into()), Some("1000000000 h".into()));
            job.campaign = Some(CampaignSpec { queue_wait, node_mtbf, ..CampaignSpec::default() });
            asking::planned(&job).plan
        };
        for objective in [Objective::Time, Objective::Cost] {
            assert_eq!(plan(objective, "5 d"), plan(objective, "0 h"));
        }
    }

    #[test]
    fn a_search_that_was_cut_short_prefers_simpler_plans_among_those_that_it_simulated() {
        let mut job = asking::job("llama-3.1-8b", 16, &["g6e.12xlarge"], 2);
        (job.model.seq_len, job.data.samples) = (Some(1024), Some(156_000));
        job.training.method = Some(Method::Lora);
        let problem = asking::solvable(&job);
        let prepared = Prepared::new(&problem, &Fixed::default());
        let aim = Aim::best(problem.objective);
        let whole = choose(&prepared, &problem, aim, prepared.search(aim));
        let simple = whole.best[0].clone();
        let best = *whole.optimum.expect("a simpler plan is recommended");
        let aim = Aim { max_simulations: Some(2), ..aim };
        let chosen_of = |simulated_plans: Vec<Evaluated>| {
            let cut = Found { best: vec![best.clone()], gap: 0.1, simulated_plans, ..Found::default() };
            choose(&prepared, &problem, aim, cut).best.swap_remove(0).plan
        };
        assert_eq!(chosen_of(vec![best.clone(), simple.clone()]), simple.plan);
        // No other is sought.
        assert_eq!(chosen_of(vec![best.clone()]), best.plan);
    }

    #[test]
    fn a_plan_that_just_meets_the_deadline_is_not_preferred_for_being_simpler() {
        let cost = |deadline: &str| {
            let mut job = asking::job("llama-3.1-8b", 16, &["g6e.12xlarge"], 2);
            (job.model.seq_len, job.data.samples) = (Some(1024), Some(156_000));
            job.training.method = Some(Method::Lora);
            job.goal.deadline = Some(deadline.into());
            let document = asking::planned(&job);
            (document.prediction.cost_usd.expect("rented"), document.plan.stack)
        };
        // Without a library the same machines take 90 minutes.
        let [tight, looser, loose] = ["90 min", "91 min", "100 min"].map(cost);
        assert_eq!(tight, looser);
        assert!(loose.1.as_deref() == Some("pytorch-ddp") && looser.1 != loose.1, "{looser:?} {loose:?}");
    }
}
