//! Whatever plan is accepted is simulated, in the memory that was told before.

use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use trainyard_hardware_profiles::catalog;
use trainyard_models::{Family, Model, ModelSpec};
use trainyard_plan::{
    BatchSpec, ClusterSpec, GradientReduction, ParallelSpec, Plan, PlanSpec, Precision, Recompute, ScheduleName,
    Stages, StateSharding,
};
use trainyard_sim::{Machine, Options, memory_needed, simulate_with, step_time_bound};
use trainyard_units::Seconds;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Larger simulations take long.
const SIMULATED_MAX: u64 = 16 << 20;

/// What prices, footprints and results take besides, whatever the step.
const BESIDES: u64 = 4 << 20;

/// Numbers at the edges of what types and formulas hold, and plain ones.
const EDGES: [u64; 16] =
    [0, 1, 2, 3, 4, 7, 8, 64, 255, 1000, 65_535, 65_536, 1 << 31, u32::MAX as u64, 1 << 53, u64::MAX];

/// A number that stands somewhere in a plan.
type Field = fn(&mut PlanSpec, u64);

/// For those of 32 bits, the largest that they hold stands for what is larger.
fn short(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

const FIELDS: [Field; 19] = [
    |plan, value| plan.model.layers = Some(short(value)),
    |plan, value| plan.model.hidden = Some(value),
    |plan, value| plan.model.heads = Some(value),
    |plan, value| plan.model.vocab = Some(value),
    |plan, value| plan.model.seq_len = Some(value),
    |plan, value| plan.parallel.data = short(value),
    |plan, value| plan.parallel.tensor = short(value),
    |plan, value| plan.parallel.pipeline = short(value),
    |plan, value| plan.parallel.context = short(value),
    |plan, value| plan.parallel.expert = short(value),
    |plan, value| plan.batch.global = value,
    |plan, value| plan.batch.micro = value,
    |plan, value| plan.batch.accumulation = value,
    |plan, value| plan.virtual_stages = short(value),
    |plan, value| plan.stages[0].first = usize::try_from(value).unwrap_or(usize::MAX),
    |plan, value| plan.stages[0].layers = usize::try_from(value).unwrap_or(usize::MAX),
    |plan, value| plan.cluster.instances = short(value),
    |plan, value| plan.sharding_ranks = Some(short(value)),
    // Together, as they have to be for a plan of so many replicas or micro-batches.
    |plan, value| {
        plan.parallel.data = short(value);
        plan.cluster.instances = short(value);
        plan.batch.global = plan.batch.micro.saturating_mul(plan.batch.accumulation).saturating_mul(value);
    },
];

fn small_plan() -> impl Strategy<Value = PlanSpec> {
    let schedules = prop::sample::select(ScheduleName::ALL.to_vec());
    let sharding = prop::sample::select(StateSharding::ALL);
    let reductions = prop::sample::select(GradientReduction::ALL);
    let recompute = prop::sample::select(Recompute::ALL);
    (0u32..3, 0u32..3, 0u32..3, 1u64..9, schedules, sharding, reductions, recompute).prop_map(
        |(data, tensor, pipeline, rounds, schedule, state_sharding, gradient_reduction, recompute)| {
            let model = ModelSpec {
                layers: Some(10),
                hidden: Some(256),
                heads: Some(8),
                vocab: Some(1000),
                seq_len: Some(128),
                ..ModelSpec::new("small", Family::Gpt)
            };
            let layers = Model::try_from(model.clone()).expect("a valid model").graph().len();
            let pipeline = 1 << pipeline;
            let schedule = if pipeline == 1 { ScheduleName::None } else { schedule };
            let virtual_stages = *schedule.chunks().start();
            let data = 1 << data;
            let accumulation = rounds * u64::from(pipeline);
            PlanSpec {
                parallel: ParallelSpec { data, tensor: 1 << tensor, pipeline, ..ParallelSpec::default() },
                batch: BatchSpec { global: 2 * accumulation * u64::from(data), micro: 2, accumulation },
                schedule,
                virtual_stages,
                stages: Stages::balanced(&vec![1.0; layers], pipeline * virtual_stages).expect("enough").specs(),
                precision: Precision::Fp16Mixed,
                recompute,
                state_sharding,
                gradient_reduction,
                ..PlanSpec::plain(model, ClusterSpec::of("p3.16xlarge", 8), layers)
            }
        },
    )
}

fn any_plan() -> impl Strategy<Value = PlanSpec> {
    let change = (prop::sample::select(FIELDS.to_vec()), prop::sample::select(EDGES.to_vec()));
    (small_plan(), prop::collection::vec(change, 0..3)).prop_map(|(mut plan, changes)| {
        for (field, value) in changes {
            field(&mut plan, value);
        }
        plan
    })
}

/// What a simulation had at once, beyond what was there before.
fn simulated(plan: &Plan, machine: &Machine, options: Options) -> Option<(Seconds, u64)> {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let outcome = simulate_with(plan, machine, options).ok()?;
    Some((outcome.step_time, (MEMORY.peak_usage() - before) as u64))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_accepted_is_simulated_in_the_memory_that_was_told(spec in any_plan(), unfold: bool) {
        let Ok(plan) = Plan::try_from(spec) else { return Ok(()) };
        let options = Options { unfold, ..Options::default() };
        let needed = memory_needed(&plan, options).0;
        if needed > SIMULATED_MAX {
            return Ok(());
        }
        let cluster = catalog().cluster("p3.16xlarge", plan.cluster().instances).expect("in the catalog");
        let machine = Machine { cluster, stack: catalog().stack("pytorch").expect("in the catalog").clone() };
        let Some((step, taken)) = simulated(&plan, &machine, options) else { return Ok(()) };
        prop_assert!(step.0 > 0.0 && step.0.is_finite(), "{step:?}");
        prop_assert!(taken <= needed + BESIDES, "{taken} bytes instead of {needed}");
        let bound = step_time_bound(&plan, &machine).expect("it was priced");
        // Simulated time is whole nanoseconds.
        prop_assert!(bound.0 <= step.0 * (1.0 + 1e-6), "{bound:?} of {step:?}");
    }
}
