//! Whether held-out samples are copies of those that are trained on: then a low loss of theirs tells nothing.

use super::{Content, Layout};
use crate::text::Stream;
use std::collections::BTreeMap;

/// Held-out samples that are looked for in the data, spread evenly.
const LOOKED_FOR: usize = 64;

/// Tokens from the start of a sample that it is known by.
const KNOWN_BY: usize = 64;

/// The part of them that is found if they are copies. Texts of different files share licences and headers.
const COPIED: f64 = 0.5;

/// The base of the polynomial whose value tells windows of tokens apart, modulo 2^64: any large odd number.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns `true` if at least half of the held-out samples of a text stand in that which is trained on, wherever. Other data is
/// compared by its checksum alone.
pub(super) fn are_copies(held_out: &Content, data: &Content) -> bool {
    let (Content::Text { stream: own, layout }, Content::Text { stream: all, .. }) = (held_out, data) else {
        return false;
    };
    let probes = probes(own, *layout, held_out.samples().0);
    let wanted: usize = probes.values().sum();
    let length = layout.taken.min(KNOWN_BY);
    let found: usize = found(all, length, &probes);
    wanted > 0 && found as f64 >= COPIED * wanted as f64
}

/// Returns the values of the starts of samples, and how many samples have each.
fn probes(stream: &Stream, layout: Layout, samples: usize) -> BTreeMap<u64, usize> {
    let looked_for = samples.min(LOOKED_FOR);
    let mut probes = BTreeMap::new();
    for index in 0..looked_for {
        let first = index * samples / looked_for * layout.stride;
        let tokens = first..first + layout.taken.min(KNOWN_BY);
        let value = tokens.fold(0, |value, at| next(value, stream.at(at)));
        *probes.entry(value).or_insert(0) += 1;
    }
    probes
}

/// Returns how many of the probes stand anywhere in a stream, as windows of so many tokens.
fn found(stream: &Stream, length: usize, probes: &BTreeMap<u64, usize>) -> usize {
    let highest = (0..length).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let mut left = probes.clone();
    let (mut value, mut found) = (0, 0);
    for at in 0..stream.len() {
        value = next(value, stream.at(at));
        if at >= length {
            // The token that left the window.
            value = value.wrapping_sub(highest.wrapping_mul(u64::from(stream.at(at - length)) + 1));
        }
        if at + 1 >= length {
            found += left.remove(&value).unwrap_or(0);
        }
    }
    found
}

fn next(value: u64, token: u32) -> u64 {
    value.wrapping_mul(BASE).wrapping_add(u64::from(token) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: impl Iterator<Item = u8>) -> Content {
        let layout = Layout { stride: 8, taken: 9, masked: None };
        Content::Text { stream: Stream::Bytes(bytes.collect()), layout }
    }

    /// Bytes that repeat nowhere near.
    fn byte(at: u32) -> u8 {
        let mixed = at.wrapping_mul(2_654_435_761);
        ((mixed ^ (mixed >> 15)).wrapping_mul(2_246_822_519) >> 24) as u8
    }

    #[test]
    fn a_copy_is_found_wherever_it_stands_in_the_data() {
        let data = text((0..4000).map(byte));
        assert!(are_copies(&text((1003..1503).map(byte)), &data));
        // Half of it is new.
        assert!(are_copies(&text((1003..1503).chain(9000..9400).map(byte)), &data));
        assert!(!are_copies(&text((1003..1303).chain(9000..9600).map(byte)), &data));
        assert!(!are_copies(&text((9000..9500).map(byte)), &data));
    }
}
