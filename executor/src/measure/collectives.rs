//! Times of operations between ranks, and of plain copies.

use super::{MeasureError, MeasureSettings, WorkerError, on_ranks};
use crate::clock::Clock;
use crate::process_group::{GroupError, ProcessGroup, Reduction, Tag};
use crate::refusal::threads_per_rank;
use crate::statistics::median;
use std::sync::atomic::{AtomicBool, Ordering};
use trainyard_hardware_profiles::{CollectiveOperation, CollectiveSample};
use trainyard_units::BytesPerSecond;

/// Bytes on each rank: from a few values to more than caches hold.
const BYTES: [usize; 6] = [64, 4 << 10, 64 << 10, 512 << 10, 4 << 20, 16 << 20];
const ELEMENT: usize = size_of::<f32>();
/// Repeats of each operation; those of large buffers take milliseconds.
const REPEATS: usize = 15;

/// Times all-reduces and messages for every number of ranks above one.
///
/// # Errors
///
/// When it is stopped, or a rank cannot be started.
pub fn measure_collectives(
    settings: &MeasureSettings,
    stop: &AtomicBool,
) -> Result<Vec<CollectiveSample>, MeasureError> {
    let mut samples = Vec::new();
    for ranks in settings.ranks.iter().copied().filter(|ranks| *ranks > 1) {
        let threads = threads_per_rank(settings.cores, ranks);
        let mut timed = on_ranks(ranks, threads, |group| {
            let mut timed = Vec::new();
            for bytes in BYTES {
                let mut flag = vec![f32::from(u8::from(stop.load(Ordering::Relaxed)))];
                group.broadcast(&mut flag, 0)?;
                if flag[0] > 0.0 {
                    return Err(WorkerError::Stopped);
                }
                timed.push((CollectiveOperation::AllReduce, bytes, all_reduce_seconds(&group, bytes)?));
                timed.push((CollectiveOperation::Send, bytes, send_seconds(&group, bytes)?));
            }
            Ok(timed)
        })?;
        let first = timed.swap_remove(0);
        samples.extend(first.into_iter().map(|(operation, bytes, seconds)| CollectiveSample {
            operation,
            ranks: ranks as u32,
            bytes: bytes as u64,
            seconds,
        }));
    }
    Ok(samples)
}

fn all_reduce_seconds(group: &ProcessGroup, bytes: usize) -> Result<f64, GroupError> {
    let mut buffer = vec![0.5f32; bytes / ELEMENT];
    let mut times = Vec::new();
    for _ in 0..REPEATS + 2 {
        group.barrier()?;
        let clock = Clock::start();
        group.all_reduce(&mut buffer, Reduction::Mean)?;
        times.push(clock.seconds());
    }
    // The first two touch memory for the first time.
    Ok(median(&times[2..]))
}

/// Half of the time until a message has come back from the next rank, with what makes and takes it: one copy.
fn send_seconds(group: &ProcessGroup, bytes: usize) -> Result<f64, GroupError> {
    let payload = vec![0.5f32; bytes / ELEMENT];
    let mut times = Vec::new();
    for _ in 0..REPEATS + 2 {
        group.barrier()?;
        let clock = Clock::start();
        match group.rank() {
            0 => {
                group.send(1, Tag(0), payload.clone())?;
                drop(group.recv(1, Tag(0))?);
            }
            1 => {
                drop(group.recv(0, Tag(0))?);
                group.send(0, Tag(0), payload.clone())?;
            }
            _ => {}
        }
        times.push(clock.seconds() / 2.0);
    }
    group.barrier()?;
    Ok(median(&times[2..]))
}

/// The rate at which one thread copies memory that caches do not hold: bytes copied, not read plus written.
pub fn copy_bandwidth() -> BytesPerSecond {
    const SIZE: usize = 32 << 20;
    let from = vec![1u8; SIZE];
    let mut to = vec![0u8; SIZE];
    let times: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let clock = Clock::start();
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
            clock.seconds()
        })
        .collect();
    BytesPerSecond(SIZE as f64 / median(&times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_timed_for_every_number_of_ranks_above_one() {
        let settings = MeasureSettings { cores: 2, ranks: vec![1, 2, 3], seconds_per_case: 0.0 };
        let samples = measure_collectives(&settings, &AtomicBool::new(false)).expect("it ends");
        assert_eq!(samples.len(), 2 * 2 * BYTES.len());
        assert!(samples.iter().all(|sample| sample.seconds > 0.0));
        assert!(copy_bandwidth().0 > 1e8);
    }
}
