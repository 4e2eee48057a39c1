//! MUTATE: applies an action to the jobs of a set.

use serde::Deserialize;

use super::error::FaktoryError;
use super::payload;
use super::replies::FaktoryReply;
use crate::model::{JobLocation, SetName};
use crate::server::{JobService, search, walk};
use crate::settings::JobServerSettings;
use crate::store::{Action, Filter, Store};

const COMMAND: &str = "MUTATE";

#[derive(Deserialize)]
struct MutateText {
    cmd: String,
    target: String,
    filter: Option<FilterText>,
}

#[derive(Default, Deserialize)]
struct FilterText {
    jids: Option<Vec<String>>,
    /// A glob, despite its name.
    regexp: Option<String>,
    jobtype: Option<String>,
}

/// Runs `MUTATE {cmd,target,filter?}`. Replies `+OK` once it is done, however many jobs matched.
pub(super) async fn mutate<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    json: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let text: MutateText = payload::parse(COMMAND, json)?;
    let set =
        SetName::ALL.into_iter().find(|set| set.as_str() == text.target).ok_or_else(|| {
            FaktoryError::malformed(COMMAND, "target must be retries, scheduled or dead")
        })?;
    let filter = to_filter(text.filter.unwrap_or_default());
    let (action, filter) = match text.cmd.as_str() {
        "kill" => (Action::Kill, filter),
        "discard" => (Action::Discard, filter),
        "requeue" => (Action::Requeue, filter),
        "clear" => (Action::Discard, Filter::default()),
        _ => {
            let reason = "cmd must be clear, kill, discard or requeue";
            return Err(FaktoryError::malformed(COMMAND, reason));
        }
    };
    walk::act_on_matching(service, settings, &JobLocation::Set(set), filter, action).await?;
    Ok(FaktoryReply::Ok)
}

fn to_filter(text: FilterText) -> Filter {
    let nonempty = |text: Option<String>| text.filter(|text| !text.is_empty());
    Filter {
        pattern: nonempty(text.regexp).map(|glob| search::anywhere(&glob)),
        jobtype: nonempty(text.jobtype),
        jids: text.jids.unwrap_or_default(),
    }
}
