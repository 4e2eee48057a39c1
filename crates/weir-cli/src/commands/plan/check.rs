//! `weir plan --check`: checks a layout, or deployment files that define one.

mod file;
pub(in crate::commands) mod foreign;
mod queue_order;
pub(in crate::commands) mod text;

use std::path::Path;

use anyhow::bail;
use serde_json::json;
use weir_advisor::plan::{Claim, ClaimOutcome, Proof, judge};

use self::file::CheckedLayout;
use self::foreign::{DatabaseLimits, Deployment};
use self::text::read_text;
use super::{PlanArguments, report};
use crate::exit::{Exit, WrongUsage};
use crate::output;

/// Checks a layout, or the layout that deployment files define.
pub(super) fn run(path: &Path, arguments: &PlanArguments) -> anyhow::Result<Exit> {
    let shown = path.display();
    if path.is_dir() {
        return match foreign::read(path, given_limits(arguments))? {
            Some(deployment) => judge_deployment(&deployment, arguments.json),
            None => bail!(
                "{shown} contains no unit (*.service), compose file or Procfile that starts Sidekiq, Puma or streaming{}",
                nothing_to_check(path)
            ),
        };
    }
    let text = read_text(path)?;
    match file::parse(&text) {
        Ok(_) if arguments.max_connections.is_some() => {
            bail!(WrongUsage::new("--max-connections cannot be used with a layout; set max_connections in the layout"))
        }
        Ok(said) => judge_layout(&said, arguments.json),
        Err(error) => match foreign::read(path, given_limits(arguments))? {
            Some(deployment) => judge_deployment(&deployment, arguments.json),
            None if is_settings(path, &text) => bail!(
                "{shown} contains Sidekiq's settings and starts no process: name the unit, compose file or Procfile that starts Sidekiq, or their folder"
            ),
            None if foreign::is_known(path, &text) => bail!(
                "{shown} starts no Sidekiq, Puma or streaming{}",
                nothing_to_check(path)
            ),
            None => Err(error.context(format!(
                "{shown} is neither a layout nor a unit, compose file or Procfile that starts Sidekiq, Puma or streaming"
            ))),
        },
    }
}

/// Explains other possible causes: an image may define the command, and only one file of a folder
/// may run.
fn nothing_to_check(path: &Path) -> String {
    let image =
        "a service without `command` is unknown, because its image determines what it starts";
    match foreign::candidates(path) {
        names if names.is_empty() && is_yaml(path) => format!(" ({image})"),
        names if names.is_empty() => String::new(),
        names => format!(": name the file that runs ({}); {image}", names.join(", ")),
    }
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "yml" || it == "yaml")
}

/// Returns whether a file is a sidekiq.yml.
fn is_settings(path: &Path, text: &str) -> bool {
    let key = |line: &str| line.trim_start_matches(':').starts_with(['q', 'c']);
    is_yaml(path)
        && text
            .lines()
            .any(|line| key(line) && (line.contains("queues:") || line.contains("concurrency:")))
}

const fn given_limits(arguments: &PlanArguments) -> DatabaseLimits {
    DatabaseLimits { max_connections: arguments.max_connections, reserve: arguments.reserve }
}

fn judge_layout(said: &CheckedLayout, as_json: bool) -> anyhow::Result<Exit> {
    let CheckedLayout { layout, queues, remarks, has_reserved } = said;
    let names: Vec<&str> = queues.iter().map(String::as_str).collect();
    let mut proofs = judge(layout, &names);
    proofs.extend(remarks.iter().cloned());
    if as_json {
        let holds = proofs.iter().all(Proof::holds);
        output::json(&json!({ "holds": holds, "layout": layout, "proofs": proofs }))?;
        return Ok(exit(&proofs));
    }
    output::raw(&report::proofs(&proofs));
    if layout.memory_bytes_max.is_none() {
        output::line("not checked  memory: the file has no `memory`, such as `memory = \"8GiB\"`");
    }
    if !has_reserved {
        let kept = layout.reserved_connections;
        output::line(&format!(
            "default used  Postgres keeps {kept} connections for superusers: the file has no `superuser_reserved_connections`"
        ));
    }
    Ok(exit(&proofs))
}

/// Checks a deployment. Only the sums decide: that each queue is first in a process is a rule of
/// plans, which other deployments need not follow. Its result is printed anyway.
fn judge_deployment(deployment: &Deployment, as_json: bool) -> anyhow::Result<Exit> {
    let Deployment { files, layout, queues, assumed, not_judged, not_counted, .. } = deployment;
    let names: Vec<&str> = queues.iter().map(String::as_str).collect();
    let all = judge(layout, &names);
    let (deciding, advice): (Vec<Proof>, Vec<Proof>) =
        all.into_iter().partition(|proof| decides(proof.claim));
    if as_json {
        let holds = deciding.iter().all(Proof::holds);
        output::json(&json!({
            "holds": holds,
            "files": files,
            "layout": layout,
            "proofs": deciding,
            "advice": advice,
            "assumed": assumed,
            "not_judged": not_judged,
            "not_counted": not_counted,
        }))?;
        return Ok(exit(&deciding));
    }
    output::line(&output::printable(&format!("read  {}", files.join(", "))));
    report::processes(layout).iter().for_each(|line| output::line(line));
    output::line("");
    output::raw(&report::proofs(&deciding));
    for Proof { claim, figures, .. } in advice.iter().filter(|proof| !proof.holds()) {
        output::line(&output::printable(&format!("advice  {}: {figures}", claim.words())));
    }
    for (label, lines) in
        [("not judged", not_judged), ("not counted", not_counted), ("assumed", assumed)]
    {
        lines.iter().for_each(|it| output::line(&output::printable(&format!("{label}  {it}"))));
    }
    Ok(exit(&deciding))
}

const fn decides(claim: Claim) -> bool {
    matches!(claim, Claim::ConnectionsFit | Claim::PoolsCoverThreads | Claim::ThreadsThere)
}

/// Returns the exit code: violated rules are problems, unknown ones are not.
fn exit(proofs: &[Proof]) -> Exit {
    let any = |outcome| proofs.iter().any(|proof| proof.outcome == outcome);
    if any(ClaimOutcome::Broken) {
        Exit::FoundProblem
    } else if any(ClaimOutcome::Unknown) {
        Exit::Failed
    } else {
        Exit::Fine
    }
}
