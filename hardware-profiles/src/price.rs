//! Prices, each with its region, its date and its source.

use serde::{Deserialize, Serialize};
use trainyard_units::UsdPerHour;

/// Who rents the instance out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Plain instances.
    Ec2,
    /// Managed training.
    Sagemaker,
}

/// The terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purchase {
    /// By the second.
    OnDemand,
    /// Spare capacity.
    Spot,
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
    /// The middle of the range.
    pub fn middle(&self) -> UsdPerHour {
        UsdPerHour(f64::midpoint(self.low.0, self.high.0))
    }

    /// Whether this is the price asked for.
    pub fn answers(&self, query: PriceQuery<'_>) -> bool {
        self.region == query.region && self.service == query.service && self.purchase == query.purchase
    }
}
