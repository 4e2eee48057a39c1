//! Builds small valid gems, and parts of invalid ones. For tests, benchmarks and fuzzers only.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256, Sha512};
use tar::{Builder, EntryType, Header};

/// A gem to build.
#[derive(Clone, Debug)]
pub struct Sample {
    pub name: String,
    pub version: String,
    pub platform: String,
    /// Names and requirements: `("rack", ">= 2, < 4")`.
    pub dependencies: Vec<(String, String)>,
    pub ruby: String,
    /// Paths and contents.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Sample {
    /// Returns a gem with one file and no dependencies.
    #[must_use]
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            platform: "ruby".to_owned(),
            dependencies: Vec::new(),
            ruby: ">= 0".to_owned(),
            files: vec![(format!("lib/{name}.rb"), b"module Sample; end\n".to_vec())],
        }
    }

    /// Adds a dependency.
    #[must_use]
    pub fn with_dependency(mut self, name: &str, requirement: &str) -> Self {
        self.dependencies.push((name.to_owned(), requirement.to_owned()));
        self
    }

    /// Sets the platform.
    #[must_use]
    pub fn for_platform(mut self, platform: &str) -> Self {
        platform.clone_into(&mut self.platform);
        self
    }

    /// Returns the bytes of the `.gem` file.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let files: Vec<_> =
            self.files.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
        pack(&gzip(self.metadata().as_bytes()), &gzip(&tar(&files)))
    }

    /// Returns its specification, as `gem build` writes it.
    #[must_use]
    pub fn metadata(&self) -> String {
        let Self { name, version, platform, .. } = self;
        let mut text = format!(
            "--- !ruby/object:Gem::Specification\nname: '{name}'\n\
             version: !ruby/object:Gem::Version\n  version: '{version}'\nplatform: {platform}\n\
             authors:\n- A. Author\ndate: 2026-01-02 00:00:00.000000000 Z\n"
        );
        text.push_str(if self.dependencies.is_empty() {
            "dependencies: []\n"
        } else {
            "dependencies:\n"
        });
        for (name, conditions) in &self.dependencies {
            let requirement = requirement(conditions, "    ");
            let _ = write!(
                text,
                "- !ruby/object:Gem::Dependency\n  name: {name}\n  requirement: {requirement}  \
                 type: :runtime\n  prerelease: false\n  version_requirements: {requirement}"
            );
        }
        let _ = write!(
            text,
            "summary: a sample\nrequired_ruby_version: {}rubygems_version: 3.3.15\n\
             specification_version: 4\n",
            requirement(&self.ruby, "  ")
        );
        text
    }
}

fn requirement(conditions: &str, indent: &str) -> String {
    let mut text = format!("!ruby/object:Gem::Requirement\n{indent}requirements:\n");
    for condition in conditions.split(", ") {
        let (sign, version) = condition.split_once(' ').expect("'SIGN VERSION'");
        let _ = write!(
            text,
            "{indent}- - \"{sign}\"\n{indent}  - !ruby/object:Gem::Version\n\
             {indent}    version: '{version}'\n"
        );
    }
    text
}

/// Builds a `.gem` file from members, with correct checksums.
#[must_use]
pub fn pack(metadata_gz: &[u8], data_tar_gz: &[u8]) -> Vec<u8> {
    let mut checksums = "---\n".to_owned();
    let members = [("metadata.gz", metadata_gz), ("data.tar.gz", data_tar_gz)];
    for algorithm in ["SHA256", "SHA512"] {
        let _ = writeln!(checksums, "{algorithm}:");
        for (name, bytes) in members {
            let digest = match algorithm {
                "SHA256" => hex::encode(Sha256::digest(bytes)),
                _ => hex::encode(Sha512::digest(bytes)),
            };
            let _ = writeln!(checksums, "  {name}: {digest}");
        }
    }
    tar(&[
        ("metadata.gz", metadata_gz.to_vec()),
        ("data.tar.gz", data_tar_gz.to_vec()),
        ("checksums.yaml.gz", gzip(checksums.as_bytes())),
    ])
}

/// Compresses bytes. The result is deterministic.
///
/// # Panics
/// Never panics: writing to memory can't fail.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes everything")
}

/// Builds an archive of regular files.
#[must_use]
pub fn tar(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries = files.iter().map(|(path, bytes)| (*path, EntryType::Regular, "", &bytes[..]));
    tar_of(entries)
}

/// Builds an archive of any entries: path, type, target of a link, bytes.
///
/// # Panics
/// Panics if a path does not fit in a header.
pub fn tar_of<'a>(
    entries: impl IntoIterator<Item = (&'a str, EntryType, &'a str, &'a [u8])>,
) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for (path, kind, target, bytes) in entries {
        let mut header = Header::new_ustar();
        // The fields are written directly, because `set_path` rejects hostile paths.
        let field = &mut header.as_ustar_mut().expect("a ustar header").name;
        field[..path.len()].copy_from_slice(path.as_bytes());
        let field = &mut header.as_ustar_mut().expect("a ustar header").linkname;
        field[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        archive.append(&header, bytes).expect("memory takes everything");
    }
    archive.into_inner().expect("memory takes everything")
}
