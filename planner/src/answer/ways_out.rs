//! What would let a plan fit that does not: a held field that is left free, an optimizer with less state, other software, more
//! machines, GPUs with more memory, shorter samples. Each is tried by the search of a draft before it is told.

use super::goal::{fewest, with_at_most};
use super::left_out::{cheapest_sizes, priced};
use super::nearest_fit::fitting;
use crate::edits::{MachineChange, Part, Setting};
use crate::problem::{Place, Problem, Rental, executable, of_today, trains, valid, with_seq_len};
use crate::search::Evaluated;
use rayon::prelude::*;
use std::sync::Arc;
use trainyard_hardware_profiles::{Instance, Stack};
use trainyard_plan::{Field, FineTuningSpec, Fixed, Method, Optimizer};
use trainyard_sim::usable;
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
    /// A method of fine-tuning that takes less memory than the job's.
    pub method: Option<Method>,
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
    /// Tries them for a problem of which the smallest plan needs so much memory on a device.
    pub(super) fn new(problem: &Problem, fixed: &Fixed, needed: Bytes) -> Self {
        let (seq_len, method) = (seq_len(problem, fixed), method(problem, fixed));
        let (freed, optimizer) = (freed(problem, fixed), optimizer(problem, fixed));
        let Some(rental) = problem.place.rental() else {
            let (machines, main_memory) = (machines(problem, fixed), main_memory(problem, fixed));
            return Self { freed, optimizer, machines, main_memory, seq_len, method, ..Self::default() };
        };
        Self {
            freed,
            optimizer,
            machines: None,
            main_memory: None,
            stack: stack(problem, rental, fixed),
            instances: instances(problem, rental, fixed),
            instance: instance(problem, rental, fixed, needed),
            seq_len,
            method,
        }
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

/// Tries AdamW with its moments in eight bits, on those of the stacks that have it.
fn optimizer(problem: &Problem, fixed: &Fixed) -> Option<Optimizer> {
    if problem.optimizer != Optimizer::AdamW || problem.model.normalises_over_batches() {
        return None;
    }
    let lighter = Problem { optimizer: Optimizer::AdamW8bit, ..problem.clone() };
    let able = |stack: &Arc<Stack>| executable(stack).is_ok_and(|software| trains(&software, lighter.trained()));
    let mut place = problem.place.clone();
    let stacks = match &mut place {
        Place::Rented(rental) => &mut rental.stacks,
        Place::Owned { stacks, .. } => stacks,
    };
    stacks.retain(able);
    let first = stacks.first()?.clone();
    if let Place::Owned { machine, .. } = &mut place {
        machine.stack = first;
    }
    let optimizer = lighter.optimizer;
    fits(&Problem { place, ..lighter }, fixed).then_some(optimizer)
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

/// Finds the method with which a fine-tuning fits: adapters in place of all weights, and adapters beside weights in four bits.
fn method(problem: &Problem, fixed: &Fixed) -> Option<Method> {
    let lighter: &[Method] = match problem.method() {
        Method::Full if problem.loads_weights => &[Method::Lora, Method::Qlora],
        Method::Lora => &[Method::Qlora],
        _ => &[],
    };
    let own = problem.fine_tuning.as_ref();
    let by = |method: Method| match own.filter(|own| own.method == Method::Lora) {
        Some(own) => Some(FineTuningSpec { method, ..own.clone() }),
        None => FineTuningSpec::towards(own.and_then(|own| own.dpo), method, None, None).ok()?,
    };
    let fits_by = |method: &Method| {
        let lighter = by(*method).and_then(|own| problem.by(Some(own)));
        lighter.is_some_and(|problem| fits(&problem, fixed))
    };
    lighter.iter().copied().find(fits_by)
}

/// Finds the cheapest type that was not searched and has on each GPU more memory than the smallest plan needs.
fn instance(problem: &Problem, rental: &Rental, fixed: &Fixed, needed: Bytes) -> Option<String> {
    let price = &rental.instances.first().filter(|_| fixed.instance.is_none())?.1;
    let is_new = |own: &&Instance| rental.instances.iter().all(|(other, _)| other.name != own.name);
    let types: Vec<&Instance> = rental.catalog.instances().iter().filter(is_new).collect();
    let memory = |own: &Instance| rental.catalog.gpu(&own.gpu).ok().map(|gpu| gpu.memory.value);
    let has_room = |memory: Bytes| rental.stacks.iter().any(|stack| usable(memory, stack) >= needed);
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
    use crate::problem::{Resources, problem};
    use trainyard_hardware_profiles::ClusterFile;
    use trainyard_plan::{Fixed, GlobalBatch, JobSpec, Method};

    /// What is said of a model that does not fit on so many nodes with eight H100 of one's own.
    fn on_nodes(model: &str, nodes: u32, fix: &[&str]) -> (WaysOut, String) {
        let text = format!(
            "name = \"own\"\n[[machines]]\nname = \"node\"\nlike = \"p5.48xlarge\"\ncount = {nodes}\n\
             network = {{ bandwidth = \"400 Gbit/s\", cards = 8, transport = \"infiniband\" }}\n"
        );
        let file: ClusterFile = toml::from_str(&text).expect("the form of a cluster file");
        let mut job = JobSpec::default();
        (job.model.name, job.cluster.file) = (Some(model.into()), Some("own.toml".into()));
        (job.model.seq_len, job.data.samples) = (Some(4096), Some(10_000));
        job.training.global_batch = Some(GlobalBatch::Exactly(64));
        let own = Resources { cluster_file: Some(file), cluster_path: Some("own.toml".into()), ..Resources::default() };
        let problem = problem(&job, own).expect("a solvable job");
        let fix: Vec<String> = fix.iter().map(ToString::to_string).collect();
        let limits = Limits { fixed: Fixed::parse(&fix).expect("fields"), ..Limits::default() };
        let error = recommend(&problem, &limits, &job).expect_err("it is too large");
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
            let mut job = JobSpec::default();
            (job.model.name, job.cluster.file) = (Some("qwen3-4b".into()), Some("desk.toml".into()));
            (job.model.seq_len, job.data.samples) = (Some(2048), Some(10_000));
            job.training.global_batch = Some(GlobalBatch::Exactly(16));
            job.training.method = Some(Method::Full);
            let file: ClusterFile = toml::from_str(&text).expect("the form of a cluster file");
            let own =
                Resources { cluster_file: Some(file), cluster_path: Some("desk.toml".into()), ..Resources::default() };
            let problem = problem(&job, own).expect("a solvable job");
            recommend(&problem, &Limits::default(), &job).err().and_then(|error| error.hint())
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
            let problem = asking::solvable(&job);
            let fix = ["offload=none".to_owned()];
            let limits = Limits { fixed: Fixed::parse(&fix).expect("a field"), ..Limits::default() };
            recommend(&problem, &limits, &job).expect_err("it is too large").hint().expect("there is one")
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
            let problem = asking::solvable(&job);
            let limits =
                Limits { fixed: Fixed::parse(&["precision=bf16-mixed".into()]).expect("a field"), ..Limits::default() };
            recommend(&problem, &limits, &job).expect_err("it is too large").hint().expect("there is one")
        };
        let has = told("pytorch-ddp");
        let first = "keep AdamW's moments in eight bits (training.optimizer = \"adamw-8bit\"), ";
        assert!(has.starts_with(first), "{has}");
        let lacks = told("pytorch-fsdp-compiled");
        assert!(!lacks.contains("eight bits"), "{lacks}");
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
}
