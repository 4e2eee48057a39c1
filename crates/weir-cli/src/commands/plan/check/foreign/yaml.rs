//! YAML as a small tree, with anchors and merged mappings (`<<`), as in compose files.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser};

/// Limit of the values of a document, counting each use of an alias.
const VALUES_MAX: usize = 100_000;
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(in crate::commands) enum Yaml {
    Scalar(String),
    List(Vec<Yaml>),
    /// In the order of the file.
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    /// Parses the first document; None: invalid or too large.
    pub(in crate::commands) fn parse(text: &str) -> Option<Self> {
        let mut reader =
            Reader { parser: Parser::new_from_str(text), anchors: BTreeMap::new(), values: 0 };
        loop {
            match reader.next()? {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                event => return reader.value(event, 0),
            }
        }
    }

    /// Returns the value of a key in a mapping.
    pub(in crate::commands) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            // Of duplicate keys, the last one applies.
            Self::Map(pairs) => pairs.iter().rev().find(|(name, _)| name == key).map(|(_, it)| it),
            _ => None,
        }
    }

    pub(in crate::commands) fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar(text) => Some(text),
            _ => None,
        }
    }

    pub(in crate::commands) fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    pub(in crate::commands) fn pairs(&self) -> &[(String, Self)] {
        match self {
            Self::Map(pairs) => pairs,
            _ => &[],
        }
    }

    /// Merges `other` into this value, which it overrides, like compose files.
    pub(in crate::commands) fn merged(self, other: Self) -> Self {
        match (self, other) {
            (Self::Map(mut pairs), Self::Map(others)) => {
                for (name, value) in others {
                    match pairs.iter_mut().find(|(it, _)| *it == name) {
                        Some((_, known)) => {
                            let before = std::mem::replace(known, Self::List(Vec::new()));
                            *known = before.merged(value);
                        }
                        None => pairs.push((name, value)),
                    }
                }
                Self::Map(pairs)
            }
            (_, other) => other,
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    anchors: BTreeMap<usize, Yaml>,
    values: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<Event<'a>> {
        Some(self.parser.next_event()?.ok()?.0)
    }

    fn value(&mut self, event: Event<'a>, depth: usize) -> Option<Yaml> {
        self.values += 1;
        if self.values > VALUES_MAX || depth > DEPTH_MAX {
            return None;
        }
        let (value, anchor) = match event {
            Event::Scalar(text, _, anchor, _) => (Yaml::Scalar(text.into_owned()), anchor),
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor)?.clone();
                self.values = self.values.saturating_add(count(&value));
                (value, 0)
            }
            Event::SequenceStart(anchor, _) => (self.list(depth)?, anchor),
            Event::MappingStart(anchor, _) => (self.map(depth)?, anchor),
            _ => return None,
        };
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Some(value)
    }

    fn list(&mut self, depth: usize) -> Option<Yaml> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                Event::SequenceEnd => return Some(Yaml::List(items)),
                event => items.push(self.value(event, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Option<Yaml> {
        let (mut pairs, mut merged) = (Vec::new(), Vec::new());
        loop {
            let key = match self.next()? {
                Event::MappingEnd => break,
                event => self.value(event, depth + 1)?,
            };
            let event = self.next()?;
            let value = self.value(event, depth + 1)?;
            match (key.text(), value) {
                (Some("<<"), Yaml::Map(others)) => merged.extend(others),
                (Some("<<"), Yaml::List(several)) => {
                    // The first of several wins.
                    for one in several.into_iter().rev() {
                        merged.extend(one.pairs().iter().cloned());
                    }
                }
                (Some(name), value) => pairs.push((name.to_owned(), value)),
                (None, _) => {}
            }
        }
        // The mapping's own keys take precedence.
        merged.retain(|(name, _): &(String, Yaml)| !pairs.iter().any(|(own, _)| own == name));
        merged.append(&mut pairs);
        Some(Yaml::Map(merged))
    }
}

fn count(value: &Yaml) -> usize {
    1 + value.items().iter().map(count).sum::<usize>()
        + value.pairs().iter().map(|(_, value)| count(value)).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_and_merge_keys_are_resolved() {
        let text = "a: &a\n  env: .env\n  x: 1\nb:\n  <<: *a\n  x: 2\n  list: [a, 'b c']\n";
        let yaml = Yaml::parse(text).unwrap();
        let b = yaml.get("b").unwrap();
        assert_eq!(b.get("env").and_then(Yaml::text), Some(".env"));
        assert_eq!(b.get("x").and_then(Yaml::text), Some("2"));
        assert_eq!(b.get("list").unwrap().items().len(), 2);
        let over = Yaml::parse("b:\n  x: 3\nc: {}\n").unwrap();
        let merged = yaml.merged(over);
        let b = merged.get("b").unwrap();
        assert_eq!(b.get("x").and_then(Yaml::text), Some("3"));
        assert!(b.get("env").is_some() && merged.get("c").is_some());
    }

    #[test]
    fn document_with_exponential_aliases_is_rejected() {
        let mut text = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (now, before) in
            [('b', 'a'), ('c', 'b'), ('d', 'c'), ('e', 'd'), ('f', 'e'), ('g', 'f')]
        {
            let again = vec![format!("*{before}"); 9].join(", ");
            text.push_str(&format!("{now}: &{now} [{again}]\n"));
        }
        assert_eq!(Yaml::parse(&text), None);
        assert_eq!(Yaml::parse("a: [1"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[-a-z:&*<\\[\\]{},' \n#|>]{0,80}") {
            let _ = Yaml::parse(&text);
        }
    }
}
