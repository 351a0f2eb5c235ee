//! Predicted beside measured: the figures of a run, its plot and its trace.

use std::collections::BTreeMap;
use trainyard_executor::{Phase, RankReport, RunReport, Span, describe};
use trainyard_plan::document::{
    COMPARISON_SCHEMA, ComparisonDocument, Errors, Figures, Files, Loss, Phases, PlanDocument, Prediction,
};
use trainyard_plan::{Activity, Interval, StageId, StreamKind, Timeline};
use trainyard_reports::{self as reports, Picture, Process, StepPoint};
use trainyard_units::{Instant, Seconds};

/// Compares predicted and measured figures. `prediction` is absent where none was made for this machine.
pub(crate) fn comparison(
    document: &PlanDocument,
    prediction: Option<&Prediction>,
    report: &RunReport,
) -> ComparisonDocument {
    let steps = report.steps.len() as f64;
    let predicted = prediction.map(|prediction| Figures {
        all_steps_s: Some(prediction.step_time_s * steps),
        ..predicted(document, prediction)
    });
    let measured = measured(report);
    let deviation = |predicted: f64, measured: f64| predicted / measured - 1.0;
    let error = predicted.as_ref().map(|predicted| Errors {
        phases: phase_errors(&predicted.phases, &measured),
        step_time: deviation(predicted.step_time_s, measured.step_time_s),
        samples_per_s: deviation(predicted.samples_per_s, measured.samples_per_s),
        memory: predicted
            .memory_bytes
            .zip(measured.memory_bytes)
            .map(|(predicted, measured)| deviation(predicted as f64, measured as f64)),
    });
    let device = &report.device;
    ComparisonDocument {
        schema: COMPARISON_SCHEMA.into(),
        plan: document.plan.clone(),
        device: describe(device.kind, &device.processor, device.cores as usize),
        steps: report.steps.len() as u64,
        predicted,
        measured,
        error,
        loss: Loss {
            first: report.loss.first,
            last: report.loss.last,
            held_out: report.loss.held_out,
            accuracy: report.loss.accuracy,
            evaluated_samples: Some(report.data.held_out_samples as u64),
            held_out_samples: report.data.held_out_in_all.map(|samples| samples as u64),
        },
        files: Files::default(),
    }
}

/// Share of a step below which a phase's error in percent means nothing.
const PHASE_SHARE_MIN: f64 = 0.01;

fn phase_errors(predicted: &Phases, measured: &Figures) -> BTreeMap<String, f64> {
    let least = PHASE_SHARE_MIN * measured.step_time_s;
    let both = predicted.named().into_iter().zip(measured.phases.named());
    both.filter(|(_, (_, measured))| *measured >= least)
        .map(|((name, predicted), (_, measured))| (name.to_owned(), predicted / measured - 1.0))
        .collect()
}

fn predicted(document: &PlanDocument, prediction: &Prediction) -> Figures {
    let parallel = document.plan.parallel;
    let ranks_of_a_stage =
        [parallel.data, parallel.tensor, parallel.context].into_iter().map(u64::from).fold(1, u64::saturating_mul);
    Figures {
        step_time_s: prediction.step_time_s,
        interval_s: prediction.interval_s,
        all_steps_s: None,
        samples_per_s: prediction.samples_per_s,
        memory_bytes: Some(prediction.memory_bytes.of_one_pipeline().saturating_mul(ranks_of_a_stage)),
        phases: prediction.phases,
        processor_share: None,
    }
}

/// Returns the measured figures. Phases are those of the rank that computes longest, as a prediction's are.
pub(super) fn measured(report: &RunReport) -> Figures {
    let busy = |rank: &&RankReport| rank.phases.forward_s + rank.phases.backward_s;
    let busiest = report.ranks.iter().max_by(|a, b| busy(a).total_cmp(&busy(b)));
    Figures {
        step_time_s: report.step_time_s,
        interval_s: report.interval_s,
        all_steps_s: Some(report.steps.iter().map(|step| step.seconds).sum()),
        samples_per_s: report.samples_per_s,
        memory_bytes: report.memory_bytes,
        processor_share: report.processor_share,
        phases: busiest.map_or(report.phases, |rank| rank.phases),
    }
}

/// Returns a trace with the simulated step above the measured one of each rank.
pub(super) fn traces(predicted: Option<&Timeline>, spans: &[Span]) -> String {
    let ranks = spans.iter().map(|span| span.rank).max().map_or(0, |last| last + 1);
    let measured: Vec<(String, Timeline)> = (0..ranks)
        .map(|rank| {
            let own = spans.iter().filter(|span| span.rank == rank);
            (format!("measured, rank {rank}"), Timeline { intervals: own.map(interval).collect(), window: None })
        })
        .collect();
    let predicted = predicted.map(|timeline| Process { name: "predicted", timeline });
    let measured = measured.iter().map(|(name, timeline)| Process { name, timeline });
    reports::trace(&predicted.into_iter().chain(measured).collect::<Vec<_>>())
}

fn interval(span: &Span) -> Interval {
    let stage = StageId(span.stage);
    let micro_batch = span.micro_batch.unwrap_or(0);
    let (activity, stream) = match span.phase {
        Phase::Forward => (Activity::Forward { stage, micro_batch }, StreamKind::Compute(stage)),
        Phase::Backward => (Activity::Backward { stage, micro_batch }, StreamKind::Compute(stage)),
        Phase::Optimizer => (Activity::Update { stage }, StreamKind::Compute(stage)),
        Phase::Communication if span.micro_batch.is_some() => {
            (Activity::Message { stage, micro_batch }, StreamKind::SendForward(stage))
        }
        Phase::Communication | Phase::Reduce => {
            (Activity::ReduceGradients { stage, bucket: 0 }, StreamKind::Reduce(stage))
        }
        Phase::Gather => (Activity::GatherWeights { stage, layer: 0 }, StreamKind::Gather(stage)),
        Phase::Wait => (Activity::Wait { stage, micro_batch: span.micro_batch }, StreamKind::Wait(stage)),
    };
    let at = |seconds: f64| Instant::START.after(Seconds(seconds.max(0.0)));
    Interval { activity, stream, start: at(span.start_s), end: at(span.end_s.max(span.start_s)) }
}

/// Draws the loss and the time of each step.
pub(super) fn draw(report: &RunReport, predicted: Option<&Figures>, unit: &str) -> Result<Picture, String> {
    let drawable = report.steps.iter().filter(|step| step.loss.is_finite());
    let points: Vec<StepPoint> =
        drawable.map(|step| StepPoint { step: step.step, loss: step.loss, seconds: step.seconds }).collect();
    let finite = report.evaluations.iter().filter(|found| found.loss.is_finite());
    let held_out: Vec<(u64, f64)> = finite.map(|found| (found.step, found.loss)).collect();
    reports::training(&points, predicted, &held_out, unit)
}
