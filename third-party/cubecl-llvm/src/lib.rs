//! Stands in for the LLVM backend of CubeCL: the names that `cubecl-cuda` uses, and a compiler that refuses.
//!
//! Kernels are made through CUDA C++ instead (feature `cuda-cpp` of `cubecl`), so none of this runs. The README beside
//! it has the reason.

use core::convert::Infallible;
use core::ffi::c_char;
use cubecl_core::ir::nvidia::SmArch;
use cubecl_core::prelude::KernelDefinition;
use cubecl_environment::backtrace::BackTrace;
use cubecl_runtime::compiler::CompilationError;
use cubecl_runtime::kernel::BufferIOAttr;
use nvptx::ptx_version::PtxVersion;

/// What is specific to NVIDIA's devices.
pub mod nvptx {
    /// Versions of PTX.
    pub mod ptx_version {
        /// The version of PTX to write. There is none, because none is written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct PtxVersion(core::convert::Infallible);

        impl PtxVersion {
            /// No version, whatever the driver reads.
            pub fn for_driver(_: i32) -> Option<Self> {
                None
            }
        }

        impl core::fmt::Display for PtxVersion {
            fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.0 {}
            }
        }
    }
}

/// What all targets share.
pub mod shared {
    /// What a target can do.
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// A target.
        #[derive(Clone, Copy, Debug)]
        pub enum GpuTarget {
            /// NVIDIA's devices.
            Nvptx,
        }

        /// Takes nothing away: it is called where this backend is chosen, and its compiler refuses.
        pub fn restrict_features(_: &mut DeviceProperties, _: GpuTarget) {}
    }
}

/// A target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LlvmTarget {
    /// NVIDIA's devices.
    #[default]
    Nvptx,
}

/// The compiler, which refuses.
#[derive(Clone, Debug, Default)]
pub struct PlironCompiler {
    /// What it would compile for.
    pub target: LlvmTarget,
}

/// What a kernel would be compiled with.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// Architecture of another maker's device.
    pub arch: Option<Infallible>,
    /// Architecture of the device.
    pub sm_arch: Option<SmArch>,
    /// Version of PTX.
    pub ptx_version: Option<PtxVersion>,
    /// Whether scalars travel with the launch.
    pub grid_constants: bool,
}

/// A compiled kernel. There is none.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// Its code.
    pub ptx: Vec<c_char>,
    /// Where it starts.
    pub entrypoint: String,
    /// How it was written down on the way.
    pub ir: String,
    /// Bytes of shared memory that it takes.
    pub shared_memory_size: usize,
    /// What it does with each buffer.
    pub io: Vec<BufferIOAttr>,
    /// Why there is none.
    pub never: Infallible,
}

/// What the compiler gives.
#[derive(Clone, Debug)]
pub enum PlironArtifact {
    /// A kernel for NVIDIA's devices.
    NvptxCode(NvptxModule),
}

impl PlironCompiler {
    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn compile(&mut self, _: KernelDefinition, _: &PlironOptions) -> Result<PlironArtifact, CompilationError> {
        Err(CompilationError::Generic {
            reason: "this build has no LLVM: build with the feature `cuda-cpp` of cubecl, which uses NVRTC".into(),
            backtrace: BackTrace::capture(),
        })
    }

    /// A name for kernels in logs.
    pub fn lang_tag(&self) -> &'static str {
        "llvm"
    }
}
