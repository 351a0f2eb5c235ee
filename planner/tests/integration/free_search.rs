//! Whatever a user holds, the free search is at least as good: to the last bit, over random jobs and random fields.

use crate::common::{self, limits, solvable};
use std::collections::BTreeMap;
use trainyard_plan::{CampaignSpec, EvaluationSpec, JobSpec, Objective, Precision};
use trainyard_planner::{Problem, optimum};

/// Random numbers that need no crate: `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[(self.next() % all.len() as u64) as usize]
    }
}

/// Models of every kind that a search treats apart, small enough for many searches.
const MODELS: [&str; 9] = [
    "gpt2",
    "gpt2-large",
    "llama-2-7b",
    "bert-large",
    "vit-b-16",
    "resnet50",
    "t5-large",
    "dlrm-small",
    "mixtral-8x7b",
];
const INSTANCES: [&[&str]; 6] = [
    &["g4dn.xlarge", "g4dn.12xlarge"],
    &["p3.2xlarge", "p3.16xlarge"],
    &["p3.8xlarge", "g4dn.12xlarge"],
    &["p3dn.24xlarge"],
    &["p4d.24xlarge"],
    &["g5.12xlarge", "p4d.24xlarge"],
];

/// The fields that may be held, with the values that the free search considers too. Absent is what the search leaves
/// out, and says so: what changes the training (compression, 2bw), more than four chunks of a stage, context
/// parallelism over few tokens, placements and algorithms of collectives.
fn holdable() -> BTreeMap<&'static str, Vec<&'static str>> {
    BTreeMap::from([
        ("parallel.data", vec!["1", "2", "4", "8", "16"]),
        ("parallel.tensor", vec!["1", "2", "4", "8"]),
        ("parallel.pipeline", vec!["1", "2", "3", "4", "8"]),
        ("parallel.context", vec!["1"]),
        ("parallel.expert", vec!["1", "2", "4", "8"]),
        ("parallel.sequence", vec!["true", "false"]),
        ("batch.micro", vec!["1", "2", "4", "8", "16"]),
        ("batch.accumulation", vec!["1", "2", "4", "8", "16"]),
        ("schedule", vec!["none", "1f1b", "interleaved-1f1b"]),
        ("virtual_stages", vec!["1", "2", "3", "4"]),
        ("precision", vec!["fp32", "tf32", "fp16-mixed", "bf16-mixed"]),
        ("recompute", vec!["none", "selective", "full"]),
        ("state_sharding", vec!["none", "optimizer", "gradients", "parameters"]),
        ("sharding_ranks", vec!["4", "8"]),
        ("gradient_reduction", vec!["step", "micro-batch"]),
        ("offload", vec!["none", "optimizer", "optimizer+parameters", "optimizer@nvme"]),
        ("stack", vec!["pytorch-ddp", "pytorch-ddp-compiled", "pytorch-fsdp", "deepspeed", "megatron-core"]),
        ("instances", vec!["1", "2", "3", "4"]),
    ])
}

fn job(draws: &mut Draws) -> JobSpec {
    let (model, batch) = (draws.of(&MODELS), *draws.of(&[8, 16, 48, 64, 256]));
    let types = *draws.of(&INSTANCES);
    let mut job = common::job(model, batch, types, *draws.of(&[1, 2, 4]));
    job.data.samples = Some(100_000);
    job.goal.objective = Some(*draws.of(&[Objective::Cost, Objective::Time]));
    if *draws.of(&[true, false, false]) {
        job.training.precision = Some(vec![Precision::Fp16Mixed, Precision::Fp32]);
    }
    if *draws.of(&[true, false]) {
        let evaluation = EvaluationSpec {
            every_steps: Some(*draws.of(&[1, 50])),
            samples: Some(*draws.of(&[64, 5000])),
            ..EvaluationSpec::default()
        };
        job.campaign = Some(CampaignSpec { evaluation: Some(evaluation), ..CampaignSpec::default() });
    }
    job
}

/// Returns the objective's value of the best plan with some fields held; `None` if there is no plan.
fn least(problem: &Problem, held: &[String]) -> Option<f64> {
    let best = optimum(problem, &limits(held, 1)).ok()?;
    Some(match problem.objective {
        Objective::Cost => best.cost_usd.expect("rented machines cost"),
        Objective::Time => best.time_s,
    })
}

#[test]
fn nothing_that_is_held_beats_the_free_search() {
    let cases: u32 = std::env::var("TRAINYARD_HELD_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2400);
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let (mut draws, fields, mut compared) = (Draws(seed), holdable(), 0);
    let keys: Vec<&str> = fields.keys().copied().collect();
    for _ in 0..cases.div_ceil(24) {
        let job = job(&mut draws);
        let problem = solvable(&job);
        let free = least(&problem, &[]);
        for _ in 0..24 {
            let mut held = BTreeMap::new();
            for _ in 0..=(draws.next() % 2) {
                let key = *draws.of(&keys);
                held.insert(key, *draws.of(&fields[key]));
            }
            // A number of instances that is held may be beyond the most that is searched: not here.
            let most = job.cluster.max_instances.unwrap_or(16);
            held.retain(|key, value| *key != "instances" || value.parse::<u32>().is_ok_and(|held| held <= most));
            let held: Vec<String> = held.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let Some(own) = least(&problem, &held) else { continue };
            let free = free.unwrap_or_else(|| panic!("{held:?} has a plan, but the free search none: {job:?}"));
            assert!(free <= own, "{held:?}: {own} beats {free} of {job:?}");
            compared += 1;
        }
    }
    assert!(compared > cases / 4, "most that is held leaves plans: {compared} of {cases}");
}
