//! What a software stack can run, in plain words.

use crate::format::facts;
use trainyard_hardware_profiles::{Abilities, Stack};

/// The kind of parallelism that splits embedding tables instead of layers.
const TABLES: &str = "tables";

/// Maximum number of families that one line lists.
const FAMILIES_LISTED: usize = 6;

/// Returns a list in words: `none` for an empty list, "any" for an absent one.
fn words(list: Option<&[String]>, none: &str) -> String {
    match list {
        None => "any".into(),
        Some([]) => none.into(),
        Some(names) => names.join(", "),
    }
}

/// Summarizes on one line of a table what a stack can run: parallelism, what replicas shard, offload, and families if
/// not all.
pub(crate) fn in_brief(runs: &Abilities) -> String {
    let limits = [&runs.families, &runs.degrees, &runs.schedules, &runs.state_sharding, &runs.offload];
    if limits.iter().all(|list| list.is_none()) {
        return "any plan".into();
    }
    let besides = |list: &Option<Vec<String>>, plain: &str| -> Vec<String> {
        list.iter().flatten().filter(|name| *name != plain).cloned().collect()
    };
    let mut parts = vec![parallelism(runs)];
    let sharded = besides(&runs.state_sharding, "none");
    if !sharded.is_empty() {
        parts.push(format!("sharded {}", sharded.join(", ")));
    }
    if !besides(&runs.offload, "none").is_empty() {
        parts.push("offload".into());
    }
    if runs.degrees.iter().flatten().any(|degree| degree == TABLES) {
        parts.push("sharded embedding tables".into());
    }
    match runs.families.as_deref() {
        None => {}
        Some(families) if families.len() > FAMILIES_LISTED => parts.push("most families of models".into()),
        Some(families) => parts.push(format!("only {}", families.join(", "))),
    }
    parts.join("; ")
}

fn parallelism(runs: &Abilities) -> String {
    runs.degrees.as_ref().map_or_else(
        || "any parallelism".into(),
        |degrees| {
            let degrees = degrees.iter().map(String::as_str).filter(|degree| *degree != TABLES);
            let all: Vec<&str> = std::iter::once("data").chain(degrees).collect();
            format!("{} parallel", all.join(", "))
        },
    )
}

/// Returns the launch targets, best first, or a dash.
pub(crate) fn targets(runs: &Abilities) -> String {
    if runs.targets.is_empty() { "–".into() } else { runs.targets.join(", ") }
}

/// Lists the abilities of a stack, one on each line.
pub(crate) fn in_full(stack: &Stack) -> String {
    let runs = &stack.runs;
    let known = if runs.today { "yes: compared for every job" } else { "no: known for what was measured with it" };
    let list = |list: &Option<Vec<String>>| words(list.as_deref(), "none");
    let either = |yes: Option<bool>| yes.map_or("any", |yes| if yes { "yes" } else { "no" }).to_owned();
    let mut rows = vec![
        ("trainings are started with it today", known.to_owned()),
        ("launch targets", targets(runs)),
        ("families of models", list(&runs.families)),
        ("parallelism", parallelism(runs)),
        ("pipeline schedules", list(&runs.schedules)),
        ("number formats", list(&runs.precisions)),
        ("recomputation", list(&runs.recompute)),
        ("sharded over replicas", list(&runs.state_sharding)),
        ("shards are flat runs of values", either(Some(runs.flat_shards))),
        ("sharded inside machines only", either(runs.hybrid_sharding)),
        ("gradients are summed each", list(&runs.gradient_reduction)),
        ("gradient compression", list(&runs.gradient_compression)),
        ("offload", list(&runs.offload)),
        ("collectives", list(&runs.collectives)),
        ("placement of ranks", list(&runs.placements)),
        ("optimizers", list(&runs.optimizers)),
        ("compiled", either(Some(runs.compiled))),
        ("fused update of the optimizer", either(Some(runs.fused_optimizer))),
        ("attention", attention(runs)),
        ("memory that plans leave free", format!("{:.0} % of a GPU's", stack.memory_margin() * 100.0)),
    ];
    rows.extend(runs.source.as_ref().map(|source| ("source", source.clone())));
    facts(&rows)
}

/// Describes the attention kernels: `memory-efficient on Turing and Volta, flash on others`.
fn attention(runs: &Abilities) -> String {
    let (others, named): (Vec<_>, Vec<_>) = runs.attention.iter().partition(|(generation, _)| *generation == "other");
    let mut kernels: Vec<(&String, Vec<&str>)> = Vec::new();
    for (generation, kernel) in named {
        match kernels.iter_mut().find(|(own, _)| *own == kernel) {
            Some((_, generations)) => generations.push(generation),
            None => kernels.push((kernel, vec![generation])),
        }
    }
    let mut parts: Vec<String> =
        kernels.iter().map(|(kernel, generations)| format!("{kernel} on {}", generations.join(" and "))).collect();
    let others = others.first().map_or("as the model says", |(_, kernel)| kernel.as_str());
    parts.push(if parts.is_empty() { others.to_owned() } else { format!("{others} on others") });
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;

    fn runs(stack: &str) -> &'static Abilities {
        &catalog().stack(stack).expect("in the catalog").runs
    }

    #[test]
    fn a_stack_without_lists_runs_any_plan() {
        let default = catalog().stack("pytorch").expect("in the catalog");
        assert_eq!(in_brief(&default.runs), "any plan");
        assert_eq!(targets(&default.runs), "–");
        let page = in_full(default);
        assert!(page.contains("any parallelism") && page.contains("no: known"), "{page}");
    }

    #[test]
    fn what_is_sharded_and_offloaded_is_told_in_brief() {
        assert_eq!(in_brief(runs("pytorch-ddp")), "data parallel; sharded embedding tables");
        let fsdp = "data parallel; sharded gradients, parameters; most families of models";
        assert_eq!(in_brief(runs("pytorch-fsdp")), fsdp);
        assert!(in_brief(runs("deepspeed")).contains("sharded optimizer, gradients, parameters; offload"));
        assert!(in_brief(runs("megatron-core")).ends_with("only gpt, gpt-moe, llama, bert, blocks"));
    }

    #[test]
    fn attention_is_told_by_generation() {
        assert_eq!(attention(runs("pytorch-ddp")), "memory-efficient on Turing and Volta, flash on others");
        assert_eq!(attention(runs("llm-foundry-fsdp")), "flash");
        assert_eq!(attention(runs("alpa")), "as the model says");
    }
}
