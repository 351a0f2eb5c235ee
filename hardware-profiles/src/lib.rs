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

// What every number and every name has.
mod date;
mod pattern;
mod sourced;

// The parts of machines, and what they cost.
mod capacity_block;
mod gpu;
mod interconnect;
mod measured;
mod network;
mod operations;
mod price;
mod processor;
mod share;
mod storage;

// Machines, and the software on them.
mod abilities;
mod cluster;
mod instance;
mod seen;
mod site;
mod stack;

// The catalog that comes with the program, and what people write instead of its entries.
mod catalog;
mod cluster_file;
mod constants;

pub use abilities::Abilities;
pub use capacity_block::{LONGEST_BLOCK, blocks_of, booked, booked_instances, usable_in_block};
pub use catalog::{Catalog, PriceTable, USD_PER_HOUR_MAX, catalog};
pub use cluster::{
    Cluster, Device, DevicePosition, Fabric, Host, LatencyFactors, PcieTree, Pool, Processors, Remote, SwitchLevel,
    price_of_one,
};
pub use cluster_file::{
    ClusterFile, GpuChoice, GpuSpec, HostSpec, LinkKind, LinkSpec, MachineSpec, NetworkSpec, SharedStorageSpec,
    SwitchSpec,
};
pub use constants::{Constants, ConstantsFile, GPU_PARAMETERS, Parameter, STACK_PARAMETERS};
pub use gpu::{Achieved, Gpu, Rate};
pub use instance::{HostLinks, Instance};
pub use interconnect::{Interconnect, Link};
pub use measured::{
    CollectiveOperation, CollectiveSample, CorrectedPhase, Correction, DeviceKind, MeasuredMachine, NumberFormat,
    OperatorCase, OperatorClass, OperatorSample, PROFILE_SCHEMA,
};
pub use network::{MeasuredFabric, Messaging, Network, Transport};
pub use operations::{Operations, SpotAdvisor, SpotBand, StartUp};
pub use pattern::matches;
pub use price::{Price, PriceQuery, Purchase, Service};
pub use processor::{Loader, Processor};
pub use seen::{Arithmetic, Seen, Work};
pub use site::SlurmSpec;
pub use sourced::{Fitted, Sourced};
pub use stack::{
    DEFAULT_STACK, EXECUTOR_STACK, FIRST_FLASH_ATTENTION, MEMORY_MARGIN_MIN, MapLayout, Publication, PublishedAs,
    Release, Stack, StageCut, UpdatedWeights,
};
pub use storage::{FileSystem, LocalDisk, ObjectStorage, RemoteStorage, SharedStorage, Storage, Tier, Volume};
