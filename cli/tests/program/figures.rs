//! What commands print for programs: relations between figures, which hold whatever constants the catalogs have.
//! `tests/cmd/` shows the pages that say the same to people.

use crate::commands::{program, workplace};
use serde_json::{Value, json};
use std::path::Path;

/// The document of a command that must end with this exit code.
#[track_caller]
fn ends(code: i32, folder: &Path, arguments: &str) -> Value {
    let output = program(folder, &format!("{arguments} --quiet --format json")).output().expect("the program starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments}: {told}");
    serde_json::from_slice(&output.stdout).expect("a document")
}

#[track_caller]
fn document(folder: &Path, arguments: &str) -> Value {
    ends(0, folder, arguments)
}

#[track_caller]
fn number(document: &Value, pointer: &str) -> f64 {
    let value = document.pointer(pointer).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("{pointer} is no number of {document}"))
}

fn list<'a>(document: &'a Value, pointer: &str) -> &'a [Value] {
    document.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn sum(list: &[Value], field: &str) -> f64 {
    list.iter().map(|item| number(item, field)).sum()
}

#[track_caller]
fn equal(one: f64, other: f64) {
    assert!((one - other).abs() <= 1e-6 * one.abs().max(other.abs()), "{one} is not {other}");
}

#[test]
fn models_numbers_and_words_are_read_in_the_forms_that_people_use() {
    let place = workplace("easy_input");
    let on = "--instances p4d.24xlarge --max-instances 1";
    let plan = |job: &str| document(place.path(), &format!("plan {job}"));
    let file = plan(&format!("--model config.json --tokens 1B --global-batch 512 {on}"));
    let folder = plan(&format!("--model my-llama --tokens 1e9 --global-batch 0.5k {on}"));
    assert_eq!(file["job"]["data"]["tokens"], 1e9);
    assert_eq!(file["job"]["data"], folder["job"]["data"]);
    assert_eq!((&file["plan"]["batch"]["global"], &folder["plan"]["batch"]["global"]), (&json!(512), &json!(500)));
    // A model is called what its file calls it.
    for (document, name) in [(&file, "small-llama"), (&folder, "my-llama"), (&plan("model-file.toml"), "small-llama")] {
        assert_eq!(
            (&document["plan"]["model"]["name"], &document["plan"]["model"]["family"]),
            (&json!(name), &json!("llama"))
        );
    }
    let fixed = "--fix tp=2 --fix zero=1 --fix precision=bf16 --fix micro_batch_size=4";
    let fixed = plan(&format!("--model gpt2-large --tokens 1B --global-batch 512 {on} {fixed}"));
    let fixed = &fixed["plan"];
    assert_eq!((&fixed["parallel"]["tensor"], &fixed["batch"]["micro"]), (&json!(2), &json!(4)));
    assert_eq!((&fixed["state_sharding"], &fixed["precision"]), (&json!("optimizer"), &json!("bf16-mixed")));
    // Machines that are like others.
    let cluster = &plan("onprem-job.toml")["plan"]["cluster"];
    assert_eq!((&cluster["instance"], &cluster["file"]), (&json!("onprem"), &json!("onprem.toml")));
}

#[test]
fn a_job_and_a_flag_name_the_same_network() {
    let place = workplace("onnx");
    let flags = "--samples 1000000 --global-batch 256 --epochs 1 --instances p3.2xlarge --max-instances 1";
    let (job, flag) = ("plan job.toml", format!("plan --model network.onnx {flags}"));
    let (job, flag) = (document(place.path(), job), document(place.path(), &flag));
    assert_eq!((&job["plan"], &job["prediction"]), (&flag["plan"], &flag["prediction"]));
    assert_eq!(job["plan"]["model"]["name"], "network");
    assert_eq!(job["job"]["model"]["file"], "network.onnx");
}

#[test]
fn the_transport_between_machines_is_chosen_and_held() {
    let place = workplace("easy_input");
    let job = "plan --model gpt2 --samples 64000 --global-batch 64 --instances g4dn.12xlarge --fix instances=2";
    let plan = |flags: &str| document(place.path(), &format!("{job} {flags}"));
    let (usual, tcp, pods) = (plan(""), plan("--transport tcp"), plan("--transport tcp-pods"));
    assert_eq!(pods["plan"]["cluster"]["transport"], "tcp-pods");
    assert_eq!((&usual["plan"], usual["plan"]["cluster"].get("transport")), (&tcp["plan"], None));
    let time = |document: &Value| number(document, "/prediction/step_time_s");
    let efa = plan("--transport efa --out efa.json");
    assert_eq!(efa["plan"]["cluster"]["transport"], "efa");
    equal(time(&document(place.path(), "simulate efa.json")), time(&efa));
    let varied = document(place.path(), "what-if efa.json --vary cluster.transport=efa,tcp-pods");
    let case = |index: usize| number(&varied, &format!("/cases/{index}/figures/step_time_s"));
    equal(case(0), time(&efa));
    assert!(case(1) > case(0));
}

#[test]
fn the_parts_of_a_step_and_of_a_cost_are_the_whole() {
    let place = workplace("explain");
    let explained = document(place.path(), "explain two.json");
    let prediction = &explained["plan"]["prediction"];
    let step = number(prediction, "/step_time_s");
    equal(sum(list(&explained, "/plan/critical_path"), "/time_s"), step);
    equal(prediction["phases"].as_object().expect("phases").values().filter_map(Value::as_f64).sum(), step);
    equal(sum(list(&explained, "/plan/cost_parts"), "/usd"), number(prediction, "/cost_usd"));
    equal(number(prediction, "/samples_per_s") * step, number(&explained, "/plan/plan/batch/global"));
    for stage in list(prediction, "/memory_bytes/stages") {
        let parts: u64 = stage
            .as_object()
            .expect("parts")
            .iter()
            .filter(|(part, _)| *part != "total")
            .filter_map(|(_, bytes)| bytes.as_u64())
            .sum();
        assert_eq!(stage["total"], parts);
    }
    let fullest = explained["plan"]["fullest_stage"].as_u64().expect("a stage") as usize;
    let totals = || list(prediction, "/memory_bytes/stages").iter().map(|stage| stage["total"].as_u64());
    assert_eq!(totals().nth(fullest), totals().max());
    // The step that is simulated is that which is explained.
    assert_eq!(&document(place.path(), "simulate two.json")["prediction"]["step_time_s"], &prediction["step_time_s"]);
}

#[test]
fn plans_are_told_apart_by_what_differs() {
    let place = workplace("explain");
    let same = document(place.path(), "explain one.json --against one.json");
    assert_eq!(list(&same, "/differences"), <&[Value]>::default());
    assert!(list(&same, "/verdict").iter().all(|sentence| sentence.as_str().is_some_and(|text| text.contains("same"))));
    // Where steps differ in size, whole trainings are compared.
    let other = document(place.path(), "explain one.json --against larger-batch.json");
    let difference = |field: &str| list(&other, "/differences").iter().find(|item| item["field"] == field);
    assert_eq!(difference("batch.global"), Some(&json!({ "field": "batch.global", "plan": "256", "against": "512" })));
    assert_eq!(difference("optimizer"), None);
    let notes = list(&other, "/notes").iter().filter_map(Value::as_str);
    assert_eq!(notes.filter(|note| note.contains("the whole training is compared")).count(), 1);
    assert!(other["verdict"][1].as_str().is_some_and(|sentence| sentence.contains("of the training")));
}

#[test]
fn a_training_is_drawn_as_often_as_was_asked_and_its_shares_add_up() {
    let place = workplace("campaign");
    let drawn = |arguments: &str| {
        let campaign = document(place.path(), &format!("simulate {arguments} --campaign"));
        let runs = number(&campaign, "/runs");
        for (quantity, histogram) in [("time_s", "time_histogram_s"), ("cost_usd", "cost_histogram_usd")] {
            let courses = list(&campaign[histogram], "/courses").iter().filter_map(Value::as_f64).sum::<f64>();
            equal(courses + number(&campaign[histogram], "/beyond"), runs);
            let at = |share: &str| number(&campaign[quantity], share);
            assert!(at("/p5") < at("/p50") && at("/p50") < at("/p95"), "{quantity}");
        }
        let phases = campaign["phases"].as_object().expect("phases").values().filter_map(Value::as_f64).sum();
        equal(phases, number(&campaign, "/time_s/mean"));
        // Checkpoints are quick to write there.
        equal(
            number(&campaign, "/checkpoint/interval_s"),
            number(&campaign, "/checkpoint/best_interval_s").min(3600.0),
        );
        campaign
    };
    let on_demand = drawn("plan.json");
    assert_eq!((&on_demand["runs"], &on_demand["interruptions"]["reclaims"]), (&json!(1000), &json!(0.0)));
    assert_eq!(list(&on_demand, "/scenarios"), <&[Value]>::default());
    // Spot instances are reclaimed more often than is published, so three frequencies are told.
    let spot = drawn("spot.json --runs 100");
    assert_eq!(spot["runs"], 100);
    let scenarios = list(&spot, "/scenarios");
    assert_eq!(scenarios.iter().map(|scenario| &scenario["factor"]).collect::<Vec<_>>(), [1, 5, 20]);
    assert!(scenarios.is_sorted_by_key(|scenario| number(scenario, "/interruptions/reclaims")));
    assert!(scenarios.is_sorted_by_key(|scenario| number(scenario, "/time_s/mean")));
    assert_eq!(spot["time_s"], scenarios[0]["time_s"]);
    assert!(spot["warnings"][0].as_str().is_some_and(|warning| warning.contains("optimistic")));
}

#[test]
fn traces_take_their_measured_times_to_other_machines() {
    let place = workplace("chakra");
    document(place.path(), "simulate plan.json --chakra et");
    let [own, other] = ["p3.16xlarge", "p4d.24xlarge --instances 2"]
        .map(|machines| document(place.path(), &format!("simulate et --on {machines}")));
    for field in ["ranks", "nodes", "messages", "compute_s"] {
        assert_eq!(own[field], other[field], "{field}");
    }
    assert_eq!((&own["ranks"], &other["instances"]), (&json!(8), &json!(2)));
    assert!(number(&other, "/exposed_communication_s") < number(&own, "/exposed_communication_s"));
    assert!(number(&other, "/step_time_s") < number(&own, "/step_time_s"));
    // The step is that of the plan but for what replaying leaves out.
    let plan = document(place.path(), "simulate plan.json");
    let ratio = number(&own, "/step_time_s") / number(&plan, "/prediction/step_time_s");
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
}

#[test]
fn measurements_bring_predictions_nearer() {
    let place = workplace("calibrate");
    let refit = |arguments: &str| document(place.path(), &format!("calibrate --from {arguments}"));
    let names = |refit: &Value| -> Vec<String> {
        list(refit, "/constants").iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    let mine = refit("mine.csv --out mine.toml");
    assert_eq!((&mine["rows"], mine["stacks"][0]["stack"].as_str()), (&json!(6), Some("our-trainer")));
    let error = |errors: &str| number(&mine, &format!("/stacks/0/errors/{errors}"));
    assert!(error("after") < error("before"));
    let mean = |arguments: &str| {
        let rows = document(place.path(), &format!("validate mine.csv {arguments}"));
        let errors: Vec<f64> = list(&rows, "/rows").iter().map(|row| number(row, "/error").abs()).collect();
        errors.iter().sum::<f64>() / errors.len() as f64
    };
    equal(mean(""), error("before"));
    // What is written is rounded.
    assert!((mean("--constants mine.toml") / error("after") - 1.0).abs() < 0.01);
    // The output of nccl-tests tells a fabric.
    let fabric = refit("sweep.txt --instance p4d.24xlarge --out fabric.toml");
    assert_eq!(names(&fabric), ["sustained", "step", "chunk_trips"].map(|name| format!("fabrics.p4d.24xlarge.{name}")));
    assert!(number(&fabric, "/stacks/0/errors/after") < 0.1 * number(&fabric, "/stacks/0/errors/before"));
    // A trace of the PyTorch profiler tells what its host and allocator take: 40 us a launch, 15 % of the memory.
    let traced = refit("trace.json --stack pytorch --out traced.toml");
    assert_eq!(names(&traced), ["stacks.pytorch.launch", "stacks.pytorch.fragmentation"]);
    equal(number(&traced, "/constants/0/after"), 40e-6);
    equal(number(&traced, "/constants/1/after"), 0.15);
    let prediction = program(place.path(), "validate mine.csv --constants traced.toml").output().expect("it starts");
    assert!(prediction.status.success(), "what was written is read");
}

#[test]
fn fleets_take_dearer_machines_for_a_goal_only() {
    let place = workplace("fleet");
    let (cost, time) = ("/prediction/cost/total_usd", "/prediction/makespan_s");
    let cheapest = document(place.path(), "plan fleet.toml");
    let in_time = document(place.path(), "plan fleet.toml --deadline 4h");
    let starts = |fleet: &Value| number(fleet, "/prediction/cold_starts") + number(fleet, "/prediction/warm_starts");
    for fleet in [&cheapest, &in_time] {
        equal(starts(fleet), sum(list(fleet, "/plans"), "/count"));
        assert!(number(fleet, time) >= number(fleet, "/prediction/bound_s"));
        let held = |part: &str| number(fleet, &format!("/prediction/instance_seconds/{part}"));
        equal(held("busy") + held("startup") + held("idle"), held("held"));
    }
    assert!(number(&cheapest, cost) < number(&in_time, cost));
    assert!(number(&cheapest, time) > 4.0 * 3600.0 && number(&in_time, time) <= 4.0 * 3600.0);
    let plain = document(place.path(), "plan plain.toml");
    let fastest = document(place.path(), "plan plain.toml --objective time");
    assert!(number(&fastest, time) < number(&plain, time) && number(&fastest, cost) > number(&plain, cost));
    // What nothing reaches ends with the nearest, which is proved.
    let missed = ends(4, place.path(), "plan plain.toml --budget 0.5");
    assert_eq!(missed["search"]["impossible"], json!(true));
    for figure in [cost, time] {
        equal(number(&missed, figure), number(&plain, figure));
    }
}

#[test]
fn queues_hold_machines_for_what_they_say() {
    let place = workplace("queue");
    let [one, same, other, small] = ["queue.toml", "queue.toml --seed 0", "queue.toml --seed 1", "small.toml"]
        .map(|arguments| document(place.path(), &format!("simulate {arguments}")));
    assert_eq!(one, same);
    assert_ne!(one["prediction"]["makespan_s"], other["prediction"]["makespan_s"]);
    for queue in [&one, &other, &small] {
        let held = |part: &str| number(queue, &format!("/prediction/instance_seconds/{part}"));
        equal(held("busy") + held("startup") + held("idle"), held("held"));
        equal(number(queue, "/prediction/utilisation_of_held"), held("busy") / held("held"));
        let starts = number(queue, "/prediction/cold_starts") + number(queue, "/prediction/warm_starts");
        equal(starts, list(queue, "/jobs").len() as f64);
        let ends = list(queue, "/jobs").iter().map(|job| number(job, "/end_s"));
        equal(ends.fold(0.0, f64::max), number(queue, "/prediction/makespan_s"));
    }
    let [longest, work] = ["longest_s", "work_s"].map(|bound| number(&small, &format!("/prediction/bound/{bound}")));
    equal(number(&small, "/prediction/gap"), number(&small, "/prediction/makespan_s") / longest.max(work) - 1.0);
}

#[test]
fn what_is_held_stands_in_the_plan_and_costs_no_less() {
    let place = workplace("plan");
    let free = document(place.path(), "plan job.toml");
    let held = document(
        place.path(),
        "plan job.toml --fix parallel.tensor=2 --fix parallel.pipeline=2 --fix instances=1 --top 1",
    );
    let parallel = &held["plan"]["parallel"];
    assert_eq!((&parallel["tensor"], &parallel["pipeline"]), (&json!(2), &json!(2)));
    assert!(number(&held, "/prediction/cost_usd") >= number(&free, "/prediction/cost_usd"));
    // Software that cannot do it is listed without a plan, and with the reason.
    let (with, without): (Vec<&Value>, Vec<&Value>) =
        list(&held, "/stacks").iter().partition(|stack| stack["best"].is_object());
    assert_eq!(with.iter().map(|stack| &stack["stack"]).collect::<Vec<_>>(), ["megatron-core"]);
    assert!(!without.is_empty() && without.iter().all(|stack| stack["reason"].is_string()));
    let missed = ends(4, place.path(), "plan job.toml --budget 0.5 --top 1");
    assert!(number(&missed, "/prediction/cost_usd") > 0.5 && missed["to_meet_goal"].is_string());
    assert!(missed["missed"].as_str().is_some_and(|why| why.starts_with("no plan costs at most")), "{missed}");
    assert!(free["missed"].is_null());
}

#[test]
fn goals_end_with_a_plan_that_meets_them_or_the_nearest() {
    let place = workplace("scenarios");
    let plan = |code: i32, goal: &str| ends(code, place.path(), &format!("plan xl.toml --max-instances 1 {goal}"));
    let elapsed = |plan: &Value| number(plan, "/prediction/time_s") + number(plan, "/prediction/start_up_s");
    assert!(elapsed(&plan(4, "--deadline 12h")) > 12.0 * 3600.0);
    let in_time = plan(0, "--deadline 40h");
    assert!(elapsed(&in_time) < 40.0 * 3600.0);
    assert_eq!(in_time["plan"]["cluster"]["instance"], "p4d.24xlarge");
    // A budget that only spot instances meet.
    let dear = plan(4, "--budget 400");
    assert!(number(&dear, "/prediction/cost_usd") > 400.0);
    let spot = plan(0, "--budget 400 --pricing spot");
    assert!(number(&spot, "/prediction/cost_usd") < 400.0 && number(&spot, "/prediction/interruptions/expected") > 0.0);
    // The fastest within a budget that nothing meets is the cheapest.
    assert_eq!(plan(4, "--objective time --budget 1")["plan"], dear["plan"]);
}

#[test]
fn what_is_varied_changes_what_depends_on_it() {
    let place = workplace("what_if");
    let what_if = |arguments: &str| document(place.path(), &format!("what-if {arguments}"));
    let network = what_if("plan.json --vary cluster.network=25Gbps,100Gbps,400Gbps");
    let cases = list(&network, "/cases");
    assert!(cases.is_sorted_by(|one, next| number(one, "/figures/step_time_s") > number(next, "/figures/step_time_s")));
    // The machine has 400 Gbit/s.
    assert_eq!((&cases[2]["time_change"], &cases[2]["figures"]), (&json!(0.0), &network["base"]));
    assert_eq!((&cases[0]["figures"]["bottleneck"], &network["held"]), (&json!("network"), &json!(true)));
    // Of a job the best plan is sought each time, unless that for the unvaried job is held.
    let layers = |how: &str| what_if(&format!("job.toml --vary model.layers=12,24 {how}"));
    let (sought, held) = (layers(""), layers("--hold"));
    for (document, is_held) in [(&sought, false), (&held, true)] {
        let cases = list(document, "/cases");
        assert_eq!((&document["held"], &cases[0]["figures"]), (&json!(is_held), &document["base"]));
        let same = cases[1]["figures"]["plan"]["cluster"] == document["base"]["plan"]["cluster"];
        assert_eq!(same, is_held, "{}", cases[1]["figures"]["plan"]["cluster"]);
    }
    let price = what_if("job.toml --vary price.instance=×0.5 --hold");
    let case = &price["cases"][0];
    // What is stored costs as much as before.
    assert!((number(case, "/cost_change") + 0.5).abs() < 1e-3 && case["time_change"] == 0.0, "{case}");
    assert_eq!((&price["axes"][0]["unit"], &price["axes"][0]["amounts"]), (&json!("×"), &json!([0.5])));
}

#[test]
fn a_gpu_has_quantities_with_their_units_and_sources() {
    let place = workplace("show");
    let gpu = document(place.path(), "show gpus t4");
    assert_eq!((&gpu["name"], &gpu["memory"]["value"]), (&json!("t4"), &json!("15 GiB")));
    let quantities = || gpu.as_object().expect("a table").values().filter(|value| value.get("value").is_some());
    assert!(quantities().count() > 5 && quantities().all(|quantity| quantity["source"].is_string()), "{gpu}");
}

#[test]
fn a_trace_is_one_file_or_one_for_each_rank() {
    let place = workplace("trace");
    document(place.path(), "simulate plan.json --trace traces/ --plot step.svg --plot-theme dark");
    let devices = document(place.path(), "simulate plan.json")["plan"]["parallel"].clone();
    let ranks: u64 = ["data", "tensor", "pipeline"].iter().filter_map(|degree| devices[*degree].as_u64()).product();
    let files = std::fs::read_dir(place.path().join("traces")).expect("a folder").count() as u64;
    assert_eq!(files, ranks);
    assert!(std::fs::read_to_string(place.path().join("step.svg")).expect("a plot").starts_with("<svg"));
}
