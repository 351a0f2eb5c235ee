//! Queues as written: many independent jobs that share one pool of instances. `valid.rs` checks them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_plan::Pricing;
use trainyard_units::{named, numbers_or_texts, written, written_option, written_share};

/// A queue of jobs as a TOML file describes it. Durations are texts with a unit, `30 min`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// The instances that the jobs share.
    pub pool: PoolSpec,
    /// Who goes first.
    #[serde(default)]
    pub policy: PolicySpec,
    /// The jobs, each perhaps many times.
    #[serde(default, rename = "job")]
    pub jobs: Vec<QueuedJobSpec>,
}

/// The instances that the jobs share: one type, up to a quota; or machines of one's own of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct PoolSpec {
    /// A cluster file, relative to this one, that describes machines of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Instance type of the catalog; with `file` one of its kinds of machines, which may be left out if there is only one.
    #[serde(default)]
    pub instance: String,
    /// The quota: the most instances that are held at once, in use or kept warm. With `file` the machines that there are, if
    /// left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub max_instances: Option<u32>,
    /// AWS region; us-east-1 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Terms; on-demand if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Pricing>,
    /// ec2 or sagemaker; ec2 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// From taking instances to the first step.
    #[serde(default)]
    pub start: StartSpec,
    /// Whether instances are kept for the next job that matches.
    #[serde(default)]
    pub warm_pool: bool,
    /// For how long after a job; 30 min if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<String>,
    /// The quota of instances that are kept without a job; `max_instances` if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub max_warm_instances: Option<u32>,
}

/// From taking instances to the first step of training.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartSpec {
    /// Of new instances: they are launched, load the container and start the framework; 280 s if left out. More than half of
    /// it, as of these 280 s, is waiting for the launch, which is not paid for. Of machines of one's own, which are there:
    /// they start the framework; 40 s if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold: Option<String>,
    /// Of instances that were kept: they start the framework; 40 s if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm: Option<String>,
}

/// Who goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// The order of the jobs that wait.
    #[serde(default)]
    pub order: QueueOrder,
    /// Whether later jobs may go before the first one as long as they do not delay it (EASY; Mu'alem and Feitelson,
    /// "Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with
    /// Backfilling", 2001, doi:10.1109/71.932708).
    #[serde(default)]
    pub backfill: bool,
}

named! {
    /// The order of jobs that wait; equals go in the order of submission, then of the file.
    #[derive(Default, JsonSchema)]
    QueueOrder {
        /// As submitted.
        #[default]
        Fifo = "fifo",
        /// The shortest expected duration first.
        ShortestFirst = "shortest-first",
        /// The longest expected duration first (LPT; Graham, "Bounds on Multiprocessing Timing Anomalies", 1969,
        /// doi:10.1137/0117039).
        LongestFirst = "longest-first",
        /// The highest priority first.
        Priority = "priority",
    }
}

/// A job: a plan, or a duration on a number of instances. All its instances start together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueuedJobSpec {
    /// What it is called.
    pub name: String,
    /// A plan document, relative to this file: its instances for its predicted time, evaluation and checkpoints included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// How long it trains, instead of `plan`; start-up comes on top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// Instances, beside `duration`; 1 if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(transform = numbers_or_texts, range(min = 1))]
    pub instances: Option<u32>,
    /// How many jobs of this kind there are, such as trials of a search for hyper-parameters.
    #[serde(default = "one", deserialize_with = "written")]
    #[schemars(transform = numbers_or_texts, range(min = 1))]
    pub count: u32,
    /// When they enter the queue, after its start; at once if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submit: Option<String>,
    /// Goes first where the order is by priority; higher is sooner.
    #[serde(default, deserialize_with = "written")]
    #[schemars(transform = numbers_or_texts)]
    pub priority: i32,
    /// Standard deviation of the duration as a fraction of its mean, `0.2` or `20%`; durations are log-normal.
    #[serde(default, deserialize_with = "written_share")]
    #[schemars(transform = numbers_or_texts)]
    pub spread: f64,
    /// Execution role, which a warm pool must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Storage of each instance, `100 GB`, which a warm pool must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Subnets and security groups in words, which a warm pool must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc: Option<String>,
    /// Whether traffic between instances is encrypted, which a warm pool must match; as in `plan` if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<bool>,
}

fn one() -> u32 {
    1
}

impl PoolSpec {
    /// Returns the quota of a pool that was checked.
    pub(crate) fn quota(&self) -> u32 {
        self.max_instances.unwrap_or(0)
    }

    /// Returns `true` if it is of machines of one's own.
    pub(crate) fn is_owned(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the word for what the pool is made of.
    pub(crate) fn noun(&self) -> &'static str {
        if self.is_owned() { "machine" } else { "instance" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_written_as_they_read() {
        let names: Vec<&str> = QueueOrder::ALL.iter().map(|order| order.name()).collect();
        assert_eq!(names, ["fifo", "shortest-first", "longest-first", "priority"]);
        assert_eq!("longest-first".parse(), Ok(QueueOrder::LongestFirst));
    }
}
