//! A measured machine as a page.

use crate::format::{Width, bytes, facts, table};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_hardware_profiles::{CollectiveOperation, DeviceKind, MeasuredMachine, OperatorClass, OperatorSample};
use trainyard_units::human_count;

/// Formats the measurements of a machine, in the numbers that steps depend on most.
pub fn profile(machine: &MeasuredMachine, width: Width) -> String {
    let device = match machine.device {
        DeviceKind::Cpu => ("processor", format!("{} ({} threads)", machine.processor, machine.devices)),
        DeviceKind::Cuda | DeviceKind::Wgpu => ("GPUs", format!("{} × {}", machine.devices, machine.processor)),
    };
    let rows = [
        device,
        ("memory", bytes(machine.memory.0)),
        ("plain copy", rate(machine.copy_bandwidth.0)),
        ("framework", machine.framework.clone()),
        ("measured", machine.measured.clone()),
        ("samples", format!("{} of operators, {} of collectives", machine.operators.len(), machine.collectives.len())),
    ];
    let header = [
        "ranks at work",
        ">threads each",
        ">linear layers, GFLOP/s each",
        ">backward",
        ">all-reduce of 16 MiB",
        ">send of 16 MiB",
    ];
    format!("{}\n\n{}\n{}", machine.name, facts(&rows), table(width, header, rates(machine)))
}

/// Returns, for each number of ranks, the rates that the best linear layer and the largest messages reach.
fn rates(machine: &MeasuredMachine) -> Vec<[String; 6]> {
    let threads: BTreeMap<u32, u32> = machine.operators.iter().map(|sample| (sample.ranks, sample.threads)).collect();
    let ranks: BTreeSet<u32> = threads.keys().copied().collect();
    ranks
        .into_iter()
        .map(|ranks| {
            let linear =
                || machine.operators.iter().filter(move |s| s.ranks == ranks && s.operator == OperatorClass::Linear);
            let best = |time: fn(&OperatorSample) -> f64, passes: f64| {
                let rate = |sample: &OperatorSample| {
                    2.0 * passes * sample.shape.iter().map(|size| *size as f64).product::<f64>() / time(sample) / 1e9
                };
                linear().map(rate).fold(0.0, f64::max)
            };
            let message = |operation: CollectiveOperation| {
                let largest = machine
                    .collectives
                    .iter()
                    .filter(|sample| sample.ranks == ranks && sample.operation == operation)
                    .max_by_key(|sample| sample.bytes);
                largest.map_or_else(|| "–".into(), |sample| rate(sample.bytes as f64 / sample.seconds))
            };
            [
                ranks.to_string(),
                threads[&ranks].to_string(),
                human_count(best(|sample| sample.forward_s, 1.0).round() as u64),
                human_count(best(|sample| sample.backward_s, 2.0).round() as u64),
                message(CollectiveOperation::AllReduce),
                message(CollectiveOperation::Send),
            ]
        })
        .collect()
}

/// Formats a rate with two digits, so that a network's does not vanish beside memory's.
fn rate(rate: f64) -> String {
    if rate < 1e9 { format!("{:.0} MB/s", rate / 1e6) } else { format!("{:.1} GB/s", rate / 1e9) }
}
