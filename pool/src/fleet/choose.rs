//! Which option each kind of jobs gets (`docs/design/004-fleets.md`): descent from a few starts, then branch and bound.

use super::schedule::{Effort, Figures, Placed, Pools, Schedule, excess};
use super::valid::Goal;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use trainyard_plan::Objective;
use trainyard_planner::{GivenUp, INDISTINCT, LEFT_OVER, MUCH};

/// Kinds in all choices that branch and bound looks at, the partial ones included: some tenths of a second of work.
const MOST_PLACED: u64 = 1_000_000;
/// Jobs in all schedules that are simulated before the search stops: about a second of work.
const MOST_RUNS: u64 = 1_500_000;

/// Schedules that miss the goal by at most this part more than the nearest are about as near: a stated default.
const FURTHER: f64 = 0.25;

/// The value of a schedule: less is better, the first field first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Worth {
    /// The sum of the missed deadlines and budgets, as fractions of each.
    pub(super) excess: f64,
    /// The objective's value: USD, or seconds of makespan.
    pub(super) value: f64,
    /// The other of the two, which decides between equals.
    pub(super) other: f64,
}

impl Worth {
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let figures = |worth: &Self| [worth.value, worth.other].map(rounded);
        let (own, others) = (figures(self), figures(other));
        let first = self.excess.total_cmp(&other.excess).then(own[0].total_cmp(&others[0]));
        first.then(own[1].total_cmp(&others[1]))
    }

    pub(super) fn beats(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Less
    }
}

/// The goal, with the instant from which the makespan counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge {
    pub(super) goal: Goal,
    pub(super) first: f64,
    /// An excess that is let pass: the sum of missed deadlines and budgets, as fractions of them. None, unless nothing meets the goal.
    pub(super) allowed: f64,
}

impl Judge {
    pub(super) fn worth(&self, figures: &Figures) -> Worth {
        let makespan = figures.end - self.first;
        let late = self.goal.deadline.map_or(0.0, |deadline| excess(makespan, deadline.0));
        let dear = self.goal.budget.map_or(0.0, |budget| excess(figures.cost, budget));
        let (value, other) = match self.goal.objective {
            Objective::Cost => (figures.cost, makespan),
            Objective::Time => (makespan, figures.cost),
        };
        Worth { excess: (late + dear + figures.late - self.allowed).max(0.0), value, other }
    }

    /// Returns the same with a deadline and a budget of which this part is to be left over.
    fn leaving(self, part: f64) -> Self {
        let (deadline, budget) = (self.goal.deadline, self.goal.budget);
        let left = 1.0 - part;
        let goal = Goal { deadline: deadline.map(|own| own * left), budget: budget.map(|own| own * left), ..self.goal };
        Self { goal, ..self }
    }
}

/// Rounds seconds to nanoseconds, of which simulated times are whole numbers, and USD to as small a part: sums of the
/// same in another order are equal, so that what comes next decides. A bound stays one, for rounding keeps the order.
fn rounded(value: f64) -> f64 {
    const PARTS: f64 = 1e9;
    let parts = (value * PARTS).round();
    if parts.is_finite() { parts / PARTS } else { value }
}

/// A choice with its best schedule.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    /// The option of each kind.
    pub(super) choice: Vec<Placed>,
    pub(super) schedule: Schedule,
    pub(super) worth: Worth,
}

/// The best choice found, with the bound that is proved.
#[derive(Clone, Debug)]
pub(super) struct Solution {
    pub(super) best: Chosen,
    /// Lower bound of the value of all choices and schedules within the goal.
    pub(super) bound: f64,
    pub(super) complete: bool,
    /// `true` if it is proved that no schedule of these options meets the goal.
    pub(super) impossible: bool,
    /// The schedule that comes nearest to the goal, where another one that is about as near is much better by the objective.
    pub(super) nearer: Option<Figures>,
    /// The options that kinds would have if simpler ones were not preferred.
    pub(super) simplified: Vec<Simplified>,
    /// What the best choice is worth by the objective, whatever is preferred.
    pub(super) optimum: Worth,
}

/// An option that a kind does not have because another one is simpler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Simplified {
    pub(super) instead_of: Placed,
    /// What is given up, as a part of what the kind costs or of the time that all take. Less than nothing where the other
    /// option is much better in the other of the two.
    pub(super) part: f64,
    /// By how much more the other of time and cost of all is, as a part of it.
    pub(super) other: f64,
}

/// Finds the best choice and schedule; `None` if none ends within the simulation's clock.
pub(super) fn choose(pools: &mut Pools<'_>, judge: Judge) -> Option<Solution> {
    let mut search = Search { pools, judge, best: None, bound: f64::INFINITY, placed: 0, complete: true };
    for start in search.starts() {
        search.descend(&start);
    }
    let least: Vec<Figures> = (0..search.pools.kinds.len()).map(|kind| search.least(kind)).collect();
    search.branch(&mut Vec::new(), &least);
    let root = judge.worth(&rest(&least)).value;
    let complete = search.complete;
    let impossible = complete && search.bound == f64::INFINITY && search.best.as_ref()?.worth.excess > 0.0;
    let found = if complete { search.bound } else { root };
    let best = search.best.take()?;
    let polished = search.schedule(&best.choice, Effort::Thorough)?;
    let best = if polished.worth.beats(&best.worth) { polished } else { best };
    let bound = found.min(best.worth.value);
    let optimum = best.worth;
    Some(Solution { bound, best, complete, impossible, nearer: None, simplified: Vec::new(), optimum })
}

/// Returns a solution with the judge by which it is found: where it misses the goal, the best by the objective of all that miss it by
/// little more, if that is better than predictions can tell. Nobody pays much to come a little nearer to what is missed either way.
pub(super) fn or_nearly_as_near(pools: &mut Pools<'_>, judge: Judge, nearest: Solution) -> (Judge, Solution) {
    let (excess, value) = (nearest.best.worth.excess, nearest.best.worth.value);
    if excess <= 0.0 {
        return (judge, nearest);
    }
    let lenient = Judge { allowed: excess * (1.0 + FURTHER), ..judge };
    match choose(pools, lenient) {
        Some(other) if other.best.worth.excess <= 0.0 && other.best.worth.value * (1.0 + INDISTINCT) < value => {
            let Solution { bound, complete, impossible, .. } = nearest;
            let bound = bound.min(other.best.worth.value);
            let nearer = Some(nearest.best.schedule.figures);
            (lenient, Solution { bound, complete, impossible, nearer, ..other })
        }
        _ => (judge, nearest),
    }
}

/// Returns a solution, or one with another option of one kind at most that cannot be told from the optimum by the objective
/// and is much better in the other of time and cost: nobody waits for days to save a percent. `may_replace` says whether the
/// second of two options of a kind may be taken instead of the first.
pub(super) fn or_much_better(
    pools: &mut Pools<'_>,
    judge: Judge,
    mut solution: Solution,
    may_replace: impl Fn(Placed, Placed) -> bool,
) -> Solution {
    let best = solution.best.clone();
    let most = best.worth.value.max(solution.optimum.value * (1.0 + INDISTINCT));
    let near = |worth: &Worth| {
        worth.excess <= best.worth.excess && worth.value <= most && worth.other * MUCH < best.worth.other
    };
    for choice in with_one_changed(pools, &best.choice) {
        let mut replaced = best.choice.iter().zip(&choice).filter(|(own, other)| own != other);
        if !replaced.all(|(own, other)| may_replace(*own, *other)) || !near(&judge.worth(&pools.bound(&choice))) {
            continue;
        }
        for schedule in pools.schedules_of(&choice, Effort::Thorough) {
            let worth = judge.worth(&schedule.figures);
            if near(&worth) && worth.other < solution.best.worth.other {
                solution.best = Chosen { worth, schedule, choice: choice.clone() };
            }
        }
    }
    let Solution { best: now, simplified, .. } = &mut solution;
    simplified.retain(|own| now.choice[own.instead_of.kind] == best.choice[own.instead_of.kind]);
    solution
}

/// Lists a choice, and those that differ from it in the option of one kind.
fn with_one_changed(pools: &Pools<'_>, choice: &[Placed]) -> Vec<Vec<Placed>> {
    let changed = choice.iter().flat_map(|own| {
        let options = (0..pools.kinds[own.kind].options.len()).filter(move |option| *option != own.option);
        options.map(|option| {
            let mut other = choice.to_vec();
            other[own.kind] = Placed { kind: own.kind, option };
            other
        })
    });
    std::iter::once(choice.to_vec()).chain(changed).collect()
}

/// What is preferred among the options of a kind.
pub(super) struct Preferences<'a> {
    /// Returns what may be given up for an option instead of another of its kind; `None` if it is not simpler.
    pub(super) gives_up: &'a dyn Fn(Placed, Placed) -> Option<GivenUp>,
    /// Returns the software of an option.
    pub(super) software: &'a dyn Fn(Placed) -> Option<&'a str>,
}

/// Returns a solution in which kinds have simpler options where that gives up less than predictions can tell of the
/// objective, not much more of the other of time and cost, and leaves as much of the deadline and the budget over as `plan`
/// does. Simpler software is taken only where no kind needs the other any more.
pub(super) fn or_simpler(
    pools: &mut Pools<'_>,
    judge: Judge,
    mut solution: Solution,
    preferences: &Preferences<'_>,
) -> Solution {
    let optimum = solution.best.clone();
    let software = |placed: &Placed| (preferences.software)(*placed);
    let all: BTreeSet<Option<&str>> = optimum.choice.iter().map(software).collect();
    for given_up in all {
        let kinds = (0..optimum.choice.len()).filter(|kind| software(&optimum.choice[*kind]) == given_up);
        let is_other = |placed: &Placed| software(placed) != given_up;
        let without = kinds.into_iter().try_fold(solution.clone(), |without, kind| {
            simplified(pools, (judge, &optimum), &without, kind, (preferences, &is_other))
        });
        solution = without.unwrap_or(solution);
    }
    for kind in 0..optimum.choice.len() {
        if solution.best.choice[kind] == optimum.choice[kind] {
            let own = software(&optimum.choice[kind]);
            let is_same = |placed: &Placed| software(placed) == own;
            let next = simplified(pools, (judge, &optimum), &solution, kind, (preferences, &is_same));
            solution = next.unwrap_or(solution);
        }
    }
    solution
}

/// Returns a solution with the simplest option of a kind that is near enough to the optimum, if it is one of those that are
/// `wanted`; of several that are as simple, the best.
fn simplified(
    pools: &mut Pools<'_>,
    (judge, optimum): (Judge, &Chosen),
    solution: &Solution,
    kind: usize,
    (preferences, wanted): (&Preferences<'_>, &dyn Fn(&Placed) -> bool),
) -> Option<Solution> {
    let own = optimum.choice[kind];
    let (now, of_kind, are_priced) = (solution.best.worth, pools.alone(own).cost, pools.are_priced());
    let parts = Parts { judge, optimum, now, of_kind, are_priced };
    let mut found: Vec<(Placed, Chosen)> = Vec::new();
    for placed in (0..pools.kinds[kind].options.len()).map(|option| Placed { kind, option }) {
        let Some(most) = (preferences.gives_up)(placed, own) else { continue };
        let mut choice = solution.best.choice.clone();
        choice[kind] = placed;
        if !parts.admit(&pools.bound(&choice), most) {
            continue;
        }
        let all = pools.schedules_of(&choice, Effort::Thorough).into_iter();
        let near = all.filter(|schedule| parts.admit(&schedule.figures, most));
        let judged = near.map(|schedule| (judge.worth(&schedule.figures), schedule));
        let best = judged.min_by(|a, b| a.0.order(&b.0));
        found.extend(best.map(|(worth, schedule)| (placed, Chosen { choice, schedule, worth })));
    }
    let is_simplest = |one: Placed| !found.iter().any(|(other, _)| (preferences.gives_up)(*other, one).is_some());
    let simplest = found.iter().filter(|(one, _)| wanted(one) && is_simplest(*one));
    let (_, chosen) = simplest.min_by(|(_, a), (_, b)| a.worth.order(&b.worth))?;
    let mut simpler = solution.clone();
    simpler.simplified.push(parts.simplified(own, &chosen.worth));
    simpler.best = chosen.clone();
    Some(simpler)
}

/// What is given up for a simpler option of a kind.
struct Parts<'a> {
    judge: Judge,
    optimum: &'a Chosen,
    /// With the simpler options of the kinds before it.
    now: Worth,
    /// What the kind costs in the optimum.
    of_kind: f64,
    are_priced: bool,
}

impl Parts<'_> {
    fn given_up(&self, worth: &Worth) -> f64 {
        match self.judge.goal.objective {
            Objective::Cost => (worth.value - self.now.value) / self.of_kind,
            Objective::Time => worth.value / self.optimum.worth.value - 1.0,
        }
    }

    fn simplified(&self, instead_of: Placed, worth: &Worth) -> Simplified {
        let part = match self.judge.goal.objective {
            Objective::Cost => self.given_up(worth),
            Objective::Time => worth.value / self.now.value - 1.0,
        };
        Simplified { instead_of, part, other: worth.other / self.now.other - 1.0 }
    }

    fn admit(&self, figures: &Figures, most: GivenUp) -> bool {
        let worth = self.judge.worth(figures);
        let more_usd = if self.are_priced { figures.cost - self.optimum.schedule.figures.cost } else { 0.0 };
        let tight = |figures: &Figures| self.judge.leaving(LEFT_OVER).worth(figures).excess;
        worth.excess <= self.optimum.worth.excess
            && tight(figures) <= tight(&self.optimum.schedule.figures)
            && worth.other <= self.optimum.worth.other * MUCH
            && self.given_up(&worth) <= most.part
            && more_usd <= most.usd
    }
}

/// Combines lower bounds of several kinds, as if they did not compete for instances.
fn rest(least: &[Figures]) -> Figures {
    least.iter().fold(Figures::default(), |sum, own| Figures {
        end: sum.end.max(own.end),
        cost: sum.cost + own.cost,
        late: sum.late.max(own.late),
    })
}

struct Search<'s, 'a> {
    pools: &'s mut Pools<'a>,
    judge: Judge,
    best: Option<Chosen>,
    bound: f64,
    placed: u64,
    complete: bool,
}

impl Search<'_, '_> {
    /// Returns the cheapest option of every kind, and the fastest.
    fn starts(&self) -> [Vec<Placed>; 2] {
        let least = |value: fn(&Figures) -> f64| {
            let kinds = self.pools.kinds.iter().enumerate();
            kinds
                .map(|(kind, own)| {
                    let options = (0..own.options.len()).map(|option| Placed { kind, option });
                    let worth = |placed: &Placed| value(&self.pools.alone(*placed));
                    options.min_by(|a, b| worth(a).total_cmp(&worth(b))).expect("every kind has an option")
                })
                .collect()
        };
        [least(|own| own.cost), least(|own| own.end)]
    }

    /// Returns lower bounds of a kind: each figure on the option where it is least.
    fn least(&self, kind: usize) -> Figures {
        let options = (0..self.pools.kinds[kind].options.len()).map(|option| self.pools.alone(Placed { kind, option }));
        options
            .reduce(|a, b| Figures { end: a.end.min(b.end), cost: a.cost.min(b.cost), late: a.late.min(b.late) })
            .expect("every kind has an option")
    }

    fn schedule(&mut self, choice: &[Placed], effort: Effort) -> Option<Chosen> {
        let all = self.pools.schedules_of(choice, effort);
        let judged = all.into_iter().map(|schedule| (self.judge.worth(&schedule.figures), schedule));
        let (worth, schedule) = judged.min_by(|a, b| a.0.order(&b.0))?;
        Some(Chosen { choice: choice.to_vec(), schedule, worth })
    }

    fn keep(&mut self, chosen: &Chosen) {
        if self.best.as_ref().is_none_or(|best| chosen.worth.beats(&best.worth)) {
            self.best = Some(chosen.clone());
        }
    }

    fn spent(&self) -> bool {
        self.placed >= MOST_PLACED || self.pools.runs >= MOST_RUNS
    }

    /// Descends by changing one kind at a time: while the goal is missed, to what saves most for its price; then to the
    /// best change.
    fn descend(&mut self, start: &[Placed]) {
        let Some(mut now) = self.schedule(start, Effort::Quick) else { return };
        // A first result stands however little may be spent.
        self.keep(&now);
        while !self.spent() {
            let mut next: Option<([f64; 2], Chosen)> = None;
            for change in self.changes(&now) {
                if self.spent() {
                    break;
                }
                let Some(other) = self.schedule(&change, Effort::Quick) else { continue };
                let Some(score) = score(&now.worth, &other.worth) else { continue };
                if next.as_ref().is_none_or(|(best, _)| score < *best) {
                    next = Some((score, other));
                }
            }
            let Some((_, better)) = next else { break };
            self.keep(&better);
            now = better;
        }
        if let Some(polished) = self.schedule(&now.choice, Effort::Thorough) {
            self.keep(&polished);
        }
    }

    /// Lists the choices that differ in one kind and that could be better.
    fn changes(&self, now: &Chosen) -> Vec<Vec<Placed>> {
        let mut all = Vec::new();
        for kind in 0..now.choice.len() {
            for option in 0..self.pools.kinds[kind].options.len() {
                let mut choice = now.choice.clone();
                choice[kind] = Placed { kind, option };
                let least = self.judge.worth(&self.pools.bound(&choice));
                if choice != now.choice && least.beats(&now.worth) {
                    all.push(choice);
                }
            }
        }
        all
    }

    /// Searches all choices that begin with this one, except those that cannot beat the best. `least` holds lower
    /// bounds of the kinds that are left.
    fn branch(&mut self, choice: &mut Vec<Placed>, least: &[Figures]) {
        let Some((_, others)) = least.split_first() else { return self.leaf(choice) };
        let kind = choice.len();
        let mut options: Vec<Placed> =
            (0..self.pools.kinds[kind].options.len()).map(|option| Placed { kind, option }).collect();
        let alone = |placed: &Placed| self.judge.worth(&self.pools.alone(*placed));
        options.sort_by(|a, b| alone(a).order(&alone(b)));
        for placed in options {
            if self.spent() {
                self.complete = false;
                return;
            }
            choice.push(placed);
            self.placed += choice.len() as u64;
            let own = self.pools.bound(choice);
            let others_too = rest(&[&[own], others].concat());
            if self.could_be_best(&self.judge.worth(&others_too)) {
                self.branch(choice, others);
            }
            choice.pop();
        }
    }

    fn could_be_best(&self, least: &Worth) -> bool {
        self.best.as_ref().is_none_or(|best| least.beats(&best.worth))
    }

    fn leaf(&mut self, choice: &[Placed]) {
        let least = self.judge.worth(&self.pools.bound(choice));
        if least.excess <= 0.0 {
            self.bound = self.bound.min(least.value);
        }
        for effort in [Effort::Quick, Effort::Thorough] {
            let Some(found) = self.schedule(choice, effort) else { return };
            self.keep(&found);
            // What reaches every bound is as good as any other order.
            if !self.could_be_best(&least) {
                return;
            }
        }
    }
}

/// Returns the score of a change, less being better, the first number first; `None` if it is no improvement.
fn score(now: &Worth, other: &Worth) -> Option<[f64; 2]> {
    if !other.beats(now) {
        return None;
    }
    if now.excess > 0.0 {
        let saved = now.excess - other.excess;
        let price = if saved > 0.0 { (other.value - now.value).max(0.0) / saved } else { f64::INFINITY };
        return Some([price, rounded(other.value)]);
    }
    Some([other.value, other.other].map(rounded))
}
