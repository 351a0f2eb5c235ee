//! Storage of data sets: object storage, shared file systems, volumes, local disks.

use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, BytesPerSecond, Seconds, Usd};

/// The kinds of storage of a cloud.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// Rate at which all machines of a training together write what they share, such as checkpoints.
    pub checkpoints: Sourced<BytesPerSecond>,
    /// The part of it for each machine, where all of these together are more: who trains on hundreds has storage for them.
    pub checkpoints_of_each: Sourced<BytesPerSecond>,
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
    /// Latency to the first byte of an object.
    pub latency: Sourced<Seconds>,
    /// Rate of one connection.
    pub connection: Sourced<BytesPerSecond>,
    /// Requests per second, of all machines together.
    pub requests: Sourced<f64>,
    /// Number of objects that one request lists.
    pub listed: Sourced<f64>,
    /// Bytes of an object that one request reads.
    pub part: Sourced<Bytes>,
    /// Price of a thousand requests that read.
    pub thousand_reads: Sourced<Usd>,
    /// Price of 10⁹ bytes for a month.
    pub price: Sourced<Usd>,
}

/// A file system that all machines share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSystem {
    /// Time to open a file.
    pub open: Sourced<Seconds>,
    /// Size of the smallest file system.
    pub smallest: Sourced<Bytes>,
    /// Step between sizes: larger file systems are multiples of it.
    pub increment: Sourced<Bytes>,
    /// The tiers that may be provisioned, ascending.
    pub tiers: Vec<Tier>,
}

/// A throughput tier of a file system; all values are per TiB of its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Rate from its disks.
    pub throughput: Sourced<BytesPerSecond>,
    /// Rate from its in-memory cache.
    pub network: Sourced<BytesPerSecond>,
    /// Size of that cache.
    pub cache: Sourced<Bytes>,
}

/// A volume that belongs to one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Latency to the first byte of a file.
    pub latency: Sourced<Seconds>,
    /// Rate included in the price.
    pub throughput: Sourced<BytesPerSecond>,
    /// The highest rate that may be provisioned.
    pub most: Sourced<BytesPerSecond>,
    /// Operations per second.
    pub requests: Sourced<f64>,
    /// Price of 10⁹ bytes for a month.
    pub price: Sourced<Usd>,
}

/// A disk inside a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalDisk {
    /// Time to open a file.
    pub open: Sourced<Seconds>,
}

/// A file system of one's own that all machines mount: NFS, Lustre, GPFS, WEKA.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedStorage {
    /// Rate at which all machines together read.
    pub read: BytesPerSecond,
    /// Rate at which they write.
    pub write: BytesPerSecond,
    /// Rate of one machine, in either direction.
    pub machine: BytesPerSecond,
    /// Time to open a file.
    pub open: Seconds,
}

/// Rates at which a machine type reaches storage that is not its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteStorage {
    /// Rate of downloads from Amazon S3 with many connections.
    pub s3: Sourced<BytesPerSecond>,
    /// Sustained rate of all volumes of Amazon EBS together.
    pub ebs: Sourced<BytesPerSecond>,
}

const TIB: f64 = (1_u64 << 40) as f64;

impl FileSystem {
    /// Returns the size of the smallest file system that holds `bytes` bytes.
    pub fn size_for(&self, bytes: Bytes) -> Bytes {
        if bytes <= self.smallest.value {
            return self.smallest.value;
        }
        Bytes(bytes.0.div_ceil(self.increment.value.0).saturating_mul(self.increment.value.0))
    }

    /// Returns `true` if file systems of this size, which may be rounded, are sold.
    pub fn is_sold(&self, size: Bytes) -> bool {
        let near = |other: f64| (size.as_f64() / other - 1.0).abs() < 1e-6;
        let steps = (size.as_f64() / self.increment.value.as_f64()).round();
        near(self.smallest.value.as_f64()) || (steps >= 1.0 && near(steps * self.increment.value.as_f64()))
    }

    /// Returns the tier with this throughput per TiB.
    pub fn tier(&self, throughput: BytesPerSecond) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.throughput.value == throughput)
    }
}

impl Tier {
    /// Returns the total rate of a file system of this size for all machines that read `read` bytes from it: that of
    /// its disks or, if these bytes fit in its cache, that of the cache.
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
