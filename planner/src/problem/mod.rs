//! What is to be solved: from a job as written to a question whose parts are known to fit together.

mod campaign_settings;
mod error;
mod evaluations;
mod global_batches;
mod hourly;
mod hyper_parameters;
mod input;
mod job;
mod lengths;
mod loading;
mod machines;
mod model;
mod place;
mod price_not_found;
mod quota;
mod resources;
mod software;
mod stored;
mod terms;
mod training;
mod transport;
mod usual_optimizer;

pub(crate) use campaign_settings::{SCENARIOS, Settings, settings_of};
pub use error::JobError;
pub(crate) use error::{in_job, inside};
pub(crate) use evaluations::forward_plan;
pub use evaluations::{Evaluations, ForwardPasses, ForwardTimes, forward_passes};
pub use global_batches::GlobalBatches;
pub(crate) use hourly::Hourly;
pub use hyper_parameters::check_hyper_parameters;
pub use input::{Data, InputChoice, stored_bytes};
pub(crate) use input::{chosen, data_set};
pub(crate) use job::{Effort, NORMALISED_MIN, problem_on};
pub use job::{Problem, deadline_and_budget, problem};
pub use loading::OnEveryRank;
pub(crate) use machines::memory_margin;
pub(crate) use machines::usual_types;
pub use machines::{DEFAULT_INSTANCES, DEFAULT_REGION, MAX_INSTANCES};
pub use model::UNNAMED_MODEL;
pub(crate) use model::{model, valid, with_seq_len};
pub use place::{Description, Place, Rental};
pub(crate) use place::{catalog_with, executor_stack, never_as_many, of_type, repriced};
pub use price_not_found::price_not_found;
pub use quota::Quotas;
pub(crate) use quota::class;
pub use resources::Resources;
pub(crate) use software::AUTO_STACK;
pub use software::executable;
pub(crate) use software::{
    executable_on, names_of_those_that, of_these, of_today, refused, software_of, trains, why_refused,
    with_chosen_attention,
};
pub(crate) use stored::{Stored, TEXT, name_in_catalog, named_set, stored, usual_set};
pub use terms::{NoWarmPool, no_warm_pool, price_of, price_used, purchase};
pub(crate) use terms::{service_of, stated_price};
pub use training::{Training, passes};
pub(crate) use training::{target, training};
pub(crate) use transport::{has_instead, on_no_instance, send_over, transport_named};
pub(crate) use usual_optimizer::{Usual, lighter, usual_optimizer};
