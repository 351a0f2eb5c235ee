//! Every input that a user can set changes some output, in the direction in which it should.

use std::sync::Arc;
use trainyard_hardware_profiles::{
    Cluster, Fabric, Gpu, Interconnect, MapLayout, Network, Sourced, Stack, SwitchLevel, catalog,
};
use trainyard_models::ModelSpec;
use trainyard_plan::{
    BatchSpec, ClusterSpec, Collectives, GradientCompression, GradientReduction, Optimizer, ParallelSpec, Placement,
    Plan, PlanSpec, Precision, Recompute, ScheduleName, Stages, StateSharding,
};
use trainyard_sim::{Machine, Outcome, all_reduce_time, simulate};
use trainyard_units::{Bytes, BytesPerSecond, Seconds};

/// Four p4d machines, PyTorch.
fn machine() -> Machine {
    Machine {
        cluster: catalog().cluster("p4d.24xlarge", 4).expect("in the catalog"),
        stack: catalog().stack("pytorch").expect("in the catalog").clone(),
    }
}

/// A GPT of 24 blocks with tensor 2 × pipeline 4 × data 4 in half precision.
fn base() -> PlanSpec {
    let model = trainyard_models::find("gpt3-2.7b").expect("in the catalog").model.spec();
    let layers = model.layers.expect("a GPT has layers") as usize + 2;
    staged(PlanSpec {
        parallel: ParallelSpec { data: 4, tensor: 2, pipeline: 4, ..ParallelSpec::default() },
        batch: BatchSpec { global: 32, micro: 1, accumulation: 8 },
        schedule: ScheduleName::OneForwardOneBackward,
        precision: Precision::Fp16Mixed,
        ..PlanSpec::plain(model, ClusterSpec::of("p4d.24xlarge", 4), layers)
    })
}

/// The same without a pipeline: tensor 2 × data 16.
fn wide() -> PlanSpec {
    let spec = base();
    staged(PlanSpec {
        parallel: ParallelSpec { data: 16, tensor: 2, pipeline: 1, ..ParallelSpec::default() },
        batch: BatchSpec { global: 32, micro: 1, accumulation: 2 },
        schedule: ScheduleName::None,
        ..spec
    })
}

/// A plan with its layers cut evenly.
fn staged(mut spec: PlanSpec) -> PlanSpec {
    let layers = spec.model.layers.expect("a GPT has layers") as usize + 2;
    let runs = spec.parallel.pipeline * spec.virtual_stages;
    spec.stages = Stages::balanced(&vec![1.0; layers], runs).expect("enough layers").specs();
    spec
}

fn outcome(spec: PlanSpec, machine: &Machine) -> Outcome {
    let plan = Plan::try_from(spec).expect("a valid plan");
    simulate(&plan, machine).expect("a GPU prices everything")
}

fn step(spec: PlanSpec) -> f64 {
    outcome(spec, &machine()).step_time.0
}

fn memory(spec: PlanSpec) -> u64 {
    outcome(spec, &machine()).footprint.peak().0
}

fn with(spec: PlanSpec, change: impl FnOnce(&mut PlanSpec)) -> PlanSpec {
    let mut changed = spec;
    change(&mut changed);
    staged(changed)
}

fn model(change: impl FnOnce(&mut ModelSpec)) -> PlanSpec {
    with(base(), |spec| change(&mut spec.model))
}

#[test]
fn a_larger_model_takes_longer_and_more_memory() {
    let (time, held) = (step(base()), memory(base()));
    for (what, larger) in [
        ("layers", model(|m| m.layers = Some(48))),
        ("hidden", model(|m| (m.hidden, m.heads) = (Some(3840), Some(48)))),
        ("ffn", model(|m| m.ffn = Some(20480))),
        ("vocab", model(|m| m.vocab = Some(200_000))),
        ("seq_len", model(|m| m.seq_len = Some(4096))),
    ] {
        assert!(step(larger.clone()) > time, "{what}");
        assert!(memory(larger) > held, "{what}");
    }
    // Narrower heads: the same arithmetic in more, smaller products, and more scores to keep.
    assert!(memory(model(|m| m.heads = Some(64))) > held);
    let flash = model(|m| m.attention = Some(trainyard_models::AttentionKernel::Flash));
    assert!(step(flash.clone()) < time && memory(flash) < held);
}

#[test]
fn batches_trade_time_for_memory() {
    let more = with(base(), |s| s.batch = BatchSpec { global: 64, micro: 1, accumulation: 16 });
    assert!(step(more) > 1.5 * step(base()));
    let larger = with(base(), |s| s.batch = BatchSpec { global: 32, micro: 2, accumulation: 4 });
    assert!(memory(larger) > memory(base()));
}

#[test]
fn degrees_share_the_work() {
    let parallel = |data, tensor, pipeline| {
        with(base(), |s| {
            s.parallel = ParallelSpec { data, tensor, pipeline, ..s.parallel };
            s.batch = BatchSpec { global: 32, micro: 1, accumulation: 32 / u64::from(data) };
        })
    };
    assert!(step(parallel(2, 2, 4)) > step(base()), "fewer replicas");
    assert!(step(parallel(4, 1, 4)) > step(base()), "no tensor parallelism");
    assert!(memory(parallel(4, 2, 2)) > memory(base()), "fewer stages hold more");
    let sequence = with(base(), |s| s.parallel.sequence = true);
    assert!(memory(sequence) < memory(base()));
    let context = with(base(), |s| (s.parallel.data, s.parallel.context) = (2, 2));
    let context = with(context, |s| s.batch.accumulation = 16);
    assert!(memory(context.clone()) < memory(base()), "tokens are shared");
    assert!((step(context) - step(base())).abs() > 1e-6);
}

#[test]
fn experts_that_are_spread_take_less_memory_and_travel() {
    let experts = |expert| {
        with(wide(), |s| {
            s.model.family = trainyard_models::Family::GptMoe;
            (s.model.layers, s.model.experts) = (Some(8), Some(16));
            s.parallel.expert = expert;
        })
    };
    assert!(memory(experts(8)) < memory(experts(1)));
    let alone = outcome(experts(1), &machine());
    let spread = outcome(experts(8), &machine());
    assert!(alone.step_time != spread.step_time);
    let tight = with(experts(8), |s| s.model.capacity_factor = Some(1.0));
    let loose = with(experts(8), |s| s.model.capacity_factor = Some(2.0));
    assert!(step(loose) > step(tight));
}

#[test]
fn schedules_shrink_the_bubble_or_the_memory() {
    let of = |schedule, runs| with(base(), |s| (s.schedule, s.virtual_stages) = (schedule, runs));
    assert!(memory(of(ScheduleName::GPipe, 1)) > memory(base()));
    let bubble = |spec| outcome(spec, &machine()).bubble;
    for (schedule, runs) in
        [(ScheduleName::Interleaved, 2), (ScheduleName::TwoBufferedWeights, 1), (ScheduleName::ZeroBubbleH1, 1)]
    {
        assert!(bubble(of(schedule, runs)) < bubble(base()), "{schedule}");
    }
    assert!(memory(of(ScheduleName::TwoBufferedWeights, 1)) > memory(base()), "two versions of the weights");
    assert!(bubble(of(ScheduleName::Interleaved, 4)) < bubble(of(ScheduleName::Interleaved, 2)));
    let uneven = with(base(), |_| {});
    let uneven = PlanSpec {
        stages: Stages::balanced(&[&[9.0][..], &[1.0; 33]].concat(), 4).expect("34 layers").specs(),
        ..uneven
    };
    assert!(step(uneven) > step(base()), "a cut by hand");
}

#[test]
fn number_formats_and_recomputation_trade_time_for_memory() {
    let precision = |precision| with(base(), |s| s.precision = precision);
    assert!(step(precision(Precision::Fp32)) > step(precision(Precision::Tf32)));
    assert!(step(precision(Precision::Tf32)) > step(base()));
    assert!(memory(precision(Precision::Fp32)) > memory(base()));
    assert!((step(precision(Precision::Bf16Mixed)) / step(base()) - 1.0).abs() < 1e-9, "the same units on an A100");
    let recompute = |recompute| with(base(), |s| s.recompute = recompute);
    let [none, selective, full] = [Recompute::None, Recompute::Selective, Recompute::Full].map(recompute);
    assert!(step(none.clone()) < step(selective.clone()) && step(selective.clone()) < step(full.clone()));
    assert!(memory(none) > memory(selective.clone()) && memory(selective) > memory(full));
    let sgd = with(base(), |s| s.optimizer = Optimizer::Sgd);
    assert!(step(sgd.clone()) < step(base()) && memory(sgd) < memory(base()));
}

#[test]
fn sharing_out_states_saves_memory_and_costs_messages() {
    let sharded = |sharding| {
        with(wide(), |s| {
            s.state_sharding = sharding;
            s.gradient_reduction = GradientReduction::MicroBatch;
        })
    };
    let held: Vec<u64> = StateSharding::ALL.iter().map(|sharding| memory(sharded(*sharding))).collect();
    assert!(held.windows(2).all(|pair| pair[0] > pair[1]), "{held:?}");
    let whole = sharded(StateSharding::Parameters);
    let in_machines = with(whole.clone(), |s| s.sharding_ranks = Some(4));
    assert!(memory(in_machines.clone()) > memory(whole.clone()), "a part on each machine is larger");
    assert!(step(in_machines) < step(whole.clone()), "and is gathered inside it");
    let once = with(whole.clone(), |s| s.gradient_reduction = GradientReduction::Step);
    assert!(memory(once.clone()) > memory(whole.clone()) && step(once) < step(whole));
}

#[test]
fn what_is_kept_elsewhere_frees_the_devices_and_takes_time() {
    let kept = |offload: &str| with(wide(), |s| s.offload = offload.parse().expect("a valid offload"));
    for offload in ["optimizer", "activations", "parameters"] {
        assert!(memory(kept(offload)) < memory(wide()), "{offload}");
        assert!(step(kept(offload)) > step(wide()), "{offload}");
        assert!(outcome(kept(offload), &machine()).footprint.shared[0].needed.0 > 0);
    }
    assert!(step(kept("optimizer@nvme")) > step(kept("optimizer")));
    let mut slow = machine();
    slow.cluster.pools[0].host.as_mut().expect("a catalog machine has one").pcie.uplink.0 /= 4.0;
    assert!(outcome(kept("activations"), &slow).step_time > outcome(kept("activations"), &machine()).step_time);
    slow = machine();
    slow.cluster.pools[0].host.as_mut().expect("a catalog machine has one").memory_bandwidth.0 /= 8.0;
    assert!(outcome(kept("optimizer"), &slow).step_time > outcome(kept("optimizer"), &machine()).step_time);
    slow = machine();
    slow.cluster.pools[0].host.as_mut().expect("a catalog machine has one").disk_bandwidth.0 /= 2.0;
    let disk = || kept("optimizer@nvme");
    assert!(outcome(disk(), &slow).step_time > outcome(disk(), &machine()).step_time);
}

#[test]
fn gradients_travel_faster_when_they_are_smaller_and_placed_near() {
    let exposed = |spec| outcome(spec, &machine()).exposed_communication.0;
    let compressed = |compression| with(wide(), |s| s.gradient_compression = compression);
    let forms = GradientCompression::ALL.iter().map(|form| exposed(compressed(*form))).collect::<Vec<_>>();
    let [none, fp16, bf16, int8, _] = forms[..] else { panic!("{forms:?}") };
    assert!(none > fp16 && fp16 > int8 && fp16.to_bits() == bf16.to_bits(), "{forms:?}");
    assert!(memory(compressed(GradientCompression::Dgc)) > memory(wide()), "what was not sent is kept");
    let spread = with(base(), |s| s.placement = Placement::Spread);
    assert!(step(spread) > step(base()), "tensor groups across machines");
    let last = with(base(), |s| s.placement = "DPT".parse().expect("a permutation"));
    assert!(step(last) > step(base()), "tensor ranks far from each other");
    let by = |collectives| step(with(wide(), |s| s.collectives = collectives));
    let times = Collectives::ALL.iter().map(|collectives| by(*collectives)).collect::<Vec<_>>();
    assert!(times.iter().skip(1).any(|time| (time - times[0]).abs() > 1e-6), "{times:?}");
}

/// One device of each machine has a share of the network of its own, and short messages may be flagged where nothing
/// forbids it.
#[test]
fn the_network_depends_on_who_shares_it_and_how_it_delivers() {
    let time = |per_machine: u32, bytes, change: &dyn Fn(&mut Network)| {
        let mut cluster = catalog().cluster("p4d.24xlarge", 2).expect("in the catalog");
        cluster.pools[0].devices_per_instance = per_machine;
        let Fabric::Wired { network, .. } = &mut cluster.pools[0].fabric else { panic!("a catalog machine is wired") };
        change(network);
        all_reduce_time(&cluster, 2 * per_machine, Bytes(bytes)).expect("there are as many devices")
    };
    let alone = |share: f64| time(1, 1 << 30, &|network: &mut Network| network.messaging.sustained_alone.value = share);
    assert!(alone(0.4) > alone(0.8));
    let flagged = |allowed| time(8, 8, &|network: &mut Network| network.messaging.flagged.value = allowed);
    assert!(flagged(false) > flagged(true));
}

/// A change of the machine that must slow the step of a plan that spans machines.
fn slower(what: &str, change: impl FnOnce(&mut Machine)) {
    let mut changed = machine();
    change(&mut changed);
    let (before, after) = (outcome(wide(), &machine()).step_time, outcome(wide(), &changed).step_time);
    assert!(after > before, "{what}: {before:?} to {after:?}");
}

fn gpu(change: impl FnOnce(&mut Gpu)) -> impl FnOnce(&mut Machine) {
    |machine| {
        change(machine.cluster.pools[0].device.gpu_mut().expect("a catalog machine has GPUs"));
    }
}

fn wires(change: impl FnOnce(&mut Interconnect, &mut Network)) -> impl FnOnce(&mut Machine) {
    |machine| {
        let Fabric::Wired { interconnect, network } = &mut machine.cluster.pools[0].fabric else {
            panic!("a catalog machine is wired")
        };
        change(interconnect, network);
    }
}

fn stack(change: impl FnOnce(&mut Stack)) -> impl FnOnce(&mut Machine) {
    |machine| change(Arc::make_mut(&mut machine.stack))
}

#[test]
fn slower_machines_take_longer() {
    slower("peak rate", gpu(|g| g.peak_fp16.value.0 /= 2.0));
    slower("memory bandwidth", gpu(|g| g.memory_bandwidth.value.0 /= 2.0));
    slower("multiprocessors", gpu(|g| g.multiprocessors.value = 37));
    slower("products' share of the peak", gpu(|g| g.achieved.gemm_fp16.value /= 2.0));
    slower("depth of a tile's prologue", gpu(|g| g.achieved.gemm_depth.value *= 4.0));
    slower("memory's share", gpu(|g| g.achieved.memory.value /= 2.0));
    slower("kernel floor", gpu(|g| g.achieved.kernel_floor.value = g.achieved.kernel_floor.value * 10.0));
    slower("network", wires(|_, network| network.baseline.value.0 /= 2.0));
    slower("share of the network", wires(|_, network| network.messaging.sustained.value /= 2.0));
    slower("messages", wires(|_, network| network.messaging.step.value = network.messaging.step.value * 10.0));
    slower("waiting chunks", wires(|_, network| network.messaging.chunk_trips.value *= 4.0));
    slower("latencies inside", wires(|_, network| network.messaging.inside.value *= 10.0));
    slower(
        "ports",
        wires(|interconnect, _| {
            if let Interconnect::Nvswitch { port, .. } = interconnect {
                port.value.0 /= 20.0;
            }
        }),
    );
    slower("oversubscribed switches", |machine: &mut Machine| {
        machine.cluster.switches = vec![SwitchLevel { ports: 2, oversubscription: 4.0 }];
    });
    slower("encryption", |machine: &mut Machine| machine.cluster.encrypted = true);
    slower("latencies inside machines", |machine: &mut Machine| machine.cluster.latency.inside = 2.0);
    slower("latencies between machines", |machine: &mut Machine| machine.cluster.latency.between = 2.0);
}

#[test]
fn a_fused_softmax_that_does_not_take_the_heads_takes_longer() {
    // Forty heads on two ranks are twenty for one sample: five groups of four, but no whole groups of eight.
    let with_heads = |heads: u32| {
        let mut machine = machine();
        Arc::make_mut(&mut machine.stack).softmax_heads = Some(Sourced::new(heads, "a test"));
        let spec = model(|m| (m.hidden, m.heads) = (Some(2560), Some(40)));
        outcome(spec, &machine).step_time
    };
    assert!(with_heads(8) > with_heads(4));
    assert_eq!(with_heads(4), with_heads(1));
}

#[test]
fn sequence_parallelism_waits_for_less() {
    // A node with slow links, so that collectives inside layers count: backward waits for one of three.
    let time = |sequence| {
        let mut machine = machine();
        Arc::make_mut(&mut machine.stack).overlap_slowdown.value = 0.0;
        let spec = with(wide(), |s| s.parallel.sequence = sequence);
        outcome(spec, &machine).step_time.0
    };
    assert!(time(true) < time(false));
}

#[test]
fn slower_software_takes_longer() {
    slower("launches", stack(|s| s.launch.value = s.launch.value * 4.0));
    slower("traffic", stack(|s| s.traffic.value *= 2.0));
    slower("products", stack(|s| s.gemm.value /= 2.0));
    // Where chunks wait, as over EFA, one long message is quicker than many buckets by about what overlap gains.
    let overlapping = |bucketed: bool| {
        let mut machine = machine();
        wires(|_, network| network.messaging.chunk_trips.value = 0.0)(&mut machine);
        if !bucketed {
            Arc::make_mut(&mut machine.stack).bucket.value.0 = 0;
        }
        outcome(wide(), &machine).step_time
    };
    assert!(overlapping(false) > overlapping(true), "no overlap");
    slower("a fixed time", stack(|s| s.step_overhead.value = s.step_overhead.value * 10.0));
    let piped = |change: &dyn Fn(&mut Stack)| {
        let mut machine = machine();
        change(Arc::make_mut(&mut machine.stack));
        outcome(base(), &machine).step_time
    };
    let blocking = piped(&|_| {});
    // Inside one machine reductions are short, so that kernels decide.
    let beside = |slowdown| {
        let mut machine =
            Machine { cluster: catalog().cluster("p4d.24xlarge", 1).expect("in the catalog"), ..machine() };
        Arc::make_mut(&mut machine.stack).overlap_slowdown.value = slowdown;
        outcome(with(wide(), |s| (s.parallel.data, s.batch.accumulation) = (4, 8)), &machine).step_time
    };
    assert!(beside(0.9) > beside(0.3), "kernels beside collectives");
    assert!(piped(&|s| s.blocking_transfers.value = false) < blocking, "sends beside kernels");
    assert!(piped(&|s| s.scattered_transfers.value = true) < blocking, "sends in parts");
    assert!(piped(&|s| s.compute_precision_gradients.value = true) < blocking, "smaller gradients");
    let gathered = with(wide(), |s| s.state_sharding = StateSharding::Parameters);
    let mut by_tensor = machine();
    Arc::make_mut(&mut by_tensor.stack).sharded_by_tensor.value = true;
    assert!(outcome(gathered.clone(), &by_tensor).step_time > outcome(gathered.clone(), &machine()).step_time);
    let mut copied = machine();
    Arc::make_mut(&mut copied.stack).sharded_copy_rate = Some(Sourced::new(BytesPerSecond(1e9), "a test"));
    assert!(outcome(gathered.clone(), &copied).step_time > outcome(gathered, &machine()).step_time);
}

#[test]
fn what_frameworks_do_with_maps_and_updates_takes_time() {
    let time = |name: &str, precision, optimizer, change: &dyn Fn(&mut Stack)| {
        let (model, mut machine) = (&trainyard_models::find(name).expect("in the catalog").model, machine());
        change(Arc::make_mut(&mut machine.stack));
        let spec =
            PlanSpec { precision, optimizer, ..PlanSpec::plain(model.spec(), base().cluster, model.graph().len()) };
        outcome(spec, &machine).step_time.0
    };
    let image = |precision, change: &dyn Fn(&mut Stack)| time("resnet50", precision, Optimizer::Momentum, change);
    let (half, single) = (Precision::Fp16Mixed, Precision::Fp32);
    assert!(image(half, &|s| s.map_traffic.value *= 4.0) > image(half, &|_| {}), "maps");
    let laid = |layout| move |s: &mut Stack| (s.map_layout, s.launch.value) = (layout, Seconds(0.0));
    let slow = |s: &mut Stack| s.convolution = Some(Sourced::new(0.5, "a test"));
    assert!(image(half, &slow) > image(half, &|_| {}), "convolutions");
    assert!(image(half, &laid(MapLayout::ChannelsFirst)) > image(half, &laid(MapLayout::ChannelsLast)), "transposed");
    assert!(image(single, &laid(MapLayout::ChannelsLast)) > image(single, &laid(MapLayout::ChannelsFirst)), "filtered");
    assert!(image(half, &|s| s.update_traffic.value *= 40.0) > image(half, &|_| {}), "updates");
    let detector = |change: &dyn Fn(&mut Stack)| time("mask-rcnn-r50-fpn", half, Optimizer::Momentum, change);
    assert!(detector(&|s| s.region_selection.value = Seconds(1e-3)) > detector(&|_| {}) + 0.6, "640 regions");
    let tables = |share: f64| {
        let model = &trainyard_models::find("dlrm").expect("in the catalog").model;
        let mut machine = machine();
        Arc::make_mut(&mut machine.stack).table_exchange = Some(Sourced::new(share, "a test"));
        let spec = PlanSpec {
            parallel: ParallelSpec { data: 32, expert: 32, ..ParallelSpec::default() },
            batch: BatchSpec { global: 65_536, micro: 2048, accumulation: 1 },
            precision: half,
            ..PlanSpec::plain(model.spec(), base().cluster, model.graph().len())
        };
        outcome(spec, &machine).step_time.0
    };
    assert!(tables(1.0) > tables(0.2), "rows that are exchanged");
    let apart = |s: &mut Stack| s.separate_update = Some(Sourced::new(Seconds(1e-3), "a test"));
    let adam = |precision, change: &dyn Fn(&mut Stack)| time("bert-large", precision, Optimizer::AdamW, change);
    assert!(adam(single, &apart) > adam(single, &|_| {}) + 0.3, "an update tensor by tensor");
    let mixed = |precision| {
        let change = |s: &mut Stack| (s.mixed_traffic.value, s.launch.value) = (20.0, Seconds(0.0));
        time("bert-large", precision, Optimizer::AdamW, &change)
    };
    assert!(mixed(half) > mixed(Precision::Tf32), "what is kept in single precision");
    let updates = [Optimizer::Sgd, Optimizer::Momentum, Optimizer::Lars, Optimizer::Lamb, Optimizer::AdamW]
        .map(|optimizer| time("bert-large", half, optimizer, &|_| {}));
    assert!(updates[..4].windows(2).all(|pair| pair[0] < pair[1]) && updates[4] < updates[3], "{updates:?}");
    assert!((updates[4] - time("bert-large", half, Optimizer::RmsProp, &|_| {})).abs() < 1e-12, "the same state");
}

#[test]
fn what_separate_kernels_keep_is_of_layers_over_tokens() {
    let held = |name: &str, kept: Option<f64>| {
        let (model, mut machine) = (&trainyard_models::find(name).expect("in the catalog").model, machine());
        Arc::make_mut(&mut machine.stack).token_activations = kept.map(|kept| Sourced::new(kept, "a test"));
        let spec = PlanSpec::plain(model.spec(), base().cluster, model.graph().len());
        outcome(spec, &machine).footprint.peak()
    };
    assert!(held("bert-large", Some(2.0)) > held("bert-large", None));
    assert_eq!(held("resnet50", Some(2.0)), held("resnet50", None));
}

#[test]
fn memory_grows_with_what_the_software_takes() {
    let held = |change: &dyn Fn(&mut Machine)| {
        let mut machine = machine();
        change(&mut machine);
        outcome(base(), &machine).footprint.peak()
    };
    let before = held(&|_| {});
    assert!(held(&|m| Arc::make_mut(&mut m.stack).resident.value.0 += 1 << 30) > before);
    assert!(held(&|m| Arc::make_mut(&mut m.stack).keeps_half_gradients = Some(Sourced::new(true, "a test"))) > before);
    assert!(held(&|m| Arc::make_mut(&mut m.stack).fragmentation.value += 0.1) > before);
}

#[test]
fn more_machines_of_one_kind_change_nothing_for_the_same_ranks() {
    let larger = Machine {
        cluster: Cluster {
            pools: catalog().cluster("p4d.24xlarge", 8).expect("in the catalog").pools,
            ..machine().cluster
        },
        ..machine()
    };
    assert_eq!(outcome(base(), &larger).step_time, outcome(base(), &machine()).step_time);
}
