//! What machines have at present of what can be varied.

use super::machine::Part;
use trainyard_hardware_profiles::{Fabric, Gpu, Interconnect, Network, Pool};
use trainyard_sim::Machine;
use trainyard_units::{human_bytes, human_count, human_duration};

impl Part {
    /// Returns what machines have of it, `8 × 400 Gbit/s = 3,200 Gbit/s a machine`; `None` if they have none, or if it is
    /// several figures.
    pub(crate) fn present(self, machine: &Machine) -> Option<String> {
        if self == Self::Launch {
            return Some(human_duration(machine.stack.launch.value));
        }
        let mut kinds: Vec<String> = machine.cluster.pools.iter().filter_map(|pool| of_pool(self, pool)).collect();
        kinds.dedup();
        (!kinds.is_empty()).then(|| kinds.join(" and "))
    }
}

fn of_pool(part: Part, pool: &Pool) -> Option<String> {
    match (part, &pool.fabric) {
        (Part::Network, Fabric::Wired { network, .. }) => Some(cards_in_words(network)),
        (Part::LinkBandwidth, Fabric::Wired { interconnect, .. }) => Some(of_links(interconnect)),
        (Part::HostMemory, _) => Some(human_bytes(pool.host.as_ref()?.memory)),
        (Part::HostMemoryBandwidth, _) => Some(pool.host.as_ref()?.memory_bandwidth.to_string()),
        _ => of_gpu(part, pool.device.gpu()?),
    }
}

fn of_gpu(part: Part, gpu: &Gpu) -> Option<String> {
    Some(match part {
        Part::Memory => human_bytes(gpu.memory.value),
        Part::MemoryBandwidth => gpu.memory_bandwidth.value.to_string(),
        Part::HostBandwidth => gpu.host_bandwidth.value.to_string(),
        Part::JpegDecode => gpu.jpeg_decode.as_ref()?.value.to_string(),
        Part::Fp32 => gpu.peak_fp32.value.to_string(),
        Part::Fp16 => gpu.peak_fp16.value.to_string(),
        Part::Tf32 => gpu.peak_tf32.as_ref()?.value.to_string(),
        Part::Bf16 => gpu.peak_bf16.as_ref()?.value.to_string(),
        Part::Fp8 => gpu.peak_fp8.as_ref()?.value.to_string(),
        _ => return None,
    })
}

fn of_links(interconnect: &Interconnect) -> String {
    match interconnect {
        Interconnect::Pcie { bandwidth } => bandwidth.value.to_string(),
        Interconnect::NvlinkMesh { link, .. } => link.value.to_string(),
        Interconnect::Nvswitch { port, .. } => port.value.to_string(),
    }
}

/// Formats the sustained rate of all cards of a machine, with that of each if they are several.
pub fn cards_in_words(network: &Network) -> String {
    let all = network.baseline.value.0;
    let cards = match network.interfaces {
        0 | 1 => String::new(),
        cards => format!("{cards} × {} = ", gigabits(all / f64::from(cards))),
    };
    format!("{cards}{} a machine", gigabits(all))
}

/// Formats a rate as network cards are named by it: `400 Gbit/s`, `12.5 Gbit/s`.
pub(crate) fn gigabits(bytes_per_second: f64) -> String {
    let rate = (bytes_per_second * 8.0 / 1e9 * 100.0).round() / 100.0;
    if rate.fract() == 0.0 { format!("{} Gbit/s", human_count(rate as u64)) } else { format!("{rate} Gbit/s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;

    #[test]
    fn the_network_of_a_machine_is_that_of_its_cards_together() {
        let of = |instance: &str| {
            let cluster = catalog().cluster(instance, 2).expect("in the catalog");
            let machine = Machine { cluster, stack: catalog().stack("pytorch").expect("in the catalog").clone() };
            move |part: Part| part.present(&machine)
        };
        assert_eq!(of("p4d.24xlarge")(Part::Network).as_deref(), Some("4 × 100 Gbit/s = 400 Gbit/s a machine"));
        assert_eq!(of("p3.16xlarge")(Part::Network).as_deref(), Some("25 Gbit/s a machine"));
        assert!(of("p4d.24xlarge")(Part::Memory).is_some_and(|memory| memory.ends_with(" GiB")));
        assert_eq!((of("p3.16xlarge")(Part::Bf16), of("p3.16xlarge")(Part::Peak)), (None, None));
    }
}
