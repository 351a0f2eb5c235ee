//! Pictures as files: which format a name asks for, and which ground.

use crate::failure::Failure;
use crate::files;
use crate::values::{self, Refused};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
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

/// Returns the failure of a plot of figures that cannot be drawn.
pub(crate) fn refused(why: impl Into<String>) -> Failure {
    Failure::input("there is nothing to plot").because(why).hint("leave out --plot: the table tells the same figures")
}

/// A plot as a file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PlotArguments {
    /// Draw it
    #[arg(long, value_name = "FILE.svg|.png", value_parser = plot_file, help_heading = "Results")]
    pub(crate) plot: Option<PathBuf>,
    /// Background of the plot: `auto` follows the reader's system (a PNG is light), `light` or `dark`
    #[arg(long, value_enum, default_value_t = PlotTheme::Auto, value_name = "THEME", requires = "plot", help_heading = "Results")]
    pub(crate) plot_theme: PlotTheme,
}

/// What plots stand on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlotTheme {
    /// What the reader's system prefers; light in a PNG
    #[default]
    Auto,
    /// White
    Light,
    /// Nearly black
    Dark,
}

fn plot_file(text: &str) -> Result<PathBuf, Refused> {
    let path = PathBuf::from(text);
    if is_plot(&path) { Ok(path) } else { Err(values::refused(text, "a file that ends in .svg or .png")) }
}

impl PlotArguments {
    /// Returns the requested file, with its content.
    pub(crate) fn file(&self, picture: &Picture) -> Option<(&Path, Vec<u8>)> {
        let path = self.plot.as_deref()?;
        Some((path, encoded(path, picture, self.plot_theme.scheme())))
    }

    /// Draws and writes the plot, if one is asked for, and returns what to say of it.
    pub(crate) fn write(&self, draw: impl FnOnce() -> Result<Picture, Failure>) -> Result<Option<String>, Failure> {
        let Some(path) = &self.plot else { return Ok(None) };
        files::write(path, encoded(path, &draw()?, self.plot_theme.scheme()))?;
        Ok(self.note())
    }

    /// Says where the plot was written, if one was asked for.
    pub(crate) fn note(&self) -> Option<String> {
        self.plot.as_ref().map(|path| format!("plot written to {}", path.display()))
    }
}

impl PlotTheme {
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
