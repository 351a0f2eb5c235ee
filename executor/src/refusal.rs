//! What this executor cannot run, said before anything starts.

use trainyard_hardware_profiles::DeviceKind;
use trainyard_plan::{NotExecutable, Plan, not_executable};

use crate::network::{Network, rows_per_sample};
use trainyard_data::SampleKind;
use trainyard_units::Invalid;

/// Returns the reason why `plan` cannot be run here, if it cannot.
pub fn refusal(plan: &Plan) -> Option<Invalid> {
    network(plan).err()
}

/// Returns the network of a plan that can be run.
pub(crate) fn network(plan: &Plan) -> Result<Network, Invalid> {
    let network = Network::tuned(plan.model(), plan.spec().fine_tuning.as_ref())?;
    let parallel = plan.mesh().parallel();
    let tokens = rows_per_sample(plan.model()) / u64::from(parallel.context);
    if parallel.sequence && !tokens.is_multiple_of(u64::from(parallel.tensor)) {
        let rule =
            format!("the {tokens} tokens that a rank has of a sample do not divide among {} ranks", parallel.tensor);
        return Err(Invalid::breaks("parallel.sequence", true, rule).with_hint("set parallel.sequence = false"));
    }
    if let Some((name, size)) = too_small(&network, parallel.tensor as usize) {
        let rule = format!("the {size} of `{name}` do not give each of {} ranks one", parallel.tensor);
        return Err(Invalid::breaks("parallel.tensor", parallel.tensor, rule).with_hint("set a lower parallel.tensor"));
    }
    if let Some(NotExecutable { field, value, allowed }) = not_executable(plan) {
        return Err(Invalid::breaks(field, value, format!("the executor runs only {allowed}")).with_hint(remedy(field)));
    }
    Ok(network)
}

/// Returns what to do about a field that keeps a plan from running here.
fn remedy(field: &str) -> &'static str {
    match field {
        "fine_tuning.method" | "fine_tuning.dpo" => {
            "`trainyard export` writes the files that start it elsewhere; method = \"lora\" under [training] runs here"
        }
        _ => "hold that field with --fix when planning for this machine",
    }
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
pub(crate) fn wanted(plan: &Plan) -> Result<SampleKind, Invalid> {
    SampleKind::of(plan.model()).ok_or_else(|| {
        Invalid::breaks("model.family", plan.model().family(), "there is no reader for what it is trained on")
            .with_hint(format!("{} can be trained here", SampleKind::FAMILIES))
    })
}

/// Returns the warning for a user whose plan has more ranks than the machine has processor threads, or GPUs: it runs,
/// but ranks take turns.
pub fn oversubscription(plan: &Plan, device: DeviceKind, count: usize) -> Option<String> {
    let ranks = plan.mesh().ranks() as usize;
    let shared = match (device.is_cpu(), count) {
        (true, _) => "processor threads",
        (false, 1) => "GPU",
        (false, _) => "GPUs",
    };
    (ranks > count).then(|| format!("{ranks} ranks share {count} {shared}, so they wait for each other"))
}
