//! The numbers of an entry that measurements can teach, with the bounds that physics sets.

use crate::gpu::Gpu;
use crate::sourced::{Fitted, Sourced};
use crate::stack::Stack;
use trainyard_units::Seconds;

/// A number without a unit, or a time, whose number is that of its seconds.
trait Number {
    fn of(number: f64) -> Self;
    fn number(&self) -> f64;
}

impl Number for f64 {
    fn of(number: f64) -> Self {
        number
    }

    fn number(&self) -> f64 {
        *self
    }
}

impl Number for Seconds {
    fn of(number: f64) -> Self {
        Self(number)
    }

    fn number(&self) -> f64 {
        self.0
    }
}

/// A value and how it was fitted.
type Reading<'a> = (f64, Option<&'a Fitted>);

/// A number in its entry, which may leave it out.
trait Stated {
    fn read(&self) -> Option<Reading<'_>>;
    /// Replaces the value; its source stays unless it was fitted.
    fn write(&mut self, value: f64, fit: Option<&Fitted>);
}

impl<T: Number> Stated for Sourced<T> {
    fn read(&self) -> Option<Reading<'_>> {
        Some((self.value.number(), self.fitted.as_deref()))
    }

    fn write(&mut self, value: f64, fit: Option<&Fitted>) {
        self.value = T::of(value);
        if let Some(fit) = fit {
            self.source = "fitted by `trainyard calibrate --from`".into();
            self.fitted = Some(Box::new(fit.clone()));
        }
    }
}

impl<T: Stated> Stated for Option<T> {
    fn read(&self) -> Option<Reading<'_>> {
        self.as_ref()?.read()
    }

    fn write(&mut self, value: f64, fit: Option<&Fitted>) {
        if let Some(stated) = self {
            stated.write(value, fit);
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
    read: fn(&T) -> Option<Reading<'_>>,
    write: fn(&mut T, f64, Option<&Fitted>),
}

impl<T> Parameter<T> {
    /// Returns the value in an entry and how it was fitted; `None` if the entry leaves it out.
    pub(super) fn stated<'a>(&self, entry: &'a T) -> Option<Reading<'a>> {
        (self.read)(entry)
    }

    /// Returns the value in an entry, in seconds for a time; `None` if the entry leaves it out, or it is zero.
    pub fn number(&self, entry: &T) -> Option<f64> {
        (self.read)(entry).map(|(value, _)| value).filter(|value| *value > 0.0)
    }

    /// Replaces the value, if the entry has one, but not its source: for trying a value.
    pub fn try_value(&self, entry: &mut T, value: f64) {
        (self.write)(entry, value, None);
    }

    /// Replaces the value, if the entry has one, and records how it was fitted.
    pub fn set(&self, entry: &mut T, value: f64, fit: &Fitted) {
        (self.write)(entry, value, Some(fit));
    }
}

/// Makes parameters of lines: the field, the bounds of a cost or of a part of a rate, and the spread.
macro_rules! parameters {
    ($entry:ident => $part:expr; $($field:ident: $kind:ident($low:expr, $high:expr), spread $spread:expr;)*) => {
        [$(Parameter {
            name: stringify!($field),
            bounds: ($low, $high),
            is_rate: parameters!(@is_rate $kind),
            spread: $spread,
            read: |$entry| $part.$field.read(),
            write: |$entry, value, fit| $part.$field.write(value, fit),
        }),*]
    };
    (@is_rate cost) => { false };
    (@is_rate rate) => { true };
}

/// The numbers of a stack that can be learnt from step times, in the order of its file. It excludes those that are true
/// or false, and those that rest on documents.
pub static STACK_PARAMETERS: [Parameter<Stack>; 14] = parameters! {
    stack => stack;
    // From what a graph's node takes to an interpreter's slowest call.
    launch: cost(5e-7, 1e-3), spread 0.5;
    // From all fused to eight passes for one.
    traffic: cost(0.2, 8.0), spread 0.5;
    mixed_traffic: cost(0.4, 4.0), spread 0.3;
    map_traffic: cost(0.2, 4.0), spread 0.35;
    loss_traffic: cost(0.1, 4.0), spread 0.4;
    gemm: rate(0.3, 1.5), spread 0.08;
    region_selection: cost(1e-7, 1e-3), spread 0.7;
    // From a fused update that keeps less than is counted to an optimizer in twenty operators.
    update_traffic: cost(0.3, 20.0), spread 0.8;
    overlap_slowdown: cost(0.01, 2.0), spread 0.4;
    sharded_copy: cost(1e-7, 1e-3), spread 0.7;
    separate_update: cost(1e-7, 1e-3), spread 0.5;
    table_exchange: cost(0.05, 1.5), spread 0.5;
    convolution: rate(0.3, 1.2), spread 0.15;
    step_overhead: cost(1e-5, 0.2), spread 0.7;
};

/// The numbers of a GPU that can be learnt from step times, in the order of its file.
pub static GPU_PARAMETERS: [Parameter<Gpu>; 5] = parameters! {
    gpu => gpu.achieved;
    gemm_fp16: rate(0.3, 1.0), spread 0.08;
    gemm_fp32: rate(0.3, 1.0), spread 0.08;
    gemm_depth: cost(10.0, 1000.0), spread 0.3;
    memory: rate(0.4, 1.0), spread 0.1;
    kernel_floor: cost(5e-7, 1e-5), spread 0.3;
};
