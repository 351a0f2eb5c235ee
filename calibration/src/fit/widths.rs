//! Widths of intervals, by what left-out rows say of each reason why predictions are off.
//!
//! Residuals of groups that the fit had not seen are taken as draws from a Student distribution whose variance is the
//! sum of the terms of `interval`, each with a width of its own. The widths are the most likely ones, near those in use
//! where few rows have the term, and all of them are then stretched until nine in ten residuals are inside.

use super::document::TermWidth;
use super::observation::{Grouping, Observation};
use crate::interval::{NORMAL_95, STACK, Term, UNMEASURED_STACK, around, in_use, terms};
use argmin::core::{CostFunction, Error, Executor, State};
use argmin::solver::neldermead::NelderMead;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use trainyard_hardware_profiles::Stack;
use trainyard_plan::Plan;
use trainyard_sim::{Machine, Outcome};
use trainyard_units::Seconds;

/// Degrees of freedom of a residual: tails as heavy as published tables have.
const FREEDOM: f64 = 5.0;

/// Standard deviation of the logarithm of a width before anything is known of it.
const PRIOR: f64 = 0.7;

/// The 95th percentile of that distribution.
const STUDENT_95: f64 = 2.015;

/// The share of residuals that intervals shall hold.
pub(super) const NINE_TENTHS: f64 = 0.9;

/// A stack that nobody measured is as unsure as so many groups of rows with its width would make it.
const PRIOR_GROUPS: f64 = 0.5;

/// Where the search for what stacks have in common starts.
const COMMON_STACK: f64 = 0.1;

/// The least half-width of a stack, a stated default: what is left after repeating a plan.
const LEAST: f64 = 0.02;

/// A step as its interval sees it.
#[derive(Clone, Debug)]
pub(crate) struct Simulated {
    terms: Vec<Term>,
    in_use: Vec<Term>,
}

impl Simulated {
    pub(crate) fn of(observation: &Observation, machine: &Machine) -> Self {
        let outcome = observation.outcome(machine);
        let of = |which: fn(&Plan, &Machine, &Outcome) -> Vec<Term>| {
            outcome.as_ref().map_or_else(Vec::new, |outcome| which(&observation.plan, machine, outcome))
        };
        Self { terms: of(terms), in_use: of(in_use) }
    }

    fn variance(&self, widths: &BTreeMap<&str, f64>) -> f64 {
        let own = |term: &Term| Term { half_width: *widths.get(term.name).unwrap_or(&term.half_width), ..*term };
        self.terms.iter().map(|term| own(term).variance()).sum()
    }

    /// Tells whether the interval in use holds a residual.
    fn holds(&self, residual: f64) -> bool {
        let [low, high] = around(Seconds(1.0), &self.in_use);
        (low.ln()..=high.ln()).contains(&residual)
    }
}

/// The width of a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackWidth {
    pub half_width: f64,
    pub rows: usize,
    pub deviation: f64,
}

/// The widths that left-out rows ask for.
#[derive(Clone, Debug)]
pub(crate) struct Widths {
    pub terms: Vec<TermWidth>,
    pub stacks: BTreeMap<String, StackWidth>,
    pub coverage: Option<f64>,
}

/// Rows with their left-out residuals; each residual counts as one over how many its row has.
struct Evidence<'a> {
    rows: Vec<(&'a Simulated, &'a [f64])>,
    names: Vec<&'static str>,
    present: Vec<f64>,
}

impl Evidence<'_> {
    fn widths<'b>(&'b self, logarithms: &[f64]) -> BTreeMap<&'b str, f64> {
        self.names.iter().copied().zip(logarithms.iter().map(|own| own.exp())).collect()
    }

    /// The share of residuals that would be inside with these widths, every width times a factor.
    fn coverage(&self, widths: &BTreeMap<&str, f64>, factor: f64) -> f64 {
        let (mut held, mut all) = (0.0, 0.0);
        for (row, residuals) in &self.rows {
            let half = NORMAL_95 * row.variance(widths).sqrt() * factor;
            let inside = residuals.iter().filter(|residual| residual.abs() <= half).count();
            held += inside as f64 / residuals.len() as f64;
            all += 1.0;
        }
        held / all
    }
}

impl CostFunction for Evidence<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, logarithms: &Vec<f64>) -> Result<f64, Error> {
        let widths = self.widths(logarithms);
        let unlikely: f64 = self
            .rows
            .iter()
            .map(|(row, residuals)| {
                // The scale whose distribution has the normal's 90 % interval.
                let variance = row.variance(&widths) * (NORMAL_95 / STUDENT_95).powi(2);
                let each = |residual: &f64| (FREEDOM + 1.0) * (1.0 + residual * residual / variance / FREEDOM).ln();
                0.5 * (variance.ln() + residuals.iter().map(each).sum::<f64>() / residuals.len() as f64)
            })
            .sum();
        let before = logarithms.iter().zip(&self.present);
        let before: f64 = before.map(|(own, present)| ((own - present.ln()) / PRIOR).powi(2) / 2.0).sum();
        Ok(unlikely + before)
    }
}

/// The widths that residuals of left-out rows ask for.
pub(crate) fn widths(
    observations: &[Observation],
    simulated: &[Simulated],
    residuals: &[Vec<f64>],
    default: &Stack,
) -> Widths {
    let rows: Vec<(&Simulated, &[f64])> = simulated
        .iter()
        .zip(residuals)
        .filter(|(_, residuals)| !residuals.is_empty())
        .map(|(row, residuals)| (row, residuals.as_slice()))
        .collect();
    let mut present: BTreeMap<&'static str, f64> = BTreeMap::new();
    for term in simulated.iter().flat_map(|row| &row.terms).filter(|term| term.half_width > 0.0) {
        // Stacks have widths of their own; what they have in common is told from what all rows have.
        present.insert(term.name, if term.name == STACK { COMMON_STACK } else { term.half_width });
    }
    let (names, present) = present.into_iter().unzip();
    let evidence = Evidence { rows, names, present };
    let fitted = likely(&evidence);
    let factor = stretch(&evidence, &evidence.widths(&fitted));
    let fitted: Vec<f64> = fitted.iter().map(|own| own + factor.ln()).collect();
    let mut terms = terms_told(&evidence, &fitted);
    terms.push(unmeasured(observations, simulated, default));
    Widths { terms, stacks: stacks(observations, simulated, residuals), coverage: held(&evidence.rows, |_| true) }
}

/// The width of a stack that nobody measured: the width with which nine in ten steps are inside if all of them are
/// predicted with the stated default instead of their own stack.
fn unmeasured(observations: &[Observation], simulated: &[Simulated], default: &Stack) -> TermWidth {
    let residuals: Vec<Vec<f64>> = observations
        .par_iter()
        .map(|seen| {
            let machine = Machine { stack: Arc::new(default.clone()), ..seen.machine.clone() };
            seen.residual(&machine).into_iter().collect()
        })
        .collect();
    let rows: Vec<(&Simulated, &[f64])> = simulated.iter().zip(residuals.iter().map(Vec::as_slice)).collect();
    let rows: Vec<(&Simulated, &[f64])> = rows.into_iter().filter(|(_, own)| !own.is_empty()).collect();
    let inside = |half_width: f64| share_inside(&rows, half_width);
    TermWidth {
        term: UNMEASURED_STACK.name.into(),
        rows: rows.len(),
        present: UNMEASURED_STACK.half_width,
        fitted: least_width(&inside),
        coverage90: inside(UNMEASURED_STACK.half_width),
    }
}

/// The share of residuals inside if the stack's own term, or that of a default in its place, has this half-width.
fn share_inside(rows: &[(&Simulated, &[f64])], half_width: f64) -> f64 {
    let widths = BTreeMap::from([(STACK, half_width), (UNMEASURED_STACK.name, half_width)]);
    let inside = |(row, residuals): &(&Simulated, &[f64])| {
        let half = NORMAL_95 * row.variance(&widths).sqrt();
        residuals.iter().filter(|residual| residual.abs() <= half).count() as f64 / residuals.len() as f64
    };
    rows.iter().map(inside).sum::<f64>() / rows.len() as f64
}

/// The least half-width with which nine in ten are inside.
fn least_width(inside: &dyn Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (LEAST, 3.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if inside(middle) < NINE_TENTHS { low = middle } else { high = middle }
    }
    high
}

/// The most likely logarithms of widths.
fn likely(evidence: &Evidence<'_>) -> Vec<f64> {
    let start: Vec<f64> = evidence.present.iter().map(|own| own.ln()).collect();
    let corner = |index: usize| {
        let mut corner = start.clone();
        corner[index] += 0.3;
        corner
    };
    let simplex: Vec<Vec<f64>> = std::iter::once(start.clone()).chain((0..start.len()).map(corner)).collect();
    let copy =
        Evidence { rows: evidence.rows.clone(), names: evidence.names.clone(), present: evidence.present.clone() };
    let run = NelderMead::new(simplex)
        .with_sd_tolerance(1e-4)
        .map(|solver| Executor::new(copy, solver).configure(|state| state.max_iters(2000)).run());
    let best = run.ok().and_then(Result::ok).and_then(|run| run.state().get_best_param().cloned());
    best.unwrap_or(start)
}

/// The factor for all widths with which nine in ten residuals are inside.
fn stretch(evidence: &Evidence<'_>, widths: &BTreeMap<&str, f64>) -> f64 {
    let (mut low, mut high) = (0.2, 5.0);
    for _ in 0..40 {
        let middle = f64::sqrt(low * high);
        if evidence.coverage(widths, middle) < NINE_TENTHS { low = middle } else { high = middle }
    }
    high
}

fn terms_told(evidence: &Evidence<'_>, fitted: &[f64]) -> Vec<TermWidth> {
    let each = evidence.names.iter().zip(&evidence.present).zip(fitted);
    each.map(|((name, present), fitted)| {
        let has = |row: &Simulated| row.terms.iter().any(|term| term.name == *name && term.share > 0.05);
        TermWidth {
            term: (*name).into(),
            rows: evidence.rows.iter().filter(|(row, _)| has(row)).count(),
            present: *present,
            fitted: fitted.exp(),
            coverage90: held(&evidence.rows, has).unwrap_or(1.0),
        }
    })
    .collect()
}

/// The share of rows whose present interval holds their residuals.
fn held(rows: &[(&Simulated, &[f64])], filter: impl Fn(&Simulated) -> bool) -> Option<f64> {
    let own: Vec<f64> = rows
        .iter()
        .filter(|(row, _)| filter(row))
        .map(|(row, residuals)| {
            residuals.iter().filter(|residual| row.holds(**residual)).count() as f64 / residuals.len() as f64
        })
        .collect();
    (!own.is_empty()).then(|| own.iter().sum::<f64>() / own.len() as f64)
}

/// For each stack the half-width that its left-out rows ask for besides all other terms.
fn stacks(
    observations: &[Observation],
    simulated: &[Simulated],
    residuals: &[Vec<f64>],
) -> BTreeMap<String, StackWidth> {
    let names: BTreeSet<&str> = observations.iter().map(Observation::stack).collect();
    let of = |name: &&str| {
        let rows: Vec<(&Simulated, &[f64])> = observations
            .iter()
            .zip(simulated.iter().zip(residuals))
            .filter(|(seen, (_, residuals))| seen.stack() == *name && !residuals.is_empty())
            .map(|(_, (row, residuals))| (row, residuals.as_slice()))
            .collect();
        let own = observations.iter().filter(|seen| seen.stack() == *name);
        let groups: BTreeSet<[&str; 2]> =
            own.map(|seen| [seen.group(Grouping::Model), seen.group(Grouping::Scale)]).collect();
        (!rows.is_empty()).then(|| stack_width(&rows, groups.len()))
    };
    names.iter().filter_map(|name| Some(((*name).to_owned(), of(name)?))).collect()
}

/// The least width with which nine in ten of a stack's residuals are inside, and as much of that of a stack that nobody
/// measured as few groups leave.
fn stack_width(rows: &[(&Simulated, &[f64])], groups: usize) -> StackWidth {
    let high = least_width(&|half_width| share_inside(rows, half_width));
    let groups = groups as f64;
    let prior = PRIOR_GROUPS * UNMEASURED_STACK.half_width.powi(2);
    let half_width = ((prior + groups * high * high) / (PRIOR_GROUPS + groups)).sqrt();
    // The standard error of a standard deviation from so many draws.
    StackWidth { half_width, rows: rows.len(), deviation: (0.5 / (PRIOR_GROUPS + groups)).sqrt() }
}
