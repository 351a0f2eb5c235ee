//! Directives of a Slurm job that a site asks for: those of the cluster file, or places for them.

use crate::launch::draft::Draft;
use crate::launch::field::Field;

/// Returns the directives that keep the job on machines of the plan's kind, with the GPUs that it uses, and those that the
/// cluster file states.
pub(super) fn directives(draft: &mut Draft<'_>) -> Vec<String> {
    const FEATURE: &str = "FEATURE";
    let slurm = draft.job.slurm();
    let mut lines = Vec::new();
    let stated = [("partition", slurm.partition), ("account", slurm.account), ("qos", slurm.qos)];
    lines.extend(stated.into_iter().filter_map(|(key, value)| Some(format!("--{key}={}", value?))));
    if let Some(features) = slurm.constraint {
        lines.push(format!("--constraint={features}"));
    } else if needs_feature(draft) {
        let (kind, count) = (&draft.job.plan().cluster().instance, draft.job.processes());
        let what = format!(
            "the feature that Slurm knows the machines {kind} by (`sinfo -o \"%N %f %G\"`): the cluster has other machines, on which the plan was not made; or leave the line out and write the type of their GPUs, --gpus-per-node=TYPE:{count}"
        );
        draft.leaves(FEATURE, what);
        lines.push(format!("--constraint={FEATURE}"));
    }
    if draft.job.has_gpus() {
        let kind = slurm.gpu_type.map(|kind| format!("{kind}:")).unwrap_or_default();
        lines.push(format!("--gpus-per-node={kind}{}", draft.job.processes()));
    }
    lines
}

/// Returns `true` if nothing keeps the job on machines of the plan's kind, where the cluster has others.
fn needs_feature(draft: &Draft<'_>) -> bool {
    // A plan on several kinds is one on the whole cluster.
    draft.has_other_kinds() && !draft.job.has_kinds() && !draft.job.has_slurm_of_its_own()
}

/// Returns directives that Slurm reads once a `#` is taken away: not every Slurm wants them.
pub(super) fn places(draft: &mut Draft<'_>) -> String {
    let slurm = draft.job.slurm();
    let by_file = draft.job.plan().cluster().file.as_ref().map(|_| "; `[slurm]` of the cluster file writes it");
    let by_file = by_file.unwrap_or_default();
    let mut lines = String::new();
    if slurm.partition.is_none() {
        draft.leaves("PARTITION", format!("partition of these machines (`sinfo -s`), where it is not the default: write it, and take away one # of its line{by_file}"));
        lines += "##SBATCH --partition=PARTITION\n";
    }
    if slurm.account.is_none() {
        let how = if lines.is_empty() { "write it, and take away one # of its line" } else { "the same" };
        draft.leaves(
            "ACCOUNT",
            format!("account that the job is charged to, where your Slurm wants one: {how}{by_file}"),
        );
        lines += "##SBATCH --account=ACCOUNT\n";
    }
    lines
}

/// Says that the machines are those of the partition, unless the cluster file names it.
pub(super) fn tells_the_machines(draft: &mut Draft<'_>) {
    if draft.job.slurm().partition.is_some() {
        draft.tells(&[Field::Instance]);
    } else {
        draft.note(Field::Instance, "Slurm's partition must be of these machines");
    }
}
