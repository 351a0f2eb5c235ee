//! `trainyard plan` for fleets: jobs that share a pool, a deadline and a budget.

use crate::advice;
use crate::arguments::{GoalArguments, PlanArguments};
use crate::caller;
use crate::diagnose;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::flags::{self, Typed, as_typed, in_each_job, misplaced_of_job};
use crate::history::{History, Outcome};
use crate::job::{self, Job};
use crate::marks::{self, Mark};
use crate::output::{Output, json};
use crate::quotas;
use crate::read;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use trainyard_history::Kind;
use trainyard_plan::{ClusterChoice, JobSpec};
use trainyard_pool::fleet::{self, FleetError, FleetJob, FleetJobSpec, FleetSpec, PlannedFleet, plan_fleet};
use trainyard_units::{Invalid, counted};

/// Plans a fleet. A plan that misses its goal is still shown.
pub(crate) fn plan(
    file: &Path,
    arguments: &PlanArguments,
    history: &History,
    output: &Output,
) -> Result<Exit, Failure> {
    only_for_jobs(arguments)?;
    let mut spec: FleetSpec = diagnose::from_toml("fleet", &read::text("fleet", file)?, file)?;
    aim(&mut spec, &arguments.goal, file)?;
    expect_plans(&spec, arguments.plans.as_deref())?;
    let limits = job::limits(&arguments.search, 1)?;
    let constants = arguments.job.constants.as_deref();
    let jobs = spec.jobs.iter().enumerate().map(|(index, entry)| {
        let named = if entry.file.is_some() { ".file" } else { "" };
        let place = |failure: Failure| failure.inside(refused(file), &format!("in `job[{index}]{named}`"));
        let mut job = read(entry, file, constants).map_err(place)?;
        software(&mut job.spec.cluster, &arguments.goal);
        let resources = job.resources(arguments.plans.as_deref().unwrap_or(Path::new(""))).map_err(place)?;
        Ok(FleetJob { spec: job.spec, resources })
    });
    let jobs: Vec<FleetJob> = jobs.collect::<Result<_, Failure>>()?;
    let pool = pool(&spec, file, constants)
        .resources(arguments.plans.as_deref().unwrap_or(Path::new("")))
        .map_err(|failure| failure.inside(refused(file), "in `pool.file`"))?;
    let bar = output.bar(jobs.len() as u64, "  {msg} {bar:40} {pos} of {len}, {elapsed}").with_message("planning");
    let planned = plan_fleet(&spec, &pool, &jobs, &limits, &caller::cancellation(), &|| bar.inc(1));
    bar.finish_and_clear();
    let planned = planned.map_err(|error| explain(&error, &spec, file, &arguments.goal))?;
    let notes = write(&planned, &spec, file, arguments)?;
    let document = &planned.document;
    let kept = history.keep(Outcome::new(Kind::Plan, "fleet.json", document, document.into()), output);
    output.result(document, || fleet::page(document, output.width(), output.verbose()));
    kept.tell(output);
    for note in notes {
        output.note(note);
    }
    match &document.missed {
        None => Ok(Exit::Done),
        Some(why) => {
            Err(Failure::new(Exit::MissedGoal, why.clone()).hint("the schedule above comes about as near as any"))
        }
    }
}

/// Overrides pool and goal by flags.
fn aim(spec: &mut FleetSpec, flags: &GoalArguments, file: &Path) -> Result<(), Failure> {
    let (pool, goal) = (&mut spec.pool, &mut spec.goal);
    goal.objective = flags.objective.or(goal.objective);
    goal.deadline = flags.deadline.clone().or(goal.deadline.take());
    goal.budget = flags.budget.or(goal.budget);
    if let Some(path) = &flags.cluster {
        pool.file = Some(job::beside_job(&path.display().to_string(), Some(file)));
    }
    pool.instances = flags.instances.clone().or(pool.instances.take());
    pool.max_instances = flags.max_instances.or(pool.max_instances);
    pool.region = flags.region.clone().or(pool.region.take());
    pool.pricing = flags.pricing.or(pool.pricing);
    pool.service = flags.service.clone().or(pool.service.take());
    if let Some(path) = &flags.quotas {
        let (region, pricing, service) = (pool.region.clone(), pool.pricing, pool.service.clone());
        let terms = ClusterChoice { region, pricing, service, ..ClusterChoice::default() };
        pool.quotas = Some(quotas::read(path, &terms)?);
    }
    Ok(())
}

/// Overrides by flags what the machines of every job run with.
fn software(cluster: &mut ClusterChoice, flags: &GoalArguments) {
    cluster.transport = flags.transport.clone().or(cluster.transport.take());
    cluster.stack = flags.stack.clone().or(cluster.stack.take());
    cluster.memory_margin = flags.memory_margin.clone().or(cluster.memory_margin.take());
}

/// Returns the machines of a pool as those of a job, whose files are read in the same way.
fn pool(spec: &FleetSpec, fleet: &Path, constants: Option<&Path>) -> Job {
    let cluster = ClusterChoice { file: spec.pool.file.clone(), ..ClusterChoice::default() };
    Job::of(JobSpec { cluster, ..JobSpec::default() }, fleet.into(), constants)
}

/// Reads the job of an entry, in place or in its file.
fn read(entry: &FleetJobSpec, fleet: &Path, constants: Option<&Path>) -> Result<Job, Failure> {
    let Some(path) = &entry.file else { return Ok(Job::of(entry.in_place(), fleet.into(), constants)) };
    let path = files::beside(fleet, Path::new(path));
    let spec: JobSpec = diagnose::from_toml("job", &read::text("job", &path)?, &path)?;
    Ok(Job::of(spec, path, constants))
}

fn refused(file: &Path) -> Failure {
    Failure::input(format!("cannot plan fleet `{}`", file.display()))
}

/// Returns advice about what is wrong in a fleet, as it was typed.
fn advised(own: &Invalid, given: &[Typed]) -> String {
    flags::invalid(own, given).1.unwrap_or_else(|| advice::about(own.field(), "fleet-file"))
}

/// Returns the failure of a fleet that cannot be planned.
fn explain(error: &FleetError, spec: &FleetSpec, file: &Path, goal: &GoalArguments) -> Failure {
    let given = flags::of_fleet(goal, spec.jobs.len());
    let typed = |text: String| as_typed(&text, &given);
    let hint = match error {
        FleetError::NoPlan { .. } => error.hint().map(typed),
        FleetError::Invalid(own) => Some(advised(own, &given)),
        FleetError::Job { error: own, .. } => Some(advised(own.invalid(), &given)),
    };
    if let FleetError::NoPlan { .. } = error {
        return Failure::of(Exit::NoPlan, error).maybe_hint(hint);
    }
    let of_file = |index: usize| spec.jobs.get(index).and_then(|entry| entry.file.as_ref());
    let told = match error {
        FleetError::Job { index, error } => match of_file(*index) {
            Some(path) => {
                let path = files::beside(file, Path::new(path));
                let place = format!("in `job[{index}].file`: cannot plan the job `{}`", path.display());
                refused(file).because(place).because(typed(error.to_string()))
            }
            None => refused(file).because(typed(FleetError::Job { index: *index, error: error.clone() }.to_string())),
        },
        other => refused(file).because(typed(other.to_string())),
    };
    told.maybe_hint(hint)
}

/// Writes the requested files, all of them or none. Returns what was written.
fn write(
    planned: &PlannedFleet,
    spec: &FleetSpec,
    file: &Path,
    arguments: &PlanArguments,
) -> Result<Vec<String>, Failure> {
    let (mut texts, mut notes): (Vec<(PathBuf, Vec<u8>)>, Vec<String>) = Default::default();
    if let Some(path) = &arguments.out {
        texts.push((path.clone(), json(&planned.document).into_bytes()));
        notes.push(format!("fleet written to {}", path.display()));
    }
    if let Some(path) = &arguments.plot.plot {
        let picture = fleet::gantt(&planned.document).map_err(|why| refused(file).because(why))?;
        texts.extend(arguments.plot.file(&picture).map(|(path, content)| (path.to_owned(), content)));
        notes.push(format!("Gantt chart written to {}", path.display()));
    }
    if let Some(folder) = &arguments.plans {
        let documents = planned.plan_documents().map_err(|error| explain(&error, spec, file, &arguments.goal))?;
        let mut names = BTreeSet::new();
        for (name, document) in &documents {
            texts.push((folder.join(file_name(name, &mut names)), json(document).into_bytes()));
        }
        notes.push(format!("{} written to {}", counted(documents.len() as u64, "plan"), folder.display()));
    }
    files::write_all(&texts)?;
    Ok(notes)
}

/// Refuses a folder in which files that are no plans have the names of those to be written, before these are sought.
fn expect_plans(spec: &FleetSpec, folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else { return Ok(()) };
    let mut names = BTreeSet::new();
    let called = spec.jobs.iter().enumerate().map(|(index, job)| job.called(index + 1));
    let mut files = called.map(|name| folder.join(file_name(&name, &mut names)));
    files.try_for_each(|file| marks::expect(&file, &[Mark::document("plan")]))
}

/// Returns the file name of a kind's plan document: the kind's name as far as files may have it, and unlike the taken
/// ones.
fn file_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let plain = files::plain_name(name);
    let mut own = format!("{plain}.json");
    for number in 2.. {
        if taken.insert(own.to_lowercase()) {
            break;
        }
        own = format!("{plain}-{number}.json");
    }
    own
}

/// Refuses flags that do not apply to a fleet.
fn only_for_jobs(arguments: &PlanArguments) -> Result<(), Failure> {
    let own = [
        ("--prices", arguments.job.prices.is_some(), "a pool is rented at the prices of the catalog"),
        ("--point", arguments.point.is_some(), "a fleet has no front of plans"),
        ("--top", arguments.top.is_some(), "plan a job by itself to see its runners-up"),
    ];
    let own = own.map(|(flag, given, advice)| (flag, given, advice.into()));
    flags::refuse(misplaced_of_job(&arguments.job, in_each_job).chain(own), "is for jobs, but this is a fleet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_flags_set_are_named_by_them() {
        let goal = GoalArguments { region: Some("x".into()), stack: Some("y".into()), ..GoalArguments::default() };
        let typed = |text: &str| as_typed(text, &flags::of_fleet(&goal, 2));
        assert_eq!(typed("`pool.region` and `pool.file`"), "`--region` and `pool.file`");
        assert_eq!(typed("`job[1].cluster.stack` is y, `goal.budget`"), "`--stack` is y, `goal.budget`");
    }

    #[test]
    fn no_two_kinds_have_plans_in_one_file() {
        let mut taken = BTreeSet::new();
        let names = ["a b", "a-b", "A-b", "ä/b"].map(|name| file_name(name, &mut taken));
        assert_eq!(names, ["a-b.json", "a-b-2.json", "A-b-3.json", "--b.json"]);
    }
}
