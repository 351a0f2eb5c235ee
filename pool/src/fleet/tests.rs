use super::choose::{Judge, Preferences, Worth, choose, or_much_better, or_simpler};
use super::machines::{Machines, Shared};
use super::option::{JobOption, Kind};
use super::schedule::{Effort, Placed, Pools};
use super::valid::Goal;
use super::*;
use crate::queue::simulation::{makespan_bound, simulate_planned};
use crate::queue::valid::valid;
use crate::queue::{PolicySpec, PoolSpec, QueueOrder, QueueSpec, QueuedJobSpec, predict_planned};
use proptest::prelude::*;
use trainyard_hardware_profiles::ClusterFile;
use trainyard_plan::Objective;
use trainyard_planner::{GivenUp, INDISTINCT, MUCH};
use trainyard_units::Seconds;

mod likely;
mod owned;
mod terms;

const TYPES: [&str; 2] = ["g4dn.xlarge", "p3.2xlarge"];

/// Whose the machines are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Whose {
    Rented,
    KeptWarm,
    Owned,
    OwnedWithPrice,
}

const WHOSE: [Whose; 4] = [Whose::Rented, Whose::KeptWarm, Whose::Owned, Whose::OwnedWithPrice];

/// A pool of both types, of which there are so many. Rented, the first number is that of both.
fn fleet(quotas: [u32; 2], whose: Whose) -> FleetSpec {
    let warm_pool = whose == Whose::KeptWarm;
    let pool = if matches!(whose, Whose::Rented | Whose::KeptWarm) {
        FleetPoolSpec {
            instances: Some(TYPES.map(Into::into).into()),
            max_instances: Some(quotas[0]),
            service: Some("sagemaker".into()),
            warm_pool,
            keep_alive: warm_pool.then(|| "10 min".into()),
            ..FleetPoolSpec::default()
        }
    } else {
        FleetPoolSpec { file: Some("lab.toml".into()), ..FleetPoolSpec::default() }
    };
    FleetSpec { pool, goal: trainyard_plan::GoalSpec::default(), policy: None, jobs: Vec::new() }
}

/// A cluster of so many machines that are like each type, and called so.
fn cluster(quotas: [u32; 2], price: &str) -> ClusterFile {
    let kind = |(name, count): (&str, u32)| format!("[[machines]]\nlike = \"{name}\"\ncount = {count}\n{price}\n");
    let kinds: String = TYPES.into_iter().zip(quotas).map(kind).collect();
    toml::from_str(&format!("name = \"lab\"\n{kinds}")).expect("the form of a cluster file")
}

fn shared(fleet: &FleetSpec, quotas: [u32; 2], whose: Whose) -> Shared {
    let price = if whose == Whose::OwnedWithPrice { "usd_per_hour = 3.0" } else { "" };
    let files = Resources { cluster_file: Some(cluster(quotas, price)), ..Resources::default() };
    Machines::of(fleet, files).expect("a pool without mistakes").shared()
}

fn kinds(quotas: [u32; 2], most: usize, priced: bool) -> impl Strategy<Value = Vec<Kind>> {
    let option = (0..TYPES.len(), 0u32..4, 1u32..80).prop_map(move |(of, wide, minutes)| JobOption {
        instance: TYPES[of].into(),
        instances: 1 + wide % quotas[of],
        time: Seconds(f64::from(minutes) * 60.0),
        plan: 0,
    });
    let options = prop::collection::vec(option, 1..4);
    let goals = (prop::option::of(10u32..200), prop::option::of(1u32..20));
    let kind =
        (1u32..5, 0u32..40, -1i32..2, options, goals).prop_map(move |(count, submit, priority, options, goals)| Kind {
            name: String::new(),
            count,
            submit: Seconds(f64::from(submit) * 60.0),
            priority,
            deadline: goals.0.map(|minutes| Seconds(f64::from(minutes) * 60.0)),
            budget: goals.1.filter(|_| priced).map(f64::from),
            options,
        });
    prop::collection::vec(kind, 1..=most).prop_map(|mut kinds| {
        for (index, kind) in kinds.iter_mut().enumerate() {
            kind.name = format!("kind {index}");
        }
        kinds
    })
}

#[derive(Clone, Debug)]
struct Small {
    fleet: FleetSpec,
    shared: Shared,
    kinds: Vec<Kind>,
    goal: Goal,
}

impl Small {
    fn pools(&self) -> Pools<'_> {
        Pools::new(&self.fleet, &self.shared, &self.kinds).expect("a pool without mistakes")
    }
}

/// Fleets of up to so many kinds, with up to three options each.
fn small(most: usize) -> impl Strategy<Value = Small> {
    let goal = (any::<bool>(), prop::option::of(30u32..300), prop::option::of(1u32..60));
    let quotas = (1u32..5, 1u32..5);
    (quotas, 0..WHOSE.len(), goal).prop_flat_map(move |(quotas, whose, (time, deadline, budget))| {
        let whose = WHOSE[whose];
        let priced = whose != Whose::Owned;
        let rented = matches!(whose, Whose::Rented | Whose::KeptWarm);
        let quotas = [quotas.0, if rented { quotas.0 } else { quotas.1 }];
        let goal = Goal {
            objective: if time || !priced { Objective::Time } else { Objective::Cost },
            deadline: deadline.map(|minutes| Seconds(f64::from(minutes) * 60.0)),
            budget: budget.filter(|_| priced).map(f64::from),
        };
        kinds(quotas, most, priced).prop_map(move |kinds| {
            let fleet = fleet(quotas, whose);
            Small { shared: shared(&fleet, quotas, whose), fleet, kinds, goal }
        })
    })
}

fn judge(small: &Small) -> Judge {
    Judge {
        goal: small.goal,
        first: small.kinds.iter().map(|kind| kind.submit.0).fold(f64::INFINITY, f64::min),
        allowed: 0.0,
    }
}

fn choices(kinds: &[Kind]) -> Vec<Vec<Placed>> {
    kinds.iter().enumerate().fold(vec![Vec::new()], |all, (kind, own)| {
        let with = |choice: &Vec<Placed>, option| [choice.as_slice(), &[Placed { kind, option }]].concat();
        all.iter().flat_map(|choice| (0..own.options.len()).map(move |option| with(choice, option))).collect()
    })
}

fn solved(small: &Small) -> (Worth, f64) {
    let mut pools = small.pools();
    let solution = choose(&mut pools, judge(small)).expect("short jobs");
    assert!(solution.complete);
    (solution.best.worth, solution.bound)
}

/// The oracle: of every choice, on each type, every order of its kinds, with and without backfilling, on every number of
/// instances of the quota, and every combination of these.
fn exhaustive(small: &Small) -> Worth {
    let judge = judge(small);
    let worth = |choice: &Vec<Placed>| {
        let parts = TYPES.iter().map(|of| every_queue(small, choice, of)).filter(|queues| !queues.is_empty());
        let combined = parts.fold(vec![(0.0_f64, 0.0, 0.0_f64)], |all, queues| {
            let join = |(end, cost, late): &(f64, f64, f64), own: &(f64, f64, f64)| {
                (end.max(own.0), cost + own.1, late.max(own.2))
            };
            all.iter().flat_map(|one| queues.iter().map(move |own| join(one, own))).collect()
        });
        let figures = combined.into_iter().map(|(end, cost, late)| super::schedule::Figures { end, cost, late });
        figures.map(|figures| judge.worth(&figures)).collect::<Vec<_>>()
    };
    let all = choices(&small.kinds).iter().flat_map(worth).collect::<Vec<_>>();
    all.into_iter().reduce(|best, other| if other.beats(&best) { other } else { best }).expect("a choice")
}

/// End, cost and lateness of every queue of what a choice puts on a type.
fn every_queue(small: &Small, choice: &[Placed], of: &str) -> Vec<(f64, f64, f64)> {
    let own: Vec<&Placed> =
        choice.iter().filter(|placed| small.kinds[placed.kind].options[placed.option].instance == of).collect();
    let mut all = Vec::new();
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..own.len() {
        let longer = |order: &Vec<usize>| {
            let left = (0..own.len()).filter(|next| !order.contains(next));
            left.map(|next| [order.as_slice(), &[next]].concat()).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    // Higher priorities of the file stand before lower ones.
    let priority = |at: &usize| small.kinds[own[*at].kind].priority;
    orders.retain(|order| order.is_sorted_by_key(|at| std::cmp::Reverse(priority(at))));
    let widest = own.iter().map(|placed| small.kinds[placed.kind].options[placed.option].instances).max();
    for order in orders.iter().filter(|order| !order.is_empty()) {
        for backfill in [false, true] {
            for most in widest.unwrap_or(1)..=small.shared.quota(of) {
                all.push(one_queue(small, &own, (order, backfill), most, of));
            }
        }
    }
    all
}

fn one_queue(
    small: &Small,
    own: &[&Placed],
    (order, backfill): (&[usize], bool),
    most: u32,
    of: &str,
) -> (f64, f64, f64) {
    let job = |(at, placed): (usize, &&Placed)| {
        let kind = &small.kinds[placed.kind];
        let option = &kind.options[placed.option];
        let rank = order.iter().position(|other| *other == at).expect("all are in the order");
        QueuedJobSpec {
            name: kind.name.clone(),
            duration: Some(format!("{} s", option.time.0)),
            instances: Some(option.instances),
            count: kind.count,
            submit: Some(format!("{} s", kind.submit.0)),
            priority: -i32::try_from(rank).expect("few kinds"),
            ..QueuedJobSpec::default()
        }
    };
    let spec = QueueSpec {
        pool: PoolSpec { max_instances: Some(most), ..small.shared.pools[of].clone() },
        policy: PolicySpec { order: QueueOrder::Priority, backfill },
        jobs: own.iter().enumerate().map(job).collect(),
    };
    let document = predict_planned(&spec, &small.shared.files).expect("a queue without mistakes");
    let late = document.jobs.iter().map(|run| {
        let kind = small.kinds.iter().find(|kind| kind.name == run.name).expect("its kind");
        let (stay, cost) = (run.end_s - run.submit_s, run.cost_usd.unwrap_or(0.0));
        let over = |value: f64, limit: Option<f64>| limit.map_or(0.0, |limit| (value / limit - 1.0).max(0.0));
        over(stay, kind.deadline.map(|own| own.0)).max(over(cost, kind.budget))
    });
    let end = document.jobs.iter().map(|run| run.end_s).fold(0.0, f64::max);
    // Without a price, jobs should end early.
    let stays = || document.jobs.iter().map(|run| run.end_s - run.submit_s).sum();
    let cost = document.prediction.cost.map_or_else(stays, |cost| cost.total_usd);
    (end, cost, late.fold(0.0, f64::max))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

/// A simpler option, here the one that comes earlier, is preferred up to this part of the objective.
const GIVEN_UP: f64 = 0.05;

/// No more USD than this are given up for all.
const GIVEN_UP_USD: f64 = 1.0;

fn earlier_is_simpler(one: Placed, other: Placed) -> Option<GivenUp> {
    (one.option < other.option).then_some(GivenUp { part: GIVEN_UP, usd: GIVEN_UP_USD })
}

const EARLIER_IS_SIMPLER: Preferences<'static> = Preferences { gives_up: &earlier_is_simpler, software: &|_| None };

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_small_fleet_gets_what_trying_everything_finds(small in small(3)) {
        let (found, bound) = solved(&small);
        let best = exhaustive(&small);
        prop_assert!(close(found.excess, best.excess), "{found:?} {best:?}");
        prop_assert!(close(found.value, best.value), "{found:?} {best:?}");
        // Of equals the other of the two is least, unless a part of a nanosecond or of a cent decides.
        prop_assert!(found.excess > 0.0 || close(found.other, best.other), "{found:?} {best:?}");
        prop_assert!(bound <= best.value * (1.0 + 1e-9));
    }

    #[test]
    fn simpler_options_give_up_little_and_miss_nothing_more(small in small(2)) {
        let mut pools = small.pools();
        let judge = judge(&small);
        let best = choose(&mut pools, judge).expect("short jobs");
        let (own, most) = (best.best.choice.clone(), best.best.worth);
        let given_up = match small.goal.objective {
            Objective::Cost => GIVEN_UP * own.iter().map(|placed| pools.alone(*placed).cost).sum::<f64>(),
            Objective::Time => GIVEN_UP * most.value,
        };
        let near = |worth: Worth| {
            let affordable = small.goal.objective == Objective::Time || worth.value <= most.value + GIVEN_UP_USD;
            let little = worth.value <= most.value + given_up && worth.other <= most.other * MUCH;
            worth.excess <= most.excess && little && affordable
        };
        let simpler = or_simpler(&mut pools, judge, best, &EARLIER_IS_SIMPLER);
        prop_assert!(near(simpler.best.worth), "{:?} {most:?}", simpler.best.worth);
        let replaced: Vec<Placed> = simpler.simplified.iter().map(|simplified| simplified.instead_of).collect();
        for (own, now) in own.iter().zip(&simpler.best.choice) {
            let as_said = if replaced.contains(own) { now.option < own.option } else { now == own };
            prop_assert!(as_said, "{own:?} {now:?}");
        }
        // Of a single kind no simpler option would do.
        if let ([now], None, None) = (&simpler.best.choice[..], small.goal.deadline, small.goal.budget) {
            for option in 0..now.option {
                let all = pools.schedules_of(&[Placed { kind: 0, option }], Effort::Thorough);
                prop_assert!(all.iter().all(|schedule| !near(judge.worth(&schedule.figures))));
            }
        }
    }

    #[test]
    fn bounds_are_no_less_than_those_of_the_queues_and_no_schedule_beats_them(small in small(4)) {
        let mut pools = small.pools();
        for choice in choices(&small.kinds) {
            let least = pools.bound(&choice);
            let mut end = 0.0_f64;
            for schedule in pools.schedules_of(&choice, Effort::Thorough) {
                let figures = schedule.figures;
                prop_assert!(figures.end >= least.end - 1e-6 && figures.late >= least.late - 1e-9);
                prop_assert!(figures.cost >= least.cost * (1.0 - 1e-12));
                let whole = |pool: &PoolSpec| pool.quota() == small.shared.quota(&pool.instance);
                for part in schedule.parts.iter().filter(|part| whole(&part.queue.pool)) {
                    let queue = valid(&part.queue, &small.shared.files, 0).expect("valid before").queue;
                    let first = queue.jobs.iter().map(|job| job.submit).min().expect("jobs");
                    end = end.max(first.seconds().0 + makespan_bound(&queue).largest_s());
                }
            }
            prop_assert!(least.end >= end - 1e-6, "{end} {least:?}");
        }
    }

    #[test]
    fn schedules_stay_within_the_quota_and_costs_add_up(small in small(4)) {
        let mut pools = small.pools();
        let best = choose(&mut pools, judge(&small)).expect("short jobs").best;
        let (mut cost, mut jobs) = (0.0, 0);
        for part in &best.schedule.parts {
            let checked = valid(&part.queue, &small.shared.files, 0).expect("valid before");
            let outcome = simulate_planned(&checked.queue);
            let held = outcome.states.iter().map(|state| state.starting + state.busy + state.idle);
            prop_assert!(held.max() <= Some(small.shared.quota(&part.queue.pool.instance)));
            let stays = checked.queue.jobs.iter().zip(&outcome.runs).map(|(job, run)| run.end.since(job.submit));
            cost += match checked.price {
                Some(price) => (price.hourly * (outcome.billed_jobs() + outcome.billed_warm())).0,
                None => stays.map(|stay| stay.seconds().0).sum(),
            };
            jobs += checked.queue.jobs.len();
        }
        prop_assert!(close(cost, best.schedule.figures.cost));
        prop_assert_eq!(jobs, small.kinds.iter().map(|kind| kind.count as usize).sum::<usize>());
    }

    #[test]
    fn a_tighter_goal_never_costs_less(small in small(3), more in 1.0f64..4.0, money in any::<bool>()) {
        let priced = small.shared.are_priced();
        let objective = if priced { Objective::Cost } else { Objective::Time };
        let at = |part: f64| {
            let deadline = small.goal.deadline.unwrap_or(Seconds(6000.0)) * part;
            let budget = small.goal.budget.unwrap_or(20.0) * part;
            let goal = if money && priced {
                Goal { objective, deadline: None, budget: Some(budget) }
            } else {
                Goal { objective, deadline: Some(deadline), budget: None }
            };
            Small { goal, ..small.clone() }
        };
        let (tight, loose) = (solved(&at(1.0)).0, solved(&at(more)).0);
        prop_assert!(loose.excess <= tight.excess + 1e-12);
        prop_assert!(tight.excess > 0.0 || loose.value <= tight.value * (1.0 + 1e-12), "{tight:?} {loose:?}");
        // What is preferred for being much better or simpler costs little more than that.
        let loose = at(more);
        let (mut pools, judge) = (loose.pools(), judge(&loose));
        let best = choose(&mut pools, judge).expect("short jobs");
        let best = or_much_better(&mut pools, judge, best, |_, _| true);
        let simpler = or_simpler(&mut pools, judge, best, &EARLIER_IS_SIMPLER);
        let no_less_simple = |own, other| earlier_is_simpler(own, other).is_none();
        let preferred = or_much_better(&mut pools, judge, simpler, no_less_simple).best.worth.value;
        let most = tight.value * (1.0 + INDISTINCT).powi(2) * (1.0 + GIVEN_UP);
        prop_assert!(tight.excess > 0.0 || preferred <= most + 1e-9);
    }
}

fn total(document: &FleetDocument) -> f64 {
    document.prediction.cost.expect("rented").total_usd
}

const POOL: &str = "[pool]\ninstances = [\"g4dn.xlarge\", \"p3.2xlarge\"]\nmax_instances = 4\n";
const JOB: &str = "[[job]]\nname = \"trial\"\ncount = 5\nmodel = { name = \"resnet50\" }\n\
                   data = { samples = 100_000 }\ntraining = { global_batch = 64 }\n";

fn planned(text: &str) -> Result<PlannedFleet, FleetError> {
    planned_on(text, None)
}

/// Plans a fleet; every cluster file that it and its jobs name is this one.
fn planned_on(text: &str, cluster_file: Option<ClusterFile>) -> Result<PlannedFleet, FleetError> {
    let spec: FleetSpec = toml::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let resources = Resources { cluster_file, cluster_path: spec.pool.file.clone(), ..Resources::default() };
    let job = |entry: &FleetJobSpec| FleetJob { spec: entry.in_place(), resources: resources.clone() };
    let jobs: Vec<FleetJob> = spec.jobs.iter().map(job).collect();
    plan_fleet(&spec, &resources, &jobs, &Limits::default(), &Cancellation::default(), &|| ())
}

fn refused(text: &str) -> FleetError {
    planned(text).expect_err("a fleet with a mistake")
}

#[test]
fn a_fleet_has_the_plan_that_its_job_has_on_the_same_instances() {
    let fleet = planned(&format!("{POOL}{JOB}")).expect("a fleet without mistakes");
    let plans = fleet.plan_documents().expect("plans");
    let (own, (name, document)) = (&fleet.document.plans[0], &plans[0]);
    assert_eq!((name.as_str(), &document.plan), ("trial", &own.plan));
    assert!(close(document.prediction.elapsed_s() - 280.0, own.time_s));
    assert_eq!(fleet.document.missed, None);
    let runs = fleet.document.pools.iter().flat_map(|pool| &pool.jobs);
    assert_eq!(runs.count(), 5);
}

#[test]
fn a_fleet_that_nobody_waits_for_is_not_planned() {
    let spec: FleetSpec = toml::from_str(&format!("{POOL}{JOB}")).expect("a fleet");
    let job = FleetJob { spec: spec.jobs[0].in_place(), resources: Resources::default() };
    let cancellation = Cancellation::default();
    cancellation.cancel();
    let planned = plan_fleet(&spec, &Resources::default(), &[job], &Limits::default(), &cancellation, &|| ());
    let Err(FleetError::NoPlan { error, .. }) = planned else { panic!("{planned:?}") };
    assert_eq!(*error, NoPlan::Cancelled);
}

#[test]
fn a_deadline_moves_jobs_to_faster_instances_and_an_impossible_one_is_told() {
    let at = |goal: &str| planned(&format!("{POOL}[goal]\n{goal}\n{JOB}")).expect("a fleet").document;
    let cheap = at("");
    let makespan = cheap.prediction.makespan_s;
    let fast = at(&format!("deadline = \"{} s\"", (makespan / 1.5).round()));
    assert!(fast.prediction.makespan_s < makespan && total(&fast) > total(&cheap));
    let late = at("deadline = \"1 s\"");
    assert!(late.search.impossible);
    let why = late.missed.expect("nothing is that fast");
    let told = "no choice of a plan for each [[job]], in any schedule, can end all jobs within 1";
    assert!(why.starts_with(told), "{why}");
    let both = at("deadline = \"1 s\"\nbudget = 0.01").missed.expect("neither fast nor cheap enough");
    assert!(both.contains("within 1.00 s for at most 0.0100 USD: one about as near as any takes "), "{both}");
    assert!(both.contains("the deadline, and costs ") && both.ends_with("the budget"), "{both}");
    let dear = at("budget = 0.01").missed.expect("nothing is that cheap");
    assert!(dear.contains("at most 0.0100 USD"), "{dear}");
    let shortest = at("objective = \"time\"");
    // What is faster by less than can be told may be left for what is simpler or cheaper.
    assert!(shortest.prediction.makespan_s <= 1.1 * fast.prediction.makespan_s);
}

#[test]
fn what_would_meet_a_missed_goal_does() {
    let with = |quota: u32, goal: &str| {
        let pool = POOL.replace("= 4", &format!("= {quota}"));
        planned(&format!("{pool}[goal]\n{goal}\n{JOB}")).expect("a fleet").document
    };
    let fastest = with(4, "objective = \"time\"\ndeadline = \"1 s\"");
    assert_eq!(fastest.to_meet_goal, Vec::<String>::new(), "nothing is that fast");
    let goal = format!("deadline = \"{} s\"", (0.7 * fastest.prediction.makespan_s).round());
    let late = with(4, &goal);
    let more = late.to_meet_goal.iter().find(|told| told.starts_with("pool.max_instances")).expect("one of them");
    let quota = more.strip_prefix("pool.max_instances 4 stands in the way: with ");
    let quota: u32 = quota.and_then(|rest| rest.split(' ').next()?.parse().ok()).expect(more);
    assert!(with(quota, &goal).missed.is_none() && with(quota - 1, &goal).missed.is_some(), "{more}");

    let cheapest = total(&with(4, ""));
    let deadline = fastest.prediction.makespan_s;
    let both = with(4, &format!("deadline = \"{deadline} s\"\nbudget = {cheapest}"));
    let alone =
        if both.prediction.makespan_s > deadline { "without the budget of " } else { "without the deadline of " };
    assert!(both.to_meet_goal.iter().any(|told| told.starts_with(alone)), "{:?}", both.to_meet_goal);
    let poor = with(4, &format!("budget = {}", 0.6 * cheapest));
    assert!(poor.to_meet_goal.iter().any(|told| told.starts_with("on spot instances ")), "{:?}", poor.to_meet_goal);
}

/// A job that is submitted late decides when all end; what runs before it may then be as cheap as it likes. That the
/// bound of its end is a sum in another order must not hide it.
#[test]
fn of_schedules_that_end_at_the_same_time_the_cheapest_is_taken() {
    let option = |of: &str, instances: u32, time: f64| JobOption {
        instance: of.into(),
        instances,
        time: Seconds(time),
        plan: 0,
    };
    let kind = |name: &str, submit: f64, options: Vec<JobOption>| Kind {
        name: name.into(),
        count: 1,
        submit: Seconds(submit),
        priority: 0,
        deadline: None,
        budget: None,
        options,
    };
    for time in (0..50).map(|step| 1_806.316_887_5 + 0.37 * f64::from(step)) {
        // The fastest, the one to take, and the cheapest, which ends last.
        let early =
            vec![option("p3.2xlarge", 2, 4200.0), option("g4dn.xlarge", 2, 6600.0), option("g4dn.xlarge", 1, 9600.0)];
        let late = kind("late", 7200.0, vec![option("p3.2xlarge", 1, time)]);
        let goal = Goal { objective: Objective::Time, deadline: None, budget: None };
        let fleet = fleet([2, 2], Whose::KeptWarm);
        let shared = shared(&fleet, [2, 2], Whose::KeptWarm);
        let small = Small { fleet, shared, kinds: vec![kind("early", 0.0, early), late], goal };
        let (found, best) = (solved(&small).0, exhaustive(&small));
        assert!(close(found.value, best.value) && close(found.other, best.other), "{found:?} {best:?}");
        assert!(found.other < 8.0, "{found:?}");
    }
}

#[test]
fn a_missed_deadline_or_budget_is_named() {
    let text = format!("{POOL}[goal]\nobjective = \"time\"\n{JOB}goal = {{ deadline = \"20 min\" }}\n");
    let reasons = planned(&text).expect("a fleet").document.reasons;
    let told = reasons.iter().any(|reason| reason.ends_with("which misses the deadline of trial, 20 min"));
    assert!(told, "{reasons:?}");
}

/// A job of its own costs and takes what it does in a fleet, storage and requests to it apart; evaluation and checkpoints are part of it.
#[test]
fn a_fleet_of_one_is_its_plan() {
    let job = JOB.replace("count = 5", "count = 1");
    let campaign =
        "campaign = { evaluation = { every_epochs = 0.1, samples = 50_000 }, checkpoint_interval = \"2 min\" }";
    let fleet = planned(&format!("{POOL}{job}{campaign}\n")).expect("a fleet without mistakes");
    let (_, plan) = fleet.plan_documents().expect("plans").remove(0);
    let prediction = &plan.prediction;
    assert!(prediction.evaluations_s.is_some_and(|seconds| seconds > 60.0));
    assert!(close(fleet.document.prediction.makespan_s, prediction.elapsed_s()));
    let parts = prediction.cost_parts.expect("rented");
    let (cost, alone) = (total(&fleet.document), parts.total() - parts.storage_usd - parts.requests_usd);
    // Queues bill begun seconds in full.
    assert!(cost >= alone && cost < alone * 1.01, "{cost} {alone}");
}

#[test]
fn a_larger_quota_hardly_costs_more_where_instances_are_kept() {
    let trials = |quota: u32| {
        let pool = POOL.replace("= 4", &format!("= {quota}"));
        let warm = "service = \"sagemaker\"\nwarm_pool = true\n";
        let job = JOB.replace("count = 5", "count = 24");
        total(&planned(&format!("{pool}{warm}{job}")).expect("a fleet").document)
    };
    let costs = [1, 4, 24].map(trials);
    // As much more may be paid for an end that is much earlier.
    assert!(costs.iter().all(|cost| *cost <= costs[0] * (1.0 + INDISTINCT)), "{costs:?}");
}

/// Fourteen trainings with software that is some 8 % cheaper, but for which models and data have to be converted: more than
/// 1,000 USD of all.
#[test]
fn software_is_not_preferred_for_being_simpler_where_all_jobs_would_cost_much_more() {
    let pool = "[pool]\ninstances = [\"p4d.24xlarge\", \"p5.48xlarge\"]\nmax_instances = 16\n";
    let job = "[[job]]\nname = \"pretraining\"\ncount = 14\nmodel = { name = \"qwen2.5-1.5b\" }\n\
               data = { tokens = 20_000_000_000 }\ntraining = { global_batch = 1024 }\n";
    let one = planned(&format!("{pool}{}", job.replace("count = 14", "count = 1"))).expect("a fleet").document;
    let all = planned(&format!("{pool}{job}")).expect("a fleet").document;
    let [one, all] =
        [one, all].map(|document| (document.plans[0].plan.stack.clone(), total(&document), document.search.bound));
    assert_eq!(all.0.as_deref(), Some("megatron-core"), "{all:?}");
    assert_ne!(one.0, all.0, "{one:?}");
    assert!(one.1 - one.2 <= 1000.0 && all.1 <= all.2 * (1.0 + INDISTINCT), "{one:?} {all:?}");
}

/// The fastest is a pipeline on several machines with one GPU each, which nobody would launch for a few percent.
#[test]
fn a_plan_that_is_simpler_is_preferred_to_one_that_is_hardly_cheaper() {
    let pool = POOL.replace("\"p3.2xlarge\"", "\"g4dn.12xlarge\", \"p3.*\"").replace("= 4", "= 8");
    let job = "[[job]]\nname = \"tune\"\nmodel = { name = \"bert-large\" }\ndata = { samples = 400_000 }\n\
               training = { global_batch = 128, epochs = 2 }\ngoal = { deadline = \"5 h\" }\n";
    let document = planned(&format!("{pool}{job}")).expect("a fleet").document;
    let own = &document.plans[0].plan;
    assert_eq!((own.parallel.pipeline, own.parallel.tensor), (1, 1), "{own:?}");
    let told = document.reasons.iter().any(|reason| reason.contains(", but simpler (no "));
    assert!(told, "{:?}", document.reasons);
}

/// With a deadline that the recommended plan misses, the best one of the same machines is scheduled, and written.
#[test]
fn the_plan_that_is_written_is_the_one_that_is_scheduled() {
    let job = JOB.replace("resnet50", "gpt2-medium").replace("count = 5", "count = 1");
    let at = |goal: &str| planned(&format!("{POOL}[goal]\n{goal}\n{job}")).expect("a fleet");
    let usual = at("objective = \"time\"").document.prediction.makespan_s;
    for deadline in [2.0 * usual, 0.99 * usual, 0.9 * usual] {
        let fleet = at(&format!("deadline = \"{deadline} s\""));
        let plans = fleet.plan_documents().expect("plans");
        assert_eq!(plans[0].1.plan, fleet.document.plans[0].plan, "{deadline}");
    }
}

#[test]
fn what_changes_nothing_is_told() {
    let pool = POOL.replace("\"p3.2xlarge\"", "\"p5.48xlarge\"");
    let told = |rest: &str| planned(&format!("{pool}{rest}")).expect("a fleet").document.warnings.join("; ");
    let elsewhere = told(&format!("region = \"eu-west-3\"\n{JOB}campaign = {{ start = \"cold\" }}\n"));
    assert!(elsewhere.contains("left out: p5.48xlarge (ec2 on-demand in eu-west-3)"), "{elsewhere}");
    assert!(elsewhere.contains("`job[0].campaign.start` changes nothing"), "{elsewhere}");
    assert!(!told(JOB).contains("left out"));
    let queued = told(&format!("{JOB}campaign = {{ job_limit = \"2 h\", queue_wait = \"5 h\" }}\n"));
    assert!(queued.contains("`job[0].campaign.job_limit` changes nothing"), "{queued}");
}

/// Steps of a plan may take longer than a clock of nanoseconds can tell.
#[test]
fn jobs_of_millennia_are_told() {
    let job = JOB.replace("samples = 100_000", "samples = 9_000_000_000_000_000");
    let told = refused(&format!("{POOL}{job}")).to_string();
    assert!(told.contains("longer than a clock can tell"), "{told}");
}

#[test]
fn mistakes_are_told_with_their_place() {
    let wrong = |pool: &str, rest: &str| refused(&format!("{POOL}{pool}\n{rest}")).to_string();
    assert_eq!(
        wrong("", ""),
        "`job` is missing: write at least one [[job]] with a file, or with a model, data and training"
    );
    assert_eq!(wrong("", &JOB.replace("= 5", "= 0")), "`job[0].count` is 0, but it must be from 1 to 10000");
    assert_eq!(
        wrong("", &format!("{JOB}file = \"a.toml\"\n")),
        "`job[0].file` and `job[0].model` exclude each other: a job is in a file of its own or in place"
    );
    assert_eq!(
        wrong("", &JOB.replace("= 64", "= 0")),
        "`job[0].training.global_batch` is 0, but it must be from 1 to 4294967296"
    );
    assert_eq!(
        wrong("", &format!("{JOB}goal = {{ deadline = \"0 s\" }}")),
        "`job[0].goal.deadline` is `0 s`, but it must be above zero"
    );
    assert_eq!(
        wrong("", &format!("{JOB}cluster = {{ region = \"eu-west-1\" }}")),
        "`job[0].cluster.region` is eu-west-1, but `pool.region` is us-east-1: jobs of a fleet run in its pool"
    );
    assert_eq!(
        wrong("", &format!("{JOB}cluster = {{ instances = [\"p4d.*\"] }}")),
        "`job[0].cluster.instances` is p4d.*, but `pool.instances` is g4dn.xlarge, p3.2xlarge: jobs of a fleet run in \
         its pool"
    );
    let late = wrong("[goal]\ndeadline = \"8 h\"", &format!("{JOB}{}submit = \"9 h\"\n", JOB.replace("trial", "late")));
    assert_eq!(late, "`job[1].submit` is 9 h, but `goal.deadline` is 8 h 00 min, by which all jobs have to end");
    assert!(wrong("warm_pool = true", JOB).starts_with("`pool.service` is ec2, but it must be sagemaker"));
    assert!(wrong("keep_alive = \"5 min\"", JOB).starts_with("`pool.keep_alive` and `pool.warm_pool = false` exclude"));
    let none = refused(&format!("{}{JOB}", POOL.replace("[\"g4dn.xlarge\", \"p3.2xlarge\"]", "[]"))).to_string();
    assert_eq!(none, "`pool.instances` is [], but it must be a list with at least one instance type");
    let unknown = refused(&format!("{}{JOB}", POOL.replace("p3.2xlarge", "p3.3xlarge")));
    assert!(unknown.hint().expect("a name that is near").contains("p3.8xlarge"), "{unknown}");
    let spec: FleetSpec = toml::from_str(&format!("{POOL}{JOB}")).expect("a fleet");
    let held = Limits { fixed: Fixed { instances: Some(5), ..Fixed::default() }, ..Limits::default() };
    let job = FleetJob { spec: spec.jobs[0].in_place(), resources: Resources::default() };
    let wide = plan_fleet(&spec, &Resources::default(), &[job], &held, &Cancellation::default(), &|| ())
        .expect_err("five of four")
        .to_string();
    assert!(wide.starts_with("`--fix instances` is 5 instances, but `pool.max_instances` is 4"), "{wide}");
    let huge = JOB.replace("resnet50", "gpt3-175b").replace("count = 5", "count = 1");
    assert!(matches!(refused(&format!("{POOL}{huge}")), FleetError::NoPlan { index: 0, .. }));
}

#[test]
fn every_field_of_an_entry_and_of_the_pool_changes_something() {
    let plain = planned(&format!("{POOL}{JOB}")).expect("a fleet").document;
    for (pool, job) in [
        ("region = \"eu-west-1\"", ""),
        ("pricing = \"spot\"", ""),
        ("service = \"sagemaker\"", ""),
        ("start = { cold = \"1 min\" }", ""),
        ("service = \"sagemaker\"\nwarm_pool = true", ""),
        ("", "submit = \"1 h\""),
        ("", "priority = 1"),
        ("", "cluster = { instances = [\"p3.2xlarge\"] }"),
        ("", "goal = { deadline = \"1 h\" }"),
        ("", "goal = { budget = 0.1 }"),
    ] {
        // A second kind before it, which competes with it.
        let other = JOB.replace("trial", "other").replace("100_000", "300_000");
        let of = |pool: &str, job: &str| {
            planned(&format!("{POOL}{pool}\n[goal]\ndeadline = \"2 h\"\n{other}{JOB}{job}\n"))
                .expect("a fleet")
                .document
        };
        let (with, without) = (of(pool, job), of("", ""));
        assert!(with.prediction != without.prediction || with.plans != without.plans, "{pool}{job}");
    }
    let wide = JOB.replace("= 64", "= 4096");
    let options = |own: &str| planned(&format!("{POOL}{wide}{own}")).expect("a fleet").document.plans[0].options;
    assert!(options("") > options("cluster = { max_instances = 1 }"));
    let held = planned(&format!("{POOL}[policy]\norder = \"shortest-first\"\n{JOB}")).expect("a fleet").document;
    assert_eq!(held.pools[0].queue.policy.order, QueueOrder::ShortestFirst);
    assert_ne!(held.pools[0].queue.policy, PolicySpec { order: QueueOrder::Priority, backfill: true });
    assert_eq!(plain.schema, "trainyard.fleet/1");
}
