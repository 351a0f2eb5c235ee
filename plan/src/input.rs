//! How samples reach the devices: where they are stored, what decodes them, and how far loading runs ahead.

use crate::name::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

named! {
    /// Where samples are read from (Amazon SageMaker developer guide, "Access training data"; the last four belong to the
    /// machines themselves).
    StorageMode {
        /// Streamed from objects when they are wanted.
        S3FastFile = "s3-fastfile",
        /// Streamed from objects in order, each pass anew.
        S3Pipe = "s3-pipe",
        /// Downloaded before training to the machine's disk or, if it has none, its volume.
        S3File = "s3-file",
        /// On a file system that all machines share.
        FsxLustre = "fsx-lustre",
        /// On a volume of each machine, where they are already.
        Ebs = "ebs",
        /// On a file system of one's own that all machines mount.
        Shared = "shared-storage",
        /// On the local disks of each machine, where they are already.
        Nvme = "nvme",
        /// In main memory of each machine, where they are already.
        Memory = "memory",
    }
}

impl StorageMode {
    /// Returns where samples are read from in a sentence: the names of SageMaker's input modes mean nothing on EC2.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::S3FastFile => "Amazon S3 (streamed)",
            Self::S3Pipe => "Amazon S3 (streamed in order)",
            Self::S3File => "Amazon S3 (copied before the first step)",
            own => own.name(),
        }
    }
}

named! {
    /// What decodes and augments samples.
    DecodePlace {
        /// The machine's processors.
        Cpu = "cpu",
        /// The JPEG engines of its GPUs.
        Gpu = "gpu",
    }
}

named! {
    /// Where samples are kept after the first pass over them.
    Cache {
        /// Nowhere: each pass reads them from storage.
        None = "none",
        /// In main memory of each machine.
        Memory = "memory",
        /// On its local disks.
        Nvme = "nvme",
    }
}

named! {
    /// What has to be decoded.
    SampleFormat {
        /// Token identifiers, a row after another.
        Tokens = "tokens",
        /// Arrays without compression.
        Raw = "raw",
        /// Arrays in archives.
        Npz = "npz",
        /// JPEG images.
        Jpeg = "jpeg",
    }
}

named! {
    /// What a step could be shorter by, if only that were faster.
    Bottleneck {
        /// Arithmetic of the devices.
        Compute = "compute",
        /// The host thread that launches kernels.
        Launch = "launch",
        /// Communication between devices.
        Network = "network",
        /// Copies between devices and the memory or disks of their machine, and what its processors update there.
        Offload = "offload",
        /// Memory bandwidth of the devices.
        Memory = "memory",
        /// Reading samples.
        Storage = "storage",
        /// Decoding them.
        Decode = "decode",
        /// Copying them to the devices.
        Copy = "copy",
    }
}

/// The most workers of a replica, and the most batches ahead, that are taken for meant.
pub const INPUT_COUNT_MAX: u32 = 1 << 12;

/// How samples reach the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputSpec {
    /// Where samples are read from.
    pub storage: StorageMode,
    /// What decodes them.
    pub decode: DecodePlace,
    /// Processes that read and decode for one replica.
    pub workers: u32,
    /// Batches that each stage of loading may be ahead of the next; 0: a batch is loaded when the step before is over.
    pub prefetch: u32,
    /// Where they are kept after the first pass.
    pub cache: Cache,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ClusterSpec, PlanSpec};
    use crate::valid::Plan;
    use trainyard_units::Invalid;

    const PLAIN: InputSpec = InputSpec {
        storage: StorageMode::S3FastFile,
        decode: DecodePlace::Cpu,
        workers: 4,
        prefetch: 2,
        cache: Cache::None,
    };

    fn plan(input: InputSpec) -> Result<Plan, Invalid> {
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        let spec = PlanSpec::plain(model.spec(), ClusterSpec::of("p3.2xlarge", 1), model.graph().len());
        Plan::try_from(PlanSpec { input: Some(input), ..spec })
    }

    #[test]
    fn an_input_survives_the_plan_and_its_counts_are_checked() {
        assert_eq!(plan(PLAIN).map(|plan| plan.spec().input), Ok(Some(PLAIN)));
        assert!(plan(InputSpec { prefetch: 0, ..PLAIN }).is_ok());
        for wrong in [InputSpec { workers: 0, ..PLAIN }, InputSpec { prefetch: INPUT_COUNT_MAX + 1, ..PLAIN }] {
            let refused = plan(wrong).expect_err("out of range").to_string();
            assert!(refused.ends_with("but it must be from 1 to 4096"), "{refused}");
            let other = plan(PLAIN).expect("a plan");
            assert!(other.with_input(wrong).is_err());
        }
    }
}
