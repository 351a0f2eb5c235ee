//! What must not change an answer, and what may change it in one way only.

use crate::trainyard::{document, ended, told};
use serde_json::Value;
use std::fs;

const MODEL: &str = "[model]\nname = \"gpt2-medium\"\n";
const DATA: &str = "[data]\nsamples = 100_000\n";
const TRAINING: &str = "[training]\nglobal_batch = 64\nprecision = [\"fp16-mixed\", \"fp32\"]\n";
const CLUSTER: &str = "[cluster]\nfile = \"cluster.toml\"\n";

/// A cluster of two machines, with its quantities in these words.
fn cluster(network: &str, memory: &str, link: &str, host: &str) -> String {
    format!(
        r#"
name = "own"
[[machines]]
name = "node"
count = 2
gpus = 4
[machines.gpu]
name = "own-gpu"
like = "v100-sxm2-16gb"
memory = "{memory}"
memory_bandwidth = "900 GB/s"
peak_fp32 = "15.7 TFLOP/s"
peak_fp16 = "125 TFLOP/s"
multiprocessors = 80
[machines.link]
kind = "nvswitch"
bandwidth = "{link}"
[machines.network]
bandwidth = "{network}"
transport = "infiniband"
[machines.host]
memory = "{host}"
memory_bandwidth = "400 GB/s"
pcie = "15.75 GB/s"
"#
    )
}

/// The recommendation for a job on a cluster, or for one that rents; nothing if there is none.
fn recommended(job: &str, cluster: Option<&str>) -> Option<Value> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("job.toml"), job).expect("room");
    if let Some(cluster) = cluster {
        fs::write(folder.path().join("cluster.toml"), cluster).expect("room");
    }
    let output = ended(folder.path(), &["plan", "job.toml", "--format", "json", "-q"]);
    match output.status.code() {
        Some(0) => Some(document(&output)),
        Some(3) => None,
        code => panic!("{code:?}: {}", told(&output)),
    }
}

/// What was found and why, without the words of the job.
fn answer(document: &Value) -> [&Value; 5] {
    ["plan", "prediction", "pareto", "alternatives", "reasons"].map(|field| &document[field])
}

#[test]
fn the_order_of_tables_and_keys_changes_nothing() {
    let cluster = cluster("100 Gbit/s", "16 GiB", "150 GB/s", "256 GiB");
    let orders = [[MODEL, DATA, TRAINING, CLUSTER], [CLUSTER, TRAINING, DATA, MODEL], [DATA, CLUSTER, MODEL, TRAINING]];
    let found = orders.map(|tables| recommended(&tables.concat(), Some(&cluster)).expect("a plan"));
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0], found[2]);
}

#[test]
fn the_order_of_instance_types_changes_nothing() {
    let job = |instances: &str| {
        let rented = format!("[cluster]\ninstances = [{instances}]\nmax_instances = 2\n");
        [MODEL, DATA, TRAINING, &rented].concat()
    };
    let one = recommended(&job(r#""p3.8xlarge", "p3.16xlarge", "g4dn.12xlarge""#), None).expect("a plan");
    let other = recommended(&job(r#""g4dn.12xlarge", "p3.16xlarge", "p3.8xlarge""#), None).expect("a plan");
    for field in ["plan", "prediction"] {
        assert_eq!(one[field], other[field], "{field}");
    }
    let gap = |document: &Value| document["search"]["gap"].as_f64();
    assert_eq!((gap(&one), gap(&other)), (Some(0.0), Some(0.0)));
}

#[test]
fn the_units_in_which_quantities_are_written_change_nothing() {
    let job = [MODEL, DATA, TRAINING, CLUSTER].concat();
    let one = recommended(&job, Some(&cluster("100 Gbit/s", "16 GiB", "150 GB/s", "256 GiB"))).expect("a plan");
    let other = cluster("12.5 GB/s", "17179869184 B", "1200 Gbit/s", "0.25 TiB");
    let other = recommended(&job, Some(&other)).expect("a plan");
    assert_eq!(answer(&one), answer(&other));
    let per_step = |steps: &str| [MODEL, DATA, TRAINING, "steps = 10_000\n", CLUSTER, steps].concat();
    let deadline = |text: &str| per_step(&format!("[goal]\nobjective = \"time\"\ndeadline = \"{text}\"\n"));
    let machines = cluster("100 Gbit/s", "16 GiB", "150 GB/s", "256 GiB");
    let [days, hours] = ["3 d", "72 h"].map(|text| recommended(&deadline(text), Some(&machines)).expect("a plan"));
    assert_eq!(answer(&days), answer(&hours));
}

/// Memory and links are means; whoever has more of them can do what was done before. The best plan shows it: what is
/// recommended may be a simpler one.
#[test]
fn more_memory_fits_no_less_and_faster_links_are_no_slower() {
    let job = [MODEL, DATA, TRAINING, CLUSTER].concat();
    let time = |network: &str, memory: &str| {
        let found = recommended(&job, Some(&cluster(network, memory, "150 GB/s", "256 GiB")))?;
        found["optimum"]["time_s"].as_f64().or_else(|| found["prediction"]["time_s"].as_f64())
    };
    let by_memory = ["2 GiB", "4 GiB", "8 GiB", "16 GiB", "32 GiB"].map(|memory| time("100 Gbit/s", memory));
    assert!(by_memory[4].is_some(), "there is a plan with enough memory");
    for pair in by_memory.windows(2) {
        let [less, more] = [pair[0], pair[1]].map(|time| time.unwrap_or(f64::INFINITY));
        assert!(more <= less * (1.0 + 1e-9), "{by_memory:?}");
    }
    let by_network = ["10 Gbit/s", "20 Gbit/s", "100 Gbit/s", "400 Gbit/s"].map(|network| time(network, "16 GiB"));
    for pair in by_network.windows(2) {
        let [slower, faster] = [pair[0], pair[1]].map(|time| time.expect("the memory is the same"));
        assert!(faster <= slower * (1.0 + 1e-9), "{by_network:?}");
    }
}
