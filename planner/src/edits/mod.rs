//! Values to which something is set in a machine, at a price or in a plan, and the changes that follow.

mod batch;
mod machine;
mod present;
mod setting;

pub(crate) use batch::set_batch;
pub(crate) use machine::{MachineChange, Part, PriceChange};
pub use present::cards_in_words;
pub(crate) use present::gigabits;
pub(crate) use setting::{EXACT_MAX, Setting};
