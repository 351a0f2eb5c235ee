//! Published facts of which batches fit into a GPU and which do not, predicted.

use trainyard_calibration::{Entry, configure, read_measurements};

/// Each row names its publication; `fits` says whether it ran or was out of memory.
const FACTS: &str = include_str!("../../../tests/published/memory.csv");

/// What a prediction of memory may be off: needed over available, where a fact says on which side of 1 it is.
const TOLERANCE: f64 = 0.15;

/// Facts that are missed by more: Mask R-CNN in single precision, whose algorithms ask for workspace besides.
const MISSED: usize = 1;

/// Of each fact, its id, whether it fits, and what is needed over what there is.
fn facts() -> Vec<(String, bool, f64)> {
    let mut reader = csv::Reader::from_reader(FACTS.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let column = header.iter().position(|name| name == "fits").expect("the table says what fits");
    let fits: Vec<bool> = reader.records().map(|record| &record.expect("well formed")[column] == "yes").collect();
    let rows = read_measurements(FACTS, "memory.csv").expect("the carried table is well formed");
    let needed = rows.iter().map(|entry| {
        let Entry::Row(row) = entry else { panic!("every cell is well formed") };
        let configuration = configure(row).expect("every fact can be expressed");
        let footprint = trainyard_sim::footprint(&configuration.plans[0], &configuration.machine);
        (row.id.clone(), footprint.peak().as_f64() / footprint.limits[0].as_f64())
    });
    needed.zip(fits).map(|((id, share), fits)| (id, fits, share)).collect()
}

#[test]
fn what_fits_and_what_does_not_is_predicted_within_the_tolerance() {
    let facts = facts();
    let off = |(_, fits, share): &&(String, bool, f64)| {
        if *fits { *share > 1.0 + TOLERANCE } else { *share < 1.0 - TOLERANCE }
    };
    let missed: Vec<_> = facts.iter().filter(off).collect();
    assert!(missed.len() <= MISSED, "{missed:?}");
    let wrong = facts.iter().filter(|(_, fits, share)| *fits != (*share <= 1.0)).count();
    assert!(wrong * 4 <= facts.len(), "{wrong} of {} on the wrong side", facts.len());
}
