//! Containers in which Slurm starts its steps.
//!
//! # Source
//!
//! NVIDIA Pyxis 0.20, `README.md` and `pyxis_slurmstepd.c`; NVIDIA Enroot 3.5, `doc/cmd/import.md`.

use crate::launch::draft::{Draft, Flag};
use crate::launch::software::Engine;
use crate::shell::quoted;

/// The container of a step, which Pyxis starts.
#[derive(Clone, Debug)]
pub(super) struct Container {
    image: String,
    /// The folder of checkpoints.
    results: String,
    /// Folders that it sees at their own place, besides the one in which sbatch was called.
    folders: Vec<String>,
    /// Variables that come before the image's own.
    variables: Vec<String>,
}

impl Container {
    /// Returns the container of the user's image, if there is one.
    pub(super) fn of(draft: &mut Draft<'_>, variables: &[(String, String)]) -> Option<Self> {
        if !draft.given(Flag::Image) {
            return None;
        }
        let image = enroot_name(&draft.asks_or(Flag::Image, ""));
        let results = draft.results_folder();
        // Megatron-LM takes what the paths of two files begin with.
        let by_prefix = draft.engine == Engine::Megatron;
        let data = draft.value(Flag::Data).map(|data| if by_prefix { parent(data) } else { data }.to_owned());
        let weights = draft.value(Flag::Weights).map(ToOwned::to_owned);
        // What is not absolute lies where sbatch is called, or is a name on the Hub.
        let absolute = |path: &String| path.starts_with('/') && path != "/";
        let mut folders: Vec<String> = data.into_iter().chain(weights).filter(absolute).collect();
        folders.extend((draft.value(Flag::Results).is_none() || absolute(&results)).then(|| results.clone()));
        folders.sort();
        folders.dedup();
        let variables = variables.iter().map(|(name, _)| name.clone()).collect();
        draft.remark("--container-image and its like are arguments that the plug-in Pyxis adds to srun: the container sees the folder in which sbatch is called and the folders of --container-mounts; add any other that the script reads");
        Some(Self { image, results, folders, variables })
    }

    /// Returns the line that makes the folder of checkpoints, without which it could not be mounted.
    pub(super) fn mkdir(&self) -> String {
        format!("mkdir -p {}\n", quoted(&self.results))
    }

    /// Returns the arguments of srun.
    pub(super) fn arguments(&self) -> String {
        let folders: String =
            self.folders.iter().map(|folder| format!(",{}", quoted(&format!("{folder}:{folder}")))).collect();
        let variables = if self.variables.is_empty() {
            String::new()
        } else {
            format!(" --container-env={}", self.variables.join(","))
        };
        format!(
            "--container-image={} \\\n  --container-mounts=\"$PWD:$PWD\"{folders} --container-workdir=\"$PWD\"{variables} \\\n  ",
            quoted(&self.image)
        )
    }
}

/// Returns the folder of a path.
fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        // The root would hide all that is in the image.
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
        None => ".",
    }
}

/// Returns an image as Enroot names it: with `#` behind the registry, which it would take for a part of a name on Docker Hub
/// otherwise. Paths of files, and addresses, stay as they are.
fn enroot_name(image: &str) -> String {
    match image.split_once('/') {
        Some((registry, name)) if !image.contains('#') && !image.contains("://") && is_registry(registry) => {
            format!("{registry}#{name}")
        }
        _ => image.to_owned(),
    }
}

/// Returns `true` for the name of a host, as Docker tells it from an account.
fn is_registry(name: &str) -> bool {
    name == "localhost" || name.contains(':') || name.trim_start_matches('.').contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_set_off_from_the_name_of_an_image() {
        for (image, named) in [
            ("nvcr.io/nvidia/pytorch:25.06-py3", "nvcr.io#nvidia/pytorch:25.06-py3"),
            ("localhost:5000/own:1", "localhost:5000#own:1"),
            ("nvcr.io#nvidia/pytorch:25.06-py3", "nvcr.io#nvidia/pytorch:25.06-py3"),
            ("pytorch/pytorch:2.8.0", "pytorch/pytorch:2.8.0"),
            ("ubuntu", "ubuntu"),
            ("/shared/own.sqsh", "/shared/own.sqsh"),
            ("./own.sqsh", "./own.sqsh"),
            ("../own.sqsh", "../own.sqsh"),
            ("docker://nvcr.io#nvidia/pytorch", "docker://nvcr.io#nvidia/pytorch"),
        ] {
            assert_eq!(enroot_name(image), named);
        }
    }

    #[test]
    fn data_of_megatron_lie_in_the_folder_of_their_prefix() {
        assert_eq!(["/shared/data/text", "/text", "text"].map(parent), ["/shared/data", "/", "."]);
    }
}
