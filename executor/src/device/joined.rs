//! GPUs that NCCL joins: sums of tensors that do not go through main memory.
//!
//! Burn asks NCCL for communicators within one process, one GPU for each rank. Other groups exchange through the host.

use super::{Devices, device, driver};
use crate::process_group::{GroupError, ProcessGroup, Reduction};
use burn::tensor::distributed::{CollectiveTensor, ReduceOperation, all_reduce};
use burn::tensor::{Device, Tensor};
use std::collections::BTreeSet;
use trainyard_hardware_profiles::DeviceKind;

/// The GPUs of a group's ranks.
#[derive(Clone)]
pub(crate) struct JoinedGpus {
    group: ProcessGroup,
    /// By rank.
    devices: Vec<Device>,
}

impl JoinedGpus {
    /// Joins the GPUs of the ranks of `group` where NCCL can: its library is there, the ranks are several, they are of
    /// one process, and each has a GPU of its own.
    pub(crate) fn of(group: &ProcessGroup, kind: DeviceKind) -> Option<Self> {
        if group.size() == 1 || group.is_across_processes() || !driver(kind).joins() {
            return None;
        }
        let before = group.place_on_host() - group.world_rank();
        let places: Vec<usize> = group.world_ranks().iter().map(|rank| before + rank).collect();
        if !is_one_each(&places, Devices::find(kind).ok()?.count) {
            return None;
        }
        let devices = places.into_iter().map(|place| device(kind, place)).collect::<Result<_, _>>().ok()?;
        Some(Self { group: group.clone(), devices })
    }

    /// Begins to all-reduce the tensors of all ranks by NCCL, in their format. The GPU goes on meanwhile.
    ///
    /// # Errors
    ///
    /// When a rank has failed: one that is gone would be waited for without end.
    pub(crate) fn all_reduce(&self, tensor: Tensor<1>, reduction: Reduction) -> Result<SumUnderWay, GroupError> {
        self.group.barrier()?;
        let operation = match reduction {
            Reduction::Sum => ReduceOperation::Sum,
            Reduction::Mean => ReduceOperation::Mean,
        };
        let sum = all_reduce(tensor.clone(), operation, self.devices.clone());
        Ok(SumUnderWay { own: tensor, sum })
    }
}

/// A sum that NCCL takes on a stream of its own.
pub(crate) struct SumUnderWay {
    /// What this rank brings. Once it is let go its memory goes to kernels that do not wait for NCCL.
    own: Tensor<1>,
    sum: CollectiveTensor<1>,
}

impl SumUnderWay {
    /// Returns the sum. Kernels that use it wait for it.
    pub(crate) fn resolve(self) -> Tensor<1> {
        let sum = self.sum.resolve();
        drop(self.own);
        sum
    }
}

/// Returns `true` if ranks at these places of a host with so many GPUs have different ones.
fn is_one_each(places: &[usize], gpus: usize) -> bool {
    places.iter().map(|place| place % gpus).collect::<BTreeSet<_>>().len() == places.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_group::{World, run_ranks};

    #[test]
    fn ranks_that_share_a_gpu_are_not_joined() {
        assert!(is_one_each(&[0, 1], 2));
        assert!(is_one_each(&[3, 4], 4));
        assert!(!is_one_each(&[0, 2], 2));
        assert!(!is_one_each(&[0, 1], 1));
    }

    #[test]
    fn processors_are_not_joined() {
        let joined = run_ranks(&World::threads(2), |group| {
            Ok::<_, GroupError>(JoinedGpus::of(&group, DeviceKind::Cpu).is_some())
        });
        assert_eq!(joined.into_iter().collect::<Result<Vec<_>, _>>().expect("nothing fails"), [false, false]);
    }

    /// Two ranks with a GPU each, if the machine has them.
    #[test]
    #[ignore = "needs two GPUs and NCCL"]
    fn nccl_sums_up_what_ranks_have() {
        let sums = run_ranks(&World::threads(2), |group| -> Result<Vec<f32>, GroupError> {
            let gpus = JoinedGpus::of(&group, DeviceKind::Cuda).expect("two GPUs and NCCL");
            let own = Tensor::<1>::full([1000], group.rank() as f32 + 1.0, &gpus.devices[group.rank()]);
            let sum = gpus.all_reduce(own, Reduction::Sum)?.resolve();
            Ok(sum.into_data().try_into_vec::<f32>().expect("single precision"))
        });
        let sums: Vec<Vec<f32>> = sums.into_iter().collect::<Result<_, _>>().expect("nothing fails");
        assert_eq!(sums, [vec![3.0; 1000], vec![3.0; 1000]]);
    }
}
