//! A release as JSON, in the format of rubygems.org. Fields that are unknown here (downloads,
//! development dependencies) have empty values.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use crate::index::versions::Change;
use crate::name::GemName;
use crate::package::About;
use crate::release::Release;

/// The part that is stored with an event.
#[derive(Serialize)]
struct Kept<'a> {
    name: &'a str,
    downloads: u64,
    version: &'a str,
    version_created_at: String,
    version_downloads: u64,
    platform: &'a str,
    authors: String,
    info: &'a str,
    licenses: &'a [String],
    metadata: &'a BTreeMap<String, String>,
    yanked: bool,
    sha: String,
    homepage_uri: Option<&'a str>,
    wiki_uri: Option<&'a String>,
    documentation_uri: Option<&'a String>,
    mailing_list_uri: Option<&'a String>,
    source_code_uri: Option<&'a String>,
    bug_tracker_uri: Option<&'a String>,
    changelog_uri: Option<&'a String>,
    funding_uri: Option<&'a String>,
    dependencies: Dependencies<'a>,
}

#[derive(Serialize)]
struct Dependencies<'a> {
    development: [Dependency<'a>; 0],
    runtime: Vec<Dependency<'a>>,
}

#[derive(Serialize)]
struct Dependency<'a> {
    name: &'a str,
    requirements: String,
}

/// The part that is added when the event is sent.
#[derive(Serialize)]
struct Addresses {
    project_uri: Option<String>,
    gem_uri: Option<String>,
}

/// Returns the release without URLs of this index. `about` is the stored descriptive JSON of its
/// specification.
pub(crate) fn write(
    name: &GemName,
    release: &Release,
    about: Option<&str>,
    change: Change,
) -> String {
    // JSON that can't be parsed is treated as empty.
    let about: About = about.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let link = |key: &str| about.metadata.get(key);
    let description = about.description.as_deref().filter(|text| !text.is_empty());
    let runtime = release.dependencies.iter().map(|(name, requirement)| Dependency {
        name,
        requirements: requirement.replace('&', ", "),
    });
    let kept = Kept {
        name: name.as_str(),
        downloads: 0,
        version: release.identity.number.as_str(),
        version_created_at: iso8601(release.created_at),
        version_downloads: 0,
        platform: release.identity.platform.as_str(),
        authors: about.authors.join(", "),
        info: description.unwrap_or(&about.summary),
        licenses: &about.licenses,
        metadata: &about.metadata,
        yanked: change == Change::Yanked,
        sha: release.checksum.to_string(),
        homepage_uri: about.homepage.as_deref(),
        wiki_uri: link("wiki_uri"),
        documentation_uri: link("documentation_uri"),
        mailing_list_uri: link("mailing_list_uri"),
        source_code_uri: link("source_code_uri"),
        bug_tracker_uri: link("bug_tracker_uri"),
        changelog_uri: link("changelog_uri"),
        funding_uri: link("funding_uri"),
        dependencies: Dependencies { development: [], runtime: runtime.collect() },
    };
    // This can't fail: texts, numbers and maps with text keys always have a JSON form.
    serde_json::to_string(&kept).unwrap_or_default()
}

fn iso8601(at: Timestamp) -> String {
    let millis = i64::try_from(at.as_millis()).unwrap_or_default();
    let at = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}

/// Returns the body of a request: the stored part with URLs below `public_url`.
pub(crate) fn with_addresses(kept: &str, full_name: &str, public_url: Option<&str>) -> String {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        kept: BTreeMap<&'a str, &'a RawValue>,
        #[serde(flatten)]
        addresses: Addresses,
    }
    let base = public_url.map(|url| url.trim_end_matches('/'));
    let addresses = Addresses {
        // This index has no pages for people.
        project_uri: None,
        gem_uri: base.map(|base| format!("{base}/gems/{full_name}.gem")),
    };
    let body = serde_json::from_str(kept).ok().map(|kept| Body { kept, addresses });
    body.and_then(|body| serde_json::to_string(&body).ok()).unwrap_or_else(|| kept.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::release::{Checksum, Identity};

    fn release() -> Release {
        Release {
            identity: Identity {
                number: "1.2".parse().unwrap(),
                platform: "java".parse().unwrap(),
            },
            dependencies: "rack:< 4&>= 2".parse().unwrap(),
            checksum: Checksum([0xab; 32]),
            ruby: None,
            rubygems: None,
            created_at: Timestamp::from_millis(1_700_000_000_123),
        }
    }

    #[test]
    fn the_shape_is_that_of_rubygems_org() {
        let about = json!({
            "summary": "A shop", "description": null, "authors": ["A", "B"], "email": [],
            "homepage": "https://shop.example", "licenses": ["MIT"],
            "metadata": {"changelog_uri": "https://shop.example/changes"}, "date": null,
            "rubygems_version": "3", "specification_version": 4
        });
        let name = "shop".parse().unwrap();
        let kept = write(&name, &release(), Some(&about.to_string()), Change::Pushed);
        let url = Some("https://gems.example/");
        let body = with_addresses(&kept, "shop-1.2-java", url);
        let expected = json!({
            "name": "shop", "downloads": 0, "version": "1.2",
            "version_created_at": "2023-11-14T22:13:20.123Z", "version_downloads": 0,
            "platform": "java", "authors": "A, B", "info": "A shop", "licenses": ["MIT"],
            "metadata": {"changelog_uri": "https://shop.example/changes"}, "yanked": false,
            "sha": "ab".repeat(32), "project_uri": null,
            "gem_uri": "https://gems.example/gems/shop-1.2-java.gem",
            "homepage_uri": "https://shop.example", "wiki_uri": null, "documentation_uri": null,
            "mailing_list_uri": null, "source_code_uri": null, "bug_tracker_uri": null,
            "changelog_uri": "https://shop.example/changes", "funding_uri": null,
            "dependencies": {
                "development": [],
                "runtime": [{"name": "rack", "requirements": "< 4, >= 2"}]
            }
        });
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), expected);
    }

    #[test]
    fn nothing_is_made_up() {
        let kept = write(&"shop".parse().unwrap(), &release(), None, Change::Yanked);
        let body = with_addresses(&kept, "shop-1.2-java", None);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["yanked"], &body["info"]), (&json!(true), &json!("")));
        assert_eq!((&body["gem_uri"], &body["project_uri"]), (&Value::Null, &Value::Null));
    }
}
