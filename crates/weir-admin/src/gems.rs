//! The admin API of the index of gems, for the command line, scripts and tests. Mounted under `/v1`.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET gems/overview` | [`view::Overview`] |
//! | `GET gems/names?search=&after=&limit=` | [`view::NamePage`] |
//! | `GET gems/gem?name=&limit=` | [`view::GemView`], or 404 |
//! | `GET gems/dependents?name=&limit=` | [`view::Dependents`] |
//! | `GET gems/latest?limit=` | a list of [`view::ChangeView`] |
//! | `GET gems/webhooks` | a list of [`view::EndpointView`] |
//! | `POST gems/yank` | `{}`; body: [`Yank`] |
//! | `POST gems/rebaseline` | `{}` |
//! | `GET gems/keys` | a list of [`view::KeyView`] |
//! | `POST gems/keys` | [`CreatedKey`]; body: [`NewKey`] |
//! | `POST gems/keys/revoke` | `{}`; body: [`Revoke`] |
//! | `GET gems/mirror` | [`view::MirrorView`], or 404 |
//! | `POST gems/mirror/sync` | [`SyncStarted`]; body: [`SyncRequest`] |
//! | `POST gems/mirror/accept` | [`view::ReplacedView`]; body: [`Accept`] |
//!
//! Errors are `{"error":"..","hint":".."}` with a fitting status.

mod errors;
mod identity;
mod mirror;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::admin_api::{AdminError, JsonInput, Params};
use weir_base::switch::Pattern;
use weir_base::switchboard::Switchboard;
use weir_gems::operations::{KEY_NAME_CHARACTERS_MAX, KeyWanted};
use weir_gems::store::Scope;
use weir_gems::view;

pub(crate) use self::errors::not_served;
use self::identity::identity;
pub use self::mirror::{Accept, SyncRequest, SyncStarted};
use crate::api_routes::{ApiRoutes, get, post};
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;
use crate::response::{AdminResult, Done, row_limit};
use weir_gems::Gems;

/// The gem index with its switches.
#[derive(Clone, Debug)]
pub struct OperatedGems {
    pub index: Arc<Gems>,
    pub switches: Switchboard,
}

/// The body of `POST gems/yank`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Yank {
    pub name: String,
    pub number: String,
    /// None: `ruby`.
    #[serde(default)]
    pub platform: Option<String>,
}

/// The body of `POST gems/keys`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NewKey {
    /// The owner of the key, for people.
    pub name: String,
    pub scopes: Vec<Scope>,
    /// Gems that may be pushed and yanked; `*` matches any text; empty: all.
    #[serde(default)]
    pub gems: Vec<Pattern>,
    /// None: it does not expire.
    #[serde(default)]
    pub expires_after_seconds: Option<u64>,
}

/// A created key.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CreatedKey {
    /// The key's text, which is not stored and cannot be shown again.
    pub secret: String,
    #[serde(flatten)]
    pub key: view::KeyView,
}

/// The body of `POST gems/keys/revoke`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Revoke {
    pub id: u64,
}

fn routes() -> ApiRoutes<Arc<Gems>> {
    ApiRoutes::new()
        .route("/overview", get(overview))
        .route("/names", get(names))
        .route("/gem", get(gem))
        .route("/dependents", get(async || errors::removed(DEPENDENTS_HINT)))
        .route("/latest", get(async || errors::removed(LATEST_HINT)))
        .route("/webhooks", get(webhooks))
        .route("/yank", post(yank))
        .route("/rebaseline", post(rebaseline))
        .route("/keys", get(keys).post(create_key))
        .route("/keys/revoke", post(revoke_key))
        .route("/mirror", get(mirror::state))
        .route("/mirror/sync", post(mirror::sync))
        .route("/mirror/accept", post(mirror::accept))
}

/// Returns the descriptions of the routes.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the routes; without gems they return an error.
pub fn router(gems: Option<OperatedGems>) -> Router {
    let Some(OperatedGems { index, .. }) = gems else {
        return errors::router();
    };
    let pages = routes()
        .into_router()
        .fallback(async || AdminError::no_such_page())
        .method_not_allowed_fallback(async || AdminError::wrong_method())
        .with_state(index);
    Router::new().nest("/gems", pages)
}

const DEPENDENTS_HINT: &str = "use `gem dependency NAME --reverse-dependencies --remote`";
const LATEST_HINT: &str = "read the end of /versions: curl -r -4096 ADDRESS/versions";

async fn overview(State(index): State<Arc<Gems>>) -> AdminResult<view::Overview> {
    index.overview().await.map(Json).map_err(errors::store_error)
}

#[derive(Deserialize, JsonSchema)]
struct NamesQuery {
    #[serde(default)]
    search: String,
    after: Option<String>,
    limit: Option<usize>,
}

async fn names(
    State(index): State<Arc<Gems>>,
    Params(query): Params<NamesQuery>,
) -> AdminResult<view::NamePage> {
    let page = index.names(&query.search, query.after.as_deref(), row_limit(query.limit)).await;
    page.map(Json).map_err(errors::store_error)
}

#[derive(Deserialize, JsonSchema)]
struct GemQuery {
    name: String,
    limit: Option<usize>,
}

async fn gem(
    State(index): State<Arc<Gems>>,
    Params(query): Params<GemQuery>,
) -> AdminResult<view::GemView> {
    let gem = index.gem(&query.name, row_limit(query.limit)).await.map_err(errors::store_error)?;
    gem.map(Json).ok_or_else(|| errors::no_such_gem(&query.name))
}

async fn webhooks(State(index): State<Arc<Gems>>) -> AdminResult<Vec<view::EndpointView>> {
    index.webhooks().await.map(Json).map_err(errors::store_error)
}

async fn yank(
    State(index): State<Arc<Gems>>,
    JsonInput(yank): JsonInput<Yank>,
) -> AdminResult<Done> {
    let name = yank.name.parse().map_err(errors::invalid_input)?;
    let identity = identity(&yank.number, yank.platform.as_deref())?;
    index.yank_by_operator(&name, &identity).await.map_err(errors::yank_error)?;
    Ok(Json(Done::new()))
}

async fn rebaseline(State(index): State<Arc<Gems>>) -> AdminResult<Done> {
    index.rebaseline().await.map_err(errors::store_error)?;
    Ok(Json(Done::new()))
}

async fn keys(State(index): State<Arc<Gems>>) -> AdminResult<Vec<view::KeyView>> {
    index.keys().await.map(Json).map_err(errors::store_error)
}

async fn create_key(
    State(index): State<Arc<Gems>>,
    JsonInput(new): JsonInput<NewKey>,
) -> AdminResult<CreatedKey> {
    check_key(&new)?;
    let new_key = KeyWanted {
        name: new.name,
        scopes: new.scopes,
        gems: new.gems,
        expires_after: new.expires_after_seconds.map(Duration::from_secs),
    };
    let (secret, key) = index.create_key(new_key).await.map_err(errors::store_error)?;
    Ok(Json(CreatedKey { secret: secret.expose().to_owned(), key }))
}

/// Rejects a key without a name or scopes, and names with control characters for terminals.
fn check_key(new: &NewKey) -> Result<(), AdminError> {
    if new.name.trim().is_empty() || new.scopes.is_empty() {
        return Err(errors::incomplete_key());
    }
    if new.name.contains(char::is_control) {
        return Err(errors::unprintable_key());
    }
    let characters = new.name.chars().count();
    if characters > KEY_NAME_CHARACTERS_MAX {
        return Err(errors::long_key(characters));
    }
    let only_reads = new.scopes.iter().all(|scope| *scope == Scope::IndexRubygems);
    if only_reads && !new.gems.is_empty() {
        return Err(errors::read_key_with_gems());
    }
    match new.expires_after_seconds {
        Some(0) => Err(errors::expired_key()),
        _ => Ok(()),
    }
}

async fn revoke_key(
    State(index): State<Arc<Gems>>,
    JsonInput(Revoke { id }): JsonInput<Revoke>,
) -> AdminResult<Done> {
    match index.revoke_key(id).await.map_err(errors::store_error)? {
        true => Ok(Json(Done::new())),
        false => Err(errors::no_such_key(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_keys_are_rejected() {
        let key = |name: &str, expires_after_seconds| NewKey {
            name: name.to_owned(),
            scopes: vec![Scope::PushRubygem],
            gems: Vec::new(),
            expires_after_seconds,
        };
        assert!(check_key(&key("the build of shop \u{e4}", None)).is_ok());
        assert!(check_key(&key("ci", Some(1))).is_ok());
        let longest = "\u{e4}".repeat(KEY_NAME_CHARACTERS_MAX);
        assert!(check_key(&key(&longest, None)).is_ok());
        let reading = |also: &[Scope], gems: &[&str]| NewKey {
            scopes: [&[Scope::IndexRubygems], also].concat(),
            gems: gems.iter().map(|gem| gem.parse().expect("a pattern")).collect(),
            ..key("ci", None)
        };
        assert!(check_key(&reading(&[], &[])).is_ok());
        // What it pushes is limited, what it reads is not.
        assert!(check_key(&reading(&[Scope::PushRubygem], &["shop-*"])).is_ok());
        for wrong in [
            key("ci", Some(0)),
            key(" ", None),
            key("a\x1b[31mred", None),
            key("a\nb", None),
            key(&format!("{longest}x"), None),
            NewKey { scopes: Vec::new(), ..key("ci", None) },
            reading(&[], &["shop-*"]),
        ] {
            assert!(check_key(&wrong).is_err(), "{wrong:?}");
        }
    }
}
