//! Constants read, written, refused and put into a catalog.

use super::*;
use crate::catalog::catalog;
use crate::cluster::{Cluster, Fabric};
use trainyard_units::{Bytes, FlopsPerSecond, Invalid, Seconds};

fn of_stack(change: impl FnOnce(&mut Stack)) -> Result<Constants, Invalid> {
    let mut stack = Stack::clone(catalog().stack("pytorch").expect("in the catalog"));
    change(&mut stack);
    Constants::new("mine", Vec::new(), Vec::new(), vec![stack])
}

fn of_gpu(change: impl FnOnce(&mut Gpu)) -> Result<Constants, Invalid> {
    let mut gpu = catalog().gpu("v100-sxm2-16gb").expect("in the catalog").clone();
    change(&mut gpu);
    Constants::new("mine", vec![gpu], Vec::new(), Vec::new())
}

#[test]
fn the_whole_catalog_reads_back_as_it_was_written() {
    let (gpus, links, stacks) = (catalog().gpus(), catalog().links(), catalog().stacks());
    let copies = stacks.iter().map(|stack| Stack::clone(stack)).collect();
    let constants = Constants::new("all", gpus.to_vec(), links.to_vec(), copies).expect("the catalog is in its bounds");
    assert!(constants.to_toml().contains("\nlaunch = { value = "), "as the catalog's own files have it");
    let file: ConstantsFile = toml::from_str(&constants.to_toml()).expect("what was written is read");
    assert_eq!(Constants::try_from(file), Ok(constants.clone()));
    assert_eq!(catalog().with(&constants).stacks(), stacks);
}

#[test]
fn every_parameter_is_read_where_it_was_put() {
    let fit = Fitted { on: "step times".into(), rows: 3, date: "2026-11-21".into(), deviation: 0.1 };
    for (index, parameter) in STACK_PARAMETERS.iter().enumerate() {
        let having = catalog().stacks().iter().find(|stack| parameter.stated(stack).is_some());
        let mut stack = Stack::clone(having.expect("some stack of the catalog has it"));
        let (low, high) = parameter.bounds;
        let value = low + (high - low) * (index + 1) as f64 / 100.0;
        parameter.set(&mut stack, value, &fit);
        let (read, fitted) = parameter.stated(&stack).expect("it has it");
        assert!((read - value).abs() < 1e-15 && fitted == Some(&fit), "{}", parameter.name);
    }
    let mut gpu = catalog().gpu("t4").expect("in the catalog").clone();
    for parameter in &GPU_PARAMETERS {
        parameter.try_value(&mut gpu, parameter.bounds.1);
        let (read, fitted) = parameter.stated(&gpu).expect("every GPU has it");
        assert!((read - parameter.bounds.1).abs() < 1e-15 && fitted.is_none(), "{}", parameter.name);
    }
}

#[test]
fn the_catalog_is_plausible_and_what_lies_beyond_is_told() {
    for parameter in &STACK_PARAMETERS {
        for stack in catalog().stacks() {
            let wrong = parameter.number(stack).and_then(|value| parameter.implausible(value));
            assert_eq!(wrong, None, "{} of {}", parameter.name, stack.name);
        }
        assert!(parameter.bounds.0 <= parameter.plausible.0 && parameter.plausible.1 <= parameter.bounds.1);
    }
    for parameter in &GPU_PARAMETERS {
        for gpu in catalog().gpus() {
            let wrong = parameter.number(gpu).and_then(|value| parameter.implausible(value));
            assert_eq!(wrong, None, "{} of {}", parameter.name, gpu.name);
        }
        assert!(!parameter.is_rate || parameter.plausible.1 < 1.0, "{}: all of a peak", parameter.name);
    }
    let of = |name: &str, value| {
        let parameter = STACK_PARAMETERS.iter().find(|parameter| parameter.name == name).expect("a parameter");
        parameter.implausible(value)
    };
    assert_eq!(of("traffic", 0.271).as_deref(), Some("0.271, outside of 0.5 to 5"));
    assert_eq!(of("launch", 4e-4).as_deref(), Some("400 us, outside of 1.00 us to 200 us"));
}

#[test]
fn rates_of_attention_are_for_generations_that_there_are() {
    let of = |generation: &str, rate| {
        of_stack(|stack| {
            stack.flash_attention.insert(generation.into(), Sourced::new(rate, "a test"));
        })
    };
    assert!(of("Hopper", 0.5).is_ok() && of("other", 0.5).is_ok());
    let error = of("Hoper", 0.5).expect_err("there is none");
    assert!(
        error.to_string().starts_with("`stacks.pytorch.flash_attention` is for `Hoper`, but it must be one of Ada, ")
    );
    assert_eq!(error.hint().as_deref(), Some("did you mean `Hopper`?"));
    let error = of("Hopper", 50.0).expect_err("faster than products can be").to_string();
    assert!(
        error.starts_with("`stacks.pytorch.flash_attention.Hopper` is 50, but it must be from 0.05 to 2"),
        "{error}"
    );
}

#[test]
fn entries_take_the_place_of_those_of_their_name_and_others_are_added() {
    let changed = of_stack(|stack| stack.launch.value = Seconds(1e-5)).expect("in bounds");
    let other = catalog().with(&changed);
    assert_eq!(other.stack("pytorch").expect("still there").launch.value, Seconds(1e-5));
    assert_eq!(other.stacks().len(), catalog().stacks().len());
    let added = of_stack(|stack| stack.name = "mine".into()).expect("in bounds");
    let other = catalog().with(&added);
    assert!(other.stack("mine").is_ok() && other.stacks().len() == catalog().stacks().len() + 1);
    assert!(catalog().stack("mine").is_err(), "the program's own catalog stays as it is");
}

#[test]
fn a_link_reaches_the_machines_that_name_it_and_no_others() {
    let mut link = catalog().link("nvswitch2").expect("in the catalog").clone();
    let Interconnect::Nvswitch { fraction, .. } = &mut link.interconnect else { panic!("{link:?}") };
    fraction.value = 0.5;
    let constants = Constants::new("mine", Vec::new(), vec![link.clone()], Vec::new()).expect("in bounds");
    let other = catalog().with(&constants);
    let wiring = |catalog: &Catalog, name| catalog.instance(name).expect("in the catalog").interconnect.clone();
    assert_eq!(wiring(&other, "p4d.24xlarge"), link.interconnect);
    assert_eq!(wiring(&other, "p3.16xlarge"), wiring(catalog(), "p3.16xlarge"));
}

#[test]
fn links_are_between_gpus_that_are_there_and_each_pair_is_told_once() {
    let name = "nvlink2-quad";
    let of_link = |name: &str, wrong: (u32, u32, u32)| {
        let mut link = catalog().link("nvlink2-quad").expect("in the catalog").clone();
        link.name = name.into();
        let Interconnect::NvlinkMesh { pairs, .. } = &mut link.interconnect else { panic!("{link:?}") };
        pairs.value[5] = wrong;
        Constants::new("mine", Vec::new(), vec![link], Vec::new())
    };
    assert!(of_link(name, (3, 2, 64)).is_ok());
    // Machines with this wiring have four GPUs, each of the six pairs joined.
    for (wrong, allowed) in [
        ((2, 4, 1), "between two of GPUs 0 to 3"),
        ((2, 2, 1), "between two different GPUs"),
        ((2, 3, 0), "from 1 to 64 links"),
        ((2, 3, 4_000_000_000), "from 1 to 64 links"),
        ((1, 0, 1), "the only entry for GPUs 0 and 1"),
    ] {
        let error = of_link(name, wrong).expect_err(allowed);
        let text = error.to_string();
        assert!(text.contains("links.nvlink2-quad.interconnect.pairs[5]") && text.contains(allowed), "{text}");
        assert!(error.hint().is_some_and(|hint| hint.contains("one entry")), "{error}");
    }
    assert!(of_link("mine", (2, 255, 1)).is_ok() && of_link("mine", (2, 256, 1)).is_err());
    let machine = catalog().instance("p3.8xlarge").expect("in the catalog");
    let fabric = |gpu| {
        let mut interconnect = machine.interconnect.clone();
        let Interconnect::NvlinkMesh { pairs, .. } = &mut interconnect else { panic!("{interconnect:?}") };
        pairs.value[5] = (2, gpu, 2);
        let (name, messaging) = (machine.name.clone(), machine.network.messaging.clone());
        Constants::of_fabrics("mine", vec![MeasuredFabric { name, transport: None, interconnect, messaging }])
    };
    assert!(fabric(3).is_ok() && fabric(4).is_err());
}

#[test]
fn what_was_measured_of_own_machines_reaches_those_of_their_name_and_transport() {
    let text = |name: &str, transport: &str| {
        format!(
            "name = \"ours\"\n[[machines]]\nname = \"{name}\"\ncount = 2\ngpus = 8\ngpu = \"h100-sxm5-80gb\"\n\
             link = {{ kind = \"nvswitch\", bandwidth = \"450 GB/s\" }}\n\
             network = {{ cards = 8, bandwidth = \"400 Gbit/s\", transport = \"{transport}\" }}\n"
        )
    };
    let cluster = |name: &str, transport: &str, catalog: &Catalog| {
        let file = toml::from_str(&text(name, transport)).expect("a cluster file");
        Cluster::of_file(file, catalog).expect("a cluster").pools.remove(0).fabric
    };
    let Fabric::Wired { mut interconnect, mut network } = cluster("hgx", "infiniband", catalog()) else {
        panic!("wired")
    };
    let fitted = Fitted { on: "a sweep".into(), rows: 9, date: "2026-11-21".into(), deviation: 0.1 };
    let Interconnect::Nvswitch { fraction, .. } = &mut interconnect else { panic!("{interconnect:?}") };
    *fraction = Sourced { value: 0.9, fitted: Some(Box::new(fitted)), ..fraction.clone() };
    network.messaging.step.value = Seconds(7e-6);
    let fabric = MeasuredFabric {
        name: "hgx".into(),
        transport: Some(network.transport),
        interconnect: interconnect.clone(),
        messaging: network.messaging.clone(),
    };
    let constants = Constants::of_fabrics("mine", vec![fabric.clone()]).expect("in bounds");
    let file: ConstantsFile = toml::from_str(&constants.to_toml()).expect("what was written is read");
    assert_eq!(Constants::try_from(file), Ok(constants.clone()));
    let with = catalog().with(&constants);
    assert_eq!(cluster("hgx", "infiniband", &with), Fabric::Wired { interconnect: interconnect.clone(), network });
    // Another transport has its own numbers, but the links are the same; other machines have nothing of it.
    let Fabric::Wired { interconnect: links, network: other } = cluster("hgx", "roce", &with) else { panic!("wired") };
    assert_eq!((links, &other.messaging), (interconnect, catalog().messaging(other.transport)));
    assert_eq!(cluster("dgx", "infiniband", &with), cluster("dgx", "infiniband", catalog()));
    let error = Constants::of_fabrics("mine", vec![MeasuredFabric { transport: None, ..fabric }]).expect_err("no type");
    assert!(error.to_string().contains("an entry with a `transport`"), "{error}");
}

#[test]
fn what_is_out_of_range_is_told_with_its_field() {
    for (field, result) in [
        ("stacks.pytorch.launch", of_stack(|stack| stack.launch.value = Seconds(-1e-6))),
        ("stacks.pytorch.traffic", of_stack(|stack| stack.traffic.value = f64::NAN)),
        ("stacks.pytorch.gemm", of_stack(|stack| stack.gemm.value = 1e300)),
        ("stacks.pytorch.gemm", of_stack(|stack| stack.gemm.value = 0.0)),
        ("stacks.pytorch.uncertainty", of_stack(|stack| stack.uncertainty.value = -0.1)),
        ("stacks[0].name", of_stack(|stack| stack.name = " ".into())),
        ("stacks.pytorch.resident", of_stack(|stack| stack.resident.value = Bytes(u64::MAX))),
        ("gpus.v100-sxm2-16gb.multiprocessors", of_gpu(|gpu| gpu.multiprocessors.value = 0)),
        ("gpus.v100-sxm2-16gb.cache", of_gpu(|gpu| gpu.cache.value = Bytes(0))),
        ("gpus.v100-sxm2-16gb.peak_tf32", of_gpu(|gpu| gpu.peak_tf32 = Some(Sourced::new(FlopsPerSecond(-1.0), "s")))),
    ] {
        let error = result.expect_err(field);
        assert!(error.to_string().contains(field) && error.hint().is_some(), "{error}");
    }
    let empty = Constants::new("none", Vec::new(), Vec::new(), Vec::new()).expect_err("nothing");
    assert!(empty.to_string().ends_with("the file replaces nothing"), "{empty}");
    let twice = vec![Stack::clone(&catalog().stacks()[0]); 2];
    let error = Constants::new("twice", Vec::new(), Vec::new(), twice).expect_err("one name twice");
    assert!(error.to_string().contains("stacks[1].name"), "{error}");
    let other = ConstantsFile { schema: "trainyard.constants/9".into(), ..ConstantsFile::default() };
    assert_eq!(Constants::try_from(other).expect_err("of tomorrow").field(), "schema");
}
