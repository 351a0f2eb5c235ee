//! The whole loop through the binary: calibrate, plan, simulate, run, compare, and go on from a checkpoint.

use crate::signals::interrupt;
use crate::trainyard::document;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

/// A folder with a job and text to train on.
fn workplace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    crate::tiny::write_job(folder.path(), "");
    folder
}

fn trainyard(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = crate::trainyard::trainyard(folder, arguments);
    // What is kept goes where the runs are: into this folder.
    command.env_remove("TRAINYARD_PROFILE").env_remove("TRAINYARD_HISTORY");
    command
}

/// Runs a command that must end with this exit code.
fn ends(code: i32, folder: &Path, arguments: &[&str]) -> Output {
    let output = trainyard(folder, arguments).output().expect("the binary starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
    assert!(!told.contains('\u{1b}') && !told.contains('\r'), "nothing is drawn where there is no terminal: {told}");
    output
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("readable")).expect("JSON")
}

fn is_described(document: &Value, place: &Path, name: &str) {
    ends(0, place, &["schemas", "--out", "schemas"]);
    assert_eq!(crate::schema::problem(document, &read(&place.join(format!("schemas/{name}.json")))), None);
}

fn losses(folder: &Path) -> Vec<Value> {
    let log = fs::read_to_string(folder.join("metrics.jsonl")).expect("a metrics log");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    // Some tell of evaluations.
    lines.filter_map(|line| line.get("loss").cloned()).collect()
}

/// One calibration serves all claims about what stands on it.
#[test]
fn the_whole_loop_closes_on_this_machine() {
    let place = workplace();
    let place = place.path();
    let first = document(&ends(0, place, &["train", "job.toml", "--format", "json"]));
    let run = place.join("runs/tiny-1");
    everything_is_written_down(&first, place, &run);
    plan_and_run_are_kept(&first, place, &run);
    the_trace_shows_predicted_above_measured(&read(&run.join("trace.json")));
    the_same_plan_and_seed_give_the_same_training(place, &run);
    a_training_that_stops_early_keeps_its_decay(place);
    jobs_train_side_by_side(place, &run);
    a_plan_runs_on_what_its_profile_was_measured_on(place, &run);
    a_plan_is_simulated_from_its_own_folder(place, &first);
    experts_and_parts_of_samples_are_shared_among_ranks(place);
    adapters_are_trained_beside_the_weights_of_a_run(place, &run);
    jobs_stop_with_their_list(place);
    an_interrupted_run_goes_on(place, interrupt(), "long");
    an_interrupted_run_goes_on(place, "-TERM", "longer");
    a_killed_run_goes_on_from_its_last_checkpoint(place);
}

fn everything_is_written_down(document: &Value, place: &Path, run: &Path) {
    assert_eq!(document["schema"], "trainyard.comparison/1");
    assert_eq!(document["steps"], 12);
    assert_eq!(&read(&run.join("comparison.json")), document);
    is_described(document, place, "comparison");
    let plan = read(&run.join("plan.json"));
    assert_eq!(plan["schema"], "trainyard.plan/1");
    assert_eq!(plan["plan"], document["plan"]);
    // What was written down before the run is what the run is compared with.
    for field in ["step_time_s", "interval_s", "samples_per_s", "phases"] {
        assert_eq!(plan["prediction"][field], document["predicted"][field], "{field}");
    }
    let seconds = |side: &str| document[side]["step_time_s"].as_f64().expect("a step time");
    let error = document["error"]["step_time"].as_f64().expect("an error");
    assert!((seconds("predicted") / seconds("measured") - 1.0 - error).abs() < 1e-9);
    assert!(document["measured"]["memory_bytes"].as_u64().expect("a peak") > 10_000);
    let loss = |end: &str| document["loss"][end].as_f64().expect("a loss");
    assert!(loss("last") < loss("first") && loss("held_out").is_finite(), "{}", document["loss"]);
    for file in ["plan", "measurement", "trace", "plot", "checkpoint"] {
        let path = document["files"][file].as_str().expect("a path");
        assert!(place.join(path).exists(), "{file}: {path}");
    }
    assert!(place.join("runs/local-profile.toml").exists() && run.join("profile.toml").exists());
    assert!(fs::read_to_string(run.join("loss.svg")).expect("a plot").contains("predicted"));
    assert_eq!(losses(run).len(), 12);
}

fn experts_and_parts_of_samples_are_shared_among_ranks(place: &Path) {
    let profile = fs::read_to_string(place.join("runs/local-profile.toml")).expect("a profile");
    let devices = profile.lines().find_map(|line| line.strip_prefix("devices = ")?.parse::<u64>().ok());
    let degree = devices.expect("a number").min(2);
    let model =
        "name = \"routed\"\nfamily = \"llama\"\nlayers = 2\nhidden = 16\nheads = 2\nvocab = 256\nseq_len = 16\n";
    fs::write(place.join("routed.toml"), format!("{model}experts = 4\n")).expect("room");
    for (field, more) in [("context", &[][..]), ("expert", &["--model", "routed.toml"])] {
        let held = format!("parallel.{field}={degree}");
        let arguments = ["train", "job.toml", "--fix", &held, "--fix", "parallel.pipeline=1", "--steps", "3"];
        let document = document(&ends(0, place, &[&arguments[..], more, &["--format", "json"]].concat()));
        let parallel = &document["plan"]["parallel"];
        assert_eq!(parallel[field], degree);
        let ranks = ["data", "tensor", "context"].map(|name| parallel[name].as_u64().expect("a degree"));
        let plan = read(&place.join(document["files"]["plan"].as_str().expect("a path")));
        let of_rank = plan["prediction"]["memory_bytes"]["stages"][0]["total"].as_u64().expect("bytes");
        assert_eq!(document["predicted"]["memory_bytes"], of_rank * ranks.iter().product::<u64>());
    }
}

/// The job goes on from the weights of a run, with adapters of which alone a checkpoint is written.
fn adapters_are_trained_beside_the_weights_of_a_run(place: &Path, run: &Path) {
    let job = fs::read_to_string(place.join("job.toml")).expect("it was written");
    fs::write(place.join("lora.toml"), format!("{job}method = \"lora\"\nlora = {{ rank = 2 }}\n")).expect("room");
    let first = read(&run.join("comparison.json"));
    let weights = first["files"]["checkpoint"].as_str().expect("one was written");
    let split = ["--fix", "parallel.tensor=2"];
    let train = ["train", "lora.toml", "--weights", weights, "--out", "lora", "--format", "json"];
    let trained = ends(0, place, &[&train[..], &split].concat());
    let told = String::from_utf8_lossy(&trained.stderr).into_owned();
    assert!(told.contains("LoRA, rank 2 on all-linear: 1,024 of"), "{told}");
    let document = document(&trained);
    let error = document["error"]["memory"].as_f64().expect("it is predicted and measured");
    assert!(error.abs() < 1.0, "{document}");
    let checkpoint = document["files"]["checkpoint"].as_str().expect("one is written");
    let saved = |name: &str| place.join(checkpoint).join(name).exists();
    assert!(saved("adapter_config.json") && saved("adapter_model.safetensors") && !saved("model.safetensors"));
    let more = ["--data", "text", "--steps", "14", "--checkpoint", "lora/checkpoint", "--resume", "--out", "lora-2"];
    ends(0, place, &[&["run", "lora/plan.json"], &more[..]].concat());
    assert_eq!(losses(&place.join("lora-2")).len(), 2);
    // Other software does not split it, and weights in four bits are not there.
    let refused = ends(2, place, &["export", "lora/plan.json", "--to", "accelerate"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("data parallelism"));
    let refused = ends(2, place, &["train", "lora.toml", "--fine-tune", "qlora"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--fine-tune"));
}

fn plan_and_run_are_kept(document: &Value, place: &Path, run: &Path) {
    let listed = self::document(&ends(0, place, &["history", "list", "--format", "json"]));
    let entries = listed["entries"].as_array().expect("a list");
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["kind"].as_str().expect("a kind")).collect();
    assert_eq!(kinds, ["run", "plan"]);
    let id = |index: usize| entries[index]["id"].as_str().expect("an id");
    assert_eq!(entries[0]["figures"]["step_time_s"], document["measured"]["step_time_s"]);
    let printed = ends(0, place, &["history", "show", id(0), "--document"]);
    assert_eq!(&self::document(&printed), document);
    ends(0, place, &["history", "export", id(0), "--out", "kept/run.json"]);
    assert_eq!(read(&place.join("kept/run-measurement.json")), read(&run.join("measurement.json")));
    // Plan and measurements are compared again, and the plan is simulated from the profile that was kept with it.
    let compared = ends(0, place, &["compare", "kept/run-plan.json", "kept/run-measurement.json", "--format", "json"]);
    assert_eq!(self::document(&compared)["measured"], document["measured"]);
    let simulated = ends(0, place, &["simulate", "kept/run-plan.json", "--format", "json", "--history", "off"]);
    assert_eq!(self::document(&simulated)["prediction"]["step_time_s"], document["predicted"]["step_time_s"]);
    ends(0, place, &["history", "show", id(0)]);
    ends(0, place, &["history", "compare", id(0), id(1)]);
}

fn the_trace_shows_predicted_above_measured(trace: &Value) {
    let events = trace["traceEvents"].as_array().expect("events");
    let processes: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .filter_map(|event| event["args"]["name"].as_str())
        .collect();
    let of = |what: &str| processes.iter().position(|name| name.starts_with(what)).expect("it is shown");
    assert!(of("predicted") < of("measured, rank 0"), "{processes:?}");
    let spans = || events.iter().filter(|event| event["ph"] == "X");
    for pid in 0..processes.len() {
        let own: f64 = spans().filter(|span| span["pid"] == pid).filter_map(|span| span["dur"].as_f64()).sum();
        assert!(own > 0.0, "process {pid} did something");
    }
    assert!(spans().all(|span| span["ts"].as_f64().is_some_and(|start| start >= 0.0)));
}

fn the_same_plan_and_seed_give_the_same_training(place: &Path, run: &Path) {
    let plan = "runs/tiny-1/plan.json";
    ends(0, place, &["run", plan, "--data", "text", "--out", "again", "-q"]);
    assert_eq!(losses(run), losses(&place.join("again")));
    ends(0, place, &["run", plan, "--data", "text", "--out", "other", "--seed", "2", "-q"]);
    assert_ne!(losses(run), losses(&place.join("other")));
    let compared = document(&ends(0, place, &["compare", plan, "again", "--format", "json"]));
    assert_eq!(compared["measured"], read(&place.join("again/comparison.json"))["measured"]);
    // A folder that holds something is left alone, and so is a profile that is there.
    ends(2, place, &["run", plan, "--data", "text", "--out", "again"]);
    let told = ends(0, place, &["train", "job.toml", "--steps", "3", "--data", "text/proverbs.txt"]).stderr;
    assert!(String::from_utf8_lossy(&told).contains("reused runs/local-profile.toml"));
}

/// Stopping at the fifth of twelve steps and going on is the same as going through, and the last step still trains.
fn a_training_that_stops_early_keeps_its_decay(place: &Path) {
    let decaying = fs::read_to_string(place.join("job.toml")).expect("a job");
    let decaying = decaying.replace("learning_rate = 1e-2", "learning_rate = 1e-2\ndecay = \"cosine\"");
    fs::write(place.join("decaying.toml"), decaying).expect("room");
    let through = ends(0, place, &["train", "decaying.toml", "--out", "through"]);
    assert!(String::from_utf8_lossy(&through.stderr).contains("cosine decay to 0 at step 12"), "{through:?}");
    let run = ["run", "through/plan.json", "--data", "text", "-q"];
    ends(0, place, &[&run[..], &["--steps", "5", "--out", "early"]].concat());
    ends(0, place, &[&run[..], &["--checkpoint", "early/checkpoint", "--resume", "--out", "late"]].concat());
    assert_eq!(losses(&place.join("through"))[5..], losses(&place.join("late")));
}

/// Jobs of a list have their own folders and seeds; one that fails takes no other along.
fn jobs_train_side_by_side(place: &Path, run: &Path) {
    let list = r#"
[[job]]
name = "seeds"
file = "job.toml"
vary = { seed = [1, 2] }

[[job]]
name = "again"
plan = "runs/tiny-1/plan.json"
data = { path = "text" }

[[job]]
plan = "beside.json"
data = { path = "text" }

[[job]]
name = "too-fast"
file = "job.toml"
[job.vary]
# Each step multiplies the weights by minus eight.
"training.learning_rate" = [10.0]
"training.weight_decay" = [0.9]
"training.steps" = [90]
"#;
    fs::write(place.join("jobs.toml"), list).expect("room");
    fs::copy(run.join("plan.json"), place.join("beside.json")).expect("room");
    // Nothing is planned for weights that are not there.
    ends(2, place, &["train", "jobs.toml", "--out", "jobs", "--weights", "nowhere"]);
    assert!(!place.join("jobs").exists());
    // One of them breaks off after a checkpoint: it can be gone on from, and has failed all the same.
    let list = ["train", "jobs.toml", "--out", "jobs", "--checkpoint-every", "20", "--format", "json"];
    let jobs = document(&ends(1, place, &list));
    assert_eq!(jobs, read(&place.join("jobs/jobs.json")));
    is_described(&jobs, place, "jobs");
    let ended: Vec<(&str, &str)> = jobs["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| (job["name"].as_str().expect("a name"), job["end"].as_str().expect("an end")))
        .collect();
    let done = ["seeds-1", "seeds-2", "again", "beside"].map(|name| (name, "done"));
    assert_eq!(ended, [&done[..], &[("too-fast", "failed")]].concat());
    assert!(jobs["jobs"][4]["error"].as_str().is_some_and(|error| error.contains("loss")), "{}", jobs["jobs"][4]);
    assert_eq!(losses(&place.join("jobs/runs/again")), losses(run));
    assert_ne!(losses(&place.join("jobs/runs/seeds-1")), losses(&place.join("jobs/runs/seeds-2")));
    let best = |index: usize| jobs["jobs"][index]["best"] == true;
    assert!(best(0) != best(1) && !best(2));
    assert!(jobs["jobs"][0]["measured"]["predicted_step_time_s"].as_f64().is_some_and(|seconds| seconds > 0.0));
    assert!(fs::read_to_string(place.join("jobs/logs/too-fast.txt")).expect("a log").contains("error"));
}

/// Jobs of a list stop after their step when the list is stopped, and when it is killed and can tell them nothing.
fn jobs_stop_with_their_list(place: &Path) {
    let job = "[[job]]\nname = \"long\"\nfile = \"job.toml\"\nvary = { \"training.steps\" = [1000000] }\n";
    fs::write(place.join("long.toml"), job).expect("room");
    for (signal, out) in [(interrupt(), "stopped"), ("-KILL", "killed-list")] {
        let list = ["train", "long.toml", "--out", out];
        let mut child = trainyard(place, &list).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let run = place.join(out).join("runs/long");
        while losses_so_far(&run) < 2 {
            assert!(child.try_wait().expect("it is known").is_none(), "the list ended by itself");
            std::thread::yield_now();
        }
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill is there");
        assert!(sent.success());
        let status = child.wait().expect("it ends");
        // The job holds the folder of its checkpoints for as long as it runs.
        fs::File::open(run.join("checkpoint")).and_then(|folder| folder.lock()).expect("the job ends");
        let steps = newest(&run.join("checkpoint"));
        assert!((2..1_000_000).contains(&steps), "{steps}");
        if signal != "-KILL" {
            assert_eq!(status.code(), Some(5));
            assert_eq!(read(&place.join(out).join("jobs.json"))["jobs"][0]["end"], "interrupted");
        }
    }
}

fn losses_so_far(run: &Path) -> usize {
    fs::read_to_string(run.join("metrics.jsonl")).map_or(0, |text| text.lines().count())
}

/// Without being told. Where there is no GPU it is said what is missing, and nothing is written.
fn a_plan_runs_on_what_its_profile_was_measured_on(place: &Path, run: &Path) {
    let folder = place.join("gpus");
    fs::create_dir(&folder).expect("room");
    fs::copy(run.join("plan.json"), folder.join("plan.json")).expect("room");
    let profile = fs::read_to_string(run.join("profile.toml")).expect("a profile");
    let profile = profile.replacen("devices =", "device = \"cuda\"\ndevices =", 1);
    fs::write(folder.join("profile.toml"), profile).expect("room");
    let (plan, profile) = ("gpus/plan.json", "gpus/profile.toml");
    let refused = ends(2, place, &["train", "job.toml", "--on", profile, "--device", "cpu"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("measured on cuda"), "{refused:?}");
    // Another device than the profile's has no prediction.
    let out = ["--out", "on-processors", "--format", "json"];
    let other = ends(0, place, &[&["run", plan, "--data", "text", "--device", "cpu"][..], &out].concat());
    assert!(String::from_utf8_lossy(&other.stderr).contains("nothing is predicted of cpu"), "{other:?}");
    assert_eq!(document(&other)["predicted"], Value::Null);
    // Even where there are GPUs, none is to be seen.
    for arguments in [&["run", plan, "--data", "text", "--out", "nothing"][..], &["train", "job.toml", "--on", profile]]
    {
        let refused = trainyard(place, arguments).env("CUDA_VISIBLE_DEVICES", "").output().expect("the binary starts");
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("`--device` is cuda, but"), "{refused:?}");
    }
    assert!(!place.join("nothing").exists());
}

fn a_plan_is_simulated_from_its_own_folder(place: &Path, first: &Value) {
    let simulated = document(&ends(0, place, &["simulate", "runs/tiny-1/plan.json", "--format", "json"]));
    assert_eq!(simulated["prediction"]["step_time_s"], first["predicted"]["step_time_s"]);
    ends(0, place, &["simulate", "runs/tiny-1/plan.json", "--trace", "traces/step.json"]);
    let trace = read(&place.join("traces/step.json"));
    let spans = trace["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "X");
    let end = spans.filter_map(|span| Some(span["ts"].as_f64()? + span["dur"].as_f64()?)).fold(0.0, f64::max);
    let step = first["predicted"]["step_time_s"].as_f64().expect("a step time");
    assert!((end / 1e6 / step - 1.0).abs() < 1e-6, "the trace ends with the step: {end} us, {step} s");
    let inside = place.join("runs/tiny-1");
    assert_eq!(document(&ends(0, &inside, &["simulate", "plan.json", "--format", "json"])), simulated);
}

/// Starts a run, and signals it once it has said `line`. What it says afterwards, and how it ends.
fn signalled(place: &Path, arguments: &[&str], until: &str, signal: &str) -> (Vec<String>, ExitStatus) {
    let mut child =
        trainyard(place, arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    let mut told = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains(until) {
        line.clear();
        assert!(told.read_line(&mut line).expect("text") > 0, "the run ended before it said `{until}`");
    }
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill is there");
    assert!(sent.success());
    let rest = told.lines().map_while(Result::ok).collect();
    (rest, child.wait().expect("it ends"))
}

/// Ctrl-C and SIGTERM end a run after its step with exit code 5, and what it leaves is gone on from.
fn an_interrupted_run_goes_on(place: &Path, signal: &str, out: &str) {
    let run = ["run", "runs/tiny-1/plan.json", "--data", "text"];
    let (kept, more) = (format!("kept-{out}"), format!("more-{out}"));
    let long = [&run[..], &["--out", out, "--checkpoint", &kept, "--steps", "100000000"]].concat();
    let (rest, status) = signalled(place, &long, "step     1 of", signal);
    assert_eq!(status.code(), Some(5), "{rest:?}");
    let hint = rest.iter().find(|line| line.starts_with("hint:")).expect("how to go on");
    assert!(hint.contains(&format!("--checkpoint {kept} --resume")), "{hint}");
    let done = read(&place.join(out).join("comparison.json"))["steps"].as_u64().expect("steps");
    let steps = (done + 2).to_string();
    let resume = |out| [&run[..], &["--out", out, "--checkpoint", &kept, "--resume", "--steps", &steps]].concat();
    ends(0, place, &resume(&more));
    assert_eq!(losses(&place.join(&more)).len(), 2);
    // The folder of a run that went on has its plan, which is read from there.
    ends(0, place, &["simulate", &format!("{more}/plan.json"), "-q"]);
    // Nothing is left to do now, and nothing is left behind by saying so.
    ends(2, place, &resume("none"));
    assert!(!place.join("none").exists());
}

/// Steps of the newest checkpoint in a folder. What was being written is hidden; all others are whole.
fn newest(folder: &Path) -> u64 {
    let all = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path());
    let whole = all.filter(|path| !path.file_name().expect("a name").to_string_lossy().starts_with('.'));
    let steps = whole.map(|path| read(&path.join("manifest.json"))["progress"]["step"].as_u64().expect("steps"));
    steps.max().expect("a checkpoint")
}

/// A run that is killed at once loses the steps since its last checkpoint, which is whole.
fn a_killed_run_goes_on_from_its_last_checkpoint(place: &Path) {
    const EVERY: usize = 50;
    let run = ["run", "runs/tiny-1/plan.json", "--data", "text"];
    let every = EVERY.to_string();
    let killed = ["--out", "killed", "--checkpoint", "left", "--checkpoint-every", &every, "--steps", "20000"];
    let (_, status) = signalled(place, &[&run[..], &killed].concat(), "step  2000 of", "-KILL");
    assert_eq!(status.code(), None, "it was killed");
    let done = newest(&place.join("left")) as usize;
    assert!(done.is_multiple_of(EVERY) && done + 2 * EVERY > losses(&place.join("killed")).len(), "{done} steps");
    let steps = (done + 3).to_string();
    let again = ["--out", "again-killed", "--checkpoint", "left", "--resume", "--steps", &steps];
    ends(0, place, &[&run[..], &again].concat());
    ends(0, place, &[&run[..], &["--out", "straight", "--steps", &steps]].concat());
    assert_eq!(losses(&place.join("again-killed")), losses(&place.join("straight"))[done..]);
}

/// The seeds of this field: 2-way data × 4-way model parallel at global batch 64 needs 8 GPUs and gives each replica 32
/// samples; 640 samples are 10 steps an epoch, and so are 5 000 at 500.
#[test]
fn the_seeds_of_this_field_come_out_of_the_binary() {
    let place = workplace();
    let job = [
        "plan",
        "--model",
        "gpt2",
        "--samples",
        "640",
        "--global-batch",
        "64",
        "--instances",
        "p3.*",
        "--format",
        "json",
    ];
    let fixed = ["--fix", "parallel.data=2", "--fix", "parallel.tensor=4"];
    let plan = document(&ends(0, place.path(), &[&job[..], &fixed[..], &["--max-instances", "1"]].concat()));
    // Of the three sizes, only the one with 8 GPUs takes it.
    assert_eq!(plan["plan"]["cluster"]["instance"], "p3.16xlarge");
    let batch = |field: &str| plan["plan"]["batch"][field].as_u64().expect("a size");
    assert_eq!(batch("micro") * batch("accumulation"), 32);
    assert_eq!(plan["prediction"]["steps"], 10);
    let four = [&job[..], &fixed[..], &["--fix", "instance=p3.8xlarge", "--fix", "instances=1"]].concat();
    ends(3, place.path(), &four);
    let five = [
        "plan",
        "--model",
        "gpt2",
        "--samples",
        "5000",
        "--global-batch",
        "500",
        "--instances",
        "p3.*",
        "--format",
        "json",
    ];
    assert_eq!(document(&ends(0, place.path(), &five))["prediction"]["steps"], 10);
}

#[test]
fn a_plan_is_the_same_bytes_every_time_on_any_number_of_threads() {
    let place = workplace();
    let job = [
        "plan",
        "--model",
        "gpt2-medium",
        "--tokens",
        "1e9",
        "--global-batch",
        "128",
        "--instances",
        "p3.*,g4dn.12xlarge",
    ];
    let plan = |more: &[&str]| ends(0, place.path(), &[&job[..], &["--format", "json"], more].concat()).stdout;
    let once = plan(&[]);
    assert_eq!(plan(&[]), once);
    assert_eq!(plan(&["--threads", "1"]), once);
    assert_eq!(plan(&["--threads", "2"]), once);
    let out = plan(&["--out", "kept.json"]);
    assert_eq!(fs::read(place.path().join("kept.json")).expect("written"), out);
}

#[test]
fn flags_override_the_job_file() {
    let place = workplace();
    let file = "[model]\nname = \"gpt2\"\n[data]\nsamples = 6400\n[training]\nglobal_batch = 64\nepochs = 3\n[cluster]\ninstances = [\"p3.2xlarge\"]\n[goal]\nobjective = \"time\"\n";
    fs::write(place.path().join("rented.toml"), file).expect("room");
    let plan = |more: &[&str]| {
        document(&ends(0, place.path(), &[&["plan", "rented.toml", "--format", "json"], more].concat()))
    };
    assert_eq!(plan(&[])["prediction"]["steps"], 300);
    assert_eq!(plan(&["--steps", "7"])["prediction"]["steps"], 7);
    assert_eq!(plan(&["--epochs", "2"])["prediction"]["steps"], 200);
    assert_eq!(plan(&["--tokens", "65536"])["prediction"]["steps"], 3);
    assert_eq!(plan(&["--samples", "64"])["prediction"]["steps"], 3);
    assert_eq!(plan(&["--global-batch", "32"])["plan"]["batch"]["global"], 32);
    assert_eq!(plan(&["--model", "gpt2-medium"])["plan"]["model"]["name"], "gpt2-medium");
    assert_eq!(plan(&["--instances", "p3.8xlarge"])["plan"]["cluster"]["instance"], "p3.8xlarge");
    assert_eq!(plan(&["--max-instances", "1"])["plan"]["cluster"]["instances"], 1);
    assert_eq!(plan(&["--pricing", "spot"])["plan"]["pricing"], "spot");
    assert_eq!(plan(&["--region", "eu-west-1"])["prediction"]["price"]["region"], "eu-west-1");
    assert_eq!(plan(&["--service", "sagemaker"])["prediction"]["price"]["service"], "sagemaker");
    assert_eq!(plan(&["--objective", "cost"])["job"]["goal"]["objective"], "cost");
    assert_eq!(plan(&["--deadline", "9 d"])["job"]["goal"]["deadline"], "9 d");
    assert_eq!(plan(&["--top", "1"])["alternatives"], Value::Array(Vec::new()));
    assert_eq!(plan(&["--max-simulations", "1"])["search"]["simulated"], 1);
}

#[test]
fn what_cannot_be_written_is_told_and_what_was_there_stays() {
    let place = workplace();
    let job =
        ["plan", "--model", "gpt2", "--samples", "640", "--global-batch", "64", "--instances", "p3.2xlarge", "--out"];
    fs::write(place.path().join("file"), "mine").expect("room");
    let told = ends(2, place.path(), &[&job[..], &["file/plan.json"]].concat()).stderr;
    assert!(String::from_utf8_lossy(&told).contains("cannot write `file/plan.json`"));
    assert_eq!(fs::read_to_string(place.path().join("file")).expect("still there"), "mine");
    let told = ends(2, place.path(), &[&job[..], &["file"]].concat()).stderr;
    assert!(String::from_utf8_lossy(&told).contains("would overwrite a file that is no result"));
    assert_eq!(fs::read_to_string(place.path().join("file")).expect("still there"), "mine");
    fs::write(place.path().join("file"), "").expect("room");
    ends(0, place.path(), &[&job[..], &["file"]].concat());
    assert_eq!(read(&place.path().join("file"))["schema"], "trainyard.plan/1");
}

#[test]
fn completions_and_the_manual_page_name_every_command() {
    let place = workplace();
    let commands = ["train", "plan", "simulate", "run", "compare", "calibrate", "validate", "show"];
    for arguments in [&["completions", "bash"][..], &["completions", "fish"], &["man"]] {
        let text = ends(0, place.path(), arguments).stdout;
        let text = String::from_utf8_lossy(&text);
        for command in commands {
            assert!(text.contains(command), "{arguments:?} do not name {command}");
        }
    }
    ends(0, place.path(), &["man", "--out", "pages"]);
    for command in commands {
        let page = fs::read_to_string(place.path().join(format!("pages/trainyard-{command}.1"))).expect("a page");
        assert!(page.starts_with(".ie") && page.contains(&format!(".TH trainyard-{command} 1")), "{page}");
    }
    assert!(place.path().join("pages/trainyard.1").exists());
}
