//! Predictions against published measurements, and against those of runs that were kept.

mod memory;
mod own;
mod published;
mod runs;
