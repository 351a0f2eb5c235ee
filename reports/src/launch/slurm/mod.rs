//! Slurm: torchrun on each machine of a job, or mpirun for this program's own executor.
//!
//! # Source
//!
//! Slurm 24.05, `sbatch(1)`, `srun(1)` and `scontrol(1)`; Open MPI 4.1, `mpirun(1)`; PyTorch 2,
//! `torch/distributed/run.py`.

mod container;
mod executor;
mod launcher;
mod site;

use super::draft::{Draft, Finished, Flag, Head};
use super::error::LaunchError;
use super::field::Field;
use super::software::Engine;
use trainyard_hardware_profiles::{booked, usable_in_block};
use trainyard_plan::{Pricing, REQUEUE, longest_lead, signal_lead};
use trainyard_units::{Seconds, human_duration};

/// Ratio of the time after which Slurm ends a job to the slow end of its prediction.
const PATIENCE: f64 = 1.5;

/// The longest time that a job asks for where nothing is said, in minutes: a day, which most partitions allow (`MaxTime`). A
/// longer run queues itself again.
const LONGEST_MIN: u64 = 24 * 60;

/// The least minutes in which a job can be signalled, save and be queued again.
const SHORTEST_MIN: u64 = 10;

/// How often a job is queued again at most, besides as often as its run is longer than a job: one that stops each time
/// before it has come further would run for ever.
const RESTARTS_MAX: u64 = 50;

/// The GPUs of one board of NVIDIA HGX: plans that use as many take whole machines.
const GPUS_OF_A_BOARD: u32 = 8;

/// Stands for what loads the software on the machines.
const ENVIRONMENT: &str = "ENVIRONMENT";

/// What a user must do for a training on a capacity block, of whose end Slurm knows nothing.
const BLOCK: &str = "book the block, and reserve its machines until 30 minutes before it ends, when they are terminated (scontrol \
                     create reservation ... EndTime=...; sbatch --reservation=NAME): no job may be longer than what is left \
                     (--time), and one that is queued again after that waits for machines that are gone";

pub(super) const STARTS: &[Engine] = Engine::ALL;

/// Writes `slurm.sh` and the files that must lie beside it.
pub(super) fn files(draft: Draft<'_>) -> Result<Finished, LaunchError> {
    if let Some(limit) = draft.job.job_limit().filter(|_| longest_min(&draft) < SHORTEST_MIN) {
        let why = format!("a job needs {SHORTEST_MIN} minutes to be signalled, save and be queued again");
        let (field, value) = ("job.campaign.job_limit", human_duration(limit));
        return Err(LaunchError::Inexpressible { field, value, why, others: Vec::new() });
    }
    match draft.engine {
        Engine::Executor => executor::files(draft),
        _ => launcher::files(draft),
    }
}

/// Returns the most minutes that a job may ask for: those of the job's `campaign.job_limit`, else a day; and no more than those
/// of the capacity block.
fn longest_min(draft: &Draft<'_>) -> u64 {
    let most = draft.job.job_limit().map_or(LONGEST_MIN, |limit| (limit.0 / 60.0) as u64);
    most.min(block_min(draft).unwrap_or(u64::MAX))
}

/// Returns the minutes for which machines run in the capacity block that is paid for, if there is one.
fn block_min(draft: &Draft<'_>) -> Option<u64> {
    let in_block = draft.job.plan().pricing() == Pricing::CapacityBlock;
    // A document may state that a training takes no time.
    let elapsed = Seconds(draft.job.document().prediction.elapsed_s().max(1.0));
    in_block.then(|| (usable_in_block(booked(elapsed)).0 / 60.0) as u64)
}

/// Returns the minutes that a job asks for, those of the run with room, and whether they are cut to the most.
fn minutes(draft: &Draft<'_>) -> (u64, bool) {
    let (wanted, most) = ((draft.job.runs_at_most().0 * PATIENCE / 60.0).ceil().max(60.0), longest_min(draft));
    let is_cut = wanted > most as f64;
    (if is_cut { most } else { wanted as u64 }, is_cut)
}

/// Returns the `--time` of the job; says what happens to a longer run.
fn time(draft: &mut Draft<'_>) -> String {
    let (minutes, is_cut) = minutes(draft);
    let (days, hours, rest) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    let time = format!("--time={days}-{hours:02}:{rest:02}:00");
    if is_cut {
        let run = human_duration(draft.job.runs_at_most());
        let told = format!(
            "limit of one job, of a training that runs for up to {run}: the job queues itself again before that and goes on from its last checkpoint"
        );
        if block_min(draft) == Some(minutes) {
            draft.remark(format!("{time}: what the block leaves a training that runs for up to {run}"));
        } else if draft.job.job_limit().is_some() {
            draft.remark(format!("{time}, job.campaign.job_limit: {told}"));
        } else {
            let advice = "raise it to the MaxTime of your partition (`scontrol show partition`), which campaign.job_limit of a job tells the plan too";
            draft.leaves(&time, format!("{told}; {advice}"));
        }
    }
    time
}

/// Returns the seconds before the end of its time at which Slurm signals the shell, in whole minutes: those that ranks
/// need for a slow step and a checkpoint after it, as many times as the launcher waits so long, and those for queueing the
/// job again; at most half of the job's time, and says so.
fn lead_s(draft: &mut Draft<'_>, waits: u32) -> u64 {
    let (step, saving) = (draft.job.slow_step(), draft.job.saving_at_most());
    let wanted = signal_lead(step, saving * f64::from(waits));
    let most = longest_lead(Seconds(minutes(draft).0 as f64 * 60.0));
    // A document may hold any time: it is compared before it becomes a whole number.
    if wanted <= most {
        return wanted.0 as u64;
    }
    let (wanted, lead) = (human_duration(wanted), human_duration(most));
    draft.remark(format!(
        "Slurm signals {lead} before the end of the job, where a slow step, a checkpoint and what queues the job again may need {wanted}: raise --time, and the seconds of --signal and timeout"
    ));
    most.0 as u64
}

/// Returns the lines before the start that define how the job is queued again, and what the shell does on Slurm's signal
/// when its time is nearly over: `tell` has the ranks write a checkpoint and end, for which they have the lead of the
/// signal, and then the job is queued again if `unless` is false.
fn requeue(draft: &Draft<'_>, lead_s: u64, tell: &str, unless: &str) -> String {
    let patience = lead_s - REQUEUE.0 as u64;
    let jobs = draft.job.runs_at_most().0 * PATIENCE / 60.0 / longest_min(draft) as f64;
    let most = RESTARTS_MAX + jobs.clamp(0.0, 10_000.0) as u64;
    format!(
        "again() {{
  if [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {most} ]; then
    scontrol requeue \"$SLURM_JOB_ID\" || echo \"the job is not queued again: sbatch starts it again\" >&2
  else
    echo \"queued again {most} times already: sbatch starts the job again\" >&2
  fi
}}
told=
stop() {{
  told=1
  {tell} || echo \"the ranks could not be told to stop\" >&2
  timeout {patience} tail --pid=\"$launcher\" -f /dev/null || true
  {unless}again
}}
"
    )
}

/// Returns lines before the start that keep which checkpoint is the newest, as `command` tells it.
fn newest(command: &str) -> String {
    format!("newest() {{\n  {command}\n}}\nbefore=$(newest)\n")
}

/// Returns lines after the end that queue the job again where a rank failed, as Slurm does where a machine does, if it has come
/// further than it had before, and not because of someone who told the ranks to end: what fails without a newer checkpoint would
/// fail for ever.
fn again_if_further(unless: &str) -> String {
    format!(
        "if [ \"$status\" != 0 ] && [ -z \"$told\" ] && [ \"$(newest)\" != \"$before\" ]; then
  {unless}{{ echo \"ended with $status, with a newer checkpoint than at its start\" >&2; again; }}
fi
"
    )
}

/// Says that the job takes whole machines, where a cluster file may describe a part of one.
fn whole_machines(draft: &mut Draft<'_>) {
    let is_own = draft.job.plan().cluster().file.is_some();
    if is_own && draft.job.has_gpus() && draft.job.processes() < GPUS_OF_A_BOARD {
        let what = "the job takes whole machines, with the GPUs that it does not use: where the cluster file has a part of each alone, take out --exclusive and write the memory and the processors of that part, --mem and --cpus-per-task";
        draft.assumes(Field::Instance, "--exclusive, --mem=0", what);
    }
}

/// Returns the line in whose place the user loads the software, unless an image has it.
fn environment_line(draft: &mut Draft<'_>) -> String {
    let what =
        "what loads the software, such as `module load …` or `source /shared/venv/bin/activate`, in place of its line";
    if draft.engine == Engine::Executor {
        draft.leaves(ENVIRONMENT, what);
    } else {
        draft.asks(Flag::Image, ENVIRONMENT, &format!("{what}; or an image, which the plug-in Pyxis starts"));
    }
    format!("# {ENVIRONMENT}\n")
}

/// Returns the directives of a script for `tasks` tasks on each machine, whose shell gets a signal so many seconds before
/// its time is over.
fn directives(draft: &mut Draft<'_>, tasks: u32, lead_s: u64) -> String {
    let time = time(draft);
    let site = site::directives(draft);
    if draft.job.plan().pricing() == Pricing::CapacityBlock {
        draft.note(Field::Pricing, BLOCK);
    }
    whole_machines(draft);
    let job = draft.job;
    let mut lines = vec![
        format!("--job-name={}", job.name()),
        format!("--nodes={}", job.machines()),
        format!("--ntasks-per-node={tasks}"),
        "--exclusive".into(),
        // All memory of the machine: without it a job has what the partition gives to each processor.
        "--mem=0".into(),
        time,
        "--output=%x-%j.log".into(),
        // A requeued job appends to the same file.
        "--open-mode=append".into(),
        format!("--signal=B:USR1@{lead_s}"),
        "--requeue".into(),
    ];
    lines.splice(3..3, site);
    let lines: String = lines.iter().map(|line| format!("#SBATCH {line}\n")).collect();
    lines + &site::places(draft)
}

/// Returns the whole script. What loads software, such as `module` and conda's `activate`, may read variables that are not
/// set.
fn script(directives: &str, head: &Head, loads: &str, body: &str) -> String {
    format!("#!/usr/bin/env bash\n{directives}{}\n{loads}set -euo pipefail\n\n{body}", head.comment())
}
