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

// Values and marks that know nothing of jobs and plans.
mod amount;
mod cache;
mod cancellation;
mod missed;
mod relative;
mod shortfall;

// Changes to machines, prices and plans.
mod edits;

// The question: a job whose parts are known to fit together.
mod problem;

// One plan on its machines: its whole training, in time and money.
mod campaign;
mod cost;
mod loading;
mod packed_attention;
mod predict;

// All plans: the search for the best of them.
mod search;

// The answer: the plan to run, with its reasons.
mod answer;

// Questions about plans that are there.
mod explain;
mod report;
pub mod what_if;

#[cfg(test)]
mod asking;

pub use amount::{expected_count, likelihood, usd};
pub use answer::{
    CERTAIN, Draft, Freed, GivenUp, LIKELY, Limits, NoPlan, OnEach, OnMachines, OtherMethod, QuotaShare,
    SharedInstances, TrainingSpread, WaysOut, draft, likely, on_each, on_each_briefly, optimum, point,
    prices_of_shared, recommend,
};
pub use cache::SearchCache;
pub use campaign::campaign;
pub use cancellation::Cancellation;
pub use cost::{chance_of_deviations, checkpoint_time, interval_between};
pub use edits::cards_in_words;
pub use explain::{ExplainError, NamedPlan, explain};
pub use loading::{FirstPass, Loading, loading};
pub use missed::missed_goal;
pub use packed_attention::lacks_flash_attention;
pub use predict::{MachineFile, MachineFiles, machine, named_machine, plan_of, resimulate, trace_step};
pub use problem::{
    DEFAULT_INSTANCES, DEFAULT_REGION, Data, Description, Evaluations, ForwardPasses, ForwardTimes, GlobalBatches,
    InputChoice, JobError, MAX_INSTANCES, NoWarmPool, OnEveryRank, Place, Problem, Quotas, Rental, Resources, Training,
    UNNAMED_MODEL, check_hyper_parameters, deadline_and_budget, executable, forward_passes, no_warm_pool, passes,
    price_not_found, price_of, price_used, problem, purchase, stored_bytes,
};
pub use relative::{beyond, pace, price};
pub use report::{ReportContent, SourcedConstant, report_content};
pub use search::{Evaluated, INDISTINCT, LEFT_OVER, MUCH, SAME, cases_to_measure, has_uneven_stages, simpler_than};
pub use shortfall::Shortfall;
pub use trainyard_calibration::NORMAL_95;
