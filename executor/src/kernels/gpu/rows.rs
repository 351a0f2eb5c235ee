//! What kernels share in which a group of threads has a row, which stays in a cache meanwhile.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Threads that have a row together: chosen, not tuned.
pub(super) const THREADS: usize = 128;

/// The most groups of threads along one dimension, on every GPU.
const GROUPS_MAX: usize = 32_768;

/// Returns as many groups of threads as there are rows along the last dimension, or some more.
pub(super) fn groups(tensor: &CubeTensor) -> CubeCount {
    let shape = tensor.meta.shape();
    let rows: usize = shape.iter().take(shape.num_dims() - 1).product();
    let along = rows.clamp(1, GROUPS_MAX);
    CubeCount::Static(along as u32, rows.div_ceil(along) as u32, 1)
}

/// Returns the largest of what the threads of a group have, or its sum, to all of them.
#[cube]
pub(super) fn combined(
    shared: &mut Shared<[f32]>,
    own: f32,
    #[comptime] threads: usize,
    #[comptime] largest: bool,
) -> f32 {
    let place = UNIT_POS as usize;
    shared[place] = own;
    sync_cube();
    let mut half = threads.runtime() / 2;
    while half > 0 {
        if place < half {
            let other = shared[place + half];
            if largest {
                shared[place] = max(shared[place], other);
            } else {
                shared[place] += other;
            }
        }
        sync_cube();
        half /= 2;
    }
    let result = shared[0];
    // The next one writes over it.
    sync_cube();
    result
}
