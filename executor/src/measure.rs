//! Times operators and collectives of this machine, from which steps of any model are predicted.
//!
//! The operators are the very functions that stages run, with their gradients, at a grid of shapes that knows of no
//! job. For each number of ranks, all ranks run the same operator at the same time, so that what they share (caches,
//! memory bandwidth, turbo clocks) is inside the numbers.

mod cases;
mod collectives;
mod functions;
mod prepare;

use crate::device::{DeviceError, Devices, Speed, computes_in_place, device, formats, settle};
use crate::kernels::square_sum_there;
use crate::process_group::{GroupError, ProcessGroup, RankError, World, run_ranks};
use crate::statistics::{median, quantile};
use burn::tensor::{Device, Tensor};
use cases::Case;
use prepare::Run;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use trainyard_hardware_profiles::{DeviceKind, NumberFormat, OperatorCase, OperatorClass, OperatorSample};
use trainyard_host::Clock;
use trainyard_host::threads_per_rank;

pub use collectives::{
    copy_bandwidth, measure_collectives, measure_collectives_of, measure_overlap, measure_overlap_of,
};

/// The extent of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasureSettings {
    /// Processor threads to divide among the ranks.
    pub cores: usize,
    /// Numbers of ranks to measure, each for itself.
    pub ranks: Vec<usize>,
    /// Seconds to spend on one operator at one shape, about.
    pub seconds_per_case: f64,
    /// The kind of device that ranks compute on.
    pub device: DeviceKind,
    /// How fast the device is, and so what is worth timing on it.
    pub speed: Speed,
    /// The most parameters of a model that updates are timed over: beyond, they take longer in proportion.
    pub parameters_max: usize,
}

/// The most parameters on processors, and the least that a GPU is asked for.
const PARAMETERS_MAX: usize = 1 << 25;

/// The most parameters on GPUs. What each tensor costs by itself counts there in all but larger models.
const PARAMETERS_MAX_ON_GPUS: u64 = 1 << 29;

/// Bytes of a parameter while updates are timed: its weight, its gradient and two running means.
const PARAMETER_BYTES: u64 = 16;

impl MeasureSettings {
    /// Returns the customary settings for a machine with `cores` processor threads: one rank, two, four, … and as many
    /// as there are cores.
    pub fn for_cores(cores: usize) -> Self {
        let ranks = numbers_of_ranks(cores);
        let (device, speed) = (DeviceKind::Cpu, Speed::Processors);
        Self { cores, ranks, seconds_per_case: 0.015, device, speed, parameters_max: PARAMETERS_MAX }
    }

    /// Returns the customary settings for `devices`, whose ranks share `cores` processor threads.
    pub fn of(devices: &Devices, cores: usize) -> Self {
        let ranks = numbers_of_ranks(devices.count);
        let parameters_max = parameters_max(devices);
        Self { ranks, device: devices.kind, speed: devices.speed, parameters_max, ..Self::for_cores(cores) }
    }
}

/// Returns the most parameters that updates are timed over: on GPUs what takes a quarter of the memory of one.
fn parameters_max(devices: &Devices) -> usize {
    let Some(memory) = devices.memory.filter(|_| devices.speed == Speed::Gpu) else { return PARAMETERS_MAX };
    let fitting = memory.0 / devices.count as u64 / 4 / PARAMETER_BYTES;
    fitting.clamp(PARAMETERS_MAX as u64, PARAMETERS_MAX_ON_GPUS) as usize
}

/// Returns one, two, four, … and `most`.
fn numbers_of_ranks(most: usize) -> Vec<usize> {
    let mut ranks: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n <= most).collect();
    if ranks.last() != Some(&most) {
        ranks.push(most);
    }
    ranks
}

/// The progress of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasureProgress {
    /// Cases done.
    pub done: usize,
    /// Cases in all.
    pub total: usize,
}

/// Why a measurement did not end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// It was asked to stop.
    #[error("the measurement was stopped")]
    Stopped,
    /// There is nothing to compute on.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A rank failed.
    #[error("rank {rank} failed while measuring: {reason}")]
    Rank {
        /// The rank that failed.
        rank: usize,
        /// Its error message.
        reason: String,
    },
}

/// Why a rank did not end a measurement.
#[derive(Debug, thiserror::Error)]
enum WorkerError {
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error("cannot start its threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error("the measurement was stopped")]
    Stopped,
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Times every operator of the grid for every number of ranks.
///
/// # Errors
///
/// When it is stopped, there is no such device, or a rank cannot be started.
pub fn measure_operators(
    settings: &MeasureSettings,
    progress: &mut (dyn FnMut(MeasureProgress) + Send),
    stop: &AtomicBool,
) -> Result<Vec<OperatorSample>, MeasureError> {
    let grid = cases::grid(&device_formats(settings.device)?, settings.speed);
    let everywhere = settings.ranks.iter().map(|ranks| (*ranks, grid.clone())).collect();
    measure_cases(&everywhere, settings, progress, stop)
}

/// Times these operators, those that can be timed, of a machine of which some are `known`. Where one of those takes longer
/// than it did, another program is at work: all are then timed again, three times at most in all.
///
/// # Errors
///
/// As [`measure_operators`].
pub fn measure_these(
    wanted: &BTreeSet<OperatorCase>,
    known: &[OperatorSample],
    settings: &MeasureSettings,
    progress: &mut (dyn FnMut(MeasureProgress) + Send),
    stop: &AtomicBool,
) -> Result<Vec<OperatorSample>, MeasureError> {
    let formats = device_formats(settings.device)?;
    let mut by_ranks: CasesByRanks = BTreeMap::new();
    for wanted in wanted.iter().filter(|wanted| formats.contains(&wanted.format)) {
        let cases = by_ranks.entry(wanted.ranks as usize).or_default();
        cases.extend(Case::of(wanted, settings.parameters_max).filter(|case| !cases.contains(case)));
    }
    let mut yardsticks = Vec::new();
    for (ranks, cases) in &mut by_ranks {
        let known = yardstick(known, *ranks);
        cases.extend(known.and_then(|known| Case::of(&known.case(), settings.parameters_max)));
        yardsticks.extend(known);
    }
    let mut samples = Vec::new();
    for _ in 0..ATTEMPTS {
        let round = measure_cases(&by_ranks, settings, progress, stop)?;
        let disturbed = is_disturbed(&round, &yardsticks);
        round.into_iter().for_each(|sample| add(&mut samples, sample));
        if !disturbed {
            break;
        }
    }
    samples.retain(|sample| yardsticks.iter().all(|known| known.case() != sample.case()));
    Ok(samples)
}

/// How often operators are timed at most while another program is at work.
const ATTEMPTS: usize = 3;

/// Seconds that a yardstick takes at most.
const YARDSTICK_S: f64 = 0.02;

/// Returns the longest product, within reason, that was timed on so many ranks: what another program slows down most surely.
fn yardstick(known: &[OperatorSample], ranks: usize) -> Option<&OperatorSample> {
    let fits = |sample: &&OperatorSample| {
        (sample.operator, sample.format, sample.ranks as usize) == (OperatorClass::Linear, NumberFormat::Fp32, ranks)
            && total(sample) < YARDSTICK_S
            && sample.spread <= NOISY
    };
    known.iter().filter(fits).max_by(|a, b| total(a).total_cmp(&total(b)))
}

/// Returns `true` if one of the yardsticks took longer than it was known to.
fn is_disturbed(samples: &[OperatorSample], yardsticks: &[&OperatorSample]) -> bool {
    let slower = |known: &&OperatorSample| {
        let now = samples.iter().find(|sample| sample.case() == known.case());
        now.is_some_and(|now| total(now) > total(known) * (1.0 + DISTURBED))
    };
    yardsticks.iter().any(slower)
}

/// Returns those of the wanted operators that can be timed, updates over so many parameters at most, and were not, or of which
/// the times are noise.
pub fn untimed(
    wanted: BTreeSet<OperatorCase>,
    timed: &[OperatorSample],
    parameters_max: usize,
) -> BTreeSet<OperatorCase> {
    let steady = timed.iter().filter(|sample| sample.spread <= NOISY);
    let timed: BTreeSet<OperatorCase> = steady.map(OperatorSample::case).collect();
    let is_new = |wanted: &OperatorCase| {
        let case = Case::of(wanted, parameters_max);
        case.is_some_and(|case| !timed.contains(&OperatorCase { shape: case.shape(), ..wanted.clone() }))
    };
    wanted.into_iter().filter(is_new).collect()
}

/// Returns the formats that devices of a kind compute in.
///
/// # Errors
///
/// When there is no such device.
pub fn device_formats(kind: DeviceKind) -> Result<Vec<NumberFormat>, DeviceError> {
    Ok(formats(&device(kind, 0)?))
}

/// Cases by the number of ranks that run them at the same time.
type CasesByRanks = BTreeMap<usize, Vec<Case>>;

/// All cases are measured this often, some seconds apart: what another program disturbed once is measured again when it
/// may be gone.
const ROUNDS: usize = 2;

/// Two times of a case that differ by more than this share are not noise: something disturbed the slower one.
const DISTURBED: f64 = 0.25;

/// The spread from which a time is noise. On a quiet machine a quarter of the operators spread by a fifth; beside two builds on
/// two cores, by more than 1.
const NOISY: f64 = 1.0;

/// How often what is noise after all rounds is measured again at most.
const AGAIN: usize = 2;

fn measure_cases(
    by_ranks: &CasesByRanks,
    settings: &MeasureSettings,
    progress: &mut (dyn FnMut(MeasureProgress) + Send),
    stop: &AtomicBool,
) -> Result<Vec<OperatorSample>, MeasureError> {
    let count = |by_ranks: &CasesByRanks| by_ranks.values().map(Vec::len).sum::<usize>();
    let mut total = ROUNDS * count(by_ranks);
    let mut done = 0;
    let mut samples: Vec<OperatorSample> = Vec::new();
    let mut round = |by_ranks: &CasesByRanks, total: usize, keep: &mut dyn FnMut(OperatorSample)| {
        for (ranks, cases) in by_ranks {
            let mut report = |case: usize| progress(MeasureProgress { done: done + case, total });
            measure_round(cases, *ranks, settings, &mut report, stop)?.into_iter().for_each(&mut *keep);
            done += cases.len();
        }
        Ok::<(), MeasureError>(())
    };
    for _ in 0..ROUNDS {
        round(by_ranks, total, &mut |sample| add(&mut samples, sample))?;
    }
    for _ in 0..AGAIN {
        let noisy = noisy(by_ranks, &samples);
        total += count(&noisy);
        round(&noisy, total, &mut |sample| replace(&mut samples, sample))?;
    }
    Ok(samples)
}

/// Returns those of the cases of which the times are noise.
fn noisy(by_ranks: &CasesByRanks, samples: &[OperatorSample]) -> CasesByRanks {
    let is_noise = |ranks: usize, case: &Case| {
        let same = |sample: &&OperatorSample| {
            (sample.operator, sample.format, sample.ranks as usize) == (case.operator, case.format, ranks)
                && sample.shape == case.shape()
        };
        samples.iter().find(same).is_some_and(|sample| sample.spread > NOISY)
    };
    let of_ranks = |(ranks, cases): (&usize, &Vec<Case>)| {
        let cases: Vec<Case> = cases.iter().copied().filter(|case| is_noise(*ranks, case)).collect();
        (!cases.is_empty()).then_some((*ranks, cases))
    };
    by_ranks.iter().filter_map(of_ranks).collect()
}

/// Puts a time in place of the one of the same case, if it is steadier or the only one.
pub fn replace(samples: &mut Vec<OperatorSample>, sample: OperatorSample) {
    match samples.iter_mut().find(|known| known.case() == sample.case()) {
        None => samples.push(sample),
        Some(known) if sample.spread < known.spread => *known = sample,
        Some(_) => {}
    }
}

/// Adds a time, or what it and an earlier one of the same case agree on.
fn add(samples: &mut Vec<OperatorSample>, sample: OperatorSample) {
    match samples.iter_mut().find(|known| known.case() == sample.case()) {
        None => samples.push(sample),
        Some(known) => *known = agreed(known, sample),
    }
}

/// Seconds of forward and backward pass.
fn total(sample: &OperatorSample) -> f64 {
    sample.forward_s + sample.backward_s
}

/// Returns the mean of two times of a case, or the faster of them if the other was disturbed. The faster one alone
/// would always be a little too fast.
fn agreed(first: &OperatorSample, second: OperatorSample) -> OperatorSample {
    let (fast, slow) = if total(first) <= total(&second) { (first, &second) } else { (&second, first) };
    if total(slow) > total(fast) * (1.0 + DISTURBED) {
        return fast.clone();
    }
    OperatorSample {
        forward_s: f64::midpoint(fast.forward_s, slow.forward_s),
        backward_s: f64::midpoint(fast.backward_s, slow.backward_s),
        spread: fast.spread.max(slow.spread),
        ..second
    }
}

/// Times every case on this many ranks at once.
fn measure_round(
    cases: &[Case],
    ranks: usize,
    settings: &MeasureSettings,
    report: &mut (dyn FnMut(usize) + Send),
    stop: &AtomicBool,
) -> Result<Vec<OperatorSample>, MeasureError> {
    let threads = threads_per_rank(settings.cores, ranks);
    let report = Mutex::new(report);
    let timed = on_ranks(ranks, threads, |group| {
        let device = device(settings.device, group.place_on_host())?;
        let mut place = Place::new(settings.device, device).with_lead(settings.speed);
        let mut all = Vec::with_capacity(cases.len());
        for cases in together(cases, settings.device) {
            let done = all.len();
            let mut tell = |share: f64| {
                if group.rank() == 0 {
                    let cases = (cases.len() as f64 * share) as usize;
                    (report.lock().expect("progress does not panic"))(done + cases);
                }
            };
            let seconds = settings.seconds_per_case / ROUNDS as f64 * cases.len() as f64;
            all.extend(time_cases(&group, cases, &place, seconds, &mut tell, stop)?);
            place.clear();
        }
        drop(place.lead.take());
        place.clear();
        Ok(all)
    })?;
    let of_case = |number: usize| timed.iter().map(|rank| &rank[number]).collect::<Vec<_>>();
    Ok(cases.iter().enumerate().map(|(number, case)| sample(*case, ranks, threads, &of_case(number))).collect())
}

/// The device that a rank computes on while it is measured.
#[derive(Clone)]
struct Place {
    kind: DeviceKind,
    device: Device,
    /// On GPUs.
    lead: Option<Lead>,
}

impl Place {
    fn new(kind: DeviceKind, device: Device) -> Self {
        Self { kind, device, lead: None }
    }

    /// The same with work for a GPU to do ahead of operators that are timed.
    fn with_lead(self, speed: Speed) -> Self {
        let lead = (speed == Speed::Gpu).then(|| Lead::new(&self.device));
        Self { lead, ..self }
    }

    /// Gives memory back that nothing holds any more. A GPU's would stay for what this thread does next, and count in the
    /// memory of a run that follows in this process.
    fn clear(&self) {
        settle(&self.device);
        self.device.memory_cleanup();
    }

    /// Returns what `act` returns, and the seconds until the device has done what it asks for.
    fn timed<T>(&self, act: impl FnOnce() -> T) -> (T, f64) {
        seconds_on(&self.device, act)
    }

    /// Returns what `act` returns, and the seconds that its kernels take one after another: a GPU has other work until it was
    /// asked for everything. `known` is what [`Self::timed`] said before; without it, and elsewhere, it is what this says.
    fn timed_behind<T>(&self, known: Option<f64>, act: impl FnOnce() -> T) -> (T, f64) {
        let Some((lead, known)) = self.lead.as_ref().zip(known) else { return self.timed(act) };
        let times = lead.times(known);
        let (result, seconds) = self.timed(|| {
            let ahead = lead.begin(times);
            (act(), ahead)
        });
        (result.0, (seconds - times as f64 * lead.each_s).clamp(0.0, known))
    }
}

/// Returns what `act` returns, and the seconds until `device` has done what it asks for.
fn seconds_on<T>(device: &Device, act: impl FnOnce() -> T) -> (T, f64) {
    settle(device);
    let clock = Clock::start();
    let result = act();
    settle(device);
    (result, clock.seconds())
}

/// Work that a GPU is given ahead of what is timed. In a step it is asked for operators long before it has done those
/// before them; alone, operators of short kernels would take as long as asking for them does.
#[derive(Clone)]
struct Lead {
    numbers: Tensor<1>,
    /// Seconds of one piece of work.
    each_s: f64,
}

impl Lead {
    /// Numbers that a piece of work reads: more than the cache of a GPU holds.
    const NUMBERS: usize = 1 << 26;

    fn new(device: &Device) -> Self {
        let lead = Self { numbers: Tensor::zeros([Self::NUMBERS], device), each_s: 0.0 };
        let seconds = |times| seconds_on(device, || lead.begin(times)).1;
        // Its kernels are compiled.
        seconds(1);
        let [few, many] = [4, 36].map(|times| median(&[0; 5].map(|_| seconds(times))));
        Self { each_s: ((many - few) / 32.0).max(1e-6), ..lead }
    }

    fn begin(&self, times: usize) -> Vec<Tensor<1>> {
        (0..times).map(|_| square_sum_there(self.numbers.clone())).collect()
    }

    /// Returns how many pieces take longer than something for which a device is asked in `seconds`.
    fn times(&self, seconds: f64) -> usize {
        (1.5 * seconds / self.each_s).ceil() as usize
    }
}

/// Times of one case on one rank.
#[derive(Default)]
struct CaseTimes {
    forward: Vec<f64>,
    backward: Vec<f64>,
}

/// Runs `work` on ranks that each have `threads` processor threads.
fn on_ranks<T: Send>(
    ranks: usize,
    threads: usize,
    work: impl Fn(ProcessGroup) -> Result<T, WorkerError> + Sync,
) -> Result<Vec<T>, MeasureError> {
    on_world(&World::threads(ranks), threads, work)
}

/// Runs `work` on the ranks of `world` that live here.
fn on_world<T: Send>(
    world: &World,
    threads: usize,
    work: impl Fn(ProcessGroup) -> Result<T, WorkerError> + Sync,
) -> Result<Vec<T>, MeasureError> {
    let results = run_ranks(world, |group| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        pool.install(|| work(group))
    });
    results
        .into_iter()
        .enumerate()
        .map(|(rank, result)| {
            let rank = world.local().start + rank;
            result.map_err(|error| match error {
                RankError::Failed(WorkerError::Stopped) => MeasureError::Stopped,
                RankError::Failed(error) => MeasureError::Rank { rank, reason: error.to_string() },
                RankError::Panicked(reason) | RankError::NotStarted(reason) => MeasureError::Rank { rank, reason },
            })
        })
        .collect()
}

/// Elements of the results of cases that take turns: more than the last cache of a processor holds, and few enough for
/// its memory.
const TOGETHER: usize = 1 << 26;

/// Cuts a list of cases into runs that take turns. On a GPU each is by itself: its queue holds many of the same, and its
/// caches are small.
fn together(cases: &[Case], kind: DeviceKind) -> Vec<&[Case]> {
    let mut held = 0;
    let most = if computes_in_place(kind) { TOGETHER } else { 0 };
    let continues = |_: &Case, next: &Case| {
        held += next.elements();
        let fits = held <= most;
        held = if fits { held } else { next.elements() };
        fits
    };
    cases.chunk_by(continues).collect()
}

/// Least and greatest number of times that cases take turns: enough that one disturbed time has no say, and few enough
/// that quick ones do not drag on.
const SWEEPS: std::ops::RangeInclusive<usize> = 3..=15;

/// Cases that take this many times as long as they should are not repeated.
const FAR_TOO_LONG: f64 = 10.0;

/// Times cases that take turns, for about so many seconds: forward in order, then backward in reverse order, as the
/// layers of a step. What a case needs from memory is then as far from the caches as in a step: others have been there
/// since.
fn time_cases(
    group: &ProcessGroup,
    cases: &[Case],
    place: &Place,
    seconds: f64,
    tell: &mut dyn FnMut(f64),
    stop: &AtomicBool,
) -> Result<Vec<CaseTimes>, WorkerError> {
    let mut runs: Vec<Box<dyn Run>> = cases.iter().map(|case| prepare::prepare(*case, place)).collect();
    let mut times: Vec<CaseTimes> = cases.iter().map(|_| CaseTimes::default()).collect();
    // A device compiles its kernels, and chooses among them, when it first needs them.
    sweep(&mut runs, &mut times);
    times.iter_mut().for_each(|times| *times = CaseTimes::default());
    let clock = Clock::start();
    for sweeps in 0..*SWEEPS.end() {
        let taken = clock.seconds();
        let wanted = sweeps == 0 || taken < if sweeps < *SWEEPS.start() { seconds * FAR_TOO_LONG } else { seconds };
        if !agreed_on(group, wanted, stop)? {
            break;
        }
        sweep(&mut runs, &mut times);
        tell(((sweeps + 1) as f64 / *SWEEPS.start() as f64).min(1.0));
    }
    tell(1.0);
    Ok(times)
}

/// Returns what the first rank wants, so that all ranks are busy until the end.
fn agreed_on(group: &ProcessGroup, wanted: bool, stop: &AtomicBool) -> Result<bool, WorkerError> {
    let mut flags = [wanted, stop.load(Ordering::Relaxed)].map(|flag| f32::from(u8::from(flag))).to_vec();
    group.broadcast(&mut flags, 0)?;
    if flags[1] > 0.0 { Err(WorkerError::Stopped) } else { Ok(flags[0] > 0.0) }
}

/// Runs every case once.
fn sweep(runs: &mut [Box<dyn Run>], times: &mut [CaseTimes]) {
    runs.iter_mut().for_each(|run| run.begin());
    for (run, times) in runs.iter_mut().zip(&mut *times) {
        times.forward.push(run.forward());
    }
    for (run, times) in runs.iter_mut().zip(times).rev() {
        times.backward.push(run.backward());
    }
}

/// The shortest time that is told apart from none: about what reading the clock twice takes.
const RESOLUTION_S: f64 = 5e-8;

/// The largest spread that a profile holds. Beyond, nothing is known of a time but that it is noise.
const SPREAD_MAX: f64 = 10.0;

/// Returns the spread of times: the range between their quartiles over their median. What the harness takes is taken off them,
/// so that noise may leave less than nothing of the fastest.
fn spread(times: &[f64]) -> f64 {
    let range = quantile(times, 0.75) - quantile(times, 0.25);
    (range / median(times).max(RESOLUTION_S)).min(SPREAD_MAX)
}

/// Means over ranks of their medians: in a step, ranks wait for each other only a few times, and fluctuations of
/// single operators cancel in between.
fn sample(case: Case, ranks: usize, threads: usize, times: &[&CaseTimes]) -> OperatorSample {
    let mean = |of: &dyn Fn(&CaseTimes) -> f64| times.iter().map(|rank| of(rank)).sum::<f64>() / times.len() as f64;
    let totals = |rank: &CaseTimes| -> Vec<f64> {
        rank.forward.iter().zip(&rank.backward).map(|(forward, backward)| forward + backward).collect()
    };
    let least = if case.operator.is_over_parameters() { 0.0 } else { RESOLUTION_S };
    OperatorSample {
        operator: case.operator,
        format: case.format,
        ranks: ranks as u32,
        threads: threads as u32,
        shape: case.shape(),
        forward_s: mean(&|rank| median(&rank.forward)),
        backward_s: mean(&|rank| median(&rank.backward)).max(least),
        spread: mean(&|rank| spread(&totals(rank))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_units::Bytes;

    #[test]
    fn updates_are_timed_over_what_a_quarter_of_a_gpu_holds() {
        let most = |gib: u64, count, speed| {
            let memory = Some(Bytes(gib << 30));
            parameters_max(&Devices { kind: DeviceKind::Wgpu, name: "one".into(), count, memory, speed })
        };
        // 16 GiB / 4 / 16 B
        assert_eq!(most(16, 1, Speed::Gpu), 1 << 28);
        assert_eq!(most(64, 4, Speed::Gpu), 1 << 28);
        assert_eq!((most(80, 1, Speed::Gpu), most(1, 1, Speed::Gpu)), (1 << 29, 1 << 25));
        assert_eq!(most(80, 1, Speed::Software), 1 << 25);
    }

    #[test]
    #[cfg(not(feature = "cuda"))]
    fn nothing_is_measured_where_there_is_no_device() {
        let settings = MeasureSettings { device: DeviceKind::Cuda, ..MeasureSettings::for_cores(2) };
        let measured = measure_operators(&settings, &mut |_| panic!("nothing is done"), &AtomicBool::new(false));
        assert!(matches!(measured, Err(MeasureError::Device(error)) if error.kind == DeviceKind::Cuda));
    }

    #[test]
    fn every_class_is_timed_for_every_number_of_ranks() {
        let settings = MeasureSettings { ranks: vec![1, 2], seconds_per_case: 0.0, ..MeasureSettings::for_cores(2) };
        let mut seen = Vec::new();
        let stop = AtomicBool::new(false);
        // The first shape of each class is the smallest.
        let mut cases = cases::grid(&NumberFormat::ALL, Speed::Processors);
        cases.dedup_by_key(|case| (case.operator, case.format));
        let cases = CasesByRanks::from([(1, cases.clone()), (2, cases)]);
        let samples = measure_cases(&cases, &settings, &mut |progress| seen.push(progress), &stop).expect("it ends");
        // What was noise was measured again.
        let last = seen.last().expect("progress is told");
        assert!(last.done == last.total && (ROUNDS..=ROUNDS + AGAIN).contains(&last.done.div_ceil(samples.len())));
        for sample in &samples {
            assert!(sample.forward_s > 0.0 && sample.backward_s >= 0.0, "{sample:?}");
            assert!((0.0..=SPREAD_MAX).contains(&sample.spread), "{sample:?}");
            assert!(!sample.operator.is_over_parameters() || sample.backward_s == 0.0, "{sample:?}");
        }
        let timed = |operator, format, ranks| {
            samples.iter().any(|s| s.operator == operator && s.format == format && s.ranks == ranks)
        };
        for (operator, ranks) in OperatorClass::ALL.into_iter().flat_map(|operator| [(operator, 1), (operator, 2)]) {
            let single = operator != OperatorClass::Rounding;
            assert_eq!(timed(operator, NumberFormat::Fp32, ranks), single, "{operator:?}");
            // Gradients are summed and parameters updated in single precision.
            let half = !operator.is_over_parameters() || !single;
            for format in [NumberFormat::Fp16, NumberFormat::Bf16] {
                assert_eq!(timed(operator, format, ranks), half, "{operator:?}");
            }
        }
    }

    #[test]
    fn what_is_known_tells_when_another_program_is_at_work() {
        let sample = |ranks, rows, seconds| OperatorSample {
            operator: OperatorClass::Linear,
            format: NumberFormat::Fp32,
            ranks,
            threads: 1,
            shape: vec![rows, 64, 64],
            forward_s: seconds,
            backward_s: 2.0 * seconds,
            spread: 0.0,
        };
        let known = [sample(1, 8, 1e-3), sample(1, 16, 2e-3), sample(1, 512, 1.0), sample(2, 32, 5e-3)];
        let yardstick = yardstick(&known, 1).expect("two are short enough");
        assert_eq!(yardstick.shape[0], 16);
        assert!(!is_disturbed(&[sample(1, 16, 2.4e-3), sample(1, 8, 1.0)], &[yardstick]));
        assert!(is_disturbed(&[sample(1, 8, 1e-3), sample(1, 16, 2.6e-3)], &[yardstick]));
        assert!(!is_disturbed(&[sample(1, 8, 1.0)], &[]));
    }

    fn linear(spread: f64) -> OperatorSample {
        OperatorSample {
            operator: OperatorClass::Linear,
            format: NumberFormat::Fp32,
            ranks: 1,
            threads: 1,
            shape: vec![32, 16, 16],
            forward_s: 1e-5,
            backward_s: 2e-5,
            spread,
        }
    }

    #[test]
    fn times_of_which_the_harness_leaves_nothing_are_noise() {
        let times = CaseTimes { forward: vec![2e-6, 1e-6, 3e-6], backward: vec![-3e-6, -2e-6, -1e-6] };
        let case = Case::of(&linear(0.0).case(), 1).expect("it can be timed");
        let lost = sample(case, 1, 1, &[&times]);
        assert_eq!((lost.forward_s, lost.backward_s, lost.spread), (2e-6, RESOLUTION_S, SPREAD_MAX));
        assert!((spread(&[1.0, 2.0, 3.0]) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn what_stayed_noise_is_measured_again() {
        let wanted = || BTreeSet::from([linear(0.0).case()]);
        assert_eq!(untimed(wanted(), &[linear(0.2)], 1), BTreeSet::new());
        assert_eq!(untimed(wanted(), &[linear(SPREAD_MAX)], 1), wanted());
        let case = Case::of(&linear(0.0).case(), 1).expect("it can be timed");
        let cases = CasesByRanks::from([(1, vec![case]), (2, vec![case])]);
        assert_eq!(noisy(&cases, &[linear(SPREAD_MAX)]), CasesByRanks::from([(1, vec![case])]));
        let mut known = vec![linear(2.0)];
        replace(&mut known, linear(3.0));
        assert_eq!(known, [linear(2.0)]);
        replace(&mut known, linear(0.1));
        assert_eq!(known, [linear(0.1)]);
    }

    #[test]
    fn yardsticks_are_no_part_of_what_was_asked_for() {
        let settings = MeasureSettings { seconds_per_case: 0.0, ..MeasureSettings::for_cores(1) };
        let case = |rows| OperatorCase {
            operator: OperatorClass::Linear,
            format: NumberFormat::Fp32,
            ranks: 1,
            shape: vec![rows, 16, 16],
        };
        let stop = AtomicBool::new(false);
        let measured = |wanted: u64, known: &[OperatorSample]| {
            let samples = measure_these(&BTreeSet::from([case(wanted)]), known, &settings, &mut |_| {}, &stop);
            samples.expect("it ends")
        };
        let first = measured(32, &[]);
        let second = measured(48, &first);
        assert_eq!(second.iter().map(OperatorSample::case).collect::<Vec<_>>(), [case(48)]);
    }

    #[test]
    fn a_measurement_can_be_stopped() {
        let settings = MeasureSettings { ranks: vec![2], seconds_per_case: 1.0, ..MeasureSettings::for_cores(2) };
        let stopped = measure_operators(&settings, &mut |_| {}, &AtomicBool::new(true));
        assert_eq!(stopped, Err(MeasureError::Stopped));
    }

    #[test]
    fn the_usual_numbers_of_ranks_end_with_all_cores() {
        assert_eq!(MeasureSettings::for_cores(1).ranks, [1]);
        assert_eq!(MeasureSettings::for_cores(6).ranks, [1, 2, 4, 6]);
        assert_eq!(MeasureSettings::for_cores(8).ranks, [1, 2, 4, 8]);
        let four = Devices { kind: DeviceKind::Cuda, name: "x".into(), count: 4, memory: None, speed: Speed::Gpu };
        let gpus = MeasureSettings::of(&four, 16);
        assert_eq!((gpus.ranks, gpus.cores, gpus.device), (vec![1, 2, 4], 16, DeviceKind::Cuda));
    }
}
