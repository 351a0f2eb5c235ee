//! Preparing steps beside the computation.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};
use trainyard_data::{DataError, Dataset, MicroBatch, Order, Slice};
use trainyard_host::Clock;

/// Steps that are ready before they are asked for.
const AHEAD: usize = 2;

/// Why there are no samples.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoaderError {
    /// They cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The system gives no thread to read them.
    #[error("cannot start the thread that reads samples: {0}")]
    NotStarted(io::Error),
    /// The thread ended without a word.
    #[error("the thread that reads samples ended early")]
    Ended,
}

/// The micro-batches of a step, and how long the computation had to wait for them.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The micro-batches of the replica, in order.
    pub(crate) batches: Vec<MicroBatch>,
    /// Seconds between asking and having.
    pub(crate) waited_s: f64,
}

/// A thread that reads the samples of a rank, a few steps ahead of it.
pub(crate) struct Loader {
    /// Taken when the loader ends, so that the thread's next send fails.
    steps: Option<Receiver<Result<Vec<MicroBatch>, DataError>>>,
    thread: Option<JoinHandle<()>>,
    clock: Clock,
}

impl Loader {
    /// Starts to read `steps` steps of `batch` samples, the first of which begins at `position`.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub(crate) fn start(
        data: Arc<Dataset>,
        slice: Slice,
        position: u64,
        batch: u64,
        steps: u64,
    ) -> Result<Self, LoaderError> {
        let (sender, receiver) = sync_channel(AHEAD);
        let read = move || {
            let mut order = Order::new(&data);
            for step in 0..steps {
                let read = slice.step(&mut order, position + step * batch);
                let failed = read.is_err();
                if sender.send(read).is_err() || failed {
                    break;
                }
            }
        };
        let thread = Builder::new().spawn(read).map_err(LoaderError::NotStarted)?;
        Ok(Self { steps: Some(receiver), thread: Some(thread), clock: Clock::start() })
    }

    /// Returns the next step's samples.
    ///
    /// # Errors
    ///
    /// When a sample cannot be read; nothing follows then.
    pub(crate) fn load(&mut self) -> Result<Loaded, LoaderError> {
        let asked = self.clock.seconds();
        let steps = self.steps.as_ref().ok_or(LoaderError::Ended)?;
        let batches = steps.recv().map_err(|_| LoaderError::Ended)??;
        Ok(Loaded { batches, waited_s: self.clock.seconds() - asked })
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        drop(self.steps.take());
        if let Some(thread) = self.thread.take() {
            // A loader that panicked has said so by ending early.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use trainyard_data::{DataSource, SampleKind};

    const SLICE: Slice = Slice { micro: 2, accumulation: 2, replica: 1 };

    fn synthetic() -> Arc<Dataset> {
        let wanted = SampleKind::NextToken { sequence: 4, vocabulary: 100 };
        Arc::new(Dataset::open(&DataSource::new("synthetic"), &wanted, 8, 3).expect("made up"))
    }

    #[test]
    fn steps_come_in_order_from_any_position() {
        let data = synthetic();
        let mut order = Order::new(&data);
        let mut loader = Loader::start(data.clone(), SLICE, 16, 8, 5).expect("a thread");
        for step in 0..5 {
            let loaded = loader.load().expect("made up");
            assert_eq!(loaded.batches, SLICE.step(&mut order, 16 + step * 8).expect("made up"));
            assert!(loaded.waited_s >= 0.0);
        }
        assert!(matches!(loader.load(), Err(LoaderError::Ended)));
    }

    #[test]
    fn a_loader_that_nobody_reads_ends() {
        let loader = Loader::start(synthetic(), SLICE, 0, 8, u64::MAX / 8).expect("a thread");
        drop(loader);
    }

    #[test]
    fn what_cannot_be_read_ends_the_loader_with_its_reason() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let image = |name: usize| folder.path().join(format!("class/{name}.png"));
        fs::create_dir(folder.path().join("class")).expect("a folder");
        (0..9).for_each(|name| image::RgbImage::new(2, 2).save(image(name)).expect("an image"));
        let wanted = SampleKind::Image { channels: 3, height: 2, width: 2, classes: 1 };
        let open = |path: &Path| Dataset::open(&DataSource::new(path), &wanted, 8, 3).expect("nine images");
        let data = Arc::new(open(folder.path()));
        let step = Slice { micro: 8, accumulation: 1, replica: 0 };
        assert!(Loader::start(data.clone(), step, 0, 8, 1).expect("a thread").load().is_ok());
        fs::remove_file(image(4)).expect("it was there");
        let mut loader = Loader::start(data, step, 0, 8, 3).expect("a thread");
        assert!(
            matches!(loader.load(), Err(LoaderError::Data(DataError::Unreadable { path, .. })) if path == image(4))
        );
        assert!(matches!(loader.load(), Err(LoaderError::Ended)));
    }
}
