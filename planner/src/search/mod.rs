//! The search over every plan that could be built, for the best one by a stated aim.
//!
//! [`Space`] lists candidates and their variants; bounds on memory, time and input dismiss most of them; a [`Prepared`]
//! space is searched with any number of [`Aim`]s; and [`choose`] prefers, of plans that cannot be told apart, the one that
//! an engineer would launch.

mod aim;
mod arrangement;
mod bounds;
mod cases;
mod complexity;
mod evaluate;
mod found;
mod input_stalls;
mod known;
mod layer_prices;
mod layers_held;
mod memory_bound;
mod near_optimal;
mod overheads;
mod prepared;
mod refusal;
mod searcher;
mod space;
mod surer;
mod totals;
mod usual_batch;

pub(crate) use aim::{Aim, Ceilings, Ranking, Within, amount, nearest, other};
pub(crate) use arrangement::{UNSHARDED, other_compression, other_offload, other_recomputation, other_sharding};
pub use cases::cases_to_measure;
pub(crate) use complexity::Complexity;
pub(crate) use found::Found;
pub(crate) use near_optimal::{
    GIVEN_UP_MAX, SEVERAL_MACHINES, SIMPLER_FOR_USD, choose, choose_briefly, given_up_for_set_up, indistinct,
    is_more_set_up_than_saved, preferred, simplest_of_best,
};
pub use near_optimal::{INDISTINCT, LEFT_OVER, MUCH, SAME, has_uneven_stages, simpler_than};
pub(crate) use prepared::Prepared;
pub(crate) use searcher::search;
pub(crate) use space::{Space, repeated};
pub(crate) use surer::best_by;
pub use totals::Evaluated;
pub(crate) use totals::{Totals, is_quick};
