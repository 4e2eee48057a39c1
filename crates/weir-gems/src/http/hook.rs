//! Handlers of the webhooks that upstreams send: `POST /api/v1/add_spec.json`,
//! `/api/v1/remove_spec.json`, `/api/v1/hooks/rubygems`.

use hyper::{Response, StatusCode};
use weir_net::server::ResponseBody;

use super::patient::RequestBody;
use super::representation::TEXT;
use super::{Answer, Call, Failure, Gems};
use crate::mirror::{HookAnswer, HookRoute};

impl Gems {
    pub(super) async fn hook(
        &self,
        call: &Call<'_>,
        route: HookRoute,
        body: RequestBody,
    ) -> Answer {
        let Some(mirror) = self.mirror.get() else {
            return Err(Failure::not_found("there is no mirror here that takes webhooks"));
        };
        let body = self.receive_text(body).await?;
        let refused = |status, text: &str| Err(Failure::new(status, text));
        match mirror.hook(route, &call.request.headers, &body).await? {
            HookAnswer::Taken => {
                let mut response = Response::new(ResponseBody::from("taken\n"));
                response.headers_mut().insert(hyper::header::CONTENT_TYPE, TEXT);
                Ok(response)
            }
            HookAnswer::Denied => refused(
                StatusCode::FORBIDDEN,
                "no upstream has this secret (gems.mirror.upstreams.hook_secret)",
            ),
            HookAnswer::Malformed(problem) => refused(StatusCode::BAD_REQUEST, &problem),
            HookAnswer::Full => refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many webhooks wait (gems.mirror.limits.advanced.hooks_waiting_max); send it again",
            ),
        }
    }
}
