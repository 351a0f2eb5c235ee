//! The terms on which machines are rented, and the price of an instance on them.

use trainyard_hardware_profiles::{Instance, Price, PriceQuery, Purchase, Service};
use trainyard_plan::Pricing;
use trainyard_plan::document::PriceUsed;

/// Converts a pricing into a purchase.
pub fn purchase(pricing: Pricing) -> Purchase {
    match pricing {
        Pricing::OnDemand => Purchase::OnDemand,
        Pricing::Spot => Purchase::Spot,
        Pricing::Reserved => Purchase::Reserved,
        Pricing::ReservedThreeYears => Purchase::ReservedThreeYears,
    }
}

/// Converts a purchase into a pricing.
pub(crate) fn pricing(purchase: Purchase) -> Pricing {
    match purchase {
        Purchase::OnDemand => Pricing::OnDemand,
        Purchase::Spot => Pricing::Spot,
        Purchase::Reserved => Pricing::Reserved,
        Purchase::ReservedThreeYears => Pricing::ReservedThreeYears,
    }
}

/// The reason why no warm pool keeps instances from one training job to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWarmPool {
    /// The service has none.
    Service,
    /// Spot instances are not kept.
    Spot,
}

/// Returns the reason that rules out a warm pool on these terms, if there is one (Amazon SageMaker Developer Guide,
/// "Managed Warm Pools").
pub fn no_warm_pool(service: Service, pricing: Pricing) -> Option<NoWarmPool> {
    match (service, pricing) {
        (_, Pricing::Spot) => Some(NoWarmPool::Spot),
        (Service::Ec2, _) => Some(NoWarmPool::Service),
        (Service::Sagemaker, _) => None,
    }
}

/// Returns the price of an instance that answers a query.
pub fn price_of<'a>(instance: &'a Instance, query: PriceQuery<'_>) -> Option<&'a Price> {
    instance.prices.iter().find(|price| price.answers(query))
}

/// Converts a price into its form in a document.
pub fn price_used(price: &Price) -> PriceUsed {
    PriceUsed {
        usd_per_hour: price.hourly().0,
        low_usd_per_hour: price.low.0,
        high_usd_per_hour: price.high.0,
        region: price.region.clone(),
        service: price.service.name().into(),
        pricing: Some(pricing(price.purchase)),
        date: price.date.clone(),
        source: price.source.clone(),
        zones: price.zones.clone(),
        interruptions: price.interruptions.map(|band| band.written().into()),
    }
}
