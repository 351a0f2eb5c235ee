//! Each sentence with a number can be reproduced: a reason rests on a search, and asking for that search again gives its
//! numbers.

use crate::common;
use trainyard_plan::document::{Evidence, PlanDocument};
use trainyard_plan::{GoalSpec, JobSpec};
use trainyard_planner::{NoPlan, missed_goal};

/// A job in TOML: its model and work, and on which instances and how many of them.
fn job(text: &str, instances: &str, max_instances: u32) -> JobSpec {
    let text = format!("{text}\n[cluster]\ninstances = {instances}\nmax_instances = {max_instances}\n");
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn named(model: &str, samples: u64, global_batch: u64) -> String {
    format!("[model]\nname = \"{model}\"\n[data]\nsamples = {samples}\n[training]\nglobal_batch = {global_batch}\n")
}

fn plan(job: &JobSpec, fixed: &[String]) -> Result<PlanDocument, NoPlan> {
    common::plan(job, fixed, 1)
}

/// Kinds of models, from 1 to 16 machines, with deadlines and without: each job with the fields that its user holds.
fn jobs() -> Vec<(JobSpec, &'static [&'static str])> {
    let goal = |text: &str, goal: &str| format!("{text}[goal]\n{goal}\n");
    vec![
        (job(&named("gpt2", 100_000, 64), r#"["g4dn.xlarge", "p3.2xlarge"]"#, 1), &[]),
        (job(&named("gpt2-large", 200_000, 128), r#"["p3.*"]"#, 2), &[]),
        (job(&named("gpt2-xl", 1_000_000, 512), r#"["p4d.24xlarge", "p3.16xlarge"]"#, 8), &["precision=fp16-mixed"]),
        (job(&goal(&named("gpt2-xl", 5_000_000, 512), "deadline = \"20 h\""), r#"["p4d.24xlarge"]"#, 16), &[]),
        (job(&goal(&named("gpt2-medium", 500_000, 256), "objective = \"time\""), r#"["p3.*"]"#, 4), &[]),
        (job(&named("llama-2-7b", 100_000, 256), r#"["p4d.24xlarge"]"#, 4), &[]),
        (job(&named("alpa-moe-2.4b", 100_000, 256), r#"["p4d.24xlarge"]"#, 2), &[]),
        (job(&named("alpa-moe-380m", 100_000, 64), r#"["p3.8xlarge", "p3.16xlarge"]"#, 2), &["instances=2"]),
        (job(&named("bert-large", 1_000_000, 256), r#"["g4dn.*", "p3.*"]"#, 2), &[]),
        (job(&goal(&named("bert-base", 1_000_000, 512), "budget = 5.0"), r#"["g4dn.*", "p3.2xlarge"]"#, 2), &[]),
        (job(&named("vit-b-16", 1_281_167, 1024), r#"["p4d.24xlarge", "g4dn.12xlarge"]"#, 2), &[]),
        (job(&named("resnet50", 1_281_167, 256), r#"["p3.8xlarge"]"#, 2), &["batch.micro=16"]),
    ]
}

/// The search of a reason, asked for again.
#[track_caller]
fn reproduces(job: &JobSpec, evidence: &Evidence, reason: &str) {
    let (time_s, cost_usd) = match plan(job, &evidence.fix) {
        Ok(again) => (Some(again.prediction.elapsed_s()), again.prediction.cost_usd),
        Err(NoPlan::OutOfMemory { bound, .. }) => {
            assert_eq!(evidence.needed_bytes, Some(bound.needed.0), "{reason}: {evidence:?}");
            (None, None)
        }
        Err(_) => {
            assert_eq!(evidence.needed_bytes, None, "{reason}: {evidence:?}");
            (None, None)
        }
    };
    let same = |own: Option<f64>, again: Option<f64>| match (own, again) {
        (Some(own), Some(again)) => (own - again).abs() <= 1e-9 * own.abs(),
        (own, again) => own.is_none() && again.is_none(),
    };
    let told = || format!("{}: {reason}: {evidence:?}, but {time_s:?} s, {cost_usd:?} USD", evidence.fix.join(" "));
    assert!(same(evidence.time_s, time_s) && same(evidence.cost_usd, cost_usd), "{}", told());
}

#[test]
fn the_searches_behind_reasons_can_be_asked_for_again() {
    let mut priced = 0;
    let mut too_large = 0;
    for (job, held) in jobs() {
        let held: Vec<String> = held.iter().map(ToString::to_string).collect();
        let document = plan(&job, &held).unwrap_or_else(|error| panic!("{:?}: {error}", job.model.name));
        let goal = GoalSpec { deadline: None, budget: None, ..job.goal.clone() };
        let without_limits = JobSpec { goal, ..job };
        for evidence in &document.evidence {
            let reason = &document.reasons[evidence.reason];
            assert!(held.iter().all(|own| evidence.fix.contains(own) || own.starts_with("instances=")), "{evidence:?}");
            reproduces(&without_limits, evidence, reason);
            priced += usize::from(evidence.time_s.is_some());
            too_large += usize::from(evidence.needed_bytes.is_some());
        }
    }
    assert!(priced > 20 && too_large > 1, "{priced} plans and {too_large} that are too large were compared");
}

#[test]
fn numbers_in_reasons_are_those_of_their_searches() {
    let document = plan(&job(&named("gpt2-large", 200_000, 128), r#"["p3.*"]"#, 2), &[]).expect("a plan");
    let own = &document.prediction;
    let mut compared = 0;
    for evidence in &document.evidence {
        let reason = &document.reasons[evidence.reason];
        if let (Some(needed), true) = (evidence.needed_bytes, reason.contains("needs at least")) {
            let told = trainyard_units::human_bytes(trainyard_units::Bytes(needed));
            assert!(reason.contains(&told), "{reason}: {told}");
            compared += 1;
        }
        if let (Some((cost, own)), true) = (evidence.cost_usd.zip(own.cost_usd), reason.contains("cheaper")) {
            assert!(cost > own, "{reason}: {cost} and {own}");
            compared += 1;
        }
    }
    assert!(compared > 1, "{:#?}", document.reasons);
}

#[test]
fn a_deadline_that_more_instances_meet_names_how_many_and_they_do() {
    for (model, samples, batch, instances, deadline) in [
        ("gpt2-xl", 5_000_000, 512, r#"["p3.16xlarge"]"#, "20 h"),
        ("resnet50", 50_000_000, 1024, r#"["p3.8xlarge", "g4dn.12xlarge"]"#, "2 h"),
    ] {
        let text = format!("{}[goal]\ndeadline = \"{deadline}\"\n", named(model, samples, batch));
        let mut asked = job(&text, instances, 1);
        let late = plan(&asked, &[]).expect("the nearest plan");
        assert!(missed_goal(&late).is_some(), "{model} is in time on one instance: {}", late.prediction.elapsed_s());
        let advice = late.to_meet_goal.expect("what would meet the deadline");
        assert!(advice.contains("cluster.max_instances 1 stands in the way"), "{advice}");
        let number = advice.rsplit(' ').next().and_then(|word| word.parse().ok());
        asked.cluster.max_instances = Some(number.unwrap_or_else(|| panic!("no number ends `{advice}`")));
        let again = plan(&asked, &[]).expect("a plan");
        assert_eq!((missed_goal(&again), again.to_meet_goal), (None, None), "{advice}");
    }
}
