//! Schedules of jobs whose instances are chosen: each type of instances is a queue of its own.
//!
//! A schedule is what the simulator of queues does with an order of the kinds, with or without backfilling. Few kinds
//! are tried in every order, many in some customary ones. Where instances are kept warm, fewer than the quota are tried
//! too.

use super::FleetSpec;
use super::choose::Judge;
use super::machines::Shared;
use super::option::{JobOption, Kind};
use crate::queue::simulation::{MOST_DEVIATION, Queue, QueueOutcome, simulate_planned};
use crate::queue::{PolicySpec, PoolSpec, QueueOrder, QueueSpec, QueuedJobSpec, valid};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_plan::document::PriceUsed;
use trainyard_units::{Invalid, Seconds, Span, UsdPerHour};

/// Up to this many instances of a type are used in every number; of more instances some customary numbers are tried.
const USED_IN_EVERY_NUMBER: u32 = 8;
/// Larger numbers of instances are tried that are at most this part of the next larger one.
const FEWER: f64 = 0.875;

/// Up to this many kinds on a type of instances are tried in every order: six orders.
const KINDS_IN_EVERY_ORDER: usize = 3;

/// A kind of jobs on one of its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Placed {
    pub(super) kind: usize,
    pub(super) option: usize,
}

/// The figures of a schedule, or lower bounds of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// End of the last job, in seconds since the start of the fleet.
    pub(super) end: f64,
    /// USD of all of them; of machines without a price what their users pay, the time from the submission of each job to its
    /// end, in seconds.
    pub(super) cost: f64,
    /// The largest miss of a job's own deadline or budget, as a fraction of it.
    pub(super) late: f64,
}

impl Figures {
    fn and(self, other: Self) -> Self {
        Self { end: self.end.max(other.end), cost: self.cost + other.cost, late: self.late.max(other.late) }
    }

    fn no_worse(&self, other: &Self) -> bool {
        self.end <= other.end && self.cost <= other.cost && self.late <= other.late
    }
}

/// By how much jobs of a kind miss their own deadline and budget at most, as fractions of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Missed {
    pub(super) deadline: f64,
    pub(super) budget: f64,
}

/// Which deadlines and budgets a schedule misses.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AllMissed {
    /// That of all jobs together.
    pub(super) deadline: bool,
    pub(super) budget: bool,
    /// Those of the jobs of each kind.
    pub(super) kinds: Vec<(usize, Missed)>,
}

impl AllMissed {
    pub(super) fn of(judge: Judge, figures: Figures, kinds: Vec<(usize, Missed)>) -> Self {
        let goal = judge.goal;
        Self {
            deadline: goal.deadline.is_some_and(|deadline| figures.end - judge.first > deadline.0),
            budget: goal.budget.is_some_and(|budget| figures.cost > budget),
            kinds,
        }
    }
}

/// A schedule of the jobs on one type of instances.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) queue: QueueSpec,
    pub(super) figures: Figures,
}

/// A schedule of all jobs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Schedule {
    pub(super) parts: Vec<Part>,
    pub(super) figures: Figures,
}

/// A part of a schedule that was run with other times of jobs.
pub(super) struct Again {
    placed: Vec<Placed>,
    queue: Queue,
    outcome: QueueOutcome,
    /// `None` for machines that have none.
    price: Option<PriceUsed>,
}

impl Again {
    /// Returns the price that lies so far from the lowest to the highest.
    fn price(&self, dear: f64) -> Option<UsdPerHour> {
        let price = self.price.as_ref()?;
        Some(UsdPerHour(price.low_usd_per_hour + (price.high_usd_per_hour - price.low_usd_per_hour) * dear))
    }

    /// Returns `true` if it is not known what the machines will cost.
    pub(super) fn has_open_price(&self) -> bool {
        self.price.as_ref().is_some_and(|price| price.high_usd_per_hour > price.low_usd_per_hour)
    }
}

/// Number of orders of the jobs that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effort {
    Quick,
    /// All that there are.
    Thorough,
}

/// The price and start-up of an instance type, whatever runs on it.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// `None` for machines that have none.
    price: Option<UsdPerHour>,
    /// The shortest start-up that the rules of the pool allow.
    start: Span,
    /// That of new instances.
    cold: Span,
    /// The part of that which is paid for: from when the instances are there.
    paid_cold: Span,
}

impl Terms {
    /// Returns the least part of a start-up that is paid for.
    fn paid_least(&self) -> Span {
        self.start.min(self.paid_cold)
    }
}

/// The pool and all that was scheduled on it.
pub(super) struct Pools<'a> {
    fleet: &'a FleetSpec,
    shared: &'a Shared,
    pub(super) kinds: &'a [Kind],
    terms: BTreeMap<String, Terms>,
    known: BTreeMap<(Effort, Vec<Placed>), Vec<Part>>,
    /// Number of schedules that were simulated.
    pub(super) schedules: u64,
    /// Jobs in all of them.
    pub(super) runs: u64,
}

impl<'a> Pools<'a> {
    pub(super) fn new(fleet: &'a FleetSpec, shared: &'a Shared, kinds: &'a [Kind]) -> Result<Self, Invalid> {
        let mut terms = BTreeMap::new();
        for instance in kinds.iter().flat_map(|kind| &kind.options).map(|option| &option.instance) {
            if !terms.contains_key(instance) {
                terms.insert(instance.clone(), terms_of(shared, instance)?);
            }
        }
        Ok(Self { fleet, shared, kinds, terms, known: BTreeMap::new(), schedules: 0, runs: 0 })
    }

    /// Returns `true` if the machines have a price.
    pub(super) fn are_priced(&self) -> bool {
        self.shared.are_priced()
    }

    pub(super) fn option(&self, placed: Placed) -> &'a JobOption {
        &self.kinds[placed.kind].options[placed.option]
    }

    /// Returns the cost of one job on an option, with the shortest start-up.
    fn least_each(&self, option: &JobOption) -> f64 {
        let terms = &self.terms[&option.instance];
        terms.price.map_or_else(
            || self.least_time(option),
            |price| billed(price, option.instances, terms.paid_least() + Span::from_seconds(option.time)),
        )
    }

    /// Returns the seconds from the job's instances being allotted to its end, with the shortest start-up.
    fn least_time(&self, option: &JobOption) -> f64 {
        (self.terms[&option.instance].start + Span::from_seconds(option.time)).seconds().0
    }

    /// Returns lower bounds of a kind: its figures if none of its jobs ever waits.
    pub(super) fn alone(&self, placed: Placed) -> Figures {
        let (kind, option) = (&self.kinds[placed.kind], self.option(placed));
        let (time, each) = (self.least_time(option), self.least_each(option));
        let late = kind.deadline.map_or(0.0, |deadline| excess(time, deadline.0));
        let dear = kind.budget.map_or(0.0, |budget| excess(each, budget));
        Figures { end: kind.submit.0 + time, cost: f64::from(kind.count) * each, late: late.max(dear) }
    }

    /// Computes lower bounds of every schedule of these jobs, whatever their order: on each type, the bounds of its
    /// queue and two more. Jobs of a kind run in rounds of as many as the quota holds. Nothing is warm at first:
    /// neither the first instances of a type, nor the first of their number.
    pub(super) fn bound(&self, placed: &[Placed]) -> Figures {
        let mut all = placed.iter().fold(Figures::default(), |sum, placed| sum.and(self.alone(*placed)));
        for (instance, own) in &mut self.by_type(placed) {
            let quota = self.shared.quota(instance);
            own.sort_by(|a, b| self.kinds[b.kind].submit.0.total_cmp(&self.kinds[a.kind].submit.0));
            let first = own.iter().map(|placed| self.kinds[placed.kind].submit.0).fold(f64::INFINITY, f64::min);
            let (mut work, mut exclusive) = (0.0, 0.0);
            for placed in own.iter() {
                let (kind, option) = (&self.kinds[placed.kind], self.option(*placed));
                let (each, submit) = (self.least_time(option), kind.submit.0);
                let time = f64::from(kind.count) * each;
                work += time * f64::from(option.instances) / f64::from(quota);
                if u64::from(quota) < 2 * u64::from(option.instances) {
                    exclusive += time;
                }
                let rounds = f64::from(kind.count.div_ceil(quota / option.instances)) * each;
                let cold = if submit <= first { self.colder(option) } else { 0.0 };
                all.end = all.end.max(submit + f64::max(work, exclusive).max(rounds + cold));
            }
            all.cost += self.first_cold(own);
        }
        all
    }

    /// Returns the seconds by which a cold start takes longer than the shortest that the rules of the pool allow.
    fn colder(&self, option: &JobOption) -> f64 {
        let terms = &self.terms[&option.instance];
        terms.cold.seconds().0 - terms.start.seconds().0
    }

    /// Returns the cost of the cold starts that cannot be avoided, in USD. Warm instances only serve jobs on the same
    /// number of instances, so at least one job for each number starts cold.
    fn first_cold(&self, of_type: &[Placed]) -> f64 {
        let numbers: BTreeSet<u32> = of_type.iter().map(|placed| self.option(*placed).instances).collect();
        let terms = &self.terms[&self.option(of_type[0]).instance];
        let Some(price) = terms.price else { return 0.0 };
        let more = terms.paid_cold.seconds().0 - terms.paid_least().seconds().0;
        // Whole seconds are billed, and which job it is does not matter to those that are whole.
        let each = price.0 / 3600.0 * more.floor();
        numbers.into_iter().map(|instances| each * f64::from(instances)).sum()
    }

    fn by_type(&self, placed: &[Placed]) -> BTreeMap<&'a str, Vec<Placed>> {
        let mut types: BTreeMap<&str, Vec<Placed>> = BTreeMap::new();
        for one in placed {
            types.entry(self.option(*one).instance.as_str()).or_default().push(*one);
        }
        types
    }

    /// Returns the Pareto front of schedules of all jobs; empty if none would end within the simulation's clock.
    pub(super) fn schedules_of(&mut self, placed: &[Placed], effort: Effort) -> Vec<Schedule> {
        let mut all = vec![Schedule { parts: Vec::new(), figures: Figures::default() }];
        for own in self.by_type(placed).into_values() {
            let parts = self.parts(own, effort);
            let joined = all.iter().flat_map(|schedule| {
                parts.iter().map(|part| Schedule {
                    parts: [schedule.parts.as_slice(), std::slice::from_ref(part)].concat(),
                    figures: schedule.figures.and(part.figures),
                })
            });
            all = front(joined.collect(), |schedule| schedule.figures);
        }
        all
    }

    fn parts(&mut self, placed: Vec<Placed>, effort: Effort) -> Vec<Part> {
        let key = (effort, placed);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let least = self.bound(&key.1);
        let mut parts = Vec::new();
        for queue in self.queues(&key.1, effort) {
            let Some(figures) = self.simulate(&queue, &key.1) else { break };
            parts.push(Part { queue, figures });
            // Nothing beats what reaches every bound.
            if figures.no_worse(&least) {
                break;
            }
        }
        let parts = front(parts, |part| part.figures);
        self.known.insert(key, parts.clone());
        parts
    }

    /// Builds queues of the same jobs in different orders and, where that may save, on fewer instances than the quota.
    fn queues(&self, placed: &[Placed], effort: Effort) -> Vec<QueueSpec> {
        // More instances than those of all jobs have nothing to do.
        let most = self.most(placed);
        let on_all = self.orders_of_quota(placed, effort);
        let on_all: Vec<QueueSpec> = on_all.iter().map(|queue| on_at_most(queue, most)).collect();
        let fewer = if effort == Effort::Thorough { self.fewer(placed) } else { Vec::new() };
        let on_fewer = fewer.iter().flat_map(|most| on_all.iter().map(|queue| on_at_most(queue, *most)));
        on_all.iter().cloned().chain(on_fewer).collect()
    }

    /// Returns the number of instances that jobs of one type can use.
    fn most(&self, placed: &[Placed]) -> u32 {
        self.of_all(placed).min(self.shared.quota(&self.option(placed[0]).instance))
    }

    /// Returns the number of instances of all jobs together.
    fn of_all(&self, placed: &[Placed]) -> u32 {
        let wide = placed.iter().map(|own| self.kinds[own.kind].count.saturating_mul(self.option(*own).instances));
        wide.fold(0, u32::saturating_add)
    }

    /// Lists numbers of instances below those that jobs can use, descending. Instances that are kept warm start once and are kept for
    /// a while after their last job, so fewer of them cost less, and may end as early: in as many rounds.
    fn fewer(&self, placed: &[Placed]) -> Vec<u32> {
        if !self.fleet.pool.warm_pool {
            return Vec::new();
        }
        let wide = |placed: &Placed| (self.kinds[placed.kind].count, self.option(*placed).instances);
        let all = self.of_all(placed);
        let most = self.most(placed);
        let longest = placed.iter().map(|placed| wide(placed).0).max().unwrap_or(1);
        let rounds = (1..=longest).flat_map(|rounds| {
            let of_kind = placed.iter().map(wide).map(move |(count, each)| each.saturating_mul(count.div_ceil(rounds)));
            of_kind.chain([all.div_ceil(rounds)])
        });
        let widest = placed.iter().map(|placed| wide(placed).1).max().unwrap_or(1);
        let numbers: BTreeSet<u32> =
            rounds.chain(1..=USED_IN_EVERY_NUMBER).filter(|fewer| (widest..most).contains(fewer)).collect();
        let mut last = most;
        let mut kept = numbers.into_iter().rev().collect::<Vec<_>>();
        kept.retain(|most| {
            let far = *most <= USED_IN_EVERY_NUMBER || f64::from(*most) <= FEWER * f64::from(last);
            last = if far { *most } else { last };
            far
        });
        kept
    }

    /// Builds queues of the same jobs in different orders, on the whole quota.
    fn orders_of_quota(&self, placed: &[Placed], effort: Effort) -> Vec<QueueSpec> {
        if let Some(policy) = self.fleet.policy {
            return vec![self.queue(placed, policy, |kind| self.kinds[kind].priority)];
        }
        let one_kind = placed.len() == 1;
        let mut orders = if one_kind { vec![placed.to_vec()] } else { self.orders(placed) };
        let mut backfilling = vec![!one_kind, false];
        backfilling.dedup();
        if effort == Effort::Quick {
            orders.truncate(1);
            backfilling.truncate(1);
        }
        let order = if one_kind { QueueOrder::Fifo } else { QueueOrder::Priority };
        let each = |ranks: &Vec<Placed>, backfill| {
            let rank = |kind| ranks.iter().rev().position(|placed| placed.kind == kind).unwrap_or(0);
            let priority = |kind| if one_kind { 0 } else { i32::try_from(rank(kind)).unwrap_or(i32::MAX) };
            self.queue(placed, PolicySpec { order, backfill }, priority)
        };
        orders.iter().flat_map(|ranks| backfilling.iter().map(move |backfill| each(ranks, *backfill))).collect()
    }

    /// Lists orders of several kinds, that by duration first. Jobs of a higher priority always come first.
    fn orders(&self, placed: &[Placed]) -> Vec<Vec<Placed>> {
        let time = |placed: &Placed| Span::from_seconds(self.option(*placed).time);
        let wide = |placed: &Placed| self.option(*placed).instances;
        let mut longest = placed.to_vec();
        longest.sort_by_key(|placed| Reverse(time(placed)));
        let mut all = if placed.len() <= KINDS_IN_EVERY_ORDER {
            permutations(&longest)
        } else {
            let mut widest = longest.clone();
            widest.sort_by_key(|placed| Reverse(wide(placed)));
            let shortest = longest.iter().rev().copied().collect();
            vec![longest, widest, shortest, placed.to_vec()]
        };
        for order in &mut all {
            order.sort_by_key(|placed| Reverse(self.kinds[placed.kind].priority));
        }
        let mut seen = Vec::new();
        all.retain(|order| {
            let new = !seen.contains(order);
            seen.push(order.clone());
            new
        });
        all
    }

    /// Builds the queue of the jobs on one type of instances, in the order of the file.
    fn queue(&self, placed: &[Placed], policy: PolicySpec, priority: impl Fn(usize) -> i32) -> QueueSpec {
        let job = |placed: &Placed| {
            let (kind, option) = (&self.kinds[placed.kind], self.option(*placed));
            QueuedJobSpec {
                name: kind.name.clone(),
                duration: Some(format!("{} s", option.time.0)),
                instances: Some(option.instances),
                count: kind.count,
                submit: (kind.submit.0 > 0.0).then(|| format!("{} s", kind.submit.0)),
                priority: priority(placed.kind),
                ..QueuedJobSpec::default()
            }
        };
        let instance = &self.option(placed[0]).instance;
        QueueSpec { pool: self.shared.pools[instance].clone(), policy, jobs: placed.iter().map(job).collect() }
    }

    /// Simulates a queue and returns its figures; `None` if it would outlast the simulation's clock.
    fn simulate(&mut self, queue: &QueueSpec, placed: &[Placed]) -> Option<Figures> {
        let checked = valid::valid(queue, &self.shared.files, 0).ok()?;
        let outcome = simulate_planned(&checked.queue);
        self.schedules += 1;
        self.runs += checked.queue.jobs.len() as u64;
        let price = self.terms[&queue.pool.instance].price;
        Some(self.figures((&checked.queue, &outcome), placed, price))
    }

    fn figures(
        &self,
        (queue, outcome): (&Queue, &QueueOutcome),
        placed: &[Placed],
        price: Option<UsdPerHour>,
    ) -> Figures {
        let stays = || queue.jobs.iter().zip(&outcome.runs).map(|(job, run)| run.end.since(job.submit).seconds().0);
        let end = outcome.runs.iter().map(|run| run.end.seconds().0).fold(0.0, f64::max);
        let billed = outcome.billed_jobs() + outcome.billed_warm();
        let cost = price.map_or_else(|| stays().sum(), |price| (price * billed).0);
        Figures { end, cost, late: self.lateness(outcome, placed, price) }
    }

    /// Runs a schedule of a choice again, in its order and by its policy, with jobs of each kind that take other times than the
    /// expected ones, by which the next of them is still chosen.
    pub(super) fn run_again(
        &self,
        schedule: &Schedule,
        choice: &[Placed],
        time: &dyn Fn(usize) -> Seconds,
    ) -> Result<Vec<Again>, Invalid> {
        let types = self.by_type(choice);
        let again = |part: &Part| {
            let placed = types[part.queue.pool.instance.as_str()].clone();
            let mut checked = valid::valid(&part.queue, &self.shared.files, 0)?;
            let kinds = placed.iter().flat_map(|own| (0..self.kinds[own.kind].count).map(|_| own.kind));
            for (job, kind) in checked.queue.jobs.iter_mut().zip(kinds) {
                let factor = time(kind).0 / job.expected.seconds().0;
                job.actual =
                    Span::from_seconds(job.expected.seconds() * factor.clamp(1.0 / MOST_DEVIATION, MOST_DEVIATION));
            }
            let outcome = simulate_planned(&checked.queue);
            Ok(Again { placed, queue: checked.queue, outcome, price: checked.price.map(|price| price.used) })
        };
        schedule.parts.iter().map(again).collect()
    }

    /// Returns the figures of a schedule that was run again, at prices that lie so far from the lowest to the highest.
    pub(super) fn figures_again(&self, all: &[Again], dear: f64) -> Figures {
        let figures = all.iter().map(|own| self.figures((&own.queue, &own.outcome), &own.placed, own.price(dear)));
        figures.fold(Figures::default(), Figures::and)
    }

    /// Returns what such a schedule misses.
    pub(super) fn missed_again(&self, judge: Judge, all: &[Again], dear: f64) -> AllMissed {
        let kinds = all.iter().flat_map(|own| self.misses(&own.outcome, &own.placed, own.price(dear)));
        AllMissed::of(judge, self.figures_again(all, dear), kinds.collect())
    }

    fn lateness(&self, outcome: &QueueOutcome, placed: &[Placed], price: Option<UsdPerHour>) -> f64 {
        let misses = self.misses(outcome, placed, price);
        misses.into_iter().map(|(_, own)| own.deadline.max(own.budget)).fold(0.0, f64::max)
    }

    /// Returns by how much each kind misses what its own jobs have to keep to, at most.
    fn misses(&self, outcome: &QueueOutcome, placed: &[Placed], price: Option<UsdPerHour>) -> Vec<(usize, Missed)> {
        let mut runs = outcome.runs.iter();
        let of_kind = |placed: &Placed| {
            let kind = &self.kinds[placed.kind];
            let mut most = Missed { deadline: 0.0, budget: 0.0 };
            for run in runs.by_ref().take(kind.count as usize) {
                let stay = run.end.seconds().0 - kind.submit.0;
                let cost = price.map_or(0.0, |price| (price * run.billed()).0);
                most.deadline = most.deadline.max(kind.deadline.map_or(0.0, |deadline| excess(stay, deadline.0)));
                most.budget = most.budget.max(kind.budget.map_or(0.0, |budget| excess(cost, budget)));
            }
            (placed.kind, most)
        };
        placed.iter().map(of_kind).collect()
    }

    /// Returns by how much each kind of a choice misses what its own jobs have to keep to in a schedule of it.
    pub(super) fn missed(&self, schedule: &Schedule, choice: &[Placed]) -> Vec<(usize, Missed)> {
        let types = self.by_type(choice);
        let of_part = |part: &Part| {
            let placed = types.get(part.queue.pool.instance.as_str())?;
            let checked = valid::valid(&part.queue, &self.shared.files, 0).ok()?;
            let price = self.terms[&part.queue.pool.instance].price;
            Some(self.misses(&simulate_planned(&checked.queue), placed, price))
        };
        schedule.parts.iter().filter_map(of_part).flatten().collect()
    }
}

/// Returns the excess of a value over a limit, as a fraction of the limit; zero if it is below.
pub(super) fn excess(value: f64, limit: f64) -> f64 {
    (value / limit - 1.0).max(0.0)
}

/// Computes the price of instances for a time, billed by the second, rounded up.
fn billed(price: UsdPerHour, instances: u32, time: Span) -> f64 {
    price.0 / 3600.0 * f64::from(instances) * time.seconds().0.ceil()
}

fn terms_of(shared: &Shared, instance: &str) -> Result<Terms, Invalid> {
    let spec = QueueSpec { pool: shared.pools[instance].clone(), policy: PolicySpec::default(), jobs: Vec::new() };
    let terms = valid::Terms::of(&spec.pool)?;
    let queue = valid::pool(&spec, &terms)?;
    let price = valid::price(&spec.pool, &terms, &shared.files)?.map(|price| price.hourly);
    let (cold, warm) = (queue.cold_start, queue.warm_start);
    let paid_cold = Span::from_nanoseconds(cold.nanoseconds() - queue.unpaid_start.nanoseconds());
    let start = if queue.warm_pools.is_some() { warm.min(cold) } else { cold };
    Ok(Terms { price, start, cold, paid_cold })
}

/// Returns the same queue on at most so many instances.
fn on_at_most(queue: &QueueSpec, most: u32) -> QueueSpec {
    let own = &queue.pool;
    let max_warm_instances = own.max_warm_instances.map(|warm| warm.min(most));
    let max_instances = Some(if own.is_owned() { own.quota() } else { most });
    QueueSpec { pool: PoolSpec { max_instances, max_warm_instances, ..own.clone() }, ..queue.clone() }
}

/// Returns the Pareto front: those that no other beats in one figure without being worse in any; the first of equals.
fn front<T>(all: Vec<T>, figures: impl Fn(&T) -> Figures) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for one in all {
        let own = figures(&one);
        if kept.iter().any(|other| figures(other).no_worse(&own)) {
            continue;
        }
        kept.retain(|other| !own.no_worse(&figures(other)));
        kept.push(one);
    }
    kept
}

/// Lists all orders, the given one first.
fn permutations(items: &[Placed]) -> Vec<Vec<Placed>> {
    let Some((first, rest)) = items.split_first() else { return vec![Vec::new()] };
    let mut all: Vec<Vec<Placed>> = Vec::new();
    for at in 0..items.len() {
        for tail in permutations(rest) {
            let mut order = tail;
            order.insert(at, *first);
            all.push(order);
        }
    }
    all
}
