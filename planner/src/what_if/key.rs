//! What can be varied: every key with its kind of value and where it belongs.

use crate::edits::Part;
use std::iter::once;
use std::sync::LazyLock;
use trainyard_hardware_profiles::catalog;
use trainyard_plan::Field;
use trainyard_units::{ParseNumberError, count, sequence_length};

/// The type of a key's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whole numbers. A range of them doubles from one to the next.
    Count,
    /// Tokens of a sequence, of which `k` is 1,024. A range of them doubles, too.
    Length,
    /// Whole numbers. A range of them has equal steps.
    Steps,
    /// Numbers without a unit.
    Number,
    /// Parts of a whole, also in per cent.
    Share,
    /// Amounts of data.
    Size,
    /// Amounts of data that a job writes as a number of bytes.
    Bytes,
    /// Data rates.
    Rate,
    /// Arithmetic rates.
    Arithmetic,
    /// Durations.
    Time,
    /// Rental prices.
    Price,
    /// Only factors on the present value.
    Factor,
    Word,
}

/// The place to which a key belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Plan(Field),
    /// The rental terms and the type of machine.
    Terms,
    /// A field of the job, by its path.
    Job,
    /// A field of the job that only a search looks at.
    Search,
    /// A dimension of the model.
    Model,
    /// A rate of the machines or of their software.
    Machine(Part),
    /// The price of machines: of one type of the catalog, or of all.
    Price(Option<&'static str>),
}

/// Something that can be varied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) level: Level,
    pub(crate) about: &'static str,
}

const fn key(name: &'static str, kind: Kind, level: Level, about: &'static str) -> Key {
    Key { name, kind, level, about }
}

use Kind::{Arithmetic, Count, Factor, Length, Number, Price, Rate, Size, Steps, Time, Word};
use Level::{Job, Machine, Model, Search, Terms};

const INSTANCE: Key = key("instance", Word, Terms, "machine type");

/// The key of the only duration that may be nothing.
pub(super) const QUEUE_WAIT: &str = "campaign.queue_wait";

/// The key of the prices of all types of machine.
pub(crate) const ALL_PRICES: &str = "price.instance";

/// The keys of the price of one type of machine, `price.p5.48xlarge`, each with its type.
static PRICES: LazyLock<Vec<(String, &'static str)>> = LazyLock::new(|| {
    let names = catalog().machine_types().map(|instance| instance.name.as_str());
    names.map(|name| (format!("price.{name}"), name)).collect()
});

/// Keys of the rental terms.
const RENT: &[Key] = &[
    key("pricing", Word, Terms, "on-demand, spot, reserved (a year), reserved-3y or capacity-block"),
    key("region", Word, Terms, "where machines are rented"),
    key("service", Word, Terms, "ec2 or sagemaker"),
    key(ALL_PRICES, Price, Level::Price(None), "price of a machine: 12USD/h or x0.9; price.p5.48xlarge: of this type"),
];

/// Keys of other fields that describe the machines in a job.
const CLUSTER: &[Key] = &[
    key("cluster.max_instances", Count, Search, "the most machines that may be chosen"),
    key("cluster.stack", Word, Job, "training framework"),
    key("cluster.transport", Word, Terms, "tcp, tcp-pods, efa or efa-gpudirect, between machines that have it"),
];

/// Keys that are no fields of the plan.
const OTHERS: &[Key] = &[
    key("data.samples", Count, Job, "samples in the data set"),
    key("data.tokens", Number, Job, "tokens in the data set"),
    key("data.bytes_per_sample", Kind::Bytes, Job, "bytes of one sample as stored"),
    key("data.bytes_deviation", Kind::Bytes, Job, "their standard deviation"),
    key("data.files", Count, Job, "files that hold the data set"),
    key("data.format", Word, Job, "what is to be decoded"),
    key("data.fsx_throughput", Rate, Job, "throughput of a shared file system for each TiB"),
    key("data.fsx_size", Size, Job, "its size"),
    key("data.ebs_throughput", Rate, Job, "throughput of each machine's volume"),
    key("data.volume", Size, Job, "its size"),
    key("training.epochs", Number, Job, "passes over the data set"),
    key("training.steps", Count, Job, "optimizer steps"),
    key("training.target", Word, Job, "what is to be reached"),
    key("training.method", Word, Search, "which weights are trained: full, lora, qlora or frozen"),
    key("training.lora.rank", Count, Search, "rank of the adapters"),
    key("training.lora.base", Word, Search, "nf4 or int8, the weights beside which those of qlora stand"),
    key("training.dpo.reference", Word, Search, "where dpo has the scores of the reference model from"),
    key("training.optimizer", Word, Job, "the optimizer"),
    key("campaign.checkpoint_interval", Time, Job, "training time between two checkpoints"),
    key("campaign.checkpoint_bandwidth", Rate, Job, "what all machines together write of a checkpoint"),
    key("campaign.node_mtbf", Time, Job, "mean time between failures of a machine"),
    key("campaign.job_limit", Time, Job, "the longest that one job of a scheduler may run"),
    key(QUEUE_WAIT, Time, Job, "wait in a scheduler's queue before each job starts; 0h for none"),
    key("campaign.monthly_reclaims", Kind::Share, Job, "share of spot capacity reclaimed in a month: 0.05, or 5%"),
    key("campaign.spot_scenario", Count, Job, "reclaims as a multiple of what is published: 1, 5 or 20"),
    key("campaign.spot_wait", Time, Job, "median time until a reclaimed machine is replaced"),
    key("campaign.restart", Time, Job, "time from a failure until training goes on"),
    key("goal.objective", Word, Search, "time or cost"),
    key("goal.deadline", Time, Job, "the longest training accepted"),
    key("goal.budget", Number, Job, "the most money accepted, in USD"),
    key("model.layers", Steps, Model, "blocks or layers"),
    key("model.hidden", Count, Model, "width; the feed-forward width follows"),
    key("model.heads", Steps, Model, "attention heads"),
    key("model.kv_heads", Steps, Model, "heads of keys and values"),
    key("model.ffn", Count, Model, "width inside the feed-forward part"),
    key("model.vocab", Count, Model, "vocabulary size"),
    key("model.seq_len", Length, Model, "tokens of a sample; 8k is 8192"),
    key("model.attention", Word, Model, "how attention is computed"),
    key("model.decoder_layers", Steps, Model, "blocks of the decoder"),
    key("model.decoder_seq_len", Length, Model, "tokens that the decoder writes"),
    key("model.experts", Count, Model, "experts of a layer"),
    key("model.experts_per_token", Steps, Model, "experts that a token is sent to"),
    key("model.image_size", Steps, Model, "height and width of an image"),
    key("model.patch_size", Steps, Model, "height and width of a patch"),
    key("model.classes", Count, Model, "classes"),
    key("model.inputs", Count, Model, "input features"),
    key("model.outputs", Count, Model, "output features"),
    key("gpu.memory", Size, Machine(Part::Memory), "memory of a GPU"),
    key("gpu.memory_bandwidth", Rate, Machine(Part::MemoryBandwidth), "peak memory bandwidth"),
    key("gpu.peak", Factor, Machine(Part::Peak), "peak rates of all formats"),
    key("gpu.peak_fp32", Arithmetic, Machine(Part::Fp32), "peak single-precision rate"),
    key("gpu.peak_fp16", Arithmetic, Machine(Part::Fp16), "peak half-precision rate of the tensor cores"),
    key("gpu.peak_tf32", Arithmetic, Machine(Part::Tf32), "peak TensorFloat-32 rate"),
    key("gpu.peak_bf16", Arithmetic, Machine(Part::Bf16), "peak bfloat16 rate"),
    key("gpu.peak_fp8", Arithmetic, Machine(Part::Fp8), "peak eight-bit rate"),
    key("gpu.host_bandwidth", Rate, Machine(Part::HostBandwidth), "link to the host, one direction"),
    key("gpu.jpeg_decode", Rate, Machine(Part::JpegDecode), "what the GPU's JPEG engines decode"),
    key(
        "link.bandwidth",
        Rate,
        Machine(Part::LinkBandwidth),
        "links between GPUs of a machine, as its kind counts them",
    ),
    key("link.latency", Factor, Machine(Part::LinkLatency), "latencies inside a machine"),
    key(
        "cluster.network",
        Rate,
        Machine(Part::Network),
        "all network cards of a machine, one direction: 3200Gbps, 8x400Gbps",
    ),
    key("cluster.latency", Factor, Machine(Part::NetworkLatency), "latencies between machines"),
    key("host.decode", Factor, Machine(Part::Decode), "speed of the processors that decode"),
    key("host.memory", Size, Machine(Part::HostMemory), "main memory of a machine"),
    key(
        "host.memory_bandwidth",
        Rate,
        Machine(Part::HostMemoryBandwidth),
        "bandwidth of main memory, for what is offloaded",
    ),
    key("host.storage", Factor, Machine(Part::Storage), "read rate of object storage, volumes and shared file systems"),
    key("stack.rate", Factor, Machine(Part::Software), "kernels and launches of the software"),
    key("stack.launch", Time, Machine(Part::Launch), "host time to launch a kernel"),
];

/// Other names of keys that are no fields of the plan.
const ALIASES: &[(&str, &str)] = &[
    ("cluster.pricing", "pricing"),
    ("cluster.region", "region"),
    ("cluster.service", "service"),
    ("stack", "cluster.stack"),
    ("transport", "cluster.transport"),
    ("optimizer", "training.optimizer"),
    ("method", "training.method"),
    ("seq_len", "model.seq_len"),
    ("seq-len", "model.seq_len"),
];

/// Lists other names of fields of the plan: abbreviations, and the names of the same fields in jobs.
fn names_of_fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    Field::HELD.iter().flat_map(|field| {
        field.job().into_iter().chain(field.abbreviations().iter().copied()).map(|name| (name, field.name()))
    })
}

fn aliases() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALIASES.iter().copied().chain(names_of_fields())
}

/// Lists every key, in a fixed order. The machines' type and the stack differ from [`Field`]'s: a search chooses among
/// several, and a held plan is paid on other terms, or computed by other kernels.
pub(crate) fn all() -> impl Iterator<Item = Key> {
    let of = |field: &Field| Key {
        name: field.name(),
        kind: if field.counts().is_some() { Count } else { Word },
        level: Level::Plan(*field),
        about: field.about(),
    };
    let rest = |field: &&Field| !matches!(field, Field::Instance | Field::Instances | Field::Stack | Field::Encrypted);
    [INSTANCE, of(&Field::Instances)]
        .into_iter()
        .chain(RENT.iter().copied())
        .chain(once(of(&Field::Encrypted)))
        .chain(CLUSTER.iter().copied())
        .chain(Field::HELD.iter().filter(rest).map(of))
        .chain(OTHERS.iter().copied())
}

/// Finds the key of a name.
pub(crate) fn find(name: &str) -> Option<Key> {
    if let Some((name, instance)) = PRICES.iter().find(|(own, _)| own == name) {
        return Some(key(name, Price, Level::Price(Some(instance)), "price of one type of machine"));
    }
    let alias = aliases().find(|(alias, _)| *alias == name).map(|(_, name)| name);
    let name = alias.or_else(|| Field::named(name).map(Field::name)).unwrap_or(name);
    all().find(|key| key.name == name)
}

/// What people call something that no key is, and the key that changes it.
const MEANT: &[(&str, &str)] = &[
    ("mfu", "stack.rate"),
    ("hfu", "stack.rate"),
    ("efficiency", "stack.rate"),
    ("nodes", "instances"),
    ("gpus", "instances"),
    ("devices", "instances"),
    ("machines", "instances"),
    ("network", "cluster.network"),
    ("bandwidth", "cluster.network"),
    ("deadline", "goal.deadline"),
    ("budget", "goal.budget"),
    ("mtbf", "campaign.node_mtbf"),
    ("failures", "campaign.node_mtbf"),
    ("price", ALL_PRICES),
    ("spot", "pricing"),
    ("batch", "batch.global"),
    ("batch_size", "batch.global"),
];

/// Returns the key that a name stands for that is no slip of it.
fn meant(name: &str) -> Option<&'static str> {
    let name = name.replace('-', "_");
    MEANT.iter().find(|(word, _)| word.eq_ignore_ascii_case(&name)).map(|(_, key)| *key)
}

/// Returns `true` if a name stands for a key without being a slip of it.
pub(crate) fn is_other_name(name: &str) -> bool {
    meant(name).is_some()
}

/// Returns the key that was probably meant.
pub(crate) fn similar(name: &str) -> Option<&'static str> {
    if let Some(key) = meant(name) {
        return Some(key);
    }
    // The last part of a key is enough to know which is meant.
    if let Some(key) = all().find(|key| key.name.rsplit_once('.').is_some_and(|(_, last)| last == name)) {
        return Some(key.name);
    }
    let names = all().map(|key| key.name).chain(aliases().map(|(alias, _)| alias));
    let prices = PRICES.iter().map(|(name, _)| name.as_str());
    trainyard_units::similar(name, names.chain(prices))
}

/// Lists every key with its description, in a fixed order.
pub fn keys() -> impl Iterator<Item = (&'static str, String)> {
    let job = |key: Key| match key.level {
        Level::Plan(field) => field.job().map_or(String::new(), |job| format!(" ({job})")),
        _ => String::new(),
    };
    all().map(move |key| (key.name, format!("{}{}", key.about, job(key))))
}

impl Kind {
    /// Returns the unit of amounts; `None` for words.
    pub(crate) fn unit(self) -> Option<&'static str> {
        match self {
            Self::Count | Self::Length | Self::Steps | Self::Number | Self::Share => Some("1"),
            Self::Size | Self::Bytes => Some("B"),
            Self::Rate => Some("B/s"),
            Self::Arithmetic => Some("FLOP/s"),
            Self::Time => Some("s"),
            Self::Price => Some("USD/h"),
            Self::Factor => Some("×"),
            Self::Word => None,
        }
    }

    /// Reads one of its values, if these are whole numbers.
    pub(crate) fn count(self, text: &str) -> Result<u64, ParseNumberError> {
        match self {
            Self::Length => sequence_length(text),
            _ => count(text),
        }
    }

    /// Returns `true` if its values are whole numbers.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Count | Self::Length | Self::Steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edits::{MachineChange, Setting};

    #[test]
    fn every_field_that_can_be_held_can_be_varied() {
        for field in Field::HELD {
            assert!(find(field.name()).is_some(), "{field:?}");
        }
    }

    #[test]
    fn names_are_unique_and_aliases_lead_to_keys() {
        let mut names: Vec<&str> = all().map(|key| key.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        for (alias, name) in ALIASES {
            assert_eq!(find(alias).map(|key| key.name), Some(*name));
        }
        for (alias, _) in names_of_fields() {
            assert!(find(alias).is_some(), "{alias}");
        }
    }

    #[test]
    fn a_slip_leads_to_what_was_meant() {
        assert_eq!(similar("gpu.memory_bandwith"), Some("gpu.memory_bandwidth"));
        assert_eq!(similar("cluster.netwrok"), Some("cluster.network"));
        assert_eq!(similar("qqqq"), None);
        // The share of the peak is what comes out; the speed of kernels is what goes in.
        assert_eq!(similar("MFU"), Some("stack.rate"));
        for (word, key) in MEANT {
            assert!(find(word).is_none(), "{word} is a key");
            assert_eq!((find(key).map(|key| key.name), similar(word)), (Some(*key), Some(*key)), "{word}");
        }
        assert_eq!(find("parallel.tp").map(|key| key.name), Some("parallel.tensor"));
    }

    #[test]
    fn every_key_of_a_machine_changes_it_and_its_present_value_does_not() {
        let catalog = catalog();
        let cluster = catalog.cluster("p5.48xlarge", 2).expect("in the catalog");
        let machine =
            trainyard_sim::Machine { cluster, stack: catalog.stack("pytorch").expect("in the catalog").clone() };
        for key in all() {
            let Level::Machine(part) = key.level else { continue };
            let with = |factor| {
                let mut other = machine.clone();
                MachineChange { part, setting: Setting::Factor(factor) }.apply(&mut other);
                other
            };
            assert_ne!(with(2.0), machine, "{}", key.name);
            assert_eq!(with(1.0), machine, "{}", key.name);
        }
    }
}
