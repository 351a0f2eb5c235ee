//! Searches in threads of their own: a bounded number at a time, cancelled when nobody waits, and their answers kept.

use crate::bounds::Bounds;
use crate::refusal::Refusal;
use crate::threads::{Lane, Threads};
use axum::body::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OnceCell, Semaphore};
use trainyard_planner::Cancellation;

/// The queues of searches, and the cache of their answers.
pub(crate) struct Planning {
    quick: Arc<Semaphore>,
    thorough: Arc<Semaphore>,
    light: Arc<Semaphore>,
    threads: Arc<Threads>,
    /// Places for requests, those that are being searched included.
    places: Semaphore,
    /// As many for those without a search, which therefore never wait for one.
    light_places: Semaphore,
    kept: Mutex<Kept>,
}

/// Cancels a search when the request that waits for it is dropped.
struct Waiting(Cancellation);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Planning {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Self {
            quick: Arc::new(Semaphore::new(bounds.searches)),
            thorough: Arc::new(Semaphore::new(1)),
            light: Arc::new(Semaphore::new(bounds.searches)),
            threads: Arc::default(),
            places: Semaphore::new(bounds.waiting),
            light_places: Semaphore::new(bounds.waiting),
            kept: Mutex::new(Kept { limit: bounds.kept, ..Kept::default() }),
        }
    }

    /// Returns the answer to a question: a cached one, one that is being found, or one that `work` finds. What is wrong
    /// with a question is cached too.
    pub(crate) async fn answer(
        &self,
        lane: Lane,
        question: String,
        work: impl FnOnce(Cancellation) -> Result<Bytes, Refusal> + Send + 'static,
    ) -> Result<Bytes, Refusal> {
        let entry = self.kept().entry(&question);
        // If the request that is finding it is dropped, the next of those that wait for it starts again.
        let found = async {
            match self.find(lane, work).await {
                Err(refusal) if !refusal.is_of_the_question() => Err(refusal),
                answer => Ok(answer),
            }
        };
        let answer = entry.get_or_try_init(|| found).await?.clone();
        self.kept().keep(&question, answer.as_ref().map_or(REFUSED, Bytes::len));
        answer
    }

    /// Returns the answer that `work` finds, without caching it.
    pub(crate) async fn find(
        &self,
        lane: Lane,
        work: impl FnOnce(Cancellation) -> Result<Bytes, Refusal> + Send + 'static,
    ) -> Result<Bytes, Refusal> {
        let (places, turns) = match lane {
            Lane::Light => (&self.light_places, &self.light),
            Lane::Quick => (&self.places, &self.quick),
            Lane::Thorough => (&self.places, &self.thorough),
        };
        let _place = places.try_acquire().map_err(|_| Refusal::busy())?;
        let turn = Arc::clone(turns).acquire_owned().await.map_err(|_| Refusal::failed())?;
        let (cancellation, threads) = (Cancellation::default(), Arc::clone(&self.threads));
        let _waiting = Waiting(cancellation.clone());
        let search = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            threads.run(lane, || work(cancellation))
        });
        search.await.map_err(|_| Refusal::failed())?
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        // The lock is never poisoned between two changes: nothing panics there.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Entry = Arc<OnceCell<Result<Bytes, Refusal>>>;

/// Bytes of a refusal, about.
const REFUSED: usize = 1 << 10;

/// A cache of answers by question. When they exceed the limit, the oldest are removed first.
#[derive(Default)]
struct Kept {
    entries: BTreeMap<String, Entry>,
    /// Questions with known answers, with the bytes of both, in the order in which they were answered.
    order: VecDeque<(String, usize)>,
    bytes: usize,
    limit: usize,
}

impl Kept {
    fn entry(&mut self, question: &str) -> Entry {
        // Questions without an answer for which nobody waits are removed.
        self.entries.retain(|_, entry| entry.initialized() || Arc::strong_count(entry) > 1);
        Arc::clone(self.entries.entry(question.into()).or_default())
    }

    fn keep(&mut self, question: &str, answer: usize) {
        if self.order.iter().any(|(known, _)| known == question) {
            return;
        }
        let bytes = 2 * question.len() + answer;
        self.order.push_back((question.into(), bytes));
        self.bytes += bytes;
        while self.bytes > self.limit {
            let Some((oldest, bytes)) = self.order.pop_front() else { break };
            self.entries.remove(&oldest);
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("threads").block_on(future)
    }

    #[test]
    fn equal_questions_are_answered_once() {
        static FOUND: AtomicUsize = AtomicUsize::new(0);
        let planning = Planning::new(&Bounds::STANDARD);
        let ask = || {
            planning.answer(Lane::Quick, "same".into(), |_| {
                FOUND.fetch_add(1, Ordering::Relaxed);
                Ok(Bytes::from_static(b"answer"))
            })
        };
        block_on(async {
            let (one, two) = tokio::join!(ask(), ask());
            assert_eq!((one, two), (Ok(Bytes::from_static(b"answer")), Ok(Bytes::from_static(b"answer"))));
            assert_eq!(ask().await, Ok(Bytes::from_static(b"answer")));
        });
        assert_eq!(FOUND.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_is_wrong_with_a_question_is_found_once_and_what_fails_is_tried_again() {
        static TRIED: AtomicUsize = AtomicUsize::new(0);
        let planning = Planning::new(&Bounds::STANDARD);
        let ask = |question: &str, refusal: Refusal| {
            planning.answer(Lane::Quick, question.into(), move |_| {
                TRIED.fetch_add(1, Ordering::Relaxed);
                Err(refusal)
            })
        };
        block_on(async {
            let wrong = || Refusal::input("no model");
            let (one, two) = tokio::join!(ask("wrong", wrong()), ask("wrong", wrong()));
            assert_eq!((one, two), (Err(wrong()), Err(wrong())));
            assert_eq!(TRIED.load(Ordering::Relaxed), 1);
            for _ in 0..2 {
                assert_eq!(ask("bad luck", Refusal::failed()).await, Err(Refusal::failed()));
            }
        });
        assert_eq!(TRIED.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_search_is_cancelled_when_nobody_waits_for_it() {
        let planning = Planning::new(&Bounds::STANDARD);
        let (begun, has_begun) = channel();
        let (ended, has_ended) = channel();
        block_on(async {
            let mut answer = Box::pin(planning.answer(Lane::Quick, "slow".into(), move |cancellation| {
                begun.send(()).expect("somebody listens");
                while !cancellation.is_cancelled() {
                    std::thread::yield_now();
                }
                ended.send(()).expect("somebody listens");
                Err(Refusal::failed())
            }));
            tokio::select! {
                _ = &mut answer => panic!("it cannot end by itself"),
                () = async { while has_begun.try_recv().is_err() { tokio::task::yield_now().await; } } => drop(answer),
            }
            while has_ended.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
        });
    }

    #[test]
    fn more_requests_than_there_are_places_are_refused() {
        let planning = Planning::new(&Bounds { waiting: 0, ..Bounds::STANDARD });
        let answer = block_on(planning.answer(Lane::Thorough, "any".into(), |_| Ok(Bytes::new())));
        assert_eq!(answer, Err(Refusal::busy()));
    }

    #[test]
    fn what_needs_no_search_waits_for_none() {
        let planning = Planning::new(&Bounds { searches: 1, waiting: 1, ..Bounds::STANDARD });
        block_on(async {
            let (begun, has_begun) = channel();
            let mut search = Box::pin(planning.find(Lane::Quick, move |cancellation| {
                begun.send(()).expect("somebody listens");
                while !cancellation.is_cancelled() {
                    std::thread::yield_now();
                }
                Err(Refusal::failed())
            }));
            tokio::select! {
                _ = &mut search => panic!("it cannot end by itself"),
                () = async { while has_begun.try_recv().is_err() { tokio::task::yield_now().await; } } => {}
            }
            assert_eq!(planning.find(Lane::Quick, |_| Ok(Bytes::new())).await, Err(Refusal::busy()));
            assert_eq!(planning.find(Lane::Light, |_| Ok(Bytes::new())).await, Ok(Bytes::new()));
        });
    }

    #[test]
    fn a_search_that_panics_is_a_failure_of_one_request() {
        let planning = Planning::new(&Bounds::STANDARD);
        block_on(async {
            let failed = planning.answer(Lane::Quick, "bug".into(), |_| panic!("meant by a test")).await;
            assert_eq!(failed, Err(Refusal::failed()));
            assert!(planning.answer(Lane::Quick, "bug".into(), |_| Ok(Bytes::new())).await.is_ok());
        });
    }

    #[test]
    fn answers_are_kept_up_to_a_limit() {
        let mut kept = Kept { limit: 100, ..Kept::default() };
        for question in ["a", "b", "c"] {
            kept.entry(question).set(Ok(Bytes::from_static(b"x"))).expect("new");
            kept.keep(question, 40);
        }
        assert!(kept.bytes <= 100, "{}", kept.bytes);
        assert_eq!(kept.entries.keys().collect::<Vec<_>>(), ["b", "c"]);
    }
}
