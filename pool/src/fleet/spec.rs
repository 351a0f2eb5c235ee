//! Fleets as written: jobs that are to be planned together, because they share a pool of instances, a deadline and a
//! budget. `valid.rs` checks them.

use crate::queue::{PolicySpec, PoolSpec, StartSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_plan::{CampaignSpec, ClusterChoice, DataSpec, GoalSpec, JobSpec, ModelChoice, Pricing, TrainingSpec};
use trainyard_units::{numbers_or_texts, written, written_option};

/// A fleet of jobs as a TOML file describes it. Durations are texts with a unit, `12 h`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetSpec {
    /// The instances that the jobs share.
    pub pool: FleetPoolSpec,
    /// What is sought for all jobs together: the deadline is for the last of them, from the first submission on, the budget for all
    /// of them.
    #[serde(default)]
    pub goal: GoalSpec,
    /// Who goes first; chosen if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySpec>,
    /// The jobs, each perhaps many times.
    #[serde(default, rename = "job")]
    pub jobs: Vec<FleetJobSpec>,
}

/// The instances that the jobs share: a quota of each of some types; or machines of one's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct FleetPoolSpec {
    /// A cluster file, relative to this one: the jobs share its machines, each kind of which is a type with its count as the
    /// quota. Instead of everything that says how instances are rented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Instance types, `*` standing for any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub instances: Option<Vec<String>>,
    /// The quota of each type: the most instances of it that are held at once, in use or kept warm.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_instances: Option<u32>,
    /// What the account may rent at once, as `cluster.quotas` of a job says it. Each type is used up to the quota that applies to
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<BTreeMap<String, u64>>,
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
    /// The quota of instances of each type that are kept without a job; `max_instances` if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub max_warm_instances: Option<u32>,
}

/// A job of a fleet: a JOB in a file of its own or in place, and how often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetJobSpec {
    /// What it is called; after its file or its model if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A job file, relative to this file, instead of what a job says in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// How many jobs of this kind there are, such as trials of a search for hyper-parameters.
    #[serde(default = "one", deserialize_with = "written")]
    #[schemars(transform = numbers_or_texts, range(min = 1))]
    pub count: u32,
    /// When they come, after the start of the fleet; at once if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submit: Option<String>,
    /// Jobs of a higher priority go first.
    #[serde(default, deserialize_with = "written")]
    #[schemars(transform = numbers_or_texts)]
    pub priority: i32,
    /// What is trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelChoice>,
    /// On what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<DataSpec>,
    /// How.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training: Option<TrainingSpec>,
    /// Which instances of the pool, and their software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterChoice>,
    /// A deadline of each job of the kind, from its submission to its end, and a budget of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalSpec>,
    /// What happens around the steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaign: Option<CampaignSpec>,
}

fn one() -> u32 {
    1
}

impl FleetPoolSpec {
    /// Returns the part of the pool that is of one machine type, of which there are so many, as a queue describes it.
    pub fn of_type(&self, instance: &str, quota: Option<u32>) -> PoolSpec {
        PoolSpec {
            file: self.file.clone(),
            instance: instance.into(),
            max_instances: quota,
            region: self.region.clone(),
            pricing: self.pricing,
            service: self.service.clone(),
            start: self.start.clone(),
            warm_pool: self.warm_pool,
            keep_alive: self.keep_alive.clone(),
            max_warm_instances: self.max_warm_instances,
        }
    }

    /// Returns the same pool, in which no instance is kept for another job.
    pub(super) fn without_warm_pool(&self) -> Self {
        Self {
            start: StartSpec { warm: None, ..self.start.clone() },
            warm_pool: false,
            keep_alive: None,
            max_warm_instances: None,
            ..self.clone()
        }
    }
}

impl FleetJobSpec {
    /// Returns the job that is written in place.
    pub fn in_place(&self) -> JobSpec {
        JobSpec {
            model: self.model.clone().unwrap_or_default(),
            data: self.data.clone().unwrap_or_default(),
            training: self.training.clone().unwrap_or_default(),
            cluster: self.cluster.clone().unwrap_or_default(),
            goal: self.goal.clone().unwrap_or_default(),
            campaign: self.campaign.clone(),
        }
    }

    /// Returns the first field of a job that is written in place, if one is.
    pub fn first_in_place(&self) -> Option<&'static str> {
        let fields = [
            ("model", self.model.is_some()),
            ("data", self.data.is_some()),
            ("training", self.training.is_some()),
            ("cluster", self.cluster.is_some()),
            ("goal", self.goal.is_some()),
            ("campaign", self.campaign.is_some()),
        ];
        fields.into_iter().find(|(_, written)| *written).map(|(field, _)| field)
    }

    /// Returns the name of the kind: its own, or that of its file or of its model; `number` tells it apart if it has
    /// none.
    pub fn called(&self, number: usize) -> String {
        let of_file = self.file.as_deref().map(|file| {
            let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
            name.strip_suffix(".toml").unwrap_or(name).to_owned()
        });
        let of_model = self.model.as_ref().and_then(|model| model.name.clone());
        self.name.clone().or(of_file).or(of_model).unwrap_or_else(|| format!("job {number}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_called_by_their_name_their_file_or_their_model() {
        let model = Some(ModelChoice { name: Some("gpt2".into()), ..ModelChoice::default() });
        let job = |name: Option<&str>, file: Option<&str>, model: Option<ModelChoice>| FleetJobSpec {
            name: name.map(Into::into),
            file: file.map(Into::into),
            model,
            ..FleetJobSpec::default()
        };
        assert_eq!(job(Some("trial"), None, model.clone()).called(3), "trial");
        assert_eq!(job(None, Some("jobs/tune.toml"), None).called(3), "tune");
        assert_eq!(job(None, None, model).called(3), "gpt2");
        assert_eq!(job(None, None, None).called(3), "job 3");
    }
}
