//! Prices, each with its region, its date and its source.

use serde::{Deserialize, Serialize};
use trainyard_units::{Seconds, UsdPerHour};

/// Who rents the instance out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Plain instances.
    Ec2,
    /// Managed training.
    Sagemaker,
}

impl Service {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Ec2, Self::Sagemaker];

    /// The service as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Sagemaker => "sagemaker",
        }
    }

    /// The service of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|service| service.name() == name)
    }
}

/// The terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Purchase {
    /// By the second.
    #[serde(rename = "on-demand")]
    OnDemand,
    /// Spare capacity.
    #[serde(rename = "spot")]
    Spot,
    /// By the hour for a year, used or not, with nothing paid in advance.
    #[serde(rename = "reserved")]
    Reserved,
    /// The same for three years.
    #[serde(rename = "reserved-3y")]
    ReservedThreeYears,
}

impl Purchase {
    /// All of them.
    pub const ALL: &[Self] = &[Self::OnDemand, Self::Spot, Self::Reserved, Self::ReservedThreeYears];

    /// The terms as they are written.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::Reserved => "reserved",
            Self::ReservedThreeYears => "reserved-3y",
        }
    }

    /// The terms of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|purchase| purchase.name() == name)
    }

    /// How long is paid for, whatever is used; nothing where only use is. Amazon EC2 User Guide, "Reserved Instances":
    /// a year is 365 days of them, three years are 1 095.
    pub fn term(self) -> Option<Seconds> {
        match self {
            Self::OnDemand | Self::Spot => None,
            Self::Reserved => Some(Seconds(31_536_000.0)),
            Self::ReservedThreeYears => Some(Seconds(94_608_000.0)),
        }
    }
}

/// A price that was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// `us-east-1`, …
    pub region: String,
    /// Who rents it out.
    pub service: Service,
    /// The terms.
    pub purchase: Purchase,
    /// Lowest price seen, by the hour.
    pub low: UsdPerHour,
    /// Highest price seen: differs from `low` for spot only.
    pub high: UsdPerHour,
    /// What is expected between them; their middle if nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<UsdPerHour>,
    /// When, `2026-07-20`.
    pub date: String,
    /// Where it was read.
    pub source: String,
}

/// Which price is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceQuery<'a> {
    /// `us-east-1`, …
    pub region: &'a str,
    /// Who rents it out.
    pub service: Service,
    /// The terms.
    pub purchase: Purchase,
}

impl Price {
    /// What an hour is expected to cost.
    pub fn hourly(&self) -> UsdPerHour {
        self.expected.unwrap_or(UsdPerHour(f64::midpoint(self.low.0, self.high.0)))
    }

    /// The same price with every figure of it changed.
    #[must_use]
    pub fn map(mut self, change: impl Fn(f64) -> f64) -> Self {
        let set = |usd: &mut UsdPerHour| usd.0 = change(usd.0);
        set(&mut self.low);
        set(&mut self.high);
        self.expected.iter_mut().for_each(set);
        self
    }

    /// Whether this is the price asked for.
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
