//! Prices, each with its region, its date and its source.

use crate::operations::SpotBand;
use serde::{Deserialize, Serialize};
use trainyard_units::{Seconds, UsdPerHour, named};

named! {
    /// The service that rents an instance out.
    Service {
        /// Plain instances.
        Ec2 = "ec2",
        /// Managed training.
        Sagemaker = "sagemaker",
    }
}

named! {
    /// The terms of a purchase.
    Purchase {
        /// By the second.
        OnDemand = "on-demand",
        /// Spare capacity.
        Spot = "spot",
        /// By the hour for a year, used or not, with nothing paid in advance.
        Reserved = "reserved",
        /// The same for three years.
        ReservedThreeYears = "reserved-3y",
        /// By blocks of whole days, used or not, paid in advance.
        CapacityBlock = "capacity-block",
    }
}

impl Purchase {
    /// Returns the time that is paid for whatever is done with it; `None` where that depends on the use. Amazon EC2 User Guide,
    /// "Reserved Instances": one year is 365 days, three years are 1 095.
    pub fn term(self) -> Option<Seconds> {
        match self {
            Self::OnDemand | Self::Spot | Self::CapacityBlock => None,
            Self::Reserved => Some(Seconds(31_536_000.0)),
            Self::ReservedThreeYears => Some(Seconds(94_608_000.0)),
        }
    }
}

/// An observed price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The region, `us-east-1`.
    pub region: String,
    /// The service that rents the instance out.
    pub service: Service,
    /// The terms.
    pub purchase: Purchase,
    /// Lowest observed price per hour.
    pub low: UsdPerHour,
    /// Highest observed price per hour: differs from `low` for spot only.
    pub high: UsdPerHour,
    /// Expected price between them; their middle if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<UsdPerHour>,
    /// Date of the observation, `2026-07-20`.
    #[serde(deserialize_with = "crate::date::read")]
    pub date: String,
    pub source: String,
    /// Availability Zones in which the instance is offered, as far as they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// The share of spot capacity that is reclaimed in a month, where the account's own data says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptions: Option<SpotBand>,
}

/// A query for a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceQuery<'a> {
    /// The region, `us-east-1`.
    pub region: &'a str,
    /// The service that rents the instance out.
    pub service: Service,
    /// The terms.
    pub purchase: Purchase,
}

impl Price {
    /// Returns the expected price of an hour.
    pub fn hourly(&self) -> UsdPerHour {
        self.expected.unwrap_or(UsdPerHour(f64::midpoint(self.low.0, self.high.0)))
    }

    /// Returns the price with `change` applied to each of its figures.
    #[must_use]
    pub fn map(mut self, change: impl Fn(f64) -> f64) -> Self {
        let set = |usd: &mut UsdPerHour| usd.0 = change(usd.0);
        set(&mut self.low);
        set(&mut self.high);
        self.expected.iter_mut().for_each(set);
        self
    }

    /// Returns `true` if the price answers the query.
    pub fn answers(&self, query: PriceQuery<'_>) -> bool {
        self.region == query.region && self.service == query.service && self.purchase == query.purchase
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_files_have() {
        for purchase in Purchase::ALL {
            let written = toml::Value::try_from(purchase).expect("a word");
            assert_eq!(written.as_str(), Some(purchase.name()));
            assert_eq!(Purchase::named(purchase.name()), Some(*purchase));
        }
        for service in Service::ALL {
            assert_eq!(toml::Value::try_from(service).expect("a word").as_str(), Some(service.name()));
        }
    }

    #[test]
    fn longer_terms_are_paid_for_longer() {
        let terms: Vec<f64> = Purchase::ALL.iter().filter_map(|purchase| purchase.term()).map(|term| term.0).collect();
        assert_eq!(terms, [365.0 * 86_400.0, 1095.0 * 86_400.0]);
    }
}
