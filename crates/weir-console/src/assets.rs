//! Style and script. The style is part of the crate; the script is built from `web/` with npm.
//! Without it there are no charts and live updates, and the pages say so.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

/// The output of `npm run build` in `web/`; empty if it was not built.
const SCRIPT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/app.js"));
const CHART_STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/app.css"));
const STYLE: &[u8] = include_bytes!("../style/console.css");
const ICON: &[u8] = include_bytes!("../style/icon.svg");

/// Addresses of the files that the pages load. Each contains a hash of the content, so browsers may
/// cache it forever.
#[derive(Clone, Debug)]
pub(crate) struct AssetAddresses {
    pub(crate) style: String,
    pub(crate) icon: String,
    /// None: the bundle was not built.
    pub(crate) script: Option<String>,
    pub(crate) chart_style: Option<String>,
}

static ADDRESSES: LazyLock<AssetAddresses> = LazyLock::new(|| AssetAddresses {
    style: address("console.css", STYLE),
    icon: address("icon.svg", ICON),
    script: built(SCRIPT).map(|content| address("app.js", content)),
    chart_style: built(CHART_STYLE).map(|content| address("app.css", content)),
});

pub(crate) fn addresses() -> &'static AssetAddresses {
    &ADDRESSES
}

fn built(content: &'static [u8]) -> Option<&'static [u8]> {
    Some(content).filter(|content| !content.is_empty())
}

fn address(name: &str, content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    let version: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("/assets/{name}?{version}")
}

/// `GET /assets/{*path}`
pub(crate) async fn serve(Path(path): Path<String>) -> Response {
    const KEEP: (HeaderName, HeaderValue) =
        (CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    let content = match path.as_str() {
        "console.css" => Some(STYLE),
        "icon.svg" => Some(ICON),
        "app.js" => built(SCRIPT),
        "app.css" => built(CHART_STYLE),
        _ => None,
    };
    let Some(content) = content else {
        return (StatusCode::NOT_FOUND, "no such asset\n").into_response();
    };
    let content_type = (CONTENT_TYPE, HeaderValue::from_static(content_type(&path)));
    ([content_type, KEEP], content).into_response()
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
