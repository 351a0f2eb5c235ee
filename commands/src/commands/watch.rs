//! What a run tells: of its data, of each step, and of what went wrong in it.

use super::execution::Execution;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use indicatif::ProgressBar;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use trainyard_data::{DataReport, SampleKind};
use trainyard_executor::{Evaluation, HeldOutReport, ResumedFrom, RunEvent, RunReport, StepReport};
use trainyard_plan::Plan;
use trainyard_plan::document::PlanDocument;
use trainyard_units::{Bytes, Seconds, counted, human_bytes, human_count, human_duration};

/// The name of a run's log of steps, in its folder.
pub(super) const METRICS: &str = "metrics.jsonl";
/// Number of lines that a short run prints where no progress bar can be drawn.
const LINES: u64 = 10;
/// Seconds of steps after which another line is printed.
const QUIET_S: f64 = 30.0;

/// The observers of each step: the progress bar and the metrics log.
pub(super) struct Watch<'a> {
    pub(super) bar: ProgressBar,
    metrics: Mutex<std::fs::File>,
    output: &'a Output,
    /// `true` if nobody has told yet what the data is.
    tells_data: bool,
    /// The classes of the model, if it has some.
    classes: Option<u64>,
    batch: f64,
    document: &'a PlanDocument,
    steps: u64,
    /// Seconds of a step as they are predicted for this machine.
    predicted_s: Option<f64>,
    /// Samples that the training had read before this run.
    before: AtomicU64,
    first: Mutex<Option<FirstStep>>,
    lines: Mutex<Lines>,
}

/// The steps of a run as its lines tell of them.
#[derive(Default)]
struct Lines {
    steps: u64,
    spent_s: f64,
    /// Steps and seconds up to the last line.
    told: (u64, f64),
}

/// What a line says of the steps since the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Since {
    /// Mean seconds of a step.
    step_s: f64,
    /// Seconds that are left of the run, if a line is due: for the first step and the last one, some between, and one after
    /// each half minute.
    left_s: Option<f64>,
}

impl Lines {
    /// Counts a step.
    fn after(&mut self, step: &StepReport, steps: u64) -> Since {
        self.steps += 1;
        self.spent_s += step.seconds;
        let (told, told_s) = self.told;
        let step_s = (self.spent_s - told_s) / (self.steps - told) as f64;
        let ends = [1, steps].contains(&step.step) || step.step.is_multiple_of(steps.div_ceil(LINES));
        if !ends && self.spent_s - told_s < QUIET_S {
            return Since { step_s, left_s: None };
        }
        self.told = (self.steps, self.spent_s);
        let left_s = steps.saturating_sub(step.step) as f64 * self.spent_s / self.steps as f64;
        Since { step_s, left_s: Some(left_s) }
    }
}

/// Tells once that the first step is still under way, unless it ends before.
struct FirstStep {
    /// Dropped when it has ended.
    _ended: Sender<()>,
}

impl FirstStep {
    fn begin(after: Duration, tell: impl FnOnce() + Send + 'static) -> Option<Self> {
        let (ended, hears) = channel();
        let waits = move || {
            if hears.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
                tell();
            }
        };
        // Without a thread nothing is told.
        std::thread::Builder::new().spawn(waits).ok().map(|_| Self { _ended: ended })
    }
}

impl<'a> Watch<'a> {
    /// Watches a run, whose log goes into its folder.
    pub(super) fn new(execution: &Execution<'a>, plan: &Plan, output: &'a Output) -> Result<Self, Failure> {
        let Execution { steps, ref folder, tells_data, document, .. } = *execution;
        Ok(Self {
            bar: output.bar(steps, "training {bar:30} {pos}/{len}  {msg}  {eta} left"),
            metrics: Mutex::new(files::create(&folder.join(METRICS))?),
            output,
            tells_data,
            classes: SampleKind::of(plan.model()).and_then(|kind| kind.classes()),
            batch: plan.batch().global as f64,
            document,
            steps,
            predicted_s: execution.predicted.map(|_| document.prediction.step_time_s),
            before: AtomicU64::new(0),
            first: Mutex::default(),
            lines: Mutex::default(),
        })
    }

    /// Removes the files that were created for a run that never made a step.
    pub(super) fn discard(&self, folder: &Path) {
        self.bar.finish_and_clear();
        if self.metrics.lock().is_ok_and(|file| file.metadata().is_ok_and(|file| file.len() == 0)) {
            files::discard(folder, METRICS);
        }
    }

    pub(super) fn event(&self, event: RunEvent) {
        match event {
            RunEvent::Begun { data, resumed } => self.begun(&data, resumed.as_deref()),
            RunEvent::Step(step) => self.step(step),
            // The result tells of the last one.
            RunEvent::HeldOut(found) if found.step < self.steps => self.held_out(found),
            RunEvent::HeldOut(_) => {}
        }
    }

    /// Tells what the model is trained on, how often, and from where on.
    fn begun(&self, data: &DataReport, resumed: Option<&ResumedFrom>) {
        if self.tells_data {
            self.output.note(format!("data      {}", described(data)));
        }
        let (before, done) = resumed.map_or((0, 0), |from| (from.position, from.step));
        self.before.store(before, Ordering::Relaxed);
        let samples = before as f64 + self.steps.saturating_sub(done) as f64 * self.batch;
        let passes = samples / data.training_samples.max(1) as f64;
        let passes =
            if passes < 1.0 { format!("{:.1} % of a pass", passes * 100.0) } else { format!("{passes:.1} passes") };
        self.output.note(format!(
            "samples   {} to train on, {} held out; {} are {passes}",
            human_count(data.training_samples as u64),
            human_count(data.held_out_in_all.unwrap_or(data.held_out_samples) as u64),
            counted(self.steps, "step")
        ));
        if let (Some(wanted), found @ 1..) = (self.classes, data.classes.len() as u64)
            && wanted > found
        {
            let path = &data.path;
            self.output.warn(format!(
                "{path} has samples of {found} of the model's {wanted} classes; it never sees the others"
            ));
        }
        if let Some(from) = resumed {
            let [step, steps] = [from.step, self.steps].map(human_count);
            self.output.note(format!("resume    {}, written after step {step} of {steps}", from.checkpoint.display()));
            if let Some(changes) = changes(&from.plan, self.document) {
                self.output.note(format!("changed   {changes}, from here on"));
            }
        }
        self.wait_for_the_first_step();
    }

    fn wait_for_the_first_step(&self) {
        let predicted = self.predicted_s.map_or_else(String::new, |seconds| {
            format!("; a step is predicted to take {}", human_duration(Seconds(seconds)))
        });
        let output = self.output.clone();
        let tell = move || output.note(format!("  the first step has not ended yet{predicted}"));
        if let Ok(mut first) = self.first.lock() {
            *first = FirstStep::begin(Duration::from_secs_f64(QUIET_S), tell);
        }
    }

    /// Returns how often the training has passed over its data by the end of a run.
    pub(super) fn passes(&self, report: &RunReport) -> f64 {
        let own = report.steps.len() as f64 * self.batch;
        (self.before.load(Ordering::Relaxed) as f64 + own) / report.data.training_samples.max(1) as f64
    }

    fn log(&self, line: &str) {
        // A log that cannot be written must not end a training.
        let _ = self.metrics.lock().map(|mut file| writeln!(file, "{line}"));
    }

    fn held_out(&self, found: HeldOutReport) {
        self.log(&serde_json::json!({ "held_out": found }).to_string());
        let accuracy = found.accuracy.map_or_else(String::new, |share| format!("  accuracy {:.1} %", share * 100.0));
        self.output.note(format!("  step {:>5} held-out loss {:.3}{accuracy}", found.step, found.loss));
    }

    fn step(&self, step: StepReport) {
        self.log(&serde_json::to_string(&step).expect("a step holds only what JSON can hold"));
        if step.skipped {
            let why = match step.loss_scale {
                Some(scale) if step.loss.is_finite() => {
                    format!("scaled by {scale}, a gradient overflows fp16; the scale is lowered")
                }
                _ => format!("a gradient is NaN or infinite, the loss is {}", step.loss),
            };
            self.output.note(format!("  step {:>5} skipped: {why}", step.step));
        }
        if let Ok(mut first) = self.first.lock() {
            first.take();
        }
        let Ok(Since { step_s, left_s }) = self.lines.lock().map(|mut lines| lines.after(&step, self.steps)) else {
            return;
        };
        let said = speed(&step, step_s, self.batch);
        if let Some(left) = left_s.filter(|_| !self.output.live()) {
            let left = if left > QUIET_S { format!("  {} left", human_duration(Seconds(left))) } else { String::new() };
            self.output.note(format!("  step {:>5} of {}  {said}{left}", step.step, self.steps));
        }
        self.bar.set_position(step.step);
        self.bar.set_message(said);
    }
}

/// Tells the loss of a step, and how fast steps are that take so many seconds: `loss 2.809  222.6 samples/s  28,493 tokens/s  lr
/// 1.00e-3`.
fn speed(step: &StepReport, step_s: f64, batch: f64) -> String {
    let tokens = step.tokens_per_s.map_or_else(String::new, |own| {
        let rate = own * step.seconds / step_s;
        format!("  {} tokens/s", human_count(rate.round() as u64))
    });
    let rate = step.learning_rate.map_or_else(String::new, |rate| format!("  lr {rate:.2e}"));
    format!("loss {:.3}  {:.1} samples/s{tokens}{rate}", step.loss, batch / step_s)
}

/// Tells in what a training goes on otherwise than it did up to a checkpoint, whose plan is `before`: batch, optimizer's numbers
/// and schedule. Nothing where the checkpoint's plan is of another version.
fn changes(before: &serde_json::Value, now: &PlanDocument) -> Option<String> {
    let now = serde_json::to_value(now).ok()?;
    let of = |document: &serde_json::Value| {
        let mut fields = document["job"]["training"].as_object().cloned().unwrap_or_default();
        // What is planned of them, and not what may be.
        for field in ["epochs", "target", "precision", "steps"] {
            fields.remove(field);
        }
        fields.insert("global_batch".into(), document["plan"]["batch"]["global"].clone());
        if fields.get("decay").is_some_and(|decay| decay != "constant") {
            fields.insert("steps".into(), document["prediction"]["steps"].clone());
        }
        fields
    };
    let (before, now) = (of(before), of(&now));
    let names: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let shown = |fields: &serde_json::Map<String, serde_json::Value>, name: &str| match fields.get(name) {
        None | Some(serde_json::Value::Null) => "default".to_owned(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let changed = names.into_iter().map(|name| (name, shown(&before, name), shown(&now, name)));
    let changed: Vec<String> = changed
        .filter(|(_, before, now)| before != now)
        .map(|(name, before, now)| format!("{name} {before} → {now}"))
        .collect();
    (!changed.is_empty()).then(|| changed.join(", "))
}

/// Tells what data is, and how much of it there is.
pub(super) fn described(data: &DataReport) -> String {
    if data.files == 0 {
        return format!("{} of {}", counted(data.training_samples as u64, "sample"), data.kind);
    }
    let held_out = data.held_out.as_ref().map_or_else(String::new, |path| format!(", evaluated on {path}"));
    let read_as = if data.kind == "text" && data.tokenizer.is_none() { " as bytes" } else { "" };
    let skipped = if data.skipped_files == 0 { String::new() } else { format!(" ({} skipped)", data.skipped_files) };
    format!(
        "{}{read_as}, {} in {}{skipped}, {}",
        data.kind,
        human_bytes(Bytes(data.bytes)),
        counted(data.files as u64, "file"),
        data.path
    ) + &held_out
}

/// Warns of what happened in a run that ended well.
pub(super) fn warn_of(report: &RunReport, asked: Option<Evaluation>, output: &Output) {
    let held_out = report.data.held_out_samples as u64;
    if let Some(Evaluation { samples, .. }) = asked.filter(|asked| asked.samples > held_out) {
        output.warn(format!(
            "the model was evaluated on {}, all that are held out; `campaign.evaluation` says {}",
            counted(held_out, "sample"),
            human_count(samples)
        ));
    }
    for slow in &report.slow_ranks {
        let longer = (slow.compute_s / slow.median_s - 1.0) * 100.0;
        output.warn(format!(
            "rank {} computes {longer:.0} % longer than the median of stage {}: {} of a step",
            slow.rank,
            slow.stage,
            human_duration(Seconds(slow.compute_s))
        ));
    }
    if let [first, ..] = report.other_heads.as_slice() {
        let count = counted(report.other_heads.len() as u64, "tensor");
        let more = if report.other_heads.len() > 1 { ", …" } else { "" };
        output
            .warn(format!("the training goes without {count} of the weights, of other tasks' heads: `{first}`{more}"));
    }
    if report.data.corrupt_samples > 0 {
        let (count, files) = (counted(report.data.corrupt_samples as u64, "sample"), &report.data.path);
        output.warn(format!("{count} of {files} could not be decoded, and others were trained on in their place"));
    }
    if report.skipped_steps > 0 {
        let were = if report.skipped_steps == 1 { "was" } else { "were" };
        let steps = counted(report.skipped_steps, "step");
        output.warn(format!("{steps} {were} skipped, because a gradient was NaN or infinite"));
    }
}

/// Warns of a training that diverged, and of one that learnt its samples by heart.
pub(super) fn warn_of_learning(report: &RunReport, passes: f64, output: &Output) {
    let loss = report.loss;
    if loss.last > DIVERGED * loss.first || loss.last.is_nan() {
        output.warn(format!(
            "the loss ended at {:.3}, far above the {:.3} that it began with: the training diverged; {STEADIER}",
            loss.last, loss.first
        ));
    } else if let Some(held_out) =
        loss.held_out.filter(|held_out| passes >= MANY_PASSES && *held_out > MEMORISED * loss.last)
    {
        output.warn(format!(
            "the held-out loss is {held_out:.3}, that of the last step {:.3}: after {passes:.0} passes over the data the model knows \
             its samples by heart; more data, fewer steps or `dropout` help",
            loss.last
        ));
    }
}

/// What keeps a training from diverging, by the keys of a job.
const STEADIER: &str =
    "a lower `learning_rate`, more `warm_up_steps` or gradients clipped at a `clip_norm` may keep it from that";

/// A loss that ends at this many times its first value did not just vary from step to step.
const DIVERGED: f64 = 2.0;

/// Passes over the data from which a much lower loss of trained samples tells that they are known by heart.
const MANY_PASSES: f64 = 5.0;
const MEMORISED: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_advised_are_keys_of_a_job() {
        let schema = serde_json::to_value(schemars::schema_for!(trainyard_plan::TrainingSpec)).expect("a schema");
        let names: Vec<&str> = STEADIER.split('`').skip(1).step_by(2).collect();
        assert_eq!(names.len(), 3);
        for name in names {
            assert!(schema["properties"].get(name).is_some(), "`{name}` is no key of [training]");
        }
    }

    #[test]
    fn long_steps_are_told_of_each_half_minute() {
        let told = |seconds: f64, steps: u64| {
            let mut lines = Lines::default();
            let step = |step| StepReport { step, seconds, ..StepReport::default() };
            let is_told = |number: &u64| lines.after(&step(*number), steps).left_s.is_some();
            (1..=steps).filter(is_told).collect::<Vec<u64>>()
        };
        assert_eq!(told(0.1, 40), [1, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40]);
        assert_eq!(told(16.0, 100)[..6], [1, 3, 5, 7, 9, 10]);
        let mut lines = Lines::default();
        let first = StepReport { step: 1, seconds: 2.0, ..StepReport::default() };
        assert_eq!(lines.after(&first, 11), Since { step_s: 2.0, left_s: Some(20.0) });
    }

    #[test]
    fn a_line_tells_the_mean_of_the_steps_since_the_one_before() {
        let mut lines = Lines::default();
        let mut after = |step, seconds| lines.after(&StepReport { step, seconds, ..StepReport::default() }, 40).step_s;
        // A line each four steps.
        let told = [(1, 9.0), (2, 1.0), (3, 1.0), (4, 4.0), (5, 1.0)].map(|(step, seconds)| after(step, seconds));
        assert_eq!(told.map(f64::to_bits), [9.0_f64, 1.0, 1.0, 2.0, 1.0].map(f64::to_bits));
    }

    #[test]
    fn a_line_fits_into_a_page() {
        let step = StepReport {
            step: 99_999,
            loss: 12.345,
            seconds: 2.0,
            tokens_per_s: Some(8192.0),
            learning_rate: Some(3e-4),
            ..StepReport::default()
        };
        let said = speed(&step, 1.0, 16.0);
        assert_eq!(said, "loss 12.345  16.0 samples/s  16,384 tokens/s  lr 3.00e-4");
        assert!(format!("  step 99999 of 100000  {said}  12.3 minutes left").chars().count() < 100);
        assert_eq!(speed(&StepReport { loss: 2.0, ..StepReport::default() }, 0.5, 4.0), "loss 2.000  8.0 samples/s");
    }

    #[test]
    fn a_long_first_step_is_told_of_once() {
        let told = |after: Duration, steps: Duration| {
            let (tell, hear) = channel();
            let first = FirstStep::begin(after, move || tell.send(()).expect("somebody hears"));
            let told = hear.recv_timeout(steps).is_ok();
            drop(first);
            told
        };
        assert!(told(Duration::ZERO, Duration::from_secs(20)));
        assert!(!told(Duration::from_secs(100), Duration::from_millis(5)));
    }

    #[test]
    fn what_a_resumed_training_does_otherwise_is_told() {
        let text = include_str!("../../../cli/tests/cmd/explain.in/one.json");
        let now: PlanDocument = serde_json::from_str(text).expect("a plan");
        let before = serde_json::to_value(&now).expect("a document");
        assert_eq!(changes(&before, &now), None);
        let mut other = before.clone();
        other["plan"]["batch"]["global"] = 4.into();
        other["job"]["training"]["learning_rate"] = 0.5.into();
        let told = changes(&other, &now).expect("they differ");
        assert!(told.contains("global_batch 4 → ") && told.contains("learning_rate 0.5 → "), "{told}");
    }
}
