//! Threads of this machine's processors, which Burn's Flex and the kernels of this crate compute on.

use super::{Device, DeviceError, Devices, Driver, Speed};
use trainyard_hardware_profiles::DeviceKind;
use trainyard_host::total_memory;
use trainyard_host::{cores, processor_name};

pub(super) struct Processors;

impl Driver for Processors {
    fn find(&self) -> Result<Devices, DeviceError> {
        let (name, memory) = (processor_name(), total_memory());
        Ok(Devices { kind: DeviceKind::Cpu, name, count: cores(), memory, speed: Speed::Processors })
    }

    fn framework(&self) -> &'static str {
        "burn 0.22.1 (flex)"
    }

    fn open(&self, _: usize) -> Result<Device, DeviceError> {
        Ok(Device::flex())
    }

    fn is_asynchronous(&self) -> bool {
        false
    }
}
