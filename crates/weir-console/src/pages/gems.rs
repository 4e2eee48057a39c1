//! The pages of gems. They read the index only, and have upstreams looked at: what changes it is `gem`'s
//! and the command line's.

pub(super) mod gem;
mod latest;
mod mirror;
mod webhooks;

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use weir_gems::store::StoreError;
use weir_gems::view::{KeyView, NamePage, Overview};

use self::latest::ChangeRow;
use self::mirror::MirrorPart;
use self::webhooks::EndpointRow;
use super::shell::{Section, Shell};
use super::theme::Theme;
use super::{PageError, html};
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::gems::Index;
use crate::guard::form::CheckedForm;
use crate::guard::visitor::Visitor;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "gems.html")]
struct GemsPage {
    shell: Shell,
    overview: Overview,
    search: String,
    names: Vec<Name>,
    summary: String,
    /// None: there are no more names.
    next: Option<String>,
    /// None: nothing comes from elsewhere.
    mirror: Option<MirrorPart>,
    webhooks: Vec<EndpointRow>,
    latest: Vec<ChangeRow>,
    keys: Vec<KeyRow>,
    done: Option<&'static str>,
}

struct Name {
    name: String,
    address: String,
}

struct KeyRow {
    id: u64,
    name: String,
    scopes: String,
    gems: String,
    made: String,
    expires: String,
    is_expired: bool,
}

/// Which gems.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    search: String,
    after: Option<String>,
    done: Option<String>,
}

/// The index, if it is served here.
fn of(console: &Console) -> Result<&Arc<dyn Index>, PageError> {
    let none = "gems are not served by this Weir; they are with a table [gems] in weir.toml";
    console.deps.gems.as_ref().ok_or_else(|| PageError::NotFound(none.to_owned()))
}

fn unavailable(error: StoreError) -> PageError {
    PageError::Unavailable(error.to_string())
}

/// The page of a gem.
fn gem_address(name: &str) -> String {
    address("/gem", &[("name", name)])
}

/// Changes that the page shows.
const LATEST_MAX: usize = 20;
const LOOKING: &str =
    "The upstreams are being looked at: load the page again to see what came of it.";

/// `POST /gems/look`
pub(crate) async fn look(
    State(console): State<Arc<Console>>,
    _form: CheckedForm,
) -> Result<Response, PageError> {
    match of(&console)?.look_at_upstreams() {
        true => Ok(Redirect::to("/gems?done=look").into_response()),
        false => Err(PageError::NotFound("this Weir mirrors no other index".to_owned())),
    }
}

/// `GET /gems`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    let index = of(&console)?;
    let limit = console.deps.settings.limits.page_gems;
    let overview = index.overview().await.map_err(unavailable)?;
    let page = index.names(&wanted.search, wanted.after.as_deref(), limit);
    let page = page.await.map_err(unavailable)?;
    let keys = index.keys().await.map_err(unavailable)?;
    let mirror = index.mirrored().await.map_err(unavailable)?;
    let webhooks = index.webhooks().await.map_err(unavailable)?;
    let latest = index.latest(LATEST_MAX).await.map_err(unavailable)?;
    let now = console.deps.clock.now().as_secs_f64();
    Ok(html(&GemsPage {
        shell: Shell::new(&console, &visitor, Section::Gems, "Gems"),
        overview,
        summary: summary(&wanted, &page),
        next: page.next.as_ref().map(|next| {
            address("/gems", &[("search", wanted.search.as_str()), ("after", next.as_str())])
        }),
        names: page.names.iter().map(|name| Name::of(name)).collect(),
        done: (wanted.done.as_deref() == Some("look")).then_some(LOOKING),
        search: wanted.search,
        mirror: mirror.map(|mirror| MirrorPart::of(mirror, now)),
        webhooks: webhooks.into_iter().map(|endpoint| EndpointRow::of(endpoint, now)).collect(),
        latest: latest.into_iter().map(ChangeRow::of).collect(),
        keys: keys.into_iter().map(|key| KeyRow::of(key, now)).collect(),
    }))
}

fn summary(wanted: &Wanted, page: &NamePage) -> String {
    match (page.total, wanted.search.is_empty()) {
        (0, true) => "There are no gems yet: gem push and weir gems import add some.".to_owned(),
        (0, false) => "No gem's name holds that.".to_owned(),
        (total, _) if page.names.len() as u64 == total => figures::counted(total, "gem"),
        (total, _) => {
            format!("{} of {}", figures::number(page.names.len()), figures::counted(total, "gem"))
        }
    }
}

impl Name {
    fn of(name: &str) -> Self {
        Self { name: visible(name).into_owned(), address: gem_address(name) }
    }
}

impl KeyRow {
    fn of(key: KeyView, now: f64) -> Self {
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.name()).collect();
        let gems = if key.gems.is_empty() { "all".to_owned() } else { key.gems.join(", ") };
        let expires = key.expires_at.map(|at| figures::relative(now, at));
        Self {
            id: key.id,
            name: visible(&key.name).into_owned(),
            scopes: scopes.join(", "),
            gems: visible(&gems).into_owned(),
            made: figures::relative(now, key.created_at),
            expires: expires.unwrap_or_else(|| "never".to_owned()),
            is_expired: key.is_expired,
        }
    }
}
