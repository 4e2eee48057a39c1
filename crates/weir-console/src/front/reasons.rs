//! Why requests got no response of a worker, in words. The names are those of settings and metrics.

use weir_front::view::ReasonCount;

use crate::figures;

/// The reason of requests that a shed rule rejects.
pub(super) const SHED: &str = "shed";

/// Returns a reason in words; its own name if it has none.
pub(crate) fn reason_text(reason: &str) -> &str {
    match reason {
        "queue_max" => "queue full",
        "queue_timeout" => "waited too long",
        "overload" => "latency target missed",
        "streams" => "too many streams",
        "clients.streams_max" => "too many streams of one client",
        "bad_request" => "invalid request",
        "unreachable" => "no worker reachable",
        "broken" => "connection closed by the worker",
        "answer_head" => "response head too large",
        "service_timeout" => "no response in time",
        "client_gone" => "client disconnected",
        SHED => "job queue late",
        "maintenance" => "maintenance page",
        other => other,
    }
}

/// Formats counts by reason: `queue full`, `queue full 30, waited too long 4`.
pub(crate) fn reasons_text(counts: &[ReasonCount]) -> String {
    match counts {
        [only] => reason_text(only.reason).to_owned(),
        counts => {
            let text = |entry: &ReasonCount| {
                format!("{} {}", reason_text(entry.reason), figures::count(entry.count))
            };
            counts.iter().map(text).collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_front::view::TotalsView;

    use super::*;

    #[test]
    fn reasons_are_words_with_counts_if_there_are_several() {
        let entry = |reason, count| ReasonCount { reason, count };
        assert_eq!(reasons_text(&[entry("queue_max", 80_727)]), "queue full");
        let two = [entry("queue_max", 80_727), entry("overload", 4)];
        assert_eq!(reasons_text(&two), "queue full 80,727, latency target missed 4");
        assert_eq!(reasons_text(&TotalsView::default().rejections), "");
    }
}
