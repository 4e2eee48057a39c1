//! Checks that valid JSON may fail: nesting that breaks recursive parsers, and escapes that are
//! half a character.
//!
//! Both take a few nanoseconds if the text has few brackets or no backslash.

/// Returns whether `json` (valid JSON) nests deeper than `max`.
pub(super) fn nests_deeper_than(json: &str, max: usize) -> bool {
    let opened = memchr::memchr2_iter(b'{', b'[', json.as_bytes()).take(max + 1).count();
    opened > max && depth(json.as_bytes()) > max
}

fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string) = (0_usize, 0_usize, false);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' => {
                bytes.next();
            }
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Returns whether `json` (valid JSON) has an escape of half a surrogate pair, which is not a valid
/// character: strict parsers would fail on the whole job, others would change it.
pub(super) fn has_lone_surrogate(json: &str) -> bool {
    let bytes = json.as_bytes();
    let mut at = 0;
    while let Some(backslash) = memchr::memchr(b'\\', &bytes[at..]) {
        at += backslash;
        match surrogate_at(bytes, at) {
            Some(Surrogate::High) if surrogate_at(bytes, at + 6) == Some(Surrogate::Low) => {
                at += 12
            }
            Some(_) => return true,
            None => at = (at + 2).min(bytes.len()),
        }
    }
    false
}

#[derive(PartialEq, Eq)]
enum Surrogate {
    High,
    Low,
}

/// Returns the half of a surrogate pair that the escape at `at` encodes, or `None` for anything
/// else.
fn surrogate_at(bytes: &[u8], at: usize) -> Option<Surrogate> {
    let escape = bytes.get(at..at + 6)?;
    if !matches!(escape, [b'\\', b'u', b'd' | b'D', ..]) {
        return None;
    }
    match escape[3] {
        b'8' | b'9' | b'a' | b'b' | b'A' | b'B' => Some(Surrogate::High),
        b'c'..=b'f' | b'C'..=b'F' => Some(Surrogate::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        let check = |json: &str, expected: usize| {
            assert_eq!(depth(json.as_bytes()), expected, "{json}");
            assert!(!nests_deeper_than(json, expected), "{json}");
            assert!(nests_deeper_than(json, expected - 1), "{json}");
        };
        check("{}", 1);
        check(r#"{"a":[[],[{}]]}"#, 4);
        check(r#"{"a":"[[[[[\"[[[","b":[1]}"#, 2);
        check(r#"{"\\":["\\"]}"#, 2);
    }

    #[test]
    fn lone_surrogates_are_found() {
        let check = |json: &str, expected: bool| {
            assert_eq!(has_lone_surrogate(json), expected, "{json}");
        };
        check(r#""plain""#, false);
        check(r#""\ud83d\ude00""#, false);
        check(r#""\uD83D\uDE00\n\ud83d\ude00""#, false);
        check(r#""\ud83d""#, true);
        check(r#""\ude00""#, true);
        check(r#""\ud83dx\ude00""#, true);
        check(r#""\ud83d\ud83d\ude00""#, true);
        check(r#""\\ud83d""#, false);
        check(r#""\\\ud83d""#, true);
        check(r#""\ud7ff\ue000""#, false);
    }
}
