//! What to be careful about: what practitioners would say of a plan before they run it, each with the condition under
//! which they say it, a number, and where it comes from.

mod encoders;
mod input;
mod learning_rate;
mod machines;
mod samples;

pub(crate) use learning_rate::varied_batches;

use super::limits::Limits;
use super::rejected::types_left_out;
use super::solve::aim;
use super::terms::Terms;
use crate::amount::usd;
use crate::campaign::extrapolated;
use crate::packed_attention::lacks_flash_attention;
use crate::problem::{NORMALISED_MIN, Place, Problem, Training, Usual, usual_optimizer};
use crate::search::{Aim, INDISTINCT, Prepared, Totals, amount, choose_briefly};
use encoders::of_pretraining;
use machines::{
    doubled_links, impossible_cards, little_main_memory, uncounted_overheads, without_links, without_price,
};
use samples::{may_decide, unsure_of_samples};
use trainyard_hardware_profiles::{Instance, Service, Stack, Transport};
use trainyard_models::{
    AttentionKernel, Divisible, Family, Model, OperatorGraph, OperatorKind, Routing, Tuned, predicts_next_token,
};
use trainyard_plan::document::Prediction;
use trainyard_plan::{
    BatchSpec, Collectives, JobSpec, Method, Optimizer, Plan, PlanSpec, Precision, StorageMode, TuningKind,
};
use trainyard_sim::{ENCRYPTED_SHARE, cases_of_layers, far_from_timed};
use trainyard_units::{Seconds, counted, human_count, human_duration};

/// Tokens of a step that no published training exceeds: DeepSeek-V3 takes 15,360 samples of 4,096 tokens, 63 million
/// (arXiv:2412.19437, section 4.2).
const TOKENS_MAX: u64 = 100_000_000;

/// The relative difference below which two steps are called as long.
const SAME_STEP: f64 = 0.01;

/// The uncertainty of a GPU from which its interval is called wide.
const UNCERTAIN: f64 = 0.4;

/// The ratio to the prediction from which an interval is called wide, too.
const WIDE: f64 = 1.25;

/// The ratio of an MFU to that of Megatron-LM from which both are told: where a fifth of the arithmetic is attention, half of
/// which a causal mask leaves out.
const HALVED_MIN: f64 = 1.0 / 0.9;

/// A recommended plan with everything that warnings depend on.
pub(crate) struct Warnings<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) job: &'a JobSpec,
    pub(crate) plan: &'a Plan,
    /// Index among the choices of the place: a type of machine with a stack.
    pub(crate) choice: usize,
    pub(crate) prediction: &'a Prediction,
    /// The limits of the plan's search, where others are searched for too.
    pub(crate) limits: Option<&'a Limits>,
}

impl Warnings<'_> {
    /// Lists all warnings: cards and links that a cluster file may have wrong, what the MFU counts, what the time rests on in how samples are
    /// brought in, then what may be wrong with the training, then what the figures leave out.
    pub(crate) fn all(&self) -> Vec<String> {
        let mut all = impossible_cards(&self.problem.place);
        all.extend(without_links(&self.problem.place));
        all.extend(little_main_memory(&self.problem.place));
        all.extend(without_price(&self.problem.place, self.job));
        // What is paid beyond the use comes before all that only may be wrong.
        all.extend(self.terms().as_ref().and_then(Terms::block));
        let samples = unsure_of_samples(self.problem, self.job, self.plan, self.choice, self.prediction.step_time_s);
        let (first, last) = if may_decide(self.job, &self.problem.model) { (samples, None) } else { (None, samples) };
        all.extend(first);
        all.extend(self.context());
        all.extend(self.labels());
        all.extend(self.padded());
        all.extend(self.masked());
        // Whoever compares the MFU with another one is misled by what comes later than the first screen.
        all.extend(self.prediction.mfu.and_then(|mfu| halved_attention(self.plan.graph(), mfu)));
        all.extend(self.of_input());
        let of_training = [
            batch_beyond_data(self.problem, self.plan.batch().global),
            batch_normalisation(self.problem.model.normalises_over_batches(), self.plan.batch()),
            self.contrast(),
            self.experts(),
            self.tables(),
            self.attention(),
            self.further_pretraining(),
            self.fine_tuning(),
            self.job.training.method.and_then(|_| of_pretraining(&self.problem.model)),
            self.optimizer(),
            self.learning_rate(),
            self.loss_scaling(),
            self.eight_bits(),
            self.without_units(),
            self.smddp(),
            self.encryption(),
            self.transport(),
            self.region(),
            self.zone(),
            self.wide_interval(),
            self.stack_interval(),
            self.untimed(),
        ];
        all.extend(of_training.into_iter().flatten());
        all.extend(self.terms().iter().flat_map(Terms::all));
        all.extend(uncounted_overheads(&self.problem.place, self.job, self.prediction));
        let memory = &self.prediction.memory_bytes;
        let margin = self.problem.place.software(self.choice).usual_memory_margin();
        let (peak, limit) = memory.fullest();
        all.extend(little_memory(peak, limit, margin));
        all.extend(self.problem.unusable_precisions.iter().map(|precision| {
            format!("training.precision {precision} is left out: no machine that may be chosen has units for it")
        }));
        all.extend(doubled_links(&self.problem.place));
        all.extend(self.convergence());
        all.extend(last);
        all
    }

    /// Lists those that tell cases of a sweep apart: what a case costs beyond its price, and what else it takes to be as
    /// good as it looks.
    pub(crate) fn of_case(&self) -> Vec<String> {
        let of_training = [
            batch_beyond_data(self.problem, self.plan.batch().global),
            batch_normalisation(self.problem.model.normalises_over_batches(), self.plan.batch()),
            self.learning_rate(),
            self.smddp(),
            self.transport(),
            self.region(),
        ];
        let mut all: Vec<String> = self.terms().iter().flat_map(Terms::costly).collect();
        all.extend(types_left_out(&self.problem.place));
        all.extend(of_training.into_iter().flatten());
        all
    }

    /// Returns the plan with the terms on which its machines are rented, if they are.
    fn terms(&self) -> Option<Terms<'_>> {
        let Place::Rented(rental) = &self.problem.place else { return None };
        let (instance, price) = rental.offer(self.choice);
        Some(Terms {
            job: self.job,
            prediction: self.prediction,
            plan: self.plan,
            machine: self.problem.place.machine_of(self.choice, self.plan),
            instance,
            service: price.service,
            quotas: &rental.quotas,
        })
    }

    /// Warns that a fine-tuning is planned for software whose scripts go on with pretraining, or that none of that was compared
    /// where text is read on.
    fn further_pretraining(&self) -> Option<String> {
        let stack = self.problem.place.software(self.choice);
        let tuned = self.job.training.method.is_some() && predicts_next_token(&self.problem.model);
        let on_text = self.job.data.tokens.is_some() && self.plan.tuning_kind() == TuningKind::FULL;
        if tuned && on_text && self.job.cluster.stack.is_none() && self.plan.cluster().instances > 1 {
            return Some(
                "software that fine-tunes was compared; where text is read on as in pretraining, with a loss on every token, \
                 Megatron Core may be faster: --stack megatron-core plans for it"
                    .into(),
            );
        }
        (tuned && stack.runs.own_models).then(|| {
            format!(
                "{} goes on with pretraining: weights are converted first, text has no chat template, and every token counts in \
                 the loss; `--stack auto` plans for software that fine-tunes",
                stack.name
            )
        })
    }

    /// Warns that no published step tests what a fine-tuning of a part of the weights is predicted to take, and of samples
    /// that are shorter than they are counted.
    fn fine_tuning(&self) -> Option<String> {
        let kind = self.plan.tuning_kind();
        let tokens = self.problem.model.tokens_per_sample().filter(|_| self.job.data.samples.is_some());
        let alike = tokens.map(|tokens| {
            if kind.dpo {
                format!("both sequences of a pair are counted as {tokens} tokens, padded to that")
            } else {
                format!("samples are counted as {tokens} tokens each, packed or padded to that")
            }
        });
        let counted = self.problem.packing.map(|own| own.told()).or(alike);
        let lora = TuningKind { method: Method::Lora, dpo: false };
        let untested = (kind != TuningKind::FULL).then(|| {
            if kind == lora && !self.problem.place.is_measured() {
                return "18 published steps of lora, all on one A100, are 4 % shorter than predicted in the median and 37 % with \
                        the shortest samples, so its interval is wider by 30 %"
                    .to_owned();
            }
            format!("no published step time tests the prediction for {kind}, so its interval is wider by 30 %")
        });
        let own: Vec<String> = [untested, counted].into_iter().flatten().collect();
        ((self.job.training.method.is_some() || kind.dpo) && !own.is_empty()).then(|| own.join("; "))
    }

    /// Warns of sequences that are longer than those that the weights were trained for: positions that they have never
    /// seen.
    fn context(&self) -> Option<String> {
        let (problem, model) = (self.problem, &self.problem.model);
        let trained_for = problem.context_length.filter(|_| problem.loads_weights && predicts_next_token(model))?;
        let tokens = model.tokens_per_sample().filter(|tokens| *tokens > trained_for)?;
        let remedy = if model.family() == Family::Gpt {
            "its table of positions has to be made longer, and the new rows start untrained"
        } else {
            "its rotary positions have to be scaled (`rope_scaling` of its configuration; YaRN, arXiv:2309.00071)"
        };
        Some(format!(
            "samples of {} tokens are longer than {} was trained for, {} (`max_position_embeddings`): {remedy}, or shorten \
             model.seq_len",
            human_count(tokens),
            model.name(),
            human_count(trained_for)
        ))
    }

    /// Tells what a training of samples of known lengths takes with the usual padding.
    fn padded(&self) -> Option<String> {
        self.problem.packing.filter(|_| self.job.training.method.is_some())?.padded(self.plan.batch().micro)
    }

    /// Warns of packed samples that the GPUs keep apart by a mask over all of a micro-batch, as TRL lays them out.
    fn masked(&self) -> Option<String> {
        let micro = self.plan.batch().micro;
        self.problem
            .packing
            .filter(|packing| packing.is_packed() && self.job.training.method.is_some() && micro > 1)?;
        let machine = self.problem.place.machine(self.choice, 1, None);
        let generation = machine.cluster.first().device.gpu().map(|gpu| gpu.generation.as_str());
        let why = lacks_flash_attention(self.plan, generation)?;
        Some(format!(
            "{why}, which keeps packed samples apart: TRL lays a micro-batch into one row, over which attention takes a mask, so steps take \
             more time and memory than predicted; `--fix batch.micro=1` plans rows of one sequence"
        ))
    }

    /// Tells which optimizer embedding tables are priced with.
    fn tables(&self) -> Option<String> {
        let has_tables = matches!(self.plan.graph().divisible(), Some(Divisible::TableColumns(_)));
        (has_tables && !self.problem.place.is_measured()).then(|| {
            format!(
                "embedding tables are priced with a sparse update: {} changes only the rows that a step looks up, as \
                 TorchRec's fused optimizers do; a dense one goes through whole tables and takes longer",
                self.plan.optimizer()
            )
        })
    }

    /// Tells what is not done with experts that an expert of the field would do.
    fn experts(&self) -> Option<String> {
        let mut operators = self.plan.graph().distinct().iter().flat_map(|layer| &layer.operators);
        let is_expert = |kind: &OperatorKind| {
            matches!(kind, OperatorKind::ExpertLinear { .. } | OperatorKind::Tuned(Tuned::Frozen { experts: 2.., .. }))
        };
        if !operators.any(|operator| is_expert(&operator.kind)) {
            return None;
        }
        let adapters = match self.plan.method() {
            Method::Lora => Some("adapters lie beside attention and shared experts, not beside the other experts"),
            Method::Qlora => Some(
                "adapters lie beside attention and shared experts, not beside the other experts, which stay in 16 bits too: \
                 bitsandbytes quantises linear layers alone",
            ),
            _ => None,
        };
        if self.problem.place.is_measured() {
            return adapters.map(Into::into);
        }
        let shares_out = |stack: &Stack| stack.runs.degrees.iter().flatten().any(|degree| degree == "expert");
        let elsewhere = (!self.problem.place.stacks().iter().any(|stack| shares_out(stack))).then_some(
            "experts are not shared out over GPUs, because no software that is modelled does that for this model; Megatron \
             Core does it for many, and may be several times faster",
        );
        let dropless = |kind: &OperatorKind| match kind {
            OperatorKind::Routing(Routing::Router { per_token, .. }) => per_token.is_some(),
            _ => false,
        };
        let mut operators = self.plan.graph().distinct().iter().flat_map(|layer| &layer.operators);
        let is_dropless = operators.any(|operator| dropless(&operator.kind));
        let shared_out = self.plan.mesh().parallel().expert_ranks() > 1;
        let even = (shared_out && is_dropless).then_some(
            "tokens are taken to spread evenly over experts, as a loss makes them do in time (in the first steps the fullest \
             GPU has more to do and to hold)",
        );
        let host = is_dropless.then_some(
            "not all that the host does for experts is counted: with many small ones a step is likely to take longer than \
             predicted",
        );
        let all: Vec<&str> = [adapters, elsewhere, even, host].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Tells of attention that is priced as separate kernels though the GPUs have fused ones.
    ///
    /// # Source
    ///
    /// transformers 5.24, `_supports_sdpa` in `models/gemma2/modeling_gemma2.py` and `models/gpt_oss/modeling_gpt_oss.py`.
    fn attention(&self) -> Option<String> {
        let machine = self.problem.place.machine(self.choice, 1, None);
        let kernel = machine.stack.runs.attention_on(&machine.cluster.first().device.gpu()?.generation)?;
        let mut operators = self.plan.graph().distinct().iter().flat_map(|layer| &layer.operators);
        let lacks = |kind: &OperatorKind| match kind {
            OperatorKind::Attention(own) => (own.soft_cap || own.sinks) && !own.kernel.is_fused(),
            _ => false,
        };
        let is_told = kernel != AttentionKernel::Unfused.name() && operators.any(|operator| lacks(&operator.kind));
        is_told.then(|| {
            "attention is priced as separate kernels, as transformers computes bounded scores and sinks by default \
             (attn_implementation eager); flash kernels that have them are faster and not modelled"
                .to_owned()
        })
    }

    /// Warns of an interval that is wide because of the software, and says how to narrow it.
    fn stack_interval(&self) -> Option<String> {
        let stack = self.problem.place.software(self.choice);
        let [low, high] = self.prediction.interval_s;
        let step = self.prediction.step_time_s;
        (stack.runs.today && high / step > WIDE).then(|| {
            format!(
                "steps may be {} than predicted: few step times of {} are published; `trainyard calibrate --from FILE.csv` \
                 refits on yours",
                slower_or_faster([step / low, high / step]),
                stack.name
            )
        })
    }

    /// Warns that the constants of the GPU are transferred from another or rest on few measurements.
    fn wide_interval(&self) -> Option<String> {
        let machine = self.problem.place.machine(self.choice, 1, None);
        let gpu = machine.cluster.first().device.gpu()?;
        let uncertainty = &gpu.achieved.uncertainty;
        (uncertainty.value >= UNCERTAIN).then(|| format!("{}: {}; the interval is wide", gpu.name, uncertainty.source))
    }

    /// Warns of a profile that was measured for jobs of other sizes.
    fn untimed(&self) -> Option<String> {
        let machine = self.problem.place.machine(self.choice, 1, None);
        let profile = machine.cluster.first().device.measured()?;
        let (mesh, micro) = (self.plan.mesh(), self.plan.batch().micro);
        let cases = cases_of_layers(self.plan.graph(), micro, mesh.sharing(), mesh.ranks(), self.plan.precision());
        let far = far_from_timed(profile, &cases);
        (far > 0).then(|| {
            format!(
                "{far} of {} operators are priced from sizes more than four times off: `trainyard train` measures those \
                 of its job first",
                cases.len()
            )
        })
    }

    /// Tells of a loss that compares samples with one another how few of them it compares: those of a micro-batch on one
    /// replica, unless the script gathers them.
    fn contrast(&self) -> Option<String> {
        let (batch, contrasts) = (self.plan.batch(), matches!(self.plan.model(), Model::Clip(_)));
        (contrasts && batch.micro < batch.global).then(|| {
            format!(
                "the contrastive loss is priced within a micro-batch: each image is compared with {} texts of the {} in \
                 the global batch; gathering embeddings of other GPUs (open_clip --gather-with-grad) and of other \
                 micro-batches (GradCache) is not in the time",
                human_count(batch.micro),
                human_count(batch.global)
            )
        })
    }

    fn convergence(&self) -> Vec<String> {
        match self.problem.training {
            Training::Target(curve) => extrapolated(curve, &self.problem.model, self.plan.batch().global),
            _ if self.problem.global_batches.are_open() => {
                vec![
                    "how many samples convergence needs at each global batch is not modelled: the data volume decides"
                        .into(),
                ]
            }
            _ => Vec::new(),
        }
    }

    /// Tells what the usual optimizer of such networks would change, where the job names none.
    fn optimizer(&self) -> Option<String> {
        let training = &self.job.training;
        let assumed = training.optimizer.is_none() && training.method.is_none();
        if !assumed || self.plan.optimizer() != Optimizer::AdamW {
            return None;
        }
        let Usual { optimizer, whose, name } = usual_optimizer(&self.problem.model, self.plan.graph())?;
        let plan = Plan::try_from(PlanSpec { optimizer, ..self.plan.spec().clone() }).ok()?;
        let machine = self.problem.place.machine_of(self.choice, &plan);
        let step = Totals::simulated(self.problem, &plan, self.choice, &machine)?.step_time_s;
        let told = |seconds| human_duration(Seconds(seconds));
        let own = self.prediction.step_time_s;
        let takes = if (step / own - 1.0).abs() < SAME_STEP {
            "as long".into()
        } else {
            format!("{} in place of {}", told(step), told(own))
        };
        let best = self.best_with(optimizer).map_or_else(String::new, |told| format!(", and {told}"));
        let steps = match &self.problem.training {
            Training::Target(curve) => format!(", and nobody knows how many steps adamw needs to {}", curve.target),
            _ => String::new(),
        };
        Some(format!(
            "the optimizer is taken to be adamw: {whose} are usually trained by {name}, with which a step of this plan takes \
             {takes}{best}{steps}; --optimizer {optimizer} plans for that"
        ))
    }

    /// Tells what the best plan with another optimizer takes, if a short search finds one on other machines that is noticeably
    /// better: state that is not kept may make room.
    fn best_with(&self, optimizer: Optimizer) -> Option<String> {
        let limits = self.limits?;
        let problem = Problem { optimizer, ..self.problem.briefly() };
        let prepared = Prepared::new(&problem, &limits.fixed);
        let best = choose_briefly(&prepared, Aim { top: 1, ..aim(&problem, limits) })?;
        let machine = self.problem.place.machine_of(self.choice, self.plan);
        let own = Totals::simulated(self.problem, self.plan, self.choice, &machine)?;
        let [with, without] = [Totals::found(&best), own].map(|totals| amount(problem.objective, totals));
        let better = with < without * (1.0 - INDISTINCT) && best.machines() != self.plan.cluster().to_string();
        better.then(|| {
            let time = human_duration(Seconds(best.elapsed_s));
            let cost = best.cost_usd.map_or_else(String::new, |cost| format!(" and {}", usd(cost)));
            format!("{} takes about {time}{cost}", best.machines())
        })
    }

    /// Adapters beside 4-bit weights stay in bfloat16, of which PyTorch scales no loss.
    fn loss_scaling(&self) -> Option<String> {
        let of_model = self.problem.overflows_half().map(|why| format!("; {why}"));
        (self.plan.precision() == Precision::Fp16Mixed && self.plan.method() != Method::Qlora).then(|| {
            let own = of_model.unwrap_or_default();
            format!("fp16-mixed needs loss scaling (Micikevicius et al., arXiv:1710.03740, section 3.2){own}")
        })
    }

    fn eight_bits(&self) -> Option<String> {
        (self.plan.precision() == Precision::Fp8Mixed)
            .then(|| "fp8-mixed may change what is learnt: compare its loss with that of bf16-mixed".into())
    }

    /// Warns of number formats that the job asks for by name, and that other machines have but the recommended ones do
    /// not.
    fn without_units(&self) -> Option<String> {
        let machine = self.problem.place.machine(self.choice, 1, None);
        let asked = self.job.training.precision.iter().flatten();
        let lacking: Vec<String> = asked
            .filter(|precision| !self.problem.unusable_precisions.contains(precision))
            .filter_map(|precision| machine.has_units(*precision).err().map(|_| precision.to_string()))
            .collect();
        let instance = &self.plan.cluster().instance;
        (!lacking.is_empty())
            .then(|| format!("{} was asked for, but {instance} has no units for it", lacking.join(", ")))
    }

    fn smddp(&self) -> Option<String> {
        let Place::Rented(rental) = &self.problem.place else { return None };
        let (instance, price) = rental.offer(self.choice);
        (self.plan.collectives() == Collectives::Smddp).then(|| smddp(instance, price.service))?
    }

    /// Warns of the time that encryption takes, found by simulating the same plan without it.
    fn encryption(&self) -> Option<String> {
        let cluster = self.plan.cluster();
        if !cluster.encrypted || cluster.instances == 1 {
            return None;
        }
        let clear = self.problem.place.machine(self.choice, cluster.instances, Some(false));
        let without = Totals::simulated(self.problem, self.plan, self.choice, &clear)?;
        Some(encryption(self.prediction.step_time_s / without.step_time_s))
    }

    /// Warns of sockets between machines that have an Elastic Fabric Adapter.
    fn transport(&self) -> Option<String> {
        let Place::Rented(rental) = &self.problem.place else { return None };
        let (instance, _) = rental.offer(self.choice);
        let (used, several) = (rental.transport(instance), self.plan.cluster().instances > 1);
        let better = instance.network.transports().into_iter().find(|transport| !transport.is_sockets())?;
        (several && used.is_sockets()).then(|| sockets(&instance.name, used, better))
    }

    fn region(&self) -> Option<String> {
        let (data, machines) = (self.job.data.region.as_ref()?, self.problem.place.offered(self.choice)?);
        (*data != machines.region).then(|| {
            format!(
                "the data is in {data} and the instances are in {}: training data belongs into the Region of the instances (Amazon SageMaker Developer Guide); what crosses Regions is slower than predicted and charged by the byte, which is not in the cost",
                machines.region
            )
        })
    }

    /// Warns of storage that is in one Availability Zone.
    fn zone(&self) -> Option<String> {
        let storage = self.plan.input()?.storage;
        let rented = matches!(self.problem.place, Place::Rented(_));
        (rented && matches!(storage, StorageMode::FsxLustre | StorageMode::Ebs)).then(|| {
            format!("{storage} stands in one Availability Zone: keep it and all instances in the same one, which the prediction takes for granted (Amazon EBS and FSx for Lustre User Guides)")
        })
    }
}

/// Tells how many times longer and faster a step may be, in one number if they are the same.
fn slower_or_faster(times: [f64; 2]) -> String {
    let [faster, slower] = times.map(|times| format!("{times:.1}"));
    let faster = if faster == slower { String::new() } else { format!("{faster} times ") };
    format!("{slower} times slower or {faster}faster")
}

fn batch_normalisation(normalises: bool, batch: BatchSpec) -> Option<String> {
    (normalises && batch.micro < NORMALISED_MIN).then(|| {
        let samples = counted(batch.micro, "sample");
        let of_replica = batch.micro * batch.accumulation;
        let more = if of_replica < NORMALISED_MIN { "take fewer GPUs or a larger global batch" } else { "hold a larger batch.micro" };
        format!(
            "batch normalisation sees {samples} at a time on each device, and below {NORMALISED_MIN} what it measures is noise: ResNet-50 errs in 23.7 % at 16, 24.8 % at 8, 34.7 % at 2 (Wu and He, arXiv:1803.08494); normalise over devices or groups, or {more}"
        )
    })
}

/// Warns that a step takes more samples than there are, as where a batch in tokens was meant.
fn batch_beyond_data(problem: &Problem, batch: u64) -> Option<String> {
    let Training::Passes(volume) = problem.training else { return None };
    let tokens = problem.model.tokens_per_sample();
    let whole = |tokens: u64| batch / tokens;
    let meant = tokens.map(whole).filter(|samples| *samples > 0);
    let meant = meant.map_or_else(String::new, |samples| {
        format!("; {} tokens would be {}", human_count(batch), counted(samples, "sample"))
    });
    let step = format!("a step takes {} samples (`training.global_batch`)", human_count(batch));
    let of_step = tokens.map_or(0, |tokens| batch.saturating_mul(tokens));
    if batch > volume.samples {
        let all = human_count(volume.samples);
        Some(format!("{step}, more than the {all} of the data, which are then trained on several times{meant}"))
    } else if of_step > TOKENS_MAX {
        Some(format!("{step}, {} tokens, more than any published training takes{meant}", human_count(of_step)))
    } else {
        None
    }
}

fn smddp(instance: &Instance, service: Service) -> Option<String> {
    if instance.smddp.as_ref().is_none_or(|runs| !runs.value) {
        let source = "SageMaker Python SDK v2.257.6";
        return Some(format!("collectives smddp: the library does not run on {} ({source})", instance.name));
    }
    (service != Service::Sagemaker)
        .then(|| format!("collectives smddp: the library is SageMaker's, and the price is {}'s", service.name()))
}

fn sockets(instance: &str, used: Transport, better: Transport) -> String {
    let pods = if used == Transport::TcpPods { " of Kubernetes pods" } else { "" };
    format!("sockets (TCP){pods} are assumed between {instance}; with EFA set up, --transport {}", better.name())
}

fn encryption(slowdown: f64) -> String {
    format!(
        "encrypted traffic between instances makes a step {:.0} % longer, if it keeps {ENCRYPTED_SHARE} of the network: a stated default, for nobody published a measurement",
        100.0 * (slowdown - 1.0).max(0.0)
    )
}

/// Tells what Megatron-LM would call the MFU of a training, where that is much less.
fn halved_attention(graph: &OperatorGraph, mfu: f64) -> Option<String> {
    let full = graph.training_flops().0;
    let halved = full - graph.masked_flops().0;
    (full > halved * HALVED_MIN).then(|| {
        format!(
            "MFU counts attention in full, as PaLM does; Megatron-LM's --log-throughput counts half of a causal mask: {:.1} %",
            100.0 * mfu * halved / full
        )
    })
}

/// Warns that a plan leaves less memory free than its stack usually needs.
fn little_memory(peak: u64, limit: u64, margin: f64) -> Option<String> {
    let used = peak as f64 / limit as f64;
    (used > 1.0 - margin).then(|| {
        format!(
            "memory: the plan fills {:.0} % of the fullest GPU and leaves less than the {:.0} % that measured peaks were seen to \
             exceed predicted ones by; it may run out of memory",
            100.0 * used,
            100.0 * margin
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking;
    use trainyard_hardware_profiles::catalog;

    #[test]
    fn batch_normalisation_over_few_samples_is_warned_of() {
        // 64 on one GPU are fine; on 32 of them each sees 2.
        let of = |normalises, micro, accumulation| {
            batch_normalisation(normalises, BatchSpec { global: 64, micro, accumulation })
        };
        assert_eq!(of(true, 64, 1), None);
        let told = of(true, 2, 1).expect("few");
        assert!(told.contains("sees 2 samples") && told.ends_with("a larger global batch"), "{told}");
        assert!(of(true, 2, 8).is_some_and(|told| told.ends_with("a larger batch.micro")));
        assert_eq!(of(true, NORMALISED_MIN, 1), None);
        assert_eq!(of(false, 2, 1), None);
    }

    #[test]
    fn an_optimizer_that_is_only_supposed_is_told_where_another_is_usual() {
        let told = |model: &str, optimizer| {
            let mut job = asking::job(model, 256, &["p4d.24xlarge"], 1);
            job.data.samples = Some(100_000);
            job.training.optimizer = optimizer;
            let problem = asking::solvable(&job);
            let document = crate::recommend(&problem, &Limits { top: 1, ..Limits::default() }, &job).expect("a plan");
            document.warnings.into_iter().find(|warning| warning.starts_with("the optimizer is taken to be adamw"))
        };
        let warning = told("resnet50", None).expect("AdamW is unusual");
        assert!(warning.contains("SGD with momentum, with which a step of this plan takes "), "{warning}");
        assert_eq!((told("resnet50", Some(Optimizer::AdamW)), told("gpt2", None)), (None, None));
        let detector = told("mask-rcnn-r50-fpn", None).expect("AdamW is unusual");
        assert!(
            detector.contains("detectors with frozen batch normalisation are usually trained by SGD with momentum"),
            "{detector}"
        );
        let tables = told("dlrm-small", None).expect("AdamW is unusual");
        assert!(tables.contains("by plain SGD") && tables.contains("--optimizer sgd"), "{tables}");
    }

    #[test]
    fn a_batch_beyond_the_data_is_warned_of_and_told_in_tokens() {
        let mut job = asking::training("gpt2", 64);
        job.data.samples = Some(1000);
        let problem = asking::solvable(&job);
        assert_eq!(batch_beyond_data(&problem, 1000), None);
        let told = batch_beyond_data(&problem, 4096).expect("more than there are");
        assert!(told.contains("more than the 1,000") && told.ends_with("4,096 tokens would be 4 samples"), "{told}");
    }

    #[test]
    fn a_step_of_more_tokens_than_anybody_takes_is_told() {
        let mut job = asking::training("gpt2", 512);
        job.data.tokens = Some(1e10);
        let problem = asking::solvable(&job);
        assert_eq!(batch_beyond_data(&problem, 15_360 * 4), None);
        let told = batch_beyond_data(&problem, 524_288).expect("too large");
        assert!(told.contains("536,870,912 tokens") && told.ends_with("524,288 tokens would be 512 samples"), "{told}");
    }

    #[test]
    fn both_sides_of_an_interval_are_told_where_they_differ() {
        // 7.14 s to 18.5 s around 10.5 s.
        assert_eq!(slower_or_faster([10.5 / 7.14, 18.5 / 10.5]), "1.8 times slower or 1.5 times faster");
        assert_eq!(slower_or_faster([1.8, 1.8]), "1.8 times slower or faster");
    }

    #[test]
    fn smddp_is_for_some_instances_of_one_service() {
        let catalog = catalog();
        let instance = |name| catalog.instance(name).expect("in the catalog");
        assert_eq!(smddp(instance("p4d.24xlarge"), Service::Sagemaker), None);
        assert!(smddp(instance("p4d.24xlarge"), Service::Ec2).is_some_and(|warning| warning.contains("SageMaker's")));
        assert!(
            smddp(instance("g5.48xlarge"), Service::Sagemaker).is_some_and(|warning| warning.contains("g5.48xlarge"))
        );
        let all: Vec<&str> = catalog
            .instances()
            .iter()
            .filter(|instance| instance.smddp.is_some())
            .map(|instance| instance.name.as_str())
            .collect();
        assert_eq!(all, ["p3.16xlarge", "p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge"]);
    }

    #[test]
    fn sockets_between_machines_with_an_adapter_are_told_with_the_flag_that_uses_it() {
        let told = sockets("g4dn.12xlarge", Transport::Tcp, Transport::Efa);
        assert_eq!(told, "sockets (TCP) are assumed between g4dn.12xlarge; with EFA set up, --transport efa");
        let pods = sockets("p4d.24xlarge", Transport::TcpPods, Transport::EfaGpudirect);
        assert!(pods.starts_with("sockets (TCP) of Kubernetes pods") && pods.ends_with("--transport efa-gpudirect"));
    }

    #[test]
    fn the_mfu_of_megatron_is_told_where_long_causal_attention_makes_it_another() {
        let told = |name: &str, seq_len| {
            let model = &trainyard_models::find(name).expect("in the catalog").model;
            let model = crate::problem::with_seq_len(model.spec(), Some(seq_len));
            halved_attention(&Model::try_from(model).expect("valid").graph(), 0.6)
        };
        // Of llama-3-8b the products with weights take 6 × 7.5 G of each token's arithmetic, and attention in full
        // 12 × 32 × 4096 × 131072: 0.45 and 2.06 × 10¹¹.
        let long = told("llama-3-8b", 131_072).expect("mostly attention");
        assert!(long.contains("half of a causal mask: 35.4 %"), "{long}");
        assert_eq!(told("llama-3-8b", 1024), None);
        // Its attention has no mask.
        assert_eq!(told("bert-large", 4096), None);
    }

    #[test]
    fn little_memory_and_what_encryption_takes_are_told_in_numbers() {
        assert_eq!(little_memory(91, 100, 0.08), None);
        assert!(little_memory(93, 100, 0.08).is_some_and(|warning| warning.contains("93 %")));
        assert!(encryption(1.25).contains("25 % longer"));
    }
}
