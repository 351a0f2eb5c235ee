//! The catalogs that come with the program: one TOML file for each GPU, instance and stack.

use crate::cluster::Cluster;
use crate::gpu::Gpu;
use crate::instance::Instance;
use crate::stack::Stack;
use rust_embed::RustEmbed;
use serde::de::DeserializeOwned;
use std::sync::OnceLock;

#[derive(RustEmbed)]
#[folder = "catalog"]
struct Files;

/// All GPUs, instances and stacks, each in the order of its file names.
#[derive(Debug)]
pub struct Catalog {
    gpus: Vec<Gpu>,
    instances: Vec<Instance>,
    stacks: Vec<Stack>,
}

/// Why something is not in a catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {kind} is called `{name}`")]
pub struct CatalogError {
    /// `instance`, `GPU` or `stack`.
    pub kind: &'static str,
    /// What was asked for.
    pub name: String,
    /// The most similar name, if one is close.
    pub similar: Option<String>,
}

impl CatalogError {
    /// What the user may do about it.
    pub fn hint(&self) -> String {
        match &self.similar {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("`trainyard show {}s` lists the catalog", self.kind.to_lowercase()),
        }
    }
}

/// The catalogs, read once.
///
/// # Panics
///
/// When a file of the catalog does not parse: the build is broken, and a test says so first.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog { gpus: read("gpus/"), instances: read("instances/"), stacks: read("stacks/") })
}

fn read<T: DeserializeOwned>(folder: &str) -> Vec<T> {
    let mut files: Vec<_> = Files::iter().filter(|path| path.starts_with(folder)).collect();
    files.sort_unstable();
    files
        .iter()
        .map(|path| {
            let file = Files::get(path).expect("an embedded file that was listed can be read");
            let text = std::str::from_utf8(&file.data).expect("catalog files are UTF-8");
            toml::from_str(text).unwrap_or_else(|error| panic!("catalog file {path}: {error}"))
        })
        .collect()
}

fn look_up<'a, T>(
    kind: &'static str,
    entries: &'a [T],
    name: &str,
    name_of: impl Fn(&T) -> &str,
) -> Result<&'a T, CatalogError> {
    entries.iter().find(|entry| name_of(entry) == name).ok_or_else(|| CatalogError {
        kind,
        name: name.into(),
        similar: similar(name, entries.iter().map(&name_of)),
    })
}

/// The most similar of some names, if it is close enough to have been meant.
pub(crate) fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.into())
}

impl Catalog {
    /// All GPUs.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// All instances.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// All software stacks.
    pub fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    /// The GPU of this name.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn gpu(&self, name: &str) -> Result<&Gpu, CatalogError> {
        look_up("GPU", &self.gpus, name, |gpu| &gpu.name)
    }

    /// The instance of this name.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn instance(&self, name: &str) -> Result<&Instance, CatalogError> {
        look_up("instance", &self.instances, name, |instance| &instance.name)
    }

    /// The software stack of this name.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn stack(&self, name: &str) -> Result<&Stack, CatalogError> {
        look_up("stack", &self.stacks, name, |stack| &stack.name)
    }

    /// The stack that stands for measurements published under this label on this generation of GPUs: the one whose
    /// label says most. Nothing if the catalog knows no such label.
    pub fn stack_published_as(&self, stack: &str, version: &str, generation: &str) -> Option<&Stack> {
        self.stacks
            .iter()
            .filter_map(|entry| entry.closeness(stack, version, generation).map(|closeness| (closeness, entry)))
            .max_by_key(|(closeness, _)| *closeness)
            .map(|(_, entry)| entry)
    }

    /// `instances` machines of the type of this name.
    ///
    /// # Errors
    ///
    /// When there is no such type.
    pub fn cluster(&self, instance: &str, instances: u32) -> Result<Cluster, CatalogError> {
        let instance = self.instance(instance)?;
        Ok(Cluster::of_instances(instance, self.gpu(&instance.gpu)?, instances))
    }

    /// The instances whose names match one of the patterns, in which `*` stands for any text.
    ///
    /// # Errors
    ///
    /// When a pattern matches nothing.
    pub fn matching(&self, patterns: &[String]) -> Result<Vec<&Instance>, CatalogError> {
        for pattern in patterns {
            if !self.instances.iter().any(|instance| matches(pattern, &instance.name)) {
                return self.instance(pattern).map(|_| Vec::new());
            }
        }
        Ok(self
            .instances
            .iter()
            .filter(|instance| patterns.iter().any(|pattern| matches(pattern, &instance.name)))
            .collect())
    }
}

/// Whether a name fits a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            rest.char_indices().map(|(index, _)| index).chain([rest.len()]).any(|index| matches(tail, &rest[index..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_has_a_gpu_of_the_catalog_and_a_price() {
        for instance in catalog().instances() {
            assert!(catalog().gpu(&instance.gpu).is_ok(), "{}", instance.name);
            assert!(!instance.prices.is_empty(), "{} has no price", instance.name);
        }
    }

    #[test]
    fn every_size_of_the_four_families_is_there() {
        let count = |family: &str| catalog().instances().iter().filter(|i| i.family() == family).count();
        assert_eq!([count("g4dn"), count("p3"), count("p3dn"), count("p4d")], [7, 3, 1, 1]);
    }

    #[test]
    fn patterns_match_as_a_shell_does() {
        assert!(matches("p3.*", "p3.16xlarge") && !matches("p3.*", "p3dn.24xlarge"));
        assert!(matches("*xlarge", "p3.16xlarge") && matches("*", "anything") && !matches("p3", "p3.2xlarge"));
        assert!(catalog().matching(&["q7.*".into()]).is_err());
    }

    #[test]
    fn a_slip_of_the_keyboard_gets_a_suggestion() {
        let error = catalog().instance("p3.16xlage").expect_err("no such instance");
        assert_eq!(error.hint(), "did you mean `p3.16xlarge`?");
    }
}
