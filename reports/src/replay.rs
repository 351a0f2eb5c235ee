//! Execution traces that were simulated, as text.

use crate::format::{facts, lines};
use trainyard_plan::ReplayDocument;
use trainyard_units::{Seconds, counted, human_duration};

/// Formats the step time of a replay and its parts.
pub fn replay(document: &ReplayDocument) -> String {
    let ReplayDocument { traces, instance, instances, ranks, nodes, estimated, messages, .. } = document;
    let time = |seconds: f64| human_duration(Seconds(seconds));
    let share = |seconds: f64| {
        let percent = 100.0 * seconds / document.step_time_s.max(f64::MIN_POSITIVE);
        format!("{} ({percent:.1} %)", time(seconds))
    };
    let heading = format!(
        "{traces} on {instances} × {instance}: {}, {}, {}",
        counted(u64::from(*ranks), "rank"),
        counted(*nodes, "node"),
        counted(*messages, "message")
    );
    let figures = facts(&[
        ("step", time(document.step_time_s)),
        ("compute", share(document.compute_s)),
        ("exposed communication", share(document.exposed_communication_s)),
    ]);
    let guessed = format!("\n  {estimated} nodes have no measured time and are as fast as the device lets them be\n");
    let guessed = if *estimated > 0 { guessed } else { String::new() };
    let left_out = document.not_modelled.iter().map(|what| format!("    {what}"));
    format!("{heading}\n\n{figures}{guessed}\n  not modelled\n{}", lines(left_out))
}
