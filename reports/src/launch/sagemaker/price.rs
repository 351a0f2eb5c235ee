//! The price that a plan counts with, and that of SageMaker.

use crate::launch::draft::Draft;
use crate::launch::field::Field;
use trainyard_hardware_profiles::{PriceQuery, Service};
use trainyard_plan::Pricing;
use trainyard_planner::{purchase, usd};

/// Tells that SageMaker has prices of its own if the plan counts with another service's.
pub(super) fn tells(draft: &mut Draft<'_>) {
    let job = draft.job;
    let named = job.plan().spec().service.as_deref();
    let price = job.document().prediction.price.as_ref();
    let Some((price, offered)) = price.and_then(|price| Some((price, price.offered()?))) else {
        if named == Some(Service::Ec2.name()) {
            draft.note(Field::Service, "SageMaker has prices of its own for its ml. instances");
        }
        draft.tells(&[Field::Service]);
        return;
    };
    draft.tells(&[Field::Service]);
    if offered.service == Service::Sagemaker.name() {
        return;
    }
    let (instance, region, terms) = (&job.plan().cluster().instance, offered.region, job.plan().pricing());
    let counted = format!(
        "the plan counts with EC2's {terms} price, {} an hour for {instance} in {region}",
        usd(price.usd_per_hour)
    );
    draft.remark(format!("{counted}; SageMaker charges for ml.{instance} by prices of its own, {}; `plan --service sagemaker` counts with SageMaker's", known(draft, region, terms)));
}

/// Returns what is known of SageMaker's price on the terms of a plan.
fn known(draft: &Draft<'_>, region: &str, terms: Pricing) -> String {
    let query = PriceQuery { region, service: Service::Sagemaker, purchase: purchase(terms) };
    let found = draft.job.instance().and_then(|own| own.prices.iter().find(|price| price.answers(query)));
    found.map_or_else(
        || format!("of which none is known on these terms in {region}"),
        |price| format!("{} there (seen {})", usd(price.hourly().0), price.date),
    )
}
