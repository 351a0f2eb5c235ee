//! The operators that a search on a measured machine needs the times of.

use super::space::{Candidate, Space};
use crate::problem::Problem;
use std::collections::BTreeSet;
use trainyard_hardware_profiles::OperatorCase;
use trainyard_plan::operators::{OperatorGraph, Pass, Sharing};
use trainyard_plan::{Fixed, Mesh, Precision};
use trainyard_sim::{cases_of_layers, cases_of_update, work_of_operator};

/// The most multiply-adds forward, or numbers, of an operator that is quick to time on a processor: some milliseconds.
const QUICK: f64 = 3e8;

/// The same of the largest operator that is timed besides the smallest: by one size alone it is not known what takes longer
/// with more rows and what does not, such as reading weights.
const LARGEST: f64 = 3e9;

/// Returns the operators of a job's model at the shapes that its candidates on a measured machine compute, for each of
/// the numbers of ranks that calibration measures. Micro-batches are powers of two, if the job has candidates with such:
/// other sizes take times between theirs, or in proportion. On processors an operator that is not quick to time is timed
/// with the smallest of them, and with the largest with which no operator of the model has more than ten times what is
/// quick. None if there is no candidate.
pub fn cases_to_measure(problem: &Problem, fixed: &Fixed, ranks: &[u32], is_cpu: bool) -> BTreeSet<OperatorCase> {
    let space = Space::new(problem, fixed);
    let graph = space.graph_of(0);
    let usual = |candidate: &Candidate| candidate.batch.micro.is_power_of_two() || is_alone(candidate);
    let (usual, others): (Vec<Candidate>, Vec<Candidate>) = space.candidates().into_iter().partition(usual);
    let candidates = if usual.is_empty() { others } else { usual };
    let sizes: BTreeSet<u64> = candidates.iter().map(|candidate| candidate.batch.micro).collect();
    let of_sample = multiply_adds(graph);
    let bounded = sizes.iter().rev().find(|micro| **micro as f64 * of_sample <= LARGEST);
    let always = [sizes.first(), bounded].map(|micro| micro.copied().unwrap_or(1));
    let wanted = |micro: u64, case: &OperatorCase| {
        !is_cpu || always.contains(&micro) || work_of_operator(case.operator, &case.shape) <= QUICK
    };
    let mut all = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for Candidate { parallel, batch, precision, .. } in candidates {
        let mesh = Mesh::from(parallel);
        let at_work = ranks.iter().copied().filter(|ranks| *ranks >= mesh.ranks()).min();
        let Some(at_work) = at_work.or_else(|| ranks.iter().copied().max()) else { continue };
        let Sharing { tensor, sequence, context, expert, .. } = mesh.sharing();
        if seen.insert((batch.micro, tensor, sequence, context, expert, at_work, precision)) {
            let cases = cases_of_layers(graph, batch.micro, mesh.sharing(), at_work, precision);
            all.extend(cases.into_iter().filter(|case| wanted(batch.micro, case)));
        }
    }
    if all.is_empty() {
        return all;
    }
    for (ranks, precision) in ranks.iter().flat_map(|ranks| problem.precisions.iter().map(|own| (*ranks, *own))) {
        all.extend(updates(problem, graph, ranks, precision));
    }
    all
}

/// Returns `true` if the rank computes all samples of a step at once.
fn is_alone(candidate: &Candidate) -> bool {
    candidate.batch.accumulation == 1
}

/// Returns the multiply-adds forward of the largest operator for one sample.
fn multiply_adds(graph: &OperatorGraph) -> f64 {
    let operators = graph.distinct().iter().flat_map(|layer| &layer.operators);
    let flops = operators.map(|operator| operator.on_rank(1, Sharing::WHOLE).flops(Pass::Forward).0);
    flops.fold(1.0, f64::max) / 2.0
}

/// Updates of the whole model, and, where ranks may have shares or stages of it, of half of it.
fn updates(problem: &Problem, graph: &OperatorGraph, ranks: u32, precision: Precision) -> BTreeSet<OperatorCase> {
    let operators = graph.layers().flat_map(|layer| &layer.operators);
    let tensors: u64 = operators.map(|operator| u64::from(operator.parameter_tensors())).sum();
    let shares = if ranks == 1 { 1..=1 } else { 1..=2 };
    let sizes = shares.map(|share| [graph.updated_parameters() / share, (tensors / share).max(1)]);
    sizes.flat_map(|size| cases_of_update(problem.optimizer, size, ranks, precision)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Limits, recommend};
    use crate::asking;
    use crate::problem::{Resources, problem};
    use trainyard_hardware_profiles::{
        CollectiveOperation, CollectiveSample, DeviceKind, MeasuredMachine, NumberFormat, OperatorClass,
        OperatorSample, PROFILE_SCHEMA,
    };
    use trainyard_models::Family;
    use trainyard_plan::{JobSpec, Method, ModelChoice, Optimizer};
    use trainyard_units::{Bytes, BytesPerSecond};

    /// A machine on which every case takes as long as its first dimension is large.
    fn machine(cases: impl IntoIterator<Item = OperatorCase>) -> MeasuredMachine {
        let timed = |case: OperatorCase| {
            let (forward_s, backward_s) = (1e-6 * case.shape[0] as f64, 2e-6 * case.shape[0] as f64);
            let OperatorCase { operator, format, ranks, shape } = case;
            OperatorSample { operator, format, ranks, threads: 1, shape, forward_s, backward_s, spread: 0.1 }
        };
        let exchange = |operation| CollectiveSample { operation, ranks: 2, bytes: 1 << 10, seconds: 1e-4 };
        MeasuredMachine {
            schema: PROFILE_SCHEMA.into(),
            name: "local".into(),
            processor: "a processor".into(),
            device: DeviceKind::Cpu,
            devices: 2,
            memory: Bytes(1 << 33),
            measured: "2026-11-25".into(),
            framework: "burn".into(),
            copy_bandwidth: BytesPerSecond(1e10),
            overlap_slowdown: None,
            corrections: Vec::new(),
            operators: cases.into_iter().map(timed).collect(),
            collectives: vec![exchange(CollectiveOperation::AllReduce), exchange(CollectiveOperation::Send)],
        }
    }

    fn asked(job: &JobSpec, machine: MeasuredMachine) -> Problem {
        let resources =
            Resources { profile: Some(machine), profile_path: Some("local".into()), ..Resources::default() };
        problem(job, resources).expect("a job")
    }

    fn job(model: &str, batch: u64) -> JobSpec {
        let mut job = asking::training(model, batch);
        (job.data.samples, job.cluster.profile) = (Some(1000), Some("local".into()));
        job
    }

    #[test]
    fn a_job_is_planned_from_what_it_asked_for() {
        let known =
            OperatorCase { operator: OperatorClass::Residual, format: NumberFormat::Fp32, ranks: 1, shape: vec![1, 1] };
        for (model, batch) in [("mnist-mlp", 24), ("resnet18", 8), ("gpt2", 2)] {
            let job = job(model, batch);
            let cases = cases_to_measure(&asked(&job, machine([known.clone()])), &Fixed::default(), &[1, 2], true);
            assert!(cases.iter().all(|case| case.ranks <= 2 && !case.shape.contains(&0)));
            assert!(cases.iter().any(|case| case.operator == OperatorClass::AdamW), "{model}");
            let document = recommend(&asked(&job, machine(cases)), &Limits::default(), &job).expect("a plan");
            let told: Vec<&String> =
                document.warnings.iter().filter(|told| told.contains("priced from sizes")).collect();
            assert!(told.is_empty(), "{model}: {told:?}");
        }
    }

    #[test]
    fn a_measured_machine_plans_what_its_executor_trains() {
        let known =
            OperatorCase { operator: OperatorClass::Residual, format: NumberFormat::Fp32, ranks: 1, shape: vec![1, 1] };
        let by = |model: &str, method| {
            let mut job = job(model, 2);
            job.training.method = Some(method);
            job
        };
        for method in [Method::Lora, Method::Frozen] {
            let job = by("gpt2", method);
            let cases = cases_to_measure(&asked(&job, machine([known.clone()])), &Fixed::default(), &[1, 2], true);
            let document = recommend(&asked(&job, machine(cases)), &Limits::default(), &job).expect("a plan");
            assert_eq!(document.plan.fine_tuning.as_ref().map(|part| part.method), Some(method));
            assert!(document.methods.iter().any(|own| own.chosen && own.method == method));
            let quantised = document.methods.iter().find(|own| own.method == Method::Qlora).expect("it is compared");
            assert_eq!(quantised.reason.as_deref(), Some("is not run here"));
        }
        for (model, method) in [("gpt2", Method::Qlora), ("bert-large", Method::Lora)] {
            let resources = Resources {
                profile: Some(machine([known.clone()])),
                profile_path: Some("local".into()),
                ..Resources::default()
            };
            let refused = problem(&by(model, method), resources).expect_err("nothing trains so").to_string();
            assert!(refused.contains("training.method") && refused.contains(method.name()), "{refused}");
        }
    }

    #[test]
    fn sizes_that_take_long_are_left_to_proportion() {
        let known =
            OperatorCase { operator: OperatorClass::Residual, format: NumberFormat::Fp32, ranks: 1, shape: vec![1, 1] };
        let problem = asked(&job("gpt2", 64), machine([known]));
        let rows = |is_cpu| {
            let cases = cases_to_measure(&problem, &Fixed::default(), &[1, 2], is_cpu);
            let linear = cases.into_iter().filter(|case| case.operator == OperatorClass::Linear);
            linear.map(|case| case.shape[0]).max()
        };
        assert_eq!(rows(true), Some(1024));
        assert!(rows(false) > Some(1024));
    }

    /// With a large vocabulary the head is the largest operator by far; the others are timed as they are computed.
    #[test]
    fn a_large_head_is_timed_at_two_sizes_and_the_blocks_at_all() {
        let known =
            OperatorCase { operator: OperatorClass::Residual, format: NumberFormat::Fp32, ranks: 1, shape: vec![1, 1] };
        let mut job = job("gpt2", 16);
        job.model = ModelChoice {
            family: Some(Family::Gpt),
            layers: Some(2),
            hidden: Some(96),
            heads: Some(6),
            vocab: Some(50_257),
            seq_len: Some(64),
            ..ModelChoice::default()
        };
        let cases = cases_to_measure(&asked(&job, machine([known])), &Fixed::default(), &[1], true);
        let rows = |operator| -> BTreeSet<u64> {
            cases.iter().filter(|case| case.operator == operator).map(|case| case.shape[0]).collect()
        };
        assert_eq!(rows(OperatorClass::TiedHead), BTreeSet::from([64, 512]));
        // Two ranks may share the tokens of a sample.
        assert_eq!(rows(OperatorClass::LayerNorm), BTreeSet::from([32, 64, 128, 256, 512, 1024]));
    }

    #[test]
    fn what_the_executor_offloads_can_be_held_and_what_it_lacks_is_named() {
        let known =
            OperatorCase { operator: OperatorClass::Residual, format: NumberFormat::Fp32, ranks: 1, shape: vec![1, 1] };
        let asked_of = asked(&job("gpt2", 4), machine([known.clone()]));
        let plans_or_refusal = |held: &[&str]| {
            let fixed = asking::held(held);
            let space = Space::new(&asked_of, &fixed);
            (space.has_plans(), space.refusal(0))
        };
        assert_eq!(plans_or_refusal(&["offload=activations"]), (true, None));
        assert_eq!(plans_or_refusal(&["offload=optimizer+parameters"]), (true, None));
        let (some, told) = plans_or_refusal(&["offload=activations", "recompute=none"]);
        assert!(!some && told.is_some_and(|told| told.contains("activations with recompute full")));
        let mut other = job("gpt2", 4);
        other.training.optimizer = Some(Optimizer::RmsProp);
        let resources =
            Resources { profile: Some(machine([known])), profile_path: Some("local".into()), ..Resources::default() };
        let told = problem(&other, resources).expect_err("the executor lacks it").to_string();
        assert!(told.contains("`training.optimizer` is rmsprop") && told.contains("adamw"), "{told}");
    }

    #[test]
    fn a_held_micro_batch_that_is_no_power_of_two_is_timed() {
        let known =
            OperatorCase { operator: OperatorClass::Residual, format: NumberFormat::Fp32, ranks: 1, shape: vec![1, 1] };
        let problem = asked(&job("mnist-mlp", 12), machine([known]));
        let cases = cases_to_measure(&problem, &asking::held(&["batch.micro=3"]), &[1, 2], true);
        assert!(cases.iter().any(|case| case.operator == OperatorClass::Linear && case.shape[0] == 3));
    }
}
