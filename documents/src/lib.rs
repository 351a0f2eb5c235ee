//! Files that users give, before anything is known of their content: they are opened only if they are regular files,
//! read only up to the size that a file of their kind may have, and parsed without what has no one meaning.
//!
//! A FIFO or a device has no end that a program may wait for. A file of some megabytes may unpack to terabytes. A key
//! that stands twice means one thing to one program and another to the next, and a number that is none is taken for
//! one that was left out. All of that is refused here, once, so that no reader has to.
//!
//! ```
//! #[derive(Debug, serde::Deserialize)]
//! struct Job { steps: f64 }
//!
//! assert_eq!(trainyard_documents::from_toml::<Job>("steps = 3.0")?.steps, 3.0);
//! assert!(trainyard_documents::from_toml::<Job>("steps = nan").is_err());
//! assert!(trainyard_documents::from_json::<serde_json::Value>(r#"{"steps": 3, "steps": 4}"#).is_err());
//! # Ok::<(), toml::de::Error>(())
//! ```

mod file;
mod place;
mod sound;
mod words;

pub use file::{Unpacked, Unreadable, bytes, open, text, text_from, text_of, unpacked};
pub use place::toml_place;
pub use sound::{VALUES_MAX, from_json, from_json_bytes, from_toml};
pub use words::plain_words;
