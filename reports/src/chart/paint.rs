//! Pictures as files: SVG for pages, PNG for what cannot show SVG.
//!
//! Both are painted by plotters. PNG has its letters from a font inside the program, so that the same picture is the
//! same bytes on every machine; SVG names the fonts of the reader's system.

use super::picture::{Letters, Picture, Shape, Side, Tone};
use super::theme::{Theme, dark_rules};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, RGBAColor, register_font};
use std::sync::Once;

/// The reader's own fonts, by the names that browsers know.
const FONTS: &str = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif";

/// Each pixel of a picture is this many of a PNG file, each way: screens are finer than pixels.
const DENSITY: i32 = 2;
/// Each pixel of a PNG file is the mean of this many painted ones, each way, which smoothes edges.
const SAMPLES: i32 = 2;

/// The plotting library divides sizes of letters by this in SVG.
const SVG_SIZE: f64 = 1.24;
/// Height of the font over its em: (1900 + 500) / 2048. In a PNG sizes of letters are heights.
const EM_HEIGHT: f64 = 2400.0 / 2048.0;
/// Below the middle of small letters their foot stands half their height, in em. SVG calls it 0.5ex.
const FOOT: f64 = 0.26;

/// The colour scheme of a file: light or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The scheme that the reader's system prefers; a PNG file, which cannot know, is light.
    Auto,
    /// The same for every reader.
    Always(Theme),
}

/// Registers the font, once in a process.
fn fonts() {
    static READY: Once = Once::new();
    READY.call_once(|| {
        let fonts: [(FontStyle, &[u8]); 2] = [
            (FontStyle::Normal, include_bytes!("../../fonts/Roboto-Regular.ttf")),
            (FontStyle::Bold, include_bytes!("../../fonts/Roboto-Medium.ttf")),
        ];
        for (style, bytes) in fonts {
            assert!(register_font(FONTS, style, bytes).is_ok(), "the font is part of the program");
        }
    });
}

fn style_of(letters: Letters) -> FontStyle {
    if letters.strong { FontStyle::Bold } else { FontStyle::Normal }
}

/// Width of the widest of common fonts for pages (DejaVu Sans, which many Linux systems have), relative to the embedded
/// font: for plain letters, and for bold ones.
const WIDEST: [f64; 2] = [1.2, 1.3];

/// Returns the width to reserve for a line of words, whatever the reader's font, in pixels.
pub fn measure(text: &str, letters: Letters) -> i32 {
    (f64::from(width(text, letters)) * WIDEST[usize::from(letters.strong)]).ceil() as i32
}

/// Returns the width of a line of words in the embedded font, in pixels.
fn width(text: &str, letters: Letters) -> i32 {
    // Measured large, because the library counts whole pixels.
    const LARGE: f64 = 16.0;
    fonts();
    let font = FontDesc::new(FontFamily::Name(FONTS), f64::from(letters.size) * EM_HEIGHT * LARGE, style_of(letters));
    let width = font.box_size(text).map_or(0, |(width, _)| width);
    (f64::from(width) / LARGE).ceil() as i32
}

/// Cuts a text to the width available.
pub fn shortened(text: &str, letters: Letters, room: i32) -> String {
    if measure(text, letters) <= room {
        return text.into();
    }
    let all: Vec<char> = text.chars().collect();
    let cut = |count: usize| all[..count].iter().collect::<String>().trim_end().to_owned() + "…";
    let (mut fits, mut too_long) = (0, all.len());
    while too_long - fits > 1 {
        let count = usize::midpoint(fits, too_long);
        if measure(&cut(count), letters) <= room {
            fits = count;
        } else {
            too_long = count;
        }
    }
    cut(fits)
}

type Painted<T> = Result<T, Box<dyn std::error::Error>>;

/// The surface on which a picture is painted.
struct Painter<'a, DB: DrawingBackend> {
    area: &'a DrawingArea<DB, Shift>,
    theme: Theme,
    /// Pixels of the file for each of the picture.
    scale: i32,
    /// `true` if the plotting library takes font sizes as SVG defines them.
    svg: bool,
}

impl<DB: DrawingBackend> Painter<'_, DB>
where
    DB::ErrorType: 'static,
{
    fn paint(&self, picture: &Picture) -> Painted<()> {
        self.area.fill(&super::theme::Colour::Paper.rgb(self.theme))?;
        picture.shapes.iter().try_for_each(|shape| self.shape(shape))?;
        Ok(self.area.present()?)
    }

    fn at(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x * self.scale, y * self.scale)
    }

    fn colour(&self, tone: Tone) -> RGBAColor {
        tone.colour.rgb(self.theme).mix(tone.opacity)
    }

    fn shape(&self, shape: &Shape) -> Painted<()> {
        let places = |places: &[(i32, i32)]| places.iter().map(|place| self.at(*place)).collect::<Vec<_>>();
        match shape {
            Shape::Bar { corners, tone } => {
                let mut corners = corners.map(|corner| self.at(corner));
                if !self.svg {
                    // The library paints the pixels at the far edges too.
                    corners[1] = (corners[1].0 - 1, corners[1].1 - 1);
                }
                self.area.draw(&Rectangle::new(corners, self.colour(*tone).filled()))?;
            }
            Shape::Path { places: through, tone, thickness } => {
                let thickness = thickness * self.scale.cast_unsigned();
                let style = self.colour(*tone).stroke_width(thickness);
                self.area.draw(&PathElement::new(places(through), style))?;
            }
            Shape::Area { places: around, tone } => {
                self.area.draw(&Polygon::new(places(around), self.colour(*tone)))?;
            }
            Shape::Dot { middle, radius, tone } => {
                let style = self.colour(*tone).filled();
                self.area.draw(&Circle::new(self.at(*middle), radius * self.scale, style))?;
            }
            Shape::Words { at, side, text, letters } => self.words(*at, *side, text, *letters)?,
        }
        Ok(())
    }

    fn words(&self, (x, y): (i32, i32), side: Side, text: &str, letters: Letters) -> Painted<()> {
        let em = f64::from(letters.size * self.scale);
        let colour = letters.colour.rgb(self.theme);
        let font = |size: f64| FontDesc::new(FontFamily::Name(FONTS), size, style_of(letters)).color(&colour);
        if self.svg {
            let side = match side {
                Side::Left => HPos::Left,
                Side::Middle => HPos::Center,
                Side::Right => HPos::Right,
            };
            let style = font(em * SVG_SIZE).pos(Pos::new(side, VPos::Center));
            return Ok(self.area.draw(&Text::new(text.to_owned(), (x, y), style))?);
        }
        let width = width(text, letters) * self.scale;
        let left = match side {
            Side::Left => 0,
            Side::Middle => width / 2,
            Side::Right => width,
        };
        // The library puts the baseline half the font size below the place.
        let size = em * EM_HEIGHT;
        let top = f64::from(y * self.scale) + em * FOOT - size / 2.0;
        let style = font(size).pos(Pos::new(HPos::Left, VPos::Top));
        Ok(self.area.draw(&Text::new(text.to_owned(), (x * self.scale - left, top.round() as i32), style))?)
    }
}

/// The mark of a picture in a file, which nobody sees.
const SOFTWARE: &str = "Trainyard";

impl Picture {
    /// Renders the picture as an SVG file, or as an element of a page.
    pub fn svg(&self, scheme: Scheme) -> String {
        let theme = match scheme {
            Scheme::Auto => Theme::Light,
            Scheme::Always(theme) => theme,
        };
        let svg = self.painted_svg(theme);
        let style = match scheme {
            Scheme::Auto => {
                format!("<style>@media screen and (prefers-color-scheme:dark){{{}}}</style>\n", dark_rules())
            }
            Scheme::Always(_) => String::new(),
        };
        svg.replacen(">\n", &format!(">\n<!-- {SOFTWARE} -->\n{style}"), 1)
    }

    /// Renders the SVG without a style of its own: the page has [`dark_rules`].
    pub(crate) fn inline_svg(&self) -> String {
        self.painted_svg(Theme::Light)
    }

    fn painted_svg(&self, theme: Theme) -> String {
        let size = (self.width.cast_unsigned(), self.height.cast_unsigned());
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            Painter { area: &area, theme, scale: 1, svg: true }.paint(self).expect("a string takes every shape");
        }
        let about = format!("<svg role=\"img\" aria-label=\"{}\" ", escaped(&self.about));
        svg.replacen("<svg ", &about, 1)
    }

    /// Renders the picture as a PNG file, two pixels for each of its own, each way.
    pub fn png(&self, scheme: Scheme) -> Vec<u8> {
        fonts();
        let theme = match scheme {
            Scheme::Auto => Theme::Light,
            Scheme::Always(theme) => theme,
        };
        let scale = DENSITY * SAMPLES;
        let size = [self.width, self.height].map(|pixels| (pixels * scale).cast_unsigned());
        let mut painted = vec![0; size[0] as usize * size[1] as usize * 3];
        {
            let area = BitMapBackend::with_buffer(&mut painted, (size[0], size[1])).into_drawing_area();
            Painter { area: &area, theme, scale, svg: false }.paint(self).expect("memory takes every shape");
        }
        let samples = SAMPLES as usize;
        let size = size.map(|pixels| pixels as usize / samples);
        encoded(&smoothed(&painted, size, samples), size)
    }
}

/// Averages squares of pixels; `width` and `height` are those of the result.
fn smoothed(painted: &[u8], [width, height]: [usize; 2], samples: usize) -> Vec<u8> {
    let stride = width * samples * 3;
    let mut smooth = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            for colour in 0..3 {
                let first = y * samples * stride + x * samples * 3 + colour;
                let square = (0..samples).flat_map(|row| (0..samples).map(move |column| row * stride + column * 3));
                let sum: u32 = square.map(|offset| u32::from(painted[first + offset])).sum();
                let count = (samples * samples) as u32;
                smooth.push(((sum + count / 2) / count) as u8);
            }
        }
    }
    smooth
}

fn encoded(pixels: &[u8], [width, height]: [usize; 2]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let named = encoder.add_text_chunk("Software".into(), SOFTWARE.into());
    let written = named.and_then(|()| encoder.write_header()?.write_image_data(pixels));
    written.expect("memory takes every pixel");
    file
}

/// Escapes text for an attribute of XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::theme::Colour;

    fn picture() -> Picture {
        let mut picture = Picture::new("a <bar> & \"words\"", (60, 30));
        picture.bar([(10, 5), (30, 25)], Colour::Blue);
        picture.words("<script>", (35, 15), Side::Left, Letters::PLAIN);
        picture
    }

    #[test]
    fn an_svg_follows_the_reader_unless_told_otherwise() {
        let auto = picture().svg(Scheme::Auto);
        assert!(auto.contains("prefers-color-scheme:dark") && auto.contains("#0072B2"), "{auto}");
        assert!(auto.contains("aria-label=\"a &lt;bar&gt; &amp; &quot;words&quot;\""), "{auto}");
        assert!(auto.contains("&lt;script&gt;") && !auto.contains("<script>"), "{auto}");
        let dark = picture().svg(Scheme::Always(Theme::Dark));
        assert!(!dark.contains("<style>") && dark.contains("#4AA3DF") && !dark.contains("#0072B2"), "{dark}");
    }

    #[test]
    fn a_png_has_the_colours_of_the_picture_and_smooth_letters() {
        let file = picture().png(Scheme::Auto);
        let mut reader = png::Decoder::new(std::io::Cursor::new(file.as_slice())).read_info().expect("a PNG file");
        let mut pixels = vec![0; reader.output_buffer_size().expect("it is small")];
        let frame = reader.next_frame(&mut pixels).expect("an image");
        assert_eq!((frame.width, frame.height), (120, 60));
        let at = |x: usize, y: usize| &pixels[(y * 120 + x) * 3..][..3];
        assert_eq!((at(2, 2), at(40, 30)), (&[255, 255, 255][..], &[0, 0x72, 0xb2][..]));
        assert_eq!((at(19, 30), at(60, 30)), (&[255, 255, 255][..], &[255, 255, 255][..]));
        assert!(pixels.chunks(3).any(|pixel| (1..255).contains(&pixel[0]) && pixel[0] != 0x1f), "letters have edges");
        assert_eq!(file, picture().png(Scheme::Auto));
    }

    #[test]
    fn words_are_measured_and_shortened_to_their_room() {
        let wide = measure("throughput", Letters::PLAIN);
        assert!((60..90).contains(&wide) && measure("", Letters::PLAIN) == 0, "{wide}");
        assert!(measure("throughput", Letters::TITLE) > wide);
        let short = shortened("a long name of a machine", Letters::PLAIN, 60);
        assert!(short.ends_with('…') && measure(&short, Letters::PLAIN) <= 60, "{short}");
        assert_eq!(shortened("short", Letters::PLAIN, 60), "short");
        assert!(width("throughput", Letters::PLAIN) < wide);
    }
}
