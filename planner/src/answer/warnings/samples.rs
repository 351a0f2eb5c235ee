//! Warnings of samples that were assumed, or of which nothing is known.

use crate::problem::{Problem, Stored, TEXT, data_set, name_in_catalog, stored, usual_set};
use trainyard_models::{Model, example_for};
use trainyard_plan::{DataSpec, Fixed, JobSpec, Plan};
use trainyard_sim::LoaderRates;
use trainyard_units::{Seconds, human_count};

/// The part of a step that reading tokens must add to be reported.
const NOTICEABLE: f64 = 0.01;

/// Warns of samples that were assumed, or about which nothing is known.
pub(super) fn unsure_of_samples(
    problem: &Problem,
    job: &JobSpec,
    plan: &Plan,
    choice: usize,
    step_time_s: f64,
) -> Option<String> {
    let model = &problem.model;
    match stored(job, model).ok()? {
        Stored::Unknown => Some(format!(
            "nothing is known of how samples are stored: reading and decoding them are not in the time; {}--bytes-per-sample \
             and --storage add them, --dataset none says that they are there",
            example_for(model).map_or_else(String::new, |set| format!("--dataset {}, say, or ", set.name)),
        )),
        Stored::AsTokens => slow_tokens(problem, job, plan, choice, step_time_s),
        Stored::As(samples) if samples.assumed => {
            let set = usual_set(job, model)?;
            if let (None, Some(data)) = (problem.data, data_set(job, model).ok()?) {
                let why = data.refusal(&Fixed::default(), &problem.place.machine(choice, 1, None))?;
                return Some(format!(
                    "reading and decoding of samples are not counted: {why}; --dataset none says that samples are there"
                ));
            }
            plan.input()?;
            Some(format!(
                "samples are taken to be those of `{}`, {}: {} bytes each, as {}; --dataset, --bytes-per-sample and --storage \
                 say otherwise",
                set.name,
                match name_in_catalog(&job.model) {
                    Some(_) => format!("on which {} is usually trained", model.name()),
                    None => "as the job says nothing of them".into(),
                },
                human_count(samples.bytes.round() as u64),
                set.format.name(),
            ))
        }
        Stored::There | Stored::As(_) => None,
    }
}

/// Returns `true` if how samples are stored may decide, and the job says nothing of it: those of a model of one's own that reads
/// no tokens.
pub(super) fn may_decide(job: &JobSpec, model: &Model) -> bool {
    let open = match stored(job, model) {
        Ok(Stored::Unknown) => true,
        Ok(Stored::As(samples)) => samples.assumed && name_in_catalog(&job.model).is_none(),
        _ => false,
    };
    open && example_for(model).is_some()
}

/// Warns that a plan whose steps take this long waits for tokens, contrary to the assumption of the search.
fn slow_tokens(problem: &Problem, job: &JobSpec, plan: &Plan, choice: usize, step_time_s: f64) -> Option<String> {
    let explicit = DataSpec { dataset: Some(TEXT.into()), ..job.data.clone() };
    let data = data_set(&JobSpec { data: explicit, ..job.clone() }, &problem.model).ok()??;
    let machine = problem.place.machine_of(choice, plan);
    let supplies = data.supplies(&Fixed::default(), &machine, plan.mesh().parallel(), plan.batch()).ok()?;
    let rate =
        |supply: &LoaderRates| supply.feed(Seconds(step_time_s), 1).rates.into_iter().fold(f64::INFINITY, f64::min);
    let best = supplies.iter().map(|(_, supply)| rate(supply)).fold(0.0, f64::max);
    let longer = plan.batch().global as f64 / best / step_time_s - 1.0;
    (longer > NOTICEABLE).then(|| {
        format!(
            "reading the tokens of a step takes {:.0} % longer than the step, which is not counted: --dataset text adds it",
            100.0 * longer
        )
    })
}
