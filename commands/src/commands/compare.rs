//! `trainyard compare`: a plan's prediction beside the measurements of a run.

use super::comparison::comparison;
use super::runs::{MEASUREMENT, read_report};
use super::watch::METRICS;
use crate::arguments::CompareArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::plot;
use crate::read;
use serde_json::Value;
use std::collections::BTreeSet;
use trainyard_executor::RunReport;
use trainyard_plan::PlanSpec;
use trainyard_plan::document::{Files, PlanDocument};
use trainyard_reports as reports;

/// Refuses a run of another plan.
fn of_that_plan(document: &PlanDocument, report: &RunReport, arguments: &CompareArguments) -> Result<(), Failure> {
    let Ok(ran) = serde_json::from_value::<PlanDocument>(report.plan.clone()) else { return Ok(()) };
    // The path of a profile may be written in several ways.
    let there = PlanSpec { cluster: document.plan.cluster.clone(), ..ran.plan };
    if there == document.plan {
        return Ok(());
    }
    let (plan, run) = (arguments.plan.display(), arguments.run.display());
    Err(Failure::input(format!("`{run}` is not a run of `{plan}`"))
        .because(format!("they differ in {}", differences(&there, &document.plan).join("; ")))
        .hint("the plan of a run of `train` lies in its folder, as plan.json"))
}

/// Most fields in which two plans differ that are told, and letters of a value.
const TOLD: usize = 3;
const LETTERS: usize = 60;

/// Lists fields in which a run differs from a plan, with both values.
fn differences(run: &PlanSpec, plan: &PlanSpec) -> Vec<String> {
    let [run, plan] = [run, plan].map(|spec| serde_json::to_value(spec).unwrap_or_default());
    let mut all = Vec::new();
    collect(&mut all, "plan", &run, &plan);
    all.truncate(TOLD);
    all
}

fn collect(all: &mut Vec<String>, field: &str, run: &Value, plan: &Value) {
    match (run, plan) {
        (Value::Object(of_run), Value::Object(of_plan)) => {
            let keys: BTreeSet<&String> = of_run.keys().chain(of_plan.keys()).collect();
            for key in keys {
                collect(all, &format!("{field}.{key}"), &run[key], &plan[key]);
            }
        }
        (run, plan) if run != plan => {
            let told = |value: &Value| value.to_string().chars().take(LETTERS).collect::<String>();
            all.push(format!("`{field}`, {} in the run and {} in the plan", told(run), told(plan)));
        }
        _ => {}
    }
}

/// Compares a plan document with a run.
pub(crate) fn compare(arguments: &CompareArguments, output: &Output) -> Result<Exit, Failure> {
    let document = read::plan(&arguments.plan)?;
    let path = if arguments.run.is_dir() { arguments.run.join(MEASUREMENT) } else { arguments.run.clone() };
    if arguments.run.is_dir() && !path.exists() && arguments.run.join(METRICS).exists() {
        return Err(Failure::input(format!("the run in `{}` has not ended", arguments.run.display())).hint(
            "`trainyard run … --resume` goes on from its newest checkpoint; `metrics.jsonl` has its steps until now",
        ));
    }
    let report = read_report(&path)?;
    of_that_plan(&document, &report, arguments)?;
    let mut compared = comparison(&document, Some(&document.prediction), &report);
    compared.files = Files {
        plan: Some(arguments.plan.display().to_string()),
        measurement: path.display().to_string(),
        ..Files::default()
    };
    if let Some(note) = arguments.plot.write(|| reports::phases(&compared).map_err(plot::refused))? {
        output.note(note);
        compared.files.phases = arguments.plot.plot.as_ref().map(|path| path.display().to_string());
    }
    output.result(&compared, || reports::comparison(&compared, output.width()));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::{ClusterSpec, Optimizer};

    #[test]
    fn plans_differ_in_fields_with_both_values() {
        let model = trainyard_models::find("gpt2").expect("in the catalog").model.spec();
        let one = PlanSpec::plain(model, ClusterSpec::of("p3.2xlarge", 1), 14);
        assert!(differences(&one, &one).is_empty());
        let mut other = PlanSpec { optimizer: Optimizer::Sgd, ..one.clone() };
        other.batch.micro = 3;
        let told = [
            "`plan.batch.micro`, 1 in the run and 3 in the plan",
            "`plan.optimizer`, \"adamw\" in the run and \"sgd\" in the plan",
        ];
        assert_eq!(differences(&one, &other), told);
    }
}
