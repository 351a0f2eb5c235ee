//! The connections between the GPUs of a machine.

use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trainyard_units::{BytesPerSecond, Invalid};

/// A kind of interconnect, with the name that tables of measurements use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Catalog id, `nvlink2-hybrid-cube-mesh`.
    pub name: String,
    /// The interconnect itself.
    pub interconnect: Interconnect,
}

/// The connection between the GPUs of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Interconnect {
    /// Through the host's PCIe tree.
    Pcie {
        /// Achieved rate of a ring over PCIe, one direction, per GPU.
        bandwidth: Sourced<BytesPerSecond>,
    },
    /// NVLinks between some pairs; the other pairs go through PCIe.
    NvlinkMesh {
        /// Rate of one link, one direction.
        link: Sourced<BytesPerSecond>,
        /// Part of the link rate that a ring achieves.
        fraction: Sourced<f64>,
        /// Pairs as (GPU, GPU, number of links).
        pairs: Sourced<Vec<(u32, u32, u32)>>,
        /// Achieved rate over PCIe for pairs without a link.
        pcie_bandwidth: Sourced<BytesPerSecond>,
    },
    /// A switch that connects every GPU with every other at full rate.
    Nvswitch {
        /// Rate of a GPU into the switch, one direction.
        port: Sourced<BytesPerSecond>,
        /// Part of that rate that a ring achieves.
        fraction: Sourced<f64>,
    },
}

impl Interconnect {
    /// Returns `true` if NVLinks alone connect these GPUs, perhaps through others among them.
    pub fn joins(&self, gpus: &[u32]) -> bool {
        match self {
            Self::Pcie { .. } => gpus.len() < 2,
            Self::Nvswitch { .. } => true,
            Self::NvlinkMesh { pairs, .. } => unreached(&pairs.value, gpus).is_empty(),
        }
    }

    /// Returns `true` if both are links of the same kind and rate between the same GPUs, whoever says so. PCIe is the host's.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pcie { .. }, Self::Pcie { .. }) => true,
            (Self::NvlinkMesh { link, pairs, .. }, Self::NvlinkMesh { link: other, pairs: others, .. }) => {
                link.value == other.value && pairs.value == others.value
            }
            (Self::Nvswitch { port, .. }, Self::Nvswitch { port: other, .. }) => port.value == other.value,
            _ => false,
        }
    }
}

/// The largest number of NVLinks between two GPUs.
pub(crate) const LINKS_MAX: u32 = 64;

/// The largest number of GPUs in a machine.
pub(crate) const GPUS_MAX: u32 = 256;

/// Checks that the NVLinks of a field connect GPUs of a machine with `gpus` of them, each pair in one entry.
///
/// # Errors
///
/// Fails at the first wrong entry.
pub(crate) fn check_pairs(field: &str, pairs: &[(u32, u32, u32)], gpus: u32) -> Result<(), Invalid> {
    let mut seen = BTreeSet::new();
    for (index, (a, b, links)) in pairs.iter().copied().enumerate() {
        let allowed = if a.max(b) >= gpus {
            format!("between two of GPUs 0 to {}", gpus - 1)
        } else if a == b {
            "between two different GPUs".into()
        } else if !(1..=LINKS_MAX).contains(&links) {
            format!("from 1 to {LINKS_MAX} links")
        } else if !seen.insert((a.min(b), a.max(b))) {
            format!("the only entry for GPUs {} and {}", a.min(b), a.max(b))
        } else {
            continue;
        };
        let hint = "pairs are [GPU, GPU, links]: GPUs of a machine are counted from 0, and each pair has one entry";
        let value = format!("[{a}, {b}, {links}]");
        return Err(Invalid::value(format!("{field}[{index}]"), value, allowed).with_hint(hint));
    }
    Ok(())
}

/// Returns those of `gpus` that links do not connect to the first one.
pub(crate) fn unreached(pairs: &[(u32, u32, u32)], gpus: &[u32]) -> Vec<u32> {
    let Some((first, others)) = gpus.split_first() else { return Vec::new() };
    let (mut unseen, mut reached) = (others.to_vec(), vec![*first]);
    while let Some(gpu) = reached.pop() {
        let linked = |other: &mut u32| {
            let ends = [(gpu, *other), (*other, gpu)];
            pairs.iter().any(|(a, b, links)| *links > 0 && ends.contains(&(*a, *b)))
        };
        reached.extend(unseen.extract_if(.., linked));
    }
    unseen
}

#[cfg(test)]
mod tests {
    use crate::catalog::catalog;

    #[test]
    fn bridges_join_neighbours_only() {
        let bridges = &catalog().link("nvlink-bridge").expect("in the catalog").interconnect;
        assert!(
            bridges.joins(&[2, 3]) && bridges.joins(&[1]) && !bridges.joins(&[1, 2]) && !bridges.joins(&[0, 1, 2, 3])
        );
    }

    #[test]
    fn the_cube_mesh_joins_what_has_a_way_inside_the_group() {
        let mesh = &catalog().link("nvlink2-hybrid-cube-mesh").expect("in the catalog").interconnect;
        assert!(mesh.joins(&[0, 1, 2, 3, 4, 5, 6, 7]) && mesh.joins(&[0, 4]) && !mesh.joins(&[0, 5]));
        // 0 and 5 have no link, but both have one to 4.
        assert!(mesh.joins(&[5, 0, 4]));
    }
}
