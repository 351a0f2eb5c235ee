//! A plan that is held while something else varies, and what of it must follow.
//!
//! What follows where it is not varied itself:
//!
//! - Machines: replicas fill the devices that there are; more replicas, the other way round, take as many machines as
//!   they need. Other degrees share the devices with the replicas. A cluster of one's own may grow beyond its file, as
//!   far as its switches have ports.
//! - Batch: the global batch stays. The micro-batch stays if it divides what a replica gets of it, else it is the
//!   largest smaller one that does; accumulation is the rest.
//! - Gradients are reduced as the software does it with that accumulation.
//! - A pipeline of one stage has no schedule, one of several runs 1F1B unless it had another; schedules have the runs
//!   of layers that they need.
//! - Attention is computed with the kernel that the software chooses for the GPUs, if it was before.
//! - Layers are cut anew, by their times, when their number or that of the runs is another.

use super::assumed::with_assumed;
use super::choice::GivenUp;
use super::job::{set_job, set_model};
use super::key::{Key, Level};
use super::known::catalog_of;
use super::{Refusal, own_transport, own_type, steps_alone, told, unpriced, with_hint};
use crate::answer::Terms;
use crate::cost::{JOB_OF_A_STEP, Rent};
use crate::edits::{MachineChange, PriceChange, Setting, set_batch};
use crate::predict::{MachineFiles, data_of, named_machine, plan_of, predict, price, rent};
use crate::problem::{
    AUTO_STACK, Quotas, executable_on, never_as_many, price_not_found, price_of, price_used, purchase, service_of,
    training, with_chosen_attention,
};
use crate::search::repeated;
use std::borrow::Cow;
use std::sync::Arc;
use trainyard_hardware_profiles::{Catalog, PriceQuery, PriceTable, Service, catalog};
use trainyard_models::{Model, ModelSpec};
use trainyard_plan::document::{Offered, PlanDocument, Prediction, PriceUsed};
use trainyard_plan::{
    Architecture, ClusterSpec, Fixed, GradientReduction, JobSpec, Mesh, NotExecutable, ParallelSpec, Plan, PlanSpec,
    ScheduleName, Stages, StateSharding,
};
use trainyard_sim::{Machine, Outcome, layer_costs};
use trainyard_units::{Invalid, UnknownName};

/// A plan document with the contents of the files that describe its machines.
#[derive(Clone, Debug)]
pub struct HeldPlan {
    pub document: PlanDocument,
    pub files: MachineFiles,
}

/// A plan with its machine, its prediction and its simulated step.
#[derive(Clone)]
pub(super) struct Expected {
    pub(super) plan: Plan,
    pub(super) machine: Machine,
    pub(super) prediction: Prediction,
    pub(super) outcome: Arc<Outcome>,
    /// What to be careful about, told of cases only.
    pub(super) warnings: Vec<String>,
    /// The plan with the lowest objective, if another one was preferred; `None` for a plan that is held.
    pub(super) passed_over: Option<PassedOver>,
    /// Why the software of the unvaried plan was not kept, where it was to be.
    pub(super) given_up: Option<GivenUp>,
}

/// A plan that is better than the recommended one by less than predictions can tell.
#[derive(Clone)]
pub(super) struct PassedOver {
    pub(super) in_all_s: f64,
    pub(super) cost_usd: Option<f64>,
    /// What it is better by, and what the recommended one has instead.
    pub(super) why: String,
}

/// A document while keys are set.
struct Changed {
    document: PlanDocument,
    fixed: Fixed,
    machine: Vec<MachineChange>,
    price: Vec<PriceChange>,
    /// `true` if the amount of training changes.
    training: bool,
    /// What changes of that which surrounds the steps.
    campaign: Option<Key>,
}

impl HeldPlan {
    /// Predicts the plan unchanged.
    pub(super) fn as_it_is(&self) -> Result<Expected, Invalid> {
        let document = &self.document;
        let plan = plan_of(document)?;
        let machine = self.machine()?;
        let data = data_of(&document.job, &plan)?;
        let rent = rent(document, &plan, &machine, self.files.prices.as_ref())?;
        let (prediction, outcome) =
            predict(&plan, &machine, document.prediction.steps, &document.job, rent.as_ref(), data.as_ref())?;
        let outcome = Arc::new(outcome);
        Ok(Expected { plan, machine, prediction, outcome, warnings: Vec::new(), passed_over: None, given_up: None })
    }

    /// Returns a job with what the plan assumes of a key of its campaign.
    fn with_assumed(&self, job: &JobSpec, set: (Key, &Setting)) -> Result<JobSpec, Invalid> {
        let (plan, machine) = (plan_of(&self.document)?, self.machine()?);
        Ok(with_assumed(job, set, (&plan, &machine, &self.document.prediction)))
    }

    /// Lists what to be careful about with the terms on which machines are rented.
    fn warnings(&self, job: &JobSpec, plan: &Plan, machine: &Machine, prediction: &Prediction) -> Vec<String> {
        let service = service_of(prediction.price.as_ref());
        let catalog = self.catalog();
        let (Some(service), Ok(instance)) = (service, catalog.instance(&plan.cluster().instance)) else {
            return Vec::new();
        };
        // Quotas that are not for these machines are refused when a plan is sought.
        let terms = (service, plan.pricing());
        let quotas = Quotas::new(job.cluster.quotas.as_ref(), terms, &catalog, "cluster.quotas").unwrap_or_default();
        let machine = machine.clone();
        Terms { job, prediction, plan, machine, instance, service, quotas: &quotas }.costly()
    }

    /// Returns the catalog with the constants and prices that the plan was given.
    pub(super) fn catalog(&self) -> Cow<'static, Catalog> {
        catalog_of(self.files.constants.as_ref(), self.files.prices.as_ref())
    }

    /// Returns the machines that the plan is for.
    fn machine(&self) -> Result<Machine, Invalid> {
        named_machine(&self.document, self.files.clone())
    }

    /// Predicts the plan with some keys set, and returns the job that it is then for.
    ///
    /// # Errors
    ///
    /// The reason, if the plan does not go with that.
    pub(super) fn with(&self, settings: &[(Key, &Setting)]) -> Result<(JobSpec, Expected), Refusal> {
        let mut changed = Changed {
            document: self.document.clone(),
            fixed: Fixed::default(),
            machine: Vec::new(),
            price: Vec::new(),
            training: false,
            campaign: None,
        };
        for (key, setting) in settings {
            changed.set(*key, setting, self)?;
        }
        let expected = changed.expected(self)?;
        Ok((changed.document.job, expected))
    }
}

impl Changed {
    fn set(&mut self, key: Key, setting: &Setting, before: &HeldPlan) -> Result<(), String> {
        let plan = &mut self.document.plan;
        match key.level {
            Level::Plan(field) => {
                let value = match setting {
                    Setting::Word(word) => word.clone(),
                    count => count.count(field.count(plan))?.to_string(),
                };
                self.fixed = std::mem::take(&mut self.fixed).with(field, &value).map_err(|error| error.to_string())?;
            }
            Level::Terms => return self.terms(key.name, setting),
            Level::Model => {
                plan.model = set_model(&plan.model, key, setting)?;
                self.training = true;
            }
            Level::Job => {
                if key.name.starts_with("campaign.") {
                    self.campaign = Some(key);
                    self.document.job =
                        before.with_assumed(&self.document.job, (key, setting)).map_err(|error| told(&error))?;
                }
                self.document.job = set_job(&self.document.job, key, setting)?;
                self.training |= key.name.starts_with("data.") || key.name.starts_with("training.");
                match key.name {
                    "training.optimizer" => {
                        plan.optimizer = self.document.job.training.optimizer.unwrap_or(plan.optimizer);
                    }
                    "cluster.stack" => plan.stack = Some(one_stack(&self.document.job)?),
                    _ => {}
                }
            }
            Level::Search => return Err(format!("`{}` is for a search, but the plan is held", key.name)),
            Level::Machine(part) => {
                if plan.cluster.profile.is_some() {
                    return Err("a measured machine is known only as it was measured".into());
                }
                self.machine.push(MachineChange { part, setting: setting.clone() });
            }
            Level::Price(instance) => {
                own_type(instance, plan.cluster.file.as_deref())?;
                self.price.push(PriceChange { instance, setting: setting.clone() });
            }
        }
        Ok(())
    }

    fn terms(&mut self, name: &str, setting: &Setting) -> Result<(), String> {
        let Setting::Word(word) = setting else { return Err(format!("`{name}` is a word")) };
        let (plan, price) = (&mut self.document.plan, &mut self.document.prediction.price);
        if let (Some(path), "cluster.transport") = (&plan.cluster.file, name) {
            return Err(own_transport(path));
        }
        if price.as_ref().and_then(PriceUsed::offered).is_none() {
            return Err(format!("`{name}` is for machines that are rented, and the plan's are not"));
        }
        match name {
            "instance" => plan.cluster.instance.clone_from(word),
            "pricing" => plan.pricing = word.parse().map_err(|error: UnknownName| error.to_string())?,
            "service" => plan.service = Some(word.clone()),
            "cluster.transport" => plan.cluster.transport = Some(word.clone()),
            _ => {
                if let Some(price) = price {
                    price.region = Some(word.clone());
                }
            }
        }
        Ok(())
    }

    fn expected(&mut self, before: &HeldPlan) -> Result<Expected, Refusal> {
        let machine = self.lay_out(before).map_err(Refusal::NoPlan)?;
        let (plan, steps) = self.plan(&before.document, &machine).map_err(Refusal::NoPlan)?;
        let price = self.price(&before.document, &machine, before.files.prices.as_ref())?;
        // What the job says of its campaign may not go with the terms.
        let job = &self.document.job;
        let rent = Rent::new(job, &plan, &machine, price)?;
        let predicted =
            data_of(job, &plan).and_then(|data| predict(&plan, &machine, steps, job, rent.as_ref(), data.as_ref()));
        let (prediction, outcome) = predicted.map_err(|error| Refusal::NoPlan(told(&error)))?;
        let outcome = Arc::new(outcome);
        if let Some(key) = self.campaign {
            steps_alone(key, &prediction)?;
        }
        if prediction.jobs.is_some_and(|jobs| jobs.count > prediction.steps) {
            return Err(Refusal::NoPlan(format!(
                "does not get on in the time of one job, which is less than {JOB_OF_A_STEP}"
            )));
        }
        if !prediction.makes_progress() {
            return Err(Refusal::NoPlan(
                "makes hardly any progress: machines are lost faster than work is saved".into(),
            ));
        }
        let full = |full| Refusal::NoPlan(format!("does not fit into memory: {full}"));
        outcome.footprint.fits_without_margin().map_err(full)?;
        let warnings = before.warnings(job, &plan, &machine, &prediction);
        Ok(Expected { plan, machine, prediction, outcome, warnings, passed_over: None, given_up: None })
    }

    /// Returns the plan, if the software of the machines runs it, and its steps.
    fn plan(&self, old: &PlanDocument, machine: &Machine) -> Result<(Plan, u64), String> {
        let plan = Plan::try_from(self.document.plan.clone()).map_err(|error| with_hint(&error, error.hint()))?;
        runs(&plan, machine)?;
        if plan.batch().global == old.plan.batch.global && !self.training {
            return Ok((plan, old.prediction.steps));
        }
        let job = &self.document.job;
        let amount = training(&job.training, plan.optimizer(), &job.data, plan.model());
        let steps = amount.map_err(|error| told(&error))?.steps(plan.batch().global);
        Ok((plan, steps))
    }

    /// Sets the held fields of the plan and what follows from them; returns its machines.
    fn lay_out(&mut self, before: &HeldPlan) -> Result<Machine, String> {
        let old = &before.document.plan;
        let fixed = self.fixed.clone();
        set_held(&mut self.document.plan, &fixed)?;
        let machine = self.degrees(old, before.files.clone())?;
        let spec = &mut self.document.plan;
        experts(spec, old, (&fixed, &machine))?;
        leave_usual_out(&mut spec.cluster);
        if (&spec.stack, &spec.cluster.instance) != (&old.stack, &old.cluster.instance) {
            let old_machine = before.machine().map_err(|error| told(&error))?;
            attention(spec, &before.document, (&old_machine, &machine))?;
        }
        set_batch(spec, old, &fixed)?;
        reduce_gradients(spec, &fixed, &machine)?;
        schedule(spec, &fixed);
        cut(spec, old, &machine)?;
        Ok(machine)
    }

    /// Sets degrees and machines.
    fn degrees(&mut self, old: &PlanSpec, files: MachineFiles) -> Result<Machine, String> {
        let fixed = self.fixed.clone();
        let spec = &mut self.document.plan;
        let parallel = &mut spec.parallel;
        parallel.tensor = fixed.tensor.unwrap_or(old.parallel.tensor);
        parallel.pipeline = fixed.pipeline.unwrap_or(old.parallel.pipeline);
        parallel.context = fixed.context.unwrap_or(old.parallel.context);
        parallel.expert = fixed.expert.unwrap_or(old.parallel.expert);
        parallel.sequence = fixed.sequence.unwrap_or(old.parallel.sequence && parallel.tensor > 1);
        let split = ParallelSpec { data: 1, ..*parallel };
        spec.cluster.instances = fixed.instances.unwrap_or(old.cluster.instances);
        if spec.cluster.profile.is_some() && spec.cluster.instances > 1 {
            return Err(format!("a measured machine is one, and `instances` is {}", spec.cluster.instances));
        }
        let moved = (&spec.cluster.instance, spec.cluster.instances) != (&old.cluster.instance, old.cluster.instances);
        let mut there = self.there(files.clone())?;
        if let Some(data) = fixed.data {
            let each = there.cluster.first().devices_per_instance;
            let parallel = ParallelSpec { data, ..split };
            self.document.plan.parallel = parallel;
            if fixed.instances.is_none() && (moved || ranks(parallel)? != ranks(old.parallel)?) {
                self.document.plan.cluster.instances = ranks(parallel)?.div_ceil(each);
                there = self.there(files)?;
            }
            return Ok(there);
        }
        let split_ranks = ranks(split)?;
        if moved || split_ranks != ranks(ParallelSpec { data: 1, ..old.parallel })? {
            let devices = if moved { there.cluster.devices() } else { ranks(old.parallel)? };
            if devices < split_ranks || !devices.is_multiple_of(split_ranks) {
                let each = "tensor × pipeline × context";
                return Err(format!("{devices} devices are no multiple of {each} = {split_ranks}"));
            }
            self.document.plan.parallel.data = devices / split_ranks;
        }
        Ok(there)
    }

    /// Returns the machines that the document now names, with the changes to them.
    fn there(&self, files: MachineFiles) -> Result<Machine, String> {
        let mut machine = named_machine(&self.document, files).map_err(|error| told(&error))?;
        let (named, cluster) = (&self.document.plan.cluster, &mut machine.cluster);
        // A cluster file has the machines that there are, and the question may be about more of them.
        if named.file.is_some() && named.instances != cluster.machines() {
            if let Some(never) = never_as_many(cluster, named.instances) {
                let hint = "write what there would be into the cluster file, and plan again";
                return Err(with_hint(&format!("`instances` is {}, but {never}", named.instances), hint.to_owned()));
            }
            cluster.pools[0].instances = named.instances;
        }
        self.machine.iter().for_each(|change| change.apply(&mut machine));
        self.price.iter().for_each(|change| change.apply(&mut machine.cluster));
        Ok(machine)
    }

    /// Returns the price of the machines: the one used to simulate the plan or, on other terms, the catalog's. Where a
    /// cluster file states it, it was changed with the machines.
    fn price(
        &self,
        old: &PlanDocument,
        machine: &Machine,
        prices: Option<&PriceTable>,
    ) -> Result<Option<PriceUsed>, String> {
        let document = &self.document;
        let region = |document: &PlanDocument| document.prediction.price.as_ref().map(|price| price.region.clone());
        let (new, plan) = (&document.plan, &old.plan);
        let same = new.cluster.instance == plan.cluster.instance
            && (new.pricing, &new.service) == (plan.pricing, &plan.service)
            && region(document) == region(old);
        let found = if same {
            price(document, machine, prices).map_err(|error| told(&error))?
        } else {
            Some(on_terms(document, prices)?)
        };
        let Some(found) = found else {
            return if self.price.is_empty() { Ok(None) } else { Err(unpriced(new.cluster.file.as_deref())) };
        };
        if new.cluster.file.is_some() {
            return Ok(Some(found));
        }
        let of = |usd: f64| self.price.iter().fold(usd, |usd, change| change.of(&new.cluster.instance, usd));
        Ok(Some(PriceUsed {
            usd_per_hour: of(found.usd_per_hour),
            low_usd_per_hour: of(found.low_usd_per_hour),
            high_usd_per_hour: of(found.high_usd_per_hour),
            ..found
        }))
    }
}

/// Returns the number of ranks of these degrees.
fn ranks(parallel: ParallelSpec) -> Result<u32, String> {
    u32::try_from(parallel.ranks()).map_err(|_| "so many ranks are beyond counting".into())
}

/// Writes the held fields into a plan. A state that is not sharded loses its number of sharding ranks.
fn set_held(spec: &mut PlanSpec, fixed: &Fixed) -> Result<(), &'static str> {
    fixed.write(spec)?;
    if fixed.sharding_ranks.is_none() && spec.state_sharding == StateSharding::None {
        spec.sharding_ranks = None;
    }
    Ok(())
}

/// Removes the name of a transport that the machines use anyway, as a plan that was sought does not name it.
fn leave_usual_out(cluster: &mut ClusterSpec) {
    let usual = catalog().instance(&cluster.instance).map(|instance| instance.network.transport.name());
    cluster.transport.take_if(|named| Ok(named.as_str()) == usual);
}

/// Reduces gradients as the software does with the batch of a plan, if it cannot reduce them as before.
fn reduce_gradients(spec: &mut PlanSpec, fixed: &Fixed, machine: &Machine) -> Result<(), String> {
    let software = executable_on(machine).map_err(|error| told(&error))?;
    let reduces = |own: &GradientReduction| software.reduces(*own, spec.state_sharding, spec.batch.accumulation);
    if fixed.gradient_reduction.is_none() && !reduces(&spec.gradient_reduction) {
        let other = GradientReduction::ALL.iter().copied().find(reduces);
        spec.gradient_reduction = other.unwrap_or(spec.gradient_reduction);
    }
    Ok(())
}

/// Sets the schedule with the model chunks that it needs.
fn schedule(spec: &mut PlanSpec, fixed: &Fixed) {
    let follows = match (spec.parallel.pipeline, spec.schedule) {
        (1, _) => ScheduleName::None,
        (_, schedule) if schedule.is_pipelined() => schedule,
        _ => ScheduleName::OneForwardOneBackward,
    };
    spec.schedule = fixed.schedule.unwrap_or(follows);
    let chunks = spec.schedule.chunks();
    spec.virtual_stages =
        fixed.virtual_stages.unwrap_or_else(|| spec.virtual_stages.clamp(*chunks.start(), *chunks.end()));
}

/// Returns the stack that a job names for a held plan.
fn one_stack(job: &JobSpec) -> Result<String, String> {
    let named = job.cluster.stack.clone().filter(|name| name != AUTO_STACK);
    named.ok_or_else(|| format!("`{AUTO_STACK}` compares stacks, but a plan that is held has one; name that"))
}

/// Shares experts out as the software does where other degrees are taken: with tokens, if it needs that, and folded, if it
/// folds them.
fn experts(spec: &mut PlanSpec, old: &PlanSpec, (fixed, machine): (&Fixed, &Machine)) -> Result<(), String> {
    let software = executable_on(machine).map_err(|error| told(&error))?;
    let parallel = &mut spec.parallel;
    let degrees = |own: &ParallelSpec| (own.tensor, own.context);
    if spec.model.experts.is_none() || degrees(parallel) == degrees(&old.parallel) {
        return Ok(());
    }
    parallel.sequence |= software.experts_need_sequence && parallel.tensor > 1 && fixed.sequence.is_none();
    parallel.folded_experts = software.folds_experts && parallel.tensor * parallel.context > 1;
    // As many ranks share them out as before.
    if parallel.folded_experts && fixed.expert.is_none() {
        parallel.expert = (old.parallel.expert_ranks() / parallel.tensor).max(1);
    }
    Ok(())
}

/// Checks that the stack of the machines can run a plan.
fn runs(plan: &Plan, machine: &Machine) -> Result<(), String> {
    let stack = &machine.stack.name;
    match executable_on(machine).map_err(|error| told(&error))?.refusal(plan) {
        Some(NotExecutable { field, value, allowed }) => {
            Err(format!("`{field}` is {value}, but {stack} runs {allowed}"))
        }
        None => Ok(()),
    }
}

/// Updates the attention kernel for other GPUs or another stack, if it was chosen by the stack before.
fn attention(spec: &mut PlanSpec, old: &PlanDocument, (before, there): (&Machine, &Machine)) -> Result<(), String> {
    let of = |spec: &ModelSpec| Model::try_from(spec.clone()).map_err(|error| with_hint(&error, error.hint()));
    let model = of(&old.plan.model)?;
    if old.job.model.attention.is_none() && with_chosen_attention(&model, before) == model {
        spec.model = with_chosen_attention(&of(&spec.model)?, there).spec();
    }
    Ok(())
}

/// Cuts the layers again if their number or the number of runs changed.
fn cut(spec: &mut PlanSpec, old: &PlanSpec, machine: &Machine) -> Result<(), String> {
    let runs = spec.parallel.pipeline.checked_mul(spec.virtual_stages).ok_or("so many stages are beyond counting")?;
    let same_model = spec.model == old.model;
    if same_model && runs as usize == old.stages.len() {
        return Ok(());
    }
    let model = Model::try_from(spec.model.clone()).map_err(|error| with_hint(&error, error.hint()))?;
    let architecture = Architecture::new(model);
    let graph = architecture.graph();
    let layers = old.stages.iter().map(|stage| stage.layers).sum::<usize>();
    if graph.len() == layers && runs as usize == old.stages.len() {
        return Ok(());
    }
    architecture.check_micro_batch(spec.batch.micro).map_err(|error| with_hint(&error, error.hint()))?;
    let mesh = Mesh::new(spec.parallel, spec.placement, spec.sharding_ranks);
    let prices = layer_costs(graph, spec.batch.micro, mesh, spec.precision, machine)
        .map_err(|error| with_hint(&error, error.hint()))?;
    let even = machine.stack.runs.own_models.then(|| Stages::even(&repeated(graph), runs)).flatten();
    let stages = even.or_else(|| Stages::balanced(&prices.weights(spec.recompute), runs));
    let few = || format!("{runs} model chunks cannot be cut from the {} layers of the model", graph.len());
    spec.stages = stages.ok_or_else(few)?.specs();
    Ok(())
}

/// Returns the catalog's price on the document's terms.
fn on_terms(document: &PlanDocument, prices: Option<&PriceTable>) -> Result<PriceUsed, String> {
    let offered = document.prediction.price.as_ref().and_then(PriceUsed::offered);
    let Offered { region, service, .. } = offered.ok_or("machines that are not rented have no price")?;
    let (plan, name) = (&document.plan, &document.plan.cluster.instance);
    let service = plan.service.as_deref().unwrap_or(service);
    let service = Service::named(service).ok_or_else(|| format!("no service is called `{service}`"))?;
    let query = PriceQuery { region, service, purchase: purchase(plan.pricing) };
    let instance = catalog().instance(name).map_err(|error| with_hint(&error, error.hint()))?;
    let given = prices.and_then(|prices| prices.price(name, query));
    given
        .or_else(|| price_of(instance, query))
        .map(price_used)
        .ok_or_else(|| told(&price_not_found(catalog(), &[instance], (service, plan.pricing), region)))
}
