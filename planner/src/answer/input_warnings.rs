//! What the time and the cost of a plan rest on in how samples are stored and decoded: what would change the decision if
//! it were not so.

use super::solve::aim;
use super::terms::unpriced_copies;
use super::warnings::Warnings;
use crate::amount::usd;
use crate::problem::{Data, Place, chosen, named_set};
use crate::search::{Aim, Evaluated, Prepared, Totals, choose_briefly};
use trainyard_plan::{BatchSpec, DecodePlace, Fixed, InputSpec, Plan, PlanSpec, SampleFormat, StorageMode};
use trainyard_sim::{DataSet, Intake, LoaderRates};
use trainyard_units::{Seconds, human_duration};

/// The bytes of a sample from which on it may lie in a file of its own: a stated default. Nobody keeps records of a table so.
const LEAST_FILE: f64 = 1000.0;

/// The part of the time that another way of storing or decoding must add to be reported.
const NOTICEABLE: f64 = 0.03;

impl Warnings<'_> {
    /// Lists what the time and the cost rest on in how samples are stored and decoded.
    pub(super) fn of_input(&self) -> Vec<String> {
        let place = match self.problem.place {
            Place::Rented(_) => unpriced_copies(self.job, self.prediction, self.plan, &self.problem.place, self.choice),
            Place::Owned { .. } => self.there_already(),
        };
        [self.decoding_by_gpus(), self.assumed_storage(), place].into_iter().flatten().collect()
    }

    /// Tells that samples are taken to be on machines of one's own before the training begins, where the job does not say
    /// so.
    fn there_already(&self) -> Option<String> {
        let input = self.plan.input().filter(|_| self.job.data.storage.is_none())?;
        let place = match input.storage {
            StorageMode::Nvme => "on the local disks",
            StorageMode::Memory => "in main memory",
            _ => return None,
        };
        Some(format!(
            "the samples are taken to be {place} of every machine already; [shared_storage] in the cluster file describes a \
             file system that all machines mount, and samples are read from there"
        ))
    }

    /// Warns of decoding by GPUs, which most training scripts do not do, by simulating the same plan without it.
    fn decoding_by_gpus(&self) -> Option<String> {
        let input = self.plan.input().filter(|input| input.decode == DecodePlace::Gpu)?;
        let input = Some(InputSpec { decode: DecodePlace::Cpu, ..input });
        let plan = Plan::try_from(PlanSpec { input, ..self.plan.spec().clone() }).ok()?;
        let machine = self.problem.place.machine_of(self.choice, &plan);
        let other = Totals::simulated(self.problem, &plan, self.choice, &machine)?;
        (other.elapsed_s > self.prediction.elapsed_s() * (1.0 + NOTICEABLE)).then(|| {
            let takes = |elapsed_s: f64, cost: Option<f64>| {
                let cost = cost.map_or_else(String::new, |cost| format!(" and {}", usd(cost)));
                format!("{}{cost}", human_duration(Seconds(elapsed_s)))
            };
            let best = self.decoded_by_cpus().filter(|best| best.machines() != self.plan.cluster().to_string());
            let best = best.map_or_else(String::new, |best| {
                let told = takes(best.elapsed_s, best.cost_usd);
                format!(", and {}, the best that a short search finds, {told}", best.machines())
            });
            let late = self.problem.is_late(other.elapsed_s);
            let late = if late { ", more than the deadline" } else { "" };
            format!(
                "images are decoded by GPUs with NVIDIA DALI; with a DataLoader that decodes on CPUs this plan takes \
                 {}{late}{best}: --fix input.decode=cpu plans for that",
                takes(other.elapsed_s, other.cost_usd)
            )
        })
    }

    /// Searches briefly for what would be recommended if CPUs decoded.
    fn decoded_by_cpus(&self) -> Option<Evaluated> {
        let limits = self.limits?;
        let fixed = Fixed { input_decode: Some(DecodePlace::Cpu), ..limits.fixed.clone() };
        let problem = self.problem.briefly();
        choose_briefly(&Prepared::new(&problem, &fixed), Aim { top: 1, ..aim(&problem, limits) })
    }

    /// Tells the format and the files in which samples are supposed to lie, where the job says neither and it matters.
    fn assumed_storage(&self) -> Option<String> {
        let (data, spec) = (self.problem.data.filter(|_| self.plan.input().is_some())?, &self.job.data);
        let named = named_set(spec).ok()?.is_some() || data.assumed || spec.format.is_some();
        let guessed = (!named && data.set.format == SampleFormat::Jpeg)
            .then_some("samples are taken to be JPEG images; data.format tells another format");
        let packed = self.slowdown_of_single_files(&data.set).map(|slowdown| {
            format!(
                "samples are supposed to lie in files of 128 MiB (WebDataset, TFRecord): in one file each the training \
                 takes {}; data.files tells another number",
                longer(slowdown)
            )
        });
        let told: Vec<String> = guessed.map(str::to_owned).into_iter().chain(packed).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// Returns how many times as long the training takes if every sample is a file, read in the way that is best then, where
    /// the job does not say how many files there are, machines reach them over a network, and it is noticeable.
    fn slowdown_of_single_files(&self, data: &DataSet) -> Option<f64> {
        let (input, predicted) = (self.plan.input()?, self.prediction.input.as_ref()?);
        let remote = !matches!(input.storage, StorageMode::Nvme | StorageMode::Memory);
        if !remote || data.files.is_some() || data.bytes_per_sample < LEAST_FILE {
            return None;
        }
        let steps = self.prediction.steps;
        let BatchSpec { global: global_batch, micro: micro_batch, .. } = self.plan.batch();
        let machine = self.problem.place.machine_of(self.choice, self.plan);
        let step = Seconds(self.prediction.step_time_s - predicted.input_stall_s);
        let intake = Intake { mesh: self.plan.mesh(), global_batch, micro_batch };
        let time = |rates: LoaderRates| {
            let feed = rates.feed(step, steps);
            feed.time.0 + feed.download.0
        };
        let own = LoaderRates::new(intake, &machine, data, input).ok()?.of_equal_samples();
        let samples = data.samples.or_else(|| steps.checked_mul(global_batch))?;
        let single = DataSet { samples: Some(samples), files: Some(samples), ..*data };
        let single = Data { set: single, ..self.problem.data? };
        let fixed = self.limits.map(|limits| limits.fixed.clone()).unwrap_or_default();
        let batch = self.plan.batch();
        let ways = single.supplies(&fixed, &machine, self.plan.mesh().parallel(), batch).ok()?;
        let way = chosen(&ways, (step, micro_batch), steps)?;
        let slowdown = time(ways.into_iter().nth(way)?.1) / time(own);
        (slowdown > 1.0 + NOTICEABLE).then_some(slowdown)
    }

    /// Tells how many tokens of a label are counted, where samples are no text and a `config.json` says no more than how
    /// many the decoder reads at most.
    pub(super) fn labels(&self) -> Option<String> {
        let model = &self.problem.model;
        self.job.model.config.as_ref().filter(|_| model.tokens_per_sample().is_none())?;
        let tokens = model.spec().decoder_seq_len?;
        Some(format!(
            "labels are counted as {tokens} tokens each, the most that the decoder reads; what-if --vary \
             model.decoder_seq_len tells another length"
        ))
    }
}

/// Says that something takes so many times as long: `3 % longer`, `4.2 times as long`.
fn longer(times: f64) -> String {
    if times < 2.0 { format!("{:.0} % longer", 100.0 * (times - 1.0)) } else { format!("{times:.1} times as long") }
}

#[cfg(test)]
mod tests {
    use crate::asking;
    use crate::{Limits, recommend};
    use trainyard_plan::document::PlanDocument;
    use trainyard_plan::{DecodePlace, JobSpec, SampleFormat, StorageMode};

    fn images() -> JobSpec {
        let mut job = asking::job("resnet50", 1024, &["p4d.24xlarge"], 1);
        job.data.dataset = Some("imagenet".into());
        job.data.storage = Some(StorageMode::S3FastFile);
        job.training.epochs = Some(30.0);
        job
    }

    fn planned(job: &JobSpec) -> PlanDocument {
        let problem = asking::solvable(job);
        recommend(&problem, &Limits { top: 1, ..Limits::default() }, job).expect("a plan")
    }

    fn told<'a>(document: &'a PlanDocument, part: &str) -> Option<&'a String> {
        document.warnings.iter().find(|warning| warning.contains(part))
    }

    #[test]
    fn decoding_by_gpus_is_told_first_with_the_same_plan_decoded_by_cpus() {
        let document = planned(&images());
        assert!(document.warnings[0].starts_with("images are decoded by GPUs"), "{:?}", document.warnings);
        let mut by_cpus = images();
        by_cpus.data.decode = Some(DecodePlace::Cpu);
        let other = planned(&by_cpus);
        assert!(told(&other, "images are decoded by GPUs").is_none(), "{:?}", other.warnings);
        let mut late = images();
        late.goal.deadline = Some(format!("{} s", document.prediction.elapsed_s() * 1.1));
        let late = planned(&late).warnings;
        assert!(late.iter().any(|told| told.contains("more than the deadline")), "{late:?}");
    }

    /// Cheaper machines keep as many processors busy as a machine of A100s, whose GPUs wait for theirs.
    #[test]
    fn the_machines_that_would_win_with_decoding_by_cpus_are_told() {
        let mut job = images();
        job.cluster.instances = Some(vec!["p4d.24xlarge".into(), "g4dn.2xlarge".into()]);
        job.cluster.max_instances = Some(4);
        let document = planned(&job);
        assert_eq!(document.plan.cluster.instance, "p4d.24xlarge");
        let best = "g4dn.2xlarge, the best that a short search finds, ";
        assert!(document.warnings[0].contains(best), "{:?}", document.warnings);
        assert!(!planned(&images()).warnings[0].contains("short search"));
    }

    #[test]
    fn files_are_told_where_their_number_is_supposed_and_matters() {
        let part = "in files of 128 MiB";
        assert!(told(&planned(&images()), part).is_some());
        let mut packed = images();
        packed.data.files = Some(1024);
        assert!(told(&planned(&packed), part).is_none());
        let mut there = images();
        there.data.storage = Some(StorageMode::Memory);
        assert!(told(&planned(&there), part).is_none());
    }

    #[test]
    fn a_format_that_nobody_said_is_told() {
        let mut own = images();
        (own.data.dataset, own.data.samples, own.data.bytes_per_sample) = (None, Some(100_000), Some(6e6));
        let part = "taken to be JPEG images";
        assert!(told(&planned(&own), part).is_some());
        own.data.format = Some(SampleFormat::Jpeg);
        assert!(told(&planned(&own), part).is_none());
        assert!(told(&planned(&images()), part).is_none());
    }
}
