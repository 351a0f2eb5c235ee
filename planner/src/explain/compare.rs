//! What tells two plans apart, and why one is faster.

use super::{ExplainError, NamedPlan};
use crate::amount::usd;
use crate::predict::{plan_of, stack_of};
use crate::relative::{pace, price, same};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_plan::document::PriceUsed;
use trainyard_plan::{Difference, ExplainedPlan, PathKind, PathPart};
use trainyard_units::{Invalid, Seconds, counted, human_count, human_duration};

/// The names of two plans that are compared.
const NAMES: [&str; 2] = ["A", "B"];

/// The least share of the plans' difference from which a part of the critical path is named.
const TOLD: f64 = 0.1;

/// The most parts of the critical path that are named.
const PARTS: usize = 3;

/// Leaves of a document with their paths, in its order.
type Fields = Vec<(String, String)>;

fn get<'a>(fields: &'a [(String, String)], key: &str) -> Option<&'a String> {
    fields.iter().find(|(own, _)| own == key).map(|(_, value)| value)
}

/// Lists the keys at which two documents differ: those of the first in its order, then those that only the second has.
fn differing<'a>(ours: &'a [(String, String)], theirs: &'a [(String, String)]) -> Vec<&'a String> {
    let added = theirs.iter().filter(|(key, _)| get(ours, key).is_none());
    let keys = ours.iter().chain(added).map(|(key, _)| key);
    keys.filter(|key| get(ours, key) != get(theirs, key)).collect()
}

/// Checks that both train the same model, whatever its name.
pub(super) fn same_model(own: &NamedPlan, other: &NamedPlan) -> Result<(), ExplainError> {
    let fields = |named: &NamedPlan| {
        let mut fields = Fields::new();
        flatten("", &value(serde_json::to_value(&named.document.plan.model)), &mut fields);
        fields
    };
    let (ours, theirs) = (fields(own), fields(other));
    let differing = differing(&ours, &theirs);
    if differing.iter().all(|key| *key == "name") {
        return Ok(());
    }
    // The first is the name, if that differs: it says more than one dimension.
    let field = differing[0];
    let told = |fields| get(fields, field).cloned().unwrap_or_else(|| "absent".into());
    let (file, other) = (own.file.clone(), other.file.clone());
    let sentence = format!("`{field}` differs: {} in `{file}`, {} in `{other}`", told(&ours), told(&theirs));
    let invalid = Invalid::inside("plan.model", sentence)
        .with_hint("plans are compared that train the same model, however they do it");
    Err(ExplainError { file, other: Some(other), invalid: Box::new(invalid) })
}

/// Lists every field in which the plans differ, and the software that they rest on.
pub(super) fn differences(own: &NamedPlan, other: &NamedPlan) -> Vec<Difference> {
    let (ours, theirs) = (fields(own), fields(other));
    let difference = |key: &String| Difference {
        field: key.clone(),
        plan: get(&ours, key).cloned(),
        against: get(&theirs, key).cloned(),
    };
    differing(&ours, &theirs).into_iter().map(difference).collect()
}

/// Lists the fields of the plan without its model, with all stages in one field.
fn fields(named: &NamedPlan) -> Fields {
    let (document, mut fields) = (&named.document, Fields::new());
    if let Value::Object(plan) = value(serde_json::to_value(&document.plan)) {
        for (key, value) in plan {
            match key.as_str() {
                "model" => {}
                "stages" => fields.push((key, plan_of(document).map(|plan| plan.cut_in_words()).unwrap_or_default())),
                _ => flatten(&key, &value, &mut fields),
            }
        }
    }
    if document.plan.stack.is_none() {
        fields.push(("stack".into(), stack_of(document).into()));
    }
    fields
}

fn value(document: serde_json::Result<Value>) -> Value {
    document.expect("plans hold only what JSON can hold")
}

fn flatten(path: &str, value: &Value, into: &mut Fields) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| flatten(&below(key), value, into)),
        Value::Array(array) => {
            (0..).zip(array).for_each(|(index, value): (u32, _)| flatten(&below(&index.to_string()), value, into));
        }
        Value::String(text) => into.push((path.into(), text.clone())),
        other => into.push((path.into(), other.to_string())),
    }
}

/// Lists reasons why numbers of the two plans cannot be compared directly.
pub(super) fn notes(own: &NamedPlan, other: &NamedPlan) -> Vec<String> {
    let (ours, theirs) = (&own.document, &other.document);
    let mut notes = Vec::new();
    if ours.plan.batch.global != theirs.plan.batch.global {
        notes.push(format!(
            "a step of A takes {} and one of B {}: the whole training is compared, not the step",
            counted(ours.plan.batch.global, "sample"),
            human_count(theirs.plan.batch.global)
        ));
    } else if ours.prediction.steps != theirs.prediction.steps {
        notes.push(format!(
            "A takes {} and B {}: the jobs differ, so the whole training is compared, not the step",
            counted(ours.prediction.steps, "step"),
            human_count(theirs.prediction.steps)
        ));
    }
    let offered = [ours, theirs].map(|document| document.prediction.price.as_ref().and_then(PriceUsed::offered));
    if let [Some(our), Some(their)] = offered
        && our.date != their.date
    {
        notes.push(format!("the price of A was seen on {}, that of B on {}", our.date, their.date));
    }
    notes
}

/// Says which plan is faster and which is cheaper, and why. Compared is the time in all, which a deadline is compared with.
pub(super) fn verdict(own: &ExplainedPlan, other: &ExplainedPlan) -> Vec<String> {
    let plans = [own, other];
    let times = plans.map(|plan| plan.prediction.elapsed_s());
    let steps = plans.map(|plan| duration(plan.prediction.time_s));
    let [our, their] = times.map(duration);
    let around = if [&our, &their] == [&steps[0], &steps[1]] { "" } else { " in all" };
    let of_steps = |first: usize, second: usize| match around {
        "" => String::new(),
        _ if steps[first] == steps[second] => format!("; the steps take {} in both", steps[first]),
        _ => format!("; the steps take {} rather than {}", steps[first], steps[second]),
    };
    let mut sentences = match sides(times) {
        None => vec![format!("both take the same time{around}, {our}{}", of_steps(0, 1))],
        Some(Sides { less, more }) => {
            let mut told = vec![format!(
                "{} is faster: {}{around} rather than {}, {}{}",
                NAMES[less],
                duration(times[less]),
                duration(times[more]),
                pace(times[less], times[more]),
                of_steps(less, more)
            )];
            told.extend(why(plans[less], plans[more], NAMES[more]));
            told
        }
    };
    sentences.extend(cheaper(own, other, sides(times)));
    sentences
}

/// The indices of the smaller and the larger of two numbers.
#[derive(Clone, Copy)]
struct Sides {
    less: usize,
    more: usize,
}

/// Compares two numbers; `None` if they are the same.
fn sides([own, other]: [f64; 2]) -> Option<Sides> {
    let (less, more) = if own <= other { (0, 1) } else { (1, 0) };
    (!same(own.min(other), own.max(other))).then_some(Sides { less, more })
}

fn duration(seconds: f64) -> String {
    human_duration(Seconds(seconds))
}

/// Explains what the slower plan spends more time on, and what it spends less on.
fn why(faster: &ExplainedPlan, slower: &ExplainedPlan, name: &str) -> Option<String> {
    let same_work =
        faster.plan.batch.global == slower.plan.batch.global && faster.prediction.steps == slower.prediction.steps;
    let over = |plan: &ExplainedPlan| if same_work { 1.0 } else { plan.prediction.steps as f64 };
    let (fast, slow) = (spent(faster, over(faster)), spent(slower, over(slower)));
    let mut changes: Vec<((PathKind, bool), f64)> =
        fast.keys().chain(slow.keys()).map(|key| (*key, time(&slow, *key) - time(&fast, *key))).collect();
    changes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    changes.dedup_by_key(|(key, _)| *key);
    let total: f64 = changes.iter().map(|(_, change)| change).sum();
    let told = |(key, change): &((PathKind, bool), f64)| {
        let label = PathPart { kind: key.0, between_machines: key.1, time_s: 0.0 }.label();
        let way = if *change > 0.0 { "more" } else { "less" };
        let shown = |seconds: f64| if seconds > 0.0 { duration(seconds) } else { "none".into() };
        let (slow, fast) = (shown(time(&slow, *key)), shown(time(&fast, *key)));
        format!("{} {way} on {label} ({slow} against {fast})", duration(change.abs()))
    };
    let more: Vec<String> = changes.iter().filter(|(_, c)| *c >= TOLD * total).take(PARTS).map(told).collect();
    let less: Vec<String> = changes.iter().rev().filter(|(_, c)| *c <= -TOLD * total).take(PARTS).map(told).collect();
    if more.is_empty() || total <= 0.0 {
        return None;
    }
    let each = if same_work { "of each step" } else { "of the training" };
    let saved = if less.is_empty() { String::new() } else { format!(", but {}", less.join(", ")) };
    Some(format!("{each} {name} spends {}{saved}", more.join(", ")))
}

/// Seconds by kind, and by whether they pass between machines.
type Sums = BTreeMap<(PathKind, bool), f64>;

fn time(sums: &Sums, key: (PathKind, bool)) -> f64 {
    sums.get(&key).copied().unwrap_or(0.0)
}

/// Sums the seconds of the critical path by kind, each multiplied by `times`.
fn spent(plan: &ExplainedPlan, times: f64) -> Sums {
    let mut sums = BTreeMap::new();
    for part in &plan.critical_path {
        *sums.entry((part.kind, part.between_machines)).or_insert(0.0) += part.time_s * times;
    }
    sums
}

/// Says which plan is cheaper, and whether for its time or for its machines.
fn cheaper(own: &ExplainedPlan, other: &ExplainedPlan, times: Option<Sides>) -> Option<String> {
    let costs = [own.prediction.cost_usd?, other.prediction.cost_usd?];
    let Some(Sides { less, more }) = sides(costs) else {
        return Some(format!("both cost the same, {}", usd(costs[0])));
    };
    let plans = [own, other];
    let hourly = |side: usize| -> Option<f64> {
        let price = plans[side].prediction.price.as_ref()?;
        Some(price.of_all(plans[side].plan.cluster.instances))
    };
    let (cheap, dear) = (hourly(less)?, hourly(more)?);
    // Machines of one type at one price differ in their number alone.
    let terms = |side: usize| {
        let plan = &plans[side].plan;
        (&plan.cluster.instance, plan.pricing, plans[side].prediction.price.as_ref().map(|price| price.usd_per_hour))
    };
    let alike = terms(less) == terms(more);
    let because = match (times, sides([cheap, dear])) {
        (Some(times), Some(rates)) if times.less == less && rates.less == 1 => {
            if alike {
                "it is so much faster that more machines pay off"
            } else {
                "it is so much faster that more expensive machines pay off"
            }
        }
        (Some(times), _) if times.less == less => "it holds its machines for a shorter time",
        (_, Some(rates)) if rates.less == 0 && alike => "it takes fewer machines, for longer or as long",
        (_, Some(rates)) if rates.less == 0 => "its machines cost less, for longer or as long",
        _ => "what is paid besides its machines is less",
    };
    let [cheap, dear] = [cheap, dear].map(|hourly| format!("{hourly:.2}"));
    let rates = if cheap == dear { String::new() } else { format!(" ({cheap} against {dear} USD/h)") };
    Some(format!(
        "{} is cheaper: {} rather than {}, {}; {because}{rates}",
        NAMES[less],
        usd(costs[less]),
        usd(costs[more]),
        price(costs[less], costs[more])
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking;
    use crate::{MachineFiles, explain};

    fn plan() -> ExplainedPlan {
        let mut job = asking::job("gpt2", 8, &["p3.2xlarge"], 1);
        job.data.samples = Some(10_000);
        let document = asking::planned(&job);
        let named = NamedPlan { file: "plan.json".into(), document, files: MachineFiles::default() };
        explain(&named, None).expect("a valid plan").plan
    }

    /// The plan with these seconds of steps and of evaluation, this cost, and this price of an hour.
    fn with(mut plan: ExplainedPlan, [steps, evaluation, cost, hourly]: [f64; 4]) -> ExplainedPlan {
        let own = &mut plan.prediction;
        (own.time_s, own.evaluations_s, own.cost_usd) = (steps, Some(evaluation), Some(cost));
        (own.start_up_s, own.checkpoints_s, own.failures) = (None, None, None);
        let price = own.price.as_mut().expect("a rented machine");
        price.usd_per_hour = hourly;
        plan
    }

    #[test]
    fn the_faster_plan_is_the_one_that_is_done_first() {
        let plan = plan();
        let told = |own, other| verdict(&with(plan.clone(), own), &with(plan.clone(), other));
        let all = told([2160.0, 10_560.0, 40.0, 12.24], [3480.0, 4320.0, 26.0, 12.24]);
        assert_eq!(
            all[0],
            "B is faster: 2 h 10 min in all rather than 3 h 32 min, 63 % faster; the steps take 58 min rather than 36 min"
        );
        let cheaper = all.last().expect("costs differ");
        assert!(cheaper.ends_with("it holds its machines for a shorter time"), "{cheaper}");
        let plain = told([2160.0, 0.0, 7.0, 12.24], [3480.0, 0.0, 12.0, 12.24]);
        assert_eq!(plain[0], "A is faster: 36 min rather than 58 min, 61 % faster");
    }

    #[test]
    fn a_cheaper_plan_on_machines_of_the_same_price_does_not_have_cheaper_machines() {
        let plan = plan();
        let told = |own, other| verdict(&with(plan.clone(), own), &with(plan.clone(), other)).pop().expect("costs");
        let same_price = told([3600.0, 0.0, 30.0, 12.24], [3600.0, 0.0, 20.0, 12.24]);
        assert!(same_price.ends_with("what is paid besides its machines is less"), "{same_price}");
        let cheaper = told([3600.0, 0.0, 30.0, 30.0], [7200.0, 0.0, 20.0, 10.0]);
        assert!(cheaper.contains("its machines cost less, for longer or as long"), "{cheaper}");
        let faster = told([3600.0, 0.0, 30.0, 30.0], [7200.0, 0.0, 40.0, 20.0]);
        assert!(faster.contains("so much faster that more expensive machines pay"), "{faster}");
        // Of the same machines it is their number that differs.
        let several = |own: [f64; 4], machines| {
            let mut plan = with(plan.clone(), own);
            plan.plan.cluster.instances = machines;
            plan
        };
        let told = |own: &ExplainedPlan, other: &ExplainedPlan| verdict(own, other).pop().expect("costs");
        let (two, one) = (several([1800.0, 0.0, 15.0, 12.24], 2), several([7200.0, 0.0, 24.48, 12.24], 1));
        let faster = told(&two, &one);
        assert!(faster.contains("so much faster that more machines pay off (24.48 against 12.24"), "{faster}");
        let fewer = told(&several([5400.0, 0.0, 40.0, 12.24], 2), &one);
        assert!(fewer.contains("it takes fewer machines, for longer or as long"), "{fewer}");
    }
}
