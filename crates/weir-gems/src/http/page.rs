//! Handler of `/gems/NAME`: a page for people, if `gems.public_pages` is on. It is plain HTML
//! without external resources.

use std::fmt::Write;

use hyper::header::{self, HeaderValue};

use super::representation::Described;
use super::{Answer, Call, Failure, Gems};
use crate::index::digest::Digests;
use crate::view::{DependencyView, GemView, ReleaseView};

/// Maximum number of releases on a page; the newest are shown.
const RELEASES_MAX: usize = 100;
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const NOTHING_ELSE: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'",
);

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;\
                     color-scheme:light dark}table{border-collapse:collapse;width:100%}th,td{text-align:left;\
                     vertical-align:top;padding:.3rem .6rem .3rem 0;border-bottom:1px solid #8886;\
                     overflow-wrap:anywhere}pre{overflow-x:auto}";

impl Gems {
    pub(super) async fn page(&self, call: &Call<'_>, name: &str) -> Answer {
        if !call.settings.public_pages {
            return Err(Failure::not_found("there is nothing at this path"));
        }
        let Some(gem) = self.gem(name, RELEASES_MAX).await? else {
            return Err(Failure::not_found(format!("there is no gem {name:?} here")));
        };
        let page = write(&gem).into_bytes();
        let described = Described::by(&Digests::of(&page), page.len() as u64, HTML);
        let mut response = self.for_one(call, described, page)?;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, NOTHING_ELSE);
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Ok(response)
    }
}

fn write(gem: &GemView) -> String {
    let name = escaped(&gem.name);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{name}</title><style>{STYLE}</style></head><body><main>\n<h1>{name}</h1>\n\
         <pre><code>gem \"{name}\"</code></pre>\n<p>{}</p>\n<table>\n<thead><tr>\
         <th scope=\"col\">Version</th><th scope=\"col\">Runs on</th><th scope=\"col\">Needs</th>\
         </tr></thead>\n<tbody>\n",
        count(gem)
    );
    for release in &gem.releases {
        write_release(&mut page, release);
    }
    page.push_str("</tbody></table>\n</main></body></html>\n");
    page
}

fn count(gem: &GemView) -> String {
    match (gem.releases.len(), gem.releases_total) {
        (_, 1) => "One release".to_owned(),
        (shown, total) if shown < total => format!("{total} releases; the newest {shown}"),
        (_, total) => format!("{total} releases"),
    }
}

fn write_release(page: &mut String, release: &ReleaseView) {
    let platform = match release.platform.as_str() {
        "ruby" => String::new(),
        platform => format!(" <small>{}</small>", escaped(platform)),
    };
    let ruby = release
        .ruby
        .as_deref()
        .map_or_else(|| "any Ruby".to_owned(), |it| format!("Ruby {}", escaped(it)));
    let needs: Vec<String> = release.dependencies.iter().map(dependency).collect();
    let needs = if needs.is_empty() { "nothing".to_owned() } else { needs.join(", ") };
    // Writing to a String can't fail.
    let _ = writeln!(
        page,
        "<tr><th scope=\"row\">{}{platform}</th><td>{ruby}</td><td>{needs}</td></tr>",
        escaped(&release.number)
    );
}

/// Returns a link to a dependency's page, relative to this page so that it works under any mount.
fn dependency(dependency: &DependencyView) -> String {
    let name = escaped(&dependency.name);
    format!("<a href=\"./{name}\">{name}</a> {}", escaped(&dependency.requirement))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_text() {
        let release = ReleaseView {
            number: "1.0<b>".to_owned(),
            platform: "\"java\"".to_owned(),
            dependencies: vec![DependencyView {
                name: "rack'".to_owned(),
                requirement: ">= 1, < 2".to_owned(),
            }],
            sha256: String::new(),
            ruby: Some(">= 2.7".to_owned()),
            rubygems: None,
            bytes: None,
            downloads: 0,
        };
        let gem = GemView {
            name: "a&b".to_owned(),
            releases: vec![release],
            releases_total: 2,
            downloads: 7,
        };
        let page = write(&gem);
        for text in [
            "<h1>a&amp;b</h1>",
            "2 releases; the newest 1<",
            "1.0&lt;b&gt; <small>&quot;java&quot;</small>",
            "Ruby &gt;= 2.7",
            "<a href=\"./rack&#39;\">rack&#39;</a> &gt;= 1, &lt; 2",
        ] {
            assert!(page.contains(text), "{text} is not in {page}");
        }
    }
}
