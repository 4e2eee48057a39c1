//! What can be done to an app and its workers: the same orders as by command.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};

use crate::console::Console;
use crate::front::Order;
use crate::guard::form::CheckedForm;
use crate::pages::PageError;

/// `POST /front/act`
pub(crate) async fn act(
    State(console): State<Arc<Console>>,
    form: CheckedForm,
) -> Result<Response, PageError> {
    let (word, order) = order(&form)?;
    let front = super::of(&console)?;
    let app = form.get("app").unwrap_or_default();
    if !front.operated.apps().iter().any(|known| known.name == app) {
        return Err(PageError::NotFound("there is no such app any more".to_owned()));
    }
    tracing::info!(?order, "console: an order for workers");
    let followed = front.operated.follow(order).await;
    followed.map_err(|refused| PageError::Unavailable(refused.to_string()))?;
    Ok(Redirect::to(&format!("/front?done={word}")).into_response())
}

fn order(form: &CheckedForm) -> Result<(&'static str, Order), PageError> {
    let invalid = |text: &str| PageError::Invalid(text.to_owned());
    let app = form.get("app").ok_or_else(|| invalid("which app?"))?.to_owned();
    let number = |name: &str| form.get(name).map(str::parse::<u32>).transpose();
    let worker = number("worker").map_err(|_| invalid("a worker has a number"))?;
    Ok(match form.get("do") {
        Some("restart") => {
            let word = if worker.is_some() { "restart-one" } else { "restart" };
            (word, Order::Restart { app, worker })
        }
        Some("dump") => {
            let worker = worker.ok_or_else(|| invalid("which worker?"))?;
            ("dump", Order::Dump { app, worker })
        }
        Some("scale") => {
            let processes = number("processes").ok().flatten();
            let processes = processes.ok_or_else(|| invalid("how many workers?"))?;
            ("scale", Order::Scale { app, processes })
        }
        Some("pause") => ("pause", Order::Pause { app }),
        Some("resume") => ("resume", Order::Resume { app }),
        Some("maintenance") => ("maintenance", Order::Maintenance { app, is_on: true }),
        Some("serve") => ("serve", Order::Maintenance { app, is_on: false }),
        _ => return Err(invalid("an app is restarted, scaled, paused or shown as in maintenance")),
    })
}

/// What was done, from fixed words: an address can't put others into the page.
pub(super) fn sentence(word: &str) -> Option<&'static str> {
    match word {
        "restart" => Some("The workers are replaced one after the other; no request is lost."),
        "restart-one" => Some("The worker ends once its successor is ready; no request is lost."),
        "dump" => Some("The worker was told to say what it is doing: see the log."),
        "scale" => Some("Workers are started or ended until there are as many as you asked for."),
        "pause" => Some("Requests wait now, within the limits of the queue."),
        "maintenance" => Some("Everybody is shown the maintenance page now."),
        "serve" => Some("Requests are served again."),
        "resume" => Some("Requests are served again."),
        _ => None,
    }
}
