//! GPUs through Vulkan, Metal or DirectX 12, whichever wgpu finds; also a software device such as Mesa's lavapipe, where
//! there is nothing else.

use super::{Device, DeviceError, Devices, Driver};
use burn::tensor::DeviceType;
use std::sync::OnceLock;
use trainyard_hardware_profiles::DeviceKind;
use trainyard_host::total_memory;

pub(super) struct Wgpu;

/// The devices that wgpu may compute on, with what is told of them.
struct Found {
    devices: Devices,
    opened: Vec<Device>,
}

/// Looks once: what is there does not change while the program runs, and opening devices takes a while.
fn found() -> &'static Result<Found, DeviceError> {
    static FOUND: OnceLock<Result<Found, DeviceError>> = OnceLock::new();
    FOUND.get_or_init(search)
}

impl Driver for Wgpu {
    fn find(&self) -> Result<Devices, DeviceError> {
        found().as_ref().map(|found| found.devices.clone()).map_err(Clone::clone)
    }

    fn framework(&self) -> &'static str {
        "burn 0.22.1 (wgpu)"
    }

    fn open(&self, index: usize) -> Result<Device, DeviceError> {
        found().as_ref().map(|found| found.opened[index].clone()).map_err(Clone::clone)
    }
}

/// Finds graphics cards; where there are none, the device that computes on processors.
fn search() -> Result<Found, DeviceError> {
    let all: Vec<Device> = Device::enumerate(DeviceType::Wgpu).into_iter().collect();
    let is_card = |device: &Device| device.identity().is_some_and(|identity| identity.physical.is_some());
    let cards: Vec<Device> = all.iter().filter(|device| is_card(device)).cloned().collect();
    let (opened, large) = if cards.is_empty() { (all, false) } else { (cards, true) };
    let Some(first) = opened.first() else {
        return Err(DeviceError {
            kind: DeviceKind::Wgpu,
            problem: "no device answers through Vulkan, Metal or DirectX 12".into(),
            hint: "install the driver of your GPU with Vulkan (`vulkaninfo --summary` lists devices), or Mesa's \
                   software device (Debian: mesa-vulkan-drivers)"
                .into(),
        });
    };
    let name = first.identity().map_or_else(|| "wgpu".into(), |identity| identity.name);
    let memory = total_memory();
    Ok(Found { devices: Devices { kind: DeviceKind::Wgpu, name, count: opened.len(), memory, large }, opened })
}
