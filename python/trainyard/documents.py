"""The documents that commands return, and the dictionaries that they take.

Written by generate.py from the schemas that `trainyard schemas` prints. Do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Union

from trainyard._document import Document
from trainyard._views import PlanViews, RowsViews, SweepViews

# The architecture of a model.
Family = Literal[
    "gpt",
    "gpt-moe",
    "bert",
    "llama",
    "gpt-neox",
    "gemma2",
    "blocks",
    "vit",
    "mamba2",
    "clip",
    "t5",
    "electra",
    "bart",
    "transformer",
    "transformer-xl",
    "whisper",
    "gnmt",
    "rnn-t",
    "dlrm",
    "resnet",
    "mlp",
    "layers",
    "traced",
]

# How the attention core is computed.
AttentionKernel = Literal["unfused", "flash", "memory-efficient"]

# What has to be decoded.
SampleFormat = Literal["tokens", "raw", "npz", "jpeg"]

# Where samples are read from (Amazon SageMaker developer guide, "Access training data"; the last four belong to the
# machines themselves).
StorageMode = Literal["s3-fastfile", "s3-pipe", "s3-file", "fsx-lustre", "ebs", "shared-storage", "nvme", "memory"]

# What decodes and augments samples.
DecodePlace = Literal["cpu", "gpu"]

# Where samples are kept after the first pass over them.
Cache = Literal["none", "memory", "nvme"]

# Samples of an optimizer step: one number, or a range that convergence allows.
GlobalBatch = Union[int, str, dict[str, Any]]

# Which weights are trained.
Method = Literal["full", "lora", "qlora", "frozen"]

# The format of weights beside which the adapters of qlora stand.
BaseFormat = Literal["nf4", "int8"]

# What a training gets better at.
TuningObjective = Literal["sft", "dpo"]

# Where the scores of the model as it was before come from, with which those of the model are compared.
Reference = Literal["model", "precomputed"]

# Optimizers, by the state they keep.
Optimizer = Literal["adamw", "adamw-8bit", "adam", "sgd", "sgd-momentum", "rmsprop", "lars", "lamb"]

# Number formats.
Precision = Literal["fp32", "tf32", "fp16-mixed", "bf16-mixed", "fp8-mixed"]

# What becomes of the learning rate after warm-up.
Decay = Literal["constant", "cosine", "linear", "polynomial"]

# The parameters that weight decay leaves out.
DecayExempt = Literal["biases-and-norms", "none"]

# Shares that are dropped out in training: one for all places, or some of their own. Source: Srivastava et al.,
# "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 15, 2014.
DropoutShares = Union[float, str, dict[str, Any]]

# How instances are paid.
Pricing = Literal["on-demand", "spot", "reserved", "reserved-3y", "capacity-block"]

# What is sought.
Objective = Literal["time", "cost"]

# Whether machines are there when a training is submitted.
StartKind = Literal["cold", "warm-pool"]

# Where checkpoints go.
CheckpointStorage = Literal["s3", "ebs"]

# The order of jobs that wait; equals go in the order of submission, then of the file.
QueueOrder = Literal["fifo", "shortest-first", "longest-first", "priority"]

# What is on top of an encoder.
HeadKind = Literal["pretraining", "masked-language-model", "pooler", "classifier", "language-model"]

# How a model knows where a token stands.
PositionKind = Literal["rotary", "learned", "alibi", "none"]

# A normalisation of activations.
Norm = Literal["layer", "rms", "layer-without-shift", "layer-without-weights"]

# How queries and keys are normalised before they are multiplied.
QueryKeyNorm = Literal["head", "features"]

# The activation between the two products of a feed-forward part.
FeedForward = Literal["smooth", "relu", "gated"]

# What becomes of activations at one place: the share that is dropped out, or only whether any is.
DropoutSpec = Union[float, bool]

# What makes scores of what a router computes. Scores of the chosen experts add up to 1.
RouterScores = Literal["softmax", "sigmoid"]

# What the blocks of a residual network are.
BlockKind = Literal["basic", "bottleneck"]

# A function of each element.
Activation = Literal["relu", "swish", "gelu", "sigmoid", "tanh", "hard_swish", "hard_sigmoid"]

# An operator without options.
Word = Literal[
    "batch_norm",
    "instance_norm",
    "layer_norm",
    "scale",
    "dropout",
    "flatten",
    "global_pool",
    "first_token",
    "dot_interaction",
    "cross_entropy",
]

# A number for all dimensions of a map, or one for each: depth, height and width of a volume, height and width of an
# image.
Sizes = Union[int, list[int]]

# How much is put around a map.
PaddingRule = Literal["same", "valid"]

# What is put around a map before windows are taken.
Padding = Union[PaddingRule, Sizes]

# A normalisation after a convolution.
Norm2 = Literal["batch", "instance", "layer", "frozen"]

# How far a map is made larger.
UpsampleTo = Union[str, Sizes]

# What is joined.
Joined = Union[str, list[list["OperatorSpec"]]]

# An operator as written: a word, or a table with the operator's word and its options.
OperatorSpec = Union[
    Activation,
    Word,
    "Conv",
    "Depthwise",
    "TransposedConv",
    "GroupNorm",
    "MaxPool",
    "MeanPool",
    "AdaptivePool",
    "Upsample",
    "Linear",
    "AttentionSpec",
    "ClassTokens",
    "SpaceToDepth",
    "Embedding",
    "Lstm",
    "Gru",
    "Tables",
    "SqueezeExcite",
    "RoiAlign",
    "Add",
    "Concat",
    "Save",
    "Load",
    "Side",
    "CrossEntropy",
]

# An operator with its sizes.
TracedOperator = dict[str, Any]

# The order in which a stage works on its micro-batches.
ScheduleName = Literal["none", "gpipe", "1f1b", "interleaved-1f1b", "2bw", "zb-h1", "zb-v"]

# What is computed again in backward.
Recompute = Literal["none", "selective", "full"]

# What replicas share out among themselves (Rajbhandari et al., arXiv:1910.02054, section 5).
StateSharding = Literal["none", "optimizer", "gradients", "parameters"]

# How often gradients are summed over replicas.
GradientReduction = Literal["step", "micro-batch"]

# In which form gradients travel between replicas.
GradientCompression = Literal["none", "fp16", "bf16", "int8", "dgc"]

# What is kept off the devices (Ren et al., ZeRO-Offload, arXiv:2101.06840; Rajbhandari et al., ZeRO-Infinity,
# arXiv:2104.07857). Written as parts joined by `+`, each in main memory unless it says `@nvme`: `optimizer`,
# `activations+optimizer`, `parameters@nvme+optimizer@nvme`; or `none`.
Offload = str

# How ranks are numbered, and how their numbers are laid on machines.
Placement = str

# How gradients are summed over replicas.
Collectives = Literal["nccl", "ring", "tree", "hierarchical", "smddp"]

# What a step could be shorter by, if only that were faster.
Bottleneck = Literal["compute", "launch", "network", "offload", "memory", "storage", "decode", "copy"]

# The limit that plans did not keep.
RejectedBy = Literal["memory", "deadline", "budget", "objective", "price", "quota", "division", "machine", "data"]

# What would have to be other than it is for another plan to be recommended.
ChangedQuantity = Literal["price", "network", "global-batch"]

# What a stretch of the critical path is spent on.
PathKind = Literal[
    "forward",
    "backward",
    "recompute",
    "launches",
    "layer-collectives",
    "overlap-slowdown",
    "fill-and-drain",
    "transfers",
    "gradient-reduction",
    "weight-gathering",
    "host-copies",
    "update",
    "input-wait",
]

# Whether a row has a prediction.
Status = Literal["ok", "unsupported"]

# Why instances were no longer kept warm.
WarmEnd = Literal["reused", "expired", "released"]


class ModelChoice(TypedDict, total=False):
    """The model: a `name` of the catalog, a `file`, a `config` of Hugging Face, or a `family` with dimensions."""

    name: str | None
    """Catalog id; or, beside `config` or `family`, what the model is to be called."""
    file: str | None
    """A TOML file as in the catalog, or a file in the ONNX format (`.onnx`), relative to the job file."""
    config: str | None
    """The `config.json` of a Hugging Face checkpoint, relative to the job file."""
    family: Family | None
    """The architecture of a model given by its dimensions."""
    layers: int | str | None
    """Blocks, or hidden layers."""
    hidden: int | str | None
    """Width."""
    heads: int | str | None
    """Attention heads."""
    ffn: int | str | None
    """Width inside the feed-forward part; if left out 4 × `hidden`, of llama 8/3 × `hidden`, to a multiple of 256."""
    vocab: int | str | None
    """Vocabulary size."""
    seq_len: int | str | None
    """Tokens of a sample, as a text also "8k", which is 8192; also overrides that of a catalog, file or config model.
    """
    decoder_seq_len: int | str | None
    """Tokens that the decoder of an encoder-decoder writes, also "1k"; also overrides that of a catalog, file or
    config model.
    """
    image_size: int | str | None
    """Height and width of an image; also overrides that of a catalog, file or config model."""
    attention: AttentionKernel | None
    """How attention is computed; also overrides that of a catalog, file or config model."""
    inputs: int | str | None
    """Input features of an MLP."""
    outputs: int | str | None
    """Output features of an MLP."""


class DataSpec(TypedDict, total=False):
    """The data: how much there is and, for a run, where."""

    samples: int | str | None
    """Samples in the data set."""
    tokens: float | str | None
    """Tokens in the data set; 10e9, and as a text "10B"."""
    lengths: str | None
    """A file with the length of each sample in tokens, one a line, instead of `samples`, relative to the job file."""
    packing: bool | None
    """Whether samples of these lengths share sequences of `model.seq_len` tokens; true if left out, else each is
    padded.
    """
    path: str | None
    """What a run trains on, relative to the job file: text, images, arrays, the files of MNIST or CIFAR, or a folder
    of them; `synthetic` for samples that are made up.
    """
    tokenizer: str | None
    """The `tokenizer.json` that makes tokens of text, relative to the job file; text is read as bytes if left out."""
    held_out: str | None
    """What a run evaluates the model on, relative to the job file: of the same kind as `path`, without samples of it;
    a part of `path` if left out.
    """
    region: str | None
    """The AWS Region that keeps it; that of the machines if left out."""
    dataset: str | None
    """How samples are stored: a data set of the catalog, `imagenet`, or `none` for samples that are there when a step
    wants them; that of the catalog's model if left out.
    """
    bytes_per_sample: float | str | None
    """Bytes of one sample as stored, at least 1; those of the data set if left out."""
    bytes_deviation: float | str | None
    """Standard deviation of these bytes from sample to sample; 0 if left out."""
    format: SampleFormat | None
    """What is to be decoded; tokens for models that read them, else jpeg, if left out."""
    files: int | str | None
    """Files that hold the data set; one for each 128 MiB if left out."""
    storage: StorageMode | None
    """Where samples are read from; chosen if left out."""
    decode: DecodePlace | None
    """What decodes; chosen if left out."""
    workers: int | str | None
    """Processes that load for one replica; its share of the machine's virtual processors if left out."""
    prefetch: int | str | None
    """Batches that each stage of loading may be ahead of the next; 2 if left out."""
    cache: Cache | None
    """Where samples are kept after the first pass over them; chosen if left out."""
    fsx_throughput: str | None
    """Throughput of a shared file system for each TiB, `250 MB/s`; the least that is sold if left out."""
    fsx_size: str | None
    """Its size, `4.8 TiB`; the least that holds the data set if left out."""
    ebs_throughput: str | None
    """Throughput of each machine's volume, `500 MiB/s`; what a volume has without being paid for more if left out."""
    volume: str | None
    """Size of each machine's volume, `500 GB`; as large as the data set if left out."""


class LoraSpec(TypedDict, total=False):
    """Adapters, as PEFT's `LoraConfig` names them."""

    rank: int | str | None
    """Features between the two products of an adapter (`r`); 16 if left out."""
    alpha: float | str | None
    """What their product is scaled by, times the rank (`lora_alpha`); twice the rank if left out."""
    dropout: float | str | None
    """Share of their inputs that is dropped out (`lora_dropout`), `0.05` or `5%`; 0 if left out."""
    targets: list[str] | None
    """The products that have adapters: `q`, `k`, `v`, `o`, `gate`, `up`, `down`, or `all-linear`, every product of the
    blocks, if left out.
    """
    base: BaseFormat | None
    """The format of the weights of blocks with qlora, nf4 or int8; nf4 if left out."""


class DpoSpec(TypedDict, total=False):
    """Direct preference optimisation, as TRL's `DPOConfig` sets it."""

    reference: Reference | None
    """Where the scores of the reference model come from (`precompute_ref_log_probs`); model if left out."""


class TrainingSpec(TypedDict, total=False):
    """How it is trained."""

    global_batch: GlobalBatch | None
    """Samples of an optimizer step."""
    epochs: float | str | None
    """Passes over the data set; 1 if neither this nor `steps` nor `target` is given."""
    steps: int | str | None
    """Optimizer steps, instead of `epochs`."""
    target: str | None
    """What is to be reached, `mlperf-resnet`, instead of `epochs`: steps then follow from published trainings."""
    method: Method | None
    """Which weights are trained; all of them if left out."""
    lora: LoraSpec | None
    """The adapters of lora and qlora."""
    trained_blocks: int | str | None
    """With frozen, the last so many blocks are trained, and what follows them; 1 if left out."""
    objective: TuningObjective | None
    """What the training gets better at, sft or dpo (on pairs of sequences, one of which is preferred); sft, the
    model's own loss, if left out.
    """
    dpo: DpoSpec | None
    """Where dpo has the scores of the reference model from."""
    optimizer: Optimizer | None
    """The optimizer; adamw if left out."""
    learning_rate: float | str | None
    """Peak learning rate of a run."""
    precision: list[Precision] | None
    """Number formats that may be chosen; all that the hardware has if left out."""
    warm_up_steps: int | str | None
    """Steps over which the learning rate rises from nothing; 10 if left out. `warmup_steps` is read too."""
    decay: Decay | None
    """What becomes of the learning rate after that; it stays if left out."""
    decay_power: float | str | None
    """The power of a polynomial decay; 2 if left out."""
    final_learning_rate: float | str | None
    """The learning rate that it decays to, right after the last step; 0 if left out."""
    clip_norm: float | str | None
    """The greatest norm that the gradient of all parameters may have, 0 for no limit. Left out, training here has no
    limit; launch files clip at 1, as the programs that they start do.
    """
    weight_decay: float | str | None
    """Weight decay; what the optimizer is usually run with if left out, as the three below."""
    decay_exempt: DecayExempt | None
    """What weight decay leaves out; biases and norms if left out."""
    dropout: DropoutShares | None
    """Shares that are dropped out, `0.1` or `{ attention = 0.1, residual = 0.1, embedding = 0.1 }`. If left out, time
    and memory count the dropout of the model's published training, and `trainyard run` drops out what the model's
    description says, which for those of the catalog is nothing.
    """
    momentum: float | str | None
    """Decay rate of the velocity of sgd-momentum and lars."""
    betas: list[float] | None
    """Decay rates of the running means of adam, adamw and lamb: of gradients, and of their squares."""
    epsilon: float | str | None
    """What adam, adamw and lamb add to the root of the mean square."""


class ClusterChoice(TypedDict, total=False):
    """Which machines may be chosen."""

    instances: list[str] | None
    """Instance types, `*` standing for any text; the four families G4dn, P3, P3dn and P4d if left out, or all that are
    offered in capacity blocks where these are wanted. With a cluster file, the kinds of its machines that may be
    used; all if left out.
    """
    max_instances: int | str | None
    """The most machines that a plan takes; if left out 16 of those that are rented, and all of one's own."""
    region: str | None
    """AWS region; us-east-1 if left out."""
    pricing: Pricing | None
    """Terms; on-demand if left out."""
    service: str | None
    """ec2 or sagemaker; ec2 if left out."""
    transport: str | None
    """Transport between machines: tcp, tcp-pods (sockets of Kubernetes pods), efa or efa-gpudirect; that which is
    usual for each instance type if left out.
    """
    stack: str | None
    """Training framework of the catalog of stacks; `auto`, a comparison of those that people use today, if left out."""
    memory_margin: float | str | None
    """Part of each GPU's memory that a plan leaves free, `8%` or `0.08`, at most a half; what the stack's peaks were
    seen to vary by, and at least 8 %, if left out.
    """
    prices: str | None
    """A table of prices (CSV) that stand before those of the catalog, relative to the job file."""
    quotas: dict[str, int | str] | None
    """What the account may rent at once, by AWS's class (`P`, `G and VT`), family (`p4d`) or pattern of types
    (`g4dn.*`), or several of these that share it (`p3*,p4*`): virtual processors, as EC2 counts them, or instances,
    as SageMaker does.
    """
    profile: str | None
    """A calibrated profile file instead of instances, relative to the job file; `local` for this machine."""
    file: str | None
    """A file that describes a cluster of one's own instead of instances, relative to the job file."""
    constants: str | None
    """A constants file whose GPUs, links and stacks stand before those of the catalog, relative to the job file."""


class GoalSpec(TypedDict, total=False):
    """To what end."""

    objective: Objective | None
    """What is sought; cost if left out. Time in any case where machines have no price."""
    deadline: str | None
    """The longest training accepted, `3 d`."""
    budget: float | str | None
    """The most money accepted, in USD, for machines that have a price."""


class EvaluationSpec(TypedDict, total=False):
    """When and on how much a model is tested."""

    every_epochs: float | str | None
    """Passes over the data set from one test to the next."""
    every_steps: int | str | None
    """Optimizer steps from one test to the next, instead of `every_epochs`."""
    samples: int | str | None
    """Samples of a test."""
    share: float | str | None
    """As many samples as this share of a pass over the data set, `0.1` or `10%`, instead of `samples`."""


class CampaignSpec(TypedDict, total=False):
    """What happens around the steps of a training. Everything may be left out."""

    start: StartKind | None
    """Whether machines must be found and booted first; cold if left out."""
    checkpoint_interval: str | None
    """Training time from one checkpoint to the next, `10 min`; the best one if left out, up to an hour or a hundred
    times what writing one takes.
    """
    checkpoint_storage: CheckpointStorage | None
    """Where checkpoints go; s3 if left out."""
    checkpoint_bandwidth: str | None
    """What all machines together write there, `10 GB/s`. If left out, to s3 what each reaches, up to 10 GB/s of all or
    1 GB/s of each, and to ebs the throughput of a volume at each.
    """
    evaluation: EvaluationSpec | None
    """When the model is tested; never if left out."""
    spot_scenario: int | str | None
    """How often spot instances are reclaimed, as a multiple of what is published: 1, 5 or 20; 1 if left out."""
    monthly_reclaims: float | str | None
    """The share of spot capacity that is reclaimed in a month, `0.1` or `10%`; as published if left out."""
    spot_wait: str | None
    """Median time until a reclaimed spot instance is replaced, `30 min`; ten minutes if left out, a guess."""
    node_mtbf: str | None
    """Mean time between failures of one machine, `6000 h`; that of a published cluster if left out."""
    restart: str | None
    """Time from a failure until training goes on from the last checkpoint, reading it apart: noticing it, replacing
    the machine, starting; `30 min`. If left out, a cold start on rented machines, and on others the timeout of a
    collective and a start of the framework, as if a spare machine stood by; and before that `queue_wait`. With that
    stated too, what a restart takes longer than it would without a queue is spent there, where machines are not
    paid for.
    """
    job_limit: str | None
    """The longest that one job of the scheduler may run, `48h`: a longer training is a chain of jobs, each of which
    starts up, reads the checkpoint of the one before, and stops some minutes before its end to write one. Without
    limit if left out.
    """
    queue_wait: str | None
    """Expected wait in the scheduler's queue before each job starts, `2h`; none if left out."""
    straggler: float | str | None
    """Standard deviation of one machine's time for one step, as a fraction, `0.05` or `5%`; 0 if left out, because
    predicted step times stand for measured ones, which hold their stragglers.
    """


class Job(TypedDict, total=False):
    """A training job as a TOML file or the flags of the command line describe it."""

    model: ModelChoice
    """What is trained."""
    data: DataSpec
    """On what."""
    training: TrainingSpec
    """How."""
    cluster: ClusterChoice
    """Where."""
    goal: GoalSpec
    """To what end."""
    campaign: CampaignSpec | None
    """What happens around the steps."""


class StartSpec(TypedDict, total=False):
    """From taking instances to the first step of training."""

    cold: str | None
    """Of new instances: they are launched, load the container and start the framework; 280 s if left out. More than
    half of it, as of these 280 s, is waiting for the launch, which is not paid for. Of machines of one's own, which
    are there: they start the framework; 40 s if left out.
    """
    warm: str | None
    """Of instances that were kept: they start the framework; 40 s if left out."""


class FleetPoolSpec(TypedDict, total=False):
    """The instances that the jobs share: a quota of each of some types; or machines of one's own."""

    file: str | None
    """A cluster file, relative to this one: the jobs share its machines, each kind of which is a type with its count
    as the quota. Instead of everything that says how instances are rented.
    """
    instances: list[str] | None
    """Instance types, `*` standing for any text."""
    max_instances: int | str | None
    """The quota of each type: the most instances of it that are held at once, in use or kept warm."""
    quotas: dict[str, int | str] | None
    """What the account may rent at once, as `cluster.quotas` of a job says it. Each type is used up to the quota that
    applies to it.
    """
    region: str | None
    """AWS region; us-east-1 if left out."""
    pricing: Pricing | None
    """Terms; on-demand if left out."""
    service: str | None
    """ec2 or sagemaker; ec2 if left out."""
    start: StartSpec
    """From taking instances to the first step."""
    warm_pool: bool
    """Whether instances are kept for the next job that matches."""
    keep_alive: str | None
    """For how long after a job; 30 min if left out."""
    max_warm_instances: int | str | None
    """The quota of instances of each type that are kept without a job; `max_instances` if left out."""


class PolicySpec(TypedDict, total=False):
    """Who goes first."""

    order: QueueOrder
    """The order of the jobs that wait."""
    backfill: bool
    """Whether later jobs may go before the first one as long as they do not delay it (EASY; Mu'alem and Feitelson,
    "Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with Backfilling",
    2001, doi:10.1109/71.932708).
    """


class FleetJobSpec(TypedDict, total=False):
    """A job of a fleet: a JOB in a file of its own or in place, and how often."""

    name: str | None
    """What it is called; after its file or its model if left out."""
    file: str | None
    """A job file, relative to this file, instead of what a job says in place."""
    count: int | str
    """How many jobs of this kind there are, such as trials of a search for hyper-parameters."""
    submit: str | None
    """When they come, after the start of the fleet; at once if left out."""
    priority: int | str
    """Jobs of a higher priority go first."""
    model: ModelChoice | None
    """What is trained."""
    data: DataSpec | None
    """On what."""
    training: TrainingSpec | None
    """How."""
    cluster: ClusterChoice | None
    """Which instances of the pool, and their software."""
    goal: GoalSpec | None
    """A deadline of each job of the kind, from its submission to its end, and a budget of each."""
    campaign: CampaignSpec | None
    """What happens around the steps."""


class Fleet(TypedDict, total=False):
    """A fleet of jobs as a TOML file describes it. Durations are texts with a unit, `12 h`."""

    pool: FleetPoolSpec
    """The instances that the jobs share."""
    goal: GoalSpec
    """What is sought for all jobs together: the deadline is for the last of them, from the first submission on, the
    budget for all of them.
    """
    policy: PolicySpec | None
    """Who goes first; chosen if left out."""
    job: list[FleetJobSpec]
    """The jobs, each perhaps many times."""


class PoolSpec(TypedDict, total=False):
    """The instances that the jobs share: one type, up to a quota; or machines of one's own of one kind."""

    file: str | None
    """A cluster file, relative to this one, that describes machines of one's own."""
    instance: str
    """Instance type of the catalog; with `file` one of its kinds of machines, which may be left out if there is only
    one.
    """
    max_instances: int | str | None
    """The quota: the most instances that are held at once, in use or kept warm. With `file` the machines that there
    are, if left out.
    """
    region: str | None
    """AWS region; us-east-1 if left out."""
    pricing: Pricing | None
    """Terms; on-demand if left out."""
    service: str | None
    """ec2 or sagemaker; ec2 if left out."""
    start: StartSpec
    """From taking instances to the first step."""
    warm_pool: bool
    """Whether instances are kept for the next job that matches."""
    keep_alive: str | None
    """For how long after a job; 30 min if left out."""
    max_warm_instances: int | str | None
    """The quota of instances that are kept without a job; `max_instances` if left out."""


class QueuedJobSpec(TypedDict, total=False):
    """A job: a plan, or a duration on a number of instances. All its instances start together."""

    name: str
    """What it is called."""
    plan: str | None
    """A plan document, relative to this file: its instances for its predicted time, evaluation and checkpoints
    included.
    """
    duration: str | None
    """How long it trains, instead of `plan`; start-up comes on top."""
    instances: int | str | None
    """Instances, beside `duration`; 1 if left out."""
    count: int | str
    """How many jobs of this kind there are, such as trials of a search for hyper-parameters."""
    submit: str | None
    """When they enter the queue, after its start; at once if left out."""
    priority: int | str
    """Goes first where the order is by priority; higher is sooner."""
    spread: float | str
    """Standard deviation of the duration as a fraction of its mean, `0.2` or `20%`; durations are log-normal."""
    role: str | None
    """Execution role, which a warm pool must match."""
    volume: str | None
    """Storage of each instance, `100 GB`, which a warm pool must match."""
    vpc: str | None
    """Subnets and security groups in words, which a warm pool must match."""
    encryption: bool | None
    """Whether traffic between instances is encrypted, which a warm pool must match; as in `plan` if left out."""


class Queue(TypedDict, total=False):
    """A queue of jobs as a TOML file describes it. Durations are texts with a unit, `30 min`."""

    pool: PoolSpec
    """The instances that the jobs share."""
    policy: PolicySpec
    """Who goes first."""
    job: list[QueuedJobSpec]
    """The jobs, each perhaps many times."""


@dataclass(frozen=True, kw_only=True)
class RotaryScaling:
    """How the frequencies of rotary positions are changed. It does not change what a model costs, only what it
    computes.
    """

    kind: str
    """The method, by the name that `config.json` has for it as `rope_type`: `llama3`, `linear`, `dynamic`, `yarn`,
    `longrope`.
    """
    factor: float | None = None
    """How many times as long samples may be."""
    low_frequency_factor: float | None = None
    """Tokens of the samples of the first training over the longest wavelength that stays as it is divided (llama3); 1
    if left out.
    """
    high_frequency_factor: float | None = None
    """The same of the shortest wavelength that is changed (llama3); 4 if left out."""
    original_tokens: int | None = None
    """Tokens of the samples of the first training; 8192 for llama3 if left out."""


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """What one sample is: an image (`channels`, `height`, `width`), a volume (`depth` besides), tokens to be looked up
    (`tokens`), a sequence of vectors (`tokens` and `features`), or one vector (`features`).
    """

    channels: int | None = None
    """Channels of an image or a volume."""
    depth: int | None = None
    """Pixels from front to back of a volume."""
    height: int | None = None
    """Pixels from top to bottom."""
    width: int | None = None
    """Pixels from left to right."""
    tokens: int | None = None
    """Tokens, or steps of a sequence of vectors."""
    features: int | None = None
    """Elements of a vector."""


class Conv(TypedDict, total=False):
    """`{ conv = 64, kernel = 3 }`: a convolution."""

    conv: int
    """Channels of the output."""
    kernel: Sizes | None
    """Extent of the kernel; 1 if left out."""
    stride: Sizes | None
    """Distance of windows; 1 if left out."""
    padding: Padding | None
    """What is put around the input; `same` if left out."""
    dilation: Sizes | None
    """Distance of the pixels of a window; 1 if left out."""
    groups: int | None
    """Groups of channels that are convolved apart; 1 if left out."""
    bias: bool | None
    """Whether a bias is added; `true` unless a normalisation follows."""
    norm: Norm2 | None
    """The normalisation that follows; none if left out."""
    activation: Activation | None
    """The function that follows; none if left out."""


class Depthwise(TypedDict, total=False):
    """`{ depthwise = 3 }`: a convolution of each channel by itself."""

    depthwise: Sizes
    """Extent of the kernel."""
    stride: Sizes | None
    """Distance of windows; 1 if left out."""
    padding: Padding | None
    """What is put around the input; `same` if left out."""
    dilation: Sizes | None
    """Distance of the pixels of a window; 1 if left out."""
    bias: bool | None
    """Whether a bias is added; `true` unless a normalisation follows."""
    norm: Norm2 | None
    """The normalisation that follows; none if left out."""
    activation: Activation | None
    """The function that follows; none if left out."""


class TransposedConv(TypedDict, total=False):
    """`{ transposed_conv = 64, kernel = 2, stride = 2 }`: the transpose of a convolution."""

    transposed_conv: int
    """Channels of the output."""
    kernel: Sizes
    """Extent of the kernel."""
    stride: Sizes | None
    """How many times larger the map becomes; 1 if left out."""
    padding: Padding | None
    """What is cut off around the output; with `same`, if left out, the stride alone makes it larger."""
    bias: bool | None
    """Whether a bias is added; `true` unless a normalisation follows."""
    norm: Norm2 | None
    """The normalisation that follows; none if left out."""
    activation: Activation | None
    """The function that follows; none if left out."""


class GroupNorm(TypedDict):
    """`{ group_norm = 32 }`: normalisation over groups of channels."""

    group_norm: int
    """Groups, which share the channels evenly."""


class MaxPool(TypedDict, total=False):
    """`{ max_pool = 3, stride = 2 }`: the largest value of each window."""

    max_pool: Sizes
    """Extent of a window."""
    stride: Sizes | None
    """Distance of windows; their extent if left out."""
    padding: Padding | None
    """What is put around the input; `same` if left out."""


class MeanPool(TypedDict, total=False):
    """`{ mean_pool = 2 }`: the mean of each window."""

    mean_pool: Sizes
    """Extent of a window."""
    stride: Sizes | None
    """Distance of windows; their extent if left out."""
    padding: Padding | None
    """What is put around the input; `same` if left out."""


class AdaptivePool(TypedDict):
    """`{ adaptive_pool = 7 }`: means of windows that divide the map."""

    adaptive_pool: Sizes
    """Extent of the output."""


class Upsample(TypedDict):
    """`{ upsample = 2 }` or `{ upsample = "c4" }`: repetition of pixels."""

    upsample: UpsampleTo
    """How many times, or to the extent of what."""


class Linear(TypedDict, total=False):
    """`{ linear = 4096, activation = "relu" }`: a product with the features of each pixel or token."""

    linear: int
    """Features of the output."""
    bias: bool | None
    """Whether a bias is added; `true` if left out."""
    activation: Activation | None
    """The function that follows; none if left out."""


class AttentionSpec(TypedDict, total=False):
    """`{ attention = 12 }`: projections, self-attention over the tokens or pixels, and the output's projection."""

    attention: int
    """Heads, which share the features evenly."""
    causal: bool | None
    """Whether tokens attend to earlier ones only; `false` if left out."""
    kernel: AttentionKernel | None
    """How it is computed; as the model's `attention` says, or `unfused`, if left out."""
    dropout: bool | None
    """Whether weights are dropped out; `false` if left out."""
    bias: bool | None
    """Whether biases are added to the projections; `true` if left out."""
    key_bias: bool | None
    """Whether that of keys has one; as `bias` if left out."""
    window: int | None
    """Side of the windows, in pixels, among which alone pixels attend to each other; all attend to all if left out."""
    relative_bias: int | None
    """Distances for each of which every head has a trained bias of scores; none if left out."""


class ClassTokens(TypedDict, total=False):
    """`{ class_tokens = 1 }`: pixels as a sequence, behind so many trained tokens."""

    class_tokens: int
    """Trained tokens."""
    positions: bool | None
    """Whether a trained vector is added to each token; `true` if left out."""


class SpaceToDepth(TypedDict):
    """`{ space_to_depth = 2 }`: the pixels of each 2 × 2 window side by side as the channels of one."""

    space_to_depth: Sizes
    """Extent of a window."""


class Embedding(TypedDict, total=False):
    """`{ embedding = 30522, width = 768 }`: a look-up of tokens."""

    embedding: int
    """Entries of the table."""
    width: int
    """Features of an entry."""
    positions: int | None
    """Entries of a table of learned positions; none if left out."""
    dropout: bool | None
    """Whether the sum is dropped out; `false` if left out."""


class Lstm(TypedDict, total=False):
    """`{ lstm = 1024, bidirectional = true }`: long short-term memory over the steps of a sequence."""

    lstm: int
    """Features of a state, and of the output in each direction."""
    bidirectional: bool | None
    """Whether another one reads from the end; `false` if left out."""


class Gru(TypedDict, total=False):
    """`{ gru = 1024 }`: gated recurrent units over the steps of a sequence."""

    gru: int
    """Features of a state, and of the output in each direction."""
    bidirectional: bool | None
    """Whether another one reads from the end; `false` if left out."""


class Tables(TypedDict):
    """`{ tables = [1000, 50] }`: a row of each of some embedding tables, as wide as the vector that flows, in a
    sequence behind it.
    """

    tables: list[int]
    """Rows of each table."""


class SqueezeExcite(TypedDict, total=False):
    """`{ squeeze_excite = 16 }`: gates for channels from their means."""

    squeeze_excite: int
    """Features between the two products."""
    activation: Activation | None
    """The function between them; `relu` if left out."""


class RoiAlign(TypedDict, total=False):
    """`{ roi_align = 7, regions = 512, of = ["p2", "p3"] }`: regions cut out of maps."""

    roi_align: Sizes
    """Extent of a region's result."""
    regions: int
    """Regions of one sample."""
    of: list[str]
    """The saved maps out of which they are cut; what came before if left out."""


class Add(TypedDict, total=False):
    """`{ add = [[…], []] }`, the sum of what branches make of the same input, of which `[]` hands it on; or `{ add =
    "c3" }`, the sum with something saved.
    """

    add: Joined
    """What is added."""
    dropout: bool | None
    """Whether what is added is dropped out before; `false` if left out."""


class Concat(TypedDict, total=False):
    """`{ concat = [[…], […]] }`, channels of what branches make of the same input side by side; or `{ concat = "x" }`,
    with something saved.
    """

    concat: Joined
    """What is put side by side."""
    crop: bool | None
    """Whether the middle of something saved is cut out where it is larger; `false` if left out."""


class Save(TypedDict):
    """`{ save = "c3" }`: a name for what the operator before made."""

    save: str


class Load(TypedDict):
    """`{ load = "c3" }`: goes on with something saved."""

    load: str


class Side(TypedDict, total=False):
    """`{ side = […], of = ["p3", "p4"] }`: operators that end in a loss of their own, with the same weights for each
    of the saved maps.
    """

    side: list[OperatorSpec]
    """What they compute."""
    of: list[str]
    """The saved maps that they compute it of; what came before if left out."""


class CrossEntropy(TypedDict):
    """`{ cross_entropy = 81 }`: softmax cross-entropy over classes of which each pixel may have several sets, or, of
    one class, a loss of each value by itself.
    """

    cross_entropy: int
    """Classes."""


@dataclass(frozen=True, kw_only=True)
class LayerSpec:
    """A layer as written: the unit that is assigned to pipeline stages."""

    name: str
    """What it is called in messages and reports."""
    repeat: int | None = None
    """How many of it follow one another; shapes are inferred again for each. 1 if left out."""
    frozen: bool = False
    """Whether its weights stay as they are: it has no backward pass, and neither have the layers before it, which must
    be frozen too.
    """
    operators: list[OperatorSpec]
    """What it computes, in order."""


@dataclass(frozen=True, kw_only=True)
class LinearSizes:
    """A product of rows with weights, and perhaps a bias."""

    rows: int
    """Rows: tokens or pixels."""
    inputs: int
    """Features of a row."""
    outputs: int
    """Features of a row of the result."""
    bias: bool = False
    """Whether a bias is added."""
    shared: bool = False
    """Whether its weights are those of an operator before it."""
    input_kept: bool = False
    """Whether another operator keeps its input for backward."""


@dataclass(frozen=True, kw_only=True)
class ConvolutionSizes:
    """A convolution, or its transpose, of up to three dimensions: depth, height and width."""

    maps: int
    """Maps of a sample."""
    input: list[int]
    """Extent of the input; 1 in dimensions that it has not."""
    output: list[int]
    """Extent of the output."""
    inputs: int
    """Channels of the input."""
    outputs: int
    """Channels of the output."""
    kernel: list[int]
    """Extent of the kernel."""
    groups: int
    """Groups of channels that are convolved apart."""
    bias: bool = False
    """Whether a bias is added."""
    transposed: bool = False
    """Whether it is the transpose of a convolution."""
    shared: bool = False
    """Whether its weights are those of an operator before it."""
    input_kept: bool = False
    """Whether another operator keeps its input for backward."""


@dataclass(frozen=True, kw_only=True)
class AttentionSizes:
    """Scaled dot-product attention between queries, keys and values that were projected before."""

    sequences: int
    """Sequences of a sample."""
    heads: int
    """Heads of queries."""
    kv_heads: int
    """Heads of keys and values."""
    queries: int
    """Tokens that attend."""
    keys: int
    """Tokens that are attended to."""
    head_width: int
    """Features of a head of queries and keys."""
    value_width: int
    """Features of a head of values."""
    causal: bool = False
    """Whether tokens attend to earlier ones only."""
    dropout: bool = False
    """Whether weights are dropped out."""
    biased: bool = False
    """Whether a bias for each pair is added to the scores."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingSizes:
    """A look-up of rows in a table."""

    rows: int
    """Rows that are looked up."""
    entries: int
    """Entries of the table."""
    width: int
    """Features of an entry."""
    shared: bool = False
    """Whether the table is that of an operator before it."""


@dataclass(frozen=True, kw_only=True)
class NormSizes:
    """A normalisation over the features of each row."""

    rows: int
    """Rows: tokens or pixels."""
    width: int
    """Features of a row."""
    shared: bool = False
    """Whether its weights are those of an operator before it."""
    input_kept: bool = False
    """Whether another operator keeps its input for backward."""


@dataclass(frozen=True, kw_only=True)
class MapSizes:
    """A normalisation of channels over pixels, with scale and shift."""

    pixels: int
    """Pixels of the sample."""
    channels: int
    """Channels of a pixel."""
    shared: bool = False
    """Whether its weights are those of an operator before it."""
    input_kept: bool = False
    """Whether another operator keeps its input for backward."""


@dataclass(frozen=True, kw_only=True)
class PoolSizes:
    """A value for each window of pixels."""

    pixels: int
    """Pixels of the input."""
    windows: int
    """Pixels of the output."""
    channels: int
    """Channels of a pixel."""
    input_kept: bool = False
    """Whether another operator keeps its input for backward."""


@dataclass(frozen=True, kw_only=True)
class RowSizes:
    """A function of each element."""

    rows: int
    """Rows: tokens or pixels."""
    width: int
    """Features of a row."""
    input_kept: bool = False
    """Whether another operator keeps its input for backward."""


@dataclass(frozen=True, kw_only=True)
class RecurrentSizes:
    """A layer of recurrent cells over the steps of a sequence, with two biases for each gate."""

    sequences: int
    """Sequences of a sample."""
    steps: int
    """Steps of a sequence."""
    inputs: int
    """Features of a step."""
    hidden: int
    """Features of a state."""
    bidirectional: bool = False
    """Whether another set of weights reads from the end."""
    shared: bool = False
    """Whether its weights are those of an operator before it."""


@dataclass(frozen=True, kw_only=True)
class ProductSizes:
    """Independent products of two activations, (m, k) · (k, n) each."""

    batch: int
    """Products."""
    m: int
    """Rows of a result."""
    n: int
    """Columns of a result."""
    k: int
    """Length of the sums."""
    kept: int | None = None
    """Elements of the operands that nothing else keeps for backward."""


@dataclass(frozen=True, kw_only=True)
class KernelSizes:
    """Any other kernel, which is bound by memory."""

    read: int
    """Elements read."""
    written: int
    """Elements written."""
    kept: int | None = None
    """Elements that backward needs and that nothing else keeps."""
    masks: int | None = None
    """Bytes of masks and indices that backward needs."""


@dataclass(frozen=True, kw_only=True)
class WeightSizes:
    """Trained values that kernels read beside what flows: positions, scales, biases of scores."""

    values: int
    """Trained values."""
    tensors: int
    """Tensors that they are in."""


@dataclass(frozen=True, kw_only=True)
class CrossEntropySizes:
    """Softmax cross-entropy."""

    rows: int
    """Values that are predicted."""
    classes: int
    """Classes."""


@dataclass(frozen=True, kw_only=True)
class TracedLayer:
    """A layer: the unit that is assigned to pipeline stages, and of which recomputation keeps only the input."""

    name: str
    """What it is called in messages and reports: the path of the module that it was."""
    repeat: int | None = None
    """How many of it follow one another; 1 if left out."""
    output: int
    """Elements of a sample that go on to the next layer, what only goes past this one among them."""
    made: int
    """Those of them that this layer made."""
    tied: int | None = None
    """Trained values of the first layer that it uses too, which only the last layer may: a tied head."""
    operators: list[TracedOperator]
    """What it computes, in order."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A model as a person writes it. Which fields are needed depends on the family; [`crate::Model`] checks them."""

    name: str
    """The catalog id, or any name for a model of one's own."""
    family: Family
    """The architecture."""
    layers: int | None = None
    """Transformer blocks or recurrent layers (of the encoder, if there is a decoder), or hidden layers of an MLP."""
    hidden: int | None = None
    """Width of the residual stream, or of each hidden layer of an MLP."""
    heads: int | None = None
    """Attention heads (transformers)."""
    kv_heads: int | None = None
    """Heads of keys and values (llama, gemma2, blocks); as many as `heads` if left out."""
    head_width: int | None = None
    """Features of a head (llama, gemma2, blocks, t5, transformer-xl, mamba2); hidden / heads if left out."""
    ffn: int | None = None
    """Width inside the feed-forward part (transformers); if left out 4 × hidden, of llama 8/3 × hidden, to a multiple
    of 256.
    """
    gated: bool | None = None
    """Whether feed-forward parts are gated (t5); `false` if left out."""
    vocab: int | None = None
    """Vocabulary size (language models)."""
    type_vocab: int | None = None
    """Kinds of segments (bert, electra, blocks); 2 if left out, none for blocks."""
    positions: int | None = None
    """Entries of the position table (bert, electra, bart, and blocks with learned positions), or of that of the
    decoder (whisper); as many as there are tokens if left out.
    """
    distances: int | None = None
    """Rows of a table of distances, shared by all blocks, against which queries and keys are scored besides (blocks);
    none if left out (He et al., arXiv:2006.03654, section 3).
    """
    seq_len: int | None = None
    """Tokens in one sample (language models), or frames of features (rnn-t, whisper)."""
    decoder_layers: int | None = None
    """Blocks or layers of the decoder; `layers` if left out."""
    decoder_seq_len: int | None = None
    """Tokens that the decoder writes; `seq_len` if left out."""
    attention: AttentionKernel | None = None
    """How attention is computed (transformers); `unfused` if left out."""
    window: int | None = None
    """Tokens that a query sees at most (llama, gemma2, blocks), in an encoder half of them on each side; all if left
    out.
    """
    window_blocks: Sequence[int] | None = ()
    """Blocks, counted from 0, in which the window holds (gemma2, blocks); all if left out."""
    rotary_base: float | None = None
    """Base of the frequencies by which positions turn queries and keys (llama, gpt-neox, gemma2, blocks); 10000 if
    left out. It does not change what a model costs, only what it computes.
    """
    rotary_scaling: RotaryScaling | None = None
    """How those frequencies are changed for longer samples than those of the first training (llama, blocks); not at
    all if left out. It does not change what a model costs, only what it computes.
    """
    norm_epsilon: float | None = None
    """What is added to mean squares or variances before their root (llama, gpt-neox, gemma2, blocks); 0.00001, for
    gemma2 0.000001 if left out. It does not change what a model costs, only what it computes.
    """
    query_scalar: int | None = None
    """The number by whose square root scores of attention are divided (gemma2); `head_width` if left out. It does not
    change what a model costs, only what it computes.
    """
    tied_head: bool | None = None
    """Whether the head's weight is the token table; `true` for gpt-moe, gemma2 and t5, `false` for llama, gpt-neox,
    blocks and mamba2 if left out.
    """
    head: HeadKind | None = None
    """What is on top (bert, vit, blocks); `pretraining` for bert, `classifier` for vit, `language-model` for blocks if
    left out.
    """
    head_norm: bool | None = None
    """Whether what is before the vocabulary or the classes of an encoder ends in a normalisation (blocks); as `head`
    says if left out: `true` for masked tokens.
    """
    head_bias: bool | None = None
    """Whether the head has a bias (blocks); `false` for a language model, else `true` if left out."""
    causal: bool | None = None
    """Whether tokens attend to earlier ones only (blocks); `true` if left out."""
    position: PositionKind | None = None
    """How a model knows where a token stands (blocks); `rotary` if left out."""
    rotary_width: int | None = None
    """Features of a head that are rotated (gpt-neox, blocks); all if left out."""
    norm: Norm | None = None
    """What normalises (blocks); `rms` if left out."""
    part_norms: int | None = None
    """Normalisations of each of a block's two parts (blocks): 1, or 2, in front and behind; 1 if left out."""
    parallel_norms: int | None = None
    """Normalisations in front of attention and feed-forward part, if these work side by side on the same input
    (blocks: 1 or 2, gpt-neox: 2); one part follows the other if left out.
    """
    first_norm: bool | None = None
    """Whether attention of the first block has a normalisation in front (blocks); `true` if left out."""
    final_norm: bool | None = None
    """Whether a normalisation follows the last block (blocks); `true` if left out."""
    embedding_norm: bool | None = None
    """Whether a normalisation follows the look-up of tokens (blocks); `false` if left out."""
    query_key_norm: QueryKeyNorm | None = None
    """How queries and keys are normalised (llama, blocks); not at all if left out."""
    qkv_bias: bool | None = None
    """Whether the projections of queries, keys and values have biases (llama, blocks); `false` if left out."""
    output_bias: bool | None = None
    """Whether the projection behind attention has a bias (blocks); `qkv_bias` if left out."""
    ffn_bias: bool | None = None
    """Whether the products of feed-forward parts have biases (blocks); `false` if left out."""
    feed_forward: FeedForward | None = None
    """What is between the products of feed-forward parts (blocks); `gated` if left out."""
    embedding_width: int | None = None
    """Features of the token table where they are not those of the residual stream, to which a product brings them, and
    from which another brings them back in front of the vocabulary (blocks).
    """
    dropout: DropoutSpec | None = None
    """Share of what is added to the residual stream that is dropped out (gpt, gpt-moe, llama, gpt-neox, gemma2, bert,
    vit, blocks), or for blocks whether any is. If left out a training here drops nothing out; costs are those of
    the published training, which is one with dropout for gpt, gpt-moe and bert.
    """
    attention_dropout: DropoutSpec | None = None
    """The same of the weights of attention; `dropout` if left out."""
    embedding_dropout: DropoutSpec | None = None
    """The same of what the first block is given (not blocks); `dropout` if left out."""
    score_cap: float | None = None
    """What scores of attention are bounded by (gemma2, blocks); nothing if left out. The value does not change what a
    model costs.
    """
    logit_cap: float | None = None
    """What logits are bounded by (gemma2, blocks); nothing if left out. The value does not change what a model costs.
    """
    sinks: bool | None = None
    """Whether each head has a trained score beside those of keys (blocks); `false` if left out."""
    kv_rank: int | None = None
    """Features to which keys and values of latent attention are narrowed (blocks); attention is not latent if left
    out.
    """
    query_rank: int | None = None
    """Features to which queries of latent attention are narrowed (blocks); they are not if left out."""
    value_width: int | None = None
    """Features of a head of values in latent attention (blocks); `head_width` if left out."""
    experts: int | None = None
    """Experts of a layer (gpt-moe, llama, blocks)."""
    experts_per_token: int | None = None
    """Experts that a token is sent to; 2 if left out."""
    expert_interval: int | None = None
    """Every how many blocks there are experts; 2 for gpt-moe, 1 for llama and blocks if left out."""
    capacity_factor: float | None = None
    """Places that experts hold, relative to what tokens need; 1 if left out."""
    expert_group: int | None = None
    """Tokens that are routed together by products with masks, as in GShard; copied by index if left out."""
    expert_ffn: int | None = None
    """Width inside an expert (blocks); `ffn` if left out."""
    shared_ffn: int | None = None
    """Width inside the expert that every token goes to (blocks); none if left out."""
    shared_gate: bool | None = None
    """Whether what that expert makes is weighted by a gate of its own (blocks); `false` if left out."""
    expert_bias: bool | None = None
    """Whether router and experts have biases (blocks); `false` if left out."""
    router: RouterScores | None = None
    """What makes scores of what routers compute (blocks); not known if left out. Neither this nor the next four change
    what a model costs, only what it computes.
    """
    router_groups: int | None = None
    """Groups of as many experts each, of which the best for a token are chosen first (blocks); 1 if left out."""
    router_groups_per_token: int | None = None
    """Groups to which a token is sent (blocks); `router_groups` if left out."""
    routed_scale: float | None = None
    """What the sum of a token's routed experts is multiplied by (blocks); 1 if left out."""
    correction_bias: bool | None = None
    """Whether experts are chosen by scores with a bias that follows their load and no gradient (blocks; Wang et al.,
    arXiv:2408.15664); `false` if left out.
    """
    dense_blocks: Sequence[int] | None = ()
    """Blocks, counted from 0, that have no experts whatever `expert_interval` says (blocks); none if left out."""
    predictions: int | None = None
    """Masked tokens of a sample, for which alone the vocabulary is scored (bert); all tokens if left out."""
    image_size: int | None = None
    """Height and width of an image (vit, clip, resnet); 224 if left out."""
    patch_size: int | None = None
    """Height and width of a patch (vit, clip)."""
    channels: int | None = None
    """Channels of an image (vit, clip, resnet); 3 if left out."""
    vision_hidden: int | None = None
    """Width of the encoder of images (clip)."""
    vision_heads: int | None = None
    """Heads of the encoder of images (clip)."""
    vision_layers: int | None = None
    """Blocks of the encoder of images (clip)."""
    vision_ffn: int | None = None
    """Width inside the feed-forward parts of the encoder of images (clip); 4 × vision_hidden if left out."""
    classes: int | None = None
    """Classes (vit, resnet, and bert or blocks with a classifier)."""
    depths: Sequence[int] | None = ()
    """Blocks of each stage (resnet)."""
    widths: Sequence[int] | None = ()
    """Channels that the blocks of each stage hand on (resnet); doubled from stage to stage if left out."""
    block: BlockKind | None = None
    """What blocks are (resnet); `bottleneck` if left out."""
    base_channels: int | None = None
    """Channels after the stem (resnet); 64 if left out."""
    width_factor: int | None = None
    """Factor of the channels inside a bottleneck (resnet); 1 if left out."""
    kernel_factor: int | None = None
    """Factor of the channels of a bottleneck's 3 × 3 convolution alone (resnet); 1 if left out."""
    groups: int | None = None
    """Groups of a bottleneck's 3 × 3 convolution (resnet), or of heads that share inputs and outputs of states
    (mamba2); 1 if left out.
    """
    squeeze_excite: int | None = None
    """Channels of a block over those of its squeeze and excitation (resnet); none if left out."""
    input: InputSpec | None = None
    """What one sample is (layers, traced)."""
    layer: Sequence[LayerSpec] | None = ()
    """Layers of operators, in order (layers)."""
    traced: Sequence[TracedLayer] | None = ()
    """Layers of operators with their sizes, in order (traced)."""
    inputs: int | None = None
    """Input features (mlp, rnn-t, whisper), or dense features (dlrm)."""
    outputs: int | None = None
    """Output features (mlp)."""
    state_width: int | None = None
    """Features of a state for each feature of a head (mamba2); 128 if left out."""
    chunk: int | None = None
    """Tokens whose states are computed at once (mamba2); 256 if left out."""
    taps: int | None = None
    """Tokens that the convolution of a block sees at once (mamba2); 4 if left out."""
    memory: int | None = None
    """Tokens kept of the segment before (transformer-xl)."""
    cutoffs: Sequence[int] | None = ()
    """Where the clusters of an adaptive vocabulary begin, most frequent tokens first (transformer-xl)."""
    cluster_divisor: int | None = None
    """How much narrower the embeddings of each cluster are than those of the one before (transformer-xl); 1 if left
    out.
    """
    generator_hidden: int | None = None
    """Width of the generator's residual stream (electra); a quarter of `hidden` if left out."""
    decoder_hidden: int | None = None
    """Features of the prediction network's states (rnn-t); half of `hidden` if left out."""
    stacked_layers: int | None = None
    """Layers of the encoder behind the stacking of frames (rnn-t)."""
    stack: int | None = None
    """Neighbouring frames that are stacked (rnn-t); 2 if left out."""
    joint: int | None = None
    """Features of the joint network (rnn-t), `decoder_hidden` if left out; of the vectors of texts and images that are
    compared (clip), `hidden` if left out.
    """
    tables: Sequence[int] | None = ()
    """Rows of each embedding table (dlrm)."""
    bottom: Sequence[int] | None = ()
    """Widths of the products over dense features (dlrm); the last is that of the tables."""
    top: Sequence[int] | None = ()
    """Widths of the products over interactions (dlrm); a last one of width 1 follows."""


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """Which machines, and how many."""

    instance: str
    """Catalog name of the instance type, or the name inside `profile`."""
    instances: int
    """How many of them."""
    profile: str | None = None
    """A calibrated profile file that describes the machine, for machines that no catalog has."""
    file: str | None = None
    """A cluster file that describes the machines, for machines that no catalog has."""
    constants: str | None = None
    """A constants file that stands before the catalog: what the prediction rests on."""
    encrypted: bool = False
    """Whether traffic between machines is encrypted."""
    transport: str | None = None
    """The transport between machines: tcp, tcp-pods, efa or efa-gpudirect; that which is usual for the instance type
    if left out.
    """


@dataclass(frozen=True, kw_only=True)
class ParallelSpec:
    """Degrees of parallelism."""

    data: int
    """Replicas, each with its part of the global batch."""
    tensor: int
    """Ranks that share each layer's weights."""
    pipeline: int
    """Stages."""
    context: int = 1
    """Ranks that share each sample's tokens."""
    expert: int = 1
    """Replicas that share the experts of each layer; a part of `data`, or of `data` times `context` where experts are
    folded.
    """
    folded_experts: bool = False
    """Whether experts are shared out over the ranks of a stage as they are numbered, those of a tensor group too, so
    that tensor parallelism splits none: over `expert` times `tensor` ranks (Liu et al., "MoE Parallel Folding",
    arXiv:2504.14960).
    """
    sequence: bool = False
    """Whether the ranks of a tensor group also share the tokens of what tensor parallelism does not split."""


@dataclass(frozen=True, kw_only=True)
class BatchSpec:
    """Batch sizes. `global = micro × accumulation × parallel.data`."""

    global_: int
    """Samples of an optimizer step, over all replicas."""
    micro: int
    """Samples that one replica computes at once."""
    accumulation: int
    """Micro-batches of one replica in a step."""


@dataclass(frozen=True, kw_only=True)
class StageSpec:
    """A pipeline stage: layers `first .. first + layers`, the embedding being layer 0 and the head the last."""

    first: int
    """Index of the first layer."""
    layers: int
    """Number of layers."""


@dataclass(frozen=True, kw_only=True)
class FineTuningSpec:
    """Which weights of the model are trained and towards what, where not all are by the model's own loss."""

    method: Method
    """Which weights are trained."""
    lora: LoraSpec | None = None
    """The adapters of lora and qlora."""
    trained_blocks: int | None = None
    """With frozen, the last so many blocks are trained, and what follows them; 1 if left out."""
    dpo: DpoSpec | None = None
    """Training on preferences; the model's own loss if left out."""


@dataclass(frozen=True, kw_only=True)
class InputSpec2:
    """How samples reach the devices."""

    storage: StorageMode
    """Where samples are read from."""
    decode: DecodePlace
    """What decodes them."""
    workers: int
    """Processes that read and decode for one replica."""
    prefetch: int
    """Batches that each stage of loading may be ahead of the next; 0: a batch is loaded when the step before is over.
    """
    cache: Cache
    """Where they are kept after the first pass."""


@dataclass(frozen=True, kw_only=True)
class PlanSpec:
    """How a training job is laid out: model, machines, degrees, batch, schedule and precision."""

    model: ModelSpec
    """The model, with every dimension."""
    cluster: ClusterSpec
    """The machines."""
    parallel: ParallelSpec
    """Degrees of parallelism; their product is the number of ranks."""
    batch: BatchSpec
    """Batch sizes in samples."""
    schedule: ScheduleName
    """The order of micro-batches in the pipeline."""
    virtual_stages: int = 1
    """Runs of layers that each stage holds: more than one only in interleaved and V-shaped schedules."""
    stages: list[StageSpec]
    """Layers of each run, in the order of the model: pipeline × virtual stages of them."""
    stack: str | None = None
    """The software that runs the plan, as the catalog of stacks names it; that of the job if left out."""
    precision: Precision
    """Number formats of compute and of the master weights."""
    recompute: Recompute
    """What is computed again in backward instead of being kept."""
    state_sharding: StateSharding = 'none'
    """What replicas share out among themselves instead of each holding all of it."""
    sharding_ranks: int | None = None
    """Over how many replicas a state is shared out; all of them if left out. Fewer is hierarchical sharding."""
    gradient_reduction: GradientReduction = 'step'
    """How often gradients are summed over replicas."""
    gradient_compression: GradientCompression = 'none'
    """In which form gradients travel between replicas."""
    offload: Offload = 'none'
    """What is kept in main memory or on disk: `none`, or parts joined by `+`, as in `optimizer+activations@nvme`."""
    placement: Placement = 'cluster'
    """Which ranks stand next to each other."""
    collectives: Collectives
    """How gradients are summed over replicas."""
    optimizer: Optimizer
    """The optimizer."""
    fine_tuning: FineTuningSpec | None = None
    """Which weights are trained, and towards what; all of them by the model's own loss if left out."""
    input: InputSpec2 | None = None
    """How samples reach the devices; if left out they are there when a step wants them."""
    pricing: Pricing
    """How the machines are paid."""
    service: str | None = None
    """Who rents them out, ec2 or sagemaker; the service of the price that was used if left out."""


@dataclass(frozen=True, kw_only=True)
class InputPrediction:
    """What becomes of samples on their way to the step."""

    input_stall_s: float
    """What a step waits for its samples, of its whole time."""
    accelerator_utilisation: float
    """Time in which devices work on steps over all time, as MLPerf Storage defines it."""
    bottleneck: Bottleneck
    """What limits the training."""
    read_samples_per_s: float
    """Samples a second that storage gives, all machines together."""
    decode_samples_per_s: float
    """Samples a second that are decoded."""
    copy_samples_per_s: float
    """Samples a second that are copied to the devices."""
    step_samples_per_s: float
    """Samples a second that steps would take if they never waited."""
    first_pass_step_time_s: float
    """Seconds of a step during the first pass over the data set."""
    download_s: float
    """Seconds of downloading or listing before the first step, which are part of its start-up."""
    requests: float | None = None
    """Requests that read objects of Amazon S3, of the whole training."""


@dataclass(frozen=True, kw_only=True)
class Phases:
    """Where a step goes, in seconds of one rank."""

    forward_s: float
    """Forward passes."""
    backward_s: float
    """Backward passes."""
    communication_s: float
    """Moving bytes between ranks, as far as nothing was computed meanwhile. What ranks that share layers bring
    together inside a pass belongs to that pass. With what was waited for, in documents that do not tell it apart.
    """
    wait_s: float = 0.0
    """Waiting for data or for other ranks."""
    optimizer_s: float
    """The optimizer's update."""
    other_s: float | None = None
    """The rest of the step, where it was measured."""


@dataclass(frozen=True, kw_only=True)
class StageMemory:
    """What one rank of a stage needs."""

    parameters: int
    """Weights that compute uses."""
    gradients: int
    """Gradients."""
    optimizer_state: int
    """Moments and master weights."""
    activations: int
    """Activations at the schedule's peak."""
    buffers: int = 0
    """Weights that are gathered and gradients that are sent."""
    workspace: int
    """Buffers inside one layer."""
    loading: int | None = None
    """What weights that are loaded whole, before training, need more than all of that."""
    software: int
    """Driver, framework, and what the allocator holds without use."""
    total: int
    """All of it."""
    limit: int | None = None
    """What the smallest device of the stage has, where it is more than [`Memory::limit`]."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory of the ranks, by stage."""

    limit: int
    """What the smallest device of any stage has."""
    stages: list[StageMemory]
    """What one rank of each stage needs."""
    host: int | None = None
    """What the ranks of one machine keep in its main memory."""
    disk: int | None = None
    """What they keep on its disk."""


@dataclass(frozen=True, kw_only=True)
class JobsOfScheduler:
    """The jobs of a scheduler in which a training runs, one after another, if nothing interrupts it."""

    count: int
    """Number of jobs."""
    limit_s: float
    """Seconds that one may run."""


@dataclass(frozen=True, kw_only=True)
class ExpectedInterruptions:
    """What machines that are lost add to a training, expected values: spot instances that are reclaimed, at the
    published band of their type or at what the job says, times its scenario, or machines that fail.
    """

    expected: float
    """Machines that are lost; each stops all."""
    waiting_s: float
    """Seconds until they are replaced, those in a scheduler's queue included, where no machine is paid for."""
    restarts_s: float
    """Seconds of making replaced ones ready and of reading checkpoints."""
    lost_s: float
    """Seconds of work that is done again, and of checkpoints that are written when a reclaim is announced."""


@dataclass(frozen=True, kw_only=True)
class CostParts:
    """What a training costs, in USD; together, its price."""

    instances_usd: float
    """Instances while steps are done."""
    start_up_usd: float
    """Instances from when they are there to the first step."""
    storage_usd: float
    """What keeps checkpoints, and the data set near the machines."""
    requests_usd: float | None = None
    """Requests that read samples from Amazon S3."""
    checkpoints_usd: float
    """Instances while checkpoints are written."""
    evaluations_usd: float | None = None
    """Instances while the model is evaluated."""
    reference_usd: float | None = None
    """Instances while a reference model scores the samples before the first step."""
    interruptions_usd: float | None = None
    """Instances while reclaimed ones are replaced, made ready, and lost work is done again."""
    failures_usd: float | None = None
    """The same of machines that fail."""
    unused_usd: float | None = None
    """Capacity blocks: the part of the block that the training does not use."""


@dataclass(frozen=True, kw_only=True)
class PriceOfKind:
    """What machines of one kind cost."""

    name: str
    """The kind."""
    instances: int
    """How many."""
    usd_per_hour: float
    """USD per hour of one of them."""


@dataclass(frozen=True, kw_only=True)
class PriceUsed:
    """A price and where it comes from: of machines that AWS rents out, or of those that a cluster file describes,
    which are in no Region.
    """

    usd_per_hour: float
    """USD per hour of one instance; the mean where `kinds` differ."""
    low_usd_per_hour: float
    """The lowest price seen; differs for spot only."""
    high_usd_per_hour: float
    """The highest price seen."""
    region: str | None = None
    """Region; absent for machines of a cluster file."""
    service: str | None = None
    """ec2 or sagemaker; absent for machines of a cluster file."""
    pricing: Pricing | None = None
    """The terms; absent for machines of a cluster file."""
    date: str | None = None
    """When it was seen; absent for machines of a cluster file."""
    source: str
    """Where it was read; for machines of a cluster file its path."""
    kinds: Sequence[PriceOfKind] = ()
    """The prices of kinds of machines that are used together; empty where all machines are alike."""
    zones: Sequence[str] = ()
    """Availability Zones in which the instance is offered, if the table of prices says it."""
    interruptions: str | None = None
    """The share of spot capacity that is reclaimed in a month (`5-10%`), if the table of prices says it."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What is expected of a plan."""

    step_time_s: float
    """Seconds of one optimizer step."""
    interval_s: list[float]
    """The interval that should hold 90 % of measurements."""
    samples_per_s: float
    """Samples per second, all replicas together."""
    tokens_per_s: float | None = None
    """Tokens per second, for models that read tokens."""
    mfu: float | None = None
    """Model FLOPs over peak FLOPs; absent where no peak is known."""
    input: InputPrediction | None = None
    """What becomes of the samples on their way to the step; absent if they are taken to be there."""
    bubble: float
    """Idle time of the pipeline over its ideal time."""
    exposed_communication_s: float
    """What communication adds to the step, but for collectives inside layers, which belong to the time of their
    kernels; of a plan that offloads, with copies to and from main memory or disks, and the updates there.
    """
    phases: Phases
    """Where the step goes, on the busiest stage."""
    utilisation: list[float]
    """Per stage, how much of the step its device computes."""
    memory_bytes: Memory
    """Memory of one rank of each stage."""
    steps: int
    """Optimizer steps of the whole training."""
    time_s: float
    """Seconds of all steps. What else a document calls `time_s`, of alternatives and choices, is in all, as
    `in_all_s`.
    """
    in_all_s: float | None = None
    """Seconds from the request for machines to the last checkpoint: steps, start-up, checkpoints, evaluations,
    expected interruptions and failures. A deadline is compared with it. Absent in older documents.
    """
    start_up_s: float | None = None
    """Seconds from the request for machines to the first step: finding and booting them, image, framework, and what is
    downloaded (medians), and waits in the scheduler's queue; of all jobs, where there are several. Absent where
    nothing is known of them.
    """
    queued_s: float | None = None
    """Seconds of the start-up in the scheduler's queue (`campaign.queue_wait`), of all jobs. Absent where there are
    none.
    """
    weights_s: float | None = None
    """Seconds of reading trained weights before the first step, which are part of its start-up. Absent where training
    begins with random ones.
    """
    checkpoints_s: float | None = None
    """Seconds of writing checkpoints, if nothing interrupts the training. Absent where nothing is known of them."""
    evaluations_s: float | None = None
    """Seconds of all evaluations, if the job asks for some."""
    reference_s: float | None = None
    """Seconds in which a reference model scores the samples before the first step, where it does not in every step."""
    checkpoint_interval_s: float | None = None
    """Seconds of training from one checkpoint to the next: that of the job, else the one at which writing checkpoints
    and repeating lost steps take least together. Absent where nothing interrupts the training, as far as is known.
    """
    jobs: JobsOfScheduler | None = None
    """The jobs of a scheduler in which the training runs. Absent where the job names no limit of one
    (`campaign.job_limit`).
    """
    interruptions: ExpectedInterruptions | None = None
    """What reclaims of spot instances add, expected values. Absent on other terms, and where nobody published how
    often they come.
    """
    failures: ExpectedInterruptions | None = None
    """What failures of machines add, expected values at the job's `campaign.node_mtbf` or the default. Absent where
    nothing is known of what surrounds the steps, and in older documents.
    """
    cost_usd: float | None = None
    """Price of the whole training: instances, start-up, checkpoints, evaluations, interruptions, failures and storage.
    Absent for machines without a price.
    """
    cost_parts: CostParts | None = None
    """What the price is made of."""
    cost_interval_usd: Sequence[float] | None = ()
    """The interval of the price that follows from that of the step time and from the range of the price."""
    price: PriceUsed | None = None
    """The price that was used, with its date."""
    within_deadline: float | None = None
    """The probability, 0 to 1, that the time in all is within the job's deadline, if steps are as long as `interval_s`
    says of them. Absent without a deadline, and in older documents.
    """
    within_budget: float | None = None
    """The same of the cost and the job's budget, with a spot price anywhere between the lowest and the highest seen.
    Absent without a budget or a price, and in older documents.
    """


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A search on which a reason rests: `trainyard plan` with these fields held, without deadline and budget, finds
    it.
    """

    reason: int
    """Which of the reasons, counted from 0."""
    fix: list[str]
    """What is held, as `--fix` takes it."""
    time_s: float | None = None
    """Seconds in all (`prediction.in_all_s`) by the plan that is then recommended, if there is one."""
    cost_usd: float | None = None
    """Its price."""
    needed_bytes: int | None = None
    """What the least plan needs on a device, in bytes, where none fits."""


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Another plan that was considered."""

    plan: PlanSpec
    """The plan."""
    step_time_s: float
    """Seconds of one optimizer step."""
    time_s: float
    """Seconds in all (`prediction.in_all_s` of the plan): from the request for machines to the last checkpoint."""
    cost_usd: float | None = None
    """Price of the whole training."""
    price: PriceUsed | None = None
    """The price that was used, with its date."""
    memory_peak_bytes: int
    """What the fullest rank needs, in bytes."""


@dataclass(frozen=True, kw_only=True)
class StackChoice:
    """What a training framework would give."""

    stack: str
    """Name in the catalog of stacks."""
    best: Alternative | None = None
    """Its best plan, with what is expected of it."""
    reason: str | None = None
    """Why it has none."""
    recommended: bool
    """Whether the recommended plan is for it."""


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """Plans that were not possible, for one reason."""

    what: str
    """What was tried."""
    why: str
    """Why not."""
    count: int
    """How many plans."""
    limit: RejectedBy | None = None
    """The limit that they do not keep."""
    times: float | None = None
    """How many times the limit they take at least, where that is known."""


@dataclass(frozen=True, kw_only=True)
class PlanSummary:
    """A plan in a few words."""

    instance: str
    """The instance type, or the name of the machines."""
    instances: int
    """How many of them."""
    parallel: ParallelSpec
    """Degrees of parallelism."""
    batch: BatchSpec
    """Batch sizes in samples."""
    schedule: ScheduleName
    """The order of micro-batches."""
    precision: Precision
    """Number formats."""
    recompute: Recompute
    """What is computed again in backward."""
    state_sharding: StateSharding
    """What replicas share out."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """The nearest value of something at which another plan wins, of the plans that the document ranks."""

    what: ChangedQuantity
    """What would have to be other."""
    instance: str | None = None
    """Of which instance type, where it is one of an instance type."""
    present: float
    """What it is, in the unit of `what`."""
    at: float
    """What it would have to be."""
    winner: PlanSummary
    """The plan that would then win."""


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """Something that makes room in the memory of a device, and how much. The first of a list is the plain plan: data
    parallelism, a replica's batch at once, the widest number format asked for, nothing computed again, shared out
    or kept elsewhere.
    """

    remedy: str
    """What it is."""
    changes_training: bool = False
    """Whether it trains another model, or the same one otherwise: whoever trains decides that, and no plan does it by
    itself.
    """
    memory_bytes: int
    """What the fullest device needs with this alone, in bytes."""
    together_bytes: int | None = None
    """What it needs with this and everything before it that leaves the training as it is; absent where this does not.
    """
    available_bytes: int
    """What a device has, in bytes."""
    fits: bool
    """Whether it fits with this and, where `together_bytes` is there, everything before."""
    taken: str | None = None
    """What the recommended plan does of it."""


@dataclass(frozen=True, kw_only=True)
class PrecisionChoice:
    """The best plan with a number format on the recommended machines, at the recommended global batch."""

    precision: Precision
    """The number format."""
    stack: str | None = None
    """The software; absent where plans do not name it."""
    parallel: ParallelSpec
    """Degrees of parallelism."""
    state_sharding: StateSharding = 'none'
    """What replicas share out."""
    batch: BatchSpec
    """Batch sizes in samples."""
    recompute: Recompute
    """What is computed again in backward."""
    step_time_s: float
    """Seconds of one optimizer step."""
    time_s: float
    """Seconds in all (`prediction.in_all_s` of the plan): from the request for machines to the last checkpoint."""
    cost_usd: float | None = None
    """Price of the whole training."""
    memory_peak_bytes: int
    """What the fullest rank needs, in bytes."""
    recommended: bool
    """Whether it is that of the recommended plan."""


@dataclass(frozen=True, kw_only=True)
class SmallestMachine:
    """The machines with the lowest price an hour on which something fits, among powers of two of each type."""

    instance: str
    """The type."""
    instances: int
    """How many."""
    hourly_usd: float
    """The price of all of them, by the hour."""
    memory_peak_bytes: int
    """What the fullest rank needs there, in bytes."""


@dataclass(frozen=True, kw_only=True)
class MethodChoice:
    """What a method of fine-tuning would need and cost."""

    method: Method
    """Which weights are trained."""
    trained_parameters: int
    """Values that are trained."""
    parameters: int
    """Values of the model, adapters among them."""
    best: Alternative | None = None
    """Its best plan; that of a method which is not the job's is sought without deadline and budget, by a short search
    where the whole one would be long.
    """
    smallest: SmallestMachine | None = None
    """The machines with the lowest price an hour on which it fits; absent for machines that are not rented."""
    reason: str | None = None
    """Why it has no plan."""
    chosen: bool
    """Whether it is the job's, so that its plan is the recommended one."""


@dataclass(frozen=True, kw_only=True)
class BatchChoice:
    """A global batch, or, where the job allows one only, a micro-batch, on the recommended machines with the
    recommended degrees and number format.
    """

    batch: BatchSpec
    """Batch sizes in samples."""
    steps: int
    """Optimizer steps of the whole training."""
    samples: float
    """Samples of the whole training: what convergence needs at this global batch, where the job has a target."""
    step_time_s: float | None = None
    """Seconds of one optimizer step; absent where the plan does not fit."""
    samples_per_s: float | None = None
    """Samples per second."""
    mfu: float | None = None
    """Model FLOPs over peak FLOPs, where a peak is known."""
    time_s: float | None = None
    """Seconds in all (`prediction.in_all_s` of the plan): from the request for machines to the last checkpoint."""
    cost_usd: float | None = None
    """Price of the whole training."""
    memory_peak_bytes: int
    """What the fullest rank needs, in bytes."""
    recommended: bool
    """Whether it is that of the recommended plan."""


@dataclass(frozen=True, kw_only=True)
class LeftOutPlan:
    """A plan on instance types that were not searched: another may be better still."""

    instance: str
    """The type."""
    instances: int
    """How many."""
    time_s: float
    """Seconds from the request for machines to the last checkpoint."""
    cost_usd: float
    """Price of the training."""
    within_deadline: float | None = None
    """The probability that it ends in time; absent without a deadline, and in older documents."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Instance types that were not searched."""

    families: list[str]
    """Their families, `g6`."""
    best: LeftOutPlan | None = None
    """The plan that is recommended on one type of them, the best that a short search found; absent where the search
    would have been long, or found none.
    """


@dataclass(frozen=True, kw_only=True)
class Search:
    """How a search went."""

    candidates: int
    """Plans in the space."""
    simulated: int
    """Plans that were simulated; the others were proved worse or did not fit."""
    gap: float
    """How much better than the recommended plan another could still be, as a fraction. Zero: it is proved best."""
    left_out: LeftOut | None = None
    """What was not searched because the job says nothing of it."""


class Plan(PlanViews):
    """A plan with what is predicted of it and why it was chosen."""

    SCHEMA = "trainyard.plan/1"

    schema: str
    """`trainyard.plan/1`."""
    job: Job
    """What was asked for."""
    plan: PlanSpec
    """What is recommended."""
    prediction: Prediction
    """What is expected of it."""
    reasons: Sequence[str]
    """Why this plan."""
    evidence: Sequence[Evidence]
    """The searches on which reasons rest: each reason that compares can be reproduced."""
    missed: str | None
    """Why the plan is not within deadline or budget, and by how much it is beyond; absent if it is, and in older
    documents.
    """
    to_meet_goal: str | None
    """What would meet a deadline or a budget that is missed."""
    warnings: Sequence[str]
    """What to be careful about."""
    alternatives: Sequence[Alternative]
    """The runners-up, best first."""
    optimum: Alternative | None
    """The plan with the least of what is sought, where another is recommended that cannot be told from it within what
    is known and that is simpler, or much faster or cheaper.
    """
    stacks: Sequence[StackChoice]
    """What each of the stacks that were compared would give."""
    pareto: Sequence[Alternative]
    """Plans that no other on the same terms beats in both time and cost: those on the job's terms, then those on other
    terms on which the same machines can be rented, the fastest of each first.
    """
    rejected: Sequence[Rejected]
    """What was not possible, and how often."""
    changes: Sequence[Change]
    """What would change the decision: the nearest price, network and global batch at which another plan wins."""
    remedies: Sequence[Remedy]
    """Where the plain plan does not fit: what makes room, in the order in which it is worth trying."""
    precisions: Sequence[PrecisionChoice]
    """How the number formats that were allowed compare."""
    methods: Sequence[MethodChoice]
    """What other methods of fine-tuning would need and cost, if the job names one."""
    batches: Sequence[BatchChoice]
    """How batches compare: global batches if the job allows several, else micro-batches."""
    search: Search
    """How the search went."""


@dataclass(frozen=True, kw_only=True)
class VariedKey:
    """A key that is varied."""

    key: str
    """Its name, `cluster.network`."""
    unit: str | None = None
    """Unit of the amounts: `B/s`, `1`, or `×` for factors on the present value; absent for words."""
    values: list[str]
    """Its values as written, ranges written out."""
    amounts: Sequence[float] = ()
    """The values in that unit; empty for words, and where factors and values are mixed."""
    present: str | None = None
    """What the machines of the unvaried plan have of it, `8 × 400 Gbit/s = 3,200 Gbit/s a machine`; absent for what is
    no figure of machines.
    """


@dataclass(frozen=True, kw_only=True)
class WhatIfFigures:
    """A plan and what is expected of it."""

    plan: PlanSpec
    """The plan."""
    devices: int
    """Devices that it uses."""
    step_time_s: float
    """Seconds of one optimizer step."""
    interval_s: list[float]
    """The interval that should hold 90 % of measurements."""
    samples_per_s: float
    """Samples per second, all replicas together."""
    samples_per_s_per_device: float
    """Samples per second of one device."""
    mfu: float | None = None
    """Model FLOPs over peak FLOPs; absent where no peak is known."""
    exposed_communication_s: float
    """What communication adds to the step."""
    bottleneck: Bottleneck
    """What limits the training."""
    memory_peak_bytes: int
    """What the fullest rank needs, in bytes."""
    steps: int
    """Optimizer steps of the whole training."""
    time_s: float
    """Seconds of all steps."""
    in_all_s: float
    """Seconds from the request for machines to the last checkpoint, with evaluation and expected reclaims: the time in
    all, with which a deadline is compared.
    """
    cost_usd: float | None = None
    """Price of the whole training; absent for machines without a price."""
    cost_interval_usd: Sequence[float] | None = ()
    """The interval of the price that follows from that of the step time and from the range of the price."""
    price: PriceUsed | None = None
    """What the machines cost by the hour, on which terms, where and when; absent for machines without a price."""
    within_deadline: float | None = None
    """The probability, 0 to 1, that the time in all is within the deadline of the case; absent without one."""
    within_budget: float | None = None
    """The probability that the cost is within its budget; absent without one."""


@dataclass(frozen=True, kw_only=True)
class WhatIfCase:
    """One combination of values."""

    values: list[str]
    """The value of each key."""
    figures: WhatIfFigures | None = None
    """What is expected; absent if there is no plan."""
    reason: str | None = None
    """Why there is no plan."""
    missed_goal: str | None = None
    """Why the plan is not within deadline or budget, if it is not."""
    within_margin: str | None = None
    """Why `plan` refuses the plan, although it fits, if it does: the memory that it leaves free is less than the
    margin.
    """
    choice: str | None = None
    """Why it compares otherwise with the unvaried plan than the plans with the lowest objective of both do, if it
    does: of plans that predictions cannot tell apart the simplest is recommended. Or that predictions cannot tell
    the plan from the unvaried one.
    """
    warnings: Sequence[str] = ()
    """What `plan` warns of in this case: a reservation and what it commits to, reclaims, a quota that is too small,
    types that are left out, and what else it takes to be as good as it looks.
    """
    time_change: float | None = None
    """Time in all over that without variation, minus one."""
    cost_change: float | None = None
    """Cost over that without variation, minus one."""
    scaling_efficiency: float | None = None
    """Throughput of a device over that in the case with the fewest devices and otherwise the same values; absent where
    the number of devices is not varied, and on machines of another type than in that case.
    """


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What an assumption does to a plan when it is varied by its own uncertainty."""

    key: str
    """The key that is varied."""
    what: str
    """What it is, in a few words."""
    factors: list[float]
    """The factors on its present value."""
    basis: str
    """Why these factors."""
    time_s: list[float]
    """Seconds in all (`in_all_s` of a case) at each factor."""
    cost_usd: Sequence[float] | None = ()
    """Price of the whole training at each factor; absent for machines without a price."""
    time_change: list[float]
    """Times over that of the plan, minus one."""
    cost_change: Sequence[float] | None = ()
    """Costs over that of the plan, minus one."""


class WhatIf(SweepViews):
    """A job or a plan with something varied."""

    SCHEMA = "trainyard.what-if/1"

    schema: str
    """`trainyard.what-if/1`."""
    job: Job
    """What was asked for, before anything is varied."""
    held: bool
    """Whether one plan was held and simulated; otherwise the best one was sought each time."""
    objective: Objective
    """What is sought."""
    axes: list[VariedKey]
    """What is varied: one key or two."""
    base: WhatIfFigures | None
    """What is expected without any variation; absent if there is no plan."""
    base_reason: str | None
    """Why there is no plan without any variation."""
    software: str | None
    """The training framework of the unvaried plan that all cases keep that have a plan with it; absent where it is
    varied, where the job leaves no choice, and where a plan is held.
    """
    cases: list[WhatIfCase]
    """One for each combination of values, the last key varying fastest."""
    sensitivities: Sequence[Sensitivity]
    """What each assumption does to the plan, the one with the greatest effect first; empty unless asked for."""


@dataclass(frozen=True, kw_only=True)
class PathPart:
    """A part of the critical path."""

    kind: PathKind
    """What it is spent on."""
    between_machines: bool = False
    """Whether it is communication in which several machines take part."""
    time_s: float
    """Seconds of one optimizer step."""


@dataclass(frozen=True, kw_only=True)
class CostPart:
    """A part of a price."""

    what: str
    """What is paid for."""
    usd: float
    """USD of the whole training."""


@dataclass(frozen=True, kw_only=True)
class ExplainedPlan:
    """A plan with where its step goes."""

    file: str
    """The file that holds its document."""
    plan: PlanSpec
    """The plan."""
    description: list[str]
    """Who holds what and who talks to whom, in sentences."""
    prediction: Prediction
    """What is expected of it, simulated anew."""
    critical_path: list[PathPart]
    """The critical path of a step by what it is spent on: together the step time."""
    fullest_stage: int
    """The stage whose ranks fill most of their device's memory, counted from 0."""
    cost_parts: Sequence[CostPart] = ()
    """What the price of the training consists of; empty for machines without a price."""
    reasons: Sequence[str] = ()
    """Why it was chosen, as its document says."""
    warnings: Sequence[str] = ()
    """What to be careful about, as its document says, and what was found anew."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A field that two plans do not share."""

    field: str
    """Its path under `plan`, as in `--fix`."""
    plan: str | None = None
    """Its value in the plan; absent where it has none."""
    against: str | None = None
    """Its value in the other."""


class Explanation(Document):
    """One plan explained, or two side by side."""

    SCHEMA = "trainyard.explanation/1"

    schema: str
    """`trainyard.explanation/1`."""
    plan: ExplainedPlan
    """The plan."""
    against: ExplainedPlan | None
    """The one that it is compared with."""
    differences: Sequence[Difference]
    """Every field in which the two differ; empty for one plan."""
    verdict: Sequence[str]
    """Which is faster and which cheaper, and why, in sentences; empty for one plan."""
    notes: Sequence[str]
    """What to know before numbers are compared."""


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """A quantity over many runs."""

    p5: float
    """Twentieth part of the runs have less."""
    p50: float
    """Half of them."""
    p95: float
    """All but a twentieth part."""
    mean: float
    """Mean."""


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """How a quantity is spread over many runs: its range in equal parts, and how many runs lie in each."""

    from_: float
    """The least value."""
    to: float
    """The value that all but a hundredth part of the runs stay below or at."""
    courses: list[int]
    """Courses in each part of the range."""
    beyond: int
    """Courses beyond it."""


@dataclass(frozen=True, kw_only=True)
class CampaignPhases:
    """Mean seconds of a course; together, its time."""

    waiting_s: float
    """Until machines are there."""
    start_up_s: float
    """Downloading images and starting software."""
    download_s: float
    """Copying the data set."""
    training_s: float
    """Steps, each counted once."""
    checkpoints_s: float
    """Writing and reading checkpoints."""
    evaluation_s: float
    """Testing the model."""
    lost_s: float
    """Steps that had to be done again."""


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """Mean number of interruptions of a course."""

    reclaims: float
    """Spot instances that were reclaimed."""
    failures: float
    """Machines that failed."""


@dataclass(frozen=True, kw_only=True)
class CheckpointUse:
    """How progress is saved."""

    bytes: int
    """Weights and optimizer state."""
    write_s: float
    """Seconds of writing them."""
    interval_s: float
    """Training time from one to the next."""
    best_interval_s: float
    """The one with which the mean time is least."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A campaign whose spot instances are reclaimed more or less often."""

    factor: int
    """Reclaims as a multiple of what is published."""
    time_s: Quantiles
    """Seconds from the start to the last checkpoint."""
    cost_usd: Quantiles | None = None
    """Price."""
    goodput: Quantiles
    """Training that counts over time in which machines are held."""
    interruptions: Interruptions
    """Interruptions of a course."""
    checkpoint_interval_s: float
    """Training time from one checkpoint to the next."""


class Campaign(Document):
    """What may become of a training, over many simulated runs."""

    SCHEMA = "trainyard.campaign/1"

    schema: str
    """`trainyard.campaign/1`."""
    plan: PlanSpec
    """What is trained, and how."""
    runs: int
    """Courses that were drawn."""
    seed: int
    """What they were drawn with."""
    steps: int
    """Mean optimizer steps."""
    step_time_s: float
    """Seconds of one, as simulated."""
    time_s: Quantiles
    """Seconds from the start to the last checkpoint."""
    cost_usd: Quantiles | None
    """Price of instances and of what is stored; absent for machines without a price."""
    time_histogram_s: Histogram | None
    """How many runs take how many seconds."""
    cost_histogram_usd: Histogram | None
    """How many runs cost how many USD."""
    goodput: Quantiles
    """Training that counts over time in which machines are held."""
    within_deadline: float | None
    """Share of the runs that end within the job's deadline; absent without one."""
    within_budget: float | None
    """Share of the runs that cost no more than the job's budget; absent without one."""
    phases: CampaignPhases
    """Where the time goes: means over the runs."""
    interruptions: Interruptions
    """Interruptions of a course."""
    checkpoint: CheckpointUse
    """How progress is saved."""
    scenarios: Sequence[Scenario]
    """The same for other frequencies of reclaims; only for spot instances."""
    price: PriceUsed | None
    """The price that was used, with its date."""
    assumptions: list[str]
    """What was assumed, with its source."""
    warnings: list[str]
    """What to be careful about."""


@dataclass(frozen=True, kw_only=True)
class LaunchFile:
    """A file by its name and its text."""

    name: str
    """Its name, without a folder."""
    text: str
    """All of it."""


@dataclass(frozen=True, kw_only=True)
class Blank:
    """Something that a plan does not know."""

    placeholder: str
    """What stands for it in the files."""
    what: str
    """What it is."""
    flag: str | None = None
    """The flag of `trainyard export` that sets it; none for what is written into the files by hand."""


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """Something that a job leaves open and launch files need."""

    written: str
    """What stands in the files, `weight_decay 0.1`."""
    what: str
    """What it is."""
    field: str
    """The field that sets it."""


class Launch(Document):
    """Files with which another engine or a service runs a plan."""

    SCHEMA = "trainyard.launch/1"

    schema: str
    """`trainyard.launch/1`."""
    target: str
    """What the files are for, `sagemaker`."""
    files: list[LaunchFile]
    """The files, the one that starts the training first."""
    blanks: Sequence[Blank]
    """What has to be filled in, because a plan does not know it: the word that stands for it in the files, what it is,
    and the flag that sets it, if there is one.
    """
    assumed: Sequence[Assumption]
    """What the job leaves open and the files say nonetheless: what stands there, what it is, and the field of the job
    that sets it.
    """
    notes: Sequence[str]
    """What the plan says and the files do not."""


@dataclass(frozen=True, kw_only=True)
class RowResult:
    """One row of the table."""

    id: str
    """The row's name."""
    suite: str
    """Where it belongs."""
    status: Status
    """Whether it was predicted."""
    reason: str | None = None
    """Why not."""
    predicted_step_time_s: float | None = None
    """Seconds of a step, or of the operation in a table of collectives."""
    interval_s: Sequence[float] | None = ()
    """The interval that should hold 90 % of measurements."""
    measured_step_time_s: float | None = None
    """What was measured; absent if the cell could not be read."""
    error: float | None = None
    """Predicted over measured, minus one."""
    message_bytes: int | None = None
    """Bytes of the message, in a table of collectives where it is stated."""
    devices: int | None = None
    """Devices that take part, in a table of collectives where it is stated."""


@dataclass(frozen=True, kw_only=True)
class SuiteResult:
    """The rows of a suite, summed up. Fractions, not percent; absent if nothing was predicted."""

    suite: str
    """Its name, or `*` for all rows."""
    rows: int
    """Rows of the table."""
    predicted: int
    """Rows with a prediction."""
    mape: float | None = None
    """Mean absolute error."""
    median: float | None = None
    """Median absolute error."""
    bias: float | None = None
    """Mean error with its sign; positive is predicted too slow."""
    coverage90: float | None = None
    """Share of the intervals that hold what was measured."""
    regret: float | None = None
    """Measured time of the plan predicted fastest over that of the fastest, minus one: the mean over groups of three
    or more plans for the same work on the same machines.
    """
    regret_max: float | None = None
    """The largest of these."""


class Validation(RowsViews):
    """Predictions beside measurements."""

    SCHEMA = "trainyard.validation/1"

    schema: str
    """`trainyard.validation/1`."""
    rows: list[RowResult]
    """Every row of the table, in its order."""
    suites: list[SuiteResult]
    """Every suite of the table by name, then `*` for all rows."""


@dataclass(frozen=True, kw_only=True)
class ConstantChange:
    """A constant that changed."""

    name: str
    """Its entries and its name, `stacks.pytorch.launch`."""
    before: float
    """Before, in seconds for a time."""
    after: float
    """After."""
    deviation: float
    """Relative standard error of the value after."""
    rows: int
    """Rows that respond to it."""


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Mean absolute errors as fractions."""

    before: float
    """With the constants from which the fit started."""
    after: float
    """With those that it found."""
    left_out: float
    """Of groups that were left out, from the present constants and what the other groups say: what decides."""
    unseen: float
    """The same, from the mean of all other stacks instead of the stack's present constants, which had seen the groups.
    """


@dataclass(frozen=True, kw_only=True)
class StackErrors:
    """How well a stack is predicted."""

    stack: str
    """Its name, or `*` for all rows."""
    called: Sequence[str] = ()
    """What rows call it, where that is not its name."""
    rows: int
    """Rows."""
    replaced: bool
    """Whether its constants were replaced."""
    errors: Errors
    """Its errors."""


@dataclass(frozen=True, kw_only=True)
class SuiteErrors:
    """How well the rows of a suite are predicted."""

    suite: str
    """Its name."""
    rows: int
    """Rows."""
    errors: Errors
    """Its errors."""


@dataclass(frozen=True, kw_only=True)
class TermWidth:
    """A reason why predictions are off, and by how much."""

    term: str
    """What may be off."""
    rows: int
    """Rows on which it counts."""
    present: float
    """Half-width that is in use, as a fraction."""
    fitted: float
    """Half-width that residuals of left-out groups ask for."""
    coverage90: float
    """Share of those rows that the present interval holds."""


class Refit(Document):
    """Constants before and after, and how well they predict."""

    SCHEMA = "trainyard.refit/1"

    schema: str
    """`trainyard.refit/1`."""
    rows: int
    """Rows that were fitted."""
    unsupported: list[str]
    """Rows that the simulator cannot express, with the reason of each."""
    constants: list[ConstantChange]
    """Constants that changed."""
    stacks: list[StackErrors]
    """Every stack of the table by name, then `*` for all rows."""
    suites: list[SuiteErrors]
    """Every suite of the table by name."""
    widths: list[TermWidth]
    """What intervals are made of: half-widths that would hold nine in ten of the rows that were left out."""
    coverage90: float | None
    """Share of rows whose present 90 % interval, around what is predicted without their group, holds what was
    measured.
    """


class Replay(Document):
    """Execution traces on machines."""

    SCHEMA = "trainyard.replay/1"

    schema: str
    """[`REPLAY_SCHEMA`]."""
    traces: str
    """The folder of the traces."""
    instance: str
    """The machine type."""
    instances: int
    """How many of them."""
    ranks: int
    """Ranks, which fill one machine after another."""
    nodes: int
    """Nodes of all ranks."""
    estimated: int
    """Nodes that compute or copy without a measured time: as fast as the device lets them be."""
    messages: int
    """Collectives and messages between ranks, each counted once."""
    step_time_s: float
    """From the first start to the last end."""
    compute_s: float
    """Kernels of the rank that computes longest."""
    exposed_communication_s: float
    """What communication adds to the step."""
    not_modelled: list[str]
    """What was left out."""


@dataclass(frozen=True, kw_only=True)
class MakespanBound:
    """What no schedule of these jobs on this quota can beat; the largest counts."""

    longest_s: float
    """The job that would end last if none waited."""
    work_s: float
    """All work, spread over the quota evenly."""
    exclusive_s: float
    """Jobs that need more than half of the quota, one after another."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """How long jobs wait."""

    mean: float
    """On average."""
    p95: float
    """95 % of them at most."""
    max: float
    """All of them at most."""


@dataclass(frozen=True, kw_only=True)
class InstanceSeconds:
    """What instances did, in instances times seconds."""

    busy: float
    """They trained."""
    startup: float
    """They started."""
    idle: float
    """They were kept warm without a job."""
    held: float
    """All of it."""
    paid: float = 0.0
    """The part of it that is paid for, in whole seconds: waiting for new instances is not. Absent in older documents.
    """


@dataclass(frozen=True, kw_only=True)
class QueueCost:
    """What a queue costs. Every job and every wait of a warm pool is billed in whole seconds, begun ones in full."""

    jobs_usd: float
    """Jobs, from when their instances are there: waiting for new ones is not paid for."""
    warm_usd: float
    """Instances kept warm without a job."""
    total_usd: float
    """Both."""


@dataclass(frozen=True, kw_only=True)
class QueuePrediction:
    """What is predicted of a queue."""

    makespan_s: float
    """From the first submission to the end of the last job."""
    bound: MakespanBound
    """What no schedule of these jobs can beat."""
    gap: float
    """How much longer than the largest bound it takes, as a fraction of the bound."""
    waiting_s: Waiting
    """From submission until a job gets its instances."""
    cold_starts: int
    """Jobs that started on new instances."""
    warm_starts: int
    """Jobs that started on instances that had been kept, or on machines of one's own."""
    instance_seconds: InstanceSeconds
    """Instances times seconds."""
    utilisation_of_held: float
    """Training over everything that is held."""
    utilisation_of_quota: float
    """Training over the whole quota for the whole makespan."""
    cost: QueueCost | None = None
    """What it costs, by the second; absent for machines without a price."""
    price: PriceUsed | None = None
    """The price that was used, with its date."""


@dataclass(frozen=True, kw_only=True)
class JobRun:
    """What became of a job."""

    name: str
    """Its name in the file."""
    number: int
    """Which of those of this name, from 1."""
    submit_s: float
    """When it entered the queue."""
    start_s: float
    """When it got its instances."""
    ready_s: float
    """When it began to train."""
    end_s: float
    """When it ended."""
    warm: bool
    """Whether its instances had been kept; those of one's own are."""
    instances: list[int]
    """Which places of the quota it held, from 0."""
    cost_usd: float | None = None
    """What it costs, what is paid of its start-up included; absent for machines without a price."""


@dataclass(frozen=True, kw_only=True)
class WarmWait:
    """A stretch in which instances were kept warm without a job."""

    start_s: float
    """From here."""
    end_s: float
    """To here."""
    end: WarmEnd
    """Why it ended."""
    instances: list[int]
    """Which places of the quota, from 0."""


@dataclass(frozen=True, kw_only=True)
class PoolState:
    """What the pool does at an instant."""

    time_s: float
    """The instant."""
    waiting: int
    """Jobs that wait."""
    starting: int
    """Instances that start."""
    busy: int
    """Instances that train."""
    idle: int
    """Instances kept warm without a job."""


class QueueSchedule(Document):
    """A queue with what is predicted of it."""

    SCHEMA = "trainyard.queue/1"

    schema: str
    """`trainyard.queue/1`."""
    queue: Queue
    """What was asked for."""
    seed: int
    """What the durations were drawn with."""
    prediction: QueuePrediction
    """What is predicted."""
    jobs: list[JobRun]
    """Each job, in the order of the file."""
    warm: list[WarmWait]
    """Instances that were kept warm without a job, in the order in which that began."""
    timeline: list[PoolState]
    """What the pool did, from each of these instants to the next."""
    warnings: Sequence[str]
    """What to be careful about."""


@dataclass(frozen=True, kw_only=True)
class FleetOutcome:
    """What all jobs of a fleet take and cost."""

    makespan_s: float
    """From the first submission to the end of the last job."""
    cost_usd: float
    """What they cost; 0 for machines without a price."""
    misses_goal: bool = False
    """Whether they miss a deadline or a budget, of all jobs or of each."""


@dataclass(frozen=True, kw_only=True)
class FleetPrediction:
    """What is predicted of a fleet."""

    makespan_s: float
    """From the first submission to the end of the last job."""
    makespan_interval_s: Sequence[float] = ()
    """5 % of such fleets end before the first of these, and 5 % after the second, if the predictions of all jobs are
    off alike; zeros in older documents.
    """
    within_goal: float | None = None
    """How likely it is that all deadlines and budgets are kept, of all jobs together and of each, if the predictions
    of all jobs are off alike; absent where there are none, and in older documents.
    """
    bound_s: float
    """What no schedule of these plans can beat."""
    gap: float
    """How much longer than this bound it takes, as a fraction of the bound."""
    waiting_s: Waiting
    """From submission until a job gets its instances."""
    cold_starts: int
    """Jobs that started on new instances."""
    warm_starts: int
    """Jobs that started on instances that had been kept."""
    instance_seconds: InstanceSeconds
    """Instances times seconds."""
    utilisation_of_held: float
    """Training over everything that is held."""
    cost: QueueCost | None = None
    """What it costs, by the second; absent for machines without a price."""
    cost_interval_usd: Sequence[float] | None = ()
    """The same interval of the cost, at the lowest price that was seen and at the highest; absent for machines without
    a price, and in older documents.
    """
    without_warm_pool: FleetOutcome | None = None
    """The same jobs in a pool that keeps no instance warm, planned for it; absent without warm pools."""


@dataclass(frozen=True, kw_only=True)
class FleetPlan:
    """How each job of a kind runs."""

    name: str
    """What the kind is called."""
    count: int
    """How many jobs of the kind there are."""
    plan: PlanSpec
    """The plan."""
    step_time_s: float
    """Seconds of one optimizer step."""
    steps: int
    """Optimizer steps of each job."""
    time_s: float
    """What each job trains, a download of its data, evaluation and checkpoints included; start-up comes on top."""
    cost_usd: float | None = None
    """What the dearest job of the kind costs, what is paid of its start-up included; instances kept warm after it are
    in the whole. Absent for machines without a price.
    """
    start_s: float
    """When the first job of the kind gets its instances."""
    end_s: float
    """When the last job of the kind ends."""
    longest_stay_s: float
    """The longest from the submission of a job of the kind to its end."""
    deadline_s: float | None = None
    """What each job of the kind may take from its submission to its end, if it says so."""
    budget_usd: float | None = None
    """What each job of the kind may cost, if it says so."""
    options: int
    """Plans that it could have had, on types and numbers of instances."""


@dataclass(frozen=True, kw_only=True)
class FleetSearch:
    """How the search for a fleet's plans went."""

    candidates: int
    """Plans in the spaces of all kinds."""
    simulated: int
    """Plans that were simulated."""
    choices: float
    """Choices of a plan for each kind."""
    schedules: int
    """Schedules that were simulated."""
    complete: bool
    """Whether every choice was scheduled or proved no better."""
    impossible: bool
    """Whether it is proved that no choice of these plans and no schedule meets the goal."""
    bound: float
    """No choice of these plans and no schedule within the goal has a smaller cost, or makespan if that is sought; USD
    or seconds.
    """
    gap: float
    """How much more than that is reached, as a fraction of it."""


class FleetSchedule(Document):
    """A fleet with a plan for each kind of jobs and a schedule for all of them."""

    SCHEMA = "trainyard.fleet/1"

    schema: str
    """`trainyard.fleet/1`."""
    fleet: Fleet
    """What was asked for."""
    prediction: FleetPrediction
    """What is predicted."""
    missed: str | None
    """Which deadlines and budgets are missed, and by how much; absent if all are met, and in older documents."""
    to_meet_goal: Sequence[str]
    """What would let the fleet keep to them: jobs of a kind on two types, more instances, other terms, or one of the
    two alone; empty if nothing that was tried does, where all are met, and in older documents.
    """
    plans: list[FleetPlan]
    """The plan of each kind of jobs, in the order of the file."""
    pools: list[QueueSchedule]
    """The schedule: a queue for each type of instances that is used, with every job's start, end and instances."""
    reasons: Sequence[str]
    """Why these plans."""
    warnings: Sequence[str]
    """What to be careful about."""
    search: FleetSearch
    """How the search went."""
