//! Messages of the format. Numbers of fields are those of `et_def.proto`.

use prost::{Message, Oneof};

/// `NodeType`.
pub(super) const METADATA: i32 = 1;
pub(super) const MEMORY_LOAD: i32 = 2;
pub(super) const MEMORY_STORE: i32 = 3;
pub(super) const COMPUTE: i32 = 4;
pub(super) const SEND: i32 = 5;
pub(super) const RECEIVE: i32 = 6;
pub(super) const COLLECTIVE: i32 = 7;

/// Some of `CollectiveCommType`; `Collective::chakra_type` has the rest.
pub(super) const BROADCAST: i64 = 5;
pub(super) const REDUCE_SCATTER_BLOCK: i64 = 8;
pub(super) const BARRIER: i64 = 9;

/// `GlobalMetadata`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(string, tag = "1")]
    pub(super) version: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) attr: Vec<Attribute>,
}

/// `AttributeProto`, without its lists, which are skipped.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(oneof = "Value", tags = "3, 5, 7, 9, 11, 13, 27, 29")]
    pub(super) value: Option<Value>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(string, tag = "29")]
    Text(String),
}

/// `Node`, without inputs and outputs.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(int32, tag = "3")]
    pub(super) kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub(super) control: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub(super) data: Vec<u64>,
    #[prost(uint64, tag = "6")]
    pub(super) start_micros: u64,
    #[prost(uint64, tag = "7")]
    pub(super) duration_micros: u64,
    #[prost(message, repeated, tag = "10")]
    pub(super) attr: Vec<Attribute>,
}

impl Attribute {
    pub(super) fn new(name: &str, value: Value) -> Self {
        Self { name: name.into(), value: Some(value) }
    }
}

impl Node {
    fn value(&self, name: &str) -> Option<&Value> {
        self.attr.iter().find(|attribute| attribute.name == name)?.value.as_ref()
    }

    /// Returns an attribute as an integer, whatever type it is written in.
    pub(super) fn int(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Value::Int32(value) => Some(i64::from(*value)),
            Value::Int64(value) => Some(*value),
            Value::Uint32(value) => Some(i64::from(*value)),
            Value::Uint64(value) => i64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// Returns an attribute as a number that is not negative, whatever type it is written in.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        let number = match self.value(name)? {
            Value::Double(value) => *value,
            Value::Float(value) => f64::from(*value),
            _ => self.int(name)? as f64,
        };
        (number.is_finite() && number >= 0.0).then_some(number)
    }

    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Bool(true)))
    }

    /// Returns an attribute as text, which may be written as a number.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::Text(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            _ => self.int(name).map(|number| number.to_string()),
        }
    }
}
