//! This machine measured, and its profile written.

use super::execution::stop_on_interrupt;
use super::{device, processes};
use crate::arguments::{CalibrateArguments, Launcher};
use crate::failure::{Exit, Failure};
use crate::files::{self, Written};
use crate::job::{self, Job, LOCAL, local_profile};
use crate::machine;
use crate::output::Output;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use trainyard_calibration::{fit_profile, profile_to_toml};
use trainyard_executor::{
    Devices, MeasureError, MeasureProgress, MeasureSettings, copy_bandwidth, device_formats, framework,
    measure_collectives, measure_collectives_of, measure_operators, measure_overlap, measure_overlap_of, measure_these,
    replace, untimed,
};
use trainyard_hardware_profiles::{
    CollectiveOperation, CollectiveSample, DeviceKind, MeasuredMachine, NumberFormat, OperatorCase, OperatorClass,
    OperatorSample, PROFILE_SCHEMA,
};
use trainyard_host::{Clock, cores};
use trainyard_plan::Fixed;
use trainyard_planner::{Limits, NoPlan, cases_to_measure, optimum};
use trainyard_reports as reports;
use trainyard_units::{Bytes, BytesPerSecond, Seconds, counted, human_duration};

/// Measures this machine, or all hosts that a launcher started processes on, and shows the profile.
pub(super) fn calibrate(arguments: &CalibrateArguments, output: &Output) -> Result<Exit, Failure> {
    let kind = DeviceKind::from(arguments.device);
    device::find(kind)?;
    let path = arguments.out.clone().unwrap_or_else(|| local_profile(kind));
    let stop = stop_on_interrupt();
    let profile = match arguments.launcher {
        Launcher::Threads => measure(&path, kind, stop, output)?,
        Launcher::Mpi => match measure_hosts(&path, kind, stop, output)? {
            Some(profile) => profile,
            // The first process continues alone.
            None => return Ok(Exit::Done),
        },
    };
    output.result(&profile, || reports::profile(&profile, output.width()));
    output.note(format!("profile written to {}", path.display()));
    Ok(Exit::Done)
}

/// Returns the profile of all hosts whose processes a launcher started, as one machine. Communication between ranks is
/// measured between the hosts; a rank's computation on the first host, with as many ranks at work as live there. Hosts
/// are assumed to be alike. Returns `None` in processes other than the first, whose part is then done.
fn measure_hosts(
    path: &Path,
    kind: DeviceKind,
    stop: &AtomicBool,
    output: &Output,
) -> Result<Option<MeasuredMachine>, Failure> {
    let (processes, output) = processes::join(Launcher::Mpi, None, output)?;
    let count = processes.count();
    let world = processes.world(count).map_err(|error| processes::failure(&error))?;
    let between = measure_collectives_of(&world, stop)
        .and_then(|collectives| Ok((collectives, measure_overlap_of(&world, kind, stop)?)))
        .map_err(|error| failed(&error));
    let (mut collectives, overlap) = processes::ended(&world, between, &output)?;
    let (is_root, ranks, here, threads) =
        (world.is_root(), world.ranks(), world.ranks_on_host(), world.threads_per_rank());
    drop(world);
    if !is_root {
        return Ok(None);
    }
    files::expect_room(path, Written::File)?;
    let settings = MeasureSettings::for_cores(here * threads);
    let mut settings = MeasureSettings { ranks: vec![1, here], device: kind, ..settings };
    settings.ranks.dedup();
    let mut operators = operators(None, &settings, stop, &output)?;
    // Ranks on other hosts do not disturb those on this one.
    let all_at_work: Vec<OperatorSample> = operators
        .iter()
        .filter(|sample| sample.ranks as usize == here)
        .map(|sample| OperatorSample { ranks: ranks as u32, ..sample.clone() })
        .collect();
    operators.retain(|sample| sample.ranks == 1 && ranks > 1);
    operators.extend(all_at_work);
    // The two ranks of a pair exchange messages as the first and the last of all do.
    let of_pair = collectives.iter().filter(|sample| sample.operation == CollectiveOperation::Send && ranks > 2);
    let of_pair: Vec<_> = of_pair.map(|sample| CollectiveSample { ranks: 2, ..sample.clone() }).collect();
    collectives.extend(of_pair);
    let machine = Machine::of(device::find(kind)?, ranks, ranks.div_ceil(here));
    keep(path, machine, operators, collectives, overlap).map(Some)
}

/// Times these operators, of a machine of which some are known, or those of any model, with a progress bar.
fn operators(
    these: Option<(&BTreeSet<OperatorCase>, &[OperatorSample])>,
    settings: &MeasureSettings,
    stop: &AtomicBool,
    output: &Output,
) -> Result<Vec<OperatorSample>, Failure> {
    let bar = output.bar(1, "measuring operators {bar:30} {pos}/{len}  {eta} left");
    let (clock, mut lines) = (Clock::start(), Lines::default());
    let mut progress = |progress: MeasureProgress| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
        if let Some(line) = lines.after(progress, clock.seconds()).filter(|_| !output.live()) {
            output.note(line);
        }
    };
    let operators = match these {
        Some((these, known)) => measure_these(these, known, settings, &mut progress, stop),
        None => measure_operators(settings, &mut progress, stop),
    };
    bar.finish_and_clear();
    let operators = operators.map_err(|error| failed(&error))?;
    warn_of_noise(operators.iter(), output);
    Ok(operators)
}

fn warn_of_noise<'a>(operators: impl Iterator<Item = &'a OperatorSample>, output: &Output) {
    if let Some(warning) = unsteady(operators.map(|sample| sample.spread).collect()) {
        output.warn(warning);
    }
}

/// Refuses a place that the profile of this machine cannot be written to, before anything is measured.
fn expect_profile(path: &Path) -> Result<(), Failure> {
    files::expect_room(path, Written::File)
        .map_err(|failure| failure.hint("TRAINYARD_PROFILE names another place for the profile of this machine"))
}

/// Seconds of measuring until it is told how much longer it takes, and from one such line to the next.
const FIRST_S: f64 = 5.0;
const QUIET_S: f64 = 30.0;

/// The lines of a measurement where no progress bar can be drawn.
#[derive(Default)]
struct Lines {
    /// When the next one is due.
    next_s: Option<f64>,
}

impl Lines {
    /// Returns the line that is due after so many seconds.
    fn after(&mut self, MeasureProgress { done, total }: MeasureProgress, now_s: f64) -> Option<String> {
        if done == 0 || done >= total || now_s < self.next_s.unwrap_or(FIRST_S) {
            return None;
        }
        self.next_s = Some(now_s + QUIET_S);
        let left = Seconds(now_s / done as f64 * (total - done) as f64);
        let percent = done as f64 / total as f64 * 100.0;
        Some(format!("  {percent:.0} % measured, about {} left", human_duration(left)))
    }
}

fn failed(error: &MeasureError) -> Failure {
    let exit = if *error == MeasureError::Stopped { Exit::Stopped } else { Exit::Failed };
    Failure::of(exit, error)
}

/// Measures this machine's devices of a kind, and writes their profile to `path`: the operators of any model at a grid
/// of shapes.
fn measure(path: &Path, kind: DeviceKind, stop: &AtomicBool, output: &Output) -> Result<MeasuredMachine, Failure> {
    expect_profile(path)?;
    let devices = device::find(kind)?;
    let settings = MeasureSettings::of(&devices, cores());
    let operators = operators(None, &settings, stop, output)?;
    keep_new(path, devices, &settings, operators, stop)
}

/// What a job needs to know of the devices that it trains on.
pub(super) struct Needs {
    devices: Devices,
    settings: MeasureSettings,
    /// Operators at the shapes that its candidates compute.
    cases: BTreeSet<OperatorCase>,
}

impl Needs {
    /// Returns what is needed to plan `job` on devices of a kind. A job that no plan suits is refused before anything is
    /// measured.
    pub(super) fn of(job: &Job, limits: &Limits, kind: DeviceKind) -> Result<Self, Failure> {
        let devices = device::find(kind)?;
        let settings = MeasureSettings::of(&devices, cores());
        let problem = job.problem_on(blank(&devices, job, &limits.fixed)?, LOCAL, None)?;
        let ranks: Vec<u32> = settings.ranks.iter().map(|ranks| *ranks as u32).collect();
        let cases = cases_to_measure(&problem, &limits.fixed, &ranks, kind.is_cpu());
        if cases.is_empty() {
            job::solve(&problem, limits, job)?;
        }
        let (operators, collectives) = stand_ins(&cases, &settings.ranks);
        let machine = Machine::of(devices.clone(), devices.count, 1).unmeasured();
        expect_a_fit(job, limits, MeasuredMachine { operators, collectives, ..machine })?;
        Ok(Self { devices, settings, cases })
    }

    /// Returns `true` if a profile is that of these devices as they are now.
    fn are_of(&self, known: &MeasuredMachine) -> bool {
        (known.processor.as_str(), known.devices as usize) == (self.devices.name.as_str(), self.devices.count)
            && known.framework == framework(known.device)
    }

    /// Returns the profile at `path` with all that is needed; what it does not hold is measured and added, if it is of
    /// these devices. Without `known`, what is there, it is written anew.
    pub(super) fn met(
        self,
        path: &Path,
        known: Option<MeasuredMachine>,
        stop: &AtomicBool,
        output: &Output,
    ) -> Result<MeasuredMachine, Failure> {
        let most = self.settings.parameters_max;
        let Some(mut known) = known else {
            let number = counted(untimed(self.cases.clone(), &[], most).len() as u64, "operator");
            output.note(format!("calibrate measuring {number} of this job; the profile goes to {}", path.display()));
            expect_profile(path)?;
            let new = operators(Some((&self.cases, &[])), &self.settings, stop, output)?;
            return keep_new(path, self.devices, &self.settings, new, stop);
        };
        let missing = if self.are_of(&known) { untimed(self.cases, &known.operators, most) } else { BTreeSet::new() };
        if missing.is_empty() {
            let (at, measured) = (path.display(), &known.measured);
            output.note(format!("calibrate reused {at} of {measured}; --recalibrate measures again"));
            warn_of_noise(known.operators.iter(), output);
            return Ok(known);
        }
        let noisy = known.operators.iter().filter(|sample| missing.contains(&sample.case())).count();
        let number = counted(missing.len() as u64, "operator");
        let why = if noisy > 0 { format!("lacks, or has only noise of ({noisy})") } else { "lacks".into() };
        output.note(format!("calibrate measuring {number} of this job that {} {why}", path.display()));
        expect_profile(path)?;
        let new = operators(Some((&missing, &known.operators)), &self.settings, stop, output)?;
        for sample in new {
            replace(&mut known.operators, sample);
        }
        files::write(path, profile_to_toml(&known))?;
        Ok(known)
    }
}

/// Refuses a job of which no plan fits into the memory of `machine`, as the planner does once times are known.
fn expect_a_fit(job: &Job, limits: &Limits, machine: MeasuredMachine) -> Result<(), Failure> {
    let Ok(machine) = fitted(machine) else { return Ok(()) };
    let problem = job.problem_on(machine, LOCAL, None)?;
    // The first plan that fits is enough.
    let limits = Limits { max_simulations: Some(1), ..limits.clone() };
    match optimum(&problem, &limits) {
        Err(error @ NoPlan::OutOfMemory { .. }) => Err(job.without_plan(&error)),
        // What else may be wrong depends on times.
        _ => Ok(()),
    }
}

/// Returns times for these operators, and for exchanges between ranks, that stand in for those that were not measured: all alike.
fn stand_ins(cases: &BTreeSet<OperatorCase>, ranks: &[usize]) -> (Vec<OperatorSample>, Vec<CollectiveSample>) {
    use CollectiveOperation::{AllGather, AllReduce, AllToAll, ReduceScatter, Send};
    let operator = |OperatorCase { operator, format, ranks, shape }: OperatorCase| OperatorSample {
        operator,
        format,
        ranks,
        threads: 1,
        shape,
        forward_s: 1.0,
        backward_s: if operator.is_over_parameters() { 0.0 } else { 1.0 },
        spread: 0.0,
    };
    let operations = [AllReduce, Send, AllGather, ReduceScatter, AllToAll];
    let exchanged = operations.into_iter().flat_map(|operation| ranks.iter().map(move |own| (operation, *own)));
    let exchanges = exchanged.filter(|(_, ranks)| *ranks > 1).flat_map(|(operation, ranks)| {
        [64, 1 << 24].map(|bytes| CollectiveSample {
            operation,
            ranks: ranks as u32,
            bytes,
            seconds: bytes as f64 * 1e-9,
        })
    });
    (cases.iter().cloned().map(operator).collect(), exchanges.collect())
}

/// Returns a machine of which nothing is known but the formats that a job may compute in: on processors single
/// precision, if neither job nor flags name another, because they compute in half precision no faster.
fn blank(devices: &Devices, job: &Job, fixed: &Fixed) -> Result<MeasuredMachine, Failure> {
    let free = job.spec.training.precision.is_none() && fixed.precision.is_none();
    let formats = device_formats(devices.kind).map_err(|error| Failure::of(Exit::Input, &error))?;
    let formats = formats.into_iter().filter(|own| !(devices.kind.is_cpu() && free) || *own == NumberFormat::Fp32);
    let known = formats.map(|format| OperatorSample {
        operator: OperatorClass::Residual,
        format,
        ranks: 1,
        threads: 1,
        shape: vec![1, 1],
        forward_s: 1.0,
        backward_s: 1.0,
        spread: 0.0,
    });
    let machine = Machine::of(devices.clone(), devices.count, 1);
    fitted(MeasuredMachine { operators: known.collect(), ..machine.unmeasured() })
}

/// Measures what else a profile holds, and writes it.
fn keep_new(
    path: &Path,
    devices: Devices,
    settings: &MeasureSettings,
    operators: Vec<OperatorSample>,
    stop: &AtomicBool,
) -> Result<MeasuredMachine, Failure> {
    let count = devices.count;
    let collectives = measure_collectives(settings, stop).map_err(|error| failed(&error))?;
    let overlap = measure_overlap(settings, stop).map_err(|error| failed(&error))?;
    keep(path, Machine::of(devices, count, 1), operators, collectives, overlap)
}

/// Spread above which measurements are unsteady. On a quiet machine a quarter of the operators spread by a fifth;
/// beside two builds on two cores, by more than 1.
const UNSTEADY: f64 = 0.5;

/// Returns a warning if repeated measurements spread as they do while something else keeps the machine busy.
fn unsteady(mut spreads: Vec<f64>) -> Option<String> {
    spreads.sort_by(f64::total_cmp);
    let upper_quartile = *spreads.get(spreads.len() * 3 / 4)?;
    (upper_quartile > UNSTEADY).then(|| {
        format!(
            "a quarter of the operators took times that spread by more than {:.0} % from one measurement to the next: \
             the machine seems to do something else too; calibrate again when it is idle (--recalibrate)",
            upper_quartile * 100.0
        )
    })
}

/// The description of a machine in its profile, besides the measurements.
struct Machine {
    kind: DeviceKind,
    /// The name of the processor, or of the GPU.
    processor: String,
    /// Number of ranks at work at the same time.
    devices: usize,
    /// Memory of all devices together.
    memory: Bytes,
}

impl Machine {
    /// Describes `devices` ranks on `hosts` hosts like this one, which has those of `here`.
    fn of(here: Devices, devices: usize, hosts: usize) -> Self {
        let memory = here.memory.unwrap_or_else(machine::memory);
        Self { kind: here.kind, processor: here.name, devices, memory: Bytes(memory.0 * hosts as u64) }
    }

    /// Returns its profile before anything of it was timed.
    fn unmeasured(self) -> MeasuredMachine {
        MeasuredMachine {
            schema: PROFILE_SCHEMA.into(),
            name: LOCAL.into(),
            processor: self.processor,
            device: self.kind,
            devices: self.devices as u32,
            memory: self.memory,
            measured: machine::today(),
            framework: framework(self.kind).into(),
            copy_bandwidth: BytesPerSecond(1.0),
            overlap_slowdown: None,
            corrections: Vec::new(),
            operators: Vec::new(),
            collectives: Vec::new(),
        }
    }
}

/// Writes the profile of a machine.
fn keep(
    path: &Path,
    machine: Machine,
    operators: Vec<OperatorSample>,
    collectives: Vec<CollectiveSample>,
    overlap_slowdown: Option<f64>,
) -> Result<MeasuredMachine, Failure> {
    let copy_bandwidth = copy_bandwidth(machine.kind).map_err(|error| failed(&error))?;
    let measured = MeasuredMachine { copy_bandwidth, overlap_slowdown, operators, collectives, ..machine.unmeasured() };
    let profile = fitted(measured)?;
    files::write(path, profile_to_toml(&profile))?;
    Ok(profile)
}

fn fitted(measurements: MeasuredMachine) -> Result<MeasuredMachine, Failure> {
    fit_profile(measurements)
        .map_err(|problem| Failure::new(Exit::Failed, "the measurements make no sense").because(problem.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibration_that_is_interrupted_leaves_nothing_to_go_on_from() {
        assert_eq!(failed(&MeasureError::Stopped).code() as u8, 130);
        let other = MeasureError::Rank { rank: 1, reason: "no memory".into() };
        assert_eq!(failed(&other).code(), Exit::Failed);
    }

    #[test]
    fn a_long_measurement_tells_how_much_longer_it_takes() {
        let mut lines = Lines::default();
        let mut after = |done, now_s| lines.after(MeasureProgress { done, total: 100 }, now_s);
        assert_eq!(after(4, 4.0), None);
        assert_eq!(after(10, 6.0).expect("a line"), "  10 % measured, about 54.0 s left");
        assert_eq!(after(20, 20.0), None);
        assert!(after(50, 36.0).is_some() && after(100, 80.0).is_none());
    }

    #[test]
    fn a_machine_that_does_something_else_is_noticed() {
        assert_eq!(unsteady(vec![]), None);
        assert_eq!(unsteady(vec![0.05, 0.1, 0.2, 4.0, 0.1, 0.1, 0.2, 0.2]), None);
        let warning = unsteady(vec![0.1, 0.3, 1.1, 4.0]).expect("a busy machine");
        assert!(warning.contains("more than 400 %"), "{warning}");
    }
}
