//! Clusters: instances of one kind, their devices, and where each device stands.

use crate::gpu::Gpu;
use crate::instance::{Instance, Interconnect, Network};
use crate::measured::MeasuredMachine;
use trainyard_units::Bytes;

/// What computes.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a handful exist at a time, and the large variant is the common one")]
pub enum Device {
    /// A GPU described by its catalog entry.
    Gpu(Gpu),
    /// A part of a measured machine.
    Measured(MeasuredMachine),
}

/// How devices reach each other.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a handful exist at a time, and the large variant is the common one")]
pub enum Fabric {
    /// Links inside an instance and a network between instances.
    Wired {
        /// Inside.
        interconnect: Interconnect,
        /// Between.
        network: Network,
    },
    /// Shared memory of a measured machine.
    Measured,
}

/// Machines of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The name of the machine type.
    pub instance: String,
    /// How many machines.
    pub instances: u32,
    /// Devices of one machine.
    pub devices_per_instance: u32,
    /// What computes.
    pub device: Device,
    /// How devices reach each other.
    pub fabric: Fabric,
}

/// A device's place: which machine, and which device of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevicePosition {
    /// Machine.
    pub instance: u32,
    /// Device of that machine.
    pub slot: u32,
}

impl Cluster {
    /// `instances` machines of a catalog type.
    pub fn of_instances(instance: &Instance, gpu: &Gpu, instances: u32) -> Self {
        Self {
            instance: instance.name.clone(),
            instances,
            devices_per_instance: instance.gpus,
            device: Device::Gpu(gpu.clone()),
            fabric: Fabric::Wired { interconnect: instance.interconnect.clone(), network: instance.network.clone() },
        }
    }

    /// One measured machine.
    pub fn of_measured(machine: MeasuredMachine) -> Self {
        Self {
            instance: machine.name.clone(),
            instances: 1,
            devices_per_instance: machine.devices,
            device: Device::Measured(machine),
            fabric: Fabric::Measured,
        }
    }

    /// All devices.
    pub fn devices(&self) -> u32 {
        self.instances * self.devices_per_instance
    }

    /// Where the device of a rank stands when ranks fill one machine after another.
    pub fn position(&self, rank: u32) -> DevicePosition {
        DevicePosition { instance: rank / self.devices_per_instance, slot: rank % self.devices_per_instance }
    }

    /// Memory that `ranks` ranks on this cluster may each use at most.
    pub fn memory_per_rank(&self, ranks: u32) -> Bytes {
        match &self.device {
            Device::Gpu(gpu) => gpu.memory.value,
            Device::Measured(machine) => Bytes(machine.memory.0 / u64::from(ranks.max(1))),
        }
    }
}
