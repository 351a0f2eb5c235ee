//! What may be wrong in the file of a cluster: links and cards that are too fast to be true, links that are missing, too little
//! main memory, and what it leaves open of prices and storage.

use crate::edits::gigabits;
use crate::problem::Place;
use std::mem::discriminant;
use trainyard_hardware_profiles::{Fabric, Gpu, Instance, Interconnect, Pool, catalog};
use trainyard_plan::document::Prediction;
use trainyard_plan::{JobSpec, Objective};
use trainyard_units::{Bytes, BytesPerSecond, human_bytes};

/// Lists what is told of each kind of machines of a cluster file, given its number, the machines and the file.
fn of_kinds(place: &Place, told: impl Fn(usize, &Pool, &str) -> Option<String>) -> Vec<String> {
    let Some((machine, file)) = place.cluster_file() else { return Vec::new() };
    machine.cluster.pools.iter().enumerate().filter_map(|(index, pool)| told(index, pool, file)).collect()
}

/// The part of the memory of a machine's GPUs below which its main memory is taken for a slip: a stated default.
const MAIN_MEMORY: f64 = 0.125;

/// Lists sentences about machines of a cluster file with so little main memory that it may be that of something else.
pub(super) fn little_main_memory(place: &Place) -> Vec<String> {
    of_kinds(place, |index, pool, file| {
        let (main, gpu) = (pool.host.as_ref()?.memory, pool.device.gpu()?.memory.value);
        let all = Bytes(gpu.0 * u64::from(pool.devices_per_instance));
        (main.as_f64() < MAIN_MEMORY * all.as_f64()).then(|| {
            format!(
                "`machines[{index}].host.memory` of {file} is {}, less than an eighth of the GPUs' {}: weights, checkpoints and \
                 data loaders pass through it",
                human_bytes(main),
                human_bytes(all)
            )
        })
    })
}

/// The ratio to the links of the catalog's machines above which a stated link is told: that of both directions to one is
/// 2, and links of the same GPUs differ by less.
const LINK_RATIO: f64 = 1.5;

/// Lists sentences about links of a cluster file that are so much faster than those between the same GPUs in machines of
/// the catalog that both directions may have been counted, as datasheets do.
pub(super) fn doubled_links(place: &Place) -> Vec<String> {
    of_kinds(place, |index, pool, file| {
        let Fabric::Wired { interconnect, .. } = &pool.fabric else { return None };
        let (own, (fastest, like)) = (link_rate(interconnect)?, fastest_link(pool.device.gpu()?, interconnect)?);
        let ratio = own.0 / fastest.0;
        (ratio > LINK_RATIO).then(|| {
            format!(
                "`machines[{index}].link.bandwidth` of {file} is {own}, {ratio:.1} times the {fastest} that a link of {like}, \
                 with the same GPUs, has in one direction; datasheets count both: write that of one, or the prediction is \
                 too fast"
            )
        })
    })
}

/// The fastest network card that there is, in bytes a second: 800 Gbit/s (NVIDIA ConnectX-8 SuperNIC, data sheet).
const CARD: f64 = 800e9 / 8.0;

/// Lists sentences about machines of a cluster file with network cards that are faster than any: of a rate that is written in
/// bytes instead of bits, or is that of a whole machine.
pub(super) fn impossible_cards(place: &Place) -> Vec<String> {
    of_kinds(place, |index, pool, file| {
        let Fabric::Wired { network, .. } = &pool.fabric else { return None };
        let rate = network.baseline.value.0 / f64::from(network.interfaces);
        (rate > CARD * 1.001).then(|| {
            format!(
                "`machines[{index}].network.bandwidth` of {file} is {} of each card ({} in a machine), and no card has more \
                 than {}: cards are named by Gbit/s, eighths of GB/s, and `bandwidth` is that of one; the prediction is too \
                 fast",
                gigabits(rate),
                network.interfaces,
                gigabits(CARD)
            )
        })
    })
}

/// Lists sentences about machines of a cluster file whose GPUs talk over PCIe, though the same GPUs have NVLink in every
/// machine of the catalog.
pub(super) fn without_links(place: &Place) -> Vec<String> {
    of_kinds(place, |index, pool, file| {
        let Fabric::Wired { interconnect: Interconnect::Pcie { .. }, .. } = &pool.fabric else { return None };
        let gpu = pool.device.gpu()?;
        let alike: Vec<&Instance> =
            catalog().machine_types().filter(|own| own.gpu == gpu.name && own.gpus > 1).collect();
        let known = alike.first()?;
        let (rate, kind) = (link_rate(&known.interconnect)?, kind_of(&known.interconnect)?);
        let all = alike.iter().all(|own| link_rate(&own.interconnect).is_some());
        (pool.devices_per_instance > 1 && all).then(|| {
            format!(
                "the {} GPUs of {} are taken to be connected by PCIe, because `machines[{index}]` of {file} has no link \
                 besides: {} has NVLink in {}; if yours have it too, write [machines.link] with kind = \"{kind}\" and \
                 bandwidth = \"{rate}\", in one direction",
                pool.devices_per_instance, pool.name, gpu.name, known.name
            )
        })
    })
}

/// Names a kind of links as a cluster file does.
fn kind_of(interconnect: &Interconnect) -> Option<&'static str> {
    match interconnect {
        Interconnect::Nvswitch { .. } => Some("nvswitch"),
        Interconnect::NvlinkMesh { .. } => Some("nvlink"),
        Interconnect::Pcie { .. } => None,
    }
}

/// Warns that what surrounds the steps is not counted on machines of a cluster file that does not say how fast checkpoints
/// are written, where their cost is asked for or the job says something of it.
pub(super) fn uncounted_overheads(place: &Place, job: &JobSpec, prediction: &Prediction) -> Option<String> {
    let (_, file) = place.cluster_file()?;
    let asked = prediction.cost_usd.is_some() || job.campaign.is_some();
    (asked && prediction.start_up_s.is_none()).then(|| {
        format!(
            "start-up, checkpoints and failures are not in time and cost, because nobody says how fast checkpoints are written: \
             [shared_storage] in {file} or campaign.checkpoint_bandwidth in the job does"
        )
    })
}

/// Returns the rate of a link of NVLink or of a port of NVSwitch, in one direction.
fn link_rate(interconnect: &Interconnect) -> Option<BytesPerSecond> {
    match interconnect {
        Interconnect::Nvswitch { port, .. } => Some(port.value),
        Interconnect::NvlinkMesh { link, .. } => Some(link.value),
        Interconnect::Pcie { .. } => None,
    }
}

/// Returns the fastest link of this kind between such GPUs in a machine type of the catalog, with that type's name.
fn fastest_link(gpu: &Gpu, kind: &Interconnect) -> Option<(BytesPerSecond, &'static str)> {
    let alike =
        |instance: &&Instance| instance.gpu == gpu.name && discriminant(&instance.interconnect) == discriminant(kind);
    let links = catalog().instances().iter().filter(alike);
    let rates = links.filter_map(|instance| Some((link_rate(&instance.interconnect)?, instance.name.as_str())));
    rates.max_by(|(one, _), (other, _)| one.0.total_cmp(&other.0))
}

/// Tells that time is sought in place of the cost that the job names, on machines without a price.
pub(super) fn without_price(place: &Place, job: &JobSpec) -> Option<String> {
    (job.goal.objective == Some(Objective::Cost) && !place.is_priced()).then(|| {
        "the fastest plan is sought and not the cheapest, because these machines have no price: usd_per_hour in [[machines]] of \
         the cluster file says what an hour of one costs"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{asking, problem};

    /// What is said of the links of a machine with H100 and `bandwidth` into the switch.
    fn told(gpu: &str, bandwidth: &str) -> Vec<String> {
        doubled_links(&place(gpu, &format!("link = {{ kind = \"nvswitch\", bandwidth = \"{bandwidth}\" }}")))
    }

    fn place(gpu: &str, link: &str) -> Place {
        let text = format!(
            "name = \"own\"\n[[machines]]\nname = \"node\"\ncount = 1\ngpus = 8\ngpu = {gpu}\n{link}\n\
             host = {{ memory = \"2 TB\", memory_bandwidth = \"600 GB/s\", pcie = \"63 GB/s\" }}\n"
        );
        let (mut job, own) = asking::on_own("gpt2", 64, &text);
        job.data.samples = Some(1000);
        problem(&job, own).expect("solvable").place
    }

    #[test]
    fn a_cost_that_cannot_be_sought_is_told() {
        let place = place("\"h100-sxm5-80gb\"", "");
        let mut job = JobSpec::default();
        assert_eq!(without_price(&place, &job), None);
        job.goal.objective = Some(Objective::Cost);
        assert!(without_price(&place, &job).is_some_and(|told| told.contains("usd_per_hour")));
        let mut rented = asking::job("gpt2", 8, &["p3.2xlarge"], 1);
        rented.data.samples = Some(1000);
        assert_eq!(without_price(&asking::solvable(&rented).place, &job), None);
    }

    #[test]
    fn machines_without_a_link_are_told_where_the_same_gpus_have_one() {
        let told = |gpu, link| without_links(&place(gpu, link));
        let sxm = told("\"h100-sxm5-80gb\"", "");
        let [only] = sxm.as_slice() else { panic!("{sxm:?}") };
        let start =
            "the 8 GPUs of node are taken to be connected by PCIe, because `machines[0]` of own.toml has no link";
        assert!(only.starts_with(start) && only.contains("kind = \"nvswitch\" and bandwidth = \"450 GB/s\""), "{only}");
        let switch = "link = { kind = \"nvswitch\", bandwidth = \"450 GB/s\" }";
        assert_eq!(told("\"h100-sxm5-80gb\"", switch), Vec::<String>::new());
        assert_eq!(told("\"l4\"", ""), Vec::<String>::new());
    }

    /// NVIDIA's datasheet of the H100 says 900 GB/s, of both directions.
    #[test]
    fn both_directions_of_a_link_are_noticed() {
        let of_both = told("\"h100-sxm5-80gb\"", "900 GB/s");
        let [only] = of_both.as_slice() else { panic!("{of_both:?}") };
        let start = "`machines[0].link.bandwidth` of own.toml is 900 GB/s, 2.0 times the 450 GB/s that a link of p5.";
        assert!(only.starts_with(start), "{only}");
        assert!(told("\"h100-sxm5-80gb\"", "450 GB/s").is_empty());
        // Nothing is known of other GPUs.
        let own = "{ name = \"own\", like = \"h100-sxm5-80gb\" }";
        assert!(told(own, "900 GB/s").is_empty());
    }

    #[test]
    fn main_memory_that_is_far_smaller_than_that_of_gpus_is_noticed() {
        let of = |memory: &str| {
            let mut place = place("\"h100-sxm5-80gb\"", "");
            if let Place::Owned { machine, .. } = &mut place {
                let host = machine.cluster.pools[0].host.as_mut().expect("described");
                host.memory = memory.parse().expect("an amount");
            }
            little_main_memory(&place)
        };
        assert_eq!(of("2 TB"), Vec::<String>::new());
        let told = of("2 GB").swap_remove(0);
        assert!(told.contains("machines[0].host.memory") && told.contains("1.86 GiB, less than an eighth"), "{told}");
    }

    #[test]
    fn cards_that_are_faster_than_any_are_noticed() {
        let told = |network: &str| {
            let link = "link = { kind = \"nvswitch\", bandwidth = \"450 GB/s\" }";
            impossible_cards(&place("\"h100-sxm5-80gb\"", &format!("{link}\nnetwork = {{ {network} }}")))
        };
        for right in ["cards = 8, bandwidth = \"400 Gbit/s\"", "cards = 8, bandwidth = \"800 Gbit/s\""] {
            assert_eq!(told(&format!("{right}, transport = \"infiniband\"")), Vec::<String>::new());
        }
        for wrong in ["cards = 8, bandwidth = \"400 GB/s\"", "cards = 8, bandwidth = \"3200 Gbit/s\""] {
            let all = told(&format!("{wrong}, transport = \"infiniband\""));
            let [only] = all.as_slice() else { panic!("{all:?}") };
            let start = "`machines[0].network.bandwidth` of own.toml is 3,200 Gbit/s of each card (8 in a machine), and no \
                         card has more than 800 Gbit/s: ";
            assert!(only.starts_with(start), "{only}");
        }
    }
}
