//! Steps that are simulated through the public functions: what they must equal, obey and react to.

mod equalities;
mod network_bandwidth;
mod replay;
mod sensitivity;
mod tables_and_steps;
mod traces;
mod twin;
