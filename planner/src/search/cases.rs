//! The operators that a search on a measured machine needs the times of.

use super::space::{Candidate, Space};
use crate::problem::Problem;
use std::collections::BTreeSet;
use trainyard_hardware_profiles::OperatorCase;
use trainyard_plan::operators::{OperatorGraph, Pass, Sharing};
use trainyard_plan::{Fixed, Mesh, Precision};
use trainyard_sim::{cases_of_layers, cases_of_update};

/// The most multiply-adds forward of the largest operator that is worth timing on processors; a larger one takes longer
/// in proportion.
const MULTIPLY_ADDS_MAX: f64 = 3e8;

/// Returns the operators of a job's model at the shapes that its candidates on a measured machine compute, for each of
/// the numbers of ranks that calibration measures. Micro-batches are powers of two, of which on processors only those
/// are taken that are quick to time: other sizes take times between theirs, or in proportion.
pub fn cases_to_measure(problem: &Problem, fixed: &Fixed, ranks: &[u32], is_cpu: bool) -> BTreeSet<OperatorCase> {
    let space = Space::new(problem, fixed);
    let graph = space.graph_of(0);
    let mut candidates = space.candidates();
    candidates.retain(|candidate| candidate.batch.micro.is_power_of_two() || is_alone(candidate));
    let least = candidates.iter().map(|candidate| candidate.batch.micro).min().unwrap_or(1);
    let most = if is_cpu { (MULTIPLY_ADDS_MAX / multiply_adds(graph)).max(1.0) } else { f64::INFINITY };
    candidates.retain(|candidate| candidate.batch.micro == least || candidate.batch.micro as f64 <= most);
    let mut all = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for Candidate { parallel, batch, precision, .. } in candidates {
        let mesh = Mesh::from(parallel);
        let at_work = ranks.iter().copied().filter(|ranks| *ranks >= mesh.ranks()).min();
        let Some(at_work) = at_work.or_else(|| ranks.iter().copied().max()) else { continue };
        if seen.insert((batch.micro, parallel.tensor, parallel.sequence, parallel.context, at_work, precision)) {
            all.extend(cases_of_layers(graph, batch.micro, mesh.sharing(), at_work, precision));
        }
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
