//! Why samples cannot be brought in as a plan says.

use trainyard_hardware_profiles::catalog;
use trainyard_plan::{Cache, SampleFormat, StorageMode};
use trainyard_units::{Bytes, human_bytes};

/// Why samples cannot be brought in as a plan says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// Loading on a measured machine is inside its measurements.
    #[error(
        "`data.bytes_per_sample` is for machines that a catalog or a cluster file describes, not for the measured machine `{machine}`"
    )]
    Measured {
        /// The machine.
        machine: String,
    },
    /// Nobody says what decodes.
    #[error("`data.bytes_per_sample` is set, but `{machine}` has no processors that are known")]
    NoProcessors {
        /// The machine.
        machine: String,
    },
    /// The machine does not reach that storage.
    #[error("`input.storage` is {storage}, but `{machine}` is not a rented instance that reaches it")]
    NoRemote {
        /// Where samples were to be read from.
        storage: StorageMode,
        /// The machine.
        machine: String,
    },
    /// The machine has no local disk.
    #[error("`{field}` is nvme, but `{machine}` has no local disk")]
    NoDisk {
        /// `input.storage` or `input.cache`.
        field: &'static str,
        /// The machine.
        machine: String,
    },
    /// The GPU has no JPEG engine.
    #[error("`input.decode` is gpu, but `{gpu}` has no JPEG engine that is known")]
    NoEngine {
        /// The GPU.
        gpu: String,
    },
    /// GPUs decode JPEG only.
    #[error("`input.decode` is gpu, but `data.format` is {format}, which GPUs do not decode")]
    NotImages {
        /// The format.
        format: SampleFormat,
    },
    /// Samples are there already.
    #[error("`input.cache` is {cache}, but `input.storage` {storage} already keeps samples there")]
    Redundant {
        /// Where they were to be kept.
        cache: Cache,
        /// Where they are.
        storage: StorageMode,
    },
    /// Something does not hold what it is to hold.
    #[error("{what} takes {}, but {place} of `{machine}` has {}", human_bytes(*needed), human_bytes(*available))]
    TooLarge {
        /// The thing to be held.
        what: &'static str,
        /// Where.
        place: &'static str,
        /// The machine.
        machine: String,
        /// Its size.
        needed: Bytes,
        /// Size of the place.
        available: Bytes,
    },
    /// It is not known how large the data set is.
    #[error("`data.samples` or `data.tokens` is missing: {why}")]
    UnknownSize {
        /// The purpose that the size is needed for.
        why: &'static str,
    },
}

impl InputError {
    /// Advice to the user.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Measured { .. } => "leave it out: its steps were measured with their input".into(),
            Self::NoProcessors { .. } => "state `host.vcpus` in the cluster file".into(),
            Self::NoRemote { .. } => "use ebs for disks of its own, or nvme, or memory".into(),
            Self::NoDisk { .. } => "g4dn, g5, g6, p3dn, p4d and p5 instances have local disks".into(),
            Self::NoEngine { .. } => "A100, H100 and H200 have one; otherwise decode on the cpu".into(),
            Self::NotImages { .. } => "decode on the cpu".into(),
            Self::Redundant { .. } => "set `cache` to none".into(),
            Self::TooLarge { place: "the volume", needed, .. } => {
                format!("a `data.volume` of {} holds it", human_bytes(with_room(*needed)))
            }
            Self::TooLarge { place: "the file system", needed, .. } => {
                format!("a `data.fsx_size` of {} holds it", human_bytes(catalog().storage().fsx.size_for(*needed)))
            }
            Self::TooLarge { what: "loading ahead", .. } => "a smaller `prefetch` takes less".into(),
            Self::TooLarge { .. } => "stream it with s3-fastfile or fsx-lustre".into(),
            Self::UnknownSize { .. } => return None,
        })
    }
}

/// A size that is no less when it is written with three digits.
fn with_room(needed: Bytes) -> Bytes {
    Bytes(needed.0 + needed.0 / 64)
}
