//! Measurements against predictions, and measurements made into profiles.
//!
//! [`validate()`] predicts every row of a table of published measurements and sums up the errors; [`interval()`] says
//! how far a prediction may be off, which is what those errors teach. Nothing here opens a file: text comes in, text
//! and values go out.

mod collectives;
mod configuration;
mod document;
mod interval;
mod model;
mod profile;
mod summary;
mod system;
mod table;
mod validate;

pub use collectives::COLLECTIVE_COLUMNS;
pub use configuration::{Configuration, Unsupported, configure};
pub use document::{RowResult, Status, SuiteResult, VALIDATION_SCHEMA, ValidationDocument};
pub use interval::{collective_interval, interval, network_uncertainty};
pub use profile::{Measurements, ProfileError, ProfileProblem, fit_profile, profile_from_toml, profile_to_toml};
pub use summary::Reason;
pub use system::DEFAULT_STACK;
pub use table::{Entry, MEASUREMENT_COLUMNS, Row, RowError, TableError, read_measurements};
pub use validate::{Validation, validate};
