//! Files and folders: where they are, and written whole or not at all.

use crate::caller;
use crate::failure::{Exit, Failure};
use crate::marks;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

/// Default folder of runs.
const RUNS: &str = "runs";

/// The names under which the history stores the files of a plan's machines: its profile, its cluster, its constants.
pub(crate) const NAMED: [&str; 3] = [PROFILE, "cluster.toml", CONSTANTS];
/// The name of the profile in a run's folder and in the history.
pub(crate) const PROFILE: &str = "profile.toml";
/// The name of the constants there, if there are some.
pub(crate) const CONSTANTS: &str = "constants.toml";

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
