//! A gem with its releases, what they need, and who needs it.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use weir_gems::view::{Dependents, ReleaseView};

use super::super::shell::{Section, Shell};
use super::super::theme::Theme;
use super::super::{PageError, html};
use super::{Name, gem_address, of, unavailable};
use crate::console::Console;
use crate::figures;
use crate::guard::visitor::Visitor;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "gem.html")]
struct GemPage {
    shell: Shell,
    name: String,
    summary: String,
    rows: Vec<Row>,
    needed_by: Vec<Name>,
    needed_by_summary: String,
}

struct Row {
    release: ReleaseView,
    size: String,
    /// What it needs to run: `Ruby >= 2.7`.
    runs_on: Vec<String>,
    needs: Vec<Dependency>,
}

struct Dependency {
    name: String,
    requirement: String,
    address: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Wanted {
    name: String,
}

/// `GET /gem`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(Wanted { name }): Query<Wanted>,
) -> Result<Response, PageError> {
    let limit = console.deps.settings.limits.page_releases;
    let gem = of(&console)?.gem(&name, limit).await.map_err(unavailable)?;
    let gem = gem.ok_or_else(|| {
        let name = figures::shortened(&name, 100);
        PageError::NotFound(format!("no release of a gem {name:?} is here"))
    })?;
    let names_max = console.deps.settings.limits.page_gems;
    let needed_by = of(&console)?.dependents(&gem.name, names_max).await.map_err(unavailable)?;
    let (shown, total) = (gem.releases.len(), gem.releases_total);
    let mut summary = figures::counted(total as u64, "release");
    if shown < total {
        summary.push_str(&format!("; the newest {shown} are shown"));
    }
    summary.push_str(&format!(" · {}", figures::counted(gem.downloads, "download")));
    let name = visible(&gem.name).into_owned();
    Ok(html(&GemPage {
        shell: Shell::new(&console, &visitor, Section::Gems, name.clone()),
        name,
        summary,
        rows: gem.releases.into_iter().map(Row::of).collect(),
        needed_by_summary: needed_by_summary(&needed_by),
        needed_by: needed_by.names.iter().map(|name| Name::of(name)).collect(),
    }))
}

fn needed_by_summary(needed_by: &Dependents) -> String {
    let shown = needed_by.names.len() as u64;
    match needed_by.total {
        0 => "No gem here needs it.".to_owned(),
        total if total == shown => figures::counted(total, "gem"),
        total => format!("{} of {}", figures::count(shown), figures::counted(total, "gem")),
    }
}

impl Row {
    fn of(release: ReleaseView) -> Self {
        let ruby = release.ruby.iter().map(|ruby| format!("Ruby {ruby}"));
        let rubygems = release.rubygems.iter().map(|rubygems| format!("RubyGems {rubygems}"));
        let needs = release.dependencies.iter().map(|dependency| Dependency {
            name: dependency.name.clone(),
            requirement: dependency.requirement.clone(),
            address: gem_address(&dependency.name),
        });
        Self {
            size: release.bytes.map_or_else(|| "elsewhere".to_owned(), figures::bytes),
            runs_on: ruby.chain(rubygems).collect(),
            needs: needs.collect(),
            release,
        }
    }
}
