//! Constants that stand before the catalog reach every plan and prediction, and the plan document names them.

use crate::common::{self, limits, refused};
use trainyard_hardware_profiles::{Constants, Stack, catalog};
use trainyard_plan::JobSpec;
use trainyard_plan::document::PlanDocument;
use trainyard_planner::{MachineFiles, Problem, Resources, problem, recommend, resimulate};
use trainyard_sim::Options;
use trainyard_units::Seconds;

fn job() -> JobSpec {
    let mut job = common::job("gpt2", 64, &["p3.2xlarge"], 2);
    (job.data.tokens, job.cluster.stack) = (Some(1e9), Some("pytorch".into()));
    job
}

/// A stack of some name that takes four times as long as `pytorch` to launch a kernel.
fn slow(name: &str) -> Constants {
    let mut stack = Stack::clone(catalog().stack("pytorch").expect("in the catalog"));
    (stack.name, stack.launch.value) = (name.into(), stack.launch.value * 4.0);
    Constants::new("slow", Vec::new(), Vec::new(), vec![stack]).expect("in bounds")
}

fn asked(constants: Option<Constants>) -> Problem {
    let constants_path = constants.as_ref().map(|_| "../slow.toml".to_owned());
    problem(&job(), Resources { constants, constants_path, ..Resources::default() }).expect("a solvable job")
}

fn plan(problem: &Problem) -> PlanDocument {
    recommend(problem, &limits::<&str>(&[], 1), &job()).expect("a plan")
}

#[test]
fn a_plan_rests_on_the_constants_and_says_so() {
    let (plain, slowed) = (plan(&asked(None)), plan(&asked(Some(slow("pytorch")))));
    assert!(slowed.prediction.time_s > plain.prediction.time_s);
    assert_eq!(slowed.plan.cluster.constants.as_deref(), Some("../slow.toml"));
    assert_eq!(plain.plan.cluster.constants, None);
    let files = MachineFiles { constants: Some(slow("pytorch")), ..MachineFiles::default() };
    let (again, _) = resimulate(&slowed, files, Options::default()).expect("the constants are at hand");
    assert_eq!(again, slowed);
    let error = resimulate(&slowed, MachineFiles::default(), Options::default()).expect_err("they are not");
    assert!(error.field() == "plan.cluster.constants" && error.hint().is_some());
    assert!(error.to_string().contains("`../slow.toml`"), "{error}");
}

#[test]
fn a_stack_that_only_the_constants_have_can_be_asked_for() {
    let mut named = job();
    named.cluster.stack = Some("mine".into());
    let resources = Resources { constants: Some(slow("mine")), ..Resources::default() };
    assert!(problem(&named, resources).is_ok());
    let error = refused(&named);
    assert_eq!(error.invalid().field(), "cluster.stack");
    named.cluster.constants = Some("mine.toml".into());
    let error = refused(&named);
    assert!(error.to_string().starts_with("`cluster.constants` is missing"), "{error}");
}

#[test]
fn other_constants_may_be_tried_on_a_plan_of_the_catalog() {
    let document = plan(&asked(None));
    let files = MachineFiles { constants: Some(slow("pytorch")), ..MachineFiles::default() };
    let (other, outcome) = resimulate(&document, files, Options::default()).expect("a plan of the catalog");
    assert!(outcome.step_time > Seconds(document.prediction.step_time_s) && other.plan == document.plan);
}
