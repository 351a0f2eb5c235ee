//! Nothing that a plan says is lost, and everything that is plain exports everywhere.

use super::kubernetes::NOT_OF_PODS;
use super::{LaunchError, LaunchOptions, Target, launch};
use serde_json::{Value, json};
use trainyard_hardware_profiles::{Fabric, Network, Sourced, Transport, catalog};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{LaunchDocument, LaunchFile};
use trainyard_units::BytesPerSecond;

/// Returns the document of GPT-2 on two p4d.24xlarge, data parallel.
pub(super) fn document() -> Value {
    let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
    json!({
        "schema": "trainyard.plan/1",
        "job": {
            "data": { "tokens": 1e9 },
            "training": { "global_batch": 128, "learning_rate": 0.0006 },
        },
        "plan": {
            "model": model.spec(),
            "cluster": { "instance": "p4d.24xlarge", "instances": 2 },
            "parallel": { "data": 16, "tensor": 1, "pipeline": 1 },
            "batch": { "global": 128, "micro": 4, "accumulation": 2 },
            "schedule": "none",
            "stages": [{ "first": 0, "layers": model.graph().len() }],
            "precision": "bf16-mixed",
            "recompute": "none",
            "collectives": "nccl",
            "optimizer": "adamw",
            "pricing": "on-demand",
        },
        "prediction": {
            "step_time_s": 0.5, "interval_s": [0.4, 0.6], "samples_per_s": 256.0, "bubble": 0.0,
            "exposed_communication_s": 0.0,
            "phases": { "forward_s": 0.1, "backward_s": 0.3, "communication_s": 0.1, "optimizer_s": 0.0 },
            "utilisation": [0.9],
            "memory_bytes": { "limit": 0, "stages": [] },
            "steps": 7629, "time_s": 3814.5,
        },
        "search": { "candidates": 1, "simulated": 1, "gap": 0.0 },
    })
}

/// Returns the document with the values at some paths set.
pub(super) fn with(changes: &[(&str, Value)]) -> Value {
    let mut document = document();
    for (path, value) in changes {
        let mut at = &mut document;
        for key in path.split('.') {
            at = &mut at[key];
        }
        *at = value.clone();
    }
    document
}

pub(super) fn export(document: &Value, target: Target, options: &LaunchOptions) -> Result<LaunchDocument, LaunchError> {
    let document: PlanDocument = serde_json::from_value(document.clone()).expect("a plan document");
    let named = &document.plan.cluster;
    let cluster = catalog().cluster(&named.instance, named.instances).expect("in the catalog");
    launch(&document, &cluster, None, target, options)
}

pub(super) fn plain(document: &Value, target: Target) -> Result<LaunchDocument, LaunchError> {
    export(document, target, &LaunchOptions::default())
}

/// The path of a field of a plan document, and its value.
pub(super) type Field = (&'static str, Value);

/// A plan that differs from another in one field: the fields set first, and the field changed then.
type Variation = (Vec<Field>, Field);

/// Changes one field of the plan that all others are made from.
fn one(path: &'static str, value: Value) -> Variation {
    (Vec::new(), (path, value))
}

/// Returns plans that differ from another in one field.
fn variations() -> Vec<Variation> {
    [variations_of_the_cut(), variations_of_the_rest()].concat()
}

pub(super) fn sharded() -> Vec<Field> {
    vec![("plan.state_sharding", json!("parameters"))]
}

/// Returns variations of parallelism and sharding.
fn variations_of_the_cut() -> Vec<Variation> {
    let pipeline = || {
        let stages = json!([{ "first": 0, "layers": 7 }, { "first": 7, "layers": 7 }]);
        vec![
            ("plan.parallel", json!({ "data": 8, "tensor": 1, "pipeline": 2 })),
            ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 4 })),
            ("plan.schedule", json!("1f1b")),
            ("plan.stages", stages),
        ]
    };
    let tensor = || {
        vec![
            ("plan.parallel", json!({ "data": 4, "tensor": 4, "pipeline": 1, "sequence": false })),
            ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 8 })),
        ]
    };
    vec![
        one("plan.cluster", json!({ "instance": "p4de.24xlarge", "instances": 2 })),
        one("plan.cluster.encrypted", json!(true)),
        one("plan.cluster.transport", json!("tcp")),
        (tensor(), ("plan.parallel.sequence", json!(true))),
        one("plan.batch", json!({ "global": 128, "micro": 8, "accumulation": 1 })),
        (pipeline(), ("plan.schedule", json!("gpipe"))),
        (pipeline(), ("plan.schedule", json!("zb-h1"))),
        (pipeline(), ("plan.stages", json!([{ "first": 0, "layers": 8 }, { "first": 8, "layers": 6 }]))),
        (pipeline(), ("plan.placement", json!("PDT"))),
        one("plan.precision", json!("fp16-mixed")),
        one("plan.precision", json!("fp32")),
        (vec![("plan.precision", json!("fp32"))], ("plan.precision", json!("tf32"))),
        one("plan.recompute", json!("selective")),
        one("plan.recompute", json!("full")),
        one("plan.state_sharding", json!("optimizer")),
        one("plan.state_sharding", json!("gradients")),
        one("plan.state_sharding", json!("parameters")),
        (sharded(), ("plan.sharding_ranks", json!(8))),
        (sharded(), ("plan.sharding_ranks", json!(4))),
        (sharded(), ("plan.gradient_reduction", json!("micro-batch"))),
        one("plan.gradient_reduction", json!("micro-batch")),
    ]
}

/// Returns variations of communication, offload, optimizer, data and the surroundings of a training.
fn variations_of_the_rest() -> Vec<Variation> {
    let input = json!({ "storage": "s3-fastfile", "decode": "cpu", "workers": 4, "prefetch": 2, "cache": "none" });
    let fed = || vec![("plan.input", input.clone())];
    let around = || vec![("job.campaign", json!({}))];
    vec![
        one("plan.gradient_compression", json!("fp16")),
        one("plan.gradient_compression", json!("int8")),
        one("plan.gradient_compression", json!("dgc")),
        (vec![("plan.state_sharding", json!("optimizer"))], ("plan.offload", json!("optimizer"))),
        (sharded(), ("plan.offload", json!("optimizer@nvme+parameters"))),
        one("plan.offload", json!("activations")),
        one("plan.collectives", json!("ring")),
        one("plan.collectives", json!("hierarchical")),
        one("plan.collectives", json!("smddp")),
        one("plan.optimizer", json!("sgd")),
        one("plan.optimizer", json!("sgd-momentum")),
        one("plan.optimizer", json!("adamw-8bit")),
        one("plan.optimizer", json!("lars")),
        one("plan.optimizer", json!("lamb")),
        one("plan.optimizer", json!("rmsprop")),
        one("plan.input", input.clone()),
        (fed(), ("plan.input.storage", json!("s3-pipe"))),
        (fed(), ("plan.input.storage", json!("fsx-lustre"))),
        (fed(), ("plan.input.storage", json!("nvme"))),
        (fed(), ("plan.input.workers", json!(6))),
        (fed(), ("plan.input.prefetch", json!(4))),
        (fed(), ("plan.input.cache", json!("memory"))),
        (fed(), ("plan.input.decode", json!("gpu"))),
        one("plan.pricing", json!("spot")),
        one("plan.pricing", json!("reserved")),
        one("plan.service", json!("ec2")),
        one("plan.stack", json!("alpa")),
        one("prediction.steps", json!(100)),
        one("job.training.learning_rate", json!(0.001)),
        one("job.training.warm_up_steps", json!(2000)),
        one("job.training.decay", json!("cosine")),
        one("job.training.decay", json!("polynomial")),
        (vec![("job.training.decay", json!("linear"))], ("job.training.final_learning_rate", json!(1e-5))),
        one("job.training.clip_norm", json!(1.0)),
        one("job.training.weight_decay", json!(0.2)),
        one("job.training.betas", json!([0.9, 0.98])),
        one("job.training.epsilon", json!(1e-6)),
        (vec![("plan.optimizer", json!("sgd-momentum"))], ("job.training.momentum", json!(0.8))),
        (around(), ("job.campaign.start", json!("warm-pool"))),
        (around(), ("job.campaign.checkpoint_interval", json!("10 min"))),
        (around(), ("job.campaign.checkpoint_storage", json!("ebs"))),
        (around(), ("job.campaign.evaluation", json!({ "every_steps": 500, "samples": 1000 }))),
        (around(), ("job.campaign.evaluation", json!({ "every_epochs": 0.5, "samples": 1000 }))),
    ]
}

/// Returns `true` if Trainyard's own executor reads a field from the plan document, or needs no word of it.
fn reads_the_document(target: Target, path: &str) -> bool {
    let around = [
        "plan.cluster",
        "plan.input",
        "plan.pricing",
        "plan.service",
        "plan.collectives",
        "job.campaign",
        "plan.placement",
    ];
    // Machines of Amazon are EC2's there, whether a plan says so or not.
    let own_machines = matches!(target, Target::Skypilot | Target::Kubernetes) && path == "plan.service";
    own_machines || target == Target::Slurm && !around.iter().any(|other| path.starts_with(other))
}

#[test]
fn whatever_a_plan_says_is_told_noted_or_refused() {
    let mut lost = Vec::new();
    for target in Target::ALL {
        for (first, (path, value)) in variations() {
            let before = with(&first);
            let mut all = first.clone();
            all.push((path, value.clone()));
            let (before, after) = (plain(&before, target), plain(&with(&all), target));
            let refused = matches!(&after, Err(LaunchError::Inexpressible { .. } | LaunchError::Uneven { .. }));
            assert!(after.is_ok() || refused, "{path} {value}: {after:?}");
            if before.is_ok() && before == after && !reads_the_document(target, path) {
                lost.push(format!("{} loses {path} = {value}", target.name()));
            }
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn plain_and_fully_sharded_plans_export_everywhere() {
    for document in [document(), with(&[("plan.state_sharding", json!("parameters"))])] {
        for target in Target::ALL {
            let files = plain(&document, target).unwrap_or_else(|error| panic!("{}: {error}", target.name())).files;
            assert!(!files.is_empty() && files.iter().all(|file| file.text.ends_with('\n')), "{}", target.name());
        }
    }
}

/// Returns the text of the file of this name.
pub(super) fn file(document: &Value, target: Target, name: &str) -> String {
    let launch = plain(document, target).unwrap_or_else(|error| panic!("{}: {error}", target.name()));
    let found = launch.files.into_iter().find(|file| file.name == name);
    found.unwrap_or_else(|| panic!("{} has no {name}", target.name())).text
}

/// Returns the parameters of the optimizer in DeepSpeed's configuration.
fn rule_of_deepspeed(document: &Value) -> Value {
    let config: Value = serde_json::from_str(&file(document, Target::Deepspeed, "deepspeed.json")).expect("JSON");
    config["optimizer"]["params"].clone()
}

/// AdamW for decoders as in Brown et al., arXiv:2005.14165, appendix B, and momentum as in Goyal et al.,
/// arXiv:1706.02677, section 5.1, which engines know nothing of.
#[test]
fn what_a_job_leaves_open_of_the_optimizer_is_what_is_usual() {
    let open = ("job.training", json!({ "global_batch": 128 }));
    let adamw = with(std::slice::from_ref(&open));
    let megatron = file(&adamw, Target::Megatron, "megatron.sh");
    let rule = "--optimizer adam --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 0.00000001 ";
    assert!(megatron.contains(rule) && megatron.contains("--lr LEARNING_RATE "), "{megatron}");
    let torchrun = file(&adamw, Target::Torchrun, "torchrun.sh");
    for words in [
        "--learning_rate LEARNING_RATE ",
        "--weight_decay 0.1 ",
        "--adam_beta1 0.9 ",
        "--adam_beta2 0.95 ",
        "--adam_epsilon 0.00000001 ",
    ] {
        assert!(torchrun.contains(words), "{words}: {torchrun}");
    }
    let rule = json!({ "lr": "LEARNING_RATE", "weight_decay": 0.1, "betas": [0.9, 0.95], "eps": 1e-8 });
    assert_eq!(rule_of_deepspeed(&adamw), rule);

    let momentum = with(&[open.clone(), ("plan.optimizer", json!("sgd-momentum"))]);
    let megatron = file(&momentum, Target::Megatron, "megatron.sh");
    assert!(megatron.contains("--optimizer sgd --sgd-momentum 0.9 --weight-decay 0.0001 "), "{megatron}");
    let rule = json!({ "lr": "LEARNING_RATE", "weight_decay": 1e-4, "momentum": 0.9 });
    assert_eq!(rule_of_deepspeed(&momentum), rule);
    let torchrun = file(&momentum, Target::Torchrun, "torchrun.sh");
    assert!(torchrun.contains("--optim sgd \\\n  --optim_args momentum=0.9 \\\n"), "{torchrun}");
    assert!(torchrun.contains("# - optim_args momentum=0.9: decay rate of the velocity ("), "{torchrun}");

    let sgd = with(&[open, ("plan.optimizer", json!("sgd"))]);
    assert!(file(&sgd, Target::Megatron, "megatron.sh").contains("--sgd-momentum 0 --weight-decay 0 "));
}

/// Returns the changes that make the plan one of another model of the catalog.
pub(super) fn model(name: &str) -> Vec<Field> {
    let model = &trainyard_models::find(name).expect("in the catalog").model;
    vec![
        ("plan.model", json!(model.spec())),
        ("plan.stages", json!([{ "first": 0, "layers": model.graph().len() }])),
        ("job.data", json!({ "samples": 1_000_000 })),
    ]
}

#[test]
fn an_optimizer_that_no_argument_names_keeps_the_trainer_from_starting() {
    for optimizer in ["lars", "lamb"] {
        let document = with(&[("plan.optimizer", json!(optimizer))]);
        for target in [Target::Sagemaker, Target::Torchrun, Target::Accelerate, Target::Skypilot, Target::Kubernetes] {
            let launch = plain(&document, target).unwrap_or_else(|error| panic!("{}: {error}", target.name()));
            let blank = launch.blanks.iter().find(|blank| blank.placeholder == "OPTIMIZER").expect("to fill in");
            assert!(blank.what.starts_with(&format!("plan.optimizer is {optimizer}, ")), "{}", blank.what);
            let stands = ["--optim OPTIMIZER", "\"optim\": \"OPTIMIZER\""];
            let found = launch.files.iter().any(|file| stands.iter().any(|words| file.text.contains(words)));
            assert!(found, "{}", target.name());
        }
        let estimator = file(&document, Target::Sagemaker, "estimator.py");
        assert!(estimator.contains("        raise SystemExit("), "{estimator}");
    }
    assert!(!file(&document(), Target::Sagemaker, "estimator.py").contains("SystemExit"));
    // DeepSpeed's configuration names it.
    let named = [("plan.stack", json!("deepspeed")), ("plan.optimizer", json!("lamb"))];
    assert!(!file(&with(&named), Target::Torchrun, "torchrun.sh").contains("--optim"));
}

/// bitsandbytes updates whole tensors and flat partitions, torchao the DTensors of FSDP 2.
#[test]
fn moments_in_eight_bits_are_asked_for_by_the_name_of_the_library_that_has_them() {
    let of = |changes: &[Field], target| {
        let document = with(&[&[("plan.optimizer", json!("adamw-8bit"))], changes].concat());
        plain(&document, target).unwrap_or_else(|error| panic!("{}: {error}", target.name()))
    };
    let script = |launch: &LaunchDocument| launch.files.iter().map(|file| file.text.clone()).collect::<String>();
    let whole = script(&of(&[], Target::Torchrun));
    assert!(whole.contains("--optim adamw_8bit ") && whole.contains("--adam_beta2 0.95 "), "{whole}");
    assert!(whole.contains("bitsandbytes>=0.46.1") && whole.contains("embeddings in 32 bits"), "{whole}");
    let shards = script(&of(&sharded(), Target::Torchrun));
    assert!(shards.contains("--optim adamw_torch_8bit ") && shards.contains("torchao>=0.15"), "{shards}");
    assert!(!shards.contains("bitsandbytes"), "{shards}");
    let zero = [("plan.stack", json!("deepspeed")), ("plan.state_sharding", json!("gradients"))];
    for (target, trainer) in [(Target::Torchrun, true), (Target::Deepspeed, false)] {
        let launch = of(&zero, target);
        let config = launch.files.iter().find(|file| file.name == "deepspeed.json").expect("a configuration");
        let config: Value = serde_json::from_str(&config.text).expect("JSON");
        assert!(
            config.get("optimizer").is_none() && config["zero_allow_untested_optimizer"] == json!(true),
            "{config}"
        );
        assert_eq!(script(&launch).contains("--optim adamw_8bit "), trainer);
        assert_eq!(launch.notes.iter().any(|note| note.contains("bitsandbytes.optim.AdamW8bit(")), !trainer);
    }
    let document = with(&[("plan.optimizer", json!("adamw-8bit"))]);
    let error = plain(&document, Target::Megatron).expect_err("not in Megatron-LM").to_string();
    assert!(error.starts_with("`plan.optimizer` is adamw-8bit, but Megatron-LM"), "{error}");
}

#[test]
fn adamw_for_a_network_with_batch_normalisation_is_noted_unless_the_job_names_it() {
    let of = |changes: &[Field]| {
        let document = with(&[model("resnet50"), changes.to_vec()].concat());
        file(&document, Target::Torchrun, "torchrun.sh").contains("--optimizer sgd-momentum")
    };
    assert!(of(&[]));
    assert!(!of(&[("job.training.optimizer", json!("adamw"))]));
    assert!(!of(&[("plan.optimizer", json!("sgd-momentum"))]));
    assert!(!file(&document(), Target::Torchrun, "torchrun.sh").contains("sgd-momentum"));
}

/// Accelerate makes one unit of a model whose classes list no blocks, unless it is told a size.
#[test]
fn units_are_sized_where_no_class_of_transformers_names_them() {
    let of = |name: &str| {
        let document = with(&[model(name), sharded(), vec![("plan.recompute", json!("full"))]].concat());
        [file(&document, Target::Torchrun, "torchrun.sh"), file(&document, Target::Accelerate, "accelerate.yaml")]
    };
    for name in ["gpt2", "bert-base", "t5-base", "qwen3-0.6b"] {
        let [script, config] = of(name);
        assert!(!script.contains("min_num_params") && script.contains("\"activation_checkpointing\":true"), "{script}");
        assert!(config.contains("fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP"), "{config}");
    }
    // Nine tenths of a block of 7,087,872 parameters.
    let [script, config] = of("vit-b-16");
    let words = "\"auto_wrap_policy\":\"SIZE_BASED_WRAP\",\"min_num_params\":6379083}";
    assert!(script.contains(words) && script.contains("--gradient_checkpointing true "), "{script}");
    assert!(config.contains("fsdp_min_num_params: 6379083"), "{config}");
    assert!(config.contains("fsdp_activation_checkpointing: false"), "{config}");
    for name in ["resnet50", "convnext-base", "deberta-v3-base"] {
        assert!(of(name)[0].contains("SIZE_BASED_WRAP"), "{name}");
    }
}

#[test]
fn a_price_of_ec2_is_no_price_of_sagemaker() {
    let of = |service: &str, region: &str| {
        let price = json!({
            "usd_per_hour": 98.32, "low_usd_per_hour": 98.32, "high_usd_per_hour": 98.32, "region": region,
            "service": service, "date": "2025-04-05", "source": "a table",
        });
        let cluster = json!({ "instance": "p5.48xlarge", "instances": 2 });
        let document = with(&[("prediction.price", price), ("plan.cluster", cluster)]);
        file(&document, Target::Sagemaker, "estimator.py")
    };
    let known = of("ec2", "us-west-2");
    assert!(known.contains("EC2's on-demand price, 98.32 USD an hour for p5.48xlarge in us-west-2"), "{known}");
    assert!(known.contains("SageMaker charges for ml.p5.48xlarge by prices of its own, 63.30 USD there"), "{known}");
    assert!(of("ec2", "eu-south-9").contains("of which none is known on these terms in eu-south-9"));
    assert!(!of("sagemaker", "us-west-2").contains("prices of its own"));
}

#[test]
fn a_transport_is_what_launchers_make_the_library_use() {
    let sockets = with(&[("plan.cluster.transport", json!("tcp"))]);
    assert!(file(&sockets, Target::Torchrun, "torchrun.sh").contains("NCCL_NET=Socket"));
    assert!(!file(&document(), Target::Torchrun, "torchrun.sh").contains("NCCL_NET"));
}

/// Behind the virtual device of a pod NCCL opens one connection to a peer, and a plan over TCP counts with more.
#[test]
fn pods_of_a_plan_over_sockets_use_the_network_of_their_machines() {
    let pod = |instance: &str| {
        let cluster = json!({ "instance": instance, "instances": 2 });
        file(&with(&[("plan.cluster", cluster)]), Target::Kubernetes, "kubernetes.yaml")
    };
    let (sockets, adapter) = (pod("g4dn.metal"), pod("p4d.24xlarge"));
    for words in ["hostNetwork: true", "dnsPolicy: ClusterFirstWithHostNet", NOT_OF_PODS, "tcp-pods"] {
        assert!(sockets.contains(words) && !adapter.contains(words), "{words}: {sockets}");
    }
}

/// transformers refuses a configuration of DeepSpeed that contradicts its own arguments.
#[test]
fn the_trainer_hears_the_same_as_deepspeed() {
    let deepspeed = ("plan.stack", json!("deepspeed"));
    for (optimizer, beta, epsilon) in [("adamw", 0.95, 1e-8), ("lamb", 0.999, 1e-6)] {
        let document = with(&[deepspeed.clone(), ("plan.optimizer", json!(optimizer))]);
        let script = file(&document, Target::Torchrun, "torchrun.sh");
        let config: Value =
            serde_json::from_str(&file(&document, Target::Torchrun, "deepspeed.json")).expect("a configuration");
        assert_eq!(config["optimizer"]["params"]["betas"], json!([0.9, beta]));
        assert_eq!(config["optimizer"]["params"]["eps"], json!(epsilon));
        assert!(script.contains(&format!("--adam_beta2 {beta} ")), "{script}");
        assert!(script.contains(&format!("--adam_epsilon {epsilon} ")), "{script}");
    }
}

/// Returns the document of Mixtral, whose publication drops no token, with its experts over eight ranks.
fn mixtral(changes: &[(&str, Value)]) -> Value {
    with(&[&over_eight_ranks("mixtral-8x7b"), changes].concat())
}

/// Returns a model with its experts over eight ranks.
pub(super) fn over_eight_ranks(name: &str) -> Vec<Field> {
    let parallel = ("plan.parallel", json!({ "data": 16, "tensor": 1, "pipeline": 1, "expert": 8 }));
    [model(name), vec![parallel]].concat()
}

#[test]
fn tokens_are_dropped_only_where_the_model_says_so() {
    let dropless = file(&mixtral(&[]), Target::Megatron, "megatron.sh");
    let words = "--num-experts 8 --moe-router-topk 2 --moe-token-dispatcher-type alltoall ";
    assert!(dropless.contains(words) && !dropless.contains("capacity-factor 1 "), "{dropless}");
    let dropping = file(&mixtral(&[("plan.model.capacity_factor", json!(1.0))]), Target::Megatron, "megatron.sh");
    assert!(dropping.contains("--moe-expert-capacity-factor 1 "), "{dropping}");
}

/// Megatron-LM's own weight of the loss that balances experts is 0.
#[test]
fn experts_are_balanced() {
    let launch = plain(&mixtral(&[]), Target::Megatron).expect("experts over eight ranks");
    let words = "--moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2 ";
    assert!(launch.files[0].text.contains(words), "{}", launch.files[0].text);
    let of_model: Vec<&str> =
        launch.assumed.iter().filter(|own| own.field == "plan.model").map(|own| own.written.as_str()).collect();
    assert_eq!(of_model, ["moe-aux-loss-coeff 1e-2"]);
    assert!(!file(&document(), Target::Megatron, "megatron.sh").contains("--moe-"));
}

/// `validate_args` and `MoELayer.forward` of Megatron-LM refuse them.
#[test]
fn experts_that_megatron_does_not_train_are_refused() {
    let half = plain(&mixtral(&[("plan.precision", json!("fp16-mixed"))]), Target::Megatron);
    let error = half.expect_err("experts are shared out").to_string();
    assert!(error.starts_with("`plan.precision` is fp16-mixed, but Megatron-LM"), "{error}");
    let tensor = |sequence: bool| {
        mixtral(&[
            ("plan.parallel", json!({ "data": 4, "tensor": 4, "pipeline": 1, "sequence": sequence })),
            ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 8 })),
        ])
    };
    let error = plain(&tensor(false), Target::Megatron).expect_err("sequences are whole").to_string();
    assert!(error.starts_with("`plan.parallel.sequence` is false, but Megatron-LM"), "{error}");
    plain(&tensor(true), Target::Megatron).expect("sequences are cut");
}

/// Its data set masks words while it trains, which takes a vocabulary.
#[test]
fn bert_is_trained_with_its_vocabulary() {
    let model = &trainyard_models::find("bert-large").expect("in the catalog").model;
    let bert = with(&[
        ("plan.model", json!(model.spec())),
        ("plan.stages", json!([{ "first": 0, "layers": model.graph().len() }])),
    ]);
    let script = file(&bert, Target::Megatron, "megatron.sh");
    assert!(script.contains("--tokenizer-type BertWordPieceLowerCase --vocab-file VOCAB-FILE "), "{script}");
    assert!(script.contains("# - VOCAB-FILE: file of the WordPiece vocabulary"), "{script}");
    let gpt = file(&document(), Target::Megatron, "megatron.sh");
    assert!(gpt.contains("--vocab-size 50256 --tokenizer-type NullTokenizer ") && !gpt.contains("VOCAB-FILE"), "{gpt}");
}

/// DeepSpeed's launcher reads `.deepspeed_env` only where there are several machines.
#[test]
fn deepspeed_hears_of_the_environment_on_one_machine_too() {
    let tf32 = ("plan.precision", json!("tf32"));
    let variable = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1\n";
    let one = with(&[
        tf32.clone(),
        ("plan.cluster.instances", json!(1)),
        ("plan.parallel.data", json!(8)),
        ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 4 })),
    ]);
    let script = file(&one, Target::Deepspeed, "deepspeed.sh");
    assert!(script.contains(&format!("\nexport {variable}deepspeed ")), "{script}");
    let names: Vec<String> =
        plain(&one, Target::Deepspeed).expect("it was just made").files.into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["deepspeed.sh", "deepspeed.json"]);
    let two = with(&[tf32]);
    assert!(file(&two, Target::Deepspeed, "deepspeed.sh").contains(&format!("export {variable}")));
    assert!(file(&two, Target::Deepspeed, ".deepspeed_env").contains(variable));
}

/// Slurm signals the batch shell alone. mpirun waits before it signals the ranks and again before it kills them, a
/// second by default: twice 270 seconds must be over before Slurm kills all.
#[test]
fn ranks_have_the_time_of_the_warning_for_a_checkpoint() {
    let script = file(&document(), Target::Slurm, "slurm.sh");
    // Ten minutes and a step, in whole minutes, of which one is for queueing.
    assert!(script.contains("\n#SBATCH --signal=B:USR1@660\n"), "{script}");
    let told = "\nstop() {\n  told=1\n  kill -TERM \"$launcher\" || echo \"the ranks could not be told to stop\" >&2\n  \
                timeout 600 tail --pid=\"$launcher\" -f /dev/null || true\n  again\n}\n";
    assert!(script.contains(told), "{script}");
    assert!(script.contains(" --mca odls_base_sigkill_timeout 270 "), "{script}");
    let start = " &\nlauncher=$!\ntrap stop USR1\ntrap 'told=1; trap \"\" TERM; kill -TERM \"$launcher\" || true' TERM\nwhile kill -0 ";
    assert!(script.contains(start) && script.ends_with("\nexit \"$status\"\n"), "{script}");
}

#[test]
fn results_of_rented_machines_go_to_a_bucket() {
    let to = |results: &str| LaunchOptions { results: Some(results.into()), ..LaunchOptions::default() };
    let error = export(&document(), Target::Skypilot, &to("/results")).expect_err("it would be sent there once");
    assert!(error.to_string().starts_with("`--results` is \"/results\", but it must be a bucket"), "{error}");
    export(&document(), Target::Skypilot, &to("s3://bucket/results")).expect("a bucket");
}

#[test]
fn places_have_the_form_that_a_target_takes() {
    let lustre = json!({ "storage": "fsx-lustre", "decode": "cpu", "workers": 4, "prefetch": 2, "cache": "none" });
    let on_lustre = with(&[("plan.input", lustre)]);
    let role = |value: &str| LaunchOptions { role: Some(value.into()), ..LaunchOptions::default() };
    let data = |value: &str| LaunchOptions { data: Some(value.into()), ..LaunchOptions::default() };
    let results = |value: &str| LaunchOptions { results: Some(value.into()), ..LaunchOptions::default() };
    let paths = [Target::Torchrun, Target::Accelerate, Target::Deepspeed, Target::Megatron, Target::Slurm];
    let bucket = || results("s3://bucket/results");
    let mut refused: Vec<(Value, Target, LaunchOptions, &str)> = vec![
        (document(), Target::Sagemaker, role("notarn"), "`--role` is \"notarn\", but it must be the ARN"),
        (document(), Target::Sagemaker, results("/local"), "`--results` is \"/local\", but it must be a bucket of S3"),
        (document(), Target::Sagemaker, data("/local"), "`--data` is \"/local\", but it must be a bucket of S3"),
        (on_lustre, Target::Sagemaker, data("s3://bucket/x"), "`--data` is \"s3://bucket/x\", but it must be a file"),
        (document(), Target::Megatron, data("s3://bucket/x"), "`--data` is \"s3://bucket/x\", but it must be a path"),
        (document(), Target::Slurm, data("s3://bucket/x"), "`--data` is \"s3://bucket/x\", but it must be a path"),
        (document(), Target::Kubernetes, data("s3://b/x"), "`--data` is \"s3://b/x\", but it must be the name of a"),
        (document(), Target::Kubernetes, results("/x/y"), "`--results` is \"/x/y\", but it must be the name of a"),
    ];
    let address = "`--results` is \"s3://bucket/results\", but it must be a path";
    refused.extend(paths.map(|target| (document(), target, bucket(), address)));
    for (document, target, options, text) in refused {
        let error = export(&document, target, &options).expect_err("another form");
        assert!(error.to_string().starts_with(text), "{}: {error}", target.name());
        assert!(error.hint().is_some_and(|hint| hint.starts_with("for example `--")), "{error:?}");
    }
    for target in paths {
        export(&document(), target, &results("/shared/results")).expect("a path");
    }
    export(&document(), Target::Kubernetes, &data("training-data")).expect("a claim");
    export(&document(), Target::Sagemaker, &bucket()).expect("a bucket");
    let unused = export(&document(), Target::Torchrun, &data("s3://bucket/x"));
    assert_eq!(unused, Err(LaunchError::Unused { flag: "--data", target: "torchrun" }));
}

/// TRL's scripts read data sets of the Hugging Face Hub by their names.
#[test]
fn data_may_be_a_name_on_the_hub_where_the_script_takes_one() {
    let tuned = with(&[
        ("plan.fine_tuning", json!({ "method": "lora", "lora": { "rank": 16, "targets": ["all-linear"] } })),
        ("job.training.method", json!("lora")),
    ]);
    let data = |value: &str| LaunchOptions { data: Some(value.into()), ..LaunchOptions::default() };
    let launch = export(&tuned, Target::Torchrun, &data("trl-lib/Capybara")).expect("a name");
    assert!(launch.files[0].text.contains("--dataset_name trl-lib/Capybara "), "{}", launch.files[0].text);
    for (target, file) in [(Target::Torchrun, "data/train.jsonl"), (Target::Skypilot, "s3://b/train.parquet")] {
        let error = export(&tuned, target, &data(file)).expect_err("a file").to_string();
        assert!(error.ends_with("name the folder that holds it"), "{error}");
    }
    export(&document(), Target::Skypilot, &data("s3://b/train.parquet")).expect("a script of one's own");
    let error = export(&tuned, Target::Torchrun, &data("s3://bucket/x")).expect_err("an address");
    assert!(error.to_string().contains("or a name on the Hugging Face Hub"), "{error}");
}

/// FSDP 2 shards among the ranks of one dimension of a mesh, which Accelerate reads from the environment.
#[test]
fn states_are_shared_among_some_replicas_or_all() {
    let among =
        |ranks: u32| with(&[("plan.state_sharding", json!("parameters")), ("plan.sharding_ranks", json!(ranks))]);
    for (ranks, groups) in [(8, 2), (4, 4)] {
        for (target, config) in [
            (
                Target::Torchrun,
                r#"--fsdp_config '{"reshard_after_forward":true,"state_dict_type":"SHARDED_STATE_DICT"}'"#,
            ),
            (Target::Accelerate, "fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"),
        ] {
            let files = plain(&among(ranks), target).expect("groups of neighbours").files;
            let all: String = files.iter().map(|file| file.text.as_str()).collect();
            let mesh = format!(
                "export ACCELERATE_USE_PARALLELISM_CONFIG=true\nexport PARALLELISM_CONFIG_DP_REPLICATE_SIZE={groups}\nexport PARALLELISM_CONFIG_DP_SHARD_SIZE={ranks}\n"
            );
            assert!(all.contains(&mesh) && all.contains(config), "{all}");
        }
    }
    let whole = file(&with(&[("plan.state_sharding", json!("gradients"))]), Target::Torchrun, "torchrun.sh");
    assert!(whole.contains(r#""reshard_after_forward":false"#) && !whole.contains("PARALLELISM_CONFIG"), "{whole}");
    let error = plain(&among(8), Target::Deepspeed).expect_err("no words for these groups");
    assert!(error.to_string().contains("`plan.sharding_ranks` is"), "{error}");
}

/// SageMaker hands over a value with every name.
#[test]
fn a_flag_of_the_script_is_a_hyperparameter_without_a_value() {
    let sharded = with(&[("plan.state_sharding", json!("parameters"))]);
    let request = file(&sharded, Target::Sagemaker, "create-training-job.json");
    assert!(request.contains(r#""fsdp": "\"\"""#), "{request}");
    assert!(file(&sharded, Target::Sagemaker, "start.py").contains("if word]"));
}

/// Partitions of ZeRO are flat, and Megatron-LM has no such optimizer at all.
#[test]
fn an_optimizer_with_rates_of_tensors_needs_whole_states() {
    for optimizer in ["lamb", "lars"] {
        let of =
            |sharding: &str| with(&[("plan.optimizer", json!(optimizer)), ("plan.state_sharding", json!(sharding))]);
        for sharding in ["optimizer", "gradients", "parameters"] {
            let error = plain(&of(sharding), Target::Deepspeed).expect_err("flat partitions").to_string();
            assert!(error.starts_with(&format!("`plan.state_sharding` is {sharding}, but ZeRO")), "{error}");
            assert!(error.contains(optimizer), "{error}");
        }
        plain(&of("none"), Target::Deepspeed).expect("whole states");
        let fsdp = plain(&of("parameters"), Target::Torchrun).expect("a script of one's own");
        assert!(fsdp.blanks.iter().any(|blank| blank.what.contains("DTensors")), "{:?}", fsdp.blanks);
        let error = plain(&of("none"), Target::Megatron).expect_err("not Megatron-LM's");
        assert!(error.to_string().starts_with(&format!("`plan.optimizer` is {optimizer}, but Megatron-LM")), "{error}");
    }
    let alone = with(&[("plan.optimizer", json!("lamb"))]);
    let config = file(&alone, Target::Deepspeed, "deepspeed.json");
    assert!(!config.contains("untested"), "{config}");
}

/// Returns the files of a plan on machines of one's own, whose network is changed.
fn on_own_machines(target: Target, change: impl FnOnce(&mut Network)) -> LaunchDocument {
    let mut document: PlanDocument = serde_json::from_value(document()).expect("a plan document");
    document.plan.cluster.file = Some("own.toml".into());
    let mut cluster = catalog().cluster("p4d.24xlarge", 2).expect("in the catalog");
    let Fabric::Wired { network, .. } = &mut cluster.pools[0].fabric else { panic!("machines with a network") };
    change(network);
    launch(&document, &cluster, None, target, &LaunchOptions::default()).expect("replicas")
}

/// A pod that asks for no card of RDMA has none.
#[test]
fn pods_ask_for_the_cards_that_were_priced() {
    for transport in [Transport::Infiniband, Transport::Roce] {
        let launch = on_own_machines(Target::Kubernetes, |network| network.transport = transport);
        let text = &launch.files[0].text;
        assert_eq!(text.matches("rdma/RDMA-RESOURCE: 4\n").count(), 4, "{text}");
        assert!(text.contains("IPC_LOCK") && !text.contains("efa"), "{text}");
        assert!(text.contains("# - rdma/RDMA-RESOURCE: resource by which"), "{text}");
        assert!(launch.blanks.iter().any(|blank| blank.flag.is_none() && blank.placeholder.starts_with("rdma/")));
    }
    let sockets = on_own_machines(Target::Kubernetes, |network| network.transport = Transport::Tcp);
    assert!(!sockets.files[0].text.contains("rdma"), "{}", sockets.files[0].text);
}

/// NCCL opens one connection to a peer where it does not know the network.
#[test]
fn connections_that_were_priced_are_opened() {
    let of = |connections: u32, limited: bool| {
        let launch = on_own_machines(Target::Torchrun, |network| {
            network.transport = Transport::Tcp;
            network.flow_limit = limited.then(|| Sourced::new(BytesPerSecond(6e8), "stated"));
            network.messaging.connections = Some(Sourced::new(connections, "stated"));
        });
        let value = |name: &str| {
            let line = launch.files[0].text.lines().find_map(|line| line.strip_prefix(&format!("export {name}=")));
            line.and_then(|value| value.parse().ok())
        };
        (value("NCCL_SOCKET_NTHREADS"), value("NCCL_NSOCKS_PERTHREAD"))
    };
    for (connections, threads, sockets) in [(16, 2, 8), (4, 1, 4), (12, 2, 6), (13, 13, 1), (17, 1, 17), (64, 8, 8)] {
        assert_eq!(of(connections, true), (Some(threads), Some(sockets)), "{connections}");
    }
    // 100 Gbit/s a card.
    assert_eq!((of(1, true), of(16, false)), ((None, None), (Some(4), Some(4))));
    let rented = file(&with(&[("plan.cluster.transport", json!("tcp"))]), Target::Torchrun, "torchrun.sh");
    assert!(!rented.contains("NTHREADS"), "{rented}");
}

/// Megatron-LM opens two files, whose path it is given without their endings.
#[test]
fn data_that_is_mounted_is_named_by_the_prefix_of_its_files() {
    let stack = [("plan.parallel", json!({ "data": 4, "tensor": 4, "pipeline": 1 }))];
    let batch = [("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 8 }))];
    let tensor = with(&[stack, batch].concat());
    for (target, name) in [(Target::Kubernetes, "kubernetes.yaml"), (Target::Skypilot, "skypilot.yaml")] {
        let text = file(&tensor, target, name);
        assert!(text.contains("--data-path /data/DATA-PREFIX "), "{text}");
        assert!(text.contains("# - DATA-PREFIX: data set, as Megatron-LM's tools write one"), "{text}");
    }
}

#[test]
fn a_refusal_names_the_field_and_who_can() {
    let stages = json!([{ "first": 0, "layers": 7 }, { "first": 7, "layers": 7 }]);
    let zero_bubble = with(&[
        ("plan.parallel", json!({ "data": 8, "tensor": 1, "pipeline": 2 })),
        ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 4 })),
        ("plan.schedule", json!("gpipe")),
        ("plan.stages", stages.clone()),
    ]);
    let error = plain(&zero_bubble, Target::Megatron).expect_err("Megatron-LM has no such schedule");
    assert!(error.to_string().starts_with("`plan.schedule` is gpipe, but Megatron-LM"), "{error}");
    assert_eq!(error.hint().as_deref(), Some("these can: sagemaker, slurm"));
    let mut halves = zero_bubble;
    halves["plan"]["schedule"] = json!("zb-h1");
    let error = plain(&halves, Target::Torchrun).expect_err("only the executor has it");
    assert_eq!(error.hint().as_deref(), Some("these can: slurm"));
}

#[test]
fn options_that_change_nothing_are_refused() {
    let options = LaunchOptions { role: Some("arn".into()), ..LaunchOptions::default() };
    let unused = LaunchError::Unused { flag: "--role", target: "torchrun" };
    assert_eq!(export(&document(), Target::Torchrun, &options), Err(unused));
    for wrong in ["0", "-1", "nan", "fast", "inf"] {
        let options = LaunchOptions { learning_rate: Some(wrong.into()), ..LaunchOptions::default() };
        assert!(matches!(export(&document(), Target::Torchrun, &options), Err(LaunchError::Option { .. })), "{wrong}");
    }
    let options = LaunchOptions { script: Some("a\nb".into()), ..LaunchOptions::default() };
    assert!(matches!(export(&document(), Target::Torchrun, &options), Err(LaunchError::Option { .. })));
}

#[test]
fn what_is_given_fills_its_blank() {
    let bare = plain(&document(), Target::Sagemaker).expect("data parallel");
    let blanks: Vec<&str> = bare.blanks.iter().filter_map(|blank| blank.flag.as_deref()).collect();
    assert_eq!(blanks, ["--script", "--role", "--data", "--results"]);
    let options = LaunchOptions {
        script: Some("own.py".into()),
        role: Some("arn:aws:iam::111122223333:role/r".into()),
        data: Some("s3://d/".into()),
        results: Some("s3://r/".into()),
        ..LaunchOptions::default()
    };
    let filled = export(&document(), Target::Sagemaker, &options).expect("data parallel");
    assert!(filled.blanks.is_empty());
    let named = |file: &&LaunchFile| !["start.py", "requirements.txt"].contains(&file.name.as_str());
    for file in filled.files.iter().filter(named) {
        assert!(file.text.contains("arn:aws:iam::111122223333:role/r"), "{}", file.text);
    }
}

#[test]
fn hostile_names_stay_text() {
    let name = "x'; rm -rf ~\n#$(reboot)\u{202e}\u{2028}setup: rm -rf /\u{2029}\u{feff}rm -rf /\u{85}rm -rf /";
    let hostile = with(&[("plan.model.name", json!(name))]);
    // YAML has line breaks that a shell has not.
    let breaks = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
    for target in Target::ALL {
        let launch = plain(&hostile, target).unwrap_or_else(|error| panic!("{}: {error}", target.name()));
        for file in &launch.files {
            let lines = file.text.split(breaks).filter(|line| !line.starts_with('#'));
            let bare = lines.into_iter().any(|line| line.contains("rm -rf"));
            assert!(!bare, "{}: {}", target.name(), file.text);
        }
    }
}

#[test]
fn ranks_that_leave_a_machine_half_full_are_refused() {
    let uneven = with(&[
        ("plan.parallel.data", json!(12)),
        ("plan.batch", json!({ "global": 96, "micro": 4, "accumulation": 2 })),
    ]);
    let error = plain(&uneven, Target::Torchrun).expect_err("12 ranks on machines of 8");
    assert!(error.to_string().starts_with("`plan.cluster` is 2 × p4d.24xlarge, but"), "{error}");
}

#[test]
fn a_time_beyond_all_limits_is_the_longest_that_a_job_may_take() {
    for time in [1e18, f64::MAX] {
        let endless = with(&[("prediction.start_up_s", json!(time))]);
        for target in Target::ALL {
            plain(&endless, target).unwrap_or_else(|error| panic!("{}: {error}", target.name()));
        }
        let launch = plain(&endless, Target::Sagemaker).expect("it was just made");
        assert!(launch.files.iter().any(|file| file.text.contains("\"MaxRuntimeInSeconds\": 2419200")));
    }
}
