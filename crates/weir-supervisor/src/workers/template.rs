//! Placeholders in a worker's command and environment: `{port}`, `fd://{fd}`, `{{` for a brace.

use std::collections::BTreeMap;
use std::fmt;

/// A parsed text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Placeholder(String),
}

/// The values of placeholders. A list expands to several arguments where the placeholder is an
/// argument by itself, and to its items joined with commas elsewhere.
pub(crate) type Values = BTreeMap<String, Vec<String>>;

/// An opening brace without a closing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unclosed;

/// No placeholder has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown(pub(crate) String);

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, Unclosed> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(index) = rest.find(['{', '}']) {
            literal.push_str(&rest[..index]);
            let (brace, after) = (&rest[index..=index], &rest[index + 1..]);
            if let Some(after) = after.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
            } else if brace == "{" {
                let (name, after) = after.split_once('}').ok_or(Unclosed)?;
                parts.extend(text_part(&mut literal));
                parts.push(TemplatePart::Placeholder(name.to_owned()));
                rest = after;
            } else {
                // A closing brace without an opening one is literal.
                literal.push_str(brace);
                rest = after;
            }
        }
        literal.push_str(rest);
        parts.extend(text_part(&mut literal));
        Ok(Self(parts))
    }

    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            TemplatePart::Placeholder(name) => Some(name.as_str()),
            TemplatePart::Text(_) => None,
        })
    }

    /// Returns whether it is a placeholder and nothing else.
    pub(crate) fn is_placeholder(&self) -> bool {
        matches!(self.0.as_slice(), [TemplatePart::Placeholder(_)])
    }

    /// Expands to one text.
    pub(crate) fn expand(&self, values: &Values) -> Result<String, Unknown> {
        self.0.iter().try_fold(String::new(), |mut text, part| {
            match part {
                TemplatePart::Text(literal) => text.push_str(literal),
                TemplatePart::Placeholder(name) => text.push_str(&lookup(values, name)?.join(",")),
            }
            Ok(text)
        })
    }

    /// Expands to arguments: a placeholder by itself becomes one argument per value.
    pub(crate) fn expand_arguments(&self, values: &Values) -> Result<Vec<String>, Unknown> {
        match self.0.as_slice() {
            [TemplatePart::Placeholder(name)] => lookup(values, name).cloned(),
            _ => Ok(vec![self.expand(values)?]),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unknown placeholder {{{}}}", self.0)
    }
}

fn text_part(literal: &mut String) -> Option<TemplatePart> {
    (!literal.is_empty()).then(|| TemplatePart::Text(std::mem::take(literal)))
}

fn lookup<'a>(values: &'a Values, name: &str) -> Result<&'a Vec<String>, Unknown> {
    values.get(name).ok_or_else(|| Unknown(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        let list = |items: &[&str]| items.iter().map(|&item| item.to_owned()).collect();
        [("fd".to_owned(), list(&["3"])), ("queues".to_owned(), list(&["-q", "a", "-q", "b"]))]
            .into()
    }

    fn arguments(text: &str) -> Vec<String> {
        let template = Template::parse(text).expect(text);
        template.expand_arguments(&values()).expect(text)
    }

    #[test]
    fn placeholders_are_expanded_and_doubled_braces_unescaped() {
        for (text, expected) in [
            ("plain", "plain"),
            ("", ""),
            ("fd://{fd}", "fd://3"),
            ("{fd}{fd}", "33"),
            ("{{fd}}", "{fd}"),
            ("{{{fd}}}", "{3}"),
            ("}", "}"),
            ("{{\"a\":1}", "{\"a\":1}"),
            ("é{fd}ü", "é3ü"),
        ] {
            assert_eq!(arguments(text), [expected], "{text}");
        }
    }

    #[test]
    fn a_placeholder_alone_expands_to_several_arguments() {
        assert_eq!(arguments("{queues}"), ["-q", "a", "-q", "b"]);
        assert_eq!(arguments("--queues={queues}"), ["--queues=-q,a,-q,b"]);
    }

    proptest::proptest! {
        #[test]
        fn doubling_braces_round_trips(text in ".*") {
            let escaped = text.replace('{', "{{").replace('}', "}}");
            proptest::prop_assert_eq!(arguments(&escaped), [text]);
        }

        #[test]
        fn any_text_is_parsed_without_panic(text in "[{}a]*") {
            let _ = Template::parse(&text).map(|template| template.expand_arguments(&values()));
        }
    }

    #[test]
    fn malformed_templates_are_rejected() {
        assert_eq!(Template::parse("a{b"), Err(Unclosed));
        let template = Template::parse("x{nix}").expect("parsed");
        assert_eq!(template.placeholders().collect::<Vec<_>>(), ["nix"]);
        assert_eq!(template.expand(&values()), Err(Unknown("nix".into())));
    }
}
