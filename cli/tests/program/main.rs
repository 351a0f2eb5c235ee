//! The program as a process: what it prints, writes and ends with, whatever happens to it.

mod bounded;
mod commands;
mod disturbed;
mod end_to_end;
mod faults;
mod figures;
mod fleets;
mod history;
mod hostile;
mod kills;
mod metamorphic;
mod mistakes;
mod pages;
mod reports;
mod schema;
mod schemas;
mod serve;
mod signals;
mod soak;
mod streams;
mod tiny;
mod traces;
mod trainyard;
