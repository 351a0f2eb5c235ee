//! Predictions: a simulated step carried over to a whole training.

use crate::problem::{executor_stack, price_of, price_used, purchase, service_of};
use trainyard_calibration::interval;
use trainyard_hardware_profiles::{
    CatalogError, Cluster, ClusterFile, ClusterFileError, MeasuredMachine, PriceQuery, catalog,
};
use trainyard_plan::document::{Memory, PlanDocument, Prediction, PriceUsed, StageMemory};
use trainyard_plan::{Plan, PlanError, Store};
use trainyard_sim::{Footprint, Machine, MachineError, Options, Outcome, simulate_with};

/// Why a plan document cannot be predicted anew.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DocumentError {
    /// The plan is not one.
    #[error("in `plan`: {0}")]
    Plan(#[from] PlanError),
    /// The plan does not go onto its machines.
    #[error("in `plan`: {0}")]
    Machine(#[from] MachineError),
    /// A name of the document is in no catalog.
    #[error("in `{field}`: {error}")]
    Catalog {
        /// The field.
        field: &'static str,
        /// What is not there.
        error: CatalogError,
    },
    /// The plan was made for a cluster whose file is not at hand.
    #[error("in `plan.cluster.file`: the cluster file `{path}` was not read")]
    NoClusterFile {
        /// Where it should be.
        path: String,
    },
    /// The cluster file does not describe a cluster.
    #[error("in the cluster file `{path}`: {error}")]
    ClusterFile {
        /// The file.
        path: String,
        /// What is wrong in it.
        error: ClusterFileError,
    },
    /// The plan was made for a measured machine whose profile is not at hand.
    #[error("in `plan.cluster.profile`: the profile `{path}` was not read")]
    NoProfile {
        /// Where it should be.
        path: String,
    },
}

impl DocumentError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Plan(error) => error.hint(),
            Self::Machine(error) => error.hint(),
            Self::Catalog { error, .. } => Some(error.hint()),
            Self::NoClusterFile { .. } => Some("`cluster.file` of a job names one; its format is in the manual".into()),
            Self::ClusterFile { error, .. } => error.hint(),
            Self::NoProfile { .. } => Some("`trainyard calibrate` writes one".into()),
        }
    }
}

/// What is expected of `plan` on `machine` over `steps` optimizer steps.
///
/// # Errors
///
/// When the machine does not admit the plan or was not measured for it.
pub fn predict(
    plan: &Plan,
    machine: &Machine,
    steps: u64,
    price: Option<PriceUsed>,
) -> Result<(Prediction, Outcome), MachineError> {
    predict_with(plan, machine, steps, price, Options::default())
}

/// The same, with a say in how the step is simulated.
fn predict_with(
    plan: &Plan,
    machine: &Machine,
    steps: u64,
    price: Option<PriceUsed>,
    options: Options,
) -> Result<(Prediction, Outcome), MachineError> {
    let outcome = simulate_with(plan, machine, options)?;
    let step = outcome.step_time.0;
    let interval_s = interval(plan, machine, &outcome);
    let time_s = step * steps as f64;
    let hours = |step: f64| step * steps as f64 / 3600.0 * f64::from(plan.cluster().instances);
    let samples_per_s = plan.batch().global as f64 / step;
    let prediction = Prediction {
        step_time_s: step,
        interval_s,
        samples_per_s,
        tokens_per_s: plan.model().tokens_per_sample().map(|tokens| tokens as f64 * samples_per_s),
        mfu: outcome.mfu,
        bubble: outcome.bubble,
        exposed_communication_s: outcome.exposed_communication.0,
        phases: outcome.phases,
        utilisation: outcome.stages.iter().map(|stage| stage.utilisation).collect(),
        memory_bytes: memory(&outcome.footprint),
        steps,
        time_s,
        cost_usd: price.as_ref().map(|price| hours(step) * price.usd_per_hour),
        cost_interval_usd: price.as_ref().map(|price| {
            [hours(interval_s[0]) * price.low_usd_per_hour, hours(interval_s[1]) * price.high_usd_per_hour]
        }),
        price,
    };
    Ok((prediction, outcome))
}

fn memory(footprint: &Footprint) -> Memory {
    let stages = footprint
        .resident
        .iter()
        .zip(&footprint.software)
        .map(|(held, software)| StageMemory {
            parameters: held.parameters.0,
            gradients: held.gradients.0,
            optimizer_state: held.optimizer_state.0,
            activations: held.activations.0,
            buffers: held.buffers.0,
            workspace: held.workspace.0,
            software: software.0,
            total: held.total().0 + software.0,
        })
        .collect();
    let kept = |store| footprint.shared.iter().find(|shared| shared.store == store).map(|shared| shared.needed.0);
    let limit = footprint.limits.iter().min().map_or(0, |limit| limit.0);
    Memory { limit, stages, host: kept(Store::Host), disk: kept(Store::Nvme) }
}

/// The content of the file that describes the machines of a plan: what `plan.cluster` names.
#[derive(Clone, Debug)]
pub enum MachineFile {
    /// Of `plan.cluster.profile`.
    Profile(Box<MeasuredMachine>),
    /// Of `plan.cluster.file`.
    Cluster(Box<ClusterFile>),
}

/// The machine that a plan document was made for.
pub(crate) fn machine(document: &PlanDocument, file: Option<MachineFile>) -> Result<Machine, DocumentError> {
    let named = &document.plan.cluster;
    if let Some(path) = &named.profile {
        let Some(MachineFile::Profile(profile)) = file else {
            return Err(DocumentError::NoProfile { path: path.clone() });
        };
        return Ok(Machine { cluster: Cluster::of_measured(*profile), stack: executor_stack() });
    }
    let mut cluster = match (&named.file, file) {
        (None, _) => catalog()
            .cluster(&named.instance, named.instances)
            .map_err(|error| DocumentError::Catalog { field: "plan.cluster.instance", error })?,
        (Some(path), Some(MachineFile::Cluster(file))) => described(path, *file, named.instances)?,
        (Some(path), _) => return Err(DocumentError::NoClusterFile { path: path.clone() }),
    };
    cluster.encrypted = named.encrypted;
    let stack = document.job.cluster.stack.as_deref().unwrap_or(crate::job::DEFAULT_STACK);
    let stack = catalog().stack(stack).map_err(|error| DocumentError::Catalog { field: "job.cluster.stack", error })?;
    Ok(Machine { cluster, stack: stack.clone() })
}

/// As many machines of a cluster file as a plan uses, if they are alike and there are as many; else all.
fn described(path: &str, file: ClusterFile, instances: u32) -> Result<Cluster, DocumentError> {
    let wrong = |error| DocumentError::ClusterFile { path: path.into(), error };
    let mut cluster = Cluster::try_from(file).map_err(wrong)?;
    if !cluster.is_mixed() {
        cluster.pools[0].instances = cluster.pools[0].instances.min(instances);
    }
    Ok(cluster)
}

/// The document with its prediction made anew, and the simulated step. The number of steps stays what it was. `file` is
/// the content of the file that describes the plan's machines, if the plan names one.
///
/// # Errors
///
/// When the plan is not valid, names what no catalog has or a file that is not given, or does not go onto its
/// machines.
pub fn resimulate(
    document: &PlanDocument,
    file: Option<MachineFile>,
    options: Options,
) -> Result<(PlanDocument, Outcome), DocumentError> {
    let plan = Plan::try_from(document.plan.clone())?;
    let machine = machine(document, file)?;
    let price = price(document);
    let (prediction, outcome) = predict_with(&plan, &machine, document.prediction.steps, price, options)?;
    Ok((PlanDocument { prediction, ..document.clone() }, outcome))
}

/// The price of today's catalog for the plan's terms, or, where the catalog has none, the one in the document.
fn price(document: &PlanDocument) -> Option<PriceUsed> {
    let used = document.prediction.price.as_ref()?;
    let instance = catalog().instance(&document.plan.cluster.instance).ok()?;
    let service = service_of(&used.service)?;
    let query = PriceQuery { region: &used.region, service, purchase: purchase(document.plan.pricing) };
    price_of(instance, query).map(price_used).or_else(|| Some(used.clone()))
}
