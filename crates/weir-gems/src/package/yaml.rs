//! Parses YAML to a tree of texts. Tags never instantiate objects, and an alias is a reference, not
//! a copy.

mod scalar;
mod tag;

use saphyr_parser::{Event, Parser, ScanError};

use self::scalar::{Meaning, Scalar};
pub(super) use self::tag::Class;

/// Limits for a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct YamlLimits {
    pub(super) values_max: usize,
    pub(super) depth_max: usize,
    pub(super) aliases_max: usize,
}

/// Maximum number of keys of a mapping. A specification has 40; lookups are linear.
const KEYS_MAX: usize = 1_000;

/// Reasons why a text is not a valid document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum YamlError {
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error("{0}")]
    Syntax(String),
    #[error("it has more than {0} values (gems.limits.advanced.metadata_values_max)")]
    Values(usize),
    #[error(
        "its values lie deeper than {0} in each other (gems.limits.advanced.metadata_depth_max)"
    )]
    Depth(usize),
    #[error("it uses values again more than {0} times (gems.limits.advanced.metadata_aliases_max)")]
    Aliases(usize),
    #[error("it has a mapping with more than {KEYS_MAX} keys")]
    Keys,
    #[error("it uses a value again that it does not have")]
    UnknownAlias,
    #[error("it has the key {0:?} twice")]
    DuplicateKey(String),
    #[error("it has a key that merges (<<), which no gem has")]
    MergeKey,
    #[error("it has the tag {0:?}, which no gem has")]
    Tag(String),
    #[error("it has a value that is said to be Base64 (!binary) and is not")]
    Binary,
    #[error("it is not one document with a mapping")]
    NotOneMapping,
}

#[derive(Debug)]
enum Value {
    Scalar(Scalar),
    Sequence(Vec<usize>),
    Mapping(Class, Vec<(usize, usize)>),
}

/// A document.
#[derive(Debug)]
pub(super) struct Document {
    values: Vec<Value>,
    root: usize,
}

/// A value of a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    document: &'a Document,
    index: usize,
}

impl Document {
    pub(super) fn parse(text: &[u8], limits: YamlLimits) -> Result<Self, YamlError> {
        let text = str::from_utf8(text).map_err(|_| YamlError::NotUtf8)?;
        let mut tree = Tree { limits, ..Tree::default() };
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let (event, _) =
                event.map_err(|error: ScanError| YamlError::Syntax(error.to_string()))?;
            tree.take(event)?;
        }
        tree.finish()
    }

    pub(super) fn root(&self) -> Node<'_> {
        Node { document: self, index: self.root }
    }
}

impl<'a> Node<'a> {
    fn value(self) -> &'a Value {
        &self.document.values[self.index]
    }

    fn at(self, index: usize) -> Self {
        Self { document: self.document, index }
    }

    fn as_scalar(self) -> Option<&'a Scalar> {
        match self.value() {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// Returns the text of a scalar that every parser takes for a text.
    pub(super) fn text(self) -> Option<&'a str> {
        let scalar = self.as_scalar().filter(|scalar| scalar.meaning == Meaning::Text);
        scalar.map(|scalar| scalar.text.as_str())
    }

    /// Returns the source text of a scalar that is not null, whatever type parsers give it.
    pub(super) fn written(self) -> Option<&'a str> {
        let scalar = self.as_scalar().filter(|scalar| scalar.meaning != Meaning::Null);
        scalar.map(|scalar| scalar.text.as_str())
    }

    pub(super) fn is_null(self) -> bool {
        self.as_scalar().is_some_and(|scalar| scalar.meaning == Meaning::Null)
    }

    /// Returns the class of a mapping, or None if this is not a mapping.
    pub(super) fn class(self) -> Option<Class> {
        match self.value() {
            Value::Mapping(class, _) => Some(*class),
            _ => None,
        }
    }

    /// Returns the items of a sequence.
    pub(super) fn items(self) -> Option<impl Iterator<Item = Node<'a>>> {
        match self.value() {
            Value::Sequence(items) => Some(items.iter().map(move |index| self.at(*index))),
            _ => None,
        }
    }

    /// Returns keys and values of a mapping.
    pub(super) fn pairs(self) -> Option<impl Iterator<Item = (Node<'a>, Node<'a>)>> {
        match self.value() {
            Value::Mapping(_, pairs) => {
                Some(pairs.iter().map(move |(key, value)| (self.at(*key), self.at(*value))))
            }
            _ => None,
        }
    }

    /// Returns the value for a key, or None if it is missing or this is not a mapping.
    pub(super) fn get(self, key: &str) -> Result<Option<Node<'a>>, YamlError> {
        let pairs = self.pairs().into_iter().flatten();
        let mut found = pairs.filter(|(name, _)| name.written() == Some(key)).map(|(_, it)| it);
        let first = found.next();
        match found.next() {
            // Parsers don't agree on which duplicate counts.
            Some(_) => Err(YamlError::DuplicateKey(key.to_owned())),
            None => Ok(first),
        }
    }
}

/// A collection that is not closed yet.
#[derive(Debug)]
struct Open {
    index: usize,
    /// A key without a value yet.
    key: Option<usize>,
}

#[derive(Debug)]
struct Tree {
    limits: YamlLimits,
    values: Vec<Value>,
    open: Vec<Open>,
    /// Values by the number of their anchor.
    anchors: Vec<(usize, usize)>,
    aliases: usize,
    root: Option<usize>,
}

impl Default for Tree {
    fn default() -> Self {
        let limits = YamlLimits { values_max: 0, depth_max: 0, aliases_max: 0 };
        let (values, open, anchors) = (Vec::new(), Vec::new(), Vec::new());
        Self { limits, values, open, anchors, aliases: 0, root: None }
    }
}

impl Tree {
    fn take(&mut self, event: Event<'_>) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = Scalar::read(&text, style, tag.as_deref())?;
                let index = self.add(Value::Scalar(scalar), anchor)?;
                self.attach(index)
            }
            Event::SequenceStart(anchor, tag) => {
                tag::check_sequence(tag.as_deref())?;
                self.open(Value::Sequence(Vec::new()), anchor)
            }
            Event::MappingStart(anchor, tag) => {
                let class = Class::of_mapping(tag.as_deref())?;
                self.open(Value::Mapping(class, Vec::new()), anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
                Ok(())
            }
            Event::Alias(anchor) => self.alias(anchor),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn add(&mut self, value: Value, anchor: usize) -> Result<usize, YamlError> {
        if self.values.len() >= self.limits.values_max {
            return Err(YamlError::Values(self.limits.values_max));
        }
        self.values.push(value);
        let index = self.values.len() - 1;
        // 0 means that there is no anchor.
        if anchor != 0 {
            self.anchors.push((anchor, index));
        }
        Ok(index)
    }

    fn open(&mut self, value: Value, anchor: usize) -> Result<(), YamlError> {
        if self.open.len() >= self.limits.depth_max {
            return Err(YamlError::Depth(self.limits.depth_max));
        }
        let index = self.add(value, anchor)?;
        self.attach(index)?;
        self.open.push(Open { index, key: None });
        Ok(())
    }

    fn alias(&mut self, anchor: usize) -> Result<(), YamlError> {
        self.aliases += 1;
        if self.aliases > self.limits.aliases_max {
            return Err(YamlError::Aliases(self.limits.aliases_max));
        }
        // The parser numbers anchors in ascending order.
        let found = self.anchors.binary_search_by_key(&anchor, |(number, _)| *number);
        let place = found.map_err(|_| YamlError::UnknownAlias)?;
        self.attach(self.anchors[place].1)
    }

    /// Attaches a value to the open collection, or makes it the root.
    fn attach(&mut self, index: usize) -> Result<(), YamlError> {
        let Some(open) = self.open.last_mut() else {
            return match self.root.replace(index) {
                None => Ok(()),
                Some(_) => Err(YamlError::NotOneMapping),
            };
        };
        let key = match &mut self.values[open.index] {
            Value::Sequence(items) => {
                items.push(index);
                return Ok(());
            }
            Value::Mapping(_, pairs) => match open.key.take() {
                Some(_) if pairs.len() >= KEYS_MAX => return Err(YamlError::Keys),
                Some(key) => {
                    pairs.push((key, index));
                    return Ok(());
                }
                None => index,
            },
            Value::Scalar(_) => return Ok(()),
        };
        open.key = Some(key);
        match &self.values[key] {
            Value::Scalar(scalar) if scalar.text == "<<" => Err(YamlError::MergeKey),
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<Document, YamlError> {
        let root = self.root.ok_or(YamlError::NotOneMapping)?;
        match self.values[root] {
            Value::Mapping(..) => Ok(Document { values: self.values, root }),
            _ => Err(YamlError::NotOneMapping),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: YamlLimits = YamlLimits { values_max: 50, depth_max: 5, aliases_max: 2 };

    fn parse(text: &str) -> Result<Document, YamlError> {
        Document::parse(text.as_bytes(), LIMITS)
    }

    #[test]
    fn a_tag_is_only_a_name() {
        let text =
            "--- !ruby/object:Gem::Specification\na: !ruby/object:Gem::Version {b: c}\nd: ~\n";
        let document = parse(text).unwrap();
        assert_eq!(document.root().class(), Some(Class::Specification));
        let a = document.root().get("a").unwrap().unwrap();
        assert_eq!(a.class(), Some(Class::Version));
        assert_eq!(a.get("b").unwrap().unwrap().text(), Some("c"));
        assert!(document.root().get("d").unwrap().unwrap().is_null());
    }

    #[test]
    fn a_tag_that_no_gem_has_is_refused() {
        for value in [
            "!ruby/object:Evil {b: c}",
            "!ruby/object:Gem::Installer {}",
            "!ruby/sym x",
            "!ruby/regexp re",
            "!ruby/object:Gem::Version x",
            "!ruby/array:Evil []",
            "!ruby/hash:Evil {}",
        ] {
            let error = parse(&format!("a: {value}\n")).unwrap_err();
            let tag = value.split(' ').next().unwrap().to_owned();
            assert_eq!(error, YamlError::Tag(tag));
        }
        assert_eq!(parse("a: !binary '?'\n").unwrap_err(), YamlError::Binary);
        let document =
            parse("a: !!str 1.10\nb: !str 3\nc: ! yes\nd: !!null \ne: !!int 3\n").unwrap();
        let all = document.root().pairs().unwrap();
        let texts: Vec<_> = all.map(|(_, value)| (value.text(), value.is_null())).collect();
        let text = |text| (Some(text), false);
        assert_eq!(texts, [text("1.10"), text("3"), text("yes"), (None, true), (None, false)]);
    }

    #[test]
    fn an_alias_copies_nothing_and_their_number_is_bounded() {
        let document = parse("a: &x [1, 2]\nb: *x\nc: *x\n").unwrap();
        let c = document.root().get("c").unwrap().unwrap();
        assert_eq!(c.items().unwrap().filter_map(Node::written).collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(document.values.len(), 7);
        let error = parse("a: &x 1\nb: *x\nc: *x\nd: *x\n").unwrap_err();
        assert_eq!(error, YamlError::Aliases(2));
        assert!(parse("a: *x\n").is_err());
    }

    #[test]
    fn depth_and_number_of_values_are_bounded() {
        assert_eq!(parse("[[[[[[1]]]]]]").unwrap_err(), YamlError::Depth(5));
        let many = format!("a: [{}]", "1, ".repeat(60));
        assert_eq!(parse(&many).unwrap_err(), YamlError::Values(50));
        // Deep nesting must not overflow the stack in the parser of flow sequences either.
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn what_could_mean_two_things_is_refused() {
        let document = parse("a: 1\na: 2\n").unwrap();
        assert_eq!(document.root().get("a").unwrap_err(), YamlError::DuplicateKey("a".to_owned()));
        assert_eq!(parse("a: &x {b: 1}\nc:\n  <<: *x\n").unwrap_err(), YamlError::MergeKey);
        assert_eq!(parse("a: 1\n--- \nb: 1\n").unwrap_err(), YamlError::NotOneMapping);
        assert_eq!(parse("- a\n").unwrap_err(), YamlError::NotOneMapping);
        assert_eq!(parse("").unwrap_err(), YamlError::NotOneMapping);
        assert_eq!(Document::parse(b"a: \xff", LIMITS).unwrap_err(), YamlError::NotUtf8);
    }

    #[test]
    fn a_text_that_was_not_utf8_is_read() {
        let document = parse("a: !binary |-\n  aMOkCg==\n").unwrap();
        assert_eq!(document.root().get("a").unwrap().unwrap().text(), Some("h\u{e4}\n"));
    }
}
