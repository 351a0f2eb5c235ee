//! Changes to tables: cells replaced, exchanged and removed, rows repeated.

use crate::{Dice, EDGES, mutate};

/// Changes a table whose cells stand between commas.
pub fn mutate_csv(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    mutate(data, size, max, seed, |text, dice| changed(text, dice, ","))
}

/// Changes words that stand between spaces.
pub fn mutate_words(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    mutate(data, size, max, seed, |text, dice| changed(text, dice, " "))
}

/// Changes cells between commas or between spaces.
pub fn mutate_cells(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    let change = if seed.is_multiple_of(2) { mutate_csv } else { mutate_words };
    change(data, size, max, seed)
}

/// Changes values that stand behind equals signs.
pub fn mutate_settings(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    mutate(data, size, max, seed, |text, dice| {
        let mark = dice.pick(&["=", ",", "..", "/"]);
        changed(text, dice, mark)
    })
}

fn changed(text: &[u8], dice: &mut Dice, between: &str) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(between).collect()).collect();
    if rows.is_empty() {
        return None;
    }
    for _ in 0..=dice.below(3) {
        let (row, other) = (dice.below(rows.len()), dice.below(rows.len()));
        let cell = dice.below(rows[row].len());
        match dice.below(8) {
            0 => rows.insert(row, rows[other].clone()),
            1 if rows.len() > 1 => {
                rows.remove(row);
            }
            2 => rows[row][cell] = "",
            3 => rows[row][cell] = rows[other].get(cell).copied().unwrap_or("nan"),
            4 => {
                let from = dice.below(rows[other].len());
                rows[row][cell] = rows[other][from];
            }
            _ => rows[row][cell] = dice.pick(&EDGES),
        }
        if rows.is_empty() {
            return None;
        }
    }
    let lines: Vec<String> = rows.iter().map(|row| row.join(between)).collect();
    Some((lines.join("\n") + "\n").into_bytes())
}
