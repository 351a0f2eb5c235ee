//! How the learning rate follows the global batch.

use super::Warnings;
use crate::problem::{Problem, Training};
use trainyard_models::Sample;
use trainyard_plan::Optimizer;
use trainyard_units::human_count;

/// The largest global batch up to which scaling the learning rate with it kept ResNet-50's accuracy: Goyal et al.,
/// arXiv:1706.02677, section 5.2.
const LINEAR_BATCH_MAX: u64 = 8192;

impl Warnings<'_> {
    /// Warns of the learning rate that the global batch needs. The reference is the smallest batch that the job allows,
    /// or the smallest with which its target was reached.
    pub(super) fn learning_rate(&self) -> Option<String> {
        if matches!(self.problem.training, Training::Target(_)) && self.optimizer().is_some() {
            // The published trainings had rates of another optimizer.
            return None;
        }
        let (reference, whose) = match self.problem.training {
            Training::Target(curve) => (*curve.measured().start(), format!("that of {}'s smallest", curve.target)),
            _ => (self.problem.global_batches.min(), "that of the smallest allowed".into()),
        };
        let global = self.plan.batch().global;
        let images = matches!(self.problem.model.sample(), Sample::Image(_));
        let rule = learning_rate_rule(self.problem.optimizer, global, reference, images)?;
        let own = self.job.training.learning_rate.map(|rate| match factor(self.problem.optimizer, global, reference) {
            // A learning rate that the job writes beside one batch is that batch's.
            _ if !self.problem.global_batches.are_open() => {
                format!("; training.learning_rate {rate} is taken to be for {}", human_count(global))
            }
            factor => format!("; training.learning_rate {rate} would become {}", digits(rate * factor)),
        });
        Some(format!(
            "learning rate at a global batch of {}: {rule} {whose} batch, {}{}",
            human_count(global),
            human_count(reference),
            own.unwrap_or_default()
        ))
    }
}

/// Warns of cases with other global batches that what is learnt from as many samples is not the same, unless the steps to a
/// target are known at each.
pub(crate) fn varied_batches(problem: &Problem) -> Option<String> {
    if matches!(problem.training, Training::Target(_)) {
        return None;
    }
    let rule = match problem.optimizer {
        Optimizer::Sgd | Optimizer::Momentum => "linearly (Goyal et al., arXiv:1706.02677)",
        Optimizer::Lars => "linearly (You et al., arXiv:1708.03888)",
        Optimizer::Lamb => "with its square root (You et al., arXiv:1904.00962)",
        Optimizer::AdamW | Optimizer::AdamW8bit | Optimizer::Adam | Optimizer::RmsProp => {
            "with its square root (Malladi et al., arXiv:2205.10287)"
        }
    };
    Some(format!(
        "the learning rate grows with the global batch, {rule}; the amount of training is the same for all batches, since how \
         many steps reach a target at each is known only with a convergence curve (training.target)"
    ))
}

/// Returns the factor by which a learning rate grows with the batch.
fn factor(optimizer: Optimizer, global: u64, reference: u64) -> f64 {
    let ratio = global as f64 / reference as f64;
    match optimizer {
        Optimizer::Sgd | Optimizer::Momentum | Optimizer::Lars => ratio,
        Optimizer::AdamW | Optimizer::AdamW8bit | Optimizer::Adam | Optimizer::RmsProp | Optimizer::Lamb => {
            ratio.sqrt()
        }
    }
}

/// Returns the rule by which the learning rate follows the batch; `None` if the batch is the reference.
fn learning_rate_rule(optimizer: Optimizer, global: u64, reference: u64, images: bool) -> Option<String> {
    if global == reference {
        return None;
    }
    let factor = factor(optimizer, global, reference);
    let times = digits(factor);
    let warm_up = |how: &'static str| if factor > 1.0 { how } else { "" };
    let beyond = global > LINEAR_BATCH_MAX && images;
    let rule = match optimizer {
        Optimizer::Sgd | Optimizer::Momentum if beyond => {
            format!(
                "{times} times (linear, which cost ResNet-50 accuracy above {}: Goyal et al., arXiv:1706.02677; LARS did not, You et al., arXiv:1708.03888)",
                human_count(LINEAR_BATCH_MAX)
            )
        }
        Optimizer::Sgd | Optimizer::Momentum => {
            let warm_up = warm_up(", after a warm-up of five epochs");
            format!("{times} times (linear{warm_up}: Goyal et al., arXiv:1706.02677)")
        }
        Optimizer::Lars => {
            format!("{times} times (linear{}: You et al., arXiv:1708.03888)", warm_up(", after a warm-up"))
        }
        Optimizer::Lamb => {
            let warm_up = warm_up(", after a warm-up that grows with it");
            format!("{times} times (square root{warm_up}: You et al., arXiv:1904.00962)")
        }
        Optimizer::AdamW | Optimizer::AdamW8bit | Optimizer::Adam | Optimizer::RmsProp => {
            format!("{times} times (square root: Malladi et al., arXiv:2205.10287)")
        }
    };
    Some(rule)
}

/// Formats a number with three digits.
fn digits(number: f64) -> String {
    match number {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n if n >= 1.0 => format!("{n:.2}"),
        n if n >= 0.001 => format!("{n:.3}"),
        n => format!("{n:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learning_rate_follows_the_batch_by_the_rule_of_its_optimizer() {
        let rule = |optimizer, global| learning_rate_rule(optimizer, global, 256, true);
        assert_eq!(rule(Optimizer::Momentum, 256), None);
        assert!(rule(Optimizer::Momentum, 1024).is_some_and(|rule| rule.starts_with("4.00 times (linear, after")));
        assert!(rule(Optimizer::Momentum, 32_768).is_some_and(|rule| rule.contains("LARS")));
        assert!(rule(Optimizer::AdamW, 1024).is_some_and(|rule| rule.starts_with("2.00 times (square root")));
        assert!(rule(Optimizer::Lamb, 25_600).is_some_and(|rule| rule.starts_with("10.0 times (square root")));
        assert!(rule(Optimizer::Momentum, 128).is_some_and(|rule| rule.starts_with("0.500 times (linear: Goyal")));
        let tokens = learning_rate_rule(Optimizer::Momentum, 32_768, 256, false);
        assert!(tokens.is_some_and(|rule| !rule.contains("LARS")));
    }
}
