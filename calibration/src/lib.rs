//! Measurements against predictions, and measurements made into profiles.
//!
//! [`validate()`] predicts every row of a table of published measurements and sums up the errors; [`interval()`] says
//! how far a prediction may be off, which is what those errors teach. Nothing here opens a file: text comes in, text
//! and values go out.
//!
//! ```
//! let table = "system,gpus,nodes,operation,message_bytes,algbw_GBps,busbw_GBps,latency_us,notes\n\
//!              p4d.24xlarge,8,1,all_reduce,1000000000,,231,,\n";
//! let document = trainyard_calibration::validate(table, "table.csv")?;
//! let row = &document.rows[0];
//! let (measured, predicted) = (row.measured_step_time_s.unwrap(), row.predicted_step_time_s.unwrap());
//! assert!((predicted / measured - 1.0).abs() < 0.05);
//! # Ok::<(), trainyard_calibration::TableError>(())
//! ```

// Tables of measurements, and what is told of their rows.
mod document;
mod summary;
mod table;

// From a row to what the simulator says of it, and how far that may be off.
mod configuration;
mod interval;

// Tables predicted and scored.
mod collectives;
mod validate;

// Measurements made into constants and profiles.
mod fabric;
mod fit;
mod inverse;
mod kind;
mod profile;
mod profiler;
mod runs;

pub use configuration::{Configuration, Unsupported, configure};
pub use document::{RowResult, Status, SuiteResult, VALIDATION_SCHEMA, ValidationDocument};
pub use fabric::{refit_described, refit_fabrics};
pub use fit::{ConstantChange, Errors, REFIT_SCHEMA, Refit, RefitDocument, StackErrors, SuiteErrors, TermWidth, refit};
pub use interval::{NORMAL_95, interval, network_uncertainty};
pub use kind::MeasurementKind;
pub use profile::{fit_profile, profile_from_toml, profile_to_toml};
pub use profiler::{Finding, refit_trace};
pub use runs::{CorrectedProfile, RunMeasurement, correct_profile};
pub use summary::Reason;
pub use table::{Entry, MEASUREMENT_COLUMNS, Row, TableError, read_measurements};
pub use validate::{Validation, validate};
