//! Where a command is to write, asked before its work: results that cannot be kept afterwards would be lost.

use crate::arguments::{Command, GoalArguments, JobArguments, Launcher, PricesCommand, TrainArguments};
use crate::failure::Failure;
use crate::files::{self, Written};
use crate::history_arguments::HistoryCommand;
use crate::job;
use crate::marks::{self, IN_THE_WAY, Mark};
use crate::plot::PlotArguments;
use crate::printed::is_printed;
use std::fs;
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
    /// What the result may be; none for folders, whose files have names of their own, and where the work shows it.
    kinds: Vec<Mark>,
}

/// Refuses a command that would write where it cannot, over its own input, over a file that is no result of its kind, or
/// one result over another. What is written into folders is checked when its names are known, see [`marks`].
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
        if let Some(why) = marks::in_the_way(place.path, &place.kinds).filter(|_| !place.kinds.is_empty()) {
            let message = format!(
                "`{} {}` would overwrite a file that is no result of this command",
                place.flag,
                place.path.display()
            );
            return Err(Failure::input(message).because(why).hint(IN_THE_WAY));
        }
        files::expect_room(place.path, place.what)?;
    }
    Ok(())
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
                .file("--out", plan.out.as_deref(), vec![planned(&plan.job)])
                .plot(&plan.plot)
                .folder("--plans", plan.plans.as_deref()),
            Command::WhatIf(what_if) => places
                .job(&what_if.job)
                .goal(&what_if.goal)
                .file("--out", what_if.out.as_deref(), vec![Mark::document("what-if")])
                .file("--csv", what_if.csv.as_deref().filter(|path| !is_printed(path)), vec![Mark::Cases])
                .plot(&what_if.plot),
            Command::Simulate(simulate) => places
                .read(&simulate.plan)
                .reads([&simulate.constants])
                .either("--trace", simulate.trace.as_deref(), vec![Mark::Trace])
                .folder("--chakra", simulate.chakra.as_deref())
                .plot(&simulate.plot),
            Command::Explain(explain) => {
                places.read(&explain.plan).reads([&explain.against]).plot(&explain.plot)
            }
            Command::Report(report) => {
                let places = places.read(&report.plan).file("--out", report.out.as_deref(), vec![Mark::Page]);
                places.folder("--plots", report.plots.as_deref())
            }
            Command::Export(export) => places.read(&export.plan).folder("--out", export.out.as_deref()),
            Command::Compare(compare) => places.read(&compare.plan).read(&compare.run).plot(&compare.plot),
            // Of many processes only the first writes, possibly where the others cannot.
            Command::Calibrate(calibrate) if calibrate.launcher == Launcher::Mpi => places,
            // The constants and profiles from which a fit starts may be replaced by its results.
            Command::Calibrate(calibrate) => {
                let refitted = calibrate.from.as_ref().map(|_| Mark::document("constants"));
                let kinds = refitted.into_iter().chain([Mark::document("profile")]).collect();
                places.reads([&calibrate.from]).file("--out", calibrate.out.as_deref(), kinds)
            }
            Command::Validate(validate) => {
                places.read(&validate.table).reads([&validate.constants]).plot(&validate.plot)
            }
            Command::Prices(PricesCommand::Import(import)) => import
                .files
                .iter()
                .fold(places, |places, path| places.read(path))
                .file("--out", import.out.as_deref(), vec![Mark::Prices])
                .file("--quotas", import.quotas.as_deref(), vec![Mark::Quotas]),
            Command::History(HistoryCommand::Export(export)) => {
                places.either("--out", Some(&export.out), Vec::new())
            }
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

    fn file(mut self, flag: &'static str, path: Option<&'a Path>, kinds: Vec<Mark>) -> Self {
        self.writes.extend(path.map(|path| Place { flag, path, what: Written::File, kinds }));
        self
    }

    fn folder(mut self, flag: &'static str, path: Option<&'a Path>) -> Self {
        self.writes.extend(path.map(|path| Place { flag, path, what: Written::Folder, kinds: Vec::new() }));
        self
    }

    fn either(mut self, flag: &'static str, path: Option<&'a Path>, kinds: Vec<Mark>) -> Self {
        self.writes.extend(path.map(|path| Place { flag, path, what: Written::Either, kinds }));
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
        self.file("--plot", plot.plot.as_deref(), vec![Mark::Picture])
    }
}

/// Returns what `plan` writes: the plan of a job, or a fleet.
fn planned(job: &JobArguments) -> Mark {
    let is_fleet = job.job.as_deref().is_some_and(job::is_fleet);
    Mark::document(if is_fleet { "fleet" } else { "plan" })
}
