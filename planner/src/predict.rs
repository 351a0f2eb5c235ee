//! Predictions: a simulated step carried over to a whole training.

use crate::cost::{Rent, add_chances};
use crate::missed::missed_by_choice;
use crate::problem::{
    AUTO_STACK, catalog_with, data_set, executable_on, executor_stack, forward_plan, has_instead, in_job, inside,
    memory_margin, on_no_instance, price_of, price_used, purchase, send_over, stated_price, target, transport_named,
};
use std::sync::Arc;
use trainyard_calibration::interval;
use trainyard_hardware_profiles::{
    Catalog, Cluster, ClusterFile, Constants, DEFAULT_STACK, MeasuredMachine, PriceQuery, PriceTable, Service, Sourced,
    Stack, Transport, USD_PER_HOUR_MAX, catalog,
};
use trainyard_plan::document::{InputPrediction, Memory, PlanDocument, Prediction, PriceUsed, StageMemory};
use trainyard_plan::{BatchSpec, Bottleneck, ClusterSpec, JobSpec, NotExecutable, Plan, StepTrace, Store};
use trainyard_sim::{
    DataSet, Footprint, InputStall, Intake, LoaderRates, Machine, Options, Outcome, bottleneck, least_step_time,
    simulate_with, step_trace,
};
use trainyard_units::{Invalid, Seconds};

/// The factor by which loading rates may be off, either way, in nine of ten cases. A stated default: the rule of thumb
/// for decoding has this range, and none of the DataLoader rates that the law of workers was fitted on is further off.
pub(crate) const INPUT_SPREAD: f64 = 1.4;

/// The part of the training time that a slow first pass over the data set must add to limit it.
pub(crate) const LIMITING_SHARE: f64 = 0.5;

/// Predicts `plan` on `machine` over `steps` optimizer steps, with the evaluations of a job between them. If the plan
/// says how samples are loaded, `data` is the data set that they come from.
///
/// # Errors
///
/// When the machine does not admit the plan, was not measured for it, or cannot load its samples.
pub(crate) fn predict(
    plan: &Plan,
    machine: &Machine,
    steps: u64,
    job: &JobSpec,
    rent: Option<&Rent>,
    data: Option<&DataSet>,
) -> Result<(Prediction, Outcome), Invalid> {
    let outcome = simulated(plan, machine, Options::default())?;
    Ok((predict_of(plan, machine, steps, job, rent, data, &outcome)?, outcome))
}

/// Predicts from a step that is simulated already.
pub(crate) fn predict_of(
    plan: &Plan,
    machine: &Machine,
    steps: u64,
    job: &JobSpec,
    rent: Option<&Rent>,
    data: Option<&DataSet>,
    outcome: &Outcome,
) -> Result<Prediction, Invalid> {
    let fed = fed(plan, machine, data, outcome.step_time, steps)?;
    let step = fed.map_or(outcome.step_time, |feed| feed.step_time).0;
    let interval_s = fed_interval(plan, possible(plan, machine, outcome), outcome.step_time, fed.as_ref());
    let time_s = fed.map_or(step * steps as f64, |feed| feed.time.0);
    // Of a training whose steps take so long, what is not the same for all of them stays what it is.
    let uneven_s = time_s - step * steps as f64;
    let time_of = |step: f64| step * steps as f64 + uneven_s;
    let samples_per_s = plan.batch().global as f64 / step;
    let [evaluations_s, reference_s] = forward_s(plan, machine, steps, job)?;
    let mut prediction = Prediction {
        step_time_s: step,
        interval_s,
        samples_per_s,
        tokens_per_s: plan.tokens_per_sample().map(|tokens| tokens as f64 * samples_per_s),
        mfu: outcome.mfu.map(|mfu| mfu * fed.map_or(1.0, |feed| feed.utilisation)),
        input: fed.map(|feed| input(plan, machine, outcome, (&feed, steps))),
        bubble: outcome.bubble,
        exposed_communication_s: outcome.exposed_communication.0,
        phases: outcome.phases,
        utilisation: outcome.stages.iter().map(|stage| stage.utilisation).collect(),
        memory_bytes: memory(&outcome.footprint),
        steps,
        time_s,
        in_all_s: None,
        start_up_s: None,
        queued_s: None,
        weights_s: None,
        checkpoints_s: None,
        evaluations_s,
        reference_s,
        jobs: None,
        interruptions: None,
        failures: None,
        checkpoint_interval_s: None,
        cost_usd: None,
        cost_parts: None,
        cost_interval_usd: None,
        price: None,
        within_deadline: None,
        within_budget: None,
    };
    let (storage, curve) = (plan.input().map(|input| input.storage), target(&job.training, plan.model()));
    if let Some(rent) = rent {
        rent.add_to(&mut prediction, storage, time_of);
    }
    add_chances(&mut prediction, &job.goal, (rent, storage), curve.ok().flatten());
    prediction.in_all_s = Some(prediction.elapsed_s());
    Ok(prediction)
}

/// Computes the seconds of all evaluations and of the scores of a reference model, where the job asks for them.
fn forward_s(plan: &Plan, machine: &Machine, steps: u64, job: &JobSpec) -> Result<[Option<f64>; 2], Invalid> {
    let passes = forward_plan(job, plan.model()).map_err(in_job)?.passes(steps, plan.batch().global);
    let times = passes.times_of(plan, machine).map_err(|error| inside("plan", &error, error.hint()))?;
    Ok([passes.evaluations.map(|_| times.evaluations.0), passes.reference.map(|_| times.reference.0)])
}

/// Computes how loading samples slows the steps down; `None` if samples are assumed to be at hand.
fn fed(
    plan: &Plan,
    machine: &Machine,
    data: Option<&DataSet>,
    step: Seconds,
    steps: u64,
) -> Result<Option<InputStall>, Invalid> {
    let (Some(input), Some(data)) = (plan.input(), data) else { return Ok(None) };
    let BatchSpec { global: global_batch, micro: micro_batch, .. } = plan.batch();
    let intake = Intake { mesh: plan.mesh(), global_batch, micro_batch };
    let supply =
        LoaderRates::new(intake, machine, data, input).map_err(|error| inside("plan", &error, error.hint()))?;
    Ok(Some(supply.feed(step, steps)))
}

/// Returns the interval of a step, whose lower end is no shorter than its arithmetic.
fn possible(plan: &Plan, machine: &Machine, outcome: &Outcome) -> [f64; 2] {
    let [low, high] = interval(plan, machine, outcome);
    let least = least_step_time(plan, machine).unwrap_or(Seconds::ZERO);
    [low.max(least.0).min(outcome.step_time.0), high]
}

/// Returns the interval of a step that may have to wait. Without prefetching the two times add up; otherwise the longer
/// decides.
fn fed_interval(plan: &Plan, [low, high]: [f64; 2], step: Seconds, fed: Option<&InputStall>) -> [f64; 2] {
    let (Some(feed), Some(input)) = (fed, plan.input()) else { return [low, high] };
    if input.prefetch == 0 {
        return [low + feed.stall.0 / INPUT_SPREAD, high + feed.stall.0 * INPUT_SPREAD];
    }
    let slowest = feed.rates.into_iter().map(|rate| plan.batch().global as f64 / rate).fold(0.0, f64::max);
    // Samples of different size make steps wait that would not if all were alike.
    let uneven = feed.step_time.0 - slowest.max(step.0);
    [low.max(slowest / INPUT_SPREAD) + uneven, high.max(slowest * INPUT_SPREAD) + uneven]
}

fn input(plan: &Plan, machine: &Machine, outcome: &Outcome, (feed, steps): (&InputStall, u64)) -> InputPrediction {
    // What the first pass takes longer than others, it waits for storage: nothing else differs between them.
    let extra = feed.time - feed.step_time * steps as f64;
    let first_pass = feed.first_step_time > feed.step_time && extra.0 > LIMITING_SHARE * feed.time.0;
    let limit = feed.slowest.or(first_pass.then_some(Bottleneck::Storage));
    let [read_samples_per_s, decode_samples_per_s, copy_samples_per_s] = feed.rates;
    InputPrediction {
        input_stall_s: feed.stall.0,
        accelerator_utilisation: feed.utilisation,
        bottleneck: limit.unwrap_or_else(|| bottleneck(plan, machine, outcome)),
        read_samples_per_s,
        decode_samples_per_s,
        copy_samples_per_s,
        step_samples_per_s: plan.batch().global as f64 / outcome.step_time.0,
        first_pass_step_time_s: feed.first_step_time.0,
        download_s: feed.download.0,
        requests: feed.requests,
    }
}

fn memory(footprint: &Footprint) -> Memory {
    let limit = footprint.limits.iter().min().map_or(0, |limit| limit.0);
    let stages = footprint
        .resident
        .iter()
        .zip(&footprint.software)
        .zip(&footprint.limits)
        .map(|((held, software), own)| StageMemory {
            parameters: held.parameters.0,
            gradients: held.gradients.0,
            optimizer_state: held.optimizer_state.0,
            activations: held.activations.0,
            buffers: held.buffers.0,
            workspace: held.workspace.0,
            loading: held.loading.0,
            software: software.0,
            total: (held.total() + *software).0,
            limit: Some(own.0).filter(|own| *own > limit),
        })
        .collect();
    let kept = |store| footprint.shared.iter().find(|shared| shared.store == store).map(|shared| shared.needed.0);
    Memory { limit, stages, host: kept(Store::Host), disk: kept(Store::Nvme) }
}

/// The content of the file that describes the machines of a plan: the file that `plan.cluster` names.
#[derive(Clone, Debug)]
pub enum MachineFile {
    /// Of `plan.cluster.profile`.
    Profile(Box<MeasuredMachine>),
    /// Of `plan.cluster.file`.
    Cluster(Box<ClusterFile>),
}

/// The contents of the files on which the machines of a plan rest.
#[derive(Clone, Debug, Default)]
pub struct MachineFiles {
    /// The file that describes the machines, if the plan names one.
    pub machine: Option<MachineFile>,
    /// The constants of `plan.cluster.constants`, or of the file that replaces it and takes precedence over the
    /// catalog.
    pub constants: Option<Constants>,
    /// Prices that take precedence over those of the catalog and of the document.
    pub prices: Option<PriceTable>,
}

/// Returns the plan of a document.
///
/// # Errors
///
/// When it is none.
pub fn plan_of(document: &PlanDocument) -> Result<Plan, Invalid> {
    Plan::try_from(document.plan.clone()).map_err(|error| inside("plan", &error, error.hint()))
}

/// Returns the data set of a document's job, which a plan needs that says how samples are loaded.
pub(crate) fn data_of(job: &JobSpec, plan: &Plan) -> Result<Option<DataSet>, Invalid> {
    let data = data_set(job, plan.model()).map_err(in_job)?;
    if plan.input().is_some() && data.is_none() {
        let sentence =
            "it says how samples are brought in, but `job.data` says that they are there, or nothing of their size";
        let hint = "without `plan.input` samples are taken to be there";
        return Err(Invalid::inside("plan.input", sentence).with_hint(hint));
    }
    Ok(data.map(|data| data.set))
}

/// Returns an error on a file of the machines that is not at hand.
fn unread(field: &str, what: &str, path: &str, hint: &str) -> Invalid {
    Invalid::inside(format!("plan.cluster.{field}"), format!("the {what} `{path}` was not read")).with_hint(hint)
}

fn simulated(plan: &Plan, machine: &Machine, options: Options) -> Result<Outcome, Invalid> {
    simulate_with(plan, machine, options).map_err(|error| inside("plan", &error, error.hint()))
}

/// Returns the machine that a plan document was made for. `files` are the contents of the files that the plan names for
/// it.
///
/// # Errors
///
/// When the plan names what no catalog has or a file that is not given, or is none that its stack can run.
pub fn machine(document: &PlanDocument, files: MachineFiles) -> Result<Machine, Invalid> {
    let machine = named_machine(document, files)?;
    if document.plan.stack.is_some() && machine.cluster.first().device.measured().is_none() {
        runs(&plan_of(document)?, &machine)?;
    }
    Ok(machine)
}

/// Does the same, whatever the stack can run: for a document whose plan is about to change, and for launch files, whose
/// programs take plans that nobody has priced.
///
/// # Errors
///
/// When the plan names what no catalog has or a file that is not given.
pub fn named_machine(document: &PlanDocument, files: MachineFiles) -> Result<Machine, Invalid> {
    let named = &document.plan.cluster;
    let MachineFiles { machine: file, constants, prices: _ } = files;
    if let (Some(path), None) = (&named.constants, &constants) {
        let hint = "`trainyard calibrate --from MEASUREMENTS.csv` writes one";
        return Err(unread("constants", "constants file", path, hint));
    }
    let catalog = catalog_with(constants.as_ref());
    let transport = transport(named, &catalog)?;
    if let Some(path) = &named.profile {
        let Some(MachineFile::Profile(profile)) = file else {
            return Err(unread("profile", "profile", path, "`trainyard calibrate` writes one"));
        };
        let stack = executor_stack(constants.as_ref()).map_err(|stack| {
            let sentence = format!("the constants have no stack `{stack}`, the only one of a measured machine");
            let hint = "leave the constants out: the profile holds what was measured";
            Invalid::inside("plan.cluster.constants", sentence).with_hint(hint)
        })?;
        return Ok(Machine { cluster: Cluster::of_measured(*profile), stack: with_margin(document, stack)? });
    }
    let mut cluster = match (&named.file, file) {
        (None, _) => {
            catalog.cluster(&named.instance, named.instances).map_err(|error| error.at("plan.cluster.instance"))?
        }
        (Some(path), Some(MachineFile::Cluster(file))) => described(path, *file, named, &catalog)?,
        (Some(path), _) => {
            let hint = "`cluster.file` of a job names one; its format is in the manual";
            return Err(unread("file", "cluster file", path, hint));
        }
    };
    if let Some(transport) = transport {
        send_over(&mut cluster, transport, &catalog);
    }
    cluster.encrypted = named.encrypted;
    let stack = stack_of(document);
    let stack = catalog.stack(stack).map_err(|error| error.at("plan.stack"))?;
    Ok(Machine { cluster, stack: with_margin(document, stack.clone())? })
}

/// Refuses a plan that the stack of the machines cannot run.
fn runs(plan: &Plan, machine: &Machine) -> Result<(), Invalid> {
    match executable_on(machine)?.refusal(plan) {
        Some(NotExecutable { field, value, allowed }) => {
            let rule = format!("{} runs {allowed}", machine.stack.name);
            Err(Invalid::breaks(format!("plan.{field}"), value, rule))
        }
        None => Ok(()),
    }
}

/// Returns the transport that a plan names for its instances.
fn transport(named: &ClusterSpec, catalog: &Catalog) -> Result<Option<Transport>, Invalid> {
    const FIELD: &str = "plan.cluster.transport";
    let Some(name) = &named.transport else { return Ok(None) };
    for (other, given) in [("plan.cluster.profile", &named.profile), ("plan.cluster.file", &named.file)] {
        if given.is_some() {
            return Err(Invalid::conflict(FIELD, other, "a transport is chosen for instances of the catalog only"));
        }
    }
    let transport = transport_named(FIELD, name)?;
    let instance = catalog.instance(&named.instance).map_err(|error| error.at("plan.cluster.instance"))?;
    match has_instead(instance, transport) {
        Some(_) => Err(on_no_instance(FIELD, transport, &[instance], catalog)),
        None => Ok(Some(transport)),
    }
}

/// Returns the name of the stack of a document's plan: the plan's, otherwise the job's. Documents from before plans
/// named a stack have the mean of what was measured.
pub(crate) fn stack_of(document: &PlanDocument) -> &str {
    let of_job = document.job.cluster.stack.as_deref().filter(|name| *name != AUTO_STACK);
    document.plan.stack.as_deref().or(of_job).unwrap_or(DEFAULT_STACK)
}

/// Sets the memory margin of a document's job in a stack.
fn with_margin(document: &PlanDocument, mut stack: Arc<Stack>) -> Result<Arc<Stack>, Invalid> {
    let margin = memory_margin(&document.job.cluster).map_err(in_job)?;
    let memory_margin = margin.map(|part| Sourced::new(part, "cluster.memory_margin of the job"));
    if stack.memory_margin != memory_margin {
        Arc::make_mut(&mut stack).memory_margin = memory_margin;
    }
    Ok(stack)
}

/// Returns the machines of a cluster file that a plan uses: of the kind that it names, or all. Of machines that are alike
/// there are as many as it says, if there are enough.
fn described(path: &str, file: ClusterFile, named: &ClusterSpec, catalog: &Catalog) -> Result<Cluster, Invalid> {
    let whole = Cluster::of_file(file, catalog)
        .map_err(|error| inside("plan.cluster.file", format!("in `{path}`, {error}"), error.hint()))?;
    let kind = whole.kind(&named.instance).filter(|_| named.instance != whole.instance);
    let mut cluster = kind.unwrap_or(whole);
    if !cluster.is_mixed() {
        cluster.pools[0].instances = cluster.pools[0].instances.min(named.instances);
    }
    Ok(cluster)
}

/// Predicts a document anew; returns it with the simulated step. The number of steps stays the same. `files` are the
/// contents of the files that the plan names for its machines.
///
/// # Errors
///
/// When the plan is not valid, names what no catalog has or a file that is not given, or does not go onto its
/// machines.
pub fn resimulate(
    document: &PlanDocument,
    files: MachineFiles,
    options: Options,
) -> Result<(PlanDocument, Outcome), Invalid> {
    let plan = plan_of(document)?;
    let prices = files.prices.clone();
    let machine = machine(document, files)?;
    let rent = rent(document, &plan, &machine, prices.as_ref())?;
    let data = data_of(&document.job, &plan)?;
    if document.prediction.steps == 0 {
        return Err(Invalid::value("prediction.steps", 0, "at least 1").with_hint("plan again"));
    }
    let outcome = simulated(&plan, &machine, options)?;
    let (steps, job) = (document.prediction.steps, &document.job);
    let prediction = predict_of(&plan, &machine, steps, job, rent.as_ref(), data.as_ref(), &outcome)?;
    let again = PlanDocument { prediction, ..document.clone() };
    Ok((PlanDocument { missed: missed_by_choice(&again), ..again }, outcome))
}

/// Simulates a step of a document's plan in detail, on every rank that is simulated.
///
/// # Errors
///
/// As [`resimulate`].
pub fn trace_step(document: &PlanDocument, files: MachineFiles, options: Options) -> Result<StepTrace, Invalid> {
    let plan = plan_of(document)?;
    let machine = machine(document, files)?;
    step_trace(&plan, &machine, options).map_err(|error| inside("plan", &error, error.hint()))
}

/// Returns what surrounds the steps of a document's plan, with the price of its machines if they have one; `None` where
/// nothing is known of either.
pub(crate) fn rent(
    document: &PlanDocument,
    plan: &Plan,
    machine: &Machine,
    prices: Option<&PriceTable>,
) -> Result<Option<Rent>, Invalid> {
    Rent::new(&document.job, plan, machine, price(document, machine, prices)?).map_err(in_job)
}

/// Returns the price of a plan's machines; `None` where they have none. Of machines that a cluster file describes it is the
/// one that the file states, and of others that on the plan's terms. The first of these that has one decides: the given
/// table of prices; the document, if its job had such a table; today's catalog; the document, if its price is of the plan's
/// service.
pub(crate) fn price(
    document: &PlanDocument,
    machine: &Machine,
    prices: Option<&PriceTable>,
) -> Result<Option<PriceUsed>, Invalid> {
    if let Some(file) = &document.plan.cluster.file {
        return Ok(stated_price(&machine.cluster.pools, file));
    }
    let Some(used) = &document.prediction.price else { return Ok(None) };
    let Some(offered) = used.offered() else {
        return Err(Invalid::missing("prediction.price.region", "the plan's machines are rented in some Region")
            .with_hint("plan again"));
    };
    let asked = [used.usd_per_hour, used.low_usd_per_hour, used.high_usd_per_hour];
    if let Some(usd) = asked.into_iter().find(|usd| !(0.0..=USD_PER_HOUR_MAX).contains(usd)) {
        let price = format!("{usd} USD an hour");
        let allowed = format!("from 0 to {USD_PER_HOUR_MAX}");
        return Err(Invalid::value("prediction.price", price, allowed)
            .with_hint("plan again, or give the price in a table with --prices"));
    }
    let (instance, plan) = (&document.plan.cluster.instance, &document.plan);
    let wanted = plan.service.as_deref().unwrap_or(offered.service);
    let service = Service::named(wanted);
    let query = service.map(|service| PriceQuery { region: offered.region, service, purchase: purchase(plan.pricing) });
    let given = query.zip(prices).and_then(|(query, prices)| prices.price(instance, query)).map(price_used);
    let kept = (wanted == offered.service).then(|| used.clone());
    let of_table =
        kept.clone().filter(|used| document.job.cluster.prices.is_some() && used.pricing == Some(plan.pricing));
    let today = || {
        let instance = catalog().instance(instance).ok()?;
        price_of(instance, query?).map(price_used)
    };
    given.or(of_table).or_else(today).or(kept).map(Some).ok_or_else(|| {
        let rule = format!("no price of {instance} from it in {} is known", offered.region);
        Invalid::breaks("plan.service", format!("`{wanted}`"), rule)
            .with_hint("services are ec2 and sagemaker; leave it out for that of the document's price")
    })
}
