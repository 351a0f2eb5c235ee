//! The amount by which a plan misses the deadline or the budget.

use crate::amount::usd;
use crate::relative::beyond;
use trainyard_plan::document::PlanDocument;
use trainyard_units::{Seconds, human_duration};

/// The amount by which a plan misses the deadline or the budget, and the other of the two: for a missed deadline the
/// budget with the plan's cost, for a missed budget the deadline, which is kept.
enum Missed {
    Deadline { deadline: Seconds, time: Seconds, surrounded: bool, other: Option<(f64, f64)> },
    Budget { budget: f64, cost: f64, kept: Option<Seconds> },
}

fn missed(document: &PlanDocument) -> Option<Missed> {
    let deadline = document.job.goal.deadline();
    let time = Seconds(document.prediction.elapsed_s());
    let money = document.job.goal.budget.zip(document.prediction.cost_usd);
    if let Some(deadline) = deadline.filter(|deadline| time > *deadline) {
        let surrounded = time.0 > document.prediction.time_s;
        return Some(Missed::Deadline { deadline, time, surrounded, other: money });
    }
    let (budget, cost) = money?;
    (cost > budget).then_some(Missed::Budget { budget, cost, kept: deadline })
}

/// Explains why the recommended plan misses the deadline or the budget; `None` if it meets them.
pub fn missed_goal(document: &PlanDocument) -> Option<String> {
    // Families that were left out may have one.
    let none = if document.search.left_out.is_some() { "no plan on the types considered" } else { "no plan" };
    Some(match missed(document)? {
        Missed::Deadline { deadline, time, surrounded, other } => {
            let (nothing, nearest, costs) = match other {
                None => (String::new(), String::new(), String::new()),
                Some((budget, cost)) if cost <= budget => {
                    (String::new(), format!(" that costs at most {}", usd(budget)), String::new())
                }
                Some((budget, cost)) => (
                    format!(", and none costs at most {}", usd(budget)),
                    String::new(),
                    format!(", and costs {}", usd(cost)),
                ),
            };
            format!(
                "{none} ends within {}{nothing}: the nearest{nearest} takes {}{}, {}{costs}",
                human_duration(deadline),
                human_duration(time),
                if surrounded { " with start-up, checkpoints and failures" } else { "" },
                beyond(time.0, deadline.0, "the deadline")
            )
        }
        Missed::Budget { budget, cost, kept } => format!(
            "{none}{} costs at most {}: the nearest costs {}, {}",
            kept.map_or_else(String::new, |deadline| format!(" that ends within {}", human_duration(deadline))),
            usd(budget),
            usd(cost),
            beyond(cost, budget, "the budget")
        ),
    })
}

/// Explains why a plan chosen by hand misses the deadline or the budget; `None` if it meets them.
pub(crate) fn missed_by_choice(document: &PlanDocument) -> Option<String> {
    Some(match missed(document)? {
        Missed::Deadline { deadline, time, .. } => format!(
            "the chosen plan takes {}, {} of {}",
            human_duration(time),
            beyond(time.0, deadline.0, "the deadline"),
            human_duration(deadline)
        ),
        Missed::Budget { budget, cost, .. } => {
            let over = beyond(cost, budget, "the budget");
            format!("the chosen plan costs {}, {over} of {}", usd(cost), usd(budget))
        }
    })
}
