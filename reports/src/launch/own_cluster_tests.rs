//! Launch files for machines of one's own, which a cluster file describes.

use super::stack_tests::{given, megatron, pytorch, stack};
use super::tests::document;
use super::{LaunchError, LaunchOptions, Target, launch};
use serde_json::json;
use trainyard_hardware_profiles::{Abilities, Cluster, Fabric, Network, Transport, catalog};
use trainyard_plan::LaunchDocument;
use trainyard_plan::document::PlanDocument;
use trainyard_units::UsdPerHour;

/// Two machines of the catalog as two kinds of a cluster file.
fn two_kinds(change: impl FnOnce(&mut Cluster)) -> Cluster {
    let mut cluster = catalog().cluster("p4d.24xlarge", 1).expect("in the catalog");
    cluster.instance = "own".into();
    cluster.pools.push(cluster.pools[0].clone());
    cluster.pools[1].name = "other".into();
    change(&mut cluster);
    cluster
}

fn network(cluster: &mut Cluster, pool: usize, change: impl FnOnce(&mut Network)) {
    match &mut cluster.pools[pool].fabric {
        Fabric::Wired { network, .. } => change(network),
        Fabric::Measured => panic!("machines with a network"),
    }
}

/// Returns the files of a plan on all machines of a cluster file that has several kinds.
fn files(cluster: &Cluster, target: Target) -> Result<LaunchDocument, LaunchError> {
    let mut document: PlanDocument = serde_json::from_value(document()).expect("a plan document");
    document.plan.cluster.file = Some("own.toml".into());
    document.plan.cluster.instance = cluster.instance.clone();
    document.plan.stack = Some("megatron-core".into());
    let options = LaunchOptions { other_kinds: true, ..LaunchOptions::default() };
    launch(&document, cluster, Some(&megatron()), target, &options)
}

#[test]
fn kinds_that_differ_in_cards_host_and_price_are_started_as_one() {
    let cluster = two_kinds(|cluster| {
        for pool in 0..2 {
            network(cluster, pool, |network| network.transport = Transport::Infiniband);
        }
        network(cluster, 1, |network| network.interfaces = 2);
        let host = cluster.pools[1].host.as_mut().expect("a host");
        host.memory.0 /= 2;
        cluster.pools[1].usd_per_hour = Some(UsdPerHour(1.0));
    });
    let slurm = files(&cluster, Target::Slurm).expect("alike");
    assert!(slurm.files[0].text.contains("#SBATCH --nodes=2\n"), "{}", slurm.files[0].text);
    assert!(slurm.blanks.iter().all(|blank| blank.placeholder != "FEATURE"), "{:?}", slurm.blanks);
    // Pods ask for what each machine has.
    let pods = files(&cluster, Target::Kubernetes).expect("alike");
    let memory = (0.925_f64 * 576.0 - 12.0).floor();
    assert!(pods.files[0].text.contains("rdma/RDMA-RESOURCE: 2\n"), "{}", pods.files[0].text);
    assert!(pods.files[0].text.contains(&format!("memory: \"{memory}Gi\"")), "{}", pods.files[0].text);
}

#[test]
fn kinds_with_other_gpus_or_transports_are_refused() {
    let transports = two_kinds(|cluster| network(cluster, 0, |network| network.transport = Transport::Tcp));
    let gpus = two_kinds(|cluster| {
        let other = catalog().cluster("p5.48xlarge", 1).expect("in the catalog");
        cluster.pools[1].device = other.pools[0].device.clone();
    });
    for (cluster, what) in [(transports, "transports"), (gpus, "GPUs")] {
        let text = format!(
            "`plan.cluster` is 2 × own, machines of several kinds whose {what} differ, and launchers start the same on all"
        );
        for target in Target::ALL {
            let error = files(&cluster, target).expect_err("not alike");
            assert_eq!(error.to_string(), text);
            assert!(error.hint().is_some_and(|hint| hint.ends_with("`--fix instance=NAME`")), "{error:?}");
        }
    }
}

#[test]
fn several_machines_of_ones_own_are_told_their_network() {
    let told = |transport: Transport, target: Target| {
        let cluster = two_kinds(|cluster| {
            for pool in 0..2 {
                network(cluster, pool, |network| network.transport = transport);
            }
        });
        let notes = files(&cluster, target).expect("alike").notes;
        let of_network: Vec<String> = notes.into_iter().filter(|note| note.contains("NCCL_DEBUG")).collect();
        of_network.join("|")
    };
    let cards = "4 × 100 Gbit/s = 400 Gbit/s a machine";
    for target in [Target::Slurm, Target::Torchrun, Target::Megatron] {
        let infiniband = told(Transport::Infiniband, target);
        let start = format!(
            "the network was priced as InfiniBand, {cards}: with NCCL_DEBUG=INFO NCCL must log `NET/IB : Using`"
        );
        assert!(infiniband.starts_with(&start) && !infiniband.contains("GID"), "{infiniband}");
    }
    let roce = told(Transport::Roce, Target::Slurm);
    assert!(
        roce.contains("NCCL_IB_HCA where NCCL must not use all cards, NCCL_IB_GID_INDEX")
            && roce.contains("NCCL_SOCKET_IFNAME"),
        "{roce}"
    );
    let sockets = told(Transport::Tcp, Target::Slurm);
    assert!(sockets.contains("must log `NET/Socket : Using`. ") && !sockets.contains("NCCL_IB"), "{sockets}");
    // EC2's own network needs a plug-in of NCCL.
    let rented = given(&[], &megatron(), Target::Slurm, &LaunchOptions::default()).expect("replicas");
    assert!(rented.notes.iter().any(|note| note.contains("it must log `NET/OFI`")), "{:?}", rented.notes);
}

#[test]
fn fast_cards_are_given_several_sockets() {
    let of = |gbit: f64, transport: Transport| {
        let cluster = two_kinds(|cluster| {
            for pool in 0..2 {
                network(cluster, pool, |network| {
                    network.transport = transport;
                    network.interfaces = 2;
                    network.baseline.value.0 = gbit / 8.0 * 2e9;
                    network.flow_limit = None;
                });
            }
        });
        let launch = files(&cluster, Target::Slurm).expect("alike");
        launch.files[0].text.contains("export NCCL_SOCKET_NTHREADS=4\nexport NCCL_NSOCKS_PERTHREAD=4\n")
    };
    let told =
        [(100.0, Transport::Tcp), (40.0, Transport::Tcp), (25.0, Transport::Tcp), (100.0, Transport::Infiniband)];
    assert_eq!(told.map(|(gbit, transport)| of(gbit, transport)), [true, true, false, false]);
}

/// `gpus = 4` may be half of a machine, of which Slurm would give nobody the rest.
#[test]
fn a_slurm_job_that_may_take_a_part_of_a_machine_says_that_it_takes_all() {
    let of = |instances: u32, gpus: u32| {
        let mut document: PlanDocument = serde_json::from_value(document()).expect("a plan document");
        document.plan.cluster.file = Some("own.toml".into());
        document.plan.cluster.instances = instances;
        let mut cluster = catalog().cluster("p4d.24xlarge", instances).expect("in the catalog");
        cluster.pools[0].devices_per_instance = gpus;
        let launch = launch(&document, &cluster, Some(&megatron()), Target::Slurm, &LaunchOptions::default());
        let text = launch.expect("replicas").files[0].text.clone();
        assert!(
            text.contains(&format!("#SBATCH --gpus-per-node={gpus}\n#SBATCH --exclusive\n#SBATCH --mem=0\n")),
            "{text}"
        );
        text.contains("# - --exclusive, --mem=0: the job takes whole machines")
    };
    assert_eq!([of(4, 4), of(2, 8)], [true, false]);
}

#[test]
fn a_slurm_job_has_a_place_for_what_a_site_asks() {
    let executor = stack("trainyard-executor", &["slurm"], Abilities::default());
    for own in [pytorch("pytorch-ddp", false), megatron(), executor] {
        let launch = given(&[], &own, Target::Slurm, &LaunchOptions::default()).expect("replicas");
        let script = &launch.files[0].text;
        assert!(script.contains("\n##SBATCH --partition=PARTITION\n##SBATCH --account=ACCOUNT\n#"), "{script}");
        assert!(script.contains("\n# ENVIRONMENT\nset -euo pipefail\n"), "{script}");
        for placeholder in ["PARTITION", "ACCOUNT", "ENVIRONMENT"] {
            let blanks = launch.blanks.iter().filter(|blank| blank.placeholder == placeholder);
            assert_eq!(blanks.count(), 1, "{placeholder}: {:?}", launch.blanks);
        }
    }
}

/// The machines of a cluster file that says what its site asks for.
fn of_a_site(change: impl FnOnce(&mut Cluster)) -> Cluster {
    two_kinds(|cluster| {
        for pool in 0..2 {
            network(cluster, pool, |network| network.transport = Transport::Infiniband);
        }
        cluster.slurm.partition = Some("a100".into());
        cluster.slurm.qos = Some("long".into());
        cluster.environment.insert("NCCL_IB_HCA".into(), "^mlx5_3".into());
        change(cluster);
    })
}

#[test]
fn a_slurm_job_asks_for_what_the_cluster_file_says() {
    let launch = files(&of_a_site(|_| {}), Target::Slurm).expect("alike");
    let script = &launch.files[0].text;
    let stated = "#SBATCH --partition=a100\n#SBATCH --qos=long\n#SBATCH --gpus-per-node=8\n";
    assert!(script.contains(stated) && script.contains("\n##SBATCH --account=ACCOUNT\n#"), "{script}");
    assert!(!script.contains("PARTITION") && !script.contains("Slurm's partition must be"), "{script}");
    let blanks: Vec<&str> = launch.blanks.iter().map(|blank| blank.placeholder.as_str()).collect();
    assert!(blanks.contains(&"ACCOUNT") && !blanks.contains(&"PARTITION"), "{blanks:?}");
    // Of kinds that are asked for by other words a job on both asks by none.
    let parted = files(&of_a_site(|cluster| cluster.pools[1].slurm.partition = Some("rtx".into())), Target::Slurm);
    let script = parted.expect("alike").files[0].text.clone();
    assert!(script.contains("\n##SBATCH --partition=PARTITION\n") && script.contains("--qos=long\n"), "{script}");
    let whole = of_a_site(|cluster| {
        cluster.slurm.account = Some("physics".into());
        cluster.slurm.gpu_type = Some("a100".into());
    });
    let script = files(&whole, Target::Slurm).expect("alike").files[0].text.clone();
    assert!(script.contains("#SBATCH --gpus-per-node=a100:8\n") && !script.contains("##SBATCH"), "{script}");
}

#[test]
fn a_kind_of_machines_is_known_by_what_the_cluster_file_says_of_it() {
    let script = |own: bool| {
        let cluster = of_a_site(|cluster| {
            cluster.pools[0].slurm.constraint = own.then(|| "nvlink&hdr".into());
        });
        let mut document: PlanDocument = serde_json::from_value(document()).expect("a plan document");
        document.plan.cluster.file = Some("own.toml".into());
        document.plan.stack = Some("megatron-core".into());
        let options = LaunchOptions { other_kinds: true, ..LaunchOptions::default() };
        let kind = cluster.kind("p4d.24xlarge").expect("one of them");
        let launch = launch(&document, &kind, Some(&megatron()), Target::Slurm, &options).expect("replicas");
        launch.files[0].text.clone()
    };
    assert!(script(true).contains("#SBATCH --constraint=nvlink&hdr\n") && !script(true).contains("FEATURE"));
    assert!(script(false).contains("#SBATCH --constraint=FEATURE\n"));
}

#[test]
fn ranks_find_the_environment_of_the_cluster_file_with_every_launcher() {
    let more = |cluster: &mut Cluster| {
        cluster.environment.insert("NCCL_SOCKET_IFNAME".into(), "ib0".into());
        cluster.environment.insert("NCCL_NET".into(), "IB".into());
    };
    for target in [Target::Slurm, Target::Torchrun, Target::Megatron, Target::Kubernetes, Target::Skypilot] {
        let Ok(launch) = files(&of_a_site(more), target) else { continue };
        let text: String = launch.files.iter().map(|file| file.text.as_str()).collect();
        let shell = text.contains("export NCCL_IB_HCA='^mlx5_3'\nexport NCCL_NET=IB\nexport NCCL_SOCKET_IFNAME=ib0\n");
        assert!(shell || text.contains("^mlx5_3") && !text.contains("export "), "{target:?}: {text}");
        // Nothing is left to say of it.
        let notes = launch.notes.join("|");
        assert!(!notes.contains("what NCCL must be told") && notes.contains("NET/IB"), "{notes}");
    }
    let launch = files(&of_a_site(|_| {}), Target::Slurm).expect("alike");
    let notes = launch.notes.join("|");
    assert!(notes.contains("told of it: NCCL_SOCKET_IFNAME where"), "{notes}");
    // What the file says takes the place of what was priced, and is told.
    let sockets = of_a_site(|cluster| {
        for pool in 0..2 {
            network(cluster, pool, |network| {
                (network.transport, network.flow_limit) = (Transport::Tcp, None);
                network.baseline.value.0 = 50e9;
            });
        }
        cluster.environment.insert("NCCL_SOCKET_NTHREADS".into(), "8".into());
    });
    let launch = files(&sockets, Target::Slurm).expect("alike");
    assert!(launch.files[0].text.contains("export NCCL_SOCKET_NTHREADS=8\nexport NCCL_NSOCKS_PERTHREAD=4\n"));
    let told = "NCCL_SOCKET_NTHREADS is 8, as the cluster file says, where these files would set 4";
    assert!(launch.notes.iter().any(|note| note == told), "{:?}", launch.notes);
}

#[test]
fn an_image_is_started_by_pyxis() {
    let options = LaunchOptions {
        image: Some("nvcr.io/nvidia/pytorch:25.06-py3".into()),
        data: Some("/shared/data/text".into()),
        ..LaunchOptions::default()
    };
    let tensor = [
        ("plan.parallel", json!({ "data": 4, "tensor": 4, "pipeline": 1 })),
        ("plan.batch", json!({ "global": 128, "micro": 4, "accumulation": 8 })),
    ];
    let launch = given(&tensor, &megatron(), Target::Slurm, &options).expect("replicas");
    let script = &launch.files[0].text;
    let start = "srun --cpu-bind=none --kill-on-bad-exit=1 --container-image='nvcr.io#nvidia/pytorch:25.06-py3' \\\n  \
                 --container-mounts=\"$PWD:$PWD\",/shared/data:/shared/data,RESULTS:RESULTS --container-workdir=\"$PWD\" \
                 --container-env=FI_PROVIDER,FI_EFA_USE_DEVICE_RDMA,CUDA_DEVICE_MAX_CONNECTIONS \\\n  torchrun --nnodes=2 ";
    assert!(script.contains(start), "{script}");
    assert!(script.contains("\nmkdir -p RESULTS\n") && !script.contains("ENVIRONMENT"), "{script}");
    assert!(launch.notes.iter().any(|note| note.contains("the plug-in Pyxis")), "{:?}", launch.notes);
    let executor = stack("trainyard-executor", &["slurm"], Abilities::default());
    let image = LaunchOptions { image: Some("own:1".into()), ..LaunchOptions::default() };
    let unused = given(&[], &executor, Target::Slurm, &image);
    assert_eq!(unused, Err(LaunchError::Unused { flag: "--image", target: "slurm" }));
}

/// Rates that were published for AdamW say nothing of LAMB's.
#[test]
fn a_published_rate_is_given_for_its_optimizer_and_its_batch() {
    let told = |optimizer: &str, global: u64| {
        let changes = [
            super::tests::model("bert-large"),
            vec![
                ("plan.optimizer", json!(optimizer)),
                ("plan.batch", json!({ "global": global, "micro": 4, "accumulation": global / 64 })),
                ("job.training", json!({ "global_batch": global })),
            ],
        ];
        let launch =
            given(&changes.concat(), &pytorch("pytorch-ddp", false), Target::Torchrun, &LaunchOptions::default())
                .expect("replicas");
        launch.blanks.into_iter().find(|blank| blank.placeholder == "LEARNING_RATE").expect("to fill in").what
    };
    let source = "(Devlin et al., arXiv:1810.04805, appendix A.2: 256 sequences of 512 tokens)";
    let rate = "peak learning rate, 1e-4 at most in its pretraining at batches of 131,072 tokens";
    assert_eq!(told("adamw", 256), format!("{rate} {source}"));
    assert_eq!(told("adamw", 512), format!("{rate} {source}"));
    assert_eq!(told("adam", 4096), format!("{rate}; this job has 2,097,152 {source}"));
    assert_eq!(told("adamw", 64), format!("{rate}; this job has 32,768 {source}"));
    for other in ["lamb", "lars", "sgd-momentum"] {
        assert_eq!(told(other, 4096), "peak learning rate", "{other}");
    }
}

#[test]
fn a_model_that_is_loaded_is_not_built() {
    let weights = LaunchOptions { weights: Some("gpt2".into()), ..LaunchOptions::default() };
    let deepspeed = stack("deepspeed", &["deepspeed", "torchrun"], Abilities::default());
    for (own, target) in [(pytorch("pytorch-fsdp", false), Target::Torchrun), (deepspeed, Target::Deepspeed)] {
        let notes = |options: &LaunchOptions| given(&[], &own, target, options).expect("replicas").notes.join("\n");
        let (loaded, built) = (notes(&weights), notes(&LaunchOptions::default()));
        let loads = "plan.model is gpt2: the script loads it from the weights, which must be of its shape";
        assert!(loaded.contains(loads) && !loaded.contains("must build"), "{loaded}");
        assert!(built.contains("your script must build gpt2 itself"), "{built}");
    }
}
