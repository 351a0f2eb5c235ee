//! The files that a job names.

use trainyard_hardware_profiles::{ClusterFile, Constants, MeasuredMachine, PriceTable};
use trainyard_models::ModelSpec;

/// Contents of the files that a job names, which only the command line opens.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// The content of `model.file` or `model.config`.
    pub model_file: Option<ModelSpec>,
    /// The content of `cluster.profile`.
    pub profile: Option<MeasuredMachine>,
    /// The path of that profile, as the plan shall name it.
    pub profile_path: Option<String>,
    /// The content of `cluster.file`.
    pub cluster_file: Option<ClusterFile>,
    /// The path of that file, as the plan shall name it.
    pub cluster_path: Option<String>,
    /// The content of `cluster.constants`.
    pub constants: Option<Constants>,
    /// The path of that file, as the plan shall name it.
    pub constants_path: Option<String>,
    /// The content of `data.lengths`: tokens of each sample.
    pub lengths: Option<Vec<u64>>,
    /// The content of `cluster.prices`.
    pub prices: Option<PriceTable>,
}
