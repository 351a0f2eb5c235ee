//! Matrix products on a GPU: tiles, waves, depth and alignment.
//!
//! A product is cut into tiles, one thread block each; the multiprocessors take them in waves, and a wave that is not
//! full costs as much as one that is. Each tile pays a prologue and epilogue, expressed in units of depth, which is
//! what makes shallow products slow. A product with few tiles may cut its depth instead (split-k).
//!
//! # Source
//!
//! NVIDIA, "Matrix Multiplication Background User's Guide" (DU-09799), sections 2.2 and 2.3: tile sizes, wave and tile
//! quantisation, alignment. The depth offset and the small-tile exponent are fitted; see docs/physics.md.

use std::sync::LazyLock;
use trainyard_hardware_profiles::{Gpu, Rate};
use trainyard_plan::operators::Gemm;
use trainyard_units::{Bytes, Flops, Seconds};

/// Tiles that the vendor's library chooses from; those of 32 are for the few channels of the first maps of a network
/// (NVIDIA/cutlass, media/docs/functionality.md and the tile sizes of its profiler).
static TILES: LazyLock<[Tile; 12]> = LazyLock::new(|| {
    [
        (256, 128),
        (128, 256),
        (128, 128),
        (256, 64),
        (64, 256),
        (128, 64),
        (64, 128),
        (64, 64),
        (256, 32),
        (32, 256),
        (128, 32),
        (32, 128),
    ]
    .map(Tile::new)
});

/// The part of a product that one thread block computes.
struct Tile {
    height: u64,
    width: u64,
    /// Efficiency relative to a full-size tile.
    efficiency: f64,
}

impl Tile {
    fn new((height, width): (u64, u64)) -> Self {
        Self { height, width, efficiency: ((height * width) as f64 / FULL_TILE).powf(TILE_EXPONENT) }
    }
}

/// Work of a full-size tile, against which smaller ones lose efficiency.
const FULL_TILE: f64 = 256.0 * 128.0;

/// The exponent of the tile's size with which efficiency falls; fitted, small tiles lose little.
const TILE_EXPONENT: f64 = 0.07;

/// Half-precision tensor cores read operands in rows of sixteen bytes: eight elements.
pub(super) const ALIGNMENT: u64 = 8;

/// Share of the rate that is left when a half-precision product is not aligned. Attention with heads of 108 values ran
/// nine to thirteen times slower than aligned in the BigScience A100 measurements (docs/physics.md).
const MISALIGNED: f64 = 0.1;

/// A side below that of the smallest tile, such as the rank of an adapter, fills no tile however it is aligned: the product
/// waits for its other operands.
const THINNEST: u64 = 32;

/// Frameworks pad the vocabulary, the one dimension that is odd in practice, to this multiple.
const PADDED: u64 = 128;

/// A dimension this large is a vocabulary or a token count and is padded rather than left misaligned.
const PADDING_FROM: u64 = 4096;

/// The time of one product of matrices with elements of `element` bytes, alone on a GPU.
pub fn product_time(product: Gemm, gpu: &Gpu, rate: Rate, element: u64) -> Seconds {
    duration(product, gpu, rate, element, 1.0)
}

/// The time of one product with elements of `element` bytes on an otherwise idle GPU.
pub(crate) fn duration(gemm: Gemm, gpu: &Gpu, rate: Rate, element: u64, stack_factor: f64) -> Seconds {
    let gemm = padded(gemm);
    let arithmetic = arithmetic(gemm, gpu, rate, stack_factor * alignment(gemm, rate));
    arithmetic.max(traffic(gemm.elements(), gpu, element)) + gpu.achieved.kernel_floor.value
}

/// The time of the arithmetic of an aligned product, in the tiles that suit it best.
pub(super) fn arithmetic(gemm: Gemm, gpu: &Gpu, rate: Rate, stack_factor: f64) -> Seconds {
    let fastest = TILES.iter().map(|tile| tiled(gemm, tile, gpu, rate).0).fold(f64::INFINITY, f64::min);
    Seconds(fastest / stack_factor)
}

/// The time in which so many elements of `element` bytes go from and to memory.
pub(super) fn traffic(elements: u64, gpu: &Gpu, element: u64) -> Seconds {
    Seconds(Bytes(elements * element).as_f64() / (gpu.memory_bandwidth.value.0 * gpu.achieved.memory.value))
}

fn tiled(gemm: Gemm, tile: &Tile, gpu: &Gpu, rate: Rate) -> Seconds {
    let Tile { height, width, efficiency } = *tile;
    let multiprocessors = u64::from(gpu.multiprocessors.value);
    let tiles = gemm.m.div_ceil(height) * gemm.n.div_ceil(width) * gemm.batch;
    let splits = (multiprocessors / tiles).clamp(1, gemm.k.div_ceil(PADDED));
    let waves = (tiles * splits).div_ceil(multiprocessors);
    let depth = gemm.k as f64 / splits as f64 + gpu.gemm_depth(rate);
    let work = Flops(waves as f64 * 2.0 * (height * width) as f64 * depth);
    let per_multiprocessor = gpu.peak(rate) * (gpu.gemm_fraction(rate) * efficiency / multiprocessors as f64);
    work / per_multiprocessor
}

fn padded(gemm: Gemm) -> Gemm {
    let pad = |size: u64| if size >= PADDING_FROM { size.next_multiple_of(PADDED) } else { size };
    Gemm { batch: gemm.batch, m: pad(gemm.m), n: pad(gemm.n), k: pad(gemm.k) }
}

fn alignment(gemm: Gemm, rate: Rate) -> f64 {
    let alignment = if rate == Rate::Fp8 { 2 * ALIGNMENT } else { ALIGNMENT };
    let aligned = |size: &u64| *size < THINNEST || size.is_multiple_of(alignment);
    let aligned = [gemm.n, gemm.k].iter().all(aligned);
    if aligned || rate == Rate::Fp32 { 1.0 } else { MISALIGNED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trainyard_hardware_profiles::catalog;

    fn a100() -> &'static Gpu {
        catalog().gpu("a100-sxm4-40gb").expect("in the catalog")
    }

    fn rate(gemm: Gemm) -> f64 {
        (gemm.flops() / duration(gemm, a100(), Rate::Fp16, 2, 1.0)).0
    }

    #[test]
    fn large_products_reach_what_was_measured() {
        // mamf-finder on an A100 SXM: 271 TFLOP/s at best, 87 % of the peak. Below, but not far below.
        let reached = rate(Gemm { batch: 1, m: 8192, n: 10240, k: 8192 });
        assert!((0.70..0.87).contains(&(reached / 312e12)), "{reached:e}");
    }

    #[test]
    fn adapters_of_any_rank_take_as_long() {
        let time = |rank| duration(Gemm { batch: 1, m: 2048, n: rank, k: 4096 }, a100(), Rate::Fp16, 2, 1.0).0;
        for rank in [4, 12, 20] {
            assert!((time(rank) / time(8) - 1.0).abs() < 0.01, "rank {rank}: {} and {}", time(rank), time(8));
        }
        // Wider sides are as slow as they were measured.
        assert!(time(108) > 3.0 * time(104));
    }

    #[test]
    fn one_tile_more_than_a_wave_costs_a_wave() {
        // 108 multiprocessors, tiles of 256 × 128: 12 × 9 tiles fill a wave exactly (the guide's worked example).
        let full = tiled(Gemm { batch: 1, m: 3072, n: 1152, k: 4096 }, &Tile::new((256, 128)), a100(), Rate::Fp16);
        let over = tiled(Gemm { batch: 1, m: 3072, n: 1153, k: 4096 }, &Tile::new((256, 128)), a100(), Rate::Fp16);
        assert!((over.0 / full.0 - 2.0).abs() < 1e-9);
    }

    #[test]
    fn few_columns_have_tiles_of_their_own() {
        let time = |n| arithmetic(Gemm { batch: 1, m: 1 << 22, n, k: 864 }, a100(), Rate::Fp16, 1.0).0;
        assert!(time(32) < 0.6 * time(64), "{} {}", time(32), time(64));
    }

    proptest! {
        #[test]
        fn no_product_beats_the_peak_or_the_memory(
            m in 1u64..5000, n in 1u64..5000, k in 1u64..5000, batch in 1u64..32,
        ) {
            let gemm = Gemm { batch, m, n, k };
            let time = duration(gemm, a100(), Rate::Fp16, 2, 1.0);
            prop_assert!(time.0 >= (gemm.flops() / a100().peak(Rate::Fp16)).0);
            prop_assert!(time.0 >= gemm.elements() as f64 * 2.0 / a100().memory_bandwidth.value.0);
        }
    }
}
