//! Published facts of which batches fit into a GPU and which do not, predicted.

use std::sync::Arc;
use trainyard_calibration::{Entry, configure, read_measurements};

/// Each row names its publication; `fits` says whether it ran or was out of memory.
const FACTS: &str = include_str!("../../../tests/published/memory.csv");

const STEP_TIMES: &str = include_str!("../../../tests/published/measurements.csv");

/// What a prediction of memory may be off: needed over available, where a fact says on which side of 1 it is.
const TOLERANCE: f64 = 0.15;

/// Of each fact, its id, whether it fits, what is needed over what there is, and whether that is within the margin.
fn facts() -> Vec<(String, bool, f64, bool)> {
    let mut reader = csv::Reader::from_reader(FACTS.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let column = header.iter().position(|name| name == "fits").expect("the table says what fits");
    let fits: Vec<bool> = reader.records().map(|record| &record.expect("well formed")[column] == "yes").collect();
    let rows = read_measurements(FACTS, "memory.csv").expect("the carried table is well formed");
    let needed = rows.iter().map(|entry| {
        let Entry::Row(row) = entry else { panic!("every cell is well formed") };
        let configuration = configure(row).expect("every fact can be expressed");
        let footprint = trainyard_sim::footprint(&configuration.plans[0], &configuration.machine);
        (row.id.clone(), footprint.peak().as_f64() / footprint.limits[0].as_f64(), footprint.fits().is_ok())
    });
    needed.zip(fits).map(|((id, share, within), fits)| (id, fits, share, within)).collect()
}

#[test]
fn what_fits_and_what_does_not_is_predicted_within_the_tolerance() {
    let facts = facts();
    let off = |(_, fits, share, _): &&(String, bool, f64, bool)| {
        if *fits { *share > 1.0 + TOLERANCE } else { *share < 1.0 - TOLERANCE }
    };
    let missed: Vec<_> = facts.iter().filter(off).collect();
    assert!(missed.is_empty(), "{missed:?}");
    let wrong = facts.iter().filter(|(_, fits, share, _)| *fits != (*share <= 1.0)).count();
    assert!(wrong * 4 <= facts.len(), "{wrong} of {} on the wrong side", facts.len());
}

#[test]
fn what_failed_for_memory_does_not_fit_with_the_margin() {
    let facts = facts();
    let accepted: Vec<_> = facts.iter().filter(|(_, fits, _, within)| !fits && *within).collect();
    assert!(accepted.is_empty(), "{accepted:?}");
    // The margin costs few of those that ran.
    let refused = facts.iter().filter(|(_, fits, _, within)| *fits && !within).count();
    let ran = facts.iter().filter(|(_, fits, ..)| *fits).count();
    assert!(refused * 3 <= ran, "{refused} of {ran}");
}

/// Of each peak that Alpa published of a plan that it states, what tensors are predicted to hold over it: its peaks leave
/// out the software.
fn peaks_of_a_compiler() -> Vec<(String, f64)> {
    let mut reader = csv::Reader::from_reader(STEP_TIMES.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let column = header.iter().position(|name| name == "peak_memory_gb").expect("the table has it");
    let peaks = reader.records().map(|row| row.expect("well formed")[column].parse::<f64>().ok());
    let peaks: Vec<Option<f64>> = peaks.collect();
    let rows = read_measurements(STEP_TIMES, "measurements.csv").expect("the carried table is well formed");
    let peak_of = |(entry, peak): (&Entry, Option<f64>)| {
        let Entry::Row(row) = entry else { panic!("every cell is well formed") };
        let peak =
            peak.filter(|_| row.suite == "alpa-p3" && row.dp.is_some() && row.tp.is_some() && row.pp.is_some())?;
        let configuration = configure(row).expect("it states its plan");
        let (plan, _) = configuration.predict().expect("it is predicted");
        let footprint = trainyard_sim::footprint(plan, &configuration.machine);
        let held = footprint.resident.iter().map(|held| held.total().as_f64()).fold(0.0, f64::max);
        Some((row.id.clone(), held / (peak * 1e9)))
    };
    rows.iter().zip(peaks).filter_map(peak_of).collect()
}

#[test]
fn peaks_of_a_compiler_that_lets_go_of_values_are_predicted() {
    let peaks = peaks_of_a_compiler();
    let mean = peaks.iter().map(|(_, ratio)| (ratio - 1.0).abs()).sum::<f64>() / peaks.len() as f64;
    assert!(peaks.len() == 36 && mean < 0.115, "{mean}: {peaks:?}");
}

/// The line of BigScience's log from which on its runs have DeepSpeed's bf16 optimizer, which keeps gradients twice.
const KEPT_TWICE_FROM: u32 = 900;

/// Of each peak of a device that BigScience published, what is predicted over it, for the software of its day.
fn peaks() -> Vec<(String, f64)> {
    let mut reader = csv::Reader::from_reader(STEP_TIMES.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let column = |wanted| header.iter().position(|name| name == wanted).expect("the table has it");
    let (peak, notes) = (column("peak_memory_gb"), column("notes"));
    let line = |notes: &str| notes.strip_prefix("line ")?.split(';').next()?.parse::<u32>().ok();
    let told = |row: Result<csv::StringRecord, _>| {
        let row = row.expect("well formed");
        Some((row[peak].parse::<f64>().ok()?, line(&row[notes])?))
    };
    let told: Vec<Option<(f64, u32)>> = reader.records().map(told).collect();
    let rows = read_measurements(STEP_TIMES, "measurements.csv").expect("the carried table is well formed");
    let peak_of = |(entry, told): (&Entry, Option<(f64, u32)>)| {
        let Entry::Row(row) = entry else { panic!("every cell is well formed") };
        let (peak, line) = told.filter(|_| row.suite == "bigscience-a100")?;
        let mut configuration = configure(row).expect("it states its plan");
        if line < KEPT_TWICE_FROM {
            Arc::make_mut(&mut configuration.machine.stack).keeps_half_gradients = None;
        }
        let held = trainyard_sim::footprint(&configuration.plans[0], &configuration.machine).peak().as_f64();
        Some((row.id.clone(), held / (peak * 1e9)))
    };
    rows.iter().zip(told).filter_map(peak_of).collect()
}

#[test]
fn published_peaks_are_predicted() {
    let peaks = peaks();
    let mean = peaks.iter().map(|(_, ratio)| (ratio - 1.0).abs()).sum::<f64>() / peaks.len() as f64;
    assert!(peaks.len() == 19 && mean < 0.08, "{mean}: {peaks:?}");
}
