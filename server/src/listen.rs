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

/// Bytes of a request's headers, and of what is read ahead of its body.
const BUFFER: usize = 64 << 10;
/// How long to wait where the system cannot take another client.
const PAUSE: Duration = Duration::from_millis(50);
/// Threads for everything but searches, which have their own.
const THREADS: usize = 2;

/// A word to a server, from any thread, that it shall end. All clones are one.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stop {
    /// Lets the server take no more requests, finish those that it has, and end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    async fn stopped(&self) {
        // Fails only when there is no sender, but this is one.
        let _ = self.0.subscribe().wait_for(|stopped| *stopped).await;
    }
}

/// Serves the page and the API on `listener` until `stop` says so.
///
/// # Errors
///
/// When the system gives no threads, or the listener is none.
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
    // A search that was cancelled ends when the plans that it is simulating are done; nobody waits for that.
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
            // A client that goes away, or does not speak HTTP, is none of ours to tell.
            let _ = connection.await;
            drop(place);
        });
    }
    let _ = tokio::time::timeout(bounds.farewell, graceful.shutdown()).await;
}

type Service = TowerToHyperService<axum::Router>;

/// Bytes from and to a client, which is let go when it takes none of an answer.
type Stream = TokioIo<Pin<Box<TimeoutStream<TcpStream>>>>;

fn connection(stream: TcpStream, service: Service, bounds: &Bounds) -> http1::Connection<Stream, Service> {
    // Answers are small and whole; waiting for more to send with them would only delay them.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(bounds.taking));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.headers)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(Box::pin(stream)), service)
}
