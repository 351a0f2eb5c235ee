//! A router behind a listener.

use crate::bounds::Bounds;
use crate::routes::{Settings, router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

/// Maximum bytes of a request's headers, and of what is read ahead of its body.
const BUFFER: usize = 64 << 10;
/// Pause after the system could not accept another client.
const PAUSE: Duration = Duration::from_millis(50);
/// Number of threads for everything but searches, which have their own.
const THREADS: usize = 2;

/// A signal that tells a server to stop, from any thread. All clones share one signal.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stop {
    /// Tells the server to accept no more requests, finish those that it has, and end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    async fn stopped(&self) {
        // Fails only when there is no sender, but this is one.
        let _ = self.0.subscribe().wait_for(|stopped| *stopped).await;
    }
}

/// Serves the page and the API on `listener` until `stop` is signalled.
///
/// # Errors
///
/// Fails when the system cannot start threads, or the listener cannot be used.
pub fn serve(listener: std::net::TcpListener, settings: Settings, stop: &Stop) -> io::Result<()> {
    let bounds = settings.bounds;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(bounds.searches + THREADS)
        .enable_io()
        .enable_time()
        .build()?;
    listener.set_nonblocking(true)?;
    let ended = runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        accept(&listener, settings, stop).await;
        Ok(())
    });
    // A cancelled search ends when the plans that it is simulating are done; nobody waits for that.
    runtime.shutdown_background();
    ended
}

async fn accept(listener: &TcpListener, settings: Settings, stop: &Stop) {
    let bounds = settings.bounds;
    let service = TowerToHyperService::new(router(settings));
    let places = Arc::new(Semaphore::new(bounds.connections));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = next => accepted,
            () = stop.stopped() => break,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let connection = graceful.watch(connection(stream, service.clone(), &bounds));
        tokio::spawn(async move {
            // A client that disconnects, or does not speak HTTP, is no error of the server.
            let _ = connection.await;
            drop(place);
        });
    }
    let _ = tokio::time::timeout(bounds.farewell, graceful.shutdown()).await;
}

type Service = TowerToHyperService<axum::Router>;

/// The bytes from and to a client, which is disconnected when it does not receive an answer in time.
type Stream = TokioIo<Pin<Box<TimeoutStream<TcpStream>>>>;

fn connection(stream: TcpStream, service: Service, bounds: &Bounds) -> http1::Connection<Stream, Service> {
    // Answers are small and sent whole; Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(bounds.taking));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.headers)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(Box::pin(stream)), service)
}
