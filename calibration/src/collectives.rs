//! The table of measured collectives and transfers.

use crate::document::RowResult;
use crate::interval::collective_interval;
use crate::table::{Record, RowError, Table};
use crate::validate::{scored, unsupported};
use std::io::Read;
use trainyard_hardware_profiles::{Catalog, Cluster, Fabric};
use trainyard_sim::{all_reduce_time, transfer_time};
use trainyard_units::Bytes;

/// Columns that a table of collective measurements must have.
pub const COLLECTIVE_COLUMNS: [&str; 8] =
    ["system", "gpus", "nodes", "operation", "message_bytes", "algbw_GBps", "latency_us", "notes"];

/// Whether a table is one of collectives: it has operations and messages instead of models and steps.
pub(crate) fn is_table<R: Read>(table: &Table<'_, R>) -> bool {
    table.has("operation") && table.has("message_bytes")
}

/// A record predicted.
///
/// # Errors
///
/// When a cell does not hold what its column needs.
pub(crate) fn result(record: &Record<'_>, catalog: &Catalog) -> Result<RowResult, RowError> {
    let id = format!("line {}", record.line);
    let (system, operation) = (record.needed("system")?, record.needed("operation")?);
    let suite = format!("{operation} {system}");
    let gpus = record.count::<u32>("gpus", 1)?;
    let nodes = record.count::<u32>("nodes", 1)?;
    let bytes = record.count::<u64>("message_bytes", 1)?;
    let measured = measured(record, bytes)?;
    let refused = |reason: &str| Ok(unsupported(&id, &suite, measured, reason.into()));
    if !["all_reduce", "send_recv"].contains(&operation.as_str()) {
        return refused(&format!("`{operation}` is not an operation between GPUs"));
    }
    let (Some(gpus), Some(nodes), Some(bytes)) = (gpus, nodes, bytes) else {
        return refused("GPUs, machines or the size of the message are not stated");
    };
    let Some(measured) = measured else {
        return refused("neither time nor bandwidth is stated");
    };
    let Some(cluster) = cluster(&system, nodes, gpus, catalog) else {
        return refused(&format!("no instance of the catalog has the fabric of `{system}`"));
    };
    let predicted = match operation.as_str() {
        "all_reduce" => all_reduce_time(&cluster, gpus, Bytes(bytes)),
        _ => transfer_time(&cluster, Bytes(bytes)),
    };
    match predicted {
        Ok(time) => Ok(scored(&id, &suite, time.0, collective_interval(&cluster, time), measured)),
        Err(error) => refused(&error.to_string()),
    }
}

/// Seconds: the stated latency, or the message over the stated rate.
fn measured(record: &Record<'_>, bytes: Option<u64>) -> Result<Option<f64>, RowError> {
    if let Some(microseconds) = record.positive("latency_us")? {
        return Ok(Some(microseconds * 1e-6));
    }
    let rate = record.text("algbw_GBps");
    let rate = if rate.parse() == Ok(0.0) { None } else { record.positive("algbw_GBps")? };
    Ok(rate.zip(bytes).map(|(rate, bytes)| bytes as f64 / (rate * 1e9)))
}

/// The instance whose name the system begins with, its GPUs cut to those that took part. A benchmark is over before
/// the burst rate of the network is. A fabric that was shaped by software is not the instance's.
fn cluster(system: &str, nodes: u32, gpus: u32, catalog: &Catalog) -> Option<Cluster> {
    let name = system.split([' ', '(']).next()?;
    if system.contains("shaped") {
        return None;
    }
    let mut cluster = catalog.cluster(name, nodes).ok()?;
    let pool = &mut cluster.pools[0];
    if let Fabric::Wired { network, .. } = &mut pool.fabric {
        network.baseline = network.burst.clone();
    }
    let each = gpus / nodes;
    if each * nodes != gpus || !(1..=pool.devices_per_instance).contains(&each) {
        return None;
    }
    pool.devices_per_instance = each;
    Some(cluster)
}
