//! Prices of different dates: which types were seen when, and who would win at prices of one date.

use super::limits::Limits;
use super::solve::{SEARCHED_MAX, briefly};
use crate::problem::{Problem, Rental, price_of};
use crate::search::{Evaluated, Found};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_hardware_profiles::{Instance, Price, PriceQuery, Purchase};
use trainyard_plan::Objective;

/// Warns of prices of different dates, and of prices that are older than those of another Region. Prices of spot capacity
/// say nothing of another Region.
pub(crate) fn price_dates(problem: &Problem, limits: &Limits, (found, chosen): (&Found, &Evaluated)) -> Option<String> {
    let rental = problem.place.rental()?;
    if !rental.repriced.is_empty() {
        return None;
    }
    let dates = dates(rental.instances.iter());
    let own = &rental.offer(chosen.choice).1;
    let is_spot = own.purchase == Purchase::Spot;
    let oldest = dates.keys().next()?;
    let reference = if is_spot { None } else { reference(&rental.instances, own, oldest) };
    let at_one_date = reference.map(|reference| {
        at_one_date(problem, limits, rental, (found, chosen), &reference)
            .unwrap_or_else(|| newer(own, reference[rental.kind(chosen.choice)], &rental.offer(chosen.choice).0.name))
    });
    if dates.len() == 1 {
        return at_one_date;
    }
    let one = match at_one_date {
        Some(sentence) => format!("; {sentence}"),
        None if is_spot => String::new(),
        None => "; no prices of one date are known for all of them".into(),
    };
    Some(format!("{}{one}", compared(&dates)))
}

/// Warns of prices of different dates among those of all types that jobs who share machines may have, and of prices of the types
/// that they have which are older than those of another Region.
pub fn prices_of_shared(problems: &[&Problem], held: &[&str]) -> Option<String> {
    let rentals = problems.iter().filter_map(|problem| problem.place.rental());
    let all: BTreeMap<&str, &(Instance, Price)> =
        rentals.flat_map(|rental| &rental.instances).map(|own| (own.0.name.as_str(), own)).collect();
    let dates = dates(all.values().copied());
    let newer = held.iter().filter_map(|name| {
        let offer @ (instance, own) = *all.get(name)?;
        let spot = own.purchase == Purchase::Spot;
        let newest = if spot { None } else { reference(std::slice::from_ref(offer), own, &own.date) };
        newest.map(|prices| newer(own, prices[0], &instance.name))
    });
    let different = (dates.len() > 1).then(|| compared(&dates));
    let told: Vec<String> = different.into_iter().chain(newer).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Returns types by the dates of their prices.
fn dates<'a>(offers: impl Iterator<Item = &'a (Instance, Price)>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut dates: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (instance, price) in offers {
        dates.entry(&price.date).or_default().push(&instance.name);
    }
    dates
}

/// Tells which types were seen when.
fn compared(dates: &BTreeMap<&str, Vec<&str>>) -> String {
    let seen: Vec<String> = dates.iter().rev().map(|(date, names)| format!("{} as of {date}", listed(names))).collect();
    format!("prices of different dates are compared: {}", seen.join("; "))
}

/// Tells that a price is older than another one of the same type.
fn newer(own: &Price, newer: &Price, instance: &str) -> String {
    let usd = |price: &Price| format!("{:.2} USD/h", price.hourly().0);
    format!(
        "the price in {} is of {}; in {} {instance} cost {} as of {}, here {}",
        own.region,
        own.date,
        newer.region,
        usd(newer),
        newer.date,
        usd(own)
    )
}

/// Names a few types, or one and how many more there are.
fn listed(names: &[&str]) -> String {
    match names {
        [first, others @ ..] if others.len() > 3 => format!("{first} and {} others", others.len()),
        few => few.join(", "),
    }
}

/// Returns the prices of a Region in which all considered types have prices of one date, later than the oldest date of
/// the job's Region; of several Regions the latest, then the first by name. The prices are in the order of the offered
/// types.
fn reference<'a>(offers: &'a [(Instance, Price)], own: &Price, oldest: &str) -> Option<Vec<&'a Price>> {
    let regions: BTreeSet<&str> =
        offers.iter().flat_map(|(instance, _)| &instance.prices).map(|price| price.region.as_str()).collect();
    let prices_in = |region: &&'a str| -> Option<Vec<&'a Price>> {
        let query = PriceQuery { region, service: own.service, purchase: own.purchase };
        let prices: Vec<&Price> =
            offers.iter().map(|(instance, _)| price_of(instance, query)).collect::<Option<_>>()?;
        let date = &prices.first()?.date;
        (prices.iter().all(|price| price.date == *date) && date.as_str() > oldest).then_some(prices)
    };
    let candidates: Vec<Vec<&Price>> = regions.iter().filter_map(prices_in).collect();
    candidates.into_iter().rev().max_by(|a, b| a[0].date.cmp(&b[0].date))
}

/// Compares the decision with that of a short search at the prices of one date and Region; `None` where the search
/// would be long, or where prices decide nothing.
fn at_one_date(
    problem: &Problem,
    limits: &Limits,
    rental: &Rental,
    (found, chosen): (&Found, &Evaluated),
    reference: &[&Price],
) -> Option<String> {
    if problem.objective == Objective::Time || found.candidates > SEARCHED_MAX {
        return None;
    }
    let instances = rental.instances.iter().zip(reference).map(|((own, _), price)| (own.clone(), (*price).clone()));
    let others = Rental { instances: instances.collect(), ..rental.clone() };
    let best = briefly(problem, limits, others, chosen)?;
    let each = |plan: &Evaluated| {
        let (instance, price) = rental.offer(plan.choice);
        let (new, old) = (reference[rental.kind(plan.choice)].hourly().0, price.hourly().0);
        format!("{} {new:.2} USD/h instead of {old:.2} in {} as of {}", instance.name, price.region, price.date)
    };
    let same = rental.kind(best.choice) == rental.kind(chosen.choice);
    let prices: Vec<String> = [Some(chosen), Some(&best).filter(|_| !same)].into_iter().flatten().map(each).collect();
    let types = [&best, chosen].map(|plan| plan.plan.cluster().instance.as_str());
    let who = if same {
        format!("{} would still be the cheapest type", types[0])
    } else {
        format!("{}, not {}, would be the cheapest type", types[0], types[1])
    };
    let like = reference[rental.kind(chosen.choice)];
    Some(format!(
        "at prices of {} as of {} ({}) {who} that a short search finds",
        like.region,
        like.date,
        prices.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use crate::asking;
    use trainyard_plan::{JobSpec, Objective, Pricing};

    fn warnings(region: &str, instances: &[&str]) -> Vec<String> {
        warnings_of(region, instances, |_| {})
    }

    fn warnings_of(region: &str, instances: &[&str], change: impl Fn(&mut JobSpec)) -> Vec<String> {
        let mut job = asking::job("gpt2-xl", 64, instances, 8);
        job.data.tokens = Some(1e9);
        job.cluster.region = Some(region.into());
        change(&mut job);
        asking::planned(&job).warnings
    }

    #[test]
    fn old_prices_are_compared_with_newer_ones_of_another_region() {
        let old = warnings("eu-west-1", &["p4d.24xlarge", "g4dn.12xlarge"]);
        let told = old.iter().find(|warning| warning.contains("at prices of us-east-1 as of 2026-07-20"));
        assert!(told.is_some_and(|warning| warning.contains("as of 2025-04-05")), "{old:?}");
        assert!(told.is_some_and(|warning| warning.contains("p4d.24xlarge 21.96 USD/h instead of 35.40")), "{old:?}");
        let new = warnings("us-east-1", &["p4d.24xlarge", "g4dn.12xlarge"]);
        assert!(!new.iter().any(|warning| warning.contains("at prices of")), "{new:?}");
    }

    #[test]
    fn an_older_price_is_told_where_nothing_is_searched_again() {
        let fastest = |job: &mut JobSpec| job.goal.objective = Some(Objective::Time);
        let old = warnings_of("us-west-2", &["p4d.24xlarge"], fastest);
        let told = "the price in us-west-2 is of 2025-04-05; in us-east-1 p4d.24xlarge cost 21.96 USD/h as of 2026-07-20, \
                    here 32.77 USD/h";
        assert!(old.iter().any(|warning| warning == told), "{old:?}");
    }

    /// Spot prices of Regions follow their own supply.
    #[test]
    fn spot_prices_are_compared_with_none_of_another_region() {
        let spot = |job: &mut JobSpec| job.cluster.pricing = Some(Pricing::Spot);
        let old = warnings_of("ap-southeast-2", &["p5.48xlarge"], spot);
        let quota = "of the spot quota of P5 instances (`p5*`), apart from that of other `P` instances";
        assert!(old.iter().any(|warning| warning.contains(quota)), "{old:?}");
        assert!(
            !old.iter().any(|warning| warning.contains("ca-central-1") || warning.contains("prices of")),
            "{old:?}"
        );
    }
}
