//! Words of documents, which have a schema.

/// The same as [`trainyard_units::named!`], with a schema.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident $values:tt) => {
        trainyard_units::named! { $(#[$meta])* #[derive(schemars::JsonSchema)] $name $values }
    };
}

pub(crate) use named;
