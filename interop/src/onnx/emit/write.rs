//! From operators that read any earlier value to layers in which one value flows.

use super::Made;
use std::collections::BTreeSet;
use trainyard_models::layers::{Add, Concat, InputSpec, Joined, LayerSpec, Load, OperatorSpec, Save, Word};
use trainyard_models::{Family, ModelSpec};

/// Operators between two places where one value alone goes on.
#[derive(Clone, Debug, Default)]
struct Segment {
    operators: Vec<OperatorSpec>,
}

impl Segment {
    fn has(&self, kind: fn(&OperatorSpec) -> bool) -> bool {
        self.operators.iter().any(kind)
    }
}

fn multiplies(operator: &OperatorSpec) -> bool {
    use OperatorSpec as Is;
    matches!(
        operator,
        Is::Conv(_) | Is::Depthwise(_) | Is::TransposedConv(_) | Is::Linear(_) | Is::Attention(_) | Is::Embedding(_)
    )
}

fn attends(operator: &OperatorSpec) -> bool {
    matches!(operator, OperatorSpec::Attention(_))
}

fn joins(operator: &OperatorSpec) -> bool {
    matches!(operator, OperatorSpec::Add(_) | OperatorSpec::Concat(_))
}

/// The model of what was made, up to the value `last`.
pub(super) fn model(name: &str, input: InputSpec, made: &[Made], last: usize) -> ModelSpec {
    let mut layers: Vec<Segment> = Vec::new();
    for segment in segments(made, last) {
        let block = |layer: &Segment| layer.has(attends) && segment.has(joins) && !segment.has(attends);
        match layers.last_mut() {
            // What has no weights goes with what is before it, and the second half of a block with the first.
            Some(layer) if !segment.has(multiplies) || !layer.has(multiplies) || block(layer) => {
                layer.operators.extend(segment.operators);
            }
            _ => layers.push(segment),
        }
    }
    let loss = OperatorSpec::Word(Word::CrossEntropy);
    let alone = layers.len() < 2 || layers.last().is_some_and(|layer| layer.has(joins));
    match layers.last_mut().filter(|_| !alone) {
        Some(layer) => layer.operators.push(loss),
        None => layers.push(Segment { operators: vec![loss] }),
    }
    let mut written: Vec<LayerSpec> = Vec::new();
    for layer in layers {
        let name = called(&layer).to_owned();
        match written.last_mut() {
            Some(before) if before.operators == layer.operators && before.name == name => before.repeat += 1,
            _ => written.push(LayerSpec { name, repeat: 1, frozen: false, operators: layer.operators }),
        }
    }
    ModelSpec { input: Some(input), layer: Some(written), ..ModelSpec::new(name, Family::Layers) }
}

/// Returns the name of a layer, which says what it is mostly.
fn called(layer: &Segment) -> &'static str {
    let first = layer.operators.iter().find(|operator| multiplies(operator));
    match first {
        _ if layer.has(attends) || layer.has(joins) => "block",
        Some(OperatorSpec::Embedding(_)) => "embedding",
        Some(OperatorSpec::Linear(_)) => "linear",
        Some(_) => "convolution",
        None => "output",
    }
}

/// Returns the operators that lead to `last`, in order.
fn needed(made: &[Made], last: usize) -> BTreeSet<usize> {
    let mut needed = BTreeSet::new();
    let mut open = vec![last];
    while let Some(value) = open.pop() {
        if value > 0 && needed.insert(value) {
            let Made { main, joined, .. } = &made[value - 1];
            open.push(*main);
            open.extend(joined);
        }
    }
    needed
}

fn segments(made: &[Made], last: usize) -> Vec<Segment> {
    let needed = needed(made, last);
    let saved = saved(made, &needed);
    // For each value, the last that is made of it.
    let mut used = vec![0; made.len() + 1];
    for value in &needed {
        let Made { main, joined, .. } = &made[*value - 1];
        for read in std::iter::once(main).chain(joined) {
            used[*read] = (*value).max(used[*read]);
        }
    }
    let (mut segments, mut segment) = (Vec::new(), Segment::default());
    let (mut current, mut names, mut reach) = (0, Names::default(), used[0]);
    for value in needed {
        let Made { operator, main, joined } = &made[value - 1];
        // A value is saved in the layer that uses it, before anything else is done with it.
        if saved.contains(&current) {
            segment.operators.push(OperatorSpec::Save(Save { save: names.give(current) }));
        }
        let (main, joined) = match joined {
            Some(other) if *other == current => (*other, Some(*main)),
            other => (*main, *other),
        };
        if main != current {
            segment.operators.push(OperatorSpec::Load(Load { load: names.of(main) }));
        }
        let saved = || joined.map_or_else(|| Joined::Saved(String::new()), |other| Joined::Saved(names.of(other)));
        segment.operators.push(match operator {
            OperatorSpec::Add(Add { dropout, .. }) => OperatorSpec::Add(Add { add: saved(), dropout: *dropout }),
            OperatorSpec::Concat(Concat { crop, .. }) => OperatorSpec::Concat(Concat { concat: saved(), crop: *crop }),
            other => other.clone(),
        });
        current = value;
        if reach <= value {
            segments.push(std::mem::take(&mut segment));
            names = Names::default();
        }
        reach = reach.max(used[value]);
    }
    if !segment.operators.is_empty() {
        segments.push(segment);
    }
    segments
}

/// The values that are read otherwise than by what is made next.
fn saved(made: &[Made], needed: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut saved = BTreeSet::new();
    let mut current = 0;
    for value in needed {
        let Made { main, joined, .. } = &made[*value - 1];
        let (main, joined) = match joined {
            Some(other) if *other == current => (*other, Some(*main)),
            other => (*main, *other),
        };
        saved.extend(joined);
        if main != current {
            saved.insert(main);
        }
        current = *value;
    }
    saved
}

/// Names of saved values, which begin anew with every layer, so that layers that compute the same are the same.
#[derive(Default)]
struct Names {
    values: Vec<usize>,
}

impl Names {
    fn give(&mut self, value: usize) -> String {
        self.values.push(value);
        self.of(value)
    }

    fn of(&self, value: usize) -> String {
        let place = self.values.iter().position(|given| *given == value);
        place.map_or_else(|| "x".into(), |place| format!("x{place}"))
    }
}
