//! Prices: read, put before the catalog, written, read again, and planned with.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trainyard_fuzz::table::mutate_csv;
use trainyard_hardware_profiles::{PriceTable, catalog};
use trainyard_planner::Resources;

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_csv(data, size, max, seed) });

fuzz_target!(|text: &str| {
    let Ok(table) = PriceTable::from_csv(text, "prices.csv") else { return };
    let written = catalog().with_prices(&table).prices_csv(Some("p3.2xlarge"));
    PriceTable::from_csv(&written, "prices.csv").unwrap_or_else(|error| panic!("{error}: {written}"));
    let mut job = trainyard_fuzz::small_job();
    job.cluster.prices = Some("prices.csv".into());
    trainyard_fuzz::plan(&job, Resources { prices: Some(table), ..Resources::default() });
});
