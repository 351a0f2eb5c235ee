//! What clusters and services must be told for a training to be placed, started again and kept apart from others.

use super::tests::{document, export, file, plain, sharded, with};
use super::{LaunchOptions, Target};
use serde_json::{Value, json};

/// Another plan cannot go on from the checkpoints of this one, which the same plan must.
#[test]
fn plans_share_no_folder_of_checkpoints() {
    let weights = |name: &str| LaunchOptions { weights: Some(name.into()), ..LaunchOptions::default() };
    let (other, further) =
        (with(&[("plan.batch.micro", json!(8)), ("plan.batch.accumulation", json!(1))]), weights("a/b"));
    for (target, before) in [
        (Target::Kubernetes, "--output_dir /results/"),
        (Target::Skypilot, "--output_dir /results/"),
        (Target::Sagemaker, "s3://RESULTS-BUCKET/PREFIX/trainyard-gpt2-"),
    ] {
        let folder = |document: &Value, options: &LaunchOptions| {
            let launch = export(document, target, options).expect("replicas");
            let after = launch.files[0].text.split(before).nth(1).expect("a folder of results").to_owned();
            after.split([' ', '/', '"', '\n']).next().unwrap_or_default().to_owned()
        };
        let none = LaunchOptions::default();
        let name = folder(&document(), &none);
        assert_eq!(folder(&document(), &none), name);
        let retimed = with(&[("prediction.interval_s", json!([0.3, 0.7]))]);
        assert_eq!(folder(&retimed, &none), name, "the plan is the same");
        assert_ne!(folder(&other, &none), name, "{}", target.name());
        assert_ne!(folder(&document(), &further), name, "{}", target.name());
    }
}

/// Names of jobs are unique, and the second submission of a file with one would be refused.
#[test]
fn a_request_leaves_the_name_of_its_job_to_the_command() {
    assert!(!file(&document(), Target::Sagemaker, "create-training-job.json").contains("TrainingJobName"));
    let estimator = file(&document(), Target::Sagemaker, "estimator.py");
    assert!(estimator.contains("--training-job-name trainyard-gpt2-$(date +%s)"), "{estimator}");
}

/// SageMaker brings the files of a checkpoint back one by one, and may have brought a part of them away.
#[test]
fn a_sharded_checkpoint_is_whole_with_the_metadata_of_its_parts() {
    let starter = |document: &Value| file(document, Target::Sagemaker, "start.py");
    let on_v100 =
        |changes: Vec<_>| with(&[sharded(), changes, vec![("plan.cluster.instance", json!("p3dn.24xlarge"))]].concat());
    assert!(starter(&on_v100(Vec::new())).contains("\"pytorch_model_fsdp_0/.metadata\",\"optimizer_0/.metadata\"]"));
    assert!(starter(&document()).contains("required = [\"trainer_state.json\"]\n"));
    let lora = json!({ "method": "lora", "lora": { "rank": 16, "targets": ["all-linear"] } });
    let adapters = [("job.training.method", json!("lora")), ("plan.fine_tuning", lora)];
    assert!(starter(&on_v100(adapters.to_vec())).contains("\"pytorch_model_fsdp.bin\",\"optimizer.bin\"]"));
}

/// The machines of SkyPilot have PyTorch at most.
#[test]
fn skypilot_installs_what_the_script_needs() {
    let adapters = json!({ "method": "lora", "lora": { "rank": 16, "targets": ["all-linear"] } });
    let tuned = with(&[("job.training.method", json!("lora")), ("plan.fine_tuning", adapters)]);
    let task = file(&tuned, Target::Skypilot, "skypilot.yaml");
    let setup = "pip install 'transformers>=5.0' 'accelerate>=1.10.1' 'trl>=1.16' 'peft>=0.13'";
    assert!(task.contains(&format!("setup: {setup}\n")) || task.contains(&format!("setup: \"{setup}\"\n")), "{task}");
    let image = LaunchOptions { image: Some("repository/own:1".into()), ..LaunchOptions::default() };
    let task = &export(&tuned, Target::Skypilot, &image).expect("replicas").files[0].text;
    assert!(!task.contains("setup:"), "{task}");
}

/// What kubelet and the system keep must be left, or no node has room for the pod.
#[test]
fn pods_fit_beside_the_system_of_their_nodes() {
    let of = |instance: &str| {
        let cluster = json!({ "instance": instance, "instances": 2 });
        file(&with(&[("plan.cluster", cluster)]), Target::Kubernetes, "kubernetes.yaml")
    };
    // 1,152 GiB and 96 processors; without the adapter 384 GiB.
    let large = of("p4d.24xlarge");
    for words in [
        "memory: 1048Gi\n",
        "cpu: 76\n",
        "hugepages-2Mi: 5120Mi\n",
        "sizeLimit: 576Gi\n",
        "backoffLimit: 200\n",
        "cleanPodPolicy: Running\n",
        "tolerations:\n            - key: nvidia.com/gpu\n              operator: Exists\n              effect: NoSchedule\n",
    ] {
        assert!(large.replace('"', "").contains(words), "{words}: {large}");
    }
    assert!(of("g4dn.metal").contains("memory: \"307Gi\""), "{}", of("g4dn.metal"));
}

#[test]
fn gated_weights_are_read_with_the_users_token() {
    let tuned = with(&[("job.training.method", json!("full"))]);
    let of = |target, weights: Option<&str>| {
        let options = LaunchOptions { weights: weights.map(Into::into), ..LaunchOptions::default() };
        export(&tuned, target, &options).expect("replicas").files[0].text.clone()
    };
    let secret = "secretKeyRef:\n                      name: hf-token\n                      key: token\n                      optional: true\n";
    assert!(of(Target::Kubernetes, Some("org/model")).contains(secret), "{}", of(Target::Kubernetes, None));
    assert!(!of(Target::Kubernetes, Some("/weights/model")).contains("hf-token"));
    assert!(of(Target::Torchrun, None).contains("# - gated weights need a token"));
    assert!(!of(Target::Torchrun, Some("/weights/model")).contains("HF_TOKEN"));
    assert!(!file(&document(), Target::Kubernetes, "kubernetes.yaml").contains("hf-token"));
}

#[test]
fn a_managed_job_of_skypilot_starts_again_after_an_early_end() {
    let text = file(&document(), Target::Skypilot, "skypilot.yaml");
    assert!(text.contains("job_recovery:\n    max_restarts_on_errors: 50\n"), "{text}");
}

/// AdamW steps by about its rate; LARS has been used with 9 and more (You et al., arXiv:1708.03888).
#[test]
fn a_learning_rate_that_lacks_its_exponent_is_refused() {
    let at = |rate: &str, optimizer: &str| {
        let options = LaunchOptions { learning_rate: Some(rate.into()), ..LaunchOptions::default() };
        export(&with(&[("plan.optimizer", json!(optimizer))]), Target::Torchrun, &options)
    };
    let error = at("20", "adamw").expect_err("not 2e-4").to_string();
    assert!(error.starts_with("`--learning-rate` is \"20\", but it must be at most 1: "), "{error}");
    at("1", "adamw").expect("the bound");
    at("20", "lars").expect("its rate is scaled");
    let open = |method: Value| {
        let document = with(&[("job.training", json!({ "method": method, "global_batch": 128 }))]);
        let launch = plain(&document, Target::Torchrun).expect("replicas");
        launch.blanks.iter().find(|blank| blank.placeholder == "LEARNING_RATE").expect("to fill in").what.clone()
    };
    assert_eq!(open(json!("full")), "peak learning rate, usually about 1e-5 where all weights are trained");
    assert_eq!(open(Value::Null), "peak learning rate");
}
