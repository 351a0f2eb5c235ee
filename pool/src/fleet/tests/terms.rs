//! The terms on which a fleet's instances are rented.

use super::*;

fn warnings(pool: &str) -> Vec<String> {
    planned(&format!("{pool}\n{JOB}")).expect("a fleet without mistakes").document.warnings
}

fn pool(instances: &str, rest: &str) -> String {
    format!("[pool]\ninstances = [{instances}]\nmax_instances = 4\n{rest}\n")
}

#[test]
fn prices_of_different_dates_and_old_ones_are_told() {
    let old = warnings(&pool("\"p4d.24xlarge\"", "region = \"us-west-2\""));
    let told = "the price in us-west-2 is of 2025-04-05; in us-east-1 p4d.24xlarge cost 21.96 USD/h as of 2026-07-20, here \
                32.77 USD/h";
    assert!(old.iter().any(|warning| warning == told), "{old:?}");
    let different = warnings(&pool("\"p4d.24xlarge\", \"g4dn.12xlarge\"", "region = \"eu-west-1\""));
    assert!(
        different.iter().any(|warning| warning.starts_with("prices of different dates are compared: ")
            || warning.starts_with("the price in eu-west-1 is of ")),
        "{different:?}"
    );
    let new = warnings(&pool("\"p4d.24xlarge\"", ""));
    assert!(!new.iter().any(|warning| warning.contains("price")), "{new:?}");
}

#[test]
fn the_whole_term_of_reserved_instances_is_told_once() {
    let all = warnings(&pool("\"p4d.24xlarge\"", "pricing = \"reserved\""));
    let reserved: Vec<&String> =
        all.iter().filter(|told| told.starts_with("reserved instances are paid for")).collect();
    let [told] = reserved[..] else { panic!("{all:?}") };
    assert!(told.starts_with("reserved instances are paid for a year, used or not: "), "{told}");
    assert!(told.contains(" × p4d.24xlarge cost ") && told.contains("the jobs use less than 0.1 % of it"), "{told}");
}

#[test]
fn reclaims_are_told_of_spot_instances_only_and_once() {
    let of = |pricing: &str| warnings(&pool("\"g4dn.xlarge\"", &format!("pricing = \"{pricing}\"")));
    let told = |all: &[String]| all.iter().filter(|own| own.contains("reclaim")).count();
    assert_eq!([of("on-demand"), of("spot")].map(|all| told(&all)), [0, 1]);
}

#[test]
fn each_type_is_used_up_to_the_quota_that_applies_to_it() {
    let quotas = |quotas: &str| planned(&format!("{POOL}quotas = {{ {quotas} }}\n{JOB}"));
    let most = |document: &FleetDocument| {
        let held = document.pools.iter().map(|pool| {
            let each = if pool.queue.pool.instance == "g4dn.xlarge" { 4 } else { 8 };
            let held = pool.timeline.iter().map(|state| state.starting + state.busy + state.idle).max();
            (pool.queue.pool.instance.clone(), each * held.unwrap_or(0))
        });
        held.collect::<Vec<_>>()
    };
    // Three instances with four vCPUs, two with eight.
    let some = quotas("P = 17, \"G and VT\" = 12").expect("a fleet without mistakes").document;
    for (instance, vcpus) in most(&some) {
        assert!(vcpus <= if instance == "g4dn.xlarge" { 12 } else { 16 }, "{instance} {vcpus}");
    }
    assert!(!some.warnings.iter().any(|told| told.contains("quota")), "{:?}", some.warnings);
    let one = quotas("P = 7").expect("a fleet without mistakes").document;
    assert!(one.pools.iter().all(|pool| pool.queue.pool.instance == "g4dn.xlarge"));
    assert!(one.warnings.iter().any(|told| told.contains("over a quota, and so left out: p3.2xlarge needs 8 vCPUs")));
    let none = quotas("P = 7, \"G and VT\" = 3").expect_err("no instance").to_string();
    assert!(none.starts_with("in `pool.quotas`: g4dn.xlarge needs 4 vCPUs"), "{none}");
    let unknown = quotas("p4dd = 7").expect_err("no such family").to_string();
    assert!(unknown.starts_with("`pool.quotas` is about `p4dd`"), "{unknown}");
}

/// A quota of all types together is kept by each of them only, and that is told.
#[test]
fn what_the_pools_take_of_quotas_together_is_told() {
    let jobs = ["g4dn.xlarge", "p3.2xlarge"].map(|of| {
        let cluster = format!("cluster = {{ instances = [\"{of}\"], max_instances = 1 }}\n");
        JOB.replace("trial", of).replace("count = 5", "count = 4") + &cluster
    });
    let told = |quotas: &str| {
        let text = format!("{POOL}{quotas}\n[goal]\nobjective = \"time\"\n{}", jobs.concat());
        planned(&text).expect("a fleet without mistakes").document.warnings
    };
    let unstated = told("");
    let taken = "the fleet takes up to 16 vCPUs of the quota of `G and VT` instances, and 32 vCPUs of the quota of `P` \
                 instances; set `pool.quotas` to yours";
    assert!(unstated.iter().any(|own| own == taken), "{unstated:?}");
    // Neither kind has a choice.
    let together = told("quotas = { \"*\" = 11 }");
    let lacking = "the pools together need 16 vCPUs at once, but the quota of `*` is 11: 5 too few; ";
    assert!(together.iter().any(|own| own.starts_with(lacking)), "{together:?}");
    assert!(!told("quotas = { \"*\" = 48 }").iter().any(|own| own.contains("quota")));
}

/// The oracle: the best of all numbers of one type, of the other, and of both beside each other.
#[test]
fn a_quota_of_several_types_is_shared_out_as_well_as_it_can_be() {
    let jobs = [JOB.into(), JOB.replace("trial", "other").replace("= 64", "= 512")].concat();
    let of = |pool: &str| {
        let text = format!("[pool]\n{pool}\n[goal]\nobjective = \"time\"\n{jobs}");
        planned(&text).expect("a fleet without mistakes").document
    };
    let both = "instances = [\"g4dn.xlarge\", \"p3.2xlarge\"]\nmax_instances = 4";
    let free = of(both);
    let vcpus = |document: &FleetDocument| {
        let each = |pool: &crate::queue::QueueDocument| if pool.queue.pool.instance == TYPES[0] { 4 } else { 8 };
        document.pools.iter().map(|pool| each(pool) * pool.queue.pool.quota()).sum::<u32>()
    };
    assert!(free.pools.len() == 2 && vcpus(&free) > 24, "{:?}", free.pools);
    let shared = of(&format!("{both}\nquotas = {{ \"*\" = 24 }}"));
    assert!(vcpus(&shared) <= 24, "{:?}", shared.warnings);
    assert!(shared.reasons.iter().any(|told| told.starts_with("the quota of `*` is shared out: at most ")));
    assert!(!shared.warnings.iter().any(|told| told.contains("quota")), "{:?}", shared.warnings);
    // 24 vCPUs are so many of each.
    let each = [(4, 1), (2, 2), (4, 0), (0, 3)].map(|(g4dn, p3)| {
        let quotas = format!("{both}\nquotas = {{ g4dn = {}, p3 = {} }}", 4 * g4dn, 8 * p3);
        of(&quotas).prediction.makespan_s
    });
    let best = each.into_iter().fold(f64::INFINITY, f64::min);
    assert!(shared.prediction.makespan_s <= best * (1.0 + INDISTINCT), "{each:?} {}", shared.prediction.makespan_s);
}

/// The quotas of both classes are exceeded: the second is shared out within what the first leaves.
#[test]
fn several_quotas_are_shared_out_one_after_the_other() {
    let jobs: String = [("trial", 64), ("other", 512), ("third", 128), ("fourth", 256)]
        .map(|(name, batch)| JOB.replace("trial", name).replace("= 64", &format!("= {batch}")))
        .concat();
    let of = |quotas: &str| {
        let pool =
            "[pool]\ninstances = [\"g4dn.xlarge\", \"g5.xlarge\", \"p3.2xlarge\", \"p3.8xlarge\"]\nmax_instances = 4";
        let text = format!("{pool}\n{quotas}\n[goal]\nobjective = \"time\"\n{jobs}");
        planned(&text).expect("a fleet without mistakes").document
    };
    let both = of("quotas = { P = 40, \"G and VT\" = 12 }");
    let shared = |key: &str| {
        let start = format!("the quota of `{key}` is shared out: at most ");
        both.reasons.iter().any(|told| told.starts_with(&start))
    };
    assert!(shared("P") && shared("G and VT"), "{:?}", both.reasons);
    assert!(!both.warnings.iter().any(|told| told.contains("quota")), "{:?}", both.warnings);
    assert!(both.prediction.makespan_s >= of("").prediction.makespan_s);
}
