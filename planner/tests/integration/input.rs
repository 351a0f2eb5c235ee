//! Jobs whose samples have to be brought in.

use crate::common::{self, plan_with, refused};
use trainyard_models::Family;
use trainyard_plan::document::{InputPrediction, PlanDocument};
use trainyard_plan::{
    Bottleneck, Cache, CampaignSpec, ClusterChoice, DataSpec, DecodePlace, Fixed, JobSpec, ModelChoice, SampleFormat,
    StorageMode,
};
use trainyard_planner::{MachineFiles, Resources, resimulate};
use trainyard_sim::Options;
use trainyard_units::{Bytes, BytesPerSecond};

/// ResNet-50 on the images of ImageNet as MLPerf Storage has them, for three passes.
fn images(instances: &[&str]) -> JobSpec {
    let mut job = common::job("resnet50", 256, instances, 1);
    (job.data.samples, job.data.bytes_per_sample) = (Some(1_281_167), Some(114_660.0));
    (job.data.files, job.training.epochs) = (Some(1024), Some(3.0));
    job
}

fn plan(job: &JobSpec, fixed: &[&str]) -> PlanDocument {
    common::plan(job, fixed, 3).expect("a plan")
}

fn predicted(document: &PlanDocument) -> InputPrediction {
    document.prediction.input.expect("samples are brought in")
}

/// The same document without the input, or what the step is without it.
fn unfed(document: &PlanDocument) -> PlanDocument {
    let mut other = document.clone();
    other.plan.input = None;
    resimulate(&other, MachineFiles::default(), Options::default()).expect("a simulation").0
}

#[test]
fn eight_processors_do_not_feed_a_v100() {
    let document = plan(&images(&["p3.2xlarge"]), &["input.storage=s3-fastfile"]);
    let input = predicted(&document);
    assert_eq!(input.bottleneck, Bottleneck::Decode);
    assert!(input.accelerator_utilisation < 0.7 && input.input_stall_s > 0.0, "{input:?}");
    let alone = unfed(&document).prediction;
    assert!((alone.step_time_s + input.input_stall_s - document.prediction.step_time_s).abs() < 1e-9);
    assert!(document.prediction.time_s > 1.4 * alone.time_s && document.prediction.cost_usd > alone.cost_usd);
    assert!(document.prediction.mfu < alone.mfu);
    assert!(document.warnings[0].starts_with("decoding gives"), "{:?}", document.warnings);
    assert!(document.prediction.interval_s[1] > document.prediction.step_time_s);
}

#[test]
fn a_plan_is_simulated_anew_as_it_was_recommended() {
    let document = plan(&images(&["g4dn.12xlarge", "p4d.24xlarge"]), &[]);
    let (again, _) = resimulate(&document, MachineFiles::default(), Options::default()).expect("a simulation");
    assert_eq!(again.prediction, document.prediction);
    assert!(document.plan.input.is_some());
    let mut nothing = document.clone();
    nothing.job.data.bytes_per_sample = None;
    nothing.job.data.files = None;
    nothing.job.data.dataset = Some("none".into());
    let error = resimulate(&nothing, MachineFiles::default(), Options::default()).expect_err("no data");
    assert!(error.field() == "plan.input" && error.to_string().contains("`job.data`"), "{error}");
    let mut nothing = document.clone();
    nothing.prediction.steps = 0;
    let error = resimulate(&nothing, MachineFiles::default(), Options::default()).expect_err("no steps");
    assert_eq!(error.to_string(), "`prediction.steps` is 0, but it must be at least 1");
}

/// 512 batches, each of years, are more than a clock of nanoseconds can tell.
#[test]
fn samples_that_take_months_to_load_are_predicted() {
    let mut job = images(&["p3.2xlarge"]);
    (job.data.samples, job.data.files) = (Some(1000), None);
    let hours = |bytes: f64| {
        let data = DataSpec {
            bytes_per_sample: Some(bytes),
            bytes_deviation: Some(bytes / 10.0),
            storage: Some(StorageMode::S3FastFile),
            ..job.data.clone()
        };
        let prediction = plan(&JobSpec { data, ..job.clone() }, &[]).prediction;
        prediction.time_s / bytes
    };
    let ratio = hours(1e13) / hours(1e10);
    assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
}

#[test]
fn what_is_open_is_chosen_and_what_is_held_stays() {
    let job = images(&["p4d.24xlarge"]);
    let open = plan(&job, &[]);
    // Twelve processors for each A100 do not decode what it takes; its JPEG engines do, for a script that uses them.
    assert_eq!(open.plan.input.expect("an input").decode, DecodePlace::Cpu, "{:?}", open.reasons);
    assert!(predicted(&open).accelerator_utilisation < 0.8);
    assert!(predicted(&plan(&job, &["input.decode=gpu"])).accelerator_utilisation > 0.99);
    let held = plan(&job, &["input.decode=cpu", "input.workers=4", "input.prefetch=0", "input.cache=memory"]);
    let input = held.plan.input.expect("an input");
    assert_eq!((input.decode, input.workers, input.prefetch, input.cache), (DecodePlace::Cpu, 4, 0, Cache::Memory));
    assert!(predicted(&held).accelerator_utilisation < predicted(&open).accelerator_utilisation);
    let mut stored = job;
    stored.data.storage = Some(StorageMode::FsxLustre);
    assert_eq!(plan(&stored, &[]).plan.input.expect("an input").storage, StorageMode::FsxLustre);
    let over = plan(&stored, &["input.storage=s3-file"]);
    assert_eq!(over.plan.input.expect("an input").storage, StorageMode::S3File);
    assert!(predicted(&over).download_s > 10.0);
}

#[test]
fn tokens_never_wait_and_jobs_that_say_nothing_stay_as_they_are() {
    let mut job = common::job("gpt2", 64, &["g4dn.xlarge", "p3.2xlarge"], 2);
    job.data.tokens = Some(1e9);
    let silent = plan(&job, &[]);
    assert_eq!((silent.plan.input, silent.prediction.input), (None, None));
    job.data.bytes_per_sample = Some(2048.0);
    let fed = plan(&job, &[]);
    let input = predicted(&fed);
    assert!(input.input_stall_s.abs() < f64::EPSILON && input.bottleneck != Bottleneck::Storage, "{input:?}");
    assert!((fed.prediction.step_time_s - silent.prediction.step_time_s).abs() < f64::EPSILON);
    assert_eq!(fed.plan.parallel, silent.plan.parallel);
    assert!(!fed.warnings.iter().any(|warning| warning.contains("waits")), "{:?}", fed.warnings);
}

#[test]
fn machines_that_starve_are_not_recommended() {
    // Per dollar a V100 beats four T4, but not when eight old processors decode for it.
    let both = images(&["p3.2xlarge", "g4dn.12xlarge"]);
    let fed = plan(&both, &[]);
    let mut silent = both.clone();
    (silent.data.bytes_per_sample, silent.data.files) = (None, None);
    silent.data.dataset = Some("none".into());
    let cheapest = |document: &PlanDocument| document.prediction.cost_usd.expect("rented machines cost");
    assert!(cheapest(&fed) > cheapest(&plan(&silent, &[])));
    for instance in ["instance=p3.2xlarge", "instance=g4dn.12xlarge"] {
        assert!(cheapest(&fed) <= cheapest(&plan(&both, &[instance])) * (1.0 + 1e-9));
    }
}

#[test]
fn every_field_of_the_data_changes_what_is_predicted() {
    let mut base = images(&["p4d.24xlarge"]);
    base.data.decode = Some(DecodePlace::Cpu);
    let differs = |what: &str, storage: StorageMode, change: &dyn Fn(&mut JobSpec)| {
        let mut before = base.clone();
        before.data.storage = Some(storage);
        let mut after = before.clone();
        change(&mut after);
        assert_ne!(plan(&before, &[]).prediction, plan(&after, &[]).prediction, "{what}");
    };
    let fast = StorageMode::S3FastFile;
    differs("bytes", fast, &|job| job.data.bytes_per_sample = Some(200_000.0));
    differs("deviation", fast, &|job| job.data.bytes_deviation = Some(100_000.0));
    differs("format", fast, &|job| job.data.format = Some(SampleFormat::Raw));
    differs("files", fast, &|job| job.data.files = job.data.samples);
    differs("decode", fast, &|job| job.data.decode = Some(DecodePlace::Gpu));
    differs("workers", fast, &|job| job.data.workers = Some(2));
    differs("prefetch", fast, &|job| job.data.prefetch = Some(0));
    differs("cache", fast, &|job| job.data.cache = Some(Cache::Memory));
    differs("storage", fast, &|job| job.data.storage = Some(StorageMode::Memory));
    let lustre = StorageMode::FsxLustre;
    differs("fsx_throughput", lustre, &|job| job.data.fsx_throughput = Some(BytesPerSecond(1e9)));
    differs("fsx_size", lustre, &|job| job.data.fsx_size = Some("12 TiB".parse().expect("a size")));
    let volume = |job: &mut JobSpec| job.data.volume = Some(Bytes(1 << 40));
    differs("volume", StorageMode::S3File, &volume);
    differs("ebs_throughput", StorageMode::Ebs, &|job| job.data.ebs_throughput = Some(BytesPerSecond(1e9)));
}

#[test]
fn what_is_out_of_range_or_contradictory_is_refused_by_field() {
    let wrong = |change: &dyn Fn(&mut JobSpec), part: &str| {
        let mut job = images(&["p3.2xlarge"]);
        change(&mut job);
        let text = refused(&job).to_string();
        assert!(text.contains(part), "{text}");
    };
    wrong(&|job| job.data.bytes_per_sample = Some(0.0), "data.bytes_per_sample");
    wrong(&|job| job.data.bytes_per_sample = Some(1e-300), "data.bytes_per_sample");
    wrong(&|job| job.data.bytes_per_sample = Some(f64::NAN), "data.bytes_per_sample");
    let own = |job: &mut JobSpec| {
        job.data.bytes_per_sample = None;
        let (layers, width) = (Some(1), Some(8));
        let inputs = ModelChoice { inputs: width, outputs: width, ..ModelChoice::default() };
        job.model = ModelChoice { family: Some(Family::Mlp), layers, hidden: width, ..inputs };
    };
    wrong(&own, "`data.bytes_per_sample` is missing");
    wrong(&|job| job.data.dataset = Some("imagnet".into()), "no data set is called `imagnet`");
    wrong(&|job| job.data.dataset = Some("none".into()), "exclude each other");
    wrong(&|job| job.data.dataset = Some("text".into()), "does not read such samples");
    wrong(&|job| job.data.bytes_deviation = Some(-1.0), "data.bytes_deviation");
    wrong(&|job| job.data.files = Some(0), "data.files");
    wrong(&|job| job.data.files = Some(2_000_000), "the samples that there are");
    wrong(&|job| job.data.workers = Some(0), "data.workers");
    wrong(&|job| job.data.prefetch = Some(5000), "data.prefetch");
    wrong(&|job| job.data.format = Some(SampleFormat::Tokens), "data.format");
    wrong(&|job| job.data.fsx_throughput = Some(BytesPerSecond(3e8)), "125 MB/s, 250 MB/s");
    wrong(&|job| job.data.fsx_size = Some(Bytes(3 << 40)), "2.4 TiB");
    wrong(&|job| job.data.ebs_throughput = Some(BytesPerSecond(2e9)), "data.ebs_throughput");
    wrong(&|job| job.data.volume = Some(Bytes(0)), "data.volume");
    wrong(&|job| (job.data.storage, job.data.volume) = (Some(StorageMode::Nvme), Some(Bytes(1))), "exclude each other");
    wrong(&|job| job.data.storage = Some(StorageMode::Nvme), "no local disk");
    wrong(&|job| job.data.decode = Some(DecodePlace::Gpu), "no JPEG engine");
    let small_volume = |job: &mut JobSpec| {
        (job.data.storage, job.data.volume) = (Some(StorageMode::S3File), Some(Bytes(100_000_000_000)));
    };
    wrong(&small_volume, "the volume of `p3.2xlarge`");
    let mut job = images(&["p3.2xlarge"]);
    small_volume(&mut job);
    let error = refused(&job);
    assert!(error.to_string().contains(" takes "), "{error}");
    assert!(error.hint().expect("a hint").contains("data.volume"));
}

#[test]
fn machines_without_what_the_job_wants_are_rejected_by_name() {
    let mut job = images(&["p3.2xlarge", "p3dn.24xlarge"]);
    job.data.storage = Some(StorageMode::Nvme);
    let document = plan(&job, &[]);
    assert_eq!(document.plan.cluster.instance, "p3dn.24xlarge");
    let rejected = document.rejected.iter().find(|rejected| rejected.what == "p3.2xlarge").expect("it has no disk");
    assert!(rejected.why.contains("no local disk"), "{}", rejected.why);
}

/// The images on four machines of one's own with V100, whose file ends like this.
fn on_own_machines(rest: &str) -> PlanDocument {
    let mut job = images(&[]);
    job.cluster = ClusterChoice { file: Some("rack.toml".into()), ..ClusterChoice::default() };
    (job.training.epochs, job.campaign) = (Some(90.0), Some(CampaignSpec::default()));
    let file = format!("name = \"rack\"\nmachines = [{{ like = \"p3dn.24xlarge\", count = 4 }}]\n{rest}");
    let cluster_file = Some(toml::from_str(&file).expect("a cluster file"));
    plan_with::<&str>(&job, Resources { cluster_file, ..Resources::default() }, &[], 0).expect("a plan")
}

#[test]
fn machines_of_ones_own_read_from_their_file_system_where_they_have_one() {
    let storage = |document: &PlanDocument| document.plan.input.expect("an input").storage;
    let caveat = |document: &PlanDocument| document.warnings.iter().any(|told| told.contains("[shared_storage]"));
    let (none, shared) = (on_own_machines(""), on_own_machines("[shared_storage]\nread = \"1 GB/s\"\n"));
    assert!(matches!(storage(&none), StorageMode::Nvme | StorageMode::Memory) && caveat(&none), "{:?}", none.warnings);
    assert!(storage(&shared) == StorageMode::Shared && !caveat(&shared), "{:?}", shared.warnings);
    // The first pass cannot be faster than the file system: 147 GB at 1 GB/s.
    let first = predicted(&shared).first_pass_step_time_s * 1_281_167.0 / 256.0;
    assert!(first > 146.0, "{first}");
}

#[test]
fn a_model_of_the_catalog_brings_its_data_set() {
    let mut said = images(&["g4dn.xlarge", "g4dn.2xlarge"]);
    said.data.files = None;
    let mut silent = said.clone();
    silent.data.bytes_per_sample = None;
    let (said, silent) = (plan(&said, &[]), plan(&silent, &[]));
    assert_eq!((&said.plan, &said.prediction), (&silent.plan, &silent.prediction));
    let assumed = |document: &PlanDocument| document.warnings.iter().any(|warning| warning.contains("`imagenet`"));
    assert!(assumed(&silent) && !assumed(&said), "{:?}", silent.warnings);
}

#[test]
fn of_images_of_ones_own_it_is_said_among_the_first_how_they_are_supposed_to_be_stored() {
    let mut own = images(&["g4dn.xlarge"]);
    (own.data.bytes_per_sample, own.data.files) = (None, None);
    let file = trainyard_models::find("resnet18").expect("in the catalog").model.spec();
    own.model = ModelChoice { file: Some("own.toml".into()), ..ModelChoice::default() };
    let solve = |job: &JobSpec| {
        let resources = Resources { model_file: Some(file.clone()), ..Resources::default() };
        plan_with::<&str>(job, resources, &[], 0).expect("a plan")
    };
    let first = |document: &PlanDocument, part: &str| document.warnings.iter().take(3).any(|own| own.contains(part));
    let silent = solve(&own);
    assert!(first(&silent, "those of `imagenet`, as the job says nothing of them"), "{:?}", silent.warnings);
    own.data.dataset = Some("imagenet".into());
    assert_eq!(solve(&own).prediction, silent.prediction);
    // Nobody stores a photograph for each image of 32 pixels.
    (own.data.dataset, own.model.image_size) = (None, Some(32));
    let small = solve(&own);
    let unknown = |document: &PlanDocument| first(document, "nothing is known of how samples are stored");
    assert!(unknown(&small) && small.plan.input.is_none(), "{:?}", small.warnings);
    own.data.dataset = Some("none".into());
    assert!(!unknown(&solve(&own)));
}

#[test]
fn the_size_of_a_named_data_set_is_that_of_an_epoch() {
    let mut said = images(&["p3.2xlarge"]);
    (said.data.bytes_per_sample, said.data.files) = (None, None);
    said.data.dataset = Some("imagenet".into());
    let mut silent = said.clone();
    silent.data.samples = None;
    assert_eq!(plan(&said, &[]).prediction, plan(&silent, &[]).prediction);
}

#[test]
fn images_are_decoded_to_their_size_and_only_images_are() {
    let of = |model: &str| {
        let mut job = images(&["p4d.24xlarge"]);
        (job.model.name, job.data.bytes_per_sample) = (Some(model.into()), Some(110_000.0));
        job
    };
    // 3 × 224 × 224 values of four bytes, whether a family or written-out layers see them.
    for model in ["resnet50", "vgg16"] {
        let data = common::solvable(&of(model)).data.expect("sizes are known");
        assert_eq!((data.set.decoded_bytes, data.set.format), (602_112.0, SampleFormat::Jpeg), "{model}");
    }
    let mut records = of("dlrm-small");
    let data = common::solvable(&records).data.expect("sizes are known");
    assert_eq!(data.set.format, SampleFormat::Raw);
    records.data.format = Some(SampleFormat::Jpeg);
    let error = refused(&records).to_string();
    assert!(error.starts_with("`data.format` and `model` exclude each other"), "{error}");
}

#[test]
fn what_is_held_of_the_input_is_refused_where_it_cannot_be() {
    for wrong in ["input.workers=5000", "input.workers=0", "input.prefetch=5000"] {
        assert!(Fixed::parse(&[wrong.into()]).is_err(), "{wrong}");
    }
    let mut job = images(&["p3.2xlarge"]);
    (job.data.bytes_per_sample, job.data.files) = (None, None);
    job.data.dataset = Some("none".into());
    let refusal = common::plan(&job, &["input.storage=s3-pipe"], 1).expect_err("refused");
    assert!(refusal.to_string().contains("data.bytes_per_sample"), "{refusal}");
}
