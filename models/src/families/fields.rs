//! The fields of a family: which a specification may have, how each is read and checked, and how it is written back.

use crate::families::{HeadKind, ModelError, ModelSpec};
use crate::operator::AttentionKernel;
use trainyard_units::Invalid;

// Upper limits that keep every product of dimensions within 64 bits and catch a slipped decimal.
pub(crate) const LAYERS_MAX: u64 = 10_000;
/// Operators of all layers, repeated ones counted each time: those of the largest published models are some ten thousand.
/// Sides within sides multiply, so that a few lines may ask for more than a machine holds.
pub(crate) const OPERATORS_MAX: u64 = 1 << 18;
pub(crate) const WIDTH_MAX: u64 = 1 << 20;
pub(crate) const VOCABULARY_MAX: u64 = 1 << 24;
/// Rows of all embedding tables together: eight for each of the people that there are.
pub(crate) const ROWS_MAX: u64 = 1 << 36;
/// Steps of a recurrent network, all pairs of which are computed where one side attends to the other.
pub(crate) const STEPS_MAX: u64 = 1 << 16;
/// The most tokens of a sample.
pub const SEQUENCE_MAX: u64 = 1 << 22;
pub(crate) const IMAGE_MAX: u64 = 1 << 12;
pub(crate) const CHANNELS_MAX: u64 = 1 << 17;

/// Dimensions that are read from a specification and written back to it: those of a family, or of a part that several
/// families have.
pub(crate) trait Dimensions {
    /// The values besides the specification on which the reading depends.
    type Given;

    /// Returns `true` for a field of specifications that is one of these.
    fn has(field: &str) -> bool
    where
        Self: Sized;

    /// Returns the dimensions with every default filled in.
    fn read(spec: &ModelSpec, given: Self::Given) -> Result<Self, ModelError>
    where
        Self: Sized;

    /// Sets the fields that were read, defaults among them.
    fn write(&self, spec: &mut ModelSpec);
}

/// A part that a model has if any of its fields is set.
impl<Part: Dimensions> Dimensions for Option<Part> {
    type Given = Part::Given;

    fn has(field: &str) -> bool {
        Part::has(field)
    }

    fn read(spec: &ModelSpec, given: Self::Given) -> Result<Self, ModelError> {
        spec.set_fields().any(Part::has).then(|| Part::read(spec, given)).transpose()
    }

    fn write(&self, spec: &mut ModelSpec) {
        if let Some(part) = self {
            part.write(spec);
        }
    }
}

/// Declares a struct of [`Dimensions`]. Its fields have the names of those of [`ModelSpec`] and are read in order, so that
/// the first error is that of the first field:
///
/// - `ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX)` calls the function `or` with the [`Field`], the written value, and these
///   arguments, in which the fields above are known by their names;
/// - `… unless 0` leaves the value 0 out when the field is written back;
/// - `@part experts: Experts = (hidden, ffn)` reads other dimensions, given these;
/// - `name`, first, is the model's own.
macro_rules! dimensions {
    ($(#[$meta:meta])* pub struct $dimensions:ident { name, $($fields:tt)* }) => {
        dimensions! { @struct $(#[$meta])* $dimensions [name] $($fields)* }

        impl $crate::families::model::Named for $dimensions {
            fn name(&self) -> &str {
                &self.name
            }
        }
    };
    ($(#[$meta:meta])* pub struct $dimensions:ident { $($fields:tt)* }) => {
        dimensions! { @struct $(#[$meta])* $dimensions [] $($fields)* }
    };
    (@struct $(#[$meta:meta])* $dimensions:ident [$($name:ident)?]
        $($(#[$doc:meta])* $(@$part:ident)? $field:ident: $type:ty = $($reader:ident)? ($($argument:expr),*)
            $(unless $assumed:expr)?,)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $dimensions {
            $(
                /// Catalog id or the user's name.
                pub $name: String,
            )?
            $(
                $(#[$doc])*
                #[doc = dimensions!(@doc [$($part)?] $field)]
                pub $field: $type,
            )*
        }

        impl $crate::families::fields::Dimensions for $dimensions {
            type Given = ();

            fn has(field: &str) -> bool {
                false $(|| dimensions!(@has [$($part)?] field, $field: $type))*
            }

            fn read(spec: &$crate::families::spec::ModelSpec, (): ()) -> Result<Self, $crate::families::spec::ModelError> {
                $(let $field: $type =
                    dimensions!(@read [$($part)?] spec, $field: $type = $($reader)? ($($argument),*));)*
                Ok(Self { $($name: spec.$name.clone(),)? $($field),* })
            }

            fn write(&self, spec: &mut $crate::families::spec::ModelSpec) {
                $(spec.$name.clone_from(&self.$name);)?
                $(dimensions!(@write [$($part)?] spec, $field = &self.$field, $($assumed)?);)*
            }
        }
    };
    (@doc [] $field:ident) => { concat!("[`", stringify!($field), "`](crate::ModelSpec::", stringify!($field), ").") };
    (@doc [part] $field:ident) => { "" };
    (@has [] $set:ident, $field:ident: $type:ty) => { $set == stringify!($field) };
    (@has [part] $set:ident, $field:ident: $type:ty) => { <$type as $crate::families::fields::Dimensions>::has($set) };
    (@read [] $spec:ident, $field:ident: $type:ty = $reader:ident ($($argument:expr),*)) => {
        $reader($crate::families::fields::Field { spec: $spec, name: stringify!($field) }, $spec.$field.clone(), $($argument),*)?
    };
    (@read [part] $spec:ident, $field:ident: $type:ty = ($($argument:expr),*)) => {
        <$type as $crate::families::fields::Dimensions>::read($spec, ($($argument),*))?
    };
    (@write [] $spec:ident, $field:ident = $value:expr,) => { $spec.$field = $value.clone().into() };
    (@write [] $spec:ident, $field:ident = $value:expr, $assumed:expr) => {
        $spec.$field = $crate::families::fields::unless($value, &$assumed)
    };
    (@write [part] $spec:ident, $field:ident = $value:expr,) => { $value.write($spec) };
}
pub(crate) use dimensions;

/// Returns a value that is not the assumed one.
pub(crate) fn unless<T: Clone + PartialEq>(value: &T, assumed: &T) -> Option<T> {
    (value != assumed).then(|| value.clone())
}

/// Returns the dimensions of a specification that has no field of another family.
///
/// # Errors
///
/// Fails for the first field of another, before any that is missing or out of range.
pub(crate) fn read<Family: Dimensions<Given = ()>>(spec: &ModelSpec) -> Result<Family, ModelError> {
    match spec.set_fields().find(|field| !Family::has(field)) {
        None => Family::read(spec, ()),
        Some(field) => Err(Invalid::whole(format!("family `{}` has no field `{field}`", spec.family)).into()),
    }
}

/// A field of one specification.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    pub(crate) spec: &'a ModelSpec,
    pub(crate) name: &'static str,
}

impl Field<'_> {
    pub(crate) fn missing(self) -> Invalid {
        Invalid::missing(self.name, format!("models of family `{}` need it", self.spec.family))
    }

    /// Returns the value, if it is from 1 to the maximum.
    pub(crate) fn range<T: Copy + Into<u64>>(self, value: T, maximum: u64) -> Result<T, Invalid> {
        if (1..=maximum).contains(&value.into()) {
            Ok(value)
        } else {
            Err(Invalid::range(self.name, value.into(), 1..=maximum))
        }
    }
}

/// Returns a divisor of `dividend`, which `of` describes.
pub(crate) fn divisor(field: &str, value: u64, (dividend, of): (u64, &str)) -> Result<u64, Invalid> {
    if dividend.is_multiple_of(value) {
        return Ok(value);
    }
    let below = (1..=value.min(dividend)).rev().find(|below| dividend.is_multiple_of(*below)).unwrap_or(1);
    Err(Invalid::breaks(field, value, format!("it must divide the {dividend} {of}"))
        .with_hint(format!("{field} {below} divides them")))
}

/// Reads a number that the family needs.
pub(crate) fn needed<T: Copy + Into<u64>>(at: Field, written: Option<T>, maximum: u64) -> Result<T, Invalid> {
    at.range(written.ok_or_else(|| at.missing())?, maximum)
}

/// Reads a number with a default.
pub(crate) fn or<T: Copy + Into<u64>>(at: Field, written: Option<T>, default: T, maximum: u64) -> Result<T, Invalid> {
    at.range(written.unwrap_or(default), maximum)
}

/// Reads a number that may be left out.
pub(crate) fn optional(at: Field, written: Option<u64>, maximum: u64) -> Result<Option<u64>, Invalid> {
    written.map(|value| at.range(value, maximum)).transpose()
}

/// Reads a choice with a default.
#[expect(clippy::unnecessary_wraps, reason = "every reader may fail")]
pub(crate) fn choice<T>(_: Field, written: Option<T>, default: T) -> Result<T, Invalid> {
    Ok(written.unwrap_or(default))
}

pub(crate) fn kernel(at: Field, written: Option<AttentionKernel>) -> Result<AttentionKernel, Invalid> {
    choice(at, written, AttentionKernel::Unfused)
}

/// Reads the entries of a table of learned positions: one for each token of the longest of some sequences unless
/// stated, and no fewer.
pub(crate) fn positions(at: Field, written: Option<u64>, sequences: &[(&'static str, u64)]) -> Result<u64, Invalid> {
    let longest = sequences.iter().map(|(_, tokens)| *tokens).max().unwrap_or(1);
    let positions = or(at, written, longest, SEQUENCE_MAX)?;
    match sequences.iter().find(|(_, tokens)| *tokens > positions) {
        None => Ok(positions),
        Some(&(field, tokens)) => Err(Invalid::value(field, tokens, format!("at most the {positions} of `positions`"))
            .with_hint(format!("a model that is trained anew may have `positions` = {tokens}; else lower `{field}`"))),
    }
}

/// Reads a list that the family needs, of at most `length` values, each from 1 to `maximum`.
pub(crate) fn list<T: Copy + Into<u64>>(
    at: Field,
    written: Option<Vec<T>>,
    length: u64,
    maximum: u64,
) -> Result<Vec<T>, Invalid> {
    let values = written.ok_or_else(|| at.missing())?;
    at.range(values.len() as u64, length)?;
    values.into_iter().map(|value| at.range(value, maximum)).collect()
}

/// Reads heads, which share the hidden width evenly unless their own width is stated.
pub(crate) fn attention_heads(at: Field, written: Option<u64>, hidden: u64) -> Result<u64, Invalid> {
    if let Some(width) = at.spec.head_width {
        let width = Field { name: "head_width", ..at }.range(width, WIDTH_MAX)?;
        return needed(at, written, 4 * WIDTH_MAX / width);
    }
    divisor(at.name, needed(at, written, WIDTH_MAX)?, (hidden, "features of `hidden`"))
}

/// Reads the heads of keys and values, each shared by equally many heads of queries.
pub(crate) fn equal_groups(at: Field, written: Option<u64>, heads: u64) -> Result<u64, Invalid> {
    divisor(at.name, or(at, written, heads, heads)?, (heads, "heads"))
}

/// Reads classes, which a classifier needs and nothing else has.
pub(crate) fn head_classes(at: Field, written: Option<u64>, head: HeadKind) -> Result<Option<u64>, Invalid> {
    match (head, written) {
        (HeadKind::Classifier, classes) => needed(at, classes, VOCABULARY_MAX).map(Some),
        (_, None) => Ok(None),
        (_, Some(classes)) => {
            Err(Invalid::breaks(at.name, classes, format!("the head is `{head}`"))
                .with_hint("set head = \"classifier\""))
        }
    }
}

/// Reads the numbers of some of a model's blocks, counted from 0.
pub(crate) fn some_blocks(at: Field, written: Option<Vec<u32>>, layers: u32) -> Result<Vec<u32>, Invalid> {
    let blocks = written.unwrap_or_default();
    match blocks.iter().find(|block| **block >= layers) {
        None => Ok(blocks),
        Some(block) => Err(Invalid::range(at.name, u64::from(*block), 0..=u64::from(layers - 1))),
    }
}

/// Reads a number above zero and at most `maximum`.
pub(crate) fn positive(at: Field, written: Option<f64>, assumed: f64, maximum: u64) -> Result<f64, Invalid> {
    let value = written.unwrap_or(assumed);
    if value > 0.0 && value <= maximum as f64 {
        return Ok(value);
    }
    Err(Invalid::value(at.name, value, format!("above 0 and at most {maximum}")))
}
