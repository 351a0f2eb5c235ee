//! One module for each command.

pub(crate) mod calibrate;
pub(crate) mod chakra;
pub(crate) mod compare;
mod device;
mod execution;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod fleet;
pub(crate) mod history;
mod jobs;
pub(crate) mod plan;
mod processes;
pub(crate) mod queue;
pub(crate) mod report;
pub(crate) mod run;
mod runs;
pub(crate) mod schemas;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod simulate;
pub(crate) mod train;
pub(crate) mod validate;
pub(crate) mod what_if;
