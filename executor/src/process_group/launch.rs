//! Who starts the ranks of a job: threads of this process, or the processes that an MPI launcher started.

use super::failure::Failure;
use super::inbox::Inbox;
use super::link::Carrier;
use super::meeting::spins;
use super::{Job, ProcessGroup, Shared};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use trainyard_host::{cores, threads_per_rank};

/// Who starts ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Launcher {
    /// This process: all ranks are its threads.
    #[default]
    Threads,
    /// `mpirun`, Slurm or another launcher of MPI processes: ranks are threads of all of them.
    Mpi {
        /// The time after which a process without a sign of life counts as lost, which ends the job.
        heartbeat_timeout: Duration,
    },
}

/// Why a job cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The program was built without MPI.
    #[error("`--launcher` is mpi, but this program was built without MPI")]
    NotBuilt,
    /// MPI can be started once in a process.
    #[error("MPI was started in this process before")]
    AlreadyStarted,
    /// The MPI library does not let several threads call it at once.
    #[error("the ranks of a process call MPI from several threads, but {library} allows only level `{given}`")]
    Threading {
        /// The level of threading it gives.
        given: String,
        /// Its name and version.
        library: String,
    },
    /// Ranks cannot be dealt out evenly.
    #[error("the plan has {ranks} ranks, which {processes} processes cannot share evenly")]
    Uneven {
        /// Ranks of the plan.
        ranks: usize,
        /// Processes that were started.
        processes: usize,
    },
    /// The plan has more ranks than the processes have processors for.
    #[error(
        "the plan has {ranks} ranks, but the launcher gives {processes} processes with {processors} processor threads \
         each"
    )]
    TooManyRanks {
        /// Ranks of the plan.
        ranks: usize,
        /// Processes that were started.
        processes: usize,
        /// Processor threads that each of them may use.
        processors: usize,
    },
}

impl LaunchError {
    /// Returns what the user may do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotBuilt => {
                "install libopenmpi-dev, openmpi-bin, clang and libclang-dev, and build with \
                 `cargo build --release --workspace --features trainyard-cli/mpi`"
            }
            Self::AlreadyStarted => "start one job per process",
            Self::Threading { .. } => "use an MPI library that was built with support for MPI_THREAD_MULTIPLE",
            Self::Uneven { .. } => "start one process per rank: `mpirun -np RANKS trainyard run ...`",
            Self::TooManyRanks { .. } => {
                "start more processes, or let each use more processors: `mpirun -np RANKS` or `mpirun --bind-to none`"
            }
        }
    }
}

/// The processes of a job, before it is known how many ranks they shall hold.
#[expect(clippy::struct_field_names, reason = "how many there are, and which one this is")]
pub struct Processes {
    processes: usize,
    process: usize,
    /// Processor threads that every process may use, and how many processes use the same ones as this.
    seats: Seats,
    #[cfg(feature = "mpi")]
    session: Option<super::mpi::Session>,
}

/// The processor threads of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seats {
    /// Those that this process may use.
    pub(super) own: usize,
    /// The fewest that any process may use.
    pub(super) fewest: usize,
    /// Processes that use the same ones as this process, itself included.
    pub(super) sharing: usize,
    /// Processes on this host, and which of them this one is.
    pub(super) on_host: usize,
    pub(super) place: usize,
}

impl Launcher {
    /// Joins the processes that were started. Returns once all of them have.
    ///
    /// # Errors
    ///
    /// When the program was built without MPI, or the MPI library is not fit.
    pub fn join(self) -> Result<Processes, LaunchError> {
        match self {
            Self::Threads => Ok(Processes {
                processes: 1,
                process: 0,
                seats: Seats { own: cores(), fewest: usize::MAX, sharing: 1, on_host: 1, place: 0 },
                #[cfg(feature = "mpi")]
                session: None,
            }),
            #[cfg(not(feature = "mpi"))]
            Self::Mpi { .. } => Err(LaunchError::NotBuilt),
            #[cfg(feature = "mpi")]
            Self::Mpi { heartbeat_timeout } => {
                let session = super::mpi::Session::start(heartbeat_timeout)?;
                let (processes, process) = (session.processes(), session.process());
                Ok(Processes { processes, process, seats: session.seats(), session: Some(session) })
            }
        }
    }
}

impl Processes {
    /// Returns the number of processes in the job.
    pub fn count(&self) -> usize {
        self.processes
    }

    /// Returns `true` if this process has rank 0: the one that prints and writes.
    pub fn is_root(&self) -> bool {
        self.process == 0
    }

    /// Returns `true` if every process is ready to go on. Collective: all must call it, so that none waits for one that
    /// is not ready.
    pub fn all_ready(&self, ready: bool) -> bool {
        #[cfg(feature = "mpi")]
        if let Some(session) = &self.session {
            return session.all_ready(ready);
        }
        ready
    }

    /// Returns what the first process passed as `own`. Collective: all must call it.
    pub fn told(&self, own: &str) -> String {
        #[cfg(feature = "mpi")]
        if let Some(session) = &self.session {
            return session.told(own);
        }
        own.to_owned()
    }

    /// Returns the number of ranks in each process, out of `ranks` in all.
    ///
    /// # Errors
    ///
    /// When ranks do not divide evenly over processes, or a process has fewer processors than ranks.
    pub fn ranks_each(&self, ranks: usize) -> Result<usize, LaunchError> {
        let processes = self.processes;
        if ranks == 0 || !ranks.is_multiple_of(processes) {
            return Err(LaunchError::Uneven { ranks, processes });
        }
        let each = ranks / processes;
        if each > self.seats.fewest {
            return Err(LaunchError::TooManyRanks { ranks, processes, processors: self.seats.fewest });
        }
        Ok(each)
    }

    /// Deals `ranks` out: process p of P holds the ranks from p · `ranks` / P on. All processes must ask for as many.
    ///
    /// # Errors
    ///
    /// Those of [`Self::ranks_each`].
    pub fn world(self, ranks: usize) -> Result<World, LaunchError> {
        let threads = self.ranks_each(ranks)?;
        let (processes, process) = (self.processes, self.process);
        let failure = Arc::new(Failure::default());
        let inboxes: Arc<Vec<Inbox>> = Arc::new((0..threads).map(|_| Inbox::default()).collect());
        #[cfg(feature = "mpi")]
        if let Some(session) = self.session {
            let mpi = super::mpi::Mpi::new(session, failure.clone(), inboxes.clone(), process * threads, threads);
            let mpi = Arc::new(mpi);
            let carrier: Arc<dyn Carrier> = mpi.clone();
            let mut world = World::new((process, processes), failure, inboxes, Some(carrier), self.seats);
            world.mpi = Some(mpi);
            return Ok(world);
        }
        Ok(World::new((process, processes), failure, inboxes, None, self.seats))
    }
}

/// The ranks of a job, and which of them are threads of this process.
pub struct World {
    job: Arc<Job>,
    ranks: usize,
    threads_per_rank: usize,
    ranks_on_host: usize,
    /// Number of times that ranks were run here; each run gets a group of its own.
    runs: AtomicU64,
    #[cfg(feature = "mpi")]
    mpi: Option<Arc<super::mpi::Mpi>>,
}

/// Joins the processes that `launcher` started and deals `ranks` out to them.
///
/// # Errors
///
/// When the program was built without MPI, the MPI library is not fit, or the processes cannot hold the ranks.
pub fn launch(launcher: Launcher, ranks: usize) -> Result<World, LaunchError> {
    launcher.join()?.world(ranks)
}

/// Identifiers of the groups of all ranks start here; those of groups that were split from them stay below.
const WORLDS: u64 = 1 << 63;

impl World {
    /// Makes the ranks of process `place.0` of `place.1`, one per inbox.
    pub(super) fn new(
        place: (usize, usize),
        failure: Arc<Failure>,
        inboxes: Arc<Vec<Inbox>>,
        carrier: Option<Arc<dyn Carrier>>,
        seats: Seats,
    ) -> Self {
        let (process, processes) = place;
        let threads = inboxes.len();
        let Seats { own, sharing, on_host, place: on_this_host, .. } = seats;
        Self {
            job: Arc::new(Job {
                failure,
                spins: spins(threads * sharing, own),
                first: process * threads,
                threads,
                inboxes,
                carrier,
                processes,
                process,
                before_on_host: on_this_host * threads,
                tickets: AtomicU64::new(0),
            }),
            ranks: processes * threads,
            threads_per_rank: threads_per_rank(own, threads * sharing),
            ranks_on_host: threads * on_host,
            runs: AtomicU64::new(0),
            #[cfg(feature = "mpi")]
            mpi: None,
        }
    }

    /// Makes a world of `ranks` threads of this process, at least one.
    pub fn threads(ranks: usize) -> Self {
        launch(Launcher::Threads, ranks.max(1)).expect("one process holds any number of ranks")
    }

    /// Returns the number of ranks in the job.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the ranks that are threads of this process.
    pub fn local(&self) -> Range<usize> {
        self.job.first..self.job.first + self.job.threads
    }

    /// Returns `true` if this process has rank 0: the one that prints and writes.
    pub fn is_root(&self) -> bool {
        self.job.process == 0
    }

    /// Returns the number of processes in the job.
    pub fn processes(&self) -> usize {
        self.job.processes
    }

    /// Returns the number of ranks on this host, in whatever process.
    pub fn ranks_on_host(&self) -> usize {
        self.ranks_on_host
    }

    /// Returns the places that the ranks of this process have among those of its host.
    pub fn places_on_host(&self) -> Range<usize> {
        self.job.before_on_host..self.job.before_on_host + self.job.threads
    }

    /// Returns the number of processor threads for each rank of this process: the processors that the process may use,
    /// over the ranks that use the same ones.
    pub fn threads_per_rank(&self) -> usize {
        self.threads_per_rank
    }

    /// Ends this process with `code` after a failure, and with it the whole job.
    ///
    /// Processes that come here within a few seconds end together, so that each can put in order what it has; the
    /// launcher ends those that do not.
    pub fn abort(&self, code: i32) -> ! {
        #[cfg(feature = "mpi")]
        if let Some(mpi) = &self.mpi {
            mpi.abort(code);
        }
        std::process::exit(code)
    }

    /// Returns the ends of the group of all ranks that live here.
    fn groups(&self) -> Vec<ProcessGroup> {
        let id = WORLDS + self.runs.fetch_add(1, Ordering::Relaxed);
        let shared = Shared::new(self.job.clone(), id, (0..self.ranks).collect());
        self.local().map(|rank| ProcessGroup { shared: shared.clone(), rank, waited: Arc::default() }).collect()
    }
}

/// Returns the group of a rank that is alone.
pub(crate) fn alone() -> ProcessGroup {
    World::threads(1).groups().remove(0)
}

#[cfg(feature = "mpi")]
impl Drop for World {
    fn drop(&mut self) {
        if let Some(mpi) = &self.mpi {
            mpi.close();
        }
    }
}

/// Runs `work` on a thread for each rank of this process and returns what each returned, first rank first. All
/// processes of the world must call it equally often.
///
/// A rank that panics or returns an error fails the group, so that the others return too, in all processes. After
/// that the world cannot be used again: end the job with [`World::abort`].
pub fn run_ranks<T: Send, E: Send + std::fmt::Display>(
    world: &World,
    work: impl Fn(ProcessGroup) -> Result<T, E> + Sync,
) -> Vec<Result<T, RankError<E>>> {
    let work = &work;
    std::thread::scope(|scope| {
        let handles: Vec<_> = world
            .groups()
            .into_iter()
            .map(|group| {
                let guard = PanicGuard(group.clone());
                let rank = move || {
                    let guard = guard;
                    let result = work(guard.0.clone());
                    if let Err(error) = &result {
                        guard.0.fail(&error.to_string());
                    }
                    result
                };
                // The others would wait for one that never comes.
                std::thread::Builder::new().spawn_scoped(scope, rank).map_err(|error| {
                    let reason = format!("the system has no thread for it: {error}");
                    group.fail(&reason);
                    reason
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| match handle.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(Ok(value))) => Ok(value),
                Ok(Ok(Err(error))) => Err(RankError::Failed(error)),
                Ok(Err(panic)) => Err(RankError::Panicked(panic_message(panic.as_ref()))),
                Err(reason) => Err(RankError::NotStarted(reason)),
            })
            .collect()
    })
}

/// The error of a rank that did not return a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankError<E> {
    /// It returned this.
    Failed(E),
    /// It panicked with this message.
    Panicked(String),
    /// The system has no thread for it, for this reason.
    NotStarted(String),
}

/// Fails the group when its rank's thread unwinds.
struct PanicGuard(ProcessGroup);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("it panicked");
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".into())
}
