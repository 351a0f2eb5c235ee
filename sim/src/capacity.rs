//! Memory of a plan: that which `plan` counts, and that which the software takes besides.

use crate::cost::{DeviceCosts, device_costs};
use crate::layout::Layout;
use crate::machine::Machine;
use std::borrow::Cow;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::Stack;
use trainyard_plan::operators::{AttentionKernel, DropoutSpec, Image, OperatorKind};
use trainyard_plan::{
    Lifetime, Method, Plan, Precision, Resident, Retention, StageId, Store, kept_activations_with, kept_elsewhere,
    least_optimizer_state, resident, resident_with,
};
use trainyard_units::{Bytes, human_bytes};

/// Memory that one rank of each stage needs, and that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Per stage, what the smallest of its devices has.
    pub limits: Vec<Bytes>,
    /// Per stage, what of that plans may use: the rest is a margin.
    pub usable: Vec<Bytes>,
    /// Per stage, what the plan holds.
    pub resident: Vec<Resident>,
    /// Per stage, what the software takes: its own libraries, and what its allocator holds without use.
    pub software: Vec<Bytes>,
    /// Stores that the ranks of one machine share, where anything is kept off the devices.
    pub shared: Vec<SharedStore>,
}

/// Main memory or disk of the machine of which most is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedStore {
    /// The kind of store.
    pub store: Store,
    /// Bytes that its ranks keep there.
    pub needed: Bytes,
    /// Bytes that there are.
    pub available: Bytes,
    /// Those that plans may use: the system, loaders and checkpoints need some too.
    pub usable: Bytes,
}

/// Something that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutOfMemory {
    /// A stage on its devices.
    #[error("stage {} needs {} on each device, but there is {}", stage.0, human_bytes(*needed), human_bytes(*available))]
    Device {
        /// The stage that does not fit.
        stage: StageId,
        /// Bytes that a rank of it needs.
        needed: Bytes,
        /// Bytes of a device.
        available: Bytes,
    },
    /// The states that are kept off the devices.
    #[error("what is offloaded needs {} of each machine's {}, but there is {}", human_bytes(*needed), store_name(*store), human_bytes(*available))]
    Machine {
        /// Where.
        store: Store,
        /// Bytes that the ranks of a machine keep there.
        needed: Bytes,
        /// Bytes that there are.
        available: Bytes,
    },
}

impl OutOfMemory {
    /// Returns the bytes that are needed, and those that there are.
    pub fn amounts(&self) -> (Bytes, Bytes) {
        match self {
            Self::Device { needed, available, .. } | Self::Machine { needed, available, .. } => (*needed, *available),
        }
    }
}

fn store_name(store: Store) -> &'static str {
    match store {
        Store::Host => "main memory",
        Store::Nvme => "local disk",
    }
}

impl Footprint {
    /// Returns the bytes that one rank of a stage needs in all.
    pub fn total(&self, stage: StageId) -> Bytes {
        self.resident[stage.0 as usize].total() + self.software[stage.0 as usize]
    }

    /// Returns the bytes that one rank of a stage needs while the model trains.
    fn training(&self, stage: StageId) -> Bytes {
        self.total(stage).saturating_sub(self.resident[stage.0 as usize].loading)
    }

    /// Returns the bytes that the rank needs that fills most of its device: where devices differ, another may need
    /// more.
    pub fn peak(&self) -> Bytes {
        let filled = |stage: &StageId| self.total(*stage).as_f64() / self.limits[stage.0 as usize].as_f64();
        let by_share = |a: &StageId, b: &StageId| filled(a).total_cmp(&filled(b));
        let fullest = self.stages().max_by(|a, b| by_share(a, b).then(self.total(*a).cmp(&self.total(*b))));
        fullest.map(|stage| self.total(stage)).unwrap_or_default()
    }

    /// Refuses a stage that does not leave the margin free, or a store that is too small.
    ///
    /// # Errors
    ///
    /// The stage or the store that lacks most, if any does.
    pub fn fits(&self) -> Result<(), OutOfMemory> {
        self.fits_within(&self.usable, |shared| shared.usable)
    }

    /// Refuses a stage that does not fit on its devices, whatever it leaves free, or a store that is too small.
    ///
    /// # Errors
    ///
    /// As [`Footprint::fits`].
    pub fn fits_without_margin(&self) -> Result<(), OutOfMemory> {
        self.fits_within(&self.limits, |shared| shared.available)
    }

    fn fits_within(&self, limits: &[Bytes], of_store: fn(&SharedStore) -> Bytes) -> Result<(), OutOfMemory> {
        // The margin is for what is not known of training; weights that are loaded are as large as their file.
        let lacks = |stage: StageId| {
            let number = stage.0 as usize;
            let moments = [(self.training(stage), limits[number]), (self.total(stage), self.limits[number])];
            let beyond = |(needed, available): &(Bytes, Bytes)| needed.0.saturating_sub(available.0);
            let (needed, available) = moments.into_iter().max_by_key(beyond)?;
            (needed > available).then_some((stage, needed, available))
        };
        let most = self.stages().filter_map(lacks).max_by_key(|(_, needed, available)| needed.0 - available.0);
        if let Some((stage, needed, available)) = most {
            return Err(OutOfMemory::Device { stage, needed, available });
        }
        match self.shared.iter().find(|shared| shared.needed > of_store(shared)) {
            None => Ok(()),
            Some(shared) => {
                let (store, needed, available) = (shared.store, shared.needed, of_store(shared));
                Err(OutOfMemory::Machine { store, needed, available })
            }
        }
    }

    fn stages(&self) -> impl Iterator<Item = StageId> + use<> {
        (0..self.resident.len() as u32).map(StageId)
    }
}

/// Returns the memory of one rank of each stage of `plan` on `machine`, and what the ranks of one machine keep in its
/// main memory and on its disk.
pub fn footprint(plan: &Plan, machine: &Machine) -> Footprint {
    let retention = retention(plan, machine);
    let counted = as_computed(plan, machine);
    let on_device = |stage| costs(machine).resident(plan, stage, resident(&counted, stage, retention));
    let resident: Vec<Resident> = plan.stages().ids().map(on_device).collect();
    let beside = Software::of(plan, machine);
    let software = resident.iter().map(|held| beside.memory(held)).collect();
    let layout = Layout { mesh: plan.mesh(), cluster: &machine.cluster };
    let shared = Store::ALL
        .into_iter()
        .filter(|store| plan.offload().touches(*store))
        .filter_map(|store| fullest_machine(plan, machine, layout, store))
        .collect();
    let limits = limits(plan, machine);
    let usable = limits.iter().map(|limit| usable(*limit, &machine.stack)).collect();
    Footprint { limits, usable, resident, software, shared }
}

/// The part of a device's memory that plans may use with a stack.
pub fn usable(memory: Bytes, stack: &Stack) -> Bytes {
    Bytes((memory.as_f64() * (1.0 - stack.memory_margin())) as u64)
}

/// The plan as it is computed on a machine.
fn as_computed<'a>(plan: &'a Plan, machine: &Machine) -> Cow<'a, Plan> {
    costs(machine).attention().map_or(Cow::Borrowed(plan), |own| by_executor(plan, own))
}

/// The plan as the executor computes: with its own kernel of attention, whatever the description of the model says, and
/// without dropout of which nothing is said.
fn by_executor(plan: &Plan, own: AttentionKernel) -> Cow<'_, Plan> {
    let mut spec = plan.spec().clone();
    spec.model.attention = spec.model.attention.and(Some(own));
    if plan.model().assumes_dropout() {
        spec.model.dropout = Some(DropoutSpec::Share(0.0));
    }
    if spec.model == plan.spec().model {
        return Cow::Borrowed(plan);
    }
    Plan::try_from(spec).map_or(Cow::Borrowed(plan), Cow::Owned)
}

fn costs(machine: &Machine) -> &dyn DeviceCosts {
    device_costs(&machine.cluster.first().device)
}

/// Memory of a rank of a stage for each layer: whole states, of the optimizer's the least, and what one micro-batch leaves behind of activations, if
/// `plan` shares out nothing. Layers that are alike are counted once.
pub fn held_by_layers(plan: &Plan, machine: &Machine) -> Vec<Resident> {
    let retention = retention(plan, machine);
    let order = plan.graph().order();
    let mut kinds: Vec<Option<Resident>> = vec![None; plan.graph().distinct().len()];
    let held = |(layer, kind): (usize, &usize)| {
        *kinds[*kind].get_or_insert_with(|| {
            let alone = layer..layer + 1;
            let activations = kept_activations_with(plan, &alone, retention);
            let optimizer_state = least_optimizer_state(plan, plan.held(&alone));
            Resident { activations, optimizer_state, ..resident_with(plan, StageId(0), &[alone], retention) }
        })
    };
    order.iter().enumerate().map(held).collect()
}

/// What the framework keeps: gradients in the precision of compute, in single precision, or in both; and whole logits
/// or not.
fn retention(plan: &Plan, machine: &Machine) -> Retention {
    let (stack, computed) = (&machine.stack, plan.precision().element_bytes());
    let summed = if stack.compute_precision_gradients.value { computed } else { Precision::Fp32.element_bytes() };
    let both = computed < summed && stack.keeps_half_gradients.as_ref().is_some_and(|kept| kept.value);
    let element = if both { summed + computed } else { summed };
    let compiled = stack.let_go_at_once.as_ref().is_some_and(|does| does.value);
    let lifetime = costs(machine).lifetime().unwrap_or(if compiled { Lifetime::LastUse } else { Lifetime::Step });
    let bucketed = machine.lowering().bucket.is_some();
    let experts_weight = stack.scores_sent.as_ref().is_some_and(|sent| sent.value);
    Retention {
        element,
        bucketed,
        lifetime,
        tiles_loss: stack.tiles_loss(),
        experts_weight,
        gradients_on_host: machine.lowering().gradients_on_host,
    }
}

/// Memory of the software beside what a plan holds.
#[derive(Clone, Copy)]
struct Software {
    /// Its own libraries.
    resident: Bytes,
    /// What its separate kernels keep besides the counts where layers are over tokens, relative to activations.
    besides: f64,
    /// What its allocator holds without use, relative to all.
    unused: f64,
}

impl Software {
    fn of(plan: &Plan, machine: &Machine) -> Self {
        let stack = &machine.stack;
        let tokens = plan.graph().distinct().iter().any(|layer| layer.context_elements > 0);
        let frozen = stack.frozen_activations.as_ref().filter(|_| plan.method() != Method::Full);
        let kept = frozen.or(stack.token_activations.as_ref()).filter(|_| tokens);
        Self {
            resident: stack.resident.value,
            besides: kept.map_or(0.0, |kept| kept.value - 1.0),
            unused: stack.fragmentation.value + other_shapes(plan),
        }
    }

    fn memory(&self, held: &Resident) -> Bytes {
        let besides = (held.activations + held.workspace).as_f64() * self.besides;
        let unused = (held.total().as_f64() + besides) * self.unused;
        self.resident + Bytes((besides + unused) as u64)
    }
}

/// Memory in blocks of an allocator that fit no image of a step but one of a step before, relative to tensors, where shapes
/// differ from step to step and regions are cut out of them. Of a V100 of 32 GB, 16 images of Mask R-CNN in single precision
/// are counted to need 0.66 and failed for memory, so it is 0.28 at least; all runs that are known leave room for more.
const OTHER_SHAPES: f64 = 0.3;

fn other_shapes(plan: &Plan) -> f64 {
    let mut operators = plan.graph().distinct().iter().flat_map(|layer| &layer.operators);
    let cut = operators.any(|operator| matches!(operator.kind, OperatorKind::Image(Image::RegionAlign { .. })));
    if cut { OTHER_SHAPES } else { 0.0 }
}

/// Per stage, what the smallest of its devices has.
fn limits(plan: &Plan, machine: &Machine) -> Vec<Bytes> {
    let (layout, ranks) = (Layout { mesh: plan.mesh(), cluster: &machine.cluster }, plan.mesh().ranks());
    if !machine.cluster.is_mixed() {
        let of_any = machine.cluster.memory_per_rank(machine.cluster.position(0), ranks);
        return vec![of_any; plan.stages().count() as usize];
    }
    let smallest = |stage: StageId| {
        let devices = plan.mesh().stage_ranks(stage.0).map(|rank| layout.position(rank));
        devices.map(|at| machine.cluster.memory_per_rank(at, ranks)).min().unwrap_or_default()
    };
    plan.stages().ids().map(smallest).collect()
}

/// Per stage, and by the layer behind a run's last: the first layer with which such a run still fits on the stage's
/// devices, if it is the stage's only one; the same layer where none fits. It cuts a model within memory.
pub fn longest_chunks(plan: &Plan, machine: &Machine) -> Vec<Vec<usize>> {
    let (layers, retention, software) = (plan.graph().len(), retention(plan, machine), Software::of(plan, machine));
    let fits = |stage: StageId, limit: Bytes, run: std::ops::Range<usize>| {
        let held = resident_with(plan, stage, std::slice::from_ref(&run), retention);
        held.total() + software.memory(&held) <= limit
    };
    let of_stage = |stage: StageId, limit: Bytes| -> Vec<usize> {
        let mut first = 0;
        let behind = |end: usize| {
            while first < end && !fits(stage, limit, first..end) {
                first += 1;
            }
            first
        };
        (0..=layers).map(behind).collect()
    };
    // Stages with as many micro-batches under way and as much room hold the same runs.
    let mut known: BTreeMap<(u64, Bytes), Vec<usize>> = BTreeMap::new();
    let limits = limits(plan, machine).into_iter().map(|limit| usable(limit, &machine.stack));
    let stages = plan.stages().ids().zip(limits);
    stages
        .map(|(stage, limit)| {
            let under_way = plan.pipeline().peak(stage, &vec![1; plan.stages().chunks_per_stage() as usize]);
            known.entry((under_way, limit)).or_insert_with(|| of_stage(stage, limit)).clone()
        })
        .collect()
}

/// What a stack takes of main memory to keep so many bytes there.
fn in_main_memory(kept: Bytes, stack: &Stack) -> Bytes {
    let taken = stack.offload_memory.as_ref().map_or(1.0, |taken| taken.value);
    Bytes((kept.as_f64() * taken) as u64)
}

/// The machine whose memory or disk is asked most of, relative to what it has.
fn fullest_machine(plan: &Plan, machine: &Machine, layout: Layout<'_>, store: Store) -> Option<SharedStore> {
    let kept: Vec<Bytes> = plan.stages().ids().map(|stage| kept_elsewhere(plan, stage, store)).collect();
    let mut all: BTreeMap<u32, Bytes> = BTreeMap::new();
    for stage in plan.stages().ids() {
        for rank in plan.mesh().stage_ranks(stage.0) {
            *all.entry(layout.position(rank).instance).or_default() += kept[stage.0 as usize];
        }
    }
    let on = |(instance, kept): (u32, Bytes)| {
        let host = machine.cluster.pool_of(instance).host.as_ref()?;
        let (needed, available) = match store {
            Store::Host => (in_main_memory(kept, &machine.stack), host.memory),
            Store::Nvme => (kept, host.disk),
        };
        Some(SharedStore { store, needed, available, usable: usable(available, &machine.stack) })
    };
    let share = |shared: &SharedStore| shared.needed.as_f64() / shared.available.as_f64().max(1.0);
    all.into_iter().filter_map(on).max_by(|a, b| share(a).total_cmp(&share(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate;
    use trainyard_hardware_profiles::catalog;
    use trainyard_models::{Family, Model, ModelSpec};
    use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec, ScheduleName, Stages};

    /// A plan for p4d.24xlarge in bf16, one sample at a time.
    fn plan(model: ModelSpec, pipeline: u32, accumulation: u64) -> Plan {
        let layers = Model::try_from(model.clone()).expect("a valid model").graph().len();
        let cluster = ClusterSpec::of("p4d.24xlarge", 1);
        let spec = PlanSpec {
            parallel: ParallelSpec { pipeline, ..ParallelSpec::default() },
            batch: BatchSpec { global: accumulation, micro: 1, accumulation },
            schedule: if pipeline == 1 { ScheduleName::None } else { ScheduleName::GPipe },
            stages: Stages::balanced(&vec![1.0; layers], pipeline).expect("enough layers").specs(),
            precision: Precision::Bf16Mixed,
            ..PlanSpec::plain(model, cluster, layers)
        };
        Plan::try_from(spec).expect("a valid plan")
    }

    #[test]
    fn the_executor_has_its_own_kernel_and_drops_out_what_is_said() {
        let gpt2 = trainyard_models::find("gpt2").expect("in the catalog").model.spec();
        let with = |share: Option<f64>| ModelSpec { dropout: share.map(DropoutSpec::Share), ..gpt2.clone() };
        let computed = |share| {
            let plan = plan(with(share), 1, 1);
            let kept = |plan: &Plan| {
                resident(
                    plan,
                    StageId(0),
                    Retention {
                        element: 4,
                        bucketed: false,
                        lifetime: Lifetime::Step,
                        tiles_loss: false,
                        experts_weight: false,
                        gradients_on_host: false,
                    },
                )
                .activations
            };
            (
                by_executor(&plan, AttentionKernel::Flash).spec().model.clone(),
                kept(&plan),
                kept(&by_executor(&plan, AttentionKernel::Unfused)),
            )
        };
        let ((said, ..), (silent, priced, run)) = (computed(Some(0.1)), computed(None));
        assert_eq!((said.dropout, silent.dropout), (Some(DropoutSpec::Share(0.1)), Some(DropoutSpec::Share(0.0))));
        assert!(said.attention == Some(AttentionKernel::Flash) && run < priced, "{run} and {priced}");
    }

    #[test]
    fn the_peak_is_that_of_the_device_that_is_filled_most() {
        let gpt2 = trainyard_models::find("gpt2").expect("in the catalog").model.spec();
        let machine = Machine {
            cluster: catalog().cluster("p4d.24xlarge", 1).expect("in the catalog"),
            stack: catalog().stack("pytorch").expect("in the catalog").clone(),
        };
        let mut footprint = footprint(&plan(gpt2, 2, 4), &machine);
        let mut stages = [StageId(0), StageId(1)];
        stages.sort_by_key(|stage| footprint.total(*stage));
        let [less, most] = stages.map(|stage| footprint.total(stage));
        assert!(less < most && footprint.peak() == most);
        // On a smaller device the one that needs less fills more of it.
        footprint.limits[stages[0].0 as usize] = Bytes(less.0 + 1);
        assert_eq!(footprint.peak(), less);
    }

    #[test]
    fn what_takes_more_than_can_be_counted_does_not_fit() {
        let gpt3 = trainyard_models::find("gpt3-175b").expect("in the catalog").model.spec();
        // 96 blocks of 96 heads with 2³⁸ scores each, whatever else: 10¹⁵ scores a stage, of two bytes and more, 4096 times.
        let long = ModelSpec { seq_len: Some(1 << 19), attention: Some(AttentionKernel::Unfused), ..gpt3 };
        // 5000 blocks of 2²⁶ experts with three matrices of 2²⁰ weights: 10¹⁸ of 18 bytes.
        let wide = ModelSpec {
            layers: Some(5000),
            hidden: Some(1024),
            heads: Some(8),
            ffn: Some(1024),
            vocab: Some(1000),
            seq_len: Some(128),
            experts: Some(1 << 26),
            ..ModelSpec::new("wide", Family::Llama)
        };
        let machine = Machine {
            cluster: catalog().cluster("p4d.24xlarge", 1).expect("in the catalog"),
            stack: catalog().stack("pytorch").expect("in the catalog").clone(),
        };
        for plan in [plan(long, 2, 4096), plan(wide, 1, 1)] {
            assert_eq!(footprint(&plan, &machine).peak(), Bytes(u64::MAX));
            assert!(footprint(&plan, &machine).fits().is_err());
            // It may last too long, but it is no reason to stop.
            let _ = simulate(&plan, &machine).map(|outcome| assert!(outcome.footprint.fits().is_err()));
        }
    }
}
