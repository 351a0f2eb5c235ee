//! Constants in a file of their own: entries of the catalog that take the place of those that came with the program.

mod parameter;
mod write;

pub use parameter::{GPU_PARAMETERS, Parameter, STACK_PARAMETERS};

use crate::catalog::{Catalog, catalog};
use crate::gpu::Gpu;
use crate::interconnect::{GPUS_MAX, Interconnect, Link, check_pairs};
use crate::network::MeasuredFabric;
use crate::sourced::{Fitted, Sourced};
use crate::stack::Stack;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use trainyard_units::{FlopsPerSecond, Invalid, similar};

/// The schema of constants files that this version reads and writes.
pub(crate) const CONSTANTS_SCHEMA: &str = "trainyard.constants/1";

/// The smallest and largest rate accepted, in bytes or operations per second.
const RATES: (f64, f64) = (1.0, 1e18);

/// The largest memory size accepted, an exbibyte: more than any device will have.
const BYTES_MAX: f64 = (1_u64 << 60) as f64;

/// The content of a constants file as it is written: whole entries, in the form of the catalog's own files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstantsFile {
    /// `trainyard.constants/1`.
    pub schema: String,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub gpus: Vec<Gpu>,
    /// Kinds of interconnects.
    #[serde(default)]
    pub links: Vec<Link>,
    /// Software stacks.
    #[serde(default)]
    pub stacks: Vec<Stack>,
    /// Links and networks of machine types, and of the machines of cluster files.
    #[serde(default)]
    pub fabrics: Vec<MeasuredFabric>,
}

/// Valid constants: entries that replace those of the same name in a catalog, or are added to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constants {
    description: Option<String>,
    gpus: Vec<Gpu>,
    links: Vec<Link>,
    stacks: Vec<Stack>,
    fabrics: Vec<MeasuredFabric>,
}

impl TryFrom<ConstantsFile> for Constants {
    type Error = Invalid;

    fn try_from(file: ConstantsFile) -> Result<Self, Invalid> {
        if file.schema != CONSTANTS_SCHEMA {
            let rule = format!("this version reads `{CONSTANTS_SCHEMA}`");
            return Err(Invalid::breaks("schema", format!("`{}`", file.schema), rule)
                .with_hint("`trainyard calibrate --from MEASUREMENTS.csv --out FILE` writes one"));
        }
        let ConstantsFile { description, gpus, links, stacks, fabrics, .. } = file;
        if gpus.is_empty() && links.is_empty() && stacks.is_empty() && fabrics.is_empty() {
            let sentence = "there is no `gpus`, `links`, `stacks` or `fabrics`: the file replaces nothing";
            let hint = "write [[stacks]] with a whole entry, as `trainyard show stacks NAME` shows it";
            return Err(Invalid::whole(sentence).with_hint(hint));
        }
        unique("gpus", gpus.iter().map(|gpu| gpu.name.as_str()))?;
        unique("links", links.iter().map(|link| link.name.as_str()))?;
        unique("stacks", stacks.iter().map(|stack| stack.name.as_str()))?;
        unique("fabrics", fabrics.iter().map(|fabric| fabric.name.as_str()))?;
        gpus.iter().try_for_each(check_gpu)?;
        links.iter().try_for_each(check_link)?;
        stacks.iter().try_for_each(check_stack)?;
        stacks.iter().try_for_each(|stack| check_generations(stack, &gpus))?;
        fabrics.iter().try_for_each(check_fabric)?;
        Ok(Self { description, gpus, links, stacks, fabrics })
    }
}

impl Constants {
    /// Creates constants from entries that a program made.
    ///
    /// # Errors
    ///
    /// Fails if there are no entries, or if one is out of range.
    pub fn new(
        description: impl Into<String>,
        gpus: Vec<Gpu>,
        links: Vec<Link>,
        stacks: Vec<Stack>,
    ) -> Result<Self, Invalid> {
        let schema = CONSTANTS_SCHEMA.into();
        let description = Some(description.into());
        Self::try_from(ConstantsFile { schema, description, gpus, links, stacks, fabrics: Vec::new() })
    }

    /// Creates constants from links and networks that a program measured.
    ///
    /// # Errors
    ///
    /// Fails if there are no entries, or if one is out of range.
    pub fn of_fabrics(description: impl Into<String>, fabrics: Vec<MeasuredFabric>) -> Result<Self, Invalid> {
        let description = Some(description.into());
        Self::try_from(ConstantsFile { schema: CONSTANTS_SCHEMA.into(), description, fabrics, ..Default::default() })
    }

    /// Returns the description of the file.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// Returns the kinds of interconnects.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the software stacks.
    pub fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    /// Returns the links and networks of machine types, and of the machines of cluster files.
    pub fn fabrics(&self) -> &[MeasuredFabric] {
        &self.fabrics
    }

    /// Returns the text of the constants file, which reads back as the same constants.
    pub fn to_toml(&self) -> String {
        write::document(self)
    }
}

impl Catalog {
    /// Returns this catalog with entries replaced by those of the same name, and with new ones at the end. Machine
    /// types get the new version of the links that they name.
    #[must_use]
    pub fn with(&self, constants: &Constants) -> Self {
        let mut catalog = self.clone();
        for link in &constants.links {
            catalog.rewire(link);
        }
        let (types, described): (Vec<_>, Vec<_>) =
            constants.fabrics.iter().cloned().partition(|fabric| fabric.transport.is_none());
        for fabric in &types {
            for machine in catalog.instances.iter_mut().chain(&mut catalog.systems) {
                if machine.name == fabric.name {
                    machine.interconnect = fabric.interconnect.clone();
                    machine.network.messaging = fabric.messaging.clone();
                }
            }
        }
        replace(&mut catalog.fabrics, &described, |fabric| &fabric.name);
        replace(&mut catalog.gpus, &constants.gpus, |gpu| &gpu.name);
        replace(&mut catalog.links, &constants.links, |link| &link.name);
        let stacks: Vec<Arc<Stack>> = constants.stacks.iter().cloned().map(Arc::new).collect();
        replace(&mut catalog.stacks, &stacks, |stack| &stack.name);
        catalog
    }

    /// Replaces the link of this name in all machine types that have it.
    fn rewire(&mut self, link: &Link) {
        let Some(old) = self.links.iter().find(|old| old.name == link.name) else { return };
        for machine in self.instances.iter_mut().chain(&mut self.systems) {
            if machine.interconnect == old.interconnect {
                machine.interconnect = link.interconnect.clone();
            }
        }
    }
}

fn replace<T: Clone>(entries: &mut Vec<T>, others: &[T], name: impl Fn(&T) -> &str) {
    for other in others {
        match entries.iter_mut().find(|entry| name(entry) == name(other)) {
            Some(entry) => *entry = other.clone(),
            None => entries.push(other.clone()),
        }
    }
}

fn unique<'a>(list: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), Invalid> {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        let field = format!("{list}[{index}].name");
        if name.trim().is_empty() {
            return Err(invalid(field, "empty", "a name"));
        }
        if !seen.insert(name) {
            return Err(invalid(field, format!("`{name}`"), "a name that no other entry of the list has"));
        }
    }
    Ok(())
}

fn check_gpu(gpu: &Gpu) -> Result<(), Invalid> {
    check(&format!("gpus.{}.achieved", gpu.name), &GPU_PARAMETERS, gpu)?;
    let flops = |peak: &Option<Sourced<FlopsPerSecond>>| peak.as_ref().map(|peak| peak.value.0);
    let unfitted = [
        ("memory", Some(gpu.memory.value.as_f64()), (1.0, BYTES_MAX)),
        ("memory_bandwidth", Some(gpu.memory_bandwidth.value.0), RATES),
        ("cache", Some(gpu.cache.value.as_f64()), (1.0, BYTES_MAX)),
        ("multiprocessors", Some(f64::from(gpu.multiprocessors.value)), (1.0, 65_535.0)),
        ("peak_fp32", Some(gpu.peak_fp32.value.0), RATES),
        ("peak_fp16", Some(gpu.peak_fp16.value.0), RATES),
        ("peak_tf32", flops(&gpu.peak_tf32), RATES),
        ("peak_bf16", flops(&gpu.peak_bf16), RATES),
        ("peak_fp8", flops(&gpu.peak_fp8), RATES),
        ("host_bandwidth", Some(gpu.host_bandwidth.value.0), RATES),
        ("jpeg_decode", gpu.jpeg_decode.as_ref().map(|rate| rate.value.0), RATES),
        ("achieved.gemm_fp8", gpu.achieved.gemm_fp8.as_ref().map(|part| part.value), (0.1, 2.0)),
        ("achieved.uncertainty", Some(gpu.achieved.uncertainty.value), (0.0, 10.0)),
    ];
    all_within(&format!("gpus.{}", gpu.name), &unfitted)
}

fn check_stack(stack: &Stack) -> Result<(), Invalid> {
    check(&format!("stacks.{}", stack.name), &STACK_PARAMETERS, stack)?;
    let unfitted = [
        ("image_decoding", stack.image_decoding.as_ref().map(|time| time.value.0), (0.0, 1e3)),
        ("host_update_traffic", stack.host_update_traffic.as_ref().map(|part| part.value), (0.0, 100.0)),
        ("expert_launch", stack.expert_launch.as_ref().map(|time| time.value.0), (0.0, 1.0)),
        ("bucket", Some(stack.bucket.value.as_f64()), (0.0, BYTES_MAX)),
        ("bucket_per_rank", stack.bucket_per_rank.as_ref().map(|size| size.value.as_f64()), (0.0, 1e9)),
        ("resident", Some(stack.resident.value.as_f64()), (0.0, BYTES_MAX)),
        ("token_activations", stack.token_activations.as_ref().map(|part| part.value), (0.0, 100.0)),
        ("frozen_activations", stack.frozen_activations.as_ref().map(|part| part.value), (0.0, 100.0)),
        ("frozen_traffic", stack.frozen_traffic.as_ref().map(|part| part.value), (0.0, 100.0)),
        ("fragmentation", Some(stack.fragmentation.value), (0.0, 10.0)),
        ("uncertainty", Some(stack.uncertainty.value), (0.0, 10.0)),
        ("memory_spread", stack.memory_spread.as_ref().map(|part| part.value), (0.0, 0.5)),
        ("memory_margin", stack.memory_margin.as_ref().map(|part| part.value), (0.0, 0.5)),
        ("sharded_copy_rate", stack.sharded_copy_rate.as_ref().map(|rate| rate.value.0), RATES),
        ("softmax_heads", stack.softmax_heads.as_ref().map(|heads| f64::from(heads.value)), (1.0, 65_535.0)),
    ];
    all_within(&format!("stacks.{}", stack.name), &unfitted)?;
    stack.flash_attention.iter().try_for_each(|(generation, rate)| {
        within(&format!("stacks.{}.flash_attention.{generation}", stack.name), rate.value, (0.05, 2.0))
    })?;
    let widths = stack.seen.iter().enumerate();
    widths.into_iter().try_for_each(|(index, seen)| {
        within(&format!("stacks.{}.seen[{index}].half_width", stack.name), seen.half_width.value, (0.0, 10.0))
    })
}

/// Checks that rates by generation are for GPUs of the catalog or the file.
fn check_generations(stack: &Stack, gpus: &[Gpu]) -> Result<(), Invalid> {
    let known: BTreeSet<&str> =
        catalog().gpus().iter().chain(gpus).map(|gpu| gpu.generation.as_str()).chain(["other"]).collect();
    match stack.flash_attention.keys().find(|generation| !known.contains(generation.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let allowed = format!("one of {}", known.iter().copied().collect::<Vec<_>>().join(", "));
            let meant = similar(unknown, known).map(|meant| format!("did you mean `{meant}`?"));
            let field = format!("stacks.{}.flash_attention", stack.name);
            Err(Invalid::value(field, format!("for `{unknown}`"), allowed).maybe_hint(meant))
        }
    }
}

fn check_fabric(fabric: &MeasuredFabric) -> Result<(), Invalid> {
    let name = &fabric.name;
    let of_type = catalog().machine_types().find(|machine| machine.name == *name).map(|machine| machine.gpus);
    // How many GPUs the machines of a cluster file have, the file says.
    let Some(gpus) = fabric.transport.map(|_| GPUS_MAX).or(of_type) else {
        let allowed = "a machine type of the catalog, or an entry with a `transport`, for machines of a cluster file";
        return Err(invalid(format!("fabrics.{name}.name"), format!("`{name}`"), allowed));
    };
    for ((number, low, high), value) in MeasuredFabric::BOUNDS.into_iter().zip(fabric.numbers()) {
        let none = value == 0.0 && ["step", "chunk_trips"].contains(&number);
        if !none {
            within(&format!("fabrics.{name}.messaging.{number}"), value, (low, high))?;
        }
    }
    if let Some(growth) = &fabric.messaging.growth {
        within(&format!("fabrics.{name}.messaging.growth"), growth.value, (0.0, 10.0))?;
    }
    check_wiring(&format!("fabrics.{name}"), &fabric.interconnect, gpus)
}

/// Checks a link: one that machine types of the catalog have must fit their GPUs, any other those of some machine.
fn check_link(link: &Link) -> Result<(), Invalid> {
    let known = catalog().links().iter().find(|known| known.name == link.name);
    let machines = catalog()
        .machine_types()
        .filter(|machine| known.is_some_and(|known| machine.interconnect == known.interconnect));
    let gpus = machines.map(|machine| machine.gpus).max().unwrap_or(GPUS_MAX);
    check_wiring(&format!("links.{}", link.name), &link.interconnect, gpus)
}

fn check_wiring(entry: &str, interconnect: &Interconnect, gpus: u32) -> Result<(), Invalid> {
    let field = |name: &str| format!("{entry}.interconnect.{name}");
    match interconnect {
        Interconnect::Pcie { bandwidth } => within(&field("bandwidth"), bandwidth.value.0, RATES),
        Interconnect::NvlinkMesh { link, fraction, pairs, pcie_bandwidth } => {
            check_pairs(&field("pairs"), &pairs.value, gpus)?;
            within(&field("link"), link.value.0, RATES)?;
            within(&field("pcie_bandwidth"), pcie_bandwidth.value.0, RATES)?;
            within(&field("fraction"), fraction.value, (0.01, 1.0))
        }
        Interconnect::Nvswitch { port, fraction } => {
            within(&field("port"), port.value.0, RATES)?;
            within(&field("fraction"), fraction.value, (0.01, 1.0))
        }
    }
}

/// Checks that each constant that an entry states is zero, which says that there is no such cost, or inside its physical
/// bounds.
fn check<T>(place: &str, parameters: &[Parameter<T>], entry: &T) -> Result<(), Invalid> {
    for parameter in parameters {
        let Some((value, fitted)) = parameter.stated(entry) else { continue };
        let field = format!("{place}.{}", parameter.name);
        if let Some(Fitted { deviation, rows, .. }) = fitted {
            within(&format!("{field}.fitted.deviation"), *deviation, (0.0, 100.0))?;
            within(&format!("{field}.fitted.rows"), f64::from(*rows), (1.0, 1e9))?;
        }
        if value != 0.0 || parameter.is_rate {
            within(&field, value, parameter.bounds)?;
        }
    }
    Ok(())
}

/// Checks the numbers that an entry states; those that it leaves out are not checked.
fn all_within(entry: &str, numbers: &[(&str, Option<f64>, (f64, f64))]) -> Result<(), Invalid> {
    let mut stated = numbers.iter().filter_map(|(field, value, bounds)| Some((field, (*value)?, *bounds)));
    stated.try_for_each(|(field, value, bounds)| within(&format!("{entry}.{field}"), value, bounds))
}

fn within(field: &str, value: f64, (low, high): (f64, f64)) -> Result<(), Invalid> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(invalid(field, value, format!("from {low} to {high}"))) }
}

fn invalid(field: impl Into<String>, value: impl Display, allowed: impl Display) -> Invalid {
    Invalid::value(field, value, allowed)
        .with_hint("a constant is zero where there is no such cost, and else inside its bounds")
}

#[cfg(test)]
mod tests;
