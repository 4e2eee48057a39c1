//! Segments of a version: numbers of any length and runs of letters.

use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment<'a> {
    Letters(&'a str),
    /// A number without leading zeros; empty for zero. A text, because dates and hashes don't fit
    /// any integer type.
    Number(&'a str),
}

const ZERO: Segment<'static> = Segment::Number("");

/// Returns the significant segments, without trailing zeros of the release and of the prerelease
/// part.
pub(super) fn canonical(text: &str) -> Vec<Segment<'_>> {
    let mut all = split(text);
    let is_letters = |segment: &Segment<'_>| matches!(segment, Segment::Letters(_));
    let rest = all.iter().position(is_letters).unwrap_or(all.len());
    let mut rest = all.split_off(rest);
    for part in [&mut all, &mut rest] {
        while part.last() == Some(&ZERO) {
            part.pop();
        }
    }
    all.append(&mut rest);
    all
}

/// Splits as `scan(/[0-9]+|[a-z]+/i)` does.
fn split(text: &str) -> Vec<Segment<'_>> {
    let mut segments = Vec::new();
    for part in text.split('.') {
        let mut rest = part;
        while let Some(first) = rest.bytes().next() {
            let is_digit = first.is_ascii_digit();
            let is_other = |byte: char| byte.is_ascii_digit() != is_digit;
            let (segment, after) = rest.split_at(rest.find(is_other).unwrap_or(rest.len()));
            segments.push(match is_digit {
                true => Segment::Number(segment.trim_start_matches('0')),
                false => Segment::Letters(segment),
            });
            rest = after;
        }
    }
    segments
}

pub(super) fn compare(one: &[Segment<'_>], other: &[Segment<'_>]) -> Ordering {
    let length = one.len().max(other.len());
    for index in 0..length {
        // A missing segment counts as zero, which is greater than any letter.
        let left = one.get(index).copied().unwrap_or(ZERO);
        let right = other.get(index).copied().unwrap_or(ZERO);
        let order = match (left, right) {
            (Segment::Letters(_), Segment::Number(_)) => Ordering::Less,
            (Segment::Number(_), Segment::Letters(_)) => Ordering::Greater,
            (Segment::Letters(left), Segment::Letters(right)) => left.cmp(right),
            (Segment::Number(left), Segment::Number(right)) => {
                left.len().cmp(&right.len()).then_with(|| left.cmp(right))
            }
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}
