//! Evaluates SPDX licence expressions, as far as crates use them: names, `WITH`, `AND`, `OR`, parentheses, and the
//! old `/` for `OR`.

/// Returns whether allowed licences satisfy `expression`; None: it is invalid.
pub(crate) fn is_met(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    let met = reader.parse_or()?;
    reader.words.is_empty().then_some(met)
}

struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Reader<'a> {
    fn parse_or(&mut self) -> Option<bool> {
        let mut met = self.parse_and()?;
        while self.accept("OR") {
            met |= self.parse_and()?;
        }
        Some(met)
    }

    fn parse_and(&mut self) -> Option<bool> {
        let mut met = self.parse_term()?;
        while self.accept("AND") {
            met &= self.parse_term()?;
        }
        Some(met)
    }

    fn parse_term(&mut self) -> Option<bool> {
        if self.accept("(") {
            let met = self.parse_or()?;
            return self.accept(")").then_some(met);
        }
        let name = self.next()?;
        if ["AND", "OR", "WITH", ")"].contains(&name) {
            return None;
        }
        if self.accept("WITH") {
            let exception = self.next()?;
            return Some((self.allowed)(&format!("{name} WITH {exception}")));
        }
        Some((self.allowed)(name))
    }

    fn accept(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::is_met;

    #[test]
    fn licence_expressions_are_evaluated() {
        let allowed = |name: &str| ["MIT", "ISC", "A WITH e"].contains(&name);
        for (expression, met) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("MIT OR GPL-3.0", Some(true)),
            ("GPL-3.0/MIT", Some(true)),
            ("MIT AND GPL-3.0", Some(false)),
            ("ISC AND (GPL-3.0 OR MIT)", Some(true)),
            ("GPL-3.0 OR ISC AND MIT", Some(true)),
            ("A WITH e", Some(true)),
            ("A", Some(false)),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT MIT", None),
            ("", None),
        ] {
            assert_eq!(is_met(expression, &allowed), met, "{expression}");
        }
    }
}
