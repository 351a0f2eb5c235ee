//! The driver of a program that was built without CUDA: there is none.

use super::{DeviceError, Gpus};
use burn::tensor::Device;
use trainyard_units::Bytes;

/// See [`super::Gpus::find`].
pub(super) fn find() -> Result<Gpus, DeviceError> {
    Err(DeviceError::NotBuilt)
}

/// There is no GPU.
pub(super) fn gpu(_: usize) -> Result<Device, DeviceError> {
    Err(DeviceError::NotBuilt)
}

/// Nobody tells.
pub(crate) fn free_memory(_: usize) -> Option<Bytes> {
    None
}
