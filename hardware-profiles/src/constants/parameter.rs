//! The numbers of an entry that measurements can teach, with the bounds that physics sets.

use crate::gpu::Gpu;
use crate::sourced::{Fitted, Sourced};
use crate::stack::Stack;
use trainyard_units::Seconds;

/// A number in its entry, with or without a unit.
#[derive(Clone, Copy, Debug)]
pub enum Slot<'a> {
    /// A number without a unit.
    Number(&'a Sourced<f64>),
    /// A time in seconds.
    Time(&'a Sourced<Seconds>),
}

impl<'a> Slot<'a> {
    /// Returns the value; seconds for a time.
    pub fn number(self) -> f64 {
        match self {
            Self::Number(number) => number.value,
            Self::Time(time) => time.value.0,
        }
    }

    /// Returns how the number was fitted.
    pub fn fitted(self) -> Option<&'a Fitted> {
        match self {
            Self::Number(number) => number.fitted.as_deref(),
            Self::Time(time) => time.fitted.as_deref(),
        }
    }
}

/// A mutable [`Slot`].
#[derive(Debug)]
pub enum SlotMut<'a> {
    /// A number without a unit.
    Number(&'a mut Sourced<f64>),
    /// A time in seconds.
    Time(&'a mut Sourced<Seconds>),
}

impl SlotMut<'_> {
    fn try_value(self, value: f64) {
        match self {
            Self::Number(number) => number.value = value,
            Self::Time(time) => time.value = Seconds(value),
        }
    }

    fn set(self, value: f64, fit: &Fitted) {
        let (source, fitted) = ("fitted by `trainyard calibrate --from`".to_owned(), Some(Box::new(fit.clone())));
        match self {
            Self::Number(number) => *number = Sourced { value, source, fitted },
            Self::Time(time) => *time = Sourced { value: Seconds(value), source, fitted },
        }
    }
}

/// A number of an entry that can be fitted.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<T: 'static> {
    /// The name in the file.
    pub name: &'static str,
    /// The minimum and the maximum of the number, in seconds for a time. It may also be zero, which says that there is
    /// no such cost.
    pub bounds: (f64, f64),
    /// `true` if it is a part of a rate, which cannot be zero: nothing would ever end.
    pub is_rate: bool,
    /// Spread of the number from one stack, or one generation of GPUs, to another: the standard deviation of its
    /// logarithm over the catalog's fitted entries of 2026-11-21, rounded; where those are all alike, a stated default.
    pub spread: f64,
    /// Returns the number in an entry; `None` if the entry leaves it out.
    pub slot: fn(&T) -> Option<Slot<'_>>,
    /// Returns the number for changes; `None` if the entry leaves it out.
    pub slot_mut: fn(&mut T) -> Option<SlotMut<'_>>,
}

impl<T> Parameter<T> {
    /// Returns the value in an entry, in seconds for a time; `None` if the entry leaves it out, or it is zero.
    pub fn number(&self, entry: &T) -> Option<f64> {
        (self.slot)(entry).map(Slot::number).filter(|value| *value > 0.0)
    }

    /// Replaces the value, if the entry has one, but not its source: for trying a value.
    pub fn try_value(&self, entry: &mut T, value: f64) {
        if let Some(slot) = (self.slot_mut)(entry) {
            slot.try_value(value);
        }
    }

    /// Replaces the value, if the entry has one, and records how it was fitted.
    pub fn set(&self, entry: &mut T, value: f64, fit: &Fitted) {
        if let Some(slot) = (self.slot_mut)(entry) {
            slot.set(value, fit);
        }
    }
}

/// The numbers of a stack that can be learnt from step times, in the order of its file. It excludes those that are true
/// or false, and those that rest on documents.
pub static STACK_PARAMETERS: [Parameter<Stack>; 14] = [
    // From what a graph's node takes to an interpreter's slowest call.
    Parameter {
        name: "launch",
        bounds: (5e-7, 1e-3),
        is_rate: false,
        spread: 0.5,
        slot: |stack| Some(Slot::Time(&stack.launch)),
        slot_mut: |stack| Some(SlotMut::Time(&mut stack.launch)),
    },
    // From all fused to eight passes for one.
    Parameter {
        name: "traffic",
        bounds: (0.2, 8.0),
        is_rate: false,
        spread: 0.5,
        slot: |stack| Some(Slot::Number(&stack.traffic)),
        slot_mut: |stack| Some(SlotMut::Number(&mut stack.traffic)),
    },
    Parameter {
        name: "mixed_traffic",
        bounds: (0.4, 4.0),
        is_rate: false,
        spread: 0.3,
        slot: |stack| Some(Slot::Number(&stack.mixed_traffic)),
        slot_mut: |stack| Some(SlotMut::Number(&mut stack.mixed_traffic)),
    },
    Parameter {
        name: "map_traffic",
        bounds: (0.2, 4.0),
        is_rate: false,
        spread: 0.35,
        slot: |stack| Some(Slot::Number(&stack.map_traffic)),
        slot_mut: |stack| Some(SlotMut::Number(&mut stack.map_traffic)),
    },
    Parameter {
        name: "loss_traffic",
        bounds: (0.1, 4.0),
        is_rate: false,
        spread: 0.4,
        slot: |stack| Some(Slot::Number(&stack.loss_traffic)),
        slot_mut: |stack| Some(SlotMut::Number(&mut stack.loss_traffic)),
    },
    Parameter {
        name: "gemm",
        bounds: (0.3, 1.5),
        is_rate: true,
        spread: 0.08,
        slot: |stack| Some(Slot::Number(&stack.gemm)),
        slot_mut: |stack| Some(SlotMut::Number(&mut stack.gemm)),
    },
    Parameter {
        name: "region_selection",
        bounds: (1e-7, 1e-3),
        is_rate: false,
        spread: 0.7,
        slot: |stack| Some(Slot::Time(&stack.region_selection)),
        slot_mut: |stack| Some(SlotMut::Time(&mut stack.region_selection)),
    },
    // From a fused update that keeps less than is counted to an optimizer in twenty operators.
    Parameter {
        name: "update_traffic",
        bounds: (0.3, 20.0),
        is_rate: false,
        spread: 0.8,
        slot: |stack| Some(Slot::Number(&stack.update_traffic)),
        slot_mut: |stack| Some(SlotMut::Number(&mut stack.update_traffic)),
    },
    Parameter {
        name: "overlap_slowdown",
        bounds: (0.01, 2.0),
        is_rate: false,
        spread: 0.4,
        slot: |stack| Some(Slot::Number(&stack.overlap_slowdown)),
        slot_mut: |stack| Some(SlotMut::Number(&mut stack.overlap_slowdown)),
    },
    Parameter {
        name: "sharded_copy",
        bounds: (1e-7, 1e-3),
        is_rate: false,
        spread: 0.7,
        slot: |stack| Some(Slot::Time(&stack.sharded_copy)),
        slot_mut: |stack| Some(SlotMut::Time(&mut stack.sharded_copy)),
    },
    Parameter {
        name: "separate_update",
        bounds: (1e-7, 1e-3),
        is_rate: false,
        spread: 0.5,
        slot: |stack| stack.separate_update.as_ref().map(Slot::Time),
        slot_mut: |stack| stack.separate_update.as_mut().map(SlotMut::Time),
    },
    Parameter {
        name: "table_exchange",
        bounds: (0.05, 1.5),
        is_rate: false,
        spread: 0.5,
        slot: |stack| stack.table_exchange.as_ref().map(Slot::Number),
        slot_mut: |stack| stack.table_exchange.as_mut().map(SlotMut::Number),
    },
    Parameter {
        name: "convolution",
        bounds: (0.3, 1.2),
        is_rate: true,
        spread: 0.15,
        slot: |stack| stack.convolution.as_ref().map(Slot::Number),
        slot_mut: |stack| stack.convolution.as_mut().map(SlotMut::Number),
    },
    Parameter {
        name: "step_overhead",
        bounds: (1e-5, 0.2),
        is_rate: false,
        spread: 0.7,
        slot: |stack| Some(Slot::Time(&stack.step_overhead)),
        slot_mut: |stack| Some(SlotMut::Time(&mut stack.step_overhead)),
    },
];

/// The numbers of a GPU that can be learnt from step times, in the order of its file.
pub static GPU_PARAMETERS: [Parameter<Gpu>; 5] = [
    Parameter {
        name: "gemm_fp16",
        bounds: (0.3, 1.0),
        is_rate: true,
        spread: 0.08,
        slot: |gpu| Some(Slot::Number(&gpu.achieved.gemm_fp16)),
        slot_mut: |gpu| Some(SlotMut::Number(&mut gpu.achieved.gemm_fp16)),
    },
    Parameter {
        name: "gemm_fp32",
        bounds: (0.3, 1.0),
        is_rate: true,
        spread: 0.08,
        slot: |gpu| Some(Slot::Number(&gpu.achieved.gemm_fp32)),
        slot_mut: |gpu| Some(SlotMut::Number(&mut gpu.achieved.gemm_fp32)),
    },
    Parameter {
        name: "gemm_depth",
        bounds: (10.0, 1000.0),
        is_rate: false,
        spread: 0.3,
        slot: |gpu| Some(Slot::Number(&gpu.achieved.gemm_depth)),
        slot_mut: |gpu| Some(SlotMut::Number(&mut gpu.achieved.gemm_depth)),
    },
    Parameter {
        name: "memory",
        bounds: (0.4, 1.0),
        is_rate: true,
        spread: 0.1,
        slot: |gpu| Some(Slot::Number(&gpu.achieved.memory)),
        slot_mut: |gpu| Some(SlotMut::Number(&mut gpu.achieved.memory)),
    },
    Parameter {
        name: "kernel_floor",
        bounds: (5e-7, 1e-5),
        is_rate: false,
        spread: 0.3,
        slot: |gpu| Some(Slot::Time(&gpu.achieved.kernel_floor)),
        slot_mut: |gpu| Some(SlotMut::Time(&mut gpu.achieved.kernel_floor)),
    },
];
