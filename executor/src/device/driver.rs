//! What CUDA's driver says.
#![allow(unsafe_code, reason = "to ask whether a library is there is to load it; see the arguments below")]

use super::{DeviceError, Gpus, toolkit};
use burn::tensor::Device;
use cudarc::driver::result::device;
use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, DriverError};
use std::sync::OnceLock;
use trainyard_units::Bytes;

/// Returns `true` if the driver's library can be loaded. Without it, everything else in this file would end the thread.
fn driver_is_there() -> bool {
    // SAFETY: this loads `libcuda` and nothing of it is called. Loading runs its initialisers, as it does in every
    // program that uses CUDA; the name is NVIDIA's own, found where the system's loader looks.
    unsafe { cudarc::driver::sys::is_culib_present() }
}

/// Returns `true` if the library that compiles kernels can be loaded.
fn compiler_is_there() -> bool {
    // SAFETY: as for the driver, of `libnvrtc`.
    unsafe { cudarc::nvrtc::sys::is_culib_present() }
}

/// Returns `true` if NCCL, which joins GPUs, can be loaded.
pub(super) fn joins_gpus() -> bool {
    // SAFETY: as for the driver, of `libnccl`.
    unsafe { cudarc::nccl::sys::is_culib_present() }
}

fn failed(error: DriverError) -> DeviceError {
    match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => DeviceError::NoGpu,
        _ => DeviceError::Driver { reason: error.to_string() },
    }
}

/// Finds the GPUs; see [`super::Gpus::find`]. What is there does not change while the program runs.
pub(super) fn find() -> Result<Gpus, DeviceError> {
    static FOUND: OnceLock<Result<Gpus, DeviceError>> = OnceLock::new();
    FOUND.get_or_init(search).clone()
}

fn search() -> Result<Gpus, DeviceError> {
    if !driver_is_there() {
        return Err(DeviceError::NoDriver);
    }
    let count = usize::try_from(CudaContext::device_count().map_err(failed)?).unwrap_or(0);
    if count == 0 {
        return Err(DeviceError::NoGpu);
    }
    if !compiler_is_there() {
        return Err(DeviceError::NoCompiler);
    }
    toolkit::headers(std::env::var_os("CUDA_PATH"), &|path| path.exists())?;
    let sizes: Vec<usize> = (0..count).map(total_memory).collect::<Result<_, _>>().map_err(failed)?;
    let name = device::get(0).and_then(device::get_name).map_err(failed)?;
    Ok(Gpus { name, count, memory: Bytes(sizes.into_iter().min().unwrap_or(0) as u64) })
}

/// Returns the bytes of memory that a GPU has. It is asked without a context, which would take some of it.
fn total_memory(index: usize) -> Result<usize, DriverError> {
    let gpu = device::get(index as i32)?;
    // SAFETY: the call wants a GPU that the driver named, as it did in the line before.
    unsafe { device::total_mem(gpu) }
}

/// Returns a GPU as Burn's device.
#[expect(clippy::unnecessary_wraps, reason = "without CUDA there is none")]
pub(super) fn gpu(index: usize) -> Result<Device, DeviceError> {
    Ok(Device::cuda(index))
}

/// Returns the memory of a GPU that is free now, if the driver reports it.
pub(crate) fn free_memory(index: usize) -> Option<Bytes> {
    let (free, _) = CudaContext::new(index).ok()?.mem_get_info().ok()?;
    Some(Bytes(free as u64))
}
