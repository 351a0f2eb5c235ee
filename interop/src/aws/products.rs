//! `aws pricing get-products`: a list of texts, each an item of a price list in JSON.

use super::{Account, Price, PriceKey, day, json, text, usd};
use serde_json::{Map, Value};
use trainyard_units::Invalid;

const SOURCE: &str = "aws pricing get-products";

pub(super) fn read(account: &mut Account, products: &[Value], today: &str) -> Result<usize, Invalid> {
    let mut found = 0;
    for (index, product) in products.iter().enumerate() {
        let product = match product {
            Value::String(text) => {
                json(text).map_err(|problem| Invalid::inside(format!("PriceList[{index}]"), problem))?
            }
            other => other.clone(),
        };
        found += offers(account, &product, today);
    }
    Ok(found)
}

/// Takes the prices of a product, if it is an instance that trains under Linux on shared hardware.
fn offers(account: &mut Account, product: &Value, today: &str) -> usize {
    let Some(attributes) = product.pointer("/product/attributes") else { return 0 };
    let Some((instance, service)) = instance(attributes) else { return 0 };
    let Some(region) = text(attributes, "regionCode") else { return 0 };
    let published = text(product, "publicationDate").and_then(day).unwrap_or(today);
    let mut found = 0;
    for (kind, terms) in product.get("terms").and_then(Value::as_object).into_iter().flatten() {
        for term in terms.as_object().into_iter().flat_map(Map::values) {
            let Some(purchase) = purchase(kind, term) else { continue };
            let Some(hour) = hour(term) else { continue };
            let key = PriceKey { instance: instance.into(), region: region.into(), service, purchase };
            let (date, source) = (published.into(), SOURCE.into());
            account.keep(key, Price { usd_per_hour: hour, range: None, date, source });
            found += 1;
        }
    }
    found
}

/// Returns the instance and its service; `None` for other systems, tenancies and software, and for capacity that is paid
/// for otherwise.
fn instance(attributes: &Value) -> Option<(&str, &'static str)> {
    let has = |field: &str, value: &str| text(attributes, field).is_none_or(|own| own.eq_ignore_ascii_case(value));
    let code = text(attributes, "servicecode").unwrap_or("AmazonEC2");
    if code == "AmazonSageMaker" {
        let name = text(attributes, "instanceName").or_else(|| text(attributes, "instanceType"))?;
        let name = name.split("-Training").next()?;
        return (has("component", "Training") && name.starts_with("ml.")).then(|| (&name[3..], "sagemaker"));
    }
    let plain = has("operatingSystem", "Linux")
        && has("tenancy", "Shared")
        && has("preInstalledSw", "NA")
        && has("capacitystatus", "Used");
    Some((text(attributes, "instanceType")?, "ec2")).filter(|_| plain && code == "AmazonEC2")
}

/// Returns the terms: on demand, or for one or three years with nothing paid in advance.
fn purchase(kind: &str, term: &Value) -> Option<&'static str> {
    let attributes = term.get("termAttributes").unwrap_or(&Value::Null);
    match (kind, text(attributes, "LeaseContractLength")) {
        ("OnDemand", _) => Some("on-demand"),
        _ if text(attributes, "PurchaseOption") != Some("No Upfront") => None,
        ("Reserved", Some("1yr")) => Some("reserved"),
        ("Reserved", Some("3yr")) => Some("reserved-3y"),
        _ => None,
    }
}

/// Returns the price of an hour.
fn hour(term: &Value) -> Option<f64> {
    let dimensions = term.get("priceDimensions")?.as_object()?;
    let mut hourly = dimensions.values().filter(|own| text(own, "unit").is_some_and(|unit| unit.starts_with('H')));
    hourly.find_map(|own| usd(own.pointer("/pricePerUnit/USD")?.as_str()?))
}
