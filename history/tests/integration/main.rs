//! The file of a history, and many processes that write to it.

mod at_once;
mod store;
