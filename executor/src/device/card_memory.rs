//! Memory of a graphics card, which Vulkan's users are not told: by its place on the PCI bus, from the system and from
//! NVIDIA's driver.
#![cfg_attr(not(feature = "wgpu"), allow(dead_code, reason = "only Vulkan has to ask"))]

use std::path::Path;
use std::process::Command;
use trainyard_units::Bytes;

/// Memory of a card's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CardMemory {
    pub(super) total: Bytes,
    /// What nobody has taken.
    pub(super) free: Bytes,
}

impl CardMemory {
    /// Returns the memory of the card at a PCI address such as `0000:01:00.0`; `None` where nobody tells, as of cards
    /// that compute in main memory.
    pub(super) fn of(address: &str) -> Option<Self> {
        Self::of_amd(&Path::new("/sys/bus/pci/devices").join(address)).or_else(|| Self::of_nvidia(address))
    }

    /// Reads what the driver `amdgpu` writes into a card's folder of sysfs (Linux kernel documentation, "drm/amdgpu
    /// driver: Misc AMDGPU driver information", memory usage).
    fn of_amd(folder: &Path) -> Option<Self> {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        let total = read("mem_info_vram_total")?;
        Some(Self { total: Bytes(total), free: Bytes(total.saturating_sub(read("mem_info_vram_used")?)) })
    }

    fn of_nvidia(address: &str) -> Option<Self> {
        let query = ["--query-gpu=memory.total,memory.free", "--format=csv,noheader,nounits", "--id", address];
        let told = Command::new("nvidia-smi").args(query).output().ok().filter(|told| told.status.success())?;
        Self::told_by_nvidia(&String::from_utf8_lossy(&told.stdout))
    }

    /// Reads a line such as `81559, 81035`, in MiB.
    fn told_by_nvidia(line: &str) -> Option<Self> {
        let (total, free) = line.trim().split_once(',')?;
        let mib = |number: &str| number.trim().parse::<u64>().ok()?.checked_mul(1 << 20).map(Bytes);
        Some(Self { total: mib(total)?, free: mib(free)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_tells_of_a_card_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(CardMemory::of_amd(folder.path()), None);
        let write = |name: &str, text| std::fs::write(folder.path().join(name), text).expect("it can be written");
        write("mem_info_vram_total", "8573157376\n");
        assert_eq!(CardMemory::of_amd(folder.path()), None);
        write("mem_info_vram_used", "573157376\n");
        let told = CardMemory { total: Bytes(8_573_157_376), free: Bytes(8_000_000_000) };
        assert_eq!(CardMemory::of_amd(folder.path()), Some(told));
    }

    #[test]
    fn what_nvidias_program_prints_is_read() {
        let told = CardMemory { total: Bytes(16_384 << 20), free: Bytes(1024 << 20) };
        assert_eq!(CardMemory::told_by_nvidia("16384, 1024\n"), Some(told));
        for unknown in ["", "No devices were found", "[N/A], [N/A]", "16384"] {
            assert_eq!(CardMemory::told_by_nvidia(unknown), None);
        }
    }
}
