//! Pure cost functions: work and a machine in, seconds out, or what a communication asks of the links.

mod admission;
mod collective;
mod compression;
mod convolution;
mod costs;
mod device;
mod gemm;
mod gpu;
mod layer;
mod measured;
mod operation;
mod protocol;
mod recurrence;
mod roofline;
mod route;
mod softmax;
mod timed;
mod wired;
mod work;

pub(crate) use collective::operation;
pub use collective::{all_reduce_time, collective_time, collective_time_by, transfer_time};
pub(crate) use costs::COPY_LATENCY;
pub use costs::{Costs, LayerTable, Placed};
pub(crate) use device::{DeviceCosts, OperatorCost, Peaks, device_costs};
pub use gemm::product_time;
pub use layer::{Computed, LayerCost, LayerCosts, LayerKernels, LayerWaits, expected_max_sigma, layer_costs};
pub(crate) use layer::{Inside, InsideMessage};
pub use operation::{Operation, Phase};
pub use roofline::roofline;
pub use timed::{cases_of_layers, cases_of_update, far_from_timed, work_of_operator};
