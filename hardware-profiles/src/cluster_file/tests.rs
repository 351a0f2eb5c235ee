use super::*;
use crate::catalog::catalog;
use crate::cluster::{Cluster, Device, Fabric, price_of_one};
use crate::interconnect::Interconnect;
use crate::network::Network;
use proptest::prelude::*;
use trainyard_units::{Invalid, UsdPerHour};

const MIXED: &str = include_str!("../../../examples/cluster-mixed.toml");

fn read(text: &str) -> Result<Cluster, Invalid> {
    let file: ClusterFile = toml::from_str(text).expect("the form of a cluster file");
    Cluster::try_from(file)
}

/// The example with a line replaced.
fn with(line: &str, other: &str) -> Result<Cluster, Invalid> {
    assert!(MIXED.contains(line), "{line}");
    read(&MIXED.replacen(line, other, 1))
}

#[test]
fn the_example_is_the_cluster_that_it_describes() {
    let cluster = read(MIXED).expect("valid");
    assert_eq!((cluster.machines(), cluster.devices(), cluster.is_mixed()), (6, 32, true));
    assert_eq!(cluster.switches.iter().map(|level| level.ports).collect::<Vec<_>>(), [4, 2]);
    let (node, station) = (&cluster.pools[0], &cluster.pools[1]);
    let Fabric::Wired { network, interconnect } = &node.fabric else { panic!("wired") };
    assert_eq!((network.interfaces, network.baseline.value), (4, BytesPerSecond(1e11)));
    assert!(matches!(interconnect, Interconnect::Nvswitch { port, .. } if port.value == BytesPerSecond(3e11)));
    let host = station.host.as_ref().expect("stated");
    assert_eq!((host.disk, host.pcie.devices_per_switch), (Bytes(0), 1));
    let Device::Gpu(gpu) = &station.device else { panic!("a GPU") };
    assert_eq!((gpu.generation.as_str(), gpu.multiprocessors.value), ("Ada", 60));
    assert!(
        gpu.peak_tf32.is_none()
            && gpu.peak_fp8.is_none()
            && gpu.peak_bf16.is_some()
            && gpu.achieved.uncertainty.value > 0.3
    );
    let Fabric::Wired { interconnect, .. } = &station.fabric else { panic!("wired") };
    assert!(interconnect.joins(&[2, 3]) && !interconnect.joins(&[1, 2]));
}

/// The example with a price of each of its two kinds, where one is given.
fn priced(prices: [&str; 2]) -> Result<Cluster, Invalid> {
    let counts = ["count = 2 ", "count = 4\n"];
    let line = |price: &str| if price.is_empty() { String::new() } else { format!("usd_per_hour = {price}\n") };
    let text = counts.iter().zip(prices).fold(MIXED.to_owned(), |text, (count, price)| {
        assert!(text.contains(count), "{count}");
        text.replacen(count, &format!("{}{count}", line(price)), 1)
    });
    read(&text)
}

#[test]
fn kinds_have_prices_of_their_own_and_cost_their_sum_together() {
    assert_eq!(price_of_one(&priced(["", ""]).expect("without prices").pools), None);
    let cluster = priced(["16.0", "2.5"]).expect("with prices");
    let [node, station] = ["a100-node", "workstation"].map(|name| cluster.kind(name).expect("a kind").pools);
    assert_eq!(price_of_one(&node), Some(UsdPerHour(16.0)));
    assert_eq!(price_of_one(&station), Some(UsdPerHour(2.5)));
    let mean = price_of_one(&cluster.pools).expect("of both").0;
    assert!((mean * 6.0 / 42.0 - 1.0).abs() < 1e-12, "{mean}");
}

#[test]
fn a_price_is_above_zero_and_of_all_kinds_or_none() {
    for wrong in ["0", "-1", "1e6"] {
        let error = priced(["16.0", wrong]).expect_err(wrong);
        assert_eq!(error.field(), "machines[1].usd_per_hour");
        assert!(error.hint().is_some_and(|hint| hint.contains("usd_per_hour = 24.0")), "{error}");
    }
    for (prices, lacking, has) in [(["16.0", ""], 1, 0), (["", "2.5"], 0, 1)] {
        let error = priced(prices).expect_err("one has none");
        assert_eq!(error.field(), format!("machines[{lacking}].usd_per_hour"));
        assert!(error.to_string().contains(&format!("`machines[{has}]` has it")), "{error}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn the_price_of_a_type_of_the_catalog_is_not_that_of_machines_like_it() {
    let text = "[[machines]]\nlike = \"p5.48xlarge\"\ncount = 2\n";
    assert_eq!(price_of_one(&read(text).expect("valid").pools), None);
    let stated = read(&format!("{text}usd_per_hour = \"24\"\n")).expect("valid");
    assert_eq!(price_of_one(&stated.pools), Some(UsdPerHour(24.0)));
}

#[test]
fn a_shared_file_system_is_reached_through_a_card_unless_told() {
    let (machines, _) = MIXED.split_once("[shared_storage]").expect("the example has one");
    let shared = |text: &str| read(&format!("{machines}[shared_storage]\n{text}\n"));
    let plain = shared("read = \"40 GB/s\"").expect("valid").shared_storage.expect("stated");
    assert_eq!((plain.read, plain.write), (BytesPerSecond(4e10), BytesPerSecond(4e10)));
    // The slowest machine has one card of 25 Gbit/s.
    assert_eq!(plain.machine, BytesPerSecond(3.125e9));
    assert_eq!(plain.open, catalog().storage().fsx.open.value);
    let told = shared("read = \"40 GB/s\"\nwrite = \"20 GB/s\"\nper_machine = \"2 GB/s\"\nopen = \"2 ms\"");
    let told = told.expect("valid").shared_storage.expect("stated");
    assert_eq!((told.write, told.machine, told.open.0), (BytesPerSecond(2e10), BytesPerSecond(2e9), 2e-3));
    for (wrong, field) in [
        ("read = \"0 GB/s\"", "shared_storage.read"),
        ("read = \"1 GB/s\"\nwrite = \"0 GB/s\"", "shared_storage.write"),
        ("read = \"1 GB/s\"\nper_machine = \"0 B/s\"", "shared_storage.per_machine"),
        ("read = \"1 GB/s\"\nopen = \"1 min\"", "shared_storage.open"),
    ] {
        let error = shared(wrong).expect_err(wrong).to_string();
        assert!(error.contains(field), "{error}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_field() {
    let cases = [
        ("gpu = \"a100-sxm4-80gb\"", "gpu = \"a100-sxm4-80g\"", "`machines[0].gpu`"),
        ("like = \"l4\"", "like = \"l5\"", "`machines[1].gpu.like`"),
        ("name = \"mixed\"", "name = \" \"", "`name` is ` `"),
        ("name = \"workstation\"", "name = \"a100-node\"", "`machines[1].name`"),
        ("count = 2", "count = 0", "`machines[0].count` is 0"),
        ("gpus = 8", "gpus = 0", "`machines[0].gpus` is 0"),
        ("gpus = 8", "gpus = 257", "`machines[0].gpus` is 257"),
        ("\"300 GB/s\"", "\"0 GB/s\"", "`machines[0].link.bandwidth` is 0 B/s"),
        ("\"200 Gbit/s\"", "\"0 Gbit/s\"", "`machines[0].network.bandwidth`"),
        ("\"10 Gbit/s\"", "\"0 B/s\"", "`machines[1].network.flow_limit`"),
        ("connections = 4 ", "connections = 65 ", "`machines[1].network.connections` is 65"),
        ("flow_limit = \"10 Gbit/s\" ", "", "`machines[1].network.flow_limit` is missing"),
        ("cards = 4", "cards = 4\nconnections = 4", "`machines[0].network.connections` is 4, but `"),
        ("cards = 4", "cards = 0", "`machines[0].network.cards`"),
        ("pcie = \"31.5 GB/s\"", "pcie = \"0 B/s\"", "`machines[0].host.pcie`"),
        ("gpus_per_pcie_switch = 2", "gpus_per_pcie_switch = 9", "`machines[0].host.gpus_per_pcie_switch`"),
        ("disk = \"15 TB\"", "", "`machines[0].host.disk`"),
        ("disk_bandwidth = \"12 GB/s\"", "", "`machines[0].host.disk_bandwidth`"),
        ("memory = \"24 GB\"", "memory = \"0 B\"", "`machines[1].gpu.memory`"),
        ("peak_bf16 = \"120 TFLOP/s\"", "peak_bf16 = \"0 FLOP/s\"", "`machines[1].gpu.peak_bf16`"),
        ("peak_bf16 = \"120 TFLOP/s\"", "peak_fp8 = \"0 FLOP/s\"", "`machines[1].gpu.peak_fp8`"),
        (
            "[2, 3, 4]]",
            "[2, 4, 4]]",
            "`machines[1].link.links[1]` is [2, 4, 4], but it must be between two of GPUs 0 to 3",
        ),
        (
            "[2, 3, 4]]",
            "[1, 0, 4]]",
            "`machines[1].link.links[1]` is [1, 0, 4], but it must be the only entry for GPUs 0 and 1",
        ),
        ("[2, 3, 4]]", "[3, 3, 4]]", "`machines[1].link.links[1]` is [3, 3, 4]"),
        ("[2, 3, 4]]", "[2, 3, 0]]", "`machines[1].link.links[1]` is [2, 3, 0]"),
        ("links = [[0, 1, 4], [2, 3, 4]]", "", "`machines[1].link.links` is missing"),
        ("kind = \"nvlink\"", "kind = \"pcie\"", "`machines[1].link.links` is 2 pairs"),
        ("kind = \"nvlink\"", "kind = \"nvlink\"\nreached = 1.5", "`machines[1].link.reached` is 1.5"),
        ("oversubscription = 2.0", "oversubscription = 0.5", "`switches[0].oversubscription` is 0.5"),
        ("ports = 4", "ports = 0", "`switches[0].ports` is 0"),
        ("ports = 2", "ports = 1", "room for 4 machines, but there are 6"),
        ("count = 2", "count = 200000", "1600016 GPUs"),
    ];
    for (line, other, said) in cases {
        let error = with(line, other).expect_err(other);
        assert!(error.to_string().contains(said), "{other}: {error}");
    }
}

#[test]
fn a_site_says_what_jobs_ask_slurm_for_and_what_ranks_find_in_their_environment() {
    let text = format!(
        "{MIXED}\n[slurm]\npartition = \"a100,long\"\naccount = \"physics@a100\"\n[environment]\nNCCL_IB_HCA = \"^mlx5_3:1\"\n"
    );
    let own = "count = 4\nslurm = { partition = \"rtx\", constraint = \"[rack1|rack2]\" }";
    let cluster = read(&text.replacen("count = 4", own, 1)).expect("valid");
    let of = |pool: usize| cluster.pools[pool].slurm.clone().or(cluster.slurm.clone());
    let word = |word: &str| Some(word.to_owned());
    assert_eq!([of(0).partition, of(1).partition], [word("a100,long"), word("rtx")]);
    assert_eq!([of(0).constraint, of(1).constraint], [None, word("[rack1|rack2]")]);
    let common = of(0).common(of(1));
    assert_eq!((common.partition, common.account), (None, word("physics@a100")));
    assert_eq!(cluster.environment["NCCL_IB_HCA"], "^mlx5_3:1");
    // A kind alone is still of the same site.
    let kind = cluster.kind("workstation").expect("one of them");
    assert_eq!((&kind.slurm, &kind.environment), (&cluster.slurm, &cluster.environment));
}

#[test]
fn what_would_be_more_than_a_word_of_a_script_is_refused() {
    let refused = |table: &str| read(&format!("{MIXED}\n{table}\n")).expect_err(table).to_string();
    for (table, field) in [
        ("[slurm]\npartition = \"\"", "`slurm.partition` is \"\", but it must be one or more letters, digits and "),
        ("[slurm]\naccount = \"a b\"", "`slurm.account` is \"a b\""),
        ("[slurm]\nqos = \"a\\nrm\"", "`slurm.qos` is \"a\\nrm\""),
        ("[slurm]\nconstraint = \"a#b\"", "`slurm.constraint` is \"a#b\""),
        ("[slurm]\ngpu_type = \"a100:8\"", "`slurm.gpu_type` is \"a100:8\""),
        ("[environment]\nA = \"$(x)\"", "`environment.A` is \"$(x)\""),
        ("[environment]\nA = \"it's\"", "`environment.A` is "),
        ("[environment]\nA = \"\"", "`environment.A` is \"\""),
        ("[environment]\n\"NCCL-DEBUG\" = \"INFO\"", "`environment` is `NCCL-DEBUG`, but it must be the name of "),
        ("[environment]\n1A = \"x\"", "`environment` is `1A`"),
        ("[environment]\n\"A=1\\nB\" = \"x\"", "`environment` is `A=1\\nB`"),
    ] {
        assert!(refused(table).starts_with(field), "{}", refused(table));
    }
    let of_kind = with("count = 2", "count = 2\nslurm = { qos = \"`x`\" }").expect_err("a command");
    assert!(of_kind.to_string().starts_with("`machines[0].slurm.qos` is \"`x`\""), "{of_kind}");
    assert!(toml::from_str::<ClusterFile>(&format!("{MIXED}\n[slurm]\npartitoin = \"a\"\n")).is_err());
}

/// Counts and names have no unit.
#[test]
fn quantities_alone_are_told_of_units() {
    let hint = |line: &str, other: &str| with(line, other).expect_err(other).hint().unwrap_or_default();
    for (line, other, told) in [
        ("count = 2", "count = 0", "for example `count = 1`"),
        ("cards = 4", "cards = 0", "for example `cards = 1`"),
        ("name = \"mixed\"", "name = \" \"", "for example `name = \"node\"`"),
        ("oversubscription = 2.0", "oversubscription = 0.5", "1 is a switch "),
        ("kind = \"nvlink\"", "kind = \"nvlink\"\nreached = 1.5", "it is the part of `bandwidth` "),
        ("kind = \"nvlink\"", "kind = \"pcie\"", "write kind = \"nvlink\""),
    ] {
        assert!(hint(line, other).starts_with(told), "{other}: {}", hint(line, other));
    }
    let links = hint("links = [[0, 1, 4], [2, 3, 4]]", "");
    assert!(links.starts_with("links = [[0, 1, 4], [2, 3, 4]] are four links"), "{links}");
    for (line, other) in [("\"300 GB/s\"", "\"0 GB/s\""), ("memory = \"24 GB\"", "memory = \"0 B\"")] {
        assert!(hint(line, other).starts_with("quantities have a unit"), "{other}");
    }
}

#[test]
fn an_unknown_gpu_gets_a_suggestion() {
    let error = with("\"a100-sxm4-80gb\"", "\"a100-sxm4-80g\"").expect_err("no such GPU");
    assert_eq!(error.hint().as_deref(), Some("did you mean `a100-sxm4-80gb`?"));
}

const TWO: &str = "name = \"two\"\n[[machines]]\nname = \"m\"\ncount = 1\ngpus = 3\ngpu = \"l4\"\n";
const PAIR: &str = "link = { kind = \"nvlink\", bandwidth = \"25 GB/s\", links = [[0, 1, 2]] }\n";

#[test]
fn a_gpu_that_nothing_reaches_is_refused() {
    for (text, gpu) in [(TWO, 1), (&format!("{TWO}{PAIR}"), 2)] {
        let said = format!("in `machines[0]`: no link and no PCIe leads from GPU 0 to GPU {gpu}");
        assert_eq!(read(text).expect_err("out of reach").to_string(), said);
    }
    let pcie = "host = { memory = \"64 GiB\", memory_bandwidth = \"50 GB/s\", pcie = \"15.75 GB/s\" }\n";
    assert!(read(&format!("{TWO}{PAIR}{pcie}")).is_ok() && read(&format!("{TWO}{pcie}")).is_ok());
    let both = PAIR.replace("[[0, 1, 2]]", "[[0, 1, 2], [2, 1, 1]]");
    assert!(read(&format!("{TWO}{both}")).is_ok());
}

#[test]
fn several_machines_need_a_network_and_one_does_not() {
    let one = TWO.replace("gpus = 3", "gpus = 1");
    assert!(read(&one).is_ok());
    let error = read(&one.replace("count = 1", "count = 2")).expect_err("no network");
    assert!(error.to_string().contains("`machines[0].network` is missing"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("transport")));
    assert!(read("name = \"none\"\nmachines = []").is_err());
}

#[test]
fn what_has_another_form_is_refused_when_it_is_read() {
    for (line, other, said) in [
        ("count = 2", "cuont = 2", "unknown field `cuont`"),
        ("\"300 GB/s\"", "300", "expected a string"),
        ("\"300 GB/s\"", "\"-3 GB/s\"", "at least 0"),
        ("\"300 GB/s\"", "\"300 GB\"", "not a unit"),
        ("\"infiniband\"", "\"pigeon\"", "unknown variant `pigeon`"),
        ("like = \"l4\"", "alike = \"l4\"", "unknown field `alike`"),
        ("gpu = \"a100-sxm4-80gb\"", "gpu = 7", "the name of a GPU of the catalog"),
    ] {
        assert!(MIXED.contains(line), "{line}");
        let error = toml::from_str::<ClusterFile>(&MIXED.replacen(line, other, 1)).expect_err(other);
        assert!(error.message().contains(said), "{other}: {}", error.message());
    }
}

fn like(rest: &str) -> Result<Cluster, Invalid> {
    read(&format!("[[machines]]\nlike = \"p3dn.24xlarge\"\ncount = 4\n{rest}"))
}

fn wired(cluster: &Cluster) -> (&Network, &Interconnect) {
    match &cluster.first().fabric {
        Fabric::Wired { network, interconnect } => (network, interconnect),
        Fabric::Measured => panic!("nobody measured it"),
    }
}

#[test]
fn machines_may_be_like_a_type_of_the_catalog() {
    let cluster = like("").expect("three lines");
    let rented = catalog().cluster("p3dn.24xlarge", 4).expect("in the catalog");
    let (own, its) = (cluster.first(), rented.first());
    assert_eq!((cluster.instance.as_str(), own.name.as_str()), ("own-cluster", "p3dn.24xlarge"));
    assert_eq!((own.instances, own.devices_per_instance, &own.device, &own.fabric), (4, 8, &its.device, &its.fabric));
    let (host, its) = (own.host.as_ref().expect("carried over"), its.host.as_ref().expect("of the catalog"));
    assert_eq!((host.memory, host.pcie, host.remote), (its.memory, its.pcie, None));
}

#[test]
fn what_is_stated_stands_before_what_is_carried_over() {
    let gpu = |cluster: &Cluster| match &cluster.first().device {
        Device::Gpu(gpu) => gpu.clone(),
        Device::Measured(_) => panic!("nobody measured it"),
    };
    let plain = like("").expect("valid");
    let small = like("gpu = { memory = \"16 GB\" }").expect("valid");
    assert_eq!((gpu(&small).memory.value, gpu(&small).achieved), (Bytes(16_000_000_000), gpu(&plain).achieved));
    assert_eq!(
        (gpu(&small).name.as_str(), gpu(&small).peak_fp16.value),
        ("own-v100-sxm2-32gb", gpu(&plain).peak_fp16.value)
    );
    let fast = like("gpu = { memory_bandwidth = \"2 TB/s\" }").expect("valid");
    assert!(gpu(&fast).achieved.uncertainty.value > gpu(&plain).achieved.uncertainty.value);
    let other = like("gpu = \"a100-sxm4-40gb\"").expect("valid");
    assert_eq!(gpu(&other).name, "a100-sxm4-40gb");
    let network = like("network = { bandwidth = \"25Gbps\", transport = \"infiniband\" }").expect("valid");
    let (changed, _) = wired(&network);
    assert_eq!((changed.transport, changed.flow_limit.is_none()), (Transport::Infiniband, true));
    assert_eq!(changed.baseline.value, BytesPerSecond(3.125e9 * f64::from(changed.interfaces)));
    let sockets = like("network = { transport = \"tcp\", flow_limit = \"5 Gbit/s\", connections = 2 }").expect("valid");
    assert_eq!(wired(&sockets).0.messaging.connections.as_ref().map(|stated| stated.value), Some(2));
    let cards = like("network = { cards = 2 }").expect("valid");
    let of_one = wired(&plain).0.baseline.value.0 / f64::from(wired(&plain).0.interfaces);
    assert_eq!(wired(&cards).0.baseline.value.0.to_bits(), (2.0 * of_one).to_bits());
    let host = like("host = { memory = \"1 TiB\" }").expect("valid");
    let hosts = [&host, &plain].map(|cluster| cluster.first().host.clone().expect("a host"));
    assert_eq!((hosts[0].memory, hosts[0].pcie), (Bytes(1 << 40), hosts[1].pcie));
    let half = like("gpus = 4\nlink = { kind = \"nvlink\", links = [[0, 1, 2], [2, 3, 2]] }").expect("valid");
    let (_, Interconnect::NvlinkMesh { pairs, link, .. }) = wired(&half) else { panic!("a mesh") };
    let (_, Interconnect::NvlinkMesh { link: own, .. }) = wired(&plain) else { panic!("a mesh") };
    assert_eq!((pairs.value.len(), link.value), (2, own.value));
}

#[test]
fn a_family_in_place_of_a_type_leads_to_its_types_and_to_no_pattern() {
    let error = read("[[machines]]\nlike = \"p3dn\"\ncount = 4\n").expect_err("a family");
    assert_eq!(error.hint().as_deref(), Some("did you mean `p3dn.24xlarge`?"));
    let error = read("[[machines]]\nlike = \"x\"\ncount = 4\n").expect_err("nothing");
    assert_eq!(error.hint().as_deref(), Some("`trainyard show instances` lists the catalog"));
}

#[test]
fn links_have_three_numbers_and_parts_may_be_per_cent() {
    let link = |text: &str| {
        let file = format!("[[machines]]\nlike = \"p3dn.24xlarge\"\ncount = 4\nlink = {text}\n");
        toml::from_str::<ClusterFile>(&file).map_err(|error| error.to_string())
    };
    let file = link("{ reached = \"80%\" }").expect("a part");
    assert_eq!(file.machines[0].link.as_ref().and_then(|link| link.reached), Some(0.8));
    let told = link("{ links = [[0, 1, 2, 9]] }").expect_err("four numbers");
    assert!(told.contains("`[0, 1, 2, 9]` is a list of 4, expected a list of 3 numbers"), "{told}");
}

#[test]
fn what_contradicts_the_machine_type_is_refused() {
    for (rest, said) in [
        ("gpus = 4", "`machines[0].gpus` is 4, but it must be 8: the NVLinks of `p3dn.24xlarge` join GPUs 0 to 7"),
        ("gpus = 16\nlink = { bandwidth = \"25 GB/s\" }", "`machines[0].gpus` is 16, but it must be 8"),
        ("gpus = 4\nlink = { links = [[0, 7, 2]] }", "is [0, 7, 2], but it must be between two of GPUs 0 to 3"),
        ("link = { kind = \"nvswitch\" }", "`machines[0].link.bandwidth` is missing"),
        ("host = { gpus_per_pcie_switch = 9 }", "`machines[0].host.gpus_per_pcie_switch` is 9"),
        ("gpu = { memory = \"0 B\" }", "`machines[0].gpu.memory` is 0 B"),
        ("[[machines]]\nlike = \"p3dn.24xlarge\"\ncount = 2", "`machines[1].name` is `p3dn.24xlarge`"),
        ("[[machines]]\nlike = \"p3dm.24xlarge\"\ncount = 2", "`machines[1].like`"),
        ("[[machines]]\nname = \"x\"\ncount = 2", "`machines[1].gpus` is missing"),
        ("[[machines]]\nname = \"x\"\ncount = 2\ngpus = 1", "`machines[1].gpu` is missing"),
        ("[[machines]]\ncount = 2", "`machines[1].name` is missing"),
    ] {
        let error = like(rest).expect_err(rest);
        assert!(error.to_string().contains(said), "{rest}: {error}");
        assert!(error.hint().is_some(), "{rest}");
    }
    let switched = read("machines = [{ like = \"p4d.24xlarge\", count = \"2\", gpus = 4 }]").expect("NVSwitch");
    assert_eq!(switched.devices(), 8);
    assert!(toml::from_str::<ClusterFile>("[[machines]]\nlike = \"p4d.24xlarge\"\ncount = 1\ncount = 2").is_err());
}

fn bandwidths() -> impl Strategy<Value = BytesPerSecond> {
    (1u32..100_000).prop_map(|megabytes| BytesPerSecond(f64::from(megabytes) * 1e6))
}

prop_compose! {
    fn hosts()(
        memory in 1u64..1 << 42, memory_bandwidth in bandwidths(), disk in 0u64..1 << 44,
        disk_bandwidth in bandwidths(), gpus_per_pcie_switch in 1u32..3, pcie in bandwidths(),
    ) -> HostSpec {
        let disk_bandwidth = if disk == 0 { BytesPerSecond(0.0) } else { disk_bandwidth };
        let (memory, disk) = (Bytes(memory), Bytes(disk));
        HostSpec {
            memory: Some(memory),
            memory_bandwidth: Some(memory_bandwidth),
            disk: Some(disk),
            disk_bandwidth: Some(disk_bandwidth),
            gpus_per_pcie_switch: Some(gpus_per_pcie_switch),
            pcie: Some(pcie),
            vcpus: None,
            processor: None,
        }
    }
}

prop_compose! {
    fn links()(kind in 0usize..3, bandwidth in bandwidths(), count in 1u32..5, reached in proptest::option::of(0.1f64..1.0))
        -> LinkSpec {
        let kind = [LinkKind::Nvswitch, LinkKind::Nvlink, LinkKind::Pcie][kind];
        let links = if kind == LinkKind::Nvlink { vec![(0, 1, count)] } else { Vec::new() };
        LinkSpec { kind: Some(kind), bandwidth: Some(bandwidth), links, reached }
    }
}

fn gpus() -> impl Strategy<Value = GpuChoice> {
    let described = (1u64..1 << 40, bandwidths(), 1u32..1000, proptest::option::of(1u32..200)).prop_map(
        |(memory, memory_bandwidth, tera, multiprocessors)| {
            let peak = FlopsPerSecond(f64::from(tera) * 1e12);
            GpuChoice::Described(Box::new(GpuSpec {
                name: Some("own".into()),
                like: (tera % 2 == 0).then(|| "v100-sxm2-16gb".into()),
                memory: Some(Bytes(memory)),
                memory_bandwidth: Some(memory_bandwidth),
                peak_fp32: Some(peak),
                peak_fp16: Some(peak),
                peak_tf32: None,
                peak_bf16: Some(peak),
                peak_fp8: (tera % 3 == 0).then_some(peak),
                multiprocessors,
                cache: None,
            }))
        },
    );
    prop_oneof![Just(GpuChoice::Named("t4".into())), described]
}

prop_compose! {
    fn machines()(
        count in 1u32..50, gpus in 2u32..17, gpu in gpus(), link in proptest::option::of(links()), cards in 1u32..9,
        bandwidth in bandwidths(), flow_limit in proptest::option::of(bandwidths()), host in hosts(),
        connections in proptest::option::of(1u32..65),
    ) -> MachineSpec {
        let network = NetworkSpec { cards: Some(cards), bandwidth: Some(bandwidth), flow_limit, ..NetworkSpec::default() };
        // Connections are counted where each has a limit.
        let connections = flow_limit.and(connections);
        let network = Some(NetworkSpec { transport: Some(Transport::Tcp), connections, ..network });
        let own = MachineSpec { count, gpus: Some(gpus), gpu: Some(gpu), link, network, ..MachineSpec::default() };
        MachineSpec { host: Some(host), ..own }
    }
}

prop_compose! {
    fn files()(
        mut machines in proptest::collection::vec(machines(), 1..4), encrypted: bool,
        oversubscription in proptest::option::of(1.0f64..8.0), read in proptest::option::of(bandwidths()),
        usd_per_hour in proptest::option::of(0.01f64..100.0),
    ) -> ClusterFile {
        for (index, machine) in machines.iter_mut().enumerate() {
            machine.name = Some(format!("kind \"{index}\""));
            machine.usd_per_hour = usd_per_hour.map(|usd| usd + index as f64);
        }
        let switches = oversubscription.map(|oversubscription| SwitchSpec { ports: 150, oversubscription });
        let shared_storage =
            read.map(|read| SharedStorageSpec { read, write: None, per_machine: None, open: Some(Seconds(1e-3)) });
        let name = "generated".into();
        ClusterFile {
            name,
            encrypted,
            machines,
            switches: switches.into_iter().collect(),
            shared_storage,
            slurm: None,
            environment: BTreeMap::new(),
        }
    }
}

proptest! {
    #[test]
    fn a_valid_file_survives_being_written(file in files()) {
        let text = toml::to_string(&file).expect("it can be written");
        let again: ClusterFile = toml::from_str(&text).expect("it can be read");
        prop_assert_eq!(&again, &file);
        let cluster = Cluster::try_from(file).expect("valid");
        let devices: u32 = again.machines.iter().map(|machine| machine.count * machine.gpus.expect("generated")).sum();
        prop_assert_eq!(cluster.devices(), devices);
        prop_assert_eq!(Cluster::try_from(again), Ok(cluster));
    }

    #[test]
    fn no_text_makes_it_panic(lines in proptest::collection::vec(any::<u16>(), 0..6), noise in ".{0,40}") {
        // Lines of the example left out, doubled or spoilt: closer to a valid file than any text.
        let mut text: Vec<String> = MIXED.lines().map(Into::into).collect();
        for (index, line) in lines.iter().enumerate() {
            let at = usize::from(*line) % text.len();
            match index % 3 {
                0 => { text.remove(at); }
                1 => { let doubled = text[at].clone(); text.insert(at, doubled); }
                _ => text[at] = text[at].replace(['1', '2', '4', '8'], &noise),
            }
        }
        for text in [text.join("\n"), noise] {
            let cluster = toml::from_str::<ClusterFile>(&text).map(Cluster::try_from);
            if let Ok(Err(error)) = cluster {
                prop_assert!(!error.to_string().is_empty());
                prop_assert!(error.hint().is_none_or(|hint| !hint.is_empty()));
            }
        }
    }
}

#[test]
fn processors_are_known_where_they_are_counted() {
    let host = |rest: &str| {
        let text = format!(
            "name = \"own\"\n[[machines]]\nname = \"box\"\ncount = 1\ngpus = 1\ngpu = \"t4\"\n[machines.host]\nmemory = \"64 GiB\"\nmemory_bandwidth = \"80 GB/s\"\npcie = \"16 GB/s\"\n{rest}"
        );
        Cluster::try_from(toml::from_str::<ClusterFile>(&text).expect("a cluster file"))
    };
    let processors =
        |rest: &str| host(rest).map(|cluster| cluster.first().host.as_ref().and_then(|own| own.processors));
    assert_eq!(processors(""), Ok(None));
    let plain = processors("vcpus = 16").expect("a cluster").expect("processors");
    assert_eq!((plain.vcpus, plain.coremark), (16, catalog().loader().coremark.value));
    let named = processors("vcpus = 16\nprocessor = \"epyc-7r13\"").expect("a cluster").expect("processors");
    assert!(named.coremark > plain.coremark);
    let unnumbered = processors("processor = \"epyc-7r13\"").expect_err("of how many vCPUs?").to_string();
    assert!(unnumbered.starts_with("`machines[0].host.vcpus` is missing"), "{unnumbered}");
    assert_eq!(processors("vcpus = 0").expect_err("none").field(), "machines[0].host.vcpus");
    let slip = processors("vcpus = 4\nprocessor = \"epic-7r13\"").expect_err("no such processor");
    assert_eq!(slip.hint().as_deref(), Some("did you mean `epyc-7r13`?"));
}

#[test]
fn a_number_that_is_none_is_no_number_of_a_cluster() {
    for number in ["nan", "inf", "-inf"] {
        let text = MIXED.replacen("oversubscription = 2.0", &format!("oversubscription = {number}"), 1);
        let error = toml::from_str::<ClusterFile>(&text).expect_err(number);
        assert!(error.message().contains("expected a number"), "{error}");
    }
}
