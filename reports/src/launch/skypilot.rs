//! SkyPilot.
//!
//! # Source
//!
//! SkyPilot 0.14, "Task YAML"; `sky/utils/schemas.py`.

use super::draft::{Draft, Finished, Flag, Head};
use super::error::LaunchError;
use super::field::{DALI_PACKAGE, Field, checkpoints_in_s3, from_objects};
use super::places::Places;
use super::program::{Program, environment, program};
use super::software::Engine;
use super::starter::Script;
use super::torchrun::{PORT, start_at};
use super::yaml::yaml;
use crate::shell::quoted;
use serde_json::{Map, Value, json};
use trainyard_hardware_profiles::Service;
use trainyard_plan::{DecodePlace, LaunchFile, Pricing, StorageMode};

/// How often a managed job starts its task again at most after that has ended with an error.
const RESTARTS: u32 = 50;

const PLACES: Places = Places { data: Some("/data"), results: Some("/results") };

pub(super) const STARTS: &[Engine] = Engine::SCRIPTS;

/// Writes `skypilot.yaml` and the files that must lie beside it.
pub(super) fn files(mut draft: Draft<'_>) -> Result<Finished, LaunchError> {
    if draft.job.instance().is_none() {
        return Err(draft.cannot(Field::Instance, "SkyPilot rents machines, and nobody rents this one out"));
    }
    let program = program(&mut draft, PLACES)?;
    let task = task(&mut draft, &program);
    let head: Head = draft.close(&format!(
        "Runs {} on rented machines. After an interruption `sky jobs launch skypilot.yaml` starts it again, and it goes on\nfrom the newest checkpoint in /results; `sky launch` does not start it again.",
        program.what
    ))?;
    let mut files = vec![LaunchFile { name: "skypilot.yaml".into(), text: head.comment() + &yaml(&task) }];
    files.extend(program.files());
    Ok(draft.finished(files))
}

fn task(draft: &mut Draft<'_>, program: &Program) -> Value {
    let job = draft.job;
    let mut fields = Map::new();
    fields.insert("name".into(), json!(job.name()));
    fields.insert("num_nodes".into(), json!(job.machines()));
    fields.insert("resources".into(), resources(draft));
    fields.insert("workdir".into(), json!("."));
    fields.insert("file_mounts".into(), mounts(draft));
    let environment = environment(draft);
    if !environment.is_empty() {
        let variables: Map<String, Value> = environment.into_iter().map(|(name, value)| (name, json!(value))).collect();
        fields.insert("envs".into(), Value::Object(variables));
    }
    if let Some(setup) = setup(draft, program) {
        fields.insert("setup".into(), json!(setup));
    }
    let address = "$(echo \"$SKYPILOT_NODE_IPS\" | head -n1)";
    let start = start_at(job, "$SKYPILOT_NODE_RANK", address, &PORT.to_string());
    fields.insert("run".into(), json!(format!("set -e\n{}", program.run(&start))));
    Value::Object(fields)
}

/// Returns the command that installs what the script needs; `None` where that is not known, and in an image, which has it.
fn setup(draft: &mut Draft<'_>, program: &Program) -> Option<String> {
    if draft.given(Flag::Image) {
        return None;
    }
    if program.packages.is_empty() {
        draft.remark(
            "the machines need the script and what it imports: add a setup section, or name an image with --image",
        );
        return None;
    }
    if matches!(program.script, Script::File(_)) {
        draft.remark("setup installs what the arguments need: add what the script imports besides");
    }
    let decodes = draft.job.plan().input().is_some_and(|input| input.decode == DecodePlace::Gpu);
    let packages = program.packages.iter().map(String::as_str).chain(decodes.then_some(DALI_PACKAGE));
    let packages: Vec<String> = packages.map(quoted).collect();
    let install = format!("pip install {}", packages.join(" "));
    Some(match &program.pytorch {
        Some(pytorch) => format!("{pytorch}\n{install}\n"),
        None => install,
    })
}

fn resources(draft: &mut Draft<'_>) -> Value {
    let job = draft.job;
    let mut resources = json!({
        "infra": format!("aws/{}", job.region()),
        "instance_type": job.plan().cluster().instance,
    });
    if draft.given(Flag::Image) {
        resources["image_id"] = json!(format!("docker:{}", draft.asks_or(Flag::Image, "")));
    }
    if job.is_spot() {
        resources["use_spot"] = json!(true);
        draft.tells(&[Field::Pricing]);
    }
    if job.plan().pricing() == Pricing::CapacityBlock {
        draft.note(Field::Pricing, "book the block, and name it in ~/.sky/config.yaml: aws.specific_reservations");
    }
    // A managed job starts a task again by itself only where it has lost its machines: ranks that stopped with a
    // checkpoint when one of them was reclaimed have ended before that.
    resources["job_recovery"] = json!({ "max_restarts_on_errors": RESTARTS });
    if job.efa_cards().is_some() {
        resources["network_tier"] = json!("best");
    }
    draft.tells(&[Field::Instance]);
    if job.plan().spec().service.as_deref() != Some(Service::Sagemaker.name()) {
        draft.tells(&[Field::Service]);
    }
    resources
}

/// Returns the mounts of data and results: streamed, or copied before the start. Results must come back, for which only
/// a bucket serves.
fn mounts(draft: &mut Draft<'_>) -> Value {
    let storage = draft.job.plan().input().map(|input| input.storage);
    let data = draft.asks(Flag::Data, "s3://DATA-BUCKET/PREFIX", "bucket that holds the data set");
    let results = draft.asks(Flag::Results, "s3://RESULTS-BUCKET/PREFIX", "bucket for checkpoints and results");
    let copied = !matches!(storage, Some(StorageMode::S3FastFile | StorageMode::S3Pipe));
    if storage == Some(StorageMode::S3Pipe) {
        draft.note(Field::Storage, "SkyPilot mounts the data; a pipe is SageMaker's");
    } else if storage.is_some_and(from_objects) {
        draft.tells(&[Field::Storage]);
    } else {
        draft.note(Field::Storage, "SkyPilot copies the data to each machine before the start");
    }
    checkpoints_in_s3(draft);
    let data = if data.contains("://") {
        json!({ "source": data, "mode": if copied { "COPY" } else { "MOUNT" } })
    } else {
        json!(data)
    };
    json!({ "/data": data, "/results": { "source": results, "mode": "MOUNT" } })
}
