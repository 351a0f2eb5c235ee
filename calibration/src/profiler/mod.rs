//! Constants of a stack from a trace of the PyTorch profiler: the time of the host to launch a kernel, the part of the
//! device's rate its matrix products reach, and how much memory its allocator holds without use.
//!
//! The profiler itself slows the host: launches from a trace with stacks or shapes recorded take longer than without it.

mod trace;

use crate::fit::{ConstantChange, REFIT_SCHEMA, Refit, RefitDocument};
use crate::summary::median;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Read;
use trace::{Document, Event, Product, What};
use trainyard_hardware_profiles::{Catalog, Constants, Fitted, Gpu, Rate, Sourced, Stack};
use trainyard_plan::operators::Gemm;
use trainyard_sim::product_time;
use trainyard_units::{Bytes, Invalid, Seconds};

/// From one launch to the next, a host that took this many times the median did something else in between.
const PAUSE: f64 = 20.0;

/// Launches that make a mean.
const LAUNCHES_MIN: usize = 50;

/// Products that would take less than this tell more of the kernel's start than of its rate.
const PRODUCT_MIN: Seconds = Seconds(50e-6);

/// The longest side of a product, and the most elements of one of its matrices, that a device may have worked on.
/// Traces have empty ones too, as of an expert that got no token.
const SIDE_MAX: u64 = 1 << 24;
const ELEMENTS_MAX: u64 = 1 << 40;

/// Products that make a median.
const PRODUCTS_MIN: usize = 5;

/// The deviation that one trace leaves however many events it has: the profiler's own load, this one model.
const SYSTEMATIC: f64 = 0.1;

/// A number that a trace tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// The number; seconds for a time.
    pub value: f64,
    /// Its relative standard error.
    pub deviation: f64,
    /// Events that it was found in.
    pub events: u32,
}

/// The traced software, as its trace tells. Absent: not recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TraceFindings {
    /// The device, as the driver calls it.
    pub device: String,
    /// Seconds of each step that `prof.step()` marked.
    pub steps_s: Vec<f64>,
    /// Host time from one kernel launch to the next, seconds.
    pub launch: Option<Finding>,
    /// Rate of half- or single-precision matrix products relative to the catalog's constants of the device.
    pub gemm: Option<Finding>,
    /// Memory that the allocator holds relative to what tensors take, minus one.
    pub fragmentation: Option<Finding>,
    /// Why matrix products were not compared, if there are any and they were not.
    pub uncompared: Option<String>,
}

impl TraceFindings {
    /// The constants of a stack that it would change.
    fn changes(&self, stack: &Stack) -> Vec<ConstantChange> {
        let found = [
            ("launch", stack.launch.value.0, self.launch),
            ("gemm", stack.gemm.value, self.gemm),
            ("fragmentation", stack.fragmentation.value, self.fragmentation),
        ];
        let change = |(name, before, found): (&str, f64, Option<Finding>)| {
            let Finding { value, deviation, events } = found?;
            let name = format!("stacks.{}.{name}", stack.name);
            Some(ConstantChange { name, before, after: value, deviation, rows: events as usize })
        };
        found.into_iter().filter_map(change).collect()
    }

    /// A stack with what was found in place of its own constants.
    pub(crate) fn applied(&self, stack: &Stack, date: &str) -> Stack {
        let mut stack = stack.clone();
        let what = format!("a PyTorch profiler trace on {}, {} steps", self.device, self.steps_s.len());
        let source = |finding: Finding| Fitted {
            on: what.clone(),
            rows: finding.events,
            date: date.into(),
            deviation: finding.deviation,
        };
        if let Some(found) = self.launch {
            stack.launch = sourced(Seconds(found.value), source(found));
        }
        if let Some(found) = self.gemm {
            stack.gemm = sourced(found.value, source(found));
        }
        if let Some(found) = self.fragmentation {
            stack.fragmentation = sourced(found.value, source(found));
        }
        stack
    }
}

fn sourced<T>(value: T, fitted: Fitted) -> Sourced<T> {
    Sourced { value, source: format!("measured: {}", fitted.on), fitted: Some(Box::new(fitted)) }
}

/// Reads what a trace tells. Products are compared with those of the catalog's GPU of the traced name.
///
/// # Errors
///
/// When the text is no trace, or marks no steps, or nothing in it tells a constant.
pub(crate) fn read_trace(text: impl Read, file: &str, catalog: &Catalog) -> Result<TraceFindings, Invalid> {
    let document = trace::read(text, file)?;
    let lacking = |problem, hint| Invalid::inside(file, problem).with_hint(hint);
    if document.trainyard.as_ref().is_some_and(|origin| origin.kind == "predicted") {
        let hint = "record a training with torch.profiler; a prediction cannot correct itself";
        return Err(lacking("it is a prediction of this program, no measurement", hint));
    }
    let steps = steps(&document);
    if steps.is_empty() {
        let hint = "call `prof.step()` after each step, so that the trace has `ProfilerStep#N`";
        return Err(lacking("no steps are marked in the trace", hint));
    }
    let inside = |event: &&Event| steps.iter().any(|(start, end)| (*start..=*end).contains(&event.ts));
    let events: Vec<&Event> = document.events.iter().filter(inside).collect();
    let device = document.devices.first().map_or_else(|| "an unnamed device".into(), |device| device.name.clone());
    let gpu = gpu_called(&device, catalog);
    let any = || events.iter().any(|event| matches!(event.what, What::Product(_)));
    let uncompared = || format!("matrix products: no GPU of the catalog is `{device}` for certain");
    let findings = TraceFindings {
        steps_s: steps.iter().map(|(start, end)| (end - start) * 1e-6).collect(),
        launch: launch(&events),
        gemm: gpu.and_then(|gpu| products(&events, gpu)),
        fragmentation: fragmentation(&document.events),
        uncompared: (gpu.is_none() && any()).then(uncompared),
        device,
    };
    if findings.uncompared.is_some() && findings.launch.is_none() && findings.fragmentation.is_none() {
        let hint = "put the GPU into a file of --constants; `trainyard show gpus` lists those that are known";
        return Err(lacking("its matrix products are of a GPU that the catalog does not have for certain", hint));
    }
    if findings.launch.is_none() && findings.gemm.is_none() && findings.fragmentation.is_none() {
        let hint = "record with activities=[CPU, CUDA], record_shapes=True and profile_memory=True";
        return Err(lacking("the trace has too few kernel launches, products and memory records", hint));
    }
    Ok(findings)
}

/// Constants of a stack as a trace tells them, the rest as they are in the catalog.
///
/// # Errors
///
/// When the text is no trace, or tells nothing, or something out of range.
pub fn refit_trace(
    text: impl Read,
    file: &str,
    stack: &Stack,
    catalog: &Catalog,
    date: &str,
) -> Result<Refit, Invalid> {
    let findings = read_trace(text, file, catalog)?;
    let changed = findings.applied(stack, date);
    let document = RefitDocument {
        schema: REFIT_SCHEMA.into(),
        rows: findings.steps_s.len(),
        unsupported: findings.uncompared.iter().cloned().collect(),
        constants: findings.changes(stack),
        stacks: Vec::new(),
        suites: Vec::new(),
        widths: Vec::new(),
        coverage90: None,
    };
    let description = format!("stack {} from a PyTorch profiler trace on {}, {date}", stack.name, findings.device);
    let constants = Constants::new(description, Vec::new(), Vec::new(), vec![changed]).map_err(|error| {
        Invalid::inside(file, error).with_hint("trace some steps after the first, with nothing else on the machine")
    })?;
    Ok(Refit { constants: Some(constants), document, warnings: Vec::new() })
}

/// Start and end of each marked step, microseconds; the first is left out where there are others: it still warms up.
fn steps(document: &Document) -> Vec<(f64, f64)> {
    let marked = |event: &&Event| event.what == What::Step;
    let mut steps: Vec<(f64, f64)> = document.events.iter().filter(marked).map(|step| (step.ts, step.end())).collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let skipped = usize::from(steps.len() > 1);
    steps.split_off(skipped)
}

/// The GPU of the catalog that a driver's name means: one of the same chip, of which nothing that both names tell
/// differs, with the most words in common and the fewest others. Nothing if there are several.
fn gpu_called<'a>(device: &str, catalog: &'a Catalog) -> Option<&'a Gpu> {
    let words = |name: &str| -> Vec<String> {
        let words = name.to_lowercase();
        words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let told = words(device);
    let closeness = |gpu: &'a Gpu| {
        let own = words(&gpu.name);
        let common = own.iter().filter(|word| told.contains(word)).count();
        // The chip's name comes first: `v100`, `a100`.
        let same_chip = own.first().is_some_and(|chip| told.contains(chip));
        (same_chip && !differs(&told, &own)).then_some(((common, Reverse(own.len() - common)), gpu))
    };
    let close: Vec<_> = catalog.gpus().iter().filter_map(closeness).collect();
    let closest = close.iter().map(|(closeness, _)| *closeness).max()?;
    let named: Vec<&Gpu> = close.into_iter().filter(|(it, _)| *it == closest).map(|(_, gpu)| gpu).collect();
    let modules = || named.iter().copied().filter(|gpu| words(&gpu.name).iter().any(|word| word.starts_with("sxm")));
    match (named.as_slice(), modules().count()) {
        ([only], _) => Some(only),
        // Of Hopper drivers tell the form of cards alone: `H100 PCIe`, but `H100 80GB HBM3`.
        (_, 1) => modules().next(),
        _ => None,
    }
}

/// Tells whether two names are of different forms of a board, `sxm2` and `pcie`, or different memory, `16gb` and
/// `32gb`. What one of them leaves out does not differ, nor `sxm` from `sxm4`.
fn differs(told: &[String], own: &[String]) -> bool {
    let is_form = |word: &str| ["sxm", "pcie", "nvl"].iter().any(|form| word.starts_with(form));
    let is_memory = |word: &str| word.strip_suffix("gb").is_some_and(|size| size.parse::<u32>().is_ok());
    [&is_form as &dyn Fn(&str) -> bool, &is_memory].into_iter().any(|kind| {
        let of = |words: &'_ [String]| words.iter().find(|word| kind(word)).cloned();
        of(told).zip(of(own)).is_some_and(|(told, own)| !told.starts_with(&own) && !own.starts_with(&told))
    })
}

/// Host time per launch: the mean time from one launch to the next on a thread that does not wait in between.
fn launch(events: &[&Event]) -> Option<Finding> {
    let mut threads: BTreeMap<u32, Vec<&Event>> = BTreeMap::new();
    for event in events {
        if let What::Launch(thread) | What::Wait(thread) = event.what {
            threads.entry(thread).or_default().push(event);
        }
    }
    let mut gaps = Vec::new();
    for calls in threads.values_mut() {
        calls.sort_by(|a, b| a.ts.total_cmp(&b.ts));
        let mut last: Option<f64> = None;
        for call in calls {
            if matches!(call.what, What::Wait(_)) {
                last = None;
            } else {
                gaps.extend(last.map(|last| call.ts - last));
                last = Some(call.ts);
            }
        }
    }
    let typical = median(gaps.clone())?;
    gaps.retain(|gap| *gap <= PAUSE * typical);
    (gaps.len() >= LAUNCHES_MIN).then(|| finding(mean(&gaps) * 1e-6, &gaps))
}

/// The speed of products relative to the catalog's constants: the median of predicted over measured.
fn products(events: &[&Event], gpu: &Gpu) -> Option<Finding> {
    let mut kernels: BTreeMap<u64, f64> = BTreeMap::new();
    for kernel in events {
        if let What::Kernel(id) = kernel.what {
            *kernels.entry(id).or_default() += kernel.dur * 1e-6;
        }
    }
    let ratio = |event: &&Event| {
        let What::Product(told) = &event.what else { return None };
        let (product, rate, element) = product(told, gpu)?;
        let measured = *kernels.get(&told.id)?;
        let expected = product_time(product, gpu, rate, element);
        (expected.0 >= PRODUCT_MIN.0 && measured > 0.0).then(|| expected.0 / measured)
    };
    let ratios: Vec<f64> = events.iter().filter_map(ratio).collect();
    (ratios.len() >= PRODUCTS_MIN)
        .then(|| Finding { value: median(ratios.clone()).unwrap_or(1.0), ..finding(1.0, &ratios) })
}

/// The product of an operator, the unit it runs on and the bytes of an element.
fn product(told: &Product, gpu: &Gpu) -> Option<(Gemm, Rate, u64)> {
    let Product { left, right, number, .. } = told;
    let product = match (left.as_slice(), right.as_slice()) {
        ([m, k], [depth, n]) if k == depth => Gemm { batch: 1, m: *m, n: *n, k: *k },
        ([batch, m, k], [same, depth, n]) if k == depth && batch == same => Gemm { batch: *batch, m: *m, n: *n, k: *k },
        _ => return None,
    };
    let (rate, element) = match number.as_str() {
        "c10::Half" => (Rate::Fp16, 2),
        "c10::BFloat16" => (Rate::Bf16, 2),
        // Whether single precision runs on tensor cores is a switch that the trace does not tell.
        "float" if gpu.peak_tf32.is_none() => (Rate::Fp32, 4),
        _ => return None,
    };
    is_worked_on(product).then_some((product, rate, element))
}

/// Tells whether there is anything to compute, and no more than a device has room for.
fn is_worked_on(Gemm { batch, m, n, k }: Gemm) -> bool {
    let fits = |matrix: [u64; 2]| matrix.into_iter().fold(batch, u64::saturating_mul) <= ELEMENTS_MAX;
    [batch, m, n, k].into_iter().all(|side| (1..=SIDE_MAX).contains(&side))
        && [[m, k], [k, n], [m, n]].into_iter().all(fits)
}

/// Memory that the allocator holds beyond what tensors take, at its peak.
fn fragmentation(events: &[Event]) -> Option<Finding> {
    let record = |event: &Event| match event.what {
        What::Memory { reserved, allocated } => Some((Bytes(reserved as u64), Bytes(allocated as u64))),
        _ => None,
    };
    let records: Vec<(Bytes, Bytes)> = events.iter().filter_map(record).collect();
    let reserved = records.iter().map(|(reserved, _)| reserved.0).max()?;
    let allocated = records.iter().map(|(_, allocated)| allocated.0).max()?;
    let held = reserved as f64 / allocated.max(1) as f64 - 1.0;
    let found = Finding { value: held, deviation: SYSTEMATIC, events: records.len() as u32 };
    (allocated > 0 && held >= 0.0).then_some(found)
}

fn finding(value: f64, samples: &[f64]) -> Finding {
    let (mean, count) = (mean(samples), samples.len() as f64);
    let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let random = (variance / count).sqrt() / mean;
    Finding { value, deviation: random.hypot(SYSTEMATIC), events: samples.len() as u32 }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests;
