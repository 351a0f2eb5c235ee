//! What searches find out that does not depend on what they look for: prices of layers, the memory that they hold,
//! their cuts into stages, communication, and simulated steps. Searches for a model on the same machines share it, whatever the batch,
//! the goal, the amount of data or the fields that are held.

use super::evaluate::Simulated;
use super::layer_prices::{CommunicationKey, CutKey, PriceKey, Priced};
use super::layers_held::{HeldBefore, HeldKey};
use super::space::Space;
use crate::cache::{Kept, SearchCache};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use trainyard_plan::{Architecture, PlanSpec, Recompute, StageSpec};
use trainyard_sim::{Communications, LayerTable, Machine, Outcome};

/// All that decides what layers take and hold on some degrees, beside the batch and the number format.
#[derive(PartialEq)]
struct Basis {
    /// The model as computed on each choice.
    architectures: Vec<Arc<Architecture>>,
    /// One machine of each choice, or all of a mixed cluster.
    machines: Vec<Machine>,
    /// A plan with everything that all plans of the space have in common.
    common: PlanSpec,
}

impl Basis {
    fn of(space: &Space<'_>) -> Self {
        let machines = space.choices().map(|choice| space.alone(choice).clone()).collect();
        Self { architectures: space.architectures().to_vec(), machines, common: space.common() }
    }
}

/// What is known of a model on some machines.
pub(super) struct Known {
    basis: Basis,
    /// What the layers before each layer hold together; `None` where there is no plan to count it on.
    pub(super) held: Memo<HeldKey, HeldBefore>,
    /// Prices of layers on the fewest devices; `None` where the machine was not measured for them.
    pub(super) prices: Memo<PriceKey, Option<Arc<Priced>>>,
    /// Prices of layers on all devices of a plan.
    pub(super) tables: Memo<PriceKey, Option<LayerTable>>,
    /// Communication of plans.
    pub(super) communications: Memo<CommunicationKey, Arc<Mutex<Communications>>>,
    /// Layers cut into stages; `None` where there are fewer layers or no prices.
    pub(super) cuts: Memo<CutKey, Option<Arc<[StageSpec]>>>,
    /// The steps that were simulated last.
    pub(super) steps: Steps,
}

impl Known {
    /// Returns what is known of the plans of a space.
    pub(super) fn of(space: &Space<'_>, cache: &SearchCache) -> Arc<Self> {
        let basis = Basis::of(space);
        let is_of = |known: &Self| known.basis == basis;
        cache.find(is_of).unwrap_or_else(|| cache.keep(Self::new(basis)))
    }

    fn new(basis: Basis) -> Self {
        Self {
            basis,
            held: Memo::default(),
            prices: Memo::default(),
            tables: Memo::default(),
            communications: Memo::default(),
            cuts: Memo::default(),
            steps: Steps::default(),
        }
    }
}

impl Kept for Known {
    fn bytes(&self) -> usize {
        let layers = self.basis.architectures[0].graph().len();
        let kinds = Recompute::ALL.len();
        let entries = [(&self.held as &dyn Count, 4), (&self.prices, 4 * kinds), (&self.tables, 1), (&self.cuts, 1)];
        let of = |(memo, words): (&dyn Count, usize)| memo.count() * (layers * words * size_of::<f64>() + ENTRY);
        let steps = self.steps.kept().iter().map(Step::bytes).sum::<usize>();
        entries.into_iter().map(of).sum::<usize>() + self.communications.count() * COMMUNICATION + steps
    }
}

/// Bytes of an entry without what it has of each layer, and of the communication of plans, about.
const ENTRY: usize = 256;
const COMMUNICATION: usize = 4096;

/// Values that are computed once.
pub(super) struct Memo<K, V>(RwLock<BTreeMap<K, V>>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Ord, V: Clone> Memo<K, V> {
    /// Returns the value of a key, if it was computed.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.0.read().expect(UNPOISONED).get(key).cloned()
    }

    /// Returns the value of a key. It is computed while others go on, who may compute the same.
    pub(super) fn get_or(&self, key: K, compute: impl FnOnce() -> V) -> V {
        self.get(&key).unwrap_or_else(|| {
            let value = compute();
            self.0.write().expect(UNPOISONED).entry(key).or_insert(value).clone()
        })
    }
}

const UNPOISONED: &str = "nobody panics while known values are looked up";

/// Simulated steps, as many as [`STEPS_BYTES`] hold.
#[derive(Default)]
pub(super) struct Steps(Mutex<VecDeque<Step>>);

/// A stated default: some hundred steps that were told from their repetition, or some ten that were not.
const STEPS_BYTES: usize = 32 << 20;

/// A step of a plan on the machines of a choice; nothing where they were not measured for it.
struct Step {
    choice: usize,
    plan: PlanSpec,
    simulated: Option<Simulated>,
}

impl Step {
    fn bytes(&self) -> usize {
        let outcome = self.simulated.as_ref().and_then(|simulated| simulated.outcome.as_deref());
        STEP + self.plan.stages.len() * size_of::<StageSpec>() + outcome.map_or(0, Outcome::bytes)
    }

    /// Returns `true` if more need not be known, with or without the whole outcome.
    fn is_enough(&self, whole: bool) -> bool {
        !whole || self.simulated.as_ref().is_none_or(|simulated| simulated.outcome.is_some())
    }
}

/// Bytes of a step without what it has of each stage and interval, about.
const STEP: usize = 4096;

impl Steps {
    /// Returns the step of a plan, with the `whole` outcome or not. It is simulated while others go on, who may simulate
    /// the same.
    pub(super) fn get_or(
        &self,
        (choice, plan): (usize, &PlanSpec),
        whole: bool,
        simulate: impl FnOnce() -> Option<Simulated>,
    ) -> Option<Simulated> {
        // What mostly differs first.
        let same = |step: &&Step| {
            (step.choice, step.plan.batch, step.plan.parallel) == (choice, plan.batch, plan.parallel)
                && step.plan == *plan
        };
        if let Some(step) = self.kept().iter().filter(|step| step.is_enough(whole)).find(same) {
            return step.simulated.clone();
        }
        let simulated = simulate();
        let mut kept = self.kept();
        kept.push_back(Step { choice, plan: plan.clone(), simulated: simulated.clone() });
        while kept.iter().map(Step::bytes).sum::<usize>() > STEPS_BYTES {
            kept.pop_front();
        }
        simulated
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Step>> {
        self.0.lock().expect(UNPOISONED)
    }
}

trait Count {
    fn count(&self) -> usize;
}

impl<K, V> Count for Memo<K, V> {
    fn count(&self) -> usize {
        self.0.read().expect(UNPOISONED).len()
    }
}

#[cfg(test)]
mod tests {
    use crate::asking;
    use crate::cache::SearchCache;

    /// A search that knows nothing is the oracle.
    #[test]
    fn what_is_known_changes_no_answer() {
        let job = |model: &str, batch, instances: &[&str]| {
            let mut job = asking::job(model, batch, instances, 4);
            job.data.samples = Some(100_000);
            job
        };
        let asked = [
            (job("gpt2-xl", 96, &["p3.16xlarge", "p4d.24xlarge"]), &[][..]),
            (job("gpt2-xl", 64, &["p3.16xlarge", "p4d.24xlarge"]), &[][..]),
            (job("gpt2-xl", 64, &["p3.16xlarge", "p4d.24xlarge"]), &["parallel.pipeline=2"]),
            (job("gpt2-xl", 64, &["p3.16xlarge", "p4d.24xlarge"]), &["placement=spread"]),
            (job("gpt2-xl", 64, &["p3.16xlarge", "p4d.24xlarge"]), &["gradient_compression=fp16"]),
            (job("gpt2-xl", 64, &["p4d.24xlarge", "p3.16xlarge"]), &[][..]),
            (job("dlrm", 64, &["p4d.24xlarge", "p3.16xlarge"]), &[][..]),
        ];
        let cache = SearchCache::default();
        for (job, held) in asked {
            let problem = || asking::solvable(&job);
            let alone = asking::answered(&problem(), &job, held);
            let again = asking::answered(&problem().with_cache(cache.clone()), &job, held);
            assert_eq!(again, alone, "{job:?} {held:?}");
        }
    }
}
