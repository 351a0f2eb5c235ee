//! The what-if page and the JSON API behind it: jobs in, plans out, over HTTP.
//!
//! [`router`] is the whole of it as a value that can be called without a socket; [`serve`] puts it behind a listener that
//! somebody else opened, until a [`Stop`] says so. Nothing here opens sockets, or files but the history that the settings
//! name: a request names models and instances of the catalogs, or brings the content of a `config.json`, and never a path.
//!
//! Plans are searched by `trainyard_planner` in threads of their own, a bounded number at a time. A search whose client
//! has gone is cancelled, answers are kept, and equal questions that come at the same time are answered once.
//!
//! ```
//! let document = trainyard_server::openapi();
//! assert_eq!(document["openapi"], "3.1.0");
//! assert!(document["paths"]["/api/v1/plan"]["post"].is_object());
//! ```

mod answer;
mod assets;
mod body;
mod bounds;
mod catalogs;
mod export;
mod guard;
mod history;
mod listen;
mod named;
mod openapi;
mod planning;
mod question;
mod refusal;
mod routes;
mod step;
mod threads;
mod wording;

pub use answer::{ModelAnswer, PlanAnswer};
pub use bounds::Bounds;
pub use catalogs::{Catalogs, InstanceEntry, KeyEntry, ModelEntry, PriceEntry};
pub use export::{ExportAnswer, ExportEntry, ExportedFile, Target};
pub use guard::{Token, TokenError};
pub use listen::{Stop, serve};
pub use openapi::openapi;
pub use question::{Effort, FleetQuestion, ModelQuestion, PlanQuestion, WhatIfQuestion};
pub use refusal::Refusal;
pub use routes::{Settings, router};
pub use step::{Doing, RowSegment, RowShare, StageRow, StepPicture};
