//! What a list says of a document: what it is about, and its first figures.

#[cfg(feature = "run")]
use trainyard_executor::RunReport;
use trainyard_history::Figures;
#[cfg(feature = "run")]
use trainyard_plan::document::ComparisonDocument;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::list::JobsDocument;
use trainyard_plan::{CampaignDocument, PlanSpec, ReplayDocument, WhatIfDocument};
use trainyard_pool::fleet::FleetDocument;
use trainyard_pool::queue::QueueDocument;
use trainyard_units::counted;

/// The model, machines and figures of a document, for lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Headline {
    pub(crate) model: Option<String>,
    pub(crate) machines: Option<String>,
    pub(crate) figures: Figures,
}

impl Headline {
    fn of(plan: &PlanSpec, figures: Figures) -> Self {
        Self { model: Some(plan.model.name.clone()), machines: Some(plan.cluster.to_string()), figures }
    }

    fn of_jobs(count: u64, makespan_s: f64, cost_usd: Option<f64>) -> Self {
        let figures = Figures { time_s: Some(makespan_s), cost_usd, ..Figures::default() };
        Self { model: None, machines: Some(counted(count, "job")), figures }
    }
}

impl From<&PlanDocument> for Headline {
    fn from(document: &PlanDocument) -> Self {
        let prediction = &document.prediction;
        let figures = Figures {
            step_time_s: Some(prediction.step_time_s),
            time_s: Some(prediction.elapsed_s()),
            cost_usd: prediction.cost_usd,
            ..Figures::default()
        };
        Self::of(&document.plan, figures)
    }
}

impl From<&CampaignDocument> for Headline {
    fn from(document: &CampaignDocument) -> Self {
        let figures = Figures {
            step_time_s: Some(document.step_time_s),
            time_s: Some(document.time_s.p50),
            cost_usd: document.cost_usd.as_ref().map(|cost| cost.p50),
            ..Figures::default()
        };
        Self::of(&document.plan, figures)
    }
}

impl From<&WhatIfDocument> for Headline {
    /// Takes the figures of the baseline, without variation.
    fn from(document: &WhatIfDocument) -> Self {
        let first = document.cases.iter().find_map(|case| case.figures.as_ref());
        let Some(base) = document.base.as_ref() else {
            let model = first.map(|figures| figures.plan.model.name.clone()).or(document.job.model.name.clone());
            return Self { model, ..Self::default() };
        };
        let figures = Figures {
            step_time_s: Some(base.step_time_s),
            time_s: Some(base.in_all_s),
            cost_usd: base.cost_usd,
            ..Figures::default()
        };
        Self::of(&base.plan, figures)
    }
}

impl From<&ReplayDocument> for Headline {
    fn from(document: &ReplayDocument) -> Self {
        let figures = Figures { step_time_s: Some(document.step_time_s), ..Figures::default() };
        Self { model: None, machines: Some(format!("{} × {}", document.instances, document.instance)), figures }
    }
}

impl From<&QueueDocument> for Headline {
    fn from(document: &QueueDocument) -> Self {
        let prediction = &document.prediction;
        let cost_usd = prediction.cost.map(|cost| cost.total_usd);
        Self::of_jobs(document.jobs.len() as u64, prediction.makespan_s, cost_usd)
    }
}

impl From<&FleetDocument> for Headline {
    fn from(document: &FleetDocument) -> Self {
        let jobs = document.plans.iter().map(|plan| u64::from(plan.count)).sum();
        let cost_usd = document.prediction.cost.map(|cost| cost.total_usd);
        Self::of_jobs(jobs, document.prediction.makespan_s, cost_usd)
    }
}

impl From<&JobsDocument> for Headline {
    fn from(document: &JobsDocument) -> Self {
        let figures = Figures { time_s: Some(document.makespan_s), ..Figures::default() };
        let jobs = counted(document.jobs.len() as u64, "job");
        let machines = format!("{jobs} on {}", counted(u64::from(document.devices), "device"));
        Self { model: None, machines: Some(machines), figures }
    }
}

#[cfg(feature = "run")]
impl From<(&ComparisonDocument, &RunReport)> for Headline {
    fn from((document, report): (&ComparisonDocument, &RunReport)) -> Self {
        let figures = Figures {
            step_time_s: Some(document.measured.step_time_s),
            predicted_step_time_s: document.predicted.map(|predicted| predicted.step_time_s),
            time_s: Some(report.steps.iter().map(|step| step.seconds).sum()),
            cost_usd: None,
            loss: Some(document.loss.last).filter(|loss| loss.is_finite()),
        };
        Self { machines: Some(document.device.clone()), ..Self::of(&document.plan, figures) }
    }
}
