//! Splits a platform into parts, as `Gem::Platform.new` does. Clients compare the parts.

use std::fmt;

use super::Platform;

/// The parts of a platform, for example `x86_64`, `linux` and `gnu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    pub cpu: Option<String>,
    pub os: String,
    pub version: Option<String>,
}

impl Parts {
    pub(super) fn of(platform: &Platform) -> Self {
        let mut parts: Vec<String> = platform.as_str().split('-').map(str::to_owned).collect();
        if parts.len() > 2
            && let Some(extra) = parts.pop_if(|last| !ends_as_version(last))
            && let Some(last) = parts.last_mut()
        {
            *last = format!("{last}-{extra}");
        }
        let first = parts.remove(0);
        let cpu = if is_386(&first) { "x86".to_owned() } else { first.clone() };
        match &parts[..] {
            [os, version] if is_version(version) => {
                Self { cpu: Some(cpu), os: os.clone(), version: Some(version.clone()) }
            }
            [] => named(None, &first),
            [os, ..] => named(Some(cpu), os),
        }
    }
}

impl fmt::Display for Parts {
    /// Writes the form that clients use in file names: `x86-linux` for `i686-linux`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, os, version } = self;
        let parts = [cpu.as_deref(), Some(os.as_str()), version.as_deref()];
        for (place, part) in parts.into_iter().flatten().enumerate() {
            let dash = if place == 0 { "" } else { "-" };
            write!(formatter, "{dash}{part}")?;
        }
        Ok(())
    }
}

/// Matches `/i\d86/`.
fn is_386(cpu: &str) -> bool {
    cpu.as_bytes().windows(4).any(|it| it[0] == b'i' && it[1].is_ascii_digit() && it[2..] == *b"86")
}

/// Matches `/\d+(\.\d+)?$/`.
fn ends_as_version(text: &str) -> bool {
    text.ends_with(|last: char| last.is_ascii_digit())
}

/// Matches `/^\d+(\.\d+)?$/`.
fn is_version(text: &str) -> bool {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    [whole, part].iter().all(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Pattern of the version that may follow the name of a system.
#[derive(Clone, Copy)]
enum Version {
    None,
    /// `\d+`
    Digits,
    /// `[\d.]*`
    Dotted,
    /// `-?\w+`
    Word,
}

/// Systems in the order in which RubyGems checks them: some names contain others.
const SYSTEMS: [(&str, &str, Version); 16] = [
    ("aix", "aix", Version::Digits),
    ("cygwin", "cygwin", Version::None),
    ("darwin", "darwin", Version::Digits),
    ("macruby", "macruby", Version::None),
    ("freebsd", "freebsd", Version::Digits),
    ("jruby", "java", Version::None),
    ("java", "java", Version::Dotted),
    ("dalvik", "dalvik", Version::Digits),
    ("dotnet", "dotnet", Version::Dotted),
    ("linux", "linux", Version::Word),
    ("mingw32", "mingw32", Version::None),
    ("mingw", "mingw", Version::Word),
    ("netbsdelf", "netbsdelf", Version::None),
    ("openbsd", "openbsd", Version::Dotted),
    ("bitrig", "bitrig", Version::Dotted),
    ("solaris", "solaris", Version::Dotted),
];

fn named(cpu: Option<String>, os: &str) -> Parts {
    if let Some(at) = os.find("mswin") {
        return mswin(cpu, &os[at..]);
    }
    for (name, known_as, kind) in SYSTEMS {
        let Some(at) = os.find(name) else { continue };
        let version = version(&os[at + name.len()..], kind);
        return Parts { cpu, os: known_as.to_owned(), version };
    }
    Parts { cpu, os: "unknown".to_owned(), version: None }
}

fn version(rest: &str, kind: Version) -> Option<String> {
    let leading = |is_part: fn(char) -> bool| {
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        (end > 0).then(|| rest[..end].to_owned())
    };
    match kind {
        Version::None => None,
        Version::Digits => leading(|it| it.is_ascii_digit()),
        Version::Dotted => leading(|it| it.is_ascii_digit() || it == '.'),
        Version::Word => {
            let rest = rest.strip_prefix('-').unwrap_or(rest);
            let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
            let word = &rest[..end.unwrap_or(rest.len())];
            (!word.is_empty()).then(|| word.to_owned())
        }
    }
}

/// Parses `(mswin\d+)(_(\d+))?`.
fn mswin(cpu: Option<String>, os: &str) -> Parts {
    let (os, version) = os.split_once('_').map_or((os, None), |(os, rest)| (os, Some(rest)));
    let cpu = cpu.or_else(|| os.ends_with("32").then(|| "x86".to_owned()));
    Parts { cpu, os: os.to_owned(), version: version.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_taken_apart_as_rubygems_does() {
        // Expected values are those of `Gem::Platform.new(text).to_a`; RubyGems 3.3 and older drop
        // `gnu`.
        for (text, cpu, os, version) in [
            ("x86_64-linux", Some("x86_64"), "linux", None),
            ("x86_64-linux-gnu", Some("x86_64"), "linux", Some("gnu")),
            ("aarch64-linux-musl", Some("aarch64"), "linux", Some("musl")),
            ("arm-linux-gnueabihf", Some("arm"), "linux", Some("gnueabihf")),
            ("i686-linux", Some("x86"), "linux", None),
            ("java", None, "java", None),
            ("jruby", None, "java", None),
            ("universal-java-11", Some("universal"), "java", Some("11")),
            ("x86-mingw32", Some("x86"), "mingw32", None),
            ("x64-mingw-ucrt", Some("x64"), "mingw", Some("ucrt")),
            ("x64-mingw32", Some("x64"), "mingw32", None),
            ("x86-mswin32-60", Some("x86"), "mswin32", Some("60")),
            ("mswin32", Some("x86"), "mswin32", None),
            ("arm64-darwin-22", Some("arm64"), "darwin", Some("22")),
            ("x86_64-darwin19", Some("x86_64"), "darwin", Some("19")),
            ("x86_64-openbsd7.1", Some("x86_64"), "openbsd", Some("7.1")),
            ("x86_64-plan9", Some("x86_64"), "unknown", None),
        ] {
            let parts = Parts::of(&text.parse().unwrap());
            let expected = Parts {
                cpu: cpu.map(str::to_owned),
                os: os.to_owned(),
                version: version.map(str::to_owned),
            };
            assert_eq!(parts, expected, "{text}");
        }
    }
}
