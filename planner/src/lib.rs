//! From a job to the plan to run it with, and the reasons.
//!
//! [`problem()`] turns a job as written into a [`Problem`] that can be solved; [`recommend`] searches every plan in its
//! space, proves with lower bounds which ones need no simulation, and says why the best one is best. [`resimulate`]
//! predicts a plan document anew.
//!
//! ```
//! use trainyard_plan::{GlobalBatch, JobSpec};
//! use trainyard_planner::{Limits, Resources, problem, recommend};
//!
//! let mut job = JobSpec::default();
//! job.model.name = Some("gpt2".into());
//! job.data.tokens = Some(1e9);
//! job.training.global_batch = Some(GlobalBatch::Exactly(64));
//! job.cluster.instances = Some(vec!["p3.*".into()]);
//! job.cluster.max_instances = Some(2);
//! let problem = problem(&job, Resources::default())?;
//! let document = recommend(&problem, &Limits::default(), &job)?;
//! assert!(document.plan.cluster.instance.starts_with("p3."));
//! assert_eq!(document.search.gap, 0.0, "it is proved that no plan is cheaper");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advice;
mod amount;
mod bound_by;
mod bounds;
mod campaign;
mod cancellation;
mod changes;
mod draft;
mod evaluate;
mod explain;
mod feeding;
mod front;
mod goal;
mod hyper_parameters;
mod input;
mod job;
mod left_out;
mod overheads;
mod predict;
mod price_dates;
mod problem;
mod quota;
mod ranked;
mod reasons;
mod reclaimed;
mod recommendation;
mod rejected;
mod remedies;
mod report;
mod robust;
mod room;
mod search;
mod software;
mod space;
mod stored;
mod terms;
mod totals;
mod tuning;
mod unpriced;
mod warnings;
pub mod what_if;

pub use amount::{expected_count, usd};
pub use campaign::{CampaignError, campaign};
pub use cancellation::Cancellation;
pub use draft::{Draft, draft};
pub use explain::{ExplainError, NamedPlan, explain};
pub use front::{PointError, point};
pub use hyper_parameters::check_hyper_parameters;
pub use input::{Data, InputChoice};
pub use job::{
    DEFAULT_INSTANCES, DEFAULT_REGION, JobError, MAX_INSTANCES, Resources, UNNAMED_MODEL, problem, stored_bytes,
};
pub use predict::{DocumentError, MachineFile, MachineFiles, PredictionError, machine, resimulate, trace_step};
pub use problem::{
    Description, NoWarmPool, Place, Problem, Rental, Training, no_warm_pool, price_of, price_used, purchase,
};
pub use recommendation::{Limits, NoPlan, OnEach, missed_by_choice, missed_goal, on_each, optimum, recommend};
pub use report::{ReportContent, SourcedConstant, report_content};
pub use search::Evaluated;
pub use software::{AUTO_STACK, SoftwareError, executable};
pub use trainyard_plan::{FixError, Fixed};
pub use unpriced::Unpriced;
