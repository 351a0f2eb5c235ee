//! One module for each command.

pub(crate) mod calibrate;
pub(crate) mod chakra;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod fleet;
pub(crate) mod history;
pub(crate) mod plan;
pub(crate) mod prices;
pub(crate) mod queue;
pub(crate) mod report;
pub(crate) mod schemas;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod simulate;
pub(crate) mod validate;
pub(crate) mod what_if;

// What computes on this machine.
#[cfg(feature = "run")]
mod beside_weights;
#[cfg(feature = "run")]
pub(crate) mod compare;
#[cfg(feature = "run")]
mod comparison;
#[cfg(feature = "run")]
mod device;
#[cfg(feature = "run")]
mod execution;
#[cfg(feature = "run")]
mod jobs;
#[cfg(feature = "run")]
mod measure;
#[cfg(feature = "run")]
mod preparation;
#[cfg(feature = "run")]
mod processes;
#[cfg(feature = "run")]
pub(crate) mod run;
#[cfg(feature = "run")]
mod runs;
#[cfg(feature = "run")]
pub(crate) mod train;
#[cfg(feature = "run")]
mod trial;
#[cfg(feature = "run")]
mod watch;

#[cfg(not(feature = "run"))]
mod without_run;
#[cfg(feature = "run")]
use trainyard_executor::refusal;
#[cfg(not(feature = "run"))]
pub(crate) use without_run::{compare, run, train};
#[cfg(not(feature = "run"))]
use without_run::{measure, refusal, runs};
