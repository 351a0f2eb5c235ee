//! A recommendation as a page.

mod brief;
mod methods;

pub use brief::NextStep;

use crate::decision::{lacks_room, rejected, remedies, tuning};
use crate::format::{Width, bullets, bytes, columns, facts, percent, rate, seconds, table, usd};
use crate::front::front;
use crate::layout::{cluster, laid_out, recomputed, strategy_and_state};
use crate::price::{at_price, each};
use brief::brief;
pub(crate) use methods::methods_table;
pub use methods::trained_part;
use methods::{methods, trained};
use trainyard_hardware_profiles::catalog;
use trainyard_plan::document::{Alternative, CostKind, CostParts, LeftOut, PlanDocument, Prediction, StackChoice};
use trainyard_plan::{Cache, Objective, PlanSpec};
use trainyard_planner::{
    Evaluations, LIKELY, Loading, expected_count, forward_passes, likelihood, likely, loading, pace, passes, plan_of,
    price,
};
use trainyard_units::{counted, human_count, short_count};

/// How much of a plan is told.
#[derive(Clone, Copy, Debug)]
pub enum Detail<'a> {
    /// One screen, with what to type next.
    Brief(&'a [NextStep]),
    /// Everything that was found.
    Full,
}

/// Formats a plan document for a reader: the plan, its time, memory and cost, the reasons, and the alternatives.
pub fn plan(document: &PlanDocument, detail: Detail<'_>, width: Width) -> String {
    match detail {
        Detail::Brief(next) => brief(document, next, width),
        Detail::Full => full(document, width),
    }
}

fn full(document: &PlanDocument, width: Width) -> String {
    let mut text = title(document) + "\n";
    text += &facts(&details(document));
    text.push('\n');
    text += &memory(&document.prediction, width);
    if lacks_room(document) {
        text += &remedies(document, width);
    }
    text += &bullets(width, "Why", &document.reasons);
    if let Some(advice) = &document.to_meet_goal {
        text += &bullets(width, "To meet the goal", std::slice::from_ref(advice));
    }
    text += &methods(document, width);
    text += &alternatives(document, width);
    text += &stacks(document, width);
    text += &front(document, width);
    text += &bullets(width, "Caveats", &document.warnings);
    text += &search(document, width);
    text + &tuning(document, width)
}

/// Formats the first line: the model, its size and the machines.
pub(crate) fn title(document: &PlanDocument) -> String {
    let parameters = plan_of(document).map(|plan| short_count(plan.model().graph().parameters()));
    let size = parameters.map_or_else(|_| String::new(), |count| format!(" ({count} parameters)"));
    format!("{}{size} on {}\n", document.plan.model.name, cluster(&document.plan))
}

/// Formats a stack with its title: `pytorch-ddp: PyTorch 2 …`.
fn software(stack: &str) -> String {
    let known = catalog().stack(stack).map(|stack| format!(": {}", stack.description));
    format!("{stack}{}", known.unwrap_or_default())
}

/// Formats a table of what each of the stacks that were compared would give.
fn stacks(document: &PlanDocument, width: Width) -> String {
    if document.stacks.is_empty() {
        return String::new();
    }
    let header = ["software", "on", "strategy", ">in all", cost_title(document), ">memory"];
    let row = |own: &StackChoice| {
        let name = if own.recommended { format!("{} (recommended)", own.stack) } else { own.stack.clone() };
        let Some(best) = &own.best else {
            let why = own.reason.clone().unwrap_or_default();
            return [name, why, String::new(), String::new(), String::new(), String::new()];
        };
        let [on, strategy, _, time, cost, memory] = alternative(best, document);
        [name, on, strategy, time, cost, memory]
    };
    format!("\n{}", table(width, header, document.stacks.iter().map(row)))
}

fn batch(plan: &PlanSpec) -> String {
    let batch = plan.batch;
    format!(
        "{} = micro-batch {} × accumulation {} × {}",
        counted(batch.global, "sample"),
        human_count(batch.micro),
        human_count(batch.accumulation),
        counted(u64::from(plan.parallel.data), "replica")
    )
}

/// Formats the samples that are trained on and how often: `1,281,167 samples, 90 epochs`; `None` where steps or a target are
/// stated, or the lengths of samples.
fn data(document: &PlanDocument) -> Option<String> {
    let plan = plan_of(document).ok()?;
    let passes = passes(&document.job, plan.model())?;
    let of = plan.tokens_per_sample().map_or_else(String::new, |tokens| format!(" of {}", counted(tokens, "token")));
    let written = plan.model().spec().decoder_seq_len.filter(|_| !of.is_empty());
    let of = written.map_or_else(|| of.clone(), |written| format!("{of} read, {} written", human_count(written)));
    let plural = if passes.epochs > 1.0 { "s" } else { "" };
    let default = if document.job.training.epochs.is_none() { ", the default" } else { "" };
    Some(format!("{}{of}, {} epoch{plural}{default}", counted(passes.samples, "sample"), passes.epochs))
}

/// Formats the tokens of a step: `33,554,432 a step = 1,024 samples × 32,768`; `None` of models that read none.
fn tokens_of_step(document: &PlanDocument) -> Option<String> {
    let (each, samples) = (plan_of(document).ok()?.tokens_per_sample()?, document.plan.batch.global);
    let all = samples.checked_mul(each)?;
    Some(format!("{} a step = {} × {}", human_count(all), counted(samples, "sample"), human_count(each)))
}

/// Returns time, cost and the plan's choices, a line each.
pub(crate) fn headline(document: &PlanDocument) -> Vec<(&'static str, String)> {
    let (plan, prediction) = (&document.plan, &document.prediction);
    let mut rows = vec![("time", time(prediction))];
    rows.extend(in_all(prediction).map(|in_all| ("in all", in_all)));
    rows.extend(cost(plan, prediction).map(|cost| ("cost", cost)));
    rows.extend(held(plan, prediction).map(|held| ("GPU-hours", held)));
    rows.extend(likely(&document.job, prediction).map(|likely| ("goal", likely)));
    rows.extend(data(document).map(|data| ("data", data)));
    rows.extend([("strategy", laid_out(plan)), ("batch", batch(plan))]);
    rows.extend(tokens_of_step(document).map(|tokens| ("tokens", tokens)));
    rows.push(("precision", formats(plan)));
    rows.extend(trained(document).map(|trained| ("fine-tuning", trained)));
    rows.extend(plan.stack.as_ref().map(|stack| ("software", software(stack))));
    rows.push(("throughput", throughput(prediction)));
    rows.extend(input_told(document));
    rows.extend(scored(document).map(|scored| ("reference", scored)));
    rows.extend(evaluated(document).map(|evaluated| ("evaluation", evaluated)));
    rows
}

/// Returns [`headline`] and what time and cost consist of.
pub(crate) fn details(document: &PlanDocument) -> Vec<(&'static str, String)> {
    let (plan, prediction) = (&document.plan, &document.prediction);
    let told: Vec<&str> = input_told(document).into_iter().map(|(name, _)| name).collect();
    let mut rows: Vec<_> = headline(document).into_iter().filter(|(name, _)| !told.contains(name)).collect();
    rows.extend(input(document));
    rows.extend(around(prediction).map(|around| ("besides steps", around)));
    rows.extend(prediction.cost_parts.as_ref().map(|parts| ("cost of", parts_of(parts))));
    let on = format!("{} ", plan.cluster.instance);
    rows.extend(prediction.price.as_ref().map(|price| ("price", each(price, plan.pricing, &on))));
    rows
}

fn formats(plan: &PlanSpec) -> String {
    let recompute = plan.recompute.in_words().map_or_else(String::new, |words| format!(", {words}"));
    format!("{}{recompute}", plan.precision)
}

/// Formats the fullest GPU's share of memory: `33.8 GiB of 39.4 GiB (85.8 %)`, and what training takes of it if loading the
/// weights takes more.
pub(crate) fn memory_share(prediction: &Prediction) -> String {
    let memory = &prediction.memory_bytes;
    let (peak, limit) = memory.fullest();
    let training = memory.stages.iter().map(|stage| stage.total.saturating_sub(stage.loading)).max().unwrap_or(0);
    let loads = memory.stages.iter().any(|stage| stage.loading > 0);
    let loading =
        if loads { format!(" while weights are loaded, {} after that", bytes(training)) } else { String::new() };
    let share = percent(peak as f64 / limit as f64);
    format!("{} of {} on the fullest device ({share}){loading}", bytes(peak), bytes(limit))
}

fn cost(plan: &PlanSpec, prediction: &Prediction) -> Option<String> {
    let (cost, [low, high], price) = (prediction.cost_usd?, prediction.cost_interval_usd?, prediction.price.as_ref()?);
    let at_price = at_price(price, plan.pricing);
    Some(format!("{} (90 %: {} to {}), {at_price}", usd(cost), usd(low), usd(high)))
}

/// Formats for how long GPUs are held that nobody pays by the hour, those of a cluster file: `8.6: 64 GPUs for 485 s`.
fn held(plan: &PlanSpec, prediction: &Prediction) -> Option<String> {
    let gpu_hours = own_gpu_hours(plan, prediction)?;
    let (gpus, held) = (counted(plan.parallel.ranks(), "GPU"), seconds(held_s(prediction)));
    Some(format!("{}: {gpus} for {held}", hours(gpu_hours)))
}

/// Returns the time from the first start, behind the scheduler's queue.
fn held_s(prediction: &Prediction) -> f64 {
    prediction.elapsed_s() - prediction.queued_s.unwrap_or(0.0)
}

/// Returns for how many hours a plan holds GPUs of a cluster file without a price.
pub(crate) fn own_gpu_hours(plan: &PlanSpec, prediction: &Prediction) -> Option<f64> {
    let is_own = plan.cluster.file.is_some() && prediction.cost_usd.is_none();
    is_own.then(|| plan.parallel.ranks() as f64 * held_s(prediction) / 3600.0)
}

/// Returns for how many hours another plan does; `None` where a part of its time is spent in a queue, for documents do not
/// tell how much.
pub(crate) fn gpu_hours(other: &Alternative, document: &PlanDocument) -> Option<f64> {
    let is_own = other.plan.cluster.file.is_some() && other.cost_usd.is_none();
    let waits = document.prediction.queued_s.is_some_and(|time| time > 0.0);
    (is_own && !waits).then(|| other.plan.parallel.ranks() as f64 * other.time_s / 3600.0)
}

/// Returns the title of what plans cost: money or, without a price, GPU-hours.
pub(crate) fn cost_title(document: &PlanDocument) -> &'static str {
    if document.prediction.cost_usd.is_some() { ">cost" } else { ">GPU-hours" }
}

/// Formats hours to two digits at least.
fn hours(hours: f64) -> String {
    match hours {
        0.0..0.995 => format!("{hours:.2}"),
        0.995..99.95 => format!("{hours:.1}"),
        _ => human_count(hours.round() as u64),
    }
}

fn time(prediction: &Prediction) -> String {
    let [low, high] = prediction.interval_s.map(seconds);
    let (all, step) = (seconds(prediction.time_s), seconds(prediction.step_time_s));
    format!("{all}: {} of {step} (90 %: {low} to {high})", counted(prediction.steps, "step"))
}

/// Share of the whole from which a part of what comes on top of the steps is named.
const NAMED_ON_TOP: f64 = 5e-4;

/// The part of the steps' time that is worth telling when it comes on top.
const TOLD_ON_TOP: f64 = 0.005;

/// Formats the time with which a deadline is compared; `None` where it is about that of the steps.
pub(crate) fn in_all(prediction: &Prediction) -> Option<String> {
    let jobs = prediction.jobs.filter(|jobs| jobs.count > 1);
    if jobs.is_none() && prediction.around_s() < TOLD_ON_TOP * prediction.time_s {
        return None;
    }
    let on_top = [
        (prediction.queued_s, "waits in the queue"),
        (started(prediction), "start-up"),
        (prediction.checkpoints_s, "checkpoints"),
        (prediction.evaluations_s, "evaluation"),
        (prediction.reference_s, "the reference model"),
        (prediction.interruptions.map(|interruptions| interruptions.total_s()), "interruptions"),
        (prediction.failures.map(|failures| failures.total_s()), "failures"),
    ];
    let told = prediction.elapsed_s() * NAMED_ON_TOP;
    let parts: Vec<&str> =
        on_top.into_iter().filter(|(time, _)| time.is_some_and(|time| time > told)).map(|(_, name)| name).collect();
    let with = if parts.is_empty() { String::new() } else { format!(" with {}", listed(&parts)) };
    let jobs = jobs.map(|jobs| format!(", in {} of at most {}", counted(jobs.count, "job"), seconds(jobs.limit_s)));
    Some(format!("{}{with}{}", seconds(prediction.elapsed_s()), jobs.unwrap_or_default()))
}

/// Returns the time of start-up behind the scheduler's queue.
fn started(prediction: &Prediction) -> Option<f64> {
    prediction.start_up_s.map(|time| time - prediction.queued_s.unwrap_or(0.0))
}

/// Lists words as a sentence does: `start-up, checkpoints and evaluation`.
fn listed(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        words => words.concat(),
    }
}

/// Formats what comes on top of the time of steps.
fn around(prediction: &Prediction) -> Option<String> {
    let queued = prediction.queued_s.map(|time| format!("{} in the queue", seconds(time)));
    let start_up = format!("{} of start-up", seconds(started(prediction)?));
    let checkpoints = format!("{} of checkpoints", seconds(prediction.checkpoints_s?));
    let mut all: Vec<String> = queued.into_iter().chain([start_up, checkpoints]).collect();
    let lost = [(prediction.interruptions, "interruptions"), (prediction.failures, "failures")];
    all.extend(lost.into_iter().filter_map(|(losses, what)| {
        let losses = losses?;
        Some(format!("{} of {what} ({} expected)", seconds(losses.total_s()), expected_count(losses.expected)))
    }));
    Some(all.join(", "))
}

/// Formats how long a reference model scores the samples before the first step, where it does.
fn scored(document: &PlanDocument) -> Option<String> {
    let took = document.prediction.reference_s?;
    let samples = forward_passes(document, &plan_of(document).ok()?).ok()?.reference?;
    Some(format!("{} before the steps: scores of {}", seconds(took), counted(samples, "pair")))
}

/// Formats how often and on how much the model is evaluated, and what that takes: it comes on top of the steps.
fn evaluated(document: &PlanDocument) -> Option<String> {
    let took = document.prediction.evaluations_s?;
    let plan = plan_of(document).ok()?;
    let Evaluations { interval, count, samples } = forward_passes(document, &plan).ok()?.evaluations?;
    let samples = counted(samples, "sample");
    if count == 0 {
        return Some(format!("none: the training ends before the first, after {}", counted(interval, "step")));
    }
    let each = seconds(took / count as f64);
    let besides = format!("{} besides the steps", seconds(took));
    Some(format!("{besides}: every {}, {samples} in {each}", counted(interval, "step")))
}

/// USD.
const CENT: f64 = 0.01;

/// Formats the parts of a cost, without those of less than a cent.
fn parts_of(parts: &CostParts) -> String {
    let name = |kind| match kind {
        CostKind::Steps => "steps",
        CostKind::StartUp => "start-up",
        CostKind::Checkpoints => "checkpoints",
        CostKind::Evaluations => "evaluations",
        CostKind::Reference => "reference",
        CostKind::Interruptions => "interruptions",
        CostKind::Failures => "failures",
        CostKind::Storage => "storage",
        CostKind::Requests => "S3 requests",
        CostKind::Unused => "unused",
    };
    let counting = parts.each().into_iter().filter(|(_, amount)| *amount >= CENT / 2.0);
    counting.map(|(kind, amount)| format!("{} {}", name(kind), usd(amount))).collect::<Vec<_>>().join(", ")
}

/// The share of a step from which waiting for samples is told.
const WAITS: f64 = 0.005;

/// Tells how samples are loaded, and what limits that and how long steps wait for it, if they do.
fn input_told(document: &PlanDocument) -> Vec<(&'static str, String)> {
    let prediction = &document.prediction;
    let Some(predicted) = &prediction.input else { return Vec::new() };
    let loading = loading(document);
    let (way, first_pass) = (loading.map(|loading| loading.way()), first_pass(document));
    let waits = predicted.input_stall_s / prediction.step_time_s;
    if waits >= WAITS {
        let limit = format!("{}: {} of each step waits for samples", predicted.bottleneck, percent(waits));
        return way.map(|way| ("input", way)).into_iter().chain([("limited by", limit)]).chain(first_pass).collect();
    }
    let told = match (way, &first_pass) {
        (Some(way), Some(_)) => way,
        (Some(way), None) => format!("{way}; {}", no_waiting(None)),
        (None, _) => no_waiting(None).to_owned(),
    };
    [("input", told)].into_iter().chain(first_pass).collect()
}

/// Says of steps that find their samples there when that is so.
fn no_waiting(loading: Option<&Loading>) -> &'static str {
    match loading.and_then(|loading| loading.first_pass) {
        Some(_) => "steps after the first pass do not wait",
        None => "steps do not wait",
    }
}

/// Tells how long a slow first pass takes.
fn first_pass(document: &PlanDocument) -> Option<(&'static str, String)> {
    Some(("first pass", loading(document)?.first_pass_told()?))
}

/// Returns the input pipeline: how samples are loaded, how fast each stage of it is, and what limits the training.
pub(crate) fn input(document: &PlanDocument) -> Vec<(&'static str, String)> {
    let (plan, prediction) = (&document.plan, &document.prediction);
    let (Some(input), Some(predicted)) = (plan.input, &prediction.input) else { return Vec::new() };
    let workers = if input.workers == 1 { "1 worker".into() } else { format!("{} workers", input.workers) };
    let cache = if input.cache == Cache::None { String::new() } else { format!(", kept in {}", input.cache) };
    let way = format!(
        "{}{cache}, decoded by {} with {workers} a replica, {} ahead",
        input.storage.in_words(),
        input.decode,
        input.prefetch
    );
    let rates = [
        ("read", predicted.read_samples_per_s),
        ("decoded", predicted.decode_samples_per_s),
        ("copied", predicted.copy_samples_per_s),
        ("used", predicted.step_samples_per_s),
    ];
    let rates: Vec<String> = rates.into_iter().map(|(stage, samples)| format!("{stage} {}", rate(samples))).collect();
    let loading = loading(document);
    let waiting = if predicted.input_stall_s / prediction.step_time_s < WAITS {
        no_waiting(loading.as_ref()).to_owned()
    } else {
        format!("{} of each step waits for samples", seconds(predicted.input_stall_s))
    };
    let mut rows = vec![
        ("input", way),
        ("samples/s", rates.join(", ")),
        (
            "limited by",
            format!(
                "{}; {waiting}, accelerator utilisation {}",
                predicted.bottleneck,
                percent(predicted.accelerator_utilisation)
            ),
        ),
    ];
    rows.extend(first_pass(document));
    rows.extend(loading.and_then(|loading| loading.rented_storage()).map(|storage| ("storage", storage)));
    if predicted.download_s > 0.0 {
        rows.push((
            "before",
            format!("{} of downloading or listing before the first step", seconds(predicted.download_s)),
        ));
    }
    rows
}

fn throughput(prediction: &Prediction) -> String {
    let samples = format!("{} samples/s", rate(prediction.samples_per_s));
    let tokens = prediction.tokens_per_s.map(|tokens| format!("{} tokens/s", rate(tokens)));
    let mfu = prediction.mfu.map(|mfu| format!("MFU {}", percent(mfu)));
    [Some(samples), tokens, mfu].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Formats the memory of each stage against its limit; equal neighbouring stages share a line.
pub(crate) fn memory(prediction: &Prediction, width: Width) -> String {
    let memory = &prediction.memory_bytes;
    let loads = memory.stages.iter().any(|stage| stage.loading > 0);
    let mut rows: Vec<(usize, usize, Vec<String>)> = Vec::new();
    for (stage, held) in memory.stages.iter().enumerate() {
        let mut cells = vec![
            String::new(),
            bytes(held.weights_and_gradients()),
            bytes(held.optimizer_state),
            bytes(held.activations.saturating_add(held.buffers_and_workspace())),
        ];
        cells.extend(loads.then(|| bytes(held.loading)));
        cells.extend([bytes(held.software), bytes(held.total), percent(memory.share(held))]);
        match rows.last_mut() {
            Some((_, last, known)) if known[1..] == cells[1..] => *last = stage,
            _ => rows.push((stage, stage, cells)),
        }
    }
    let differ = memory.stages.iter().any(|stage| stage.limit.is_some());
    let limit = if differ { ">of its device".into() } else { format!(">of {}", bytes(memory.limit)) };
    let rows = rows.into_iter().map(|(first, last, mut cells)| {
        cells[0] = if first == last { first.to_string() } else { format!("{first} to {last}") };
        cells
    });
    let mut header = vec!["memory, stage", ">weights, gradients", ">optimizer", ">activations"];
    header.extend(loads.then_some(">weights being loaded"));
    header.extend([">software", ">total", &limit]);
    columns(width, &header, rows)
}

fn alternatives(document: &PlanDocument, width: Width) -> String {
    let optimum = optimum(document);
    let named = optimum.map(|(name, other)| {
        let [on, strategy, micro, time, cost, memory] = alternative(other, document);
        [format!("{on} ({name})"), strategy, micro, time, cost, memory]
    });
    let others = document.alternatives.iter().filter(|other| optimum.is_none_or(|(_, best)| best.plan != other.plan));
    let rows: Vec<[String; 6]> = named.into_iter().chain(others.map(|other| alternative(other, document))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let header = ["runners-up", "strategy", "micro, precision", ">in all", cost_title(document), ">memory"];
    format!("\n{}", table(width, header, rows))
}

/// The relative difference of time or cost from which the best plan by what is sought is told beside the recommended one.
const BETTER: f64 = 5e-4;

/// Returns the best plan by what is sought, with that in a word, where another one is recommended and it shows.
pub fn optimum(document: &PlanDocument) -> Option<(&'static str, &Alternative)> {
    let (other, own) = (document.optimum.as_ref()?, &document.prediction);
    let costs = own.cost_usd.zip(other.cost_usd).filter(|_| document.job.goal.objective != Some(Objective::Time));
    let (name, ratio) = match costs {
        Some((own, other)) => ("cheapest", own / other),
        None => ("fastest", own.elapsed_s() / other.time_s),
    };
    (ratio > 1.0 + BETTER).then_some((name, other))
}

/// Formats another plan as a row of a table: machines, strategy, micro-batch and formats, time, what [`cost_title`] names,
/// memory.
pub(crate) fn alternative(other: &Alternative, document: &PlanDocument) -> [String; 6] {
    let without_price = || gpu_hours(other, document).map_or_else(|| "–".into(), hours);
    [
        cluster(&other.plan),
        strategy_and_state(&other.plan),
        format!("{}, {}{}", other.plan.batch.micro, other.plan.precision, recomputed(&other.plan)),
        seconds(other.time_s),
        other.cost_usd.map_or_else(without_price, usd),
        bytes(other.memory_peak_bytes),
    ]
}

/// Says what is certain of a plan whose search was not cut short.
pub(crate) fn proof(document: &PlanDocument) -> &'static str {
    match document.optimum {
        Some(_) => "the best of them is proved, and the recommended one is preferred to it",
        None => "no other of them is better, or it does not fit",
    }
}

fn search(document: &PlanDocument, width: Width) -> String {
    let search = &document.search;
    let proof = if search.gap > 0.0 {
        format!("stopped early: another could be {} better", percent(search.gap))
    } else {
        proof(document).into()
    };
    let mut items = vec![format!(
        "{} considered, {} simulated; {proof}",
        counted(search.candidates, "plan"),
        human_count(search.simulated)
    )];
    items.extend(search.left_out.as_ref().map(|left_out| not_considered(left_out, document)));
    items.extend(rejected(document));
    bullets(width, "Search", &items)
}

/// Tells which families were not searched, and how what would be recommended of them compares.
fn not_considered(left_out: &LeftOut, document: &PlanDocument) -> String {
    let families: Vec<String> = left_out.families.iter().map(|family| family.to_uppercase()).collect();
    let families = families.join(", ");
    let own = &document.prediction;
    let found = left_out.best.as_ref().zip(own.cost_usd).map(|(best, cost)| {
        let (money, time) = (price(best.cost_usd, cost), pace(best.time_s, own.elapsed_s()));
        let (on, instances) = (&best.instance, best.instances);
        let (takes, costs) = (seconds(best.time_s), usd(best.cost_usd));
        let found = if best.cost_usd < cost || best.time_s < own.elapsed_s() {
            "a short search recommends"
        } else {
            "a short search finds nothing better there, at best"
        };
        let chance = best.within_deadline.filter(|chance| *chance < LIKELY).map(likelihood);
        let late = chance.map_or_else(String::new, |chance| format!(", {chance} likely to end in time"));
        format!("; {found} {instances} × {on}: {takes}, {costs}, {money} and {time}{late}")
    });
    format!("not considered: {families}: add --instances '*'{}", found.unwrap_or_default())
}
