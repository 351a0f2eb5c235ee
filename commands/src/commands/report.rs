//! `trainyard report`: a plan as one HTML file, and its pictures as files of their own.

use super::explain::{named, refused};
use crate::arguments::ReportArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::{files, plot};
use std::path::{Path, PathBuf};
use trainyard_planner::{ReportContent, report_content};
use trainyard_reports::{self as reports, Breadth};
use trainyard_units::counted;

/// Writes the report on a plan, or prints it.
pub(crate) fn report(arguments: &ReportArguments, output: &Output) -> Result<Exit, Failure> {
    if output.programs() {
        return Err(Failure::input("a report is HTML, but `--format json` is for documents")
            .hint("`trainyard explain` and `trainyard simulate` print its figures as documents"));
    }
    let plan = named(&arguments.plan)?;
    let bar = output.bar(1, "  {msg} {elapsed}").with_message("simulating for the report");
    bar.tick();
    let found = report_content(&plan, arguments.runs, arguments.seed);
    bar.finish_and_clear();
    let content = found.map_err(|error| refused(&error))?;
    let page = reports::report(&content);
    let pictures = arguments.plots.as_deref().map_or_else(Vec::new, |folder| drawn(folder, &content, arguments));
    let mut written: Vec<(&Path, &[u8])> = Vec::new();
    written.extend(arguments.out.as_deref().map(|path| (path, page.as_bytes())));
    written.extend(pictures.iter().map(|(path, content)| (path.as_path(), content.as_slice())));
    files::write_all(&written)?;
    match &arguments.out {
        Some(path) => output.note(format!("report written to {}", path.display())),
        None => output.as_it_is(&page),
    }
    if let Some(folder) = &arguments.plots {
        output.note(format!("{} written to {}", counted(pictures.len() as u64, "plot"), folder.display()));
    }
    Ok(Exit::Done)
}

/// Draws every picture of the report, as files of a folder.
fn drawn(folder: &Path, content: &ReportContent, arguments: &ReportArguments) -> Vec<(PathBuf, Vec<u8>)> {
    let format = plot::FORMATS[arguments.plot_format as usize];
    let file = |name: &str, picture: &reports::Picture| {
        let path = folder.join(format!("{name}.{format}"));
        let content = plot::encoded(&path, picture, arguments.plot_theme.scheme());
        (path, content)
    };
    reports::pictures(content, Breadth::Wide).iter().map(|(name, picture)| file(name, picture)).collect()
}
