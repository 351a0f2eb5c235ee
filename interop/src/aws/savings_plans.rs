//! `aws savingsplans describe-savings-plans-offering-rates`: what an hour costs whoever commits to one or three years.

use super::{Account, Price, PriceKey, needed, text, usd};
use serde_json::Value;
use trainyard_units::Invalid;

const SOURCE: &str = "aws savingsplans describe-savings-plans-offering-rates";
/// One and three years, in seconds.
const YEAR: u64 = 31_536_000;

/// Takes rates of plans with nothing paid in advance, in USD for an hour, of instances under Linux on shared hardware.
pub(super) fn read(account: &mut Account, rates: &[Value], today: &str) -> Result<usize, Invalid> {
    let mut found = 0;
    for (index, rate) in rates.iter().enumerate() {
        let amount = needed(rate, "searchResults", index, "rate")?;
        let Some((key, plan)) = key(rate) else { continue };
        let at = || format!("searchResults[{index}].rate");
        let amount = usd(amount).ok_or_else(|| Invalid::value(at(), amount, "a number of USD above 0"))?;
        let source = format!("{SOURCE} ({plan})");
        account.keep(key, Price { usd_per_hour: amount, range: None, date: today.into(), source });
        found += 1;
    }
    Ok(found)
}

fn key(rate: &Value) -> Option<(PriceKey, &str)> {
    let offering = rate.get("savingsPlanOffering")?;
    let purchase = match offering.get("durationSeconds")?.as_u64()? {
        YEAR => "reserved",
        years if years == 3 * YEAR => "reserved-3y",
        _ => return None,
    };
    let named = |name: &str| {
        let properties = rate.get("properties")?.as_array()?;
        let own = properties.iter().find(|own| text(own, "name") == Some(name))?;
        text(own, "value")
    };
    let service = match text(rate, "productType")? {
        "EC2" => "ec2",
        "SageMaker" if text(rate, "usageType").is_some_and(|usage| usage.contains("Train")) => "sagemaker",
        _ => return None,
    };
    let paid = text(offering, "paymentOption") == Some("No Upfront")
        && text(offering, "currency").is_none_or(|currency| currency == "USD")
        && text(rate, "unit") == Some("Hrs");
    let plain = named("productDescription").is_none_or(|os| os.starts_with("Linux"))
        && named("tenancy").is_none_or(|tenancy| tenancy == "shared");
    let instance = named("instanceType")?.trim_start_matches("ml.").to_owned();
    let key = PriceKey { instance, region: named("region")?.into(), service, purchase };
    (paid && plain).then(|| (key, text(offering, "planType").unwrap_or("a Savings Plan")))
}
