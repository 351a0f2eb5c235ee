//! What ranks compute on: threads of this machine's processors, NVIDIA's GPUs through CUDA (feature `cuda`), or GPUs of
//! any make through Vulkan, Metal or DirectX 12 (feature `wgpu`).
//!
//! Everything that differs between kinds of devices is said here, by one [`Driver`] for each.

#[cfg(any(feature = "wgpu", test))]
mod card_memory;
#[cfg(feature = "cuda")]
mod cuda;
mod joined;
#[cfg(feature = "gpu")]
mod kept_kernels;
#[cfg(not(all(feature = "cuda", feature = "wgpu")))]
mod not_built;
mod processors;
#[cfg(any(feature = "cuda", test))]
mod toolkit;
#[cfg(feature = "wgpu")]
mod wgpu;

pub(crate) use joined::{JoinedGpus, SumUnderWay};

use crate::precision::compute_format;
use burn::tensor::{Device, FloatDType};
use std::collections::BTreeSet;
use std::ops::Range;
use trainyard_hardware_profiles::{DeviceKind, NumberFormat};
use trainyard_plan::Plan;
use trainyard_units::Bytes;

/// Why ranks cannot compute on devices of a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`--device` is {}, but {problem}", kind.name())]
pub struct DeviceError {
    /// The devices that were asked for.
    pub kind: DeviceKind,
    /// What is missing.
    pub problem: String,
    /// What the user may do about it.
    pub hint: String,
}

/// The devices of a kind that this process may compute on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devices {
    pub kind: DeviceKind,
    /// The name of the first one.
    pub name: String,
    /// Processor threads, or GPUs.
    pub count: usize,
    /// Memory of all together, where the system tells.
    pub memory: Option<Bytes>,
    pub speed: Speed,
}

/// How fast devices are, by what computes behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speed {
    /// Processors that a driver makes pass for a GPU, such as Mesa's lavapipe: a kernel takes longer to compile than to
    /// run, and longer to run than on the processors themselves.
    Software,
    /// Processors.
    Processors,
    /// GPUs.
    Gpu,
}

impl Devices {
    /// Looks for devices of a kind, and for everything that computing on them needs.
    ///
    /// # Errors
    ///
    /// When something is missing, or the program was built without it.
    pub fn find(kind: DeviceKind) -> Result<Self, DeviceError> {
        driver(kind).find()
    }
}

/// Returns the name and number of devices for people.
pub fn describe(kind: DeviceKind, name: &str, count: usize) -> String {
    if kind.is_cpu() { format!("{name} ({count} threads)") } else { format!("{count} × {name}") }
}

/// What the executor asks of a kind of devices.
trait Driver: Sync {
    /// See [`Devices::find`].
    fn find(&self) -> Result<Devices, DeviceError>;

    /// Returns Burn with the backend that computes on them, and its version as pinned in the workspace.
    fn framework(&self) -> &'static str;

    /// Returns the device of a number below [`Devices::count`], as Burn's.
    fn open(&self, index: usize) -> Result<Device, DeviceError>;

    /// Returns the memory of a device that is free now; `None` where it computes in main memory, or does not tell.
    fn free_memory(&self, _index: usize) -> Option<Bytes> {
        None
    }

    /// Returns `true` if a call may return before its result is there, so that kernels wait in a queue.
    fn is_asynchronous(&self) -> bool {
        true
    }

    /// Returns `true` if devices of one process can sum up tensors among themselves.
    fn joins(&self) -> bool {
        false
    }
}

fn driver(kind: DeviceKind) -> &'static dyn Driver {
    match kind {
        DeviceKind::Cpu => &processors::Processors,
        #[cfg(feature = "cuda")]
        DeviceKind::Cuda => &cuda::Cuda,
        #[cfg(not(feature = "cuda"))]
        DeviceKind::Cuda => &not_built::NotBuilt(DeviceKind::Cuda),
        #[cfg(feature = "wgpu")]
        DeviceKind::Wgpu => &wgpu::Wgpu,
        #[cfg(not(feature = "wgpu"))]
        DeviceKind::Wgpu => &not_built::NotBuilt(DeviceKind::Wgpu),
    }
}

/// Burn's backend of all GPUs, whatever drives them.
#[cfg(feature = "cuda")]
pub(crate) type GpuBackend = burn::backend::Cuda;
#[cfg(all(feature = "wgpu", not(feature = "cuda")))]
pub(crate) type GpuBackend = burn::backend::Wgpu;

/// Returns the framework that computes on devices of a kind.
pub fn framework(kind: DeviceKind) -> &'static str {
    driver(kind).framework()
}

/// Returns the device for the rank at `place` among those of its host. Ranks are dealt out to GPUs in turn.
///
/// # Errors
///
/// When something is missing that devices of this kind need.
pub(crate) fn device(kind: DeviceKind, place: usize) -> Result<Device, DeviceError> {
    driver(kind).open(place % Devices::find(kind)?.count)
}

/// Returns the number of times that an operator runs between two readings of the clock. A GPU is asked for many kernels
/// before it has done the first, so that one kernel by itself would take longer than it does in a step; not so one on
/// which every kernel takes long.
pub(crate) fn runs_at_once(kind: DeviceKind) -> usize {
    let is_quick = || Devices::find(kind).is_ok_and(|devices| devices.speed == Speed::Gpu);
    if driver(kind).is_asynchronous() && is_quick() { 8 } else { 1 }
}

/// Returns `true` if values are where they can be sent as soon as they are computed.
pub(crate) fn computes_in_place(kind: DeviceKind) -> bool {
    !driver(kind).is_asynchronous()
}

/// Returns main memory as a device, if devices of a kind have another memory.
pub(crate) fn main_memory(kind: DeviceKind) -> Option<Device> {
    (!computes_in_place(kind)).then(Device::flex)
}

/// Waits until a device has done what it was asked to. A processor has, whenever a call returns.
///
/// # Panics
///
/// When the device failed.
pub(crate) fn settle(device: &Device) {
    if let Err(error) = device.sync() {
        panic!("the device failed: {error:?}");
    }
}

/// Returns the formats that a device computes in.
pub(crate) fn formats(device: &Device) -> Vec<NumberFormat> {
    let has = |format: FloatDType| device.supports_dtype(format);
    let half = [(NumberFormat::Fp16, FloatDType::F16), (NumberFormat::Bf16, FloatDType::BF16)];
    let half = half.into_iter().filter(|(_, format)| has(*format)).map(|(format, _)| format);
    std::iter::once(NumberFormat::Fp32).chain(half).collect()
}

/// Checks that devices of a kind compute in the format of `plan`.
///
/// # Errors
///
/// When they do not, or something is missing that they need.
pub(crate) fn check_format(plan: &Plan, kind: DeviceKind) -> Result<(), DeviceError> {
    let devices = Devices::find(kind)?;
    let device = device(kind, 0)?;
    if device.supports_dtype(compute_format(plan.precision())) {
        return Ok(());
    }
    let problem = format!("{} does not compute in {}, the plan's precision", devices.name, plan.precision());
    let has_fp16 = device.supports_dtype(FloatDType::F16);
    let hint = format!("plan with `--fix precision=fp32`{}", if has_fp16 { " or fp16-mixed" } else { "" });
    Err(DeviceError { kind, problem, hint })
}

/// Returns the free memory of the devices of ranks at `places`, by the number of the device; `None` where they compute
/// in main memory or do not tell.
pub(crate) fn free_memory(kind: DeviceKind, places: &[usize]) -> Result<Option<Vec<(usize, Bytes)>>, DeviceError> {
    let count = Devices::find(kind)?.count;
    let used: BTreeSet<usize> = places.iter().map(|place| place % count).collect();
    Ok(used.into_iter().map(|index| Some((index, driver(kind).free_memory(index)?))).collect())
}

/// Returns the bytes that Burn holds of the GPUs of the ranks at `places`, each GPU counted once. It keeps freed memory
/// for later, so that this is about the most that was needed. `None` where a device does not report it.
pub(crate) fn reserved_memory(kind: DeviceKind, places: Range<usize>) -> Option<u64> {
    let count = Devices::find(kind).ok()?.count;
    let used: BTreeSet<usize> = places.map(|place| place % count).collect();
    let held = |index| Some(driver(kind).open(index).ok()?.memory_pool_usage()?.bytes_reserved);
    used.into_iter().map(held).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_always_there() {
        let processors = Devices::find(DeviceKind::Cpu).expect("there are processors");
        assert!(processors.count > 0 && processors.speed == Speed::Processors);
        let device = device(DeviceKind::Cpu, 7).expect("as well");
        settle(&device);
        assert_eq!(formats(&device), [NumberFormat::Fp32, NumberFormat::Fp16, NumberFormat::Bf16]);
    }

    #[test]
    #[cfg(not(any(feature = "cuda", feature = "wgpu")))]
    fn without_the_feature_there_are_no_gpus() {
        for kind in [DeviceKind::Cuda, DeviceKind::Wgpu] {
            let error = Devices::find(kind).expect_err("it was not built");
            assert_eq!(device(kind, 0).err(), Some(error.clone()));
            assert!(error.hint.contains(&format!("trainyard-cli/{}", kind.name())), "{error:?}");
            assert!(error.to_string().contains(&format!("`--device` is {}, but", kind.name())));
        }
    }

    /// On a machine with GPUs they are found, on any other it is said what is missing; nothing panics.
    #[test]
    #[cfg(feature = "cuda")]
    fn what_is_missing_is_an_error() {
        match Devices::find(DeviceKind::Cuda) {
            Ok(gpus) => assert!(gpus.count > 0 && gpus.memory > Some(Bytes(0))),
            Err(error) => assert!(error.to_string().contains("cuda") && !error.hint.is_empty()),
        }
    }
}
