//! How the samples of a job are stored: as it says, as its data set is, or as the data set that its model is usually
//! trained on; and what to be careful about where nobody knows.

use trainyard_models::{Model, Sample, StoredDataSet, StoredFormat, example_for, find, find_data_set, find_published};
use trainyard_plan::{DataSpec, JobSpec, ModelChoice, SampleFormat};
use trainyard_units::Invalid;

/// The name of the data set whose samples are at hand when a step needs them.
pub(crate) const NO_DATA_SET: &str = "none";

/// The data set of models that read tokens.
pub(crate) const TEXT: &str = "text";

/// The fewest values of an image that is taken to be cut out of a photograph: 96 × 96 pixels in three colours. Smaller ones, as
/// CIFAR's of 32 × 32, are stored as small, and decoding a photograph for each would be far too much.
const LEAST_IMAGE: u64 = 96 * 96 * 3;

/// The known storage format of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stored {
    /// Samples of a known size.
    As(Samples),
    /// Samples are at hand when a step needs them: the job says so, or its machine was measured with its input.
    There,
    /// Samples are token ids, which take so little time to read that the search ignores it.
    AsTokens,
    /// Nothing is known of the samples.
    Unknown,
}

/// Samples as they are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Samples {
    /// Mean bytes.
    pub(crate) bytes: f64,
    /// Their standard deviation.
    pub(crate) deviation: f64,
    /// The format of a sample before decoding, if a data set states it.
    pub(crate) format: Option<SampleFormat>,
    /// Samples of a pass, if a data set states it.
    pub(crate) count: Option<u64>,
    /// `true` if the job says nothing of its samples.
    pub(crate) assumed: bool,
}

/// Returns the first field that says how samples are stored or loaded, if there is one.
pub(crate) fn field_of_input(spec: &DataSpec) -> Option<&'static str> {
    let fields = [
        ("data.dataset", spec.dataset.as_ref().is_some_and(|name| name != NO_DATA_SET)),
        ("data.bytes_per_sample", spec.bytes_per_sample.is_some()),
        ("data.bytes_deviation", spec.bytes_deviation.is_some()),
        ("data.format", spec.format.is_some()),
        ("data.files", spec.files.is_some()),
        ("data.storage", spec.storage.is_some()),
        ("data.decode", spec.decode.is_some()),
        ("data.workers", spec.workers.is_some()),
        ("data.prefetch", spec.prefetch.is_some()),
        ("data.cache", spec.cache.is_some()),
        ("data.fsx_throughput", spec.fsx_throughput.is_some()),
        ("data.fsx_size", spec.fsx_size.is_some()),
        ("data.ebs_throughput", spec.ebs_throughput.is_some()),
        ("data.volume", spec.volume.is_some()),
    ];
    fields.into_iter().find(|(_, set)| *set).map(|(field, _)| field)
}

/// Returns how the samples of a job are stored.
///
/// # Errors
///
/// When it names an unknown data set or one that its model does not read, or says how samples are loaded that are at
/// hand or of which nothing is known.
pub(crate) fn stored(job: &JobSpec, model: &Model) -> Result<Stored, Invalid> {
    let spec = &job.data;
    if spec.dataset.as_deref() == Some(NO_DATA_SET) {
        return match field_of_input(spec) {
            None => Ok(Stored::There),
            Some(second) => {
                let rule =
                    "`none` says that samples are there when a step wants them; name a data set, or leave it out";
                Err(Invalid::conflict("data.dataset", second, rule))
            }
        };
    }
    match (named_set(spec)?, spec.bytes_per_sample) {
        (Some(set), bytes) => of_set(set, model, bytes),
        (None, Some(bytes)) => {
            Ok(Stored::As(Samples { bytes, deviation: 0.0, format: None, count: None, assumed: false }))
        }
        (None, None) => usual(job, model),
    }
}

/// Returns the data set that a job names; `None` if it names none, or says that samples are at hand.
pub(crate) fn named_set(spec: &DataSpec) -> Result<Option<&'static StoredDataSet>, Invalid> {
    let name = spec.dataset.as_deref().filter(|name| *name != NO_DATA_SET);
    name.map(find_data_set).transpose().map_err(|error| error.at("data.dataset"))
}

/// Returns the samples of a data set that the job names, with the job's sample size if it states one.
fn of_set(set: &StoredDataSet, model: &Model, bytes: Option<f64>) -> Result<Stored, Invalid> {
    let own = bytes.is_some();
    let rule = "the model does not read such samples; `trainyard show datasets` lists the others";
    let unread = Invalid::conflict("data.dataset", "model", rule);
    let bytes = set.bytes_for(model).map(|stored| bytes.unwrap_or(stored)).ok_or(unread)?;
    let deviation = set.bytes_deviation.as_ref().filter(|_| !own).map_or(0.0, |deviation| deviation.value as f64);
    let count = set.samples.as_ref().map(|samples| samples.value);
    let format = match set.format {
        StoredFormat::Tokens => SampleFormat::Tokens,
        StoredFormat::Jpeg => SampleFormat::Jpeg,
        StoredFormat::Raw => SampleFormat::Raw,
        StoredFormat::Npz => SampleFormat::Npz,
    };
    Ok(Stored::As(Samples { bytes, deviation, format: Some(format), count, assumed: false }))
}

/// Returns the samples of a job that says nothing of them.
fn usual(job: &JobSpec, model: &Model) -> Result<Stored, Invalid> {
    if job.cluster.profile.is_some() {
        return Ok(Stored::There);
    }
    let asked = field_of_input(&job.data);
    match usual_set(job, model) {
        Some(set) if set.format == StoredFormat::Tokens && asked.is_none() => Ok(Stored::AsTokens),
        Some(set) => Ok(match of_set(set, model, None)? {
            Stored::As(samples) => Stored::As(Samples { assumed: true, ..samples }),
            other => other,
        }),
        None if asked.is_some() => Err(Invalid::missing(
            "data.bytes_per_sample",
            "the job says how samples are brought in; write how large one is as stored, or the data set",
        )),
        None => Ok(Stored::Unknown),
    }
}

/// Returns the usual data set of a model of the catalog, or of a user's model that reads tokens or sees images.
pub(crate) fn usual_set(job: &JobSpec, model: &Model) -> Option<&'static StoredDataSet> {
    if let Some(name) = name_in_catalog(&job.model) {
        let entry = find_published(name).or_else(|| find(name).ok())?;
        return find_data_set(&entry.dataset).ok();
    }
    match model.sample() {
        Sample::Tokens(_) => find_data_set(TEXT).ok(),
        Sample::Image(LEAST_IMAGE..) => example_for(model),
        _ => None,
    }
}

/// Returns the name of the model in the catalog that a job trains; `None` for a user's own.
pub(crate) fn name_in_catalog(choice: &ModelChoice) -> Option<&String> {
    let own = choice.family.is_some() || choice.file.is_some() || choice.config.is_some();
    choice.name.as_ref().filter(|_| !own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_models::{Family, ModelSpec};
    use trainyard_plan::StorageMode;

    fn job(model: &str) -> JobSpec {
        let mut job = JobSpec::default();
        job.model.name = Some(model.into());
        job
    }

    fn of(job: &JobSpec) -> Stored {
        let model = job.model.name.as_deref().and_then(|name| find(name).ok()).expect("in the catalog");
        stored(job, &model.model).expect("nothing contradicts")
    }

    #[test]
    fn a_model_of_the_catalog_brings_its_data_set() {
        let Stored::As(samples) = of(&job("resnet50")) else { panic!("images are stored") };
        assert!((samples.bytes - 114_660.0).abs() < f64::EPSILON && samples.assumed);
        assert_eq!((samples.format, samples.count), (Some(SampleFormat::Jpeg), Some(1_281_167)));
        let Stored::As(volumes) = of(&job("unet3d")) else { panic!("volumes are stored") };
        assert!(volumes.deviation > 6e7 && volumes.format == Some(SampleFormat::Npz));
        assert_eq!(of(&job("gpt2")), Stored::AsTokens);
    }

    #[test]
    fn what_the_job_says_goes_first() {
        let mut named = job("resnet50");
        named.data.dataset = Some("coco".into());
        assert!(matches!(of(&named), Stored::As(Samples { assumed: false, count: Some(117_266), .. })));
        named.data.bytes_per_sample = Some(200_000.0);
        let Stored::As(samples) = of(&named) else { panic!("images are stored") };
        assert!((samples.bytes - 200_000.0).abs() < f64::EPSILON);
        named.data.dataset = Some(NO_DATA_SET.into());
        let model = &find("resnet50").expect("in the catalog").model;
        let refused = |named: &JobSpec| stored(named, model).expect_err("refused").to_string();
        assert!(refused(&named).contains("`data.bytes_per_sample` exclude each other"));
        named.data.bytes_per_sample = None;
        assert_eq!(of(&named), Stored::There);
        named.data.dataset = Some("text".into());
        assert!(refused(&named).contains("`data.dataset` and `model` exclude each other"));
        named.data.dataset = Some("imagnet".into());
        assert!(refused(&named).starts_with("in `data.dataset`: "));
    }

    #[test]
    fn tokens_are_counted_where_the_job_says_how_they_are_brought_in() {
        let mut stored = job("gpt2");
        stored.data.storage = Some(StorageMode::FsxLustre);
        let Stored::As(samples) = of(&stored) else { panic!("tokens are stored") };
        assert!((samples.bytes - 2048.0).abs() < f64::EPSILON);
    }

    #[test]
    fn images_of_ones_own_are_supposed_to_be_photographs_unless_they_are_small() {
        let mut own = job("resnet50");
        own.model.family = Some(Family::ResNet);
        assert_eq!(of(&own), of(&job("resnet50")));
        let spec = find("resnet50").expect("in the catalog").model.spec();
        let small = Model::try_from(ModelSpec { image_size: Some(32), ..spec }).expect("a model");
        assert_eq!(stored(&own, &small), Ok(Stored::Unknown));
        own.cluster.profile = Some("local".into());
        assert_eq!(of(&own), Stored::There);
    }

    #[test]
    fn of_volumes_and_sound_of_ones_own_nothing_is_known() {
        for (name, family) in [("unet3d", Family::Layers), ("rnn-t", Family::RnnT)] {
            let mut own = job(name);
            own.model.family = Some(family);
            assert_eq!(of(&own), Stored::Unknown, "{name}");
        }
    }
}
