//! `trainyard plan`: a job in, a recommended plan out.

use crate::arguments::PlanArguments;
use crate::failure::{Exit, Failure};
use crate::output::{Output, json};
use crate::{files, job};
use std::path::Path;
use trainyard_planner::missed_goal;
use trainyard_reports as reports;

/// Recommends a plan. One that misses the goal is shown all the same.
pub(crate) fn plan(arguments: &PlanArguments, output: &Output) -> Result<Exit, Failure> {
    let mut job = job::read(&arguments.job)?;
    job.aim(&arguments.goal);
    let limits = job::limits(&arguments.search, usize::from(arguments.top))?;
    let folder = arguments.out.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let problem = job.problem(folder)?;
    let document = job::solve(&problem, &limits, &job)?;
    if let Some(path) = &arguments.out {
        files::write(path, &json(&document))?;
    }
    output.result(&document, || {
        let mut page = reports::plan(&document, output.width());
        if output.verbose() {
            page += &reports::tuning(&document, output.width());
            page += &reports::front(&document, output.width());
        }
        page
    });
    if let Some(path) = &arguments.out {
        output.note(format!("plan written to {}", path.display()));
    }
    match missed_goal(&document) {
        None => Ok(Exit::Done),
        Some(why) => Err(Failure::new(Exit::MissedGoal, why).hint("the plan above comes nearest")),
    }
}
