//! Documents that are written to files and to standard output. Durations are seconds, sizes bytes, money USD; the
//! suffix of a field says so.

pub(crate) mod campaign;
mod comparison;
mod cost;
mod decision;
pub(crate) mod explanation;
pub(crate) mod launch;
pub(crate) mod replay;
pub(crate) mod what_if;

pub use comparison::{COMPARISON_SCHEMA, ComparisonDocument, Errors, Figures, Files, Loss, number_or_null};
pub use cost::{CostKind, CostParts};
pub use decision::{BatchChoice, Change, ChangedQuantity, PlanSummary, PrecisionChoice, RejectedBy, Remedy};

use crate::fine_tuning::Method;
use crate::input::Bottleneck;
use crate::job::JobSpec;
use crate::spec::{PlanSpec, Pricing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema of plan documents that this version reads and writes.
pub const PLAN_SCHEMA: &str = "trainyard.plan/1";

/// A plan with what is predicted of it and why it was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanDocument {
    /// `trainyard.plan/1`.
    pub schema: String,
    /// What was asked for.
    pub job: JobSpec,
    /// What is recommended.
    pub plan: PlanSpec,
    /// What is expected of it.
    pub prediction: Prediction,
    /// Why this plan.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// The searches on which reasons rest: each reason that compares can be reproduced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Why the plan is not within deadline or budget, and by how much it is beyond; absent if it is, and in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// What would meet a deadline or a budget that is missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_meet_goal: Option<String>,
    /// What to be careful about.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The runners-up, best first.
    #[serde(default)]
    pub alternatives: Vec<Alternative>,
    /// The plan with the least of what is sought, where another is recommended that cannot be told from it within what is
    /// known and that is simpler, or much faster or cheaper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimum: Option<Alternative>,
    /// What each of the stacks that were compared would give.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackChoice>,
    /// Plans that no other on the same terms beats in both time and cost: those on the job's terms, then those on other
    /// terms on which the same machines can be rented, the fastest of each first.
    #[serde(default)]
    pub pareto: Vec<Alternative>,
    /// What was not possible, and how often.
    #[serde(default)]
    pub rejected: Vec<Rejected>,
    /// What would change the decision: the nearest price, network and global batch at which another plan wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Where the plain plan does not fit: what makes room, in the order in which it is worth trying.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// How the number formats that were allowed compare.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub precisions: Vec<PrecisionChoice>,
    /// What other methods of fine-tuning would need and cost, if the job names one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<MethodChoice>,
    /// How batches compare: global batches if the job allows several, else micro-batches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<BatchChoice>,
    /// How the search went.
    pub search: Search,
}

/// What is expected of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Seconds of one optimizer step.
    pub step_time_s: f64,
    /// The interval that should hold 90 % of measurements.
    pub interval_s: [f64; 2],
    /// Samples per second, all replicas together.
    pub samples_per_s: f64,
    /// Tokens per second, for models that read tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
    /// Model FLOPs over peak FLOPs; absent where no peak is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// What becomes of the samples on their way to the step; absent if they are taken to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputPrediction>,
    /// Idle time of the pipeline over its ideal time.
    pub bubble: f64,
    /// What communication adds to the step, but for collectives inside layers, which belong to the time of their kernels; of a plan
    /// that offloads, with copies to and from main memory or disks, and the updates there.
    pub exposed_communication_s: f64,
    /// Where the step goes, on the busiest stage.
    pub phases: Phases,
    /// Per stage, how much of the step its device computes.
    pub utilisation: Vec<f64>,
    /// Memory of one rank of each stage.
    pub memory_bytes: Memory,
    /// Optimizer steps of the whole training.
    pub steps: u64,
    /// Seconds of all steps. What else a document calls `time_s`, of alternatives and choices, is in all, as `in_all_s`.
    pub time_s: f64,
    /// Seconds from the request for machines to the last checkpoint: steps, start-up, checkpoints, evaluations, expected
    /// interruptions and failures. A deadline is compared with it. Absent in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_all_s: Option<f64>,
    /// Seconds from the request for machines to the first step: finding and booting them, image, framework, and what is
    /// downloaded (medians), and waits in the scheduler's queue; of all jobs, where there are several. Absent where nothing is
    /// known of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_up_s: Option<f64>,
    /// Seconds of the start-up in the scheduler's queue (`campaign.queue_wait`), of all jobs. Absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_s: Option<f64>,
    /// Seconds of reading trained weights before the first step, which are part of its start-up. Absent where training begins
    /// with random ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_s: Option<f64>,
    /// Seconds of writing checkpoints, if nothing interrupts the training. Absent where nothing is known of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints_s: Option<f64>,
    /// Seconds of all evaluations, if the job asks for some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluations_s: Option<f64>,
    /// Seconds in which a reference model scores the samples before the first step, where it does not in every step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_s: Option<f64>,
    /// Seconds of training from one checkpoint to the next: that of the job, else the one at which writing checkpoints
    /// and repeating lost steps take least together. Absent where nothing interrupts the training, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_interval_s: Option<f64>,
    /// The jobs of a scheduler in which the training runs. Absent where the job names no limit of one (`campaign.job_limit`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobsOfScheduler>,
    /// What reclaims of spot instances add, expected values. Absent on other terms, and where nobody published how often
    /// they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptions: Option<ExpectedInterruptions>,
    /// What failures of machines add, expected values at the job's `campaign.node_mtbf` or the default. Absent where nothing
    /// is known of what surrounds the steps, and in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<ExpectedInterruptions>,
    /// Price of the whole training: instances, start-up, checkpoints, evaluations, interruptions, failures and
    /// storage. Absent for machines without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What the price is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_parts: Option<CostParts>,
    /// The interval of the price that follows from that of the step time and from the range of the price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_interval_usd: Option<[f64; 2]>,
    /// The price that was used, with its date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceUsed>,
    /// The probability, 0 to 1, that the time in all is within the job's deadline, if steps are as long as `interval_s` says of
    /// them. Absent without a deadline, and in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_deadline: Option<f64>,
    /// The same of the cost and the job's budget, with a spot price anywhere between the lowest and the highest seen. Absent
    /// without a budget or a price, and in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_budget: Option<f64>,
}

/// The jobs of a scheduler in which a training runs, one after another, if nothing interrupts it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobsOfScheduler {
    /// Number of jobs.
    pub count: u64,
    /// Seconds that one may run.
    pub limit_s: f64,
}

/// What machines that are lost add to a training, expected values: spot instances that are reclaimed, at the published band of
/// their type or at what the job says, times its scenario, or machines that fail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedInterruptions {
    /// Machines that are lost; each stops all.
    pub expected: f64,
    /// Seconds until they are replaced, those in a scheduler's queue included, where no machine is paid for.
    pub waiting_s: f64,
    /// Seconds of making replaced ones ready and of reading checkpoints.
    pub restarts_s: f64,
    /// Seconds of work that is done again, and of checkpoints that are written when a reclaim is announced.
    pub lost_s: f64,
}

impl ExpectedInterruptions {
    /// Returns the sum of the parts, in seconds.
    pub fn total_s(&self) -> f64 {
        self.waiting_s + self.restarts_s + self.lost_s
    }
}

impl Prediction {
    /// Returns the seconds from the request for machines to the last checkpoint, by its parts: [`Self::in_all_s`] says the
    /// same, which older documents lack.
    pub fn elapsed_s(&self) -> f64 {
        self.time_s + self.around_s()
    }

    /// Returns the seconds of the training on machines that have started, to the last checkpoint, without reclaims: reading
    /// weights, download, steps, checkpoints, forward passes and expected failures.
    pub fn training_s(&self) -> f64 {
        let download = self.weights_s.unwrap_or(0.0) + self.input.map_or(0.0, |input| input.download_s);
        let forward = self.evaluations_s.unwrap_or(0.0) + self.reference_s.unwrap_or(0.0);
        let failed = self.failures.map_or(0.0, |failures| failures.total_s());
        download + self.time_s + self.checkpoints_s.unwrap_or(0.0) + forward + failed
    }

    /// Returns `true` unless machines are lost so often that a training makes hardly any progress: a hundred times the time of
    /// its steps is lost.
    pub fn makes_progress(&self) -> bool {
        self.lost_s() <= 100.0 * self.time_s
    }

    /// Returns the seconds that are lost with machines.
    fn lost_s(&self) -> f64 {
        [self.interruptions, self.failures].into_iter().flatten().map(|losses| losses.total_s()).sum()
    }

    /// Returns the seconds of [`Self::elapsed_s`] that are not steps.
    pub fn around_s(&self) -> f64 {
        let saved = self.start_up_s.unwrap_or(0.0) + self.checkpoints_s.unwrap_or(0.0);
        saved + self.lost_s() + self.evaluations_s.unwrap_or(0.0) + self.reference_s.unwrap_or(0.0)
    }
}

/// What becomes of samples on their way to the step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputPrediction {
    /// What a step waits for its samples, of its whole time.
    pub input_stall_s: f64,
    /// Time in which devices work on steps over all time, as MLPerf Storage defines it.
    pub accelerator_utilisation: f64,
    /// What limits the training.
    pub bottleneck: Bottleneck,
    /// Samples a second that storage gives, all machines together.
    pub read_samples_per_s: f64,
    /// Samples a second that are decoded.
    pub decode_samples_per_s: f64,
    /// Samples a second that are copied to the devices.
    pub copy_samples_per_s: f64,
    /// Samples a second that steps would take if they never waited.
    pub step_samples_per_s: f64,
    /// Seconds of a step during the first pass over the data set.
    pub first_pass_step_time_s: f64,
    /// Seconds of downloading or listing before the first step, which are part of its start-up.
    pub download_s: f64,
    /// Requests that read objects of Amazon S3, of the whole training.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests: f64,
}

/// A price and where it comes from: of machines that AWS rents out, or of those that a cluster file describes, which are in
/// no Region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceUsed {
    /// USD per hour of one instance; the mean where `kinds` differ.
    pub usd_per_hour: f64,
    /// The lowest price seen; differs for spot only.
    pub low_usd_per_hour: f64,
    /// The highest price seen.
    pub high_usd_per_hour: f64,
    /// Region; absent for machines of a cluster file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// ec2 or sagemaker; absent for machines of a cluster file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The terms; absent for machines of a cluster file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Pricing>,
    /// When it was seen; absent for machines of a cluster file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Where it was read; for machines of a cluster file its path.
    pub source: String,
    /// The prices of kinds of machines that are used together; empty where all machines are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<PriceOfKind>,
    /// Availability Zones in which the instance is offered, if the table of prices says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// The share of spot capacity that is reclaimed in a month (`5-10%`), if the table of prices says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptions: Option<String>,
}

/// What machines of one kind cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceOfKind {
    /// The kind.
    pub name: String,
    /// How many.
    pub instances: u32,
    /// USD per hour of one of them.
    pub usd_per_hour: f64,
}

/// Where and when the price of rented machines was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered<'a> {
    /// The Region.
    pub region: &'a str,
    /// The service, ec2 or sagemaker.
    pub service: &'a str,
    /// When it was seen.
    pub date: &'a str,
}

impl PriceUsed {
    /// Returns a price that somebody stated of machines of one's own: USD per hour of one, the mean where `kinds` differ.
    /// `source` names the file that states it.
    pub fn stated(usd_per_hour: f64, source: &str, kinds: Vec<PriceOfKind>) -> Self {
        Self {
            usd_per_hour,
            low_usd_per_hour: usd_per_hour,
            high_usd_per_hour: usd_per_hour,
            region: None,
            service: None,
            pricing: None,
            date: None,
            source: source.into(),
            kinds,
            zones: Vec::new(),
            interruptions: None,
        }
    }

    /// Returns where and when the price was seen; `None` for machines that are not rented at AWS, but described by a
    /// cluster file.
    pub fn offered(&self) -> Option<Offered<'_>> {
        let (region, service, date) = (self.region.as_deref()?, self.service.as_deref()?, self.date.as_deref()?);
        Some(Offered { region, service, date })
    }

    /// Returns what an hour of so many machines costs, in USD.
    pub fn of_all(&self, instances: u32) -> f64 {
        self.usd_per_hour * f64::from(instances)
    }
}

/// Where a step goes, in seconds of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    /// Forward passes.
    pub forward_s: f64,
    /// Backward passes.
    pub backward_s: f64,
    /// Moving bytes between ranks, as far as nothing was computed meanwhile. What ranks that share layers bring
    /// together inside a pass belongs to that pass. With what was waited for, in documents that do not tell it apart.
    pub communication_s: f64,
    /// Waiting for data or for other ranks.
    #[serde(default)]
    pub wait_s: f64,
    /// The optimizer's update.
    pub optimizer_s: f64,
    /// The rest of the step, where it was measured.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_s: f64,
}

impl Phases {
    /// Returns each phase with its name, in the order of a step.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("forward", self.forward_s),
            ("backward", self.backward_s),
            ("communication", self.communication_s),
            ("wait", self.wait_s),
            ("optimizer", self.optimizer_s),
            ("other", self.other_s),
        ]
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(seconds: &f64) -> bool {
    seconds.abs() < f64::MIN_POSITIVE
}

/// Memory of the ranks, by stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// What the smallest device of any stage has.
    pub limit: u64,
    /// What one rank of each stage needs.
    pub stages: Vec<StageMemory>,
    /// What the ranks of one machine keep in its main memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<u64>,
    /// What they keep on its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
}

/// What one rank of a stage needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageMemory {
    /// Weights that compute uses.
    pub parameters: u64,
    /// Gradients.
    pub gradients: u64,
    /// Moments and master weights.
    pub optimizer_state: u64,
    /// Activations at the schedule's peak.
    pub activations: u64,
    /// Weights that are gathered and gradients that are sent.
    #[serde(default)]
    pub buffers: u64,
    /// Buffers inside one layer.
    pub workspace: u64,
    /// What weights that are loaded whole, before training, need more than all of that.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub loading: u64,
    /// Driver, framework, and what the allocator holds without use.
    pub software: u64,
    /// All of it.
    pub total: u64,
    /// What the smallest device of the stage has, where it is more than [`Memory::limit`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Returns `true` for a part of the memory that is left out of a document.
fn is_nothing(bytes: &u64) -> bool {
    *bytes == 0
}

impl Memory {
    /// Returns the most bytes that a rank needs, whatever its device has.
    pub fn peak(&self) -> u64 {
        self.stages.iter().map(|stage| stage.total).max().unwrap_or(0)
    }

    /// Returns the part of its device that a rank of a stage fills.
    pub fn share(&self, stage: &StageMemory) -> f64 {
        stage.total as f64 / self.limit_of(stage) as f64
    }

    /// Returns the number of the first stage whose ranks fill most of their device.
    pub fn fullest_stage(&self) -> Option<usize> {
        let filled = self.stages.iter().map(|stage| (self.share(stage), stage.total)).enumerate();
        let fullest = filled.max_by(|(first, (own, held)), (second, (other, held_there))| {
            own.total_cmp(other).then(held.cmp(held_there)).then(second.cmp(first))
        });
        fullest.map(|(stage, _)| stage)
    }

    /// Returns the bytes of the device of a stage's ranks, the smallest if they differ.
    pub fn limit_of(&self, stage: &StageMemory) -> u64 {
        stage.limit.unwrap_or(self.limit)
    }

    /// Returns the bytes that the rank needs that fills most of its device, and those of the device.
    pub fn fullest(&self) -> (u64, u64) {
        let fullest = self.fullest_stage().map(|stage| &self.stages[stage]);
        fullest.map_or((0, self.limit), |stage| (stage.total, self.limit_of(stage)))
    }

    /// Returns the bytes that one rank of each stage needs, added up. Sums saturate, because a document may hold any
    /// number.
    pub fn of_one_pipeline(&self) -> u64 {
        self.stages.iter().fold(0, |sum, stage| sum.saturating_add(stage.total))
    }
}

impl StageMemory {
    /// Returns the bytes of weights, those among them that are held only while they are loaded.
    pub fn weights(&self) -> u64 {
        self.parameters.saturating_add(self.loading)
    }

    /// Returns the bytes of weights and their gradients.
    pub fn weights_and_gradients(&self) -> u64 {
        self.parameters.saturating_add(self.gradients)
    }

    /// Returns the bytes of communication buffers and of workspace inside a layer.
    pub fn buffers_and_workspace(&self) -> u64 {
        self.buffers.saturating_add(self.workspace)
    }
}

/// Another plan that was considered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// The plan.
    pub plan: PlanSpec,
    /// Seconds of one optimizer step.
    pub step_time_s: f64,
    /// Seconds in all (`prediction.in_all_s` of the plan): from the request for machines to the last checkpoint.
    pub time_s: f64,
    /// Price of the whole training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The price that was used, with its date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceUsed>,
    /// What the fullest rank needs, in bytes.
    pub memory_peak_bytes: u64,
}

/// A search on which a reason rests: `trainyard plan` with these fields held, without deadline and budget, finds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Which of the reasons, counted from 0.
    pub reason: usize,
    /// What is held, as `--fix` takes it.
    pub fix: Vec<String>,
    /// Seconds in all (`prediction.in_all_s`) by the plan that is then recommended, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<f64>,
    /// Its price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What the least plan needs on a device, in bytes, where none fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_bytes: Option<u64>,
}

/// What a training framework would give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StackChoice {
    /// Name in the catalog of stacks.
    pub stack: String,
    /// Its best plan, with what is expected of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Alternative>,
    /// Why it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the recommended plan is for it.
    pub recommended: bool,
}

/// What a method of fine-tuning would need and cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MethodChoice {
    /// Which weights are trained.
    pub method: Method,
    /// Values that are trained.
    pub trained_parameters: u64,
    /// Values of the model, adapters among them.
    pub parameters: u64,
    /// Its best plan; that of a method which is not the job's is sought without deadline and budget, by a short search where
    /// the whole one would be long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Alternative>,
    /// The machines with the lowest price an hour on which it fits; absent for machines that are not rented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest: Option<SmallestMachine>,
    /// Why it has no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it is the job's, so that its plan is the recommended one.
    pub chosen: bool,
}

/// The machines with the lowest price an hour on which something fits, among powers of two of each type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmallestMachine {
    /// The type.
    pub instance: String,
    /// How many.
    pub instances: u32,
    /// The price of all of them, by the hour.
    pub hourly_usd: f64,
    /// What the fullest rank needs there, in bytes.
    pub memory_peak_bytes: u64,
}

/// Plans that were not possible, for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rejected {
    /// What was tried.
    pub what: String,
    /// Why not.
    pub why: String,
    /// How many plans.
    pub count: u64,
    /// The limit that they do not keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<RejectedBy>,
    /// How many times the limit they take at least, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
}

/// How a search went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Plans in the space.
    pub candidates: u64,
    /// Plans that were simulated; the others were proved worse or did not fit.
    pub simulated: u64,
    /// How much better than the recommended plan another could still be, as a fraction. Zero: it is proved best.
    pub gap: f64,
    /// What was not searched because the job says nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// Instance types that were not searched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// Their families, `g6`.
    pub families: Vec<String>,
    /// The plan that is recommended on one type of them, the best that a short search found; absent where the search would
    /// have been long, or found none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<LeftOutPlan>,
}

/// A plan on instance types that were not searched: another may be better still.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeftOutPlan {
    /// The type.
    pub instance: String,
    /// How many.
    pub instances: u32,
    /// Seconds from the request for machines to the last checkpoint.
    pub time_s: f64,
    /// Price of the training.
    pub cost_usd: f64,
    /// The probability that it ends in time; absent without a deadline, and in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_deadline: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_device_has_the_least_room_for_its_size() {
        let stage = |total: u64, limit: Option<u64>| {
            let parts = serde_json::json!({
                "parameters": total, "gradients": 0, "optimizer_state": 0, "activations": 0, "buffers": 0,
                "workspace": 0, "software": 0, "total": total, "limit": limit,
            });
            serde_json::from_value(parts).expect("a stage")
        };
        let of = |stages| Memory { stages, limit: 40, host: None, disk: None };
        let memory = of(vec![stage(58, Some(80)), stage(32, None), stage(20, None)]);
        assert_eq!((memory.fullest_stage(), memory.fullest(), memory.peak()), (Some(1), (32, 40), 58));
        assert_eq!(memory.limit_of(&memory.stages[0]), 80);
        // Of stages alike the first.
        assert_eq!(of(vec![stage(32, None), stage(32, None)]).fullest_stage(), Some(0));
    }

    #[test]
    fn memory_that_no_device_has_is_added_up_too() {
        let stage = StageMemory {
            parameters: u64::MAX,
            gradients: 1,
            optimizer_state: 0,
            activations: 0,
            buffers: 2,
            workspace: u64::MAX - 1,
            loading: 0,
            software: 0,
            total: u64::MAX,
            limit: None,
        };
        assert_eq!((stage.weights_and_gradients(), stage.buffers_and_workspace()), (u64::MAX, u64::MAX));
        let memory = Memory { limit: 1, stages: vec![stage; 2], host: None, disk: None };
        assert_eq!((memory.peak(), memory.of_one_pipeline()), (u64::MAX, u64::MAX));
    }
}
