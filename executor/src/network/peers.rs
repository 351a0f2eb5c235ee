//! A group of ranks as layers exchange with it, in forward and in backward passes.

use super::operators::to_vec;
use crate::process_group::{GroupError, ProcessGroup};
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use std::sync::{Arc, Mutex};

/// A group of ranks, and why an exchange with them did not happen.
#[derive(Clone)]
pub(super) struct Peers {
    group: ProcessGroup,
    /// Of the first exchange that did not happen. Gradients go back where no error can be returned, so that it is asked
    /// for afterwards.
    failure: Arc<Mutex<Option<GroupError>>>,
}

const UNPOISONED: &str = "nothing panics while it holds this lock";

impl Peers {
    pub(super) fn new(group: ProcessGroup) -> Self {
        Self { group, failure: Arc::default() }
    }

    pub(super) fn size(&self) -> usize {
        self.group.size()
    }

    pub(super) fn rank(&self) -> usize {
        self.group.rank()
    }

    /// Returns an error if an exchange failed since the group was made; results after it mean nothing.
    pub(super) fn check(&self) -> Result<(), GroupError> {
        self.failure.lock().expect(UNPOISONED).clone().map_or(Ok(()), Err)
    }

    /// Does an exchange, or notes why it did not happen. After a failure nothing is exchanged any more.
    pub(super) fn exchange<T>(&self, act: impl FnOnce(&ProcessGroup) -> Result<T, GroupError>) -> Option<T> {
        let mut failure = self.failure.lock().expect(UNPOISONED);
        if failure.is_some() {
            return None;
        }
        match act(&self.group) {
            Ok(value) => Some(value),
            Err(error) => {
                *failure = Some(error);
                None
            }
        }
    }
}

/// Copies the values of a tensor to the host in single precision, and returns their own format beside them.
pub(super) fn to_host(rows: Tensor<2>) -> (Vec<f32>, FloatDType) {
    let dtype = rows.dtype().into();
    (to_vec(rows), dtype)
}

pub(super) fn from_host<const D: usize>(
    values: Vec<f32>,
    shape: [usize; D],
    dtype: FloatDType,
    device: &Device,
) -> Tensor<D> {
    Tensor::<D>::from_data(TensorData::new(values, shape), device).cast(dtype)
}
