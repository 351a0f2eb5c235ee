//! The fit as a whole: which constants change, and what they are worth.

use super::cross;
use super::deviation::deviations;
use super::document::{ConstantChange, Errors, REFIT_SCHEMA, RefitDocument, StackErrors, SuiteErrors};
use super::fold::{Fold, folds};
use super::kinds;
use super::observation::{Observation, observations};
use super::passes::{fit, noise, told_apart};
use super::solve::Beliefs;
use super::unknown::{Linear, Of, Problem, Unknown, unknowns};
use super::widths::{Widths, widths};
use crate::table::{Entry, Row, read_measurements, unread_columns};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_hardware_profiles::{
    Catalog, Constants, DEFAULT_STACK, Fitted, Gpu, Publication, PublishedAs, Sourced, Stack,
};
use trainyard_units::Invalid;

/// A fit that does not lessen the error on left-out rows by this part is not worth other constants.
const WORTH: f64 = 0.005;

/// By this part a stack that keeps its constants may get worse because those of its GPU change.
const HARM: f64 = 0.002;

/// A constant that changes by less than this part stays what it is.
const CHANGE: f64 = 0.002;

/// Times that constants which do not help are held closer, and in the end put back, and all fitted again.
const ROUNDS: usize = 3;

/// Times that what still does not help, or harms others, is put back.
const LAST_ROUNDS: usize = 3;

/// The factor by which a constant that does not help is held closer to what it was.
const CLOSER: f64 = 0.35;

/// A response below this is none: the constant counts for nothing in the row.
const RESPONDS: f64 = 0.01;

/// The outcome of a fit.
#[derive(Clone, Debug)]
pub struct Refit {
    /// The entries to put in place of the present ones: with constants where others predict left-out rows better, and
    /// for every stack with the uncertainty that left-out rows ask for, even if all its constants stay. Nothing if no
    /// row was left out of anything.
    pub constants: Option<Constants>,
    /// The changes, and what they are worth.
    pub document: RefitDocument,
    /// What a user should check before the constants are used.
    pub warnings: Vec<String>,
}

/// Refits the constants of the stacks and GPUs of a table of step times, starting from those of `catalog`. `date` is
/// written beside the values. `told` hears what is being done.
///
/// # Errors
///
/// When the text is no table of step times, a cell cannot be read, or the simulator can express no row.
pub fn refit(
    text: &str,
    file: &str,
    catalog: &Catalog,
    date: &str,
    told: &mut dyn FnMut(&str),
) -> Result<Refit, Invalid> {
    let rows = rows(text, file)?;
    let (catalog, made) = with_stacks_of(&rows, catalog);
    told("simulating the rows");
    let (observations, refused) = observations(&rows, &catalog);
    let refused: Vec<String> = refused.into_iter().map(|(id, why)| format!("{id}: {why}")).collect();
    if observations.is_empty() {
        let first = refused.first().map(|reason| format!("; the first: {reason}")).unwrap_or_default();
        let problem = format!("none of its {} rows can be simulated{first}", rows.len());
        return Err(Invalid::inside(file, problem).with_hint("`trainyard validate` tells what each row lacks"));
    }
    let unknowns = unknowns(&observations, &catalog, &made);
    let fitting = Fitting::new(Problem::new(&observations, &unknowns), &catalog, told);
    let found = fitting.found(told);
    told("left-out rows");
    let judged = fitting.judged(&found);
    let mut refitted = fitting.refit(&found, &judged, refused, &made, date);
    if let Some(warning) = unread_columns(text, file)? {
        refitted.warnings.insert(0, warning);
    }
    Ok(refitted)
}

fn rows(text: &str, file: &str) -> Result<Vec<Row>, Invalid> {
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for entry in read_measurements(text, file)? {
        match entry {
            Entry::Row(row) => rows.push(*row),
            Entry::Malformed { error, .. } => wrong.push(error),
        }
    }
    let Some(first) = wrong.first() else { return Ok(rows) };
    let problem = format!("{} rows cannot be read; the first: {first}", wrong.len());
    Err(Invalid::inside(file, problem).with_hint("correct these cells, or leave the rows out"))
}

/// The catalog with a stack for each label that it does not know: the stated default under a name made of the label.
/// Their names besides.
fn with_stacks_of(rows: &[Row], catalog: &Catalog) -> (Catalog, BTreeSet<String>) {
    let default = catalog.stack(DEFAULT_STACK).expect("the default stack is in the catalog");
    let mut made: BTreeMap<&str, Stack> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.stack.is_empty()) {
        let publication = Publication {
            stack: &row.stack,
            version: &row.stack_version,
            generation: "",
            xla: row.xla,
            sequence_parallel: row.sequence_parallel,
            notes: &row.notes,
        };
        let known = |generation: &str| catalog.stack_published_as(Publication { generation, ..publication }).is_some();
        let anywhere = catalog.gpus().iter().any(|gpu| known(&gpu.generation));
        if !anywhere {
            let taken = |name: &str| catalog.stack(name).is_ok() || made.values().any(|stack| stack.name == name);
            let stack = stack_for(&row.stack, default, &taken);
            made.entry(&row.stack).or_insert(stack);
        }
    }
    let names = made.values().map(|stack| stack.name.clone()).collect();
    let stacks: Vec<Stack> = made.into_values().collect();
    match Constants::new("", Vec::new(), Vec::new(), stacks) {
        Ok(added) => (catalog.with(&added), names),
        // All labels are known.
        Err(_) => (catalog.clone(), BTreeSet::new()),
    }
}

fn stack_for(label: &str, default: &Stack, taken: &dyn Fn(&str) -> bool) -> Stack {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let mut name: String = label.chars().map(plain).collect();
    while taken(&name) {
        name.push_str("-measured");
    }
    let label = PublishedAs { stack: label.into(), ..PublishedAs::default() };
    let description = format!("{} as it was measured", label.stack);
    Stack { name, description, published_as: vec![label], ..default.clone() }
}

/// The fit of some observations.
struct Fitting<'a> {
    problem: Problem<'a>,
    catalog: &'a Catalog,
    start: Linear,
    beliefs: Beliefs,
    folds: Vec<Fold>,
}

/// Constants that were found, with how steps respond there.
struct Found {
    linear: Linear,
    beliefs: Beliefs,
}

/// The quality of predictions of left-out rows, each in the folds that leave it out.
struct Judged {
    left_out: Vec<Vec<f64>>,
    unseen: Vec<Vec<f64>>,
    deviations: Vec<f64>,
}

impl<'a> Fitting<'a> {
    fn new(problem: Problem<'a>, catalog: &'a Catalog, told: &mut dyn FnMut(&str)) -> Self {
        let values: Vec<f64> = problem.unknowns.iter().map(|unknown| unknown.start).collect();
        told("how steps respond to constants");
        let start = problem.linear(&values, None);
        let noise = noise(problem.observations, None);
        let free = vec![true; values.len()];
        let spread = problem.unknowns.iter().map(|unknown| unknown.spread).collect();
        let mut beliefs = Beliefs { noise, centre: values, spread, free };
        beliefs.free = told_apart(problem.unknowns, &deviations(&start, &beliefs));
        let folds = folds(problem.observations);
        Self { problem, catalog, start, beliefs, folds }
    }

    /// The constants that help left-out rows, fitted; the others as they were. Those that do not help are first held
    /// closer to what they were.
    fn found(&self, told: &mut dyn FnMut(&str)) -> Found {
        let mut beliefs = self.beliefs.clone();
        let mut linear = self.start.clone();
        for round in 1..=ROUNDS + LAST_ROUNDS {
            linear = fit(&self.problem, linear, &beliefs, round == 1, &mut |pass| {
                told(&format!("round {round}, pass {}", pass + 1));
            });
            // How much is left unexplained is known only once constants are near.
            beliefs.noise = noise(self.problem.observations, Some(&linear.residuals));
            let residuals = cross::residuals(&self.problem, &linear, &beliefs, &self.folds);
            let idle = self.idle(&beliefs.free, &residuals);
            if !idle.contains(&true) {
                return Found { linear, beliefs };
            }
            for (index, _) in idle.iter().enumerate().filter(|(_, idle)| **idle) {
                beliefs.spread[index] *= CLOSER;
                beliefs.free[index] = round < ROUNDS;
            }
            linear = self.put_back(&linear, &beliefs.free);
        }
        Found { linear, beliefs }
    }

    /// Marks the free constants of entries whose left-out rows are predicted no better than before.
    fn idle(&self, free: &[bool], residuals: &[Vec<f64>]) -> Vec<bool> {
        let mut idle = vec![false; free.len()];
        for names in self.entries(free) {
            let is_of = |seen: &Observation| names.iter().any(|name| name == seen.stack() || name == seen.gpu());
            if self.change_of_error(residuals, is_of) > -WORTH {
                for (index, unknown) in self.problem.unknowns.iter().enumerate() {
                    idle[index] |= free[index] && unknown.entries == names;
                }
            }
        }
        for index in self.harming(free, residuals) {
            idle[index] = true;
        }
        idle
    }

    /// The free constants of GPUs with which a stack that keeps its own constants is predicted worse than before.
    fn harming(&self, free: &[bool], residuals: &[Vec<f64>]) -> Vec<usize> {
        let observations = self.problem.observations;
        let kept: BTreeSet<&str> = observations.iter().map(Observation::stack).collect();
        let changed = self.entries(free);
        let harmed = kept.into_iter().filter(|stack| {
            !changed.iter().any(|names| names.iter().any(|name| name == stack))
                && self.change_of_error(residuals, |seen| seen.stack() == *stack) > HARM
        });
        let gpus: BTreeSet<&str> = harmed
            .flat_map(|stack| observations.iter().filter(move |seen| seen.stack() == stack))
            .map(Observation::gpu)
            .collect();
        let unknowns = self.problem.unknowns.iter().enumerate().filter(|(index, own)| free[*index] && own.is_of_gpu());
        unknowns
            .filter(|(_, unknown)| unknown.entries.iter().any(|name| gpus.contains(name.as_str())))
            .map(|(index, _)| index)
            .collect()
    }

    /// By what part of itself the mean error of some observations changes when they are left out of the fit.
    fn change_of_error(&self, residuals: &[Vec<f64>], filter: impl Fn(&Observation) -> bool) -> f64 {
        let before: Vec<Vec<f64>> = self.start.residuals.iter().map(|residual| vec![*residual]).collect();
        let known = cross::error_of(self.problem.observations, &before, &filter).unwrap_or(0.0);
        let left_out = cross::error_of(self.problem.observations, residuals, &filter).unwrap_or(0.0);
        if known > 0.0 { left_out / known - 1.0 } else { left_out }
    }

    /// The point where what is not free is what it was before.
    fn put_back(&self, linear: &Linear, free: &[bool]) -> Linear {
        let present = self.problem.unknowns.iter().zip(&linear.at).zip(free);
        let at: Vec<f64> = present.map(|((unknown, at), free)| if *free { *at } else { unknown.start }).collect();
        let residuals = self.problem.residuals(&at);
        Linear { at, residuals, slopes: linear.slopes.clone() }
    }

    /// The entries, alone or tied, of which some constant is free.
    fn entries(&self, free: &[bool]) -> BTreeSet<Vec<String>> {
        let unknowns = self.problem.unknowns.iter().zip(free);
        unknowns.filter(|(_, free)| **free).map(|(unknown, _)| unknown.entries.clone()).collect()
    }

    fn judged(&self, found: &Found) -> Judged {
        let left_out = cross::residuals(&self.problem, &found.linear, &found.beliefs, &self.folds);
        let centre = cross::expected(self.problem.unknowns, self.catalog);
        let noise = found.beliefs.noise.clone();
        let ignorant = Beliefs { noise, centre, ..self.beliefs.clone() };
        let unseen = cross::residuals(&self.problem, &found.linear, &ignorant, &self.folds);
        let deviations = deviations(&found.linear, &found.beliefs);
        Judged { left_out, unseen, deviations }
    }

    fn refit(
        &self,
        found: &Found,
        judged: &Judged,
        unsupported: Vec<String>,
        made: &BTreeSet<String>,
        date: &str,
    ) -> Refit {
        let observations = self.problem.observations;
        let outcomes = self.outcomes(&found.linear.at);
        let default = self.catalog.stack(DEFAULT_STACK).expect("the default stack is in the catalog");
        let widths = widths(observations, &outcomes, &judged.unseen, default);
        let constants: Vec<ConstantChange> = self.changes(found, judged);
        let document = RefitDocument {
            schema: REFIT_SCHEMA.into(),
            rows: observations.len(),
            unsupported,
            stacks: self.stacks(found, judged),
            suites: self.suites(found, judged),
            constants,
            coverage90: widths.coverage,
            widths: widths.terms.clone(),
        };
        let constants = self.constants(found, judged, &widths, made, date);
        Refit { constants, document, warnings: self.implausible(found) }
    }

    fn outcomes(&self, values: &[f64]) -> Vec<super::widths::Simulated> {
        use rayon::prelude::*;
        let all = 0..self.problem.observations.len();
        all.into_par_iter()
            .map(|index| {
                let machine = self.problem.machine(index, values);
                super::widths::Simulated::of(&self.problem.observations[index], &machine)
            })
            .collect()
    }

    /// The constants that changed, by number, with their new values.
    fn changed(&self, found: &Found) -> Vec<(usize, f64)> {
        let unknowns = self.problem.unknowns.iter().enumerate().filter(|(index, _)| found.beliefs.free[*index]);
        let values = unknowns.map(|(index, unknown)| (index, unknown, found.linear.at[index]));
        let values = values.map(|(index, unknown, value)| (index, unknown, rounded(value.exp())));
        values
            .filter(|(_, unknown, value)| (value.ln() - unknown.start).abs() > CHANGE)
            .map(|(i, _, v)| (i, v))
            .collect()
    }

    /// Tells of constants that became what neither software nor hardware is.
    fn implausible(&self, found: &Found) -> Vec<String> {
        let warning = |(index, value): (usize, f64)| {
            let unknown = &self.problem.unknowns[index];
            let why = unknown.implausible(value)?;
            Some(format!(
                "`{}` was fitted as {why}, which is not plausible: the rows may state less than what was run; check their \
                 columns attention, precision, recompute and model before the constants are used",
                full_name(unknown)
            ))
        };
        self.changed(found).into_iter().filter_map(warning).collect()
    }

    /// Rows that respond to a constant.
    fn responding(&self, unknown: usize) -> usize {
        let responds = |slopes: &&Vec<(usize, f64)>| {
            slopes.iter().any(|(index, slope)| *index == unknown && slope.abs() > RESPONDS)
        };
        self.start.slopes.iter().filter(responds).count()
    }

    fn changes(&self, found: &Found, judged: &Judged) -> Vec<ConstantChange> {
        let change = |(index, after): (usize, f64)| ConstantChange {
            name: full_name(&self.problem.unknowns[index]),
            before: self.problem.unknowns[index].start.exp(),
            after,
            deviation: judged.deviations[index],
            rows: self.responding(index),
        };
        self.changed(found).into_iter().map(change).collect()
    }

    fn stacks(&self, found: &Found, judged: &Judged) -> Vec<StackErrors> {
        let mut called: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for seen in self.problem.observations {
            called.entry(seen.stack()).or_default().insert(&seen.label);
        }
        let of = |(name, labels): (&str, BTreeSet<&str>)| {
            let called = labels.into_iter().filter(|label| *label != name).map(Into::into).collect();
            StackErrors { called, ..self.errors(name, found, judged, |seen| seen.stack() == name) }
        };
        let mut all: Vec<StackErrors> = called.into_iter().map(of).collect();
        all.push(self.errors("*", found, judged, |_| true));
        all
    }

    fn suites(&self, found: &Found, judged: &Judged) -> Vec<SuiteErrors> {
        let names: BTreeSet<&str> = self.problem.observations.iter().map(|seen| seen.suite.as_str()).collect();
        let of = |name: &str| {
            let StackErrors { stack, rows, errors, .. } = self.errors(name, found, judged, |seen| seen.suite == name);
            SuiteErrors { suite: stack, rows, errors }
        };
        names.into_iter().map(of).collect()
    }

    fn errors(&self, name: &str, found: &Found, judged: &Judged, filter: impl Fn(&Observation) -> bool) -> StackErrors {
        let observations = self.problem.observations;
        let own = |residuals: &[f64]| {
            let own = observations.iter().zip(residuals).filter(|(seen, _)| filter(seen));
            cross::error(own.map(|(_, residual)| *residual)).unwrap_or(0.0)
        };
        let of_folds = |residuals: &[Vec<f64>]| cross::error_of(observations, residuals, &filter).unwrap_or(0.0);
        let changed = self.changed(found);
        StackErrors {
            stack: name.into(),
            called: Vec::new(),
            rows: observations.iter().filter(|seen| filter(seen)).count(),
            replaced: changed
                .iter()
                .any(|(index, _)| self.problem.unknowns[*index].entries.iter().any(|own| own == name)),
            errors: Errors {
                before: own(&self.start.residuals),
                after: own(&found.linear.residuals),
                left_out: of_folds(&judged.left_out),
                unseen: of_folds(&judged.unseen),
            },
        }
    }

    /// The entries that changed, with their new values.
    fn constants(
        &self,
        found: &Found,
        judged: &Judged,
        widths: &Widths,
        made: &BTreeSet<String>,
        date: &str,
    ) -> Option<Constants> {
        let mut gpus: BTreeMap<String, Gpu> = BTreeMap::new();
        let mut stacks: BTreeMap<String, Stack> = BTreeMap::new();
        let of_catalog = |name: &str| self.catalog.stack(name).map(|stack| Stack::clone(stack));
        for name in made {
            stacks.insert(name.clone(), of_catalog(name).expect("it was made"));
        }
        for (index, value) in self.changed(found) {
            let unknown = &self.problem.unknowns[index];
            let fitted = self.fitted(index, judged.deviations[index], date);
            for name in &unknown.entries {
                match unknown.of {
                    Of::Stack(parameter) => {
                        let own = || of_catalog(name).expect("unknowns are of the catalog");
                        parameter.set(stacks.entry(name.clone()).or_insert_with(own), value, &fitted);
                    }
                    Of::Gpu(parameter) => {
                        let own = || self.catalog.gpu(name).expect("unknowns are of the catalog").clone();
                        parameter.set(gpus.entry(name.clone()).or_insert_with(own), value, &fitted);
                    }
                }
            }
        }
        for (name, seen) in kinds::seen(self.problem.observations, &judged.unseen) {
            let own = || of_catalog(&name).expect("it was simulated");
            stacks.entry(name.clone()).or_insert_with(own).seen = seen;
        }
        for (name, width) in &widths.stacks {
            let own = || of_catalog(name).expect("it was simulated");
            let stack = stacks.entry(name.clone()).or_insert_with(own);
            let on = format!("step times of {} rows that were left out by model, scale or release", width.rows);
            let fitted = Fitted {
                on: on.clone(),
                rows: width.rows as u32,
                date: date.into(),
                deviation: rounded(width.deviation),
            };
            stack.uncertainty =
                Sourced::new(rounded(width.half_width), "nine in ten residuals of rows left out by group");
            stack.uncertainty.fitted = Some(Box::new(fitted));
        }
        let description = format!("refitted on {} step times, {date}", self.problem.observations.len());
        Constants::new(description, gpus.into_values().collect(), Vec::new(), stacks.into_values().collect()).ok()
    }

    /// On what a constant was fitted.
    fn fitted(&self, unknown: usize, deviation: f64, date: &str) -> Fitted {
        let rows = self.responding(unknown);
        let responding = self.problem.observations.iter().zip(&self.start.slopes);
        let responding = responding.filter(|(_, slopes)| slopes.iter().any(|(index, _)| *index == unknown));
        let (mut models, mut systems) = (BTreeSet::new(), BTreeSet::new());
        for (seen, _) in responding {
            models.insert(seen.plan.model().name().to_owned());
            systems.insert(seen.machine.cluster.instance.clone());
        }
        let on = format!("step times ({} on {})", listed(&models), listed(&systems));
        Fitted { on, rows: rows as u32, date: date.into(), deviation: rounded(deviation) }
    }
}

fn full_name(unknown: &Unknown) -> String {
    let (list, part) = if unknown.is_of_gpu() { ("gpus", ".achieved") } else { ("stacks", "") };
    format!("{list}.{}{part}.{}", unknown.entries.join("+"), unknown.name())
}

/// Three digits: no constant is known better.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().expect("a number reads back")
}

/// Some names, or how many there are.
fn listed(names: &BTreeSet<String>) -> String {
    const TOLD: usize = 3;
    let told: Vec<&str> = names.iter().take(TOLD).map(String::as_str).collect();
    let rest = names.len().saturating_sub(TOLD);
    if rest == 0 { told.join(", ") } else { format!("{} and {rest} more", told.join(", ")) }
}
