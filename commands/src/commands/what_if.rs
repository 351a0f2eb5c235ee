//! `trainyard what-if`: a job or a plan with something varied.

use super::simulate::enough_memory;
use crate::arguments::{SearchArguments, WhatIfArguments};
use crate::caller;
use crate::failure::{Exit, Failure};
use crate::flags::{self, misplaced_of_goal, misplaced_of_job};
use crate::history::{History, Outcome};
use crate::job::Job;
use crate::output::{Output, json};
use crate::printed::is_printed;
use crate::{files, job, plot, read};
use std::path::Path;
use trainyard_hardware_profiles::ClusterFile;
use trainyard_history::Kind;
use trainyard_plan::{Plan, WhatIfDocument};
use trainyard_planner::what_if::{Axis, HeldPlan, SoughtJob, Subject, WhatIfError, axes, tornado, what_if as vary};
use trainyard_planner::{Limits, MachineFiles, Resources, SearchCache};
use trainyard_reports::{self as reports, Breadth};
use trainyard_sim::Options;

/// The problem to vary, with the job file for messages.
struct Asked {
    subject: Subject,
    job: Option<Job>,
}

/// Varies one or two keys, or each assumption behind a plan.
pub(crate) fn what_if(arguments: &WhatIfArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    let axes = axes(&arguments.vary).map_err(|error| Failure::of(Exit::Input, &error).maybe_hint(error.hint()))?;
    one_account(&axes, arguments)?;
    let asked = asked(arguments)?;
    one_table(&axes, arguments, &asked)?;
    let document = answer(&asked, &axes, arguments, output)?;
    // All outputs are made before any is written.
    let drawn = |path: &Path| {
        reports::what_if_plot(&document, Breadth::Wide)
            .map_err(|why| Failure::new(Exit::NoPlan, format!("cannot draw `{}`", path.display())).because(why))
            .map(|picture| plot::encoded(path, &picture, arguments.plot.plot_theme.scheme()))
    };
    let impossible = !axes.is_empty() && document.cases.iter().all(|case| case.figures.is_none());
    let drawn = arguments.plot.plot.as_deref().filter(|_| !impossible).map(drawn).transpose()?;
    let csv = arguments.csv.clone().filter(|path| !is_printed(path));
    let texts = [
        (&arguments.out, arguments.out.is_some().then(|| json(&document).into_bytes()), "what-if document"),
        (&csv, csv.is_some().then(|| reports::what_if_csv(&document).into_bytes()), "cases"),
        (&arguments.plot.plot, drawn, "plot"),
    ];
    let mut written = Vec::new();
    let mut together = Vec::new();
    for (path, text, what) in &texts {
        if let (Some(path), Some(text)) = (path, text) {
            together.push((path.as_path(), text));
            written.push(format!("{what} written to {}", path.display()));
        }
    }
    files::write_all(&together)?;
    let kept = history.keep(Outcome::new(Kind::WhatIf, "what-if.json", &document, (&document).into()), output);
    if arguments.csv.is_some() && csv.is_none() {
        output.as_it_is(&reports::what_if_csv(&document));
    } else {
        output.result(&document, || reports::what_if(&document, output.width()));
    }
    kept.tell(output);
    for note in &written {
        output.note(note);
    }
    if impossible {
        return Err(Failure::new(Exit::NoPlan, "there is no plan for any of these values")
            .hint("the reasons stand above; other values, or fewer held fields, may have plans"));
    }
    Ok(Exit::Done)
}

/// Refuses to vary what decides which quotas of a file apply: those of one case are not those of another.
fn one_account(axes: &[Axis], arguments: &WhatIfArguments) -> Result<(), Failure> {
    let varied = arguments.goal.quotas.as_ref().and_then(|_| axes.iter().find_map(Axis::decides_quotas));
    let Some(name) = varied else { return Ok(()) };
    let why = format!("`--quotas` and `--vary {name}` exclude each other: quotas are those of one {name}");
    Err(Failure::input(why).hint(format!("ask once for each value, with --{name}")))
}

/// Refuses to vary what decides which prices apply where the plan was made with a table of prices that is not given: others
/// would be compared with those of the catalog.
fn one_table(axes: &[Axis], arguments: &WhatIfArguments, asked: &Asked) -> Result<(), Failure> {
    let Subject::Plan(held) = &asked.subject else { return Ok(()) };
    let table = held.document.job.cluster.prices.as_ref().filter(|_| arguments.job.prices.is_none());
    let Some((table, name)) = table.zip(axes.iter().find_map(Axis::decides_prices)) else { return Ok(()) };
    let why = format!("`--vary {name}` asks for other prices, and the plan was made with those of `{table}`");
    Err(Failure::input(why).hint(format!("give that table again, with --prices {table}")))
}

fn asked(arguments: &WhatIfArguments) -> Result<Asked, Failure> {
    if let Some(path) = arguments.job.job.as_deref().filter(|path| is_plan(path)) {
        only_for_jobs(arguments)?;
        job::limits(&arguments.search, 1)?;
        let document = read::plan(path)?;
        // An invalid plan is reported, with its field, when it is varied.
        if let Ok(plan) = Plan::try_from(document.plan.clone()) {
            enough_memory(&plan, Options::default())?;
        }
        let prices = arguments.job.prices.as_deref().map(read::prices).transpose()?;
        let files = read::machine_files_of(&document, path, arguments.job.constants.as_deref())?;
        let files = MachineFiles { prices, ..files };
        return Ok(Asked { subject: Subject::Plan(Box::new(HeldPlan { document, files })), job: None });
    }
    let mut job = job::read(&arguments.job)?;
    job.aim(&arguments.goal)?;
    let limits = job::limits(&arguments.search, 1)?;
    let resources = job.resources(Path::new(""))?;
    catalog_types(arguments, &job, resources.cluster_file.as_ref())?;
    if arguments.hold || arguments.tornado {
        return hold(job, resources, &limits);
    }
    let spec = job.spec.clone();
    Ok(Asked {
        subject: Subject::Job(Box::new(SoughtJob {
            spec,
            resources,
            limits,
            cancellation: caller::cancellation(),
            cache: SearchCache::default(),
        })),
        job: Some(job),
    })
}

/// Refuses to vary the type of rented instances where the machines are those of a cluster file.
fn catalog_types(arguments: &WhatIfArguments, job: &Job, described: Option<&ClusterFile>) -> Result<(), Failure> {
    let keys = arguments.vary.iter().filter_map(|text| text.split_once('='));
    let (Some((key, values)), Some(described)) = (keys.into_iter().find(|(key, _)| *key == "instance"), described)
    else {
        return Ok(());
    };
    let file = job.spec.cluster.file.as_deref().unwrap_or_default();
    let why = format!(
        "`--vary {key}={values}` varies the type of rented machines, but `cluster.file` of the job names {file}"
    );
    let kinds: Vec<&str> =
        described.machines.iter().filter_map(|kind| kind.name.as_deref().or(kind.like.as_deref())).collect();
    let hint = match kinds.as_slice() {
        [_] | [] => "leave `cluster.file` out of the job to compare machines of the catalog".to_owned(),
        kinds => format!(
            "ask once for each kind of {file}: {}",
            kinds.iter().map(|kind| format!("`--fix instance={kind}`")).collect::<Vec<_>>().join(", ")
        ),
    };
    Err(Failure::input(why).hint(hint))
}

/// Finds the best plan of a job, to be held.
fn hold(job: Job, resources: Resources, limits: &Limits) -> Result<Asked, Failure> {
    let files = resources.machine_files();
    let document = job::solve(&job.ask(resources)?, limits, &job)?;
    Ok(Asked { subject: Subject::Plan(Box::new(HeldPlan { document, files })), job: Some(job) })
}

/// Returns `true` if a file is a plan document: by its name, or a stream by how it begins.
fn is_plan(file: &Path) -> bool {
    if caller::is_stream(file) {
        return caller::text(file).is_some_and(|text| text.trim_start().starts_with('{'));
    }
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

fn answer(
    asked: &Asked,
    axes: &[Axis],
    arguments: &WhatIfArguments,
    output: &Output,
) -> Result<WhatIfDocument, Failure> {
    let cases = axes.iter().map(|axis| axis.len() as u64).product::<u64>();
    let bar = output.bar(cases, "  {msg} {bar:40} {pos} of {len}, {elapsed}").with_message("varying");
    let done = || bar.inc(1);
    let found = match (&asked.subject, arguments.tornado) {
        (Subject::Plan(plan), true) => tornado(plan),
        (subject, _) => vary(subject, axes, &done),
    };
    bar.finish_and_clear();
    found.map_err(|error| match (&error, &asked.job) {
        (WhatIfError::Job(wrong), Some(job)) => job.explain(wrong),
        (_, None) => {
            let file = arguments.job.job.as_deref().unwrap_or(Path::new("")).display();
            Failure::input(format!("cannot vary plan `{file}`")).because(error.to_string()).maybe_hint(error.hint())
        }
        _ => Failure::of(Exit::Input, &error).maybe_hint(error.hint()),
    })
}

/// Refuses flags that do not apply to a plan.
fn only_for_jobs(arguments: &WhatIfArguments) -> Result<(), Failure> {
    let SearchArguments { max_simulations, fix, threads: _ } = &arguments.search;
    let of_search =
        [("--max-simulations", max_simulations.is_some(), "a job"), ("--fix", !fix.is_empty(), "the field itself")];
    let of_search = of_search.into_iter().map(|(flag, given, key)| (flag, given, vary_instead(key)));
    let of_job = misplaced_of_job(&arguments.job, vary_instead);
    flags::refuse(
        of_job.chain(misplaced_of_goal(&arguments.goal, vary_instead)).chain(of_search),
        "is for jobs, but this is a plan, which is held",
    )
}

/// Advises which key of a plan to vary in place of a field of a job.
fn vary_instead(field: &str) -> String {
    let key = match field {
        "a job" | "data.dataset" | "goal.objective" | "cluster.memory_margin" | "cluster.quotas" | "cluster.file" => {
            return "give the job instead of its plan".into();
        }
        "model" => "model.*",
        "data.storage" => "input.storage",
        "training.global_batch" => "batch.global",
        "cluster.instances" => "instance",
        "cluster.max_instances" => "instances",
        "cluster.region" => "region",
        "cluster.pricing" => "pricing",
        "cluster.service" => "service",
        key => key,
    };
    format!("vary {key} instead")
}
