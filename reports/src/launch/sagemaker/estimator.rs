//! A SageMaker job as an estimator of the Python SDK.

use super::{Input, KEEP_ALIVE_S, PLACES, Training};
use crate::launch::draft::Head;
use crate::launch::python::literal;
use crate::launch::starter;
use crate::launch::training_arguments::OPTIMIZER;
use serde_json::{Map, Value, json};

/// Returns the script that starts the job.
pub(super) fn text(head: &Head, training: &Training) -> String {
    let arguments: String =
        arguments(training).into_iter().map(|(name, value)| format!("    {name}={},\n", literal(&value, 4))).collect();
    let (import, input) = match &training.input {
        Input::Objects { uri, mode } => (
            "TrainingInput",
            format!("TrainingInput({}, input_mode={})", literal(&json!(uri), 0), literal(&json!(mode), 0)),
        ),
        Input::FileSystem { id, folder } => {
            let fields = json!({
                "file_system_id": id, "file_system_type": "FSxLustre", "directory_path": folder,
                "file_system_access_mode": "ro",
            });
            ("FileSystemInput", format!("FileSystemInput(**{})", literal(&fields, 4)))
        }
    };
    let guard = if is_without_optimizer(training) { GUARD } else { "" };
    format!(
        "{}# Of the SageMaker Python SDK, version 2: pip install 'sagemaker<3'. Version 3 has no estimators.\n\nfrom sagemaker.inputs import {import}\nfrom sagemaker.pytorch import PyTorch\n\nestimator = PyTorch(\n{arguments})\n\nif __name__ == \"__main__\":\n{guard}    estimator.fit({{\"training\": {input}}})\n",
        head.comment()
    )
}

/// Lines that end the script before machines are rented for a job that its Trainer would not start.
const GUARD: &str = "    if \"OPTIMIZER\" in estimator.hyperparameters().get(\"optim\", \"\"):\n        raise SystemExit(\"the script must hand the Trainer an optimizer: see `To fill in` above\")\n";

/// Returns `true` if the script must bring the optimizer.
fn is_without_optimizer(training: &Training) -> bool {
    training.hyperparameters.iter().any(|(name, value)| name == "optim" && value == OPTIMIZER)
}

fn arguments(training: &Training) -> Vec<(&'static str, Value)> {
    let (version, python) = training.distribution.versions();
    let mut list =
        vec![("entry_point", json!(starter::FILE)), ("source_dir", json!(".")), ("role", json!(training.role))];
    match &training.image {
        Some(image) => list.push(("image_uri", json!(image))),
        None => list.extend([("framework_version", json!(version)), ("py_version", json!(python))]),
    }
    list.extend([
        ("instance_type", json!(training.instance)),
        ("instance_count", json!(training.instances)),
        ("volume_size", json!(training.volume_gb)),
        ("base_job_name", json!(training.name)),
        ("output_path", json!(training.results)),
        ("checkpoint_s3_uri", json!(training.checkpoints())),
        ("checkpoint_local_path", json!(PLACES.results)),
        ("max_run", json!(training.max_run_s)),
    ]);
    if training.input.mode() != "File" {
        list.push(("input_mode", json!(training.input.mode())));
    }
    if training.spot {
        list.extend([("use_spot_instances", json!(true)), ("max_wait", json!(training.max_wait_s()))]);
    }
    if training.warm_pool {
        list.push(("keep_alive_period_in_seconds", json!(KEEP_ALIVE_S)));
    }
    if training.encrypted {
        list.push(("encrypt_inter_container_traffic", json!(true)));
    }
    if matches!(training.input, Input::FileSystem { .. }) {
        list.extend([("subnets", json!(["SUBNET"])), ("security_group_ids", json!(["SECURITY-GROUP"]))]);
    }
    if let Some(distribution) = training.distribution.argument() {
        list.push(("distribution", distribution));
    }
    if !training.environment.is_empty() {
        let variables: Map<String, Value> =
            training.environment.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        list.push(("environment", Value::Object(variables)));
    }
    let hyperparameters: Map<String, Value> = training.hyperparameters.iter().cloned().collect();
    list.push(("hyperparameters", Value::Object(hyperparameters)));
    list
}
