//! What ranks compute on: threads of this machine's processors, or NVIDIA's GPUs through CUDA (feature `cuda`).
//!
//! The libraries that CUDA needs are looked for before Burn is asked for a device, because its backend ends the rank if
//! one is missing.

#[cfg_attr(not(feature = "cuda"), path = "device/no_driver.rs")]
mod driver;
mod joined;
mod toolkit;

pub(crate) use driver::free_memory;
pub(crate) use joined::JoinedGpus;

use burn::tensor::Device;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use trainyard_hardware_profiles::DeviceKind;
use trainyard_units::Bytes;

/// Why ranks cannot compute on GPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The program was built without CUDA.
    #[error("`--device` is cuda, but this program was built without CUDA")]
    NotBuilt,
    /// There is no driver.
    #[error("`--device` is cuda, but the driver's library `libcuda.so` is not there")]
    NoDriver,
    /// The driver does not start, or does not answer.
    #[error("`--device` is cuda, but the driver says: {reason}")]
    Driver {
        /// The driver's error message.
        reason: String,
    },
    /// The driver has no GPU for this process.
    #[error("`--device` is cuda, but the driver has no GPU for this process")]
    NoGpu,
    /// The library that compiles kernels is not there.
    #[error("`--device` is cuda, but CUDA's compiler library `libnvrtc.so` is not there")]
    NoCompiler,
    /// The headers that kernels include are not there.
    #[error("`--device` is cuda, but CUDA's header `{header}` is not in {}", folder.display())]
    NoHeader {
        /// The first that is missing.
        header: &'static str,
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// It is not known where CUDA is.
    #[error("`--device` is cuda, but CUDA is not there: `CUDA_PATH` is not set, and there is no {searched}")]
    NoToolkit {
        /// The other places that were searched.
        searched: String,
    },
}

impl DeviceError {
    /// Returns what the user may do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotBuilt => "build it with `cargo build --release --workspace --features trainyard-cli/cuda`",
            Self::NoDriver | Self::Driver { .. } => "install NVIDIA's driver; `nvidia-smi` tells whether it works",
            Self::NoGpu => "`nvidia-smi` lists GPUs; `CUDA_VISIBLE_DEVICES` may hide them",
            Self::NoCompiler => {
                "install CUDA's NVRTC (`libnvrtc.so` or `libnvrtc.so.13`) where LD_LIBRARY_PATH names its folder"
            }
            Self::NoHeader { .. } | Self::NoToolkit { .. } => {
                "install CUDA's headers and set CUDA_PATH to the folder whose `include` has them"
            }
        }
    }
}

/// The GPUs of this machine that CUDA gives this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus {
    /// The name of the first one.
    pub name: String,
    pub count: usize,
    /// Memory of each; the least, where they differ.
    pub memory: Bytes,
}

impl Gpus {
    /// Looks for GPUs, and for everything that computing on them needs.
    ///
    /// # Errors
    ///
    /// When something is missing, or the program was built without CUDA.
    pub fn find() -> Result<Self, DeviceError> {
        driver::find()
    }
}

/// Checks that ranks can compute on devices of this kind here.
///
/// # Errors
///
/// When something is missing.
pub fn check_device(kind: DeviceKind) -> Result<(), DeviceError> {
    match kind {
        DeviceKind::Cpu => Ok(()),
        DeviceKind::Cuda => Gpus::find().map(drop),
    }
}

/// Returns the framework that computes on devices of a kind, with its version as pinned in the workspace.
pub const fn framework(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Cpu => "burn 0.22.1 (flex)",
        DeviceKind::Cuda => "burn 0.22.1 (cuda)",
    }
}

/// Returns the device for the rank at `place` among those of its host. Ranks are dealt out to GPUs in turn.
///
/// # Errors
///
/// When something that CUDA needs is missing.
pub(crate) fn device(kind: DeviceKind, place: usize) -> Result<Device, DeviceError> {
    match kind {
        DeviceKind::Cpu => Ok(Device::flex()),
        DeviceKind::Cuda => driver::gpu(place % Gpus::find()?.count),
    }
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

/// Returns the bytes that Burn holds of the GPUs of the ranks at `places`, each GPU counted once. It keeps freed memory
/// for later, so that this is about the most that was needed. `None` where a GPU does not report it.
pub(crate) fn reserved_memory(places: Range<usize>) -> Option<u64> {
    let count = Gpus::find().ok()?.count;
    let gpus: BTreeSet<usize> = places.map(|place| place % count).collect();
    let held = |index| Some(driver::gpu(index).ok()?.memory_pool_usage()?.bytes_reserved);
    gpus.into_iter().map(held).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_always_there() {
        assert_eq!(check_device(DeviceKind::Cpu), Ok(()));
        settle(&device(DeviceKind::Cpu, 7).expect("there are processors"));
    }

    #[test]
    #[cfg(not(feature = "cuda"))]
    fn without_the_feature_there_are_no_gpus() {
        assert_eq!(check_device(DeviceKind::Cuda), Err(DeviceError::NotBuilt));
        assert_eq!(device(DeviceKind::Cuda, 0).err(), Some(DeviceError::NotBuilt));
        assert!(DeviceError::NotBuilt.hint().contains("trainyard-cli/cuda"));
    }

    /// On a machine with GPUs they are found, on any other it is said what is missing; nothing panics.
    #[test]
    #[cfg(feature = "cuda")]
    fn what_is_missing_is_an_error() {
        match Gpus::find() {
            Ok(gpus) => assert!(gpus.count > 0 && gpus.memory > Bytes(0)),
            Err(error) => assert!(error != DeviceError::NotBuilt && error.to_string().contains("cuda")),
        }
    }
}
