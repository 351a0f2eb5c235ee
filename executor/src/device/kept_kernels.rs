//! Compiled kernels, kept between processes.

use cubecl::config::cache::CacheConfig;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};

/// Has kernels that a process compiled, and which of several was fastest, kept in the user's cache folder. On an H100 the
/// kernels of a GPT of 24 layers take 75 seconds to compile. To be called before Burn is asked for a device; where the
/// folder cannot be written, kernels are compiled anew.
///
/// A `cubecl.toml` in the folder where the program runs may name another one (`environment.path`), as CubeCL documents it.
pub(super) fn keep() {
    let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
    config.compilation.cache = true;
    // What CubeCL would take unless told otherwise: the build folder of a Rust project, if the program runs in one.
    if matches!(config.environment.path, CacheConfig::Target) {
        config.environment.path = CacheConfig::Global;
    }
    // Where Burn was asked before, in a test, its own settings stay.
    CubeClRuntimeConfig::try_set(config);
}
