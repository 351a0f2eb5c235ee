//! Whether a plan fits: what `plan` counts, and what the software takes besides.

use crate::machine::Machine;
use trainyard_plan::{Plan, Resident, StageId, resident};
use trainyard_units::Bytes;

/// What one rank of each stage needs, and what there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// What one device has.
    pub limit: Bytes,
    /// Per stage, what the plan holds.
    pub resident: Vec<Resident>,
    /// Per stage, what the software takes: its own libraries, and what its allocator holds without use.
    pub software: Vec<Bytes>,
}

/// A stage that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stage {} needs {} on each device, but there is {}", stage.0, trainyard_units::human_bytes(*needed), trainyard_units::human_bytes(*available))]
pub struct OutOfMemory {
    /// Which.
    pub stage: StageId,
    /// What a rank of it needs.
    pub needed: Bytes,
    /// What a device has.
    pub available: Bytes,
}

impl Footprint {
    /// What one rank of a stage needs in all.
    pub fn total(&self, stage: StageId) -> Bytes {
        self.resident[stage.0 as usize].total() + self.software[stage.0 as usize]
    }

    /// What the fullest rank needs.
    pub fn peak(&self) -> Bytes {
        self.stages().map(|stage| self.total(stage)).max().unwrap_or_default()
    }

    /// Whether every stage fits.
    ///
    /// # Errors
    ///
    /// The stage that needs most, if it does not fit.
    pub fn fits(&self) -> Result<(), OutOfMemory> {
        let fullest = self.stages().max_by_key(|stage| self.total(*stage));
        match fullest {
            Some(stage) if self.total(stage) > self.limit => {
                Err(OutOfMemory { stage, needed: self.total(stage), available: self.limit })
            }
            _ => Ok(()),
        }
    }

    fn stages(&self) -> impl Iterator<Item = StageId> + use<> {
        (0..self.resident.len() as u32).map(StageId)
    }
}

/// What one rank of each stage of `plan` needs on `machine`.
pub fn footprint(plan: &Plan, machine: &Machine) -> Footprint {
    let resident: Vec<Resident> = plan.stages().ids().map(|stage| resident(plan, stage)).collect();
    let software = resident
        .iter()
        .map(|held| {
            let unused = held.total().as_f64() * machine.stack.fragmentation.value;
            machine.stack.resident.value + Bytes(unused as u64)
        })
        .collect();
    let limit = machine.cluster.memory_per_rank(machine.cluster.position(0), plan.mesh().ranks());
    Footprint { limit, resident, software }
}
