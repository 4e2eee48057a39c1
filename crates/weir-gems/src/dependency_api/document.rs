//! Answers of the dependency API: an array of `{name, number, platform, dependencies}`.

use serde::Serialize;

use super::{Fragment, FragmentRelease};
use crate::marshal::Writer;

/// An answer that is written release by release; what is written can be taken on the way.
#[derive(Debug)]
pub struct Document(Kind);

#[derive(Debug)]
enum Kind {
    Marshal {
        writer: Writer,
        /// Lists of dependencies of the gem that is written: each is put together once and then
        /// repeated.
        lists: Vec<Option<Vec<u8>>>,
    },
    Json {
        out: Vec<u8>,
        is_first: bool,
    },
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    number: &'a str,
    platform: &'a str,
    dependencies: &'a [(&'a str, &'a str)],
}

impl Document {
    /// In Ruby's Marshal; so many releases must follow.
    #[must_use]
    pub fn marshal(releases: usize) -> Self {
        let mut writer = Writer::new();
        writer.array(releases);
        Self(Kind::Marshal { writer, lists: Vec::new() })
    }

    /// In JSON.
    #[must_use]
    pub fn json() -> Self {
        Self(Kind::Json { out: b"[".to_vec(), is_first: true })
    }

    /// From here on releases are those of this gem.
    pub fn gem(&mut self, fragment: &Fragment<'_>) {
        if let Kind::Marshal { lists, .. } = &mut self.0 {
            lists.clear();
            lists.resize(fragment.lists().len(), None);
        }
    }

    /// The next release of the gem.
    pub fn release(&mut self, name: &str, fragment: &Fragment<'_>, release: FragmentRelease<'_>) {
        let (number, platform) = (release.number, release.platform);
        let dependencies = fragment.dependencies(release);
        let row = Row { name, number, platform, dependencies };
        match &mut self.0 {
            Kind::Marshal { writer, lists } => {
                write_row(writer, &row, &mut lists[release.list()]);
            }
            Kind::Json { out, is_first } => {
                if !std::mem::take(is_first) {
                    out.push(b',');
                }
                // Texts and lists of texts always have a JSON form, and memory takes everything.
                let written = serde_json::to_writer(out, &row);
                debug_assert!(written.is_ok());
            }
        }
    }

    /// Bytes that are written and not taken.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Kind::Marshal { writer, .. } => writer.len(),
            Kind::Json { out, .. } => out.len(),
        }
    }

    /// What is written so far; the rest follows.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        match &mut self.0 {
            Kind::Marshal { writer, .. } => writer.take(),
            Kind::Json { out, .. } => std::mem::take(out),
        }
    }

    /// What was not taken, to its end.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        match self.0 {
            Kind::Marshal { writer, .. } => writer.finish(),
            Kind::Json { mut out, .. } => {
                out.push(b']');
                out
            }
        }
    }
}

fn write_row(writer: &mut Writer, row: &Row<'_>, list: &mut Option<Vec<u8>>) {
    writer.hash(4);
    writer.symbol("name");
    writer.string(row.name);
    writer.symbol("number");
    writer.string(row.number);
    writer.symbol("platform");
    writer.string(row.platform);
    writer.symbol("dependencies");
    let list =
        list.get_or_insert_with(|| writer.part(|writer| write_list(writer, row.dependencies)));
    writer.raw(list);
}

fn write_list(writer: &mut Writer, list: &[(&str, &str)]) {
    writer.array(list.len());
    for (name, requirement) in list {
        writer.array(2);
        writer.string(name);
        writer.string(requirement);
    }
}
