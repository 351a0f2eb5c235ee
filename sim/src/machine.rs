//! Where a plan runs: hardware and the software on it.

use std::sync::Arc;
use trainyard_hardware_profiles::{Cluster, Device, Stack, UpdatedWeights as StackUpdatedWeights};
use trainyard_plan::operators::AttentionKernel;
use trainyard_plan::{Lowering, Mesh, UpdatedWeights};
use trainyard_units::{Bytes, Invalid, Seconds};

/// A cluster with the training framework that will drive it.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Devices and links.
    pub cluster: Cluster,
    /// The training framework.
    pub stack: Arc<Stack>,
}

/// Why a plan cannot be simulated on a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The plan asks for what the machine does not have, or was not measured doing.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Simulated time would run over.
    #[error("one step could take {years} years on `{machine}`, but a simulation ends after {CLOCK_YEARS}")]
    Endless {
        machine: String,
        /// Everything that the step does, one after another.
        years: String,
    },
}

/// The longest simulated time, rounded down: 2⁶⁴ nanoseconds are 584 years.
const CLOCK_YEARS: f64 = 580.0;
const YEAR: Seconds = Seconds(365.25 * 86_400.0);
/// The longest step that can be simulated.
pub const CLOCK: Seconds = Seconds(CLOCK_YEARS * YEAR.0);

impl MachineError {
    /// Advice to the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Invalid(invalid) => invalid.hint(),
            Self::Endless { .. } => Some("a number of the machine's profile or of its constants is wrong".into()),
        }
    }
}

impl Machine {
    /// The choices of this machine's software that decide how plans communicate.
    pub fn lowering(&self) -> Lowering {
        Lowering {
            bucket: Some(self.stack.bucket.value).filter(|bucket| bucket.0 > 0),
            bucket_per_rank: self.stack.bucket_per_rank.as_ref().map_or(Bytes(0), |size| size.value),
            blocking_transfers: self.stack.blocking_transfers.value,
            sharded_overlap: self.stack.sharded_overlap.value,
            updated_weights: updated_weights(&self.stack),
            gradients_on_host: self.stack.gradients_on_host.as_ref().is_some_and(|kept| kept.value),
            // The executor does, which runs on what was measured: only whole gradients tell whether they are finite.
            agrees_on_steps: matches!(self.cluster.first().device, Device::Measured(_)),
        }
    }

    /// The attention kernel that the software chooses on the GPUs, where a bias is added to the scores or not, if that is known.
    pub fn attention_kernel(&self, adds_bias: bool) -> Option<AttentionKernel> {
        let (gpu, runs) = (self.cluster.first().device.gpu()?, &self.stack.runs);
        let plain = runs.attention_on(&gpu.generation)?;
        let kernel = if adds_bias { runs.biased_attention.as_deref() } else { Some(plain) };
        kernel.and_then(AttentionKernel::named)
    }

    /// Host time to launch a kernel, on the slowest of its processors; as the stack states it where they are not known.
    pub fn launch(&self) -> Seconds {
        let hosts = self.cluster.pools.iter().filter_map(|pool| pool.host.as_ref()?.processors);
        let slowest = hosts.map(|processors| processors.single_thread).reduce(f64::min).unwrap_or(1.0);
        Seconds(self.stack.launch.value.0 / slowest)
    }

    /// Refuses what takes so long that simulated time would run over, or is no time.
    pub(crate) fn ends(&self, time: Seconds) -> Result<(), MachineError> {
        if time.0 < CLOCK.0 {
            return Ok(());
        }
        let years = time.0 / YEAR.0;
        Err(MachineError::Endless { machine: self.cluster.instance.clone(), years: format!("{years:.0e}") })
    }
}

fn updated_weights(stack: &Stack) -> UpdatedWeights {
    match stack.updated_weights.as_ref().map(|gathered| gathered.value).unwrap_or_default() {
        StackUpdatedWeights::AfterUpdate => UpdatedWeights::AfterUpdate,
        StackUpdatedWeights::FirstForward => UpdatedWeights::FirstForward,
        StackUpdatedWeights::EachForward => UpdatedWeights::EachForward,
    }
}

/// Refuses a cluster that has no device for each rank.
pub(crate) fn enough_devices(cluster: &Cluster, mesh: Mesh) -> Result<(), MachineError> {
    let (ranks, instances, devices) = (mesh.ranks(), cluster.machines(), cluster.devices());
    if ranks <= devices {
        return Ok(());
    }
    let degrees = [
        ("parallel.data", mesh.data()),
        ("parallel.tensor", mesh.tensor()),
        ("parallel.pipeline", mesh.pipeline()),
        ("parallel.context", mesh.context()),
    ];
    let shown = if mesh.context() > 1 { &degrees[..] } else { &degrees[..3] };
    let field = shown.iter().map(|(field, _)| *field).collect::<Vec<_>>().join(" × ");
    let product = shown.iter().map(|(_, degree)| degree.to_string()).collect::<Vec<_>>().join(" × ");
    let rule = format!("{instances} × `{}` have {devices} devices", cluster.instance);
    let enough = ranks.div_ceil((devices / instances.max(1)).max(1));
    let hint = format!("cluster.instances {enough} has enough");
    Err(Invalid::breaks(field, format!("{product} = {ranks} ranks"), rule).with_hint(hint).into())
}
