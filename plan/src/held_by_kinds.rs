//! What a rank holds of each kind of layer of a model, computed once for all plans that share layers alike.

use crate::layer_memory::LayerMemory;
use crate::mesh::Mesh;
use crate::parameters::{ParameterCounts, held_of};
use crate::spec::{PlanSpec, Precision, Recompute, StateSharding};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use trainyard_models::{Layer, Sharing};

/// Everything that decides which parameters a rank holds of a layer: how it is shared, the micro-batch, which looks rows up
/// in tables, and with an optimizer in eight bits the parts in which states are shared out.
type ParametersKey = (Sharing, u64, Option<u32>);

/// Everything that decides the memory of a micro-batch in a layer.
type MemoryKey = (Sharing, u64, Precision, Recompute);

/// What is known so far. It follows from the model, so that two of one model are equal.
#[derive(Debug, Default)]
pub(crate) struct HeldByKinds {
    parameters: Mutex<BTreeMap<ParametersKey, Arc<[ParameterCounts]>>>,
    memory: Mutex<BTreeMap<MemoryKey, Arc<[LayerMemory]>>>,
}

impl PartialEq for HeldByKinds {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl HeldByKinds {
    /// Returns the parameters that a rank holds of each of a model's distinct layers.
    pub(crate) fn parameters(&self, spec: &PlanSpec, mesh: &Mesh, layers: &[Layer]) -> Arc<[ParameterCounts]> {
        let (micro, sharing) = (spec.batch.micro, mesh.sharing());
        let shared_out = if spec.state_sharding >= StateSharding::Optimizer { mesh.shard() } else { 1 };
        let parts = spec.optimizer.is_in_eight_bits().then_some(shared_out);
        let computed = || layers.iter().map(|layer| held_of(layer, micro, sharing, parts)).collect();
        known(&self.parameters, (sharing, micro, parts), computed)
    }

    /// Returns the memory that a micro-batch of a plan needs in each of a model's distinct layers.
    pub(crate) fn memory(&self, spec: &PlanSpec, sharing: Sharing, layers: &[Layer]) -> Arc<[LayerMemory]> {
        let computed = || layers.iter().map(|layer| LayerMemory::of(spec, sharing, layer)).collect();
        known(&self.memory, (sharing, spec.batch.micro, spec.precision, spec.recompute), computed)
    }
}

fn known<K: Ord, T>(all: &Mutex<BTreeMap<K, Arc<[T]>>>, key: K, computed: impl FnOnce() -> Arc<[T]>) -> Arc<[T]> {
    let mut all = all.lock().expect("nobody panics while what layers hold is looked up");
    all.entry(key).or_insert_with(computed).clone()
}
