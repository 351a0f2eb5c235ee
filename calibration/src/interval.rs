//! Intervals that should hold 90 % of measurements.
//!
//! The reasons for errors are a handful of independent terms: the run itself, the constants of the GPU, the host
//! threads, the network. Each has a width and the number of observations that taught it. The terms add up as variances
//! of the logarithm of the step time, and the quantile is Student's t with the degrees of freedom that the terms have
//! together, so that a term that was seen a few times widens the interval beyond its own width.
//!
//! # Source
//!
//! Degrees of freedom of a sum of variances: Satterthwaite, Biometrics Bulletin 2 (1946), 110-114. The widths are
//! residuals on published step times; see docs/physics.md.

use statrs::distribution::{ContinuousCDF, StudentsT};
use trainyard_hardware_profiles::{Arithmetic, Cluster, Fabric, Gpu, MeasuredMachine, Seen, Transport, Work};
use trainyard_models::Divisible;
use trainyard_plan::operators::{Image, LayerRole, OperatorKind, Pass};
use trainyard_plan::{Plan, TuningKind};
use trainyard_sim::{Machine, Outcome, on_several_machines};
use trainyard_units::Seconds;

/// The probability below the upper end of a two-sided 90 % interval.
const UPPER: f64 = 0.95;

/// Half of an interval that holds 90 % of a normal distribution, in standard deviations: its quantile of 95 %.
pub const NORMAL_95: f64 = 1.644_853_626_951_472_4;

/// The inter-quartile range of a normal distribution in standard deviations.
const QUARTILES: f64 = 1.349;

/// Published plans that were measured twice, on another day or with other software, differ by this much.
const REPEAT: Term = Term::new("repeating the plan", 0.06, 30.0);

// The widths of the terms below, unless they say otherwise, are what residuals of left-out groups ask for: 1 894 published
// step times, each predicted without its model's size, scale or release and from the mean of all other stacks, on
// 2026-11-21. `trainyard calibrate --from MEASUREMENTS.csv --verbose` prints them for any table.

/// Small work whose pace the host sets: half-width if all of the step is that.
const HOST_BOUND: Term = Term::new("host-bound share", 0.05, 100.0);

/// Sockets between machines: half-width if all of the step is communication. The same plan on the same machines took
/// 1.44 times as long on another day.
const SOCKETS: Term = Term::new("exposed over sockets", 0.55, 60.0);

/// EFA between machines: two published sweeps of the same machines differ by half at middle sizes.
const EFA: Term = Term::new("exposed over EFA", 0.5, 10.0);

/// Remote memory access between machines, over InfiniBand and its like.
const INFINIBAND: Term = Term::new("exposed over InfiniBand", 0.29, 100.0);

/// Weights gathered tensor by tensor: seven rows that one constant serves.
const SHARDED_BY_TENSOR: Term = Term::new("gathered matrix by matrix", 0.25, 7.0);

/// Experts on several GPUs: where they are and what else is shared out is seldom told. Tables have a term of their own.
const EXPERTS: Term = Term::new("experts on several GPUs", 0.85, 16.0);

/// Maps: which algorithm a library picks differs by release.
const MAPS: Term = Term::new("maps", 0.17, 459.0);

/// Regions that the host chooses: how many there are, and how they are chosen, differs by framework.
const REGIONS: Term = Term::new("regions", 0.38, 108.0);

/// Tables that are looked up: what overlaps with the exchange of rows is not told. Wider than the residuals of 44 rows
/// ask for, which are of two programs.
const TABLES: Term = Term::new("tables", 0.65, 44.0);

/// Recurrent layers: lengths of samples are means of their data.
const RECURRENT: Term = Term::new("recurrent layers", 0.33, 21.0);

/// Weights that are frozen or quantised, and adapters beside them, and pairs: a stated default. Of 18 published steps
/// of LoRA (QwenLM/Qwen, README.md) the interval holds 17.
const FINE_TUNED: Term = Term::new("frozen weights and adapters", 0.3, 4.0);

/// The name of the term of a stack's own constants, whose half-width stands in its catalog entry.
pub(crate) const STACK: &str = "constants of the stack";

/// Rows that taught what the constants of a stack may be off: about as many as one of its releases has.
const STACK_OBSERVATIONS: f64 = 30.0;

/// More than one machine at all: placement, congestion and the slowest of many machines.
const SEVERAL_MACHINES: Term = Term::new("several machines", 0.12, 413.0);

/// A stack for which no published measurement stands: its constants are stated defaults. If all published rows are
/// predicted with them in place of their own stacks, nine in ten are held.
pub(crate) const UNMEASURED_STACK: Term = Term::new("a stack nobody measured", 0.47, 8.0);

/// A measured machine: operators that were timed apart and at other shapes. Of eighteen jobs (six model sizes, each on
/// one rank, two replicas and two stages; 2026-11-21, nothing left out) sixteen were within 20 %, mostly too fast.
const MEASURED: Term = Term::new("a measured machine", 0.23, 18.0);

/// Steps over EFA, as far as they are all of a collective. Of 130 residuals where a fabric or a release of software was
/// left out of the fit (2026-11-21; the sweeps of p4d and p3dn), those below 16 KiB are within 0.1 to 0.3. With a whole
/// fabric left out, this and the next two terms hold 89 % of 65 rows; over all six ways to leave out a sweep, 81 %.
const EFA_STEPS: Term = Term::new("steps over EFA", 0.2, 60.0);

/// The rate of EFA, as far as that is all: the same residuals beyond 128 MiB.
const EFA_RATE: Term = Term::new("rate of EFA", 0.45, 40.0);

/// The waits of chunks, as far as those are all: early software waits six times as long as tuned software, which is
/// half of the time of the same residuals between 512 KiB and 64 MiB.
const WAITING: Term = Term::new("waiting of chunks", 1.3, 60.0);

/// Sockets that several devices of a machine share, in a benchmark: 15 to 22 of 32 Gbit/s are published for one cloud.
const SHARED_SOCKETS: Term = Term::new("shared sockets", 0.45, 6.0);

/// Links inside a machine, and sockets that one device has to itself: ten messages between p3.2xlarge are off by up to
/// 0.14; published bandwidths of one kind of NVLink differ by less.
const INSIDE: Term = Term::new("links of a machine", 0.2, 10.0);

/// A fabric that was fitted on a sweep of its own: decades of sizes that were left out of the fit.
const FITTED_FABRIC: Term = Term::new("a fitted fabric", 0.2, 30.0);

/// Layouts that software chooses for itself, without stages, over several machines: half-width for each doubling of
/// machines. The fastest layout is predicted; what was run is not told, and was 1.5, 4 and 17 times as slow on 2, 8 and
/// 8 machines, a factor of e^0.43, e^0.47 and e^0.94 for each doubling. So few observations make it wider yet.
const OPERATORS: Term = Term::new("operators split over machines", 1.07, 3.0);

/// Published steps with the same software on GPUs of the same generation, with the same kind of work.
pub(crate) const SEEN: &str = "steps of this kind that were published";

/// Published steps that say of their kind as much as the reasons for errors do that all steps have. With 5 to 20 intervals
/// hold 89 to 91 % of steps whose model or scale taught none of their widths, and with fewer, fewer.
const PRIOR_STEPS: f64 = 10.0;

/// Observations behind the width of a kind of steps: its rank counts already that they are few.
const RANKED: f64 = 1e6;

/// By how many times as many GPUs as were published a plan is beyond what they say.
const BEYOND: u32 = 2;

/// One reason why a prediction may be off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// In a few words.
    pub name: &'static str,
    /// Half of the 90 % interval of the logarithm, as if it were normal.
    pub half_width: f64,
    /// Observations that taught the width.
    pub observations: f64,
    /// The part of the step that suffers from it.
    pub share: f64,
}

impl Term {
    const fn new(name: &'static str, half_width: f64, observations: f64) -> Self {
        Self { name, half_width, observations, share: 1.0 }
    }

    /// The term where only a part of the step suffers from it.
    fn of_share(self, share: f64) -> Self {
        Self { share: share.clamp(0.0, 1.0), ..self }
    }

    pub(crate) fn variance(self) -> f64 {
        (self.half_width * self.share / NORMAL_95).powi(2)
    }
}

/// The interval around the simulated step time of `plan` on `machine`, in seconds.
pub fn interval(plan: &Plan, machine: &Machine, outcome: &Outcome) -> [f64; 2] {
    around(outcome.step_time, &in_use(plan, machine, outcome))
}

/// The reasons of which the interval of a step is made: what published steps of the same kind were off by, as far as
/// there are enough of them, and what is thought of each part of it.
pub(crate) fn in_use(plan: &Plan, machine: &Machine, outcome: &Outcome) -> Vec<Term> {
    let thought = terms(plan, machine, outcome);
    let seen = seen(plan, machine);
    let Some(devices) = seen.iter().map(|seen| seen.devices).max() else { return thought };
    // From all steps of the kind to those of its arithmetic.
    let half_width = seen.iter().fold(half_width(&thought), |wider, seen| {
        let rows = f64::from(seen.rows);
        let squares = PRIOR_STEPS * wider.powi(2) + rows * seen.half_width.value.powi(2);
        (squares / (PRIOR_STEPS + rows)).sqrt()
    });
    let mut own = vec![Term::new(SEEN, half_width, RANKED)];
    if plan.mesh().ranks() > devices.saturating_mul(BEYOND) {
        own.extend(between_machines(plan, machine, outcome));
    }
    own
}

/// What published steps of the kind of a plan were off by: all of them, then those of its arithmetic.
fn seen<'a>(plan: &Plan, machine: &'a Machine) -> Vec<&'a Seen> {
    // Published steps train all weights, and those whose layouts are not told have a term of their own.
    if plan.tuning_kind() != TuningKind::FULL || chosen_over_machines(plan, machine) {
        return Vec::new();
    }
    let Some(kind) = Kind::of(plan, machine) else { return Vec::new() };
    let of = |kind: Kind<'a>| machine.stack.seen.iter().find(move |seen| kind.is_of(seen));
    [of(kind.whatever_arithmetic()), of(kind)].into_iter().flatten().collect()
}

/// The kind of a step, as far as predictions are off by different amounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind<'a> {
    pub generation: &'a str,
    pub work: Work,
    /// Between machines; none on one.
    pub network: Option<Transport>,
    /// None for all.
    pub arithmetic: Option<Arithmetic>,
}

impl<'a> Kind<'a> {
    /// The kind of a step on GPUs; none on machines that were measured.
    pub(crate) fn of(plan: &Plan, machine: &'a Machine) -> Option<Self> {
        let generation = machine.cluster.first().device.gpu()?.generation.as_str();
        let Fabric::Wired { network, .. } = &machine.cluster.first().fabric else { return None };
        let network = on_several_machines(plan, machine).then_some(network.transport);
        let work = kinds_of_work(plan).first().map_or(Work::Tokens, |(work, _)| *work);
        let half = plan.precision().element_bytes() < 4;
        let arithmetic = Some(if half { Arithmetic::Half } else { Arithmetic::Single });
        Some(Self { generation, work, network, arithmetic })
    }

    /// The kind that holds steps of all arithmetic.
    pub(crate) fn whatever_arithmetic(&self) -> Self {
        Self { arithmetic: None, ..self.clone() }
    }

    fn is_of(&self, seen: &Seen) -> bool {
        (seen.generation.as_str(), seen.work, seen.network, seen.arithmetic)
            == (self.generation, self.work, self.network, self.arithmetic)
    }
}

/// The reasons why the step time of `plan` on `machine` may be off.
pub(crate) fn terms(plan: &Plan, machine: &Machine, outcome: &Outcome) -> Vec<Term> {
    let step = outcome.step_time;
    let device = &machine.cluster.first().device;
    if let Some(measured) = device.measured() {
        return vec![MEASURED, spread(measured)];
    }
    let host = host_time(plan, machine).0 / step.0;
    let mut terms = vec![REPEAT];
    terms.extend(device.gpu().map(constants));
    terms.push(HOST_BOUND.of_share(host));
    let own = &machine.stack.uncertainty;
    // What measurements taught of a stated default says how far it is off.
    terms.push(if machine.stack.published_as.is_empty() && own.fitted.is_none() {
        UNMEASURED_STACK
    } else {
        Term::new(STACK, own.value, STACK_OBSERVATIONS)
    });
    terms.extend(kinds_of_work(plan).into_iter().map(|(_, term)| term));
    if plan.tuning_kind() != TuningKind::FULL {
        terms.push(FINE_TUNED);
    }
    if plan.gathers_weights() && machine.stack.sharded_by_tensor.value {
        terms.push(SHARDED_BY_TENSOR);
    }
    terms.extend(between_machines(plan, machine, outcome));
    if chosen_over_machines(plan, machine) {
        let doublings = f64::from(machine.cluster.machines()).log2();
        terms.push(Term { share: doublings, ..OPERATORS });
    }
    terms
}

/// Tells whether the software of a plan chose by itself how operators are split over several machines.
fn chosen_over_machines(plan: &Plan, machine: &Machine) -> bool {
    machine.stack.chooses_sharding && plan.mesh().pipeline() == 1 && on_several_machines(plan, machine)
}

/// What more than one machine adds.
fn between_machines(plan: &Plan, machine: &Machine, outcome: &Outcome) -> Vec<Term> {
    if !on_several_machines(plan, machine) {
        return Vec::new();
    }
    let communication = outcome.exposed_communication.0 / outcome.step_time.0;
    let network = network(&machine.cluster).map(|term| term.of_share(communication));
    std::iter::once(SEVERAL_MACHINES).chain(network).collect()
}

/// The interval around the time of a collective that nothing runs beside, of which `waiting` is the part that chunks
/// wait for one another and `bytes` the part that links carry, in seconds.
///
/// Of a fabric that nobody has measured; one that was fitted is off by less.
pub(crate) fn collective_interval(cluster: &Cluster, time: Seconds, waiting: f64, bytes: f64) -> [f64; 2] {
    let Fabric::Wired { network, .. } = &cluster.first().fabric else { return around(time, &[REPEAT, MEASURED]) };
    if cluster.machines() == 1 {
        return around(time, &[REPEAT, INSIDE]);
    }
    let messaging = &network.messaging;
    if messaging.step.fitted.is_some() || messaging.sustained.fitted.is_some() {
        return around(time, &[REPEAT, FITTED_FABRIC]);
    }
    let shared = cluster.first().devices_per_instance > 1;
    let mut terms = match network.transport {
        Transport::Efa | Transport::EfaGpudirect => vec![EFA_STEPS, EFA_RATE.of_share(bytes)],
        Transport::Tcp | Transport::TcpPods if shared => vec![SHARED_SOCKETS],
        Transport::Tcp | Transport::TcpPods => vec![INSIDE],
        Transport::Infiniband | Transport::Roce | Transport::OmniPath => vec![INFINIBAND],
    };
    terms.extend([REPEAT, WAITING.of_share(waiting)]);
    around(time, &terms)
}

/// The interval around a copy or a download at a rate that was measured on the same kind of machine, in seconds.
pub(crate) fn constant_interval(time: Seconds) -> [f64; 2] {
    around(time, &[REPEAT, INFINIBAND])
}

/// By how much times between machines may be off in nine of ten cases, as the logarithm of a factor; nothing where no
/// network is.
pub fn network_uncertainty(cluster: &Cluster) -> Option<f64> {
    network(cluster).map(|term| term.half_width)
}

/// The kinds of layers of a model other than those of dense transformers, the one that is known least first.
fn kinds_of_work(plan: &Plan) -> Vec<(Work, Term)> {
    let operators = || plan.graph().distinct().iter().flat_map(|layer| &layer.operators);
    let any = |kind: fn(OperatorKind) -> bool| operators().any(|operator| kind(operator.kind));
    let routed = matches!(plan.graph().divisible(), Some(Divisible::Experts(_)));
    let experts = routed && plan.mesh().ranks() > 1;
    let kinds = [
        (experts, Work::Experts, EXPERTS),
        (any(|kind| matches!(kind, OperatorKind::Recommendation(_))), Work::Tables, TABLES),
        (any(|kind| matches!(kind, OperatorKind::Image(Image::RegionAlign { .. }))), Work::Regions, REGIONS),
        (any(|kind| matches!(kind, OperatorKind::Recurrent(_))), Work::Recurrent, RECURRENT),
        (any(|kind| matches!(kind, OperatorKind::Image(_))), Work::Maps, MAPS),
    ];
    kinds.into_iter().filter(|(there, ..)| *there).map(|(_, work, term)| (work, term)).collect()
}

pub(crate) fn around(time: Seconds, terms: &[Term]) -> [f64; 2] {
    let factor = half_width(terms).exp();
    [time.0 / factor, time.0 * factor]
}

/// Half of the 90 % interval that terms make together, of the logarithm.
fn half_width(terms: &[Term]) -> f64 {
    let variance: f64 = terms.iter().map(|term| term.variance()).sum();
    let spread: f64 = terms.iter().map(|term| term.variance().powi(2) / term.observations).sum();
    if variance == 0.0 {
        return 0.0;
    }
    let freedom = (variance * variance / spread).max(1.0);
    let quantile = StudentsT::new(0.0, 1.0, freedom).expect("at least one degree of freedom").inverse_cdf(UPPER);
    quantile * variance.sqrt()
}

/// The error of the constants of a GPU. Wide ones rest on few observations or none.
fn constants(gpu: &Gpu) -> Term {
    let half_width = gpu.achieved.uncertainty.value;
    Term::new("constants of the GPU", half_width, if half_width < 0.3 { 100.0 } else { 4.0 })
}

/// The network between machines, whatever part of a step it is.
fn network(cluster: &Cluster) -> Option<Term> {
    let Fabric::Wired { network, .. } = &cluster.first().fabric else { return None };
    Some(match network.transport {
        Transport::Tcp | Transport::TcpPods => SOCKETS,
        Transport::Efa | Transport::EfaGpudirect => EFA,
        Transport::Infiniband | Transport::Roce | Transport::OmniPath => INFINIBAND,
    })
}

/// Time in which the busiest host thread launches kernels in a step.
fn host_time(plan: &Plan, machine: &Machine) -> Seconds {
    let passes = |role: LayerRole| -> f64 {
        let again = role == LayerRole::Block && plan.recompute() == trainyard_plan::Recompute::Full;
        if again { 2.0 } else { 1.0 }
    };
    let kernels = |stage| -> f64 {
        plan.stages()
            .chunks_of(stage)
            .flatten()
            .map(|index| plan.graph().layer(index))
            .map(|layer| {
                let launched = |pass| layer.operators.iter().map(|o| f64::from(o.kind.kernels(pass))).sum::<f64>();
                passes(layer.role) * launched(Pass::Forward) + launched(Pass::Backward)
            })
            .sum()
    };
    let busiest = plan.stages().ids().map(kernels).fold(0.0, f64::max);
    machine.launch() * (busiest * plan.batch().accumulation as f64)
}

/// The variation of operators of a measured machine from one time to the next: the median over all of them, because
/// what disturbs one disturbs its neighbours too.
fn spread(machine: &MeasuredMachine) -> Term {
    let mut spreads: Vec<f64> = machine.operators.iter().map(|sample| sample.spread).collect();
    spreads.sort_by(f64::total_cmp);
    let median = spreads.get(spreads.len() / 2).copied().unwrap_or(0.0);
    Term::new("spread of operators", NORMAL_95 * median / QUARTILES, spreads.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::Normal;
    use std::sync::Arc;
    use trainyard_hardware_profiles::{Fitted, catalog};
    use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec, Placement, PlanSpec};

    /// A plan with as many replicas as it has samples, on some machines of eight GPUs each, and its step.
    fn plan(replicas: u32, placement: Placement, machine: &Machine) -> (Plan, Outcome) {
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        let cluster = ClusterSpec::of(&machine.cluster.instance, machine.cluster.machines());
        let plan = Plan::try_from(PlanSpec {
            parallel: ParallelSpec { data: replicas, ..ParallelSpec::default() },
            batch: BatchSpec { global: replicas.into(), micro: 1, accumulation: 1 },
            placement,
            ..PlanSpec::plain(model.spec(), cluster, model.graph().len())
        });
        let plan = plan.expect("a valid plan");
        let outcome = trainyard_sim::simulate(&plan, machine).expect("it can be simulated");
        (plan, outcome)
    }

    fn names(replicas: u32, placement: Placement, machine: &Machine) -> Vec<&'static str> {
        let (plan, outcome) = plan(replicas, placement, machine);
        terms(&plan, machine, &outcome).iter().map(|term| term.name).collect()
    }

    fn on(instance: &str, machines: u32, stack: &str) -> Machine {
        Machine {
            cluster: catalog().cluster(instance, machines).expect("in the catalog"),
            stack: catalog().stack(stack).expect("in the catalog").clone(),
        }
    }

    fn machine() -> Machine {
        on("p4d.24xlarge", 2, "pytorch")
    }

    #[test]
    fn the_quantile_is_that_of_the_normal_distribution() {
        assert!((Normal::standard().inverse_cdf(UPPER) - NORMAL_95).abs() < 1e-12);
    }

    #[test]
    fn ranks_that_are_dealt_out_meet_over_the_network() {
        let both = [SEVERAL_MACHINES.name, EFA.name];
        for (replicas, placement, apart) in [
            (1, Placement::Spread, false),
            (2, Placement::Spread, true),
            (8, Placement::Cluster, false),
            (16, Placement::Cluster, true),
        ] {
            let names = names(replicas, placement, &machine());
            assert!(both.iter().all(|name| names.contains(name) == apart), "{replicas} {placement}: {names:?}");
        }
    }

    #[test]
    fn a_default_that_was_measured_is_as_sure_as_its_measurements() {
        let mut machine = machine();
        assert!(names(1, Placement::Cluster, &machine).contains(&UNMEASURED_STACK.name));
        let fitted = Fitted { on: "step times".into(), rows: 9, date: "2026-11-23".into(), deviation: 0.1 };
        Arc::make_mut(&mut machine.stack).uncertainty.fitted = Some(Box::new(fitted));
        let names = names(1, Placement::Cluster, &machine);
        assert!(names.contains(&STACK) && !names.contains(&UNMEASURED_STACK.name), "{names:?}");
    }

    #[test]
    fn published_steps_count_as_many_as_they_are() {
        let mut machine = machine();
        let (plan, outcome) = plan(1, Placement::Cluster, &machine);
        let thought = half_width(&terms(&plan, &machine, &outcome));
        let entry = |rows, arithmetic, half_width| Seen {
            generation: "Ampere".into(),
            work: Work::Tokens,
            arithmetic,
            network: None,
            rows,
            devices: 8,
            half_width: trainyard_hardware_profiles::Sourced::new(half_width, "a test"),
        };
        let mut width = |seen| {
            Arc::make_mut(&mut machine.stack).seen = seen;
            half_width(&in_use(&plan, &machine, &outcome))
        };
        let near = |width: f64, expected: f64| assert!((width / expected - 1.0).abs() < 1e-4, "{width} {expected}");
        near(width(vec![]), thought);
        // As many as count for what is thought: half way between the squares.
        near(width(vec![entry(10, None, 0.1)]), f64::midpoint(thought.powi(2), 0.01).sqrt());
        near(width(vec![entry(1_000_000_000, None, 0.1)]), 0.1);
        // The plan computes in single precision.
        near(width(vec![entry(1_000_000_000, Some(Arithmetic::Half), 0.1)]), thought);
        let both = vec![entry(1_000_000_000, None, 0.1), entry(10, Some(Arithmetic::Single), 0.2)];
        near(width(both), f64::midpoint(0.01, 0.04).sqrt());
    }

    #[test]
    fn layouts_that_software_chooses_are_known_less_on_more_machines() {
        let width = |machines: u32, stack| {
            let machine = on("p3.16xlarge", machines, stack);
            let (plan, outcome) = plan(machines * 8, Placement::Cluster, &machine);
            half_width(&in_use(&plan, &machine, &outcome))
        };
        let [one, two, eight] = [1, 2, 8].map(|machines| width(machines, "alpa"));
        assert!(one < 0.3 && two > 1.0 && eight > 2.5 * two, "{one} {two} {eight}");
        assert!(width(8, "megatron-v100") < 0.6);
    }

    #[test]
    fn many_observations_give_the_stated_width() {
        let [low, high] = around(Seconds(1.0), &[Term::new("one", 0.2, 1e6)]);
        assert!((high.ln() - 0.2).abs() < 1e-3 && (low.ln() + 0.2).abs() < 1e-3, "{low} {high}");
    }

    #[test]
    fn few_observations_widen_it() {
        let width = |observations| around(Seconds(1.0), &[Term::new("one", 0.2, observations)])[1];
        assert!(width(3.0) > width(10.0) && width(10.0) > width(100.0));
    }

    #[test]
    fn terms_add_as_variances() {
        let term = |half_width| Term::new("one", half_width, 1e6);
        let both = around(Seconds(2.0), &[term(0.3), term(0.4)])[1] / 2.0;
        assert!((both.ln() - 0.5).abs() < 1e-3, "{both}");
    }
}
