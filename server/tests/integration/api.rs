//! Every route, asked without a socket.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;
use trainyard_history::{Document, Figures, Kind, NewEntry, Store, UtcTime};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Blank, LAUNCH_SCHEMA, LaunchDocument, LaunchFile};
use trainyard_server::{Bounds, Refusal, Settings, Target, Token, openapi, router};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn settings() -> Settings {
    Settings { bounds: Bounds::STANDARD, loopback: true, token: None, exports: &[], history: None }
}

struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The kind of a refusal, and its sentence.
    fn refusal(&self) -> (u16, String, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{}", self.text());
        let value = self.json();
        assert_eq!(value["status"], self.status.as_u16());
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        (self.status.as_u16(), text("type"), text("detail") + " | " + &text("hint"))
    }
}

fn answered(router: Router, request: Request<Body>) -> Answered {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("threads");
    runtime.block_on(async {
        let response = router.oneshot(request).await.expect("routers do not fail");
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("a whole body").to_vec();
        Answered { status: parts.status, headers: parts.headers, body }
    })
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).header("host", "localhost:8080").body(Body::empty()).expect("a request")
}

fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(path).header("host", "localhost:8080").header("content-type", "application/json");
    request.body(body.into()).expect("a request")
}

fn ask(path: &str, question: &Value) -> Answered {
    answered(router(settings()), post(path, question.to_string()))
}

fn job() -> Value {
    json!({
        "model": { "name": "gpt2" },
        "data": { "tokens": 1e9 },
        "training": { "global_batch": 64 },
        "cluster": { "instances": ["p3.*"], "max_instances": 2 },
        "goal": { "objective": "cost" },
    })
}

fn plan() -> Value {
    let answer = ask("/api/v1/plan", &json!({ "job": job() }));
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    answer.json()
}

fn config() -> Value {
    json!({ "model_type": "gpt2", "n_layer": 4, "n_embd": 256, "n_head": 4, "n_positions": 128, "vocab_size": 1000 })
}

#[test]
fn the_page_and_its_files_are_there() {
    for (path, kind) in [("/", "text/html"), ("/assets/app.js", "text/javascript"), ("/assets/style.css", "text/css")] {
        let answer = answered(router(settings()), get(path));
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert!(answer.headers["content-type"].to_str().expect("text").starts_with(kind), "{path}");
    }
}

#[test]
fn every_answer_carries_the_security_headers() {
    let asked = [get("/"), get("/api/v1/catalogs"), get("/nothing"), post("/", ""), post("/api/v1/plan", "{")];
    for request in asked {
        let path = request.uri().clone();
        let headers = answered(router(settings()), request).headers;
        let policy = headers["content-security-policy"].to_str().expect("text");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}");
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "no-referrer", "{path}");
        assert_eq!(headers["x-frame-options"], "DENY", "{path}");
        assert!(headers.contains_key("cache-control"), "{path}");
        assert!(!headers.contains_key("access-control-allow-origin"), "{path}");
    }
}

#[test]
fn files_outside_the_page_are_not_there() {
    for path in
        ["/assets/../Cargo.toml", "/assets/..%2fCargo.toml", "/assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/etc/passwd"]
    {
        let (status, kind, _) = answered(router(settings()), get(path)).refusal();
        assert_eq!((status, kind.as_str()), (404, "not-found"), "{path}");
    }
}

#[test]
fn catalogs_name_what_jobs_can_name() {
    let catalogs = answered(router(settings()), get("/api/v1/catalogs")).json();
    let has = |list: &str, name: &str| {
        catalogs[list].as_array().expect("a list").iter().any(|entry| entry["name"] == name || *entry == name)
    };
    assert!(has("models", "gpt3-175b") && has("instances", "p4d.24xlarge") && has("regions", "us-east-1"));
    assert!(has("pricing", "spot") && has("precisions", "bf16-mixed") && has("optimizers", "adamw"));
    let models = catalogs["models"].as_array().expect("a list");
    let large = models.iter().find(|model| model["name"] == "gpt3-175b").expect("listed");
    assert!((1.7e11..1.8e11).contains(&large["parameters"].as_f64().expect("a number")), "{large}");
}

#[test]
fn a_job_gets_a_plan_with_a_picture_of_its_step() {
    let answer = plan();
    assert_eq!(answer["plan"]["schema"], "trainyard.plan/1");
    assert!(answer["plan"]["prediction"]["cost_usd"].as_f64().expect("rented") > 0.0);
    assert!(!answer["plan"]["pareto"].as_array().expect("a list").is_empty());
    assert!(answer["missed"].is_null());
    let stages = answer["plan"]["plan"]["parallel"]["pipeline"].as_u64().expect("a degree");
    assert_eq!(answer["step"]["rows"].as_array().expect("rows").len() as u64, stages);
    assert!(answer["step"]["length_s"].as_f64().expect("seconds") > 0.0);
}

#[test]
fn the_same_question_has_the_same_answer() {
    let question = json!({ "job": job() });
    assert_eq!(ask("/api/v1/plan", &question).body, ask("/api/v1/plan", &question).body);
    let router = router(settings());
    let first = answered(router.clone(), post("/api/v1/plan", question.to_string()));
    assert_eq!(first.body, answered(router, post("/api/v1/plan", question.to_string())).body);
}

#[test]
fn a_proof_says_why_and_a_draft_is_as_good_where_it_has_no_gap() {
    let draft = plan();
    let proof = ask("/api/v1/plan", &json!({ "job": job(), "effort": "proof" })).json();
    assert!(draft["plan"]["reasons"].as_array().expect("a list").is_empty());
    assert!(!proof["plan"]["reasons"].as_array().expect("a list").is_empty());
    assert_eq!(proof["plan"]["search"]["gap"], 0.0);
    let cost = |answer: &Value| answer["plan"]["prediction"]["cost_usd"].as_f64().expect("rented");
    let gap = draft["plan"]["search"]["gap"].as_f64().expect("a gap");
    // A proof may recommend another plan that cannot be told from the optimum.
    let least = proof["plan"]["optimum"]["cost_usd"].as_f64().unwrap_or_else(|| cost(&proof));
    assert!(least <= cost(&draft) && cost(&draft) * (1.0 - gap) <= least * (1.0 + 1e-9));
}

#[test]
fn what_is_out_of_reach_is_answered_with_what_it_misses() {
    let mut job = job();
    job["goal"]["deadline"] = json!("1 min");
    let answer = ask("/api/v1/plan", &json!({ "job": job }));
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let answer = answer.json();
    assert!(answer["missed"].as_str().expect("a sentence").contains("no plan ends within"));
    assert_eq!(answer["plan"]["missed"], answer["missed"]);
    let again = ask("/api/v1/simulate", &answer["plan"]).json();
    assert!(again["missed"].as_str().expect("a sentence").contains("times the deadline of"));
    assert_eq!(again["plan"]["missed"], again["missed"]);
}

#[test]
fn a_job_is_varied_as_the_command_varies_it() {
    let mut job = job();
    job["goal"]["deadline"] = json!("1 min");
    let answer =
        ask("/api/v1/what-if", &json!({ "job": job, "vary": ["instances=1,2"], "fix": ["precision=fp16-mixed"] }));
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let document = answer.json();
    assert_eq!((&document["schema"], &document["held"]), (&json!("trainyard.what-if/1"), &json!(false)));
    let cases = document["cases"].as_array().expect("cases");
    assert_eq!(cases.iter().map(|case| &case["values"]).collect::<Vec<_>>(), [&json!(["1"]), &json!(["2"])]);
    for (case, instances) in cases.iter().zip([1, 2]) {
        assert_eq!(case["figures"]["plan"]["cluster"]["instances"], instances);
        assert_eq!(case["figures"]["plan"]["precision"], "fp16-mixed");
        assert!(case["missed_goal"].as_str().is_some_and(|why| why.ends_with("times the deadline")), "{case}");
    }
}

#[test]
fn the_plan_of_a_job_is_held_and_its_assumptions_are_varied() {
    let of = |question: &Value| {
        let answer = ask("/api/v1/what-if", question);
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        answer.json()
    };
    let held = of(&json!({ "job": job(), "vary": ["price.instance=x1,x2"], "hold": true }));
    let [as_it_is, twice] = [0, 1].map(|case| &held["cases"][case]["figures"]);
    assert_eq!((&held["held"], &as_it_is["plan"]), (&json!(true), &held["base"]["plan"]));
    assert_eq!(as_it_is["plan"], twice["plan"]);
    let most = of(&json!({ "job": job(), "tornado": true }));
    assert!(most["sensitivities"].as_array().is_some_and(|all| all.len() > 3), "{most}");
}

#[test]
fn what_cannot_be_varied_is_told() {
    let mut named = job();
    named["cluster"]["file"] = json!("cluster.toml");
    for (question, words) in [
        (json!({ "job": job(), "vary": [] }), "`vary` is empty"),
        (json!({ "job": job(), "vary": ["instancs=1,2"] }), "did you mean `instances`"),
        (json!({ "job": job(), "vary": ["instances=1..100000/1"] }), "more than 1000 combinations"),
        (json!({ "job": job(), "vary": ["instances=1", "instances=2"] }), "it is given twice"),
        (json!({ "job": job(), "vary": ["instances=1"], "fix": ["parallel.tensr=2"] }), "parallel.tensor"),
        (json!({ "job": named, "vary": ["instances=1"] }), "names a file"),
        (json!({ "job": job(), "vary": ["instances=2"], "tornado": true }), "exclude each other"),
        (json!({ "job": job(), "vary": ["training.method=lora"], "hold": true }), "a plan is held"),
    ] {
        let (status, kind, text) = ask("/api/v1/what-if", &question).refusal();
        assert!(status == 422 && kind == "bad-input" && text.contains(words), "{question}: {text}");
    }
}

fn fleet() -> Value {
    let entry = |name: &str, count: u32| {
        let mut entry = job();
        entry["name"] = json!(name);
        entry["count"] = json!(count);
        for of_all in ["cluster", "goal"] {
            entry.as_object_mut().expect("a table").remove(of_all);
        }
        entry
    };
    json!({ "pool": { "instances": ["p3.2xlarge"], "max_instances": 2 }, "job": [entry("small", 2), entry("other", 1)] })
}

#[test]
fn a_fleet_gets_a_plan_for_each_kind_and_a_schedule() {
    let answer = ask("/api/v1/fleet", &json!({ "fleet": fleet() }));
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let document = answer.json();
    assert_eq!(document["schema"], "trainyard.fleet/1");
    let plans = document["plans"].as_array().expect("plans").iter();
    assert_eq!(
        plans.map(|plan| (&plan["name"], &plan["count"])).collect::<Vec<_>>(),
        [(&json!("small"), &json!(2)), (&json!("other"), &json!(1))]
    );
    assert_eq!(document["pools"][0]["jobs"].as_array().map(Vec::len), Some(3));
    assert!(document["missed"].is_null());
    let mut late = fleet();
    late["goal"] = json!({ "deadline": "1 min" });
    let document = ask("/api/v1/fleet", &json!({ "fleet": late })).json();
    assert!(document["missed"].as_str().is_some_and(|why| why.contains("end all jobs within")), "{document}");
}

#[test]
fn fleets_name_no_files_and_are_checked_as_in_their_file() {
    for (pointer, value, words) in [
        ("/pool/file", json!("cluster.toml"), "`pool.file` names a file"),
        ("/job/1/file", json!("job.toml"), "`job[1].file` names a file"),
        ("/job/0/model/file", json!("model.toml"), "`job[0].model.file` names a file"),
        ("/job/0/model/config", json!("config.json"), "`job[0].model.config` names a file"),
        ("/job/1/training/global_batch", json!(0), "`job[1].training.global_batch`"),
        ("/pool/max_instances", json!(0), "`pool.max_instances`"),
    ] {
        let mut fleet = fleet();
        let (table, key) = pointer.rsplit_once('/').expect("a key in a table");
        fleet.pointer_mut(table).expect("a table")[key] = value;
        let (status, kind, text) = ask("/api/v1/fleet", &json!({ "fleet": fleet })).refusal();
        assert!(status == 422 && kind == "bad-input" && text.contains(words), "{pointer}: {text}");
    }
    let mut large = fleet();
    large["job"][0]["model"]["name"] = json!("gpt3-175b");
    let (status, kind, text) = ask("/api/v1/fleet", &json!({ "fleet": large })).refusal();
    assert!(status == 422 && kind == "no-plan" && text.contains("`job[0]`, small, cannot run in this pool"), "{text}");
}

#[test]
fn held_fields_are_held() {
    let answer = ask("/api/v1/plan", &json!({ "job": job(), "fix": ["instances=2", "parallel.tensor=2"] })).json();
    assert_eq!(answer["plan"]["plan"]["cluster"]["instances"], 2);
    assert_eq!(answer["plan"]["plan"]["parallel"]["tensor"], 2);
    let (status, kind, text) = ask("/api/v1/plan", &json!({ "job": job(), "fix": ["parallel.tensr=2"] })).refusal();
    assert!(status == 422 && kind == "bad-input" && text.contains("parallel.tensor"), "{text}");
}

#[test]
fn a_configuration_is_a_model() {
    let answer = ask("/api/v1/model", &json!({ "config": config(), "name": "mine" })).json();
    assert_eq!((&answer["entry"]["name"], &answer["entry"]["tokens_per_sample"]), (&json!("mine"), &json!(128)));
    let mut job = job();
    job["model"] = json!({ "name": "mine", "config": "config.json" });
    let answer = ask("/api/v1/plan", &json!({ "job": job, "config": config() }));
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(answer.json()["plan"]["plan"]["model"]["hidden"], 256);
    let (status, _, text) = ask("/api/v1/plan", &json!({ "job": job })).refusal();
    assert!(status == 422 && text.contains("`config` does not hold its content"), "{text}");
    let (status, _, text) = ask("/api/v1/model", &json!({ "config": { "model_type": "gpt3" } })).refusal();
    assert!(status == 422 && text.contains("gpt3") && text.contains("the nearest is `gpt2`"), "{text}");
}

#[test]
fn a_saved_plan_is_simulated_anew() {
    let document = plan()["plan"].clone();
    let answer = ask("/api/v1/simulate", &document).json();
    assert_eq!(answer["plan"]["prediction"], document["prediction"]);
    let mut broken = document;
    broken["plan"]["parallel"]["tensor"] = json!(7);
    let (status, kind, _) = ask("/api/v1/simulate", &broken).refusal();
    assert_eq!((status, kind.as_str()), (422, "bad-input"));
}

#[test]
fn a_plan_too_large_to_simulate_is_refused_before_it_starts() {
    let document = plan()["plan"].clone();
    let bounds = Bounds { simulation: 1000, ..Bounds::STANDARD };
    let answer = answered(router(Settings { bounds, ..settings() }), post("/api/v1/simulate", document.to_string()));
    let (status, _, text) = answer.refusal();
    assert!(status == 422 && text.contains("simulating this plan would take"), "{text}");
}

#[test]
fn launch_files_come_from_the_targets_that_there_are() {
    #[allow(clippy::unnecessary_wraps, reason = "targets may refuse a plan; this one never does")]
    fn script(target: &str, document: &PlanDocument) -> Result<LaunchDocument, Refusal> {
        let blank = Blank { placeholder: "SCRIPT".into(), what: "the script".into(), flag: Some("--script".into()) };
        Ok(LaunchDocument {
            schema: LAUNCH_SCHEMA.into(),
            target: target.into(),
            files: vec![LaunchFile { name: "launch.sh".into(), text: document.plan.cluster.instance.clone() }],
            blanks: vec![blank],
            assumed: Vec::new(),
            notes: vec!["nothing is left out".into()],
        })
    }
    static TARGETS: [Target; 1] = [Target { name: "script", title: "a script", export: script }];
    let router = router(Settings { exports: &TARGETS, ..settings() });
    let document = plan()["plan"].to_string();
    let answer = answered(router.clone(), post("/api/v1/export/script", document.clone())).json();
    assert!(answer["files"][0]["content"].as_str().expect("text").starts_with("p3."));
    assert_eq!((&answer["schema"], &answer["target"]), (&json!(LAUNCH_SCHEMA), &json!("script")));
    assert_eq!(answer["blanks"][0]["placeholder"], "SCRIPT");
    assert_eq!(answer["notes"], json!(["nothing is left out"]));
    let catalogs = answered(router.clone(), get("/api/v1/catalogs")).json();
    assert_eq!(catalogs["exports"], json!([{ "name": "script", "title": "a script" }]));
    let (status, _, text) = answered(router.clone(), post("/api/v1/export/..%2f..%2fetc", document.clone())).refusal();
    assert!(status == 404 && text.contains("targets are script"), "{text}");
    let other = document.replace("trainyard.plan/1", "trainyard.plan/9");
    let (status, _, text) = answered(router.clone(), post("/api/v1/export/script", other)).refusal();
    assert!(status == 422 && text.contains("trainyard.plan/9"), "{text}");
    let mut named = plan()["plan"].clone();
    named["plan"]["cluster"]["file"] = json!("cluster.toml");
    let (status, _, text) = answered(router, post("/api/v1/export/script", named.to_string())).refusal();
    assert!(status == 422 && text.contains("`plan.cluster.file` names a file"), "{text}");
}

#[test]
fn jobs_that_make_no_sense_are_told_field_value_and_hint() {
    for (change, words) in [
        (json!({ "model": { "name": "gpt2-xk" } }), "did you mean"),
        (json!({ "training": { "global_batch": 0 } }), "`training.global_batch`"),
        (json!({ "goal": { "deadline": "soon" } }), "`goal.deadline`"),
        (json!({ "goal": { "budget": -1 } }), "`goal.budget`"),
        (json!({ "cluster": { "instances": ["p9.*"] } }), "p9.*"),
        (json!({ "cluster": { "max_instances": 4_000_000_000u32 } }), "`cluster.max_instances`"),
        (json!({ "cluster": { "profile": "/etc/passwd" } }), "names a file"),
        (json!({ "cluster": { "file": "../../secret.toml" } }), "names a file"),
        (json!({ "model": { "file": "../x.toml" } }), "names a file"),
    ] {
        let mut job = job();
        for (key, value) in change.as_object().expect("a table") {
            job[key] = value.clone();
        }
        let (status, kind, text) = ask("/api/v1/plan", &json!({ "job": job })).refusal();
        assert!(status == 422 && kind == "bad-input" && text.contains(words), "{change}: {text}");
    }
}

#[test]
fn a_refusal_names_the_field_the_value_and_what_is_allowed() {
    let of = |path: &str, question: &Value| {
        let refusal = ask(path, question).json();
        ["field", "value", "allowed"].map(|key| refusal[key].as_str().unwrap_or_default().to_owned())
    };
    let mut wrong = job();
    wrong["training"]["global_batch"] = json!(0);
    let [field, value, allowed] = of("/api/v1/plan", &json!({ "job": wrong }));
    assert_eq!((field.as_str(), value.as_str()), ("training.global_batch", "0"));
    assert!(allowed.starts_with("from 1 to"), "{allowed}");
    wrong["training"]["global_batch"] = json!([]);
    let [field, _, allowed] = of("/api/v1/what-if", &json!({ "job": wrong, "vary": [] }));
    assert_eq!(field, "training.global_batch");
    assert!(allowed.starts_with("a number of samples"), "{allowed}");
    let mut wrong = job();
    wrong["training"]["betas"] = json!([0.9, 0.95, 0.9]);
    let told = of("/api/v1/plan", &json!({ "job": wrong }));
    assert_eq!(told, ["training.betas", "[0.9, 0.95, 0.9]", "a list of 2 numbers"]);
    let mut wrong = job();
    wrong["goal"] = json!({ "deadline": "1" });
    assert_eq!(of("/api/v1/plan", &json!({ "job": wrong })), ["goal.deadline", "1", "a duration such as 3d"]);
    wrong = job();
    wrong["model"] = json!({ "name": "gpt9" });
    let told = of("/api/v1/plan", &json!({ "job": wrong }));
    assert_eq!(told, ["model", "gpt9", "the name of a model of the catalog"]);
    wrong = job();
    wrong["cluster"] = json!({ "region": "mars" });
    let told = of("/api/v1/plan", &json!({ "job": wrong }));
    assert_eq!(told, ["cluster.region", "mars", "a Region in which machines have prices"]);
    let [field, ..] = of("/api/v1/what-if", &json!({ "job": job(), "vary": ["instances=1", "instances=2"] }));
    assert_eq!(field, "vary");
    let mut wrong = fleet();
    wrong["job"][1]["training"]["global_batch"] = json!(0);
    assert_eq!(of("/api/v1/fleet", &json!({ "fleet": wrong }))[..2], ["job[1].training.global_batch", "0"]);
    wrong["pool"]["surprise"] = json!(0);
    assert!(of("/api/v1/fleet", &json!({ "fleet": wrong }))[0].starts_with("pool"));
}

#[test]
fn advice_names_paths_of_the_api() {
    let mut wrong = job();
    wrong["cluster"]["instances"] = json!(["qqq"]);
    let (.., text) = ask("/api/v1/plan", &json!({ "job": wrong })).refusal();
    assert!(text.contains("GET /api/v1/catalogs lists the catalog") && !text.contains("trainyard show"), "{text}");
    let (.., text) = ask("/api/v1/what-if", &json!({ "job": job(), "vary": ["qqq=1"] })).refusal();
    assert!(text.contains("lists all keys, as `varied`"), "{text}");
    // As JSON has it, and without files, which the server does not open.
    let (.., text) = ask("/api/v1/plan", &json!({ "job": {} })).refusal();
    assert!(text.contains(r#""name": "gpt2""#) && !text.contains("file") && !text.contains(" = "), "{text}");
    let catalogs = answered(router(settings()), get("/api/v1/catalogs")).json();
    let keys = catalogs["varied"].as_array().expect("a list");
    assert!(keys.iter().any(|key| key["name"] == "instances"));
}

#[test]
fn every_refusal_says_what_may_be_done() {
    for (request, status) in [
        (get("/api/v1/no-such-path"), 404),
        (get("/api/v1/plan"), 405),
        (get("/api/v1/catalogs?limit=1"), 400),
        (post("/api/v1/plan", "{}".to_owned()), 400),
        (post("/api/v1/plan", "{\"job\":{}}".to_owned()), 422),
        (post("/api/v1/export/nowhere", "{}".to_owned()), 400),
    ] {
        let answer = answered(router(settings()), request).json();
        assert_eq!(answer["status"], status, "{answer}");
        assert!(answer["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{answer}");
    }
}

#[test]
fn a_job_without_any_plan_says_which_limit_to_relax() {
    let mut job = job();
    job["model"]["name"] = json!("gpt3-175b");
    job["cluster"] = json!({ "instances": ["g4dn.xlarge"], "max_instances": 1 });
    let (status, kind, text) = ask("/api/v1/plan", &json!({ "job": job })).refusal();
    assert!(status == 422 && kind == "no-plan" && text.contains("GPUs have more memory"), "{text}");
}

#[test]
fn hostile_json_is_refused() {
    let deep = format!("{{\"job\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let nested = format!("{{\"config\":{}{}}}", "{\"a\":".repeat(5000), "1".to_owned() + &"}".repeat(5000));
    for (path, body) in [
        ("/api/v1/plan", deep.as_str()),
        ("/api/v1/model", nested.as_str()),
        ("/api/v1/plan", "{\"job\":{\"data\":{\"tokens\":1e999}}}"),
        ("/api/v1/plan", "{\"job\":{\"training\":{\"steps\":99999999999999999999999}}}"),
        ("/api/v1/plan", "{\"job\":{},\"job\":{}}"),
        ("/api/v1/plan", "{\"job\":{},\"surprise\":1}"),
        ("/api/v1/plan", ""),
        ("/api/v1/plan", "\u{0}"),
        ("/api/v1/simulate", "[]"),
        ("/api/v1/simulate", "{\"schema\":\"trainyard.plan/9\"}"),
    ] {
        let answer = answered(router(settings()), post(path, body.to_owned()));
        let (status, kind, _) = answer.refusal();
        assert_eq!((status, kind.as_str()), (400, "bad-json"), "{path} {}", &body[..body.len().min(60)]);
        assert!(answer.body.len() < 2000, "what was sent is not sent back");
    }
}

#[test]
fn json_of_another_type_is_told_with_its_field() {
    for (body, words) in [
        (json!({ "job": { "training": { "global_batch": "x" } } }), "in `training.global_batch`: `x`"),
        (json!({ "job": { "cluster": { "instances": [1] } } }), "in `cluster.instances[0]`: "),
        (json!({ "job": { "model": { "surprise": 1 } } }), "unknown key `surprise`"),
        (json!({ "job": 1 }), "in `job`: "),
        (json!(1), "the body cannot be read: invalid type"),
    ] {
        let (status, _, text) = ask("/api/v1/plan", &body).refusal();
        assert!(status == 400 && text.contains(words), "{body}: {text}");
    }
}

#[test]
fn parameters_that_no_path_takes_are_refused() {
    for (request, name) in [
        (get("/api/v1/history?limit=1&kind=plan"), "`limit`"),
        (post("/api/v1/export/any?script=train.py", "{}"), "`script`"),
        (get("/api/v1/catalogs?all"), "`all`"),
    ] {
        let (status, kind, text) = answered(router(settings()), request).refusal();
        assert!(status == 400 && kind == "bad-request" && text.contains(name), "{text}");
    }
    assert_eq!(answered(router(settings()), get("/api/v1/catalogs?")).status, StatusCode::OK);
}

#[test]
fn names_that_are_no_text_are_refused_like_all_else() {
    for request in [get("/assets/%ff"), get("/api/v1/history/%ff"), post("/api/v1/export/%ff", "{}")] {
        let path = request.uri().clone();
        let (status, kind, _) = answered(router(settings()), request).refusal();
        assert_eq!((status, kind.as_str()), (400, "bad-request"), "{path}");
    }
}

#[test]
fn names_are_data_and_never_markup() {
    let name = "<img src=x onerror=alert(1)>";
    let answer = ask("/api/v1/model", &json!({ "config": config(), "name": name }));
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.json()["entry"]["name"], name);
    let mut job = job();
    job["model"]["name"] = json!(name);
    let answer = ask("/api/v1/plan", &json!({ "job": job }));
    let (status, _, text) = answer.refusal();
    assert!(status == 422 && text.contains(name), "{text}");
}

#[test]
fn a_body_that_is_too_large_is_refused_whether_it_says_so_or_not() {
    let spaces = |path: &str, length: usize| answered(router(settings()), post(path, vec![b' '; length])).refusal();
    let stated = Request::post("/api/v1/model").header("host", "localhost").header("content-type", "application/json");
    let stated = stated.header("content-length", 50 << 20).body(Body::empty()).expect("a request");
    let (status, kind, _) = answered(router(settings()), stated).refusal();
    assert_eq!((status, kind.as_str()), (413, "too-large"));
    let bounds = Bounds::STANDARD;
    for (path, most) in [
        ("plan", bounds.question),
        ("what-if", bounds.question),
        ("fleet", bounds.question),
        ("model", bounds.question),
        ("simulate", bounds.body),
        ("export/any", bounds.body),
    ] {
        let path = format!("/api/v1/{path}");
        let (status, kind, _) = spaces(&path, most + 1);
        assert_eq!((status, kind.as_str()), (413, "too-large"), "{path}");
        let (_, kind, _) = spaces(&path, most);
        assert_ne!(kind, "too-large", "{path}");
    }
}

#[test]
fn only_json_is_read() {
    let plain = Request::post("/api/v1/plan").header("host", "localhost").header("content-type", "text/plain");
    let (status, kind, _) = answered(router(settings()), plain.body(Body::from("{}")).expect("a request")).refusal();
    assert_eq!((status, kind.as_str()), (415, "media-type"));
    let packed = |coding: &str| {
        let request = Request::post("/api/v1/plan").header("host", "localhost").header("content-encoding", coding);
        let request = request.header("content-type", "application/json").body(Body::from("{}")).expect("a request");
        answered(router(settings()), request).refusal()
    };
    let (status, kind, text) = packed("gzip");
    assert!(status == 415 && kind == "media-type" && text.contains("`Content-Encoding` is `gzip`"), "{text}");
    assert_eq!(packed("identity").1, "bad-json");
}

#[test]
fn other_methods_are_refused() {
    for request in [get("/api/v1/plan"), post("/api/v1/catalogs", "{}"), post("/", "")] {
        let (status, kind, _) = answered(router(settings()), request).refusal();
        assert_eq!((status, kind.as_str()), (405, "method"));
    }
}

#[test]
fn a_foreign_name_for_this_machine_is_refused() {
    let rebound =
        |host: &str, path: &str| Request::get(path).header("host", host).body(Body::empty()).expect("a request");
    for path in ["/", "/api/v1/catalogs"] {
        let (status, kind, _) = answered(router(settings()), rebound("attacker.example:8080", path)).refusal();
        assert_eq!((status, kind.as_str()), (421, "forbidden"), "{path}");
    }
    let open = Settings { loopback: false, token: Token::new(TOKEN).ok(), ..settings() };
    assert_eq!(answered(router(open), rebound("train.example:8080", "/")).status, StatusCode::OK);
}

#[test]
fn pages_of_other_sites_are_refused() {
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
        let request = Request::get("/api/v1/catalogs").header("host", "localhost").header("sec-fetch-site", site);
        let answer = answered(router(settings()), request.body(Body::empty()).expect("a request"));
        assert_eq!(answer.status.as_u16(), status, "{site}");
    }
}

#[test]
fn an_origin_must_be_that_of_the_host_wherever_there_is_one() {
    let open = Settings { loopback: false, ..settings() };
    for settings in [settings(), open] {
        for (origin, status) in [
            ("http://localhost:8080", 200),
            ("https://LOCALHOST:8080", 200),
            ("http://localhost", 403),
            ("http://localhost:8081", 403),
            ("https://attacker.example", 403),
            ("null", 403),
        ] {
            let request = Request::get("/api/v1/catalogs").header("host", "localhost:8080").header("origin", origin);
            let answer = answered(router(settings.clone()), request.body(Body::empty()).expect("a request"));
            assert_eq!(answer.status.as_u16(), status, "{origin}");
        }
    }
}

#[test]
fn the_api_wants_the_token_where_there_is_one() {
    let guarded = || router(Settings { token: Token::new(TOKEN).ok(), ..settings() });
    let with = |value: &str| {
        let request = Request::get("/api/v1/catalogs").header("host", "localhost").header("authorization", value);
        request.body(Body::empty()).expect("a request")
    };
    let answer = answered(guarded(), get("/api/v1/catalogs"));
    assert_eq!(answer.headers["www-authenticate"], "Bearer");
    assert_eq!(answer.refusal().0, 401);
    assert_eq!(answered(guarded(), with("Bearer wrong")).status, StatusCode::UNAUTHORIZED);
    assert_eq!(answered(guarded(), post("/api/v1/plan", "{}")).status, StatusCode::UNAUTHORIZED);
    assert_eq!(answered(guarded(), with(&format!("Bearer {TOKEN}"))).status, StatusCode::OK);
    // The page is no secret; it asks for the token.
    assert_eq!(answered(guarded(), get("/")).status, StatusCode::OK);
}

#[test]
fn a_request_that_takes_too_long_is_given_up() {
    let bounds = Bounds { request: Duration::ZERO, ..Bounds::STANDARD };
    // One that takes seconds, so that no machine has its answer before the time is looked at.
    let mut job = job();
    job["model"]["name"] = json!("gpt3-175b");
    job["cluster"] = json!({ "max_instances": 1024 });
    let question = json!({ "job": job, "effort": "proof" }).to_string();
    let answer = answered(router(Settings { bounds, ..settings() }), post("/api/v1/plan", question));
    let (status, kind, _) = answer.refusal();
    assert_eq!((status, kind.as_str()), (504, "timeout"));
}

#[test]
fn too_many_requests_are_refused() {
    let bounds = Bounds { waiting: 0, ..Bounds::STANDARD };
    let question = json!({ "job": job() }).to_string();
    let answer = answered(router(Settings { bounds, ..settings() }), post("/api/v1/plan", question));
    assert_eq!(answer.headers["retry-after"], "1");
    let (status, kind, _) = answer.refusal();
    assert_eq!((status, kind.as_str()), (503, "busy"));
}

#[test]
fn the_description_has_every_path_and_every_schema() {
    let document = answered(router(settings()), get("/api/v1/openapi.json")).json();
    assert_eq!(document, openapi());
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for method in operations.as_object().expect("operations").keys() {
            let request = if method == "get" { get(path) } else { post(path, "{}") };
            let answer = answered(router(settings()), request);
            assert!(![404, 405].contains(&answer.status.as_u16()) || path.contains('{'), "{method} {path}");
        }
    }
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        let name = reference.strip_prefix("#/components/schemas/").expect("a schema of the document");
        assert!(document["components"]["schemas"][name].is_object(), "{reference}");
    }
}

fn entry(name: &str, text: String) -> NewEntry {
    NewEntry {
        kind: Kind::Plan,
        at: UtcTime::of_unix_seconds(1_790_000_000),
        program: "0.1.0".into(),
        arguments: vec!["plan".into(), name.into()],
        model: Some(name.into()),
        machines: None,
        figures: Figures::default(),
        documents: vec![Document { name: "plan.json".into(), text }],
    }
}

#[test]
fn what_is_kept_is_listed_and_opened() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("history.db");
    let asked = |path: &str| answered(router(Settings { history: Some(place.clone()), ..settings() }), get(path));
    // Looking makes no file.
    assert_eq!(asked("/api/v1/history").json()["entries"], json!([]));
    assert_eq!(asked("/api/v1/history/4f2k9c").refusal().0, 404);
    assert!(!place.exists());

    let document = plan()["plan"].clone();
    let mut store = Store::open(&place).expect("room");
    let id = store.keep(&entry("<b>gpt2</b>", document.to_string())).expect("room").id;
    let before = std::fs::read(&place).expect("readable");
    let listed = asked("/api/v1/history").json();
    assert_eq!(
        (listed["entries"][0]["id"].clone(), listed["entries"][0]["model"].clone()),
        (json!(id), json!("<b>gpt2</b>"))
    );
    let kept = asked(&format!("/api/v1/history/{}", &id[..4])).json();
    assert_eq!(kept["document"], document);
    assert_eq!(ask("/api/v1/simulate", &kept["document"]).status, StatusCode::OK);
    let (status, kind, text) = asked("/api/v1/history/..%2f..%2fetc").refusal();
    assert_eq!((status, kind.as_str()), (404, "not-found"));
    assert!(text.contains(&id), "{text}");
    assert_eq!(answered(router(settings()), post("/api/v1/history", "{}")).status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(std::fs::read(&place).expect("readable") == before, "it is not changed");
}

#[test]
fn a_history_that_is_none_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("notes.txt");
    std::fs::write(&place, "not a database").expect("room");
    let answer = answered(router(Settings { history: Some(place), ..settings() }), get("/api/v1/history"));
    let (status, kind, text) = answer.refusal();
    assert_eq!((status, kind.as_str()), (500, "failed"));
    assert!(text.contains("is no history"), "{text}");
}
