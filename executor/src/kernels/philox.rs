//! Random numbers that are a function of a key and a counter, so that any part of a sequence can be computed alone.
//!
//! Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, section 4.3: Philox4×32. PyTorch draws
//! from the same family on GPUs.

use super::vector::vectorized;

/// Rounds: the fewest that pass every test of the paper (table 2), as in FlashAttention.
const ROUNDS: usize = 7;

const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// Counters that are computed side by side.
const LANES: usize = 8;

/// Random numbers of 16 bits that come out of so many counters at once.
pub(super) const RUN: usize = LANES * 8;

/// A key, and the words of the counter besides its first: that one numbers runs of random numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) key: [u32; 2],
    pub(super) counter: [u32; 3],
}

/// Returns run number `run` of a stream.
#[inline(always)]
fn run_of(stream: Stream, run: u32) -> [u16; RUN] {
    let mut words = [[0; LANES], [stream.counter[0]; LANES], [stream.counter[1]; LANES], [stream.counter[2]; LANES]];
    for (lane, counter) in words[0].iter_mut().enumerate() {
        *counter = run.wrapping_mul(LANES as u32).wrapping_add(lane as u32);
    }
    rounds(&mut words, stream.key, ROUNDS);
    let mut numbers = [0; RUN];
    for word in 0..4 {
        for lane in 0..LANES {
            numbers[2 * word * LANES + lane] = words[word][lane] as u16;
            numbers[(2 * word + 1) * LANES + lane] = (words[word][lane] >> 16) as u16;
        }
    }
    numbers
}

#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "lanes of four words go side by side")]
fn rounds(words: &mut [[u32; LANES]; 4], mut key: [u32; 2], count: usize) {
    for _ in 0..count {
        for lane in 0..LANES {
            let first = u64::from(words[0][lane]) * u64::from(MULTIPLIERS[0]);
            let second = u64::from(words[2][lane]) * u64::from(MULTIPLIERS[1]);
            words[0][lane] = (second >> 32) as u32 ^ words[1][lane] ^ key[0];
            words[1][lane] = second as u32;
            words[2][lane] = (first >> 32) as u32 ^ words[3][lane] ^ key[1];
            words[3][lane] = first as u32;
        }
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
}

vectorized! {
    /// Fills `factors` with `scale` where the stream's number is at least `threshold`, else with zero: of the numbers
    /// first, first + step and so on.
    pub(super) fn fill(stream: Stream, threshold: u16, scale: f32, first: usize, step: usize, factors: &'a mut [f32]) {
        if step == 1 && first == 0 {
            for (run, factors) in (0..).zip(factors.chunks_mut(RUN)) {
                for (factor, number) in factors.iter_mut().zip(run_of(stream, run)) {
                    *factor = if number < threshold { 0.0 } else { scale };
                }
            }
            return;
        }
        let (mut held, mut numbers) = (u32::MAX, [0; RUN]);
        for (index, factor) in factors.iter_mut().enumerate() {
            let at = first + index * step;
            let run = (at / RUN) as u32;
            if run != held {
                (held, numbers) = (run, run_of(stream, run));
            }
            *factor = if numbers[at % RUN] < threshold { 0.0 } else { scale };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the authors' library Random123 1.14, `tests/kat_vectors`.
    #[test]
    fn the_function_is_that_of_its_authors() {
        let first = |key, counter: [u32; 4], count| {
            let mut words = counter.map(|word| [word; LANES]);
            rounds(&mut words, key, count);
            words.map(|lanes| lanes[0])
        };
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        for (key, counter, count, expected) in [
            ([0; 2], [0; 4], 7, [0x5f6f_b709, 0x0d89_3f64, 0x4f12_1f81, 0x4f73_0a48]),
            ([0; 2], [0; 4], 10, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([0xa409_3822, 0x299f_31d0], pi, 10, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ] {
            assert_eq!(first(key, counter, count), expected);
        }
    }

    #[test]
    fn any_part_of_a_stream_is_that_of_the_whole() {
        let stream = Stream { key: [3, 5], counter: [7, 11, 13] };
        let part = |first, step, length| {
            let mut factors = vec![f32::NAN; length];
            fill(stream, 1 << 15, 2.0, first, step, &mut factors);
            factors
        };
        let whole = part(0, 1, 300);
        for (first, step, length) in [(1, 1, 299), (2, 3, 99), (70, 4, 57)] {
            let expected: Vec<f32> = whole.iter().skip(first).step_by(step).take(length).copied().collect();
            assert_eq!(part(first, step, length), expected);
        }
    }
}
