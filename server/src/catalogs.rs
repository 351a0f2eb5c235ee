//! What a job can name: models, instances, places and terms.

use crate::export::{ExportEntry, Target};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use trainyard_hardware_profiles::{Catalog, Instance, Price, Transport, catalog, matches};
use trainyard_models::{Family, Model, Sample};
use trainyard_plan::{Method, Optimizer, Precision, Pricing};
use trainyard_planner::DEFAULT_INSTANCES;
use trainyard_planner::what_if::keys;

/// Everything that the page offers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Catalogs {
    /// The version of the program.
    pub version: String,
    /// Models, by name.
    pub models: Vec<ModelEntry>,
    /// Instance types that have a price, by name.
    pub instances: Vec<InstanceEntry>,
    /// AWS Regions in which some of them have a price.
    pub regions: Vec<String>,
    /// Terms on which they are rented.
    pub pricing: Vec<String>,
    /// Number formats.
    pub precisions: Vec<String>,
    /// Optimizers.
    pub optimizers: Vec<String>,
    /// Software stacks that a job may name.
    pub stacks: Vec<String>,
    /// What machines may send over.
    pub transports: Vec<String>,
    /// Which weights a fine-tuning may train.
    pub methods: Vec<String>,
    /// Keys that a job can be asked to vary, with what they are.
    pub varied: Vec<KeyEntry>,
    /// Programs that launch files can be written for.
    pub exports: Vec<ExportEntry>,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModelEntry {
    /// Catalog id, or the user's name.
    pub name: String,
    /// The architecture.
    pub family: Family,
    /// Trainable values.
    pub parameters: u64,
    /// Tokens of a sample, for models that read tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_sample: Option<u64>,
    /// Where its dimensions were published, for models of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// An instance type.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InstanceEntry {
    /// Catalog id, `p3.16xlarge`.
    pub name: String,
    /// Its GPU.
    pub gpu: String,
    /// GPUs.
    pub gpus: u32,
    /// Memory of each, in bytes.
    pub gpu_memory_bytes: u64,
    /// Whether a job may choose it that names no instances.
    pub default: bool,
    /// What it costs.
    pub prices: Vec<PriceEntry>,
}

/// A key that can be varied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeyEntry {
    /// Its name: `instances`.
    pub name: String,
    /// What it is.
    pub about: String,
}

/// What an instance costs on some terms.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PriceEntry {
    /// AWS Region.
    pub region: String,
    /// ec2 or sagemaker.
    pub service: String,
    /// The terms.
    pub pricing: String,
    /// USD for an hour of one instance.
    pub usd_per_hour: f64,
    /// When it was seen.
    pub date: String,
}

impl Catalogs {
    /// Collects the models, instances, prices and export targets that the program knows.
    pub(crate) fn new(targets: &[Target]) -> Self {
        let hardware = catalog();
        let priced = || hardware.instances().iter().filter(|instance| !instance.prices.is_empty());
        let regions: BTreeSet<String> =
            priced().flat_map(|instance| &instance.prices).map(|price| price.region.clone()).collect();
        let models = trainyard_models::catalog().map(|entry| ModelEntry::of(&entry.model, Some(&entry.source)));
        let names = |all: Vec<&'static str>| all.into_iter().map(Into::into).collect();
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            models: models.collect(),
            instances: priced().map(|instance| InstanceEntry::of(instance, hardware)).collect(),
            regions: regions.into_iter().collect(),
            pricing: names(Pricing::ALL.iter().map(|pricing| pricing.name()).collect()),
            precisions: names(Precision::ALL.iter().map(|precision| precision.name()).collect()),
            optimizers: names(Optimizer::ALL.iter().map(|optimizer| optimizer.name()).collect()),
            stacks: hardware.stacks().iter().filter(|stack| stack.runs.today).map(|stack| stack.name.clone()).collect(),
            transports: names(Transport::ALL.iter().map(|transport| transport.name()).collect()),
            methods: names(Method::ALL.iter().map(|method| method.name()).collect()),
            varied: keys().map(|(name, about)| KeyEntry { name: name.into(), about }).collect(),
            exports: targets
                .iter()
                .map(|target| ExportEntry { name: target.name.into(), title: target.title.into() })
                .collect(),
        }
    }
}

impl ModelEntry {
    pub(crate) fn of(model: &Model, source: Option<&str>) -> Self {
        let tokens_per_sample = match model.sample() {
            Sample::Tokens(tokens) => Some(tokens),
            Sample::Image(_) | Sample::Volume(_) | Sample::Sound | Sample::Record => None,
        };
        Self {
            name: model.name().into(),
            family: model.family(),
            parameters: model.graph().parameters(),
            tokens_per_sample,
            source: source.map(Into::into),
        }
    }
}

impl InstanceEntry {
    fn of(instance: &Instance, hardware: &Catalog) -> Self {
        let memory = hardware.gpu(&instance.gpu).map_or(0, |gpu| gpu.memory.value.0);
        Self {
            name: instance.name.clone(),
            gpu: instance.gpu.clone(),
            gpus: instance.gpus,
            gpu_memory_bytes: memory,
            default: DEFAULT_INSTANCES.iter().any(|pattern| matches(pattern, &instance.name)),
            prices: instance.prices.iter().map(PriceEntry::of).collect(),
        }
    }
}

impl PriceEntry {
    fn of(price: &Price) -> Self {
        Self {
            region: price.region.clone(),
            service: price.service.name().into(),
            pricing: price.purchase.name().into(),
            usd_per_hour: price.hourly().0,
            date: price.date.clone(),
        }
    }
}
