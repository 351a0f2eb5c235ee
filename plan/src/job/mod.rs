//! Jobs as written: what is to be trained, on which data, with which goal. Checked by the planner.

mod campaign;
mod dropout;
mod hyper_parameters;
mod learning_rate;
mod path;
mod scheduler;
mod training;

pub use campaign::{CampaignSpec, CheckpointStorage, EvaluationSpec, StartKind};
pub use dropout::DropoutShares;
pub use hyper_parameters::HyperParameters;
pub use learning_rate::LearningRate;
pub use path::place_at;
pub use scheduler::{CHECKPOINT_MARGIN, REQUEUE, longest_lead, signal_lead};
pub use training::{Decay, DecayExempt, GlobalBatch, TrainingSpec};

use crate::input::{Cache, DecodePlace, SampleFormat, StorageMode};
use crate::name::named;
use crate::spec::Pricing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_models::{AttentionKernel, Family};
use trainyard_units::{
    Bytes, BytesPerSecond, Seconds, bytes_option, numbers_or_texts, sequence_option, share_text_option, written_option,
    written_table,
};

/// A training job as a TOML file or the flags of the command line describe it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// What is trained.
    #[serde(default)]
    pub model: ModelChoice,
    /// On what.
    #[serde(default)]
    pub data: DataSpec,
    /// How.
    #[serde(default)]
    pub training: TrainingSpec,
    /// Where.
    #[serde(default)]
    pub cluster: ClusterChoice,
    /// To what end.
    #[serde(default)]
    pub goal: GoalSpec,
    /// What happens around the steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<CampaignSpec>,
}

/// The model: a `name` of the catalog, a `file`, a `config` of Hugging Face, or a `family` with dimensions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct ModelChoice {
    /// Catalog id; or, beside `config` or `family`, what the model is to be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A TOML file as in the catalog, or a file in the ONNX format (`.onnx`), relative to the job file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The `config.json` of a Hugging Face checkpoint, relative to the job file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The architecture of a model given by its dimensions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// Blocks, or hidden layers.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub layers: Option<u32>,
    /// Width.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub hidden: Option<u64>,
    /// Attention heads.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub heads: Option<u64>,
    /// Width inside the feed-forward part; if left out 4 × `hidden`, of llama 8/3 × `hidden`, to a multiple of 256.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub ffn: Option<u64>,
    /// Vocabulary size.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub vocab: Option<u64>,
    /// Tokens of a sample, as a text also "8k", which is 8192; also overrides that of a catalog, file or config model.
    #[serde(default, deserialize_with = "sequence_option", skip_serializing_if = "Option::is_none")]
    pub seq_len: Option<u64>,
    /// Tokens that the decoder of an encoder-decoder writes, also "1k"; also overrides that of a catalog, file or config model.
    #[serde(default, deserialize_with = "sequence_option", skip_serializing_if = "Option::is_none")]
    pub decoder_seq_len: Option<u64>,
    /// Height and width of an image; also overrides that of a catalog, file or config model.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub image_size: Option<u64>,
    /// How attention is computed; also overrides that of a catalog, file or config model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionKernel>,
    /// Input features of an MLP.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub inputs: Option<u64>,
    /// Output features of an MLP.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub outputs: Option<u64>,
}

/// The data: how much there is and, for a run, where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct DataSpec {
    /// Samples in the data set.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub samples: Option<u64>,
    /// Tokens in the data set; 10e9, and as a text "10B".
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<f64>,
    /// A file with the length of each sample in tokens, one a line, instead of `samples`, relative to the job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lengths: Option<String>,
    /// Whether samples of these lengths share sequences of `model.seq_len` tokens; true if left out, else each is padded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packing: Option<bool>,
    /// What a run trains on, relative to the job file: text, images, arrays, the files of MNIST or CIFAR, or a folder
    /// of them; `synthetic` for samples that are made up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The `tokenizer.json` that makes tokens of text, relative to the job file; text is read as bytes if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// What a run evaluates the model on, relative to the job file: of the same kind as `path`, without samples of it; a
    /// part of `path` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<String>,
    /// The AWS Region that keeps it; that of the machines if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// How samples are stored: a data set of the catalog, `imagenet`, or `none` for samples that are there when a step
    /// wants them; that of the catalog's model if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Bytes of one sample as stored, at least 1; those of the data set if left out.
    #[serde(default, deserialize_with = "bytes_option", skip_serializing_if = "Option::is_none")]
    pub bytes_per_sample: Option<f64>,
    /// Standard deviation of these bytes from sample to sample; 0 if left out.
    #[serde(default, deserialize_with = "bytes_option", skip_serializing_if = "Option::is_none")]
    pub bytes_deviation: Option<f64>,
    /// What is to be decoded; tokens for models that read them, else jpeg, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<SampleFormat>,
    /// Files that hold the data set; one for each 128 MiB if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Where samples are read from; chosen if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageMode>,
    /// What decodes; chosen if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode: Option<DecodePlace>,
    /// Processes that load for one replica; its share of the machine's virtual processors if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub workers: Option<u32>,
    /// Batches that each stage of loading may be ahead of the next; 2 if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<u32>,
    /// Where samples are kept after the first pass over them; chosen if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Throughput of a shared file system for each TiB, `250 MB/s`; the least that is sold if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsx_throughput: Option<BytesPerSecond>,
    /// Its size, `4.8 TiB`; the least that holds the data set if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsx_size: Option<Bytes>,
    /// Throughput of each machine's volume, `500 MiB/s`; what a volume has without being paid for more if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ebs_throughput: Option<BytesPerSecond>,
    /// Size of each machine's volume, `500 GB`; as large as the data set if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<Bytes>,
}

/// Which machines may be chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct ClusterChoice {
    /// Instance types, `*` standing for any text; the four families G4dn, P3, P3dn and P4d if left out, or all that are offered in
    /// capacity blocks where these are wanted. With a cluster file, the kinds of its machines that may be used; all if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub instances: Option<Vec<String>>,
    /// The most machines that a plan takes; if left out 16 of those that are rented, and all of one's own.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_instances: Option<u32>,
    /// AWS region; us-east-1 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Terms; on-demand if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Pricing>,
    /// ec2 or sagemaker; ec2 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Transport between machines: tcp, tcp-pods (sockets of Kubernetes pods), efa or efa-gpudirect; that which is usual
    /// for each instance type if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Training framework of the catalog of stacks; `auto`, a comparison of those that people use today, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// Part of each GPU's memory that a plan leaves free, `8%` or `0.08`, at most a half; what the stack's peaks were seen
    /// to vary by, and at least 8 %, if left out.
    #[serde(default, deserialize_with = "share_text_option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub memory_margin: Option<String>,
    /// A table of prices (CSV) that stand before those of the catalog, relative to the job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<String>,
    /// What the account may rent at once, by AWS's class (`P`, `G and VT`), family (`p4d`) or pattern of types (`g4dn.*`),
    /// or several of these that share it (`p3*,p4*`): virtual processors, as EC2 counts them, or instances, as SageMaker does.
    #[serde(default, deserialize_with = "written_table", skip_serializing_if = "Option::is_none")]
    pub quotas: Option<BTreeMap<String, u64>>,
    /// A calibrated profile file instead of instances, relative to the job file; `local` for this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// A file that describes a cluster of one's own instead of instances, relative to the job file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A constants file whose GPUs, links and stacks stand before those of the catalog, relative to the job file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constants: Option<String>,
}

named! {
    /// What is sought.
    #[derive(Default)]
    Objective {
        /// The shortest training.
        Time = "time",
        /// The cheapest training.
        #[default]
        Cost = "cost",
    }
}

/// To what end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct GoalSpec {
    /// What is sought; cost if left out. Time in any case where machines have no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// The longest training accepted, `3 d`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The most money accepted, in USD, for machines that have a price.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub budget: Option<f64>,
}

impl GoalSpec {
    /// Returns the longest training accepted; `None` if any length is, or if what is written is no duration.
    pub fn deadline(&self) -> Option<Seconds> {
        self.deadline.as_deref()?.parse().ok()
    }
}

/// By which part of itself a product of floats may be off.
const ROUNDING: f64 = 1e-9;

/// The amount of training data and the number of passes over it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Volume {
    /// Samples of one epoch.
    pub samples: u64,
    /// Passes over them.
    pub epochs: f64,
}

impl Volume {
    /// Returns the number of optimizer steps at this global batch; the last, incomplete batch of an epoch is a step.
    /// 1.1 epochs of 100 steps are 110, although no float is 1.1.
    pub fn steps(&self, global_batch: u64) -> u64 {
        let per_epoch = self.samples.div_ceil(global_batch);
        let steps = per_epoch as f64 * self.epochs;
        let whole = steps.round();
        (if (steps - whole).abs() <= ROUNDING * steps { whole } else { steps.ceil() }) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_sample_may_have_a_unit() {
        let read = |text: &str| serde_json::from_value::<DataSpec>(serde_json::json!({ "bytes_per_sample": text }));
        for (text, bytes) in [("2 MB", 2e6), ("110kB", 110e3), ("1 KiB", 1024.0), ("2k", 2000.0), ("0.5", 0.5)] {
            assert_eq!(read(text).expect(text).bytes_per_sample, Some(bytes), "{text}");
        }
        let wrong = read("2 MW").expect_err("no unit of bytes").to_string();
        assert!(wrong.contains("is not a suffix of a number"), "{wrong}");
    }

    #[test]
    fn thousands_are_binary_in_lengths_of_sequences_only() {
        let read =
            |value| serde_json::from_value::<ModelChoice>(serde_json::json!({ "seq_len": value, "vocab": "32k" }));
        let tokens = |value: serde_json::Value| read(value).map(|model| model.seq_len).ok().flatten();
        let texts = [serde_json::json!("8k"), serde_json::json!(8000), serde_json::json!("1M")];
        assert_eq!(texts.map(tokens), [Some(8192), Some(8000), Some(1 << 20)]);
        assert_eq!(read(serde_json::json!("8k")).expect("a model").vocab, Some(32_000));
        assert!(read(serde_json::json!("8kk")).expect_err("no length").to_string().contains("`8kk`"));
        assert!(read(serde_json::json!(-1)).is_err() && read(serde_json::json!(1.5)).is_err());
    }

    #[test]
    fn the_last_batch_of_an_epoch_is_a_step() {
        // Seeds of this field: 640 samples at global batch 64 are 10 steps; 5 000 at 500 are 10.
        assert_eq!(Volume { samples: 640, epochs: 1.0 }.steps(64), 10);
        assert_eq!(Volume { samples: 5000, epochs: 1.0 }.steps(500), 10);
        assert_eq!(Volume { samples: 641, epochs: 2.0 }.steps(64), 22);
    }

    #[test]
    fn numbers_may_be_written_as_texts() {
        let job = |text: &str| serde_json::from_str::<JobSpec>(text).map_err(|error| error.to_string());
        let texts = job(r#"{ "data": { "tokens": "10B", "files": 1e3 }, "goal": { "budget": "1.5M" },
            "training": { "global_batch": "2k", "warmup_steps": "1.5k" },
            "cluster": { "quotas": { "P": "1k" }, "max_instances": "16" } }"#);
        let numbers = job(r#"{ "data": { "tokens": 10e9, "files": 1000 }, "goal": { "budget": 1500000 },
            "training": { "global_batch": 2000, "warm_up_steps": 1500 },
            "cluster": { "quotas": { "P": 1000 }, "max_instances": 16 } }"#);
        assert_eq!(texts, numbers);
        assert!(texts.is_ok());
        let batch = |text: &str| {
            let job = job(&format!(r#"{{ "training": {{ "global_batch": {text} }} }}"#))?;
            Ok::<_, String>(job.training.global_batch)
        };
        let range = batch(r#"{ "min": "1k", "max": 2e3 }"#);
        assert_eq!(range, Ok(Some(GlobalBatch::Between { min: 1000, max: 2000 })));
        for wrong in [r#""1.5""#, "1.5", "-2", r#""ten""#, r#"{ "min": "x", "max": 2 }"#, "true"] {
            assert!(batch(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parts_of_a_whole_may_be_numbers_or_per_cent() {
        let job = |text: &str| serde_json::from_str::<JobSpec>(text).map_err(|error| error.to_string());
        let per_cent =
            job(r#"{ "campaign": { "monthly_reclaims": "5%", "straggler": "10 %", "evaluation": { "share": "20%" } },
            "training": { "dropout": { "attention": "10%" }, "lora": { "rank": "8", "dropout": "5%" } } }"#);
        let numbers =
            job(r#"{ "campaign": { "monthly_reclaims": 0.05, "straggler": "0.1", "evaluation": { "share": 0.2 } },
            "training": { "dropout": { "attention": 0.1 }, "lora": { "rank": 8, "dropout": 0.05 } } }"#);
        assert_eq!(per_cent, numbers);
        assert!(per_cent.is_ok(), "{per_cent:?}");
        let margin = |text: &str| {
            let job = job(&format!(r#"{{ "cluster": {{ "memory_margin": {text} }} }}"#))?;
            Ok::<_, String>(job.cluster.memory_margin.expect("it is written"))
        };
        assert_eq!(["0.08", "8", "\"8%\""].map(margin), ["0.08", "8", "8%"].map(|text| Ok(text.to_owned())));
        assert!(margin("true").expect_err("no part").contains("expected a share such as 0.1"));
    }

    #[test]
    fn no_value_of_a_list_is_dropped() {
        for betas in ["[0.9, 0.95, 0.9]", "[0.9]"] {
            let text = format!(r#"{{ "training": {{ "betas": {betas} }} }}"#);
            let told = serde_json::from_str::<JobSpec>(&text).expect_err(betas).to_string();
            assert!(told.contains(&format!("`{betas}` is a list of")), "{told}");
        }
        assert!(serde_json::from_str::<JobSpec>(r#"{ "training": { "betas": [0.9, 0.95] } }"#).is_ok());
    }

    #[test]
    fn parts_of_epochs_are_whole_steps() {
        let steps = |epochs| Volume { samples: 6400, epochs }.steps(64);
        assert_eq!([0.07, 0.29, 1.1, 1.101, 2.2].map(steps), [7, 29, 110, 111, 220]);
        assert_eq!([1e-12, 0.001, 0.011].map(steps), [1, 1, 2]);
    }
}
