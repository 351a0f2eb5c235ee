//! What takes the place of commands that compute on this machine, in a program that was built without them.

use crate::failure::Failure;
use trainyard_plan::{Plan, not_executable};
use trainyard_units::Invalid;

/// Says that the program only plans.
fn absent(what: &str) -> Failure {
    Failure::input(format!("this build of trainyard only plans: {what} needs the feature `run`"))
        .hint("`cargo build --release` in the repository builds it, in about ten minutes")
}

macro_rules! absent {
    ($($module:ident::$command:ident($($argument:ty),*) is $what:literal;)*) => {
        $(pub(crate) mod $module {
            use super::absent;
            use crate::arguments::*;
            use crate::failure::{Exit, Failure};
            use crate::output::Output;

            pub(crate) fn $command($(_: $argument),*) -> Result<Exit, Failure> {
                Err(absent($what))
            }
        })*
    };
}

absent! {
    train::train(&TrainArguments, &crate::history::History, &Output) is "`train`";
    run::run(&RunArguments, &crate::history::History, &Output) is "`run`";
    compare::compare(&CompareArguments, &Output) is "`compare`";
    measure::calibrate(&CalibrateArguments, &Output) is "`calibrate` without --from";
    runs::correct(&std::path::Path, &CalibrateArguments, &Output) is "`calibrate --from` a run";
}

/// Returns the reason why this program's own executor cannot run a plan, as far as the plan tells.
pub(super) fn refusal(plan: &Plan) -> Option<Invalid> {
    not_executable(plan).map(|refused| {
        Invalid::breaks(refused.field, refused.value, format!("the executor runs only {}", refused.allowed))
    })
}
