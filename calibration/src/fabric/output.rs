//! Output of nccl-tests.
//!
//! # Source
//!
//! NVIDIA/nccl-tests, `src/common.cu` and doc/PERFORMANCE.md: times in µs, bandwidths in GB/s of 10⁹ bytes, bus
//! bandwidth over algorithm bandwidth by operation.

use super::SweepRow;
use crate::collectives::Measured;
use crate::table::TableError;
use std::collections::BTreeSet;
use trainyard_plan::Collective;

/// Bytes from which on bandwidths are printed with enough digits to tell operations apart.
const TELLING: u64 = 1 << 20;

/// Tells whether a text is output of nccl-tests.
pub(crate) fn is_output(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        line.starts_with('#') && (line.contains("nThread ") || (line.contains("algbw") && line.contains("busbw")))
    })
}

/// The run that a line belongs to, as far as it is known.
#[derive(Default)]
struct Run {
    program: Option<Collective>,
    ranks: u32,
    hosts: BTreeSet<String>,
    gpu: Option<String>,
    /// Columns of the header, once it was seen.
    columns: Vec<String>,
    lines: Vec<Line>,
}

/// A row of numbers.
struct Line {
    bytes: u64,
    seconds: Vec<f64>,
    /// Bus bandwidth over algorithm bandwidth, where both have digits enough.
    ratio: Option<f64>,
    reduces: bool,
}

/// All measurements of a text, in its order, out of place before in place.
pub(super) fn rows(text: &str, file: &str) -> Result<Vec<SweepRow>, TableError> {
    let mut rows = Vec::new();
    let mut run = Run::default();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if let Some(program) = Collective::ALL.into_iter().find(|known| line.contains(known.nccl_test())) {
            // What a shell or a launcher says of the next run.
            if !run.lines.is_empty() {
                rows.extend(run.finish(file)?);
                run = Run::default();
            }
            run.program = Some(program);
        }
        match line.strip_prefix('#') {
            Some(comment) => {
                if comment.contains("nThread ") && !run.lines.is_empty() {
                    rows.extend(run.finish(file)?);
                    run = Run::default();
                }
                run.comment(comment, file, number)?;
            }
            None if line.starts_with(|c: char| c.is_ascii_digit()) && !run.columns.is_empty() => {
                let read = run.line(line, file, number)?;
                run.lines.push(read);
            }
            None => {}
        }
    }
    rows.extend(run.finish(file)?);
    Ok(rows)
}

fn wrong(file: &str, line: u64, column: &str, value: &str, allowed: &str) -> TableError {
    let mut error = TableError::cell(file, line, column, value, allowed);
    let hint = "give the output of nccl-tests as it was printed, or a table of collectives";
    error.invalid = error.invalid.with_hint(hint);
    error
}

impl Run {
    fn comment(&mut self, comment: &str, file: &str, number: u64) -> Result<(), TableError> {
        let words: Vec<&str> = comment.split_whitespace().collect();
        if words.first() == Some(&"Rank") && words.contains(&"device") {
            self.ranks += 1;
            self.hosts.extend(after(&words, "on").map(str::to_owned));
            self.gpu = comment.rsplit(']').next().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        } else if words.contains(&"size") && words.contains(&"time") {
            self.columns = words.iter().map(|word| (*word).to_owned()).collect();
        } else if !self.columns.is_empty() && self.lines.is_empty() {
            let other = |word: &&&str| word.ends_with("s)") && !["(us)", "(elements)", "(GB/s)"].contains(*word);
            if let Some(unit) = words.iter().find(other) {
                return Err(wrong(file, number, "time", unit, "in (us), as nccl-tests print it"));
            }
        } else if let Some(gpus) = after(&words, "nGpus") {
            gpus.parse::<u32>().map_err(|_| wrong(file, number, "nGpus", gpus, "a number of GPUs"))?;
        }
        Ok(())
    }

    fn line(&self, line: &str, file: &str, number: u64) -> Result<Line, TableError> {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let times: Vec<usize> = (0..self.columns.len()).filter(|index| self.columns[*index] == "time").collect();
        let number_at = |index: usize, allowed: &str| -> Result<f64, TableError> {
            let column = self.columns.get(index).map_or("", String::as_str);
            let cell = cells.get(index).copied().unwrap_or("");
            let value = cell.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
            value.ok_or_else(|| wrong(file, number, column, cell, allowed))
        };
        let size = self.columns.iter().position(|column| column == "size").unwrap_or(0);
        let bytes = cells.get(size).copied().unwrap_or("");
        let bytes: u64 = bytes.parse().map_err(|_| wrong(file, number, "size", bytes, "a whole number of bytes"))?;
        let mut seconds = Vec::new();
        for index in &times {
            let microseconds = number_at(*index, "a time in microseconds above 0")?;
            if microseconds == 0.0 && bytes > 0 {
                return Err(wrong(file, number, "time", cells[*index], "a time in microseconds above 0"));
            }
            seconds.push(microseconds * 1e-6);
        }
        let bandwidth = |index: usize| number_at(index, "a bandwidth in GB/s");
        let first = times[0];
        let (algorithm, bus) = (bandwidth(first + 1)?, bandwidth(first + 2)?);
        let reduces = cells.iter().any(|cell| ["sum", "prod", "max", "min", "avg", "mulsum"].contains(cell));
        let ratio = (bytes >= TELLING && algorithm >= 0.5).then(|| bus / algorithm);
        Ok(Line { bytes, seconds, ratio, reduces })
    }

    /// The collective of the measured program: the one that the text names, or that its bandwidths and its sums tell.
    fn collective(&self, file: &str) -> Result<Collective, TableError> {
        if let Some(program) = self.program {
            return Ok(program);
        }
        let unclear = |value: String| {
            let allowed = Collective::ALL.map(Collective::nccl_test).join(", ");
            wrong(file, 1, "program", &value, &format!("one of {allowed}, named anywhere in the text"))
        };
        let largest = self.lines.iter().rev().find_map(|line| line.ratio.map(|ratio| (ratio, line.reduces)));
        let Some((ratio, reduces)) = largest else { return Err(unclear("not told".into())) };
        let n = f64::from(self.ranks);
        let is = |collective: Collective| (ratio / collective.bus_factor(n) - 1.0).abs() < 0.02;
        match (reduces, n > 1.0) {
            (true, true) if is(Collective::AllReduce) => Ok(Collective::AllReduce),
            (true, true) if is(Collective::ReduceScatter) => Ok(Collective::ReduceScatter),
            (false, true) if is(Collective::Transfer) => Ok(Collective::Transfer),
            (false, true) if is(Collective::AllGather) => Ok(Collective::AllGather),
            _ => Err(unclear(format!("bus bandwidth {ratio:.3} times algorithm bandwidth"))),
        }
    }

    fn finish(&self, file: &str) -> Result<Vec<SweepRow>, TableError> {
        if self.lines.is_empty() {
            return Ok(Vec::new());
        }
        let nodes = self.hosts.len() as u32;
        if self.ranks < 2 || nodes == 0 {
            let found = format!("{} ranks on {nodes} hosts", self.ranks);
            let allowed = "at least two lines of the kind `#  Rank  0 ... on HOST device  0 [...] GPU`";
            return Err(wrong(file, 1, "Rank", &found, allowed));
        }
        let collective = self.collective(file)?;
        let of_line = |line: &Line| {
            let row = |seconds: &f64| SweepRow {
                measured: Measured::of_output(collective, self.ranks, nodes, line.bytes, *seconds),
                gpu: self.gpu.clone(),
            };
            line.seconds.iter().map(row).collect::<Vec<_>>()
        };
        Ok(self.lines.iter().filter(|line| line.bytes > 0).flat_map(of_line).collect())
    }
}

/// The word after another.
fn after<'a>(words: &[&'a str], word: &str) -> Option<&'a str> {
    words.windows(2).find(|two| two[0] == word).map(|two| two[1])
}
