//! Times of operations between ranks, and of plain copies.

use super::{MeasureError, MeasureSettings, Place, WorkerError, on_world};
use crate::device::{computes_in_place, device};
use crate::kernels::matrix_product;
use crate::network::operators::{from_vec, to_vec};
use crate::process_group::{GroupError, ProcessGroup, Reduction, Tag, World};
use crate::statistics::{median, quantile};
use burn::tensor::Tensor;
use std::sync::atomic::{AtomicBool, Ordering};
use trainyard_hardware_profiles::{CollectiveOperation, CollectiveSample, DeviceKind};
use trainyard_host::Clock;
use trainyard_host::threads_per_rank;
use trainyard_units::BytesPerSecond;

/// Bytes on each rank: from a few values to more than caches hold.
const BYTES: [usize; 6] = [64, 4 << 10, 64 << 10, 512 << 10, 4 << 20, 16 << 20];
const ELEMENT: usize = size_of::<f32>();
/// Repeats of each operation; those of large buffers take milliseconds.
const REPEATS: usize = 15;

/// Times sums, gathering, scattering, all-to-alls and messages for every number of ranks above one.
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
        samples.extend(measure_world(&World::threads(ranks), threads_per_rank(settings.cores, ranks), stop)?);
    }
    Ok(samples)
}

/// Times collectives of all ranks of `world`, and messages between its first and its last rank: where they live on
/// several hosts, over the network. All processes must call it; the times are those of this process's first rank.
///
/// # Errors
///
/// When it is stopped in the first process, or a rank fails.
pub fn measure_collectives_of(world: &World, stop: &AtomicBool) -> Result<Vec<CollectiveSample>, MeasureError> {
    measure_world(world, world.threads_per_rank(), stop)
}

fn measure_world(world: &World, threads: usize, stop: &AtomicBool) -> Result<Vec<CollectiveSample>, MeasureError> {
    let mut timed = on_world(world, threads, |group| {
        let mut timed = Vec::new();
        for bytes in BYTES {
            let mut flag = vec![f32::from(u8::from(stop.load(Ordering::Relaxed)))];
            group.broadcast(&mut flag, 0)?;
            if flag[0] > 0.0 {
                return Err(WorkerError::Stopped);
            }
            timed.push((CollectiveOperation::AllReduce, bytes, all_reduce_seconds(&group, bytes)?));
            timed.push((CollectiveOperation::Send, bytes, send_seconds(&group, bytes)?));
            timed.push((CollectiveOperation::AllGather, bytes, all_gather_seconds(&group, bytes)?));
            timed.push((CollectiveOperation::ReduceScatter, bytes, reduce_scatter_seconds(&group, bytes)?));
            timed.push((CollectiveOperation::AllToAll, bytes, all_to_all_seconds(&group, bytes)?));
        }
        Ok(timed)
    })?;
    let sample = |(operation, bytes, seconds)| CollectiveSample {
        operation,
        ranks: world.ranks() as u32,
        bytes: bytes as u64,
        seconds,
    };
    Ok(timed.swap_remove(0).into_iter().map(sample).collect())
}

fn all_reduce_seconds(group: &ProcessGroup, bytes: usize) -> Result<f64, GroupError> {
    let mut buffer = vec![0.5f32; bytes / ELEMENT];
    seconds(group, || group.all_reduce(&mut buffer, Reduction::Mean))
}

fn all_gather_seconds(group: &ProcessGroup, bytes: usize) -> Result<f64, GroupError> {
    let own = vec![0.5f32; (bytes / ELEMENT).div_ceil(group.size())];
    seconds(group, || group.all_gather(&own).map(drop))
}

fn reduce_scatter_seconds(group: &ProcessGroup, bytes: usize) -> Result<f64, GroupError> {
    let mut buffer = vec![0.5f32; bytes / ELEMENT];
    seconds(group, || group.reduce_scatter(&mut buffer, Reduction::Mean).map(drop))
}

fn all_to_all_seconds(group: &ProcessGroup, bytes: usize) -> Result<f64, GroupError> {
    let part = vec![0.5f32; (bytes / ELEMENT).div_ceil(group.size())];
    seconds(group, || group.all_to_all(vec![part.clone(); group.size()]).map(drop))
}

/// Returns the median time of something that all ranks do together.
fn seconds(group: &ProcessGroup, mut act: impl FnMut() -> Result<(), GroupError>) -> Result<f64, GroupError> {
    let mut times = Vec::new();
    for _ in 0..REPEATS + 2 {
        group.barrier()?;
        let clock = Clock::start();
        act()?;
        times.push(clock.seconds());
    }
    // The first two touch memory for the first time.
    Ok(median(&times[2..]))
}

/// Returns half of the time until a message has come back from the last rank, including what makes and takes it: one
/// copy.
fn send_seconds(group: &ProcessGroup, bytes: usize) -> Result<f64, GroupError> {
    let payload = vec![0.5f32; bytes / ELEMENT];
    let last = group.size() - 1;
    let mut times = Vec::new();
    for _ in 0..REPEATS + 2 {
        group.barrier()?;
        let clock = Clock::start();
        if group.rank() == 0 {
            group.send(last, Tag(0), payload.clone())?;
            drop(group.recv(last, Tag(0))?);
        } else if group.rank() == last {
            drop(group.recv(0, Tag(0))?);
            group.send(0, Tag(0), payload.clone())?;
        }
        times.push(clock.seconds() / 2.0);
    }
    group.barrier()?;
    Ok(median(&times[2..]))
}

/// Elements of the square products that [`measure_overlap`] has under way, and of the sums beside them.
const BESIDE: (usize, usize) = (192, 1 << 18);

/// The most of a sum that is taken to be lost to kernels: beyond, the two go one after the other.
const LOST_MAX: f64 = 0.95;

/// Measures the factor by which kernels slow down while an all-reduce over all ranks is under way beside them, each
/// rank having its share of the processors; `None` with one rank. Products and sums are timed apart and together: of
/// the time T of the sums, the part c = (together − products) / T is lost to the products, which then take 1 / (1 − c)
/// as long.
///
/// # Errors
///
/// When it is stopped, or a rank cannot be started.
pub fn measure_overlap(settings: &MeasureSettings, stop: &AtomicBool) -> Result<Option<f64>, MeasureError> {
    let Some(ranks) = settings.ranks.iter().copied().max().filter(|ranks| *ranks > 1) else { return Ok(None) };
    overlap(&World::threads(ranks), threads_per_rank(settings.cores, ranks), settings.device, stop)
}

/// Performs [`measure_overlap`] with the ranks of `world`. All processes must call it.
///
/// # Errors
///
/// When it is stopped in the first process, or a rank fails.
pub fn measure_overlap_of(world: &World, kind: DeviceKind, stop: &AtomicBool) -> Result<Option<f64>, MeasureError> {
    if world.ranks() == 1 { Ok(None) } else { overlap(world, world.threads_per_rank(), kind, stop) }
}

fn overlap(world: &World, threads: usize, kind: DeviceKind, stop: &AtomicBool) -> Result<Option<f64>, MeasureError> {
    let mut share = LOST_MAX;
    for _ in 0..OVERLAPS {
        let (lost, is_steady) = lost(world, threads, kind, stop)?;
        // Other programs make it more and never less.
        share = share.min(lost);
        if is_steady {
            break;
        }
    }
    Ok(Some(share / (1.0 - share)))
}

/// How often it is measured at most while times differ too much.
const OVERLAPS: usize = 3;

/// The range between the quartiles of the parts of a sum that are lost from which they are noise.
const OVERLAP_NOISY: f64 = 0.5;

/// Returns the part of the sums' time that products lose, and whether its measurements agree.
fn lost(world: &World, threads: usize, kind: DeviceKind, stop: &AtomicBool) -> Result<(f64, bool), MeasureError> {
    let lost = on_world(world, threads, |group| {
        let place = Place::new(kind, device(kind, group.place_on_host())?);
        let mut shares = Vec::new();
        for _ in 0..REPEATS {
            let mut flag = vec![f32::from(u8::from(stop.load(Ordering::Relaxed)))];
            group.broadcast(&mut flag, 0)?;
            if flag[0] > 0.0 {
                return Err(WorkerError::Stopped);
            }
            shares.push(share_lost(&group, &place)?);
        }
        place.clear();
        // The first one touches memory for the first time.
        let shares = &shares[1..];
        Ok([median(shares), quantile(shares, 0.75) - quantile(shares, 0.25)])
    })?;
    let mean = |of: usize| lost.iter().map(|rank| rank[of]).sum::<f64>() / lost.len() as f64;
    Ok((mean(0).clamp(0.0, LOST_MAX), mean(0) < LOST_MAX && mean(1) < OVERLAP_NOISY))
}

/// Returns the time that products lose to sums beside them, as a part of the sums' time.
fn share_lost(group: &ProcessGroup, place: &Place) -> Result<f64, WorkerError> {
    const PRODUCTS: usize = 12;
    const SUMS: usize = 6;
    let (side, length) = BESIDE;
    let matrix = || Tensor::<2>::ones([side, side], &place.device);
    let multiply = || {
        let product = || (0..PRODUCTS).fold(matrix(), |product, _| matrix_product(product, matrix()));
        let (result, seconds) = place.timed(product);
        std::hint::black_box(result);
        seconds
    };
    let sum = || -> Result<f64, GroupError> {
        let mut buffer = vec![0.5f32; length];
        let clock = Clock::start();
        (0..SUMS).try_for_each(|_| group.all_reduce(&mut buffer, Reduction::Mean))?;
        Ok(clock.seconds())
    };
    group.barrier()?;
    let products = multiply();
    group.barrier()?;
    let sums = sum()?;
    group.barrier()?;
    let clock = Clock::start();
    let beside = std::thread::scope(|scope| {
        let beside = scope.spawn(sum);
        multiply();
        beside.join().expect("sums do not panic")
    });
    let together = clock.seconds();
    beside?;
    group.barrier()?;
    Ok((together - products) / sums)
}

/// Returns the rate at which a rank moves its values to where they can be sent: bytes copied, not read plus written.
///
/// # Errors
///
/// When there is no such device.
pub fn copy_bandwidth(kind: DeviceKind) -> Result<BytesPerSecond, MeasureError> {
    if computes_in_place(kind) {
        return Ok(memory_bandwidth());
    }
    let place = Place::new(kind, device(kind, 0)?);
    let bandwidth = staging_bandwidth(&place);
    place.clear();
    Ok(bandwidth)
}

/// Bytes that are copied to learn how fast that is: more than caches hold.
const SIZE: usize = 32 << 20;

/// Returns the rate between main memory and a device, as the mean of both ways.
fn staging_bandwidth(place: &Place) -> BytesPerSecond {
    let values = vec![0.5f32; SIZE / ELEMENT];
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let values = values.clone();
        let there_and_back = || to_vec(from_vec(values, [SIZE / ELEMENT], &place.device));
        let (result, seconds) = place.timed(there_and_back);
        std::hint::black_box(result);
        times.push(seconds / 2.0);
    }
    // The first ones touch memory for the first time.
    BytesPerSecond(SIZE as f64 / median(&times[2..]))
}

/// Returns the rate at which one thread copies memory that caches do not hold.
fn memory_bandwidth() -> BytesPerSecond {
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
        let settings = MeasureSettings { ranks: vec![1, 2, 3], seconds_per_case: 0.0, ..MeasureSettings::for_cores(2) };
        let samples = measure_collectives(&settings, &AtomicBool::new(false)).expect("it ends");
        assert_eq!(samples.len(), 2 * 5 * BYTES.len());
        assert!(samples.iter().all(|sample| sample.seconds > 0.0));
        assert!(copy_bandwidth(DeviceKind::Cpu).expect("there are processors").0 > 1e8);
        let device = device(DeviceKind::Cpu, 0).expect("as well");
        let processor = Place::new(DeviceKind::Cpu, device);
        assert!(staging_bandwidth(&processor).0 > 1e7);
        let slowdown = measure_overlap(&settings, &AtomicBool::new(false)).expect("it ends").expect("several ranks");
        assert!((0.0..=LOST_MAX / (1.0 - LOST_MAX) + 1e-6).contains(&slowdown), "{slowdown}");
        let alone = MeasureSettings { ranks: vec![1], ..settings };
        assert_eq!(measure_overlap(&alone, &AtomicBool::new(false)), Ok(None));
    }
}
