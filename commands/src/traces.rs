//! Simulated steps as trace files: one of all ranks, or one of each in a folder.

use crate::failure::Failure;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use trainyard_plan::{Plan, StepTrace, TraceDetail};
use trainyard_reports as reports;

/// Maximum number of kernels and messages of a trace that can still be written and opened: some gigabytes of text.
const PARTS_MAX: usize = 4_000_000;

/// The extension of a rank's file: that of PyTorch's `tensorboard_trace_handler`, by which other tools recognize it.
const ENDING: &str = ".pt.trace.json.gz";

/// Files that are yet to be written, with a message about them.
pub(crate) struct Traces {
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    pub(crate) told: String,
}

/// Returns the files of a trace: one for each rank if the name ends in a slash or is that of a folder.
pub(crate) fn files(path: &Path, trace: &StepTrace, plan: &Plan) -> Result<Traces, Failure> {
    if trace.len() > PARTS_MAX {
        let failure = format!("the trace would show {} kernels and messages, more than {PARTS_MAX}", trace.len());
        return Err(
            Failure::input(failure).hint("without --unfold and --spread it shows one rank for all that do the same")
        );
    }
    let folder = path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let simulated = trace.ranks.len();
    let stands = match simulated as u32 {
        ranks if ranks == plan.mesh().ranks() => String::new(),
        _ => format!(", which stand for all {}", plan.mesh().ranks()),
    };
    let coarse = match trace.detail {
        TraceDetail::Operators => String::new(),
        detail => format!("; it has so many kernels that {detail} are told apart, not operators"),
    };
    if folder {
        let files = trace.ranks.iter().map(|rank| {
            let name = format!("rank-{:05}{ENDING}", rank.rank.0);
            (path.join(name), packed(&reports::rank_trace(trace, plan, rank)))
        });
        let files: Vec<(PathBuf, Vec<u8>)> = files.collect();
        no_others(path, &files)?;
        let told = format!("traces of {simulated} ranks{stands} written to {}{coarse}", path.display());
        return Ok(Traces { files, told });
    }
    let text = reports::step_trace(trace, plan);
    let pack = path.extension().is_some_and(|ending| ending == "gz");
    let content = if pack { packed(&text) } else { text.into_bytes() };
    let told =
        format!("trace of {simulated} ranks{stands} written to {}; open it at ui.perfetto.dev{coarse}", path.display());
    Ok(Traces { files: vec![(path.into(), content)], told })
}

/// Compresses text with gzip, without a date, so that the same trace is the same file.
fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).expect("memory can be written to")
}

/// Refuses a folder with other traces: tools read every trace in it, and would take those of another plan for ranks of
/// this one.
fn no_others(folder: &Path, files: &[(PathBuf, Vec<u8>)]) -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let mut others: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    others.retain(|path| path.to_string_lossy().ends_with(ENDING) && files.iter().all(|(own, _)| own != path));
    others.sort();
    match others.first() {
        None => Ok(()),
        Some(other) => Err(Failure::input(format!("folder `{}` holds traces of other ranks", folder.display()))
            .because(format!("`{}` would be read as one of this step's", other.display()))
            .hint("name an empty folder")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn what_is_packed_is_unpacked_to_the_same_text_and_has_no_date() {
        let mut text = String::new();
        GzDecoder::new(&packed("one\ntwo\n")[..]).read_to_string(&mut text).expect("gzip");
        assert_eq!(text, "one\ntwo\n");
        assert_eq!(packed("one")[4..8], [0; 4]);
    }

    #[test]
    fn a_folder_with_traces_of_other_ranks_is_refused() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let own = root.path().join(format!("rank-00000{ENDING}"));
        fs::write(&own, "old").expect("room");
        let files = vec![(own, Vec::new())];
        assert!(no_others(root.path(), &files).is_ok());
        fs::write(root.path().join(format!("rank-00008{ENDING}")), "old").expect("room");
        assert!(no_others(root.path(), &files).is_err());
    }
}
