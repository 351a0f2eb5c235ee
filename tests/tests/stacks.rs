//! What the stacks of the catalog say that they can run, in the words of plans, models and launch targets.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use trainyard_hardware_profiles::{Abilities, EXECUTOR_STACK, Stack, catalog};
use trainyard_models::{AttentionKernel, Family};
use trainyard_plan::{
    Collectives, EXECUTABLE, GradientCompression, GradientReduction, Offload, Optimizer, Placement, Precision,
    Recompute, ScheduleName, StateSharding,
};
use trainyard_reports::Target;

/// Kinds of parallelism, as the fields of `plan.parallel` name them.
const DEGREES: [&str; 6] = ["tensor", "sequence", "pipeline", "context", "expert", "tables"];

fn stack(name: &str) -> &'static Stack {
    catalog().stack(name).expect("in the catalog")
}

/// Each name of a list reads as a value that is printed as it was written, and none is there twice.
fn are_values<T: FromStr + Display>(stack: &Stack, list: Option<&[String]>) {
    let as_written = |name: &String| name.parse::<T>().is_ok_and(|value| value.to_string() == *name);
    are_names(stack, list.unwrap_or_default(), as_written);
}

fn are_names(stack: &Stack, list: &[String], is_one: impl Fn(&String) -> bool) {
    let wrong: Vec<&String> = list.iter().filter(|name| !is_one(name)).collect();
    assert!(wrong.is_empty(), "{}: {wrong:?}", stack.name);
    assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len(), "{}: {list:?}", stack.name);
}

fn is_family(name: &str) -> bool {
    serde_json::from_value::<Family>(name.into()).is_ok()
}

fn is_kernel(name: &str) -> bool {
    serde_json::from_value::<AttentionKernel>(name.into()).is_ok_and(|kernel| kernel.name() == name)
}

#[test]
fn every_name_is_one_of_plans_models_or_targets() {
    for stack in catalog().stacks() {
        let runs = &stack.runs;
        are_values::<ScheduleName>(stack, runs.schedules.as_deref());
        are_values::<Precision>(stack, runs.precisions.as_deref());
        are_values::<Recompute>(stack, runs.recompute.as_deref());
        are_values::<StateSharding>(stack, runs.state_sharding.as_deref());
        are_values::<GradientReduction>(stack, runs.gradient_reduction.as_deref());
        are_values::<GradientCompression>(stack, runs.gradient_compression.as_deref());
        are_values::<Offload>(stack, runs.offload.as_deref());
        are_values::<Collectives>(stack, runs.collectives.as_deref());
        are_values::<Placement>(stack, runs.placements.as_deref());
        are_values::<Optimizer>(stack, runs.optimizers.as_deref());
        are_names(stack, runs.families.as_deref().unwrap_or_default(), |name| is_family(name));
        are_names(stack, runs.degrees.as_deref().unwrap_or_default(), |name| DEGREES.contains(&name.as_str()));
        are_names(stack, &runs.targets, |name| Target::ALL.iter().any(|target| target.name() == name));
        for (generation, kernel) in &runs.attention {
            let known = catalog().gpus().iter().any(|gpu| gpu.generation == *generation);
            assert!(known || generation == "other", "{}: {generation}", stack.name);
            assert!(is_kernel(kernel), "{}: {kernel}", stack.name);
        }
    }
}

#[test]
fn what_is_started_today_can_be_launched_and_says_everything() {
    let today: Vec<&Stack> =
        catalog().stacks().iter().map(AsRef::as_ref).filter(|stack: &&Stack| stack.runs.today).collect();
    let names: Vec<&str> = today.iter().map(|stack| stack.name.as_str()).collect();
    let expected =
        ["deepspeed", "megatron-core", "pytorch-ddp-compiled", "pytorch-ddp", "pytorch-fsdp-compiled", "pytorch-fsdp"];
    assert_eq!(names, expected);
    for stack in today {
        let runs = &stack.runs;
        assert!(!runs.targets.is_empty() && runs.source.is_some() && stack.memory_spread.is_some(), "{}", stack.name);
        for gpu in catalog().gpus() {
            assert!(runs.attention_on(&gpu.generation).is_some(), "{} on {}", stack.name, gpu.generation);
        }
        let lists = [
            &runs.degrees,
            &runs.schedules,
            &runs.recompute,
            &runs.state_sharding,
            &runs.gradient_reduction,
            &runs.gradient_compression,
            &runs.offload,
            &runs.collectives,
            &runs.placements,
        ];
        assert!(lists.iter().all(|list| list.is_some()) && runs.hybrid_sharding.is_some(), "{}", stack.name);
    }
}

#[test]
fn lists_agree_with_each_other() {
    for stack in catalog().stacks() {
        let Abilities { degrees, schedules, state_sharding, hybrid_sharding, .. } = &stack.runs;
        let has = |list: &Option<Vec<String>>, name: &str| list.iter().flatten().any(|own| own == name);
        if let (Some(_), Some(schedules)) = (degrees, schedules) {
            let pipelines = schedules.iter().any(|schedule| schedule != "none");
            assert_eq!(pipelines, has(degrees, "pipeline"), "{}", stack.name);
        }
        assert!(!has(degrees, "sequence") || has(degrees, "tensor"), "{}", stack.name);
        let shards = state_sharding.iter().flatten().any(|sharding| sharding != "none");
        assert!(*hybrid_sharding != Some(true) || shards, "{}", stack.name);
    }
}

#[test]
fn the_executor_runs_what_is_built() {
    fn same<T: Copy + Display>(list: Option<&[String]>, built: &[T]) {
        let listed: Option<BTreeSet<String>> = list.map(|list| list.iter().cloned().collect());
        assert_eq!(listed, Some(built.iter().map(ToString::to_string).collect()));
    }
    let runs = &stack(EXECUTOR_STACK).runs;
    let sharded = EXECUTABLE.state_sharding.iter().any(|sharding| *sharding != StateSharding::None);
    let pipelines = EXECUTABLE.schedules.iter().any(|schedule| *schedule != ScheduleName::None);
    let built =
        [EXECUTABLE.tensor, EXECUTABLE.sequence, pipelines, EXECUTABLE.context, EXECUTABLE.expert, EXECUTABLE.tables];
    let degrees: Vec<&str> = DEGREES.into_iter().zip(built).filter(|(_, built)| *built).map(|(name, _)| name).collect();
    same(runs.degrees.as_deref(), &degrees);
    same(runs.schedules.as_deref(), &EXECUTABLE.schedules);
    same(runs.precisions.as_deref(), &EXECUTABLE.precisions);
    same(runs.recompute.as_deref(), &EXECUTABLE.recompute);
    same(runs.state_sharding.as_deref(), &EXECUTABLE.state_sharding);
    same(runs.gradient_reduction.as_deref(), &EXECUTABLE.gradient_reduction);
    same(runs.gradient_compression.as_deref(), &EXECUTABLE.gradient_compression);
    same(runs.optimizers.as_deref(), &EXECUTABLE.optimizers);
    let offloads: Vec<Offload> = EXECUTABLE.offloads.iter().map(|(offload, _)| *offload).collect();
    same(runs.offload.as_deref(), &offloads);
    assert_eq!(runs.offloads_checkpoints, EXECUTABLE.offloads_checkpoints);
    assert_eq!(runs.hybrid_sharding, Some(sharded));
    assert_eq!(runs.flat_shards, EXECUTABLE.flat_shards);
    assert_eq!(runs.experts_need_whole_states, EXECUTABLE.experts_need_whole_states);
    same(Some(&[&["full".to_owned()], runs.fine_tuning.as_slice()].concat()), &EXECUTABLE.methods);
    same(Some(&runs.dpo), &EXECUTABLE.dpo);
    assert_eq!(runs.splits_tuned, EXECUTABLE.splits_tuned);
    assert_eq!((runs.today, runs.targets.as_slice()), (false, &["slurm".to_owned()][..]));
}

#[test]
fn the_default_prices_anything_and_launches_nothing() {
    let default = &stack(trainyard_hardware_profiles::DEFAULT_STACK).runs;
    assert_eq!(*default, Abilities::default());
}
