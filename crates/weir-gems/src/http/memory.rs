//! Memory of answers that are there for one client alone, from when they are written until it has
//! taken them. Clients that don't read hold no more than a budget, and not for ever; who finds nothing
//! left of it is told to come again.

use bytes::Bytes;
use hyper::{Response, StatusCode};
use weir_net::server::{AnswerWithin, Body};

use super::representation::{Described, bytes};
use super::{Answer, Call, Failure, Gems};
use crate::metrics::{Budget, Room};
use crate::settings::GemsLimits;

/// Bytes with their part of a budget.
struct Kept<B> {
    bytes: B,
    _room: Room,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Kept<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<S> Gems<S> {
    /// Room for so many bytes.
    pub(super) fn room(
        &self,
        budget: Budget,
        bytes: usize,
        limits: &GemsLimits,
    ) -> Result<Room, Failure> {
        let bytes_max = match budget {
            Budget::Dependencies => limits.dependency_memory_bytes_max,
            Budget::Infos => limits.info_memory_bytes_max,
        };
        self.metrics.room(budget, bytes as u64, bytes_max).ok_or_else(|| {
            let limit = budget.limit();
            self.metrics.limit_hit(limit);
            let text = format!(
                "too many answers wait for clients that don't read them (gems.limits.{}); try again",
                limit.name()
            );
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })
    }

    /// The bytes, with room for them until they are sent or their client is gone.
    pub(super) fn kept<B>(
        &self,
        budget: Budget,
        bytes: B,
        limits: &GemsLimits,
    ) -> Result<Bytes, Failure>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let room = self.room(budget, bytes.as_ref().len(), limits)?;
        Ok(Bytes::from_owner(Kept { bytes, _room: room }))
    }

    /// The answer with bytes that are there for this client alone.
    pub(super) fn for_one<B>(&self, call: &Call<'_>, described: Described, content: B) -> Answer
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let limits = &call.settings.limits;
        let content = self.kept(Budget::Infos, content, limits)?;
        Ok(with_end(bytes(call.request, described, &content), limits))
    }
}

/// An answer that holds room: its client has so long to take it.
pub(super) fn with_end(mut answer: Response<Body>, limits: &GemsLimits) -> Response<Body> {
    answer.extensions_mut().insert(AnswerWithin(limits.answer_timeout));
    answer
}
