//! Gradients are summed over replicas while backward goes on, a layer at a time, as soon as they are there: by a thread
//! of its own through main memory, or by NCCL where it joins the GPUs of the replicas.
//!
//! Source: Li et al., "PyTorch Distributed", arXiv:2006.15704, section 3.2.3, with one bucket for each layer.

use crate::device::{JoinedGpus, SumUnderWay};
use crate::process_group::{GroupError, ProcessGroup, Reduction, Wire};
use crate::unit::Unit;
use burn::tensor::{FloatDType, Tensor};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The ranks among which gradients are summed.
#[derive(Clone)]
pub(crate) struct GradientGroups {
    /// Ranks that share a state out; every rank gets its share of the sum where there are several.
    pub(crate) shard: ProcessGroup,
    /// Ranks with the same share; they all get the whole sum.
    pub(crate) replicas: ProcessGroup,
    /// Ranks that have the same experts, where ranks share experts out.
    pub(crate) experts: Option<ProcessGroup>,
    /// Their GPUs, where sums need not go through main memory.
    pub(crate) joined: Option<JoinedGpus>,
    /// The format in which gradients travel.
    pub(crate) wire: Wire,
}

impl GradientGroups {
    /// Returns `true` if other ranks have gradients of the same parameters.
    pub(crate) fn has_peers(&self) -> bool {
        self.shard.size() * self.replicas.size() > 1
    }

    /// Returns the seconds spent waiting for others in summing gradients so far.
    pub(crate) fn waited_s(&self) -> f64 {
        let experts = self.experts.as_ref().map_or(0.0, ProcessGroup::waited_s);
        self.shard.waited_s() + self.replicas.waited_s() + experts
    }

    /// Returns the mean over all copies: this rank's share of each buffer, or all of it. Experts that are `shared_out`
    /// have fewer copies.
    fn reduce(&self, mut buffers: Vec<Vec<f32>>, shared_out: &[bool]) -> Result<Vec<Vec<f32>>, GroupError> {
        if let Some(experts) = &self.experts {
            return self.reduce_apart(experts, buffers, shared_out);
        }
        if self.shard.size() > 1 {
            for buffer in &mut buffers {
                *buffer = self.shard.reduce_scatter_as(buffer, Reduction::Mean, self.wire)?;
            }
        }
        if self.replicas.size() > 1 {
            self.replicas.all_reduce_each(&mut buffers, Reduction::Mean, self.wire)?;
        }
        Ok(buffers)
    }

    fn reduce_apart(
        &self,
        experts: &ProcessGroup,
        buffers: Vec<Vec<f32>>,
        shared_out: &[bool],
    ) -> Result<Vec<Vec<f32>>, GroupError> {
        let (mut of_experts, mut of_all) = (Vec::new(), Vec::new());
        for (buffer, shared_out) in buffers.into_iter().zip(shared_out) {
            if *shared_out { of_experts.push(buffer) } else { of_all.push(buffer) }
        }
        self.replicas.all_reduce_each(&mut of_all, Reduction::Mean, self.wire)?;
        if !of_experts.is_empty() {
            experts.all_reduce_each(&mut of_experts, Reduction::Mean, self.wire)?;
        }
        let (mut of_experts, mut of_all) = (of_experts.into_iter(), of_all.into_iter());
        let next = |shared_out: &bool| if *shared_out { of_experts.next() } else { of_all.next() };
        Ok(shared_out.iter().filter_map(next).collect())
    }
}

/// The way a rank's gradients are summed with those of others.
pub(crate) enum Reducer {
    /// Through main memory.
    Host(HostReducer),
    Gpus(GpuReducer),
}

const HELD: &str = "only gradients of layers that the rank holds were handed over";

impl Reducer {
    pub(crate) fn start(groups: &GradientGroups) -> Self {
        match &groups.joined {
            Some(gpus) => Self::Gpus(GpuReducer { gpus: gpus.clone(), wire: groups.wire, under_way: Vec::new() }),
            None => Self::Host(HostReducer::start(groups.clone())),
        }
    }

    /// Hands a layer's gradients over.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub(crate) fn submit(&mut self, layer: usize, unit: &mut Unit) -> Result<(), GroupError> {
        match self {
            Self::Host(thread) => {
                thread.submit(layer, unit.take_for_host(), unit.shared_out());
                Ok(())
            }
            Self::Gpus(gpus) => gpus.submit(layer, unit.take_gradients()),
        }
    }

    /// Waits for everything that was handed over, and gives it back.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub(crate) fn collect(&mut self, units: &mut BTreeMap<usize, Unit>) -> Result<(), GroupError> {
        match self {
            Self::Host(thread) => {
                for Bucket { layer, values, .. } in thread.collect()? {
                    units.get_mut(&layer).expect(HELD).put_from_host(values);
                }
            }
            Self::Gpus(gpus) => {
                for (layer, reduced) in gpus.collect() {
                    units.get_mut(&layer).expect(HELD).put_reduced(reduced);
                }
            }
        }
        Ok(())
    }
}

/// A layer's gradients on their way.
struct Bucket {
    layer: usize,
    /// As [`Unit::take_for_host`] leaves them.
    values: Vec<Vec<f32>>,
    /// As [`Unit::shared_out`] tells.
    shared_out: Vec<bool>,
}

/// The end of the thread that the rank talks to. The thread ends by itself when this is dropped; it is not waited for,
/// because it may wait for ranks that do not know yet that this one is gone.
pub(crate) struct HostReducer {
    send: Sender<Bucket>,
    reduced: Receiver<Result<Bucket, GroupError>>,
    under_way: usize,
}

impl HostReducer {
    fn start(groups: GradientGroups) -> Self {
        let (send, buckets) = channel::<Bucket>();
        let (done, reduced) = channel();
        std::thread::spawn(move || {
            for Bucket { layer, values, shared_out } in buckets {
                let reduced = groups.reduce(values, &shared_out);
                let result = reduced.map(|values| Bucket { layer, values, shared_out });
                if done.send(result).is_err() {
                    break;
                }
            }
        });
        Self { send, reduced, under_way: 0 }
    }

    fn submit(&mut self, layer: usize, values: Vec<Vec<f32>>, shared_out: Vec<bool>) {
        self.under_way += 1;
        // A thread that is gone has told why.
        let _ = self.send.send(Bucket { layer, values, shared_out });
    }

    /// Returns everything that was handed over, in the order in which it was.
    fn collect(&mut self) -> Result<Vec<Bucket>, GroupError> {
        let count = std::mem::take(&mut self.under_way);
        (0..count).map(|_| self.reduced.recv().expect("the thread answers everything")).collect()
    }
}

/// Sums that NCCL takes while the GPU goes on with backward.
pub(crate) struct GpuReducer {
    gpus: JoinedGpus,
    wire: Wire,
    under_way: Vec<OnGpus>,
}

/// A layer's gradients on their way, one after another in one tensor.
struct OnGpus {
    layer: usize,
    lengths: Vec<usize>,
    sum: SumUnderWay,
}

impl GpuReducer {
    fn submit(&mut self, layer: usize, gradients: Vec<Tensor<1>>) -> Result<(), GroupError> {
        let lengths: Vec<usize> = gradients.iter().map(|gradient| gradient.dims()[0]).collect();
        if gradients.is_empty() {
            return Ok(());
        }
        let format = match self.wire {
            Wire::F32 => FloatDType::F32,
            Wire::F16 => FloatDType::F16,
            Wire::Bf16 => FloatDType::BF16,
        };
        let sum = self.gpus.all_reduce(Tensor::cat(gradients, 0).cast(format), Reduction::Mean)?;
        self.under_way.push(OnGpus { layer, lengths, sum });
        Ok(())
    }

    fn collect(&mut self) -> impl Iterator<Item = (usize, Vec<Tensor<1>>)> {
        std::mem::take(&mut self.under_way).into_iter().map(|OnGpus { layer, lengths, sum }| {
            let sum = sum.resolve().cast(FloatDType::F32);
            (layer, sum.split_with_sizes(lengths, 0))
        })
    }
}
