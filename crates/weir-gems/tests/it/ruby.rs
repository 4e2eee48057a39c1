//! Checks with Ruby itself the data that is written as Marshal. Without Ruby, each test reports
//! that it is skipped.

use std::io::Write;
use std::process::{Command, Stdio};

use weir_base::clock::Timestamp;
use weir_gems::dependency_api::{Document, Fragment, write_fragment};
use weir_gems::marshal::{SpecList, SpecListError, gemspec_rz, write_specs};
use weir_gems::package::sample::{Sample, gzip, pack, tar};
use weir_gems::package::{PackageLimits, read};
use weir_gems::release::{Checksum, Identity, Release};

/// Returns the output of a script for `input`, or None if Ruby is not installed.
fn ruby(script: &str, input: &[u8]) -> Option<String> {
    let child = Command::new("ruby")
        .args(["-rzlib", "-rjson", "-e", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped: there is no ruby to compare with");
        return None;
    };
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "ruby failed");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn release(number: &str, platform: &str, dependencies: &str) -> Release {
    Release {
        identity: Identity { number: number.parse().unwrap(), platform: platform.parse().unwrap() },
        dependencies: dependencies.parse().unwrap(),
        checksum: Checksum([7; 32]),
        ruby: None,
        rubygems: None,
        created_at: Timestamp::default(),
    }
}

fn releases() -> Vec<Release> {
    vec![
        release("1.0", "ruby", "rack:>= 2&< 4"),
        release("1.1", "ruby", "rack:>= 2&< 4"),
        release("1.1", "java", "rack:>= 2&< 4,rake:>= 0"),
        release("2.0.rc1", "ruby", ""),
    ]
}

fn written(mut document: Document, gems: &[(&str, Fragment<'_>)]) -> Vec<u8> {
    for (name, fragment) in gems {
        document.gem(fragment);
        for release in fragment.releases() {
            document.release(name, fragment, release);
        }
    }
    document.finish()
}

#[test]
fn ruby_reads_the_dependency_api() {
    let bytes = write_fragment(&releases());
    let other = write_fragment(&[release("9", "ruby", "")]);
    let gems = [
        ("shop", Fragment::read(&bytes).unwrap()),
        ("other", Fragment::read(&other).unwrap()),
        ("none", Fragment::default()),
    ];
    let script = "print JSON.generate(Marshal.load($stdin.binmode.read))";
    let as_json = String::from_utf8(written(Document::json(), &gems)).unwrap();
    assert!(as_json.starts_with(
        "[{\"name\":\"shop\",\"number\":\"1.0\",\"platform\":\"ruby\",\
         \"dependencies\":[[\"rack\",\"< 4, >= 2\"]]},"
    ));
    let releases = gems.iter().map(|(_, fragment)| fragment.releases().len()).sum();
    let Some(seen) = ruby(script, &written(Document::marshal(releases), &gems)) else { return };
    assert_eq!(seen, as_json);
}

#[test]
fn ruby_reads_the_lists_of_releases() {
    let bytes = write_fragment(&releases());
    let fragment = Fragment::read(&bytes).unwrap();
    for (list, expected) in [
        (
            SpecList::Released,
            r#"[["shop","1.0","ruby"],["shop","1.1","ruby"],["shop","1.1","java"]]"#,
        ),
        (SpecList::Latest, r#"[["shop","1.1","ruby"],["shop","1.1","java"]]"#),
        (SpecList::Prerelease, r#"[["shop","2.0.rc1","ruby"]]"#),
    ] {
        let of: Vec<_> = list.of(&fragment);
        let owned: Vec<_> = of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let mut out = Vec::new();
        let gems = [Ok::<_, SpecListError>(("shop", owned.clone()))];
        write_specs(&mut out, owned.len(), gems.into_iter()).unwrap();
        let script = "all = Marshal.load($stdin.binmode.read)\n\
            raise unless all.all? { |_, version, _| Gem::Version === version }\n\
            print JSON.generate(all.map { |name, version, platform| [name, version.to_s, platform] })";
        let Some(seen) = ruby(script, &out) else { return };
        assert_eq!(seen, expected, "{list:?}");
        let wrong = write_specs(Vec::new(), 9, [Ok(("shop", owned))].into_iter());
        assert!(matches!(wrong, Err(SpecListError::Count { announced: 9, .. })));
    }
}

#[test]
fn ruby_reads_a_specification() {
    let sample = Sample {
        ruby: ">= 2.7".to_owned(),
        ..Sample::new("shop", "1.2").for_platform("x86_64-linux-musl")
    };
    let file =
        sample.with_dependency("rack", ">= 2, < 4").with_dependency("rake", "~> 13.0").build();
    let package = read(&file[..], &PackageLimits::default()).unwrap();
    let script = "spec = Marshal.load(Zlib::Inflate.inflate($stdin.binmode.read))\n\
        print [spec.class, spec.full_name, spec.date.to_s, spec.authors, spec.summary,\n\
          spec.required_ruby_version.to_s, spec.platform.class, spec.platform.to_a,\n\
          spec.runtime_dependencies.map(&:to_s)].inspect\n";
    let Some(seen) = ruby(script, &gemspec_rz(&package.specification)) else { return };
    assert_eq!(
        seen,
        "[Gem::Specification, \"shop-1.2-x86_64-linux-musl\", \"2026-01-02 00:00:00 UTC\", \
         [\"A. Author\"], \"a sample\", \">= 2.7\", Gem::Platform, \
         [\"x86_64\", \"linux\", \"musl\"], [\"rack (>= 2, < 4)\", \"rake (~> 13.0)\"]]"
    );
}

#[test]
fn ruby_reads_one_address_as_a_text_and_a_list_as_a_list() {
    for (written, expected) in [
        ("email:\n- a@x.example\n", "[\"a@x.example\"]"),
        ("email:\n- a@x.example\n- b@x.example\n", "[\"a@x.example\", \"b@x.example\"]"),
        ("email: []\n", "[]"),
        ("email: a@x.example\n", "\"a@x.example\""),
        ("email:\n", "nil"),
    ] {
        let metadata = Sample::new("shop", "1.2").metadata() + written;
        let file = pack(&gzip(metadata.as_bytes()), &gzip(&tar(&[])));
        let package = read(&file[..], &PackageLimits::default()).unwrap();
        let script = "print Marshal.load(Zlib::Inflate.inflate($stdin.binmode.read)).email.inspect";
        let Some(seen) = ruby(script, &gemspec_rz(&package.specification)) else { return };
        assert_eq!(seen, expected, "{written}");
    }
}
