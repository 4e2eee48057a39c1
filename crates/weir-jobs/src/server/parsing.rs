//! Parses what requests name: places, entries and filters.

use super::{JobService, search};
use crate::handle::{HandleError, JobQuery};
use crate::model::{EntryKey, JobLocation, QueueName, SetName};
use crate::store::{Filter, Store};

/// Parses `scheduled`, `retries`, `dead` or `queue:NAME`.
pub(super) fn parse_location<S: Store>(
    text: &str,
    service: &JobService<S>,
) -> Result<JobLocation, HandleError> {
    if let Some(name) = text.strip_prefix("queue:") {
        let name = QueueName::parse(name, &service.settings().limits)
            .map_err(|error| HandleError::Invalid(error.to_string()))?;
        return Ok(JobLocation::Queue(name));
    }
    let set = SetName::ALL.into_iter().find(|set| set.as_str() == text);
    set.map(JobLocation::Set).ok_or_else(|| {
        let hint = "scheduled, retries, dead or queue:NAME";
        HandleError::Invalid(format!("place {text:?} is not one of {hint}"))
    })
}

/// Parses the key of an entry.
pub(super) fn parse_key(text: &str) -> Result<EntryKey, HandleError> {
    text.parse()
        .map_err(|error: crate::model::EntryKeyError| HandleError::Invalid(error.to_string()))
}

/// Returns the filter of a query.
pub(super) fn query_filter(query: &JobQuery) -> Filter {
    let filter = parse_filter(query.search.as_deref(), query.jobtype.clone());
    Filter { jids: query.jid.iter().filter(|jid| !jid.is_empty()).cloned().collect(), ..filter }
}

/// Returns the filter for a search term and a jobtype; empty ones do not count.
pub(super) fn parse_filter(search: Option<&str>, jobtype: Option<String>) -> Filter {
    Filter {
        pattern: search.filter(|text| !text.is_empty()).map(search::pattern),
        jobtype: jobtype.filter(|text| !text.is_empty()),
        jids: Vec::new(),
    }
}
