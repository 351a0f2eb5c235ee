//! What a run tells: of its data, of each step, and of what went wrong in it.

use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use indicatif::ProgressBar;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use trainyard_data::{DataReport, SampleKind};
use trainyard_executor::{Evaluation, HeldOutReport, RunEvent, RunReport, StepReport};
use trainyard_plan::Plan;
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
    steps: u64,
    lines: Mutex<Lines>,
}

/// The lines that a run prints: when the last one was.
#[derive(Default)]
struct Lines {
    steps: u64,
    spent_s: f64,
    last_s: f64,
}

impl Lines {
    /// Counts a step. Returns the seconds that are left if it is told of: the first and the last one, some between, and one
    /// after each half minute.
    fn after(&mut self, step: &StepReport, steps: u64) -> Option<f64> {
        self.steps += 1;
        self.spent_s += step.seconds;
        let ends = [1, steps].contains(&step.step) || step.step.is_multiple_of(steps.div_ceil(LINES));
        if !ends && self.spent_s - self.last_s < QUIET_S {
            return None;
        }
        self.last_s = self.spent_s;
        Some(steps.saturating_sub(step.step) as f64 * self.spent_s / self.steps as f64)
    }
}

impl<'a> Watch<'a> {
    /// Watches a run of a number of steps, whose log goes into a folder.
    pub(super) fn new(
        steps: u64,
        folder: &Path,
        tells_data: bool,
        plan: &Plan,
        output: &'a Output,
    ) -> Result<Self, Failure> {
        Ok(Self {
            bar: output.bar(steps, "training {bar:30} {pos}/{len}  {msg}  {eta} left"),
            metrics: Mutex::new(files::create(&folder.join(METRICS))?),
            output,
            tells_data,
            classes: SampleKind::of(plan.model()).and_then(|kind| kind.classes()),
            batch: plan.batch().global as f64,
            steps,
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
            RunEvent::Begun { data, resumed } => self.begun(&data, resumed),
            RunEvent::Step(step) => self.step(step),
            // The result tells of the last one.
            RunEvent::HeldOut(found) if found.step < self.steps => self.held_out(found),
            RunEvent::HeldOut(_) => {}
        }
    }

    /// Tells what the model is trained on, how often, and from where on.
    fn begun(&self, data: &DataReport, resumed: Option<(PathBuf, u64)>) {
        if self.tells_data {
            self.output.note(format!("data      {}", described(data)));
        }
        let passes = (self.steps as f64 * self.batch) / data.training_samples.max(1) as f64;
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
        if let Some((checkpoint, step)) = resumed {
            let [step, steps] = [step, self.steps].map(human_count);
            self.output.note(format!("resume    {}, written after step {step} of {steps}", checkpoint.display()));
        }
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
        let said = format!("loss {:.3}  {:.1} samples/s", step.loss, self.batch / step.seconds);
        if let Some(left) = self.lines.lock().ok().and_then(|mut lines| lines.after(&step, self.steps)) {
            let left = if left > QUIET_S { format!("  {} left", human_duration(Seconds(left))) } else { String::new() };
            if !self.output.live() {
                self.output.note(format!("  step {:>5} of {}  {said}{left}", step.step, self.steps));
            }
        }
        self.bar.set_position(step.step);
        self.bar.set_message(said);
    }
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
pub(super) fn warn_of_learning(report: &RunReport, batch: u64, output: &Output) {
    let (loss, passes) = (report.loss, passes(report, batch));
    if loss.last > DIVERGED * loss.first || loss.last.is_nan() {
        output.warn(format!(
            "the loss ended at {:.3}, far above the {:.3} that it began with: the training diverged; a lower `learning_rate`, \
             `warm_up_steps` or `gradient_clip` may keep it from that",
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

/// A loss that ends at this many times its first value did not just vary from step to step.
const DIVERGED: f64 = 2.0;

/// Passes over the data from which a much lower loss of trained samples tells that they are known by heart.
const MANY_PASSES: f64 = 5.0;
const MEMORISED: f64 = 1.5;

/// Returns how often a training has passed over its data.
fn passes(report: &RunReport, batch: u64) -> f64 {
    let steps = report.resumed_from + report.steps.len() as u64;
    (steps * batch) as f64 / report.data.training_samples.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_steps_are_told_of_each_half_minute() {
        let told = |seconds: f64, steps: u64| {
            let mut lines = Lines::default();
            let step = |step| StepReport { step, seconds, ..StepReport::default() };
            (1..=steps).filter(|number| lines.after(&step(*number), steps).is_some()).collect::<Vec<u64>>()
        };
        assert_eq!(told(0.1, 40), [1, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40]);
        assert_eq!(told(16.0, 100)[..6], [1, 3, 5, 7, 9, 10]);
        let mut lines = Lines::default();
        let first = StepReport { step: 1, seconds: 2.0, ..StepReport::default() };
        assert_eq!(lines.after(&first, 11), Some(20.0));
    }
}
