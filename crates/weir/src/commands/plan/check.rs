//! `weir plan --check`: a layout that somebody has made, judged.

mod file;
mod foreign;
mod queue_word;

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::json;
use weir_advisor::plan::{Outcome, Proof, judge};

use self::file::Said;
use super::report;
use crate::exit::Exit;
use crate::output;

/// A layout is some lines for each process.
const FILE_BYTES_MAX: u64 = 1 << 20;

pub(super) fn run(path: &Path, as_json: bool) -> anyhow::Result<Exit> {
    let shown = path.display();
    let text = read(path)?;
    let said = match file::parse(&text) {
        Ok(said) => said,
        Err(error) => match foreign::explain(path, &text) {
            Some(explanation) => bail!("{shown} {explanation}"),
            None => return Err(error.context(format!("{shown} is no layout"))),
        },
    };
    let Said { layout, queues, remarks, is_reserved_said } = said;
    let names: Vec<&str> = queues.iter().map(String::as_str).collect();
    let mut proofs = judge(&layout, &names);
    proofs.extend(remarks);
    if as_json {
        let holds = proofs.iter().all(Proof::holds);
        output::json(&json!({ "holds": holds, "layout": layout, "proofs": proofs }))?;
        return Ok(exit(&proofs));
    }
    output::raw(&report::proofs(&proofs));
    if layout.memory_bytes_max.is_none() {
        output::line("not judged  memory is enough: the file does not say `memory = \"8GiB\"`");
    }
    if !is_reserved_said {
        let kept = layout.reserved_connections;
        output::line(&format!(
            "taken as it ships  Postgres keeps {kept} connections for superusers: the file does not say \
             `superuser_reserved_connections`"
        ));
    }
    Ok(exit(&proofs))
}

/// What is broken is a problem; what can't be told is neither that nor fine.
fn exit(proofs: &[Proof]) -> Exit {
    let any = |outcome| proofs.iter().any(|proof| proof.outcome == outcome);
    if any(Outcome::Broken) {
        Exit::FoundProblem
    } else if any(Outcome::Unknown) {
        Exit::Failed
    } else {
        Exit::Fine
    }
}

/// Not more of it than a layout has: a device or a pipe has no end, and tells no length.
fn read(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let cannot = || format!("cannot read {shown}");
    let file = std::fs::File::open(path).with_context(cannot)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!("{shown} is too long: a layout has at most {FILE_BYTES_MAX} bytes");
    }
    String::from_utf8(bytes).with_context(|| format!("{shown} is no text"))
}
