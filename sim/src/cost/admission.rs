//! Plans that a machine can run.

use super::device::device_costs;
use crate::machine::{Machine, MachineError, enough_devices};
use trainyard_plan::{Offload, Placement, Plan, Precision, Store};
use trainyard_units::Invalid;

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
            let rule = format!("the machines of `{}` are of different kinds", self.cluster.instance);
            let hint = "placement cluster fills one machine after another";
            return Err(Invalid::breaks("placement", placement, rule).with_hint(hint).into());
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
            let (store, hint) = match &pool.host {
                Some(host) if host.memory.0 > 0 && (host.disk.0 > 0 || !offload.uses(Store::Nvme)) => continue,
                Some(host) if host.memory.0 > 0 => {
                    ("local disk", "keep it in main memory instead (@host), or rent machines with local disks")
                }
                _ => ("main memory", "describe the machine with `host`, or set offload = \"none\""),
            };
            let rule = format!("`{}` has no {store} that is known", pool.name);
            return Err(Invalid::breaks("offload", offload, rule).with_hint(hint).into());
        }
        Ok(())
    }
}
