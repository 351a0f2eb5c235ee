//! Rates that the operators of a plan reach on their device.

use super::device::{Usage, device_costs};
use crate::machine::Machine;
use trainyard_plan::{OperatorRate, Plan, Roofline};

/// Every operator of a plan that has arithmetic, for one micro-batch on one rank, beside the peaks of its device.
/// Nothing on a measured machine, whose peaks nobody knows. Of a mixed cluster the first kind of machine.
pub fn roofline(plan: &Plan, machine: &Machine) -> Option<Roofline> {
    let device = &machine.cluster.first().device;
    let (costs, graph, mesh) = (device_costs(device), plan.graph(), plan.mesh());
    let peaks = costs.peaks(plan.precision())?;
    let usage = Usage {
        stack: &machine.stack,
        launch: machine.launch(),
        precision: plan.precision(),
        ranks: mesh.ranks(),
        work_cv: 0.0,
        drops_out: graph.drops_out(),
    };
    let mut operators = Vec::new();
    for (index, layer) in graph.distinct().iter().enumerate() {
        let times = graph.order().iter().filter(|own| **own == index).count() as u64;
        let rates = costs.operator_rates(usage, layer, plan.batch().micro, mesh.sharing());
        operators.extend(rates.into_iter().map(|rate| OperatorRate { times, ..rate }));
    }
    Some(Roofline {
        device: device.name().to_string(),
        peak_flops_per_s: peaks.arithmetic.0,
        memory_bytes_per_s: peaks.memory.0,
        operators,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;
    use trainyard_plan::{BatchSpec, ClusterSpec, PlanSpec, Precision};

    #[test]
    fn nothing_is_above_the_roof_and_products_are_under_the_flat_of_it() {
        let model = trainyard_models::find("gpt2-xl").expect("in the catalog").model.spec();
        let mut spec = PlanSpec::plain(model, ClusterSpec::of("p4d.24xlarge", 1), 50);
        spec.batch = BatchSpec { global: 4, micro: 4, accumulation: 1 };
        spec.precision = Precision::Bf16Mixed;
        let plan = Plan::try_from(spec).expect("a plan");
        let machine = Machine {
            cluster: catalog().cluster("p4d.24xlarge", 1).expect("in the catalog"),
            stack: catalog().stack("megatron").expect("in the catalog").clone(),
        };
        let roofline = roofline(&plan, &machine).expect("a GPU of the catalog");
        let roof = |intensity: f64| roofline.peak_flops_per_s.min(intensity * roofline.memory_bytes_per_s);
        assert!(roofline.operators.len() > 8, "{roofline:?}");
        for operator in &roofline.operators {
            // What stays in the cache is faster than memory, but not by more than the stated gain.
            assert!(operator.rate() <= 1.9 * roof(operator.intensity()), "{operator:?}");
        }
        let blocks = roofline.operators.iter().filter(|own| own.layer == "block" && own.operator == "linear");
        for linear in blocks {
            assert!(linear.times == 48 && linear.rate() > 0.3 * roofline.peak_flops_per_s, "{linear:?}");
        }
    }
}
