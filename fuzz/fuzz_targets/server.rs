//! Requests: a path on the first line, a body behind it.

#![no_main]

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;
use trainyard_fuzz::tree::mutate_request;
use trainyard_server::{Bounds, Settings, router};

fuzz_mutator!(|data: &mut [u8], size: usize, max: usize, seed: u32| { mutate_request(data, size, max, seed) });

/// Bytes that a simulation may take here.
const SIMULATION_MAX: u64 = 8 << 20;

thread_local! {
    static SERVER: (Runtime, Router) = {
        let bounds = Bounds { simulation: SIMULATION_MAX, ..Bounds::STANDARD };
        let settings = Settings { bounds, loopback: true, token: None, exports: &[], history: None };
        let runtime = Builder::new_current_thread().enable_time().build().expect("a thread");
        (runtime, router(settings))
    };
}

fuzz_target!(|text: &str| {
    let (path, body) = text.split_once('\n').unwrap_or((text, ""));
    // A proof may take half a minute, which is no fault.
    if body.contains("proof") {
        return;
    }
    let request = if body.is_empty() { Request::get(path) } else { Request::post(path) };
    let request = request.header("host", "localhost").header("content-type", "application/json");
    let Ok(request) = request.body(Body::from(body.to_owned())) else { return };
    SERVER.with(|(runtime, router)| {
        runtime.block_on(async {
            let response = router.clone().oneshot(request).await.expect("routers do not fail");
            to_bytes(response.into_body(), usize::MAX).await.expect("a whole body");
        });
    });
});
