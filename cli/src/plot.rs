//! Pictures as files: which format a name asks for, and which ground.

use crate::arguments::PlotArguments;
use std::path::Path;
use trainyard_reports::{Picture, Scheme, Theme};

/// The formats of plots, as file name extensions.
pub(crate) const FORMATS: [&str; 2] = ["svg", "png"];

/// Returns `true` if a name has the extension of a plot.
pub(crate) fn is_plot(path: &Path) -> bool {
    FORMATS.iter().any(|format| ends_in(path, format))
}

fn ends_in(path: &Path, format: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(format))
}

/// Encodes a picture in the format of this file name.
pub(crate) fn encoded(path: &Path, picture: &Picture, scheme: Scheme) -> Vec<u8> {
    if ends_in(path, "png") { picture.png(scheme) } else { picture.svg(scheme).into_bytes() }
}

impl PlotArguments {
    /// Returns the requested file, with its content.
    pub(crate) fn file(&self, picture: &Picture) -> Option<(&Path, Vec<u8>)> {
        let path = self.plot.as_deref()?;
        Some((path, encoded(path, picture, self.plot_theme.scheme())))
    }
}

impl crate::arguments::PlotTheme {
    pub(crate) fn scheme(self) -> Scheme {
        match self {
            Self::Auto => Scheme::Auto,
            Self::Light => Scheme::Always(Theme::Light),
            Self::Dark => Scheme::Always(Theme::Dark),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_told_by_the_ends_of_their_names() {
        for (name, is) in [("a.svg", true), ("b/c.PNG", true), ("d.pdf", false), ("svg", false), ("", false)] {
            assert_eq!(is_plot(Path::new(name)), is, "{name}");
        }
    }
}
