//! Where the groups of a plan stand on a cluster.

use trainyard_hardware_profiles::{Cluster, DevicePosition};
use trainyard_plan::{Coordinates, Mesh, Rank, StageId};

/// Groups of ranks that run the same collective at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// The device positions of each group, in the order of its ranks.
    pub(crate) groups: Vec<Vec<DevicePosition>>,
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
}

fn positions(cluster: &Cluster, ranks: &[Rank]) -> Vec<DevicePosition> {
    ranks.iter().map(|Rank(rank)| cluster.position(*rank)).collect()
}
