//! Gradients on the wire: how many bytes, by which collective, and what compressing them costs.

use trainyard_plan::{Collective, GradientCompression};
use trainyard_units::Bytes;

/// Values that share one scale in eight-bit gradients.
const BLOCK: u64 = 256;

/// One value in so many is sent by deep gradient compression (Lin et al., arXiv:1712.01887, section 4).
const DGC_SPARSITY: u64 = 1000;

/// A value in single precision and its position.
const SPARSE_BYTES: u64 = 8;

/// Passes over all gradients that deep gradient compression makes: momentum and residual read and written, the
/// threshold estimated from a sample, what is above it picked out (the same, algorithm 1).
const DGC_PASSES: f64 = 7.0;

/// Gradients as they travel among some ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compression {
    form: GradientCompression,
    /// Bytes of an uncompressed value.
    plain: u64,
    members: u64,
}

impl Compression {
    pub(crate) fn new(form: GradientCompression, plain: u64, members: u64) -> Self {
        Self { form, plain, members }
    }

    /// Ranks pick different values, so that sparse gradients cannot be summed on their way: everybody gets everybody's.
    pub(crate) fn collective(self, collective: Collective) -> Collective {
        match self.form {
            GradientCompression::Dgc => Collective::AllGather,
            _ => collective,
        }
    }

    /// The collective's buffer for so many values.
    pub(crate) fn sent(self, values: u64) -> Bytes {
        Bytes(match self.form {
            GradientCompression::None => values * self.plain,
            GradientCompression::Fp16 | GradientCompression::Bf16 => values * self.plain.min(2),
            GradientCompression::Int8 => values + 4 * values.div_ceil(BLOCK),
            GradientCompression::Dgc => self.members * values.div_ceil(DGC_SPARSITY) * SPARSE_BYTES,
        })
    }

    /// Bytes of device memory that compressing and restoring read and write, on each rank.
    pub(crate) fn touched(self, values: u64) -> f64 {
        let (values, plain) = (values as f64, self.plain as f64);
        match self.form {
            GradientCompression::None => 0.0,
            GradientCompression::Fp16 | GradientCompression::Bf16 if self.plain <= 2 => 0.0,
            // Read, write the short form; read that, write back.
            GradientCompression::Fp16 | GradientCompression::Bf16 => values * 2.0 * (plain + 2.0),
            GradientCompression::Int8 => values * 2.0 * (plain + 1.0),
            GradientCompression::Dgc => values * plain * DGC_PASSES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(form: GradientCompression, members: u64) -> u64 {
        Compression::new(form, 4, members).sent(1 << 20).0
    }

    #[test]
    fn shorter_forms_send_fewer_bytes() {
        let forms = [GradientCompression::None, GradientCompression::Fp16, GradientCompression::Int8];
        let sizes = forms.map(|form| sent(form, 8));
        assert_eq!(sizes[0], 2 * sizes[1]);
        assert!(sizes[2] < sizes[1] && sizes[2] > sizes[1] / 2);
        // A thousandth of the values at twice the size, from each of eight ranks.
        assert!(sent(GradientCompression::Dgc, 8) < sizes[0] / 50);
    }

    #[test]
    fn sparse_gradients_grow_with_the_ranks() {
        assert_eq!(sent(GradientCompression::Dgc, 16), 2 * sent(GradientCompression::Dgc, 8));
    }
}
