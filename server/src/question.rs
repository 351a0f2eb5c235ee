//! What can be asked, and what it means.

use crate::refusal::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_models::{ModelSpec, from_hugging_face};
use trainyard_plan::document::{PLAN_SCHEMA, PlanDocument};
use trainyard_plan::{Fixed, JobSpec};
use trainyard_planner::what_if::{Axis, SoughtJob, Subject, axes};
use trainyard_planner::{Cancellation, Limits, Problem, Resources, SearchCache, UNNAMED_MODEL, problem};
use trainyard_pool::fleet::{FleetJob, FleetJobSpec, FleetSpec};

/// Which plan is best for a job?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanQuestion {
    /// The job, as in a job file. Fields that name files of machines or prices are refused.
    pub job: JobSpec,
    /// The content of the `config.json` of Hugging Face that `job.model.config` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Fields of the plan that are held, `parallel.tensor=8`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fix: Vec<String>,
    /// How much is done for the answer; a draft if left out.
    #[serde(default)]
    pub effort: Effort,
}

/// What would be if something of a job were otherwise?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfQuestion {
    /// The job, as in a job file. Fields that name files of machines or prices are refused.
    pub job: JobSpec,
    /// The content of the `config.json` of Hugging Face that `job.model.config` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// What is varied, one key or two, each with its values as `trainyard what-if --vary` takes them:
    /// `instances=1..16`, `price.instance=x0.8,x1.2`. Left out with `tornado`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<String>,
    /// Whether the job's plan is held, and simulated again for each value; otherwise the best plan is sought anew.
    #[serde(default)]
    pub hold: bool,
    /// Whether each assumption behind the job's plan is varied by its own uncertainty, in place of `vary`.
    #[serde(default)]
    pub tornado: bool,
    /// Fields of all plans that are held, `parallel.tensor=8`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fix: Vec<String>,
}

/// Which plans are best for jobs that share a pool?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetQuestion {
    /// The fleet, as in its file, with every job in place. Fields that name files are refused.
    pub fleet: FleetSpec,
    /// Fields of all plans that are held, `parallel.tensor=8`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fix: Vec<String>,
}

/// How much is done for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// A few plans are simulated, and nothing is said of why: quick enough to follow a slider. `search.gap` says how much
    /// better one could still be of the plans that were considered: on as many instances as there may be, on powers of
    /// two, and on half as many again, with micro-batches of powers of two.
    #[default]
    Draft,
    /// The best plan is proved to be the best, with reasons, as `trainyard plan` gives it.
    Proof,
}

/// Which model does a configuration describe?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelQuestion {
    /// The content of a `config.json` of Hugging Face.
    pub config: Value,
    /// What the model is to be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ModelQuestion {
    /// Returns the model that the configuration describes.
    pub(crate) fn model(&self) -> Result<ModelSpec, Refusal> {
        let name = self.name.as_deref().unwrap_or(UNNAMED_MODEL);
        from_hugging_face(&self.config.to_string(), name)
            .map_err(|error| Refusal::input(format!("in `config`: {error}")).field("config").hint(error.hint()))
    }
}

/// Number of clusters that a document ranks.
const TOP: usize = 5;

impl PlanQuestion {
    /// Returns the planning problem of the question.
    pub(crate) fn problem(&self) -> Result<Problem, Refusal> {
        Ok(problem(&self.job, resources(&self.job, self.config.as_ref())?)?)
    }

    /// Returns the limits of the search.
    pub(crate) fn limits(&self) -> Result<Limits, Refusal> {
        limits(&self.fix, TOP)
    }
}

impl WhatIfQuestion {
    /// Returns what is varied.
    pub(crate) fn axes(&self) -> Result<Vec<Axis>, Refusal> {
        if self.tornado && !self.vary.is_empty() {
            return Err(Refusal::input("`vary` and `tornado` exclude each other")
                .field("vary")
                .hint("leave out `vary`, or `tornado`".to_owned()));
        }
        if self.vary.is_empty() && !self.tornado {
            return Err(Refusal::input("`vary` is empty, but it must name what is varied")
                .field("vary")
                .hint("for example `\"vary\": [\"instances=1..16\"]`".to_owned()));
        }
        if self.tornado { Ok(Vec::new()) } else { Ok(axes(&self.vary)?) }
    }

    /// Returns the planning problem of the job.
    pub(crate) fn problem(&self) -> Result<Problem, Refusal> {
        Ok(problem(&self.job, resources(&self.job, self.config.as_ref())?)?)
    }

    /// Returns the limits of the searches.
    pub(crate) fn limits(&self) -> Result<Limits, Refusal> {
        limits(&self.fix, 1)
    }

    /// Returns the job that is varied. What its searches find out besides is kept in `cache` for later ones.
    pub(crate) fn subject(&self, cancellation: Cancellation, cache: SearchCache) -> Result<Subject, Refusal> {
        let resources = resources(&self.job, self.config.as_ref())?;
        let (spec, limits) = (self.job.clone(), self.limits()?);
        Ok(Subject::Job(Box::new(SoughtJob { spec, resources, limits, cancellation, cache })))
    }
}

impl FleetQuestion {
    /// Returns the jobs of the fleet, in their order.
    pub(crate) fn jobs(&self) -> Result<Vec<FleetJob>, Refusal> {
        refuse(&[("pool.file".into(), &self.fleet.pool.file)])?;
        let entries = self.fleet.jobs.iter().enumerate();
        let job = |(index, entry): (usize, &FleetJobSpec)| {
            let place = format!("job[{index}].");
            refuse(&[(format!("{place}file"), &entry.file)])?;
            let spec = entry.in_place();
            refuse_files(&spec, &place)?;
            refuse(&[(format!("{place}model.config"), &spec.model.config)])?;
            Ok(FleetJob { spec, resources: Resources::default() })
        };
        entries.map(job).collect()
    }

    /// Returns the limits of the searches.
    pub(crate) fn limits(&self) -> Result<Limits, Refusal> {
        limits(&self.fix, 1)
    }
}

/// Returns what a job names besides the catalogs: the model of the configuration that came with it.
fn resources(job: &JobSpec, config: Option<&Value>) -> Result<Resources, Refusal> {
    refuse_files(job, "")?;
    let model_file = match (config, &job.model.config) {
        (Some(config), Some(_)) => {
            let name = job.model.name.clone();
            Some(ModelQuestion { config: config.clone(), name }.model()?)
        }
        (Some(_), None) => {
            return Err(Refusal::input("`config` is there, but `model.config` does not name it")
                .field("config")
                .hint("write `\"config\": \"config.json\"` in `job.model`".to_owned()));
        }
        (None, Some(_)) => {
            return Err(Refusal::input("`model.config` names a file, but `config` does not hold its content")
                .field("model.config")
                .hint("send what is in the file as `config`".to_owned()));
        }
        (None, None) => None,
    };
    Ok(Resources { model_file, ..Resources::default() })
}

/// Returns the limits of a search that holds these fields.
fn limits(fix: &[String], top: usize) -> Result<Limits, Refusal> {
    let fixed = Fixed::parse(fix)
        .map_err(|error| Refusal::input(format!("in `fix`: {error}")).field("fix").hint(error.hint()))?;
    Ok(Limits { top, max_simulations: None, fixed })
}

/// Refuses jobs that name files: the server opens none of its machine's. `place` is what stands before their fields.
fn refuse_files(job: &JobSpec, place: &str) -> Result<(), Refusal> {
    let named = [
        ("model.file", &job.model.file),
        ("data.lengths", &job.data.lengths),
        ("cluster.profile", &job.cluster.profile),
        ("cluster.file", &job.cluster.file),
        ("cluster.constants", &job.cluster.constants),
        ("cluster.prices", &job.cluster.prices),
    ];
    refuse(&named.map(|(field, file)| (format!("{place}{field}"), file)))
}

/// Refuses a plan that names files of the machine, and a plan of another version.
pub(crate) fn check_plan(document: &PlanDocument) -> Result<(), Refusal> {
    if document.schema != PLAN_SCHEMA {
        let detail = format!("`schema` is `{}`, but this version reads `{PLAN_SCHEMA}`", document.schema);
        let hint = "POST /api/v1/plan answers with one, and `trainyard plan JOB --out PLAN.json` writes one";
        return Err(Refusal::input(detail).field("schema").hint(hint.to_owned()));
    }
    let cluster = &document.plan.cluster;
    let named = [
        ("plan.cluster.profile", &cluster.profile),
        ("plan.cluster.file", &cluster.file),
        ("plan.cluster.constants", &cluster.constants),
    ];
    refuse(&named.map(|(field, file)| (field.to_owned(), file)))
}

fn refuse(named: &[(String, &Option<String>)]) -> Result<(), Refusal> {
    match named.iter().find(|(_, file)| file.is_some()) {
        None => Ok(()),
        Some((field, _)) => Err(Refusal::input(format!("`{field}` names a file, and the server opens none"))
            .field(field)
            .hint("`trainyard plan` and `trainyard simulate` read files".to_owned())),
    }
}
