//! Operators of which only sizes are known, because they were read from the graph of another program.

use super::{Gemm, Pass, Storage, elements};

/// What is computed, for one sample unless `samples` are more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generic {
    /// Independent products of two activations, (m, k) · (k, n) each.
    Product {
        samples: u64,
        /// Products of a sample.
        batch: u64,
        m: u64,
        n: u64,
        k: u64,
        /// Elements of the operands that nothing else keeps for backward.
        kept: u64,
    },
    /// A kernel that is bound by memory: a function of elements, a copy, a sum over some of them.
    Kernel {
        samples: u64,
        /// Elements read.
        read: u64,
        /// Elements written.
        written: u64,
        /// Elements that backward needs and that nothing else keeps.
        kept: u64,
        /// Bytes of masks and indices that backward needs.
        masks: u64,
    },
    /// Trained values that kernels read beside what flows: positions, scales, biases of scores.
    Weights {
        values: u64,
        /// How many tensors they are.
        tensors: u32,
    },
}

impl Generic {
    pub(super) fn for_samples(self, count: u64) -> Self {
        let mut scaled = self;
        match &mut scaled {
            Self::Product { samples, .. } | Self::Kernel { samples, .. } => *samples *= count,
            Self::Weights { .. } => {}
        }
        scaled
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Product { .. } => "product of activations",
            Self::Kernel { .. } => "kernel",
            Self::Weights { .. } => "weights",
        }
    }

    pub(super) fn parameters(self) -> u64 {
        if let Self::Weights { values, .. } = self { values } else { 0 }
    }

    pub(super) fn parameter_tensors(self) -> u32 {
        if let Self::Weights { tensors, .. } = self { tensors } else { 0 }
    }

    pub(super) fn gemms(self) -> Vec<Gemm> {
        match self {
            Self::Product { samples, batch, m, n, k, .. } => vec![Gemm { batch: samples * batch, m, n, k }],
            Self::Kernel { .. } | Self::Weights { .. } => Vec::new(),
        }
    }

    /// Forward a kernel reads its inputs and writes its outputs. Backward it reads the gradients of the outputs and what was
    /// kept, and writes the gradients of the inputs.
    pub(super) fn traffic(self, pass: Pass) -> Storage {
        match self {
            Self::Kernel { samples, read, written, kept, masks } => {
                let kept = if pass == Pass::Forward { 0 } else { kept };
                Storage { elements: samples * (read + written + kept), single: 0, masks: samples * masks }
            }
            Self::Product { .. } | Self::Weights { .. } => Storage::default(),
        }
    }

    pub(super) fn kernels(self, pass: Pass) -> u32 {
        match (self, pass) {
            (Self::Weights { .. }, _) => 0,
            (Self::Product { .. }, Pass::Backward) => 2,
            (Self::Product { .. } | Self::Kernel { .. }, _) => 1,
        }
    }

    pub(super) fn stored(self) -> Storage {
        match self {
            Self::Product { samples, kept, .. } => elements(samples * kept),
            Self::Kernel { samples, kept, masks, .. } => {
                Storage { elements: samples * kept, single: 0, masks: samples * masks }
            }
            Self::Weights { .. } => Storage::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::OperatorKind;

    #[test]
    fn a_product_of_activations_costs_what_the_same_product_with_weights_does() {
        let product = OperatorKind::Generic(Generic::Product { samples: 1, batch: 1, m: 6, n: 14, k: 10, kept: 200 });
        let linear = OperatorKind::Linear { rows: 6, inputs: 10, outputs: 14, bias: false };
        for pass in [Pass::Forward, Pass::Backward] {
            assert_eq!(product.gemms(pass), linear.gemms(pass));
        }
        assert_eq!((product.parameters(), product.multiplies_weights()), (0, false));
        assert_eq!(product.for_samples(3).flops(Pass::Forward), product.flops(Pass::Forward) * 3.0);
    }

    #[test]
    fn weights_cost_no_kernel_and_do_not_grow_with_samples() {
        let weights = OperatorKind::Generic(Generic::Weights { values: 100, tensors: 2 });
        assert_eq!(weights.for_samples(8), weights);
        assert_eq!((weights.parameters(), weights.parameter_tensors()), (100, 2));
        assert_eq!((weights.kernels(Pass::Forward), weights.multiplies_weights()), (0, false));
    }

    #[test]
    fn a_kernel_reads_backward_what_it_kept_besides() {
        let kernel = Generic::Kernel { samples: 2, read: 5, written: 7, kept: 3, masks: 4 };
        assert_eq!(kernel.traffic(Pass::Forward).elements, 2 * 12);
        assert_eq!(kernel.traffic(Pass::Backward).elements, 2 * 15);
        assert_eq!(kernel.stored(), Storage { elements: 6, single: 0, masks: 8 });
    }
}
