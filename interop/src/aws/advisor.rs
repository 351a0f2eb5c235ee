//! The data of the Spot Instance Advisor, `spot-advisor-data.json`: how much of a type's capacity is reclaimed in a month.

use super::Account;
use serde_json::{Map, Value};
use trainyard_units::Invalid;

/// The bands in the order of the file's `r`.
const BANDS: [&str; 5] = ["<5%", "5-10%", "10-15%", "15-20%", ">20%"];

pub(super) fn read(account: &mut Account, regions: &Map<String, Value>, document: &Value) -> Result<usize, Invalid> {
    let labels: Vec<&str> = document
        .get("ranges")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|range| range.get("label")?.as_str())
        .collect();
    if labels != BANDS {
        return Err(Invalid::value("ranges", labels.join(", "), BANDS.join(", ")));
    }
    let mut found = 0;
    for (region, systems) in regions {
        for (instance, about) in systems.get("Linux").and_then(Value::as_object).into_iter().flatten() {
            let index = about.get("r").and_then(Value::as_u64);
            let band = index.and_then(|index| BANDS.get(usize::try_from(index).ok()?));
            let at = || format!("spot_advisor.{region}.Linux.{instance}.r");
            let band = band.ok_or_else(|| Invalid::missing(at(), "it is the number of a range, from 0 to 4"))?;
            account.bands.insert((region.clone(), instance.clone()), (*band).into());
            found += 1;
        }
    }
    Ok(found)
}
