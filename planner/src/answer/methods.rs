//! What training all weights, adapters, or adapters beside quantised weights would each need and cost on the same data.

use super::limits::Limits;
use super::solve::{alternative, best, worth_the_effort};
use crate::problem::{Problem, Rental, executable};
use crate::search::{Aim, Evaluated, search};
use rayon::prelude::*;
use std::sync::Arc;
use trainyard_hardware_profiles::Stack;
use trainyard_models::{Layer, Sharing};
use trainyard_plan::document::{MethodChoice, SmallestMachine};
use trainyard_plan::{FineTuningSpec, Fixed, JobSpec, Method, Store, executor_trains};
use trainyard_units::Invalid;

/// Methods that every fine-tuning is compared with, in the order of what they need.
const COMPARED: [Method; 3] = [Method::Full, Method::Lora, Method::Qlora];

/// Returns the methods of fine-tuning with the best plan of each and the smallest machines that it fits on, if the job
/// names a method. Those that are not the job's are found without deadline and budget, by a short search where it
/// would be long.
pub(super) fn methods(problem: &Problem, limits: &Limits, job: &JobSpec, chosen: &Evaluated) -> Vec<MethodChoice> {
    let prefers = problem.kind().dpo.then_some(Method::Full);
    let Some(own) = job.training.method.or(prefers) else { return Vec::new() };
    let mut all = COMPARED.to_vec();
    if !all.contains(&own) {
        all.push(own);
    }
    let software = &problem.place.software(chosen.choice).name;
    let choice = |method: &Method| {
        let problem = problem.by(fine_tuning(problem, job, *method).ok()?)?;
        Some(of_method(&problem, limits, software, (*method == own).then_some(chosen)))
    };
    all.par_iter().filter_map(choice).collect()
}

/// Returns the settings of a method, those of the job where it has some.
fn fine_tuning(problem: &Problem, job: &JobSpec, method: Method) -> Result<Option<FineTuningSpec>, Invalid> {
    if method == problem.method() {
        return Ok(problem.fine_tuning.clone());
    }
    let training = job.training.clone().by(method);
    let dpo = problem.fine_tuning.as_ref().and_then(|own| own.dpo);
    FineTuningSpec::towards(dpo, method, training.lora.as_ref(), training.trained_blocks)
}

/// Describes a method: with this software where it trains so, because a comparison is of methods, not of software.
fn of_method(problem: &Problem, limits: &Limits, software: &str, chosen: Option<&Evaluated>) -> MethodChoice {
    let free = Problem { deadline: None, budget: None, ..problem.clone() };
    let same = Limits { fixed: Fixed { stack: Some(software.to_owned()), ..limits.fixed.clone() }, ..limits.clone() };
    let sought = |limits: &Limits| best(&worth_the_effort(&free, &limits.fixed), limits);
    let best = chosen.cloned().or_else(|| sought(&same).or_else(|_| sought(limits)).ok());
    let graph = problem.graph();
    let frozen: u64 = graph.own_layers().map(Layer::frozen_values).sum();
    let trained: u64 = graph.own_layers().map(|layer| layer.parameters(Sharing::WHOLE)).sum();
    MethodChoice {
        method: problem.method(),
        trained_parameters: trained,
        parameters: trained + frozen,
        smallest: smallest(&free, limits, best.as_ref()),
        reason: best.is_none().then(|| why_none(problem).into()),
        best: best.as_ref().map(alternative),
        chosen: chosen.is_some(),
    }
}

/// Explains why a method has no plan.
fn why_none(problem: &Problem) -> &'static str {
    let (place, kind) = (&problem.place, problem.kind());
    if place.is_measured() && !executor_trains(kind, problem.model.family()) {
        return "is not run here";
    }
    let trains = |stack: &Arc<Stack>| executable(stack).is_ok_and(|software| software.trains(kind));
    if place.stacks().iter().any(trains) { "does not fit" } else { "not with this software" }
}

/// Returns the machines with the lowest price an hour on which a plan fits, among powers of two of each type and as many
/// as the best plan has. What fits only with weights or states on local disks takes weeks, and nobody would rent it, unless
/// that is the best plan.
fn smallest(problem: &Problem, limits: &Limits, best: Option<&Evaluated>) -> Option<SmallestMachine> {
    let rental = problem.place.rental()?;
    let briefly = problem.briefly();
    offers(rental, best.map(|best| best.plan.cluster().instances)).into_iter().find_map(
        |(hourly_usd, instance, instances)| {
            let held = |own: &Option<String>| own.as_ref().is_none_or(|own| *own == instance);
            if !held(&limits.fixed.instance) || limits.fixed.instances.is_some_and(|own| own != instances) {
                return None;
            }
            let fixed = Fixed { instance: Some(instance.clone()), instances: Some(instances), ..limits.fixed.clone() };
            let found = search(&briefly, &fixed, Aim::best(problem.objective)).best.into_iter().next()?;
            let is_of_best = best.is_some_and(|best| best.plan.cluster() == found.plan.cluster());
            if found.plan.offload().uses(Store::Nvme) && !is_of_best {
                return None;
            }
            Some(SmallestMachine { instance, instances, hourly_usd, memory_peak_bytes: found.memory_peak.0 })
        },
    )
}

/// Lists types and numbers of machines, powers of two and one more, with their price an hour, the cheapest first.
fn offers(rental: &Rental, one_more: Option<u32>) -> Vec<(f64, String, u32)> {
    let mut all: Vec<(f64, String, u32)> = Vec::new();
    for ((instance, price), most) in rental.instances.iter().zip(&rental.most) {
        let doubled =
            std::iter::successors(Some(1_u32), |count| count.checked_mul(2)).take_while(|count| count <= most);
        let counts = doubled.chain(one_more.filter(|count| count <= most && !count.is_power_of_two()));
        all.extend(counts.map(|count| (price.hourly().0 * f64::from(count), instance.name.clone(), count)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking::{self, planned};

    /// Full fine-tuning of a model of 32 billion parameters on one machine.
    fn large(machine: &str) -> JobSpec {
        let mut job = asking::job("qwen2.5-32b", 32, &[machine], 1);
        (job.model.seq_len, job.data.samples) = (Some(2048), Some(20_000));
        job.training.method = Some(Method::Full);
        job
    }

    #[test]
    fn a_row_has_what_planning_that_method_gives() {
        let full = planned(&large("g6e.48xlarge"));
        let mut job = large("g6e.48xlarge");
        job.training.method = Some(Method::Lora);
        job.cluster.stack.clone_from(&full.plan.stack);
        let lora = planned(&job).prediction;
        let row = full.methods.iter().find(|own| own.method == Method::Lora).and_then(|own| own.best.as_ref());
        let row = row.expect("it fits");
        assert!((row.time_s / lora.elapsed_s() - 1.0).abs() < 1e-9, "{} {}", row.time_s, lora.elapsed_s());
        assert!(row.cost_usd < full.prediction.cost_usd, "{:?}", row.cost_usd);
    }

    #[test]
    fn the_machines_of_the_best_plan_are_a_machine_that_it_fits_on() {
        let methods = planned(&large("g6e.12xlarge")).methods;
        let own = methods.iter().find(|own| own.chosen).expect("the job's own");
        assert!(own.best.as_ref().is_some_and(|best| best.plan.offload.uses(Store::Nvme)), "{own:?}");
        assert!(own.smallest.as_ref().is_some_and(|smallest| smallest.instance == "g6e.12xlarge"), "{own:?}");
    }

    #[test]
    fn methods_that_the_named_software_does_not_train_are_told_from_those_that_do_not_fit() {
        let mut job = asking::training("gpt2", 16);
        (job.data.tokens, job.training.method) = (Some(1e7), Some(Method::Full));
        job.cluster.instances = Some(vec!["g4dn.xlarge".into()]);
        job.cluster.stack = Some("pytorch-fsdp".into());
        let methods = planned(&job).methods;
        let qlora = methods.iter().find(|own| own.method == Method::Qlora).expect("it is compared");
        assert_eq!(qlora.reason.as_deref(), Some("not with this software"));
    }
}
