//! Quantities of training and their text forms.
//!
//! Every quantity is a newtype with only the operations that make sense: bytes add to bytes, bytes divided by a
//! bandwidth are seconds, and nothing else compiles. Work that is still to be priced is a count ([`Bytes`],
//! [`Flops`]), a price is [`Seconds`], and simulated time is an integer [`Instant`], so that two equal sums of
//! durations are equal whatever their order.
//!
//! Every quantity reads and prints as text with its unit (`80 GiB`, `450 GB/s`, `989 TFLOP/s`, `5 us`, `3 d`);
//! the two round-trip. What has no unit is read as people write it (`10B`, `1.5M`, `2k`, `100_000`).
//!
//! ```
//! use trainyard_units::{Bytes, BytesPerSecond};
//!
//! let gradients: Bytes = "3 GiB".parse()?;
//! let network: BytesPerSecond = "25Gbit/s".parse()?;
//! assert_eq!((gradients / network).to_string(), "1.03079215104 s");
//! assert_eq!("1.5us".parse::<trainyard_units::Seconds>()?.to_string(), "1.5 us");
//! # Ok::<(), trainyard_units::ParseQuantityError>(())
//! ```

mod instant;
mod invalid;
mod list;
mod name;
mod number;
mod quantity;
mod schema;
mod text;
mod words;

pub use instant::{Instant, Span};
pub use invalid::Invalid;
pub use list::{exactly_option, triples};
pub use name::UnknownName;
#[doc(hidden)]
pub use name::folded;
pub use number::{
    ParseNumberError, Written, bytes_option, count, number, sequence_length, sequence_option, share, share_text_option,
    written, written_option, written_share, written_share_option, written_table,
};
pub use quantity::{Bytes, BytesPerSecond, Flops, FlopsPerSecond, Seconds, Usd, UsdPerHour};
pub use schema::numbers_or_texts;
pub use text::{
    ParseQuantityError, counted, either, human_bytes, human_count, human_duration, short_count, three_digits,
};
pub use words::{CatalogError, similar, slip};
