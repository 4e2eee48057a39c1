//! Commands to an app and its workers: the same as on the command line.

use axum::response::{IntoResponse, Redirect};

use crate::front::AppCommand;
use crate::guard::form::CheckedForm;
use crate::page_error::PageError;
use crate::pages::request::{FormRequest, PageResult};

/// `POST /front/act`
pub(crate) async fn act(FormRequest { console, form, .. }: FormRequest) -> PageResult {
    let (action_name, command) = command(&form)?;
    let front = console.front()?;
    let app = form.get("app").unwrap_or_default();
    if !front.control.apps().iter().any(|existing| existing.name == app) {
        return Err(PageError::NotFound("the app no longer exists".to_owned()));
    }
    tracing::info!(?command, "console: command for workers");
    let executed = front.control.execute(command).await;
    executed.map_err(|error| PageError::Unavailable(error.to_string()))?;
    Ok(Redirect::to(&format!("/front?done={action_name}")).into_response())
}

fn command(form: &CheckedForm) -> Result<(&'static str, AppCommand), PageError> {
    let invalid = |text: &str| PageError::Invalid(text.to_owned());
    let app = form.get("app").ok_or_else(|| invalid("the form names no app"))?.to_owned();
    let number = |name: &str| form.get(name).map(str::parse::<u32>).transpose();
    let worker = number("worker").map_err(|_| invalid("the worker must be a number"))?;
    Ok(match form.get("do") {
        Some("restart") => {
            let action = if worker.is_some() { "restart-one" } else { "restart" };
            (action, AppCommand::Restart { app, worker })
        }
        Some("dump") => {
            let worker = worker.ok_or_else(|| invalid("the form names no worker"))?;
            ("dump", AppCommand::Dump { app, worker })
        }
        Some("scale") => {
            let processes = number("processes").ok().flatten();
            let processes = processes
                .ok_or_else(|| invalid("the number of workers must be a number from 1 up"))?;
            ("scale", AppCommand::Scale { app, processes })
        }
        Some("pause") => ("pause", AppCommand::Pause { app }),
        Some("resume") => ("resume", AppCommand::Resume { app }),
        Some("maintenance") => ("maintenance", AppCommand::Maintenance { app, is_on: true }),
        Some("serve") => ("serve", AppCommand::Maintenance { app, is_on: false }),
        _ => {
            return Err(invalid(
                "unknown action: an app can be restarted, scaled, paused, resumed or put into maintenance",
            ));
        }
    })
}

/// Returns the flash message. The texts are fixed, so a forged address cannot inject others.
pub(super) fn flash_message(action: &str) -> Option<&'static str> {
    match action {
        "restart" => {
            Some("The workers are being replaced one after the other. No request is lost.")
        }
        "restart-one" => Some("The worker stops once its successor is ready. No request is lost."),
        "dump" => Some("The worker was asked to log what it is doing. See the log."),
        "scale" => Some("Workers are being started or stopped to reach the new number."),
        "pause" => Some("The app is paused. Requests wait within the limits of the request queue."),
        "maintenance" => Some("All clients are shown the maintenance page."),
        "serve" => Some("Requests are served again."),
        "resume" => Some("Requests are served again."),
        _ => None,
    }
}
