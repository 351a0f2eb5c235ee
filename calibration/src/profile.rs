//! Profiles of measured machines: measurements in, a checked profile out, and the text of one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Display};
use trainyard_documents::from_toml;
use trainyard_hardware_profiles::{
    CollectiveOperation, CollectiveSample, MeasuredMachine, NumberFormat, OperatorClass, OperatorSample, PROFILE_SCHEMA,
};
use trainyard_units::Invalid;

/// Factors of corrections that a machine may have: beyond, something else was measured.
pub(crate) const CORRECTION_RANGE: std::ops::RangeInclusive<f64> = 0.1..=10.0;

/// A profile from measurements of a machine.
///
/// Times that physics wants to grow with the amount of data, and that noise made fall, are replaced by the mean of
/// the offenders: reductions, transfers, and the passes over all parameters.
///
/// # Errors
///
/// When a number makes no sense, or something that a step needs was not measured.
pub fn fit_profile(mut machine: MeasuredMachine) -> Result<MeasuredMachine, Invalid> {
    check(&machine)?;
    smooth_collectives(&mut machine.collectives);
    smooth_updates(&mut machine.operators);
    Ok(machine)
}

/// The text of a profile file.
pub fn profile_to_toml(machine: &MeasuredMachine) -> String {
    let text = toml::to_string(machine).expect("a profile holds only what TOML can hold");
    format!("# A machine measured by `trainyard calibrate`. Measure again rather than edit.\n{text}")
}

/// A profile from the text of its file.
///
/// # Errors
///
/// When the text is no profile of this version, or what it says makes no sense.
pub fn profile_from_toml(text: &str, file: &str) -> Result<MeasuredMachine, Invalid> {
    let refused = |problem: &dyn Display, hint: &str| Err(Invalid::inside(file, problem).with_hint(hint));
    let again = "profiles are written by `trainyard calibrate`; measure again rather than repair";
    let table: toml::Table = match from_toml(text) {
        Ok(table) => table,
        Err(error) => return refused(&error, again),
    };
    match table.get("schema").and_then(toml::Value::as_str) {
        Some(PROFILE_SCHEMA) => {}
        found => {
            let found = found.unwrap_or("absent");
            let problem = format!("`schema` is `{found}`, but this version reads `{PROFILE_SCHEMA}`");
            return refused(&problem, "measure the machine again: `trainyard calibrate` writes a new profile");
        }
    }
    let machine: MeasuredMachine = match from_toml(text) {
        Ok(machine) => machine,
        Err(error) => return refused(&error, again),
    };
    match check(&machine) {
        Ok(()) => Ok(machine),
        Err(invalid) => refused(&invalid, again),
    }
}

fn check(machine: &MeasuredMachine) -> Result<(), Invalid> {
    positive("devices", f64::from(machine.devices))?;
    positive("memory", machine.memory.as_f64())?;
    positive("copy_bandwidth", machine.copy_bandwidth.0)?;
    if let Some(slowdown) = machine.overlap_slowdown.filter(|slowdown| !(slowdown.is_finite() && *slowdown >= 0.0)) {
        return Err(Invalid::value("overlap_slowdown", slowdown, "a number of at least 0"));
    }
    for (index, sample) in machine.operators.iter().enumerate() {
        check_operator(&format!("operators[{index}]"), sample)?;
    }
    for (index, sample) in machine.collectives.iter().enumerate() {
        let field = |name: &str| format!("collectives[{index}].{name}");
        positive(&field("bytes"), sample.bytes as f64)?;
        positive(&field("seconds"), sample.seconds)?;
        if sample.ranks < 2 {
            return Err(Invalid::value(field("ranks"), sample.ranks, "at least 2"));
        }
    }
    check_corrections(machine)?;
    complete(machine)
}

fn check_operator(at: &str, sample: &OperatorSample) -> Result<(), Invalid> {
    positive(&format!("{at}.ranks"), f64::from(sample.ranks))?;
    positive(&format!("{at}.threads"), f64::from(sample.threads))?;
    positive(&format!("{at}.forward_s"), sample.forward_s)?;
    for (name, value) in [("backward_s", sample.backward_s), ("spread", sample.spread)] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(Invalid::value(format!("{at}.{name}"), value, "a number of at least 0"));
        }
    }
    if sample.shape.len() != sample.operator.dimensions() || sample.shape.contains(&0) {
        let shape = format!("{:?}", sample.shape);
        return Err(Invalid::value(format!("{at}.shape"), shape, "as many sizes above 0 as the class has dimensions"));
    }
    Ok(())
}

fn check_corrections(machine: &MeasuredMachine) -> Result<(), Invalid> {
    for (index, correction) in machine.corrections.iter().enumerate() {
        let field = |name: &str| format!("corrections[{index}].{name}");
        if !CORRECTION_RANGE.contains(&correction.factor) {
            return Err(Invalid::value(field("factor"), correction.factor, "a factor between 0.1 and 10"));
        }
        if !(correction.deviation.is_finite() && correction.deviation >= 0.0) {
            return Err(Invalid::value(field("deviation"), correction.deviation, "a number of at least 0"));
        }
        if machine.corrections[..index].iter().any(|other| other.phase == correction.phase) {
            return Err(Invalid::value(
                field("phase"),
                correction.phase.name(),
                "a phase that no other correction is of",
            ));
        }
    }
    Ok(())
}

/// Refuses a machine of which no operator was timed, and several ranks without an all-reduce and a transfer among them.
/// Operators that a job needs and a profile lacks are missed where they are priced.
fn complete(machine: &MeasuredMachine) -> Result<(), Invalid> {
    if machine.operators.is_empty() {
        return Err(Invalid::inside("operators", "no operator was timed"));
    }
    let ranks: BTreeSet<u32> = machine.operators.iter().map(|sample| sample.ranks).collect();
    for ranks in ranks {
        let timed = |operation, ranks| {
            machine.collectives.iter().any(|sample| sample.operation == operation && sample.ranks == ranks)
        };
        for (operation, members) in [(CollectiveOperation::AllReduce, ranks), (CollectiveOperation::Send, 2)] {
            if ranks > 1 && !timed(operation, members) {
                return Err(missing("collectives", &operation, members));
            }
        }
    }
    Ok(())
}

fn missing(field: &str, what: &dyn Debug, ranks: u32) -> Invalid {
    Invalid::inside(field, format!("there is no sample of `{what:?}` for {ranks} ranks at work at the same time"))
}

fn positive(field: &str, value: f64) -> Result<(), Invalid> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(Invalid::value(field, value, "a number above 0")) }
}

fn smooth_collectives(samples: &mut [CollectiveSample]) {
    let mut groups: BTreeMap<(CollectiveOperation, u32), Vec<usize>> = BTreeMap::new();
    for (index, sample) in samples.iter().enumerate() {
        groups.entry((sample.operation, sample.ranks)).or_default().push(index);
    }
    for mut group in groups.into_values() {
        group.sort_by_key(|index| samples[*index].bytes);
        let times: Vec<f64> = group.iter().map(|index| samples[*index].seconds).collect();
        for (index, time) in group.into_iter().zip(never_falling(&times)) {
            samples[index].seconds = time;
        }
    }
}

fn smooth_updates(samples: &mut [OperatorSample]) {
    let mut groups: BTreeMap<(OperatorClass, NumberFormat, u32), Vec<usize>> = BTreeMap::new();
    for (index, sample) in samples.iter().enumerate().filter(|(_, sample)| sample.operator.is_over_parameters()) {
        groups.entry((sample.operator, sample.format, sample.ranks)).or_default().push(index);
    }
    for mut group in groups.into_values() {
        group.sort_by_key(|index| samples[*index].shape[0]);
        let times: Vec<f64> = group.iter().map(|index| samples[*index].forward_s).collect();
        for (index, time) in group.into_iter().zip(never_falling(&times)) {
            samples[index].forward_s = time;
        }
    }
}

/// The sequence that never falls and is nearest to `values` in the sum of squares.
///
/// # Source
///
/// Pool adjacent violators: Ayer et al., Annals of Mathematical Statistics 26 (1955), 641-647.
fn never_falling(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut pool = (*value, 1);
        while let Some((mean, count)) = pools.pop_if(|(mean, _)| *mean > pool.0) {
            let together = count + pool.1;
            pool = ((mean * count as f64 + pool.0 * pool.1 as f64) / together as f64, together);
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trainyard_hardware_profiles::{CorrectedPhase, Correction, DeviceKind};
    use trainyard_units::{Bytes, BytesPerSecond};

    fn measurements(ranks: &[u32]) -> MeasuredMachine {
        let operators = ranks.iter().flat_map(|ranks| {
            OperatorClass::ALL.iter().map(|class| OperatorSample {
                operator: *class,
                format: NumberFormat::Fp32,
                ranks: *ranks,
                threads: 1,
                shape: vec![8; class.dimensions()],
                forward_s: 1e-3,
                backward_s: if class.is_over_parameters() { 0.0 } else { 2e-3 },
                spread: 0.05,
            })
        });
        let collectives = ranks.iter().filter(|ranks| **ranks > 1).flat_map(|ranks| {
            [(CollectiveOperation::AllReduce, *ranks), (CollectiveOperation::Send, 2)]
                .map(|(operation, ranks)| CollectiveSample { operation, ranks, bytes: 1024, seconds: 1e-5 })
        });
        MeasuredMachine {
            schema: PROFILE_SCHEMA.into(),
            name: "local".into(),
            processor: "a processor".into(),
            device: DeviceKind::Cpu,
            devices: 2,
            memory: Bytes(1 << 33),
            measured: "2026-11-21".into(),
            framework: "burn".into(),
            copy_bandwidth: BytesPerSecond(1e10),
            overlap_slowdown: Some(4.0),
            corrections: Vec::new(),
            operators: operators.collect(),
            collectives: collectives.collect(),
        }
    }

    #[test]
    fn a_profile_survives_its_text() {
        let machine = fit_profile(measurements(&[1, 2])).expect("complete");
        let text = profile_to_toml(&machine);
        assert_eq!(profile_from_toml(&text, "local.toml"), Ok(machine));
    }

    #[test]
    fn another_version_is_refused_with_a_hint() {
        let machine = fit_profile(measurements(&[1])).expect("complete");
        let text = profile_to_toml(&machine).replace("profile/1", "profile/9");
        let error = profile_from_toml(&text, "old.toml").expect_err("another schema");
        assert!(error.to_string().contains("old.toml") && error.to_string().contains("trainyard.profile/9"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("trainyard calibrate")));
    }

    #[test]
    fn text_that_is_no_profile_names_the_file() {
        for text in ["", "schema = 3", "schema = \"trainyard.profile/1\"\nname = 4\n", "[[["] {
            let error = profile_from_toml(text, "broken.toml").expect_err("no profile");
            assert!(error.to_string().contains("broken.toml"), "{error}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_are_named() {
        let mut bad = measurements(&[1]);
        bad.operators[3].forward_s = f64::NAN;
        let problem = fit_profile(bad).expect_err("not a number");
        assert_eq!(problem.to_string(), "`operators[3].forward_s` is NaN, but it must be a number above 0");
        let mut bad = measurements(&[1]);
        bad.operators[0].shape.pop();
        assert!(fit_profile(bad).expect_err("a size is missing").to_string().contains("operators[0].shape"));
        let beside = fit_profile(MeasuredMachine { overlap_slowdown: Some(-1.0), ..measurements(&[1]) });
        assert!(beside.expect_err("it is no slowdown").to_string().contains("overlap_slowdown"));
        assert!(fit_profile(MeasuredMachine { devices: 0, ..measurements(&[1]) }).is_err());
    }

    #[test]
    fn a_profile_says_what_computes_unless_it_is_processors() {
        let machine = fit_profile(measurements(&[1])).expect("complete");
        assert!(!profile_to_toml(&machine).contains("device ="));
        let gpus = fit_profile(MeasuredMachine { device: DeviceKind::Cuda, ..measurements(&[1]) }).expect("complete");
        let text = profile_to_toml(&gpus);
        assert!(text.contains("device = \"cuda\""), "{text}");
        assert_eq!(profile_from_toml(&text, "gpus.toml"), Ok(gpus));
    }

    #[test]
    fn what_was_not_measured_is_named() {
        let nothing = MeasuredMachine { operators: Vec::new(), ..measurements(&[1]) };
        assert!(fit_profile(nothing).expect_err("no operator").to_string().contains("operators"));
        let mut lacking = measurements(&[1, 2]);
        lacking.collectives.clear();
        assert!(fit_profile(lacking).expect_err("no collective").to_string().contains("AllReduce"));
    }

    #[test]
    fn a_profile_may_know_only_what_a_job_needs() {
        let mut machine = fit_profile(measurements(&[1, 2])).expect("complete");
        machine.operators.retain(|sample| sample.operator == OperatorClass::Linear);
        assert_eq!(profile_from_toml(&profile_to_toml(&machine), "one-job.toml"), Ok(machine));
    }

    #[test]
    fn corrections_are_in_range_and_one_for_each_phase() {
        let mut machine = fit_profile(measurements(&[1])).expect("complete");
        let correction = |phase, factor| Correction {
            phase,
            factor,
            deviation: 0.05,
            runs: 2,
            measured: "2026-11-22".into(),
            source: "runs/a".into(),
        };
        machine.corrections = vec![correction(CorrectedPhase::Forward, 1.2), correction(CorrectedPhase::Backward, 0.9)];
        assert_eq!(profile_from_toml(&profile_to_toml(&machine), "local.toml"), Ok(machine.clone()));
        assert!((machine.correction(CorrectedPhase::Forward) - 1.2).abs() < 1e-12);
        assert!((machine.correction(CorrectedPhase::Optimizer) - 1.0).abs() < 1e-12);
        for wrong in [correction(CorrectedPhase::Optimizer, 0.0), correction(CorrectedPhase::Forward, 1.0)] {
            let mut bad = machine.clone();
            bad.corrections.push(wrong);
            let error = profile_from_toml(&profile_to_toml(&bad), "local.toml").expect_err("makes no sense");
            assert!(error.to_string().contains("corrections[2]"), "{error}");
        }
    }

    #[test]
    fn more_bytes_never_take_less_time_in_a_profile() {
        let mut noisy = measurements(&[1, 2]);
        let sample =
            |bytes, seconds| CollectiveSample { operation: CollectiveOperation::AllReduce, ranks: 2, bytes, seconds };
        noisy.collectives.extend([sample(4096, 5e-6), sample(8192, 3e-5)]);
        let machine = fit_profile(noisy).expect("complete");
        let times: Vec<f64> = machine
            .collectives
            .iter()
            .filter(|s| s.operation == CollectiveOperation::AllReduce)
            .map(|s| s.seconds)
            .collect();
        let expected = [7.5e-6, 7.5e-6, 3e-5];
        assert!(times.iter().zip(expected).all(|(time, wanted)| (time / wanted - 1.0).abs() < 1e-9), "{times:?}");
    }

    proptest! {
        #[test]
        fn pooling_never_falls_and_keeps_the_sum(values in prop::collection::vec(0.001f64..10.0, 1..40)) {
            let pooled = never_falling(&values);
            prop_assert_eq!(pooled.len(), values.len());
            prop_assert!(pooled.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert!((pooled.iter().sum::<f64>() - values.iter().sum::<f64>()).abs() < 1e-9);
        }
    }
}
