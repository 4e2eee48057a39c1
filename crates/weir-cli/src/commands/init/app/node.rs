//! A server in Node, by the start script of its package.json.

use anyhow::bail;

use super::draft::{Draft, Step};
use super::findings::Findings;
use super::folder::AppFolder;
use super::options::AppOptions;
use super::quote::is_plain;
use super::settings::{FrontApp, SettingsText, fixed};
use super::unit;
use crate::commands::plan::check::foreign::words::{file_name, split};

const WORKERS: u32 = 2;
/// More than the database serves at once: the server is not the bottleneck.
const CONCURRENCY: u32 = 100;
/// Libraries for jobs, whose processes are the application's own programs.
const JOBS: [&str; 5] = ["bullmq", "bull", "agenda", "bee-queue", "pg-boss"];

pub(super) fn draft(folder: &AppFolder, options: &AppOptions) -> anyhow::Result<Draft> {
    let mut findings = Findings::default();
    let Some(text) = folder.read("package.json", &mut findings) else {
        let why = findings.not_read.first().map_or("it is not here", String::as_str);
        bail!(
            "{} has no package.json that can be read ({why}); name the folder of the application: weir init node FOLDER",
            folder.shown()
        );
    };
    let package: serde_json::Value = match serde_json::from_str(&text) {
        Ok(package) => package,
        Err(error) => bail!("{}/package.json is not JSON: {error}", folder.shown()),
    };
    findings.read.push("package.json".to_owned());
    // The command itself must name the port.
    let port = ["env", "PORT={port}"].map(str::to_owned).to_vec();
    let command = [port, command(&package, folder, &mut findings)].concat();
    for name in JOBS.iter().filter(|name| package["dependencies"].get(name).is_some()) {
        findings
            .not_managed
            .push(format!("jobs of {name}: add a [workers.jobs] with the program that runs them"));
    }
    findings.assumed.push("the server listens at the port in the variable PORT".to_owned());
    findings
        .assumed
        .push(format!("{WORKERS} processes: set `workers` to what the machine can run"));
    let web = FrontApp {
        name: "web",
        command,
        environment: vec![fixed("NODE_ENV", "production"), fixed("HOST", "127.0.0.1")],
        workers: WORKERS,
        concurrency: CONCURRENCY,
        ..FrontApp::default()
    };
    let settings = SettingsText {
        head: vec![
            "Node. Written by `weir init node`; weir-steps.txt has the steps and the way back."
                .to_owned(),
        ],
        folder: folder.shown(),
        listen: options.listen.to_string(),
        apps: vec![web],
        ..SettingsText::default()
    };
    let mut draft = Draft {
        title: format!("Node application in {}", folder.shown()),
        settings: settings.text(),
        files: Vec::new(),
        findings,
        tables: String::new(),
        steps: steps(options),
    };
    draft.add(&unit::file("node"), unit::text("node", "Node", folder, options, &[]));
    Ok(draft)
}

/// Returns the words of the start script if it is `node FILE`; otherwise npm runs it.
fn command(
    package: &serde_json::Value,
    folder: &AppFolder,
    findings: &mut Findings,
) -> Vec<String> {
    let script = package["scripts"]["start"].as_str();
    let words = script.and_then(split).unwrap_or_default();
    let is_direct = words.first().is_some_and(|it| file_name(it) == "node")
        && words.len() > 1
        && words
            .iter()
            .all(|word| is_plain(word) || word.starts_with("--") && is_plain(&word[2..]));
    if is_direct {
        return words;
    }
    if script.is_some() {
        findings.assumed.push(
            "`npm start` passes SIGTERM on to the server; a command that starts node itself needs no such thing".to_owned(),
        );
        return ["npm", "run", "--silent", "start"].map(str::to_owned).to_vec();
    }
    let main = package["main"].as_str().filter(|main| is_plain(main));
    let main =
        main.or_else(|| folder.first(&["server.js", "index.js", "app.js"])).unwrap_or("server.js");
    findings.assumed.push(format!("`node {main}` starts it, because there is no script `start`"));
    vec!["node".to_owned(), main.to_owned()]
}

fn steps(options: &AppOptions) -> Vec<Step> {
    let settings = options.settings.display().to_string();
    vec![
        Step::new("Check the settings", &[&format!("weir check --config {settings}")], &[]),
        Step::new(
            "Start Weir beside the server of before",
            &[
                &format!("weir up --config {settings}"),
                &format!("weir workers list --config {settings}"),
            ],
            &["# stop `weir up` (Ctrl-C)"],
        ),
        Step::new(
            "Let the proxy pass requests to Weir",
            &[&format!("# its upstream becomes {}; then reload it", options.listen)],
            &["# the address of before; then reload it"],
        ),
        Step::new(
            "End the server of before",
            &["# stop it where you started it"],
            &["# start it as before"],
        ),
    ]
}
