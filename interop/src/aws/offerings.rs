//! `aws ec2 describe-instance-type-offerings --location-type availability-zone`: where types are offered.

use super::{Account, needed, region_of};
use serde_json::Value;
use trainyard_units::Invalid;

pub(super) fn read(account: &mut Account, offerings: &[Value]) -> Result<usize, Invalid> {
    let mut found = 0;
    for (index, offering) in offerings.iter().enumerate() {
        let field = |name| needed(offering, "InstanceTypeOfferings", index, name);
        let (instance, kind, place) = (field("InstanceType")?, field("LocationType")?, field("Location")?);
        if kind != "availability-zone" {
            let at = format!("InstanceTypeOfferings[{index}].LocationType");
            return Err(Invalid::value(at, kind, "availability-zone")
                .with_hint("add `--location-type availability-zone` to the command"));
        }
        let Some(region) = region_of(place) else {
            let at = format!("InstanceTypeOfferings[{index}].Location");
            return Err(Invalid::value(at, place, "a zone such as us-east-1a"));
        };
        account.zones.entry((region, instance.into())).or_default().insert(place.into());
        found += 1;
    }
    Ok(found)
}
