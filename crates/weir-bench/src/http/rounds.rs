//! The same load on several servers, interleaved, because only figures of the same minutes compare: in each
//! round every server runs once, and the order rotates from round to round.

use anyhow::{Context, Result};

use crate::envelope::Envelope;
use crate::output::Output;

/// The number of rounds, and what is printed of each run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundOptions<'a> {
    /// Names of the servers.
    pub(crate) names: &'a [&'a str],
    pub(crate) rounds: usize,
    /// One JSON object per run.
    pub(crate) json: bool,
}

/// Returns the runs of every server, one per round. `run` receives the server's index.
pub(crate) fn run_rounds(
    RoundOptions { names, rounds, json }: RoundOptions<'_>,
    output: &mut Output,
    mut run: impl FnMut(usize) -> Result<Envelope>,
) -> Result<Vec<Vec<Envelope>>> {
    let mut runs: Vec<Vec<Envelope>> = vec![Vec::new(); names.len()];
    for round in 0..rounds {
        for offset in 0..names.len() {
            let index = (offset + round) % names.len();
            let name = names[index];
            let mut envelope = run(index).with_context(|| name.to_owned())?;
            envelope.extra.insert("peer".to_owned(), name.into());
            envelope.extra.insert("round".to_owned(), (round + 1).into());
            let rate = envelope.operations_per_second;
            output.note(&format!("round {}: {name} {rate:.0} requests/s", round + 1))?;
            if json {
                output.print(&(envelope.to_json_line() + "\n"))?;
            }
            runs[index].push(envelope);
        }
    }
    Ok(runs)
}
