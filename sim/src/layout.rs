//! Where the ranks of a plan stand on a cluster.

use trainyard_hardware_profiles::{Cluster, DevicePosition, Fabric, Interconnect};
use trainyard_plan::{Group, Mesh, Placement, Rank};

/// Ranks on devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<'a> {
    pub(crate) mesh: Mesh,
    pub(crate) cluster: &'a Cluster,
}

impl Layout<'_> {
    /// The device of a rank: ranks fill one machine after another, or are dealt out to the machines in turn.
    pub(crate) fn position(&self, Rank(rank): Rank) -> DevicePosition {
        match self.mesh.placement() {
            Placement::Spread => {
                let machines = self.cluster.machines();
                DevicePosition { instance: rank % machines, slot: rank / machines }
            }
            Placement::Cluster | Placement::Order(_) => self.cluster.position(rank),
        }
    }

    /// The devices of some ranks.
    pub(crate) fn positions(&self, ranks: &[Rank]) -> Vec<DevicePosition> {
        ranks.iter().map(|rank| self.position(*rank)).collect()
    }

    /// The index of the kind of machine that a rank stands on.
    pub(crate) fn pool(&self, rank: Rank) -> usize {
        self.cluster.pool_index(self.position(rank).instance)
    }

    /// The groups of this kind that the ranks of a stage form, in the order of their first ranks.
    pub(crate) fn groups(&self, stage: u32, group: Group) -> Vec<Vec<Rank>> {
        let mut seen = vec![false; self.mesh.ranks() as usize];
        let mut groups = Vec::new();
        for rank in self.mesh.stage_ranks(stage) {
            if seen[rank.0 as usize] {
                continue;
            }
            let members = self.mesh.group(rank, group);
            for member in &members {
                seen[member.0 as usize] = true;
            }
            groups.push(members);
        }
        groups
    }

    /// Those of [`Self::groups`] that have a member on the machine of the stage's first rank.
    pub(crate) fn groups_of_first_machine(&self, stage: u32, group: Group) -> Vec<Vec<Rank>> {
        let machine = self.position(self.mesh.first_of_stage(stage)).instance;
        let mut groups: Vec<Vec<Rank>> = Vec::new();
        for rank in self.mesh.stage_ranks(stage).filter(|rank| self.position(*rank).instance == machine) {
            if !groups.iter().any(|members| members.contains(&rank)) {
                groups.push(self.mesh.group(rank, group));
            }
        }
        groups
    }

    /// After how many stages the next ones stand on their machines as the first ones do, machines being all alike and
    /// every stage filling some of them or a part of one; nothing where it is not so plain.
    pub(crate) fn period(&self) -> Option<u32> {
        let ranks = self.mesh.ranks() / self.mesh.pipeline();
        let devices = self.cluster.first().devices_per_instance;
        if self.mesh.placement() != Placement::Cluster || self.cluster.is_mixed() || !self.cluster.switches.is_empty() {
            return None;
        }
        match (ranks.is_multiple_of(devices), devices.is_multiple_of(ranks)) {
            (true, _) => Some(1),
            (_, true) => Some(devices / ranks),
            _ => None,
        }
    }

    /// Tells whether all ranks of a stage go in step: stages stand regularly, and on each machine every device reaches
    /// every other as fast.
    pub(crate) fn in_step(&self) -> bool {
        let pool = self.cluster.first();
        let symmetric = match &pool.fabric {
            Fabric::Wired { interconnect, .. } => matches!(interconnect, Interconnect::Nvswitch { .. }),
            Fabric::Measured => false,
        };
        self.period().is_some() && (symmetric || pool.devices_per_instance == 1)
    }

    /// The first stage that stands on its machines as this one does.
    pub(crate) fn alike(&self, stage: u32) -> u32 {
        self.period().map_or(stage, |period| stage % period)
    }

    /// Those of [`Self::pairs`] whose first rank stands on the machine of the stage's first rank.
    pub(crate) fn pairs_of_first_machine(&self, from: u32, to: u32) -> Vec<Vec<Rank>> {
        let machine = self.position(self.mesh.first_of_stage(from)).instance;
        let pairs = self.mesh.stage_ranks(from).zip(self.mesh.stage_ranks(to));
        pairs.filter(|(rank, _)| self.position(*rank).instance == machine).map(|(a, b)| vec![a, b]).collect()
    }

    /// The ranks of two stages that work on the same part of the same samples, in pairs.
    pub(crate) fn pairs(&self, from: u32, to: u32) -> Vec<Vec<Rank>> {
        self.mesh.stage_ranks(from).zip(self.mesh.stage_ranks(to)).map(|(a, b)| vec![a, b]).collect()
    }
}
