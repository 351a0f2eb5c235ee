//! Storage that is rented to keep a data set near the machines that read it.

use super::{DataSet, bytes};
use crate::machine::Machine;
use trainyard_hardware_profiles::{Host, catalog};
use trainyard_plan::StorageMode;
use trainyard_units::Bytes;

/// Storage that is rented to keep a data set, besides the objects that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// Nothing: samples are streamed from objects, or lie in what machines have.
    Nothing,
    /// A volume of each machine that has no disk for them: bytes of all together, where they are known.
    Volumes(Option<Bytes>),
    /// A file system that all machines share, of so many bytes.
    FileSystem(Bytes),
}

/// Where copies of a data set lie that is read from `storage` on `machine`, and how large they are.
pub fn copies(machine: &Machine, data: &DataSet, storage: StorageMode) -> Copies {
    let pools = &machine.cluster.pools;
    let on_disk = |host: &Option<Host>| host.as_ref().is_some_and(|host| data.downloads_to_disk(host));
    let volumes: u32 = match storage {
        StorageMode::S3FastFile
        | StorageMode::S3Pipe
        | StorageMode::Shared
        | StorageMode::Nvme
        | StorageMode::Memory => 0,
        StorageMode::FsxLustre => return Copies::FileSystem(data.file_system_size()),
        StorageMode::Ebs => machine.cluster.machines(),
        StorageMode::S3File => pools.iter().filter(|pool| !on_disk(&pool.host)).map(|pool| pool.instances).sum(),
    };
    if volumes == 0 {
        return Copies::Nothing;
    }
    Copies::Volumes(data.volume_size().map(|size| bytes(size.as_f64() * f64::from(volumes))))
}

impl DataSet {
    /// A volume that nobody asked for is there only where there is no disk.
    pub(super) fn downloads_to_disk(&self, host: &Host) -> bool {
        host.disk.0 > 0 && self.volume.is_none()
    }

    /// The volume of each machine.
    fn volume_size(&self) -> Option<Bytes> {
        self.volume.or_else(|| self.bytes())
    }

    /// The file system that is asked for, or the least that holds the data set.
    pub fn file_system_size(&self) -> Bytes {
        let fsx = &catalog().storage().fsx;
        self.fsx_size.unwrap_or_else(|| fsx.size_for(self.bytes().unwrap_or(fsx.smallest.value)))
    }
}
