//! Errors of many rows summed up while the rows pass by.

use crate::document::{RowResult, SuiteResult};
use crate::table::Row;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Lines that are told of rows with the same reason.
const LINES_TOLD: usize = 5;

/// Why some rows have no prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// In words.
    pub reason: String,
    /// How many rows.
    pub rows: u64,
    /// The lines of the first of them.
    pub lines: Vec<u64>,
}

/// A plan of a row, and the work and machines for which it is one of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    work: u64,
    plan: u64,
}

impl Choice {
    /// That of a row which states its whole plan.
    pub(crate) fn of(row: &Row) -> Option<Self> {
        let stated = [row.dp, row.tp, row.pp].iter().all(Option::is_some) && row.micro_batch.is_some();
        let work = (
            (&row.suite, &row.system, &row.model, row.layers, row.hidden, row.seq_len),
            (row.global_batch, row.nodes, row.gpus_per_node, &row.stack, &row.precision),
            (row.zero_stage, row.recompute),
        );
        let plan = ((row.dp, row.tp, row.pp, row.cp, row.ep), row.micro_batch, row.schedule, row.virtual_stages);
        stated.then(|| Self { work: digest(&work), plan: digest(&plan) })
    }
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Plans for the same work on the same machines.
#[derive(Debug, Default)]
struct Group {
    /// Digest of the plan, predicted and measured seconds.
    plans: Vec<(u64, f64, f64)>,
}

impl Group {
    /// Measured time of the plan predicted fastest over that of the fastest, minus one; nothing for fewer than three
    /// plans, among which there is little to choose.
    fn regret(&self) -> Option<f64> {
        let mut plans: Vec<u64> = self.plans.iter().map(|(plan, ..)| *plan).collect();
        plans.sort_unstable();
        plans.dedup();
        let chosen = self.plans.iter().min_by(|a, b| a.1.total_cmp(&b.1))?.2;
        let best = self.plans.iter().map(|(.., measured)| *measured).min_by(f64::total_cmp)?;
        (plans.len() >= 3).then_some(chosen / best - 1.0)
    }
}

/// The rows of a suite, as far as they are kept: a few numbers each.
#[derive(Debug, Default)]
struct Suite {
    rows: usize,
    errors: Vec<f64>,
    held: usize,
    /// In the order in which they were first met.
    groups: Vec<Group>,
    places: BTreeMap<u64, usize>,
}

impl Suite {
    fn add(&mut self, row: &RowResult, choice: Option<Choice>) {
        self.rows += 1;
        let (Some(predicted), Some(measured), Some(error)) =
            (row.predicted_step_time_s, row.measured_step_time_s, row.error)
        else {
            return;
        };
        self.errors.push(error);
        self.held += usize::from(row.interval_s.is_some_and(|[low, high]| (low..=high).contains(&measured)));
        if let Some(Choice { work, plan }) = choice {
            let place = *self.places.entry(work).or_insert(self.groups.len());
            if place == self.groups.len() {
                self.groups.push(Group::default());
            }
            self.groups[place].plans.push((plan, predicted, measured));
        }
    }
}

/// The sum of all rows so far, suite by suite.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    suites: BTreeMap<String, Suite>,
    reasons: BTreeMap<String, (u64, Vec<u64>)>,
}

impl Summary {
    /// Adds a row; `line` is told beside its reason, and a row without one has its reason told elsewhere.
    pub(crate) fn add(&mut self, line: Option<u64>, row: &RowResult, choice: Option<Choice>) {
        if !self.suites.contains_key(&row.suite) {
            self.suites.insert(row.suite.clone(), Suite::default());
        }
        self.suites.get_mut(&row.suite).expect("it was put there").add(row, choice);
        if let (Some(reason), Some(line)) = (&row.reason, line) {
            let (rows, lines) = self.reasons.entry(reason.clone()).or_default();
            *rows += 1;
            if lines.len() < LINES_TOLD {
                lines.push(line);
            }
        }
    }

    /// Every suite by name, then `*` for all rows.
    pub(crate) fn suites(&self) -> Vec<SuiteResult> {
        let own = self.suites.iter().map(|(name, suite)| result(name, &[suite]));
        let all: Vec<&Suite> = self.suites.values().collect();
        own.chain([result("*", &all)]).collect()
    }

    /// Why rows have no prediction, the most frequent reason first.
    pub(crate) fn reasons(&self) -> Vec<Reason> {
        let told = self.reasons.iter();
        let mut reasons: Vec<Reason> = told
            .map(|(reason, (rows, lines))| Reason { reason: reason.clone(), rows: *rows, lines: lines.clone() })
            .collect();
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.rows));
        reasons
    }
}

fn result(name: &str, suites: &[&Suite]) -> SuiteResult {
    let errors: Vec<f64> = suites.iter().flat_map(|suite| suite.errors.iter().copied()).collect();
    let absolute: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let held: usize = suites.iter().map(|suite| suite.held).sum();
    let regrets: Vec<f64> = suites.iter().flat_map(|suite| suite.groups.iter().filter_map(Group::regret)).collect();
    SuiteResult {
        suite: name.into(),
        rows: suites.iter().map(|suite| suite.rows).sum(),
        predicted: errors.len(),
        mape: mean(&absolute),
        median: median(absolute),
        bias: mean(&errors),
        coverage90: (!errors.is_empty()).then(|| held as f64 / errors.len() as f64),
        regret: mean(&regrets),
        regret_max: regrets.into_iter().max_by(f64::total_cmp),
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The middle value, or the mean of the two in the middle; nothing for none.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summed(rows: &[(f64, f64, u64)]) -> SuiteResult {
        let mut summary = Summary::default();
        for (line, (predicted, measured, plan)) in (2..).zip(rows) {
            let row = RowResult::scored("row", "mine", *predicted, [0.9 * predicted, 1.1 * predicted], *measured);
            summary.add(Some(line), &row, Some(Choice { work: 1, plan: *plan }));
        }
        summary.suites().remove(0)
    }

    #[test]
    fn errors_are_summed_up_as_they_are_defined() {
        let suite = summed(&[(1.2, 1.0, 1), (0.9, 1.0, 2), (1.0, 1.0, 3), (1.05, 1.0, 4)]);
        let near = |value: Option<f64>, wanted: f64| value.is_some_and(|value| (value - wanted).abs() < 1e-12);
        assert!(near(suite.mape, 0.35 / 4.0) && near(suite.bias, 0.15 / 4.0) && near(suite.median, 0.075));
        // 1.0 lies within a tenth of 1.0 and 1.05, and outside 1.08 to 1.32 and 0.81 to 0.99.
        assert!(near(suite.coverage90, 0.5));
    }

    #[test]
    fn regret_is_what_the_choice_by_prediction_costs() {
        let near = |value: Option<f64>, wanted: f64| value.is_some_and(|value| (value - wanted).abs() < 1e-12);
        let wrong = summed(&[(1.0, 3.0, 1), (2.0, 2.0, 2), (3.0, 4.0, 3)]);
        assert!(near(wrong.regret, 0.5) && near(wrong.regret_max, 0.5));
        assert!(near(summed(&[(1.0, 1.0, 1), (2.0, 2.0, 2), (3.0, 4.0, 3)]).regret, 0.0));
        // The same plan measured three times is no choice.
        assert_eq!(summed(&[(1.0, 3.0, 1), (1.0, 2.0, 1), (1.0, 4.0, 1)]).regret, None);
    }

    #[test]
    fn reasons_are_counted_with_their_first_lines() {
        let mut summary = Summary::default();
        for line in 2..20 {
            let reason = if line == 7 { "rare" } else { "frequent" };
            summary.add(Some(line), &RowResult::unsupported("row", "mine", None, reason.into()), None);
        }
        let [frequent, rare] = &summary.reasons()[..] else { panic!("two reasons: {:?}", summary.reasons()) };
        assert_eq!((frequent.rows, frequent.lines.as_slice()), (17, &[2, 3, 4, 5, 6][..]));
        assert_eq!((rare.rows, rare.lines.as_slice()), (1, &[7][..]));
    }
}
