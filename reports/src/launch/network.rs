//! The network that was priced for machines of one's own, and how a user sees that NCCL uses it. What NCCL must be told of
//! their cards is in no plan.
//!
//! # Source
//!
//! NVIDIA NCCL 2.27, user guide, "Environment Variables"; `src/transport/net_ib.cc` and `net_socket.cc` for the log.

use super::Target;
use super::draft::Draft;
use super::software::Engine;
use trainyard_hardware_profiles::Transport;
use trainyard_planner::cards_in_words;

/// What must be installed for EFA: AWS's containers for training on SageMaker have it.
const EFA: &str = "NCCL reaches EFA through libfabric and the plug-in aws-ofi-nccl alone, which AWS's Deep Learning AMIs and containers have: with NCCL_DEBUG=INFO it must log `NET/OFI`; without them it takes sockets, and steps are much slower than predicted";

/// Variables of NCCL that sites set, and when.
const HCA: (&str, &str) = ("NCCL_IB_HCA", " where NCCL must not use all cards");
const GID_INDEX: (&str, &str) = ("NCCL_IB_GID_INDEX", ", that of RoCE v2 on the cards");
const INTERFACE: (&str, &str) = ("NCCL_SOCKET_IFNAME", " where machines have a management network too");

/// Tells what NCCL needs for EFA; or the network with which several machines of a cluster file were priced, and what to look
/// for in NCCL's log; `None` for any other machines.
pub(super) fn told(draft: &Draft<'_>) -> Option<String> {
    let (job, networks) = (draft.job, draft.job.networks());
    if job.efa_cards().is_some() && draft.target != Target::Sagemaker {
        return Some(EFA.into());
    }
    let joined = job.plan().cluster().file.is_some() && job.has_gpus() && draft.engine != Engine::Executor;
    // All kinds of machines have one transport.
    let transport = networks.first().filter(|_| joined)?.transport;
    let (name, line, variables) = match transport {
        Transport::Infiniband => ("InfiniBand", "NET/IB", &[HCA][..]),
        Transport::Roce => ("RoCE", "NET/IB", &[HCA, GID_INDEX][..]),
        Transport::Tcp | Transport::TcpPods => ("TCP", "NET/Socket", &[][..]),
        Transport::Efa | Transport::EfaGpudirect | Transport::OmniPath => return None,
    };
    let mut rates: Vec<String> = networks.iter().map(|network| cards_in_words(network)).collect();
    rates.dedup();
    let slow = if line == "NET/IB" { " (with `NET/Socket : Using` steps take longer than predicted)" } else { "" };
    let told = format!(
        "the network was priced as {name}, {}: with NCCL_DEBUG=INFO NCCL must log `{line} : Using`{slow}",
        rates.join(" and ")
    );
    let open = variables.iter().chain([&INTERFACE]).filter(|(name, _)| !job.environment().contains_key(*name));
    let open: Vec<String> = open.map(|(name, when)| format!("{name}{when}")).collect();
    if open.is_empty() {
        return Some(told);
    }
    Some(format!("{told}. `[environment]` of the cluster file sets what NCCL must be told of it: {}", open.join(", ")))
}
