//! Execution traces of MLCommons Chakra: written from a simulated step, and simulated on machines of the catalog.

use crate::arguments::SimulateArguments;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::headline::Headline;
use crate::history::{History, Outcome};
use crate::output::Output;
use crate::read;
use crate::traces::Traces;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trainyard_hardware_profiles::DEFAULT_STACK;
use trainyard_history::Kind;
use trainyard_interop::chakra::{self, CHAKRA_BYTES_MAX, CHAKRA_NODES_MAX};
use trainyard_plan::{Plan, REPLAY_SCHEMA, RankGraph, ReplayDocument, StepTrace, TraceDetail};
use trainyard_reports as reports;
use trainyard_sim::{Machine, replay};
use trainyard_units::Invalid;

/// Limits of the simulation: what an execution trace does not say.
const NOT_MODELLED: [&str; 3] = [
    "that kernels are slower beside collectives, beyond what their measured times hold",
    "ranks laid on machines otherwise than one after another",
    "inputs and outputs of nodes, and what fits into memory",
];

/// Returns the files of a simulated step in a folder, with a message about them.
pub(crate) fn written(folder: &Path, trace: &StepTrace, plan: &Plan) -> Result<Traces, Failure> {
    let cannot = |error: Invalid| {
        Failure::input("cannot write the step as execution traces").because(error.to_string()).maybe_hint(error.hint())
    };
    let written = chakra::write(trace, plan).map_err(cannot)?;
    let coarse = match written.detail {
        TraceDetail::Operators => String::new(),
        detail => format!("; there are so many ranks that {detail} are told apart, not operators"),
    };
    let told =
        format!("{} nodes of {} ranks written to {}{coarse}", written.nodes, written.files.len() - 1, folder.display());
    let files = written.files.into_iter().map(|(name, content)| (folder.join(name), content)).collect();
    Ok(Traces { files, told })
}

/// Simulates the execution traces of a folder.
pub(crate) fn simulate(arguments: &SimulateArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    let folder = &arguments.plan;
    let cannot = || Failure::input(format!("cannot simulate the execution traces in `{}`", folder.display()));
    let Some(instance) = &arguments.on else {
        return Err(cannot()
            .because("the machines are not named")
            .hint("write --on p4d.24xlarge, see `trainyard show instances`"));
    };
    let (ranks, groups) = read(folder)?;
    let catalog = read::catalog_of(arguments.constants.as_deref())?;
    let known = catalog.instance(instance);
    let known = known.map_err(|error| Failure::input(format!("`--on {instance}`: {error}")).hint(error.hint()))?;
    let instances = arguments.instances.unwrap_or_else(|| (ranks.len() as u32).div_ceil(known.gpus.max(1)));
    let cluster =
        catalog.cluster(instance, instances).map_err(|error| cannot().because(error.to_string()).hint(error.hint()))?;
    let stack = catalog.stack(DEFAULT_STACK).map_err(|error| cannot().because(error.to_string()))?;
    let machine = Machine { cluster, stack: stack.clone() };
    let found = replay(&ranks, &groups, &machine)
        .map_err(|error| cannot().because(error.to_string()).maybe_hint(error.hint()))?;
    let document = ReplayDocument {
        schema: REPLAY_SCHEMA.into(),
        traces: folder.display().to_string(),
        instance: instance.clone(),
        instances,
        ranks: ranks.len() as u32,
        nodes: found.nodes as u64,
        estimated: found.estimated as u64,
        messages: found.messages as u64,
        step_time_s: found.step_time.0,
        compute_s: found.compute.0,
        exposed_communication_s: found.exposed_communication.0,
        not_modelled: NOT_MODELLED.map(Into::into).to_vec(),
    };
    let replayed = Outcome::new(Kind::Simulation, "replay.json", &document, Headline::from(&document));
    let kept = history.keep(replayed, output);
    output.result(&document, || reports::replay(&document));
    kept.tell(output);
    Ok(Exit::Done)
}

/// Ranks of process groups, by the groups' names.
type Groups = BTreeMap<String, Vec<u32>>;

/// Reads the graphs of a folder's files `NAME.RANK.et`, by rank, and the process groups, if a file lists them.
fn read(folder: &Path) -> Result<(Vec<RankGraph>, Groups), Failure> {
    let mut graphs = Vec::new();
    let (mut nodes, named) = (0, by_rank(folder)?);
    for path in &named {
        let unreadable =
            |cause: String| Failure::input(format!("cannot read execution trace `{}`", path.display())).because(cause);
        let (file, length) = read::open("execution trace", path)?;
        if length > CHAKRA_BYTES_MAX {
            return Err(unreadable(format!("it has {length} bytes, more than {CHAKRA_BYTES_MAX}"))
                .hint("a trace of fewer steps is shorter"));
        }
        let graph = chakra::read(file).map_err(|error| unreadable(error.to_string()).maybe_hint(error.hint()))?;
        nodes += graph.nodes.len();
        if nodes > CHAKRA_NODES_MAX {
            return Err(unreadable(format!("the folder has more than {CHAKRA_NODES_MAX} nodes"))
                .hint("a trace of fewer steps or ranks has fewer"));
        }
        graphs.push(graph);
    }
    let path = folder.join("groups.json");
    if !path.exists() {
        return Ok((graphs, Groups::new()));
    }
    let groups = chakra::groups(&read::text("groups", &path)?).map_err(|error| {
        Failure::input(format!("cannot read groups `{}`", path.display()))
            .because(error.to_string())
            .maybe_hint(error.hint())
    })?;
    Ok((graphs, groups))
}

/// Returns the files of ranks 0, 1 and so on.
fn by_rank(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut named: BTreeMap<u32, PathBuf> = BTreeMap::new();
    let wrong = |problem: String| {
        Failure::input(format!("folder `{}`: {problem}", folder.display()))
            .hint("the files of a job are called NAME.0.et, NAME.1.et and so on")
    };
    for path in files::listed(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(rank) = name.strip_suffix(".et").and_then(|name| name.rsplit('.').next()) else { continue };
        let rank: u32 = rank.parse().map_err(|_| wrong(format!("`{name}` names no rank")))?;
        if let Some(other) = named.insert(rank, path) {
            return Err(wrong(format!("rank {rank} has two files, `{name}` and `{}`", other.display())));
        }
    }
    match named.keys().copied().zip(0..).find(|(rank, place)| rank != place) {
        _ if named.is_empty() => Err(wrong("there are no execution traces in it".into())),
        Some((_, missing)) => Err(wrong(format!("there is no file of rank {missing}"))),
        None => Ok(named.into_values().collect()),
    }
}
