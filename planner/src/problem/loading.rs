//! What loading trained weights takes of a machine's main memory.

use trainyard_hardware_profiles::{Pool, Stack};
use trainyard_models::{OperatorKind, Tuned};
use trainyard_plan::operators::{OperatorGraph, Sharing};
use trainyard_plan::{Method, TuningKind};
use trainyard_units::{Bytes, human_bytes};

/// The part of a machine's main memory that its ranks can fill: a stated default. The rest is the system's, the data
/// loader's, and that of buffers for transfers.
const FILLABLE: f64 = 0.9;

/// Bytes of a value in single precision.
const SINGLE: u64 = 4;

/// Bytes of a value in half precision.
const HALF: u64 = 2;

/// The whole model, or its experts, on every rank of a machine, in its main memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnEveryRank {
    pub of_rank: Bytes,
    pub ranks: u32,
    /// `true` if it is weights that are not trained, in half precision: those of experts.
    pub experts: bool,
    /// Size of main memory.
    pub memory: Bytes,
}

impl OnEveryRank {
    /// Returns what the ranks of a machine hold while each of them builds or loads the model in single precision, before its
    /// state is sharded, where that is more than they can have; `None` if it is not, if the software loads the weights once,
    /// and where the size of main memory is not known. Weights that are not trained stay in files, which ranks share, but
    /// for those of experts, which transformers joins to one tensor.
    ///
    /// # Source
    ///
    /// huggingface/transformers issue 43749, measured with transformers 5.24 and accelerate 1.15: with
    /// `cpu_ram_efficient_loading` the other ranks load as much as the first. Accelerate 1.15,
    /// `accelerate/utils/fsdp_utils.py`, `fsdp2_prepare_model`: each rank brings the weights that are trained to single
    /// precision before they are sharded. TRL 1.16: the reference model is loaded in the same way. Measured with transformers
    /// 5.24: of 438 million weights in bfloat16 that stay so, a process has 0.04 bytes each to itself. Experts:
    /// `MergeModulelist` in its `conversion_mapping.py`.
    pub fn beyond_memory(stack: &Stack, pool: &Pool, graph: &OperatorGraph, kind: TuningKind) -> Option<Self> {
        if !stack.runs.whole_on_every_rank || pool.device.gpu().is_none() {
            return None;
        }
        let memory = pool.host.as_ref()?.memory;
        let experts = kind.method != Method::Full;
        let of_rank = if experts {
            Bytes(HALF * frozen_experts(graph))
        } else {
            let values: u64 = graph.own_layers().map(|layer| layer.parameters(Sharing::WHOLE)).sum();
            let models = if kind.dpo { 2 } else { 1 };
            Bytes(models * SINGLE * values)
        };
        let ranks = pool.devices_per_instance;
        let all = of_rank.as_f64() * f64::from(ranks);
        (memory.0 > 0 && all > FILLABLE * memory.as_f64()).then_some(Self { of_rank, ranks, experts, memory })
    }

    /// Says what each rank holds: `the whole model in single precision, 26 GiB`.
    pub fn held(&self) -> String {
        let what = if self.experts { "all experts in half precision" } else { "the whole model in single precision" };
        format!("{what}, {}", human_bytes(self.of_rank))
    }

    /// Says so of a stack.
    pub(crate) fn told(&self, stack: &str) -> String {
        format!(
            "with {stack} each of the {} ranks of a machine holds {} in main memory while it loads the weights \
             (huggingface/transformers#43749), and the machine has {}",
            self.ranks,
            self.held(),
            human_bytes(self.memory)
        )
    }
}

/// Counts the weights of experts that are not trained.
fn frozen_experts(graph: &OperatorGraph) -> u64 {
    let operators = graph.own_layers().flat_map(|layer| &layer.operators);
    let of_experts =
        operators.filter(|operator| matches!(operator.kind, OperatorKind::Tuned(Tuned::Frozen { experts: 2.., .. })));
    of_experts.map(|operator| operator.frozen_weights(Sharing::WHOLE).values).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;
    use trainyard_models::{Adapters, Tuning, tuned};

    #[test]
    fn a_model_that_all_ranks_hold_may_be_more_than_main_memory() {
        let held = |stack: &str, model: &str, instance: &str, kind: TuningKind| {
            let (catalog, model) = (catalog(), &trainyard_models::find(model).expect("in the catalog").model);
            let cluster = catalog.cluster(instance, 1).expect("in the catalog");
            let stack = catalog.stack(stack).expect("in the catalog");
            OnEveryRank::beyond_memory(stack, cluster.first(), &model.graph(), kind).map(|own| own.ranks)
        };
        let full = TuningKind::FULL;
        // 8 × 4 bytes × 70.6 billion values are 2.26 TB; the machine has 2 TiB.
        assert_eq!(held("pytorch-fsdp", "llama-3.1-70b", "p5.48xlarge", full), Some(8));
        assert_eq!(held("pytorch-fsdp", "llama-3.1-8b", "p5.48xlarge", full), None);
        assert_eq!(held("deepspeed", "llama-3.1-70b", "p5.48xlarge", full), None);
        let lora = TuningKind { method: Method::Lora, dpo: false };
        assert_eq!(held("pytorch-fsdp", "llama-3.1-70b", "p5.48xlarge", lora), None);
        // Of experts that stay as they are, 4 × 2 bytes × 45 billion values are 361 GB; the machine has 192 GiB.
        let adapted = |instance: &str| {
            let (catalog, model) = (catalog(), &trainyard_models::find("mixtral-8x7b").expect("in the catalog").model);
            let adapters = Adapters { rank: 16, dropout: false, targets: Vec::new(), quantised: None };
            let graph = tuned(model, &Tuning::Adapters(adapters)).expect("adapters");
            let (stack, cluster) = (catalog.stack("pytorch-fsdp"), catalog.cluster(instance, 1));
            let (stack, cluster) = (stack.expect("in the catalog"), cluster.expect("in the catalog"));
            OnEveryRank::beyond_memory(stack, cluster.first(), &graph, lora).map(|own| own.experts)
        };
        assert_eq!([adapted("p5.48xlarge"), adapted("g5.12xlarge")], [None, Some(true)]);
        // The model and its reference: 8 × 2 × 4 bytes × 13 billion are 833 GB, the model alone 416; the machine has 768 GiB.
        let dpo = TuningKind { dpo: true, ..full };
        let on = |kind| held("pytorch-fsdp", "llama-2-13b", "p3dn.24xlarge", kind);
        assert_eq!([on(full), on(dpo)], [None, Some(8)]);
    }
}
