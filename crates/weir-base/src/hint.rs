//! "Did you mean" suggestions: the known word that is closest to a misspelt one.

use strsim::damerau_levenshtein;

/// Limit of the letters of a word, for both the misspelt and the suggested one: the comparison
/// takes time that grows with both lengths, and some words come from clients (queue names).
const LETTERS_MAX: usize = 40;

/// Returns the word of `known` that `word` most likely meant, if any is close enough.
///
/// Close enough is one edit (a letter changed, missing or added, or two swapped) per three letters,
/// and at least one: `lisen` finds `listen`, `x` finds nothing. Case and the difference between `-`
/// and `_` are ignored. Of two equally close words the first wins. Words of more than 40 letters
/// never match.
#[must_use]
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = letters(word)?;
    let word = fold(word);
    let edits_max = (letters / 3).max(1);
    // Each letter of difference in length is an edit.
    let may_be_close =
        |known: &&str| self::letters(known).is_some_and(|it| it.abs_diff(letters) <= edits_max);
    known
        .into_iter()
        .filter(may_be_close)
        .map(|candidate| (damerau_levenshtein(&word, &fold(candidate)), candidate))
        .filter(|&(edits, candidate)| edits <= edits_max && edits < candidate.chars().count())
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
}

/// Counts the letters. None: more than the limit.
fn letters(word: &str) -> Option<usize> {
    let counted = word.chars().take(LETTERS_MAX + 1).count();
    Some(counted).filter(|letters| *letters <= LETTERS_MAX)
}

fn fold(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: [&str; 5] = ["listen", "store", "fsync", "fsync_acks", "password"];

    #[test]
    fn a_misspelt_word_finds_its_neighbour() {
        for (word, meant) in [
            ("lisen", Some("listen")),
            ("Listen", Some("listen")),
            ("fsync-acks", Some("fsync_acks")),
            ("fsnyc", Some("fsync")),
            ("passwrod", Some("password")),
            ("colour", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest(word, KEYS), meant, "{word:?}");
        }
    }

    #[test]
    fn a_short_known_word_is_not_the_answer_to_everything() {
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
        fn a_known_word_finds_itself_and_nothing_panics(word in ".{0,40}") {
            let _ = closest(&word, KEYS);
            for key in KEYS {
                prop_assert_eq!(closest(key, KEYS), Some(key));
            }
        }
    }
}
