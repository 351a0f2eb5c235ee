//! Embedding tables that ranks divide, and recurrent layers whose steps follow one another.

use trainyard_hardware_profiles::catalog;
use trainyard_models::{ModelSpec, find};
use trainyard_plan::{
    BatchSpec, ClusterSpec, Optimizer, ParallelSpec, Plan, PlanSpec, Precision, ScheduleName, Stages,
};
use trainyard_sim::{Machine, Outcome, simulate};

fn spec(model: ModelSpec, parallel: ParallelSpec, micro: u64, accumulation: u64) -> PlanSpec {
    let layers = trainyard_models::Model::try_from(model.clone()).expect("a valid model").graph().len();
    PlanSpec {
        parallel,
        batch: BatchSpec { global: micro * accumulation * u64::from(parallel.data), micro, accumulation },
        schedule: ScheduleName::None,
        precision: Precision::Fp16Mixed,
        optimizer: Optimizer::Sgd,
        stages: Stages::balanced(&vec![1.0; layers], 1).expect("enough layers").specs(),
        ..PlanSpec::plain(model, ClusterSpec::of("p4d.24xlarge", 2), layers)
    }
}

fn outcome(spec: PlanSpec) -> Outcome {
    let machine = Machine {
        cluster: catalog().cluster("p4d.24xlarge", 2).expect("in the catalog"),
        stack: catalog().stack("pytorch").expect("in the catalog").clone(),
    };
    simulate(&Plan::try_from(spec).expect("a valid plan"), &machine).expect("a GPU prices everything")
}

fn model(name: &str) -> ModelSpec {
    find(name).expect("in the catalog").model.spec()
}

fn replicas(data: u32, expert: u32) -> ParallelSpec {
    ParallelSpec { data, expert, ..ParallelSpec::default() }
}

#[test]
fn tables_that_are_divided_take_less_memory_and_exchange_rows() {
    let divided = |expert| outcome(spec(model("dlrm-small"), replicas(8, expert), 8192, 1));
    let (whole, eighth) = (divided(1), divided(8));
    // 4.2 billion values in single precision, of which seven eighths are elsewhere, and so are the gradients of the rows
    // that the seven other ranks look up; and what the allocator adds.
    let rows = 8192.0 * 26.0 * 128.0 * 4.0;
    let saved = (whole.footprint.peak().0 - eighth.footprint.peak().0) as f64;
    assert!((saved / ((4.196e9 * 4.0 / 8.0 + rows) * 7.0 * 1.05) - 1.0).abs() < 0.01, "{saved:e}");
    // Rows that all replicas look up are gathered by all, where an all-to-all brings each to one.
    assert!(whole.step_time > eighth.step_time);
    // Beside an eighth of the batch on one GPU there is what the ranks exchange.
    let alone = outcome(spec(model("dlrm-small"), replicas(1, 1), 8192, 1));
    assert!(eighth.step_time > alone.step_time);
}

#[test]
fn larger_tables_take_memory_and_no_time() {
    let small = model("dlrm-small");
    let doubled = small.tables.clone().map(|tables| tables.into_iter().map(|rows| 2 * rows).collect());
    let large = ModelSpec { tables: doubled, ..small.clone() };
    let of = |model| outcome(spec(model, replicas(8, 8), 8192, 1));
    let (small, large) = (of(small), of(large));
    assert_eq!(small.step_time, large.step_time);
    assert!(large.footprint.peak() > small.footprint.peak());
}

#[test]
fn an_update_of_tables_is_of_what_was_looked_up() {
    // Twice as many micro-batches look up twice as many rows, which are updated once.
    let of = |accumulation| outcome(spec(model("dlrm-small"), replicas(8, 8), 4096, accumulation)).step_time.0;
    let (one, two, three) = (of(1), of(2), of(3));
    assert!(two > one && three > two);
    assert!(((three - two) / (two - one) - 1.0).abs() < 0.2, "{one} {two} {three}");
}

#[test]
fn groups_that_divide_tables_may_be_of_any_size_that_divides_the_replicas() {
    for (data, expert) in [(16, 16), (16, 4), (12, 3), (5, 5)] {
        let spec = spec(model("dlrm"), replicas(data, expert), 1024, 1);
        assert!(Plan::try_from(spec).is_ok(), "{expert} of {data}");
    }
    let odd = spec(model("dlrm"), replicas(16, 3), 1024, 1);
    let error = Plan::try_from(odd).expect_err("3 does not divide 16");
    assert!(error.to_string().contains("replicas"), "{error}");
    let dense = spec(model("gnmt"), replicas(8, 2), 16, 1);
    let error = Plan::try_from(dense).expect_err("nothing to divide");
    assert!(error.to_string().contains("embedding tables"), "{error}");
}

#[test]
fn steps_of_recurrent_layers_cannot_be_done_at_once() {
    // The same tokens in longer sequences: products of inputs are as large, but more steps follow one another.
    let of = |seq_len, samples| {
        let model = ModelSpec { seq_len: Some(seq_len), decoder_seq_len: Some(seq_len), ..model("gnmt") };
        outcome(spec(model, replicas(1, 1), samples, 1)).step_time.0
    };
    assert!(of(64, 8) > 1.5 * of(8, 64));
    // A larger batch of as many steps hides behind them for a long time.
    assert!(of(26, 32) < 1.7 * of(26, 16));
}

#[test]
fn every_new_family_is_simulated() {
    for name in
        ["bart-large", "electra-base", "transformer-xl-base", "transformer-xl-large", "transformer-big", "rnn-t"]
    {
        let outcome = outcome(spec(model(name), replicas(8, 1), 8, 2));
        let mfu = outcome.mfu.expect("rented GPUs have a peak");
        assert!(outcome.step_time.0 > 0.0 && mfu > 0.0 && mfu < 0.7, "{name}: {mfu}");
    }
}
