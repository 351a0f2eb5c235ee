//! The driver of a program that was built without CUDA: there is none.

use super::{DeviceError, Gpus};
use burn::tensor::Device;
use trainyard_units::Bytes;

/// See [`super::Gpus::find`].
pub(super) fn find() -> Result<Gpus, DeviceError> {
    Err(DeviceError::NotBuilt)
}

/// Fails: without CUDA, there is no GPU.
pub(super) fn gpu(_: usize) -> Result<Device, DeviceError> {
    Err(DeviceError::NotBuilt)
}

/// Returns `None`: without CUDA, nothing reports free memory.
pub(crate) fn free_memory(_: usize) -> Option<Bytes> {
    None
}

/// Returns `false`: without CUDA, nothing joins GPUs.
pub(super) fn joins_gpus() -> bool {
    false
}
