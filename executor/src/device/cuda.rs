//! What CUDA's driver says.
#![allow(unsafe_code, reason = "to ask whether a library is there is to load it; see the arguments below")]

use super::{Device, DeviceError, Devices, Driver, Speed, kept_kernels, toolkit};
use cudarc::driver::result::device;
use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, DriverError};
use std::sync::OnceLock;
use trainyard_hardware_profiles::DeviceKind;
use trainyard_units::Bytes;

pub(super) struct Cuda;

impl Driver for Cuda {
    /// What is there does not change while the program runs.
    fn find(&self) -> Result<Devices, DeviceError> {
        static FOUND: OnceLock<Result<Devices, DeviceError>> = OnceLock::new();
        FOUND.get_or_init(search).clone()
    }

    fn framework(&self) -> &'static str {
        "burn 0.22.1 (cuda)"
    }

    fn open(&self, index: usize) -> Result<Device, DeviceError> {
        Ok(Device::cuda(index))
    }

    fn free_memory(&self, index: usize) -> Option<Bytes> {
        let (free, _) = CudaContext::new(index).ok()?.mem_get_info().ok()?;
        Some(Bytes(free as u64))
    }

    fn joins(&self) -> bool {
        nccl_is_there()
    }
}

/// Returns an error of CUDA's.
pub(super) fn error(problem: impl Into<String>, hint: &str) -> DeviceError {
    DeviceError { kind: DeviceKind::Cuda, problem: problem.into(), hint: hint.into() }
}

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
fn nccl_is_there() -> bool {
    // SAFETY: as for the driver, of `libnccl`.
    unsafe { cudarc::nccl::sys::is_culib_present() }
}

const INSTALL_DRIVER: &str = "install NVIDIA's driver; `nvidia-smi` tells whether it works";
const INSTALL_COMPILER: &str =
    "install CUDA's NVRTC (`libnvrtc.so` or `libnvrtc.so.13`) where LD_LIBRARY_PATH names its folder";

fn no_gpu() -> DeviceError {
    let hint = "`nvidia-smi` lists GPUs; `CUDA_VISIBLE_DEVICES` may hide them";
    error("the driver has no GPU for this process", hint)
}

fn failed(cause: DriverError) -> DeviceError {
    match cause.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => no_gpu(),
        _ => error(format!("the driver says: {cause}"), INSTALL_DRIVER),
    }
}

/// Looks for libraries before Burn is asked for a device, because its backend ends the rank if one is missing.
fn search() -> Result<Devices, DeviceError> {
    if !driver_is_there() {
        return Err(error("the driver's library `libcuda.so` is not there", INSTALL_DRIVER));
    }
    let count = usize::try_from(CudaContext::device_count().map_err(failed)?).unwrap_or(0);
    if count == 0 {
        return Err(no_gpu());
    }
    if !compiler_is_there() {
        return Err(error("CUDA's compiler library `libnvrtc.so` is not there", INSTALL_COMPILER));
    }
    toolkit::headers(std::env::var_os("CUDA_PATH"), &|path| path.exists())
        .map_err(|problem| error(problem, toolkit::HINT))?;
    kept_kernels::keep();
    let sizes: Vec<usize> = (0..count).map(total_memory).collect::<Result<_, _>>().map_err(failed)?;
    let name = device::get(0).and_then(device::get_name).map_err(failed)?;
    // The least of each, where they differ.
    let memory = Bytes(sizes.into_iter().min().unwrap_or(0) as u64 * count as u64);
    Ok(Devices { kind: DeviceKind::Cuda, name, count, memory: Some(memory), speed: Speed::Gpu })
}

/// Returns the bytes of memory that a GPU has. It is asked without a context, which would take some of it.
fn total_memory(index: usize) -> Result<usize, DriverError> {
    let gpu = device::get(index as i32)?;
    // SAFETY: the call wants a GPU that the driver named, as it did in the line before.
    unsafe { device::total_mem(gpu) }
}
