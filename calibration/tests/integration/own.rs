//! Rows of a cluster of one's own, on the software of today.

use trainyard_calibration::{Entry, MEASUREMENT_COLUMNS, Row, configure, read_measurements, validate};
use trainyard_hardware_profiles::catalog;
use trainyard_plan::Plan;

/// A row of eight GPUs of a system that the catalog does not have.
const OWN: [(&str, &str); 17] = [
    ("id", "one"),
    ("suite", "mine"),
    ("system", "our-h100"),
    ("nodes", "1"),
    ("gpus_per_node", "8"),
    ("gpu", "h100-sxm5-80gb"),
    ("intra_node_link", "nvswitch3"),
    ("model", "llama-3-8b"),
    ("seq_len", "8192"),
    ("stack", "megatron-core"),
    ("precision", "bf16-mixed"),
    ("global_batch", "64"),
    ("micro_batch", "1"),
    ("dp", "8"),
    ("tp", "1"),
    ("pp", "1"),
    ("step_time_s", "8"),
];

/// A table of that row with some cells changed, and with columns that tables may lack if a change names them.
fn table(changes: &[(&str, &str)]) -> String {
    let stated = |column: &str| {
        let cell = changes.iter().chain(&OWN).find(|(name, _)| *name == column);
        cell.map_or("", |(_, value)| *value)
    };
    let others = changes.iter().map(|(name, _)| *name).filter(|name| !MEASUREMENT_COLUMNS.contains(name));
    let columns: Vec<&str> = MEASUREMENT_COLUMNS.into_iter().chain(others).collect();
    let cells: Vec<&str> = columns.iter().map(|column| stated(column)).collect();
    format!("{}\n{}\n", columns.join(","), cells.join(","))
}

/// Predicted seconds of that row, or why there are none.
fn predicted(changes: &[(&str, &str)]) -> Result<f64, String> {
    let document = validate(&table(changes), "mine.csv").expect("a table");
    let row = &document.rows[0];
    row.predicted_step_time_s.ok_or_else(|| row.reason.clone().unwrap_or_default())
}

fn row(changes: &[(&str, &str)]) -> Box<Row> {
    match read_measurements(&table(changes), "mine.csv").expect("a table").remove(0) {
        Entry::Row(row) => row,
        Entry::Malformed { error, .. } => panic!("{error}"),
    }
}

fn plan(changes: &[(&str, &str)]) -> Plan {
    configure(&row(changes)).expect("supported").plans.remove(0)
}

#[test]
fn attention_that_a_row_leaves_open_is_what_a_stack_of_today_chooses() {
    let with = |stack: &str, attention: &str| predicted(&[("stack", stack), ("attention", attention)]);
    let today: Vec<&str> =
        catalog().stacks().iter().filter(|stack| stack.runs.today).map(|stack| stack.name.as_str()).collect();
    assert!(today.contains(&"megatron-core") && today.len() > 3, "{today:?}");
    for stack in today {
        assert_eq!(with(stack, ""), with(stack, "flash"), "{stack}");
    }
    assert!(with("megatron-core", "unfused").expect("supported") > 1.2 * with("megatron-core", "").expect("supported"));
    // Publications on software of before that say nothing had no fused kernel.
    assert_eq!(with("megatron-lm", ""), with("megatron-lm", "unfused"));
    assert_ne!(with("megatron-lm", ""), with("megatron-lm", "flash"));
    // Nor does each kernel take all models: T5 adds to its scores.
    let t5 = [("model", "t5-large"), ("seq_len", "512"), ("stack", "pytorch-ddp")];
    let open = predicted(&t5).expect("supported");
    assert_eq!(Ok(open), predicted(&[&t5[..], &[("attention", "memory-efficient")]].concat()));
}

#[test]
fn links_that_a_row_leaves_open_are_those_of_all_machines_with_its_gpu() {
    assert_eq!(predicted(&[("intra_node_link", "")]), predicted(&[]));
    let refused = |gpu: &str, gpus: &str, link: &str| {
        let changes = [("gpu", gpu), ("gpus_per_node", gpus), ("dp", gpus), ("intra_node_link", link)];
        predicted(&changes).expect_err("no such link")
    };
    let all = "it must be one of nvlink-bridge, nvlink2-hybrid-cube-mesh, ";
    let unknown = refused("h100-sxm5-80gb", "8", "nvswitch5");
    assert!(unknown.starts_with("`intra_node_link` is `nvswitch5`, but ") && unknown.contains(all), "{unknown}");
    assert!(unknown.ends_with("8 or more `h100-sxm5-80gb` have `nvswitch3`"), "{unknown}");
    let open = refused("v100-sxm2-16gb", "4", "");
    assert!(open.starts_with("`intra_node_link` is missing: ") && open.contains("pcie4"), "{open}");
    assert!(open.contains("`nvlink2-hybrid-cube-mesh` or `nvlink2-quad`"), "{open}");
    // No machine of the catalog has this GPU.
    let similar = refused("a100-pcie-80gb", "8", "pcie5");
    assert!(similar.ends_with("did you mean `pcie4`?"), "{similar}");
}

#[test]
fn every_degree_of_a_plan_has_a_column() {
    let plain = plan(&[]);
    assert_eq!((plain.spec().parallel.context, plain.spec().parallel.expert), (1, 1));
    assert_eq!(plan(&[("dp", "4"), ("cp", "2")]).spec().parallel.context, 2);
    assert!(predicted(&[("dp", "4"), ("cp", "2")]) != predicted(&[("dp", "4"), ("tp", "2")]));
    let many = predicted(&[("cp", "2")]).expect_err("sixteen ranks");
    assert_eq!(many, "dp 8 × tp 1 × pp 1 × cp 2 are more ranks than the 8 GPUs of the row");
    // Where other degrees are open, those of the rest of the GPUs are tried.
    let open = configure(&row(&[("cp", "4"), ("dp", ""), ("micro_batch", "")])).expect("supported");
    assert!(open.plans.iter().all(|plan| plan.spec().parallel.context == 4 && plan.mesh().ranks() == 8));
    let experts = [("model", "mixtral-8x7b"), ("ep", "8")];
    assert_eq!(plan(&experts).spec().parallel.expert, 8);
    let none = predicted(&[("ep", "2")]).expect_err("no experts");
    assert!(none.contains("parallel.expert"), "{none}");
    let heads = |count| plan(&[("kv_heads", count)]).spec().model.kv_heads;
    assert_eq!((heads("32"), heads("")), (Some(32), Some(8)));
}
