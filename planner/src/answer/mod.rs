//! The recommendation: the best plan, its reasons, its runners-up, and what was not possible.

mod advice;
mod bound_by;
mod changes;
mod draft;
mod goal;
mod layout;
mod left_out;
mod limits;
mod methods;
mod missed;
mod no_plan;
mod on_each;
mod own_machines;
mod pareto;
mod price_dates;
mod reasons;
mod reclaimed;
mod recommendation;
mod rejected;
mod remedies;
mod samples;
mod solve;
mod terms;
mod tuning;
mod warnings;
mod ways_out;

pub use draft::{Draft, draft};
pub use limits::Limits;
pub use missed::{missed_by_choice, missed_goal};
pub use no_plan::NoPlan;
pub use on_each::{OnEach, on_each};
pub use pareto::point;
pub use recommendation::recommend;
pub use solve::optimum;
pub(crate) use solve::{best, prediction};
pub use ways_out::WaysOut;
