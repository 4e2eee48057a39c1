//! Threads and queues of a Sidekiq process: from its command line, its settings file, and the
//! environment.

use weir_advisor::observation::Ordering;

use super::super::queue_order::{effective_ordering, parse_weighted};
use super::command::values;
use super::environment::Environment;
use super::evaluate::render_template;
use super::process::{Notes, Process};
use super::yaml::Yaml;

/// Paths that Sidekiq uses without `-C`.
const USUAL: [&str; 2] = ["config/sidekiq.yml", "config/sidekiq.yml.erb"];
/// The default number of threads since version 7; 10 before.
const CONCURRENCY: u32 = 5;
const ENVIRONMENTS: [&str; 3] = ["APP_ENV", "RAILS_ENV", "RACK_ENV"];

/// The settings of a Sidekiq process.
pub(super) struct Settings {
    /// None: set elsewhere.
    pub(super) concurrency: Option<u32>,
    /// None: in a missing file, or set elsewhere.
    pub(super) queues: Option<Vec<String>>,
    pub(super) ordering: Ordering,
    pub(super) is_order_clear: bool,
}

/// The content of a settings file.
#[derive(Default)]
struct File {
    concurrency: Option<String>,
    queues: Vec<String>,
}

pub(super) fn settings(process: &Process<'_>, notes: &mut Notes) -> Settings {
    let Process { folder, environment, .. } = *process;
    let arguments = &process.invocation.arguments;
    let named = values(arguments, "-C", "--config").last().copied();
    let text = match named {
        Some(name) => folder.find(name),
        None => USUAL.iter().find_map(|name| folder.find(name)),
    };
    let is_missing = named.is_some() && text.is_none();
    let said = values(arguments, "-e", "--environment").last().copied();
    let block = said.or_else(|| ENVIRONMENTS.iter().find_map(|name| environment.get(name)));
    let read = text.as_deref().map(|text| file(text, block.unwrap_or("production"), environment));
    // Code in a settings file is not executed.
    let is_unread = is_missing || matches!(read, Some(None));
    let file = read.flatten().unwrap_or_default();
    if is_unread {
        let name = named.unwrap_or(USUAL[0]);
        notes.add(format!("{name} is missing, or computes its values by code"));
    }
    // A container may have settings in its image.
    let is_unread = is_unread || (text.is_none() && process.started.is_container);
    let concurrency = concurrency(arguments, &file, is_unread, environment, notes);
    let words: Vec<String> = match values(arguments, "-q", "--queue").as_slice() {
        [] => file.queues,
        several => several.iter().map(ToString::to_string).collect(),
    };
    let words = match words.as_slice() {
        [] if is_unread || text.is_none() => None,
        [] => Some(vec!["default".to_owned()]),
        _ => Some(words),
    };
    let queues: Option<Vec<(String, u32)>> =
        words.and_then(|words| words.iter().map(|word| parse_weighted(word).ok()).collect());
    let (ordering, is_order_clear) =
        effective_ordering(None, queues.as_deref().unwrap_or_default());
    let queues = queues.map(|all| all.into_iter().map(|(queue, _)| queue).collect());
    Settings { concurrency, queues, ordering, is_order_clear }
}

fn concurrency(
    arguments: &[String],
    file: &File,
    is_unread: bool,
    environment: &Environment,
    notes: &mut Notes,
) -> Option<u32> {
    if let Some(said) = values(arguments, "-c", "--concurrency").last() {
        return said.parse().ok();
    }
    if let Some(said) = &file.concurrency {
        return said.parse().ok();
    }
    match environment.get("RAILS_MAX_THREADS") {
        Some(said) => notes.number("threads (RAILS_MAX_THREADS)", said),
        None if is_unread => {
            notes.add("the file with the number of threads is missing".to_owned());
            None
        }
        None => {
            notes.add(format!("{CONCURRENCY} threads, the default (no file sets a number)"));
            Some(CONCURRENCY)
        }
    }
}

/// Parses a settings file. None: its content depends on code, or it is invalid.
fn file(text: &str, block: &str, environment: &Environment) -> Option<File> {
    let yaml = Yaml::parse(&render_template(text, environment)?)?;
    let mut file = File::default();
    // A block for an environment takes precedence.
    let own = get(&yaml, block);
    for part in [Some(&yaml), own].into_iter().flatten() {
        if let Some(threads) = get(part, "concurrency").and_then(Yaml::text) {
            file.concurrency = Some(threads.to_owned());
        }
        if let Some(queues) = get(part, "queues") {
            file.queues = queues.items().iter().map(queue).collect();
        }
    }
    Some(file)
}

/// Returns the value of `key:` or `:key:`.
fn get<'a>(yaml: &'a Yaml, key: &str) -> Option<&'a Yaml> {
    yaml.get(key).or_else(|| yaml.get(&format!(":{key}")))
}

/// Converts `push`, `[push, 6]` or `push,6`.
fn queue(entry: &Yaml) -> String {
    match entry.items() {
        [] => entry.text().unwrap_or_default().to_owned(),
        parts => parts.iter().filter_map(Yaml::text).collect::<Vec<_>>().join(","),
    }
}
