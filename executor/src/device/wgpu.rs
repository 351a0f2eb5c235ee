//! GPUs through Vulkan, Metal or DirectX 12, whichever wgpu finds; also a software device such as Mesa's lavapipe, where
//! there is nothing else.

use super::card_memory::CardMemory;
use super::{Device, DeviceError, Devices, Driver, Speed, kept_kernels};
use burn::tensor::DeviceType;
use burn::tensor::wgpu::wgpu::{Backends, Instance, InstanceDescriptor};
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use trainyard_hardware_profiles::DeviceKind;
use trainyard_host::total_memory;
use trainyard_units::Bytes;

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

    fn free_memory(&self, index: usize) -> Option<Bytes> {
        memory_of(&found().as_ref().ok()?.opened[index]).map(|memory| memory.free)
    }
}

/// Finds graphics cards; where there are none, the device that computes on processors.
fn search() -> Result<Found, DeviceError> {
    kept_kernels::keep();
    let all: Vec<Device> =
        if has_adapter() { Device::enumerate(DeviceType::Wgpu).into_iter().collect() } else { vec![] };
    let is_card = |device: &Device| device.identity().is_some_and(|identity| identity.physical.is_some());
    let cards: Vec<Device> = all.iter().filter(|device| is_card(device)).cloned().collect();
    let (opened, speed) = if cards.is_empty() { (all, Speed::Software) } else { (cards, Speed::Gpu) };
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
    let memory = memory_of_all(&opened).or_else(total_memory);
    Ok(Found { devices: Devices { kind: DeviceKind::Wgpu, name, count: opened.len(), memory, speed }, opened })
}

/// The interfaces whose devices compute. Burn would go on to OpenGL, whose context belongs to one thread at a time, so that
/// ranks would wait for each other until they are ended.
const INTERFACES: Backends = Backends::VULKAN.union(Backends::METAL).union(Backends::DX12);

fn has_adapter() -> bool {
    let instance =
        Instance::new(InstanceDescriptor { backends: INTERFACES, ..InstanceDescriptor::new_without_display_handle() });
    // Outside of browsers the answer is there at once.
    let asked = pin!(instance.enumerate_adapters(INTERFACES));
    matches!(asked.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(adapters) if !adapters.is_empty())
}

/// Returns a card's own memory; `None` where it computes in main memory, or nobody tells.
fn memory_of(device: &Device) -> Option<CardMemory> {
    CardMemory::of(&device.identity()?.physical?.pci_address?.to_string())
}

/// Returns the memory of all cards, each as large as the smallest.
fn memory_of_all(cards: &[Device]) -> Option<Bytes> {
    let sizes: Option<Vec<u64>> = cards.iter().map(|card| Some(memory_of(card)?.total.0)).collect();
    Some(Bytes(sizes?.into_iter().min()? * cards.len() as u64))
}
