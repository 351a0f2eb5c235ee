//! `trainyard simulate`: one step of a plan, its whole training, or a queue of jobs.

use crate::advice;
use crate::arguments::SimulateArguments;
use crate::commands::{chakra, queue};
use crate::failure::{Exit, Failure};
use crate::files;
use crate::headline::Headline;
use crate::history::{History, Outcome};
use crate::machine;
use crate::output::{Output, json};
use crate::plot;
use crate::read;
use crate::traces;
use std::path::Path;
use trainyard_history::Kind;
use trainyard_plan::Plan;
use trainyard_plan::document::PlanDocument;
use trainyard_planner::{MachineFiles, campaign, plan_of, resimulate, trace_step};
use trainyard_reports::{self as reports, Breadth};
use trainyard_sim::{Options, Variation, memory_needed};
use trainyard_units::{Invalid, Seconds, human_bytes, human_duration};

/// Simulates what a file describes: a queue if it is TOML, a plan otherwise.
pub(crate) fn simulate(arguments: &SimulateArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    if queue::is_queue(&arguments.plan) {
        if arguments.constants.is_some() {
            return Err(Failure::input("`--constants` stands before the catalog of a plan, but this is a queue")
                .hint("jobs of a queue say how long they take"));
        }
        return queue::simulate(arguments, history, output);
    }
    if arguments.plan.is_dir() {
        return chakra::simulate(arguments, history, output);
    }
    if arguments.on.is_some() {
        return Err(Failure::input("`--on` names machines for execution traces, but this is a plan")
            .hint("a plan names its own; `--fix instance=NAME` of `plan` asks for others"));
    }
    simulate_plan(arguments, history, output)
}

fn simulate_plan(arguments: &SimulateArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    let document = read::plan(&arguments.plan)?;
    let files = read::machine_files_of(&document, &arguments.plan, arguments.constants.as_deref())?;
    let refused = |error: Invalid| {
        Failure::input(format!("cannot simulate plan `{}`", arguments.plan.display())).because_of(&error)
    };
    let plan = plan_of(&document).map_err(refused)?;
    let options = options(arguments);
    enough_memory(&plan, options)?;
    if arguments.campaign {
        return whole_training(arguments, &document, files, history, output);
    }
    let wanted = arguments.trace.is_some() || arguments.chakra.is_some();
    let trace = wanted.then(|| trace_step(&document, files.clone(), options).map_err(refused)).transpose()?;
    let traced = trace.as_ref().zip(arguments.trace.as_ref());
    let traced = traced.map(|(trace, path)| traces::files(path, trace, &plan)).transpose()?;
    let graphs = trace.as_ref().zip(arguments.chakra.as_ref());
    let graphs = graphs.map(|(trace, folder)| chakra::written(folder, trace, &plan)).transpose()?;
    let usual = without_spread(&document, &plan, &files, options).map_err(refused)?;
    let (document, outcome) = resimulate(&document, files, options).map_err(refused)?;
    let mut written: Vec<(&Path, Vec<u8>)> = Vec::new();
    let all = [&traced, &graphs].into_iter().flatten();
    written.extend(all.flat_map(|traces| &traces.files).map(|(path, content)| (&**path, content.clone())));
    if arguments.plot.plot.is_some() {
        let name = format!("{}: one step on each stage", document.plan.model.name);
        let picture = reports::step_gantt(&name, &outcome.timeline(), Breadth::Wide).map_err(plot::refused)?;
        written.extend(arguments.plot.file(&picture));
    }
    files::write_all(&written)?;
    let simulated = Outcome::new(Kind::Simulation, "plan.json", &document, Headline::from(&document))
        .with_all(read::named_by(&document, &arguments.plan));
    let kept = history.keep(simulated, output);
    output.result(&document, || reports::simulation(&document, output.width()));
    kept.tell(output);
    if let Err(full) = outcome.footprint.fits_without_margin() {
        output.warn(format!("the plan does not fit into memory: {full}"));
    }
    if let Some(usual) = usual {
        output.note(usual);
    }
    if options != Options::default() || output.verbose() {
        let (actors, ranks) = (outcome.actors, plan.mesh().ranks());
        output.note(format!("{actors} of {ranks} ranks were simulated, each for all that must behave as it does"));
    }
    for traces in [&traced, &graphs].into_iter().flatten() {
        output.note(&traces.told);
    }
    if let Some(note) = arguments.plot.note() {
        output.note(note);
    }
    Ok(Exit::Done)
}

/// Says what a step would take if no devices were drawn: it may be more, because it counts the usual stragglers.
fn without_spread(
    document: &PlanDocument,
    plan: &Plan,
    files: &MachineFiles,
    options: Options,
) -> Result<Option<String>, Invalid> {
    if options.variation.is_none() {
        return Ok(None);
    }
    let (usual, _) = resimulate(document, files.clone(), Options { variation: None, ..options })?;
    let step = human_duration(Seconds(usual.prediction.step_time_s));
    // What was measured on one machine has its differences in it.
    let counts = plan.mesh().ranks() > 1 && plan.cluster().profile.is_none();
    let stragglers =
        if counts { ", which counts the usual stragglers; with it only the devices drawn differ" } else { "" };
    Ok(Some(format!("without --spread: {step}{stragglers}")))
}

/// Simulates the whole training, many times.
fn whole_training(
    arguments: &SimulateArguments,
    document: &PlanDocument,
    files: MachineFiles,
    history: &History,
    output: &Output,
) -> Result<Exit, Failure> {
    let plan = document;
    let document = campaign(plan, files, arguments.runs, arguments.seed).map_err(|error| {
        Failure::input(format!("cannot simulate the training of plan `{}`", arguments.plan.display()))
            .because_of(&error)
            .maybe_hint(error.given().and_then(|_| advice::example(error.field())))
    })?;
    let plotted = arguments.plot.write(|| reports::campaign_plot(&document, Breadth::Wide).map_err(plot::refused))?;
    let drawn = Outcome::new(Kind::Simulation, "campaign.json", &document, Headline::from(&document))
        .with("plan.json", json(plan))
        .with_all(read::named_by(plan, &arguments.plan));
    let kept = history.keep(drawn, output);
    output.result(&document, || reports::campaign(&document, output.width()));
    kept.tell(output);
    if let Some(note) = plotted {
        output.note(note);
    }
    Ok(Exit::Done)
}

fn options(arguments: &SimulateArguments) -> Options {
    let variation = (arguments.spread > 0.0).then_some(Variation { spread: arguments.spread, seed: arguments.seed });
    Options { unfold: arguments.unfold, variation, ..Options::default() }
}

/// Checks that this machine has the memory that the simulation takes.
pub(crate) fn enough_memory(plan: &Plan, options: Options) -> Result<(), Failure> {
    let (needed, available) = (memory_needed(plan, options), machine::memory());
    if needed <= available {
        return Ok(());
    }
    Err(Failure::input(format!(
        "this simulation would need about {}, but this machine has {}",
        human_bytes(needed),
        human_bytes(available)
    ))
    .hint("without --unfold and --spread one rank is simulated for all that must behave alike; fewer micro-batches take less too"))
}
