//! A trace of the PyTorch profiler as events: only those that constants can be learned from.
//!
//! A trace of a few steps is hundreds of megabytes of text, so that it is read piece by piece, and what is kept of an
//! event is some dozens of bytes, whatever stands in it.
//!
//! # Source
//!
//! The object form of Chrome's trace events as `torch.profiler` exports it: complete events (`ph` = `X`) of the
//! categories `cpu_op`, `cuda_runtime`, `cuda_driver`, `kernel` and `user_annotation`, and instants named `[memory]`.
//! Times are in microseconds.

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufReader, ErrorKind, Read};
use trainyard_units::Invalid;

/// Calls that give the device a kernel.
const LAUNCHES: [&str; 4] = ["cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"];

/// Calls in which the host waits for the device.
const WAITS: [&str; 5] =
    ["cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cudaFree"];

/// The largest number of events that are kept: those of hundreds of steps.
const EVENTS_MAX: usize = 3_000_000;

/// The largest number of threads of which calls are kept apart, and the longest name of one in bytes.
const THREADS_MAX: usize = 10_000;
const THREAD_NAME_MAX: usize = 256;

/// The longest part of a trace in bytes that is held as a whole: an event, or a text beside them.
const PART_MAX: usize = 2 << 20;

/// The depth of brackets in which events are listed.
const LIST: usize = 2;

/// The most sides of a matrix of a product, with those of its batch, and the longest name of a type of numbers in bytes.
const SIDES_MAX: usize = 3;
const NUMBER_MAX: usize = 32;

/// The content of a trace.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    #[serde(rename = "traceEvents", deserialize_with = "events")]
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

/// An event that a constant can be learned from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    /// Microseconds.
    pub(super) ts: f64,
    /// Microseconds.
    pub(super) dur: f64,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// A step that `prof.step()` marked.
    Step,
    /// A call that gives the device a kernel, on a thread.
    Launch(u32),
    /// A call that waits for the device, on a thread.
    Wait(u32),
    /// A kernel of an operator, by the operator's number.
    Kernel(u64),
    /// A matrix product.
    Product(Box<Product>),
    /// What the allocator of a device holds, and what of it tensors take, in bytes.
    Memory { reserved: f64, allocated: f64 },
}

/// An operator that is a matrix product.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Product {
    /// The number by which its kernels name it.
    pub(super) id: u64,
    /// The sides of the matrix on the left, and of the one on the right.
    pub(super) left: Vec<u64>,
    pub(super) right: Vec<u64>,
    /// The type of numbers.
    pub(super) number: String,
}

impl Event {
    pub(super) fn end(&self) -> f64 {
        self.ts + self.dur
    }
}

/// Reads a trace.
pub(super) fn read(text: impl Read, file: &str) -> Result<Document, Invalid> {
    let text = BufReader::new(ShortParts { text, length: 0, depth: 0, in_text: false, escaped: false });
    serde_json::from_reader(text).map_err(|error| {
        let place = format!("{file} line {}, column {}", error.line(), error.column());
        Invalid::inside(place, error).with_hint("export it with `profiler.export_chrome_trace(\"trace.json\")`")
    })
}

/// A reader of JSON that ends with an error when an event or a text is too long.
struct ShortParts<R> {
    text: R,
    /// Bytes of the present part.
    length: usize,
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl<R: Read> Read for ShortParts<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.text.read(buffer)?;
        for byte in &buffer[..read] {
            self.length += 1;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = self.in_text,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if !self.in_text && self.depth <= LIST {
                self.length = 0;
            } else if self.length > PART_MAX {
                let problem = format!("a part of the trace is longer than {PART_MAX} bytes");
                return Err(std::io::Error::new(ErrorKind::InvalidData, problem));
            }
        }
        Ok(read)
    }
}

fn events<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Event>, D::Error> {
    deserializer.deserialize_seq(Events::default())
}

/// The events of a trace, of which those are kept that matter.
#[derive(Default)]
struct Events {
    kept: Vec<Event>,
    threads: BTreeMap<String, u32>,
}

impl<'de> Visitor<'de> for Events {
    type Value = Vec<Event>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Vec<Event>, A::Error> {
        while let Some(written) = list.next_element::<Written>()? {
            let Some(event) = self.event(written).map_err(A::Error::custom)? else { continue };
            if self.kept.len() == EVENTS_MAX {
                return Err(A::Error::custom(format!("there are more than {EVENTS_MAX} events: trace fewer steps")));
            }
            self.kept.push(event);
        }
        Ok(self.kept)
    }
}

impl Events {
    /// Returns what is kept of an event, if it matters.
    fn event(&mut self, written: Written) -> Result<Option<Event>, String> {
        let Written { ph, cat, name, ts, dur, tid, args } = written;
        let what = match (ph.as_str(), cat.as_str(), name.as_str()) {
            ("X", "user_annotation", name) if name.starts_with("ProfilerStep#") => Some(What::Step),
            ("X", "cuda_runtime" | "cuda_driver", name) if LAUNCHES.contains(&name) => {
                Some(What::Launch(self.thread(&tid)?))
            }
            ("X", "cuda_runtime" | "cuda_driver", name) if WAITS.contains(&name) => {
                Some(What::Wait(self.thread(&tid)?))
            }
            ("X", "kernel", _) => args.external.map(What::Kernel),
            ("X", "cpu_op", name) => left_operand(name).and_then(|left| args.product(left)),
            (_, _, "[memory]") if args.device_type == Some(1) => {
                args.reserved.zip(args.allocated).map(|(reserved, allocated)| What::Memory { reserved, allocated })
            }
            _ => None,
        };
        Ok(what.map(|what| Event { ts, dur, what }))
    }

    /// Numbers the threads, which are called by a number or a word.
    fn thread(&mut self, tid: &Value) -> Result<u32, String> {
        let name = tid.to_string();
        if name.len() > THREAD_NAME_MAX {
            return Err(format!("the name of a thread is longer than {THREAD_NAME_MAX} bytes"));
        }
        let next = self.threads.len();
        if next == THREADS_MAX && !self.threads.contains_key(&name) {
            return Err(format!("calls are of more than {THREADS_MAX} threads"));
        }
        Ok(*self.threads.entry(name).or_insert(next as u32))
    }
}

/// One event as it is written. Fields of other tools are not read.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    ph: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    /// A number, or a word for rows that are no thread.
    #[serde(default)]
    tid: Value,
    #[serde(default)]
    args: Arguments,
}

#[derive(Default, Deserialize)]
struct Arguments {
    #[serde(rename = "External id", default)]
    external: Option<u64>,
    #[serde(rename = "Input Dims", default)]
    dims: Vec<Value>,
    #[serde(rename = "Input type", default)]
    types: Vec<Value>,
    #[serde(rename = "Total Allocated", default)]
    allocated: Option<f64>,
    #[serde(rename = "Total Reserved", default)]
    reserved: Option<f64>,
    /// 0 is the processor, 1 a CUDA device.
    #[serde(rename = "Device Type", default)]
    device_type: Option<i64>,
}

impl Arguments {
    /// Returns a product whose matrix on the left is the operand of this index, if its operands are recorded.
    fn product(&self, left: usize) -> Option<What> {
        let sides = |index: usize| -> Option<Vec<u64>> {
            let sides = self.dims.get(index)?.as_array()?;
            if sides.len() > SIDES_MAX { None } else { sides.iter().map(Value::as_u64).collect() }
        };
        let number = self.types.get(left)?.as_str().filter(|name| name.len() <= NUMBER_MAX)?.to_owned();
        let product = Product { id: self.external?, left: sides(left)?, right: sides(left + 1)?, number };
        Some(What::Product(Box::new(product)))
    }
}

/// The operand of a matrix product that is the matrix on the left; none for other operators.
fn left_operand(operator: &str) -> Option<usize> {
    match operator {
        "aten::mm" | "aten::bmm" => Some(0),
        "aten::addmm" | "aten::baddbmm" => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        read(text.as_bytes(), "t.json").expect_err("a hostile trace").to_string()
    }

    #[test]
    fn what_is_held_of_a_trace_is_bounded() {
        let long = "x".repeat(PART_MAX);
        assert!(refused(&format!("{{\"traceEvents\": [{{\"name\": \"{long}\"}}]}}")).contains("is longer than"));
        assert!(refused(&format!("{{\"{long}\": 1}}")).contains("is longer than"));
        let many = "\"\",".repeat(PART_MAX / 3);
        let event = format!("{{\"traceEvents\": [{{\"args\": {{\"Input type\": [{many}1]}}}}]}}");
        assert!(refused(&event).contains("is longer than"));
        let wait = "{\"ph\":\"X\",\"cat\":\"cuda_driver\",\"name\":\"cudaFree\",\"tid\":1}";
        let short = format!("{{\"traceEvents\": [{}{wait}]}}", format!("{wait},").repeat(PART_MAX / wait.len()));
        let read = read(short.as_bytes(), "t.json").expect("many events, none of them long");
        assert_eq!(read.events.len(), PART_MAX / wait.len() + 1);
        assert!(read.events.iter().all(|event| event.what == What::Wait(0)));
    }

    #[test]
    fn brackets_and_quotation_marks_inside_texts_do_not_count() {
        let text = r#"{"a": "}]\\\"[", "traceEvents": [{"ph": "X", "cat": "kernel", "name": "{{\"", "args": {"External id": 7}}]}"#;
        assert_eq!(read(text.as_bytes(), "t.json").expect("a trace").events[0].what, What::Kernel(7));
        assert!(refused(r#"{"traceEvents": [], "traceEvents": []}"#).contains("duplicate field"));
    }
}
