use super::*;

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../cli/tests/cmd/prices.in/", $name))
    };
}

fn read(files: &[&str]) -> Account {
    let mut account = Account::default();
    for file in files {
        account.read(file, "2026-11-25").unwrap_or_else(|error| panic!("{error}: {file}"));
    }
    account
}

fn price(account: &Account, instance: &str, service: &'static str, purchase: &'static str) -> Option<Price> {
    let key = PriceKey { instance: instance.into(), region: "us-east-1".into(), service, purchase };
    account.prices.get(&key).cloned()
}

fn usd(account: &Account, instance: &str, service: &'static str, purchase: &'static str) -> Option<f64> {
    price(account, instance, service, purchase).map(|price| price.usd_per_hour)
}

fn refused(text: &str) -> Invalid {
    Account::default().read(text, "2026-11-25").expect_err(text)
}

#[test]
fn a_price_list_has_terms_of_linux_on_shared_hardware_and_of_training() {
    let account = read(&[file!("products.json")]);
    assert_eq!(usd(&account, "p4d.24xlarge", "ec2", "on-demand"), Some(21.9576));
    assert_eq!(usd(&account, "p4d.24xlarge", "ec2", "reserved"), Some(16.12));
    assert_eq!(usd(&account, "p4d.24xlarge", "ec2", "reserved-3y"), Some(11.57));
    assert_eq!(usd(&account, "p4d.24xlarge", "sagemaker", "on-demand"), Some(25.25124));
    let date = price(&account, "g5.xlarge", "ec2", "on-demand").expect("there").date;
    assert_eq!(date, "2026-11-19");
}

#[test]
fn spot_is_the_cheapest_zone_now_and_the_range_of_all() {
    let account = read(&[file!("spot.json")]);
    let price = price(&account, "p4d.24xlarge", "ec2", "spot").expect("there");
    assert_eq!((price.usd_per_hour, price.range, price.date.as_str()), (8.12, Some([7.4, 12.4]), "2026-11-20"));
    let zones = &account.zones[&("us-east-1".into(), "p4d.24xlarge".into())];
    assert_eq!(zones.iter().map(String::as_str).collect::<Vec<_>>(), ["us-east-1a", "us-east-1b"]);
}

#[test]
fn zones_are_those_of_the_offerings() {
    let account = read(&[file!("offerings.json")]);
    assert_eq!(account.zones[&("us-east-1".into(), "p4d.24xlarge".into())].len(), 3);
    let by_region = file!("offerings.json").replace("availability-zone", "region");
    assert!(refused(&by_region).hint().is_some_and(|hint| hint.contains("--location-type availability-zone")));
}

#[test]
fn quotas_are_of_classes_and_of_training() {
    let account = read(&[file!("quotas.json")]);
    let quota = |kind, key: &str| account.quotas.get(&("us-east-1".into(), kind, key.into())).copied();
    assert_eq!(quota(QuotaKind::OnDemand, "P"), Some(192));
    assert_eq!(quota(QuotaKind::Spot, "p3*,p4*"), Some(96));
    assert_eq!(quota(QuotaKind::Spot, "p5*"), Some(0));
    assert_eq!(account.quotas.len(), 5);
    let text = file!("quotas.json").replace("Running On-Demand P instances", "ml.p4d.24xlarge for training job usage");
    let account = read(&[&text]);
    assert_eq!(account.quotas[&("us-east-1".into(), QuotaKind::Sagemaker, "p4d.24xlarge".into())], 192);
}

#[test]
fn the_cheapest_savings_plan_with_nothing_paid_in_advance_is_taken() {
    let account = read(&[file!("savings-plans.json")]);
    assert_eq!(usd(&account, "p4d.24xlarge", "ec2", "reserved"), Some(15.42));
    assert_eq!(usd(&account, "p4d.24xlarge", "ec2", "reserved-3y"), Some(9.98));
    let source = price(&account, "p4d.24xlarge", "ec2", "reserved").expect("there").source;
    assert!(source.ends_with("(EC2Instance)"), "{source}");
}

#[test]
fn capacity_blocks_cost_their_fee_by_the_hour_of_one_instance() {
    let offering = |fee: &str, count: u32| {
        format!(
            r#"{{"InstanceType": "p5.48xlarge", "AvailabilityZone": "us-east-1b", "InstanceCount": {count},
            "CapacityBlockDurationHours": 48, "UpfrontFee": "{fee}", "CurrencyCode": "USD", "Tenancy": "default"}}"#
        )
    };
    let file = |offerings: &[String]| format!(r#"{{"CapacityBlockOfferings": [{}]}}"#, offerings.join(", "));
    let account = read(&[&file(&[offering("3020.544", 2), offering("2880", 2)])]);
    let price = price(&account, "p5.48xlarge", "ec2", "capacity-block").expect("there");
    assert_eq!((price.usd_per_hour, price.date.as_str()), (30.0, "2026-11-25"));
    assert!(refused(&file(&[offering("free", 2)])).to_string().starts_with("`CapacityBlockOfferings[0].UpfrontFee`"));
    let none = refused(&file(&[offering("2880", 0)])).to_string();
    assert!(none.starts_with("`CapacityBlockOfferings[0].InstanceCount`"), "{none}");
}

#[test]
fn a_catalog_of_skypilot_has_prices_and_zones() {
    let account = read(&[file!("vms.csv")]);
    assert_eq!(usd(&account, "p3.2xlarge", "ec2", "on-demand"), Some(3.06));
    let spot = price(&account, "p3.2xlarge", "ec2", "spot").expect("there");
    assert_eq!((spot.usd_per_hour, spot.range, spot.date.as_str()), (0.9531, Some([0.9531, 1.2171]), "2026-11-25"));
    assert_eq!(usd(&account, "g4dn.xlarge", "ec2", "spot"), None);
    assert!(refused("a,b\n1,2\n").to_string().contains("`InstanceType` is missing"));
}

#[test]
fn the_advisor_has_bands() {
    let account = read(&[file!("spot-advisor-data.json")]);
    assert_eq!(account.bands[&("us-east-1".into(), "p4d.24xlarge".into())], "5-10%");
    assert!(refused(&file!("spot-advisor-data.json").replace("<5%", "<4%")).to_string().starts_with("`ranges` is"));
}

#[test]
fn the_newest_price_holds_in_whatever_order_files_are_read() {
    let files = [file!("products.json"), file!("savings-plans.json"), file!("spot.json"), file!("vms.csv")];
    let mut reversed = files;
    reversed.reverse();
    assert_eq!(read(&files), read(&reversed));
    assert_eq!(usd(&read(&files), "p4d.24xlarge", "ec2", "reserved"), Some(15.42));
}

#[test]
fn what_is_damaged_or_something_else_is_refused() {
    assert!(refused("{}").hint().is_some());
    assert!(refused("{\"PriceList\": [").to_string().contains("no JSON"));
    assert!(refused("{\"PriceList\": [\"x\"]}").to_string().contains("`PriceList[0]`"));
    assert!(refused("{\"PriceList\": [], \"PriceList\": []}").to_string().contains("duplicate field `PriceList`"));
    let product = refused(r#"{"PriceList": ["{\"terms\": {}, \"terms\": {}}"]}"#).to_string();
    assert!(product.contains("`PriceList[0]`") && product.contains("duplicate field `terms`"), "{product}");
    for (from, to, field) in [
        ("\"9.850000\"", "\"9,85\"", "SpotPriceHistory[0].SpotPrice"),
        ("\"us-east-1a\"", "\"here\"", "SpotPriceHistory[0].AvailabilityZone"),
        ("\"Timestamp\"", "\"Time\"", "SpotPriceHistory[0].Timestamp"),
    ] {
        let error = refused(&file!("spot.json").replacen(from, to, 1));
        assert_eq!(error.field(), field, "{error}");
    }
}

#[test]
fn a_region_is_that_of_its_zones() {
    assert_eq!(region_of("us-east-1a").as_deref(), Some("us-east-1"));
    assert_eq!(region_of("us-west-2-lax-1a").as_deref(), Some("us-west-2"));
    assert_eq!(region_of("ap-southeast-4c").as_deref(), Some("ap-southeast-4"));
    assert_eq!((region_of("use1-az1"), region_of("")), (None, None));
}
