//! Every type of `config.json` that is read can be planned: the small models of `tests/hugging_face`.

use crate::common::{job, plan_with};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use trainyard_models::{Model, ModelSpec, from_hugging_face};
use trainyard_plan::document::PlanDocument;
use trainyard_planner::{NoPlan, Resources};

/// Returns the first small model of each type, called as its file.
fn small_models() -> Vec<ModelSpec> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/hugging_face");
    let files = fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    files.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let file: Value = serde_json::from_str(&fs::read_to_string(path).expect("readable")).expect("it is JSON");
        let models = file["models"].as_array().expect("a list");
        let small = models.iter().find(|model| model.get("flops").is_some()).expect("there is a small one");
        from_hugging_face(&small["saved"].to_string(), &name).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    files.iter().map(read).collect()
}

fn plan(spec: &ModelSpec, fixed: &[&str]) -> Result<PlanDocument, NoPlan> {
    let mut job = job(&spec.name, 16, &["p4d.24xlarge"], 1);
    (job.model.config, job.data.samples) = (Some("config.json".into()), Some(640));
    job.cluster.stack = Some("pytorch".into());
    plan_with(&job, Resources { model_file: Some(spec.clone()), ..Resources::default() }, fixed, 1)
}

#[test]
fn every_type_of_configuration_is_planned() {
    for spec in small_models() {
        let document = plan(&spec, &[]).unwrap_or_else(|error| panic!("{}: {error}", spec.name));
        let mfu = document.prediction.mfu.expect("rented GPUs have a peak");
        assert!(document.prediction.step_time_s > 0.0 && mfu > 0.0 && mfu < 1.0, "{}: {mfu}", spec.name);
    }
}

#[test]
fn two_ranks_share_the_layers_of_each_that_they_can() {
    let mut shared = 0;
    for spec in small_models() {
        let model = Model::try_from(spec.clone()).expect("valid");
        if model.tensor_heads().is_some_and(|heads| heads.is_multiple_of(2)) {
            let fixed = ["parallel.tensor=2", "parallel.data=2", "parallel.pipeline=2", "instances=1"];
            let document = plan(&spec, &fixed).unwrap_or_else(|error| panic!("{}: {error}", spec.name));
            assert_eq!(document.plan.parallel.tensor, 2, "{}", spec.name);
            shared += 1;
        }
    }
    assert!(shared > 30, "{shared}");
}
