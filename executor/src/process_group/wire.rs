//! The type in which values travel between ranks.

use super::link::Payload;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};

/// The type in which values travel between ranks. Sums are always taken in fp32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// As they are: fp32.
    #[default]
    F32,
    /// Rounded to fp16: magnitudes above 65 504 become infinite.
    F16,
    /// Rounded to bf16: eight significant bits.
    Bf16,
}

/// Values that are converted at once; a few times as many fit the first cache.
const CHUNK: usize = 512;

impl Wire {
    /// Returns the bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// Replaces each value by the one that arrives when it is sent.
    pub(super) fn round(self, values: &mut [f32]) {
        if self == Self::F32 {
            return;
        }
        let mut bits = [0; CHUNK];
        for chunk in values.chunks_mut(CHUNK) {
            let bits = &mut bits[..chunk.len()];
            self.narrow(chunk, bits);
            self.widen(bits, chunk);
        }
    }

    /// Adds `values`, as they arrive, to `sums`.
    pub(super) fn add(self, sums: &mut [f32], values: &[f32]) {
        if self == Self::F32 {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            return;
        }
        let (mut bits, mut arrived) = ([0; CHUNK], [0.0; CHUNK]);
        for (sums, values) in sums.chunks_mut(CHUNK).zip(values.chunks(CHUNK)) {
            let (bits, arrived) = (&mut bits[..values.len()], &mut arrived[..values.len()]);
            self.narrow(values, bits);
            self.widen(bits, arrived);
            sums.iter_mut().zip(arrived).for_each(|(sum, value)| *sum += *value);
        }
    }

    /// Converts values to the form in which they are sent.
    pub(super) fn encode(self, values: Vec<f32>) -> Payload {
        if self == Self::F32 {
            return Payload::F32(values);
        }
        let mut bits = vec![0; values.len()];
        self.narrow(&values, &mut bits);
        Payload::Half(bits)
    }

    /// Returns the values that were sent.
    pub(super) fn decode(self, payload: Payload) -> Vec<f32> {
        match payload {
            Payload::F32(values) => values,
            Payload::Half(bits) => {
                let mut values = vec![0.0; bits.len()];
                self.widen(&bits, &mut values);
                values
            }
            Payload::Bytes(_) => unreachable!("bytes are not values"),
        }
    }

    fn narrow(self, values: &[f32], bits: &mut [u16]) {
        match self {
            Self::F16 => bits.reinterpret_cast_mut::<f16>().convert_from_f32_slice(values),
            Self::Bf16 => bits.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(values),
            Self::F32 => unreachable!("fp32 travels as it is"),
        }
    }

    fn widen(self, bits: &[u16], values: &mut [f32]) {
        match self {
            Self::F16 => bits.reinterpret_cast::<f16>().convert_to_f32_slice(values),
            Self::Bf16 => bits.reinterpret_cast::<bf16>().convert_to_f32_slice(values),
            Self::F32 => unreachable!("fp32 travels as it is"),
        }
    }
}
