//! One possible course of a campaign, and many of them.

use super::random::Random;
use super::straggler::slowest;
use super::stretch::{Progress, Stretch};
use super::{Campaign, StartUp, StepTime};
use rayon::prelude::*;
use trainyard_hardware_profiles::{booked, booked_instances};
use trainyard_units::{Seconds, Usd};

/// Interruptions after which a course is given up: a training that is interrupted so often hardly gets on.
const MOST_INTERRUPTIONS: u64 = 100_000;

/// One simulated run of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SimulatedRun {
    /// Where its time went; together, the time of the campaign.
    pub phases: RunPhases,
    /// Time of machines that were held, one after another.
    pub machine_time: Seconds,
    pub cost: Usd,
    /// Machines that were reclaimed.
    pub reclaims: u64,
    /// Machines that failed.
    pub failures: u64,
}

/// Where the time of a campaign goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunPhases {
    /// Until machines are there, in a scheduler's queue and after it.
    pub waiting: Seconds,
    /// Until their software is ready.
    pub start_up: Seconds,
    /// Copying the data set.
    pub download: Seconds,
    /// Steps, each counted once.
    pub training: Seconds,
    /// Writing and reading checkpoints.
    pub checkpoints: Seconds,
    /// Testing the model.
    pub evaluation: Seconds,
    /// Steps, whole ones and parts, that had to be done again.
    pub lost: Seconds,
}

impl RunPhases {
    pub fn total(&self) -> Seconds {
        self.waiting + self.start_up + self.download + self.training + self.checkpoints + self.evaluation + self.lost
    }
}

impl SimulatedRun {
    /// From the start to the last checkpoint.
    pub fn time(&self) -> Seconds {
        self.phases.total()
    }
}

/// `courses` possible courses of a campaign, in the order of their numbers; nothing if one of them is interrupted a
/// hundred thousand times.
pub fn simulate_campaign(campaign: &Campaign, courses: u64, seed: u64) -> Option<Vec<SimulatedRun>> {
    let between = campaign.steps_between_checkpoints();
    let (mean, deviation) = slowest(campaign.instances, campaign.step_time.straggler);
    (0..courses)
        .into_par_iter()
        .map(|number| {
            let mut random = Random::new(seed, number);
            let luck = Luck::draw(campaign, mean, deviation, &mut random);
            Run { campaign, between, luck, random, course: SimulatedRun::default(), left: 0.0, job: 0.0 }.course()
        })
        .collect()
}

/// Values that stay the same during a run.
#[derive(Clone, Copy)]
struct Luck {
    /// Steps to the target.
    steps: u64,
    /// Seconds of a step, the slowest machine of each included.
    step: f64,
    /// USD of one machine for an hour.
    instance_hour: f64,
}

impl Luck {
    /// `mean` and `deviation` are those of the slowest machine of one step, relative to the mean machine. Over many steps
    /// their mean is normal, with a deviation that falls with the root of their number.
    fn draw(campaign: &Campaign, mean: f64, deviation: f64, random: &mut Random) -> Self {
        let steps = (campaign.steps.mean as f64 * random.about_one(campaign.steps.spread)).round().max(1.0);
        let slow = mean + deviation / steps.sqrt() * random.normal();
        let StepTime { median, spread, .. } = campaign.step_time;
        let step = median.0 * spread.logarithm(random.normal()).exp() * slow.max(f64::MIN_POSITIVE);
        let share = random.uniform();
        let instance_hour = campaign.price.map_or(0.0, |price| {
            let [low, high] = price.instance_hour;
            low.0 + share * (high.0 - low.0)
        });
        Self { steps: steps as u64, step, instance_hour }
    }
}

/// Why a machine was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Reclaim,
    Failure,
}

/// A course under way.
struct Run<'a> {
    campaign: &'a Campaign,
    /// Steps from a checkpoint to the next.
    between: u64,
    luck: Luck,
    random: Random,
    course: SimulatedRun,
    /// Seconds until the next interruption.
    left: f64,
    /// Seconds of the scheduler's job before its first step.
    job: f64,
}

impl Run<'_> {
    /// From the start until the last checkpoint is written; nothing if it is interrupted too often, or its jobs end too early to
    /// get on.
    fn course(mut self) -> Option<SimulatedRun> {
        let mut saved = 0;
        let mut prepared = self.prepare(self.campaign.start, 0, 0.0);
        loop {
            while let (true, Some(limit)) = (prepared, self.campaign.jobs) {
                let Some(done) = self.end_of_job(limit.usable.0, saved) else { break };
                if done == 0 {
                    return None;
                }
                saved += done;
                prepared = self.prepare(limit.start, 0, self.campaign.checkpoint.read.0);
            }
            let progress = prepared.then(|| self.train(saved));
            if progress.as_ref().is_some_and(|reached| saved + reached.saved == self.luck.steps) {
                return Some(self.billed());
            }
            let cause = self.interruption();
            if let Some(progress) = progress {
                saved += self.keep(cause, &progress);
            }
            // A checkpoint of the last step is all that was left to do, whether written when it was due or on notice.
            if saved == self.luck.steps {
                return Some(self.billed());
            }
            if self.course.reclaims + self.course.failures == MOST_INTERRUPTIONS {
                return None;
            }
            prepared = self.replace(cause);
        }
    }

    /// Trains from so many steps until the scheduler's signal, and writes a checkpoint; returns the steps that it did. `None`,
    /// and nothing is done, if the training ends or is interrupted before.
    fn end_of_job(&mut self, usable: f64, from: u64) -> Option<u64> {
        let stretch = self.stretch(from);
        let (done, time) = stretch.cut(usable - self.job)?;
        if time > self.left {
            return None;
        }
        let (trained, evaluating) = (done as f64 * stretch.step, stretch.evaluations(done) as f64 * stretch.evaluate);
        let phases = &mut self.course.phases;
        phases.training += Seconds(trained);
        phases.evaluation += Seconds(evaluating);
        phases.checkpoints += Seconds(time - trained - evaluating);
        self.hold(time);
        Some(done)
    }

    fn stretch(&self, from: u64) -> Stretch {
        let campaign = self.campaign;
        Stretch {
            from,
            steps: self.luck.steps - from,
            step: self.luck.step,
            between: self.between,
            write: campaign.checkpoint.write.0,
            evaluate_every: campaign.evaluation.map_or(u64::MAX, |evaluation| evaluation.every),
            evaluate: campaign.evaluation.map_or(0.0, |evaluation| evaluation.time.0),
        }
    }

    /// Trains from so many steps until the end or an interruption.
    fn train(&mut self, from: u64) -> Progress {
        let step = self.luck.step;
        let progress = self.stretch(from).after(self.left);
        let phases = &mut self.course.phases;
        let trained = progress.saved as f64 * step;
        let open = (progress.steps - progress.saved) as f64 * step + progress.partial;
        phases.training += Seconds(trained);
        phases.lost += Seconds(open);
        phases.evaluation += Seconds(progress.evaluating);
        phases.checkpoints += Seconds(progress.writing);
        self.hold(trained + open + progress.evaluating + progress.writing);
        progress
    }

    /// Steps that an interruption leaves: those before the last checkpoint, or, if it was announced in time for another
    /// one, all whole ones.
    fn keep(&mut self, cause: Cause, progress: &Progress) -> u64 {
        let open = progress.steps - progress.saved;
        if cause == Cause::Failure || !self.campaign.saves_on_notice() || open == 0 {
            return progress.saved;
        }
        let (write, rescued) = (self.campaign.checkpoint.write.0, open as f64 * self.luck.step);
        let phases = &mut self.course.phases;
        phases.training += Seconds(rescued);
        phases.lost = Seconds(phases.lost.0 - rescued);
        phases.checkpoints += Seconds(write);
        self.hold(write);
        progress.steps
    }

    fn billed(mut self) -> SimulatedRun {
        if let Some(price) = self.campaign.price {
            let time = self.course.time();
            let held = if price.by_block {
                booked(time).0 * f64::from(booked_instances(self.campaign.instances))
            } else {
                self.course.machine_time.0
            };
            self.course.cost = Usd((self.luck.instance_hour * held + price.storage_hour.0 * time.0) / 3600.0);
        }
        self.course
    }

    /// Waits for machines, makes them ready and reads a checkpoint. From the end of the queue, in which nothing is held, `others`
    /// are paid for while they wait. False if another interruption comes first.
    fn prepare(&mut self, start: StartUp, others: u32, read: f64) -> bool {
        let luck = self.random.around(1.0, start.spread);
        let software = self.random.around(start.software.0, start.spread);
        self.course.phases.waiting += Seconds(luck * (start.queue + start.machines).0);
        self.course.machine_time += Seconds(luck * start.machines.0 * f64::from(others));
        self.left = self.random.until(self.campaign.reclaim_rate() + self.campaign.failure_rate());
        let download = self.campaign.download.0;
        self.job = software + download + read;
        self.spend(software, |phases| &mut phases.start_up)
            && self.spend(download, |phases| &mut phases.download)
            && self.spend(read, |phases| &mut phases.checkpoints)
    }

    /// Replaces the machine that was lost.
    fn replace(&mut self, cause: Cause) -> bool {
        let campaign = self.campaign;
        let start = match cause {
            Cause::Reclaim => StartUp { queue: Seconds(0.0), machines: campaign.hazards.wait, ..campaign.restart },
            Cause::Failure => campaign.restart,
        };
        self.prepare(start, campaign.instances - 1, campaign.checkpoint.read.0)
    }

    /// Counts an interruption by which of the two processes it is of: the first event of both together is one of each
    /// in proportion to their rates.
    fn interruption(&mut self) -> Cause {
        let (reclaims, failures) = (self.campaign.reclaim_rate(), self.campaign.failure_rate());
        if self.random.uniform() * (reclaims + failures) < reclaims {
            self.course.reclaims += 1;
            Cause::Reclaim
        } else {
            self.course.failures += 1;
            Cause::Failure
        }
    }

    /// Counts time for which all machines are held.
    fn hold(&mut self, seconds: f64) {
        self.course.machine_time += Seconds(seconds * f64::from(self.campaign.instances));
    }

    /// Time on all machines. False if an interruption comes before it is over.
    fn spend(&mut self, seconds: f64, phase: impl Fn(&mut RunPhases) -> &mut Seconds) -> bool {
        let completes = seconds <= self.left;
        let spent = seconds.min(self.left);
        *phase(&mut self.course.phases) += Seconds(spent);
        self.hold(spent);
        self.left -= spent;
        completes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::tests::calm;
    use crate::campaign::{CampaignPrice, Evaluation, JobLimit, SplitLognormal, best_interval, expected_time};

    fn drawn(campaign: &Campaign, courses: u64, seed: u64) -> Vec<SimulatedRun> {
        simulate_campaign(campaign, courses, seed).expect("a training that gets on")
    }

    fn only(campaign: &Campaign) -> SimulatedRun {
        drawn(campaign, 1, 5)[0]
    }

    fn mean(campaign: &Campaign, courses: u64, value: impl Fn(&SimulatedRun) -> f64) -> f64 {
        drawn(campaign, courses, 5).iter().map(value).sum::<f64>() / courses as f64
    }

    /// Hard failures of any machine every so many seconds.
    fn failing(mean_time: f64) -> Campaign {
        let mut campaign = calm();
        campaign.hazards.failures_per_hour = 3600.0 / mean_time / f64::from(campaign.instances);
        campaign
    }

    fn even(spread: f64) -> SplitLognormal {
        SplitLognormal { below: spread, above: spread }
    }

    /// 5, 50 and 95 % of a standard normal number lie below −1.645, 0 and 1.645.
    #[test]
    fn a_step_may_be_further_off_one_way_than_the_other() {
        let mut campaign = calm();
        campaign.step_time.spread = SplitLognormal { below: 0.1, above: 0.5 };
        let steps: Vec<f64> = drawn(&campaign, 20_000, 3).iter().map(|run| run.phases.training.0 / 10_000.0).collect();
        for (most, share) in [((-0.1645f64).exp(), 0.05), (1.0, 0.5), (0.8224f64.exp(), 0.95)] {
            let found = steps.iter().filter(|step| **step <= most).count() as f64 / 20_000.0;
            assert!((found - share).abs() < 0.01, "{most} {found}");
            assert!((campaign.step_time.spread.probability(most.ln()) - share).abs() < 1e-4, "{most}");
        }
    }

    #[test]
    fn without_interruptions_a_campaign_takes_the_sum_of_its_parts() {
        let mut campaign = calm();
        campaign.download = Seconds(30.0);
        campaign.evaluation = Some(Evaluation { every: 1000, time: Seconds(7.0) });
        let phases = only(&campaign).phases;
        let expected = RunPhases {
            waiting: Seconds(100.0),
            start_up: Seconds(50.0),
            download: Seconds(30.0),
            training: Seconds(10_000.0),
            checkpoints: Seconds(170.0),
            evaluation: Seconds(70.0),
            lost: Seconds(0.0),
        };
        assert_eq!(phases, expected);
    }

    /// 140 seconds of start-up and, of all jobs but the first, 20 of reading in 1,000 leave 860 and 840, of which the checkpoint
    /// at 600 steps takes ten: the first job does 850 steps and others 830, and then they write one more.
    #[test]
    fn a_job_ends_with_a_checkpoint_after_the_signal() {
        let mut campaign = calm();
        campaign.start.machines = Seconds(0.0);
        campaign.start.software = Seconds(140.0);
        campaign.checkpoint.read = Seconds(20.0);
        let again = StartUp { queue: Seconds(300.0), ..campaign.start };
        campaign.jobs = Some(JobLimit { usable: Seconds(1_000.0), start: again });
        let course = only(&campaign);
        // 10,000 = 850 + 11 × 830 + 20.
        let expected = RunPhases {
            waiting: Seconds(12.0 * 300.0),
            start_up: Seconds(13.0 * 140.0),
            training: Seconds(10_000.0),
            checkpoints: Seconds(12.0 * 20.0 + 12.0 * 20.0 + 10.0),
            ..RunPhases::default()
        };
        assert_eq!(course.phases, expected);
        let held = course.time().0 - expected.waiting.0;
        assert!((course.machine_time.0 / 8.0 - held).abs() < 1e-6, "nobody holds machines in the queue");
        campaign.jobs = Some(JobLimit { usable: Seconds(160.0), start: again });
        assert_eq!(simulate_campaign(&campaign, 1, 5), None);
        // Failures begin a job anew.
        let mut failing =
            Campaign { jobs: Some(JobLimit { usable: Seconds(1_000.0), start: again }), ..failing(5_000.0) };
        let cut = mean(&failing, 500, |course| course.time().0);
        failing.jobs = None;
        assert!(cut > mean(&failing, 500, |course| course.time().0) + 2_000.0, "{cut}");
    }

    #[test]
    fn machines_are_paid_for_from_when_they_are_there() {
        let mut campaign = calm();
        campaign.price =
            Some(CampaignPrice { instance_hour: [Usd(3.6), Usd(3.6)], storage_hour: Usd(0.0), by_block: false });
        let course = only(&campaign);
        assert!((course.cost.0 - 8.0 * 3.6 / 3600.0 * (course.time().0 - 100.0)).abs() < 1e-9);
        campaign.price =
            Some(CampaignPrice { instance_hour: [Usd(0.0), Usd(0.0)], storage_hour: Usd(3.6), by_block: false });
        assert!((only(&campaign).cost.0 - 3.6 / 3600.0 * course.time().0).abs() < 1e-9);
    }

    #[test]
    fn nobody_pays_for_machines_in_the_queue() {
        let mut campaign = failing(3_000.0);
        campaign.restart.machines = Seconds(60.0);
        let at_once = drawn(&campaign, 20, 5);
        assert!(at_once.iter().any(|run| run.failures > 2));
        (campaign.start.queue, campaign.restart.queue) = (Seconds(9_000.0), Seconds(9_000.0));
        for (queued, run) in drawn(&campaign, 20, 5).iter().zip(&at_once) {
            assert_eq!((queued.machine_time, queued.failures), (run.machine_time, run.failures));
            let waited = 9_000.0 * (1 + run.failures) as f64;
            assert!((queued.time().0 - run.time().0 - waited).abs() < 1e-6, "{queued:?} {run:?}");
        }
    }

    #[test]
    fn a_block_is_paid_for_whole() {
        let mut campaign = Campaign { instances: 3, ..calm() };
        campaign.price =
            Some(CampaignPrice { instance_hour: [Usd(2.0), Usd(2.0)], storage_hour: Usd(0.0), by_block: true });
        assert_eq!(only(&campaign).cost, Usd(4.0 * 24.0 * 2.0));
    }

    #[test]
    fn with_failures_the_mean_time_is_that_of_dalys_closed_form() {
        let mut campaign = failing(3_000.0);
        campaign.restart.software = Seconds(200.0);
        campaign.checkpoint.read = Seconds(20.0);
        campaign.restart.machines = Seconds(60.0);
        campaign.steps.mean = 12_000;
        let trained = |course: &SimulatedRun| course.time().0 - 150.0;
        let courses = drawn(&campaign, 20_000, 9);
        // Failures during the first start-up begin it again; Daly's form starts after it.
        let calm: Vec<f64> = courses.iter().map(trained).collect();
        let mean = calm.iter().sum::<f64>() / calm.len() as f64;
        let first = (1.0 / 3_000.0f64 * 50.0).exp_m1() * (3_000.0 + 60.0) * (220.0f64 / 3_000.0).exp() - 50.0;
        let expected = expected_time(&campaign).0 + first;
        assert!((mean / expected - 1.0).abs() < 0.01, "{mean} {expected}");
        // (M + w) e^(R/M) (e^((τ + δ)/M) − 1) T/τ with τ = 600, δ = 10, R = 220, w = 60.
        let daly = 3_060.0 * (220.0f64 / 3_000.0).exp() * (610.0f64 / 3_000.0).exp_m1() * 20.0;
        assert!((expected_time(&campaign).0 / daly - 1.0).abs() < 1e-12);
    }

    #[test]
    fn announced_reclaims_lose_less_than_a_step_each() {
        let mut campaign = calm();
        campaign.hazards.reclaims_per_hour = 0.2;
        campaign.restart.software = Seconds(30.0);
        let all = drawn(&campaign, 500, 1);
        assert!(all.iter().all(|course| course.phases.lost.0 <= course.reclaims as f64));
        assert!(all.iter().map(|course| course.reclaims).sum::<u64>() > 1000);
        assert!(all.iter().all(|course| (course.phases.training.0 - 10_000.0).abs() < 1e-6));
        let mean = all.iter().map(|course| course.time().0).sum::<f64>() / 500.0 - 150.0;
        let expected = expected_time(&campaign).0;
        assert!((mean / expected - 1.0).abs() < 0.02, "{mean} {expected}");
        // A checkpoint that takes longer than the notice saves nothing.
        campaign.checkpoint.write = Seconds(121.0);
        assert!(drawn(&campaign, 500, 1).iter().map(|course| course.phases.lost.0).sum::<f64>() > 100.0);
    }

    #[test]
    fn a_training_that_never_gets_on_is_given_up() {
        let mut campaign = failing(10.0);
        assert_eq!(simulate_campaign(&campaign, 4, 1), None);
        campaign.checkpoint.interval = Seconds(5.0);
        campaign.checkpoint.write = Seconds(1.0);
        campaign.start.software = Seconds(5.0);
        assert!(simulate_campaign(&campaign, 4, 1).is_some());
    }

    #[test]
    fn stragglers_leave_as_much_time_between_checkpoints() {
        let mut campaign = calm();
        campaign.step_time.straggler = 1.0;
        let course = only(&campaign);
        let checkpoints = course.phases.checkpoints.0 / 10.0;
        assert!((course.phases.training.0 / checkpoints / 600.0 - 1.0).abs() < 0.05, "{course:?}");
    }

    #[test]
    fn a_reclaim_during_the_last_checkpoint_only_writes_it_again() {
        let mut campaign = calm();
        (campaign.start.machines, campaign.start.software) = (Seconds(0.0), Seconds(0.0));
        campaign.steps.mean = 10;
        campaign.checkpoint.write = Seconds(100.0);
        campaign.hazards.reclaims_per_hour = 0.1;
        campaign.restart.software = Seconds(1_000.0);
        let all = drawn(&campaign, 5_000, 2);
        // One that comes during a step writes two whole checkpoints.
        let late =
            |course: &&SimulatedRun| course.reclaims == 1 && (100.1..199.9).contains(&course.phases.checkpoints.0);
        let late: Vec<&SimulatedRun> = all.iter().filter(late).collect();
        assert!(late.len() > 20, "{}", late.len());
        assert!(late.iter().all(|course| course.phases.start_up == Seconds(0.0)));
        assert!(late.iter().all(|course| course.phases.training == Seconds(10.0)));
    }

    #[test]
    fn no_other_interval_is_faster_on_average() {
        let mut campaign = failing(4_000.0);
        campaign.checkpoint.write = Seconds(30.0);
        campaign.steps.mean = 20_000;
        let best = best_interval(&campaign).0;
        let mut at = |interval: f64| {
            campaign.checkpoint.interval = Seconds(interval);
            mean(&campaign, 4000, |course| course.time().0)
        };
        assert!(at(best) < at(best * 0.5) && at(best) < at(best * 2.0));
    }

    #[test]
    fn more_machines_are_interrupted_more_often() {
        let of = |instances| {
            let mut campaign = calm();
            campaign.hazards.failures_per_hour = 0.02;
            campaign.instances = instances;
            mean(&campaign, 5000, |course| course.failures as f64)
        };
        let (few, many) = (of(4), of(16));
        assert!((many / few - 4.0).abs() < 0.4, "{few} {many}");
    }

    #[test]
    fn every_spread_widens_what_it_spreads() {
        let deviation = |change: &dyn Fn(&mut Campaign)| {
            let mut campaign = calm();
            change(&mut campaign);
            let times: Vec<f64> = drawn(&campaign, 2000, 3).iter().map(|course| course.time().0).collect();
            let mean = times.iter().sum::<f64>() / 2000.0;
            (times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / 2000.0).sqrt() / mean
        };
        assert!(deviation(&|_| ()) < 1e-12);
        assert!((deviation(&|campaign| campaign.steps.spread = 0.05) - 0.05).abs() < 0.005);
        assert!((deviation(&|campaign| campaign.step_time.spread = even(0.1)) - 0.1).abs() < 0.01);
        assert!(deviation(&|campaign| campaign.start.spread = 0.5) > 0.001);
        // Of ten thousand steps a hundredth of one step's spread is left.
        let straggling = deviation(&|campaign| campaign.step_time.straggler = 0.5);
        assert!(straggling > 0.001 && straggling < 0.01, "{straggling}");
    }

    #[test]
    fn stragglers_slow_every_step_by_the_slowest_machine() {
        let mut campaign = calm();
        campaign.step_time.straggler = 0.1;
        let slow = mean(&campaign, 200, |course| course.phases.training.0) / 10_000.0;
        assert!((slow / slowest(8, 0.1).0 - 1.0).abs() < 1e-3, "{slow}");
        campaign.instances = 1;
        assert!((mean(&campaign, 200, |course| course.phases.training.0) / 10_000.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn the_price_is_drawn_from_its_range() {
        let mut campaign = calm();
        campaign.price =
            Some(CampaignPrice { instance_hour: [Usd(1.0), Usd(3.0)], storage_hour: Usd(0.0), by_block: false });
        let costs: Vec<f64> = drawn(&campaign, 1000, 3).iter().map(|course| course.cost.0).collect();
        let at_one = 8.0 * (10_000.0 + 170.0 + 50.0) / 3600.0;
        assert!(costs.iter().all(|cost| (at_one..=3.0 * at_one).contains(cost)));
        assert!((costs.iter().sum::<f64>() / 1000.0 / at_one - 2.0).abs() < 0.06);
    }

    #[test]
    fn the_same_courses_come_out_on_any_number_of_threads() {
        let mut campaign = failing(2_000.0);
        campaign.step_time = StepTime { spread: even(0.1), straggler: 0.05, ..campaign.step_time };
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| drawn(&campaign, 300, 11))
        };
        assert_eq!(on(1), on(2));
        assert_eq!(on(1), on(3));
        assert_ne!(on(1), drawn(&campaign, 300, 12));
    }
}
