//! The queues that need a process: those of sidekiq.yml, of the processes of today, of the version, and of the code.

use std::collections::BTreeSet;

use super::code_queues;
use super::findings::Findings;
use super::folder::AppFolder;
use super::quote::is_name;
use super::today::Today;
use crate::commands::plan::check::foreign::environment::Environment;
use crate::commands::plan::check::foreign::{DatabaseLimits, read_commands};
use weir_advisor::plan::Gap;

const SETTINGS: [&str; 2] = ["config/sidekiq.yml", "config/sidekiq.yml.erb"];

/// Returns all queues, in the order of the settings file, then those that others name.
pub(super) fn queues(
    folder: &AppFolder,
    today: Option<&Today>,
    of_version: &[&str],
    findings: &mut Findings,
) -> Vec<String> {
    let mut queues: Vec<String> = Vec::new();
    let mut add = |names: &mut dyn Iterator<Item = String>| {
        let mut added = Vec::new();
        for name in names {
            if !queues.contains(&name) {
                added.push(name.clone());
                queues.push(name);
            }
        }
        added
    };
    let (in_settings, is_known) = in_settings(folder, findings);
    add(&mut in_settings.into_iter());
    let of_version = add(&mut of_version.iter().map(ToString::to_string));
    if is_known && !of_version.is_empty() {
        let names = of_version.join(", ");
        findings.assumed.push(format!("this version also has {names}, not in {}", SETTINGS[0]));
    }
    let served = today.into_iter().flat_map(Today::workers);
    let served = served.filter(|it| !it.gaps.contains(&Gap::Queues));
    add(&mut served.flat_map(|it| it.queues.iter().cloned()));
    let (named, is_cut) = code_queues::queues(&folder.path);
    let only_in_code = add(&mut named.into_iter());
    if !only_in_code.is_empty() {
        findings.assumed.push(format!(
            "the code also pushes to {}, which {} does not list",
            only_in_code.join(", "),
            SETTINGS[0]
        ));
    }
    if is_cut {
        findings.not_read.push("some of the application's code: too many files".to_owned());
    }
    queues
}

/// Returns the queues of sidekiq.yml, and whether these are all.
fn in_settings(folder: &AppFolder, findings: &mut Findings) -> (Vec<String>, bool) {
    const INSTEAD: &str = "assumed: the queues of this version, of the processes and of the code";
    let Some(name) = folder.first(&SETTINGS) else {
        findings.not_read.push(format!("{}: it is not here; {INSTEAD}", SETTINGS[0]));
        return (Vec::new(), false);
    };
    let Some(text) = folder.read(name, findings) else { return (Vec::new(), false) };
    if let Some(queues) = parsed(folder) {
        findings.read.push(format!("{name} ({})", queues.join(", ")));
        return (queues, true);
    }
    let seen = names_in_lines(&text);
    let those = match seen.is_empty() {
        true => String::new(),
        false => format!("{} in its lines, and ", seen.join(", ")),
    };
    let instead = INSTEAD.replace("the queues of", &format!("{those}the queues of"));
    findings
        .not_read
        .push(format!("{name}: it is not valid YAML, or code in it decides; {instead}"));
    (seen, false)
}

/// Returns the queues of sidekiq.yml as Sidekiq would read it. None: only code knows them.
fn parsed(folder: &AppFolder) -> Option<Vec<String>> {
    let given = DatabaseLimits { max_connections: None, reserve: 0 };
    let mut environment = Environment::default();
    environment.set("RAILS_ENV", "production");
    let commands = [("sidekiq", "sidekiq")];
    let deployment = read_commands(&folder.path, &commands, &environment, given)?;
    let worker = deployment.layout.workers.into_iter().next()?;
    (!worker.gaps.contains(&Gap::Queues)).then_some(worker.queues)
}

/// Returns names in lines such as `- [push, 6]` or `- pull` after `queues:`, in a file that is not valid or has code.
/// A name too many costs a process; one too few, the jobs of its queue.
fn names_in_lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let after =
        lines.skip_while(|line| !line.trim_start_matches(':').starts_with("queues:")).skip(1);
    let list = after.take_while(|line| {
        line.is_empty() || line.starts_with(['-', '#']) || line.starts_with("<%")
    });
    let name = |line: &str| {
        let rest = line.strip_prefix('-')?.trim_start_matches([' ', '[', '"', '\'', ':']);
        let name = rest.split([',', ']', ' ', '"', '\'', '#']).next()?;
        is_name(name).then(|| name.to_owned())
    };
    list.filter_map(name).collect()
}

/// Returns those of `needed` that are not in `served`.
pub(super) fn unserved<'a>(needed: &'a [String], served: &BTreeSet<String>) -> Vec<&'a str> {
    needed.iter().map(String::as_str).filter(|name| !served.contains(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_the_file_has_code_or_an_error() {
        let text = ":concurrency: 5\n:queues:\n  - [push, 6]\n<% if x %>\n  - \"low\"\n<% end %>\n  # - old\n  - pull # last\n\
                    :other:\n  - no\n";
        assert_eq!(names_in_lines(text), ["push", "low", "pull"]);
        assert!(names_in_lines("- a\n").is_empty());
        assert_eq!(names_in_lines("queues:\n- [[[\n- $(id)\n- b\n"), ["b"]);
    }
}
