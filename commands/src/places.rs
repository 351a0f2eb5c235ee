//! Where a command is to write, asked before its work: results that cannot be kept afterwards would be lost.

use crate::arguments::{Command, GoalArguments, JobArguments, Launcher, PricesCommand, TrainArguments};
use crate::failure::Failure;
use crate::files::{self, Written};
use crate::history_arguments::HistoryCommand;
use crate::plot::PlotArguments;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The files that a command reads and writes, as far as its arguments name them.
#[derive(Default)]
struct Places<'a> {
    reads: Vec<&'a Path>,
    writes: Vec<Place<'a>>,
}

/// A place to be written.
struct Place<'a> {
    /// The argument that names it.
    flag: &'static str,
    path: &'a Path,
    what: Written,
}

/// Refuses a command that would write where it cannot, over its own input, or one result over another.
pub(crate) fn check(command: &Command, history: Option<&Path>) -> Result<(), Failure> {
    if let Command::Train(TrainArguments { out: Some(folder), .. }) = command {
        files::expect_unused(folder)?;
    }
    let Places { mut reads, writes } = Places::of(command);
    reads.extend(history);
    for (index, place) in writes.iter().enumerate() {
        if let Some(other) = writes[..index].iter().find(|other| other.is_over(place)) {
            let message = format!("`{} {}` and `{}` are the same file", place.flag, place.path.display(), other.flag);
            return Err(Failure::input(message).hint("name two"));
        }
        if reads.iter().any(|read| read.is_file() && is_same(read, place.path)) {
            let message = format!("`{} {}` would overwrite a file that is read", place.flag, place.path.display());
            return Err(Failure::input(message).hint("name another file"));
        }
        if place.what == Written::File && is_anothers(place.path) {
            let message = format!("`{} {}` would overwrite a file that is no result", place.flag, place.path.display());
            return Err(Failure::input(message).hint("name another file, or remove this one first"));
        }
        files::expect_room(place.path, place.what)?;
    }
    Ok(())
}

/// Endings of files that people train on, write by hand or train to, and that no command writes as its result.
const OTHERS: [&str; 20] = [
    "txt",
    "text",
    "md",
    "jsonl",
    "ndjson",
    "npy",
    "npz",
    "bin",
    "parquet",
    "arrow",
    "safetensors",
    "pt",
    "pth",
    "ckpt",
    "py",
    "sh",
    "rs",
    "ipynb",
    "jpg",
    "jpeg",
];

/// Returns `true` if a file is there whose ending says that it is none of ours, and whose content does not say that it is.
fn is_anothers(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_lowercase();
    let first = || {
        let mut first = [0; 1];
        let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut first));
        read.is_ok().then_some(first[0])
    };
    OTHERS.contains(&ending.as_str()) && path.is_file() && first().is_some_and(|first| ![b'{', b'<'].contains(&first))
}

impl Place<'_> {
    /// Returns `true` if this place and another are one file. Several results may go into a folder, and to a device or
    /// a pipe.
    fn is_over(&self, other: &Place<'_>) -> bool {
        let is_file = self.what == Written::File || other.what == Written::File;
        is_file && !files::is_stream(self.path) && is_same(self.path, other.path)
    }
}

/// Returns `true` if two paths are those of one file, which may not exist yet.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let new = || Some(fs::canonicalize(files::folder_of(path)).ok()?.join(path.file_name()?));
        fs::canonicalize(path).ok().or_else(new).unwrap_or_else(|| path.to_path_buf())
    };
    place(one) == place(other)
}

impl<'a> Places<'a> {
    fn of(command: &'a Command) -> Self {
        let places = Self::default();
        match command {
            Command::Plan(plan) => places
                .job(&plan.job)
                .goal(&plan.goal)
                .file("--out", plan.out.as_deref())
                .plot(&plan.plot)
                .folder("--plans", plan.plans.as_deref()),
            Command::WhatIf(what_if) => places
                .job(&what_if.job)
                .goal(&what_if.goal)
                .file("--out", what_if.out.as_deref())
                .file("--csv", what_if.csv.as_deref())
                .plot(&what_if.plot),
            Command::Simulate(simulate) => places
                .read(&simulate.plan)
                .reads([&simulate.constants])
                .either("--trace", simulate.trace.as_deref())
                .folder("--chakra", simulate.chakra.as_deref())
                .plot(&simulate.plot),
            Command::Explain(explain) => {
                places.read(&explain.plan).reads([&explain.against]).plot(&explain.plot)
            }
            Command::Report(report) => {
                places.read(&report.plan).file("--out", report.out.as_deref()).folder("--plots", report.plots.as_deref())
            }
            Command::Export(export) => places.read(&export.plan).folder("--out", export.out.as_deref()),
            Command::Compare(compare) => places.read(&compare.plan).read(&compare.run).plot(&compare.plot),
            // Of many processes only the first writes, possibly where the others cannot.
            Command::Calibrate(calibrate) if calibrate.launcher == Launcher::Mpi => places,
            // The constants and profiles from which a fit starts may be replaced by its results.
            Command::Calibrate(calibrate) => places.reads([&calibrate.from]).file("--out", calibrate.out.as_deref()),
            Command::Validate(validate) => {
                places.read(&validate.table).reads([&validate.constants]).plot(&validate.plot)
            }
            Command::Prices(PricesCommand::Import(import)) => import
                .files
                .iter()
                .fold(places, |places, path| places.read(path))
                .file("--out", import.out.as_deref())
                .file("--quotas", import.quotas.as_deref()),
            Command::History(HistoryCommand::Export(export)) => places.either("--out", Some(&export.out)),
            Command::Schemas(schemas) => places.folder("--out", Some(&schemas.out)),
            Command::Man(man) => places.folder("--out", man.out.as_deref()),
            Command::Train(train) => places.folder("--out", train.out.as_deref()),
            // Of many processes only the first makes the folder; the others may find it already.
            Command::Run(_)
            // These write nothing.
            | Command::Serve(_)
            | Command::History(_)
            | Command::Show(_)
            | Command::Completions(_) => places,
        }
    }

    fn read(mut self, path: &'a Path) -> Self {
        self.reads.push(path);
        self
    }

    fn reads<const N: usize>(mut self, paths: [&'a Option<PathBuf>; N]) -> Self {
        self.reads.extend(paths.into_iter().filter_map(Option::as_deref));
        self
    }

    fn file(mut self, flag: &'static str, path: Option<&'a Path>) -> Self {
        self.writes.extend(path.map(|path| Place { flag, path, what: Written::File }));
        self
    }

    fn folder(mut self, flag: &'static str, path: Option<&'a Path>) -> Self {
        self.writes.extend(path.map(|path| Place { flag, path, what: Written::Folder }));
        self
    }

    fn either(mut self, flag: &'static str, path: Option<&'a Path>) -> Self {
        self.writes.extend(path.map(|path| Place { flag, path, what: Written::Either }));
        self
    }

    fn job(self, job: &'a JobArguments) -> Self {
        let model = job.model.as_deref().map(Path::new);
        let mut places = self.reads([&job.job, &job.lengths, &job.constants, &job.prices]);
        places.reads.extend(model);
        places
    }

    fn goal(self, goal: &'a GoalArguments) -> Self {
        self.reads([&goal.quotas])
    }

    fn plot(self, plot: &'a PlotArguments) -> Self {
        self.file("--plot", plot.plot.as_deref())
    }
}
