//! Formats of other programs: graphs of ONNX become models, simulated steps become execution traces of Chakra and back,
//! and what the AWS command line prints becomes prices and quotas.
//!
//! ```
//! use trainyard_interop::{chakra, from_onnx};
//!
//! assert!(from_onnx(std::io::Cursor::new("text"), "own").is_err());
//! let groups = chakra::groups(r#"{"1": [0, 1], "2": [2, 3]}"#)?;
//! assert_eq!(groups["2"], [2, 3]);
//! # Ok::<(), trainyard_units::Invalid>(())
//! ```

pub mod aws;
pub mod chakra;
mod onnx;

pub use onnx::{ONNX_BYTES_MAX, from_onnx};
