//! The reasons why there is no plan at all.

use super::limits::Limits;
use super::nearest_fit::nearest_fit;
use super::ways_out::{Freed, OtherMethod, WaysOut};
use crate::cost::JOB_OF_A_STEP;
use crate::problem::{
    Description, GlobalBatches, Place, Problem, executable_on, names_of_those_that, never_as_many, of_these, of_today,
    of_type, refused, software_of, trains, why_refused,
};
use crate::search::{Found, Space};
use crate::shortfall::Shortfall;
use trainyard_hardware_profiles::{Cluster, EXECUTOR_STACK, catalog};
use trainyard_models::LayerRole;
use trainyard_plan::{Executable, Field, Fixed, Method, NotExecutable, Precision, TuningKind};
use trainyard_sim::Machine;
use trainyard_units::{Bytes, Invalid, Seconds, counted, either, human_bytes, human_count, human_duration};

/// The reason why there is no plan at all.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoPlan {
    /// The space of plans is empty: the held fields or the batch exclude everything.
    #[error("no plan has the wanted degrees: {why}")]
    EmptySpace {
        /// The fields that exclude every plan.
        why: String,
    },
    /// What every plan would need is refused, whatever its degrees: by the machines, the software or the job.
    #[error("no plan is left: {why}")]
    Refused {
        /// What is refused, by what.
        why: String,
        /// What to do instead.
        hint: String,
    },
    /// A held degree that the model or its machines do not admit.
    #[error("no plan has {field} {value}: {why}")]
    Degree {
        /// The held field.
        field: &'static str,
        value: u32,
        /// What does not divide.
        why: String,
        /// What to do instead.
        hint: String,
    },
    /// A held type of machine that the job does not list.
    #[error("`instance` is held at {instance}, which is not among the types of this job")]
    Unlisted {
        /// The held type.
        instance: String,
        /// What to do instead.
        hint: String,
    },
    /// Held fields that need more machines than the user has.
    #[error("{why}")]
    TooFewMachines {
        /// The held fields, with what they need and what there is.
        why: String,
        /// What the user may do about it.
        hint: String,
    },
    /// A held field that none of the stacks of the job runs.
    #[error("`{field}` is {value}, which {stacks}")]
    Unable {
        /// The held field.
        field: String,
        value: String,
        /// A sentence part: the stacks of the job cannot run it.
        stacks: String,
        /// Stacks of the catalog that run it.
        others: Vec<String>,
    },
    /// A held number format that no machine of the job computes in.
    #[error("`precision` is {precision}, which no machine of this job has units for")]
    NoUnits {
        /// The format.
        precision: Precision,
        /// Types of machine that can be rented and have them.
        instances: Vec<String>,
    },
    /// Nothing fits into memory.
    #[error("no plan of {} fits into memory: {}", human_count(*candidates), lack(*bound, *nearest))]
    OutOfMemory {
        /// Plans in the space.
        candidates: u64,
        /// A lower bound of the memory that plans need, and what may be used where the plan with that bound has too little.
        bound: Shortfall,
        /// The memory that the plan needs that comes nearest to fitting, and that may be used of its device; `None` where
        /// larger devices alone are not enough.
        nearest: Option<Shortfall>,
        /// What was seen to let a plan fit.
        ways_out: Box<WaysOut>,
    },
    /// The search was stopped before it simulated anything.
    #[error("the search was limited to {} and ended before it found a plan", counted(*limit, "simulation"))]
    Limited { limit: u64 },
    /// The search was cancelled.
    #[error("the search was cancelled before it ended")]
    Cancelled,
    /// Machines are lost faster than work is saved.
    #[error("no plan makes progress: machines are lost faster than work is saved")]
    NoProgress,
    /// One job of the scheduler ends before its training gets on.
    #[error("`campaign.job_limit` is {limit}, but it must be at least {}: {JOB_OF_A_STEP}", human_duration(*least))]
    ShortJobs {
        /// The limit, as the job has it.
        limit: String,
        /// The least with which the best plan gets on.
        least: Seconds,
    },
    /// The chosen plan cannot be predicted, with the reason.
    #[error("no plan can be priced: {0}")]
    Unpriced(Invalid),
    /// Plans fit, but at the rates of the machines their training has no end.
    #[error("no plan ends: at the rates of these machines training would take for ever")]
    Endless,
    /// Plans fit, but the machine was not measured for them.
    #[error("no plan can be priced: the machine's profile lacks the measurements")]
    Unmeasured,
}

impl NoPlan {
    /// Returns the limit that the user could relax.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::EmptySpace { .. } => Some(
                "a plan uses every device of its machines: data × tensor × pipeline × context is their number (for fewer, \
                 choose smaller machines; in a cluster file `gpus` says how many one has). tensor divides the model's heads, \
                 context the tokens of a sample, data the global batch, expert the experts and data (Megatron-LM's EP is expert × tensor). Hold fewer fields, or \
                 change one of these"
                    .into(),
            ),
            Self::TooFewMachines { hint, .. }
            | Self::Refused { hint, .. }
            | Self::Degree { hint, .. }
            | Self::Unlisted { hint, .. } => Some(hint.clone()),
            Self::OutOfMemory { bound, nearest, ways_out, .. } => Some(relief(*bound, *nearest, ways_out)),
            Self::NoUnits { instances, .. } if instances.is_empty() => Some("leave the field free".into()),
            Self::NoUnits { instances, .. } => Some(format!("these have: {}; search them with --instances", instances.join(", "))),
            Self::Unable { others, .. } if others.is_empty() => Some("leave the field free".into()),
            Self::Unable { field, others, .. } if field == "stack" => {
                Some(format!("these do: {}; choose one with --stack", others.join(", ")))
            }
            Self::Unable { others, .. } => {
                Some(format!("stacks that run it: {}; choose one with --stack", others.join(", ")))
            }
            Self::Limited { .. } => Some("raise --max-simulations".into()),
            Self::Cancelled => None,
            Self::NoProgress => Some(
                "allow fewer machines, or write a longer campaign.node_mtbf or a shorter campaign.checkpoint_interval".into(),
            ),
            Self::ShortJobs { .. } => Some("write the longest time that your scheduler gives to a job".into()),
            Self::Unpriced(invalid) => invalid.hint(),
            Self::Endless => Some("look at the rates in the cluster file, or of what is varied".into()),
            Self::Unmeasured => Some("measure again with `trainyard calibrate`".into()),
        }
    }
}

/// Holds the one number format that a job names, if it names one.
fn with_sole_precision(problem: &Problem, fixed: &Fixed) -> Fixed {
    let sole = match problem.precisions.as_slice() {
        [sole] if problem.names_precisions => Some(*sole),
        _ => None,
    };
    Fixed { precision: fixed.precision.or(sole), ..fixed.clone() }
}

/// Lists the choices with the held type of machine and the held stack.
fn wanted(problem: &Problem, fixed: &Fixed) -> Vec<usize> {
    let choices = problem.place.choices();
    let is_wanted = |choice: &usize| {
        let software = &problem.place.software(*choice).name;
        fixed.instance.as_ref().is_none_or(|held| *held == choices[*choice].0)
            && fixed.stack.as_ref().is_none_or(|held| held == software)
    };
    (0..choices.len()).filter(is_wanted).collect()
}

/// Returns the error for a held field that none of the job's stacks can run.
fn unable(problem: &Problem, fixed: &Fixed) -> Option<NoPlan> {
    let divisible = problem.graph().divisible();
    let stacks = problem.place.stacks();
    if let Some(held) = fixed.stack.as_ref().filter(|held| stacks.iter().all(|stack| stack.name != **held)) {
        return Some(no_such_stack(problem, held));
    }
    let wanted = wanted(problem, fixed);
    let machines = wanted.iter().map(|choice| problem.place.machine(*choice, 1, None));
    if wanted.is_empty() {
        return None;
    }
    if let Some(held) = fixed.precision
        && machines.clone().all(|machine| machine.has_units(held).is_err())
    {
        return Some(NoPlan::NoUnits { precision: held, instances: with_units(problem, held) });
    }
    let softwares = machines.clone().map(|machine| software_of(problem.trained(), &machine));
    if let Some(refused) = no_software_trains(problem, fixed, softwares.clone()) {
        return Some(refused);
    }
    let softwares = softwares.filter(|software| trains(software, problem.trained()));
    let refusals: Option<Vec<NotExecutable>> = softwares.map(|software| refused(fixed, &software, divisible)).collect();
    let NotExecutable { field, value, allowed } = refusals?.into_iter().next()?;
    let runs_otherwise =
        |machine: Machine| executable_on(&machine).is_ok_and(|software| refused(fixed, &software, divisible).is_none());
    if problem.kind() != TuningKind::FULL && machines.clone().any(runs_otherwise) {
        let stacks = format!("is not modelled with {}", problem.kind());
        return Some(NoPlan::Unable { field: field.into(), value, stacks, others: Vec::new() });
    }
    let able = |software: &Executable| {
        refused(fixed, &of_these(software.clone(), problem.trained()), divisible).is_none()
            && trains(software, problem.trained())
    };
    let in_question = |software: &Executable| trains(software, problem.trained());
    let names = match &fixed.stack {
        Some(held) => vec![held.clone()],
        None => names_of_those_that(stacks, in_question),
    };
    // A measured machine has no other software than the executor.
    let stacks_of_all = if problem.place.is_measured() { &[] } else { problem.place.catalog().stacks() };
    let others = names_of_those_that(stacks_of_all, able);
    let stacks = match names.as_slice() {
        [one] => format!("{one} does not run: it runs {allowed}"),
        several => format!("none of the stacks of this job runs: {}", several.join(", ")),
    };
    Some(NoPlan::Unable { field: field.into(), value, stacks, others })
}

/// Returns the error for a held stack that is none of the job's.
fn no_such_stack(problem: &Problem, held: &str) -> NoPlan {
    let (field, value) = ("stack".into(), held.to_owned());
    if problem.place.is_measured() {
        let stacks = format!("does not run here: {EXECUTOR_STACK} does");
        return NoPlan::Unable { field, value, stacks, others: Vec::new() };
    }
    let known = problem.place.catalog().stacks().iter().find(|stack| stack.name == held);
    if let Some(why) = known.and_then(|stack| why_refused(stack, &problem.model, problem.kind().method)) {
        let able = |software: &Executable| trains(software, problem.trained());
        let others = names_of_those_that(problem.place.stacks(), able);
        let stacks = format!("does not train {} here, because {why}", problem.model.name());
        return NoPlan::Unable { field, value, stacks, others };
    }
    let others = known.map(|stack| stack.name.clone()).into_iter().collect();
    NoPlan::Unable { field, value, stacks: "is none of the stacks of this job".into(), others }
}

/// Returns the error for a model that none of the wanted stacks trains on its machines, or not by the job's method.
fn no_software_trains(
    problem: &Problem,
    fixed: &Fixed,
    mut softwares: impl Iterator<Item = Executable> + Clone,
) -> Option<NoPlan> {
    let able = |software: &Executable| trains(software, problem.trained());
    if let Some(held) = fixed.stack.as_ref().filter(|_| !softwares.clone().any(|software| able(&software))) {
        let what = match problem.kind() {
            TuningKind::FULL => problem.model.name().to_owned(),
            kind => format!("by {kind}"),
        };
        let own = problem.place.stacks().iter().find(|stack| stack.name == *held);
        let why = own.and_then(|stack| why_refused(stack, &problem.model, problem.method()));
        let why = why.map_or_else(String::new, |why| format!(", because {why}"));
        let stacks = format!("does not train {what} here{why}");
        let others = names_of_those_that(problem.place.stacks(), able);
        return Some(NoPlan::Unable { field: "stack".into(), value: held.clone(), stacks, others });
    }
    let refusal = softwares.clone().find_map(|software| software.refused_model(&problem.model))?;
    softwares.all(|software| software.refused_model(&problem.model).is_some()).then(|| {
        let names: Vec<&str> = problem.place.stacks().iter().map(|stack| stack.name.as_str()).collect();
        let others = names_of_those_that(&of_today(problem.place.catalog()), able);
        let others = others.into_iter().filter(|name| !names.contains(&name.as_str())).collect();
        let stacks = format!("{} does not run here: it runs {}", names.join(", "), refusal.allowed);
        NoPlan::Unable { field: refusal.field.into(), value: refusal.value, stacks, others }
    })
}

/// Says how much memory is needed and how much there is.
fn lack(bound: Shortfall, nearest: Option<Shortfall>) -> String {
    let least = nearest.unwrap_or(bound);
    let ((needed, available), place) = (least.apart(), least.place());
    let who = if nearest.is_some() { "the nearest needs" } else { "each needs at least" };
    format!("{who} {needed}, and {available} may be used of {place}")
}

/// Lists what would relieve a want of memory. Larger GPUs than those that were tried are named where the plan that comes nearest
/// is known and GPUs of that size exist: a bound of what plans need says little of what one does.
fn relief(bound: Shortfall, nearest: Option<Shortfall>, ways_out: &WaysOut) -> String {
    let largest = catalog().gpus().iter().map(|gpu| gpu.memory.value).max().unwrap_or(Bytes(0));
    let larger = nearest.filter(|nearest| nearest.needed <= largest);
    let larger = larger.map(|nearest| format!("take GPUs with at least {} times the memory", nearest.times()));
    let of_machine = nearest.unwrap_or(bound).store.is_some();
    let more = if of_machine { "with more memory" } else { "whose GPUs have more memory" };
    let WaysOut { freed, optimizer, stack, instances, machines, instance, main_memory, seq_len, method, loaded_whole } =
        ways_out;
    let freed = freed.iter().map(|Freed { field, memory, machines }| {
        Some(format!("leave {field} free (a plan on {machines} then fits in {})", human_bytes(*memory)))
    });
    let ways = [
        stack.as_ref().map(|stack| format!("use other software (--stack {stack})")),
        instance.as_ref().map(|instance| format!("search types {more} (--instances {instance})")).or(larger),
        main_memory.map(|size| {
            let size = human_bytes(size);
            format!("give the machine {size} of main memory, to which the optimizer or weights are offloaded then")
        }),
        instances.map(|instances| format!("allow {}", counted(u64::from(instances), "instance"))),
        machines.as_ref().map(|machines| format!("use more machines ({machines})")),
        seq_len.map(|tokens| format!("shorten the samples to {tokens} tokens (--seq-len {tokens})")),
    ];
    let lighter = optimizer.map(|own| {
        let what = if own.is_in_eight_bits() { "keep AdamW's moments in eight bits" } else { "train with less state" };
        format!("{what} (--optimizer {own})")
    });
    let ways: Vec<String> = std::iter::once(lighter).chain(freed).chain(ways).flatten().collect();
    let last = method.as_ref().map_or_else(|| "take a smaller model".into(), otherwise_tuned);
    let why = loaded_whole.map_or_else(String::new, |weights| {
        format!(
            "; each GPU loads all quantised weights, {}, before it shares them out, so that more GPUs do not help",
            human_bytes(weights)
        )
    });
    if ways.is_empty() { last + &why } else { format!("{}, or {last}{why}", ways.join(", ")) }
}

/// Advises to fine-tune by another method.
fn otherwise_tuned(other: &OtherMethod) -> String {
    let what = match (other.of_job, other.instead) {
        (Method::Qlora, Method::Lora) => "keep the weights in 16 bits, which GPUs share out",
        (_, Method::Lora) => "train adapters instead of all weights",
        _ => "keep the weights in 4 bits",
    };
    let on = other.instance.as_ref().map_or_else(String::new, |instance| format!(" --instances {instance}"));
    format!("{what} (--fine-tune {}{on})", other.instead)
}

pub(crate) fn no_plan(problem: &Problem, limits: &Limits, found: &Found) -> NoPlan {
    if problem.is_cancelled() {
        return NoPlan::Cancelled;
    }
    if found.candidates == 0 {
        let fixed = &limits.fixed;
        let unable = unable(problem, &with_sole_precision(problem, fixed));
        let impossible = unable
            .or_else(|| too_few_machines(problem, fixed))
            .or_else(|| unlisted(problem, fixed))
            .or_else(|| not_admitted(problem, fixed))
            .or_else(|| all_refused(problem, fixed));
        return impossible.unwrap_or_else(|| NoPlan::EmptySpace { why: empty_space(problem, fixed) });
    }
    if let Some(limit) = limits.max_simulations.filter(|limit| found.simulated >= *limit) {
        return NoPlan::Limited { limit };
    }
    let least = found.too_large.values().map(|own| own.least).reduce(Shortfall::nearer);
    match least {
        Some(least) => NoPlan::OutOfMemory {
            candidates: found.candidates,
            bound: least,
            nearest: nearest_fit(problem, &limits.fixed, least),
            ways_out: Box::new(WaysOut::new(problem, &limits.fixed, least)),
        },
        None if problem.place.is_measured() => NoPlan::Unmeasured,
        None => NoPlan::Endless,
    }
}

/// Lists the types of machine that can be rented and compute in a number format; none for owned machines.
fn with_units(problem: &Problem, precision: Precision) -> Vec<String> {
    let Some(rental) = problem.place.rental() else { return Vec::new() };
    let rented = rental.catalog.instances().iter().filter(|other| !other.prices.is_empty());
    let has = |name: &String| {
        let (cluster, stack) = (rental.catalog.cluster(name, 1).ok()?, rental.stacks[0].clone());
        Machine { cluster, stack }.has_units(precision).ok()
    };
    rented.map(|other| other.name.clone()).filter(|name| has(name).is_some()).collect()
}

/// Returns the error for what is refused whatever the degrees: a micro-batch above the batch, more machines than may be
/// used, what machines or software cannot do, and a held word that goes with nothing else that is held.
fn all_refused(problem: &Problem, fixed: &Fixed) -> Option<NoPlan> {
    let has_plans = |rest: &Fixed| Space::new(problem, rest).has_plans();
    let most = problem.global_batches.max();
    if let Some(micro) = fixed.micro.filter(|micro| *micro > most) {
        let why = format!("batch.micro {micro} is larger than the global batch of {most}");
        return Some(NoPlan::Refused { why, hint: instead(problem, fixed, Field::Micro) });
    }
    let wanted = wanted(problem, fixed);
    // Rented machines may be held at any number.
    if let (Place::Owned { max_instances: Some(most), .. }, Some(held)) = (&problem.place, fixed.instances)
        && held > *most
    {
        let why = format!("`instances` is {held}, but `cluster.max_instances` is {most}");
        return Some(NoPlan::Refused { why, hint: format!("allow them with --max-instances {held}") });
    }
    let space = Space::new(problem, fixed);
    let refusals: Option<Vec<String>> = wanted.iter().map(|choice| space.refusal(*choice)).collect();
    let refusal = refusals.and_then(|all| all.into_iter().next());
    let opens: Vec<(Field, String)> = fixed
        .each()
        .into_iter()
        .filter(|(_, _, rest)| has_plans(rest))
        .map(|(field, value, _)| (field, value))
        .collect();
    let held = |(field, value): &(Field, String)| format!("{} {value}", field.name());
    let is_word = |(field, _): &(Field, String)| field.counts().is_none();
    let unnamed = fixed.precision.is_some_and(|held| !problem.precisions.contains(&held));
    let why = match (refusal, opens.as_slice()) {
        (Some(why), []) => {
            return Some(NoPlan::Refused { why, hint: "change it, or take other machines".into() });
        }
        (Some(why), _) => why,
        (None, [(Field::Precision, held)]) if problem.names_precisions && unnamed => {
            format!(
                "precision {held} is held, but `training.precision` of the job allows only {}",
                either(&problem.precisions)
            )
        }
        (None, [only]) if is_word(only) => format!("no plan with the other held fields has {}", held(only)),
        (None, several) if several.iter().any(is_word) => {
            format!("{} exclude each other", several.iter().map(held).collect::<Vec<_>>().join(" and "))
        }
        _ => return None,
    };
    Some(NoPlan::Refused { why, hint: instead(problem, fixed, opens[0].0) })
}

/// Advises what to hold in place of a field without which there are plans.
fn instead(problem: &Problem, fixed: &Fixed, field: Field) -> String {
    match values_with_plans(problem, fixed, field).as_slice() {
        [] => format!("leave {} free: without it there are plans", field.name()),
        values => format!("with {} {} there are plans", field.name(), either(values)),
    }
}

/// Says which of the held degrees, or the batch, leaves nothing that divides evenly.
fn empty_space(problem: &Problem, fixed: &Fixed) -> String {
    let has_plans = |rest: &Fixed| Space::new(problem, rest).has_plans();
    if let Some((field, value, _)) = fixed.each().into_iter().find(|(_, _, rest)| has_plans(rest)) {
        // That not every batch of a range is tried users may not expect.
        let tried = if problem.global_batches.are_open() && fixed.global.is_none() {
            let batches: Vec<String> = problem.global_batches.usual().iter().map(u64::to_string).collect();
            format!("; of the range, the global batch was tried at {}", batches.join(", "))
        } else {
            String::new()
        };
        let key = field.name();
        let others = if value.parse::<u32>().is_ok() { others(problem, fixed, field) } else { String::new() };
        return format!(
            "without {key} {value} there would be plans, but with it nothing divides evenly{tried}{others}"
        );
    }
    let held = if fixed.each().is_empty() { "" } else { " and the held fields" };
    let allowed = problem.global_batches;
    let (batches, near) = if allowed.are_open() {
        (format!("from {} to {}", allowed.min(), allowed.max()), String::new())
    } else {
        (allowed.min().to_string(), batches_near(problem, fixed, allowed.min()))
    };
    format!(
        "with global batch {batches}{held}, data × tensor × pipeline × context cannot use every device evenly{near}"
    )
}

/// Returns the error for a held type of machine that is none of the job's.
fn unlisted(problem: &Problem, fixed: &Fixed) -> Option<NoPlan> {
    let (held, types) = (fixed.instance.as_ref()?, problem.place.types());
    let listed: Vec<String> = types.into_iter().map(|(name, _)| name).collect();
    if listed.contains(held) {
        return None;
    }
    let listed = listed.join(", ");
    let hint = match &problem.place {
        Place::Owned { .. } => format!("these are: {listed}"),
        Place::Rented(rental) if rental.unpriced.contains(held) => {
            format!("it has no price on these terms; cluster.instances has {listed} besides")
        }
        Place::Rented(_) => {
            format!("cluster.instances has {listed}: hold one of these, or write it there (--instances)")
        }
    };
    Some(NoPlan::Unlisted { instance: held.clone(), hint })
}

/// Returns the error for a held degree of tensor or pipeline parallelism that no plan can have.
fn not_admitted(problem: &Problem, fixed: &Fixed) -> Option<NoPlan> {
    let degrees = [(Field::Tensor, fixed.tensor), (Field::Pipeline, fixed.pipeline)];
    degrees.into_iter().find_map(|(field, held)| {
        let value = held?;
        let why = match field {
            Field::Tensor => tensor_not_admitted(problem, fixed, value)?,
            _ => stages_not_admitted(problem, value)?,
        };
        Some(NoPlan::Degree { field: field.name(), value, why, hint: instead(problem, fixed, field) })
    })
}

/// Says why layers cannot be split over this many ranks: heads do not divide, or no machine has as many GPUs.
fn tensor_not_admitted(problem: &Problem, fixed: &Fixed, tensor: u32) -> Option<String> {
    let model = &problem.model;
    let heads = model.tensor_heads().filter(|heads| !heads.is_multiple_of(tensor.into())).map(|heads| {
        let fewer = model.spec().heads.is_some_and(|all| all > heads);
        let of = if fewer { "heads of keys and values" } else { "attention heads" };
        format!("{}'s {heads} {of} do not divide by it", model.name())
    });
    let devices = |choice: usize| problem.place.machine(choice, 1, None).cluster.first().devices_per_instance;
    let most = wanted(problem, fixed).into_iter().map(devices);
    let (all, most) = most.fold((true, 0), |(none, most), own| (none && !own.is_multiple_of(tensor), most.max(own)));
    let machines = all.then(|| format!("tensor parallelism stays inside a machine, which has {}", gpus(most)));
    let why: Vec<String> = [heads, machines].into_iter().flatten().collect();
    (!why.is_empty()).then(|| why.join(", and "))
}

fn gpus(count: u32) -> String {
    format!("at most {}", counted(count.into(), "GPU"))
}

/// Says why there are no pipelines with this many stages.
fn stages_not_admitted(problem: &Problem, stages: u32) -> Option<String> {
    let blocks = problem.graph().layers().filter(|layer| layer.role == LayerRole::Block).count() as u64;
    (blocks > 0 && u64::from(stages) > blocks && !problem.place.is_measured())
        .then(|| format!("a stage has at least one block, and {} has {}", problem.model.name(), human_count(blocks)))
}

/// Returns the error for held fields that need more than machines of one's own have.
fn too_few_machines(problem: &Problem, fixed: &Fixed) -> Option<NoPlan> {
    let Place::Owned { machine, described_by, max_instances, .. } = &problem.place else { return None };
    if fixed.instances.zip(*max_instances).is_some_and(|(held, allowed)| held > allowed) {
        return None;
    }
    let held = fixed.instance.as_deref();
    let cluster = of_type(&machine.cluster, held);
    let Cluster { instance: name, .. } = &*cluster;
    if held.is_some_and(|held| held != name) {
        return None;
    }
    if cluster.is_mixed() && held.is_none() {
        return no_type_has_as_many(problem, fixed, name);
    }
    let (machines, each) = (cluster.machines(), cluster.first().devices_per_instance);
    let (why, needed) = if let Some(held) = fixed.instances.filter(|held| *held > machines) {
        (format!("`instances` is {held}, but {name} has {}", counted(machines.into(), "machine")), held)
    } else {
        let (why, devices) = more_than_there_is(&cluster, fixed)?;
        (why, u32::try_from(devices.div_ceil(each.into())).unwrap_or(u32::MAX))
    };
    let of_it = held.map_or_else(String::new, |held| format!(" --fix instance={held}"));
    let hint = match (described_by, never_as_many(&cluster, needed)) {
        (Description::Profile(_), _) => "hold fewer, or describe a cluster in a file that `cluster.file` names".into(),
        (_, Some(never)) => format!("hold fewer, or write more machines into the cluster file: {never}"),
        (_, None) => format!(
            "raise `count` in the cluster file, or ask what more machines would do: `trainyard what-if JOB.toml{of_it} \
             --vary instances={needed}`"
        ),
    };
    Some(NoPlan::TooFewMachines { why, hint })
}

/// Returns the error for a number of machines that no kind of a mixed cluster has, nor all of it.
fn no_type_has_as_many(problem: &Problem, fixed: &Fixed, name: &str) -> Option<NoPlan> {
    let held = fixed.instances?;
    let types = problem.place.types();
    let (whole, kinds) = types.split_first()?;
    if whole.1 == held || kinds.iter().any(|(_, machines)| *machines >= held) {
        return None;
    }
    let all: Vec<String> = kinds.iter().map(|(kind, machines)| format!("{machines} × {kind}")).collect();
    let why = format!(
        "`instances` is {held}, but a plan takes all {} machines of {name} or machines of one kind: {}",
        whole.1,
        all.join(", ")
    );
    let hint = "hold fewer, or ask what more of one kind would do: `trainyard what-if JOB.toml --fix instance=KIND --vary \
                instances=N`";
    Some(NoPlan::TooFewMachines { why, hint: hint.into() })
}

/// Says that held degrees need more devices than a cluster has, and how many.
fn more_than_there_is(cluster: &Cluster, fixed: &Fixed) -> Option<(String, u64)> {
    let degrees = [
        ("parallel.data", fixed.data),
        ("parallel.tensor", fixed.tensor),
        ("parallel.pipeline", fixed.pipeline),
        ("parallel.context", fixed.context),
    ];
    let held: Vec<(&str, u32)> = degrees.into_iter().filter_map(|(name, degree)| Some((name, degree?))).collect();
    let needed = held.iter().fold(1_u64, |all, (_, degree)| all.saturating_mul(u64::from(*degree)));
    let (name, devices) = (&cluster.instance, cluster.devices());
    (needed > devices.into()).then(|| {
        let held: Vec<String> = held.iter().map(|(name, degree)| format!("{name} {degree}")).collect();
        (format!("{} needs {needed} devices, but {name} has {devices}", held.join(" × ")), needed)
    })
}

/// Lists the nearest smaller and larger batch with which there are plans, among those that a few devices divide.
fn batches_near(problem: &Problem, fixed: &Fixed, batch: u64) -> String {
    let briefly = |batch| Problem { global_batches: GlobalBatches::exactly(batch), ..problem.briefly() };
    let has_plans = |batch: &u64| Space::new(&briefly(*batch), fixed).has_plans();
    let below = (batch / 2..batch).rev().filter(|own| *own > 0).take(BATCHES_TRIED).find(has_plans);
    let above = (batch + 1..=2 * batch).take(BATCHES_TRIED).find(has_plans);
    let near: Vec<String> = [below, above].into_iter().flatten().map(|batch| batch.to_string()).collect();
    if near.is_empty() { String::new() } else { format!("; with a global batch of {} there are plans", either(&near)) }
}

/// Batches that are tried on either side of one without plans.
const BATCHES_TRIED: usize = 64;

/// Values that are tried in place of a degree or size with which there is no plan.
const TRIED: [u32; 18] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 25, 32, 40, 48, 64, 128];

/// Says with which values of a held number there are plans.
fn others(problem: &Problem, fixed: &Fixed, field: Field) -> String {
    match values_with_plans(problem, fixed, field).as_slice() {
        [] => String::new(),
        values => format!("; with {} {} there are plans", field.name(), either(values)),
    }
}

/// Lists values of a held number with which there are plans; of other fields none.
fn values_with_plans(problem: &Problem, fixed: &Fixed, field: Field) -> Vec<String> {
    if field.counts().is_none() {
        return Vec::new();
    }
    let briefly = problem.briefly();
    let has_plans = |value: &u32| {
        let with = fixed.clone().with(field, &value.to_string());
        with.is_ok_and(|fixed| Space::new(&briefly, &fixed).has_plans())
    };
    TRIED.iter().filter(|value| has_plans(value)).map(u32::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::recommend;
    use crate::asking;
    use crate::problem::{Resources, problem};
    use trainyard_plan::{ClusterChoice, JobSpec, Method};

    fn job() -> JobSpec {
        let mut job = asking::job("llama-3-8b", 128, &["p5.48xlarge", "g5.xlarge"], 4);
        job.data.tokens = Some(1e9);
        job
    }

    fn refused(fix: &[&str]) -> (NoPlan, String) {
        refused_of(&job(), Resources::default(), fix)
    }

    fn refused_of(job: &JobSpec, own: Resources, fix: &[&str]) -> (NoPlan, String) {
        let problem = problem(job, own).expect("a solvable job");
        let error = asking::answered(&problem, job, fix).expect_err("no plan");
        let hint = error.hint().expect("a hint");
        (error, hint)
    }

    /// The same job on nodes of one's own: two of one kind, and one of another if they are `mixed`.
    fn on_nodes(mixed: bool) -> (JobSpec, Resources) {
        let kind = |name: &str, like: &str, count: u32| {
            let network = "network = { bandwidth = \"100 Gbit/s\", transport = \"infiniband\" }";
            format!("[[machines]]\nname = \"{name}\"\nlike = \"{like}\"\ncount = {count}\n{network}\n")
        };
        let others = if mixed { kind("old", "p4d.24xlarge", 1) } else { String::new() };
        let text = format!("name = \"own\"\n{}{others}", kind("new", "p5.48xlarge", 2));
        let mut job = JobSpec { cluster: ClusterChoice::default(), ..job() };
        job.cluster.file = Some("own.toml".into());
        let file = Some(toml::from_str(&text).expect("the form of a cluster file"));
        (job, Resources { cluster_file: file, cluster_path: Some("own.toml".into()), ..Resources::default() })
    }

    #[test]
    fn what_is_refused_whatever_the_degrees_is_told_with_its_reason_alone() {
        let (error, hint) = refused(&["batch.micro=1000"]);
        assert_eq!(error.to_string(), "no plan is left: batch.micro 1000 is larger than the global batch of 128");
        assert!(hint.starts_with("with batch.micro 1, 2"), "{hint}");
        let (error, hint) = refused(&["input.decode=gpu"]);
        assert!(error.to_string().contains("needs `data.dataset` or"), "{error}");
        assert_eq!(hint, "leave input.decode free: without it there are plans");
        let (error, hint) = refused(&["schedule=1f1b", "parallel.pipeline=1"]);
        assert_eq!(error.to_string(), "no plan is left: parallel.pipeline 1 and schedule 1f1b exclude each other");
        assert!(hint.starts_with("with parallel.pipeline 2, 3"), "{hint}");
    }

    #[test]
    fn a_held_stack_that_does_not_train_by_the_method_is_told_with_those_that_do() {
        let mut job = job();
        (job.data.tokens, job.data.samples, job.training.method) = (None, Some(1000), Some(Method::Qlora));
        let (error, hint) = refused_of(&job, Resources::default(), &["stack=pytorch-fsdp"]);
        let why =
            "`stack` is pytorch-fsdp, which does not train by qlora here, because FSDP 2 changes weights in 4 bits";
        assert!(error.to_string().starts_with(why), "{error}");
        assert!(hint.starts_with("these do: ") && hint.contains("deepspeed") && hint.contains("pytorch-ddp"), "{hint}");
        job.training.method = Some(Method::Lora);
        let (error, _) = refused_of(&job, Resources::default(), &["offload=optimizer+parameters"]);
        assert_eq!(error.to_string(), "`offload` is optimizer+parameters, which is not modelled with lora");
        let (error, _) = refused(&["stack=pytorch-ddp", "parallel.tensor=2"]);
        let told = "`parallel.tensor` is 2, which pytorch-ddp does not run: it runs parallel.tensor 1 only";
        assert_eq!(error.to_string(), told);
    }

    #[test]
    fn more_machines_than_a_kind_has_are_told_with_those_that_there_are() {
        let told = |mixed, fix: &[&str]| {
            let (job, own) = on_nodes(mixed);
            refused_of(&job, own, fix)
        };
        let (error, hint) = told(false, &["instances=3"]);
        assert_eq!(error.to_string(), "`instances` is 3, but own has 2 machines");
        assert!(hint.ends_with("`trainyard what-if JOB.toml --vary instances=3`"), "{hint}");
        let (error, hint) = told(true, &["instances=4", "instance=new"]);
        assert_eq!(error.to_string(), "`instances` is 4, but new has 2 machines");
        assert!(hint.ends_with("`trainyard what-if JOB.toml --fix instance=new --vary instances=4`"), "{hint}");
        let (error, _) = told(true, &["instances=4"]);
        let all = "`instances` is 4, but a plan takes all 3 machines of own or machines of one kind: 2 × new, 1 × old";
        assert_eq!(error.to_string(), all);
        let (mut job, own) = on_nodes(false);
        job.cluster.max_instances = Some(1);
        let (error, hint) = refused_of(&job, own.clone(), &["instances=2"]);
        assert_eq!(error.to_string(), "no plan is left: `instances` is 2, but `cluster.max_instances` is 1");
        assert_eq!(hint, "allow them with --max-instances 2");
        let problem = problem(&job, own).expect("a solvable job");
        let plan = recommend(&problem, &Limits::default(), &job).expect("a plan on one node").plan;
        assert_eq!(plan.cluster.instances, 1);
    }

    #[test]
    fn a_degree_that_cannot_be_says_what_does_not_divide() {
        let (error, hint) = refused(&["tp=16"]);
        assert_eq!(
            error.to_string(),
            "no plan has parallel.tensor 16: llama-3-8b's 8 heads of keys and values do not divide by it, and tensor \
             parallelism stays inside a machine, which has at most 8 GPUs"
        );
        assert_eq!(hint, "with parallel.tensor 1, 2, 4 or 8 there are plans");
        let (error, _) = refused(&["parallel.tensor=8", "instance=g5.xlarge"]);
        assert_eq!(
            error.to_string(),
            "no plan has parallel.tensor 8: tensor parallelism stays inside a machine, which has at most 1 GPU"
        );
        let (error, _) = refused(&["parallel.pipeline=64"]);
        assert!(error.to_string().ends_with("a stage has at least one block, and llama-3-8b has 32"), "{error}");
    }

    #[test]
    fn a_held_type_that_the_job_does_not_list_is_told_with_those_that_it_does() {
        let (error, hint) = refused(&["instance=p4d.24xlarge"]);
        assert!(error.to_string().contains("p4d.24xlarge, which is not among the types"), "{error}");
        assert!(hint.contains("p5.48xlarge") && hint.contains("g5.xlarge") && !hint.contains("divides"), "{hint}");
    }
}
