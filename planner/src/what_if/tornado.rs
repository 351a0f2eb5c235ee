//! Which assumptions matter to a plan: each is varied by its own uncertainty while all others stay.

use super::held::{Expected, HeldPlan};
use super::key::{Key, Level, find};
use super::{WhatIfDocument, WhatIfError, figures};
use crate::campaign::slowdown;
use crate::edits::Part;
use crate::edits::Setting;
use crate::predict::INPUT_SPREAD;
use crate::relative::whole_percent;
use rayon::prelude::*;
use trainyard_calibration::network_uncertainty;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Offload, Pricing, Sensitivity, WHAT_IF_SCHEMA};
use trainyard_units::Invalid;

/// The relative change of an assumption without a stated uncertainty.
const UNSTATED: f64 = 0.2;
/// The factor by which the time between failures is varied: publications of clusters differ by more.
const FAILURES: f64 = 2.0;
/// The factor up to which reclaims are varied: published shares of reclaimed capacity are a floor for one job.
const RECLAIMS: f64 = 20.0;

/// An assumption behind a prediction.
struct Assumption {
    key: &'static str,
    what: &'static str,
    factors: [f64; 2],
    basis: String,
    how: How,
}

/// The assumption that is varied.
enum How {
    Key(Key),
    /// The rate at which spot instances are reclaimed.
    Reclaims,
}

/// Computes the effect on time and cost of each assumption behind a plan when it is varied by its own uncertainty, or
/// by a fifth where none is stated; the one with the greatest effect comes first.
///
/// # Errors
///
/// When the plan cannot be simulated as it is.
pub fn tornado(plan: &HeldPlan) -> Result<WhatIfDocument, WhatIfError> {
    if plan.document.plan.cluster.profile.is_some() {
        let why = "a measured machine is known only as it was measured: no assumption is behind its times";
        return Err(Invalid::whole(why).with_hint("vary a field of the plan, such as --vary batch.micro=1,2,4").into());
    }
    let expected = plan.as_it_is()?;
    let assumptions = assumptions(&plan.document, &expected);
    let mut sensitivities: Vec<Sensitivity> =
        assumptions.par_iter().filter_map(|assumption| sensitivity(plan, &expected, assumption)).collect();
    // A stable sort: equals stay in the order of the list.
    sensitivities.sort_by(|a, b| effect(b).total_cmp(&effect(a)));
    let job = &plan.document.job;
    Ok(WhatIfDocument {
        schema: WHAT_IF_SCHEMA.into(),
        job: job.clone(),
        held: true,
        objective: job.goal.objective.unwrap_or_default(),
        axes: Vec::new(),
        base: Some(figures(&expected)),
        base_reason: None,
        software: None,
        cases: Vec::new(),
        sensitivities,
    })
}

/// Returns the spread between both ends, of time or of cost, whichever is larger.
fn effect(sensitivity: &Sensitivity) -> f64 {
    let span = |[low, high]: [f64; 2]| (high - low).abs();
    sensitivity.cost_change.map_or(0.0, span).max(span(sensitivity.time_change))
}

/// Returns the factors of a half-width on a logarithmic scale, either way.
fn of_logarithm(half_width: f64) -> [f64; 2] {
    [(-half_width).exp(), half_width.exp()]
}

/// Lists the assumptions that a plan can rest on, in a fixed order.
fn assumptions(document: &PlanDocument, expected: &Expected) -> Vec<Assumption> {
    let cluster = &expected.machine.cluster;
    let unstated = || ([1.0 - UNSTATED, 1.0 + UNSTATED], format!("none stated: ± {}", whole_percent(UNSTATED)));
    let stated = |half_width: f64, of: &str| {
        let own =
            (half_width > 0.0).then(|| (of_logarithm(half_width), format!("{of}: ± {}", whole_percent(half_width))));
        own.unwrap_or_else(unstated)
    };
    let gpu = cluster.first().device.gpu().map_or(0.0, |gpu| gpu.achieved.uncertainty.value);
    let software = expected.machine.stack.uncertainty.value;
    let network = network_uncertainty(cluster).unwrap_or(0.0);
    let loading = ([1.0 / INPUT_SPREAD, INPUT_SPREAD], format!("loading: a factor of {INPUT_SPREAD}"));
    let price =
        match document.prediction.price.as_ref().filter(|price| price.high_usd_per_hour > price.low_usd_per_hour) {
            Some(price) => {
                let over = |usd: f64| usd / price.usd_per_hour;
                ([over(price.low_usd_per_hour), over(price.high_usd_per_hour)], "lowest and highest seen".into())
            }
            None => unstated(),
        };
    let failures = ([1.0 / FAILURES, FAILURES], "none stated: half, twice".into());
    let machine = "its constants";
    let listed = [
        ("gpu.peak", "peak rates of the GPU", stated(gpu, machine)),
        ("gpu.memory_bandwidth", "memory bandwidth of the GPU", stated(gpu, machine)),
        ("stack.rate", "kernels of the software", stated(software, "the stack")),
        ("stack.launch", "host time to launch a kernel", stated(software, "the stack")),
        ("link.bandwidth", "links inside a machine", unstated()),
        ("link.latency", "latencies inside a machine", unstated()),
        ("gpu.host_bandwidth", "link between GPU and main memory", unstated()),
        ("host.memory_bandwidth", "main memory: offloaded copies and updates", unstated()),
        ("cluster.network", "network between machines", stated(network, "such networks")),
        ("cluster.latency", "latencies between machines", stated(network, "such networks")),
        ("host.decode", "decoding of samples", loading.clone()),
        ("host.storage", "reading of samples", loading),
        ("price.instance", "price of a machine", price),
        ("campaign.node_mtbf", "time between failures of a machine", failures),
    ];
    let mut all: Vec<Assumption> = listed
        .into_iter()
        .filter_map(|(key, what, (factors, basis))| {
            let how = How::Key(find(key)?);
            Some(Assumption { key, what, factors, basis, how })
        })
        .filter(|assumption| matters(assumption, document, expected))
        .collect();
    if expected.plan.pricing() == Pricing::Spot {
        all.push(Assumption {
            key: "campaign.monthly_reclaims",
            what: "how often spot instances are reclaimed, for the mean of the whole campaign",
            factors: [1.0, RECLAIMS],
            basis: "published bands are a floor".into(),
            how: How::Reclaims,
        });
    }
    all
}

/// Returns `true` if an assumption applies to the plan.
fn matters(assumption: &Assumption, document: &PlanDocument, expected: &Expected) -> bool {
    let How::Key(key) = assumption.how else { return true };
    let machines = expected.machine.cluster.machines();
    let several = expected.machine.cluster.first().devices_per_instance > 1;
    match key.level {
        Level::Machine(_) if document.plan.cluster.profile.is_some() => false,
        // Of stacks that were fitted together with the GPU the GPU's constants say it.
        Level::Machine(Part::Software) => expected.machine.stack.uncertainty.value > 0.0,
        Level::Machine(Part::Network | Part::NetworkLatency) => machines > 1,
        Level::Machine(Part::LinkBandwidth | Part::LinkLatency) => several,
        Level::Machine(Part::HostBandwidth | Part::HostMemoryBandwidth) => expected.plan.offload() != Offload::NONE,
        Level::Machine(Part::Decode | Part::Storage) => document.plan.input.is_some(),
        Level::Price(_) => document.prediction.price.is_some(),
        _ => true,
    }
}

/// Computes time and cost at both factors; `None` if the plan does not allow one of them.
fn sensitivity(plan: &HeldPlan, base: &Expected, assumption: &Assumption) -> Option<Sensitivity> {
    let own = (base.prediction.elapsed_s(), base.prediction.cost_usd);
    let at = |factor: f64| -> Option<(f64, Option<f64>)> {
        match assumption.how {
            How::Key(key) => {
                let (_, varied) = plan.with(&[(key, &Setting::Factor(factor))]).ok()?;
                Some((varied.prediction.elapsed_s(), varied.prediction.cost_usd))
            }
            How::Reclaims => {
                let document = PlanDocument { prediction: base.prediction.clone(), ..plan.document.clone() };
                let slowdown = slowdown(&document, &base.plan, &base.machine, factor).ok()?;
                // Machines are paid for as long as they are held.
                Some((own.0 * slowdown, own.1.map(|cost| cost * slowdown)))
            }
        }
    };
    let [low, high] = [at(assumption.factors[0])?, at(assumption.factors[1])?];
    let cost_usd = low.1.zip(high.1).map(|(low, high)| [low, high]);
    let changes = |values: [f64; 2], base: f64| values.map(|value| value / base - 1.0);
    let time_s = [low.0, high.0];
    let time_change = changes(time_s, own.0);
    let cost_change = cost_usd.zip(own.1).map(|(costs, base)| changes(costs, base));
    if !time_change.into_iter().chain(cost_change.into_iter().flatten()).all(f64::is_finite) {
        return None;
    }
    Some(Sensitivity {
        key: assumption.key.into(),
        what: assumption.what.into(),
        factors: assumption.factors,
        basis: assumption.basis.clone(),
        time_s,
        cost_usd,
        time_change,
        cost_change,
    })
}
