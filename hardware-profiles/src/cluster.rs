//! Clusters: pools of machines, the switches between them, and where each device stands.

use crate::gpu::Gpu;
use crate::instance::Instance;
use crate::interconnect::Interconnect;
use crate::measured::MeasuredMachine;
use crate::network::Network;
use crate::site::SlurmSpec;
use crate::storage::SharedStorage;
use std::collections::BTreeMap;
use trainyard_units::{Bytes, BytesPerSecond, UsdPerHour};

/// A device that computes.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a handful exist at a time, and the large variant is the common one")]
pub enum Device {
    /// A GPU described by its catalog entry.
    Gpu(Gpu),
    /// A part of a measured machine.
    Measured(MeasuredMachine),
}

impl Device {
    /// Returns the name in the catalog or in the profile.
    pub fn name(&self) -> &str {
        match self {
            Self::Gpu(gpu) => &gpu.name,
            Self::Measured(machine) => &machine.name,
        }
    }

    /// Returns the datasheet, if the device is a GPU.
    pub fn gpu(&self) -> Option<&Gpu> {
        match self {
            Self::Gpu(gpu) => Some(gpu),
            Self::Measured(_) => None,
        }
    }

    /// Returns the datasheet for changes, if the device is a GPU.
    pub fn gpu_mut(&mut self) -> Option<&mut Gpu> {
        match self {
            Self::Gpu(gpu) => Some(gpu),
            Self::Measured(_) => None,
        }
    }

    /// Returns the profile of a measured machine, whose ranks share its memory and processors.
    pub fn measured(&self) -> Option<&MeasuredMachine> {
        match self {
            Self::Measured(machine) => Some(machine),
            Self::Gpu(_) => None,
        }
    }
}

/// The connection between devices.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a handful exist at a time, and the large variant is the common one")]
pub enum Fabric {
    /// Links inside an instance and a network between instances.
    Wired {
        /// The connection inside an instance.
        interconnect: Interconnect,
        /// The network between instances.
        network: Network,
    },
    /// Shared memory of a measured machine.
    Measured,
}

/// The memory, disk and PCIe tree that the devices of a machine share.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Size of main memory.
    pub memory: Bytes,
    /// Nominal bandwidth of main memory, all channels together.
    pub memory_bandwidth: BytesPerSecond,
    /// Size of the local disk; zero if there is none.
    pub disk: Bytes,
    /// Sequential rate of the local disk; zero if there is none.
    pub disk_bandwidth: BytesPerSecond,
    /// The PCIe tree between devices and processor.
    pub pcie: PcieTree,
    /// The processors, which decode samples, where they are known.
    pub processors: Option<Processors>,
    /// The rates of remote storage, where there is some.
    pub remote: Option<Remote>,
}

/// The processors of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processors {
    /// Number of virtual processors.
    pub vcpus: u32,
    /// Virtual processors per core.
    pub threads_per_core: u32,
    /// CoreMark iterations per second and virtual processor.
    pub coremark: f64,
    /// Speed of one thread alone, relative to the processor on which stacks state their launches.
    pub single_thread: f64,
}

/// Rates at which a machine reaches storage that is not its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remote {
    /// Rate of object storage.
    pub s3: BytesPerSecond,
    /// Rate of all volumes.
    pub ebs: BytesPerSecond,
    /// Rate of everything that comes over the network.
    pub network: BytesPerSecond,
}

impl Host {
    /// Returns the host of a machine type.
    pub(crate) fn of(instance: &Instance) -> Self {
        let links = &instance.host;
        Self {
            memory: instance.memory.value,
            memory_bandwidth: links.memory_bandwidth.value,
            disk: instance.disk.value,
            disk_bandwidth: links.disk_bandwidth.value,
            pcie: PcieTree { devices_per_switch: links.gpus_per_pcie_switch.value, uplink: links.pcie_uplink.value },
            processors: instance.processor.as_ref().map(|processor| Processors {
                vcpus: instance.vcpus,
                threads_per_core: processor.threads_per_core.value,
                coremark: processor.coremark.value,
                single_thread: processor.single_thread.value,
            }),
            remote: instance.storage.as_ref().map(|storage| Remote {
                s3: storage.s3.value,
                ebs: storage.ebs.value,
                network: instance.network.baseline.value,
            }),
        }
    }
}

/// PCIe switches between the devices and the processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcieTree {
    /// Number of devices that share one uplink to the processor.
    pub devices_per_switch: u32,
    /// Nominal bandwidth of that uplink, one direction.
    pub uplink: BytesPerSecond,
}

/// Machines of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The name of the machine type.
    pub name: String,
    /// Number of machines; at least one.
    pub instances: u32,
    /// Number of devices per machine; at least one.
    pub devices_per_instance: u32,
    pub device: Device,
    /// The connection between devices.
    pub fabric: Fabric,
    /// The memory, disk and PCIe tree that the devices of a machine share, where they are known.
    pub host: Option<Host>,
    /// What an hour of one machine costs, where the cluster file says it. Prices of the catalog are on terms, and not here.
    pub usd_per_hour: Option<UsdPerHour>,
    /// What jobs on these machines ask Slurm for, as far as it is said of them alone.
    pub slurm: SlurmSpec,
}

/// One level of switches between machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchLevel {
    /// Number of machines (lowest level) or of switches of the level below under one switch; at least one.
    pub ports: u32,
    /// Bandwidth of the ports over bandwidth of the uplinks; at least 1, which makes a non-blocking switch.
    pub oversubscription: f64,
}

/// Returns the number of machines that switches have ports for, from the machines upwards; `None` if none are described.
pub(crate) fn room(switches: &[SwitchLevel]) -> Option<u64> {
    let ports = |room: u64, level: &SwitchLevel| room.saturating_mul(level.ports.into());
    (!switches.is_empty()).then(|| switches.iter().fold(1, ports))
}

/// Factors on the latencies of collectives and messages, relative to the library's constants. They differ from 1 only
/// to answer what a better or a worse network would change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyFactors {
    /// Factor where only devices of one machine take part.
    pub inside: f64,
    /// Factor as soon as two machines take part.
    pub between: f64,
}

impl Default for LatencyFactors {
    fn default() -> Self {
        Self { inside: 1.0, between: 1.0 }
    }
}

/// Machines and the switches between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The name of the machine type, or of the cluster.
    pub instance: String,
    /// Pools in rank order: ranks fill the machines of the first pool first. At least one.
    pub pools: Vec<Pool>,
    /// Switches from the machines upwards; if empty, one non-blocking switch.
    pub switches: Vec<SwitchLevel>,
    /// `true` if traffic between machines is encrypted.
    pub encrypted: bool,
    /// Factors on the library's latencies.
    pub latency: LatencyFactors,
    /// The file system of one's own that all machines mount.
    pub shared_storage: Option<SharedStorage>,
    /// What jobs on any of the machines ask Slurm for.
    pub slurm: SlurmSpec,
    /// Environment variables of all ranks.
    pub environment: BTreeMap<String, String>,
}

/// The place of a device: its machine, and its slot there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevicePosition {
    /// Index of the machine, counted over all pools.
    pub instance: u32,
    /// Index of the device on that machine.
    pub slot: u32,
}

impl Pool {
    /// Returns the number of devices of all its machines, saturating.
    pub fn devices(&self) -> u32 {
        self.instances.saturating_mul(self.devices_per_instance)
    }

    /// Returns in what machines of another pool differ that whoever starts the same on all must know; `None` if in nothing
    /// but network cards, host and price.
    fn unlike(&self, other: &Self) -> Option<&'static str> {
        let gpu = |pool: &Self| pool.device.gpu().map(|gpu| (gpu.name.clone(), gpu.memory.value));
        if gpu(self).is_none() || gpu(self) != gpu(other) {
            return Some("GPUs");
        }
        if self.devices_per_instance != other.devices_per_instance {
            return Some("numbers of GPUs");
        }
        let (Fabric::Wired { interconnect, network }, Fabric::Wired { interconnect: links, network: cards }) =
            (&self.fabric, &other.fabric)
        else {
            return Some("links between GPUs");
        };
        if !interconnect.is_like(links) {
            return Some("links between GPUs");
        }
        (network.transport != cards.transport).then_some("transports")
    }
}

/// Returns what an hour of one of some machines costs as their cluster file says, of kinds that differ the mean, so that
/// all together cost so many times as much as there are machines; `None` where it says nothing.
pub fn price_of_one(pools: &[Pool]) -> Option<UsdPerHour> {
    if let [alike] = pools {
        return alike.usd_per_hour;
    }
    let all = pools.iter().map(|pool| Some(f64::from(pool.instances) * pool.usd_per_hour?.0)).sum::<Option<f64>>()?;
    let machines: f64 = pools.iter().map(|pool| f64::from(pool.instances)).sum();
    Some(UsdPerHour(all / machines))
}

impl Cluster {
    /// Returns the machines of one kind without the others, behind the same switches; `None` if no kind is called so.
    pub fn kind(&self, name: &str) -> Option<Self> {
        let pool = self.pools.iter().find(|pool| pool.name == name)?;
        Some(Self { instance: pool.name.clone(), pools: vec![pool.clone()], ..self.clone() })
    }

    /// Builds a cluster of one pool behind one non-blocking switch, without encryption of its traffic.
    pub fn of_pool(pool: Pool) -> Self {
        Self {
            instance: pool.name.clone(),
            pools: vec![pool],
            switches: Vec::new(),
            encrypted: false,
            latency: LatencyFactors::default(),
            shared_storage: None,
            slurm: SlurmSpec::default(),
            environment: BTreeMap::new(),
        }
    }

    /// Builds a cluster of `instances` machines of a catalog type.
    pub(crate) fn of_instances(instance: &Instance, gpu: &Gpu, instances: u32) -> Self {
        Self::of_pool(Pool {
            name: instance.name.clone(),
            instances,
            devices_per_instance: instance.gpus,
            device: Device::Gpu(gpu.clone()),
            fabric: Fabric::Wired { interconnect: instance.interconnect.clone(), network: instance.network.clone() },
            host: Some(Host::of(instance)),
            usd_per_hour: None,
            slurm: SlurmSpec::default(),
        })
    }

    /// Builds a cluster of one measured machine.
    pub fn of_measured(machine: MeasuredMachine) -> Self {
        Self::of_pool(Pool {
            name: machine.name.clone(),
            instances: 1,
            devices_per_instance: machine.devices,
            device: Device::Measured(machine),
            fabric: Fabric::Measured,
            host: None,
            usd_per_hour: None,
            slurm: SlurmSpec::default(),
        })
    }

    /// Returns the first pool, which is the only one of a cluster that is not mixed.
    pub fn first(&self) -> &Pool {
        &self.pools[0]
    }

    /// Returns `true` if there are machines of more than one type.
    pub fn is_mixed(&self) -> bool {
        self.pools.len() > 1
    }

    /// Returns in what its machines differ that a launcher must know, which starts the same on all; `None` if they differ in
    /// nothing but network cards, host and price, or not at all.
    pub fn unlike(&self) -> Option<&'static str> {
        self.pools.iter().skip(1).find_map(|pool| self.first().unlike(pool))
    }

    /// Returns the number of machines.
    pub fn machines(&self) -> u32 {
        self.pools.iter().map(|pool| pool.instances).sum()
    }

    /// Returns the number of machines that its switches have ports for; `None` if no switches are described.
    pub fn room(&self) -> Option<u64> {
        room(&self.switches)
    }

    /// Returns the number of devices, saturating.
    pub fn devices(&self) -> u32 {
        self.pools.iter().fold(0, |sum, pool| sum.saturating_add(pool.devices()))
    }

    /// Returns the place of a device, with devices counted machine by machine in the order of the pools. For a number
    /// beyond the last device it is the place that it would have if the last pool had more machines.
    pub fn position(&self, device: u32) -> DevicePosition {
        let (mut machines, mut devices) = (0, 0);
        let mut pool = self.first();
        for next in &self.pools[1..] {
            if device - devices < pool.devices() {
                break;
            }
            machines += pool.instances;
            devices += pool.devices();
            pool = next;
        }
        let within = device - devices;
        DevicePosition {
            instance: machines + within / pool.devices_per_instance,
            slot: within % pool.devices_per_instance,
        }
    }

    /// Returns the index of the pool that a machine belongs to; the last pool for machines beyond the last.
    pub fn pool_index(&self, instance: u32) -> usize {
        let mut machines = 0;
        let before = |pool: &&Pool| {
            machines += pool.instances;
            machines <= instance
        };
        self.pools.iter().take_while(before).count().min(self.pools.len() - 1)
    }

    /// Returns the pool that a machine belongs to.
    pub fn pool_of(&self, instance: u32) -> &Pool {
        &self.pools[self.pool_index(instance)]
    }

    /// Returns the memory that the rank on a device may use at most while `ranks` ranks are at work: a GPU's own, or an
    /// equal share of a measured machine's.
    pub fn memory_per_rank(&self, position: DevicePosition, ranks: u32) -> Bytes {
        match &self.pool_of(position.instance).device {
            Device::Gpu(gpu) => gpu.memory.value,
            Device::Measured(machine) => Bytes(machine.memory.0 / u64::from(ranks.max(1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::catalog;
    use crate::network::Transport;
    use crate::sourced::Sourced;
    use proptest::prelude::*;

    fn mixed(machines: &[(&str, u32)]) -> Cluster {
        let pools = machines
            .iter()
            .map(|(name, count)| catalog().cluster(name, *count).expect("in the catalog").pools.remove(0))
            .collect();
        let latency = LatencyFactors::default();
        Cluster {
            instance: "mixed".into(),
            pools,
            switches: Vec::new(),
            encrypted: false,
            latency,
            shared_storage: None,
            slurm: SlurmSpec::default(),
            environment: BTreeMap::new(),
        }
    }

    #[test]
    fn ranks_fill_the_first_pool_first() {
        let cluster = mixed(&[("p3.8xlarge", 2), ("p4d.24xlarge", 1)]);
        assert_eq!((cluster.machines(), cluster.devices(), cluster.is_mixed()), (3, 16, true));
        assert_eq!(cluster.position(7), DevicePosition { instance: 1, slot: 3 });
        assert_eq!(cluster.position(8), DevicePosition { instance: 2, slot: 0 });
        assert_eq!([0, 1, 2].map(|machine| cluster.pool_index(machine)), [0, 0, 1]);
        let memory = |device| cluster.memory_per_rank(cluster.position(device), 16);
        assert!(memory(8) > memory(7));
    }

    #[test]
    fn machines_that_differ_in_cards_host_or_price_are_started_alike() {
        let of = |change: fn(&mut Pool)| {
            let mut cluster = mixed(&[("p5.48xlarge", 1), ("p5.48xlarge", 1)]);
            change(&mut cluster.pools[1]);
            cluster.unlike()
        };
        let network = |pool: &mut Pool, change: fn(&mut Network)| match &mut pool.fabric {
            Fabric::Wired { network, .. } => change(network),
            Fabric::Measured => panic!("machines with a network"),
        };
        assert_eq!(of(|_| ()), None);
        let alike = |pool: &mut Pool| {
            (pool.host, pool.usd_per_hour) = (None, Some(UsdPerHour(1.0)));
            network(pool, |network| network.interfaces = 4);
        };
        let mut cluster = mixed(&[("p5.48xlarge", 1), ("p5.48xlarge", 1)]);
        alike(&mut cluster.pools[1]);
        assert_eq!(cluster.unlike(), None);
        network(&mut cluster.pools[1], |network| network.transport = Transport::Tcp);
        assert_eq!(cluster.unlike(), Some("transports"));
        assert_eq!(of(|pool| pool.devices_per_instance = 4), Some("numbers of GPUs"));
        assert_eq!(mixed(&[("p4d.24xlarge", 1), ("p5.48xlarge", 1)]).unlike(), Some("GPUs"));
        let pcie = Interconnect::Pcie { bandwidth: Sourced::new(BytesPerSecond(1e10), "stated") };
        let mut cluster = mixed(&[("p5.48xlarge", 1), ("p5.48xlarge", 1)]);
        if let Fabric::Wired { interconnect, .. } = &mut cluster.pools[1].fabric {
            *interconnect = pcie;
        }
        assert_eq!(cluster.unlike(), Some("links between GPUs"));
        assert_eq!(mixed(&[("p5.48xlarge", 2)]).unlike(), None);
    }

    proptest! {
        #[test]
        fn devices_stand_one_after_another(counts in proptest::collection::vec(1u32..4, 1..5), offset in 0usize..3) {
            let types = ["p3.2xlarge", "g4dn.12xlarge", "p4d.24xlarge"];
            let machines: Vec<(&str, u32)> =
                counts.iter().enumerate().map(|(index, count)| (types[(index + offset) % 3], *count)).collect();
            let cluster = mixed(&machines);
            // The slow twin: every device written down.
            let (mut all, mut machine) = (Vec::new(), 0);
            for (index, pool) in cluster.pools.iter().enumerate() {
                for _ in 0..pool.instances {
                    all.extend((0..pool.devices_per_instance).map(|slot| (DevicePosition { instance: machine, slot }, index)));
                    machine += 1;
                }
            }
            prop_assert_eq!((cluster.devices() as usize, cluster.machines()), (all.len(), machine));
            for (device, (position, pool)) in all.into_iter().enumerate() {
                prop_assert_eq!(cluster.position(device as u32), position);
                prop_assert_eq!(cluster.pool_index(position.instance), pool);
            }
        }
    }
}
