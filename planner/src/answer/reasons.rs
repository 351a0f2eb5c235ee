//! Why the recommended plan: each reason is an answer to "why not …", found by searching for the best plan of that
//! other kind and comparing.

use super::layout::{differences, held_as};
use super::own_machines::near;
use super::solve::{found_with, recommended};
use super::tuning::Tried;
use crate::amount::usd;
use crate::problem::{Description, GlobalBatches, Place, Problem};
use crate::relative::{apart, pace, pace_beside, price, same, would_be};
use crate::search::{
    Aim, Evaluated, Found, INDISTINCT, Prepared, Ranking, SEVERAL_MACHINES, Totals, UNSHARDED, Within,
    is_more_set_up_than_saved, other_recomputation,
};
use crate::shortfall::TooLarge;
use rayon::prelude::*;
use std::sync::Mutex;
use trainyard_hardware_profiles::catalog;
use trainyard_models::Divisible;
use trainyard_plan::document::Evidence;
use trainyard_plan::{
    Fixed, GradientCompression, Objective, Offload, Plan, PlanSpec, Precision, Recompute, ScheduleName, StateSharding,
};
use trainyard_sim::footprint;
use trainyard_units::{Seconds, counted, human_count, human_duration};

/// Simulations for a plan on other machines: a comparison needs a good plan, not the proof that none is better.
const COMPARED: u64 = 6;

/// The reasons for one recommended plan.
pub(crate) struct Reasons<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) fixed: &'a Fixed,
    pub(crate) chosen: &'a Evaluated,
    pub(crate) found: &'a Found,
    /// The best plan on machines with another GPU.
    pub(crate) other_gpu: Option<&'a Evaluated>,
    /// The number formats that are not held, the recommended one first.
    pub(crate) tried: &'a [Tried],
    /// Why a plan is recommended that is not the best by what is sought, if it is not.
    pub(crate) preferred: Option<String>,
    /// What bounds the step.
    pub(crate) bound: String,
    /// The latest search.
    pub(crate) asked: Mutex<Option<Evidence>>,
}

/// Finds the best plan on machines with another GPU than the recommended one's, within the goal if there is one and the
/// recommended plan meets it; `None` if the machine is held.
pub(crate) fn other_gpu(prepared: &Prepared<'_>, problem: &Problem, fixed: &Fixed, found: &Found) -> Option<Evaluated> {
    if fixed.instance.is_some() {
        return None;
    }
    let own = &found.best.first()?.plan.cluster().instance;
    if let Place::Owned { .. } = &problem.place {
        // Another kind of machines of one cluster, or all of them.
        return found.best.iter().find(|kept| kept.plan.cluster().instance != *own).cloned();
    }
    let own = catalog().instance(own).ok()?;
    let has_other_gpu = |kept: &&Evaluated| {
        catalog().instance(&kept.plan.cluster().instance).is_ok_and(|instance| instance.gpu != own.gpu)
    };
    // The list of the best is exact: where it has another GPU, that is the best with one.
    let listed = found.best.iter().find(has_other_gpu).cloned();
    if listed.is_some() {
        return listed;
    }
    let objective = Ranking::of(problem, found.best.first()?).objective;
    let max_simulations = Some(COMPARED);
    let aim = |within| Aim { max_simulations, within, without_gpu: Some(&own.gpu), ..Aim::best(objective) };
    let best = |within| prepared.search(aim(within)).best.into_iter().next();
    let within = |totals| Ranking::goal(problem).meets_goal(totals);
    let limited = problem.deadline.is_some() || problem.budget.is_some();
    let searched = (limited && within(Totals::found(&found.best[0]))).then(|| best(Within::Goal)).flatten();
    searched.or_else(|| best(Within::Anything))
}

/// Converts a search into its form in a document.
pub(crate) fn evidence(fixed: &Fixed, best: Option<&Evaluated>, too_large: Option<TooLarge>) -> Evidence {
    Evidence {
        reason: 0,
        fix: fixed.each().into_iter().map(|(field, value, _)| format!("{}={value}", field.name())).collect(),
        time_s: best.map(|plan| plan.elapsed_s),
        cost_usd: best.and_then(|plan| plan.cost_usd),
        needed_bytes: too_large.filter(|_| best.is_none()).map(|own| own.least.needed.0),
    }
}

impl Reasons<'_> {
    /// Lists what was sought and all reasons that apply, the most important first, each with the search that it rests
    /// on.
    pub(crate) fn all(&self) -> Vec<(String, Option<Evidence>)> {
        let reasons: [fn(&Self) -> Option<String>; 16] = [
            |own| Some(own.objective()),
            |own| own.preferred.clone(),
            Self::cluster,
            Self::instances,
            Self::degrees,
            |own| Some(own.bound.clone()),
            Self::sharding,
            Self::compression,
            Self::unnamed_format,
            Self::micro_batch,
            Self::precision,
            Self::bigger_instance,
            Self::recompute,
            Self::schedule,
            Self::sequence,
            Self::offload,
        ];
        let told = |reason: &fn(&Self) -> Option<String>| {
            let (preferred, bound) = (self.preferred.clone(), self.bound.clone());
            let own = Self { preferred, bound, asked: Mutex::default(), ..*self };
            let text = reason(&own)?;
            Some((text, own.asked.into_inner().expect("nobody panics while a search is noted")))
        };
        reasons.par_iter().filter_map(told).collect()
    }

    /// Notes the latest search.
    fn note(&self, evidence: Evidence) {
        *self.asked.lock().expect("nobody panics while a search is noted") = Some(evidence);
    }

    /// Returns the user's held fields and the cluster of the chosen plan.
    fn same_cluster(&self) -> Fixed {
        let cluster = self.chosen.plan.cluster();
        Fixed { instance: Some(cluster.instance.clone()), instances: Some(cluster.instances), ..self.fixed.clone() }
    }

    /// Finds the plan that would be recommended with these fields held, without deadline and budget, and what did not
    /// fit. Where there is nothing to look at, nobody is told to search for it: software may refuse these fields.
    fn best(&self, fixed: &Fixed) -> (Option<Evaluated>, Option<TooLarge>) {
        let (best, too_large) = recommended(self.problem, fixed);
        if best.is_some() || too_large.is_some() {
            self.note(evidence(fixed, best.as_ref(), too_large));
        }
        (best, too_large)
    }

    /// Does the same for the cheapest plan or, where time is sought, the fastest, even where a simpler one would be
    /// recommended in its place: other sentences compare with it too.
    fn optimum(&self, fixed: &Fixed) -> (Option<Evaluated>, Option<TooLarge>) {
        let mut found = found_with(self.problem, fixed);
        let Some(optimum) = found.optimum.take() else {
            let too_large = found.too_large.into_values().next();
            let best = found.best.into_iter().next();
            if best.is_some() || too_large.is_some() {
                self.note(evidence(fixed, best.as_ref(), too_large));
            }
            return (best, too_large);
        };
        self.note(evidence(&held_as(self.problem, fixed, &optimum), Some(&optimum), None));
        (Some(*optimum), None)
    }

    /// Compares with the best plan with these fields: `other` with how it would do or, if none fits, `larger` with the
    /// memory that it lacks.
    fn rather_than(&self, fixed: &Fixed, other: &str, larger: &str) -> Option<String> {
        match self.best(fixed) {
            (Some(best), _) => Some(format!("{other} {}", self.other_side(&best))),
            (None, large) => large.map(|large| format!("{larger} {}", does_not_fit(large))),
        }
    }

    /// Compares with the best plan that has these fields and is otherwise laid out as the chosen one. If the software
    /// has no such plans, compares with the best that has the fields of `loose`, and says what else it changes.
    fn alike(&self, fixed: &Fixed, loose: &Fixed, other: &str, larger: &str) -> Option<String> {
        self.compared(fixed, other, larger).or_else(|| self.compared(loose, other, larger))
    }

    /// Compares with the best plan with these fields. If that recomputes otherwise, says so, and whether it has to.
    fn compared(&self, fixed: &Fixed, other: &str, larger: &str) -> Option<String> {
        let best = match self.best(fixed) {
            (Some(best), _) => best,
            (None, large) => return large.map(|large| format!("{larger} {}", does_not_fit(large))),
        };
        let (mut changes, side) = (differences(&self.chosen.plan, &best.plan), self.other_side(&best));
        let recomputed = other_recomputation(&self.chosen.plan, &best.plan).filter(|_| fixed.recompute.is_none());
        if let Some(recomputed) = recomputed {
            let held = Fixed { recompute: Some(self.chosen.plan.recompute()), ..fixed.clone() };
            if let (None, Some(large)) = recommended(self.problem, &held) {
                let (changes, lacks) = (with(&changes), does_not_fit(large));
                return Some(format!("{other}{changes} {lacks}; with {recomputed} it {side}"));
            }
            changes.push(recomputed);
        }
        Some(format!("{other}{} {side}", with(&changes)))
    }

    fn objective(&self) -> String {
        let late = self.problem.deadline.is_some_and(|deadline| self.chosen.elapsed_s > deadline.0);
        let dear = self.problem.budget.zip(self.chosen.cost_usd).is_some_and(|(budget, cost)| cost > budget);
        let Problem { objective, deadline, budget, .. } = *self.problem;
        let goal = match (objective, deadline, self.chosen.cost_usd) {
            _ if late => match budget.filter(|_| !dear) {
                Some(budget) => format!("the fastest that costs at most {}; none meets the deadline", usd(budget)),
                None => "the fastest; none meets the deadline".into(),
            },
            (_, Some(deadline), _) if dear => {
                format!("the cheapest that ends within {}; none is within the budget", human_duration(deadline))
            }
            _ if dear => "the cheapest; none is within the budget".into(),
            (Objective::Cost, Some(deadline), Some(_)) => {
                format!("the cheapest that ends within {}", human_duration(deadline))
            }
            (Objective::Cost, None, Some(_)) => "the cheapest".into(),
            _ => match budget {
                Some(budget) => format!("the fastest that costs at most {}", usd(budget)),
                None => "the fastest".into(),
            },
        };
        let clusters = match &self.problem.place {
            Place::Owned { described_by: Description::Profile(_), .. } => "this machine".into(),
            Place::Owned { described_by: Description::ClusterFile(_), .. } => "this cluster".into(),
            Place::Rented(rental) => match rental.instances.len() {
                _ if self.fixed.instance.is_some() => "1 instance type".into(),
                1 => "1 instance type".into(),
                types => format!("{types} instance types"),
            },
        };
        let Found { candidates, simulated, gap, .. } = *self.found;
        let cut_short = if gap > 0.0 {
            let better = (100.0 * gap).ceil();
            format!("; stopped after {}: another plan could be {better:.0} % better", counted(simulated, "simulation"))
        } else {
            String::new()
        };
        format!("searched {} on {clusters} for {goal}{cut_short}", counted(candidates, "plan"))
    }

    /// Compares with the best plan on machines with another GPU.
    fn cluster(&self) -> Option<String> {
        let other = self.other_gpu?;
        let (own, others) = (self.chosen.machines(), other.machines());
        let side = self.missed_goal(&others, other).unwrap_or_else(|| self.against(other));
        Some(format!("{own} rather than {others}{}: {side}", self.under_other_software(other)))
    }

    /// Compares with fewer machines, of which the best plan is on the front of time and cost: over other numbers the model
    /// or its batch divides badly, and nobody would rent them. One machine is compared with two.
    fn instances(&self) -> Option<String> {
        let (most, machine) = match &self.problem.place {
            Place::Rented(rental) => (rental.max_instances, "instance"),
            // Where machines cost nothing, those that are not used are no gain.
            place if place.is_priced() => (place.choices()[self.chosen.choice].1, "machine"),
            Place::Owned { .. } => return None,
        };
        if self.fixed.instances.is_some() {
            return None;
        }
        let own = self.chosen.plan.cluster().instances;
        let other = |instances| self.optimum(&Fixed { instances: Some(instances), ..self.same_cluster() });
        if own > 1 {
            let known = self.fewer_on_front();
            // Where none was looked at, one fewer or, if nothing divides evenly over them, half as many.
            let tried = known.map_or_else(|| vec![own - 1, own / 2], |number| vec![number]);
            let mut tried = tried.into_iter().map(|fewer| (fewer, other(fewer)));
            let (number, found) = tried.find(|(_, (best, large))| best.is_some() || large.is_some())?;
            return match found {
                (Some(fewer), _) => {
                    let side = self.missed_goal(&number.to_string(), &fewer).or_else(|| self.against_fewer(&fewer))?;
                    Some(format!("{own} {machine}s rather than {number}{}: {side}", self.under_other_software(&fewer)))
                }
                (None, large) => Some(format!("{own} {machine}s: plans on {number} {}", does_not_fit(large?))),
            };
        }
        let (more, _) = if most > 1 { other(2) } else { (None, None) };
        let more = more?;
        let costs = self.chosen.cost_usd.zip(more.cost_usd);
        let as_cheap = costs.is_some_and(|(own, other)| other < own * (1.0 + INDISTINCT));
        let set_up = if as_cheap && is_more_set_up_than_saved(self.chosen, &more) {
            format!(
                "; a second saves {}, less than the {} that setting several up is taken to cost",
                human_duration(Seconds(self.chosen.elapsed_s - more.elapsed_s)),
                human_duration(SEVERAL_MACHINES)
            )
        } else {
            String::new()
        };
        let software = self.under_other_software(&more);
        Some(format!("one {machine} rather than 2{software}: {}{set_up}", self.against(&more)))
    }

    /// Returns `true` if the choice is compared with the best plan by what is sought, and that is on as many machines.
    fn is_told(&self, other: &Evaluated) -> bool {
        let site = |plan: &Evaluated| (plan.plan.cluster().instance.clone(), plan.plan.cluster().instances);
        self.found.optimum.as_ref().is_some_and(|optimum| site(optimum) == site(other))
    }

    /// Returns the number of machines of the fastest plan on fewer of the same type that is on the front of time and cost and
    /// does not take as long, of those that were found.
    fn fewer_on_front(&self) -> Option<u32> {
        let own = self.chosen.plan.cluster();
        let found = self.found.best.iter().chain(&self.found.fastest).chain(self.found.optimum.as_deref());
        let fewer = found.filter(|other| {
            let cluster = other.plan.cluster();
            cluster.instance == own.instance
                && cluster.instances < own.instances
                && !same(other.elapsed_s, self.chosen.elapsed_s)
                && is_ahead(other, self.chosen)
        });
        fewer.min_by(|a, b| a.elapsed_s.total_cmp(&b.elapsed_s)).map(|plan| plan.plan.cluster().instances)
    }

    /// Tells how long a plan on other machines takes, or what it costs, where that misses the deadline or the budget and the
    /// chosen plan does not.
    fn missed_goal(&self, machines: &str, other: &Evaluated) -> Option<String> {
        let late = self.problem.deadline.filter(|most| self.chosen.elapsed_s <= most.0 && other.elapsed_s > most.0);
        let late = late.map(|most| {
            let [time, most] = [Seconds(other.elapsed_s), most].map(human_duration);
            format!("{machines} would take {time}, more than {most}")
        });
        let costs = self.chosen.cost_usd.zip(other.cost_usd).zip(self.problem.budget);
        let dear = costs.filter(|((own, others), most)| own <= most && others > most);
        let dear =
            dear.map(|((_, cost), most)| format!("{machines} would cost {}, more than {}", usd(cost), usd(most)));
        late.or(dear)
    }

    /// Compares with a plan on fewer machines, where either gains something and no other reason tells it.
    fn against_fewer(&self, fewer: &Evaluated) -> Option<String> {
        let trade = is_ahead(fewer, self.chosen) && is_ahead(self.chosen, fewer);
        (trade && !self.is_told(fewer)).then(|| self.against(fewer))
    }

    /// Compares with the same number of the same GPUs in smaller machines.
    fn bigger_instance(&self) -> Option<String> {
        let Place::Rented(rental) = &self.problem.place else { return None };
        if self.fixed.instance.is_some() {
            return None;
        }
        let own = catalog().instance(&self.chosen.plan.cluster().instance).ok()?;
        let devices = own.gpus * self.chosen.plan.cluster().instances;
        let smaller = rental
            .instances
            .iter()
            .map(|(instance, _)| instance)
            .filter(|other| other.gpu == own.gpu && other.gpus < own.gpus && devices.is_multiple_of(other.gpus))
            .max_by_key(|other| other.gpus);
        let Some(smaller) = smaller else {
            let sizes = catalog().instances().iter().filter(|other| other.gpu == own.gpu && other.gpus < own.gpus);
            return (own.gpus > 1 && sizes.count() == 0)
                .then(|| format!("{} is the only size with this GPU, {} of them", own.name, own.gpus));
        };
        let instances = devices / smaller.gpus;
        let fixed = Fixed { instance: Some(smaller.name.clone()), instances: Some(instances), ..self.fixed.clone() };
        let (other, _) = self.optimum(&fixed);
        let why = other.as_ref().map_or_else(|| "the model fits no plan there".into(), |other| self.against(other));
        let devices = human_count(u64::from(devices));
        let own = self.chosen.machines();
        let software = other.as_ref().map_or_else(String::new, |other| self.under_other_software(other));
        let others = format!("{instances} × {}", smaller.name);
        Some(format!("{own} rather than {others} for the same {devices} GPUs{software}: {why}"))
    }

    /// Compares with pure data parallelism, or with the next best split.
    fn degrees(&self) -> Option<String> {
        if self.fixed.data.or(self.fixed.tensor).or(self.fixed.pipeline).is_some() {
            return None;
        }
        Some(self.split())
    }

    fn split(&self) -> String {
        let mesh = self.chosen.plan.mesh();
        let ranks = mesh.ranks();
        if ranks == 1 {
            return "the model fits on one device, so nothing is split".into();
        }
        if mesh.tensor() == 1 && mesh.pipeline() == 1 {
            let own = unsplit(&self.chosen.plan, self.fits_whole());
            let split = Fixed { pipeline: Some(2), ..self.same_cluster() };
            let (other, _) = self.best(&split);
            return match other {
                Some(other) => {
                    let stages = format!("2 pipeline stages{}", self.under_other_software(&other));
                    format!("{own}; {}", pace_beside(self.chosen.time_s, other.time_s, &stages))
                }
                None => own,
            };
        }
        let data = Fixed { tensor: Some(1), pipeline: Some(1), context: Some(1), ..self.same_cluster() };
        let split = split_in_words(mesh.tensor(), mesh.context(), mesh.pipeline());
        match self.best(&data) {
            (Some(other), _) => {
                format!("{split}: data parallel alone{} {}", self.besides(&other), self.other_side(&other))
            }
            (None, Some(large)) => format!("{split}: data parallel alone {}", does_not_fit(large)),
            (None, None) if self.fits_unsplit() => {
                let own = human_count(self.chosen.plan.batch().global);
                let undivided = format!("{split}: a global batch of {own} does not divide over {ranks} replicas");
                match self.data_parallel_of_near_batch() {
                    Some(other) => {
                        let batch = human_count(other.plan.batch().global);
                        format!("{undivided}; with {batch} data parallel alone {}", self.other_side(&other))
                    }
                    None => undivided,
                }
            }
            (None, None) => format!("{split}: data parallel alone would not fit, even one sample at a time"),
        }
    }

    /// Returns `true` if the chosen plan would fit with its state unsharded on every device.
    fn fits_whole(&self) -> bool {
        let plan = &self.chosen.plan;
        let machine = self.chosen.machine(self.problem);
        let (state_sharding, offload) = (StateSharding::None, Offload::NONE);
        let whole = Plan::try_from(PlanSpec { state_sharding, sharding_ranks: None, offload, ..plan.spec().clone() });
        whole.is_ok_and(|whole| footprint(&whole, &machine).fits().is_ok())
    }

    /// Finds the best plan of replicas that are not split on these machines with a global batch near this one that they share.
    fn data_parallel_of_near_batch(&self) -> Option<Evaluated> {
        let plan = &self.chosen.plan;
        let unsplit = Fixed { tensor: Some(1), pipeline: Some(1), context: Some(1), ..self.same_cluster() };
        let with = |batch| recommended(&with_batch(self.problem, batch), &unsplit).0;
        let near = near(plan.batch().global, plan.mesh().ranks().into()).into_iter().filter_map(with);
        near.min_by(|one, other| one.elapsed_s.total_cmp(&other.elapsed_s))
    }

    /// Returns `true` if the model would fit unsplit when the global batch divides evenly among as many replicas as
    /// there are devices.
    fn fits_unsplit(&self) -> bool {
        let ranks = u64::from(self.chosen.plan.mesh().ranks());
        let problem = with_batch(self.problem, ranks);
        let fixed = Fixed { tensor: Some(1), pipeline: Some(1), context: Some(1), ..self.same_cluster() };
        recommended(&problem, &fixed).0.is_some()
    }

    fn precision(&self) -> Option<String> {
        let own = self.chosen.plan.precision();
        let sought = |tried: &&Tried| self.problem.unless_named(tried.precision).is_none();
        let other = self.tried.iter().filter(sought).find(|tried| tried.precision != own)?;
        let why = self.in_format(other)?;
        let other = other.precision;
        let units = match own {
            Precision::Fp8Mixed => " (products of blocks in eight bits)",
            _ if own.element_bytes() == 2 => " (tensor cores, half the activation bytes)",
            _ => "",
        };
        Some(format!("{own}{units}: {other} {why}"))
    }

    /// Says that a format which is taken only if it is named would be better.
    fn unnamed_format(&self) -> Option<String> {
        self.tried.iter().find_map(|tried| self.unless_named(tried))
    }

    fn unless_named(&self, tried: &Tried) -> Option<String> {
        let why = self.problem.unless_named(tried.precision)?;
        let ranking = Ranking::of(self.problem, self.chosen);
        let is_better = |best: &Evaluated| ranking.prefers(Totals::found(best), Totals::found(self.chosen));
        // Activations of half the size may fit in a layout in which those of the chosen plan do not.
        let is_smaller = tried.precision.element_bytes() < self.chosen.plan.precision().element_bytes();
        let of_all = || {
            let fixed = Fixed { precision: Some(tried.precision), ..self.fixed.clone() };
            let best = is_smaller.then(|| recommended(self.problem, &fixed).0).flatten()?;
            Some((fixed, best))
        };
        let same = tried.best.clone().filter(is_better).map(|best| (tried.fixed.clone(), best));
        let (fixed, best) = same.or_else(of_all).filter(|(_, best)| is_better(best))?;
        self.note(evidence(&fixed, Some(&best), None));
        let costs = best.cost_usd.zip(self.chosen.cost_usd);
        let traded = traded((best.elapsed_s, self.chosen.elapsed_s), costs);
        Some(format!("{} is {traded}, but taken only if `training.precision` names it: {why}", tried.precision))
    }

    /// Compares with plans in another number format: with one that is laid out as the chosen one or, where that does not
    /// fit, with the best of all.
    fn in_format(&self, other: &Tried) -> Option<String> {
        let note = || self.note(evidence(&other.fixed, other.best.as_ref(), other.too_large));
        note();
        let Some(best) = &other.best else {
            let lacking = other.too_large?.least.in_words();
            return Some(format!("would not fit, whatever else changes ({lacking})"));
        };
        let changes = differences(&self.chosen.plan, &best.plan);
        if changes.is_empty() {
            return Some(self.other_side(best));
        }
        let other_layout = changes.join(", ");
        Some(match self.best(&Fixed { precision: Some(other.precision), ..self.same_layout() }) {
            (Some(alike), _) => format!("{} {}", self.besides(&alike), self.other_side(&alike)).trim_start().to_owned(),
            (None, Some(large)) => {
                note();
                format!("{} and, with {other_layout}, {}", does_not_fit(large), self.other_side(best))
            }
            (None, None) => format!("with {other_layout} {}", self.other_side(best)),
        })
    }

    /// Returns the user's held fields and the cluster, degrees and number format of the chosen plan.
    fn same_degrees(&self) -> Fixed {
        let mesh = self.chosen.plan.mesh();
        Fixed {
            tensor: Some(mesh.tensor()),
            pipeline: Some(mesh.pipeline()),
            context: Some(mesh.context()),
            precision: Some(self.chosen.plan.precision()),
            ..self.same_cluster()
        }
    }

    /// Returns the same fields, with the stack of the chosen plan if several are compared.
    fn same_software(&self) -> Fixed {
        let place = &self.problem.place;
        let compared = place.stacks().len() > 1;
        let stack = compared.then(|| place.software(self.chosen.choice).name.clone());
        Fixed { stack: stack.or_else(|| self.fixed.stack.clone()), ..self.same_degrees() }
    }

    /// Returns the same fields with the sharding and offload of the chosen plan.
    fn same_layout(&self) -> Fixed {
        let plan = &self.chosen.plan;
        Fixed {
            state_sharding: Some(plan.state_sharding()),
            sharding_ranks: plan.sharding_ranks().or(self.fixed.sharding_ranks),
            offload: Some(plan.offload()),
            ..self.same_software()
        }
    }

    fn recompute(&self) -> Option<String> {
        if self.fixed.recompute.is_some() {
            return None;
        }
        let Some(what) = self.chosen.plan.recompute().in_words() else {
            let rented = matches!(self.problem.place, Place::Rented(_));
            return rented.then(|| "no activation recomputation: all activations of a micro-batch fit".into());
        };
        let kept = |held| Fixed { recompute: Some(Recompute::None), ..held };
        let other = format!("{what}: keeping all activations at these degrees");
        let larger = format!("{what}: all activations at these degrees");
        self.alike(&kept(self.same_layout()), &kept(self.same_software()), &other, &larger)
    }

    /// Compares with unsharded state on every replica.
    fn sharding(&self) -> Option<String> {
        let own = self.chosen.plan.state_sharding();
        // One rank keeps all of its state, whatever the software calls that.
        let shared = self.chosen.plan.mesh().shard() > 1;
        if !shared || self.fixed.state_sharding.is_some() || self.fixed.sharding_ranks.is_some() {
            return None;
        }
        let what = format!("{} sharded ({})", own.in_words()?, own.zero()?);
        let whole = Fixed { state_sharding: Some(StateSharding::None), ..self.same_degrees() };
        Some(match self.best(&whole) {
            (Some(best), _) => {
                let mut changes = differences(&self.chosen.plan, &best.plan);
                changes.retain(|change| change != UNSHARDED);
                changes.extend(other_recomputation(&self.chosen.plan, &best.plan));
                let more = best.memory_peak.0 > self.chosen.memory_peak.0 && changes.is_empty();
                let memory = if more { format!("{}, and ", self.instead(&best)) } else { String::new() };
                let side = self.other_side(&best);
                format!("{what}: unsharded at these degrees{} it {memory}{side}", with(&changes))
            }
            (None, large) => format!("{what}: unsharded states at these degrees {}", does_not_fit(large?)),
        })
    }

    /// Compares with gradients in single precision.
    fn compression(&self) -> Option<String> {
        let own = self.chosen.plan.gradient_compression();
        if own == GradientCompression::None || self.fixed.gradient_compression.is_some() {
            return None;
        }
        let other = format!("gradients summed in {own} (a communication hook of DDP): the plan");
        let held = |held| Fixed { gradient_compression: Some(GradientCompression::None), ..held };
        self.alike(&held(self.same_layout()), &held(self.same_software()), &other, &other)
    }

    /// Compares with 1F1B or, if that was chosen, with GPipe.
    fn schedule(&self) -> Option<String> {
        let own = self.chosen.plan.schedule();
        if !own.is_pipelined() || self.fixed.schedule.is_some() || self.fixed.virtual_stages.is_some() {
            return None;
        }
        let plainer = match own {
            ScheduleName::OneForwardOneBackward => ScheduleName::GPipe,
            _ => ScheduleName::OneForwardOneBackward,
        };
        let chunks = match self.chosen.plan.stages().chunks_per_stage() {
            1 => String::new(),
            chunks => format!(" ({chunks} model chunks on each stage)"),
        };
        let other = format!("schedule {own}{chunks}: {plainer}");
        let held = |held| Fixed { schedule: Some(plainer), ..held };
        self.alike(&held(self.same_layout()), &held(self.same_software()), &other, &other)
    }

    fn sequence(&self) -> Option<String> {
        if !self.chosen.plan.mesh().parallel().sequence || self.fixed.sequence.is_some() {
            return None;
        }
        let other = "sequence parallel too: tensor parallel alone";
        let held = |held| Fixed { sequence: Some(false), ..held };
        self.alike(&held(self.same_layout()), &held(self.same_software()), other, other)
    }

    /// Everything on the devices.
    fn offload(&self) -> Option<String> {
        let own = self.chosen.plan.offload();
        if own == Offload::NONE || self.fixed.offload.is_some() {
            return None;
        }
        let other = format!("offload {own}: the best plan without it on these machines");
        let needs = format!("offload {own}: plans without it on these machines");
        self.rather_than(&Fixed { offload: Some(Offload::NONE), ..self.same_cluster() }, &other, &needs)
    }

    fn micro_batch(&self) -> Option<String> {
        let batch = self.chosen.plan.batch();
        if batch.accumulation == 1 || self.fixed.micro.or(self.fixed.accumulation).is_some() {
            return None;
        }
        let micro = (2..=batch.accumulation).find(|factor| batch.accumulation.is_multiple_of(*factor))? * batch.micro;
        let recompute = Some(self.chosen.plan.recompute());
        let held = |held| Fixed { micro: Some(micro), recompute, ..held };
        let other = format!("micro-batch {}: {micro} at these degrees and the same recomputation", batch.micro);
        self.alike(&held(self.same_layout()), &held(self.same_software()), &other, &other)
    }

    /// Names the software of a plan on other machines where it is another: part of the difference is that of the software.
    fn under_other_software(&self, other: &Evaluated) -> String {
        let stack = other.plan.stack().filter(|stack| self.chosen.plan.stack() != Some(*stack));
        stack.map_or_else(String::new, |stack| format!(" under {stack}"))
    }

    /// Names software and recomputation of a plan on the same machines where they are other ones.
    fn besides(&self, other: &Evaluated) -> String {
        let recomputed = other_recomputation(&self.chosen.plan, &other.plan);
        let recomputed = recomputed.map_or_else(String::new, |told| format!(" with {told}"));
        format!("{}{recomputed}", self.under_other_software(other))
    }

    /// Describes the chosen plan relative to another: `89 % faster, 6 % more expensive`.
    fn against(&self, other: &Evaluated) -> String {
        let costs = self.chosen.cost_usd.zip(other.cost_usd);
        traded((self.chosen.elapsed_s, other.elapsed_s), costs)
    }

    /// Tells how much memory another plan takes: `would take 68.7 GiB instead of 51.0 GiB`.
    fn instead(&self, other: &Evaluated) -> String {
        let (more, own) = apart(other.memory_peak, self.chosen.memory_peak);
        format!("would take {more} instead of {own}")
    }

    /// Describes another plan relative to the chosen one: `would be 12 % slower`.
    fn other_side(&self, other: &Evaluated) -> String {
        let ratio = other.time_s / self.chosen.time_s;
        let indistinct = !same(ratio, 1.0) && ratio < 1.0 && ratio > 1.0 - INDISTINCT;
        let doubt = if indistinct { ", less than predictions can tell" } else { "" };
        format!("{}{doubt}", would_be(other.time_s, self.chosen.time_s))
    }
}

fn with_batch(problem: &Problem, batch: u64) -> Problem {
    Problem { global_batches: GlobalBatches::exactly(batch), ..problem.clone() }
}

/// Explains why a model need not be split, and what lets it fit on each device. If it `fits_whole`, its sharding and
/// offload have other reasons.
fn unsplit(plan: &Plan, fits_whole: bool) -> String {
    let mesh = plan.mesh();
    let name = match (mesh.data(), mesh.context()) {
        (data, 1) => format!("{data}-way data parallel"),
        (1, context) => format!("{context}-way context parallel"),
        (data, context) => format!("{data}-way data parallel × {context}-way context parallel"),
    };
    let divided = match plan.graph().divisible() {
        Some(Divisible::TableColumns(_)) => "tables",
        _ => "experts",
    };
    let offload = plan.offload();
    let with: Vec<String> = [
        (mesh.parallel().expert > 1).then(|| format!("sharded {divided}")),
        (!fits_whole && plan.shards(StateSharding::Optimizer)).then(|| "sharded states".into()),
        (mesh.context() > 1).then(|| "the tokens of a sample sharded".into()),
        (!fits_whole && offload != Offload::NONE).then(|| format!("offload {offload}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let with = if with.is_empty() { String::new() } else { format!(" with {}", with.join(", ")) };
    format!("{name}: the model fits on each device{with}")
}

fn split_in_words(tensor: u32, context: u32, pipeline: u32) -> String {
    let parts = [
        (tensor > 1).then(|| format!("{tensor}-way tensor parallel")),
        (context > 1).then(|| format!("{context}-way context parallel")),
        (pipeline > 1).then(|| format!("{pipeline} pipeline stages")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" × ")
}

/// Names what a plan that is compared changes besides, within a sentence; nothing if it changes nothing else.
fn with(changes: &[String]) -> String {
    if changes.is_empty() { String::new() } else { format!(", with {},", changes.join(", ")) }
}

/// Describes the memory that plans need which do not fit.
fn does_not_fit(too_large: TooLarge) -> String {
    format!("would not fit ({})", too_large.least.in_words())
}

/// Describes what a plan's time and cost, each beside those of another plan, give up and gain.
fn traded((time, other_time): (f64, f64), costs: Option<(f64, f64)>) -> String {
    let pace = pace(time, other_time);
    let Some((cost, other_cost)) = costs else { return pace };
    let price = price(cost, other_cost);
    match (same(time, other_time), same(cost, other_cost)) {
        (true, true) => "as fast at the same cost".into(),
        (true, false) => format!("{price} in the same time"),
        (false, true) => format!("{pace} at the same cost"),
        (false, false) if time < other_time && cost > other_cost => format!("{pace}, {price}"),
        (false, false) if time > other_time && cost < other_cost => format!("{price} but {pace}"),
        (false, false) => format!("{price} and {pace}"),
    }
}

/// Returns `true` if a plan is faster or cheaper than another one.
fn is_ahead(plan: &Evaluated, other: &Evaluated) -> bool {
    let is_cheaper = plan.cost_usd.zip(other.cost_usd).is_some_and(|(own, other)| own < other);
    is_cheaper || plan.elapsed_s < other.elapsed_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking;
    use crate::search::search;
    use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec};

    /// What is slower and more expensive on fewer machines says nothing of the recommended number.
    #[test]
    fn fewer_machines_are_compared_where_they_are_cheaper_or_faster() {
        let mut job = asking::job("gpt2-medium", 64, &["g4dn.12xlarge"], 4);
        job.data.samples = Some(100_000);
        job.goal.objective = Some(Objective::Time);
        let problem = asking::solvable(&job);
        let found = search(&problem, &Fixed::default(), Aim { top: 5, ..Aim::best(problem.objective) });
        let machines = |plan: &&Evaluated| plan.plan.cluster().instances;
        let chosen = found.best.iter().max_by_key(machines).expect("several numbers").clone();
        let fewer = found.best.iter().min_by_key(machines).expect("several numbers").clone();
        assert!(machines(&&fewer) < machines(&&chosen));
        let told = |time_s: f64, cost: f64| {
            let cost_usd = chosen.cost_usd.map(|own| cost * own);
            let other = Evaluated { elapsed_s: time_s * chosen.elapsed_s, cost_usd, ..fewer.clone() };
            let found = Found { best: vec![chosen.clone(), other], fastest: Vec::new(), ..found.clone() };
            let (fixed, other_gpu, tried, preferred) = (&Fixed::default(), None, &[][..], None);
            let (bound, asked, chosen, problem) = (String::new(), Mutex::default(), &chosen, &problem);
            let reasons = Reasons { problem, fixed, chosen, found: &found, other_gpu, tried, preferred, bound, asked };
            reasons.fewer_on_front()
        };
        assert_eq!(told(1.2, 0.9), Some(machines(&&fewer)));
        assert_eq!(told(0.9, 1.2), Some(machines(&&fewer)));
        assert_eq!((told(1.2, 1.1), told(1.001, 0.9)), (None, None));
    }

    /// Llama 2 7B over the eight GPUs of one machine: without sequence parallelism its activations fit only if they are
    /// computed again, and most of the loss is due to that.
    #[test]
    fn a_plan_that_has_to_recompute_is_told_as_one_that_would_not_fit() {
        let mut job = asking::job("llama-2-7b", 64, &["g5.48xlarge"], 1);
        job.data.samples = Some(100_000);
        let problem = asking::solvable(&job);
        let fixed = &Fixed { tensor: Some(8), stack: Some("megatron-core".into()), ..Fixed::default() };
        let found = &search(&problem, fixed, Aim { top: 5, ..Aim::best(problem.objective) });
        let chosen = &found.best[0];
        assert_eq!((chosen.plan.mesh().parallel().sequence, chosen.plan.recompute()), (true, Recompute::None));
        let (other_gpu, tried, preferred, problem) = (None, &[][..], None, &problem);
        let (bound, asked) = (String::new(), Mutex::default());
        let reasons = Reasons { problem, fixed, chosen, found, other_gpu, tried, preferred, bound, asked };
        let told = reasons.sequence().expect("it is compared");
        assert!(told.starts_with("sequence parallel too: tensor parallel alone would not fit (at least "), "{told}");
        assert!(told.contains(" available); with full recomputation it would be "), "{told}");
        assert!(told.ends_with(" % slower"), "{told}");
    }

    #[test]
    fn a_model_that_is_not_split_fits_with_what_is_shared_out_and_kept_elsewhere() {
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        let why = |data, context, state_sharding, offload: &str, fits_whole| {
            let spec = PlanSpec {
                parallel: ParallelSpec { data, context, ..ParallelSpec::default() },
                batch: BatchSpec { global: data.into(), micro: 1, accumulation: 1 },
                state_sharding,
                offload: offload.parse().expect("an offload"),
                ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 2), model.graph().len())
            };
            unsplit(&Plan::try_from(spec).expect("a valid plan"), fits_whole)
        };
        let (whole, shared) = (StateSharding::None, StateSharding::Parameters);
        assert_eq!(why(16, 1, whole, "none", true), "16-way data parallel: the model fits on each device");
        assert_eq!(why(16, 1, shared, "optimizer", true), "16-way data parallel: the model fits on each device");
        assert_eq!(
            why(16, 1, shared, "optimizer", false),
            "16-way data parallel: the model fits on each device with sharded states, offload optimizer"
        );
        assert_eq!(
            why(4, 4, whole, "none", true),
            "4-way data parallel × 4-way context parallel: the model fits on each device with the tokens of a sample \
             sharded"
        );
        assert!(why(1, 4, whole, "none", true).starts_with("4-way context parallel: the"));
    }
}
