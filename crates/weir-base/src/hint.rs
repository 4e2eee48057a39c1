//! "Did you mean": the known word that a misspelt one is closest to.

use strsim::damerau_levenshtein;

/// The word of `known` that `word` most likely meant, if any is close enough.
///
/// Close enough is one edit (a letter changed, missing, added or two swapped) for every three
/// letters, at least one: `lisen` finds `listen`, `x` finds nothing. Case and the difference
/// between `-` and `_` count for nothing. Of two that are equally close the first wins.
#[must_use]
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = fold(word);
    let edits_max = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (damerau_levenshtein(&word, &fold(candidate)), candidate))
        .filter(|&(edits, candidate)| edits <= edits_max && edits < candidate.chars().count())
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
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
