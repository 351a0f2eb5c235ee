//! What a plan is and where its step goes, and what tells two plans apart.

mod compare;
mod words;

use crate::loading::loading;
use crate::predict::{MachineFiles, machine, plan_of, resimulate};
use crate::problem::inside;
use trainyard_plan::document::{CostKind, PlanDocument, Prediction};
use trainyard_plan::{CostPart, EXPLANATION_SCHEMA, ExplainedPlan, ExplanationDocument, PathKind, PathPart, Plan};
use trainyard_sim::{Options, critical_path, spread};
use trainyard_units::{Invalid, Seconds, human_duration};

/// A change of the prediction by more than this share is reported.
const NOTICEABLE: f64 = 0.001;

/// A plan document with the path of its file and the contents of the files that it names.
#[derive(Clone, Debug)]
pub struct NamedPlan {
    /// The file, as the user names it.
    pub file: String,
    /// The document in the file.
    pub document: PlanDocument,
    /// The contents of the files that the plan names for its machines.
    pub files: MachineFiles,
}

/// The reason why plans cannot be explained.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{invalid}")]
pub struct ExplainError {
    /// The file of the plan.
    pub file: String,
    /// The file of the plan with which it cannot be compared.
    pub other: Option<String>,
    /// What is wrong.
    pub invalid: Box<Invalid>,
}

impl NamedPlan {
    pub(crate) fn wrong(&self, invalid: Invalid) -> ExplainError {
        ExplainError { file: self.file.clone(), other: None, invalid: Box::new(invalid) }
    }
}

/// Explains a plan, simulated anew, and, if there is a second plan, what tells the two apart.
///
/// # Errors
///
/// When one of them is not valid or does not go onto its machines, or when they train different models.
pub fn explain(own: &NamedPlan, against: Option<&NamedPlan>) -> Result<ExplanationDocument, ExplainError> {
    let mut notes = Vec::new();
    let plan = explained(own, &mut notes)?;
    let Some(other) = against else {
        return Ok(ExplanationDocument {
            schema: EXPLANATION_SCHEMA.into(),
            plan,
            against: None,
            differences: Vec::new(),
            verdict: Vec::new(),
            notes,
        });
    };
    compare::same_model(own, other)?;
    let against = explained(other, &mut notes)?;
    notes.extend(compare::notes(own, other));
    Ok(ExplanationDocument {
        schema: EXPLANATION_SCHEMA.into(),
        differences: compare::differences(own, other),
        verdict: compare::verdict(&plan, &against),
        plan,
        against: Some(against),
        notes,
    })
}

fn explained(named: &NamedPlan, notes: &mut Vec<String>) -> Result<ExplainedPlan, ExplainError> {
    let refused = |error| named.wrong(error);
    let document = &named.document;
    let plan = plan_of(document).map_err(refused)?;
    let machine = machine(document, named.files.clone()).map_err(refused)?;
    let (again, outcome) = resimulate(document, named.files.clone(), Options::default()).map_err(refused)?;
    let mut path = critical_path(&plan, &machine).map_err(|error| refused(inside("plan", &error, error.hint())))?;
    let prediction = again.prediction;
    // A step that waits for samples takes longer than the simulated one, which finds them there.
    let wait = prediction.step_time_s - outcome.step_time.0;
    if wait > 0.0 {
        path.push(PathPart { kind: PathKind::InputWait, between_machines: false, time_s: wait });
    }
    notes.extend(changed(&named.file, &document.prediction, &prediction));
    let loading = loading(&PlanDocument { prediction: prediction.clone(), ..document.clone() });
    let full =
        outcome.footprint.fits_without_margin().err().map(|full| format!("the plan does not fit into memory: {full}"));
    Ok(ExplainedPlan {
        file: named.file.clone(),
        description: words::description(&plan, spread(&plan, &machine), &prediction, loading.as_ref()),
        critical_path: path,
        fullest_stage: prediction.memory_bytes.fullest_stage().map_or(0, |stage| stage as u32),
        cost_parts: cost_parts(&plan, &prediction),
        plan: plan.spec().clone(),
        prediction,
        reasons: document.reasons.clone(),
        warnings: full.into_iter().chain(document.warnings.iter().cloned()).collect(),
    })
}

/// Warns that the file's prediction differs from the new one.
fn changed(file: &str, written: &Prediction, found: &Prediction) -> Option<String> {
    let ratio = found.step_time_s / written.step_time_s;
    let text = |seconds| human_duration(Seconds(seconds));
    ((ratio - 1.0).abs() > NOTICEABLE).then(|| {
        format!(
            "`{file}` says {} a step, but simulated anew it is {}: the catalog or the program has changed since",
            text(written.step_time_s),
            text(found.step_time_s)
        )
    })
}

/// Splits the price into its parts.
fn cost_parts(plan: &Plan, prediction: &Prediction) -> Vec<CostPart> {
    let (Some(usd), Some(price)) = (prediction.cost_usd, &prediction.price) else { return Vec::new() };
    let cluster = plan.cluster();
    let rate = if price.kinds.is_empty() {
        format!("{:.2} USD/h each", price.usd_per_hour)
    } else {
        format!("{:.2} USD/h together", price.of_all(cluster.instances))
    };
    let what = format!("{cluster} for {} at {rate}", human_duration(Seconds(prediction.time_s)));
    let Some(parts) = prediction.cost_parts else { return vec![CostPart { what, usd }] };
    let words = |kind| match kind {
        CostKind::Steps => &what,
        CostKind::StartUp => "start-up",
        CostKind::Checkpoints => "writing checkpoints",
        CostKind::Evaluations => "evaluating the model",
        CostKind::Reference => "scores of the reference model",
        CostKind::Interruptions => "interruptions of spot instances",
        CostKind::Failures => "failures of machines",
        CostKind::Storage => "keeping checkpoints and data",
        CostKind::Requests => "requests to S3",
        CostKind::Unused => "the rest of the capacity block",
    };
    let spent = parts.each().into_iter().filter(|(_, usd)| *usd > 0.0);
    spent.map(|(kind, usd)| CostPart { what: words(kind).to_owned(), usd }).collect()
}
