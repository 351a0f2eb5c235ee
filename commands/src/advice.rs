//! What fields of job files look like when they are right, for errors that know no better advice.

/// Fields with lines that may stand for them.
const EXAMPLES: [(&str, &str); 36] = [
    ("campaign.checkpoint_interval", "checkpoint_interval = \"30 min\""),
    ("campaign.job_limit", "job_limit = \"24h\""),
    ("campaign.monthly_reclaims", "monthly_reclaims = 0.1"),
    ("campaign.node_mtbf", "node_mtbf = \"6000 h\""),
    ("campaign.queue_wait", "queue_wait = \"2h\""),
    ("campaign.restart", "restart = \"30 min\""),
    ("campaign.spot_scenario", "spot_scenario = 5"),
    ("campaign.straggler", "straggler = 0.05"),
    ("cluster.instances", "instances = [\"p4d.24xlarge\", \"p5.*\"]; `trainyard show instances` lists them"),
    ("cluster.memory_margin", "memory_margin = \"8%\""),
    ("cluster.quotas", "quotas = { p4d = 192 }, in vCPUs"),
    ("data.ebs_throughput", "ebs_throughput = \"500 MiB/s\""),
    ("data.prefetch", "prefetch = 2"),
    ("data.workers", "workers = 8"),
    ("evaluation.every_epochs", "every_epochs = 1"),
    ("evaluation.every_steps", "every_steps = 500"),
    ("evaluation.samples", "samples = 5000"),
    ("evaluation.share", "share = 0.1"),
    ("goal.budget", "budget = 5000"),
    ("goal.deadline", "deadline = \"3d\""),
    ("job.count", "count = 8"),
    ("job.duration", "duration = \"2 h\""),
    ("job.instances", "instances = 2"),
    ("job.priority", "priority = 1"),
    ("job.spread", "spread = 0.2"),
    ("job.submit", "submit = \"1 h\""),
    ("job.volume", "volume = \"100 GB\""),
    ("pool.keep_alive", "keep_alive = \"30 min\""),
    ("pool.max_instances", "max_instances = 8"),
    ("pool.quotas", "quotas = { p4d = 192 }, in vCPUs"),
    ("pool.service", "service = \"sagemaker\""),
    ("start.cold", "cold = \"5 min\""),
    ("start.warm", "warm = \"40 s\""),
    ("training.global_batch", "global_batch = 512, or { min = 256, max = 1024 }"),
    ("training.global_batch.max", "global_batch = { min = 256, max = 1024 }"),
    ("training.global_batch.min", "global_batch = { min = 256, max = 1024 }"),
];

/// Returns an example of a field, wherever in a file its table stands: `job[0].campaign.job_limit` is one of a job.
pub(crate) fn example(field: &str) -> Option<String> {
    let field = without_indices(field);
    let is = |key: &str| field.strip_suffix(key).is_some_and(|before| before.is_empty() || before.ends_with('.'));
    let (_, line) = EXAMPLES.into_iter().find(|(key, _)| is(key))?;
    Some(format!("for example {line}"))
}

/// Returns advice about a field of a file of a kind: an example, or where its fields are described.
pub(crate) fn about(field: &str, kind: &str) -> String {
    example(field)
        .unwrap_or_else(|| format!("`trainyard schemas --out DIR` writes {kind}.json, which describes every field"))
}

/// Returns a path without the numbers of lists: `job[0].count` is `job.count`.
fn without_indices(field: &str) -> String {
    let parts = field.split('[');
    parts.map(|part| part.split_once(']').map_or(part, |(_, after)| after)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_found_in_any_file() {
        for field in ["data.workers", "job.data.workers", "job[3].data.workers"] {
            assert_eq!(example(field).as_deref(), Some("for example workers = 8"), "{field}");
        }
        assert_eq!(example("metadata.workers"), None);
        assert_eq!(example("job[12].count").as_deref(), Some("for example count = 8"));
        assert!(about("pool.region", "queue-file").contains("queue-file.json"));
    }
}
