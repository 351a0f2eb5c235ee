//! Machines that are other than they are.

use super::setting::Setting;
use std::sync::Arc;
use trainyard_hardware_profiles::{Cluster, Fabric, Gpu, Interconnect, Network, Pool, Sourced, Stack};
use trainyard_sim::Machine;
use trainyard_units::{Bytes, BytesPerSecond, FlopsPerSecond};

/// The source of a number that is only supposed.
const SUPPOSED: &str = "supposed, to see what it would change";

/// A property of machines that can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Memory,
    MemoryBandwidth,
    Peak,
    Fp32,
    Fp16,
    Tf32,
    Bf16,
    Fp8,
    HostBandwidth,
    HostMemory,
    HostMemoryBandwidth,
    JpegDecode,
    LinkBandwidth,
    LinkLatency,
    Network,
    NetworkLatency,
    Decode,
    Storage,
    Launch,
    Software,
}

/// A property of a machine with its new setting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MachineChange {
    pub(crate) part: Part,
    pub(crate) setting: Setting,
}

/// A change of the price of instances.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PriceChange {
    /// The type whose price changes; `None` for all.
    pub(crate) instance: Option<&'static str>,
    pub(crate) setting: Setting,
}

impl PriceChange {
    /// Returns the new price of a type of machine, given the present one in USD an hour.
    pub(crate) fn of(&self, instance: &str, usd_per_hour: f64) -> f64 {
        let is_about = self.instance.is_none_or(|own| own == instance);
        if is_about { self.setting.of(usd_per_hour) } else { usd_per_hour }
    }

    /// Changes the prices of machines of a cluster, where its file says what they cost.
    pub(crate) fn apply(&self, cluster: &mut Cluster) {
        for pool in &mut cluster.pools {
            if let Some(price) = &mut pool.usd_per_hour {
                price.0 = self.of(&pool.name, price.0);
            }
        }
    }
}

impl MachineChange {
    /// Changes all machines of a cluster. Properties that a machine does not have are ignored.
    pub(crate) fn apply(&self, machine: &mut Machine) {
        let setting = &self.setting;
        if let (Part::Storage, Some(shared)) = (self.part, &mut machine.cluster.shared_storage) {
            for rate in [&mut shared.read, &mut shared.write, &mut shared.machine] {
                rate.0 = setting.of(rate.0);
            }
        }
        match self.part {
            Part::Launch => change_launch(Arc::make_mut(&mut machine.stack), setting),
            Part::Software => change_software(Arc::make_mut(&mut machine.stack), setting.of(1.0)),
            Part::LinkLatency => machine.cluster.latency.inside = setting.of(machine.cluster.latency.inside),
            Part::NetworkLatency => machine.cluster.latency.between = setting.of(machine.cluster.latency.between),
            part => machine.cluster.pools.iter_mut().for_each(|pool| change(pool, part, setting)),
        }
    }
}

fn change_launch(stack: &mut Stack, setting: &Setting) {
    stack.launch.value.0 = setting.of(stack.launch.value.0);
}

/// Makes everything that a stack computes `factor` times as fast: matrix products, other kernels, the update and
/// launches.
fn change_software(stack: &mut Stack, factor: f64) {
    stack.gemm.value *= factor;
    for traffic in [&mut stack.traffic, &mut stack.map_traffic, &mut stack.update_traffic] {
        traffic.value /= factor;
    }
    stack.launch.value.0 /= factor;
}

fn change(pool: &mut Pool, part: Part, setting: &Setting) {
    if let Some(gpu) = pool.device.gpu_mut() {
        change_gpu(gpu, part, setting);
    }
    if let Fabric::Wired { interconnect, network } = &mut pool.fabric {
        match part {
            Part::LinkBandwidth => change_links(interconnect, setting),
            Part::Network => change_network(network, setting),
            _ => {}
        }
    }
    let Some(host) = &mut pool.host else { return };
    match part {
        Part::HostMemory => host.memory = Bytes(setting.of(host.memory.as_f64()).round() as u64),
        Part::HostMemoryBandwidth => host.memory_bandwidth.0 = setting.of(host.memory_bandwidth.0),
        Part::Decode => {
            if let Some(processors) = &mut host.processors {
                processors.coremark = setting.of(processors.coremark);
            }
        }
        Part::Storage => {
            if let Some(remote) = &mut host.remote {
                (remote.s3.0, remote.ebs.0) = (setting.of(remote.s3.0), setting.of(remote.ebs.0));
            }
        }
        // Storage that comes over the network comes faster too.
        Part::Network => {
            if let Some(remote) = &mut host.remote {
                remote.network.0 = setting.of(remote.network.0);
            }
        }
        _ => {}
    }
}

fn change_gpu(gpu: &mut Gpu, part: Part, setting: &Setting) {
    let rate = |rate: &mut BytesPerSecond| rate.0 = setting.of(rate.0);
    match part {
        Part::Memory => gpu.memory.value = Bytes(setting.of(gpu.memory.value.as_f64()).round() as u64),
        Part::MemoryBandwidth => rate(&mut gpu.memory_bandwidth.value),
        Part::HostBandwidth => rate(&mut gpu.host_bandwidth.value),
        Part::JpegDecode => gpu.jpeg_decode = supposed(gpu.jpeg_decode.take(), setting, |r| r.0, BytesPerSecond),
        Part::Fp32 => gpu.peak_fp32.value.0 = setting.of(gpu.peak_fp32.value.0),
        Part::Fp16 => gpu.peak_fp16.value.0 = setting.of(gpu.peak_fp16.value.0),
        Part::Tf32 => gpu.peak_tf32 = supposed(gpu.peak_tf32.take(), setting, |r| r.0, FlopsPerSecond),
        Part::Bf16 => gpu.peak_bf16 = supposed(gpu.peak_bf16.take(), setting, |r| r.0, FlopsPerSecond),
        Part::Fp8 => gpu.peak_fp8 = supposed(gpu.peak_fp8.take(), setting, |r| r.0, FlopsPerSecond),
        Part::Peak => {
            let optional = [&mut gpu.peak_tf32, &mut gpu.peak_bf16, &mut gpu.peak_fp8].into_iter().flatten();
            for peak in optional.chain([&mut gpu.peak_fp32, &mut gpu.peak_fp16]) {
                peak.value.0 = setting.of(peak.value.0);
            }
        }
        _ => {}
    }
}

/// Changes a rate that a GPU may not have: a number gives it one, a factor does not.
fn supposed<T>(
    present: Option<Sourced<T>>,
    setting: &Setting,
    get: fn(&T) -> f64,
    make: fn(f64) -> T,
) -> Option<Sourced<T>> {
    match (present, setting) {
        (Some(present), _) => Some(Sourced { value: make(setting.of(get(&present.value))), ..present }),
        (None, Setting::Number(rate)) => Some(Sourced::new(make(*rate), SUPPOSED)),
        (None, _) => None,
    }
}

fn change_links(interconnect: &mut Interconnect, setting: &Setting) {
    match interconnect {
        Interconnect::Pcie { bandwidth } => bandwidth.value.0 = setting.of(bandwidth.value.0),
        Interconnect::Nvswitch { port, .. } => port.value.0 = setting.of(port.value.0),
        Interconnect::NvlinkMesh { link, pcie_bandwidth, .. } => {
            link.value.0 = setting.of(link.value.0);
            if let Setting::Factor(factor) = setting {
                pcie_bandwidth.value.0 *= factor;
            }
        }
    }
}

/// Changes the sustained rate; short bursts are at least as fast.
fn change_network(network: &mut Network, setting: &Setting) {
    network.baseline.value.0 = setting.of(network.baseline.value.0);
    network.burst.value.0 = network.burst.value.0.max(network.baseline.value.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;

    #[test]
    fn a_gpu_gets_a_format_by_a_number_only() {
        let catalog = catalog();
        let cluster = catalog.cluster("p3.2xlarge", 1).expect("in the catalog");
        let machine = Machine { cluster, stack: catalog.stack("pytorch").expect("in the catalog").clone() };
        let bf16 = |setting| {
            let mut other = machine.clone();
            MachineChange { part: Part::Bf16, setting }.apply(&mut other);
            other.has_units(trainyard_plan::Precision::Bf16Mixed).is_ok()
        };
        assert!(bf16(Setting::Number(100e12)) && !bf16(Setting::Factor(2.0)));
    }

    #[test]
    fn the_peak_of_all_formats_is_that_of_eight_bits_too() {
        let catalog = catalog();
        let mut gpu = catalog.gpu("h100-sxm5-80gb").expect("in the catalog").clone();
        let peak = |gpu: &Gpu| gpu.peak_fp8.as_ref().map(|peak| peak.value.0);
        let before = peak(&gpu);
        change_gpu(&mut gpu, Part::Peak, &Setting::Factor(2.0));
        assert_eq!(peak(&gpu), before.map(|rate| 2.0 * rate));
        assert!(before.is_some());
        change_gpu(&mut gpu, Part::Fp8, &Setting::Number(1e15));
        assert_eq!(peak(&gpu), Some(1e15));
    }
}
