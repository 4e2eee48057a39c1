//! Handlers of `/versions`, `/names` and `/info/NAME`.

use super::representation::{Described, TEXT, bytes};
use super::{Answer, Call, Failure, Gems, body};
use crate::store::TextKind;

impl Gems {
    /// Responds with a text. Digests, length and bytes are of one snapshot.
    pub(super) async fn text(&self, call: &Call<'_>, kind: TextKind) -> Answer {
        let text = self.store.text(kind).await?;
        let described = Described::by(&text.digests, text.length(), TEXT);
        Ok(described.answer(call.request, |range| body::of_text(&text, range)))
    }

    pub(super) async fn info(&self, call: &Call<'_>, name: &str) -> Answer {
        let Some(info) = self.store.info(name).await? else {
            return Err(Failure::not_found("This rubygem could not be found."));
        };
        let described = Described::by(&info.digests, info.content.len() as u64, TEXT);
        match info.content.is_unique() {
            true => self.for_one(call, described, info.content),
            // The store has this content in memory anyway, so it needs no budget.
            false => Ok(bytes(call.request, described, &info.content)),
        }
    }
}
