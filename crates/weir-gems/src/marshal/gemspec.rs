//! Writes `quick/Marshal.4.8/NAME-VERSION.gemspec.rz`: one specification, as
//! `Gem::Specification#_dump` writes it, deflated.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::Writer;
use crate::package::{Dependency, DependencyKind, Specification};
use crate::platform::{Parts, Platform};
use crate::requirement::Requirement;

/// Returns the deflated specification for a client that installs the gem.
///
/// # Panics
/// Never panics: writing to memory can't fail.
#[must_use]
pub fn gemspec_rz(specification: &Specification) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.user_defined("Gem::Specification", &fields(specification));
    let mut deflated = ZlibEncoder::new(Vec::new(), Compression::default());
    let written = deflated.write_all(&writer.finish());
    written.and_then(|()| deflated.finish()).expect("memory takes everything")
}

/// Returns the fields in the order of `Gem::Specification#_dump`.
fn fields(specification: &Specification) -> Vec<u8> {
    let about = &specification.about;
    let mut writer = Writer::new();
    writer.array(19);
    writer.string(&about.rubygems_version);
    writer.integer(about.specification_version);
    writer.string(specification.name.as_str());
    writer.version(specification.version.as_str());
    writer.date(about.date.as_deref());
    writer.string(&about.summary);
    writer.requirement(&specification.ruby);
    writer.requirement(&specification.rubygems);
    writer.string(specification.platform.as_str());
    writer.array(specification.dependencies.len());
    for dependency in &specification.dependencies {
        writer.dependency(dependency);
    }
    // rubyforge_project
    writer.string("");
    match &about.email[..] {
        all if about.email_is_list => writer.strings(all),
        [email] => writer.string(email),
        _ => writer.nil(),
    }
    writer.strings(&about.authors);
    writer.text_or_nil(about.description.as_deref());
    writer.text_or_nil(about.homepage.as_deref());
    // has_rdoc
    writer.boolean(true);
    writer.platform(&specification.platform);
    writer.strings(&about.licenses);
    writer.hash(about.metadata.len());
    for (key, value) in &about.metadata {
        writer.string(key);
        writer.string(value);
    }
    writer.finish()
}

impl Writer {
    fn strings(&mut self, texts: &[String]) {
        self.array(texts.len());
        for text in texts {
            self.string(text);
        }
    }

    fn text_or_nil(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.string(text),
            None => self.nil(),
        }
    }

    /// Writes a `Gem::Requirement`.
    fn requirement(&mut self, requirement: &Requirement) {
        self.user_marshal("Gem::Requirement");
        self.array(1);
        self.array(requirement.conditions().len());
        for condition in requirement.conditions() {
            self.array(2);
            self.string(condition.operator.sign());
            self.version(condition.version.as_str());
        }
    }

    /// Writes a `Gem::Dependency`.
    fn dependency(&mut self, dependency: &Dependency) {
        self.object("Gem::Dependency", 5);
        self.symbol("@name");
        self.string(dependency.name.as_str());
        self.symbol("@requirement");
        self.requirement(&dependency.requirement);
        self.symbol("@type");
        self.symbol(match dependency.kind {
            DependencyKind::Runtime => "runtime",
            DependencyKind::Development => "development",
        });
        self.symbol("@prerelease");
        self.boolean(false);
        self.symbol("@version_requirements");
        self.requirement(&dependency.requirement);
    }

    /// Writes a `Gem::Platform`, or "ruby".
    fn platform(&mut self, platform: &Platform) {
        let Some(Parts { cpu, os, version }) = platform.parts() else {
            return self.string(platform.as_str());
        };
        self.object("Gem::Platform", 3);
        for (name, part) in [("@cpu", cpu), ("@os", Some(os)), ("@version", version)] {
            self.symbol(name);
            self.text_or_nil(part.as_deref());
        }
    }

    /// Writes a `Time` at midnight UTC, in the format of `time_mdump` in Ruby's `time.c`. None
    /// becomes 1980-01-02, the default of RubyGems.
    fn date(&mut self, date: Option<&str>) {
        let date: Option<jiff::civil::Date> = date.and_then(|date| date.parse().ok());
        let date = date.unwrap_or(jiff::civil::date(1980, 1, 2));
        // The format has space for the years from 1900 to about 2043; no gem was built outside of
        // them.
        let year = u32::try_from(date.year() - 1_900).unwrap_or(80) & 0xffff;
        let (month, day) = (date.month().unsigned_abs() - 1, date.day().unsigned_abs());
        let first: u32 =
            1 << 31 | 1 << 30 | year << 14 | u32::from(month) << 10 | u32::from(day) << 5;
        let mut dumped = first.to_le_bytes().to_vec();
        // Minutes, seconds and microseconds.
        dumped.extend([0; 4]);
        self.user_defined("Time", &dumped);
    }
}
