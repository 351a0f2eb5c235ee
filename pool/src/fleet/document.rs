//! How a fleet is planned, as it is printed. Durations are seconds, money USD; the suffix of a field says so. Times are
//! those since the start of the fleet.

use super::FleetSpec;
use crate::queue::{InstanceSeconds, QueueCost, QueueDocument, Waiting};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_plan::{Objective, PlanSpec};

/// The schema of fleet documents that this version writes.
pub const FLEET_SCHEMA: &str = "trainyard.fleet/1";

/// A fleet with a plan for each kind of jobs and a schedule for all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetDocument {
    /// `trainyard.fleet/1`.
    pub schema: String,
    /// What was asked for.
    pub fleet: FleetSpec,
    /// What is predicted.
    pub prediction: FleetPrediction,
    /// Which deadlines and budgets are missed, and by how much; absent if all are met, and in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// What would let the fleet keep to them: jobs of a kind on two types, more instances, other terms, or one of the two alone; empty if nothing that was
    /// tried does, where all are met, and in older documents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to_meet_goal: Vec<String>,
    /// The plan of each kind of jobs, in the order of the file.
    pub plans: Vec<FleetPlan>,
    /// The schedule: a queue for each type of instances that is used, with every job's start, end and instances.
    pub pools: Vec<QueueDocument>,
    /// Why these plans.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// What to be careful about.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// How the search went.
    pub search: FleetSearch,
}

/// What is predicted of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetPrediction {
    /// From the first submission to the end of the last job.
    pub makespan_s: f64,
    /// 5 % of such fleets end before the first of these, and 5 % after the second, if the predictions of all jobs are off alike; zeros
    /// in older documents.
    #[serde(default)]
    pub makespan_interval_s: [f64; 2],
    /// How likely it is that all deadlines and budgets are kept, of all jobs together and of each, if the predictions of all jobs are
    /// off alike; absent where there are none, and in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_goal: Option<f64>,
    /// What no schedule of these plans can beat.
    pub bound_s: f64,
    /// How much longer than this bound it takes, as a fraction of the bound.
    pub gap: f64,
    /// From submission until a job gets its instances.
    pub waiting_s: Waiting,
    /// Jobs that started on new instances.
    pub cold_starts: u32,
    /// Jobs that started on instances that had been kept.
    pub warm_starts: u32,
    /// Instances times seconds.
    pub instance_seconds: InstanceSeconds,
    /// Training over everything that is held.
    pub utilisation_of_held: f64,
    /// What it costs, by the second; absent for machines without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<QueueCost>,
    /// The same interval of the cost, at the lowest price that was seen and at the highest; absent for machines without a price, and
    /// in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_interval_usd: Option<[f64; 2]>,
    /// The same jobs in a pool that keeps no instance warm, planned for it; absent without warm pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_warm_pool: Option<FleetOutcome>,
}

/// What all jobs of a fleet take and cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetOutcome {
    /// From the first submission to the end of the last job.
    pub makespan_s: f64,
    /// What they cost; 0 for machines without a price.
    pub cost_usd: f64,
    /// Whether they miss a deadline or a budget, of all jobs or of each.
    #[serde(default)]
    pub misses_goal: bool,
}

/// How each job of a kind runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetPlan {
    /// What the kind is called.
    pub name: String,
    /// How many jobs of the kind there are.
    pub count: u32,
    /// The plan.
    pub plan: PlanSpec,
    /// Seconds of one optimizer step.
    pub step_time_s: f64,
    /// Optimizer steps of each job.
    pub steps: u64,
    /// What each job trains, a download of its data, evaluation and checkpoints included; start-up comes on top.
    pub time_s: f64,
    /// What the dearest job of the kind costs, what is paid of its start-up included; instances kept warm after it are in
    /// the whole. Absent for machines without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// When the first job of the kind gets its instances.
    pub start_s: f64,
    /// When the last job of the kind ends.
    pub end_s: f64,
    /// The longest from the submission of a job of the kind to its end.
    pub longest_stay_s: f64,
    /// What each job of the kind may take from its submission to its end, if it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
    /// What each job of the kind may cost, if it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// Plans that it could have had, on types and numbers of instances.
    pub options: u32,
}

impl FleetDocument {
    /// Returns what was minimized: time, where nothing has a price.
    pub(super) fn objective(&self) -> Objective {
        self.prediction.cost.map_or(Objective::Time, |_| self.fleet.goal.objective.unwrap_or_default())
    }
}

/// How the search for a fleet's plans went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetSearch {
    /// Plans in the spaces of all kinds.
    pub candidates: u64,
    /// Plans that were simulated.
    pub simulated: u64,
    /// Choices of a plan for each kind.
    pub choices: f64,
    /// Schedules that were simulated.
    pub schedules: u64,
    /// Whether every choice was scheduled or proved no better.
    pub complete: bool,
    /// Whether it is proved that no choice of these plans and no schedule meets the goal.
    pub impossible: bool,
    /// No choice of these plans and no schedule within the goal has a smaller cost, or makespan if that is sought; USD or
    /// seconds.
    pub bound: f64,
    /// How much more than that is reached, as a fraction of it.
    pub gap: f64,
}
