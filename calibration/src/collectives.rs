//! The table of measured collectives, transfers, copies and downloads.

mod conditions;
pub(crate) mod system;

use crate::document::RowResult;
use crate::interval::{collective_interval, constant_interval};
use crate::table::{Record, Table, TableError};
use conditions::Conditions;
use std::io::Read;
use trainyard_hardware_profiles::{Catalog, Cluster, Fabric};
use trainyard_plan::Collective;
use trainyard_sim::{MachineError, collective_time_by};
use trainyard_units::{Bytes, Seconds};

/// Columns that a table of collective measurements must have.
pub(crate) const COLLECTIVE_COLUMNS: [&str; 8] =
    ["system", "gpus", "nodes", "operation", "message_bytes", "algbw_GBps", "latency_us", "notes"];

/// Columns that such a table may have besides; `source_ref` is for people and is not read.
pub(crate) const OPTIONAL_COLUMNS: [&str; 2] = ["busbw_GBps", "source_ref"];

/// The collective of this name in tables.
fn collective(operation: &str) -> Option<Collective> {
    Collective::ALL.into_iter().find(|collective| collective.measured_as() == operation)
}

/// Rows that state a rate and no size are told as the time of this many bytes.
const REFERENCE: f64 = 1e9;

/// Part of the nominal rate of PCIe that copies from and to pinned memory reach: 90 Gbit/s each way over PCIe 3.0 x16
/// on p3dn.24xlarge (NVIDIA/nccl issue 398).
const PINNED: f64 = 11.25 / 15.75;

/// Bytes a second at which a thread of the driver copies between pageable and pinned memory, before or after the copy
/// over PCIe: what remains of 50 Gbit/s beside 90 (the same source).
const STAGED: f64 = 1.0 / (1.0 / 6.25e9 - 1.0 / 11.25e9);

/// Tells whether a table is one of collectives: it has operations and messages instead of models and steps.
pub(crate) fn is_table<R: Read>(table: &Table<'_, R>) -> bool {
    table.has("operation") && table.has("message_bytes")
}

/// A record predicted.
///
/// # Errors
///
/// When a cell does not hold what its column needs.
pub(crate) fn result(record: &Record<'_>, catalog: &Catalog) -> Result<RowResult, TableError> {
    let id = format!("line {}", record.line);
    let (system, operation) = (record.needed("system")?, record.needed("operation")?);
    let suite = format!("{operation} {system}");
    let bytes = record.count::<u64>("message_bytes", 1)?;
    let found = if let Some(collective) = collective(&operation) {
        between_gpus(&Measured::read(record, collective)?, catalog)
    } else {
        record.count::<u32>("gpus", 1)?;
        record.count::<u32>("nodes", 1)?;
        outside(record, &operation, &system, bytes, catalog)?
    };
    let row = match found {
        Ok((predicted, interval, measured)) => RowResult::scored(&id, &suite, predicted, interval, measured),
        Err(reason) => RowResult::unsupported(&id, &suite, measured(record, bytes)?, reason),
    };
    Ok(RowResult { message_bytes: bytes, devices: record.count("gpus", 1)?, ..row })
}

/// A prediction in seconds with its interval, and what was measured; or why there is none.
type Found = Result<(f64, [f64; 2], f64), String>;

/// A measured operation between GPUs, as its row tells it.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The operation.
    pub(crate) collective: Collective,
    /// The fabric, in words.
    pub(crate) system: String,
    gpus: Option<u32>,
    nodes: Option<u32>,
    bytes: Option<u64>,
    seconds: Option<f64>,
    conditions: Conditions,
    words: String,
}

impl Measured {
    /// Reads a row of a table.
    pub(crate) fn read(record: &Record<'_>, collective: Collective) -> Result<Self, TableError> {
        let bytes = record.count::<u64>("message_bytes", 1)?;
        let system = record.needed("system")?;
        let words = format!("{system}; {}", record.text("notes"));
        let gpus = record.count("gpus", 1)?;
        Ok(Self {
            collective,
            gpus,
            nodes: record.count("nodes", 1)?,
            bytes,
            seconds: match measured(record, bytes)? {
                None => by_bus_bandwidth(record, collective, gpus, bytes)?,
                stated => stated,
            },
            conditions: Conditions::of(&words),
            system,
            words,
        })
    }

    /// Reads a row, if it is of an operation between GPUs.
    pub(crate) fn of_record(record: &Record<'_>) -> Result<Option<Self>, TableError> {
        let operation = record.needed("operation")?;
        collective(&operation).map(|collective| Self::read(record, collective)).transpose()
    }

    /// The measurement of a line of a benchmark's output; machines are not named there.
    pub(crate) fn of_output(collective: Collective, gpus: u32, nodes: u32, bytes: u64, seconds: f64) -> Self {
        Self {
            collective,
            system: String::new(),
            gpus: Some(gpus),
            nodes: Some(nodes),
            bytes: Some(bytes),
            seconds: Some(seconds),
            conditions: Conditions::default(),
            words: String::new(),
        }
    }

    /// The same on machines of this type, whatever else it said of them.
    pub(crate) fn on(&self, machine: &str) -> Self {
        Self { system: machine.into(), ..self.clone() }
    }

    /// GPUs of each machine, where that is told.
    pub(crate) fn gpus_per_machine(&self) -> Option<u32> {
        Some(self.gpus? / self.nodes?.max(1))
    }

    /// Machines that the row names or describes, bytes and seconds, or what is missing of them.
    pub(crate) fn complete(&self, catalog: &Catalog) -> Result<(Cluster, u64, f64), String> {
        self.complete_with(catalog, |nodes, gpus| system::cluster(catalog, &self.system, nodes, gpus))
    }

    /// The same on machines of a cluster of one kind, whatever the row calls them.
    pub(crate) fn complete_on(&self, cluster: &Cluster, catalog: &Catalog) -> Result<(Cluster, u64, f64), String> {
        self.complete_with(catalog, |nodes, gpus| system::part(cluster, nodes, gpus))
    }

    fn complete_with(
        &self,
        catalog: &Catalog,
        cluster: impl FnOnce(u32, u32) -> Result<Cluster, String>,
    ) -> Result<(Cluster, u64, f64), String> {
        let (Some(gpus), Some(nodes)) = (self.gpus, self.nodes) else {
            return Err("how many GPUs and machines took part is not stated".into());
        };
        let Some(bytes) = self.bytes else {
            return Err("the size of the message is not stated".into());
        };
        let Some(seconds) = self.seconds else {
            return Err("neither time nor bandwidth is stated".into());
        };
        if self.words.contains("shaped") && !self.conditions.shaped() {
            return Err("software shaped the network, but the row does not tell its rate or delay".into());
        }
        let mut cluster = cluster(nodes, gpus)?;
        if let Fabric::Wired { network, .. } = &mut cluster.pools[0].fabric {
            if network.messaging == *catalog.messaging(network.transport) {
                network.messaging = catalog.messaging_published_as(network.transport, &self.words).clone();
            }
            system::isolate(network);
            self.conditions.apply(network);
        }
        Ok((cluster, bytes, seconds))
    }

    /// The time of this operation on a cluster.
    pub(crate) fn predict(&self, cluster: &Cluster, bytes: u64) -> Result<Seconds, MachineError> {
        let ranks = match (self.collective, cluster.machines()) {
            (Collective::Transfer, 1) => 2,
            (Collective::Transfer, _) => cluster.first().devices_per_instance + 1,
            _ => cluster.devices(),
        };
        let time = collective_time_by(cluster, self.collective, self.conditions.algorithm(), ranks, Bytes(bytes))?;
        let Fabric::Wired { network, .. } = &cluster.first().fabric else { return Ok(time) };
        Ok(time + self.conditions.slow_start(network.baseline.value.0))
    }
}

fn between_gpus(row: &Measured, catalog: &Catalog) -> Found {
    let (cluster, bytes, seconds) = row.complete(catalog)?;
    let predict = |cluster: &Cluster, bytes| row.predict(cluster, bytes).map_err(|error| error.to_string());
    let time = predict(&cluster, bytes)?;
    let mut unhindered = cluster.clone();
    if let Fabric::Wired { network, .. } = &mut unhindered.pools[0].fabric {
        network.messaging.chunk_trips.value = 0.0;
    }
    let (flowing, starting) = (predict(&unhindered, bytes)?, predict(&unhindered, 1)?);
    let (waiting, carrying) = ((time - flowing).0 / time.0, (flowing - starting).0 / time.0);
    Ok((time.0, collective_interval(&cluster, time, waiting, carrying), seconds))
}

/// Copies between a host and its GPU, and downloads. Without a size the time of a gigabyte.
fn outside(
    record: &Record<'_>,
    operation: &str,
    system: &str,
    bytes: Option<u64>,
    catalog: &Catalog,
) -> Result<Found, TableError> {
    if !["host_device_copy", "s3_download"].contains(&operation) {
        let known = Collective::ALL.map(Collective::measured_as).join(", ");
        return Ok(Err(format!("`{operation}` is none of {known}, host_device_copy and s3_download")));
    }
    let bytes = bytes.map_or(REFERENCE, |bytes| bytes as f64);
    let Some(seconds) = measured(record, Some(bytes as u64))? else {
        return Ok(Err("neither time nor bandwidth is stated".into()));
    };
    let Some(machine) = system::machine(catalog, system) else {
        return Ok(Err(format!("no machine type of the catalog is called as `{system}` begins")));
    };
    let rate = if operation == "s3_download" {
        let Some(storage) = &machine.storage else {
            return Ok(Err(format!("`{}` reaches no S3", machine.name)));
        };
        // The catalog says what is sustained; a benchmark is over before the burst is.
        storage.s3.value.0 * machine.network.burst.value.0 / machine.network.baseline.value.0
    } else {
        let pinned = machine.host.pcie_uplink.value.0 * PINNED;
        if Conditions::of(record.text("notes")).pageable { 1.0 / (1.0 / pinned + 1.0 / STAGED) } else { pinned }
    };
    let time = Seconds(bytes / rate);
    Ok(Ok((time.0, constant_interval(time), seconds)))
}

/// Seconds: the stated latency, or the message over the stated rate.
fn measured(record: &Record<'_>, bytes: Option<u64>) -> Result<Option<f64>, TableError> {
    if let Some(microseconds) = record.positive("latency_us")? {
        return Ok(Some(microseconds * 1e-6));
    }
    let rate = record.text("algbw_GBps");
    let rate = if rate.parse() == Ok(0.0) { None } else { record.positive("algbw_GBps")? };
    Ok(rate.zip(bytes).map(|(rate, bytes)| bytes as f64 / (rate * 1e9)))
}

/// Seconds of a message whose bus bandwidth is all that is stated, which counts what each link of a ring carries
/// (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
fn by_bus_bandwidth(
    record: &Record<'_>,
    collective: Collective,
    gpus: Option<u32>,
    bytes: Option<u64>,
) -> Result<Option<f64>, TableError> {
    if ["", "0", "0.0", "0.00"].contains(&record.text("busbw_GBps")) {
        return Ok(None);
    }
    let rate = record.positive("busbw_GBps")?;
    let (Some(rate), Some(gpus), Some(bytes)) = (rate, gpus, bytes) else { return Ok(None) };
    let carried = collective.bus_factor(f64::from(gpus));
    Ok((carried > 0.0).then(|| carried * bytes as f64 / (rate * 1e9)))
}

#[cfg(test)]
mod tests {
    use crate::validate::validate;

    const HEADER: &str = "system,gpus,nodes,operation,message_bytes,algbw_GBps,busbw_GBps,latency_us,notes\n";

    /// Measured and predicted seconds of one row, or why there is none.
    fn row(line: &str) -> Result<(f64, f64), String> {
        let document = validate(&format!("{HEADER}{line}\n"), "t.csv").expect("a table");
        let row = &document.rows[0];
        match (row.measured_step_time_s, row.predicted_step_time_s) {
            (Some(measured), Some(predicted)) => Ok((measured, predicted)),
            _ => Err(row.reason.clone().unwrap_or_default()),
        }
    }

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found}, expected {expected}");
    }

    #[test]
    fn time_is_stated_or_follows_from_a_bandwidth() {
        for (line, seconds) in [
            ("p4d.24xlarge,8,1,all_reduce,1000000000,,,7575,", 7.575e-3),
            ("p4d.24xlarge,8,1,all_reduce,1000000000,132,,,", 1.0 / 132.0),
            ("p4d.24xlarge,8,1,all_reduce,1000000000,,231,,", 1.75 / 231.0),
            ("p4d.24xlarge,8,1,all_gather,1000000000,,231,,", 0.875 / 231.0),
        ] {
            let (measured, predicted) = row(line).unwrap_or_else(|reason| panic!("{line}: {reason}"));
            close(measured, seconds, 1e-9);
            close(predicted, seconds, 0.05);
        }
    }

    #[test]
    fn notes_change_what_is_predicted() {
        let predicted =
            |notes: &str| row(&format!("p3.2xlarge x2,2,2,send_recv,67108864,,,55000,{notes}")).expect("ok").1;
        let plain = predicted("NCCL p2p");
        close(predicted("NCCL; 5 Gbps cap"), 2.0 * plain, 0.01);
        close(predicted("Gloo p2p"), 2.0 * plain, 0.01);
        assert!(predicted("NCCL; 5 ms delay") > plain + 5e-3);
        let reduced =
            |notes: &str| row(&format!("p3dn.24xlarge,16,2,all_reduce,1000000000,,,134000,{notes}")).expect("ok").1;
        close(reduced("ring forced"), 1.875 * reduced("tree"), 0.02);
        assert!(reduced("EFA without the OFI patch") > 2.0 * reduced(""));
    }

    #[test]
    fn copies_and_downloads_have_rates() {
        let rate = |line: &str| row(line).map(|(measured, predicted)| (1e9 / measured, 1e9 / predicted)).expect(line);
        for line in [
            "p3dn.24xlarge,1,1,host_device_copy,,11.25,,,pinned memory",
            "p3dn.24xlarge,1,1,host_device_copy,,6.25,,,pageable cudaMemcpy",
            "p3.16xlarge,,1,s3_download,,2.71,,,max S3 GET throughput",
            "p3.2xlarge,,1,s3_download,,1.142,,,max S3 GET throughput",
        ] {
            let (measured, predicted) = rate(line);
            close(predicted, measured, 0.01);
        }
    }

    #[test]
    fn what_a_row_lacks_is_told() {
        for (line, reason) in [
            ("p3dn.24xlarge,16,2,all_reduce,,13.0,,,", "size of the message"),
            ("p3dn.24xlarge,,2,all_reduce,8,13.0,,,", "how many GPUs"),
            ("p3dn.24xlarge,16,2,all_reduce,8,,,,", "neither time nor bandwidth"),
            ("p3.2xlarge (tc shaped),2,2,send_recv,8,,,5,", "does not tell its rate"),
            ("p3.2xlarge,2,2,gossip,8,,,5,", "`gossip` is none of"),
            ("c5n.18xlarge,,1,s3_download,,8.0,,,", "no machine type"),
            ("dgx-2,,1,s3_download,,8.0,,,", "reaches no S3"),
        ] {
            let told = row(line).expect_err(line);
            assert!(told.contains(reason), "{line}: {told}");
        }
    }
}
