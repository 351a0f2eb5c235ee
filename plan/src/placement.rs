//! Which ranks of a plan stand next to each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use trainyard_units::UnknownName;

/// A kind of parallelism, as a direction in the mesh of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// Replicas.
    Data,
    /// Stages.
    Pipeline,
    /// Parts of a layer; the parts of a sample (context) stand right beside them.
    Tensor,
}

/// How ranks are numbered, and how their numbers are laid on machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Placement {
    /// Tensor ranks nearest, then data, then pipeline, filling one machine after another (Megatron-LM's default;
    /// Narayanan et al., arXiv:2104.04473, section 3.1).
    #[default]
    Cluster,
    /// The same numbering, dealt out to the machines in turn.
    Spread,
    /// The axes from the nearest ranks to the farthest, written as a permutation of D, P and T, filling one machine
    /// after another.
    Order([Axis; 3]),
}

const PERMUTATIONS: [(&str, [Axis; 3]); 6] = [
    ("DPT", [Axis::Data, Axis::Pipeline, Axis::Tensor]),
    ("DTP", [Axis::Data, Axis::Tensor, Axis::Pipeline]),
    ("PDT", [Axis::Pipeline, Axis::Data, Axis::Tensor]),
    ("PTD", [Axis::Pipeline, Axis::Tensor, Axis::Data]),
    ("TDP", [Axis::Tensor, Axis::Data, Axis::Pipeline]),
    ("TPD", [Axis::Tensor, Axis::Pipeline, Axis::Data]),
];

impl Placement {
    /// Returns the axes from the nearest ranks to the farthest.
    pub fn order(self) -> [Axis; 3] {
        match self {
            Self::Cluster | Self::Spread => [Axis::Tensor, Axis::Data, Axis::Pipeline],
            Self::Order(order) => order,
        }
    }

    /// Iterates over every placement, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Cluster, Self::Spread].into_iter().chain(PERMUTATIONS.iter().map(|(_, order)| Self::Order(*order)))
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Cluster => "cluster",
            Self::Spread => "spread",
            Self::Order(wanted) => {
                PERMUTATIONS.iter().find(|(_, order)| order == wanted).map_or("TDP", |(name, _)| name)
            }
        };
        formatter.pad(name)
    }
}

impl FromStr for Placement {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::all().find(|placement| placement.to_string() == text).ok_or_else(|| UnknownName {
            text: text.into(),
            allowed: ["cluster", "spread"].into_iter().chain(PERMUTATIONS.map(|(name, _)| name)).collect(),
        })
    }
}

impl TryFrom<String> for Placement {
    type Error = UnknownName;

    fn try_from(text: String) -> Result<Self, UnknownName> {
        text.parse()
    }
}

impl From<Placement> for String {
    fn from(placement: Placement) -> Self {
        placement.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placement_reads_back_as_itself() {
        for placement in Placement::all() {
            assert_eq!(placement.to_string().parse(), Ok(placement));
        }
        assert!("DDT".parse::<Placement>().is_err());
    }
}
