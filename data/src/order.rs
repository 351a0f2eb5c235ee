//! In which order samples are read, and which of them a replica reads.

use crate::batch::MicroBatch;
use crate::dataset::Dataset;
use crate::error::DataError;
use crate::random::{Purpose, generator};
use rand::seq::SliceRandom;

/// The order of training samples: epoch after epoch, each shuffled by the seed and its number.
pub struct Order<'a> {
    data: &'a Dataset,
    epoch: Option<u64>,
    shuffled: Vec<usize>,
}

impl<'a> Order<'a> {
    /// Makes the order of the samples of `data`, by its seed.
    pub fn new(data: &'a Dataset) -> Self {
        Self { data, epoch: None, shuffled: Vec::new() }
    }

    /// Returns the number of the sample at `position`, counted from the start of training. It depends on nothing but
    /// the data and the seed.
    pub fn sample(&mut self, position: u64) -> usize {
        let length = self.data.training().len() as u64;
        let epoch = position / length;
        if self.epoch != Some(epoch) {
            self.shuffled.clear();
            self.shuffled.extend_from_slice(self.data.training());
            self.shuffled.shuffle(&mut generator(self.data.seed(), Purpose::Order { epoch }));
            self.epoch = Some(epoch);
        }
        self.shuffled[(position % length) as usize]
    }
}

/// The part of each global batch that a replica reads, and its division into micro-batches.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Samples of a micro-batch.
    pub micro: u64,
    /// Micro-batches of the replica in a step.
    pub accumulation: u64,
    pub replica: u64,
}

impl Slice {
    /// Returns the micro-batches of the step whose global batch begins at `position`.
    ///
    /// # Errors
    ///
    /// When a sample cannot be read.
    pub fn step(self, order: &mut Order<'_>, position: u64) -> Result<Vec<MicroBatch>, DataError> {
        let start = position + self.replica * self.micro * self.accumulation;
        (0..self.accumulation)
            .map(|m| {
                let first = start + m * self.micro;
                let mut batch = order.data.empty();
                for position in first..first + self.micro {
                    let number = order.sample(position);
                    order.data.read(number, position, &mut batch)?;
                }
                Ok(batch)
            })
            .collect()
    }
}
