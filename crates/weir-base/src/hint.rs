//! "Did you mean" suggestions: the known word that is closest to a misspelt one.

use strsim::damerau_levenshtein;

/// Limit of the letters of a word, for both the misspelt and the suggested one: the comparison
/// takes time that grows with both lengths, and some words come from clients (queue names).
const LETTERS_MAX: usize = 40;

/// Returns the word of `known` that `text` most likely meant, if any is close enough.
///
/// Close enough is one edit (a letter changed, missing or added, or two swapped) per three letters,
/// and at least one: `lisen` finds `listen`, `x` finds nothing. Case and the difference between `-`
/// and `_` are ignored. Of two equally close words the first wins. Words of more than 40 letters
/// never match.
#[must_use]
pub fn closest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = count_letters(text)?;
    let text = normalize(text);
    let edits_max = (letters / 3).max(1);
    // Each letter of difference in length is an edit.
    let may_be_close = |known: &&str| {
        self::count_letters(known).is_some_and(|it| it.abs_diff(letters) <= edits_max)
    };
    known
        .into_iter()
        .filter(may_be_close)
        .map(|candidate| (damerau_levenshtein(&text, &normalize(candidate)), candidate))
        .filter(|&(edits, candidate)| edits <= edits_max && edits < candidate.chars().count())
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
}

/// Counts the letters. None: more than the limit.
fn count_letters(text: &str) -> Option<usize> {
    let counted = text.chars().take(LETTERS_MAX + 1).count();
    Some(counted).filter(|letters| *letters <= LETTERS_MAX)
}

fn normalize(text: &str) -> String {
    text.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: [&str; 5] = ["listen", "store", "fsync", "fsync_acks", "password"];

    #[test]
    fn misspelt_words_match() {
        for (text, meant) in [
            ("lisen", Some("listen")),
            ("Listen", Some("listen")),
            ("fsync-acks", Some("fsync_acks")),
            ("fsnyc", Some("fsync")),
            ("passwrod", Some("password")),
            ("colour", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest(text, KEYS), meant, "{text:?}");
        }
    }

    #[test]
    fn short_words_do_not_match_everything() {
        assert_eq!(closest("b", ["a"]), None);
    }

    #[test]
    fn long_words_are_not_compared() {
        let (usual, long) = ("q".repeat(LETTERS_MAX), "q".repeat(LETTERS_MAX + 1));
        assert_eq!(closest(&usual[1..], [usual.as_str()]), Some(usual.as_str()));
        assert_eq!(closest(&usual, [long.as_str()]), None);
        assert_eq!(closest(&long, [usual.as_str()]), None);
        // Within a blink, where a table of both lengths would take minutes.
        let endless = "q".repeat(1_000_000);
        assert_eq!(closest(&endless, [endless.as_str()]), None);
    }

    proptest! {
        #[test]
        fn known_words_match_themselves_and_nothing_panics(text in ".{0,40}") {
            let _ = closest(&text, KEYS);
            for key in KEYS {
                prop_assert_eq!(closest(key, KEYS), Some(key));
            }
        }
    }
}
