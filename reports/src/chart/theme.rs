//! Colours of the plots, on light and on dark ground.
//!
//! Kinds of things have the colours of Okabe and Ito, "Color Universal Design", 2008, which are told apart with any
//! colour vision; on dark ground they are lighter. A picture names colours by what they are for, so that one picture
//! can be shown on either ground.

use plotters::style::RGBColor;
use std::fmt::Write;

/// The background of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark on white.
    Light,
    /// Light on nearly black.
    Dark,
}

/// The role of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// The background.
    Paper,
    /// Text and axes.
    Ink,
    /// Explanatory text.
    Muted,
    /// Grid lines behind everything, and idle time.
    Grid,
    /// The first of the colours of kinds.
    Blue,
    /// The second.
    Amber,
    /// The third.
    Green,
    /// The fourth.
    Purple,
    /// The fifth.
    Orange,
    /// The sixth.
    Sky,
    /// Text on a light fill.
    OnLight,
    /// Text on a dark fill; fills are light on a dark background.
    OnDark,
}

use Colour::{Amber, Blue, Green, Grid, Ink, Muted, OnDark, OnLight, Orange, Paper, Purple, Sky};

/// Colours of kinds that differ by colour alone; neighbours differ most.
pub const KINDS: [Colour; 6] = [Blue, Amber, Green, Purple, Orange, Sky];

/// Every colour on a light and on a dark background. No two are the same on light, so that a style sheet can tell them
/// apart.
const COLOURS: [(Colour, [u32; 2]); 12] = [
    (Paper, [0x00ff_ffff, 0x0015_191f]),
    (Ink, [0x001f_2933, 0x00e6_e9ee]),
    (Muted, [0x005b_6672, 0x00a3_adb8]),
    (Grid, [0x00de_e2e7, 0x0031_3842]),
    (Blue, [0x0000_72b2, 0x004a_a3df]),
    (Amber, [0x00e6_9f00, 0x00f2_b632]),
    (Green, [0x0000_9e73, 0x002b_b88f]),
    (Purple, [0x00cc_79a7, 0x00de_98be]),
    (Orange, [0x00d5_5e00, 0x00f0_803c]),
    (Sky, [0x0056_b4e9, 0x008c_cbf2]),
    (OnLight, [0x001f_2934, 0x0015_191e]),
    (OnDark, [0x00ff_fffe, 0x0015_191e]),
];

impl Colour {
    pub(crate) fn rgb(self, theme: Theme) -> RGBColor {
        let (_, [light, dark]) = COLOURS[COLOURS.iter().position(|(colour, _)| *colour == self).unwrap_or(0)];
        let [_, red, green, blue] = match theme {
            Theme::Light => light.to_be_bytes(),
            Theme::Dark => dark.to_be_bytes(),
        };
        RGBColor(red, green, blue)
    }

    /// Returns the colour of text on a fill of this one.
    #[must_use]
    pub fn letters(self) -> Self {
        // Rec. 709 luma.
        let RGBColor(red, green, blue) = self.rgb(Theme::Light);
        let luma = 0.2126 * f64::from(red) + 0.7152 * f64::from(green) + 0.0722 * f64::from(blue);
        if luma > 118.0 { OnLight } else { OnDark }
    }
}

/// Returns CSS rules that turn the colours of a picture on a light background into those on a dark one.
pub(crate) fn dark_rules() -> String {
    COLOURS.iter().fold(String::new(), |mut rules, (_, [light, dark])| {
        for property in ["fill", "stroke"] {
            // Writing to a string does not fail.
            let _ = write!(rules, "[{property}=\"#{light:06X}\"]{{{property}:#{dark:06x}}}");
        }
        rules
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Computes the relative luminance as WCAG 2.2 defines it.
    fn luminance(RGBColor(red, green, blue): RGBColor) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(one: Colour, other: Colour, theme: Theme) -> f64 {
        let (a, b) = (luminance(one.rgb(theme)), luminance(other.rgb(theme)));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn words_are_readable_on_either_ground() {
        for theme in [Theme::Light, Theme::Dark] {
            for words in [Ink, Muted] {
                assert!(contrast(words, Paper, theme) >= 4.5, "{words:?} {theme:?}");
            }
            for fill in KINDS {
                let reached = contrast(fill.letters(), fill, theme);
                assert!(reached >= 3.5, "letters on {fill:?}, {theme:?}: {reached}");
            }
        }
    }

    #[test]
    fn a_style_sheet_can_tell_every_colour() {
        let light: BTreeSet<u32> = COLOURS.iter().map(|(_, [light, _])| *light).collect();
        assert_eq!(light.len(), COLOURS.len());
        let rules = dark_rules();
        assert!(rules.contains("[fill=\"#0072B2\"]{fill:#4aa3df}") && rules.contains("[stroke=\"#1F2933\"]"));
    }

    #[test]
    fn neighbouring_kinds_differ_in_luminance_or_hue() {
        for theme in [Theme::Light, Theme::Dark] {
            for pair in KINDS.windows(2) {
                let [RGBColor(a, b, c), RGBColor(d, e, f)] = [pair[0].rgb(theme), pair[1].rgb(theme)];
                let apart = a.abs_diff(d).max(b.abs_diff(e)).max(c.abs_diff(f));
                assert!(apart > 80, "{pair:?} {theme:?}: {apart}");
            }
        }
    }
}
