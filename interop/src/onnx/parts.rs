//! A message of protobuf that is gone through part by part, so that of a file of any length only the parts are in memory
//! that are asked for.
//!
//! # Source
//!
//! Protocol Buffers, "Encoding": a field is a key, which is its number and the form of its value, and the value.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

/// The largest number of bytes of a variable-length number.
const VARINT_MAX: u32 = 10;

/// A field of a message: its number, the place of its key and of its value, and how long that is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) tag: u64,
    pub(super) start: u64,
    pub(super) value: u64,
    pub(super) length: u64,
    /// `true` for messages, texts and bytes.
    pub(super) is_message: bool,
}

impl Field {
    /// Returns the place behind it.
    pub(super) fn end(&self) -> u64 {
        self.value + self.length
    }
}

/// A file, and where in it is read.
pub(super) struct Parts<R> {
    file: BufReader<R>,
    at: u64,
}

impl<R: Read + Seek> Parts<R> {
    /// Returns the parts of a file, and its length in bytes.
    pub(super) fn new(mut file: R) -> Result<(Self, u64), String> {
        let length = file.seek(SeekFrom::End(0)).and_then(|length| file.rewind().map(|()| length)).map_err(broken)?;
        Ok((Self { file: BufReader::new(file), at: 0 }, length))
    }

    /// Goes to a place of the file.
    pub(super) fn go_to(&mut self, place: u64) -> Result<(), String> {
        let steps = i128::from(place) - i128::from(self.at);
        self.file.seek_relative(steps as i64).map_err(broken)?;
        self.at = place;
        Ok(())
    }

    /// Goes from here to `end` through the fields of a message.
    pub(super) fn each(
        &mut self,
        end: u64,
        mut take: impl FnMut(&mut Self, Field) -> Result<(), String>,
    ) -> Result<(), String> {
        while self.at < end {
            let start = self.at;
            let key = self.number(end)?;
            let mut value = self.at;
            let length = match (key >> 3, key & 7) {
                (0, _) => return Err(broken("a field has the number 0")),
                (_, 0) => self.number(end).map(|_| self.at - value)?,
                (_, 1) => 8,
                (_, 5) => 4,
                (_, 2) => {
                    let length = self.number(end)?;
                    value = self.at;
                    length
                }
                (_, form) => return Err(broken(format!("values of the form {form} are not known"))),
            };
            let left = end - value;
            if length > left {
                return Err(broken(format!("{length} bytes are announced where {left} are left")));
            }
            self.go_to(value)?;
            take(self, Field { tag: key >> 3, start, value, length, is_message: key & 7 == 2 })?;
            self.go_to(value + length)?;
        }
        Ok(())
    }

    /// Reads the next bytes.
    pub(super) fn bytes(&mut self, length: u64) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; length as usize];
        self.file.read_exact(&mut bytes).map_err(broken)?;
        self.at += length;
        Ok(bytes)
    }

    /// Reads a number of variable length that ends before `end`.
    fn number(&mut self, end: u64) -> Result<u64, String> {
        let mut number = 0;
        for place in 0..VARINT_MAX {
            if self.at == end {
                return Err(broken("it ends inside a number"));
            }
            let Some(byte) = self.file.fill_buf().map_err(broken)?.first().copied() else {
                return Err(broken("it ends inside a number"));
            };
            self.file.consume(1);
            self.at += 1;
            number |= u64::from(byte & 0x7f) << (7 * place).min(63);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(broken("a number has more than ten bytes"))
    }
}

fn broken(problem: impl std::fmt::Display) -> String {
    format!("it is no ONNX file, or cut short: {problem}")
}
