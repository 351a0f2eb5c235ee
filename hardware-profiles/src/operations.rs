//! What happens to machines around training: how they start, break and are reclaimed.

use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_units::Seconds;

/// Facts and stated defaults of a cloud's operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operations {
    /// Mean time between failures of one machine.
    pub node_mtbf: Sourced<Seconds>,
    /// How long before spare capacity is reclaimed it is said.
    pub spot_notice: Sourced<Seconds>,
    /// Median time until reclaimed capacity can be rented again.
    pub spot_wait: Sourced<Seconds>,
    /// Standard deviation of the logarithm of start-up times and waits.
    pub start_spread: Sourced<f64>,
    /// Starting on machines that are not there yet.
    pub cold: StartUp,
    /// Starting on machines that were kept.
    pub warm_pool: StartUp,
}

/// Median times of what happens before the first step, one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartUp {
    /// Finding and booting the machines, which are paid for from then on.
    pub machines: Sourced<Seconds>,
    /// Downloading the container image.
    pub image: Sourced<Seconds>,
    /// Starting the framework.
    pub framework: Sourced<Seconds>,
}

impl StartUp {
    /// All of it.
    pub fn total(&self) -> Seconds {
        self.machines.value + self.image.value + self.framework.value
    }
}

/// How often spare capacity was reclaimed, as it was published on a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpotAdvisor {
    /// The day.
    pub date: String,
    /// Who published it.
    pub source: String,
    /// By region and instance.
    bands: BTreeMap<String, BTreeMap<String, SpotBand>>,
}

/// The share of an instance type's capacity in a region that was reclaimed in the last month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SpotBand {
    /// Below 5 %.
    #[serde(rename = "<5%")]
    Below5,
    /// 5 to 10 %.
    #[serde(rename = "5-10%")]
    From5To10,
    /// 10 to 15 %.
    #[serde(rename = "10-15%")]
    From10To15,
    /// 15 to 20 %.
    #[serde(rename = "15-20%")]
    From15To20,
    /// Above 20 %, without an upper end.
    #[serde(rename = ">20%")]
    Above20,
}

impl SpotBand {
    /// The upper end of the band; of the last one, which has none, the lower.
    pub fn monthly_share(self) -> f64 {
        match self {
            Self::Below5 => 0.05,
            Self::From5To10 => 0.10,
            Self::From10To15 => 0.15,
            Self::From15To20 | Self::Above20 => 0.20,
        }
    }

    /// The band as it is published.
    pub fn name(self) -> &'static str {
        match self {
            Self::Below5 => "<5 %",
            Self::From5To10 => "5-10 %",
            Self::From10To15 => "10-15 %",
            Self::From15To20 => "15-20 %",
            Self::Above20 => ">20 %",
        }
    }
}

impl SpotAdvisor {
    /// The band of an instance type in a region, if it was published.
    pub fn band(&self, region: &str, instance: &str) -> Option<SpotBand> {
        self.bands.get(region)?.get(instance).copied()
    }

    /// Regions in which the instance type has a band.
    pub fn regions(&self, instance: &str) -> Vec<&str> {
        self.bands.iter().filter(|(_, bands)| bands.contains_key(instance)).map(|(region, _)| region.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::catalog;

    #[test]
    fn the_advisor_speaks_of_instances_of_the_catalog() {
        let advisor = catalog().spot_advisor();
        assert_eq!(advisor.band("us-east-1", "p4d.24xlarge"), Some(SpotBand::From10To15));
        assert_eq!(advisor.band("us-east-1", "p3.2xlarge"), Some(SpotBand::Above20));
        assert_eq!(advisor.band("us-east-1", "dgx-a100"), None);
        for instance in advisor.bands.values().flat_map(BTreeMap::keys) {
            assert!(catalog().instance(instance).is_ok(), "{instance}");
        }
        assert!(advisor.regions("p4d.24xlarge").contains(&"us-west-2"));
    }

    #[test]
    fn bands_ascend() {
        use SpotBand::{Above20, Below5, From5To10, From10To15, From15To20};
        let shares = [Below5, From5To10, From10To15, From15To20, Above20].map(SpotBand::monthly_share);
        assert!(shares.is_sorted() && shares[0] > 0.0 && shares[4] < 1.0);
    }
}
