//! Everything that a report on a plan shows, found by the same functions as the commands.

use crate::campaign::campaign;
use crate::explain::{ExplainError, NamedPlan, explain};
use crate::predict::{machine, plan_of, resimulate};
use crate::what_if::{HeldPlan, Subject, axes, tornado, what_if};
use trainyard_hardware_profiles::{Fabric, Interconnect, Sourced};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{
    CampaignDocument, Collective, CollectiveCurve, ExplanationDocument, Plan, Roofline, Timeline, WhatIfDocument,
};
use trainyard_sim::{Machine, Options, all_reduce_time, collective_time, roofline};
use trainyard_units::{Bytes, human_bytes, human_duration};

/// Sizes of messages whose time is reported, as exponents: powers of two from 1 KiB to 4 GiB.
const MESSAGES: std::ops::RangeInclusive<u32> = 10..=32;

/// The most ranks with which a plan is simulated on other numbers of machines; more take long.
const SCALED_RANKS: u32 = 1024;

/// A plan document and what else is known of it.
#[derive(Clone, Debug)]
pub struct ReportContent {
    /// The document, its prediction made anew.
    pub document: PlanDocument,
    /// The breakdown of its step.
    pub explanation: ExplanationDocument,
    /// The times of all events of a step, on the first rank of each stage.
    pub timeline: Timeline,
    /// The roofline of its operators; `None` on a measured machine.
    pub roofline: Option<Roofline>,
    /// Times of collectives on its machines: among the devices of one, and among all.
    pub collectives: Vec<CollectiveCurve>,
    /// The same plan on fewer and more machines; `None` if their number cannot vary.
    pub scaling: Option<WhatIfDocument>,
    /// The effect of each assumption on the prediction.
    pub sensitivities: Option<WhatIfDocument>,
    /// The simulated campaign; a reason if it cannot be simulated.
    pub campaign: Result<CampaignDocument, String>,
    /// The constants on which it rests.
    pub constants: Vec<SourcedConstant>,
}

/// A number with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedConstant {
    pub what: String,
    /// The value, with its unit.
    pub value: String,
    pub source: String,
}

/// Collects what a report on a plan shows. `runs` runs of its training are drawn with `seed`.
///
/// # Errors
///
/// When the plan is not valid or does not go onto its machines.
pub fn report_content(named: &NamedPlan, runs: u64, seed: u64) -> Result<ReportContent, ExplainError> {
    let refused = |error| named.wrong(error);
    let explanation = explain(named, None)?;
    let (document, files) = (&named.document, || named.files.clone());
    let plan = plan_of(document).map_err(refused)?;
    let machine = machine(document, files()).map_err(refused)?;
    let (found, outcome) = resimulate(document, files(), Options::default()).map_err(refused)?;
    let held = HeldPlan { document: document.clone(), files: files() };
    Ok(ReportContent {
        roofline: roofline(&plan, &machine),
        collectives: collectives(&machine),
        scaling: scaling(&held, &plan),
        sensitivities: tornado(&held).ok().filter(|found| !found.sensitivities.is_empty()),
        campaign: campaign(document, files(), runs, seed).map_err(|error| error.to_string()),
        constants: constants(&machine),
        explanation,
        timeline: outcome.timeline().into_owned(),
        document: found,
    })
}

/// Predicts the plan on a quarter of its machines up to eight times as many, as far as it may have them, with replicas
/// that fill them.
fn scaling(held: &HeldPlan, plan: &Plan) -> Option<WhatIfDocument> {
    let spec = &held.document.plan;
    if spec.cluster.profile.is_some() || spec.cluster.file.is_some() {
        return None;
    }
    let instances = spec.cluster.instances;
    let ranks = plan.mesh().ranks();
    let first = (0..3).map(|halvings| instances >> halvings).take_while(|count| *count > 0).last().unwrap_or(1);
    let counts = std::iter::successors(Some(first), |count| count.checked_mul(2));
    let enough = |count: &u32| *count <= instances * 8 && ranks / instances.max(1) * *count <= SCALED_RANKS.max(ranks);
    let counts: Vec<String> = counts.take_while(enough).map(|count| count.to_string()).collect();
    let axes = axes(&[format!("instances={}", counts.join(","))]).ok()?;
    let found = what_if(&Subject::Plan(Box::new(held.clone())), &axes, &|| ()).ok()?;
    let known = found.cases.iter().filter(|case| case.figures.is_some()).count();
    (known > 1).then_some(found)
}

/// Computes curves of the all-reduce among the devices of one machine and among all, and of sends between two
/// neighbouring machines.
fn collectives(machine: &Machine) -> Vec<CollectiveCurve> {
    let cluster = &machine.cluster;
    let (inside, all) = (cluster.first().devices_per_instance, cluster.devices());
    let curve = |operation: &str, devices: u32, machines: u32, time: &dyn Fn(Bytes) -> Option<f64>| CollectiveCurve {
        operation: operation.into(),
        devices,
        machines,
        points: MESSAGES.map(|power| 1_u64 << power).filter_map(|bytes| Some((bytes, time(Bytes(bytes))?))).collect(),
    };
    let sum = |devices: u32| move |bytes| all_reduce_time(cluster, devices, bytes).ok().map(|time| time.0);
    let mut curves = Vec::new();
    if inside > 1 {
        curves.push(curve("all-reduce", inside, 1, &sum(inside)));
    }
    if cluster.machines() > 1 {
        let send = |bytes| collective_time(cluster, Collective::Transfer, inside + 1, bytes).ok().map(|time| time.0);
        curves.push(curve("all-reduce", all, cluster.machines(), &sum(all)));
        curves.push(curve("send", 2, 2, &send));
    }
    curves.retain(|curve| curve.points.len() > 1);
    curves
}

/// Lists the most important constants of a machine, with their sources.
fn constants(machine: &Machine) -> Vec<SourcedConstant> {
    fn told<T>(what: &str, sourced: &Sourced<T>, shown: impl Fn(&T) -> String) -> SourcedConstant {
        let source = match &sourced.fitted {
            Some(fitted) => format!("{} ({fitted})", sourced.source),
            None => sourced.source.clone(),
        };
        SourcedConstant { what: what.into(), value: shown(&sourced.value), source }
    }
    let rate = |bytes: &trainyard_units::BytesPerSecond| format!("{} GB/s", rounded(bytes.0 / 1e9));
    let arithmetic = |flops: &trainyard_units::FlopsPerSecond| format!("{} TFLOP/s", rounded(flops.0 / 1e12));
    let part = |fraction: &f64| format!("{} %", rounded(fraction * 100.0));
    let pool = machine.cluster.first();
    let mut all = Vec::new();
    match pool.device.gpu() {
        Some(gpu) => all.extend([
            told("memory of a GPU", &gpu.memory, |bytes| human_bytes(*bytes)),
            told("peak rate, half precision", &gpu.peak_fp16, arithmetic),
            told("peak rate, single precision", &gpu.peak_fp32, arithmetic),
            told("memory bandwidth", &gpu.memory_bandwidth, rate),
            told("part of the peak that large products reach", &gpu.achieved.gemm_fp16, part),
            told("part of the memory bandwidth that kernels reach", &gpu.achieved.memory, part),
        ]),
        None => all.push(SourcedConstant {
            what: "this machine".into(),
            value: pool.device.name().into(),
            source: "measured by `trainyard calibrate`".into(),
        }),
    }
    if let Fabric::Wired { interconnect, network } = &pool.fabric {
        all.push(match interconnect {
            Interconnect::Pcie { bandwidth } => told("PCIe between GPUs", bandwidth, rate),
            Interconnect::NvlinkMesh { link, .. } => told("one NVLink, one direction", link, rate),
            Interconnect::Nvswitch { port, .. } => told("NVSwitch port, one direction", port, rate),
        });
        all.push(told("network of a machine, sustained", &network.baseline, rate));
    }
    all.push(told("host time to launch a kernel", &machine.stack.launch, |time| human_duration(*time)));
    all
}

/// Four digits at most.
fn rounded(value: f64) -> String {
    let digits = if value >= 100.0 { 1.0 } else { 100.0 };
    format!("{}", (value * digits).round() / digits)
}
