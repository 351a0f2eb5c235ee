//! The walk of one number that ARCHITECTURE.md describes: from the rate of a network in a catalog to a step time.

use trainyard_hardware_profiles::{Fabric, catalog};
use trainyard_plan::{Activity, BatchSpec, ClusterSpec, ParallelSpec, Plan, PlanSpec, Precision, Recompute};
use trainyard_sim::{Machine, simulate};

#[test]
fn the_network_of_a_machine_bounds_the_sum_of_gradients() {
    let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
    let layers = model.graph().len();
    let plan = Plan::try_from(PlanSpec {
        parallel: ParallelSpec { data: 16, ..ParallelSpec::default() },
        batch: BatchSpec { global: 256, micro: 16, accumulation: 1 },
        precision: Precision::Fp16Mixed,
        recompute: Recompute::Selective,
        ..PlanSpec::plain(model.spec(), ClusterSpec::of("p3.16xlarge", 2), layers)
    })
    .expect("a valid plan");
    let cluster = catalog().cluster("p3.16xlarge", 2).expect("in the catalog");
    let machine = Machine { cluster, stack: catalog().stack("pytorch").expect("in the catalog").clone() };
    let Fabric::Wired { network, .. } = &machine.cluster.first().fabric else { panic!("it was not measured") };
    let nominal = network.baseline.value.0;
    assert!((nominal - 25e9 / 8.0).abs() < 1.0);
    let carried = nominal * network.messaging.sustained.value;
    // A ring over 16 devices carries 15/16 of the buffer twice through each machine; gradients have four bytes.
    let through = 2.0 * 15.0 / 16.0 * 4.0 * 124_439_808.0;
    let outcome = simulate(&plan, &machine).expect("priced");
    let timeline = outcome.timeline();
    let reductions = timeline.intervals.iter().filter(|i| matches!(i.activity, Activity::ReduceGradients { .. }));
    let took: f64 = reductions.map(|interval| interval.end.since(interval.start).seconds().0).sum();
    assert!((took / (through / carried) - 1.0).abs() < 0.01, "{took} s, {} by hand", through / carried);
    // What backward does not hide of it is exposed.
    let exposed = outcome.exposed_communication.0;
    assert!(exposed < took && exposed > 0.5 * took, "{exposed} of {took}");
    let rest = outcome.step_time.0 - exposed;
    assert!(rest > 0.0 && rest < took, "kernels alone take {rest} s");
}
