//! How the GPUs of a machine reach each other: what is written, what a machine type has, or the PCIe tree of the host.

use super::valid::{bandwidth, either, neither, stated};
use super::{LinkKind, LinkSpec, MachineSpec};
use crate::catalog::Catalog;
use crate::gpu::Gpu;
use crate::instance::Instance;
use crate::interconnect::{Interconnect, check_pairs, unreached};
use crate::sourced::Sourced;
use trainyard_units::{BytesPerSecond, Invalid};

/// The part of a PCIe link that a ring through the processor achieves: 10 of the 15.75 GB/s of PCIe 3.0 x16 on
/// p3.16xlarge (Apache MXNet wiki).
const PCIE_REACHED: f64 = 10.0 / 15.75;

/// Returns the wiring of a machine with `gpus` of these GPUs: as written, or else that of the machine type.
pub(super) fn interconnect(
    field: &str,
    machine: &MachineSpec,
    (gpu, gpus): (&Gpu, u32),
    like: Option<&Instance>,
    catalog: &Catalog,
) -> Result<Interconnect, Invalid> {
    let host_pcie = machine.host.as_ref().and_then(|host| host.pcie).map(over_pcie);
    match (&machine.link, like) {
        (Some(spec), _) => written(field, (spec, gpus), host_pcie, like, catalog),
        (None, Some(like)) => carried(field, gpus, host_pcie, like),
        (None, None) => match host_pcie {
            Some(bandwidth) => Ok(Interconnect::Pcie { bandwidth }),
            None if gpus == 1 => Ok(Interconnect::Pcie { bandwidth: over_pcie(gpu.host_bandwidth.value) }),
            None => Err(unreachable(field, 1)),
        },
    }
}

/// Returns the wiring of a machine type, with the PCIe tree of another host if there is one.
fn carried(
    field: &str,
    gpus: u32,
    host_pcie: Option<Sourced<BytesPerSecond>>,
    like: &Instance,
) -> Result<Interconnect, Invalid> {
    let mut wiring = like.interconnect.clone();
    match (&mut wiring, host_pcie) {
        (Interconnect::NvlinkMesh { .. }, _) if gpus != like.gpus => {
            let (name, wired) = (&like.name, like.gpus);
            let allowed = format!("{wired}: the NVLinks of `{name}` join GPUs 0 to {}", wired - 1);
            let hint = format!("leave `gpus` out, or write `{field}.link` with the links between your GPUs");
            return Err(Invalid::value(format!("{field}.gpus"), gpus, allowed).with_hint(hint));
        }
        (Interconnect::NvlinkMesh { pcie_bandwidth: bandwidth, .. } | Interconnect::Pcie { bandwidth }, Some(own)) => {
            *bandwidth = own;
        }
        _ => {}
    }
    Ok(wiring)
}

/// Returns the wiring as written; values that are left out are those of a machine type that is wired in the same way.
fn written(
    field: &str,
    (spec, gpus): (&LinkSpec, u32),
    host_pcie: Option<Sourced<BytesPerSecond>>,
    like: Option<&Instance>,
    catalog: &Catalog,
) -> Result<Interconnect, Invalid> {
    let below = |name: &str| format!("{field}.link.{name}");
    let own_kind = like.map(|like| kind(&like.interconnect));
    let wired = either(|| below("kind"), spec.kind, own_kind)?;
    let own = like.filter(|_| own_kind == Some(wired));
    let rate = link_rate(&format!("{field}.link"), spec, wired)?;
    let needed = || neither(below("bandwidth"));
    match (wired, own.map(|own| &own.interconnect)) {
        (LinkKind::Nvswitch, Some(Interconnect::Nvswitch { port, fraction })) => Ok(Interconnect::Nvswitch {
            port: rate.map_or_else(|| port.clone(), stated),
            fraction: spec.reached.map_or_else(|| fraction.clone(), stated),
        }),
        (LinkKind::Nvswitch, _) => Ok(Interconnect::Nvswitch {
            port: stated(rate.ok_or_else(needed)?),
            fraction: reached(spec, catalog, reached_of_switch),
        }),
        (LinkKind::Pcie, own) => {
            let over = |rate| spec.reached.map_or_else(|| over_pcie(rate), |share| stated(rate * share));
            let bandwidth = match (rate, own) {
                (Some(rate), _) => over(rate),
                (None, Some(Interconnect::Pcie { bandwidth })) => bandwidth.clone(),
                (None, _) => return Err(needed()),
            };
            Ok(Interconnect::Pcie { bandwidth })
        }
        (LinkKind::Nvlink, Some(Interconnect::NvlinkMesh { link, fraction, pairs: own_pairs, pcie_bandwidth })) => {
            let pairs = match (spec.links.is_empty(), like) {
                (true, Some(like)) if gpus != like.gpus => return carried(field, gpus, None, like),
                (true, _) => own_pairs.clone(),
                (false, _) => stated(pairs(&below("links"), spec, gpus)?),
            };
            Ok(Interconnect::NvlinkMesh {
                link: rate.map_or_else(|| link.clone(), stated),
                fraction: spec.reached.map_or_else(|| fraction.clone(), stated),
                pairs,
                pcie_bandwidth: host_pcie.unwrap_or_else(|| pcie_bandwidth.clone()),
            })
        }
        (LinkKind::Nvlink, _) => {
            let like_pcie = like.map(|like| over_pcie(like.host.pcie_uplink.value));
            let fraction = reached(spec, catalog, reached_of_mesh);
            let rate = rate.ok_or_else(needed)?;
            mesh(field, (spec, gpus), (rate, fraction), host_pcie.or(like_pcie))
        }
    }
}

/// Builds a mesh of NVLinks, of whose rate a ring achieves a fraction; pairs without one use PCIe, or other GPUs in
/// between.
fn mesh(
    field: &str,
    (spec, gpus): (&LinkSpec, u32),
    (rate, fraction): (BytesPerSecond, Sourced<f64>),
    host_pcie: Option<Sourced<BytesPerSecond>>,
) -> Result<Interconnect, Invalid> {
    let pairs = pairs(&format!("{field}.link.links"), spec, gpus)?;
    let pcie_bandwidth = match host_pcie {
        Some(bandwidth) => bandwidth,
        None => match unreached(&pairs, &(0..gpus).collect::<Vec<_>>()).first() {
            Some(gpu) => return Err(unreachable(field, *gpu)),
            None => Sourced::new(rate * fraction.value, "no PCIe is stated: by way of other GPUs, over one link"),
        },
    };
    Ok(Interconnect::NvlinkMesh { link: stated(rate), fraction, pairs: stated(pairs), pcie_bandwidth })
}

fn unreachable(field: &str, gpu: u32) -> Invalid {
    Invalid::inside(field, format!("no link and no PCIe leads from GPU 0 to GPU {gpu}"))
        .with_hint(format!("add it to `{field}.link.links`, or state `{field}.host.pcie`"))
}

fn kind(interconnect: &Interconnect) -> LinkKind {
    match interconnect {
        Interconnect::Pcie { .. } => LinkKind::Pcie,
        Interconnect::NvlinkMesh { .. } => LinkKind::Nvlink,
        Interconnect::Nvswitch { .. } => LinkKind::Nvswitch,
    }
}

/// Returns the rate of a link, if it is written.
fn link_rate(field: &str, spec: &LinkSpec, kind: LinkKind) -> Result<Option<BytesPerSecond>, Invalid> {
    if let Some(reached) = spec.reached.filter(|reached| !(*reached > 0.0 && *reached <= 1.0)) {
        let hint = "it is the part of `bandwidth` that a ring reaches; left out it is that of the catalog's links";
        return Err(Invalid::value(format!("{field}.reached"), reached, "above 0 and at most 1").with_hint(hint));
    }
    if kind != LinkKind::Nvlink && !spec.links.is_empty() {
        let value = format!("{} pairs", spec.links.len());
        let hint = "write kind = \"nvlink\", or leave `links` out";
        return Err(
            Invalid::value(format!("{field}.links"), value, "left out unless `kind` is \"nvlink\"").with_hint(hint)
        );
    }
    spec.bandwidth.map(|rate| bandwidth(format!("{field}.bandwidth"), rate)).transpose()
}

/// Returns the rate that a ring achieves over PCIe, without a link between the GPUs.
fn over_pcie(rate: BytesPerSecond) -> Sourced<BytesPerSecond> {
    Sourced::new(rate * PCIE_REACHED, "carried over from p3.16xlarge: 10 of 15.75 GB/s (Apache MXNet wiki)")
}

/// Returns the part of a link's rate that a ring achieves: as written, or that of a link of the catalog.
fn reached(spec: &LinkSpec, catalog: &Catalog, of_catalog: fn(&Catalog) -> Sourced<f64>) -> Sourced<f64> {
    spec.reached.map_or_else(|| of_catalog(catalog), stated)
}

fn reached_of_switch(catalog: &Catalog) -> Sourced<f64> {
    match wiring(catalog, "nvswitch2") {
        Interconnect::Nvswitch { fraction, .. } => fraction.clone(),
        other => unreachable!("nvswitch2 is a switch, not {other:?}"),
    }
}

fn reached_of_mesh(catalog: &Catalog) -> Sourced<f64> {
    match wiring(catalog, "nvlink3-mesh") {
        Interconnect::NvlinkMesh { fraction, .. } => fraction.clone(),
        other => unreachable!("nvlink3-mesh is a mesh, not {other:?}"),
    }
}

fn wiring<'a>(catalog: &'a Catalog, link: &str) -> &'a Interconnect {
    &catalog.link(link).expect("the catalog has the link").interconnect
}

/// Returns the NVLinks, after checking that they connect existing GPUs, each pair once.
fn pairs(field: &str, spec: &LinkSpec, gpus: u32) -> Result<Vec<(u32, u32, u32)>, Invalid> {
    if spec.links.is_empty() {
        let hint = "links = [[0, 1, 4], [2, 3, 4]] are four links between GPUs 0 and 1, and four between 2 and 3";
        return Err(Invalid::missing(field, "`kind` is \"nvlink\": write [[GPU, GPU, links], …]").with_hint(hint));
    }
    check_pairs(field, &spec.links, gpus)?;
    Ok(spec.links.clone())
}
