//! Events as they are written, one a line.

use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// One trace event.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Event<'a> {
    /// `X` takes time, `M` describes a row, `s` and `f` are the ends of an arrow.
    pub(super) ph: char,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cat: Option<&'static str>,
    pub(super) name: Cow<'a, str>,
    pub(super) pid: u64,
    pub(super) tid: u64,
    /// Start in microseconds.
    pub(super) ts: f64,
    /// Duration in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dur: Option<f64>,
    /// Id of an arrow: the same at both ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u64>,
    /// Binding point of an arrow's end: it ends at the event around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<Arguments<'a>>,
}

/// Arguments of an event, named as PyTorch names them, and a few of our own in lower case.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Arguments<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) labels: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sort_index: Option<u64>,
    #[serde(rename = "External id", skip_serializing_if = "Option::is_none")]
    pub(super) external: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) correlation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    #[serde(rename = "memory bandwidth (GB/s)", skip_serializing_if = "Option::is_none")]
    pub(super) bandwidth: Option<f64>,
    #[serde(rename = "Collective name", skip_serializing_if = "Option::is_none")]
    pub(super) collective: Option<&'static str>,
    #[serde(rename = "In msg nelems", skip_serializing_if = "Option::is_none")]
    pub(super) elements_in: Option<u64>,
    #[serde(rename = "Out msg nelems", skip_serializing_if = "Option::is_none")]
    pub(super) elements_out: Option<u64>,
    #[serde(rename = "Group size", skip_serializing_if = "Option::is_none")]
    pub(super) group_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dtype: Option<&'static str>,
    #[serde(rename = "In split size", skip_serializing_if = "Option::is_none")]
    pub(super) split_in: Option<&'static str>,
    #[serde(rename = "Out split size", skip_serializing_if = "Option::is_none")]
    pub(super) split_out: Option<&'static str>,
    #[serde(rename = "Process Group Name", skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<Cow<'a, str>>,
    #[serde(rename = "Process Group Description", skip_serializing_if = "Option::is_none")]
    pub(super) group_kind: Option<&'static str>,
    #[serde(rename = "Process Group Ranks", skip_serializing_if = "Option::is_none")]
    pub(super) group_ranks: Option<Cow<'a, str>>,
    #[serde(rename = "Src Rank", skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<u64>,
    #[serde(rename = "Dst Rank", skip_serializing_if = "Option::is_none")]
    pub(super) destination: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) layer: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) micro_batch: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) flops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_bytes: Option<f64>,
}

/// Writes a trace. Rank and world size stand before the events, in lines of their own: tools look for them by lines.
pub(super) struct Writer {
    text: String,
    events: usize,
    ids: u64,
}

impl Writer {
    /// Begins the trace with the metadata of the whole.
    pub(super) fn new(about: &Value) -> Self {
        let mut text = serde_json::to_string_pretty(about).expect("a value can be written");
        let end = text.rfind('}').expect("an object ends with a brace");
        text.truncate(text[..end].trim_end().len());
        text.push_str(",\n  \"traceEvents\": [");
        Self { text, events: 0, ids: 0 }
    }

    /// Returns an id that is unique in the trace.
    pub(super) fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Returns the first of `count` consecutive ids that are unique in the trace.
    pub(super) fn ids(&mut self, count: u64) -> u64 {
        self.ids += count;
        self.ids + 1 - count
    }

    pub(super) fn event(&mut self, event: &Event<'_>) {
        self.text.push_str(if self.events > 0 { ",\n" } else { "\n" });
        self.text.push_str(&serde_json::to_string(event).expect("times are finite and keys are text"));
        self.events += 1;
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("\n  ]\n}\n");
        self.text
    }
}

/// Converts nanoseconds to a trace's microseconds.
pub(super) fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
