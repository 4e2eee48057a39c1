//! Scripts of a package.json that npm and yarn start. Nothing is run.

use super::environment::Environment;
use super::files::Folder;
use super::idle::holds_nothing;
use super::words::{file_name, split};

/// Prefixes of scripts that build assets.
const BUILDS: [&str; 5] = ["build", "watch", "css", "js", "lint"];
const STREAMING: &str = "streaming";

/// The program that a script starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    Streaming,
    /// It builds assets.
    Idle,
    Unknown,
}

/// Resolves `npm run start`, `yarn start`, `yarn workspace NAME start`, `npm start --prefix streaming`.
pub(super) fn resolve(words: &[String], environment: &Environment, folder: &Folder) -> Resolved {
    let Some(at) = words.iter().position(|it| matches!(file_name(it), "npm" | "yarn" | "pnpm"))
    else {
        return Resolved::Unknown;
    };
    let arguments = &words[at + 1..];
    let Some(script) = script(arguments) else { return Resolved::Unknown };
    if BUILDS.iter().any(|build| script.starts_with(build)) {
        return Resolved::Idle;
    }
    let names_streaming = arguments.iter().any(|word| word.contains(STREAMING));
    if script == "start" && (names_streaming || folder.is_in(STREAMING)) {
        return Resolved::Streaming;
    }
    folder
        .find("package.json")
        .map_or(Resolved::Unknown, |text| resolve_script(&text, script, environment))
}

/// Returns the name of the script: the word after `run`, or the first word that is not an option.
fn script(arguments: &[String]) -> Option<&str> {
    let plain: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|it| !it.starts_with('-')).collect();
    match plain.as_slice() {
        ["run" | "run-script", name, ..]
        | ["workspace", _, "run", name, ..]
        | ["workspace", _, name, ..] => Some(name),
        // The value of an option may come first.
        words => words.iter().find(|it| **it == "start").or(words.first()).copied(),
    }
}

fn resolve_script(text: &str, script: &str, environment: &Environment) -> Resolved {
    let package: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let line = package["scripts"][script].as_str().and_then(split);
    let words: Vec<String> =
        line.unwrap_or_default().iter().map(|word| environment.substitute(word)).collect();
    match words.as_slice() {
        [program, script, ..] if file_name(program) == "node" && script.contains(STREAMING) => {
            Resolved::Streaming
        }
        words if holds_nothing(words) => Resolved::Idle,
        _ => Resolved::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_resolved_in_package_json() {
        let directory = tempfile::tempdir().expect("a folder");
        let package = r#"{"scripts": {"start": "node ./streaming/index.js", "dev": "vite", "serve": "node x.js"}}"#;
        std::fs::write(directory.path().join("package.json"), package).expect("written");
        let folder = Folder::default().in_directory(directory.path().to_str().expect("a path"));
        for (line, expected) in [
            ("/usr/bin/npm run start", Resolved::Streaming),
            ("yarn start", Resolved::Streaming),
            ("yarn workspace @app/streaming start", Resolved::Streaming),
            ("yarn dev", Resolved::Idle),
            ("npm run serve", Resolved::Unknown),
            ("npm run none", Resolved::Unknown),
            ("npm", Resolved::Unknown),
            ("node x.js", Resolved::Unknown),
        ] {
            let words = split(line).expect("words");
            assert_eq!(resolve(&words, &Environment::default(), &folder), expected, "{line}");
        }
        let folder = Folder::default().in_directory("/srv/app/streaming");
        let words = split("npm start").expect("words");
        assert_eq!(resolve(&words, &Environment::default(), &folder), Resolved::Streaming);
    }
}
