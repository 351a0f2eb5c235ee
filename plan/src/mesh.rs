//! Ranks and their coordinates. The one place where the two are converted.

use crate::spec::ParallelSpec;

/// A process of the job: one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(pub u32);

/// Where a rank stands in each kind of parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coordinates {
    /// Which replica.
    pub data: u32,
    /// Which part of each layer.
    pub tensor: u32,
    /// Which stage.
    pub pipeline: u32,
}

/// All ranks of a plan, numbered tensor first, then data, then pipeline, as Megatron-LM does by default
/// (Narayanan et al., arXiv:2104.04473, section 3.1): the ranks that talk most are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mesh {
    data: u32,
    tensor: u32,
    pipeline: u32,
}

impl From<ParallelSpec> for Mesh {
    fn from(parallel: ParallelSpec) -> Self {
        Self { data: parallel.data, tensor: parallel.tensor, pipeline: parallel.pipeline }
    }
}

impl Mesh {
    /// Replicas.
    pub fn data(self) -> u32 {
        self.data
    }

    /// Ranks that share a layer.
    pub fn tensor(self) -> u32 {
        self.tensor
    }

    /// Stages.
    pub fn pipeline(self) -> u32 {
        self.pipeline
    }

    /// The number of ranks.
    pub fn ranks(self) -> u32 {
        self.data * self.tensor * self.pipeline
    }

    /// The rank at these coordinates.
    pub fn rank(self, at: Coordinates) -> Rank {
        Rank(at.tensor + self.tensor * (at.data + self.data * at.pipeline))
    }

    /// The coordinates of a rank.
    pub fn coordinates(self, Rank(rank): Rank) -> Coordinates {
        Coordinates {
            tensor: rank % self.tensor,
            data: rank / self.tensor % self.data,
            pipeline: rank / self.tensor / self.data,
        }
    }

    /// The ranks that hold the same parameters as `rank`: they sum gradients.
    pub fn data_group(self, rank: Rank) -> Vec<Rank> {
        let at = self.coordinates(rank);
        (0..self.data).map(|data| self.rank(Coordinates { data, ..at })).collect()
    }

    /// The ranks that share the layers of `rank`.
    pub fn tensor_group(self, rank: Rank) -> Vec<Rank> {
        let at = self.coordinates(rank);
        (0..self.tensor).map(|tensor| self.rank(Coordinates { tensor, ..at })).collect()
    }

    /// The ranks through which the samples of `rank` pass, first stage first.
    pub fn pipeline_group(self, rank: Rank) -> Vec<Rank> {
        let at = self.coordinates(rank);
        (0..self.pipeline).map(|pipeline| self.rank(Coordinates { pipeline, ..at })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_and_coordinates_are_a_bijection(data in 1u32..9, tensor in 1u32..9, pipeline in 1u32..9) {
            let mesh = Mesh::from(ParallelSpec { data, tensor, pipeline });
            for rank in (0..mesh.ranks()).map(Rank) {
                prop_assert_eq!(mesh.rank(mesh.coordinates(rank)), rank);
                prop_assert!(mesh.data_group(rank).contains(&rank));
                prop_assert!(mesh.tensor_group(rank).contains(&rank));
                prop_assert!(mesh.pipeline_group(rank).contains(&rank));
            }
        }
    }
}
