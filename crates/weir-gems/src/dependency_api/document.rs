//! Answers of the dependency API: an array of `{name, number, platform, dependencies}`.

use serde::Serialize;

use super::Fragment;
use crate::marshal::Writer;

/// An answer that would have more bytes than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the answer has more than {0} bytes (gems.limits.dependency_answer_bytes_max); ask for fewer \
     gems, or use the compact index"
)]
pub struct AnswerTooLarge(pub usize);

/// The answer as Ruby's Marshal.
///
/// # Errors
/// It is too large.
pub fn marshal(gems: &[(&str, Fragment<'_>)], bytes_max: usize) -> Result<Vec<u8>, AnswerTooLarge> {
    let mut writer = Writer::new();
    writer.array(gems.iter().map(|(_, fragment)| fragment.releases().len()).sum());
    for (name, fragment) in gems {
        write_gem(&mut writer, name, fragment, bytes_max)?;
    }
    Ok(writer.finish())
}

fn write_gem(
    writer: &mut Writer,
    name: &str,
    fragment: &Fragment<'_>,
    bytes_max: usize,
) -> Result<(), AnswerTooLarge> {
    // Each list is written once and then repeated.
    let mut lists: Vec<Option<Vec<u8>>> = vec![None; fragment.lists().len()];
    for release in fragment.releases() {
        writer.hash(4);
        writer.symbol("name");
        writer.string(name);
        writer.symbol("number");
        writer.string(release.number);
        writer.symbol("platform");
        writer.string(release.platform);
        writer.symbol("dependencies");
        let list = lists[release.list()].get_or_insert_with(|| {
            writer.part(|writer| write_list(writer, fragment.dependencies(release)))
        });
        writer.raw(list);
        if writer.len() > bytes_max {
            return Err(AnswerTooLarge(bytes_max));
        }
    }
    Ok(())
}

fn write_list(writer: &mut Writer, list: &[(&str, &str)]) {
    writer.array(list.len());
    for (name, requirement) in list {
        writer.array(2);
        writer.string(name);
        writer.string(requirement);
    }
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    number: &'a str,
    platform: &'a str,
    dependencies: &'a [(&'a str, &'a str)],
}

/// The answer as JSON.
///
/// # Errors
/// It is too large.
pub fn json(gems: &[(&str, Fragment<'_>)], bytes_max: usize) -> Result<Vec<u8>, AnswerTooLarge> {
    let mut out = b"[".to_vec();
    for (name, fragment) in gems {
        for release in fragment.releases() {
            if out.len() > 1 {
                out.push(b',');
            }
            let (number, platform) = (release.number, release.platform);
            let dependencies = fragment.dependencies(release);
            let row = Row { name, number, platform, dependencies };
            // Texts and lists of texts always have a JSON form, and memory takes everything.
            let written = serde_json::to_writer(&mut out, &row);
            debug_assert!(written.is_ok());
            if out.len() > bytes_max {
                return Err(AnswerTooLarge(bytes_max));
            }
        }
    }
    out.push(b']');
    Ok(out)
}
