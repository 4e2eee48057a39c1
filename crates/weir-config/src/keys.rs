//! Reading keys of a table into typed fields. One call per key is its one definition: its name, its
//! type and range, its default (the field's value before), what it is for, and whether a reload
//! takes it. From these calls come the settings, the mistakes, the list of values that `weir check`
//! prints, what a reload reports, and docs/reference/settings.md.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_base::secret::Secret;
use weir_base::token_bucket::Rate;

use super::convert::{
    OFF, did_you_mean, expected, none, quoted, to_duration, to_number, to_path, to_size,
    to_tcp_address, to_thousandths,
};
use super::report::{Report, Value};
use super::secrets::{self, Environment};
use super::units;

/// How long anything in hand may be made to wait.
pub(super) const WAIT: RangeInclusive<Duration> = units::MILLISECOND..=units::DAY;

/// A key's definition, beside its type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    name: &'static str,
    doc: &'static str,
    live: bool,
    later: &'static [&'static str],
}

impl Key {
    /// A key that only a restart changes.
    pub(crate) const fn fixed(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, live: false, later: &[] }
    }

    /// A key that SIGHUP changes.
    pub(crate) const fn live(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, live: true, later: &[] }
    }

    /// Values that a later version takes: rejected by name.
    pub(crate) const fn with_later(self, later: &'static [&'static str]) -> Self {
        Self { later, ..self }
    }

    /// What such a value is rejected with.
    fn reject_later(self, value: &DeValue<'_>) -> Result<(), String> {
        let is_meant = |later: &str| {
            value.as_str() == Some(later)
                || value.as_table().is_some_and(|table| table.contains_key(later))
        };
        match self.later.iter().find(|later| is_meant(later)) {
            Some(later) => Err(format!("{later} is not in this version of Weir yet")),
            None => Ok(()),
        }
    }
}

/// What every key may need.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// Relative paths start here: the folder of the file.
    pub folder: &'a Path,
    pub environment: Environment<'a>,
    /// Names a sample entry in tables of names, for the reference.
    pub describe: bool,
}

/// What stands in the file as it is, or is kept apart from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextOrSecret {
    Text(String),
    Secret(Secret),
}

impl TextOrSecret {
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Secret(secret) => secret.expose(),
        }
    }

    pub fn is_secret(&self) -> bool {
        matches!(self, Self::Secret(_))
    }
}

/// The keys of one table.
pub(crate) struct Keys<'a> {
    table: Option<&'a DeTable<'a>>,
    path: String,
    known: Vec<&'static str>,
    report: &'a mut Report,
    context: Context<'a>,
}

type Found<'a> = &'a Spanned<DeValue<'a>>;

impl<'a> Keys<'a> {
    /// The keys of `table`; None: a table that isn't in the file, so defaults apply.
    pub(crate) fn new(
        table: Option<&'a DeTable<'a>>,
        report: &'a mut Report,
        context: Context<'a>,
    ) -> Self {
        Self { table, path: String::new(), known: Vec::new(), report, context }
    }

    pub(crate) fn flag(&mut self, key: Key, field: &mut bool) {
        self.read(key, "true or false", field, ToString::to_string, |value| {
            value.as_bool().ok_or_else(|| expected("true or false", value))
        });
    }

    pub(crate) fn number<T>(&mut self, key: Key, range: RangeInclusive<u64>, field: &mut T)
    where
        T: TryFrom<u64> + Display,
    {
        let read = |value: &DeValue<'_>| to_number(value, &range);
        self.read(key, "number", field, ToString::to_string, read);
    }

    pub(crate) fn optional_number<T>(
        &mut self,
        key: Key,
        range: RangeInclusive<u64>,
        field: &mut Option<T>,
    ) where
        T: TryFrom<u64> + Display,
    {
        let show =
            |field: &Option<T>| field.as_ref().map_or_else(none, |number| number.to_string());
        let read = |value: &DeValue<'_>| to_number(value, &range).map(Some);
        self.read(key, "number", field, show, read);
    }

    pub(crate) fn size<T>(&mut self, key: Key, range: RangeInclusive<u64>, field: &mut T)
    where
        T: TryFrom<u64> + TryInto<u64> + Copy,
    {
        let show = |field: &T| quoted(&units::format_size((*field).try_into().unwrap_or(u64::MAX)));
        self.read(key, "size", field, show, |value| to_size(value, &range));
    }

    pub(crate) fn optional_size(
        &mut self,
        key: Key,
        range: RangeInclusive<u64>,
        field: &mut Option<u64>,
    ) {
        let show =
            |field: &Option<u64>| field.map_or_else(none, |size| quoted(&units::format_size(size)));
        self.read(key, "size", field, show, |value| to_size(value, &range).map(Some));
    }

    pub(crate) fn duration(
        &mut self,
        key: Key,
        range: RangeInclusive<Duration>,
        field: &mut Duration,
    ) {
        let show = |field: &Duration| quoted(&units::format_duration(*field));
        self.read(key, "duration", field, show, |value| to_duration(value, &range));
    }

    /// How often, and how many at once: two keys of one rate.
    pub(crate) fn rate(&mut self, per_second: Key, burst: Key, field: &mut Rate) {
        let (mut often, mut at_once) = (field.tokens_per_second(), field.burst());
        self.number(per_second, 1..=1_000_000, &mut often);
        self.number(burst, 1..=1_000_000, &mut at_once);
        *field = Rate::per_second(often, at_once);
    }

    /// A share, kept in thousandths, written in whole percent: `"10%"`.
    pub(crate) fn percent(&mut self, key: Key, range: RangeInclusive<u64>, thousandths: &mut u32) {
        let show = |field: &u32| quoted(&format!("{}%", field / 10));
        self.read(key, "percentage", thousandths, show, |value| to_thousandths(value, &range));
    }

    pub(crate) fn optional_duration(
        &mut self,
        key: Key,
        range: RangeInclusive<Duration>,
        field: &mut Option<Duration>,
    ) {
        let show = |field: &Option<Duration>| {
            field.map_or_else(none, |duration| quoted(&units::format_duration(duration)))
        };
        self.read(key, "duration", field, show, |value| to_duration(value, &range).map(Some));
    }

    /// One of a few words.
    pub(crate) fn choice<T>(&mut self, key: Key, choices: &[(&'static str, T)], field: &mut T)
    where
        T: Copy + PartialEq,
    {
        let show = |field: &T| {
            choices
                .iter()
                .find(|(_, choice)| choice == field)
                .map_or_else(none, |(word, _)| quoted(word))
        };
        self.read(key, "choice", field, show, |value| {
            key.reject_later(value)?;
            let word = value.as_str().ok_or_else(|| expected("a word", value))?;
            if let Some((_, choice)) = choices.iter().find(|(known, _)| *known == word) {
                return Ok(*choice);
            }
            let words: Vec<_> = choices.iter().map(|(word, _)| quoted(word)).collect();
            let hint = did_you_mean(word, choices.iter().map(|(word, _)| *word));
            Err(format!("{} is none of {}{hint}", quoted(word), words.join(", ")))
        });
    }

    /// `IP:port`, or `"off"`: nothing listens. Answers whether it does.
    pub(crate) fn listener(&mut self, key: Key, field: &mut SocketAddr) -> bool {
        let example = field.to_string();
        let mut listener = Some(*field);
        let show =
            |it: &Option<SocketAddr>| quoted(&it.map_or(OFF.to_owned(), |it| it.to_string()));
        self.read(key, "address", &mut listener, show, |value| {
            let is_off = value.as_str() == Some(OFF);
            if is_off { Ok(None) } else { to_tcp_address(value, &example).map(Some) }
        });
        *field = listener.unwrap_or(*field);
        listener.is_some()
    }

    /// `IP:port`, or nothing (also `"off"`).
    pub(crate) fn optional_address(&mut self, key: Key, field: &mut Option<SocketAddr>) {
        let show = |field: &Option<SocketAddr>| {
            field.map_or_else(none, |address| quoted(&address.to_string()))
        };
        let read = |value: &DeValue<'_>| {
            let is_off = value.as_str() == Some(OFF);
            if is_off { Ok(None) } else { to_tcp_address(value, "127.0.0.1:8081").map(Some) }
        };
        self.read(key, "address", field, show, read);
    }

    /// A text that must be there.
    pub(crate) fn required_text(&mut self, key: Key, field: &mut String) {
        let show = |field: &String| if field.is_empty() { none() } else { quoted(field) };
        self.read(key, "text", field, show, |value| match value.as_str() {
            Some("") => Err("the text is empty".to_owned()),
            Some(text) => Ok(text.to_owned()),
            None => Err(expected("a text", value)),
        });
        self.require(key.name);
    }

    /// A text that must be there and is parsed; it is shown as what it became shows itself.
    pub(crate) fn required_parsed<T>(&mut self, key: Key, field: &mut Option<T>)
    where
        T: FromStr<Err: Display> + Display,
    {
        let show =
            |field: &Option<T>| field.as_ref().map_or_else(none, |it| quoted(&it.to_string()));
        self.read(key, "text", field, show, |value| {
            let text = value.as_str().ok_or_else(|| expected("a text", value))?;
            text.parse().map(Some).map_err(|error: T::Err| error.to_string())
        });
        self.require(key.name);
    }

    /// A secret that must be there.
    pub(crate) fn required_secret(&mut self, key: Key, field: &mut Option<Secret>) {
        self.secret(key, field);
        self.require(key.name);
    }

    /// Reports that the file lacks this key.
    pub(crate) fn require(&mut self, name: &str) {
        if !self.is_set(name) && !self.context.describe {
            self.mistake(format!("{} is missing", self.full(name)));
        }
    }

    /// Reports that the file lacks both keys, and what the choice between them means.
    pub(crate) fn require_either(&mut self, one: &str, other: &str, meaning: &str) {
        if !self.is_set(one) && !self.is_set(other) && !self.context.describe {
            let path = self.path.clone();
            self.mistake(format!("{path}: write {one} or {other}: {meaning}"));
        }
    }

    /// Whether the file has this key.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(name))
    }

    pub(crate) fn texts(&mut self, key: Key, field: &mut Vec<String>) {
        self.parsed_texts(key, field);
    }

    /// Texts that are parsed into something that is written the same way.
    pub(crate) fn parsed_texts<T>(&mut self, key: Key, field: &mut Vec<T>)
    where
        T: FromStr<Err: Display> + Display,
    {
        self.read(key, "list of texts", field, |texts| show_texts(texts), to_texts);
    }

    /// The same; the list is not empty, if it is there.
    pub(crate) fn some_texts<T>(&mut self, key: Key, field: &mut Vec<T>)
    where
        T: FromStr<Err: Display> + Display,
    {
        let show = |field: &Vec<T>| if field.is_empty() { none() } else { show_texts(field) };
        self.read(key, "list of texts", field, show, |value| match to_texts(value)? {
            texts if texts.is_empty() => Err("the list is empty".to_owned()),
            texts => Ok(texts),
        });
    }

    pub(crate) fn text(&mut self, key: Key, field: &mut String) {
        self.read(
            key,
            "text",
            field,
            |field| quoted(field),
            |value| value.as_str().map(str::to_owned).ok_or_else(|| expected("a text", value)),
        );
    }

    /// Texts and secrets by name; none of them is shown.
    pub(crate) fn secrets(&mut self, key: Key, field: &mut Vec<(String, Secret)>) {
        let context = self.context;
        let show = |field: &Vec<(String, Secret)>| {
            let entries: Vec<_> = field.iter().map(|(name, _)| format!("{name} = (set)")).collect();
            if entries.is_empty() {
                "{}".to_owned()
            } else {
                format!("{{ {} }}", entries.join(", "))
            }
        };
        self.read(key, "table of texts or secrets", field, show, |value| {
            let table = value.as_table().ok_or_else(|| expected("a table", value))?;
            let entry = |(name, value): (&Spanned<_>, Found<'_>)| {
                let name: &Cow<'_, str> = name.get_ref();
                let secret = match value.get_ref().as_str() {
                    Some(text) => Ok(Secret::new(text.to_owned())),
                    None => secrets::read(value.get_ref(), context.folder, context.environment),
                };
                secret
                    .map(|secret| (name.to_string(), secret))
                    .map_err(|why| format!("{name}: {why}"))
            };
            table.iter().map(entry).collect()
        });
    }

    /// A path; a relative one starts at the folder of the file.
    pub(crate) fn path(&mut self, key: Key, field: &mut PathBuf) {
        let folder = self.context.folder;
        self.read(
            key,
            "path",
            field,
            |field| quoted(&field.display().to_string()),
            |value| {
                let path = to_path(value)?;
                Ok(folder.join(path))
            },
        );
    }

    pub(crate) fn optional_path(&mut self, key: Key, field: &mut Option<PathBuf>) {
        let folder = self.context.folder;
        let show = |field: &Option<PathBuf>| {
            field.as_ref().map_or_else(none, |path| quoted(&path.display().to_string()))
        };
        self.read(key, "path", field, show, |value| Ok(Some(folder.join(to_path(value)?))));
    }

    pub(crate) fn optional_text(&mut self, key: Key, field: &mut Option<String>) {
        let show = |field: &Option<String>| field.as_ref().map_or_else(none, |text| quoted(text));
        self.read(key, "text", field, show, |value| match value.as_str() {
            Some("") => Err("the text is empty".to_owned()),
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(expected("a text", value)),
        });
    }

    /// `{ env = "NAME" }` or `{ file = "PATH" }`.
    pub(crate) fn secret(&mut self, key: Key, field: &mut Option<Secret>) {
        let context = self.context;
        let show =
            |field: &Option<Secret>| field.as_ref().map_or_else(none, |_| "(set)".to_owned());
        self.read(key, "secret", field, show, |value| {
            secrets::read(value, context.folder, context.environment).map(Some)
        });
    }

    /// A text, or a secret: what may hold one, and does not if it stands in the file.
    pub(crate) fn text_or_secret(&mut self, key: Key, field: &mut Option<TextOrSecret>) {
        let context = self.context;
        let show = |field: &Option<TextOrSecret>| match field {
            None => none(),
            Some(TextOrSecret::Text(text)) => quoted(text),
            Some(TextOrSecret::Secret(_)) => "(set)".to_owned(),
        };
        self.read(key, "text or secret", field, show, |value| match value.as_str() {
            Some(text) => Ok(Some(TextOrSecret::Text(text.to_owned()))),
            None => secrets::read(value, context.folder, context.environment)
                .map(|secret| Some(TextOrSecret::Secret(secret))),
        });
    }

    /// A text that is parsed into something that is written the same way.
    pub(crate) fn parsed<T>(&mut self, key: Key, field: &mut T)
    where
        T: FromStr<Err: Display> + Display,
    {
        let show = |field: &T| quoted(&field.to_string());
        self.read(key, "text", field, show, |value| {
            let text = value.as_str().ok_or_else(|| expected("a text", value))?;
            text.parse().map_err(|error: T::Err| error.to_string())
        });
    }

    /// A table of its own.
    pub(crate) fn section(&mut self, name: &'static str, read: impl FnOnce(&mut Keys<'_>)) {
        let value = self.find(name);
        let table = value.and_then(|value| value.get_ref().as_table());
        let path = self.full(name);
        if let Some(value) = value {
            self.report.places.push((path.clone(), value.span()));
            if table.is_none() {
                self.report.mistake(&value.span(), format!("expected a table [{path}]"));
            }
        }
        self.enter(path, table, read);
    }

    /// A table whose keys are names: `[jobs.queues.NAME]`.
    pub(crate) fn named(&mut self, name: &'static str, mut read: impl FnMut(&str, &mut Keys<'_>)) {
        let value = self.find(name);
        let path = self.full(name);
        if self.context.describe {
            self.enter(format!("{path}.NAME"), None, |keys| read("NAME", keys));
        }
        let Some(value) = value else { return };
        let Some(entries) = value.get_ref().as_table() else {
            return self.report.mistake(&value.span(), format!("expected tables [{path}.NAME]"));
        };
        for (entry, value) in entries {
            let path = format!("{path}.{}", entry.get_ref());
            self.report.places.push((path.clone(), entry.span()));
            match value.get_ref().as_table() {
                Some(table) => self.enter(path, Some(table), |keys| read(entry.get_ref(), keys)),
                None => self.report.mistake(&value.span(), format!("expected a table [{path}]")),
            }
        }
    }

    /// Tables one after the other: `[[realtime.apps]]`. They are called `realtime.apps[0]` and so on.
    /// A single one needs no list: `shed = { path = "/inbox", .. }`.
    pub(crate) fn each(&mut self, name: &'static str, mut read: impl FnMut(&mut Keys<'_>)) {
        let value = self.find(name);
        let path = self.full(name);
        if self.context.describe {
            self.enter(format!("{path}[]"), None, &mut read);
        }
        let Some(value) = value else { return };
        if let Some(table) = value.get_ref().as_table() {
            let path = format!("{path}[0]");
            self.report.places.push((path.clone(), value.span()));
            return self.enter(path, Some(table), &mut read);
        }
        let Some(entries) = value.get_ref().as_array() else {
            return self.report.mistake(&value.span(), format!("expected tables [[{path}]]"));
        };
        for (index, entry) in entries.iter().enumerate() {
            let path = format!("{path}[{index}]");
            self.report.places.push((path.clone(), entry.span()));
            match entry.get_ref().as_table() {
                Some(table) => self.enter(path, Some(table), &mut read),
                None => self.report.mistake(&entry.span(), format!("{path}: expected a table")),
            }
        }
    }

    /// A path beside the file.
    pub(crate) fn in_folder(&self, path: &str) -> PathBuf {
        self.context.folder.join(path)
    }

    /// A key of a later version: rejected by name, never ignored.
    pub(crate) fn later(&mut self, names: &[&'static str]) {
        for name in names {
            let Some(table) = self.table else { return };
            if let Some((key, _)) = table.iter().find(|(key, _)| key.get_ref() == name) {
                let path = self.full(name);
                let message = format!("{path} is not in this version of Weir yet");
                self.report.mistake(&key.span(), message);
            }
            self.known.push(name);
        }
    }

    /// A mistake about one key of this table.
    pub(crate) fn mistake_at(&mut self, name: &str, message: &str) {
        let path = self.full(name);
        self.named_mistake_at(name, format!("{path}: {message}"));
    }

    /// The same, with a message that names the setting itself.
    pub(crate) fn named_mistake_at(&mut self, name: &str, message: String) {
        let path = self.full(name);
        self.report.mistake_at(&path, message);
    }

    /// A mistake about this table as a whole.
    pub(crate) fn mistake(&mut self, message: String) {
        let path = self.path.clone();
        self.report.mistake_at(&path, message);
    }

    fn enter(
        &mut self,
        path: String,
        table: Option<&'a DeTable<'a>>,
        read: impl FnOnce(&mut Keys<'_>),
    ) {
        let report = &mut *self.report;
        let mut keys = Keys { table, path, known: Vec::new(), report, context: self.context };
        read(&mut keys);
        keys.reject_unknown();
    }

    /// Every key that nobody asked for is a mistake.
    pub(crate) fn reject_unknown(&mut self) {
        for (key, _) in self.table.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            if !self.known.contains(&name) {
                let path = self.full(name);
                let hint = did_you_mean(name, self.known.iter().copied());
                self.report.mistake(&key.span(), format!("{path} is not a setting{hint}"));
            }
        }
    }

    fn read<T>(
        &mut self,
        key: Key,
        kind: &'static str,
        field: &mut T,
        show: impl Fn(&T) -> String,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) {
        let default = show(field);
        let path = self.full(key.name);
        let value = self.find(key.name);
        if let Some(value) = value {
            self.report.places.push((path.clone(), value.span()));
            match read(value.get_ref()) {
                Ok(read) => *field = read,
                Err(message) => self.report.unreadable(path.clone(), &value.span(), &message),
            }
        }
        let (doc, live, is_set) = (key.doc, key.live, value.is_some());
        self.report.values.push(Value {
            path,
            shown: show(field),
            default,
            kind,
            doc,
            live,
            is_set,
        });
    }

    fn find(&mut self, name: &'static str) -> Option<Found<'a>> {
        self.known.push(name);
        self.table?.get(name)
    }

    fn full(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

fn show_texts<T: Display>(texts: &[T]) -> String {
    let entries: Vec<_> = texts.iter().map(|text| quoted(&text.to_string())).collect();
    format!("[{}]", entries.join(", "))
}

fn to_texts<T: FromStr<Err: Display>>(value: &DeValue<'_>) -> Result<Vec<T>, String> {
    let entries = value.as_array().ok_or_else(|| expected("a list of texts", value))?;
    let parse = |entry: Found<'_>| {
        let text = entry.get_ref().as_str().ok_or("expected a list of texts")?;
        text.parse().map_err(|error: T::Err| error.to_string())
    };
    entries.iter().map(parse).collect()
}
