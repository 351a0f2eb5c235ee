//! What a device of each stage holds, as stacked bars against what it has.

use crate::chart::{
    Breadth, Colour, HEAD, Legend, Letters, MARGIN, Picture, Rows, Sample, Side, Tone, customary, measure, title,
};
use crate::format::{bytes, percent};
use trainyard_plan::document::{Memory, StageMemory};

/// A part of the memory: name, fill, and its bytes in the document.
type Part = (&'static str, Tone, fn(&StageMemory) -> u64);

fn parts() -> [Part; 6] {
    [
        ("weights", Colour::Blue.into(), StageMemory::weights),
        ("gradients", Colour::Sky.into(), |held| held.gradients),
        ("optimizer state", Colour::Amber.into(), |held| held.optimizer_state),
        ("activations", Colour::Green.into(), |held| held.activations),
        ("buffers and workspace", Colour::Purple.into(), StageMemory::buffers_and_workspace),
        ("software", Colour::Muted.into(), |held| held.software),
    ]
}

/// Draws a bar for each stage of a plan of a model, or for neighbouring stages that hold the same: the memory that one
/// of their devices uses, and its capacity.
///
/// # Errors
///
/// Returns a sentence if there is no stage.
pub fn memory_plot(model: &str, memory: &Memory, breadth: Breadth) -> Result<Picture, String> {
    let stages = grouped(memory);
    if stages.is_empty() {
        return Err("there is no stage to draw".into());
    }
    let shown = parts();
    let named = shown.iter().filter(|(.., part)| memory.stages.iter().any(|held| part(held) > 0));
    let legend = named.map(|(name, tone, _)| (Sample::Block(*tone), (*name).to_owned()));
    let legend = legend.chain([(Sample::Line(Colour::Orange), format!("a device has {}", bytes(memory.limit)))]);
    let legend = Legend::of([MARGIN, breadth.width() - MARGIN], legend);
    let names: Vec<String> = stages.iter().map(|(name, _)| name.clone()).collect();
    let told = |held: &StageMemory| {
        format!("{}, {}", bytes(held.total), percent(held.total as f64 / memory.limit_of(held).max(1) as f64))
    };
    let after = stages.iter().map(|(_, held)| measure(&told(held), Letters::PLAIN)).max().unwrap_or(0) + 10;
    let rows = Rows::of(breadth, HEAD + legend.height() + 12, &names, after);
    let name = format!("{model}: memory of a device, by stage");
    let mut picture = Picture::new(name.as_str(), (breadth.width(), rows.bottom() + 46));
    title(&mut picture, &name);
    legend.draw(&mut picture, HEAD);
    // The parts in a document may add up to more than their total.
    let drawn =
        stages.iter().map(|(_, held)| shown.iter().fold(0, |sum: u64, (.., part)| sum.saturating_add(part(held))));
    let most = drawn.chain([memory.peak(), memory.limit]).max().unwrap_or(0) as f64 * 1.02;
    let x = |size: u64| rows.left + (size as f64 / most * f64::from(rows.right - rows.left)).round() as i32;
    marks(&mut picture, &rows, most, x);
    for (row, (name, held)) in stages.iter().enumerate() {
        rows.name(&mut picture, row, name, Letters::PLAIN);
        let mut sum: u64 = 0;
        for (_, tone, part) in &shown {
            let from = sum;
            sum = sum.saturating_add(part(held));
            if x(sum) > x(from) {
                picture.bar(rows.part(row, [x(from), x(sum)]), *tone);
            }
        }
        picture.words(told(held), (rows.right + 10, rows.middle(row)), Side::Left, Letters::PLAIN);
    }
    let limit = x(memory.limit);
    picture.path(vec![(limit, rows.top), (limit, rows.bottom())], Colour::Orange, 2);
    Ok(picture)
}

fn marks(picture: &mut Picture, rows: &Rows, most: f64, x: impl Fn(u64) -> i32) {
    let gib = f64::from(1 << 30);
    // A few bytes are told as such where a model is tiny.
    let (unit, name) = if most >= 2.0 * gib { (gib, "GiB") } else { (f64::from(1 << 20), "MiB") };
    let step = customary(most / unit / 5.0);
    let values = (0..).map(|mark| f64::from(mark) * step).take_while(|value| value * unit <= most);
    for value in values {
        let at = x((value * unit) as u64);
        picture.line((at, rows.top), (at, rows.bottom() + 4), Colour::Grid);
        picture.words(format!("{value}"), (at, rows.bottom() + 14), Side::Middle, Letters::MUTED);
    }
    let middle = i32::midpoint(rows.left, rows.right);
    picture.words(name, (middle, rows.bottom() + 32), Side::Middle, Letters::MUTED);
}

/// Groups stages with their names; neighbours that hold the same share a row.
fn grouped(memory: &Memory) -> Vec<(String, StageMemory)> {
    let stages: Vec<(usize, &StageMemory)> = memory.stages.iter().enumerate().collect();
    let groups = stages.chunk_by(|(_, one), (_, other)| one == other);
    let name = |group: &[(usize, &StageMemory)]| match group {
        [(only, _)] => format!("stage {only}"),
        [(first, _), .., (last, _)] => format!("stages {first} to {last}"),
        [] => String::new(),
    };
    groups.map(|group| (name(group), *group[0].1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::tests::plan_document;

    #[test]
    fn every_stage_has_its_bar_and_the_limit_is_told() {
        for breadth in [Breadth::Wide, Breadth::Narrow] {
            let picture =
                memory_plot("gpt2", &plan_document().prediction.memory_bytes, breadth).expect("a plan with stages");
            for words in ["memory of a device", "weights", "software", "GiB", "a device has 40.0 GiB", "stages 0 to 1"]
            {
                assert!(picture.text().contains(words), "{words}: {}", picture.text());
            }
            assert!(picture.outside().is_empty(), "{:?}", picture.outside());
        }
    }

    #[test]
    fn parts_that_are_more_than_their_total_stay_within_the_picture() {
        let mut memory = plan_document().prediction.memory_bytes;
        (memory.stages[0].activations, memory.stages[0].workspace) = (u64::MAX, 1 << 63);
        let picture = memory_plot("gpt2", &memory, Breadth::Wide).expect("a plan with stages");
        assert!(picture.outside().is_empty(), "{:?}", picture.outside());
    }

    #[test]
    fn stages_that_hold_the_same_share_a_row() {
        let mut memory = plan_document().prediction.memory_bytes;
        let held = memory.stages[0];
        memory.stages = vec![StageMemory { software: 1, ..held }, held, held, held];
        let names: Vec<String> = grouped(&memory).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["stage 0", "stages 1 to 3"]);
    }
}
