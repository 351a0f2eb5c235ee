//! Shapes of what flows between operators, and the arithmetic of windows.

use crate::families::fields::{CHANNELS_MAX, IMAGE_MAX, SEQUENCE_MAX, VOCABULARY_MAX};
use crate::layers::{InputSpec, Padding, PaddingRule, Sizes};
use crate::operator::{Extent, pixels};
use std::fmt;
use trainyard_units::Invalid;

/// Dimensions in which a map may extend.
const DIMENSIONS: usize = 3;

/// Most elements of a map, which keeps every count within 64 bits.
const ELEMENTS_MAX: u64 = 1 << 36;

/// Longest side of a window, and farthest that windows are apart.
const WINDOW_MAX: u64 = 1 << 8;

/// What one sample is at some point: `samples` maps of pixels in up to three dimensions, or tokens in one, or vectors
/// without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Maps of one sample.
    pub(super) samples: u64,
    /// Dimensions in which pixels extend, the last of [`Self::extent`].
    pub(super) dimensions: usize,
    /// Depth, height and width; 1 in dimensions that are not extended in.
    pub(super) extent: Extent,
    /// Channels of a pixel, or features of a token.
    pub(super) channels: u64,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.samples > 1 {
            write!(f, "{} × ", self.samples)?;
        }
        write!(f, "{}", self.channels)?;
        if self.dimensions == 0 {
            return f.write_str(" features");
        }
        let extent: Vec<_> = self.extent[DIMENSIONS - self.dimensions..].iter().map(ToString::to_string).collect();
        write!(f, " channels of {}", extent.join(" × "))
    }
}

/// The input of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Tokens to be looked up.
    Tokens(u64),
    Map(Shape),
}

impl InputSpec {
    pub(super) fn valid(self) -> Result<Input, Invalid> {
        let vectors = |dimensions, tokens, channels| Shape { samples: 1, dimensions, extent: [1, 1, tokens], channels };
        let input = match self {
            Self {
                channels: Some(channels),
                depth,
                height: Some(height),
                width: Some(width),
                tokens: None,
                features: None,
            } => {
                let dimensions = if depth.is_some() { 3 } else { 2 };
                let extent = [depth.unwrap_or(1), height, width];
                for (field, size) in [("depth", extent[0]), ("height", height), ("width", width)] {
                    range(field, size, 1, IMAGE_MAX)?;
                }
                range("channels", channels, 1, CHANNELS_MAX)?;
                Input::Map(Shape { samples: 1, dimensions, extent, channels })
            }
            Self { channels: None, depth: None, height: None, width: None, tokens, features } => {
                match (tokens, features) {
                    (Some(tokens), None) => Input::Tokens(range("tokens", tokens, 1, SEQUENCE_MAX)?),
                    (Some(tokens), Some(features)) => Input::Map(vectors(
                        1,
                        range("tokens", tokens, 1, SEQUENCE_MAX)?,
                        range("features", features, 1, VOCABULARY_MAX)?,
                    )),
                    (None, Some(features)) => {
                        Input::Map(vectors(0, 1, range("features", features, 1, VOCABULARY_MAX)?))
                    }
                    (None, None) => return Err(self.unknown()),
                }
            }
            _ => return Err(self.unknown()),
        };
        match input {
            Input::Map(shape) => shape.checked().map(Input::Map),
            tokens @ Input::Tokens(_) => Ok(tokens),
        }
    }

    fn unknown(self) -> Invalid {
        let fields = [
            ("channels", self.channels),
            ("depth", self.depth),
            ("height", self.height),
            ("width", self.width),
            ("tokens", self.tokens),
            ("features", self.features),
        ];
        let set: Vec<_> = fields.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect();
        let fields = if set.is_empty() { "(none)".into() } else { set.join(", ") };
        Invalid::whole(format!("the fields {fields} do not describe a sample")).with_hint(
            "write input = { channels = 3, height = 224, width = 224 }, { tokens = 512 }, \
             { tokens = 1500, features = 80 } or { features = 13 }",
        )
    }
}

/// Returns a number that is within limits.
pub(super) fn range(field: &'static str, value: u64, minimum: u64, maximum: u64) -> Result<u64, Invalid> {
    if (minimum..=maximum).contains(&value) { Ok(value) } else { Err(Invalid::range(field, value, minimum..=maximum)) }
}

/// The windows of a convolution or a pool in one dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub(super) kernel: Extent,
    pub(super) stride: Extent,
    pub(super) dilation: Extent,
    /// Pixels on each side; nothing where the stride alone decides.
    pub(super) padding: Option<Extent>,
}

impl Shape {
    pub(super) fn pixels(self) -> u64 {
        pixels(self.extent)
    }

    /// Returns the elements of one of its maps.
    pub(super) fn map_elements(self) -> u64 {
        self.pixels() * self.channels
    }

    /// Returns the elements of one sample.
    pub(super) fn elements(self) -> u64 {
        self.samples * self.map_elements()
    }

    /// Vectors of channels of one sample.
    pub(super) fn rows(self) -> u64 {
        self.samples * self.pixels()
    }

    pub(super) fn with_channels(self, channels: u64) -> Self {
        Self { channels, ..self }
    }

    pub(super) fn with_extent(self, extent: Extent) -> Self {
        Self { extent, ..self }
    }

    pub(super) fn checked(self) -> Result<Self, Invalid> {
        let elements =
            self.extent.iter().fold(u128::from(self.samples) * u128::from(self.channels), |product, size| {
                product.saturating_mul(u128::from(*size))
            });
        if elements <= u128::from(ELEMENTS_MAX) {
            Ok(self)
        } else {
            Err(Invalid::whole(format!("it makes {self}, more than {ELEMENTS_MAX} elements")))
        }
    }

    /// One number for each dimension of the map, `neutral` in those that it does not have.
    pub(super) fn sizes(
        self,
        field: &'static str,
        sizes: &Sizes,
        neutral: u64,
        maximum: u64,
    ) -> Result<Extent, Invalid> {
        if self.dimensions == 0 {
            return Err(Invalid::whole(format!("it needs an image, a volume or a sequence, but gets {self}")));
        }
        let given = match sizes {
            Sizes::All(size) => vec![*size; self.dimensions],
            Sizes::Each(sizes) => sizes.clone(),
        };
        if given.len() != self.dimensions {
            let (numbers, dimensions) = (given.len(), self.dimensions);
            let sentence = format!("`{field}` has {numbers} numbers, but {self} has {dimensions} dimensions");
            return Err(Invalid::whole(sentence));
        }
        let mut extent = [neutral; DIMENSIONS];
        for (size, given) in extent[DIMENSIONS - self.dimensions..].iter_mut().zip(given) {
            *size = range(field, given, neutral.min(1), maximum)?;
        }
        Ok(extent)
    }

    /// Windows as they are written, for maps of this many dimensions.
    pub(super) fn windows(
        self,
        (word, kernel): (&'static str, &Sizes),
        stride: Option<&Sizes>,
        dilation: Option<&Sizes>,
        padding: Option<&Padding>,
    ) -> Result<Windows, Invalid> {
        let once = Sizes::All(1);
        let of = |field, sizes: Option<&Sizes>| self.sizes(field, sizes.unwrap_or(&once), 1, WINDOW_MAX);
        Ok(Windows {
            kernel: of(word, Some(kernel))?,
            stride: of("stride", stride)?,
            dilation: of("dilation", dilation)?,
            padding: match padding {
                None | Some(Padding::Rule(PaddingRule::Same)) => None,
                Some(Padding::Rule(PaddingRule::Valid)) => Some([0; DIMENSIONS]),
                Some(Padding::By(sizes)) => Some(self.sizes("padding", sizes, 0, WINDOW_MAX)?),
            },
        })
    }

    /// Returns the largest factor by which a map may be made larger in one step.
    pub(super) fn factors(self, sizes: &Sizes) -> Result<Extent, Invalid> {
        self.sizes("upsample", sizes, 1, WINDOW_MAX)
    }

    /// Returns an extent that is written out.
    pub(super) fn extent_of(self, field: &'static str, sizes: &Sizes) -> Result<Extent, Invalid> {
        self.sizes(field, sizes, 1, IMAGE_MAX)
    }
}

impl Windows {
    /// How many windows there are in each dimension.
    pub(super) fn count(self, input: Extent) -> Result<Extent, Invalid> {
        self.each(input, |size, kernel, stride, dilation, padding| {
            let Some(padding) = padding else { return Ok(size.div_ceil(stride)) };
            let window = dilation * (kernel - 1) + 1;
            let padded = size + 2 * padding;
            if padding >= window || window > padded {
                return Err(no_window(window, size, padding));
            }
            Ok((padded - window) / stride + 1)
        })
    }

    /// Returns the extent of which there would be as many windows as `input` has pixels.
    pub(super) fn spread(self, input: Extent) -> Result<Extent, Invalid> {
        self.each(input, |size, kernel, stride, _, padding| {
            let Some(padding) = padding else { return Ok(size * stride) };
            let window = (size - 1) * stride + kernel;
            if window > 2 * padding { Ok(window - 2 * padding) } else { Err(no_window(window, size, padding)) }
        })
    }

    fn each(
        self,
        input: Extent,
        of: impl Fn(u64, u64, u64, u64, Option<u64>) -> Result<u64, Invalid>,
    ) -> Result<Extent, Invalid> {
        let mut output = input;
        for (axis, size) in output.iter_mut().enumerate() {
            let padding = self.padding.map(|padding| padding[axis]);
            *size = of(*size, self.kernel[axis], self.stride[axis], self.dilation[axis], padding)?;
        }
        Ok(output)
    }
}

fn no_window(window: u64, size: u64, padding: u64) -> Invalid {
    let padded = format!("{size} and {padding} of padding on each side");
    Invalid::whole(format!("a window of {window} pixels does not fit into {padded}"))
        .with_hint("make the kernel smaller, or write padding = \"same\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(size: u64) -> Shape {
        Shape { samples: 1, dimensions: 1, extent: [1, 1, size], channels: 1 }
    }

    fn windows(kernel: u64, stride: u64, dilation: u64, padding: Option<u64>) -> Windows {
        let padding = padding.map(|padding| Padding::By(Sizes::All(padding)));
        let (stride, dilation) = (Sizes::All(stride), Sizes::All(dilation));
        line(1)
            .windows(("kernel", &Sizes::All(kernel)), Some(&stride), Some(&dilation), padding.as_ref())
            .expect("within limits")
    }

    proptest! {
        #[test]
        fn windows_are_those_that_can_be_put_down_one_by_one(
            size in 1u64..60, kernel in 1u64..9, stride in 1u64..5, dilation in 1u64..4, padding in 0u64..5,
        ) {
            let counted = windows(kernel, stride, dilation, Some(padding)).count([1, 1, size]);
            let span = dilation * (kernel - 1) + 1;
            let mut starts = 0;
            while starts * stride + span <= size + 2 * padding {
                starts += 1;
            }
            match counted {
                Ok([1, 1, windows]) => prop_assert_eq!(windows, starts),
                Ok(other) => prop_assert!(false, "{other:?}"),
                Err(problem) => {
                    let refused = problem.to_string().contains("does not fit");
                    prop_assert!(refused && (starts == 0 || padding >= span));
                }
            }
        }

        #[test]
        fn a_transposed_convolution_undoes_what_a_convolution_does_to_the_extent(
            size in 1u64..60, kernel in 1u64..9, stride in 1u64..5, padding in 0u64..5,
        ) {
            prop_assume!(padding < kernel);
            let windows = windows(kernel, stride, 1, Some(padding));
            if let Ok(spread) = windows.spread([1, 1, size]) {
                prop_assert_eq!(windows.count(spread), Ok([1, 1, size]));
            }
        }
    }

    #[test]
    fn by_default_the_stride_alone_makes_a_map_smaller() {
        assert_eq!(windows(7, 2, 1, None).count([1, 1, 225]), Ok([1, 1, 113]));
        assert_eq!(windows(3, 1, 6, None).count([1, 1, 5]), Ok([1, 1, 5]));
    }
}
