//! Costs of a device, whatever its kind. A kind is a file with its [`DeviceCosts`], and a line in [`device_costs`].

use super::costs::{Costs, Placed};
use super::operation::Operation;
use super::work::LayerWork;
use crate::machine::{Machine, MachineError};
use crate::wiring::Wiring;
use trainyard_hardware_profiles::{Device, DevicePosition, Stack};
use trainyard_plan::operators::{AttentionKernel, Layer, Pass, Sharing};
use trainyard_plan::{
    Collective, Collectives, CopyDirection, Exchange, Lifetime, OperatorRate, Optimizer, ParameterCounts, Plan,
    Precision, Rank, Resident, StageId, Store,
};
use trainyard_units::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds};

/// The costs of a device: the only place that tells kinds of devices apart.
pub(crate) fn device_costs(device: &Device) -> &dyn DeviceCosts {
    match device {
        Device::Gpu(gpu) => gpu,
        Device::Measured(machine) => machine,
    }
}

/// The way in which a plan uses a device.
#[derive(Clone, Copy)]
pub(crate) struct Usage<'a> {
    pub(crate) stack: &'a Stack,
    /// Host time to launch a kernel.
    pub(crate) launch: Seconds,
    pub(crate) precision: Precision,
    /// Ranks at work at the same time.
    pub(crate) ranks: u32,
    /// One standard deviation of a sample's work over its mean.
    pub(crate) work_cv: f64,
    /// `true` if training drops something out here.
    pub(crate) drops_out: bool,
}

/// One operator in one pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OperatorCost {
    pub(crate) name: &'static str,
    /// The longer of its kernels and of their launches.
    pub(crate) seconds: Seconds,
    /// Backward, the part of its kernels that is for gradients of weights.
    pub(crate) weights_share: f64,
    /// Arithmetic.
    pub(crate) flops: f64,
    /// Bytes of device memory read and written.
    pub(crate) bytes: f64,
}

/// Nominal rates of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Peaks {
    /// Matrix products.
    pub(crate) arithmetic: FlopsPerSecond,
    /// The part of that which large ones reach.
    pub(crate) products: f64,
    /// Device memory.
    pub(crate) memory: BytesPerSecond,
}

/// Seconds and bytes of what a rank does on its device.
pub(crate) trait DeviceCosts: Sync {
    /// Kernels of a layer over `samples` samples on one of the ranks that share it, with their launches and without
    /// communication.
    ///
    /// # Errors
    ///
    /// When an operator was not measured.
    fn layer(&self, usage: Usage<'_>, layer: &Layer, samples: u64, sharing: Sharing)
    -> Result<LayerWork, MachineError>;

    /// The operators of a pass through a layer, one by one; none where layers are known only as a whole.
    fn operator_costs(
        &self,
        _usage: Usage<'_>,
        _layer: &Layer,
        _pass: Pass,
        _samples: u64,
        _sharing: Sharing,
    ) -> Vec<OperatorCost> {
        Vec::new()
    }

    /// Every pass of a layer's operators that has arithmetic; none where layers are known only as a whole.
    fn operator_rates(&self, _usage: Usage<'_>, _layer: &Layer, _samples: u64, _sharing: Sharing) -> Vec<OperatorRate> {
        Vec::new()
    }

    /// Adding one micro-batch's gradients to the sum.
    ///
    /// # Errors
    ///
    /// When it was not measured.
    fn accumulate(&self, usage: Usage<'_>, held: ParameterCounts) -> Result<Seconds, MachineError>;

    /// The optimizer's update of what a rank holds, of which `touched` parameters are rows of tables that were looked
    /// up.
    ///
    /// # Errors
    ///
    /// When it was not measured.
    fn update(
        &self,
        usage: Usage<'_>,
        optimizer: Optimizer,
        held: ParameterCounts,
        touched: u64,
    ) -> Result<Seconds, MachineError>;

    /// Bytes per second that kernels read and write in the device's memory.
    fn memory_rate(&self) -> f64;

    /// Kernels that read and write this many bytes.
    fn streaming(&self, bytes: f64) -> Seconds;

    /// Copies between device and host.
    fn host_bandwidth(&self) -> BytesPerSecond;

    /// Nominal rates in a precision; none where no datasheet tells them.
    fn peaks(&self, precision: Precision) -> Option<Peaks>;

    /// Refuses a precision that the device has no units for, or was not measured in.
    ///
    /// # Errors
    ///
    /// The device and the precision.
    fn has_units(&self, precision: Precision) -> Result<(), MachineError>;

    /// Refuses a plan that cannot run on a machine with these devices.
    ///
    /// # Errors
    ///
    /// The first thing that the machine lacks.
    fn admits(&self, machine: &Machine, plan: &Plan) -> Result<(), MachineError>;

    /// The part by which a kernel takes longer beside a collective, where it was measured.
    fn overlap_slowdown(&self) -> Option<f64> {
        None
    }

    /// Returns the kernel of attention, if it is the same whatever the model says.
    fn attention(&self) -> Option<AttentionKernel> {
        None
    }

    /// Returns when values are let go, if that is the same whatever the stack says.
    fn lifetime(&self) -> Option<Lifetime> {
        None
    }

    /// Memory of a rank of a stage, of which `held` is counted.
    fn resident(&self, _plan: &Plan, _stage: StageId, held: Resident) -> Resident {
        held
    }

    /// Communication of ranks on these devices.
    fn links(&self) -> &dyn LinkCosts;
}

/// Communication: over links that are known, or as it was measured. What it asks of links comes with the ranks that do
/// it together.
///
/// Whatever fails does so because it was not measured.
pub(crate) trait LinkCosts {
    /// Every rank of a stage hands one micro-batch to its neighbour.
    fn transfers(&self, of: &Costs<'_>, pairs: Vec<Vec<Rank>>, bytes: Bytes) -> Result<Vec<Placed>, MachineError>;

    /// The number of ranks each of which sends its part of a transfer.
    fn transfer_parts(&self, of: &Costs<'_>) -> u64;

    /// A collective of some groups.
    fn exchanges(
        &self,
        of: &Costs<'_>,
        exchange: Exchange,
        groups: Vec<Vec<Rank>>,
    ) -> Result<Vec<Placed>, MachineError>;

    /// The collective that an exchange among so many ranks becomes, its buffer, and bytes of an element.
    fn sent(&self, of: &Costs<'_>, exchange: Exchange, members: u64) -> (Collective, Bytes, u64);

    /// First and last stage sum the gradients of the table that they share.
    fn reduce_shared(&self, of: &Costs<'_>, held: ParameterCounts) -> Result<Vec<Placed>, MachineError>;

    /// One rank's copy between its device and the store of its machine.
    fn copy(&self, of: &Costs<'_>, rank: Rank, way: CopyDirection, store: Store, bytes: Bytes) -> Operation;

    /// One rank's update by the processor of its machine.
    fn host_update(
        &self,
        of: &Costs<'_>,
        rank: Rank,
        store: Store,
        held: ParameterCounts,
    ) -> Result<Operation, MachineError>;

    /// The time in which every group does the same, all at once; the slowest group counts.
    fn together(
        &self,
        wiring: &Wiring<'_>,
        collective: Collective,
        algorithm: Collectives,
        groups: &[Vec<DevicePosition>],
        bytes: Bytes,
    ) -> Result<Seconds, MachineError>;

    /// Tells whether collectives inside a layer go on beside its products.
    fn overlaps_inside_layers(&self) -> bool;
}
