//! The pages of gems. They read the index and can poll upstreams; changing the index is left to
//! `gem` and the command line.

pub(super) mod gem;
mod link;
mod mirror;
mod webhooks;

use askama::Template;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use weir_gems::view::{KeyView, NamePage, Overview};

use self::link::{GemLink, unavailable};
use self::mirror::MirrorPart;
use self::webhooks::EndpointRow;
use super::frame::{PageFrame, Section, html};
use super::request::{FormRequest, PageRequest, PageResult};
use crate::address::address;
use crate::figures;
use crate::page_error::PageError;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "gems.html")]
struct GemsPage {
    frame: PageFrame,
    overview: Overview,
    search: String,
    names: Vec<GemLink>,
    summary: String,
    /// None: there are no more names.
    next: Option<String>,
    /// None: no other index is mirrored.
    mirror: Option<MirrorPart>,
    webhooks: Vec<EndpointRow>,
    keys: Vec<KeyRow>,
}

struct KeyRow {
    id: u64,
    name: String,
    scopes: String,
    gems: String,
    created: String,
    expires: String,
    is_expired: bool,
}

/// Which names the page lists.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct GemsQuery {
    #[serde(default)]
    search: String,
    after: Option<String>,
    done: Option<String>,
}

const POLLING: &str = "Weir is polling the upstreams. Reload the page to see the result.";

/// `POST /gems/look`
pub(crate) async fn poll_upstreams(FormRequest { console, .. }: FormRequest) -> PageResult {
    match console.gems()?.poll_upstreams() {
        true => Ok(Redirect::to("/gems?done=look").into_response()),
        false => Err(PageError::NotFound("this Weir mirrors no other index".to_owned())),
    }
}

/// `GET /gems`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let query: GemsQuery = request.query()?;
    let console = &request.console;
    let index = console.gems()?;
    let limit = console.deps.settings.limits.page_gems;
    let overview = index.overview().await.map_err(unavailable)?;
    let page = index.names(&query.search, query.after.as_deref(), limit);
    let page = page.await.map_err(unavailable)?;
    let keys = index.keys().await.map_err(unavailable)?;
    let mirror = index.mirrored().await.map_err(unavailable)?;
    let webhooks = index.webhooks().await.map_err(unavailable)?;
    let now = console.deps.clock.now().as_secs_f64();
    let flash = (query.done.as_deref() == Some("look")).then(|| POLLING.to_owned());
    Ok(html(&GemsPage {
        frame: request.frame(Section::Gems, "Gems").with_flash(flash),
        overview,
        summary: summary(&query, &page),
        next: page.next.as_ref().map(|next| {
            address("/gems", &[("search", query.search.as_str()), ("after", next.as_str())])
        }),
        names: page.names.iter().map(|name| GemLink::new(name)).collect(),
        search: query.search,
        mirror: mirror.map(|mirror| MirrorPart::new(mirror, now)),
        webhooks: webhooks.into_iter().map(|endpoint| EndpointRow::new(endpoint, now)).collect(),
        keys: keys.into_iter().map(|key| KeyRow::new(key, now)).collect(),
    }))
}

fn summary(query: &GemsQuery, page: &NamePage) -> String {
    match (page.total, query.search.is_empty()) {
        (0, true) => {
            "There are no gems yet. Add some with gem push or weir gems import.".to_owned()
        }
        (0, false) => "No gem name contains that.".to_owned(),
        (total, _) if page.names.len() as u64 == total => figures::counted(total, "gem"),
        (total, _) => {
            format!("{} of {}", figures::number(page.names.len()), figures::counted(total, "gem"))
        }
    }
}

impl KeyRow {
    fn new(key: KeyView, now: f64) -> Self {
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.name()).collect();
        let gems = if key.gems.is_empty() { "all".to_owned() } else { key.gems.join(", ") };
        let expires = key.expires_at.map(|at| figures::relative(now, at));
        Self {
            id: key.id,
            name: visible(&key.name).into_owned(),
            scopes: scopes.join(", "),
            gems: visible(&gems).into_owned(),
            created: figures::relative(now, key.created_at),
            expires: expires.unwrap_or_else(|| "never".to_owned()),
            is_expired: key.is_expired,
        }
    }
}
