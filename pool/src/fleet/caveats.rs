//! What to be careful about with a planned fleet.

use super::found::Found;
use crate::queue::valid::Terms;
use crate::queue::{PoolState, QueueDocument, RESERVED, SPOT};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_hardware_profiles::{Instance, catalog};
use trainyard_plan::Pricing;
use trainyard_planner::{CERTAIN, Problem, QuotaShare, Quotas, SharedInstances, likelihood, prices_of_shared, usd};
use trainyard_units::{Seconds, human_duration};

impl Found<'_, '_> {
    /// Collects the pools' warnings, each once, and the settings that change nothing.
    pub(super) fn warnings(&self, pools: &[QueueDocument]) -> Vec<String> {
        let mut said = BTreeSet::new();
        let of_pools = pools.iter().flat_map(|pool| &pool.warnings);
        let of_pools = of_pools.filter(|told| ![RESERVED, SPOT].contains(&told.as_str()));
        let of_pools = of_pools.filter(|warning| said.insert(warning.as_str())).cloned();
        let mut warnings: Vec<String> = self.doubt().into_iter().chain(self.fleet.idle.iter().cloned()).collect();
        warnings.extend(of_pools);
        match &self.spec.pool.file {
            None => warnings.extend(self.of_rented(pools)),
            Some(file) => {
                warnings.extend(self.uncounted(file));
                warnings.push("the machines are taken to be free from the start, and for these jobs alone".into());
            }
        }
        warnings
    }

    /// Warns of a goal that is kept by the predictions, but not by enough to be sure.
    fn doubt(&self) -> Option<String> {
        let chance = self.likely.within_goal.filter(|chance| *chance <= CERTAIN)?;
        if self.solution.best.worth.excess > 0.0 {
            return None;
        }
        let kinds = &self.pools.kinds;
        let of_each = kinds.iter().any(|kind| kind.deadline.is_some() || kind.budget.is_some());
        let (kept, more) = match (self.judge.goal.deadline, self.judge.goal.budget, of_each) {
            (Some(deadline), None, false) => {
                (format!("end within {}", human_duration(deadline)), "a shorter deadline asks for more room".into())
            }
            (None, Some(budget), false) => {
                (format!("cost at most {}", usd(budget)), "a smaller budget asks for more room".into())
            }
            _ => {
                let first = self.likely.first_missed.as_ref().map(|missed| self.named(missed));
                let first = first.filter(|named| !named.is_empty());
                let first = first
                    .map(|named| format!("the first to be missed would be {named}: a tighter one leaves more room"));
                (
                    "keep all deadlines and budgets".into(),
                    first.unwrap_or_else(|| "tighter ones ask for more room".into()),
                )
            }
        };
        Some(format!(
            "the fleet is {} likely to {kept}, if the predictions of all jobs are off alike; {more}",
            likelihood(chance)
        ))
    }

    /// Warns of the terms on which instances are rented.
    fn of_rented(&self, pools: &[QueueDocument]) -> Vec<String> {
        let held: Vec<Held<'_>> = pools.iter().filter_map(Held::of).collect();
        let problems: Vec<&Problem> = self.fleet.kinds.iter().map(|kind| &kind.problem).collect();
        let names: Vec<&str> = held.iter().map(|own| own.terms.instance.name.as_str()).collect();
        let mut warnings: Vec<String> = held.iter().filter_map(|own| own.terms.reserved()).collect();
        warnings.extend(prices_of_shared(&problems, &names));
        warnings.extend(self.of_quotas(&held));
        let reclaims = match self.spec.pool.pricing {
            Some(Pricing::Spot) => "reclaims of spot instances are not in times and costs, nor is ",
            _ => "",
        };
        let costs = if reclaims.is_empty() { " is not in costs" } else { " in costs" };
        warnings.push(format!(
            "availability of instances is not known; {reclaims}the storage of data and checkpoints{costs}"
        ));
        warnings
    }

    /// Warns of what all pools take of quotas together, each of which is kept to by itself only.
    fn of_quotas(&self, held: &[Held<'_>]) -> Vec<String> {
        let Some(any) = held.first() else { return Vec::new() };
        let stated = self.spec.pool.quotas.as_ref();
        let terms = (any.terms.service, any.terms.pricing);
        let quotas = Quotas::new(stated, terms, catalog(), "pool.quotas").unwrap_or_default();
        let over = quotas.refusals(|each| most_at_once(held, each)).into_iter().map(|(_, lacking)| {
            format!("the pools together {lacking}; have the quota raised before, or allow fewer instances of a type")
        });
        let mut open: BTreeMap<String, QuotaShare> = BTreeMap::new();
        for own in held.iter().filter(|own| !quotas.apply_to(own.terms.instance)) {
            let share = own.share();
            open.insert(share.quota.clone(), share);
        }
        let taken: Vec<String> = open
            .values()
            .map(|share| {
                let each = |instance: &Instance| {
                    let own = QuotaShare::of(instance, any.terms.service, any.terms.pricing);
                    if own.quota == share.quota { own.each } else { 0 }
                };
                share.told(most_at_once(held, &each))
            })
            .collect();
        let taken = (!taken.is_empty())
            .then(|| format!("the fleet takes up to {}; set `pool.quotas` to yours", taken.join(", and ")));
        over.chain(taken).collect()
    }

    /// Warns of times without checkpoints on machines of a cluster file.
    fn uncounted(&self, file: &str) -> Option<String> {
        let uncounted = self.solution.best.choice.iter().filter(|placed| {
            let on = &self.plans[placed.kind].plans[self.pools.option(**placed).plan];
            on.best.elapsed_s <= on.training.0
        });
        let names: Vec<&str> = uncounted.map(|placed| self.pools.kinds[placed.kind].name.as_str()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "checkpoints and failures are not in the time of {}, because nobody says how fast checkpoints are written: \
                 [shared_storage] in {file} or campaign.checkpoint_bandwidth in the job does",
                names.join(", ")
            )
        })
    }
}

/// The instances of a pool, with what it holds of them from instant to instant.
pub(super) struct Held<'a> {
    terms: SharedInstances<'a>,
    timeline: &'a [PoolState],
}

fn held(state: &PoolState) -> u32 {
    state.starting + state.busy + state.idle
}

impl<'a> Held<'a> {
    pub(super) fn of(pool: &'a QueueDocument) -> Option<Self> {
        let Terms { service, pricing, .. } = Terms::of(&pool.queue.pool).ok()?;
        let terms = SharedInstances {
            instance: catalog().instance(&pool.queue.pool.instance).ok()?,
            service,
            pricing,
            price: pool.prediction.price.as_ref()?,
            most: pool.timeline.iter().map(held).max()?,
            paid: Seconds(pool.prediction.instance_seconds.paid),
        };
        Some(Self { terms, timeline: &pool.timeline })
    }

    /// Returns what an instance takes of its quota.
    fn share(&self) -> QuotaShare {
        QuotaShare::of(self.terms.instance, self.terms.service, self.terms.pricing)
    }
}

/// Returns the most that instances of all pools take at once, by what one of each type takes.
pub(super) fn most_at_once(all: &[Held<'_>], each: &dyn Fn(&Instance) -> u64) -> u64 {
    let changes = all.iter().enumerate().flat_map(|(pool, own)| {
        let each = each(own.terms.instance);
        own.timeline.iter().map(move |state| (state.time_s, pool, each * u64::from(held(state))))
    });
    let mut changes: Vec<(f64, usize, u64)> = changes.collect();
    changes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut now, mut most) = (vec![0; all.len()], 0);
    for at_once in changes.chunk_by(|one, other| one.0.total_cmp(&other.0).is_eq()) {
        for (_, pool, taken) in at_once {
            now[*pool] = *taken;
        }
        most = most.max(now.iter().sum());
    }
    most
}
