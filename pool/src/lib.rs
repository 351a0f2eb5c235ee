//! Many jobs on one pool of instances: queues, whose jobs are given, and fleets, whose plans are sought. What is written,
//! checked, simulated, printed and drawn of them is here and nowhere else.
//!
//! ```
//! use trainyard_pool::queue::{PoolSpec, QueueFiles, QueueSpec, QueuedJobSpec, predict_queue};
//!
//! let pool = PoolSpec { instance: "p3.2xlarge".into(), max_instances: Some(4), ..PoolSpec::default() };
//! let job = QueuedJobSpec { name: "trial".into(), duration: Some("1 h".into()), count: 6, ..Default::default() };
//! let queue = QueueSpec { pool, policy: Default::default(), jobs: vec![job] };
//! let document = predict_queue(&queue, &QueueFiles::default(), 0)?;
//! // Six jobs of an hour on four instances are two rounds, each with a cold start.
//! assert!(document.prediction.makespan_s > 7200.0 && document.prediction.cold_starts == 6);
//! # Ok::<(), trainyard_units::Invalid>(())
//! ```

pub mod fleet;
pub mod queue;
