//! Values that name a Region, a type of machine or software, checked before anything is predicted.

use super::axis::{Axis, option};
use super::key::Level;
use crate::problem::{AUTO_STACK, catalog_with, price_not_found};
use std::borrow::Cow;
use trainyard_hardware_profiles::{Catalog, Constants, PriceTable, Service, matches};
use trainyard_plan::Pricing;
use trainyard_units::Invalid;

/// Returns the program's catalog with constants and prices that take precedence, if there are some.
pub(super) fn catalog_of(constants: Option<&Constants>, prices: Option<&PriceTable>) -> Cow<'static, Catalog> {
    let catalog = catalog_with(constants);
    prices.map_or(catalog.clone(), |prices| Cow::Owned(catalog.with_prices(prices)))
}

/// Refuses Regions, types of machine and software that the catalog does not know, and prices of types that are not among `types`,
/// patterns of those that may be chosen.
pub(super) fn check(axes: &[Axis], catalog: &Catalog, types: &[String]) -> Result<(), Invalid> {
    let types_vary = axes.iter().any(|axis| axis.key.name == "instance");
    for axis in axes {
        for (written, _) in &axis.values {
            match (axis.key.level, axis.key.name) {
                (Level::Terms, "region") => region(catalog, written)?,
                (Level::Terms, "instance") => {
                    let found = catalog.matching(std::slice::from_ref(written));
                    found.map_err(|error| Invalid::inside(option("instance"), &error).with_hint(error.hint()))?;
                }
                (Level::Job, "cluster.stack") if written != AUTO_STACK => {
                    let found = catalog.stack(written);
                    found.map_err(|error| Invalid::inside(option("cluster.stack"), &error).with_hint(error.hint()))?;
                }
                _ => {}
            }
        }
        match axis.key.level {
            Level::Price(Some(name)) if !types_vary && !types.iter().any(|pattern| matches(pattern, name)) => {
                let sentence = format!("{name} is none of the types that may be chosen: {}", types.join(", "));
                return Err(Invalid::inside(option(axis.key.name), sentence)
                    .with_hint(format!("--instances {name} allows it for a job")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses a Region in which no price of any instance is known.
fn region(catalog: &Catalog, written: &str) -> Result<(), Invalid> {
    let mut prices = catalog.instances().iter().flat_map(|instance| &instance.prices);
    if prices.any(|price| price.region == written) {
        return Ok(());
    }
    let unknown = price_not_found(catalog, &[], (Service::Ec2, Pricing::OnDemand), written);
    let sentence = format!("no price of any instance is known in `{written}`");
    Err(Invalid::inside(option("region"), sentence).maybe_hint(unknown.hint()))
}

#[cfg(test)]
mod tests {
    use super::super::axes;
    use super::*;

    fn refused(vary: &str) -> Option<(String, String)> {
        let axes = axes(&[vary.into()]).expect("a key");
        let error = check(&axes, &catalog_of(None, None), &["p4d.*".into(), "p3.16xlarge".into()]).err()?;
        Some((error.to_string(), error.hint().unwrap_or_default()))
    }

    #[test]
    fn names_that_nothing_has_are_refused_with_what_was_meant() {
        let (told, hint) = refused("region=us-east-1,us-east-9").expect("no such Region");
        assert_eq!(told, "in `--vary region=…`: no price of any instance is known in `us-east-9`");
        assert!(hint.contains("did you mean `us-east-"), "{hint}");
        let (told, hint) = refused("instance=p4d.24xlarge,foo").expect("no such type");
        assert!(told.contains("--vary instance=…") && told.contains("`foo`") && !hint.is_empty(), "{told} {hint}");
        let (told, hint) = refused("price.p5.48xlarge=50USD/h").expect("not asked for");
        assert!(
            told.contains("p5.48xlarge is none of the types") && hint.contains("--instances p5.48xlarge"),
            "{told}"
        );
        for known in ["region=us-east-1", "instance=p5.*", "price.p4d.24xlarge=x2", "price.instance=1 USD/h"] {
            assert_eq!(refused(known), None, "{known}");
        }
    }
}
