//! Whether a plan fits into the memory that is free, said before anything is allocated.

use std::fs;
use std::path::{Path, PathBuf};
use trainyard_plan::{GradientStore, Plan, Rank, StageId, Store, kept_elsewhere, resident};
use trainyard_units::{Bytes, human_bytes};

/// Gradients are summed up in single precision, whatever computes, and layer by layer beside backward.
const GRADIENTS: GradientStore = GradientStore { element: size_of::<f32>() as u64, bucketed: true };

/// A plan that needs more memory than there is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the plan needs at least {} of {place} for {ranks} {} of this machine, but only {} are free",
    human_bytes(*needed),
    if *ranks == 1 { "rank" } else { "ranks" },
    human_bytes(*available)
)]
pub struct MemoryShortage {
    /// The name of the memory, such as `main memory`.
    pub place: String,
    /// Ranks of this machine that share it.
    pub ranks: usize,
    /// Bytes that the ranks hold together at the peak of a step, as the plan counts it; memory of the software
    /// itself comes on top.
    pub needed: Bytes,
    /// Free memory.
    pub available: Bytes,
    /// The stage whose rank needs most, and how much.
    pub largest: (StageId, Bytes),
    /// The changes to the plan that could help.
    pub hint: String,
}

/// Checks that `ranks` of `plan`, which share this machine, fit into its free memory. Passes where the system does not
/// report free memory.
///
/// # Errors
///
/// When they do not fit.
pub(crate) fn check_memory(plan: &Plan, ranks: impl IntoIterator<Item = Rank>) -> Result<(), MemoryShortage> {
    available_memory().map_or(Ok(()), |available| fits(plan, ranks, "main memory", available))
}

/// Checks that `ranks` of `plan` fit into `available` memory of `place`.
///
/// # Errors
///
/// When they do not fit.
pub(crate) fn fits(
    plan: &Plan,
    ranks: impl IntoIterator<Item = Rank>,
    place: &str,
    available: Bytes,
) -> Result<(), MemoryShortage> {
    let of_stages: Vec<Bytes> = plan.stages().ids().map(|stage| rank_bytes(plan, stage)).collect();
    let (mut count, mut needed, mut largest) = (0, Bytes(0), (StageId(0), Bytes(0)));
    for rank in ranks {
        let stage = StageId(plan.mesh().coordinates(rank).pipeline);
        let bytes = of_stages[stage.0 as usize];
        count += 1;
        needed = Bytes(needed.0.saturating_add(bytes.0));
        if bytes > largest.1 {
            largest = (stage, bytes);
        }
    }
    if needed <= available {
        return Ok(());
    }
    Err(MemoryShortage { place: place.into(), ranks: count, needed, available, largest, hint: hint(plan, largest) })
}

/// Returns the bytes that a rank of a stage holds: in main memory, which is both a processor's and its machine's, or on
/// its GPU, from which nothing is moved away.
fn rank_bytes(plan: &Plan, stage: StageId) -> Bytes {
    resident(plan, stage, GRADIENTS).total() + kept_elsewhere(plan, stage, Store::Host)
}

/// Names the largest part of the largest rank's memory, and the changes that make it smaller.
fn hint(plan: &Plan, (stage, bytes): (StageId, Bytes)) -> String {
    let held = resident(plan, stage, GRADIENTS);
    let passing = held.activations + held.buffers + held.workspace;
    let lasting = Bytes(bytes.0.saturating_sub(passing.0));
    let help = if passing > lasting {
        "a smaller batch.micro or recompute = \"full\" needs less"
    } else if plan.mesh().ranks() > 1 {
        "state_sharding, more machines or a smaller model needs less of each"
    } else {
        "a smaller model, or a plan over several machines, needs less of each"
    };
    format!(
        "a rank of stage {} takes {} for weights and optimizer state and {} for activations; {help}",
        stage.0,
        human_bytes(lasting),
        human_bytes(passing)
    )
}

/// Returns the main memory that this process may still take: what is free of the machine, or less where a container
/// limits it.
fn available_memory() -> Option<Bytes> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| told(&text, "MemAvailable:"));
    machine.into_iter().chain(containers()).min().map(Bytes)
}

/// Returns the main memory that this process may take when nothing else does: that of the machine, or less where a
/// container limits it.
pub fn total_memory() -> Option<Bytes> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| told(&text, "MemTotal:"));
    machine.into_iter().chain(limits()).min().map(Bytes)
}

/// Returns the bytes of a field that the system reports (`proc(5)`): `MemAvailable` is what it would give without
/// swapping.
fn told(meminfo: &str, field: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The names of a control group's files.
struct GroupFiles {
    limit: &'static str,
    usage: &'static str,
    /// The entries of the group's statistics that count memory the system gives back when it runs short.
    cached: [&'static str; 2],
}

/// Sources: Linux `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`.
const SECOND: GroupFiles =
    GroupFiles { limit: "memory.max", usage: "memory.current", cached: ["active_file", "inactive_file"] };
const FIRST: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cached: ["total_active_file", "total_inactive_file"],
};

/// Returns the memory left in the control groups around this process, one number for each that has a limit.
fn containers() -> Vec<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    group_folders(&groups)
        .iter()
        .filter_map(|(folder, files)| {
            let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
            left(files, &read(files.limit)?, &read(files.usage)?, &read("memory.stat").unwrap_or_default())
        })
        .collect()
}

/// Returns the limits of the control groups around this process, one number for each that has a limit.
fn limits() -> Vec<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = |(folder, files): &(PathBuf, &GroupFiles)| {
        fs::read_to_string(folder.join(files.limit)).ok()?.trim().parse().ok()
    };
    group_folders(&groups).iter().filter_map(limit).collect()
}

/// Returns the folders of the groups that a process is in, as `/proc/self/cgroup` tells, and of those around them.
/// Inside a container the path may be that of the host, where only the root is to be seen.
fn group_folders(groups: &str) -> Vec<(PathBuf, &'static GroupFiles)> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, files) = match controllers {
            "" => ("/sys/fs/cgroup", &SECOND),
            _ if controllers.split(',').any(|controller| controller == "memory") => ("/sys/fs/cgroup/memory", &FIRST),
            _ => continue,
        };
        let inside = Path::new(path.trim_start_matches('/'));
        folders.extend(inside.ancestors().map(|inside| (Path::new(root).join(inside), files)));
    }
    folders
}

/// Returns the memory left below a group's limit; `None` if it has no limit.
fn left(files: &GroupFiles, limit: &str, usage: &str, statistics: &str) -> Option<u64> {
    let limit: u64 = limit.trim().parse().ok()?;
    let usage: u64 = usage.trim().parse().ok()?;
    let cached = statistics.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        files.cached.contains(&name).then(|| value.trim().parse::<u64>().ok())?
    });
    Some(limit.saturating_sub(usage.saturating_sub(cached.sum())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_models::{Family, ModelSpec};
    use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec, StageSpec, StateSharding};

    fn plan(data: u32, hidden: u64) -> Plan {
        Plan::try_from(spec(data, hidden)).expect("a valid plan")
    }

    fn spec(data: u32, hidden: u64) -> PlanSpec {
        let model = ModelSpec {
            layers: Some(4),
            hidden: Some(hidden),
            heads: Some(4),
            vocab: Some(256),
            seq_len: Some(64),
            ..ModelSpec::new("test", Family::Gpt)
        };
        PlanSpec {
            parallel: ParallelSpec { data, ..ParallelSpec::default() },
            batch: BatchSpec { global: 4, micro: 4 / u64::from(data), accumulation: 1 },
            stages: vec![StageSpec { first: 0, layers: 6 }],
            ..PlanSpec::plain(model, ClusterSpec::of("local", 1), 6)
        }
    }

    fn layers(spec: PlanSpec, layers: u32) -> PlanSpec {
        let model = ModelSpec { layers: Some(layers), ..spec.model.clone() };
        PlanSpec { stages: vec![StageSpec { first: 0, layers: layers as usize + 2 }], model, ..spec }
    }

    fn ranks(plan: &Plan) -> impl Iterator<Item = Rank> + use<> {
        (0..plan.mesh().ranks()).map(Rank)
    }

    #[test]
    fn a_plan_fits_into_what_it_needs_and_not_into_less() {
        let plan = plan(2, 64);
        let shortage = fits(&plan, ranks(&plan), "main memory", Bytes(0)).expect_err("nothing is free");
        // Sixteen bytes a parameter and replica, and the activations.
        assert!(shortage.needed.0 > 2 * 16 * plan.graph().parameters(), "{shortage}");
        assert_eq!(fits(&plan, ranks(&plan), "main memory", shortage.needed), Ok(()));
        let less = Bytes(shortage.needed.0 - 1);
        assert_eq!(
            fits(&plan, ranks(&plan), "main memory", less),
            Err(MemoryShortage { available: less, ..shortage.clone() })
        );
        // Half of the ranks are on another machine.
        assert_eq!(fits(&plan, [Rank(0)], "main memory", less), Ok(()));
        assert!(
            shortage.to_string().contains("main memory for 2 ranks") && shortage.hint.contains("stage 0"),
            "{shortage:?}"
        );
    }

    #[test]
    fn the_hint_names_what_takes_most() {
        let hint = |plan: Plan| fits(&plan, ranks(&plan), "main memory", Bytes(0)).expect_err("nothing is free").hint;
        assert!(hint(plan(1, 512)).contains("smaller model"));
        assert!(hint(plan(2, 512)).contains("state_sharding"));
        assert!(hint(plan(1, 16)).contains("batch.micro"));
    }

    #[test]
    fn of_shared_weights_two_layers_are_whole_at_once() {
        let bytes = |spec: PlanSpec| rank_bytes(&Plan::try_from(spec).expect("a valid plan"), StageId(0)).0;
        // Single precision: 256 entries and 64 positions of width 64, the last norm, blocks of 12 h² + 13 h.
        let parameters = |layers: u64| (256 + 64) * 64 + 2 * 64 + layers * (12 * 64 * 64 + 13 * 64);
        let (four, eight) = (spec(2, 64), layers(spec(2, 64), 8));
        let sharded = |spec: PlanSpec| PlanSpec { state_sharding: StateSharding::Parameters, ..spec };
        let optimizer = |spec: PlanSpec| PlanSpec { state_sharding: StateSharding::Gradients, ..spec };
        // Half of the weights is elsewhere; the layers that are gathered are those of any depth.
        let gathered = |spec: PlanSpec, blocks: u64| {
            bytes(sharded(spec.clone())) + 2 * parameters(blocks) - bytes(optimizer(spec))
        };
        assert_eq!(gathered(four, 4), 2 * 4 * (12 * 64 * 64 + 13 * 64));
        assert_eq!(gathered(eight, 8), 2 * 4 * (12 * 64 * 64 + 13 * 64));
    }

    #[test]
    fn what_the_system_tells_is_understood() {
        let both = "MemTotal:  100 kB\nMemAvailable:      24 kB\n";
        assert_eq!(told(both, "MemAvailable:"), Some(24 * 1024));
        assert_eq!(told(both, "MemTotal:"), Some(100 * 1024));
        assert_eq!(told("MemTotal:  100 kB\n", "MemAvailable:"), None);
        let statistics = "anon 500\nactive_file 30\ninactive_file 70\ntotal_active_file 1\n";
        assert_eq!(left(&SECOND, "1000\n", "600\n", statistics), Some(500));
        assert_eq!(left(&SECOND, "max\n", "600\n", statistics), None);
        assert_eq!(left(&FIRST, "1000\n", "1200\n", ""), Some(0));
        let folders = |groups: &str| {
            let found = group_folders(groups).into_iter().map(|(folder, _)| folder.display().to_string());
            found.collect::<Vec<_>>()
        };
        assert_eq!(folders("0::/a/b\n"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup/"]);
        assert_eq!(folders("5:cpu:/x\n4:cpu,memory:/x\n"), ["/sys/fs/cgroup/memory/x", "/sys/fs/cgroup/memory/"]);
        assert_eq!(folders("0::/\n"), ["/sys/fs/cgroup/"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn something_is_free_here() {
        assert!(available_memory().is_some_and(|bytes| bytes.0 > 1 << 20));
    }
}
