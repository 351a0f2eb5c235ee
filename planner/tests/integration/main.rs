//! What the planner recommends, prices and explains, through its public functions.

mod advice;
mod campaigns;
mod common;
mod configurations;
mod constants;
mod evidence;
mod explain;
mod fine_tuning;
mod free_search;
mod input;
mod money;
mod recommendations;
mod scenarios;
mod what_if;
