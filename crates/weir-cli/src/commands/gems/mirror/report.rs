//! The report of a synchronization.

use weir_gems::view::{LookView, MirrorView, ReadView, UpstreamView};

use crate::exit::Exit;
use crate::output::{self, count};
use weir_config::units;

/// Prints the result for each upstream; errors and remedies go to standard error.
pub(super) fn print(view: &MirrorView, is_json: bool) -> anyhow::Result<Exit> {
    if is_json {
        output::json(view)?;
    } else {
        view.upstreams.iter().for_each(print_upstream);
    }
    let is_done = |upstream: &UpstreamView| {
        let left = |it: &LookView| it.failed + it.denied + it.files_failed + it.waiting;
        let is_brought = upstream.last_result.as_ref().map(left) == Some(0);
        upstream.last_error.is_none() && upstream.replaced == 0 && is_brought
    };
    Ok(if view.upstreams.iter().all(is_done) { Exit::Fine } else { Exit::Failed })
}

fn print_upstream(upstream: &UpstreamView) {
    let name = &upstream.name;
    if let Some(error) = &upstream.last_error {
        return output::note(&format!("{name}: {}", output::printable(error)));
    }
    let Some(sync) = &upstream.last_result else { return };
    output::line(&format!("{name}: {}; {}", describe_changes(sync), describe_cost(sync)));
    output::line(&format!("{name}: {}", describe_names(upstream)));
    for (number, of, what) in [
        (sync.failed, "name", "could not be synchronized: run the command again"),
        (sync.waiting, "name", "are waiting for an earlier upstream that does not respond"),
        (sync.files_failed, "file", "could not be fetched: run the command again"),
        (sync.left_out, "line", "skipped as invalid"),
    ] {
        if number > 0 {
            output::note(&format!("{name}: {} {what}", count(number, of)));
        }
    }
    if let Some(replaced) = describe_replaced(upstream) {
        output::note(&format!("{name}: {replaced} (weir gems mirror status)"));
    }
    if let Some(denied) = describe_denied(upstream) {
        output::note(&format!("{name}: {denied}"));
    }
    if let Some(reason) = &upstream.last_miss {
        output::note(&format!("{name}: last error: {}", output::printable(reason)));
    }
}

/// Describes the blocked versions; None: none.
fn describe_replaced(upstream: &UpstreamView) -> Option<String> {
    let versions = count(upstream.replaced, "version");
    let text = format!("{versions} rejected: the upstream has replaced the file");
    (upstream.replaced > 0).then_some(text)
}

/// Describes the names that the last synchronization denied; None: none.
pub(super) fn describe_denied(upstream: &UpstreamView) -> Option<String> {
    let total = upstream.last_result.as_ref()?.denied;
    let names = upstream.denied_names.join(", ");
    let more = match total.saturating_sub(upstream.denied_names.len() as u64) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (total > 0).then(|| {
        format!("{} denied by the upstream (401, 403): {names}{more}", count(total, "name"))
    })
}

fn describe_changes(sync: &LookView) -> String {
    if sync.names + sync.added + sync.yanked + sync.files == 0 {
        return match sync.read {
            _ if sync.failed + sync.denied > 0 => "nothing could be synchronized".to_owned(),
            ReadView::Whole => "compared everything, no differences".to_owned(),
            ReadView::Unchanged | ReadView::Tail => "nothing new".to_owned(),
        };
    }
    let mut parts = vec![format!("{} changed", count(sync.names, "name"))];
    for (number, what) in [
        (sync.added, "new version"),
        (sync.yanked, "yanked version"),
        (sync.changed, "changed version"),
        (sync.files, "fetched .gem file"),
    ] {
        if number > 0 {
            parts.push(count(number, what));
        }
    }
    parts.join(", ")
}

fn describe_cost(sync: &LookView) -> String {
    let LookView { requests, received_bytes, seconds, .. } = sync;
    let bytes = units::about_size(*received_bytes);
    format!("{}, {bytes}, {seconds:.1} s", count(*requests, "request"))
}

fn describe_names(upstream: &UpstreamView) -> String {
    let names = count(upstream.names, "name");
    match upstream.refused {
        0 => format!("{names} there"),
        refused => {
            format!("{names} at the upstream, {refused} of them rejected (weir gems mirror status)")
        }
    }
}
