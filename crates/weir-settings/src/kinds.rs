//! The kinds of settings: how each is written, read and shown. `#[setting(KIND)]` names a method.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use toml::de::DeValue;
use weir_base::secret::Secret;
use weir_base::token_bucket::Rate;

use crate::Choice;
use crate::convert::{
    OFF, expected, none, quoted, suggestion, to_duration, to_fraction, to_json, to_number, to_path,
    to_size, to_tcp_address, to_thousandths,
};
use crate::report::Allowed;
use crate::setting::Setting;
use crate::table_reader::{Found, TableReader};
use crate::units::{format_duration, format_size};

/// A text that is in the file, or a secret that is kept apart from it.
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

/// Numbers, sizes, durations.
impl TableReader<'_> {
    pub fn flag(&mut self, setting: Setting, field: &mut bool) {
        let show = ToString::to_string;
        self.read(setting, "true or false", Allowed::Any, field, show, |value| {
            value.as_bool().ok_or_else(|| expected("true or false", value))
        });
    }

    pub fn number<T>(&mut self, setting: Setting, range: RangeInclusive<u64>, field: &mut T)
    where
        T: TryFrom<u64> + Display,
    {
        let read = |value: &DeValue<'_>| to_number(value, &range);
        self.read(setting, "number", numbers(&range), field, ToString::to_string, read);
    }

    pub fn optional_number<T>(
        &mut self,
        setting: Setting,
        range: RangeInclusive<u64>,
        field: &mut Option<T>,
    ) where
        T: TryFrom<u64> + Display,
    {
        let show =
            |field: &Option<T>| field.as_ref().map_or_else(none, |number| number.to_string());
        let read = |value: &DeValue<'_>| to_number(value, &range).map(Some);
        self.read(setting, "number", numbers(&range), field, show, read);
    }

    /// Reads a number; by default unlimited (`usize::MAX`).
    pub fn number_or_all(
        &mut self,
        setting: Setting,
        range: RangeInclusive<u64>,
        field: &mut usize,
    ) {
        let mut number = Some(*field).filter(|number| *number != usize::MAX);
        self.optional_number(setting, range, &mut number);
        *field = number.unwrap_or(usize::MAX);
    }

    pub fn size<T>(&mut self, setting: Setting, range: RangeInclusive<u64>, field: &mut T)
    where
        T: TryFrom<u64> + TryInto<u64> + Copy,
    {
        let show = |field: &T| quoted(&format_size((*field).try_into().unwrap_or(u64::MAX)));
        let read = |value: &DeValue<'_>| to_size(value, &range);
        self.read(setting, "size", sizes(&range), field, show, read);
    }

    pub fn optional_size(
        &mut self,
        setting: Setting,
        range: RangeInclusive<u64>,
        field: &mut Option<u64>,
    ) {
        let show = |field: &Option<u64>| field.map_or_else(none, |size| quoted(&format_size(size)));
        let read = |value: &DeValue<'_>| to_size(value, &range).map(Some);
        self.read(setting, "size", sizes(&range), field, show, read);
    }

    pub fn duration(
        &mut self,
        setting: Setting,
        range: RangeInclusive<Duration>,
        field: &mut Duration,
    ) {
        let show = |field: &Duration| quoted(&format_duration(*field));
        let read = |value: &DeValue<'_>| to_duration(value, &range);
        self.read(setting, "duration", durations(&range), field, show, read);
    }

    pub fn optional_duration(
        &mut self,
        setting: Setting,
        range: RangeInclusive<Duration>,
        field: &mut Option<Duration>,
    ) {
        let show = |field: &Option<Duration>| {
            field.map_or_else(none, |duration| quoted(&format_duration(duration)))
        };
        let read = |value: &DeValue<'_>| to_duration(value, &range).map(Some);
        self.read(setting, "duration", durations(&range), field, show, read);
    }

    /// Reads the two keys of a rate: tokens per second, and the burst.
    pub fn rate(&mut self, per_second: Setting, burst: Setting, field: &mut Rate) {
        const RANGE: RangeInclusive<u64> = 1..=1_000_000;
        let (mut rate, mut at_once) = (field.tokens_per_second(), field.burst());
        self.number(per_second, RANGE, &mut rate);
        self.number(burst, RANGE, &mut at_once);
        *field = Rate::per_second(rate, at_once);
    }

    /// Reads a share in thousandths, written in whole percent: `"10%"`.
    pub fn percent(&mut self, setting: Setting, range: RangeInclusive<u64>, thousandths: &mut u32) {
        let show = |field: &u32| quoted(&format!("{}%", field / 10));
        let allowed = Allowed::Range(format!("{}%", range.start()), format!("{}%", range.end()));
        let read = |value: &DeValue<'_>| to_thousandths(value, &range);
        self.read(setting, "percentage", allowed, thousandths, show, read);
    }

    /// Reads a share from 0 to 1: `0.01`.
    pub fn fraction(&mut self, setting: Setting, field: &mut f64) {
        let allowed = Allowed::Range("0".to_owned(), "1".to_owned());
        self.read(setting, "fraction", allowed, field, ToString::to_string, to_fraction);
    }
}

/// Words and texts.
impl TableReader<'_> {
    pub fn choice<T: Choice>(&mut self, setting: Setting, field: &mut T) {
        self.choice_of(setting, T::CHOICES, field);
    }

    /// Reads one of the given words, for a type without [`Choice`].
    pub fn choice_of<T: Copy + PartialEq>(
        &mut self,
        setting: Setting,
        choices: &[(&'static str, T)],
        field: &mut T,
    ) {
        self.read_choice(setting, "choice", choices, field, |value| value.as_str());
    }

    /// One of these words, or a table with one of them as its only key, which
    /// [`TableReader::table_of`] reads: `{ redis = [..] }`.
    pub fn choice_or_table<T: Choice>(&mut self, setting: Setting, field: &mut T) {
        self.read_choice(setting, "choice or table", T::CHOICES, field, |value| {
            match value.as_table() {
                Some(table) if table.len() == 1 => {
                    table.keys().next().map(|key| key.get_ref().as_ref())
                }
                _ => value.as_str(),
            }
        });
    }

    fn read_choice<T: Copy + PartialEq>(
        &mut self,
        setting: Setting,
        kind: &'static str,
        choices: &[(&'static str, T)],
        field: &mut T,
        word: impl for<'v> Fn(&'v DeValue<'_>) -> Option<&'v str>,
    ) {
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        let show = |field: &T| {
            let choice = choices.iter().find(|(_, choice)| choice == field);
            choice.map_or_else(none, |(word, _)| quoted(word))
        };
        let read = |value: &DeValue<'_>| {
            to_choice(word(value).ok_or_else(|| expected("a word", value))?, choices)
        };
        self.read(setting, kind, Allowed::Words(words), field, show, read);
    }

    pub fn text(&mut self, setting: Setting, field: &mut String) {
        let show = |field: &String| quoted(field);
        let read = |value: &DeValue<'_>| {
            value.as_str().map(str::to_owned).ok_or_else(|| expected("a text", value))
        };
        self.read(setting, "text", Allowed::Any, field, show, read);
    }

    /// Reads a required text.
    pub fn required_text<T>(&mut self, setting: Setting, field: &mut T)
    where
        T: From<String> + AsRef<str>,
    {
        let show = |field: &T| match field.as_ref() {
            "" => none(),
            text => quoted(text),
        };
        let read = |value: &DeValue<'_>| to_some_text(value).map(T::from);
        self.read(setting, "text", Allowed::Any, field, show, read);
        self.require(setting.name);
    }

    pub fn optional_text(&mut self, setting: Setting, field: &mut Option<String>) {
        let show = |field: &Option<String>| field.as_ref().map_or_else(none, |text| quoted(text));
        let read = |value: &DeValue<'_>| to_some_text(value).map(Some);
        self.read(setting, "text", Allowed::Any, field, show, read);
    }

    /// Reads a text that is parsed, and whose value is displayed in the same form.
    pub fn parsed<T>(&mut self, setting: Setting, field: &mut T)
    where
        T: FromStr<Err: Display> + Display,
    {
        let show = |field: &T| quoted(&field.to_string());
        self.read(setting, "text", Allowed::Any, field, show, to_parsed);
    }

    /// Reads a text that is parsed, and that may be absent.
    pub fn optional_parsed<T>(&mut self, setting: Setting, field: &mut Option<T>)
    where
        T: FromStr<Err: Display> + Display,
    {
        let show =
            |field: &Option<T>| field.as_ref().map_or_else(none, |it| quoted(&it.to_string()));
        let read = |value: &DeValue<'_>| to_parsed(value).map(Some);
        self.read(setting, "text", Allowed::Any, field, show, read);
    }

    /// Reads a required text that is parsed.
    pub fn required_parsed<T>(&mut self, setting: Setting, field: &mut Option<T>)
    where
        T: FromStr<Err: Display> + Display,
    {
        self.optional_parsed(setting, field);
        self.require(setting.name);
    }

    /// Reads a list or a table, and keeps it as JSON of the same kind as the default.
    pub fn json(&mut self, setting: Setting, field: &mut String) {
        let is_list = field.starts_with('[');
        let kind = if is_list { "list" } else { "table" };
        let read = |value: &DeValue<'_>| {
            let is_kind = if is_list { value.is_array() } else { value.is_table() };
            if is_kind { to_json(value) } else { Err(expected(&format!("a {kind}"), value)) }
        };
        self.read(setting, kind, Allowed::Any, field, Clone::clone, read);
    }

    pub fn texts(&mut self, setting: Setting, field: &mut Vec<String>) {
        self.parsed_texts(setting, field);
    }

    /// Reads a list of texts that are parsed, and whose values are displayed in the same form.
    pub fn parsed_texts<T>(&mut self, setting: Setting, field: &mut Vec<T>)
    where
        T: FromStr<Err: Display> + Display,
    {
        let show = |texts: &Vec<T>| show_texts(texts);
        self.read(setting, "list of texts", Allowed::Any, field, show, to_texts);
    }

    /// Reads such a list, which must not be empty if it is set.
    pub fn some_texts<T>(&mut self, setting: Setting, field: &mut Vec<T>)
    where
        T: FromStr<Err: Display> + Display,
    {
        let show = |field: &Vec<T>| if field.is_empty() { none() } else { show_texts(field) };
        let read = |value: &DeValue<'_>| match to_texts(value)? {
            texts if texts.is_empty() => Err("the list is empty".to_owned()),
            texts => Ok(texts),
        };
        self.read(setting, "list of texts", Allowed::Any, field, show, read);
    }
}

/// Addresses and paths.
impl TableReader<'_> {
    /// Reads `IP:port`, or `"off"`: nothing listens.
    pub fn listener(&mut self, setting: Setting, field: &mut Option<SocketAddr>) {
        let example = field.map_or_else(String::new, |address| address.to_string());
        let show =
            |it: &Option<SocketAddr>| quoted(&it.map_or(OFF.to_owned(), |it| it.to_string()));
        let read = |value: &DeValue<'_>| to_listener(value, &example);
        self.read(setting, "address", Allowed::Any, field, show, read);
    }

    /// Reads an optional `IP:port` (`"off"` means none).
    pub fn optional_address(&mut self, setting: Setting, field: &mut Option<SocketAddr>) {
        let show = |field: &Option<SocketAddr>| {
            field.map_or_else(none, |address| quoted(&address.to_string()))
        };
        let read = |value: &DeValue<'_>| to_listener(value, "127.0.0.1:8081");
        self.read(setting, "address", Allowed::Any, field, show, read);
    }

    /// Reads a path; a relative one starts at the folder of the file.
    pub fn path(&mut self, setting: Setting, field: &mut PathBuf) {
        let folder = self.context.folder;
        let show = |field: &PathBuf| quoted(&field.display().to_string());
        let read = |value: &DeValue<'_>| Ok(folder.join(to_path(value)?));
        self.read(setting, "path", Allowed::Any, field, show, read);
    }

    pub fn optional_path(&mut self, setting: Setting, field: &mut Option<PathBuf>) {
        let folder = self.context.folder;
        let show = |field: &Option<PathBuf>| {
            field.as_ref().map_or_else(none, |path| quoted(&path.display().to_string()))
        };
        let read = |value: &DeValue<'_>| Ok(Some(folder.join(to_path(value)?)));
        self.read(setting, "path", Allowed::Any, field, show, read);
    }
}

/// Secrets; they are never shown.
impl TableReader<'_> {
    /// Reads a secret: `{ env = "NAME" }` or `{ file = "PATH" }`.
    pub fn secret(&mut self, setting: Setting, field: &mut Option<Secret>) {
        let context = self.context;
        let show =
            |field: &Option<Secret>| field.as_ref().map_or_else(none, |_| "(set)".to_owned());
        let read = |value: &DeValue<'_>| context.secret(value).map(Some);
        self.read(setting, "secret", Allowed::Any, field, show, read);
    }

    /// Reads a required secret.
    pub fn required_secret(&mut self, setting: Setting, field: &mut Secret) {
        let mut secret = Some(field.clone()).filter(|secret| !secret.expose().is_empty());
        self.secret(setting, &mut secret);
        *field = secret.unwrap_or_default();
        self.require(setting.name);
    }

    /// Reads a text, or a secret if the text would contain one.
    pub fn text_or_secret(&mut self, setting: Setting, field: &mut Option<TextOrSecret>) {
        let context = self.context;
        let show = |field: &Option<TextOrSecret>| match field {
            None => none(),
            Some(TextOrSecret::Text(text)) => quoted(text),
            Some(TextOrSecret::Secret(_)) => "(set)".to_owned(),
        };
        let read = |value: &DeValue<'_>| match value.as_str() {
            Some(text) => Ok(Some(TextOrSecret::Text(text.to_owned()))),
            None => context.secret(value).map(|secret| Some(TextOrSecret::Secret(secret))),
        };
        self.read(setting, "text or secret", Allowed::Any, field, show, read);
    }

    /// Reads a table of texts and secrets by name.
    pub fn secrets(&mut self, setting: Setting, field: &mut Vec<(String, Secret)>) {
        let context = self.context;
        let read = |value: &DeValue<'_>| {
            let table = value.as_table().ok_or_else(|| expected("a table", value))?;
            let entries = table.iter().map(|(name, value)| {
                let secret = match value.get_ref().as_str() {
                    Some(text) => Ok(Secret::new(text.to_owned())),
                    None => context.secret(value.get_ref()),
                };
                let name = name.get_ref();
                secret.map(|it| (name.to_string(), it)).map_err(|why| format!("{name}: {why}"))
            });
            entries.collect()
        };
        self.read(
            setting,
            "table of texts or secrets",
            Allowed::Any,
            field,
            |it| show_names(it),
            read,
        );
    }
}

fn numbers(range: &RangeInclusive<u64>) -> Allowed {
    Allowed::Range(range.start().to_string(), range.end().to_string())
}

fn sizes(range: &RangeInclusive<u64>) -> Allowed {
    Allowed::Range(format_size(*range.start()), format_size(*range.end()))
}

fn durations(range: &RangeInclusive<Duration>) -> Allowed {
    Allowed::Range(format_duration(*range.start()), format_duration(*range.end()))
}

fn to_choice<T: Copy>(word: &str, choices: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, choice)) = choices.iter().find(|(known, _)| *known == word) {
        return Ok(*choice);
    }
    let words: Vec<_> = choices.iter().map(|(word, _)| quoted(word)).collect();
    let hint = suggestion(word, choices.iter().map(|(word, _)| *word));
    Err(format!("{} is none of {}{hint}", quoted(word), words.join(", ")))
}

fn to_some_text(value: &DeValue<'_>) -> Result<String, String> {
    match value.as_str() {
        Some("") => Err("the text is empty".to_owned()),
        Some(text) => Ok(text.to_owned()),
        None => Err(expected("a text", value)),
    }
}

fn to_parsed<T: FromStr<Err: Display>>(value: &DeValue<'_>) -> Result<T, String> {
    let text = value.as_str().ok_or_else(|| expected("a text", value))?;
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn to_listener(value: &DeValue<'_>, example: &str) -> Result<Option<SocketAddr>, String> {
    let is_off = value.as_str() == Some(OFF);
    if is_off { Ok(None) } else { to_tcp_address(value, example).map(Some) }
}

fn show_names(secrets: &[(String, Secret)]) -> String {
    let entries: Vec<_> = secrets.iter().map(|(name, _)| format!("{name} = (set)")).collect();
    if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
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
