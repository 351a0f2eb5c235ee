//! Gradients are summed over replicas while backward goes on: a thread of its own takes a layer's gradients as soon as
//! they are there.
//!
//! Source: Li et al., "PyTorch Distributed", arXiv:2006.15704, section 3.2.3, with one bucket for each layer.

use crate::process_group::{GroupError, ProcessGroup, Reduction, Wire};
use std::sync::mpsc::{Receiver, Sender, channel};

/// The ranks among which gradients are summed.
#[derive(Clone)]
pub(crate) struct GradientGroups {
    /// Ranks that share a state out; every rank gets its share of the sum where there are several.
    pub(crate) shard: ProcessGroup,
    /// Ranks with the same share; they all get the whole sum.
    pub(crate) replicas: ProcessGroup,
    /// The format in which gradients travel.
    pub(crate) wire: Wire,
}

impl GradientGroups {
    /// Whether anybody else has gradients of the same parameters.
    pub(crate) fn has_peers(&self) -> bool {
        self.shard.size() * self.replicas.size() > 1
    }

    /// The mean over all copies: this rank's share of it, or all.
    fn reduce(&self, mut buffer: Vec<f32>) -> Result<Vec<f32>, GroupError> {
        if self.shard.size() > 1 {
            buffer = self.shard.reduce_scatter_as(&mut buffer, Reduction::Mean, self.wire)?;
        }
        if self.replicas.size() > 1 {
            self.replicas.all_reduce_as(&mut buffer, Reduction::Mean, self.wire)?;
        }
        Ok(buffer)
    }
}

/// A layer's gradients on their way.
struct Bucket {
    unit: usize,
    values: Vec<f32>,
}

/// The end of the thread that the rank talks to. The thread ends by itself when this is dropped; it is not waited for,
/// because it may wait for ranks that do not know yet that this one is gone.
pub(crate) struct Reducer {
    send: Sender<Bucket>,
    reduced: Receiver<Result<Bucket, GroupError>>,
    under_way: usize,
}

impl Reducer {
    pub(crate) fn start(groups: GradientGroups) -> Self {
        let (send, buckets) = channel::<Bucket>();
        let (done, reduced) = channel();
        std::thread::spawn(move || {
            for Bucket { unit, values } in buckets {
                let result = groups.reduce(values).map(|values| Bucket { unit, values });
                if done.send(result).is_err() {
                    break;
                }
            }
        });
        Self { send, reduced, under_way: 0 }
    }

    /// Hands a layer's gradients over.
    pub(crate) fn submit(&mut self, unit: usize, values: Vec<f32>) {
        self.under_way += 1;
        // A thread that is gone has told why.
        let _ = self.send.send(Bucket { unit, values });
    }

    /// Waits for everything that was handed over, in the order in which it was.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub(crate) fn collect(&mut self) -> Result<Vec<(usize, Vec<f32>)>, GroupError> {
        let count = std::mem::take(&mut self.under_way);
        (0..count)
            .map(|_| {
                let Bucket { unit, values } = self.reduced.recv().expect("the thread answers everything")?;
                Ok((unit, values))
            })
            .collect()
    }
}
