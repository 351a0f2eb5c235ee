//! SkyPilot's catalog of virtual machines of AWS, `vms.csv`: prices on demand and spot, by zone.

use super::{Account, Price, PriceKey, usd};
use std::collections::BTreeMap;
use trainyard_units::Invalid;

const SOURCE: &str = "SkyPilot's catalog";
const COLUMNS: [&str; 5] = ["InstanceType", "Region", "AvailabilityZone", "Price", "SpotPrice"];

pub(super) fn read(account: &mut Account, text: &str, today: &str) -> Result<usize, Invalid> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let unreadable = |error: &csv::Error| Invalid::whole(format!("it is no CSV: {error}"));
    let header = reader.headers().map_err(|error| unreadable(&error))?.clone();
    let place = |name: &str| header.iter().position(|own| own == name);
    let places = COLUMNS.map(place);
    if let Some(missing) = COLUMNS.iter().zip(places).find_map(|(name, place)| place.is_none().then_some(name)) {
        return Err(Invalid::missing(*missing, "a catalog of SkyPilot has this column")
            .with_hint("other files are what the AWS command line prints with `--output json`"));
    }
    let mut spot: BTreeMap<PriceKey, Vec<f64>> = BTreeMap::new();
    let mut found = 0;
    for row in reader.records() {
        let row = row.map_err(|error| unreadable(&error))?;
        let [instance, region, zone, price, spot_price] =
            places.map(|place| place.and_then(|place| row.get(place)).unwrap_or_default());
        let key = |purchase| PriceKey { instance: instance.into(), region: region.into(), service: "ec2", purchase };
        let (date, source) = (today.to_owned(), SOURCE.to_owned());
        if let Some(usd_per_hour) = usd(price) {
            account.keep(key("on-demand"), Price { usd_per_hour, range: None, date, source });
            found += 1;
        }
        spot.entry(key("spot")).or_default().extend(usd(spot_price));
        if !zone.is_empty() {
            account.zones.entry((region.into(), instance.into())).or_default().insert(zone.into());
        }
    }
    for (key, prices) in spot {
        let Some(low) = prices.iter().copied().reduce(f64::min) else { continue };
        let high = prices.iter().copied().fold(low, f64::max);
        let range = (low < high).then_some([low, high]);
        account.keep(key, Price { usd_per_hour: low, range, date: today.into(), source: SOURCE.into() });
        found += 1;
    }
    Ok(found)
}
