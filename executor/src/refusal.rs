//! What this executor cannot run, said before anything starts.

use trainyard_hardware_profiles::DeviceKind;
use trainyard_plan::{NotExecutable, Plan, not_executable};

use crate::network::{Network, rows_per_sample};
use trainyard_data::SampleKind;

/// Why a plan is not run, in the words of the plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this executor cannot run the plan: `{field}` is {value}, but {allowed}")]
pub struct Refusal {
    /// Path of the field in the plan.
    pub field: &'static str,
    /// The value that it holds.
    pub value: String,
    /// The values that could be run.
    pub allowed: String,
    /// The remedy for the user.
    pub hint: &'static str,
}

/// Returns the reason why `plan` cannot be run here, if it cannot.
pub fn refusal(plan: &Plan) -> Option<Refusal> {
    network(plan).err()
}

/// Returns the network of a plan that can be run.
pub(crate) fn network(plan: &Plan) -> Result<Network, Refusal> {
    let refuse =
        |field, value: String, allowed: &str, hint| Err(Refusal { field, value, allowed: allowed.to_owned(), hint });
    let network = Network::new(plan.model())?;
    let parallel = plan.mesh().parallel();
    let tokens = rows_per_sample(plan.model());
    if parallel.sequence && !tokens.is_multiple_of(u64::from(parallel.tensor)) {
        let allowed = format!("the {tokens} tokens of a sample do not divide among {} ranks", parallel.tensor);
        return refuse("parallel.sequence", "true".into(), &allowed, "set parallel.sequence = false");
    }
    if let Some((name, size)) = too_small(&network, parallel.tensor as usize) {
        let allowed = format!("the {size} of `{name}` do not give each of {} ranks one", parallel.tensor);
        return refuse("parallel.tensor", parallel.tensor.to_string(), &allowed, "set a lower parallel.tensor");
    }
    if let Some(NotExecutable { field, value, allowed }) = not_executable(plan) {
        return refuse(
            field,
            value,
            &format!("only {allowed} is built"),
            "hold that field with --fix when planning for this machine",
        );
    }
    Ok(network)
}

/// Finds a parameter that cannot be split over `ranks` ranks of a tensor group because its dimension has fewer entries;
/// returns its name and that size.
fn too_small(network: &Network, ranks: usize) -> Option<(String, usize)> {
    network.keys().map(|key| network.parameter(key)).find_map(|parameter| {
        let split = parameter.split?;
        let size = parameter.shape[split.dimension] / split.parts;
        (size < ranks).then(|| (parameter.name.clone(), size))
    })
}

/// Returns the kind of sample that a plan's model is trained on.
pub(crate) fn wanted(plan: &Plan) -> Result<SampleKind, Refusal> {
    SampleKind::of(plan.model()).ok_or_else(|| Refusal {
        field: "model.family",
        value: plan.model().family().to_string(),
        allowed: "there is no reader for what it is trained on".into(),
        hint: "gpt, llama, bert, vit, resnet and mlp can be trained here",
    })
}

/// Returns the warning for a user whose plan has more ranks than the machine has processor threads, or GPUs: it runs,
/// but ranks take turns.
pub fn oversubscription(plan: &Plan, device: DeviceKind, count: usize) -> Option<String> {
    let ranks = plan.mesh().ranks() as usize;
    let shared = match device {
        DeviceKind::Cpu => "processor threads",
        DeviceKind::Cuda if count == 1 => "GPU",
        DeviceKind::Cuda => "GPUs",
    };
    (ranks > count).then(|| format!("{ranks} ranks share {count} {shared}, so they wait for each other"))
}

/// Returns the number of processor threads of this machine.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the number of processor threads of each of `ranks` ranks on `cores`.
pub fn threads_per_rank(cores: usize, ranks: usize) -> usize {
    (cores / ranks).max(1)
}
