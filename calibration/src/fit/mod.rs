//! Constants refitted from measured step times.
//!
//! The logarithms of the constants of all stacks and GPUs of a table are found together: steps are simulated at the
//! present constants, and with each constant that touches them a little larger; where they respond linearly the most
//! likely constants are found ([`solve`]); and again from there, a few times. What was known before is a normal
//! distribution around the present value, as wide as entries of the catalog differ, so that a handful of rows moves a
//! constant a little and many rows decide.
//!
//! A stack's constants, and a GPU's, are replaced only if the rows of groups that were left out whole (a model's size, a
//! number of GPUs on a system, a release) are predicted better by what the other groups say than by the present ones.

mod cross;
mod deviation;
mod document;
mod fold;
mod kinds;
mod observation;
mod outcome;
mod passes;
mod solve;
#[cfg(test)]
mod tests;
mod unknown;
mod widths;

pub use document::{ConstantChange, Errors, REFIT_SCHEMA, RefitDocument, StackErrors, SuiteErrors, TermWidth};
pub use outcome::{Refit, refit};
