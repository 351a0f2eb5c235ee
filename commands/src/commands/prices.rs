//! `trainyard prices import`: what the AWS command line prints about an account, as files that `plan` takes.

use crate::arguments::ImportArguments;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::machine;
use crate::output::Output;
use crate::quotas;
use crate::read;
use serde_json::json;
use std::path::Path;
use trainyard_hardware_profiles::{Price, PriceTable, Purchase, Service, SpotBand, catalog};
use trainyard_interop::aws::{Account, PriceKey};
use trainyard_units::{UsdPerHour, counted};

/// Reads the files and writes a table of prices, and the quotas if a file is named for them.
pub(crate) fn import(arguments: &ImportArguments, output: &Output) -> Result<Exit, Failure> {
    let account = read(arguments)?;
    let (rows, strange) = rows(&account);
    let only_quotas = arguments.out.is_none() && arguments.quotas.is_some();
    if rows.is_empty() && !only_quotas {
        return Err(Failure::input("the files have no price of an instance of the catalog")
            .hint("`trainyard show instances` lists them; --quotas FILE writes quotas, for which no price is needed"));
    }
    if let Some(path) = arguments.quotas.as_deref().filter(|_| account.quotas.is_empty()) {
        return Err(Failure::input(format!("the files have no quotas to write to `{}`", path.display()))
            .hint("`aws service-quotas list-service-quotas --service-code ec2` prints them"));
    }
    let text = PriceTable::of(rows).to_csv();
    let quotas = quotas::toml(&account.quotas, &machine::today());
    let mut written: Vec<(&Path, &str)> = Vec::new();
    written.extend(arguments.out.as_deref().map(|path| (path, text.as_str())));
    written.extend(arguments.quotas.as_deref().map(|path| (path, quotas.as_str())));
    files::write_all(&written)?;
    let count = text.lines().count() - 1;
    let document = json!({ "prices": count, "quotas": account.quotas.len(), "not_in_the_catalog": strange });
    if arguments.out.is_none() && count > 0 {
        output.result(&document, || text.clone());
    } else {
        output.result(&document, || told(count, &account, strange));
    }
    for (path, _) in &written {
        output.note(format!("written to {}", path.display()));
    }
    Ok(Exit::Done)
}

fn read(arguments: &ImportArguments) -> Result<Account, Failure> {
    let mut account = Account::default();
    let today = machine::today();
    for path in &arguments.files {
        let text = read::packed("output of a command", path)?;
        account
            .read(&text, &today)
            .map_err(|error| Failure::input(format!("cannot read `{}`", path.display())).because_of(&error))?;
    }
    Ok(account)
}

/// Returns the prices of instances of the catalog, and how many others there were.
fn rows(account: &Account) -> (Vec<(String, Price)>, usize) {
    let known = account.prices.iter().filter(|(key, _)| catalog().instance(&key.instance).is_ok());
    let rows: Vec<(String, Price)> = known.map(|(key, price)| row(account, key, price)).collect();
    let strange = account.prices.len() - rows.len();
    (rows, strange)
}

fn row(account: &Account, key: &PriceKey, price: &trainyard_interop::aws::Price) -> (String, Price) {
    let place = (key.region.clone(), key.instance.clone());
    let purchase = Purchase::named(key.purchase).expect("readers know the terms");
    let [low, high] = price.range.unwrap_or([price.usd_per_hour; 2]).map(UsdPerHour);
    let usd = UsdPerHour(price.usd_per_hour);
    let own = Price {
        region: key.region.clone(),
        service: Service::named(key.service).expect("readers know the services"),
        purchase,
        low,
        high,
        expected: (low < high).then_some(usd),
        date: price.date.clone(),
        source: price.source.clone(),
        // Offerings are those of EC2.
        zones: account.zones.get(&place).filter(|_| key.service == "ec2").into_iter().flatten().cloned().collect(),
        interruptions: account
            .bands
            .get(&place)
            .filter(|_| purchase == Purchase::Spot)
            .and_then(|band| SpotBand::named(band)),
    };
    (key.instance.clone(), own)
}

fn told(prices: usize, account: &Account, strange: usize) -> String {
    let mut lines = vec![
        counted(prices as u64, "price"),
        format!("zones of {}", counted(account.zones.len() as u64, "type")),
        counted(account.quotas.len() as u64, "quota"),
    ];
    if strange > 0 {
        lines
            .push(format!("{} of instances that the catalog does not have left out", counted(strange as u64, "price")));
    }
    format!("  {}\n", lines.join("\n  "))
}
