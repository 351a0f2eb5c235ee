//! The reason why machines have no price on some terms, and the prices that are known instead.

use super::terms::purchase;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_hardware_profiles::{Catalog, Instance, Price, PriceQuery, Service};
use trainyard_plan::Pricing;
use trainyard_units::{Invalid, similar};

/// The most types that are listed by name.
const NAMED: usize = 4;

/// Explains, with the prices that are known instead, why none of `instances`, of which there is at least one, has a
/// price from `service` on these terms. The error is in `region` or `pricing` of a table of rental terms.
pub fn price_not_found(
    catalog: &Catalog,
    instances: &[&Instance],
    (service, pricing): (Service, Pricing),
    region: &str,
) -> Invalid {
    if let Some(hint) = unknown_region(catalog, region) {
        return Invalid::inside("region", format!("no price of any instance is known in `{region}`"))
            .with_facts(region, "a Region in which machines have prices")
            .with_hint(hint);
    }
    let own = || prices(instances.iter().copied());
    let here = dated(own().filter(|price| price.region == region), |price| {
        format!("{} {}", price.service.name(), price.purchase.name())
    });
    let of = named(instances);
    if here.is_empty() {
        let elsewhere = dated(own(), |price| price.region.clone());
        let hint = match elsewhere.as_str() {
            "" => "`--prices FILE` gives prices of your own".into(),
            elsewhere => format!("prices are known in {elsewhere}"),
        };
        return Invalid::inside("region", format!("no price of {of} is known in {region}")).with_hint(hint);
    }
    let on_terms =
        |price: &&Price| price.answers(PriceQuery { region: &price.region, service, purchase: purchase(pricing) });
    let elsewhere = dated(own().filter(on_terms), |price| price.region.clone());
    let hint = match elsewhere.as_str() {
        "" => format!("in {region} there are prices of {here}. `--prices FILE` gives others"),
        elsewhere => format!("there are such prices in {elsewhere}"),
    };
    let sentence = format!("no {pricing} price of {of} from {} is known in {region}", service.name());
    Invalid::inside("pricing", sentence).with_hint(hint)
}

/// Returns the Region that was meant, or those that there are, if no machine has a price in this one.
pub(crate) fn unknown_region(catalog: &Catalog, region: &str) -> Option<String> {
    let everywhere: BTreeSet<&str> = prices(catalog.instances()).map(|price| price.region.as_str()).collect();
    if everywhere.contains(region) {
        return None;
    }
    let known = everywhere.iter().copied().collect::<Vec<_>>().join(", ");
    Some(match similar(region, everywhere) {
        Some(similar) => format!("did you mean `{similar}`?"),
        None => format!("prices are known in {known}"),
    })
}

fn prices<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> impl Iterator<Item = &'a Price> {
    instances.into_iter().flat_map(|instance| &instance.prices)
}

/// Lists what prices apply to, the latest first: `us-east-1 (2026-07-20); eu-west-1, eu-west-2 (2025-04-05)`.
fn dated<'a>(prices: impl Iterator<Item = &'a Price>, of: impl Fn(&Price) -> String) -> String {
    let mut latest: BTreeMap<String, &str> = BTreeMap::new();
    for price in prices {
        let date = latest.entry(of(price)).or_insert(&price.date);
        *date = (*date).max(&price.date);
    }
    let mut by_date: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (what, date) in latest {
        by_date.entry(date).or_default().push(what);
    }
    let groups: Vec<String> =
        by_date.into_iter().rev().map(|(date, what)| format!("{} ({date})", what.join(", "))).collect();
    groups.join("; ")
}

fn named(instances: &[&Instance]) -> String {
    if instances.len() > NAMED {
        return format!("any of the {} instance types", instances.len());
    }
    let names: Vec<&str> = instances.iter().map(|instance| instance.name.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;

    fn of(names: &[&str], service: Service, pricing: Pricing, region: &str) -> (Invalid, String) {
        let instances: Vec<&Instance> =
            names.iter().map(|name| catalog().instance(name).expect("in the catalog")).collect();
        let error = price_not_found(catalog(), &instances, (service, pricing), region);
        let hint = error.hint().expect("what is known instead");
        (error, hint)
    }

    #[test]
    fn a_slip_in_a_region_leads_to_what_was_meant() {
        let (error, hint) = of(&["p3.2xlarge"], Service::Ec2, Pricing::OnDemand, "us-esat-1");
        assert_eq!((error.field(), hint.as_str()), ("region", "did you mean `us-east-1`?"));
        let (error, hint) = of(&["p3.2xlarge"], Service::Ec2, Pricing::OnDemand, "mars");
        assert!(hint.contains("us-east-1, ") && error.to_string().contains("`mars`"), "{hint}");
    }

    #[test]
    fn an_instance_that_a_region_has_not_is_told_with_those_that_have_it() {
        let (error, hint) = of(&["p4de.24xlarge"], Service::Ec2, Pricing::OnDemand, "eu-west-1");
        assert_eq!(error.to_string(), "in `region`: no price of p4de.24xlarge is known in eu-west-1");
        assert!(hint.contains("us-east-1 (2026-07-20)"), "{hint}");
    }

    #[test]
    fn terms_without_a_price_are_told_with_those_that_have_one() {
        let (error, hint) = of(&["p4de.24xlarge"], Service::Sagemaker, Pricing::Reserved, "us-east-1");
        assert_eq!(error.field(), "pricing");
        assert!(hint.contains("ec2 reserved") && hint.contains("sagemaker on-demand"), "{hint}");
        let (_, hint) = of(&["p3.2xlarge"], Service::Ec2, Pricing::Reserved, "us-east-1");
        assert!(!hint.contains("ec2 reserved ("), "{hint}");
    }
}
