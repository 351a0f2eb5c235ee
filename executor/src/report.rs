//! Measurements of a run.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use trainyard_data::DataReport;
use trainyard_hardware_profiles::DeviceKind;
use trainyard_plan::document::{Phases, number_or_null};

/// The schema of measurement files that this version writes.
pub const MEASUREMENT_SCHEMA: &str = "trainyard.measurement/1";

/// The activity of a rank during a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Forward of a micro-batch.
    Forward,
    /// Backward of a micro-batch, with the gathering of its gradients.
    Backward,
    /// Messages between stages, and what all ranks agree on.
    Communication,
    /// Summing gradients with ranks that hold the same parameters.
    Reduce,
    /// Gathering sharded weights.
    Gather,
    /// The optimizer's update.
    Optimizer,
    /// Waiting for data, or for other ranks.
    Wait,
}

/// One span of one rank's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    pub rank: u32,
    pub stage: u32,
    /// The micro-batch, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<u32>,
    /// The activity.
    pub phase: Phase,
    /// Seconds from the start of the step on the first rank.
    pub start_s: f64,
    /// Seconds from the start of the step on the first rank to the end of the span.
    pub end_s: f64,
}

impl Span {
    /// Splits the span in two: first the part in which the rank waited, `waited_s` seconds, then the part in which it
    /// worked.
    pub fn apart(self, waited_s: f64) -> impl Iterator<Item = Self> {
        let until = self.start_s + waited_s.clamp(0.0, self.end_s - self.start_s);
        let waiting = Self { phase: Phase::Wait, end_s: until, ..self };
        let moving = Self { start_s: until, ..self };
        [waiting, moving].into_iter().filter(|span| span.end_s > span.start_s)
    }
}

/// Sums the phases of a rank's spans in a step that took `seconds`.
pub(crate) fn phases_of(spans: &[Span], seconds: f64) -> Phases {
    let own = own_seconds(spans);
    let sum = |phase| spans.iter().zip(&own).filter(|(s, _)| s.phase == phase).map(|(_, own)| own).sum::<f64>();
    let [forward_s, backward_s, optimizer_s, wait_s] =
        [Phase::Forward, Phase::Backward, Phase::Optimizer, Phase::Wait].map(sum);
    let communication_s = sum(Phase::Communication) + sum(Phase::Reduce) + sum(Phase::Gather);
    let known = forward_s + backward_s + communication_s + wait_s + optimizer_s;
    Phases { forward_s, backward_s, communication_s, wait_s, optimizer_s, other_s: (seconds - known).max(0.0) }
}

/// Returns the mean of several breakdowns.
pub(crate) fn mean_phases(all: &[Phases]) -> Phases {
    let mean = |field: fn(&Phases) -> f64| all.iter().map(field).sum::<f64>() / all.len().max(1) as f64;
    Phases {
        forward_s: mean(|p| p.forward_s),
        backward_s: mean(|p| p.backward_s),
        communication_s: mean(|p| p.communication_s),
        wait_s: mean(|p| p.wait_s),
        optimizer_s: mean(|p| p.optimizer_s),
        other_s: mean(|p| p.other_s),
    }
}

/// Returns the seconds of each span without those of the spans within it: weights may be gathered in the middle of a
/// pass.
fn own_seconds(spans: &[Span]) -> Vec<f64> {
    let mut own: Vec<f64> = spans.iter().map(|span| span.end_s - span.start_s).collect();
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&spans[*a], &spans[*b]);
        a.start_s.total_cmp(&b.start_s).then(b.end_s.total_cmp(&a.end_s))
    });
    let mut around: Vec<usize> = Vec::new();
    for index in order {
        while around.last().is_some_and(|outer| spans[*outer].end_s <= spans[index].start_s) {
            around.pop();
        }
        if let Some(outer) = around.last() {
            own[*outer] -= spans[index].end_s.min(spans[*outer].end_s) - spans[index].start_s;
        }
        around.push(index);
    }
    own
}

/// One optimizer step: a line of the metrics log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepReport {
    /// The number of the step, from 1 at the start of training.
    pub step: u64,
    /// Mean loss over the global batch before the update, in nats per token, or per sample where
    /// samples are no tokens; `null` in files where it is no number.
    #[serde(deserialize_with = "number_or_null")]
    pub loss: f64,
    /// Seconds it took.
    pub seconds: f64,
    /// Tokens that were trained on in a second of it; absent where samples are no tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
    /// The learning rate of its update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    /// Euclidean norm of the gradient of all parameters before it was clipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_norm: Option<f64>,
    /// The factor that the loss was multiplied by before its gradient was taken, where gradients are in half precision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f64>,
    /// `true` if the update was skipped because a gradient or the loss was not a number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// What the model makes of held-out samples after a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOutReport {
    /// After which step.
    pub step: u64,
    /// Mean loss, as that of a step; `null` in files where it is no number.
    #[serde(deserialize_with = "number_or_null")]
    pub loss: f64,
    /// The share of samples whose class has the highest score; absent where samples have no class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Seconds in which no rank trained.
    pub seconds: f64,
}

/// The checkpoint that a run goes on from.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumedFrom {
    pub checkpoint: PathBuf,
    /// Steps before it.
    pub step: u64,
    /// Training samples read before it, counted over epochs.
    pub position: u64,
    /// The plan that ran until then, as its user wrote it.
    pub plan: serde_json::Value,
}

/// What a run tells while it goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// The data is there, and the checkpoint to go on from, if there is one.
    Begun { data: DataReport, resumed: Option<Box<ResumedFrom>> },
    /// A step ended.
    Step(StepReport),
    /// The model was evaluated.
    HeldOut(HeldOutReport),
}

/// One rank's step on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankReport {
    pub rank: u32,
    pub stage: u32,
    pub replica: u32,
    /// Breakdown of its step time.
    pub phases: Phases,
}

/// One checkpoint of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointReport {
    /// After which step.
    pub step: u64,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Seconds in which no rank trained.
    pub seconds: f64,
}

/// The hardware that the run ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceReport {
    /// The processor, or the GPU.
    pub processor: String,
    /// The kind of device that computed; processor threads if left out.
    #[serde(default, skip_serializing_if = "DeviceKind::is_cpu")]
    pub kind: DeviceKind,
    /// Processor threads of the machine, or its GPUs.
    pub cores: u32,
    /// Ranks of the run.
    pub ranks: u32,
    /// Processor threads of each rank.
    pub threads_per_rank: u32,
    /// The framework, with its version.
    pub framework: String,
}

/// Losses of the run: mean cross-entropy in nats per token, or per sample where samples are not tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossReport {
    /// Of the first step's global batch.
    #[serde(deserialize_with = "number_or_null")]
    pub first: f64,
    /// Of the last step's global batch.
    #[serde(deserialize_with = "number_or_null")]
    pub last: f64,
    /// Of the held-out samples after the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<f64>,
    /// The share of held-out samples whose class has the highest score after the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
}

/// The way a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// All steps were done.
    Finished,
    /// It was asked to stop, and did so after a whole step.
    Interrupted,
}

/// The measurement file of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunReport {
    /// `trainyard.measurement/1`.
    pub schema: String,
    /// The plan that ran, as the caller wrote it.
    pub plan: serde_json::Value,
    /// The hardware that it ran on.
    pub device: DeviceReport,
    /// The data that it was trained on.
    pub data: DataReport,
    /// Seed of parameters and data order.
    pub seed: u64,
    /// The way it ended.
    pub end: RunEnd,
    /// Steps done before this run, by the one that was resumed.
    pub resumed_from: u64,
    /// Every step of this run.
    pub steps: Vec<StepReport>,
    /// Median seconds of a step after warm-up.
    pub step_time_s: f64,
    /// The interval that holds 90 % of steps after warm-up.
    pub interval_s: [f64; 2],
    /// Samples per second at the median step.
    pub samples_per_s: f64,
    /// Tokens per second at the median step; samples where samples are no tokens.
    pub tokens_per_s: f64,
    /// The most memory that training took beyond what the process had before the model was built; absent where the
    /// system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The share of the time in which its ranks computed that the process had a processor, of threads that were to be used by
    /// one process; below one if other programs took theirs. Absent where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_share: Option<f64>,
    /// Breakdown of the step's time, mean over ranks and over the steps after warm-up between the quartiles of their times.
    pub phases: Phases,
    /// The same by rank.
    pub ranks: Vec<RankReport>,
    /// Ranks that compute much longer than others with the same work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_ranks: Vec<SlowRank>,
    /// Tensors of heads of other tasks in the weights that the training started from, which it left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_heads: Vec<String>,
    /// Steps of the training without update, because a loss or a gradient was not a number.
    #[serde(default)]
    pub skipped_steps: u64,
    /// Checkpoints that were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<CheckpointReport>,
    /// Evaluations on held-out samples, the last one after the last step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluations: Vec<HeldOutReport>,
    /// Training and held-out losses.
    pub loss: LossReport,
    /// All spans of the step whose time is nearest the median.
    pub timeline: Vec<Span>,
}

/// A rank that computes longer than the ranks with the same work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowRank {
    pub rank: u32,
    /// Its pipeline stage, whose other ranks it is compared with.
    pub stage: u32,
    /// Seconds of a step in which it computes, without waiting.
    pub compute_s: f64,
    /// The median of all ranks of its stage.
    pub median_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(phase: Phase, start_s: f64, end_s: f64) -> Span {
        Span { rank: 0, stage: 0, micro_batch: None, phase, start_s, end_s }
    }

    #[test]
    fn phases_and_the_rest_make_the_step() {
        let mut spans = vec![span(Phase::Forward, 0.0, 1.0), span(Phase::Backward, 1.0, 3.0)];
        spans.extend(span(Phase::Reduce, 3.0, 4.0).apart(0.75));
        spans.extend([span(Phase::Communication, 4.0, 4.5), span(Phase::Optimizer, 4.5, 5.0)]);
        let phases = phases_of(&spans, 5.25);
        let expected = Phases {
            forward_s: 1.0,
            backward_s: 2.0,
            communication_s: 0.75,
            wait_s: 0.75,
            optimizer_s: 0.5,
            other_s: 0.25,
        };
        assert_eq!(phases, expected);
        assert_eq!(mean_phases(&[phases, phases]), phases);
    }

    #[test]
    fn what_is_gathered_within_a_pass_is_no_part_of_it() {
        let spans = [span(Phase::Gather, 0.5, 1.0), span(Phase::Forward, 0.0, 2.0), span(Phase::Wait, 1.0, 1.25)];
        let phases = phases_of(&spans, 2.0);
        assert_eq!((phases.forward_s, phases.communication_s, phases.wait_s, phases.other_s), (1.25, 0.5, 0.25, 0.0));
    }

    #[test]
    fn a_span_that_waited_throughout_moved_nothing() {
        let all: Vec<Span> = span(Phase::Reduce, 1.0, 2.0).apart(1.5).collect();
        assert_eq!(all, [span(Phase::Wait, 1.0, 2.0)]);
        assert_eq!(span(Phase::Reduce, 1.0, 2.0).apart(0.0).collect::<Vec<_>>(), [span(Phase::Reduce, 1.0, 2.0)]);
    }

    #[test]
    fn files_of_earlier_times_are_read() {
        let phases: Phases = serde_json::from_str(
            r#"{"forward_s": 1.0, "backward_s": 2.0, "communication_s": 0.5, "optimizer_s": 0.1, "other_s": 0.2}"#,
        )
        .expect("without waiting");
        assert_eq!((phases.communication_s, phases.wait_s), (0.5, 0.0));
        let step: StepReport = serde_json::from_str(r#"{"step": 1, "loss": 2.0, "seconds": 0.5}"#).expect("a step");
        assert_eq!(step, StepReport { step: 1, loss: 2.0, seconds: 0.5, ..StepReport::default() });
        assert_eq!(serde_json::to_string(&step).expect("JSON"), r#"{"step":1,"loss":2.0,"seconds":0.5}"#);
    }
}
