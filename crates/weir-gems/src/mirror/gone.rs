//! Limits how many names are removed because an upstream no longer lists them. An upstream that
//! loses its data may lose it gradually, so removals are added up over a time window.

use super::error::Problem;
use super::settings::MirrorLimits;
use super::{Mirror, Upstream};
use crate::store::StoreError;
use crate::store::mirror::Gone;

impl Mirror {
    /// Checks whether `gone` names with versions may be missing from a list that now has `listed`
    /// names.
    pub(super) async fn check_gone_from_list(
        &self,
        upstream: &Upstream,
        gone: usize,
        listed: usize,
    ) -> Result<(), Problem> {
        if gone == 0 {
            return Ok(());
        }
        let lately = self.gone_lately(upstream).await?;
        check_count(&self.limits, lately, gone)?;
        check_part(&self.limits, lately, gone, listed)
    }

    /// Counts names that are about to be removed. Fails if there are too many.
    pub(super) async fn count_gone(&self, upstream: &Upstream, gone: usize) -> Result<(), Problem> {
        if gone == 0 {
            return Ok(());
        }
        let lately = self.gone_lately(upstream).await?;
        check_count(&self.limits, lately, gone)?;
        let since = lately.since.unwrap_or_else(|| self.clock.now());
        let gone = Gone { since: Some(since), names: lately.names.saturating_add(gone as u64) };
        Ok(self.store.keep_gone(upstream.name.as_str(), gone).await?)
    }

    async fn gone_lately(&self, upstream: &Upstream) -> Result<Gone, StoreError> {
        let gone = self.store.gone(upstream.name.as_str()).await?;
        let (now, window) = (self.clock.now(), self.limits.names_gone_window);
        let is_over = gone.since.is_none_or(|since| now.since(since) >= window);
        Ok(if is_over { Gone::default() } else { gone })
    }
}

fn check_count(limits: &MirrorLimits, lately: Gone, gone: usize) -> Result<(), Problem> {
    let (gone, max) = (with(lately, gone), limits.names_gone_max);
    match gone > max {
        true => Err(Problem::Vanished { gone, limit: "names_gone_max", max, of: "" }),
        false => Ok(()),
    }
}

/// Checks the share of missing names in the previous list.
fn check_part(
    limits: &MirrorLimits,
    lately: Gone,
    gone: usize,
    listed: usize,
) -> Result<(), Problem> {
    let (gone, max) = (with(lately, gone), usize::from(limits.names_gone_percent_max));
    match gone.saturating_mul(100) > listed.saturating_add(gone).saturating_mul(max) {
        true => {
            let of = " % of those that it had";
            Err(Problem::Vanished { gone, limit: "names_gone_percent_max", max, of })
        }
        false => Ok(()),
    }
}

fn with(lately: Gone, gone: usize) -> usize {
    usize::try_from(lately.names).unwrap_or(usize::MAX).saturating_add(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_lately_counts_with_what_is_gone_now() {
        let limits = MirrorLimits { names_gone_max: 60, ..MirrorLimits::default() };
        for (lately, gone, listed, count, part) in [
            (0, 60, 60, true, true),
            (0, 61, 61, false, true),
            (40, 20, 40, true, false),
            (40, 20, 60, true, true),
            (40, 21, 100, false, true),
            (u64::MAX, 1, usize::MAX, false, true),
        ] {
            let lately = Gone { since: None, names: lately };
            assert_eq!(check_count(&limits, lately, gone).is_ok(), count, "{lately:?} {gone}");
            assert_eq!(
                check_part(&limits, lately, gone, listed).is_ok(),
                part,
                "{lately:?} {gone}"
            );
        }
    }
}
