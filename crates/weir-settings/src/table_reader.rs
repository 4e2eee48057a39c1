//! Reads one table of `weir.toml`; the file and the environment are read here and nowhere else.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_base::secret::Secret;

use crate::convert::suggestion;
use crate::environment;
use crate::report::{Allowed, Report, SettingValue};
use crate::secrets::{self, Environment};
use crate::setting::Setting;

/// The table, in each table, of the settings that hardly anybody changes.
const ADVANCED: &str = "advanced";

/// The context of reading a setting.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Relative paths start here: the folder of the file.
    pub folder: &'a Path,
    pub environment: Environment<'a>,
    /// Stands for secrets that are not in the environment; None: that is an error.
    pub missing_secret: Option<&'a str>,
    /// Adds a sample entry to tables of names and lists of tables, for the reference.
    pub describe: bool,
}

/// The keys of one table.
pub struct TableReader<'a> {
    table: Option<&'a DeTable<'a>>,
    path: String,
    /// The section occurs once: it is not an entry of a list or of a table of names.
    is_single: bool,
    known: Vec<&'static str>,
    known_advanced: Vec<&'static str>,
    report: &'a mut Report,
    pub(crate) context: Context<'a>,
}

pub(crate) type Found<'a> = &'a Spanned<DeValue<'a>>;

impl Context<'_> {
    /// Reads a secret: `{ env = "NAME" }` or `{ file = "PATH" }`.
    pub(crate) fn secret(&self, value: &DeValue<'_>) -> Result<Secret, String> {
        let missing = || self.missing_secret.map(str::to_owned);
        secrets::read(value, self.folder, &|name| (self.environment)(name).or_else(missing))
    }
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Context").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TableReader<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TableReader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<'a> TableReader<'a> {
    /// Reads the keys of `table`. It is `None` if the file does not contain the table; defaults apply
    /// then.
    pub fn new(
        table: Option<&'a DeTable<'a>>,
        report: &'a mut Report,
        context: Context<'a>,
    ) -> Self {
        Self {
            table,
            path: String::new(),
            is_single: true,
            known: Vec::new(),
            known_advanced: Vec::new(),
            report,
            context,
        }
    }

    /// A table at `path` that isn't in the file: what is read stays as it is, and is reported.
    pub(crate) fn without_file(path: &str, report: &'a mut Report) -> Self {
        let context = Context {
            folder: Path::new(""),
            environment: &|_| None,
            missing_secret: None,
            describe: false,
        };
        Self { path: path.to_owned(), ..Self::new(None, report, context) }
    }

    /// A table of its own.
    pub fn section(&mut self, name: &'static str, read: impl FnOnce(&mut TableReader<'_>)) {
        let value = self.find(name);
        let table = value.and_then(|value| value.get_ref().as_table());
        let path = self.full(name);
        if let Some(value) = value {
            self.report.places.push((path.clone(), value.span()));
            if table.is_none() {
                self.report.error(&value.span(), format!("expected a table [{path}]"));
            }
        }
        let is_single = self.is_single;
        self.enter(path, is_single, table, read);
    }

    /// The table that `setting` may be instead of a word.
    pub fn table_of(&mut self, setting: Setting, read: impl FnOnce(&mut TableReader<'_>)) {
        let table = self.table.and_then(|table| table.get(setting.name)?.get_ref().as_table());
        let (path, is_single) = (self.full(setting.name), self.is_single);
        self.enter(path, is_single, table, read);
    }

    /// A table whose keys are names: `[jobs.queues.NAME]`.
    pub fn named(&mut self, name: &'static str, mut read: impl FnMut(&str, &mut TableReader<'_>)) {
        let value = self.find(name);
        let path = self.full(name);
        if self.context.describe {
            self.enter(format!("{path}.NAME"), false, None, |table| read("NAME", table));
        }
        let Some(value) = value else { return };
        let Some(entries) = value.get_ref().as_table() else {
            return self.report.error(&value.span(), format!("expected tables [{path}.NAME]"));
        };
        for (entry, value) in entries {
            let path = format!("{path}.{}", entry.get_ref());
            self.report.places.push((path.clone(), entry.span()));
            match value.get_ref().as_table() {
                Some(table) => {
                    self.enter(path, false, Some(table), |table| read(entry.get_ref(), table))
                }
                None => self.report.error(&value.span(), format!("expected a table [{path}]")),
            }
        }
    }

    /// A list of tables: `[[realtime.apps]]`, which are called `realtime.apps[0]` and so on.
    /// A single one needs no list: `shed = { path = "/inbox", .. }`.
    pub fn each(&mut self, name: &'static str, mut read: impl FnMut(&mut TableReader<'_>)) {
        let value = self.find(name);
        let path = self.full(name);
        if self.context.describe {
            self.enter(format!("{path}[]"), false, None, &mut read);
        }
        let Some(value) = value else { return };
        if let Some(table) = value.get_ref().as_table() {
            let path = format!("{path}[0]");
            self.report.places.push((path.clone(), value.span()));
            return self.enter(path, false, Some(table), &mut read);
        }
        let Some(entries) = value.get_ref().as_array() else {
            return self.report.error(&value.span(), format!("expected tables [[{path}]]"));
        };
        for (index, entry) in entries.iter().enumerate() {
            let path = format!("{path}[{index}]");
            self.report.places.push((path.clone(), entry.span()));
            match entry.get_ref().as_table() {
                Some(table) => self.enter(path, false, Some(table), &mut read),
                None => self.report.error(&entry.span(), format!("{path}: expected a table")),
            }
        }
    }

    /// The whole name of a key of this table.
    pub fn path_of(&self, name: &str) -> String {
        if self.known_advanced.contains(&name) { self.full_advanced(name) } else { self.full(name) }
    }

    /// A path beside the file.
    pub fn in_folder(&self, path: &str) -> PathBuf {
        self.context.folder.join(path)
    }

    /// Returns whether the file or the environment has this key.
    pub fn is_set(&self, name: &str) -> bool {
        let has = |table: Option<&DeTable<'_>>| table.is_some_and(|it| it.contains_key(name));
        has(self.table) || has(self.advanced()) || self.variable(&self.full(name)).is_some()
    }

    /// The environment variable for the setting at `path`, with its text; None: it is not set, or the
    /// setting is in a table of names or a list, for which there are no variables.
    fn variable(&self, path: &str) -> Option<(String, String)> {
        if !self.is_single {
            return None;
        }
        let name = environment::name(path);
        let text = (self.context.environment)(&name)?;
        Some((name, text))
    }

    /// Keys of this table, or of its table `advanced`, that no longer have an effect: a warning.
    pub fn removed(&mut self, names: &[&'static str]) {
        for name in names {
            self.known.push(name);
            self.known_advanced.push(name);
            let in_advanced = (self.advanced(), self.full_advanced(name));
            for (table, path) in [(self.table, self.full(name)), in_advanced] {
                let mut keys = table.into_iter().flatten();
                if let Some((key, _)) = keys.find(|(key, _)| key.get_ref() == name) {
                    self.report.removed(path, &key.span());
                }
            }
        }
    }

    /// Reports that the file lacks this key.
    pub fn require(&mut self, name: &str) {
        if !self.is_set(name) && !self.context.describe {
            self.error(format!("{} is missing", self.full(name)));
        }
    }

    /// Reports that the file lacks both keys, and what the choice between them means.
    pub fn require_either(&mut self, one: &str, other: &str, meaning: &str) {
        if !self.is_set(one) && !self.is_set(other) && !self.context.describe {
            let path = self.path.clone();
            self.error(format!("{path}: write {one} or {other}: {meaning}"));
        }
    }

    /// An error in one key of this table.
    pub fn error_at(&mut self, name: &str, message: &str) {
        let path = self.path_of(name);
        self.named_error_at(name, format!("{path}: {message}"));
    }

    /// The same, with a message that names the setting itself.
    pub fn named_error_at(&mut self, name: &str, message: String) {
        let path = self.path_of(name);
        self.report.error_at(&path, message);
    }

    /// An error in this table as a whole.
    pub fn error(&mut self, message: String) {
        let path = self.path.clone();
        self.report.error_at(&path, message);
    }

    fn enter(
        &mut self,
        path: String,
        is_single: bool,
        table: Option<&'a DeTable<'a>>,
        read: impl FnOnce(&mut TableReader<'_>),
    ) {
        let mut table = TableReader {
            path,
            is_single,
            ..TableReader::new(table, &mut *self.report, self.context)
        };
        read(&mut table);
        table.reject_unknown();
    }

    /// Every key that no field has is an error.
    pub fn reject_unknown(&mut self) {
        let advanced = self.advanced().filter(|_| !self.known_advanced.is_empty());
        for (key, _) in self.table.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            let is_advanced = name == ADVANCED && advanced.is_some();
            if !is_advanced && !self.known.contains(&name) {
                self.reject(name, &self.full(name), &key.span());
            }
        }
        for (key, _) in advanced.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            if !self.known_advanced.contains(&name) {
                self.reject(name, &self.full_advanced(name), &key.span());
            }
        }
    }

    fn reject(&mut self, name: &str, path: &str, span: &Range<usize>) {
        let known = self.known.iter().chain(&self.known_advanced).copied();
        let hint = suggestion(name, known);
        self.report.error(span, format!("{path} is not a setting{hint}"));
    }

    /// Reads `setting` into `field`, and reports what is in effect.
    pub(crate) fn read<T>(
        &mut self,
        setting: Setting,
        kind: &'static str,
        allowed: Allowed,
        field: &mut T,
        show: impl Fn(&T) -> String,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) {
        let default = show(field);
        let (path, value) = self.find_setting(setting);
        if let Some(value) = value {
            self.report.places.push((path.clone(), value.span()));
        }
        let variable = self.variable(&self.full(setting.name));
        if let Some((name, text)) = &variable {
            match read_variable(kind, name, text, read) {
                Ok(read) => *field = read,
                Err(message) => self.report.unreadable(path.clone(), &(0..0), &message),
            }
        } else if let Some(value) = value {
            match read(value.get_ref()) {
                Ok(read) => *field = read,
                Err(message) => self.report.unreadable(path.clone(), &value.span(), &message),
            }
        }
        self.report.values.push(SettingValue {
            path,
            shown: show(field),
            default,
            kind,
            allowed,
            setting,
            is_set: value.is_some() || variable.is_some(),
            variable: variable.map(|(name, _)| name),
        });
    }

    fn find(&mut self, name: &'static str) -> Option<Found<'a>> {
        self.known.push(name);
        self.table?.get(name)
    }

    /// The whole name of the setting, and its value in the file.
    fn find_setting(&mut self, setting: Setting) -> (String, Option<Found<'a>>) {
        let (path, value) = if setting.is_advanced {
            self.known_advanced.push(setting.name);
            let value = self.advanced().and_then(|table| table.get(setting.name));
            (self.full_advanced(setting.name), value)
        } else {
            (self.full(setting.name), self.find(setting.name))
        };
        let former = setting.formerly.and_then(|name| self.find_former(setting, &path, name));
        if let (Some(_), Some(former)) = (value, former) {
            self.report
                .error(&former.span(), format!("{path} is in the file under its old name, too"));
        }
        (path, value.or(former))
    }

    /// The value of a setting under its old name.
    fn find_former(
        &mut self,
        setting: Setting,
        path: &str,
        name: &'static str,
    ) -> Option<Found<'a>> {
        self.known.push(name);
        let (key, value) = self.table?.iter().find(|(key, _)| key.get_ref() == name)?;
        let prefix = if setting.is_advanced { "advanced." } else { "" };
        let replacement = format!("{prefix}{}", setting.name);
        self.report.renamed(self.full(name), path.to_owned(), key.span(), replacement);
        Some(value)
    }

    fn advanced(&self) -> Option<&'a DeTable<'a>> {
        self.table?.get(ADVANCED)?.get_ref().as_table()
    }

    fn full(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn full_advanced(&self, name: &str) -> String {
        self.full(&format!("{ADVANCED}.{name}"))
    }
}

/// Reads a variable of the environment as if its text were in the file.
fn read_variable<T>(
    kind: &str,
    name: &str,
    text: &str,
    read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let toml = environment::to_toml(kind, name, text);
    let result = match DeValue::parse(&toml) {
        Ok(value) => read(value.get_ref()),
        Err(_) => Err(format!("{text:?} is no {kind}")),
    };
    result.map_err(|message| format!("{message} (environment variable {name})"))
}
