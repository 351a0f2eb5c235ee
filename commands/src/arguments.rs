//! What can be typed. Meaning is given elsewhere: here are only names, defaults and help.

use crate::examples;
use crate::history_arguments::HistoryCommand;
use crate::plot::{PlotArguments, PlotTheme};
use crate::values::{address, count, fraction, money, number, one_of, sequence_length, size, whole, word};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::net::IpAddr;
use std::path::PathBuf;
use trainyard_hardware_profiles::{DeviceKind, Service, Transport};
use trainyard_plan::{Method, Objective, Optimizer, Pricing, Reference, StorageMode};
use trainyard_reports::Target;

/// What a list of jobs adds to the commands of its jobs, see [`RunArguments::until_input_ends`].
pub(crate) const UNTIL_INPUT_ENDS: &str = "--until-input-ends";

/// Simulates, plans and runs distributed training of neural networks.
#[derive(Debug, Parser)]
#[command(name = "trainyard", version, after_long_help = examples::PROGRAM, max_term_width = 100, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How results and messages appear.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Global {
    /// Results as tables for people, or as one JSON document for programs
    #[arg(long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) format: Format,
    /// Where results are kept, or `off` [default: $TRAINYARD_HISTORY, or runs/history.db]
    #[arg(long, global = true, value_name = "PATH|off")]
    pub(crate) history: Option<PathBuf>,
    /// Colour messages; NO_COLOR is respected
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub(crate) color: Colour,
    /// Print only results and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print more detail
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// How results are printed: for people, or for programs as one document with its schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Table,
    Json,
}

/// When messages are coloured; `auto` is on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    #[default]
    Auto,
    Always,
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train on this machine: calibrate if needed, plan, simulate, run, and compare; a job, or a list of them
    #[command(after_long_help = examples::TRAIN, mut_arg("job", |job| job.value_name("JOB|JOBS").help(
        "Job file (TOML), which may be left out if flags say it all; or a list of jobs: a file with [[job]]"
    )))]
    Train(TrainArguments),
    /// Recommend instances and a way to split the work, for a job or for a fleet of them that share a pool
    #[command(after_long_help = examples::PLAN, mut_arg("job", |job| job.value_name("JOB|FLEET").help(
        "Job file (TOML), which may be left out if flags say it all; or a fleet: a file with [pool] and [[job]]; - for \
         standard input"
    )), mut_arg("plot", |plot| plot.help("Draw time against cost of a job, or the schedule of a fleet")))]
    Plan(PlanArguments),
    /// Simulate one step of a plan, its whole training, or a queue of jobs on a pool of instances
    #[command(after_long_help = examples::SIMULATE, mut_arg("plot", |plot| plot.help(
        "Draw it: a step stage by stage, the spread of a campaign, or the schedule of a queue"
    )))]
    Simulate(SimulateArguments),
    /// Explain where the step of a plan goes, or set two plans side by side
    #[command(after_long_help = examples::EXPLAIN, mut_arg("plot", |plot| plot.help("Draw the critical path and the memory of each stage; of two plans their paths")))]
    Explain(ExplainArguments),
    /// Write a plan as one HTML page: the recommendation in words, plots, tables, and what it rests on
    #[command(after_long_help = examples::REPORT)]
    Report(ReportArguments),
    /// Vary anything of a job or a plan and see what it changes
    #[command(after_long_help = examples::what_if(), mut_arg("job", |job| job.value_name("JOB|PLAN.json").help(
        "Job file (TOML), which may be left out if flags say it all; or plan document; - for one on standard input"
    )), mut_arg(
        "plot", |plot| plot.help("Draw it: scaling, throughput over batch, time and cost, or the tornado")
    ))]
    WhatIf(WhatIfArguments),
    /// Write a plan as launch files for another engine or service
    #[command(after_long_help = examples::EXPORT)]
    Export(ExportArguments),
    /// Run a plan on this machine
    #[command(after_long_help = examples::RUN)]
    Run(RunArguments),
    /// Compare what a plan predicted with what a run measured
    #[command(after_long_help = examples::COMPARE, mut_arg("plot", |plot| plot.help("Draw predicted beside measured phase by phase")))]
    Compare(CompareArguments),
    /// Measure this machine and write its profile, or refit constants from measurements
    #[command(after_long_help = examples::CALIBRATE)]
    Calibrate(CalibrateArguments),
    /// Predict published measurements and show how far off that is
    #[command(after_long_help = examples::VALIDATE, mut_arg("plot", |plot| plot.help(
        "Draw predicted against measured; of collectives also bandwidth against message size"
    )))]
    Validate(ValidateArguments),
    /// Serve the what-if page and its JSON API, on this machine unless told otherwise
    #[command(after_long_help = examples::SERVE)]
    Serve(ServeArguments),
    /// List, show, compare, tag, export and prune what was planned, simulated and run
    #[command(subcommand, after_long_help = examples::HISTORY)]
    History(HistoryCommand),
    /// Read what the AWS command line prints about an account, as prices and quotas that `plan` takes
    #[command(subcommand, after_long_help = examples::PRICES)]
    Prices(PricesCommand),
    /// Show what the catalogs hold, with the source of every number
    #[command(after_long_help = examples::SHOW)]
    Show(ShowArguments),
    /// Write the JSON Schemas of files and results, and the description of the server's API
    #[command(after_long_help = examples::SCHEMAS)]
    Schemas(SchemasArguments),
    /// Print completions for a shell
    #[command(after_long_help = examples::COMPLETIONS)]
    Completions(CompletionsArguments),
    /// Print the manual page, or write those of all commands
    #[command(after_long_help = examples::MAN)]
    Man(ManArguments),
}

/// A job as flags; they override the job file.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobArguments {
    /// Job file (TOML); may be left out if flags say it all
    #[arg(value_name = "JOB", help_heading = None)]
    pub(crate) job: Option<PathBuf>,
    /// Model of the catalog, see `trainyard show models`; or a file: Hugging Face's config.json, ONNX or TOML
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) model: Option<String>,
    /// Tokens in the data set, 10B or 10e9
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number, conflicts_with = "samples")]
    pub(crate) tokens: Option<f64>,
    /// Samples in the data set
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) samples: Option<u64>,
    /// A file with the tokens of each sample, one number a line: they are packed into sequences [default: all alike]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["samples", "tokens"])]
    pub(crate) lengths: Option<PathBuf>,
    /// How samples are stored: a data set of the catalog, see `trainyard show datasets`; `none`: they are there [default:
    /// that of the model]
    #[arg(long, value_name = "NAME")]
    pub(crate) dataset: Option<String>,
    /// Bytes of a sample as stored, 110kB [default: those of the data set]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size)]
    pub(crate) bytes_per_sample: Option<f64>,
    /// Where samples are read from [default: chosen]
    #[arg(long, value_name = "WHERE", value_parser = one_of(StorageMode::ALL, StorageMode::name))]
    pub(crate) storage: Option<StorageMode>,
    /// Samples of an optimizer step
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) global_batch: Option<u64>,
    /// Passes over the data set
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number, conflicts_with = "steps")]
    pub(crate) epochs: Option<f64>,
    /// Optimizer steps, instead of epochs
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) steps: Option<u64>,
    /// Tokens of a sample, or the length that samples are packed or padded to; 8k is 8192 [default: that of the model]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = sequence_length)]
    pub(crate) seq_len: Option<u64>,
    /// Tokens that the decoder of an encoder-decoder writes for a sample [default: that of the model, or as many as are read]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = sequence_length)]
    pub(crate) decoder_seq_len: Option<u64>,
    /// Train trained weights further: all of them (full), adapters (lora), adapters beside weights in NF4 (qlora), or
    /// the last blocks (frozen); compares full, lora and qlora
    #[arg(long, value_name = "METHOD", ignore_case = true, value_parser = one_of(Method::ALL, Method::name))]
    pub(crate) fine_tune: Option<Method>,
    /// Train on pairs of sequences, one of which is preferred (direct preference optimisation); the scores of the reference
    /// model come from a forward pass in every step (model, if no value is given) or of one before the first (precomputed)
    #[arg(long, value_name = "REFERENCE", ignore_case = true, value_parser = one_of(Reference::ALL, Reference::name), num_args = 0..=1, require_equals = true, default_missing_value = "model")]
    pub(crate) dpo: Option<Reference>,
    /// Rank of the adapters of lora and qlora [default: 16]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) lora_rank: Option<u64>,
    /// The optimizer, whose state takes memory [default: adamw]
    #[arg(long, value_name = "NAME", ignore_case = true, value_parser = one_of(Optimizer::ALL, Optimizer::name))]
    pub(crate) optimizer: Option<Optimizer>,
    /// GPUs, links and stacks that override those of the catalog
    #[arg(long, value_name = "CONSTANTS.toml", help_heading = "Machines and goal")]
    pub(crate) constants: Option<PathBuf>,
    /// Prices that override those of the catalog; `trainyard show prices` and `trainyard prices import` write such a
    /// table
    #[arg(long, value_name = "PRICES.csv", help_heading = "Machines and goal")]
    pub(crate) prices: Option<PathBuf>,
}

/// Which machines and to what end.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Machines and goal")]
pub(crate) struct GoalArguments {
    /// What is sought [default: cost]
    #[arg(long, value_name = "WHAT", value_parser = one_of(Objective::ALL, Objective::name))]
    pub(crate) objective: Option<Objective>,
    /// The longest training accepted, 3d
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) deadline: Option<String>,
    /// The most money accepted, in USD
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = money)]
    pub(crate) budget: Option<f64>,
    /// Machines of your own, which this file describes, in place of rented ones
    #[arg(long, value_name = "CLUSTER.toml")]
    pub(crate) cluster: Option<PathBuf>,
    /// Instance types, such as 'p3.*,p4d.24xlarge'
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    pub(crate) instances: Option<Vec<String>>,
    /// The most instances [default: 16]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) max_instances: Option<u32>,
    /// AWS region [default: us-east-1]
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// How instances are paid [default: on-demand]
    #[arg(long, value_name = "TERMS", value_parser = one_of(Pricing::ALL, Pricing::name))]
    pub(crate) pricing: Option<Pricing>,
    /// Who rents them out [default: ec2]
    #[arg(long, value_parser = word(Service::ALL, Service::name))]
    pub(crate) service: Option<String>,
    /// Transport between machines [default: the usual one of each type]
    #[arg(long, value_name = "NAME", value_parser = word(Transport::ALL, Transport::name))]
    pub(crate) transport: Option<String>,
    /// Training framework, see `trainyard show stacks`; auto compares those that people use today [default: auto]
    #[arg(long, value_name = "NAME|auto")]
    pub(crate) stack: Option<String>,
    /// What the account may rent at once, in place of the job's quotas; `trainyard prices import` writes such a file
    #[arg(long, value_name = "QUOTAS.toml")]
    pub(crate) quotas: Option<PathBuf>,
    /// Part of each GPU's memory that plans leave free [default: 8%, or what the stack's peaks vary by]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub(crate) memory_margin: Option<String>,
}

/// How the search is limited.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Search")]
pub(crate) struct SearchArguments {
    /// Stop after this many simulations and say how much better a plan could still be
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>(1..=u64::MAX))]
    pub(crate) max_simulations: Option<u64>,
    /// Hold a field of the plan, --fix parallel.tensor=8; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) fix: Vec<String>,
    /// Processor threads of the search [default: all]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=1024))]
    pub(crate) threads: Option<u16>,
}

/// Arguments of `trainyard plan`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    #[command(flatten)]
    pub(crate) goal: GoalArguments,
    #[command(flatten)]
    pub(crate) search: SearchArguments,
    /// How many clusters to show: the recommended one and the runners-up [default: 5]
    #[arg(long, value_name = "K", value_parser = whole::<u16>(1..=100), help_heading = "Results")]
    pub(crate) top: Option<u16>,
    /// Take this point of the front of time against cost instead of the recommended plan
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=u16::MAX), help_heading = "Results")]
    pub(crate) point: Option<u16>,
    /// Write the document to this file: a plan, or the plans and the schedule of a fleet; `-` prints it
    #[arg(long, value_name = "PLAN.json", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plot: PlotArguments,
    /// Write a plan document for each job of a fleet into this folder
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) plans: Option<PathBuf>,
}

/// Arguments of `trainyard explain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainArguments {
    /// Plan document, - for standard input
    #[arg(value_name = "PLAN.json")]
    pub(crate) plan: PathBuf,
    /// Plan document to compare it with: of the same model, on any machines
    #[arg(long, value_name = "OTHER.json")]
    pub(crate) against: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plot: PlotArguments,
}

/// Arguments of `trainyard report`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportArguments {
    /// Plan document, - for standard input
    #[arg(value_name = "PLAN.json")]
    pub(crate) plan: PathBuf,
    /// Write the page to this file [default: standard output]
    #[arg(long, value_name = "REPORT.html")]
    pub(crate) out: Option<PathBuf>,
    /// Write every plot of the report into this folder too
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Format of these plots
    #[arg(long, value_enum, default_value_t = PlotFormat::Svg, value_name = "FORMAT", requires = "plots")]
    pub(crate) plot_format: PlotFormat,
    /// Background of these plots: `auto` follows the reader's system (a PNG is light), `light` or `dark`
    #[arg(long, value_enum, default_value_t = PlotTheme::Auto, value_name = "THEME", requires = "plots")]
    pub(crate) plot_theme: PlotTheme,
    /// How many runs of the whole training are simulated
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole::<u64>(1..=1_000_000))]
    pub(crate) runs: u64,
    /// Seed of the random draws
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count)]
    pub(crate) seed: u64,
}

/// Format of a plot that has no name yet, in the order of [`crate::plot::FORMATS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlotFormat {
    /// Lines and words, for pages
    Svg,
    /// Pixels, for what cannot show SVG
    Png,
}

/// Arguments of `trainyard what-if`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WhatIfArguments {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    #[command(flatten)]
    pub(crate) goal: GoalArguments,
    #[command(flatten)]
    pub(crate) search: SearchArguments,
    /// What varies: values with commas, ranges, factors on the present value; once or twice
    #[arg(long, value_name = "KEY=A,B,C", required_unless_present = "tornado", help_heading = "Variation")]
    pub(crate) vary: Vec<String>,
    /// Hold the plan that is best for the unvaried job, instead of seeking the best one each time
    #[arg(long, help_heading = "Variation")]
    pub(crate) hold: bool,
    /// Vary each assumption behind the plan by its own uncertainty, and show which ones matter
    #[arg(long, conflicts_with_all = ["vary", "hold"], help_heading = "Variation")]
    pub(crate) tornado: bool,
    #[command(flatten)]
    pub(crate) plot: PlotArguments,
    /// Write the cases as CSV; `-` prints them
    #[arg(long, value_name = "F.csv", help_heading = "Results")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the what-if document to this file; `-` prints it
    #[arg(long, value_name = "F.json", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,
}

/// Arguments of `trainyard export`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExportArguments {
    /// Plan document, - for standard input
    #[arg(value_name = "PLAN.json")]
    pub(crate) plan: PathBuf,
    /// What the files are for
    #[arg(long, value_name = "TARGET", value_parser = one_of(&Target::ALL, Target::name))]
    pub(crate) to: Target,
    /// Write the files into this folder instead of printing them
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Training script
    #[arg(long, value_name = "FILE", help_heading = "Values for the files")]
    pub(crate) script: Option<String>,
    /// Container image
    #[arg(long, value_name = "IMAGE", help_heading = "Values for the files")]
    pub(crate) image: Option<String>,
    /// IAM role that SageMaker takes on
    #[arg(long, value_name = "ARN", help_heading = "Values for the files")]
    pub(crate) role: Option<String>,
    /// Where the data is: a path, a bucket, or a claim of Kubernetes
    #[arg(long, value_name = "PLACE", help_heading = "Values for the files")]
    pub(crate) data: Option<String>,
    /// Where checkpoints and results go, in the same form
    #[arg(long, value_name = "PLACE", help_heading = "Values for the files")]
    pub(crate) results: Option<String>,
    /// Peak learning rate, before that of the job
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, help_heading = "Values for the files")]
    pub(crate) learning_rate: Option<String>,
    /// Weights to start from: a folder, or a name on the Hugging Face Hub
    #[arg(long, value_name = "PATH|NAME", help_heading = "Values for the files")]
    pub(crate) weights: Option<String>,
}

/// Arguments of `trainyard train`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TrainArguments {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    #[command(flatten)]
    pub(crate) search: SearchArguments,
    /// Where: `local`, or the profile of this machine
    #[arg(long, value_name = "local|PROFILE", help_heading = "Run")]
    pub(crate) on: Option<String>,
    /// What to train on: a file, a folder, or `synthetic`
    #[arg(long, value_name = "PATH", help_heading = "Run")]
    pub(crate) data: Option<PathBuf>,
    /// Makes tokens of text, which is read as bytes otherwise
    #[arg(long, value_name = "TOKENIZER.json", help_heading = "Run")]
    pub(crate) tokenizer: Option<PathBuf>,
    /// What the model is evaluated on, instead of a part of the data
    #[arg(long, value_name = "PATH", help_heading = "Run")]
    pub(crate) held_out: Option<PathBuf>,
    /// What computes [default: what the profile was measured on; cpu where there is none yet]
    #[arg(long, value_enum, help_heading = "Run")]
    pub(crate) device: Option<Device>,
    /// Measure this machine again
    #[arg(long, help_heading = "Run")]
    pub(crate) recalibrate: bool,
    /// Weights to start from: a file of safetensors or torch.save (.bin, .pt, .pth), or a folder that transformers saved
    /// [default: random ones by the seed]
    #[arg(long, value_name = "PATH", help_heading = "Run")]
    pub(crate) weights: Option<PathBuf>,
    /// Seed of first parameters and of the order of data
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count, help_heading = "Run")]
    pub(crate) seed: u64,
    /// Folder for everything that the run writes [default: a new one under runs/]
    #[arg(long, value_name = "DIR", help_heading = "Run")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reliability: ReliabilityArguments,
}

/// Arguments of `trainyard simulate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimulateArguments {
    /// Plan document, a queue (TOML), - for one on standard input, or a folder of Chakra execution traces (NAME.RANK.et)
    #[arg(value_name = "PLAN.json|QUEUE.toml|TRACES")]
    pub(crate) plan: PathBuf,
    /// Write the step of a plan as a trace in the PyTorch profiler's form: all ranks in one file for ui.perfetto.dev, or
    /// a file for each in a folder (DIR/) for Holistic Trace Analysis; .gz packs it
    #[arg(long, value_name = "T.json|T.json.gz|DIR/", help_heading = "Results")]
    pub(crate) trace: Option<PathBuf>,
    /// Write the step of a plan as Chakra execution traces, a file for each rank, for ASTRA-sim and others
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) chakra: Option<PathBuf>,
    /// Machines that execution traces are simulated on, see `trainyard show instances`
    #[arg(long, value_name = "INSTANCE", conflicts_with_all = ["trace", "chakra", "unfold", "spread", "campaign", "plot"])]
    pub(crate) on: Option<String>,
    /// How many of them [default: as many as the ranks need]
    #[arg(long, value_name = "N", requires = "on", value_parser = whole::<u32>(1..=100_000))]
    pub(crate) instances: Option<u32>,
    #[command(flatten)]
    pub(crate) plot: PlotArguments,
    /// Simulate every rank by itself instead of one for all that must behave alike: slower, the same result
    #[arg(long)]
    pub(crate) unfold: bool,
    /// GPUs, links and stacks that override those of the catalog; those of the plan if left out
    #[arg(long, value_name = "CONSTANTS.toml")]
    pub(crate) constants: Option<PathBuf>,
    /// Let devices differ: standard deviation of their speed as a fraction, drawn with --seed
    ///
    /// Without it a step counts the usual stragglers; with it only the devices drawn differ, so a small fraction may
    /// make a step shorter.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = fraction)]
    pub(crate) spread: f64,
    /// Which devices are slow, how the simulated runs of a campaign go, or which jobs of a queue take longer than expected
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count)]
    pub(crate) seed: u64,
    /// Simulate the whole training: start-up, checkpoints, interruptions, restarts, and what they cost
    #[arg(long, conflicts_with_all = ["trace", "chakra", "unfold", "spread"])]
    pub(crate) campaign: bool,
    /// How many runs of the whole training are simulated
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "campaign", value_parser = whole::<u64>(1..=1_000_000))]
    pub(crate) runs: u64,
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// Processor threads of this machine
    Cpu,
    /// NVIDIA's GPUs of this machine, where the program was built with the feature cuda
    Cuda,
    /// GPUs of this machine through Vulkan, Metal or DirectX 12, where it was built with the feature wgpu
    Wgpu,
}

impl From<Device> for DeviceKind {
    fn from(device: Device) -> Self {
        match device {
            Device::Cpu => Self::Cpu,
            Device::Cuda => Self::Cuda,
            Device::Wgpu => Self::Wgpu,
        }
    }
}

/// Who starts the ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Launcher {
    /// This process: they are its threads
    Threads,
    /// `mpirun`, Slurm or another launcher of MPI processes, on one host or many
    Mpi,
}

/// How many checkpoints stay, unless told otherwise.
pub(crate) const KEEP: u16 = 2;
/// How many steps in a row may be skipped, unless told otherwise.
pub(crate) const MAX_SKIPPED: u32 = 5;

/// What a run does against the loss of work.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Reliability")]
pub(crate) struct ReliabilityArguments {
    /// Write a checkpoint after every so many steps, besides the one at the end
    #[arg(long, value_name = "STEPS", value_parser = whole::<u64>(1..=u64::MAX))]
    pub(crate) checkpoint_every: Option<u64>,
    /// How many checkpoints stay: the newest that are whole
    #[arg(long, value_name = "N", default_value_t = KEEP, value_parser = whole::<u16>(1..=u16::MAX))]
    pub(crate) keep: u16,
    /// How many steps in a row may be skipped because the loss or a gradient is not a number
    #[arg(long, value_name = "N", default_value_t = MAX_SKIPPED, value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) max_skipped: u32,
}

/// Arguments of `trainyard run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArguments {
    /// Plan document
    #[arg(value_name = "PLAN.json")]
    pub(crate) plan: PathBuf,
    /// What to train on: a file, a folder, or `synthetic`
    #[arg(long, value_name = "PATH")]
    pub(crate) data: PathBuf,
    /// Makes tokens of text, which is read as bytes otherwise
    #[arg(long, value_name = "TOKENIZER.json")]
    pub(crate) tokenizer: Option<PathBuf>,
    /// What the model is evaluated on, instead of a part of the data
    #[arg(long, value_name = "PATH")]
    pub(crate) held_out: Option<PathBuf>,
    /// Stop after so many optimizer steps, resumed ones included; the learning rate decays over those of the plan
    /// [default: those of the plan]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) steps: Option<u64>,
    /// Folder of checkpoints or of a run, or a checkpoint to resume from [default: `checkpoint` in the run's folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Go on from the newest checkpoint, or from the one that is named
    #[arg(long, requires = "checkpoint")]
    pub(crate) resume: bool,
    /// Who starts the ranks
    #[arg(long, value_enum, default_value_t = Launcher::Threads)]
    pub(crate) launcher: Launcher,
    /// With --launcher mpi: how long a process may give no sign of life before the job ends [default: 20]
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u32>(1..=86_400))]
    pub(crate) heartbeat_timeout: Option<u32>,
    /// Weights to start from: a file of safetensors or torch.save (.bin, .pt, .pth), or a folder that transformers saved
    /// [default: random ones by the seed]
    #[arg(long, value_name = "PATH")]
    pub(crate) weights: Option<PathBuf>,
    /// What computes [default: what the profile of the plan was measured on, else cpu]
    #[arg(long, value_enum)]
    pub(crate) device: Option<Device>,
    /// Processor threads that the ranks share [default: all]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Seed of first parameters and of the order of data
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    pub(crate) seed: u64,
    /// Folder for everything that the run writes [default: a new one under runs/]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reliability: ReliabilityArguments,
    /// Stop as on Ctrl-C when the standard input ends: so lists of jobs stop theirs, also when they are killed
    #[arg(long, hide = true)]
    pub(crate) until_input_ends: bool,
}

/// Arguments of `trainyard compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareArguments {
    /// Plan document
    #[arg(value_name = "PLAN.json")]
    pub(crate) plan: PathBuf,
    /// Folder of a run, or its measurement file
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) plot: PlotArguments,
}

/// Arguments of `trainyard calibrate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// What is measured
    #[arg(long, value_enum, default_value_t = Device::Cpu)]
    pub(crate) device: Device,
    /// Who starts the ranks that are measured; with mpi, one per process: the profile is that of all hosts together
    #[arg(long, value_enum, default_value_t = Launcher::Threads, conflicts_with = "from")]
    pub(crate) launcher: Launcher,
    /// Where the profile goes [default: $TRAINYARD_PROFILE, or runs/local-profile.toml, with --device cuda
    /// runs/local-cuda-profile.toml, with wgpu runs/local-wgpu-profile.toml; constants: runs/constants.toml]
    #[arg(long, value_name = "PROFILE.toml")]
    pub(crate) out: Option<PathBuf>,
    /// Instead of measuring: refit constants from a table of step times or of collectives, such as `validate` reads,
    /// from the output of nccl-tests, or from a trace of the PyTorch profiler (.json or .json.gz); or correct this
    /// machine's profile by runs: a measurement.json, the folder of a run, or a folder of such folders
    #[arg(long, value_name = "MEASUREMENTS")]
    pub(crate) from: Option<PathBuf>,
    /// Constants from which the fit starts, in place of those of the catalog
    #[arg(long, value_name = "CONSTANTS.toml", requires = "from")]
    pub(crate) constants: Option<PathBuf>,
    /// Machine type that collectives were measured on, or the file of your own cluster (.toml), where the
    /// measurements do not say it or hold others too
    #[arg(long, value_name = "NAME", requires = "from")]
    pub(crate) instance: Option<String>,
    /// Stack whose constants a trace shows [default: pytorch]
    #[arg(long, value_name = "NAME", requires = "from")]
    pub(crate) stack: Option<String>,
    /// Profile that runs correct [default: $TRAINYARD_PROFILE, or runs/local-profile.toml]
    #[arg(long, value_name = "PROFILE.toml", requires = "from")]
    pub(crate) profile: Option<PathBuf>,
}

/// Arguments of `trainyard validate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ValidateArguments {
    /// Table of measurements: training steps or collectives
    #[arg(value_name = "MEASUREMENTS.csv")]
    pub(crate) table: PathBuf,
    #[command(flatten)]
    pub(crate) plot: PlotArguments,
    /// GPUs, links and stacks that override those of the catalog
    #[arg(long, value_name = "CONSTANTS.toml")]
    pub(crate) constants: Option<PathBuf>,
}

/// Arguments of `trainyard serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArguments {
    /// Port; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8080, value_parser = whole::<u16>(0..=u16::MAX))]
    pub(crate) port: u16,
    /// Address to listen on; a token is demanded where other machines reach it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1", value_parser = address)]
    pub(crate) listen: IpAddr,
    /// Token that API clients must send [default: $TRAINYARD_TOKEN, which no list of processes shows]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Processor threads of the searches [default: all]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=1024))]
    pub(crate) threads: Option<u16>,
}

/// What is done with prices.
#[derive(Debug, Subcommand)]
pub(crate) enum PricesCommand {
    /// Read files that the AWS command line has printed, or SkyPilot's catalog
    Import(ImportArguments),
}

/// Arguments of `trainyard prices import`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImportArguments {
    /// What `aws pricing get-products`, `aws ec2 describe-spot-price-history`, `aws ec2
    /// describe-instance-type-offerings`, `aws service-quotas list-service-quotas` and `aws savingsplans
    /// describe-savings-plans-offering-rates` printed (.json or .json.gz), SkyPilot's vms.csv, or spot-advisor-data.json
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Write the table of prices to this file [default: standard output]
    #[arg(long, value_name = "PRICES.csv")]
    pub(crate) out: Option<PathBuf>,
    /// Write the quotas to this file
    #[arg(long, value_name = "QUOTAS.toml")]
    pub(crate) quotas: Option<PathBuf>,
}

/// What a catalog lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Neural networks
    Models,
    /// Data sets that models are trained on, as they are stored
    Datasets,
    /// GPUs
    Gpus,
    /// Instances that can be rented, and systems on which published steps were measured
    Instances,
    /// Training frameworks as they load a machine
    Stacks,
    /// Orders of micro-batches in a pipeline
    Schedules,
    /// What instances cost, as a table (CSV) to be changed and given back with --prices
    Prices,
}

/// Arguments of `trainyard show`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowArguments {
    /// Which catalog; all are listed if left out
    #[arg(value_enum, value_name = "CATALOG")]
    pub(crate) kind: Option<Kind>,
    /// One entry, with the source of every number; or a pattern such as 'p4*', which lists what it fits; or, of models, a
    /// file or folder, as a config.json
    pub(crate) name: Option<String>,
    /// GPUs, links and stacks that override those of the catalog
    #[arg(long, value_name = "CONSTANTS.toml")]
    pub(crate) constants: Option<PathBuf>,
}

/// Arguments of `trainyard schemas`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SchemasArguments {
    /// Write the files into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// Arguments of `trainyard man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArguments {
    /// Write a page for each command into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// Arguments of `trainyard completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// Which shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}
