//! Whole trainings: what a job says of them, and the document of what may become of one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_units::{numbers_or_texts, written_option, written_share_option};

/// What happens around the steps of a training. Everything may be left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct CampaignSpec {
    /// Whether machines must be found and booted first; cold if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<StartKind>,
    /// Training time from one checkpoint to the next, `10 min`; the best one if left out, up to an hour or a hundred times what
    /// writing one takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_interval: Option<String>,
    /// Where checkpoints go; s3 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_storage: Option<CheckpointStorage>,
    /// What all machines together write there, `10 GB/s`. If left out, to s3 what each reaches, up to 10 GB/s of all or 1 GB/s
    /// of each, and to ebs the throughput of a volume at each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_bandwidth: Option<String>,
    /// When the model is tested; never if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<EvaluationSpec>,
    /// How often spot instances are reclaimed, as a multiple of what is published: 1, 5 or 20; 1 if left out.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub spot_scenario: Option<u32>,
    /// The share of spot capacity that is reclaimed in a month, `0.1` or `10%`; as published if left out.
    #[serde(default, deserialize_with = "written_share_option", skip_serializing_if = "Option::is_none")]
    pub monthly_reclaims: Option<f64>,
    /// Median time until a reclaimed spot instance is replaced, `30 min`; ten minutes if left out, a guess.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_wait: Option<String>,
    /// Mean time between failures of one machine, `6000 h`; that of a published cluster if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_mtbf: Option<String>,
    /// Time from a failure until training goes on from the last checkpoint, reading it apart: noticing it, replacing the
    /// machine, starting; `30 min`. If left out, a cold start on rented machines, and on others the timeout of a collective
    /// and a start of the framework, as if a spare machine stood by; and before that `queue_wait`. With that stated too, what a
    /// restart takes longer than it would without a queue is spent there, where machines are not paid for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// The longest that one job of the scheduler may run, `48h`: a longer training is a chain of jobs, each of which starts up,
    /// reads the checkpoint of the one before, and stops some minutes before its end to write one. Without limit if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_limit: Option<String>,
    /// Expected wait in the scheduler's queue before each job starts, `2h`; none if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_wait: Option<String>,
    /// Standard deviation of one machine's time for one step, as a fraction, `0.05` or `5%`; 0 if left out, because predicted
    /// step times stand for measured ones, which hold their stragglers.
    #[serde(default, deserialize_with = "written_share_option", skip_serializing_if = "Option::is_none")]
    pub straggler: Option<f64>,
}

/// Whether machines are there when a training is submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StartKind {
    /// They must be found and booted, and the image downloaded.
    #[default]
    Cold,
    /// They were kept from another training, with its image.
    WarmPool,
}

/// Where checkpoints go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointStorage {
    /// Object storage, over the network.
    #[default]
    S3,
    /// A volume at each machine.
    Ebs,
}

/// When and on how much a model is tested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = numbers_or_texts)]
pub struct EvaluationSpec {
    /// Passes over the data set from one test to the next.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub every_epochs: Option<f64>,
    /// Optimizer steps from one test to the next, instead of `every_epochs`.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub every_steps: Option<u64>,
    /// Samples of a test.
    #[serde(default, deserialize_with = "written_option", skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// As many samples as this share of a pass over the data set, `0.1` or `10%`, instead of `samples`.
    #[serde(default, deserialize_with = "written_share_option", skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}
