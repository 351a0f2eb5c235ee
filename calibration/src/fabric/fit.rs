//! The constants under which a sweep is most likely, given what was believed of them before.
//!
//! Residuals are logarithms of predicted over measured times, constants are fitted as logarithms, and each is held near
//! its present value by a prior as wide as published fabrics differ. Which constants a sweep teaches follows from its
//! rows: those that change no prediction stay as they are.
//!
//! # Source
//!
//! Minimiser: Nelder and Mead, The Computer Journal 7 (1965), 308-313. Robust loss 2 (√(1 + u²) − 1): Charbonnier et
//! al., IEEE Transactions on Image Processing 6 (1997), 298-311.

use super::{FITTED, Sweep, SweepRow, useless};
use crate::collectives::Measured;
use crate::inverse::inverse_diagonal;
use argmin::core::{CostFunction, Error, Executor, State};
use argmin::solver::neldermead::NelderMead;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_hardware_profiles::{
    Catalog, Cluster, Fabric, Fitted, Instance, Interconnect, MeasuredFabric, Messaging, Pool, Sourced,
};
use trainyard_units::{BytesPerSecond, Invalid, Seconds};

/// Standard deviation of a row before anything is fitted: what the model is usually off by on a fabric that it knows.
const NOISE: f64 = 0.1;

/// The least that it may turn out to be: what repeated benchmarks differ by.
const LEAST_NOISE: f64 = 0.01;

/// Median of the absolute value of a normal variable in standard deviations.
const MEDIAN: f64 = 0.6745;

/// Steps of the minimiser at most, for each constant.
const ITERATIONS: u64 = 250;

/// Rounds of the minimiser, each from where the one before ended and with the noise that it left.
const ROUNDS: u32 = 4;

/// A change of a prediction, as a logarithm over that of the constant, below which a row says nothing of a constant.
const SILENT: f64 = 0.02;

/// A constant of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Constant {
    SustainedAlone,
    Sustained,
    Step,
    ChunkTrips,
    Inside,
    Link,
}

impl Constant {
    const ALL: [Self; 6] =
        [Self::SustainedAlone, Self::Sustained, Self::Step, Self::ChunkTrips, Self::Inside, Self::Link];

    fn name(self) -> &'static str {
        match self {
            Self::SustainedAlone => "sustained_alone",
            Self::Sustained => "sustained",
            Self::Step => "step",
            Self::ChunkTrips => "chunk_trips",
            Self::Inside => "inside",
            Self::Link => "link",
        }
    }

    /// The least and the most, in its own unit; of a link in parts of what is nominal or of the present rate.
    fn bounds(self) -> (f64, f64) {
        let named = MeasuredFabric::BOUNDS.iter().find(|(name, ..)| *name == self.name());
        named.map_or((0.02, 1.0), |(_, low, high)| (*low, *high))
    }

    /// The spread of fabrics, as a standard deviation of the logarithm: software of one year halves what chunks wait
    /// or doubles it, published shares of a rate differ by a factor of two, latencies of machines by a half.
    fn spread(self) -> f64 {
        match self {
            Self::SustainedAlone | Self::Sustained | Self::Step => 1.0,
            Self::ChunkTrips => 1.5,
            Self::Inside | Self::Link => 0.7,
        }
    }

    /// Where there is none at present: a value too small to be felt, which rows can raise.
    fn start(self) -> f64 {
        match self {
            Self::Step => 5e-6,
            Self::ChunkTrips => 0.05,
            _ => 1.0,
        }
    }

    fn get(self, fabric: &MeasuredFabric) -> f64 {
        let messaging = &fabric.messaging;
        let value = match self {
            Self::SustainedAlone => messaging.sustained_alone.value,
            Self::Sustained => messaging.sustained.value,
            Self::Step => messaging.step.value.0,
            Self::ChunkTrips => messaging.chunk_trips.value,
            Self::Inside => messaging.inside.value,
            Self::Link => match &fabric.interconnect {
                Interconnect::Nvswitch { fraction, .. } | Interconnect::NvlinkMesh { fraction, .. } => fraction.value,
                Interconnect::Pcie { bandwidth } => bandwidth.value.0 / NOMINAL_PCIE,
            },
        };
        if value > 0.0 { value } else { self.start() }
    }

    fn set(self, messaging: &mut Messaging, interconnect: &mut Interconnect, value: f64, fit: Option<&Fitted>) {
        let number = |slot: &mut Sourced<f64>| put(slot, value, fit);
        match self {
            Self::SustainedAlone => number(&mut messaging.sustained_alone),
            Self::Sustained => number(&mut messaging.sustained),
            Self::Step => put(&mut messaging.step, Seconds(value), fit),
            Self::ChunkTrips => number(&mut messaging.chunk_trips),
            Self::Inside => number(&mut messaging.inside),
            Self::Link => match interconnect {
                Interconnect::Nvswitch { fraction, .. } | Interconnect::NvlinkMesh { fraction, .. } => number(fraction),
                Interconnect::Pcie { bandwidth } => put(bandwidth, BytesPerSecond(value * NOMINAL_PCIE), fit),
            },
        }
    }
}

/// Bytes a second of which rates over PCIe are told in parts: beyond any PCIe 6.0 x16.
const NOMINAL_PCIE: f64 = 128e9;

fn put<T>(slot: &mut Sourced<T>, value: T, fit: Option<&Fitted>) {
    slot.value = value;
    if let Some(fit) = fit {
        slot.source = format!("fitted on {}", fit.on);
        slot.fitted = Some(Box::new(fit.clone()));
    }
}

/// One constant before and after.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FittedConstant {
    /// The machine type.
    pub fabric: String,
    /// Its name in the file.
    pub name: &'static str,
    /// The value of the catalog; seconds for a time.
    pub before: f64,
    /// The value of the sweep.
    pub after: f64,
    /// Standard error as a fraction of the value.
    pub deviation: f64,
    /// Rows that depend on it.
    pub rows: u32,
}

impl FittedConstant {
    /// A constant that changes by less than this part stays what it is.
    const CHANGE: f64 = 0.002;

    /// Tells whether rows depend on the constant, or did before others changed and moved it.
    pub(super) fn is_taught(&self) -> bool {
        self.rows > 0 || (self.after / self.before).ln().abs() > Self::CHANGE
    }
}

/// Constants that a sweep teaches of a machine type.
#[derive(Clone, Debug)]
pub(crate) struct FabricFit {
    /// The new entry.
    pub fabric: MeasuredFabric,
    /// The constants that changed.
    pub constants: Vec<FittedConstant>,
    /// Rows that were used.
    pub rows: usize,
    /// Mean absolute error before, a fraction.
    pub before: f64,
    /// The same after.
    pub after: f64,
    /// The same where rows of each decade of sizes are predicted by the others; nothing for one decade.
    pub cross_validated: Option<f64>,
}

/// A row with the machines that it was measured on.
struct Observation {
    measured: Measured,
    cluster: Cluster,
    bytes: u64,
    seconds: f64,
}

impl Observation {
    /// Logarithm of predicted over measured under some constants.
    fn residual(&self, constants: &[Constant], values: &[f64]) -> f64 {
        let mut cluster = self.cluster.clone();
        if let Fabric::Wired { interconnect, network } = &mut cluster.pools[0].fabric {
            let isolated = network.messaging.isolated.value;
            for (constant, value) in constants.iter().zip(values) {
                let shared = matches!(constant, Constant::SustainedAlone | Constant::Sustained);
                let value = if shared { value * isolated } else { *value };
                constant.set(&mut network.messaging, interconnect, value, None);
            }
        }
        let time = self.measured.predict(&cluster, self.bytes).expect("it was predicted before");
        (time.0 / self.seconds).ln()
    }
}

/// The fabrics of all machine types that a sweep has rows of, or of the one that is named.
///
/// `date` is told beside each value, `2026-11-21`.
///
/// # Errors
///
/// When the machine type is not known or the sweep teaches nothing of it.
pub(crate) fn fit_fabrics(
    sweep: &Sweep,
    instance: Option<&str>,
    catalog: &Catalog,
    date: &str,
) -> Result<Vec<FabricFit>, Invalid> {
    if let Some(name) = instance.filter(|name| !catalog.machine_types().any(|machine| machine.name == **name)) {
        let allowed = "a machine type of the catalog, or a cluster file (.toml)";
        return Err(Invalid::value("--instance", name, allowed).with_hint(FITTED));
    }
    let mut reason = "its rows are of other machines".to_owned();
    let mut observed: BTreeMap<String, Vec<Observation>> = BTreeMap::new();
    for row in &sweep.rows {
        let Some(machine) = sweep.machine(row, instance, catalog)? else { continue };
        let measured = row.measured.on(&machine);
        match measured.complete(catalog).and_then(|completed| observation(measured, completed)) {
            Ok(observation) => observed.entry(machine).or_default().push(observation),
            Err(why) => reason = why,
        }
    }
    if observed.is_empty() {
        let what = instance.map_or_else(|| "a machine type of the catalog".to_owned(), |name| format!("`{name}`"));
        return Err(useless(&sweep.file, &what, &reason));
    }
    let fitted = |(machine, rows): (&String, &Vec<Observation>)| fit(known(machine, catalog), rows, &sweep.file, date);
    Ok(observed.iter().map(fitted).collect())
}

/// The fabric of the machines of a cluster file, which are of one kind, fitted on the rows of a sweep that are of them:
/// those that name no machines, the cluster or its machines.
///
/// # Errors
///
/// When the cluster has machines of several kinds, or the sweep teaches nothing of them.
pub(crate) fn fit_described(
    sweep: &Sweep,
    cluster: &Cluster,
    catalog: &Catalog,
    date: &str,
) -> Result<FabricFit, Invalid> {
    let [Pool { name, fabric: Fabric::Wired { interconnect, network }, .. }] = cluster.pools.as_slice() else {
        let kinds = format!("`{}` has {} kinds of machines", cluster.instance, cluster.pools.len());
        return Err(Invalid::inside("--instance", format!("{kinds}, but a sweep is fitted on machines of one kind"))
            .with_hint("describe the machines that were measured in a file of their own, under the same name"));
    };
    let mut reason = format!("its rows name other machines than `{}` and `{name}`", cluster.instance);
    let mut rows = Vec::new();
    for SweepRow { measured, .. } in sweep.rows.iter().filter(|row| row.is_of(&[&cluster.instance, name])) {
        let completed = measured.complete_on(cluster, catalog);
        match completed.and_then(|completed| observation(measured.clone(), completed)) {
            Ok(observation) => rows.push(observation),
            Err(why) => reason = why,
        }
    }
    if rows.is_empty() {
        return Err(useless(&sweep.file, &format!("`{}`", cluster.instance), &reason));
    }
    let fabric = MeasuredFabric {
        name: name.clone(),
        transport: Some(network.transport),
        interconnect: interconnect.clone(),
        messaging: network.messaging.clone(),
    };
    Ok(fit(fabric, &rows, &sweep.file, date))
}

fn observation(measured: Measured, (cluster, bytes, seconds): (Cluster, u64, f64)) -> Result<Observation, String> {
    measured.predict(&cluster, bytes).map_err(|error| error.to_string())?;
    Ok(Observation { measured, cluster, bytes, seconds })
}

/// The fabric of a machine type of the catalog as it is.
fn known(machine: &str, catalog: &Catalog) -> MeasuredFabric {
    let known = catalog.machine_types().find(|known| known.name == machine).expect("rows are of known machine types");
    let Instance { name, interconnect, network, .. } = known.clone();
    MeasuredFabric { name, transport: None, interconnect, messaging: network.messaging }
}

fn fit(mut fabric: MeasuredFabric, rows: &[Observation], file: &str, date: &str) -> FabricFit {
    let all: Vec<&Observation> = rows.iter().collect();
    let problem = Problem::new(&fabric, &all);
    let solution = problem.solve();
    let deviations = problem.deviations(&solution);
    let values: Vec<f64> = solution.iter().map(|value| value.exp()).collect();
    let mut constants = Vec::new();
    for (index, constant) in problem.constants.iter().enumerate() {
        let rows = problem.rows_of(index, &solution);
        let fit = Fitted {
            on: format!("{rows} collectives of {file}"),
            rows,
            date: date.into(),
            deviation: deviations[index],
        };
        let fitted = FittedConstant {
            fabric: fabric.name.clone(),
            name: constant.name(),
            before: constant.get(&fabric),
            after: values[index],
            deviation: deviations[index],
            rows,
        };
        if !fitted.is_taught() {
            continue;
        }
        constants.push(fitted);
        constant.set(&mut fabric.messaging, &mut fabric.interconnect, values[index], Some(&fit));
    }
    let before: Vec<f64> = problem.before.iter().map(|value| value.exp()).collect();
    FabricFit {
        fabric,
        constants,
        rows: rows.len(),
        before: error(&problem.residuals(&before)),
        after: error(&problem.residuals(&values)),
        cross_validated: cross_validated(&problem),
    }
}

/// Mean absolute error of some logarithms of predicted over measured.
fn error(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| (residual.exp() - 1.0).abs()).sum::<f64>() / residuals.len().max(1) as f64
}

/// The error where each decade of sizes is left out in turn.
fn cross_validated(problem: &Problem<'_>) -> Option<f64> {
    let decade = |row: &&Observation| row.bytes.ilog10();
    let decades: BTreeSet<u32> = problem.rows.iter().map(decade).collect();
    if decades.len() < 2 {
        return None;
    }
    let mut residuals = Vec::new();
    for left_out in decades {
        let (outside, inside): (Vec<&Observation>, Vec<&Observation>) =
            problem.rows.iter().partition(|row| decade(row) == left_out);
        let rest = Problem { rows: inside, ..problem.clone() };
        let values: Vec<f64> = rest.solve().iter().map(|value| value.exp()).collect();
        residuals.extend(outside.iter().map(|row| row.residual(&problem.constants, &values)));
    }
    Some(error(&residuals))
}

/// Constants that some rows teach, and what was believed of them.
#[derive(Clone)]
struct Problem<'a> {
    constants: Vec<Constant>,
    /// Logarithms of their present values.
    before: Vec<f64>,
    rows: Vec<&'a Observation>,
}

impl<'a> Problem<'a> {
    /// The constants that change some row's prediction.
    fn new(fabric: &MeasuredFabric, rows: &[&'a Observation]) -> Self {
        // Between machines a little more inside them cannot be told from a little more between them.
        let stays = rows.iter().any(|row| row.cluster.machines() == 1);
        let felt = |constant: &Constant| {
            if !stays && matches!(constant, Constant::Inside | Constant::Link) {
                return false;
            }
            let value = constant.get(fabric);
            let slope = |row: &&&Observation| {
                let at = |value: f64| row.residual(&[*constant], &[value]);
                ((at(value * 1.1) - at(value / 1.1)) / (2.0 * 1.1_f64.ln())).abs() > SILENT
            };
            rows.iter().any(|row| slope(&row))
        };
        let constants: Vec<Constant> = Constant::ALL.into_iter().filter(felt).collect();
        let before = constants.iter().map(|constant| constant.get(fabric).ln()).collect();
        Self { constants, before, rows: rows.to_vec() }
    }

    fn residuals(&self, values: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| row.residual(&self.constants, values)).collect()
    }

    /// Minus the logarithm of the likelihood, up to a constant: rows are off by `noise`, beyond which residuals count
    /// by their size rather than by their square, and values by their spread. Outside its bounds a value costs more the
    /// farther it is.
    fn objective(&self, logarithms: &[f64], noise: f64) -> f64 {
        let mut cost = 0.0;
        let mut values = Vec::with_capacity(logarithms.len());
        for ((constant, logarithm), before) in self.constants.iter().zip(logarithms).zip(&self.before) {
            let (low, high) = constant.bounds();
            let inside = logarithm.clamp(low.ln(), high.ln());
            cost += 0.5 * ((logarithm - before) / constant.spread()).powi(2) + 1e4 * (logarithm - inside).powi(2);
            values.push(inside.exp());
        }
        let loss = |residual: &f64| (1.0 + (residual / noise).powi(2)).sqrt() - 1.0;
        cost + self.residuals(&values).iter().map(loss).sum::<f64>()
    }

    /// Logarithms of the most likely values.
    fn solve(&self) -> Vec<f64> {
        let mut best = self.before.clone();
        if best.is_empty() {
            return best;
        }
        let mut noise = NOISE;
        for _ in 0..ROUNDS {
            let moved = |index: usize| {
                let mut corner = best.clone();
                corner[index] += 0.4;
                corner
            };
            let simplex = std::iter::once(best.clone()).chain((0..best.len()).map(moved)).collect();
            let solver = NelderMead::new(simplex).with_sd_tolerance(1e-8).expect("the tolerance is positive");
            let iterations = ITERATIONS * best.len() as u64;
            let surrogate = Surrogate { problem: self, noise };
            let result = Executor::new(surrogate, solver).configure(|state| state.max_iters(iterations)).run();
            let found = result.ok().and_then(|result| result.state().get_best_param().cloned());
            let better = |found: &Vec<f64>| self.objective(found, noise) <= self.objective(&best, noise);
            best = found.filter(better).unwrap_or(best);
            let values: Vec<f64> = best.iter().map(|value| value.exp()).collect();
            let mut sizes: Vec<f64> = self.residuals(&values).iter().map(|residual| residual.abs()).collect();
            sizes.sort_by(f64::total_cmp);
            // A few rows that all fit say little of what others would.
            let freedom = sizes.len().saturating_sub(best.len());
            let median = sizes[sizes.len() / 2] / MEDIAN;
            let weight = freedom as f64 / (freedom as f64 + best.len() as f64);
            noise = (weight * median + (1.0 - weight) * NOISE).clamp(LEAST_NOISE, 3.0 * NOISE);
        }
        let bounded = |(constant, value): (&Constant, &f64)| {
            let (low, high) = constant.bounds();
            value.clamp(low.ln(), high.ln())
        };
        self.constants.iter().zip(&best).map(bounded).collect()
    }

    /// Change of each row's residual with each constant's logarithm: rows, then constants.
    fn slopes(&self, logarithms: &[f64]) -> Vec<Vec<f64>> {
        const STEP: f64 = 0.02;
        let values = |index: usize, by: f64| -> Vec<f64> {
            let moved = |(other, value): (usize, &f64)| (value + if other == index { by } else { 0.0 }).exp();
            logarithms.iter().enumerate().map(moved).collect()
        };
        let slope = |row: &&Observation, index: usize| {
            let at = |by| row.residual(&self.constants, &values(index, by));
            (at(STEP) - at(-STEP)) / (2.0 * STEP)
        };
        self.rows.iter().map(|row| (0..logarithms.len()).map(|index| slope(row, index)).collect()).collect()
    }

    /// Rows whose prediction depends on a constant.
    fn rows_of(&self, constant: usize, logarithms: &[f64]) -> u32 {
        self.slopes(logarithms).iter().filter(|row| row[constant].abs() > SILENT).count() as u32
    }

    /// Standard errors of the logarithms, from how sharply the rows and the priors bend the objective.
    fn deviations(&self, logarithms: &[f64]) -> Vec<f64> {
        let values: Vec<f64> = logarithms.iter().map(|value| value.exp()).collect();
        let residuals = self.residuals(&values);
        let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let freedom = (residuals.len() as f64 - values.len() as f64).max(1.0);
        let variance = (squares / freedom).max(1e-6);
        let slopes = self.slopes(logarithms);
        let mut curvature: Vec<Vec<f64>> = (0..values.len())
            .map(|a| {
                (0..values.len()).map(|b| slopes.iter().map(|row| row[a] * row[b]).sum::<f64>() / variance).collect()
            })
            .collect();
        for (index, constant) in self.constants.iter().enumerate() {
            curvature[index][index] += constant.spread().powi(-2);
        }
        inverse_diagonal(curvature).into_iter().map(f64::sqrt).collect()
    }
}

/// A problem for the minimiser.
struct Surrogate<'a> {
    problem: &'a Problem<'a>,
    noise: f64,
}

impl CostFunction for Surrogate<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, logarithms: &Self::Param) -> Result<f64, Error> {
        Ok(self.problem.objective(logarithms, self.noise))
    }
}
