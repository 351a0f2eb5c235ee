//! Ranks in several processes over MPI: every collective against a slow obvious one, and how failures spread.
//!
//! Run by `cargo test`, this program starts itself under `mpirun` on this host. Started by an MPI launcher with
//! `check RANKS`, as `tests/mpi/two_hosts.sh` does, it is one of the processes.

#[path = "../src/process_group/tests/twin.rs"]
mod twin;

use std::io::Write;
use std::process::{Command, ExitCode, Output};
use std::time::Duration;
use trainyard_executor::process_group::{
    GroupError, Launcher, ProcessGroup, RankError, Reduction, Tag, Wire, World, launch, run_ranks,
};
use twin::{Case, collectives, expected, messages};

/// Processes and ranks.
const LAYOUTS: [(usize, usize); 4] = [(1, 2), (2, 2), (3, 3), (2, 4)];
/// Longer than a busy machine lets a thread wait.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(3);
/// Exit code of a job whose rank fails on purpose.
const FAILED: u8 = 7;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check", ranks] => check(&world(ranks)),
        ["fail", ranks] => fail(&world(ranks)),
        ["die", ranks] => die(&world(ranks)),
        ["stop", ranks, rank] => stop(&world(ranks), rank.parse().expect("a rank")),
        _ => start_all(),
    }
}

fn world(ranks: &str) -> World {
    let launcher = Launcher::Mpi { heartbeat_timeout: HEARTBEAT_TIMEOUT };
    launch(launcher, ranks.parse().expect("a number of ranks")).unwrap_or_else(|error| panic!("{error}"))
}

/// Starts every job of the test; those that need more processors than there are are left out.
fn start_all() -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for (processes, ranks) in LAYOUTS {
        if ranks / processes > cores {
            println!("left out: {ranks} ranks in {processes} processes, with {cores} processor threads");
            continue;
        }
        let output = mpirun(processes, &["check", &ranks.to_string()]);
        assert!(output.status.success() && said(&output, "all right"), "{output:?}");
        println!("ok: {ranks} ranks in {processes} processes");
    }
    let output = mpirun(3, &["fail", "3"]);
    assert_eq!(output.status.code(), Some(FAILED.into()), "{output:?}");
    assert!(said(&output, "rank 1 stopped: it has had enough"), "{output:?}");
    println!("ok: a rank fails");
    let output = mpirun(2, &["die", "2"]);
    assert!(!output.status.success() && !said(&output, "went on"), "{output:?}");
    println!("ok: a process dies");
    for rank in ["0", "1", "2"] {
        let output = mpirun(3, &["stop", "3", rank]);
        let told = String::from_utf8_lossy(&output.stderr);
        let told = told.matches(&format!("rank {rank} stopped: no sign of life from its process on host")).count();
        assert!(!output.status.success() && told == 2, "{output:?}");
    }
    println!("ok: a process is stopped");
    let output = mpirun(2, &["check", "3"]);
    assert!(!output.status.success() && said(&output, "2 processes cannot share evenly"), "{output:?}");
    println!("ok: ranks that cannot be shared are refused");
    ExitCode::SUCCESS
}

fn mpirun(processes: usize, arguments: &[&str]) -> Output {
    let mut command = Command::new("mpirun");
    // A job that hangs is a failure of the test.
    command.args(["--oversubscribe", "--bind-to", "none", "--timeout", "300", "-np"]).arg(processes.to_string());
    // Containers forbid one process to read another's memory.
    command.args(["--mca", "btl_vader_single_copy_mechanism", "none"]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.arg(std::env::current_exe().expect("this program has a path")).args(arguments);
    command.output().expect("mpirun is installed where the feature `mpi` is built")
}

fn said(output: &Output, text: &str) -> bool {
    String::from_utf8_lossy(&output.stdout).contains(text) || String::from_utf8_lossy(&output.stderr).contains(text)
}

/// Buffers that travel with the message by which processes meet, and those around and above that.
const LENGTHS: [usize; 6] = [0, 1, 63, 65, 1000, 300_001];

fn cases(world: &World) -> Vec<Case> {
    let (ranks, processes) = (world.ranks(), world.processes());
    let groupings: [fn(usize) -> usize; 3] = [|_| 0, |rank| rank % 2, |rank| usize::from(rank > 0)];
    let mut cases = Vec::new();
    for (number, length) in LENGTHS.into_iter().enumerate() {
        for (reduction, wire) in
            [(Reduction::Sum, Wire::F32), (Reduction::Mean, Wire::F16), (Reduction::Mean, Wire::Bf16)]
        {
            cases.push(Case {
                threads: ranks / processes,
                colours: (0..ranks).map(groupings[number % groupings.len()]).collect(),
                length,
                lengths: (0..ranks).map(|rank| (length + 17 * rank) % 5000).collect(),
                reduction,
                wire,
            });
        }
    }
    cases
}

/// Every collective and messages, on all ranks.
fn check(world: &World) -> ExitCode {
    let cases = cases(world);
    let results = run_ranks(world, |group| {
        for case in &cases {
            if collectives(case, &group).map_err(|error| error.to_string())? != expected(case, group.rank()) {
                return Err(format!("rank {} got something else in {case:?}", group.rank()));
            }
        }
        many_splits(&group).map_err(|error| error.to_string())?;
        let right = messages(&group).map_err(|error| error.to_string())?;
        right.then_some(()).ok_or_else(|| format!("rank {} got other messages", group.rank()))
    });
    // Worlds may be used again.
    let again = run_ranks(world, |group| group.barrier());
    if results.iter().any(Result::is_err) || again.iter().any(Result::is_err) {
        eprintln!("{results:?} {again:?}");
        world.abort(1);
    }
    if world.is_root() {
        println!("all right: {} ranks in {} processes", world.ranks(), world.processes());
    }
    ExitCode::SUCCESS
}

/// Groups that are made at once by ranks of the same processes stay apart.
fn many_splits(world: &ProcessGroup) -> Result<(), GroupError> {
    let half = world.split(world.rank() % 2)?;
    for round in 0..20 {
        let group = half.split(0)?;
        let mut sum = vec![(world.rank() % 2 + round) as f32];
        group.all_reduce(&mut sum, Reduction::Mean)?;
        assert!((sum[0] - (world.rank() % 2 + round) as f32).abs() < 1e-6, "another group's sum");
    }
    Ok(())
}

/// Rank 1 fails while the others wait for it in every way there is.
fn fail(world: &World) -> ExitCode {
    let results = run_ranks(world, |group| {
        let pair = group.split(usize::from(group.rank() == 0))?;
        match group.rank() {
            0 => group.recv(2, Tag(3)).map(|_| ()),
            1 => Err(GroupError::RankFailed { rank: 1, reason: "it has had enough".into() }),
            _ => pair.all_reduce(&mut vec![0.0; 1000], Reduction::Sum),
        }
    });
    for result in results {
        let Err(RankError::Failed(error)) = result else { panic!("it went on: {result:?}") };
        println!("{error}");
    }
    world.abort(FAILED.into())
}

/// The process of a rank stops without a word, and does not end.
fn stop(world: &World, rank: usize) -> ExitCode {
    let results = run_ranks(world, |group| {
        group.barrier()?;
        if group.rank() == rank {
            Command::new("kill").args(["-STOP", &std::process::id().to_string()]).status().expect("kill is there");
        }
        group.barrier()
    });
    // The launcher lets a process that is stopped go on to end it; that one was told nothing.
    for error in results.into_iter().filter_map(Result::err) {
        let RankError::Failed(error) = error else { panic!("it did not stop: {error:?}") };
        // In one piece: what several processes write otherwise mixes.
        let line = format!("{error}\n");
        std::io::stderr().write_all(line.as_bytes()).expect("it can be told");
    }
    world.abort(FAILED.into())
}

/// The process of rank 1 dies without a word.
fn die(world: &World) -> ExitCode {
    let results = run_ranks(world, |group| {
        group.barrier()?;
        if group.rank() == 1 {
            std::process::abort();
        }
        group.barrier()
    });
    println!("went on: {results:?}");
    ExitCode::SUCCESS
}
