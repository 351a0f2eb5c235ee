//! The measurements of a run.

use super::{Job, WARM_UP_STEPS, WorkerOutcome, sequence};
use crate::device::{Devices, computes_in_place, framework};
use crate::report::{
    DeviceReport, LossReport, MEASUREMENT_SCHEMA, RankReport, RunEnd, RunReport, Span, StepReport, mean_phases,
};
use crate::slow_ranks::slow_ranks;
use crate::statistics::{median, quantile};
use std::collections::BTreeSet;
use trainyard_data::DataReport;
use trainyard_host::{cores, processor_name};
use trainyard_plan::Rank;
use trainyard_plan::document::Phases;

/// Returns what was measured.
pub(super) fn report(job: &Job<'_>, outcomes: &[WorkerOutcome]) -> RunReport {
    let mesh = job.plan.mesh();
    let steps = outcomes[0].steps.clone();
    let warm_up = WARM_UP_STEPS.min(steps.len().saturating_sub(1));
    let seconds: Vec<f64> = steps[warm_up..].iter().map(|step| step.seconds).collect();
    let step_time_s = median(&seconds);
    let usual = middle_half(&seconds);
    let ranks: Vec<RankReport> = outcomes
        .iter()
        .enumerate()
        .map(|(rank, outcome)| {
            let at = mesh.coordinates(Rank(rank as u32));
            let phases: Vec<Phases> = usual.iter().map(|step| outcome.phases[warm_up + step]).collect();
            let phases = mean_phases(&phases);
            RankReport { rank: rank as u32, stage: at.pipeline, replica: at.data, phases }
        })
        .collect();
    let waited_s = outcomes.iter().map(|outcome| outcome.waited_s).fold(0.0, f64::max);
    let samples_per_s = job.plan.batch().global as f64 / step_time_s;
    let loss = |step: Option<&StepReport>| step.map_or(f64::NAN, |step| step.loss);
    let last = outcomes[0].evaluations.last();
    RunReport {
        schema: MEASUREMENT_SCHEMA.into(),
        plan: job.options.plan_document.clone(),
        device: device_report(job),
        data: DataReport { waited_s, corrupt_samples: corrupt_samples(outcomes), ..job.data.report() },
        seed: job.options.seed,
        end: if outcomes[0].interrupted { RunEnd::Interrupted } else { RunEnd::Finished },
        resumed_from: job.start().step,
        step_time_s,
        interval_s: [quantile(&seconds, 0.05), quantile(&seconds, 0.95)],
        samples_per_s,
        tokens_per_s: samples_per_s * sequence(job.plan) as f64,
        memory_bytes: outcomes[0].memory,
        processor_share: processor_share(job, &outcomes[0], &ranks),
        phases: mean_phases(&ranks.iter().map(|rank| rank.phases).collect::<Vec<_>>()),
        slow_ranks: slow_ranks(&ranks),
        other_heads: job.first_weights.map_or_else(Vec::new, |weights| weights.other_heads().to_vec()),
        skipped_steps: outcomes[0].skipped,
        checkpoints: outcomes[0].checkpoints.clone(),
        ranks,
        evaluations: outcomes[0].evaluations.clone(),
        loss: LossReport {
            first: loss(steps.first()),
            last: loss(steps.last()),
            held_out: last.map(|last| last.loss),
            accuracy: last.and_then(|last| last.accuracy),
        },
        timeline: timeline(outcomes, step_time_s),
        steps,
    }
}

/// Returns the share of the time in which ranks computed that their process had a processor; `None` where they are ranks of
/// several processes or of GPUs, or the system does not tell.
fn processor_share(job: &Job<'_>, outcome: &WorkerOutcome, ranks: &[RankReport]) -> Option<f64> {
    let here = computes_in_place(job.options.device) && job.is_alone;
    let busy = |rank: &RankReport| rank.phases.forward_s + rank.phases.backward_s + rank.phases.optimizer_s;
    let computed = ranks.iter().map(busy).sum::<f64>() * outcome.steps.len() as f64;
    outcome.processor_s.filter(|_| here && computed > 0.0).map(|had| (had / computed).min(1.0))
}

/// Returns the steps that take neither much less nor much more than the median: those between the quartiles. Their phases add
/// up to about the median, whatever disturbed the others.
pub(super) fn middle_half(seconds: &[f64]) -> Vec<usize> {
    let [low, high] = [0.25, 0.75].map(|share| quantile(seconds, share));
    let is_usual = |(_, seconds): &(usize, &f64)| (low..=high).contains(*seconds);
    let usual: Vec<usize> = seconds.iter().enumerate().filter(is_usual).map(|(step, _)| step).collect();
    if usual.is_empty() { (0..seconds.len()).collect() } else { usual }
}

/// Counts the samples that could not be decoded, each once however many ranks met it.
pub(super) fn corrupt_samples(outcomes: &[WorkerOutcome]) -> usize {
    outcomes.iter().flat_map(|outcome| &outcome.corrupt).collect::<BTreeSet<_>>().len()
}

fn device_report(job: &Job<'_>) -> DeviceReport {
    let kind = job.options.device;
    let (processor, cores) = match Devices::find(kind) {
        Ok(devices) => (devices.name, devices.count),
        Err(_) => (processor_name(), cores()),
    };
    DeviceReport {
        processor,
        kind,
        cores: cores as u32,
        ranks: job.plan.mesh().ranks(),
        threads_per_rank: job.threads as u32,
        framework: framework(kind).into(),
    }
}

/// Returns the spans of all ranks in the step whose time is nearest to `typical`, from that step's start.
fn timeline(outcomes: &[WorkerOutcome], typical: f64) -> Vec<Span> {
    let seconds = |step: u64| outcomes[0].steps.iter().find(|report| report.step == step).map(|report| report.seconds);
    let distance = |step: u64| seconds(step).map_or(f64::INFINITY, |seconds| (seconds - typical).abs());
    let nearest = outcomes[0].spans.iter().min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)));
    let Some((chosen, start, _)) = nearest else { return Vec::new() };
    outcomes
        .iter()
        .flat_map(|outcome| outcome.spans.iter().filter(|(step, ..)| step == chosen))
        .flat_map(|(_, _, spans)| spans)
        .map(|span| Span { start_s: span.start_s - start, end_s: span.end_s - start, ..*span })
        .collect()
}
