//! Cases as lines: what varies decides what is drawn.

use super::tornado;
use crate::chart::{
    Axis, Breadth, Label, Line, Panel, Picture, Sample, Scale, Stroke, figure, plain, range, time_unit,
};
use crate::layout::cluster;
use crate::what_if::title;
use trainyard_plan::{VariedKey, WhatIfCase, WhatIfDocument, WhatIfFigures};

/// Ratio of the largest value to the smallest from which an axis is logarithmic.
const WIDE: f64 = 4.0;
/// The same ratio for an axis that would otherwise begin at 0.
const VERY_WIDE: f64 = 20.0;
/// Maximum number of series that the legend names; of more it tells the number.
const NAMED: usize = 12;

/// Draws the picture that suits what varies: throughput with the ideal line and scaling efficiency over the number of
/// machines or replicas; throughput over batch sizes; else time and cost; the assumptions of a plan as a tornado. With
/// two keys there is a line for each value of one.
///
/// # Errors
///
/// Returns a sentence if there is nothing to draw.
pub fn what_if_plot(document: &WhatIfDocument, breadth: Breadth) -> Result<Picture, String> {
    if document.axes.is_empty() {
        return tornado::plot(document, breadth);
    }
    let over = Over::of(document);
    if over.figures().next().is_none() {
        return Err("there is no case with a plan to draw".into());
    }
    let mut legend = over.legend();
    let mut panels = Vec::new();
    if over.scales {
        panels.extend([over.scaling(), over.efficiency()]);
        panels.extend(over.costs().then(|| over.cost_against_time()));
        legend.push((Sample::Dashed, "ideal: as fast for each device as with the fewest".into()));
    } else {
        panels.extend(over.batches.then(|| over.throughput(false)));
        panels.push(over.time());
        panels.extend(over.costs().then(|| over.cost()));
    }
    Ok(figure(breadth, &title(document), legend, &panels))
}

/// The cases in order along one key, with a series for each value of the other.
struct Over<'a> {
    key: &'a VariedKey,
    /// `true` if the number of machines or replicas varies.
    scales: bool,
    batches: bool,
    series: Vec<Series<'a>>,
}

struct Series<'a> {
    name: String,
    /// The cases with their positions along the axis.
    cases: Vec<(f64, &'a WhatIfCase)>,
}

fn is_scale(key: &str) -> bool {
    ["instances", "parallel.data"].contains(&key)
}

fn is_batch(key: &str) -> bool {
    key.starts_with("batch.")
}

impl<'a> Over<'a> {
    fn of(document: &'a WhatIfDocument) -> Self {
        let axes = &document.axes;
        let wanted = |wanted: fn(&str) -> bool| axes.iter().position(|axis| wanted(&axis.key));
        let along = wanted(is_scale).or_else(|| wanted(is_batch)).unwrap_or(0);
        let key = &axes[along];
        let other = axes.iter().enumerate().find(|(index, _)| *index != along);
        let place = |case: &WhatIfCase| {
            let index = key.values.iter().position(|value| *value == case.values[along]).unwrap_or(0);
            key.amounts.get(index).copied().unwrap_or(index as f64)
        };
        let of = |matches: &dyn Fn(&WhatIfCase) -> bool| {
            let mut cases: Vec<(f64, &WhatIfCase)> =
                document.cases.iter().filter(|case| matches(case)).map(|case| (place(case), case)).collect();
            cases.sort_by(|a, b| a.0.total_cmp(&b.0));
            cases
        };
        // Throughput has no interval: only the panel of the time draws one.
        let only = if is_scale(&key.key) { "predicted" } else { "predicted; of a time with its 90 % interval" };
        let series = match other {
            None => vec![Series { name: only.into(), cases: of(&|_| true) }],
            Some((index, axis)) => axis
                .values
                .iter()
                .map(|value| Series {
                    name: format!("{} {value}", axis.key),
                    cases: of(&|case| case.values[index] == *value),
                })
                .collect(),
        };
        Self { key, scales: is_scale(&key.key), batches: is_batch(&key.key), series }
    }

    fn legend(&self) -> Vec<(Sample, String)> {
        let named = self.series.iter().take(NAMED).enumerate();
        let named = named.map(|(index, series)| (Sample::Series(index), series.name.clone()));
        let more = self.series.len().saturating_sub(NAMED);
        let rest = (more > 0).then(|| (Sample::Words, format!("and {more} more, in the same colours")));
        named.chain(rest).collect()
    }

    fn costs(&self) -> bool {
        self.figures().any(|own| own.cost_usd.is_some())
    }

    fn figures(&self) -> impl Iterator<Item = &'a WhatIfFigures> {
        self.series.iter().flat_map(|series| &series.cases).filter_map(|(_, case)| case.figures.as_ref())
    }

    /// Returns the axis of the key, with its values as marks.
    fn x(&self) -> Axis {
        let key = self.key;
        let name = match key.unit.as_deref() {
            Some("1") if self.batches && key.key != "batch.accumulation" => format!("{}, samples", key.key),
            None | Some("1") => key.key.clone(),
            Some("×") => format!("{}, relative to its present value", key.key),
            Some(unit) => format!("{}, {}", key.key, shown_unit(unit)),
        };
        let at = |index: usize| key.amounts.get(index).copied().unwrap_or(index as f64);
        let marks: Vec<(f64, String)> =
            key.values.iter().enumerate().map(|(index, value)| (at(index), value.clone())).collect();
        let (low, high) = range(marks.iter().map(|(value, _)| *value));
        let scale = if low > 0.0 && !key.amounts.is_empty() && high / low >= WIDE {
            let room = (high / low).powf(0.04);
            Scale::Log(low / room, high * room)
        } else {
            let room = 0.05 * (high - low).max(if high > 0.0 { 0.1 * high } else { 1.0 });
            Scale::Linear(low - room, high + room)
        };
        Axis { name, scale, marks }
    }

    fn panel(&self, name: &str, y: Axis, value: impl Fn(&WhatIfCase) -> Option<f64>) -> Panel {
        let stroke = if self.key.amounts.is_empty() { Stroke::Marks } else { Stroke::Series };
        let points =
            |series: &Series<'_>| series.cases.iter().filter_map(|(x, case)| Some((*x, value(case)?))).collect();
        let lines = self.series.iter().enumerate().map(|(index, series)| Line::new(stroke(index), points(series)));
        let missing = match self.series.as_slice() {
            [only] => only.cases.iter().filter(|(_, case)| case.figures.is_none()).map(|(x, _)| *x).collect(),
            _ => Vec::new(),
        };
        Panel { lines: lines.collect(), missing, ..Panel::new(name, self.x(), y) }
    }

    fn throughput(&self, log: bool) -> Panel {
        let own = |case: &WhatIfCase| Some(case.figures.as_ref()?.samples_per_s);
        let (low, high) = range(self.figures().map(|own| own.samples_per_s));
        let scale = if log { Scale::Log(low / 1.3, high * 1.3) } else { from_nothing(low, high) };
        self.panel("Throughput", Axis::of("samples/s", scale, plain), own)
    }

    /// Draws throughput with the ideal line: the same throughput of a device whatever their number.
    fn scaling(&self) -> Panel {
        let mut panel = self.throughput(true);
        let mut most: f64 = 0.0;
        for series in &self.series {
            let own: Vec<(f64, &WhatIfFigures)> =
                series.cases.iter().filter_map(|(x, case)| Some((*x, case.figures.as_ref()?))).collect();
            let Some((_, first)) = own.iter().min_by_key(|(_, own)| own.devices) else { continue };
            let ideal = |own: &WhatIfFigures| f64::from(own.devices) * first.samples_per_s_per_device;
            let alike = own.iter().filter(|(_, own)| own.plan.cluster.instance == first.plan.cluster.instance);
            let points: Vec<(f64, f64)> = alike.map(|(x, own)| (*x, ideal(own))).collect();
            most = points.iter().fold(most, |most, (_, y)| most.max(*y));
            panel.lines.insert(0, Line::new(Stroke::Ideal, points));
        }
        if let Scale::Log(low, high) = panel.y.scale {
            panel.y = Axis::of("samples/s", Scale::Log(low, high.max(most * 1.1)), plain);
        }
        panel
    }

    fn efficiency(&self) -> Panel {
        let all = self.series.iter().flat_map(|series| &series.cases).filter_map(|(_, case)| case.scaling_efficiency);
        let high = all.fold(1.0_f64, f64::max) * 1.08;
        let axis = Axis::of("of the ideal", Scale::Linear(0.0, high), |part| format!("{:.0} %", part * 100.0));
        let mut panel =
            self.panel("Scaling efficiency", axis, |case| case.figures.as_ref().and(case.scaling_efficiency));
        let (low, high) = range(self.key.amounts.iter().copied());
        panel.lines.insert(0, Line::new(Stroke::Ideal, vec![(low, 1.0), (high, 1.0)]));
        panel
    }

    fn time(&self) -> Panel {
        let (unit, name) = time_unit(self.figures().map(|own| own.in_all_s).fold(0.0, f64::max));
        let single = self.series.len() == 1;
        let band = |own: &WhatIfFigures| {
            own.interval_s.map(|end| (own.in_all_s + own.time_s * (end / own.step_time_s - 1.0)) / unit)
        };
        let ends = self.figures().flat_map(|own| if single { band(own) } else { [own.in_all_s / unit; 2] });
        let (low, high) = range(ends);
        let axis = Axis::of(&format!("{name} in all"), from_nothing(low, high), plain);
        let of = |own: &WhatIfFigures| Some(own.in_all_s / unit);
        let mut panel = self.panel("Time", axis, |case| of(case.figures.as_ref()?));
        panel.labels = self.machines(of);
        if let (true, [line]) = (single, panel.lines.as_mut_slice()) {
            let own = self.series[0].cases.iter().filter_map(|(_, case)| case.figures.as_ref());
            line.band = own.map(band).collect();
        }
        panel
    }

    fn cost(&self) -> Panel {
        let (low, high) = range(self.figures().filter_map(|own| own.cost_usd));
        let axis = Axis::of("USD for the training", from_nothing(low, high), plain);
        let of = |own: &WhatIfFigures| own.cost_usd;
        Panel { labels: self.machines(of), ..self.panel("Cost", axis, |case| of(case.figures.as_ref()?)) }
    }

    /// Returns labels with the machines of each case, where these follow from a word such as the terms.
    fn machines(&self, of: impl Fn(&WhatIfFigures) -> Option<f64>) -> Vec<Label> {
        let [only] = self.series.as_slice() else { return Vec::new() };
        let label = |(x, case): &(f64, &WhatIfCase)| {
            let own = case.figures.as_ref()?;
            Some(Label { at: (*x, of(own)?), text: cluster(&own.plan), strong: false })
        };
        let labels: Vec<Label> = only.cases.iter().filter_map(label).collect();
        let differ = labels.windows(2).any(|pair| pair[0].text != pair[1].text);
        if self.key.amounts.is_empty() && differ { labels } else { Vec::new() }
    }

    /// Draws each case as a point of time and cost, with its number of machines beside it.
    fn cost_against_time(&self) -> Panel {
        let (unit, name) = time_unit(self.figures().map(|own| own.in_all_s).fold(0.0, f64::max));
        let (low, high) = range(self.figures().map(|own| own.in_all_s / unit));
        let (least, most) = range(self.figures().filter_map(|own| own.cost_usd));
        let x = Axis::of(&format!("{name} in all"), from_nothing(low, high), plain);
        let y = Axis::of("USD for the training", from_nothing(least, most), plain);
        let point = |case: &WhatIfCase| {
            let own = case.figures.as_ref()?;
            Some((own.in_all_s / unit, own.cost_usd?))
        };
        let lines = self.series.iter().enumerate().map(|(index, series)| {
            Line::new(Stroke::Series(index), series.cases.iter().filter_map(|(_, case)| point(case)).collect())
        });
        let labels = self
            .series
            .iter()
            .flat_map(|series| &series.cases)
            .filter_map(|(x, case)| point(case).map(|at| Label { at, text: x.to_string(), strong: false }));
        let labels = if self.series.len() == 1 { labels.collect() } else { Vec::new() };
        let name = format!("Cost against time, for each value of {}", self.key.key);
        Panel { lines: lines.collect(), labels, ..Panel::new(name, x, y) }
    }
}

/// Returns a scale from 0 to a little above the largest value, or a logarithmic one where that would hide the smallest.
fn from_nothing(low: f64, high: f64) -> Scale {
    if low > 0.0 && high / low > VERY_WIDE { Scale::Log(low / 1.3, high * 1.3) } else { Scale::from_nothing(high) }
}

fn shown_unit(unit: &str) -> &str {
    match unit {
        "B/s" => "data rate",
        "FLOP/s" => "arithmetic rate",
        "B" => "amount of data",
        "s" => "duration",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::tests::{axis, document, two_keys};

    #[test]
    fn machines_are_drawn_with_the_ideal_line() {
        let text = what_if_plot(&document(), Breadth::Wide).expect("cases with plans").text();
        for words in ["Throughput", "samples/s", "ideal", "of the ideal", "instances", "no plan", "Cost against time"] {
            assert!(text.contains(words), "{words}");
        }
    }

    #[test]
    fn what_varies_decides_what_is_drawn() {
        let other = |key: &str, unit: Option<&str>, values: &[&str]| {
            let document = WhatIfDocument { axes: vec![axis(key, unit, values)], ..document() };
            what_if_plot(&document, Breadth::Narrow).expect("cases with plans").text()
        };
        let batch = other("batch.global", Some("1"), &["1", "2", "4"]);
        assert!(batch.contains("Throughput") && batch.contains("batch.global"));
        let words = other("pricing", None, &["1", "2", "4"]);
        assert!(words.contains("USD for the training") && words.contains("minutes in all"));
        assert!(!words.contains("Throughput"));
        // The machines of each case stand beside its points.
        assert!(words.contains("2 × p3.16xlarge") && !batch.contains("2 × p3.16xlarge"));
    }

    #[test]
    fn each_value_of_a_second_key_has_a_line_with_its_name() {
        let text = what_if_plot(&two_keys(), Breadth::Wide).expect("cases with plans").text();
        assert!(text.contains("pricing spot") && text.contains("pricing on-demand"));
    }

    #[test]
    fn nothing_is_not_drawn() {
        let mut none = document();
        none.cases.iter_mut().for_each(|case| case.figures = None);
        assert!(what_if_plot(&none, Breadth::Wide).is_err());
    }
}
