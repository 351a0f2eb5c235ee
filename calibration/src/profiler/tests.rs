use super::*;
use serde_json::{Value, json};
use trainyard_hardware_profiles::catalog;

fn event(cat: &str, name: &str, tid: u64, ts: f64, dur: f64, args: &Value) -> Value {
    json!({ "ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args })
}

/// Three steps of 10 ms, in each of which a thread launches a kernel every 40 µs, waits once for the device, and
/// multiplies matrices at half of the catalog's rate.
fn trace() -> Value {
    let v100 = catalog().gpu("v100-sxm2-16gb").expect("in the catalog");
    let expected = product_time(Gemm { batch: 1, m: 4096, n: 4096, k: 1024 }, v100, Rate::Fp16, 2);
    let mut events = Vec::new();
    for step in 0..3u32 {
        let start = f64::from(step) * 20_000.0;
        events.push(event("user_annotation", &format!("ProfilerStep#{step}"), 1, start, 10_000.0, &json!({})));
        for kernel in 0..60u32 {
            // The host waits for the device before the thirtieth.
            let waited = if kernel >= 30 { 3_000.0 } else { 0.0 };
            let ts = start + f64::from(kernel) * 40.0 + waited;
            let id = u64::from(step) * 1000 + u64::from(kernel);
            events.push(event("cuda_runtime", "cudaLaunchKernel", 1, ts, 5.0, &json!({ "External id": id })));
            if kernel % 10 == 0 {
                let args = json!({
                    "External id": id, "Input Dims": [[4096, 1024], [1024, 4096]], "Input type": ["c10::Half", "c10::Half"],
                });
                events.push(event("cpu_op", "aten::mm", 1, ts - 20.0, 30.0, &args));
                events.push(event("kernel", "gemm", 7, ts + 9.0, expected.0 * 2e6, &json!({ "External id": id })));
            }
        }
        events.push(event("cuda_runtime", "cudaStreamSynchronize", 1, start + 1_170.0, 3_000.0, &json!({})));
    }
    events.push(json!({ "ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "tid": "Trace", "ts": 5.0,
        "args": { "Total Allocated": 4.0e9, "Total Reserved": 5.0e9, "Device Type": 1, "Device Id": 0 } }));
    json!({ "schemaVersion": 1, "deviceProperties": [{ "id": 0, "name": "Tesla V100-SXM2-16GB" }], "traceEvents": events })
}

fn read(trace: &Value) -> Result<TraceFindings, Invalid> {
    read_trace(trace.to_string().as_bytes(), "trace.json", catalog())
}

#[test]
fn constants_are_what_the_events_say() {
    let found = read(&trace()).expect("a whole trace");
    assert_eq!(found.steps_s, [0.01, 0.01], "the first step still warms up");
    let launch = found.launch.expect("launches are there");
    assert!((launch.value - 40e-6).abs() < 1e-9, "waiting for the device is no launching: {launch:?}");
    assert!(found.gemm.is_some_and(|gemm| (gemm.value - 0.5).abs() < 1e-6), "{:?}", found.gemm);
    assert!(found.fragmentation.is_some_and(|held| (held.value - 0.25).abs() < 1e-9));
}

#[test]
fn products_that_no_device_can_have_worked_on_tell_nothing() {
    let whole = read(&trace()).expect("a whole trace").gemm;
    let vast = 10_000_000_000_u64;
    for (name, left, right) in [
        ("aten::mm", json!([0, 1024]), json!([1024, 4096])),
        ("aten::mm", json!([4096, 1024]), json!([1024, 0])),
        ("aten::mm", json!([4096, 0]), json!([0, 4096])),
        ("aten::mm", json!([vast, vast]), json!([vast, vast])),
        ("aten::mm", json!([1 << 24, 1 << 24]), json!([1 << 24, 1 << 24])),
        ("aten::bmm", json!([0, 4096, 1024]), json!([0, 1024, 4096])),
        ("aten::bmm", json!([1 << 24, 1 << 24, 1 << 24]), json!([1 << 24, 1 << 24, 1 << 24])),
    ] {
        let mut trace = trace();
        let events = trace["traceEvents"].as_array_mut().expect("events");
        for id in 9000..9010 {
            let types = json!(["c10::Half", "c10::Half"]);
            let args = json!({ "External id": id, "Input Dims": [left, right], "Input type": types });
            events.push(event("cpu_op", name, 1, 20_100.0, 30.0, &args));
            events.push(event("kernel", "gemm", 7, 20_110.0, 1000.0, &json!({ "External id": id })));
        }
        assert_eq!(read(&trace).expect("a whole trace").gemm, whole, "{name} {left} {right}");
    }
}

#[test]
fn a_stack_takes_what_was_found_and_keeps_the_rest() {
    let stack = catalog().stack("pytorch").expect("in the catalog");
    let text = trace().to_string();
    let refitted = refit_trace(text.as_bytes(), "trace.json", stack, catalog(), "2026-11-21").expect("a whole trace");
    assert_eq!(refitted.document.constants.len(), 3);
    let constants = refitted.constants.expect("something was found");
    let [changed] = constants.stacks() else { panic!("one stack") };
    assert!((changed.launch.value.0 - 40e-6).abs() < 1e-9 && (changed.gemm.value - 0.5).abs() < 1e-6);
    assert_eq!(changed.launch.fitted.as_ref().map(|fitted| fitted.rows), Some(116));
    let mut same = changed.clone();
    (same.launch, same.gemm) = (stack.launch.clone(), stack.gemm.clone());
    same.fragmentation = stack.fragmentation.clone();
    assert_eq!(same, **stack);
}

#[test]
fn devices_are_recognised_by_the_drivers_names() {
    for (told, name) in [
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("A100-SXM-80GB", "a100-sxm4-80gb"),
        ("Tesla V100-SXM3-32GB", "v100-sxm3-32gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("NVIDIA H100 NVL", "h100-nvl-94gb"),
        ("Tesla V100-PCIE-32GB", "v100-pcie-32gb"),
        ("NVIDIA A40", "a40"),
        ("NVIDIA A30", "a30"),
    ] {
        assert_eq!(gpu_called(told, catalog()).map(|gpu| gpu.name.as_str()), Some(name), "{told}");
    }
    // Other boards with the chip of one of the catalog, or two that it may be.
    for told in [
        "GeForce GTX 1080",
        "NVIDIA H200 NVL",
        "NVIDIA H100 96GB HBM3",
        // The size is that of the processor's memory.
        "NVIDIA GH200 480GB",
        "Tesla V100S-PCIE-32GB",
        "Tesla V100-DGXS-32GB",
        "NVIDIA A100-SXM4-64GB",
    ] {
        assert_eq!(gpu_called(told, catalog()).map(|gpu| gpu.name.as_str()), None, "{told}");
    }
}

#[test]
fn products_of_a_gpu_that_is_not_known_are_told() {
    let mut trace = trace();
    trace["deviceProperties"][0]["name"] = json!("Tesla V100S-PCIE-32GB");
    let stack = catalog().stack("pytorch").expect("in the catalog");
    let refit = |trace: &Value| refit_trace(trace.to_string().as_bytes(), "t.json", stack, catalog(), "2026-11-21");
    let document = refit(&trace).expect("launches and memory are there").document;
    assert_eq!(document.constants.len(), 2);
    let [why] = document.unsupported.as_slice() else { panic!("{:?}", document.unsupported) };
    assert!(why.contains("matrix products") && why.contains("Tesla V100S-PCIE-32GB"), "{why}");
    let events = trace["traceEvents"].as_array_mut().expect("events");
    events.retain(|event| event["cat"] != "cuda_runtime" && event["name"] != "[memory]");
    let error = refit(&trace).expect_err("nothing is left");
    assert!(
        error.to_string().contains("matrix products") && error.hint().is_some_and(|hint| hint.contains("--constants")),
        "{error}"
    );
}

#[test]
fn a_trace_that_says_nothing_is_refused_with_what_to_record() {
    let Err(error) = read_trace(&b"{\"traceEvents\": [\n{]}"[..], "trace.json", catalog()) else { panic!("no JSON") };
    assert!(error.to_string().starts_with("in `trace.json line 2, column 2`"), "{error}");
    let Err(error) = read(&json!({ "traceEvents": [] })) else { panic!("no steps") };
    assert!(
        error.to_string().contains("no steps") && error.hint().is_some_and(|hint| hint.contains("prof.step()")),
        "{error}"
    );
    let step = event("user_annotation", "ProfilerStep#3", 1, 0.0, 10.0, &json!({}));
    let Err(error) = read(&json!({ "traceEvents": [step] })) else { panic!("no kernels") };
    assert!(error.hint().is_some_and(|hint| hint.contains("record_shapes")), "{error}");
    assert!(read(&json!([1, 2])).is_err());
}
