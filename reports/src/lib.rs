//! Plans, simulations and runs as text, traces, pictures and reports.
//!
//! Every function here turns a value into text or a [`Picture`]. Nothing is written and nothing is computed anew; a
//! number that a report shows stands in the value that it shows. Only launch files say how much of a machine their jobs
//! ask for.
//!
//! ```
//! use trainyard_reports::{Scheme, Width, gpus};
//!
//! let page = gpus(trainyard_hardware_profiles::catalog(), Width(80));
//! assert!(page.contains("v100-sxm2-16gb") && page.lines().all(|line| line.chars().count() <= 80));
//! ```

// What pages and pictures are made of: words, numbers, tables and axes.
pub mod chart;
pub mod format;
mod layout;
mod shell;

// Pages, one for each kind of document.
mod abilities;
mod campaign;
mod comparison;
mod data_sets;
mod decision;
mod explanation;
mod front;
mod history;
mod jobs;
mod plan;
mod price;
mod profile;
mod refit;
mod replay;
mod show;
mod simulation;
mod validation;
mod what_if;

// Pictures, and files for other programs.
mod launch;
mod plots;
mod trace;

// One page with all of it.
mod report;

pub use campaign::campaign;
pub use chart::{Breadth, Picture, Scheme, Theme};
pub use comparison::{comparison, disturbed, loss_unit};
pub use data_sets::{data_set, data_sets};
pub use explanation::explanation;
pub use format::Width;
pub use history::{compared, harmless, history, kept};
pub use jobs::{jobs, varied};
pub use launch::{Flag, LaunchError, LaunchOptions, Target, WRITTEN_BY, launch, launch_listing, launch_page};
pub use layout::{cluster, degrees, strategy, strategy_and_state};
pub use plan::{Detail, NextStep, optimum, plan, trained_part};
pub use plots::{
    StepPoint, bandwidth, campaign_plot, front_plot, measured_bandwidth, memory_plot, path_plot, paths_plot, phases,
    predicted_against_measured, step_gantt, training, what_if_plot,
};
pub use profile::profile;
pub use refit::{corrections, refit, refit_widths};
pub use replay::replay;
pub use report::{front_fragment, picture_fragment, pictures, plan_fragment, report, what_if_fragment};
pub use shell::{command, file_argument};
pub use show::{catalogs, gpu, gpus, instance, instances, model, models, schedule, schedules, stack, stacks};
pub use simulation::simulation;
pub use trace::{Process, rank_trace, step_trace, trace};
pub use validation::{validation, validation_rows};
pub use what_if::{what_if, what_if_csv};
