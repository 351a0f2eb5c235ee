//! What would let a plan fit that does not: a held field that is left free, an optimizer with less state, other software, more
//! machines, GPUs with more memory, shorter samples. Each is tried by the search of a draft before it is told.

use super::goal::{fewest, with_at_most};
use super::left_out::{cheapest_sizes, priced};
use super::nearest_fit::fitting;
use crate::edits::{MachineChange, Part, Setting};
use crate::problem::{
    Place, Problem, Rental, executable, lighter, of_today, trains, usual_optimizer, valid, with_seq_len,
};
use crate::search::Evaluated;
use crate::shortfall::Shortfall;
use rayon::prelude::*;
use std::sync::Arc;
use trainyard_hardware_profiles::{Instance, Stack};
use trainyard_models::{FrozenWeights, Sharing};
use trainyard_plan::{Field, FineTuningSpec, Fixed, LoraSpec, Method, Optimizer};
use trainyard_units::Bytes;

/// Types with larger GPUs that are tried, the cheapest first: with each of them a plan may need more than on smaller ones.
const TYPES_TRIED: usize = 8;

/// Fractions of the tokens of a sample that are tried.
const LENGTHS_TRIED: [u64; 4] = [2, 4, 8, 16];

/// Held fields that are told, at most.
const FIELDS_TOLD: usize = 3;

/// Doublings of main memory that are tried.
const DOUBLINGS_TRIED: u32 = 4;

/// Multiples of the machines that are allowed.
const MACHINES_TRIED: [u32; 5] = [2, 4, 8, 16, 32];

/// What was seen to let a plan fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaysOut {
    /// Held fields without any one of which a plan fits.
    pub freed: Vec<Freed>,
    /// An optimizer that does the same with less state, on the software that the job names.
    pub optimizer: Option<Optimizer>,
    /// Software that people use today, beside the one that the job names.
    pub stack: Option<String>,
    /// Machines of a type that is rented.
    pub instances: Option<u32>,
    /// More machines of one's own than there are: `4 × node`.
    pub machines: Option<String>,
    /// The cheapest type of machine whose GPUs have enough more memory.
    pub instance: Option<String>,
    /// Main memory of a machine of one's own, to which states are offloaded then.
    pub main_memory: Option<Bytes>,
    /// Tokens of a sample.
    pub seq_len: Option<u64>,
    /// Fine-tuning by another method.
    pub method: Option<OtherMethod>,
    /// Quantised weights that are more than a GPU has: each loads all of them before they are shared out, so that more GPUs
    /// do not help.
    pub loaded_whole: Option<Bytes>,
}

/// A method of fine-tuning in place of a job's.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherMethod {
    pub of_job: Method,
    pub instead: Method,
    /// The type of machine that it takes, where the job's own are not enough.
    pub instance: Option<String>,
}

/// A held field without which a plan fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Freed {
    /// The field as it is held.
    pub field: &'static str,
    /// What that plan takes of a device.
    pub memory: Bytes,
    /// Its machines.
    pub machines: String,
}

impl WaysOut {
    /// Tries them for a problem of which the smallest plan lacks so much memory on a device.
    pub(super) fn new(problem: &Problem, fixed: &Fixed, least: Shortfall) -> Self {
        let (seq_len, method) = (seq_len(problem, fixed), method(problem, fixed));
        let loaded_whole = quantised(problem).filter(|weights| *weights > least.available);
        let (freed, optimizer) = (freed(problem, fixed), optimizer(problem, fixed));
        let every = Self { freed, optimizer, seq_len, method, loaded_whole, ..Self::default() };
        let Some(rental) = problem.place.rental() else {
            let (machines, main_memory) = (machines(problem, fixed), main_memory(problem, fixed));
            return Self { machines, main_memory, ..every };
        };
        let instance = instance(problem, rental, fixed, least.needed);
        let method = match every.method {
            None if instance.is_none() => method_on_larger(problem, rental, fixed),
            found => found,
        };
        let (stack, instances) = (stack(problem, rental, fixed), instances(problem, rental, fixed));
        Self { stack, instances, instance, method, ..every }
    }
}

fn fits(problem: &Problem, fixed: &Fixed) -> bool {
    fitting(problem, fixed).is_some()
}

/// Tries each held field free, the others held.
fn freed(problem: &Problem, fixed: &Fixed) -> Vec<Freed> {
    let mut held = fixed.each();
    held.sort_by_key(|(field, ..)| effort(*field));
    let freed = held.par_iter().map(|(field, _, rest)| {
        let plan = fitting(problem, rest)?;
        Some(Freed { field: field.name(), memory: plan.memory_peak, machines: plan.machines() })
    });
    let freed: Vec<Option<Freed>> = freed.collect();
    freed.into_iter().flatten().take(FIELDS_TOLD).collect()
}

/// Orders fields by how much else changes with them: what is computed or kept where, micro-batches, degrees, machines.
fn effort(field: Field) -> u8 {
    match field {
        Field::Instance | Field::Instances | Field::Stack | Field::Precision => 3,
        Field::Micro | Field::Accumulation => 1,
        other if other.counts().is_some() => 2,
        _ => 0,
    }
}

/// Finds a size of main memory, by doubling that of the largest machine, with which a plan fits that offloads states to it.
fn main_memory(problem: &Problem, fixed: &Fixed) -> Option<Bytes> {
    let Place::Owned { machine, .. } = &problem.place else { return None };
    let hosts = machine.cluster.pools.iter().filter_map(|pool| pool.host.as_ref());
    let largest = hosts.map(|host| host.memory).max()?;
    let times = (1..=DOUBLINGS_TRIED).map(|doublings| 1_u64 << doublings).find(|times| {
        let more = MachineChange { part: Part::HostMemory, setting: Setting::Factor(*times as f64) };
        fits(&Problem { place: problem.place.clone().changed(&[more]), ..problem.clone() }, fixed)
    });
    times.map(|times| Bytes(largest.0.saturating_mul(times)))
}

/// Finds how many more machines of one's own would be enough, of each kind in turn.
fn machines(problem: &Problem, fixed: &Fixed) -> Option<String> {
    let types = problem.place.types();
    let types = types.iter().filter(|(name, _)| fixed.instance.as_ref().is_none_or(|held| held == name));
    types.into_iter().find_map(|(name, there)| {
        let fixed = Fixed { instance: Some(name.clone()), ..fixed.clone() };
        let more =
            more_machines(problem, &fixed, (*there, Some(name)), |more| problem.place.may_have(more, Some(name)));
        more.map(|plan| plan.machines())
    })
}

/// Finds a plan on the fewest machines beyond those that are held or, of a type of one's own or of any, `there`.
fn more_machines(
    problem: &Problem,
    fixed: &Fixed,
    (there, of): (u32, Option<&str>),
    allowed: impl Fn(u32) -> bool,
) -> Option<Evaluated> {
    let own = fixed.instances.unwrap_or(there);
    let on = |most: u32, held: Option<u32>| {
        let fixed = Fixed { instances: held, ..fixed.clone() };
        fitting(&with_at_most(problem, most, of), &fixed).filter(|plan| plan.plan.cluster().instances > own)
    };
    let tried: Vec<u32> = MACHINES_TRIED.into_iter().filter_map(|times| own.checked_mul(times)).collect();
    let mut allowed = tried.iter().enumerate().filter(|(_, more)| allowed(**more));
    let (index, plan) = allowed.find_map(|(index, more)| Some((index, on(*more, fixed.instances.map(|_| *more))?)))?;
    let missed = index.checked_sub(1).map_or(own, |before| tried[before]);
    // Numbers between two multiples of what is held need not divide, so that none of them is.
    Some(fewest(missed, plan, |most| on(most, None)))
}

/// Tries optimizers with less state, on those of the stacks that have them: AdamW with its moments in eight bits, or those that
/// such networks are usually trained with.
fn optimizer(problem: &Problem, fixed: &Fixed) -> Option<Optimizer> {
    let usual = usual_optimizer(&problem.model, &problem.graph());
    let others = lighter(problem.optimizer, usual).iter().copied();
    others.filter(|own| usual.is_some() || own.is_adam()).find(|own| fits_with(problem, fixed, *own))
}

fn fits_with(problem: &Problem, fixed: &Fixed, optimizer: Optimizer) -> bool {
    let lighter = Problem { optimizer, ..problem.clone() };
    let able = |stack: &Arc<Stack>| executable(stack).is_ok_and(|software| trains(&software, lighter.trained()));
    let mut place = problem.place.clone();
    let stacks = match &mut place {
        Place::Rented(rental) => &mut rental.stacks,
        Place::Owned { stacks, .. } => stacks,
    };
    stacks.retain(able);
    let Some(first) = stacks.first().cloned() else { return false };
    if let Place::Owned { machine, .. } = &mut place {
        machine.stack = first;
    }
    fits(&Problem { place, ..lighter }, fixed)
}

fn on(problem: &Problem, rental: Rental) -> Problem {
    Problem { place: Place::Rented(Box::new(rental)), ..problem.clone() }
}

fn stack(problem: &Problem, rental: &Rental, fixed: &Fixed) -> Option<String> {
    let able = |stack: &Arc<Stack>| executable(stack).is_ok_and(|software| trains(&software, problem.trained()));
    let mut others = of_today(&rental.catalog).into_iter().filter(able);
    let named = rental.stacks.len() == 1 && fixed.stack.is_none();
    let fits_with = |stack: &Arc<Stack>| {
        let mut stack = stack.clone();
        Arc::make_mut(&mut stack).memory_margin.clone_from(&rental.stacks[0].memory_margin);
        fits(&on(problem, Rental { stacks: vec![stack], ..rental.clone() }), fixed)
    };
    others.find(|stack| named && fits_with(stack)).map(|stack| stack.name.clone())
}

fn instances(problem: &Problem, rental: &Rental, fixed: &Fixed) -> Option<u32> {
    let allowed = |most: u32| rental.instances.iter().any(|(own, _)| rental.quotas.cap(own, most) == most);
    let more = more_machines(problem, fixed, (rental.max_instances, None), allowed);
    more.map(|plan| plan.plan.cluster().instances)
}

fn seq_len(problem: &Problem, fixed: &Fixed) -> Option<u64> {
    let spec = problem.model.spec();
    let tokens = spec.seq_len?;
    let shorter = LENGTHS_TRIED.into_iter().map(|divisor| tokens / divisor).filter(|shorter| *shorter > 0);
    shorter.into_iter().find(|shorter| {
        let model = valid(with_seq_len(spec.clone(), Some(*shorter)));
        model.is_ok_and(|model| fits(&Problem { model, ..problem.clone() }, fixed))
    })
}

/// Lists the methods that may fit where a job's does not: adapters in place of all weights, and beside weights in four bits;
/// and beside weights in 16 bits where those in four, which GPUs load whole, are too many.
fn others(problem: &Problem) -> &'static [Method] {
    match problem.method() {
        Method::Full if problem.loads_weights => &[Method::Lora, Method::Qlora],
        Method::Lora => &[Method::Qlora],
        Method::Qlora => &[Method::Lora],
        _ => &[],
    }
}

/// Returns the problem with the same adapters, if it has any, by another method.
fn by(problem: &Problem, method: Method) -> Option<Problem> {
    let own = problem.fine_tuning.as_ref();
    let lora = own.and_then(|own| own.lora.clone()).map(|lora| LoraSpec { base: None, ..lora });
    let spec = FineTuningSpec::towards(own.and_then(|own| own.dpo), method, lora.as_ref(), None).ok()?;
    problem.by(spec)
}

/// Finds a method with which a fine-tuning fits on the job's machines.
fn method(problem: &Problem, fixed: &Fixed) -> Option<OtherMethod> {
    let fits_by = |method: &Method| by(problem, *method).is_some_and(|problem| fits(&problem, fixed));
    let instead = others(problem).iter().copied().find(fits_by)?;
    Some(OtherMethod { of_job: problem.method(), instead, instance: None })
}

/// Finds a method with which a fine-tuning fits on GPUs with more memory than those of the job, though by its own it fits on
/// none.
fn method_on_larger(problem: &Problem, rental: &Rental, fixed: &Fixed) -> Option<OtherMethod> {
    let memory = |own: &Instance| rental.catalog.gpu(&own.gpu).ok().map(|gpu| gpu.memory.value);
    let largest = rental.instances.iter().filter_map(|(own, _)| memory(own)).max()?;
    let on = |method: &Method| Some((*method, instance(&by(problem, *method)?, rental, fixed, largest + Bytes(1))?));
    let (instead, instance) = others(problem).iter().find_map(on)?;
    Some(OtherMethod { of_job: problem.method(), instead, instance: Some(instance) })
}

/// Returns the bytes of the weights that stay as they are, where they are quantised.
fn quantised(problem: &Problem) -> Option<Bytes> {
    let graph = problem.graph();
    let operators = graph.own_layers().flat_map(|layer| &layer.operators);
    let frozen = operators.map(|own| own.frozen_weights(Sharing::WHOLE)).fold(FrozenWeights::default(), |a, b| a + b);
    // The others, of tables and norms, are in half precision.
    (frozen.quantised > 0).then_some(Bytes(2 * frozen.values + frozen.quantised))
}

/// Finds the cheapest type that was not searched and has on each GPU more memory than the smallest plan needs.
fn instance(problem: &Problem, rental: &Rental, fixed: &Fixed, needed: Bytes) -> Option<String> {
    let price = &rental.instances.first().filter(|_| fixed.instance.is_none())?.1;
    let is_new = |own: &&Instance| rental.instances.iter().all(|(other, _)| other.name != own.name);
    let types: Vec<&Instance> = rental.catalog.instances().iter().filter(is_new).collect();
    let memory = |own: &Instance| rental.catalog.gpu(&own.gpu).ok().map(|gpu| gpu.memory.value);
    // While weights are loaded a plan takes what it leaves free of a device later.
    let has_room = |memory: Bytes| memory >= needed;
    let mut others = priced(rental, &types, price);
    others.retain(|(own, _)| memory(own).is_some_and(has_room));
    cheapest_sizes(&mut others);
    others.sort_by(|(_, own), (_, other)| own.hourly().0.total_cmp(&other.hourly().0));
    others.into_iter().take(TYPES_TRIED).find_map(|(own, price)| {
        let (name, cap) = (own.name.clone(), rental.quotas.cap(&own, rental.max_instances));
        let there = Rental { instances: vec![(own, price)], most: vec![cap], ..rental.clone() };
        fits(&on(problem, there), fixed).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::WaysOut;
    use crate::answer::{Limits, NoPlan, recommend};
    use crate::asking;
    use crate::problem::problem;
    use trainyard_plan::Method;

    /// What is said of a model that does not fit on so many nodes with eight H100 of one's own.
    fn on_nodes(model: &str, nodes: u32, fix: &[&str]) -> (WaysOut, String) {
        let text = format!(
            "name = \"own\"\n[[machines]]\nname = \"node\"\nlike = \"p5.48xlarge\"\ncount = {nodes}\n\
             network = {{ bandwidth = \"400 Gbit/s\", cards = 8, transport = \"infiniband\" }}\n"
        );
        let (mut job, own) = asking::on_own(model, 64, &text);
        (job.model.seq_len, job.data.samples) = (Some(4096), Some(10_000));
        let problem = problem(&job, own).expect("a solvable job");
        let error = asking::answered(&problem, &job, fix).expect_err("it is too large");
        let hint = error.hint().expect("there is one");
        let NoPlan::OutOfMemory { ways_out, .. } = error else { panic!("{error}") };
        (*ways_out, hint)
    }

    #[test]
    fn held_fields_without_which_a_plan_fits_are_named() {
        let (ways, hint) = on_nodes("llama-2-13b", 1, &["tp=1", "pp=1", "recompute=none", "batch.micro=8"]);
        let freed: Vec<&str> = ways.freed.iter().map(|freed| freed.field).collect();
        assert!(freed.contains(&"recompute"), "{ways:?}");
        assert!(hint.contains("leave recompute free (a plan on 1 × own then fits in "), "{hint}");
    }

    #[test]
    fn more_machines_of_ones_own_are_named_where_they_would_be_enough() {
        let (ways, hint) = on_nodes("llama-2-70b", 1, &["precision=fp32", "offload=none"]);
        let machines = ways.machines.expect("a few nodes hold it");
        let nodes: u32 =
            machines.strip_suffix(" × own").and_then(|nodes| nodes.parse().ok()).expect("a number of nodes");
        // On one fewer none fits either.
        on_nodes("llama-2-70b", nodes - 1, &["precision=fp32", "offload=none"]);
        assert!(hint.contains(&format!("use more machines ({machines})")), "{hint}");
    }

    #[test]
    fn main_memory_is_named_where_more_of_it_would_be_enough() {
        let told = |memory: &str| {
            let text = format!(
                "name = \"desk\"\n[[machines]]\nname = \"desk\"\ncount = 1\ngpus = 1\ngpu = \"rtx-4090\"\n[machines.host]\n\
                 memory = \"{memory}\"\nmemory_bandwidth = \"80 GB/s\"\npcie = \"31.5 GB/s\"\n"
            );
            let (mut job, own) = asking::on_own("qwen3-4b", 16, &text);
            (job.model.seq_len, job.data.samples) = (Some(2048), Some(10_000));
            job.training.method = Some(Method::Full);
            let problem = problem(&job, own).expect("a solvable job");
            asking::answered(&problem, &job, &[]).err().and_then(|error| error.hint())
        };
        let little =
            told("64 GiB").expect("moments and master weights of 4 billion values take 45 GiB, and their copies");
        assert!(little.contains("give the machine 128 GiB of main memory"), "{little}");
        assert_eq!(told("128 GiB"), None);
    }

    #[test]
    fn adapters_are_named_where_a_whole_fine_tuning_does_not_fit() {
        let told = |method| {
            let mut job = asking::job("llama-3.1-8b", 16, &["g6e.xlarge"], 1);
            (job.model.seq_len, job.data.samples) = (Some(512), Some(10_000));
            job.training.method = method;
            let answer = asking::answered(&asking::solvable(&job), &job, &["offload=none"]);
            answer.expect_err("it is too large").hint().expect("there is one")
        };
        let full = told(Some(Method::Full));
        assert!(full.ends_with("or train adapters instead of all weights (--fine-tune lora)"), "{full}");
        // A model that is trained from its beginning has no weights to leave as they are.
        let new = told(None);
        assert!(new.ends_with("or take a smaller model"), "{new}");
    }

    /// 18 bytes for each of 1.24 billion parameters do not fit in 24 GB beside the software, 13.5 do.
    #[test]
    fn moments_in_eight_bits_are_named_first_where_the_software_has_them() {
        let told = |stack: &str| {
            let mut job = asking::job("llama-3.2-1b", 16, &["g5.xlarge"], 1);
            (job.model.seq_len, job.data.samples) = (Some(1024), Some(10_000));
            (job.training.method, job.cluster.stack) = (Some(Method::Full), Some(stack.into()));
            let answer = asking::answered(&asking::solvable(&job), &job, &["precision=bf16-mixed"]);
            answer.expect_err("it is too large").hint().expect("there is one")
        };
        let has = told("pytorch-ddp");
        let first = "keep AdamW's moments in eight bits (--optimizer adamw-8bit), ";
        assert!(has.starts_with(first), "{has}");
        let lacks = told("pytorch-fsdp-compiled");
        assert!(!lacks.contains("eight bits"), "{lacks}");
    }

    /// Tables of 4.2 billion rows' values with two moments take 50 GB; without them they fit.
    #[test]
    fn tables_that_fit_without_moments_are_advised_to_do_without() {
        let mut job = asking::job("dlrm-small", 16_384, &["g5.xlarge"], 1);
        job.data.samples = Some(1_000_000);
        let answer = asking::answered(&asking::solvable(&job), &job, &["offload=none"]);
        let told = answer.expect_err("it is too large").hint().expect("there is one");
        assert!(told.starts_with("train with less state (--optimizer sgd)"), "{told}");
    }

    #[test]
    fn of_types_with_enough_memory_the_cheapest_is_named() {
        let mut job = asking::job("qwen2.5-32b", 16, &["g5.xlarge"], 1);
        (job.model.seq_len, job.data.samples) = (Some(1024), Some(10_000));
        job.training.method = Some(Method::Qlora);
        let problem = asking::solvable(&job);
        let refused = recommend(&problem, &Limits::default(), &job);
        let Err(NoPlan::OutOfMemory { ways_out, .. }) = refused else { panic!("a plan fits") };
        // 1.86 USD an hour; the p3dn.24xlarge, whose GPUs have less memory, costs 31.
        assert_eq!(ways_out.instance.as_deref(), Some("g6e.xlarge"));
    }

    /// What is said of a model whose weights in four bits are too many for these machines.
    fn in_four_bits(model: &str, types: &[&str]) -> (WaysOut, String) {
        let mut job = asking::job(model, 64, types, 16);
        (job.model.seq_len, job.data.samples) = (Some(1024), Some(10_000));
        job.training.method = Some(Method::Qlora);
        let error = recommend(&asking::solvable(&job), &Limits::default(), &job).expect_err("it is too large");
        let hint = error.hint().expect("there is one");
        let NoPlan::OutOfMemory { ways_out, .. } = error else { panic!("{error}") };
        (*ways_out, hint)
    }

    #[test]
    fn weights_that_gpus_share_out_are_named_where_quantised_ones_are_loaded_whole() {
        // 68.45 billion weights of 4.127 bits and 2.1 billion of 16, 36.7 GiB, of which a GPU has 24.
        let (ways, hint) = in_four_bits("llama-3.1-70b", &["g5.12xlarge"]);
        let weights = ways.loaded_whole.expect("more than a GPU has").as_f64();
        assert!((weights / (68.45e9 * 4.127 / 8.0 + 2.1e9 * 2.0) - 1.0).abs() < 0.01, "{weights}");
        assert!(hint.contains("keep the weights in 16 bits, which GPUs share out (--fine-tune lora)"), "{hint}");
        assert!(hint.ends_with("before it shares them out, so that more GPUs do not help"), "{hint}");
        // Those of 405 billion are too many for any GPU, and in 16 bits for 16 machines with 24 GB on each.
        let (ways, hint) = in_four_bits("llama-3.1-405b", &["g5.12xlarge"]);
        let other = ways.method.expect("adapters beside weights in 16 bits");
        assert_eq!((ways.instance, other.instead), (None, Method::Lora));
        let instance = other.instance.expect("larger GPUs");
        assert!(hint.contains(&format!("(--fine-tune lora --instances {instance})")), "{hint}");
    }
}
