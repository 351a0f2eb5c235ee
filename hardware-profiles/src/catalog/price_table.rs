//! Tables of prices as people keep them: CSV in and out, rows that stand before those of the catalog.

use super::{Catalog, catalog};
use crate::date::{DATES, is_date};
use crate::instance::Instance;
use crate::operations::SpotBand;
use crate::pattern::matches;
use crate::price::{Price, PriceQuery, Purchase, Service};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use trainyard_units::{Invalid, UsdPerHour, similar};

/// The required columns of a table of prices.
const REQUIRED: [&str; 7] = ["instance", "region", "service", "purchase", "usd_per_hour", "date", "source"];
/// The optional columns: where a price is a range, its ends; Availability Zones, parted by spaces; and the share of spot
/// capacity that is reclaimed in a month, as a band (`5-10%`).
const OPTIONAL: [&str; 4] = ["low_usd_per_hour", "high_usd_per_hour", "zones", "interruptions"];
/// The columns in the order in which they are written; the last two where some row has something in them.
const WRITTEN: [&str; 11] = [
    "instance",
    "region",
    "service",
    "purchase",
    "usd_per_hour",
    "low_usd_per_hour",
    "high_usd_per_hour",
    "date",
    "source",
    "zones",
    "interruptions",
];
/// The highest price accepted: no machine is rented for more, so a higher one was written in another unit.
pub const USD_PER_HOUR_MAX: f64 = 1e5;

/// Regions of AWS of which the catalog has no price. Source: AWS Regions and Availability Zones User Guide, "AWS Regions".
const OTHER_REGIONS: [&str; 9] = [
    "ap-east-2",
    "ap-southeast-4",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-west-1",
    "cn-north-1",
    "cn-northwest-1",
    "eusc-de-east-1",
    "mx-central-1",
];

/// A valid table of prices that take precedence over those of the catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceTable {
    rows: Vec<(String, Price)>,
}

/// Advice where nothing better is known.
const WRITES_ONE: &str = "`trainyard show prices` writes such a table, to be changed and given back";

/// Puts the file, and the line in it, before what is wrong there.
fn at(place: &str, invalid: &Invalid) -> Invalid {
    Invalid::whole(format!("{place}: {invalid}")).with_hint(invalid.hint().unwrap_or_else(|| WRITES_ONE.into()))
}

/// Returns the advice to write the word that was probably meant.
fn meant<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    similar(written, known).map(|similar| format!("did you mean `{similar}`?"))
}

/// The names that rows may use.
struct Known<'a> {
    instances: Vec<&'a str>,
    /// The Regions; `None` where rows are what tells them.
    regions: Option<BTreeSet<&'a str>>,
    /// The sources that words in rows stand for; `None` where rows state their sources themselves.
    sources: Option<&'a BTreeMap<String, String>>,
}

struct Row<'a> {
    known: &'a Known<'a>,
    header: &'a [String],
    cells: csv::StringRecord,
}

impl Row<'_> {
    fn text(&self, column: &str) -> &str {
        let index = self.header.iter().position(|name| name == column);
        index.and_then(|index| self.cells.get(index)).unwrap_or("")
    }

    fn wrong(&self, column: &str, allowed: impl Display) -> Invalid {
        let text = self.text(column);
        Invalid::value(column, if text.is_empty() { "empty".into() } else { format!("`{text}`") }, allowed)
    }

    /// Looks up a cell's value among some names.
    fn name<T>(&self, column: &str, known: &[&str], find: impl Fn(&str) -> Option<T>) -> Result<T, Invalid> {
        let text = self.text(column);
        let wrong = || self.wrong(column, format!("one of {}", known.join(", ")));
        find(text).ok_or_else(|| wrong().maybe_hint(meant(text, known.iter().copied())))
    }

    /// Reads a price; `None` if the cell is empty.
    fn usd(&self, column: &str) -> Result<Option<UsdPerHour>, Invalid> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        let usd = text.parse::<f64>().ok().filter(|usd| *usd > 0.0 && *usd <= USD_PER_HOUR_MAX);
        let allowed = format!("a number of USD above 0 and at most {USD_PER_HOUR_MAX}, without a unit");
        usd.map(|usd| Some(UsdPerHour(usd))).ok_or_else(|| self.wrong(column, allowed))
    }

    /// Reads the Region, or one of its Local Zones (`us-west-2-lax-1`): a price of a place that there is not would be
    /// passed over.
    fn region(&self) -> Result<&str, Invalid> {
        let region = self.text("region");
        let is_name = region.bytes().all(|byte| byte.is_ascii_lowercase() || b"-0123456789".contains(&byte));
        let Some(known) = self.known.regions.as_ref().filter(|_| is_name) else {
            let wrong = || self.wrong("region", "a Region of AWS such as us-east-1");
            return if is_name && !region.is_empty() { Ok(region) } else { Err(wrong()) };
        };
        let is_in =
            |known: &&str| region.strip_prefix(*known).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        if known.iter().any(is_in) {
            return Ok(region);
        }
        let wrong = self.wrong("region", "a Region of AWS such as us-east-1");
        let named: Vec<&str> = known.iter().copied().collect();
        Err(wrong.with_hint(format!("Regions are {}", named.join(", "))).maybe_hint(meant(region, named)))
    }

    fn source(&self) -> Result<&str, Invalid> {
        let text = self.text("source");
        let Some(sources) = self.known.sources else {
            return if text.is_empty() { Err(self.wrong("source", "where the price was read")) } else { Ok(text) };
        };
        let near = || meant(text, sources.keys().map(String::as_str));
        let source = sources.get(text).map(String::as_str);
        source.ok_or_else(|| self.wrong("source", "a word of the table of sources").maybe_hint(near()))
    }

    /// Reads the zones, which are in the row's region.
    fn zones(&self, region: &str) -> Result<Vec<String>, Invalid> {
        let zones: Vec<String> = self.text("zones").split_whitespace().map(Into::into).collect();
        let allowed = || format!("zones of {region} with spaces between, such as {region}a {region}b");
        zones.iter().all(|zone| zone.starts_with(region)).then_some(zones).ok_or_else(|| self.wrong("zones", allowed()))
    }

    /// Reads the band of reclaims; `None` if the cell is empty.
    fn interruptions(&self) -> Result<Option<SpotBand>, Invalid> {
        if self.text("interruptions").is_empty() {
            return Ok(None);
        }
        self.name("interruptions", &SpotBand::ALL.map(SpotBand::written), SpotBand::named).map(Some)
    }

    fn price(&self) -> Result<(String, Price), Invalid> {
        let instance = self.text("instance");
        if !self.known.instances.contains(&instance) {
            let wrong = self.wrong("instance", "an instance of the catalog");
            let near = meant(instance, self.known.instances.iter().copied());
            return Err(wrong.with_hint("`trainyard show instances` lists them").maybe_hint(near));
        }
        let region = self.region()?;
        let services: Vec<&str> = Service::ALL.iter().map(|service| service.name()).collect();
        let purchases: Vec<&str> = Purchase::ALL.iter().map(|purchase| purchase.name()).collect();
        let usd = self.usd("usd_per_hour")?;
        let usd = usd.ok_or_else(|| self.wrong("usd_per_hour", "a number of USD above 0"))?;
        let (low, high) = (self.usd("low_usd_per_hour")?.unwrap_or(usd), self.usd("high_usd_per_hour")?.unwrap_or(usd));
        if low > usd {
            return Err(self.wrong("low_usd_per_hour", format!("at most usd_per_hour, {}", usd.0)));
        }
        if high < usd {
            return Err(self.wrong("high_usd_per_hour", format!("at least usd_per_hour, {}", usd.0)));
        }
        if !is_date(self.text("date")) {
            return Err(self.wrong("date", DATES));
        }
        let source = self.source()?;
        let price = Price {
            region: region.into(),
            service: self.name("service", &services, Service::named)?,
            purchase: self.name("purchase", &purchases, Purchase::named)?,
            low,
            high,
            // The middle of a range is the default and need not be stated.
            expected: (low < high && usd != UsdPerHour(f64::midpoint(low.0, high.0))).then_some(usd),
            date: self.text("date").into(),
            source: source.into(),
            zones: self.zones(region)?,
            interruptions: self.interruptions()?,
        };
        Ok((instance.into(), price))
    }
}

/// Reads the columns of a table, all of which must be known.
fn header(reader: &mut csv::Reader<&[u8]>, file: &str) -> Result<Vec<String>, Invalid> {
    let named = reader.headers().map_err(|error| unreadable(file, &error))?;
    let header: Vec<String> = named.iter().map(|name| name.trim().to_owned()).collect();
    let wrong = |problem: String, hint| {
        let (columns, more) = (REQUIRED.join(", "), OPTIONAL.join(", "));
        let sentence = format!("{problem}; columns are {columns}, and some may have {more}");
        at(&format!("`{file}` line 1"), &Invalid::whole(sentence).maybe_hint(hint))
    };
    let known = || REQUIRED.iter().chain(&OPTIONAL).copied();
    if let Some(name) = header.iter().find(|name| !known().any(|column| column == name.as_str())) {
        return Err(wrong(format!("there is no column `{name}` in a table of prices"), meant(name, known())));
    }
    if let Some(column) = REQUIRED.iter().find(|column| !header.iter().any(|name| name == *column)) {
        return Err(wrong(format!("the column `{column}` is missing"), None));
    }
    Ok(header)
}

fn unreadable(file: &str, error: &csv::Error) -> Invalid {
    let line = error.position().map_or(1, csv::Position::line);
    let problem = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("the row has {len} cells, but the header has {expected_len}")
        }
        _ => error.to_string(),
    };
    at(&format!("`{file}` line {line}"), &Invalid::whole(problem))
}

impl PriceTable {
    /// Reads a table from the text of a CSV file.
    ///
    /// # Errors
    ///
    /// Fails at the first column, row or cell that is invalid.
    pub fn from_csv(text: &str, file: &str) -> Result<Self, Invalid> {
        let all = catalog().instances();
        let instances = all.iter().map(|instance| instance.name.as_str()).collect();
        let priced = all.iter().flat_map(|instance| &instance.prices).map(|price| price.region.as_str());
        let regions = Some(priced.chain(OTHER_REGIONS).collect());
        Self::read(text, file, &Known { instances, regions, sources: None })
    }

    fn read(text: &str, file: &str, known: &Known<'_>) -> Result<Self, Invalid> {
        // The reader counts the lines of a row before it has seen the second of two characters that end the one before.
        let text = text.replace("\r\n", "\n");
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
        let header = header(&mut reader, file)?;
        let mut rows = Vec::new();
        let mut seen: BTreeMap<_, u64> = BTreeMap::new();
        for cells in reader.records() {
            let cells = cells.map_err(|error| unreadable(file, &error))?;
            let line = cells.position().map_or(1, csv::Position::line);
            let place = format!("`{file}` line {line}");
            let row = Row { known, header: &header, cells };
            let (instance, price) = row.price().map_err(|invalid| at(&place, &invalid))?;
            let key = (instance.clone(), price.region.clone(), price.service, price.purchase);
            if let Some(first) = seen.insert(key, line) {
                let (service, purchase) = (price.service.name(), price.purchase.name());
                let what = format!("{instance}, {service} {purchase} in {},", price.region);
                let twice = Invalid::whole(format!("{what} has a price in line {first} already"));
                return Err(at(&place, &twice.with_hint("leave one of the rows out")));
            }
            rows.push((instance, price));
        }
        if rows.is_empty() {
            return Err(at(&format!("`{file}`"), &Invalid::whole("the table has no prices")));
        }
        Ok(Self { rows })
    }

    /// Creates a table of prices that are valid, sorted by instance.
    pub fn of(rows: Vec<(String, Price)>) -> Self {
        Self { rows }
    }

    /// Returns the table as CSV, as [`Self::from_csv`] reads it.
    pub fn to_csv(&self) -> String {
        prices_csv(self.rows.iter().map(|(instance, price)| (instance.as_str(), price)))
    }

    /// Returns the price of an instance that answers a query, if the table has one.
    pub fn price(&self, instance: &str, query: PriceQuery<'_>) -> Option<&Price> {
        let rows = self.rows.iter().filter(|(name, _)| name == instance);
        rows.map(|(_, price)| price).find(|price| price.answers(query))
    }
}

/// Gives the instances of a catalog the prices of its own table, in which words stand for sources.
///
/// # Errors
///
/// Fails as [`PriceTable::from_csv`] does, and at a word that stands for no source.
pub(super) fn price_instances(
    instances: &mut [Instance],
    text: &str,
    file: &str,
    sources: &BTreeMap<String, String>,
) -> Result<(), Invalid> {
    let names = instances.iter().map(|instance| instance.name.as_str()).collect();
    let table = PriceTable::read(text, file, &Known { instances: names, regions: None, sources: Some(sources) })?;
    set_prices(instances, table);
    Ok(())
}

fn set_prices(instances: &mut [Instance], table: PriceTable) {
    for (name, price) in table.rows {
        let query = PriceQuery { region: &price.region, service: price.service, purchase: price.purchase };
        let Some(instance) = instances.iter_mut().find(|instance| instance.name == name) else { continue };
        match instance.prices.iter_mut().find(|known| known.answers(query)) {
            Some(known) => *known = price,
            None => instance.prices.push(price),
        }
    }
}

impl Catalog {
    /// Returns this catalog with the prices of a table added to its own: a row replaces the price of the same instance,
    /// region, service and terms.
    #[must_use]
    pub fn with_prices(&self, table: &PriceTable) -> Self {
        let mut other = self.clone();
        set_prices(&mut other.instances, table.clone());
        other
    }

    /// Returns the prices of the instances whose names match a pattern, as CSV; `*` stands for any text, and without a
    /// pattern all instances match.
    ///
    /// # Panics
    ///
    /// Never panics: what is written is UTF-8 text.
    pub fn prices_csv(&self, pattern: Option<&str>) -> String {
        let matching = self.instances.iter().filter(|own| pattern.is_none_or(|text| matches(text, &own.name)));
        prices_csv(matching.flat_map(|own| own.prices.iter().map(|price| (own.name.as_str(), price))))
    }
}

/// Writes prices of instances as CSV.
fn prices_csv<'a>(prices: impl Iterator<Item = (&'a str, &'a Price)> + Clone) -> String {
    let more = prices.clone().any(|(_, price)| !price.zones.is_empty() || price.interruptions.is_some());
    let columns = if more { WRITTEN.len() } else { WRITTEN.len() - 2 };
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&WRITTEN[..columns]).expect("memory can be written");
    for (instance, price) in prices {
        let is_range = price.low < price.high;
        let end = |usd: UsdPerHour| if is_range { usd.0.to_string() } else { String::new() };
        let cells = [
            instance,
            &price.region,
            price.service.name(),
            price.purchase.name(),
            &price.hourly().0.to_string(),
            &end(price.low),
            &end(price.high),
            &price.date,
            &price.source,
            &price.zones.join(" "),
            price.interruptions.map_or("", SpotBand::written),
        ];
        writer.write_record(&cells[..columns]).expect("memory can be written");
    }
    let rows = writer.into_inner().expect("memory can be written");
    String::from_utf8(rows).expect("it was written as text")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "instance,region,service,purchase,usd_per_hour,date,source\n";

    fn table(rows: &str) -> Result<PriceTable, Invalid> {
        PriceTable::from_csv(&format!("{HEADER}{rows}"), "prices.csv")
    }

    fn query(purchase: Purchase) -> PriceQuery<'static> {
        PriceQuery { region: "us-east-1", service: Service::Ec2, purchase }
    }

    #[test]
    fn a_mistake_is_in_the_same_line_whatever_ends_lines() {
        let rows = "p4d.24xlarge,us-east-1,ec2,on-demand,20,2026-11-20,a list\np4d.24xlarge,us-east-1,ec2,spot,abc,2026-11-20,a list\n";
        let text = format!("{HEADER}{rows}");
        for text in [text.replace('\n', "\r\n"), text] {
            let error = PriceTable::from_csv(&text, "prices.csv").expect_err("abc is no price").to_string();
            assert!(error.starts_with("`prices.csv` line 3: `usd_per_hour` is `abc`"), "{error}");
        }
    }

    #[test]
    fn the_catalogs_prices_read_back_as_they_are() {
        let text = catalog().prices_csv(None);
        let table = PriceTable::from_csv(&text, "prices.csv").expect("a table");
        assert_eq!(table.rows.len(), catalog().instances().iter().map(|instance| instance.prices.len()).sum::<usize>());
        let again = catalog().with_prices(&table);
        assert_eq!((again.instances(), again.prices_csv(None)), (catalog().instances(), text));
        assert!(catalog().prices_csv(Some("p4d.*")).lines().skip(1).all(|line| line.starts_with("p4d.24xlarge,")));
    }

    /// Spare capacity costs no more than what is sure to be there.
    #[test]
    fn no_spot_price_of_the_catalog_is_above_the_one_on_demand() {
        for instance in catalog().instances() {
            for spot in instance.prices.iter().filter(|price| price.purchase == Purchase::Spot) {
                let query = PriceQuery { region: &spot.region, service: spot.service, purchase: Purchase::OnDemand };
                let sure = instance.prices.iter().filter(|price| price.answers(query)).map(|price| price.hourly().0);
                for sure in sure {
                    assert!(spot.hourly().0 <= sure, "{} in {}: {spot:?} and {sure}", instance.name, spot.region);
                }
            }
        }
    }

    #[test]
    fn a_word_stands_for_a_source_of_the_catalog() {
        let sources = BTreeMap::from([("list".into(), "AWS list price".into())]);
        let known = Known { instances: vec!["p3.2xlarge"], regions: None, sources: Some(&sources) };
        let read = |word: &str| {
            let text = format!("{HEADER}p3.2xlarge,us-east-1,ec2,on-demand,3.06,2026-11,{word}\n");
            PriceTable::read(&text, "prices.csv", &known)
        };
        let table = read("list").expect("a table");
        assert_eq!(table.rows[0].1.source, "AWS list price");
        let error = read("lst").expect_err("no such word");
        assert!(error.to_string().starts_with("`prices.csv` line 2: `source` is `lst`"), "{error}");
        assert_eq!(error.hint().as_deref(), Some("did you mean `list`?"));
    }

    #[test]
    fn a_row_stands_before_the_catalogs_price_and_others_stay() {
        let table = table("p4d.24xlarge,us-east-1,ec2,on-demand,19.5,2026-11-01,contract\n").expect("a table");
        let other = catalog().with_prices(&table);
        let price = |catalog: &Catalog, purchase| {
            let instance = catalog.instance("p4d.24xlarge").expect("in the catalog");
            instance.prices.iter().find(|price| price.answers(query(purchase))).map(|price| price.hourly().0)
        };
        assert_eq!(price(&other, Purchase::OnDemand), Some(19.5));
        assert_ne!(price(catalog(), Purchase::OnDemand), Some(19.5));
        assert_eq!(price(&other, Purchase::Spot), price(catalog(), Purchase::Spot));
        assert!(table.price("p4d.24xlarge", query(Purchase::OnDemand)).is_some());
        assert!(table.price("p4d.24xlarge", query(Purchase::Spot)).is_none());
    }

    #[test]
    fn a_range_has_what_is_expected_in_it() {
        let text = "instance,region,service,purchase,usd_per_hour,low_usd_per_hour,high_usd_per_hour,date,source\n\
                    p3.2xlarge,eu-west-1,ec2,spot,1.0,0.5,3,2026-11,seen\n";
        let table = PriceTable::from_csv(text, "prices.csv").expect("a table");
        let eu = PriceQuery { region: "eu-west-1", ..query(Purchase::Spot) };
        let price = table.price("p3.2xlarge", eu).expect("there");
        assert_eq!((price.low.0, price.hourly().0, price.high.0), (0.5, 1.0, 3.0));
    }

    #[test]
    fn zones_and_reclaims_are_read_and_written() {
        let header = "instance,region,service,purchase,usd_per_hour,date,source,zones,interruptions\n";
        let row = "p3.2xlarge,us-east-1,ec2,spot,1,2026-11,x,us-east-1a us-east-1d,5-10%\n";
        let table = PriceTable::from_csv(&format!("{header}{row}"), "prices.csv").expect("a table");
        let price = table.price("p3.2xlarge", query(Purchase::Spot)).expect("there");
        assert_eq!((price.zones.len(), price.interruptions), (2, Some(SpotBand::From5To10)));
        assert_eq!(PriceTable::from_csv(&table.to_csv(), "prices.csv"), Ok(table));
        for (from, to, column) in [("us-east-1a", "eu-west-1a", "zones"), ("5-10%", "7%", "interruptions")] {
            let wrong = format!("{header}{}", row.replace(from, to));
            let message = PriceTable::from_csv(&wrong, "prices.csv").expect_err(to).to_string();
            assert!(message.starts_with(&format!("`prices.csv` line 2: `{column}` is")), "{message}");
        }
    }

    #[test]
    fn each_cell_is_checked() {
        let refused = |rows: &str| table(rows).expect_err(rows).to_string();
        for (row, column) in [
            ("p9.2xlarge,us-east-1,ec2,spot,1,2026-11,x", "instance"),
            ("p3.2xlarge,,ec2,spot,1,2026-11,x", "region"),
            ("p3.2xlarge,us-east-1,ec3,spot,1,2026-11,x", "service"),
            ("p3.2xlarge,us-east-1,ec2,spt,1,2026-11,x", "purchase"),
            ("p3.2xlarge,us-east-1,ec2,spot,1 USD,2026-11,x", "usd_per_hour"),
            ("p3.2xlarge,us-east-1,ec2,spot,,2026-11,x", "usd_per_hour"),
            ("p3.2xlarge,us-east-1,ec2,spot,-1,2026-11,x", "usd_per_hour"),
            ("p3.2xlarge,us-east-1,ec2,spot,1,11/2026,x", "date"),
            ("p3.2xlarge,us-east-1,ec2,spot,1,2026-13,x", "date"),
            ("p3.2xlarge,us-east-1,ec2,spot,1,2026-11,", "source"),
        ] {
            let message = refused(&format!("{row}\n"));
            assert!(message.starts_with(&format!("`prices.csv` line 2: `{column}` is")), "{message}");
        }
        let row = "p3.2xlarge,us-east-1,ec2,spot,1,2026-11,x\n";
        assert!(
            refused(&format!("{row}{row}"))
                .contains("line 3: p3.2xlarge, ec2 spot in us-east-1, has a price in line 2")
        );
        assert!(refused("").contains("no prices"));
        assert!(refused("p3.2xlarge,us-east-1\n").contains("line 2: the row has 2 cells"));
    }

    #[test]
    fn a_region_that_there_is_not_is_refused_with_what_was_meant() {
        let row = |region: &str| table(&format!("p3.2xlarge,{region},ec2,spot,1,2026-11,x\n"));
        for known in ["us-east-1", "mx-central-1", "us-west-2-lax-1", "us-gov-west-1"] {
            assert!(row(known).is_ok(), "{known}");
        }
        assert!(OTHER_REGIONS.is_sorted() && OTHER_REGIONS.iter().all(|other| row(other).is_ok()));
        for typo in ["us-east1", "us-esat-1", "us-east-11"] {
            let error = row(typo).expect_err(typo);
            assert!(error.to_string().starts_with(&format!("`prices.csv` line 2: `region` is `{typo}`")), "{error}");
            assert_eq!(error.hint().as_deref(), Some("did you mean `us-east-1`?"));
        }
        assert!(row("mars").expect_err("no Region").hint().is_some_and(|hint| hint.contains("ca-west-1, ")));
        assert!(row("").expect_err("empty").to_string().contains("`region` is empty, but it must be a Region"));
    }

    #[test]
    fn columns_are_those_of_a_table_of_prices() {
        let refused = |text: &str| PriceTable::from_csv(text, "prices.csv").expect_err(text);
        assert!(refused("instance,region\n").to_string().contains("`service` is missing"));
        let error = refused("instance,regoin,service,purchase,usd_per_hour,date,source\n");
        assert_eq!(error.hint().as_deref(), Some("did you mean `region`?"));
    }
}
