use super::*;
use proptest::prelude::*;
use trainyard_plan::{Bottleneck, ParallelSpec, Placement};

const IMAGENET: DataSet = DataSet {
    samples: Some(1_281_167),
    bytes_per_sample: 114_660.0,
    bytes_deviation: 0.0,
    decoded_bytes: 602_112.0,
    format: SampleFormat::Jpeg,
    files: Some(1024),
    fsx_throughput: BytesPerSecond(125e6),
    fsx_size: None,
    ebs_throughput: BytesPerSecond(131_072_000.0),
    volume: None,
};

const STREAMED: InputSpec = InputSpec {
    storage: StorageMode::S3FastFile,
    decode: DecodePlace::Cpu,
    workers: 8,
    prefetch: 2,
    cache: Cache::None,
};

fn machine(instance: &str, instances: u32) -> Machine {
    let cluster = catalog().cluster(instance, instances).expect("in the catalog");
    Machine { cluster, stack: catalog().stack("pytorch").expect("in the catalog").clone() }
}

fn intake(parallel: ParallelSpec, global_batch: u64) -> Intake {
    Intake {
        mesh: Mesh::new(parallel, Placement::Cluster, None),
        global_batch,
        micro_batch: global_batch / u64::from(parallel.data),
    }
}

fn replicas(data: u32, global_batch: u64) -> Intake {
    intake(ParallelSpec { data, ..ParallelSpec::default() }, global_batch)
}

fn supply(intake: Intake, machine: &Machine, data: DataSet, input: InputSpec) -> Result<LoaderRates, Invalid> {
    LoaderRates::new(intake, machine, &data, input)
}

/// Samples a second of reading, decoding and copying.
fn rates(instance: &str, instances: u32, data: DataSet, input: InputSpec) -> [f64; 3] {
    let machine = machine(instance, instances);
    let devices = machine.cluster.devices();
    let intake = replicas(devices, 64 * u64::from(devices));
    supply(intake, &machine, data, input).expect("a supply").feed(Seconds(1e-9), 1).rates
}

#[test]
fn a_file_system_of_ones_own_is_shared_by_all_machines() {
    let rate = |rate| BytesPerSecond(rate);
    let shared = SharedStorage { read: rate(2e9), write: rate(1e9), machine: rate(8e8), open: Seconds(1e-3) };
    let input = InputSpec { storage: StorageMode::Shared, ..STREAMED };
    let read = |machines, data: DataSet| {
        let mut machine = machine("p3.16xlarge", machines);
        machine.cluster.shared_storage = Some(shared);
        let intake = replicas(8 * machines, 512 * u64::from(machines));
        supply(intake, &machine, data, input).expect("a supply").feed(Seconds(1e-9), 1).rates[0]
    };
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
    near(read(1, IMAGENET), 8e8 / IMAGENET.bytes_per_sample);
    near(read(4, IMAGENET), 2e9 / IMAGENET.bytes_per_sample);
    // Eight readers of eight workers each open a file a millisecond.
    let single = DataSet { files: IMAGENET.samples, bytes_per_sample: 1e3, ..IMAGENET };
    near(read(1, single), 64e3);
    let error = supply(replicas(8, 512), &machine("p3.16xlarge", 1), IMAGENET, input).expect_err("it has none");
    assert!(error.to_string().contains("no file system of your own"), "{error}");
}

#[test]
fn a_v100_is_faster_than_what_eight_processors_decode() {
    // ResNet-50 in mixed precision takes 1 156 images a second on a V100 (NVIDIA, DeepLearningExamples); PIL decodes
    // 100 to 150 a second on each of the four cores of p3.2xlarge.
    let [read, decode, copy] = rates("p3.2xlarge", 1, IMAGENET, InputSpec { workers: 8, ..STREAMED });
    assert!((300.0..700.0).contains(&decode), "{decode}");
    assert!(read > 2000.0 && copy > 10_000.0, "{read} {copy}");
    let machine = machine("p3.2xlarge", 1);
    let step = Seconds(256.0 / 1156.0);
    let feed = supply(replicas(1, 256), &machine, IMAGENET, STREAMED).expect("a supply").feed(step, 1000);
    assert_eq!(feed.slowest, Some(Bottleneck::Decode));
    assert!(feed.utilisation < 0.6 && (feed.step_time.0 - step.0 - feed.stall.0).abs() < 1e-12);
}

#[test]
fn engines_of_gpus_decode_more_than_processors_where_there_are_some() {
    let on = |decode| rates("p4d.24xlarge", 1, IMAGENET, InputSpec { decode, workers: 12, ..STREAMED });
    let (processors, engines) = (on(DecodePlace::Cpu), on(DecodePlace::Gpu));
    assert!(engines[1] > 10.0 * processors[1], "{engines:?} {processors:?}");
    // What is decoded on the device is copied as it is stored.
    assert!(engines[2] > processors[2]);
    let refused = |instance, data| {
        let input = InputSpec { decode: DecodePlace::Gpu, ..STREAMED };
        supply(replicas(1, 64), &machine(instance, 1), data, input).expect_err("no engine").to_string()
    };
    assert!(refused("p3.2xlarge", IMAGENET).ends_with("`v100-sxm2-16gb` has no JPEG engine that is known"));
    let raw = DataSet { format: SampleFormat::Raw, ..IMAGENET };
    assert!(refused("p4d.24xlarge", raw).ends_with("`data.format` is raw, which GPUs do not decode"));
}

#[test]
fn tokens_never_wait() {
    // 1 024 tokens of two bytes, widened to eight; a GPT of 1.3 billion parameters takes 100 000 tokens a second on
    // eight A100.
    let tokens = DataSet {
        bytes_per_sample: 2048.0,
        decoded_bytes: 8192.0,
        format: SampleFormat::Tokens,
        files: None,
        samples: Some(10_000_000),
        ..IMAGENET
    };
    let step = Seconds(512.0 * 1024.0 / 1e5);
    for (instance, devices) in [("p4d.24xlarge", 8), ("g4dn.xlarge", 1), ("p3.16xlarge", 8)] {
        let feed = supply(replicas(devices, 512), &machine(instance, 1), tokens, InputSpec { workers: 1, ..STREAMED });
        let feed = feed.expect("a supply").feed(step, 100);
        assert_eq!((feed.stall, feed.slowest), (Seconds::ZERO, None), "{instance}");
        assert!((feed.utilisation - 1.0).abs() < 1e-12);
    }
}

#[test]
fn an_object_for_each_sample_costs_a_first_byte_for_each() {
    let small = DataSet { files: IMAGENET.samples, ..IMAGENET };
    let streamed = rates("p4d.24xlarge", 1, small, InputSpec { workers: 12, ..STREAMED });
    // 96 readers that wait 20 ms for 115 kB, which then take 1.2 ms.
    let alone = 96.0 / (0.020 + 114_660.0 / 93e6);
    assert!((streamed[0] / alone - 1.0).abs() < 1e-9, "{streamed:?}");
    // One prefix answers 5 500 requests a second, however many machines ask.
    let two = rates("p4d.24xlarge", 2, small, InputSpec { workers: 12, storage: StorageMode::S3Pipe, ..STREAMED });
    assert!((two[0] / 5500.0 - 1.0).abs() < 1e-9, "{two:?}");
}

#[test]
fn a_shared_file_system_is_shared_and_what_it_keeps_in_memory_is_faster() {
    let lustre = InputSpec { storage: StorageMode::FsxLustre, workers: 64, ..STREAMED };
    let data = DataSet { fsx_size: Some(Bytes(12 << 40)), fsx_throughput: BytesPerSecond(250e6), ..IMAGENET };
    let [one, two, four] = [1, 2, 4].map(|instances| rates("p3.16xlarge", instances, data, lustre)[0]);
    let all = 12.0 * 250e6 / 114_660.0;
    assert!((two / all - 1.0).abs() < 1e-9 && (four / all - 1.0).abs() < 1e-9, "{one} {two} {four}");
    let small = DataSet { samples: Some(500_000), ..data };
    let machine = machine("p3.16xlarge", 4);
    let supply = supply(replicas(32, 2048), &machine, small, lustre).expect("a supply");
    assert!(supply.kinds[0].later.read.0 < supply.kinds[0].first.read.0 / 2.0, "{supply:?}");
}

#[test]
fn mlperf_storage_needs_what_its_workloads_state() {
    // MLCommons Storage, configs/dlio/workload: bytes of a record, batch and seconds of a step of one accelerator, and
    // the utilisation that it asks for. What eight accelerators need of storage for it:
    let workloads = [
        ("resnet50 on A100", 114_660.0, 400, 0.435, 0.90),
        ("unet3d on A100", 146_600_628.0, 7, 0.636, 0.90),
        ("cosmoflow on A100", 2_828_486.0, 1, 0.00551, 0.70),
        ("unet3d on H100", 146_600_628.0, 7, 0.323, 0.90),
    ];
    for (name, bytes, batch, step, floor) in workloads {
        let needed = 8.0 * f64::from(batch) * bytes / step * floor;
        let utilisation = |rate: f64| {
            let mut machine = machine("p4d.24xlarge", 1);
            let host = machine.cluster.pools[0].host.as_mut().expect("a host");
            host.disk_bandwidth = BytesPerSecond(rate);
            // Decoding is no part of that benchmark.
            host.processors = Some(Processors { vcpus: 96, threads_per_core: 2, coremark: 1e12, single_thread: 1.0 });
            let data = DataSet { bytes_per_sample: bytes, samples: Some(1), decoded_bytes: 1.0, ..IMAGENET };
            let input = InputSpec { storage: StorageMode::Nvme, workers: 1 << 12, ..STREAMED };
            let supply = supply(replicas(8, 8 * batch as u64), &machine, data, input).expect("a supply");
            supply.feed(Seconds(step), 1000).utilisation
        };
        // Opening each file takes microseconds on top.
        assert!((utilisation(needed) / floor - 1.0).abs() < 0.01, "{name}: {}", utilisation(needed));
        assert!(utilisation(needed * 0.9) < floor && utilisation(needed * 1.1) > floor, "{name}");
        assert!((utilisation(needed / floor * 1.1) - 1.0).abs() < 1e-12, "{name}");
    }
}

#[test]
fn ranks_that_share_a_replica_read_its_samples_once() {
    let machine = machine("p4d.24xlarge", 2);
    let split = ParallelSpec { data: 2, tensor: 4, pipeline: 2, ..ParallelSpec::default() };
    let few = supply(intake(split, 512), &machine, IMAGENET, STREAMED).expect("a supply");
    let many = supply(replicas(16, 512), &machine, IMAGENET, STREAMED).expect("a supply");
    let read =
        |supply: &LoaderRates| supply.kinds.iter().map(|kind| kind.samples * f64::from(kind.machines)).sum::<f64>();
    assert!((read(&few) - 512.0).abs() < 1e-9 && (read(&many) - 512.0).abs() < 1e-9);
    // Both first stages stand on the first machine.
    assert_eq!(few.kinds.iter().map(|kind| kind.machines).collect::<Vec<_>>(), [1]);
    assert_eq!(many.kinds.iter().map(|kind| kind.machines).collect::<Vec<_>>(), [2]);
}

#[test]
fn what_is_cached_is_read_faster_from_the_second_pass_on() {
    let machine = machine("p4d.24xlarge", 1);
    let small = DataSet { files: IMAGENET.samples, ..IMAGENET };
    let feed = |cache, steps| {
        let input = InputSpec { cache, workers: 12, ..STREAMED };
        supply(replicas(8, 2048), &machine, small, input).expect("a supply").feed(Seconds(0.1), steps)
    };
    let pass = 1_281_167_u64.div_ceil(2048);
    let (streamed, kept) = (feed(Cache::None, 10 * pass), feed(Cache::Memory, 10 * pass));
    assert_eq!(streamed.first_step_time, kept.first_step_time);
    assert!(kept.rates[0] > 100.0 * streamed.rates[0] && kept.time < streamed.time);
    let disk = feed(Cache::Nvme, 10 * pass);
    assert!(disk.rates[0] > streamed.rates[0] && disk.rates[0] < kept.rates[0]);
    assert_eq!(feed(Cache::Memory, pass).step_time, streamed.first_step_time, "one pass is the first");
}

#[test]
fn file_mode_downloads_before_it_trains() {
    let file = InputSpec { storage: StorageMode::S3File, ..STREAMED };
    let download = |instance, data| {
        let devices = machine(instance, 1).cluster.devices();
        let supply = supply(replicas(devices, 256), &machine(instance, 1), data, file).expect("a supply");
        supply.feed(Seconds(1.0), 1).download.0
    };
    let bytes = 1_281_167.0 * 114_660.0;
    // p3dn takes 6.3 GB/s of S3, but its disks take less; p3.16xlarge has a volume only.
    assert!((download("p3dn.24xlarge", IMAGENET) / (bytes / 3.6e9) - 1.0).abs() < 0.01);
    assert!((download("p3.16xlarge", IMAGENET) / (bytes / 131_072_000.0) - 1.0).abs() < 0.01);
    let provisioned = DataSet { ebs_throughput: BytesPerSecond(1e9), ..IMAGENET };
    assert!(download("p3.16xlarge", provisioned) < download("p3.16xlarge", IMAGENET) / 5.0);
    let small = DataSet { files: Some(12_811_670), ..IMAGENET };
    assert!(download("p3dn.24xlarge", small) > 10.0 * download("p3dn.24xlarge", IMAGENET));
}

#[test]
fn what_does_not_fit_or_is_not_there_is_named() {
    let refused = |instance: &str, data: DataSet, input: InputSpec| {
        let error = supply(replicas(1, 64), &machine(instance, 1), data, input).expect_err("refused");
        assert!(error.hint().is_some() || error.to_string().contains("is missing"));
        error.to_string()
    };
    let with = |storage, cache| InputSpec { storage, cache, ..STREAMED };
    let says = |text: String, part: &str| assert!(text.contains(part), "{text}");
    let disk = with(StorageMode::Nvme, Cache::None);
    says(refused("p3.2xlarge", IMAGENET, disk), "no local disk");
    says(refused("p3.2xlarge", IMAGENET, with(StorageMode::S3FastFile, Cache::Nvme)), "`input.cache` is nvme");
    says(refused("g4dn.xlarge", IMAGENET, disk), "the local disk of `g4dn.xlarge`");
    says(refused("p3.2xlarge", IMAGENET, with(StorageMode::S3FastFile, Cache::Memory)), "half of main memory");
    let volume = DataSet { volume: Some(Bytes(100_000_000_000)), ..IMAGENET };
    says(refused("p3.2xlarge", volume, with(StorageMode::S3File, Cache::None)), "the volume");
    says(refused("g4dn.12xlarge", volume, with(StorageMode::S3File, Cache::None)), "the volume");
    says(refused("p3.2xlarge", volume, with(StorageMode::Ebs, Cache::None)), "the volume");
    let size = DataSet { fsx_size: Some(Bytes(1 << 30)), ..IMAGENET };
    says(refused("p3.2xlarge", size, with(StorageMode::FsxLustre, Cache::None)), "the file system");
    says(refused("p4d.24xlarge", IMAGENET, with(StorageMode::Memory, Cache::Memory)), "already keeps");
    says(refused("p4d.24xlarge", IMAGENET, with(StorageMode::Nvme, Cache::Nvme)), "already keeps");
    let unknown = DataSet { samples: None, ..IMAGENET };
    says(refused("p4d.24xlarge", unknown, with(StorageMode::S3File, Cache::None)), "`data.samples`");
    says(refused("p3.2xlarge", IMAGENET, InputSpec { prefetch: 4000, ..STREAMED }), "loading ahead");
    let mut own = machine("p3.2xlarge", 1);
    let host = own.cluster.pools[0].host.as_mut().expect("a host");
    host.remote = None;
    let error = supply(replicas(1, 64), &own, IMAGENET, STREAMED).expect_err("no cloud");
    assert!(error.to_string().ends_with("is not a rented instance that reaches it"), "{error}");
}

#[test]
fn room_ahead_evens_out_samples_of_different_size() {
    // U-Net 3D of MLPerf Storage: 146.6 MB with a standard deviation of 68.3 MB.
    let machine = machine("p4d.24xlarge", 1);
    let scans = DataSet {
        samples: Some(5000),
        bytes_per_sample: 146_600_628.0,
        bytes_deviation: 68_300_000.0,
        decoded_bytes: 146_600_628.0,
        format: SampleFormat::Npz,
        ..IMAGENET
    };
    let pace = |prefetch, data| {
        let input = InputSpec { storage: StorageMode::Nvme, workers: 12, prefetch, ..STREAMED };
        let supply = supply(replicas(8, 8), &machine, data, input).expect("a supply");
        let step = supply.kinds[0].first.slowest();
        (supply.feed(step, 100).step_time, step)
    };
    let paces: Vec<Seconds> = [0, 1, 2, 4, 16].map(|prefetch| pace(prefetch, scans).0).into();
    assert!(paces.windows(2).all(|pair| pair[1] <= pair[0]), "{paces:?}");
    assert!(paces[1] < paces[0] && paces[4] < paces[1], "{paces:?}");
    let (even, step) = pace(1, DataSet { bytes_deviation: 0.0, ..scans });
    assert!((even - step).0.abs() < 1e-12 && paces[1].0 > step.0 * 1.001, "{paces:?} {step:?}");
}

proptest! {
    #[test]
    fn a_slower_step_is_never_a_shorter_training(
        step in 1e-4f64..1.0, longer in 1.0f64..3.0, prefetch in 0u32..4, steps in 1u64..100_000, cached in any::<bool>(),
    ) {
        let cache = if cached { Cache::Memory } else { Cache::None };
        let input = InputSpec { prefetch, cache, ..STREAMED };
        let supply = supply(replicas(8, 512), &machine("p4d.24xlarge", 1), IMAGENET, input).expect("a supply");
        let (short, long) = (supply.feed(Seconds(step), steps), supply.feed(Seconds(step * longer), steps));
        prop_assert!(short.time.0 <= long.time.0 * (1.0 + 1e-12));
        prop_assert!(short.step_time.0 >= step && short.utilisation <= 1.0);
        prop_assert!(short.time.0 >= step * steps as f64 * (1.0 - 1e-12));
    }
}

#[test]
fn copies_lie_on_volumes_only_where_machines_have_no_disk_for_them() {
    let kept = |instance, data: DataSet, storage| copies(&machine(instance, 2), &data, storage);
    let all = IMAGENET.bytes().expect("samples are known");
    let volume = DataSet { volume: Some(Bytes(500_000_000_000)), ..IMAGENET };
    let unknown = DataSet { samples: None, ..IMAGENET };
    assert_eq!(kept("p3.16xlarge", IMAGENET, StorageMode::S3File), Copies::Volumes(Some(Bytes(2 * all.0))));
    assert_eq!(kept("p4d.24xlarge", IMAGENET, StorageMode::S3File), Copies::Nothing);
    assert_eq!(kept("p4d.24xlarge", volume, StorageMode::S3File), Copies::Volumes(Some(Bytes(1_000_000_000_000))));
    assert_eq!(kept("p4d.24xlarge", IMAGENET, StorageMode::Ebs), Copies::Volumes(Some(Bytes(2 * all.0))));
    assert_eq!(kept("p4d.24xlarge", volume, StorageMode::Ebs), Copies::Volumes(Some(Bytes(1_000_000_000_000))));
    assert_eq!(kept("p4d.24xlarge", unknown, StorageMode::Ebs), Copies::Volumes(None));
    let smallest = catalog().storage().fsx.smallest.value;
    assert_eq!(kept("p3.16xlarge", IMAGENET, StorageMode::FsxLustre), Copies::FileSystem(smallest));
    assert_eq!(kept("p3.16xlarge", IMAGENET, StorageMode::S3Pipe), Copies::Nothing);
}

/// 61 GiB of main memory, 8 workers with 30 micro-batches each and one more: 241 × 602 kB for each sample of one.
#[test]
fn micro_batches_that_loaders_have_no_room_ahead_for_are_refused() {
    let (machine, input) = (machine("p3.2xlarge", 1), InputSpec { prefetch: 30, ..STREAMED });
    let rates = |micro_batch: u64| {
        let intake = Intake { micro_batch, ..replicas(1, 4096) };
        LoaderRates::new(intake, &machine, &IMAGENET, input)
    };
    let one = rates(1).expect("room for a sample");
    let most = (1..4096).take_while(|micro_batch| one.has_room_ahead(*micro_batch)).last().expect("one at least");
    assert!((200..1000).contains(&most), "{most}");
    assert!(rates(most).is_ok() && rates(most + 1).is_err(), "{most}");
}
