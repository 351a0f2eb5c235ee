//! Files: read with errors that name them, written whole or not at all.

use crate::caller;
use crate::diagnose;
use crate::failure::{Exit, Failure};
use crate::marks;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};
use trainyard_calibration::profile_from_toml;
use trainyard_documents::{Unreadable, from_toml};
use trainyard_hardware_profiles::{
    Catalog, ClusterFile, Constants, ConstantsFile, MeasuredMachine, PriceTable, catalog,
};
use trainyard_history::Document;
use trainyard_interop::{ONNX_BYTES_MAX, from_onnx};
use trainyard_models::{ModelFile, ModelSpec, from_hugging_face, hugging_face_name};
use trainyard_plan::document::PlanDocument;
use trainyard_planner::{MachineFile, MachineFiles, UNNAMED_MODEL};
use trainyard_units::{Bytes, human_bytes};

/// Default folder of runs.
const RUNS: &str = "runs";

/// The largest size in bytes of a document that people write, and that of most that the program writes.
const DOCUMENT_MAX: u64 = 4 << 20;

/// The largest sizes of files of other kinds: what the program or a service writes at length.
const SIZES: [(&str, u64); 6] = [
    ("plan", 16 << 20),
    ("prices", 16 << 20),
    ("groups", 16 << 20),
    ("measurement", 64 << 20),
    ("measurements", 64 << 20),
    ("output of a command", 512 << 20),
];

/// The largest trace of a profiler in bytes, unpacked: it is read piece by piece.
const TRACE_MAX: u64 = 2 << 30;

/// The beginning of a file that tells what it holds, in bytes.
const HEAD: u64 = 1 << 20;

/// The mark that some editors put before a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

fn largest(what: &str) -> u64 {
    SIZES.iter().find(|(kind, _)| *kind == what).map_or(DOCUMENT_MAX, |(_, bytes)| *bytes)
}

/// Returns the failure of reading a file.
fn unreadable(what: &str, path: &Path, why: &Unreadable) -> Failure {
    let gone = matches!(why, Unreadable::System(error) if error.kind() == std::io::ErrorKind::NotFound);
    let hint = if gone && what == "plan" { diagnose::PLAN_WRITTEN } else { why.hint() };
    Failure::input(format!("cannot read {what} `{}`", path.display())).because(why.to_string()).hint(hint)
}

/// Reads the text of a regular file that is no larger than its kind may be.
pub(crate) fn read_text(what: &str, path: &Path) -> Result<String, Failure> {
    if let Some(text) = caller::text(path) {
        return Ok(text);
    }
    trainyard_documents::text(path, largest(what)).map_err(|why| unreadable(what, path, &why))
}

/// Reads the text of a file that may be compressed with gzip.
pub(crate) fn read_packed(what: &'static str, path: &Path) -> Result<String, Failure> {
    Packed::open(what, path)?.text()
}

/// A file that may be packed with gzip, of which only the beginning was read.
pub(crate) struct Packed<'a> {
    what: &'static str,
    path: &'a Path,
    head: Vec<u8>,
    rest: Box<dyn Read + 'a>,
}

impl<'a> Packed<'a> {
    /// Opens a file and reads its beginning.
    pub(crate) fn open(what: &'static str, path: &'a Path) -> Result<Self, Failure> {
        if let Some(text) = caller::text(path) {
            return Ok(Self { what, path, head: text.into_bytes(), rest: Box::new(std::io::empty()) });
        }
        let opened = || {
            let mut rest = trainyard_documents::unpacked(path, TRACE_MAX)?;
            let mut head = Vec::new();
            rest.by_ref().take(HEAD).read_to_end(&mut head)?;
            if head.starts_with(BYTE_ORDER_MARK) {
                head.drain(..BYTE_ORDER_MARK.len());
            }
            Ok(Self { what, path, head, rest: Box::new(rest) })
        };
        opened().map_err(|why| unreadable(what, path, &why))
    }

    /// Returns its beginning.
    pub(crate) fn head(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.head)
    }

    /// Reads its whole text, if that is no longer than its kind may be.
    pub(crate) fn text(self) -> Result<String, Failure> {
        let (what, path, most) = (self.what, self.path, largest(self.what));
        let mut bytes = Vec::new();
        let read = self.stream().take(most + 1).read_to_end(&mut bytes);
        let text = match read {
            Err(error) => Err(error.into()),
            Ok(_) if bytes.len() as u64 > most => Err(Unreadable::TooLarge { has: "has", most }),
            Ok(_) => trainyard_documents::text_of(bytes),
        };
        text.map_err(|why| unreadable(what, path, &why))
    }

    /// Returns its bytes from the beginning on, piece by piece.
    pub(crate) fn stream(self) -> impl Read {
        std::io::Cursor::new(self.head).chain(self.rest)
    }
}

/// File name extensions of models.
const MODEL_ENDINGS: [&str; 3] = ["json", "onnx", "toml"];

/// The file name of a checkpoint's configuration, in the checkpoint's folder.
const CONFIG: &str = "config.json";

/// Returns `true` if a name is that of a file or a folder with a model in it, not of a model of the catalog.
pub(crate) fn is_model_path(name: &str) -> bool {
    let path = Path::new(name);
    path.components().count() > 1 || MODEL_ENDINGS.iter().any(|ending| has_ending(path, ending)) || path.exists()
}

/// Returns `true` if a file is a Hugging Face configuration, by its name, or a folder that contains one.
pub(crate) fn is_config(path: &Path) -> bool {
    has_ending(path, "json") || path.is_dir()
}

/// Returns `true` if a file can only be a model, by its name, or is a folder.
pub(crate) fn holds_model(path: &Path) -> bool {
    is_config(path) || has_ending(path, "onnx")
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|own| own.eq_ignore_ascii_case(ending))
}

/// Reads the model of a file: a Hugging Face configuration or the folder with one, a file in the ONNX format, or TOML.
/// A configuration's model is called `name`, or else as [`name_of_config`] says.
pub(crate) fn read_model(path: &Path, name: Option<&str>) -> Result<ModelSpec, Failure> {
    if is_config(path) {
        return read_config(path, name);
    }
    if has_ending(path, "onnx") { read_onnx(path) } else { read_toml_model(path) }
}

/// Reads the model of a Hugging Face configuration, or of the one in a folder.
pub(crate) fn read_config(path: &Path, name: Option<&str>) -> Result<ModelSpec, Failure> {
    let path = if path.is_dir() { path.join(CONFIG) } else { path.to_owned() };
    let text = read_text("model configuration", &path)
        .map_err(|failure| failure.hint("a checkpoint of Hugging Face has a config.json beside its weights"))?;
    let name = name.map_or_else(|| name_of_config(&path, &text), Into::into);
    from_hugging_face(&text, &name).map_err(|error| {
        Failure::input(format!("cannot read model configuration `{}`", path.display()))
            .because(error.to_string())
            .maybe_hint(error.hint())
    })
}

/// Returns the model's name in a configuration; else the name of its file, unless it is the usual one; else that of its
/// folder; in a folder that is called as checkpoints are, that of the plan of the run that wrote it, or, of another program,
/// the type of the model.
fn name_of_config(path: &Path, text: &str) -> String {
    let own = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
    let stem = path.file_stem().filter(|_| path.file_name().is_none_or(|name| name != CONFIG)).map(own);
    let of_folder = || fs::canonicalize(folder_of(path)).ok()?.file_name().map(own);
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    let planned = || {
        let plan = value(&read_text("plan", &folder_of(path).join("plan.json")).ok()?)?;
        plan["plan"]["model"]["name"].as_str().map(str::to_owned)
    };
    hugging_face_name(text)
        .or(stem)
        .or_else(|| of_folder().filter(|name| !is_checkpoint(name)))
        .or_else(planned)
        .or_else(|| value(text)?["model_type"].as_str().map(str::to_owned))
        .unwrap_or_else(|| UNNAMED_MODEL.into())
}

/// Returns `true` if a folder is called as checkpoints are, `checkpoint-500`, which says nothing of the model.
fn is_checkpoint(name: &str) -> bool {
    let number = name.strip_prefix("checkpoint").map(|rest| rest.trim_start_matches('-'));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Reads the model of a TOML file: its fields, or a file of the catalog, which has them in a table `model` beside their
/// source.
fn read_toml_model(path: &Path) -> Result<ModelSpec, Failure> {
    let text = read_text("model", path)?;
    let table: toml::Table = diagnose::from_toml("model", &text, path)?;
    if table.contains_key("model") {
        return diagnose::from_toml("model", &text, path).map(|file: ModelFile| file.model);
    }
    diagnose::from_toml("model", &text, path)
}

/// Returns the data set that the file of a model names beside its source, if it does.
pub(crate) fn data_set_of_model(path: &Path) -> Option<String> {
    let file: ModelFile = from_toml(&read_text("model", path).ok()?).ok()?;
    file.dataset
}

/// Reads the model of an ONNX file, named after the file.
fn read_onnx(path: &Path) -> Result<ModelSpec, Failure> {
    let unreadable = |cause: String| Failure::input(format!("cannot read model `{}`", path.display())).because(cause);
    let (file, length) = open("model", path)?;
    if length > ONNX_BYTES_MAX {
        return Err(unreadable(format!("it is longer than {}", human_bytes(Bytes(ONNX_BYTES_MAX))))
            .hint("export it with its weights in files of their own (external_data=True); they are not read"));
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    from_onnx(file, &name).map_err(|error| unreadable(error.to_string()).maybe_hint(error.hint()))
}

/// Opens a regular file to be read piece by piece; returns it with its length in bytes.
pub(crate) fn open(what: &str, path: &Path) -> Result<(fs::File, u64), Failure> {
    trainyard_documents::open(path).map_err(|why| unreadable(what, path, &why))
}

/// Reads a plan document.
pub(crate) fn read_plan(path: &Path) -> Result<PlanDocument, Failure> {
    diagnose::plan_from_json(&read_text("plan", path)?, path)
}

/// Reads a profile of a machine.
pub(crate) fn read_profile(path: &Path) -> Result<MeasuredMachine, Failure> {
    let text = read_text("profile", path).map_err(|failure| failure.hint("`trainyard calibrate` writes one"))?;
    profile_of_text(&text, path)
}

fn profile_of_text(text: &str, path: &Path) -> Result<MeasuredMachine, Failure> {
    profile_from_toml(text, &path.display().to_string())
        .map_err(|error| Failure::of(Exit::Input, &error).maybe_hint(error.hint()))
}

/// Parses the files that a plan names for its machines, from their texts and their names for errors.
pub(crate) fn machine_files(
    profile: (Option<&str>, &Path),
    cluster: (Option<&str>, &Path),
    constants: (Option<&str>, &Path),
) -> Result<MachineFiles, Failure> {
    let machine = match (profile, cluster) {
        ((Some(text), path), _) => Some(MachineFile::Profile(Box::new(profile_of_text(text, path)?))),
        (_, (Some(text), path)) => Some(MachineFile::Cluster(Box::new(diagnose::from_toml("cluster", text, path)?))),
        _ => None,
    };
    let constants = constants.0.map(|text| constants_of_text(text, constants.1)).transpose()?;
    Ok(MachineFiles { machine, constants, prices: None })
}

/// Reads a file that describes a cluster.
pub(crate) fn read_cluster(path: &Path) -> Result<ClusterFile, Failure> {
    diagnose::from_toml("cluster", &read_text("cluster", path)?, path)
}

/// Reads a file of constants that override the catalog.
pub(crate) fn read_constants(path: &Path) -> Result<Constants, Failure> {
    constants_of_text(&read_text("constants", path)?, path)
}

fn constants_of_text(text: &str, path: &Path) -> Result<Constants, Failure> {
    let file: ConstantsFile = diagnose::from_toml("constants", text, path)?;
    Constants::try_from(file)
        .map_err(|error| Failure::input(format!("cannot read constants `{}`", path.display())).because_of(&error))
}

/// Reads a table of prices that override the catalog's.
pub(crate) fn read_prices(path: &Path) -> Result<PriceTable, Failure> {
    let text = read_text("prices", path)?;
    PriceTable::from_csv(&text, &path.display().to_string())
        .map_err(|error| Failure::of(Exit::Input, &error).maybe_hint(error.hint()))
}

/// Returns the built-in catalog, overridden by the constants of a file if there is one.
pub(crate) fn catalog_of(constants: Option<&Path>) -> Result<Cow<'static, Catalog>, Failure> {
    let Some(path) = constants else { return Ok(Cow::Borrowed(catalog())) };
    Ok(Cow::Owned(catalog().with(&read_constants(path)?)))
}

/// Reads the profile that a plan document needs; its path is relative to the document.
pub(crate) fn profile_of(document: &PlanDocument, plan: &Path) -> Result<Option<MeasuredMachine>, Failure> {
    let Some(profile) = &document.plan.cluster.profile else { return Ok(None) };
    read_profile(&beside(plan, Path::new(profile))).map(Some)
}

/// Reads the files that a plan document names for its machines; their paths are relative to the document. The user's
/// constants, if any, override the catalog in place of those that it names.
pub(crate) fn machine_files_of(
    document: &PlanDocument,
    plan: &Path,
    constants: Option<&Path>,
) -> Result<MachineFiles, Failure> {
    let named = document.plan.cluster.constants.as_ref().map(|path| beside(plan, Path::new(path)));
    let constants = constants.map(Path::to_owned).or(named);
    Ok(MachineFiles {
        machine: machine_file_of(document, plan)?,
        constants: constants.as_deref().map(read_constants).transpose()?,
        prices: None,
    })
}

/// Reads the file that describes the machines of a plan document, if it names one.
fn machine_file_of(document: &PlanDocument, plan: &Path) -> Result<Option<MachineFile>, Failure> {
    let Some(file) = &document.plan.cluster.file else {
        return Ok(profile_of(document, plan)?.map(|profile| MachineFile::Profile(Box::new(profile))));
    };
    read_cluster(&beside(plan, Path::new(file))).map(|file| Some(MachineFile::Cluster(Box::new(file))))
}

/// The names under which the history stores the files of a plan's machines: its profile, its cluster, its constants.
pub(crate) const NAMED: [&str; 3] = [PROFILE, "cluster.toml", CONSTANTS];
/// The name of the profile in a run's folder and in the history.
pub(crate) const PROFILE: &str = "profile.toml";
/// The name of the constants there, if there are some.
pub(crate) const CONSTANTS: &str = "constants.toml";

/// Returns the unparsed files that a plan document names for its machines, under names of their own. One that cannot be
/// read is left out.
pub(crate) fn named_by(document: &PlanDocument, plan: &Path) -> Vec<Document> {
    let cluster = &document.plan.cluster;
    let named = NAMED.into_iter().zip([&cluster.profile, &cluster.file, &cluster.constants]);
    named
        .filter_map(|(name, path)| {
            let text = read_text("file of machines", &beside(plan, Path::new(path.as_ref()?))).ok()?;
            Some(Document { name: name.into(), text })
        })
        .collect()
}

/// Resolves a path that a file names, relative to that file: `..` in `examples/job.toml` is `.`.
pub(crate) fn beside(file: &Path, path: &Path) -> PathBuf {
    let joined = file.parent().unwrap_or(Path::new("")).join(path);
    // Going up from a folder that is a symbolic link leads elsewhere than its name says.
    if joined.ancestors().any(Path::is_symlink) {
        return joined;
    }
    let mut short = PathBuf::new();
    for part in joined.components() {
        match (part, short.components().next_back()) {
            (Component::ParentDir, Some(Component::Normal(_))) => {
                short.pop();
            }
            (Component::CurDir, _) => {}
            _ => short.push(part),
        }
    }
    if short.as_os_str().is_empty() { PathBuf::from(".") } else { short }
}

/// Returns the failure of writing a file. A place that cannot be written to is the input's fault, a full disk is not.
fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind::{
        AlreadyExists, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
    };
    let cannot = format!("cannot write `{}`", path.display());
    match error.kind() {
        AlreadyExists => Failure::input(cannot)
            .because("there is a file of this name, where a folder is needed")
            .hint("name a folder that is new, or one that is there"),
        PermissionDenied | ReadOnlyFilesystem | NotFound | NotADirectory | IsADirectory => {
            Failure::input(cannot).because(error.to_string()).hint("name a place that you may write to")
        }
        _ => Failure::new(Exit::Failed, cannot).because(error.to_string()),
    }
}

/// The kind of output to write to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    File,
    /// A folder of files.
    Folder,
    /// A file, or files in a folder where one exists.
    Either,
}

/// Checks that this can be written there. Nothing is created.
pub(crate) fn expect_room(path: &Path, what: Written) -> Result<(), Failure> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if is_stream(path) && what != Written::Folder {
        return Ok(());
    }
    let room = || {
        match what {
            Written::File if target.is_dir() => return Err(std::io::ErrorKind::IsADirectory.into()),
            Written::Folder if target.exists() && !target.is_dir() => {
                return Err(std::io::ErrorKind::NotADirectory.into());
            }
            _ => {}
        }
        let inside = if target.is_dir() { target.as_path() } else { folder_of(&target) };
        // Missing folders on the way are created when the file is written.
        let there = inside.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
        tempfile::tempfile_in(there).map(drop).map_err(nameless)
    };
    room().map_err(|error| unwritable(path, &error))
}

/// Removes the name of the temporary file, which means nothing to users, from an error.
fn nameless(error: std::io::Error) -> std::io::Error {
    match error.to_string().split_once(" at path ") {
        Some((cause, _)) => std::io::Error::new(error.kind(), cause),
        None => error,
    }
}

/// Returns the folder that contains a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Replaces the content of a file atomically. Its folder is created if there is none.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    write_all(&[(path, content)])
}

/// Replaces several files, which may only be earlier results: none before the new content of all of them is on the disk.
/// A symbolic link stays, and leads to the new content; what is no regular file, such as `/dev/stdout`, is written to as
/// it is.
pub(crate) fn write_all<P: AsRef<Path>, C: AsRef<[u8]>>(files: &[(P, C)]) -> Result<(), Failure> {
    if caller::cancellation().is_cancelled() {
        return Err(Failure::stopped());
    }
    marks::expect_earlier(files)?;
    replace_all(files)
}

fn replace_all<P: AsRef<Path>, C: AsRef<[u8]>>(files: &[(P, C)]) -> Result<(), Failure> {
    let files = files.iter().map(|(path, content)| (path.as_ref(), content));
    let (streams, files): (Vec<_>, Vec<_>) = files.partition(|(path, _)| is_stream(path));
    let mut staged = Vec::new();
    for (path, content) in files {
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        staged.push((path, stage(&target, content.as_ref()).map_err(|error| unwritable(path, &error))?, target));
    }
    for (path, content) in streams {
        let opened = fs::OpenOptions::new().write(true).open(path);
        opened.and_then(|mut stream| stream.write_all(content.as_ref())).map_err(|error| unwritable(path, &error))?;
    }
    let mut folders = BTreeSet::new();
    for (path, file, target) in staged {
        file.persist(&target).map_err(|error| unwritable(path, &error.error))?;
        folders.insert(folder_of(&target).to_path_buf());
    }
    // The new names survive a loss of power too, where the system can be asked for that.
    folders.iter().filter_map(|folder| fs::File::open(folder).ok()).for_each(|folder| drop(folder.sync_all()));
    Ok(())
}

/// Returns `true` if a name is that of a device or a pipe, not of a file or a folder.
pub(crate) fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

/// Writes the new content of a file beside it, under a temporary name that is removed unless it is kept.
fn stage(path: &Path, content: &[u8]) -> std::io::Result<tempfile::TempPath> {
    let folder = folder_of(path);
    fs::create_dir_all(folder)?;
    if path.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    let mut file = readable(tempfile::Builder::new().prefix(".trainyard-")).tempfile_in(folder).map_err(nameless)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    if let Ok(before) = fs::metadata(path) {
        file.as_file().set_permissions(before.permissions())?;
    }
    // The file is closed, so that any number of files may wait.
    Ok(file.into_temp_path())
}

/// Makes results as readable as any other file that the user creates; temporary files are private.
#[cfg(unix)]
fn readable<'a, 'b>(builder: &'a mut tempfile::Builder<'b, 'b>) -> &'a mut tempfile::Builder<'b, 'b> {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(fs::Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn readable<'a, 'b>(builder: &'a mut tempfile::Builder<'b, 'b>) -> &'a mut tempfile::Builder<'b, 'b> {
    builder
}

/// Creates a file to which a run adds lines.
pub(crate) fn create(path: &Path) -> Result<fs::File, Failure> {
    fs::File::create(path).map_err(|error| unwritable(path, &error))
}

/// Removes an empty file, and its folder if that is then empty.
pub(crate) fn discard(folder: &Path, name: &str) {
    // Files that cannot be removed do no harm.
    let _ = fs::remove_file(folder.join(name)).and_then(|()| fs::remove_dir(folder));
}

/// Returns a name for a file or a folder that cannot lead elsewhere: ASCII letters and digits, `-`, `_` and `.`, which
/// is not first.
pub(crate) fn plain_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let plain: String = name.chars().map(plain).collect();
    match plain.strip_prefix('.') {
        Some(rest) => format!("-{rest}"),
        None => plain,
    }
}

/// Creates a folder for a run: the user's, which must be new or empty, or the next under `runs`.
pub(crate) fn run_folder(wanted: Option<&Path>, model: &str) -> Result<PathBuf, Failure> {
    if let Some(folder) = wanted {
        expect_unused(folder)?;
        fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
        return Ok(folder.into());
    }
    fs::create_dir_all(RUNS).map_err(|error| unwritable(Path::new(RUNS), &error))?;
    let name = plain_name(model);
    for number in 1.. {
        let folder = Path::new(RUNS).join(format!("{name}-{number}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unwritable(&folder, &error)),
        }
    }
    unreachable!("a disk holds fewer folders than there are numbers")
}

/// Refuses a place where there can be no folder for a run, before it is made.
pub(crate) fn expect_run_folder(wanted: Option<&Path>) -> Result<(), Failure> {
    wanted.map_or(Ok(()), expect_unused)?;
    expect_room(wanted.unwrap_or(Path::new(RUNS)), Written::Folder)
}

/// Refuses a folder that is not empty.
pub(crate) fn expect_unused(folder: &Path) -> Result<(), Failure> {
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::input(format!("`--out {}` is a folder that is not empty", folder.display()))
            .hint("name a new folder; nothing is overwritten"));
    }
    Ok(())
}

/// Returns the folders in a folder, in the order of their names.
pub(crate) fn folders(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut folders = listed(folder)?;
    folders.retain(|path| path.is_dir());
    Ok(folders)
}

/// Returns the content of a folder, in the order of the names.
pub(crate) fn listed(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::input(format!("cannot read folder `{}`", folder.display())).because(error.to_string())
    };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Returns `target` relative to `folder`; absolute where one is not reachable from the other.
pub(crate) fn relative(folder: &Path, target: &Path) -> PathBuf {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(to) = fs::canonicalize(target) else { return target.into() };
    let Some(from) = canonical(folder) else { return to };
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    if shared == 0 {
        return to;
    }
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

/// Returns the canonical path of a folder, the last parts of which may not exist yet.
fn canonical(folder: &Path) -> Option<PathBuf> {
    fs::canonicalize(folder).ok().or_else(|| {
        let (parent, name) = (folder.parent()?, folder.file_name()?);
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        Some(canonical(parent)?.join(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_from_a_folder_that_is_not_there_yet() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("lab.toml");
        fs::write(&file, "").expect("room");
        assert_eq!(relative(&folder.path().join("new/plans"), &file), Path::new("../../lab.toml"));
    }

    #[test]
    fn a_model_may_stand_alone_or_beside_its_source_as_in_the_catalog() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("model.toml");
        let fields = "name = \"small\"\nfamily = \"gpt\"\nlayers = 2\n";
        fs::write(&path, fields).expect("room");
        let alone = read_model(&path, None).expect("a model");
        fs::write(&path, format!("source = \"a table\"\n[model]\n{fields}")).expect("room");
        assert_eq!(read_model(&path, None).expect("a model"), alone);
        assert_eq!(data_set_of_model(&path), None);
        fs::write(&path, format!("source = \"a table\"\ndataset = \"text\"\n[model]\n{fields}")).expect("room");
        assert_eq!(read_model(&path, None).expect("a model"), alone);
        assert_eq!(data_set_of_model(&path).as_deref(), Some("text"));
        fs::write(&path, format!("sauce = \"a table\"\n[model]\n{fields}")).expect("room");
        assert!(read_model(&path, None).is_err());
    }

    #[test]
    fn a_configuration_is_called_what_is_known_of_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inside = folder.path().join("my-gpt");
        fs::create_dir(&inside).expect("room");
        let shape = "\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 64, \"n_head\": 4, \
                     \"vocab_size\": 100, \"n_positions\": 32";
        let name = |path: &Path, own: Option<&str>| read_model(path, own).map(|spec| spec.name);
        for (file, text) in [
            ("config.json", format!("{{ {shape} }}")),
            ("small.json", format!("{{ {shape} }}")),
            ("named.json", format!("{{ {shape}, \"_name_or_path\": \"me/tiny-gpt\" }}")),
        ] {
            fs::write(inside.join(file), text).expect("room");
        }
        assert_eq!(name(&inside, None).expect("a folder with a configuration"), "my-gpt");
        assert_eq!(name(&inside.join("config.json"), None).expect("a configuration"), "my-gpt");
        assert_eq!(name(&inside.join("small.json"), None).expect("a configuration"), "small");
        assert_eq!(name(&inside.join("named.json"), None).expect("a configuration"), "tiny-gpt");
        assert_eq!(name(&inside.join("named.json"), Some("mine")).expect("a configuration"), "mine");
        let checkpoint = folder.path().join("checkpoint-500");
        fs::create_dir(&checkpoint).expect("room");
        fs::write(checkpoint.join("config.json"), format!("{{ {shape} }}")).expect("room");
        assert_eq!(name(&checkpoint, None).expect("of another program"), "gpt2");
        fs::write(checkpoint.join("plan.json"), "{\"plan\": {\"model\": {\"name\": \"quickstart\"}}}").expect("room");
        assert_eq!(name(&checkpoint, None).expect("of a run"), "quickstart");
        assert!(name(folder.path(), None).expect_err("an empty folder").message().contains("config.json"));
    }

    #[test]
    fn models_of_the_catalog_are_no_paths() {
        assert!(["config.json", "a.onnx", "b.TOML", "./gpt2", "models/gpt2", "/"].into_iter().all(is_model_path));
        assert!(!["gpt2", "llama-3.1-8b", "no-such-model"].into_iter().any(is_model_path));
    }

    #[test]
    fn a_path_seen_from_a_folder_leads_to_the_same_file() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let (from, to) = (root.path().join("a/b"), root.path().join("c"));
        fs::create_dir_all(&from).expect("room");
        fs::create_dir_all(&to).expect("room");
        fs::write(to.join("f"), "x").expect("room");
        assert_eq!(relative(&from, &to.join("f")), Path::new("../../c/f"));
        assert_eq!(relative(&to, &to.join("f")), Path::new("f"));
        assert_eq!(relative(&root.path().join("to be made"), &to.join("f")), Path::new("../c/f"));
    }

    #[test]
    fn paths_in_a_file_are_relative_to_it() {
        let job = Path::new("examples/job.toml");
        assert_eq!(beside(job, Path::new("..")), Path::new("."));
        assert_eq!(beside(job, Path::new("../docs")), Path::new("docs"));
        assert_eq!(beside(Path::new("job.toml"), Path::new("../text")), Path::new("../text"));
        assert_eq!(beside(job, Path::new("/data")), Path::new("/data"));
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("new/plan.json");
        write(&path, "one").expect("room");
        replace_all(&[(&path, "two")]).expect("room");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "two");
        assert_eq!(fs::read_dir(root.path().join("new")).expect("readable").count(), 1);
        assert!(write(root.path(), "a folder stands there").is_err());
    }

    #[test]
    fn whether_something_can_be_written_is_known_before() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let (file, new) = (root.path().join("file"), root.path().join("a/b/plan.json"));
        fs::write(&file, "mine").expect("room");
        for (path, what, has) in [
            (new.as_path(), Written::File, true),
            (new.as_path(), Written::Folder, true),
            (root.path(), Written::Folder, true),
            (root.path(), Written::Either, true),
            (root.path(), Written::File, false),
            (&file, Written::File, true),
            (&file, Written::Either, true),
            (&file, Written::Folder, false),
            (&file.join("plan.json"), Written::File, false),
            (Path::new("plan.json"), Written::File, true),
            (Path::new("/dev/null"), Written::File, true),
        ] {
            let told = expect_room(path, what);
            assert_eq!(told.is_ok(), has, "{} {told:?}", path.display());
            assert!(told.err().is_none_or(|failure| failure.code() == Exit::Input));
        }
        assert_eq!(fs::read_dir(root.path()).expect("readable").count(), 1);
    }

    #[test]
    fn several_files_are_replaced_together_or_not_at_all() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let (one, two) = (root.path().join("one"), root.path().join("two"));
        replace_all(&[(&one, "1"), (&two, "2")]).expect("room");
        assert_eq!(fs::read_to_string(&two).expect("readable"), "2");
        assert!(replace_all(&[(one.as_path(), "3"), (root.path(), "a folder stands there")]).is_err());
        assert_eq!(fs::read_to_string(&one).expect("readable"), "1");
        assert_eq!(fs::read_dir(root.path()).expect("readable").count(), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn links_and_devices_stay_what_they_are() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let (own, link) = (root.path().join("own"), root.path().join("link"));
        fs::write(&own, "old").expect("room");
        std::os::unix::fs::symlink(&own, &link).expect("room");
        replace_all(&[(&link, "new")]).expect("room");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&own).expect("readable"), "new");
        assert!(write(Path::new("/dev/null"), "gone").is_ok());
        assert_eq!(write(Path::new("/dev/full"), "too much").expect_err("it is full").code(), Exit::Failed);
        assert!(is_stream(Path::new("/dev/null")) && is_stream(Path::new("/dev/full")));
    }

    #[test]
    fn names_lead_nowhere_else() {
        let names = ["gpt2-xl", "../../evil", "/etc/passwd", "..", "a b"].map(plain_name);
        assert_eq!(names, ["gpt2-xl", "-.-..-evil", "-etc-passwd", "-.", "a-b"]);
    }

    #[test]
    fn a_folder_with_something_in_it_is_not_used_for_a_run() {
        let root = tempfile::tempdir().expect("a temporary folder");
        assert!(run_folder(Some(&root.path().join("new")), "gpt").is_ok());
        fs::write(root.path().join("plan.json"), "mine").expect("room");
        for refused in [run_folder(Some(root.path()), "gpt").map(drop), expect_run_folder(Some(root.path()))] {
            assert_eq!(refused.expect_err("not empty").code(), Exit::Input);
        }
        assert!(expect_run_folder(Some(&root.path().join("plan.json/run"))).is_err());
        assert!(expect_run_folder(Some(&root.path().join("another"))).is_ok() && !root.path().join("another").exists());
    }
}
