//! The transport of data between rented machines that a job or a plan names.

use trainyard_hardware_profiles::{Catalog, Cluster, Fabric, Instance, Transport};
use trainyard_units::Invalid;

fn listed(transports: impl IntoIterator<Item = Transport>) -> String {
    transports.into_iter().map(Transport::name).collect::<Vec<_>>().join(", ")
}

/// Reads the name of a transport in a field.
///
/// # Errors
///
/// When no transport has this name.
pub(crate) fn transport_named(field: &str, name: &str) -> Result<Transport, Invalid> {
    Transport::exactly(name).map_err(|unknown| unknown.in_field(field))
}

/// Returns the transports that an instance type has instead of one; `None` if it has that one.
pub(crate) fn has_instead(instance: &Instance, transport: Transport) -> Option<String> {
    let own = instance.network.transports();
    (!own.contains(&transport)).then(|| listed(own))
}

/// Returns the error for a transport that none of these types has.
pub(crate) fn on_no_instance(field: &str, transport: Transport, types: &[&Instance], catalog: &Catalog) -> Invalid {
    let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
    for instance in types {
        let own = listed(instance.network.transports());
        match kinds.iter_mut().find(|(kind, _)| *kind == own) {
            Some((_, names)) => names.push(&instance.name),
            None => kinds.push((own, vec![&instance.name])),
        }
    }
    let has = |names: &[&str]| if names.len() == 1 { "has" } else { "have" };
    let kinds: Vec<String> =
        kinds.iter().map(|(own, names)| format!("{} {} {own}", names.join(", "), has(names))).collect();
    let able = catalog.instances().iter().filter(|instance| has_instead(instance, transport).is_none());
    let mut families: Vec<&str> = able.map(Instance::family).collect();
    families.dedup();
    let hint = if families.is_empty() {
        "no instance has it: a cluster file (`cluster.file`) describes machines that do".into()
    } else {
        format!("leave it out, or allow types that have it: there are some of {}", families.join(", "))
    };
    Invalid::breaks(field, transport.name(), kinds.join("; ")).with_hint(hint)
}

/// Makes the machines of a cluster send over a transport.
pub(crate) fn send_over(cluster: &mut Cluster, transport: Transport, catalog: &Catalog) {
    for pool in &mut cluster.pools {
        if let Fabric::Wired { network, .. } = &mut pool.fabric {
            *network = catalog.network_over(network, transport);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;
    use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec, Plan, PlanSpec, Precision, StateSharding};
    use trainyard_sim::{Machine, simulate};

    fn refused(transport: Transport, names: &[&str]) -> (String, Option<String>) {
        let types: Vec<&Instance> =
            names.iter().map(|name| catalog().instance(name).expect("in the catalog")).collect();
        let error = on_no_instance("cluster.transport", transport, &types, catalog());
        (error.to_string(), error.hint())
    }

    #[test]
    fn an_unknown_word_leads_to_a_transport() {
        let error = transport_named("cluster.transport", "efa-gpu-direct").expect_err("no such transport");
        assert_eq!(
            error.to_string(),
            "`cluster.transport` is `efa-gpu-direct`, but it must be one of tcp, tcp-pods, efa, efa-gpudirect, \
             infiniband, roce, omni-path"
        );
        assert_eq!(error.hint().as_deref(), Some("did you mean `efa-gpudirect`?"));
    }

    #[test]
    fn a_transport_that_no_type_has_is_refused_with_what_each_has() {
        let (sentence, hint) = refused(Transport::EfaGpudirect, &["p3.8xlarge", "p3.16xlarge", "g4dn.12xlarge"]);
        let has = "p3.8xlarge, p3.16xlarge have tcp, tcp-pods; g4dn.12xlarge has tcp, efa, tcp-pods";
        assert_eq!(sentence, format!("`cluster.transport` is efa-gpudirect, but {has}"));
        assert!(hint.is_some_and(|hint| hint.contains("p4d") && !hint.contains("p3dn")));
        let (_, hint) = refused(Transport::Infiniband, &["p4d.24xlarge"]);
        assert!(hint.is_some_and(|hint| hint.contains("cluster.file")));
    }

    #[test]
    fn every_pool_sends_over_the_transport_that_is_named() {
        let mut cluster = catalog().cluster("g4dn.12xlarge", 2).expect("in the catalog");
        send_over(&mut cluster, Transport::TcpPods, catalog());
        let Fabric::Wired { network, .. } = &cluster.first().fabric else { panic!("it is wired") };
        assert_eq!(network.transport, Transport::TcpPods);
        assert_eq!(&network.messaging, catalog().messaging(Transport::TcpPods));
        assert_eq!(network.flow_limit.as_ref(), catalog().flow_limit(Transport::TcpPods));
    }

    /// Sharded states of a large model over many machines, whose network is felt.
    #[test]
    fn no_transport_is_faster_than_the_usual_one() {
        let model = trainyard_models::find("llama-2-7b").expect("in the catalog").model.spec();
        for (instance, state_sharding) in [
            ("p5.48xlarge", StateSharding::Gradients),
            ("p5.48xlarge", StateSharding::Parameters),
            ("p4d.24xlarge", StateSharding::Parameters),
        ] {
            let steps =
                [Transport::EfaGpudirect, Transport::Efa, Transport::Tcp, Transport::TcpPods].map(|transport| {
                    let mut cluster = catalog().cluster(instance, 8).expect("in the catalog");
                    send_over(&mut cluster, transport, catalog());
                    let stack = catalog().stack("deepspeed").expect("in the catalog").clone();
                    let machine = Machine { cluster, stack };
                    let plan = PlanSpec {
                        parallel: ParallelSpec { data: 64, ..ParallelSpec::default() },
                        batch: BatchSpec { global: 128, micro: 1, accumulation: 2 },
                        state_sharding,
                        precision: Precision::Bf16Mixed,
                        ..PlanSpec::plain(model.clone(), ClusterSpec::of(instance, 8), 34)
                    };
                    simulate(&Plan::try_from(plan).expect("a valid plan"), &machine).expect("a step").step_time.0
                });
            assert!(steps.is_sorted(), "{instance} {state_sharding}: {steps:?}");
        }
    }
}
