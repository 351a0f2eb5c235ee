//! Why machines have no price on some terms, and what is known instead.

use crate::problem::purchase;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_hardware_profiles::{Catalog, Instance, Price, PriceQuery, Service};
use trainyard_plan::Pricing;
use trainyard_units::{Invalid, similar};

/// The most types that are listed by name.
const NAMED: usize = 4;

/// No price of some instances is known on some terms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpriced {
    /// In this region there is no price of anything.
    #[error("no price of any instance is known in `{region}`")]
    UnknownRegion {
        /// The Region that was asked for.
        region: String,
        /// The Region that was probably meant.
        similar: Option<String>,
        /// Regions in which prices are known.
        regions: Vec<String>,
    },
    /// In this region there is no price of these instances, whatever the terms.
    #[error("no price of {instances} is known in {region}")]
    NotThere {
        /// The instances that were to be rented.
        instances: String,
        /// The Region that was asked for.
        region: String,
        /// Regions in which they have prices, with their dates.
        elsewhere: String,
    },
    /// There is none on these terms.
    #[error("no {pricing} price of {instances} from {service} is known in {region}")]
    OtherTerms {
        /// The instances that were to be rented.
        instances: String,
        /// The terms.
        pricing: Pricing,
        /// The service that rents them out.
        service: &'static str,
        /// The Region that was asked for.
        region: String,
        /// Terms on which they have a price there, with its date.
        here: String,
        /// Regions in which they have prices on these terms, with their dates.
        elsewhere: String,
    },
}

impl Unpriced {
    /// Finds why none of `instances`, of which there is at least one, has a price from `service` on these terms.
    pub fn of(
        catalog: &Catalog,
        instances: &[&Instance],
        (service, pricing): (Service, Pricing),
        region: &str,
    ) -> Self {
        let everywhere: BTreeSet<&str> = prices(catalog.instances()).map(|price| price.region.as_str()).collect();
        if !everywhere.contains(region) {
            return Self::UnknownRegion {
                region: region.into(),
                similar: similar(region, everywhere.iter().copied()).map(Into::into),
                regions: everywhere.into_iter().map(Into::into).collect(),
            };
        }
        let own = || prices(instances.iter().copied());
        let here = dated(own().filter(|price| price.region == region), |price| {
            format!("{} {}", price.service.name(), price.purchase.name())
        });
        let (instances, region) = (named(instances), region.to_owned());
        if here.is_empty() {
            return Self::NotThere { instances, region, elsewhere: dated(own(), |price| price.region.clone()) };
        }
        let on_terms =
            |price: &&Price| price.answers(PriceQuery { region: &price.region, service, purchase: purchase(pricing) });
        let elsewhere = dated(own().filter(on_terms), |price| price.region.clone());
        Self::OtherTerms { instances, pricing, service: service.name(), region, here, elsewhere }
    }

    /// Returns the field of the rental terms that is to blame.
    fn field(&self) -> &'static str {
        match self {
            Self::UnknownRegion { .. } | Self::NotThere { .. } => "region",
            Self::OtherTerms { .. } => "pricing",
        }
    }

    /// Returns the error with the field of a table of rental terms, and advice.
    pub fn within(&self, table: &str) -> Invalid {
        Invalid::inside(format!("{table}.{}", self.field()), self).with_hint(self.hint())
    }

    /// Formats the error with the field of a table of rental terms.
    pub(crate) fn in_table(&self, table: &str) -> String {
        self.within(table).to_string()
    }

    /// Returns advice: the prices that are known instead.
    pub fn hint(&self) -> String {
        match self {
            Self::UnknownRegion { similar: Some(similar), .. } => format!("did you mean `{similar}`?"),
            Self::UnknownRegion { regions, .. } => format!("prices are known in {}", regions.join(", ")),
            Self::NotThere { elsewhere, .. } if elsewhere.is_empty() => {
                "`--prices FILE` gives prices of your own".into()
            }
            Self::NotThere { elsewhere, .. } => format!("prices are known in {elsewhere}"),
            Self::OtherTerms { region, here, elsewhere, .. } if elsewhere.is_empty() => {
                format!("in {region} there are prices of {here}. `--prices FILE` gives others")
            }
            Self::OtherTerms { elsewhere, .. } => format!("there are such prices in {elsewhere}"),
        }
    }
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

    fn of(names: &[&str], service: Service, pricing: Pricing, region: &str) -> Unpriced {
        let instances: Vec<&Instance> =
            names.iter().map(|name| catalog().instance(name).expect("in the catalog")).collect();
        Unpriced::of(catalog(), &instances, (service, pricing), region)
    }

    #[test]
    fn a_slip_in_a_region_leads_to_what_was_meant() {
        let error = of(&["p3.2xlarge"], Service::Ec2, Pricing::OnDemand, "us-esat-1");
        assert_eq!((error.field(), error.hint().as_str()), ("region", "did you mean `us-east-1`?"));
        let far = of(&["p3.2xlarge"], Service::Ec2, Pricing::OnDemand, "mars");
        assert!(far.hint().contains("us-east-1, ") && far.to_string().contains("`mars`"), "{}", far.hint());
    }

    #[test]
    fn an_instance_that_a_region_has_not_is_told_with_those_that_have_it() {
        let error = of(&["p4de.24xlarge"], Service::Ec2, Pricing::OnDemand, "eu-west-1");
        assert_eq!(error.to_string(), "no price of p4de.24xlarge is known in eu-west-1");
        assert!(error.hint().contains("us-east-1 (2026-07-20)"), "{}", error.hint());
    }

    #[test]
    fn terms_without_a_price_are_told_with_those_that_have_one() {
        let reserved = of(&["p4de.24xlarge"], Service::Sagemaker, Pricing::Reserved, "us-east-1");
        assert_eq!(reserved.field(), "pricing");
        let hint = reserved.hint();
        assert!(hint.contains("ec2 reserved") && hint.contains("sagemaker on-demand"), "{hint}");
        let old = of(&["p3.2xlarge"], Service::Ec2, Pricing::Reserved, "us-east-1");
        assert!(!old.hint().contains("ec2 reserved ("), "{}", old.hint());
    }
}
