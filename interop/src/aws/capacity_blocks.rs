//! `aws ec2 describe-capacity-block-offerings`: what blocks of machines cost that can be booked.

use super::{Account, Price, PriceKey, needed, region_of, usd};
use serde_json::Value;
use trainyard_units::Invalid;

const SOURCE: &str = "aws ec2 describe-capacity-block-offerings";

/// Takes the fee of each offering by the hour of one instance, as of the day of the question: fees change with demand.
pub(super) fn read(account: &mut Account, offerings: &[Value], today: &str) -> Result<usize, Invalid> {
    for (index, offering) in offerings.iter().enumerate() {
        let field = |name| needed(offering, "CapacityBlockOfferings", index, name);
        let at = |name: &str| format!("CapacityBlockOfferings[{index}].{name}");
        let count = |name: &str| {
            let own = offering.get(name).and_then(Value::as_u64).filter(|count| *count > 0);
            own.ok_or_else(|| Invalid::missing(at(name), "every entry has a number of at least 1 there"))
        };
        let (instance, zone, fee) = (field("InstanceType")?, field("AvailabilityZone")?, field("UpfrontFee")?);
        let hours = (count("InstanceCount")? * count("CapacityBlockDurationHours")?) as f64;
        let region =
            region_of(zone).ok_or_else(|| Invalid::value(at("AvailabilityZone"), zone, "a zone such as us-east-1a"))?;
        let hourly = fee.trim().parse::<f64>().ok().and_then(|fee| usd(&(fee / hours).to_string()));
        let usd_per_hour = hourly.ok_or_else(|| Invalid::value(at("UpfrontFee"), fee, "a number of USD above 0"))?;
        let key = PriceKey { instance: instance.into(), region, service: "ec2", purchase: "capacity-block" };
        account.keep(key, Price { usd_per_hour, range: None, date: today.into(), source: SOURCE.into() });
    }
    Ok(offerings.len())
}
