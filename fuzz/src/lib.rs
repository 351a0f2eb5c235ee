//! What the fuzz targets share: changes to inputs that keep their format, so that most of what is tried gets past the
//! first syntax error, and the size up to which something that parses is gone on with.

pub mod protobuf;
pub mod samples;
pub mod table;
pub mod tree;

use libfuzzer_sys::fuzzer_mutate;
use serde::Serialize;
use serde::de::DeserializeOwned;
use trainyard_models::{Model, Sharing};
use trainyard_plan::{GlobalBatch, JobSpec, Plan};
use trainyard_planner::{Limits, Resources, draft, problem};
use trainyard_reports::{self as reports, Detail, Width};
use trainyard_sim::{Options, memory_needed};

/// Steps of more bytes are not simulated: inputs are to be many, not large.
const SIMULATION_MAX: u64 = 8 << 20;
/// The same of steps that are traced operator by operator.
const TRACE_MAX: u64 = 1 << 20;

/// Batches of more samples are so many micro-batches that a search takes long.
const BATCH_MAX: u64 = 1 << 20;

/// Whether a plan is simulated in a moment.
pub fn is_small(plan: &Plan) -> bool {
    memory_needed(plan, Options::default()).0 <= SIMULATION_MAX
}

/// Whether the step of a plan is traced in a moment.
pub fn is_tiny(plan: &Plan) -> bool {
    memory_needed(plan, Options::default()).0 <= TRACE_MAX && plan.graph().len() <= 30
}

/// A narrow page, on which texts are broken often.
pub const WIDTH: Width = Width(60);

/// A job that is planned in a moment, for the files that jobs name.
///
/// # Panics
///
/// Never: the job is one.
pub fn small_job() -> JobSpec {
    let text = "model.name = \"gpt2\"\ndata.tokens = 1e9\ntraining.global_batch = 8\n\
                cluster.instances = [\"p3.2xlarge\"]\ncluster.max_instances = 2\n";
    toml::from_str(text).expect("a job")
}

/// Asks for the plan of a job, as far as a few simulations find it, and shows it.
pub fn plan(job: &JobSpec, resources: Resources) {
    let Ok(problem) = problem(job, resources) else { return };
    let largest = job.training.global_batch.map(|batch| match batch {
        GlobalBatch::Exactly(size) | GlobalBatch::Between { max: size, .. } => size,
    });
    if largest.is_some_and(|size| size > BATCH_MAX) {
        return;
    }
    let limits = Limits { top: 2, max_simulations: Some(4), ..Limits::default() };
    if let Ok(drafted) = draft(&problem, &limits, job) {
        reads_back(&drafted.document);
        reports::plan(&drafted.document, Detail::Full, WIDTH);
    }
}

/// Builds a model's graph and counts what is in it; and what it is written as is the same model.
///
/// # Panics
///
/// When it is not.
pub fn counted(model: &Model) {
    let graph = model.graph();
    graph.training_flops();
    graph.parameters();
    for layer in graph.distinct() {
        layer.stored(1, Sharing::WHOLE);
        layer.parameters(Sharing::WHOLE);
    }
    let written = model.spec();
    assert_eq!(Model::try_from(written.clone()).as_ref(), Ok(model), "{written:?}");
}

/// What is written as JSON is read again.
///
/// # Panics
///
/// When it is not.
pub fn reads_back<T: Serialize + DeserializeOwned>(document: &T) {
    let text = serde_json::to_string(document).expect("documents hold only what JSON can hold");
    if let Err(error) = serde_json::from_str::<T>(&text) {
        panic!("{error}: {text}");
    }
}

/// Numbers at the edges of what types and formulas hold, as they are written.
pub(crate) const EDGES: [&str; 30] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "-1",
    "8",
    "64",
    "255",
    "256",
    "1000",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "1000000000000",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.5",
    "1e-9",
    "1e-300",
    "1e18",
    "1e300",
    "1.7976931348623157e308",
];

/// Random numbers (xorshift, Marsaglia 2003, doi:10.18637/jss.v008.i14).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u32) -> Self {
        Self((u64::from(seed) << 1) | 1)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % end
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Puts what `change` makes of the input in its place. One time in four, and where nothing comes of it, the fuzzer
/// changes bytes as it would by itself.
pub(crate) fn mutate(
    data: &mut [u8],
    size: usize,
    max: usize,
    seed: u32,
    change: impl FnOnce(&[u8], &mut Dice) -> Option<Vec<u8>>,
) -> usize {
    let mut dice = Dice::new(seed);
    if dice.below(4) != 0 {
        let changed = change(&data[..size], &mut dice).filter(|changed| !changed.is_empty() && changed.len() <= max);
        if let Some(changed) = changed.filter(|changed| changed != &data[..size]) {
            data[..changed.len()].copy_from_slice(&changed);
            return changed.len();
        }
    }
    fuzzer_mutate(data, size, max)
}
