//! The numbers of an entry that measurements can teach, with the bounds that physics sets.

use crate::gpu::Gpu;
use crate::sourced::{Fitted, Sourced};
use crate::stack::Stack;
use trainyard_units::{Seconds, human_duration};

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
    /// The least and the most that software and hardware were seen to have, or that its definition leaves possible: a
    /// fitted value beyond them says that the measurements are of something else.
    pub plausible: (f64, f64),
    /// `true` if it is a part of a rate, which cannot be zero: nothing would ever end.
    pub is_rate: bool,
    /// `true` if it is a time, whose number is that of its seconds.
    pub is_time: bool,
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

    /// Returns what is wrong with a fitted value beyond what is plausible, `0.27, outside of 0.5 to 5`.
    pub fn implausible(&self, value: f64) -> Option<String> {
        let (least, most) = self.plausible;
        let shown = |value: f64| if self.is_time { human_duration(Seconds(value)) } else { value.to_string() };
        (!(least..=most).contains(&value))
            .then(|| format!("{}, outside of {} to {}", shown(value), shown(least), shown(most)))
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

/// Makes parameters of lines: the field, the bounds of a cost, of a time or of a part of a rate, the spread, and the values
/// that are plausible.
macro_rules! parameters {
    (
        $entry:ident => $part:expr;
        $($field:ident: $kind:ident($low:expr, $high:expr), spread $spread:expr, plausible($least:expr, $most:expr);)*
    ) => {
        [$(Parameter {
            name: stringify!($field),
            bounds: ($low, $high),
            plausible: ($least, $most),
            is_rate: parameters!(@is_rate $kind),
            is_time: parameters!(@is_time $kind),
            spread: $spread,
            read: |$entry| $part.$field.read(),
            write: |$entry, value, fit| $part.$field.write(value, fit),
        }),*]
    };
    (@is_rate rate) => { true };
    (@is_rate $other:ident) => { false };
    (@is_time time) => { true };
    (@is_time $other:ident) => { false };
}

/// The numbers of a stack that can be learnt from step times, in the order of its file. It excludes those that are true
/// or false, and those that rest on documents.
pub static STACK_PARAMETERS: [Parameter<Stack>; 14] = parameters! {
    stack => stack;
    // From what a graph's node takes to an interpreter's slowest call; an eager operator takes tens of microseconds.
    launch: time(5e-7, 1e-3), spread 0.5, plausible(1e-6, 2e-4);
    // From all fused to eight passes for one. Counts are those of fused normalisation and activation: of what is left,
    // chains of two or three passes, a compiler saves half, and eager kernels in single precision are four times as much.
    traffic: cost(0.2, 8.0), spread 0.5, plausible(0.5, 5.0);
    // From no cast at all to everything in single precision, which is twice as wide, and cast.
    mixed_traffic: cost(0.4, 4.0), spread 0.3, plausible(0.9, 3.0);
    map_traffic: cost(0.2, 4.0), spread 0.35, plausible(0.4, 2.5);
    // From logits that are read once to the separate kernels that are counted, and copies.
    loss_traffic: cost(0.1, 4.0), spread 0.4, plausible(0.25, 2.0);
    // Large products reach 0.8 of the peak: 1.2 times as much is nearly all of it.
    gemm: rate(0.3, 1.5), spread 0.08, plausible(0.6, 1.2);
    region_selection: time(1e-7, 1e-3), spread 0.7, plausible(1e-6, 3e-4);
    // From a fused update that keeps less than is counted to an optimizer in twenty operators.
    update_traffic: cost(0.3, 20.0), spread 0.8, plausible(0.5, 15.0);
    overlap_slowdown: cost(0.01, 2.0), spread 0.4, plausible(0.02, 2.0);
    sharded_copy: time(1e-7, 1e-3), spread 0.7, plausible(5e-7, 1e-4);
    // A dozen launches.
    separate_update: time(1e-7, 1e-3), spread 0.5, plausible(1e-5, 1e-3);
    // A share of rows.
    table_exchange: cost(0.05, 1.5), spread 0.5, plausible(0.05, 1.0);
    convolution: rate(0.3, 1.2), spread 0.15, plausible(0.4, 1.1);
    step_overhead: time(1e-5, 0.2), spread 0.7, plausible(2e-5, 0.1);
};

/// The numbers of a GPU that can be learnt from step times, in the order of its file. Parts of a peak cannot exceed 1, and
/// no product or copy was seen to reach all of it.
pub static GPU_PARAMETERS: [Parameter<Gpu>; 5] = parameters! {
    gpu => gpu.achieved;
    gemm_fp16: rate(0.3, 1.0), spread 0.08, plausible(0.4, 0.95);
    gemm_fp32: rate(0.3, 1.0), spread 0.08, plausible(0.4, 0.99);
    gemm_depth: cost(10.0, 3000.0), spread 0.3, plausible(30.0, 1500.0);
    memory: rate(0.4, 1.0), spread 0.1, plausible(0.5, 0.97);
    // A kernel that does nothing takes one to three microseconds.
    kernel_floor: time(5e-7, 1e-5), spread 0.3, plausible(1e-6, 5e-6);
};
