//! What the AWS command line prints about an account: prices, where types are offered, and what may be rented at once.
//!
//! A file is told by what it holds, whatever its name. Nothing is fetched: users run the commands.
//!
//! | command | what is read of it |
//! |---|---|
//! | `aws pricing get-products` | prices on demand and reserved, of EC2 and of training on SageMaker |
//! | `aws ec2 describe-spot-price-history` | spot prices by zone |
//! | `aws savingsplans describe-savings-plans-offering-rates` | prices of one and three years |
//! | `aws ec2 describe-capacity-block-offerings` | prices of capacity blocks |
//! | `aws ec2 describe-instance-type-offerings` | Availability Zones |
//! | `aws service-quotas list-service-quotas` | quotas |
//!
//! Besides: SkyPilot's catalog (`vms.csv`), and the data of the Spot Instance Advisor (how often capacity is reclaimed).
//!
//! # Source
//!
//! The output shapes of botocore's service models: pricing 2017-10-15 `GetProducts`, ec2 2016-11-15
//! `DescribeSpotPriceHistory`, `DescribeCapacityBlockOfferings` and `DescribeInstanceTypeOfferings`, service-quotas 2019-06-24 `ListServiceQuotas`,
//! savingsplans 2019-06-28 `DescribeSavingsPlansOfferingRates`. Items of a price list: AWS Billing User Guide, "Reading the
//! service price list file for an AWS service". skypilot-org/skypilot-catalog, `README.md`, schema v5.

mod advisor;
mod capacity_blocks;
mod offerings;
mod products;
mod quotas;
mod savings_plans;
mod skypilot;
mod spot_history;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_units::Invalid;

/// What files say of an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// The newest price of each instance, region, service and terms; of equal dates the lowest.
    pub prices: BTreeMap<PriceKey, Price>,
    /// Availability Zones in which an instance is offered, by region and instance.
    pub zones: BTreeMap<(String, String), BTreeSet<String>>,
    /// The share of its capacity that is reclaimed in a month (`<5%`), by region and instance.
    pub bands: BTreeMap<(String, String), String>,
    /// What may be rented at once, by region, kind and class, pattern or type.
    pub quotas: BTreeMap<(String, QuotaKind, String), u64>,
}

/// What a price is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PriceKey {
    pub instance: String,
    pub region: String,
    /// `ec2` or `sagemaker`.
    pub service: &'static str,
    /// `on-demand`, `spot`, `reserved`, `reserved-3y` or `capacity-block`.
    pub purchase: &'static str,
}

/// What an hour of an instance costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    pub usd_per_hour: f64,
    /// The ends of the range, where there is one.
    pub range: Option<[f64; 2]>,
    /// The day on which the price held.
    pub date: String,
    /// The command.
    pub source: String,
}

/// What a quota limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaKind {
    /// Virtual processors of instances on demand and reserved.
    OnDemand,
    /// Virtual processors of spot instances.
    Spot,
    /// Instances that train on SageMaker.
    Sagemaker,
}

impl QuotaKind {
    /// Returns the name of the kind as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::Sagemaker => "sagemaker",
        }
    }
}

impl Account {
    /// Reads a file and adds what it holds. `today` dates what has no date of its own. Returns how much was found.
    ///
    /// # Errors
    ///
    /// When the text is of no form that is known, or damaged.
    pub fn read(&mut self, text: &str, today: &str) -> Result<usize, Invalid> {
        if text.trim().is_empty() {
            return Err(Invalid::whole("it is empty").with_hint("the command that should have written it failed"));
        }
        if text.trim_start().starts_with(['{', '[']) {
            let document = json(text).map_err(Invalid::whole)?;
            return self.read_json(&document, today);
        }
        skypilot::read(self, text, today)
    }

    fn read_json(&mut self, document: &Value, today: &str) -> Result<usize, Invalid> {
        let list = |name: &str| document.get(name).and_then(Value::as_array).map(Vec::as_slice);
        if let Some(products) = list("PriceList") {
            return products::read(self, products, today);
        }
        if let Some(prices) = list("SpotPriceHistory") {
            return spot_history::read(self, prices);
        }
        if let Some(offerings) = list("InstanceTypeOfferings") {
            return offerings::read(self, offerings);
        }
        if let Some(offerings) = list("CapacityBlockOfferings") {
            return capacity_blocks::read(self, offerings, today);
        }
        if let Some(quotas) = list("Quotas") {
            return quotas::read(self, quotas);
        }
        if let Some(rates) = list("searchResults") {
            return savings_plans::read(self, rates, today);
        }
        if let Some(regions) = document.get("spot_advisor").and_then(Value::as_object) {
            return advisor::read(self, regions, document);
        }
        let hint = "the guide lists the commands; each prints JSON with `--output json`";
        Err(Invalid::whole("it is the output of none of the commands that are known").with_hint(hint))
    }

    /// Keeps a price unless a newer one, or a lower one of the same day, is known.
    fn keep(&mut self, key: PriceKey, price: Price) {
        let better =
            |old: &Price| price.date > old.date || (price.date == old.date && price.usd_per_hour < old.usd_per_hour);
        if self.prices.get(&key).is_none_or(better) {
            self.prices.insert(key, price);
        }
    }
}

/// Reads JSON in which every key stands once.
fn json(text: &str) -> Result<Value, String> {
    trainyard_documents::from_json(text).map_err(|error| format!("it is no JSON that can be read: {error}"))
}

/// Returns the text of a field.
fn text<'a>(entry: &'a Value, field: &str) -> Option<&'a str> {
    entry.get(field)?.as_str()
}

/// Returns the text of a field that every entry of a list has.
fn needed<'a>(entry: &'a Value, list: &str, index: usize, field: &str) -> Result<&'a str, Invalid> {
    text(entry, field).ok_or_else(|| Invalid::missing(format!("{list}[{index}].{field}"), "every entry has it"))
}

/// The most that an hour of a machine may cost in a table of prices, in USD.
const USD_PER_HOUR_MAX: f64 = 1e5;

/// Reads an amount of money, which is above 0: free items of a price list are no offers.
fn usd(amount: &str) -> Option<f64> {
    amount.trim().parse::<f64>().ok().filter(|usd| *usd > 0.0 && *usd <= USD_PER_HOUR_MAX)
}

/// Returns `true` for names of regions and of instance types, which stand in files as they are.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte))
}

/// Returns the region of an Availability Zone: `us-east-1` of `us-east-1a`, `us-west-2` of `us-west-2-lax-1a`.
fn region_of(zone: &str) -> Option<String> {
    let mut parts = zone.split('-');
    let (continent, place, number) = (parts.next()?, parts.next()?, parts.next()?);
    let number = number.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| format!("{continent}-{place}-{number}"))
}

/// Returns the day of a time: `2026-11-20` of `2026-11-20T10:00:00+00:00`.
fn day(time: &str) -> Option<&str> {
    time.get(..10).filter(|day| {
        let parts: Vec<Option<u32>> = day.split('-').map(|part| part.parse().ok()).collect();
        matches!(parts[..], [Some(2000..), Some(1..=12), Some(1..=31)])
    })
}

#[cfg(test)]
mod tests;
