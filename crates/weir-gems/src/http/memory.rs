//! Memory of answers that are there for one client alone, from when they are written until it has
//! taken them. Clients that don't read hold no more than a budget, one of them no more than its part of
//! it, and not for ever; who finds nothing left is told to come again.

use bytes::Bytes;
use hyper::{Response, StatusCode};
use weir_net::client::ClientAddress;
use weir_net::server::{AnswerWithin, ResponseBody};

use super::representation::{Described, bytes};
use super::{Answer, Call, Failure, Gems};
use crate::metrics::{Budget, Limit, Room, RoomMax};
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

/// Whose memory an answer takes.
#[derive(Clone, Copy)]
pub(super) struct Account {
    budget: Budget,
    client: Option<ClientAddress>,
}

impl Account {
    pub(super) fn of(call: &Call<'_>, budget: Budget) -> Self {
        Self { budget, client: call.request.extensions.get().copied() }
    }

    fn max(self, limits: &GemsLimits) -> RoomMax {
        let together = match self.budget {
            Budget::Dependencies => limits.dependency_memory_bytes_max,
            Budget::Infos => limits.info_memory_bytes_max,
        };
        let part = together / 100 * u64::from(limits.client_memory_percent_max);
        // Whoever asks for a single answer gets it, however small the budget is.
        RoomMax { together, of_client: part.max(limits.dependency_answer_bytes_max as u64) }
    }
}

impl Gems {
    /// Room for so many bytes.
    pub(super) fn room(
        &self,
        account: Account,
        bytes: usize,
        limits: &GemsLimits,
    ) -> Result<Room, Failure> {
        let Account { budget, client } = account;
        let room = self.metrics.room(budget, client, bytes as u64, account.max(limits));
        room.map_err(|limit| {
            let whose = match limit {
                Limit::ClientMemoryPercentMax => "you",
                _ => "clients",
            };
            let text = format!(
                "too many answers wait for {whose} to read them (gems.limits.{}); try again",
                limit.name()
            );
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })
    }

    /// The bytes, with room for them until they are sent or their client is gone.
    pub(super) fn kept<B>(
        &self,
        account: Account,
        bytes: B,
        limits: &GemsLimits,
    ) -> Result<Bytes, Failure>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let room = self.room(account, bytes.as_ref().len(), limits)?;
        Ok(Bytes::from_owner(Kept { bytes, _room: room }))
    }

    /// The answer with bytes that are there for this client alone.
    pub(super) fn for_one<B>(&self, call: &Call<'_>, described: Described, content: B) -> Answer
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let limits = &call.settings.limits;
        let content = self.kept(Account::of(call, Budget::Infos), content, limits)?;
        Ok(with_end(bytes(call.request, described, &content), limits))
    }
}

/// An answer that holds room: its client has so long to take it.
pub(super) fn with_end(
    mut answer: Response<ResponseBody>,
    limits: &GemsLimits,
) -> Response<ResponseBody> {
    answer.extensions_mut().insert(AnswerWithin(limits.answer_timeout));
    answer
}
