//! `aws ec2 describe-spot-price-history`: prices by zone, each from a point in time on.

use super::{Account, Price, PriceKey, day, needed, region_of, usd};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_units::Invalid;

const SOURCE: &str = "aws ec2 describe-spot-price-history";

/// What is known of an instance in a region.
#[derive(Default)]
struct Seen {
    low: f64,
    high: f64,
    /// The newest price of each zone, with its time.
    latest: BTreeMap<String, (String, f64)>,
}

/// Takes the lowest of the zones' newest prices, because instances of a job are in one zone; the range is that of all
/// prices in the file.
pub(super) fn read(account: &mut Account, prices: &[Value]) -> Result<usize, Invalid> {
    let mut seen: BTreeMap<(String, String), Seen> = BTreeMap::new();
    for (index, price) in prices.iter().enumerate() {
        let field = |name| needed(price, "SpotPriceHistory", index, name);
        let (zone, instance, time) = (field("AvailabilityZone")?, field("InstanceType")?, field("Timestamp")?);
        let linux = price.get("ProductDescription").and_then(Value::as_str).is_none_or(|os| os.starts_with("Linux"));
        let amount = field("SpotPrice")?;
        let at = |name: &str| format!("SpotPriceHistory[{index}].{name}");
        let amount = usd(amount)
            .ok_or_else(|| Invalid::value(at("SpotPrice"), amount, "a number of USD above 0 and at most 100,000"))?;
        let region = region_of(zone);
        let region = region.ok_or_else(|| Invalid::value(at("AvailabilityZone"), zone, "a zone such as us-east-1a"))?;
        day(time).ok_or_else(|| Invalid::value(at("Timestamp"), time, "a time such as 2026-11-20T10:00:00+00:00"))?;
        if linux {
            seen.entry((region, instance.into())).or_default().add(zone, time, amount);
        }
    }
    let found = seen.len();
    for ((region, instance), own) in seen {
        account.zones.entry((region.clone(), instance.clone())).or_default().extend(own.latest.keys().cloned());
        let key = PriceKey { instance, region, service: "ec2", purchase: "spot" };
        account.keep(key, own.price());
    }
    Ok(found)
}

impl Seen {
    fn add(&mut self, zone: &str, time: &str, usd: f64) {
        let first = self.latest.is_empty();
        self.low = if first { usd } else { self.low.min(usd) };
        self.high = self.high.max(usd);
        let latest = self.latest.entry(zone.into()).or_default();
        if *time >= *latest.0 {
            *latest = (time.into(), usd);
        }
    }

    fn price(&self) -> Price {
        let cheapest = self.latest.values().map(|(_, usd)| *usd).fold(f64::INFINITY, f64::min);
        let newest = self.latest.values().map(|(time, _)| time.as_str()).max().and_then(day).unwrap_or_default();
        Price {
            usd_per_hour: cheapest,
            range: (self.low < self.high).then_some([self.low, self.high]),
            date: newest.into(),
            source: SOURCE.into(),
        }
    }
}
