//! Queues on machines of one's own.

use super::*;
use trainyard_hardware_profiles::{ClusterFile, catalog};

const LAB: &str = "name = \"lab\"\n[[machines]]\nname = \"old\"\nlike = \"p3.8xlarge\"\ncount = 3\nPRICE\n\
                   [[machines]]\nname = \"new\"\nlike = \"p4d.24xlarge\"\ncount = 2\nPRICE\n";
const OWN: &str = "[pool]\nfile = \"lab.toml\"\ninstance = \"new\"\n";

fn own(text: &str, price: &str) -> OwnMachines {
    let file: ClusterFile = toml::from_str(&text.replace("PRICE", price)).expect("the form of a cluster file");
    OwnMachines::new(file, catalog()).expect("a cluster")
}

fn simulated(text: &str, price: &str, plans: BTreeMap<String, PlanDocument>) -> Result<QueueDocument, Invalid> {
    predict_queue(&spec(text), &QueueFiles { plans, machines: Some(own(LAB, price)) }, 0)
}

fn at(pool: &str, price: &str) -> QueueDocument {
    simulated(&format!("{pool}{JOB}"), price, BTreeMap::new()).expect("a queue without mistakes")
}

/// A plan for machines of a cluster file.
fn plan_on(instance: &str, instances: u32, file: &str) -> BTreeMap<String, PlanDocument> {
    let mut plans = plan(instance, instances);
    plans.get_mut("p.json").expect("there").plan.cluster.file = Some(file.into());
    plans
}

#[test]
fn six_hours_of_work_on_two_machines_take_three_with_a_start_of_the_framework() {
    let document = at(OWN, "");
    assert_eq!(document.queue.pool.max_instances, Some(2));
    let prediction = &document.prediction;
    assert!((prediction.makespan_s - 3.0 * 3640.0).abs() < 1e-6, "{prediction:?}");
    assert_eq!((prediction.cold_starts, prediction.warm_starts), (0, 6));
    assert_eq!((prediction.cost, &prediction.price), (None, &None));
    let text = page(&document, trainyard_reports::Width(100), true);
    assert!(!text.contains("USD") && !text.contains("instance") && !text.contains(" cold"), "{text}");
    // A cluster file that has one kind needs no name.
    let alike = LAB.split_once("[[machines]]\nname = \"new\"").expect("two kinds").0;
    let files = QueueFiles { machines: Some(own(alike, "")), ..QueueFiles::default() };
    let one = predict_queue(&spec(&format!("[pool]\nfile = \"lab.toml\"\n{JOB}")), &files, 0).expect("a queue");
    assert_eq!((one.queue.pool.instance.as_str(), one.queue.pool.max_instances), ("lab", Some(3)));
}

#[test]
fn machines_with_a_price_cost_from_the_start() {
    let prediction = at(OWN, "usd_per_hour = 10.0").prediction;
    let cost = prediction.cost.expect("a price").total_usd;
    assert!((cost - 6.0 * 3640.0 / 360.0).abs() < 1e-6, "{cost}");
    assert_eq!(prediction.price.expect("a price").source, "lab.toml");
}

#[test]
fn every_field_of_the_pool_changes_something() {
    let plain = at(OWN, "").prediction;
    for pool in ["max_instances = 1\n", "start = { cold = \"1 min\" }\n"] {
        assert_ne!(at(&format!("{OWN}{pool}"), "").prediction, plain, "{pool}");
    }
    assert_ne!(at(&OWN.replace("new", "old"), "").prediction, plain);
}

#[test]
fn plans_for_these_machines_are_accepted_and_others_refused() {
    let job = "[[job]]\nname = \"big\"\nplan = \"p.json\"\n";
    let with = |plans| simulated(&format!("{OWN}{job}"), "", plans);
    let document = with(plan_on("new", 2, "../lab.toml")).expect("a plan that fits");
    assert!((document.prediction.makespan_s - 86_440.0).abs() < 1e-6);
    assert_eq!(document.warnings.len(), 1, "{:?}", document.warnings);
    let other = with(plan_on("new", 2, "other.toml")).expect("a plan that fits").warnings;
    assert!(other.iter().any(|own| own.contains("was made for new of other.toml")), "{other:?}");
    let refused = |plans| with(plans).expect_err("a plan that does not fit");
    let (kind, rented) = (refused(plan_on("old", 1, "lab.toml")), refused(plan("new", 1)));
    let rule = "but the pool is of new of lab.toml";
    assert_eq!(kind.to_string(), format!("`job[0].plan` is a plan for old of lab.toml, {rule}"));
    assert!(kind.hint().expect("advice").contains("write another for old"));
    assert_eq!(rented.to_string(), format!("`job[0].plan` is a plan for new, {rule}"));
    let wide = refused(plan_on("new", 3, "lab.toml")).to_string();
    assert_eq!(wide, "`job[0].plan` is 3 machines, but the pool has 2 of new (lab.toml): the job could never start");
    // In a pool that is rented, the advice is to take a queue on these machines.
    let elsewhere = with_plan("", &plan_on("new", 2, "lab.toml")).expect_err("machines of one's own");
    let advice = elsewhere.hint().expect("advice");
    assert!(advice.contains("file = \"lab.toml\" and instance = \"new\" in [pool]"), "{advice}");
}

#[test]
fn what_cannot_be_is_refused_with_its_field_and_its_value() {
    let refused = |pool: &str| simulated(&format!("{pool}{JOB}"), "", BTreeMap::new()).expect_err("a mistake");
    for field in ["region = \"eu-west-1\"", "pricing = \"spot\"", "service = \"sagemaker\"", "warm_pool = true"] {
        let (name, _) = field.split_once(' ').expect("a key and a value");
        let error = refused(&format!("{OWN}{field}\n")).to_string();
        assert!(error.starts_with(&format!("`pool.{name}` and `pool.file` exclude each other")), "{error}");
    }
    let unnamed = refused("[pool]\nfile = \"lab.toml\"\n").to_string();
    assert_eq!(
        unnamed,
        "`pool.instance` is missing: a queue is for one of the kinds of machines of lab.toml: old, new"
    );
    let unknown = refused(&OWN.replace("new", "knew"));
    assert_eq!(
        unknown.to_string(),
        "`pool.instance` is `knew`, but it must be one of the kinds of machines of lab.toml: old, new"
    );
    assert_eq!(unknown.hint().as_deref(), Some("did you mean `new`?"));
    assert_eq!(
        refused(&format!("{OWN}max_instances = 3\n")).to_string(),
        "`pool.max_instances` is 3, but lab.toml has 2 of new"
    );
    let zero = refused(&format!("{OWN}max_instances = 0\n")).to_string();
    assert_eq!(zero, "`pool.max_instances` is 0, but it must be from 1 to 16384");
    let neither = refused("[pool]\nmax_instances = 1\n").to_string();
    assert!(neither.starts_with("`pool.instance` is missing: write instance = "), "{neither}");
    let unsaid = refused("[pool]\ninstance = \"p3.2xlarge\"\n").to_string();
    assert!(unsaid.starts_with("`pool.max_instances` is missing"), "{unsaid}");
    let unread = predict_queue(&spec(&format!("{OWN}{JOB}")), &QueueFiles::default(), 0).expect_err("no file");
    assert_eq!(unread.to_string(), "`pool.file` is missing: the cluster file was not read");
}
