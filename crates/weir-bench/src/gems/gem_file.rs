//! A small gem, as `gem build` makes it.

use std::fmt::Write as _;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256, Sha512};
use tar::{Builder, EntryType, Header};

/// Builds the `.gem` file of version 1.0.0 of `name`, some 4 kB.
pub(crate) fn build(name: &str) -> Vec<u8> {
    let metadata = gzip(metadata(name).as_bytes());
    let data = gzip(&archive(&[(&format!("lib/{name}.rb"), b"# nothing\n")]));
    let mut checksums = "---\n".to_owned();
    for algorithm in ["SHA256", "SHA512"] {
        // Writing to a String cannot fail.
        let _ = writeln!(checksums, "{algorithm}:");
        for (member, bytes) in [("metadata.gz", &metadata), ("data.tar.gz", &data)] {
            let digest = match algorithm {
                "SHA256" => hex::encode(Sha256::digest(bytes)),
                _ => hex::encode(Sha512::digest(bytes)),
            };
            let _ = writeln!(checksums, "  {member}: {digest}");
        }
    }
    archive(&[
        ("metadata.gz", &metadata),
        ("data.tar.gz", &data),
        ("checksums.yaml.gz", &gzip(checksums.as_bytes())),
    ])
}

fn metadata(name: &str) -> String {
    let any_version = "!ruby/object:Gem::Requirement\n  requirements:\n  - - \">=\"\n    \
               - !ruby/object:Gem::Version\n      version: '0'\n";
    format!(
        "--- !ruby/object:Gem::Specification\nname: {name}\nversion: !ruby/object:Gem::Version\n  \
         version: 1.0.0\nplatform: ruby\nauthors:\n- weir-bench\n\
         date: 2026-01-02 00:00:00.000000000 Z\ndependencies: []\nsummary: nothing\n\
         required_ruby_version: {any_version}required_rubygems_version: {any_version}rubygems_version: 3.3.15\n\
         specification_version: 4\n"
    )
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("writing to memory")
}

fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for (path, bytes) in members {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o444);
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, path, *bytes).expect("writing to memory");
    }
    archive.into_inner().expect("writing to memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::REQUEST_BYTES_MAX;

    #[test]
    fn gem_has_three_members_and_fits_into_a_request() {
        let gem = build("bench-0123456789abcdef-1234567");
        let mut archive = tar::Archive::new(&gem[..]);
        let members = archive.entries().expect("an archive");
        let paths = members.map(|it| it.expect("a member").path().expect("a path").into_owned());
        let paths: Vec<_> = paths.map(|path| path.display().to_string()).collect();
        assert_eq!(paths, ["metadata.gz", "data.tar.gz", "checksums.yaml.gz"]);
        assert!(gem.len() < REQUEST_BYTES_MAX - 1_024, "{}", gem.len());
    }
}
