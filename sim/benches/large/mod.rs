//! What benches of time and of instructions measure.

use trainyard_hardware_profiles::catalog;
use trainyard_plan::{
    BatchSpec, ClusterSpec, ParallelSpec, Plan, PlanSpec, Precision, Recompute, ScheduleName, Stages,
};
use trainyard_sim::Machine;
use trainyard_units::Instant;

/// Pseudo-random delays below 2^20 ns.
pub(crate) struct Delays(pub(crate) u64);

impl Delays {
    pub(crate) fn after(&mut self, now: Instant) -> Instant {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Instant::from_nanoseconds(now.nanoseconds() + (self.0 >> 44))
    }
}

/// GPT-3 175B on p4d machines, 8 GPUs to a tensor group, 1F1B.
pub(crate) fn job(data: u32, pipeline: u32, accumulation: u64, layers: u32) -> (Plan, Machine) {
    let mut model = trainyard_models::find("gpt3-175b").expect("in the catalog").model.spec();
    model.layers = Some(layers);
    let instances = data * pipeline;
    let spec = PlanSpec {
        parallel: ParallelSpec { data, tensor: 8, pipeline, ..ParallelSpec::default() },
        batch: BatchSpec { global: accumulation * u64::from(data), micro: 1, accumulation },
        schedule: if pipeline == 1 { ScheduleName::None } else { ScheduleName::OneForwardOneBackward },
        stages: Stages::balanced(&vec![1.0; layers as usize + 2], pipeline).expect("more layers than stages").specs(),
        precision: Precision::Fp16Mixed,
        recompute: Recompute::Full,
        ..PlanSpec::plain(model, ClusterSpec::of("p4d.24xlarge", instances), 0)
    };
    let machine = Machine {
        cluster: catalog().cluster("p4d.24xlarge", instances).expect("in the catalog"),
        stack: catalog().stack("pytorch").expect("in the catalog").clone(),
    };
    (Plan::try_from(spec).expect("a valid plan"), machine)
}
