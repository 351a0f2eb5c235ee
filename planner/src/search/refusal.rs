//! Why no plan runs on a type of machine with a stack: held fields, software, number formats, main memory, input.

use super::prepared::Prepared;
use super::space::Space;
use crate::problem::{OnEveryRank, refused};
use trainyard_plan::{Method, Offload, Plan, PlanSpec, Precision, Recompute};
use trainyard_sim::Machine;

impl Space<'_> {
    /// Explains why no plan with the held fields runs on a type of machine, whatever its degrees.
    pub(crate) fn refusal(&self, choice: usize) -> Option<String> {
        let machine = self.alone(choice);
        if let Some(refused) = self.software_refusal(choice) {
            return Some(refused);
        }
        let cluster = self.problem().place.spec_of(&machine.cluster);
        let offload = self.fixed().offload.unwrap_or(Offload::NONE);
        // Unless that is held, with what the software offloads it with.
        let software = self.software(choice);
        let least = software.offloads.iter().find(|(own, _)| *own == offload).map(|(_, least)| *least);
        let alone = software.offloads_with(offload, Recompute::None);
        let usual = (least.unwrap_or_default(), if alone { Recompute::None } else { Recompute::Full });
        let held =
            if offload == Offload::NONE { (None, None) } else { (self.fixed().state_sharding, self.fixed().recompute) };
        let spec = PlanSpec {
            offload,
            state_sharding: held.0.unwrap_or(usual.0),
            recompute: held.1.unwrap_or(usual.1),
            placement: self.placement(),
            gradient_compression: self.fixed().gradient_compression.unwrap_or_default(),
            precision: every_gpu_has(self.problem().method()),
            fine_tuning: self.problem().fine_tuning.clone(),
            ..PlanSpec::plain(self.problem().model.spec(), cluster, self.graph().len())
        };
        let plan = Plan::try_from(spec).map_err(|error| error.to_string());
        let admitted = plan.and_then(|plan| machine.admits(&plan).map_err(|error| error.to_string()));
        let precision = self.fixed().precision.map_or(Ok(()), |held| machine.has_units(held));
        let input = self.input_refusal(machine);
        admitted.and(precision.map_err(|error| error.to_string())).and(input.map_or(Ok(()), Err)).err()
    }

    /// Explains which held field the stack of a choice cannot run.
    fn software_refusal(&self, choice: usize) -> Option<String> {
        let stack = &self.problem().place.software(choice).name;
        if let Some(held) = self.fixed().stack.as_ref().filter(|held| *held != stack) {
            return Some(format!("`stack` is held at {held}"));
        }
        let kind = self.problem().kind();
        if !self.software(choice).trains(kind) {
            return Some(format!("`training.method` is {kind}, which {stack} does not run"));
        }
        if let Some(loaded) = self.beyond_main_memory(choice) {
            return Some(loaded.told(stack));
        }
        let refused = refused(self.fixed(), self.software(choice), self.graph().divisible())?;
        Some(format!("`{}` is {}, but {stack} runs {}", refused.field, refused.value, refused.allowed))
    }

    /// Returns what loading weights takes of main memory where a machine has less.
    fn beyond_main_memory(&self, choice: usize) -> Option<OnEveryRank> {
        let Machine { cluster, stack } = self.alone(choice);
        let loads = self.problem().loads_weights;
        loads.then(|| OnEveryRank::beyond_memory(stack, cluster.first(), self.graph(), self.problem().kind())).flatten()
    }

    /// Returns `true` if a stack loads more than the main memory of any of its machines holds.
    fn loads_too_much(&self, stack: &str) -> bool {
        let mut own = self.choices().filter(|choice| self.problem().place.software(*choice).name == stack);
        own.all(|choice| self.beyond_main_memory(choice).is_some())
    }

    fn input_refusal(&self, machine: &Machine) -> Option<String> {
        match &self.problem().data {
            Some(data) => data.refusal(self.fixed(), machine).map(|error| error.to_string()),
            None if self.fixed().holds_input() => {
                Some("what is fixed of `input` needs `data.dataset` or `data.bytes_per_sample` in the job".into())
            }
            None => None,
        }
    }
}

impl Prepared<'_> {
    /// Returns `true` if a stack loads more than the main memory of any of its machines holds.
    pub(crate) fn loads_too_much(&self, stack: &str) -> bool {
        self.space.loads_too_much(stack)
    }
}

/// Returns a number format in which every GPU trains these weights.
fn every_gpu_has(method: Method) -> Precision {
    if method == Method::Qlora { Precision::Fp16Mixed } else { Precision::Fp32 }
}
