//! Processes of a Procfile.

use super::super::text::read_text;
use super::environment::{Environment, FileSyntax};
use super::files::Folder;
use super::process::StartedProcess;
use super::words::split;

/// The file that foreman and similar programs read first.
const DOTENV: &str = ".env";
const RELEASE: &str = "release";

pub(super) fn started(folder: &Folder) -> anyhow::Result<Vec<StartedProcess>> {
    let mut environment = Environment::default();
    if let Some(text) = folder.find(DOTENV) {
        environment.read_lines(&text, FileSyntax::Dotenv);
    }
    let mut all = Vec::new();
    for file in &folder.files {
        let text = read_text(file)?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        all.extend(lines.filter_map(|line| process(line, &environment)));
    }
    Ok(all)
}

fn process(line: &str, environment: &Environment) -> Option<StartedProcess> {
    let (name, command) = line.split_once(':')?;
    let name = name.trim();
    // It ends before a deploy is complete.
    if name == RELEASE {
        return None;
    }
    let words = split(command);
    let unread = words.is_none().then(|| "its command has an unclosed quote".to_owned());
    Some(StartedProcess {
        name: name.to_owned(),
        processes: Some(1),
        words: words.unwrap_or_default(),
        environment: environment.clone(),
        unread,
        ..StartedProcess::default()
    })
}
