//! What streams, kernels and groups are called: as PyTorch and NCCL call them, because tools tell by the name what
//! computes and what communicates.

use std::borrow::Cow;
use trainyard_plan::{
    Activity, Between, CopyDirection, Direction, Message, StreamKind, TraceDetail, TracedKernels, TracedTask,
    TracedWork,
};

/// A row of a device: its stream number, and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stream {
    /// The number: kernels run on 7, as PyTorch's default stream does; NCCL has streams above.
    pub(super) number: u64,
    pub(super) carries: &'static str,
}

/// The stream of kernels.
pub(super) const COMPUTE: Stream = Stream { number: 7, carries: "kernels" };

/// The row of the machine's processor, and of waiting: no stream.
pub(super) const PROCESSOR: Stream = Stream { number: 2, carries: "processor" };

/// Returns the stream on which a part of a task runs.
pub(super) fn stream(task: &TracedTask, what: &TracedWork) -> Stream {
    let of = |number, carries| Stream { number, carries };
    match (task.stream, what) {
        (_, TracedWork::Host) | (StreamKind::Wait(_), _) => PROCESSOR,
        (StreamKind::Compute(_), TracedWork::Message(message)) => match message.between {
            // A stage that computes nothing while it sends.
            Between::Stages { .. } => sends(task, what),
            Between::Group(trainyard_plan::Group::Context) => of(24, "sequence collectives inside layers"),
            Between::Group(trainyard_plan::Group::Expert) => of(28, "exchanges of experts or tables"),
            Between::Group(_) => of(20, "tensor collectives inside layers"),
        },
        (StreamKind::Compute(_), _) => COMPUTE,
        (StreamKind::SendForward(_) | StreamKind::SendBackward(_), what) => sends(task, what),
        (StreamKind::Reduce(_), _) => of(48, "reduces gradients"),
        (StreamKind::Gather(_), _) => of(52, "gathers weights"),
        (StreamKind::CopyOut(_), _) => of(56, "copies to the machine"),
        (StreamKind::CopyIn(_), _) => of(60, "copies from the machine"),
    }
}

/// Returns the stream of a transfer between stages. A stage may send and receive at once, and with several runs of
/// layers it does so with the stages on both sides. Where the stages were not recorded, activations go forward and
/// gradients go back.
fn sends(task: &TracedTask, what: &TracedWork) -> Stream {
    let gradients = matches!(task.activity, Activity::SendGradients { .. });
    let back = match what {
        TracedWork::Message(Message { between: Between::Stages { from, to }, .. }) if from != to => from > to,
        _ => gradients,
    };
    let (number, carries) = match (gradients, task.receives, back) {
        (false, false, false) => (32, "sends activations"),
        (false, false, true) => (34, "sends activations to an earlier stage"),
        (false, true, false) => (36, "receives activations"),
        (false, true, true) => (38, "receives activations from a later stage"),
        (true, false, true) => (40, "sends gradients"),
        (true, false, false) => (42, "sends gradients to a later stage"),
        (true, true, true) => (44, "receives gradients"),
        (true, true, false) => (46, "receives gradients from an earlier stage"),
    };
    Stream { number, carries }
}

/// Returns the name of kernels.
pub(super) fn kernels(kernels: &TracedKernels, detail: TraceDetail) -> Cow<'_, str> {
    let word = match kernels.direction {
        Direction::Forward => "forward",
        Direction::Again => "recomputed",
        Direction::Backward => "backward",
        Direction::Neither => "",
    };
    if detail > TraceDetail::Operators || word.is_empty() || kernels.operator == word {
        return Cow::Borrowed(&kernels.operator);
    }
    format!("{} {word}", kernels.operator).into()
}

/// Returns NCCL's abbreviation for a type of PyTorch.
pub(super) fn nccl_dtype(dtype: &str) -> &'static str {
    match dtype {
        "Half" => "f16",
        "BFloat16" => "bf16",
        "Char" => "u8",
        _ => "f32",
    }
}

/// Returns the profiler's name for a copy.
pub(super) fn copy(way: CopyDirection) -> &'static str {
    match way {
        CopyDirection::DeviceToHost => "Memcpy DtoH (Device -> Pinned)",
        CopyDirection::HostToDevice => "Memcpy HtoD (Pinned -> Device)",
    }
}

/// Returns the name of a process group, the same on all of its ranks.
pub(super) fn group(between: Between) -> Cow<'static, str> {
    match between {
        Between::Group(_) => between.name().into(),
        Between::Stages { from, to } => format!("pipeline {}-{}", from.0.min(to.0), from.0.max(to.0)).into(),
    }
}
