//! Files that users name, read with errors that name them.

use crate::caller;
use crate::diagnose;
use crate::failure::{Exit, Failure};
use crate::files::{NAMED, beside, folder_of};
use std::borrow::Cow;
use std::fs;
use std::io::Read;
use std::path::Path;
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
pub(crate) fn text(what: &str, path: &Path) -> Result<String, Failure> {
    if let Some(text) = caller::text(path) {
        return Ok(text);
    }
    trainyard_documents::text(path, largest(what)).map_err(|why| unreadable(what, path, &why))
}

/// Reads the text of a file that may be compressed with gzip.
pub(crate) fn packed(what: &'static str, path: &Path) -> Result<String, Failure> {
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
pub(crate) fn model(path: &Path, name: Option<&str>) -> Result<ModelSpec, Failure> {
    if is_config(path) {
        return config(path, name);
    }
    if has_ending(path, "onnx") { onnx(path) } else { toml_model(path) }
}

/// Reads the model of a Hugging Face configuration, or of the one in a folder.
pub(crate) fn config(path: &Path, name: Option<&str>) -> Result<ModelSpec, Failure> {
    let path = if path.is_dir() { path.join(CONFIG) } else { path.to_owned() };
    let text = text("model configuration", &path)
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
        let plan = value(&self::text("plan", &folder_of(path).join("plan.json")).ok()?)?;
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
fn toml_model(path: &Path) -> Result<ModelSpec, Failure> {
    let text = text("model", path)?;
    let table: toml::Table = diagnose::from_toml("model", &text, path)?;
    if table.contains_key("model") {
        return diagnose::from_toml("model", &text, path).map(|file: ModelFile| file.model);
    }
    diagnose::from_toml("model", &text, path)
}

/// Returns the data set that the file of a model names beside its source, if it does.
pub(crate) fn data_set_of_model(path: &Path) -> Option<String> {
    let file: ModelFile = from_toml(&text("model", path).ok()?).ok()?;
    file.dataset
}

/// Reads the model of an ONNX file, named after the file.
fn onnx(path: &Path) -> Result<ModelSpec, Failure> {
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
pub(crate) fn plan(path: &Path) -> Result<PlanDocument, Failure> {
    diagnose::plan_from_json(&text("plan", path)?, path)
}

/// Reads a profile of a machine.
pub(crate) fn profile(path: &Path) -> Result<MeasuredMachine, Failure> {
    let text = text("profile", path).map_err(|failure| failure.hint("`trainyard calibrate` writes one"))?;
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
pub(crate) fn cluster(path: &Path) -> Result<ClusterFile, Failure> {
    diagnose::from_toml("cluster", &text("cluster", path)?, path)
}

/// Reads a file of constants that override the catalog.
pub(crate) fn constants(path: &Path) -> Result<Constants, Failure> {
    constants_of_text(&text("constants", path)?, path)
}

fn constants_of_text(text: &str, path: &Path) -> Result<Constants, Failure> {
    let file: ConstantsFile = diagnose::from_toml("constants", text, path)?;
    Constants::try_from(file)
        .map_err(|error| Failure::input(format!("cannot read constants `{}`", path.display())).because_of(&error))
}

/// Reads a table of prices that override the catalog's.
pub(crate) fn prices(path: &Path) -> Result<PriceTable, Failure> {
    let text = text("prices", path)?;
    PriceTable::from_csv(&text, &path.display().to_string())
        .map_err(|error| Failure::of(Exit::Input, &error).maybe_hint(error.hint()))
}

/// Returns the built-in catalog, overridden by the constants of a file if there is one.
pub(crate) fn catalog_of(constants: Option<&Path>) -> Result<Cow<'static, Catalog>, Failure> {
    let Some(path) = constants else { return Ok(Cow::Borrowed(catalog())) };
    Ok(Cow::Owned(catalog().with(&self::constants(path)?)))
}

/// Reads the profile that a plan document needs; its path is relative to the document.
pub(crate) fn profile_of(document: &PlanDocument, plan: &Path) -> Result<Option<MeasuredMachine>, Failure> {
    let Some(profile) = &document.plan.cluster.profile else { return Ok(None) };
    self::profile(&beside(plan, Path::new(profile))).map(Some)
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
        constants: constants.as_deref().map(self::constants).transpose()?,
        prices: None,
    })
}

/// Reads the file that describes the machines of a plan document, if it names one.
fn machine_file_of(document: &PlanDocument, plan: &Path) -> Result<Option<MachineFile>, Failure> {
    let Some(file) = &document.plan.cluster.file else {
        return Ok(profile_of(document, plan)?.map(|profile| MachineFile::Profile(Box::new(profile))));
    };
    cluster(&beside(plan, Path::new(file))).map(|file| Some(MachineFile::Cluster(Box::new(file))))
}

/// Returns the unparsed files that a plan document names for its machines, under names of their own. One that cannot be
/// read is left out.
pub(crate) fn named_by(document: &PlanDocument, plan: &Path) -> Vec<Document> {
    let cluster = &document.plan.cluster;
    let named = NAMED.into_iter().zip([&cluster.profile, &cluster.file, &cluster.constants]);
    named
        .filter_map(|(name, path)| {
            let text = text("file of machines", &beside(plan, Path::new(path.as_ref()?))).ok()?;
            Some(Document { name: name.into(), text })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_may_stand_alone_or_beside_its_source_as_in_the_catalog() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("model.toml");
        let fields = "name = \"small\"\nfamily = \"gpt\"\nlayers = 2\n";
        fs::write(&path, fields).expect("room");
        let alone = model(&path, None).expect("a model");
        fs::write(&path, format!("source = \"a table\"\n[model]\n{fields}")).expect("room");
        assert_eq!(model(&path, None).expect("a model"), alone);
        assert_eq!(data_set_of_model(&path), None);
        fs::write(&path, format!("source = \"a table\"\ndataset = \"text\"\n[model]\n{fields}")).expect("room");
        assert_eq!(model(&path, None).expect("a model"), alone);
        assert_eq!(data_set_of_model(&path).as_deref(), Some("text"));
        fs::write(&path, format!("sauce = \"a table\"\n[model]\n{fields}")).expect("room");
        assert!(model(&path, None).is_err());
    }

    #[test]
    fn a_configuration_is_called_what_is_known_of_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inside = folder.path().join("my-gpt");
        fs::create_dir(&inside).expect("room");
        let shape = "\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 64, \"n_head\": 4, \
                     \"vocab_size\": 100, \"n_positions\": 32";
        let name = |path: &Path, own: Option<&str>| model(path, own).map(|spec| spec.name);
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
}
