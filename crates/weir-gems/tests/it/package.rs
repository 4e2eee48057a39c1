//! Reads `.gem` files: which are accepted, and with which message others are rejected.

use tar::EntryType;
use weir_gems::package::sample::{Sample, gzip, pack, tar, tar_of};
use weir_gems::package::{DependencyKind, Package, PackageError, PackageLimits, read};

fn limits() -> PackageLimits {
    PackageLimits { gem_bytes_max: 4 << 20, entries_max: 10, ..PackageLimits::default() }
}

fn refusal(bytes: &[u8]) -> String {
    match read(bytes, &limits()) {
        Ok(package) => panic!("this was read: {package:?}"),
        Err(error) => error.to_string(),
    }
}

fn with_data(data: &[u8]) -> Vec<u8> {
    pack(&gzip(Sample::new("a", "1.0").metadata().as_bytes()), &gzip(data))
}

/// Returns a gem whose specification has these fields.
fn with_metadata(fields: &str) -> Vec<u8> {
    with_document(&format!("--- !ruby/object:Gem::Specification\n{fields}"))
}

fn with_document(metadata: &str) -> Vec<u8> {
    pack(&gzip(metadata.as_bytes()), &gzip(&tar(&[("lib/a.rb", Vec::new())])))
}

fn entry(path: &str, kind: EntryType, target: &str) -> Vec<u8> {
    with_data(&tar_of([(path, kind, target, &b""[..])]))
}

#[test]
fn a_gem_says_what_it_is() {
    let sample = Sample {
        ruby: ">= 2.7".to_owned(),
        ..Sample::new("Red_cloth", "1.0.rc1")
            .for_platform("x86_64-linux")
            .with_dependency("rack", ">= 2, < 4")
    };
    let bytes = sample.build();
    let Package { specification, bytes: length, .. } = read(&bytes[..], &limits()).unwrap();
    assert_eq!(specification.name.as_str(), "Red_cloth");
    assert_eq!(specification.version.as_str(), "1.0.rc1");
    assert_eq!(specification.platform.as_str(), "x86_64-linux");
    assert_eq!(specification.ruby.to_string(), ">= 2.7");
    assert!(specification.rubygems.is_any());
    assert_eq!(specification.about.summary, "a sample");
    assert_eq!(specification.about.authors, ["A. Author"]);
    assert_eq!(specification.about.date.as_deref(), Some("2026-01-02"));
    let [dependency] = &specification.dependencies[..] else { panic!("one dependency") };
    assert_eq!(dependency.name.as_str(), "rack");
    assert_eq!(dependency.requirement.to_string(), ">= 2, < 4");
    assert_eq!(dependency.kind, DependencyKind::Runtime);
    assert_eq!(length, bytes.len() as u64);
}

#[test]
fn shapes_of_older_rubygems_are_read() {
    let metadata = "name: old\nversion: '1.10'\n\
        platform: !ruby/object:Gem::Platform\n  cpu: x86\n  os: mswin32\n  version: '60'\n\
        email:\nauthors: [A, ~]\nhomepage: ''\n\
        dependencies:\n- !ruby/object:Gem::Dependency\n  name: rake\n  type: :development\n\
        \x20 version_requirements: &r !ruby/object:Gem::Version::Requirement\n    requirements:\n\
        \x20   - - !ruby/object:YAML::Syck::DefaultKey {}\n      - !ruby/object:Gem::Version\n\
        \x20       version: '0.8'\n    version:\n\
        - !ruby/object:Gem::Dependency\n  name: rack\n  version_requirements: *r\n";
    let package = read(&with_metadata(metadata)[..], &limits()).unwrap();
    let specification = package.specification;
    assert_eq!(specification.version.as_str(), "1.10");
    assert_eq!(specification.platform.as_str(), "x86-mswin32-60");
    assert_eq!(specification.about.authors, ["A"]);
    let kinds: Vec<_> = specification.dependencies.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [DependencyKind::Development, DependencyKind::Runtime]);
    let runtime: Vec<_> = specification.runtime_dependencies().collect();
    assert_eq!(runtime[0].requirement.to_string(), "= 0.8");
}

#[test]
fn a_specification_that_is_wrong_is_told_by_its_field() {
    for (metadata, expected) in [
        ("version: '1'\n", "it has no name"),
        ("name: a\n", "it has no version"),
        ("name: [a]\nversion: '1'\n", "name is not what it should be"),
        ("name: a b\nversion: '1'\n", "letters, digits"),
        ("name: a\nversion: 1..2\n", "is no version"),
        ("name: a\nversion: '1'\nplatform: a/b\n", "is no platform"),
        ("name: a\nname: b\nversion: '1'\n", "the key \"name\" twice"),
        ("name: a\nversion: '1'\ndependencies: 3\n", "dependencies is not what it should be"),
        (
            "name: a\nversion: '1'\ndependencies:\n- !ruby/object:Gem::Dependency\n  name: b\n\
             \x20 requirement: !ruby/object:Gem::Requirement {requirements: [[1]]}\n",
            "the dependency on b: requirement is not",
        ),
        (
            "name: a\nversion: '1'\ndependencies:\n\
             - !ruby/object:Gem::Dependency\n  name: b\n\
             \x20 requirement: !ruby/object:Gem::Requirement {requirements: [['=>', '1']]}\n",
            "the dependency on b: the requirement",
        ),
    ] {
        let refusal = refusal(&with_metadata(metadata));
        assert!(refusal.contains(expected), "{refusal}");
    }
}

/// Weir and RubyGems would read these values differently.
#[test]
fn what_ruby_reads_as_another_thing_is_refused() {
    let unquoted = "is written without quotes";
    for (fields, expected) in [
        ("name: a\nversion: 1.10\n", unquoted),
        ("name: a\nversion: 010\n", unquoted),
        ("name: a\nversion: !ruby/object:Gem::Version\n  version: 1.10\n", unquoted),
        ("name: yes\nversion: '1'\n", unquoted),
        ("name: :a\nversion: '1'\n", unquoted),
        ("name: a\nversion: '1'\nplatform: on\n", unquoted),
        ("name: !ruby/sym a\nversion: '1'\n", "the tag \"!ruby/sym\""),
        ("name: a\nversion: '1'\ndescription: !ruby/regexp /a/\n", "the tag \"!ruby/regexp\""),
        ("name: a\nversion: {version: '1'}\n", "version is not what it should be"),
        ("name: a\nversion: !ruby/object:Gem::Platform {version: '1'}\n", "version is not what"),
        ("name: a\nversion: '1'\nrequired_ruby_version: {requirements: []}\n", "_version is not"),
        ("name: a\nversion: '1'\ndependencies:\n- {name: b}\n", "dependencies is not what"),
        (
            "name: a\nversion: '1'\ndependencies:\n\
             - !ruby/object:Gem::Dependency {name: b, type: ':runtime'}\n",
            "type is not what it should be",
        ),
    ] {
        let refusal = refusal(&with_metadata(fields));
        assert!(refusal.contains(expected), "{fields}: {refusal}");
    }
    for document in ["--- !ruby/object:Gem::Version\n", "---\n"] {
        let metadata = format!("{document}name: a\nversion: '1'\n");
        assert!(refusal(&with_document(&metadata)).contains("the document is not what"));
    }
    // Descriptive texts affect nothing else, so they are accepted.
    let words = "name: a\nversion: '1'\nsummary: yes\nauthors: [1.10]\ndate: 2026-01-02\n";
    let about = read(&with_metadata(words)[..], &limits()).unwrap().specification.about;
    assert_eq!((&*about.summary, &about.authors[..]), ("yes", &["1.10".to_owned()][..]));
}

#[test]
fn members_are_there_once_and_nothing_else_is() {
    let sample = Sample::new("a", "1.0");
    let good = sample.build();
    let metadata = gzip(sample.metadata().as_bytes());
    let twice = tar(&[("metadata.gz", metadata.clone()), ("metadata.gz", metadata.clone())]);
    assert!(refusal(&twice).contains("metadata.gz twice"));
    assert!(refusal(&tar(&[("metadata.gz", metadata)])).contains("has no data.tar.gz"));
    assert!(refusal(&tar(&[("x", Vec::new())])).contains("has \"x\""));
    assert!(refusal(b"").contains("has no metadata.gz"));
    assert!(
        refusal(b"hello").contains("no .gem file") || refusal(b"hello").contains("can't be read")
    );
    let mut longer = good.clone();
    longer.extend_from_slice(&[0; 512]);
    assert!(read(&longer[..], &limits()).is_ok());
    longer.push(1);
    assert!(refusal(&longer).contains("bytes follow the end of the .gem file"));
}

#[test]
fn bytes_behind_a_member_are_found() {
    let sample = Sample::new("a", "1.0");
    let metadata = gzip(sample.metadata().as_bytes());
    let data = gzip(&tar(&[("lib/a.rb", Vec::new())]));
    let second = [metadata.clone(), gzip(b"name: evil\n")].concat();
    assert!(refusal(&pack(&second, &data)).contains("bytes follow the end of metadata.gz"));
    let second = [data, gzip(b"more")].concat();
    assert!(refusal(&pack(&metadata, &second)).contains("bytes follow the end of data.tar.gz"));
}

#[test]
fn checksums_are_enforced() {
    let sample = Sample::new("a", "1.0");
    let metadata = gzip(sample.metadata().as_bytes());
    let data = gzip(&tar(&[("lib/a.rb", Vec::new())]));
    let with = |checksums: &str| {
        tar(&[
            ("metadata.gz", metadata.clone()),
            ("data.tar.gz", data.clone()),
            ("checksums.yaml.gz", gzip(checksums.as_bytes())),
        ])
    };
    let zeros = "0".repeat(64);
    let text = format!("---\nSHA256:\n  metadata.gz: {zeros}\n  data.tar.gz: {zeros}\n");
    assert!(refusal(&with(&text)).contains("metadata.gz does not have the SHA256"));
    assert!(refusal(&with("---\nSHA1:\n  metadata.gz: a\n")).contains("neither SHA256 nor SHA512"));
    assert!(refusal(&with("- a")).contains("checksums.yaml.gz"));
}

#[test]
fn paths_stay_within_the_gem() {
    let file = EntryType::Regular;
    for (path, reason) in [
        ("/etc/passwd", "does not begin"),
        ("../a", "leads upwards"),
        ("a/../../b", "leads upwards"),
        ("a\\..\\..\\b", "leads upwards"),
        ("\\a", "does not begin"),
        ("C:a", "does not begin"),
        ("~/a", "does not begin"),
        ("a\nb", "control characters"),
    ] {
        let refusal = refusal(&entry(path, file, ""));
        assert!(refusal.contains(reason), "{path:?}: {refusal}");
    }
    for (link, target) in
        [("a", "../b"), ("a/b", "../../c"), ("a", "/etc"), ("a/b", "x/../../../c")]
    {
        let refusal = refusal(&entry(link, EntryType::Symlink, target));
        assert!(refusal.contains("the path"), "{link} {target}: {refusal}");
    }
    for (link, target) in [("a/b", "../c"), ("a/b/c", "../../d/e"), ("a", "b/c")] {
        assert!(read(&entry(link, EntryType::Symlink, target)[..], &limits()).is_ok());
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    let link = ("a/b", EntryType::Symlink, "..", &b""[..]);
    for path in ["a/b/c", "./a//b/c", "a/b"] {
        let data = tar_of([link, (path, EntryType::Regular, "", b"x")]);
        let refusal = refusal(&with_data(&data));
        assert!(refusal.contains("through a link"), "{path}: {refusal}");
    }
}

#[test]
fn links_do_not_lead_out_of_the_gem_one_after_another() {
    let link = EntryType::Symlink;
    // In either order, "d/e/up" is "d", and two levels above it is outside of the gem.
    let (up, out) = (("d/e/up", link, "..", &b""[..]), ("out", link, "d/e/up/../..", &b""[..]));
    for links in [[up, out], [out, up]] {
        let refusal = refusal(&with_data(&tar_of(links)));
        assert!(refusal.contains("behind a name"), "{refusal}");
    }
    let inside = ("x/in", link, "../d/e/up", &b""[..]);
    assert!(read(&with_data(&tar_of([up, inside]))[..], &limits()).is_ok());
}

#[test]
fn only_files_folders_and_links_are_taken() {
    use EntryType::{Block, Char, Fifo, GNULongName, GNUSparse, Link, XHeader};
    for kind in [Block, Char, Fifo, Link, GNUSparse, GNULongName, XHeader] {
        assert!(refusal(&entry("a", kind, "b")).contains("neither a file"), "{kind:?}");
    }
    assert!(read(&entry("a", EntryType::Directory, "")[..], &limits()).is_ok());
}

#[test]
fn bombs_are_stopped_by_the_limit_that_they_pass() {
    let large = tar(&[("a", vec![0; 40 << 20])]);
    assert!(refusal(&with_data(&large)).contains("gems.limits.advanced.unpacked_ratio_max"));
    let tight = PackageLimits { unpacked_bytes_max: 1 << 20, ..limits() };
    let error = read(&with_data(&large)[..], &tight).unwrap_err().to_string();
    assert!(error.contains("gems.limits.advanced.unpacked_bytes_max"), "{error}");
    let many: Vec<_> = (0..11).map(|_| ("a", Vec::new())).collect();
    assert!(refusal(&with_data(&tar(&many))).contains("gems.limits.advanced.entries_max"));
    let metadata = format!("name: a\nversion: '1'\nsummary: {}\n", "x".repeat(9 << 20));
    assert!(refusal(&with_metadata(&metadata)).contains("gems.limits.advanced.metadata_bytes_max"));
    let tight = PackageLimits { gem_bytes_max: 1_000, ..limits() };
    let error = read(&Sample::new("a", "1").build()[..], &tight).unwrap_err();
    assert!(matches!(error, PackageError::Exceeded { .. }), "{error}");
    assert!(error.to_string().contains("gems.limits.gem_bytes_max"), "{error}");
}

#[test]
fn a_long_path_is_refused() {
    let tight = PackageLimits { path_bytes_max: 10, ..limits() };
    let error = read(&entry("lib/abcdefg", EntryType::Regular, "")[..], &tight).unwrap_err();
    assert!(error.to_string().contains("gems.limits.advanced.path_bytes_max"), "{error}");
}
