//! Changes to protobuf messages: fields replaced, repeated and removed at any depth, with the lengths around them kept
//! right.

use crate::{Dice, mutate};

/// How deep messages are looked into.
const DEPTH: usize = 12;
/// Whole numbers at the edges of what types hold.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    3,
    7,
    16,
    255,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    1 << 53,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Changes one message.
pub fn mutate_message(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    mutate(data, size, max, seed, |bytes, dice| {
        let mut fields = parse(bytes, DEPTH)?;
        change(&mut fields, dice);
        Some(written(&fields))
    })
}

/// Changes messages that stand one after another, each behind its length.
pub fn mutate_messages(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    mutate(data, size, max, seed, |bytes, dice| {
        let (mut rest, mut messages) = (bytes, Vec::new());
        while !rest.is_empty() {
            let length = usize::try_from(varint(&mut rest)?).ok()?;
            let (message, behind) = rest.split_at_checked(length)?;
            messages.push(parse(message, DEPTH)?);
            rest = behind;
        }
        let at = dice.below(messages.len());
        match dice.below(6) {
            0 => messages.push(messages[at].clone()),
            1 if messages.len() > 1 => {
                messages.remove(at);
            }
            _ => change(&mut messages[at], dice),
        }
        let mut text = Vec::new();
        for message in &messages {
            with_length(&written(message), &mut text);
        }
        Some(text)
    })
}

#[derive(Clone)]
enum Content {
    Whole(u64),
    Fixed(Vec<u8>),
    Bytes(Vec<u8>),
    Message(Vec<Field>),
}

#[derive(Clone)]
struct Field {
    key: u64,
    content: Content,
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The fields of a message; what may be a message is taken for one.
fn parse(mut rest: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let mut taken = |length: usize| {
            let (bytes, behind) = rest.split_at_checked(length)?;
            rest = behind;
            Some(bytes.to_vec())
        };
        let content = match key & 7 {
            0 => Content::Whole(varint(&mut rest)?),
            1 => Content::Fixed(taken(8)?),
            5 => Content::Fixed(taken(4)?),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let (bytes, behind) = rest.split_at_checked(length)?;
                rest = behind;
                let inner = (depth > 0 && !bytes.is_empty()).then(|| parse(bytes, depth - 1)).flatten();
                inner.map_or_else(|| Content::Bytes(bytes.to_vec()), Content::Message)
            }
            _ => return None,
        };
        if key >> 3 == 0 {
            return None;
        }
        fields.push(Field { key, content });
    }
    Some(fields)
}

fn change(fields: &mut Vec<Field>, dice: &mut Dice) {
    if fields.is_empty() {
        return;
    }
    let at = dice.below(fields.len());
    if dice.below(8) != 0
        && let Content::Message(inner) = &mut fields[at].content
    {
        return change(inner, dice);
    }
    match dice.below(8) {
        0 => {
            fields.remove(at);
        }
        1 => fields.insert(at, fields[dice.below(fields.len())].clone()),
        2 => fields[at].content = fields[dice.below(fields.len())].content.clone(),
        _ => edit(&mut fields[at].content, dice),
    }
    // The kind of what stands there now decides how it is read.
    for field in fields {
        let kind = match &field.content {
            Content::Whole(_) => 0,
            Content::Fixed(bytes) if bytes.len() == 8 => 1,
            Content::Fixed(_) => 5,
            Content::Bytes(_) | Content::Message(_) => 2,
        };
        field.key = field.key & !7 | kind;
    }
}

fn edit(content: &mut Content, dice: &mut Dice) {
    match content {
        Content::Whole(number) => {
            *number = dice.pick(&[dice.0, *number ^ 1, number.wrapping_add(1), number.wrapping_mul(2)]);
            if dice.below(2) == 0 {
                *number = dice.pick(&EDGES);
            }
        }
        Content::Fixed(bytes) | Content::Bytes(bytes) if !bytes.is_empty() => {
            let at = dice.below(bytes.len());
            match dice.below(4) {
                0 => bytes.truncate(if bytes.len() % 4 == 0 && bytes.len() <= 8 { bytes.len() } else { at }),
                1 => bytes[at] = dice.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                2 => bytes.fill(dice.pick(&[0, 0xff])),
                _ => bytes[at] ^= 1 << dice.below(8),
            }
        }
        Content::Fixed(_) | Content::Bytes(_) => *content = Content::Bytes(vec![b'a'; dice.pick(&[1, 8])]),
        Content::Message(fields) => change(fields, dice),
    }
}

fn write_varint(mut value: u64, text: &mut Vec<u8>) {
    while value >= 0x80 {
        text.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    text.push(value.to_le_bytes()[0]);
}

fn with_length(bytes: &[u8], text: &mut Vec<u8>) {
    write_varint(bytes.len() as u64, text);
    text.extend_from_slice(bytes);
}

fn written(fields: &[Field]) -> Vec<u8> {
    let mut text = Vec::new();
    for Field { key, content } in fields {
        write_varint(*key, &mut text);
        match content {
            Content::Whole(number) => write_varint(*number, &mut text),
            Content::Fixed(bytes) => text.extend_from_slice(bytes),
            Content::Bytes(bytes) => with_length(bytes, &mut text),
            Content::Message(inner) => with_length(&written(inner), &mut text),
        }
    }
    text
}
