//! Responses of the dependency API: an array of `{name, number, platform, dependencies}`.

use serde::Serialize;

use super::{Fragment, FragmentRelease};
use crate::marshal::Writer;

/// A response that is written release by release. The bytes written so far can be taken at any
/// time.
#[derive(Debug)]
pub struct Document(Kind);

#[derive(Debug)]
enum Kind {
    Marshal {
        writer: Writer,
        /// Encoded lists of dependencies of the current gem. Each is encoded once and then
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
    /// Begins a document in Ruby's Marshal format. Exactly `releases` releases must follow.
    #[must_use]
    pub fn marshal(releases: usize) -> Self {
        let mut writer = Writer::new();
        writer.array(releases);
        Self(Kind::Marshal { writer, lists: Vec::new() })
    }

    /// Begins a document in JSON.
    #[must_use]
    pub fn json() -> Self {
        Self(Kind::Json { out: b"[".to_vec(), is_first: true })
    }

    /// Starts a gem: the releases that follow belong to it.
    pub fn gem(&mut self, fragment: &Fragment<'_>) {
        if let Kind::Marshal { lists, .. } = &mut self.0 {
            lists.clear();
            lists.resize(fragment.lists().len(), None);
        }
    }

    /// Writes the next release of the gem.
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
                // This can't fail: texts and lists of texts always have a JSON form, and the sink
                // is memory.
                let written = serde_json::to_writer(out, &row);
                debug_assert!(written.is_ok());
            }
        }
    }

    /// Returns the number of bytes that are written and not taken yet.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Kind::Marshal { writer, .. } => writer.len(),
            Kind::Json { out, .. } => out.len(),
        }
    }

    /// Takes the bytes written so far.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        match &mut self.0 {
            Kind::Marshal { writer, .. } => writer.take(),
            Kind::Json { out, .. } => std::mem::take(out),
        }
    }

    /// Ends the document and returns the bytes that were not taken yet.
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
