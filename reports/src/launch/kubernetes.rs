//! Kubernetes with the training operator of Kubeflow.
//!
//! # Source
//!
//! Kubeflow training operator 1.9, `kubeflow.org/v1` PyTorchJob; Kubernetes 1.31, `core/v1`; Amazon EKS User Guide,
//! "Run machine learning training on Amazon EKS with Elastic Fabric Adapter"; NCCL user guide, `NCCL_SOCKET_IFNAME`.

use super::draft::{Draft, Finished, Flag};
use super::error::LaunchError;
use super::field::Field;
use super::job::Job;
use super::places::Places;
use super::program::{Program, environment, program};
use super::software::Engine;
use super::torchrun::start_at;
use super::yaml::yaml;
use serde_json::{Value, json};
use trainyard_hardware_profiles::Service;
use trainyard_plan::{LaunchFile, Pricing};

/// Longest time in seconds that a pod is given to end: a document may hold any.
const LONGEST_GRACE_S: f64 = 86_400.0;

const PLACES: Places = Places { data: Some("/data"), results: Some("/results") };

/// Seconds that a pod is given besides what ranks need for a checkpoint: to hear of it and to end.
const ENDING_S: f64 = 90.0;

/// Restarts of containers after which a job has failed, for each machine: the operator adds up those of all pods, and one
/// interruption restarts them all.
const RESTARTS: u32 = 100;

/// Huge pages of 2 MiB that libfabric takes on each machine, for a hundred buffers of each card at most.
const HUGE_PAGES_GIB: f64 = 5.0;

/// Share of processors, and of the memory of machines below the next, that a pod may ask for beside the system, kubelet
/// and the pods of every node.
const SHARE: f64 = 0.8;
/// Memory in GiB from which on these take less than the rest of that share.
const LARGE_GIB: f64 = 512.0;
/// The share of memory that such machines have beside their firmware and kernel.
const LARGE_SHARE: f64 = 0.925;
/// Memory in GiB that kubelet keeps there, 11 MiB for each of 737 pods and some (Amazon EKS User Guide, "Reserve compute
/// resources for system daemons"), and pods of the node take.
const KUBELET_GIB: f64 = 12.0;

/// The network devices of a machine that lead to itself or to its pods (Amazon's plug-in calls the latter `eni…`), which
/// NCCL would otherwise use.
pub(super) const NOT_OF_PODS: &str = "^lo,docker,veth,eni,cali,cni";

pub(super) const STARTS: &[Engine] = Engine::SCRIPTS;

/// Writes `kubernetes.yaml` and the files that must be in the image.
pub(super) fn files(mut draft: Draft<'_>) -> Result<Finished, LaunchError> {
    let program = program(&mut draft, PLACES)?;
    let job = job(&mut draft, &program);
    for file in &program.files {
        draft.remark(format!("{} must lie where the script is started, in the image", file.name));
    }
    let head = draft.close(&format!("Runs {}: `kubectl create -f kubernetes.yaml`.", program.what))?;
    let mut files = vec![LaunchFile { name: "kubernetes.yaml".into(), text: head.comment() + &yaml(&job) }];
    files.extend(program.files);
    Ok(draft.finished(files))
}

fn job(draft: &mut Draft<'_>, program: &Program) -> Value {
    let (name, machines) = (draft.job.name(), draft.job.machines());
    let processes = draft.job.processes().to_string();
    let template = template(draft, program);
    let replica =
        |replicas: u32| json!({ "replicas": replicas, "restartPolicy": "OnFailure", "template": template.clone() });
    let mut replicas = json!({ "Master": replica(1) });
    if machines > 1 {
        replicas["Worker"] = replica(machines - 1);
    }
    json!({
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": { "generateName": format!("{name}-") },
        "spec": {
            "nprocPerNode": processes,
            "runPolicy": { "cleanPodPolicy": "Running", "backoffLimit": RESTARTS.saturating_mul(machines) },
            "pytorchReplicaSpecs": replicas,
        },
    })
}

fn template(draft: &mut Draft<'_>, program: &Program) -> Value {
    let image = draft.asks(Flag::Image, "IMAGE", "container image with PyTorch, the script and what it imports");
    let data = draft.asks(Flag::Data, "DATA-CLAIM", "PersistentVolumeClaim that holds the data set");
    let results = draft.asks(Flag::Results, "RESULTS-CLAIM", "PersistentVolumeClaim for checkpoints and results");
    let start = start_at(draft.job, "$RANK", "$MASTER_ADDR", "$MASTER_PORT");
    let host_network = draft.job.uses_host_sockets();
    let mut variables = environment(draft);
    if host_network && !draft.job.environment().contains_key("NCCL_SOCKET_IFNAME") {
        variables.push(("NCCL_SOCKET_IFNAME".into(), NOT_OF_PODS.into()));
    }
    let mut variables: Vec<Value> =
        variables.into_iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    if draft.reads_the_hub() {
        let secret = json!({ "name": "hf-token", "key": "token", "optional": true });
        variables.push(json!({ "name": "HF_TOKEN", "valueFrom": { "secretKeyRef": secret } }));
    }
    let limits = limits(draft);
    let requests = requests(draft, &limits);
    let mut resources = json!({ "requests": requests });
    if limits.as_object().is_some_and(|limits| !limits.is_empty()) {
        resources["limits"] = limits;
    }
    let mut container = json!({
        // The training operator looks for a container of this name.
        "name": "pytorch",
        "image": image,
        "command": ["bash", "-c", program.run_in_pod(&start)],
        "resources": resources,
        "volumeMounts": [
            { "name": "data", "mountPath": "/data", "readOnly": true },
            { "name": "results", "mountPath": "/results" },
            { "name": "shared-memory", "mountPath": "/dev/shm" },
        ],
    });
    if draft.job.rdma_cards().is_some() {
        // Memory that network cards read and write must stay where it is.
        container["securityContext"] = json!({ "capabilities": { "add": ["IPC_LOCK"] } });
    }
    if !variables.is_empty() {
        container["env"] = Value::Array(variables);
    }
    let mut pod = json!({
        "containers": [container],
        // Nodes with GPUs are often kept free of pods that ask for none.
        "tolerations": [{ "key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule" }],
        "volumes": [
            { "name": "data", "persistentVolumeClaim": { "claimName": data, "readOnly": true } },
            { "name": "results", "persistentVolumeClaim": { "claimName": results } },
            { "name": "shared-memory", "emptyDir": shared_memory(draft.job) },
        ],
    });
    if host_network {
        pod["hostNetwork"] = json!(true);
        // Without this a pod on the host's network does not find the first pod by its name.
        pod["dnsPolicy"] = json!("ClusterFirstWithHostNet");
        draft.remark(
            "pods use the host's network, as the prediction takes them to: behind a pod's own device NCCL opens one \
             connection to a peer, which the transport tcp-pods predicts; pods with EFA's device plug-in need neither",
        );
    }
    if let Some(selector) = selector(draft) {
        pod["nodeSelector"] = selector;
    }
    // Of the 30 that pods get otherwise a checkpoint may take more.
    let grace = draft.job.saving_at_most().0 + ENDING_S;
    pod["terminationGracePeriodSeconds"] = json!(grace.min(LONGEST_GRACE_S).ceil() as u64);
    json!({ "spec": pod })
}

/// Returns the memory that ranks of a machine and their data loaders share: tmpfs takes half of a machine's by default,
/// and Kubernetes would let it take all.
fn shared_memory(job: &Job<'_>) -> Value {
    let mut volume = json!({ "medium": "Memory" });
    if let Some(memory) = job.memory_gib() {
        volume["sizeLimit"] = json!(format!("{}Gi", (memory / 2.0).floor()));
    }
    volume
}

/// Returns what the container asks for: all that it is limited to, and processors and memory, of which no limit is useful,
/// as many as the machine has beside the system. Without a request small pods would be placed beside it.
fn requests(draft: &Draft<'_>, limits: &Value) -> Value {
    let mut requests = limits.clone();
    let job = draft.job;
    let vcpus = job.vcpus().map(|vcpus| (f64::from(vcpus) * SHARE).floor() as u64);
    match vcpus.filter(|vcpus| *vcpus > 0) {
        Some(vcpus) => requests["cpu"] = json!(vcpus),
        None if !job.has_gpus() => requests["cpu"] = json!(job.processes()),
        None => {}
    }
    if let Some(memory) = job.memory_gib() {
        let pages = if job.efa_cards().is_some() { HUGE_PAGES_GIB } else { 0.0 };
        let share = if memory < LARGE_GIB { SHARE * memory } else { LARGE_SHARE * memory - KUBELET_GIB };
        requests["memory"] = json!(format!("{}Gi", (share - pages).floor().max(1.0)));
    }
    requests
}

fn limits(draft: &mut Draft<'_>) -> Value {
    let job = draft.job;
    let mut limits = json!({});
    if job.has_gpus() {
        limits["nvidia.com/gpu"] = json!(job.processes());
    }
    if let Some(cards) = job.rdma_cards() {
        // The plug-in's resources have names that each site chooses.
        limits["rdma/RDMA-RESOURCE"] = json!(cards);
        draft.leaves(
            "rdma/RDMA-RESOURCE",
            format!(
                "resource by which your RDMA device plug-in hands out network cards, {cards} where each is one, else 1 (rdma/hca_shared_devices_a): `kubectl describe node` lists it; without it NCCL falls back to sockets"
            ),
        );
    }
    if let Some(cards) = job.efa_cards() {
        limits["vpc.amazonaws.com/efa"] = json!(cards);
        limits["hugepages-2Mi"] = json!(format!("{}Mi", HUGE_PAGES_GIB * 1024.0));
    }
    limits
}

/// Returns the node selector for pods, where the plan names an instance type.
fn selector(draft: &mut Draft<'_>) -> Option<Value> {
    let job = draft.job;
    let instance = job.instance()?;
    let mut selector = json!({ "node.kubernetes.io/instance-type": instance.name });
    if job.is_spot() {
        selector["eks.amazonaws.com/capacityType"] = json!("SPOT");
        draft.note(
            Field::Pricing,
            "asked for by the label of EKS's managed node groups; Karpenter's is karpenter.sh/capacity-type",
        );
    }
    if job.plan().pricing() == Pricing::CapacityBlock {
        selector["eks.amazonaws.com/capacityType"] = json!("CAPACITY_BLOCK");
        draft.note(
            Field::Pricing,
            "book the block and make a node group of it before (EKS, `capacityType: CAPACITY_BLOCK`)",
        );
    }
    draft.tells(&[Field::Instance]);
    if job.plan().spec().service.as_deref() == Some(Service::Ec2.name()) {
        draft.tells(&[Field::Service]);
    }
    Some(selector)
}
