//! What machines cost by the hour, and who says so.

use crate::format::usd;
use std::path::Path;
use trainyard_plan::Pricing;
use trainyard_plan::document::{PriceOfKind, PriceUsed};

/// Tells at which price a plan costs what it costs, after its cost.
pub(crate) fn at_price(price: &PriceUsed, pricing: Pricing) -> String {
    if let Some(offered) = price.offered() {
        return format!("{pricing} in {}, prices of {}", offered.region, offered.date);
    }
    let hourly = match price.kinds.as_slice() {
        [] => format!("{} an hour for each machine", usd(price.usd_per_hour)),
        kinds => format!("{} an hour for all machines", usd(kinds.iter().map(of_kind).sum())),
    };
    format!("{hourly}, as {} says", file_of(price))
}

fn of_kind(kind: &PriceOfKind) -> f64 {
    kind.usd_per_hour * f64::from(kind.instances)
}

/// Tells the price of a machine with its terms; `on` may name the machine before its Region.
pub(crate) fn each(price: &PriceUsed, pricing: Pricing, on: &str) -> String {
    if let Some(offered) = price.offered() {
        let (service, region, date) = (offered.service, offered.region, offered.date);
        return format!("{:.2} USD/h each, {service} {pricing}, {on}in {region}, as of {date}", price.usd_per_hour);
    }
    let kinds = price.kinds.iter();
    let kinds: Vec<String> = kinds
        .map(|kind| format!("{} × {} at {:.2} USD/h each", kind.instances, kind.name, kind.usd_per_hour))
        .collect();
    let prices = if kinds.is_empty() { format!("{:.2} USD/h each", price.usd_per_hour) } else { kinds.join(", ") };
    format!("{prices}, as {} says", file_of(price))
}

/// Names the cluster file that states a price. Its path is relative to the plan's, which need not be where one is.
fn file_of(price: &PriceUsed) -> &str {
    Path::new(&price.source).file_name().and_then(|name| name.to_str()).unwrap_or(&price.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_of_a_cluster_file_is_told_without_terms() {
        let alike = PriceUsed::stated(24.0, "../lab.toml", Vec::new());
        assert_eq!(at_price(&alike, Pricing::OnDemand), "24.00 USD an hour for each machine, as lab.toml says");
        assert_eq!(each(&alike, Pricing::OnDemand, "node "), "24.00 USD/h each, as lab.toml says");
        let kind = |name: &str, instances, usd_per_hour| PriceOfKind { name: name.into(), instances, usd_per_hour };
        let mixed = PriceUsed::stated(28.0 / 3.0, "../lab.toml", vec![kind("a", 2, 12.0), kind("b", 4, 8.0)]);
        assert_eq!(at_price(&mixed, Pricing::OnDemand), "56.00 USD an hour for all machines, as lab.toml says");
        let told = each(&mixed, Pricing::OnDemand, "");
        assert_eq!(told, "2 × a at 12.00 USD/h each, 4 × b at 8.00 USD/h each, as lab.toml says");
    }

    #[test]
    fn a_price_of_rented_machines_is_told_with_terms() {
        let offered = PriceUsed {
            region: Some("us-east-1".into()),
            service: Some("ec2".into()),
            date: Some("2026-11".into()),
            ..PriceUsed::stated(5.0, "prices.csv", Vec::new())
        };
        assert_eq!(at_price(&offered, Pricing::Spot), "spot in us-east-1, prices of 2026-11");
        let told = each(&offered, Pricing::Spot, "p4d.24xlarge ");
        assert_eq!(told, "5.00 USD/h each, ec2 spot, p4d.24xlarge in us-east-1, as of 2026-11");
    }
}
