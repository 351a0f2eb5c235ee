//! Fleets on machines of one's own.

use super::*;

const POOL: &str = "[pool]\nfile = \"lab.toml\"\n";
const COUNTS: [u32; 2] = [4, 2];
const STORAGE: &str = "[shared_storage]\nread = \"4 GB/s\"\n";

/// A cluster of both types with this beside it, and what each of its machines says of its price.
fn lab(price: &str, rest: &str) -> ClusterFile {
    let bare = cluster(COUNTS, price);
    let text = toml::to_string(&bare).expect("a cluster file");
    toml::from_str(&format!("{text}\n{rest}")).expect("the form of a cluster file")
}

fn planned_in(rest: &str) -> FleetDocument {
    planned_on(&format!("{POOL}{rest}"), Some(lab("", STORAGE))).expect("a fleet without mistakes").document
}

fn refused_in(text: &str) -> FleetError {
    planned_on(text, Some(lab("", STORAGE))).expect_err("a fleet with a mistake")
}

#[test]
fn no_more_machines_are_used_than_there_are_and_nothing_costs() {
    let document = planned_in(JOB);
    assert_eq!(document.prediction.cost, None);
    assert!(document.plans.iter().all(|plan| plan.cost_usd.is_none() && plan.plan.cluster.file.is_some()));
    for pool in &document.pools {
        let name = &pool.queue.pool.instance;
        let of = TYPES.iter().position(|own| own == name).expect("a kind of the file");
        let held = pool.timeline.iter().map(|state| state.starting + state.busy + state.idle).max();
        assert!(held <= Some(COUNTS[of]) && pool.queue.pool.max_instances == Some(COUNTS[of]), "{pool:?}");
        // The queue of a pool is one that can be simulated by itself.
        let again: QueueSpec = toml::from_str(&toml::to_string(&pool.queue).expect("TOML")).expect("a queue");
        let files = shared(&document.fleet, COUNTS, Whose::Owned).files;
        let again = crate::queue::predict_queue(&again, &files, 0).expect("a queue without mistakes");
        assert!(close(again.prediction.makespan_s, pool.prediction.makespan_s));
    }
    assert_eq!((document.prediction.cold_starts, document.prediction.warm_starts), (0, 5));
    let text = page(&document, trainyard_reports::Width(100), true);
    assert!(!text.contains("USD") && !text.contains("instance") && !text.contains(" cold"), "{text}");
    assert!(text.contains("machine-hours") && text.contains("on up to "), "{text}");
    let picture = gantt(&document).expect("a fleet with jobs");
    assert!(!picture.text().contains("USD") && picture.text().contains("machines, one lane each"));
}

/// As long as the plan of the job itself, start-up included, and as dear where machines have a price.
#[test]
fn a_fleet_of_one_is_its_plan() {
    let job = JOB.replace("count = 5", "count = 1");
    for price in ["", "usd_per_hour = 3.0"] {
        let fleet = planned_on(&format!("{POOL}{job}"), Some(lab(price, STORAGE))).expect("a fleet without mistakes");
        let (_, plan) = fleet.plan_documents().expect("plans").remove(0);
        assert_eq!(plan.plan, fleet.document.plans[0].plan);
        let prediction = &plan.prediction;
        assert_eq!(prediction.start_up_s, Some(40.0));
        assert!(close(fleet.document.prediction.makespan_s, prediction.elapsed_s()), "{prediction:?}");
        assert_eq!(prediction.cost_usd.is_some(), !price.is_empty());
        if let Some(alone) = prediction.cost_usd {
            let cost = total(&fleet.document);
            assert!(cost >= alone && cost < alone * 1.01, "{cost} {alone}");
        }
    }
}

#[test]
fn the_objective_without_prices_is_time() {
    let document = planned_in(&format!("[goal]\nobjective = \"cost\"\n{JOB}"));
    assert_eq!(document.prediction, planned_in(JOB).prediction);
    let idle = document.warnings.iter().any(|own| own.starts_with("`goal.objective` changes nothing"));
    assert!(idle, "{:?}", document.warnings);
    // With prices it is what is asked for.
    let priced = |goal: &str| {
        let text = format!("{POOL}[goal]\nobjective = \"{goal}\"\n{JOB}");
        planned_on(&text, Some(lab("usd_per_hour = 3.0", STORAGE))).expect("a fleet without mistakes").document
    };
    let (cost, time) = (priced("cost"), priced("time"));
    assert!(total(&cost) < total(&time) && cost.prediction.makespan_s > time.prediction.makespan_s);
}

#[test]
fn jobs_name_the_kinds_that_they_may_have_and_how_many() {
    let kind = |cluster: &str| planned_in(&format!("{JOB}cluster = {{ {cluster} }}\n")).plans[0].plan.cluster.clone();
    for name in TYPES {
        assert_eq!(kind(&format!("instances = [\"{name}\"]")).instance, name);
    }
    let wide = JOB.replace("= 64", "= 4096");
    let options = |own: &str| planned_in(&format!("{wide}{own}")).plans[0].options;
    assert!(options("") > options("cluster = { max_instances = 1 }"));
    assert_eq!(kind("file = \"lab.toml\", instances = [\"p3.*\"]").instance, TYPES[1]);
}

#[test]
fn deadlines_hold_and_what_is_missed_is_named() {
    let at = |goal: &str| planned_in(&format!("{JOB}goal = {{ deadline = \"{goal}\" }}\n"));
    assert_eq!(at("10 d").missed, None);
    let missed = at("2 min").missed.expect("too short");
    assert!(missed.contains("end every job of trial within 2 min 00 s") && !missed.contains("USD"), "{missed}");
}

#[test]
fn the_start_up_is_that_of_the_pool() {
    let start = |pool: &str| {
        let text = format!("{POOL}{pool}\n{JOB}");
        planned_on(&text, Some(lab("", STORAGE))).expect("a fleet").document.prediction.instance_seconds.startup
    };
    assert!(close(start("start = { cold = \"80 s\" }"), 2.0 * start("")), "{}", start(""));
}

#[test]
fn what_nobody_says_of_checkpoints_is_told() {
    let told = |rest: &str| {
        let document = planned_on(&format!("{POOL}{JOB}"), Some(lab("", rest))).expect("a fleet").document;
        document.warnings.iter().any(|own| own.starts_with("checkpoints and failures are not in the time of trial"))
    };
    assert!(!told(STORAGE));
    let own = cluster(COUNTS, "");
    let without = planned_on(&format!("{POOL}{JOB}"), Some(own)).expect("a fleet").document;
    let uncounted = planned_on(&format!("{POOL}{JOB}"), Some(lab("", ""))).expect("a fleet").document;
    assert_eq!(without.warnings, uncounted.warnings);
}

#[test]
fn mistakes_are_told_with_their_place() {
    let rented = "machines of one's own are not rented, and there are as many as the file says";
    for field in ["instances = [\"p3.*\"]", "max_instances = 2", "region = \"eu-west-1\"", "pricing = \"spot\""] {
        let error = refused_in(&format!("{POOL}{field}\n{JOB}"));
        let (name, _) = field.split_once(' ').expect("a key and a value");
        assert_eq!(error.to_string(), format!("`pool.{name}` and `pool.file` exclude each other: {rented}"));
        assert!(error.hint().is_some());
    }
    let wrong = |rest: &str| refused_in(&format!("{POOL}{rest}")).to_string();
    let kinds = "one of the kinds of machines of lab.toml: g4dn.xlarge, p3.2xlarge";
    assert_eq!(
        wrong(&format!("{JOB}cluster = {{ instances = [\"h100\"] }}")),
        format!("`job[0].cluster.instances` is `h100`, but it must be {kinds}")
    );
    assert_eq!(
        wrong(&format!("[goal]\nbudget = 10\n{JOB}")),
        "`goal.budget` and `pool.file` exclude each other: machines without a price cost nothing"
    );
    assert!(wrong(&format!("{JOB}goal = {{ budget = 10 }}")).starts_with("`job[0].goal.budget` and "));
    assert!(wrong(&format!("{JOB}cluster = {{ quotas = {{ P = 8 }} }}")).starts_with("`job[0].cluster.quotas` and "));
    assert_eq!(
        wrong(&format!("{JOB}cluster = {{ max_instances = 0 }}")),
        "`job[0].cluster.max_instances` is 0, but it must be at least 1"
    );
    let nothing = "`pool.file` is missing: the cluster file was not read";
    assert_eq!(planned(&format!("{POOL}{JOB}")).expect_err("no file").to_string(), nothing);
    let neither = planned(&format!("[pool]\nmax_instances = 2\n{JOB}")).expect_err("no machines").to_string();
    assert!(neither.starts_with("`pool.instances` is missing") && neither.contains("file = \"cluster.toml\""));
    let unsaid = planned(&format!("[pool]\ninstances = [\"p3.*\"]\n{JOB}")).expect_err("no quota").to_string();
    assert!(unsaid.starts_with("`pool.max_instances` is missing"), "{unsaid}");
    let clash = cluster(COUNTS, "");
    let clash = ClusterFile { name: TYPES[0].into(), ..clash };
    let clash = planned_on(&format!("{POOL}{JOB}"), Some(clash)).expect_err("two of a name").to_string();
    assert!(clash.contains("`pool.file`") && clash.contains("are called g4dn.xlarge"), "{clash}");
}

#[test]
fn a_job_with_a_cluster_of_its_own_is_refused() {
    let text = format!("{POOL}{JOB}cluster = {{ file = \"other.toml\" }}\n");
    let spec: FleetSpec = toml::from_str(&text).expect("a fleet");
    let of = |counts| Resources { cluster_file: Some(cluster(counts, "")), ..Resources::default() };
    let job = FleetJob { spec: spec.jobs[0].in_place(), resources: of([1, 1]) };
    let error = plan_fleet(&spec, &of(COUNTS), &[job], &Limits::default(), &Cancellation::default(), &|| ())
        .expect_err("elsewhere");
    let told = "`job[0].cluster.file` is other.toml, but `pool.file` is lab.toml: jobs of a fleet run in its pool";
    assert_eq!(error.to_string(), told);
}

/// A cluster of machines that are all alike is one kind, called as all of them are.
#[test]
fn machines_that_are_all_alike_are_one_kind() {
    let alike = "name = \"lab\"\n[[machines]]\nname = \"node\"\nlike = \"p3.2xlarge\"\ncount = 3\n";
    let file: ClusterFile = toml::from_str(alike).expect("the form of a cluster file");
    let document = planned_on(&format!("{POOL}{JOB}"), Some(file)).expect("a fleet").document;
    let pool = &document.pools[0].queue.pool;
    assert_eq!((pool.instance.as_str(), pool.max_instances), ("lab", Some(3)));
    assert_eq!(document.plans[0].plan.cluster.instance, "lab");
    assert!(document.warnings.iter().all(|own| !own.contains("several kinds at once")));
}
