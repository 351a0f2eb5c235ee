//! What tells that this program wrote a file. A result takes the place of an earlier result of its kind, and of nothing
//! else: whoever wrote a file that has no mark, or that of another kind, would lose it.

use crate::failure::Failure;
use flate2::read::GzDecoder;
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::Read;
use std::path::Path;
use trainyard_reports::WRITTEN_BY;

/// The beginning of a file that tells what it is, in bytes.
const HEAD: u64 = 1 << 16;

/// The first line of a file of quotas.
pub(crate) const QUOTAS: &str = "# What the account may rent at once; `trainyard plan --quotas` takes it.";

/// A kind of result, as its content tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// JSON or TOML that begins with its schema: `plan` of `trainyard.plan/1`.
    Document(Cow<'static, str>),
    /// A JSON Schema, or the description of the server's API, with its title.
    Schema(String),
    Page,
    Picture,
    /// A step in the form of PyTorch's profiler.
    Trace,
    /// A step of one rank in the form of Chakra.
    ExecutionTrace,
    /// The rows of what-if.
    Cases,
    Prices,
    Quotas,
    LaunchFile,
    ManualPage,
}

impl Mark {
    pub(crate) const fn document(name: &'static str) -> Self {
        Self::Document(Cow::Borrowed(name))
    }

    /// Tells what a content is, if it is a result of this program. Those that have no room for a mark are not known:
    /// JSON and lists of words that other programs read.
    pub(crate) fn of(content: &[u8]) -> Option<Self> {
        let mut unpacked = Vec::new();
        if content.starts_with(b"\x1f\x8b") {
            // What is cut off ends in an error behind what was read.
            let _ = GzDecoder::new(content).take(HEAD).read_to_end(&mut unpacked);
        }
        let head = if unpacked.is_empty() { &content[..content.len().min(HEAD as usize)] } else { &unpacked };
        let head = &*String::from_utf8_lossy(head);
        let first = head.lines().next().unwrap_or_default();
        let has = |mark: &str| head.contains(mark);
        let kinds = [
            (head.starts_with("\u{fffd}PNG") && has("Software\0Trainyard"), Self::Picture),
            (has("<svg ") && has("<!-- Trainyard -->") && !has("<html"), Self::Picture),
            (has("<html") && has("<meta name=\"generator\" content=\"trainyard "), Self::Page),
            (has("\"traceName\": \"trainyard\""), Self::Trace),
            (has("trainyard, chakra "), Self::ExecutionTrace),
            (has("\n.TH trainyard"), Self::ManualPage),
            (head.starts_with(QUOTAS), Self::Quotas),
            (first.contains("time_s,") && first.contains("time_change,"), Self::Cases),
            (first.starts_with("instance,region,service,purchase,usd_per_hour,"), Self::Prices),
            (has(WRITTEN_BY), Self::LaunchFile),
        ];
        let document = || schema(head).map(|name| Self::Document(name.to_owned().into()));
        let known = || kinds.into_iter().find(|(is, _)| *is).map(|(_, kind)| kind);
        document().or_else(|| title(head).map(|title| Self::Schema(title.into()))).or_else(known)
    }
}

impl Display for Mark {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Document(name) => return write!(f, "a document of the schema `trainyard.{name}`"),
            Self::Schema(title) => return write!(f, "the JSON Schema `{title}`"),
            Self::Page => "a report",
            Self::Picture => "a plot",
            Self::Trace => "a trace of a step",
            Self::ExecutionTrace => "an execution trace",
            Self::Cases => "a table of cases",
            Self::Prices => "a table of prices",
            Self::Quotas => "a file of quotas",
            Self::LaunchFile => "a launch file",
            Self::ManualPage => "a page of the manual",
        };
        f.write_str(name)
    }
}

/// Returns the name of the schema with which a document begins: in JSON behind a brace, in TOML behind comments.
fn schema(head: &str) -> Option<&str> {
    let mut text = head.trim_start();
    while text.starts_with('#') {
        text = text.split_once('\n')?.1.trim_start();
    }
    let text = text.trim_start_matches('{').trim_start().trim_start_matches('"').strip_prefix("schema")?;
    let text = text.trim_start_matches('"').trim_start().strip_prefix([':', '='])?;
    text.trim_start().strip_prefix("\"trainyard.")?.split_once('/').map(|(name, _)| name)
}

/// Returns the title of a JSON Schema, or of an API.
fn title(head: &str) -> Option<&str> {
    let text = head.strip_prefix('{')?.trim_start();
    let is_schema = text.starts_with("\"$schema\": \"https://json-schema.org/") || text.starts_with("\"openapi\": ");
    text.split_once("\"title\": \"").filter(|_| is_schema)?.1.split_once('"').map(|(title, _)| title)
}

/// Returns the content of a regular file, or its beginning; `None` if there is none, or nothing in it.
fn head_of(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let mut read = || fs::File::open(path)?.take(most).read_to_end(&mut head);
    (path.is_file() && read().is_ok() && !head.is_empty()).then_some(head)
}

/// Tells what stands where one of these kinds of results is to be written, if that is something else.
pub(crate) fn in_the_way(path: &Path, kinds: &[Mark]) -> Option<String> {
    let there = Mark::of(&head_of(path, HEAD)?);
    match there {
        Some(there) if kinds.contains(&there) => None,
        Some(there) => Some(format!("it is {there}")),
        None => Some("it has no mark of this program".into()),
    }
}

/// What to do about a file that is in the way.
pub(crate) const IN_THE_WAY: &str = "name another file, or remove this one first";

/// Refuses to write over files that are no earlier results. A content that has no room for a mark replaces one that is
/// the same, and those beside a marked file that is replaced too.
pub(crate) fn expect_earlier<P: AsRef<Path>, C: AsRef<[u8]>>(files: &[(P, C)]) -> Result<(), Failure> {
    let replaced = |path: &Path, content: &C| {
        let own = Mark::of(content.as_ref());
        own.is_some_and(|own| head_of(path, HEAD).is_some() && in_the_way(path, &[own]).is_none())
    };
    for (path, content) in files {
        let (path, content) = (path.as_ref(), content.as_ref());
        let own = Mark::of(content);
        let beside = || {
            let mut others = files.iter().filter(|(other, _)| other.as_ref().parent() == path.parent());
            others.any(|(other, content)| replaced(other.as_ref(), content))
        };
        let same = || head_of(path, content.len() as u64 + 1).is_some_and(|there| there == content);
        let Some(why) = in_the_way(path, own.as_slice()) else { continue };
        if same() || (own.is_none() && beside()) {
            continue;
        }
        return Err(refused(path, why));
    }
    Ok(())
}

/// Refuses to write over a file that is none of these kinds of results.
pub(crate) fn expect(path: &Path, kinds: &[Mark]) -> Result<(), Failure> {
    in_the_way(path, kinds).map_or(Ok(()), |why| Err(refused(path, why)))
}

fn refused(path: &Path, why: String) -> Failure {
    let message = format!("`{}` would be overwritten, which is no earlier result of this kind", path.display());
    Failure::input(message).because(why).hint(IN_THE_WAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;
    use trainyard_reports::{Picture, Scheme};

    #[test]
    fn documents_are_told_by_the_schema_with_which_they_begin() {
        for (text, name) in [
            ("{\n  \"schema\": \"trainyard.plan/1\",", Some("plan")),
            ("{\"schema\":\"trainyard.what-if/1\"}", Some("what-if")),
            ("# A machine.\nschema = \"trainyard.profile/1\"\n", Some("profile")),
            ("schema = \"trainyard.constants/1\"\n", Some("constants")),
            ("{\"note\": 1, \"schema\": \"trainyard.plan/1\"}", None),
            ("[[machines]]\n", None),
            ("{\"model_type\": \"llama\"}", None),
            ("1024\n77\n", None),
        ] {
            assert_eq!(schema(text), name, "{text}");
        }
    }

    #[test]
    fn pictures_and_pages_of_others_are_not_ours() {
        let pictures = [Scheme::Auto, Scheme::Always(trainyard_reports::Theme::Dark)];
        let own = Picture::new("a plot", (100, 50));
        for scheme in pictures {
            assert_eq!(Mark::of(own.svg(scheme).as_bytes()), Some(Mark::Picture));
            assert_eq!(Mark::of(&own.png(scheme)), Some(Mark::Picture));
        }
        let others: [&[u8]; 4] =
            [b"<svg xmlns=\"\">\n</svg>", b"\x89PNG\r\n", b"\xff\xd8\xff", b"<!doctype html><html>"];
        assert!(others.into_iter().all(|other| Mark::of(other).is_none()));
        assert_eq!(Mark::of(catalog().prices_csv(Some("p3.*")).as_bytes()), Some(Mark::Prices));
        assert_eq!(Mark::of(b"{\"traceEvents\": []}"), None);
    }

    #[test]
    fn a_result_replaces_one_of_its_kind_and_what_stands_beside_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        let (plan, fleet) = ("{\"schema\": \"trainyard.plan/1\"}", "{\"schema\": \"trainyard.fleet/1\"}");
        let told = |name: &str, there: &str, new: &[(&str, &str)]| {
            fs::write(at(name), there).expect("room");
            let files: Vec<_> = new.iter().map(|(name, content)| (at(name), *content)).collect();
            expect_earlier(&files).err().map(|failure| failure.causes().concat())
        };
        assert_eq!(told("a", plan, &[("a", plan), ("new", fleet)]), None);
        assert_eq!(told("a", "", &[("a", plan)]), None);
        assert_eq!(
            told("a", fleet, &[("a", plan)]).as_deref(),
            Some("it is a document of the schema `trainyard.fleet`")
        );
        assert_eq!(told("a", "mine", &[("a", plan)]).as_deref(), Some("it has no mark of this program"));
        // A configuration has no room for a mark: the script beside it has one.
        let script = "#!/usr/bin/env bash\n# Written by `trainyard export`.\n";
        assert!(told("ds.json", "{}", &[("ds.json", "{\"a\": 1}"), ("run.sh", script)]).is_some());
        assert_eq!(told("ds.json", "{}", &[("ds.json", "{}")]), None);
        fs::write(at("run.sh"), script).expect("room");
        assert_eq!(told("ds.json", "{}", &[("ds.json", "{\"a\": 1}"), ("run.sh", script)]), None);
    }
}
