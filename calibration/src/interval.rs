//! Intervals that should hold 90 % of measurements.
//!
//! What may be off is a handful of independent terms: the run itself, the constants of the GPU, the host threads, the
//! network. Each has a width and the number of observations that taught it. The terms add up as variances of the
//! logarithm of the step time, and the quantile is Student's t with the degrees of freedom that the terms have
//! together, so that a term that was seen a few times widens the interval beyond its own width.
//!
//! # Source
//!
//! Degrees of freedom of a sum of variances: Satterthwaite, Biometrics Bulletin 2 (1946), 110-114. The widths are
//! residuals on published step times; see docs/physics.md.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use trainyard_hardware_profiles::{Cluster, Device, Fabric, Gpu, MeasuredMachine, Transport};
use trainyard_plan::Plan;
use trainyard_plan::operators::{Image, LayerRole, OperatorKind, Pass};
use trainyard_sim::{Machine, Outcome};
use trainyard_units::Seconds;

/// The probability below the upper end of a two-sided 90 % interval.
const UPPER: f64 = 0.95;

/// The inter-quartile range of a normal distribution in standard deviations.
const QUARTILES: f64 = 1.349;

/// Published plans that were measured twice, on another day or with other software, differ by this much.
const REPEAT: Term = Term { half_width: 0.06, observations: 30.0 };

/// Small work whose pace the host sets: half-width if all of the step is that.
const HOST_BOUND: Term = Term { half_width: 0.12, observations: 100.0 };

/// Sockets between machines: half-width if all of the step is communication. The same plan on the same machines took
/// 1.44 times as long on another day.
const SOCKETS: Term = Term { half_width: 0.6, observations: 50.0 };

/// EFA between machines: two published sweeps of the same machines differ by half at middle sizes.
const EFA: Term = Term { half_width: 0.5, observations: 10.0 };

/// Remote memory access between machines, over InfiniBand and its like.
const INFINIBAND: Term = Term { half_width: 0.25, observations: 60.0 };

/// Weights gathered tensor by tensor: seven rows that one constant serves are left with errors of 1 to 27 %.
const SHARDED_BY_TENSOR: Term = Term { half_width: 0.2, observations: 7.0 };

/// Experts on several GPUs: where they are and what else is shared out is seldom told. Nine of 16 rows are off by more
/// than a fifth.
const EXPERTS: Term = Term { half_width: 0.35, observations: 16.0 };

/// Maps: 475 rows of convolutional networks under two dozen labels; which algorithm a library picks differs by release.
const MAPS: Term = Term { half_width: 0.15, observations: 475.0 };

/// Regions that the host chooses: how many there are, and how they are chosen, differs by framework.
const REGIONS: Term = Term { half_width: 0.45, observations: 108.0 };

/// Tables that are looked up: what overlaps with the exchange of rows is not told.
const TABLES: Term = Term { half_width: 0.8, observations: 44.0 };

/// Recurrent layers: lengths of samples are means of their data.
const RECURRENT: Term = Term { half_width: 0.25, observations: 21.0 };

/// Rows that taught what the constants of a stack may be off: about as many as one of its releases has.
const STACK_OBSERVATIONS: f64 = 30.0;

/// More than one machine at all: placement, congestion and the slowest of many machines.
const SEVERAL_MACHINES: Term = Term { half_width: 0.08, observations: 60.0 };

/// A stack for which no published measurement stands: its constants are stated defaults. Fitted stacks differ by as
/// much on the same GPU.
const UNMEASURED_STACK: Term = Term { half_width: 0.2, observations: 8.0 };

/// A measured machine: operators that were timed apart and at other shapes. Of eighteen jobs (six model sizes, each on
/// one rank, two replicas and two stages; 2026-11-21, nothing left out) sixteen were within 20 %, mostly too fast.
const MEASURED: Term = Term { half_width: 0.23, observations: 18.0 };

/// One reason why a prediction may be off.
#[derive(Clone, Copy, Debug)]
struct Term {
    /// Half of the 90 % interval of the logarithm, as if it were normal.
    half_width: f64,
    /// How many observations taught the width.
    observations: f64,
}

impl Term {
    /// The term where only a part of the step suffers from it.
    fn of_share(self, share: f64) -> Self {
        Self { half_width: self.half_width * share.clamp(0.0, 1.0), ..self }
    }

    fn variance(self) -> f64 {
        let normal = Normal::standard().inverse_cdf(UPPER);
        (self.half_width / normal).powi(2)
    }
}

/// The interval around the simulated step time of `plan` on `machine`, in seconds.
pub fn interval(plan: &Plan, machine: &Machine, outcome: &Outcome) -> [f64; 2] {
    let step = outcome.step_time;
    let terms = match &machine.cluster.first().device {
        Device::Gpu(gpu) => {
            let host = host_time(plan, machine).0 / step.0;
            let communication = outcome.exposed_communication.0 / step.0;
            let mut terms = vec![REPEAT, constants(gpu), HOST_BOUND.of_share(host)];
            if machine.stack.published_as.is_empty() {
                terms.push(UNMEASURED_STACK);
            }
            let half_width = machine.stack.uncertainty.value;
            terms.push(Term { half_width, observations: STACK_OBSERVATIONS });
            terms.extend(kinds_of_work(plan));
            if plan.gathers_weights() && machine.stack.sharded_by_tensor.value {
                terms.push(SHARDED_BY_TENSOR);
            }
            if plan.mesh().ranks() > machine.cluster.first().devices_per_instance {
                terms.push(SEVERAL_MACHINES);
                terms.extend(network(&machine.cluster).map(|term| term.of_share(communication)));
            }
            terms
        }
        Device::Measured(measured) => vec![MEASURED, spread(measured)],
    };
    around(step, &terms)
}

/// The interval around the time of a single collective or transfer, in seconds.
pub fn collective_interval(cluster: &Cluster, time: Seconds) -> [f64; 2] {
    let term = if cluster.machines() > 1 { network(cluster) } else { None };
    around(time, &[REPEAT, term.unwrap_or(INFINIBAND)])
}

/// By how much times between machines may be off in nine of ten cases, as the logarithm of a factor; nothing where no
/// network is.
pub fn network_uncertainty(cluster: &Cluster) -> Option<f64> {
    network(cluster).map(|term| term.half_width)
}

/// What the kinds of layers of a model, other than those of dense transformers, add.
fn kinds_of_work(plan: &Plan) -> Vec<Term> {
    let operators = || plan.graph().distinct().iter().flat_map(|layer| &layer.operators);
    let any = |kind: fn(OperatorKind) -> bool| operators().any(|operator| kind(operator.kind));
    let experts = plan.graph().divisible().is_some() && plan.mesh().ranks() > 1;
    let kinds = [
        (experts, EXPERTS),
        (any(|kind| matches!(kind, OperatorKind::Image(_))), MAPS),
        (any(|kind| matches!(kind, OperatorKind::Image(Image::RegionAlign { .. }))), REGIONS),
        (any(|kind| matches!(kind, OperatorKind::Recommendation(_))), TABLES),
        (any(|kind| matches!(kind, OperatorKind::Recurrent(_))), RECURRENT),
    ];
    kinds.into_iter().filter(|(there, _)| *there).map(|(_, term)| term).collect()
}

fn around(time: Seconds, terms: &[Term]) -> [f64; 2] {
    let variance: f64 = terms.iter().map(|term| term.variance()).sum();
    let spread: f64 = terms.iter().map(|term| term.variance().powi(2) / term.observations).sum();
    if variance == 0.0 {
        return [time.0, time.0];
    }
    let freedom = (variance * variance / spread).max(1.0);
    let quantile = StudentsT::new(0.0, 1.0, freedom).expect("at least one degree of freedom").inverse_cdf(UPPER);
    let factor = (quantile * variance.sqrt()).exp();
    [time.0 / factor, time.0 * factor]
}

/// What the constants of a GPU may be off. Wide ones rest on few observations or none.
fn constants(gpu: &Gpu) -> Term {
    let half_width = gpu.achieved.uncertainty.value;
    Term { half_width, observations: if half_width < 0.3 { 100.0 } else { 4.0 } }
}

/// The network between machines, whatever part of a step it is.
fn network(cluster: &Cluster) -> Option<Term> {
    let Fabric::Wired { network, .. } = &cluster.first().fabric else { return None };
    Some(match network.transport {
        Transport::Tcp => SOCKETS,
        Transport::Efa | Transport::EfaGpudirect => EFA,
        Transport::Infiniband | Transport::Roce | Transport::OmniPath => INFINIBAND,
    })
}

/// How long the busiest host thread launches kernels in a step.
fn host_time(plan: &Plan, machine: &Machine) -> Seconds {
    let passes = |role: LayerRole| -> f64 {
        let again = role == LayerRole::Block && plan.recompute() == trainyard_plan::Recompute::Full;
        if again { 2.0 } else { 1.0 }
    };
    let kernels = |stage| -> f64 {
        plan.stages()
            .runs_of(stage)
            .flatten()
            .map(|index| plan.graph().layer(index))
            .map(|layer| {
                let launched = |pass| layer.operators.iter().map(|o| f64::from(o.kind.kernels(pass))).sum::<f64>();
                passes(layer.role) * launched(Pass::Forward) + launched(Pass::Backward)
            })
            .sum()
    };
    let busiest = plan.stages().ids().map(kernels).fold(0.0, f64::max);
    machine.stack.launch.value * (busiest * plan.batch().accumulation as f64)
}

/// What operators of a measured machine vary by from one time to the next: the median over all of them, because what
/// disturbs one disturbs its neighbours too.
fn spread(machine: &MeasuredMachine) -> Term {
    let mut spreads: Vec<f64> = machine.operators.iter().map(|sample| sample.spread).collect();
    spreads.sort_by(f64::total_cmp);
    let median = spreads.get(spreads.len() / 2).copied().unwrap_or(0.0);
    let normal = Normal::standard().inverse_cdf(UPPER);
    Term { half_width: normal * median / QUARTILES, observations: spreads.len().max(1) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_observations_give_the_stated_width() {
        let [low, high] = around(Seconds(1.0), &[Term { half_width: 0.2, observations: 1e6 }]);
        assert!((high.ln() - 0.2).abs() < 1e-3 && (low.ln() + 0.2).abs() < 1e-3, "{low} {high}");
    }

    #[test]
    fn few_observations_widen_it() {
        let width = |observations| around(Seconds(1.0), &[Term { half_width: 0.2, observations }])[1];
        assert!(width(3.0) > width(10.0) && width(10.0) > width(100.0));
    }

    #[test]
    fn terms_add_as_variances() {
        let term = |half_width| Term { half_width, observations: 1e6 };
        let both = around(Seconds(2.0), &[term(0.3), term(0.4)])[1] / 2.0;
        assert!((both.ln() - 0.5).abs() < 1e-3, "{both}");
    }
}
