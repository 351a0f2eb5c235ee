//! Amazon SageMaker training jobs: a request of CreateTrainingJob, and the same as an estimator of the Python SDK.
//!
//! # Source
//!
//! Amazon SageMaker API Reference, "CreateTrainingJob"; SageMaker Python SDK 2.257, `sagemaker/estimator.py`,
//! `sagemaker/fw_utils.py` and `sagemaker/pytorch/estimator.py`, whose hyperparameters the request repeats.

mod distribution;
mod estimator;
mod price;

use super::draft::{Draft, Finished, Flag};
use super::error::LaunchError;
use super::field::{Field, checkpoints_in_s3, from_objects};
use super::fine_tuning;
use super::fsdp_checkpoints;
use super::places::Places;
use super::program::{Program, data_parallel, environment};
use super::recommender;
use super::software::Engine;
use super::starter::{self, Script, Search, Starter};
use super::training_arguments::{self, Sharding};
use distribution::{Distribution, Library};
use serde_json::{Map, Value, json};
use trainyard_plan::{DecodePlace, LaunchFile, StartKind, StateSharding, StorageMode, checkpoint_bytes};

const PLACES: Places = Places { data: Some("/opt/ml/input/data/training"), results: Some("/opt/ml/checkpoints") };

/// Maximum duration of a training job, in seconds.
const RUNTIME_MAX_S: u64 = 28 * 86_400;
/// Maximum time that a warm pool is kept, in seconds.
const KEEP_ALIVE_S: u64 = 3600;
/// Volume size for the image and the script, besides data and checkpoints, in GB.
const VOLUME_GB: u64 = 30;
/// Regions in which the training images stand under one account (AWS Deep Learning Containers, "Available images").
const REGIONS: [&str; 16] = [
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ca-central-1",
    "eu-central-1",
    "eu-north-1",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
];

/// A training job, independent of the form in which it is written.
struct Training {
    name: String,
    /// The folder of this plan in that of the results.
    folder: String,
    role: String,
    /// The image that the user names; `None` for the library's own.
    image: Option<String>,
    instance: String,
    instances: u32,
    volume_gb: u64,
    max_run_s: u64,
    spot: bool,
    warm_pool: bool,
    encrypted: bool,
    hyperparameters: Vec<(String, Value)>,
    environment: Vec<(String, String)>,
    input: Input,
    results: String,
    distribution: Distribution,
}

/// The source of the data.
enum Input {
    /// Objects of S3, and the mode in which they reach the script.
    Objects { uri: String, mode: &'static str },
    /// A shared file system and a folder in it.
    FileSystem { id: String, folder: String },
}

impl Input {
    fn mode(&self) -> &'static str {
        match self {
            Self::Objects { mode, .. } => mode,
            Self::FileSystem { .. } => "File",
        }
    }
}

/// SageMaker starts scripts with names and values only, and Megatron-LM has flags without values.
pub(super) const STARTS: &[Engine] = &[Engine::Deepspeed, Engine::Fsdp, Engine::Ddp];

/// Writes `create-training-job.json`, `estimator.py`, `start.py` and the files that must be packed with the script.
pub(super) fn files(mut draft: Draft<'_>) -> Result<Finished, LaunchError> {
    let rented = draft.job.instance().filter(|instance| {
        instance.prices.iter().any(|price| price.service == trainyard_hardware_profiles::Service::Sagemaker)
    });
    let Some(instance) = rented else {
        return Err(draft.cannot(Field::Instance, "SageMaker does not rent that type out, as far as the catalog knows"));
    };
    let distribution = distribution::of(&mut draft, instance)?;
    let program = program(&mut draft, &distribution)?;
    let training = training(&mut draft, distribution, &program);
    let requirements = requirements(&draft, &training);
    let script = match &program.script {
        Script::File(name) => Some(name.as_str()),
        Script::Module(_) => None,
    };
    let packed: Vec<&str> = std::iter::once(starter::FILE)
        .chain(script)
        .chain(program.files.iter().chain(&requirements).map(|file| file.name.as_str()))
        .collect();
    let request = request(&mut draft, &training, &packed);
    let what = match training.distribution.library {
        Library::ModelParallel1 => "a script adapted to SageMaker's library for model parallelism, version 1",
        Library::ModelParallel2 => "a script adapted to SageMaker's library for model parallelism, version 2",
        Library::DataParallel | Library::Torchrun => program.what,
    };
    let head = draft.close(&format!(
        "Trains with {what} on SageMaker. create-training-job.json is the same for\n`aws sagemaker create-training-job --cli-input-json`, which takes its name besides."
    ))?;
    let json = serde_json::to_string_pretty(&request).expect("values are JSON") + "\n";
    let mut files = vec![
        LaunchFile { name: "create-training-job.json".into(), text: json },
        LaunchFile { name: "estimator.py".into(), text: estimator::text(&head, &training) },
        starter(&draft, &program).file(),
    ];
    files.extend(program.files);
    files.extend(requirements);
    Ok(draft.finished(files))
}

/// Returns the file of packages that the training image lacks, which it installs from beside the script before the start;
/// the images of libraries for model parallelism have transformers and Accelerate of their own.
fn requirements(draft: &Draft<'_>, training: &Training) -> Option<LaunchFile> {
    let mut packages = Vec::new();
    if !training.distribution.is_model_parallel() && !recommender::has_tables(draft) {
        let names = training.hyperparameters.iter().map(|(name, _)| name.as_str());
        packages.extend(training_arguments::packages(draft, names));
    }
    let decodes = draft.job.plan().input().is_some_and(|input| input.decode == DecodePlace::Gpu);
    packages.extend(decodes.then(|| training.distribution.dali().to_owned()));
    let text: String = packages.iter().map(|package| format!("{package}\n")).collect();
    (!packages.is_empty()).then(|| LaunchFile { name: "requirements.txt".into(), text })
}

/// Returns the file that starts the script in a job that SageMaker may start again: from the newest checkpoint that it
/// brought back. It copies file by file, in no order.
fn starter(draft: &Draft<'_>, program: &Program) -> Starter {
    let mut required = vec!["trainer_state.json"];
    if draft.engine == Engine::Fsdp && draft.job.plan().state_sharding() != StateSharding::None {
        required.extend(fsdp_checkpoints::of(draft).files());
    }
    let search = Search { results: PLACES.results.unwrap_or_default(), required };
    // A script without arguments looks for its checkpoints itself, and may not be the Trainer's.
    let of_trainer = !recommender::has_tables(draft);
    let stop_steps = (of_trainer && program.is_told).then(|| draft.job.stop_steps());
    let channels_last = of_trainer && draft.job.lays_channels_last();
    let gradient_hook = draft.gradient_hook();
    Starter { script: program.script.clone(), stop_steps, channels_last, gradient_hook, search: Some(search) }
}

/// Returns the script, with the arguments of transformers' Trainer as its hyperparameters.
fn program(draft: &mut Draft<'_>, distribution: &Distribution) -> Result<Program, LaunchError> {
    if !distribution.is_model_parallel() || recommender::has_tables(draft) {
        return data_parallel(draft, PLACES);
    }
    let mut arguments = training_arguments::arguments(draft, Sharding::Launcher, PLACES)?;
    if distribution.library == Library::ModelParallel1 {
        // The library cuts a batch into micro-batches itself.
        let batch = draft.job.plan().batch();
        for (name, value) in &mut arguments {
            match name.as_str() {
                "per_device_train_batch_size" => *value = (batch.micro * batch.accumulation).to_string(),
                "gradient_accumulation_steps" => *value = "1".into(),
                _ => {}
            }
        }
    }
    Ok(Program {
        script: Script::File(draft.script()),
        what: "",
        ..Program::of_trainer(draft, arguments, PLACES, Vec::new())
    })
}

fn training(draft: &mut Draft<'_>, distribution: Distribution, program: &Program) -> Training {
    let job = draft.job;
    let instance = format!("ml.{}", job.plan().cluster().instance);
    let role = draft.asks(Flag::Role, "arn:aws:iam::ACCOUNT:role/ROLE", "IAM role that SageMaker takes on");
    let results = draft.asks(Flag::Results, "s3://RESULTS-BUCKET/PREFIX", "bucket for checkpoints and results");
    let image = draft.given(Flag::Image).then(|| draft.asks_or(Flag::Image, ""));
    // Asked for although there is a usual value, so that the flag counts as one of this target's.
    draft.asks_or(Flag::Image, "");
    let input = input(draft);
    draft.tells(&[Field::Instance, Field::Pricing, Field::Start, Field::Encrypted]);
    if job.plan().pricing() != trainyard_plan::Pricing::OnDemand && !job.is_spot() {
        draft.note(Field::Pricing, "savings plans and reservations are bought for the account, not for a job");
    }
    price::tells(draft);
    checkpoints_in_s3(draft);
    let hyperparameters = program.arguments.iter().filter_map(|words| match words.as_slice() {
        [name, value] => Some((name.trim_start_matches("--").to_owned(), typed(value))),
        // A flag, behind which start.py leaves out the empty word.
        [name] => Some((name.trim_start_matches("--").to_owned(), json!(""))),
        _ => None,
    });
    Training {
        name: job.name(),
        folder: draft.folder(),
        role,
        image,
        instance,
        instances: job.machines(),
        volume_gb: volume(draft, &input),
        max_run_s: longest(draft),
        spot: job.is_spot(),
        warm_pool: job.campaign().is_some_and(|campaign| campaign.start == Some(StartKind::WarmPool)),
        encrypted: job.plan().cluster().encrypted,
        hyperparameters: hyperparameters.collect(),
        environment: environment(draft),
        input,
        results,
        distribution,
    }
}

/// Parses a value as the container passes it to the script.
fn typed(text: &str) -> Value {
    match text {
        "true" => json!(true),
        "false" => json!(false),
        text => match (text.parse::<u64>(), text.parse::<f64>()) {
            (Ok(number), _) => json!(number),
            (_, Ok(number)) if number.is_finite() => json!(number),
            _ => json!(text),
        },
    }
}

fn input(draft: &mut Draft<'_>) -> Input {
    let storage = draft.job.plan().input().map(|input| input.storage);
    if storage == Some(StorageMode::FsxLustre) {
        let place =
            draft.asks(Flag::Data, "FILE-SYSTEM-ID/FOLDER", "file system (FSx for Lustre) and folder of the data set");
        let (id, folder) = place.split_once('/').unwrap_or((&place, ""));
        draft.remark("the file system is reached from its own network: write its SUBNET and SECURITY-GROUP");
        draft.tells(&[Field::Storage]);
        return Input::FileSystem { id: id.to_owned(), folder: format!("/{folder}") };
    }
    let mode = match storage {
        Some(StorageMode::S3FastFile) => "FastFile",
        Some(StorageMode::S3Pipe) => "Pipe",
        _ => "File",
    };
    if storage.is_some_and(from_objects) {
        draft.tells(&[Field::Storage]);
    } else {
        draft.note(Field::Storage, "machines of SageMaker are new; the data is downloaded from S3 before the start");
    }
    let uri = draft.asks(Flag::Data, "s3://DATA-BUCKET/PREFIX", "bucket that holds the data set");
    Input::Objects { uri, mode }
}

/// Returns the volume size of a machine in GB: downloaded data and weights, two checkpoints, the image and the script.
/// Machines with disks of their own are asked for no more than they have.
fn volume(draft: &Draft<'_>, input: &Input) -> u64 {
    let job = draft.job;
    let gigabytes = |bytes: u64| bytes.div_ceil(1_000_000_000);
    let data = if input.mode() == "File" { job.data_bytes().map_or(0, |bytes| gigabytes(bytes.0)) } else { 0 };
    let weights = if draft.starts_from_weights() { gigabytes(fine_tuning::download_bytes(job.plan())) } else { 0 };
    let wanted = VOLUME_GB + data + weights + 2 * gigabytes(checkpoint_bytes(job.plan()).0);
    let wanted = job.document().job.data.volume.map_or(wanted, |volume| wanted.max(gigabytes(volume.0)));
    let disk = job.instance().map_or(0, |instance| instance.disk.value.0 / 1_000_000_000);
    if disk > 0 { wanted.min(disk) } else { wanted }
}

/// Returns the seconds after which SageMaker ends the job: at most 1.5 times the prediction, in whole hours.
fn longest(draft: &mut Draft<'_>) -> u64 {
    let predicted = draft.job.runs_at_most().0;
    // A document may hold any time: it is compared before it becomes a whole number.
    let wanted = (predicted * 1.5 / 3600.0).ceil().max(1.0) * 3600.0;
    if wanted > RUNTIME_MAX_S as f64 {
        draft.remark("SageMaker ends a job after 28 days; start it again, it goes on from its checkpoint");
    }
    wanted.min(RUNTIME_MAX_S as f64) as u64
}

fn request(draft: &mut Draft<'_>, training: &Training, packed: &[&str]) -> Value {
    let image = training.image.clone().unwrap_or_else(|| {
        let region = draft.job.region().to_owned();
        if REGIONS.contains(&region.as_str()) {
            training.distribution.image(&region)
        } else {
            draft.remark("write the training image of this Region for IMAGE in create-training-job.json");
            "IMAGE".into()
        }
    });
    let source = format!("{}/source/sourcedir.tar.gz", training.place());
    draft.remark(format!(
        "for create-training-job.json, pack the script: tar czf sourcedir.tar.gz {} && aws s3 cp sourcedir.tar.gz {source}",
        packed.join(" ")
    ));
    draft.remark(format!(
        "names of jobs are unique in an account: aws sagemaker create-training-job --cli-input-json file://create-training-job.json --training-job-name {}-$(date +%s)",
        training.name
    ));
    let mut request = json!({
        "AlgorithmSpecification": { "TrainingImage": image, "TrainingInputMode": training.input.mode() },
        "RoleArn": training.role,
        "InputDataConfig": [channel(&training.input)],
        "OutputDataConfig": { "S3OutputPath": training.results },
        "ResourceConfig": {
            "InstanceType": training.instance,
            "InstanceCount": training.instances,
            "VolumeSizeInGB": training.volume_gb,
        },
        "StoppingCondition": { "MaxRuntimeInSeconds": training.max_run_s },
        "HyperParameters": hyperparameters(draft, training, &source),
        "CheckpointConfig": {
            "S3Uri": training.checkpoints(),
            "LocalPath": PLACES.results,
        },
        "EnableManagedSpotTraining": training.spot,
        "EnableInterContainerTrafficEncryption": training.encrypted,
    });
    if training.spot {
        request["StoppingCondition"]["MaxWaitTimeInSeconds"] = json!(training.max_wait_s());
    }
    if training.warm_pool {
        request["ResourceConfig"]["KeepAlivePeriodInSeconds"] = json!(KEEP_ALIVE_S);
    }
    if !training.environment.is_empty() {
        let variables: Map<String, Value> =
            training.environment.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        request["Environment"] = Value::Object(variables);
    }
    if matches!(training.input, Input::FileSystem { .. }) {
        request["VpcConfig"] = json!({ "SecurityGroupIds": ["SECURITY-GROUP"], "Subnets": ["SUBNET"] });
    }
    request
}

fn channel(input: &Input) -> Value {
    let source = match input {
        Input::Objects { uri, .. } => json!({
            "S3DataSource": { "S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated" },
        }),
        Input::FileSystem { id, folder } => json!({
            "FileSystemDataSource": {
                "FileSystemId": id,
                "FileSystemAccessMode": "ro",
                "FileSystemType": "FSxLustre",
                "DirectoryPath": folder,
            },
        }),
    };
    json!({ "ChannelName": "training", "DataSource": source, "InputMode": input.mode() })
}

/// Returns hyperparameters as the container reads them: each value is JSON in a string.
fn hyperparameters(draft: &Draft<'_>, training: &Training, source: &str) -> Value {
    let own = [
        ("sagemaker_program".to_owned(), json!(starter::FILE)),
        ("sagemaker_submit_directory".to_owned(), json!(source)),
        ("sagemaker_region".to_owned(), json!(draft.job.region())),
    ];
    let all =
        training.hyperparameters.iter().cloned().chain(training.distribution.hyperparameters(training)).chain(own);
    Value::Object(all.map(|(name, value)| (name, json!(value.to_string()))).collect())
}

impl Training {
    /// Returns the place of this plan among the results.
    fn place(&self) -> String {
        format!("{}/{}", self.results.trim_end_matches('/'), self.folder)
    }

    fn checkpoints(&self) -> String {
        format!("{}/checkpoints", self.place())
    }

    /// Returns the seconds that a spot job may take in total, waiting and running.
    fn max_wait_s(&self) -> u64 {
        (2 * self.max_run_s).min(RUNTIME_MAX_S)
    }
}
