//! Where a plan runs: hardware and the software on it.

use trainyard_hardware_profiles::{Cluster, Device, Stack};
use trainyard_plan::{Lowering, Mesh, Plan};

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
        "parallel.data {data} × parallel.tensor {tensor} × parallel.pipeline {pipeline} = {ranks} ranks, but {instances} × `{instance}` have {devices} devices"
    )]
    TooManyRanks {
        /// Replicas.
        data: u32,
        /// Ranks per layer.
        tensor: u32,
        /// Stages.
        pipeline: u32,
        /// Their product.
        ranks: u32,
        /// Machines.
        instances: u32,
        /// Machine type.
        instance: String,
        /// Devices of all machines.
        devices: u32,
    },
    /// The machine was measured in single precision on one shared memory: it has no other formats or splits.
    #[error("`{field}` is {value}, but the measured machine `{machine}` runs only {allowed}")]
    NotMeasured {
        /// Field of the plan.
        field: &'static str,
        /// Its value.
        value: String,
        /// The machine.
        machine: String,
        /// What it runs.
        allowed: &'static str,
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
}

impl MachineError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::TooManyRanks { ranks, instances, devices, .. } => {
                let per_instance = (*devices / (*instances).max(1)).max(1);
                Some(format!("cluster.instances {} has enough", ranks.div_ceil(per_instance)))
            }
            Self::NotMeasured { allowed, .. } => Some(format!("use {allowed}")),
            Self::Unmeasured { .. } => Some("measure again with `trainyard calibrate`".into()),
        }
    }
}

impl Machine {
    /// How this machine's software handles communication.
    pub fn lowering(&self) -> Lowering {
        Lowering {
            bucket: Some(self.stack.bucket.value).filter(|bucket| bucket.0 > 0),
            blocking_transfers: self.stack.exposed_transfer.value > 0.0,
        }
    }

    /// Whether the plan can be placed on this machine at all.
    ///
    /// # Errors
    ///
    /// When it has too many ranks, or asks a measured machine for what was not measured.
    pub fn admits(&self, plan: &Plan) -> Result<(), MachineError> {
        let mesh = plan.mesh();
        enough_devices(&self.cluster, mesh)?;
        if let Device::Measured(machine) = &self.cluster.first().device {
            let not_measured = |field, value: String, allowed| {
                Err(MachineError::NotMeasured { field, value, machine: machine.name.clone(), allowed })
            };
            if mesh.tensor() > 1 {
                return not_measured("parallel.tensor", mesh.tensor().to_string(), "parallel.tensor 1");
            }
            if plan.precision() != trainyard_plan::Precision::Fp32 {
                return not_measured("precision", plan.precision().to_string(), "fp32");
            }
        }
        Ok(())
    }
}

/// Whether a cluster has a device for each rank.
pub(crate) fn enough_devices(cluster: &Cluster, mesh: Mesh) -> Result<(), MachineError> {
    let devices = cluster.devices();
    if mesh.ranks() <= devices {
        return Ok(());
    }
    Err(MachineError::TooManyRanks {
        data: mesh.data(),
        tensor: mesh.tensor(),
        pipeline: mesh.pipeline(),
        ranks: mesh.ranks(),
        instances: cluster.machines(),
        instance: cluster.instance.clone(),
        devices,
    })
}
