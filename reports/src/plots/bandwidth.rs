//! How fast messages of different sizes go: predicted for the machines of a plan, or beside what was measured.

use crate::chart::{Axis, Breadth, Line, Panel, Picture, Sample, Scale, Stroke, figure, plain, range};
use std::collections::BTreeMap;
use trainyard_calibration::RowResult;
use trainyard_plan::CollectiveCurve;
use trainyard_units::{Bytes, human_bytes};

/// Computes the algorithm bandwidth in GB/s (10⁹ bytes): message size over time.
fn rate(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / seconds / 1e9
}

/// Draws algorithm bandwidth (message size over time) against message size, for the collectives of a plan's machines.
///
/// # Errors
///
/// Returns a sentence if there is no collective: a single device communicates with nobody.
pub fn bandwidth(machines: &str, curves: &[CollectiveCurve], breadth: Breadth) -> Result<Picture, String> {
    let points = |curve: &CollectiveCurve| -> Vec<(f64, f64)> {
        curve.points.iter().map(|(bytes, seconds)| (*bytes as f64, rate(*bytes, *seconds))).collect()
    };
    let lines: Vec<Line> =
        curves.iter().enumerate().map(|(series, curve)| Line::new(Stroke::Series(series), points(curve))).collect();
    let legend = curves.iter().enumerate().map(|(series, curve)| (Sample::Series(series), name(curve)));
    drawn(breadth, &format!("{machines}: bandwidth against message size"), legend.collect(), lines)
}

/// Names a curve: `all-reduce, 16 devices of 2 machines`.
fn name(curve: &CollectiveCurve) -> String {
    if curve.operation == "send" {
        return "send to the next machine".into();
    }
    let machines = if curve.machines == 1 { "one machine".into() } else { format!("{} machines", curve.machines) };
    format!("{}, {} devices of {machines}", curve.operation, curve.devices)
}

/// Draws the bandwidth of measured collectives: a line for predictions, marks for measurements.
///
/// # Errors
///
/// Returns a sentence if no row with the size of its message was predicted.
pub fn measured_bandwidth(rows: &[RowResult], breadth: Breadth) -> Result<Picture, String> {
    // Bytes, predicted, measured.
    let mut series: BTreeMap<String, Vec<(u64, f64, f64)>> = BTreeMap::new();
    for row in rows {
        let times = row.predicted_step_time_s.zip(row.measured_step_time_s);
        let (Some(bytes), Some((predicted, measured))) = (row.message_bytes, times) else { continue };
        let devices = row.devices.map_or_else(String::new, |devices| format!(", {devices} devices"));
        let own = series.entry(format!("{}{devices}", row.suite)).or_default();
        own.push((bytes, rate(bytes, predicted), rate(bytes, measured)));
    }
    let mut lines = Vec::new();
    let mut legend = Vec::new();
    for (index, (name, mut points)) in series.into_iter().enumerate() {
        points.sort_by_key(|(bytes, ..)| *bytes);
        let predicted: Vec<(f64, f64)> = points.iter().map(|(bytes, rate, _)| (*bytes as f64, *rate)).collect();
        let colour = crate::chart::series_colour(index);
        if predicted.len() > 1 {
            lines.push(Line::new(Stroke::Plain(colour), predicted));
        }
        let measured = points.iter().map(|(bytes, _, rate)| (*bytes as f64, *rate)).collect();
        lines.push(Line::new(Stroke::Marks(index), measured));
        legend.push((Sample::Series(index), name));
    }
    legend.push((Sample::Words, "lines: predicted; marks: measured".into()));
    drawn(breadth, "Bandwidth against message size", legend, lines)
}

fn drawn(breadth: Breadth, title: &str, legend: Vec<(Sample, String)>, lines: Vec<Line>) -> Result<Picture, String> {
    let points = || lines.iter().flat_map(|line| &line.points).filter(|(_, rate)| *rate > 0.0);
    if points().next().is_none() {
        return Err("there is no message whose size and time are known".into());
    }
    let (small, large) = range(points().map(|(bytes, _)| *bytes));
    let (slow, fast) = range(points().map(|(_, rate)| *rate));
    let x = Axis::of_sizes("size of the message", [small / 1.5, large * 1.5], |bytes| human_bytes(Bytes(bytes)));
    let y = Axis::of("GB/s, message over time", Scale::Log(slow / 1.5, fast * 1.5), plain);
    let panel = Panel { lines, height: 300, ..Panel::new("Bandwidth", x, y) };
    Ok(figure(breadth, title, legend, &[panel]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_calibration::Status;

    #[test]
    fn every_collective_has_a_line_and_the_axes_have_units() {
        let points: Vec<(u64, f64)> = (10..30).map(|power| (1 << power, 1e-5 + f64::from(1 << power) / 1e11)).collect();
        let curve = |operation: &str, devices, machines| CollectiveCurve {
            operation: operation.into(),
            devices,
            machines,
            points: points.clone(),
        };
        let curves = [curve("all-reduce", 8, 1), curve("all-reduce", 16, 2), curve("send", 2, 2)];
        for breadth in [Breadth::Wide, Breadth::Narrow] {
            let picture = bandwidth("2 × p4d.24xlarge", &curves, breadth).expect("collectives");
            for words in ["GB/s", "size of the message", "8 devices of one machine", "16 devices of 2 machines", "MiB"]
            {
                assert!(picture.text().contains(words), "{words}: {}", picture.text());
            }
            assert!(picture.outside().is_empty(), "{:?}", picture.outside());
        }
        assert!(bandwidth("one GPU", &[], Breadth::Wide).is_err());
    }

    #[test]
    fn measured_rows_without_a_size_are_left_out() {
        let row = |message_bytes| RowResult {
            id: "line 2".into(),
            suite: "all_reduce p4d.24xlarge".into(),
            status: Status::Ok,
            reason: None,
            predicted_step_time_s: Some(1e-3),
            interval_s: None,
            measured_step_time_s: Some(1.1e-3),
            error: None,
            message_bytes,
            devices: Some(16),
        };
        assert!(measured_bandwidth(&[row(None)], Breadth::Wide).is_err());
        let picture = measured_bandwidth(&[row(Some(1 << 20)), row(Some(1 << 24)), row(None)], Breadth::Wide);
        let text = picture.expect("two messages").text();
        assert!(text.contains("all_reduce p4d.24xlarge, 16 devices") && text.contains("marks: measured"), "{text}");
    }
}
