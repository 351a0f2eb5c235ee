//! Checkpoints that ranks write when they are told to end, as before a machine is reclaimed.

use super::Target;
use super::draft::Draft;
use trainyard_hardware_profiles::catalog;
use trainyard_units::{Seconds, human_duration};

/// Seconds of the notice of a spot instance that pass before ranks hear of it.
const NOTICE_LOST: Seconds = Seconds(10.0);

/// Returns `true` if ranks must write a checkpoint when they are asked to end, by SIGTERM: before the time of a Slurm job
/// is over, before a pod is evicted, and before a machine is reclaimed, as expected interruptions are priced.
pub(super) fn asks_for_checkpoints(draft: &Draft<'_>) -> bool {
    draft.job.is_spot() || matches!(draft.target, Target::Slurm | Target::Kubernetes)
}

/// Tells what a checkpoint before a spot instance is reclaimed needs, or that there is no time for one.
pub(super) fn spot_notice(draft: &mut Draft<'_>) {
    if !draft.job.is_spot() {
        return;
    }
    let notice = catalog().operations().spot_notice.value;
    let saving = draft.job.saving_in(draft.job.checkpoint_time().unwrap_or(Seconds(0.0)));
    if saving.0 > notice.0 - NOTICE_LOST.0 {
        let [saving, notice] = [saving, notice].map(human_duration);
        draft.remark(format!(
            "a step and a checkpoint may take {saving}, longer than the notice of a spot instance leaves ({notice}): work since the last checkpoint is lost, as expected interruptions are priced"
        ));
        return;
    }
    draft.remark(
        "where a checkpoint is written within the two minutes' notice of a spot instance, the prediction counts on one: ranks write it on SIGTERM, which something must send them when the notice comes (AWS Node Termination Handler on Kubernetes; elsewhere a script that watches the instance metadata); otherwise work since the last checkpoint is lost",
    );
}
