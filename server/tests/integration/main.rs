//! The server, asked without a socket and through one.

mod api;
mod listening;
