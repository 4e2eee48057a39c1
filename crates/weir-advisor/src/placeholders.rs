//! Makes lines and commands that contain something to be replaced instructions for a person: what
//! doctor suggests to set or to run can be used unchanged.

use crate::action::Action;
use crate::finding::Finding;

/// Words that a person would have to replace.
const WORDS: [&str; 14] = [
    "HOST", "PORT", "NUMBER", "USER", "NAME", "RATE", "URL", "FILE", "SIZE", "PASSWORD", "QUEUE",
    "PATH", "VALUE", "IDENTITY",
];

/// Returns the finding with each such action as an instruction.
pub(crate) fn without(mut finding: Finding) -> Finding {
    for action in &mut finding.actions {
        if action.literal().is_some_and(has_one) {
            *action = Action::Advise { text: action.to_string() };
        }
    }
    finding
}

/// Reports whether the text has `<name>`, `...`, `YOUR_..` or a word in capitals to be replaced.
pub(crate) fn has_one(text: &str) -> bool {
    let mut words = text.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    text.contains("...")
        || words.any(|word| WORDS.contains(&word) || word.starts_with("YOUR_"))
        || text.split('<').skip(1).any(begins_with_name)
}

/// Reports whether the text after a `<` is a name and a `>`. In SQL, operators have spaces or values around them.
fn begins_with_name(rest: &str) -> bool {
    let Some((name, _)) = rest.split_once('>') else { return false };
    let is_part = |it: char| it.is_ascii_lowercase() || "-_ ".contains(it);
    name.starts_with(|it: char| it.is_ascii_lowercase()) && name.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn text_to_be_replaced_is_recognized() {
        for text in [
            "redis-cli -h HOST",
            "DB_POOL=<threads>",
            "psql <your database>",
            "YOUR_TOKEN=1",
            "sidekiq -q ...",
        ] {
            assert!(has_one(text), "{text}");
        }
        for text in [
            "redis-cli -h \"${REDIS_HOST:?must be set}\" CLIENT LIST",
            "psql -c 'SELECT 1 WHERE a <> b AND c < d AND e > f'",
            "-q default,8 -q push",
            "ALTER ROLE \"a\" CONNECTION LIMIT 5;",
        ] {
            assert!(!has_one(text), "{text}");
        }
    }

    #[test]
    fn a_line_with_a_placeholder_is_an_instruction() {
        let finding = |line| Finding::new("rule", Severity::Warning, "a", "b").change("c", line);
        let found = without(finding("DB_POOL=NUMBER"));
        assert_eq!((found.line_change(), found.next_step()), (None, Some("in c: DB_POOL=NUMBER")));
        assert_eq!(without(finding("DB_POOL=5")), finding("DB_POOL=5"));
    }
}
