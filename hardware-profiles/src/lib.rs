//! What training runs on: GPUs, links, instances, prices, software stacks, and machines that were measured.
//!
//! Every number of a catalog stands in a TOML file with a unit and a source beside it, prices in one table. Nothing here
//! knows what a model or a plan is, or how long anything takes: `sim` turns these facts into seconds.
//!
//! ```
//! use trainyard_hardware_profiles::{PriceQuery, Purchase, Service, catalog};
//!
//! let catalog = catalog();
//! let instance = catalog.instance("p4d.24xlarge")?;
//! assert_eq!((instance.gpus, instance.gpu.as_str()), (8, "a100-sxm4-40gb"));
//! let cluster = catalog.cluster("p4d.24xlarge", 2)?;
//! assert_eq!(cluster.devices(), 16);
//! # Ok::<(), trainyard_units::CatalogError>(())
//! ```

mod abilities;
mod catalog;
mod cluster;
mod cluster_file;
mod constants;
mod gpu;
mod instance;
mod measured;
mod messaging;
mod operations;
mod price;
mod price_table;
mod processor;
mod share;
mod sourced;
mod stack;
mod storage;

pub use abilities::Abilities;
pub use catalog::{Catalog, catalog, matches};
pub use cluster::{
    Cluster, Device, DevicePosition, Fabric, Host, LatencyFactors, PcieTree, Pool, Processors, Remote, SwitchLevel,
};
pub use cluster_file::{
    ClusterFile, GpuChoice, GpuSpec, HostSpec, LinkKind, LinkSpec, MachineSpec, NetworkSpec, SwitchSpec,
};
pub use constants::{CONSTANTS_SCHEMA, Constants, ConstantsFile, GPU_PARAMETERS, Parameter, STACK_PARAMETERS};
pub use gpu::{Achieved, Gpu, Rate};
pub use instance::{HostLinks, Instance, Interconnect, Link, Network, Transport};
pub use measured::{
    CollectiveOperation, CollectiveSample, CorrectedPhase, Correction, DeviceKind, MeasuredMachine, NumberFormat,
    OperatorClass, OperatorSample, PROFILE_SCHEMA,
};
pub use messaging::{MeasuredFabric, Messaging};
pub use operations::{Operations, SpotAdvisor, SpotBand, StartUp};
pub use price::{Price, PriceQuery, Purchase, Service};
pub use price_table::{PriceTable, USD_PER_HOUR_MAX};
pub use processor::{Loader, Processor};
pub use sourced::{Fitted, Sourced};
pub use stack::{
    DEFAULT_STACK, EXECUTOR_STACK, MEMORY_MARGIN_MIN, MapLayout, Publication, PublishedAs, Release, Stack, StageCut,
};
pub use storage::{FileSystem, LocalDisk, ObjectStorage, RemoteStorage, Storage, Tier, Volume};
