//! Handler of `DELETE /api/v1/gems/yank`: yanks a release, which the form or the query identifies.

use hyper::{Response, StatusCode};
use weir_net::server::ResponseBody;

use super::authorize::check_gem;
use super::patient::RequestBody;
use super::representation::TEXT;
use super::{Answer, Call, Failure, Gems};
use crate::name::GemName;
use crate::platform::Platform;
use crate::release::Identity;
use crate::store::Scope;

impl Gems {
    pub(super) async fn yank(&self, call: &Call<'_>, body: RequestBody) -> Answer {
        self.authorize(call, Scope::YankRubygem).await?;
        let body = self.receive_text(body).await?;
        // As for a push, check the key again after the body was read.
        let key = self.authorize(call, Scope::YankRubygem).await?;
        let query = call.request.uri.query().unwrap_or_default();
        let (name, identity) = wanted(query.as_bytes(), &body)?;
        check_gem(&key, &name)?;
        self.store.yank(&name, &identity, self.clock.now()).await?;
        tracing::info!(gem = format!("{name}-{identity}"), key = key.id, "a gem was yanked");
        let text = format!("Successfully deleted gem: {name} ({identity})\n");
        let mut response = Response::new(ResponseBody::from(text));
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, TEXT);
        Ok(response)
    }
}

/// Parses the fields `gem_name`, `version` and `platform`.
fn wanted(query: &[u8], form: &[u8]) -> Result<(GemName, Identity), Failure> {
    let (mut name, mut number, mut platform) = (None, None, None);
    for (key, value) in form_urlencoded::parse(query).chain(form_urlencoded::parse(form)) {
        match &*key {
            "gem_name" => name = Some(value),
            "version" => number = Some(value),
            "platform" => platform = Some(value).filter(|platform| !platform.is_empty()),
            _ => {}
        }
    }
    let bad = |text: String| Failure::new(StatusCode::BAD_REQUEST, text);
    let missing = |field: &str| bad(format!("the field {field} is missing"));
    let name = name.ok_or_else(|| missing("gem_name"))?;
    let number = number.ok_or_else(|| missing("version"))?;
    let identity = Identity {
        number: number.parse().map_err(|error| bad(format!("version: {error}")))?,
        platform: match platform {
            None => Platform::ruby(),
            Some(text) => text.parse().map_err(|error| bad(format!("platform: {error}")))?,
        },
    };
    Ok((name.parse().map_err(|error| bad(format!("gem_name: {error}")))?, identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_named_by_a_form_or_by_the_query() {
        let form = wanted(b"", b"gem_name=a-b&version=1.0&platform=java").unwrap();
        assert_eq!((form.0.as_str(), form.1.to_string().as_str()), ("a-b", "1.0-java"));
        let query = wanted(b"gem_name=a&version=1&platform=", b"").unwrap();
        assert_eq!(query.1.to_string(), "1");
        for form in
            ["", "gem_name=a", "version=1", "gem_name=a&version=x", "gem_name=%2f&version=1"]
        {
            assert!(wanted(b"", form.as_bytes()).is_err(), "{form}");
        }
    }
}
