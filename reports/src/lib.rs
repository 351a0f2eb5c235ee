//! Plans, simulations and runs as text, traces and plots.
//!
//! Every function here turns a value into a string. Nothing is written and nothing is computed anew; a number that a
//! report shows stands in the value that it shows.

mod campaign;
mod chart;
mod comparison;
mod decision;
mod explanation;
mod fleet;
mod format;
mod front;
mod gantt;
mod jobs;
mod launch;
mod palette;
mod phases;
mod plan;
mod plot;
mod profile;
mod queue;
mod refit;
mod scatter;
mod show;
mod simulation;
mod trace;
mod validation;
mod what_if;

pub use campaign::campaign;
pub use comparison::comparison;
pub use decision::tuning;
pub use explanation::explanation;
pub use fleet::fleet;
pub use format::Width;
pub use front::Points;
pub use gantt::{fleet_gantt, gantt};
pub use jobs::{jobs, varied};
pub use launch::{Flag, LaunchError, LaunchOptions, Target, launch, launch_listing, launch_page};
pub use phases::phases;
pub use plan::plan;
pub use plot::{StepPoint, training};
pub use profile::profile;
pub use queue::queue;
pub use refit::{corrections, refit, refit_widths};
pub use scatter::predicted_against_measured;
pub use show::{gpu, gpus, instance, instances, model, models, schedule, schedules, stack, stacks};
pub use simulation::simulation;
pub use trace::{Process, trace};
pub use validation::{validation, validation_rows};
pub use what_if::{what_if, what_if_csv, what_if_plot};
