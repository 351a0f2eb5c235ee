//! How number formats and batches compare on the recommended machines.

use super::solve::recommended;
use crate::problem::{Problem, Training, executable_on};
use crate::relative::percent_of;
use crate::search::{Evaluated, INDISTINCT, Totals, is_quick};
use crate::shortfall::TooLarge;
use trainyard_plan::document::{BatchChoice, PrecisionChoice, Prediction};
use trainyard_plan::{BatchSpec, Fixed, GradientReduction, Plan, PlanSpec, Precision};
use trainyard_sim::{Machine, footprint};
use trainyard_units::{Bytes, human_count};

/// The most global batches that are compared with the recommended one, on either side.
const NEIGHBOURS: usize = 4;

/// The largest micro-batch that is compared with the recommended one, as a multiple of it; smaller ones likewise.
const MICRO_FACTOR_MAX: u64 = 4;

/// A number format with its best plan or, if none fits, those that do not.
pub(crate) struct Tried {
    pub(crate) precision: Precision,
    /// Fields that were held in its search.
    pub(crate) fixed: Fixed,
    pub(crate) best: Option<Evaluated>,
    pub(crate) too_large: Option<TooLarge>,
}

/// The recommended plan with its problem and the user's held fields.
pub(crate) struct Tuning<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) fixed: &'a Fixed,
    pub(crate) chosen: &'a Evaluated,
    pub(crate) prediction: &'a Prediction,
}

impl Tuning<'_> {
    /// Tries the number formats that the job allows and that are not held, the recommended one first, with the same
    /// work.
    pub(crate) fn tried(&self) -> Vec<Tried> {
        let own = self.chosen.plan.precision();
        let (best, fixed) = (Some(self.chosen.clone()), self.same_work());
        let mut all = vec![Tried { precision: own, fixed, best, too_large: None }];
        if self.fixed.precision.is_some() {
            return all;
        }
        let machine = self.chosen.machine(self.problem);
        let usable = |other: &Precision| *other != own && machine.has_units(*other).is_ok();
        let others = self.problem.precisions.iter().copied().filter(usable);
        all.extend(others.map(|precision| {
            let fixed = Fixed { precision: Some(precision), ..self.same_work() };
            let (best, too_large) = recommended(self.problem, &fixed);
            Tried { precision, fixed, best, too_large }
        }));
        all
    }

    /// Converts the number formats into their form in a document; empty if there is only one.
    pub(crate) fn precisions(&self, tried: &[Tried]) -> Vec<PrecisionChoice> {
        if tried.len() < 2 {
            return Vec::new();
        }
        let choice = |tried: &Tried| {
            let Evaluated { plan, step_time_s, elapsed_s, cost_usd, memory_peak, .. } = tried.best.as_ref()?;
            Some(PrecisionChoice {
                precision: tried.precision,
                stack: plan.stack().map(Into::into),
                parallel: plan.mesh().parallel(),
                state_sharding: plan.state_sharding(),
                batch: plan.batch(),
                recompute: plan.recompute(),
                step_time_s: *step_time_s,
                time_s: *elapsed_s,
                cost_usd: *cost_usd,
                memory_peak_bytes: memory_peak.0,
                recommended: tried.precision == self.chosen.plan.precision(),
            })
        };
        tried.iter().filter_map(choice).collect()
    }

    /// Tries other global batches if the job allows several, otherwise other micro-batches; ascending.
    pub(crate) fn batches(&self) -> Vec<BatchChoice> {
        if !is_quick(&self.chosen.plan) {
            return Vec::new();
        }
        let open = self.problem.global_batches.are_open() && self.fixed.global.is_none();
        let all: Vec<BatchChoice> = if open { self.global_batches() } else { self.micro_batches() };
        if all.len() > 1 { all } else { Vec::new() }
    }

    fn global_batches(&self) -> Vec<BatchChoice> {
        let own = self.chosen.plan.batch().global;
        let all = self.problem.global_batches.like(own);
        let at = all.iter().position(|batch| *batch == own).unwrap_or(0);
        let near =
            all.iter().enumerate().filter(|(index, _)| index.abs_diff(at) <= NEIGHBOURS).map(|(_, batch)| *batch);
        near.filter_map(|global| {
            if global == own {
                return Some(self.choice(
                    self.chosen.plan.batch(),
                    Some(Totals::found(self.chosen)),
                    self.chosen.memory_peak,
                ));
            }
            let mesh = self.chosen.plan.mesh();
            let fixed = Fixed {
                global: Some(global),
                tensor: Some(mesh.tensor()),
                pipeline: Some(mesh.pipeline()),
                context: Some(mesh.context()),
                precision: Some(self.chosen.plan.precision()),
                ..self.same_work()
            };
            let best = recommended(self.problem, &fixed).0?;
            Some(self.choice(best.plan.batch(), Some(Totals::found(&best)), best.memory_peak))
        })
        .collect()
    }

    fn micro_batches(&self) -> Vec<BatchChoice> {
        let BatchSpec { micro: own, global, .. } = self.chosen.plan.batch();
        let replica = self.chosen.plan.samples_per_replica();
        let near = |micro: &u64| {
            *micro <= own.saturating_mul(MICRO_FACTOR_MAX) && micro.saturating_mul(MICRO_FACTOR_MAX) >= own
        };
        let doubled =
            std::iter::successors(Some(1_u64), |micro| micro.checked_mul(2)).take_while(|micro| *micro <= replica);
        let mut all: Vec<u64> =
            doubled.chain([own]).filter(|micro| near(micro) && replica.is_multiple_of(*micro)).collect();
        all.sort_unstable();
        all.dedup();
        let machine = self.chosen.machine(self.problem);
        all.into_iter()
            .filter_map(|micro| {
                let batch = BatchSpec { global, micro, accumulation: replica / micro };
                if micro == own {
                    return Some(self.choice(batch, Some(Totals::found(self.chosen)), self.chosen.memory_peak));
                }
                let (totals, memory_peak) = self.in_micro_batches(batch, &machine)?;
                Some(self.choice(batch, totals, memory_peak))
            })
            .collect()
    }

    /// Predicts the recommended plan with other micro-batches: what it takes, unless it does not fit, and the memory that
    /// it needs. Gradients are reduced as suits the micro-batches, for more of them may have to be kept between these.
    fn in_micro_batches(&self, batch: BatchSpec, machine: &Machine) -> Option<(Option<Totals>, Bytes)> {
        let spec = self.chosen.plan.spec();
        let software = executable_on(machine).ok()?;
        let allowed = |reduction: &GradientReduction| {
            software.reduces(*reduction, spec.state_sharding, batch.accumulation)
                && self.fixed.gradient_reduction.is_none_or(|held| held == *reduction)
        };
        let with = |gradient_reduction: GradientReduction| {
            let plan = Plan::try_from(PlanSpec { batch, gradient_reduction, ..spec.clone() }).ok()?;
            let needed = footprint(&plan, machine);
            let simulated = || Totals::simulated(self.problem, &plan, self.chosen.choice, machine);
            let totals = if needed.fits().is_ok() && is_quick(&plan) { Some(simulated()?) } else { None };
            (totals.is_some() || needed.fits().is_err()).then_some((totals, needed.peak()))
        };
        let time = |totals: &Option<Totals>| totals.map_or(f64::INFINITY, |totals| totals.step_time_s);
        let all = GradientReduction::ALL.iter().copied().filter(allowed).filter_map(with);
        all.min_by(|(a, held), (b, other)| time(a).total_cmp(&time(b)).then(held.cmp(other)))
    }

    fn choice(&self, batch: BatchSpec, totals: Option<Totals>, memory_peak: Bytes) -> BatchChoice {
        let training = self.problem.training;
        let steps = training.steps(batch.global);
        let samples = match training {
            Training::Target(curve) => curve.samples(batch.global),
            Training::Passes(volume) => volume.samples as f64 * volume.epochs,
            Training::Steps(steps) => steps as f64 * batch.global as f64,
        };
        let samples_per_s = totals.map(|totals| batch.global as f64 / totals.step_time_s);
        // On the same devices in the same number format a sample takes the same share of the peak.
        let of_peak = self.prediction.mfu.map(|mfu| mfu / self.prediction.samples_per_s);
        BatchChoice {
            batch,
            steps,
            samples,
            step_time_s: totals.map(|totals| totals.step_time_s),
            samples_per_s,
            mfu: of_peak.zip(samples_per_s).map(|(share, samples)| share * samples),
            time_s: totals.map(|totals| totals.elapsed_s),
            cost_usd: totals.and_then(|totals| totals.cost_usd),
            memory_peak_bytes: memory_peak.0,
            recommended: batch == self.chosen.plan.batch(),
        }
    }

    /// Returns the user's held fields and the machines and global batch of the recommended plan.
    fn same_work(&self) -> Fixed {
        let cluster = self.chosen.plan.cluster();
        Fixed {
            instance: Some(cluster.instance.clone()),
            instances: Some(cluster.instances),
            global: Some(self.chosen.plan.batch().global),
            ..self.fixed.clone()
        }
    }
}

/// Explains the choice of global batch, if the job allows several: the one with most samples a second need not end
/// first.
pub(crate) fn batch_reason(batches: &[BatchChoice], training: Training) -> Option<String> {
    let own = batches.iter().find(|choice| choice.recommended)?;
    let rate = |choice: &BatchChoice| choice.samples_per_s.unwrap_or(0.0);
    let others = batches.iter().filter(|choice| choice.batch.global != own.batch.global);
    let fastest = others.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let global = |choice: &BatchChoice| human_count(choice.batch.global);
    let ratio = rate(fastest) / rate(own);
    let rates = times(ratio);
    if matches!(training, Training::Passes(_)) && (1.0..=1.0 + INDISTINCT).contains(&ratio) {
        let [least, most] = [own, fastest].map(global);
        return Some(format!(
            "global batch {least}, the smallest allowed that takes hardly longer: {most} would be {} faster, with fewer \
             steps over the same data",
            percent_of(ratio - 1.0)
        ));
    }
    let needs = match training {
        Training::Target(_) => format!("needs {} the samples to the target", times(fastest.samples / own.samples)),
        Training::Passes(_) => "reads the same data".into(),
        Training::Steps(_) => format!("reads {} the samples in as many steps", times(fastest.samples / own.samples)),
    };
    let joined = if rate(fastest) > rate(own) { "but" } else { "and" };
    Some(format!(
        "global batch {} rather than {}, which has {rates} the samples a second {joined} {needs}",
        global(own),
        global(fastest)
    ))
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2} times")
}

#[cfg(test)]
mod tests {
    use crate::asking;
    use trainyard_plan::{Method, StateSharding};

    #[test]
    fn smaller_micro_batches_of_sharded_gradients_need_no_more_memory_and_one_machine_has_no_network() {
        let mut job = asking::job("qwen2.5-32b", 32, &["g6e.48xlarge"], 1);
        (job.model.seq_len, job.data.samples) = (Some(2048), Some(20_000));
        job.training.method = Some(Method::Full);
        job.cluster.stack = Some("deepspeed".into());
        let document = asking::planned(&job);
        assert_eq!(document.plan.state_sharding, StateSharding::Parameters);
        let own = document.batches.iter().position(|choice| choice.recommended).expect("the recommended one");
        let smaller = &document.batches[..own];
        assert!(!smaller.is_empty() && document.plan.batch.accumulation == 1, "{:?}", document.batches);
        for choice in smaller {
            assert!(choice.memory_peak_bytes <= document.batches[own].memory_peak_bytes, "{choice:?}");
            assert!(choice.step_time_s.is_some_and(|step| step > document.prediction.step_time_s), "{choice:?}");
        }
        let bound = document.reasons.iter().find(|reason| reason.starts_with("bound by "));
        assert!(bound.is_some_and(|told| told.starts_with("bound by offload to main memory")), "{bound:?}");
    }
}
