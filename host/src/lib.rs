//! What the operating system tells about this machine: time, memory, processors.
//!
//! The only crate that reads the clock.

mod clock;
mod memory;
mod processor;

pub use clock::Clock;
pub use memory::{available_memory, peak_bytes, reset_peak, resident_bytes, total_memory};
pub use processor::{cores, processor_name, processor_time, threads_per_rank};
