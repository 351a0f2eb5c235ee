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
    /// One of these is in the beginning of every such result; none for folders, whose files have names of their own.
    marks: &'static [&'static [u8]],
}

/// Refuses a command that would write where it cannot, over its own input, over a file that is no result of its kind, or
/// one result over another. A file that only a job or a plan names, such as a cluster file, is no result either.
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
        if place.is_anothers() {
            let message = format!(
                "`{} {}` would overwrite a file that is no result of this command",
                place.flag,
                place.path.display()
            );
            return Err(Failure::input(message).hint("name another file, or remove this one first"));
        }
        files::expect_room(place.path, place.what)?;
    }
    Ok(())
}

/// The beginning of a file that tells what it is, in bytes.
const HEAD: u64 = 1 << 16;

/// What every result of a kind has in its beginning, one of each.
mod marks {
    /// JSON that names its schema.
    pub(super) const DOCUMENT: &[&[u8]] = &[b"\"schema\": \"trainyard.", b"\"schema\":\"trainyard."];
    /// Names of columns.
    pub(super) const CASES: &[&[u8]] = &[b"time_s,", b"time_change,"];
    pub(super) const PRICES: &[&[u8]] = &[b"usd_per_hour"];
    pub(super) const QUOTAS: &[&[u8]] = &[b"[regions."];
    pub(super) const PAGE: &[&[u8]] = &[b"<html"];
    pub(super) const PICTURE: &[&[u8]] = &[b"<svg", b"\x89PNG"];
    /// JSON as it is, or packed by gzip.
    pub(super) const TRACE: &[&[u8]] = &[b"\"traceEvents\"", b"\x1f\x8b"];
    /// TOML that names its schema.
    pub(super) const MEASURED: &[&[u8]] = &[b"trainyard.profile/", b"trainyard.constants/"];
}

impl Place<'_> {
    /// Returns `true` if a file is there whose content is not that of such a result.
    fn is_anothers(&self) -> bool {
        let mut head = Vec::new();
        let mut read = || fs::File::open(self.path)?.take(HEAD).read_to_end(&mut head);
        if self.marks.is_empty() || !self.path.is_file() || read().is_err() || head.is_empty() {
            return false;
        }
        !self.marks.iter().any(|mark| head.windows(mark.len()).any(|part| part == *mark))
    }

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
                .file("--out", plan.out.as_deref(), marks::DOCUMENT)
                .plot(&plan.plot)
                .folder("--plans", plan.plans.as_deref()),
            Command::WhatIf(what_if) => places
                .job(&what_if.job)
                .goal(&what_if.goal)
                .file("--out", what_if.out.as_deref(), marks::DOCUMENT)
                .file("--csv", what_if.csv.as_deref(), marks::CASES)
                .plot(&what_if.plot),
            Command::Simulate(simulate) => places
                .read(&simulate.plan)
                .reads([&simulate.constants])
                .either("--trace", simulate.trace.as_deref(), marks::TRACE)
                .folder("--chakra", simulate.chakra.as_deref())
                .plot(&simulate.plot),
            Command::Explain(explain) => {
                places.read(&explain.plan).reads([&explain.against]).plot(&explain.plot)
            }
            Command::Report(report) => {
                let places = places.read(&report.plan).file("--out", report.out.as_deref(), marks::PAGE);
                places.folder("--plots", report.plots.as_deref())
            }
            Command::Export(export) => places.read(&export.plan).folder("--out", export.out.as_deref()),
            Command::Compare(compare) => places.read(&compare.plan).read(&compare.run).plot(&compare.plot),
            // Of many processes only the first writes, possibly where the others cannot.
            Command::Calibrate(calibrate) if calibrate.launcher == Launcher::Mpi => places,
            // The constants and profiles from which a fit starts may be replaced by its results.
            Command::Calibrate(calibrate) => {
                places.reads([&calibrate.from]).file("--out", calibrate.out.as_deref(), marks::MEASURED)
            }
            Command::Validate(validate) => {
                places.read(&validate.table).reads([&validate.constants]).plot(&validate.plot)
            }
            Command::Prices(PricesCommand::Import(import)) => import
                .files
                .iter()
                .fold(places, |places, path| places.read(path))
                .file("--out", import.out.as_deref(), marks::PRICES)
                .file("--quotas", import.quotas.as_deref(), marks::QUOTAS),
            Command::History(HistoryCommand::Export(export)) => {
                places.either("--out", Some(&export.out), marks::DOCUMENT)
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

    fn file(mut self, flag: &'static str, path: Option<&'a Path>, marks: &'static [&'static [u8]]) -> Self {
        self.writes.extend(path.map(|path| Place { flag, path, what: Written::File, marks }));
        self
    }

    fn folder(mut self, flag: &'static str, path: Option<&'a Path>) -> Self {
        self.writes.extend(path.map(|path| Place { flag, path, what: Written::Folder, marks: &[] }));
        self
    }

    fn either(mut self, flag: &'static str, path: Option<&'a Path>, marks: &'static [&'static [u8]]) -> Self {
        self.writes.extend(path.map(|path| Place { flag, path, what: Written::Either, marks }));
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
        self.file("--plot", plot.plot.as_deref(), marks::PICTURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_the_mark_of_a_result_of_its_kind_may_be_written_over() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let is_anothers = |name: &str, content: &[u8], marks| {
            let path = folder.path().join(name);
            fs::write(&path, content).expect("room");
            Place { flag: "--out", path: &path, what: Written::File, marks }.is_anothers()
        };
        let documents: [&[u8]; 3] =
            [b"", b"{\n  \"schema\": \"trainyard.plan/1\",", b"{\"schema\":\"trainyard.what-if/1\"}"];
        for own in documents {
            assert!(!is_anothers("plan.json", own, marks::DOCUMENT), "{own:?}");
        }
        // A profile names a schema, and is TOML; config.json is JSON, and a model's.
        let others: [&[u8]; 4] =
            [b"schema = \"trainyard.profile/1\"\n", b"[[machines]]\n", b"{\"model_type\": \"llama\"}", b"1024\n77\n"];
        for other in others {
            assert!(is_anothers("own", other, marks::DOCUMENT), "{other:?}");
        }
        assert!(!is_anothers("profile.toml", others[0], marks::MEASURED));
        assert!(!is_anothers("prices.csv", b"instance,region,usd_per_hour\n", marks::PRICES));
        assert!(is_anothers("prices.csv", b"instance,region,usd_per_hour\n", marks::CASES));
        assert!(is_anothers("photo.jpg", b"\xff\xd8\xff", marks::PICTURE));
        let new = Place { flag: "--out", path: Path::new("nothing/there"), what: Written::File, marks: marks::PAGE };
        assert!(!new.is_anothers());
    }
}
