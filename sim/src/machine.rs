//! Where a plan runs: hardware and the software on it.

use trainyard_hardware_profiles::{Cluster, Stack};
use trainyard_plan::{Lowering, Mesh, Precision};
use trainyard_units::Seconds;

/// A cluster with the training framework that will drive it.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Devices and links.
    pub cluster: Cluster,
    /// The training framework.
    pub stack: Stack,
}

/// Why a plan cannot be simulated on a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The plan has more ranks than there are devices.
    #[error(
        "parallel.data {data} × parallel.tensor {tensor} × parallel.pipeline {pipeline}{} = {ranks} ranks, but {instances} × `{instance}` have {devices} devices",
        if *context > 1 { format!(" × parallel.context {context}") } else { String::new() }
    )]
    TooManyRanks {
        /// Replicas.
        data: u32,
        /// Ranks per layer.
        tensor: u32,
        /// Stages.
        pipeline: u32,
        /// Ranks per sample.
        context: u32,
        /// Their product.
        ranks: u32,
        /// Machines.
        instances: u32,
        /// Machine type.
        instance: String,
        /// Devices of all machines.
        devices: u32,
    },
    /// The plan asks for what this program does not run on the machine that was measured.
    #[error("`{field}` is {value}, but the measured machine `{machine}` runs only {allowed}")]
    NotMeasured {
        /// Field of the plan.
        field: &'static str,
        /// Its value.
        value: String,
        /// The machine.
        machine: String,
        /// Values that it runs.
        allowed: String,
    },
    /// A GPU has no arithmetic unit for a number format.
    #[error("`precision` is {precision}, but `{gpu}` has no units for it")]
    NoUnit {
        /// The number formats of the plan.
        precision: Precision,
        /// The GPU.
        gpu: String,
    },
    /// Ranks are dealt out in turn, but the machines differ.
    #[error("`placement` is spread, but the machines of `{cluster}` are of different kinds")]
    SpreadOverMixed {
        /// The cluster.
        cluster: String,
    },
    /// Something is to be kept where there is nothing to keep it in.
    #[error("`offload` is {offload}, but `{machine}` has no {store} that is known")]
    NoStore {
        /// The states that are to be kept elsewhere.
        offload: String,
        /// Where.
        store: &'static str,
        /// The machine.
        machine: String,
    },
    /// The profile holds no measurement that could price this work.
    #[error("the profile of `{machine}` has no measurement of `{operator}` for {ranks} concurrent ranks")]
    Unmeasured {
        /// The machine.
        machine: String,
        /// Operator or collective.
        operator: String,
        /// Ranks of the plan.
        ranks: u32,
    },
    /// Simulated time would run over.
    #[error("one step could take {years} years on `{machine}`, but a simulation ends after {CLOCK_YEARS}")]
    Endless {
        /// The machine.
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
            Self::TooManyRanks { ranks, instances, devices, .. } => {
                let per_instance = (*devices / (*instances).max(1)).max(1);
                Some(format!("cluster.instances {} has enough", ranks.div_ceil(per_instance)))
            }
            Self::NotMeasured { allowed, .. } => Some(format!("use {allowed}")),
            Self::NoUnit { .. } => Some("every GPU runs fp32 and fp16-mixed".into()),
            Self::SpreadOverMixed { .. } => Some("placement cluster fills one machine after another".into()),
            Self::NoStore { store, .. } => Some(match *store {
                "local disk" => "keep it in main memory instead (@host), or rent machines with local disks".into(),
                _ => "describe the machine with `host`, or set offload = \"none\"".into(),
            }),
            Self::Unmeasured { .. } => Some("measure again with `trainyard calibrate`".into()),
            Self::Endless { .. } => Some("a number of the machine's profile or of its constants is wrong".into()),
        }
    }
}

impl Machine {
    /// The choices of this machine's software that decide how plans communicate.
    pub fn lowering(&self) -> Lowering {
        Lowering {
            bucket: Some(self.stack.bucket.value).filter(|bucket| bucket.0 > 0),
            blocking_transfers: self.stack.exposed_transfer.value > 0.0,
            sharded_overlap: self.stack.sharded_overlap.value,
        }
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

/// Refuses a cluster that has no device for each rank.
pub(crate) fn enough_devices(cluster: &Cluster, mesh: Mesh) -> Result<(), MachineError> {
    let devices = cluster.devices();
    if mesh.ranks() <= devices {
        return Ok(());
    }
    Err(MachineError::TooManyRanks {
        data: mesh.data(),
        tensor: mesh.tensor(),
        pipeline: mesh.pipeline(),
        context: mesh.context(),
        ranks: mesh.ranks(),
        instances: cluster.machines(),
        instance: cluster.instance.clone(),
        devices,
    })
}
