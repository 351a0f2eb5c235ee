//! `trainyard plan`: a job in, a recommended plan out; or a fleet of jobs in, plans and a schedule out.

use crate::arguments::PlanArguments;
use crate::commands::{export, fleet};
use crate::failure::{Exit, Failure};
use crate::headline::Headline;
use crate::history::{History, Outcome};
use crate::output::{Output, json};
use crate::{files, job, read};
use std::path::Path;
use trainyard_hardware_profiles::Service;
use trainyard_history::Kind;
use trainyard_plan::document::{Alternative, PlanDocument, PriceUsed};
use trainyard_plan::{CampaignSpec, ClusterSpec, PlanSpec};
use trainyard_planner::{machine, point};
use trainyard_reports::{self as reports, Breadth, Detail, LaunchOptions, NextStep, Target, file_argument};

/// Default number of clusters shown: the recommended one and the runners-up.
const TOP: u16 = 5;

/// Recommends a plan for a job, or plans for a fleet of jobs that share a pool.
pub(crate) fn plan(arguments: &PlanArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    if let Some(path) = arguments.job.job.as_deref().filter(|path| job::is_fleet(path)) {
        return fleet::plan(path, arguments, history, output);
    }
    if arguments.plans.is_some() {
        return Err(Failure::input("`--plans` is for fleets, but this is a job")
            .hint("a fleet has a [pool] and a [[job]] for each kind of jobs"));
    }
    plan_job(arguments, history, output)
}

/// Recommends a plan. A plan that misses the goal is still shown.
fn plan_job(arguments: &PlanArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    let mut job = job::read(&arguments.job)?;
    job.aim(&arguments.goal)?;
    let limits = job::limits(&arguments.search, usize::from(arguments.top.unwrap_or(TOP)))?;
    let folder = arguments.out.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let problem = job.problem(folder)?;
    let recommended = job::solve(&problem, &limits, &job)?;
    let document = match arguments.point {
        None => recommended,
        Some(number) => point(&problem, &recommended, usize::from(number))
            .map_err(|error| Failure::of(Exit::Input, &error).maybe_hint(error.hint()))?,
    };
    let plot = &arguments.plot;
    let drawn = plot.plot.as_deref().map(|_| reports::front_plot(&document, Breadth::Wide)).transpose();
    let picture = drawn.map_err(|why| Failure::input("cannot draw time against cost").because(why).hint(UNPRICED))?;
    let mut written: Vec<(&Path, Vec<u8>)> = Vec::new();
    written.extend(arguments.out.as_deref().map(|path| (path, json(&document).into_bytes())));
    written.extend(picture.as_ref().and_then(|picture| plot.file(picture)));
    files::write_all(&written)?;
    let kept = history.keep(outcome(&document, folder), output);
    output.result(&document, || {
        // Who asks for a number of runners-up wants to see them.
        if output.verbose() || arguments.top.is_some() {
            return reports::plan(&document, Detail::Full, output.width());
        }
        let next = next_steps(
            &document,
            arguments.out.as_deref(),
            job.file_that_says_all().filter(|_| arguments.search.fix.is_empty()),
        );
        reports::plan(&document, Detail::Brief(&next), output.width())
    });
    kept.tell(output);
    if let Some(path) = &arguments.out {
        output.note(format!("plan written to {}", path.display()));
    }
    if let Some(note) = plot.note() {
        output.note(note);
    }
    let Some(why) = document.missed else { return Ok(Exit::Done) };
    Err(Failure::new(Exit::MissedGoal, why).hint(match arguments.point {
        None => "the plan above comes nearest",
        Some(_) => "without --point the plan that comes nearest is taken",
    }))
}

/// Lists what to type after a plan was made, from the file `job` if one says all of it, and kept in the file `out` if it was.
fn next_steps(document: &PlanDocument, out: Option<&Path>, job: Option<&Path>) -> Vec<NextStep> {
    let step = |command: String, does| NextStep { command, does };
    let file = out.unwrap_or(Path::new("plan.json"));
    let plan = file_argument(file);
    let mut steps = Vec::new();
    if out.is_none() {
        steps.push(step(format!("--out {plan}"), "added to this command, keeps the plan"));
    }
    let cluster = &document.plan.cluster;
    if cluster.profile.is_some() {
        steps.push(step(format!("trainyard run {plan} --data PATH"), "runs it on this machine"));
    } else if let Some(target) = starting(document, file) {
        steps.push(step(
            format!("trainyard export {plan} --to {} --out DIR", target.name()),
            "writes files that launch it",
        ));
    }
    let counts = numbers_of_machines(&document.plan);
    if cluster.profile.is_none() && cluster.file.is_none() && counts.len() > 1 {
        let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
        let vary = |of: &str| format!("trainyard what-if {of} --vary instances={}", counts.join(","));
        steps.push(match job {
            Some(job) => step(vary(&file_argument(job)), "the best plan on more or fewer machines"),
            None => step(vary(&plan), "this plan, held, on more or fewer machines"),
        });
    }
    if let Some((name, number)) =
        reports::optimum(document).and_then(|(name, other)| Some((name, number_of(document, other)?)))
    {
        let takes = if name == "cheapest" { TAKES_CHEAPEST } else { TAKES_FASTEST };
        steps.push(step(format!("--point {number}"), takes));
    }
    steps.push(step("-v".into(), "added to this command, tells everything else that was found"));
    steps
}

const TAKES_CHEAPEST: &str = "added to this command, takes the cheapest plan instead";
const TAKES_FASTEST: &str = "added to this command, takes the fastest plan instead";

/// Returns the number of the point of the front of time against cost that is a plan.
fn number_of(document: &PlanDocument, other: &Alternative) -> Option<usize> {
    document.pareto.iter().position(|point| point.plan == other.plan).map(|index| index + 1)
}

/// Lists numbers of machines near those of a plan, its own among them, among which its replicas can be divided: those
/// on which each has as many ranks, and an equal part of the global batch.
fn numbers_of_machines(plan: &PlanSpec) -> Vec<u32> {
    let (parallel, batch, own) = (plan.parallel, plan.batch, plan.cluster.instances);
    let replica = parallel.tensor * parallel.pipeline * parallel.context;
    let devices = parallel.data * replica / own.max(1);
    let divides = |instances: &u32| {
        let (ranks, samples) = (instances * devices, batch.micro.max(1));
        let replicas = u64::from(ranks / replica);
        let whole = ranks.is_multiple_of(replica) && replicas > 0 && replicas.is_multiple_of(parallel.expert.into());
        let admits = |accumulation| plan.schedule.accumulation().admits(accumulation, parallel.pipeline.into());
        whole && batch.global.is_multiple_of(replicas * samples) && admits(batch.global / (replicas * samples))
    };
    let all: Vec<u32> = (1..=own.saturating_mul(4)).filter(|count| divides(count) || *count == own).collect();
    let at = all.iter().position(|count| *count == own).unwrap_or(0);
    let first = at.saturating_sub(NEIGHBOURS);
    all.into_iter().skip(first).take(at - first + 1 + NEIGHBOURS).collect()
}

/// Advice where plans have no cost.
const UNPRICED: &str =
    "machines that are not rented have no price, unless `usd_per_hour` in [[machines]] of their file says it";

/// How many more and how many fewer numbers of machines are proposed.
const NEIGHBOURS: usize = 2;

/// Returns the first target whose launch files run a plan.
fn starting(document: &PlanDocument, file: &Path) -> Option<Target> {
    let files = read::machine_files_of(document, file, None).ok()?;
    let machine = machine(document, files).ok()?;
    let offered = document.prediction.price.as_ref().and_then(PriceUsed::offered);
    let sagemaker = offered.is_some_and(|offered| offered.service == Service::Sagemaker.name());
    let runs = |target: &Target| export::launch_files(document, &machine, *target, &LaunchOptions::default()).is_ok();
    let queues = has_scheduler(&document.plan.cluster, document.job.campaign.as_ref());
    let all = Target::ALL.into_iter().filter(|target| sagemaker || *target != Target::Sagemaker);
    queues.then_some(Target::Slurm).into_iter().chain(all).find(runs)
}

/// Returns `true` if machines are behind a scheduler: the job says so, or they are several of one's own, which most often are.
fn has_scheduler(cluster: &ClusterSpec, campaign: Option<&CampaignSpec>) -> bool {
    let said = campaign.is_some_and(|campaign| campaign.job_limit.is_some() || campaign.queue_wait.is_some());
    said || (cluster.file.is_some() && cluster.instances > 1)
}

/// Returns a plan's entry for the history, with the files that it names relative to a folder.
pub(super) fn outcome(document: &PlanDocument, folder: &Path) -> Outcome {
    let headline = Headline::from(document);
    Outcome::new(Kind::Plan, "plan.json", document, headline)
        .with_all(read::named_by(document, &folder.join("plan.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_with_a_limit_or_a_wait_are_those_of_a_scheduler() {
        let (limit, wait) = (Some("24h".to_owned()), Some("2h".to_owned()));
        let limited = CampaignSpec { job_limit: limit, ..CampaignSpec::default() };
        let waits = CampaignSpec { queue_wait: wait, ..CampaignSpec::default() };
        let own = |machines| ClusterSpec { file: Some("own.toml".into()), ..ClusterSpec::of("own", machines) };
        for (cluster, campaign, queues) in [
            (own(1), None, false),
            (own(1), Some(&limited), true),
            (own(1), Some(&waits), true),
            (own(2), None, true),
            (ClusterSpec::of("p4d.24xlarge", 2), None, false),
            (ClusterSpec::of("p4d.24xlarge", 2), Some(&CampaignSpec::default()), false),
        ] {
            assert_eq!(has_scheduler(&cluster, campaign), queues, "{cluster}");
        }
    }
}
