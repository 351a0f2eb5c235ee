//! The terms on which machines are rented, and the price of an instance on them.

use trainyard_hardware_profiles::{Instance, Pool, Price, PriceQuery, Purchase, Service, price_of_one};
use trainyard_plan::Pricing;
use trainyard_plan::document::{PriceOfKind, PriceUsed};
use trainyard_units::UsdPerHour;

/// Converts a pricing into a purchase.
pub fn purchase(pricing: Pricing) -> Purchase {
    match pricing {
        Pricing::OnDemand => Purchase::OnDemand,
        Pricing::Spot => Purchase::Spot,
        Pricing::Reserved => Purchase::Reserved,
        Pricing::ReservedThreeYears => Purchase::ReservedThreeYears,
        Pricing::CapacityBlock => Purchase::CapacityBlock,
    }
}

/// Converts a purchase into a pricing.
pub(crate) fn pricing(purchase: Purchase) -> Pricing {
    match purchase {
        Purchase::OnDemand => Pricing::OnDemand,
        Purchase::Spot => Pricing::Spot,
        Purchase::Reserved => Pricing::Reserved,
        Purchase::ReservedThreeYears => Pricing::ReservedThreeYears,
        Purchase::CapacityBlock => Pricing::CapacityBlock,
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
        region: Some(price.region.clone()),
        service: Some(price.service.name().into()),
        pricing: Some(pricing(price.purchase)),
        date: Some(price.date.clone()),
        source: price.source.clone(),
        kinds: Vec::new(),
        zones: price.zones.clone(),
        interruptions: price.interruptions.map(|band| band.written().into()),
    }
}

/// Returns the service from which machines at a price are rented; `None` for those of a cluster file.
pub(crate) fn service_of(price: Option<&PriceUsed>) -> Option<Service> {
    Service::named(price?.offered()?.service)
}

/// Returns what a cluster file says of the price of some of its machines, in its form in a document; `None` if it says
/// nothing.
pub(crate) fn stated_price(pools: &[Pool], file: &str) -> Option<PriceUsed> {
    let UsdPerHour(usd_per_hour) = price_of_one(pools)?;
    let of_kind = |pool: &Pool| {
        let (name, instances) = (pool.name.clone(), pool.instances);
        Some(PriceOfKind { name, instances, usd_per_hour: pool.usd_per_hour?.0 })
    };
    let kinds = if pools.len() > 1 { pools.iter().filter_map(of_kind).collect() } else { Vec::new() };
    Some(PriceUsed::stated(usd_per_hour, file, kinds))
}
