//! Pictures of documents: what a plan does with its time, memory and money, and how predictions compare with
//! measurements. Each is made of what [`crate::chart`] has, and shows only numbers that stand in its document.

mod bandwidth;
mod campaign;
mod front;
mod memory;
mod path;
mod phases;
mod roofline;
mod step;
mod tornado;
mod training;
mod validation;
mod what_if;

pub use bandwidth::{bandwidth, measured_bandwidth};
pub use campaign::campaign_plot;
pub use front::front_plot;
pub use memory::memory_plot;
pub use path::{path_plot, paths_plot};
pub use phases::phases;
pub(crate) use roofline::roofline_plot;
pub use step::step_gantt;
pub use training::{StepPoint, training};
pub use validation::predicted_against_measured;
pub use what_if::what_if_plot;

#[cfg(test)]
pub(crate) mod tests {
    use trainyard_plan::document::{
        Alternative, Memory, MethodChoice, PLAN_SCHEMA, Phases, PlanDocument, Prediction, PriceUsed, Search,
        StageMemory,
    };
    use trainyard_plan::{
        CAMPAIGN_SCHEMA, CampaignDocument, CampaignPhases, CheckpointUse, ClusterSpec, CostPart, ExplainedPlan,
        GoalSpec, Histogram, Interruptions, JobSpec, Method, PathKind, PathPart, PlanSpec, Pricing, Quantiles,
    };

    fn plan() -> PlanSpec {
        let model = trainyard_models::find("gpt2").expect("in the catalog").model.spec();
        PlanSpec::plain(model, ClusterSpec::of("p4d.24xlarge", 2), 14)
    }

    fn price() -> PriceUsed {
        PriceUsed {
            usd_per_hour: 32.77,
            low_usd_per_hour: 32.77,
            high_usd_per_hour: 32.77,
            region: Some("us-east-1".into()),
            service: Some("ec2".into()),
            pricing: Some(Pricing::OnDemand),
            date: Some("2026-11-01".into()),
            source: "a price list".into(),
            kinds: Vec::new(),
            zones: Vec::new(),
            interruptions: None,
        }
    }

    fn alternative(instances: u32, time_s: f64, cost: f64, pricing: Pricing) -> Alternative {
        let plan = PlanSpec { pricing, cluster: ClusterSpec::of("p4d.24xlarge", instances), ..plan() };
        let (step_time_s, price) = (time_s / 1000.0, Some(price()));
        Alternative { plan, step_time_s, time_s, cost_usd: Some(cost), price, memory_peak_bytes: 20 << 30 }
    }

    /// Returns three methods of fine-tuning, the first of which has no plan.
    pub(crate) fn methods() -> Vec<MethodChoice> {
        let choice = |method, best: Option<Alternative>| MethodChoice {
            method,
            trained_parameters: 40_000_000,
            parameters: 8_000_000_000,
            reason: best.is_none().then(|| "does not fit".into()),
            best,
            smallest: None,
            chosen: method == Method::Lora,
        };
        let best = || Some(alternative(1, 3600.0, 22.0, Pricing::OnDemand));
        vec![choice(Method::Full, None), choice(Method::Lora, best()), choice(Method::Qlora, best())]
    }

    fn prediction() -> Prediction {
        let held = StageMemory {
            parameters: 1 << 30,
            gradients: 1 << 30,
            optimizer_state: 4 << 30,
            activations: 9 << 30,
            buffers: 1 << 29,
            workspace: 1 << 29,
            loading: 0,
            software: 2 << 30,
            total: 18 << 30,
            limit: None,
        };
        Prediction {
            step_time_s: 0.1,
            interval_s: [0.09, 0.12],
            samples_per_s: 640.0,
            tokens_per_s: Some(655_360.0),
            mfu: Some(0.41),
            input: None,
            bubble: 0.1,
            exposed_communication_s: 0.02,
            phases: Phases { forward_s: 0.02, backward_s: 0.04, communication_s: 0.02, ..Phases::default() },
            utilisation: vec![0.7, 0.6],
            memory_bytes: Memory { limit: 40 << 30, stages: vec![held; 2], host: None, disk: None },
            steps: 1_000_000,
            time_s: 1e5,
            in_all_s: Some(1e5 + 500.0),
            start_up_s: Some(400.0),
            queued_s: None,
            weights_s: None,
            checkpoints_s: Some(100.0),
            evaluations_s: None,
            reference_s: None,
            jobs: None,
            interruptions: None,
            failures: None,
            checkpoint_interval_s: None,
            cost_usd: Some(1_830.0),
            cost_parts: None,
            cost_interval_usd: Some([1_700.0, 2_100.0]),
            price: Some(price()),
            within_deadline: Some(0.98),
            within_budget: Some(0.6),
        }
    }

    /// Returns a plan on two machines, with a front on two kinds of terms, a deadline and a budget.
    pub(crate) fn plan_document() -> PlanDocument {
        let goal = GoalSpec { deadline: Some("3 d".into()), budget: Some(2500.0), ..GoalSpec::default() };
        PlanDocument {
            schema: PLAN_SCHEMA.into(),
            job: JobSpec { goal, ..JobSpec::default() },
            plan: plan(),
            prediction: prediction(),
            reasons: vec!["it is the cheapest within 3 days".into()],
            warnings: vec!["prices are of one day".into()],
            evidence: Vec::new(),
            missed: None,
            to_meet_goal: None,
            optimum: None,
            stacks: Vec::new(),
            alternatives: vec![alternative(4, 6e4, 2_200.0, Pricing::OnDemand)],
            pareto: vec![
                alternative(8, 3e4, 2_400.0, Pricing::OnDemand),
                alternative(2, 1e5, 1_830.0, Pricing::OnDemand),
                alternative(8, 3e4, 900.0, Pricing::Spot),
                alternative(1, 2e5, 600.0, Pricing::Spot),
            ],
            rejected: Vec::new(),
            changes: Vec::new(),
            remedies: Vec::new(),
            precisions: Vec::new(),
            methods: Vec::new(),
            batches: Vec::new(),
            search: Search { candidates: 1200, simulated: 40, gap: 0.0, left_out: None },
        }
    }

    /// Returns the critical path of that plan's step.
    pub(crate) fn explained() -> ExplainedPlan {
        let part = |kind, between_machines, time_s| PathPart { kind, between_machines, time_s };
        ExplainedPlan {
            file: "plan.json".into(),
            plan: plan(),
            description: vec!["Each of 16 devices holds the whole model.".into()],
            prediction: prediction(),
            critical_path: vec![
                part(PathKind::Forward, false, 0.02),
                part(PathKind::Backward, false, 0.06),
                part(PathKind::GradientReduction, true, 0.02),
            ],
            fullest_stage: 0,
            cost_parts: vec![CostPart { what: "2 × p4d.24xlarge".into(), usd: 1_830.0 }],
            reasons: vec!["it is the cheapest within 3 days".into()],
            warnings: vec!["prices are of one day".into()],
        }
    }

    /// Returns a campaign of that plan's training.
    pub(crate) fn campaign_document() -> CampaignDocument {
        let quantiles = |scale: f64| Quantiles { p5: scale, p50: 1.05 * scale, p95: 1.4 * scale, mean: 1.1 * scale };
        let histogram = |scale: f64| {
            let courses = (0..40_u64).map(|part| 100 / (1 + part)).collect();
            Some(Histogram { from: 0.98 * scale, to: 1.8 * scale, courses, beyond: 3 })
        };
        CampaignDocument {
            schema: CAMPAIGN_SCHEMA.into(),
            plan: plan(),
            runs: 430,
            seed: 0,
            steps: 1_000_000,
            step_time_s: 0.1,
            time_s: quantiles(1e5),
            cost_usd: Some(quantiles(1_830.0)),
            time_histogram_s: histogram(1e5),
            cost_histogram_usd: histogram(1_830.0),
            goodput: Quantiles { p5: 0.8, p50: 0.9, p95: 0.95, mean: 0.9 },
            within_deadline: None,
            within_budget: None,
            phases: CampaignPhases { training_s: 1e5, lost_s: 1e3, ..CampaignPhases::default() },
            interruptions: Interruptions { reclaims: 2.0, failures: 0.01 },
            checkpoint: CheckpointUse { bytes: 2 << 30, write_s: 8.0, interval_s: 600.0, best_interval_s: 590.0 },
            scenarios: Vec::new(),
            price: Some(price()),
            assumptions: vec!["a machine fails every 6000 h (a published cluster)".into()],
            warnings: Vec::new(),
        }
    }
}
