//! What keeps data sets: object storage, shared file systems, volumes, local disks.

use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, BytesPerSecond, Seconds, Usd};

/// The kinds of storage of a cloud.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// Amazon S3.
    pub s3: ObjectStorage,
    /// Amazon FSx for Lustre.
    pub fsx: FileSystem,
    /// Amazon EBS.
    pub ebs: Volume,
    /// Disks of the machines themselves.
    pub local: LocalDisk,
}

/// Objects under one prefix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectStorage {
    /// Until the first byte of an object.
    pub latency: Sourced<Seconds>,
    /// One connection.
    pub connection: Sourced<BytesPerSecond>,
    /// Requests a second, of all machines together.
    pub requests: Sourced<f64>,
    /// Objects that one request lists.
    pub listed: Sourced<f64>,
    /// Price of 10⁹ bytes for a month.
    pub price: Sourced<Usd>,
}

/// A file system that all machines share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSystem {
    /// Opening a file.
    pub open: Sourced<Seconds>,
    /// The smallest there is.
    pub smallest: Sourced<Bytes>,
    /// Larger ones are multiples of this.
    pub increment: Sourced<Bytes>,
    /// What may be provisioned, ascending.
    pub tiers: Vec<Tier>,
}

/// What may be provisioned of a file system, for each TiB of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// From its disks.
    pub throughput: Sourced<BytesPerSecond>,
    /// From its memory.
    pub network: Sourced<BytesPerSecond>,
    /// That memory.
    pub cache: Sourced<Bytes>,
}

/// A volume that belongs to one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Until the first byte of a file.
    pub latency: Sourced<Seconds>,
    /// What it has without being paid for more.
    pub throughput: Sourced<BytesPerSecond>,
    /// The most that may be provisioned.
    pub most: Sourced<BytesPerSecond>,
    /// Operations a second.
    pub requests: Sourced<f64>,
    /// Price of 10⁹ bytes for a month.
    pub price: Sourced<Usd>,
}

/// A disk inside a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalDisk {
    /// Opening a file.
    pub open: Sourced<Seconds>,
}

/// What a machine type reaches of storage that is not its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteStorage {
    /// Downloading from Amazon S3 with many connections.
    pub s3: Sourced<BytesPerSecond>,
    /// All volumes of Amazon EBS together, sustained.
    pub ebs: Sourced<BytesPerSecond>,
}

const TIB: f64 = (1_u64 << 40) as f64;

impl FileSystem {
    /// The size of the smallest file system that holds so many bytes.
    pub fn size_for(&self, bytes: Bytes) -> Bytes {
        if bytes <= self.smallest.value {
            return self.smallest.value;
        }
        Bytes(bytes.0.div_ceil(self.increment.value.0).saturating_mul(self.increment.value.0))
    }

    /// Whether there are file systems of this size, which may be rounded.
    pub fn is_sold(&self, size: Bytes) -> bool {
        let near = |other: f64| (size.as_f64() / other - 1.0).abs() < 1e-6;
        let steps = (size.as_f64() / self.increment.value.as_f64()).round();
        near(self.smallest.value.as_f64()) || (steps >= 1.0 && near(steps * self.increment.value.as_f64()))
    }

    /// The tier of this throughput for each TiB.
    pub fn tier(&self, throughput: BytesPerSecond) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.throughput.value == throughput)
    }
}

impl Tier {
    /// What a file system of this size gives to all machines that read it, from its disks or, if what is read stays in
    /// its memory, from there.
    pub fn rate(&self, size: Bytes, read: Bytes) -> BytesPerSecond {
        let tebibytes = size.as_f64() / TIB;
        let cached = read.as_f64() <= self.cache.value.as_f64() * tebibytes;
        let each = if cached { self.network.value } else { self.throughput.value };
        each * tebibytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::catalog;

    #[test]
    fn file_systems_come_in_steps() {
        let fsx = &catalog().storage().fsx;
        let tib = |size: f64| Bytes((size * TIB) as u64);
        assert_eq!(fsx.size_for(Bytes(1)), fsx.smallest.value);
        assert_eq!(fsx.size_for(tib(1.3)), fsx.increment.value);
        assert_eq!(fsx.size_for(tib(2.5)).0, 2 * fsx.increment.value.0);
        assert!([1.2, 2.4, 4.8, 24.0].into_iter().all(|size| fsx.is_sold(tib(size))));
        assert!(![0.0, 1.0, 1.3, 3.6, 5.0].into_iter().any(|size| fsx.is_sold(tib(size))));
    }

    #[test]
    fn what_fits_into_the_memory_of_a_file_system_is_read_faster() {
        let tier = catalog().storage().fsx.tier(BytesPerSecond(250e6)).expect("in the catalog");
        let size = Bytes(1 << 41);
        assert_eq!(tier.rate(size, Bytes(1 << 40)), BytesPerSecond(500e6));
        assert_eq!(tier.rate(size, Bytes(1 << 30)), BytesPerSecond(1280e6));
    }
}
