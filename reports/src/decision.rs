//! What stands around a recommendation: what made room, how number formats and batches compare, what was rejected.

use crate::format::{Width, bytes, columns, percent, rate, seconds, table, usd};
use crate::layout::sharing;
use trainyard_plan::Recompute;
use trainyard_plan::document::{BatchChoice, PlanDocument, PrecisionChoice, Rejected, RejectedBy, Remedy};
use trainyard_units::human_count;

/// Formats tables for tuning a plan: what saves memory, and how number formats and batches compare.
pub(crate) fn tuning(document: &PlanDocument, width: Width) -> String {
    let room = if lacks_room(document) { String::new() } else { remedies(document, width) };
    room + &precisions(document, width) + &batches(document, width)
}

/// Returns `true` if the plain plan does not fit into memory even with one sample at a time.
pub(crate) fn lacks_room(document: &PlanDocument) -> bool {
    let beyond = |remedy: &Remedy| remedy.memory_bytes > remedy.available_bytes;
    let smaller = document.remedies.iter().skip(1).find(|remedy| remedy.together_bytes.is_some());
    document.remedies.first().is_some_and(beyond) && smaller.is_none_or(beyond)
}

/// Formats a table of what saves memory: each remedy alone, and with all before it that leave the training unchanged.
pub(crate) fn remedies(document: &PlanDocument, width: Width) -> String {
    let Some(first) = document.remedies.first() else { return String::new() };
    let of = format!(">of {}", bytes(first.available_bytes));
    let header = ["what makes room", ">alone", ">with those before", &of, "in the plan"];
    let rows = document.remedies.iter().map(|remedy| {
        let decides = remedy.together_bytes.unwrap_or(remedy.memory_bytes);
        let name = if remedy.changes_training { format!("({})", remedy.remedy) } else { remedy.remedy.clone() };
        [
            name,
            bytes(remedy.memory_bytes),
            remedy.together_bytes.map_or_else(String::new, bytes),
            share(decides as f64 / remedy.available_bytes.max(1) as f64),
            remedy.taken.clone().unwrap_or_default(),
        ]
    });
    let note = if document.remedies.iter().any(|remedy| remedy.changes_training) {
        "  rows in parentheses change the model or the optimizer; plans never do so by themselves\n"
    } else {
        ""
    };
    format!("\n{}{note}", table(width, header, rows))
}

/// Formats a ratio: `87 %`, or `27 times` where that says more.
fn share(of: f64) -> String {
    if of < 10.0 { format!("{:.0} %", 100.0 * of) } else { format!("{of:.0} times") }
}

fn precisions(document: &PlanDocument, width: Width) -> String {
    if document.precisions.is_empty() {
        return String::new();
    }
    let header = ["same work in", "strategy", ">micro", ">step", ">in all", ">cost", ">memory"];
    let row = |choice: &PrecisionChoice| {
        let recompute = if choice.recompute == Recompute::None { "" } else { ", recompute" };
        let other = choice.stack.as_ref().filter(|stack| document.plan.stack.as_ref() != Some(stack));
        let software = other.map_or_else(String::new, |stack| format!(", {stack}"));
        [
            marked(choice.precision.to_string(), choice.recommended),
            format!("{}{}{recompute}{software}", choice.parallel, sharing(choice.state_sharding)),
            choice.batch.micro.to_string(),
            seconds(choice.step_time_s),
            seconds(choice.time_s),
            choice.cost_usd.map_or_else(|| "–".into(), usd),
            bytes(choice.memory_peak_bytes),
        ]
    };
    format!("\n{}", table(width, header, document.precisions.iter().map(row)))
}

fn batches(document: &PlanDocument, width: Width) -> String {
    let Some(first) = document.batches.first() else { return String::new() };
    let several = document.batches.iter().any(|choice| choice.batch.global != first.batch.global);
    let title = if several { "global batch" } else { "micro-batch" };
    let mut header = vec![title, ">step", ">samples/s", ">of peak", ">in all", ">cost", ">memory"];
    if several {
        header.insert(1, ">samples to go");
    }
    let row = |choice: &BatchChoice| {
        let size = if several { choice.batch.global } else { choice.batch.micro };
        let known = |value: Option<f64>, how: fn(f64) -> String| value.map_or_else(|| "–".into(), how);
        let mut row = vec![
            marked(human_count(size), choice.recommended),
            known(choice.step_time_s, seconds),
            known(choice.samples_per_s, rate),
            known(choice.mfu, percent),
            known(choice.time_s, seconds),
            known(choice.cost_usd, usd),
            bytes(choice.memory_peak_bytes),
        ];
        if several {
            row.insert(1, human_count(choice.samples.round() as u64));
        }
        row
    };
    format!("\n{}", columns(width, &header, document.batches.iter().map(row)))
}

fn marked(name: String, recommended: bool) -> String {
    if recommended { format!("{name} *") } else { name }
}

/// Ratio below which a difference is too small to print: half a per cent.
const NOTICEABLE: f64 = 1.005;

/// Lists what was rejected, in sentences; machine types that certainly miss the same limit share one.
pub(crate) fn rejected(document: &PlanDocument) -> Vec<String> {
    let shares_sentence = |rejected: &&Rejected| {
        let limits = [RejectedBy::Objective, RejectedBy::Deadline, RejectedBy::Budget];
        rejected.times.is_some() && rejected.limit.is_some_and(|limit| limits.contains(&limit))
    };
    let alone = document.rejected.iter().filter(|rejected| !shares_sentence(rejected)).map(|rejected| {
        let tried = human_count(rejected.count);
        let count = if rejected.count > 0 { format!(" ({tried} plans tried)") } else { String::new() };
        format!("{} {}{count}", rejected.what, rejected.why)
    });
    let mut sentences: Vec<String> = alone.collect();
    let of = |limit| -> Vec<&Rejected> {
        let sharing = document.rejected.iter().filter(shares_sentence);
        sharing.filter(|rejected| rejected.limit == Some(limit)).collect()
    };
    let (worse, open): (Vec<&Rejected>, Vec<&Rejected>) =
        of(RejectedBy::Objective).into_iter().partition(|rejected| rejected.times >= Some(NOTICEABLE));
    let what =
        if worse.first().is_some_and(|first| first.why.ends_with("slower")) { "slower" } else { "more expensive" };
    sentences.extend(together(&format!("at least so much {what}"), &worse, |times| match times {
        times if times >= 2.0 => format!("{times:.1} times"),
        times => format!("{:.0} %", 100.0 * (times - 1.0)),
    }));
    if !open.is_empty() {
        let names: Vec<&str> = open.iter().map(|rejected| rejected.what.as_str()).collect();
        sentences.push(format!("no better, by how much is open: {}", names.join(", ")));
    }
    let times = |times: f64| format!("{times:.1}");
    sentences.extend(together("too slow, at least so many times the deadline", &of(RejectedBy::Deadline), times));
    sentences.extend(together("too expensive, at least so many times the budget", &of(RejectedBy::Budget), times));
    sentences
}

fn together(what: &str, rejected: &[&Rejected], much: impl Fn(f64) -> String) -> Option<String> {
    let each: Vec<String> =
        rejected.iter().map(|one| format!("{} {}", one.what, much(one.times.unwrap_or(1.0)))).collect();
    (!each.is_empty()).then(|| format!("{what}: {}", each.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::tests::plan_document;
    use trainyard_plan::{BatchSpec, ParallelSpec, Precision, StateSharding};

    #[test]
    fn a_number_format_is_told_with_its_sharding_and_other_software() {
        let mut document = plan_document();
        document.plan.stack = Some("pytorch-ddp".into());
        let choice = |precision, stack: &str, state_sharding| PrecisionChoice {
            precision,
            stack: Some(stack.into()),
            parallel: ParallelSpec { data: 8, ..ParallelSpec::default() },
            state_sharding,
            batch: BatchSpec { global: 32, micro: 4, accumulation: 1 },
            recompute: Recompute::Full,
            step_time_s: 10.0,
            time_s: 1e4,
            cost_usd: None,
            memory_peak_bytes: 16 << 30,
            recommended: stack == "pytorch-ddp",
        };
        document.precisions = vec![
            choice(Precision::Bf16Mixed, "pytorch-ddp", StateSharding::None),
            choice(Precision::Fp32, "deepspeed", StateSharding::Parameters),
        ];
        let page = precisions(&document, Width(120));
        assert!(page.contains("  data 8, recompute  ") && !page.contains("pytorch-ddp"), "{page}");
        assert!(page.contains("  data 8, ZeRO-3, recompute, deepspeed  "), "{page}");
    }
}
