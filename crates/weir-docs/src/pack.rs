//! Files in one compressed stream. For each: its path, a space, its number of bytes, a newline, its content.

use std::io::Read;

use flate2::read::ZlibDecoder;

/// Returns the path and the content of each file.
///
/// # Panics
/// If `pack` is damaged. It is part of the program.
pub(crate) fn unpack(pack: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    ZlibDecoder::new(pack).read_to_end(&mut bytes).expect("build.rs has compressed it");
    let (mut files, mut rest) = (Vec::new(), &*bytes);
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = std::str::from_utf8(&rest[..end]).expect("build.rs writes text");
        let (path, length) = line.rsplit_once(' ').expect("build.rs writes two fields");
        let length: usize = length.parse().expect("build.rs writes a number");
        let (content, after) = rest[end + 1..].split_at(length);
        files.push((path.to_owned(), content.to_owned()));
        rest = after;
    }
    files
}
