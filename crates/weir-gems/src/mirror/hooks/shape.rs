//! Parses the formats of webhooks and verifies their authentication. Pure functions.
//!
//! The formats follow rubygems.org's `NotifyWebHookJob` and `WebHook#api_key` (`Authorization` is
//! the hex SHA-256 of the concatenated name, number and key; the key is itself hashed, unless the
//! account has one from before API keys had scopes), and the Bundler API's `add_spec.json` and
//! `remove_spec.json` (`rubygems_token` in the body).

use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use weir_base::clock::Timestamp;
use weir_base::secret::Secret;

use crate::mirror::door::HookRoute;
use crate::mirror::read::is_usable;
use crate::mirror::upstream_name::UpstreamName;
use crate::name::GemName;
use crate::platform::Platform;
use crate::release::Identity;
use crate::store::mirror::{HookKind, NewHook};

/// The members that are used; rubygems.org's payload has many more.
#[derive(Deserialize)]
struct Fields {
    name: String,
    version: String,
    platform: Option<String>,
    rubygems_token: Option<Secretive>,
    #[serde(default)]
    yanked: bool,
}

/// A text that Debug does not reveal.
#[derive(Deserialize)]
#[serde(transparent)]
struct Secretive(String);

/// A parsed webhook.
pub(super) struct Shape {
    route: HookRoute,
    fields: Fields,
}

impl Shape {
    pub(super) fn parse(route: HookRoute, body: &[u8]) -> Result<Self, String> {
        let fields = serde_json::from_slice(body).map_err(|error| {
            format!("a webhook is a JSON object with name, version and platform: {error}")
        })?;
        Ok(Self { route, fields })
    }

    /// Returns the upstream whose secret the webhook proves knowledge of.
    pub(super) fn sender<'a>(
        &self,
        authorization: Option<&str>,
        secrets: impl Iterator<Item = (&'a UpstreamName, &'a Secret)>,
    ) -> Option<&'a UpstreamName> {
        // Compare all secrets, so that the duration does not depend on which one matches.
        let mut sender = None;
        for (name, secret) in secrets {
            if self.proves(authorization, secret.expose()) && sender.is_none() {
                sender = Some(name);
            }
        }
        sender
    }

    fn proves(&self, authorization: Option<&str>, secret: &str) -> bool {
        if secret.is_empty() {
            return false;
        }
        let Fields { name, version, rubygems_token, .. } = &self.fields;
        match self.route {
            HookRoute::Rubygems => {
                let digest = Sha256::new().chain_update(name).chain_update(version);
                let signed_with = |key: &str| {
                    let expected = hex::encode(digest.clone().chain_update(key).finalize());
                    authorization.is_some_and(|given| is_same(given, &expected))
                };
                // rubygems.org stores an API key as its SHA-256 and signs with that text.
                signed_with(secret) | signed_with(&hex::encode(Sha256::digest(secret)))
            }
            HookRoute::AddSpec | HookRoute::RemoveSpec => {
                rubygems_token.as_ref().is_some_and(|given| is_same(&given.0, secret))
            }
        }
    }

    pub(super) fn hook(
        self,
        upstream: &UpstreamName,
        received_at: Timestamp,
    ) -> Result<NewHook, String> {
        let Fields { name, version, platform, yanked, .. } = self.fields;
        let name: GemName = name.parse().map_err(|error| format!("name: {error}"))?;
        if !is_usable(name.as_str()) {
            return Err(format!("name: no gem can be called {:?}", name.as_str()));
        }
        let platform = match platform {
            None => Platform::ruby(),
            Some(text) => text.parse().map_err(|error| format!("platform: {error}"))?,
        };
        let number = version.parse().map_err(|error| format!("version: {error}"))?;
        let is_removal = match self.route {
            HookRoute::Rubygems => yanked,
            HookRoute::AddSpec => false,
            HookRoute::RemoveSpec => true,
        };
        Ok(NewHook {
            upstream: upstream.to_string(),
            kind: if is_removal { HookKind::Removed } else { HookKind::Added },
            name,
            identity: Identity { number, platform },
            received_at,
        })
    }
}

fn is_same(given: &str, expected: &str) -> bool {
    given.as_bytes().ct_eq(expected.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1);

    fn sender(route: HookRoute, authorization: Option<&str>, body: &str) -> Option<String> {
        let names = [("one", "first"), ("two", "second"), ("none", "")];
        let all: Vec<(UpstreamName, Secret)> = names
            .iter()
            .map(|(name, secret)| (name.parse().unwrap(), Secret::new(*secret)))
            .collect();
        let shape = Shape::parse(route, body.as_bytes()).unwrap();
        let secrets = all.iter().map(|(name, secret)| (name, secret));
        shape.sender(authorization, secrets).map(ToString::to_string)
    }

    #[test]
    fn the_bundler_apis_hook_has_its_token_in_the_body() {
        let body = |token: &str| {
            format!(
                "{{\"name\":\"rack\",\"version\":\"1.0\",\"platform\":\"java\",\
                 \"prerelease\":false,\"rubygems_token\":\"{token}\"}}"
            )
        };
        for route in [HookRoute::AddSpec, HookRoute::RemoveSpec] {
            assert_eq!(sender(route, None, &body("second")).as_deref(), Some("two"));
            assert_eq!(sender(route, None, &body("third")), None);
            assert_eq!(sender(route, None, &body("")), None);
        }
        // The token of one format is not valid for the other.
        assert_eq!(sender(HookRoute::Rubygems, None, &body("second")), None);
        assert_eq!(sender(HookRoute::Rubygems, Some("second"), &body("second")), None);
        let shape = Shape::parse(HookRoute::RemoveSpec, body("x").as_bytes()).unwrap();
        let hook = shape.hook(&"one".parse().unwrap(), NOW).unwrap();
        assert_eq!(
            (hook.kind, hook.identity.to_string().as_str()),
            (HookKind::Removed, "1.0-java")
        );
    }

    #[test]
    fn rubygems_orgs_hook_is_signed() {
        // Computed with sha256sum of "rack1.0second".
        let signature = hex::encode(Sha256::digest("rack1.0second"));
        let body = "{\"name\":\"rack\",\"version\":\"1.0\",\"platform\":\"ruby\",\"downloads\":7}";
        let of = |given| sender(HookRoute::Rubygems, given, body);
        assert_eq!(of(Some(&signature)).as_deref(), Some("two"));
        assert_eq!(of(Some(&signature[1..])), None);
        assert_eq!(of(None), None);
        let other = body.replace("1.0", "1.1");
        assert_eq!(sender(HookRoute::Rubygems, Some(&signature), &other), None);
        // Computed with sha256sum of "rack1.0" followed by the sha256sum of "second", which is what
        // rubygems.org stores.
        let hashed = hex::encode(Sha256::digest("second"));
        let signature = hex::encode(Sha256::digest(format!("rack1.0{hashed}")));
        assert_eq!(of(Some(&signature)).as_deref(), Some("two"));
        let shape = Shape::parse(HookRoute::Rubygems, body.as_bytes()).unwrap();
        let hook = shape.hook(&"one".parse().unwrap(), NOW).unwrap();
        assert_eq!((hook.kind, hook.identity.to_string().as_str()), (HookKind::Added, "1.0"));
    }

    #[test]
    fn what_is_no_hook_is_told() {
        for body in ["", "[]", "{\"name\":\"a\"}", "{\"name\":1,\"version\":\"1\"}"] {
            assert!(Shape::parse(HookRoute::Rubygems, body.as_bytes()).is_err(), "{body}");
        }
        for (name, version, platform) in [
            ("a/b", "1", "ruby"),
            ("..", "1", "ruby"),
            (".", "1", "ruby"),
            ("a", "x", "ruby"),
            ("a", "1", "/"),
        ] {
            let body = format!(
                "{{\"name\":\"{name}\",\"version\":\"{version}\",\"platform\":\"{platform}\"}}"
            );
            let shape = Shape::parse(HookRoute::AddSpec, body.as_bytes()).unwrap();
            assert!(shape.hook(&"one".parse().unwrap(), NOW).is_err(), "{body}");
        }
    }
}
