//! Of the batches of a plan that cannot be told apart, those that people train with.

use super::aim::{Aim, Ceilings, other};
use super::near_optimal::{Among, INDISTINCT, MUCH, or_much_better, preferred_plan, simplest};
use super::space::Candidate;
use super::totals::{Evaluated, Totals};
use crate::problem::{NORMALISED_MIN, Problem, Training};

/// The relative difference of time and cost for which a step is not divided into more micro-batches, unless they change what is
/// learnt: a stated default, far less than can be predicted.
const AS_GOOD: f64 = 0.01;

/// The same for networks with batch normalisation while it sees fewer samples than it needs ([`NORMALISED_MIN`]): a stated default.
/// More micro-batches of fewer samples train another network, which no time is worth.
const NORMALISED: f64 = 0.25;

/// The part of a GPU's memory that larger micro-batches leave free where smaller ones would do: a stated default.
const ROOM: f64 = 0.2;

/// Returns the plan with the smallest global batch whose time and cost cannot be told from those of this plan, and of its
/// micro-batches the largest; the plan itself if it has them. `one` is the aim of a plan within the goal.
///
/// With a smaller batch the plan is chosen as if that batch had been asked for, unless that one can be told from this plan.
///
/// Over the same data a larger batch takes fewer optimizer steps, which has to pay. To a target, samples follow from the
/// batch, and a stated number of steps reads less with a smaller one: there the objective decides.
pub(super) fn with_usual_batch(among: Among<'_, '_>, problem: &Problem, one: Aim, chosen: Evaluated) -> Evaluated {
    let smaller = smallest_batch(among, problem, one, &chosen);
    let chosen = match smaller {
        Some(smaller) => asked_for(among, problem, one, &chosen, smaller),
        None => chosen,
    };
    fewest_micro_batches(among, problem, one, &chosen).unwrap_or(chosen)
}

/// Returns the simplest plan of the same software with the smallest batch for which no more has to be set up, and that takes and
/// costs little more.
fn smallest_batch(among: Among<'_, '_>, problem: &Problem, one: Aim, chosen: &Evaluated) -> Option<Evaluated> {
    if !matches!(problem.training, Training::Passes(_)) {
        return None;
    }
    let (allowed, own) = (problem.global_batches, chosen.plan.batch().global);
    let mut smaller = [allowed.usual(), allowed.like(own)].concat();
    smaller.retain(|batch| *batch < own);
    smaller.sort_unstable();
    smaller.dedup();
    let own = among.prepared.complexity(chosen);
    let software = &problem.place.software(chosen.choice).name;
    let stack = problem.place.stacks().iter().position(|stack| stack.name == *software);
    let aim = Aim { stack, ..alike(one, chosen, 1.0 + INDISTINCT) };
    let with = |batch| simplest(among, Aim { global: Some(batch), ..aim }, |class| class.set_up() <= own.set_up());
    smaller.into_iter().find_map(with).map(|(_, plan)| plan)
}

/// Returns the plan to recommend with the batch of the `smaller` one, if that is as good as the `chosen` plan and not much worse
/// in the other of time and cost; otherwise the smaller one, or what is as good as that and much better in the other.
fn asked_for(among: Among<'_, '_>, problem: &Problem, one: Aim, chosen: &Evaluated, smaller: Evaluated) -> Evaluated {
    let held = Aim { global: Some(smaller.plan.batch().global), ..one };
    let near = |objective, times| Ceilings::near(objective, Totals::found(chosen), times);
    let near = near(one.objective, 1.0 + INDISTINCT).and(near(other(one.objective), MUCH));
    let best = among.best(held).and_then(|best| preferred_plan(among, problem, held, &best));
    best.filter(|best| near.admit(Totals::found(best))).unwrap_or_else(|| {
        let as_good = Ceilings::near(one.objective, Totals::found(&smaller), 1.0);
        or_much_better(among, Aim { ceilings: one.ceilings.and(as_good), ..held }, smaller)
    })
}

fn fewest_micro_batches(among: Among<'_, '_>, problem: &Problem, one: Aim, chosen: &Evaluated) -> Option<Evaluated> {
    let memory = chosen.machine(problem).cluster.first().device.gpu()?.memory.value;
    let has_room = |plan: &Evaluated| plan.memory_peak.as_f64() <= (1.0 - ROOM) * memory.as_f64();
    // What is normalised over a micro-batch gains by a larger one.
    let normalises = problem.model.normalises_over_batches();
    let needs_more = normalises && chosen.plan.batch().micro < NORMALISED_MIN;
    // Micro-batches fill a pipeline.
    if chosen.plan.mesh().pipeline() > 1 && !needs_more {
        return None;
    }
    let as_good = match (normalises, needs_more) {
        (_, true) => NORMALISED,
        (true, _) => INDISTINCT,
        _ => AS_GOOD,
    };
    let aim = Aim { complexity: Some(among.prepared.complexity(chosen)), ..alike(one, chosen, 1.0 + as_good) };
    let plan = &chosen.plan;
    let least = if needs_more { NORMALISED_MIN } else { 0 };
    let fewer = |own: &&Candidate| {
        (own.choice, own.instances, own.parallel) == (chosen.choice, plan.cluster().instances, plan.mesh().parallel())
            && (own.precision, own.recompute) == (plan.precision(), plan.recompute())
            && own.batch.global == plan.batch().global
            && own.batch.accumulation < plan.batch().accumulation
            && own.batch.micro >= least
    };
    let mut fewer: Vec<Candidate> = among.prepared.candidates.iter().filter(fewer).copied().collect();
    // The largest, or what batch normalisation needs and no more.
    fewer.sort_unstable_by_key(|own| if least > 0 { own.batch.micro } else { own.batch.accumulation });
    fewer.into_iter().find_map(|own| among.best(Aim { only: Some(own), ..aim }).filter(has_room))
}

/// Returns the aim of a plan that takes and costs little more than this one.
fn alike(one: Aim, chosen: &Evaluated, times: f64) -> Aim {
    let near = |objective| Ceilings::near(objective, Totals::found(chosen), times);
    Aim { ceilings: one.ceilings.and(near(one.objective)).and(near(other(one.objective))), ..one }
}

#[cfg(test)]
mod tests {
    use super::NORMALISED_MIN;
    use crate::asking;
    use crate::problem::{Resources, problem};
    use trainyard_plan::GlobalBatch;
    use trainyard_plan::document::PlanDocument;

    fn planned(model: &str, batch: GlobalBatch) -> PlanDocument {
        let mut job = asking::job(model, 1, &["p4d.24xlarge"], 1);
        (job.data.samples, job.training.global_batch) = (Some(10_000_000), Some(batch));
        asking::planned(&job)
    }

    #[test]
    fn a_larger_batch_has_to_pay() {
        let open = planned("gpt2", GlobalBatch::Between { min: 64, max: 4096 });
        let held = planned("gpt2", GlobalBatch::Exactly(4096));
        let cost = |document: &PlanDocument| document.prediction.cost_usd.expect("rented");
        assert!(open.plan.batch.global < 4096, "{:?}", open.plan.batch);
        assert!(cost(&open) < 1.06 * cost(&held), "{} {}", cost(&open), cost(&held));
        // Nor does a smaller one pay for other software.
        assert_eq!(open.plan.stack.as_deref(), Some("pytorch-ddp-compiled"));
        assert!(open.reasons.iter().any(|told| told.starts_with("global batch ")), "{:?}", open.reasons);
    }

    #[test]
    fn micro_batches_are_not_accumulated_for_nothing() {
        let batch = planned("resnet50", GlobalBatch::Exactly(2048)).plan.batch;
        assert_eq!((batch.micro, batch.accumulation), (256, 1));
    }

    /// Large images make a step of small micro-batches a little faster: caches hold more of them.
    #[test]
    fn batch_normalisation_sees_the_samples_that_it_needs() {
        let of = |norm: &str| {
            let text = format!(
                r#"
                name = "own"
                family = "layers"
                input = {{ channels = 3, height = 256, width = 256 }}
                [[layer]]
                name = "stem"
                operators = [{{ conv = 64, kernel = 3, norm = "{norm}", activation = "relu" }}]
                [[layer]]
                name = "block"
                repeat = 8
                operators = [{{ add = [[{{ conv = 64, kernel = 3, norm = "{norm}" }}], []] }}, "relu"]
                [[layer]]
                name = "head"
                operators = ["global_pool", {{ linear = 100 }}, "cross_entropy"]
                "#
            );
            let model_file = Some(toml::from_str(&text).expect("the form of a model"));
            let mut job = asking::job("own", 128, &["g6e.xlarge"], 1);
            (job.model.name, job.model.file) = (None, Some("own.toml".into()));
            (job.data.samples, job.data.dataset) = (Some(10_000_000), Some("none".into()));
            let problem = problem(&job, Resources { model_file, ..Resources::default() }).expect("a solvable job");
            asking::answered(&problem, &job, &[]).expect("a plan").plan.batch.micro
        };
        assert!(of("instance") < NORMALISED_MIN, "{}", of("instance"));
        assert_eq!(of("batch"), NORMALISED_MIN);
    }
}
