//! From the best choice and its schedule to the document of a fleet.

use super::chance::Likely;
use super::choose::{Judge, Simplified, Solution};
use super::schedule::{AllMissed, Effort, Placed, Pools, Schedule};
use super::shared_quotas::Limited;
use super::valid::ValidFleet;
use super::{FLEET_SCHEMA, FleetDocument, FleetOutcome, FleetPlan, FleetPrediction, FleetSearch, FleetSpec};
use crate::queue::{InstanceSeconds, JobRun, QueueCost, QueueDocument, QueueSpec, predict_planned, waiting};
use trainyard_plan::Objective;
use trainyard_planner::{Evaluated, INDISTINCT, OnEach, SAME, beyond, simpler_than, usd};
use trainyard_reports::format::percent;
use trainyard_reports::strategy_and_state;
use trainyard_units::{Invalid, Seconds, Span, human_count, human_duration};

/// The part by which a fleet is worse than the best one from which that is told.
const TOLD: f64 = 0.01;

/// The result of planning a fleet.
pub(super) struct Found<'f, 'a> {
    pub(super) spec: &'f FleetSpec,
    pub(super) fleet: &'f ValidFleet,
    /// The plans of each kind.
    pub(super) plans: &'f [OnEach],
    pub(super) pools: &'f mut Pools<'a>,
    pub(super) judge: Judge,
    pub(super) solution: &'f Solution,
    /// What the fleet would take without a warm pool, if it has one.
    pub(super) cold: Option<FleetOutcome>,
    pub(super) likely: Likely,
    pub(super) limited: Vec<Limited>,
}

pub(super) fn document(mut found: Found<'_, '_>) -> Result<FleetDocument, Invalid> {
    let files = &found.fleet.shared.files;
    let parts = found.solution.best.schedule.parts.iter();
    let pools: Vec<QueueDocument> = parts.map(|part| predict_planned(&part.queue, files)).collect::<Result<_, _>>()?;
    let kinds = 0..found.solution.best.choice.len();
    let plans = kinds.map(|kind| found.plan(kind, &pools)).collect();
    let mut document = FleetDocument {
        schema: FLEET_SCHEMA.into(),
        fleet: found.spec.clone(),
        prediction: found.prediction(&pools),
        missed: None,
        to_meet_goal: Vec::new(),
        plans,
        reasons: found.reasons(),
        warnings: found.warnings(&pools),
        search: found.search(),
        pools,
    };
    let is_nearest = found.solution.nearer.is_none();
    document.missed = missed_fleet_goal(&document, if is_nearest { "the nearest" } else { "one about as near as any" });
    Ok(document)
}

fn last_end(pools: &[QueueDocument]) -> f64 {
    pools.iter().flat_map(|pool| &pool.jobs).map(|run| run.end_s).fold(0.0, f64::max)
}

/// Returns the cost of all pools; `None` where they have no price.
fn total_cost(pools: &[QueueDocument]) -> Option<QueueCost> {
    let costs = pools.iter().filter_map(|pool| pool.prediction.cost);
    costs.reduce(|sum, own| QueueCost {
        jobs_usd: sum.jobs_usd + own.jobs_usd,
        warm_usd: sum.warm_usd + own.warm_usd,
        total_usd: sum.total_usd + own.total_usd,
    })
}

/// Returns the cost of the dearest job of a kind, in USD, where it has one.
fn dearest(runs: &[&JobRun]) -> Option<f64> {
    runs.iter().filter_map(|run| run.cost_usd).reduce(f64::max)
}

impl Found<'_, '_> {
    fn prediction(&self, pools: &[QueueDocument]) -> FleetPrediction {
        let first = self.judge.first;
        let makespan_s = last_end(pools) - first;
        // Pools may use less than the quota, on all of which the bound is. Sums may be rounded.
        let bound_s = (self.pools.bound(&self.solution.best.choice).end - first).min(makespan_s);
        let spent = pools.iter().map(|pool| pool.prediction.instance_seconds);
        let none = InstanceSeconds { busy: 0.0, startup: 0.0, idle: 0.0, held: 0.0, paid: 0.0 };
        let instance_seconds = spent.fold(none, |sum, own| InstanceSeconds {
            busy: sum.busy + own.busy,
            startup: sum.startup + own.startup,
            idle: sum.idle + own.idle,
            held: sum.held + own.held,
            paid: sum.paid + own.paid,
        });
        let waits = pools.iter().flat_map(|pool| &pool.jobs);
        let waits = waits.map(|run| Span::from_seconds(Seconds((run.start_s - run.submit_s).max(0.0))));
        FleetPrediction {
            makespan_s,
            makespan_interval_s: self.likely.makespan_s,
            within_goal: self.likely.within_goal,
            bound_s,
            gap: makespan_s / bound_s - 1.0,
            waiting_s: waiting(waits.collect()),
            cold_starts: pools.iter().map(|pool| pool.prediction.cold_starts).sum(),
            warm_starts: pools.iter().map(|pool| pool.prediction.warm_starts).sum(),
            instance_seconds,
            utilisation_of_held: instance_seconds.busy / instance_seconds.held,
            cost: total_cost(pools),
            cost_interval_usd: self.likely.cost_usd,
            without_warm_pool: self.cold,
        }
    }

    fn plan(&self, index: usize, pools: &[QueueDocument]) -> FleetPlan {
        let kind = &self.pools.kinds[index];
        let option = self.pools.option(self.solution.best.choice[index]);
        let evaluated = &self.plans[index].plans[option.plan].best;
        let runs: Vec<&JobRun> = pools.iter().flat_map(|pool| &pool.jobs).filter(|run| run.name == kind.name).collect();
        let most = |value: fn(&JobRun) -> f64| runs.iter().map(|run| value(run)).fold(0.0, f64::max);
        FleetPlan {
            name: kind.name.clone(),
            count: kind.count,
            plan: evaluated.plan.spec().clone(),
            step_time_s: evaluated.step_time_s,
            steps: self.fleet.kinds[index].problem.training.steps(evaluated.plan.batch().global),
            time_s: option.time.0,
            cost_usd: dearest(&runs),
            start_s: runs.iter().map(|run| run.start_s).fold(f64::INFINITY, f64::min),
            end_s: most(|run| run.end_s),
            longest_stay_s: most(|run| run.end_s - run.submit_s),
            deadline_s: kind.deadline.map(|deadline| deadline.0),
            budget_usd: kind.budget,
            options: kind.options.len() as u32,
        }
    }

    fn search(&self) -> FleetSearch {
        let solution = self.solution;
        let value = solution.best.worth.value;
        FleetSearch {
            candidates: self.plans.iter().map(|plans| plans.candidates).sum(),
            simulated: self.plans.iter().map(|plans| plans.simulated).sum(),
            choices: self.pools.kinds.iter().map(|kind| kind.options.len() as f64).product(),
            schedules: self.pools.schedules,
            complete: solution.complete,
            impossible: solution.impossible,
            bound: solution.bound,
            gap: (value / solution.bound - 1.0).max(0.0),
        }
    }

    /// Explains why each kind has its instances: the fleet's time and cost if it had those on which it is cheapest; and
    /// where less than the quota is used.
    fn reasons(&mut self) -> Vec<String> {
        let quota = |queue: &QueueSpec| self.fleet.shared.quota(&queue.pool.instance);
        let used = self.solution.best.schedule.parts.iter().map(|part| &part.queue);
        let wanted = |queue: &QueueSpec| -> u32 {
            queue
                .jobs
                .iter()
                .map(|job| job.count.saturating_mul(job.instances.unwrap_or(1)))
                .fold(0, u32::saturating_add)
        };
        let fewer: Vec<String> = used
            .filter(|queue| queue.pool.quota() < quota(queue).min(wanted(queue)))
            .map(|queue| {
                let (most, quota) = (queue.pool.quota(), quota(queue));
                let instance = &queue.pool.instance;
                format!("{instance}: at most {most} of {quota} are used; each more would be one more to start")
            })
            .collect();
        let kinds: Vec<String> = (0..self.solution.best.choice.len()).flat_map(|kind| self.of_kind(kind)).collect();
        let quotas = self.limited.iter().map(|limited| self.shared_out(limited));
        self.nearer().into_iter().chain(quotas).chain(self.given_up()).chain(kinds).chain(fewer).collect()
    }

    /// Says what the schedule that comes nearest to the goal would take and cost, where another one is preferred.
    fn nearer(&self) -> Option<String> {
        let nearest = self.solution.nearer?;
        let time = human_duration(Seconds(nearest.end - self.judge.first));
        let cost = if self.pools.are_priced() { format!(" and costs {}", usd(nearest.cost)) } else { String::new() };
        Some(format!(
            "the schedule that comes nearest to the goal takes {time}{cost}; this one misses it by little more"
        ))
    }

    /// Says how a quota is shared out among types, and what all jobs would take and cost without it.
    fn shared_out(&self, limited: &Limited) -> String {
        let Limited { key, most, without } = limited;
        let some: Vec<String> =
            most.iter().filter(|(_, most)| **most > 0).map(|(name, most)| format!("{most} × {name}")).collect();
        let others = if most.values().any(|most| *most == 0) { ", and no other type that it applies to" } else { "" };
        format!(
            "the quota of `{key}` is shared out: at most {}{others}; with as much for each type all would take {} and cost {}",
            some.join(" and "),
            human_duration(Seconds(without.end - self.judge.first)),
            usd(without.cost)
        )
    }

    /// Says what the best by the objective would take and cost, where others are preferred that are more than a little worse.
    fn given_up(&self) -> Option<String> {
        let (own, best) = (self.solution.best.worth, self.solution.optimum);
        let part = own.value / best.value - 1.0;
        let time = |seconds: f64| human_duration(Seconds(seconds));
        (own.excess <= best.excess && part > TOLD).then(|| match self.judge.goal.objective {
            Objective::Cost => format!(
                "all jobs cost {} ({}) more than the cheapest choice, with which they take {}",
                usd(own.value - best.value),
                percent(part),
                time(best.other)
            ),
            Objective::Time if self.pools.are_priced() => format!(
                "all jobs take {} ({}) longer than with the fastest choice, which costs {}",
                time(own.value - best.value),
                percent(part),
                usd(best.other)
            ),
            Objective::Time => {
                format!(
                    "all jobs take {} ({}) longer than with the fastest choice",
                    time(own.value - best.value),
                    percent(part)
                )
            }
        })
    }

    /// Explains the option of a kind, and why it is not the best one where a simpler one is preferred.
    fn of_kind(&mut self, kind: usize) -> Vec<String> {
        let simplified = self.solution.simplified.iter().find(|own| own.instead_of.kind == kind);
        let simpler = simplified.map(|own| self.simpler(*own));
        let own = simplified.is_none_or(|own| own.instead_of != self.best_of(kind)).then(|| self.reason(kind));
        let batches = self.fleet.kinds[kind].problem.global_batches;
        let batch = batches.are_open().then(|| {
            let (name, plan) = (&self.pools.kinds[kind].name, &self.plans[kind].plans);
            let global = plan[self.pools.option(self.solution.best.choice[kind]).plan].best.plan.batch().global;
            let [global, min, max] = [global, batches.min(), batches.max()].map(human_count);
            format!("{name}: a global batch of {global}, of {min} to {max}; the learning rate depends on it")
        });
        own.into_iter().chain(simpler).chain(batch).collect()
    }

    /// Explains why a kind has not the option that is best for the objective.
    fn simpler(&self, instead: Simplified) -> String {
        let kind = instead.instead_of.kind;
        let plan = |placed: Placed| &self.plans[kind].plans[self.pools.option(placed).plan].best;
        let (own, other) = (plan(self.solution.best.choice[kind]), plan(instead.instead_of));
        let name = &self.pools.kinds[kind].name;
        let (on, simpler) = (machines_and_plan(other), simpler_than(own, other));
        let (worse, better, same) = match self.judge.goal.objective {
            Objective::Cost => ("more expensive than on", "cheaper than on", "as cheap as on"),
            Objective::Time => ("slower for all than on", "faster for all than on", "as fast for all as on"),
        };
        let doubt = if instead.part > INDISTINCT { "" } else { ", less than predictions can tell" };
        let part = percent(instead.part.abs());
        let more = percent(instead.other);
        if instead.part >= SAME {
            let too = match self.judge.goal.objective {
                Objective::Cost if instead.other > INDISTINCT => format!(", and all take {more} longer"),
                _ => String::new(),
            };
            return format!("{name}: {part} {worse} {on}{doubt}{too}, but {simpler}");
        }
        let though = match self.judge.goal.objective {
            _ if instead.other < SAME => String::new(),
            Objective::Cost => format!(", though all take {more} longer"),
            Objective::Time if self.pools.are_priced() => format!(", though all cost {more} more"),
            Objective::Time => String::new(),
        };
        let compared = if instead.part > -SAME { same.into() } else { format!("{part} {better}") };
        format!("{name}: {compared} {on}, and {simpler}{though}")
    }

    /// Returns the option of a kind that is best for the objective, whatever the others do.
    fn best_of(&self, kind: usize) -> Placed {
        let value = |placed: &Placed| self.judge.worth(&self.pools.alone(*placed)).value;
        let all = (0..self.pools.kinds[kind].options.len()).map(|option| Placed { kind, option });
        all.min_by(|a, b| value(a).total_cmp(&value(b))).expect("every kind has an option")
    }

    fn reason(&mut self, index: usize) -> String {
        let choice = &self.solution.best.choice;
        let options = &self.pools.kinds[index].options;
        let plans = &self.plans[index].plans;
        let name = |placed: Placed| machines_and_plan(&plans[options[placed.option].plan].best);
        let value = |placed: &Placed| self.judge.worth(&self.pools.alone(*placed)).value;
        let best = self.best_of(index);
        let (kind, own) = (&self.pools.kinds[index].name, name(choice[index]));
        let most = match self.judge.goal.objective {
            Objective::Cost => "cheapest",
            Objective::Time => "fastest",
        };
        if value(&best) >= value(&choice[index]) {
            return match options.len() {
                1 => format!("{kind}: {own} is its only choice"),
                all => format!("{kind}: {own} is the {most} of its {all} choices"),
            };
        }
        let mut other = choice.clone();
        other[index] = best;
        // Which number of machines is used may be another one then.
        let then = self.pools.schedules_of(&other, Effort::Thorough).into_iter();
        let worth = |schedule: &Schedule| self.judge.worth(&schedule.figures);
        let Some(then) = then.min_by(|a, b| worth(a).order(&worth(b))) else {
            return format!("{kind}: its {most} choice takes more time than can be simulated");
        };
        let misses = self.judge.worth(&then.figures).excess > self.solution.best.worth.excess;
        let priced = self.fleet.shared.are_priced();
        format!(
            "{kind}: with its {most} choice, {}, all would take {}{}{}",
            name(best),
            human_duration(Seconds(then.figures.end - self.judge.first)),
            if priced { format!(" and cost {}", usd(then.figures.cost)) } else { String::new() },
            if misses { format!(", which misses {}", self.missed(&then, &other)) } else { String::new() }
        )
    }

    /// Lists the deadlines and budgets that a schedule of a choice misses.
    fn missed(&self, schedule: &Schedule, choice: &[Placed]) -> String {
        self.named(&AllMissed::of(self.judge, schedule.figures, self.pools.missed(schedule, choice)))
    }

    /// Names deadlines and budgets that are missed.
    pub(super) fn named(&self, missed: &AllMissed) -> String {
        let goal = self.judge.goal;
        let deadline = goal.deadline.filter(|_| missed.deadline);
        let budget = goal.budget.filter(|_| missed.budget);
        let mut all = Vec::new();
        all.extend(deadline.map(|deadline| format!("the deadline of {}", human_duration(deadline))));
        all.extend(budget.map(|budget| format!("the budget of {}", usd(budget))));
        for (kind, own) in &missed.kinds {
            let kind = &self.pools.kinds[*kind];
            let (deadline, budget) =
                (kind.deadline.filter(|_| own.deadline > 0.0), kind.budget.filter(|_| own.budget > 0.0));
            all.extend(deadline.map(|deadline| format!("the deadline of {}, {}", kind.name, human_duration(deadline))));
            all.extend(budget.map(|budget| format!("the budget of {}, {}", kind.name, usd(budget))));
        }
        all.join(", and ")
    }
}

/// Names the machines of a plan and what tells it from others on them: `1 × p4d.24xlarge (pytorch-fsdp-compiled, data 8,
/// ZeRO-3)`.
fn machines_and_plan(plan: &Evaluated) -> String {
    let spec = plan.plan.spec();
    let strategy = strategy_and_state(spec);
    let with = spec.stack.as_ref().map_or(strategy.clone(), |stack| format!("{stack}, {strategy}"));
    format!("{} ({with})", plan.machines())
}

/// Explains why a fleet misses its deadlines and budgets, all of them; `None` if it meets them.
/// `found` names the schedule: `the nearest`.
fn missed_fleet_goal(document: &FleetDocument, found: &str) -> Option<String> {
    let of_each = document.plans.iter().flat_map(|plan| missed_by_each(plan, found));
    let missed: Vec<String> = missed_by_all(document, found).into_iter().chain(of_each).collect();
    let nothing = if document.search.impossible {
        "no choice of a plan for each [[job]], in any schedule,"
    } else {
        "no schedule that was found"
    };
    (!missed.is_empty()).then(|| format!("{nothing} can {}", missed.join("; nor ")))
}

/// Says what misses the deadline and the budget of all jobs together.
fn missed_by_all(document: &FleetDocument, found: &str) -> Option<String> {
    let goal = &document.fleet.goal;
    let deadline = goal.deadline();
    let (makespan, cost) =
        (document.prediction.makespan_s, document.prediction.cost.map_or(0.0, |cost| cost.total_usd));
    let late = deadline.is_some_and(|deadline| makespan > deadline.0);
    let dear = goal.budget.is_some_and(|budget| cost > budget);
    if !late && !dear {
        return None;
    }
    let takes = deadline.map(|deadline| {
        let took = human_duration(Seconds(makespan));
        let over = || format!(", {}", beyond(makespan, deadline.0, "the deadline"));
        format!("takes {took}{}", if late { over() } else { String::new() })
    });
    let costs = goal.budget.map(|budget| {
        let over = || format!(", {}", beyond(cost, budget, "the budget"));
        format!("costs {}{}", usd(cost), if dear { over() } else { String::new() })
    });
    let in_time = deadline.map(|deadline| format!("end all jobs within {}", human_duration(deadline)));
    let for_so_much = goal.budget.map(|budget| format!("for at most {}", usd(budget)));
    let wanted = match (in_time, for_so_much) {
        (Some(in_time), Some(for_so_much)) => format!("{in_time} {for_so_much}"),
        (in_time, for_so_much) => in_time.or(for_so_much.map(|most| format!("train all jobs {most}")))?,
    };
    let nearest: Vec<String> = takes.into_iter().chain(costs).collect();
    Some(format!("{wanted}: {found} {}", nearest.join(", and ")))
}

/// Says what misses the deadline and the budget that each job of a kind has.
fn missed_by_each(plan: &FleetPlan, found: &str) -> Vec<String> {
    let (stay, cost) = (plan.longest_stay_s, plan.cost_usd.unwrap_or(0.0));
    let late = plan.deadline_s.filter(|deadline| stay > *deadline).map(|deadline| {
        format!(
            "end every job of {} within {} of its submission: {found} takes {}, {}",
            plan.name,
            human_duration(Seconds(deadline)),
            human_duration(Seconds(stay)),
            beyond(stay, deadline, "the deadline")
        )
    });
    let dear = plan.budget_usd.filter(|budget| cost > *budget).map(|budget| {
        let (budget, cost) = (usd(budget), usd(cost));
        format!("train each job of {} for at most {budget}: {found} costs {cost}", plan.name)
    });
    late.into_iter().chain(dear).collect()
}
