//! Where the groups of a plan stand on a cluster: which of their edges stay inside a machine.

use trainyard_hardware_profiles::{Cluster, DevicePosition};
use trainyard_plan::{Coordinates, Mesh, Rank, StageId};

/// Groups of ranks that run the same collective at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// One group of device positions each, in ring order.
    pub(crate) groups: Vec<Vec<DevicePosition>>,
}

/// What a family asks of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footing {
    /// Members of a group.
    pub(crate) members: u32,
    /// Machines that the group with most machines touches.
    pub(crate) machines: u32,
    /// Most members of one group on one machine.
    pub(crate) members_per_machine: u32,
    /// Ring edges that leave the busiest machine.
    pub(crate) edges_leaving: u32,
}

impl Family {
    /// The groups that sum the gradients of a stage: one for each tensor-parallel rank.
    pub(crate) fn data(mesh: Mesh, cluster: &Cluster, stage: StageId) -> Self {
        let groups = (0..mesh.tensor())
            .map(|tensor| mesh.data_group(mesh.rank(Coordinates { data: 0, tensor, pipeline: stage.0 })))
            .map(|ranks| positions(cluster, &ranks))
            .collect();
        Self { groups }
    }

    /// The groups that share the layers of a stage: one for each replica.
    pub(crate) fn tensor(mesh: Mesh, cluster: &Cluster, stage: StageId) -> Self {
        let groups = (0..mesh.data())
            .map(|data| mesh.tensor_group(mesh.rank(Coordinates { data, tensor: 0, pipeline: stage.0 })))
            .map(|ranks| positions(cluster, &ranks))
            .collect();
        Self { groups }
    }

    /// The pairs of ranks of two stages that work on the same part of the same samples.
    pub(crate) fn pairs(mesh: Mesh, cluster: &Cluster, from: StageId, to: StageId) -> Self {
        let replicas = (0..mesh.data()).flat_map(|data| (0..mesh.tensor()).map(move |tensor| (data, tensor)));
        let groups = replicas
            .map(|(data, tensor)| [from, to].map(|stage| mesh.rank(Coordinates { data, tensor, pipeline: stage.0 })))
            .map(|pair| positions(cluster, &pair))
            .collect();
        Self { groups }
    }

    /// What the family asks of the network.
    pub(crate) fn footing(&self) -> Footing {
        let mut footing = Footing { members: 0, machines: 0, members_per_machine: 0, edges_leaving: 0 };
        let mut leaving: Vec<u32> = Vec::new();
        for group in &self.groups {
            let mut here: Vec<(u32, u32)> = Vec::new();
            for position in group {
                match here.iter_mut().find(|(machine, _)| *machine == position.instance) {
                    Some((_, members)) => *members += 1,
                    None => here.push((position.instance, 1)),
                }
            }
            footing.members = footing.members.max(group.len() as u32);
            footing.machines = footing.machines.max(here.len() as u32);
            footing.members_per_machine =
                here.iter().map(|(_, members)| *members).fold(footing.members_per_machine, u32::max);
            if here.len() > 1 {
                for (machine, _) in here {
                    let machine = machine as usize;
                    leaving.resize(leaving.len().max(machine + 1), 0);
                    leaving[machine] += 1;
                }
            }
        }
        footing.edges_leaving = leaving.into_iter().max().unwrap_or(0);
        footing
    }

    /// The group that stands on the fewest machines' worth of links: the one to ask for links inside a machine.
    pub(crate) fn first(&self) -> &[DevicePosition] {
        &self.groups[0]
    }
}

fn positions(cluster: &Cluster, ranks: &[Rank]) -> Vec<DevicePosition> {
    ranks.iter().map(|Rank(rank)| cluster.position(*rank)).collect()
}
