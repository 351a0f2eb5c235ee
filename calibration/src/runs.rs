//! Runs on a measured machine, made into corrections of its profile.
//!
//! A profile holds operators that were timed apart. In a step they run one after another on data that others left in
//! the caches, with an allocator and a scheduler around them. What that makes of forward, backward, update and
//! communication is one factor for each, which whole runs teach. Section 8.1 of docs/physics.md has the formulas.

use crate::fit::{ConstantChange, Errors, REFIT_SCHEMA, RefitDocument, StackErrors, SuiteErrors};
use crate::profile::CORRECTION_RANGE;
use std::sync::Arc;
use trainyard_hardware_profiles::{Cluster, CorrectedPhase, Correction, MeasuredMachine, Stack};
use trainyard_plan::Plan;
use trainyard_plan::document::Phases;
use trainyard_sim::{Machine, simulate, step_time};
use trainyard_units::Invalid;

/// The difference of a phase of a run from that of the same run on another day, as one standard deviation.
const REPEAT: f64 = 0.05;

/// The difference of phases of a step from the sums of their operators before any run was seen, as one standard
/// deviation: half of the 23 % that hold nine in ten of the runs of section 9.
const BEFORE: f64 = 0.14;

/// A phase that takes less than this part of a step says nothing.
const SHARE_MIN: f64 = 0.01;

/// The times of a run.
#[derive(Clone, Debug)]
pub struct RunMeasurement {
    /// Where it was read.
    pub file: String,
    /// The processor that it ran on.
    pub processor: String,
    pub threads: u32,
    /// The plan that ran.
    pub plan: Plan,
    /// Median seconds of a step.
    pub step_time_s: f64,
    /// Where they went on the rank that computes longest.
    pub phases: Phases,
}

/// A profile that runs corrected, and what that came to.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrectedProfile {
    /// The profile, if its corrections changed.
    pub profile: Option<MeasuredMachine>,
    /// The changes, and the errors of the predicted runs before and after; each run is a suite.
    pub document: RefitDocument,
}

/// Returns the profile corrected by `runs`, under the software of `stack`.
///
/// The earlier corrections of the profile are what is known before the runs. With several runs, each is predicted by
/// what the others teach; unless that is better than what was known before, nothing changes.
///
/// # Errors
///
/// When there is no run, or one was on another machine, holds a time that makes no sense, or cannot be simulated.
pub fn correct_profile(
    profile: &MeasuredMachine,
    stack: &Stack,
    runs: &[RunMeasurement],
    from: &str,
    date: &str,
) -> Result<CorrectedProfile, Invalid> {
    if runs.is_empty() {
        let hint = "name a measurement.json, the folder of a run, or a folder of such folders";
        return Err(Invalid::inside(from, "there is no run").with_hint(hint));
    }
    runs.iter().try_for_each(|run| check(run, profile))?;
    let fit = Fit { profile, stack, from, date };
    let seen: Vec<Seen> = runs.iter().map(|run| fit.see(run)).collect::<Result<_, _>>()?;
    let all: Vec<&Seen> = seen.iter().collect();
    let corrected = fit.corrected(&all);
    let mut errors = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let others: Vec<&Seen> = all.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, seen)| *seen).collect();
        let left_out = fit.corrected(&others);
        let off = |machine: &MeasuredMachine| fit.error(run, machine);
        let left_out = off(&left_out)?;
        errors.push(Errors { before: off(profile)?, after: off(&corrected)?, left_out, unseen: left_out });
    }
    let total = mean(&errors);
    let better = corrected != *profile && (runs.len() == 1 || total.left_out < total.before);
    let document = fit.document(runs, &errors, total, better.then_some(&corrected));
    Ok(CorrectedProfile { profile: better.then_some(corrected), document })
}

fn check(run: &RunMeasurement, profile: &MeasuredMachine) -> Result<(), Invalid> {
    let other = |field, found: String, wanted: String| {
        let problem = format!("`device.{field}` is {found}, but the profile `{}` is of {wanted}", profile.name);
        let hint = "correct the profile of that machine, or run the plan on this one";
        Err(Invalid::inside(&run.file, problem).with_hint(hint))
    };
    if run.processor != profile.processor {
        return other("processor", format!("`{}`", run.processor), format!("`{}`", profile.processor));
    }
    if run.threads != profile.devices {
        return other("cores", run.threads.to_string(), profile.devices.to_string());
    }
    for (field, value) in [
        ("step_time_s", run.step_time_s),
        ("phases.forward_s", run.phases.forward_s),
        ("phases.backward_s", run.phases.backward_s),
    ] {
        if !(value.is_finite() && value > 0.0) {
            let hint = "measurement files are written by `trainyard run`; run again";
            let problem = Invalid::value(field, value, "a number above 0");
            return Err(Invalid::inside(&run.file, problem).with_hint(hint));
        }
    }
    Ok(())
}

fn mean(errors: &[Errors]) -> Errors {
    let of = |error: fn(&Errors) -> f64| errors.iter().map(error).sum::<f64>() / errors.len() as f64;
    Errors {
        before: of(|errors| errors.before),
        after: of(|errors| errors.after),
        left_out: of(|errors| errors.left_out),
        unseen: of(|errors| errors.unseen),
    }
}

/// A run's evidence about a phase: the logarithm of measured over predicted, and its standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Said {
    logarithm: f64,
    deviation: f64,
}

/// A run's evidence about each phase, in the order of [`CorrectedPhase::ALL`]; nothing where the phase is too short.
type Seen = [Option<Said>; 4];

/// One fit.
struct Fit<'a> {
    profile: &'a MeasuredMachine,
    stack: &'a Stack,
    from: &'a str,
    date: &'a str,
}

impl Fit<'_> {
    fn machine(&self, profile: &MeasuredMachine) -> Machine {
        Machine { cluster: Cluster::of_measured(profile.clone()), stack: Arc::new(self.stack.clone()) }
    }

    /// A run beside what operators that were timed apart predict.
    fn see(&self, run: &RunMeasurement) -> Result<Seen, Invalid> {
        let apart = MeasuredMachine { corrections: Vec::new(), ..self.profile.clone() };
        let outcome = simulate(&run.plan, &self.machine(&apart))
            .map_err(|error| Invalid::inside(&run.file, &error).maybe_hint(error.hint()))?;
        let (predicted, measured, step) = (outcome.phases, run.phases, run.step_time_s);
        let said = |predicted: f64, measured: f64| {
            (predicted > SHARE_MIN * step && measured > 0.0).then(|| {
                let (least, most) = (CORRECTION_RANGE.start().ln(), CORRECTION_RANGE.end().ln());
                // A phase is as uncertain as it is, and as the rest of the step that its edges may belong to.
                let deviation = REPEAT * (1.0 + SHARE_MIN * step / predicted);
                Said { logarithm: (measured / predicted).ln().clamp(least, most), deviation }
            })
        };
        let computed = measured.forward_s + measured.backward_s + measured.optimizer_s;
        // Waiting for a full pipeline grows with the passes.
        let passes = measured.forward_s + measured.backward_s;
        let waits = predicted.wait_s * passes / (predicted.forward_s + predicted.backward_s);
        let moved = (step - computed - waits).max(CORRECTION_RANGE.start() * predicted.communication_s);
        let communication = said(predicted.communication_s, moved).map(|said| {
            // It is what all others leave: off by what they are off by.
            let rest = REPEAT * step / predicted.communication_s;
            Said { deviation: said.deviation.hypot(rest), ..said }
        });
        Ok([
            said(predicted.forward_s, measured.forward_s),
            said(predicted.backward_s, measured.backward_s),
            said(predicted.optimizer_s, measured.optimizer_s),
            communication,
        ])
    }

    /// The profile with the corrections that these runs teach.
    fn corrected(&self, seen: &[&Seen]) -> MeasuredMachine {
        let corrections = CorrectedPhase::ALL
            .iter()
            .copied()
            .enumerate()
            .filter_map(|(index, phase)| {
                let said: Vec<Said> = seen.iter().filter_map(|run| run[index]).collect();
                let before = self.profile.corrections.iter().find(|correction| correction.phase == phase);
                if said.is_empty() { before.cloned() } else { Some(self.learnt(phase, before, &said)) }
            })
            .collect();
        MeasuredMachine { corrections, ..self.profile.clone() }
    }

    /// The mean of what was known and of what runs say, each weighted by the inverse of its variance. Runs that
    /// disagree by more than they are taken to be off by count for less.
    fn learnt(&self, phase: CorrectedPhase, before: Option<&Correction>, said: &[Said]) -> Correction {
        let (known, known_deviation) =
            before.map_or((0.0, BEFORE), |before| (before.factor.ln(), before.deviation.hypot(REPEAT)));
        let middle = said.iter().map(|said| said.logarithm).sum::<f64>() / said.len() as f64;
        let apart = said.iter().map(|said| (said.logarithm - middle).powi(2)).sum::<f64>();
        let between = if said.len() > 1 { apart / (said.len() - 1) as f64 } else { 0.0 };
        let (mut weights, mut sum) = (known_deviation.powi(-2), known * known_deviation.powi(-2));
        for said in said {
            let weight = said.deviation.powi(2).max(between).recip();
            weights += weight;
            sum += weight * said.logarithm;
        }
        let (least, most) = (*CORRECTION_RANGE.start(), *CORRECTION_RANGE.end());
        Correction {
            phase,
            factor: rounded((sum / weights).exp().clamp(least, most)),
            deviation: rounded(weights.powf(-0.5)),
            runs: before.map_or(0, |before| before.runs).saturating_add(said.len() as u32),
            measured: self.date.into(),
            source: self.from.into(),
        }
    }

    /// The error of the predicted step time, as a fraction of the measured one.
    fn error(&self, run: &RunMeasurement, profile: &MeasuredMachine) -> Result<f64, Invalid> {
        let seconds = step_time(&run.plan, &self.machine(profile))
            .map_err(|error| Invalid::inside(&run.file, &error).maybe_hint(error.hint()))?;
        Ok((seconds.0 / run.step_time_s - 1.0).abs())
    }

    fn document(
        &self,
        runs: &[RunMeasurement],
        errors: &[Errors],
        total: Errors,
        corrected: Option<&MeasuredMachine>,
    ) -> RefitDocument {
        let changes = corrected.iter().flat_map(|corrected| &corrected.corrections);
        let changes = changes.filter(|correction| !self.profile.corrections.contains(correction));
        let constants = changes.map(|correction| ConstantChange {
            name: format!("profiles.{}.{}", self.profile.name, correction.phase.name()),
            before: self.profile.correction(correction.phase),
            after: correction.factor,
            deviation: correction.deviation,
            rows: correction.runs as usize,
        });
        let replaced = corrected.is_some();
        let suites = runs.iter().zip(errors);
        RefitDocument {
            schema: REFIT_SCHEMA.into(),
            rows: runs.len(),
            unsupported: Vec::new(),
            constants: constants.collect(),
            stacks: vec![StackErrors {
                stack: self.profile.name.clone(),
                called: Vec::new(),
                rows: runs.len(),
                replaced,
                errors: total,
            }],
            suites: suites
                .map(|(run, errors)| SuiteErrors { suite: run.file.clone(), rows: 1, errors: *errors })
                .collect(),
            widths: Vec::new(),
            coverage90: None,
        }
    }
}

/// To four digits: more would be noise in a file that people read.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests;
