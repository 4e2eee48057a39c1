//! A gem: its releases, their dependencies, and the gems that depend on it.

use askama::Template;
use serde::Deserialize;
use weir_gems::view::ReleaseView;

use super::super::frame::{PageFrame, Section, html};
use super::super::request::{PageRequest, PageResult};
use super::link::{gem_address, unavailable};
use crate::figures;
use crate::page_error::PageError;
use crate::visible::visible;

/// The number of newest releases on the page.
const RELEASES_MAX: usize = 100;

#[derive(Template)]
#[template(path = "gem.html")]
struct GemPage {
    frame: PageFrame,
    name: String,
    summary: String,
    rows: Vec<ReleaseRow>,
}

struct ReleaseRow {
    release: ReleaseView,
    size: String,
    /// Such as `Ruby >= 2.7`.
    requires: Vec<String>,
    dependencies: Vec<DependencyLink>,
}

struct DependencyLink {
    name: String,
    requirement: String,
    address: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct GemQuery {
    name: String,
}

/// `GET /gem`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let GemQuery { name } = request.query()?;
    let index = request.console.gems()?;
    let gem = index.gem(&name, RELEASES_MAX).await.map_err(unavailable)?;
    let gem = gem.ok_or_else(|| {
        let name = figures::shortened(&name, 100);
        PageError::NotFound(format!("the index has no release of gem {name:?}"))
    })?;
    let (shown, total) = (gem.releases.len(), gem.releases_total);
    let mut summary = figures::counted(total as u64, "release");
    if shown < total {
        summary.push_str(&format!("; the newest {shown} are shown"));
    }
    let name = visible(&gem.name).into_owned();
    Ok(html(&GemPage {
        frame: request.frame(Section::Gems, name.clone()),
        name,
        summary,
        rows: gem.releases.into_iter().map(ReleaseRow::new).collect(),
    }))
}

impl ReleaseRow {
    fn new(release: ReleaseView) -> Self {
        let ruby = release.ruby.iter().map(|ruby| format!("Ruby {ruby}"));
        let rubygems = release.rubygems.iter().map(|rubygems| format!("RubyGems {rubygems}"));
        let dependencies = release.dependencies.iter().map(|dependency| DependencyLink {
            name: dependency.name.clone(),
            requirement: dependency.requirement.clone(),
            address: gem_address(&dependency.name),
        });
        Self {
            size: release.bytes.map_or_else(|| "not stored".to_owned(), figures::bytes),
            requires: ruby.chain(rubygems).collect(),
            dependencies: dependencies.collect(),
            release,
        }
    }
}
