//! Of plans that predictions cannot tell apart the simplest is recommended, which may turn a comparison of two cases round.

use super::Answer;
use crate::relative::percent_of;
use crate::search::{GIVEN_UP_MAX, INDISTINCT, MUCH, SAME};
use serde_json::{Value, json};
use trainyard_plan::{BatchSpec, Objective, PlanSpec, WhatIfFigures};
use trainyard_units::counted;

/// Explains why a case compares otherwise with the unvaried one than the plans with the lowest objective of both do:
/// better where those are not, or worse; `None` if it does not, or if time and cost were traded, which the table shows.
pub(super) fn compares_otherwise(objective: Objective, base: &Answer, own: &Answer) -> Option<String> {
    let by_cost = objective == Objective::Cost && base.figures.cost_usd.is_some() && own.figures.cost_usd.is_some();
    let change = amount(own, by_cost) / amount(base, by_cost) - 1.0;
    let of_best = least(own, by_cost) / least(base, by_cost) - 1.0;
    let is_turned = (change < -SAME && of_best > -SAME) || (change > SAME && of_best < SAME);
    let other = amount(own, !by_cost) / amount(base, !by_cost) - 1.0;
    let is_traded = change * other < 0.0 && other.abs() > INDISTINCT;
    if !is_turned || is_traded || (change - of_best).abs() < SAME {
        return None;
    }
    let passed_over = [("the unvaried plan", base), ("this plan", own)];
    let why: Vec<String> = passed_over
        .into_iter()
        .filter_map(|(plan, answer)| Some(format!("{plan} is {}", answer.passed_over.as_ref()?.why)))
        .collect();
    let best = if by_cost { "cheapest" } else { "fastest" };
    Some(format!(
        "the {best} plans of both differ by {}, not by {}: {}",
        percent(of_best),
        percent(change),
        why.join("; ")
    ))
}

/// Says that the best plan is on another number of machines than the unvaried one, where what is varied says nothing of them:
/// times compare more than that.
pub(super) fn other_machines(keys: &[&str], base: &WhatIfFigures, own: &WhatIfFigures) -> Option<String> {
    let about_machines =
        |key: &&str| !["gpu.", "stack.", "link.", "cluster.", "host."].iter().any(|part| key.starts_with(part));
    let [own, base] = [own, base].map(|figures| &figures.plan.cluster);
    let changes = own.instance == base.instance && own.instances != base.instances;
    (changes && !keys.iter().any(about_machines)).then(|| {
        format!(
            "the best plan is on {}, not on {} as without the change: --fix instances={} compares the change alone",
            counted(own.instances.into(), "machine"),
            base.instances,
            base.instances
        )
    })
}

/// Says that another plan than the unvaried one differs from it in time and cost by less than predictions can tell; `None` if
/// it differs by more, or is the same plan, whose changes follow from what is varied alone.
pub(super) fn indistinct(keys: &[&str], base: &WhatIfFigures, own: &WhatIfFigures) -> Option<String> {
    let alike = |own: f64, base: f64| (own / base - 1.0).abs() < INDISTINCT;
    let cost_alike = own.cost_usd.zip(base.cost_usd).is_none_or(|(own, base)| alike(own, base));
    // The same plan may be paid on other terms, and do another number of the same micro-batches in a step.
    let (pricing, service) = (base.plan.pricing, base.plan.service.clone());
    let batch = BatchSpec { micro: own.plan.batch.micro, ..base.plan.batch };
    let own_plan = PlanSpec { pricing, service, batch, ..own.plan.clone() };
    let same = base.plan == own_plan || beside(keys, &base.plan) == beside(keys, &own_plan);
    (!same && alike(own.in_all_s, base.in_all_s) && cost_alike).then(|| {
        format!(
            "another plan in more than what is varied; it differs by less than predictions can tell ({:.0} %)",
            100.0 * INDISTINCT
        )
    })
}

/// Returns what a plan says besides what is varied, and what follows from that.
fn beside(keys: &[&str], plan: &PlanSpec) -> Value {
    let mut plan = json!(plan);
    let Some(fields) = plan.as_object_mut() else { return plan };
    for key in keys {
        let mut words = key.split('.');
        let (first, last) = (words.next().unwrap_or_default(), words.next_back().unwrap_or_default());
        let following: &[&str] = match first {
            "training" => &["fine_tuning"],
            "model" | "parallel" => &["stages"],
            "instances" => &["cluster", "parallel"],
            "instance" => &["cluster"],
            _ => &[],
        };
        fields.retain(|field, _| field != first && field != last && !following.contains(&field.as_str()));
    }
    plan
}

/// The reason why a case does not keep the software of the unvaried plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum GivenUp {
    /// No plan of it is possible.
    NoPlan,
    /// No plan of it meets the goal, and another does.
    Misses,
    /// No plan meets the goal, and one of other software comes nearest.
    Farther,
    /// Its plan has this many times the objective.
    Worse(f64),
    /// Its plan is no better in the objective and takes this many times as long, or where time is sought costs as much more.
    MuchWorseElse(f64),
}

impl GivenUp {
    /// Compares seconds and USD of the best plan with the kept software and of that with any, where the first meets the goal;
    /// `None` if the software is kept.
    pub(super) fn of(objective: Objective, [kept, free]: [(f64, Option<f64>); 2]) -> Option<Self> {
        let times = kept.0 / free.0;
        let costs = kept.1.zip(free.1).map(|(kept, free)| kept / free);
        let (sought, other) = match costs {
            Some(costs) if objective == Objective::Time => (times, costs),
            Some(costs) => (costs, times),
            None => (times, 1.0),
        };
        if sought > 1.0 + GIVEN_UP_MAX {
            return Some(Self::Worse(sought));
        }
        (sought > 1.0 - SAME && other > MUCH).then_some(Self::MuchWorseElse(other))
    }

    /// Says so of the kept software, where `by_cost` says what is sought.
    fn told(self, kept: &str, by_cost: bool) -> String {
        match self {
            Self::NoPlan => format!("{kept} has no plan there"),
            Self::Misses => format!("{kept} has none there that meets the goal"),
            Self::Farther => format!("{kept} has none there that comes as near to the goal"),
            Self::Worse(times) => {
                let more = if by_cost { "more expensive" } else { "slower" };
                format!("the plan of {kept} is {} {more}", percent_of(times - 1.0))
            }
            Self::MuchWorseElse(times) if by_cost => {
                format!("the plan of {kept} is no cheaper and takes {times:.1} times as long")
            }
            Self::MuchWorseElse(times) => format!("the plan of {kept} is no faster and costs {times:.1} times as much"),
        }
    }
}

/// Names the software of a case that does not keep that of the others, and says why.
pub(super) fn other_software(kept: &str, objective: Objective, own: &Answer) -> Option<String> {
    let other = own.figures.plan.stack.as_ref().filter(|other| *other != kept)?;
    let by_cost = objective == Objective::Cost && own.figures.cost_usd.is_some();
    Some(format!("with {other}: {}", own.given_up?.told(kept, by_cost)))
}

/// Returns the objective of the recommended plan.
fn amount(answer: &Answer, by_cost: bool) -> f64 {
    let figures = &answer.figures;
    figures.cost_usd.filter(|_| by_cost).unwrap_or(figures.in_all_s)
}

/// Returns the lowest objective of all plans.
fn least(answer: &Answer, by_cost: bool) -> f64 {
    let Some(best) = &answer.passed_over else { return amount(answer, by_cost) };
    best.cost_usd.filter(|_| by_cost).unwrap_or(best.in_all_s)
}

fn percent(change: f64) -> String {
    if change.abs() < SAME { "0 %".into() } else { format!("{:+.1} %", 100.0 * change) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::held::PassedOver;
    use super::*;
    use trainyard_plan::{Bottleneck, ClusterSpec, FineTuningSpec, LoraSpec, Method};

    /// A recommended plan that takes so long, and the time of the fastest if that is another.
    pub(in super::super) fn answer(time_s: f64, fastest_s: Option<f64>) -> Answer {
        priced(time_s, None, fastest_s.map(|time_s| (time_s, None)))
    }

    fn priced(time_s: f64, cost_usd: Option<f64>, best: Option<(f64, Option<f64>)>) -> Answer {
        let model = trainyard_models::find("gpt2").expect("in the catalog").model.spec();
        let figures = WhatIfFigures {
            plan: PlanSpec::plain(model, ClusterSpec::of("p3.16xlarge", 1), 14),
            devices: 8,
            step_time_s: time_s,
            interval_s: [time_s, time_s],
            samples_per_s: 1.0 / time_s,
            samples_per_s_per_device: 1.0 / time_s / 8.0,
            mfu: None,
            exposed_communication_s: 0.0,
            bottleneck: Bottleneck::Compute,
            memory_peak_bytes: 1,
            steps: 1,
            time_s,
            in_all_s: time_s,
            cost_usd,
            cost_interval_usd: None,
            price: None,
            within_deadline: None,
            within_budget: None,
        };
        let passed_over =
            best.map(|(in_all_s, cost_usd)| PassedOver { in_all_s, cost_usd, why: "slower, but simpler".into() });
        let (warnings, given_up) = (Vec::new(), None);
        Answer { figures, missed_goal: None, within_margin: None, warnings, passed_over, given_up }
    }

    #[test]
    fn another_number_of_machines_is_told_where_something_else_is_varied() {
        let (base, mut own) = (answer(100.0, None).figures, answer(180.0, None).figures);
        let told = |keys: &[&str], own: &WhatIfFigures| other_machines(keys, &base, own);
        assert_eq!(told(&["gpu.peak"], &own), None);
        own.plan.cluster.instances = 2;
        assert!(told(&["gpu.peak"], &own).is_some_and(|told| told.contains("--fix instances=1")));
        assert_eq!(told(&["gpu.peak", "goal.deadline"], &own), None, "a deadline is about them");
    }

    #[test]
    fn only_comparisons_that_the_choice_turns_round_are_explained() {
        let told = |base: &Answer, own: &Answer| compares_otherwise(Objective::Cost, base, own);
        let simple = answer(102.0, Some(100.0));
        assert_eq!(
            told(&simple, &answer(100.0, None)).as_deref(),
            Some("the fastest plans of both differ by 0 %, not by -2.0 %: the unvaried plan is slower, but simpler")
        );
        assert!(
            told(&answer(100.0, None), &simple).is_some_and(|why| why.ends_with("this plan is slower, but simpler"))
        );
        for own in [answer(102.0, Some(100.0)), answer(90.0, None), answer(110.0, None), answer(104.0, Some(103.0))] {
            assert_eq!(told(&simple, &own), None, "{}", own.figures.time_s);
        }
    }

    #[test]
    fn another_plan_that_is_about_as_good_is_within_what_predictions_can_tell() {
        let figures = |time_s, cost_usd, instances| {
            let mut own = priced(time_s, Some(cost_usd), None).figures;
            own.plan.cluster.instances = instances;
            own
        };
        let base = figures(100.0, 10.0, 1);
        assert!(indistinct(&["gpu.peak"], &base, &figures(103.0, 9.8, 2)).is_some_and(|told| told.ends_with("(5 %)")));
        // Twice as dear, twice as slow, and the same plan on other terms.
        let mut spot = figures(100.0, 9.8, 1);
        spot.plan.pricing = trainyard_plan::Pricing::Spot;
        let mut half = figures(100.0, 9.8, 1);
        (half.plan.batch.global, half.plan.batch.accumulation) = (base.plan.batch.global / 2, 1);
        for other in [figures(100.0, 20.0, 2), figures(200.0, 10.0, 2), spot, half] {
            assert_eq!(indistinct(&["goal.deadline"], &base, &other), None);
        }
    }

    /// The row of a table says already what it varies.
    #[test]
    fn the_plan_with_what_is_varied_is_no_other_plan() {
        let tuned = |rank, micro| {
            let mut own = priced(100.0, Some(10.0), None).figures;
            let lora = Some(LoraSpec { rank: Some(rank), ..LoraSpec::default() });
            own.plan.fine_tuning = Some(FineTuningSpec { method: Method::Lora, lora, trained_blocks: None, dpo: None });
            own.plan.batch.micro = micro;
            own
        };
        let base = tuned(8, 1);
        assert_eq!(indistinct(&["training.lora.rank"], &base, &tuned(16, 1)), None);
        assert_eq!(indistinct(&["batch.micro"], &base, &tuned(8, 2)), None);
        assert!(indistinct(&["training.lora.rank"], &base, &tuned(16, 2)).is_some());
        assert!(indistinct(&["batch.micro"], &base, &tuned(16, 2)).is_some());
    }

    #[test]
    fn time_that_is_traded_for_cost_is_seen_in_the_table() {
        let told = |base: &Answer, own: &Answer| compares_otherwise(Objective::Cost, base, own);
        let base = |time_s| priced(time_s, Some(105.0), Some((180.0, Some(100.0))));
        let cheapest = priced(180.0, Some(100.0), None);
        assert_eq!(told(&base(90.0), &cheapest), None);
        assert!(told(&base(181.0), &cheapest).is_some_and(|why| why.starts_with("the cheapest plans of both")));
    }

    #[test]
    fn software_is_given_up_where_it_is_worse_or_no_better_and_much_worse_in_the_other() {
        let kept = (96.0, Some(2197.0));
        let of = |objective, time_s, usd| GivenUp::of(objective, [kept, (time_s, Some(usd))]);
        let by_cost = |time_s, usd| of(Objective::Cost, time_s, usd);
        assert_eq!(by_cost(38.0, 2080.0), Some(GivenUp::MuchWorseElse(96.0 / 38.0)));
        // Faster by less; much faster, but more expensive; a little cheaper.
        assert_eq!([by_cost(80.0, 2080.0), by_cost(38.0, 2300.0), by_cost(96.0, 2080.0)], [None; 3]);
        let told = by_cost(96.0, 2197.0 / 1.2).map(|why| why.told("a", true));
        assert_eq!(told.as_deref(), Some("the plan of a is 20 % more expensive"));
        assert!(matches!(of(Objective::Time, 80.0, 9000.0), Some(GivenUp::Worse(_))));
        assert_eq!(of(Objective::Time, 96.0, 1000.0), Some(GivenUp::MuchWorseElse(2.197)));
        assert_eq!(GivenUp::of(Objective::Cost, [(96.0, None), (90.0, None)]), None);
        assert_eq!(GivenUp::Farther.told("a", true), "a has none there that comes as near to the goal");
        let told = GivenUp::MuchWorseElse(2.5).told("megatron", true);
        assert_eq!(told, "the plan of megatron is no cheaper and takes 2.5 times as long");
    }
}
