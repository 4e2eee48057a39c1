//! `weir docs`: the documentation on the command line.

use anyhow::bail;
use clap::Args;
use serde::Serialize;
use weir_docs::library;
use weir_docs::search::{Hit, SearchResults};
use weir_docs::site::Site;

use crate::exit::Exit;
use crate::invocation::program;
use crate::output;

/// Results that are printed.
const SHOWN_MAX: usize = 10;

/// `weir docs`.
#[derive(Debug, Args)]
pub(crate) struct DocsArguments {
    /// List the sections with all of these words, or with words that begin with them; without any,
    /// list the pages
    words: Vec<String>,
    /// Print a page in Markdown, such as realtime or operations/sizing
    #[arg(long, conflicts_with_all = ["words", "json"])]
    page: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A page or section in JSON.
#[derive(Serialize)]
struct Found {
    title: String,
    heading: Option<String>,
    text: String,
    /// In the console.
    address: String,
}

pub(crate) fn run(arguments: &DocsArguments) -> anyhow::Result<Exit> {
    if let Some(name) = &arguments.page {
        let Some(markdown) = library().find(name).and_then(|path| library().markdown(path)) else {
            bail!("the documentation has no page {name}; `weir docs` lists the pages");
        };
        output::raw(&markdown);
        return Ok(Exit::Fine);
    }
    let words = arguments.words.join(" ");
    let (found, total) =
        if words.is_empty() { all_pages() } else { sections(library().search(&words)) };
    if arguments.json {
        output::json(&found)?;
    } else {
        found.iter().for_each(|found| output::line(&found.printed()));
    }
    match total {
        0 => output::note("nothing contains all of these words; `weir docs` lists the pages"),
        _ if total > found.len() => output::note(&format!("the best {SHOWN_MAX} of {total}")),
        _ => {}
    }
    if !found.is_empty() && !arguments.json {
        let program = program();
        output::note(&format!(
            "`{program} docs --page PAGE` prints a page; a running Weir serves them below /docs of its console"
        ));
    }
    Ok(Exit::Fine)
}

fn all_pages() -> (Vec<Found>, usize) {
    let entries = library().sections().iter().flat_map(|section| &section.entries);
    let pages = entries.map(|entry| Found {
        title: entry.title.clone(),
        heading: None,
        text: entry.about.clone(),
        address: Site::Console.address("", &entry.path),
    });
    let pages: Vec<Found> = pages.collect();
    let total = pages.len();
    (pages, total)
}

fn sections(results: SearchResults) -> (Vec<Found>, usize) {
    let found = results.hits.into_iter().take(SHOWN_MAX).map(|hit: Hit| Found {
        title: hit.page,
        heading: Some(hit.heading).filter(|heading| !heading.is_empty()),
        text: hit.excerpt.into_iter().map(|fragment| fragment.text).collect(),
        address: hit.address,
    });
    (found.collect(), results.total)
}

impl Found {
    /// Returns the name for `--page`: `operations/sizing`.
    fn page(&self) -> &str {
        let path = self.address.split('#').next().unwrap_or_default();
        path.strip_prefix("/docs/").filter(|page| !page.is_empty()).unwrap_or("README.md")
    }

    fn printed(&self) -> String {
        let heading = self.heading.as_ref().map(|heading| format!(" > {heading}"));
        let heading = heading.unwrap_or_default();
        format!("{}{heading}\n  {}\n  page {}\n", self.title, self.text, self.page())
    }
}
