//! Rates at which the processors of a machine decode.

use crate::machine::Machine;
use trainyard_hardware_profiles::{Loader, Processors, catalog};
use trainyard_plan::SampleFormat;
use trainyard_units::{BytesPerSecond, Seconds};

/// The load of one sample on a loader.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Bytes as stored.
    pub(super) stored: f64,
    /// Bytes that are handed to training.
    pub(super) decoded: f64,
    pub(super) format: SampleFormat,
}

/// Seconds in which a loader decodes a sample with `workers` processes, when `loaders` loaders share the processors of
/// a machine equally: what the workers do in parallel and then what handing over takes, which they do not (Amdahl,
/// AFIPS 1967). Threads of a core share it.
pub(super) fn seconds_per_sample(
    loader: &Loader,
    processors: Processors,
    loaders: u32,
    workers: u32,
    sample: Sample,
) -> Seconds {
    let speed = processors.coremark / loader.coremark.value;
    let rate = match sample.format {
        SampleFormat::Jpeg => &loader.jpeg,
        SampleFormat::Raw => &loader.raw,
        SampleFormat::Npz => &loader.npz,
        SampleFormat::Tokens => &loader.tokens,
    };
    let vcpus = f64::from(processors.vcpus) / f64::from(loaders.max(1));
    let busy = busy_vcpus(vcpus, processors.threads_per_core, loader.hyper_threading.value, workers);
    let parallel = sample.stored / (rate.value.0 * speed * busy);
    let BytesPerSecond(handover) = loader.handover.value;
    Seconds(parallel + sample.decoded / (handover * speed))
}

/// As how many virtual processors, each beside a busy neighbour, `workers` processes work on `vcpus` of them. A process
/// alone on its core has what two have together over `hyper_threading`.
fn busy_vcpus(vcpus: f64, threads_per_core: u32, hyper_threading: f64, workers: u32) -> f64 {
    let threads = f64::from(threads_per_core.max(1));
    let (cores, workers) = (vcpus / threads, f64::from(workers).min(vcpus));
    let alone = if threads > 1.0 { threads / hyper_threading } else { 1.0 };
    if workers <= cores || threads <= 1.0 {
        return workers * alone;
    }
    let beside = (workers - cores) / (vcpus - cores);
    cores * alone + beside * (vcpus - cores * alone)
}

/// The time in which the processors of a cluster read, decode and augment so many images with the framework's own
/// pipeline, all at work; nothing where the stack states no time for an image or a machine no processors.
pub fn image_decoding(machine: &Machine, images: u64) -> Seconds {
    let Some(decoding) = &machine.stack.image_decoding else { return Seconds::ZERO };
    let pools = machine.cluster.pools.iter();
    let reference = catalog().loader().coremark.value;
    let speeds = pools.map(|pool| {
        let processors = pool.host.as_ref().and_then(|host| host.processors.as_ref());
        let speed = |one: &Processors| f64::from(one.vcpus) * one.coremark / reference;
        f64::from(pool.instances) * processors.map_or(0.0, speed)
    });
    let together: f64 = speeds.sum();
    if together > 0.0 { Seconds(decoding.value.0 * images as f64 / together) } else { Seconds::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;
    use trainyard_hardware_profiles::Sourced;

    fn processors(vcpus: u32, coremark: f64) -> Processors {
        Processors { vcpus, threads_per_core: 2, coremark, single_thread: 1.0 }
    }

    const IMAGE: Sample = Sample { stored: 114_660.0, decoded: 602_112.0, format: SampleFormat::Jpeg };

    fn rate(processors: Processors, loaders: u32, workers: u32) -> f64 {
        1.0 / seconds_per_sample(catalog().loader(), processors, loaders, workers, IMAGE).0
    }

    #[test]
    fn all_processors_together_have_what_is_stated_for_each() {
        let loader = catalog().loader();
        let sample = Sample { decoded: 0.0, ..IMAGE };
        let own = processors(96, loader.coremark.value);
        let seconds = seconds_per_sample(loader, own, 1, 96, sample);
        assert!((seconds.0 * 96.0 * loader.jpeg.value.0 / sample.stored - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_thread_alone_on_its_core_has_more_than_half_of_it() {
        assert!((busy_vcpus(8.0, 2, 1.3, 1) - 2.0 / 1.3).abs() < 1e-12);
        assert!((busy_vcpus(8.0, 2, 1.3, 4) - 8.0 / 1.3).abs() < 1e-12);
        assert!((busy_vcpus(8.0, 2, 1.3, 8) - 8.0).abs() < 1e-12);
        assert!((busy_vcpus(8.0, 1, 1.3, 5) - 5.0).abs() < 1e-12);
        assert!((busy_vcpus(0.5, 2, 1.3, 3) - 0.5).abs() < 1e-12);
    }

    /// ternaus/imread_benchmark, April 2026: images a second of one thread, the best of a PyTorch `DataLoader` on 16
    /// virtual processors, and with how many workers. The last two have cores of one thread.
    const DATA_LOADER: [(f64, f64, u32, u32); 10] = [
        (537.0, 1283.0, 4, 2),
        (726.0, 2465.0, 8, 2),
        (577.0, 1565.0, 8, 2),
        (621.0, 1596.0, 8, 2),
        (864.0, 2920.0, 8, 2),
        (712.0, 1612.0, 4, 2),
        (360.0, 1387.0, 8, 1),
        (551.0, 2350.0, 8, 1),
        (440.0, 1504.0, 8, 1),
        (643.0, 2557.0, 8, 1),
    ];

    #[test]
    fn loaders_gain_from_workers_what_was_published() {
        // The share of a thread's time that handing over takes, on which the catalog's rate was fitted.
        const SERIAL: f64 = 0.17;
        let error = |(alone, published, workers, threads): &(f64, f64, u32, u32)| {
            let busy = busy_vcpus(16.0, *threads, 1.3, *workers) / busy_vcpus(16.0, *threads, 1.3, 1);
            (alone / (SERIAL + 1.0 / busy) / published - 1.0).abs()
        };
        let errors: Vec<f64> = DATA_LOADER.iter().map(error).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!(mean < 0.15 && errors.iter().all(|error| *error < 0.4), "{errors:?}");
        let linear =
            |(alone, published, workers, _): &(f64, f64, u32, u32)| alone * f64::from(*workers) / published - 1.0;
        assert!(DATA_LOADER.iter().all(|row| linear(row) > 0.5), "without it every one would be far too fast");
    }

    #[test]
    fn images_take_all_processors_of_all_machines() {
        let machine = |instances, decoding: Option<f64>| {
            let mut stack = catalog().stack("pytorch").expect("in the catalog").clone();
            Arc::make_mut(&mut stack).image_decoding = decoding.map(|time| Sourced::new(Seconds(time), "a test"));
            Machine { cluster: catalog().cluster("p3dn.24xlarge", instances).expect("in the catalog"), stack }
        };
        // 96 virtual processors of the kind for which rates hold: 960 images of 10 ms are 0.1 s.
        assert!((image_decoding(&machine(1, Some(0.01)), 960).0 - 0.1).abs() < 1e-9);
        assert!((image_decoding(&machine(4, Some(0.01)), 960).0 - 0.025).abs() < 1e-9);
        assert_eq!(image_decoding(&machine(1, None), 960), Seconds::ZERO);
    }

    proptest! {
        #[test]
        fn more_workers_are_never_slower_and_never_linear(vcpus in 1u32..200, loaders in 1u32..9, workers in 1u32..200) {
            let own = processors(vcpus, 15_000.0);
            let (fewer, more) = (rate(own, loaders, workers), rate(own, loaders, workers + 1));
            prop_assert!(more >= fewer * (1.0 - 1e-12));
            prop_assert!(more / fewer <= f64::from(workers + 1) / f64::from(workers) * (1.0 + 1e-12));
        }

        #[test]
        fn faster_processors_decode_faster(vcpus in 2u32..200, workers in 1u32..200) {
            prop_assert!(rate(processors(vcpus, 20_000.0), 1, workers) > rate(processors(vcpus, 12_000.0), 1, workers));
        }
    }
}
