//! `trainyard plan`: a job in, a recommended plan out; or a fleet of jobs in, plans and a schedule out.

use crate::arguments::PlanArguments;
use crate::commands::fleet;
use crate::failure::{Exit, Failure};
use crate::headline::Headline;
use crate::history::{History, Outcome};
use crate::output::{Output, json};
use crate::{files, job};
use std::path::Path;
use trainyard_history::Kind;
use trainyard_plan::document::PlanDocument;
use trainyard_planner::{missed_by_choice, missed_goal, point};
use trainyard_reports::{self as reports, Breadth, Points};

/// Default number of clusters shown: the recommended one and the runners-up.
const TOP: u16 = 5;

/// Recommends a plan for a job, or plans for a fleet of jobs that share a pool.
pub(crate) fn plan(arguments: &PlanArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    if let Some(path) = arguments.job.job.as_deref().filter(|path| fleet::is_fleet(path)) {
        return fleet::plan(path, arguments, history, output);
    }
    if arguments.plans.is_some() {
        return Err(Failure::input("`--plans` is for fleets, but this is a job")
            .hint("a fleet has a [pool] and a [[job]] for each kind of jobs"));
    }
    plan_job(arguments, history, output)
}

/// Recommends a plan. A plan that misses the goal is still shown.
fn plan_job(arguments: &PlanArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    let mut job = job::read(&arguments.job)?;
    job.aim(&arguments.goal);
    let limits = job::limits(&arguments.search, usize::from(arguments.top.unwrap_or(TOP)))?;
    let folder = arguments.out.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let problem = job.problem(folder)?;
    let recommended = job::solve(&problem, &limits, &job)?;
    let document = match arguments.point {
        None => recommended,
        Some(number) => point(&problem, &recommended, usize::from(number))
            .map_err(|error| Failure::of(Exit::Input, &error).maybe_hint(error.hint()))?,
    };
    let plot = &arguments.plot;
    let drawn = plot.plot.as_deref().map(|_| reports::front_plot(&document, Breadth::Wide)).transpose();
    let picture = drawn.map_err(|why| {
        Failure::input("cannot draw time against cost").because(why).hint("machines that are not rented have no price")
    })?;
    let mut written: Vec<(&Path, Vec<u8>)> = Vec::new();
    written.extend(arguments.out.as_deref().map(|path| (path, json(&document).into_bytes())));
    written.extend(picture.as_ref().and_then(|picture| plot.file(picture)));
    files::write_all(&written)?;
    let kept = history.keep(outcome(&document, folder), output);
    let points = if output.verbose() { Points::All } else { Points::Some };
    output.result(&document, || {
        let mut page = reports::plan(&document, points, output.width());
        if output.verbose() {
            page += &reports::tuning(&document, output.width());
        }
        page
    });
    kept.tell(output);
    if let Some(path) = &arguments.out {
        output.note(format!("plan written to {}", path.display()));
    }
    if let Some(path) = &plot.plot {
        output.note(format!("plot written to {}", path.display()));
    }
    let missed = match arguments.point {
        None => missed_goal(&document).map(|why| (why, "the plan above comes nearest")),
        Some(_) => missed_by_choice(&document).map(|why| (why, "without --point the plan that comes nearest is taken")),
    };
    match missed {
        None => Ok(Exit::Done),
        Some((why, hint)) => Err(Failure::new(Exit::MissedGoal, why).hint(hint)),
    }
}

/// Returns a plan's entry for the history, with the files that it names relative to a folder.
pub(super) fn outcome(document: &PlanDocument, folder: &Path) -> Outcome {
    let headline = Headline::from(document);
    Outcome::new(Kind::Plan, "plan.json", document, headline)
        .with_all(files::named_by(document, &folder.join("plan.json")))
}
