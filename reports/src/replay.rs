//! Execution traces that were simulated, as text.

use trainyard_plan::ReplayDocument;
use trainyard_units::{Seconds, human_duration};

/// Step time and what it is made of.
pub fn replay(document: &ReplayDocument) -> String {
    let ReplayDocument { traces, instance, instances, ranks, nodes, estimated, messages, .. } = document;
    let time = |seconds: f64| human_duration(Seconds(seconds));
    let share = |seconds: f64| 100.0 * seconds / document.step_time_s.max(f64::MIN_POSITIVE);
    let mut page =
        format!("{traces} on {instances} × {instance}: {ranks} ranks, {nodes} nodes, {messages} messages\n\n");
    page += &format!("  step                   {}\n", time(document.step_time_s));
    page += &format!("  compute                {} ({:.1} %)\n", time(document.compute_s), share(document.compute_s));
    let exposed = document.exposed_communication_s;
    page += &format!("  exposed communication  {} ({:.1} %)\n", time(exposed), share(exposed));
    if *estimated > 0 {
        page += &format!("\n  {estimated} nodes have no measured time and are as fast as the device lets them be\n");
    }
    page += "\n  not modelled\n";
    for what in &document.not_modelled {
        page += &format!("    {what}\n");
    }
    page
}
