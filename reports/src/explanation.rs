//! One plan explained, or two side by side, as a page.

use crate::format::{Width, bullets, bytes, columns, facts, percent, seconds, table, usd};
use crate::layout::{cluster, exposed, strategy};
use crate::plan::{in_all, memory};
use crate::simulation::stages;
use trainyard_plan::document::StageMemory;
use trainyard_plan::{ExplainedPlan, ExplanationDocument, Offload, PathKind, PathPart};

/// Formats an explanation document for a reader.
pub fn explanation(document: &ExplanationDocument, width: Width) -> String {
    match &document.against {
        None => alone(document, width),
        Some(against) => side_by_side(document, against, width),
    }
}

fn alone(document: &ExplanationDocument, width: Width) -> String {
    let (own, prediction) = (&document.plan, &document.plan.prediction);
    let mut text = format!("{} on {}, {}\n", own.plan.model.name, cluster(&own.plan), strategy(&own.plan));
    text += &bullets(width, "Plan", &own.description);
    text.push('\n');
    text += &table(width, ["critical path of a step", ">time", ">share"], path(own));
    text.push('\n');
    text += &facts(&figures(own));
    text.push('\n');
    text += &stages(&own.plan, prediction, width);
    text.push('\n');
    text += &memory(prediction, width);
    text += &fullest(own, width);
    if !own.cost_parts.is_empty() {
        let rows = own.cost_parts.iter().map(|part| [part.what.clone(), usd(part.usd)]);
        text.push('\n');
        text += &table(width, ["cost of the training", ">USD"], rows);
    }
    text += &bullets(width, "Why, as its file says", &own.reasons);
    text += &bullets(width, "Caveats", &own.warnings);
    text + &bullets(width, "Note", &document.notes)
}

/// Returns the parts of the critical path and their sum.
pub(crate) fn path(own: &ExplainedPlan) -> Vec<[String; 3]> {
    let step = own.prediction.step_time_s;
    let row = |label: String, time: f64| [label, seconds(time), percent(time / step)];
    let parts = own.critical_path.iter().map(|part| row(part.label(), part.time_s));
    parts.chain([row("step".into(), step)]).collect()
}

fn figures(own: &ExplainedPlan) -> Vec<(&'static str, String)> {
    let prediction = &own.prediction;
    let [low, high] = prediction.interval_s;
    let mut rows = vec![
        ("step", format!("{} (90 %: {} to {})", seconds(prediction.step_time_s), seconds(low), seconds(high))),
        ("time", seconds(prediction.time_s)),
    ];
    rows.extend(in_all(prediction).map(|in_all| ("in all", in_all)));
    if let (Some(cost), Some([low, high])) = (prediction.cost_usd, prediction.cost_interval_usd) {
        rows.push(("cost", format!("{} (90 %: {} to {})", usd(cost), usd(low), usd(high))));
    }
    rows.extend(prediction.mfu.map(|mfu| ("MFU", percent(mfu))));
    rows.push(("bubble", percent(prediction.bubble)));
    rows.push((exposed(&own.plan), seconds(prediction.exposed_communication_s)));
    rows
}

/// A part of the memory of a device of the fullest stage, in bytes.
type Held = fn(&StageMemory) -> u64;

const HELD: [(&str, Held); 9] = [
    ("weights", |held| held.parameters),
    ("gradients", |held| held.gradients),
    ("optimizer state", |held| held.optimizer_state),
    ("activations", |held| held.activations),
    ("buffers", |held| held.buffers),
    ("workspace", |held| held.workspace),
    ("weights being loaded", |held| held.loading),
    ("software", |held| held.software),
    ("total", |held| held.total),
];

fn fullest_memory(own: &ExplainedPlan) -> Option<&StageMemory> {
    own.prediction.memory_bytes.stages.get(own.fullest_stage as usize)
}

fn fullest(own: &ExplainedPlan, width: Width) -> String {
    let Some(held) = fullest_memory(own) else { return String::new() };
    let limit = own.prediction.memory_bytes.limit_of(held) as f64;
    let rows = HELD.iter().map(|(name, part)| (name, part(held))).filter(|(_, size)| *size > 0);
    let rows = rows.map(|(name, size)| [(*name).to_owned(), bytes(size), percent(size as f64 / limit)]);
    let stages = own.prediction.memory_bytes.stages.len();
    let title = if stages == 1 { "a device holds".into() } else { format!("fullest stage, {}", own.fullest_stage) };
    format!("\n{}", table(width, [title.as_str(), ">bytes", ">of the device"], rows))
}

fn side_by_side(document: &ExplanationDocument, against: &ExplainedPlan, width: Width) -> String {
    let own = &document.plan;
    let head = |plan: &ExplainedPlan| format!("{}: {}, {}", plan.file, cluster(&plan.plan), strategy(&plan.plan));
    let mut text = format!("{}: two plans\n\n", own.plan.model.name);
    text += &facts(&[("A", head(own)), ("B", head(against))]);
    text += &bullets(width, "In short", &document.verdict);
    text += &bullets(width, "Note", &document.notes);
    text.push('\n');
    text += &differences(document, width);
    text.push('\n');
    let header = |title| [title, ">A", ">B", ">B − A"];
    text += &table(width, header("critical path of a step"), both_paths(own, against));
    text.push('\n');
    text += &table(width, header("outcome"), outcomes(own, against));
    text.push('\n');
    text += &table(width, header("memory of the fullest device"), both_memories(own, against));
    text += &costs(own, against, width);
    text += &bullets(width, "What A is", &own.description);
    text += &bullets(width, "What B is", &against.description);
    let told = |keep: &dyn Fn(&String) -> bool, of: &ExplainedPlan| -> Vec<String> {
        of.warnings.iter().filter(|warning| keep(warning)).cloned().collect()
    };
    text += &bullets(width, "Caveats", &told(&|warning| against.warnings.contains(warning), own));
    text += &bullets(width, "Caveats of A", &told(&|warning| !against.warnings.contains(warning), own));
    text + &bullets(width, "Caveats of B", &told(&|warning| !own.warnings.contains(warning), against))
}

fn differences(document: &ExplanationDocument, width: Width) -> String {
    if document.differences.is_empty() {
        return "  the plans differ in no field\n".into();
    }
    let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".into());
    let rows = document
        .differences
        .iter()
        .map(|difference| vec![difference.field.clone(), shown(&difference.plan), shown(&difference.against)]);
    columns(width, &["what differs", "A", "B"], rows)
}

/// Formats a difference: `+41.0 ms`, `−3.00 ms`, empty if there is none to see.
fn difference(own: f64, other: f64, print: impl Fn(f64) -> String) -> String {
    if print(own) == print(other) {
        return String::new();
    }
    let sign = if other > own { '+' } else { '−' };
    format!("{sign}{}", print((other - own).abs()))
}

fn both_paths(own: &ExplainedPlan, other: &ExplainedPlan) -> Vec<[String; 4]> {
    let time = |plan: &ExplainedPlan, kind: PathKind, apart: bool| -> f64 {
        let parts = plan.critical_path.iter();
        parts.filter(|part| part.kind == kind && part.between_machines == apart).map(|part| part.time_s).sum()
    };
    let mut rows = Vec::new();
    for kind in PathKind::ALL {
        for apart in [false, true] {
            let (ours, theirs) = (time(own, *kind, apart), time(other, *kind, apart));
            if ours > 0.0 || theirs > 0.0 {
                let part = PathPart { kind: *kind, between_machines: apart, time_s: 0.0 };
                rows.push(times(part.label(), ours, theirs));
            }
        }
    }
    rows.push(times("step".into(), own.prediction.step_time_s, other.prediction.step_time_s));
    rows
}

/// Formats a row of two times; an absent one is a dash.
fn times(name: String, own: f64, other: f64) -> [String; 4] {
    let shown = |time: f64| if time > 0.0 { seconds(time) } else { "–".into() };
    [name, shown(own), shown(other), difference(own, other, seconds)]
}

fn outcomes(own: &ExplainedPlan, other: &ExplainedPlan) -> Vec<[String; 4]> {
    let (ours, theirs) = (&own.prediction, &other.prediction);
    let interval = |[low, high]: [f64; 2]| format!("{} to {}", seconds(low), seconds(high));
    let mut rows = vec![
        ["90 % of steps".into(), interval(ours.interval_s), interval(theirs.interval_s), String::new()],
        times("time".into(), ours.time_s, theirs.time_s),
    ];
    if [ours, theirs].into_iter().any(|one| in_all(one).is_some()) {
        rows.push(times("in all".into(), ours.elapsed_s(), theirs.elapsed_s()));
    }
    if let (Some(our), Some(their)) = (ours.cost_usd, theirs.cost_usd) {
        rows.push(["cost".into(), usd(our), usd(their), difference(our, their, usd)]);
    }
    if let (Some(our), Some(their)) = (ours.mfu, theirs.mfu) {
        rows.push(["MFU".into(), percent(our), percent(their), difference(our, their, percent)]);
    }
    rows.push([
        "bubble".into(),
        percent(ours.bubble),
        percent(theirs.bubble),
        difference(ours.bubble, theirs.bubble, percent),
    ]);
    let offloading = if own.plan.offload == Offload::NONE { other } else { own };
    rows.push(times(exposed(&offloading.plan).into(), ours.exposed_communication_s, theirs.exposed_communication_s));
    let used = |plan: &ExplainedPlan| plan.prediction.utilisation.iter().copied().fold(0.0, f64::max);
    rows.push([
        "utilisation of the busiest".into(),
        percent(used(own)),
        percent(used(other)),
        difference(used(own), used(other), percent),
    ]);
    rows
}

fn both_memories(own: &ExplainedPlan, other: &ExplainedPlan) -> Vec<[String; 4]> {
    let (Some(ours), Some(theirs)) = (fullest_memory(own), fullest_memory(other)) else { return Vec::new() };
    let row = |name: &str, ours: u64, theirs: u64| {
        let change = difference(ours as f64, theirs as f64, |size| bytes(size as u64));
        [name.to_owned(), bytes(ours), bytes(theirs), change]
    };
    let parts = HELD.iter().map(|(name, part)| (*name, part(ours), part(theirs)));
    let limits = [own.prediction.memory_bytes.limit_of(ours), other.prediction.memory_bytes.limit_of(theirs)];
    parts
        .filter(|(_, ours, theirs)| ours.max(theirs) > &0)
        .chain([("a device has", limits[0], limits[1])])
        .map(|(name, ours, theirs)| row(name, ours, theirs))
        .collect()
}

fn costs(own: &ExplainedPlan, other: &ExplainedPlan, width: Width) -> String {
    let of = |name: &'static str, plan: &ExplainedPlan| -> Vec<[String; 3]> {
        plan.cost_parts.iter().map(|part| [name.into(), part.what.clone(), usd(part.usd)]).collect()
    };
    let rows = [of("A", own), of("B", other)].concat();
    if rows.is_empty() {
        return String::new();
    }
    format!("\n{}", table(width, ["", "cost of the training", ">USD"], rows))
}
