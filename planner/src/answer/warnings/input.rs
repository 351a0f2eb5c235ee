//! What the time and the cost of a plan rest on in how samples are stored and decoded: what would change the decision if
//! it were not so.

use super::Warnings;
use crate::Limits;
use crate::amount::usd;
use crate::answer::solve::aim;
use crate::answer::terms::unpriced_copies;
use crate::problem::{Data, Place, TEXT, chosen, named_set, usual_set};
use crate::search::{Aim, Evaluated, Prepared, Totals, amount, choose_briefly};
use trainyard_plan::{BatchSpec, Cache, DecodePlace, Fixed, InputSpec, Plan, PlanSpec, SampleFormat, StorageMode};
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
        [self.decoding_by_gpus(), self.assumed_storage(), self.requests(), place].into_iter().flatten().collect()
    }

    /// Tells what requests to S3 cost, where that is a noticeable part of the whole.
    fn requests(&self) -> Option<String> {
        let (parts, input) = (self.prediction.cost_parts?, self.plan.input()?);
        let share = parts.requests_usd / parts.total();
        let cached = match (input.storage, input.cache) {
            (StorageMode::S3FastFile | StorageMode::S3Pipe, Cache::None) => {
                ", or a cache that is filled in the first pass,"
            }
            _ => "",
        };
        (share > NOTICEABLE).then(|| {
            format!(
                "requests to S3 cost {} of this, {:.0} %: samples packed into larger files (WebDataset, TFRecord){cached} take \
                 fewer",
                usd(parts.requests_usd),
                100.0 * share
            )
        })
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

    /// Offers decoding by GPUs, for which a script has to use NVIDIA DALI, where it is noticeably better than decoding by CPUs:
    /// tells the best that a short search finds with it, or this plan.
    fn decoding_by_gpus(&self) -> Option<String> {
        let (limits, input, data) = (self.limits?, self.plan.input()?, self.problem.data?);
        let open = data.held.decode.or(limits.fixed.input_decode).is_none();
        if !open || data.set.format != SampleFormat::Jpeg {
            return None;
        }
        let machine = self.problem.place.machine_of(self.choice, self.plan);
        let own = Totals::simulated(self.problem, self.plan, self.choice, &machine)?;
        let value = |totals: Totals| amount(self.problem.objective, totals);
        let is_late = |totals: &Totals| self.problem.is_late(totals.elapsed_s);
        let input = Some(InputSpec { decode: DecodePlace::Gpu, ..input });
        let plan = Plan::try_from(PlanSpec { input, ..self.plan.spec().clone() }).ok()?;
        let same = Totals::simulated(self.problem, &plan, self.choice, &machine);
        let same = same.map(|totals| (self.plan.cluster().to_string(), totals));
        let best = self.decoded_by_gpus(limits).map(|best| (best.machines(), Totals::found(&best)));
        let order = |totals: &Totals| (is_late(totals), value(*totals));
        let (machines, with) = [same, best].into_iter().flatten().min_by(|(_, a), (_, b)| {
            let ((late, amount), (other_late, other)) = (order(a), order(b));
            late.cmp(&other_late).then(amount.total_cmp(&other))
        })?;
        let in_time = is_late(&own) && !is_late(&with);
        (in_time || value(with) < value(own) * (1.0 - NOTICEABLE)).then(|| {
            let cost = with.cost_usd.map_or_else(String::new, |cost| format!(" and {}", usd(cost)));
            let time = human_duration(Seconds(with.elapsed_s));
            format!(
                "images decoded by GPUs (NVIDIA DALI, in the script) would help: {machines} takes about {time}{cost}; --fix \
                 input.decode=gpu plans for that"
            )
        })
    }

    /// Searches briefly for what would be recommended if GPUs decoded.
    fn decoded_by_gpus(&self, limits: &Limits) -> Option<Evaluated> {
        let fixed = Fixed { input_decode: Some(DecodePlace::Gpu), ..limits.fixed.clone() };
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

    /// Tells how many tokens a decoder is counted to write, where the job does not say: as many as the encoder reads, of text
    /// that is no translation; or the most that it reads, of samples that are no text and a `config.json`, which says no more.
    pub(super) fn labels(&self) -> Option<String> {
        let (model, choice) = (&self.problem.model, &self.job.model);
        let tokens = model.spec().decoder_seq_len.filter(|_| choice.decoder_seq_len.is_none())?;
        if let Some(read) = model.tokens_per_sample() {
            let of_text = usual_set(self.job, model).is_some_and(|set| set.name == TEXT);
            return (of_text && tokens == read).then(|| {
                format!(
                    "the decoder is counted as writing {tokens} tokens for each sample, as many as the encoder reads: summaries \
                     and answers are shorter and take less; --decoder-seq-len (model.decoder_seq_len) says how long they are"
                )
            });
        }
        choice.config.is_some().then(|| {
            format!(
                "labels are counted as {tokens} tokens each, the most that the decoder reads; --decoder-seq-len \
                 (model.decoder_seq_len) says another length"
            )
        })
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
    use trainyard_plan::{Cache, DecodePlace, JobSpec, SampleFormat, StorageMode};

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

    /// What its caveat says of decoding by GPUs.
    fn offer(document: &PlanDocument) -> Option<&String> {
        told(document, "decoded by GPUs (NVIDIA DALI, in the script) would help: ")
    }

    #[test]
    fn decoding_by_gpus_is_offered_and_never_assumed() {
        let document = planned(&images());
        assert_eq!(document.plan.input.map(|input| input.decode), Some(DecodePlace::Cpu));
        let same = offer(&document).expect("A100s have JPEG engines");
        assert!(same.contains("would help: 1 × p4d.24xlarge takes about "), "{same}");
        let mut by_gpus = images();
        by_gpus.data.decode = Some(DecodePlace::Gpu);
        let other = planned(&by_gpus);
        assert_eq!(other.plan.input.map(|input| input.decode), Some(DecodePlace::Gpu));
        assert!(offer(&other).is_none(), "{:?}", other.warnings);
        assert!(document.prediction.elapsed_s() > 1.5 * other.prediction.elapsed_s());
        let mut stored = images();
        stored.data.format = Some(SampleFormat::Raw);
        assert!(offer(&planned(&stored)).is_none());
    }

    /// Cheaper machines keep as many processors busy as a machine of A100s, whose GPUs wait for theirs.
    #[test]
    fn the_machines_that_would_win_with_decoding_by_gpus_are_told() {
        let mut job = images();
        job.cluster.instances = Some(vec!["p4d.24xlarge".into(), "g4dn.2xlarge".into()]);
        job.cluster.max_instances = Some(4);
        let document = planned(&job);
        assert_eq!(document.plan.cluster.instance, "g4dn.2xlarge");
        let offer = offer(&document).expect("A100s have JPEG engines");
        assert!(offer.contains("would help: 1 × p4d.24xlarge takes about "), "{offer}");
    }

    /// A request for each image in each of 30 passes, at 0.0004 USD for a thousand.
    #[test]
    fn requests_for_single_files_are_in_the_cost_and_told() {
        let mut job = images();
        job.data.storage = Some(StorageMode::S3FastFile);
        (job.data.files, job.data.cache) = (Some(1_281_167), Some(Cache::None));
        let single = planned(&job);
        let parts = single.prediction.cost_parts.expect("rented machines cost");
        let images = (single.prediction.steps * 1024) as f64;
        assert!((parts.requests_usd - images * 4e-7).abs() < 1e-9, "{parts:?}");
        assert!((parts.total() - single.prediction.cost_usd.expect("a cost")).abs() < 1e-9);
        assert!(told(&single, "requests to S3 cost 15.38 USD of this").is_some(), "{:?}", single.warnings);
        job.data.files = None;
        let packed = planned(&job);
        let parts = packed.prediction.cost_parts.expect("rented machines cost");
        assert!(parts.requests_usd > 0.0 && parts.requests_usd < 0.25, "{parts:?}");
        assert!(told(&packed, "requests to S3").is_none());
    }

    #[test]
    fn files_are_told_where_their_number_is_supposed_and_matters() {
        let part = "in files of 128 MiB";
        let mut images = images();
        images.data.decode = Some(DecodePlace::Gpu);
        assert!(told(&planned(&images), part).is_some());
        let mut packed = images.clone();
        packed.data.files = Some(1024);
        assert!(told(&planned(&packed), part).is_none());
        let mut there = images;
        there.data.storage = Some(StorageMode::Memory);
        assert!(told(&planned(&there), part).is_none());
    }

    /// Half the text in the decoder is a third less work or more, which nobody sees in a length that is only supposed.
    #[test]
    fn a_decoder_that_is_counted_as_writing_as_much_as_is_read_is_told_until_the_job_says_how_much() {
        let part = "the decoder is counted as writing 512 tokens";
        let mut job = asking::job("t5-small", 64, &["g5.xlarge"], 1);
        job.data.samples = Some(100_000);
        let equal = planned(&job);
        assert!(told(&equal, part).is_some(), "{:?}", equal.warnings);
        job.model.decoder_seq_len = Some(64);
        let short = planned(&job);
        assert!(told(&short, "the decoder is counted").is_none());
        assert_eq!(short.plan.model.decoder_seq_len, Some(64));
        assert!(short.prediction.step_time_s < 0.7 * equal.prediction.step_time_s);
        let mut translation = asking::job("transformer-big", 64, &["g5.xlarge"], 1);
        translation.data.samples = Some(100_000);
        assert!(told(&planned(&translation), "the decoder is counted").is_none());
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
