//! Plans drawn by chance: small models on few ranks.

use proptest::prelude::*;
use trainyard_hardware_profiles::{Host, PcieTree, SwitchLevel, catalog};
use trainyard_models::{Family, ModelSpec};
use trainyard_plan::{
    BatchSpec, ClusterSpec, Collectives, GradientCompression, GradientReduction, ParallelSpec, Placement, Plan,
    PlanSpec, Precision, Recompute, ScheduleName, StageSpec, StateSharding,
};
use trainyard_sim::Machine;
use trainyard_units::{Bytes, BytesPerSecond};

/// The most ranks of a plan.
const RANKS_MAX: u32 = 16;

/// Schedules of several stages that are covered.
const PIPELINES: [ScheduleName; 5] = [
    ScheduleName::GPipe,
    ScheduleName::OneForwardOneBackward,
    ScheduleName::Interleaved,
    ScheduleName::TwoBufferedWeights,
    ScheduleName::ZeroBubbleH1,
];

/// What a plan runs on.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    instance: &'static str,
    instances: u32,
    stack: &'static str,
    /// Machines meet at switches that carry a third of what their ports do.
    is_oversubscribed: bool,
    /// There are machines of another kind besides, behind the others.
    other: Option<&'static str>,
}

/// Main memory and a disk for what is kept off the devices; two devices share an uplink to them.
pub(crate) fn host() -> Host {
    Host {
        memory: Bytes(1 << 40),
        memory_bandwidth: BytesPerSecond(1e11),
        disk: Bytes(1 << 42),
        disk_bandwidth: BytesPerSecond(4e9),
        pcie: PcieTree { devices_per_switch: 2, uplink: BytesPerSecond(12e9) },
        processors: None,
        remote: None,
    }
}

impl Place {
    pub(crate) fn machine(&self) -> Machine {
        let mut cluster = catalog().cluster(self.instance, self.instances).expect("in the catalog");
        let others = self.other.map(|other| catalog().cluster(other, 1).expect("in the catalog"));
        cluster.pools.extend(others.into_iter().flat_map(|cluster| cluster.pools));
        cluster.pools.iter_mut().for_each(|pool| pool.host = Some(host()));
        if self.is_oversubscribed {
            cluster.switches = vec![SwitchLevel { ports: 1, oversubscription: 3.0 }];
        }
        Machine { cluster, stack: catalog().stack(self.stack).expect("in the catalog").clone() }
    }

    fn devices(&self) -> u32 {
        self.machine().cluster.devices()
    }
}

fn place() -> impl Strategy<Value = Place> {
    let instances = prop::sample::select(vec!["p3.16xlarge", "p4d.24xlarge", "g4dn.12xlarge"]);
    let stacks =
        prop::sample::select(vec!["pytorch", "megatron", "megatron-core", "alpa", "deepspeed", "pytorch-fsdp"]);
    let others = prop::sample::select(vec![None, None, None, None, Some("p3.8xlarge"), Some("g4dn.12xlarge")]);
    (instances, 1u32..5, stacks, any::<bool>(), others).prop_map(
        |(instance, instances, stack, is_oversubscribed, other)| Place {
            instance,
            instances: if other.is_some() { 1 } else { instances.max(2) },
            stack,
            is_oversubscribed,
            other: other.filter(|other| *other != instance),
        },
    )
}

/// Experts of a layer: as many as a tensor group has ranks at most.
const EXPERTS: u32 = 4;

/// A language model of few blocks: with a table that its first and last layer share, without, or with experts.
fn model() -> impl Strategy<Value = ModelSpec> {
    let families = prop::sample::select(vec![Family::Gpt, Family::Llama, Family::GptMoe]);
    let vocabularies = prop::sample::select(vec![100u64, 30_000]);
    (families, 0u32..4, 0u32..3, vocabularies, 0u32..3).prop_map(|(family, blocks, width, vocab, length)| {
        let plain = ModelSpec {
            layers: Some(blocks),
            hidden: Some(256 << width),
            heads: Some(8),
            vocab: Some(vocab),
            seq_len: Some(128 << length),
            ..ModelSpec::new("small", family)
        };
        if family == Family::GptMoe {
            ModelSpec { experts: Some(EXPERTS.into()), experts_per_token: Some(2), expert_interval: Some(2), ..plain }
        } else {
            plain
        }
    })
}

/// Degrees of parallelism before anybody has looked at how many ranks they make.
#[derive(Clone, Debug)]
struct Degrees {
    data: u32,
    tensor: u32,
    pipeline: u32,
    context: u32,
    expert: u32,
    is_folded: bool,
    is_sequence: bool,
}

fn degrees() -> impl Strategy<Value = Degrees> {
    let contexts = prop::sample::select(vec![1u32, 1, 2]);
    let experts = prop::sample::select(vec![1u32, 2, 4]);
    (1u32..9, 0u32..3, 1u32..5, contexts, experts, any::<bool>(), any::<bool>()).prop_map(
        |(data, tensor, pipeline, context, expert, is_folded, is_sequence)| Degrees {
            data,
            tensor: 1 << tensor,
            pipeline,
            context,
            expert,
            is_folded,
            is_sequence,
        },
    )
}

/// Few enough ranks: a degree after the other gives way.
fn parallel(degrees: &Degrees, has_experts: bool, devices: u32) -> ParallelSpec {
    let most = devices.min(RANKS_MAX);
    let pipeline = degrees.pipeline.min(most);
    let tensor = [degrees.tensor, 2, 1].into_iter().find(|tensor| tensor * pipeline <= most).expect("one fits");
    let context = if degrees.context * tensor * pipeline <= most { degrees.context } else { 1 };
    let data = degrees.data.min(most / (pipeline * tensor * context));
    let sequence = degrees.is_sequence && tensor > 1;
    let folded_experts = has_experts && degrees.is_folded && (sequence || tensor == 1);
    let (copies, each) = if folded_experts { (data * context, tensor) } else { (data, 1) };
    let divides = |expert: &u32| copies.is_multiple_of(*expert) && EXPERTS.is_multiple_of(expert * each);
    let expert = [degrees.expert, 1].into_iter().find(|expert| has_experts && divides(expert)).unwrap_or(1);
    ParallelSpec { data, tensor, pipeline, context, expert, folded_experts, sequence }
}

/// A cut of layers into runs of any length.
fn cut(layers: usize, runs: usize, at: &[prop::sample::Index]) -> Vec<StageSpec> {
    let mut longer = vec![1; runs];
    for index in at.iter().cycle().take(layers - runs) {
        longer[index.index(runs)] += 1;
    }
    let mut first = 0;
    let next = |layers| {
        let run = StageSpec { first, layers };
        first += layers;
        run
    };
    longer.into_iter().map(next).collect()
}

/// A plan with where it runs.
pub(crate) fn any_plan() -> impl Strategy<Value = (PlanSpec, Place)> {
    let knobs = (
        prop::sample::select(PIPELINES.to_vec()),
        prop::sample::select(StateSharding::ALL),
        prop::sample::select(GradientReduction::ALL),
        prop::sample::select(GradientCompression::ALL),
        prop::sample::select(Recompute::ALL),
        prop::sample::select(Collectives::ALL),
        prop::sample::select(Placement::all().collect::<Vec<_>>()),
        prop::sample::select(vec![Precision::Fp32, Precision::Fp16Mixed]),
    );
    let offloads = vec![
        "none",
        "none",
        "optimizer",
        "activations",
        "activations@nvme+optimizer@nvme",
        "parameters",
        "parameters+optimizer",
        "parameters@nvme+optimizer",
    ];
    let offload = prop::sample::select(offloads);
    let sizes = (1u64..4, 1u32..7, 2u32..4, prop::collection::vec(any::<prop::sample::Index>(), 3), 1u32..5, offload);
    (place(), model(), degrees(), knobs, sizes).prop_map(|(place, model, degrees, knobs, sizes)| {
        let (schedule, sharding, reduction, compression, recompute, collectives, placement, precision) = knobs;
        let (micro, micro_batches, runs, at, sharers, offload) = sizes;
        let parallel = parallel(&degrees, model.experts.is_some(), place.devices());
        let pipeline = parallel.pipeline;
        let schedule = if pipeline == 1 { ScheduleName::None } else { schedule };
        let runs = if schedule == ScheduleName::Interleaved { runs } else { 1 };
        let accumulation = u64::from(match schedule {
            ScheduleName::Interleaved => micro_batches.div_ceil(2) * pipeline,
            ScheduleName::TwoBufferedWeights => micro_batches.max(pipeline),
            _ => micro_batches,
        });
        // A block for each run, besides embedding and head.
        let model = ModelSpec { layers: model.layers.map(|more| (runs * pipeline).max(3) - 2 + more), ..model };
        let layers = trainyard_models::Model::try_from(model.clone()).expect("a valid model").graph().len();
        let copies = parallel.data * parallel.context;
        let divides = sharding != StateSharding::None
            && parallel.expert == 1
            && copies.is_multiple_of(sharers)
            && sharers < copies;
        let spec = PlanSpec {
            parallel,
            batch: BatchSpec { global: micro * accumulation * u64::from(parallel.data), micro, accumulation },
            schedule,
            virtual_stages: runs,
            stages: cut(layers, (pipeline * runs) as usize, &at),
            precision,
            recompute,
            state_sharding: sharding,
            sharding_ranks: divides.then_some(sharers),
            gradient_reduction: reduction,
            gradient_compression: compression,
            // Only machines that are all alike can be dealt out to.
            placement: if place.other.is_some() && placement == Placement::Spread {
                Placement::Cluster
            } else {
                placement
            },
            offload: offload.parse().expect("a valid offload"),
            collectives,
            ..PlanSpec::plain(model, ClusterSpec::of(place.instance, place.instances), layers)
        };
        (spec, place)
    })
}

/// The plan of a specification that was drawn.
pub(crate) fn plan(spec: PlanSpec) -> Plan {
    Plan::try_from(spec).expect("a valid plan")
}
