//! Plans that a machine can run.

use super::device::device_costs;
use crate::machine::{Machine, MachineError, enough_devices};
use trainyard_plan::{Offload, Placement, Plan, Precision, Store};

impl Machine {
    /// The part by which a kernel takes longer while a collective is under way beside it: as it was measured, or as the
    /// software has it elsewhere.
    pub(crate) fn overlap_slowdown(&self) -> f64 {
        let measured = device_costs(&self.cluster.first().device).overlap_slowdown();
        measured.unwrap_or(self.stack.overlap_slowdown.value)
    }

    /// Refuses a plan that cannot be placed on this machine at all.
    ///
    /// # Errors
    ///
    /// When it has too many ranks, or asks a measured machine for what was not measured.
    pub fn admits(&self, plan: &Plan) -> Result<(), MachineError> {
        enough_devices(&self.cluster, plan.mesh())?;
        device_costs(&self.cluster.first().device).admits(self, plan)
    }

    /// Refuses a number format that a GPU has no arithmetic units for, or that a measured machine was not measured in.
    ///
    /// # Errors
    ///
    /// The first GPU that has none, or the machine.
    pub fn has_units(&self, precision: Precision) -> Result<(), MachineError> {
        self.cluster.pools.iter().try_for_each(|pool| device_costs(&pool.device).has_units(precision))
    }

    /// Refuses a placement that needs machines of one kind on others.
    pub(super) fn places(&self, placement: Placement) -> Result<(), MachineError> {
        if placement == Placement::Spread && self.cluster.is_mixed() {
            return Err(MachineError::SpreadOverMixed { cluster: self.cluster.instance.clone() });
        }
        Ok(())
    }

    /// Refuses a plan that keeps something in what the machines do not have.
    pub(super) fn has_stores(&self, plan: &Plan) -> Result<(), MachineError> {
        let offload = plan.offload();
        if offload == Offload::NONE {
            return Ok(());
        }
        for pool in &self.cluster.pools {
            let missing =
                |store| Err(MachineError::NoStore { offload: offload.to_string(), store, machine: pool.name.clone() });
            match &pool.host {
                None => return missing("main memory"),
                Some(host) if host.memory.0 == 0 => return missing("main memory"),
                Some(host) if offload.uses(Store::Nvme) && host.disk.0 == 0 => return missing("local disk"),
                Some(_) => {}
            }
        }
        Ok(())
    }
}
