//! What happens to machines around training: how they start, break and are reclaimed.

use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_units::Seconds;

/// Facts and stated defaults of the operation of a cloud.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operations {
    /// Mean time between failures of one machine.
    pub node_mtbf: Sourced<Seconds>,
    /// Time after which ranks that wait for a failed one give up.
    pub hang_timeout: Sourced<Seconds>,
    /// Time from the notice of a reclaim of spot capacity to the reclaim.
    pub spot_notice: Sourced<Seconds>,
    /// Median time until reclaimed capacity can be rented again.
    pub spot_wait: Sourced<Seconds>,
    /// Standard deviation of the logarithm of start-up times and waits.
    pub start_spread: Sourced<f64>,
    /// Start-up on machines that have yet to be found and booted.
    pub cold: StartUp,
    /// Start-up on machines that were kept (a warm pool).
    pub warm_pool: StartUp,
}

/// Median times of the phases before the first step, which follow one another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartUp {
    /// Time to find and boot the machines, which are paid for from then on.
    pub machines: Sourced<Seconds>,
    /// Time to download the container image.
    pub image: Sourced<Seconds>,
    /// Time to start the framework.
    pub framework: Sourced<Seconds>,
}

impl StartUp {
    /// Returns the sum of the phases.
    pub fn total(&self) -> Seconds {
        self.machines.value + self.image.value + self.framework.value
    }
}

/// The shares of spot capacity that were reclaimed, as published on a given day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpotAdvisor {
    /// The day of publication.
    #[serde(deserialize_with = "crate::date::read")]
    pub date: String,
    /// The publisher.
    pub source: String,
    /// The bands, by region and instance.
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
    /// Every band, from the lowest.
    pub const ALL: [Self; 5] = [Self::Below5, Self::From5To10, Self::From10To15, Self::From15To20, Self::Above20];

    /// Returns the band as files have it, `5-10%`.
    pub fn written(self) -> &'static str {
        match self {
            Self::Below5 => "<5%",
            Self::From5To10 => "5-10%",
            Self::From10To15 => "10-15%",
            Self::From15To20 => "15-20%",
            Self::Above20 => ">20%",
        }
    }

    /// Returns the band that is written so.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|band| band.written() == text)
    }

    /// Returns the upper end of the band; of the last one, which has none, the lower.
    pub fn monthly_share(self) -> f64 {
        match self {
            Self::Below5 => 0.05,
            Self::From5To10 => 0.10,
            Self::From10To15 => 0.15,
            Self::From15To20 | Self::Above20 => 0.20,
        }
    }

    /// Returns the band as it is published.
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
    /// Returns the band of an instance type in a region, if it was published.
    pub fn band(&self, region: &str, instance: &str) -> Option<SpotBand> {
        self.bands.get(region)?.get(instance).copied()
    }

    /// Returns the regions in which the instance type has a band.
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
