//! Files as bytes and as text.

use flate2::read::GzDecoder;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Chain, Cursor, ErrorKind, Read};
use std::path::Path;

/// The first bytes of a file that gzip packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The mark that some editors put before a text. It says nothing of UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The system says no.
    #[error(transparent)]
    System(#[from] io::Error),
    /// There is a folder.
    #[error("it is a folder")]
    Folder,
    /// It is a FIFO, a device or a socket.
    #[error("it is no regular file: a pipe or a device may have no end")]
    Endless,
    /// It is larger than a file of its kind may be.
    #[error("it {has} more than {}", size(*most))]
    TooLarge {
        /// `has`, or `unpacks to`.
        has: &'static str,
        /// The largest size in bytes.
        most: u64,
    },
    /// Its bytes are no text.
    #[error("it is not UTF-8 text: byte {at} is no character")]
    NotText {
        /// The first byte that is none.
        at: usize,
        /// What else it seems to be, and what makes a text of it.
        hint: &'static str,
    },
}

impl Unreadable {
    /// Returns what the user may do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::System(error) if error.kind() == ErrorKind::NotFound => {
                "a path is relative to this folder; one that stands in a file, to that file"
            }
            Self::System(_) => "name a file that you may read",
            Self::Folder => "name a file in it",
            Self::Endless => "write its content to a file, and name that",
            Self::TooLarge { .. } => "is it the file that was meant? Files of this kind are smaller",
            Self::NotText { hint, .. } => hint,
        }
    }

    /// Returns the same as an error of the system, for readers that have no other.
    pub fn into_io(self) -> io::Error {
        match self {
            Self::System(error) => error,
            Self::TooLarge { .. } => io::Error::new(ErrorKind::FileTooLarge, self.to_string()),
            other => io::Error::other(other.to_string()),
        }
    }
}

/// Formats a limit, which is a power of two.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

/// Opens a regular file; returns it with its length in bytes. It does not wait for anybody who writes to a FIFO.
///
/// # Errors
///
/// Fails when there is no such file, or it may not be read, or is something else than a regular file.
pub fn open(path: &Path) -> Result<(File, u64), Unreadable> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    // Opening is an act for some devices, so that what is there is asked before; and it may change, so also behind.
    let told = |about: std::fs::Metadata| match about {
        about if about.is_dir() => Err(Unreadable::Folder),
        about if about.is_file() => Ok(about.len()),
        _ => Err(Unreadable::Endless),
    };
    told(std::fs::metadata(path)?)?;
    let file = options.open(path)?;
    let length = told(file.metadata()?)?;
    Ok((file, length))
}

/// Reads the bytes of a regular file that has at most `most` of them.
///
/// # Errors
///
/// As [`open`], and when the file is larger.
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, Unreadable> {
    let (file, length) = open(path)?;
    let too_large = || Unreadable::TooLarge { has: "has", most };
    if length > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // A file that says it is larger than the memory is told so, not waited for.
    bytes.try_reserve_exact(length as usize).map_err(io::Error::from)?;
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

/// Reads the text of a regular file that has at most `most` bytes. A byte-order mark before it is left out.
///
/// # Errors
///
/// As [`bytes`], and when they are no UTF-8.
pub fn text(path: &Path, most: u64) -> Result<String, Unreadable> {
    text_of(bytes(path, most)?)
}

/// Reads the text of a stream that has at most `most` bytes. A byte-order mark before it is left out.
///
/// # Errors
///
/// Fails when it cannot be read, is longer, or is no UTF-8.
pub fn text_from(stream: impl Read, most: u64) -> Result<String, Unreadable> {
    let mut bytes = Vec::new();
    stream.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(Unreadable::TooLarge { has: "has", most }) } else { text_of(bytes) }
}

/// Makes a text of bytes. A byte-order mark before it is left out.
///
/// # Errors
///
/// Fails when they are no UTF-8.
pub fn text_of(bytes: Vec<u8>) -> Result<String, Unreadable> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let hint = match error.as_bytes() {
            bytes if bytes.starts_with(&GZIP) => "it is packed with gzip: unpack it with `gunzip` first",
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "it seems to be UTF-16: save it as UTF-8",
            _ => "save it as UTF-8; a binary file is not what is read here",
        };
        Unreadable::NotText { at: error.utf8_error().valid_up_to(), hint }
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

/// Opens a regular file to be read piece by piece, unpacked if gzip packed it. Reading ends with an error of the kind
/// [`ErrorKind::FileTooLarge`] once there were more than `most` bytes, counted as they are unpacked.
///
/// # Errors
///
/// As [`open`].
pub fn unpacked(path: &Path, most: u64) -> Result<Unpacked, Unreadable> {
    let (mut file, _) = open(path)?;
    let mut first = Vec::new();
    (&mut file).take(GZIP.len() as u64).read_to_end(&mut first)?;
    let packed = first == GZIP;
    let whole = BufReader::new(Cursor::new(first).chain(file));
    let content = if packed { Content::Packed(GzDecoder::new(whole)) } else { Content::Plain(whole) };
    Ok(Unpacked { content, most, left: most })
}

/// A file that is read piece by piece: see [`unpacked`].
#[derive(Debug)]
pub struct Unpacked {
    content: Content,
    most: u64,
    left: u64,
}

type Whole = BufReader<Chain<Cursor<Vec<u8>>, File>>;

#[derive(Debug)]
enum Content {
    Plain(Whole),
    Packed(GzDecoder<Whole>),
}

impl Unpacked {
    /// Reads the text from here to the end.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be unpacked, is too large, or is no UTF-8.
    pub fn text(mut self) -> Result<String, Unreadable> {
        let mut bytes = Vec::new();
        match self.read_to_end(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(self.too_large()),
            Err(error) => Err(error.into()),
            Ok(_) => text_of(bytes),
        }
    }

    fn too_large(&self) -> Unreadable {
        let has = if matches!(self.content, Content::Packed(_)) { "unpacks to" } else { "has" };
        Unreadable::TooLarge { has, most: self.most }
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.content {
            Content::Plain(plain) => plain.read(buffer)?,
            Content::Packed(packed) => packed.read(buffer)?,
        };
        match self.left.checked_sub(read as u64) {
            Some(left) => {
                self.left = left;
                Ok(read)
            }
            None => Err(self.too_large().into_io()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs;
    use std::io::Write;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_not_beyond() {
        let folder = folder();
        let path = folder.path().join("file");
        fs::write(&path, "12345678").expect("room");
        assert_eq!(text(&path, 8).expect("as large as allowed"), "12345678");
        let told = text(&path, 7).expect_err("too large");
        assert_eq!(told.to_string(), "it has more than 7 bytes");
        assert_eq!(unpacked(&path, 8).and_then(Unpacked::text).expect("as large as allowed"), "12345678");
        assert_eq!(text_from(&b"12345678"[..], 8).expect("as long as allowed"), "12345678");
        assert!(matches!(text_from(std::io::repeat(b'1'), 7), Err(Unreadable::TooLarge { .. })));
        assert!(matches!(unpacked(&path, 7).and_then(Unpacked::text), Err(Unreadable::TooLarge { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn what_has_no_end_is_refused_at_once() {
        let folder = folder();
        let (fifo, link) = (folder.path().join("fifo"), folder.path().join("link"));
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("every Unix has it");
        assert!(made.success());
        std::os::unix::fs::symlink("/dev/zero", &link).expect("room");
        for path in [&fifo, &link, Path::new("/dev/zero")] {
            assert!(matches!(open(path), Err(Unreadable::Endless)), "{}", path.display());
        }
        assert!(matches!(open(folder.path()), Err(Unreadable::Folder)));
        assert!(matches!(open(&folder.path().join("none")), Err(Unreadable::System(_))));
    }

    #[test]
    fn what_gzip_packed_is_counted_as_it_is_unpacked() {
        let folder = folder();
        let path = folder.path().join("packed");
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&[b' '; 4096]).expect("memory");
        fs::write(&path, packed.finish().expect("memory")).expect("room");
        assert_eq!(unpacked(&path, 4096).and_then(Unpacked::text).expect("it fits").len(), 4096);
        let told = unpacked(&path, 4095).and_then(Unpacked::text).expect_err("too large").to_string();
        assert_eq!(told, "it unpacks to more than 3 KiB");
        fs::write(&path, [0x1f, 0x8b, 8, 0]).expect("room");
        assert!(unpacked(&path, 4096).and_then(Unpacked::text).is_err());
    }

    #[test]
    fn bytes_that_are_no_text_are_told_with_their_place_and_what_they_may_be() {
        assert_eq!(text_of(b"\xef\xbb\xbf{}".to_vec()).expect("a mark and a text"), "{}");
        for (bytes, at, hint) in [
            (b"\xff\xfea\0".as_slice(), 0, "UTF-16"),
            (b"\x1f\x8b\x08\xff", 1, "gunzip"),
            (b"name = \"\xe4\"", 8, "save it as UTF-8"),
        ] {
            let told = text_of(bytes.to_vec()).expect_err("no text");
            assert!(told.to_string().contains(&format!("byte {at} ")) && told.hint().contains(hint), "{told}");
        }
    }
}
