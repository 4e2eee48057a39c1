//! Paths of the admin API with their parameters.

use anyhow::bail;
use weir_jobs::handle::JobQuery;
use weir_jobs::view::QueueView;

use crate::admin_client::AdminClient;
use weir_config::suggestion;

const SETS: [&str; 3] = ["scheduled", "retries", "dead"];

/// Returns `/v1/jobs/list?place=retries&limit=50`.
pub(super) fn path(request: &str, query: &JobQuery) -> String {
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    parameters.append_pair("place", &query.place);
    let texts = [
        ("search", &query.search),
        ("jobtype", &query.jobtype),
        ("jid", &query.jid),
        ("after", &query.after),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            parameters.append_pair(name, value);
        }
    }
    if let Some(limit) = query.limit {
        parameters.append_pair("limit", &limit.to_string());
    }
    if query.newest_first {
        parameters.append_pair("newest_first", "true");
    }
    format!("/v1/jobs/{request}?{}", parameters.finish())
}

/// Returns `/v1/jobs/job/JID`, with the jid escaped.
pub(super) fn job_path(jid: &str) -> String {
    // A path takes %20 where a form takes +.
    let encoded: String =
        form_urlencoded::byte_serialize(jid.as_bytes()).collect::<String>().replace('+', "%20");
    format!("/v1/jobs/job/{encoded}")
}

/// Returns the name of a place: `default` -> `queue:default`; sets keep their names.
pub(super) fn place_name(name: &str) -> String {
    match name {
        _ if SETS.contains(&name) => name.to_owned(),
        _ if name.starts_with("queue:") => name.to_owned(),
        _ => format!("queue:{name}"),
    }
}

/// Says so if there is no such queue. To be asked where nothing was found: listing all queues takes a
/// while where there are many.
pub(super) async fn reject_unknown(client: &mut AdminClient, place: &str) -> anyhow::Result<()> {
    let Some(name) = place.strip_prefix("queue:") else { return Ok(()) };
    let queues: Vec<QueueView> = client.get("/v1/jobs/queues").await?;
    if queues.iter().any(|queue| queue.name == name) {
        return Ok(());
    }
    let known = queues.iter().map(|queue| queue.name.as_str());
    let hint = suggestion(name, known.chain(SETS));
    bail!(
        "there is no queue {name:?}{hint}; name a queue, or one of the sets scheduled, retries and dead (`weir jobs list` shows them)"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_escaped() {
        let query = JobQuery {
            place: "queue:a".into(),
            search: Some("a&b=c d".into()),
            limit: Some(5),
            newest_first: true,
            ..JobQuery::default()
        };
        assert_eq!(
            path("list", &query),
            "/v1/jobs/list?place=queue%3Aa&search=a%26b%3Dc+d&limit=5&newest_first=true"
        );
        assert_eq!(job_path("a b/?"), "/v1/jobs/job/a%20b%2F%3F");
    }

    #[test]
    fn name_without_prefix_is_a_queue() {
        assert_eq!(place_name("default"), "queue:default");
        assert_eq!(place_name("queue:dead"), "queue:dead");
        assert_eq!(place_name("dead"), "dead");
    }
}
