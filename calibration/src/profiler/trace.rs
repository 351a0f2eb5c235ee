//! A trace of the PyTorch profiler as events: only those that constants can be learned from.
//!
//! # Source
//!
//! The object form of Chrome's trace events as `torch.profiler` exports it: complete events (`ph` = `X`) of the
//! categories `cpu_op`, `cuda_runtime`, `cuda_driver`, `kernel` and `user_annotation`, and instants named `[memory]`.
//! Times are in microseconds.

use serde::Deserialize;
use serde_json::Value;
use trainyard_units::Invalid;

/// The content of a trace, as it is written.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    #[serde(rename = "traceEvents")]
    pub(super) events: Vec<Event>,
    #[serde(rename = "deviceProperties", default)]
    pub(super) devices: Vec<DeviceProperties>,
    /// The note of this program on its own traces.
    #[serde(default)]
    pub(super) trainyard: Option<Origin>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Origin {
    #[serde(default)]
    pub(super) kind: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct DeviceProperties {
    #[serde(default)]
    pub(super) name: String,
}

/// One event. Fields of other tools are not read.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(default)]
    pub(super) ph: String,
    #[serde(default)]
    pub(super) cat: String,
    #[serde(default)]
    pub(super) name: String,
    /// Microseconds.
    #[serde(default)]
    pub(super) ts: f64,
    /// Microseconds.
    #[serde(default)]
    pub(super) dur: f64,
    /// A number, or a word for rows that are no thread.
    #[serde(default)]
    pub(super) tid: Value,
    #[serde(default)]
    pub(super) args: Arguments,
}

impl Event {
    pub(super) fn end(&self) -> f64 {
        self.ts + self.dur
    }

    /// Tells whether it takes time on a processor or a device.
    pub(super) fn is(&self, category: &str) -> bool {
        self.ph == "X" && self.cat == category
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Arguments {
    #[serde(rename = "External id", default)]
    pub(super) external: Option<u64>,
    #[serde(rename = "Input Dims", default)]
    pub(super) dims: Vec<Value>,
    #[serde(rename = "Input type", default)]
    pub(super) types: Vec<Value>,
    #[serde(rename = "Total Allocated", default)]
    pub(super) allocated: Option<f64>,
    #[serde(rename = "Total Reserved", default)]
    pub(super) reserved: Option<f64>,
    /// 0 is the processor, 1 a CUDA device.
    #[serde(rename = "Device Type", default)]
    pub(super) device_type: Option<i64>,
}

/// Reads a trace.
pub(super) fn read(text: impl std::io::Read, file: &str) -> Result<Document, Invalid> {
    serde_json::from_reader(std::io::BufReader::new(text)).map_err(|error| {
        let place = format!("{file} line {}, column {}", error.line(), error.column());
        Invalid::inside(place, error).with_hint("export it with `profiler.export_chrome_trace(\"trace.json\")`")
    })
}
