use super::*;
use crate::fabric::fit::FittedConstant;
use crate::validate::validate_in;
use std::fmt::Write;
use trainyard_hardware_profiles::{Cluster, Constants, Fabric, catalog};
use trainyard_plan::Collective;
use trainyard_sim::collective_time;
use trainyard_units::{Bytes, Seconds};

/// Output as nccl-tests print it, with the times of a simulated fabric; hosts `a`, `b` and so on.
fn output(program: &str, nodes: u32, each: u32, time: impl Fn(u64) -> f64, ratio: f64, redop: &str) -> String {
    let mut text = format!(
        "{program}# nThread 1 nGpus {each} minBytes 8 maxBytes 1073741824 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1 validate: 1 graph: 0\n#\n# Using devices\n"
    );
    for rank in 0..nodes * each {
        let host = char::from(b'a' + (rank / each) as u8);
        writeln!(
            text,
            "#  Rank {rank:2} Group  0 Pid   4711 on host-{host} device {:2} [0x10] NVIDIA A100-SXM4-40GB",
            rank % each
        )
        .expect("text can be written to");
    }
    text.push_str("#\n#                                                              out-of-place                       in-place          \n");
    text.push_str("#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n");
    text.push_str("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n");
    for power in (3..31).step_by(2) {
        let bytes = 1_u64 << power;
        let seconds = time(bytes);
        let algorithm = bytes as f64 / seconds / 1e9;
        let (us, bus) = (seconds * 1e6, algorithm * ratio);
        writeln!(text, "{bytes:12} {:12}     float    {redop}      -1 {us:8.2} {algorithm:7.2} {bus:7.2}      0 {us:8.2} {algorithm:7.2} {bus:7.2}    N/A", bytes / 4)
            .expect("text can be written to");
    }
    text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 12.3\n#\n"
}

/// The time of an operation on p4d machines with some constants changed, as a benchmark would find it.
fn simulated(collective: Collective, nodes: u32, change: impl Fn(&mut Fabric)) -> impl Fn(u64) -> f64 {
    let mut cluster = catalog().cluster("p4d.24xlarge", nodes).expect("in the catalog");
    change(&mut cluster.pools[0].fabric);
    move |bytes| collective_time(&cluster, collective, cluster.devices(), Bytes(bytes)).expect("wired").0
}

fn changed(fabric: &mut Fabric) {
    let Fabric::Wired { network, .. } = fabric else { panic!("a catalog machine is wired") };
    network.messaging.sustained.value = 0.6;
    network.messaging.step.value = Seconds(30e-6);
    network.messaging.chunk_trips.value = 2.0;
}

#[test]
fn a_synthetic_sweep_gives_its_constants_back() {
    let text = output("", 2, 8, simulated(Collective::AllReduce, 2, changed), 1.875, "sum");
    let sweep = Sweep::read(&text, "sweep.txt").expect("well formed");
    assert_eq!(sweep.rows.len(), 28, "out of place and in place");
    let fits = fit_fabrics(&sweep, Some("p4d.24xlarge"), catalog(), "2026-11-21").expect("teaches");
    let fit = &fits[0];
    let messaging = &fit.fabric.messaging;
    for (name, found, expected) in [
        ("sustained", messaging.sustained.value, 0.6),
        ("step", messaging.step.value.0, 30e-6),
        ("chunk_trips", messaging.chunk_trips.value, 2.0),
    ] {
        assert!((found / expected - 1.0).abs() < 0.1, "{name}: {found}, expected {expected}");
    }
    assert!(fit.after < 0.02 && fit.before > 0.1, "{} to {}", fit.before, fit.after);
    assert!(fit.cross_validated.is_some_and(|error| error < 0.05), "{:?}", fit.cross_validated);
    let provenance = messaging.step.fitted.as_ref().expect("it says how it was fitted");
    assert!(provenance.rows > 10 && provenance.deviation < 0.2 && provenance.date == "2026-11-21", "{provenance}");
}

#[test]
fn a_fitted_fabric_predicts_its_sweep_from_a_constants_file() {
    let time = simulated(Collective::AllReduce, 2, changed);
    let mut table = String::from("system,gpus,nodes,operation,message_bytes,algbw_GBps,latency_us,notes\n");
    for power in 3..31 {
        let bytes = 1_u64 << power;
        writeln!(table, "p4d.24xlarge (somewhere),16,2,all_reduce,{bytes},,{},", time(bytes) * 1e6).expect("written");
    }
    let sweep = Sweep::read(&table, "t.csv").expect("well formed");
    let fits = fit_fabrics(&sweep, None, catalog(), "2026-11-21").expect("teaches");
    let fabrics = fits.into_iter().map(|fit| fit.fabric).collect();
    let constants = Constants::of_fabrics("a sweep", fabrics).expect("in bounds");
    let read: trainyard_hardware_profiles::ConstantsFile = toml::from_str(&constants.to_toml()).expect("well formed");
    let constants = Constants::try_from(read).expect("in bounds");
    let error = |catalog: &Catalog| {
        let document = validate_in(&table, "t.csv", catalog).expect("well formed");
        document.suites.last().and_then(|all| all.mape).expect("all rows are predicted")
    };
    let (before, after) = (error(catalog()), error(&catalog().with(&constants)));
    assert!(after < 0.03 && before > 0.1, "{before} to {after}");
}

#[test]
fn one_machine_teaches_its_links_and_nothing_of_a_network() {
    let slow = |fabric: &mut Fabric| {
        let Fabric::Wired { interconnect, network } = fabric else { panic!("a catalog machine is wired") };
        let trainyard_hardware_profiles::Interconnect::Nvswitch { fraction, .. } = interconnect else { panic!("p4d") };
        fraction.value = 0.5;
        network.messaging.inside.value = 2.0;
    };
    let text = output("", 1, 8, simulated(Collective::AllGather, 1, slow), 0.875, "none");
    let sweep = Sweep::read(&text, "sweep.txt").expect("well formed");
    let fits = fit_fabrics(&sweep, Some("p4d.24xlarge"), catalog(), "2026-11-21").expect("teaches");
    let names: Vec<&str> = fits[0].constants.iter().map(|constant| constant.name).collect();
    assert_eq!(names, ["inside", "link"]);
    for (constant, expected) in fits[0].constants.iter().zip([2.0, 0.5]) {
        assert!((constant.after / expected - 1.0).abs() < 0.1, "{constant:?}");
    }
}

/// Sixteen machines of a cluster file.
fn own(catalog: &Catalog) -> Cluster {
    let text = "name = \"ours\"\n[[machines]]\nname = \"hgx\"\ncount = 16\ngpus = 8\ngpu = \"h100-sxm5-80gb\"\n\
                link = { kind = \"nvswitch\", bandwidth = \"450 GB/s\" }\n\
                network = { cards = 8, bandwidth = \"400 Gbit/s\", transport = \"infiniband\" }\n";
    Cluster::of_file(toml::from_str(text).expect("a cluster file"), catalog).expect("a cluster")
}

#[test]
fn a_sweep_of_own_machines_is_predicted_with_the_constants_that_it_teaches() {
    let mut slower = own(catalog());
    slower.pools[0].instances = 2;
    let Fabric::Wired { network, .. } = &mut slower.pools[0].fabric else { panic!("it is wired") };
    network.messaging.step.value = Seconds(60e-6);
    let ranks = slower.devices();
    let time = |bytes| collective_time(&slower, Collective::AllReduce, ranks, Bytes(bytes)).expect("wired").0;
    let text = output("", 2, 8, time, 1.875, "sum");
    let refit = refit_described(&text, "sweep.txt", &own(catalog()), catalog(), "2026-11-21").expect("teaches");
    let step = refit.document.constants.iter().find(|change| change.name == "fabrics.hgx.step").expect("it changed");
    assert!((step.after / 60e-6 - 1.0).abs() < 0.1, "{step:?}");
    let constants = refit.constants.expect("better");
    assert!(!constants.to_toml().contains("rows = 0"), "{}", constants.to_toml());
    let Fabric::Wired { network, .. } = own(&catalog().with(&constants)).pools.remove(0).fabric else {
        panic!("it is wired")
    };
    assert!((network.messaging.step.value.0 / step.after - 1.0).abs() < 1e-9, "plans have it too");
    let error = |text: &str, cluster: &Cluster| {
        refit_described(text, "sweep.txt", cluster, catalog(), "2026-11-21").expect_err("refused").to_string()
    };
    let many = output("", 32, 8, |bytes| 1e-5 + bytes as f64 / 1e10, 1.992, "sum");
    assert!(error(&many, &own(catalog())).contains("`ours` has 16 machines, but 32 took part"));
    let mut mixed = own(catalog());
    mixed.pools.push(mixed.pools[0].clone());
    assert!(error(&text, &mixed).contains("2 kinds of machines"));
    let table =
        "system,gpus,nodes,operation,message_bytes,algbw_GBps,latency_us,notes\ntheirs,16,2,all_reduce,8,,50,\n";
    assert!(error(table, &own(catalog())).contains("other machines than `ours` and `hgx`"));
}

#[test]
fn constants_that_no_row_informs_are_not_told() {
    let constant = |rows, after| FittedConstant {
        fabric: "hgx".into(),
        name: "sustained",
        before: 0.95,
        after,
        deviation: 1.0,
        rows,
    };
    assert!(!constant(0, 0.95).is_taught() && constant(0, 0.8).is_taught() && constant(3, 0.95).is_taught());
}

#[test]
fn a_row_or_two_move_a_constant_less_than_a_sweep() {
    let time = simulated(Collective::AllReduce, 2, changed);
    let sustained = |sizes: &[u32]| {
        let mut table = String::from("system,gpus,nodes,operation,message_bytes,algbw_GBps,latency_us,notes\n");
        for power in sizes {
            let bytes = 1_u64 << power;
            writeln!(table, "p4d.24xlarge,16,2,all_reduce,{bytes},,{},", time(bytes) * 1e6).expect("written");
        }
        let sweep = Sweep::read(&table, "t.csv").expect("well formed");
        let fits = fit_fabrics(&sweep, None, catalog(), "2026-11-21").expect("teaches");
        fits[0].fabric.messaging.step.value.0
    };
    let [few, many] = [sustained(&[12]), sustained(&(3..31).collect::<Vec<_>>())];
    assert!((few / 30e-6 - 1.0).abs() > (many / 30e-6 - 1.0).abs(), "{few} and {many}");
}

#[test]
fn operations_are_told_by_name_or_by_their_bandwidths() {
    let row = |program: &str, ratio, redop| {
        let text = output(program, 2, 8, |bytes| 1e-5 + bytes as f64 / 1e10, ratio, redop);
        Sweep::read(&text, "sweep.txt").map(|sweep| sweep.rows[0].measured.collective)
    };
    assert_eq!(row("", 1.875, "sum"), Ok(Collective::AllReduce));
    assert_eq!(row("", 0.9375, "sum"), Ok(Collective::ReduceScatter));
    assert_eq!(row("", 0.9375, "none"), Ok(Collective::AllGather));
    assert_eq!(row("", 1.0, "none"), Ok(Collective::Transfer));
    assert_eq!(row("$ mpirun ./build/alltoall_perf -b 8 -e 1G -f 4\n", 0.9375, "none"), Ok(Collective::AllToAll));
    assert!(row("", 1.2, "sum").is_err_and(|error| error.to_string().starts_with("in `sweep.txt line 1`: `program`")));
}

#[test]
fn two_runs_in_one_text_are_kept_apart() {
    let text = output("all_reduce_perf\n", 2, 8, |bytes| 1e-5 + bytes as f64 / 1e10, 1.875, "sum")
        + &output("all_gather_perf\n", 1, 8, |bytes| 1e-5 + bytes as f64 / 1e10, 0.875, "none");
    let sweep = Sweep::read(&text, "sweep.txt").expect("well formed");
    let [first, last] = [&sweep.rows[0], &sweep.rows[sweep.rows.len() - 1]].map(|row| &row.measured);
    assert_eq!((first.collective, first.gpus_per_machine()), (Collective::AllReduce, Some(8)));
    assert_eq!((last.collective, last.gpus_per_machine()), (Collective::AllGather, Some(8)));
}

#[test]
fn malformed_output_is_told_with_its_line() {
    let good = output("", 2, 8, |bytes| 1e-5 + bytes as f64 / 1e10, 1.875, "sum");
    let error = |text: &str| Sweep::read(text, "sweep.txt").expect_err("malformed");
    let broken = good.replace("    10.00 ", "     fast ");
    let told = error(&broken).to_string();
    assert!(told.starts_with("in `sweep.txt line 2") && told.contains("`time` is `fast`"), "{told}");
    let cut: String =
        good.lines().filter(|line| !line.contains("Rank")).fold(String::new(), |text, line| text + line + "\n");
    assert!(error(&cut).to_string().contains("ranks"), "{}", error(&cut));
    let seconds = good.replace("(us)", "(ms)");
    assert!(error(&seconds).to_string().contains("(us)"), "{}", error(&seconds));
    let empty: String =
        good.lines().filter(|line| line.starts_with('#')).fold(String::new(), |text, line| text + line + "\n");
    assert_eq!(error(&empty).to_string(), "in `sweep.txt`: there is no measured collective");
    let zero = good.replace(" 10.00 ", "  0.00 ");
    assert!(error(&zero).to_string().contains("`time` is `0.00`"));
    assert!(error("a,b\n1,2\n").to_string().starts_with("in `sweep.txt line 1`"));
    for text in ["", "#", "# nThread", "# nThread 1 nGpus x\n", "#  size time algbw busbw\n12 34"] {
        assert!(Sweep::read(text, "sweep.txt").is_err(), "{text}");
    }
}

#[test]
fn machines_are_named_or_asked_for() {
    let text = output("", 2, 8, |bytes| 1e-5 + bytes as f64 / 1e10, 1.875, "sum");
    let sweep = Sweep::read(&text, "sweep.txt").expect("well formed");
    let error = fit_fabrics(&sweep, None, catalog(), "2026-11-21").expect_err("not named");
    assert!(error.hint().is_some_and(|hint| hint.contains("p4d.24xlarge")), "{error}: {:?}", error.hint());
    let unknown = fit_fabrics(&sweep, Some("p9.large"), catalog(), "2026-11-21").expect_err("not in the catalog");
    assert!(unknown.to_string().starts_with("`--instance` is p9.large"));
    let small = fit_fabrics(&sweep, Some("p3.2xlarge"), catalog(), "2026-11-21").expect_err("one GPU");
    assert!(small.to_string().contains("has 1 GPUs"), "{small}");
}
