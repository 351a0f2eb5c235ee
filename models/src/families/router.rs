//! How routers choose experts.

use super::fields::{Field, choice, dimensions, divisor, optional, positive};
use crate::families::parts::Experts;
use serde::{Deserialize, Serialize};
use trainyard_units::Invalid;

/// The greatest number that is read here, which catches a slipped decimal.
const NUMBER_MAX: u64 = 1 << 20;

/// What makes scores of what a router computes. Scores of the chosen experts add up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouterScores {
    /// A softmax over experts.
    Softmax,
    /// A sigmoid of each expert.
    Sigmoid,
}

dimensions! {
    /// How experts are chosen. It does not change what a model costs, only what it computes.
    ///
    /// Source: DeepSeek-AI, arXiv:2412.19437, section 2.1.2.
    pub struct Router {
        router: RouterScores = stated(),
        router_groups: Option<u64> = optional(NUMBER_MAX),
        router_groups_per_token: Option<u64> = optional(router_groups.unwrap_or(1)),
        routed_scale: f64 = positive(1.0, NUMBER_MAX) unless 1.0,
        correction_bias: bool = choice(false) unless false,
    }
}

fn stated(at: Field, written: Option<RouterScores>) -> Result<RouterScores, Invalid> {
    written.ok_or_else(|| Invalid::missing(at.name, "other fields say how experts are chosen"))
}

impl Router {
    /// Returns the number of groups of experts and that of those to which a token is sent, where there are several.
    pub fn groups(&self) -> Option<(u64, u64)> {
        let groups = self.router_groups.filter(|groups| *groups > 1)?;
        Some((groups, self.router_groups_per_token.unwrap_or(groups)))
    }

    /// Checks that experts can be chosen so.
    pub(super) fn check(&self, experts: Option<Experts>) -> Result<(), Invalid> {
        let Some(experts) = experts else { return Err(Invalid::missing("experts", "`router` is set")) };
        if self.correction_bias && self.router != RouterScores::Sigmoid {
            let rule = "scores are not those of a sigmoid";
            return Err(Invalid::breaks("correction_bias", true, rule).with_hint("set router = \"sigmoid\""));
        }
        let Some((groups, per_token)) = self.groups() else { return Ok(()) };
        divisor("router_groups", groups, (experts.count, "experts"))?;
        if experts.per_token > per_token * (experts.count / groups) {
            let rule = format!("as many groups as hold the {} experts of a token", experts.per_token);
            return Err(Invalid::value("router_groups_per_token", per_token, rule));
        }
        Ok(())
    }
}
