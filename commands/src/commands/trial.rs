//! Plans that predictions cannot tell apart are tried, before a training that is long enough to make up for it.

use super::execution::stop_on_interrupt;
use crate::failure::{Exit, Failure};
use crate::job::{self, Job};
use crate::output::Output;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use trainyard_data::DataSource;
use trainyard_executor::{Evaluation, HyperParameters, RunEvent, RunOptions, refusal, run};
use trainyard_hardware_profiles::DeviceKind;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Field, Fixed, LearningRate, Plan};
use trainyard_planner::{Limits, Problem};
use trainyard_reports::degrees;
use trainyard_units::{Seconds, human_duration};

/// Steps of a trial. The first allocates and is not timed.
const STEPS: u32 = 4;

/// The ratio of predicted steps up to which a way to divide the work is tried: single plans were predicted 18 % off at
/// worst, 3.5 % in the median (docs/accuracy.md), and what two have in common cancels.
const NEAR: f64 = 1.15;

/// The ratio of measured steps from which another plan is taken; a stated default, about what steps of one plan vary by.
const CLEAR: f64 = 1.03;

/// The part of a training that the steps of trials may take.
const SHARE: f64 = 0.05;

/// The numbers of replicas, tensor ranks and stages of each way to divide the work: whole, or among one of the three
/// alone.
const WAYS: [[Option<u32>; 3]; 4] =
    [[Some(1), Some(1), Some(1)], [None, Some(1), Some(1)], [Some(1), None, Some(1)], [Some(1), Some(1), None]];

/// What a trial runs on.
pub(super) struct Trial<'a> {
    pub(super) problem: &'a Problem,
    pub(super) job: &'a Job,
    pub(super) limits: &'a Limits,
    pub(super) data: &'a DataSource,
    pub(super) seed: u64,
    pub(super) device: DeviceKind,
    pub(super) weights: Option<PathBuf>,
}

impl Trial<'_> {
    /// Returns the plan that is fastest in a trial: `best`, or another one that is predicted to be nearly as fast and
    /// was faster. `best` where the training is too short for a trial, or none is near it.
    ///
    /// # Errors
    ///
    /// When the user stops it.
    pub(super) fn fastest(&self, best: PlanDocument, output: &Output) -> Result<PlanDocument, Failure> {
        // A plan that misses the user's goal is not run.
        let candidates = if best.missed.is_some() { vec![best] } else { self.candidates(best) };
        if let [best] = candidates.as_slice() {
            return Ok(best.clone());
        }
        let stop = stop_on_interrupt();
        let mut measured: Vec<(PlanDocument, f64)> = Vec::new();
        for document in candidates {
            let step = self.step(&document, stop);
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::new(
                    Exit::Stopped,
                    "the trial of plans was interrupted before the training began",
                ));
            }
            // A plan that cannot be tried is left to the run itself, if it is the best.
            measured.push((document, step.unwrap_or(f64::INFINITY)));
        }
        let steps: Vec<f64> = measured.iter().map(|(_, step)| *step).collect();
        let chosen = choice(&steps);
        output.note(told(&measured, chosen));
        if let Some(warning) = all_slow(&measured) {
            output.warn(warning);
        }
        Ok(measured.swap_remove(chosen).0)
    }

    /// Returns the best plan and, as far as trying them is a small part of the training, those near it.
    fn candidates(&self, best: PlanDocument) -> Vec<PlanDocument> {
        let trial = |own: &PlanDocument| f64::from(STEPS) * own.prediction.step_time_s;
        let mut left = SHARE * best.prediction.time_s - trial(&best);
        let others = if left < trial(&best) { Vec::new() } else { self.others(&best) };
        let affordable = others.into_iter().take_while(|own| {
            left -= trial(own);
            left >= 0.0
        });
        std::iter::once(best).chain(affordable).collect()
    }

    /// Returns the best plans of other ways to divide the work that are near the best. None where the user holds how it is
    /// divided.
    fn others(&self, best: &PlanDocument) -> Vec<PlanDocument> {
        let parallel = |(field, _, _): &(Field, String, Fixed)| field.name().starts_with("parallel.");
        if self.limits.fixed.each().iter().any(parallel) {
            return Vec::new();
        }
        let mut found: Vec<PlanDocument> = Vec::new();
        for [data, tensor, pipeline] in WAYS {
            // Steps of other batches are other work.
            let global = Some(best.plan.batch.global);
            let fixed = Fixed { data, tensor, pipeline, global, ..self.limits.fixed.clone() };
            let limits = Limits { fixed, ..self.limits.clone() };
            let Ok(document) = job::solve(self.problem, &limits, self.job) else { continue };
            let near = document.prediction.step_time_s < NEAR * best.prediction.step_time_s;
            let known = std::iter::once(best).chain(&found).any(|other| other.plan.parallel == document.plan.parallel);
            if near && !known && document.missed.is_none() {
                found.push(document);
            }
        }
        found
    }

    /// Returns the seconds of a step, the least of a few; `None` if it does not run.
    fn step(&self, document: &PlanDocument, stop: &AtomicBool) -> Option<f64> {
        let plan = Plan::try_from(document.plan.clone()).ok().filter(|plan| refusal(plan).is_none())?;
        let training = &document.job.training;
        let options = RunOptions {
            data: self.data.clone(),
            steps: STEPS.into(),
            learning_rate: LearningRate::of(training, document.prediction.steps),
            hyper_parameters: HyperParameters::with(plan.optimizer(), training),
            clip_norm: training.clips_at(),
            skips_max: STEPS,
            seed: self.seed,
            checkpoint: None,
            checkpoint_every: None,
            keep: 1,
            evaluation: Some(Evaluation { every: u64::from(STEPS), samples: 0 }),
            resume: false,
            device: self.device,
            threads: None,
            weights: self.weights.clone(),
            allocations: None,
            plan_document: serde_json::Value::Null,
        };
        let seconds = Mutex::new(Vec::new());
        let observer = |event: RunEvent| {
            let RunEvent::Step(step) = event else { return };
            seconds.lock().expect("nobody panics with it").push(step.seconds);
        };
        run(&plan, &options, &observer, stop).ok()?;
        let seconds = seconds.into_inner().expect("nobody panicked with it");
        seconds.into_iter().skip(1).min_by(f64::total_cmp)
    }
}

/// Returns the index of the plan to take: the first unless another is clearly faster.
fn choice(steps: &[f64]) -> usize {
    let fastest = (0..steps.len()).min_by(|a, b| steps[*a].total_cmp(&steps[*b])).unwrap_or(0);
    if steps[0] > CLEAR * steps[fastest] { fastest } else { 0 }
}

/// Warns where every try took longer than its prediction's interval: then the machine is not as it was measured.
fn all_slow(measured: &[(PlanDocument, f64)]) -> Option<String> {
    let ran = || measured.iter().filter(|(_, step)| step.is_finite());
    let slow = |(document, step): &(PlanDocument, f64)| *step > document.prediction.interval_s[1];
    if ran().count() == 0 || !ran().all(slow) {
        return None;
    }
    let times = ran().map(|(document, step)| step / document.prediction.step_time_s);
    let [least, most] = [times.clone().fold(f64::INFINITY, f64::min), times.fold(0.0, f64::max)];
    Some(format!(
        "these steps took {least:.1} to {most:.1} times as long as predicted: the machine does something else besides, or the \
         profile is out of date, and the training will take as much longer; --recalibrate measures again"
    ))
}

/// Formats what was tried, and what became of it.
fn told(measured: &[(PlanDocument, f64)], chosen: usize) -> String {
    let time = |seconds: f64| human_duration(Seconds(seconds));
    let each = measured.iter().map(|(document, step)| {
        let took = if step.is_finite() { time(*step) } else { "did not run".into() };
        format!("{} {took} (predicted {})", degrees(document.plan.parallel), time(document.prediction.step_time_s))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    let taken = match chosen {
        0 => "none is clearly faster than the first".into(),
        _ => format!("{} is run", degrees(measured[chosen].0.plan.parallel)),
    };
    format!("try       {each}; {taken}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_plan_is_taken_if_it_is_clearly_faster() {
        assert_eq!(choice(&[1.0]), 0);
        assert_eq!(choice(&[1.0, 0.98, 1.2]), 0);
        assert_eq!(choice(&[1.0, 0.98, 0.9]), 2);
        assert_eq!(choice(&[f64::INFINITY, 2.0]), 1);
        assert_eq!(choice(&[1.0, f64::INFINITY]), 0);
    }
}
